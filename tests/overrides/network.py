"""A network of two layers, and its gradient by hand with any rule at the tanh."""

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
PARAMETERS = (W1, B1, W2, B2)


def loss(w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    with wb.scope("encoder"):
        h = np.tanh(X @ w1 + b1)
    with wb.scope("decoder"), wb.scope("out"):
        z = h @ w2 + b2
    p = 1 / (1 + np.exp(-z))
    return -np.mean(T * np.log(p) + (1 - T) * np.log(1 - p))


def by_hand(rule: Callable[[Any, Any, Any, Any], Any]) -> list[Any]:
    """The chain rule with ``rule(g, d, x, y)`` at the tanh."""
    a = X @ W1 + B1
    h = np.tanh(a)
    p = 1 / (1 + np.exp(-(h @ W2 + B2)))
    dz = (p - T) / len(T)
    g = dz[:, None] * W2
    da = rule(g, g * (1 - h**2), a, h)
    return [X.T @ da, da.sum(0), h.T @ dz, dz.sum()]


def gradients(*given: wb.Override, **settings: Any) -> list[Any]:
    f = wb.grad(loss, argnums=(0, 1, 2, 3), overrides=given, **settings)
    return list(f(*PARAMETERS))


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


#: The rules of the form, as expressions and by hand.
RULES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "d": lambda g, d, x, y: d,
    "clip(d, -0.02, 0.02)": lambda g, d, x, y: np.clip(d, -0.02, 0.02),
    "0.5 * d": lambda g, d, x, y: 0.5 * d,
    "zeros_like(d)": lambda g, d, x, y: 0 * d,
    "-d": lambda g, d, x, y: -d,
    "g": lambda g, d, x, y: g,
    "where(abs(x) < 1, g, 0)": lambda g, d, x, y: np.where(abs(x) < 1, g, 0),
    "d * y": lambda g, d, x, y: d * y,
    "0": lambda g, d, x, y: 0 * d,
}
