"""What an expression depends on: by its values, or by nothing but a shape."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.graph import blame, walk
from workbench.graph.tensor import Tensor
from workbench.ops import several

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
    outputs: Iterable[Tensor], closed: Iterable[int] = (), rules: Iterable[int] = ()
) -> set[int]:
    """The serials of all Tensors that the outputs depend on by their values.

    An op says with ``connection`` which of its outputs read which inputs; behind a
    Tensor that is ``closed`` nothing is looked for. What an override (``rules``)
    stands at is connected.
    """
    known, stops = set(rules), set(closed)
    roots = list(outputs)
    starts = {x.serial for x in roots}
    reached = set(starts)
    #: Of an op with several outputs, those that are read.
    read: dict[int, set[int]] = {}
    for node in reversed(walk.order(roots)):
        serial = node.serial
        if serial not in reached or (serial in stops and serial not in starts):
            continue
        declared = node.op.connection
        if node.op is several.ITEM:
            whole = node.inputs[0]
            if isinstance(whole, Tensor):
                read.setdefault(whole.serial, set()).add(node.params["index"])
        elif declared is not None and serial not in known:
            outs = read.get(serial, {0})
            for x, row in zip(
                node.inputs, declared(node.inputs, node.params), strict=False
            ):
                if isinstance(x, Tensor) and any(row[i] for i in outs):
                    reached.add(x.serial)
            continue
        for x in node.inputs:
            if isinstance(x, Tensor):
                reached.add(x.serial)
    return {s for s in reached if s not in stops or s in starts}
