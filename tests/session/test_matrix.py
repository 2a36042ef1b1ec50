"""Matrices that nobody holds: pooled block by block, and where they are not zero."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import workbench as wb
from tests.gpu.stand_in import Foreign
from workbench.autodiff import linear_map
from workbench.autodiff.linear_map import Block
from workbench.session import matrix as matrices
from workbench.session.matrix import PooledPattern, PooledView, list_nonzeros


def session_of(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def by_hand(matrix: Any, rows: list[int], columns: list[int]) -> tuple[Any, Any]:
    """Pooled by Python loops: the first entry of largest magnitude; NaN, inf first."""
    values, at = [], []
    for a, b in pairwise(rows):
        for c, d in pairwise(columns):
            best, place = matrix[a, c], (a, c)
            for i in range(a, b):
                for j in range(c, d):
                    x = matrix[i, j]
                    if np.isnan(best):
                        continue
                    if np.isnan(x) or abs(x) > abs(best):
                        best, place = x, (i, j)
            values.append(best)
            at.append(place)
    shape = len(rows) - 1, len(columns) - 1
    return np.array(values).reshape(shape), np.array(at).reshape(*shape, 2)


@pytest.mark.parametrize("kind", ["real", "complex", "integer", "float32"])
def test_pooled_block_by_block_is_pooling_of_the_whole(
    rng: np.random.Generator, kind: str
) -> None:
    matrix: Any = rng.normal(size=(37, 53))
    matrix[rng.random(matrix.shape) < 0.6] = 0.0
    if kind == "complex":
        matrix = matrix + 1j * rng.normal(size=matrix.shape)
    if kind == "integer":
        matrix = np.round(matrix * 3).astype(np.int64)
    if kind == "float32":
        matrix = matrix.astype(np.float32)
    if kind != "integer":
        matrix[3, 4] = np.nan
        matrix[20, 20], matrix[20, 21] = -np.inf, np.inf
        matrix[10:16, 10:16] = -0.0
    rows, columns = [0, 5, 10, 15, 17, 37], [0, 7, 14, 21, 50, 53]
    values, at = by_hand(matrix, rows, columns)
    for step in (1, 4, 36, 100):
        tall = [Block(i, 0, matrix[i : i + step]) for i in range(0, 37, step)]
        wide = [Block(0, j, matrix[:, j : j + step]) for j in range(0, 53, step)]
        for blocks in (tall, tall[::-1], wide):
            found = PooledView(rows, columns, iter(blocks), matrix.dtype)
            assert_array_equal(abs(found.values), abs(values))
            bad = ~np.isfinite(matrix)
            assert (found.zeros, found.bad) == (np.sum(matrix == 0), np.sum(bad))
            # Where it says that an entry stands, there it stands.
            assert_array_equal(matrix[found.positions], found.values)
        if kind != "complex":
            first = PooledView(rows, columns, tall, matrix.dtype)
            assert_array_equal(np.stack(first.positions, -1), at)


def test_a_pattern_block_by_block(rng: np.random.Generator) -> None:
    matrix = rng.normal(size=(30, 40)) * (rng.random((30, 40)) < 0.1)
    matrix[29, 0] = np.nan
    rows, columns = [0, 7, 30], [0, 20, 40]
    blocks = [Block(i, 0, matrix[i : i + 4]) for i in range(0, 30, 4)]
    found = PooledPattern(rows, columns, list_nonzeros(blocks))
    where = np.argwhere(matrix != 0)
    assert found.total == len(where)
    assert found.places is not None
    assert_array_equal(sorted(zip(*found.places, strict=True)), where)
    assert found.below == 29
    assert found.above == max(j - i for i, j in where)
    assert found.counts[0, 1] == np.count_nonzero(matrix[:7, 20:])
    assert found.counts.sum() == found.total


def test_a_large_matrix_is_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    class Watched(PooledView):
        def _add(self, row: int, column: int, entries: Any) -> None:
            nonlocal largest
            largest = max(largest, entries.size)
            super()._add(row, column, entries)

    monkeypatch.setattr(matrices, "PooledView", Watched)
    n = 3000
    x = np.linspace(-1, 1, n)
    d = session_of(np.tanh, x, seed=np.ones(n)).derivative()
    found = d.pool((0, n), (0, n), (30, 30))
    assert largest <= linear_map.BUDGET / 8 < n * n
    slopes = (1 - np.tanh(x) ** 2).reshape(100, 30)
    assert_allclose(found.values, np.diag(slopes.max(1)))
    assert found.zeros == n * n - n


def test_progress_is_told_and_can_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(lambda x: np.tanh(x) * x, np.ones(500), seed=np.ones(500))
    d = session.derivative()
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(linear_map, "BUDGET", 2**20)
    d.window(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (500, 500)
    assert len(seen) > 3
    fresh = session.derivative()
    with pytest.raises(KeyboardInterrupt, match=r"stopped after \d+ of 500 sweeps"):
        fresh.compute_all(lambda done, total: True)
    assert_allclose(np.diag(fresh.value), np.diag(d.value))  # nothing is spoiled


@pytest.mark.long
def test_a_chain_of_many_nodes_is_no_trouble() -> None:
    def f(x: Any) -> Any:
        for _ in range(20_000):
            x = x * 1.0001
        return x

    session = session_of(f, np.ones(2), seed=np.ones(2))
    d = session.derivative(session.output, "x")
    assert_allclose(d.value, np.eye(2) * 1.0001**20_000, rtol=1e-9)
    assert len(d.path) == 20_001


@pytest.mark.usefixtures("stand_in")
def test_the_entries_stay_where_the_values_are() -> None:
    W, x = np.arange(6.0).reshape(2, 3) / 7, np.array([0.5, -1.0, 2.0])
    session = session_of(
        lambda W, x: np.tanh(W @ x), Foreign(W), Foreign(x), seed=Foreign(np.ones(2))
    )
    expected = (1 - np.tanh(W @ x) ** 2)[:, None] * W
    for mode in ("forward", "reverse"):
        d = session.derivative(wrt="x", mode=mode)
        assert type(d.value) is Foreign
        assert type(d.window((0, 1), (1, 3))) is Foreign
        assert_allclose(np.asarray(d), expected)
        pooled = d.pool((0, 2), (0, 3), (2, 3))
        assert_allclose(pooled.values, [[np.max(expected)]])
        assert_allclose(d.singular_values, np.linalg.svd(expected, compute_uv=False))
        assert d.sparsity.contains(wb.SparsityPattern.from_scipy(expected))
        assert_allclose(d.to_scipy().toarray(), expected)
    assert type(session.jacobian(wrt="x")) is Foreign
