"""`EntryBuilder` writes an entry; `Builder` writes LLVM's IR of vectors.

A value has a kind, NumPy's letters of a dtype (``f8``, ``i4``, ``b1``), and as many
lanes as the function that is being written. No pass runs over the text, so what it says
is what runs.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from workbench.backends.compiled.machine import Machine
from workbench.errors import CompilerError

#: LLVM's words for the kinds of a register. A complex value is two of them.
TYPES = {
    "f8": "double", "f4": "float", "b1": "i1", "i1": "i8", "i2": "i16", "i4": "i32",
    "i8": "i64", "u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64",
}  # fmt: skip
#: The kind of both parts of a complex value.
PARTS = {"c16": "f8", "c8": "f4"}
#: What kernels compute with, on every processor; some have floats of two bytes too.
KINDS = frozenset({*TYPES, *PARTS})
HALF = "f2"
#: What code made by LLVM may call by itself.
IMPLIED = (
    "memcpy memmove memset fmod fmodf floor floorf ceil ceilf trunc truncf rint rintf"
    " nearbyint nearbyintf sqrt sqrtf"
).split()


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return the kind of a dtype.

    Raises
    ------
    CompilerError
        If no register holds it, or its bytes are in another order.
    """
    kind = dtype.str[1:]
    if not dtype.isnative or kind not in KINDS | {HALF}:
        raise CompilerError(f"no kernel computes with {dtype}.")
    return kind


class Value(NamedTuple):
    """A value of one kind: a register or a literal."""

    text: str
    kind: str
    #: What a literal is, which some ops look at.
    number: Any = None


class Complex(NamedTuple):
    """A complex value: its two parts."""

    real: Value
    imag: Value
    kind: str


Entry = Value | Complex


def split_parts(x: Entry) -> list[Value]:
    """Return the real parts that an entry is made of."""
    return [x.real, x.imag] if isinstance(x, Complex) else [x]


def join_parts(parts: Sequence[Value], kind: str) -> Entry:
    """Return an entry of its real parts."""
    return Complex(parts[0], parts[1], kind) if kind in PARTS else parts[0]


def format_number(number: Any, kind: str) -> str:
    """Return a number of a kind in LLVM's notation."""
    if kind == "b1":
        return "true" if number else "false"
    if kind[0] == "f":
        with np.errstate(over="ignore"):
            exact = float(np.float32(number)) if kind == "f4" else float(number)
        return f"0x{struct.unpack('>Q', struct.pack('>d', exact))[0]:016X}"
    return str(int(number))


class EntryBuilder(ABC):
    """What writes an entry of an op in some language, one typed value after the other.

    Attributes
    ----------
    library
        The elementary functions that the language has, by C's names; the others are
        formulas.
    inlines_formulas
        A formula is written where it is used, instead of as a function of its own.
    has_fma
        One instruction multiplies and adds in one rounding.
    """

    lines: list[str]
    library: ClassVar[frozenset[str]] = frozenset()
    inlines_formulas: ClassVar[bool] = False
    has_fma = True

    # What the language writes

    @abstractmethod
    def literal_part(self, number: Any, kind: str) -> Value:
        """Return a number that is not complex."""

    @abstractmethod
    def operate(self, word: str, x: Value, y: Value) -> Value:
        """Write an operation on two operands of one kind, named by LLVM's word.

        Raises
        ------
        CompilerError
            If it is one of floats, and these are none: NumPy computes it then.
        """

    @abstractmethod
    def negate(self, x: Value) -> Value:
        """Return floats with the other sign."""

    @abstractmethod
    def reinterpret(self, x: Value, kind: str) -> Value:
        """Return the bits of a value as one of another kind of that size."""

    @abstractmethod
    def compare(self, relation: str, x: Value, y: Value) -> Value:
        """Compare by ``eq ne lt le gt ge``; a NaN is only unequal."""

    @abstractmethod
    def is_nan(self, x: Value) -> Value:
        """Return which entries are NaN."""

    @abstractmethod
    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return `select` of two real values."""

    @abstractmethod
    def cast(self, x: Value, kind: str) -> Value:
        """Convert a value that is no literal between kinds that are not complex."""

    @abstractmethod
    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call one of LLVM's functions of floats, like ``llvm.sqrt``."""

    @abstractmethod
    def call_library(self, name: str, *values: Value) -> Value:
        """Call a function of C's library by its name for doubles."""

    @abstractmethod
    def branch(
        self, condition: Value, general: Callable[[], Sequence[Value]],
        usual: Callable[[], Sequence[Value]],
    ) -> list[Value]:  # fmt: skip
        """Return the values of ``general`` if a condition holds in any lane.

        Otherwise return what ``usual`` writes; only one of them runs.
        """

    @abstractmethod
    def load(self, pointer: str, kind: str, step: int, mask: Value | None) -> Entry:
        """Load one entry per lane, ``step`` bytes from each other."""

    # What follows from this

    def literal(self, number: Any, kind: str) -> Entry:
        """Return a number in every lane."""
        if kind in PARTS:
            parts = [
                self.literal_part(x, PARTS[kind]) for x in (number.real, number.imag)
            ]
            return Complex(parts[0], parts[1], kind)
        return self.literal_part(number, kind)

    def select(self, condition: Value, x: Entry, y: Entry) -> Entry:
        """Return ``x`` where the condition holds, ``y`` elsewhere."""
        if isinstance(x, Complex):
            assert isinstance(y, Complex)
            return Complex(
                self.choose(condition, x.real, y.real),
                self.choose(condition, x.imag, y.imag),
                x.kind,
            )
        assert isinstance(y, Value)
        return self.choose(condition, x, y)

    def convert(self, x: Entry, kind: str) -> Entry:
        """Return a value in another kind, rounded as NumPy's ``astype`` does."""
        if x.kind == kind:
            return x
        if kind in PARTS:
            part = PARTS[kind]
            if isinstance(x, Complex):
                parts = [self.convert_part(p, part) for p in (x.real, x.imag)]
            else:
                parts = [self.convert_part(x, part), self.literal_part(0, part)]
            return Complex(parts[0], parts[1], kind)
        if isinstance(x, Complex):
            if kind == "b1":
                return self.operate(
                    "or", self.convert_part(x.real, kind),
                    self.convert_part(x.imag, kind),
                )  # fmt: skip
            x = x.real
        return self.convert_part(x, kind)

    def convert_part(self, x: Value, kind: str) -> Value:
        """Convert a value that is not complex to a kind that is not."""
        if x.kind == kind:
            return x
        if x.number is not None:
            return self.literal_part(_cast_number(x.number, kind), kind)
        have, want = x.kind, kind
        if want == "b1":
            return self.compare("ne", x, self.literal_part(0, have))
        if have[0] == "f" and want[0] in "iu" and want not in ("i8", "u8"):
            # By the widest integer, whose lower bits NumPy keeps.
            return self.convert_part(self.convert_part(x, "i8"), want)
        return self.cast(x, want)


class Builder(EntryBuilder):
    """The text of one function on values with a number of lanes."""

    def __init__(self, machine: Machine, lanes: int) -> None:
        self.machine = machine
        self.has_fma = machine.has_fma
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.symbols: set[str] = set()
        self._count = 0
        self._labels = 0
        #: The block of code that is being written.
        self.block = "start"

    # Text

    def type(self, kind: str, lanes: int | None = None) -> str:
        """Return the type of a value of a kind."""
        n = self.lanes if lanes is None else lanes
        return TYPES[kind] if n == 1 else f"<{n} x {TYPES[kind]}>"

    def name(self) -> str:
        """Return a fresh register."""
        self._count += 1
        return f"%v{self._count}"

    def line(self, text: str) -> None:
        """Add a line that gives no value."""
        self.lines.append(f"  {text}")

    def emit(self, text: str, kind: str) -> Value:
        """Add a line that gives a value."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Value(name, kind)

    def literal_part(self, number: Any, kind: str) -> Value:
        """Return a number in every lane."""
        text = format_number(number, kind)
        if self.lanes > 1:
            text = f"splat ({TYPES[kind]} {text})"
        return Value(text, kind, number)

    def call(self, function: str, kind: str, *values: Value) -> Value:
        """Call a function of values, all with these lanes; the result has ``kind``."""
        types = ", ".join(self.type(x.kind) for x in values)
        self.declared.add(f"declare {self.type(kind)} @{function}({types})")
        given = ", ".join(f"{self.type(x.kind)} {x.text}" for x in values)
        return self.emit(f"call {self.type(kind)} @{function}({given})", kind)

    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call one of LLVM's own functions, like ``llvm.sqrt``."""
        kind = values[0].kind
        suffix = {"f8": "f64", "f4": "f32"}[kind]
        lanes = f"v{self.lanes}" if self.lanes > 1 else ""
        return self.call(f"{name}.{lanes}{suffix}", kind, *values)

    def call_library(self, name: str, *values: Value) -> Value:
        """Call one of C's functions, for one lane after the other."""
        kind = values[0].kind
        name += "f" if kind == "f4" else ""
        self.symbols.add(name)
        scalar, type_ = TYPES[kind], self.type(kind)
        self.declared.add(
            f"declare {scalar} @{name}({', '.join([scalar] * len(values))})"
        )
        if self.lanes == 1:
            given = ", ".join(f"{scalar} {x.text}" for x in values)
            return self.emit(f"call {scalar} @{name}({given})", kind)
        made = "poison"
        for lane in range(self.lanes):
            parts = [
                self.emit(f"extractelement {type_} {x.text}, i64 {lane}", kind).text
                for x in values
            ]
            given = ", ".join(f"{scalar} {part}" for part in parts)
            one = self.emit(f"call {scalar} @{name}({given})", kind).text
            joined = f"insertelement {type_} {made}, {scalar} {one}, i64 {lane}"
            made = self.emit(joined, kind).text
        return Value(made, kind)

    # Blocks and loops

    def branch(
        self, condition: Value, general: Callable[[], Sequence[Value]],
        usual: Callable[[], Sequence[Value]],
    ) -> list[Value]:  # fmt: skip
        """Return the values of ``general`` if a condition holds in any lane.

        Otherwise return what ``usual`` writes; only one of them runs.
        """
        found = condition.text
        if self.lanes > 1:
            mask = f"bitcast {self.type('b1')} {found} to i{self.lanes}"
            bits = self.emit(mask, "i8").text
            found = self.emit(f"icmp ne i{self.lanes} {bits}, 0", "b1").text
        labels, after = (self.label(), self.label()), self.label()
        self.line(f"br i1 {found}, label %{labels[0]}, label %{labels[1]}")
        ways = []
        for label, write in zip(labels, (general, usual), strict=True):
            self.begin(label)
            ways.append((write(), self.block))
            self.line(f"br label %{after}")
        self.begin(after)
        (first, from_first), (second, from_second) = ways
        return [
            self.emit(
                f"phi {self.type(x.kind)} [{x.text}, %{from_first}],"
                f" [{y.text}, %{from_second}]",
                x.kind,
            )
            for x, y in zip(first, second, strict=True)
        ]

    def label(self) -> str:
        """Return a fresh name of a block."""
        self._labels += 1
        return f"b{self._labels}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def loop(
        self, start: int | str, end: int | str, step: int,
        body: Callable[[str, list[Value]], list[Value]], carried: Sequence[Value] = (),
    ) -> list[Value]:  # fmt: skip
        """Write a loop; return its carried values after the last round.

        ``body(index, values)`` writes one round and returns the next values.
        """
        head, inside, after = self.label(), self.label(), self.label()
        before, i, following = self.block, self.name(), self.name()
        kept = [Value(self.name(), x.kind) for x in carried]
        self.line(f"br label %{head}")
        self.begin(head)
        at = len(self.lines)
        more = self.emit(f"icmp slt i64 {i}, {end}", "b1").text
        self.line(f"br i1 {more}, label %{inside}, label %{after}")
        self.begin(inside)
        news = body(i, kept)
        self.line(f"{following} = add i64 {i}, {step}")
        self.line(f"br label %{head}")
        phis = [f"  {i} = phi i64 [{start}, %{before}], [{following}, %{self.block}]"]
        phis += [
            f"  {n.text} = phi {self.type(n.kind)} [{x.text}, %{before}], [{new.text},"
            f" %{self.block}]"
            for n, x, new in zip(kept, carried, news, strict=True)
        ]
        self.lines[at:at] = phis
        self.begin(after)
        return kept

    def move(self, pointer: str, offset: int | str) -> str:
        """Return a pointer so many bytes further on."""
        if offset == 0:
            return pointer
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}", "i8").text

    def step(self, pointer: str, i: str, stride: int) -> str:
        """Return a pointer so many strides further on."""
        if stride == 0:
            return pointer
        return self.move(pointer, self.emit(f"mul i64 {i}, {stride}", "i8").text)

    # Arithmetic and choices

    def operate(self, word: str, x: Value, y: Value) -> Value:
        """Write an instruction of two operands of one kind.

        Raises
        ------
        CompilerError
            If it is one of floats, and these are none: NumPy computes it then.
        """
        if word.startswith("f") and x.kind[0] != "f":
            raise CompilerError(f"no kernel computes {word} of {x.kind}.")
        return self.emit(f"{word} {self.type(x.kind)} {x.text}, {y.text}", x.kind)

    def negate(self, x: Value) -> Value:
        """Return floats with the other sign."""
        return self.emit(f"fneg {self.type(x.kind)} {x.text}", x.kind)

    def reinterpret(self, x: Value, kind: str) -> Value:
        """Return the bits of a value as one of another kind of that size."""
        text = f"bitcast {self.type(x.kind)} {x.text} to {self.type(kind)}"
        return self.emit(text, kind)

    def compare(self, relation: str, x: Value, y: Value) -> Value:
        """Compare by ``eq ne lt le gt ge``; a NaN is only unequal."""
        if x.kind[0] == "f":
            word = f"fcmp {'une' if relation == 'ne' else f'o{relation}'}"
        elif relation in ("eq", "ne"):
            word = f"icmp {relation}"
        else:
            word = f"icmp {'s' if x.kind[0] == 'i' else 'u'}{relation}"
        return self.emit(f"{word} {self.type(x.kind)} {x.text}, {y.text}", "b1")

    def is_nan(self, x: Value) -> Value:
        """Return which entries are NaN."""
        return self.emit(f"fcmp uno {self.type(x.kind)} {x.text}, {x.text}", "b1")

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return `select` of two real values."""
        mask = f"{self.type('b1')} {condition.text}"
        return self.emit(
            f"select {mask}, {self.type(x.kind)} {x.text}, {self.type(y.kind)}"
            f" {y.text}",
            x.kind,
        )

    def cast(self, x: Value, kind: str) -> Value:
        """Convert a value that is no literal between kinds that are not complex."""
        have, want = x.kind, kind
        if have[0] == "f" and want[0] == "f":
            word = "fpext" if want == "f8" else "fptrunc"
        elif want[0] == "f":
            word = "sitofp" if have[0] == "i" else "uitofp"
        elif have[0] == "f":
            word = "fptosi" if want == "i8" else "fptoui"
        else:
            sizes = [0 if k == "b1" else int(k[1:]) for k in (have, want)]
            if sizes[0] == sizes[1]:
                return Value(x.text, want)
            word = "sext" if have[0] == "i" else "zext"
            word = "trunc" if sizes[1] < sizes[0] else word
        return self.emit(
            f"{word} {self.type(have)} {x.text} to {self.type(want)}", want
        )

    # Memory

    def load(self, pointer: str, kind: str, step: int, mask: Value | None) -> Entry:
        """Load one entry per lane, ``step`` bytes from each other.

        Lanes that the mask leaves out hold 1, at which every function is defined.
        """
        if kind in PARTS:
            part, size = PARTS[kind], int(PARTS[kind][1:])
            other = self.emit(f"getelementptr i8, ptr {pointer}, i64 {size}", "i8").text
            parts = [self.load_part(p, part, step, mask) for p in (pointer, other)]
            return Complex(parts[0], parts[1], kind)
        return self.load_part(pointer, kind, step, mask)

    def load_part(
        self, pointer: str, kind: str, step: int, mask: Value | None
    ) -> Value:
        """Load entries that are not complex."""
        size = _size_of(kind)
        stored = "u1" if kind == "b1" else kind
        type_, scalar = self.type(stored), TYPES[stored]
        if step == 0 or self.lanes == 1:
            one = self.emit(f"load {scalar}, ptr {pointer}, align 1", stored)
            made = self.spread(one)
        elif step == size and mask is None:
            made = self.emit(f"load {type_}, ptr {pointer}, align 1", stored)
        else:
            fill = self.literal(1, stored)
            assert isinstance(fill, Value)
            suffix = f"v{self.lanes}{_suffix(stored)}"
            mask_text = self._mask_text(mask)
            if step == size:
                name = f"llvm.masked.load.{suffix}.p0"
                where, given = "ptr", f"ptr align 1 {pointer}"
            else:
                name = f"llvm.masked.gather.{suffix}.v{self.lanes}p0"
                where = f"<{self.lanes} x ptr>"
                given = (
                    f"<{self.lanes} x ptr> align 1 {self._lane_pointers(pointer, step)}"
                )
            self.declared.add(
                f"declare {type_} @{name}({where}, {self.type('b1')}, {type_})"
            )
            made = self.emit(
                f"call {type_} @{name}({given}, {mask_text}, {type_} {fill.text})",
                stored,
            )
        if kind == "b1":
            zero = self.literal(0, "u1")
            assert isinstance(zero, Value)
            return self.compare("ne", made, zero)
        return made

    def gather(self, pointer: str, kind: str, offsets: Value, count: int) -> Entry:
        """Load one entry per lane, as many bytes behind a pointer as a value says.

        Lanes from the count on hold 1.
        """
        if kind in PARTS:
            part, size = PARTS[kind], int(PARTS[kind][1:])
            other = self.emit(f"getelementptr i8, ptr {pointer}, i64 {size}", "i8").text
            parts = [
                self.gather_part(p, part, offsets, count) for p in (pointer, other)
            ]
            return Complex(parts[0], parts[1], kind)
        return self.gather_part(pointer, kind, offsets, count)

    def gather_part(self, pointer: str, kind: str, offsets: Value, count: int) -> Value:
        """Gather entries that are not complex."""
        stored = "u1" if kind == "b1" else kind
        made = self.literal(1, stored)
        assert isinstance(made, Value)
        for lane in range(count):
            offset = self.take_lane(offsets, lane).text
            place = self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}", "i8")
            one = self.emit(f"load {TYPES[stored]}, ptr {place.text}, align 1", stored)
            made = one if self.lanes == 1 else self.put_lane(made, one, lane)
        if kind == "b1":
            zero = self.literal(0, "u1")
            assert isinstance(zero, Value)
            return self.compare("ne", made, zero)
        return made

    def take_lane(self, x: Value, lane: int) -> Value:
        """Return one lane of a value, as a scalar."""
        if self.lanes == 1:
            return x
        return self.emit(
            f"extractelement {self.type(x.kind)} {x.text}, i64 {lane}", x.kind
        )

    def put_lane(self, x: Value, one: Value, lane: int) -> Value:
        """Return a value with a scalar in one of its lanes."""
        return self.emit(
            f"insertelement {self.type(x.kind)} {x.text}, {TYPES[x.kind]} {one.text},"
            f" i64 {lane}",
            x.kind,
        )

    def store(self, pointer: str, x: Entry, step: int, mask: Value | None) -> None:
        """Store one entry per lane, ``step`` bytes from each other."""
        if isinstance(x, Complex):
            size = int(x.real.kind[1:])
            other = self.emit(f"getelementptr i8, ptr {pointer}, i64 {size}", "i8").text
            self.store(pointer, x.real, step, mask)
            self.store(other, x.imag, step, mask)
            return
        if x.kind == "b1":
            x = self.emit(f"zext {self.type('b1')} {x.text} to {self.type('u1')}", "u1")
        type_ = self.type(x.kind)
        if self.lanes == 1 or (step == _size_of(x.kind) and mask is None):
            self.line(f"store {type_} {x.text}, ptr {pointer}, align 1")
            return
        if mask is None:  # processors store lanes that lie apart one by one
            part = TYPES[x.kind]
            for k in range(self.lanes):
                one = self.emit(f"extractelement {type_} {x.text}, i64 {k}", x.kind)
                at = f"getelementptr i8, ptr {pointer}, i64 {k * step}"
                place = self.emit(at, "i8")
                self.line(f"store {part} {one.text}, ptr {place.text}, align 1")
            return
        suffix = f"v{self.lanes}{_suffix(x.kind)}"
        if step == _size_of(x.kind):
            name = f"llvm.masked.store.{suffix}.p0"
            where, given = "ptr", f"ptr align 1 {pointer}"
        else:
            name = f"llvm.masked.scatter.{suffix}.v{self.lanes}p0"
            where = f"<{self.lanes} x ptr>"
            given = f"<{self.lanes} x ptr> align 1 {self._lane_pointers(pointer, step)}"
        self.declared.add(f"declare void @{name}({type_}, {where}, {self.type('b1')})")
        self.line(
            f"call void @{name}({type_} {x.text}, {given}, {self._mask_text(mask)})"
        )

    def store_rows(self, pointer: str, rows: Sequence[Value]) -> None:
        """Store one entry of each value per lane, those of a lane side by side.

        They are shuffled into whole vectors, which takes fewer stores than entries.
        """
        width, size = len(rows), _size_of(rows[0].kind)
        type_ = self.type(rows[0].kind)
        for k in range(width):
            # Each lane of this vector is a lane of a row.
            lanes = [divmod(k * self.lanes + i, width) for i in range(self.lanes)]
            made = rows[lanes[0][1]]
            filled = [lane for lane, _ in lanes]  # those of other rows come below
            for chosen in dict.fromkeys(row for _, row in lanes):
                places = [
                    self.lanes + lane if row == chosen else filled[i]
                    for i, (lane, row) in enumerate(lanes)
                ]
                made = self.join(made, rows[chosen], places)
                filled = list(range(self.lanes))
            at = self.move(pointer, k * self.lanes * size)
            self.line(f"store {type_} {made.text}, ptr {at}, align 1")

    def spread(self, x: Value) -> Value:
        """Return a scalar in every lane."""
        if self.lanes == 1:
            return x
        first = self.emit(
            f"insertelement {self.type(x.kind)} poison, {TYPES[x.kind]} {x.text},"
            " i64 0",
            x.kind,
        )
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        type_ = self.type(x.kind)
        return self.emit(
            f"shufflevector {type_} {first.text}, {type_} poison, {zeros}", x.kind
        )

    def _mask_text(self, mask: Value | None) -> str:
        return f"{self.type('b1')} {'splat (i1 true)' if mask is None else mask.text}"

    def _lane_pointers(self, pointer: str, step: int) -> str:
        places = ", ".join(f"i64 {step * i}" for i in range(self.lanes))
        return self.emit(
            f"getelementptr i8, ptr {pointer}, <{self.lanes} x i64> <{places}>", "i8"
        ).text

    def make_mask(self, count: int) -> Value:
        """Return a mask that holds in the first lanes."""
        if self.lanes == 1:
            return Value("true", "b1")
        bits = ", ".join(
            f"i1 {'true' if i < count else 'false'}" for i in range(self.lanes)
        )
        return Value(f"<{bits}>", "b1")

    def join(self, x: Value, y: Value, places: Sequence[int]) -> Value:
        """Return some lanes of two values; those of the second follow the first's."""
        type_ = self.type(x.kind)
        shown = ", ".join(f"i32 {i}" for i in places)
        return self.emit(
            f"shufflevector {type_} {x.text}, {type_} {y.text},"
            f" <{self.lanes} x i32> <{shown}>",
            x.kind,
        )

    def rotate(self, x: Value, by: int) -> Value:
        """Return the lanes from ``by`` on in front."""
        places = [(i + by) % self.lanes for i in range(self.lanes)]
        type_ = self.type(x.kind)
        shown = ", ".join(f"i32 {i}" for i in places)
        return self.emit(
            f"shufflevector {type_} {x.text}, {type_} poison,"
            f" <{self.lanes} x i32> <{shown}>",
            x.kind,
        )

    def first(self, x: Value) -> Value:
        """Return the first lane, as a scalar."""
        if self.lanes == 1:
            return x
        return self.emit(f"extractelement {self.type(x.kind)} {x.text}, i64 0", x.kind)


def _size_of(kind: str) -> int:
    return int(kind[1:])


def _suffix(kind: str) -> str:
    return f"{'f' if kind[0] == 'f' else 'i'}{8 * int(kind[1:])}"


def _cast_number(number: Any, kind: str) -> Any:
    """Return the number of a literal, converted to another kind."""
    if kind == "b1":
        return bool(number)
    if kind[0] == "f":
        return float(number)
    with np.errstate(all="ignore"):
        return int(np.asarray(number).astype(np.dtype(kind)))
