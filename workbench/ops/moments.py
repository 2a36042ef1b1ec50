"""Moments: variance, standard deviation, averages, and sums that skip NaN.

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
    variance = total / (taken(a, where, axis, keepdims) - ddof)
    return variance if made is _var_op else np.sqrt(variance)


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


@implements(np.median)
def median(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """`numpy.median`; the gradient goes to the middle entry, or the middle two."""
    no_out("np.median", out)
    rank = len(shape_of(a))
    axes = reduced_axes(axis, rank)
    kept = [n for n in range(rank) if n not in axes]
    rows = tuple(shape_of(a)[n] for n in kept)
    line = np.reshape(np.transpose(a, (*kept, *axes)), (*rows, count(a, axis)))
    ordered = np.sort(line, axis=-1)
    last = shape_of(line)[-1] - 1
    middle = (ordered[..., last // 2] + ordered[..., (last + 1) // 2]) / 2
    return np.expand_dims(middle, axes) if keepdims else middle


# What skips NaN: NaN is replaced by what changes nothing


@implements(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, **settings: Any) -> Any:
    """`numpy.nansum`."""
    return np.sum(np.where(np.isnan(a), 0, a), axis, dtype, **settings)


@implements(np.nanprod)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, **settings: Any) -> Any:
    """`numpy.nanprod`."""
    return np.prod(np.where(np.isnan(a), 1, a), axis, dtype, **settings)


@implements(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, **settings: Any) -> Any:
    """`numpy.nanmean`."""
    return np.mean(a, axis, dtype, where=~np.isnan(a), **settings)


@implements(np.nanvar)
def nanvar(a: Any, axis: Any = None, dtype: Any = None, **settings: Any) -> Any:
    """`numpy.nanvar`."""
    return np.var(a, axis, dtype, where=~np.isnan(a), **settings)


@implements(np.nanstd)
def nanstd(a: Any, axis: Any = None, dtype: Any = None, **settings: Any) -> Any:
    """`numpy.nanstd`."""
    return np.std(a, axis, dtype, where=~np.isnan(a), **settings)


@implements(np.nanmax)
def nanmax(a: Any, axis: Any = None, **settings: Any) -> Any:
    """`numpy.nanmax`."""
    return np.max(np.where(np.isnan(a), -np.inf, a), axis, **settings)


@implements(np.nanmin)
def nanmin(a: Any, axis: Any = None, **settings: Any) -> Any:
    """`numpy.nanmin`."""
    return np.min(np.where(np.isnan(a), np.inf, a), axis, **settings)
