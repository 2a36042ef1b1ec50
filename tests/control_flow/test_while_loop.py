"""`while_loop`: Newton's method and other loops whose length shows when they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    ConvergenceError,
    DtypeError,
    ShapeError,
    TraceError,
    UsageError,
)


def root(a: Any) -> Any:
    def far(x: Any) -> Any:
        return np.abs(x * x - a) > 1e-13 * a

    return wb.while_loop(far, lambda x: 0.5 * (x + a / x), 0.9)


@pytest.mark.parametrize("a", [2.0, 9.0, 1e4])
def test_C8_newtons_method_in_both_modes(a: float) -> None:
    assert np.isclose(root(a), np.sqrt(a))
    slope = 0.5 / np.sqrt(a)
    assert np.isclose(wb.grad(root)(a), slope)
    assert np.isclose(wb.jvp(root, (a,), (1.0,))[1], slope)
    bend = -0.25 * a**-1.5
    for second in (wb.hessian(root), wb.grad(wb.grad(root)), wb.jacfwd(wb.grad(root))):
        assert np.isclose(second(a), bend)


def test_on_symbols_the_run_tells_the_number_of_steps() -> None:
    a = wb.scalar("a")
    y = root(a)
    slope = wb.grad(y, a)
    f = wb.function([a], [y, slope, wb.grad(slope, a)])
    for value in (2.0, 9.0, 1e4):
        want = np.sqrt(value), 0.5 / np.sqrt(value), -0.25 * value**-1.5
        assert np.allclose(f(value), want)


def test_no_step_where_the_condition_does_not_hold() -> None:
    f = lambda x: wb.while_loop(lambda x: x < 1, lambda x: 2 * x, x)  # noqa: E731
    assert f(3.0) == 3.0
    assert wb.grad(f)(3.0) == 1.0
    assert wb.grad(f)(0.3) == 4.0
    x = wb.scalar("x")
    g = wb.function([x], [f(x), wb.grad(f(x), x)])
    assert [float(v) for v in g(3.0)] == [3, 1]
    assert [float(v) for v in g(0.3)] == [1.2, 4]


def test_a_nest_as_state(rng: np.random.Generator) -> None:
    W, v = rng.normal(size=(3, 3)), rng.normal(size=3)

    def f(W: Any) -> Any:
        state = wb.while_loop(
            lambda s: s[0] < 5, lambda s: (s[0] + 1, {"v": np.tanh(W @ s[1]["v"])}),
            (0, {"v": v}),
        )  # fmt: skip
        return np.sum(state[1]["v"])

    def plain(W: Any) -> Any:
        u = v
        for _ in range(5):
            u = np.tanh(W @ u)
        return np.sum(u)

    assert np.allclose(wb.grad(f)(W), wb.grad(plain)(W))
    assert np.allclose(wb.hessian(f)(W), wb.hessian(plain)(W))


def test_too_many_steps_are_an_error_that_says_so() -> None:
    with pytest.raises(ConvergenceError, match=r"still holds after max_steps=7 steps"):
        wb.while_loop(lambda x: x < 10, lambda x: x * 1.0, 1.0, max_steps=7)
    assert wb.while_loop(lambda x: x < 10, lambda x: x + 3.0, 1.0, max_steps=3) == 10


def test_a_step_that_changes_the_state_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"begins with shape \(\), .*shape \(2,\)"):
        wb.while_loop(lambda x: np.sum(x) < 3, lambda x: x * np.ones(2), 1.0)
    with pytest.raises(DtypeError, match=r"begins as int64, .*float64"):
        wb.while_loop(lambda x: x < 3, lambda x: x * 0.5, np.int64(1))
    with pytest.raises(UsageError, match="Return the same nest"):
        wb.while_loop(lambda x: x[0] < 3, lambda x: x[0], (1.0, 2.0))
    with pytest.raises(ShapeError, match=r"the condition has shape \(2,\)"):
        wb.while_loop(lambda x: x < 3, lambda x: x + 1, np.ones(2))


def test_many_examples_each_with_its_own_number_of_steps() -> None:
    a = np.array([2.0, 1e6, 0.83, 50.0])
    assert np.allclose(wb.vmap(root)(a), np.sqrt(a))
    assert np.allclose(wb.vmap(wb.grad(root))(a), 0.5 / np.sqrt(a))
    got = wb.grad(lambda a: np.sum(wb.vmap(root)(a)))(a)
    assert np.allclose(got, 0.5 / np.sqrt(a))


def test_a_scan_with_until_over_many_examples() -> None:
    def last(w: Any) -> Any:
        def step(x: Any) -> Any:
            return w * x, wb.until(w * x > 50)

        return wb.scan(step, initial=1.0, n_steps=99, last=True)

    w = np.array([2.0, 3.0, 10.0])
    count = np.array([6, 4, 2])  # steps until the power passes 50
    assert np.allclose(wb.vmap(last)(w), w**count)
    assert np.allclose(wb.vmap(wb.grad(last))(w), count * w ** (count - 1))
    bend = count * (count - 1) * w ** (count - 2.0)
    assert np.allclose(wb.vmap(wb.hessian(last))(w), bend)
    assert np.allclose(wb.vmap(wb.grad(wb.grad(last)))(w), bend)

    def total(x: Any) -> Any:
        def step(a: Any, s: Any) -> Any:
            return s + a * a, wb.until(s + a * a > 5)

        return wb.scan(step, x, 0.0, last=True)

    x = np.array([1.0, 2.0, 1.5, 7.0])
    many = np.stack([x, 2 * x, 0.5 * x])
    read = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    assert np.allclose(wb.vmap(total)(many), np.sum(read * many**2, axis=1))
    assert np.allclose(wb.vmap(wb.grad(total))(many), 2 * read * many)


def test_stacks_of_different_lengths_are_refused() -> None:
    def states(w: Any) -> Any:
        def step(x: Any) -> Any:
            return w * x, wb.until(w * x > 50)

        return wb.scan(step, initial=1.0, n_steps=99)

    with pytest.raises(TraceError, match=r"different lengths.*last=True"):
        wb.vmap(states)(np.array([2.0, 3.0]))


def test_a_first_number_takes_the_dtype_of_what_the_step_makes() -> None:
    assert wb.while_loop(lambda h: h < 3, lambda h: h + 0.5, 0) == 3.0
    count, half = wb.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5), (0, 1)
    )
    assert (count, half) == (3, 0.125)
    assert np.asarray(count).dtype == np.int64


def test_examples_that_are_ready_make_no_warnings() -> None:
    """They go on with the others, and divide by zero: nobody reads what they make."""

    def f(x: Any) -> Any:
        def step(state: Any) -> Any:
            k, x, total = state
            return k + 1, x, total + np.sin(x) / (x - k)

        return wb.while_loop(lambda s: s[0] < s[1], step, (0.0, x, 0.0))[2]

    xs = np.array([1.0, 3.0, 2.0])
    slopes = [wb.grad(f)(x) for x in xs]
    np.testing.assert_allclose(wb.vmap(f)(xs), [f(x) for x in xs])
    np.testing.assert_allclose(wb.vmap(wb.grad(f))(xs), slopes)
    together = wb.grad(lambda xs: np.sum(wb.vmap(f)(xs)))
    np.testing.assert_allclose(together(xs), slopes)
    second = [wb.grad(wb.grad(f))(x) for x in xs]
    np.testing.assert_allclose(wb.vmap(wb.grad(wb.grad(f)))(xs), second)
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(together(x)))(xs), second)
