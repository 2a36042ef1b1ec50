"""One gradient of a small function: what a call costs beside the arithmetic.

Of x x by a number; of sum(tanh(x)²) by three numbers in an array; of sin(x) y + z² by
three numbers. And of Rosenbrock where no call is machine code from its first byte to
its last: by a view with strides, by a nest of arrays, and with a step of NumPy's among
the kernels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.benchmarks import rosenbrock
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


def make_strided(tiny: bool) -> Problem:
    del tiny
    x = np.random.default_rng(0).standard_normal(20)[::2]
    hand = {"hand": lambda: rosenbrock.by_hand(x)}
    return Problem(rosenbrock.objective, (x,), by_hand=hand)


def make_nest(tiny: bool) -> Problem:
    del tiny
    x, scale = np.random.default_rng(0).standard_normal(10), np.array(0.7)
    plain = rosenbrock.by_hand(x)
    hand = Peer(
        lambda: scale * plain.objective(),
        lambda: {"x": scale * plain.derivative(), "scale": plain.objective()},
    )
    return Problem(
        lambda xp, p: p["scale"] * rosenbrock.objective(xp, p["x"]),
        ({"x": x, "scale": scale},),
        by_hand={"hand": lambda: hand},
    )


def make_mixed(tiny: bool) -> Problem:
    del tiny
    x = np.random.default_rng(0).standard_normal(10)

    def gradient() -> Any:
        order = np.argsort(x)
        made = np.empty_like(x)
        made[order] = rosenbrock.by_hand(x[order]).derivative()
        return made

    hand = Peer(lambda: rosenbrock.by_hand(np.sort(x)).objective(), gradient)
    return Problem(
        lambda xp, x: rosenbrock.objective(xp, xp.sort(x)),
        (x,),
        by_hand={"hand": lambda: hand},
    )


EAGER = (Goal(0.9, "autograd", of="workbench eager"), Goal(0.25e-6))
ORDINARY = (Goal(5e-6), Goal(1.0, "jax"))
CASES = tuple(
    Case(name, title, make, goals=goals, unit="µs", rounds=41)
    for goals, name, title, make in (
        (EAGER, "call_number", "One gradient of x x by a number", make_square),
        (
            EAGER,
            "call_array",
            "One gradient of sum(tanh(x)²) by three numbers",
            make_array,
        ),
        (
            EAGER,
            "call_three",
            "One gradient of sin(x) y + z² by three numbers",
            make_three,
        ),
        (ORDINARY, "call_strided", "Rosenbrock of a view with strides", make_strided),
        (ORDINARY, "call_nest", "Rosenbrock of a nest of arrays", make_nest),
        (ORDINARY, "call_mixed", "Rosenbrock with a step of NumPy's", make_mixed),
    )
)
