"""The toolbox of gradients, as users of Theano and PyTensor know it.

Derivatives of expressions (`grad`, `Lop`, `Rop`, `jacobian`, `hessian`, ...), what
stands in an expression and changes its gradient (`disconnected_grad`, `grad_clip`,
...), and the check of a gradient against differences (`verify_grad`).
"""

from workbench.autodiff.connections import DisconnectedType
from workbench.errors import (
    DisconnectedInputError,
    GradNotImplementedError,
    GradUndefinedError,
    NullTypeGradError,
)
from workbench.gradient.differences import numeric_grad
from workbench.gradient.matrices import hessian, hessian_vector_product, jacobian
from workbench.gradient.nulls import NullType, grad_not_implemented, grad_undefined
from workbench.gradient.products import Lop, Rop, pullback, pushforward
from workbench.gradient.shaped import (
    consider_constant,
    disconnected_grad,
    grad_clip,
    grad_scale,
    zero_grad,
)
from workbench.gradient.verify import GradientError, verify_grad
from workbench.gradient.whole import format_as, grad, subgraph_grad

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
