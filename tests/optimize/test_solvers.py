"""What solvers take: each method of SciPy, and IPOPT through a stand-in."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import workbench as wb
from tests.optimize import cyipopt_stand_in
from workbench.errors import UsageError
from workbench.optimize.solvers import METHODS

TARGET = np.array([1.0, -2.0, 3.0, 0.5])


def bowl(x: Any) -> Any:
    return np.sum((x - TARGET) ** 4 + (x - TARGET) ** 2) + (x[0] - 1.0) * (x[1] + 2.0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_a_minimum(method: str) -> None:
    p = wb.optimize.problem(bowl, np.zeros(4))
    found = scipy.optimize.minimize(**p.minimize(method.lower()), tol=1e-9)
    np.testing.assert_allclose(found.x, TARGET, atol=1e-4)
    assert found.nfev >= p.counts["value_and_gradient"] > 1


@pytest.mark.parametrize("method", ["trust-constr", "SLSQP"])
@pytest.mark.parametrize("sparse", [True, False])
def test_constraints_of_every_kind(method: str, sparse: bool) -> None:
    """The nearest point: on a circle, left of a line, in a box; found by hand."""
    p = wb.optimize.problem(
        lambda x: np.sum((x - np.array([2.0, 2.0, 5.0])) ** 2), np.array([0.5, 0.1, 0]),
        constraints=[
            (lambda x: x[0] ** 2 + x[1] ** 2, 1.0, 1.0),
            (lambda x: np.stack([x[0] - x[1], x[2]]), [-np.inf, -1.0], [0, 4]),
        ],
        bounds=(-3.0, (np.array([3.0, 3.0, 3.5]))),
        sparse=sparse,
    )  # fmt: skip
    found = scipy.optimize.minimize(**p.minimize(method), tol=1e-10)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found.x, [half, half, 3.5], atol=1e-4)


@pytest.mark.parametrize("hessian", ["matrix", "product", "bfgs", "auto"])
def test_forms_of_the_hessian(hessian: str) -> None:
    p = wb.optimize.problem(
        bowl, np.zeros(4), constraints=[(lambda x: x @ x, None, 4.0)]
    )
    found = p.solve(hessian=hessian, tol=1e-9)
    truth = scipy.optimize.minimize(
        bowl, np.zeros(4), method="SLSQP", tol=1e-14,
        constraints=[{"type": "ineq", "fun": lambda x: 4.0 - x @ x}],
    )  # fmt: skip
    np.testing.assert_allclose(found.x, truth.x, atol=1e-4)
    asked = {"product": "hessian_product"}.get(hessian, "hessian")
    assert (asked in p.counts) == (hessian != "bfgs")


def test_methods_that_do_not_fit() -> None:
    p = wb.optimize.problem(bowl, np.zeros(4), constraints=[(np.sum, 0, 0)])
    with pytest.raises(UsageError, match="'BFGS' takes no constraints"):
        p.minimize("BFGS")
    with pytest.raises(UsageError, match="'Powell' uses no derivatives"):
        p.minimize("Powell")
    with pytest.raises(UsageError, match=r"no method 'newton'.*trust-constr"):
        p.minimize("newton")
    with pytest.raises(UsageError, match="'matrix', 'product'"):
        p.minimize(hessian="full")
    with pytest.raises(UsageError, match="'CG' takes no bounds"):
        wb.optimize.problem(bowl, np.zeros(4), bounds=(0, 1)).minimize("CG")
    with pytest.raises(AttributeError, match="Let f return the residuals"):
        _ = p.least_squares


# Systems


def chain(x: Any) -> Any:
    """Broyden's tridiagonal equations (Moré, Garbow, Hillstrom 1981, number 30)."""
    left = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
    right = np.concatenate([x[1:], np.zeros_like(x[:1])])
    return (3 - 2 * x) * x - left - 2 * right + 1


@pytest.mark.parametrize("sparse", ["auto", True, False])
def test_roots_and_least_squares(sparse: Any) -> None:
    s = wb.optimize.problem(chain, -np.ones(30), sparse=sparse)
    for method in ("hybr", "lm"):
        found = scipy.optimize.root(**s.root(method))
        assert found.success
        assert np.abs(chain(found.x)).max() < 1e-6
    for method in ("trf", "dogbox", "lm"):
        best = scipy.optimize.least_squares(**s.least_squares(method))
        np.testing.assert_allclose(best.x, found.x, atol=1e-6)
    inside = wb.optimize.problem(chain, -np.ones(30), bounds=(-0.6, 0), sparse=sparse)
    with pytest.raises(UsageError, match="'lm' takes no bounds"):
        inside.least_squares("lm")
    with pytest.raises(UsageError, match="root takes no bounds"):
        inside.root()


def test_systems_that_do_not_fit() -> None:
    s = wb.optimize.problem(lambda x: x[:2], np.ones(3))
    with pytest.raises(UsageError, match="2 equations for 3 variables"):
        s.root()
    with pytest.raises(UsageError, match="without a time"):
        s.solve_ivp((0, 1))
    with pytest.raises(UsageError, match="no method 'newton'"):
        s.least_squares("newton")
    with pytest.raises(UsageError, match="uses no Jacobian"):
        s.root("krylov")
    with pytest.raises(AttributeError, match="that needs one number"):
        _ = s.minimize
    flow = wb.optimize.problem(lambda t, x: -x, np.ones(3), t0=0.0)
    with pytest.raises(UsageError, match="has a time t0"):
        flow.root()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "RK45"])
def test_a_stiff_equation(method: str, sparse: bool) -> None:
    """Prothero and Robinson's: x' = -1000 (x - cos t) - sin t, so x = cos t."""
    s = wb.optimize.problem(
        lambda t, x: -1000.0 * (x - np.cos(t)) - np.sin(t), np.ones(3), t0=0.0,
        sparse=sparse,
    )  # fmt: skip
    found = scipy.integrate.solve_ivp(
        **s.solve_ivp((0.0, 1.0), method), rtol=1e-6, atol=1e-9
    )
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], np.cos(1.0), atol=1e-4)
    j = s.jacobian(0.5, np.ones(3))
    whole = j.toarray() if sparse else j
    np.testing.assert_allclose(whole, -1000.0 * np.eye(3))


# IPOPT


@pytest.mark.parametrize("sparse", [True, False])
def test_ipopt(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    monkeypatch.setitem(sys.modules, "cyipopt", cyipopt_stand_in)
    p = wb.optimize.problem(
        bowl, np.array([0.5, 0.5, 0.5, 0.5]),
        constraints=[(lambda x: x[:2] ** 2, 1.0, 1.0), (np.sum, 2.0, 2.0)],
        sparse=sparse,
    )  # fmt: skip
    given = p.ipopt()
    assert {*given} == {"n", "m", "problem_obj", "lb", "ub", "cl", "cu"}
    found = p.solve("ipopt", max_iter=100)
    assert found.success
    assert found.message == "Algorithm terminated successfully."
    np.testing.assert_allclose(found.x[:2] ** 2, 1.0)
    assert found.x.sum() == pytest.approx(2.0)
    lagrangian = p.gradient(found.x)
    j = p.jacobian(found.x)
    j = j.toarray() if sparse else j
    np.testing.assert_allclose(lagrangian, -j.T @ found.info["mult_g"], atol=1e-8)
    if sparse:
        assert len(given["problem_obj"].jacobianstructure()[0]) == 6
        # The square of x[0] couples with itself, and x[0] with x[1] in the objective.
        assert len(given["problem_obj"].hessianstructure()[0]) == 5
    # IPOPT restores feasibility without the objective: the structure stays.
    lower = given["problem_obj"].hessian(p.x0, np.ones(3), 0.0)
    assert len(lower) == len(given["problem_obj"].hessianstructure()[0])


def test_ipopt_without_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyipopt", cyipopt_stand_in)
    p = wb.optimize.problem(bowl, np.zeros(4))
    np.testing.assert_allclose(p.solve("ipopt").x, TARGET, atol=1e-6)


def test_ipopt_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyipopt", None)
    p = wb.optimize.problem(bowl, np.zeros(4))
    with pytest.raises(UsageError, match=r"needs cyipopt.*pip install cyipopt"):
        p.solve("ipopt")


@pytest.mark.parametrize("sparse", [True, False])
def test_structures_for_ipopt_may_be_changed(sparse: bool) -> None:
    p = wb.optimize.problem(
        bowl, np.zeros(4), constraints=[(lambda x: x**2, 1.0, 1.0)], sparse=sparse
    )
    q = p.ipopt()["problem_obj"]
    for structure in (q.jacobianstructure, q.hessianstructure):
        before = [x.copy() for x in structure()]
        for x in structure():
            x[:] = -1
        np.testing.assert_array_equal(structure(), before)
