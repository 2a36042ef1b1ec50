"""Eager chain: 1000 ops on 8 doubles, forward and backward, per op.

x ← tanh(1.01 x + x₀) − 0.1, 250 times; the gradient of the sum by x₀.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Problem

OPS = 1000


def write_chain(xp: Any, start: Any, ops: int) -> Any:
    """Return the sum after so many ops."""
    x = start
    for _ in range(ops // 4):
        x = xp.tanh(x * 1.01 + start) - 0.1
    return xp.sum(x)


def make(tiny: bool) -> Problem:
    ops = 40 if tiny else OPS
    start = np.linspace(0.1, 0.8, 8)

    def objective(xp: Any, start: Any) -> Any:
        return write_chain(xp, start, ops)

    return Problem(objective, (start,))


CASES = (
    Case(
        "eager_chain",
        "Chain of 1000 ops on 8 doubles, forward and backward, per op",
        make,
        goals=(Goal(0.7, "torch", of="workbench eager"),),
        unit="µs",
        per=OPS,
        rounds=41,
    ),
)
