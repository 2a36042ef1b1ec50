"""A sparsity pattern is what SciPy says of the same matrix."""

from __future__ import annotations

import pickle
import secrets

import numpy as np
import pytest
from scipy import sparse

import workbench as wb
from workbench.autodiff.sparse.places import DenseOp

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (4, 7), (9, 2), (30, 30)]


def draw(shape: tuple[int, int]) -> np.ndarray:
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, shape) * rng.normal(size=shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dia", "lil", "dok", None])
def test_from_scipy(shape: tuple[int, int], format: str | None) -> None:
    matrix = draw(shape)
    given = matrix if format is None else sparse.coo_array(matrix).asformat(format)
    pattern = wb.SparsityPattern.from_scipy(given)
    expected = sparse.csr_array(matrix != 0)
    if format == "dia":  # it stores whole diagonals
        assert not np.any((matrix != 0) & ~pattern.toarray())
    else:
        assert pattern.nnz == expected.nnz
        np.testing.assert_array_equal(pattern.toarray(), matrix != 0)
        np.testing.assert_array_equal(pattern.indptr, expected.indptr)
        np.testing.assert_array_equal(pattern.indices, expected.indices)
    for name in ("csr", "csc", "coo"):
        back = pattern.to_scipy(name)
        assert back.format == name
        assert back.dtype == bool
        np.testing.assert_array_equal(back.toarray(), pattern.toarray())
        assert wb.SparsityPattern.from_scipy(back) == pattern


@pytest.mark.parametrize("shape", SHAPES)
def test_transpose_union_csc(shape: tuple[int, int]) -> None:
    a, b = draw(shape), draw(shape)
    p, q = map(wb.SparsityPattern.from_scipy, (a, b))
    np.testing.assert_array_equal(p.T.toarray(), (a != 0).T)
    assert p.T.T is p
    np.testing.assert_array_equal((p | q).toarray(), (a != 0) | (b != 0))
    assert (p | q).contains(q)
    assert (p | q == p) == (not np.any((b != 0) & (a == 0)))
    values = np.arange(p.nnz)
    indptr, indices, order = p.csc
    by_columns = sparse.csc_array((values[order], indices, indptr), shape=shape)
    by_rows = sparse.csr_array((values, p.indices, p.indptr), shape=shape)
    np.testing.assert_array_equal(by_columns.toarray(), by_rows.toarray())
    height, width = shape
    if height and width:
        assert p.density == np.mean(a != 0)


def test_stored_zeros_count() -> None:
    stored = sparse.csr_array(([0.0, 1.0], [0, 1], [0, 1, 2]), shape=(2, 2))
    assert wb.SparsityPattern.from_scipy(stored).nnz == 2
    diagonal = sparse.dia_array((np.zeros((2, 3)), [0, 1]), shape=(3, 3))
    assert wb.SparsityPattern.from_scipy(diagonal).nnz == 5
    assert wb.SparsityPattern.from_scipy(np.array([[np.nan, 0.0]])).nnz == 1


def test_places_named_twice_and_unsorted() -> None:
    pattern = wb.SparsityPattern((3, 4), [2, 0, 2, 1], [1, 3, 1, 0])
    assert list(zip(pattern.rows, pattern.columns, strict=True)) == [
        (0, 3),
        (1, 0),
        (2, 1),
    ]


def test_never_changes() -> None:
    pattern = wb.SparsityPattern.full((2, 2))
    for array in (pattern.rows, pattern.columns, pattern.indptr, *pattern.csc):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    pattern.to_scipy().data[0] = False  # what SciPy gets is its own
    pattern.to_scipy("coo").row[0] = 1
    assert pattern == wb.SparsityPattern.full((2, 2))
    assert hash(pattern) == hash(wb.SparsityPattern.full((2, 2)))
    assert pickle.loads(pickle.dumps(pattern)) == pattern


def test_words() -> None:
    op = DenseOp("solve", None, "each entry of a solution reads its whole system")
    pattern = wb.SparsityPattern((2, 2), [0], [1], dense_ops=[op])
    assert repr(pattern) == "<SparsityPattern 2×2, 1 nonzero, density 0.25>"
    assert "solve: each entry of a solution" in pattern.report()
    assert (pattern | pattern).dense_ops == (op,)
    assert pattern.T.dense_ops == (op,)
    assert pattern != "a word"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: wb.SparsityPattern((2,), [0], [0]), ValueError, "two axes"),
        (lambda: wb.SparsityPattern((2, -1), [], []), ValueError, "two axes"),
        (
            lambda: wb.SparsityPattern((2, 2), [2], [0]),
            ValueError,
            "row 2 lies outside",
        ),
        (lambda: wb.SparsityPattern((2, 2), [0], [-1]), ValueError, "column -1"),
        (
            lambda: wb.SparsityPattern((2, 2), [0, 1], [0]),
            ValueError,
            "one row and one",
        ),
        (lambda: wb.SparsityPattern((2, 2), [0.5], [0]), TypeError, "integers"),
        (lambda: wb.SparsityPattern.from_scipy(["a"]), TypeError, "numbers"),
        (lambda: wb.SparsityPattern.from_scipy(np.ones(3)), ValueError, "two axes"),
        (lambda: wb.SparsityPattern.full((2, 2)).to_scipy("bsr"), ValueError, "'csc'"),
        (
            lambda: wb.SparsityPattern.full((2, 2)) | wb.SparsityPattern.full((2, 3)),
            ValueError,
            "different sizes",
        ),
    ],
)
def test_errors(make: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()  # type: ignore[operator]
