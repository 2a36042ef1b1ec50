"""Differences, interpolation, covariance, polynomials, sets, histograms, lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.table import Table, above_one, apart, positive

row = Table()


def _given(*numbers: Any) -> Any:
    return lambda rng: np.array(numbers)


# Differences

row("diff", lambda x: np.diff(x, 2) ** 2, apart(2, 4))
row("diff ends", lambda x, a: np.diff(x, prepend=a, append=1.0), apart(2, 3), apart())
row("diff axis", lambda x, a: np.diff(x, axis=0, append=a), apart(2, 3), apart(1, 3))
row("ediff1d", lambda x: np.ediff1d(x) ** 2, apart(2, 2), kinds="fc")
row("ediff1d ends", lambda x, a, b: np.ediff1d(x, a, b), apart(3), apart(2), apart())
row("unwrap", lambda x: np.unwrap(x) ** 2, _given([0.5, 4, 9], [0.1, -4.2, 3]))
row("unwrap period", lambda x: np.unwrap(x, axis=0, period=4), _given(0.5, 4, 9, 1.2))
row("gradient", lambda x: np.gradient(x) ** 2, apart(5), kinds="fc")
row("gradient axes", lambda x: np.stack(np.gradient(x, 0.5, 2.0)), apart(3, 4))
row(
    "gradient of one axis", lambda x, h: np.gradient(x, h, axis=0), apart(3, 2), apart()
)
row("gradient at two points", lambda x: np.gradient(x) * x, apart(2))
row("gradient of second order", lambda x: np.gradient(x, 0.3, edge_order=2), apart(4))
for _order in (1, 2):
    row(
        f"gradient on knots, order {_order}",
        lambda f, x, n=_order: np.gradient(f, x, axis=1, edge_order=n),
        apart(2, 4),
        _given(-1.3, -0.4, 0.3, 1.6),
    )
row("trapezoid", lambda y: np.trapezoid(y**2, dx=0.5), apart(2, 4))
row("trapezoid x", lambda y, x: np.trapezoid(y, x, axis=0), apart(3, 2), apart(3))
row("trapezoid xs", lambda y, x: np.trapezoid(y, x), apart(2, 3), apart(2, 3))

# Interpolation

row(
    "interp",
    np.interp,
    _given([-1.9, -1.2, -0.5], [0.3, 1.1, 1.8]),
    _given(-1.7, -0.8, -0.1, 0.7, 1.5),
    apart(5),
)
row(
    "interp of complex",
    lambda f: np.interp([0.3, 1.2], [0.0, 1, 2], f),
    apart(3),
    kinds="c",
)
row(
    "interp ends",
    lambda x, a, b: np.interp(x + 0 * a * b, [-0.5, 0.5], [2.0, 3.0], a, b),
    apart(6),
    apart(),
    apart(),
)
row(
    "interp period",
    lambda x, f: np.interp(x, [0.02, 0.5, 1.02], f, period=1.47),
    apart(4),
    apart(3),
)
row("interp one knot", lambda x, f: np.interp(x, [0.01], f), apart(3), apart(1))

# Averages and covariance

row("average of rows", lambda x: np.average(x, 0, [1.0, 2, 4]) ** 2, apart(3, 2))
row(
    "average axes",
    lambda x, w: np.average(x, (2, 0), w, keepdims=True),
    apart(2, 3, 2),
    positive(2, 2),
)
row(
    "average returned",
    lambda x, w: np.multiply(*np.average(x, 1, w, returned=True)),
    apart(2, 3),
    positive(2, 3),
)
row("cov", np.cov, apart(2, 4), kinds="fc")
row("cov of one", np.cov, apart(4))
row("cov of two", lambda x, y: np.cov(x, y, rowvar=False), apart(4, 2), apart(4, 1))
row("cov bias", lambda x, y: np.cov(x, y, bias=True), apart(2, 4), apart(4))
row(
    "cov weights",
    lambda x, w: np.cov(x, fweights=[1, 2, 1, 3], aweights=w),
    apart(2, 4),
    positive(4),
)
row("cov ddof", lambda x, w: np.cov(x, ddof=0, aweights=w), apart(2, 4), positive(4))
row("corrcoef", np.corrcoef, apart(3, 5))
row(
    "corrcoef of complex", lambda x, y: np.corrcoef(x, y), apart(5), apart(5), kinds="c"
)

# Polynomials

row("polyval", np.polyval, apart(3), apart(2, 2), kinds="fc")
row("polyadd", np.polyadd, apart(2), apart(3))
row("polysub", np.polysub, apart(3), apart(2), kinds="fc")
row("polymul", np.polymul, apart(2), apart(3), batch=False)
row("polydiv", lambda u, v: np.polydiv(u, v)[0], apart(4), above_one(2), batch=False)
row(
    "polydiv rest",
    lambda u, v: np.polydiv(u, v)[1],
    apart(4),
    above_one(3),
    batch=False,
)
row("polyder", lambda p: np.polyder(p, 2) ** 2, apart(5))
row("polyint", np.polyint, apart(3))
row("polyint constants", lambda p, k: np.polyint(p, 2, k), apart(3), apart(2))
row("polyint constant", lambda p, k: np.polyint(p, 3, k) ** 2, apart(2), apart())
row("poly", lambda r: np.poly(r) ** 2, apart(3))
row("poly of complex", np.poly, apart(3), kinds="c", batch=False)
row("vander", lambda x: np.vander(x, 4), apart(3), kinds="fc")
row("vander increasing", lambda x: np.vander(x, increasing=True), apart(3))
row(
    "roots",
    lambda p: np.sort(np.roots(p)) ** 2,
    lambda rng: np.array([1.0, -6.2, 11.1, -5.5]),
    kinds="fc",
    batch=False,
)
row(
    "roots in pairs",
    lambda p: np.abs(np.roots(p * [0, 1, 1, 1])),
    _given(1.0, 2.0, 1.0, 3.0),
    batch=False,
)

_PLACES = _given(-1.8, -1.1, 0.2, 0.9, 1.7)
row("polyfit", lambda x, y: np.polyfit(x, y, 2), _PLACES, apart(5))
row(
    "polyfit of columns",
    lambda y: np.polyfit(np.arange(4.0, like=y), y, 1),
    apart(4, 2),
)
row(
    "polyfit weights",
    lambda x, y, w: np.polyfit(x, y, 1, w=w, cov=True)[1],
    _PLACES,
    apart(5),
    above_one(5),
)

# Sets

row(
    "union1d",
    lambda x, y: np.union1d(x, y) ** 2,
    apart(2),
    apart(3, shift=0.024),
    batch=False,
)
row("intersect1d", lambda x: np.intersect1d(x, x[1:]) ** 2, apart(4), batch=False)
row("setdiff1d", lambda x: np.setdiff1d(x, x[2:]) ** 2, apart(4), batch=False)
row("setxor1d", lambda x: np.setxor1d(x[:3], x[2:]) ** 2, apart(5), batch=False)
row("unique_all", lambda x: np.unique_all(x).values ** 2, apart(4), batch=False)
row("unique_counts", lambda x: np.unique_counts(x)[0] * 2.0, apart(4), batch=False)
row("unique_inverse", lambda x: np.unique_inverse(x)[0] * 2.0, apart(4), batch=False)
row("isin", lambda x, y: x * np.isin(x, [1.5]) + np.sum(y) * np.isin(x, y, invert=True),
    apart(2, 3), apart(3, shift=0.024))  # fmt: skip
row(
    "trim_zeros",
    lambda x: np.trim_zeros(x * [0, 1, 0, 1, 0]) ** 2,
    apart(5),
    batch=False,
)

# Histograms

row("bincount", lambda w: np.bincount([2, 0, 2], w, 5) ** 2, apart(3))
row("histogram", lambda x: np.histogram(x, [-2.0, 0, 0.5, 2])[0] * np.sum(x), apart(6))
row("histogram edges", lambda x: np.histogram(x, 3)[1], apart(4))
row(
    "histogram weights",
    lambda x, w: np.histogram(x, 4, (-2, 2), weights=w)[0] ** 2,
    apart(6),
    apart(6),
)
row(
    "histogram density",
    lambda x, w: np.histogram(x, 2, density=True, weights=w)[0],
    lambda rng: np.array([-1.0, -0.6, 0.3, 0.8]),
    positive(4),
)
row("histogram_bin_edges", lambda x: np.histogram_bin_edges(x, 2) ** 2, apart(2, 2))
row(
    "histogram2d",
    lambda x, y, w: np.histogram2d(x, y, (2, [-2.0, 0, 2]), weights=w)[0] ** 2,
    lambda rng: np.array([-1.0, -0.6, 0.3, 0.8]),
    apart(4),
    apart(4),
)
row(
    "histogramdd",
    lambda x, w: np.histogramdd(x, 2, [(-2, 2)] * 3, True, w)[0],
    apart(4, 3),
    positive(4),
)

# Lines

row("linspace num 1", lambda a, b: np.linspace(a, b, 1), apart(2), apart(2))
row("linspace axis", lambda a, b: np.linspace(a, b, 3, axis=-1), apart(2), apart(2, 1))
row(
    "linspace step",
    lambda a, b: np.multiply(*np.linspace(a, b, 3, False, True)),
    apart(),
    apart(),
    kinds="fc",
)
row("logspace", lambda a, b: np.logspace(a, b, 3), apart(), apart())
row(
    "logspace base",
    lambda a, b: np.logspace(a, 1.5, 3, False, b),
    apart(),
    above_one(2),
)
row("geomspace", np.geomspace, above_one(2), above_one(2))
row("geomspace of negative", lambda a: np.geomspace(-a, -2.5, 3) ** 2, above_one())
row("geomspace of complex", lambda a: np.geomspace(a, 2.5, 4), above_one(), kinds="c")

# Slice by slice

row(
    "apply_along_axis",
    lambda x: np.apply_along_axis(lambda r: r * np.sum(r), 1, x),
    apart(2, 3, 2),
)
row(
    "apply_along_axis to more axes",
    lambda x: np.apply_along_axis(lambda r, k: np.outer(r, r) * k, 0, x, 2.0),
    apart(3, 2),
)
row(
    "apply_over_axes",
    lambda x: np.apply_over_axes(np.sum, x**2, (0, -1)),
    apart(2, 3, 2),
)
row("cumulative_prod axis", lambda x: np.cumulative_prod(x, axis=1), apart(2, 3))

# Methods of ufuncs

row("add.reduceat", lambda x: np.add.reduceat(x, [0, 2, 3], 1) ** 2, apart(2, 4))
row("add.reduceat back", lambda x: np.add.reduceat(x, [2, 0, 0]), apart(4, 2))
row("multiply.reduceat", lambda x: np.multiply.reduceat(x, [0, 2]), apart(5))
row("maximum.reduceat", lambda x: np.maximum.reduceat(x, [1, 3], -1) ** 2, apart(2, 4))
row("subtract.reduce", lambda x: np.subtract.reduce(x, 1, initial=2.0), apart(2, 3))
row("divide.reduce", lambda x: np.divide.reduce(x, keepdims=True), above_one(3, 2))
row("subtract.accumulate", lambda x: np.subtract.accumulate(x) ** 2, apart(3, 2))
row("divide.accumulate", lambda x: np.divide.accumulate(x, 1), above_one(2, 3))
row("fmax.reduce", lambda x: np.fmax.reduce(x, (0, -1)) * 2.0, apart(2, 2, 3))
row(
    "fmin.reduce where",
    lambda x: np.fmin.reduce(x, None, initial=9, where=x > 0),
    apart(5),
)
row("hypot.accumulate", lambda x: np.hypot.accumulate(x), apart(4))
row(
    "logaddexp2.reduce",
    lambda x: np.logaddexp2.reduce(x, 1, where=x > x.min(1, keepdims=True)),
    apart(2, 4),
)
row("multiply.reduce dtype", lambda x: np.multiply.reduce(x, dtype=float), apart(3))

# Moments about a given mean

row(
    "var mean",
    lambda x, m: np.var(x, 1, mean=m, keepdims=True),
    apart(2, 3),
    apart(2, 1),
)
row("std mean", lambda x: np.std(x, mean=np.mean(x), ddof=1), apart(4), kinds="fc")
