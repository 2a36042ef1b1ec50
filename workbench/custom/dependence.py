"""Which entries users' ops read: `Op.pattern` as relations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from workbench.autodiff.sparse.node_facts import NodeFacts, Relations
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.relations import Relation
from workbench.errors import ShapeError, UsageError, WorkbenchError

Declare = Callable[..., Any]


def read_declaration(name: str, declare: Declare, node: NodeFacts) -> list[Relations]:
    """Return the relations of a user's `pattern`: for each output, of each input.

    Raises
    ------
    UsageError
        If there are not as many patterns as inputs, or one is none.
    ShapeError
        If one has another shape than the arrays.
    """
    node.is_given = True
    made = declare(*node.specs)
    several = len(node.outputs) > 1
    rows = made if several else [made]
    what = f"{name}: pattern returned {_describe(made)}"
    if several and (
        not isinstance(made, (tuple, list)) or len(made) != len(node.outputs)
    ):
        raise UsageError(
            f"{what}. It has {len(node.outputs)} outputs: return a tuple of so many, in"
            " each one pattern for each input."
        )
    found = []
    for row, shape in zip(rows, node.outputs, strict=True):
        one = not isinstance(row, (tuple, list))
        parts = [row] if one else list(row)
        if len(parts) != len(node.shapes):
            raise UsageError(
                f"{what}. It has {len(node.shapes)} inputs: return a list with one"
                " pattern for each of them, None where the output does not read it."
            )
        found.append([
            _relate(name, i, part, (math.prod(shape), math.prod(given)))
            for i, (part, given) in enumerate(zip(parts, node.shapes, strict=True))
        ])  # fmt: skip
    return [
        [x if varies else None for x, varies in zip(row, node.varies, strict=True)]
        for row in found
    ]


def _describe(made: Any) -> str:
    if isinstance(made, (tuple, list)):
        return f"{len(made)} of {type(made).__name__}"
    return type(made).__name__


def _relate(
    name: str, place: int, given: Any, shape: tuple[int, int]
) -> Relation | None:
    if given is None:
        return None
    try:
        pattern = SparsityPattern.from_scipy(given)
    except (WorkbenchError, TypeError, ValueError) as error:
        raise UsageError(
            f"{name}: pattern returned {type(given).__name__} for input {place}, which"
            f" is no pattern: {error} Return a matrix of 0 and 1, a sparse array or a"
            " wb.SparsityPattern."
        ) from error
    if pattern.shape != shape:
        raise ShapeError(
            f"{name}: the pattern for input {place} is of shape {pattern.shape}, and"
            f" the output has {shape[0]} entries (rows), the input {shape[1]}"
            f" (columns). Return one of shape {shape}."
        )
    return Relation(matrix=pattern.to_scipy("csr"))
