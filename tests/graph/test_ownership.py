"""What the caller gets is the caller's own: to write into, shared with nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: np.sum(a),
    lambda a, b: np.sum(a + b),
    lambda a, b: np.sum(a.reshape(3) + b[::-1]),
    lambda a, b: np.sum(np.stack([a, b])),
    lambda a, b: np.mean(np.broadcast_to(a, (2, 3))) + np.sum(a.copy()),
    lambda a, b: np.sum(a[1:]) + np.sum(np.where(a > 0, a, b)),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients(f: Callable[[Any, Any], Any]) -> None:
    a, b = np.array([1.0, -2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    first, second = wb.grad(f, (0, 1))(a, b)
    kept = second.copy()
    first *= 7
    np.testing.assert_array_equal(second, kept)
    second += 1
    np.testing.assert_array_equal(a, [1.0, -2.0, 3.0])
    np.testing.assert_array_equal(b, [4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    "f", [lambda x: x, np.ravel, np.transpose, np.exp, lambda x: (x, x, x[1:])]
)
def test_values_and_tangents(f: Callable[[Any], Any]) -> None:
    x, t = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    y, pullback = wb.vjp(f, x)
    expected = pullback(y)[0].copy()
    seed = y
    for part in y if isinstance(y, tuple) else (y,):
        part *= 2  # the pullback reads none of it
    for part in y if isinstance(y, tuple) else (y,):
        part /= 2
    (g,) = pullback(seed)
    np.testing.assert_array_equal(g, expected)
    g += 1
    np.testing.assert_array_equal(x, [1.0, 2.0])
    value, tangent = wb.jvp(f, (x,), (t,))
    for part in value if isinstance(value, tuple) else (value,):
        part += 1
    for part in tangent if isinstance(tangent, tuple) else (tangent,):
        part += 1
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(t, [3.0, 4.0])


def test_a_pullback_does_not_read_what_the_caller_writes() -> None:
    y, pullback = wb.vjp(np.exp, np.zeros(2))
    y[:] = 100
    np.testing.assert_array_equal(pullback(np.ones(2))[0], [1.0, 1.0])
