"""One gradient of a small function of an array: what a call costs before any work.

The gradient of sum(tanh(x)²) by three numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Pair

START = np.array([0.1, 0.5, -0.3])


def loss(xp: Any, x: Any) -> Any:
    """The mathematics, for any array library."""
    return xp.sum(xp.tanh(x) ** 2)


def workbench() -> Pair:
    import workbench as wb

    gradient = wb.grad(lambda x: loss(np, x))
    return lambda: loss(np, START), lambda: gradient(START)


def autograd() -> Pair:
    import autograd.numpy as anp
    from autograd import grad

    gradient = grad(lambda x: loss(anp, x))
    return lambda: loss(np, START), lambda: gradient(START)


CASE = Case(
    "small_call",
    "One gradient of sum(tanh(x)²) by three numbers",
    {"workbench": workbench, "autograd": autograd},
    goal="ours/autograd ≤ 0.9",
    unit="µs",
    rounds=41,
)
