"""A loop of small steps as one kernel of one block, which runs all steps by itself.

The kernels of a step become parts of one text, with barriers between them:
`kernel_code` writes them for a device of one block. What a step hands on lies in memory
that the block shares, if it fits. `find_obstacle` is the rule of which loops are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from workbench.backends.compiled.builder import HALF, kind_of
from workbench.backends.compiled.kernel import Kernel, Reduction, View
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.steps import (
    KernelStep,
    LoopStep,
    MoveStep,
    Plan,
    Rows,
    Step,
    list_buffers,
)
from workbench.backends.cupy.builder import stored_type
from workbench.backends.cupy.entry_code import (
    WARP,
    Function,
    raise_to_power,
)
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import ALIGNMENT, Device, Launch
from workbench.core.tensor import Tensor
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec
from workbench.errors import CompilerError

#: About how many doubles a multiprocessor of an H200 reads from its own cache in a
#: microsecond, which a launch in a CUDA graph took there.
RATE = 2**15
#: A step computes at most so many entries of nodes for each launch that it saves. The
#: rule itself has not been measured.
WORK = RATE
#: The texts of all parts have at most so many nodes: NVRTC's time grows with them.
MOST_NODES = 1024
#: One part of a step computes at most so many times that: cuBLAS and kernels of many
#: blocks are better at a large one, however small the others are.
MOST_IN_PART = 8 * WORK
#: Nothing ends a kernel or a CUDA graph before its time: one takes at most so many
#: rounds, of a microsecond each: about a second. Slow functions take several times as
#: long (a guess, not measured).
MOST_ROUNDS = 2**20
#: The most threads of a block: each then has 128 registers.
MOST_THREADS = 512
#: The memory that a block shares without asking for more.
SHARED = 48 * 1024
#: How many entries a lane takes in the time that it needs for one where threads come
#: one after the other: to put values to an address, to sum along a line.
ORDERED = 64

#: The pointer to a buffer of a plan, in C++.
Table = Callable[[int], str]


def find_obstacle(step: LoopStep, plan: Plan) -> str | None:
    """Return why a loop is not one kernel, in words; None: it is one."""
    reason = _find_unfit(step, plan)
    if reason is not None:
        return reason
    cost = _count_cost(step.program.plan)
    if cost.nodes > MOST_NODES:
        return f"its step has {cost.nodes:,} nodes, more than {MOST_NODES:,}"
    if count_rounds(step) > MOST_ROUNDS:
        return f"an interrupt could not end its {step.steps:,} steps before their time"
    if cost.work > WORK * cost.parts:
        each = round(cost.work / max(cost.parts, 1))
        return f"a kernel of its step computes {each:,} entries, more than {WORK:,}"
    if cost.largest > MOST_IN_PART:
        return (
            f"one kernel of its step computes {round(cost.largest):,} entries, more"
            f" than {MOST_IN_PART:,}"
        )
    return None


def _find_unfit(step: LoopStep, plan: Plan) -> str | None:
    """Return what a loop has that one kernel cannot do, in words."""
    if step.repetition.until:
        return "the host must know after each step if it ends"
    if step.steps is None:
        return "the host must know its number of steps"
    if any(isinstance(x, Rows) and x.length is not None for x in step.operands):
        return "only the run knows how many rows it reads"
    if any(plan.buffers[i].kind == "growing" for i in step.results):
        return "only the run knows how many rows it gives"
    body = step.program.plan
    for one in body.steps:
        if isinstance(one, LoopStep):
            reason = _find_unfit(one, body)
            if reason is not None:
                return f"of a loop inside, {reason}"
        elif not isinstance(one, (KernelStep, MoveStep, ProductStep)):
            return f"its step has {one.node.op.name}, which is no kernel"
    return None


def count_rounds(step: LoopStep) -> int:
    """Return about how many microseconds a loop takes that is one kernel.

    It is one for each part, since they run one after the other, and one for as many
    entries as a multiprocessor reads in that time.
    """
    cost = _count_cost(step.program.plan)
    return round((step.steps or 0) * (cost.parts + cost.work / RATE))


class _Cost(NamedTuple):
    """What a step costs: entries of nodes, launches that it saves, nodes of its text.

    Attributes
    ----------
    widest
        How many threads its widest kernel has work for.
    largest
        The entries of nodes that its largest kernel computes.
    """

    work: float = 0
    parts: int = 0
    nodes: int = 0
    widest: int = 1
    largest: float = 0


def _count_cost(plan: Plan) -> _Cost:
    """Return what a step costs whose program is a plan."""
    work, parts, nodes, widest, largest = 0.0, 0, 0, 1, 0.0
    for step in plan.steps:
        if isinstance(step, LoopStep):
            inner, steps = _count_cost(step.program.plan), step.steps or 0
            work += steps * inner.work
            parts += steps * inner.parts
            nodes += inner.nodes
            widest = max(widest, inner.widest)
            largest = max(largest, inner.largest)
            continue
        if isinstance(step, ProductStep):
            work += step.work
            parts += 1
            nodes += 1
            widest = max(widest, -(-step.work // 4))
            largest = max(largest, step.work)
            continue
        for kernel in _list_kernels(step):
            ordered = bool(kernel.scatters) or kernel.running is not None
            reads = kernel.reductions and not kernel.stores
            entries = kernel.size * (1 + len(kernel.nodes))
            entries *= ORDERED if ordered else 1
            work += entries
            largest = max(largest, entries)
            parts += 1
            nodes += 1 + len(kernel.nodes)
            widest = max(widest, -(-kernel.size // 4) if reads else kernel.size)
    return _Cost(work, parts, nodes, widest, largest)


def _list_kernels(step: Step) -> Sequence[Kernel]:
    """Return the kernels of a step that is no loop."""
    if isinstance(step, KernelStep):
        return (step.kernel,)
    if isinstance(step, ProductStep):
        return (multiply_by_sums(step),)
    return step.parts if isinstance(step, MoveStep) else ()


def multiply_by_sums(step: ProductStep) -> Kernel:
    """Return products of matrices as a kernel: products of entries that are summed.

    Those of float16 are summed as float32, as cuBLAS does.
    """
    a, b, out = step.a, step.b, step.out
    kind = out.kind
    domain = (*out.shape, a.shape[-1])
    rows = (*a.strides[:-1], 0, a.strides[-1])
    columns = (*b.strides[:-2], 0, b.strides[-1], b.strides[-2])
    left = a._replace(shape=domain, strides=rows)
    right = b._replace(shape=domain, strides=columns)
    target = out._replace(shape=domain, strides=(*out.strides, 0))
    x, y = (make_leaf_like(Spec((1,), np.dtype(view.kind)), None) for view in (a, b))
    wide = [z.astype(np.float32) if kind == HALF else z for z in (x, y)]
    times = wide[0] * wide[1]
    product = times + times.dtype.type(0)  # sums of zeros are +0.0, as those of BLAS
    nodes = [*(z for z in wide if z is not x and z is not y), times, product]
    total = Reduction(np.sum(product), product.serial, target)
    return Kernel(domain, nodes, {x.serial: left, y.serial: right}, (), (total,))


def write_loop(step: LoopStep, plan: Plan, device: Device) -> Launch:
    """Return the launch that runs a loop for which there is no obstacle.

    Its frame, a buffer of the plan, gets its size: 0 if the block shares its memory.

    Raises
    ------
    CompilerError
        If an entry of some node cannot be computed.
    """
    widest = _count_cost(step.program.plan).widest
    threads = min(MOST_THREADS, max(WARP, raise_to_power(widest)))
    while True:
        loop = _Loop(step, plan, device._replace(block=threads))
        if loop.scratch <= SHARED:
            return _Writer(threads).write(loop)
        if threads == WARP:
            raise CompilerError("a step of a loop that reduces too much at a time")
        threads //= 2


class _Loop:
    """A loop whose parts are written and whose memory is planned.

    Attributes
    ----------
    parts
        For each step of the body what is launched, or the loop inside.
    size
        The bytes of its frame.
    scratch
        The bytes that a part shares besides.
    slots
        For each carry the place in the frame of two values, which take turns.
    owners
        The carry that an output of the step is.
    rows
        The result whose row an output is.
    spots
        The place in the frame of an output that is neither.
    copies
        Results whose rows are copies of outputs.
    """

    def __init__(self, step: LoopStep, plan: Plan, device: Device) -> None:
        self.step, self.plan = step, plan
        what = step.repetition
        body = self.body = step.program.plan
        self.parts: list[list[Launch] | _Loop] = []
        self.scratch = 0
        self._plan_rows()
        for one in body.steps:
            unread = self._find_unread(one)
            if unread:
                self._others -= unread
                self.parts.append([])
                continue
            if isinstance(one, LoopStep):
                inner = _Loop(one, body, device)
                self.scratch = max(self.scratch, inner.scratch)
                self.parts.append(inner)
                continue
            launches = [
                launch
                for kernel in _list_kernels(one)
                for launch in write_launches(kernel, body, device)
            ]
            self.scratch = max([self.scratch, *(x.shared for x in launches)])
            self.parts.append(launches)
        self.size = place_buffers(body)
        leaves = [i for i, x in enumerate(body.buffers) if x.kind == "input"]
        first = what.consts + what.seqs
        skipped = len(step.operands) - len(leaves)
        operands = step.operands[skipped:]
        self.consts = list(zip(leaves, operands, strict=True))[: what.consts]
        self.seqs = list(zip(leaves, operands, strict=True))[what.consts : first]
        self.carried = leaves[first:]
        self.firsts: Sequence[View] = operands[first:]
        self.slots = [self._reserve(2 * self.measure(leaf)) for leaf in self.carried]
        self.spots = {i: self._reserve(self.measure(i)) for i in sorted(self._others)}
        plan.buffers[step.frame].spec = Spec((self.size,), np.dtype(np.uint8))

    def _plan_rows(self) -> None:
        """Choose for each output of the step which memory it fills."""
        what, body = self.step.repetition, self.body
        self.owners: dict[int, int] = {}
        self.rows: dict[int, int] = {}
        self.copies: list[tuple[int, int]] = []
        for k in range(what.carries):
            self.owners.setdefault(body.outputs[k].buffer, k)
        for number, (kind, k) in enumerate(what.results):
            if kind != "rows" or self.is_absent(number):
                continue
            place = body.outputs[k].buffer
            if place in self.owners or place in self.rows:
                self.copies.append((number, place))
            else:
                self.rows[place] = number
        #: The outputs that nobody outside reads.
        self._others = {y.buffer for y in body.outputs} - {*self.owners, *self.rows}

    def _find_unread(self, step: Step) -> set[int]:
        """Return what a step copies to where nobody reads it, if that is all."""
        if not isinstance(step, MoveStep) or step.zeros >= 0:
            return set()
        targets = {view.buffer for part in step.parts for _, view in part.stores}
        readers = [one for one in self.body.steps if targets & {*list_buffers(one)}]
        return targets if targets <= self._others and readers == [step] else set()

    def measure(self, buffer: int) -> int:
        """Return the bytes from a value to the next one in memory of our own."""
        return -(-self.body.buffers[buffer].size // ALIGNMENT) * ALIGNMENT

    def _reserve(self, size: int) -> int:
        at = self.size
        self.size += size
        return at

    def is_absent(self, number: int) -> bool:
        """Return whether nobody reads a result."""
        return self.plan.buffers[self.step.results[number]].kind == "absent"


class _Writer:
    """The text of a loop while it is being written."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.f = Function()
        self._count = 0

    def write(self, loop: _Loop) -> Launch:
        """Write the loop of a plan."""
        f, step = self.f, loop.step
        is_shared = loop.size + loop.scratch <= SHARED
        if is_shared:
            loop.plan.buffers[step.frame].spec = Spec((0,), np.dtype(np.uint8))
        frame = "frame" if is_shared else self._name(f.point(step.frame, 0))
        self._write_loop(loop, lambda i: self._name(f.point(i, 0)), frame)
        names = [f"p{k}" for k in range(len(f.pointers))]
        head = [f"char* const {self._name(name)} = {name};" for name in names]
        for name, size in (("scratch", loop.scratch), ("frame", loop.size)):
            if size and (name == "scratch" or is_shared):
                head.append(f"alignas({ALIGNMENT}) __shared__ char {name}[{size}];")
        f.b.lines[:0] = head
        return f.finish("loop", 1, self.threads)

    def _name(self, parameter: str) -> str:
        """Return the name of a pointer outside of the parts, whose own are ``p0``..."""
        return f"outer_{parameter}"

    def _wait(self) -> None:
        self.f.b.line("__syncthreads();")

    def _copy(self, target: str, source: str, plan: Plan, buffer: int) -> None:
        """Copy the entries of a buffer."""
        spec = plan.buffers[buffer].spec
        type_ = stored_type(kind_of(spec.dtype))
        self._write_each(
            math.prod(spec.shape),
            f"(({type_}*)({target}))[i] = ((const {type_}*)({source}))[i];",
        )

    def _write_each(self, count: int, text: str) -> None:
        """Write a statement for each ``i`` below a count."""
        stride = f"i < {count}u; i += {self.threads}u"
        self.f.b.line(f"for (unsigned i = threadIdx.x; {stride}) {text}")

    def _write_loop(self, loop: _Loop, outer: Table, frame: str) -> None:
        """Write a loop among the steps of a plan whose buffers lie where told."""
        b, step, what, body = self.f.b, loop.step, loop.step.repetition, loop.body
        steps = step.steps or 0
        self._count += 1
        own = self._count
        k, t = f"step{own}", f"t{own}"

        def locate(view: View) -> str:
            return _move(outer(view.buffer), view.offset)

        carries = list(zip(loop.slots, loop.carried, strict=True))
        for (slot, leaf), view in zip(carries, loop.firsts, strict=True):
            second = f"{frame} + {slot + loop.measure(leaf)}"
            self._copy(second, locate(view), body, leaf)
        self._wait()
        b.line(f"for (int {k} = 0; {k} < {steps}; ++{k}) {{")
        b.line(f"const int {t} = {f'{steps - 1} - {k}' if what.reverse else k};")
        table = [
            _move(frame, buffer.offset) if buffer.offset >= 0 else ""
            for buffer in body.buffers
        ]
        for i, inner in step.program.shared:
            table[inner] = outer(i)
        for leaf, view in loop.consts:
            table[leaf] = locate(view)
        for leaf, rows in loop.seqs:
            row = f"{locate(rows.view)} + {t} * {rows.view.strides[0]}LL"
            table[leaf] = self._define(f"row{own}_{leaf}", row)
        for carry, (slot, leaf) in enumerate(carries):
            old = f"{_move(frame, slot)} + ({k} + 1) % 2 * {loop.measure(leaf)}"
            table[leaf] = self._define(f"old{own}_{carry}", old)
        for place, carry in loop.owners.items():
            size = loop.measure(place)
            new = f"{_move(frame, loop.slots[carry])} + {k} % 2 * {size}"
            table[place] = self._define(f"new{own}_{carry}", new)
        for place, number in loop.rows.items():
            row = self._find_row(loop, outer, number, place, t)
            table[place] = self._define(f"made{own}_{place}", row)
        for place, spot in loop.spots.items():
            table[place] = _move(frame, spot)
        self._write_marks(loop, outer, table, t)
        for one, part in zip(body.steps, loop.parts, strict=True):
            self._write_step(one, part, body, table)
        for number, place in loop.copies:
            row = self._find_row(loop, outer, number, place, t)
            self._copy(row, table[place], body, place)
        waits = any(loop.parts)  # after the last part
        for carry in range(what.carries):
            place = body.outputs[carry].buffer
            if loop.owners[place] != carry:
                size = loop.measure(place)
                new = f"{_move(frame, loop.slots[carry])} + {k} % 2 * {size}"
                self._copy(new, table[place], body, place)
                waits = False
        if not waits:
            self._wait()
        b.line("}")
        for number, (kind, carry) in enumerate(what.results):
            result = outer(step.results[number]) if not loop.is_absent(number) else ""
            if result and kind == "last":
                leaf = loop.carried[carry]
                at = loop.slots[carry] + (steps + 1) % 2 * loop.measure(leaf)
                self._copy(result, _move(frame, at), body, leaf)
            elif result and kind == "count":
                b.line(f"if (threadIdx.x == 0) *(long long*)({result}) = {steps};")

    def _define(self, name: str, text: str) -> str:
        """Declare a pointer, and return its name."""
        self.f.b.line(f"char* const {name} = {text};")
        return name

    def _find_row(
        self, loop: _Loop, outer: Table, number: int, place: int, t: str
    ) -> str:
        """Return where the row of a result lies that an output of the step is."""
        size = loop.body.buffers[place].size
        return f"{outer(loop.step.results[number])} + {t} * {size}LL"

    def _write_marks(
        self, loop: _Loop, outer: Table, table: Sequence[str], t: str
    ) -> None:
        """Keep values before every so many steps."""
        step, every = loop.step, loop.step.repetition.every
        for number, (kind, carry) in enumerate(step.repetition.results):
            if kind != "marks" or loop.is_absent(number):
                continue
            leaf = loop.carried[carry]
            size = loop.body.buffers[leaf].size
            row = f"{outer(step.results[number])} + {t} / {every} * {size}LL"
            self.f.b.line(f"if ({t} % {every} == 0) {{")
            self._copy(row, table[leaf], loop.body, leaf)
            self.f.b.line("}")

    def _write_step(
        self, step: Step, part: list[Launch] | _Loop, plan: Plan, table: Sequence[str]
    ) -> None:
        """Write a step of a body, after which its results can be read."""
        if isinstance(part, _Loop):
            self._write_loop(part, lambda i: table[i], table[part.step.frame])
            self._wait()
            return
        if isinstance(step, MoveStep) and step.zeros >= 0:
            spec = plan.buffers[step.zeros].spec
            type_ = stored_type(kind_of(spec.dtype))
            text = f"(({type_}*)({table[step.zeros]}))[i] = {{}};"
            self._write_each(math.prod(spec.shape), text)
            self._wait()
        b = self.f.b
        for launch in part:
            b.line("{")
            b.line(f"// {_describe(step)}")
            for k, (i, at) in enumerate(launch.pointers):
                self._define(f"p{k}", _move(table[i], at))
            b.lines += map(str.strip, launch.body.splitlines())
            b.line("}")
            self._wait()


def _move(pointer: str, offset: int) -> str:
    """Return a pointer so many bytes further on."""
    return f"{pointer} + {offset}" if offset else pointer


def _describe(step: Step) -> str:
    """Return the ops of a step."""
    nodes: Sequence[Tensor] = ()
    if isinstance(step, KernelStep):
        kernel = step.kernel
        nodes = (*kernel.nodes, *(x.node for x in kernel.reductions))
    elif isinstance(step, ProductStep):
        nodes = (step.node,)
    return ", ".join(dict.fromkeys(x.op.name for x in nodes)) or "copy"
