"""Which entries users' ops read: `Op.pattern` as relations, of one or many examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import NodeFacts, Relations
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.relations import Relation, count_up
from workbench.core.types import Spec
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


def relate_examples(
    node: NodeFacts, batched: Sequence[bool], example: Sequence[Spec], relate: Any
) -> list[Relations] | None:
    """Return the relations of many examples, each of which reads its own entries.

    Parameters
    ----------
    node
        The node that computes all of them.
    batched
        For each input whether each example has its own.
    example
        The inputs of one example.
    relate
        Returns the relations of a node of one example.
    """
    count = node.outputs[0][0]
    one = NodeFacts(
        node.op, node.params, [s.shape for s in example],
        [shape[1:] for shape in node.outputs], node.varies,
        [None if b else v for b, v in zip(batched, node.values, strict=True)],
        is_complex=node.is_complex, specs=example, find_inside=node.find_inside,
        relate_inside=node.relate_inside,
    )  # fmt: skip
    rows = relate(one)
    node.loose, node.is_given = one.loose, one.is_given
    if node.loose is not None:
        node.loose = f"of each example {node.loose}"
    return [
        [
            None if r is None else _repeat(r, count, math.prod(s.shape), size, own)
            for r, s, own in zip(row, example, batched, strict=True)
        ]
        for row, size in zip(rows, map(math.prod, one.outputs), strict=True)
    ]


def _repeat(
    relation: Relation, count: int, operand: int, result: int, own: bool
) -> Any:
    """Return the relation of many examples; ``own``: each has an operand of its own."""
    from scipy.sparse import eye_array, kron

    groups, members, height, matrix = relation
    groups = count_up(result) if groups is None else groups
    if not own:
        return relation._replace(groups=np.tile(groups, count))
    if matrix is not None:
        many = kron(eye_array(count, dtype=bool), matrix, format="csr").astype(bool)
        return Relation(_shift(groups, count, matrix.shape[0]), matrix=many)
    step = height if members is not None else operand
    return Relation(
        _shift(groups, count, step),
        None if members is None else _shift(members, count, height),
        count * height,
    )


def _shift(places: Any, count: int, step: int) -> Any:
    """Return places for each example, those of the next one ``step`` further on."""
    steps = np.arange(count)[:, None] * step
    return np.where(places >= 0, places + steps, -1).reshape(-1).astype(np.int32)
