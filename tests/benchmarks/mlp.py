"""One training step of a network of 784-512-512-10, 128 examples, in float32."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.benchmarks.harness import Case, Goal
from tests.benchmarks.peers import Peer, Problem


def objective(xp: Any, *arrays: Any) -> Any:
    """Return the mean cross entropy."""
    *weights, x, t = arrays
    h = x
    for W in weights[:-1]:
        h = xp.tanh(h @ W)
    z = h @ weights[-1]
    return -xp.mean(xp.sum(t * z, 1) - xp.logsumexp(z, 1))


def run_forward(*arrays: Any) -> Any:
    *weights, x, t = arrays
    layers = [x]
    for W in weights[:-1]:
        h = layers[-1] @ W
        layers.append(np.tanh(h, out=h))
    z = layers[-1] @ weights[-1]
    z -= z.max(1, keepdims=True)
    e = np.exp(z)
    total = e.sum(1, keepdims=True)
    return layers, e / total, -np.mean(np.sum(t * z, 1) - np.log(total[:, 0]))


def by_hand(*arrays: Any) -> list[Any]:
    *weights, x, t = arrays
    layers, p, _ = run_forward(*arrays)
    p -= t
    p /= np.float32(len(x))
    made, g = [], p
    for W, h in zip(weights[::-1], layers[::-1], strict=True):
        made.append(h.T @ g)
        if h is not x:
            g = g @ W.T
            g *= 1 - h * h
    return made[::-1]


def make(tiny: bool) -> Problem:
    rng = np.random.default_rng(0)
    sizes, count = ((5, 4, 3), 6) if tiny else ((784, 512, 512, 10), 128)
    weights = [rng.normal(size=shape) / 30 for shape in pairwise(sizes)]
    x = rng.normal(size=(count, sizes[0]))
    t = np.eye(sizes[-1])[rng.integers(0, sizes[-1], count)]
    arrays = tuple(a.astype(np.float32) for a in (*weights, x, t))
    hand = Peer(lambda: run_forward(*arrays)[2], lambda: by_hand(*arrays))
    return Problem(
        objective,
        arrays,
        tuple(range(len(weights))),
        by_hand={"hand": lambda: hand},
    )


CASES = (
    Case(
        "mlp",
        "Training step, 784-512-512-10, 128 examples, float32",
        make,
        goals=(Goal(1.05, "jax"), Goal(1.05, "hand")),
        without={"casadi": "made for small programs"},
        products=True,
        tolerance=1e-4,
    ),
)
