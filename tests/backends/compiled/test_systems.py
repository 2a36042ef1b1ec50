"""Systems of equations, inverses and Cholesky factors by LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_program, trace
from workbench.backends.compiled.program import Program
from workbench.backends.compiled.steps import HostStep
from workbench.backends.compiled.systems import SystemStep

DTYPES = ["f8", "f4", "c16", "c8"]


def make_matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Matrices with a large diagonal, so that rounding is all they differ by."""
    made = rng.normal(size=shape)
    if dtype[0] == "c":
        made = made + 1j * rng.normal(size=shape)
    return (made + 2 * shape[-1] * np.eye(shape[-1])).astype(dtype)


def check_native(f: Any, args: list[Any], ulps: float = 64) -> Program:
    program = check_program(trace(f, args), args, ulps)
    assert program is not None
    assert any(isinstance(s, SystemStep) for s in program.plan.steps)
    assert not any(isinstance(s, HostStep) for s in program.plan.steps)
    return program


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("stack", "right"),
    [((), (5,)), ((), (5, 1)), ((), (5, 3)), ((4,), (4, 5, 2)), ((2, 3), (2, 3, 5, 5))],
    ids=str,
)
def test_solve(
    dtype: str, stack: tuple[int, ...], right: Any, rng: np.random.Generator
) -> None:
    args = [
        make_matrix(rng, (*stack, 5, 5), dtype),
        rng.normal(size=right).astype(dtype),
    ]
    program = check_native(np.linalg.solve, args)
    (x,) = program.run(args)
    b = args[0] @ (x if x.ndim > 1 else x[:, None])
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(b.reshape(right), args[1], rtol=0, atol=200 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_views(dtype: str, rng: np.random.Generator) -> None:
    """Transposed, reversed and repeated operands."""
    args = [make_matrix(rng, (4, 4), dtype), rng.normal(size=(4, 4)).astype(dtype)]
    check_native(lambda a, b: np.linalg.solve(a.T, b.T[:, ::-1]), args)
    check_native(lambda a, b: np.linalg.solve(a[::-1, ::-1], b[0]), args)
    check_native(lambda a, b: np.linalg.inv(a.T), args)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", [(), (3,)], ids=str)
def test_inverses_and_factors(
    dtype: str, stack: tuple[int, ...], rng: np.random.Generator
) -> None:
    a = make_matrix(rng, (*stack, 6, 6), dtype)
    check_native(np.linalg.inv, [a])
    positive = a @ np.conj(np.swapaxes(a, -1, -2))
    program = check_native(np.linalg.cholesky, [positive])
    (y,) = program.run([positive])
    assert not np.triu(y, 1).any()


def test_gradients(rng: np.random.Generator) -> None:
    args = [make_matrix(rng, (4, 4), "f8"), rng.normal(size=4)]
    f = lambda a, b: np.sum(np.sin(np.linalg.solve(a, b)))  # noqa: E731
    check_native(wb.grad(f, (0, 1)), args, 256)
    check_native(wb.grad(lambda a: np.sum(np.sin(np.linalg.inv(a)))), args[:1], 256)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("stack", [(), (5,)], ids=str)
def test_determinants(n: int, stack: tuple[int, ...], rng: np.random.Generator) -> None:
    """Small ones are written out, with their derivatives; a singular one is 0."""
    a = rng.normal(size=(*stack, n, n))
    slope = wb.grad(lambda a: np.sum(np.sin(np.linalg.det(a))))
    for f in (np.linalg.det, slope):
        program = check_program(trace(f, [a]), [a], 256)
        assert program is not None
        hosts = any(isinstance(s, HostStep) for s in program.plan.steps)
        assert hosts == (n > 3)
    singular = np.ones((n, n))
    (made,) = check_program(trace(np.linalg.det, [a]), [a], 256).run([a])  # type: ignore[union-attr]
    np.testing.assert_allclose(made, np.linalg.det(a), rtol=1e-10)
    zero = wb.compile(np.linalg.det)
    zero(singular)
    zero.wait()
    assert zero(singular) == (n == 1)


def test_a_kalman_filter_is_one_loop(rng: np.random.Generator) -> None:
    """Predictions, gains and updates, and the gradient by all of the model."""
    F, H = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    data = rng.normal(size=(30, 2))

    def filter_(F: Any, H: Any, data: Any) -> Any:
        def step(z: Any, x: Any, P: Any, total: Any) -> Any:
            x, P = F @ x, F @ P @ F.T + 0.1 * np.eye(3)
            S = H @ P @ H.T + np.eye(2)
            gain = np.linalg.solve(S, H @ P).T
            error = z - H @ x
            total = total + error @ np.linalg.solve(S, error) + np.log(np.linalg.det(S))
            return x + gain @ error, P - gain @ H @ P, total

        start = [np.zeros(3), np.eye(3), 0.0]
        return wb.scan(step, data, start, last=True)[2]

    args = [F, H, data]
    for f in (filter_, wb.grad(filter_, (0, 1, 2))):
        program = check_program(trace(f, args), args, 1e5)
        assert program is not None
        assert not any(isinstance(s, HostStep) for s in program.plan.steps)


def test_a_singular_matrix_is_an_error_as_in_numpy() -> None:
    """It says so in the words of NumPy, and the next call is right."""
    solve = wb.compile(np.linalg.solve)
    factor = wb.compile(np.linalg.cholesky)
    a, b = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 3.0])
    for f, args in ((solve, (a, b)), (factor, (a,))):
        f(*args)
        assert f.wait()
        assert f.backend == "compiled"
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        solve(np.ones((2, 2)), b)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        factor(-a)
    assert solve.backend == factor.backend == "compiled"
    np.testing.assert_allclose(solve(a, b), [1.0, 1.0])
