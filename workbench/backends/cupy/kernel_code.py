"""A kernel as CUDA C++: entries by grid-stride loops, reductions in a fixed order.

Results are the same from run to run: threads meet in an order that does not depend on
which of them comes first, and several values for one place are taken one after the
other by the thread whose place it is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import (
    HALF,
    PARTS,
    Complex,
    Entry,
    Value,
    kind_of,
)
from workbench.backends.compiled.entries import compute_entry
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Address,
    Combination,
    IndexAxis,
    Kernel,
    Running,
    Scatter,
    View,
    read_number,
)
from workbench.backends.compiled.steps import (
    Buffer,
    KernelStep,
    MoveStep,
    Plan,
    pack_strides,
)
from workbench.backends.compiled.systems import SystemStep
from workbench.backends.cupy.builder import REGISTERS, CudaBuilder, stored_type
from workbench.backends.cupy.launches import Device, Launch
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of

#: The threads of a block, and of a warp.
THREADS, WARP = 256, 32
#: A grid has at most so many blocks for each multiprocessor, if its threads loop.
MOST_BLOCKS = 32
#: One load takes at most so many bytes, of a kernel with at most so many nodes.
PACK, MOST_IN_PACKS = 16, 32
#: A reduction is made in two passes if each thread still gets so many entries then.
LEAST_ENTRIES = 8
#: Pieces that scatters and running sums are made in have at least so many entries.
LEAST_IN_PIECE = 64


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
    return _Writer(kernel, plan, device).write()


class Total(NamedTuple):
    """What a launch reduces: how, which value, and where the result lies."""

    name: str
    source: int
    view: View
    #: The result is combined with what lies there.
    adds: bool = False

    @property
    def kind(self) -> str:
        """The kind of the registers: sums of float16 are added up as float32."""
        half = self.view.kind == HALF and self.name in ("sum", "prod")
        return "f4" if half else self.view.kind

    @property
    def combination(self) -> Combination:
        """How two values become one."""
        return COMBINATIONS[self.name]


class _Function:
    """The text of one function while it is being written."""

    def __init__(self) -> None:
        self.b = CudaBuilder()
        self.pointers: list[tuple[int, int]] = []

    def point(self, buffer: int, offset: int) -> str:
        """Return the parameter that points to a place in a buffer."""
        if (buffer, offset) not in self.pointers:
            self.pointers.append((buffer, offset))
        return f"p{self.pointers.index((buffer, offset))}"

    def finish(self, role: str, blocks: int, threads: int) -> Launch:
        """Return the launch."""
        parameters = ", ".join(f"char* p{k}" for k in range(len(self.pointers)))
        head = f"({parameters}) {{"
        body, depth = [], 1
        for line in self.b.lines:
            depth -= line.startswith("}")
            body.append("  " * depth + line)
            depth += line.endswith("{")
        text = "\n".join([head, *body, "}"])
        bounds = f"__launch_bounds__({threads})"
        digest = hashlib.sha256(f"{threads}{text}".encode()).hexdigest()[:16]
        name = f"{role}_{digest}"
        source = f'extern "C" __global__ void {bounds}\n{name}{text}\n'
        return Launch(name, source, tuple(self.pointers), blocks, threads, 0)


class _Writer:
    """The launches of one kernel while they are being written."""

    def __init__(self, kernel: Kernel, plan: Plan, device: Device) -> None:
        self.kernel = kernel
        self.plan = plan
        self.device = device
        self.lengths, ordered = order_loops(kernel)
        steps = iter(ordered)
        self.load_steps = {serial: next(steps) for serial in kernel.loads}
        self.store_steps = [next(steps) for _ in kernel.stores]
        self.total_steps = [next(steps) for _ in kernel.reductions]
        self.gather_steps = {serial: next(steps) for serial in kernel.gathers}
        self.scatter_steps = [next(steps) for _ in kernel.scatters]

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
            total = Total(one.node.op.name, one.source, one.view)
            kept = tuple(step != 0 for step in steps)
            if all(k or n == 1 for k, n in zip(kept, self.lengths, strict=True)):
                stores.append((one.source, one.view, steps))
                continue
            groups.setdefault(kept, []).append((total, steps))
        # A kernel may write where it reads: that comes last.
        last = len(groups) - 1
        for k, (kept, totals) in enumerate(groups.items()):
            launches += self._write_reductions(
                kept, totals, stores if k == last else [], True
            )
        if stores and not groups:
            launches.append(self._write_entries(stores))
        return launches

    # Memory of a kernel's own

    def _add_partial(self, shape: tuple[int, ...], kind: str) -> View:
        """Return memory that the step of the kernel uses alone."""
        spec = Spec(shape, np.dtype(kind))
        buffer = Buffer("partial", spec)
        buffer.first = buffer.last = self._find_step()
        self.plan.buffers.append(buffer)
        place = len(self.plan.buffers) - 1
        return View(place, 0, shape, pack_strides(spec), kind)

    def _find_step(self) -> int:
        """Return the number of the step that the kernel belongs to."""
        for number, step in enumerate(self.plan.steps):
            kernels: Iterable[Kernel] = ()
            if isinstance(step, KernelStep):
                kernels = (step.kernel,)
            elif isinstance(step, MoveStep):
                kernels = step.parts
            elif isinstance(step, SystemStep):
                kernels = step.kernels
            if any(one is self.kernel for one in kernels):
                return number
        raise ValueError("the kernel belongs to no step of the plan")

    # Entries

    def _write_entries(self, stores: Sequence[tuple[int, View, list[int]]]) -> Launch:
        """Return the launch that computes and stores each entry."""
        f = _Function()
        b, size = f.b, math.prod(self.lengths)
        needed = self._find_needed(serial for serial, _, _ in stores)
        lanes = self._count_lanes(needed, stores)
        packs = size // lanes
        whole = index_type(size)
        lengths = [*self.lengths[:-1], self.lengths[-1] // lanes]

        def write_one(at: Sequence[str], packed: dict[int, str] | None) -> None:
            values = self._compute(f, needed, at, packed or {})
            for k, (serial, view, steps) in enumerate(stores):
                entry = b.convert(values[serial], view.kind)
                if packed is not None:
                    b.write(f"s{k}.e", "k", entry)
                else:
                    b.store(self._locate(f, view, steps, at), entry)

        self._open_loop(b, whole, packs)
        if lanes == 1:
            write_one(write_indices(b, "i", lengths, whole), None)
        else:
            at = write_indices(b, "i", lengths, whole)
            b.line(f"const {whole} j = {at[-1]} * {lanes}u;")
            at = [*at[:-1], "j"]
            packed = {}
            for k, serial in enumerate(s for s in needed if s in self.kernel.loads):
                view, steps = self.kernel.loads[serial], self.load_steps[serial]
                if steps[-1]:
                    type_ = f"Pack<{stored_type(view.kind)}, {lanes}>"
                    place = self._locate(f, view, steps, at)
                    b.line(f"const {type_} l{k} = *(const {type_}*)({place});")
                    packed[serial] = f"l{k}.e"
            for k, (_, view, _) in enumerate(stores):
                b.line(f"Pack<{stored_type(view.kind)}, {lanes}> s{k};")
            b.line("#pragma unroll")
            b.line(f"for (int k = 0; k < {lanes}; ++k) {{")
            write_one([*at[:-1], "(j + k)"], packed)
            b.line("}")
            for k, (_, view, steps) in enumerate(stores):
                type_ = f"Pack<{stored_type(view.kind)}, {lanes}>"
                b.line(f"*({type_}*)({self._locate(f, view, steps, at)}) = s{k};")
        b.line("}")
        if rest := size - packs * lanes:
            b.line(f"if (blockIdx.x == 0 && threadIdx.x < {rest}) {{")
            b.line(f"const {whole} i = {packs * lanes}u + threadIdx.x;")
            write_one(["i"], None)
            b.line("}")
        return f.finish("entries", self._count_blocks(packs), THREADS)

    def _count_blocks(self, size: int) -> int:
        """Return how many blocks run a loop of so many rounds."""
        return max(1, min(-(-size // THREADS), MOST_BLOCKS * self.device.processors))

    def _open_loop(self, b: CudaBuilder, whole: str, size: int) -> None:
        """Write the head of a grid-stride loop over ``i``."""
        b.line(
            f"for ({whole} i = ({whole})blockIdx.x * {THREADS}u + threadIdx.x;"
            f" i < {size}u; i += ({whole})gridDim.x * {THREADS}u) {{"
        )

    def _count_lanes(
        self, needed: Sequence[int], stores: Sequence[tuple[int, View, list[int]]]
    ) -> int:
        """Return how many entries a thread loads and stores at a time."""
        views = [(view, steps) for _, view, steps in stores]
        views += [
            (self.kernel.loads[s], self.load_steps[s])
            for s in needed if s in self.kernel.loads
        ]  # fmt: skip
        sizes = [int(view.kind[1:]) for view, _ in views]
        lanes = max(1, min(8, PACK // max(sizes)))
        if len(self.kernel.nodes) * lanes > 2 * MOST_IN_PACKS:
            return 1

        def fits() -> bool:
            length = self.lengths[-1]
            if length < lanes or (len(self.lengths) > 1 and length % lanes):
                return False
            return all(
                steps[-1] == 0
                or (
                    steps[-1] == size
                    and view.offset % (lanes * size) == 0
                    and all(step % (lanes * size) == 0 for step in steps[:-1])
                )
                for (view, steps), size in zip(views, sizes, strict=True)
            ) and all(steps[-1] for _, _, steps in stores)

        while lanes > 1 and not fits():
            lanes //= 2
        return lanes

    def _find_needed(self, sources: Iterable[int]) -> list[int]:
        """Return the loads and nodes that values are computed of, in order."""
        kernel, found = self.kernel, set(sources)
        for node in reversed(kernel.nodes):
            if node.serial not in found:
                continue
            address = kernel.gathers.get(node.serial)
            if address is not None:
                found |= {axis.operand for axis in address.axes}
            else:
                found |= {find_key(x) for x in node.inputs}
        order = [*kernel.loads, *(node.serial for node in kernel.nodes)]
        return [serial for serial in order if serial in found]

    def _locate(
        self, f: _Function, view: View, steps: Sequence[int], at: Sequence[str]
    ) -> str:
        """Return the pointer to an entry of a view, at these indices."""
        terms = [f.point(view.buffer, view.offset)]
        terms += [f"{i} * {step}LL" for i, step in zip(at, steps, strict=True) if step]
        return " + ".join(terms)

    def _compute(
        self, f: _Function, needed: Sequence[int], at: Sequence[str],
        packed: dict[int, str],
    ) -> dict[int, Entry]:  # fmt: skip
        """Write the loads and nodes that are needed; return their values."""
        b, kernel = f.b, self.kernel
        values: dict[int, Entry] = {}
        chosen = set(needed)
        for serial, view in kernel.loads.items():
            if serial not in chosen:
                continue
            if packed.get(serial):
                values[serial] = b.read(packed[serial], "k", view.kind)
            else:
                place = self._locate(f, view, self.load_steps[serial], at)
                values[serial] = b.load(place, view.kind)
        for node in kernel.nodes:
            if node.serial not in chosen:
                continue
            address = kernel.gathers.get(node.serial)
            if address is not None:
                steps = self.gather_steps[node.serial]
                place = self._locate(f, address.view, steps, at)
                place += self._write_offset(f, address, values)
                values[node.serial] = b.load(place, address.view.kind)
                continue
            pairs = [read_operand(b, x, values) for x in node.inputs]
            values[node.serial] = compute_entry(
                b, node, [x for x, _ in pairs], [spec for _, spec in pairs]
            )
        return values

    def _write_index(
        self, f: _Function, axis: IndexAxis, values: dict[int, Entry]
    ) -> str:
        """Return an index value, counted from the start; 0 if it is out of bounds."""
        b = f.b
        whole = b.convert(values[axis.operand], "i8")
        assert isinstance(whole, Value)
        if axis.checked:
            return whole.text
        length = axis.length
        i = b.emit(f"{whole.text} < 0 ? {whole.text} + {length} : {whole.text}", "i8")
        good = b.emit(f"(unsigned long long){i.text} < {length}ULL", "b1")
        flag = f.point(self.kernel.flag, 0)
        b.line(f"if (!{good.text}) *(long long*){flag} = 1;")
        return b.emit(f"{good.text} ? {i.text} : 0", "i8").text

    def _write_offset(
        self, f: _Function, address: Address, values: dict[int, Entry]
    ) -> str:
        """Return what index values add to a pointer."""
        return "".join(
            f" + {self._write_index(f, axis, values)} * {axis.stride}LL"
            for axis in address.axes
        )

    # Reductions

    def _write_reductions(
        self, kept: tuple[bool, ...], totals: Sequence[tuple[Total, list[int]]],
        stores: Sequence[tuple[int, View, list[int]]], may_split: bool,
    ) -> list[Launch]:  # fmt: skip
        """Return the launches that reduce the axes that are not kept.

        Several threads share a result; where there are few results, several blocks do,
        and a second launch reduces what these have found.
        """
        f = _Function()
        b = f.b
        lengths = self.lengths
        results = math.prod(n for n, k in zip(lengths, kept, strict=True) if k)
        entries = math.prod(lengths) // results
        along = not kept[-1]  # neighbours in memory meet in one result
        if along:
            team = min(THREADS, raise_to_power(-(-entries // 4)))
            side = min(THREADS // team, raise_to_power(results))
            side = max(side, WARP // team)  # shuffles are of whole warps
        else:
            side = min(WARP, raise_to_power(results))
            team = min(THREADS // side, raise_to_power(-(-entries // 4)))
            side = min(THREADS // team, raise_to_power(results))
        threads, groups = team * side, -(-results // side)
        pieces = 1
        if may_split:
            wanted = -(-4 * self.device.processors // groups)
            pieces = max(1, min(wanted, entries // (team * LEAST_ENTRIES), 1024))
        length = -(-entries // pieces)
        pieces = -(-entries // length)
        whole = index_type(math.prod(lengths) + threads)
        needed = self._find_needed(
            [*(t.source for t, _ in totals), *(serial for serial, _, _ in stores)]
        )
        own, other = ("/", "%") if along else ("%", "/")
        by = team if along else side
        b.line(f"const {whole} group = blockIdx.x % {groups}u;")
        b.line(f"const {whole} piece = blockIdx.x / {groups}u;")
        b.line(f"const {whole} m = group * {side}u + threadIdx.x {own} {by}u;")
        b.line(f"const unsigned member = threadIdx.x {other} {by}u;")
        b.line(f"const bool live = m < {results}u;")
        b.line(f"const {whole} result = live ? m : 0;")
        outer = write_indices(
            b, "result", [n for n, k in zip(lengths, kept, strict=True) if k], whole
        )
        sums = [self._start_total(b, total) for total, _ in totals]
        end = f"(piece + 1) * {length}u"
        if pieces > 1:
            end = f"({end} < {entries}u ? {end} : {entries}u)"
        else:
            end = f"{entries}u"
        b.line(f"const {whole} end = live ? {end} : 0;")
        b.line("#pragma unroll 4")
        b.line(
            f"for ({whole} r = piece * {length}u + member; r < end; r += {team}u) {{"
        )
        inner = write_indices(
            b, "r", [n for n, k in zip(lengths, kept, strict=True) if not k], whole
        )
        outers, inners = iter(outer), iter(inner)
        at = [next(outers) if k else next(inners) for k in kept]
        values = self._compute(f, needed, at, {})
        for serial, view, steps in stores:
            entry = b.convert(values[serial], view.kind)
            b.store(self._locate(f, view, steps, at), entry)
        for (total, _), parts in zip(totals, sums, strict=True):
            entry = b.convert(values[total.source], total.kind)
            self._combine(b, total, parts, split_parts(entry))
        b.line("}")
        if along:
            self._meet_in_warps(b, [t for t, _ in totals], sums, team)
        else:
            self._meet_in_columns(b, [t for t, _ in totals], sums, team, side)
        b.line("if (live && member == 0) {")
        launches = []
        partials = []
        for (total, steps), parts in zip(totals, sums, strict=True):
            entry = join_parts(parts, total.kind)
            if pieces > 1:
                partial = self._add_partial((pieces, results), total.kind)
                size = int(total.kind[1:])
                pointer = f.point(partial.buffer, 0)
                b.store(f"{pointer} + (piece * {results}LL + m) * {size}LL", entry)
                partials.append(partial)
                continue
            at = self._place_results(kept, outer)
            place = self._locate(f, total.view, steps, at)
            if total.adds:
                there = b.load(place, total.view.kind)
                there = b.convert(there, total.kind)
                pairs = zip(split_parts(there), parts, strict=True)
                combine = total.combination.combine
                entry = join_parts([combine(b, x, y) for x, y in pairs], total.kind)
            b.store(place, b.convert(entry, total.view.kind))
        b.line("}")
        launches.append(f.finish("reduce", groups * pieces, threads))
        if pieces > 1:
            launches.append(self._finish_pieces(kept, totals, partials))
        return launches

    def _place_results(self, kept: Sequence[bool], outer: Sequence[str]) -> list[str]:
        """Return the indices of a result, 0 along each reduced axis."""
        outers = iter(outer)
        return [next(outers) if k else "0" for k in kept]

    def _finish_pieces(
        self, kept: Sequence[bool], totals: Sequence[tuple[Total, list[int]]],
        partials: Sequence[View],
    ) -> Launch:  # fmt: skip
        """Return the launch that reduces what the pieces have found."""
        lengths = [n for n, k in zip(self.lengths, kept, strict=True) if k]
        shape = (partials[0].shape[0], *lengths)
        loads, news = {}, []
        for k, ((total, steps), partial) in enumerate(
            zip(totals, partials, strict=True)
        ):
            packed = pack_strides(Spec(shape, np.dtype(partial.kind)))
            loads[-1 - k] = partial._replace(shape=shape, strides=packed)
            strides = (0, *(s for s, one in zip(steps, kept, strict=True) if one))
            view = total.view._replace(shape=shape, strides=strides)
            news.append(total._replace(source=-1 - k, view=view))
        return self._reduce_pieces(shape, loads, news)

    def _reduce_pieces(
        self, shape: tuple[int, ...], loads: dict[int, View], totals: list[Total]
    ) -> Launch:
        """Return the launch that reduces views of memory along the first axis."""
        stores = [(total.source, total.view) for total in totals]
        kernel = Kernel(shape, (), loads, stores, ())
        writer = _Writer(kernel, self.plan, self.device)
        pairs = list(zip(totals, writer.store_steps, strict=True))
        kept = tuple(step != 0 for step in pairs[0][1])
        (launch,) = writer._write_reductions(kept, pairs, [], False)
        return launch

    def _start_total(self, b: CudaBuilder, total: Total) -> list[Value]:
        """Write the variables of a total, which hold what changes nothing."""
        part = PARTS.get(total.kind, total.kind)
        first = b.literal_part(total.combination.identity(part), part)
        made = []
        for _ in range(2 if total.kind in PARTS else 1):
            made.append(b.declare(part))
            b.assign(made[-1], first)
        return made

    def _combine(
        self, b: CudaBuilder, total: Total, parts: Sequence[Value],
        others: Sequence[Value],
    ) -> None:  # fmt: skip
        """Combine a total with other values."""
        combine = total.combination.combine
        news = [combine(b, x, y) for x, y in zip(parts, others, strict=True)]
        for part, new in zip(parts, news, strict=True):
            b.assign(part, new)

    def _meet_in_warps(
        self, b: CudaBuilder, totals: Sequence[Total], sums: Sequence[list[Value]],
        team: int,
    ) -> None:  # fmt: skip
        """Combine the totals of neighbouring threads into those of the first."""
        if team > 1:
            b.line(f"for (int by = {min(team, WARP) // 2}; by; by >>= 1) {{")
            for total, parts in zip(totals, sums, strict=True):
                others = [b.emit(f"shift_down({x.text}, by)", x.kind) for x in parts]
                self._combine(b, total, parts, others)
            b.line("}")
        if team <= WARP:
            return
        shared = self._share(b, sums, THREADS // WARP)
        b.line(f"const unsigned warp = threadIdx.x / {WARP}u;")
        b.line(f"if (threadIdx.x % {WARP}u == 0) {{")
        for parts, names in zip(sums, shared, strict=True):
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[warp] = {x.text};")
        b.line("}")
        b.line("__syncthreads();")
        b.line("if (member == 0) {")
        b.line(f"for (unsigned k = 1; k < {team // WARP}u; ++k) {{")
        for total, parts, names in zip(totals, sums, shared, strict=True):
            others = [
                b.emit(f"{name}[warp + k]", x.kind)
                for x, name in zip(parts, names, strict=True)
            ]
            self._combine(b, total, parts, others)
        b.line("}")
        b.line("}")

    def _meet_in_columns(
        self, b: CudaBuilder, totals: Sequence[Total], sums: Sequence[list[Value]],
        team: int, side: int,
    ) -> None:  # fmt: skip
        """Combine the totals of threads that lie so many apart."""
        if team == 1:
            return
        shared = self._share(b, sums, team * side)
        for parts, names in zip(sums, shared, strict=True):
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[threadIdx.x] = {x.text};")
        b.line(f"for (unsigned by = {team // 2}u; by; by >>= 1) {{")
        b.line("__syncthreads();")
        b.line("if (member < by) {")
        for total, parts, names in zip(totals, sums, shared, strict=True):
            others = [
                b.emit(f"{name}[threadIdx.x + by * {side}u]", x.kind)
                for x, name in zip(parts, names, strict=True)
            ]
            self._combine(b, total, parts, others)
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[threadIdx.x] = {x.text};")
        b.line("}")
        b.line("}")

    def _share(
        self, b: CudaBuilder, sums: Sequence[list[Value]], count: int
    ) -> list[list[str]]:
        """Declare memory that a block shares for each part of each total."""
        shared = []
        for parts in sums:
            names = [f"s{x.text}" for x in parts]
            for x, name in zip(parts, names, strict=True):
                b.line(f"__shared__ {REGISTERS[x.kind]} {name}[{count}];")
            shared.append(names)
        return shared

    # Scatters

    def _write_scatter(self, one: Scatter, steps: list[int]) -> list[Launch]:
        """Return the launches that put values to an address, in the order of the loops.

        Along the axes that move in the target, threads are apart. Of the others, each
        thread goes through all entries, and takes those whose place is its own; pieces
        of them meet in memory of their own first.
        """
        if self._is_distinct(one, steps):
            return [self._write_distinct(one, steps)]
        free = [step != 0 for step in steps]
        columns = math.prod(n for n, k in zip(self.lengths, free, strict=True) if k)
        entries = math.prod(self.lengths) // columns
        targets = math.prod(axis.length for axis in one.address.axes)
        side = min(THREADS, raise_to_power(columns))
        team = min(THREADS // side, raise_to_power(targets))
        side = min(THREADS // team, raise_to_power(columns))
        groups = -(-columns // side)
        pieces = 1
        name = next(
            (n for n, c in COMBINATIONS.items() if c.combine is one.combine), ""
        )
        view = one.address.view
        if name:
            size = targets * columns * int(view.kind[1:])
            pieces = min(
                -(-4 * self.device.processors // groups),
                entries // LEAST_IN_PIECE, self.device.most_scratch // size,
            )  # fmt: skip
            pieces = max(1, pieces)
        length = -(-entries // pieces)
        pieces = -(-entries // length)
        f = _Function()
        b = f.b
        whole = index_type(max(math.prod(self.lengths), targets * columns) + THREADS)
        b.line(f"const {whole} m = (blockIdx.x % {groups}u) * {side}u + threadIdx.x"
               f" % {side}u;")  # fmt: skip
        b.line(f"const {whole} piece = blockIdx.x / {groups}u;")
        b.line(f"const unsigned member = threadIdx.x / {side}u;")
        b.line(f"if (m >= {columns}u) return;")
        outer = write_indices(
            b, "m", [n for n, k in zip(self.lengths, free, strict=True) if k], whole
        )
        partial = None
        if pieces > 1:
            partial = self._add_partial((pieces, targets, columns), view.kind)
            own = f.point(partial.buffer, 0)
            row = f"piece * {targets * columns}LL + m"
            size = int(view.kind[1:])
            part = PARTS.get(view.kind, view.kind)
            identity = COMBINATIONS[name].identity(part)
            first = b.literal_part(identity, part)
            both = [first, first] if view.kind in PARTS else [first]
            b.line(f"for ({whole} t = member; t < {targets}u; t += {team}u) {{")
            b.store(f"{own} + ({row} + t * {columns}LL) * {size}LL",
                    join_parts(both, view.kind))  # fmt: skip
            b.line("}")
        end = f"(piece + 1) * {length}u"
        b.line(f"const {whole} last = {end} < {entries}u ? {end} : {entries}u;")
        b.line(f"for ({whole} r = piece * {length}u; r < last; ++r) {{")
        inner = write_indices(
            b, "r", [n for n, k in zip(self.lengths, free, strict=True) if not k],
            whole,
        )  # fmt: skip
        outers, inners = iter(outer), iter(inner)
        at = [next(outers) if k else next(inners) for k in free]
        operands = {axis.operand for axis in one.address.axes}
        values = self._compute(f, sorted(operands), at, {})
        found = [self._write_index(f, axis, values) for axis in one.address.axes]
        t = "0"
        for axis, i in zip(one.address.axes, found, strict=True):
            t = f"({t} * {axis.length}LL + {i})" if t != "0" else i
        t = b.emit(t, "i8").text
        b.line(f"if ((unsigned)({t} % {team}) == member) {{")
        values |= self._compute(f, [one.source], at, {})
        if partial is not None:
            place = f"{own} + ({row} + {t} * {columns}LL) * {size}LL"
        else:
            place = self._locate(f, view, steps, at) + "".join(
                f" + {i} * {axis.stride}LL"
                for axis, i in zip(one.address.axes, found, strict=True)
            )
        self._put(b, one, place, values[one.source])
        b.line("}")
        b.line("}")
        launches = [f.finish("scatter", groups * pieces, side * team)]
        if partial is not None:
            lengths = [axis.length for axis in one.address.axes]
            lengths += [n for n, k in zip(self.lengths, free, strict=True) if k]
            shape = (pieces, *lengths)
            strides = [axis.stride for axis in one.address.axes]
            strides += [step for step in steps if step]
            target = view._replace(shape=shape, strides=(0, *strides))
            packed = pack_strides(Spec(shape, np.dtype(view.kind)))
            source = partial._replace(shape=shape, strides=packed)
            total = Total(name, -1, target, True)
            launches.append(self._reduce_pieces(shape, {-1: source}, [total]))
        return launches

    def _put(self, b: CudaBuilder, one: Scatter, place: str, value: Entry) -> None:
        """Write a value to a place, combined with what lies there."""
        entry = b.convert(value, one.address.view.kind)
        if one.combine is not None:
            combine: Callable[..., Value] = one.combine
            there = b.load(place, entry.kind)
            pairs = zip(split_parts(there), split_parts(entry), strict=True)
            entry = join_parts([combine(b, x, y) for x, y in pairs], entry.kind)
        b.store(place, entry)

    def _write_distinct(self, one: Scatter, steps: list[int]) -> Launch:
        """Return the launch that puts values to places of which no two are one."""
        f = _Function()
        size = math.prod(self.lengths)
        whole = index_type(size)
        operands = {axis.operand for axis in one.address.axes}
        self._open_loop(f.b, whole, size)
        at = write_indices(f.b, "i", self.lengths, whole)
        values = self._compute(f, [*operands, one.source], at, {})
        place = self._locate(f, one.address.view, steps, at)
        place += self._write_offset(f, one.address, values)
        self._put(f.b, one, place, values[one.source])
        f.b.line("}")
        return f.finish("scatter", self._count_blocks(size), THREADS)

    def _is_distinct(self, one: Scatter, steps: Sequence[int]) -> bool:
        """Return whether no two values are known to go to one place."""
        if all(k or n == 1 for k, n in zip(steps, self.lengths, strict=True)):
            return True
        domain = self.kernel.domain
        offsets = np.zeros(domain, np.int64)
        if offsets.size > 2**16:
            return False
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
        """Return the launches of a running sum or product: a thread for each line.

        Few long lines are cut in pieces: the totals of the pieces are summed first.
        """
        ((_, target),) = self.kernel.stores
        lines = math.prod(self.lengths)
        pieces = 1
        if one.length >= 8 * LEAST_IN_PIECE:
            wanted = -(-2 * THREADS * self.device.processors // lines)
            pieces = max(1, min(wanted, one.length // LEAST_IN_PIECE, 4096))
        length = -(-one.length // pieces)
        pieces = -(-one.length // length)
        if pieces == 1:
            return [self._write_lines(one, None, 1, one.length, True)]
        partial = self._add_partial((pieces, lines), target.kind)
        step = partial.strides[0]
        flat = partial._replace(shape=(lines,), strides=partial.strides[1:])
        sums = Kernel(
            (lines,), (), {-1: flat}, [(-1, flat)], (),
            running=Running(one.name, pieces, (step, step)),
        )  # fmt: skip
        writer = _Writer(sums, self.plan, self.device)
        assert sums.running is not None
        return [
            self._write_lines(one, partial, pieces, length, False),
            writer._write_lines(sums.running, None, 1, pieces, True),
            self._write_lines(one, partial, pieces, length, True),
        ]

    def _write_lines(
        self, one: Running, partial: View | None, pieces: int, length: int,
        stores: bool,
    ) -> Launch:  # fmt: skip
        """Return the launch of a piece of a line for each thread.

        It stores what is found on the way, or the total of the piece alone.
        """
        f = _Function()
        b = f.b
        ((serial, source),) = self.kernel.loads.items()
        ((_, target),) = self.kernel.stores
        lines = math.prod(self.lengths)
        whole = index_type(lines * max(pieces, one.length))
        total = Total(one.name, serial, target)
        kind = target.kind
        self._open_loop(b, whole, lines * pieces)
        b.line(f"const {whole} line = i % {lines}u, piece = i / {lines}u;")
        at = write_indices(b, "line", self.lengths, whole)
        parts = self._start_total(b, total._replace(view=target))
        if kind == HALF:
            parts = [Value(x.text, HALF) for x in parts]
        if partial is not None:
            own = f.point(partial.buffer, 0)
            size = int(kind[1:])
            if stores:
                b.line("if (piece) {")
                there = b.load(f"{own} + ((piece - 1) * {lines}LL + line) * {size}LL",
                               kind)  # fmt: skip
                for part, x in zip(parts, split_parts(there), strict=True):
                    b.assign(part, x)
                b.line("}")
        end = f"(piece + 1) * {length}u"
        b.line(f"const {whole} last = {end} < {one.length}u ? {end} : {one.length}u;")
        b.line(f"for ({whole} r = piece * {length}u; r < last; ++r) {{")
        steps = self.load_steps[serial]
        entry = b.load(
            f"{self._locate(f, source, steps, at)} + r * {one.steps[0]}LL", source.kind
        )
        entry = b.convert(entry, kind)
        self._combine(b, total, parts, split_parts(entry))
        if stores:
            place = self._locate(f, target, self.store_steps[0], at)
            b.store(f"{place} + r * {one.steps[1]}LL", join_parts(parts, kind))
        b.line("}")
        if not stores:
            b.store(f"{own} + (piece * {lines}LL + line) * {size}LL",
                    join_parts(parts, kind))  # fmt: skip
        b.line("}")
        return f.finish("running", self._count_blocks(lines * pieces), THREADS)


def order_loops(kernel: Kernel) -> tuple[list[int], list[list[int]]]:
    """Return the lengths of the loops and each view's strides, for threads.

    Neighbouring threads go along the axis on which most views have entries side by
    side. The order in which a kernel puts several values to one place stays.
    """
    lengths, steps = kernel.lengths, kernel.steps
    if kernel.scatters or kernel.running is not None or len(lengths) == 1:
        return lengths, steps
    sizes = [int(view.kind[1:]) for view in kernel.views]

    def rate(axis: int) -> int:
        near = sum(one[axis] == n for one, n in zip(steps, sizes, strict=True))
        return near * min(lengths[axis], WARP)

    inner = max(range(len(lengths)), key=lambda axis: (rate(axis), axis))
    order = [axis for axis in range(len(lengths)) if axis != inner] + [inner]
    return [lengths[i] for i in order], [[one[i] for i in order] for one in steps]


def index_type(size: int) -> str:
    """Return a type that counts to twice a size."""
    return "unsigned" if size < 2**30 else "unsigned long long"


def raise_to_power(n: int) -> int:
    """Return the lowest power of 2 that is not below a number."""
    return 1 << max(0, n - 1).bit_length()


def write_indices(
    b: CudaBuilder, number: str, lengths: Sequence[int], whole: str
) -> list[str]:
    """Return the indices of loops of these lengths in a round of them all."""
    if len(lengths) <= 1:
        return [number] * len(lengths)
    found = []
    rest = number
    for k, n in reversed(list(enumerate(lengths))):
        if k == 0:
            found.append(rest)
            break
        b.line(f"const {whole} {number}{k} = {rest} % {n}u;")
        found.append(f"{number}{k}")
        b.line(f"const {whole} {number}{k}_rest = {rest} / {n}u;")
        rest = f"{number}{k}_rest"
    return found[::-1]


def find_key(x: Any) -> int:
    """Return the number under which a kernel holds an operand."""
    return x.serial if isinstance(x, Tensor) else -id(x)


def read_operand(
    b: CudaBuilder, x: Any, values: dict[int, Entry]
) -> tuple[Entry, Spec]:
    """Return an operand of a node, and its spec."""
    found = values.get(find_key(x))
    if found is not None:
        return found, spec_of(x)
    number, spec = read_number(x)
    return b.literal(number, kind_of(spec.dtype)), spec


def split_parts(x: Entry) -> list[Value]:
    """Return the real parts that an entry is made of."""
    return [x.real, x.imag] if isinstance(x, Complex) else [x]


def join_parts(parts: Sequence[Value], kind: str) -> Entry:
    """Return an entry of its real parts."""
    return Complex(parts[0], parts[1], kind) if kind in PARTS else parts[0]
