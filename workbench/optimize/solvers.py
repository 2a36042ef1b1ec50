"""What each solver takes, made of an `Objective` or of `Equations`.

SciPy's solvers take keywords; which of them use gradients, Hessians, bounds and
constraints stands in one table. IPOPT takes an object with methods and structures.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from workbench.core.tree import is_sparse
from workbench.errors import UsageError
from workbench.optimize.derivatives import Equations, Objective
from workbench.optimize.variables import Vector, find_rows


class _Method(NamedTuple):
    """What a method of `scipy.optimize.minimize` uses."""

    second: str = ""  # "matrix", "product" or "either"
    bounds: bool = False
    constraints: bool = False


METHODS = {
    "trust-constr": _Method("either", bounds=True, constraints=True),
    "SLSQP": _Method(bounds=True, constraints=True),
    "L-BFGS-B": _Method(bounds=True),
    "TNC": _Method(bounds=True),
    "BFGS": _Method(),
    "CG": _Method(),
    "Newton-CG": _Method("product"),
    "trust-ncg": _Method("product"),
    "trust-krylov": _Method("product"),
    "trust-exact": _Method("matrix"),
    "dogleg": _Method("matrix"),
}
#: The methods that only compare values.
VALUE_METHODS = ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")

#: A dense Hessian of more variables is not made as a matrix unless asked for.
MOST_DENSE = 500


def _find_method(name: str) -> str:
    for known in METHODS:
        if known.lower() == name.lower():
            return known
    if name.lower() in [other.lower() for other in VALUE_METHODS]:
        raise UsageError(
            f"minimize: {name!r} uses no derivatives, so there is nothing to prepare."
            " Write scipy.optimize.minimize(p.value, p.x0, method=...), or take"
            " 'trust-constr' or 'SLSQP'."
        )
    raise UsageError(f"minimize: there is no method {name!r}. Known: {[*METHODS]}.")


def minimize_arguments(p: Objective, method: str, hessian: str) -> dict[str, Any]:
    """Return the arguments of `scipy.optimize.minimize`."""
    name = _find_method(method)
    uses = METHODS[name]
    if hessian not in ("auto", "matrix", "product", "bfgs"):
        raise UsageError(
            f"minimize: hessian={hessian!r}. Write 'auto', 'matrix', 'product' or"
            " 'bfgs'."
        )
    if p.m and not uses.constraints:
        raise UsageError(
            f"minimize: {name!r} takes no constraints, and the problem has {p.m}. Take"
            " 'trust-constr', 'SLSQP' or IPOPT."
        )
    if p.bounds is not None and not uses.bounds:
        raise UsageError(
            f"minimize: {name!r} takes no bounds, and the problem has some. Take"
            " 'L-BFGS-B', 'TNC', 'SLSQP' or 'trust-constr'."
        )
    # Return value and gradient as a pair: solvers ask for both at once.
    made: dict[str, Any] = {
        "fun": p.value_and_gradient, "x0": p.x0.copy(), "jac": True, "method": name,
    }  # fmt: skip
    if p.bounds is not None:
        made["bounds"] = import_module("scipy.optimize").Bounds(*p.bounds)
    if name == "trust-constr":
        made.update(_trust_constr_arguments(p, hessian))
    elif name == "SLSQP" and p.m:
        made["constraints"] = _slsqp_constraints(p)
    elif uses.second == "product":
        made["hessp"] = p.hessian_product
    elif uses.second == "matrix":
        made["hess"] = lambda x: to_dense(p.hessian(x))
    return made


def to_dense(matrix: Any) -> Any:
    """Return a matrix as a plain array."""
    return matrix.toarray() if is_sparse(matrix) else matrix


def _takes_matrix(p: Objective, form: str) -> bool:
    if form == "auto":
        return p.n <= MOST_DENSE or p.has_sparse_hessian
    return form == "matrix"


def _trust_constr_arguments(p: Objective, form: str) -> dict[str, Any]:
    """Return the second derivatives and the constraints of ``"trust-constr"``."""
    scipy = import_module("scipy.optimize")
    operator = import_module("scipy.sparse.linalg").LinearOperator
    matrix = form != "bfgs" and _takes_matrix(p, form)

    def multiply(x: Vector, v: Vector) -> Any:
        """Return the part of the constraints as a product: no matrix is made."""
        at, weights = x.copy(), np.array(v)
        return operator(
            (p.n, p.n),
            matvec=lambda u: p.hessian_product(at, np.ravel(u), weights, 0.0),
            dtype=np.dtype(float),
        )

    made: dict[str, Any] = {}
    second: Any = p.constraints_hessian
    if form == "bfgs":
        made["hess"], second = scipy.BFGS(), scipy.BFGS()
    elif matrix:
        made["hess"] = p.hessian
    else:
        made["hessp"], second = p.hessian_product, multiply
    if p.m:
        lower, upper = p.limits
        made["constraints"] = scipy.NonlinearConstraint(
            p.constraints, lower, upper, jac=p.jacobian, hess=second
        )
    return made


def _slsqp_constraints(p: Objective) -> list[dict[str, Any]]:
    """Return equations ``c(x) = 0`` and inequalities ``c(x) >= 0``."""
    lower, upper = p.limits
    equal = lower == upper
    low, high = np.isfinite(lower) & ~equal, np.isfinite(upper) & ~equal
    made: list[dict[str, Any]] = []
    if equal.any():
        made.append({
            "type": "eq",
            "fun": lambda x: p.constraints(x)[equal] - lower[equal],
            "jac": lambda x: to_dense(p.jacobian(x))[equal],
        })  # fmt: skip

    def above(x: Vector) -> Vector:
        c = p.constraints(x)
        return np.concatenate([c[low] - lower[low], upper[high] - c[high]])

    def slope(x: Vector) -> Any:
        dense = to_dense(p.jacobian(x))
        return np.concatenate([dense[low], -dense[high]])

    if low.any() or high.any():
        made.append({"type": "ineq", "fun": above, "jac": slope})
    return made


# Systems


def least_squares_arguments(s: Equations, method: str) -> dict[str, Any]:
    """Return the arguments of `scipy.optimize.least_squares`."""
    if method not in ("trf", "dogbox", "lm"):
        raise UsageError(
            f"least_squares: there is no method {method!r}. Write 'trf', 'dogbox' or"
            " 'lm'."
        )
    _refuse_time(s, "least_squares")
    dense = method == "lm"
    made: dict[str, Any] = {
        "fun": s.value, "x0": s.x0.copy(), "method": method,
        "jac": (lambda x: to_dense(s.jacobian(x))) if dense else s.jacobian,
    }  # fmt: skip
    if s.bounds is not None:
        if method == "lm":
            raise UsageError(
                "least_squares: 'lm' takes no bounds, and the problem has some. Take"
                " 'trf' or 'dogbox'."
            )
        made["bounds"] = s.bounds
    return made


def root_arguments(s: Equations, method: str) -> dict[str, Any]:
    """Return the arguments of `scipy.optimize.root`."""
    if method not in ("hybr", "lm"):
        raise UsageError(
            f"root: the method {method!r} uses no Jacobian. Write 'hybr' or 'lm', or"
            " scipy.optimize.root(p.value, p.x0, method=...)."
        )
    _refuse_time(s, "root")
    if s.m != s.n:
        raise UsageError(
            f"root: {s.m} equations for {s.n} variables. Give one equation for each"
            " variable, or take p.least_squares()."
        )
    if s.bounds is not None:
        raise UsageError(
            "root takes no bounds, and the problem has some. Take p.least_squares()."
        )
    return {
        "fun": s.value, "x0": s.x0.copy(), "method": method,
        "jac": lambda x: to_dense(s.jacobian(x)),
    }  # fmt: skip


def _refuse_time(s: Equations, name: str) -> None:
    if s.t0 is not None:
        raise UsageError(
            f"{name}: the problem has a time t0, for solve_ivp. Leave t0 out and write"
            " f(x)."
        )


def solve_ivp_arguments(
    s: Equations, t_span: tuple[float, float], method: str
) -> dict[str, Any]:
    """Return the arguments of `scipy.integrate.solve_ivp`."""
    if s.t0 is None:
        raise UsageError(
            "solve_ivp: the problem was made without a time. Write"
            " wb.optimize.problem(f, x0, t0=0.0) with f(t, x)."
        )
    made: dict[str, Any] = {
        "fun": s.value, "t_span": t_span, "y0": s.x0.copy(), "method": method,
    }  # fmt: skip
    if method in ("Radau", "BDF"):
        made["jac"] = s.jacobian
    elif method == "LSODA":
        made["jac"] = lambda t, x: to_dense(s.jacobian(t, x))
    return made


# IPOPT


class IpoptCallbacks:
    """The methods that cyipopt calls, with the structures of its matrices.

    Values stand in the order of the structure: the Jacobian row by row, and of the
    Hessian of the Lagrangian the lower triangle.
    """

    def __init__(self, p: Objective) -> None:
        self._problem = p
        self._jacobian_places = _find_places(p.jacobian(p.x0))
        rows, columns = _find_places(p.lagrangian_hessian(p.x0, np.ones(p.m)))
        self._lower = np.flatnonzero(columns <= rows)
        self._hessian_places = rows[self._lower], columns[self._lower]

    def objective(self, x: Vector) -> float:
        """Return the objective."""
        return self._problem.value(x)

    def gradient(self, x: Vector) -> Vector:
        """Return the gradient of the objective, (n,)."""
        return self._problem.gradient(x)

    def constraints(self, x: Vector) -> Vector:
        """Return the constraints, (m,)."""
        return self._problem.constraints(x)

    def jacobianstructure(self) -> tuple[Any, Any]:
        """Return the rows and columns of the entries of `jacobian`."""
        rows, columns = self._jacobian_places
        return rows.copy(), columns.copy()  # the caller may change them

    def jacobian(self, x: Vector) -> Vector:
        """Return the entries of the Jacobian of the constraints."""
        return _list_values(self._problem.jacobian(x))

    def hessianstructure(self) -> tuple[Any, Any]:
        """Return the rows and columns of the entries of `hessian`."""
        rows, columns = self._hessian_places
        return rows.copy(), columns.copy()

    def hessian(self, x: Vector, lagrange: Vector, obj_factor: float) -> Vector:
        """Return the entries of the Hessian of the Lagrangian, lower triangle."""
        made = self._problem.lagrangian_hessian(x, lagrange, obj_factor)
        return _list_values(made)[self._lower]


def _find_places(matrix: Any) -> tuple[Any, Any]:
    """Return the rows and columns of the entries of a matrix, as they are listed."""
    if is_sparse(matrix):
        return find_rows(matrix.indptr), np.asarray(matrix.indices, dtype=np.int64)
    rows, columns = np.indices(matrix.shape)
    return rows.ravel(), columns.ravel()


def _list_values(matrix: Any) -> Vector:
    return np.asarray(matrix.data if is_sparse(matrix) else matrix).ravel()


def ipopt_arguments(p: Objective) -> dict[str, Any]:
    """Return the arguments of `cyipopt.Problem`."""
    lower, upper = p.bounds or (np.full(p.n, -np.inf), np.full(p.n, np.inf))
    return {
        "n": p.n, "m": p.m, "problem_obj": IpoptCallbacks(p),
        "lb": lower.copy(), "ub": upper.copy(),
        "cl": p.limits[0].copy(), "cu": p.limits[1].copy(),
    }  # fmt: skip


def solve_with_ipopt(p: Objective, options: dict[str, Any]) -> Any:
    """Solve by IPOPT; return a result as SciPy's."""
    try:
        cyipopt = import_module("cyipopt")
    except ImportError:
        raise UsageError(
            "solve: method 'ipopt' needs cyipopt. Run `pip install cyipopt` (or"
            " `conda install -c conda-forge cyipopt`), or take 'trust-constr'."
        ) from None
    solver = cyipopt.Problem(**ipopt_arguments(p))
    for name, value in options.items():
        solver.add_option(name, value)
    x, told = solver.solve(p.x0.copy())
    message = told.get("status_msg", b"")
    return import_module("scipy.optimize").OptimizeResult(
        x=x, fun=told.get("obj_val"), status=told.get("status"), info=told,
        success=told.get("status") in (0, 1),
        message=message.decode() if isinstance(message, bytes) else message,
    )  # fmt: skip
