"""Which second derivatives of an op, and which first ones at a point, are always zero.

A Hessian has an entry where an op mixes two of its operands, or an operand with itself;
a local pattern leaves out the partial derivatives that are 0 at the values at hand.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import NodeFacts, leave_out
from workbench.autodiff.sparse.products import read_array
from workbench.autodiff.sparse.relations import Relation
from workbench.core.op import OPS, Op


def has_curvature(node: NodeFacts, i: int, j: int) -> bool:
    """Return whether the second derivative by two operands can differ from 0.

    An op that says what the derivative by each operand reads has told it: what the
    partial derivative by one operand does not read is not mixed with it.
    """
    op = node.op
    if op.custom:
        return True
    reads = op.partial_reads
    if op.partials and not node.is_complex:  # the sign of a complex number is smooth
        reads = list_smooth_reads(op)
    if reads is not None:
        return all(
            "y" in reads[a] or b in reads[a] if a < len(reads) else True
            for a, b in ((i, j), (j, i))
        )
    if op.reads is not None:
        return "y" in op.reads or (i in op.reads and j in op.reads)
    return True


@cache
def list_smooth_reads(op: Op) -> list[set[int | str]]:
    """Return the variables of each partial derivative of an op, apart from jumps.

    These are the operands, by place, and ``"y"``, the result. What is only compared, or
    has a function without slope, decides which piece of the op it is.
    """
    count = len(op.partials)
    places: dict[str, int | str] = {"y": "y", "x": 0}
    places.update((f"x{i}", i) for i in range(count))
    names = [_find_smooth_names(ast.parse(p, mode="eval").body) for p in op.partials]
    return [{places[n] for n in found if n in places} for found in names]


def _find_smooth_names(tree: ast.AST) -> set[str]:
    if isinstance(tree, ast.Compare):
        return set()
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        called = OPS.get(tree.func.id)
        if called is not None and called.pull is None:
            return set()
    if isinstance(tree, ast.Name):
        return {tree.id}
    return set().union(*map(_find_smooth_names, ast.iter_child_nodes(tree)))


def restrict_elementwise(
    node: Any, facts: NodeFacts, relations: Sequence[Relation | None]
) -> list[Relation | None]:
    """Return relations without entries with a partial derivative of 0 at a point."""
    mask = sum(1 << i for i, r in enumerate(relations) if r is not None)
    values = [getattr(x, "_value", x) for x in node.inputs]
    if not mask or any(v is None for v in values):
        return list(relations)
    result = node._value
    ones = np.ones_like(result)
    with np.errstate(all="ignore"):
        pulled = node.op.pull(mask, ones, result, tuple(values), node.params)
    found: list[Relation | None] = []
    for relation, partial in zip(relations, pulled, strict=True):
        if relation is None or partial is None:
            found.append(None)
            continue
        zero = read_array(partial) == 0
        left = leave_out(relation, zero, facts.outputs[0]) if zero.any() else relation
        found.append(left)
    return found


def restrict_reduced(
    node: Any, relations: Sequence[Relation | None]
) -> list[Relation | None]:
    """Return a reduction's relation to the entries that count: the largest ones."""
    found, value = relations[0], getattr(node.inputs[0], "_value", None)
    if found is None or found.members is None or value is None:
        return list(relations)
    result = node._value
    pulled = node.op.pull(1, np.ones_like(result), result, (value,), node.params)[0]
    lost = read_array(pulled).reshape(-1) == 0
    members = np.where(lost, found.members.dtype.type(-1), found.members)
    return [found._replace(members=members), *relations[1:]]
