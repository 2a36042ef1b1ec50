"""One gradient of a small function: what a call costs beside the arithmetic.

Of x x by a number; of sum(tanh(x)²) by three numbers in an array; of sin(x) y + z² by
three numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def make_square(tiny: bool) -> Problem:
    del tiny
    hand = Peer(lambda: 3.0 * 3.0, lambda: 2 * 3.0)
    return Problem(lambda xp, x: x * x, (3.0,), by_hand={"hand": lambda: hand})


def make_array(tiny: bool) -> Problem:
    del tiny
    x = np.array([0.1, 0.5, -0.3])

    def gradient() -> Any:
        y = np.tanh(x)
        return 2 * y * (1 - y * y)

    hand = Peer(lambda: np.sum(np.tanh(x) ** 2), gradient)
    return Problem(
        lambda xp, x: xp.sum(xp.tanh(x) ** 2), (x,), by_hand={"hand": lambda: hand}
    )


def make_three(tiny: bool) -> Problem:
    del tiny
    x, y, z = point = (0.3, 1.7, -0.4)
    hand = Peer(
        lambda: math.sin(x) * y + z * z, lambda: (math.cos(x) * y, math.sin(x), 2 * z)
    )
    return Problem(
        lambda xp, x, y, z: xp.sin(x) * y + z * z,
        point,
        (0, 1, 2),
        by_hand={"hand": lambda: hand},
    )


EAGER = (Goal(0.9, "autograd", of="workbench eager"), Goal(0.25e-6))
CASES = tuple(
    Case(name, title, make, goals=EAGER, unit="µs", rounds=41)
    for name, title, make in (
        ("call_number", "One gradient of x x by a number", make_square),
        ("call_array", "One gradient of sum(tanh(x)²) by three numbers", make_array),
        ("call_three", "One gradient of sin(x) y + z² by three numbers", make_three),
    )
)
