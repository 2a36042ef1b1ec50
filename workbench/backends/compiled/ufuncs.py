"""Loops of ufuncs inside kernels: NumPy's own, for a few lanes at a time.

A ufunc is a list of C functions, one for each combination of dtypes, and NumPy lets
everybody read it (`numpy/ufuncobject.h`). What no primitive and no scalar of a row
computes, as nearly all of `scipy.special`, is a call of such a function: its numbers
are the same to the last bit, and it deals with errors as it does for NumPy.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from workbench.backends.compiled import builder
from workbench.backends.compiled.machine import ADDRESSES, Definition, Machine
from workbench.errors import CompilerError

#: How the names of our functions begin that call a loop.
PREFIX = "workbench_loop_"


class _Ufunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`."""

    _fields_: ClassVar[Any] = [
        ("head", ctypes.c_char * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    ]


class UfuncLoop(NamedTuple):
    """A loop of a ufunc of one result.

    Attributes
    ----------
    function, data
        The names under which the linker finds the function, and where the pointer is
        that it takes last.
    inputs, output
        The kinds of entries.
    """

    function: str
    data: str
    inputs: tuple[str, ...]
    output: str


@cache
def find_loop(ufunc: np.ufunc, kinds: tuple[str, ...]) -> UfuncLoop | None:
    """Return the loop of a ufunc for these kinds, or None."""
    if sys.implementation.name != "cpython":  # an id is no address
        return None
    whole = _Ufunc.from_address(id(ufunc))
    counts = whole.nin, whole.nout, whole.nargs, whole.ntypes
    if counts != (ufunc.nin, 1, ufunc.nin + 1, ufunc.ntypes):
        return None  # of several results, or not laid out as known
    if whole.name != ufunc.__name__.encode():
        return None
    for i, types in enumerate(ufunc.types):
        *inputs, output = [np.dtype(c).str[1:] for c in types.replace("->", "")]
        if tuple(inputs) != kinds or not builder.KINDS.issuperset((*kinds, output)):
            continue
        if not whole.functions[i]:
            continue
        name = f"ufunc_{ufunc.__name__}_{'_'.join(kinds)}"
        pointers = ctypes.cast(whole.data, ctypes.c_void_p).value
        if not pointers:
            return None
        at = whole.functions[i], pointers + i * ctypes.sizeof(ctypes.c_void_p)
        names = name, f"{name}_data"
        if any(ADDRESSES.setdefault(*x) != x[1] for x in zip(names, at, strict=True)):
            return None  # another ufunc of this name is known by it
        return UfuncLoop(*names, kinds, output)
    return None


def has_error_settings() -> bool:
    """Return whether `scipy.special.errstate` is active, which threads do not share.

    SciPy keeps for each thread what becomes of errors: another core would lose them.
    """
    special = sys.modules.get("scipy.special")
    usual = {"memory": "raise"}
    return special is not None and any(
        action != usual.get(name, "ignore") for name, action in special.geterr().items()
    )


def call_ufunc(
    b: builder.EntryBuilder, ufunc: np.ufunc, *values: builder.Entry
) -> builder.Entry:
    """Call the loop of a ufunc for as many entries as there are lanes.

    Raises
    ------
    CompilerError
        If it has no loop of such kinds, or the device is not the CPU.
    """
    kinds = tuple(x.kind for x in values)
    loop = find_loop(ufunc, kinds) if isinstance(b, builder.Builder) else None
    if loop is None:
        raise CompilerError(f"no kernel computes {ufunc.__name__} of {kinds}.")
    assert isinstance(b, builder.Builder)
    symbol = _define_caller(b.machine, loop, b.lanes)
    b.declared.add(b.machine.definitions[symbol].declaration)
    b.symbols.add(symbol)
    parts = [y for x in values for y in builder.split_parts(x)]
    given = ", ".join(f"{b.type(x.kind)} {x.text}" for x in parts)
    type_ = _result_type(b, loop.output)
    made = b.emit(f"call {type_} @{symbol}({given})", loop.output)
    if loop.output not in builder.PARTS:
        return made
    part = builder.PARTS[loop.output]
    real, imag = (
        b.emit(f"extractvalue {type_} {made.text}, {i}", part) for i in (0, 1)
    )
    return builder.Complex(real, imag, loop.output)


# The function of vectors that calls a loop


def _define_caller(machine: Machine, loop: UfuncLoop, lanes: int) -> str:
    """Write the function for so many lanes, once; return its symbol.

    It takes both parts of complex values, and gives them as a structure.
    """
    symbol = f"{PREFIX}{loop.function}x{lanes}"
    if symbol in machine.definitions:
        return symbol
    b = builder.Builder(machine, lanes)
    given: list[str] = []
    places = []
    for kind in loop.inputs:
        part = builder.PARTS.get(kind, kind)
        values = []
        for _ in range(1 + (kind in builder.PARTS)):
            values.append(builder.Value(f"%x{len(given)}", part))
            given.append(f"{b.type(part)} {values[-1].text}")
        places.append(_reserve(b, kind))
        _store(b, values, kind, places[-1])
    places.append(_reserve(b, loop.output))
    sizes = [str(_size_of(kind)) for kind in (*loop.inputs, loop.output)]
    args = _tabulate(b, "ptr", places)
    count, steps = _tabulate(b, "i64", [str(lanes)]), _tabulate(b, "i64", sizes)
    data = b.emit(f"load ptr, ptr @{loop.data}", "i8").text
    b.line(
        f"call void @{loop.function}(ptr {args}, ptr {count}, ptr {steps}, ptr {data})"
    )
    made = _load(b, loop.output, places[-1])
    result = _result_type(b, loop.output)
    types = ", ".join(x.rpartition(" ")[0] for x in given)
    lines = [
        f"@{loop.data} = external global ptr",
        f"declare void @{loop.function}(ptr, ptr, ptr, ptr)",
        f"define {result} @{symbol}({', '.join(given)}) {{",
        "start:", *b.lines, f"  ret {result} {made}", "}",
    ]  # fmt: skip
    machine.definitions[symbol] = Definition(
        f"declare {result} @{symbol}({types})",
        "\n".join(lines),
        frozenset((loop.function, loop.data)),
        1,
    )
    return symbol


def _size_of(kind: str) -> int:
    """Return the bytes of an entry."""
    return 1 if kind == "b1" else int(kind[1:])


def _result_type(b: builder.Builder, kind: str) -> str:
    part = builder.PARTS.get(kind)
    return b.type(kind) if part is None else f"{{{b.type(part)}, {b.type(part)}}}"


def _reserve(b: builder.Builder, kind: str) -> str:
    """Return where as many entries as there are lanes have room."""
    return b.emit(f"alloca [{b.lanes * _size_of(kind)} x i8], align 64", "i8").text


def _tabulate(b: builder.Builder, word: str, entries: list[str]) -> str:
    """Return where words lie one after the other."""
    table = b.emit(f"alloca [{len(entries)} x {word}], align 8", "i8").text
    for k, entry in enumerate(entries):
        place = b.emit(f"getelementptr {word}, ptr {table}, i64 {k}", "i8").text
        b.line(f"store {word} {entry}, ptr {place}")
    return table


def _store(
    b: builder.Builder, values: list[builder.Value], kind: str, place: str
) -> None:
    """Store a value lane after lane, both parts of a complex one side by side."""
    for k, x in enumerate(values):
        part = x.kind
        step, size = _size_of(kind), _size_of(part)
        if part == "b1":
            byte = "i8" if b.lanes == 1 else f"<{b.lanes} x i8>"
            x = b.emit(f"zext {b.type('b1')} {x.text} to {byte}", "i1")
        for lane in range(b.lanes):
            one = x.text
            if b.lanes > 1:
                one = b.emit(f"extractelement {b.type(x.kind)} {one}, i64 {lane}",
                             part).text  # fmt: skip
            at = b.emit(f"getelementptr i8, ptr {place}, i64 {lane * step + k * size}",
                        "i8").text  # fmt: skip
            b.line(f"store {builder.TYPES[x.kind]} {one}, ptr {at}")


def _load(b: builder.Builder, kind: str, place: str) -> str:
    """Load a value that lies so."""
    part = builder.PARTS.get(kind, kind)
    stored = "i1" if part == "b1" else part
    step, size = _size_of(kind), _size_of(part)
    values = []
    for k in range(1 + (kind in builder.PARTS)):
        made = "poison"
        for lane in range(b.lanes):
            at = b.emit(f"getelementptr i8, ptr {place}, i64 {lane * step + k * size}",
                        "i8").text  # fmt: skip
            one = b.emit(f"load {builder.TYPES[stored]}, ptr {at}", stored).text
            if b.lanes > 1:
                pair = f"{b.type(stored)} {made}, {builder.TYPES[stored]} {one}"
                one = b.emit(f"insertelement {pair}, i64 {lane}", stored).text
            made = one
        if part == "b1":
            zero = "0" if b.lanes == 1 else "zeroinitializer"
            made = b.emit(f"icmp ne {b.type('i1')} {made}, {zero}", "b1").text
        values.append(made)
    if kind not in builder.PARTS:
        return values[0]
    result = _result_type(b, kind)
    made = "poison"
    for k, value in enumerate(values):
        made = b.emit(f"insertvalue {result} {made}, {b.type(part)} {value}, {k}",
                      part).text  # fmt: skip
    return made
