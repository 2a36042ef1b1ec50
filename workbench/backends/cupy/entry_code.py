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
#: Threads of a block share at most so many bytes at once to meet, as on every GPU.
MOST_SHARED = 48 * 2**10
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


#: A value, where its entries go, and how far apart they are along each loop.
Store = tuple[int, View, list[int]]


class _PackPlan(NamedTuple):
    """How the threads of a launch go through entries: packs of neighbours."""

    f: FunctionText
    #: The type of indices.
    whole: str
    #: The values that the stored ones are computed of.
    needed: Sequence[int]
    stores: Sequence[Store]
    #: What is loaded in packs.
    loads: Sequence[Store]
    #: The entries of a pack, and the packs of each load that are on their way at once.
    lanes: int
    rounds: int

    def name_type(self, view: View) -> str:
        """Return the type of a pack of entries."""
        return f"Pack<{stored_type(view.kind)}, {self.lanes}>"

    def name_load(self, k: int) -> str:
        """Return the name of a pack of an operand."""
        return f"l{k}{'[u]' if self.rounds > 1 else ''}"


class _Shares(NamedTuple):
    """How threads share the results of a reduction."""

    #: How many results there are, of how many entries each.
    results: int
    entries: int
    #: Whether neighbours in memory meet in one result.
    along: bool
    #: How many threads share a result, and how many results a block.
    team: int
    side: int
    #: In how many pieces a result is made.
    pieces: int

    @property
    def groups(self) -> int:
        """The number of blocks that share all results of a piece."""
        return -(-self.results // self.side)

    @property
    def length(self) -> int:
        """The number of entries of a result in a piece."""
        return -(-self.entries // self.pieces)


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

    def write_entries(self, stores: Sequence[Store]) -> Launch:
        """Return the launch that computes and stores each entry."""
        f = FunctionText()
        b, size = f.b, math.prod(self.lengths)
        needed = self._find_needed(serial for serial, _, _ in stores)
        lanes = self._count_lanes(needed, stores)
        packs = size // lanes
        whole = index_type(size)
        loads = [
            (serial, self.kernel.loads[serial], self.load_steps[serial])
            for serial in needed if serial in self.kernel.loads
        ]  # fmt: skip
        loads = [one for one in loads if one[2][-1] or lanes == 1]
        rounds = self._count_rounds(len(loads), lanes, packs)
        plan = _PackPlan(f, whole, needed, stores, loads, lanes, rounds)
        if rounds == 1:
            self.open_loop(b, whole, packs)
            at = self._place_pack(plan)
            if lanes == 1:
                self._write_one(plan, at, None)
            else:
                self._load_packs(plan, at)
                self._store_packs(plan, at)
            b.line("}")
        else:
            self._write_rounds(plan, packs)
        if rest := size - packs * lanes:
            b.line(f"if (blockIdx.x == 0 && threadIdx.x < {rest}) {{")
            b.line(f"const {whole} i = {packs * lanes}u + threadIdx.x;")
            self._write_one(plan, ["i"], None)
            b.line("}")
        blocks = self.count_blocks(-(-packs // rounds))
        return f.finish("entries", blocks, self.threads)

    def _write_rounds(self, plan: _PackPlan, packs: int) -> None:
        """Write a loop over a few packs at a time.

        All their loads are on their way before the first is waited for.
        """
        b, whole, rounds = plan.f.b, plan.whole, plan.rounds
        step = self.threads * rounds
        b.line(
            f"for ({whole} n = ({whole})blockIdx.x * {step}u + threadIdx.x;"
            f" n < {packs}u; n += ({whole})gridDim.x * {step}u) {{"
        )
        for k, (_, view, _) in enumerate(plan.loads):
            b.line(f"{plan.name_type(view)} l{k}[{rounds}];")
        for write in (self._load_packs, self._store_packs):
            b.line("#pragma unroll")
            b.line(f"for (int u = 0; u < {rounds}; ++u) {{")
            b.line(f"const {whole} i = n + u * {self.threads}u;")
            b.line(f"if (i < {packs}u) {{")
            write(plan, self._place_pack(plan))
            b.line("}")
            b.line("}")
        b.line("}")

    def _place_pack(self, plan: _PackPlan) -> list[str]:
        """Return the indices of the first entry of the pack ``i``."""
        lengths = [*self.lengths[:-1], self.lengths[-1] // plan.lanes]
        at = write_indices(plan.f.b, "i", lengths, plan.whole)
        if plan.lanes == 1:
            return at
        plan.f.b.line(f"const {plan.whole} j = {at[-1]} * {plan.lanes}u;")
        return [*at[:-1], "j"]

    def _load_packs(self, plan: _PackPlan, at: Sequence[str]) -> None:
        """Write the loads of a pack of each operand."""
        for k, (_, view, steps) in enumerate(plan.loads):
            type_ = plan.name_type(view)
            place = self.locate(plan.f, view, steps, at)
            const = "" if plan.rounds > 1 else f"const {type_} "
            plan.f.b.line(f"{const}{plan.name_load(k)} = *(const {type_}*)({place});")

    def _store_packs(self, plan: _PackPlan, at: Sequence[str]) -> None:
        """Write the code that computes and stores a pack of each result."""
        b = plan.f.b
        for k, (_, view, _) in enumerate(plan.stores):
            b.line(f"{plan.name_type(view)} s{k};")
        b.line("#pragma unroll")
        b.line(f"for (int k = 0; k < {plan.lanes}; ++k) {{")
        packed = {
            serial: f"{plan.name_load(k)}.e"
            for k, (serial, _, _) in enumerate(plan.loads)
        }
        self._write_one(plan, [*at[:-1], "(j + k)"] if plan.lanes > 1 else at, packed)
        b.line("}")
        for k, (_, view, steps) in enumerate(plan.stores):
            place = self.locate(plan.f, view, steps, at)
            b.line(f"*({plan.name_type(view)}*)({place}) = s{k};")

    def _write_one(
        self, plan: _PackPlan, at: Sequence[str], packed: dict[int, str] | None
    ) -> None:
        """Write the code that computes one entry of each result and stores the entry.

        ``packed`` are the packs that have been loaded; None: there are none.
        """
        b = plan.f.b
        values = self.compute(plan.f, plan.needed, at, packed or {})
        for k, (serial, view, steps) in enumerate(plan.stores):
            entry = b.convert(values[serial], view.kind)
            if packed is not None:
                b.write(f"s{k}.e", "k", entry)
            else:
                b.store(self.locate(plan.f, view, steps, at), entry)

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

    def _count_lanes(self, needed: Sequence[int], stores: Sequence[Store]) -> int:
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
        stores: Sequence[Store], may_split: bool,
    ) -> list[Launch]:  # fmt: skip
        """Return the launches that reduce the axes that are not kept.

        Several threads share a result; where there are few results, several blocks do,
        and a second launch reduces what these have found.
        """
        f = FunctionText()
        b = f.b
        shares = self._share_results(kept, may_split)
        needed = self._find_needed(
            [*(t.source for t, _ in totals), *(serial for serial, _, _ in stores)]
        )
        outer = self._open_result(b, kept, shares)
        sums = [self.start_total(b, total) for total, _ in totals]
        at = self._open_entries(b, kept, shares, outer)
        values = self.compute(f, needed, at, {})
        for serial, view, steps in stores:
            entry = b.convert(values[serial], view.kind)
            b.store(self.locate(f, view, steps, at), entry)
        for (total, _), parts in zip(totals, sums, strict=True):
            entry = b.convert(values[total.source], total.kind)
            self.combine(b, total, parts, split_parts(entry))
        b.line("}")
        if shares.along:
            self._meet_in_warps(f, [t for t, _ in totals], sums, shares.team)
        else:
            self._meet_in_columns(
                f, [t for t, _ in totals], sums, shares.team, shares.side
            )
        b.line("if (live && member == 0) {")
        partials = []
        for (total, steps), parts in zip(totals, sums, strict=True):
            if shares.pieces > 1:
                partials.append(self._store_partial(f, shares, total, parts))
            else:
                at = self._place_results(kept, outer)
                place = self.locate(f, total.view, steps, at)
                self._store_total(b, place, total, parts)
        b.line("}")
        threads = shares.team * shares.side
        first = f.finish("reduce", shares.groups * shares.pieces, threads)
        if shares.pieces == 1:
            return [first]
        return [first, self._finish_pieces(kept, totals, partials)]

    def _name_index(self, shares: _Shares) -> str:
        """Return the type of the indices of a reduction."""
        return index_type(math.prod(self.lengths) + shares.team * shares.side)

    def _open_result(
        self, b: CudaBuilder, kept: Sequence[bool], shares: _Shares
    ) -> list[str]:
        """Write which result a thread works at; return the indices of its kept axes."""
        whole = self._name_index(shares)
        own, other = ("/", "%") if shares.along else ("%", "/")
        by = shares.team if shares.along else shares.side
        b.line(f"const {whole} group = blockIdx.x % {shares.groups}u;")
        b.line(f"const {whole} piece = blockIdx.x / {shares.groups}u;")
        b.line(f"const {whole} m = group * {shares.side}u + threadIdx.x {own} {by}u;")
        b.line(f"const unsigned member = threadIdx.x {other} {by}u;")
        b.line(f"const bool live = m < {shares.results}u;")
        b.line(f"const {whole} result = live ? m : 0;")
        lengths = [n for n, k in zip(self.lengths, kept, strict=True) if k]
        return write_indices(b, "result", lengths, whole)

    def _open_entries(
        self, b: CudaBuilder, kept: Sequence[bool], shares: _Shares,
        outer: Sequence[str],
    ) -> list[str]:  # fmt: skip
        """Write the head of the loop over a thread's entries; return their indices."""
        whole, length = self._name_index(shares), shares.length
        end = f"{shares.entries}u"
        if shares.pieces > 1:
            end = f"((piece + 1) * {length}u < {end} ? (piece + 1) * {length}u : {end})"
        b.line(f"const {whole} end = live ? {end} : 0;")
        b.line("#pragma unroll 4")
        b.line(
            f"for ({whole} r = piece * {length}u + member; r < end;"
            f" r += {shares.team}u) {{"
        )
        lengths = [n for n, k in zip(self.lengths, kept, strict=True) if not k]
        outers, inners = iter(outer), iter(write_indices(b, "r", lengths, whole))
        return [next(outers) if k else next(inners) for k in kept]

    def _share_results(self, kept: tuple[bool, ...], may_split: bool) -> _Shares:
        """Return how threads share the results of a reduction."""
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
        return _Shares(results, entries, along, team, side, pieces)

    def _store_partial(
        self, f: FunctionText, shares: _Shares, total: Total, parts: Sequence[Any]
    ) -> View:
        """Write code that stores a piece's total; return the memory of all pieces."""
        partial = self.add_partial((shares.pieces, shares.results), total.kind)
        size = int(total.kind[1:])
        place = f"{f.point(partial.buffer, 0)} + (piece * {shares.results}LL + m)"
        f.b.store(f"{place} * {size}LL", join_parts(parts, total.kind))
        return partial

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
        shared = [[f"s{x.text}" for x in parts] for parts in sums]
        for parts, names in zip(sums, shared, strict=True):
            for x, name in zip(parts, names, strict=True):
                f.share(REGISTERS[x.kind], name, self.threads // WARP)
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
        if team == 1:
            return
        count = team * side
        pairs = list(zip(totals, sums, strict=True))
        width = count * max(map(len, sums))  # a complex total has two parts
        most = MOST_SHARED // (8 * width)
        f.share("long long", "room", width * min(len(pairs), most))
        for k in range(0, len(pairs), most):
            if k:
                f.b.line("__syncthreads();")  # the totals before have been read
            self._halve_team(f, pairs[k : k + most], team, side)

    def _halve_team(
        self, f: FunctionText, pairs: Sequence[tuple[Total, list[Value]]], team: int,
        side: int,
    ) -> None:  # fmt: skip
        """Combine totals of one half of the threads with the other, down to one."""
        b = f.b
        places = iter(range(0, 2 * len(pairs) * team * side, team * side))
        shared = [
            [f"(({REGISTERS[x.kind]} *)(room + {next(places)}))" for x in parts]
            for _, parts in pairs
        ]
        for (_, parts), names in zip(pairs, shared, strict=True):
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[threadIdx.x] = {x.text};")
        b.line(f"for (unsigned by = {team // 2}u; by; by >>= 1) {{")
        b.line("__syncthreads();")
        b.line("if (member < by) {")
        for (total, parts), names in zip(pairs, shared, strict=True):
            others = [
                b.emit(f"{name}[threadIdx.x + by * {side}u]", x.kind)
                for x, name in zip(parts, names, strict=True)
            ]
            self.combine(b, total, parts, others)
            for x, name in zip(parts, names, strict=True):
                b.line(f"{name}[threadIdx.x] = {x.text};")
        b.line("}")
        b.line("}")


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
