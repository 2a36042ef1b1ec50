"""Tangents of which only some entries are there: their places, and their numbers.

`SparseTangent` is to a program whose entries are wanted what `Dependence` is to one
whose pattern is: the same walk carries either, and the relations of the same rules say
where its places go. Beside them it has the entries: a list of parts, each of which has
its places as constants and its numbers as one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.autodiff.sparse.relations import Relation
from workbench.core.op import Op
from workbench.core.tensor import apply
from workbench.ops.define import shape_of

#: Places: rows, columns, and where an entry lies in a vector.
Integers = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Some entries of a sparse matrix: ``weight * entries[picks]`` at constant places.

    Attributes
    ----------
    weight
        A factor of all of them.
    entries : (m,) or ()
        A vector, or one number for all; None: 1.
    picks : (k,) or None
        Where in the vector each one lies; None: in order.
    rows, columns : (k,)
        Its places.
    """

    weight: complex
    entries: Any
    picks: Integers | None
    rows: Integers
    columns: Integers

    @property
    def is_number(self) -> bool:
        """True if one number is the same at all places."""
        return self.entries is None or not shape_of(self.entries)

    def choose(self, chosen: Any, rows: Integers) -> Part:
        """Return some of the entries, in other rows."""
        picks = self.picks
        if not self.is_number:
            picks = chosen if picks is None else picks[chosen]
        return self._replace(picks=picks, rows=rows, columns=self.columns[chosen])


class SparseTangent:
    """The derivative of each entry of a value by all inputs.

    Parameters
    ----------
    size
        The number of entries of the value.
    parts
        The matrices whose sum it is.
    """

    __slots__ = ("parts", "size")

    def __init__(self, size: int, parts: list[Part]) -> None:
        self.size = size
        self.parts = parts

    def compose(self, relation: Relation, size: int) -> SparseTangent:
        """Return the tangent of a result that sums the entries named by a relation."""
        if relation.is_identity:
            return self
        parts = [_relate_part(p, relation, self.size) for p in self.parts]
        return SparseTangent(size, [p for p in parts if len(p.rows)])

    def weigh(self, weigh: Callable[[complex], complex]) -> SparseTangent:
        """Return the tangent with other factors of its parts."""
        parts = [p._replace(weight=weigh(p.weight)) for p in self.parts]
        return SparseTangent(self.size, parts)

    def cast(self, dtype: np.dtype[Any]) -> SparseTangent:
        """Return the tangent with entries of a dtype."""
        parts = [
            p if p.entries is None else p._replace(entries=p.entries.astype(dtype))
            for p in self.parts
        ]
        return SparseTangent(self.size, parts)

    def combine(
        self, op: Op, place: int, other: Any, shape: tuple[int, ...]
    ) -> SparseTangent:
        """Return the tangent multiplied or divided by a value, entry by entry.

        ``place`` is its own among the two operands of the op, ``shape`` that of the
        value whose tangent it is.
        """
        places = _spread_places(shape_of(other), shape)
        first = place == 0 or op.pairs is not None
        write = _Combination(op, first)
        flat = flatten(other)
        parts = [_combine_part(write, p, flat, places) for p in self.parts]
        return SparseTangent(self.size, parts)

    def choose(
        self, condition: Any, first: bool, shape: tuple[int, ...], dtype: Any
    ) -> SparseTangent:
        """Return the tangent where a condition holds (or, not ``first``, where not)."""
        places = _spread_places(shape_of(condition), shape)
        flat = flatten(condition)
        parts = []
        for p in self.parts:
            met = p.rows if places is None else places[p.rows]
            kept = dtype(p.weight) if p.entries is None else pick(p.entries, p.picks)
            pair = (kept, dtype(0)) if first else (dtype(0), kept)
            chosen = np.where(pick(flat, met), *pair)
            weight = 1 if p.entries is None else p.weight
            parts.append(p._replace(weight=weight, entries=chosen, picks=None))
        return SparseTangent(self.size, parts)

    def unite(self, others: Sequence[SparseTangent]) -> SparseTangent:
        """Return the sum with others; parts with the same places become one."""
        parts = list(self.parts)
        for new in [p for other in others for p in other.parts]:
            for i, old in enumerate(parts):
                if _is_same(old.rows, new.rows) and _is_same(old.columns, new.columns):
                    parts[i] = _add_parts(old, new)
                    break
            else:
                parts.append(new)
        return SparseTangent(self.size, parts)


def make_units(size: int, start: int) -> SparseTangent:
    """Return the tangent of an input: entry i is 1 by input ``start + i`` alone."""
    columns = count_up(size) + start if start else count_up(size)
    return SparseTangent(size, [Part(1, None, None, count_up(size), columns)])


@lru_cache(maxsize=16)
def count_up(size: int) -> Integers:
    """Return 0, 1, 2, ...: the same array each time, which is told at a glance."""
    made = np.arange(size)
    made.flags.writeable = False
    return made


def _is_same(a: Integers, b: Integers) -> bool:
    return a is b or (len(a) == len(b) and np.array_equal(a, b))


def _relate_part(part: Part, relation: Relation, size: int) -> Part:
    """Return the part of a result that sums the entries named by a relation."""
    groups, members, height, matrix = relation
    if matrix is not None:
        listed = matrix.tocoo()
        times = listed.data.astype(np.intp)  # of a boolean matrix once each
        rows, columns = np.repeat(listed.row, times), np.repeat(listed.col, times)
        return _join(part, rows, columns, size)
    if members is not None:
        rows = members[part.rows].astype(np.int64)
        kept = np.flatnonzero(rows >= 0)
        if len(kept) < len(rows):
            part = part.choose(kept, rows[kept])
        else:
            part = part._replace(rows=rows)
        size = height
    if groups is None:
        return part
    results = np.flatnonzero(groups >= 0)
    return _join(part, results, groups[results], size)


def _join(part: Part, results: Integers, operands: Integers, size: int) -> Part:
    """Return a part with all of row ``operands[i]`` in row ``results[i]``."""
    counts = np.bincount(part.rows.astype(np.intp), minlength=size)
    needed = counts[operands]
    total = int(needed.sum())
    order = None
    if np.any(part.rows[1:] < part.rows[:-1]):
        order = np.argsort(part.rows, kind="stable")
    starts = np.cumsum(counts) - counts
    before = np.cumsum(needed) - needed
    chosen = np.arange(total) + np.repeat(starts[operands] - before, needed)
    if order is not None:
        chosen = order[chosen]
    return part.choose(chosen, np.repeat(results, needed).astype(np.int64))


def _spread_places(shape: tuple[int, ...], full: tuple[int, ...]) -> Integers | None:
    """Return which entry of an operand meets each entry of a result.

    None: the same one, or the one that there is.
    """
    if prod(shape) in (1, prod(full)):
        return None
    places = np.arange(prod(shape)).reshape(shape)
    return np.broadcast_to(places, full).reshape(-1)


class _Combination(NamedTuple):
    """An op of two operands that is linear in the entries of a tangent."""

    op: Op
    #: Whether they are the first operand.
    first: bool

    def write(self, entries: Any, other: Any) -> Any:
        pair = (entries, other) if self.first else (other, entries)
        return apply(self.op, pair, {})


def _combine_part(
    combination: _Combination, part: Part, other: Any, places: Integers | None
) -> Part:
    """Return a part multiplied or divided by a flat operand."""
    write = combination.write
    met = part.rows if places is None else places[part.rows]
    if part.entries is None:
        made = other if combination.op.pairs is not None else write(1, other)
        return part._replace(entries=made, picks=met if shape_of(made) else None)
    if not shape_of(other):
        return part._replace(entries=write(part.entries, other))
    if part.is_number:
        return part._replace(entries=write(part.entries, other), picks=met)
    have = part.picks
    if have is None:
        have = count_up(shape_of(part.entries)[0])
    if shape_of(part.entries) == shape_of(other) and _is_same(have, met):
        return part._replace(entries=write(part.entries, other))
    made = write(pick(part.entries, part.picks), pick(other, met))
    return part._replace(entries=made, picks=None)


def _add_parts(a: Part, b: Part) -> Part:
    """Return the sum of two parts with the same places."""
    if a.entries is None and b.entries is None:
        return a._replace(weight=a.weight + b.weight)
    if a.is_number or b.is_number:
        picks = b.picks if a.is_number else a.picks
        made = scale(a.entries, a.weight) + scale(b.entries, b.weight)
        return a._replace(weight=1, entries=made, picks=picks)
    same_picks = a.picks is b.picks or (
        a.picks is not None and b.picks is not None and _is_same(a.picks, b.picks)
    )
    if same_picks and shape_of(a.entries) == shape_of(b.entries):
        first, second, picks = a.entries, b.entries, a.picks
    else:
        first, second, picks = pick(a.entries, a.picks), pick(b.entries, b.picks), None
    if b.weight == -1:
        made = scale(first, a.weight) - second
    else:
        made = scale(first, a.weight) + scale(second, b.weight)
    return a._replace(weight=1, entries=made, picks=picks)


def scale(entries: Any, weight: complex) -> Any:
    """Return entries times a number; those of None are 1."""
    if entries is None:
        return weight
    if weight == 1:
        return entries
    return -entries if weight == -1 else entries * weight


def pick(entries: Any, picks: Integers | None) -> Any:
    """Return some entries of a vector."""
    if picks is None or not shape_of(entries):
        return entries
    if len(picks) and np.all(picks[1:] - picks[:-1] == 1):
        return entries[int(picks[0]) : int(picks[-1]) + 1]
    return np.take(entries, picks)


def flatten(x: Any) -> Any:
    """Return a value as a vector, or as a number if there is one entry."""
    shape = shape_of(x)
    if len(shape) == 1 and shape[0] != 1:
        return x
    return np.reshape(x, () if prod(shape) == 1 else (-1,)) if shape else x
