"""Reductions that skip NaN: it is replaced by what changes nothing.

A NaN has gradient 0, in both modes and in all orders, since what flows through
`where` is masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.graph.op import implements
from workbench.ops.define import dtype_of, no_out

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
    return np.sum(
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
    return np.prod(
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
    return np.mean(_without(a, 0), axis, dtype, keepdims=keepdims, where=there)


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
    return np.var(
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
    return np.std(
        _without(a, 0), axis, dtype, None, ddof, keepdims, where=there, mean=mean
    )


def _extremum(
    name: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    no_out(f"np.nan{name}", out)
    function, worst = (np.max, -np.inf) if name == "max" else (np.min, np.inf)
    given = {} if initial is None else {"initial": initial}
    y = function(_without(a, worst), axis, keepdims=keepdims, where=where, **given)
    if dtype_of(a).kind not in "fc" or initial is not None:
        return y
    nothing = np.all(np.isnan(a), axis=axis, keepdims=keepdims)
    return np.where(nothing, np.nan, y)


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
