"""The toolbox of gradients that users of Theano and PyTensor know.

Derivatives of expressions (`grad`, `Lop`, `Rop`, `jacobian`, `hessian`, ...), what
stands in an expression and changes its gradient (`disconnected_grad`, `grad_clip`,
...), and the check of a gradient against differences (`verify_grad`).
"""

from workbench.errors import (
    DisconnectedInputError,
    GradNotImplementedError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.gradient.gradients import (
    consider_constant,
    disconnected_grad,
    format_as,
    grad,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    subgraph_grad,
    zero_grad,
)
from workbench.gradient.products import (
    Lop,
    Rop,
    hessian,
    hessian_vector_product,
    jacobian,
    pullback,
    pushforward,
)
from workbench.gradient.verify import GradientError, numeric_grad, verify_grad
from workbench.ops.gradients import DisconnectedType, NullType

__all__ = [
    "DisconnectedInputError",
    "DisconnectedType",
    "GradNotImplementedError",
    "GradUndefinedError",
    "GradientError",
    "Lop",
    "NullType",
    "NullTypeGradError",
    "Rop",
    "consider_constant",
    "disconnected_grad",
    "format_as",
    "grad",
    "grad_clip",
    "grad_not_implemented",
    "grad_scale",
    "grad_undefined",
    "hessian",
    "hessian_vector_product",
    "jacobian",
    "numeric_grad",
    "pullback",
    "pushforward",
    "subgraph_grad",
    "verify_grad",
    "zero_grad",
]
