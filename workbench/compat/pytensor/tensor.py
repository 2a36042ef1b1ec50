"""`pytensor.tensor`: Theano's names, and those that came since, of NumPy and SciPy.

The modules that these names stand in (``pytensor.tensor.math``, ``.basic``, ...) are
this one; ``linalg``, ``random`` and ``special`` are modules of their own.
"""

from __future__ import annotations

from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

import workbench.numpy
import workbench.scipy.special
from workbench.compat.pytensor import linalg, random
from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano import tensor as theano
from workbench.compat.theano.tensor.lifting import LiftedModule, axes, lift
from workbench.compat.theano.types import ALL_DTYPES, TensorType
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import UsageError
from workbench.ops import reductions

__all__ = [
    "TensorType",
    "full",
    "full_like",
    "linalg",
    "log1mexp",
    "log1pexp",
    "logaddexp",
    "logsumexp",
    "nan_to_num",
    "random",
    "sigmoid",
    "softplus",
    "special",
    "tensor",
]


def tensor(
    name: str | None = None,
    *,
    dtype: npt.DTypeLike | None = "floatX",
    shape: Any = (),
) -> Array:
    """Return a new symbol; None stands for a length that is not known.

    Raises
    ------
    UsageError
        If the name is that of a dtype, which stood first in Theano.

    Examples
    --------
    >>> import workbench.compat.pytensor.tensor as pt
    >>> pt.tensor("x", shape=(None, 3)).type.shape
    (None, None)
    """
    if name in (*ALL_DTYPES, "floatX"):
        raise UsageError(
            f"tensor: the name {name!r} is that of a dtype. The first argument is the"
            f" name of the variable: write tensor(dtype={name!r}, shape={shape})."
        )
    return TensorType(dtype, shape=shape)(name)


def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Any:
    """Return an array of one value; its lengths may be variables."""
    lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
    made = theano.alloc(fill_value, *lengths)
    return made if dtype is None else theano.cast(made, dtype)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: Any = None) -> Any:
    """Return an array of one value, in the shape and dtype of another one."""
    like = theano.as_tensor_variable(a)
    return theano.fill(like, theano.cast(fill_value, dtype or like.dtype))


def logaddexp(*xs: ArrayLike) -> Any:
    """Return the logarithm of the sum of exponentials of any number of arrays.

    >>> import workbench.compat.pytensor.tensor as pt
    >>> float(pt.exp(pt.logaddexp(0.0, 0.0, 0.0)).eval().round(12))
    3.0
    """
    return lift(reduce(np.logaddexp, xs), xs)


def logsumexp(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Any:
    """Return ``log(sum(exp(x)))`` along axes, without overflow.

    >>> import workbench.compat.pytensor.tensor as pt
    >>> pt.logsumexp(pt.dmatrix("A"), 1, True).type.broadcastable
    (False, True)
    """
    x = theano.as_tensor_variable(x)
    return lift(reductions.logsumexp(x, axes(axis), keepdims=keepdims))


def nan_to_num(
    x: ArrayLike,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """Replace NaN, and infinity by the greatest and least number of the dtype.

    >>> import workbench.compat.pytensor.tensor as pt
    >>> float(pt.nan_to_num(pt.constant(float("nan")), 7.0).eval())
    7.0
    """
    x = theano.as_tensor_variable(x)
    return lift(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf))


def softplus(x: ArrayLike) -> Any:
    """Return ``log(1 + exp(x))``, finite for large ``x`` too."""
    return lift(np.logaddexp(0.0, x))


def log1mexp(x: ArrayLike) -> Any:
    """Return ``log(1 - exp(x))`` of negative numbers."""
    x = theano.as_tensor_variable(x)
    near = x > -np.log(2.0)  # of the two forms the one without cancellation
    return np.where(near, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


special: Any = ModuleType(f"{__name__}.special")
_SPECIAL = LiftedModule(workbench.scipy.special)
vars(special)["__getattr__"] = NAMESPACE.fall_back("tensor.special", _SPECIAL)
vars(special)["__dir__"] = NAMESPACE.list_names("tensor.special", (), _SPECIAL)

sigmoid = special.expit
log1pexp = softplus

SOURCES = theano, LiftedModule(workbench.numpy), special
__getattr__ = NAMESPACE.fall_back("tensor", *SOURCES)
__dir__ = NAMESPACE.list_names("tensor", __all__, *SOURCES)
