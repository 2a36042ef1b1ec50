"""An array that is filled entry by entry, forward and backward, per entry.

out[i] ← out[i − 1] / 2 + x[i]², as people write recurrences in NumPy; the gradient of
the sum by x. Each of the entries is read once and stored once: a library that copied
the array for each would take quadratic time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def objective(xp: Any, x: Any) -> Any:
    out = 0 * x
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = 0.5 * out[i - 1] + x[i] * x[i]
    return xp.sum(out)


def by_hand(x: Any) -> Any:
    """Return the gradient: that of an entry reaches it through all that follow."""
    g, made = 0.0, np.empty_like(x)
    for i in range(len(x) - 1, -1, -1):
        g = 1 + 0.5 * g
        made[i] = g * (2 * x[i] if i else 1)
    return made


def make(size: int, tiny: bool) -> Problem:
    x = np.linspace(0.1, 0.9, 20 if tiny else size)
    hand = Peer(lambda: objective(np, x), lambda: by_hand(x))
    return Problem(objective, (x,), by_hand={"hand": lambda: hand})


#: How long a gradient may take, of that of torch, by the number of entries.
GOALS = {1_000: 0.7, 10_000: 0.6, 100_000: 0.5}
CASES = tuple(
    Case(
        f"filling_{size}",
        f"Array of {size:,} entries filled one by one, forward and backward, per entry",
        partial(make, size),
        goals=(Goal(most, "torch", of="workbench eager"),),
        without={
            "autograd": "it refuses x[i] = v",
            "jax": "it refuses x[i] = v",
            "torch.compile": "it unrolls loops, and compiles for minutes",
            "pytensor": "it refuses x[i] = v",
            "casadi": "made for small programs",
        },
        unit="µs",
        per=size,
        rounds=9,
    )
    for size, most in GOALS.items()
)
