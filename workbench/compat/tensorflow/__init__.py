"""TensorFlow's names for gradients of ops over Workbench: its programs as they stand.

``from workbench.compat import tensorflow``, or `install`, after which ``import
tensorflow as tf`` and ``from tensorflow.python.framework import ops`` find this
package. A tensor is a `workbench.Tensor` or an array, an op a `workbench.Op`; the
modules of ops (``array_ops``, ``math_ops``, ...) have TensorFlow's functions of arrays:
those that mean in NumPy what they mean there, and a few more written on NumPy's.

What there is: `RegisterGradient`, `custom_gradient`, `gradients`, `stop_gradient`,
`load_op_library` for C++ sources, rules as data by `FunctionDefHelper`, placeholders,
and sessions to run expressions of them. Programs of layers and variables are not meant.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import workbench.custom.functions as functions
from workbench.autodiff import expressions
from workbench.compat.tensorflow.namespace import NAMESPACE
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
from workbench.errors import ShapeError, UsageError
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

#: The last release whose names these are, for programs that ask.
__version__ = "1.15.5"
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
reduce_any, reduce_all = _reduce("any"), _reduce("all")
mul, sub, pow = np.multiply, np.subtract, np.power


# Names that NumPy has with another meaning


def split(
    value: Array, num_or_size_splits: Any, axis: int = 0, name: str | None = None
) -> list[Array]:
    """Cut an array into so many equal parts, or into parts of these lengths.

    Raises
    ------
    ShapeError
        If the lengths do not add up to that of the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.compat import tensorflow as tf
    >>> [x.tolist() for x in tf.split(np.arange(5), [2, 3])]
    [[0, 1], [2, 3, 4]]
    """
    if np.ndim(num_or_size_splits) == 0:
        return list(np.split(value, int(num_or_size_splits), axis))
    sizes, length = [int(n) for n in num_or_size_splits], np.shape(value)[axis]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = length - sum(sizes) - 1
    if min(sizes, default=0) < 0 or sum(sizes) != length:
        raise ShapeError(
            f"tf.split: parts of {list(num_or_size_splits)} entries do not add up to"
            f" the {length} of axis {axis} of an array of shape {np.shape(value)}. Give"
            " the length of each part, with one -1 at most for the rest."
        )
    return list(np.split(value, np.cumsum(sizes)[:-1].tolist(), axis))


def cumsum(x: Array, axis: int = 0) -> Array:
    """Return running sums along an axis, by default the first."""
    return np.cumsum(x, axis)


def cumprod(x: Array, axis: int = 0) -> Array:
    """Return running products along an axis, by default the first."""
    return np.cumprod(x, axis)


def argmax(input: Array, axis: int | None = None, name: str | None = None) -> Array:
    """Return the places of the largest entries along an axis, by default the first."""
    return np.argmax(input, 0 if axis is None else axis)


def argmin(input: Array, axis: int | None = None, name: str | None = None) -> Array:
    """Return the places of the smallest entries along an axis, by default the first."""
    return np.argmin(input, 0 if axis is None else axis)


def div(x: Array, y: Array, name: str | None = None) -> Array:
    """Divide, and round down if both are of integers."""
    is_whole = all(np.issubdtype(np.result_type(v), np.integer) for v in (x, y))
    return np.floor_divide(x, y) if is_whole else np.divide(x, y)


def where(condition: Array, x: Any = None, y: Any = None) -> Array:
    """Choose entries; of a vector as condition, rows. Alone: the places that are true.

    Examples
    --------
    >>> from workbench.compat import tensorflow as tf
    >>> tf.where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]])
    array([[1, 2],
           [7, 8]])
    """
    if x is None or y is None:
        if x is not y:
            raise UsageError("tf.where takes a condition alone, or with both x and y.")
        return np.argwhere(condition)
    if np.ndim(condition) == 1 and np.ndim(x) > 1:
        condition = np.reshape(condition, (-1,) + (1,) * (np.ndim(x) - 1))
    return np.where(condition, x, y)


def ones(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Array:
    """Return an array of ones, by default of 32 bits."""
    return np.ones(tuple(map(int, np.ravel(shape))), dtype)


def zeros(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Array:
    """Return an array of zeros, by default of 32 bits."""
    return np.zeros(tuple(map(int, np.ravel(shape))), dtype)


def eye(num_rows: int, num_columns: int | None = None) -> Array:
    """Return a matrix with ones on its diagonal, of 32 bits."""
    return np.eye(num_rows, num_columns, dtype=np.float32)


#: The names that mean in NumPy what they mean in TensorFlow. Another name of NumPy's
#: is not known: it may mean something else, as `unique`, `linspace` and `diag` do.
SHARED = SimpleNamespace(
    **{
        name: getattr(np, name)
        for name in """
    abs acos acosh add angle argsort asin asinh atan atan2 atanh bool broadcast_to ceil
    complex64 complex128 conj cos cosh cross divide einsum equal exp expand_dims expm1
    floor greater greater_equal imag isfinite isinf isnan less less_equal log log1p
    logical_and logical_not logical_or logical_xor matmul maximum meshgrid minimum mod
    multiply negative not_equal ones_like pad real reciprocal repeat reshape roll round
    sign sin sinh size sort sqrt square squeeze stack subtract tan tanh tensordot tile
    transpose uint16 uint32 uint64 zeros_like
    """.split()
    }
)

install, uninstall = NAMESPACE.install, NAMESPACE.uninstall
__getattr__ = NAMESPACE.fall_back("", SHARED)


def __dir__() -> list[str]:
    return sorted({*globals(), *vars(SHARED)})
