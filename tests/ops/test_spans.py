"""Slices that end at Tensors without a value, and lengths that such Tensors give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import TraceError

X = np.arange(20.0).reshape(10, 2)
SLICES: dict[str, Any] = {
    "start": lambda i: slice(i, None),
    "stop": lambda i: slice(None, i),
    "from the end": lambda i: slice(-i, None),
    "batch": lambda i: slice(i * 2, (i + 1) * 2),
    "step": lambda i: slice(None, None, i),
    "backward": lambda i: slice(i, None, -1),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", SLICES)
def test_a_slice_and_its_derivatives(name: str, known: bool) -> None:
    x = wb.tensor("x", shape=(10, 2)) if known else wb.matrix("x")
    t = wb.tensor("t", shape=(10, 2)) if known else wb.matrix("t")
    i = wb.scalar("i", dtype=int)
    y = x[SLICES[name](i)] ** 2
    g = wb.grad(np.sum(np.sin(y)), x)
    moved = wb.gradient.Rop(np.sum(y), x, t)
    f = wb.function([x, i, t], [y, g, moved, wb.grad(np.sum(g**2), x)])
    for n in (1, 3):
        part = X[SLICES[name](n)]
        taken = np.zeros(X.shape, bool)
        taken[SLICES[name](n)] = True
        value, slope, push, second = f(X, n, np.ones_like(X))
        np.testing.assert_allclose(value, part**2)
        want = np.where(taken, np.cos(X**2) * 2 * X, 0)
        np.testing.assert_allclose(slope, want)
        np.testing.assert_allclose(push, np.sum(2 * part))
        bend = 2 * np.cos(X**2) - 4 * X**2 * np.sin(X**2)
        np.testing.assert_allclose(second, np.where(taken, 2 * want * bend, 0))


def test_beside_other_parts_of_an_index() -> None:
    x, i = wb.tensor("x", shape=(4, 5, 6)), wb.scalar("i", dtype=int)
    value = np.arange(120.0).reshape(4, 5, 6)
    f = wb.function(
        [x, i],
        [x[0, i:], x[..., :i], x[None, :i, None, 2], x[:, i:, [0, 3]], x[:i, i:, -i:]],
    )
    for n in (1, 2):
        want = [
            value[0, n:],
            value[..., :n],
            value[None, :n, None, 2],
            value[:, n:, [0, 3]],
            value[:n, n:, -n:],
        ]
        for got, w in zip(f(value, n), want, strict=True):
            assert np.array_equal(got, w)


def test_of_an_array_with_a_value() -> None:
    i = wb.scalar("i", dtype=int)
    f = wb.function([i], wb.constant(X)[i : i + 2])
    assert np.array_equal(f(3), X[3:5])


def test_places_that_are_written() -> None:
    x, i = wb.matrix("x"), wb.scalar("i", dtype=int)
    changed = wb.at(x)[i:].set(0.0)
    f = wb.function([x, i], [changed, wb.at(x)[:i].add(1.0), wb.grad(changed.sum(), x)])
    zeroed, more, slope = f(X, 4)
    want = X.copy()
    want[4:] = 0
    assert np.array_equal(zeroed, want)
    assert np.array_equal(more, X + (np.arange(10) < 4)[:, None])
    assert np.array_equal(slope, np.broadcast_to((np.arange(10) < 4)[:, None], X.shape))
    with pytest.raises(TraceError, match="one index after the other"):
        wb.at(x)[0, i:].set(0.0)


def test_an_index_that_is_no_integer() -> None:
    x, a = wb.matrix("x"), wb.scalar("a")
    with pytest.raises(IndexError, match="single integers"):
        x[a:]


def test_lengths_that_are_symbols() -> None:
    x, n = wb.matrix("x"), wb.scalar("n", dtype=int)
    made = [
        np.arange(n, like=x),
        np.arange(1, n, 2, like=x),
        np.reshape(x, (n, -1)),
        np.broadcast_to(x[0], (n, 2)),
        np.zeros_like(x, shape=(n, 3)),
    ]
    f = wb.function([x, n], made)
    for k in (4, 5):
        want = [
            np.arange(k),
            np.arange(1, k, 2),
            X.reshape(k, -1),
            np.broadcast_to(X[0], (k, 2)),
            np.zeros((k, 3)),
        ]
        for got, w in zip(f(X, k), want, strict=True):
            assert np.array_equal(got, w)
    slope = wb.grad(np.sum(np.broadcast_to(x[0], (n, 2))), x)
    assert np.array_equal(slope.eval({x: np.ones((2, 2)), n: 7}), [[7, 7], [0, 0]])


def test_the_text_runs_alone() -> None:
    x, i = wb.matrix("x"), wb.scalar("i", dtype=int)
    made = [wb.grad(np.sum(x[i : i + 2] ** 2), x), np.arange(i, like=x)]
    f = wb.function([x, i], made, name="f")
    scope: dict[str, Any] = {}
    exec(f.source, scope)
    for got, want in zip(scope["f"](X, 3), f(X, 3), strict=True):
        assert np.array_equal(got, want)


def test_masks_and_what_they_choose() -> None:
    x = wb.matrix("x")
    made = [
        x[x > 3],
        x[x[:, 0] > 5, 1],
        wb.grad(np.sum(x[x > 3] ** 2), x),
        *np.nonzero(x > 3),
        np.flatnonzero(x),
        np.argwhere(x > 3),
        wb.at(x)[x > 3].set(0.0),
    ]
    f = wb.function([x], made)
    for value in (X, X[::-1] - 4):
        want = [
            value[value > 3],
            value[value[:, 0] > 5, 1],
            np.where(value > 3, 2 * value, 0),
            *np.nonzero(value > 3),
            np.flatnonzero(value),
            np.argwhere(value > 3),
            np.where(value > 3, 0, value),
        ]
        for got, w in zip(f(value), want, strict=True):
            assert np.array_equal(got, w)
    with pytest.raises(TraceError, match="keeps the shape"):
        wb.vmap(lambda row: row[row > 3])(x)


def test_under_vmap() -> None:
    i = wb.scalar("i", dtype=int)
    x = wb.tensor("x", shape=(3, 4))
    f = wb.function([x, i], wb.vmap(lambda row: row[i:] * 2)(x))
    value = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(f(value, 2), value[:, 2:] * 2)


def test_draws_of_unknown_size() -> None:
    rng = wb.random.stream(3)
    x = wb.matrix("x")
    f = wb.function([x], [rng.normal(size=x.shape), rng.uniform(x, x + 1)])
    normal, uniform = f(X)
    assert normal.shape == uniform.shape == X.shape
    assert np.all((uniform >= X) & (uniform < X + 1))
