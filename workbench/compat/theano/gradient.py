"""`theano.gradient`: the names of `workbench.gradient`."""

from __future__ import annotations

from typing import Any

from workbench import gradient as ours
from workbench.errors import (
    DisconnectedInputError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.gradient import (
    DisconnectedType,
    GradientError,
    Lop,
    NullType,
    Rop,
    consider_constant,
    disconnected_grad,
    format_as,
    grad,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    jacobian,
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

    def one(x: Any) -> Any:
        return ours.hessian(cost, x, consider_constant, disconnected_inputs)

    if isinstance(wrt, (list, tuple)):
        return type(wrt)([one(x) for x in wrt])
    return one(wrt)
