"""Order and counting: what has no derivative of its own, and sorting by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.graph.op import Op, implements
from workbench.graph.tensor import apply
from workbench.ops.define import no_out, op, shape_of
from workbench.ops.reductions import reduced_axes, settings
from workbench.ops.shaping import normal_axis

__all__: list[str] = []

Params = dict[str, Any]
Batched = tuple[bool, ...]


def _counting(name: str) -> Op:
    """Declare a reduction to booleans or integers."""
    function: Callable[..., Any] = getattr(np, name)
    made = op(name, lambda x, **params: function(x, **params))

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
        (x,) = inputs
        rank = len(shape_of(x)) - 1
        axis = params.get("axis")
        if name in ("any", "all", "count_nonzero"):
            axes = tuple(n + 1 for n in reduced_axes(axis, rank))
            return apply(made, (x,), {**params, "axis": axes})
        if axis is None:
            flat = np.reshape(x, (shape_of(x)[0], -1))
            y = apply(made, (flat,), {"axis": 1})
            kept = params.get("keepdims", False)
            return np.reshape(y, (-1, *(1,) * rank)) if kept else y
        return apply(made, (x,), {**params, "axis": axis % rank + 1})

    made.batch = batch
    return made


ANY, ALL, COUNT = _counting("any"), _counting("all"), _counting("count_nonzero")
ARGMAX, ARGMIN = _counting("argmax"), _counting("argmin")


def _predicate(
    made: Op, a: Any, axis: Any, out: Any, keepdims: bool, where: Any, neutral: bool
) -> Any:
    no_out(f"np.{made.name}", out)
    if where is not True:
        a = np.where(where, a, neutral)
    return apply(made, (a,), settings(axis, keepdims))


@implements(np.any)
def any_(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """`numpy.any`."""
    return _predicate(ANY, a, axis, out, keepdims, where, neutral=False)


@implements(np.all)
def all_(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """`numpy.all`."""
    return _predicate(ALL, a, axis, out, keepdims, where, neutral=True)


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """`numpy.count_nonzero`."""
    return apply(COUNT, (a,), settings(axis, keepdims))


@implements(np.argmax)
def argmax(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """`numpy.argmax`."""
    no_out("np.argmax", out)
    return apply(ARGMAX, (a,), settings(axis, keepdims))


@implements(np.argmin)
def argmin(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Any:
    """`numpy.argmin`."""
    no_out("np.argmin", out)
    return apply(ARGMIN, (a,), settings(axis, keepdims))


# Sorting takes entries along the order that argsort finds


def _argsort_compute(x: Any, *, axis: int, kind: Any = None) -> Any:
    return np.argsort(x, axis=axis, kind=kind)


def _argsort_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    return apply(ARGSORT, inputs, {**params, "axis": params["axis"] + 1})


ARGSORT = op("argsort", _argsort_compute, batch=_argsort_batch)


@implements(np.argsort)
def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Any:
    """`numpy.argsort`."""
    if axis is None:
        a, axis = np.ravel(a), 0
    params: Params = {"axis": normal_axis(axis, len(shape_of(a)))}
    if kind is not None or stable:
        params["kind"] = kind or "stable"
    return apply(ARGSORT, (a,), params)


@implements(np.sort)
def sort(
    a: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Any:
    """`numpy.sort`."""
    if axis is None:
        a, axis = np.ravel(a), 0
    found = np.argsort(a, axis=axis, kind=kind, stable=stable)
    return np.take_along_axis(a, found, axis)


def _searchsorted_compute(a: Any, v: Any, *, side: Any) -> Any:
    return np.searchsorted(a, v, side=side)


SEARCHSORTED = op("searchsorted", _searchsorted_compute)


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """`numpy.searchsorted`."""
    if sorter is not None:
        a = np.take(a, sorter)
    return apply(SEARCHSORTED, (a, v), {"side": side})
