"""`scipy.special` on Tensors: all of it, exact where digits are at stake."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special as sp
from scipy import stats

import workbench as wb
from tests.chunks import parametrize_chunks
from workbench.core.op import CALLS, UFUNCS, load_all_ops
from workbench.core.refusals import REFUSED
from workbench.errors import NotDifferentiableError, TraceError
from workbench.scipy import special as ours

load_all_ops()
NAMES = [name for name in sp.__all__ if isinstance(getattr(sp, name), np.ufunc)]


@parametrize_chunks("name", {name: (name,) for name in NAMES})
def test_every_ufunc_is_supported_or_refused_with_a_reason(name: str) -> None:
    ufunc = getattr(sp, name)
    known = ufunc in UFUNCS or ufunc in CALLS
    assert known != (f"scipy.special.{name}" in REFUSED)
    if known:
        assert getattr(ours, name) is ufunc
        assert name in dir(ours)
    else:
        with pytest.raises(AttributeError, match=r"has no .*: .*x\.value"):
            getattr(ours, name)


def test_what_is_refused_exists() -> None:
    names = [n for n in REFUSED if n.startswith("scipy.special.")]
    assert names
    for name in names:
        assert hasattr(sp, name.rpartition(".")[2])


def test_a_refusal_says_why_and_what_to_write() -> None:
    with pytest.raises(TraceError) as caught:
        wb.grad(lambda q: sp.mathieu_a(2, q))(1.0)
    assert "characteristic values" in str(caught.value)
    assert "scipy.special.mathieu_a(x.value, ...)" in str(caught.value)
    assert "test_special.py" in str(caught.value)


def test_an_unknown_derivative_says_which_and_what_to_write() -> None:
    f = lambda v, x: np.sum(sp.jv(v, x))  # noqa: E731
    x = np.array([0.5, 1.5])
    for run in (
        lambda: wb.grad(f)(1.5, x),
        lambda: wb.jvp(f, (1.5, x), (1.0, x)),
        lambda: wb.grad(lambda a: sp.pbdv(a, 1.0)[0])(1.5),
        lambda: wb.jvp(lambda a: sp.pbdv(a, 1.0)[0], (1.5,), (1.0,)),
    ):
        with pytest.raises(NotDifferentiableError) as caught:
            run()
        assert "by the first argument has no closed form" in str(caught.value)
        assert "wb.stop_gradient(x)" in str(caught.value)
    # By the other argument, and with an order that is held fixed, there is one.
    truth = sp.jvp(1.5, x)
    np.testing.assert_allclose(wb.grad(f, 1)(1.5, x), truth)
    fixed = wb.grad(lambda x: np.sum(sp.jv(wb.stop_gradient(0 * x + 1.5), x)))(x)
    np.testing.assert_allclose(fixed, truth)


def test_an_integer_order_does_not_vary() -> None:
    def f(x: Any) -> Any:
        return np.sum(sp.jv(np.astype(np.floor(x), np.int64), x))

    x = np.array([0.5, 1.5, 2.5])
    expected = sp.jvp(np.array([0, 1, 2]), x)
    np.testing.assert_allclose(wb.grad(f)(x), expected, rtol=1e-13)
    np.testing.assert_allclose(wb.jvp(f, (x,), (1 + 0 * x,))[1], np.sum(expected))


@pytest.mark.parametrize("name", ["ive", "jve", "yve"])
def test_scaled_bessel_functions_of_complex_numbers(name: str) -> None:
    with pytest.raises(NotDifferentiableError, match="no complex derivative"):
        wb.vjp(lambda z: getattr(sp, name)(1, z), 1 + 1j)[1](1 + 0j)


def test_psi_of_complex_numbers() -> None:
    z = np.array([1 + 1j])
    np.testing.assert_allclose(wb.vjp(sp.loggamma, z)[1](z**0)[0], sp.psi(z))
    with pytest.raises(NotDifferentiableError, match="trigamma"):
        wb.vjp(sp.psi, z)[1](z)


# Where digits are at stake


def each(f: Any, order: int = 1) -> Any:
    """The derivative of an elementwise function."""
    for _ in range(order):
        f = wb.grad(lambda x, g=f: np.sum(g(x)))
    return f


def exact(got: Any, expected: Any, rtol: float = 1e-14) -> None:
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=0)


def test_log_ndtr_far_to_the_left() -> None:
    # Mills' ratio: log_ndtr'(-x) = x + 1/x - 2/x³ + 10/x⁵ - ..., and its derivative
    x = np.array([1e2, 1e4, 1e8])
    exact(each(sp.log_ndtr)(-x), x + 1 / x - 2 / x**3 + 10 / x**5)
    exact(each(sp.log_ndtr, 2)(-x), -1 + 1 / x**2 - 6 / x**4 + 50 / x**6, 1e-12)
    exact(each(sp.log_ndtr)(np.array([40.0])), 0.0)
    exact(each(sp.ndtri_exp)(np.array([-5e7])), 1 / each(sp.log_ndtr)(
        sp.ndtri_exp(np.array([-5e7]))))  # fmt: skip


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "log_ndtr", "log_expit"])
def test_sigmoids_are_flat_far_to_the_right(name: str) -> None:
    # Intervals of an ordered model end at infinity: ndtr(inf - x). A tail of 1e-300
    # in the slope of log_ndtr is exp(710) in a denominator.
    f = getattr(sp, name)
    for x in (40.0, 1e3, 1e100, np.inf):
        slopes = [wb.grad(f)(x), wb.grad(wb.grad(f))(x), wb.hessian(f)(x)]
        np.testing.assert_allclose(slopes, 0, atol=1e-15)
    # log_ndtr'' = -m (m + x), m = density by distribution
    m = np.exp(-0.5 * 5.0**2) / np.sqrt(2 * np.pi) / sp.ndtr(5.0)
    np.testing.assert_allclose(
        wb.grad(wb.grad(sp.log_ndtr))(5.0), -m * (m + 5.0), rtol=1e-12
    )


def test_erfcx_and_dawsn_far_out() -> None:
    x = np.array([1e3, 1e6])
    s = 1 / (x * x)
    exact(each(sp.erfcx)(x), -s / math.sqrt(math.pi) * (1 - 1.5 * s + 3.75 * s * s))
    exact(each(sp.dawsn)(x), -s / 2 * (1 + 1.5 * s + 3.75 * s * s))
    exact(each(sp.dawsn)(-x), each(sp.dawsn)(x))


def test_logistic_tails() -> None:
    x = np.array([-700.0, -40.0, 40.0, 700.0])
    exact(each(sp.expit)(x), np.exp(-np.abs(x)))
    exact(each(sp.log_expit)(x), [1, 1, np.exp(-40.0), np.exp(-700.0)])
    exact(each(ours.softplus)(x), [np.exp(-700.0), np.exp(-40.0), 1, 1])


@pytest.mark.parametrize(
    ("f", "mixed"),
    [
        (sp.xlogy, lambda y: 1 / y),
        (sp.xlog1py, lambda y: 1 / (1 + y)),
        (sp.rel_entr, lambda y: -1 / y),
        (sp.kl_div, lambda y: -1 / y),
    ],
)
def test_entropies_at_zero_have_their_mixed_derivative(f: Any, mixed: Any) -> None:
    x, y = np.zeros(2), np.array([0.5, 2.0])
    by_y = wb.grad(lambda x, y: np.sum(f(x, y)), argnums=1)
    _, tangent = wb.jvp(lambda x: by_y(x, y), [x], [np.ones(2)])
    exact(tangent, mixed(y))
    exact(each(lambda x: np.sum(by_y(x, y)))(x), mixed(y))


def test_entropies_at_zero() -> None:
    zero, p = np.zeros(2), np.array([0.0, 0.4])
    exact(each(lambda y: sp.xlogy(zero, y))(p), [0, 0])
    exact(each(lambda y: sp.xlog1py(zero, y))(np.array([-1.0, 2.0])), [0, 0])
    exact(each(lambda y: sp.rel_entr(zero, y))(p), [0, 0])
    exact(each(lambda y: sp.kl_div(zero, y))(p), [1, 1])
    with np.errstate(divide="ignore"):
        exact(each(sp.entr)(p), [np.inf, -1 - np.log(0.4)])
    exact(each(sp.entr)(np.array([-1.0])), [0])  # constant, -inf, outside
    safe = lambda p: np.sum(np.where(p > 0, sp.entr(p), 0))  # noqa: E731
    with np.errstate(divide="ignore"):
        exact(wb.grad(safe)(p), [0, -1 - np.log(0.4)])


def test_relative_entropy_of_near_equals() -> None:
    y = np.array([0.3])
    x = y * (1 + 2.0**-30)
    d = (x - y) / y  # exact: log(1 + d) = d - d²/2 + d³/3
    exact(each(lambda x: sp.kl_div(x, y))(x), d - d**2 / 2 + d**3 / 3)


def test_rgamma_at_its_zeros() -> None:
    # 1 / gamma(x) has slope (-1)**n n! at -n
    x = -np.arange(6.0)
    slopes = [(-1) ** n * math.factorial(n) for n in range(6)]
    exact(each(sp.rgamma)(x), slopes, 1e-13)
    # and second derivative 2 (-1)**(n+1) n! psi(n + 1)
    second = -2 * np.array(slopes) * sp.psi(np.arange(1, 7))
    exact(each(sp.rgamma, 2)(x), second, 1e-11)


def test_power_transforms_at_lambda_zero() -> None:
    x = np.array([0.3, 2.0])
    log, zero = np.log(x), np.zeros(2)
    exact(each(lambda lam: sp.boxcox(x, lam))(zero), log**2 / 2)
    exact(each(lambda lam: sp.boxcox(x, lam), 2)(zero), log**3 / 3, 1e-13)
    exact(each(lambda lam: sp.boxcox1p(x, lam))(zero), np.log1p(x) ** 2 / 2)
    exact(each(lambda lam: sp.inv_boxcox(x, lam))(zero), -np.exp(x) * x**2 / 2)
    exact(each(lambda lam: sp.inv_boxcox1p(x, lam))(zero), -np.exp(x) * x**2 / 2)
    exact(each(sp.exprel)(zero), [0.5, 0.5])
    exact(each(sp.exprel, 3)(zero), [0.25, 0.25], 1e-13)


def test_elliptic_integrals_at_zero_parameter() -> None:
    # K = pi/2 (1 + m/4 + 9 m²/64), E = pi/2 (1 - m/4 - 3 m²/64): DLMF 19.5
    m, phi = np.zeros(1), np.array([0.7])
    exact(each(sp.ellipk)(m), [math.pi / 8])
    exact(each(sp.ellipk, 2)(m), [math.pi * 9 / 64])
    exact(each(sp.ellipe)(m), [-math.pi / 8])
    exact(each(sp.ellipe, 2)(m), [-math.pi * 3 / 64])
    # F = integral of 1 + m sin²/2 + 3 m² sin⁴/8
    squares = phi / 2 - np.sin(2 * phi) / 4
    fourth = 3 * phi / 8 - np.sin(2 * phi) / 4 + np.sin(4 * phi) / 32
    exact(each(lambda m: sp.ellipkinc(phi, m))(m), squares / 2, 1e-13)
    exact(each(lambda m: sp.ellipkinc(phi, m), 2)(m), fourth * 3 / 4, 1e-12)
    exact(each(lambda m: sp.ellipeinc(phi, m))(m), -squares / 2, 1e-13)


@pytest.mark.long
@pytest.mark.parametrize("z", [1.0, 1 + 1e-9, 1.06, 1.07, 30.0])
@pytest.mark.parametrize("y", [1.0, 1 - 1e-8, 2.0, 0.01])
def test_elliprd_of_equals_to_second_order(y: float, z: float) -> None:
    def true(*orders: int) -> float:
        """The integral, differentiated under its sign."""
        with mpmath.workdps(25):
            powers = [-mpmath.mpf(p) - n for p, n in zip((0.5, 0.5, 1.5), orders,
                                                       strict=True)]  # fmt: skip
            factor = mpmath.mpf(1.5)
            for p, n in zip((0.5, 0.5, 1.5), orders, strict=True):
                factor *= mpmath.rf(p, n) * (-1) ** n

            def inside(t: Any) -> Any:
                made = factor
                for x, p in zip((1.0, y, z), powers, strict=True):
                    made *= (t + x) ** p
                return made

            return float(mpmath.quad(inside, [0, 0.1, 1, 10, 100, 1e4, mpmath.inf]))

    def f(v: Any) -> Any:
        return sp.elliprd(v[0], v[1], v[2])

    at, one = np.array([1.0, y, z]), np.eye(3, dtype=int)
    np.testing.assert_allclose(wb.grad(f)(at), [true(*e) for e in one], rtol=1e-13)
    second = [[true(*(e + d)) for d in one] for e in one]
    np.testing.assert_allclose(wb.hessian(f)(at), second, rtol=2e-12)


def test_elliprd_at_a_zero_argument() -> None:
    by = wb.grad(lambda x, y, z: sp.elliprd(x, y, z), argnums=(1, 2))
    exact(by(0.0, 2.0, 1.0), by(1e-28, 2.0, 1.0), 1e-12)


@pytest.mark.parametrize("at", [(0.5, 2.0, 3.0), (1, 1, 1), (1e6, 1e-3, 2), (0, 2, 1)])
def test_elliprg_by_its_integral(at: tuple[float, float, float]) -> None:
    """Its derivatives are those of the integral DLMF 19.23.7, in 40 digits."""

    def slope(x: float, y: float, z: float) -> float:
        """Integrate ``t (t+x)^(-3/2) (t+y)^(-1/2) (t+z)^(-1/2) / 8``."""
        with mpmath.workdps(40):
            x, y, z = map(mpmath.mpf, (x, y, z))

            def inside(s: Any) -> Any:  # t = s², which smooths the end at 0
                t = s * s
                roots = mpmath.sqrt((t + y) * (t + z))
                return 2 * s * t / ((t + x) * mpmath.sqrt(t + x) * roots)

            ends = [0, 0.03, 0.3, 1, 10, 100, 1e3, 1e4, 1e6, mpmath.inf]
            return float(mpmath.quad(inside, ends) / 8)

    x, y, z = map(float, at)
    true = [slope(x, y, z), slope(y, x, z), slope(z, x, y)]
    made = wb.grad(lambda *v: sp.elliprg(*v), argnums=(0, 1, 2))(x, y, z)
    np.testing.assert_allclose(made, true, rtol=1e-13)


def test_elliprg_of_a_flat_ellipsoid() -> None:
    """With two arguments 0 it is half a root."""
    by = wb.grad(lambda x, y: sp.elliprg(x, y, 0.0))
    exact(by(4.0, 0.0), 1 / 8)
    exact(wb.grad(wb.grad(lambda x: sp.elliprg(0.0, x, 0.0)))(4.0), -1 / 64)


def test_removable_points() -> None:
    zero = np.zeros(1)
    exact(each(lambda x: sp.sici(x)[0])(zero), [1])
    exact(each(lambda x: sp.sici(x)[0], 3)(zero), [-1 / 3])
    exact(each(lambda x: sp.shichi(x)[0], 3)(zero), [1 / 3])
    exact(each(lambda x: sp.it2j0y0(x)[0], 2)(zero), [0.25])
    exact(each(sp.spence)(zero + 1), [-1])
    exact(each(sp.spence, 3)(zero + 1), [-2 / 3], 1e-13)
    exact(each(sp.bei, 2)(zero), [0.5])
    exact(each(sp.ber, 2)(zero), [0])
    exact(each(sp.j1)(zero), [0.5])
    exact(each(lambda x: ours.spherical_jn(1, x))(zero), [1 / 3])
    exact(each(lambda x: sp.eval_legendre(3, x))(zero + 1), [6])
    exact(each(lambda x: sp.eval_chebyu(3, x), 2)(zero + 1), [48])
    exact(each(lambda x: ours.diric(x, 5), 2)(zero), [-2])


def test_lambertw_at_zero_and_huber_at_its_knee() -> None:
    w = each(lambda x: np.real(ours.lambertw(x)))
    exact(w(np.zeros(1)), [1])
    r = np.array([-1.0, 0.0, 1.0, 3.0])
    exact(each(lambda r: sp.huber(1.0, r))(r), [-1, 0, 1, 1])
    exact(wb.grad(lambda d: np.sum(sp.pseudo_huber(d, r)))(1e-3),
        np.sum((np.hypot(1e-3, r) - 1e-3) ** 2 / np.hypot(1e-3, r)), 1e-12)  # fmt: skip
    exact(each(lambda d: sp.pseudo_huber(d, 0.0))(np.zeros(1)), [0])


def test_density_of_noncentral_chi_square() -> None:
    x, nc = np.array([0.7, 90.0, 1000.0, 1e5]), np.array([0.0, 120.0, 1050.0, 1e5])
    slope = wb.grad(lambda x: np.sum(sp.chndtr(x, 3.5, nc)))(x)
    central = stats.chi2.pdf(x[0], 3.5)
    np.testing.assert_allclose(slope[0], central, rtol=1e-13)
    np.testing.assert_allclose(slope[1:], stats.ncx2.pdf(x[1:], 3.5, nc[1:]), rtol=1e-9)
    by_nc = wb.grad(lambda nc: np.sum(sp.chndtr(x, 3.5, nc)))(nc)
    np.testing.assert_allclose(by_nc[0], -stats.chi2.pdf(x[0], 5.5), rtol=1e-13)


@pytest.mark.parametrize("m", [0.8, 3.0, 60.0])
@pytest.mark.parametrize("n", [1.3, 25.0])
@pytest.mark.parametrize("nc", [0.0, 0.4, 60.0, 300.0])
def test_slopes_of_noncentral_f(m: float, n: float, nc: float) -> None:
    """A mixture of beta distributions by Poisson's weights, summed by mpmath."""
    for x in (0.05, 0.7, 6.0, 40.0):
        with mpmath.mp.workdps(40):
            a, b = mpmath.mp.mpf(m) / 2, mpmath.mp.mpf(n) / 2
            share = a * x / (a * x + b)
            c = (
                mpmath.mp.exp(-mpmath.mp.mpf(nc) / 2)
                * share**a
                * (1 - share) ** b
                / mpmath.mp.beta(a, b)
            )
            density = c / x * mpmath.mp.hyp1f1(a + b, a, nc * share / 2)
            by_nc = -c / 2 / a * mpmath.mp.hyp1f1(a + b, a + 1, nc * share / 2)
        np.testing.assert_allclose(
            wb.grad(sp.ncfdtr, (2, 3))(m, n, nc, x),
            (float(by_nc), float(density)),
            rtol=1e-11,
            atol=1e-300,
        )


def _sum_series(ratio: Any) -> Any:
    """Sum 1 + ratio(0) + ratio(0) ratio(1) + ... of positive terms by mpmath."""
    term = total = mpmath.mp.mpf(1)
    for k in range(100_000):
        term = term * ratio(mpmath.mp.mpf(k))
        total += term
        if term < total * 1e-25 and ratio(mpmath.mp.mpf(k)) < 1:
            break
    return total


@pytest.mark.parametrize(
    ("df", "nc", "x"),
    [
        (2000.0, 3.0, 2000.0),
        (2000.0, 0.0, 1900.0),
        (202.1, 60.0, 210.0),
        (1e5, 3e3, 1.02e5),
        (3.0, 2e4, 1.9e4),
        (201.0, 1e-3, 400.0),
    ],
)
def test_slopes_of_chndtr_of_many_degrees(df: float, nc: float, x: float) -> None:
    with mpmath.mp.workdps(40):
        truth = []
        for a in (mpmath.mp.mpf(df) / 2, mpmath.mp.mpf(df) / 2 + 1):
            power = (a - 1) * mpmath.mp.log(mpmath.mp.mpf(x) / 2)
            c = mpmath.mp.exp(power - mpmath.mp.loggamma(a) - (x + nc) / 2) / 2
            y = mpmath.mp.mpf(nc) * x / 4
            truth.append(c * _sum_series(lambda k, a=a, y=y: y / (a + k) / (k + 1)))
    density, by_nc = map(float, truth)
    found = wb.grad(sp.chndtr, (0, 2))(x, df, nc)
    np.testing.assert_allclose(found, (density, -by_nc), rtol=1e-11)
    found = wb.grad(lambda x: wb.grad(sp.chndtr)(x, df, nc))(x)
    lower = wb.grad(sp.chndtr)(x, df - 2, nc)
    np.testing.assert_allclose(found, (lower - density) / 2, rtol=1e-7)


@pytest.mark.parametrize(
    ("m", "n", "nc", "x"),
    [
        (10.0, 3000.0, 1000.0, 100.0),
        (1000.0, 1e4, 1e4, 11.0),
        (3.0, 41.0, 0.0, 0.7),
        (0.7, 41.0, 50.0, 200.0),
        (1e4, 50.0, 100.0, 0.9),
    ],
)
def test_slopes_of_ncfdtr_of_many_degrees(
    m: float, n: float, nc: float, x: float
) -> None:
    with mpmath.mp.workdps(40):
        mp, a, b = mpmath.mp, mpmath.mp.mpf(m) / 2, mpmath.mp.mpf(n) / 2
        share = a * x / (a * x + b)
        c = a * mp.log(share) + b * mp.log(1 - share) - mp.mpf(nc) / 2
        c = mp.exp(c + mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b))
        w = nc * share / 2
        terms = [
            _sum_series(lambda k, d=d: (a + b + k) / (d + k) * w / (k + 1))
            for d in (a, a + 1)
        ]
        truth = -c / 2 / a * terms[1], c / x * terms[0]
    found = wb.grad(sp.ncfdtr, (2, 3))(m, n, nc, x)
    np.testing.assert_allclose(found, tuple(map(float, truth)), rtol=1e-11)
    many = wb.grad(lambda x: np.sum(sp.ncfdtr(m, n, nc, x)))(np.full(600, x))
    np.testing.assert_allclose(many, found[1], rtol=1e-13)


def test_quantile_0_of_noncentral_chi_square_stays() -> None:
    p = np.array([0.0, 0.5])
    found = wb.grad(lambda n: np.sum(sp.chndtrix(p, 4.0, n)))(2.0)
    np.testing.assert_allclose(
        found, wb.grad(lambda n: sp.chndtrix(0.5, 4.0, n))(2.0), rtol=1e-14
    )
    slope = wb.grad(lambda p: sp.chndtrix(p, 2000.0, 3.0))(0.3)
    np.testing.assert_allclose(slope, 180.12824882, rtol=1e-8)


def test_inverses_of_noncentral_families() -> None:
    """By the forward functions, whose slopes are tested against mpmath."""
    p, df, nc = 0.3, 2.5, 1.7
    x = sp.chndtrix(p, df, nc)
    by_x, by_nc = wb.grad(sp.chndtr, (0, 2))(x, df, nc)
    made = wb.grad(sp.chndtrix, (0, 2))(p, df, nc)
    np.testing.assert_allclose(made, (1 / by_x, -by_nc / by_x), rtol=1e-9)
    made = wb.grad(sp.chndtrinc, (0, 2))(x, df, p)
    np.testing.assert_allclose(made, (-by_x / by_nc, 1 / by_nc), rtol=1e-7)
    x = sp.ncfdtri(3.0, 5.5, nc, p)
    by_nc, by_x = wb.grad(sp.ncfdtr, (2, 3))(3.0, 5.5, nc, x)
    made = wb.grad(sp.ncfdtri, (2, 3))(3.0, 5.5, nc, p)
    np.testing.assert_allclose(made, (-by_nc / by_x, 1 / by_x), rtol=1e-9)


def test_softmax_of_infinities_and_large_numbers() -> None:
    x = np.array([1e4, 1e4 + 1, -np.inf])
    np.testing.assert_allclose(ours.softmax(x), sp.softmax(x), rtol=1e-15)
    np.testing.assert_allclose(ours.log_softmax(x), sp.log_softmax(x), rtol=1e-15)
    p = ours.softmax(x)
    jacobian = wb.jacobian(ours.softmax)(x)
    np.testing.assert_allclose(jacobian, np.diag(p) - np.outer(p, p), atol=1e-15)
    np.testing.assert_allclose(
        wb.grad(lambda x: ours.log_softmax(x)[0])(x), [1 - p[0], -p[1], 0], atol=1e-15
    )


# Names


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match=r"no gamaln\. Did you mean .*gammaln"):
        ours.gamaln  # noqa: B018
    with pytest.raises(AttributeError, match=r"no ai_zeros.*ai_zeros\(x\.value\)"):
        ours.ai_zeros  # noqa: B018
    from workbench.scipy.special import erf, softmax  # the import asks for __path__

    assert erf is sp.erf
    assert softmax is ours.softmax
    for name in ours.__all__:
        assert callable(getattr(ours, name))
        assert hasattr(sp, name)


def test_errors_of_arguments() -> None:
    with pytest.raises(ValueError, match="positive integer"):
        ours.multigammaln(3.0, 0)
    with pytest.raises(ValueError, match="above"):
        ours.multigammaln(0.5, 3)
    with pytest.raises(ValueError, match="positive integer"):
        ours.diric(0.5, 0)
    graph = wb.trace(lambda a: ours.multigammaln(a, 2))(wb.Spec((), np.dtype(float)))
    assert graph.outputs[0].shape == ()


def test_functions_are_called_where_the_arrays_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CuPy's functions have the same names; what it lacks are kernels of ours."""

    class Array(np.ndarray):
        pass

    Array.__module__ = "cupy.fake"
    module = type(sys)("cupyx.scipy.special")
    module.erf = lambda x: "on the GPU"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", module)
    monkeypatch.setattr(
        "workbench.ops.special.define.find_kernels",
        lambda name, ufunc: lambda *args: f"a kernel of {name}",
    )
    x = np.ones(2).view(Array)
    assert UFUNCS[sp.erf].compute(x) == "on the GPU"
    assert UFUNCS[sp.jv].compute(1, x) == "a kernel of jv"


def test_ops_load_when_a_ufunc_first_meets_a_tensor() -> None:
    code = (
        "import sys, workbench as wb, numpy as np\n"
        "assert 'scipy' not in sys.modules\n"
        "from scipy import special\n"
        "assert 'workbench.ops.special' not in sys.modules\n"
        "assert abs(wb.grad(special.erf)(0.0) - 2 / np.sqrt(np.pi)) < 1e-15\n"
        "assert abs(wb.grad(special.gammaln)(1.0) + 0.5772156649015329) < 1e-15\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def partials(f: Any, at: tuple[float, float]) -> tuple[list[float], list[list[float]]]:
    """First and second derivatives by mpmath, in 60 digits."""
    with mpmath.workdps(60):
        first = [mpmath.diff(f, at, n) for n in ((1, 0), (0, 1))]
        rows = [[mpmath.diff(f, at, n) for n in row] for row in SECOND]
    return [float(x) for x in first], [[float(x) for x in row] for row in rows]


SECOND = (((2, 0), (1, 1)), ((1, 1), (0, 2)))


@pytest.mark.parametrize(
    "at",
    [
        (3.0, 5.0), (3.0, -1.0), (0.0, 1.0), (0.5, -2.0), (0.5, 1.5), (-2.5, 0.5),
        (-2.5, -2.0), (40.0, 45.0), (1.0, 300.0), (2.5, 1.0), (-1.5, -3.5),
    ],
)  # fmt: skip
def test_binom_has_a_slope_where_it_is_zero(at: tuple[float, float]) -> None:
    def exact(n: Any, k: Any) -> Any:
        return mpmath.gamma(n + 1) * mpmath.rgamma(k + 1) * mpmath.rgamma(n - k + 1)

    first, second = partials(exact, at)
    same = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-14)
    same(wb.grad(sp.binom, (0, 1))(*at), first)
    same([wb.jvp(sp.binom, at, t)[1] for t in ((1.0, 0.0), (0.0, 1.0))], first)
    same(wb.hessian(sp.binom, (0, 1))(*at), second)


@pytest.mark.parametrize(
    "at",
    [(-2.0, 3.0), (-2.0, 4.0), (0.0, 1.0), (-1.0, 0.5), (0.0, 2.5), (-2.5, 3.0),
     (-30.0, 20.5), (-180.0, 100.5), (1.5, 2.0)],
)  # fmt: skip
def test_poch_has_a_slope_where_it_is_zero(at: tuple[float, float]) -> None:
    first, second = partials(lambda z, m: mpmath.gamma(z + m) * mpmath.rgamma(z), at)
    same = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-14)
    same(wb.grad(sp.poch, (0, 1))(*at), first)
    same([wb.jvp(sp.poch, at, t)[1] for t in ((1.0, 0.0), (0.0, 1.0))], first)
    same(wb.hessian(sp.poch, (0, 1))(*at), second)


@pytest.mark.parametrize(("z", "m"), [(-2.0, 2.0), (-2.0, 1.0), (0.0, 0.0), (-3.0, -1)])
def test_poch_of_a_whole_step_is_a_polynomial(z: float, m: float) -> None:
    with mpmath.workdps(60):
        slopes = [float(mpmath.diff(lambda x: mpmath.rf(x, m), z, n)) for n in (1, 2)]
    slope = wb.grad(lambda x: sp.poch(x, m))
    np.testing.assert_allclose(slope(z), slopes[0], rtol=1e-12)
    np.testing.assert_allclose(wb.grad(slope)(z), slopes[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [sp.binom, sp.poch])
def test_slopes_at_zeros_keep_float32(f: Any) -> None:
    x = np.array([3.0, 0.5], np.float32)
    assert wb.grad(lambda x: np.sum(f(x, 5.0)))(x).dtype == np.float32
    assert wb.grad(lambda x: np.sum(f(-3.0, x)))(x).dtype == np.float32
    _, t = wb.jvp(lambda x: f(3.0, x), (x,), (x,))
    assert t.dtype == np.float32


# Higher derivatives at the ends of the domain, and far out


def higher(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Return the derivative of this order, reverse mode each time."""
    for _ in range(order):
        f = wb.grad(f)
    return f


@pytest.mark.parametrize("order", [0, 0.5, 1, 1.5, 2, -0.5])
@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_struve_near_0_and_in_the_middle(name: str, order: float) -> None:
    truth = {"struve": mpmath.struveh, "modstruve": mpmath.struvel}[name]
    f = lambda x: getattr(sp, name)(order, x)  # noqa: E731
    for x in (1e-30, 1e-8, 1e-3, 0.5, 1.99, 2.01, 5.0):
        with mpmath.workdps(60):
            step = mpmath.mpf(x) * mpmath.mpf(10) ** -12
            for n in (1, 2, 3):
                with mpmath.workdps(120):
                    exact = mpmath.diff(
                        lambda z: truth(order, z), mpmath.mpf(x), n, h=step
                    )
                exact = float(exact)
                found = higher(f, n)(x)
                np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_struve_far_out() -> None:
    def closed(z: Any) -> Any:  # DLMF 11.4.7 with 11.4.23
        root = mpmath.sqrt(z / (2 * mpmath.pi))
        wave = mpmath.sin(z) + mpmath.cos(z) / z
        return root * (1 + 2 / z**2) - mpmath.sqrt(2 / (mpmath.pi * z)) * wave

    for x in (1e2, 1e4, 1e8):
        for n in (1, 2, 3):
            with mpmath.workdps(120):
                exact = float(
                    mpmath.diff(closed, mpmath.mpf(x), n, h=mpmath.mpf(10) ** -25)
                )
            found = higher(lambda x: sp.struve(1.5, x), n)(x)
            np.testing.assert_allclose(found, exact, rtol=1e-8)
    np.testing.assert_allclose(higher(lambda x: sp.struve(0, x), 2)(0.0), 0)
    third = higher(lambda x: sp.struve(0, x), 3)(0.0)
    np.testing.assert_allclose(third, -4 / (3 * np.pi), rtol=1e-14)


@pytest.mark.parametrize("a", range(1, 5))
@pytest.mark.parametrize("b", range(1, 5))
def test_betainc_of_whole_parameters_is_a_polynomial(a: int, b: int) -> None:
    poly = np.polynomial.Polynomial
    density = poly([0, 1]) ** (a - 1) * poly([1, -1]) ** (b - 1) / sp.beta(a, b)
    for x in (0.0, 0.25, 1.0):
        for n in range(1, 5):
            found = higher(lambda x: sp.betainc(a, b, x), n)(x)
            truth = density.deriv(n - 1)(x) if n > 1 else density(x)
            np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-11)
            over = higher(lambda x: sp.betaincc(a, b, x), n)(x)
            np.testing.assert_allclose(over, -truth, rtol=1e-12, atol=1e-11)
    second = wb.jvp(lambda x: wb.jvp(lambda x: sp.betainc(a, b, x), (x,), (1.0,))[1],
                    (1.0,), (1.0,))[1]  # fmt: skip
    np.testing.assert_allclose(second, density.deriv()(1.0), atol=1e-11)


@pytest.mark.parametrize("a", range(1, 5))
def test_gammainc_of_whole_orders_at_0(a: int) -> None:
    # x**(a-1) exp(-x) / (a-1)!, by its series
    for n in range(1, 6):
        k = n - a  # the power of x in exp(-x) that is left
        truth = 0.0
        if k >= 0:
            truth = (-1) ** k * math.factorial(n - 1) / math.factorial(k)
            truth /= math.factorial(a - 1)
        for f in (sp.gammainc, lambda a, x: -sp.gammaincc(a, x)):
            found = higher(lambda x, f=f: f(float(a), x), n)(0.0)
            np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-12)
        chi = higher(lambda x: sp.chdtr(2.0 * a, x), n)(0.0)
        np.testing.assert_allclose(chi, truth * 0.5**n, rtol=1e-12, atol=1e-12)


def test_densities_of_large_parameters_neither_overflow_nor_vanish() -> None:
    for a, b, x in ((200.0, 150.0, 0.57), (2000.0, 3.0, 0.999), (60.0, 39.0, 1e-3)):
        with mpmath.workdps(50):
            z = mpmath.mpf(x)
            exact = z ** (a - 1) * (1 - z) ** (b - 1) / mpmath.beta(a, b)
        found = wb.grad(sp.betainc, 2)(a, b, x)
        np.testing.assert_allclose(found, float(exact), rtol=1e-10)
    for a, x in ((120.0, 110.0), (99.0, 800.0), (50.0, 1e-3)):
        with mpmath.workdps(50):
            z = mpmath.mpf(x)
            exact = z ** (a - 1) * mpmath.exp(-z) / mpmath.gamma(a)
        found = wb.grad(sp.gammainc, 1)(a, x)
        np.testing.assert_allclose(found, float(exact), rtol=1e-10)
    with np.errstate(invalid="ignore"):
        assert np.isnan(wb.grad(lambda x: sp.gammainc(3.0, x))(-1.0))
        assert np.isnan(wb.grad(lambda x: sp.betainc(3.0, 2.0, x))(1.5))


@pytest.mark.parametrize("df", [3.0, 199.0, 201.0, 400.0, 1e5, 1e300, np.inf])
def test_density_of_student_at_few_and_at_many_degrees(df: float) -> None:
    """From 200 on the constant is a series in 1 / df; at infinity it is the normal."""
    for t in (-1.3, 0.4, 6.0):
        with mpmath.workdps(40):
            if df > 1e12:
                exact = mpmath.npdf(t)
            else:
                n, z = mpmath.mpf(df), mpmath.mpf(t)
                constant = mpmath.sqrt(n) * mpmath.beta(0.5, n / 2)
                exact = (1 + z * z / n) ** (-(n + 1) / 2) / constant
        found = wb.grad(sp.stdtr, 1)(df, t)
        np.testing.assert_allclose(found, float(exact), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float16", "float32"])
@pytest.mark.parametrize("name", ["cbrt", "exp2", "expm1", "log1p", "round"])
def test_numpys_own_functions_have_the_dtypes_of_scipy(name: str, dtype: str) -> None:
    f = getattr(sp, name)
    x = np.array([0, 1, 50]).astype(dtype)
    found, expected = wb.compile(lambda x: f(x))(x), f(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)
