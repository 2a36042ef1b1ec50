"""`workbench.scipy.stats`: SciPy's values, everywhere; derivatives by the samples."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special
from scipy import stats as truth

import workbench as wb
from workbench.core.tensor import Tensor
from workbench.errors import MatrixError, NotDifferentiableError, ShapeError
from workbench.scipy import stats as ours
from workbench.scipy.stats.family import Continuous, Discrete

#: Shapes of each family, ordinary ones and difficult ones.
SHAPES: dict[str, list[tuple[float, ...]]] = {
    "norm": [()],
    "uniform": [()],
    "expon": [()],
    "gamma": [(0.4,), (1.0,), (2.5,), (80.0,), (1e3,)],
    "beta": [(0.4, 0.7), (1.0, 1.0), (2.5, 3.5), (30.0, 2.0)],
    "t": [(0.7,), (1.5,), (3.5,), (200.0,), (300.0,), (1e9,), (math.inf,)],
    "cauchy": [()],
    "laplace": [()],
    "logistic": [()],
    "lognorm": [(0.3,), (1.7,)],
    "chi2": [(0.5,), (2.0,), (7.5,)],
    "f": [(2.0, 3.0), (5.5, 9.5)],
    "nct": [(0.7, 1.5), (3.5, -0.8), (9.0, 0.0)],
    "ncx2": [(2.5, 1.0), (3.5, 6.0)],
    "ncf": [(3.0, 5.0, 0.5), (5.5, 9.5, 4.0)],
    "pareto": [(0.8,), (1.5,), (3.5,)],
    "weibull_min": [(0.6,), (1.0,), (2.5,)],
    "gumbel_r": [()],
    "gumbel_l": [()],
    "halfnorm": [()],
    "halfcauchy": [()],
    "invgamma": [(0.8,), (1.5,), (4.5,)],
    "rayleigh": [()],
    "truncnorm": [
        (-1.0, 2.0),
        (0.5, 3.0),
        (-6.0, -4.0),
        (-math.inf, 1.0),
        (30.0, 31.0),
    ],
    "skewnorm": [(0.0,), (-1.5,), (4.0,)],
    "vonmises": [(0.5,), (30.0,)],
    "genextreme": [(0.3,), (-0.4,), (0.0,), (0.01,)],
    "poisson": [(0.3,), (4.5,), (60.0,)],
    "bernoulli": [(0.3,), (0.0,), (1.0,)],
    "binom": [(5, 0.3), (40, 0.9), (3, 0.0), (1, 1.0)],
    "geom": [(0.3,), (0.9,), (1.0,)],
    "nbinom": [(3, 0.4), (2.5, 0.8)],
}
CASES = [(name, s) for name, many in SHAPES.items() for s in many]
POINTS = np.array(
    [-np.inf, -30.0, -3.5, -1.0, -0.3, 0.0, 1e-3, 0.2, 0.7, 1.0, 1.6, 2.0, 3.3, 8.0,
    30.5, 300.0, np.inf, np.nan]
)  # fmt: skip
LEVELS = np.array([-0.1, 0.0, 1e-9, 0.03, 0.4, 0.5, 0.6, 0.97, 1 - 1e-9, 1.0, 1.1])
#: Where SciPy has fewer digits (f), or where both lose them to a difference.
ROUGH = {
    ("f", "isf"): 1e-7,
    ("ncx2", "ppf"): 1e-7,
    ("ncx2", "isf"): 1e-7,
    ("ncf", "isf"): 1e-6,
    ("halfnorm", "ppf"): 1e-8,
    ("truncnorm", "isf"): 1e-8,
    ("truncnorm", "var"): 1e-9,
    ("truncnorm", "std"): 1e-9,
    ("truncnorm", "entropy"): 1e-9,
    ("skewnorm", "sf"): 1e-9,
    ("skewnorm", "cdf"): 1e-9,
    ("skewnorm", "logcdf"): 1e-6,
    ("skewnorm", "logsf"): 1e-6,
}


def same(got: Any, expected: Any, rtol: float = 1e-12, atol: float = 1e-14) -> None:
    assert not isinstance(got, Tensor)
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


def by_quadrature(distribution: Any) -> Any:
    """The entropy of a distribution."""
    low, high = distribution.ppf([1e-17, 1 - 1e-16])
    x, weights = np.polynomial.legendre.leggauss(200)
    x = 0.5 * (high - low) * (x + 1) + low
    integrand = -distribution.pdf(x) * distribution.logpdf(x)
    return np.sum(integrand * weights) * 0.5 * (high - low)


@pytest.mark.parametrize(("name", "shapes"), CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_are_scipys(name: str, shapes: tuple[float, ...]) -> None:
    family, theirs = getattr(ours, name), getattr(truth, name)
    for method in family.methods:
        if method in ("ppf", "isf"):
            x: Any = LEVELS
        elif method in ("mean", "var", "std", "median", "entropy", "support"):
            x = None
        elif isinstance(family, Discrete):
            x = np.concatenate([POINTS, np.arange(12.0)])
        else:
            x = POINTS
        needs = {"std": "var", "median": "ppf"}.get(method, method)
        if needs in (
            "mean",
            "var",
            "entropy",
            "ppf",
            "isf",
        ) and not family.has_function(needs):
            with pytest.raises(NotDifferentiableError, match="There are"):
                getattr(family, method)(*(() if x is None else (x,)), *shapes)
            continue
        if needs in ("cdf", "sf", "logcdf", "logsf") and not (
            family.has_function("cdf") or family.has_function("logcdf")
        ):
            continue
        moved = {"loc": 0.3, "scale": 1.7}
        if isinstance(family, Discrete):
            moved = {"loc": 2}
        for place in ({}, moved):
            args = shapes if x is None else (x, *shapes)
            expected = getattr(theirs, method)(*args, **place)
            rtol = ROUGH.get((name, method), 1e-12)
            got = getattr(family, method)(*args, **place)
            if method.startswith("log"):
                # Ours stay finite where SciPy takes the logarithm of 0.
                far = got < (-12 if rtol > 1e-12 else -700)
                expected = np.where(far & (np.isinf(expected) | (rtol > 1e-12)), got,
                    expected)  # fmt: skip
            if method in ("pdf", "logpdf"):  # SciPy: NaN at infinity, of inf - inf
                limit = 0.0 if method == "pdf" else -np.inf
                lost = np.isinf(POINTS) & np.isnan(expected) & (got == limit)
                expected = np.where(lost, limit, expected)
            if name == "vonmises" and method.endswith(("cdf", "sf")):
                # SciPy's has half its digits, and none of small probabilities.
                if method.startswith("log"):
                    got, expected = np.exp(got), np.exp(expected)
                wanted = np.where(np.isfinite(expected), expected, got)
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-12)
                continue
            if (name, method, shapes) == ("geom", "entropy", (1.0,)):
                expected = np.float64(0)  # SciPy: NaN, for 0 log 0
            if method == "entropy" and name == "truncnorm" and np.isnan(expected):
                expected = by_quadrature(theirs(*shapes, **place))  # inf - inf
            same(got, expected, rtol)
            frozen = getattr(family(*shapes, **place), method)
            same(frozen() if x is None else frozen(x), expected, rtol)


@pytest.mark.parametrize(("name", "shapes"), CASES)
def test_quantiles_invert_the_distribution(
    name: str, shapes: tuple[float, ...]
) -> None:
    family = getattr(ours, name)
    if not family.has_function("ppf"):
        pytest.skip("no quantiles in closed form")
    q = np.array([1e-9, 0.03, 0.4, 0.5, 0.6, 0.97])
    same(family.cdf(family.ppf(q, *shapes), *shapes), q, 1e-10, 1e-12)
    same(family.sf(family.isf(q, *shapes), *shapes), q, 1e-10, 1e-12)


def test_every_public_family_is_compared() -> None:
    apart = {"multivariate_normal", "dirichlet", "multinomial", "wishart"}
    assert set(ours.__all__) == set(SHAPES) | apart
    for name in ours.__all__:
        assert hasattr(truth, name)


# Parameters


def test_parameters_by_place_by_name_and_as_arrays() -> None:
    x = np.linspace(-1, 4, 7)
    a = np.array([[0.5], [2.0]])
    same(ours.gamma.logpdf(x, a, 0.5, 2.0), truth.gamma.logpdf(x, a, 0.5, 2.0))
    same(ours.gamma.pdf(x, loc=1, a=a), truth.gamma.pdf(x, loc=1, a=a))
    same(ours.gamma(a, scale=3).cdf(x), truth.gamma(a, scale=3).cdf(x))
    same(ours.norm.pdf([1, 2, 3]), truth.norm.pdf([1, 2, 3]))
    same(ours.norm.pdf(0.5), truth.norm.pdf(0.5))
    assert isinstance(ours.norm.pdf(0.5), np.float64)
    same(ours.norm.mean(np.zeros(3), 2), np.zeros(3))
    assert ours.gamma(2.0, loc=1).support() == (1.0, math.inf)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("norm", (0.0, -1.0)),
        ("norm", (0.0, 0.0)),
        ("gamma", (np.array([2.0, -2.0, 0.0]),)),
        ("beta", (np.array([-1.0, 1.0]), 2.0)),
        ("truncnorm", (2.0, np.array([1.0, 3.0]))),
        ("skewnorm", (np.array([1.0, np.inf]),)),
        ("poisson", (np.array([-1.0, 1.0]),)),
        ("binom", (np.array([2.5, -1.0, 3.0]), 0.5)),
        ("binom", (3, np.array([-0.5, 0.5, 1.5]))),
        ("geom", (np.array([0.0, 0.5, 1.5]),)),
        ("nbinom", (np.array([0.0, 2.0]), np.array([0.5, 1.5]))),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_parameters_that_are_not_allowed_give_nan(
    name: str, parameters: tuple[Any, ...]
) -> None:
    family, theirs = getattr(ours, name), getattr(truth, name)
    density = "logpmf" if isinstance(family, Discrete) else "logpdf"
    for method in (density, "cdf", "mean", "std"):
        args = parameters if method in ("mean", "std") else (1.0, *parameters)
        expected = getattr(theirs, method)(*args)
        same(getattr(family, method)(*args), expected)
        # And as Tensors, with gradients that are numbers where they are allowed.
        total = lambda *p: np.nansum(getattr(family, method)(*args[: -len(p)], *p))  # noqa: B023, E731
        value, _ = wb.vjp(total, *parameters[-1:])
        same(value, np.nansum(expected))


def test_a_bad_parameter_spoils_no_gradient() -> None:
    def total(a: Any) -> Any:
        y = ours.gamma.logpdf(1.5, a)
        return np.sum(np.where(a > 0, y, 0))

    a = np.array([2.0, -1.0])
    with np.errstate(invalid="ignore"):
        g = wb.grad(total)(a)
    np.testing.assert_allclose(g, [math.log(1.5) - (1 - np.euler_gamma), 0], rtol=1e-14)


def test_errors_name_parameters_and_methods() -> None:
    with pytest.raises(TypeError, match=r"missing: a") as caught:
        ours.gamma.logpdf(1.0)
    assert "(a, loc=0, scale=1)" in str(caught.value)
    assert "test_stats.py" in str(caught.value)
    with pytest.raises(TypeError, match="not known or given twice: sigma"):
        ours.norm.logpdf(1.0, sigma=2)
    with pytest.raises(TypeError, match="takes the parameters"):
        ours.norm(1, 2, 3)
    with pytest.raises(NotDifferentiableError, match="There are logpdf"):
        ours.vonmises.ppf(0.5, 1.0)
    with pytest.raises(AttributeError, match=r"norm has no rvs; it has pdf.*Generator"):
        ours.norm.rvs(3)
    with pytest.raises(AttributeError, match=r"no gama\. Did you mean gamma"):
        ours.gama  # noqa: B018
    assert repr(ours.norm) == "<workbench.scipy.stats.norm>"
    assert repr(ours.norm(1, scale=2)) == "norm(1, scale=2)"


# Gradients where they are 0, and where digits are at stake


@pytest.mark.parametrize(
    ("name", "shapes"),
    [c for c in CASES if isinstance(getattr(ours, c[0]), Continuous)],
)
def test_outside_the_support_all_gradients_are_zero(
    name: str, shapes: tuple[float, ...]
) -> None:
    family = getattr(ours, name)
    low, high = family.support(*shapes)
    x = np.array([v for v in (low - 1, high + 1) if np.isfinite(v)])
    methods = (
        ("pdf", "logpdf", "cdf", "sf")
        if family.has_function("cdf")
        else ("pdf", "logpdf")
    )
    for method in methods:
        f = getattr(family, method)
        total = lambda *a, f=f: np.sum(np.where(np.isfinite(v := f(*a)), v, 0))  # noqa: E731
        places = (0, len(shapes) + 1, len(shapes) + 2)
        for g in wb.grad(total, places)(x, *shapes, 0.0, 1.0):
            np.testing.assert_array_equal(g, np.zeros_like(g))
        second = wb.hessian(total)(x, *shapes)
        np.testing.assert_array_equal(second, np.zeros((len(x), len(x))))


def test_tails() -> None:
    z = np.array([-40.0, -1e4])
    slope = wb.grad(lambda z: np.sum(ours.norm.logcdf(z)))(z)
    np.testing.assert_allclose(
        slope, -z - 1 / z + 2 / z**3 - 10 / z**5 + 74 / z**7, rtol=1e-12
    )
    slope = wb.grad(lambda z: np.sum(ours.logistic.logsf(z)))(-z)
    np.testing.assert_allclose(slope, [-1, -1], rtol=1e-15)
    mean = wb.grad(lambda mu: ours.truncnorm.logpdf(30.5 - mu, 30 - mu, 31 - mu))(0.0)
    # d/dmu of -(x - mu)²/2 - log(mass): x less the mean of what is left
    expected = 30.5 - truth.truncnorm.mean(30, 31)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["logpdf", "cdf", "sf", "mean", "var"])
def test_an_infinite_end_of_truncnorm_divided_by_the_scale(method: str) -> None:
    # As SciPy documents it: b = (inf - loc) / scale.
    def f(mu: Any, sigma: Any, family: Any = ours.truncnorm) -> Any:
        ends = (0.2 - mu) / sigma, (np.inf - mu) / sigma
        x = {"logpdf": (1.0,), "cdf": (1.0,), "sf": (1.0,)}.get(method, ())
        return getattr(family, method)(*x, *ends, loc=mu, scale=sigma)

    def central(h: float) -> Any:
        g = lambda s: f(0.3, s, truth.truncnorm)  # noqa: E731
        return (g(0.7 + h) - g(0.7 - h)) / (2 * h)

    expected = (4 * central(5e-4) - central(1e-3)) / 3
    reverse = wb.grad(f, 1)
    np.testing.assert_allclose(reverse(0.3, 0.7), expected, rtol=1e-7)
    _, forward = wb.jvp(f, (0.3, 0.7), (0.0, 1.0))
    np.testing.assert_allclose(forward, expected, rtol=1e-7)
    second = (reverse(0.3, 0.7 + 1e-4) - reverse(0.3, 0.7 - 1e-4)) / 2e-4
    np.testing.assert_allclose(wb.hessian(f, 1)(0.3, 0.7), second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1, 2.0, np.float32(2)])
def test_numbers_as_parameters_keep_float32(scale: Any) -> None:
    x = np.array([0.2, 0.5], np.float32)
    for family, shapes in ((ours.norm, ()), (ours.gamma, (2.0,)), (ours.beta, (2, 3))):
        for method in ("logpdf", "pdf", "cdf", "logsf"):
            f = getattr(family, method)
            assert f(x, *shapes, scale=scale).dtype == np.float32
            slope = wb.grad(lambda x, f=f, s=shapes: np.sum(f(x, *s, scale=scale)))(x)
            assert slope.dtype == np.float32
    assert ours.gamma.entropy(np.float32(2), scale=scale).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "at"),
    [
        (lambda x, s: ours.norm.logpdf(x, 0, s), 2.0),
        (lambda x, s: ours.norm.logpdf(x, s, 1), 2.0),
        (lambda x, s: ours.laplace.cdf(x, 0.1, s), 2.0),
        (lambda x, s: ours.norm.ppf(x, s, s), 0.5),
        (lambda x, s: ours.gamma.logpdf(x, s, scale=s), 2.0),
        (lambda x, s: ours.poisson.logpmf(0 * x, s), 2.0),
        (lambda x, s: ours.expon.logsf(x, scale=s), 2.0),
    ],
)
def test_a_varying_number_as_a_parameter_keeps_float32(call: Any, at: float) -> None:
    x = np.array([0.2, 0.5], np.float32)
    found = call(x, at)
    traced = wb.trace(lambda s: call(x, s))(at).outputs[0].value
    assert found.dtype == traced.dtype == np.float32
    np.testing.assert_allclose(traced, found, rtol=1e-6)


@pytest.mark.parametrize("x", [np.inf, -np.inf, np.array([np.inf, 0.3, -np.inf])])
@pytest.mark.parametrize("method", ["cdf", "sf", "logcdf", "logsf", "pdf"])
def test_parameters_do_not_move_what_is_at_infinity(method: str, x: Any) -> None:
    for family in ("norm", "logistic", "cauchy", "laplace", "gumbel_r", "gumbel_l"):
        f = getattr(getattr(ours, family), method)
        g = getattr(getattr(truth, family), method)
        y, slope = wb.jvp(lambda s: f(x, 0.1, s), (2.0,), (1.0,))  # noqa: B023
        h = 1e-5
        with np.errstate(invalid="ignore"):
            at_limit = g(x, 0.1, 2.0)  # NaN of SciPy's for a density that is 0
            at_limit = np.where(np.isnan(at_limit), 0, at_limit)
            np.testing.assert_allclose(y, at_limit, rtol=1e-12)
            central = (g(x, 0.1, 2.0 + h) - g(x, 0.1, 2.0 - h)) / (2 * h)
        expected = np.where(np.isinf(x), 0, central)
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-9)
        back = wb.vjp(lambda s: f(x, 0.1, s), 2.0)[1](np.ones_like(y))  # noqa: B023
        np.testing.assert_allclose(back, np.sum(slope), rtol=1e-12)


def test_no_special_point_where_genextreme_is_gumbel() -> None:
    z, h = 0.7, 1e-3
    f = lambda c: ours.genextreme.logpdf(z, c)  # noqa: E731
    g = lambda c: truth.genextreme.logpdf(z, c)  # noqa: E731
    central = [(g(k * h) - g(-k * h)) / (2 * k * h) for k in (1, 2)]
    np.testing.assert_allclose(
        wb.grad(f)(0.0), (4 * central[0] - central[1]) / 3, rtol=1e-9
    )
    assert np.isfinite(wb.hessian(f)(0.0))


def test_score_of_a_sample() -> None:
    """The gradient of a log-likelihood, by the textbook."""
    x = np.array([0.4, 1.9, 2.2, 0.7])
    score = wb.grad(lambda m, s: np.sum(ours.norm.logpdf(x, m, s)), (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(
        score, [np.sum(x - 1) / 4, np.sum((x - 1) ** 2) / 8 - 2], rtol=1e-13
    )
    rate = wb.grad(lambda mu: np.sum(ours.poisson.logpmf([1, 0, 4], mu)))(2.0)
    np.testing.assert_allclose(rate, 5 / 2 - 3)
    k = np.array([1.0, 3.0])
    np.testing.assert_array_equal(
        wb.grad(lambda k: np.sum(ours.poisson.pmf(k, 2.0)))(k), [0, 0]
    )


# Vectors


def test_multivariate_normal() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3))
    cov, mean = a @ a.T + np.eye(3), rng.standard_normal(3)
    for x in (rng.standard_normal(3), rng.standard_normal((2, 5, 3))):
        for method in ("logpdf", "pdf"):
            f = getattr(ours.multivariate_normal, method)
            g = getattr(truth.multivariate_normal, method)
            for args in ((mean, cov), (mean, 2.0), (mean, np.array([1.0, 2, 3])),
                (mean,)):  # fmt: skip
                same(f(x, *args), g(x, *args))
            same(f(x, cov=cov), g(x, cov=cov))
    frozen, theirs = ours.multivariate_normal(mean, cov), truth.multivariate_normal(
        mean, cov
    )  # fmt: skip
    same(frozen.logpdf(x), theirs.logpdf(x))
    same(frozen.entropy(), theirs.entropy())
    x1 = rng.standard_normal(4)
    same(ours.multivariate_normal.logpdf(x1), truth.multivariate_normal.logpdf(x1))
    same(ours.multivariate_normal.pdf(0.3, 1.0, 2.0), truth.norm.pdf(0.3, 1, 2**0.5))
    with pytest.raises(MatrixError):
        ours.multivariate_normal.logpdf(mean, mean, wb.trace(lambda c: c)(-cov)
            .outputs[0])  # fmt: skip
    with pytest.raises(ShapeError, match=r"mean of shape \(d,\)"):
        ours.multivariate_normal.logpdf(mean, mean, cov[:2])


def test_dirichlet_and_multinomial() -> None:
    alpha = np.array([0.5, 2.0, 3.5])
    x = np.array([0.2, 0.3, 0.5])
    many = np.stack([x, x[::-1], [0.1, 0.1, 0.8]], axis=1)
    for point in (x, many):
        same(ours.dirichlet.logpdf(point, alpha), truth.dirichlet.logpdf(point, alpha))
        same(ours.dirichlet(alpha).pdf(point), truth.dirichlet.pdf(point, alpha))
    for method in ("mean", "var", "entropy"):
        expected = getattr(truth.dirichlet, method)(alpha)
        same(getattr(ours.dirichlet, method)(alpha), expected)
        same(getattr(ours.dirichlet(alpha), method)(), expected)
    assert ours.dirichlet.logpdf(x + 1, alpha) == -np.inf
    counts, p = np.array([[1, 2, 1], [0, 0, 4], [1, 1, 1]]), np.array([0.2, 0.5, 0.3])
    same(ours.multinomial.logpmf(counts, 4, p), truth.multinomial.logpmf(counts, 4, p))
    same(ours.multinomial(4, p).pmf(counts), truth.multinomial.pmf(counts, 4, p))
    same(ours.multinomial(4, p).mean(), 4 * p)
    assert np.isnan(ours.multinomial.logpmf([1, 1], 2, [-0.5, 1.5]))
    assert repr(ours.dirichlet) == "<workbench.scipy.stats.dirichlet>"


def test_allowed_parameters_and_finite_points_need_no_mask() -> None:
    """A mask doubles the work of the gradient, and a fit has none to hide."""
    x = np.array([0.3, -1.2, 40.0])

    def steps(f: Any, at: Any) -> set[str]:
        return {n.op.name for n in wb.trace(f)(at).interior}

    def loss(s: Any) -> Any:
        return np.sum(ours.t.logpdf(x, 2.4, 0.1, s))

    assert "where" not in steps(loss, 2.0)
    assert "where" not in steps(lambda s: ours.norm.cdf(x, 0.0, s), 2.0)
    assert "where" in steps(loss, wb.Spec((), float))  # it may be anything
    assert np.isnan(loss(np.float64(-1.0)))
    assert np.isnan(wb.value_and_grad(loss)(-1.0)[0])
    u = (x - 0.1) / 2.0
    want = np.sum(-1 / 2.0 + 3.4 * u**2 / (2.4 + u**2) / 2.0)
    np.testing.assert_allclose(wb.grad(loss)(2.0), want, rtol=1e-14)
    # Points beyond any number, and degrees of freedom that vary, keep their forms.
    assert ours.t.logpdf(np.inf, 2.4) == -np.inf
    by_n = wb.grad(lambda n: np.sum(ours.t.logpdf(x, n)))(1e9)
    assert abs(by_n) < 1e-12


@pytest.mark.parametrize("kappa", [1e-3, 0.7, 9.0, 400.0])
def test_von_mises_by_its_integral(kappa: float) -> None:
    for width in (0.2, 1.0, 4.0):  # in deviations
        x = min(width / max(math.sqrt(kappa), 0.4), 3.1)

        def tail(k: Any, x: float = x) -> Any:
            ends = [x + (math.pi - x) * (i / 16) ** 2 for i in range(16)] + [mp.pi]
            inside = mp.quad(lambda t: mp.exp(k * (mp.cos(t) - 1)), ends)
            return inside / (2 * mp.pi * mp.besseli(0, k) * mp.exp(-k))

        with mp.workdps(40):
            k, h = mp.mpf(kappa), mp.mpf(kappa) * mp.mpf(10) ** -15
            by_k = float((tail(k + h) - tail(k - h)) / (2 * h))
            mass = float(tail(k))
        for f in (
            lambda k, x=x: ours.vonmises.sf(x, k),
            lambda k, x=x: ours.vonmises.cdf(-x, k),
        ):
            np.testing.assert_allclose(f(kappa), mass, rtol=1e-11)
            np.testing.assert_allclose(wb.grad(f)(kappa), by_k, rtol=1e-9)
    turned = ours.vonmises.cdf(np.array([0.5, 0.5 + 4 * np.pi]), 2.0)
    np.testing.assert_allclose(turned[1] - turned[0], 2, rtol=1e-14)


def test_a_normal_distribution_on_a_plane() -> None:
    cov = np.outer([1, 2, 3.0], [1, 2, 3.0]) + np.outer([0, 1, 1.0], [0, 1, 1.0])
    x = 0.3 * np.array([1, 2, 3.0]) - 0.7 * np.array([0, 1, 1.0])
    points = np.stack([x, 2 * x, x + [0, 1, 0.5]])
    f = ours.multivariate_normal.logpdf
    made = f(points, None, cov, allow_singular=True)
    right = truth.multivariate_normal.logpdf(points, None, cov, allow_singular=True)
    np.testing.assert_allclose(made, right, rtol=1e-11)
    assert made[2] == -np.inf
    by_size = wb.grad(lambda s: f(x, None, s * cov, allow_singular=True))
    square = 0.3**2 + 0.7**2  # of the coefficients
    np.testing.assert_allclose(by_size(1.0), -1 + square / 2, rtol=1e-9)
    np.testing.assert_allclose(wb.grad(by_size)(1.0), 1 - square, rtol=1e-8)


def test_wishart_by_its_parameters() -> None:
    x, s = np.array([[1.0, 0.2], [0.2, 3.0]]), np.array([[2.0, 0.3], [0.3, 1.0]])
    psi = special.psi
    log_det = math.log(np.linalg.det(x) / np.linalg.det(s))
    by_df = 0.5 * (log_det - 2 * math.log(2) - psi(1.75) - psi(1.25))
    f = ours.wishart.logpdf
    np.testing.assert_allclose(wb.grad(lambda n: f(x, n, s))(3.5), by_df, rtol=1e-12)
    inverse = np.linalg.inv(s)
    by_scale = 0.5 * inverse @ x @ inverse - 1.75 * inverse
    np.testing.assert_allclose(wb.grad(f, 2)(x, 3.5, s), by_scale, rtol=1e-12)
    many = np.stack([x, 2 * x], axis=-1)
    np.testing.assert_allclose(f(many, 3.5, s), truth.wishart.logpdf(many, 3.5, s))
    np.testing.assert_allclose(f(2.0, 3.5, 1.5), truth.wishart.logpdf(2.0, 3.5, 1.5))
    with pytest.raises(ShapeError, match=r"wishart.*x has shape \(3, 3\)"):
        f(np.eye(3), 3.5, s)


def test_matrices_that_are_no_covariances_are_refused() -> None:
    law, point = ours.multivariate_normal, np.array([0.5, 0.7])
    with pytest.raises(MatrixError, match="cov has an eigenvalue below 0"):
        law.logpdf(point, None, np.array([[1, 2], [2, 1.0]]), allow_singular=True)
    slope = wb.grad(
        lambda m: law.logpdf(
            np.array([0.5, 0.0]), m, np.array([[2, 0], [0, 0]]), allow_singular=True
        )
    )(np.zeros(2))
    np.testing.assert_allclose(slope, [0.25, 0], atol=1e-15)
    for x, scale in ((np.eye(2), -np.eye(2)), (-np.eye(2), np.eye(2))):
        with pytest.raises(MatrixError, match="is not positive definite"):
            ours.wishart.logpdf(x, 4, scale)
