"""Entries and reductions of a kernel as CUDA C++: grid-stride loops, a fixed order.

Results are the same from run to run: threads meet in an order that does not depend on
which of them comes first.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.builder import (
    HALF,
    PARTS,
    Entry,
    Value,
    join_parts,
    kind_of,
    split_parts,
)
from workbench.backends.compiled.entries import compute_entry
from workbench.backends.compiled.kernel import (
    COMBINATIONS,
    Address,
    Combination,
    IndexAxis,
    Kernel,
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
MOST_BLOCKS = 256
#: One load takes at most so many bytes, of a kernel with at most so many nodes.
PACK, MOST_IN_PACKS = 16, 32
#: A reduction is made in two passes if each thread still gets so many entries then.
LEAST_ENTRIES = 8
#: Pieces that scatters and running sums are made in have at least so many entries.
LEAST_IN_PIECE = 64


class Total(NamedTuple):
    """What a launch reduces: how, which value, and where the result lies."""

    ufunc: np.ufunc
    source: int
    view: View
    #: The result is combined with what lies there.
    adds: bool = False

    @property
    def kind(self) -> str:
        """The kind of the registers: sums of float16 are added up as float32."""
        half = self.view.kind == HALF and self.ufunc in (np.add, np.multiply)
        return "f4" if half else self.view.kind

    @property
    def combination(self) -> Combination:
        """The op that combines two values, with its identity."""
        return COMBINATIONS[self.ufunc]


class FunctionText:
    """The text of one function, during its construction."""

    def __init__(self) -> None:
        self.b = CudaBuilder()
        self.pointers: list[tuple[int, int]] = []

    def share(self, type_: str, name: str, count: int) -> None:
        """Declare memory that a block shares: so many entries."""
        self.b.line(f"__shared__ {type_} {name}[{count}];")

    def point(self, buffer: int, offset: int) -> str:
        """Return the parameter that points to a place in a buffer."""
        if (buffer, offset) not in self.pointers:
            self.pointers.append((buffer, offset))
        return f"p{self.pointers.index((buffer, offset))}"

    def finish(self, role: str, blocks: int, threads: int) -> Launch:
        """Return the launch.

        Its parameters may point to the same memory (no ``__restrict__``): a kernel may
        write a value where it has read another one.
        """
        body, depth = [], 1
        for line in self.b.lines:
            depth -= line.startswith("}")
            body.append("  " * depth + line)
            depth += line.endswith("{")
        text = "\n".join(body)
        key = f"{threads} {len(self.pointers)} {text}"
        name = f"{role}_{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        pointers = tuple(self.pointers)
        return Launch(name, text, pointers, blocks, threads)


class KernelWriter:
    """The launches of one kernel while they are being written."""

    def __init__(
        self, kernel: Kernel, plan: Plan, device: Device, owner: Kernel | None = None
    ) -> None:
        self.kernel = kernel
        #: The kernel of the plan that this one is a part of.
        self.owner = owner or kernel
        self.plan = plan
        self.device = device
        #: The threads of a block; how many multiprocessors share the work.
        self.threads, self.processors = THREADS, device.processors
        self.lengths, ordered = order_loops(kernel)
        steps = iter(ordered)
        self.load_steps = {serial: next(steps) for serial in kernel.loads}
        self.store_steps = [next(steps) for _ in kernel.stores]
        self.total_steps = [next(steps) for _ in kernel.reductions]
        self.gather_steps = {serial: next(steps) for serial in kernel.gathers}
        self.scatter_steps = [next(steps) for _ in kernel.scatters]

    # Memory of a kernel's own

    def add_partial(self, shape: tuple[int, ...], kind: str) -> View:
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
            if any(one is self.owner for one in kernels):
                return number
        raise ValueError("the kernel belongs to no step of the plan")

    # Entries

    def write_entries(self, stores: Sequence[tuple[int, View, list[int]]]) -> Launch:
        """Return the launch that computes and stores each entry."""
        f = FunctionText()
        b, size = f.b, math.prod(self.lengths)
        needed = self._find_needed(serial for serial, _, _ in stores)
        lanes = self._count_lanes(needed, stores)
        packs = size // lanes
        whole = index_type(size)
        lengths = [*self.lengths[:-1], self.lengths[-1] // lanes]

        def write_one(at: Sequence[str], packed: dict[int, str] | None) -> None:
            values = self.compute(f, needed, at, packed or {})
            for k, (serial, view, steps) in enumerate(stores):
                entry = b.convert(values[serial], view.kind)
                if packed is not None:
                    b.write(f"s{k}.e", "k", entry)
                else:
                    b.store(self.locate(f, view, steps, at), entry)

        loads = [
            (serial, self.kernel.loads[serial], self.load_steps[serial])
            for serial in needed if serial in self.kernel.loads
        ]  # fmt: skip
        loads = [one for one in loads if one[2][-1] or lanes == 1]
        rounds = self._count_rounds(len(loads), lanes, packs)
        packed = {
            serial: f"l{k}{'[u]' if rounds > 1 else ''}.e"
            for k, (serial, _, _) in enumerate(loads)
        }

        def write_place(number: str) -> list[str]:
            at = write_indices(b, number, lengths, whole)
            if lanes == 1:
                return at
            b.line(f"const {whole} j = {at[-1]} * {lanes}u;")
            return [*at[:-1], "j"]

        def write_loads(at: Sequence[str]) -> None:
            for serial, view, steps in loads:
                type_ = f"Pack<{stored_type(view.kind)}, {lanes}>"
                place = self.locate(f, view, steps, at)
                name = packed[serial].removesuffix(".e")
                const = "" if rounds > 1 else f"const {type_} "
                b.line(f"{const}{name} = *(const {type_}*)({place});")

        def write_packs(at: Sequence[str]) -> None:
            for k, (_, view, _) in enumerate(stores):
                b.line(f"Pack<{stored_type(view.kind)}, {lanes}> s{k};")
            b.line("#pragma unroll")
            b.line(f"for (int k = 0; k < {lanes}; ++k) {{")
            write_one([*at[:-1], "(j + k)"] if lanes > 1 else at, packed)
            b.line("}")
            for k, (_, view, steps) in enumerate(stores):
                type_ = f"Pack<{stored_type(view.kind)}, {lanes}>"
                b.line(f"*({type_}*)({self.locate(f, view, steps, at)}) = s{k};")

        if rounds == 1:
            self.open_loop(b, whole, packs)
            at = write_place("i")
            if lanes == 1:
                write_one(at, None)
            else:
                write_loads(at)
                write_packs(at)
            b.line("}")
        else:
            # All loads of a few rounds are on their way before the first is waited for.
            step = self.threads * rounds
            b.line(
                f"for ({whole} n = ({whole})blockIdx.x * {step}u + threadIdx.x;"
                f" n < {packs}u; n += ({whole})gridDim.x * {step}u) {{"
            )
            for k, (_, view, _) in enumerate(loads):
                b.line(f"Pack<{stored_type(view.kind)}, {lanes}> l{k}[{rounds}];")
            for write in (write_loads, write_packs):
                b.line("#pragma unroll")
                b.line(f"for (int u = 0; u < {rounds}; ++u) {{")
                b.line(f"const {whole} i = n + u * {self.threads}u;")
                b.line(f"if (i < {packs}u) {{")
                write(write_place("i"))
                b.line("}")
                b.line("}")
            b.line("}")
        if rest := size - packs * lanes:
            b.line(f"if (blockIdx.x == 0 && threadIdx.x < {rest}) {{")
            b.line(f"const {whole} i = {packs * lanes}u + threadIdx.x;")
            write_one(["i"], None)
            b.line("}")
        blocks = self.count_blocks(-(-packs // rounds))
        return f.finish("entries", blocks, self.threads)

    def _count_rounds(self, loads: int, lanes: int, packs: int) -> int:
        """Return how many packs of each load a thread has on their way at a time.

        Arrays that are small are shared among all multiprocessors instead.
        """
        rounds = 4 if loads <= 2 else 2 if loads <= 4 else 1
        least = 8 * self.threads * max(1, self.processors)
        nodes = lanes * len(self.kernel.nodes)
        while rounds > 1 and (
            packs < least * rounds or rounds * nodes > 2 * MOST_IN_PACKS
        ):
            rounds //= 2
        return rounds if loads else 1

    def count_blocks(self, size: int) -> int:
        """Return how many blocks run a loop of so many rounds."""
        most = MOST_BLOCKS * self.processors
        return max(1, min(-(-size // self.threads), most))

    def open_loop(self, b: CudaBuilder, whole: str, size: int) -> None:
        """Write the head of a grid-stride loop over ``i``."""
        b.line(
            f"for ({whole} i = ({whole})blockIdx.x * {self.threads}u + threadIdx.x;"
            f" i < {size}u; i += ({whole})gridDim.x * {self.threads}u) {{"
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

    def locate(
        self, f: FunctionText, view: View, steps: Sequence[int], at: Sequence[str]
    ) -> str:
        """Return the pointer to an entry of a view, at these indices."""
        terms = [f.point(view.buffer, view.offset)]
        terms += [f"{i} * {step}LL" for i, step in zip(at, steps, strict=True) if step]
        return " + ".join(terms)

    def compute(
        self, f: FunctionText, needed: Sequence[int], at: Sequence[str],
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
                place = self.locate(f, view, self.load_steps[serial], at)
                values[serial] = b.load(place, view.kind)
        for node in kernel.nodes:
            if node.serial not in chosen:
                continue
            address = kernel.gathers.get(node.serial)
            if address is not None:
                steps = self.gather_steps[node.serial]
                place = self.locate(f, address.view, steps, at)
                place += self.write_offset(f, address, values)
                values[node.serial] = b.load(place, address.view.kind)
                continue
            pairs = [read_operand(b, x, values) for x in node.inputs]
            values[node.serial] = compute_entry(
                b, node, [x for x, _ in pairs], [spec for _, spec in pairs]
            )
        return values

    def write_index(
        self, f: FunctionText, axis: IndexAxis, values: dict[int, Entry]
    ) -> str:
        """Return an index value, counted from the start; 0 if out of bounds."""
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

    def write_offset(
        self, f: FunctionText, address: Address, values: dict[int, Entry]
    ) -> str:
        """Return the offset that index values add to a pointer."""
        return "".join(
            f" + {self.write_index(f, axis, values)} * {axis.stride}LL"
            for axis in address.axes
        )

    # Reductions

    def write_reductions(
        self, kept: tuple[bool, ...], totals: Sequence[tuple[Total, list[int]]],
        stores: Sequence[tuple[int, View, list[int]]], may_split: bool,
    ) -> list[Launch]:  # fmt: skip
        """Return the launches that reduce the axes that are not kept.

        Several threads share a result; where there are few results, several blocks do,
        and a second launch reduces what these have found.
        """
        f = FunctionText()
        b = f.b
        lengths = self.lengths
        results, entries, along, team, side, pieces = self._share_results(
            kept, may_split
        )
        threads, groups = team * side, -(-results // side)
        length = -(-entries // pieces)
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
        sums = [self.start_total(b, total) for total, _ in totals]
        end = f"{entries}u"
        if pieces > 1:
            end = f"((piece + 1) * {length}u < {end} ? (piece + 1) * {length}u : {end})"
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
        values = self.compute(f, needed, at, {})
        for serial, view, steps in stores:
            entry = b.convert(values[serial], view.kind)
            b.store(self.locate(f, view, steps, at), entry)
        for (total, _), parts in zip(totals, sums, strict=True):
            entry = b.convert(values[total.source], total.kind)
            self.combine(b, total, parts, split_parts(entry))
        b.line("}")
        if along:
            self._meet_in_warps(f, [t for t, _ in totals], sums, team)
        else:
            self._meet_in_columns(f, [t for t, _ in totals], sums, team, side)
        b.line("if (live && member == 0) {")
        launches = []
        partials = []
        for (total, steps), parts in zip(totals, sums, strict=True):
            entry = join_parts(parts, total.kind)
            if pieces > 1:
                partial = self.add_partial((pieces, results), total.kind)
                size = int(total.kind[1:])
                pointer = f.point(partial.buffer, 0)
                b.store(f"{pointer} + (piece * {results}LL + m) * {size}LL", entry)
                partials.append(partial)
            else:
                at = self._place_results(kept, outer)
                self._store_total(
                    b, self.locate(f, total.view, steps, at), total, parts
                )
        b.line("}")
        launches.append(f.finish("reduce", groups * pieces, threads))
        if pieces > 1:
            launches.append(self._finish_pieces(kept, totals, partials))
        return launches

    def _share_results(
        self, kept: tuple[bool, ...], may_split: bool
    ) -> tuple[int, int, bool, int, int, int]:
        """Return how threads share the results of a reduction.

        How many results there are, of how many entries each; whether neighbours in
        memory meet in one result; how many threads share a result, and how many results
        a block; and in how many pieces a result is made.
        """
        block = self.threads
        results = math.prod(n for n, k in zip(self.lengths, kept, strict=True) if k)
        entries = math.prod(self.lengths) // results
        along = not kept[-1]
        if along:
            team = min(block, raise_to_power(-(-entries // 4)))
            side = min(block // team, raise_to_power(results))
            side = max(side, WARP // team)  # shuffles are of whole warps
        else:
            side = min(WARP, raise_to_power(results))
            team = min(block // side, raise_to_power(-(-entries // 4)))
            side = min(block // team, raise_to_power(results))
        pieces = 1
        if may_split:
            wanted = -(-4 * self.processors // -(-results // side))
            pieces = max(1, min(wanted, entries // (team * LEAST_ENTRIES), 1024))
        pieces = -(-entries // -(-entries // pieces))  # none of them is empty
        return results, entries, along, team, side, pieces

    def _store_total(
        self, b: CudaBuilder, place: str, total: Total, parts: Sequence[Any]
    ) -> None:
        """Write a result to its place, added to the old value if required."""
        if total.adds:
            there = b.convert(b.load(place, total.view.kind), total.kind)
            combine = total.combination.combine
            pairs = zip(split_parts(there), parts, strict=True)
            parts = [combine(b, x, y) for x, y in pairs]
        b.store(place, b.convert(join_parts(parts, total.kind), total.view.kind))

    def _place_results(self, kept: Sequence[bool], outer: Sequence[str]) -> list[str]:
        """Return the indices of a result, 0 along each reduced axis."""
        outers = iter(outer)
        return [next(outers) if k else "0" for k in kept]

    def _finish_pieces(
        self, kept: Sequence[bool], totals: Sequence[tuple[Total, list[int]]],
        partials: Sequence[View],
    ) -> Launch:  # fmt: skip
        """Return the launch that reduces the results of the pieces."""
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
        return self.reduce_pieces(shape, loads, news)

    def reduce_pieces(
        self, shape: tuple[int, ...], loads: dict[int, View], totals: list[Total]
    ) -> Launch:
        """Return the launch that reduces views of memory along the first axis."""
        stores = [(total.source, total.view) for total in totals]
        kernel = Kernel(shape, (), loads, stores, ())
        writer = KernelWriter(kernel, self.plan, self.device)
        pairs = list(zip(totals, writer.store_steps, strict=True))
        kept = tuple(step != 0 for step in pairs[0][1])
        (launch,) = writer.write_reductions(kept, pairs, [], False)
        return launch

    def start_total(self, b: CudaBuilder, total: Total) -> list[Value]:
        """Write the variables of a total, set to the identity."""
        part = PARTS.get(total.kind, total.kind)
        first = b.literal_part(total.combination.identity(part), part)
        made = []
        for _ in range(2 if total.kind in PARTS else 1):
            made.append(b.declare(part))
            b.assign(made[-1], first)
        return made

    def combine(
        self, b: CudaBuilder, total: Total, parts: Sequence[Value],
        others: Sequence[Value],
    ) -> None:  # fmt: skip
        """Combine a total with other values."""
        combine = total.combination.combine
        news = [combine(b, x, y) for x, y in zip(parts, others, strict=True)]
        for part, new in zip(parts, news, strict=True):
            b.assign(part, new)

    def precede(
        self, b: CudaBuilder, total: Total, others: Sequence[Value],
        parts: Sequence[Value],
    ) -> None:  # fmt: skip
        """Combine a total with values that stand in front."""
        combine = total.combination.combine
        news = [combine(b, x, y) for x, y in zip(others, parts, strict=True)]
        for part, new in zip(parts, news, strict=True):
            b.assign(part, new)

    def _meet_in_warps(
        self, f: FunctionText, totals: Sequence[Total], sums: Sequence[list[Value]],
        team: int,
    ) -> None:  # fmt: skip
        """Combine the totals of neighbouring threads into those of the first."""
        b = f.b
        if team > 1:
            b.line(f"for (int by = {min(team, WARP) // 2}; by; by >>= 1) {{")
            for total, parts in zip(totals, sums, strict=True):
                others = [b.emit(f"shift_down({x.text}, by)", x.kind) for x in parts]
                self.combine(b, total, parts, others)
            b.line("}")
        if team <= WARP:
            return
        shared = self._share(f, sums, self.threads // WARP)
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
            self.combine(b, total, parts, others)
        b.line("}")
        b.line("}")

    def _meet_in_columns(
        self, f: FunctionText, totals: Sequence[Total], sums: Sequence[list[Value]],
        team: int, side: int,
    ) -> None:  # fmt: skip
        """Combine the totals of threads that lie so many apart."""
        b = f.b
        if team == 1:
            return
        shared = self._share(f, sums, team * side)
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
            self.combine(b, total, parts, others)
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[threadIdx.x] = {x.text};")
        b.line("}")
        b.line("}")

    def _share(
        self, f: FunctionText, sums: Sequence[list[Value]], count: int
    ) -> list[list[str]]:
        """Declare memory that a block shares for each part of each total."""
        shared = []
        for parts in sums:
            names = [f"s{x.text}" for x in parts]
            for x, name in zip(parts, names, strict=True):
                f.share(REGISTERS[x.kind], name, count)
            shared.append(names)
        return shared


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
