"""A two-layer network for the tests of sessions, and its gradients by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7], [-0.2, 0.8, 0.1], [1.1, -0.4, 0.6]])
T = np.array([1.0, 0.0, 1.0, 0.0])
W1 = np.array([[0.3, -0.6], [0.8, 0.2], [-0.5, 0.9]])
B1 = np.array([0.1, -0.2])
W2 = np.array([0.7, -1.3])
B2 = 0.05
NAMES = ["W1", "b1", "W2", "b2"]

Rule = Callable[[Any, Any, Any, Any], Any]


def network(X: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    with wb.scope("encoder"):
        h = np.tanh(X @ W1 + b1)
    h.name = "h"
    with wb.scope("decoder"):
        z = h @ W2 + b2
    p = 1 / (1 + np.exp(-z))
    p.name = "p"
    loss = -np.mean(T * np.log(p) + (1 - T) * np.log(1 - p))
    loss.name = "loss"
    return loss


def by_hand(rule: Rule, w1: Any = W1) -> dict[str, Any]:
    """The gradients with ``rule(g, d, x, y)`` at the tanh, and those on the way."""
    a = X @ w1 + B1
    h = np.tanh(a)
    p = 1 / (1 + np.exp(-(h @ W2 + B2)))
    dz = (p - T) / len(T)
    g = dz[:, None] * W2
    da = rule(g, g * (1 - h**2), a, h)
    return {
        "W1": X.T @ da,
        "b1": da.sum(0),
        "W2": h.T @ dz,
        "b2": dz.sum(),
        "h": g,
        "loss": 1.0,
    }


TRUE: Rule = lambda g, d, x, y: d  # noqa: E731
RULES: dict[str, Rule] = {
    "clip(d, -0.02, 0.02)": lambda g, d, x, y: np.clip(d, -0.02, 0.02),
    "0.5 * d": lambda g, d, x, y: 0.5 * d,
    "zeros_like(d)": lambda g, d, x, y: 0 * d,
    "-d": lambda g, d, x, y: -d,
    "g": lambda g, d, x, y: g,
}


def fresh(name: str = "model") -> wb.Session:
    """A session of the network without overrides."""
    graph = wb.trace(network)(X, W1, B1, W2, B2)
    return wb.Session(graph, wrt=NAMES, name=name)


def assert_grads(session: wb.Session, expected: dict[str, Any]) -> None:
    for name in NAMES:
        found = session.grads[name]
        assert np.shape(found) == np.shape(expected[name])
        np.testing.assert_allclose(found, expected[name], rtol=1e-13, atol=1e-15)
