"""Rosenbrock's function of ten numbers: what one call costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def objective(xp: Any, x: Any) -> Any:
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def by_hand(x: Any) -> Peer:
    def gradient(x: Any) -> Any:
        gap = x[1:] - x[:-1] ** 2
        g = np.zeros_like(x)
        g[1:] = 200 * gap
        g[:-1] -= 400 * gap * x[:-1] + 2 * (1 - x[:-1])
        return g

    return Peer(lambda: objective(np, x), lambda: gradient(x))


def by_numba(x: Any) -> Peer:
    """Write the loops out for numba's compiler."""
    from numba import njit

    @njit
    def value(x: Any) -> Any:
        total = 0.0
        for i in range(len(x) - 1):
            total += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
        return total

    @njit
    def gradient(x: Any) -> Any:
        g = np.zeros_like(x)
        for i in range(len(x) - 1):
            gap = x[i + 1] - x[i] ** 2
            g[i + 1] += 200 * gap
            g[i] -= 400 * gap * x[i] + 2 * (1 - x[i])
        return g

    return Peer(lambda: value(x), lambda: gradient(x))


def make(tiny: bool) -> Problem:
    x = np.random.default_rng(0).standard_normal(4 if tiny else 10)
    return Problem(
        objective,
        (x,),
        by_hand={"hand": lambda: by_hand(x), "numba": lambda: by_numba(x)},
    )


CASES = (
    Case(
        "rosenbrock",
        "Rosenbrock of 10 variables, one call",
        make,
        goals=(
            Goal(0.25e-6),
            Goal(0.25e-6, what="objective"),
            Goal(1.0, "casadi"),
        ),
        unit="µs",
        rounds=41,
    ),
)
