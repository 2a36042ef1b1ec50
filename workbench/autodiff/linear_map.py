"""`LinearMap`: the derivative of some Tensors by others; pushed, pulled, as a matrix.

The matrix has a row for each entry of the outputs and a column for each entry of what
they are differentiated by. Some of its rows are one reverse sweep with as many
cotangents, some of its columns one forward sweep with as many tangents: a sweep runs
on many unit vectors at once (`batch.BatchTensor`). Where the matrix is to be an
expression, it is recorded on one first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import (
    Diagonal,
    UnrecordedError,
    hold_batch,
    read_batch,
    run_batch,
)
from workbench.autodiff.steps import plan_steps
from workbench.core import traces, types
from workbench.core.float_warnings import NamedWarnings
from workbench.core.graph import Graph
from workbench.core.hooks import OverrideRules
from workbench.core.tensor import Tensor, next_serial, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.traces import reopen_trace
from workbench.core.types import Array
from workbench.errors import (
    NotDifferentiableError,
    OverrideError,
    TraceError,
    UnknownLengthError,
)
from workbench.ops.define import shape_of
from workbench.ops.device import make_zeros
from workbench.ops.sparse.pattern import match_library

# Derivatives as linear maps

Mode = Literal["forward", "reverse"]
#: The modes as users say them; None is the cheaper.
MODES: dict[str, Mode | None] = {
    "auto": None, "fwd": "forward", "forward": "forward",
    "rev": "reverse", "reverse": "reverse",
}  # fmt: skip
#: From and to (excluded).
Span = tuple[int, int]
#: Called with how many sweeps of how many are done; true stops them.
Progress = Callable[[int, int], object]

#: The most bytes of values that one batch of a sweep may hold at a time.
BUDGET = 2**26
#: Handling one node once costs as much as computing so many entries.
HANDLING = 20_000
#: The bytes that a sweep of one vector counts as, so that few run between two words
#: of progress.
APART = 2**22
#: How many values as large as the largest are alive in a sweep at a time, about.
ALIVE = 4

#: What says that a rule is missing in a mode, or needs values.
NO_RULE = (OverrideError, NotDifferentiableError, TraceError)


class Block(NamedTuple):
    """Some entries of the matrix: those from a row and a column on."""

    row: int
    column: int
    entries: Any


class LinearMap:
    """The derivative of some Tensors of one program by others, where they are.

    Nothing is computed before it is asked for, and a sweep is recorded once.

    Parameters
    ----------
    outputs
        What is differentiated; what is not a Tensor does not vary.
    wrt
        What it is differentiated by.
    rules
        Those of overrides, which stand in for those of the ops.
    constant
        Tensors that do not vary, whatever they are computed from.
    record
        Record every rule, so that what comes out are expressions. Derivatives that
        cannot be computed come out as they are (see `ops/gradients.py`).
    prefer
        The mode of the matrix where both cost the same.
    """

    def __init__(
        self,
        outputs: Sequence[Any],
        wrt: Sequence[Tensor],
        rules: OverrideRules | None = None,
        constant: Sequence[Tensor] = (),
        *,
        record: bool = False,
        prefer: Mode = "reverse",
    ) -> None:
        self.outputs = outputs
        self.wrt = wrt
        self.rules = rules
        self.constant = constant
        self.record = record
        self.prefer = prefer
        self._options: dict[str, Any] = {
            "rules": None if rules is None else rules.rules,
            "constant": {x.serial for x in constant},
            "record": record,
            "nulls_pass": record,
        }
        self._sweeps: dict[Any, Sweep] = {}
        self._work: dict[Any, Span] = {}

    # Products

    # What ops run again is part of the expressions too, if these are recorded.

    def pull(
        self,
        cotangents: Sequence[Any],
        wrt: Sequence[Tensor] | None = None,
        *,
        closed: Collection[int] = frozenset(),
    ) -> list[Any]:
        """Return the cotangents of ``wrt``, or of some; None where nothing arrives.

        ``closed`` is that of `reverse.pull_back`.
        """
        pairs = zip(self.outputs, cotangents, strict=True)
        given = [(y, g) for y, g in pairs if g is not None]
        with NamedWarnings(), reopen_trace(self.wrt) if self.record else nullcontext():
            return reverse.pull_back(
                [y for y, _ in given], [g for _, g in given],
                self.wrt if wrt is None else wrt, closed=closed, **self._options,
            )  # fmt: skip

    def push(
        self, tangents: Sequence[Any], outputs: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return the tangents of the outputs, or of some; None for one that rests."""
        with NamedWarnings(), reopen_trace(self.wrt) if self.record else nullcontext():
            return forward.push_forward(
                self.outputs if outputs is None else outputs, self.wrt, tangents,
                **self._options,
            )  # fmt: skip

    def multiply(self, mode: Mode, vectors: Array) -> Any:
        """Return the products of the matrix with many vectors, made flat.

        Parameters
        ----------
        mode
            ``"forward"``: vectors of shape ``(count, columns)`` give products of shape
            ``(count, rows)``. ``"reverse"`` multiplies with the transpose: from
            ``(count, rows)`` to ``(count, columns)``.
        vectors
            Real numbers, a vector in each row.
        """
        count = shape_of(vectors)[0]
        sweep = Sweep(self, mode)
        vectors = match_library(vectors, self.wrt[0] if self.wrt else 0.0)
        made: list[Any] = [None] * len(sweep.ends)
        if count:
            edges = self.row_starts if mode == "reverse" else self.column_starts
            parts = [
                np.reshape(vectors[:, edges[k] : edges[k + 1]], (count, *x.shape))
                for k, x in zip(sweep.places, sweep.starts, strict=True)
            ]
            parts = [
                part.astype(x.dtype)
                for part, x in zip(parts, sweep.starts, strict=True)
            ]
            made = sweep.run_all(lambda a, b: [part[a:b] for part in parts], count)
        like = self.wrt[0]._value if self.wrt else 0.0
        flat = [
            np.zeros_like(
                0.0 if like is None else like, self.dtype, "C",
                shape=(count, count_entries(x)),
            )
            if part is None
            else np.reshape(part, (count, -1)).astype(self.dtype, copy=False)
            for x, part in zip(sweep.ends, made, strict=True)
        ]  # fmt: skip
        return flat[0] if len(flat) == 1 else np.concatenate(flat, 1)

    # The matrix, a block for each output and each of ``wrt``

    def blocks(
        self, mode: Mode | None = None, optional: bool = False
    ) -> list[list[Any]]:
        """Return a row of blocks for each output, each in the shapes of both.

        Without a ``mode`` tangents are pushed where ``wrt`` has fewer entries than the
        outputs. That, and a forward mode that is ``optional``, gives way to reverse
        mode where an override or an op that a user has made has no forward rule.
        """
        if mode is None:
            optional, mode = True, self.choose_mode()
        try:
            if mode == "forward":
                columns = [Sweep(self, mode, k).blocks() for k in range(len(self.wrt))]
                return [list(row) for row in zip(*columns, strict=True)]
        except NO_RULE:
            if not optional:
                raise
        return [Sweep(self, "reverse", k).blocks() for k in range(len(self.outputs))]

    def choose_mode(self) -> Mode:
        """Return the mode of fewer sweeps, as far as lengths are known."""
        height = sum(prod(y.shape) for y in self.outputs if isinstance(y, Tensor))
        try:
            fewer = sum(prod(x.shape) for x in self.wrt) < height
        except UnknownLengthError:
            fewer = False
        return "forward" if fewer else "reverse"

    # The matrix as it is: all of it, or a window

    @cached_property
    def row_starts(self) -> list[int]:
        """The first row of each output, and the number of rows."""
        return [0, *accumulate(map(count_entries, self.outputs))]

    @cached_property
    def column_starts(self) -> list[int]:
        """The first column of each of ``wrt``, and the number of columns."""
        return [0, *accumulate(map(count_entries, self.wrt))]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        return np.result_type(
            *[x.dtype for x in (*self.outputs, *self.wrt) if is_varying(x)]
        )

    def choose_window_mode(self, rows: Span, columns: Span) -> Mode:
        """Return the cheaper mode for a window, by the cost of its sweeps."""
        modes: list[Mode] = ["reverse", "forward"]
        if self.prefer == "forward":
            modes.reverse()
        tops = spans_in(self.row_starts, rows)
        lefts = spans_in(self.column_starts, columns)
        best = min(modes, key=lambda mode: self._cost(mode, tops, lefts))
        if best == "forward":
            try:
                self._find_sweeps(best, rows, columns)
            except NO_RULE:
                return "reverse"
        return best

    def _cost(self, mode: Mode, tops: dict[int, Span], lefts: dict[int, Span]) -> int:
        """Return the entries that the sweeps of a window compute, and the handling."""
        is_reverse = mode == "reverse"
        along = tops if is_reverse else lefts
        total = 0
        for place, (begin, end) in along.items():
            ends = ((place,), (*lefts,)) if is_reverse else ((*tops,), (place,))
            if len(along) > 8:  # a look takes linear time: only one, at the whole
                ends = (*range(len(self.outputs)),), (*range(len(self.wrt)),)
            if ends not in self._work:
                outputs = [self.outputs[i] for i in ends[0]]
                wrt = [self.wrt[j] for j in ends[1]]
                sizes = _list_sizes(outputs, wrt)
                self._work[ends] = len(sizes), sum(sizes)
            count, entries = self._work[ends]
            total += count * HANDLING + (end - begin) * max(entries, 1)
        return total

    def _find_sweeps(
        self, mode: Mode, rows: Span, columns: Span
    ) -> list[tuple[Sweep, Span]]:
        """Return the sweeps that a window needs, and which vectors each runs for."""
        tops = spans_in(self.row_starts, rows)
        lefts = spans_in(self.column_starts, columns)
        along, across = (tops, lefts) if mode == "reverse" else (lefts, tops)
        found = []
        for place, span in along.items():
            key = mode, place, *across
            if key not in self._sweeps:
                sweep = Sweep(self, mode, place, list(across))
                sweep.flat(span[0], span[0] + 1)  # which shows what its rules need
                self._sweeps[key] = sweep
            found.append((self._sweeps[key], span))
        return found

    def windows(
        self, rows: Span, columns: Span, mode: Mode, progress: Progress | None = None
    ) -> Iterator[Block]:
        """Yield the entries of a window, block after block; each is made and let go.

        Raises
        ------
        KeyboardInterrupt
            If ``progress`` returns something true; says how far it was.
        """
        is_reverse = mode == "reverse"
        window, across = (rows, columns) if is_reverse else (columns, rows)
        along, others = self.row_starts, self.column_starts
        if not is_reverse:
            along, others = others, along
        left = max((n for n in others if n <= across[0]), default=0)
        kept_columns = slice(across[0] - left, across[1] - left)
        total, count = window[1] - window[0], 0
        for sweep, (first, last) in self._find_sweeps(mode, rows, columns):
            step = sweep.chunk_size
            for start in range(first, last, step):
                stop = min(start + step, last)
                entries = sweep.flat(start, stop)[:, kept_columns].astype(
                    self.dtype, copy=False
                )
                assert sweep.place is not None
                at = along[sweep.place] + start
                if is_reverse:
                    yield Block(at, columns[0], entries)
                else:
                    yield Block(rows[0], at, entries.T)
                count += stop - start
                if progress is not None and progress(count, total):
                    raise KeyboardInterrupt(
                        f"stopped after {count:,} of {total:,} sweeps; what they gave"
                        " is let go."
                    )

    def matrix(
        self, rows: Span, columns: Span, mode: Mode, progress: Progress | None = None
    ) -> Array:
        """Return a window as one array, where the values are, in memory or on a GPU."""
        tall, wide = rows[1] - rows[0], columns[1] - columns[0]
        like = self.wrt[0]._value if self.wrt else 0.0
        made = np.zeros_like(like, shape=(tall, wide), dtype=self.dtype, order="C")
        if not tall or not wide:
            return made
        for at, left, found in self.windows(rows, columns, mode, progress):
            top, first = at - rows[0], left - columns[0]
            height, width = shape_of(found)
            made[top : top + height, first : first + width] = found
        return made


class Sweep:
    """A sweep of a linear map, which runs for any vectors.

    In reverse mode it starts at outputs and ends at ``wrt``, in forward mode the other
    way round.

    Parameters
    ----------
    linear, mode
        The map, and in which of the modes.
    place
        The one start that is meant; None: all that vary.
    across
        Which ends are meant; None: all.
    """

    def __init__(
        self,
        linear: LinearMap,
        mode: Mode,
        place: int | None = None,
        across: Sequence[int] | None = None,
    ) -> None:
        self.linear, self.place = linear, place
        self.is_reverse = mode == "reverse"
        starts, ends = linear.wrt, linear.outputs
        if self.is_reverse:
            starts, ends = linear.outputs, linear.wrt
        self.count = len(starts)
        self.ends = ends if across is None else [ends[k] for k in across]
        chosen = range(len(starts)) if place is None else [place]
        self.places = [k for k in chosen if is_varying(starts[k])]
        self.starts: list[Any] = [starts[k] for k in self.places]
        #: What it starts at if it is one, be it a constant.
        self.start: Any = None if place is None else starts[place]
        #: Whether there are values to run on.
        self.has_values = all(x._value is not None for x in self.starts)
        #: The entries that are alive at a time for one vector, about.
        self._alive: int | None = None
        #: Whether the sweep is recorded first, and then run.
        self.is_recorded = linear.record
        #: Whether vectors run one by one: there is only one, or a rule of the user's
        #: looks at the values that arrive.
        self.one_by_one = (
            place is not None
            and self.has_values
            and not linear.record
            and count_entries(self.start) == 1
        )

    def _walk(self, seeds: Sequence[Any]) -> list[Any]:
        """Return the derivatives at the ends, for one seed at each start."""
        filled: list[Any] = [None] * self.count
        for k, seed in zip(self.places, seeds, strict=True):
            filled[k] = seed
        if self.is_reverse:
            return self.linear.pull(filled, self.ends)
        ends = [y if is_varying(y) else None for y in self.ends]
        return self.linear.push(filled, ends)

    @property
    def chunk_size(self) -> int:
        """The number of vectors that run at once, as their values fit the budget."""
        if self.one_by_one:
            return BUDGET // APART
        if self._alive is None:
            pair = self.starts, self.ends
            sizes = _list_sizes(*pair if self.is_reverse else reversed(pair))
            ends = sum(map(count_entries, self.ends))
            self._alive = ends + ALIVE * max(sizes, default=0)
        return max(1, BUDGET // max(8 * self._alive, 1))

    def run(self, vectors: Sequence[Any], count: Any) -> list[Any]:
        """Return one array for each end, examples along axis 0; None for zeros.

        ``vectors`` holds for each start an array of ``count`` of them, or a `Diagonal`.
        """
        made = self._run_vectors(vectors, count)
        are_complex = [x.dtype.kind == "c" for x in self.starts]
        if any(are_complex) and any(
            y.dtype.kind != "c" for y in self.ends if is_varying(y)
        ):
            # A complex number reaches a real one by its real part alone.
            unit = -1j if self.is_reverse else 1j
            turned = self._run_vectors(
                [
                    x * (unit if is_complex else 0)
                    for x, is_complex in zip(vectors, are_complex, strict=True)
                ],
                count,
            )
            for k, (a, b) in enumerate(zip(made, turned, strict=True)):
                if a is not None and self.ends[k].dtype.kind != "c":
                    made[k] = a + 1j * b if self.is_reverse else a - 1j * b
        return made

    def _run_vectors(self, vectors: Sequence[Any], count: Any) -> list[Any]:
        """Return the derivatives at the ends; for complex vectors the real part."""
        before = next_serial()
        if not (self.is_recorded or self.one_by_one):
            try:
                made = self._walk([hold_batch(x) for x in vectors])
                return [x if x is None else read_batch(x, count, before) for x in made]
            except UnrecordedError:
                self.is_recorded = True
            except TraceError:
                if not (self.is_reverse and self.has_values):
                    raise
                self.one_by_one = True
        vectors = [x.dense() if type(x) is Diagonal else x for x in vectors]
        run = self._run_recorded if self.is_recorded else self._run_one_by_one
        return run(vectors, count)

    def _run_recorded(self, vectors: Sequence[Any], count: Any) -> list[Any]:
        """Return the derivatives by a program that is recorded for one vector."""
        graph, arrives = self.program
        with np.errstate(all="ignore"):  # the program itself has warned already
            found = run_batch(graph, vectors, count)
        parts = iter(
            part if batched else np.broadcast_to(part, (count, *shape_of(part)))
            for part, batched in zip(found, graph.varying, strict=True)
        )
        return [next(parts) if some else None for some in arrives]

    @cached_property
    def program(self) -> tuple[Graph, list[bool]]:
        """The derivatives for one vector as a program; the ends where one arrives."""
        seeds = list(map(make_leaf_like, self.starts))
        made = self._walk(seeds)
        found = [x for x in made if x is not None]
        return Graph(seeds, found), [x is not None for x in made]

    def _run_one_by_one(self, vectors: Sequence[Any], count: int) -> list[Any]:
        rows = []
        for i in range(count):
            with np.errstate(all="ignore"):  # the program itself has warned already
                rows.append(self._walk([x[i] for x in vectors]))
        return [
            None
            if all(x is None for x in column)
            else np.stack(
                [np.zeros_like(end._value) if x is None else x for x in column]
            )
            for column, end in zip(zip(*rows, strict=True), self.ends, strict=True)
        ]

    def run_all(
        self, make_vectors: Callable[[int, Any], Sequence[Any]], count: Any
    ) -> list[Any]:
        """Return the derivatives for all vectors, one batch after the other.

        ``make_vectors(begin, end)`` gives some of them, as `run` takes them.
        """
        if not self.starts:
            return [None] * len(self.ends)
        recorded = self.linear.record or traces.LOCAL.stack
        if recorded or count <= (step := self.chunk_size):
            return self.run(make_vectors(0, count), count)
        gathered: list[Any] = []
        for begin in range(0, count, step):
            end = min(begin + step, count)
            chunk = self.run(make_vectors(begin, end), end - begin)
            gathered = gathered or [
                x if x is None
                else np.empty_like(x, order="C", shape=(count, *x.shape[1:]))
                for x in chunk
            ]  # fmt: skip
            for target, part in zip(gathered, chunk, strict=True):
                if part is not None:
                    target[begin:end] = part
        return gathered

    # The unit vectors of its one start

    def _make_units(self, begin: int, end: Any) -> Sequence[Any]:
        """Return some of the unit vectors."""
        shape, dtype, like = self.start.shape, self.start.dtype, self.start._value
        if not self.linear.record:
            like = 0.0 if like is None else like
            entries = np.full_like(like, 1, dtype=dtype, shape=(end - begin,))
            return [Diagonal(entries, shape, begin, like)]
        like = self.start
        if isinstance(end, int):
            # What the sweep reads and has no value yet tells where arrays are. Another
            # would have to be given to an expression that does not read it.
            known = self.program[0].schedule.constants.values()
            like = next(filter(is_symbolic, known), None)
        if like is None:
            units: Any = np.eye(end, dtype=dtype)  # host array: constants alone
        else:
            units = np.identity(end, dtype=dtype, like=like)
        return [units if len(shape) == 1 else np.reshape(units, (end, *shape))]

    def flat(self, begin: int, end: int) -> Array:
        """Return the derivatives at all ends side by side, one row per unit vector."""
        count = end - begin
        made: Sequence[Any] = [None] * len(self.ends)
        if self.starts:
            made = self.run(self._make_units(begin, end), count)
        parts = [
            np.zeros_like(self.start._value, shape=(count, count_entries(x)))
            if part is None
            else np.reshape(value_of(part), (count, -1))
            for x, part in zip(self.ends, made, strict=True)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)

    def blocks(self) -> list[Any]:
        """Return a block for each end, in the shape of the output, then of ``wrt``."""
        made = self.run_all(self._make_units, count_entries(self.start))
        found = []
        for part, end in zip(made, self.ends, strict=True):
            y, x = (self.start, end) if self.is_reverse else (end, self.start)
            tall, wide = shape_of(y), x.shape
            if part is not None:
                if self.is_reverse:
                    wide = shape_of(part)[1:]
                elif tall:
                    part = np.moveaxis(part, 0, -1)
                is_flat = len(tall if self.is_reverse else wide) == 1
                part = part if is_flat else np.reshape(part, (*tall, *wide))
            elif self.linear.record:
                part = make_zeros(x, (*tall, *wide), dtype_between(y, x))
            elif x._value is None:
                part = np.zeros((*tall, *wide), x.dtype)  # host array: a symbol's zeros
            else:
                part = make_zeros(x._value, (*tall, *wide))
            found.append(part)
        return found


# Small things


def count_entries(x: object) -> Any:
    """Return the number of entries; a `Dim` where unknown."""
    return prod(shape_of(x))


def _list_sizes(outputs: Sequence[Any], wrt: Sequence[Any]) -> list[int]:
    """Return the number of entries of each node that a sweep between passes."""
    steps = plan_steps([y for y in outputs if is_varying(y)], wrt)
    return [count_made(node) for node, _ in steps]


def count_made(node: Tensor) -> int:
    """Return the number of entries of all outputs of a node."""
    made = node.spec if node._value is None else node._value
    parts = made if isinstance(made, tuple) else (made,)
    return sum(map(count_entries, parts))


def is_varying(y: object) -> bool:
    """Return whether something may have a derivative."""
    return isinstance(y, Tensor) and types.is_differentiable(y.dtype)


def is_symbolic(x: object) -> bool:
    """Return whether an object is a Tensor of one array, without a value yet."""
    return isinstance(x, Tensor) and x._value is None and not isinstance(x.spec, tuple)


def dtype_between(y: Tensor, x: Tensor) -> np.dtype[Any]:
    """Return the dtype of the derivative of ``y`` by ``x``, integers as flat floats."""
    kinds = [z.dtype if is_varying(z) else np.dtype(np.float16) for z in (y, x)]
    return np.result_type(*kinds)


def spans_in(edges: Sequence[int], window: Span) -> dict[int, Span]:
    """Return the part of a window in each group, counted from the group's first entry.

    >>> spans_in([0, 5, 8], (3, 8))
    {0: (3, 5), 1: (0, 3)}
    """
    found = {}
    for k, (begin, end) in enumerate(pairwise(edges)):
        first, last = max(begin, window[0]), min(end, window[1])
        if first < last:
            found[k] = first - begin, last - begin
    return found
