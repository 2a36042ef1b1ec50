"""Sparse Jacobians entry by entry: forward mode whose tangents are sparse matrices.

Where a program is elementwise but for ops that move entries and sum them, the entries
of its Jacobian are few products of partial derivatives, and which ones follows from
the structure alone. So forward mode runs once, without colours: a tangent is a list of
parts, each of which has its places as constants and its entries as one vector. At the
end the entries are written in the order of the pattern: lines of a matrix that look
alike, as those of a stencil do, are computed side by side, so that compiled code is
one loop which writes the nonzeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.autodiff.linear_map import NO_RULE, LinearMap, is_varying
from workbench.autodiff.sparse import rules
from workbench.autodiff.sparse.node_facts import NodeFacts
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.relations import Relation
from workbench.core.dims import has_dim
from workbench.core.graph import Graph
from workbench.core.op import Op, declare
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import make_leaf_like
from workbench.core.types import is_weak, spec_of
from workbench.errors import WorkbenchError
from workbench.ops.define import shape_of
from workbench.ops.indexing import GETITEM

#: Places: rows, columns, and where an entry lies in a vector.
Integers = npt.NDArray[np.int64]

#: A tangent has at most so many parts, and so many entries for each of the pattern.
MOST_PARTS, MOST_ENTRIES = 64, 16
#: The most pieces of alike lines; with more, entries are picked one by one.
MOST_RUNS = 24
#: The most terms whose sum is one entry.
MOST_TERMS = 8
#: From this length on, a line that is like no other is cut into pieces of its own.
LONG_LINE = 8


RESHAPE = declare("reshape")


class NotAccumulatedError(WorkbenchError):
    """An op whose derivative is no sum of a few entries, each times a number."""


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
        """Whether one number is the same at all places."""
        return self.entries is None or not shape_of(self.entries)

    def choose(self, chosen: Any, rows: Integers) -> Part:
        """Return some of the entries, in other rows."""
        picks = self.picks
        if not self.is_number:
            picks = chosen if picks is None else picks[chosen]
        return self._replace(picks=picks, rows=rows, columns=self.columns[chosen])


class SparseTangent:
    """The derivative of each entry of a value by all inputs."""

    __slots__ = ("parts", "shape")

    def __init__(self, shape: tuple[int, ...], parts: list[Part]) -> None:
        self.shape = shape
        self.parts = parts

    @property
    def size(self) -> int:
        """The number of entries of the value."""
        return math.prod(self.shape)

    def relate(self, relation: Relation, shape: tuple[int, ...]) -> SparseTangent:
        """Return the tangent of a result each of whose entries is a sum of some."""
        parts = [_relate_part(p, relation, self.size) for p in self.parts]
        return SparseTangent(shape, [p for p in parts if len(p.rows)])

    def broadcast(self, shape: tuple[int, ...]) -> SparseTangent:
        """Return the tangent of the value repeated, as NumPy repeats it."""
        if self.shape == shape:
            return self
        if self.size == math.prod(shape):
            return SparseTangent(shape, self.parts)
        places = np.arange(self.size).reshape(self.shape)
        groups = np.broadcast_to(places, shape).reshape(-1)
        return self.relate(Relation(groups), shape)

    def scale(self, weight: complex) -> SparseTangent:
        """Return the tangent times a number."""
        parts = [p._replace(weight=p.weight * weight) for p in self.parts]
        return SparseTangent(self.shape, parts)

    def weigh(self, weigh: Callable[[complex], complex]) -> SparseTangent:
        """Return the tangent with other factors of its parts."""
        parts = [p._replace(weight=weigh(p.weight)) for p in self.parts]
        return SparseTangent(self.shape, parts)

    def combine(self, op: Op, place: int, other: Any) -> SparseTangent:
        """Return the tangent times a value, or divided by it, entry by entry.

        ``place`` is its own among the two operands of the op.
        """
        places = _spread_places(shape_of(other), self.shape)
        first = place == 0 or op.pairs is not None
        write = _Combination(op, first)
        flat = flatten(other)
        parts = [_combine_part(write, p, flat, places) for p in self.parts]
        return SparseTangent(self.shape, parts)

    def add(self, other: SparseTangent) -> SparseTangent:
        """Return the sum; parts with the same places become one."""
        parts = list(self.parts)
        for new in other.parts:
            for i, old in enumerate(parts):
                if _is_same(old.rows, new.rows) and _is_same(old.columns, new.columns):
                    parts[i] = _add_parts(old, new)
                    break
            else:
                parts.append(new)
        return SparseTangent(self.shape, parts)


@lru_cache(maxsize=16)
def _count_up(size: int) -> Integers:
    """Return 0, 1, 2, ...: the same array each time, which is told at a glance."""
    made = np.arange(size)
    made.flags.writeable = False
    return made


def _is_same(a: Integers, b: Integers) -> bool:
    return a is b or (len(a) == len(b) and np.array_equal(a, b))


def _relate_part(part: Part, relation: Relation, size: int) -> Part:
    """Return what a sum of entries makes of a part."""
    groups, members, height, matrix = relation
    if matrix is not None:
        listed = matrix.tocoo()
        return _join(part, listed.row, listed.col, size)
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
    """Return a part whose result ``results[i]`` has all of row ``operands[i]``."""
    counts = np.bincount(part.rows, minlength=size)
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
    if math.prod(shape) in (1, math.prod(full)):
        return None
    places = np.arange(math.prod(shape)).reshape(shape)
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
    """Return a part times a flat operand, or divided by it."""
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
        have = _count_up(shape_of(part.entries)[0])
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
    """Return a value as a vector, or as a number if it has one entry."""
    shape = shape_of(x)
    if len(shape) == 1 and shape[0] != 1:
        return x
    return np.reshape(x, () if math.prod(shape) == 1 else (-1,)) if shape else x


# Ops of tangents

Step = Callable[[Tensor, Sequence[Any], tuple[int, ...]], SparseTangent]


def _combine_entries(
    node: Tensor, inputs: Sequence[Any], shape: tuple[int, ...]
) -> SparseTangent:
    """Run an elementwise op that is linear in the tangents among its operands."""
    op, made = node.op, None
    moving = [isinstance(x, SparseTangent) for x in inputs]
    for i, x in enumerate(inputs):
        if not moving[i]:
            continue
        if not rules.is_linear_in(op, i, moving):
            raise NotAccumulatedError(op.name)
        tangent: SparseTangent = x.broadcast(shape)
        if i in op.carries and len(inputs) == 2:
            return _combine_pair(op, i, tangent, inputs[1 - i])
        tangent = _weigh_operand(node, i, tangent, inputs)
        made = tangent if made is None else made.add(tangent)
    assert made is not None
    return made


def _combine_pair(
    op: Op, place: int, tangent: SparseTangent, other: Any
) -> SparseTangent:
    """Combine a tangent with a value; with a Python number its parts are weighed."""
    if not is_weak(other) or isinstance(other, Tensor) or other == 0:
        return tangent.combine(op, place, other)

    def weigh(weight: complex) -> complex:
        made: Any = op.compute(*((weight, other) if place == 0 else (other, weight)))
        number: complex = getattr(made, "item", lambda: made)()
        return number

    return tangent.weigh(weigh)


def _weigh_operand(
    node: Tensor, place: int, tangent: SparseTangent, inputs: Sequence[Any]
) -> SparseTangent:
    """Return what a sum has of an operand: it, times what the op makes of 1.

    Other operands are tangents too, or 0. Where its dtype changes, it is cast.
    """
    others = [x for x in inputs if not isinstance(x, SparseTangent)]
    if not all(is_weak(x) and x == 0 for x in others):
        raise NotAccumulatedError(node.op.name)
    units = [float(i == place) for i in range(len(inputs))]
    kind, given = (
        np.dtype(spec_of(node).dtype),
        np.dtype(spec_of(node.inputs[place]).dtype),
    )
    weight = complex(node.op.compute(*units, **node.params))
    if kind.kind != given.kind or (
        kind.kind == "c"
        and node.op.compute(*[1j * u for u in units], **node.params) != 1j * weight
    ):
        raise NotAccumulatedError(node.op.name)
    if weight != 1:
        tangent = tangent.scale(weight if weight.imag else weight.real)
    if kind == given:
        return tangent
    parts = [
        p if p.entries is None else p._replace(entries=p.entries.astype(kind))
        for p in tangent.parts
    ]
    return SparseTangent(tangent.shape, parts)


def _choose(
    node: Tensor, inputs: Sequence[Any], shape: tuple[int, ...]
) -> SparseTangent:
    """Take the entries of one tangent where a condition holds, else of the other."""
    condition, *given = inputs
    if isinstance(condition, SparseTangent):
        raise NotAccumulatedError(node.op.name)
    places = _spread_places(shape_of(condition), shape)
    flat = flatten(condition)
    dtype = np.dtype(spec_of(node).dtype).type
    made = None
    for x, first in zip(given, (True, False), strict=True):
        if not isinstance(x, SparseTangent):
            if is_weak(x) and x == 0:
                continue
            raise NotAccumulatedError(node.op.name)
        parts = []
        for p in x.broadcast(shape).parts:
            met = p.rows if places is None else places[p.rows]
            kept = dtype(p.weight) if p.entries is None else pick(p.entries, p.picks)
            pair = (kept, dtype(0)) if first else (dtype(0), kept)
            chosen = np.where(pick(flat, met), *pair)
            weight = 1 if p.entries is None else p.weight
            parts.append(p._replace(weight=weight, entries=chosen, picks=None))
        part = SparseTangent(shape, parts)
        made = part if made is None else made.add(part)
    assert made is not None
    return made


def _sum_places(
    node: Tensor, inputs: Sequence[Any], shape: tuple[int, ...]
) -> SparseTangent:
    """Move entries, or sum them: the relation of the op says which."""
    facts = _list_facts(node, inputs, shape)
    (found,) = rules.relate(facts)
    if facts.loose or not set(node.params).isdisjoint(("where", "initial")):
        raise NotAccumulatedError(node.op.name)
    made = None
    for x, relation in zip(inputs, found, strict=True):
        if isinstance(x, SparseTangent) and relation is not None:
            part = x.relate(relation, shape)
            made = part if made is None else made.add(part)
    return SparseTangent(shape, []) if made is None else made


def _add_at(
    node: Tensor, inputs: Sequence[Any], shape: tuple[int, ...]
) -> SparseTangent:
    """Add entries at an index, as often as it names a place."""
    facts = _list_facts(node, inputs, shape)
    if not facts.is_known(range(2, len(inputs))):
        raise NotAccumulatedError(node.op.name)
    kept, given = inputs[:2]
    made = kept if isinstance(kept, SparseTangent) else SparseTangent(shape, [])
    if isinstance(given, SparseTangent):
        target = rules.find_target(facts)
        sums = Relation(None, target.reshape(-1), math.prod(shape))
        made = made.add(given.broadcast(target.shape).relate(sums, shape))
    return made


def record_body(node: Tensor, inputs: Sequence[Any]) -> Graph | None:
    """Return the ops that a node is made of, of its tangents; None: it has no body.

    One that moves entries needs none.
    """
    op = node.op
    if op.unfold is None or op.custom or op.carries == (0,) or op.pattern in MOVING:
        return None
    given = [
        make_leaf_like(spec_of(x)) if isinstance(t, SparseTangent) else t
        for x, t in zip(node.inputs, inputs, strict=True)
    ]
    leaves = [
        x for x, t in zip(given, inputs, strict=True) if isinstance(t, SparseTangent)
    ]
    outputs = op.unfold(given, node.params)
    return None if outputs is None else Graph(leaves, outputs)


def _list_facts(
    node: Tensor, inputs: Sequence[Any], shape: tuple[int, ...]
) -> NodeFacts:
    """Return what the pattern of an op depends on."""
    known = [
        None if isinstance(x, SparseTangent) or getattr(x, "_value", x) is None
        else getattr(x, "_value", x)
        for x in inputs
    ]  # fmt: skip
    return NodeFacts(
        node.op, node.params,
        [x.shape if isinstance(x, SparseTangent) else shape_of(x) for x in inputs],
        [shape], [isinstance(x, SparseTangent) for x in inputs], known,
    )  # fmt: skip


#: What rows say (`Op.pattern`) of ops that move entries, or add some to others.
MOVING = {"moved", "indexed", "scattered", "replaced"}
STEPS: dict[Any, Step] = {
    **dict.fromkeys(MOVING, _sum_places),
    "added": _add_at,
}


def find_step(op: Op) -> Step | None:
    """Return how a tangent goes through an op; None where its row does not tell."""
    if op.custom:
        return None
    if op.elementwise:
        return _choose if op.chooses else _combine_entries
    if op.joins is not None or (op.pattern is None and op.carries == (0,)):
        return _sum_places
    if op.kind == "reduction" and op.combines is np.add:
        return _sum_places
    return STEPS.get(op.pattern) if rules.is_linear_in(op, 0) else None


# All of it


def accumulate(linear: LinearMap, pattern: SparsityPattern, format: str) -> Any | None:
    """Return the entries of a Jacobian at the places of a pattern, in one sweep.

    Parameters
    ----------
    linear
        The derivative.
    pattern
        The places; an entry that lies elsewhere is left out.
    format
        In which order: by rows (``"csr"``, ``"coo"``) or by columns (``"csc"``).

    Returns
    -------
    None where a tangent goes through an op whose row does not tell how, or would have
    too many entries.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    >>> linear = LinearMap(graph.outputs, graph.leaves)
    >>> pattern = wb.SparsityPattern.from_scipy(np.eye(2, 3) + np.eye(2, 3, k=1))
    >>> accumulate(linear, pattern, "csr")
    array([2., 1., 3., 2.])
    """
    kinds = {x.dtype.kind for x in (*linear.outputs, *linear.wrt) if is_varying(x)}
    if kinds not in ({"f"}, {"c"}) or not pattern.nnz:
        return None
    most = MOST_ENTRIES * pattern.nnz + 1000
    moving = [x if is_varying(x) else None for x in linear.wrt]
    seeds: list[Any] = [None if x is None else make_leaf_like(x) for x in moving]
    leaves, values = [], []
    for seed, x, start in zip(seeds, moving, linear.column_starts, strict=False):
        if x is None:
            continue
        if has_dim(tuple(shape_of(x))):
            return None
        size = math.prod(shape_of(x))
        columns = _count_up(size) + start if start else _count_up(size)
        leaves.append(seed)
        part = Part(1, None, None, _count_up(size), columns)
        values.append(SparseTangent(tuple(shape_of(x)), [part]))

    def run_step(node: Tensor, inputs: tuple[Any, ...]) -> Any:
        if not any(isinstance(x, SparseTangent) for x in inputs):
            return apply(node.op, inputs, node.params)
        spec: Any = node.spec
        if isinstance(spec, tuple):
            raise NotAccumulatedError(node.op.name)
        if has_dim(tuple(spec.shape)) or any(n is None for n in spec.shape):
            raise NotAccumulatedError(node.op.name)
        body = None if node.op.custom else record_body(node, inputs)
        if body is not None:
            return body.run(
                [x for x in inputs if isinstance(x, SparseTangent)], run_step
            )[0]
        step = find_step(node.op)
        if step is None:
            raise NotAccumulatedError(node.op.name)
        made = step(node, inputs, tuple(spec.shape))
        count = sum(len(p.rows) for p in made.parts)
        if len(made.parts) > MOST_PARTS or count > most:
            raise NotAccumulatedError(node.op.name)
        return made

    ends = [y if is_varying(y) else None for y in linear.outputs]
    try:
        tangents = linear.push(seeds, ends)
        found = [t for t in tangents if t is not None]
        with np.errstate(all="ignore"):  # the program itself has warned already
            made = iter(Graph(leaves, found).run(values, run_step))
    except (NotAccumulatedError, *NO_RULE):
        return None
    parts = []
    for t, start in zip(tangents, linear.row_starts, strict=False):
        tangent = None if t is None else next(made)
        if isinstance(tangent, SparseTangent):
            parts += [p._replace(rows=p.rows + start) for p in tangent.parts]
    like = linear.wrt[0]._value
    with np.errstate(all="ignore"):
        return _Assembly(parts, pattern, format, linear.dtype, like).write()


# From parts to the entries of the pattern


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


class _Assembly:
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
                own = _count_up(len(line)) if part.picks is None else part.picks
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
            most = int(np.bincount(self.terms.place).max())
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
    size = math.prod(shape_of(x))
    op, inputs = x.op, x.inputs

    def cut(got: list[Any]) -> Any:
        return np.reshape(x, (-1,))[begin:end] if x.ndim != 1 else x[begin:end]

    if (begin, end) == (0, size) or not inputs or x._value is not None:
        return [], (lambda got: x) if (begin, end, x.ndim) == (0, size, 1) else cut
    if op.elementwise and not op.custom and not x.params:
        sizes = [math.prod(shape_of(i)) for i in inputs]
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
        ends = np.cumsum([math.prod(shape_of(part)) for part in inputs])
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
