"""Reductions, and running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples.table import Table, apart, constant, positive
from workbench.ops.reductions import logsumexp

row = Table()

_REDUCED: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "var": np.var,
    "std": np.std,
    "logsumexp": logsumexp,
    "ptp": np.ptp,
    "median": np.median,
    "average": np.average,
}
for _name, _f in _REDUCED.items():
    _kinds = "fc" if _name in ("sum", "mean", "prod", "var", "std") else "f"
    row(_name, _f, apart(2, 3), kinds=_kinds)
    row(f"{_name} axis=0", lambda x, f=_f: f(x, axis=0), apart(2, 3))
    row(
        f"{_name} axis=-1 keepdims",
        lambda x, f=_f: f(x, axis=-1, keepdims=True),
        apart(2, 3),
    )
    row(f"{_name} axis=(0, 2)", lambda x, f=_f: f(x, axis=(0, 2)), apart(2, 2, 3))
row("sum of nothing", np.sum, apart(0, 3))
row(
    "sum of a number",
    lambda x: np.sum(x) + np.mean(x) + np.prod(x) + np.max(x),
    apart(),
)
row("sum axis=()", lambda x: np.sum(x, axis=()), apart(2))
row("sum initial where", lambda x: np.sum(x, initial=3.0, where=x > 0), apart(5))
row("sum dtype", lambda x: np.sum(x, dtype=np.float64), apart(5))
row(
    "mean where",
    lambda x: x.mean(axis=1, where=constant([True, False, True], x)),
    apart(2, 3),
)
row("prod initial where", lambda x: np.prod(x, initial=2.0, where=x > 0), apart(5))
row("prod with zeros", np.prod, lambda rng: np.array([0.0, 1.5, -2.0]))
row("prod with two zeros", np.prod, lambda rng: np.array([0.0, 1.5, 0.0]))
row("max initial", lambda x: np.max(x, axis=0, initial=0.02), apart(2, 3))
row("max where", lambda x: x.max(where=x < 1, initial=-9.0), apart(2, 3))
row("min initial", lambda x: np.min(x, initial=0.02), apart(2, 3))
row("var ddof", lambda x: np.var(x, axis=1, ddof=1), apart(2, 3))
row("var where", lambda x: np.var(x, where=x > -3), apart(4))
row("std correction", lambda x: np.std(x, correction=1.5), apart(4))
row(
    "std where",
    lambda x: x.std(axis=0, where=constant([[True], [True], [False]], x)),
    apart(3, 2),
)
row(
    "average weights",
    lambda x, w: np.average(x, axis=1, weights=w),
    apart(2, 3),
    positive(3),
)
row("logsumexp b", lambda x, b: logsumexp(x, 1, b), apart(2, 3), positive(2, 3))
row("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, axis=1), apart(2, 3))
row("add.reduce", lambda x: np.add.reduce(x) + np.multiply.reduce(x), apart(3, 2))
row("maximum.reduce", lambda x: np.maximum.reduce(x, axis=None) * 2, apart(3, 2))
row("hypot.reduce", lambda x: np.hypot.reduce(x, axis=1), apart(2, 5))
row(
    "nansum",
    lambda x: np.nansum(x) + np.nanmean(x) + np.nanmax(x) + np.nanmin(x),
    apart(4),
)
row("nanprod", lambda x: np.nanprod(x) + np.nanvar(x) + np.nanstd(x), apart(4))
row("weighted by argmax", lambda x: x * np.argmax(x, axis=0), apart(3, 2))
row("argmin", lambda x: x[np.argmin(x)] ** 2, apart(4))
row(
    "any all count",
    lambda x: x * (np.any(x > 0) + np.all(x > 0)) * np.count_nonzero(x),
    apart(4),
)

# Running sums and products

row("cumsum", np.cumsum, apart(4), kinds="fc")
row("cumsum flat", lambda x: np.cumsum(x), apart(2, 2))
row("cumsum axis", lambda x: np.cumsum(x, axis=-2), apart(3, 2))
row("cumsum empty", np.cumsum, apart(0))
row("cumulative_sum", lambda x: np.cumulative_sum(x, include_initial=True), apart(3))
row("cumprod", np.cumprod, apart(5), kinds="fc")
row("cumprod with zeros", np.cumprod, lambda rng: np.array([0.5, 0.0, 2.0, 0.0, 3.0]))
row("cumprod axis", lambda x: np.cumprod(x, axis=0), apart(3, 2))
row("cumulative_prod", lambda x: np.cumulative_prod(x, include_initial=True), apart(3))
row("add.accumulate", np.add.accumulate, apart(3, 2))
row("multiply.accumulate", lambda x: np.multiply.accumulate(x, 1), apart(2, 3))
row("maximum.accumulate", np.maximum.accumulate, apart(5))
row("minimum.accumulate", lambda x: np.minimum.accumulate(x, axis=1), apart(2, 4))
row("logaddexp.accumulate", np.logaddexp.accumulate, apart(5))
