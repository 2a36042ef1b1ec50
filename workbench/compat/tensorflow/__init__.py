"""TensorFlow's names for gradients of ops over Workbench: its programs as they stand.

``from workbench.compat import tensorflow``, or `install`, after which ``import
tensorflow as tf`` and ``from tensorflow.python.framework import ops`` find this
package. A tensor is a `workbench.Tensor` or an array, an op a `workbench.Op`; the
modules of ops (``array_ops``, ``math_ops``, ...) have NumPy's functions under
TensorFlow's names.

What there is: `RegisterGradient`, `custom_gradient`, `gradients`, `stop_gradient`,
`load_op_library` for C++ sources, rules as data by `FunctionDefHelper`, placeholders,
and sessions to run expressions of them. Programs of layers and variables are not meant.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import workbench.custom.functions as functions
from workbench.autodiff import expressions
from workbench.compat.tensorflow.install import NAMESPACE, install, uninstall
from workbench.compat.tensorflow.op_library import (
    find_core_op,
    load_op_library,
    make_rule,
    relu,
)
from workbench.core import tree
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike
from workbench.custom.registry import register_gradient
from workbench.errors import UsageError
from workbench.ops.elementwise import stop_gradient
from workbench.ops.updates import at
from workbench.overrides.graph_rule import graph_rule
from workbench.overrides.targets import snake
from workbench.symbolic.function import function
from workbench.symbolic.variables import tensor

__all__ = [
    "REGISTER_OP_GRADIENT",
    "FunctionDefHelper",
    "NoGradient",
    "NotDifferentiable",
    "RegisterGradient",
    "Session",
    "constant",
    "custom_gradient",
    "gradients",
    "install",
    "load_op_library",
    "placeholder",
    "relu",
    "shape",
    "sparse_to_dense",
    "stop_gradient",
    "uninstall",
]

#: The modules that these names stand in are this one.
_here = sys.modules[__name__]
array_ops = framework = gradients_impl = math = math_ops = nn = nn_ops = _here
ops = python = sparse_ops = v1 = compat = _here

float32, float64, int32, int64 = np.float32, np.float64, np.int32, np.int64
float16, int8, int16, uint8, double = np.float16, np.int8, np.int16, np.uint8, float64
newaxis = None


# Gradients of ops


class RegisterGradient:
    """Register the gradient of an op by its name, before or after the op exists.

    A decorator of ``function(op, *grads)``, with ``op.inputs``, ``op.outputs`` and
    ``op.get_attr(name)``; it returns one gradient, or None, for each input.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.compat import tensorflow as tf
    >>> @tf.RegisterGradient("TripleIt")
    ... def _triple_grad(op, grad):
    ...     return [3.0 * grad]
    >>> class TripleIt(wb.Op):
    ...     def compute(self, x):
    ...         return 3.0 * x
    >>> float(wb.grad(TripleIt())(1.0))
    3.0
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self.op_type = op_type

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function, and return it."""
        find_core_op(self.op_type)
        with warnings.catch_warnings():
            # A gradient may come before its op here.
            warnings.filterwarnings("ignore", "register_gradient: no op is called")
            return register_gradient(snake(self.op_type))(function)


def NotDifferentiable(op_type: str) -> None:
    """Say that an op has no gradient: none flows through it."""

    def rule(op: Any, *grads: Any) -> list[None]:
        return [None] * len(op.inputs)

    RegisterGradient(op_type)(rule)


NoGradient = NotDifferentiable


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function from one that returns its value and its gradient function.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.compat import tensorflow as tf
    >>> @tf.custom_gradient
    ... def log1pexp(x):
    ...     e = np.exp(x)
    ...     return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
    >>> float(wb.grad(log1pexp)(100.0))
    1.0
    """
    return functions.custom_gradient(f)


def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, name: str | None = None, **_: Any
) -> list[Any]:
    """Return the gradients of the sum of tensors by others; None where there is none.

    Parameters
    ----------
    ys, xs
        Symbols, or expressions of them: one, or a list.
    grad_ys
        What arrives at each of ``ys``; ones by default.
    """
    outputs = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    wrt = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    seeds = grad_ys if isinstance(grad_ys, (list, tuple)) else [grad_ys] * len(outputs)
    known = {
        y: np.ones_like(y) if seed is None else seed
        for y, seed in zip(outputs, seeds, strict=True)
    }
    return expressions.gradient(
        None, wrt, known_grads=known, disconnected_inputs="ignore",
        return_disconnected="None",
    )  # fmt: skip


# Rules as data


class FunctionDefHelper:
    """What C++ sources write gradients with: nodes of ops that exist."""

    @staticmethod
    def Define(
        arg_defs: Sequence[str],
        ret_defs: Sequence[str],
        attr_defs: Sequence[str],
        nodes: Sequence[Any],
    ) -> graph_rule:
        """Return a rule that is data: arguments, results, types, nodes.

        Examples
        --------
        >>> from workbench.compat.tensorflow import FunctionDefHelper as FDH
        >>> print(FDH.Define(
        ...     ["x: T", "dy: T"], ["dx: T"], ["T: {float, double}"],
        ...     [(["dx"], "ReluGrad", ["dy", "x"], {"T": "$T"})],
        ... ))
        dx of (x, dy):
          dx = ReluGrad(dy, x)
        """
        return make_rule("function_def", arg_defs, ret_defs, attr_defs, nodes)


def REGISTER_OP_GRADIENT(op_type: str, rule: Any) -> None:
    """Register a rule for an op: one of data, or a function that returns one."""
    made = rule if isinstance(rule, graph_rule) else rule()
    made.__name__ = f"{op_type}Grad"
    RegisterGradient(op_type)(made)


# Programs


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Return a symbol of a dtype and a shape, whose lengths may be None."""
    if shape is None:
        raise UsageError(
            "tf.placeholder needs a shape, such as shape=[None, 3]: a symbol here has a"
            " number of axes."
        )
    return tensor(name, dtype=np.dtype(dtype), shape=tuple(shape))


def constant(value: ArrayLike, dtype: Any = None, **_: Any) -> Array:
    """Return an array; Python's floats are of 32 bits, as TensorFlow has them."""
    made = np.asarray(value, dtype)
    if dtype is None and made.dtype == float and not hasattr(value, "dtype"):
        return made.astype(np.float32)
    return made


class Session:
    """What runs expressions: ``with tf.Session() as sess: sess.run(y, {x: 1.0})``."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Do nothing: a session holds nothing."""

    def run(self, fetches: Any, feed_dict: dict[Any, Any] | None = None) -> Any:
        """Return the values of expressions, nested as they are."""
        leaves, structure = tree.flatten(fetches)
        wanted = [x for x in leaves if isinstance(x, Tensor)]
        feed = feed_dict or {}
        found: list[Any] = []
        if wanted:
            run = function(list(feed), wanted, on_unused_input="ignore")
            found = list(run(*[np.asarray(v, x.dtype) for x, v in feed.items()]))
        return structure(
            [found.pop(0) if isinstance(x, Tensor) else np.asarray(x) for x in leaves]
        )


# Names of functions that NumPy has under others


def shape(input: Array, name: str | None = None, out_type: Any = np.int32) -> Array:
    """Return the lengths of an array, as an array."""
    return np.asarray(np.shape(input), out_type)


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0
) -> Array:
    """Return an array with values at some places, and another value elsewhere.

    ``sparse_indices`` is a list of places, one row each; of a vector numbers.
    """
    lengths = tuple(int(n) for n in np.ravel(output_shape))
    places = np.asarray(sparse_indices, int)
    rows = np.reshape(places, (-1, len(lengths)))
    filled = np.full(lengths, default_value, np.result_type(sparse_values))
    return at(filled)[tuple(rows.T)].set(sparse_values)


def concat(values: Any, axis: int, name: str | None = None) -> Array:
    """Join arrays along an axis."""
    return np.concatenate(list(values), axis)


def gather(params: Array, indices: Any, axis: int = 0) -> Array:
    """Take entries along an axis."""
    return np.take(params, indices, axis)


def cast(x: Array, dtype: Any, name: str | None = None) -> Array:
    """Return an array in another dtype."""
    return np.asarray(x).astype(dtype) if not isinstance(x, Tensor) else x.astype(dtype)


def identity(input: Array, name: str | None = None) -> Array:
    """Return an array."""
    return input


def _reduce(name: str) -> Callable[..., Array]:
    reduce = getattr(np, name)

    def call(
        input_tensor: Array, axis: Any = None, keepdims: bool = False, **_: Any
    ) -> Array:
        return reduce(
            input_tensor, tuple(axis) if isinstance(axis, list) else axis,
            keepdims=keepdims,
        )  # fmt: skip

    call.__name__ = call.__qualname__ = f"reduce_{name}"
    call.__doc__ = f"Apply `numpy.{name}`."
    return call


reduce_sum, reduce_mean, reduce_max = _reduce("sum"), _reduce("mean"), _reduce("max")
reduce_min, reduce_prod = _reduce("min"), _reduce("prod")
mul, div, sub, pow = np.multiply, np.divide, np.subtract, np.power

__getattr__ = NAMESPACE.fall_back("", np)
