"""`make_entry`: a small program as a built-in function of Python, made of IR.

It checks each argument, takes arrays for the results, runs the program and returns, in
some tens of nanoseconds. An argument of another type, shape or memory is handed to the
slow way, which knows them all. It keeps Python's lock: only small programs have one.

The code reads arrays as NumPy's binary interface lays them out, and finds all it needs
in a table of addresses, which is the ``self`` of the function.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.lowering import (
    ChoiceStep,
    HostStep,
    KernelStep,
    LoopStep,
    Plan,
)
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.memory import make_block
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.systems import SystemStep
from workbench.core.types import Spec

#: A program has an entry if its kernels compute at most so many entries of nodes.
MOST_WORK = 20_000
#: Arrays that each result may use again: one is mostly still held by the caller.
SLOTS = 2

# Where NumPy's array object has what, and the numbers of its functions: parts of its
# binary interface.
_TYPE, _DATA, _RANK, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64
_ITEMS, _USED = 24, 16  # of a tuple or a list; of a mapping
_PLAIN = 0x1 | 0x100  # one after the other, aligned
_NEW, _SCALAR = 93, 60
_FASTCALL_WITH_KEYWORDS = 0x0082

#: The first words of the table.
_WORDS = (
    "array_type float_type vectorcall fallback new scalar get_context context nothing"
    " marks make_tuple make_list"
).split()


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache
def is_layout_known() -> bool:
    """Return whether this Python and this NumPy lay objects out as the code expects."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    x = np.arange(12.0)[2:9]
    number, scalar, pair = 3.5, np.float64(4.5), (x, {x.shape: 1})

    def read(of: object, offset: int, kind: Any = ctypes.c_void_p) -> Any:
        return kind.from_address(id(of) + offset).value

    lengths = ctypes.c_ssize_t.from_address(read(x, _SHAPE)).value
    return bool(
        read(x, _TYPE) == id(np.ndarray)
        and read(x, _DATA) == x.__array_interface__["data"][0]
        and read(x, _RANK, ctypes.c_int) == 1
        and lengths == 7
        and read(x, _DTYPE) == id(x.dtype)
        and read(x, _FLAGS, ctypes.c_int) & _PLAIN == _PLAIN
        and read(pair, _ITEMS) == id(x)
        and read(pair[1], _USED, ctypes.c_ssize_t) == 1
        and read(number, _DATA, ctypes.c_double) == 3.5
        and read(scalar, _DATA, ctypes.c_double) == 4.5
    )


class _Table(np.ndarray[Any, Any]):
    """The addresses that an entry needs; owns the arrays in its slots."""

    slots: range
    address: int
    held: list[Any]

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for i in getattr(self, "slots", ()):
            _release(ctypes.py_object.from_address(self.address + 8 * i))


_release = ctypes.pythonapi.Py_DecRef


def is_small(plan: Plan) -> bool:
    """Return whether a program may keep Python's lock: native, and soon done."""
    has_state = any(buffer.kind == "state" for buffer in plan.buffers)
    return not has_state and count_work(plan) <= MOST_WORK


def count_work(plan: Plan) -> float:
    """Return how many entries of nodes a program computes; infinity: nobody knows.

    Loops of unknown length are such programs, and calls of NumPy.
    """
    work = 0.0
    for step in plan.steps:
        if isinstance(step, HostStep):
            return np.inf
        if isinstance(step, KernelStep):
            work += step.kernel.size * (1 + len(step.kernel.nodes))
        elif isinstance(step, ProductStep):
            work += step.a.shape[-1] * max(1, int(np.prod(step.out.shape)))
        elif isinstance(step, SystemStep):
            work += step.work
        elif isinstance(step, LoopStep):
            steps = np.inf if step.steps is None else step.steps
            work += steps * (1 + count_work(step.program.plan))
        elif isinstance(step, ChoiceStep):
            work += max(count_work(program.plan) for program in step.programs)
    return work


def make_entry(
    machine: Machine,
    plan: Plan,
    addresses: Sequence[int],
    block: int,
    form: type | None,
    fallback: Callable[..., Any],
    guard: tuple[Any, dict[Any, Any]] | None = None,
    numbers: bool = False,
) -> Callable[..., Any] | None:
    """Return a built-in function that runs a program; None: it is not small enough.

    Parameters
    ----------
    addresses
        The functions that run the program, in order.
    block
        The size of the block of the program's inner buffers.
    form
        What several results come in: `tuple` or `list`; None for one result.
    fallback
        What is called with arguments that the code does not take.
    guard
        A context variable and a mapping; unless the one holds an empty tuple and the
        other nothing, the fallback is called.
    numbers
        Take Python's floats for inputs that are float64 numbers.
    """
    inputs = [x for x in plan.buffers if x.kind == "input"]
    if not is_layout_known() or not is_small(plan) or len(plan.buffers) > 200:
        return None
    if any(x.spec.weak and x.spec.dtype != np.float64 for x in inputs):
        return None
    outputs = []
    for y in plan.outputs:
        if not isinstance(y, View) or plan.buffers[y.buffer].kind != "output":
            return None
        outputs.append(y.buffer)
    if len(set(outputs)) < len(outputs) or (form is None and len(outputs) != 1):
        return None
    writer = _Writer(plan, inputs, outputs, form, len(addresses), guard is not None)
    writer.numbers = numbers
    library = machine.compile(writer.write(), ["entry"], [], quick=False)
    return _build(writer, library, addresses, block, fallback, guard)


def _build(
    writer: _Writer,
    library: Any,
    addresses: Sequence[int],
    block: int,
    fallback: Callable[..., Any],
    guard: tuple[Any, dict[Any, Any]] | None,
) -> Callable[..., Any]:
    """Return the function, whose table is filled."""
    plan = writer.plan
    api = ctypes.pythonapi
    table = np.zeros(writer.size, np.uint64).view(_Table)
    memory = make_block(block)
    start = memory.__array_interface__["data"][0]

    def locate(function: Any) -> int:
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    words = {
        "array_type": id(np.ndarray), "float_type": id(float),
        "vectorcall": locate(api.PyObject_Vectorcall), "fallback": id(fallback),
        "new": _find_array_function(_NEW), "scalar": _find_array_function(_SCALAR),
        "get_context": locate(api.PyContextVar_Get),
        "context": id(guard[0]) if guard else 0, "marks": id(guard[1]) if guard else 0,
        "nothing": id(()),
        "make_tuple": locate(api.PyTuple_New), "make_list": locate(api.PyList_New),
    }  # fmt: skip
    for i, word in enumerate(_WORDS):
        table[i] = words[word]
    for i, address in enumerate(addresses):
        table[writer.functions + i] = address
    for i, buffer in enumerate(plan.buffers):
        if buffer.kind == "constant":
            table[writer.template + i] = buffer.value.__array_interface__["data"][0]
        elif buffer.offset >= 0:
            table[writer.template + i] = start + buffer.offset
    for k, buffer in enumerate(writer.inputs):
        own = buffer.spec.dtype.type
        table[writer.kinds + k] = id(buffer.spec.dtype if buffer.spec.shape else own)
    dtypes = [plan.buffers[i].spec.dtype for i in writer.outputs]
    # The one object of each built-in dtype, which all arrays of it share.
    shared = [np.empty(0, dtype).dtype for dtype in dtypes]
    for k, buffer in enumerate(writer.inputs):
        if buffer.spec.shape:
            table[writer.kinds + k] = id(np.empty(0, buffer.spec.dtype).dtype)
    for k, i in enumerate(writer.outputs):
        table[writer.dtypes + k] = id(shared[k])
        spec: Spec = plan.buffers[i].spec
        for slot in range(SLOTS):
            array = np.empty(spec.shape, spec.dtype)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
            table[writer.slots + k * SLOTS + slot] = id(array)
    table.address = table.__array_interface__["data"][0]
    table.slots = range(writer.slots, writer.slots + SLOTS * len(writer.outputs))
    definition = _MethodDefinition(
        b"entry", library.addresses["entry"], _FASTCALL_WITH_KEYWORDS, None
    )
    table.held = [definition, library, memory, plan, fallback, guard, shared]
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = make(ctypes.addressof(definition), table, None)
    return made


@cache
def _find_array_function(place: int) -> int:
    """Return the address of a function of NumPy's C interface."""
    module = import_module("numpy._core._multiarray_umath")
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    whole = read(module._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(whole + 8 * place).value or 0)


class _Writer:
    """The text of an entry, and the places of what it finds in its table."""

    def __init__(
        self, plan: Plan, inputs: Sequence[Any], outputs: Sequence[int],
        form: type | None, functions: int, guarded: bool,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.inputs = inputs
        self.outputs = outputs
        self.form = form
        self.guarded = guarded
        self.count = functions
        self.numbers = False
        self.functions = len(_WORDS)
        self.template = self.functions + functions
        self.kinds = self.template + len(plan.buffers)
        self.dtypes = self.kinds + len(inputs)
        self.slots = self.dtypes + len(outputs)
        self.size = self.slots + SLOTS * len(outputs)
        self.lines: list[str] = []
        self._names = 0

    def emit(self, text: str) -> str:
        """Add a line that gives a value."""
        self._names += 1
        self.lines.append(f"  %v{self._names} = {text}")
        return f"%v{self._names}"

    def read(self, pointer: str, offset: int, kind: str = "ptr") -> str:
        """Read a word of an object."""
        place = self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.emit(f"load {kind}, ptr {place}, align 4")

    def word(self, place: int) -> str:
        """Read a word of the table."""
        return self.read("%words", 8 * place)

    def check(self, condition: str) -> None:
        """Go on if a condition holds, and the slow way if not."""
        self._names += 1
        label = f"go{self._names}"
        self.lines += [f"  br i1 {condition}, label %{label}, label %slow", f"{label}:"]

    def write(self) -> str:
        """Return the text."""
        self.lines = [
            "define ptr @entry(ptr %self, ptr %args, i64 %count, ptr %names) {",
            "start:",
        ]
        words = self.read("%self", _DATA)
        self.lines.append(f"  %words = getelementptr i8, ptr {words}, i64 0")
        size = len(self.plan.buffers)
        self.lines.append(f"  %table = alloca [{max(size, 1)} x ptr], align 8")
        scratch = {
            i: self.emit("alloca [2 x i64], align 16")
            for i in self.outputs
            if not self.plan.buffers[i].spec.shape
        }
        self.check(self.emit("icmp eq ptr %names, null"))
        self.check(self.emit(f"icmp eq i64 %count, {len(self.inputs)}"))
        given = [self._check_argument(k, x) for k, x in enumerate(self.inputs)]
        if self.guarded:
            self._check_context()
        made = {
            i: self._take_array(k, i)
            for k, i in enumerate(self.outputs)
            if i not in scratch
        }
        places: dict[int, str] = {}
        for i, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "constant" or buffer.offset >= 0:
                places[i] = self.word(self.template + i)
        for pointer, i in zip(
            given,
            [i for i, b in enumerate(self.plan.buffers) if b.kind == "input"],
            strict=True,
        ):
            places[i] = pointer
        for i in self.outputs:
            places[i] = scratch[i] if i in scratch else self.read(made[i], _DATA)
        for i, pointer in places.items():
            place = self.emit(f"getelementptr ptr, ptr %table, i64 {i}")
            self.lines.append(f"  store ptr {pointer}, ptr {place}, align 8")
        for k in range(self.count):
            function = self.word(self.functions + k)
            self.lines.append(f"  call void {function}(ptr %table, i64 0, i64 0)")
        if self.plan.flag >= 0:  # the slow way says what is wrong
            flag = self.emit(f"load i64, ptr {places[self.plan.flag]}, align 8")
            self.check(self.emit(f"icmp eq i64 {flag}, 0"))
        self._return_results(made, scratch)
        call, fallback = (8 * _WORDS.index(w) for w in ("vectorcall", "fallback"))
        slow = f"""slow:
  %f = getelementptr i8, ptr %words, i64 {call}
  %call = load ptr, ptr %f
  %g = getelementptr i8, ptr %words, i64 {fallback}
  %fallback = load ptr, ptr %g
  %other = call ptr %call(ptr %fallback, ptr %args, i64 %count, ptr %names)
  ret ptr %other
failed:
  ret ptr null
}}"""
        return "\n".join([*self.lines, slow])

    def _check_argument(self, k: int, buffer: Any) -> str:
        """Return where the entries of an argument lie, once it is what it must be."""
        spec: Spec = buffer.spec
        place = self.emit(f"getelementptr ptr, ptr %args, i64 {k}")
        x = self.emit(f"load ptr, ptr {place}, align 8")
        own = self.read(x, _TYPE)
        kind = self.word(self.kinds + k)
        if not spec.shape:
            float_type = self.word(_WORDS.index("float_type"))
            plain = self.emit(f"icmp eq ptr {own}, {float_type}")
            right = plain if spec.weak else self.emit(f"icmp eq ptr {own}, {kind}")
            if self.numbers and spec.dtype == np.float64:
                right = self.emit(f"or i1 {right}, {plain}")
            self.check(right)
            return self.emit(f"getelementptr i8, ptr {x}, i64 {_DATA}")
        array_type = self.word(_WORDS.index("array_type"))
        self.check(self.emit(f"icmp eq ptr {own}, {array_type}"))
        conditions = [self.emit(f"icmp eq ptr {self.read(x, _DTYPE)}, {kind}")]
        rank = self.read(x, _RANK, "i32")
        conditions.append(self.emit(f"icmp eq i32 {rank}, {len(spec.shape)}"))
        flags = self.emit(f"and i32 {self.read(x, _FLAGS, 'i32')}, {_PLAIN}")
        conditions.append(self.emit(f"icmp eq i32 {flags}, {_PLAIN}"))
        for condition in conditions:
            self.check(condition)
        shape = self.read(x, _SHAPE)
        for axis, n in enumerate(spec.shape):
            length = self.read(shape, 8 * axis, "i64")
            self.check(self.emit(f"icmp eq i64 {length}, {n}"))
        return self.read(x, _DATA)

    def _check_context(self) -> None:
        """Go the slow way unless the context variable holds an empty tuple."""
        slot = self.emit("alloca ptr, align 8")
        get = self.word(_WORDS.index("get_context"))
        variable = self.word(_WORDS.index("context"))
        nothing = self.word(_WORDS.index("nothing"))
        self.lines.append(f"  store ptr null, ptr {slot}")
        self.emit(f"call i32 {get}(ptr {variable}, ptr null, ptr {slot})")
        held = self.emit(f"load ptr, ptr {slot}")
        same = self.emit(f"icmp eq ptr {held}, {nothing}")
        # A tuple that is not empty stays alive without this reference: the context has
        # it. The empty one is never let go.
        known = self.emit(f"icmp ne ptr {held}, null")
        self.check(known)
        self._count_reference(held, -1)
        self.check(same)
        used = self.read(self.word(_WORDS.index("marks")), _USED, "i64")
        self.check(self.emit(f"icmp eq i64 {used}, 0"))

    def _count_reference(self, x: str, by: int) -> None:
        count = self.emit(f"load i32, ptr {x}, align 4")
        if sys.version_info >= (3, 12):  # those that live for ever are negative
            mortal = self.emit(f"icmp sgt i32 {count}, -1")
            by_or_none = self.emit(f"select i1 {mortal}, i32 {by}, i32 0")
            new = self.emit(f"add i32 {count}, {by_or_none}")
        else:
            new = self.emit(f"add i32 {count}, {by}")
        self.lines.append(f"  store i32 {new}, ptr {x}, align 4")

    def _take_array(self, k: int, i: int) -> str:
        """Return an array for a result: one that nobody else holds, or a new one."""
        spec: Spec = self.plan.buffers[i].spec
        self._names += 1
        n = self._names
        places, found = [], []
        for slot in range(SLOTS):
            at = 8 * (self.slots + k * SLOTS + slot)
            place = self.emit(f"getelementptr i8, ptr %words, i64 {at}")
            x = self.emit(f"load ptr, ptr {place}, align 8")
            count = self.emit(f"load i32, ptr {x}, align 4")
            free = self.emit(f"icmp eq i32 {count}, 1")
            places.append(place)
            found.append((x, f"%t{n}_{slot}"))
            self.lines += [
                f"  br i1 {free}, label %t{n}_{slot}, label %n{n}_{slot}",
                f"t{n}_{slot}:",
                f"  store i32 2, ptr {x}, align 4",
                f"  br label %d{n}",
                f"n{n}_{slot}:",
            ]
        rank = len(spec.shape)
        shape = self.emit(f"alloca [{rank} x i64], align 8")
        for axis, length in enumerate(spec.shape):
            place = self.emit(f"getelementptr i64, ptr {shape}, i64 {axis}")
            self.lines.append(f"  store i64 {length}, ptr {place}, align 8")
        make = self.word(_WORDS.index("new"))
        array_type = self.word(_WORDS.index("array_type"))
        new = self.emit(
            f"call ptr {make}(ptr {array_type}, i32 {rank}, ptr {shape}, i32"
            f" {spec.dtype.num}, ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        good = self.emit(f"icmp ne ptr {new}, null")
        self.lines += [
            f"  br i1 {good}, label %m{n}, label %failed",
            f"m{n}:",
        ]
        # The slot's old array lives on with its holder.
        self._count_reference(found[0][0], -1)
        self.lines += [
            f"  store ptr {new}, ptr {places[0]}, align 8",
            f"  store i32 2, ptr {new}, align 4",
            f"  br label %d{n}",
            f"d{n}:",
        ]
        ways = [f"[{x}, {label}]" for x, label in found]
        return self.emit(f"phi ptr {', '.join(ways)}, [{new}, %m{n}]")

    def _return_results(self, made: dict[int, str], scratch: dict[int, str]) -> None:
        """Return the result, or all of them in a tuple or a list."""
        values = []
        for k, i in enumerate(self.outputs):
            if i in made:
                values.append(made[i])
                continue
            make = self.word(_WORDS.index("scalar"))
            dtype = self.word(self.dtypes + k)
            value = self.emit(
                f"call ptr {make}(ptr {scratch[i]}, ptr {dtype}, ptr null)"
            )
            good = self.emit(f"icmp ne ptr {value}, null")
            self._go_or_fail(good)
            values.append(value)
        if self.form is None:
            self.lines.append(f"  ret ptr {values[0]}")
            return
        make = self.word(
            _WORDS.index("make_tuple" if self.form is tuple else "make_list")
        )
        whole = self.emit(f"call ptr {make}(i64 {len(values)})")
        self._go_or_fail(self.emit(f"icmp ne ptr {whole}, null"))
        # A tuple holds its items there, a list points to them.
        items = (
            self.emit(f"getelementptr i8, ptr {whole}, i64 {_ITEMS}")
            if self.form is tuple
            else self.read(whole, _ITEMS)
        )
        for k, value in enumerate(values):
            place = self.emit(f"getelementptr ptr, ptr {items}, i64 {k}")
            self.lines.append(f"  store ptr {value}, ptr {place}, align 8")
        self.lines.append(f"  ret ptr {whole}")

    def _go_or_fail(self, condition: str) -> None:
        self._names += 1
        label = f"go{self._names}"
        self.lines += [
            f"  br i1 {condition}, label %{label}, label %failed", f"{label}:",
        ]  # fmt: skip
