"""Order against NumPy: quantiles by every method, NaN, ties, sets and histograms."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import TraceError
from workbench.ops.statistics import DISCRETE, MIXING


def traced(f: Callable[..., Any], *args: Any) -> Any:
    """The values of ``f`` run on Tensors."""
    outputs = wb.trace(f)(*args).outputs
    made = [getattr(y, "value", y) for y in outputs]
    return made[0] if len(made) == 1 else made


def same(f: Callable[..., Any], *args: Any, tolerance: float = 0) -> None:
    """What Tensors give has NumPy's shape, dtype and values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = f(*args)
        made = traced(f, *args)
    several = isinstance(expected, (tuple, list))
    for got, truth in zip(
        made if several else [made], expected if several else [expected], strict=True
    ):
        got, truth = np.asarray(got), np.asarray(truth)
        assert (got.shape, got.dtype) == (truth.shape, truth.dtype)
        np.testing.assert_allclose(got, truth, rtol=tolerance, atol=tolerance)


X = np.random.default_rng(3).normal(size=(3, 7, 2))
HOLED = np.where(np.random.default_rng(4).random(X.shape) < 0.3, np.nan, X)
HOLED[1, :, 1] = np.nan
SOME_Q: list[Any] = [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0, 0, 1, [0.2, 0.7]]


@pytest.mark.parametrize("share", [0.3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("method", DISCRETE + MIXING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_every_method_has_the_values_of_numpy(
    method: Any, dtype: Any, share: float, rng: np.random.Generator
) -> None:
    x = (X * 5).astype(dtype)
    holed = (
        x if dtype is np.int64 else np.where(np.isnan(HOLED), HOLED.astype(dtype), x)
    )
    for q, axis, keep in itertools.product(SOME_Q, [None, 1, (0, 2)], [False, True]):
        if rng.random() > share:
            continue
        more: Any = {"axis": axis, "method": method, "keepdims": keep}
        same(lambda a, q=q, m=more: np.quantile(a, q, **m), x)
        same(lambda a, q=q, m=more: np.quantile(a, q, **m), holed)
        same(lambda a, q=q, m=more: np.nanquantile(a, q, **m), holed)
        percent: Any = [20, 70] if isinstance(q, list) else type(q)(q * 100)
        same(lambda a, q=percent, m=more: np.percentile(a, q, **m), x)
        same(lambda a, q=percent, m=more: np.nanpercentile(a, q, **m), holed)


@pytest.mark.parametrize("q", SOME_Q)
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_weighted_quantiles(q: Any, axis: Any) -> None:
    w = np.random.default_rng(5).integers(1, 4, X.shape)
    for f, x in ((np.quantile, X), (np.nanquantile, HOLED)):
        same(
            lambda a, f=f: f(a, q, axis=axis, method="inverted_cdf", weights=w),
            x,
        )
    zeros = np.where(X > 0.5, 0.0, w)
    same(
        lambda a: np.quantile(a, q, axis=axis, method="inverted_cdf", weights=zeros), X
    )


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_medians(axis: Any, keepdims: bool) -> None:
    for x in (X, HOLED, X[:, :6], HOLED[:, :6], (X * 9).astype(int), X[:1, :1, :1] > 0):
        same(lambda a: np.median(a, axis, keepdims=keepdims), x)
        if x.dtype != bool:
            same(lambda a: np.nanmedian(a, axis, keepdims=keepdims), x)


def test_the_gradient_goes_to_the_entries_that_are_taken() -> None:
    x = np.array([3.0, 1.0, 7.0, 5.0])
    np.testing.assert_array_equal(wb.grad(np.median)(x), [0.5, 0, 0, 0.5])
    np.testing.assert_array_equal(wb.grad(np.median)(x[:3]), [1, 0, 0])
    low = wb.grad(lambda a: np.quantile(a, 0.5, method="lower"))(x)
    np.testing.assert_array_equal(low, [1, 0, 0, 0])
    tied = wb.grad(np.median)(np.ones(4))
    assert sorted(tied) == [0, 0, 0.5, 0.5]
    # In q the slope of the piece: 2 between the sorted entries 3 and 5.
    slope = wb.grad(lambda q: np.quantile(x, q))
    np.testing.assert_allclose(slope(0.5), 2 * 3, rtol=1e-14)


def test_what_a_quantile_refuses() -> None:
    x = np.arange(4.0)
    for f, text in (
        (lambda a: np.quantile(a, 1.5), r"Quantiles must be in the range \[0, 1\]"),
        (lambda a: np.percentile(a, 101), r"Percentiles must be in the range"),
        (
            lambda a: np.quantile(a, 0.5, method="other"),
            "'other' is not a valid method",
        ),
        (
            lambda a: np.quantile(a, 0.5, weights=np.ones(4)),
            "Only method 'inverted_cdf' supports weights",
        ),
        (
            lambda a: np.quantile(a, 0.5, method="inverted_cdf", weights=-np.ones(4)),
            "Weights must be non-negative",
        ),
        (
            lambda a: np.quantile(a, 0.5, method="inverted_cdf", weights=np.zeros(4)),
            "all zero",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            wb.trace(f)(x)
    with pytest.raises(TypeError, match="real numbers"):
        wb.trace(lambda a: np.quantile(a, 0.5))(x + 0j)
    with pytest.raises(np.exceptions.AxisError):
        wb.trace(lambda a: np.quantile(a, 0.5, axis=1))(x)


# NaN


NAN_FORMS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in "nansum nanprod nanmean nanvar nanstd nanmax nanmin nanmedian".split()
}
NAN_FORMS["nanquantile"] = lambda x: np.nanquantile(x, 0.3)
NAN_FORMS["nancumsum"] = lambda x: np.nancumsum(x)[-1]
NAN_FORMS["nancumprod"] = lambda x: np.nancumprod(x)[-1]


@pytest.mark.parametrize("name", NAN_FORMS)
def test_nan_entries_have_no_gradient_in_any_mode_or_order(name: str) -> None:
    f = NAN_FORMS[name]
    x = np.array([0.5, np.nan, 2.0, -1.0, np.nan])
    there = ~np.isnan(x)

    def dense(v: Any) -> Any:
        return f(v) ** 2

    g = wb.grad(dense)(x)
    np.testing.assert_array_equal(g[~there], 0)
    np.testing.assert_allclose(g[there], wb.grad(dense)(x[there]), rtol=1e-12)
    for unit, expected in zip(np.eye(5), g, strict=True):
        np.testing.assert_allclose(
            wb.jvp(dense, (x,), (unit,))[1], expected, rtol=1e-12
        )
    hessian = wb.hessian(dense)(x)
    np.testing.assert_array_equal(hessian[~there], 0)
    np.testing.assert_array_equal(hessian[:, ~there], 0)
    np.testing.assert_allclose(
        hessian[np.ix_(there, there)],
        wb.hessian(dense)(x[there]),
        rtol=1e-9,
        atol=1e-12,
    )


def test_slices_of_nothing_but_nan() -> None:
    for name in "nansum nanprod nanmean nanvar nanmax nanmin nanmedian".split():
        form = getattr(np, name)
        same(lambda a, f=form: f(a, axis=1), HOLED)
    with pytest.raises(ValueError, match="All-NaN slice"):
        wb.trace(lambda a: np.nanargmax(a, axis=1))(HOLED)


# Sets, trimming, bins


A = np.array([3.0, 1.0, 2.0, 3.0, 1.5])
B = np.array([2.0, 3.0, 9.0, 9.0])


@pytest.mark.parametrize(
    "f",
    [
        np.union1d,
        np.intersect1d,
        np.setdiff1d,
        np.setxor1d,
        lambda a, b: np.intersect1d(a, b, return_indices=True),
        lambda a, b: np.setdiff1d(a[1:3], b[:2], assume_unique=True),
        lambda a, b: np.setxor1d(a[1:3], b[:3], assume_unique=True),
        lambda a, b: np.isin(a, b, invert=True),
        lambda a, b: np.unique_all(a),
        lambda a, b: np.unique_counts(b),
        lambda a, b: np.unique_inverse(b),
        lambda a, b: np.sort(np.unique_values(a)),
    ],
)
def test_sets(f: Callable[..., Any]) -> None:
    same(lambda a, b: (*y,) if isinstance(y := f(a, b), tuple) else y, A, B)


def test_the_gradient_of_a_set_goes_to_the_first_of_equals() -> None:
    weights = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    g = wb.grad(lambda a: np.sum(np.union1d(a, B) * weights))(A)
    # the union is 1, 1.5, 2, 3, 9
    np.testing.assert_array_equal(g, [1000, 1, 100, 0, 10])


def test_trim_zeros() -> None:
    x = np.array([[0.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0]])
    for trim, axis in itertools.product(["fb", "f", "b"], [None, 0, -1]):
        same(lambda a, t=trim, n=axis: np.trim_zeros(a, t, n), x)
    same(lambda a: np.trim_zeros(a * 0), x[1])
    with pytest.raises(ValueError, match="unexpected character"):
        wb.trace(lambda a: np.trim_zeros(a, "x"))(x[1])


@pytest.mark.parametrize("bins", [1, 4, "auto", "fd", "sturges", [-1.0, 0.0, 0.5, 2.0]])
@pytest.mark.parametrize("limits", [None, (-1.5, 1), (3.0, 3.0)])
@pytest.mark.parametrize("density", [False, True])
def test_histograms(bins: Any, limits: Any, density: bool) -> None:
    x = np.append(X, [-1.0, 0.5, 2.0])
    w = np.linspace(0.5, 2, x.size).astype(np.float32)
    same(lambda a: np.histogram(a, bins, limits, density), x, tolerance=1e-13)
    same(lambda a: np.histogram_bin_edges(a, bins, limits), x)
    same(
        lambda a: np.histogram(a, bins, limits, density), np.arange(9), tolerance=1e-13
    )
    if not isinstance(bins, str):
        with_weights = lambda a: np.histogram(a, bins, limits, density, w)  # noqa: E731
        same(with_weights, x, tolerance=1e-5)
        same(
            lambda a, w: np.histogram2d(a, a[::-1], bins, weights=w, density=density),
            x,
            w,
            tolerance=1e-13,
        )


def test_histograms_in_many_dimensions() -> None:
    points = X.reshape(-1, 3)
    counts, edges = (
        wb.trace(lambda p: np.histogramdd(p, (2, 3, 4)))(points).outputs[0],
        0,
    )
    truth, _ = np.histogramdd(points, (2, 3, 4))
    np.testing.assert_array_equal(counts.value, truth)
    assert edges == 0
    same(lambda p: np.histogramdd(p, 2, density=True)[0], points, tolerance=1e-14)


def test_what_bins_refuse() -> None:
    for bins, text in (
        (0, "must be positive"),
        ([1.0, 0.0], "must increase monotonically"),
        ([[1.0]], "must be 1d"),
    ):
        with pytest.raises(ValueError, match=text):
            wb.trace(lambda a, b=bins: np.histogram(a, b))(A)
    with pytest.raises(ValueError, match="max must be larger"):
        wb.trace(lambda a: np.histogram(a, 2, (1, 0)))(A)
    with pytest.raises(ValueError, match="not finite"):
        wb.trace(lambda a: np.histogram(a, 2))(np.array([1, np.nan]))


def test_bincount() -> None:
    w = np.array([1.0, 2.0, 4.0], np.float32)
    same(lambda w: np.bincount([3, 0, 3], w), w)
    same(lambda w: np.bincount([3, 0, 3], w, minlength=6), w)
    with pytest.raises(ValueError, match="same length"):
        wb.trace(lambda w: np.bincount([3, 0], w))(w)
    with pytest.raises(TraceError, match=r"bincount.*depends on values.*wb\.at"):
        wb.vmap(lambda i: np.bincount(i))(np.array([[1, 2]]))


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: np.union1d(x, x), "depends on values"),
        (lambda x: np.intersect1d(x, x), "np.intersect1d.*depends on values.*np.isin"),
        (np.trim_zeros, "np.trim_zeros.*depends on values.*Write x.start:stop"),
        (lambda x: np.polymul(x, x), "np.polymul.*depends on values.*np.convolve"),
        (np.roots, "np.roots.*depends on values.*row by row"),
        (lambda x: np.real_if_close(x + 0j), "depends on values.*np.real"),
        (lambda x: np.histogram(x, "auto"), "depends on values.*bins=10"),
    ],
)
def test_what_depends_on_values_says_so_under_vmap(f: Any, text: str) -> None:
    with pytest.raises(TraceError, match=text):
        wb.vmap(f)(np.ones((2, 3)))


SKIPPING: dict[str, Any] = {
    "nanmedian": lambda y: np.nanmedian(y),
    "nanmedian of rows": lambda y: np.sum(np.nanmedian(y, axis=1, keepdims=True)),
    "nanquantile": lambda y: np.sum(np.nanquantile(y, [0.3, 0.6], axis=0)),
    "nanpercentile": lambda y: np.nanpercentile(y, 30),
    "weighted": lambda y: np.nanquantile(
        y, 0.4, weights=np.arange(1.0, 7.0).reshape(2, 3), method="inverted_cdf"
    ),
    "fmax": lambda y: np.sum(np.fmax(y, 0.7)),
    "fmin": lambda y: np.sum(np.fmin(1.1, y)),
    "fmax.reduce": lambda y: np.sum(np.fmax.reduce(y, axis=1)),
}


@pytest.mark.parametrize("name", SKIPPING)
def test_what_made_a_skipped_nan_gets_0(name: str) -> None:
    """It would be 0 times the slope of a root at -2, which is NaN."""
    f = SKIPPING[name]
    x = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, 2.0]])
    there = x > 0
    whole = lambda x: f(np.sqrt(x))  # noqa: E731

    def instead(p: Any) -> Any:
        filled = wb.at(np.full(x.shape, np.nan, like=p))[there].set(np.sqrt(p))
        return f(filled)

    with np.errstate(invalid="ignore"):
        gradient = wb.grad(whole)(x)
        truth = wb.grad(instead)(x[there])
        np.testing.assert_allclose(gradient[there], truth, rtol=1e-12)
        assert gradient[0, 1] == 0
        np.testing.assert_allclose(wb.jacfwd(whole)(x), gradient, rtol=1e-12)
        compiled = wb.compile(wb.grad(whole), backend="compiled")(x)
        np.testing.assert_allclose(compiled, gradient, rtol=1e-12)
        second = wb.hvp(whole, (x,), (np.ones_like(x),))[0]
    assert np.isfinite(second).all()
    assert second[0, 1] == 0


def test_a_slice_of_nothing_but_nan() -> None:
    x = np.array([[-1.0, -2.0], [4.0, 9.0]])
    f = lambda x: np.sum(np.nan_to_num(np.nanmedian(np.sqrt(x), axis=1)))  # noqa: E731
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(wb.grad(f)(x), [[0, 0], [1 / 8, 1 / 12]])
