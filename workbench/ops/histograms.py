"""Histograms: counts have no derivative; weights and the ends of the range do.

Edges that are made from the range follow its ends, and with ``density=True`` the
heights follow the widths. Which bin an entry falls into is found by a search.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit, value_of
from workbench.ops.define import beside, dtype_of, known, placed, shape_of
from workbench.ops.updates import at

# bincount


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """`numpy.bincount`; differentiable in the weights.

    Raises
    ------
    TraceError
        Where ``x`` has no values, which say how many bins there are.
    """
    cure = "Write wb.at(np.zeros(n))[x].add(weights), with n bins."
    value = known(admit(x), "np.bincount", cure)
    counts = np.bincount(value, minlength=minlength)
    if weights is None:
        return counts
    weights = admit(weights)
    if shape_of(weights) != shape_of(value):
        raise ValueError("The weights and list don't have the same length.")
    none = np.zeros_like(weights, dtype=np.float64, shape=shape_of(counts))
    return at(none)[value].add(weights.astype(np.float64))


# The edges of the bins


def _ends(a: Any, range: Any) -> tuple[Any, Any]:
    """The outer edges; around a single value half a unit to each side."""
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


def _edges(a: Any, bins: Any, range: Any, weights: Any = None) -> Any:
    """The edges of the bins, as Tensors where their ends are."""
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(
                "Automated estimation of the number of bins is not supported for"
                " weighted data"
            )
        cure = "Write bins=10, or the edges."
        value = known(a, f"np.histogram with bins={bins!r}", cure)
        limits = None if range is None else tuple(map(value_of, map(admit, range)))
        bins = shape_of(np.histogram_bin_edges(value, bins, limits))[0] - 1
    bins = beside(bins, a)
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
    return placed(edges, a)


def _bins(a: Any, edges: Any) -> Any:
    """The bin of each entry; one more than there are for what is outside."""
    number = shape_of(edges)[0] - 1
    place = np.searchsorted(edges, a, "right") - 1
    place = np.where(np.equal(a, edges[number]), number - 1, place)
    return np.where(place < 0, number, place)


def _filled(place: Any, weights: Any, number: int, like: Any) -> Any:
    """The sums over the bins."""
    if weights is None:
        none = np.zeros_like(like, dtype=np.intp, shape=(number + 1,))
        return at(none)[place].add(1)[:number]
    none = np.zeros_like(weights, shape=(number + 1,))
    return at(none)[place].add(weights)[:number]


@implements(np.histogram_bin_edges)
def histogram_bin_edges(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None
) -> Any:
    """`numpy.histogram_bin_edges`; they follow the smallest and largest entry."""
    return _edges(np.ravel(admit(a)), bins, range, weights)


@implements(np.histogram)
def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any]:
    """`numpy.histogram`; differentiable in the weights, and in the edges for a density.

    >>> import numpy as np, workbench as wb
    >>> x = np.array([0.5, 1.5, 1.7])
    >>> f = lambda w: np.histogram(x, 2, (0, 2), weights=w)[0]
    >>> wb.jacobian(f)(np.array([1.0, 2.0, 4.0]))
    array([[1., 0., 0.],
           [0., 1., 1.]])
    """
    a = admit(a)
    weights = beside(weights, a)
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
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, list[Any]]:
    """`numpy.histogramdd`."""
    if isinstance(sample, (list, tuple)) or len(shape_of(sample)) != 2:
        sample = np.transpose(np.atleast_2d(_rows(sample)))
    rank = shape_of(sample)[1]
    weights = beside(weights, sample)
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


def _rows(sample: Any) -> Any:
    if isinstance(sample, (list, tuple)):
        return np.stack([admit(x) for x in sample])
    return sample


@implements(np.histogram2d)
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any, Any]:
    """`numpy.histogram2d`."""
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
