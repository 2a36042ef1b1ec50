"""Reductions, scans along an axis, and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.tensor.lifting import (
    Function,
    Table,
    axes,
    documented,
    lift,
)
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import UsageError
from workbench.ops import products

__all__ = ["TABLE", "max_and_argmax", "norm", "topk_and_argtopk"]


def _reduction(function: Callable[..., Any], name: str) -> Function:
    def call(
        input: ArrayLike,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        keepdims: bool = False,
        acc_dtype: npt.DTypeLike | None = None,
    ) -> Array:
        return lift(
            function(
                as_tensor_variable(input), axis=axes(axis), dtype=acc_dtype or dtype,
                keepdims=keepdims,
            )
        )  # fmt: skip

    return documented(call, name, f"numpy.{function.__name__}")


def _choice(function: Callable[..., Any], name: str) -> Function:
    def call(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
        return lift(function(as_tensor_variable(x), axis=axes(axis), keepdims=keepdims))

    return documented(call, name, f"numpy.{function.__name__}")


def _spread(function: Callable[..., Any], name: str) -> Function:
    def call(
        input: ArrayLike,
        axis: Axis = None,
        ddof: int = 0,
        keepdims: bool = False,
        corrected: bool = False,
    ) -> Array:
        # `corrected` chooses another formula of the same number.
        x = as_tensor_variable(input)
        return lift(function(x, axis=axes(axis), ddof=ddof, keepdims=keepdims))

    return documented(call, name, f"numpy.{function.__name__}")


def prod(
    input: Any,
    axis: Any = None,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
    acc_dtype: npt.DTypeLike | None = None,
    no_zeros_in_input: bool = False,
) -> Array:
    """Multiply along axes; the gradient is always right where entries are 0."""
    x = as_tensor_variable(input)
    return lift(
        np.prod(x, axis=axes(axis), dtype=acc_dtype or dtype, keepdims=keepdims)
    )


def argmax(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return the index of the greatest entry, along several axes too."""
    return _where_best(np.argmax, x, axis, keepdims)


def argmin(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return the index of the least entry, along several axes too."""
    return _where_best(np.argmin, x, axis, keepdims)


def _where_best(
    function: Callable[..., Any], x: Any, axis: Any, keepdims: bool
) -> Array:
    x, axis = as_tensor_variable(x), axes(axis)
    if not isinstance(axis, tuple):
        return lift(function(x, axis=axis, keepdims=keepdims))
    chosen = sorted(n % x.ndim for n in axis)
    if len(chosen) == x.ndim:
        return lift(function(x, keepdims=keepdims))
    # The axes together as one: the index counts within them, in C order.
    kept = [n for n in range(x.ndim) if n not in chosen]
    moved = np.transpose(x, (*kept, *chosen))
    flat = np.reshape(moved, (*moved.shape[: len(kept)], -1))
    found = function(flat, axis=-1)
    return lift(np.expand_dims(found, tuple(chosen)) if keepdims else found)


def max_and_argmax(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the greatest entries and where they stand."""
    best = np.max(as_tensor_variable(a), axis=axes(axis), keepdims=keepdims)
    return [lift(best), argmax(a, axis, keepdims)]


def norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False) -> Array:
    """Return the norm of order ``ord`` of all entries, or along axes.

    Order 0 counts what is not 0; infinity and minus infinity are the greatest and the
    least modulus.
    """
    size = np.abs(as_tensor_variable(x))
    how: dict[str, Any] = {"axis": axes(axis), "keepdims": keepdims}
    if ord in (np.inf, "inf"):
        return lift(np.max(size, **how))
    if ord in (-np.inf, "-inf"):
        return lift(np.min(size, **how))
    if ord == 0:
        return lift(np.sum(np.not_equal(size, 0), **how))
    if ord == 1:
        return lift(np.sum(size, **how))
    if ord == 2:
        # np.linalg.norm has the gradient 0 at 0, where a root has none.
        flat = np.ravel(size) if axis is None else size
        found = np.linalg.norm(flat, axis=None if axis is None else axes(axis))
        if keepdims:
            lost: Any = tuple(range(size.ndim)) if axis is None else axes(axis)
            found = np.expand_dims(found, lost)
        return lift(found)
    return lift(np.sum(size**ord, **how) ** (1.0 / ord))


def cumsum(x: Any, axis: Any = None) -> Array:
    """Return cumulative sums along an axis, as `numpy.cumsum` does."""
    return lift(np.cumsum(as_tensor_variable(x), axis=axis))


def cumprod(x: Any, axis: Any = None) -> Array:
    """Return cumulative products along an axis, as `numpy.cumprod` does."""
    return lift(np.cumprod(as_tensor_variable(x), axis=axis))


def ptp(a: ArrayLike, axis: Axis = None) -> Array:
    """Return the greatest entry less the least, as `numpy.ptp` does."""
    return lift(np.ptp(as_tensor_variable(a), axis=axis))


def sort(
    x: Any,
    axis: Any = -1,
    kind: Any = "quicksort",
    order: str | None = None,
) -> Array:
    """Sort along an axis, as `numpy.sort` does."""
    return lift(np.sort(as_tensor_variable(x), axis=axis, kind=kind))


def argsort(
    x: Any,
    axis: Any = -1,
    kind: Any = "quicksort",
    order: str | None = None,
    **settings: Any,
) -> Array:
    """Return the indices that would sort an axis, as `numpy.argsort` does."""
    if "stable" not in settings:  # NumPy takes one of the two
        settings["kind"] = kind
    return lift(np.argsort(as_tensor_variable(x), axis=axis, **settings))


def topk_and_argtopk(
    x: Any,
    kth: int,
    axis: int | None = -1,
    sorted: bool = True,
    idx_dtype: str = "int64",
) -> Any:
    """Return the ``kth`` greatest entries (the least if negative) and their indices."""
    x = as_tensor_variable(x)
    if axis is None:
        x, axis = np.ravel(x), 0
    if not isinstance(kth, (int, np.integer)) or kth == 0:
        raise UsageError(f"topk: kth is a count other than 0, not {kth!r}.")
    order = np.argsort(x, axis=axis, kind="stable")
    places = np.arange(-1, -kth - 1, -1) if kth > 0 else np.arange(-kth)
    where = np.take(order, places, axis=axis)
    return [
        lift(np.take_along_axis(x, where, axis=axis)),
        lift(where).astype(idx_dtype),
    ]


def topk(x: ArrayLike, kth: int, axis: int | None = -1, sorted: bool = True) -> Array:
    """Return the ``kth`` greatest entries along an axis, or the least if negative."""
    return topk_and_argtopk(x, kth, axis)[0]


def argtopk(
    x: ArrayLike,
    kth: int,
    axis: int | None = -1,
    sorted: bool = True,
    idx_dtype: str = "int64",
) -> Array:
    """Return where the ``kth`` greatest entries along an axis stand."""
    return topk_and_argtopk(x, kth, axis, sorted, idx_dtype)[1]


def prod_without_zeros(
    input: Any,
    axis: Any = None,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Return the product of the entries that are not 0."""
    x = as_tensor_variable(input)
    return lift(products.prod_without_zeros(x, axes(axis), dtype, keepdims))


TABLE: Table = {
    "sum": _reduction(np.sum, "sum"),
    "mean": _reduction(np.mean, "mean"),
    "prod": prod,
    "var": _spread(np.var, "var"),
    "std": _spread(np.std, "std"),
    "argmax": argmax,
    "argmin": argmin,
    "max_and_argmax": max_and_argmax,
    "norm": norm,
    "cumsum": cumsum,
    "cumprod": cumprod,
    "ptp": ptp,
    "sort": sort,
    "argsort": argsort,
    "topk": topk,
    "argtopk": argtopk,
    "topk_and_argtopk": topk_and_argtopk,
    "prod_without_zeros": prod_without_zeros,
}
TABLE |= {name: _choice(getattr(np, name), name) for name in "max min all any".split()}
