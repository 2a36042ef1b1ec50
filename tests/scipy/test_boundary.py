"""`solve_bvp` against solutions known in closed form.

y'' = k² y from 1 at 0 to 0 at b is sinh(k (b - x)) / sinh(k b).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import workbench as wb
from workbench.errors import ConvergenceError, UsageError
from workbench.scipy.integrate import solve_bvp

POINT = (2.0, 1.5)


def solve(k: Any, b: Any, solver: Any = solve_bvp, tol: float = 1e-8) -> Any:
    def rate(x: Any, y: Any) -> Any:
        return np.stack([y[1], k * k * y[0]])

    def ends(ya: Any, yb: Any) -> Any:
        return np.stack([ya[0] - 1, yb[0]])

    return solver(rate, ends, np.linspace(0, 1, 11) * b, np.zeros((2, 11)), tol=tol)


def slope(k: Any, b: Any) -> Any:
    """Return y'(0)."""
    return -k * np.cosh(k * b) / np.sinh(k * b)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: wb.grad(f, (0, 1))(*POINT),
    "jvp": lambda f: wb.jvp(f, POINT, (1.0, -0.5)),
    "hessian": lambda f: wb.hessian(f, (0, 1))(*POINT),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_by_what_it_reads_and_by_an_end(transform: str) -> None:
    derive = TRANSFORMS[transform]
    made = derive(lambda k, b: solve(k, b).y[1, 0])
    np.testing.assert_allclose(made, derive(slope), rtol=1e-7, atol=1e-9)


def test_the_spline() -> None:
    x = np.array([0.3, 0.7, 1.1])
    truth = lambda k, b: np.sinh(k * (b - x)) / np.sinh(k * b)  # noqa: E731
    made = wb.jacobian(lambda k, b: solve(k, b).sol(x)[0], (0, 1))(*POINT)
    expected = wb.jacobian(truth, (0, 1))(*POINT)
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-8)
    by_place = wb.grad(lambda x: solve(*POINT).sol(x)[0])(0.4)
    k, b = POINT
    known = -k * np.cosh(k * (b - 0.4)) / np.sinh(k * b)
    np.testing.assert_allclose(by_place, known, rtol=1e-6)


def find_eigenvalue(c: Any) -> Any:
    """Return p of y'' = -c p² y between zeros at 0 and 1: 2 pi / sqrt(c)."""

    def rate(x: Any, y: Any, p: Any) -> Any:
        return np.stack([y[1], -c * p[0] ** 2 * y[0]])

    def ends(ya: Any, yb: Any, p: Any) -> Any:
        return np.stack([ya[0], yb[0], ya[1] - p[0]])

    y = np.zeros((2, 5))
    y[0, 1], y[0, 3] = 1, -1
    return solve_bvp(rate, ends, np.linspace(0, 1, 5), y, p=[6.0], tol=1e-6).p[0]


def test_unknown_parameters() -> None:
    made = wb.value_and_grad(find_eigenvalue)(1.0)
    np.testing.assert_allclose(made, (2 * np.pi, -np.pi), rtol=1e-6)


def test_values_are_scipys() -> None:
    theirs = solve(*POINT, scipy.integrate.solve_bvp, tol=1e-3)
    kept = []

    def run(k: Any) -> Any:
        kept.append(solve(k, POINT[1], tol=1e-3))
        return kept[0].y

    np.testing.assert_array_equal(wb.vjp(run, POINT[0])[0], theirs.y)
    np.testing.assert_allclose(kept[0].x, theirs.x, rtol=1e-14)
    np.testing.assert_allclose(kept[0].yp.value, theirs.yp, rtol=1e-12)
    assert (kept[0].status, kept[0].p) == (theirs.status, theirs.p) == (0, None)
    assert type(solve(*POINT)) is type(theirs)


def test_what_is_refused() -> None:
    def run(k: Any, start: Any = 0.0, **settings: Any) -> Any:
        return solve_bvp(
            lambda x, y: np.stack([y[1], -k * np.exp(y[0])]),
            lambda ya, yb: np.stack([ya[0], yb[0]]),
            np.linspace(0, 1, 5), np.zeros((2, 5)) + start, **settings,
        ).y[1, 0]  # fmt: skip

    with pytest.raises(UsageError, match=r"S=\.\.\.\).*a little beyond"):
        wb.grad(lambda k: run(k, S=np.eye(2)))(1.0)
    with pytest.raises(UsageError, match="rows of the real and the imaginary"):
        wb.grad(lambda k: run(k, 0j))(1.0)
    with pytest.raises(UsageError, match="the mesh or a guess depends on values"):
        wb.trace(lambda k, x: run(k, x))(1.0, wb.Spec((), np.dtype(float)))
    for turned in (wb.compile(run), lambda k: wb.vmap(run)(np.array([k, k]))):
        with pytest.raises(UsageError, match=r"`fun` returns depends on values.*vmap"):
            turned(1.0)
    with pytest.raises(ConvergenceError, match=r"nodes is exceeded.*finer mesh"):
        wb.grad(lambda k: run(k, tol=1e-10, max_nodes=6))(1.0)
    with pytest.raises(ConvergenceError, match=r"[Ss]ingular Jacobian.*better guess"):
        # Any multiple of exp(c x) solves it.
        wb.grad(
            lambda c: solve_bvp(
                lambda x, y: np.stack([c * y[0], 0 * y[1]]),
                lambda ya, yb: np.stack([0 * ya[0], yb[1]]),
                np.linspace(0, 1, 3), np.zeros((2, 3)),
            ).y[0, 0]
        )(1.0)  # fmt: skip
