"""Which second derivatives of an op, and which first ones at a point, are always zero.

A Hessian has an entry where an op mixes two of its operands, or an operand with itself;
a local pattern leaves out the partial derivatives that are 0 at the values at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import NodeFacts, leave_out
from workbench.autodiff.sparse.products import read_array
from workbench.autodiff.sparse.relations import Relation

#: Ops whose second derivatives are 0 wherever they have any, of real operands.
PIECEWISE_LINEAR = set(
    "absolute fabs maximum minimum fmax fmin where clip sign heaviside max min nanmax"
    " nanmin index_max index_min copysign fraction nextafter ldexp real imag"
    " conjugate".split()
)

#: Those among them that curve where their operand is complex: |z| and z / |z|.
CURVED_IF_COMPLEX = {"absolute", "sign"}


def has_curvature(node: NodeFacts, i: int, j: int) -> bool:
    """Return whether the second derivative by two operands can differ from 0.

    An op that says what the derivative by each operand reads has told it: what the
    partial derivative by one operand does not read is not mixed with it.
    """
    op = node.op
    if op.name in PIECEWISE_LINEAR and not op.custom:
        return node.is_complex and op.name in CURVED_IF_COMPLEX
    reads = op.partial_reads
    if reads is not None and not op.custom:
        return all(
            "y" in reads[a] or b in reads[a] if a < len(reads) else True
            for a, b in ((i, j), (j, i))
        )
    if op.reads is not None and not op.custom:
        return "y" in op.reads or (i in op.reads and j in op.reads)
    return True


def restrict_elementwise(
    node: Any, facts: NodeFacts, relations: Sequence[Relation | None]
) -> list[Relation | None]:
    """Return relations without the entries whose partial derivative is 0 at a point."""
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
    """Return the relation of a reduction to what counts at a point: what is largest."""
    found, value = relations[0], getattr(node.inputs[0], "_value", None)
    if found is None or found.members is None or value is None:
        return list(relations)
    result = node._value
    pulled = node.op.pull(1, np.ones_like(result), result, (value,), node.params)[0]
    lost = read_array(pulled).reshape(-1) == 0
    members = np.where(lost, found.members.dtype.type(-1), found.members)
    return [found._replace(members=members), *relations[1:]]
