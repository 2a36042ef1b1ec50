"""Recurrent net: 1000 steps, 128 hidden units, one example or 32; by its matrix."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def objective(xp: Any, W: Any, xs: Any, start: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        (h,) = state
        h = xp.tanh(h @ W + x)
        return (h,), h

    _, states = xp.scan(step, (start,), xs)
    return (states**2).sum()


def run_forward(W: Any, xs: Any, start: Any) -> Any:
    states = np.empty((len(xs) + 1, *start.shape))
    states[0] = start
    for t in range(len(xs)):
        np.matmul(states[t], W, out=states[t + 1])
        states[t + 1] += xs[t]
        np.tanh(states[t + 1], out=states[t + 1])
    return states


def by_hand(W: Any, xs: Any, start: Any) -> Any:
    states = run_forward(W, xs, start)
    slopes, arriving = 1 - states[1:] ** 2, 2 * states[1:]
    inner, g, V = np.empty_like(slopes), np.zeros_like(start), np.ascontiguousarray(W.T)
    for t in range(len(xs) - 1, -1, -1):
        inner[t] = (arriving[t] + g) * slopes[t]
        g = inner[t] @ V
    n = W.shape[0]
    return states[:-1].reshape(-1, n).T @ inner.reshape(-1, n)


def make(batch: int, tiny: bool) -> Problem:
    steps, hidden = (5, 4) if tiny else (1000, 128)
    rng = np.random.default_rng(0)
    shape = (hidden,) if batch == 1 else (batch, hidden)
    W = 0.9 * rng.standard_normal((hidden, hidden)) / hidden**0.5
    arrays = (W, rng.standard_normal((steps, *shape)), np.zeros(shape))
    hand = Peer(lambda: np.sum(run_forward(*arrays)[1:] ** 2), lambda: by_hand(*arrays))
    return Problem(objective, arrays, by_hand={"hand": lambda: hand})


WITHOUT = {
    "torch.compile": "it unrolls loops, and compiles for minutes",
    "casadi": "made for small programs",
}
CASES = tuple(
    Case(
        f"recurrent_{batch}",
        f"Recurrent net, 1000 steps, hidden 128, batch {batch}",
        partial(make, batch),
        goals=(Goal(1.0, "jax"),),
        without=WITHOUT,
        products=True,
        rounds=15,
    )
    for batch in (1, 32)
)
