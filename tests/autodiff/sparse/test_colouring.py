"""Colourings are what their definitions say, and give back every entry."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize._numdiff import group_columns

import workbench as wb
from workbench.autodiff.sparse import colouring, greedy
from workbench.autodiff.sparse.colouring import GENERAL, ORDERS
from workbench.errors import ShapeError, UsageError


@st.composite
def matrices(draw, symmetric=False, largest=9):
    """A matrix of random entries, some of which are zero by structure."""
    height = draw(st.integers(0, largest))
    width = height if symmetric else draw(st.integers(0, largest))
    share = draw(st.floats(0, 1))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = random.uniform(1, 2, (height, width)) * (
        random.random((height, width)) < share
    )
    return made + made.T if symmetric else made


def banded(n, offsets=(-1, 0, 1)):
    return scipy.sparse.diags_array(
        [np.ones(n - abs(k)) for k in offsets], offsets=offsets
    )


def arrow(n):
    made = scipy.sparse.lil_array(scipy.sparse.eye_array(n))
    made[0] = made[:, [0]] = 1
    return made


def stencil(n):
    line, one = banded(n), scipy.sparse.eye_array(n)
    return scipy.sparse.kron(line, one) + scipy.sparse.kron(one, line)


def neighbours(pattern):
    """The edges of the graph of a symmetric pattern."""
    return {
        (int(i), int(j))
        for i, j in zip(pattern.rows, pattern.columns, strict=True)
        if i != j
    }


def shares_no_row(pattern, colours):
    keys = set(zip(pattern.rows, colours[pattern.columns], strict=True))
    return len(keys) == pattern.nnz


def is_star(edges, colours, n):
    """By the definition: no edge has one colour, no path of four vertices two."""
    if any(colours[i] == colours[j] for i, j in edges):
        return False
    return not any(
        (a, b) in edges and (b, c) in edges and (c, d) in edges
        and colours[a] == colours[c] and colours[b] == colours[d]
        for a, b, c, d in itertools.permutations(range(n), 4)
    )  # fmt: skip


def read_back(matrix, colouring):
    """The matrix again, from its products with the seeds."""
    columns, rows = colouring.seeds()
    entries = colouring.decompress(
        None if columns is None else columns @ matrix.T,
        None if rows is None else rows @ matrix,
    )
    made = np.zeros(matrix.shape)
    made[colouring.pattern.rows, colouring.pattern.columns] = entries
    return made


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(matrix=matrices())
def test_columns_and_rows_of_a_colour_meet_nowhere(order, matrix):
    pattern = wb.SparsityPattern.from_scipy(matrix)
    columns = pattern.colouring("columns", order)
    assert shares_no_row(pattern, columns.column_colours)
    rows = pattern.colouring("rows", order)
    assert shares_no_row(pattern.T, rows.row_colours)
    assert columns.count <= max(matrix.shape[1], 1)
    assert rows.count == rows.row_count


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(matrix=matrices(symmetric=True, largest=7))
def test_star_by_its_definition(order, matrix):
    pattern = wb.SparsityPattern.from_scipy(matrix)
    edges, n = neighbours(pattern), len(matrix)
    assert is_star(edges, pattern.colouring("star", order).colours, n)


@pytest.mark.parametrize("order", ORDERS)
@settings(deadline=None)
@given(matrix=matrices(), symmetric=matrices(symmetric=True))
def test_every_entry_is_read(order, matrix, symmetric):
    for mode in ("auto", *GENERAL):
        found = wb.SparsityPattern.from_scipy(matrix).colouring(mode, order)
        np.testing.assert_array_equal(read_back(matrix, found) != 0, matrix != 0)
        np.testing.assert_allclose(read_back(matrix, found), matrix, rtol=1e-14)
    found = wb.SparsityPattern.from_scipy(symmetric).colouring("star", order)
    np.testing.assert_allclose(read_back(symmetric, found), symmetric, rtol=1e-12)


def test_the_checkers_see_what_is_wrong():
    path = neighbours(wb.SparsityPattern.from_scipy(banded(4)))
    assert not is_star(path, np.array([0, 1, 0, 1]), 4)
    assert not is_star(path, np.array([0, 0, 1, 2]), 4)


@pytest.mark.parametrize(
    ("matrix", "mode", "count"),
    [
        (banded(50), "columns", 3),
        (banded(50, (0, 1)), "columns", 2),
        (banded(50), "star", 3),
        (stencil(12), "columns", 5),
        (arrow(50), "columns", 50),
        (arrow(50), "both", 3),
        (arrow(50), "star", 2),
        (np.eye(20), "columns", 1),
        (np.ones((5, 7)), "columns", 7),
        (np.ones((5, 7)), "rows", 5),
        (np.ones((6, 6)), "star", 6),
        (np.ones((5, 7)), "both", 5),
        (np.ones((7, 5)), "both", 5),
    ],
)
def test_counts_that_are_known(matrix, mode, count):
    assert wb.SparsityPattern.from_scipy(matrix).colouring(mode).count == count


def test_the_cheapest_is_chosen():
    def chosen(matrix):
        return wb.SparsityPattern.from_scipy(matrix).colouring()

    assert chosen(banded(50)).mode == "columns"
    assert chosen(np.ones((1, 50))).mode == "rows"
    assert chosen(arrow(50)).mode == "both"
    assert chosen(np.ones((5, 7))).mode == "columns"  # 7 forward, not 5 in reverse


@pytest.mark.parametrize("matrix", [banded(300), stencil(17), arrow(40)])
def test_not_more_colours_than_scipy(matrix):
    pattern = wb.SparsityPattern.from_scipy(matrix)
    scipys = group_columns(scipy.sparse.csc_array(matrix), np.arange(pattern.shape[1]))
    assert pattern.colouring("columns", "natural").count <= scipys.max() + 1


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 3)])
def test_patterns_without_entries(shape):
    pattern = wb.SparsityPattern(shape, [], [])
    for mode in ("auto", *GENERAL, *(["star"] if shape[0] == shape[1] else [])):
        found = pattern.colouring(mode)
        assert found.count <= 1
        assert read_back(np.zeros(shape), found).shape == shape


def test_of_both_no_row_has_the_colour_of_a_column():
    found = wb.SparsityPattern.from_scipy(arrow(9)).colouring("both")
    rows, columns = found.colours[:9], found.colours[9:]
    assert (found.row_count, found.column_count) in ((1, 2), (2, 1))
    assert not set(rows[rows >= 0]) & set(columns[columns >= 0])
    assert (
        repr(found) == "<Colouring of rows and columns: 3 colours for 9×9, 25 nonzeros>"
    )


def test_what_is_refused():
    pattern = wb.SparsityPattern((2, 3), [0, 1], [0, 2])
    with pytest.raises(UsageError, match=r"no colouring 'column'\. Write 'columns'"):
        pattern.colouring("column")
    with pytest.raises(UsageError, match="no order 'smallest'"):
        pattern.colouring(order="smallest")
    with pytest.raises(ShapeError, match="not the pattern of a symmetric matrix"):
        pattern.colouring(symmetric=True)
    with pytest.raises(ShapeError, match=r"Write pattern \| pattern.T"):
        wb.SparsityPattern((2, 2), [0], [1]).colouring("star")
    with pytest.raises(UsageError, match="does not use that the matrix is symmetric"):
        wb.SparsityPattern((2, 2), [0], [0]).colouring("rows", symmetric=True)


# Machine code and Python; what is known to be best

LOOPS = greedy.assign_columns, greedy.assign_star, greedy.order_by_degrees_left


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@settings(deadline=None, max_examples=20)
@given(matrix=matrices(largest=40), symmetric=matrices(symmetric=True, largest=40))
def test_machine_code_does_what_python_does(order, kind, matrix, symmetric):
    pytest.importorskip("llvmlite")
    assert all(greedy._compile(loop, np.dtype(kind)) is not None for loop in LOOPS)
    found = []
    for most in (-1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(greedy, "MOST_IN_PYTHON", most)
            for given_matrix, modes in ((matrix, GENERAL), (symmetric, ("star",))):
                pattern = wb.SparsityPattern.from_scipy(given_matrix)
                pattern.indptr = pattern.indptr.astype(kind)
                pattern.indices = pattern.indices.astype(kind)
                found += [pattern.colouring(mode, order) for mode in modes]
    for compiled, python in zip(found[:4], found[4:], strict=True):
        assert (compiled.mode, compiled.order) == (python.mode, python.order)
        np.testing.assert_array_equal(compiled.colours, python.colours)


def test_without_llvm_python_colours(monkeypatch):
    pattern = wb.SparsityPattern.from_scipy(stencil(30))
    assert pattern.nnz > greedy.MOST_IN_PYTHON
    expected = pattern.colouring("star", "natural").colours
    monkeypatch.setattr(greedy, "_compile", lambda *_: None)
    np.testing.assert_array_equal(
        pattern.colouring("star", "natural").colours, expected
    )


def tree(n, seed):
    random = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = (random.random(n - 1) * child).astype(int)
    half = scipy.sparse.coo_array((np.ones(n - 1), (child, parent)), shape=(n, n))
    return half + half.T


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("at", [0, 17, 39])
def test_an_arrow_takes_few_colours_in_every_order(order, at):
    places = np.roll(np.arange(40), at)
    pattern = wb.SparsityPattern.from_scipy(arrow(40).toarray()[places][:, places])
    assert pattern.colouring("star", order).count == 2
    assert pattern.colouring("both", order).count <= 4
    assert pattern.colouring("both").count == 3


@pytest.mark.parametrize("seed", range(5))
def test_trees_take_three_colours(seed):
    pattern = wb.SparsityPattern.from_scipy(tree(300, seed))
    star = pattern.colouring("star")
    assert star.count == 3
    forest = scipy.sparse.block_diag([tree(300, seed), tree(40, seed), np.eye(2)])
    found = wb.SparsityPattern.from_scipy(forest).colouring("star")
    assert found.count == 3
    np.testing.assert_array_equal(read_back(forest.toarray(), found), forest.toarray())


@pytest.mark.parametrize("offsets", [(-1, 0, 1), (-2, -1, 0, 1, 2)])
def test_a_star_colouring_needs_no_more_colours_than_the_columns(offsets):
    line = banded(15, offsets)
    pattern = wb.SparsityPattern.from_scipy(scipy.sparse.kron(line, line))
    found = pattern.colouring("star")
    assert found.count == len(offsets) ** 2  # the entries of a row
    assert found.count < pattern.colouring("star", "largest_first").count
    np.testing.assert_array_equal(
        read_back(pattern.toarray(), found), pattern.toarray()
    )


def test_a_grid_takes_nearly_as_few_as_can_be():
    pattern = wb.SparsityPattern.from_scipy(stencil(30))
    assert pattern.colouring("star").count <= 6  # 5 is the least


@pytest.mark.long
@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(100, 400), share=st.floats(0, 0.05), seed=st.integers(0, 2**32 - 1)
)
def test_large_random_patterns_are_read_back(n, share, seed):
    random = np.random.default_rng(seed)
    matrix = random.uniform(1, 2, (n, n)) * (random.random((n, n)) < share)
    matrix[random.integers(n)] = 1.0  # a full row, and a full column of its mirror
    symmetric = matrix + matrix.T
    for order in ORDERS:
        for mode in GENERAL:
            found = wb.SparsityPattern.from_scipy(matrix).colouring(mode, order)
            np.testing.assert_allclose(read_back(matrix, found), matrix, rtol=1e-12)
        found = wb.SparsityPattern.from_scipy(symmetric).colouring("star", order)
        np.testing.assert_allclose(read_back(symmetric, found), symmetric, rtol=1e-12)


def first_fit(pattern, sequence):
    """The greedy colouring as it is defined, by sets."""
    colours = np.full(pattern.shape[1], -1)
    members = [[] for _ in range(pattern.shape[0])]
    dense = pattern.toarray()
    for v in sequence:
        rows = np.flatnonzero(dense[:, v])
        taken = {c for row in rows for c in members[row]}
        colours[v] = next(c for c in itertools.count() if c not in taken)
        for row in rows:
            members[row].append(colours[v])
    return colours


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_each_column_gets_the_smallest_colour(share, rng):
    pattern = wb.SparsityPattern.from_scipy(rng.random((80, 120)) < share)
    found = pattern.colouring("columns", "natural").colours
    np.testing.assert_array_equal(found, first_fit(pattern, range(120)))
    if share > 0.1:
        assert found.max() > 62  # more colours than the bits of a number


def test_the_fewest_neighbours_left_come_last(rng):
    """Each vertex has, among those before it, at most the graph's degeneracy."""
    pattern = wb.SparsityPattern.from_scipy(rng.random((60, 60)) < 0.05)
    met = colouring._count_met(pattern)
    sequence = colouring._order_columns(pattern, met, "smallest_last")
    assert sorted(sequence) == list(range(60))
    dense = pattern.toarray()
    edges = dense.T.astype(int) @ dense - np.diag(dense.sum(axis=0))

    def most_before(order):
        return max(edges[v, order[:k]].sum() for k, v in enumerate(order))

    left, degeneracy = list(range(60)), 0
    while left:
        counts = [edges[v, left].sum() for v in left]
        degeneracy = max(degeneracy, min(counts))
        left.pop(int(np.argmin(counts)))
    assert most_before(sequence) == degeneracy


@settings(deadline=None, max_examples=30)
@given(matrix=matrices(largest=40))
def test_a_second_turn_needs_no_more_colours(matrix):
    pattern = wb.SparsityPattern.from_scipy(matrix)
    chosen = pattern.colouring("columns")
    if chosen.order != "periodic":
        assert chosen.count <= pattern.colouring("columns", "largest_first").count


def test_columns_that_all_meet_have_colours_of_their_own():
    matrix = np.ones((9, 9))
    matrix[np.arange(9), np.arange(9)] = 0
    found = wb.SparsityPattern.from_scipy(matrix).colouring("columns")
    assert (found.count, found.order) == (9, "natural")
    np.testing.assert_array_equal(read_back(matrix, found), matrix)


@pytest.mark.parametrize("n", [6, 10, 14, 30])
def test_auto_colours_both_sides_of_an_arrow_of_any_size(n):
    """Its full row and column need n colours of columns, and 1 + 2 of both."""
    arrow = np.eye(n)
    arrow[0] = arrow[:, 0] = 1
    colouring = wb.SparsityPattern.from_scipy(arrow).colouring()
    assert (colouring.mode, colouring.count) == ("both", 3)
