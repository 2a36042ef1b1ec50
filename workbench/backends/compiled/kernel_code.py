"""A kernel as code: its loops, the innermost in vectors, and its reductions.

A remainder runs under a mask, so that nothing beyond an array is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from workbench.backends.compiled.builder import (
    PARTS,
    Builder,
    Entry,
    Value,
    format_number,
    join_parts,
    kind_of,
    split_parts,
)
from workbench.backends.compiled.entries import compute_entry
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Address,
    Combine,
    IndexAxis,
    Kernel,
    Reduction,
    Running,
    Scatter,
    count_lanes,
    find_combination,
    read_number,
    reduced_bytes,
)
from workbench.backends.compiled.machine import Machine
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of


def write_kernel(machine: Machine, name: str, kernel: Kernel) -> Builder:
    """Return a kernel as IR: a function of the table of buffers and of a range.

    The range is of the outermost loop, whose rounds are shared among cores.

    Raises
    ------
    CompilerError
        If an entry of some node cannot be computed.
    """
    return _KernelWriter(machine, name, kernel).write()


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


#: How many vectors a round takes if something is reduced, by the number of nodes.
UNROLLED = {4: 4, 2: 12, 1: 2**31}
#: So many rows are reduced at a time, of kernels with at most so many nodes.
ROWS, MOST_IN_ROWS = 4, 8
#: At most so many entries that lie side by side are stored together.
MOST_SIDE_BY_SIDE = 8
#: What is reduced meets in blocks of so many rounds.
BLOCK = 32


class _AddressWriter:
    """What a kernel loads and stores at index values, while it is being written.

    Attributes
    ----------
    rows
        The addresses whose place an innermost loop begins at, by place.
    active
        How many lanes the mask leaves.
    flag
        The pointer to the word that says whether an index is out of bounds.
    """

    def __init__(self, b: Builder, rows: dict[int, Address]) -> None:
        self.b, self.rows = b, rows
        self.active = b.lanes
        self.flag = ""

    def find_offset(self, index: Entry, axis: IndexAxis, mask: Value | None) -> Value:
        """Return how many bytes an index value moves; one out of bounds is as 0."""
        b = self.b
        i = b.convert(index, "i8")
        assert isinstance(i, Value)
        length, zero, stride = (
            Value(x.text, "i8")
            for n in (axis.length, 0, axis.stride)
            if isinstance(x := b.literal(n, "i8"), Value)
        )
        if not axis.checked:
            below = b.compare("lt", i, zero)
            i = b.choose(below, b.operate("add", i, length), i)
            unsigned = Value(i.text, "u8")
            good = b.compare("lt", unsigned, Value(length.text, "u8"))
            i = b.choose(good, i, zero)
            if mask is not None:
                good = b.operate("or", good, _invert(b, mask))
            self._raise_flag(good)
        return b.operate("mul", i, stride)

    def _raise_flag(self, good: Value) -> None:
        """Set the flag unless a condition holds in all lanes."""
        b = self.b
        text = good.text
        if b.lanes > 1:
            name = f"llvm.vector.reduce.and.v{b.lanes}i1"
            b.declared.add(f"declare i1 @{name}({b.type('b1')})")
            text = b.emit(f"call i1 @{name}({b.type('b1')} {text})", "b1").text
        wrong, after = b.label(), b.label()
        b.line(f"br i1 {text}, label %{after}, label %{wrong}")
        b.begin(wrong)
        b.line(f"store i64 1, ptr {self.flag}, align 8")
        b.line(f"br label %{after}")
        b.begin(after)

    def _find_offsets(
        self, address: Address, values: dict[int, Entry], mask: Value | None
    ) -> Value:
        """Return how many bytes the index values of an address move, in each lane."""
        offsets = [
            self.find_offset(values[axis.operand], axis, mask) for axis in address.axes
        ]
        total = offsets[0]
        for other in offsets[1:]:
            total = self.b.operate("add", total, other)
        return total

    def gather(
        self, address: Address, place: int, at: tuple[str, int],
        values: dict[int, Entry], mask: Value | None,
    ) -> Entry:  # fmt: skip
        """Load the entries at an address."""
        b, (pointer, step) = self.b, at
        kind = address.view.kind
        if place in self.rows:
            return b.load(pointer, kind, step, mask)
        offsets = self._add_lanes(self._find_offsets(address, values, mask), step)
        return b.gather(pointer, kind, offsets, self.active)

    def _add_lanes(self, offsets: Value, step: int) -> Value:
        """Return offsets with that of each lane of a view added."""
        b = self.b
        if not step or b.lanes == 1:
            return offsets
        lanes = ", ".join(f"i64 {step * i}" for i in range(b.lanes))
        return b.operate("add", offsets, Value(f"<{lanes}>", "i8"))

    def scatter(
        self, one: Scatter, place: int, at: tuple[str, int], values: dict[int, Entry],
        mask: Value | None,
    ) -> None:  # fmt: skip
        """Combine a value with the entry at its address, lane by lane.

        Where the innermost loop stays in a row of entries apart, all lanes at once.
        """
        b, (pointer, step) = self.b, at
        kind = one.address.view.kind
        entry = b.convert(values[one.source], kind)
        if place in self.rows and step:
            self._combine(one, pointer, entry, step, mask)
            return
        offsets = None
        if place not in self.rows:
            offsets = self._find_offsets(one.address, values, mask)
            offsets = self._add_lanes(offsets, step)
        lanes = b.lanes
        for lane in range(self.active):
            part = _map_parts(entry, lambda x: b.take_lane(x, lane))  # noqa: B023
            moved = pointer
            if offsets is not None:
                moved = b.move(pointer, b.take_lane(offsets, lane).text)
            b.lanes = 1
            self._combine(one, moved, part, 0, None)
            b.lanes = lanes

    def _combine(
        self, one: Scatter, pointer: str, entry: Entry, step: int, mask: Value | None
    ) -> None:
        b, combine = self.b, one.combine
        if combine is not None:
            kept = b.load(pointer, entry.kind, step, mask)
            pairs = zip(split_parts(kept), split_parts(entry), strict=True)
            entry = join_parts([combine(b, x, y) for x, y in pairs], entry.kind)
        b.store(pointer, entry, step, mask)


class _KernelWriter:
    """The text of one kernel, during its construction."""

    def __init__(self, machine: Machine, name: str, kernel: Kernel) -> None:
        kinds = [view.kind for view in kernel.views]
        for node in kernel.nodes:
            spec: Any = node.spec
            kinds.append(kind_of(spec.dtype))
        self.kernel = kernel
        self.lengths = kernel.lengths
        self.inner = len(kernel.lengths) - 1
        self.b = Builder(machine, count_lanes(machine, kinds, kernel.lengths[-1]))
        self.function = name
        #: The pointer of each view, at the innermost loop that has begun.
        self.pointers: list[str] = []
        #: How many rounds of the loop around the innermost one run at a time.
        self.count = 1
        first = len(kernel.loads)
        self.store_places = range(first, first + len(kernel.stores))
        #: Stores by their number; those that fill lines of memory together are one.
        self.store_groups = self._group_stores()
        first += len(kernel.stores)
        self.reduction_places = range(first, first + len(kernel.reductions))
        first += len(kernel.reductions)
        self.gather_places = {
            serial: first + k for k, serial in enumerate(kernel.gathers)
        }
        first += len(kernel.gathers)
        self.scatter_places = range(first, first + len(kernel.scatters))
        rows = {k: x for k, x in self._list_addresses() if kernel.is_row(x)}
        self.addresses = _AddressWriter(self.b, rows)

    def _group_stores(self) -> list[list[int]]:
        """Return groups of stores: the entries of a lane lie side by side in memory."""
        stores, steps = self.kernel.stores, self.kernel.steps
        rest = sorted(range(len(stores)), key=lambda k: stores[k][1].offset)
        groups = []
        while rest:
            first = stores[rest[0]][1]
            size = int(first.kind[1:])
            own = steps[self.store_places[rest[0]]]
            width = own[-1] // size
            group = [
                k
                for i in range(width if 1 < width <= MOST_SIDE_BY_SIDE else 0)
                for k in rest
                if stores[k][1].offset == first.offset + i * size
                and stores[k][1].buffer == first.buffer
                and stores[k][1].kind == first.kind
                and steps[self.store_places[k]] == own
            ]
            whole = len(group) == width and own[-1] == width * size
            if not whole or self.b.lanes == 1 or first.kind in ("b1", *PARTS):
                group = rest[:1]
            groups.append(group)
            rest = [k for k in rest if k not in group]
        return groups

    def _list_addresses(self) -> list[tuple[int, Address]]:
        """Return all addresses, each with the place of its view."""
        kernel = self.kernel
        gathers = zip(self.gather_places.values(), kernel.gathers.values(), strict=True)
        scatters = zip(self.scatter_places, kernel.scatters, strict=True)
        return [*gathers, *((place, one.address) for place, one in scatters)]

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
            b.move(bases[view.buffer], view.offset) for view in kernel.views
        ]
        self.addresses.flag = bases.get(kernel.flag, "")
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

    # Loops

    def _write_level(self, level: int) -> None:
        """Write the loops from a level on."""
        for place, one in zip(
            self.reduction_places, self.kernel.reductions, strict=True
        ):
            steps = self.kernel.steps[place]
            first = level < self.inner and steps[level] == 0 and all(steps[:level])
            if first and not one.adds:
                self._fill(place, one, level)
        if level == self.inner:
            self._write_inner()
            return
        b, outer = self.b, self.pointers
        start, end = self._range(level)
        rows = self._count_rows() if level == self.inner - 1 else 1

        def write_round(i: str, carried: list[Value]) -> list[Value]:
            self.pointers = [
                b.step(p, i, steps[level])
                for p, steps in zip(outer, self.kernel.steps, strict=True)
            ]
            self._write_level(level + 1)
            return carried

        if rows > 1:
            stop = _round_down(b, start, end, rows)
            self.count = rows
            b.loop(start, stop, rows, write_round)
            self.count = 1
            start = stop
        b.loop(start, end, 1, write_round)
        self.pointers = outer

    def _count_rows(self) -> int:
        """Return how many rows are reduced into one at a time.

        Each then goes through the results once for several rows, and fewer entries
        meet one after the other.
        """
        kernel = self.kernel
        steps = [kernel.steps[place] for place in self.reduction_places]
        if (
            len(kernel.nodes) > MOST_IN_ROWS
            or kernel.gathers
            or kernel.scatters
            or self.lengths[self.inner - 1] < 2 * ROWS
            or not any(one[-2] == 0 for one in steps)
            or not all(one[-1] for one in steps)
        ):
            return 1
        return ROWS

    def _range(self, level: int) -> tuple[str, str]:
        return ("%lo", "%hi") if level == 0 else ("0", str(self.lengths[level]))

    def _fill(self, place: int, one: Reduction, level: int) -> None:
        """Write the identity into the entries that the inner loops reduce into."""
        kept = [
            (self.lengths[i], self.kernel.steps[place][i])
            for i in range(level, len(self.lengths))
            if self.kernel.steps[place][i]
        ]
        b, kind = self.b, one.view.kind
        parts = 2 if kind in PARTS else 1
        part = PARTS.get(kind, kind)
        stored = "u1" if part == "b1" else part
        number = format_number(find_combination(one.node).identity(part), stored)
        type_ = self.b.type(stored, 1)

        def fill(pointer: str, axes: list[tuple[int, int]]) -> None:
            if not axes:
                for k in range(parts):
                    where = b.move(pointer, k * int(part[1:]))
                    self.b.line(f"store {type_} {number}, ptr {where}, align 1")
                return
            length, stride = axes[0]

            def fill_round(i: str, carried: list[Value]) -> list[Value]:
                fill(b.step(pointer, i, stride), axes[1:])
                return carried

            b.loop(0, length, 1, fill_round)

        fill(self.pointers[place], kept)

    # The innermost loop

    def _write_inner(self) -> None:
        b, lanes = self.b, self.b.lanes
        length, rest = self.lengths[-1], self.lengths[-1] % lanes
        whole = length - rest
        start, end = self._range(self.inner)
        outer = self.pointers
        self._move_to_rows()
        if self.inner == 0 and rest:  # the last rounds may be a part of a vector
            short = b.emit(f"icmp slt i64 %hi, {whole}", "b1").text
            end = b.emit(f"select i1 {short}, i64 %hi, i64 {whole}", "i8").text
        elif rest:
            end = str(whole)
        totals = self._start_all_totals()
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
        self.pointers = outer

    def _move_to_rows(self) -> None:
        """Go to where index values say that the entries of an innermost loop lie."""
        b, lanes = self.b, self.b.lanes
        b.lanes = 1
        self.pointers = list(self.pointers)
        places = list(self.kernel.loads)
        for place, address in self.addresses.rows.items():
            for axis in address.axes:
                at = places.index(axis.operand)
                kind = self.kernel.loads[axis.operand].kind
                index = b.load(self.pointers[at], kind, 0, None)
                offset = self.addresses.find_offset(index, axis, None).text
                self.pointers[place] = b.move(self.pointers[place], offset)
        b.lanes = lanes

    def _start_all_totals(self) -> list[Any]:
        reductions = zip(self.reduction_places, self.kernel.reductions, strict=True)
        return [self._start_totals(place, one) for place, one in reductions]

    def _start_totals(self, place: int, one: Reduction) -> list[Value] | None:
        """Return registers for the innermost loop's totals; None: its axis is kept."""
        if self.kernel.steps[place][-1] != 0:
            return None
        part = PARTS.get(one.view.kind, one.view.kind)
        identity = find_combination(one.node).identity(part)
        literal = self.b.literal(identity, part)
        assert isinstance(literal, Value)
        return [literal] * (2 if one.view.kind in PARTS else 1)

    def _write_vector_loop(self, start: str, end: str, totals: list[Any]) -> list[Any]:
        """Write the rounds of whole vectors.

        What is reduced has several totals side by side, so that none waits for the
        other, and begins anew in each block, so that few entries meet one after the
        other: it rounds about as NumPy's sum in pairs does.
        """
        b, flat = self.b, _flatten(totals)
        vectors = self.lengths[-1] // b.lanes
        side = next(n for n, most in UNROLLED.items() if len(self.kernel.nodes) <= most)
        if not flat or vectors < 2 * side:
            side = 1
        step = b.lanes * side
        if not flat or vectors <= side * BLOCK:
            stop = _round_down(b, start, end, step)
            parts = self._write_rounds(start, stop, totals, side)
        else:
            stop = _round_down(b, start, end, step)

            def write_block(i: str, kept: list[Value]) -> list[Value]:
                last = b.emit(f"add i64 {i}, {step * BLOCK}", "i8").text
                less = b.emit(f"icmp slt i64 {last}, {stop}", "b1").text
                last = b.emit(f"select i1 {less}, i64 {last}, i64 {stop}", "i8").text
                block = self._write_rounds(i, last, totals, side)
                return self._combine_totals(kept, block)

            parts = b.loop(start, stop, step * BLOCK, write_block, flat)
        if side > 1:
            rest = self._write_rounds(stop, end, _restore(parts, totals), 1)
            parts = rest
        return _restore(parts, totals)

    def _write_rounds(
        self, start: str, end: str, totals: list[Any], side: int
    ) -> list[Value]:
        """Write a loop over several vectors a round, each with totals of its own."""
        b, flat = self.b, _flatten(totals)
        fresh = _flatten(self._start_all_totals())
        starts = flat + fresh * (side - 1)

        def write_round(i: str, kept: list[Value]) -> list[Value]:
            news = []
            for k in range(side):
                own = _restore(kept[k * len(flat) : (k + 1) * len(flat)], totals)
                at = b.emit(f"add i64 {i}, {k * b.lanes}", "i8").text if k else i
                news += _flatten(self._compute(at, own, None))
            return news

        made = b.loop(start, end, b.lanes * side, write_round, starts)
        parts = [made[k : k + len(flat)] for k in range(0, len(made), len(flat) or 1)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [
                self._combine_totals(x, y)
                for x, y in zip(parts[:half], parts[half:], strict=True)
            ]
        return parts[0] if parts else []

    def _combine_totals(self, xs: list[Value], ys: list[Value]) -> list[Value]:
        """Return flat totals of two parts as one."""
        combines = [
            find_combination(one.node).combine
            for one, t in zip(
                self.kernel.reductions, self._start_all_totals(), strict=True
            )
            for _ in t or ()
        ]
        return [
            combine(self.b, x, y)
            for combine, x, y in zip(combines, xs, ys, strict=True)
        ]

    def _write_last_rounds(self, whole: int, rest: int, totals: list[Any]) -> list[Any]:
        """Write the remainder of the outermost loop, where this call ends."""
        b = self.b
        inside, after = b.label(), b.label()
        last = b.emit(f"icmp sgt i64 %hi, {whole}", "b1").text
        before = b.block
        b.line(f"br i1 {last}, label %{inside}, label %{after}")
        b.begin(inside)
        news = self._compute(str(whole), totals, b.make_mask(rest))
        b.line(f"br label %{after}")
        end = b.block
        b.begin(after)
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
        active = b.lanes if mask is None else self.lengths[-1] % b.lanes
        self.addresses.active = active
        rows = []
        for row in range(self.count):
            at = [
                (
                    b.step(b.move(p, row * steps[-2]) if row else p, i, steps[-1]),
                    steps[-1],
                )
                for p, steps in zip(self.pointers, kernel.steps, strict=True)
            ]
            rows.append((at, self._compute_row(at, mask)))
        news: list[list[Value] | None] = []
        for one, place, total in zip(
            kernel.reductions, self.reduction_places, totals, strict=True
        ):
            combine = find_combination(one.node).combine
            entries = [
                b.convert(values[one.source], one.view.kind) for _, values in rows
            ]
            if total is not None:
                parts = split_parts(entries[0])
                new = [combine(b, x, y) for x, y in zip(total, parts, strict=True)]
                if mask is not None:
                    new = [
                        b.choose(mask, x, old)
                        for x, old in zip(new, total, strict=True)
                    ]
                news.append(new)
                continue
            news.append(None)
            pointers = [at[place] for at, _ in rows]
            if self.count > 1 and kernel.steps[place][-2] == 0:
                entries, pointers = [self._fold(combine, entries)], pointers[:1]
            for (pointer, step), entry in zip(pointers, entries, strict=True):
                if one.adds or not all(kernel.steps[place]):
                    kept = b.load(pointer, one.view.kind, step, mask)
                    entry = self._fold(combine, [kept, entry])
                b.store(pointer, entry, step, mask)
        return news

    def _fold(self, combine: Combine, entries: Sequence[Entry]) -> Entry:
        """Return entries as one, pair by pair."""
        while len(entries) > 1:
            entries = [
                join_parts(
                    [
                        combine(self.b, x, y)
                        for x, y in zip(*map(split_parts, pair), strict=True)
                    ],
                    pair[0].kind,
                )
                for pair in zip(entries[::2], entries[1::2], strict=True)
            ]
        return entries[0]

    def _compute_row(
        self, at: Sequence[tuple[str, int]], mask: Value | None
    ) -> dict[int, Entry]:
        """Load, compute and store the entries of one round; return their values."""
        b, kernel = self.b, self.kernel
        values: dict[int, Entry] = {}
        if kernel.running is not None:
            self._write_running(kernel.running, at, mask)
            return values
        for (serial, view), (pointer, step) in zip(
            kernel.loads.items(), at, strict=False
        ):
            values[serial] = b.load(pointer, view.kind, step, mask)
        for node in kernel.nodes:
            if node.serial in kernel.gathers:
                address = kernel.gathers[node.serial]
                place = self.gather_places[node.serial]
                values[node.serial] = self.addresses.gather(
                    address, place, at[place], values, mask
                )
                continue
            operands, specs = [], []
            for x in node.inputs:
                operand, spec = self._operand(x, values)
                operands.append(operand)
                specs.append(spec)
            values[node.serial] = compute_entry(b, node, operands, specs)
        for group in self.store_groups:
            entries: list[Any] = [  # a copy may be one into another kind
                b.convert(values[serial], view.kind)
                for serial, view in (kernel.stores[k] for k in group)
            ]
            places = [at[self.store_places[k]] for k in group]
            if len(group) > 1 and mask is None:
                b.store_rows(places[0][0], entries)
                continue
            for (pointer, step), entry in zip(places, entries, strict=True):
                b.store(pointer, entry, step, mask)
        for scatter, place in zip(kernel.scatters, self.scatter_places, strict=True):
            self.addresses.scatter(scatter, place, at[place], values, mask)
        return values

    def _write_running(
        self, one: Running, at: Sequence[tuple[str, int]], mask: Value | None
    ) -> None:
        """Write a loop along the running axis, for all lanes side by side."""
        b, combine = self.b, COMBINATIONS[one.ufunc].combine
        (source,), ((_, target),) = self.kernel.loads.values(), self.kernel.stores
        part = PARTS.get(target.kind, target.kind)
        first = b.literal(COMBINATIONS[one.ufunc].identity(part), part)
        assert isinstance(first, Value)

        def write_round(k: str, totals: list[Value]) -> list[Value]:
            (x, x_step), (y, y_step) = at
            entry = b.load(b.step(x, k, one.steps[0]), source.kind, x_step, mask)
            parts = split_parts(b.convert(entry, target.kind))
            news = [combine(b, x, y) for x, y in zip(totals, parts, strict=True)]
            made = join_parts(news, target.kind)
            b.store(b.step(y, k, one.steps[1]), made, y_step, mask)
            return split_parts(made)

        b.loop(
            0, one.length, 1, write_round, [first] * (2 if target.kind in PARTS else 1)
        )

    def _operand(self, x: Any, values: dict[int, Entry]) -> tuple[Entry, Spec]:
        """Return an operand of a node, and its spec."""
        found = values.get(x.serial if isinstance(x, Tensor) else -id(x))
        if found is not None:
            return found, spec_of(x)
        number, spec = read_number(x)
        return self.b.literal(number, kind_of(spec.dtype)), spec

    def _finish_total(self, place: int, one: Reduction, total: list[Value]) -> None:
        """Combine the lanes of a total, and store the result at its place."""
        b = self.b
        combine = find_combination(one.node).combine
        parts = []
        for part in total:
            by = b.lanes // 2
            while by:
                part = combine(b, part, b.rotate(part, by))
                by //= 2
            parts.append(b.first(part))
        pointer = self.pointers[place]
        direct = all(self.kernel.steps[place][:-1]) and not one.adds
        lanes, b.lanes = b.lanes, 1
        if not direct:
            kept = b.load(pointer, one.view.kind, 0, None)
            parts = [
                combine(b, x, y) for x, y in zip(split_parts(kept), parts, strict=True)
            ]
        b.store(pointer, join_parts(parts, one.view.kind), 0, None)
        b.lanes = lanes


def _flatten(totals: list[Any]) -> list[Value]:
    return [x for t in totals for x in t or ()]


def _restore(flat: list[Value], like: list[Any]) -> list[Any]:
    rest = iter(flat)
    return [None if t is None else [next(rest) for _ in t] for t in like]


def _round_down(b: Builder, start: str, end: str, step: int) -> str:
    """Return where whole steps from the start end."""
    if start.isdigit() and end.isdigit():
        return str(int(end) - (int(end) - int(start)) % step)
    count = b.emit(f"sub i64 {end}, {start}", "i8").text
    rest = b.emit(f"and i64 {count}, {step - 1}", "i8").text
    return b.emit(f"sub i64 {end}, {rest}", "i8").text


def _map_parts(x: Entry, change: Callable[[Value], Value]) -> Entry:
    return join_parts([change(part) for part in split_parts(x)], x.kind)


def _invert(b: Builder, mask: Value) -> Value:
    true = "true" if b.lanes == 1 else "splat (i1 true)"
    return b.operate("xor", mask, Value(true, "b1"))
