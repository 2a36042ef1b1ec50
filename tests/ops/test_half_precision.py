"""float16: counts beyond 65,504, and what is rounded only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.scipy import special

COUNT = 70_000
HALF = np.float16
#: Entries whose sum, and sum of squares, float16 holds.
ENTRIES = np.where(np.arange(COUNT) % 2, -0.5, 0.5).astype(HALF)
ENTRIES[:10] = 0.25
PRESENT = np.arange(COUNT) != 3


def true_gradients() -> dict[str, tuple[Callable[..., Any], Any]]:
    """Return each function with its gradient, in float64 by its formula."""
    x = ENTRIES.astype(float)
    n = COUNT
    even = np.full(n, 1 / n)
    away = x - np.mean(x)
    there = x[PRESENT] - np.mean(x[PRESENT])
    part = np.zeros(n)
    part[PRESENT] = 2 * there / (n - 1)
    deviation = np.sqrt(np.mean(away**2))
    ones = np.ones(n, HALF)
    return {
        "mean": (np.mean, even),
        "mean of an axis": (lambda v: np.mean(v.reshape(2, -1, 5), (0, 1, 2)), even),
        "mean of some": (lambda v: np.mean(v, where=PRESENT), PRESENT / (n - 1)),
        "average": (np.average, even),
        "average by weights": (lambda v: np.average(v, weights=ones), even),
        "nanmean": (np.nanmean, even),
        "var": (np.var, 2 * away / n),
        "var of a sample": (lambda v: np.var(v, ddof=1), 2 * away / (n - 1)),
        "var of some": (lambda v: np.var(v, where=PRESENT), part),
        "var about the mean": (lambda v: np.var(v, mean=np.mean(v)), 2 * away / n),
        "nanvar": (np.nanvar, 2 * away / n),
        "std": (np.std, away / n / deviation),
        "nanstd": (np.nanstd, away / n / deviation),
        "cov": (np.cov, 2 * away / (n - 1)),
        "method": (lambda v: v.mean(), even),
    }


@pytest.mark.parametrize("name", true_gradients())
def test_gradients_of_many_entries_are_rounded_once(name: str) -> None:
    f, truth = true_gradients()[name]
    found = wb.grad(f)(ENTRIES)
    assert found.dtype == HALF
    # One rounding, of numbers that are subnormal: steps of 6e-8.
    np.testing.assert_allclose(found.astype(float), truth, rtol=2**-10, atol=6e-8)
    _, moved = wb.jvp(f, (ENTRIES,), (ENTRIES,))
    assert abs(float(moved) - np.sum(truth * ENTRIES)) < 2e-3


def test_the_mean_of_many_ones_in_both_modes_and_recorded() -> None:
    x = np.ones(COUNT, HALF)
    truth = HALF(1 / COUNT)
    assert truth == HALF(1.43e-5)
    assert np.all(wb.grad(np.mean)(x) == truth)
    assert wb.jvp(np.mean, (x,), (x,))[1] == 1
    assert np.all(wb.jacrev(np.mean)(x) == truth)
    # A loss is scaled where gradients would be subnormal: nothing is lost before.
    scaled = wb.grad(lambda v: np.mean(v) * HALF(2**12))(x)
    assert np.all(scaled == HALF(2**12 / COUNT))
    v = wb.vector("v", dtype=HALF)
    made = wb.function([v], wb.grad(np.mean(v), v))(x)
    assert made.dtype == HALF
    assert np.all(made == truth)


def test_a_deviation_whose_squares_overflow_keeps_its_gradient() -> None:
    x = (4 * ENTRIES).astype(HALF)
    with np.errstate(over="ignore"):
        assert np.isinf(np.std(x))  # NumPy sums the squares in float16
        found = wb.grad(np.std)(x)
    wide = x.astype(float)
    truth = (wide - wide.mean()) / COUNT / wide.std()
    np.testing.assert_allclose(found.astype(float), truth, rtol=2**-10, atol=6e-8)


def test_many_ties_and_many_exponentials() -> None:
    x = np.ones(COUNT, HALF)
    truth = HALF(1 / COUNT)
    for f in (np.max, np.min, np.nanmax, np.nanmin, wb.logsumexp):
        assert np.all(wb.grad(f)(x) == truth), f
    by_weights = lambda v: wb.logsumexp(v, b=np.ones(COUNT, HALF))  # noqa: E731
    assert np.all(wb.grad(by_weights)(x) == truth)
    np.testing.assert_allclose(float(wb.logsumexp(x)), 1 + np.log(COUNT), rtol=1e-3)
    assert np.all(special.softmax(x) == truth)
    top = float(special.log_softmax(x)[0])
    np.testing.assert_allclose(top, -np.log(COUNT), rtol=1e-3)


def test_a_line_of_many_numbers() -> None:
    ends = np.array([0, 1], HALF)
    with np.errstate(over="ignore", invalid="ignore"):  # in NumPy's own values
        last = wb.jacrev(lambda e: np.linspace(e[0], e[1], COUNT)[[1, -1]])(ends)
        step = wb.grad(lambda e: np.linspace(e[0], e[1], COUNT, retstep=True)[1])(ends)
    np.testing.assert_array_equal(
        last, np.array([[1, 1 / (COUNT - 1)], [0, 1]]).astype(HALF)
    )
    assert step[1] == HALF(1 / (COUNT - 1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_results_keep_their_dtype(dtype: Any) -> None:
    x = np.linspace(-1, 1, 12, dtype=dtype).reshape(3, 4)
    where = x > -0.5
    for f in (
        lambda v: np.mean(v, axis=0),
        lambda v: np.mean(v, axis=1, where=where),
        lambda v: np.var(v, axis=0, where=where),
        lambda v: np.std(v, axis=1, keepdims=True),
        lambda v: np.nanstd(v),
        lambda v: np.average(v, axis=0, weights=np.ones(3, dtype)),
        lambda v: np.max(v, axis=0),
        lambda v: wb.logsumexp(v, axis=0),
        special.softmax,
    ):
        y, moved = wb.jvp(f, (x,), (x,))
        assert y.dtype == moved.dtype == dtype
        np.testing.assert_allclose(y, f(x), rtol=5 * np.finfo(dtype).eps)
        assert wb.grad(lambda v, f=f: np.sum(f(v)))(x).dtype == dtype
