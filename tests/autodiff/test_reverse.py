"""Reverse mode's own promises: linear time, and no blow-up with the order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.ops.indexing import Scattered


def squares(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total = total + x[i] ** 2
    return total


#: Programs that take entries one by one, in every way, and their plain gradient.
LOOPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "entries": (squares, lambda x: 2 * x),
    "from the end": (
        lambda x: sum(np.sin(x[-i - 1]) for i in range(len(x))),
        np.cos,
    ),
    "rows": (
        lambda x: sum(np.sum(row**3) for row in x.reshape(4, -1)),
        lambda x: 3 * x**2,
    ),
    "overlapping slices": (
        lambda x: sum(np.sum(x[i : i + 2]) for i in range(len(x) - 1)),
        lambda x: np.where((np.arange(len(x)) % (len(x) - 1)) == 0, 1.0, 2.0),
    ),
    "repeated arrays": (
        lambda x: sum(np.sum(x[np.array([0, i, i])]) for i in range(3)),
        lambda x: np.array([3 + 2, 2, 2] + [0] * (len(x) - 3), float),
    ),
    "masks between": (
        lambda x: squares(x) + np.sum(x[x > 0.5]) + x[0],
        lambda x: 2 * x + (x > 0.5) + (np.arange(len(x)) == 0),
    ),
    "whole arrays between": (
        lambda x: x[0] + np.sum(x) + x[0] + np.sum(x * x) + x[1],
        lambda x: 1 + 2 * x + np.array([2, 1] + [0] * (len(x) - 2)),
    ),
    "through a node": (lambda x: squares(np.exp(x)), lambda x: 2 * np.exp(2 * x)),
    "one cotangent twice": (
        lambda x: (lambda y: y[0] + y[1] + np.sum(y))(x + x[::-1]),
        lambda x: 2 + np.isin(np.arange(len(x)), (0, 1, len(x) - 1, len(x) - 2)),
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LOOPS)
def test_entries_taken_one_by_one(name: str, dtype: Any) -> None:
    f, truth = LOOPS[name]
    x = np.linspace(0.1, 1, 8).astype(dtype)
    kept = x.copy()
    g = wb.grad(f)(x)
    assert g.dtype == dtype
    np.testing.assert_allclose(g, truth(x), rtol=1e-6 if dtype is np.float32 else 1e-13)
    np.testing.assert_array_equal(x, kept)
    H = wb.hessian(f)(x)
    np.testing.assert_allclose(H, wb.jacrev(wb.jacrev(f))(x), rtol=1e-5, atol=1e-6)


def test_values_of_one_kind_sent_to_another() -> None:
    z = np.array([1.0 + 2j, 3.0])
    f = lambda z: np.real(z[0]) * np.imag(z[0]) + np.abs(z[1]) ** 2  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(z), [2 - 1j, 6])
    real = lambda x: np.real((x[0] + 1j) * (x[1] + 2j) + x[0])  # noqa: E731
    np.testing.assert_allclose(wb.grad(real)(np.array([1.0, 2.0])), [3, 1])


def test_a_masked_infinity_stays_away() -> None:
    def f(x: Any) -> Any:
        y = np.sqrt(x)
        return np.sum(y[x > 0]) + y[1]

    np.testing.assert_allclose(wb.grad(f)(np.array([0.0, 4.0])), [0, 0.5])


def test_a_loop_over_entries_makes_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one of zeros for each entry, which would take quadratic time."""
    dense, made = Scattered.dense, []

    def counted(self: Scattered) -> Any:
        made.append(1)
        return dense(self)

    monkeypatch.setattr(Scattered, "dense", counted)
    x = np.linspace(0, 1, 500)
    np.testing.assert_array_equal(wb.grad(squares)(x), 2 * x)
    assert len(made) == 1
    _, pullback = wb.vjp(lambda x: np.stack([x[i] for i in range(500)]), x)
    np.testing.assert_array_equal(pullback(x)[0], x)
    assert len(made) == 2


def test_a_lazy_cotangent_is_no_array() -> None:
    part = Scattered(np.float64(2.0), (1,), (), (3,))
    assert not isinstance(part, np.ndarray)
    np.testing.assert_array_equal(part.dense(), [0, 2, 0])
    assert not hasattr(part, "dtype")


# Higher order


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "by_x", "by_y"),
    [  # x is a column of 4, y a row of 3
        (lambda x, y: x - y, lambda x, y: 3, lambda x, y: -4),
        (lambda x, y: x * y / 8, lambda x, y: y.sum() / 8, lambda x, y: x.sum() / 8),
        (lambda x, y: x - y + (x - 2 * y), lambda x, y: 6, lambda x, y: -12),
        (lambda x, y: x**3 - 2 * x * x - y[:1], lambda x, y: 3 * x * x - 4 * x,
         lambda x, y: [-4, 0, 0]),
        (lambda x, y: np.where(x > 0, -x, y), lambda x, y: -3 * (x > 0),
         lambda x, y: np.sum(x <= 0)),
    ],
)  # fmt: skip
def test_a_cotangent_that_is_one_number_stays_one(
    f: Any, by_x: Any, by_y: Any, dtype: Any
) -> None:
    """A recorded gradient holds no array of equal entries, however x is broadcast."""
    x = np.array([[0.5], [-1.5], [2.0], [3.0]], dtype)
    y = np.array([2, 3, 4], dtype)
    graph = wb.trace(wb.grad(lambda x, y: np.sum(f(x, y)), (0, 1)))(x, y)
    for node in graph.interior:
        for v in node.inputs:
            assert not isinstance(v, np.ndarray) or v.size == 1 or not any(v.strides)
    for made, slope, of in zip(compile(graph)(x, y), (by_x, by_y), (x, y), strict=True):
        assert made.dtype == dtype
        expected = np.broadcast_to(slope(x, y), of.shape)
        np.testing.assert_allclose(made, expected, rtol=1e-6)


def test_ten_derivatives_of_tanh() -> None:
    """Against their polynomials in y = tanh(x): p -> p'(y) (1 - y**2)."""
    from numpy.polynomial import Polynomial

    f, p, y = np.tanh, Polynomial([0, 1]), math.tanh(0.3)
    for _ in range(10):
        f, p = wb.grad(f), p.deriv() * Polynomial([1, 0, -1])
        np.testing.assert_allclose(f(0.3), p(y), rtol=1e-10)


def product(x: Any) -> Any:
    return np.tanh(x) * np.exp(-x * x) * np.sin(x)


def test_each_order_takes_about_three_times_the_nodes(measured: Any) -> None:
    f, sizes = product, []
    for _ in range(7):
        f = wb.grad(f)
        sizes.append(len(wb.trace(f)(0.3)))
    measured(f"nodes of derivatives 1 to 7 of a product: {sizes}")
    ratios = [b / a for a, b in pairwise(sizes)]
    assert max(ratios) < 3


@pytest.mark.parametrize("f", [np.tanh, product, lambda x: x**7 - np.cos(x)])
def test_hvp_of_a_deep_chain_is_linear(f: Any) -> None:
    def chain(depth: int) -> Callable[[Any], Any]:
        def deep(x: Any) -> Any:
            for _ in range(depth):
                x = 0.9 * f(x) / (1 + x * x)
            return np.sum(x)

        return deep

    def size(depth: int) -> int:
        g = chain(depth)
        return len(wb.trace(lambda x: wb.hvp(g, x, x))(np.full(2, 0.1)))

    few, more, many = size(10), size(20), size(40)
    assert many - more == 2 * (more - few)
