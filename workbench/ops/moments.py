"""Moments: variance, standard deviation, averages, covariance.

The gradient of `std` is 0 where all entries are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.graph.op import Op, implements
from workbench.graph.tensor import admit, apply
from workbench.ops.define import no_out, shape_of
from workbench.ops.reductions import (
    conjugate,
    count,
    reduced_axes,
    reduction,
    settings,
    taken,
)

__all__: list[str] = []


# Variance and standard deviation


def _spread(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(
        x: Any, *, axis: Any = None, ddof: float = 0, keepdims: bool = False
    ) -> Any:
        return function(x, axis=axis, ddof=ddof, keepdims=keepdims)

    return compute


def _centred(x: Any, axis: Any, ddof: float) -> Any:
    """The conjugate of what is left without the mean, over the degrees of freedom."""
    axes = reduced_axes(axis, len(shape_of(x)))
    middle = np.mean(x, axis=axes, keepdims=True)
    return conjugate(x - middle) / max(count(x, axis) - ddof, 0)


def _var_weight(y: Any, x: Any, *, axis: Any = None, ddof: float = 0, **_: Any) -> Any:
    return 2 * _centred(x, axis, ddof)


def _std_weight(y: Any, x: Any, *, axis: Any = None, ddof: float = 0, **_: Any) -> Any:
    # Where all entries are equal, 0 / 1 and not 0 / 0.
    return _centred(x, axis, ddof) / np.where(np.equal(y, 0), 1, y)


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
        return apply(made, (a,), settings(axis, keepdims, ddof=ddof))
    if mean is None:
        mean = np.mean(a, axis=axis, keepdims=True, where=where)
    squares = np.square(np.abs(a - mean))
    total = np.sum(squares, axis=axis, keepdims=keepdims, where=where)
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


@implements(np.average)
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """`numpy.average`."""
    a, weights = admit(a), admit(weights)
    if weights is None:
        y = np.mean(a, axis=axis, keepdims=keepdims)
        total = np.ones_like(y) * (count(a, axis))
        return (y, total) if returned else y
    if shape_of(weights) != shape_of(a):
        (along,) = reduced_axes(axis, len(shape_of(a)))
        line = tuple(-1 if i == along else 1 for i in range(len(shape_of(a))))
        weights = np.broadcast_to(np.reshape(weights, line), shape_of(a))
    total = np.sum(weights, axis=axis, keepdims=keepdims)
    y = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (y, total) if returned else y
