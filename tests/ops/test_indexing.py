"""Any index that NumPy takes: values, gradients, batches and updates of random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import TraceError

UPDATES: dict[str, Callable[[Any, Any, Any], None]] = {
    "set": lambda x, i, v: x.__setitem__(i, v),
    "add": np.add.at,
    "multiply": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def part(length: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """An index into one axis, of any kind; arrays of this shape."""
    kind = rng.integers(7)
    if kind == 0:
        return int(rng.integers(-length, length))
    if kind == 1:
        return slice(rng.choice([None, 0, 1]), None, rng.choice([None, 1, -1, -2]))
    if kind == 2:
        return rng.integers(-length, length, size=shape)
    if kind == 3:
        return rng.integers(0, length, size=shape).tolist()
    if kind == 4:
        return np.array(rng.integers(length))
    if kind == 5:
        return []
    return rng.random(length) < 0.6


def drawn(rng: np.random.Generator) -> tuple[Any, tuple[Any, ...]]:
    """An array, and an index that may or may not fit."""
    shape = tuple(map(int, rng.integers(1, 4, size=rng.integers(1, 5))))
    arrays = [(2,), (1,), (2, 1), (3,)][rng.integers(4)]
    index: list[Any] = []
    for length in shape[: rng.integers(0, len(shape) + 1)]:
        if rng.random() < 0.2:
            index.append(None)
        index.append(part(length, arrays, rng))
    if rng.random() < 0.3:
        index.insert(int(rng.integers(len(index) + 1)), Ellipsis)
    return rng.normal(size=shape), tuple(index)


def checked(x: Any, index: tuple[Any, ...], rng: np.random.Generator) -> None:
    expected = x[index]
    value, pullback = wb.vjp(lambda x: x[index], x)
    np.testing.assert_array_equal(value, expected)
    seed = rng.normal(size=expected.shape)
    truth = np.zeros_like(x)
    np.add.at(truth, index, seed)
    np.testing.assert_allclose(pullback(seed)[0], truth, atol=1e-14)
    batch = rng.normal(size=(3, *x.shape))
    np.testing.assert_array_equal(
        wb.vmap(lambda x: x[index])(batch), np.stack([row[index] for row in batch])
    )
    values = rng.normal(size=(3, *expected.shape))
    for name, update in UPDATES.items():

        def changed(x: Any, v: Any, name: str = name) -> Any:
            return getattr(wb.at(x)[index], name)(v)

        truths = [row.copy() for row in batch]
        for row, v in zip(truths, values, strict=True):
            update(row, index, v)
        value, _ = wb.vjp(changed, batch[0], values[0])
        np.testing.assert_allclose(value, truths[0], rtol=1e-13)
        together = wb.vmap(changed)(batch, values)
        np.testing.assert_allclose(together, np.stack(truths), rtol=1e-13)


def test_any_index(rng: np.random.Generator) -> None:
    taken = 0
    for _ in range(150):
        x, index = drawn(rng)
        try:
            x[index]
        except IndexError:
            with pytest.raises(IndexError, match=r"test_indexing\.py"):
                wb.vjp(lambda x, i=index: x[i], x)
            continue
        checked(x, index, rng)
        taken += 1
    assert taken > 50


def test_batches_of_positions(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 4))
    places = rng.integers(-2, 2, size=(5, 3))
    rows = rng.normal(size=(5, 3, 2, 4))
    for f in (
        lambda x, i: x[:, i],
        lambda x, i: x[i, :, i],
        lambda x, i: x[..., i, None],
        lambda x, i: x[0, :, i],
        lambda x, i: x[[0, 1, 2], i],
    ):
        made = wb.vmap(lambda x, i, f=f: f(x * 1, i), (0, 0))(rows, places)
        truth = [f(r, i) for r, i in zip(rows, places, strict=True)]
        np.testing.assert_array_equal(made, np.stack(truth))
        gradient = wb.vmap(wb.grad(lambda x, i, f=f: np.sum(f(x, i) ** 2)), (None, 0))(
            x, places
        )
        alone = [wb.grad(lambda x, i=i, f=f: np.sum(f(x, i) ** 2))(x) for i in places]
        np.testing.assert_allclose(gradient, np.stack(alone), atol=1e-14)


def test_factors_of_one_entry_may_be_zero() -> None:
    """The derivative by a factor is the product of the others, zeros and all."""
    index = np.array([1, 1, 1, 0, 1])

    def f(v: Any) -> Any:
        return wb.at(np.array([2.0, 3.0]))[index].multiply(v)[1]

    one_zero, two_zeros = np.array([5, 0, 7, 9, 2.0]), np.array([5, 0, 0, 9, 2.0])
    np.testing.assert_allclose(wb.grad(f)(one_zero), [0, 210, 0, 0, 0])
    np.testing.assert_allclose(wb.grad(f)(two_zeros), 0)
    hessian = np.zeros((5, 5))
    hessian[1, 2] = hessian[2, 1] = 3 * 5 * 2
    np.testing.assert_allclose(wb.hessian(f)(two_zeros), hessian)


def test_factors_at_positions_that_are_not_known() -> None:
    with pytest.raises(TraceError, match=r"entry twice.*\.get\(\) \* v") as e:
        wb.vmap(lambda i: wb.at(np.ones(3))[i].multiply(2.0))(np.array([[0, 1]]))
    assert "test_indexing.py" in str(e.value)
