"""`problem`: a program in the form that solvers take.

Its values and derivatives are in `derivatives.py`; which solver takes what, in
`solvers.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import is_one_number
from workbench.errors import UsageError
from workbench.optimize import derivatives, solvers
from workbench.optimize.variables import VectorLayout, read_bounds

#: What SciPy calls constraints of its dicts: ``g(x) = 0``, ``g(x) >= 0``.
KINDS = ("eq", "ineq")


def problem(
    f: derivatives.Function,
    x0: Any,
    *,
    constraints: Sequence[Any] = (),
    bounds: Any = None,
    t0: float | None = None,
    sparse: derivatives.Sparse = "auto",
) -> Any:
    """Return the derivatives of a program in the form that solvers take.

    Parameters
    ----------
    f
        What is solved. If it returns one number, an objective to be made small; if it
        returns an array or a nest of them, residuals or the right-hand side of a
        system.
    x0
        Where the solver starts: an array or a nest of arrays, as ``f`` takes it.
        Solvers see one flat vector of float64; ``f`` is called with what is nested and
        shaped as ``x0``.
    constraints
        Of an objective: triples ``(g, lower, upper)`` for ``lower <= g(x) <= upper``,
        with None for no bound and twice the same for an equation. ``g`` returns
        numbers of any shape, the bounds are a number or one for each of these. Or as
        SciPy takes them: ``{"type": "eq", "fun": g}``, a `NonlinearConstraint` or a
        `LinearConstraint`; derivatives that stand in them are not used.
    bounds
        ``(lower, upper)`` on the variables: numbers, arrays or nests like ``x0``, or
        None; or a `scipy.optimize.Bounds`.
    t0
        For `scipy.integrate.solve_ivp`: a time. ``f`` is then ``f(t, x)``, the
        derivative of x by time.
    sparse
        Whether Jacobians and Hessians are sparse arrays: ``"auto"`` where that pays,
        True or False.

    Returns
    -------
    A :class:`Problem` for an objective, a :class:`System` for anything else. What ``f``
    and ``g`` read besides their argument is constant: as it was at the first call.

    Raises
    ------
    UsageError
        If the value at ``x0`` is not finite, with the doctor's finding.
    ShapeError, DtypeError
        If bounds do not fit, or something is complex.

    Examples
    --------
    >>> import numpy as np, scipy.optimize, workbench as wb
    >>> def valley(x):
    ...     return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    >>> circle = (lambda x: np.sum(x**2), None, 1.0)
    >>> p = wb.optimize.problem(valley, np.zeros(2), constraints=[circle])
    >>> result = scipy.optimize.minimize(**p.minimize("trust-constr"))
    >>> np.round(result.x, 4)
    array([0.7864, 0.6177])
    >>> np.round(p.solve("SLSQP").x, 4)
    array([0.7864, 0.6177])

    >>> p = wb.optimize.problem(lambda x: x**2 - np.array([4.0, 9.0]), np.ones(2))
    >>> np.round(scipy.optimize.root(**p.root()).x, 6)
    array([2., 3.])
    """
    if not callable(f):
        raise UsageError(
            f"problem: f is {blame.shorten(repr(f))}, not a function. Of a symbolic"
            " expression pass wb.function([x], expression)."
        )
    sparse = _read_sparse(sparse)
    layout = VectorLayout(x0)
    limits = read_bounds(bounds, layout)
    if t0 is not None:
        _refuse_constraints(constraints, "solve_ivp")
        return System(f, layout, limits, float(t0), sparse)
    value = derivatives.try_call(f, layout.unpack(layout.start.copy()))
    if getattr(value, "shape", None) == () or np.isscalar(value):
        return Problem(f, layout, limits, _list_constraints(constraints), sparse)
    if len(constraints) and is_one_number(np.shape(value)):  # residuals have none
        f = _drop_axes(f)
        return Problem(f, layout, limits, _list_constraints(constraints), sparse)
    _refuse_constraints(constraints, f"f, which returns {_describe(value)},")
    return System(f, layout, limits, None, sparse)


def _drop_axes(f: derivatives.Function) -> derivatives.Function:
    """Return a function with a result of one number reshaped to no axes."""

    @wraps(f)
    def objective(*args: Any) -> Any:
        return np.reshape(f(*args), ())

    return objective


def _read_sparse(given: Any) -> derivatives.Sparse:
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    if isinstance(given, str) and given == "auto":
        return "auto"
    raise UsageError(
        f"problem: sparse={blame.shorten(repr(given))}. Write 'auto', True or False."
    )


def _refuse_constraints(constraints: Sequence[Any], what: str) -> None:
    if len(constraints):
        raise UsageError(
            f"problem: {what} takes no constraints: only an objective, a function that"
            " returns one number, has them. Return np.sum(r**2) to make residuals"
            " small under constraints."
        )


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"shape {shape}"


def _list_constraints(constraints: Any) -> list[tuple[derivatives.Function, Any, Any]]:
    """Return the triples of an argument, one of them alone too."""
    triple = isinstance(constraints, tuple) and constraints and callable(constraints[0])
    several = isinstance(constraints, Iterable) and not isinstance(constraints, Mapping)
    if triple or not several:
        constraints = [constraints]
    return [_read_constraint(i, one) for i, one in enumerate(constraints)]


def _call_with(g: derivatives.Function, args: Sequence[Any], x: Any) -> Any:
    return g(x, *args)


def _read_constraint(i: int, one: Any) -> tuple[derivatives.Function, Any, Any]:
    """Return a constraint as a triple; SciPy's own forms are taken too."""
    given = one
    if isinstance(one, Mapping):
        kind, g, args = str(one.get("type")).lower(), one.get("fun"), one.get("args")
        if args and callable(g):
            g = partial(_call_with, g, args)
        one = (g, 0.0, 0.0 if kind == "eq" else None) if kind in KINDS else None
    elif hasattr(one, "lb") and hasattr(one, "ub"):  # without loading SciPy for it
        g = partial(operator.matmul, one.A) if hasattr(one, "A") else one.fun
        one = (g, one.lb, one.ub)
    if isinstance(one, (tuple, list)) and len(one) == 3 and callable(one[0]):
        return one[0], one[1], one[2]
    raise UsageError(
        f"problem: constraint {i} is {blame.shorten(repr(given))}. Write"
        " (g, lower, upper) for lower <= g(x) <= upper, with None for no bound"
        " and (g, 0, 0) for g(x) = 0; or give one of SciPy's: a dict of 'type'"
        " ('eq' or 'ineq') and 'fun', or a NonlinearConstraint."
    )


class Problem(derivatives.Objective):
    """An objective with constraints, made by :func:`workbench.optimize.problem`.

    Every method takes a flat vector (n,) and returns plain numbers and arrays, which
    the caller may change. What was computed at a point is kept until another point
    comes.

    Attributes
    ----------
    n, m
        The numbers of variables and of constraints.
    x0, bounds
        Where solvers start, (n,), and ``(lower, upper)`` or None.
    limits
        ``(lower, upper)`` of the constraints, each (m,).
    counts
        How often each function was computed.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> p = wb.optimize.problem(
    ...     lambda x: x[0] * x[1], np.array([2.0, 3.0]),
    ...     constraints=[(lambda x: x[0] ** 2 + x[1] ** 2, None, 8.0)], sparse=False)
    >>> p.value(p.x0), p.gradient(p.x0), p.constraints(p.x0), p.jacobian(p.x0)
    (6.0, array([3., 2.]), array([13.]), array([[4., 6.]]))
    >>> p.lagrangian_hessian(p.x0, [1.0])
    array([[2., 1.],
           [1., 2.]])
    """

    def __repr__(self) -> str:
        return f"<Problem of {self.n} variables and {self.m} constraints>"

    # What solvers take

    def minimize(self, method: str = "trust-constr", hessian: str = "auto") -> Any:
        """Return the arguments of `scipy.optimize.minimize`, as keywords.

        Parameters
        ----------
        method
            A method of SciPy's that uses derivatives.
        hessian
            How ``"trust-constr"`` sees second derivatives: ``"matrix"``, ``"product"``
            (never made as a matrix), or ``"auto"``: a matrix where it is sparse or
            small. ``"bfgs"`` is an estimate from gradients.

        Raises
        ------
        UsageError
            If the method takes no constraints or bounds, and the problem has some; if
            it uses no derivatives.

        Examples
        --------
        >>> import numpy as np, scipy.optimize, workbench as wb
        >>> p = wb.optimize.problem(lambda x: np.sum((x - 3) ** 4), np.zeros(2),
        ...                         bounds=(None, 2.0))
        >>> scipy.optimize.minimize(**p.minimize("L-BFGS-B")).x
        array([2., 2.])
        """
        return solvers.minimize_arguments(self, method, hessian)

    def solve(self, method: str = "trust-constr", **settings: Any) -> Any:
        """Solve by `scipy.optimize.minimize`, or by IPOPT with ``method="ipopt"``.

        Parameters
        ----------
        method
            ``"ipopt"`` (needs cyipopt), or a method of SciPy's.
        settings
            Further arguments of `scipy.optimize.minimize`, such as ``tol``,
            ``callback`` and ``options``; of IPOPT its options.

        Returns
        -------
        SciPy's result; ``p.unpack(result.x)`` nests the solution as ``x0``.
        """
        if method.lower() == "ipopt":
            return solvers.solve_with_ipopt(self, settings)
        form = settings.pop("hessian", "auto")
        return _scipy().minimize(**self.minimize(method, form), **settings)

    def ipopt(self) -> dict[str, Any]:
        """Return the arguments of `cyipopt.Problem`, as keywords.

        Structures are those of the sparse Jacobian and of the lower triangle of the
        Hessian of the Lagrangian: ``cyipopt.Problem(**p.ipopt()).solve(p.x0)``.
        """
        return solvers.ipopt_arguments(self)

    def __getattr__(self, name: str) -> Any:
        if name in ("least_squares", "root", "solve_ivp"):
            raise AttributeError(
                f"a Problem, whose f returns one number, has no {name}: that solves for"
                " a vector. Let f return the residuals, or f(t, x) with t0=."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


class System(derivatives.Equations):
    """Residuals or the right-hand side of a system, made by `problem`.

    Attributes
    ----------
    n, m
        The numbers of variables and of values.
    x0, bounds
        Where solvers start, (n,), and ``(lower, upper)`` or None.
    t0
        A time, of a right-hand side ``f(t, x)``; else None.
    counts
        How often each function was computed.

    Examples
    --------
    >>> import numpy as np, scipy.integrate, workbench as wb
    >>> decay = wb.optimize.problem(lambda t, x: -x * t, np.ones(2), t0=0.0)
    >>> made = scipy.integrate.solve_ivp(**decay.solve_ivp((0.0, 2.0)), rtol=1e-8)
    >>> np.round(made.y[:, -1], 5)
    array([0.13534, 0.13534])
    """

    def __repr__(self) -> str:
        return f"<System of {self.n} variables and {self.m} values>"

    def least_squares(self, method: str = "trf") -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.least_squares`, as keywords.

        Examples
        --------
        >>> import numpy as np, scipy.optimize, workbench as wb
        >>> t = np.linspace(0, 1, 5)
        >>> misfit = lambda p: p["a"] * np.exp(p["k"] * t) - 2 * np.exp(-t)
        >>> p = wb.optimize.problem(misfit, {"a": 1.0, "k": 0.0})
        >>> best = scipy.optimize.least_squares(**p.least_squares())
        >>> np.round(best.x, 4)
        array([ 2., -1.])
        """
        return solvers.least_squares_arguments(self, method)

    def root(self, method: str = "hybr") -> dict[str, Any]:
        """Return the arguments of `scipy.optimize.root`, as keywords."""
        return solvers.root_arguments(self, method)

    def solve_ivp(
        self, t_span: tuple[float, float], method: str = "Radau"
    ) -> dict[str, Any]:
        """Return the arguments of `scipy.integrate.solve_ivp`, as keywords.

        Parameters
        ----------
        t_span
            The first and the last time.
        method
            ``"Radau"``, ``"BDF"`` and ``"LSODA"`` use the Jacobian.
        """
        return solvers.solve_ivp_arguments(self, t_span, method)

    def __getattr__(self, name: str) -> Any:
        if name in ("minimize", "solve", "ipopt", "gradient", "hessian"):
            raise AttributeError(
                f"a System, whose f returns {self.__dict__.get('m')} numbers, has no"
                f" {name}: that needs one number. Return np.sum(r**2), or f(x)[0] of"
                " one entry; residuals go to p.least_squares() and p.root()."
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _scipy() -> Any:
    return import_module("scipy.optimize")
