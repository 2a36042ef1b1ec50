"""Sparse Jacobians entry by entry: forward mode with sparse matrices as tangents.

Where a program is elementwise but for ops that move entries and sum them, the entries
of its Jacobian are few products of partial derivatives, and which ones follows from
the structure alone. So forward mode runs once, without colours: the walk that finds
patterns goes through the program of the tangents, and carries entries beside places.
At the end they are written in the order of the pattern (`assembly.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.linear_map import NO_RULE, LinearMap, is_varying
from workbench.autodiff.sparse import rules
from workbench.autodiff.sparse.assembly import Assembly
from workbench.autodiff.sparse.curvature import Value
from workbench.autodiff.sparse.node_facts import NodeFacts
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.propagation import Constant, Known, Propagation
from workbench.autodiff.sparse.tangents import SparseTangent, make_units
from workbench.core.dims import has_dim
from workbench.core.tensor import Tensor
from workbench.core.trace import make_leaf_like
from workbench.core.types import is_weak, spec_of
from workbench.errors import UnknownLengthError, WorkbenchError
from workbench.ops.define import shape_of

#: A tangent has at most so many parts, and so many entries for each of the pattern.
MOST_PARTS, MOST_ENTRIES = 64, 16


class NotAccumulatedError(WorkbenchError):
    """An op with a derivative that is no sum of a few entries times numbers."""


class EntryPropagation(Propagation):
    """The walk that finds patterns, through a program of tangents, with entries.

    What it knows of a value is a `SparseTangent`, and a constant is what it is in the
    program: a Tensor that may have no value yet.

    Parameters
    ----------
    seeds
        The inputs: the tangents that the program begins with.
    starts
        The first column of each.
    most
        The most entries of a tangent.

    Raises
    ------
    NotAccumulatedError
        If an op is neither linear entry by entry nor a move or sum of entries.
    """

    def __init__(
        self, seeds: Sequence[Tensor], starts: Sequence[int], most: int
    ) -> None:
        super().__init__(seeds)
        self.most = most
        for x, start in zip(seeds, starts, strict=True):
            value = self.known[x.serial]
            value.dependence = make_units(value.dependence.size, start)

    def _read_constant(self, x: Any) -> Constant:
        return Constant(x)

    def _visit_node(self, node: Tensor, known: dict[int, Known]) -> Known:
        operands = [self._look_up(x, known) for x in node.operands]
        if all(isinstance(x, Constant) for x in operands):
            return Constant(node)
        op = node.op
        if op.custom or isinstance(spec_of(node), tuple):
            raise NotAccumulatedError(op.name)
        if op.unfold is not None and not rules.sums_entries(op):
            made = self._unfold(node, operands, op.unfold)
            if made is not None:
                return made
        return self._apply_rule(node, operands)

    def _apply_rule(self, node: Tensor, operands: Sequence[Known]) -> Known:
        facts = self._describe(node, operands)
        if not node.op.elementwise:
            made = _sum_entries(facts, operands)
        elif node.op.chooses:
            made = _choose_entries(node, facts, operands)
        else:
            made = _combine_entries(node, facts, operands)
        count = sum(len(p.rows) for p in made.parts)
        if len(made.parts) > MOST_PARTS or count > self.most:
            raise NotAccumulatedError(node.op.name)
        return Value(facts.outputs[0], made)


def _sum_entries(facts: NodeFacts, operands: Sequence[Known]) -> SparseTangent:
    """Move entries, or sum them: the relations of the op say which."""
    if not rules.sums_entries(facts.op, facts.params):
        raise NotAccumulatedError(facts.op.name)
    (found,) = rules.relate(facts)
    if facts.loose:
        raise NotAccumulatedError(facts.op.name)
    return _unite(
        [
            x.dependence.compose(relation, facts.size)
            for x, relation in zip(operands, found, strict=True)
            if isinstance(x, Value) and relation is not None
        ],
        facts.size,
    )


def _unite(tangents: Sequence[SparseTangent], size: int) -> SparseTangent:
    if not tangents:
        return SparseTangent(size, [])
    return tangents[0].unite(tangents[1:])


def _combine_entries(
    node: Tensor, facts: NodeFacts, operands: Sequence[Known]
) -> SparseTangent:
    """Run an elementwise op that is linear in the tangents among its operands."""
    op = node.op
    made: list[SparseTangent] = []
    for i, x in enumerate(operands):
        if not isinstance(x, Value):
            continue
        if not rules.is_linear_in(op, i, facts.varies):
            raise NotAccumulatedError(op.name)
        relation = rules.relate_broadcast(x.shape, facts)
        tangent = x.dependence.compose(relation, facts.size)
        if i in op.carries and len(operands) == 2:
            return _combine_pair(facts, i, tangent, operands[1 - i].value)
        made.append(_weigh_operand(node, i, tangent, operands))
    return _unite(made, facts.size)


def _combine_pair(
    facts: NodeFacts, place: int, tangent: SparseTangent, other: Any
) -> SparseTangent:
    """Combine a tangent with a value; with a Python number its parts are weighed."""
    op = facts.op
    if not is_weak(other) or isinstance(other, Tensor) or other == 0:
        return tangent.combine(op, place, other, facts.outputs[0])

    def weigh(weight: complex) -> complex:
        made: Any = op.compute(*((weight, other) if place == 0 else (other, weight)))
        number: complex = getattr(made, "item", lambda: made)()
        return number

    return tangent.weigh(weigh)


def _is_zero(x: Known) -> bool:
    return isinstance(x, Constant) and is_weak(x.value) and bool(x.value == 0)


def _weigh_operand(
    node: Tensor, place: int, tangent: SparseTangent, operands: Sequence[Known]
) -> SparseTangent:
    """Return an operand's term of a sum: its tangent times the op's value at 1.

    Other operands are tangents too, or 0. Where its dtype changes, it is cast.
    """
    if not all(isinstance(x, Value) or _is_zero(x) for x in operands):
        raise NotAccumulatedError(node.op.name)
    units = [float(i == place) for i in range(len(operands))]
    kind = np.dtype(spec_of(node).dtype)
    given = np.dtype(spec_of(node.inputs[place]).dtype)
    weight = complex(node.op.compute(*units, **node.params))
    if kind.kind != given.kind or (
        kind.kind == "c"
        and node.op.compute(*[1j * u for u in units], **node.params) != 1j * weight
    ):
        raise NotAccumulatedError(node.op.name)
    if weight != 1:
        factor = weight if weight.imag else weight.real
        tangent = tangent.weigh(lambda w: w * factor)
    return tangent if kind == given else tangent.cast(kind)


def _choose_entries(
    node: Tensor, facts: NodeFacts, operands: Sequence[Known]
) -> SparseTangent:
    """Take the entries of one tangent where a condition holds, else of the other."""
    condition, *given = operands
    if isinstance(condition, Value):
        raise NotAccumulatedError(node.op.name)
    (shape,), dtype = facts.outputs, np.dtype(spec_of(node).dtype).type
    made = []
    for x, first in zip(given, (True, False), strict=True):
        if isinstance(x, Value):
            relation = rules.relate_broadcast(x.shape, facts)
            tangent = x.dependence.compose(relation, facts.size)
            made.append(tangent.choose(condition.value, first, shape, dtype))
        elif not _is_zero(x):
            raise NotAccumulatedError(node.op.name)
    return _unite(made, facts.size)


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
    if any(has_dim(tuple(shape_of(x))) for x in linear.wrt if is_varying(x)):
        return None
    seeds = [make_leaf_like(x) if is_varying(x) else None for x in linear.wrt]
    given = [
        (x, start)
        for x, start in zip(seeds, linear.column_starts, strict=False)
        if x is not None
    ]
    ends = [y if is_varying(y) else None for y in linear.outputs]
    most = MOST_ENTRIES * pattern.nnz + 1000
    try:
        tangents = linear.push(seeds, ends)
        with np.errstate(all="ignore"):  # the program itself has warned already
            walk = EntryPropagation([x for x, _ in given], [n for _, n in given], most)
            made = walk.visit(tangents)
    except (NotAccumulatedError, UnknownLengthError, *NO_RULE):
        return None
    parts = [
        p._replace(rows=p.rows + start)
        for y, start in zip(made, linear.row_starts, strict=False)
        if isinstance(y, Value)
        for p in y.dependence.parts
    ]
    like = linear.wrt[0]._value
    with np.errstate(all="ignore"):
        return Assembly(parts, pattern, format, linear.dtype, like).write()
