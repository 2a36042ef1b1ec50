"""The facts of a node that rules of patterns read, and the relations they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.relations import (
    Dependence,
    Positions,
    Relation,
    count_up,
)
from workbench.core.op import Op

Shape = tuple[int, ...]
Relations = list[Relation | None]
#: See `NodeFacts.find_inside`; the matrix of each chosen operand, in CSR.
InsideFinder = Callable[
    [Callable[[Sequence[Any]], Sequence[Any]], Sequence[Any], Sequence[int]],
    "list[Any] | None",
]

#: See `NodeFacts.relate_inside`.
InsideRelater = Callable[
    [Callable[..., Any], "NodeFacts", int, int], "Relations | None"
]


class NodeFacts:
    """A node in the form that rules read: an op, shapes of operands, constant values.

    Attributes
    ----------
    op, params
        The op and its settings.
    shapes
        The shapes of the operands; None for a tuple.
    outputs
        The shapes of the outputs: one, or several.
    varies
        Which operands depend on what is differentiated by.
    values
        The value of each operand where it is constant and known, else None; at a
        point those of all operands.
    is_complex
        Whether an operand holds complex numbers.
    specs
        The specs of the operands; of a tuple those of its parts.
    dependences
        What each operand that varies depends on.
    find_inside
        ``find_inside(run, operands, chosen)``, which entries of some operands the
        outputs of a program that the op holds depend on; None: it cannot be recorded
        without values.
    relate_inside
        ``relate_inside(body, node, i, most)``, for each output of a body (see
        `Reading`) the `Relation` by operand i, None where there is none; None in place
        of all: it cannot be recorded, or has more than ``most`` places to be listed.
    is_given
        Whether a user has said which entries the op reads.
    loose
        Why the rule has taken more places than there may be, if it has.
    """

    def __init__(
        self,
        op: Op,
        params: dict[str, Any],
        shapes: Sequence[Any],
        outputs: Sequence[Shape],
        varies: Sequence[bool],
        values: Sequence[Any],
        *,
        is_complex: bool = False,
        specs: Sequence[Any] = (),
        dependences: Sequence[Dependence | None] = (),
        find_inside: InsideFinder | None = None,
        relate_inside: InsideRelater | None = None,
    ) -> None:
        self.op = op
        self.params = params
        self.shapes = shapes
        self.outputs = outputs
        self.varies = varies
        self.values = values
        self.is_complex = is_complex
        self.specs = specs
        self.dependences = dependences
        self.find_inside = find_inside
        self.relate_inside = relate_inside
        self.is_given = False
        self.loose: str | None = None

    @property
    def size(self) -> int:
        """The number of entries of the (first) output."""
        return math.prod(self.outputs[0])

    def is_known(self, places: Sequence[int]) -> bool:
        """Return whether the values of these operands are known."""
        return all(self.values[i] is not None for i in places)

    def has_fixed_entries(self, i: int) -> bool:
        """Return whether some entries of an operand depend on no input."""
        found = self.dependences[i] if i < len(self.dependences) else None
        return found is not None and not found.reaches_all()

    def name_operands(self) -> list[Any]:
        """Return the value of each operand if known, else its spec."""
        return [
            spec if varies or value is None else value
            for spec, varies, value in zip(
                self.specs, self.varies, self.values, strict=True
            )
        ]

    def fill(self, relation: Relation | None) -> list[Relation | None]:
        """Return a relation by the first operand alone."""
        return [relation, *[None] * (len(self.shapes) - 1)]


def has_own_rule(op: Op) -> bool:
    """Return whether a rule of the user's gives the derivatives of an op.

    What the op computes then tells nothing of where they are zero.
    """
    return op.custom and (op.has_own_rule or op.graphs is None)


def relate_dense(node: NodeFacts, output: int = 0) -> list[Relation | None]:
    """Let each entry of the result depend on all entries of each operand."""
    return [
        None if shape is None or not varies else full_relation(math.prod(shape), size)
        for shape, varies in zip(node.shapes, node.varies, strict=True)
        for size in [math.prod(node.outputs[output])]
    ]


def full_relation(operand: int, result: int) -> Relation:
    """Return the relation of a dense block."""
    return Relation(_zeros(result), _zeros(operand), 1)


def _zeros(size: int) -> Positions:
    return np.zeros(size, np.int32)


def number_entries(shape: Shape, start: int = 0) -> Positions:
    """Return the position of each entry of an array, in its shape."""
    return (count_up(math.prod(shape)) + np.int32(start)).reshape(shape)


def number_groups(shape: Shape, axes: Sequence[int]) -> tuple[Positions, int]:
    """Return the group of each entry if these axes are summed over, and their number.

    Groups are numbered as the entries of the result are.
    """
    left = tuple(1 if i in axes else n for i, n in enumerate(shape))
    numbers = np.broadcast_to(number_entries(left), shape)
    return numbers.reshape(-1), math.prod(left)


def leave_out(relation: Relation, absent: Any, shape: Shape) -> Relation:
    """Return a relation by which some entries of the result read nothing."""
    marks = np.broadcast_to(absent, shape).reshape(-1)
    groups = count_up(len(marks)) if relation.groups is None else relation.groups
    return relation._replace(groups=np.where(marks, groups.dtype.type(-1), groups))
