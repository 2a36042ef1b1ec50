"""Arrays as sets: which entries stay is found on values, and those are gathered.

The gradient of an entry of the result goes to the first entry that is equal to it.
`numpy.unique` itself stands with what takes entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit, apply
from workbench.ops.define import op, shape_of
from workbench.ops.values import beside, known

__all__: list[str] = []

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
def unique_all(x: Any) -> UniqueAllResult:
    """`numpy.unique_all`."""
    return UniqueAllResult(*np.unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: Any) -> UniqueCountsResult:
    """`numpy.unique_counts`."""
    return UniqueCountsResult(*np.unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Any) -> UniqueInverseResult:
    """`numpy.unique_inverse`."""
    return UniqueInverseResult(*np.unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_values)
def unique_values(x: Any) -> Any:
    """`numpy.unique_values`, sorted."""
    return np.unique(x, equal_nan=False)


@implements(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    """`numpy.union1d`."""
    return np.unique(np.concatenate([np.ravel(admit(ar1)), np.ravel(admit(ar2))]))


@implements(np.intersect1d)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """`numpy.intersect1d`; the values are those of the first array."""
    first = np.ravel(admit(ar1))
    _, i, j = np.intersect1d(
        known(first, "np.intersect1d", _CURE),
        known(admit(ar2), "np.intersect1d", _CURE),
        assume_unique,
        return_indices=True,
    )
    return (first[i], i, j) if return_indices else first[i]


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """`numpy.setdiff1d`."""
    first = np.ravel(admit(ar1))
    if not assume_unique:
        first = np.unique(first)
    value = known(first, "np.setdiff1d", _CURE)
    other = known(admit(ar2), "np.setdiff1d", _CURE)
    (kept,) = np.nonzero(~np.isin(value, other))
    return first[kept]


@implements(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """`numpy.setxor1d`."""
    parts = [np.ravel(admit(x)) for x in (ar1, ar2)]
    if not assume_unique:
        parts = [np.unique(x) for x in parts]
    both = np.concatenate(parts)
    value = known(both, "np.setxor1d", _CURE)
    _, index, count = np.unique(value, return_index=True, return_counts=True)
    return both[index[count == 1]]


# isin


def _isin_compute(element: Any, among: Any, *, invert: bool = False) -> Any:
    return np.isin(element, among, invert=invert)


def _isin_batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
) -> Any:
    element, among = inputs
    if not batched[1]:
        return apply(ISIN, inputs, params)
    rows = [
        apply(ISIN, (element[k] if batched[0] else element, among[k]), params)
        for k in range(shape_of(among)[0])
    ]
    return np.stack(rows)


ISIN = op("isin", _isin_compute, batch=_isin_batch)


@implements(np.isin)
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Any:
    """`numpy.isin`."""
    params = {"invert": True} if invert else {}
    return apply(
        ISIN, (element := admit(element), beside(test_elements, element)), params
    )


# trim_zeros


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """`numpy.trim_zeros`."""
    filt = admit(filt)
    value = known(filt, "np.trim_zeros", "Write x[start:stop].")
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
