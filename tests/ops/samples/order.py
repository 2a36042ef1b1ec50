"""Order: sorting, searching, medians and quantiles, what skips NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.table import Table, apart, constant

row = Table()

# Sorting

row("sort", lambda x: np.sort(x) ** 2, apart(2, 4))
row("sort axis", lambda x: np.sort(x, axis=0) * np.argsort(x, 0), apart(3, 2))
row("sort flat", lambda x: np.sort(x, axis=None, stable=True), apart(2, 2))
row("sort of complex", lambda x: np.sort(x, kind="mergesort") ** 2, apart(4), kinds="c")
row("sort of nothing", np.sort, apart(0))
row("sort of one", np.sort, apart(1))
row("sort_complex", lambda x: np.sort_complex(x) ** 2, apart(4), kinds="c")
row("partition", lambda x: np.partition(x, 2)[2] ** 2, apart(5))
row("partition axis", lambda x: np.partition(x, (0, -1), axis=0)[::3] ** 2, apart(4, 2))
row("partition flat", lambda x: np.partition(x, 1, axis=None)[1], apart(2, 2))
row(
    "argpartition",
    lambda x: x[np.argpartition(x, 1)[1]] * np.argpartition(x, 1)[1],
    apart(4),
)
row(
    "lexsort",
    lambda x, y: (
        x * y * (np.lexsort((x, y)) + 4 * np.lexsort((constant([1, 0, 1], x), y)))
    ),
    apart(3),
    apart(3),
)
row(
    "searchsorted",
    lambda x: x * np.searchsorted(constant([-1.0, 0, 1], x), x),
    apart(3),
)
row(
    "searchsorted in many",
    lambda a, x: (x + np.sum(a)) * np.searchsorted(np.sort(a), x, "right"),
    apart(4),
    apart(2, 3, shift=0.024),
)
row(
    "searchsorted sorter",
    lambda a, x: x * np.searchsorted(a, x, sorter=np.argsort(a)),
    apart(4),
    apart(3, shift=0.024),
)
row("digitize", lambda x: x * np.digitize(x, constant([1.0, 0, -1], x), True), apart(3))
row(
    "digitize in bins",
    lambda x, b: x * np.digitize(x, np.sort(b)),
    apart(3),
    apart(4, shift=0.024),
)

# Medians and quantiles

row("median of three", np.median, apart(3))
row("median axes", lambda x: np.median(x, (0, 2), keepdims=True), apart(2, 3, 2))
row("median of a number", np.median, apart())
row("nanmedian", lambda x: np.nanmedian(x, axis=1), apart(2, 4))
_METHODS: Any = (
    "linear lower higher midpoint nearest inverted_cdf averaged_inverted_cdf"
    " closest_observation interpolated_inverted_cdf hazen weibull median_unbiased"
    " normal_unbiased"
).split()
for _method in _METHODS:
    row(
        f"quantile {_method}",
        lambda x, m=_method: np.quantile(x, 0.3, axis=1, method=m) ** 2,
        apart(2, 5),
    )
row("quantiles", lambda x: np.quantile(x, [0.1, 0.5, 1.0], axis=0) ** 2, apart(5, 2))
row("quantile of all", lambda x: np.quantile(x, 0.7, keepdims=True), apart(2, 3))
row("quantile axes", lambda x: np.quantile(x, 0.7, axis=(0, -1)), apart(2, 2, 3))
row("quantile at an end", lambda x: np.quantile(x, 1), apart(3))
row(
    "quantile of a varying part",
    lambda x, q: np.quantile(x, q) * q,
    apart(5),
    lambda rng: np.array([0.3, 0.55]),
)
row("percentile", lambda x: np.percentile(x, 30, axis=1), apart(2, 4))
row("percentiles", lambda x: np.percentile(x, (20.0, 80.0)), apart(2, 4))
row(
    "quantile weights",
    lambda x, w: (
        np.quantile(x, [0.25, 0.65], axis=1, method="inverted_cdf", weights=w)
        * np.sum(w)
    ),
    apart(2, 4),
    lambda rng: np.array([1.2, 2.2, 1.6, 0.6]),
)
row("nanquantile", lambda x: np.nanquantile(x, 0.4, axis=0) ** 2, apart(4, 2))
row("nanpercentile", lambda x: np.nanpercentile(x, [40, 60]) ** 2, apart(4))
row(
    "nanquantile weights",
    lambda x: (
        np.nanquantile(
            x,
            0.6,
            0,
            method="inverted_cdf",
            weights=constant([[1.0, 2], [3, 4], [5, 6]], x),
        )
        ** 2
    ),
    apart(3, 2),
)

# NaN in the array: a constant, put where a mask says


_HOLES = np.array([[False, True, False, False], [True, False, False, True]])


def _holed(x: Any) -> Any:
    return np.where(constant(_HOLES, x), np.nan, x)


for _name in (
    "nansum nanprod nanmean nanvar nanstd nanmax nanmin nanmedian nancumsum nancumprod"
).split():
    _f = getattr(np, _name)
    row(
        f"{_name} with NaN",
        lambda x, f=_f: f(_holed(x)) ** 2,
        apart(2, 4),
    )
    row(
        f"{_name} with NaN, axis",
        lambda x, f=_f: f(_holed(x), axis=1) ** 2,
        apart(2, 4),
    )
row(
    "nansum of complex",
    lambda x: (
        np.nansum(_holed(x)) + np.nanmean(x, where=~_HOLES) * np.nanvar(_holed(x))
    ),
    apart(2, 4),
    kinds="c",
)
row(
    "nanmax where",
    lambda x: (
        np.nanmax(_holed(x), axis=1, initial=-9, where=constant(_HOLES[::-1], x)) * 2.0
    ),
    apart(2, 4),
)
row(
    "nanvar ddof",
    lambda x: np.nanvar(_holed(x), 1, ddof=1) + np.nanstd(_holed(x), 1, correction=1),
    apart(2, 4),
)
row(
    "nanquantile with NaN",
    lambda x: np.nanquantile(_holed(x), [0.2, 0.9], axis=1) ** 2,
    apart(2, 4),
)
row(
    "nanargmax",
    lambda x: x * np.nanargmax(_holed(x)) * np.nanargmin(_holed(x), 1, keepdims=True),
    apart(2, 4),
)
