"""Loops in loops, in calls and in batches: what random programs have found.

The truth is the same program written out, or with known lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb

X = np.array([0.1, -0.2, 0.3])
ROWS = np.stack([X, 2 * X])


def grown(limit: float, memory: Any) -> Any:
    """Return a loop whose values tell how many steps it makes."""

    def run(x: Any) -> Any:
        def step(state: Any) -> Any:
            t, h = state
            return t + 0.8 + 0.1 * np.sin(np.mean(h)), np.sin(h)

        first = np.mean(x) * 0.1
        t, h = wb.while_loop(lambda s: s[0] < limit, step, (first, x), memory=memory)
        return t * h

    return run


@pytest.mark.parametrize("memory", [1, 2])
def test_a_batch_of_a_loop_in_pieces_that_ends_by_itself(memory: int) -> None:
    def f(x: Any) -> Any:
        def step(state: Any) -> Any:
            t, h = state
            return t + 0.8 + 0.1 * np.sin(np.mean(h)), h

        t, _ = wb.while_loop(lambda s: s[0] < 1, step, (0.9, x), memory=memory)
        return np.sum(np.tanh(t) * x)

    given = [wb.override("tanh", "0.5 * d")]
    many = wb.vmap(wb.checkpoint(f))
    found = wb.grad(lambda rows: np.sum(many(rows)), overrides=given)(ROWS)
    truth = [wb.grad(f, overrides=given)(x) for x in ROWS]
    np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_matrices_of_a_loop_in_a_loop_whose_steps_the_run_tells() -> None:
    inner = grown(1.5, "all")

    def f(x: Any) -> Any:
        state = wb.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, inner(s[1])),
                              (0, x), memory="all")  # fmt: skip
        return state[1]

    forward = wb.jacobian(f, mode="fwd")(X)
    np.testing.assert_allclose(wb.jacobian(f, mode="rev")(X), forward, rtol=1e-12)
    loss = lambda x: np.sum(f(x) ** 2)  # noqa: E731
    gradient = wb.grad(loss)
    truth = [wb.jvp(gradient, (X,), (e,))[1] for e in np.eye(3)]
    np.testing.assert_allclose(wb.hessian(loss)(X), truth, rtol=1e-11)


def test_a_checkpoint_of_a_number_in_a_loop_in_a_loop() -> None:
    part = wb.checkpoint(lambda p: ((p + 0.3) * X, p * 0.4))

    def f(h: Any) -> Any:
        def step(state: Any) -> Any:
            t, v, s = state
            a, b = part(0.267)
            return t + 0.8 + 0.1 * np.sin(np.mean(v)), v * s, np.mean(a) + b + t + s

        outer = lambda h: wb.while_loop(  # noqa: E731
            lambda s: s[0] < 1.2, step, (0.3, X, h), memory="all"
        )[2]
        return wb.scan(outer, initial=h, n_steps=2, last=True)

    def written(h: Any) -> Any:
        for _ in range(2):
            t, v, s = 0.3, X, h
            while np.real(t) < 1.2:
                new = np.mean((0.267 + 0.3) * X) + 0.267 * 0.4 + t + s
                t, v, s = t + 0.8 + 0.1 * np.sin(np.mean(v)), v * s, new
            h = s
        return h

    truth = np.imag(written(0.7 + 1e-30j)) / 1e-30
    assert wb.grad(f)(0.7) == pytest.approx(truth, rel=1e-12)


def passed(p: Any) -> Any:
    return wb.scan(lambda h, p: (h * 0.3, p), None, [0.5, None], p, n_steps=3)[1]


@pytest.mark.parametrize(
    "program",
    [
        passed,
        lambda p: wb.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, p * s[1]), (0, p)
        )[1],
        lambda p: wb.cond(np.sum(p) < 9, lambda: p * p, lambda: p),
    ],
    ids=["scan", "while", "cond"],
)
def test_an_op_made_for_unknown_lengths_takes_known_ones(program: Any) -> None:
    p = wb.vector("p")
    op = wb.OpFromGraph([p], [np.mean(program(p))])
    found = wb.grad(op)(X)
    assert isinstance(found, np.ndarray)
    truth = wb.grad(lambda x: np.mean(program(x)))(X)
    np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_a_python_number_is_the_first_value_of_a_sum() -> None:
    f = lambda s: wb.scan(lambda e, h: h + np.sin(s) * e, X, s, last=True)  # noqa: E731
    assert wb.grad(f)(0.3) == pytest.approx(1 + np.cos(0.3) * np.sum(X), rel=1e-12)
