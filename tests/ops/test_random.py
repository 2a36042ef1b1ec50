"""Random draws: NumPy's numbers, gradients at fixed noise, batches, refusals.

The truth for a gradient is the difference quotient of the recorded program at moved
parameters, with the noise it holds: for gamma and beta laws that program is SciPy's
inverse distribution function at a fixed quantile.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import workbench as wb
from workbench.backends.numpy import compile
from workbench.core.tensor import Tensor, apply
from workbench.errors import (
    GradientLostError,
    NotDifferentiableError,
    ShapeError,
    TraceError,
)
from workbench.ops.linalg.factors import covariance_factor
from workbench.ops.random import BETA, GAMMA, GAMMA_SLOPE, beta_moments, gamma_moments
from workbench.random import Generator, default_rng

P = np.array([0.7, 1.3, 2.4])
Draw = Callable[[Any, Any, Any], Any]

#: An array of NumPy's own.
PLAIN = np.ones(3)


def lead(size: Any) -> Any:
    return size and size[0]


REPARAMETERISED: dict[str, Draw] = {
    "normal": lambda r, p, n: r.normal(p, p + 1, n),
    "normal by scale": lambda r, p, n: r.normal(size=n, scale=p),
    "lognormal": lambda r, p, n: r.lognormal(p, 0.3 * p, n),
    "uniform": lambda r, p, n: r.uniform(-p, p * 2, n),
    "exponential": lambda r, p, n: r.exponential(p, n),
    "laplace": lambda r, p, n: r.laplace(p, p, n),
    "logistic": lambda r, p, n: r.logistic(p, p, size=n),
    "gumbel": lambda r, p, n: r.gumbel(loc=p, scale=p, size=n),
    "rayleigh": lambda r, p, n: r.rayleigh(p, n),
    "weibull": lambda r, p, n: r.weibull(p, n),
    "pareto": lambda r, p, n: r.pareto(p, n),
    "power": lambda r, p, n: r.power(p, n),
    "triangular": lambda r, p, n: r.triangular(-p, p / 2, 2 * p, n),
    "vonmises": lambda r, p, n: r.vonmises(p, 1.5, n),
    "gamma": lambda r, p, n: r.gamma(p, 2 * p, n),
    "gamma small": lambda r, p, n: r.gamma(p * 0.1, 1.0, n),
    "gamma large": lambda r, p, n: r.gamma(p * 1e3, 1e-3, n),
    "standard_gamma": lambda r, p, n: r.standard_gamma(p, n),
    "chisquare": lambda r, p, n: r.chisquare(p, n),
    "beta": lambda r, p, n: r.beta(p, p + 0.5, n),
    "beta small": lambda r, p, n: r.beta(p * 0.2, 0.3, n),
    "beta large": lambda r, p, n: r.beta(p * 50, 30 * p, n),
    "f": lambda r, p, n: r.f(p, p + 2, n),
    "standard_t": lambda r, p, n: r.standard_t(p, n),
    "noncentral_chisquare": lambda r, p, n: r.noncentral_chisquare(p + 1, p, n),
    "noncentral_f": lambda r, p, n: r.noncentral_f(p + 1, p + 3, p, n),
    "dirichlet": lambda r, p, n: r.dirichlet(p, lead(n)),
    "dirichlet small": lambda r, p, n: r.dirichlet(p * 0.03, lead(n)),
    "multivariate_normal": lambda r, p, n: r.multivariate_normal(
        p, np.diag(p) + 0.1, lead(n)
    ),
    "multivariate_normal cholesky": lambda r, p, n: r.multivariate_normal(
        p, np.diag(p) + 0.1, lead(n), method="cholesky"
    ),
    "multivariate_normal eigh": lambda r, p, n: r.multivariate_normal(
        p, np.diag(p) + 0.1, lead(n), method="eigh"
    ),
    "permutation": lambda r, p, n: r.permutation(p) * np.arange(3.0),
    "permutation rows": lambda r, p, n: r.permutation(p[:, None] * p, axis=1) * p,
    "permuted": lambda r, p, n: r.permuted(p[:, None] * p) * p,
    "permuted rows": lambda r, p, n: r.permuted(p[:, None] * p, axis=1) * p,
    "choice": lambda r, p, n: r.choice(p, n),
    "choice rows": lambda r, p, n: r.choice(p[:, None] * p, 2, replace=False, axis=1),
    "choice weighted": lambda r, p, n: r.choice(p, n, p=[0.2, 0.5, 0.3]),
    "normal of constants": lambda r, p, n: p * r.normal(0.5, 2.0, (4, 3)),
    "random": lambda r, p, n: p * r.random((4, 3)),
}


@pytest.mark.parametrize("size", [None, (4, 3)], ids=["one", "many"])
@pytest.mark.parametrize("name", REPARAMETERISED)
def test_values_stream_and_gradient(name: str, size: Any) -> None:
    draw = REPARAMETERISED[name]
    plain = np.random.default_rng(3)
    truth, after = draw(plain, P, size), plain.random()
    seen: list[Any] = []

    def f(p: Any) -> Any:
        rng = default_rng(3)
        made = draw(rng, p, size)
        seen.append((made, rng.random()))
        return np.sum(np.tanh(made / 2))

    value, gradient = wb.value_and_grad(f)(P)
    made, then = seen[0]
    assert isinstance(made, Tensor)
    np.testing.assert_allclose(made.value, truth, rtol=1e-12)
    assert then.value == after  # the stream goes on where NumPy's does
    assert value == pytest.approx(f(P), rel=1e-12)
    _, tangent = wb.jvp(f, (P,), (np.array([1.0, -2.0, 0.5]),))
    assert tangent == pytest.approx(gradient @ [1.0, -2.0, 0.5], rel=1e-11)
    again = compile(wb.trace(f)(P))
    assert again(P)[0] == pytest.approx(value, rel=1e-12)
    h = 1e-4
    for i, unit in enumerate(np.eye(3)):

        def at(steps: int, unit: Any = unit) -> float:
            return float(again(P + steps * h * unit)[0])

        quotient = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        assert gradient[i] == pytest.approx(quotient, abs=2e-9), (i, gradient)


@pytest.mark.parametrize("a", [1e-2, 0.3, 1.0, 4.0, 80.0, 5e3])
@pytest.mark.parametrize("u", [1e-4, 0.2, 0.5, 0.8, 1 - 1e-4])
def test_gamma_by_the_inverse_distribution_function(a: float, u: float) -> None:
    x = scipy.special.gammaincinv(a, u)
    if x < 1e-290:
        pytest.skip("the draw underflows")
    h = (1e-3 if a > 0.1 else 2e-4) * a

    def at(k: float) -> Any:
        return scipy.special.gammaincinv(a + k * h, u)

    quotient = (45 * (at(1) - at(-1)) - 9 * (at(2) - at(-2)) + at(3) - at(-3)) / (
        60 * h
    )
    slope = wb.grad(lambda a: apply(GAMMA, (a, u if u <= 0.5 else u - 1)))(a)
    np.testing.assert_allclose(slope, quotient, rtol=2e-8)

    def bent(a: Any) -> Any:
        return wb.grad(lambda a: apply(GAMMA, (a, u if u <= 0.5 else u - 1)))(a)

    second = wb.grad(bent)(a)
    moved = (bent(a + h) - bent(a - h)) / (2 * h)
    np.testing.assert_allclose(second, moved, rtol=1e-3, atol=1e-7 * abs(slope) / a)
    assert apply(GAMMA_SLOPE, (a, 0.0)) == 0.0


@pytest.mark.parametrize(
    ("a", "b"), [(0.05, 0.4), (0.5, 0.5), (2.0, 7.0), (400.0, 30.0)]
)
@pytest.mark.parametrize("u", [1e-3, 0.3, 0.6, 0.99])
def test_beta_by_the_inverse_distribution_function(
    a: float, b: float, u: float
) -> None:
    q = u if u <= 0.5 else u - 1

    def f(p: Any) -> Any:
        return apply(BETA, (p[0], p[1], q))

    def truth(p: Any) -> Any:
        return scipy.special.betaincinv(p[0], p[1], u)

    p = np.array([a, b])
    gradient = wb.grad(f)(p)
    for i, unit in enumerate(np.eye(2)):
        h = 1e-3 * p[i] * unit
        quotient = (
            45 * (truth(p + h) - truth(p - h))
            - 9 * (truth(p + 2 * h) - truth(p - 2 * h))
            + truth(p + 3 * h)
            - truth(p - 3 * h)
        ) / (60e-3 * p[i])
        scale = abs(gradient).max()
        np.testing.assert_allclose(gradient[i], quotient, rtol=1e-7, atol=1e-9 * scale)
    # The second derivatives: symmetric, and those of moved gradients.
    h = 1e-4
    second = wb.jacobian(wb.grad(f))(p)
    np.testing.assert_allclose(second, second.T, rtol=1e-7)
    for i, unit in enumerate(np.eye(2)):
        step = h * p[i] * unit
        moved = (wb.grad(f)(p + step) - wb.grad(f)(p - step)) / (2 * h * p[i])
        np.testing.assert_allclose(
            second[i], moved, rtol=1e-4, atol=1e-6 * abs(second).max()
        )


def test_the_third_derivative_by_a_shape_is_an_error() -> None:
    def f(a: Any) -> Any:
        return default_rng(0).gamma(a)

    wb.grad(wb.grad(f))(2.0)
    with pytest.raises(
        NotDifferentiableError, match=r"third derivative.*stop_gradient"
    ):
        wb.grad(wb.grad(wb.grad(f)))(2.0)


def test_outside_a_trace_all_is_numpys() -> None:
    ours, plain = default_rng(5), np.random.default_rng(5)
    calls: list[Callable[[Any], Any]] = [
        lambda r: r.normal(),
        lambda r: r.normal(1.0, [1.0, 2.0]),
        lambda r: r.integers(10, size=3),
        lambda r: r.integers(0, 5),
        lambda r: r.choice(5, 3, replace=False),
        lambda r: r.permutation(4),
        lambda r: r.gamma(2.0, size=2),
        lambda r: r.weibull(2.0, 2),
        lambda r: r.poisson(3.0, 2),
        lambda r: r.multinomial(5, [0.2, 0.8]),
        lambda r: r.random(),
        lambda r: r.standard_normal(3, dtype=np.float32),
        lambda r: r.multivariate_normal([0, 1], np.eye(2), 2),
        lambda r: r.hypergeometric(5, 5, 3),
        lambda r: r.wald(1.0, 2.0),
        lambda r: r.bytes(3),
        lambda r: r.dirichlet([1.0, 2.0]),
    ]
    for call in calls:
        a, b = call(ours), call(plain)
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert isinstance(again, Generator)
        assert again.random() == copy.deepcopy(plain).random()
    shared = Generator(plain)
    assert shared.bit_generator is plain.bit_generator
    assert isinstance(shared.spawn(1)[0], Generator)


def test_draws_differ_and_a_seed_repeats() -> None:
    rng = default_rng(0)

    def f(x: Any) -> Any:
        return np.sum(x * rng.normal(size=3))

    first, second = wb.grad(f)(P), wb.grad(f)(P)
    assert (first != second).all()

    def seeded(x: Any) -> Any:
        return np.sum(default_rng(1).normal(x, 1.0) ** 2)

    np.testing.assert_array_equal(wb.grad(seeded)(P), wb.grad(seeded)(P))
    wb.check_grads(seeded, P)


def test_draws_are_nodes_of_the_program() -> None:
    def f(x: Any) -> Any:
        rng = default_rng(2)
        keep = rng.random(3) < 0.5
        count = rng.integers(2, 4)
        assert type(count) is int or isinstance(count, np.integer)
        return np.sum(np.where(keep, x, 0) * rng.normal(0.0, 1.0, 3)) / count

    graph = wb.trace(f)(P)
    names = [node.op.name for node in graph.nodes]
    assert "random_random" in names
    assert "random_normal" in names
    assert compile(graph)(P)[0] == f(P)
    assert "= random_normal(float64[3])" in str(graph)


def test_each_example_draws_for_itself() -> None:
    """Each example has draws of its own; one draw is what a loop would draw."""
    batch = np.linspace(0.5, 2, 5)

    def noisy(x: Any, rng: Any) -> Any:
        return rng.normal(x, 0.5)

    ours = wb.vmap(noisy, in_axes=(0, None))(batch, default_rng(4))
    plain = np.random.default_rng(4)
    np.testing.assert_allclose(ours, [noisy(x, plain) for x in batch], rtol=1e-14)

    def shifted(x: Any, rng: Any) -> Any:
        return np.sum(x + rng.standard_normal(3))

    ours = wb.vmap(shifted, in_axes=(0, None))(batch, default_rng(4))
    plain = np.random.default_rng(4)
    np.testing.assert_allclose(ours, [shifted(x, plain) for x in batch], rtol=1e-14)
    # The pullback reads the draws that the value was made with.
    gradients = wb.vmap(wb.value_and_grad(lambda s, r: r.normal(0.0, s)), (0, None))
    values, slopes = gradients(batch, default_rng(6))
    np.testing.assert_allclose(values, batch * slopes, rtol=1e-13)
    assert len(set(slopes)) == 5
    # Batches inside batches, and orders.
    twice = wb.vmap(wb.vmap(noisy, (0, None)), (0, None))
    grid = twice(np.ones((3, 4)), default_rng(8))
    assert len(set(grid.ravel())) == 12
    shared = wb.vmap(lambda y, r: wb.vmap(noisy, (0, None))(batch, r) + y, (0, None))
    assert len(set(shared(np.zeros(3), default_rng(8)).ravel())) == 15
    orders = wb.vmap(lambda x, r: r.permutation(6), (0, None))(batch, default_rng(9))
    plain = np.random.default_rng(9)
    np.testing.assert_array_equal(orders, [plain.permutation(6) for _ in batch])
    moved = wb.vmap(lambda x, r: r.choice(x, 2, replace=False), (0, None))(
        np.arange(12.0).reshape(4, 3), default_rng(9)
    )
    assert moved.shape == (4, 2)
    assert all(
        set(row) <= {3.0 * i, 3.0 * i + 1, 3.0 * i + 2} for i, row in enumerate(moved)
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda r, x: r.gamma(x),
        lambda r, x: r.beta(x, 2.0, 3).sum(),
        lambda r, x: r.standard_t(x + 1),
        lambda r, x: r.dirichlet(np.stack([x, 2 * x, x + 1]))[0],
        lambda r, x: r.poisson(wb.stop_gradient(x)) * 1.0,
        lambda r, x: r.poisson(3.0, 2).sum() * 1.0,
        lambda r, x: r.multinomial(4, [0.5, 0.5])[0] * 1.0,
        lambda r, x: r.triangular(-x, 0.0, x),
        lambda r, x: r.permutation(np.arange(3.0))[0] + x,
        lambda r, x: r.multivariate_normal(np.stack([x, x]), np.eye(2) * 2)[0],
        lambda r, x: r.permuted(np.stack([x, -x]))[0],
    ],
)  # fmt: skip
def test_draws_under_vmap_are_apart(draw: Any) -> None:
    rng = default_rng(11)
    batch = np.full(40, 1.7)
    made = wb.vmap(lambda x: draw(rng, x))(batch)
    assert made.shape == (40,)
    assert np.isfinite(made).all()
    assert len({float(v) for v in np.round(made, 9)}) > 1


def test_gamma_under_vmap_has_the_law_and_the_gradient() -> None:
    rng = default_rng(12)
    y, g = wb.vmap(wb.value_and_grad(lambda a: rng.gamma(a)))(np.full(4000, 2.5))
    assert np.mean(y) == pytest.approx(2.5, abs=0.12)
    assert np.mean(g) == pytest.approx(1.0, abs=0.05)  # d E[y] / da = 1


def test_unbiased() -> None:
    """Means of pathwise gradients are gradients of means."""

    def mean(p: Any) -> Any:
        return np.mean(default_rng(13).beta(p[0], p[1], 20000))

    a, b = 2.0, 5.0
    exact = np.array([b, -a]) / (a + b) ** 2
    np.testing.assert_allclose(wb.grad(mean)(np.array([a, b])), exact, rtol=0.05)


@pytest.mark.parametrize(
    ("draw", "error", "text"),
    [
        (lambda r, x: r.poisson(x), NotDifferentiableError, r"poisson.*score function"),
        (lambda r, x: r.binomial(3, x / 9), NotDifferentiableError, r"binomial\(p=x\)"),
        (lambda r, x: r.wald(x, 1.0), NotDifferentiableError, "stop_gradient"),
        (lambda r, x: r.vonmises(0.0, x), NotDifferentiableError, r"vonmises\(kappa"),
        (lambda r, x: r.choice(3, p=x / x.sum()), NotDifferentiableError, r"choice\(p"),
        (lambda r, x: r.normal(0.0, -x), ValueError, r"rng\.normal.*scale = .*range"),
        (lambda r, x: r.gamma(-x), ValueError, r"shape = .*range"),
        (lambda r, x: r.normal(x, 1.0, (3, 2)), ValueError, "shape mismatch"),
        (lambda r, x: r.normal(x[:, None], 1.0, 3), ShapeError, r"size \(3,\)"),
        (lambda r, x: r.noncentral_chisquare(x / 9, 1.0), ValueError, "df above 1"),
        (lambda r, x: r.weibull(), TypeError, "takes a and size"),
        (lambda r, x: r.standard_gamma(x, out=PLAIN), TraceError, "out="),
    ],
)
def test_refusals(draw: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wb.grad(lambda x: np.sum(draw(default_rng(0), x)))(P)


def test_what_does_not_vary_is_a_constant() -> None:
    def f(x: Any) -> Any:
        rng = default_rng(1)
        rate = wb.stop_gradient(x)
        return np.sum(x * rng.poisson(rate))

    counts = np.random.default_rng(1).poisson(P)
    np.testing.assert_array_equal(wb.grad(f)(P), counts)


def test_float32_parameters() -> None:
    x = P.astype(np.float32)
    truth = np.random.default_rng(0).normal(x, 1.0)
    y, g = wb.value_and_grad(lambda x: np.sum(default_rng(0).gamma(x, 2.0)))(x)
    assert g.dtype == np.float32
    assert wb.vjp(lambda x: default_rng(0).normal(x, 1.0), x)[0].dtype == truth.dtype
    assert y.dtype == np.float64  # NumPy draws in float64


def test_score_function_as_the_error_says() -> None:
    """The other way: d/dx E[k**2] of a Poisson draw k is 1 + 2 x."""

    def loss(x: Any) -> Any:
        k = default_rng(3).poisson(wb.stop_gradient(x), 200_000)
        log_probability = k * np.log(x) - x
        return np.mean(wb.stop_gradient(k**2.0) * log_probability)

    assert wb.grad(loss)(1.5) == pytest.approx(4.0, rel=0.03)


def test_numpys_own_generator_says_what_to_write() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(GradientLostError, match=r"random\.Generator\(rng\)\.normal"):
        wb.grad(lambda x: np.sum(rng.normal(x, 1.0)))(P)
    with pytest.raises(GradientLostError, match=r"default_rng\(seed\)\.gamma"):
        wb.grad(lambda x: np.sum(np.random.gamma(x)))(P)
    with pytest.raises(
        GradientLostError,
        match=r"random\.Generator\(np\.random\.Generator\(np\.random\.PCG64\(\)\)\)\.gamm",
    ):
        wb.grad(lambda x: np.sum(np.random.Generator(np.random.PCG64()).gamma(x)))(P)
    y = wb.vjp(lambda x: Generator(rng).normal(x, 1.0), P)[0]
    np.testing.assert_allclose(y, np.random.default_rng(0).normal(P, 1.0))


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("np.random.default_rng().standard_gamma(x)", "Generator(rng).standard_gamma"),
        ("np.sin(rng.normal(np.cos(x)))", "Generator(rng).normal"),
        ("np.random.gamma(x)", "default_rng(seed).gamma"),
        ("rng.normal(np.asarray(x, dtype=float))", "Generator(rng).normal"),
    ],
)
def test_numpys_own_generator_where_nobody_kept_the_text(call: str, cure: str) -> None:
    rng = np.random.default_rng(0)
    program = eval(f"lambda x: np.sum({call})", {"np": np, "rng": rng})
    with pytest.raises(GradientLostError) as error:
        wb.grad(program)(P)
    assert cure in str(error.value)


def test_numpys_own_generator_as_an_argument_draws_nodes() -> None:
    def f(mu: Any, sigma: Any, rng: Any) -> Any:
        return np.mean(rng.normal(mu, sigma, size=1000) ** 2)

    z = np.random.default_rng(7).standard_normal(1000)
    y = 1 + z / 2
    expected = [np.mean(2 * y), np.mean(2 * y * z)]
    for call in (
        lambda rng: wb.grad(f, (0, 1))(1.0, 0.5, rng),
        lambda rng: wb.grad(f, (0, 1))(1.0, 0.5, rng=rng),
    ):
        plain = np.random.default_rng(7)
        np.testing.assert_allclose(call(plain), expected)
        # The stream has moved on, as NumPy's own would have.
        z = np.random.default_rng(7)
        z.standard_normal(1000)
        assert plain.random() == z.random()
    rows = wb.vmap(lambda m, rng: rng.normal(m), (0, None))(P, np.random.default_rng(0))
    np.testing.assert_allclose(rows, np.random.default_rng(0).normal(P))


def test_first_moments_alone_are_those_of_all(rng: np.random.Generator) -> None:
    """First order asks for one, second order for all, of the same integrals."""
    a, b = rng.uniform(0.2, 5, (2, 40))
    x = rng.uniform(0.05, 0.95, 40)
    for alone, every in (
        (gamma_moments(a, 3 * x, 1), gamma_moments(a, 3 * x)),
        (beta_moments(a, b, x, 1 - x, 1), beta_moments(a, b, x, 1 - x)),
    ):
        assert alone.shape == (1, 40)
        np.testing.assert_allclose(alone[0], every[0], rtol=1e-14)


@pytest.mark.parametrize("method", ["svd", "eigh"])
@pytest.mark.parametrize("values", [[2.0, 2.0, 2.0], [1.0, 1.0, 3.0], [1.0, 2.0, 4.0]])
def test_moments_of_draws_move_as_the_covariance(method: Any, values: Any) -> None:
    """The draws are z F; what is right of Fᵀ F is right of all expectations."""
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    cov = (turn * values) @ turn.T if len(set(values)) > 1 else np.diag(values)
    first, second = (m + m.T for m in rng.normal(size=(2, 3, 3)))
    z = np.linalg.qr(rng.normal(size=(3, 3)))[0]

    def moment(s: Any) -> Any:
        """Return Fᵀ F, from draws at noise whose second moments are exact."""
        made = covariance_factor(cov + s * first + s * s * second, method)
        x = z @ made
        return x.T @ x

    once = lambda s: wb.jvp(moment, (s,), (1.0,))[1]  # noqa: E731
    twice = lambda s: wb.jvp(once, (s,), (1.0,))[1]  # noqa: E731
    np.testing.assert_allclose(once(0.0), first, atol=1e-12)
    np.testing.assert_allclose(twice(0.0), 2 * second, atol=1e-11)
    np.testing.assert_allclose(wb.jvp(twice, (0.0,), (1.0,))[1], 0, atol=1e-10)
    weights = rng.normal(size=(3, 3))
    entry = lambda s: np.sum(  # noqa: E731
        weights * covariance_factor(cov + s * first, method)
    )
    tangent = wb.jvp(entry, (0.0,), (1.0,))[1]
    assert wb.grad(entry)(0.0) == pytest.approx(tangent, rel=1e-10)
    second_grad = wb.grad(wb.grad(entry))(0.0)
    along = wb.jvp(wb.grad(entry), (0.0,), (1.0,))[1]
    assert second_grad == pytest.approx(along, rel=1e-9)


@pytest.mark.parametrize("method", ["svd", "eigh", "cholesky"])
def test_draws_with_one_variance_in_all_directions(method: Any) -> None:
    def f(a: Any) -> Any:
        rng = default_rng(0)
        cov = a * np.eye(2)
        x = rng.multivariate_normal(np.zeros(2), cov, size=50, method=method)
        return np.mean(x[:, 0] ** 2)

    slope = f(2.0) / 2  # it is proportional to a
    assert wb.grad(f)(2.0) == pytest.approx(slope, rel=1e-12)
    assert wb.jvp(f, (2.0,), (1.0,))[1] == pytest.approx(slope, rel=1e-12)
    assert wb.grad(wb.grad(f))(2.0) == pytest.approx(0, abs=1e-12)


def test_a_singular_covariance_says_so() -> None:
    def f(s: Any) -> Any:
        cov = np.outer([1.0, 0.0], [1.0, 0.0]) * s
        return np.sum(default_rng(0).multivariate_normal(np.zeros(2), cov))

    with pytest.raises(
        wb.errors.MatrixError, match="eigenvalues; a small multiple"
    ) as told:
        wb.grad(f)(2.0)
    assert "default_rng(0).multivariate_normal" in str(told.value)
