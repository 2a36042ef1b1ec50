"""Jacobians accumulated entry by entry equal the dense ones, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.autodiff.linear_map import LinearMap
from workbench.autodiff.sparse.accumulation import EntryPropagation
from workbench.autodiff.sparse.propagation import Propagation
from workbench.core.trace import make_leaf_like

BY_ITSELF = "Each entry is computed by itself"
X = np.linspace(0.3, 1.9, 12) * (-1) ** np.arange(12)
WEIGHTS = np.arange(1.0, 5.0)
PLACES = np.array([3, 0, 3, 11, -1, 7])
MASK = np.arange(12) % 3 > 0


def grid_of(x):
    return x.reshape(3, 4)


def neighbours(x):
    """Sum up what lies around each point of a grid, with zeros beyond it."""
    grid = grid_of(x)
    row, column = np.zeros((1, 4)), np.zeros((3, 1))
    up, down = np.concatenate([row, grid[:-1]]), np.concatenate([grid[1:], row])
    left = np.concatenate([column, grid[:, :-1]], 1)
    right = np.concatenate([grid[:, 1:], column], 1)
    return (up + down + left + right - 4 * grid + np.exp(grid)).reshape(-1)


PROGRAMS = {
    "diagonal": np.sin,
    "identity": lambda x: x,
    "constants": lambda x: 3 * x[1:] - x[:-1] / 2,
    "difference": lambda x: np.diff(x) * x[1:],
    "steps": lambda x: x[::2] * x[1::2] + x[::-2],
    "index": lambda x: x[PLACES] * x[2] - x[PLACES] ** 2,
    "mask": lambda x: x[MASK] / (2 + x[:8]),
    "rolled": lambda x: np.roll(x, 2) * x - np.flip(x),
    "grid": neighbours,
    "turned": lambda x: grid_of(x).T * WEIGHTS[:, None] * grid_of(x).T[:1],
    "rows": lambda x: np.sum(grid_of(x) ** 2, axis=1),
    "means": lambda x: np.mean(grid_of(x) ** 3, axis=0, keepdims=True),
    "total": lambda x: np.sum(x * x),
    "arrow": lambda x: np.concatenate([np.sum(x * x)[None], x[1:] ** 2 + x[0] * x[1:]]),
    "repeated": lambda x: np.repeat(x[:4], 3) * np.tile(x[4:8], 3),
    "broadcast": lambda x: x[:3, None] * x[3:7] + x[7],
    "stacked": lambda x: np.stack([x[:4] ** 2, WEIGHTS, x[4:8] * x[:4]], 1),
    "padded": lambda x: np.pad(grid_of(x) ** 2, 1) * 3,
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x**2, 3),
    "triangle": lambda x: np.tril(grid_of(x) ** 2),
    "chosen": lambda x: np.where(x > 0, np.sqrt(np.abs(x)), x[::-1]),
    "poles": lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0) + x,
    "clipped": lambda x: np.maximum(x, x[0]) * np.abs(x),
    "halves": lambda x: (x * x).astype(np.float32).astype(float) + x[:1],
    "assigned": lambda x: wb.at(x * x)[2:5].set(x[5:8]),
    "added": lambda x: wb.at(x * x)[1:9:2].add(x[:4] * x[4:8]),
    "powers": lambda x: (x + 3) ** (x[::-1] + 2),
    "zeros": lambda x: 0 * x + x * np.zeros(12) + x[0],
    "several": lambda x: (x[1:] * x[:-1], grid_of(x)[1] ** 2),
}


def stack(made):
    parts = made if isinstance(made, tuple) else (made,)
    return np.concatenate([np.reshape(y, (-1,)) for y in parts])


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_entries_equal_those_of_the_dense_matrix(name, format, backend):
    def f(x):
        return stack(PROGRAMS[name](x))

    J = wb.jacobian(PROGRAMS[name], sparse=True, format=format, backend=backend)
    J(X)
    J.wait()
    assert BY_ITSELF in J.explain()
    rtol = 1e-6 if name == "halves" else 1e-13
    for scale in (1, 0.7):
        expected = wb.jacobian(f)(scale * X)
        found = J(scale * X)
        np.testing.assert_allclose(
            found.toarray(), expected, rtol=rtol, atol=rtol * abs(expected).max()
        )
        np.testing.assert_array_equal(J.entries(scale * X), found.data)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_place_of_the_pattern_is_stored(name):
    J = wb.jacobian(PROGRAMS[name], sparse=True)
    with np.errstate(all="ignore"):  # of a root at 0
        found = J(np.zeros(12))
    assert found.nnz == J.pattern.nnz
    np.testing.assert_array_equal(found.indices, J.pattern.indices)


@pytest.mark.parametrize("name", PROGRAMS)
def test_entries_lie_where_the_walk_without_entries_finds_places(name):
    graph = wb.trace(lambda x: stack(PROGRAMS[name](x)))(wb.Spec((12,), float))
    seed = make_leaf_like(graph.leaves[0])
    tangents = LinearMap(graph.outputs, graph.leaves).push([seed])
    (places,) = Propagation([seed]).visit(tangents)
    (entries,) = EntryPropagation([seed], [0], 1000).visit(tangents)
    expected = places.dependence.make_csr().toarray()
    found = np.zeros(expected.shape, bool)
    for part in entries.dependence.parts:
        found[part.rows, part.columns] = True
    if name == "zeros":  # constants that are 0 are factors here, and no places there
        assert found.sum() > expected.sum()
        expected |= found & np.eye(12, dtype=bool)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("name", ["difference", "grid", "arrow", "index", "turned"])
def test_single_precision_and_complex_numbers(name, dtype):
    def f(x):
        return stack(PROGRAMS[name](x))

    x = (X + (0.5j * X**2 if dtype is np.complex128 else 0)).astype(dtype)
    J = wb.jacobian(PROGRAMS[name], sparse=True)
    found = J(x)
    assert BY_ITSELF in J.explain()
    expected = wb.jacobian(f)(x)
    compressed = wb.jacobian(PROGRAMS[name], sparse=True, colouring="columns")
    assert found.dtype == compressed(x).dtype
    rtol = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(found.toarray(), expected, rtol=rtol)


@pytest.mark.parametrize(
    "f",
    [
        np.cumsum,
        lambda x: np.real(x + 0j),
        lambda x: np.linalg.norm(x) * x[:2],
        lambda x: np.sort(x),
        lambda x: np.sum(np.exp(x)) * np.ones(2) + x[:2] * np.sum(x),
    ],
)
def test_other_programs_are_compressed(f):
    J = wb.jacobian(f, sparse=True)
    np.testing.assert_allclose(J(X).toarray(), wb.jacobian(f)(X), rtol=1e-13)


def test_hessians():
    def f(x):
        return np.sum(x[1:] ** 3 * np.cos(x[:-1])) + np.sum(grid_of(x)[:, 0] ** 4)

    H = wb.hessian(f, sparse=True)
    np.testing.assert_allclose(H(X).toarray(), wb.hessian(f)(X), rtol=1e-12, atol=1e-13)
    assert BY_ITSELF in H.explain()


def test_several_arguments_and_outputs():
    def f(x, y):
        return x[1:] * y[:, 0], np.sum(y * y, axis=1), x[:2]

    args = np.arange(1.0, 5.0), np.arange(6.0).reshape(3, 2) + 1
    J = wb.jacobian(f, argnums=(0, 1), sparse=True)
    found = J(*args).toarray()
    assert BY_ITSELF in J.explain()
    blocks = wb.jacobian(f, argnums=(0, 1))(*args)
    expected = np.block([[np.reshape(b, (len(b), -1)) for b in row] for row in blocks])
    np.testing.assert_array_equal(found, expected)


def test_no_colouring_is_made_until_one_is_asked_for(monkeypatch):
    from workbench.autodiff.sparse import choice

    made = []

    def colour(*args, **settings):
        made.append(args)
        return wb.autodiff.sparse.colouring.colour(*args, **settings)

    monkeypatch.setattr(choice, "colour", colour)
    J = wb.jacobian(PROGRAMS["difference"], sparse=True)
    J(X)
    assert not made
    assert J.colouring.count == 2
    assert J.colouring is J.colouring
    assert len(made) == 1


def test_a_colouring_that_is_asked_for_is_used():
    J = wb.jacobian(PROGRAMS["difference"], sparse=True, colouring="columns")
    auto = wb.jacobian(PROGRAMS["difference"], sparse=True)
    np.testing.assert_allclose(J(X).toarray(), auto(X).toarray(), rtol=1e-14)
    assert "Products: 2 in forward mode" in J.explain()


def test_infinite_partial_derivatives_stay_in_their_entries():
    """A product with a seed would give 0 * inf = NaN beside it."""
    J = wb.jacobian(lambda x: np.sqrt(x) + np.roll(x, 1), sparse=True)
    with np.errstate(all="ignore"):
        found = J(np.array([0.0, 1.0, 4.0, 9.0])).toarray()
    assert found[0, 0] == np.inf
    assert np.isfinite(found[1:]).all()


def test_results_may_be_changed_and_kept():
    J = wb.jacobian(PROGRAMS["difference"], sparse=True)
    expected = wb.jacobian(PROGRAMS["difference"])(X)
    kept = [J(X) for _ in range(4)]
    kept[0].indices[:] = 0
    kept[1].eliminate_zeros()
    del kept[:2]
    for _ in range(3):
        kept.append(J(X))
    for matrix in kept:
        np.testing.assert_array_equal(matrix.toarray(), expected)
        for other in kept:
            if other is not matrix:
                assert not np.shares_memory(matrix.indices, other.indices)
                assert not np.shares_memory(matrix.data, other.data)


def test_entries_of_a_dense_matrix_are_refused():
    J = wb.jacobian(lambda x: np.sum(x) * x, sparse="auto")
    with pytest.raises(wb.errors.UsageError, match="Write sparse=True"):
        J.entries(X)


def test_it_is_differentiated_again():
    J = wb.jacobian(PROGRAMS["difference"], sparse=True)
    dense = wb.jacobian(PROGRAMS["difference"])
    found = wb.grad(lambda x: np.sum(J.entries(x) ** 3))(X)
    np.testing.assert_allclose(
        found, wb.grad(lambda x: np.sum(dense(x) ** 3))(X), rtol=1e-12
    )


@pytest.mark.parametrize(
    "f",
    [
        lambda x: wb.at(np.zeros(2))[[0, 0, 1]].add(x[0]),
        lambda x: wb.at(np.zeros(2))[[0, 0, 1]].add(x[:1]),
        lambda x: wb.at(x.reshape(2, 3))[:, [0, 0, 2]].add(x[:2, None]),
        lambda x: wb.at(np.zeros((2, 3)))[[0, 0]].add(x[:3] ** 2),
        lambda x: wb.at(x**2)[[1, 1, 1]].add(x[:3]),
    ],
)
def test_what_is_added_several_times_counts_as_often(f):
    x = np.arange(1.0, 7.0)
    J = wb.jacobian(f, sparse=True)
    step = 1e-6
    differences = [
        (f(x + step * e) - f(x - step * e)).reshape(-1) / (2 * step) for e in np.eye(6)
    ]
    np.testing.assert_allclose(J(x).toarray(), np.stack(differences, 1), atol=1e-6)
    assert BY_ITSELF in J.explain()
    cost = lambda x: np.sum(f(x) ** 3)  # noqa: E731
    np.testing.assert_allclose(
        wb.hessian(cost, sparse=True)(x).toarray(), wb.hessian(cost)(x)
    )


def test_a_division_by_a_number_whose_inverse_overflows():
    f = lambda x: x * 1e-200 / 1e-310 * 1e-100  # noqa: E731
    J = wb.jacobian(f, sparse=True)
    np.testing.assert_allclose(J(np.ones(3)).data, 1e10, rtol=1e-6)


def test_an_index_made_of_numbers_takes_products_and_says_so():
    J = wb.jacobian(lambda x, y: x[np.argsort(y)[:2]] ** 2, sparse=True)
    for y in ([0.0, 2.0, 1.0], [3.0, 2.0, 1.0]):
        found = J(np.arange(1.0, 4.0), np.array(y)).toarray()
        expected = np.zeros((2, 3))
        expected[[0, 1], np.argsort(y)[:2]] = 2.0 * (np.argsort(y)[:2] + 1)
        np.testing.assert_array_equal(found, expected)
    assert BY_ITSELF not in J.explain()


def test_an_index_that_is_an_argument_takes_no_products():
    J = wb.jacobian(lambda x, i: x[i] ** 2, sparse=True)
    found = J(np.arange(1.0, 4.0), np.array([0, 2])).toarray()
    np.testing.assert_array_equal(found, [[2.0, 0, 0], [0, 0, 6.0]])
    assert BY_ITSELF in J.explain()
