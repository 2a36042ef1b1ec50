"""Lengths at 0, where they have a kink: all derivatives are 0. Complex extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.scipy import linalg

ZERO = np.zeros(2)
MATRIX = np.zeros((2, 2))
norm = np.linalg.norm


def complex_of(x: Any) -> Any:
    return x[0] + 1j * x[1]


def distances(x: Any, order: float | None = None) -> Any:
    """Return the sum of the distances of all pairs of rows."""
    return np.sum(norm(x[:, None] - x[None], order, axis=-1))


#: A function with a kink, and where.
LENGTHS: dict[str, tuple[Callable[..., Any], Any]] = {
    "norm": (norm, ZERO),
    "norm of axis": (lambda x: np.sum(norm(x, axis=1)), MATRIX),
    "complex norm": (lambda x: norm(x * (1 + 2j)), ZERO),
    "vector_norm": (np.linalg.vector_norm, ZERO),
    "scipy": (linalg.norm, ZERO),
    "fro": (lambda x: norm(x, "fro"), MATRIX),
    "nuc": (lambda x: norm(x, "nuc"), MATRIX),
    "spectral": (lambda x: norm(x, 2), MATRIX),
    "matrix_norm": (np.linalg.matrix_norm, MATRIX),
    **{
        f"norm of order {p}": (lambda x, p=p: norm(x, p), ZERO)
        for p in (0.5, 1, 1.5, 3, 4, -2, np.inf)
    },
    **{
        f"vector_norm of order {p}": (lambda x, p=p: np.linalg.vector_norm(x, ord=p), x)
        for p, x in ((3, MATRIX), (1.5, ZERO))
    },
    "hypot": (lambda x: np.hypot(x[0], x[1]), ZERO),
    "hypot.reduce": (np.hypot.reduce, ZERO),
    "abs of a complex number": (lambda x: np.abs(complex_of(x)), ZERO),
    "direction": (lambda x: np.real(np.sign(complex_of(x))), ZERO),
    "abs": (lambda x: np.sum(np.abs(x)), ZERO),
    "std": (np.std, np.ones(3)),
    "complex std": (lambda x: np.std(x * (1 + 1j)), np.ones(3)),
    "std of some": (lambda x: np.std(x, where=[True, True, False]), np.ones(3)),
    "nanstd": (np.nanstd, np.array([2.0, np.nan, 2.0])),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_all_derivatives_of_a_length_of_0_are_0(name: str) -> None:
    f, x = LENGTHS[name]
    modes = (wb.jacrev, wb.jacfwd)
    for first in modes:
        np.testing.assert_array_equal(first(f)(x), 0 * np.ones_like(x))
        for second in modes:
            hessian = second(first(f))(x)
            np.testing.assert_array_equal(hessian, np.zeros_like(hessian))
    third = wb.jacrev(wb.hessian(f))(x)
    np.testing.assert_array_equal(third, np.zeros_like(third))


@pytest.mark.parametrize("order", [None, 3, 1.5])
def test_points_that_coincide_leave_the_other_distances_alone(order: Any) -> None:
    x = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, -0.5], [3.0, 0.25]])
    pairs = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    apart = lambda x: 2 * sum(norm(x[i] - x[j], order) for i, j in pairs)  # noqa: E731
    f = lambda x: distances(x, order)  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(x), wb.grad(apart)(x), atol=1e-14)
    for first in (wb.jacrev, wb.jacfwd):
        for second in (wb.jacrev, wb.jacfwd):
            found = second(first(f))(x)
            np.testing.assert_allclose(found, wb.hessian(apart)(x), atol=1e-13)


@pytest.mark.parametrize("order", [0.5, 1.5, 2.5, 3, 4, -1, -2.5])
def test_norms_by_powers_beside_an_entry_of_0(order: float) -> None:
    x = np.array([0.7, -1.3, 0.4])
    f = lambda x: norm(x, order)  # noqa: E731
    wb.check_grads(f, (x,), order=2)
    wb.check_grads(lambda x: norm(x * (1 - 2j) + 1j, order), (x,), order=2)
    if order < 0:  # and the whole is 0
        truth = np.zeros((4, 4))
    else:  # as if the entry were not there
        truth = np.zeros((4, 4))
        truth[1:, 1:] = wb.hessian(f)(x)
    with_zero = np.concatenate([[0.0], x])
    for first in (wb.jacrev, wb.jacfwd):
        for second in (wb.jacrev, wb.jacfwd):
            np.testing.assert_allclose(
                second(first(f))(with_zero), truth, rtol=1e-12, atol=1e-13
            )
    stack = np.stack([with_zero, 2 * with_zero])
    for keepdims in (False, True):
        g = lambda x: np.linalg.norm(x, order, -1, keepdims)  # noqa: E731, B023
        with np.errstate(divide="ignore"):  # in NumPy's own
            plain = g(stack)
        np.testing.assert_allclose(wb.vmap(g)(stack), plain, rtol=1e-14)
        np.testing.assert_allclose(wb.trace(g)(stack).outputs[0].value, plain)


@pytest.mark.parametrize("name", ["norm", "norm of order 3", "hypot", "std"])
def test_the_doctor_names_the_kink(name: str) -> None:
    f, x = LENGTHS[name]
    (finding,) = wb.diagnose(f, x)
    assert "is 0 here, where it has a kink" in finding.cause
    assert "first and all higher ones are taken as 0" in finding.cause
    if name != "std":  # beside 1 the differences of so steep a slope are noise
        report = wb.check_grads(f, (x,), order=2)
        assert "at a kink, where there is no derivative" in str(report)


# Complex numbers at the ends of the range

PARTS = [0.0, 1.0, -2.0, 1e-310, -5e-324, 1e-200, 1e200, -1.7e308, np.inf, -np.inf]


def test_signs_of_complex_extremes_are_those_of_numpy() -> None:
    z = np.array([complex(a, b) for a in PARTS for b in PARTS])
    with np.errstate(all="ignore"):
        signs = np.sign(z)
        (found,) = wb.trace(np.sign)(z).outputs
        np.testing.assert_array_equal(found.value, signs)
        gradient = wb.grad(lambda z: np.sum(np.abs(z)))(z)
        np.testing.assert_array_equal(gradient, np.conj(signs))
        for number in z:
            (alone,) = wb.trace(np.sign)(number).outputs
            np.testing.assert_array_equal(alone.value, np.sign(number))
        for number, sign in ((complex(-np.inf, 0), -1), (1e-310 + 0j, 1), (0j, 0)):
            assert wb.trace(np.sign)(number).outputs[0].value == sign
            assert wb.grad(np.abs)(number) == sign


@pytest.mark.parametrize("size", [1e-150, 1.0, 1e150])
def test_a_direction_turns_and_does_not_grow(size: float) -> None:
    z = (3 + 4j) * size
    for moved in (1.0, 1j, 1 - 2j):
        unit = z / abs(z)
        turned = 1j * unit * np.imag(np.conj(unit) * moved) / abs(z)
        _, found = wb.jvp(np.sign, (z,), (moved + 0j,))
        np.testing.assert_allclose(found, turned, rtol=1e-13)
        back = wb.grad(lambda z, m=moved: np.real(np.sign(z) * m))(z)
        # Re(m dy) of dy along 1 and along i: df/dx - i df/dy.
        along = [1j * unit * np.imag(np.conj(unit) * t) / abs(z) for t in (1, 1j)]
        truth = np.real(moved * along[0]) - 1j * np.real(moved * along[1])
        np.testing.assert_allclose(back, truth, rtol=1e-13)
