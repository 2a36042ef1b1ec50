"""`theano.gradient`: the names of `workbench.gradient`, by integers too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from workbench import gradient as ours
from workbench.autodiff.derivatives import label
from workbench.compat.theano.reals import Reals, integers
from workbench.errors import (
    DisconnectedInputError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.gradient import (
    DisconnectedType,
    GradientError,
    NullType,
    Rop,
    consider_constant,
    disconnected_grad,
    format_as,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    numeric_grad,
    subgraph_grad,
    verify_grad,
    zero_grad,
)

__all__ = [
    "DisconnectedInputError",
    "DisconnectedType",
    "GradUndefinedError",
    "GradientError",
    "Lop",
    "NullType",
    "NullTypeGradError",
    "Rop",
    "consider_constant",
    "disconnected_grad",
    "disconnected_type",
    "format_as",
    "grad",
    "grad_clip",
    "grad_not_implemented",
    "grad_scale",
    "grad_undefined",
    "hessian",
    "jacobian",
    "numeric_grad",
    "subgraph_grad",
    "verify_grad",
    "zero_grad",
]

disconnected_type = DisconnectedType()


def _itself(x: Any, name: str | None = None) -> Any:
    """A type made a variable of itself there: ``DisconnectedType()()``."""
    return x


for _type in (DisconnectedType, NullType):
    setattr(_type, "__call__", _itself)  # noqa: B010  mypy: a method of two classes
    setattr(_type, "type", property(_itself))  # noqa: B010


def _by_reals(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a derivative be one by integers too, as far as ops make floats of them."""

    @wraps(function)
    def called(f: Any, wrt: Any, *args: Any, **settings: Any) -> Any:
        chosen = integers(wrt)
        if not chosen:
            return function(f, wrt, *args, **settings)
        known = settings.get("known_grads") or {}
        program = Reals([f, *known], chosen, [wrt, list(args), settings])
        args = tuple(map(program.nest, args))
        settings = program.nest(settings)
        made = function(program.nest(f), program.nest(wrt), *args, **settings)
        if made is not None and wrt is chosen[0] and getattr(f, "name", None):
            label(made, f, wrt)
        return made

    return called


grad = _by_reals(ours.grad)
Lop = _by_reals(ours.Lop)
jacobian = _by_reals(ours.jacobian)


def hessian(
    cost: Any,
    wrt: Any,
    consider_constant: Any = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The second derivatives of a cost by each variable.

    Of several, each by itself: `workbench.gradient.hessian` gives the blocks of two
    different ones too.
    """
    by_reals = _by_reals(ours.hessian)

    def one(x: Any) -> Any:
        return by_reals(cost, x, consider_constant, disconnected_inputs)

    if isinstance(wrt, (list, tuple)):
        return type(wrt)([one(x) for x in wrt])
    return one(wrt)
