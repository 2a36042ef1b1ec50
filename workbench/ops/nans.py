"""Reductions that skip NaN: it is replaced by what changes nothing.

A NaN has gradient 0, in both modes and in all orders, since what flows through
`where` is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import Op, implements
from workbench.core.tensor import apply
from workbench.ops.define import dtype_of, no_out, shape_of
from workbench.ops.reductions import reduced_axes, reduction, settings, wide_dtype

__all__: list[str] = []


def _without(a: Any, neutral: float) -> Any:
    """The array with its NaN replaced; integers have none."""
    if dtype_of(a).kind not in "fc":
        return a
    return np.where(np.isnan(a), neutral, a)


def _present(a: Any, where: Any) -> Any:
    """Where an entry counts."""
    return ~np.isnan(a) if where is True else ~np.isnan(a) & where


@implements(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.nansum`."""
    no_out("np.nansum", out)
    return np.sum(  # a Tensor: its op knows where=
        _without(a, 0), axis, dtype, keepdims=keepdims, initial=initial, where=where
    )


@implements(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.nanprod`."""
    no_out("np.nanprod", out)
    return np.prod(  # a Tensor: its op knows where=
        _without(a, 1), axis, dtype, keepdims=keepdims, initial=initial, where=where
    )


@implements(np.nanmean)
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """`numpy.nanmean`."""
    no_out("np.nanmean", out)
    there = _present(a, where)
    return np.mean(  # a Tensor: its op knows where=
        _without(a, 0), axis, dtype, keepdims=keepdims, where=there
    )


@implements(np.nanvar)
def nanvar(
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
    """`numpy.nanvar`."""
    no_out("np.nanvar", out)
    ddof = ddof if correction is None else correction
    there = _present(a, where)
    return np.var(  # a Tensor: its op knows where=
        _without(a, 0), axis, dtype, None, ddof, keepdims, where=there, mean=mean
    )


@implements(np.nanstd)
def nanstd(
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
    """`numpy.nanstd`; its gradient is 0 where all entries are equal."""
    no_out("np.nanstd", out)
    ddof = ddof if correction is None else correction
    there = _present(a, where)
    return np.std(  # a Tensor: its op knows where=
        _without(a, 0), axis, dtype, None, ddof, keepdims, where=there, mean=mean
    )


def _present_extremum(name: str, fast: np.ufunc, function: Callable[..., Any]) -> Op:
    """The largest or smallest of the entries that are no NaN; NaN where none is."""

    def compute(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        if type(x) is np.ndarray:  # and no warning of what the docstring tells
            return fast.reduce(x, axis=axis, keepdims=keepdims)
        return function(x, axis=axis, keepdims=keepdims)

    def weight(y: Any, x: Any, *, axis: Any = None, **_: Any) -> Any:
        hit = np.equal(x, y)
        axes = reduced_axes(axis, len(shape_of(x)))
        ties = np.sum(hit, axis=axes, keepdims=True, dtype=wide_dtype(x))
        return hit / np.where(np.equal(ties, 0), 1, ties)

    rule = f"g to the {name[3:]}imum, shared evenly at a tie"
    return reduction(name, compute, weight, rule=rule)


_extrema = {
    "max": _present_extremum("nanmax", np.fmax, np.nanmax),
    "min": _present_extremum("nanmin", np.fmin, np.nanmin),
}


def _extremum(
    name: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    no_out(f"np.nan{name}", out)
    if dtype_of(a).kind in "fc" and initial is None and where is True:
        # Still NaN, and yet nothing flows back to it, whatever made it.
        a = np.where(np.isnan(a), np.nan, a)
        return apply(_extrema[name], (a,), settings(axis, keepdims, a))
    function, worst = (np.max, -np.inf) if name == "max" else (np.min, np.inf)
    given = {} if initial is None else {"initial": initial}
    return function(_without(a, worst), axis, keepdims=keepdims, where=where, **given)


@implements(np.nanmax)
def nanmax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.nanmax`; entries that tie share the gradient evenly."""
    return _extremum("max", a, axis, out, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.nanmin`; entries that tie share the gradient evenly."""
    return _extremum("min", a, axis, out, keepdims, initial, where)


@implements(np.nancumsum)
def nancumsum(
    a: Any, axis: int | None = None, dtype: Any = None, out: None = None
) -> Any:
    """`numpy.nancumsum`."""
    no_out("np.nancumsum", out)
    return np.cumsum(_without(a, 0), axis, dtype)


@implements(np.nancumprod)
def nancumprod(
    a: Any, axis: int | None = None, dtype: Any = None, out: None = None
) -> Any:
    """`numpy.nancumprod`."""
    no_out("np.nancumprod", out)
    return np.cumprod(_without(a, 1), axis, dtype)
