"""Differential equations and integrals: against solutions known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import workbench as wb
from workbench.core import tree
from workbench.errors import ConvergenceError, ShapeError, UsageError
from workbench.scipy.integrate import (
    cumulative_trapezoid,
    dblquad,
    initial,
    nquad,
    odeint,
    quad,
    quad_vec,
    simpson,
    solve_ivp,
    tplquad,
    trapezoid,
)

TIMES = np.array([0.0, 0.4, 1.0, 1.7])
TIGHT = {"rtol": 1e-11, "atol": 1e-12}


def by_odeint(rate: Any, y0: Any, t: Any, *args: Any) -> Any:
    return odeint(lambda y, t, *p: rate(t, y, *p), y0, t, args, **TIGHT)


def by_ivp(rate: Any, y0: Any, t: Any, *args: Any) -> Any:
    sol = solve_ivp(
        rate, (t[0], t[-1]), y0, "DOP853", t_eval=t[1:-1], args=args, **TIGHT
    )
    last = solve_ivp(rate, (t[0], t[-1]), y0, "DOP853", args=args, **TIGHT)
    return np.concatenate([y0[None], sol.y.T, last.y.T[-1:]])


SOLVERS = {"odeint": by_odeint, "solve_ivp": by_ivp}


# A linear oscillator with a forcing: the solution is known, with all derivatives


def oscillator(t: Any, y: Any, p: Any) -> Any:
    return [y[1], -(p["w"] ** 2) * y[0] + p["f"] * np.cos(2 * t)]


def solution(y0: Any, t: Any, p: Any) -> Any:
    """Of oscillator: w not 2."""
    w, c = p["w"], p["f"] / (p["w"] ** 2 - 4)
    s = t - t[0]
    a = y0[0] - c * np.cos(2 * t[0])
    b = (y0[1] + 2 * c * np.sin(2 * t[0])) / w
    x = a * np.cos(w * s) + b * np.sin(w * s) + c * np.cos(2 * t)
    v = w * (b * np.cos(w * s) - a * np.sin(w * s)) - 2 * c * np.sin(2 * t)
    return np.stack([x, v], axis=1)


Y0 = np.array([0.5, -0.3])
P = {"w": 1.3, "f": 0.7}
WEIGHTS = np.array([[0.3, 1.0], [-0.7, 0.2], [0.5, 0.4], [1.1, -0.8]])

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(Y0, TIMES, P),
    "grad": lambda f: wb.grad(
        lambda *a: np.sum(WEIGHTS * f(*a) ** 2), (0, 1, 2)
    )(Y0, TIMES, P),
    "jvp": lambda f: wb.jvp(
        f, (Y0, TIMES, P), (Y0 + 1, TIMES**2, {"w": 1.0, "f": -1.0})
    ),
    "jvp by times": lambda f: wb.jvp(lambda t: f(Y0, t, P), (TIMES,), (TIMES + 1,)),
    "jacrev": lambda f: wb.jacrev(lambda p: f(Y0, TIMES, p))(P),
    "jacfwd": lambda f: wb.jacfwd(lambda y: f(y, TIMES, P))(Y0),
    "forward over reverse": lambda f: wb.jvp(
        wb.grad(lambda *a: np.sum(WEIGHTS * f(*a) ** 2), (0, 2)),
        (Y0, TIMES, P), (Y0 + 1, 0 * TIMES, {"w": 1.0, "f": -1.0}),
    ),
    "reverse over reverse": lambda f: wb.grad(
        lambda w: wb.grad(
            lambda w: np.sum(WEIGHTS * f(Y0, TIMES, {"w": w, "f": 0.7}) ** 2)
        )(w)
    )(1.3),
    "forward over forward": lambda f: wb.jacfwd(
        wb.jacfwd(lambda w: f(Y0, TIMES, {"w": w, "f": 0.7}))
    )(1.3),
    "reverse over forward": lambda f: wb.jacrev(
        wb.jacfwd(lambda w: f(Y0, TIMES, {"w": w, "f": 0.7})[-1])
    )(1.3),
    "batch": lambda f: wb.vmap(lambda y: f(y, TIMES, P))(np.stack([Y0, 2 * Y0])),
    "batch of gradients": lambda f: wb.vmap(
        wb.grad(lambda y, w: np.sum(f(y, TIMES, {"w": w, "f": 0.7})), (0, 1))
    )(np.stack([Y0, 2 * Y0]), np.array([1.3, 0.9])),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_forced_oscillator(solver: str, transform: str) -> None:
    if solver == "solve_ivp" and "batch" in transform:
        pytest.skip("the solver's own times are known only where values are")
    solve = SOLVERS[solver]
    made = TRANSFORMS[transform](lambda y, t, p: solve(oscillator, y, t, p))
    truth = TRANSFORMS[transform](solution)
    for a, b in zip(tree.flatten(made)[0], tree.flatten(truth)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-7, atol=2e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_the_function_reads_through_its_closure(solver: str) -> None:
    solve = SOLVERS[solver]

    def end(k: Any, A: Any) -> Any:
        def rate(t: Any, y: Any) -> Any:
            return A @ y * k

        return np.sum(solve(rate, np.array([1.0, 2.0]), np.array([0.0, 0.5, 1.0]))[-1])

    from scipy.linalg import expm, expm_frechet

    A, one = np.array([[-0.2, 1.0], [-0.5, 0.1]]), np.ones(2)
    y0 = np.array([1.0, 2.0])
    gk, gA = wb.grad(end, (0, 1))(1.5, A)
    np.testing.assert_allclose(gk, one @ A @ expm(1.5 * A) @ y0, rtol=1e-8)
    E = np.eye(4).reshape(4, 2, 2)
    truth = [one @ expm_frechet(1.5 * A, 1.5 * e)[1] @ y0 for e in E]
    np.testing.assert_allclose(gA.ravel(), truth, rtol=1e-8)
    second = wb.grad(wb.grad(lambda k: end(k, A)))(1.5)
    np.testing.assert_allclose(second, one @ A @ A @ expm(1.5 * A) @ y0, rtol=1e-7)


def test_values_are_scipys() -> None:
    rate = lambda y, t, p: oscillator(t, y, p)  # noqa: E731
    expected = integrate.odeint(rate, Y0, TIMES, (P,))
    np.testing.assert_array_equal(odeint(rate, Y0, TIMES, (P,)), expected)
    seen = wb.vjp(lambda p: odeint(rate, Y0, TIMES, (p,)), P)[0]
    np.testing.assert_allclose(seen, expected, rtol=1e-12)
    sol = integrate.solve_ivp(oscillator, (0, 2), Y0, args=(P,))
    for t_eval in (None, np.linspace(0, 1.5, 7), np.array([0.0, 2.0])):
        sol = integrate.solve_ivp(oscillator, (0, 2), Y0, t_eval=t_eval, args=(P,))
        kept: list[Any] = []

        def f(p: Any, t_eval: Any = t_eval, kept: Any = kept) -> Any:
            made = solve_ivp(oscillator, (0, 2), Y0, t_eval=t_eval, args=(p,))
            kept.append(made)
            return made.y

        ours, _ = wb.vjp(f, P)
        np.testing.assert_allclose(ours, sol.y, rtol=1e-12)
        np.testing.assert_array_equal(kept[0].t, sol.t)
        assert kept[0].success is True
        assert kept[0].message == sol.message
    plain = solve_ivp(oscillator, (0, 2), Y0, args=(P,))
    assert type(plain) is type(sol)


def test_the_last_time_of_solve_ivp() -> None:
    def end(t0: Any, t1: Any) -> Any:
        sol = solve_ivp(lambda t, y: y * np.cos(t), (t0, t1), np.ones(1), **TIGHT)
        return sol.y[0, -1]

    truth = math.exp(math.sin(1.2) - math.sin(0.3))
    g0, g1 = wb.grad(end, (0, 1))(0.3, 1.2)
    np.testing.assert_allclose(g1, truth * math.cos(1.2), rtol=1e-9)
    np.testing.assert_allclose(g0, -truth * math.cos(0.3), rtol=1e-9)


def test_backward_in_time_and_single_times() -> None:
    def f(k: Any, t: Any) -> Any:
        return odeint(lambda y, t: k * y, np.array([2.0]), t, **TIGHT)[:, 0]

    t = np.array([1.0, 0.5, 0.0])
    np.testing.assert_allclose(
        wb.jacobian(f)(0.7, t), 2 * (t - 1) * np.exp(0.7 * (t - 1)), rtol=1e-8
    )
    one = np.array([0.5])
    np.testing.assert_array_equal(wb.jacobian(f)(0.7, one), [0.0])
    np.testing.assert_array_equal(wb.jacobian(f, 1)(0.7, one), [[0.0]])
    twice = np.array([0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(
        wb.jacobian(f)(0.7, twice), 2 * twice * np.exp(0.7 * twice), rtol=1e-8
    )


def test_a_function_that_looks_at_values() -> None:
    def rate(y: Any, t: Any, k: Any) -> Any:
        return -k * y if t < 0.5 else 2 * k * y

    def end(k: Any) -> Any:
        t = np.array([0.0, 0.5, 1.0])
        return odeint(rate, np.ones(1), t, (k,), rtol=1e-9, atol=1e-10)[-1, 0]

    np.testing.assert_allclose(end(0.8), math.exp(0.4), rtol=1e-6)
    np.testing.assert_allclose(wb.grad(end)(0.8), 0.5 * math.exp(0.4), rtol=1e-6)
    np.testing.assert_allclose(wb.jacfwd(end)(0.8), 0.5 * math.exp(0.4), rtol=1e-6)


def test_complex_states() -> None:
    def end(w: Any) -> Any:
        sol = solve_ivp(
            lambda t, y: 1j * w * y, (0.0, 1.0), np.array([1.0 + 0j]), **TIGHT
        )
        return sol.y[0, -1]

    np.testing.assert_allclose(
        wb.grad(lambda w: np.real(end(w)))(0.7), -math.sin(0.7), rtol=1e-8
    )
    w = 0.7 + 0.2j
    np.testing.assert_allclose(
        wb.grad(end, holomorphic=True)(w), 1j * np.exp(1j * w), rtol=1e-8
    )


def test_a_stiff_system() -> None:
    def f(k: Any) -> Any:
        return odeint(
            lambda y, t: np.stack([-k * (y[0] - np.cos(t)), y[0] - y[1]]),
            np.array([1.0, 0.0]), np.array([0.0, 1.0]), rtol=1e-7, atol=1e-9,
        )[-1]  # fmt: skip

    step = 1e-2
    truth = (
        8 * (f(500 + step) - f(500 - step)) - (f(500 + 2 * step) - f(500 - 2 * step))
    ) / (12 * step)
    np.testing.assert_allclose(wb.jacfwd(f)(500.0), truth, rtol=1e-3, atol=1e-8)
    np.testing.assert_allclose(wb.jacrev(f)(500.0), truth, rtol=1e-3, atol=1e-8)


# Reverse mode: by sensitivities where inputs are few, else by the adjoint

METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA", "odeint"]


@pytest.fixture(params=["sensitivities", "adjoint"])
def reverse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "adjoint":
        monkeypatch.setattr(initial, "MOST_NUMBERS", 0)
    return str(request.param)


def solve_damped(p: Any, method: str, last: float, tolerance: float) -> Any:
    """Return y(last) of y₀' = 2 − p₀ y₀, y₁' = y₀ − p₁ y₁ from (1, 1)."""

    def rate(t: Any, y: Any) -> Any:
        return np.stack([2 - p[0] * y[0], y[0] - p[1] * y[1]])

    settings = {"rtol": tolerance, "atol": tolerance}
    start, times = np.ones(2), np.array([0.0, last])
    if method == "odeint":
        return odeint(rate, start, times, tfirst=True, **settings)[-1]
    return solve_ivp(rate, (0.0, last), start, method, t_eval=times, **settings).y[
        :, -1
    ]


def damped(p: Any, last: float) -> Any:
    """Return the same in closed form."""
    a, b = p
    u, v = np.exp(-a * last), np.exp(-b * last)
    c, d = 2 / (a * b), (1 - 2 / a) / (b - a)
    return np.stack([2 / a + (1 - 2 / a) * u, c + d * u + (1 - c - d) * v])


@pytest.mark.parametrize("method", METHODS)
def test_far_times(method: str, reverse: str) -> None:
    """Run back, these states would grow by exp(90)."""
    p = np.array([2.5, 4.5])
    tolerance = 1e-6 if method in ("RK23", "Radau", "BDF") else 1e-9
    made = wb.grad(lambda p: np.sum(solve_damped(p, method, 20.0, tolerance) ** 2))(p)
    truth = wb.grad(lambda p: np.sum(damped(p, 20.0) ** 2))(p)
    np.testing.assert_allclose(made, truth, rtol=1e3 * tolerance)


@pytest.mark.parametrize("method", ["RK45", "odeint"])
def test_second_order_between_far_times(method: str) -> None:
    p = np.array([2.5, 4.5])

    def loss(p: Any) -> Any:
        return np.sum(solve_damped(p, method, 20.0, 1e-8) ** 2)

    truth = wb.hessian(lambda p: np.sum(damped(p, 20.0) ** 2))(p)
    np.testing.assert_allclose(wb.jacrev(wb.grad(loss))(p), truth, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(wb.jacfwd(wb.grad(loss))(p), truth, rtol=1e-5, atol=1e-9)


def test_second_order_of_the_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the states back, from one step of the solver to the one before."""
    monkeypatch.setattr(initial, "MOST_NUMBERS", 0)
    p = np.array([2.5, 4.5])

    def loss(p: Any) -> Any:
        return np.sum(solve_damped(p, "DOP853", 4.0, 1e-6) ** 2)

    v = np.array([1.0, -1.0])
    truth = wb.hessian(lambda p: np.sum(damped(p, 4.0) ** 2))(p) @ v
    made = wb.jvp(wb.grad(loss), (p,), (v,))[1]
    np.testing.assert_allclose(made, truth, rtol=1e-3)
    stiff = wb.grad(lambda p: np.sum(solve_damped(p, "BDF", 99.0, 1e-3)))
    with pytest.raises(ConvergenceError, match="forward mode"):
        wb.jvp(stiff, (9 * p,), (v,))


def test_all_inputs_by_the_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    f = SOLVERS["odeint"]
    weigh = lambda *a: np.sum(WEIGHTS * f(oscillator, *a) ** 2)  # noqa: E731
    few = wb.grad(weigh, (0, 1, 2))(Y0, TIMES, P)
    truth = wb.grad(lambda *a: np.sum(WEIGHTS * solution(*a) ** 2), (0, 1, 2))(
        Y0, TIMES, P
    )
    monkeypatch.setattr(initial, "MOST_NUMBERS", 0)
    many = wb.grad(weigh, (0, 1, 2))(Y0, TIMES, P)
    for made in (few, many):
        pairs = zip(tree.flatten(made)[0], tree.flatten(truth)[0], strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=2e-7, atol=2e-8)


def test_many_parameters_go_by_the_adjoint(rng: np.random.Generator) -> None:
    W = rng.standard_normal((8, 8)) / 4
    start, times = rng.standard_normal(8), np.linspace(0, 2, 5)

    def loss(W: Any) -> Any:
        states = odeint(lambda y, t: np.tanh(W @ y), start, times, **TIGHT)
        return np.sum(states[1:] ** 2)

    recorded = wb.trace(wb.grad(loss))(W)
    assert "initial_value_adjoint" in [node.op.name for node in recorded.nodes]
    direction = rng.standard_normal((8, 8))
    made = np.sum(wb.grad(loss)(W) * direction)
    np.testing.assert_allclose(made, wb.jvp(loss, (W,), (direction,))[1], rtol=1e-6)
    h = 1e-4
    difference = (loss(W + h * direction) - loss(W - h * direction)) / (2 * h)
    np.testing.assert_allclose(made, difference, rtol=1e-5)


def test_the_compiled_rate(reverse: str) -> None:
    """The rate is a compiled program inside of one, in reverse mode too."""

    def loss(p: Any) -> Any:
        return np.sum(solve_damped(p, "odeint", 3.0, 1e-9) ** 2)

    p = np.array([2.5, 4.5])
    truth = wb.grad(lambda p: np.sum(damped(p, 3.0) ** 2))(p)
    compiled = wb.compile(wb.grad(loss), backend="compiled")
    for _ in range(2):
        np.testing.assert_allclose(compiled(p), truth, rtol=1e-6)
        compiled.wait(60)


# What does not end


def solve_by(method: str, rate: Any, last: float = 3.0) -> Any:
    if method == "odeint":
        return odeint(rate, np.ones(1), np.array([0.0, last]), tfirst=True)[-1, 0]
    return solve_ivp(rate, (0.0, last), np.ones(1), method).y[0, -1]


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_of_infinite_slope(method: str, reverse: str) -> None:
    def end(k: Any) -> Any:
        return solve_by(method, lambda t, y: k * np.abs(y - 1) ** 0.5)

    with np.errstate(all="ignore"):
        assert np.isfinite(end(1.0))
        for transform in (
            lambda: wb.grad(end)(1.0),
            lambda: wb.jvp(end, (1.0,), (1.0,)),
            lambda: wb.grad(wb.grad(end))(1.0),
        ):
            with pytest.raises(ConvergenceError, match="derivative of the rate") as at:
                transform()
            assert "power float64[1] (at test_integrate.py" in str(at.value)
            assert "k * np.abs(y - 1) ** 0.5" in str(at.value)
            assert "has no finite derivative there" in str(at.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_that_is_not_finite(method: str) -> None:
    def begin(k: Any) -> Any:
        return solve_by(method, lambda t, y: k * np.log(y - 1))

    def run_into(k: Any) -> Any:
        return solve_by(method, lambda t, y: -k * np.sqrt(y))

    with np.errstate(all="ignore"):
        if method != "odeint":  # which is SciPy's own, and ends
            with pytest.raises(ConvergenceError, match=r"not finite at t = 0\."):
                begin(1.0)
        for f, place in ((begin, "log float64"), (run_into, "sqrt float64")):
            for transform in (wb.grad, wb.jacfwd, lambda f: wb.grad(wb.grad(f))):
                with pytest.raises(ConvergenceError, match=place) as at:
                    transform(f)(1.0)
                assert "rate of change is not finite at t = " in str(at.value)


def test_a_solver_that_stays_at_one_time() -> None:
    def explode(k: Any) -> Any:
        return solve_by("LSODA", lambda t, y: k * y**2)

    for f in (explode, wb.grad(explode), wb.jacfwd(explode)):
        with pytest.raises(ConvergenceError, match="does not get beyond"):
            f(1.0)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_ends_a_solve(method: str) -> None:
    calls = 0

    def end(k: Any) -> Any:
        def rate(t: Any, y: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 40:
                raise KeyboardInterrupt
            return -k * y if t >= 0 else y  # which looks at values

        return solve_by(method, rate, 99.0)

    for f in (end, wb.grad(end)):
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            f(50.0)


def test_without_values() -> None:
    from workbench.backends.numpy import compile

    f = wb.grad(lambda k: odeint(lambda y, t: k * y, np.ones(1), TIMES, **TIGHT)[-1, 0])
    graph = wb.trace(f)(wb.Spec((), float))
    np.testing.assert_allclose(compile(graph)(0.3)[0], 1.7 * np.exp(0.51), rtol=1e-8)
    with pytest.raises(UsageError, match="Give t_eval"):
        wb.trace(lambda k: solve_ivp(lambda t, y: k * y, (0, 1), np.ones(1)).y)(
            wb.Spec((), float)
        )


def test_what_is_refused() -> None:
    def traced(call: Callable[[Any], Any]) -> None:
        wb.grad(lambda k: np.sum(call(k)))(1.0)

    with pytest.raises(ShapeError, match=r"returned shape \(2,\).*has shape \(3,\)"):
        traced(lambda k: odeint(lambda y, t: k * y[:2], np.ones(3), TIMES))
    with pytest.raises(ShapeError, match=r"np\.ravel it"):
        traced(lambda k: odeint(lambda y, t: k * y, np.ones((3, 2)), TIMES))
    with pytest.raises(UsageError, match="full_output=True"):
        traced(lambda k: odeint(lambda y, t: k * y, Y0, TIMES, full_output=True))
    with pytest.raises(ConvergenceError, match="not solved up to t = 3"):
        traced(lambda k: solve_ivp(lambda t, y: k * y**2, (0, 3), np.ones(1)).y)
    with pytest.raises(ConvergenceError, match="Try other tolerances"):
        traced(lambda k: odeint(lambda y, t: k * y**2, np.ones(1), TIMES * 3))


# Integrals of functions


def gauss(s: Any, a: Any, b: Any) -> Any:
    return quad(lambda x: np.exp(-s * x) * x, a, b, epsabs=1e-13)[0]


def gauss_truth(s: Any, a: Any, b: Any) -> Any:
    F = lambda x: -np.exp(-s * x) * (x / s + 1 / s**2)  # noqa: E731
    return F(b) - F(a)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f(0.7, 0.2, 1.5),
        lambda f: wb.grad(f, (0, 1, 2))(0.7, 0.2, 1.5),
        lambda f: wb.jvp(f, (0.7, 0.2, 1.5), (1.0, 2.0, -1.0)),
        lambda f: wb.hessian(f, (0, 1, 2))(0.7, 0.2, 1.5),
        lambda f: wb.grad(wb.grad(wb.grad(f)))(0.7, 0.2, 1.5),
        lambda f: wb.jacfwd(wb.jacfwd(f, 2), 0)(0.7, 0.2, 1.5),
        lambda f: wb.vmap(f, (0, None, 0))(
            np.array([0.7, 1.0]), 0.2, np.arange(1.0, 3)
        ),
        lambda f: wb.vmap(wb.grad(f))(np.array([0.7, 1.0]), np.zeros(2), np.ones(2)),
    ],
)
def test_quad_by_everything(transform: Any) -> None:
    made, truth = (tree.flatten(transform(f))[0] for f in (gauss, gauss_truth))
    for a, b in zip(made, truth, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_quad_with_arguments_arrays_and_infinite_limits() -> None:
    def f(p: Any) -> Any:
        return quad(
            lambda x, p, k: p["a"] @ np.stack([x, x**2]) * np.exp(-p["s"] * x) / k,
            0, np.inf, ({"a": p["a"], "s": p["s"]}, 2),
        )[0]  # fmt: skip

    def truth(p: Any) -> Any:
        return (p["a"][0] / p["s"] ** 2 + 2 * p["a"][1] / p["s"] ** 3) / 2

    p = {"a": np.array([1.0, 2.0]), "s": 1.5}
    g, h = wb.grad(f)(p), wb.grad(truth)(p)
    np.testing.assert_allclose(g["a"], h["a"], rtol=1e-8)
    np.testing.assert_allclose(g["s"], h["s"], rtol=1e-8)
    H = wb.hessian(f)(p)
    np.testing.assert_allclose(H["a"]["s"], wb.hessian(truth)(p)["a"]["s"], rtol=1e-7)


def test_quad_of_a_function_that_looks_at_values() -> None:
    f = lambda s: quad(lambda x: s * x if x < 1 else s**2, 0, 2, points=[1])[0]  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(3.0), 0.5 + 6, rtol=1e-8)
    np.testing.assert_allclose(wb.jacfwd(f)(3.0), 0.5 + 6, rtol=1e-8)


def test_quad_tells_its_error_and_what_it_refuses() -> None:
    kept = []
    wb.grad(lambda s: kept.append(quad(lambda x: s * x, 0, 1)) or kept[-1][0])(2.0)
    assert kept[0][1] == integrate.quad(lambda x: 2 * x, 0, 1)[1]
    assert quad(lambda x: 2 * x, 0, 1) == integrate.quad(lambda x: 2 * x, 0, 1)
    with pytest.raises(UsageError, match="weight='cos'"):
        wb.grad(lambda s: quad(lambda x: s * x, 0, 1, weight="cos", wvar=2)[0])(2.0)


# Integrals of samples


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize(
    ("ours", "truth", "more"),
    [
        (trapezoid, integrate.trapezoid, {}),
        (simpson, integrate.simpson, {}),
        (cumulative_trapezoid, integrate.cumulative_trapezoid, {}),
        (cumulative_trapezoid, integrate.cumulative_trapezoid, {"initial": 0}),
    ],
)
def test_samples(
    ours: Any, truth: Any, more: Any, axis: int, count: int, rng: np.random.Generator
) -> None:
    y = rng.standard_normal({0: (count, 2), 1: (2, count, 1), -1: (count,)}[axis])
    x = np.sort(rng.standard_normal(count))
    X = np.sort(rng.standard_normal(y.shape), axis=axis)
    for places in ({}, {"dx": 0.3}, {"x": x}, {"x": X}):
        settings = {**places, "axis": axis, **more}
        expected = truth(y, **settings)
        np.testing.assert_allclose(ours(y, **settings), expected, rtol=1e-10)
        np.testing.assert_allclose(
            wb.vjp(lambda y, s=settings: ours(y, **s), y)[0], expected, rtol=1e-10
        )
    if count < 6:
        wb.check_grads(lambda y, x: ours(y, x, axis=axis, **more), (y, X), order=2)
        wb.check_grads(lambda y, d: ours(y, dx=d, axis=axis, **more), (y, 0.3), order=1)


def test_samples_and_places_must_match() -> None:
    with pytest.raises(ShapeError, match="3 samples at 4 places"):
        trapezoid(np.ones(3), np.ones(4))
    with pytest.raises(UsageError, match="initial=2"):
        cumulative_trapezoid(np.ones(3), initial=2)


# Several variables, and arrays of functions

REGIONS: dict[str, tuple[Any, Any]] = {
    # The area of an ellipse is pi a b
    "ellipse": (
        lambda a, b: dblquad(
            lambda y, x: 1.0,
            -a,
            a,
            lambda x: -b * np.sqrt(1 - x * x / (a * a)),
            lambda x: b * np.sqrt(1 - x * x / (a * a)),
        )[0],
        lambda a, b: np.pi * a * b,
    ),
    "rectangle": (
        lambda a, b: dblquad(lambda y, x, c: c * x * y, 0, a, 0, b, (2.0,))[0],
        lambda a, b: a**2 * b**2 / 2,
    ),
    "box": (
        lambda a, b: tplquad(
            lambda z, y, x: a * x * y * z, 0, 1, 0, b, 0, lambda x, y: y
        )[0],
        lambda a, b: a * b**4 / 16,
    ),
    "exponentials": (
        lambda a, b: nquad(
            lambda x, y: np.exp(-a * x - b * y), [(0, np.inf), (0, np.inf)]
        )[0],
        lambda a, b: 1 / (a * b),
    ),
    "vector": (
        lambda a, b: (
            quad_vec(lambda x: np.stack([x**a, a * x**b]), 0, b)[0]
            @ np.array([1.0, 2.0])
        ),
        lambda a, b: b ** (a + 1) / (a + 1) + 2 * a * b ** (b + 1) / (b + 1),
    ),
}


@pytest.mark.parametrize("name", REGIONS)
def test_integrals_over_several_variables(name: str) -> None:
    f, truth = REGIONS[name]
    at = (1.5, 2.5)
    np.testing.assert_allclose(f(*at), truth(*at), rtol=1e-7)
    both = (0, 1)
    np.testing.assert_allclose(
        wb.grad(f, both)(*at) if name != "ellipse" else wb.grad(f, 1)(*at),
        wb.grad(truth, both)(*at) if name != "ellipse" else np.pi * 1.5,
        rtol=1e-6,
    )
    if name in ("rectangle", "exponentials"):
        second = wb.grad(wb.grad(f, 0), 1)(*at)
        right = wb.grad(wb.grad(truth, 0), 1)(*at)
        np.testing.assert_allclose(second, right, rtol=1e-6)


def test_settings_of_several_variables_that_are_refused() -> None:
    with pytest.raises(UsageError, match="one dict of settings"):
        wb.grad(lambda a: nquad(lambda x, y: a, [(0, 1)] * 2, opts=[{}, {}])[0])(1.0)


def test_quad_vec_takes_its_tolerances_by_place() -> None:
    """The integral of x^a over (0, 1) is 1 / (a + 1)."""
    powers = lambda a: quad_vec(lambda x: x**a, 0, 1, 1e-10, 1e-9, "max")[0]  # noqa: E731
    a = np.array([1.0, 2.0])
    truth = np.diag(-1 / (a + 1) ** 2)
    np.testing.assert_allclose(wb.jacobian(powers)(a), truth, atol=1e-8)
