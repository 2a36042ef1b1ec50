"""What a gradient rule sees of the node whose gradient it gives: `Node`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import StandIn
from workbench.core import types
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError, WorkbenchError

__all__ = ["Node", "has_derivative"]

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
        """What the op's true rule passes on: one gradient for each input.

        Also for inputs that the derivative is not asked by, such as data beside
        weights, so that a rule need not know which these are. Zeros where nothing
        flows, as to integers; None for what is no array.

        >>> import numpy as np, workbench as wb
        >>> rule = lambda node, g: [0.5 * c for c in node.vjp(g)]
        >>> half = wb.override("multiply", rule)
        >>> float(wb.grad(lambda x: 3.0 * x, overrides=[half])(1.0))
        1.5
        """
        passed = self.asked(*cotangents)
        rest = sum(1 << i for i, x in enumerate(self.inputs) if has_derivative(x))
        rest &= ~self._mask
        if rest:
            try:
                # Of what nobody has asked for, nobody is warned.
                with np.errstate(all="ignore"):
                    more = self._passed(rest, cotangents)
                passed = [
                    m if rest >> i & 1 else c
                    for i, (c, m) in enumerate(zip(passed, more, strict=True))
                ]
            except WorkbenchError:
                pass  # an op may refuse the derivative by some of its inputs
        return [
            nothing(x) if c is None else c
            for c, x in zip(passed, self.inputs, strict=True)
        ]

    def asked(self, *cotangents: Any) -> list[Any]:
        """What `vjp` gives of those inputs alone that the derivative is asked by.

        None for all others, which saves their gradients.
        """
        return self._passed(self._mask, cotangents)

    def _passed(self, mask: int, cotangents: tuple[Any, ...]) -> list[Any]:
        made: list[Any] = [None] * len(self.inputs)
        if self.op.pull is not None:
            g = cotangents if isinstance(self._y, tuple) else cotangents[0]
            passed = self.op.pull(mask, g, self._y, self.inputs, self.params)
            for i, (c, x) in enumerate(zip(passed, self.inputs, strict=False)):
                if c is not None and mask >> i & 1:
                    made[i] = reverse.fit(c, x)
        return made

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<node {self.op.name}{name} of {len(self.inputs)} inputs>"


def has_derivative(x: Any) -> bool:
    """Whether a gradient can be passed on to an input: floats and complex."""
    if types.weak(x):
        return type(x) in (float, complex)
    return hasattr(x, "dtype") and types.differentiable(x.dtype)


def nothing(x: Any) -> Any:
    """The gradient of an input that nothing flows to; None if it is no array."""
    if has_derivative(x):
        return np.zeros_like(x)
    array = types.weak(x) or hasattr(x, "dtype")
    return np.zeros_like(x, dtype=float) if array else None
