"""Sorting, counting and sets: ops that order entries and have no derivative.

The order of entries is an array of integers, which has no derivative; sorted
values are gathered along it, so the gradient goes back to where each came from.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.core.deferred import operand_shape
from workbench.core.op import Op, implements, note_traits
from workbench.core.tensor import admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Axis, Batched, Params, Spec
from workbench.ops.define import (
    Compute,
    admit_like,
    convert_like,
    dtype_of,
    op,
    require_value,
    shape_of,
    shape_of_first,
)
from workbench.ops.device import make_zeros, on_cupy
from workbench.ops.reductions import (
    batch_reduction,
    can_reduce,
    lengths_of,
    settings,
)
from workbench.ops.shaping import as_integers, normal_axis
from workbench.ops.taking import take_along
from workbench.ops.updates import at

#: NumPy's algorithms of sorting.
SortKind = Literal["quicksort", "mergesort", "heapsort", "stable"] | None


def _count_body(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Any:
    if 0 in shape_of(x):
        return None
    return np.sum(np.not_equal(x, 0), axis=axis, keepdims=keepdims)


def _truth_body(function: Compute) -> Compute:
    """Return how all or any of numbers is that of booleans."""

    def body(x: Array, **params: Any) -> Any:
        return None if dtype_of(x).kind == "b" else function(x != 0, **params)

    return body


def _place_body(extremum: Compute) -> Compute:
    """Return how the place of the first extreme entry is found; a NaN is one."""

    def body(x: Array, *, axis: int | None = None, keepdims: bool = False) -> Any:
        if not can_reduce(x, "fiub"):
            return None
        shape = shape_of(x)
        if axis is None:
            made = body(np.reshape(x, (math.prod(shape),)), axis=0)
            return np.reshape(made, (1,) * len(shape)) if keepdims else made
        x = x.astype(np.uint8) if x.dtype.kind == "b" else x
        hit = np.equal(x, extremum(x, axis=axis, keepdims=True))
        if x.dtype.kind == "f":
            hit = hit | np.isnan(x)
        line = [1] * len(shape)
        line[axis] = length = shape[axis]
        places = np.arange(length).reshape(line)  # host array: positions
        return np.min(np.where(hit, places, length), axis=axis, keepdims=keepdims)

    return body


def _counting(name: str, **more: Any) -> Op:
    """Declare a reduction to booleans or integers."""
    function: Callable[..., Any] = getattr(np, name)
    made = op(name, function, lengths=lengths_of(function), kind="reduction", **more)

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        (x,) = inputs
        rank = len(shape_of(x)) - 1
        axis = params.get("axis")
        if axis is None:
            flat = np.reshape(x, (shape_of(x)[0], -1))
            y = apply(made, (flat,), {"axis": 1})
            kept = params.get("keepdims", False)
            return np.reshape(y, (-1, *(1,) * rank)) if kept else y
        return apply(made, (x,), {**params, "axis": axis % rank + 1})

    made.batch = batch if "arg" in name else batch_reduction(made)
    return made


def _answer_counting(name: str, neutral: bool = False, **more: Any) -> None:
    """Answer NumPy's function by the op; ``neutral`` fills in for ``where=``."""
    made = _counting(name, **more)

    @implements(getattr(np, name))
    def answer(
        a: Array,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Array | bool = True,
    ) -> Array:
        if where is not True:
            a = np.where(where, a, neutral)
        return apply(made, (a,), settings(axis, keepdims, a))


_answer_counting("any", False, combines=np.logical_or, unfold=_truth_body(np.any))
_answer_counting("all", True, combines=np.logical_and, unfold=_truth_body(np.all))
_answer_counting("count_nonzero", unfold=_count_body)
_answer_counting("argmax", unfold=_place_body(np.max))
_answer_counting("argmin", unfold=_place_body(np.min))
_answer_counting("nanargmax")
_answer_counting("nanargmin")
note_traits("argmax argmin nanargmax nanargmin", flat="position")
note_traits("argmax", picks=">")
note_traits("argmin", picks="<")


# Sorting takes entries along the order that argsort finds


ARGSORT = op(
    "argsort",
    np.argsort,
    batch="shifted",
    lengths=shape_of_first,
    kind="order",
    flat="position",
)


@implements(np.argsort)
def argsort(
    a: Array,
    axis: int | None = -1,
    kind: SortKind = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Array:
    """Return the indices that would sort an axis, as `numpy.argsort` does."""
    if axis is None:
        a, axis = np.ravel(a), 0
    params: Params = {"axis": normal_axis(axis, len(shape_of(a)))}
    if kind is not None or stable:
        params["kind"] = kind or "stable"
    return apply(ARGSORT, (a,), params)


@implements(np.sort)
def sort(
    a: Array,
    axis: int | None = -1,
    kind: SortKind = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Array:
    """Sort along an axis, as `numpy.sort` does."""
    if axis is None:
        a, axis = np.ravel(a), 0
    found = np.argsort(a, axis=axis, kind=kind, stable=stable)
    return take_along(a, found, axis, order="K")


@implements(np.sort_complex)
def sort_complex(a: Array) -> Array:
    """Sort along the last axis, and return complex numbers."""
    y = np.sort(a)
    kind = dtype_of(y).kind
    if kind == "c":
        return y
    small = kind in "iu" and dtype_of(y).itemsize < 4
    return y.astype(np.complex64 if small else np.complex128)


def _argpartition_lengths(x: Array, *, kth: Sequence[int], axis: int) -> Spec:
    length = shape_of(x)[axis]
    if type(length) is int and any(not -length <= k < length for k in kth):
        raise ValueError(f"kth={kth} is out of bounds ({length})")
    return Spec(shape_of(x), np.dtype(np.intp))


ARGPARTITION = op(
    "argpartition",
    np.argpartition,
    batch="shifted",
    lengths=_argpartition_lengths,
    kind="order",
)


@implements(np.argpartition)
def argpartition(
    a: Array,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:
    """Return the indices that would partition an axis at ``kth``."""
    if axis is None:
        a, axis = np.ravel(a), 0
    params = {"kth": as_integers(kth), "axis": normal_axis(axis, len(shape_of(a)))}
    return apply(ARGPARTITION, (a,), params)


@implements(np.partition)
def partition(
    a: Array,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:
    """Move the entries at ``kth`` to where a sort would put them."""
    if axis is None:
        a, axis = np.ravel(a), 0
    found = np.argpartition(a, kth, axis=axis, kind=kind)
    return take_along(a, found, axis, order="K")


def _lexsort_compute(*keys: Any, axis: int) -> Array:
    return np.lexsort(keys, axis=axis)


def _lexsort_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    first = batched.index(True)
    like = inputs[first]
    keys = tuple(
        x if b else np.broadcast_to(x, shape_of(like))
        for x, b in zip(inputs, batched, strict=True)
    )
    return apply(LEXSORT, keys, {"axis": params["axis"] + 1})


LEXSORT = op(
    "lexsort",
    _lexsort_compute,
    batch=_lexsort_batch,
    lengths=lambda *keys, axis: Spec(shape_of(keys[0]), np.dtype(np.intp)),
    template="np.lexsort([{all}]{more})",
    kind="order",
)


@on_cupy(LEXSORT)
def _lexsort_on_cupy(*keys: Any, axis: int) -> Array:
    """Sort by one key after the other; CuPy's takes one axis, and keys of one dtype."""
    order = np.argsort(keys[0], axis=axis, kind="stable")
    for key in keys[1:]:
        now = np.take_along_axis(key, order, axis)
        step = np.argsort(now, axis=axis, kind="stable")
        order = np.take_along_axis(order, step, axis)
    return order


@implements(np.lexsort)
def lexsort(keys: Iterable[Any], axis: int = -1) -> Array:
    """Return the indices that sort by the last key, then by the one before."""
    keys = tuple(map(admit, keys))
    axis = normal_axis(axis, len(shape_of(keys[0])))
    return apply(LEXSORT, keys, {"axis": axis})


# Where a value would be inserted


def _searching(name: str, compute: Compute, line: int) -> Op:
    """Declare a search in a sorted line, one result for each value sought.

    ``line`` is the position of the sorted operand among the two.
    """
    made = op(name, compute, flat="position")

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        # NumPy searches one line at a time.
        return NotImplemented if batched[line] else apply(made, inputs, params)

    def infer(*operands: Any, **params: Any) -> Spec:
        if len(shape_of(operands[line])) != 1:
            raise ValueError("object of too small depth for desired array")
        return Spec(shape_of(operands[1 - line]), np.dtype(np.intp))

    made.batch, made.infer = batch, infer
    return made


SEARCHSORTED = _searching("searchsorted", np.searchsorted, 0)
DIGITIZE = _searching("digitize", np.digitize, 1)


@implements(np.searchsorted)
def searchsorted(
    a: Array, v: Array, side: str = "left", sorter: Array | None = None
) -> Array:
    """Return where values would be inserted to keep ``a`` sorted."""
    if sorter is not None:
        a = np.take(a, sorter)
    return apply(SEARCHSORTED, (admit(a), admit(v)), {"side": side})


@implements(np.digitize)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """Return the number of the bin of each entry, as `numpy.digitize` does."""
    return apply(DIGITIZE, (admit(x), admit(bins)), {"right": bool(right)})


# Arrays as sets: which entries stay is found on values, and those are gathered.
#
# The gradient of an entry of the result goes to the first entry that is equal to it.
# `numpy.unique` itself stands with what takes entries.

_CURE = "Write np.isin or comparisons and np.where, which keep the shape."


class UniqueAllResult(NamedTuple):
    """What `numpy.unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `numpy.unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `numpy.unique_inverse` returns."""

    values: Any
    inverse_indices: Any


@implements(np.unique_all)
def unique_all(x: Array) -> UniqueAllResult:
    """Return unique values, their indices, the inverse and the counts."""
    return UniqueAllResult(*np.unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: Array) -> UniqueCountsResult:
    """Return unique values and how often each occurs."""
    return UniqueCountsResult(*np.unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Array) -> UniqueInverseResult:
    """Return unique values, and the index of each entry among them."""
    return UniqueInverseResult(*np.unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_values)
def unique_values(x: Array) -> Array:
    """Return the unique values, sorted."""
    return np.unique(x, equal_nan=False)


@implements(np.union1d)
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Return the unique values of both arrays, as `numpy.union1d` does."""
    return np.unique(np.concatenate([np.ravel(admit(ar1)), np.ravel(admit(ar2))]))


@implements(np.intersect1d)
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
) -> Array | tuple[Array, ...]:
    """Return the values that both arrays have, taken from the first."""
    first = np.ravel(admit(ar1))
    _, i, j = np.intersect1d(
        require_value(first, "np.intersect1d", _CURE),
        require_value(admit(ar2), "np.intersect1d", _CURE),
        assume_unique,
        return_indices=True,
    )
    return (first[i], i, j) if return_indices else first[i]


@implements(np.setdiff1d)
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the values that only the first array has."""
    first = np.ravel(admit(ar1))
    if not assume_unique:
        first = np.unique(first)
    value = require_value(first, "np.setdiff1d", _CURE)
    other = require_value(admit(ar2), "np.setdiff1d", _CURE)
    (kept,) = np.nonzero(~np.isin(value, other))
    return first[kept]


@implements(np.setxor1d)
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the values that only one of two arrays has."""
    parts = [np.ravel(admit(x)) for x in (ar1, ar2)]
    if not assume_unique:
        parts = [np.unique(x) for x in parts]
    both = np.concatenate(parts)
    value = require_value(both, "np.setxor1d", _CURE)
    _, index, count = np.unique(value, return_index=True, return_counts=True)
    return both[index[count == 1]]


# isin


def _isin_batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
) -> Array:
    return NotImplemented if batched[1] else apply(ISIN, inputs, params)


ISIN = op(
    "isin",
    np.isin,
    batch=_isin_batch,
    lengths=lambda x, *_, **settings: Spec(shape_of(x), np.dtype(bool)),
)


@implements(np.isin)
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Return which entries are among others, as `numpy.isin` does."""
    params = {"invert": True} if invert else {}
    return apply(
        ISIN, (element := admit(element), admit_like(test_elements, element)), params
    )


# trim_zeros


@implements(np.trim_zeros)
def trim_zeros(filt: Array, trim: str = "fb", axis: Axis = None) -> Array:
    """Cut zeros off the ends, as `numpy.trim_zeros` does."""
    filt = admit(filt)
    value = require_value(filt, "np.trim_zeros", "Write x[start:stop].")
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    rank = len(shape_of(filt))
    if axis is None:
        axes = tuple(range(rank))
    else:
        axes = np.lib.array_utils.normalize_axis_tuple(axis, rank)
    places = np.nonzero(value)
    index = []
    for n in range(rank):
        if n not in axes:
            index.append(slice(None))
        elif not shape_of(places[n])[0]:
            index.append(slice(0, 0))
        else:
            start, stop = int(np.min(places[n])), int(np.max(places[n])) + 1
            index.append(
                slice(start if "f" in trim else None, stop if "b" in trim else None)
            )
    return filt[tuple(index)]


# Histograms: counts have no derivative; weights and the ends of the range do.
#
# Edges that are made from the range follow its ends, and with ``density=True`` the
# heights follow the widths. Which bin an entry falls into is found by a search.

# bincount


@implements(np.bincount)
def bincount(
    x: ArrayLike, /, weights: Array | None = None, minlength: int = 0
) -> Array:
    """Count each integer, or sum weights; the sums are differentiable in the weights.

    Raises
    ------
    TraceError
        Where ``x`` has no values, which say how many bins there are.
    """
    cure = "Write wb.at(np.zeros(n))[x].add(weights), with n bins."
    value = require_value(admit(x), "np.bincount", cure)
    counts = np.bincount(value, minlength=minlength)
    if weights is None:
        return counts
    weights = admit(weights)
    if shape_of(weights) != shape_of(value):
        raise ValueError("The weights and list don't have the same length.")
    none = make_zeros(weights, shape_of(counts), np.float64)
    return at(none)[value].add(weights.astype(np.float64))


# The edges of the bins


def _ends(a: Array, range: Sequence[ArrayLike] | None) -> tuple[Any, Any]:
    """Return the outer edges; around a single value half a unit to each side."""
    low: Any
    high: Any
    if range is not None:
        low, high = map(admit, range)
        known_ends = [value_of(x) for x in (low, high)]
        if all(x is not None for x in known_ends):
            if known_ends[0] > known_ends[1]:
                raise ValueError("max must be larger than min in range parameter.")
            if not np.all(np.isfinite(known_ends)):
                raise ValueError(
                    f"supplied range of [{known_ends[0]}, {known_ends[1]}] is not"
                    " finite"
                )
    elif 0 in shape_of(a):
        low, high = 0.0, 1.0
    else:
        low, high = np.min(a), np.max(a)
        found = [value_of(x) for x in (low, high)]
        if found[0] is not None and not all(bool(np.isfinite(x)) for x in found):
            raise ValueError(
                f"autodetected range of [{found[0]}, {found[1]}] is not finite"
            )
    if isinstance(low, (int, float)) and isinstance(high, (int, float)):
        return (low - 0.5, high + 0.5) if low == high else (low, high)
    single = np.equal(low, high)
    return np.where(single, low - 0.5, low), np.where(single, high + 0.5, high)


def _edges(
    a: Array,
    bins: Any,
    range: Sequence[ArrayLike] | None,
    weights: Array | None = None,
) -> Array:
    """Return the edges of the bins, as Tensors where their ends are."""
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(
                "Automated estimation of the number of bins is not supported for"
                " weighted data"
            )
        cure = "Write bins=10, or the edges."
        value = require_value(a, f"np.histogram with bins={bins!r}", cure)
        limits = None if range is None else tuple(map(value_of, map(admit, range)))
        bins = shape_of(np.histogram_bin_edges(value, bins, limits))[0] - 1
    bins = admit_like(bins, a)
    if len(shape_of(bins)) == 1:
        value = value_of(bins)
        if value is not None and bool(np.any(value[:-1] > value[1:])):
            raise ValueError("`bins` must increase monotonically, when an array")
        return bins
    if len(shape_of(bins)) > 1:
        raise ValueError("`bins` must be 1d, when an array")
    try:
        number = operator.index(bins)
    except TypeError as error:
        raise TypeError("`bins` must be an integer, a string, or an array") from error
    if number < 1:
        raise ValueError("`bins` must be positive, when an integer")
    low, high = _ends(a, range)
    kind = np.result_type(low, high, dtype_of(a))
    kind = np.result_type(kind, float) if kind.kind in "biu" else kind
    edges = np.linspace(low, high, number + 1, dtype=kind)  # host array: of numbers
    return convert_like(edges, a)


def _bins(a: Array, edges: Array) -> Array:
    """Return the bin of each entry; the number of bins marks an entry outside."""
    number = shape_of(edges)[0] - 1
    place = np.searchsorted(edges, a, "right") - 1
    place = np.where(np.equal(a, edges[number]), number - 1, place)
    return np.where(place < 0, number, place)


def _filled(place: Array, weights: Array | None, number: int, like: Array) -> Array:
    """Return the sums over the bins."""
    if weights is None:
        none = np.zeros_like(like, dtype=np.intp, shape=(number + 1,))
        return at(none)[place].add(1)[:number]
    none = np.zeros_like(weights, shape=(number + 1,))
    return at(none)[place].add(weights)[:number]


@implements(np.histogram_bin_edges)
def histogram_bin_edges(
    a: Array,
    bins: Any = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: Array | None = None,
) -> Array:
    """Return the edges of bins; they follow the smallest and largest entry."""
    return _edges(np.ravel(admit(a)), bins, range, weights)


def _histogram_lengths(
    a: Array, bins: Any = 10, *rest: Any, **settings: Any
) -> list[tuple[Any, ...]]:
    found = operand_shape(bins)
    edges = found[0] if found else bins + 1 if isinstance(bins, int) else None
    return [(None if edges is None else edges - 1,), (edges,)]


@implements(np.histogram, lengths=_histogram_lengths)
def histogram(
    a: Array,
    bins: Any = 10,
    range: Sequence[ArrayLike] | None = None,
    density: bool | None = None,
    weights: Array | None = None,
) -> tuple[Any, Any]:
    """Count in bins, differentiable in the weights; a density in the edges too.

    >>> import numpy as np, workbench as wb
    >>> x = np.array([0.5, 1.5, 1.7])
    >>> f = lambda w: np.histogram(x, 2, (0, 2), weights=w)[0]
    >>> wb.jacobian(f)(np.array([1.0, 2.0, 4.0]))
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """
    a = admit(a)
    weights = admit_like(weights, a)
    if weights is not None and shape_of(weights) != shape_of(a):
        raise ValueError("weights should have the same shape as a.")
    a = np.ravel(a)
    if dtype_of(a).kind == "b":
        a = a.astype(np.uint8)
    edges = _edges(a, bins, range, weights)
    number = shape_of(edges)[0] - 1
    heavy = None if weights is None else np.ravel(weights)
    counts = _filled(_bins(a, edges), heavy, number, a)
    if density:
        return counts / np.diff(edges).astype(float) / np.sum(counts), edges
    return counts, edges


@implements(np.histogramdd)
def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    density: bool | None = None,
    weights: Array | None = None,
) -> tuple[Any, list[Any]]:
    """Count points in bins of several axes, as `numpy.histogramdd` does."""
    if isinstance(sample, (list, tuple)) or len(shape_of(sample)) != 2:
        sample = np.transpose(np.atleast_2d(_rows(sample)))
    rank = shape_of(sample)[1]
    weights = admit_like(weights, sample)
    try:
        several = list(bins)
    except TypeError:
        several = [bins] * rank
    if len(several) != rank:
        raise ValueError(
            "The dimension of bins must be equal to the dimension of the sample x."
        )
    limits = [None] * rank if range is None else list(range)
    if len(limits) != rank:
        raise ValueError("range argument must have one entry per dimension")
    columns = [sample[:, n] for n, _ in enumerate(several)]
    edges = []
    for column, part, limit in zip(columns, several, limits, strict=True):
        made = _edges(column, part, limit)
        exact = np.ndim(part) > 0
        edges.append(made if exact else made.astype(np.float64))
    lengths = [shape_of(e)[0] - 1 for e in edges]
    total = 1
    for n in lengths:
        total *= n
    place: Any = 0
    outside: Any = False
    for column, made, n in zip(columns, edges, lengths, strict=True):
        here = _bins(column, made)
        outside = outside | np.equal(here, n)
        place = place * n + here
    place = np.where(outside, total, place)
    heavy = None if weights is None else weights.astype(np.float64)
    flat = _filled(place, heavy, total, sample)
    counts = np.reshape(flat, tuple(lengths)).astype(float)
    if density:
        whole = np.sum(counts)
        for n, made in enumerate(edges):
            line = tuple(-1 if i == n else 1 for i, _ in enumerate(edges))
            counts = counts / np.reshape(np.diff(made), line)
        counts = counts / whole
    return counts, edges


def _rows(sample: Any) -> Array:
    if isinstance(sample, (list, tuple)):
        return np.stack([admit(x) for x in sample])
    return sample


@implements(np.histogram2d)
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    density: bool | None = None,
    weights: Array | None = None,
) -> tuple[Any, Any, Any]:
    """Count points in bins of two axes, as `numpy.histogram2d` does."""
    x, y = admit(x), admit(y)
    if shape_of(x) != shape_of(y):
        raise ValueError("x and y must have the same length.")
    try:
        parts = len(bins)
    except TypeError:
        parts = 1
    if parts not in (1, 2):
        bins = [admit(bins)] * 2
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second
