"""A descent inside a descent: the gradient through a loop that ends by itself.

Inside, y goes down the gradient of sum(log(cosh(A y − θ))) + 0.05 |y|² until that
gradient is short; outside, the gradient of |y − b|² by θ is asked. The step of the loop
holds a derivative, and the derivative goes through the loop: of second order, through
a length that depends on the data. Nothing in JAX runs such a loop backwards; it is
asked to go forwards, once for each of the numbers of θ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem

RATE, WEIGHT, SHORT = 0.02, 0.05, 1e-12


def objective(xp: Any, theta: Any, A: Any, b: Any, start: Any) -> Any:
    def energy(y: Any) -> Any:
        return xp.sum(xp.log(xp.cosh(A @ y - theta))) + WEIGHT * xp.sum(y * y)

    def step(state: Any) -> Any:
        y, _ = state
        slope = xp.grad(energy)(y)
        return y - RATE * slope, xp.sum(slope * slope)

    def goes_on(state: Any) -> Any:
        return state[1] > SHORT

    y, _ = xp.while_loop(goes_on, step, (start, xp.constant(np.ones(()))))
    return xp.sum((y - b) ** 2)


def go_down(theta: Any, A: Any, start: Any) -> Any:
    """Return the last y, and the slopes tanh(A y − θ) of all steps."""
    y, length, slopes = start, 1.0, []
    while length > SHORT:
        t = np.tanh(A @ y - theta)
        slope = t @ A + 2 * WEIGHT * y
        y, length = y - RATE * slope, slope @ slope
        slopes.append(t)
    return y, slopes


def by_hand(theta: Any, A: Any, b: Any, start: Any) -> Any:
    y, slopes = go_down(theta, A, start)
    g, made = 2 * (y - b), np.zeros_like(theta)
    for t in reversed(slopes):
        back = (1 - t * t) * (A @ g)
        made += RATE * back
        g = g - RATE * (back @ A + 2 * WEIGHT * g)
    return made


def make(tiny: bool) -> Problem:
    n, m = (4, 3) if tiny else (20, 10)
    rng = np.random.default_rng(0)
    A, theta = rng.normal(size=(n, m)), rng.normal(size=n)
    arrays = (theta, A, rng.normal(size=m), np.zeros(m))
    hand = Peer(
        lambda: np.sum((go_down(theta, A, arrays[3])[0] - arrays[2]) ** 2),
        lambda: by_hand(*arrays),
    )
    return Problem(objective, arrays, by_hand={"hand": lambda: hand}, forward=("jax",))


CASES = (
    Case(
        "descent",
        "A descent inside a descent, gradient by 20 numbers",
        make,
        goals=(Goal(1.0, "jax"), Goal(1.0, "hand")),
        without={
            "torch.compile": "the loop's length depends on data",
            "pytensor": "it has no derivative inside a loop of unknown length",
            "casadi": "it has no loop of unknown length",
        },
        rounds=9,
    ),
)
