"""Random draws in steps: new in each, and the same in every derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import TraceError

XS = np.array([0.3, 0.5, -0.2, 0.9])


def walk(w: Any, seed: int, memory: Any = "all") -> Any:
    rng = wb.random.default_rng(seed)
    return wb.scan(
        lambda x, h: np.sin(w * h) + x * rng.normal(), XS, 0.4, memory=memory
    )


def plain(w: Any, seed: int) -> Any:
    rng, h, states = np.random.default_rng(seed), 0.4, []
    for x in XS:
        h = np.sin(w * h) + x * rng.normal()
        states.append(h)
    return np.stack(states)


def test_each_step_draws_as_numpy_does() -> None:
    assert np.array_equal(walk(0.7, 3), plain(0.7, 3))


@pytest.mark.parametrize("memory", ["all", 2])
def test_derivatives_see_the_same_draws(memory: Any) -> None:
    w = 0.7
    z = plain(complex(w, 1e-30), 3)
    want = np.imag(z) / 1e-30
    moved = wb.jvp(lambda w: walk(w, 3, memory), (w,), (1.0,))[1]
    assert np.allclose(moved, want, rtol=1e-12)
    total = wb.grad(lambda w: np.sum(walk(w, 3, memory)))(w)
    assert np.isclose(total, np.sum(want), rtol=1e-12)
    # A noise that is multiplied by what is differentiated by.
    noisy = lambda w: np.sum(  # noqa: E731
        wb.scan(lambda x: w * x * rng.normal(), XS, memory=memory)
    )
    rng = wb.random.default_rng(5)
    g = wb.grad(noisy)(2.0)
    assert np.isclose(g, np.sum(XS * np.random.default_rng(5).normal(size=4)))


def test_on_symbols_each_call_draws_anew_and_agrees_with_itself() -> None:
    w = wb.scalar("w")
    rng = wb.random.default_rng(1)
    y = wb.scan(lambda x: w * x * rng.normal(), XS)
    f = wb.function([w], [y, wb.grad(np.sum(y), w)])
    first, g = f(2.0)
    assert np.isclose(np.sum(first) / 2, g)
    second, g = f(2.0)
    assert np.isclose(np.sum(second) / 2, g)
    assert not np.array_equal(first, second)


def test_draws_that_a_derivative_would_repeat_are_refused() -> None:
    rng = wb.random.default_rng(0)

    def nested(w: Any) -> Any:
        def step(x: Any) -> Any:
            return wb.scan(lambda y: w * y * rng.normal(), XS)[-1] * x

        return np.sum(wb.scan(step, XS))

    with pytest.raises(TraceError, match="Draw outside"):
        wb.grad(nested)(1.0)
    x = wb.scalar("x")
    y = wb.cond(x > 0, lambda x: x * rng.normal(), lambda x: x, x)
    with pytest.raises(TraceError, match="Draw outside"):
        wb.grad(y, x)


@pytest.mark.parametrize("memory", ["all", 2])
def test_a_checkpoint_in_a_step_does_not_draw_again(memory: Any) -> None:
    w = wb.scalar("w")
    rng = wb.random.default_rng(4)
    step = wb.checkpoint(lambda h, x: w * h * rng.normal() + x)
    y = wb.scan(lambda x, h: step(h, x), XS, 1.0, last=True, memory=memory)
    f = wb.function([w], [y, wb.grad(y, w)])
    want = np.random.default_rng(4)
    for _ in range(2):
        made = f(0.7)
        h: Any = 1.0
        for x in XS:
            h = complex(0.7, 1e-30) * h * want.normal() + x
        assert np.allclose(made, [h.real, h.imag / 1e-30], rtol=1e-12)


def test_a_step_that_takes_nothing_draws_each_time() -> None:
    got = wb.scan(wb.random.default_rng(3).normal, n_steps=4)
    assert np.array_equal(got, np.random.default_rng(3).normal(size=4))
    stream, n = wb.random.stream(3), wb.scalar("n", dtype=int)
    f = wb.function([n], wb.scan(lambda: stream.normal(size=2), n_steps=n))
    want = np.random.default_rng(3).normal(size=(5, 2))
    assert np.array_equal(f(2), want[:2])
    assert np.array_equal(f(3), want[2:])


def test_a_branch_that_takes_nothing_draws_in_each_call() -> None:
    stream, p = wb.random.stream(3), wb.scalar("p")
    y = wb.cond(p > 0, lambda: stream.normal(size=2), lambda: np.zeros(2))
    f, plain = wb.function([p], y), np.random.default_rng(3)
    assert np.array_equal(f(1.0), plain.normal(size=2))
    assert np.array_equal(f(-1.0), np.zeros(2))
    assert np.array_equal(f(1.0), plain.normal(size=2))
