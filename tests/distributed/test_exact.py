"""Losses that are no sum over rows: cut where the rows end, and exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest

import workbench as wb
import workbench.distributed as wd
from workbench.errors import ClusterError

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(50, 3)), RNG.normal(size=50)
DX, DY = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=20)
W = np.array([0.3, -1.2, 0.8])


def root(w: Any, X: Any, y: Any) -> Any:
    return np.sqrt(np.mean((X @ w - y) ** 2)) + 3 * np.sum(w**2)


def determination(w: Any, X: Any, y: Any) -> Any:
    """R²: the mean of y is known before its deviations."""
    return 1 - np.sum((X @ w - y) ** 2) / np.sum((y - np.mean(y)) ** 2)


def normalised(w: Any, X: Any, y: Any) -> Any:
    """A softmax over all rows: a shared normaliser, with its maximum taken off."""
    return np.sum(y * (X @ w)) / len(y) - wb.logsumexp(X @ w)


def batch_norm(w: Any, X: Any, y: Any) -> Any:
    h = np.tanh(X * w)
    h = (h - np.mean(h, axis=0)) / np.sqrt(np.var(h, axis=0) + 1e-5)
    return np.mean((np.sum(h * w, axis=1) - y) ** 2)


def moments(w: Any, X: Any, y: Any) -> Any:
    """A product that contracts the rows."""
    return np.linalg.norm(np.linalg.inv(X.T @ (X * w**2)) @ w)


@pytest.mark.parametrize("f", [root, determination, normalised, batch_norm, moments])
def test_it_is_exact(client: Any, f: Callable[..., Any]) -> None:
    value, g = wd.value_and_grad(f, reduce="exact")(W, DX, DY)
    truth, slope = wb.value_and_grad(f)(W, X, Y)
    np.testing.assert_allclose(value, truth, rtol=1e-12)
    np.testing.assert_allclose(g, slope, rtol=1e-10)


def test_rows_that_are_mixed_are_refused(client: Any) -> None:
    def rough(w: Any, X: Any) -> Any:
        return np.sum((X[1:] @ w - X[:-1] @ w) ** 2)

    with pytest.raises(
        ClusterError, match=r"at sum \(at test_exact\.py:\d+: return np"
    ):
        wd.grad(rough, reduce="exact")(W, DX)
    with pytest.raises(ClusterError, match=r"cut off at .*x\.compute\(\)"):
        wd.grad(lambda w, X: np.sum(X[0] * w), reduce="exact")(W, DX)


def test_a_part_of_another_shape_is_refused(client: Any) -> None:
    def loss(w: Any, X: Any) -> Any:
        return np.sum(X[:5] @ w)

    rows = da.from_array(np.arange(24.0).reshape(12, 2), chunks=(4, 2))
    with pytest.raises(ClusterError, match="reduce='exact'"):
        wd.grad(loss, reduce="exact")(np.ones(2), rows)


def test_a_maximum_of_labels_is_no_sum(client: Any) -> None:
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 1])

    def loss(w: Any, y: Any) -> Any:
        return np.sum(w) * np.max(y)

    slope = wd.grad(loss, reduce="exact")
    found = slope(np.ones(3), da.from_array(labels, chunks=3))
    np.testing.assert_array_equal(found, [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    "largest",
    [
        np.max,
        lambda h: np.sum(np.min(h, axis=0) * np.max(h, axis=0, keepdims=True)),
        np.nanmax,
        np.ptp,
        np.maximum.reduce,
        lambda h: np.linalg.norm(h[:, 0], np.inf),
        lambda h: np.max(h - np.max(h, axis=0)) + np.max(h),
    ],
)
def test_rows_of_several_chunks_share_a_maximum(
    client: Any, largest: Callable[..., Any]
) -> None:
    # Whole numbers: each maximum is reached by rows of all three chunks.
    whole = np.tile(
        np.array([[1.0, -1, 2], [-2, 3, 2], [1, 1, -3], [1, -1, 2]]), (8, 1)
    )
    data = da.from_array(whole, chunks=((9, 20, 3), (3,)))

    def loss(w: Any, X: Any) -> Any:
        return np.sum(largest(np.maximum(X * w, -1.0)) ** 2)

    value, g = wd.value_and_grad(loss, reduce="exact")(np.ones(3), data)
    truth, slope = wb.value_and_grad(loss)(np.ones(3), whole)
    np.testing.assert_allclose(value, truth, rtol=1e-12)
    np.testing.assert_allclose(g, slope, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        lambda w, x: np.max(w * x),
        lambda w, x: np.max(np.maximum(w * x - 100, 0)),
        lambda w, x: np.sum(w) * np.all(x < 9),
        lambda w, x: np.sum(w) * np.max(np.where(x < 9, -np.inf, x)),
        lambda w, x: np.max(np.abs((1 + 1j) * w * x)),
    ],
)
def test_how_parts_join_is_found_at_weights_of_0(
    client: Any, loss: Callable[..., Any]
) -> None:
    # Of the first rows, at these weights, a sum and a maximum are the same.
    slope, x = wd.value_and_grad(loss, reduce="exact"), np.arange(1.0, 13)
    data = da.from_array(x, chunks=4)
    for w in (np.zeros(1), np.full(1, 30.0)):
        value, g = slope(w, data)
        truth, expected = wb.value_and_grad(loss)(w, x)
        np.testing.assert_allclose(value, truth, rtol=1e-12)
        np.testing.assert_allclose(g, expected, rtol=1e-12)


def test_a_maximum_of_products_has_its_gradient(client: Any) -> None:
    # The rows are computed again in the pass that counts them, with other digits.
    rng = np.random.default_rng(0)
    slope = wd.value_and_grad(lambda w, X: np.max(X @ w), reduce="exact")
    for _ in range(12):
        rows, w = rng.normal(size=(40, 20)), rng.normal(size=20)
        value, g = slope(w, da.from_array(rows, chunks=(10, 20)))
        np.testing.assert_allclose(value, np.max(rows @ w), rtol=1e-12)
        np.testing.assert_allclose(g, rows[np.argmax(rows @ w)], rtol=1e-12)
