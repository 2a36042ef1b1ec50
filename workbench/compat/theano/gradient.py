"""`theano.gradient`: the names of `workbench.gradient`."""

from __future__ import annotations

from workbench import gradient as ours
from workbench.errors import (
    DisconnectedInputError,
    GradientError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.gradient import (
    DisconnectedType,
    Lop,
    NullType,
    Rop,
    consider_constant,
    disconnected_grad,
    format_as,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    hessian,
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
grad = ours.grad
