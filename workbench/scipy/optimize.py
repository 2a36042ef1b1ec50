"""`scipy.optimize` for Tensors: roots and minima as functions of parameters.

SciPy's solvers find them; their derivatives follow from the equation that they
solve (see `autodiff/implicit.py`), for what the function reads through its closure
and for ``args``. On arrays outside every trace each is SciPy's own function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np

from workbench.autodiff.grad import grad
from workbench.autodiff.implicit import root as implicit
from workbench.autodiff.jacobian import jacobian
from workbench.core import blame, traces, tree
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import ConvergenceError, NotDifferentiableError, UsageError
from workbench.ops.define import shape_of

__all__ = [
    "Bounds",
    "LinearConstraint",
    "bisect",
    "brenth",
    "brentq",
    "fixed_point",
    "least_squares",
    "minimize",
    "minimize_scalar",
    "ridder",
    "root",
    "root_scalar",
]

Function = Callable[..., Any]

#: Newton's step from a minimum may be so large, beside its entries: its derivatives are
#: about as exact as the point.
EXACT = 1e-4


def _scipy() -> ModuleType:
    """Return SciPy's module, loaded when one of its solvers is first needed."""
    return import_module("scipy.optimize")


def _to_tuple(args: object) -> tuple[Any, ...]:
    return args if isinstance(args, tuple) else (args,)


def _refuse_settings(name: str, settings: dict[str, Any], *unknown: str) -> None:
    """Refuse settings that a derivative could not honour."""
    for setting in unknown:
        given = settings.get(setting)
        if given is not None and given is not False and given != ():
            raise UsageError(
                f"{name}(..., {setting}=...){blame.user_line()} is not known inside a"
                " derivative. Leave it out; derivatives of the function are found by"
                " themselves."
            )


def _check_convergence(name: str, result: Any) -> Any:
    """Return the result of a solver, or raise if the solver reports failure."""
    success = getattr(result, "success", getattr(result, "converged", True))
    if not success:
        message = getattr(result, "message", None) or getattr(result, "flag", "")
        raise ConvergenceError(
            f"{name}{blame.user_line()}: {str(message).rstrip('.')}. Its derivative"
            " would be that of no root: start nearer by, or take another method."
        )
    return result


def _check_bracket(name: str, f: Function, bracket: Sequence[float]) -> None:
    """Refuse an interval without a change of sign between its ends."""
    a, b = bracket
    low, high = (float(f(np.float64(x))) for x in bracket)
    if not low * high > 0:
        return
    raise UsageError(
        f"{name}{blame.user_line()}: f(a) and f(b) must have different signs, and"
        f" f({a:g}) = {low:.6g}, f({b:g}) = {high:.6g}. Give an interval in which it"
        " crosses zero; without one, root_scalar(f, x0=...) starts from a point."
    )


def root(
    fun: Function,
    x0: ArrayLike,
    args: object = (),
    method: str = "hybr",
    jac: object = None,
    tol: float | None = None,
    callback: object = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Find a root of a vector function, differentiable by all values in ``fun``.

    Parameters
    ----------
    fun
        ``fun(x, *args)``, a vector as long as x, that is to vanish.
    x0
        Where the search starts, shape (n,); the root does not depend on it.
    args
        Further arguments of ``fun``: nests of arrays, differentiable.
    method, tol, options
        As for `scipy.optimize.root`.

    Returns
    -------
    SciPy's result; its ``x`` has derivatives of any order, in both modes.

    Raises
    ------
    ConvergenceError
        If no root was found.
    MatrixError
        If the derivative of ``fun`` at the root is singular.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import root
    >>> f = lambda a: root(lambda x, a: x**2 - a, np.ones(2), a).x
    >>> np.round(wb.jacobian(f)(np.array([4.0, 9.0])), 9)
    array([[0.25      , 0.        ],
           [0.        , 0.16666667]])
    """
    settings = {"method": method, "tol": tol, "options": options}
    args = _to_tuple(args)
    if not traces.has_open_trace():
        return _scipy().root(fun, x0, args, jac=jac, callback=callback, **settings)
    _refuse_settings("root", {"jac": jac, "callback": callback}, "jac", "callback")
    results: list[Any] = []

    def solve(f: Function, x: ArrayLike) -> Any:
        found = blame.call_solver("root", lambda: _scipy().root(f, x, **settings))
        results[:] = [_check_convergence("root", found)]
        return results[0].x

    x0 = np.atleast_1d(_to_array(x0).astype(float))
    x = implicit(lambda x: _to_vector(fun(x, *args)), x0, solve, None, "root")
    return _scipy().OptimizeResult({**(results[0] if results else {}), "x": x})


def root_scalar(
    f: Function,
    args: object = (),
    method: str | None = None,
    bracket: Sequence[float] | None = None,
    fprime: object = None,
    fprime2: object = None,
    x0: float | None = None,
    x1: float | None = None,
    **settings: Any,
) -> Any:
    """Find a root of an equation in one number, as `scipy.optimize.root_scalar` does.

    As :func:`root` for one equation ``f(x, *args) = 0``; the result's ``root`` has
    derivatives. Inside a derivative, ``fprime`` asks for the true one.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.optimize import root_scalar
    >>> f = lambda a: root_scalar(lambda x: x**3 - a, bracket=(0, 5)).root
    >>> round(float(wb.grad(f)(8.0)), 9)
    0.083333333
    """
    args = _to_tuple(args)
    return _find_scalar_root(
        "root_scalar", f, args, method, bracket, fprime, fprime2, x0, x1, settings
    )


def _find_scalar_root(
    name: str,
    f: Function,
    args: tuple[Any, ...],
    method: str | None,
    bracket: Sequence[Any] | None,
    fprime: object,
    fprime2: object,
    x0: Any,
    x1: Any,
    settings: dict[str, Any],
) -> Any:
    """Find a root as `root_scalar` does; errors use the given ``name``."""
    more = {"method": method, "bracket": bracket, "x0": x0, "x1": x1, **settings}
    if not traces.has_open_trace():
        return _scipy().root_scalar(f, args, fprime=fprime, fprime2=fprime2, **more)
    if fprime is True:
        plain, f = f, lambda x, *a: plain(x, *a)[0]
    results: list[Any] = []
    if bracket is not None:
        more["bracket"] = [_require_number(x) for x in bracket]
    for key, x in (("x0", x0), ("x1", x1)):
        if x is not None:
            more[key] = _require_number(x)
    start = more["x0"] if bracket is None else sum(more["bracket"]) / 2
    if start is None:
        raise UsageError(
            f"{name}{blame.user_line()}: give a bracket or x0 to start from."
        )

    def solve(f: Function, x: ArrayLike) -> Any:
        more["fprime"] = grad(f) if fprime else None
        more["fprime2"] = grad(grad(f)) if fprime2 else None
        one = lambda x: f(np.float64(x))  # noqa: E731
        try:
            found = blame.call_solver(name, lambda: _scipy().root_scalar(one, **more))
        except UsageError as error:
            if bracket is not None and "different signs" in str(error):
                _check_bracket(name, one, more["bracket"])
            raise
        results[:] = [_check_convergence(name, found)]
        return np.float64(found.root)

    made = implicit(
        lambda x: np.reshape(f(x, *args), ()), np.float64(start), solve, None, name
    )  # fmt: skip
    return _scipy().OptimizeResult({**(results[0] if results else {}), "root": made})


def _make_bracketed(name: str) -> Function:
    """Make SciPy's solver of this name, between two points of different sign."""

    def solver(
        f: Function,
        a: float,
        b: float,
        args: Any = (),
        xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16,
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Array:
        settings = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
        if not traces.has_open_trace():
            more = {"full_output": full_output, "disp": disp}
            return getattr(_scipy(), name)(f, a, b, _to_tuple(args), **settings, **more)
        _refuse_settings(name, {"full_output": full_output}, "full_output")
        return _find_scalar_root(
            name, f, _to_tuple(args), name, (a, b), None, None, None, None, settings
        ).root

    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"""Find a root between two points: `scipy.optimize.{name}`.

    It has derivatives as that of `root_scalar` with this method.

    >>> import workbench as wb
    >>> from workbench.scipy.optimize import {name}
    >>> round(float(wb.grad(lambda a: {name}(lambda x: x * x - a, 0, 9))(4.0)), 6)
    0.25
    """
    return solver


bisect = _make_bracketed("bisect")
brenth = _make_bracketed("brenth")
brentq = _make_bracketed("brentq")
ridder = _make_bracketed("ridder")


def fixed_point(
    func: Function,
    x0: ArrayLike,
    args: object = (),
    xtol: float = 1e-08,
    maxiter: int = 500,
    method: str = "del2",
) -> Array:
    """Find x with ``func(x, *args) = x``, as `scipy.optimize.fixed_point` does.

    Parameters
    ----------
    func
        ``func(x, *args)``, of the shape of x; it may read Tensors.
    x0
        Where the search starts; the fixed point does not depend on it.
    args
        Further arguments of ``func``: nests of arrays, differentiable.
    xtol, maxiter, method
        As for SciPy.

    Returns
    -------
    The fixed point, with derivatives of any order, in both modes.

    Raises
    ------
    ConvergenceError
        If no fixed point was found.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import fixed_point
    >>> f = lambda a: fixed_point(lambda x, a: (x + a / x) / 2, 1.0, a)
    >>> round(float(wb.grad(f)(4.0)), 6)
    0.25
    """
    args = _to_tuple(args)
    if not traces.has_open_trace():
        return _scipy().fixed_point(func, x0, args, xtol, maxiter, method)

    def solve(f: Function, x: ArrayLike) -> Any:
        step = lambda x: np.asarray(f(np.reshape(x, np.shape(x0))) + x)  # noqa: E731
        found = blame.call_solver(
            "fixed_point",
            lambda: _scipy().fixed_point(step, x, (), xtol, maxiter, method),
        )
        return np.reshape(found, np.shape(x))

    x0 = _to_array(x0).astype(float)
    return implicit(lambda x: func(x, *args) - x, x0, solve, None, "fixed_point")


def minimize(
    fun: Function,
    x0: ArrayLike,
    args: object = (),
    method: str | None = None,
    jac: Any = None,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Find a minimum, differentiable by all values in ``fun``.

    Parameters
    ----------
    fun
        ``fun(x, *args)``, one number.
    x0
        Where the search starts, shape (n,); the minimum does not depend on it.
    args
        Further arguments of ``fun``: nests of arrays, differentiable.
    method, tol, options
        As for `scipy.optimize.minimize`; inside a derivative the solver gets the true
        gradient.
    settings
        ``bounds`` and ``constraints``, in each of SciPy's forms; they may read Tensors.

    Returns
    -------
    SciPy's result; ``x`` and ``fun`` have derivatives of any order, in both modes:
    those of the point where the gradient vanishes, or the bounds and constraints that
    hold there balance it. They are as accurate as the point: ask for a small ``tol``.

    Raises
    ------
    ConvergenceError
        If no point was found at which the gradient vanishes.
    MatrixError
        If the Hessian there is singular, or the constraints depend on each other.
    NotDifferentiableError
        If a limit holds that does not push: the minimum has a kink there.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import minimize
    >>> cost = lambda x, a: np.sum((x - a) ** 2) + x[0] * x[1]
    >>> best = lambda a: minimize(cost, np.zeros(2), a, tol=1e-10).x
    >>> np.round(wb.jacobian(best)(np.array([1.0, 2.0])), 6)
    array([[ 1.333333, -0.666667],
           [-0.666667,  1.333333]])
    """
    args = _to_tuple(args)
    given = {"method": method, "tol": tol, "options": options}
    if not traces.has_open_trace():
        return _scipy().minimize(fun, x0, args, jac=jac, **given, **settings)
    bounds, constraints = settings.pop("bounds", None), settings.pop("constraints", ())
    _refuse_settings("minimize", settings, *settings)
    if jac is True:
        both, fun = fun, lambda x, *a: both(x, *a)[0]

    def value(x: ArrayLike) -> Array:
        return np.reshape(fun(x, *args), ())

    start = np.atleast_1d(_to_array(x0).astype(float))
    limits = _list_limits(constraints)
    return _minimize("minimize", value, start, bounds, limits, given)


def Bounds(
    lb: ArrayLike = -np.inf, ub: ArrayLike = np.inf, keep_feasible: Any = False
) -> Any:
    """Make SciPy's ``Bounds`` of x, of lists that hold Tensors too.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import Bounds, minimize
    >>> def best(a):  # of x² from a and from 2a on
    ...     return minimize(lambda x: x @ x, np.ones(2), bounds=Bounds([a, 2 * a])).x
    >>> wb.jacobian(best)(1.0)
    array([1., 2.])
    """
    return _scipy().Bounds(_to_array(lb), _to_array(ub), keep_feasible)


def LinearConstraint(
    A: ArrayLike,
    lb: ArrayLike = -np.inf,
    ub: ArrayLike = np.inf,
    keep_feasible: Any = False,
) -> Any:
    """Make SciPy's ``LinearConstraint``, ``lb <= A @ x <= ub``, as :func:`Bounds` does.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import LinearConstraint, minimize
    >>> def best(a):  # of x² on the line x + y = a
    ...     line = LinearConstraint([[1, 1]], [a], [a])
    ...     return minimize(lambda x: x @ x, np.ones(2), constraints=line).x
    >>> np.round(wb.jacobian(best)(1.0), 6)
    array([0.5, 0.5])
    """
    ends = _to_array(lb), _to_array(ub)
    return _scipy().LinearConstraint(_to_array(A), *ends, keep_feasible)


# Minima within bounds and under constraints: the equation of Karush, Kuhn and Tucker.
#
# With the Lagrangian L = f - λ c a minimum of f where low <= c <= high and lower <= x
# <= upper solves ``x = clip(x - ∂L/∂x, lower, upper)`` and ``c = clip(c - λ, low,
# high)``: an equation, whose derivative at a point tells by itself which limits hold
# (J. Nocedal, S. Wright, "Numerical optimization" (2006), theorem 12.1; A. Fiacco,
# "Introduction to sensitivity and stability analysis" (1983)).

#: A function of x with its lowest and highest values.
Limit = tuple[Function, Any, Any]

#: So near to a limit, beside the size of x, it may hold.
CLOSE = 1e-4
#: A limit so near to where the minimum would be without it holds without force.
NEAR = 1e-8


def _list_limits(constraints: Any) -> list[Limit]:
    """Return constraints in each of SciPy's forms as limits of functions."""
    if isinstance(constraints, Mapping) or not isinstance(constraints, Sequence):
        constraints = (constraints,)
    found: list[Limit] = []
    for given in constraints:
        if isinstance(given, Mapping):
            fun, more = given["fun"], _to_tuple(given.get("args", ()))
            high = 0.0 if given["type"] == "eq" else np.inf
            found.append((lambda x, f=fun, a=more: f(x, *a), 0.0, high))
        elif hasattr(given, "A"):
            found.append((lambda x, a=given.A: a @ x, given.lb, given.ub))
        else:
            found.append((given.fun, given.lb, given.ub))
    return found


def _find_bounds(bounds: Any, x: Array) -> tuple[Any, Any]:
    """Return the lower and the upper bounds, each with the shape of x."""
    if hasattr(bounds, "lb"):
        ends = [bounds.lb, bounds.ub]
    else:
        pairs = [tuple(pair) for pair in bounds]
        ends = [
            np.stack([admit(none if end is None else end) * 1.0 for end in column])
            for column, none in zip(
                zip(*pairs, strict=True), (-np.inf, np.inf), strict=True
            )
        ]
    lower, upper = (np.broadcast_to(_to_array(end), x.shape) for end in ends)
    return lower, upper


def _minimize(
    name: str,
    value: Function,
    x0: Array,
    bounds: Any,
    limits: list[Limit],
    given: dict[str, Any],
) -> Any:
    """Find a minimum of ``value`` within limits, with the report of SciPy's solver."""
    results: list[Any] = []

    def constrain(x: Array) -> tuple[Any, Any, Any]:
        """Return the values of all constraints, the lowest and the highest allowed."""
        columns: list[list[Any]] = [[], [], []]
        for f, *ends in limits:
            y = _to_vector(f(x))
            for column, part in zip(columns, (y, *ends), strict=True):
                column.append(np.broadcast_to(_to_array(part) * 1.0, y.shape))
        c, low, high = (np.concatenate(column) for column in columns)
        return c, low, high

    def equation(unknowns: Any) -> Any:
        if not limits:
            slope, x = grad(value)(unknowns), unknowns
        else:
            x, weights = unknowns
            slope = grad(lambda x: value(x) - weights @ constrain(x)[0])(x)
        if bounds is not None:
            slope = _clip_step(x, slope, _find_bounds(bounds, x))
        if not limits:
            return slope
        c, low, high = constrain(x)
        return slope, c - np.clip(c - weights, low, high)

    def describe(unknowns: Any) -> Any:
        """Return what the solver needs to know at a point."""
        x = unknowns[0] if limits else unknowns
        known = [value(x), grad(value)(x)]
        if bounds is not None:
            known += _find_bounds(bounds, x)
        if limits:
            known += [jacobian(lambda x: constrain(x)[0])(x), *constrain(x)]
        return tuple(known)

    def solve(both: Function, start: Any) -> Any:
        zeros = start[1] if limits else None
        last: list[Any] = [None, None]

        def look(x: Any) -> Any:
            if last[0] is None or not np.array_equal(last[0], x):
                last[:] = [x.copy(), both((x, zeros) if limits else x)[1]]
            return last[1]

        def objective(x: Array) -> tuple[float, Any]:
            y, slope, *_ = look(x)
            return float(y), slope

        x = start[0] if limits else start
        more = dict(given)
        if bounds is not None:
            more["bounds"] = _scipy().Bounds(*look(x)[2:4])
        if limits:
            more["constraints"] = _scipy().NonlinearConstraint(
                lambda x: look(x)[-3], *look(x)[-2:], jac=lambda x: look(x)[-4]
            )
        found = blame.call_solver(
            name, lambda: _scipy().minimize(objective, x, jac=True, **more)
        )
        results[:] = [found]
        x = np.array(found.x)  # host array: SciPy's own
        _, slope, *rest = look(x)
        solution: Any = x
        size = _find_largest([x, start[0] if limits else start]) or 1.0
        weights: Array = np.zeros(0)  # host array: SciPy's own
        if limits:
            weights = _find_weights(slope, x, size, rest)
            solution = x, weights
        step = _find_newton_step(both, solution)[: x.size]
        if not _find_largest(step) <= EXACT * size:
            _check_convergence(name, found)
        _check_minimum(name, step, size, both(solution)[0], "tol")

        def slope_at(x: Any) -> Any:
            """Return the slope of the Lagrangian."""
            known = both((x, weights) if limits else x)[1]
            return known[1] - weights @ known[-4] if limits else known[1]

        reach = 2 * _find_largest(step) + NEAR * size
        if limits:
            limited, rows = rest[-3:], rest[-4]
            _check_limits(
                name, "constraint", limited, rows, weights, x, slope_at, reach
            )
        if bounds is not None:
            _check_bounds(name, x, rest[:2], slope_at, reach)
        return solution

    unknowns: Any = x0
    if limits:
        count = shape_of(constrain(x0)[0])
        unknowns = x0, np.zeros(count)  # host array: where the solver starts
    made = implicit(equation, unknowns, solve, None, name, beside=describe)
    x = made[0] if limits else made
    report = {**(results[0] if results else {}), "x": x, "fun": value(x)}
    return _scipy().OptimizeResult(report)


def _find_largest(x: Any) -> float:
    """Return the largest size of a number in arrays."""
    return max(
        float(np.max(np.abs(part), initial=0.0))  # host array: SciPy's own
        for part in tree.flatten(x)[0]
    )


def _find_weights(slope: Array, x: Array, size: float, rest: Sequence[Any]) -> Array:
    """Return the multipliers of the constraints at a point, 0 of those that are slack.

    By least squares, with those of the bounds, each of the sign that its limit has.
    """
    rows, y, low, high = rest[-4:]
    count = len(y)
    if len(rest) > 4:
        rows = np.concatenate([rows, np.eye(x.size)])
        y, low, high = (
            np.concatenate(pair) for pair in ((y, x), (low, rest[0]), (high, rest[1]))
        )
    near = CLOSE * size * np.sum(np.abs(rows), axis=1)
    is_low, is_high = y - low <= near, high - y <= near
    held = is_low | is_high
    weights = np.zeros_like(y)
    unit = _find_largest(slope)
    if unit and np.any(held):
        lengths = np.linalg.norm(rows[held], axis=1)
        lengths = np.where(lengths > 0, lengths, 1.0)
        signs = np.where(is_high[held], -np.inf, 0), np.where(is_low[held], np.inf, 0)
        columns = (rows[held] / lengths[:, None]).T
        found = _scipy().lsq_linear(columns, slope / unit, signs, method="bvls")
        weights[held] = found.x * unit / lengths
    return weights[:count]


def _check_limits(
    name: str,
    what: str,
    limited: Sequence[Any],
    rows: Array,
    force: Array,
    x: Array,
    slope_at: Function,
    reach: float,
) -> None:
    """Refuse a limit that holds without any force, where a minimum has a kink.

    It holds if x needs to move no more than ``reach`` to get there; it has no force
    if the minimum without it would be no farther away. ``rows`` are the derivatives
    of what is limited.
    """
    y, low, high = limited
    near = reach * np.sum(np.abs(rows), axis=1)
    at_end = ((np.abs(y - low) <= near) | (np.abs(y - high) <= near)) & (low < high)
    if not np.any(at_end):
        return
    stiffness = np.abs(np.diagonal(jacobian(slope_at)(x)))
    small = np.all(np.abs(force[:, None] * rows) <= reach * stiffness, axis=1)
    weak = at_end & small
    if np.any(weak):
        i = int(np.argmax(weak))
        raise NotDifferentiableError(
            f"{name}{blame.user_line()}: the {what}[{i}] holds with equality, and the"
            " minimum would be there without it too: on one side of these parameters"
            " it leaves the limit, on the other it does not, and has no derivative"
            " here. Change the limit or the parameters a little, or leave it out."
        )


def _check_bounds(
    name: str, x: Array, ends: Sequence[Any], slope_at: Function, reach: float
) -> None:
    """Refuse a bound that holds without any force."""
    rows, slope = np.eye(x.size), slope_at(x)
    _check_limits(name, "bound of x", (x, *ends), rows, slope, x, slope_at, reach)


def _clip_step(x: Array, slope: Array, bounds: tuple[Any, Any]) -> Array:
    """Return what is 0 where a minimum lies within bounds, or is held by one."""
    return x - np.clip(x - slope, *bounds)


def minimize_scalar(
    fun: Function,
    bracket: Sequence[float] | None = None,
    bounds: Sequence[Any] | None = None,
    args: object = (),
    method: str | None = None,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Find a minimum in one number, as `scipy.optimize.minimize_scalar` does.

    As :func:`minimize` for one number: the result's ``x`` and ``fun`` have
    derivatives, those of the point where the slope vanishes, or of the bound that it
    lies at.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import minimize_scalar
    >>> f = lambda a: minimize_scalar(lambda x: np.exp(x) - a * x).x  # log(a)
    >>> round(float(wb.grad(f)(2.0)), 9)
    0.5
    """
    args = _to_tuple(args)
    given = {"bracket": bracket, "method": method, "tol": tol, "options": options}
    if not traces.has_open_trace():
        return _scipy().minimize_scalar(fun, args=args, bounds=bounds, **given)
    name = "minimize_scalar"
    results: list[Any] = []
    ends: Any = None if bounds is None else [admit(b) * 1.0 for b in bounds]

    def value(x: ArrayLike) -> Array:
        return np.reshape(fun(x, *args), ())

    def equation(x: Any) -> Any:
        slope = grad(value)(x)
        return slope if ends is None else _clip_step(x, slope, ends)

    def solve(both: Function, x: ArrayLike) -> Any:
        plain = None if ends is None else [float(b) for b in both(x)[1][2:]]
        found = blame.call_solver(
            name,
            lambda: _scipy().minimize_scalar(
                lambda x: float(both(np.float64(x))[1][0]), bounds=plain, **given
            ),
        )
        results[:] = [_check_convergence(name, found)]

        def slope_at(x: float) -> float:
            return float(both(np.float64(x))[1][1])

        made = None
        if plain is not None:
            # Inside of an interval the search comes near to its ends, not to them.
            reach = 1e-4 * (plain[1] - plain[0])
            for end, outwards in zip(plain, (1, -1), strict=True):
                if abs(found.x - end) < reach and outwards * slope_at(end) >= 0:
                    made = np.float64(end)
        if made is None:
            made = np.float64(_polish_root(slope_at, float(found.x)))
        first, *_, last = plain or bracket or (0, 1)
        size = max(abs(made), CLOSE * abs(last - first))
        step = _find_newton_step(both, made)
        _check_minimum(name, step, size, slope_at(made), "tol")
        if plain is not None:
            _check_bounds(
                name, np.reshape(made, 1), plain,
                lambda x: np.reshape(both(np.reshape(x, ()))[1][1], 1),
                2 * _find_largest(step) + NEAR * size,
            )  # fmt: skip
        return made

    def describe(x: Any) -> Any:
        return value(x), grad(value)(x), *(ends or ())

    start = np.float64(1.0)
    if ends is not None:
        start = np.float64(np.mean([_require_number(b) for b in ends]))
    elif bracket is not None:
        start = np.float64(bracket[0])
    x = implicit(equation, start, solve, None, name, beside=describe)
    report = {**(results[0] if results else {}), "x": x, "fun": value(x)}
    return _scipy().OptimizeResult(report)


def _find_newton_step(both: Function, solution: Any) -> Array:
    """Return Newton's step to the root of an equation: about the error of a point.

    It is flat, and infinite if the equation has no root by its derivative.
    """
    leaves, structure = tree.flatten(solution)
    ends = [*accumulate(leaf.size for leaf in leaves)]

    def residual(flat: Array) -> Array:
        parts = np.split(flat, ends[:-1])
        shaped = [np.reshape(x, y.shape) for x, y in zip(parts, leaves, strict=True)]
        rest = tree.flatten(both(structure(shaped))[0])[0]
        return np.concatenate([np.reshape(x, (-1,)) for x in rest])

    flat = np.concatenate([leaf.ravel() for leaf in leaves])
    rest, matrix = residual(flat), jacobian(residual)(flat)
    if not np.any(rest):
        return np.zeros_like(flat)
    try:
        return np.linalg.solve(matrix, rest)
    except np.linalg.LinAlgError:
        if not np.all(np.isfinite(matrix)):
            return np.full_like(flat, np.inf)
    step = np.linalg.lstsq(matrix, rest)[0]
    is_root = _find_largest(matrix @ step - rest) <= EXACT * _find_largest(rest)
    return step if is_root else np.full_like(flat, np.inf)


def _check_minimum(
    name: str, step: Array, size: float, slope: Any, settings: str
) -> None:
    """Refuse a point that Newton's step from it shows to be no minimum."""
    error = _find_largest(step)
    if not error <= EXACT * size:
        raise ConvergenceError(
            f"{name}{blame.user_line()}: the gradient at the point found is"
            f" {_find_largest(slope):.2g}, and not 0; Newton's step from there has the"
            f" size {error:.2g}. Give smaller {settings}, or another method; a"
            " minimum at a kink of the function has no such derivative."
        )


def _polish_root(f: Callable[[float], float], x: float) -> float:
    """Return a root with its last digits, which a search by values does not have."""
    y = f(x)
    for _ in range(5):
        step = 1e-5 * (1 + abs(x))
        rise = f(x + step) - y
        better = x - step * y / rise if rise else x
        rest = f(better)
        if not abs(rest) < abs(y):
            break
        x, y = better, rest
    return x


#: The losses of `least_squares`, functions of squared residuals.
LOSSES: dict[str, Function] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1, z)) - 1),
    "cauchy": lambda z: np.log1p(z),
    "arctan": lambda z: np.arctan(z),
}


def least_squares(
    fun: Function,
    x0: ArrayLike,
    jac: Any = "2-point",
    bounds: Any = None,
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    x_scale: Any = None,
    loss: str = "linear",
    f_scale: Any = 1.0,
    *,
    args: object = (),
    kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Find the least sum of squares, as `scipy.optimize.least_squares` does.

    Parameters
    ----------
    fun
        ``fun(x, *args, **kwargs)``, the residuals, shape (m,).
    x0
        Where the search starts, shape (n,); the minimum does not depend on it.
    jac
        As for SciPy; inside a derivative the solver gets the true Jacobian.
    bounds
        The lower and the upper bounds, which may be Tensors, or SciPy's ``Bounds``.
    loss
        The name of a loss; ``f_scale``, a number, is where it begins to spare
        outliers. Differentiable by it.
    args, kwargs
        Further arguments of ``fun``: nests of arrays, differentiable.
    method, ftol, xtol, gtol, x_scale, settings
        As for SciPy.

    Returns
    -------
    SciPy's result; ``x``, ``fun`` and ``cost`` have derivatives of any order, by the
    true Hessian and not by Gauss and Newton's.

    Raises
    ------
    ConvergenceError
        If the gradient does not vanish at the point found.
    NotDifferentiableError
        If a bound holds that does not push: the minimum has a kink there.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import least_squares
    >>> t = np.linspace(0, 1, 5)
    >>> fit = lambda y: least_squares(lambda p: p[0] * np.exp(p[1] * t) - y, [1, 0]).x
    >>> wb.jacobian(fit)(np.exp(t)).shape
    (2, 5)
    """
    more = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, **settings}
    more |= {"loss": loss, "f_scale": f_scale}
    if x_scale is not None:
        more["x_scale"] = x_scale
    args = _to_tuple(args)
    if not traces.has_open_trace():
        if bounds is not None:
            more["bounds"] = bounds
        return _scipy().least_squares(
            fun, x0, jac, args=args, kwargs=kwargs or {}, **more
        )
    name = "least_squares"
    if loss not in LOSSES:
        raise UsageError(
            f"{name}(..., loss={loss!r}){blame.user_line()} is not known inside a"
            f" derivative. There are {', '.join(LOSSES)}."
        )
    _refuse_settings(name, settings, "callback")
    results: list[Any] = []

    def residuals(x: ArrayLike) -> Array:
        return _to_vector(fun(x, *args, **(kwargs or {})))

    def cost(x: ArrayLike) -> Array:
        squares = np.square(residuals(x) / f_scale)
        return 0.5 * f_scale**2 * np.sum(LOSSES[loss](squares))

    def find_ends(x: Array) -> tuple[Any, Any]:
        ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
        low, high = (np.broadcast_to(_to_array(b) * 1.0, x.shape) for b in ends)
        return low, high

    def equation(x: Any) -> Any:
        slope = grad(cost)(x)
        return slope if bounds is None else _clip_step(x, slope, find_ends(x))

    def describe(x: Any) -> Any:
        ends = () if bounds is None else find_ends(x)
        margin = admit(f_scale) * 1.0
        return residuals(x), jacobian(residuals)(x), grad(cost)(x), margin, *ends

    def solve(both: Function, x: Any) -> Any:
        _, _, _, margin, *ends = both(x)[1]
        more["f_scale"] = float(margin)
        if ends:
            more["bounds"] = ends
        found = blame.call_solver(
            name,
            lambda: _scipy().least_squares(
                lambda x: both(x)[1][0], x, lambda x: both(x)[1][1], **more
            ),
        )
        results[:] = [_check_convergence(name, found)]
        rest = both(found.x)[0]
        size = _find_largest([found.x, x]) or 1.0
        step = _find_newton_step(both, found.x)
        _check_minimum(name, step, size, rest, "ftol, xtol and gtol")
        if ends:
            reach = 2 * _find_largest(step) + NEAR * size
            _check_bounds(name, found.x, ends, lambda x: both(x)[1][2], reach)
        return found.x

    start = np.atleast_1d(_to_array(x0).astype(float))
    x = implicit(equation, start, solve, None, name, beside=describe)
    report = {"x": x, "fun": residuals(x), "cost": cost(x)}
    return _scipy().OptimizeResult({**(results[0] if results else {}), **report})


def _to_array(x: ArrayLike) -> Array:
    x = admit(x)
    return x if hasattr(x, "shape") else np.asarray(x)


def _to_vector(value: ArrayLike) -> Array:
    """Return the result of a function as one vector."""
    return np.atleast_1d(_to_array(value))


def _require_number(x: Any) -> float:
    """Return a start as a plain number: the root does not depend on the start."""
    value = value_of(x)
    if value is None:
        raise UsageError(
            f"where the search starts has no value while tracing without values"
            f"{blame.user_line()}. Give plain numbers."
        )
    return float(value)
