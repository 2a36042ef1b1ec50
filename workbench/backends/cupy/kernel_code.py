"""A kernel as launches: those of `entry_code`, scatters, and running sums.

Several values for one place are taken one after the other by threads whose place it is,
without atomic operations, in the order of the kernel's loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from workbench.backends.compiled.builder import (
    PARTS,
    Entry,
    Value,
    join_parts,
    split_parts,
)
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Kernel,
    Running,
    Scatter,
    View,
)
from workbench.backends.compiled.steps import (
    Plan,
    pack_strides,
)
from workbench.backends.cupy.builder import CudaBuilder
from workbench.backends.cupy.entry_code import (
    LEAST_IN_PIECE,
    THREADS,
    WARP,
    FunctionText,
    KernelWriter,
    Total,
    index_type,
    raise_to_power,
    write_indices,
)
from workbench.backends.cupy.launches import Device, Launch
from workbench.core.types import Spec

#: The threads of a block that puts values to targets of its own.
MOST_THREADS = 1024


def write_launches(kernel: Kernel, plan: Plan, device: Device) -> list[Launch]:
    """Return the launches that compute a kernel, in order.

    Memory that they need for themselves becomes buffers of the plan, ``partial`` ones,
    which the step of the kernel alone uses: places are given after this.

    Raises
    ------
    CompilerError
        If an entry of some node cannot be computed.
    """
    if not math.prod(kernel.lengths):
        return []
    return _LaunchWriter(kernel, plan, device).write()


class _TargetShares(NamedTuple):
    """How the blocks and threads of a launch share the targets of a scatter."""

    #: For each loop whether it moves in the target alone, with the same index values.
    beside: Sequence[bool]
    #: How many entries such loops have, and how many the others.
    columns: int
    entries: int
    #: The number of the target at ``offset``, as code.
    target: str
    blocks: int
    #: How many threads are beside each other at one value, of how many in a block.
    side: int
    threads: int


class _LaunchWriter(KernelWriter):
    """The launches of one kernel while they are being written."""

    def write(self) -> list[Launch]:
        """Write all launches."""
        kernel = self.kernel
        if kernel.running is not None:
            return self._write_running(kernel.running)
        launches: list[Launch] = []
        for scatter, steps in zip(kernel.scatters, self.scatter_steps, strict=True):
            launches += self._write_scatter(scatter, steps)
        groups: dict[tuple[bool, ...], list[tuple[Total, list[int]]]] = {}
        stores = [
            (serial, view, steps)
            for (serial, view), steps in zip(
                kernel.stores, self.store_steps, strict=True
            )
        ]
        for one, steps in zip(kernel.reductions, self.total_steps, strict=True):
            assert one.node.op.combines is not None
            total = Total(one.node.op.combines, one.source, one.view)
            kept = tuple(step != 0 for step in steps)
            if all(k or n == 1 for k, n in zip(kept, self.lengths, strict=True)):
                stores.append((one.source, one.view, steps))
                continue
            groups.setdefault(kept, []).append((total, steps))
        # A kernel may write where it reads: that comes last.
        last = len(groups) - 1
        for k, (kept, totals) in enumerate(groups.items()):
            launches += self.write_reductions(
                kept, totals, stores if k == last else [], True
            )
        if stores and not groups:
            launches.append(self.write_entries(stores))
        return launches

    # Scatters

    def _write_scatter(self, one: Scatter, steps: list[int]) -> list[Launch]:
        """Return the launches that put values to an address, in the order of the loops.

        Where there are few targets, pieces of the values meet in memory of their own
        first.
        """
        if self._is_distinct(one, steps):
            return [self._write_distinct(one, steps)]
        free = [step != 0 for step in steps]
        columns = math.prod(n for n, k in zip(self.lengths, free, strict=True) if k)
        entries = math.prod(self.lengths) // columns
        targets = math.prod(axis.length for axis in one.address.axes)
        view = one.address.view
        ufunc = next(
            (n for n, c in COMBINATIONS.items() if c.combine is one.combine), None
        )
        if ufunc is not None:
            side = min(THREADS, raise_to_power(columns))
            size = targets * columns * int(view.kind[1:])
            pieces = min(
                -(-4 * self.processors // -(-columns // side)),
                entries // LEAST_IN_PIECE, self.device.most_scratch // size,
            )  # fmt: skip
            if pieces > 1 and pieces * targets <= 4 * entries:
                return self._write_pieces(one, free, steps, ufunc, pieces)
        return [self._write_shares(one, steps)]

    def _write_shares(self, one: Scatter, steps: list[int]) -> Launch:
        """Return a launch in which each block owns a share of the targets.

        It goes through all index values, notes those of its own in their order, and
        puts one after the other; threads are apart along the axes that move in the
        target and have the same index values.
        """
        shares = self._share_targets(one, steps)
        f = FunctionText()
        b = f.b
        whole = index_type(math.prod(self.lengths) + MOST_THREADS)
        f.share("long long", "offsets", shares.threads)
        f.share(whole, "entries", shares.threads)
        f.share("unsigned", "counts", shares.threads // WARP)
        b.line(f"const unsigned lane = threadIdx.x % {WARP}u;")
        b.line(f"const unsigned warp = threadIdx.x / {WARP}u;")
        b.line(f"const unsigned member = threadIdx.x / {shares.side}u;")
        b.line(
            f"for ({whole} first = 0; first < {shares.entries}u;"
            f" first += {shares.threads}u) {{"
        )
        self._find_own(f, one, steps, shares, whole)
        self._note_own(b, shares)
        self._put_own(f, one, steps, shares, whole)
        b.line("__syncthreads();")
        b.line("}")
        assert self.kernel.flag >= 0 or all(x.checked for x in one.address.axes)
        return f.finish("scatter", shares.blocks, shares.threads)

    def _share_targets(self, one: Scatter, steps: list[int]) -> _TargetShares:
        """Return how blocks and threads share the targets of a scatter."""
        lengths = self.lengths
        operands = {axis.operand for axis in one.address.axes}
        beside = [
            step != 0 and not any(self.load_steps[x][k] for x in operands)
            for k, step in enumerate(steps)
        ]
        columns = math.prod(n for n, k in zip(lengths, beside, strict=True) if k)
        entries = math.prod(lengths) // columns
        moves = [
            (n, step)
            for n, step, k in zip(lengths, steps, beside, strict=True) if not k and step
        ]  # fmt: skip
        moves += [(axis.length, axis.stride) for axis in one.address.axes]
        unit = math.gcd(*(step for _, step in moves)) or 1
        # Steps back make offsets negative; targets are counted from the lowest one.
        lowest = sum(step * (n - 1) for n, step in moves if step < 0)
        targets = math.prod(n for n, _ in moves)
        side = min(MOST_THREADS, raise_to_power(columns))
        return _TargetShares(
            beside, columns, entries, f"(offset + {-lowest}) / {unit}",
            max(1, min(4 * self.processors, targets)), side,
            max(WARP, side, min(MOST_THREADS, raise_to_power(entries))),
        )  # fmt: skip

    def _find_own(
        self, f: FunctionText, one: Scatter, steps: list[int], shares: _TargetShares,
        whole: str,
    ) -> None:  # fmt: skip
        """Write code for a thread's target, and for whether its block owns the value.

        There are ``r``, the value's number, ``offset`` and ``own``.
        """
        b = f.b
        operands = {axis.operand for axis in one.address.axes}
        b.line(f"const {whole} r = first + threadIdx.x;")
        b.line("long long offset = 0;")
        b.line("bool own = false;")
        b.line(f"if (r < {shares.entries}u) {{")
        at = self._mix_indices(b, "r", shares.beside, whole)
        values = self.compute(f, sorted(operands), at, {})
        terms = [
            f"{i} * {step}LL"
            for i, step, k in zip(at, steps, shares.beside, strict=True)
            if step and not k
        ]
        terms += [
            f"{self.write_index(f, axis, values)} * {axis.stride}LL"
            for axis in one.address.axes
        ]
        b.line(f"offset = {' + '.join(terms) or '0'};")
        b.line(f"own = {shares.target} % {shares.blocks} == blockIdx.x;")
        b.line("}")

    def _note_own(self, b: CudaBuilder, shares: _TargetShares) -> None:
        """Write code that lists the values that a block owns, in their order."""
        b.line("const unsigned votes = __ballot_sync(0xffffffffu, own);")
        b.line("if (lane == 0) counts[warp] = __popc(votes);")
        b.line("__syncthreads();")
        b.line("unsigned place = __popc(votes & ((1u << lane) - 1)), count = 0;")
        b.line(f"for (unsigned k = 0; k < {shares.threads // WARP}u; ++k) {{")
        b.line("if (k < warp) place += counts[k];")
        b.line("count += counts[k];")
        b.line("}")
        b.line("if (own) {")
        b.line("offsets[place] = offset;")
        b.line("entries[place] = r;")
        b.line("}")
        b.line("__syncthreads();")

    def _put_own(
        self, f: FunctionText, one: Scatter, steps: list[int], shares: _TargetShares,
        whole: str,
    ) -> None:  # fmt: skip
        """Write code that puts the listed values in order, each by its team."""
        b, beside, side = f.b, shares.beside, shares.side
        team = shares.threads // side
        b.line("for (unsigned k = 0; k < count; ++k) {")
        b.line("const long long offset = offsets[k];")
        b.line(f"if ({shares.target} / {shares.blocks} % {team} != member) continue;")
        b.line(f"const {whole} e = entries[k];")
        b.line(
            f"for ({whole} m = threadIdx.x % {side}u; m < {shares.columns}u;"
            f" m += {side}u) {{"
        )
        inner = self._mix_indices(b, "e", beside, whole)
        outer = self._mix_indices(b, "m", [not k for k in beside], whole)
        at = [x if k else y for x, y, k in zip(outer, inner, beside, strict=True)]
        values = self.compute(f, [one.source], at, {})
        kept = [step if k else 0 for step, k in zip(steps, beside, strict=True)]
        place = self.locate(f, one.address.view, kept, at)
        self._put(b, one, f"{place} + offset", values[one.source])
        b.line("}")
        b.line("}")

    def _mix_indices(
        self, b: CudaBuilder, number: str, skipped: Sequence[bool], whole: str
    ) -> list[str]:
        """Return the indices of all loops in a round of those not skipped, else 0."""
        found = iter(write_indices(
            b, number,
            [n for n, k in zip(self.lengths, skipped, strict=True) if not k], whole,
        ))  # fmt: skip
        return ["0" if k else next(found) for k in skipped]

    def _write_pieces(
        self, one: Scatter, free: Sequence[bool], steps: list[int], ufunc: np.ufunc,
        pieces: int,
    ) -> list[Launch]:  # fmt: skip
        """Return a launch that combines pieces of the values, and those that join.

        Each thread goes through the values of its piece, and takes those whose target
        is its own.
        """
        view = one.address.view
        columns = math.prod(n for n, k in zip(self.lengths, free, strict=True) if k)
        entries = math.prod(self.lengths) // columns
        targets = math.prod(axis.length for axis in one.address.axes)
        side = min(THREADS, raise_to_power(columns))
        team = min(THREADS // side, raise_to_power(targets))
        side = min(THREADS // team, raise_to_power(columns))
        groups = -(-columns // side)
        length = -(-entries // pieces)
        pieces = -(-entries // length)
        f = FunctionText()
        b = f.b
        whole = index_type(max(math.prod(self.lengths), targets * columns) + THREADS)
        b.line(f"const {whole} m = (blockIdx.x % {groups}u) * {side}u + threadIdx.x"
               f" % {side}u;")  # fmt: skip
        b.line(f"const {whole} piece = blockIdx.x / {groups}u;")
        b.line(f"const unsigned member = threadIdx.x / {side}u;")
        b.line(f"if (m >= {columns}u) return;")
        outer = self._mix_indices(b, "m", [not k for k in free], whole)
        partial = self.add_partial((pieces, targets, columns), view.kind)
        size = int(view.kind[1:])
        row = f"{f.point(partial.buffer, 0)} + (piece * {targets * columns}LL + m"
        part = PARTS.get(view.kind, view.kind)
        first = b.literal_part(COMBINATIONS[ufunc].identity(part), part)
        both = [first, first] if view.kind in PARTS else [first]
        b.line(f"for ({whole} t = member; t < {targets}u; t += {team}u) {{")
        b.store(f"{row} + t * {columns}LL) * {size}LL", join_parts(both, view.kind))
        b.line("}")
        end = f"(piece + 1) * {length}u"
        b.line(f"const {whole} last = {end} < {entries}u ? {end} : {entries}u;")
        b.line(f"for ({whole} r = piece * {length}u; r < last; ++r) {{")
        inner = self._mix_indices(b, "r", free, whole)
        at = [x if k else y for x, y, k in zip(outer, inner, free, strict=True)]
        operands = {axis.operand for axis in one.address.axes}
        values = self.compute(f, sorted(operands), at, {})
        t = "0"
        for axis in one.address.axes:
            i = self.write_index(f, axis, values)
            t = f"({t} * {axis.length}LL + {i})" if t != "0" else i
        t = b.emit(t, "i8").text
        b.line(f"if ((unsigned)({t} % {team}) == member) {{")
        values |= self.compute(f, [one.source], at, {})
        self._put(b, one, f"{row} + {t} * {columns}LL) * {size}LL", values[one.source])
        b.line("}")
        b.line("}")
        return [
            f.finish("scatter", groups * pieces, side * team),
            self._join_pieces(one, free, steps, ufunc, partial),
        ]

    def _join_pieces(
        self, one: Scatter, free: Sequence[bool], steps: list[int], ufunc: np.ufunc,
        partial: View,
    ) -> Launch:  # fmt: skip
        """Return the launch that combines pieces with the entries at the targets."""
        view = one.address.view
        lengths = [axis.length for axis in one.address.axes]
        lengths += [n for n, k in zip(self.lengths, free, strict=True) if k]
        shape = (partial.shape[0], *lengths)
        strides = [axis.stride for axis in one.address.axes]
        strides += [step for step in steps if step]
        target = view._replace(shape=shape, strides=(0, *strides))
        packed = pack_strides(Spec(shape, np.dtype(view.kind)))
        source = partial._replace(shape=shape, strides=packed)
        total = Total(ufunc, -1, target, True)
        return self.reduce_pieces(shape, {-1: source}, [total])

    def _put(self, b: CudaBuilder, one: Scatter, place: str, value: Entry) -> None:
        """Write a value to a place, combined with the old value there."""
        entry = b.convert(value, one.address.view.kind)
        if one.combine is not None:
            combine: Callable[..., Value] = one.combine
            there = b.load(place, entry.kind)
            pairs = zip(split_parts(there), split_parts(entry), strict=True)
            entry = join_parts([combine(b, x, y) for x, y in pairs], entry.kind)
        b.store(place, entry)

    def _write_distinct(self, one: Scatter, steps: list[int]) -> Launch:
        """Return the launch that puts values to places of which no two are one."""
        f = FunctionText()
        size = math.prod(self.lengths)
        whole = index_type(size)
        operands = {axis.operand for axis in one.address.axes}
        self.open_loop(f.b, whole, size)
        at = write_indices(f.b, "i", self.lengths, whole)
        values = self.compute(f, [*operands, one.source], at, {})
        place = self.locate(f, one.address.view, steps, at)
        place += self.write_offset(f, one.address, values)
        self._put(f.b, one, place, values[one.source])
        f.b.line("}")
        return f.finish("scatter", self.count_blocks(size), self.threads)

    def _is_distinct(self, one: Scatter, steps: Sequence[int]) -> bool:
        """Return whether no two values are known to go to one place."""
        if all(k or n == 1 for k, n in zip(steps, self.lengths, strict=True)):
            return True
        domain = self.kernel.domain
        if math.prod(domain) > 2**16:
            return False
        offsets = np.zeros(domain, np.int64)
        for axis in one.address.axes:
            view = self.kernel.loads[axis.operand]
            value = self.plan.buffers[view.buffer].value
            if value is None:
                return False
            index = np.ndarray(
                view.shape, np.dtype(view.kind), value, view.offset, view.strides
            ).astype(np.int64)
            offsets += np.where(index < 0, index + axis.length, index) * axis.stride
        for n, (length, stride) in enumerate(
            zip(domain, one.address.view.strides, strict=True)
        ):
            behind = (1,) * (len(domain) - n - 1)
            offsets += (np.arange(length) * stride).reshape(length, *behind)
        return len(np.unique(offsets)) == offsets.size

    # Running sums and products

    def _write_running(self, one: Running) -> list[Launch]:
        """Return the launches of a running sum or product.

        A line whose entries lie side by side is a warp's, another one a thread's. Few
        long lines are cut in pieces: the totals of the pieces are summed first.
        """
        ((_, target),) = self.kernel.stores
        ((_, source),) = self.kernel.loads.items()
        lines = math.prod(self.lengths)
        sizes = tuple(int(view.kind[1:]) for view in (source, target))
        team = WARP if one.steps == sizes and one.length >= WARP else 1
        least = max(LEAST_IN_PIECE, 16 * team)
        threads = 8 * THREADS * self.processors
        pieces = min(-(-threads // (lines * team)), one.length // least)
        length = -(-one.length // max(pieces, 1))
        length = -(-length // team) * team
        pieces = -(-one.length // length)
        if pieces == 1:
            return [self._write_lines(one, team, None, 1, one.length, True)]
        partial = self.add_partial((pieces, lines), target.kind)
        step = partial.strides[0]
        flat = partial._replace(shape=(lines,), strides=partial.strides[1:])
        running = Running(one.ufunc, pieces, (step, step))
        sums = Kernel((lines,), (), {-1: flat}, [(-1, flat)], (), running=running)
        writer = _LaunchWriter(sums, self.plan, self.device, self.owner)
        return [
            self._write_lines(one, team, partial, pieces, length, False),
            *writer._write_running(running),
            self._write_lines(one, team, partial, pieces, length, True),
        ]

    def _write_lines(
        self, one: Running, team: int, partial: View | None, pieces: int, length: int,
        stores: bool,
    ) -> Launch:  # fmt: skip
        """Return the launch of a piece of a line for each team of threads.

        It stores what is found on the way, or the total of the piece alone.
        """
        f = FunctionText()
        b = f.b
        ((serial, source),) = self.kernel.loads.items()
        ((_, target),) = self.kernel.stores
        lines, kind = math.prod(self.lengths), target.kind
        total = Total(one.ufunc, serial, target)
        whole = index_type(lines * max(pieces, one.length) + self.threads * team)
        self.open_loop(b, whole, lines * pieces * team)
        b.line(f"const {whole} line = i / {team}u % {lines}u;")
        b.line(f"const {whole} piece = i / {lines * team}u;")
        b.line(f"const int lane = threadIdx.x % {team}u;")
        at = write_indices(b, "line", self.lengths, whole)

        parts = self._start_running(b, total)
        row = ""
        if partial is not None:
            size = int(kind[1:])
            row = f"{f.point(partial.buffer, 0)} + (line + {lines}LL * (piece"
            if stores:
                b.line("if (piece) {")
                there = b.load(f"{row} - 1)) * {size}LL", kind)
                for part, x in zip(parts, split_parts(there), strict=True):
                    b.assign(part, x)
                b.line("}")
        end = f"(piece + 1) * {length}u"
        b.line(f"const {whole} last = {end} < {one.length}u ? {end} : {one.length}u;")
        b.line(f"{whole} first = piece * {length}u;")
        b.line(f"for (; first < last; first += {team}u) {{")
        b.line(f"const {whole} r = first + lane;")
        steps = self.load_steps[serial]
        place = f"{self.locate(f, source, steps, at)} + r * {one.steps[0]}LL"
        if team == 1:
            entry = b.convert(b.load(place, source.kind), kind)
            self.combine(b, total, parts, split_parts(entry))
            made = parts
        else:
            made = self._run_in_warp(b, total, parts, (place, source.kind), team)
        if stores:
            if team > 1:
                b.line("if (r < last) {")
            place = self.locate(f, target, self.store_steps[0], at)
            b.store(f"{place} + r * {one.steps[1]}LL", join_parts(made, kind))
            if team > 1:
                b.line("}")
        b.line("}")
        if not stores:
            b.line("if (lane == 0) {")
            b.store(f"{row})) * {size}LL", join_parts(parts, kind))
            b.line("}")
        b.line("}")
        blocks = self.count_blocks(lines * pieces * team)
        return f.finish("running", blocks, self.threads)

    def _start_running(self, b: CudaBuilder, total: Total) -> list[Value]:
        """Write the variables of a running total.

        A float16 is rounded after each step here.
        """
        part = PARTS.get(total.view.kind, total.view.kind)
        return [Value(x.text, part) for x in self.start_total(b, total)]

    def _run_in_warp(
        self, b: CudaBuilder, total: Total, parts: Sequence[Value],
        place: tuple[str, str], team: int,
    ) -> list[Value]:  # fmt: skip
        """Write the running total of as many entries as a team has threads.

        ``parts`` is the total of what came before, and becomes that of all; ``place``
        is where the thread's own entry lies, and its kind.
        """
        made = self._start_running(b, total)
        b.line("if (r < last) {")
        entry = b.convert(b.load(*place), total.view.kind)
        for part, x in zip(made, split_parts(entry), strict=True):
            b.assign(part, x)
        b.line("}")
        b.line(f"for (int by = 1; by < {team}; by <<= 1) {{")
        others = [b.emit(f"shift_up({x.text}, by)", x.kind) for x in made]
        b.line("if (lane >= by) {")
        self.precede(b, total, others, made)
        b.line("}")
        b.line("}")
        self.precede(b, total, parts, made)
        for part, x in zip(parts, made, strict=True):
            b.line(f"{part.text} = take_last({x.text});")
        return made
