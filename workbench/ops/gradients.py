"""Ops that change cotangents, and gradients that cannot be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from workbench.core import blame, source, types, walk
from workbench.core.op import Op, declare
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Spec, spec_of
from workbench.errors import (
    GradNotImplementedError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.ops.define import align_batch, elementwise, op


def _first(x: Array, *settings: Any) -> Array:
    return x


def _as_first(x: Array, *settings: Any) -> Spec:
    found: Spec = spec_of(x)
    return found


def _only_first(inputs: tuple[Any, ...], params: dict[str, Any]) -> list[list[bool]]:
    return [[i == 0] for i in range(len(inputs))]


# zero_grad: connected, with gradient zero

ZERO = elementwise("zero_grad", lambda x: x, "0", template="{0}", passes=True,
    flat="stop", purpose="makes the gradient zero")  # fmt: skip

# grad_clip: the gradient entry by entry between two bounds. Clipping is not linear, so
# it has no transpose: forward mode is that of the value, which the op does not change.

CLIP = op(
    "grad_clip",
    _first,
    lambda g, y, x, low, high: np.clip(g, low, high),
    None,
    None,
    push=lambda tangents, y, x, low, high: tangents[0],
    infer=_as_first,
    reads=(1, 2),
    rule="clip(g, x₁, x₂)",
    pattern="same",
    template="{0}",
    purpose="clips the gradient",
)
CLIP.connection = _only_first

# grad_scale: linear in g, so forward mode is scaled too

SCALE = op(
    "grad_scale",
    _first,
    lambda g, y, x, multiplier: g * multiplier,
    None,
    push=lambda tangents, y, x, multiplier: (
        None if tangents[0] is None else tangents[0] * multiplier
    ),
    infer=_as_first,
    reads=(1,),
    rule="g · x₁",
    pattern="same",
    template="{0}",
    purpose="scales the gradient",
)
SCALE.connection = _only_first


def _batch(name: str) -> Callable[..., Array]:
    def batch(
        inputs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
    ) -> Array:
        if not batched[0]:
            # The value is that of the first operand alone, so the batch must be its.
            size = next(x.shape[0] for x, b in zip(inputs, batched, strict=True) if b)
            x = inputs[0]
            inputs = (np.broadcast_to(x, (size, *np.shape(x))), *inputs[1:])
            batched = (True, *batched[1:])
        return apply(declare(name), align_batch(inputs, batched), params)

    return batch


CLIP.batch = _batch("grad_clip")
SCALE.batch = _batch("grad_scale")


# Gradients that cannot be computed: a Tensor that no expression survives.
#
# A rule returns one in the place of the gradient that it does not have. Whatever is
# computed from it holds it, and who asks for such a gradient gets an error that names
# the op, its input and the reason (`workbench.gradient.grad_undefined`).

#: The serial of the first null ever made; until then no search is needed.
MADE: list[int] = []

ERRORS = {
    "undefined": (GradUndefinedError, "mathematically undefined"),
    "not implemented": (GradNotImplementedError, "not implemented"),
}


class _Null(type):
    """Every Tensor is a `Tensor`; this one is known by its op."""

    def __instancecheck__(cls, instance: object) -> bool:
        return is_null(instance) or type(instance) is cls


class NullType(metaclass=_Null):
    """What a gradient is that cannot be computed: for `isinstance`, and for a rule.

    A rule may return ``NullType(why)`` for the gradient that it does not have;
    `grad_undefined` says more.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.gradient import NullType, grad_undefined
    >>> x = wb.scalar("x")
    >>> isinstance(grad_undefined("step", 0, x), NullType), isinstance(x, NullType)
    (True, False)
    """

    __slots__ = ("why_null",)

    def __init__(self, why_null: str = "") -> None:
        self.why_null = why_null

    def __repr__(self) -> str:
        why = f": {self.why_null}" if self.why_null else ""
        return f"<a gradient that cannot be computed{why}>"


class DisconnectedType:
    """The gradient of a Tensor that the cost does not depend on: a marked zero.

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
def note_disconnected() -> Iterator[Apart]:
    """Collect the inputs that rules in the block call disconnected."""
    found: Apart = set()
    token = _APART.set(found)
    try:
        yield found
    finally:
        _APART.reset(token)


def resolve_cotangent(c: Any, op: Op, position: int, x: ArrayLike) -> object:
    """Return a rule's cotangent for an input; a bare `NullType` as an expression.

    Of a `DisconnectedType`, which is noted, None.
    """
    if type(c) is NullType:
        return make_null("undefined", op.name, position, x, c.why_null)
    if isinstance(c, DisconnectedType):
        found = _APART.get()
        if found is not None and isinstance(x, Tensor):
            found.add((id(op), position, x.serial))
        return None
    return c


def make_null(
    kind: str, name: str, position: int, x: ArrayLike, comment: str
) -> Tensor:
    """Return a stand-in for the gradient of input ``position``, which raises in use.

    ``kind`` is "undefined" or "not implemented".
    """
    x = admit(x)
    params = {"kind": kind, "name": name, "position": position, "comment": comment}
    args = (value_of(x),)
    made = Tensor(
        NULL, (x,), args, params, None, *source.caller(2), source.current_context()
    )
    made.spec = _infer(types.spec_of(x), **params)
    if not MADE:
        MADE.append(made.serial)
    return made


def copy_null(x: Array, null: Tensor) -> Tensor:
    """Return the same refusal in the shape of ``x``."""
    return make_null(x=x, **null.params)


def is_null(x: object) -> bool:
    """Return whether a Tensor is a gradient that cannot be computed."""
    return isinstance(x, Tensor) and x.op is NULL


def find_nulls(xs: Sequence[Any]) -> list[Tensor | None]:
    """Return the first null inside each expression, or None.

    Costs nothing until a null is made somewhere; then one walk over the part of the
    expressions that is younger.
    """
    if not MADE:
        return [None] * len(xs)
    nulls: dict[int, Tensor] = {}
    roots = [x for x in xs if isinstance(x, Tensor) and x._value is None]
    for node in walk.order_nodes(roots, MADE[0]):
        if node.op is NULL:
            nulls[node.serial] = node
            continue
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in nulls:
                nulls[node.serial] = nulls[x.serial]
                break
    return [nulls.get(x.serial) if isinstance(x, Tensor) else None for x in xs]


def find_null(x: Array) -> Tensor | None:
    """Return the first null that an expression holds, or None."""
    return find_nulls([x])[0] if MADE else None


def null_error(null: Tensor, what: str) -> NullTypeGradError:
    """Return the error for an expression that holds a null."""
    return _make_error(what, **null.params)


def _make_error(
    what: str, kind: str, name: str, position: int, comment: str
) -> NullTypeGradError:
    error, says = ERRORS[kind]
    why = f" ({comment})" if comment else ""
    return error(
        f"{what} cannot be computed: the gradient of input {position} of {name} is"
        f" {says}{why}. Leave out the path to that input, cut it off"
        " (wb.gradient.disconnected_grad), or give the op another gradient"
        " (wb.override)."
    )


def _compute(x: Array, **params: Any) -> Array:
    raise _make_error("this expression", **params)


def _infer(x: Array, **params: Any) -> Spec:
    spec = types.spec_of(x)
    if types.is_differentiable(spec.dtype):
        return Spec(spec.shape, spec.dtype)
    return Spec(spec.shape, np.dtype(np.float64))


def _pull(g: Array, y: Array, x: Array, **params: Any) -> Tensor:
    return make_null(x=x, **params)


def _push(tangents: tuple[Any, ...], y: Array, x: Array, **params: Any) -> Tensor:
    return make_null(x=x, **params)


NULL = op(
    "null_gradient", _compute, _pull, push=_push, infer=_infer, reads=(),
    rule="cannot be computed",
)  # fmt: skip
NULL.elementwise = True
