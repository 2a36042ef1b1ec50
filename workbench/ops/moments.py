"""Moments: variance, standard deviation, averages, covariance.

All derivatives of `std` are 0 where all entries are equal.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.broadcasting import largest
from workbench.core.dims import Dim, differ, none
from workbench.core.op import Op, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.ops.arithmetic import stop_gradient
from workbench.ops.complex_parts import conjugate, divide_by_length
from workbench.ops.define import dtype_of, no_out, shape_of
from workbench.ops.reductions import (
    count,
    promote_half,
    reduced_axes,
    reduction,
    settings,
    taken,
)
from workbench.ops.shaping import normal_axes
from workbench.ops.values import beside

__all__ = ["weights_along"]


# Variance and standard deviation


def _spread(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(
        x: Any, *, axis: Any = None, ddof: float = 0, keepdims: bool = False
    ) -> Any:
        return function(x, axis=axis, ddof=ddof, keepdims=keepdims)

    return compute


def _freedom(x: Any, axis: Any, ddof: float) -> Any:
    """The degrees of freedom: how many entries make one of the result, less some."""
    left = count(x, axis) - ddof
    if isinstance(left, Tensor):  # a length less a fraction
        return np.maximum(left, 0)
    return largest(left, 0) if isinstance(left, Dim) else max(left, 0)


def _centred(x: Any, axis: Any, ddof: float) -> Any:
    """The conjugate of what is left without the mean, over the degrees of freedom."""
    axes = reduced_axes(axis, len(shape_of(x)))
    x = promote_half(x)
    middle = np.mean(x, axis=axes, keepdims=True)
    return conjugate(x - middle) / _freedom(x, axis, ddof)


def _var_weight(y: Any, x: Any, *, axis: Any = None, ddof: float = 0, **_: Any) -> Any:
    return 2 * _centred(x, axis, ddof)


def _std_weight(y: Any, x: Any, *, axis: Any = None, ddof: float = 0, **_: Any) -> Any:
    wide = promote_half(x)
    if wide is not x:  # in float16 NumPy's sum of squares may be infinite
        axes = reduced_axes(axis, len(shape_of(x)))
        y = np.std(wide, axis=axes, ddof=ddof, keepdims=True)
    return divide_by_length(_centred(x, axis, ddof), y)


_var_op = reduction(
    "var", _spread("var", np.var), _var_weight, rule="g · 2 (x − mean) / n", reads=(0,)
)
_std_op = reduction(
    "std", _spread("std", np.std), _std_weight, rule="g · (x − mean) / (n y)"
)


def _moment(
    made: Op,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: float,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: Any,
) -> Any:
    no_out(f"np.{made.name}", out)
    ddof = ddof if correction is None else correction
    if dtype is not None:
        a = np.astype(a, dtype)
    if where is True and mean is None:
        return apply(made, (a,), settings(axis, keepdims, a, ddof=ddof))
    wide = promote_half(a)
    if wide is not a and getattr(mean, "dtype", a.dtype) == a.dtype:
        y = _moment(made, wide, axis, None, None, ddof, keepdims, where, mean, None)
        return y.astype(a.dtype)
    if mean is None:
        mean = np.mean(a, axis=axis, keepdims=True, where=where)  # a Tensor: so
    away = a - mean
    if dtype_of(away).kind == "c":
        squares = np.square(np.real(away)) + np.square(np.imag(away))
    else:  # not |away|**2: that has a kink on the mean, and no second derivative
        squares = np.square(away)
    total = np.sum(squares, axis=axis, keepdims=keepdims, where=where)  # a Tensor: so
    if where is True:
        freedom: Any = _freedom(a, axis, ddof)
    else:
        freedom = np.maximum(taken(a, where, axis, keepdims) - ddof, 0)
    variance = total / freedom
    if made is _var_op:
        return variance
    flat = np.equal(variance, 0)
    return np.where(flat, 0, np.sqrt(np.where(flat, 1, variance)))


@implements(np.var)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """`numpy.var`."""
    return _moment(
        _var_op, a, axis, dtype, out, ddof, keepdims, where, mean, correction
    )


@implements(np.std)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    """`numpy.std`; its gradient is 0 where all entries are equal."""
    return _moment(
        _std_op, a, axis, dtype, out, ddof, keepdims, where, mean, correction
    )


# Averages


def weights_along(weights: Any, a: Any, axis: Any) -> Any:
    """Weights in the rank of ``a``: of all its entries, or along some of its axes.

    Raises
    ------
    TypeError, ValueError
        As NumPy's, where the shapes do not fit.
    """
    shape = shape_of(a)
    if shape_of(weights) == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normal_axes(axis, len(shape))
    if shape_of(weights) != tuple(shape[n] for n in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    if len(axes) > 1:  # in the order of the axes of ``a``
        weights = np.transpose(weights, sorted(range(len(axes)), key=axes.__getitem__))
    line = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    return np.reshape(weights, line)


@implements(np.average)
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """`numpy.average`, differentiable in the weights too."""
    a = admit(a)
    weights = beside(weights, a)
    if weights is None:
        y = np.mean(a, axis=axis, keepdims=keepdims)
        return (y, np.full_like(y, count(a, axis))) if returned else y
    weights = weights_along(weights, a, axis)
    if dtype_of(a).kind in "biu":
        a = a.astype(np.float64)
    weights = np.broadcast_to(weights, shape_of(a))
    narrow = np.result_type(dtype_of(a), dtype_of(weights))
    weights = promote_half(weights.astype(narrow))
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    value = value_of(total)
    if value is not None and bool(np.any(value == 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    y = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    if dtype_of(weights) != narrow:
        y = y.astype(narrow)
        total = total.astype(narrow) if returned else None
    return (y, total) if returned else y


# Covariance


def _variables(x: Any, name: str, rowvar: bool, dtype: Any) -> Any:
    """One variable a row."""
    rank = len(shape_of(x))
    if rank > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    rows = np.reshape(x, (1, -1)) if rank < 2 else x
    if not rowvar and (shape_of(rows)[0] != 1 if name == "y" else rank != 1):
        rows = np.transpose(rows)
    return rows.astype(dtype)


def _sample_weights(w: Any, name: str, rows: Any) -> Any:
    w, length = beside(w, rows).astype(np.float64), shape_of(rows)[1]
    if len(shape_of(w)) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if differ(shape_of(w), (length,)):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    value = value_of(w)
    if value is not None and name == "fweights" and np.any(value != np.rint(value)):
        raise TypeError("fweights must be integer")
    if value is not None and bool(np.any(value < 0)):
        raise ValueError(f"{name} cannot be negative")
    return w


@implements(np.cov)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """`numpy.cov`, differentiable in the data and in ``aweights``."""
    m, y = admit(m), admit(y)
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    if dtype is None:
        given = [dtype_of(x) for x in (m, y) if x is not None]
        dtype = np.result_type(*given, np.float64)
    rows = _variables(m, "m", rowvar, dtype)
    if y is not None:
        rows = np.concatenate([rows, _variables(y, "y", rowvar, dtype)])
    length = shape_of(rows)[1]
    if ddof is None:
        ddof = 0 if bias else 1
    w = _sample_weights(fweights, "fweights", rows) if fweights is not None else None
    if aweights is not None:
        aweights = _sample_weights(aweights, "aweights", rows)
        w = aweights if w is None else w * aweights
    if w is None:
        freedom: Any = length - ddof
        middle = np.mean(rows, axis=1, keepdims=True)
        if isinstance(freedom, Dim):
            freedom = largest(freedom, 0)
        elif freedom <= 0:
            warnings.warn(
                "Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2
            )
            freedom = 0
    else:
        total = np.sum(w)
        middle = np.sum(rows * w, axis=1, keepdims=True) / total
        freedom = total
        if ddof:
            lost = 1 if aweights is None else np.sum(w * aweights) / total
            freedom = total - ddof * lost
    rows = rows - middle
    turned = np.transpose(rows if w is None else rows * w)
    scale = math.inf if w is None and none(freedom) else 1 / freedom
    made = np.squeeze(rows @ conjugate(turned)) * scale
    return made if dtype_of(made) == np.dtype(dtype) else made.astype(dtype)


@implements(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """`numpy.corrcoef`; what is cut off beyond 1 is rounding, and has no derivative."""
    c = cov(x, y, rowvar, dtype=dtype)
    if len(shape_of(c)) == 0:
        return c / c
    size = np.sqrt(np.real(np.diagonal(c)))
    c = c / size[:, None] / size[None, :]
    if dtype_of(c).kind == "c":
        return _within(np.real(c)) + 1j * _within(np.imag(c))
    return _within(c)


def _within(c: Any) -> Any:
    still = stop_gradient(c)
    return c - (still - np.clip(still, -1, 1))
