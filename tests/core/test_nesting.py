"""Derivatives inside derivatives, closures, long programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.tensor import Tensor

X = np.array([0.5, 1.5, 2.5])


def gradient(f: Callable[..., Any], x: Any = X) -> Any:
    return wb.grad(lambda x: np.sum(f(x)))(np.copy(x))


# Derivatives inside derivatives


def test_perturbations_are_not_confused() -> None:
    def outer(x: Any) -> Any:
        return x * wb.grad(lambda y: x + y)(1.0)

    assert wb.grad(outer)(3.0) == 1.0
    inner = wb.jvp(
        lambda x: x * wb.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,)
    )
    assert inner[1] == 6.0


def test_closures_over_outer_tensors() -> None:
    def f(x: Any) -> Any:
        g = wb.grad(lambda y: np.sum(y**2 * x))(x * 2)  # 2 * y * x = 4 x**2
        return np.sum(g)

    np.testing.assert_allclose(wb.grad(f)(X), 8 * X)


@pytest.mark.parametrize("modes", ["rrr", "rrf", "rfr", "frr", "ffr", "frf", "fff"])
def test_third_order(modes: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) * np.sin(x) ** 2)

    for mode in modes:
        f = (
            (lambda x, f=f: np.sum(wb.grad(f)(x)))
            if mode == "r"
            else (lambda x, f=f: wb.jvp(f, (x,), (np.ones_like(x),))[1])
        )
    e, s, c = np.exp(X), np.sin(2 * X), np.cos(2 * X)
    # d3 (e^x (1 - cos 2x) / 2) = e^x / 2 * (1 + 11 cos 2x + 2 sin 2x * -1 ...)
    truth = np.sum(e / 2 * (1 - (-11 * c + 2 * s)))
    np.testing.assert_allclose(f(X), truth)


def test_a_derivative_of_a_part_of_a_trace() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        slope = wb.grad(lambda y: np.sum(y**3))(y)  # 3 sin(x)**2
        return np.sum(slope)

    np.testing.assert_allclose(wb.grad(f)(X), 6 * np.sin(X) * np.cos(X))


@pytest.mark.long
def test_a_long_chain_needs_no_recursion() -> None:
    def f(x: Any) -> Any:
        for _ in range(50_000):
            x = x * 1.00001 + 0.0
        return np.sum(x)

    np.testing.assert_allclose(wb.grad(f)(X), 1.00001**50_000)


def test_a_long_chain_of_functions() -> None:
    def f(x: Any) -> Any:
        for _ in range(3_000):
            x = np.concatenate([x[1:], x[:1]]).reshape(3)
        return np.sum(x * np.arange(3.0))

    np.testing.assert_array_equal(wb.grad(f)(X), [0, 1, 2])
    assert isinstance(wb.trace(f)(X).outputs[0], Tensor)
