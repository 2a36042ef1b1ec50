"""Overrides of what runs on a batch: each op of the user's counts once.

A product of many matrices and vectors takes further nodes, which turn its operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb

W = np.array([[0.5, -1.0, 2.0], [0.3, 0.1, -0.2]])
X = np.array([[0.2, 0.4, -0.6], [1.0, -0.5, 0.3], [0.7, 0.7, 0.1], [0.0, 2.0, -1.0]])
MANY = np.stack([W, 2 * W, -W, 0.1 * W])


def layer(W: Any, x: Any) -> Any:
    with wb.scope("layer"):
        return np.tanh(W @ x) + np.mean(x)


def by_hand(W: Any, x: Any) -> tuple[Any, Any]:
    """The gradients of the sum: tanh and the product halved, once each; mean thrice."""
    slope = 1 - np.tanh(W @ x) ** 2
    back = 0.5 * 0.5 * slope
    add = 0.5
    return add * np.outer(back, x), add * (W.T @ back) + add * 0.5 * len(W) / x.size


HALF = wb.override("layer/*", "0.5 * d")


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
def test_a_scope_means_each_op_once_on_a_batch_too(axes: Any) -> None:
    args = (MANY if axes[0] == 0 else W, X if axes[1] == 0 else X[0])
    rows = [
        by_hand(MANY[i] if axes[0] == 0 else W, X[i] if axes[1] == 0 else X[0])
        for i in range(len(X))
    ]
    expected = [
        np.stack(parts) if axis == 0 else np.sum(parts, axis=0)
        for parts, axis in zip(zip(*rows, strict=True), axes, strict=True)
    ]

    def loss(W: Any, x: Any) -> Any:
        return np.sum(wb.vmap(layer, in_axes=axes)(W, x))

    given = [HALF]
    found = [wb.grad(loss, (0, 1), overrides=given)(*args)]
    with wb.overrides(*given):
        found.append(wb.grad(loss, (0, 1))(*args))
    session = wb.Session(wb.trace(loss)(*args))
    session.override("layer/*", "0.5 * d")
    found.append((session.grads["W"], session.grads["x"]))
    for made in found:
        for a, b in zip(made, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_roll_of_a_view_is_one_op_with_values_and_without() -> None:
    def f(x: Any) -> Any:
        with wb.scope("layer"):
            rolled = np.roll(x[::-1], 1)
        return np.sum(rolled * [1.0, 2.0, 3.0, 4.0])

    xs = np.arange(8.0).reshape(2, 4)
    slopes = wb.grad(f, overrides=[HALF])
    expected = 0.5 * 0.5 * np.roll([1.0, 2.0, 3.0, 4.0], -1)[::-1]
    np.testing.assert_allclose(slopes(xs[0]), expected)
    np.testing.assert_allclose(wb.vmap(slopes)(xs), [expected, expected])


def test_a_predicate_sees_the_ops_that_were_written() -> None:
    seen: list[str] = []

    def look(node: Any) -> bool:
        seen.append(node.op.name)
        return bool(node.op.name == "matmul")

    loss = lambda W: np.sum(wb.vmap(lambda W, x: W @ x)(W, X))  # noqa: E731
    found = wb.grad(loss, overrides=[wb.override(look, "2 * d")])(MANY)
    np.testing.assert_allclose(found, 2 * np.broadcast_to(X[:, None], MANY.shape))
    assert set(seen) == {"matmul", "sum"}


def test_structures_stand_in_batches_whose_weights_are_shared() -> None:
    given = [wb.override(wb.pattern(lambda W, x, b: W @ x + b), "0.5 * d")]
    loss = lambda W: np.sum(wb.vmap(lambda x: W @ x + 1.0)(X))  # noqa: E731
    found = wb.grad(loss, overrides=given)(W)
    np.testing.assert_allclose(found, 0.5 * np.broadcast_to(X.sum(0), W.shape))
