"""Distribution functions by their shapes against 50 digits, in the middle and far out.

An error is relative to the true derivative, so that a rule that cancels fails; of a
second derivative, which changes its sign, to the square of the first where that is
larger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats

import workbench as wb
from workbench.errors import NotDifferentiableError
from workbench.scipy import stats

HALF = mp.mpf(1) / 2
#: Lower and upper tails, down to where probabilities underflow.
TAILS = [1e-200, 1e-30, 1e-6, 0.05, 0.4]


def lower_gamma(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def upper_gamma(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def lower_beta(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def upper_beta(a: Any, b: Any, x: Any) -> Any:
    return lower_beta(b, a, 1 - x)


def swap(f: Callable[..., Any], b: Any, x: Any, a: Any) -> Any:
    return f(a, b, x)


def differentiate(f: Callable[[Any], Any], x: float) -> tuple[Any, Any]:
    """Return two derivatives by central differences, right to 30 digits and more."""
    with mp.workdps(90):
        at = mp.mpf(float(x))
        h = abs(at) * mp.mpf(10) ** -20
        before, here, after = f(at - h), f(at), f(at + h)
        return (after - before) / (2 * h), (after - 2 * here + before) / h**2


def check(
    f: Callable[[Any], Any],
    truth: Callable[[Any], Any],
    x: float,
    first: float,
    second: float,
) -> None:
    """Compare both derivatives of a function of one number, in both modes."""
    slope, bend = differentiate(truth, x)
    if abs(slope) < 1e-290:
        return
    by_reverse = wb.grad(f)
    found = [by_reverse(x), wb.jvp(f, (x,), (1.0,))[1]]
    for y in found:
        assert abs(float(y) / slope - 1) < first
    size = max(abs(bend), abs(slope) ** 2)
    for y in (wb.grad(by_reverse)(x), wb.jvp(by_reverse, (x,), (1.0,))[1]):
        assert abs(float(y) - bend) < second * size


@pytest.mark.parametrize("a", [1e-3, 0.3, 1.0, 4.5, 60.0, 3e3])
def test_incomplete_gamma_by_its_shape(a: float) -> None:
    for q in TAILS:
        x = sp.gammaincinv(a, q)
        if x > 1e-280:
            check(lambda a, x=x: sp.gammainc(a, x), lambda a, x=x: lower_gamma(a, x),
                  a, 1e-11, 1e-10)  # fmt: skip
        x = sp.gammainccinv(a, q)
        check(lambda a, x=x: sp.gammaincc(a, x), lambda a, x=x: upper_gamma(a, x),
              a, 1e-11, 1e-10)  # fmt: skip


@pytest.mark.parametrize("a", [1e-2, 0.5, 3.0, 200.0])
@pytest.mark.parametrize("b", [1e-2, 1.0, 7.0, 500.0])
def test_incomplete_beta_by_its_shapes(a: float, b: float) -> None:
    a_, b_ = mp.mpf(a), mp.mpf(b)
    for q in TAILS[1::2]:
        for f, truth, x in (
            (sp.betainc, lower_beta, sp.betaincinv(a, b, q)),
            (sp.betaincc, upper_beta, sp.betainccinv(a, b, q)),
        ):
            if x == 1:
                continue
            at = mp.mpf(float(x))
            by_a = partial(swap, f, b, x), partial(swap, truth, b_, at)
            check(*by_a, a, 1e-10, 1e-9)
            by_b = partial(f, a), partial(truth, a_)
            check(lambda b, f=by_b[0], x=x: f(b, x),
                  lambda b, f=by_b[1], x=at: f(b, x), b, 1e-10, 1e-9)  # fmt: skip


@pytest.mark.parametrize("a", [1e-20, 1e-13, 1e-8])
@pytest.mark.parametrize("b", [1e-13, 1.0])
def test_incomplete_beta_by_tiny_shapes(a: float, b: float) -> None:
    """A shape must not be lost beside a number of the size of 1."""
    x = 0.3
    slope, _ = differentiate(lambda a: lower_beta(a, mp.mpf(b), mp.mpf(x)), a)
    for y in (
        wb.grad(sp.betainc)(a, b, x),
        -wb.grad(sp.betaincc)(a, b, x),
        wb.jvp(lambda a: sp.betainc(a, b, x), (a,), (1.0,))[1],
    ):
        assert abs(float(y) / slope - 1) < 1e-11


@pytest.mark.parametrize("a", [1e-19, 1e-13, 1e-5, 9e-3])
@pytest.mark.parametrize(("b", "x"), [(1e-3, 0.4), (0.29, 0.113), (60.0, 1e-4)])
def test_incomplete_beta_by_the_shape_beside_a_tiny_one(
    a: float, b: float, x: float
) -> None:
    """It falls with the tiny shape, and so do the terms that it is the rest of."""
    slope, bend = differentiate(lambda b: lower_beta(mp.mpf(a), b, mp.mpf(x)), b)
    for y in (
        wb.grad(sp.betainc, 1)(a, b, x),
        -wb.grad(sp.betaincc, 1)(a, b, x),
        -wb.grad(sp.betainc)(b, a, 1 - x),
        wb.jvp(lambda b: sp.betainc(a, b, x), (b,), (1.0,))[1],
    ):
        assert abs(float(y) / slope - 1) < 1e-10
    many = wb.grad(lambda b: np.sum(sp.betainc(a, b, x)))(np.full(600, b))
    np.testing.assert_allclose(many, float(slope), rtol=1e-10)
    second = wb.grad(wb.grad(sp.betainc, 1), 1)(a, b, x)
    assert abs(second / bend - 1) < 1e-8


@pytest.mark.parametrize("df", [0.2, 1.0, 6.0, 150.0])
def test_student_by_degrees_of_freedom(df: float) -> None:
    for t in (-40.0, -6.0, -1.3, -0.01, 0.4, 2.5):

        def truth(n: Any, t: Any = t) -> Any:
            tail = lower_beta(n / 2, HALF, n / (n + mp.mpf(t) ** 2)) / 2
            return tail if t < 0 else -tail

        check(lambda n, t=t: sp.stdtr(n, t), truth, df, 1e-10, 1e-9)


@pytest.mark.parametrize("m", [0.5, 3.0, 40.0])
def test_f_by_degrees_of_freedom(m: float) -> None:
    n = 7.5
    for x in (1e-8, 0.3, 1.1, 30.0):

        def truth(m: Any, n: Any, x: Any = x) -> Any:
            return lower_beta(m / 2, n / 2, m * x / (m * x + n))

        lower = x < 5
        f = sp.fdtr if lower else sp.fdtrc

        def tail(m: Any, n: Any, x: Any = x, truth: Any = truth) -> Any:
            m, n = mp.mpf(m), mp.mpf(n)
            if x < 5:
                return truth(m, n)
            return lower_beta(n / 2, m / 2, n / (m * mp.mpf(x) + n))

        check(lambda m, f=f, x=x: f(m, n, x), lambda m, t=tail: t(m, n), m, 1e-10, 1e-9)
        check(lambda n, f=f, x=x: f(m, n, x), lambda n, t=tail: t(m, n), n, 1e-10, 1e-9)


def test_f_far_out() -> None:
    """There n / (m x + n) has no square; and at infinity all slopes are 0."""

    def find_density(x: float) -> float:
        with mp.workdps(500):  # of 1 - y
            half = mp.mpf(0.01) / 2
            y = 3 * mp.mpf(x) / (3 * mp.mpf(x) + 2 * half)
            return float(y**1.5 * (1 - y) ** half / mp.beta(1.5, half) / x)

    by_m, by_n, by_x = wb.grad(sp.fdtr, (0, 1, 2))(3.0, 0.01, 1e170)
    # Differences of mpmath's upper tail, of 60 digits
    assert float(by_m) == pytest.approx(-9.1596341833703083e-5, rel=1e-10)
    assert float(by_n) == pytest.approx(27.233032620326858, rel=1e-12)
    assert float(by_x) == pytest.approx(find_density(1e170), rel=1e-12, abs=0)
    far = float(sp.fdtri(3.0, 0.01, 0.9))
    by_p = wb.grad(lambda p: sp.fdtri(3.0, 0.01, p))(0.9)
    assert float(by_p) * find_density(far) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [("gammainc", (3.0,)), ("gammaincc", (0.5,)), ("chdtr", (3.0,)),
     ("fdtr", (3.0, 5.0)), ("chndtr", (3.0, 1.0)), ("ncfdtr", (3.0, 5.0, 1.0)),
     ("nctdtr", (3.0, 1.0))],
)  # fmt: skip
def test_slopes_at_infinity_are_0(name: str, shapes: tuple[float, ...]) -> None:
    function = getattr(sp, name)
    at = (np.inf, *shapes) if name == "chndtr" else (*shapes, np.inf)
    assert wb.grad(function, tuple(range(len(at))))(*at) == (0,) * len(at)


def solve(f: Callable[[Any], Any], y: Any, near: float) -> Any:
    return mp.findroot(lambda x: f(x) - y, (near, near * (1 + 1e-9)))


@pytest.mark.parametrize(
    ("inverse", "truth", "a", "p"),
    [
        (sp.gammaincinv, lower_gamma, 0.7, 1e-12),
        (sp.gammaincinv, lower_gamma, 5.0, 0.8),
        (sp.gammainccinv, upper_gamma, 2.5, 1e-12),
        (lambda a, p: sp.betaincinv(a, 2.5, p),
         lambda a, x: lower_beta(a, mp.mpf(2.5), x), 1.7, 0.1),
        (lambda a, p: sp.betainccinv(2.5, a, p),
         lambda a, x: upper_beta(mp.mpf(2.5), a, x), 1.7, 0.1),
        (lambda a, p: sp.chdtri(a, p), lambda a, x: upper_gamma(a / 2, x / 2), 3., 0.2),
        (lambda b, p: sp.gdtrix(2.0, b, p),
         lambda b, x: lower_gamma(b, 2 * x), 3.0, 0.2),
        (lambda n, p: sp.fdtri(4.0, n, p),
         lambda n, x: lower_beta(2, n / 2, 4 * x / (4 * x + n)), 3.5, 0.3),
        (lambda n, p: -sp.stdtrit(n, p),
         lambda n, x: lower_beta(n / 2, HALF, n / (n + x * x)) / 2, 3.5, 1e-3),
        (lambda x, p: sp.gdtrib(2.0, p, x),
         lambda x, b: lower_gamma(b, 2 * x), 1.5, 0.3),
        (lambda x, p: sp.chdtriv(p, x),
         lambda x, v: lower_gamma(v / 2, x / 2), 2.5, 0.3),
        (lambda t, p: sp.stdtridf(p, -t),
         lambda t, n: lower_beta(n / 2, HALF, n / (n + t * t)) / 2, 2.5, 0.05),
    ],
)  # fmt: skip
def test_inverses_by_the_other_argument(
    inverse: Any, truth: Any, a: float, p: float
) -> None:
    with mp.workdps(90):
        near = float(inverse(a, p))
        solved = lambda a: solve(lambda x: truth(a, x), mp.mpf(p), near)  # noqa: E731
        slope, bend = differentiate(solved, a)
    f = lambda a: inverse(a, p)  # noqa: E731
    # As good as SciPy's own value
    rtol = 1e-9 if abs(near / solved(mp.mpf(a)) - 1) < 1e-13 else 1e-6
    np.testing.assert_allclose(wb.grad(f)(a), float(slope), rtol=rtol)
    np.testing.assert_allclose(wb.grad(wb.grad(f))(a), float(bend), rtol=10 * rtol)


def test_ends_of_the_domain_are_flat() -> None:
    x, a = np.array([0.0, 1.5, np.inf]), np.full(3, 2.0)
    slopes = wb.grad(lambda a: np.sum(sp.gammainc(a, x)))(a)
    assert slopes[0] == slopes[2] == 0 > slopes[1]
    x = np.array([0.0, 0.5, 1.0])
    slopes = wb.grad(lambda a: np.sum(sp.betainc(a, 3.0, x)))(a)
    assert slopes[0] == slopes[2] == 0 > slopes[1]
    t = np.array([-np.inf, 0.0, np.inf, 1.0])
    df = np.array([2.0, 2.0, 2.0, np.inf])
    np.testing.assert_array_equal(wb.grad(lambda n: np.sum(sp.stdtr(n, t)))(df), 0)
    assert np.isnan(wb.grad(lambda a: sp.gammainc(a, np.nan))(1.0))


def tile(*numbers: Any) -> list[Any]:
    """Return arrays of numbers side by side, long enough for recurrences."""
    return [np.tile(x, 400) for x in np.broadcast_arrays(*numbers)]


#: Lower and upper tails: the series, Legendre's fraction, and the integral.
MANY_TAILS = np.array([1e-100, 1e-9, 0.05, 0.4, 0.7, 0.985, 0.9905])


@pytest.mark.parametrize("a", [0.02, 0.7, 2.0, 7.5, 28.0, 400.0])
def test_incomplete_gamma_of_many_numbers(a: float) -> None:
    """Of many numbers series and fractions give what integrals give of a few."""
    for f, inverse, truth in (
        (sp.gammainc, sp.gammaincinv, lower_gamma),
        (sp.gammaincc, sp.gammainccinv, upper_gamma),
    ):
        x = inverse(a, MANY_TAILS)
        x = x[x > 1e-280]
        a_, x_ = tile(a, x)
        found = wb.grad(lambda a, f=f, x=x_: np.sum(f(a, x)))(a_)[: len(x)]
        for y, point in zip(found, x, strict=True):
            slope, _ = differentiate(lambda a, x=point, f=truth: f(a, mp.mpf(x)), a)
            assert abs(float(y) / slope - 1) < 3e-12


@pytest.mark.parametrize("a", [0.03, 0.5, 3.0, 60.0, 900.0])
@pytest.mark.parametrize("b", [0.5, 7.0, 20.5])
def test_incomplete_beta_of_many_numbers(a: float, b: float) -> None:
    x = sp.betaincinv(a, b, MANY_TAILS[1:])
    x = x[(x > 1e-280) & (x < 1)]
    a_, b_, x_ = tile(a, b, x)
    found = wb.grad(lambda a, b: np.sum(sp.betainc(a, b, x_)), (0, 1))(a_, b_)
    for k, point in enumerate(map(float, x)):
        at = mp.mpf(point)
        by_a = differentiate(lambda a, x=at: lower_beta(a, mp.mpf(b), x), a)[0]
        by_b = differentiate(lambda b, x=at: lower_beta(mp.mpf(a), b, x), b)[0]
        assert abs(float(found[0][k]) / by_a - 1) < 1e-11
        assert abs(float(found[1][k]) / by_b - 1) < 1e-11


@pytest.mark.parametrize("df", [0.6, 4.0, 150.0])
def test_student_of_many_numbers(df: float) -> None:
    t = np.array([-30.0, -2.0, -0.1, 1e-3, 0.7, 3.0, 9.0])
    many, t_ = tile(df, t)
    found = wb.grad(lambda n: np.sum(sp.stdtr(n, t_)))(many)[: len(t)]
    for y, at in zip(found, map(float, t), strict=True):
        x = mp.mpf(at)
        tail = lambda n, x=x: lower_beta(n / 2, HALF, n / (n + x * x)) / 2  # noqa: E731
        slope = -np.sign(at) * differentiate(tail, df)[0]
        assert abs(float(y) / slope - 1) < 1e-11


def test_arrays_that_broadcast_and_single_precision() -> None:
    rng = np.random.default_rng(0)
    a, x = rng.uniform(0.5, 9, (30, 41)), rng.uniform(0.1, 9, 41)
    f = lambda a: np.sum(sp.gammainc(a, x))  # noqa: E731
    whole = wb.grad(f)(a)
    assert whole.shape == a.shape
    for i, j in ((3, 5), (29, 40)):
        slope, _ = differentiate(lambda a, j=j: lower_gamma(a, mp.mpf(x[j])), a[i, j])
        assert abs(whole[i, j] / slope - 1) < 1e-12
    single = wb.grad(lambda a: np.sum(sp.gammainc(a, x.astype("f"))))(a.astype("f"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, whole, rtol=1e-4)
    some = a.copy()
    some[2, :3] = np.nan, np.inf, -1.0
    found = wb.grad(f)(some)
    np.testing.assert_array_equal(np.isnan(found[2, :3]), [True, False, True])
    np.testing.assert_allclose(found[3:], whole[3:], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_small_integers_as_the_other_argument(dtype: type) -> None:
    """NumPy's logarithms of them are in half precision, and their squares overflow."""
    k = np.array([2, 3, 15], dtype)
    if dtype is np.int32:
        k = k * dtype(10000)
    functions = (
        lambda v, k: sp.stdtr(v, k),
        lambda v, k: sp.gammainc(v, k),
        lambda v, k: sp.gammainc(k, v),
        lambda v, k: sp.betainc(v, k, 0.3),
        lambda v, k: sp.fdtr(v, k, k),
        lambda v, k: sp.nctdtr(v, 1.5, k),
        lambda v, k: sp.boxcox(k, v),
        lambda v, k: sp.boxcox1p(k, v),
        lambda v, k: sp.rel_entr(v, k),
        lambda v, k: sp.xlogy(v, k),
        lambda v, k: k**v,
        lambda v, k: np.float_power(k, v),
    )
    for f in functions:
        slopes = [wb.grad(lambda v, k=k, f=f: np.sum(f(v, k)))(1.3)
                  for k in (k, k.astype(float))]  # fmt: skip
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-13)
        single = wb.grad(lambda v, k=k, f=f: np.sum(f(v, k)))(np.float32(1.3))
        assert single.dtype == np.float32


def test_ends_of_inverses_do_not_move() -> None:
    q = np.linspace(0, 1, 5)
    inner = lambda f: (f(2 + 1e-6).sum() - f(2 - 1e-6).sum()) / 2e-6  # noqa: E731
    for f in (
        lambda a: sp.betaincinv(a, 3.0, q),
        lambda a: sp.gammaincinv(a, q[:-1]),
        lambda a: sp.gammainccinv(a, q[1:]),
        lambda a: sp.fdtri(a, 3.0, q[:-1]),
        lambda a: sp.chdtri(a, q[1:]),
        lambda a: sp.stdtrit(a, q[1:-1]),
    ):
        found = wb.grad(lambda a, f=f: np.sum(f(a)))(2.0)
        np.testing.assert_allclose(found, inner(f), rtol=1e-7)
    assert wb.grad(sp.fdtr)(2.0, 3.0, np.inf) == 0


# Noncentral families: means over Poisson's distribution, summed by mpmath


def mean_of_poisson(rate: Any, f: Callable[[int], Any]) -> Any:
    count = int(rate + 14 * mp.sqrt(rate) + 60)
    return sum(mp.exp(-rate) * rate**k / mp.factorial(k) * f(k) for k in range(count))


def noncentral_chi(x: Any, df: Any, nc: Any) -> Any:
    return mean_of_poisson(
        mp.mpf(nc) / 2, lambda k: lower_gamma(mp.mpf(df) / 2 + k, mp.mpf(x) / 2)
    )


def noncentral_f(m: Any, n: Any, nc: Any, x: Any) -> Any:
    m, n = mp.mpf(m), mp.mpf(n)
    y = m * x / (m * x + n)
    return mean_of_poisson(mp.mpf(nc) / 2, lambda k: lower_beta(m / 2 + k, n / 2, y))


def noncentral_t(df: Any, nc: Any, t: Any) -> Any:
    """Return the distribution function: Johnson, Kotz, Balakrishnan, (31.16)."""
    df, nc, t = mp.mpf(df), mp.mpf(nc), mp.mpf(t)
    if t < 0:
        return 1 - noncentral_t(df, -nc, -t)
    y, rate = t * t / (df + t * t), nc * nc / 2
    even = mean_of_poisson(rate, lambda k: lower_beta(k + HALF, df / 2, y))
    odd = mean_of_poisson(
        rate,
        lambda k: mp.factorial(k) / mp.gamma(k + 3 * HALF)
        * lower_beta(k + 1, df / 2, y),
    )  # fmt: skip
    return mp.erfc(nc / mp.sqrt(2)) / 2 + (even + nc / mp.sqrt(2) * odd) / 2


@pytest.mark.parametrize(
    ("df", "nc", "x"),
    [(3.0, 1.0, 2.0), (2.5, 4.0, 0.1), (2.5, 4.0, 40.0), (0.5, 0.5, 1.0),
     (100.0, 40.0, 90.0), (60.0, 3.0, 160.0), (5.0, 90.0, 20.0)],
)  # fmt: skip
def test_noncentral_chi_square_by_degrees(df: float, nc: float, x: float) -> None:
    """Also far out, where the upper tail of the family has the digits."""
    lower = lambda n: noncentral_chi(x, n, nc)  # noqa: E731
    check(lambda n: sp.chndtr(x, n, nc), lower, df, 1e-11, 1e-10)
    upper = lambda n: 1 - noncentral_chi(x, n, nc)  # noqa: E731
    with mp.workdps(60):
        assert abs(stats.ncx2.sf(x, df, nc) / upper(mp.mpf(df)) - 1) < 1e-12
    if float(sp.chndtr(x, df, nc)) > 0.9:
        check(lambda n: stats.ncx2.sf(x, n, nc), upper, df, 1e-11, 1e-10)
    density = lambda n: mp.diff(lambda x: noncentral_chi(x, n, nc), x)  # noqa: E731
    with mp.workdps(60):
        slope = mp.diff(lambda n: mp.log(density(n)), mp.mpf(df))
    found = wb.grad(lambda n: stats.ncx2.logpdf(x, n, nc))(df)
    assert abs(float(found) / slope - 1) < 1e-10


@pytest.mark.parametrize(
    ("m", "n", "nc", "x"),
    [(3.0, 5.5, 1.0, 0.7), (3.0, 5.5, 6.0, 0.1), (3.0, 5.5, 6.0, 20.0),
     (10.0, 60.0, 12.0, 0.3), (2.0, 1.5, 80.0, 2.0)],
)  # fmt: skip
def test_noncentral_f_by_degrees(m: float, n: float, nc: float, x: float) -> None:
    check(lambda m: sp.ncfdtr(m, n, nc, x), lambda m: noncentral_f(m, n, nc, x),
          m, 1e-11, 1e-10)  # fmt: skip
    check(lambda n: sp.ncfdtr(m, n, nc, x), lambda n: noncentral_f(m, n, nc, x),
          n, 1e-11, 1e-10)  # fmt: skip
    with mp.workdps(60):
        upper = 1 - noncentral_f(m, n, nc, mp.mpf(x))
        assert abs(stats.ncf.sf(x, m, n, nc) / upper - 1) < 1e-12


def sum_below(term: Any, ratio: Callable[[int], Any], rate: Any) -> Any:
    """Return the sum of D_j P(K <= j): a lower tail without cancellation."""
    weight, share, total = mp.exp(-rate), mp.mpf(0), mp.mpf(0)
    for j in range(4000):
        share += weight
        total += term * share
        term *= ratio(j)
        weight *= rate / (j + 1)
    return total


def differ(f: Callable[[Any], Any], x: float) -> Any:
    with mp.workdps(50):
        step = mp.mpf(x) / 10**18
        return (f(x + step) - f(x - step)) / (2 * step)


@pytest.mark.parametrize(
    ("x", "df", "nc"),
    [(1500.0, 2000.0, 200.0), (1800.0, 2000.0, 200.0), (1000.0, 2000.0, 200.0)],
)
def test_lower_tail_of_chi_square_of_many_degrees(
    x: float, df: float, nc: float
) -> None:
    """There the central tail is far larger, and its slope would cancel."""

    def lower(n: Any) -> Any:
        a, y = mp.mpf(n) / 2, mp.mpf(x) / 2
        first = mp.exp(a * mp.log(y) - y - mp.loggamma(a + 1))
        return sum_below(first, lambda j: y / (a + j + 1), mp.mpf(nc) / 2)

    found = wb.grad(lambda n: sp.chndtr(x, n, nc))(df)
    assert abs(float(found) / differ(lower, df) - 1) < 1e-11


@pytest.mark.parametrize(
    ("m", "n", "nc", "x"), [(500.0, 500.0, 100.0, 0.7), (50.0, 2000.0, 100.0, 1.3)]
)
def test_lower_tail_of_f_of_many_degrees(
    m: float, n: float, nc: float, x: float
) -> None:
    def lower(m: Any, n: Any) -> Any:
        a, b = mp.mpf(m) / 2, mp.mpf(n) / 2
        y = 2 * a * x / (2 * a * x + 2 * b)
        first = mp.exp(a * mp.log(y) + b * mp.log(1 - y)) / mp.beta(a, b) / a
        return sum_below(first, lambda j: y * (a + b + j) / (a + j + 1), mp.mpf(nc) / 2)

    by_m, by_n = wb.grad(sp.ncfdtr, (0, 1))(m, n, nc, x)
    assert abs(float(by_m) / differ(lambda m: lower(m, n), m) - 1) < 1e-10
    assert abs(float(by_n) / differ(lambda n: lower(m, n), n) - 1) < 1e-10


@pytest.mark.parametrize(
    ("df", "nc", "t"),
    [(1.0, 0.5, 0.3), (1.0, 2.0, -4.0), (3.0, -2.0, 5.0), (10.0, 3.0, 1.0),
     (0.4, 1.0, 2.0), (5.0, 6.0, 2.0), (40.0, 1.0, -3.0), (6.0, 0.0, 1.5)],
)  # fmt: skip
def test_noncentral_t_by_each_parameter(df: float, nc: float, t: float) -> None:
    by_df = lambda n: noncentral_t(n, nc, t)  # noqa: E731
    check(lambda n: sp.nctdtr(n, nc, t), by_df, df, 1e-11, 1e-10)
    by_t = lambda t: noncentral_t(df, nc, t)  # noqa: E731
    check(lambda t: sp.nctdtr(df, nc, t), by_t, t, 1e-12, 1e-11)
    if nc:
        by_nc = lambda nc: noncentral_t(df, nc, t)  # noqa: E731
        check(lambda nc: sp.nctdtr(df, nc, t), by_nc, nc, 1e-12, 1e-11)
    density, _ = differentiate(by_t, t)
    assert abs(float(stats.nct.logpdf(t, df, nc)) - mp.log(density)) < 1e-11


def scale_integral(df: Any, nc: Any, t: Any) -> Any:
    """Return nctdtr as the mean over its denominator, also of a large nc."""
    df, nc, t = mp.mpf(df), mp.mpf(nc), mp.mpf(t)
    h = df / 2
    constant = mp.log(2) + h * mp.log(h) - mp.loggamma(h)

    def integrand(u: Any) -> Any:
        density = mp.exp(constant + df * u - h * mp.exp(2 * u))
        return density * mp.erfc((nc - t * mp.exp(u)) / mp.sqrt(2)) / 2

    width = 1 / mp.sqrt(2 * df)
    step = mp.log(nc / t)  # so narrow as 1 / nc
    near = [step + k / abs(nc) for k in (-12, -6, -2, 0, 2, 6, 12)]
    ends = [width * k for k in range(-16, 12, 2)]
    ends = [min(ends[0], -70 / df - 1), *ends, 4]
    return mp.quad(integrand, sorted(ends + near), maxdegree=5)


@pytest.mark.parametrize(
    ("df", "nc", "t"),
    [(1.0, 12.0, 6.0), (3.0, 300.0, 280.0), (2.0, 1e4, 1.05e4), (5.0, 20.0, 18.0),
     (2000.0, 480.0, 500.0), (10.0, -100.0, -95.0)],
)  # fmt: skip
def test_noncentral_t_whose_step_is_narrow(df: float, nc: float, t: float) -> None:
    """Beyond nc / t the normal distribution is 1, and the chi-square one goes on."""
    with mp.workdps(30):
        step = mp.mpf(df) / 10**8
        slope = scale_integral(df + step, nc, t) - scale_integral(df - step, nc, t)
        slope = slope / (2 * step)
    found = wb.grad(lambda n: sp.nctdtr(n, nc, t))(df)
    assert abs(float(found) / slope - 1) < 1e-10
    turned = wb.grad(lambda n: sp.nctdtr(n, -nc, -t))(df)
    assert abs(float(turned) / slope + 1) < 1e-10


def test_noncentral_t_at_infinity() -> None:
    """Its ends are flat, and of infinitely many degrees it is normal."""
    assert wb.grad(sp.nctdtr, (0, 1, 2))(3.0, 1.0, np.inf) == (0, 0, 0)
    assert wb.grad(sp.nctdtr, (0, 1, 2))(3.0, 1.0, -np.inf) == (0, 0, 0)
    by_df, by_nc, by_t = wb.grad(sp.nctdtr, (0, 1, 2))(np.inf, 1.0, 0.5)
    density = scipy.stats.norm.pdf(-0.5)
    assert by_df == 0
    np.testing.assert_allclose([by_nc, by_t], [-density, density], rtol=1e-14)


@pytest.mark.parametrize("df", [2.5, 6.0, 39.9, 40.1, 300.0, 1e6, 1e12, 1e15])
def test_moments_of_noncentral_t(df: float) -> None:
    """Gamma functions of many degrees, and squares of the mean, cancel."""
    nc = 50.0

    def mean(n: Any) -> Any:
        return nc * mp.sqrt(n / 2) * mp.gammaprod([(n - 1) / 2], [n / 2])

    def var(n: Any) -> Any:
        return n / (n - 2) * (1 + mp.mpf(nc) ** 2) - mean(n) ** 2

    for made, truth in ((stats.nct.mean, mean), (stats.nct.var, var)):
        with mp.workdps(60):
            expected, slope = truth(mp.mpf(df)), differ(truth, df)
        assert abs(float(made(df, nc)) / expected - 1) < 1e-12
        found = wb.grad(lambda n, made=made: made(n, nc))(df)
        assert abs(float(found) / slope - 1) < 1e-11


def test_moments_of_noncentral_t_at_the_ends() -> None:
    assert float(stats.nct.mean(np.inf, 3.0)) == 3
    assert float(stats.nct.var(np.inf, 3.0)) == 1
    assert np.isnan(stats.nct.mean(1.0, 3.0))
    assert np.isnan(stats.nct.var(2.0, 3.0))


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_inverses_of_noncentral_families_by_all_parameters(p: float) -> None:
    """By the forward functions, whose slopes are tested above."""
    df, nc = 4.5, 1.7
    for inverse, forward in (
        (sp.chndtrix, lambda x, *shapes: sp.chndtr(x, *shapes)),
        (lambda p, n, nc: sp.ncfdtri(n, 5.5, nc, p),
         lambda x, n, nc: sp.ncfdtr(n, 5.5, nc, x)),
        (lambda p, n, nc: sp.ncfdtri(5.5, n, nc, p),
         lambda x, n, nc: sp.ncfdtr(5.5, n, nc, x)),
        (lambda p, n, nc: sp.nctdtrit(n, nc, p),
         lambda x, n, nc: sp.nctdtr(n, nc, x)),
    ):  # fmt: skip
        x = inverse(p, df, nc)
        by_x, *others = wb.grad(forward, (0, 1, 2))(x, df, nc)
        made = wb.grad(inverse, (0, 1, 2))(p, df, nc)
        wanted = [1 / by_x, *(-y / by_x for y in others)]
        np.testing.assert_allclose(made, wanted, rtol=1e-7)


def test_noncentralities_that_the_sums_do_not_reach() -> None:
    for f in (
        lambda n: sp.chndtr(300.0, n, 300.0),
        lambda n: sp.ncfdtr(n, 5.5, 300.0, 20.0),
        lambda n: sp.chndtr(1e5, n, 200.0),
    ):
        with pytest.raises(NotDifferentiableError, match="sum of 256 terms"):
            wb.grad(f)(4.5)
    assert 0 < wb.grad(lambda x: sp.chndtr(x, 4.5, 300.0))(300.0)


def test_densities_of_unknown_values_that_the_sums_do_not_reach() -> None:
    """Before values are known both formulas are written; the value chooses."""
    x, df, nc = wb.vector("x"), wb.vector("df"), wb.vector("nc")
    points, five = np.array([390.0, 3.0]), np.full(2, 5.0)
    far = np.array([400.0, 4.0])
    for distribution, shapes in (
        (stats.ncx2, lambda df, nc: (df, nc)),
        (stats.ncf, lambda df, nc: (df, 9.0, nc)),
    ):
        y = distribution.logpdf(x, *shapes(df, nc))
        known = getattr(scipy.stats, distribution.name).logpdf(
            points, *shapes(five, far)
        )
        f = wb.function([x, df, nc], y)
        np.testing.assert_allclose(f(points, five, far), known, rtol=1e-10)
        slope = wb.function([x, df, nc], wb.grad(np.sum(y), df))(points, five, far)
        assert np.isinf(slope[0])  # it is missing, and says so
        assert np.isfinite(slope[1])
