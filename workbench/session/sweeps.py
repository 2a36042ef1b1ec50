"""Derivatives of some nodes by others, a few rows or columns at a time.

The matrix has a row for each entry of the outputs and a column for each entry of the
sources. Some of its rows are one reverse sweep with as many cotangents, some of its
columns one forward sweep with as many tangents. Nothing here holds the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import Batched
from workbench.autodiff.derivatives import held, nothing
from workbench.autodiff.jacobian import Diagonal
from workbench.autodiff.steps import plan
from workbench.checks.progress import Progress
from workbench.core import types
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import blank
from workbench.errors import NotDifferentiableError, OverrideError, TraceError
from workbench.ops.define import shape_of

Mode = Literal["forward", "reverse"]
#: Rules that stand in for those of the ops, by the serial of the node.
Rules = Mapping[int, Any] | None
#: From and to (excluded).
Span = tuple[int, int]

#: The most bytes of values that one batch of sweeps may hold at a time.
BUDGET = 2**26
#: Handling one node once costs as much as computing so many entries.
HANDLING = 20_000
#: What a sweep that runs by itself counts as, so that few are run between two words
#: of progress.
APART = 2**22


class Block(NamedTuple):
    """Some entries of the matrix: those from a row and a column on."""

    row: int
    column: int
    entries: Any


class Sweeps:
    """The derivatives of nodes by nodes, other rules applied.

    Parameters
    ----------
    outputs
        Tensors of one program; what is no Tensor does not vary.
    sources
        What they are differentiated by. One that is computed from another is held
        while that varies.
    pulls, pushes
        The rules that stand in for those of the ops, by the serial of the node.
    prefer
        The mode where both cost the same.
    """

    def __init__(
        self,
        outputs: Sequence[Any],
        sources: Sequence[Tensor],
        pulls: Rules = None,
        pushes: Callable[[], Rules] = dict,
        prefer: Mode = "reverse",
    ) -> None:
        self.outputs = list(outputs)
        self.sources = list(sources)
        self.heights = [size_of(y) for y in outputs]
        self.widths = [size_of(x) for x in sources]
        self.rows, self.columns = sum(self.heights), sum(self.widths)
        self.tops = [0, *accumulate(self.heights)]
        self.lefts = [0, *accumulate(self.widths)]
        kinds = [y.dtype for y in outputs if varies(y)]
        self.dtype = np.result_type(*kinds, *(x.dtype for x in sources))
        inner = [x.serial for x in sources if x.inputs] if len(sources) > 1 else []
        self._pulls: Rules = dict(pulls or {}) | dict.fromkeys(inner, nothing)
        self._asked_pushes, self._inner = pushes, inner
        self._prefer = prefer
        self._made: dict[Any, list[Program]] = {}
        self._work: dict[Any, tuple[int, int]] = {}
        #: How many sweeps have run, in each mode.
        self.swept: dict[Mode, int] = {"forward": 0, "reverse": 0}

    # Which mode

    def mode(self, rows: Span, columns: Span) -> Mode:
        """The cheaper mode for some entries, by what its sweeps would compute."""
        costs: dict[Mode, int] = {}
        tops = groups(self.tops, rows)
        lefts = groups(self.lefts, columns)
        costs["reverse"] = self._cost(
            [
                ([self.outputs[i]], [self.sources[j] for j in lefts], n)
                for i, n in tops.items()
            ]
        )
        costs["forward"] = self._cost(
            [
                ([self.outputs[i] for i in tops], [self.sources[j]], n)
                for j, n in lefts.items()
            ]
        )
        first, other = self._prefer, _OTHER[self._prefer]
        best = other if costs[other] < costs[first] else first
        if best == "forward" and not self._can_push(rows, columns):
            return "reverse"
        return best

    def _cost(self, sweeps: Sequence[tuple[list[Any], list[Tensor], Span]]) -> int:
        """Entries to compute, for sweeps between nodes, so many of each."""
        total = 0
        for outputs, sources, (begin, end) in sweeps:
            # Of many groups only the whole is looked at: a look takes linear time.
            few = len(sweeps) <= 8
            ends = (outputs, sources) if few else (self.outputs, self.sources)
            key = (_key(ends[0]), _key(ends[1]))
            if key not in self._work:
                steps = plan([y for y in ends[0] if varies(y)], ends[1])
                entries = sum(_entries(node) for node, _ in steps)
                self._work[key] = len(steps), entries
            count, entries = self._work[key]
            total += count * HANDLING + (end - begin) * max(entries, 1)
        return total

    def _can_push(self, rows: Span, columns: Span) -> bool:
        """Whether forward mode has all rules; else reverse mode stands in for it."""
        try:
            self.programs("forward", rows, columns)
        except (OverrideError, NotDifferentiableError, TraceError):
            return False
        return True

    def programs(self, mode: Mode, rows: Span, columns: Span) -> list[Program]:
        """What computes some rows or columns, recorded once.

        Raises
        ------
        OverrideError, NotDifferentiableError
            If something on the way has no rule in this mode.
        """
        tops, lefts = groups(self.tops, rows), groups(self.lefts, columns)
        key = (mode, tuple(tops), tuple(lefts))
        if key not in self._made:
            outputs = [(i, self.outputs[i]) for i in tops]
            sources = [(j, self.sources[j]) for j in lefts]
            if mode == "reverse":
                self._made[key] = [
                    Pulled(i, y, sources, self._pulls) for i, y in outputs
                ]
            else:
                rules = {**(self._asked_pushes() or {})}
                rules.update(dict.fromkeys(self._inner, held))
                self._made[key] = [
                    Pushed(j, x, outputs, self.sources, rules) for j, x in sources
                ]
        return self._made[key]

    # What they give

    def blocks(
        self,
        rows: Span | None = None,
        columns: Span | None = None,
        mode: Mode | None = None,
        progress: Progress | None = None,
        budget: int = BUDGET,
    ) -> Iterator[Block]:
        """The entries of a window, block after block; each is made and let go.

        Raises
        ------
        KeyboardInterrupt
            If ``progress`` returns something true; says how far it was.
        """
        rows, columns = rows or (0, self.rows), columns or (0, self.columns)
        if mode is None:
            mode = self.mode(rows, columns)
        along = self.tops if mode == "reverse" else self.lefts
        window = rows if mode == "reverse" else columns
        total, done = window[1] - window[0], 0
        spans = groups(along, window)
        for program in self.programs(mode, rows, columns):
            first = along[program.place]
            begin, end = spans[program.place]
            step = max(1, min(end - begin, budget // program.bytes))
            for start in range(begin, end, step):
                stop = min(start + step, end)
                parts = program.run(start, stop)
                self.swept[mode] += stop - start
                yield self._block(mode, first + start, parts, rows, columns)
                done += stop - start
                if progress is not None and progress(done, total):
                    raise KeyboardInterrupt(
                        f"stopped after {done:,} of {total:,} sweeps; what they gave is"
                        " let go."
                    )

    def _block(
        self, mode: Mode, at: int, parts: list[Any], rows: Span, columns: Span
    ) -> Block:
        """The parts of one batch side by side, cut to the window."""
        flat = [np.reshape(part, (shape_of(part)[0], -1)) for part in parts]
        found = flat[0] if len(flat) == 1 else np.concatenate(flat, 1)
        along, window = self.lefts, columns
        if mode == "forward":
            along, window = self.tops, rows
        shown = groups(along, window)
        left = along[min(shown)] if shown else window[0]
        found = found[:, window[0] - left : window[1] - left].astype(
            self.dtype, copy=False
        )
        if mode == "forward":
            return Block(rows[0], at, found.T)
        return Block(at, columns[0], found)

    def entries(
        self,
        rows: Span | None = None,
        columns: Span | None = None,
        mode: Mode | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """A window as one array, where the values are: in main memory or on a GPU."""
        rows, columns = rows or (0, self.rows), columns or (0, self.columns)
        shape = (rows[1] - rows[0], columns[1] - columns[0])
        like = self.sources[0]._value if self.sources else 0.0
        made = np.zeros_like(like, shape=shape, dtype=self.dtype, order="C")
        if 0 in shape:
            return made
        for at, left, found in self.blocks(rows, columns, mode, progress):
            height, width = shape_of(found)
            place = (
                slice(at - rows[0], at - rows[0] + height),
                slice(left - columns[0], left - columns[0] + width),
            )
            made[place] = found
        return made

    def cut(self, held: Any, rows: Span, columns: Span) -> Iterator[Block]:
        """The blocks of a window of the matrix, which somebody holds."""
        step = max(1, BUDGET // (16 * max(1, columns[1] - columns[0])))
        for start in range(*rows, step):
            stop = min(start + step, rows[1])
            yield Block(start, columns[0], held[start:stop, slice(*columns)])


_OTHER: dict[Mode, Mode] = {"forward": "reverse", "reverse": "forward"}


# One sweep, recorded once and run for many unit vectors


class Program:
    """A sweep recorded once, to be run for any unit vectors."""

    def __init__(self, place: int, seed_of: Any) -> None:
        #: The position of what it is seeded at, among outputs or sources.
        self.place = place
        self.bytes = 1
        self.like = seed_of
        self.batched: Batched | None = None
        self.seed: Tensor | None = None
        #: The position of each part's end in what was recorded, None for zeros.
        self.known: list[int | None] = []
        self.ends: list[Any] = []

    def _record(self, made: Sequence[Any], seed: Tensor, ends: Sequence[Any]) -> None:
        found = [g for g in made if g is not None]
        count = iter(range(len(found)))
        self.known = [None if g is None else next(count) for g in made]
        self.ends, self.seed = list(ends), seed
        if found:
            self.batched = Batched(found, [seed])
            self.bytes = self.batched.bytes_per_example()
        self.bytes += sum(size_of(x) * 8 for x in ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """One array for each end, unit vectors along axis 0."""
        raise NotImplementedError

    def _units(self, start: int, stop: int, unit: complex = 1) -> list[Any]:
        found: list[Any] = []
        if self.batched is not None and self.seed is not None:
            count = stop - start
            units = Diagonal.identity(self.seed, self.like._value, unit, start, stop)
            with np.errstate(all="ignore"):  # the program itself has warned already
                made = self.batched([units], count)
            found = [
                value_of(x)
                if many
                else np.broadcast_to(value_of(x), (count, *shape_of(x)))
                for x, many in zip(made, self.batched.batched, strict=True)
            ]
        return [
            zeros(x, stop - start) if k is None else found[k]
            for k, x in zip(self.known, self.ends, strict=True)
        ]


class Pulled(Program):
    """The cotangents of sources, for cotangents of one output."""

    def __init__(
        self, place: int, y: Any, sources: Sequence[tuple[int, Tensor]], rules: Rules
    ) -> None:
        super().__init__(place, y)
        self.rules = rules
        ends = [x for _, x in sources]
        self.eager = False
        if not varies(y):
            self.known, self.ends = [None] * len(ends), ends
            return
        seed = blank(y)
        try:
            made = reverse.pull_back([y], [seed], ends, rules=rules or None)
        except TraceError:
            # A rule of the user's looks at the values that arrive: one at a time.
            self.eager, self.ends = True, ends
            self.bytes = APART
            return
        self._record(made, seed, ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """See `Program.run`."""
        if self.eager:
            return self._eager(start, stop)
        real = self._units(start, stop)
        if not varies(self.like) or self.like.dtype.kind != "c":
            return real
        if all(x.dtype.kind == "c" for x in self.ends):
            return real
        # A cotangent of a complex output reaches a real argument as Re(g dy/dx).
        turned = self._units(start, stop, -1j)
        return [
            a if x.dtype.kind == "c" else a + 1j * b
            for a, b, x in zip(real, turned, self.ends, strict=True)
        ]

    def _eager(self, start: int, stop: int) -> list[Any]:
        y = self.like
        split = y.dtype.kind == "c"
        rows: list[list[Any]] = [[] for _ in self.ends]
        for i in range(start, stop):
            real = self._pull(i, 1)
            turned = self._pull(i, -1j) if split else real
            for found, a, b, x in zip(rows, real, turned, self.ends, strict=True):
                both = split and x.dtype.kind != "c"
                found.append(a + 1j * b if both else a)
        return [np.stack(found) for found in rows]

    def _pull(self, i: int, unit: complex) -> list[Any]:
        y = self.like
        g = np.zeros_like(y._value, dtype=y.dtype, shape=(size_of(y),))
        g[i] = unit
        g = np.reshape(g, y.shape)
        with np.errstate(all="ignore"):
            made = reverse.pull_back([y], [g], self.ends, rules=self.rules or None)
        return [
            zeros(x, 1)[0] if c is None else c
            for c, x in zip(made, self.ends, strict=True)
        ]


class Pushed(Program):
    """The tangents of outputs, for tangents of one source."""

    def __init__(
        self,
        place: int,
        x: Tensor,
        outputs: Sequence[tuple[int, Any]],
        sources: Sequence[Tensor],
        rules: Rules,
    ) -> None:
        super().__init__(place, x)
        ends = [y for _, y in outputs]
        seed = blank(x)
        tangents = [seed if other is x else None for other in sources]
        moved = forward.push_forward(
            [y if varies(y) else 0.0 for y in ends],
            sources,
            tangents,
            rules=rules or None,
        )
        self._record(moved, seed, ends)

    def run(self, start: int, stop: int) -> list[Any]:
        """See `Program.run`."""
        real = self._units(start, stop)
        split = [varies(y) and y.dtype.kind != "c" for y in self.ends]
        if self.like.dtype.kind != "c" or not any(split):
            return real
        turned = self._units(start, stop, 1j)
        return [
            a - 1j * b if parted else a
            for a, b, parted in zip(real, turned, split, strict=True)
        ]


# Small things


def size_of(x: Any) -> int:
    """The number of entries."""
    return int(np.prod(shape_of(x), dtype=np.int64))


def zeros(x: Any, count: int) -> Any:
    """So many times zeros in the shape of a Tensor."""
    if not isinstance(x, Tensor):
        return np.zeros_like(x, shape=(count, *shape_of(x)))
    dtype = x.dtype if types.differentiable(x.dtype) else np.dtype(np.float64)
    return np.zeros_like(x._value, dtype=dtype, shape=(count, *x.shape))


def varies(y: Any) -> bool:
    """Whether something may have a derivative."""
    return isinstance(y, Tensor) and types.differentiable(y.dtype)


def groups(edges: Sequence[int], window: Span) -> dict[int, Span]:
    """What a window holds of each group, counted from the group's first entry."""
    found = {}
    for k, (begin, end) in enumerate(pairwise(edges)):
        first, last = max(begin, window[0]), min(end, window[1])
        if first < last:
            found[k] = first - begin, last - begin
    return found


def _entries(node: Tensor) -> int:
    spec: Any = node.spec if node._value is None else None
    if spec is None:
        value = node._value
        parts = value if isinstance(value, tuple) else (value,)
        return sum(int(np.prod(shape_of(v), dtype=np.int64)) for v in parts)
    parts = spec if isinstance(spec, tuple) else (spec,)
    return sum(int(np.prod(s.shape, dtype=np.int64)) for s in parts)


def _key(nodes: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([getattr(x, "serial", None) for x in nodes])
