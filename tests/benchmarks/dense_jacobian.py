"""Dense Jacobian of R¹⁰⁰⁰ → R¹⁰⁰⁰: three layers x ← tanh(W x)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def layers(xp: Any, x: Any, *weights: Any) -> Any:
    for W in weights:
        x = xp.tanh(W @ x)
    return x


def by_hand(x: Any, *weights: Any) -> Any:
    J: Any = None
    for W in weights:
        x = np.tanh(W @ x)
        J = (1 - x * x)[:, None] * (W if J is None else W @ J)
    return J


def make(tiny: bool) -> Problem:
    n, rng = 6 if tiny else 1000, np.random.default_rng(0)
    weights = [rng.standard_normal((n, n)) / n**0.5 for _ in range(3)]
    x = rng.standard_normal(n)
    hand = Peer(lambda: layers(np, x, *weights), lambda: by_hand(x, *weights))
    return Problem(
        layers, (x, *weights), derivative="jacobian", by_hand={"hand": lambda: hand}
    )


CASES = (
    Case(
        "dense_jacobian",
        "Dense Jacobian, R^1000 to R^1000, three tanh layers",
        make,
        goals=(Goal(1.0, "jax"), Goal(1.0, "jax", of="workbench eager")),
        without={"casadi": "made for small programs"},
        products=True,
        rounds=15,
    ),
)
