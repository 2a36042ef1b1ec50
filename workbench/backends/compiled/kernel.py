"""`Kernel`: one nest of loops over a domain, which computes many nodes at once.

Each entry of the domain is loaded, computed in registers, and stored or reduced. The
loops are planned from the strides of all arrays: axes that lie one after the other
become one, and the innermost runs in vectors. A remainder runs under a mask, so that
nothing beyond an array is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import (
    PARTS,
    Builder,
    Complex,
    Entry,
    Value,
    format_number,
    kind_of,
)
from workbench.backends.compiled.entries import (
    add,
    compute_entry,
    maximum,
    minimum,
    multiply,
)
from workbench.backends.compiled.machine import Machine
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of


class View(NamedTuple):
    """Where the entries of an array lie: in which buffer, how many bytes apart."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str

    def broadcast(self, shape: Sequence[int]) -> View:
        """Return the view of a larger shape, repeated as NumPy repeats it."""
        missing = len(shape) - len(self.shape)
        strides = [0] * missing + [
            0 if n == 1 else stride
            for n, stride in zip(self.shape, self.strides, strict=True)
        ]
        return self._replace(shape=tuple(shape), strides=tuple(strides))


class Combination(NamedTuple):
    """How entries become one: an op of two, and what changes nothing."""

    combine: Callable[[Builder, Value, Value], Value]
    identity: Callable[[str], Any]


def _lowest(kind: str) -> Any:
    return -np.inf if kind[0] == "f" else 0 if kind == "b1" else np.iinfo(kind).min


def _highest(kind: str) -> Any:
    return np.inf if kind[0] == "f" else 1 if kind == "b1" else np.iinfo(kind).max


COMBINATIONS: dict[str, Combination] = {
    "sum": Combination(add, lambda kind: -0.0 if kind[0] == "f" else 0),
    "prod": Combination(multiply, lambda kind: 1),
    "max": Combination(maximum, _lowest),
    "min": Combination(minimum, _highest),
    "any": Combination(lambda b, x, y: b.operate("or", x, y), lambda kind: 0),
    "all": Combination(lambda b, x, y: b.operate("and", x, y), lambda kind: 1),
}


class Reduction(NamedTuple):
    """A reduction of one value of a kernel, into a view without the reduced axes."""

    node: Tensor
    source: int
    view: View


class Kernel:
    """Nodes that are computed entry by entry over one domain.

    Attributes
    ----------
    domain
        The shape of all loops together.
    nodes
        What is computed, in order.
    loads
        Where operands lie that no node of the kernel computes, by serial number,
        broadcast to the domain.
    stores
        The serial numbers of nodes whose entries are kept, and where.
    reductions
        What is reduced, and where the results lie, with a stride of 0 on each
        reduced axis.
    """

    def __init__(
        self, domain: tuple[int, ...], nodes: Sequence[Tensor],
        loads: Mapping[int, View], stores: Sequence[tuple[int, View]],
        reductions: Sequence[Reduction],
    ) -> None:  # fmt: skip
        self.domain = domain
        self.nodes = nodes
        self.loads = dict(loads)
        self.stores = list(stores)
        self.reductions = list(reductions)
        self._views = [
            *self.loads.values(),
            *(view for _, view in self.stores),
            *(x.view for x in self.reductions),
        ]
        self.lengths, self.steps = self._plan_loops()
        #: How many rounds of the outermost loop one call makes, if it reduces: each
        #: call then reduces into memory of its own.
        self.chunk = 0

    @property
    def size(self) -> int:
        """The number of entries of the domain."""
        return math.prod(self.domain)

    @property
    def buffers(self) -> set[int]:
        """The buffers that the kernel reads or writes."""
        return {view.buffer for view in self._views}

    @property
    def reduces_outermost(self) -> bool:
        """True if the rounds of the outermost loop meet in one result."""
        first = len(self.loads) + len(self.stores)
        return any(steps[0] == 0 for steps in self.steps[first:])

    def _plan_loops(self) -> tuple[list[int], list[list[int]]]:
        """Return the lengths of the loops, outermost first, and each view's strides."""
        kept = [i for i, n in enumerate(self.domain) if n != 1]
        lengths = [self.domain[i] for i in kept]
        steps = [[view.strides[i] for i in kept] for view in self._views]
        lengths, steps = _join_axes(lengths, steps)
        if len(lengths) > 1:
            inner = self._choose_inner(lengths, steps)
            order = [i for i in range(len(lengths)) if i != inner] + [inner]
            lengths = [lengths[i] for i in order]
            steps = [[one[i] for i in order] for one in steps]
            lengths, steps = _join_axes(lengths, steps)
        return lengths or [1], [one or [0] for one in steps]

    def _choose_inner(self, lengths: list[int], steps: list[list[int]]) -> int:
        """Return the axis that runs in vectors: few strides, and not too short."""
        sizes = [int(view.kind[1:]) for view in self._views]

        def rate(axis: int) -> float:
            near = sum(
                one[axis] in (0, size) for one, size in zip(steps, sizes, strict=True)
            )
            return near * min(lengths[axis], 8)

        return max(range(len(lengths)), key=lambda axis: (rate(axis), axis))


def _join_axes(
    lengths: list[int], steps: list[list[int]]
) -> tuple[list[int], list[list[int]]]:
    """Join axes that every view has one after the other in memory."""
    lengths, steps = list(lengths), [list(one) for one in steps]
    for i in range(len(lengths) - 2, -1, -1):
        if all(one[i] == one[i + 1] * lengths[i + 1] for one in steps):
            lengths[i : i + 2] = [lengths[i] * lengths[i + 1]]
            for one in steps:
                del one[i]
    return lengths, steps


def count_lanes(machine: Machine, kinds: Sequence[str], length: int) -> int:
    """Return how many entries a vector holds, of the widest kind among these."""
    widest = max((int(PARTS.get(kind, kind)[1:]) for kind in kinds), default=8)
    lanes = max(1, machine.width // max(widest, 4))
    while lanes // 2 >= length:
        lanes //= 2
    return lanes


def write_kernel(machine: Machine, name: str, kernel: Kernel) -> Builder:
    """Return a kernel as IR: a function of the table of buffers and of a range.

    The range is of the outermost loop, whose rounds are shared among cores.

    Raises
    ------
    CompilerError
        If an entry of some node cannot be computed.
    """
    return _Writer(machine, name, kernel).write()


def write_zeros(machine: Machine, name: str, buffer: int, size: int) -> Builder:
    """Return a function like that of a kernel that fills a buffer with zeros."""
    b = Builder(machine, 1)
    b.lines = [f"define void @{name}(ptr %table, i64 %lo, i64 %hi) {{", "start:"]
    place = b.emit(f"getelementptr ptr, ptr %table, i64 {buffer}", "i8").text
    base = b.emit(f"load ptr, ptr {place}, align 8", "i8").text
    b.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    b.line(f"call void @llvm.memset.p0.i64(ptr {base}, i8 0, i64 {size}, i1 false)")
    b.line("ret void")
    b.lines.append("}")
    return b


class _Writer:
    """The text of one kernel while it is being written."""

    def __init__(self, machine: Machine, name: str, kernel: Kernel) -> None:
        kinds = [view.kind for view in kernel._views]
        for node in kernel.nodes:
            spec: Any = node.spec
            kinds.append(kind_of(spec.dtype))
        self.kernel = kernel
        self.lengths = kernel.lengths
        self.inner = len(kernel.lengths) - 1
        self.b = Builder(machine, count_lanes(machine, kinds, kernel.lengths[-1]))
        self.function = name
        self.block = "start"
        #: The pointer of each view, at the innermost loop that has begun.
        self.pointers: list[str] = []
        self._labels = 0
        first = len(kernel.loads)
        self.store_places = range(first, first + len(kernel.stores))
        first += len(kernel.stores)
        self.reduction_places = range(first, first + len(kernel.reductions))

    def write(self) -> Builder:
        """Write the function."""
        b, kernel = self.b, self.kernel
        b.lines = [
            f"define void @{self.function}(ptr %table, i64 %lo, i64 %hi) {{", "start:",
        ]  # fmt: skip
        bases = {}
        for i in sorted(kernel.buffers):
            place = b.emit(f"getelementptr ptr, ptr %table, i64 {i}", "i8").text
            bases[i] = b.emit(f"load ptr, ptr {place}, align 8", "i8").text
        self.pointers = [
            self._move(bases[view.buffer], view.offset) for view in kernel._views
        ]
        if kernel.chunk:
            self._move_to_chunk()
        if math.prod(self.lengths):
            self._write_level(0)
        b.line("ret void")
        b.lines.append("}")
        return b

    def _move_to_chunk(self) -> None:
        """Let reductions write to the memory of this chunk."""
        b = self.b
        number = b.emit(f"udiv i64 %lo, {self.kernel.chunk}", "i8").text
        for place, one in zip(
            self.reduction_places, self.kernel.reductions, strict=True
        ):
            size = reduced_bytes(one)
            offset = b.emit(f"mul i64 {number}, {size}", "i8").text
            self.pointers[place] = b.emit(
                f"getelementptr i8, ptr {self.pointers[place]}, i64 {offset}", "i8"
            ).text

    def _move(self, pointer: str, offset: int | str) -> str:
        if offset == 0:
            return pointer
        return self.b.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}", "i8").text

    # Loops

    def _label(self) -> str:
        self._labels += 1
        return f"b{self._labels}"

    def _begin(self, label: str) -> None:
        self.b.lines.append(f"{label}:")
        self.block = label

    def _loop(
        self, start: str, end: str, step: int, body: Callable[[str], None]
    ) -> None:
        """Write a loop whose body is given the index."""
        b = self.b
        head, inside, after = self._label(), self._label(), self._label()
        before, i, following = self.block, b.name(), b.name()
        b.line(f"br label %{head}")
        self._begin(head)
        at = len(b.lines)
        b.line("")
        more = b.emit(f"icmp slt i64 {i}, {end}", "b1").text
        b.line(f"br i1 {more}, label %{inside}, label %{after}")
        self._begin(inside)
        body(i)
        b.line(f"{following} = add i64 {i}, {step}")
        b.line(f"br label %{head}")
        b.lines[at] = (
            f"  {i} = phi i64 [{start}, %{before}], [{following}, %{self.block}]"
        )
        self._begin(after)

    def _write_level(self, level: int) -> None:
        """Write the loops from a level on."""
        for place, one in zip(
            self.reduction_places, self.kernel.reductions, strict=True
        ):
            steps = self.kernel.steps[place]
            if level < self.inner and steps[level] == 0 and all(steps[:level]):
                self._fill(place, one, level)
        if level == self.inner:
            self._write_inner()
            return
        outer = self.pointers

        def write_round(i: str) -> None:
            self.pointers = [
                self._step(p, i, steps[level])
                for p, steps in zip(outer, self.kernel.steps, strict=True)
            ]
            self._write_level(level + 1)

        self._loop(*self._range(level), 1, write_round)
        self.pointers = outer

    def _range(self, level: int) -> tuple[str, str]:
        return ("%lo", "%hi") if level == 0 else ("0", str(self.lengths[level]))

    def _step(self, pointer: str, i: str, stride: int) -> str:
        if stride == 0:
            return pointer
        return self._move(pointer, self.b.emit(f"mul i64 {i}, {stride}", "i8").text)

    def _fill(self, place: int, one: Reduction, level: int) -> None:
        """Write what changes nothing into the entries that the loops below reduce."""
        kept = [
            (self.lengths[i], self.kernel.steps[place][i])
            for i in range(level, len(self.lengths))
            if self.kernel.steps[place][i]
        ]
        kind = one.view.kind
        parts = 2 if kind in PARTS else 1
        part = PARTS.get(kind, kind)
        stored = "u1" if part == "b1" else part
        number = format_number(COMBINATIONS[one.node.op.name].identity(part), stored)
        type_ = self.b.type(stored, 1)

        def fill(pointer: str, axes: list[tuple[int, int]]) -> None:
            if not axes:
                for k in range(parts):
                    where = self._move(pointer, k * int(part[1:]))
                    self.b.line(f"store {type_} {number}, ptr {where}, align 1")
                return
            length, stride = axes[0]
            self._loop(
                "0", str(length), 1,
                lambda i: fill(self._step(pointer, i, stride), axes[1:]),
            )  # fmt: skip

        fill(self.pointers[place], kept)

    # The innermost loop

    def _write_inner(self) -> None:
        b, lanes = self.b, self.b.lanes
        length, rest = self.lengths[-1], self.lengths[-1] % lanes
        whole = length - rest
        start, end = self._range(self.inner)
        if self.inner == 0 and rest:  # the last rounds may be a part of a vector
            short = b.emit(f"icmp slt i64 %hi, {whole}", "b1").text
            end = b.emit(f"select i1 {short}, i64 %hi, i64 {whole}", "i8").text
        elif rest:
            end = str(whole)
        totals = [
            self._start_totals(place, one)
            for place, one in zip(
                self.reduction_places, self.kernel.reductions, strict=True
            )
        ]
        if whole:
            totals = self._write_vector_loop(start, end, totals)
        if rest:
            if self.inner == 0 and whole:
                totals = self._write_last_rounds(whole, rest, totals)
            else:
                totals = self._compute(str(whole), totals, b.make_mask(rest))
        for place, one, total in zip(
            self.reduction_places, self.kernel.reductions, totals, strict=True
        ):
            if total is not None:
                self._finish_total(place, one, total)

    def _start_totals(self, place: int, one: Reduction) -> list[Value] | None:
        """Return registers that the innermost loop adds to; None: it keeps its axis."""
        if self.kernel.steps[place][-1] != 0:
            return None
        part = PARTS.get(one.view.kind, one.view.kind)
        identity = COMBINATIONS[one.node.op.name].identity(part)
        literal = self.b.literal(identity, part)
        assert isinstance(literal, Value)
        return [literal] * (2 if one.view.kind in PARTS else 1)

    def _write_vector_loop(self, start: str, end: str, totals: list[Any]) -> list[Any]:
        b = self.b
        names = [[b.name() for _ in t or ()] for t in totals]
        head, inside, after = self._label(), self._label(), self._label()
        before, i, following = self.block, b.name(), b.name()
        b.line(f"br label %{head}")
        self._begin(head)
        at = len(b.lines)
        kept = [
            [Value(n, v.kind) for n, v in zip(ns, t, strict=True)] if t else None
            for ns, t in zip(names, totals, strict=True)
        ]
        more = b.emit(f"icmp slt i64 {i}, {end}", "b1").text
        b.line(f"br i1 {more}, label %{inside}, label %{after}")
        self._begin(inside)
        news = self._compute(i, kept, None)
        b.line(f"{following} = add i64 {i}, {b.lanes}")
        b.line(f"br label %{head}")
        phis = [f"  {i} = phi i64 [{start}, %{before}], [{following}, %{self.block}]"]
        for ns, t, new in zip(names, totals, news, strict=True):
            for n, v, w in zip(ns, t or (), new or (), strict=True):
                phis.append(
                    f"  {n} = phi {b.type(v.kind)} [{v.text}, %{before}], [{w.text},"
                    f" %{self.block}]"
                )
        b.lines[at:at] = phis
        self._begin(after)
        return kept

    def _write_last_rounds(self, whole: int, rest: int, totals: list[Any]) -> list[Any]:
        """Write the remainder of the outermost loop, where this call ends with it."""
        b = self.b
        inside, after = self._label(), self._label()
        last = b.emit(f"icmp sgt i64 %hi, {whole}", "b1").text
        before = self.block
        b.line(f"br i1 {last}, label %{inside}, label %{after}")
        self._begin(inside)
        news = self._compute(str(whole), totals, b.make_mask(rest))
        b.line(f"br label %{after}")
        end = self.block
        self._begin(after)
        return [
            None
            if t is None
            else [
                b.emit(
                    f"phi {b.type(v.kind)} [{v.text}, %{before}], [{w.text}, %{end}]",
                    v.kind,
                )
                for v, w in zip(t, new, strict=True)
            ]
            for t, new in zip(totals, news, strict=True)
        ]

    def _compute(self, i: str, totals: list[Any], mask: Value | None) -> list[Any]:
        """Write one round of the innermost loop; return the new totals."""
        b, kernel = self.b, self.kernel
        at = [
            (self._step(p, i, steps[-1]), steps[-1])
            for p, steps in zip(self.pointers, kernel.steps, strict=True)
        ]
        values: dict[int, Entry] = {}
        for (serial, view), (pointer, step) in zip(
            kernel.loads.items(), at, strict=False
        ):
            values[serial] = b.load(pointer, view.kind, step, mask)
        for node in kernel.nodes:
            operands, specs = [], []
            for x in node.inputs:
                operand, spec = self._operand(x, values)
                operands.append(operand)
                specs.append(spec)
            values[node.serial] = compute_entry(b, node, operands, specs)
        for (serial, _), place in zip(kernel.stores, self.store_places, strict=True):
            b.store(at[place][0], values[serial], at[place][1], mask)
        news: list[list[Value] | None] = []
        for one, place, total in zip(
            kernel.reductions, self.reduction_places, totals, strict=True
        ):
            entry = b.convert(values[one.source], one.view.kind)
            parts = _split_parts(entry)
            combine = COMBINATIONS[one.node.op.name].combine
            if total is None and all(kernel.steps[place]):  # of axes of length 1
                b.store(at[place][0], entry, at[place][1], mask)
                news.append(None)
                continue
            if total is None:
                kept = b.load(at[place][0], one.view.kind, at[place][1], mask)
                made = [
                    combine(b, x, y)
                    for x, y in zip(_split_parts(kept), parts, strict=True)
                ]
                whole = _join_parts(made, one.view.kind)
                b.store(at[place][0], whole, at[place][1], mask)
                news.append(None)
                continue
            new = [combine(b, x, y) for x, y in zip(total, parts, strict=True)]
            if mask is not None:
                new = [
                    b.choose(mask, x, old) for x, old in zip(new, total, strict=True)
                ]
            news.append(new)
        return news

    def _operand(self, x: Any, values: dict[int, Entry]) -> tuple[Entry, Spec]:
        """Return an operand of a node, and its spec."""
        found = values.get(x.serial if isinstance(x, Tensor) else -id(x))
        if found is not None:
            return found, spec_of(x)
        number, spec = read_number(x)
        return self.b.literal(number, kind_of(spec.dtype)), spec

    def _finish_total(self, place: int, one: Reduction, total: list[Value]) -> None:
        """Combine the lanes of a total, and put it where the result lies."""
        b = self.b
        combine = COMBINATIONS[one.node.op.name].combine
        parts = []
        for part in total:
            by = b.lanes // 2
            while by:
                part = combine(b, part, b.rotate(part, by))
                by //= 2
            parts.append(b.first(part))
        pointer = self.pointers[place]
        direct = all(self.kernel.steps[place][:-1])
        lanes, b.lanes = b.lanes, 1
        if not direct:
            kept = b.load(pointer, one.view.kind, 0, None)
            parts = [
                combine(b, x, y) for x, y in zip(_split_parts(kept), parts, strict=True)
            ]
        b.store(pointer, _join_parts(parts, one.view.kind), 0, None)
        b.lanes = lanes


def _split_parts(x: Entry) -> list[Value]:
    return [x.real, x.imag] if isinstance(x, Complex) else [x]


def _join_parts(parts: Sequence[Value], kind: str) -> Entry:
    return Complex(parts[0], parts[1], kind) if kind in PARTS else parts[0]


def reduced_bytes(one: Reduction) -> int:
    """Return how many bytes the result of a reduction takes."""
    shape = [
        n for n, step in zip(one.view.shape, one.view.strides, strict=True) if step
    ]
    return math.prod(shape) * int(one.view.kind[1:])


def read_number(x: Any) -> tuple[Any, Spec]:
    """Return a constant of one entry as a Python number, and its spec."""
    value = x._value if isinstance(x, Tensor) else x
    if type(value) in (bool, int, float, complex):
        return value, Spec((), np.result_type(type(value)), True)
    array = np.asarray(value)
    return array.reshape(-1)[0].item(), Spec(array.shape, array.dtype)
