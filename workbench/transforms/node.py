"""What a gradient rule sees of the node whose gradient it gives: `Node`."""

from __future__ import annotations

from typing import Any

from workbench.errors import OverrideError
from workbench.graph.op import Op
from workbench.graph.tensor import Tensor
from workbench.transforms import reverse
from workbench.transforms.standins import StandIn

__all__ = ["Node"]

Params = dict[str, Any]


class Node:
    """What a rule sees of the node whose gradient it gives.

    Attributes
    ----------
    op
        The op; ``node.op.name`` is ``"tanh"``.
    name
        The user's name for the node, or None.
    inputs, outputs
        What went in and came out: arrays in an eager run, Tensors where the rule
        is recorded (for second order, or the picture). Of a pattern what its
        wildcards stand for, by name as well: ``node["W"]``.
    params
        The op's settings.
    names
        The user's names for the inputs, None for one without a name.
    position
        Which one it is of the nodes that the override means, from 0.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def rule(node, g):
    ...     (x,), (y,) = node.inputs, node.outputs
    ...     return g * np.where(abs(x) < 1, 1 - y**2, 0)
    >>> flat = wb.override("tanh", vjp=rule)
    >>> f = lambda x: np.sum(np.tanh(x))
    >>> wb.grad(f, overrides=[flat])(np.array([0.0, 2.0]))
    array([1., 0.])
    """

    __slots__ = (
        "_mask",
        "_wildcards",
        "_y",
        "inputs",
        "name",
        "names",
        "op",
        "outputs",
        "params",
        "position",
    )

    def __init__(
        self, tensor: Tensor, mask: int, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> None:
        self.op: Op = tensor.op
        self.name = tensor.name
        self.names = tuple([getattr(x, "name", None) for x in tensor.inputs])
        self.position = 0
        self.inputs = inputs
        self.outputs = y if isinstance(y, tuple) else (y,)
        self.params = params
        self._mask = mask
        self._wildcards: tuple[str, ...] = ()
        if type(tensor) is StandIn:
            self._wildcards = tensor.region.names
        self._y = y

    def __getitem__(self, name: str) -> Any:
        """The input of this name of a pattern or a subgraph: ``node["W"]``."""
        if name in self._wildcards:
            return self.inputs[self._wildcards.index(name)]
        known = ", ".join(map(repr, self._wildcards))
        raise OverrideError(
            f"{self.op.name} has no input called {name!r} here; "
            + (f"it has {known}." if known else "its inputs are node.inputs.")
        )

    def get_attr(self, name: str) -> Any:
        """The op's setting of this name, such as ``"axis"``."""
        if name in self.params:
            return self.params[name]
        known = ", ".join(map(repr, sorted(self.params))) or "none at all"
        raise OverrideError(
            f"{self.op.name} has no setting {name!r} here; it has {known}."
        )

    def vjp(self, *cotangents: Any) -> list[Any]:
        """What the op's true rule passes on, one gradient (or None) per input."""
        if self.op.pull is None:
            return [None] * len(self.inputs)
        g = cotangents if isinstance(self._y, tuple) else cotangents[0]
        passed = self.op.pull(self._mask, g, self._y, self.inputs, self.params)
        return [
            None if c is None else reverse.fit(c, x)
            for c, x in zip(passed, self.inputs, strict=False)
        ]

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<node {self.op.name}{name} of {len(self.inputs)} inputs>"
