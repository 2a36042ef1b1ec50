"""Dense Hessian of R⁵⁰⁰ → R: log-sum-exp of a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def objective(xp: Any, x: Any, A: Any) -> Any:
    return xp.log(xp.exp(A @ x).sum())


def by_hand(x: Any, A: Any) -> Any:
    p = np.exp(A @ x)
    p /= p.sum()
    mean = p @ A
    return A.T @ (p[:, None] * A) - np.outer(mean, mean)


def make(tiny: bool) -> Problem:
    n, rng = 5 if tiny else 500, np.random.default_rng(0)
    A, x = rng.standard_normal((n, n)) / n**0.5, rng.standard_normal(n)
    hand = Peer(lambda: objective(np, x, A), lambda: by_hand(x, A))
    return Problem(
        objective, (x, A), derivative="hessian", by_hand={"hand": lambda: hand}
    )


CASES = (
    Case(
        "dense_hessian",
        "Dense Hessian, R^500 to R, log-sum-exp of a matrix product",
        make,
        goals=(Goal(1.0, "jax"), Goal(1.0, "jax", of="workbench eager")),
        without={"casadi": "made for small programs"},
        products=True,
    ),
)
