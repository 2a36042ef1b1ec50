"""Roots, fixed points and linear systems: against what their equations say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse.linalg import LinearOperator, cg, gmres

import workbench as wb
from workbench.errors import ConvergenceError, MatrixError, ShapeError

A = np.array([[4.0, 1.0, 0.5], [-0.5, 3.0, 0.2], [0.3, 0.1, 5.0]])
S = A + A.T
B = np.array([1.0, -2.0, 0.5])
U = np.array([0.7, 0.2, -1.1])


def newton(f: Callable[[Any], Any], x: Any) -> Any:
    """Newton's method on plain arrays, whatever is being differentiated."""
    for _ in range(50):
        step = np.linalg.solve(
            np.atleast_2d(wb.jacobian(f)(x)), np.atleast_1d(f(x))
        ).reshape(np.shape(x))
        x = x - step
        if np.max(np.abs(step), initial=0) < 1e-14:
            break
    return x


def hybrid(f: Callable[[Any], Any], x: Any) -> Any:
    """SciPy's own solver, which knows nothing of derivatives."""
    return optimize.root(f, x, tol=1e-14).x


def dense(matvec: Callable[[Any], Any], b: Any) -> Any:
    """By the matrix that the product is."""
    matrix = np.stack([matvec(e) for e in np.eye(len(b))], axis=1)
    return np.linalg.solve(matrix, b)


def krylov(matvec: Callable[[Any], Any], b: Any) -> Any:
    operator = LinearOperator((len(b), len(b)), matvec=matvec, dtype=float)
    return gmres(operator, b, rtol=1e-14, atol=0)[0]


# One equation, with the root known in closed form: x³ = a


def cube_root(a: Any, **settings: Any) -> Any:
    return wb.custom_root(lambda x: x**3 - a, 1.0, newton, **settings)


def test_a_scalar_root_to_fourth_order() -> None:
    f, truth = cube_root, 8.0 ** (1 / 3)
    factor, power = 1.0, 1 / 3
    for order in range(5):
        np.testing.assert_allclose(f(8.0), factor * 8.0**power, rtol=1e-11)
        f = wb.grad(f) if order % 2 else wb.jacfwd(f)
        factor, power = factor * power, power - 1
    assert truth == pytest.approx(2.0)


# A system, whose solution for a linear right-hand side we know otherwise


def equation(theta: Any) -> Callable[[Any], Any]:
    return lambda x: A @ x + 0.1 * np.tanh(x) * theta["s"] - theta["b"]


THETA = {"b": B, "s": 0.8}


def unrolled(theta: Any) -> Any:
    """The same root by twelve steps of Newton's method, differentiated through."""
    x = np.linalg.solve(A, theta["b"])
    for _ in range(12):
        t = np.tanh(x)
        r = A @ x + 0.1 * t * theta["s"] - theta["b"]
        J = A + 0.1 * theta["s"] * np.eye(3) * (1 - t**2)
        x = x - np.linalg.solve(J, r)
    return x


def by_closure(theta: Any) -> Any:
    return wb.custom_root(equation(theta), np.zeros(3), hybrid)


def by_krylov(theta: Any) -> Any:
    return wb.custom_root(equation(theta), np.zeros(3), hybrid, krylov)


def by_iteration(theta: Any) -> Any:
    D = np.diag(np.diag(A))

    def step(x: Any, theta: Any) -> Any:
        rest = theta["b"] - (A - D) @ x - 0.1 * np.tanh(x) * theta["s"]
        return rest / np.diag(A)

    return wb.fixed_point(step, np.zeros(3), theta)


WAYS = {"closure": by_closure, "krylov": by_krylov, "iteration": by_iteration}


@pytest.mark.parametrize("way", WAYS)
def test_every_transform_is_that_of_the_unrolled_solver(way: str) -> None:
    f = WAYS[way]

    def same(transform: Callable[[Any], Any], rtol: float = 1e-8) -> None:
        from workbench.core import tree

        made, expected = (tree.flatten(transform(g))[0] for g in (f, unrolled))
        for a, b in zip(made, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-10)

    same(lambda f: f(THETA))
    same(lambda f: wb.grad(lambda p: U @ f(p))(THETA))
    same(lambda f: wb.jvp(f, (THETA,), ({"b": U, "s": 2.0},)))
    same(lambda f: wb.jacrev(f)(THETA))
    same(lambda f: wb.jacfwd(f)(THETA))
    same(lambda f: wb.hessian(lambda p: U @ f(p) ** 2)(THETA))
    same(lambda f: wb.jacrev(wb.jacrev(f))(THETA))
    same(lambda f: wb.jacrev(wb.jacfwd(f))(THETA))
    many = {"b": np.stack([B, 2 * B, -B]), "s": np.array([0.1, 0.8, 1.5])}
    same(lambda f: wb.vmap(f)(many))
    same(lambda f: wb.vmap(wb.grad(lambda p: U @ f(p)))(many))
    same(lambda f: wb.grad(lambda p: np.sum(wb.vmap(f)(p) ** 2))(many))
    none = {"b": np.zeros((0, 3)), "s": np.zeros(0)}
    assert wb.vmap(f)(none).shape == (0, 3)


def test_the_start_has_no_gradient_and_the_solver_sees_plain_arrays() -> None:
    seen = []

    def solve(f: Any, x: Any) -> Any:
        seen.append((type(x), type(f(x))))
        return newton(f, x)

    def total(x0: Any, a: Any) -> Any:
        return np.sum(wb.custom_root(lambda x: x**3 - a, x0, solve))

    g0, ga = wb.grad(total, (0, 1))(np.array([1.0]), np.array([8.0]))
    np.testing.assert_allclose(g0, 0)
    np.testing.assert_allclose(ga, 1 / 12)
    assert set(seen) == {(np.ndarray, np.ndarray)}
    starts = np.array([[1.0], [3.0]])
    made = wb.vmap(lambda x0: wb.custom_root(lambda x: x**3 - 8, x0, newton))(starts)
    np.testing.assert_allclose(made, 2.0)


def test_nests_of_unknowns() -> None:
    def f(s: Any) -> Any:
        def residual(p: Any) -> Any:
            return {"x": p["x"] * p["y"][0] - s, "y": [p["y"][0] - 2 * s - 1]}

        def solve(f: Any, p: Any) -> Any:
            y = np.array(3.0)
            for _ in range(4):
                y = y - f({"x": p["x"], "y": [y]})["y"][0]
            return {"x": p["x"] - f({"x": p["x"], "y": [y]})["x"] / y, "y": [y]}

        return wb.custom_root(residual, {"x": np.ones(2), "y": [1.0]}, solve)

    made = f(0.5)
    np.testing.assert_allclose(made["x"], 0.25)
    J = wb.jacobian(f)(0.5)
    np.testing.assert_allclose(J["x"], 1 / 4 * np.ones(2))  # d/ds s / (2 s + 1)
    np.testing.assert_allclose(J["y"][0], 2)
    np.testing.assert_allclose(wb.grad(lambda s: f(s)["x"][0])(0.5), 0.25)


def test_an_equation_that_looks_at_values() -> None:
    """Recorded anew at each point, since Python's `if` chooses the branch."""

    def f(a: Any) -> Any:
        def residual(x: Any) -> Any:
            return x**3 - a if x > 0 else x - 1

        return wb.custom_root(residual, 2.0, lambda f, x: optimize.brentq(f, 0.5, 9))

    np.testing.assert_allclose(wb.grad(f)(8.0), 1 / 12)
    np.testing.assert_allclose(wb.grad(wb.grad(f))(8.0), -2 / 9 * 8 ** (-5 / 3))


def test_float32_and_complex() -> None:
    x0 = np.ones(2, np.float32)
    g = wb.grad(lambda a: np.sum(wb.custom_root(lambda x: x * x - a, x0, newton)))(
        np.array([4, 9], np.float32)
    )
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, [1 / 4, 1 / 6], rtol=1e-6)

    def square_root(a: Any) -> Any:
        return wb.custom_root(
            lambda x: x * x - a, 1 + 0j, lambda f, x: _complex_newton(f, x)
        )

    a = 3 + 4j
    np.testing.assert_allclose(square_root(a), 2 + 1j)
    g = wb.grad(square_root, holomorphic=True)(a)
    np.testing.assert_allclose(g, 1 / (2 * (2 + 1j)))
    np.testing.assert_allclose(wb.jacfwd(square_root)(a), 1 / (2 * (2 + 1j)))


def _complex_newton(f: Any, x: Any) -> Any:
    for _ in range(30):
        x = x - f(x) / wb.grad(f, holomorphic=True)(x)
    return x


def test_what_cannot_be_said_is_said() -> None:
    with pytest.raises(ShapeError, match="custom_root: the function returned"):
        wb.custom_root(lambda x: x[:2], np.ones(3), newton)
    with pytest.raises(ShapeError, match="custom_root: solve: it returned"):
        wb.grad(lambda a: wb.custom_root(lambda x: x - a, 1.0, lambda f, x: [x]))(2.0)
    with pytest.raises(MatrixError, match="singular"):
        wb.grad(lambda a: wb.custom_root(lambda x: x * x - a, 1.0, lambda f, x: x * 0))(
            0.0
        )
    with pytest.raises(ConvergenceError, match="after max_steps=10 steps"):
        wb.fixed_point(lambda x: 2 * x + 1, 1.0, max_steps=10)
    with pytest.raises(ShapeError, match="fixed_point: the function returned"):
        wb.fixed_point(lambda x: x[0], np.ones(3))


def test_the_iteration_ends_when_asked() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x / 2 + 1

    rough = wb.fixed_point(f, 0.0, tol=1e-2)
    few = len(calls)
    fine = wb.fixed_point(f, 0.0)
    assert few < len(calls) - few
    assert abs(fine - 2) < 1e-11 < abs(rough - 2) < 0.1


# Linear systems


def solve_by(solver: Any, **settings: Any) -> Callable[[Any, Any], Any]:
    return lambda A, b: wb.custom_linear_solve(lambda x: A @ x, b, solver, **settings)


def conjugate(matvec: Any, b: Any) -> Any:
    operator = LinearOperator((len(b), len(b)), matvec=matvec, dtype=float)
    return cg(operator, b, rtol=1e-15, atol=0)[0]


@pytest.mark.parametrize(
    ("made", "matrix"),
    [
        (solve_by(dense), A),
        (solve_by(dense, transpose_solve=dense), A),
        (solve_by(krylov), A),
        (solve_by(conjugate, symmetric=True), S),
    ],
)
def test_a_linear_system_is_that_of_numpy(made: Any, matrix: Any) -> None:
    def same(transform: Callable[[Any], Any]) -> None:
        from workbench.core import tree

        ours = tree.flatten(transform(made))[0]
        truth = tree.flatten(transform(np.linalg.solve))[0]
        for a, b in zip(ours, truth, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)

    # Where the solver serves for symmetric matrices alone, no other is made.
    sym = (lambda M: (M + M.T) / 2) if matrix is S else (lambda M: M)
    same(lambda f: f(matrix, B))
    same(lambda f: wb.grad(lambda M, b: U @ f(sym(M), b), (0, 1))(matrix, B))
    same(lambda f: wb.jacfwd(f, 1)(matrix, B))
    same(lambda f: wb.jacrev(f, 1)(matrix, B))
    same(lambda f: wb.hessian(lambda M, b: U @ f(sym(M), b), (0, 1))(matrix, B))
    same(lambda f: wb.vmap(f, (None, 0))(matrix, np.stack([B, U])))
    same(
        lambda f: wb.vmap(wb.grad(lambda M, b: U @ f(sym(M), b)))(
            np.stack([matrix, 2 * matrix]), np.stack([B, U])
        )
    )
    same(
        lambda f: wb.grad(
            lambda b: np.sum(wb.grad(lambda b: np.sum(f(matrix, b) ** 3))(b) ** 2)
        )(B)
    )


def test_a_linear_system_by_each_of_its_parameters_alone() -> None:
    a, s, b = wb.matrix("a", shape=(3, 3)), wb.scalar("s"), wb.vector("b", shape=3)
    x = wb.custom_linear_solve(lambda x: a @ x + s * x, b, dense)
    matrix = A + 0.5 * np.eye(3)
    at, w = np.linalg.solve(matrix, B), np.linalg.solve(matrix.T, U)
    for parameter, truth in ((a, -np.outer(w, at)), (s, -w @ at), (b, w)):
        f = wb.function([a, s, b], wb.grad(U @ x, parameter))
        np.testing.assert_allclose(f(A, 0.5, B), truth, rtol=1e-12)


def test_a_solver_that_takes_no_notice_of_the_product_is_found_out() -> None:
    f = solve_by(lambda matvec, b: np.linalg.solve(A, b))
    np.testing.assert_allclose(wb.jvp(lambda b: f(A, b), (B,), (U,))[1],
                               np.linalg.solve(A, U))  # fmt: skip
    with pytest.raises(ConvergenceError, match="Give transpose_solve"):
        wb.grad(lambda b: np.sum(f(A, b)))(B)
    with pytest.raises(ShapeError, match="custom_linear_solve: matvec returned"):
        wb.custom_linear_solve(lambda x: x[:1], B, dense)


def test_large_systems_without_a_matrix() -> None:
    """A banded system of 2,000 unknowns: products alone."""
    n = 2000
    d = np.linspace(2, 3, n)

    def f(d: Any, b: Any) -> Any:
        def matvec(x: Any) -> Any:
            inner = np.concatenate([x[1:], np.zeros(1)])
            outer = np.concatenate([np.zeros(1), x[:-1]])
            return d * x + 0.3 * (inner + outer)

        return wb.custom_linear_solve(matvec, b, conjugate, symmetric=True)

    from scipy.linalg import solveh_banded

    bands = np.stack([np.full(n, 0.3), d])
    b = np.cos(np.arange(n))
    x, w = solveh_banded(bands, b), solveh_banded(bands, np.ones(n))
    gd, gb = wb.grad(lambda d, b: np.sum(f(d, b)), (0, 1))(d, b)
    np.testing.assert_allclose(gb, w, rtol=1e-10)
    np.testing.assert_allclose(gd, -w * x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("start", [2.0, -3.0])
def test_iterates_that_are_not_finite(start: float) -> None:
    """An infinite one would pass for converged, with gradient 0."""

    def diverges(a: Any) -> Any:
        step = (lambda y: y * y + a) if start > 0 else (lambda y: np.log(y) - a)
        return wb.fixed_point(step, start)

    runs = {
        "value": diverges,
        "grad": wb.grad(diverges),
        "jvp": lambda a: wb.jvp(diverges, (a,), (1.0,)),
        "compiled": wb.compile(wb.grad(diverges), backend="compiled"),
    }
    for name, run in runs.items():
        with (
            np.errstate(all="ignore"),
            pytest.raises(
                ConvergenceError, match=r"after \d+ steps .* not finite"
            ) as told,
        ):
            run(0.3)
        assert "wb.custom_root" in str(told.value), name


@pytest.mark.parametrize("found", [np.inf, np.nan])
def test_a_root_that_is_not_finite(found: float) -> None:
    f = lambda a: wb.custom_root(lambda y: y * y - a, 0.5, lambda f, y: found)  # noqa: E731
    for run in (f, wb.grad(f)):
        with pytest.raises(ConvergenceError, match=r"custom_root: .* not finite"):
            run(2.0)
