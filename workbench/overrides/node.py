"""The node in a user's rule: `Node`, with arrays that are read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import Rules, inner_rules
from workbench.core import types
from workbench.core.op import Op
from workbench.core.tensor import MaskedTensor, mask_cotangent
from workbench.core.types import Cotangent, Params
from workbench.errors import OverrideError, UsageError, WorkbenchError


class Node:
    """The node in a rule that gives its gradient.

    Attributes
    ----------
    op
        The op; ``node.op.name`` is ``"tanh"``.
    name
        The user's name for the node, or None.
    inputs, outputs
        What went in and came out: arrays in an eager run, which cannot be changed, or
        Tensors where the rule is recorded (for second order, or the picture). Of a
        pattern what its wildcards stand for, by name as well: ``node["W"]``.
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
        "_inputs",
        "_mask",
        "_outputs",
        "_rules",
        "_true",
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
        self,
        op: Op,
        mask: int,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        true: Op | None = None,
        rules: Rules = None,
    ) -> None:
        self.op = op
        self.params = params
        self._inputs = inputs
        self._outputs = y if isinstance(y, tuple) else (y,)
        self._mask = mask
        #: The true rules, and the rules of overrides for nodes inside it.
        self._true, self._rules = true, rules
        self._y = y

    def lend(
        self,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        names: tuple[str | None, ...],
        name: str | None = None,
        position: int = 0,
        wildcards: tuple[str, ...] = (),
    ) -> None:
        """Fill in the facts that a user's function may read."""
        self.inputs, self.outputs = inputs, outputs
        self.names, self.name, self.position = names, name, position
        self._wildcards = wildcards

    def __getitem__(self, name: str) -> Any:
        """Return the input of a pattern or a subgraph by name: ``node["W"]``."""
        if name in self._wildcards:
            return self.inputs[self._wildcards.index(name)]
        known = ", ".join(map(repr, self._wildcards))
        raise OverrideError(
            f"{self.op.name} has no input called {name!r} here; "
            + (f"it has {known}." if known else "its inputs are node.inputs.")
        )

    def get_attr(self, name: str) -> Any:
        """Return the op's setting of this name, like ``"axis"``."""
        if name in self.params:
            return self.params[name]
        known = ", ".join(map(repr, sorted(self.params))) or "none at all"
        raise OverrideError(
            f"{self.op.name} has no setting {name!r} here; it has {known}."
        )

    def vjp(self, *cotangents: Any) -> list[Any]:
        """Return the gradients of the op's true rule: one for each input.

        Also for inputs that the derivative is not asked by, such as data beside
        weights, so that a rule need not know which these are. Zeros where nothing
        flows, as to integers; None for what is not an array.

        >>> import numpy as np, workbench as wb
        >>> rule = lambda node, g: [0.5 * c for c in node.vjp(g)]
        >>> half = wb.override("multiply", rule)
        >>> float(wb.grad(lambda x: 3.0 * x, overrides=[half])(1.0))
        1.5
        """
        passed = self.vjp_wrt(*cotangents)
        rest = sum(1 << i for i, x in enumerate(self.inputs) if has_derivative(x))
        rest &= ~self._mask
        if rest:
            try:
                # The user has not requested these gradients: do not warn.
                with np.errstate(all="ignore"):
                    more = self.pull_true(rest, cotangents)[: len(self.inputs)]
                passed = [
                    m if rest >> i & 1 else c
                    for i, (c, m) in enumerate(zip(passed, more, strict=True))
                ]
            except WorkbenchError:
                pass  # an op may refuse the derivative by some of its inputs
        return [
            zeros_for(x) if c is None else c
            for c, x in zip(passed, self.inputs, strict=True)
        ]

    def vjp_wrt(self, *cotangents: Any) -> list[Any]:
        """Return the gradients of `vjp` for the inputs to differentiate by.

        None for all others, whose gradients are not computed.
        """
        return self.pull_true(self._mask, cotangents)[: len(self.inputs)]

    def pull_true(self, mask: int, cotangents: Sequence[Any]) -> list[Any]:
        """Return the true rule's gradients for the inputs in a mask, fitted."""
        op, y = self._true, self._y
        if op is None:
            raise UsageError(
                f"the rule of {self.op.name} asks for node.vjp, which is that rule"
                " itself. Only the rule of an override stands beside another."
            )
        g = tuple(cotangents) if isinstance(y, tuple) else cotangents[0]
        return pull_true(op, mask, g, y, self._inputs, self.params, self._rules)

    def push_true(self, tangents: tuple[Any, ...]) -> Sequence[Any]:
        """Return the tangents that the true rule gives, one for each output."""
        op = self._true
        assert op is not None  # else no rule is that of the op itself
        made, push = None, forward.push_of(op)
        if push is not None:
            inner = inner_rules(op, self._rules)
            made = push(tangents, self._y, self._inputs, self.params, *inner)
        if isinstance(made, tuple):
            return made
        return [made] * len(self._outputs)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<node {self.op.name}{name} of {len(self.inputs)} inputs>"


def pull_true(
    op: Op,
    mask: int,
    g: Any,
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
    rules: Rules,
) -> list[Any]:
    """Return the gradients of an op's rule for the inputs in a mask, fitted."""
    cotangents: list[Any] = [None] * len(inputs)
    if (pull := op.pull) is not None:
        passed = pull(mask, g, y, inputs, params, *inner_rules(op, rules))
        for i, (c, x) in enumerate(zip(passed, inputs, strict=False)):
            if c is not None and mask >> i & 1:
                fits = type(c) is np.ndarray is type(x) and c.dtype is x.dtype
                if not (fits and c.shape == x.shape):
                    c = reverse.fit_cotangent(c, x)
                cotangents[i] = c
    return cotangents


# Arrays as rules get them, and what stands for those that they do not give.


def has_derivative(x: object) -> bool:
    """Return whether a gradient can be passed on to an input: floats and complex."""
    if type(x) is np.ndarray:
        return x.dtype.kind in "fc"
    if types.is_weak(x):
        return type(x) in (float, complex)
    return hasattr(x, "dtype") and types.is_differentiable(x.dtype)


def zeros_for(x: object) -> Cotangent:
    """Return a gradient of zeros for an input; None for other objects than arrays."""
    if has_derivative(x):
        return np.zeros_like(x)
    array = types.is_weak(x) or hasattr(x, "dtype")
    return np.zeros_like(x, dtype=float) if array else None


def make_read_only(x: Any) -> Any:
    """Return a read-only view of an array; else the object unchanged."""
    if isinstance(x, np.ndarray):
        x = x.view() if type(x) is np.ndarray else types.strip_subclass(x).view()
        x.flags.writeable = False
    return x


def lend_arrays(inputs: Sequence[Any]) -> list[Any]:
    """Return arrays for a user's code, which cannot change them.

    Python numbers stay, so that float32 stays what it is beside them, unless there is
    nothing else: then the code finds the shape and dtype that it may ask for.
    """
    if all(map(types.is_weak, inputs)):
        return [np.asarray(x)[()] for x in inputs]  # host array: a number
    return list(map(make_read_only, inputs))


def fill_cotangents(parts: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one cotangent per output: zeros where none arrived, None for integers.

    Beside one that has left a `where` they have too: 0 wins over infinity.
    """
    hidden = any(isinstance(c, MaskedTensor) for c in parts)
    found: list[Any] = []
    for c, out in zip(parts, y, strict=True):
        if not has_derivative(out):
            c = None
        elif c is None:
            c = mask_cotangent(np.zeros_like(out)) if hidden else np.zeros_like(out)
        found.append(c)
    return tuple(found)


def zeros_if_none(c: Cotangent, x: object) -> Cotangent:
    """Return a cotangent or tangent; zeros like ``x`` for None."""
    return zeros_for(x) if c is None else c
