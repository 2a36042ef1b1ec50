"""Patterns of roots, systems, integrals and differential equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import workbench as wb
import workbench.scipy.integrate as integrate
import workbench.scipy.optimize as optimize
from workbench.ops.sparse.structure import find_inverse_structure, find_reach
from workbench.scipy.sparse.linalg import cg, expm, inv, spsolve

X = np.array([0.7, 1.3, 0.9, 1.1, 0.6, 0.8])
TRIDIAGONAL = sp.csr_array(
    np.diag([3.0, 4, 5, 3, 4, 5]) + np.diag([1.0, 0, 1, 0, 1], 1)
    + np.diag([1.0, 0, 1, 0, 1], -1)
)  # fmt: skip
LOWER = sp.csr_array(np.diag([3.0, 4, 5, 3, 4, 5]) + np.diag([1.0, 1, 1, 0, 1], -1))
SHIFTED = sp.csr_array(np.roll(LOWER.toarray(), 2, axis=1))


def rate(y: Any, t: Any, x: Any) -> Any:
    return np.stack([-y[0] * x[1], y[0] - y[1], -y[2] * x[2] * t])


def make_matrix(values: Any) -> Any:
    """The tridiagonal matrix of parts of two, scaled by row."""
    rows = np.repeat(np.arange(6), np.diff(TRIDIAGONAL.indptr))
    data = TRIDIAGONAL.data * values[rows]
    index = TRIDIAGONAL.indices, TRIDIAGONAL.indptr
    return wb.scipy.sparse.csr_array((data, *index), shape=(6, 6))


#: A function of X, and whether its pattern is exact.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "roots of one entry each": (
        lambda x: optimize.root(lambda y: y**3 + y - x, np.zeros(6)).x
        if hasattr(optimize.root(lambda y: y - 1, np.zeros(1)), "x")
        else optimize.root(lambda y: y**3 + y - x, np.zeros(6)),
        True,
    ),
    "a fixed point of pairs": (
        lambda x: wb.fixed_point(lambda y: 0.3 * np.cos(y[::-1]) * x, np.zeros(6)),
        True,
    ),
    "a chain of roots": (
        lambda x: wb.fixed_point(
            lambda y: 0.3 * np.concatenate([x[:1], y[:-1] * x[1:]]), np.zeros(6)
        ),
        True,
    ),
    "a system by its product": (
        lambda x: wb.custom_linear_solve(
            lambda y: y[::-1] * x + 3 * y, np.ones(6) * x,
            lambda product, b: np.linalg.solve(
                np.stack([product(e) for e in np.eye(6)], axis=1), b
            ),
        ),
        True,
    ),
    "a sparse system": (lambda x: spsolve(TRIDIAGONAL, x), True),
    "a triangular system": (lambda x: spsolve(LOWER, x**2), True),
    "a system without diagonal": (lambda x: spsolve(SHIFTED, x**2), True),
    "a sparse matrix": (lambda x: spsolve(make_matrix(x), np.arange(1.0, 7)), True),
    "many right sides": (
        lambda x: spsolve(make_matrix(x), np.arange(1.0, 13).reshape(6, 2)), True,
    ),
    "cg": (lambda x: cg(TRIDIAGONAL, x, rtol=1e-12)[0], True),
    "an inverse": (lambda x: inv(make_matrix(x)).toarray(), False),
    "an exponential": (lambda x: expm(make_matrix(x) * 0.1).toarray(), True),
    "an integral": (
        lambda x: integrate.quad(lambda t: np.sin(t * x[2]), 0, x[0])[0], True,
    ),
    "states": (
        lambda x: integrate.odeint(rate, x[3:], np.array([0.1, 0.5, 1.0]), (x,)), True,
    ),
    "times": (
        lambda x: integrate.odeint(
            lambda y, t: -y * t, np.ones(2), np.cumsum(x[:3])
        ),
        True,
    ),
}  # fmt: skip


def find_columns(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    ends = [(f(x + u), f(x - u)) for u in 1e-4 * np.eye(x.size)]
    columns = [np.ravel(a - b) / 2e-4 for a, b in ends]
    return np.abs(np.stack(columns, axis=1)) > 1e-6


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_solved_keeps_its_parts(name: str) -> None:
    f, tight = PROGRAMS[name]
    pattern, truth = wb.sparsity(f, X), find_columns(f, X)
    assert not np.any(truth & ~pattern.toarray())
    if tight:
        np.testing.assert_array_equal(pattern.toarray(), truth)
        assert not pattern.dense_ops
    dense = np.reshape(wb.jacobian(f)(X), truth.shape)
    found = wb.jacobian(f, sparse=True)(X)
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-8)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_of_what_is_solved(name: str) -> None:
    cost = lambda x: np.sum(PROGRAMS[name][0](x) ** 2)  # noqa: E731
    pattern = wb.sparsity(cost, X, order=2)
    truth = np.abs(wb.hessian(cost)(X)) > 1e-7
    assert not np.any(truth & ~pattern.toarray())


def test_an_equation_that_looks_at_values_is_dense() -> None:
    def f(x: Any) -> Any:
        def equation(y: Any) -> Any:
            return y - x if y[0] > -100 else y + x

        return wb.custom_root(equation, np.zeros(3), lambda f, y: y - f(y))

    pattern = wb.sparsity(f, np.ones(3))
    assert pattern.nnz == 9
    (op,) = pattern.dense_ops
    assert "looks at values" in op.reason


FACTORS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda A: np.linalg.solve(A, np.ones((2, 3, 1))),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "eigvalsh": lambda A: np.linalg.eigvalsh(A + np.swapaxes(A, 1, 2)),
}


@pytest.mark.parametrize("name", FACTORS)
def test_dense_matrices_are_told_where_zeros_are_lost(name: str) -> None:
    f = FACTORS[name]
    A = np.random.default_rng(0).normal(size=(2, 3, 3)) + 3 * np.eye(3)
    whole = wb.sparsity(f, A)
    assert not whole.dense_ops
    rows = whole.shape[0] // 2
    assert not whole.toarray()[:rows, 9:].any()
    diagonal = wb.sparsity(lambda x: f(x[:, :, None] * np.eye(3)), np.ones((2, 3)))
    assert "some entries there never vary" in diagonal.report()


def find_truth(
    f: Callable[..., Any], draw: Callable[..., Any], rng: np.random.Generator
) -> Any:
    """What central differences find nonzero at some of 20 random points."""
    found: Any = False
    for _ in range(20):
        x = draw(rng)
        units = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
        columns = [np.ravel(f(x + u) - f(x - u)) / 2e-6 for u in units]
        found = found | (np.abs(np.stack(columns, axis=1)) > 1e-6)
    return found


def draw_positive(*shape: int) -> Callable[..., Any]:
    def draw(rng: np.random.Generator) -> Any:
        x = rng.normal(size=shape)
        return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])

    return draw


def draw_any(*shape: int) -> Callable[..., Any]:
    return lambda rng: rng.normal(size=shape)


def draw_dominant(*shape: int) -> Callable[..., Any]:
    """Triangles whose solutions are neither tiny nor huge."""
    return lambda rng: rng.normal(size=shape) + 3 * np.eye(shape[-1])


RIGHT = np.random.default_rng(3).normal(size=(2, 3, 4, 2)) + 2
TRIANGLES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cholesky": (np.linalg.cholesky, draw_positive(4, 4)),
    "cholesky of a stack": (np.linalg.cholesky, draw_positive(3, 2, 2)),
    "cholesky, upper": (lambda a: np.linalg.cholesky(a, upper=True),
                        draw_positive(4, 4)),
    "R alone": (lambda a: np.linalg.qr(a, "r"), draw_any(4, 3)),
    **{
        f"{'QR'[i]} of {shape}, {mode}": (
            lambda a, mode=mode, i=i: np.linalg.qr(a, mode)[i], draw_any(*shape)
        )
        for i in (0, 1)
        for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 2), (1, 3), (3, 1), (1, 1))
        for mode in ("reduced", "complete")
        # NumPy's choice of the columns that complete a basis is one of many.
        if i or mode == "reduced" or shape[-2] <= shape[-1]
    },
    **{
        f"triangle, lower={lower}, unit={unit}, trans={trans}": (
            lambda a, lower=lower, unit=unit, trans=trans: (
                wb.scipy.linalg.solve_triangular(
                    a, np.arange(1.0, 9.0).reshape(4, 2), lower=lower,
                    unit_diagonal=unit, trans=trans,
                )
            ),
            draw_dominant(4, 4),
        )
        for lower in (True, False)
        for unit in (True, False)
        for trans in (0, 1)
    },
    "right side of a triangle": (
        lambda b: wb.scipy.linalg.solve_triangular(
            np.arange(2.0, 18.0).reshape(4, 4) ** 0.5, b, lower=True
        ),
        draw_any(4, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIANGLES)
def test_factors_read_a_triangle(name: str, rng: np.random.Generator) -> None:
    f, draw = TRIANGLES[name]
    x = draw(rng)
    pattern = wb.sparsity(f, x)
    np.testing.assert_array_equal(pattern.toarray(), find_truth(f, draw, rng))
    assert not pattern.dense_ops
    J = wb.jacobian(f, sparse=True)(x)
    dense = wb.jacobian(f)(x).reshape(J.shape)
    np.testing.assert_allclose(J.toarray(), dense, rtol=1e-9, atol=1e-12)


def test_the_phase_of_a_complex_last_column_varies(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2))
    last = wb.sparsity(lambda a: np.linalg.qr(a)[0][:, 1], x)
    assert last.toarray().all()


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 3, 2)])
def test_factors_with_swaps_of_rows(
    shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    def factor(a: Any) -> Any:
        _, lower, upper = wb.scipy.linalg.lu(a)
        return np.concatenate([np.ravel(lower), np.ravel(upper)])

    pattern = wb.sparsity(factor, rng.normal(size=shape)).toarray()
    found = find_truth(factor, draw_any(*shape), rng)
    assert not np.any(found & ~pattern)
    few = min(shape[-2:])
    lower = np.broadcast_to(np.tril(np.ones((shape[-2], few)), -1), (*shape[:-1], few))
    upper = np.broadcast_to(
        np.triu(np.ones((few, shape[-1]))), (*shape[:-2], few, shape[-1])
    )
    kept = np.concatenate([lower.ravel(), upper.ravel()]) > 0
    np.testing.assert_array_equal(pattern.any(axis=1), kept)


def test_a_large_triangle_is_exact() -> None:
    pattern = wb.sparsity(np.linalg.cholesky, wb.Spec((90, 90), float))
    i, j = np.tril_indices(90)
    block = (j + 1) * (j + 2) // 2
    assert pattern.nnz == np.sum(np.where(i == j, block, block + j + 1))
    assert not pattern.dense_ops


def test_products_that_are_too_many_are_told() -> None:
    x = wb.Spec((8000,), float)
    pattern = wb.sparsity(lambda x: np.convolve(x, np.ones(6000), "valid")[:3], x)
    assert "too many to be listed" in pattern.report()
    assert pattern.nnz == 3 * 8000


@pytest.mark.parametrize("seed", range(12))
def test_reach_and_inverse_against_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15))
    dense = rng.random((n, n)) < 1.5 / n
    reach = np.eye(n, dtype=bool)
    for _ in range(n):
        reach = reach | (reach.astype(int) @ dense > 0)
    found = find_reach(sp.csr_array(dense))
    np.testing.assert_array_equal(found.toarray(), reach)
    dense[rng.permutation(n), np.arange(n)] = True
    values = np.where(dense, rng.uniform(0.5, 1.5, (n, n)), 0)
    inverse = find_inverse_structure(sp.csr_array(dense)).toarray()
    if np.linalg.cond(values) < 1e8:
        numbers = np.abs(np.linalg.inv(values)) > 1e-9
        np.testing.assert_array_equal(inverse, numbers)
    assert find_inverse_structure(sp.csr_array((n, n), dtype=bool)) is None
    assert find_reach(sp.csr_array(np.ones((n, n), bool)), n * n - 1) is None
