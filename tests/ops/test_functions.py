"""Functions of NumPy against NumPy: ufunc methods, polynomials, lines, differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.test_order import same
from workbench.errors import TraceError

UFUNCS: list[Any] = [
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.hypot,
    np.logaddexp, np.logaddexp2, np.subtract, np.divide, np.logical_xor,
    np.logical_and, np.logical_or,
]  # fmt: skip
ARRAYS = [
    np.random.default_rng(0).normal(size=(3, 4, 2)),
    np.full((1, 1, 1), -1.5),
    np.ones((0, 2, 3)),
]


def as_numpy(f: Callable[..., Any], x: Any) -> None:
    """The values of NumPy, or an error where NumPy has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            f(x)
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                wb.trace(f)(x)
        else:
            same(f, x, tolerance=1e-13)


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
@pytest.mark.parametrize("x", ARRAYS, ids=["many", "one", "none"])
def test_methods_of_ufuncs(ufunc: Any, x: Any) -> None:
    for axis in (0, -1, None, (0, 2)):
        for more in (
            {},
            {"keepdims": True},
            {"initial": 0.5},
            {"initial": 0.5, "where": x > 0},
            {"where": x > 0},
        ):
            as_numpy(lambda a, n=axis, m=more: ufunc.reduce(a, axis=n, **m), x)
    for axis in (0, 1, -1):
        as_numpy(lambda a, n=axis: ufunc.accumulate(a, axis=n), x)
        for starts in ([0, 1], [0, 2, 1], [1, 1, 0], [], [0], [5]):
            as_numpy(lambda a, n=axis, i=starts: ufunc.reduceat(a, i, axis=n), x)
    as_numpy(lambda a: ufunc.outer(a, [1.0, 2.0]), x)
    as_numpy(lambda a: ufunc.outer([1.0, 2.0], a), x)


def test_ufuncs_of_integers_reduce() -> None:
    x = np.array([[12, 18], [8, 27]])
    for ufunc in (np.gcd, np.lcm, np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        same(lambda a, u=ufunc: u.reduce(a, axis=1) * 1.0, x)


def test_what_ufuncs_refuse() -> None:
    x = np.arange(3.0)
    square = np.frompyfunc(lambda a: a * a, 1, 1)
    for f, text in (
        (lambda a: np.power.reduce(a), r"np\.power\.reduce is not known"),
        (lambda a: np.power.accumulate(a), r"np\.power\.accumulate is not known"),
        (lambda a: np.add(a, 1, out=x), r"np\.add\(\.\.\., out=.*write y ="),
        (lambda a: np.add.reduce(a, out=x), r"np\.add\.reduce\(.*out="),
        (lambda a: np.add(a, 1, where=a > 0), r"np\.where\(condition, np\.add"),
        (square, r"np\.frompyfunc.*np\.stack\(\[f\(v\) for v in x\]\)"),
    ):
        with pytest.raises(TraceError, match=text):
            wb.trace(f)(x)
    np.testing.assert_allclose(
        wb.grad(lambda a: np.sum(np.vectorize(lambda b: b * b)(a)))(x), 2 * x
    )


# Elementwise corners


def test_values_at_the_corners() -> None:
    x = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan])
    for f in (
        np.frexp, np.modf, np.round, np.spacing, np.isposinf, np.isneginf, np.isreal,
        lambda a: np.nan_to_num(a, nan=1.0, posinf=2.0),
        lambda a: np.divmod(a, 0.7),
        lambda a: np.divmod(a, -0.7),
        lambda a: np.remainder(2.5, a),
        lambda a: np.fmod(a, 1.3),
        lambda a: np.round(a, -1),
        lambda a: np.fmax(a, 1.0),
        lambda a: np.isclose(a, a + 1e-9, equal_nan=True),
    ):  # fmt: skip
        same(f, x)
        same(f, x.astype(np.float32))
    z = np.array([complex(np.nan, 1), complex(np.inf, -np.inf), 1 - 2j])
    same(np.nan_to_num, z)
    same(np.iscomplex, z)
    same(lambda a: np.real_if_close(a * 1e-16j + 1), np.ones(2))
    for f in (np.isposinf, np.isneginf):
        with pytest.raises(TypeError, match="ambiguous"):
            wb.trace(f)(z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_zero_and_of_negative_numbers(dtype: Any) -> None:
    x = np.array([0.0, -2.0, 3.0], dtype)
    for n in (0, 1, 2, 3, 0.0, 1.0, 2.0):
        g = wb.grad(lambda a, n=n: np.sum(a**n))(x)
        assert g.dtype == dtype
        np.testing.assert_allclose(g, n * x ** max(n - 1, 0), rtol=1e-6)
        second = wb.grad(lambda a, n=n: np.sum(wb.grad(lambda b: np.sum(b**n))(a)))(x)
        np.testing.assert_allclose(second, n * (n - 1) * x ** max(n - 2, 0), rtol=1e-6)
    exponents = np.array([0.0, 3.0, -2.0], dtype)
    g = wb.grad(lambda a: np.sum(a**exponents))(x)
    np.testing.assert_allclose(g, [0, 12, -2 / 27], rtol=1e-6)
    with np.errstate(divide="ignore"):
        assert wb.grad(lambda a: a**0.5)(dtype(0)) == np.inf
    # by the exponent: 0 where 0**p is 0, no matter that log(0) is not finite
    assert wb.grad(lambda p: dtype(0) ** p)(dtype(2)) == 0


def test_a_loser_is_not_poisoned() -> None:
    g = wb.grad(lambda x: np.sum(np.sqrt(np.maximum(x, 0))))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(g(np.array([-1.0, 4.0])), [0, 0.25])
    one = lambda x: np.sum(np.fmax(x, np.nan) + np.fmin(np.nan, x))  # noqa: E731
    np.testing.assert_array_equal(wb.grad(one)(np.ones(2)), [2, 2])
    np.testing.assert_array_equal(wb.jvp(one, (np.ones(2),), (np.ones(2),))[1], 4)


@pytest.mark.parametrize(
    ("f", "x", "derivative"),
    [
        (np.expm1, -40.0, 4.248354255291589e-18),
        (np.arcsin, 1 - 2.0**-40, 741455.2003),
        (np.arctanh, 1 - 2.0**-40, 549755813888.25),
        (np.arccosh, 1 + 2.0**-40, 741455.2003),
        (np.log1p, 1e-17, 1.0),
        (lambda x: np.hypot(x, 3e-200), 4e-200, 0.8),
        (lambda x: np.arctan2(x, 3e-170), 4e-170, 3 / 25 * 1e170),
        (lambda x: np.arctan2(3e170, x), 4e170, -3 / 25 * 1e-170),
        (lambda x: np.logaddexp(x, 1000.0), 1001.0, 0.7310585786300049),
        (lambda x: np.i0(x), 0.0, 0.0),
        (lambda x: np.i0(x), 1.0, 0.565159103992485),  # DLMF 10.29.3: I1
    ],
)
def test_derivatives_do_not_cancel(f: Any, x: float, derivative: float) -> None:
    np.testing.assert_allclose(wb.grad(f)(x), derivative, rtol=1e-9)


# Polynomials


def test_polynomials() -> None:
    p, q = np.array([0.0, 2.0, -3.0, 1.0]), np.array([1.0, -1.0])
    for f in (
        np.polyadd, np.polysub, np.polymul, np.polydiv,
        lambda a, b: np.polydiv(b, a[1:]),
        lambda a, b: np.polydiv(a, b[:1]),
        lambda a, b: np.polyadd(b, a),
        lambda a, b: np.polyval(a, b),
        lambda a, b: np.polyder(a) * np.sum(b),
        lambda a, b: np.polyder(b, 3),
        lambda a, b: np.polyint(a, 2, b),
        lambda a, b: np.polyint(b, 0),
        lambda a, b: np.vander(a, 0),
        lambda a, b: np.vander(b.astype(np.float32), 3),
        lambda a, b: np.poly(a),
        lambda a, b: np.poly(np.array([1 + 2j, 1 - 2j]) * b[0]),
        lambda a, b: np.roots(a * 1.0),
        lambda a, b: np.roots(b * 0),
    ):  # fmt: skip
        same(f, p, q, tolerance=1e-14)
    same(lambda a: np.polyval(np.poly1d([1.0, 2.0]), a), p)
    with pytest.raises(TypeError, match="poly1d"):
        wb.trace(lambda a: np.polyval(a, np.poly1d([1.0, 2.0])))(p)


def test_derivatives_of_roots() -> None:
    # (x - 1)(x + 2) x: a root at 0 has a derivative too
    p = np.array([1.0, 1.0, -2.0, 0.0])
    J = wb.jacobian(np.roots, mode="rev")(p)
    for row, r in zip(J, np.roots(p), strict=True):
        expected = -(r ** np.arange(3, -1, -1)) / (3 * r**2 + 2 * r - 2)
        np.testing.assert_allclose(row, expected, rtol=1e-12, atol=1e-12)


X = np.array([0.3, 1.1, 2.0, 3.5, 4.1, 5.0])
Y = np.array([1.0, 0.2, 0.5, 2.0, -1.0, 0.4])


@pytest.mark.parametrize("weighted", [False, True])
def test_polyfit(weighted: bool) -> None:
    w = X + 1 if weighted else None
    for y in (Y, np.stack([Y, Y**2], 1)):
        same(lambda y: np.polyfit(X, y, 2, w=w), y, tolerance=1e-11)
        same(lambda y: np.polyfit(X, y, 2, w=w, full=True)[:2], y, tolerance=1e-11)
        same(lambda y: np.polyfit(X, y, 2, w=w, cov=True), y, tolerance=1e-11)
        same(lambda y: np.polyfit(X, y, 1, w=w, cov="unscaled"), y, tolerance=1e-11)

    def fit(x: Any, y: Any) -> Any:
        return np.polyfit(x, y, 2, w=w)[0]

    h = 1e-4
    for n, g in enumerate(wb.grad(fit, (0, 1))(X, Y)):
        for k in range(len(X)):
            moved = [[X, Y], [X, Y]]
            moved[0][n], moved[1][n] = (
                moved[0][n] + h * np.eye(6)[k],
                moved[1][n] - h * np.eye(6)[k],
            )
            slope = (fit(*moved[0]) - fit(*moved[1])) / (2 * h)
            np.testing.assert_allclose(g[k], slope, rtol=1e-5, atol=1e-7)


# Lines, differences, averages


def test_lines() -> None:
    a, b = np.array([0.5, 3.0]), np.array([[2.0], [7.0]])
    for f in (
        lambda a, b: np.linspace(a, b, 7),
        lambda a, b: np.linspace(a, b, 1, axis=-1),
        lambda a, b: np.linspace(a, b, 0),
        lambda a, b: np.linspace(a, b, 4, False, True),
        lambda a, b: np.linspace(a, b, 9, dtype=int) * 1.0,
        lambda a, b: np.linspace(a.astype(np.float32), 3, 4),
        lambda a, b: np.logspace(a, b, 5, axis=1),
        lambda a, b: np.logspace(a, 2.0, 5, base=[2.0, 3.0]),
        lambda a, b: np.logspace(a, 2.0, 5, dtype=np.float32),
        lambda a, b: np.geomspace(a, b, 5),
        lambda a, b: np.geomspace(a, b, 5, False, axis=-1),
        lambda a, b: np.geomspace(-a, -9.0, 1),
        lambda a, b: np.geomspace(a.astype(np.float32), 3.0, 4),
        lambda a, b: np.geomspace(a, 3.0, 4, dtype=np.float32),
        lambda a, b: np.geomspace(a * 1j, -4.0, 4),
        lambda a, b: np.geomspace(a, b, 0),
    ):
        same(f, a, b, tolerance=1e-14)
    with pytest.raises(ValueError, match="cannot include zero"):
        wb.trace(lambda a: np.geomspace(a, 0, 3))(a)
    with pytest.raises(ValueError, match="must be non-negative"):
        wb.trace(lambda a: np.linspace(a, 0, -3))(a)


def test_differences() -> None:
    x = np.random.default_rng(1).normal(size=(3, 4)).cumsum(axis=1) * 3
    for f in (
        lambda a: np.diff(a, 0),
        lambda a: np.diff(a, 2, 0, prepend=1.0, append=a[:1]),
        lambda a: np.diff(a > 0) * 1.0,
        lambda a: np.diff(a.astype(np.float32), prepend=0.5),
        lambda a: np.ediff1d(a, [1.0], 2.0),
        np.unwrap,
        lambda a: np.unwrap(a, 2.0, 0, period=3.0),
        lambda a: np.unwrap((a * 4).astype(int), period=9) * 1.0,
        np.gradient,
        lambda a: np.gradient(a, [0.0, 1.0, 3.0], 0.5, edge_order=2),
        lambda a: np.gradient(a.astype(np.float32), np.arange(4), axis=-1),
        lambda a: np.gradient((a * 9).astype(int), 2, axis=0),
        lambda a: np.trapezoid(a, dx=2.0, axis=0),
        lambda a: np.interp(a, [-1.0, 0, 2], [3.0, 4, 1]),
        lambda a: np.interp(a, [-1.0, 0, 2], [3.0, 4, 1], -7.0, 8.0),
        lambda a: np.interp(a, [-1.0, 0, 2], [3.0, 4j, 1], period=2.5),
        lambda a: np.interp(a.astype(np.float32), [0.0], [3.0], 1.0),
        lambda a: np.interp([0.0, 3.0, np.nan], np.sort(a[0]), a[1]),
        lambda a: np.cumulative_sum(a, axis=1, include_initial=True),
        lambda a: np.cumulative_prod(a[:, :0], axis=1, include_initial=True),
    ):
        same(f, x, tolerance=1e-12)
    for f, text in (
        (lambda a: np.diff(a, -1), "order must be non-negative"),
        (lambda a: np.gradient(a[:1]), "at least .edge_order . 1. elements"),
        (lambda a: np.gradient(a, edge_order=3), "'edge_order' greater than 2"),
        (lambda a: np.gradient(a, [1.0, 2.0], 1), "distances must match"),
        (lambda a: np.interp(a, [1.0], [1.0, 2.0]), "not of the same length"),
        (lambda a: np.cumulative_sum(a), "``axis`` argument is required"),
        (
            lambda a: np.apply_along_axis(np.sum, 0, a[:, :0]),
            "any iteration dimensions",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            wb.trace(f)(x)


def test_averages_and_covariances() -> None:
    x = np.random.default_rng(2).normal(size=(3, 5))
    w = np.arange(1.0, 6)
    for f in (
        lambda a: np.average(a, returned=True),
        lambda a: np.average(a, 1, w, True, keepdims=True),
        lambda a: np.average(a, (1, 0), np.ones((5, 3)), returned=True),
        lambda a: np.average(a.astype(np.float32), 1, w.astype(np.float32)),
        lambda a: np.average((a * 9).astype(int), 1, [1, 2, 3, 4, 5]),
        np.cov, np.corrcoef,
        lambda a: np.cov(a.astype(np.float32), dtype=np.float32),
        lambda a: np.cov(a[0], a[1], ddof=0),
        lambda a: np.cov(a, rowvar=False, bias=True),
        lambda a: np.cov(a, fweights=[1, 2, 0, 1, 1], aweights=w),
        lambda a: np.cov(a, fweights=[1, 2, 0, 1, 1]),
        lambda a: np.cov(a, aweights=w, ddof=0),
        lambda a: np.corrcoef(a[0]),
        lambda a: np.corrcoef(a[0], 2 * a[0] + 1),
        lambda a: np.apply_over_axes(np.mean, a, [0, 1]),
        lambda a: np.apply_along_axis(np.sort, 0, a),
        lambda a: np.apply_along_axis(lambda r: r.sum(), -1, a),
    ):  # fmt: skip
        same(f, x, tolerance=1e-12)
    with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
        wb.trace(lambda a: np.average(a, 1, w * 0))(x)
    with pytest.raises(TypeError, match="Axis must be specified"):
        wb.trace(lambda a: np.average(a, weights=w))(x)
    with pytest.raises(ValueError, match="consistent with shape"):
        wb.trace(lambda a: np.average(a, 0, w))(x)
    with pytest.raises(TypeError, match="fweights must be integer"):
        wb.trace(lambda a: np.cov(a, fweights=w / 2))(x)
    with pytest.raises(RuntimeError, match="incompatible numbers"):
        wb.trace(lambda a: np.cov(a, aweights=w[:2]))(x)


@pytest.mark.parametrize("x", [2 + 0j, complex(2, -0.0), -2 + 0j, complex(-2, -0.0)])
def test_on_a_branch_cut_the_sign_of_zero_tells_the_side(x: complex) -> None:
    """The slope of arcsin beside its cut is that of NumPy's value on that side."""
    toward = 1e-9j if np.signbit(x.imag) == 0 else -1e-9j
    beside = x + toward
    expected = (np.arcsin(beside + 1e-5) - np.arcsin(beside - 1e-5)) / 2e-5
    for f, sign in ((np.arcsin, 1), (np.arccos, -1)):
        _, slope = wb.jvp(f, (np.complex128(x),), (np.complex128(1),))
        np.testing.assert_allclose(slope, sign * expected, atol=1e-8)


def test_a_product_divides_where_no_entry_is_0(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running products from both ends, four times as slow, are for the others."""
    x = rng.uniform(0.5, 2, (3, 5))
    others = [[np.prod(np.delete(row, i)) for i in range(5)] for row in x]
    gradient = wb.grad(lambda x: np.sum(np.prod(x, axis=1)))
    runs: list[int] = []
    real = np.cumprod
    monkeypatch.setattr(np, "cumprod", lambda *a, **k: runs.append(1) or real(*a, **k))
    np.testing.assert_allclose(gradient(x), others, rtol=1e-14)
    assert not runs
    small = np.array([[1e-200, 1e-150, 3.0]])  # their product is 0
    np.testing.assert_allclose(gradient(small), [[3e-150, 3e-200, 0.0]], rtol=1e-14)
    assert runs


@pytest.mark.parametrize("power", [np.power, np.float_power])
def test_an_exponent_of_zero_has_its_mixed_derivative(power: Any) -> None:
    """The derivative of ``p x**(p - 1)`` by ``p`` is ``1 / x`` at ``p = 0``."""
    x, p = np.array([2.0, 5.0]), np.zeros(2)
    by_x = wb.grad(lambda x, p: np.sum(power(x, p)))
    _, tangent = wb.jvp(lambda p: by_x(x, p), [p], [np.ones(2)])
    np.testing.assert_allclose(tangent, 1 / x, rtol=1e-14)
    _, tangent = wb.jvp(lambda p: by_x(x, p), [np.asarray(0.0)], [np.asarray(1.0)])
    np.testing.assert_allclose(tangent, 1 / x, rtol=1e-14)
    for zero in (0, 0.0, p, p.astype(np.uint8)):
        at_zero = wb.grad(lambda x, zero=zero: np.sum(power(x, zero)))(p)
        np.testing.assert_array_equal(at_zero, 0)


@pytest.mark.parametrize(
    "variance",
    [
        np.nanvar,
        lambda x: np.var(x, where=np.full(3, True)),
        lambda x: np.var(x, mean=np.mean(x, keepdims=True)),
    ],
)
def test_an_entry_on_the_mean_is_no_kink_of_the_variance(variance: Any) -> None:
    hessian = wb.hessian(variance)(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(hessian, (np.eye(3) - 1 / 3) * 2 / 3, atol=1e-14)
