"""`theano.scalar`: ops of single numbers, constants, the common dtype of several.

A function here takes arrays too: ``scalar.exp`` is ``tensor.exp``. A class of a
program's own, derived from `ScalarOp`, is an op of its own, entry by entry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.compat.theano import types
from workbench.compat.theano.namespace import NAMESPACE
from workbench.compat.theano.op import Apply, Op
from workbench.compat.theano.tensor import elementwise, op_classes
from workbench.compat.theano.types import (
    TensorType,
    as_tensor_variable,
    constant,
    dtype_name,
)
from workbench.core.tensor import Tensor
from workbench.errors import UsageError

__all__ = [
    "BinaryScalarOp",
    "ScalarOp",
    "UnaryScalarOp",
    "as_scalar",
    "basic",
    "complex_types",
    "constant",
    "discrete_types",
    "float_types",
    "mul_without_zeros",
    "same_out",
    "same_out_float_only",
    "same_out_nocomplex",
    "upcast",
    "upcast_out",
    "upgrade_to_float",
    "upgrade_to_float64",
    "upgrade_to_float_no_complex",
]

as_scalar = op_classes.scalar_from_tensor
mul_without_zeros = op_classes.mul_without_zeros


def upcast(*dtypes: Any) -> str:
    """Return the name of the dtype that holds all of these.

    >>> upcast("int8", "float32")
    'float32'
    """
    return str(np.result_type(*map(dtype_name, dtypes)))


# What the dtype of a result is, by those of the operands: for ``ScalarOp(...)``.


def same_out(dtype: Any) -> tuple[str]:
    """Return the dtype of the only operand."""
    return (dtype_name(dtype),)


def upcast_out(*dtypes: Any) -> tuple[str]:
    """Return the dtype that holds those of all operands."""
    return (upcast(*dtypes),)


def upgrade_to_float(*dtypes: Any) -> tuple[str]:
    """Return a float dtype that holds the operands, ``float32`` at least.

    >>> upgrade_to_float("int8"), upgrade_to_float("int64", "float32")
    (('float32',), ('float64',))
    """
    return (upcast(*dtypes, "float32"),)


def upgrade_to_float64(*dtypes: Any) -> tuple[str]:
    """Return ``float64``."""
    return ("float64",)


same_out_nocomplex = same_out_float_only = same_out
upgrade_to_float_no_complex = upgrade_to_float
float_types, complex_types, discrete_types = (
    types.FLOATS,
    types.COMPLEX,
    (*types.INTEGERS, *types.UNSIGNED),
)


class ScalarOp(Op):
    """An op of single numbers, which a program writes: ``impl`` and ``grad``.

    ``impl(*numbers)`` is its value, ``grad(inputs, output_gradients)`` its derivative
    on variables. Applied to arrays it works entry by entry, and these broadcast.

    Parameters
    ----------
    output_types_preference
        A function from the dtypes of the inputs to those of the output; by default the
        common one.
    name
        What graphs call it.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> class Cube(theano.scalar.UnaryScalarOp):
    ...     def impl(self, x):
    ...         return x * x * x
    ...     def grad(self, inputs, gradients):
    ...         return [gradients[0] * 3 * inputs[0] ** 2]
    >>> x = T.dvector("x")
    >>> T.grad(T.elemwise.Elemwise(Cube())(x).sum(), x).eval({x: [1.0, 2.0]})
    array([ 3., 12.])
    """

    nin = -1

    def __init__(
        self,
        output_types_preference: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.output_types_preference = output_types_preference
        self.name = name

    def make_node(self, *inputs: Any) -> Apply:
        """Return the op on inputs of one shape."""
        if self.nin >= 0 and len(inputs) != self.nin:
            raise UsageError(
                f"{type(self).__name__} takes {self.nin} numbers, not {len(inputs)}."
            )
        given = [as_tensor_variable(x) for x in inputs]
        if len(given) > 1:
            given = [as_tensor_variable(x) for x in np.broadcast_arrays(*given)]
        chosen = upcast(*(x.dtype for x in given))
        if self.output_types_preference is not None:
            (chosen,) = self.output_types_preference(*(x.dtype for x in given))
        kind = TensorType(dtype_name(chosen), (False,) * given[0].ndim)
        return Apply(self, given, [kind()])

    def impl(self, *numbers: Any) -> Any:
        """Return the value at numbers."""
        raise NotImplementedError(
            f"{type(self).__name__} has no impl(self, *numbers). Its c_code is not"
            " read: workbench.KernelOp runs native source."
        )

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Call ``impl`` for each entry."""
        kind = node.outputs[0].dtype
        shape = np.shape(inputs[0])
        entries = zip(*(np.ravel(x) for x in inputs), strict=True)
        found = [self.impl(*numbers) for numbers in entries]
        output_storage[0][0] = np.array(found, kind).reshape(shape)

    def infer_shape(self, node: Tensor, shapes: Sequence[Any]) -> Sequence[Any]:
        """Return the shape of the first input, which all have."""
        return [shapes[0]]

    def __str__(self) -> str:
        return self.name or type(self).__name__


class UnaryScalarOp(ScalarOp):
    """An op of one number, which a program writes."""

    nin = 1


class BinaryScalarOp(ScalarOp):
    """An op of two numbers, which a program writes."""

    nin = 2


class _Functions:
    """The functions of `theano.tensor` that work entry by entry, as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return elementwise.TABLE[name]
        except KeyError:
            raise AttributeError(name) from None


__getattr__ = NAMESPACE.fall_back("scalar", _Functions())
basic = sys.modules[__name__]
