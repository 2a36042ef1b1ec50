"""`CudaBuilder`: an entry as statements of CUDA C++, one typed value after the other.

What an entry is stands in `compiled.entries`, for every processor. Elementary functions
are CUDA's own. A float16 is a float in registers, rounded after every operation: NumPy
and CuPy compute so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.builder import (
    PARTS,
    Complex,
    Entry,
    EntryBuilder,
    Value,
)
from workbench.backends.compiled.functions import FUNCTIONS
from workbench.errors import CompilerError

#: What a register of a kind is in C++, and what memory holds of it.
REGISTERS = {
    "f8": "double", "f4": "float", "f2": "float", "b1": "bool", "i1": "signed char",
    "i2": "short", "i4": "int", "i8": "long long", "u1": "unsigned char",
    "u2": "unsigned short", "u4": "unsigned", "u8": "unsigned long long",
}  # fmt: skip
STORED = REGISTERS | {"f2": "unsigned short", "b1": "unsigned char"}
#: LLVM's words of two operands as operators of C++.
OPERATORS = {
    "fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-",
    "mul": "*", "sdiv": "/", "udiv": "/", "srem": "%", "urem": "%", "and": "&",
    "or": "|", "xor": "^", "shl": "<<", "lshr": ">>",
}  # fmt: skip
RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
#: How the bits of floats are those of whole numbers.
REINTERPRETED = {
    ("f8", "i8"): "__double_as_longlong", ("i8", "f8"): "__longlong_as_double",
    ("f4", "i4"): "__float_as_int", ("i4", "f4"): "__int_as_float",
    ("f2", "i2"): "(short)half_bits", ("i2", "f2"): "half_value",
}  # fmt: skip


def format_literal(number: Any, kind: str) -> str:
    """Return a number of a kind in C++ notation."""
    if kind == "b1":
        return "true" if number else "false"
    if kind[0] != "f":
        ending = {"i8": "LL", "u8": "ULL", "u4": "u"}.get(kind, "")
        if kind[0] == "i" and number == np.iinfo(kind).min:
            return f"({number + 1}{ending} - 1)"
        return f"({int(number)}{ending})" if number < 0 else f"{int(number)}{ending}"
    with np.errstate(over="ignore"):
        exact = float(np.dtype(kind).type(number))
    if math.isfinite(exact):
        text = repr(exact) if kind == "f8" else f"{np.float32(exact)}f"
        return f"({text})" if text[0] == "-" else text
    bits = np.asarray(exact, "f8" if kind == "f8" else "f4")
    if kind == "f8":
        return f"__longlong_as_double({hex(int(bits.view('u8')))}LL)"
    return f"__int_as_float({hex(int(bits.view('u4')))})"


class CudaBuilder(EntryBuilder):
    """The statements of one kernel, of one entry at a time."""

    library = frozenset(FUNCTIONS)
    inlines_formulas = True

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0
        #: Where the last sine or cosine of an angle stands, and its name.
        self._turns: dict[tuple[str, str], tuple[int, str]] = {}

    def name(self) -> str:
        """Return a fresh name."""
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        """Add a statement that gives no value."""
        self.lines.append(text)

    def emit(self, text: str, kind: str) -> Value:
        """Add a statement that gives a value; a float16 is rounded by `round_half`."""
        name = self.name()
        self.lines.append(f"const {REGISTERS[kind]} {name} = {text};")
        return Value(name, kind)

    def emit_float(self, text: str, kind: str) -> Value:
        """Add a statement that gives a float, rounded to its kind."""
        return self.emit(f"round_half({text})" if kind == "f2" else text, kind)

    def declare(self, kind: str) -> Value:
        """Return a variable, which `assign` changes."""
        name = self.name()
        self.lines.append(f"{REGISTERS[kind]} {name};")
        return Value(name, kind)

    def assign(self, variable: Value, x: Value) -> None:
        """Give a variable a value."""
        self.lines.append(f"{variable.text} = {x.text};")

    def literal_part(self, number: Any, kind: str) -> Value:
        """Return a number that is not complex."""
        return Value(format_literal(number, kind), kind, number)

    # Arithmetic and choices

    def operate(self, word: str, x: Value, y: Value) -> Value:
        """Write an operation on two operands of one kind, named by LLVM's word."""
        kind = x.kind
        if word.startswith("f") and kind[0] != "f":
            raise CompilerError(f"no kernel computes {word} of {kind}.")
        if word == "frem":
            name = "fmod" if kind == "f8" else "fmodf"
            return self.emit_float(f"{name}({x.text}, {y.text})", kind)
        sign = OPERATORS[word]
        if kind[0] == "f":
            return self.emit_float(f"{x.text} {sign} {y.text}", kind)
        if kind == "b1":
            return self.emit(f"{x.text} {sign} {y.text}", kind)
        if word in ("add", "sub", "mul", "shl", "lshr"):
            # Whole numbers wrap; those of C++ do so only where they have no sign.
            wide = "unsigned long long" if kind[1] == "8" else "unsigned"
            own = f"(unsigned {REGISTERS[kind].removeprefix('unsigned ')})"
            own = {"i1": "(unsigned char)", "u1": "(unsigned char)", "u4": ""}.get(
                kind, own
            )
            own = own if word == "lshr" else ""
            text = f"({wide}){own}{x.text} {sign} ({wide}){y.text}"
            return self.emit(f"({REGISTERS[kind]})({text})", kind)
        return self.emit(f"({REGISTERS[kind]})({x.text} {sign} {y.text})", kind)

    def negate(self, x: Value) -> Value:
        """Return floats with the other sign."""
        return self.emit(f"-{x.text}", x.kind)

    def reinterpret(self, x: Value, kind: str) -> Value:
        """Return the bits of a value as one of another kind of that size."""
        return self.emit(f"{REINTERPRETED[x.kind, kind]}({x.text})", kind)

    def compare(self, relation: str, x: Value, y: Value) -> Value:
        """Compare by ``eq ne lt le gt ge``; a NaN is only unequal."""
        return self.emit(f"{x.text} {RELATIONS[relation]} {y.text}", "b1")

    def is_nan(self, x: Value) -> Value:
        """Return which entries are NaN."""
        return self.emit(f"{x.text} != {x.text}", "b1")

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return `select` of two real values."""
        return self.emit(f"{condition.text} ? {x.text} : {y.text}", x.kind)

    def cast(self, x: Value, kind: str) -> Value:
        """Convert a value that is no literal between kinds that are not complex."""
        if kind == "f2" and x.kind != "f2":
            narrow = "round_half_of_double" if x.kind == "f8" else "round_half"
            whole = x.kind in ("i8", "u8", "i4", "u4")
            given = f"(double){x.text}" if whole else x.text
            narrow = "round_half_of_double" if whole else narrow
            return self.emit(f"{narrow}({given})", kind)
        return self.emit(f"({REGISTERS[kind]}){x.text}", kind)

    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call one of LLVM's functions of floats, like ``llvm.sqrt``."""
        return self.call_library(name.removeprefix("llvm."), *values)

    def call_library(self, name: str, *values: Value) -> Value:
        """Call a function of CUDA by its name for doubles."""
        kind = values[0].kind
        if kind not in ("f8", "f4", "f2"):
            raise CompilerError(f"no kernel computes {name} of {kind}.")
        if name in ("sin", "cos") and kind != "f2":
            return self._turn(name, values[0])
        name += "" if kind == "f8" else "f"
        return self.emit_float(f"{name}({', '.join(x.text for x in values)})", kind)

    def _turn(self, name: str, x: Value) -> Value:
        """Return a sine or cosine; both of one angle are computed together.

        They share the reduction of the angle, which is the most part of their work.
        """
        ending = "" if x.kind == "f8" else "f"
        key = (x.text, "cos" if name == "sin" else "sin")
        place, first = self._turns.pop(key, (-1, ""))
        call = f"const {REGISTERS[x.kind]} {first} = {key[1]}{ending}({x.text});"
        if place < 0 or self.lines[place : place + 1] != [call] or self._is_left(place):
            made = self.emit(f"{name}{ending}({x.text})", x.kind)
            self._turns[x.text, name] = len(self.lines) - 1, made.text
            return made
        made = Value(self.name(), x.kind)
        both = (made.text, first) if name == "sin" else (first, made.text)
        self.lines[place] = (
            f"{REGISTERS[x.kind]} {both[0]}, {both[1]};"
            f" sincos{ending}({x.text}, &{both[0]}, &{both[1]});"
        )
        return made

    def _is_left(self, place: int) -> bool:
        """Return whether the block that a line stands in has ended since."""
        depth = 0
        for line in self.lines[place:]:
            depth -= line.startswith("}")
            if depth < 0:
                return True
            depth += line.endswith("{")
        return False

    def branch(
        self, condition: Value, general: Callable[[], Sequence[Value]],
        usual: Callable[[], Sequence[Value]],
    ) -> list[Value]:  # fmt: skip
        """Return the values of ``general`` if a condition holds, else of ``usual``."""
        before, ways = self.lines, []
        for write in (general, usual):
            self.lines = []
            ways.append((write(), self.lines))
        self.lines = before
        made = [self.declare(x.kind) for x in ways[0][0]]
        for head, (values, lines) in zip(
            (f"if ({condition.text}) {{", "} else {"), ways, strict=True
        ):
            self.lines += [head, *lines]
            for variable, x in zip(made, values, strict=True):
                self.assign(variable, x)
        self.line("}")
        return made

    # Memory

    def load(
        self, pointer: str, kind: str, step: int = 0, mask: Value | None = None
    ) -> Entry:
        """Load the entry that lies at a pointer to bytes."""
        return self.read(f"(const {stored_type(kind)}*)({pointer})", 0, kind)

    def read(self, array: str, place: int | str, kind: str) -> Entry:
        """Read an entry of an array in its stored form."""
        if kind in PARTS:
            text = f"({array})[{place}]"
            parts = [self.emit(f"{text}.{part}", PARTS[kind]) for part in "xy"]
            return Complex(parts[0], parts[1], kind)
        text = f"({array})[{place}]"
        if kind == "f2":
            return self.emit(f"half_value({text})", kind)
        return self.emit(f"{text} != 0" if kind == "b1" else text, kind)

    def store(self, pointer: str, x: Entry) -> None:
        """Store an entry at a pointer to bytes."""
        self.write(f"({stored_type(x.kind)}*)({pointer})", 0, x)

    def write(self, array: str, place: int | str, x: Entry) -> None:
        """Write an entry to an array in its stored form."""
        target = f"({array})[{place}]"
        if isinstance(x, Complex):
            both = f"{{{x.real.text}, {x.imag.text}}}"
            self.line(f"{target} = {stored_type(x.kind)}{both};")
        else:
            text = f"half_bits({x.text})" if x.kind == "f2" else x.text
            self.line(f"{target} = {text};")


def stored_type(kind: str) -> str:
    """Return the C++ type of a kind in memory."""
    if kind in PARTS:
        return f"Pair<{REGISTERS[PARTS[kind]]}>"
    return STORED[kind]
