"""C7: the seed's second list, the ops that Theano's R-op lacked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autodiff.pushing import RANKED, Rng, apart, axes_of, counted, pushes
from workbench.ops.products import mul_without_zeros, prod_without_zeros
from workbench.ops.taking import permute_row_elements

# The second list: what Theano lacked


def test_C7_AdvancedSubtensor(rng: Rng) -> None:
    x = rng.normal(size=(4, 3, 2))
    i, j = np.array([[2], [0]]), np.array([1, 0, 1])
    for key in ((i, j), (i, slice(None), 1), (slice(1, 3), j), (i, ..., [0, 1, 0]),
                (None, j), x > 0.2, (x[:, :, 0] > -5,)):  # fmt: skip
        pushes(lambda x, k=key: x[k] ** 2, x, rng=rng)


def test_C7_PermuteRowElements(rng: Rng) -> None:
    for shape in ((3,), (2, 3), (2, 2, 3)):
        x = rng.normal(size=shape)
        order = np.argsort(rng.normal(size=shape), axis=-1)
        for p in (order, np.array([2, 0, 1])):
            for inverse in (False, True):
                pushes(lambda x, p=p, i=inverse: permute_row_elements(x**2, p, i), x,
                       rng=rng)  # fmt: skip
    x = np.array([[1.0, 2.0, 3.0]])
    there = permute_row_elements(x, [[1, 2, 0]])
    assert np.array_equal(there, [[2, 3, 1]])
    assert np.array_equal(permute_row_elements(there, [[1, 2, 0]], inverse=True), x)


def test_C7_Tile(rng: Rng) -> None:
    x = rng.normal(size=(2, 3))
    for times in (2, (2,), (2, 1), (3, 2), (2, 1, 2), (0, 1)):
        pushes(lambda x, n=times: np.tile(x**2, n), x, rng=rng, varies=times != (0, 1))
    pushes(lambda x: np.repeat(x**2, 2, axis=1), x, rng=rng)
    pushes(lambda x: np.repeat(x**2, [1, 0, 3], axis=1), x, rng=rng)


def test_C7_TensorDot(rng: Rng) -> None:
    a, b = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 3, 2))
    for axes in (0, 1, ([2, 1], [0, 1]), ([0], [2]), ([0, 1, 2], [2, 1, 0])):
        pushes(lambda a, b, x=axes: np.tensordot(a, b, x), a, b, rng=rng)
    pushes(lambda a, b: np.einsum("ijk,kjl->il", a, b), a, b, rng=rng)


def test_C7_Outer(rng: Rng) -> None:
    pushes(np.outer, rng.normal(size=3), rng.normal(size=4), rng=rng)
    pushes(np.outer, rng.normal(size=(2, 2)), rng.normal(size=3), rng=rng)
    pushes(np.multiply.outer, rng.normal(size=(2, 2)), rng.normal(size=3), rng=rng)
    pushes(lambda A, x, y: A + np.outer(x, y), rng.normal(size=(2, 3)),
           rng.normal(size=2), rng.normal(size=3), rng=rng)  # fmt: skip


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_Prod(shape: tuple[int, ...], rng: Rng) -> None:
    """Along any axes of any rank, with no, one and two entries that are 0."""
    x = rng.normal(size=shape)
    for zeros in range(3):
        y = x.copy()
        y.flat[:zeros] = 0
        for axis in axes_of(len(shape)):
            pushes(lambda x, a=axis: np.prod(x, axis=a), y, rng=rng,
                   varies=zeros < 2)  # fmt: skip


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_ProdWithoutZeros(shape: tuple[int, ...], rng: Rng) -> None:
    x = rng.normal(size=shape)
    for zeros in range(3):
        mask = np.ones(shape)
        mask.flat[:zeros] = 0
        for axis in axes_of(len(shape)):
            pushes(lambda x, a=axis, m=mask: prod_without_zeros(x * m, axis=a), x,
                   rng=rng, varies=zeros < x.size)  # fmt: skip
    assert prod_without_zeros(np.array([0.0, 2.0, 0.0, 3.0])) == 6
    assert prod_without_zeros(np.zeros(3)) == 1


def test_C7_MulWithoutZeros(rng: Rng) -> None:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=3)
    pushes(lambda a, b: mul_without_zeros(a * [1, 0, 1], b * [0, 1, 1]), a, b, rng=rng)
    made = mul_without_zeros(np.array([0.0, 2, 3, 0]), np.array([5.0, 0, 4, 0]))
    assert np.array_equal(made, [5, 2, 12, 0])


@pytest.mark.parametrize("shape", RANKED, ids=str)
def test_C7_CAReduce(shape: tuple[int, ...], rng: Rng) -> None:
    """Reductions by any ufunc that adds up, along any axes of any rank."""
    x = apart(rng, *shape)
    for axis in axes_of(len(shape)):
        for f in (np.max, np.min, np.sum, np.prod, np.ptp):
            varies = f is not np.ptp or counted(shape, axis) > 1
            pushes(
                lambda x, f=f, a=axis: f(x, axis=a),
                x,
                rng=rng,
                step="differences",
                varies=varies,
            )
        for u in (np.maximum, np.minimum, np.add, np.multiply, np.logaddexp):
            pushes(
                lambda x, u=u, a=axis: u.reduce(x, axis=a),
                x,
                rng=rng,
                step="differences",
            )
