"""`theano.gradient`: the names of `workbench.gradient`."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    jacobian,
    numeric_grad,
    subgraph_grad,
    verify_grad,
    zero_grad,
)
from workbench.graph.tensor import Tensor
from workbench.transforms.reverse import Origin

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


def grad(cost: Any, wrt: Any, *options: Any, **named: Any) -> Any:
    """`workbench.gradient.grad`; a function of the result may take all of the cost's.

    Theano's gradients read the cost, if only for its shape, so that no input of a
    function that returns one was ever unused.
    """
    made = ours.grad(cost, wrt, *options, **named)
    if isinstance(made, dict):
        return {key: _of(cost, g) for key, g in made.items()}
    if isinstance(made, (list, tuple)):
        return type(made)([_of(cost, g) for g in made])
    return _of(cost, made)


def _of(cost: Any, g: Any) -> Any:
    """A gradient that knows its cost, where it is a part of the program itself."""
    if not isinstance(g, Tensor) or g.origin is not None or cost is None:
        return g
    known: Any = np.copy(g)
    known.name = g.name
    known.origin = Origin(cost, "a part of the program, or a constant", False)
    return known


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
