"""What an expression depends on: by its values, or by nothing but a shape."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workbench.autodiff.supernode import standing
from workbench.core import blame, deferred, walk
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.ops import several

__all__ = ["DisconnectedType", "apart", "connected", "noted"]


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


#: Where rules said in this sweep that no output depends on an input: the op, which
#: input of it, and what stood there.
Apart = set[tuple[int, int, int]]

_APART: ContextVar[Apart | None] = ContextVar("apart", default=None)


@contextmanager
def noted() -> Iterator[Apart]:
    """A block whose rules note the inputs that they call disconnected."""
    found: Apart = set()
    token = _APART.set(found)
    try:
        yield found
    finally:
        _APART.reset(token)


def apart(op: Op, position: int, x: Any) -> None:
    """Note that a rule of an op returned a `DisconnectedType` for an input."""
    found = _APART.get()
    if found is not None and isinstance(x, Tensor):
        found.add((id(op), position, x.serial))


def connected(
    outputs: Iterable[Tensor],
    stops: Collection[int] = (),
    closed: Collection[int] = (),
    rules: Collection[int] | Mapping[int, Any] = (),
    cut: Collection[tuple[int, int, int]] = (),
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
    cut
        What rules have called disconnected; see `noted`.
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
        op, inputs, params = deferred.stripped(node)
        declared = op.connection
        if op is several.ITEM and isinstance(inputs[0], Tensor):
            read.setdefault(inputs[0].serial, set()).add(params["index"])
        if serial in instead:
            given = instead[serial].region.inputs
            found = [x.serial for x in given if isinstance(x, Tensor)]
        elif declared is None or serial in rules:
            found = [
                x.serial
                for i, x in enumerate(inputs)
                if isinstance(x, Tensor) and (id(op), i, x.serial) not in cut
            ]
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
