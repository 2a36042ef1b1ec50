"""What each step of a program costs, in time and in bytes: `Profile`.

The program that is measured is the one that runs, with a clock around each step: an op
of NumPy, or a kernel of compiled code, which computes many nodes at once. Calls without
a measurement pay nothing.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

from workbench.backends import Executable
from workbench.backends.compiled import tiers
from workbench.backends.compiled.kernel import Kernel, View
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.program import Native, Program, Retreat
from workbench.backends.compiled.steps import (
    ChoiceStep,
    HostStep,
    KernelStep,
    LoopStep,
    MoveStep,
    StripStep,
    list_buffers,
    list_nodes,
)
from workbench.backends.compiled.systems import SystemStep
from workbench.backends.cupy.actions import Action
from workbench.backends.cupy.program import Program as DeviceProgram
from workbench.core.blame import shorten
from workbench.core.formatting import format_bytes, format_seconds
from workbench.core.pickling import NodeText
from workbench.core.schedule import compute_node
from workbench.core.sites import Site
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of
from workbench.errors import CompilerError

#: As many of the dearest steps are printed, of each as many ops and lines.
MOST_ROWS, MOST_OPS, MOST_SITES = 30, 6, 4
#: Characters of a line: what a narrow notebook shows without breaking words.
WIDTH = 72
#: A program is measured in so many calls, fewer if they take so many seconds.
MOST_CALLS, ENOUGH = 20, 0.2
LEAST_CALLS = 3


class ProfileRow(NamedTuple):
    """What one step costs.

    Attributes
    ----------
    step
        Its name: ``"exp h"``, the op and its result; ``"kernel 2"``, ``"product 1"``,
        ``"NumPy 1"`` of compiled code.
    nodes
        The nodes that it computes.
    time
        Seconds: the least of all calls.
    share
        Its part of the time of all steps.
    traffic
        The bytes that it reads and writes.
    parts
        The part of its cost that falls to each node: in proportion to the entries
        that it computes, or reduces.
    """

    step: str
    nodes: tuple[Tensor, ...]
    time: float
    share: float
    traffic: int
    parts: tuple[float, ...]

    def __reduce__(self) -> Any:
        """Pickle with what is told of the nodes, not with their program."""
        return ProfileRow, (self.step, tuple(map(NodeText, self.nodes)), *self[2:])

    @property
    def ops(self) -> str:
        """The ops of its nodes, with how often each occurs: ``"exp, 2 multiply"``."""
        counts = Counter(x.op.name for x in self.nodes)
        texts = [f"{n} {op}" if n > 1 else op for op, n in counts.items()]
        if len(texts) > MOST_OPS:
            texts[MOST_OPS:] = [f"and {len(texts) - MOST_OPS} other ops"]
        return ", ".join(texts)

    @property
    def sites(self) -> list[Site]:
        """The user's lines behind its nodes, each once, in the order of the nodes.

        Of a derivative it is the line that is differentiated.
        """
        found: dict[tuple[str, int], Site] = {}
        for node in self.nodes:
            while node.origin is not None:
                node = node.origin.forward
            if node.site is not None:
                found.setdefault((node.site.filename, node.site.line), node.site)
        return list(found.values())

    def __str__(self) -> str:
        alone = self.ops == self.step.split(" ")[0]
        what = self.step if alone else f"{self.step}: {self.ops}"
        rate = format_bytes(self.traffic / self.time) if self.time else "?"
        numbers = (
            f"{self.share:>6.1%} {format_seconds(self.time):>9}"
            f" {format_bytes(self.traffic):>9} {rate + '/s':>12}  "
        )
        return "\n".join([*_fold(what, numbers), *self._list_places()])

    def _list_places(self) -> list[str]:
        """Return the lines that tell where its nodes were made."""
        sites, start = self.sites, " " * 7
        if len(sites) < 2:
            return [f"{start}{shorten(str(one), WIDTH - 7)}" for one in sites]
        where = ", ".join(site.place for site in sites[:MOST_SITES])
        if len(sites) > MOST_SITES:
            where += f" and {len(sites) - MOST_SITES} more"
        return _fold(where, start)


def _fold(text: str, start: str) -> list[str]:
    """Return a text as lines that begin below each other and break at spaces."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


class Cost(NamedTuple):
    """The cost of one node: seconds, bytes, and the number of its row."""

    time: float
    traffic: float
    row: int


class Profile:
    """The cost of each step of a program, to print, or to iterate over.

    Attributes
    ----------
    backend
        What ran: ``numpy``, ``compiled``, or ``cupy``.
    rows
        The cost of each step, the dearest first.
    peak
        The most bytes that results of nodes take at one moment.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = wb.vector("x", shape=1000)
    >>> profile = wb.function([x], np.sum(np.exp(x))).profile(np.zeros(1000))
    >>> profile.backend, sorted(row.step for row in profile), profile.peak
    ('numpy', ['exp', 'sum'], 8008)
    >>> [row.traffic for row in profile if row.step == "exp"]
    [16000]
    """

    def __init__(self, backend: str, rows: Sequence[ProfileRow], peak: int) -> None:
        self.backend = backend
        self.rows = sorted(rows, key=lambda row: -row.time)
        self.peak = peak

    @cached_property
    def time(self) -> float:
        """Seconds of one call: those of all steps together."""
        return math.fsum(row.time for row in self.rows)

    @cached_property
    def costs(self) -> dict[Tensor, Cost]:
        """The cost of each node that is computed: its share of the steps."""
        return {
            node: Cost(row.time * part, row.traffic * part, i)
            for i, row in enumerate(self.rows)
            for node, part in zip(row.nodes, row.parts, strict=True)
        }

    def __iter__(self) -> Iterator[ProfileRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        count = f"{len(self.rows):,} step{'s' * (len(self.rows) != 1)}"
        lines = [
            f"{self.backend}: {format_seconds(self.time)} in {count};"
            f" at most {format_bytes(self.peak)} at once",
            f"{'share':>6} {'time':>9} {'traffic':>9} {'rate':>12}  step",
            *map(str, self.rows[:MOST_ROWS]),
        ]
        if len(self.rows) > MOST_ROWS:
            rest = sum(row.share for row in self.rows[MOST_ROWS:])
            lines.append(f"{rest:>6.1%} in {len(self.rows) - MOST_ROWS:,} more steps")
        return "\n".join(lines)

    def __repr__(self) -> str:
        time = format_seconds(self.time)
        return f"<Profile of {len(self.rows):,} steps, {self.backend}: {time}>"


def measure(function: Executable, arrays: Sequence[Any]) -> Profile:
    """Call a function several times, and return the cost of each step.

    Code that is still being compiled for such arrays is waited for.
    """
    if isinstance(function, tiers.TieredFunction):
        function.run(arrays)
        function.wait()
        try:
            program = function.separate_steps()
            if program is not None:
                return _measure_program(function.backend, program, arrays)
        except (CompilerError, Retreat):
            pass  # a call for these arrays is NumPy's too
    return _measure_numpy(function, arrays)


class _Clock:
    """The seconds of each step: the least of several calls."""

    def __init__(self, count: int) -> None:
        self.least = [math.inf] * count
        self.now = [0.0] * count

    def count_calls(self) -> Iterator[None]:
        """Yield for each call that is to be measured; the first is not counted."""
        end = math.inf
        for number in range(MOST_CALLS + 1):
            if number > LEAST_CALLS and perf_counter() > end:
                break
            self.now = [0.0] * len(self.least)
            yield
            if number:
                self.least = list(map(min, self.least, self.now))
            else:
                end = perf_counter() + ENOUGH

    def make_rows(
        self, steps: Sequence[tuple[str, tuple[Tensor, ...], int]]
    ) -> list[ProfileRow]:
        """Return the rows of steps: of each its name, its nodes and its traffic."""
        total = math.fsum(self.least) or 1.0
        rows = []
        for (name, nodes, traffic), time in zip(steps, self.least, strict=True):
            weights = [max(1, _count_work(x)) for x in nodes]
            parts = tuple([w / sum(weights) for w in weights])
            rows.append(ProfileRow(name, nodes, time, time / total, traffic, parts))
        return rows


def _count_work(node: Tensor) -> int:
    """Return the number of entries that a node computes or reduces."""
    specs = [spec_of(node)]
    if not node.op.elementwise:
        specs += [spec_of(x) for x in node.inputs if isinstance(x, Tensor)]
    sizes = [
        math.prod(spec.shape)
        for spec in specs
        if isinstance(spec, Spec) and all(type(n) is int for n in spec.shape)
    ]
    return max(sizes, default=1)


# NumPy: a step is a node


def _measure_numpy(function: Executable, arrays: Sequence[Any]) -> Profile:
    steps = function.schedule.steps
    places = {step.node.serial: i for i, step in enumerate(steps)}
    clock = _Clock(len(steps))
    traffic, sizes = [0] * len(steps), [0] * len(steps)

    def time_node(node: Tensor, operands: tuple[Any, ...]) -> Any:
        start = perf_counter()
        result = compute_node(node, operands)
        seconds = perf_counter() - start
        i = places[node.serial]
        clock.now[i] += seconds
        sizes[i], traffic[i] = _count_traffic(node, operands, result)
        return result

    for _ in clock.count_calls():
        function.run(arrays, time_node)
    named = [
        (
            " ".join(filter(None, (step.node.op.name, step.node.name))),
            (step.node,),
            moved,
        )
        for step, moved in zip(steps, traffic, strict=True)
    ]
    backend = "cupy" if function.backend == "cupy" else "numpy"
    return Profile(backend, clock.make_rows(named), _find_peak(steps, sizes))


def _find_peak(steps: Sequence[Any], sizes: Sequence[int]) -> int:
    """Return the peak of bytes, from the writes and releases of each step."""
    slots: dict[int, int] = {}
    now = peak = 0
    for step, size in zip(steps, sizes, strict=True):
        peak = max(peak, now + size)
        now += size - slots.get(step.writes, 0)
        slots[step.writes] = size
        for slot in step.forgets:
            now -= slots.pop(slot, 0)
    return peak


def _count_traffic(
    node: Tensor, operands: tuple[Any, ...], result: Any
) -> tuple[int, int]:
    """Return the bytes that a result takes, and those that are read and written.

    A view takes none, and its entries are not read. What copies where NumPy could have
    made a view reads as many as it writes.
    """
    results = result if isinstance(result, tuple) else (result,)
    owners = {id(_find_owner(x)) for x in operands}
    size = sum(_count_bytes(y) for y in results if id(_find_owner(y)) not in owners)
    if not size:
        return 0, 0
    if node.op.view is not None:
        return size, 2 * size
    read = {id(x): _count_bytes(x) for x in operands}
    return size, size + sum(read.values())


def _find_owner(x: Any) -> Any:
    """Return the object that holds the memory of an array."""
    while (base := getattr(x, "base", None)) is not None:
        x = base
    return x


def _count_bytes(x: Any) -> int:
    """Return the bytes of an array's entries, each once: some repeat others."""
    if isinstance(x, tuple):
        return sum(map(_count_bytes, x))
    strides = getattr(x, "strides", None)
    if strides is None:
        return int(getattr(x, "nbytes", 0))
    kept = [n for n, step in zip(x.shape, strides, strict=True) if step]
    return math.prod(kept) * int(x.itemsize) if x.size else 0


# Compiled code: a step is a kernel, a product, a call of NumPy


def _measure_program(
    backend: str, program: Program | DeviceProgram, arrays: Sequence[Any]
) -> Profile:
    plan = program.plan
    numbers = {id(step): i for i, step in enumerate(plan.steps)}
    clock = _Clock(len(plan.steps))

    def record(run: Native | HostStep | Action, seconds: float) -> None:
        if isinstance(run, Action):
            number = run.step
        else:
            number = run.steps[0] if isinstance(run, Native) else numbers[id(run)]
        clock.now[number] += seconds

    for _ in clock.count_calls():
        program.run(arrays, record)
    counts: Counter[str] = Counter()
    named = []
    for step in plan.steps:
        kind = KINDS[type(step)]
        if backend == "cupy" and kind == "NumPy":
            kind = "CuPy"
        counts[kind] += 1
        named.append(
            (f"{kind} {counts[kind]}", list_nodes(step), _count_moved(program, step))
        )
    return Profile(backend, clock.make_rows(named), program.memory)


#: What the steps of compiled code are called; what NumPy computes is CuPy's on a GPU.
KINDS: dict[type, str] = {
    KernelStep: "kernel",
    ProductStep: "product",
    SystemStep: "system",
    MoveStep: "copy",
    LoopStep: "loop",
    ChoiceStep: "choice",
    StripStep: "strips",
    HostStep: "NumPy",
}


def _count_moved(program: Program | DeviceProgram, step: Any) -> int:
    """Return the bytes that a step reads and writes, each entry of a view once."""
    buffers = program.plan.buffers
    if isinstance(step, KernelStep):
        views = _list_views(step.kernel)
    elif isinstance(step, ProductStep):
        views = [step.a, step.b, step.out]
    elif isinstance(step, MoveStep):
        views = [view for part in step.parts for view in _list_views(part)]
    elif isinstance(step, HostStep):
        read = {x for x in step.operands if isinstance(x, View)}
        written = sum(buffers[i].known_size for i in step.results)
        return sum(map(_view_bytes, read)) + written
    else:
        places = {i for i in list_buffers(step) if i >= 0}
        return sum(buffers[i].known_size for i in places)
    return sum(map(_view_bytes, set(views)))


def _list_views(kernel: Kernel) -> list[View]:
    stored = [view for _, view in kernel.stores]
    reduced = [one.view for one in kernel.reductions]
    return [*kernel.loads.values(), *stored, *reduced]


def _view_bytes(view: View) -> int:
    kept = [n for n, step in zip(view.shape, view.strides, strict=True) if step]
    return math.prod(kept) * int(view.kind[1:])
