"""`autograd.differential_operators`: `grad` and its kin, over the library's own.

autograd's habits stand here: ``argnum``, integers as floats, a result with one entry as
a number, errors of its types, and objects of the user's types as arguments.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

import workbench.autodiff.checkpoint as checkpoints
from workbench.autodiff import grad as gradients
from workbench.autodiff import jacobian as jacobians
from workbench.autodiff import products
from workbench.compat.autograd.boxes import Box, Handle, new_box
from workbench.compat.autograd.vector_spaces import vspace
from workbench.compat.autograd.wrap_util import (
    Argnum,
    check_argnum,
    get_name,
    substitute,
    take_argument,
    unary_to_nary,
    wraps,
)
from workbench.core import tree
from workbench.core.trace import is_float
from workbench.core.types import Array
from workbench.errors import NonScalarOutputError

__all__ = [
    "checkpoint",
    "deriv",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "multigrad_dict",
    "tensor_jacobian_product",
    "value_and_grad",
    "vector_jacobian_product",
]

Function = Callable[..., Any]


def _lift(name: str, fun: Function, argnum: Argnum, made: Function) -> Function:
    """Return a derivative that takes integers, named as autograd names it."""
    check_argnum(argnum)
    places = (argnum,) if type(argnum) is int else tuple(argnum)  # type: ignore[arg-type]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        for i in places:
            given[i] = take_argument(given[i])
        try:
            return made(*given, **kwargs)
        except NonScalarOutputError as error:
            raise TypeError(str(error)) from error

    return wraps(fun, f"{name}_of_{{fun}}_wrt_argnum_{argnum}")(call)


def _has_object(args: tuple[Any, ...], argnum: Any) -> bool:
    """Return whether what is differentiated by is an object of a user's type."""
    return type(argnum) is int and type(args[argnum]) in Box.type_mappings


def grad(fun: Function, argnum: Any = 0) -> Function:
    """Return the gradient of a function of one number, by `workbench.grad`.

    Parameters
    ----------
    fun
        The function; its result has one entry.
    argnum
        The position of what is differentiated by, or a tuple of positions.

    Raises
    ------
    TypeError
        If the result has more than one entry.

    Examples
    --------
    >>> import workbench.compat.autograd.numpy as np
    >>> from workbench.compat.autograd import grad
    >>> float(grad(np.tanh)(0)), float(grad(lambda x, y: x * y, 1)(3, 4))
    (1.0, 3.0)
    """
    made = _lift("grad", fun, argnum, gradients.grad(fun, _positions(argnum)))

    def call(*args: Any, **kwargs: Any) -> Any:
        if Box.type_mappings and _has_object(args, argnum):
            vjp, value = make_vjp(fun, argnum)(*args, **kwargs)
            return vjp(np.ones_like(value))
        return made(*args, **kwargs)

    return wraps(made)(call)


def value_and_grad(fun: Function, argnum: Any = 0) -> Function:
    """Return the function of value and gradient, by `workbench.value_and_grad`."""
    inner = gradients.value_and_grad(fun, _positions(argnum))
    return _lift("value_and_grad", fun, argnum, inner)


def _positions(argnum: Any) -> Any:
    check_argnum(argnum)
    return argnum if type(argnum) is int else tuple(argnum)


@unary_to_nary
def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the map from cotangents to gradients, and the value."""
    if type(x) in Box.type_mappings:
        return _make_object_vjp(fun, x)
    value, pullback = jacobians.vjp(fun, x)
    leaves, structure = tree.flatten(value)

    def vjp(g: Any) -> Any:
        # As numbers, where the value is one: cotangents of ones, lists, integers.
        flat = tree.flatten(g)[0]
        if len(flat) != len(leaves):
            return pullback(np.reshape(np.asarray(g, float), np.shape(value)))[0]
        fitted = [
            np.zeros_like(y) if not is_float(y) else take_argument(c)
            for c, y in zip(flat, leaves, strict=True)
        ]
        return pullback(structure(fitted))[0]

    return vjp, value


def _make_object_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the pair of `make_vjp` for an object: its space sums the cotangents."""
    handle = Handle(None, vspace(x))

    def run(number: Any) -> Any:
        handle.number = number
        return fun(new_box(x, None, handle))

    value, pullback = jacobians.vjp(run, 0.0)

    def vjp(g: Any) -> Any:
        handle.take()
        pullback(g)
        return handle.take()

    return vjp, value


@unary_to_nary
def make_jvp(fun: Function, x: Any) -> Function:
    """Return the map from a tangent to the value and its tangent."""

    def jvp(g: Any) -> Any:
        return jacobians.jvp(fun, (x,), (take_argument(g),))

    return jvp


def _require_real(name: str, value: Any) -> None:
    if any(np.iscomplexobj(leaf) for leaf in tree.flatten(value)[0]):
        raise TypeError(f"{name} only applies to real-output functions.")


@unary_to_nary
def elementwise_grad(fun: Function, x: Any) -> Any:
    """Return the sum of each column of the Jacobian, in one sweep."""
    value, pullback = jacobians.vjp(fun, x)
    _require_real("Elementwise_grad", value)
    return pullback(tree.map_tree(np.ones_like, value))[0]


@unary_to_nary
def deriv(fun: Function, x: Any) -> Any:
    """Return the derivative along ones, by forward mode."""
    return jacobians.jvp(fun, (x,), (tree.map_tree(np.ones_like, x),))[1]


def jacobian(fun: Function, argnum: Any = 0) -> Function:
    """Return the Jacobian of an array by an array, by `workbench.jacobian`."""
    inner = jacobians.jacobian(fun, _positions(argnum))
    return _lift("jacobian", fun, argnum, inner)


def hessian(fun: Function, argnum: Any = 0) -> Function:
    """Return the second derivatives: the Jacobian of the Jacobian."""
    return jacobian(jacobian(fun, argnum), argnum)


@unary_to_nary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """Return the complex derivative of a complex-differentiable function."""
    return gradients.grad(lambda x: np.real(fun(x)))(x)


def grad_named(fun: Function, argname: str) -> Function:
    """Return the gradient by the argument of a name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@unary_to_nary
def make_hvp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Return the map from a vector to the Hessian times it, and the gradient."""
    return make_vjp(grad(fun))(x)


def hessian_tensor_product(fun: Function, argnum: Any = 0) -> Function:
    """Return the Hessian times an array, a function ``(*args, array)``."""

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        x = take_argument(rest[argnum])

        def at(x: Any) -> Any:
            return fun(*substitute(tuple(rest), argnum, x), **kwargs)

        return products.hvp(at, x, vector)

    return wraps(fun, "hessian_tensor_product_of_{fun}")(product)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: Any = 0) -> Function:
    """Return an array times the Jacobian, a function ``(*args, array)``."""

    def contracted(*args: Any, **kwargs: Any) -> Any:
        *rest, vector = args
        return np.tensordot(vector, fun(*rest, **kwargs), axes=np.ndim(vector))

    return jacobian(contracted, argnum)


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """Return the map from a tangent to that of the value."""
    return lambda v: jacobians.jvp(fun, (x,), (take_argument(v),))[1]


def _half_square(x: Array) -> Array:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """Return the map from a vector to the Gauss-Newton matrix times it."""

    @unary_to_nary
    def make(f: Function, x: Any) -> Function:
        return lambda v: products.gnvp(f, g, x, v)

    return make(f, f_argnum)


@unary_to_nary
def grad_and_aux(fun: Function, x: Any) -> tuple[Any, Any]:
    """Return the gradient of the first output, and the second output."""
    return gradients.grad(lambda x: tuple(fun(x)), has_aux=True)(x)


def multigrad_dict(fun: Function) -> Function:
    """Return the gradients by all arguments, as a dict by their names."""
    signature = inspect.signature(fun)

    def gradient(*args: Any, **kwargs: Any) -> OrderedDict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def run(arguments: dict[str, Any]) -> Any:
            call = inspect.BoundArguments(signature, OrderedDict(arguments))
            return fun(*call.args, **call.kwargs)

        found = grad(run)(dict(bound.arguments))
        return OrderedDict((name, found[name]) for name in bound.arguments)

    return gradient


def checkpoint(fun: Function) -> Function:
    """Return the function with its inner values computed again for its gradient."""
    return wraps(fun, f"checkpointed_{get_name(fun)}")(checkpoints.checkpoint(fun))
