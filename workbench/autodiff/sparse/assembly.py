"""From parts to the entries of a pattern: vectors side by side, as a loop writes them.

Lines of a matrix that look alike, as those of a stencil do, are computed side by side,
so that compiled code is one loop which writes the nonzeros.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.tangents import Integers, Part, count_up, scale
from workbench.core.op import declare
from workbench.core.tensor import Tensor, apply
from workbench.core.types import is_weak
from workbench.ops.define import shape_of
from workbench.ops.indexing import GETITEM

#: The most pieces of alike lines; with more, entries are picked one by one.
MOST_RUNS = 24
#: The most terms whose sum is one entry.
MOST_TERMS = 8
#: From this length on, a line that is like no other is cut into pieces of its own.
LONG_LINE = 8

RESHAPE = declare("reshape")


class _Terms(NamedTuple):
    """All terms of all entries: ``part[i]`` at ``pick[i]`` is added to ``place[i]``."""

    place: Integers
    part: Integers
    pick: Integers


class _Run(NamedTuple):
    """Lines that look alike: so many, of so many entries, and the terms of the first.

    In each of the next lines, the terms are one further in the vectors.
    """

    lines: int
    width: int
    terms: slice


class Assembly:
    """The entries of a matrix, written from parts in the order of a pattern."""

    def __init__(
        self, parts: list[Part], pattern: SparsityPattern, format: str,
        dtype: np.dtype[Any], like: Any,
    ) -> None:  # fmt: skip
        self.parts = parts
        self.dtype = dtype
        self._like: Any = 0.0 if like is None else like
        self.nnz = pattern.nnz
        by_column = format == "csc"
        self.starts = pattern.csc[0] if by_column else pattern.indptr
        self.terms = self._list_terms(pattern, by_column)

    def _list_terms(self, pattern: SparsityPattern, by_column: bool) -> _Terms:
        """Return all terms, by the entry that they are of."""
        height, width = pattern.shape
        if by_column:
            lines, others = pattern.T.rows, pattern.T.columns
            width = height
        else:
            lines, others = pattern.rows, pattern.columns
        keys = lines.astype(np.int64) * width + others
        places, owners, picks = [], [], []
        for k, part in enumerate(self.parts):
            line, other = part.rows, part.columns
            if by_column:
                line, other = other, line
            wanted = line * width + other
            place = np.searchsorted(keys, wanted)
            place[place == len(keys)] = 0
            inside = keys[place] == wanted
            every = bool(inside.all())
            places.append(place if every else place[inside])
            owners.append(np.full(len(places[-1]), k))
            if part.is_number:
                picks.append(np.zeros(len(places[-1]), np.int64))
            else:
                own = count_up(len(line)) if part.picks is None else part.picks
                picks.append(own if every else own[inside])
        if not places:
            nothing = np.zeros(0, np.int64)
            return _Terms(nothing, nothing, nothing)
        place = np.concatenate(places)
        order = np.argsort(place, kind="stable")
        return _Terms(
            place[order], np.concatenate(owners)[order], np.concatenate(picks)[order]
        )

    def write(self) -> Any | None:
        """Return the entries; None if one is a sum of too many terms."""
        if len(self.terms.place):
            most = int(np.bincount(self.terms.place.astype(np.intp)).max())
            if most > MOST_TERMS:
                return None
        runs = self._find_runs(np.asarray(self.starts, np.int64))
        made = self._write_picked() if runs is None else self._write_runs(runs)
        return made if made.dtype == self.dtype else made.astype(self.dtype)

    # Lines that look alike

    def _find_runs(self, starts: Integers, first: int = 0) -> list[_Run] | None:
        """Return the runs of lines that begin at these places; None: too many."""
        place, part, picks = self.terms
        starts = starts[np.append(True, starts[1:] > starts[:-1])]
        if len(starts) < 2:
            return []
        bounds = np.searchsorted(place, starts)
        counts, widths = np.diff(bounds), np.diff(starts)
        alike = np.zeros(len(widths), bool)
        alike[1:] = (counts[1:] == counts[:-1]) & (widths[1:] == widths[:-1])
        # Compare each term with that of the line before.
        index = np.arange(bounds[0], bounds[-1])
        line = np.repeat(np.arange(len(counts)), counts)
        checked = alike[line]
        index, line = index[checked], line[checked]
        before = index - counts[line]
        steps = np.array([0 if p.is_number else 1 for p in self.parts] or [0])
        fits = (
            (part[index] == part[before])
            & (picks[index] - picks[before] == steps[part[index]])
            & (place[index] - place[before] == widths[line])
        )
        alike[line[~fits]] = False
        heads = np.flatnonzero(~alike)
        if len(heads) > MOST_RUNS:
            return None
        runs: list[_Run] = []
        for a, b in zip(heads, [*heads[1:], len(widths)], strict=True):
            width = int(widths[a])
            if b - a == 1 and width >= LONG_LINE:
                inner = self._find_runs(np.arange(starts[a], starts[b] + 1))
                if inner is None:
                    return None
                runs += inner
            else:
                terms = slice(int(bounds[a]), int(bounds[a + 1]))
                runs.append(_Run(int(b - a), width, terms))
        return runs if len(runs) <= MOST_RUNS else None

    def _write_runs(self, runs: list[_Run]) -> Any:
        pieces = []
        spans = SpanReader()
        begin = 0
        for count, width, chosen in runs:
            rows: list[Any] = [None] * width
            for k in range(chosen.start, chosen.stop):
                part = self.parts[self.terms.part[k]]
                start = int(self.terms.pick[k])
                entries = part.entries
                if not part.is_number:
                    entries = spans.read(entries, start, start + count)
                term = scale(entries, part.weight)
                i = int(self.terms.place[k]) - begin
                rows[i] = term if rows[i] is None else rows[i] + term
            filled = [self._fill(x, count) for x in rows]
            begin += count * width
            if width == 1:
                pieces.append(filled[0])
            else:
                pieces.append(np.reshape(np.stack(filled, 1), (-1,)))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _fill(self, x: Any, count: int) -> Any:
        """Return entries as a vector: a number is the same at all places."""
        if x is not None and not is_weak(x):
            return x if shape_of(x) else np.broadcast_to(x, (count,))
        return self._make_numbers(0 if x is None else x, count)

    def _make_numbers(self, x: Any, count: int) -> Any:
        one = np.full_like(self._like, x, dtype=self.dtype, shape=(1,))
        return np.broadcast_to(one, (count,))

    # Any order

    def _write_picked(self) -> Any:
        """Return the entries, picked one by one from all parts side by side."""
        sources, starts, at = [], [], 0
        for part in self.parts:
            starts.append(at)
            made = scale(part.entries, part.weight)
            if part.is_number:
                made = self._fill(made, 1)
            sources.append(made)
            at += shape_of(made)[0]
        place, owner, picks = self.terms
        sources.append(self._make_numbers(0, 1))
        flat = np.concatenate(sources)
        index = np.asarray(starts)[owner] + picks
        first = np.append(True, place[1:] != place[:-1])
        rank = np.arange(len(place))
        rank = rank - np.maximum.accumulate(np.where(first, rank, 0))
        total = None
        for k in range(int(rank.max()) + 1):
            where = np.full(self.nnz, at)
            where[place[rank == k]] = index[rank == k]
            term = np.take(flat, where)
            total = term if total is None else total + term
        return total


class SpanReader:
    """Spans of vectors, written so that only their entries are computed.

    A span of what is computed entry by entry is computed of spans, down to where the
    entries come from: the lines of a run are one loop, and nothing lies in memory.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], Any] = {}

    def read(self, x: Any, begin: int, end: int) -> Any:
        """Return the entries from ``begin`` to ``end`` of a value made flat."""
        if not isinstance(x, Tensor):
            return np.reshape(x, (-1,))[begin:end]
        waiting = [(x, begin, end)]
        while waiting:
            one, a, b = waiting[-1]
            key = one.serial, a, b
            if key in self._known:
                waiting.pop()
                continue
            needs, write = _open_span(one, a, b)
            missing = [n for n in needs if (n[0].serial, *n[1:]) not in self._known]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            got = [self._known[n[0].serial, n[1], n[2]] for n in needs]
            self._known[key] = write(got)
        return self._known[x.serial, begin, end]


_Span = tuple[Tensor, int, int]


def _open_span(
    x: Tensor, begin: int, end: int
) -> tuple[list[_Span], Callable[[list[Any]], Any]]:
    """Return the spans that a span is computed of, and how."""
    size = prod(shape_of(x))
    op, inputs = x.op, x.inputs

    def cut(got: list[Any]) -> Any:
        return np.reshape(x, (-1,))[begin:end] if x.ndim != 1 else x[begin:end]

    if (begin, end) == (0, size) or not inputs or x._value is not None:
        return [], (lambda got: x) if (begin, end, x.ndim) == (0, size, 1) else cut
    if op.elementwise and not op.custom and not x.params:
        sizes = [prod(shape_of(i)) for i in inputs]
        if all(n in (1, size) for n in sizes) and all(
            n == 1 or shape_of(i) == shape_of(x)
            for i, n in zip(inputs, sizes, strict=True)
        ):
            needs = [
                (i, begin, end)
                for i, n in zip(inputs, sizes, strict=True)
                if n > 1 and isinstance(i, Tensor)
            ]

            def compute(got: list[Any]) -> Any:
                rest = iter(got)
                made = [
                    (np.reshape(i, ()) if shape_of(i) else i)
                    if n == 1
                    else next(rest)
                    if isinstance(i, Tensor)
                    else np.reshape(i, (-1,))[begin:end]
                    for i, n in zip(inputs, sizes, strict=True)
                ]
                return apply(op, tuple(made), {})

            return needs, compute
    if op is RESHAPE and x.params.get("order", "C") == "C":
        return [(inputs[0], begin, end)], lambda got: got[0]
    if op.joins == 0 and x.params["axis"] == 0:
        ends = np.cumsum([prod(shape_of(part)) for part in inputs])
        k = int(np.searchsorted(ends, begin, side="right"))
        if end <= ends[k]:
            part, start = inputs[k], int(ends[k - 1]) if k else 0
            a, b = begin - start, end - start
            if isinstance(part, Tensor):
                return [(part, a, b)], lambda got: got[0]
            return [], lambda got: np.reshape(part, (-1,))[a:b]
    if op is GETITEM and len(inputs) == 1 and len(x.params["key"]) == 1:
        (key,) = x.params["key"]
        if isinstance(key, tuple) and len(shape_of(inputs[0])) == 1:
            first, _, step = slice(*key).indices(shape_of(inputs[0])[0])
            if step == 1:
                span = (inputs[0], first + begin, first + end)
                return [span], lambda got: got[0]
    return [], cut
