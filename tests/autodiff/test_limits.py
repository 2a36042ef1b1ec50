"""Functions of eigenvalues and vectors, where eigenvalues are equal.

The truth is the formula of Daleckii and Krein: in the basis of the eigenvectors, the
change of the matrix times the divided differences of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

eigh = np.linalg.eigh


def adjoint(v: Any) -> Any:
    return np.conj(np.swapaxes(v, -1, -2))


SPELLINGS: dict[str, Callable[[Any, Any], Any]] = {
    "columns": lambda f, A: (lambda w, v: (v * f(w)) @ np.conj(v.T))(*eigh(A)),
    "diag": lambda f, A: (lambda w, v: v @ np.diag(f(w)) @ np.conj(v).T)(*eigh(A)),
    "einsum": lambda f, A: (lambda w, v: np.einsum("ij,j,kj->ik", v, f(w), np.conj(v)))(
        *eigh(A)
    ),
    "rows": lambda f, A: (lambda w, v: v @ (f(w)[:, None] * adjoint(v)))(*eigh(A)),
    "a sum of projectors": lambda f, A: (
        lambda w, v: sum(
            f(w[i]) * np.outer(v[:, i], np.conj(v[:, i])) for i in range(3)
        )
    )(*eigh(A)),
    "upper triangle": lambda f, A: (lambda w, v: (v * f(w)) @ adjoint(v))(
        *eigh(A, UPLO="U")
    ),
    "svd": lambda f, A: (lambda u, s, vh: (u * f(s)) @ vh)(*np.linalg.svd(A)),
    "eig": lambda f, A: (lambda w, v: (v * f(w)) @ np.linalg.inv(v))(*np.linalg.eig(A)),
}
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "log": (np.log, lambda w: 1 / w),
    "square": (lambda w: (w - 1) ** 2, lambda w: 2 * (w - 1)),
    "positive part": (lambda w: np.maximum(w - 1.5, 0), lambda w: float(w > 1.5)),
}
VALUES = {"all": [1.0, 1.0, 1.0], "two": [1.0, 1.0, 2.0], "last": [1.0, 2.0, 2.0]}


def daleckii_krein(f: Any, slope: Any, A: Any, E: Any) -> Any:
    w, v = np.linalg.eigh(A)
    K = np.empty((len(w), len(w)))
    for i, j in np.ndindex(K.shape):
        near = abs(w[i] - w[j]) < 1e-7
        K[i, j] = slope(w[i]) if near else (f(w[i]) - f(w[j])) / (w[i] - w[j])
    return v @ (K * (adjoint(v) @ E @ v)) @ adjoint(v)


def draw_case(
    rng: np.random.Generator, values: list[float], is_complex: bool, turned: bool
) -> tuple[Any, Any, Any]:
    """Return a Hermitian matrix with these eigenvalues, a change of it, and weights."""

    def draw() -> Any:
        x = rng.normal(size=(3, 3))
        return x + 1j * rng.normal(size=(3, 3)) if is_complex else x

    Q = np.linalg.qr(draw())[0] if turned else np.eye(3)
    A, E = (Q * values) @ adjoint(Q), draw()
    return (A + adjoint(A)) / 2, E + adjoint(E), draw()


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_both_modes_are_right(
    rng: np.random.Generator, spelling: str, function: str, values: str
) -> None:
    if spelling == "eig" and function == "positive part":
        pytest.skip("not of complex numbers")
    f, slope = FUNCTIONS[function]
    for is_complex, turned in ((False, False), (False, True), (True, True)):
        A, E, C = draw_case(rng, VALUES[values], is_complex, turned)

        def at(s: Any, A: Any = A, E: Any = E, C: Any = C) -> Any:
            return np.real(np.sum(np.conj(C) * SPELLINGS[spelling](f, A + s * E)))

        truth = np.real(np.sum(np.conj(C) * daleckii_krein(f, slope, A, E)))
        near = {"rel": 1e-9, "abs": 1e-10}
        assert wb.grad(at)(0.0) == pytest.approx(truth, **near)
        assert wb.jvp(at, (0.0,), (1.0,))[1] == pytest.approx(truth, **near)


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_programs_without_values(rng: np.random.Generator, backend: str) -> None:
    A, E, C = draw_case(rng, VALUES["two"], False, True)
    at = lambda s: np.sum(C * SPELLINGS["columns"](np.log, A + s * E))  # noqa: E731
    truth = np.sum(C * daleckii_krein(np.log, lambda w: 1 / w, A, E))
    for derivative in (wb.grad(at), lambda s: wb.jvp(at, (s,), (1.0,))[1]):
        compiled = wb.compile(derivative, backend=backend)
        assert compiled(0.0) == pytest.approx(truth, rel=1e-9)


def test_batches_loops_and_branches(rng: np.random.Generator) -> None:
    A, E, C = draw_case(rng, VALUES["two"], False, True)
    exp = lambda A: SPELLINGS["columns"](np.exp, A)  # noqa: E731

    def stack(s: Any) -> Any:
        w, v = np.linalg.eigh(np.stack([A + s * E, (A + s * E) * 2, C @ C.T]))
        return np.sum(C * ((v * np.exp(w)[:, None, :]) @ adjoint(v)))

    def loop(s: Any) -> Any:
        root = lambda c: SPELLINGS["columns"](np.sqrt, c)  # noqa: E731
        return np.sum(C * wb.scan(root, initial=A + s * E, n_steps=2, last=True))

    many = lambda s: wb.vmap(lambda a: exp(a * (A + s * E)))(np.arange(1.0, 3.0))  # noqa: E731
    programs = {
        "vmap": lambda s: np.sum(C * many(s)),
        "stack": stack,
        "scan": loop,
        "cond": lambda s: wb.cond(s > -1, lambda s: np.sum(C * exp(A + s * E)), exp, s),
        "checkpoint": lambda s: wb.checkpoint(lambda s: np.sum(C * exp(A + s * E)))(s),
    }
    programs["cond"] = lambda s: wb.cond(
        s > -1, lambda s: np.sum(C * exp(A + s * E)), lambda s: s, s
    )
    for name, f in programs.items():
        h = 1e-4
        near = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
        assert wb.grad(f)(0.0) == pytest.approx(near, rel=1e-8), name
        assert wb.jvp(f, (0.0,), (1.0,))[1] == pytest.approx(near, rel=1e-8), name


def test_what_is_not_of_the_form_of_a_function(rng: np.random.Generator) -> None:
    A, _, C = draw_case(rng, VALUES["two"], False, True)
    solve = lambda A: (lambda w, v: v @ ((v.T @ C[0]) / w))(*eigh(A))  # noqa: E731
    jacobian = np.einsum("ij,k->ijk", -np.linalg.inv(A), np.linalg.solve(A, C[0]))
    # `eigh` reads one triangle: an entry below the diagonal stands for two.
    whole = jacobian + np.swapaxes(jacobian, 1, 2)
    truth = np.tril(whole, -1) + np.tril(np.triu(jacobian))
    for derivative in (wb.jacobian, wb.jacfwd):
        np.testing.assert_allclose(derivative(solve)(A), truth, atol=1e-9)
    minimum = lambda A: np.sum(SPELLINGS["columns"](np.log, A) ** 2)  # noqa: E731
    np.testing.assert_allclose(wb.grad(minimum)(np.eye(3)), np.zeros((3, 3)))


def test_second_derivatives_are_nan_in_both_modes(rng: np.random.Generator) -> None:
    A, E, C = draw_case(rng, VALUES["two"], False, True)
    at = lambda s: np.sum(C * SPELLINGS["columns"](np.log, A + s * E))  # noqa: E731
    forward = lambda s: wb.jvp(at, (s,), (1.0,))[1]  # noqa: E731
    assert np.isnan(wb.grad(wb.grad(at))(0.0))
    assert np.isnan(wb.grad(forward)(0.0))
    assert np.isnan(wb.jvp(forward, (0.0,), (1.0,))[1])
    assert np.isfinite(wb.grad(wb.grad(at))(0.1))
    found = wb.diagnose(wb.grad(at), 0.0)
    assert "where values are equal" in str(found)


def test_a_change_that_turns_no_vector_wants_no_second_derivative(
    rng: np.random.Generator,
) -> None:
    """Of one matrix function in another the second is NaN; here the first suffices."""
    A, _, C = draw_case(rng, VALUES["two"], False, True)
    nested = lambda A: SPELLINGS["columns"](np.log, SPELLINGS["columns"](np.sqrt, A))  # noqa: E731
    for E in (np.eye(3), A @ A):  # A and E have the same vectors
        at = lambda s, E=E: np.sum(C * nested(A + s * E))  # noqa: E731
        truth = np.sum(C * np.linalg.solve(A, E)) / 2
        assert wb.jvp(at, (0.0,), (1.0,))[1] == pytest.approx(truth, rel=1e-9)


def test_rules_that_see_no_program_are_nan_and_never_0() -> None:
    """That of `eigh` alone, as a program that ran at other values has it."""
    f = lambda A: SPELLINGS["columns"](np.log, A)[0, 1]  # noqa: E731
    graph = wb.trace(wb.grad(f))(np.diag([1.0, 2.0]))
    assert np.isnan(graph.run([np.eye(2)])[0]).any()
