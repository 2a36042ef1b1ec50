"""What an expression depends on: by its values, or by nothing but a shape."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from workbench.graph import blame, late, walk
from workbench.graph.tensor import Tensor
from workbench.ops import several
from workbench.transforms.standins import standing

__all__ = ["DisconnectedType", "connected"]


class DisconnectedType:
    """The gradient of what the cost does not depend on: a zero that says so.

    What ``return_disconnected="Disconnected"`` gives in the place of a gradient.

    Attributes
    ----------
    wrt
        The Tensor that it would be the gradient of.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import DisconnectedType, grad
    >>> x, y = wb.scalars("x y")
    >>> found = grad(
    ...     x * 2, y, disconnected_inputs="ignore", return_disconnected="Disconnected"
    ... )
    >>> isinstance(found, DisconnectedType), found
    (True, <no gradient: the input 'y' float64[] is disconnected>)
    """

    __slots__ = ("wrt",)

    def __init__(self, wrt: Tensor | None = None) -> None:
        self.wrt = wrt

    def __repr__(self) -> str:
        what = "it" if self.wrt is None else blame.describe(self.wrt)
        return f"<no gradient: {what} is disconnected>"


def connected(
    outputs: Iterable[Tensor],
    stops: Collection[int] = (),
    closed: Collection[int] = (),
    rules: Collection[int] | Mapping[int, Any] = (),
) -> set[int]:
    """The serials of all Tensors that the outputs depend on by their values.

    Parameters
    ----------
    outputs
        Where the walk starts.
    stops
        Serials of Tensors that are constant: they are reached, nothing behind them.
    closed
        Serials of Tensors that are not even reached, unless they are outputs.
    rules
        Serials of nodes with rules of their own: their inputs are connected, whatever
        the op says of its connections. Or the rules themselves: with one of a part
        of the program, its inputs are reached past the nodes inside.
    """
    instead = standing(rules) if isinstance(rules, Mapping) else {}
    roots = list(outputs)
    reached = {x.serial for x in roots}
    behind = {s for s in closed if s not in reached}
    #: Of an op with several outputs, those that are read.
    read: dict[int, set[int]] = {}
    for node in reversed(walk.order(roots)):
        serial = node.serial
        if serial not in reached or serial in stops:
            continue
        # What is an operand for its lengths alone is none of the op's own.
        op, inputs, params = late.stripped(node)
        declared = op.connection
        if op is several.ITEM and isinstance(inputs[0], Tensor):
            read.setdefault(inputs[0].serial, set()).add(params["index"])
        if serial in instead:
            given = instead[serial].region.inputs
            found = [x.serial for x in given if isinstance(x, Tensor)]
        elif declared is None or serial in rules:
            found = [x.serial for x in inputs if isinstance(x, Tensor)]
        else:
            rows = declared(inputs, params)
            outs = read.get(serial, {0})
            found = [
                x.serial
                for x, row in zip(inputs, rows, strict=False)
                if isinstance(x, Tensor) and any(row[i] for i in outs)
            ]
        reached.update(s for s in found if s not in behind)
    return reached
