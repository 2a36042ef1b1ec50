"""Minima and least squares, with derivatives by parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.grad import grad
from workbench.autodiff.implicit import root as implicit
from workbench.autodiff.jacobian import jacobian
from workbench.core import blame, traces
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import shape_of
from workbench.scipy.optimize.limits import (
    Limit,
    check_bounds,
    check_limits,
    clip_step,
    find_bounds,
    find_weights,
    list_limits,
)
from workbench.scipy.optimize.solvers import (
    CLOSE,
    EXACT,
    NEAR,
    Function,
    check_convergence,
    check_minimum,
    find_largest,
    find_newton_step,
    load_scipy,
    polish_root,
    refuse_settings,
    require_number,
    to_array,
    to_tuple,
    to_vector,
)

__all__ = [
    "least_squares",
    "minimize",
    "minimize_scalar",
]


# Minima within bounds and under constraints: the equation of Karush, Kuhn and Tucker.
#
# With the Lagrangian L = f - λ c a minimum of f where low <= c <= high and lower <= x
# <= upper solves ``x = clip(x - ∂L/∂x, lower, upper)`` and ``c = clip(c - λ, low,
# high)``: an equation, whose derivative at a point tells by itself which limits hold
# (J. Nocedal, S. Wright, "Numerical optimization" (2006), theorem 12.1; A. Fiacco,
# "Introduction to sensitivity and stability analysis" (1983)).


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
    args = to_tuple(args)
    given = {"method": method, "tol": tol, "options": options}
    if not traces.has_open_trace():
        return load_scipy().minimize(fun, x0, args, jac=jac, **given, **settings)
    bounds, constraints = settings.pop("bounds", None), settings.pop("constraints", ())
    refuse_settings("minimize", settings, *settings)
    if jac is True:
        both, fun = fun, lambda x, *a: both(x, *a)[0]

    def value(x: ArrayLike) -> Array:
        return np.reshape(fun(x, *args), ())

    start = np.atleast_1d(to_array(x0).astype(float))
    limits = list_limits(constraints)
    return _Minimum("minimize", value, bounds, limits, given).find(start)


class _Minimum:
    """A minimum of ``value`` within bounds and limits, as the root of an equation.

    The unknowns are the point; with limits, the point and their weights.
    """

    def __init__(
        self,
        name: str,
        value: Function,
        bounds: Any,
        limits: list[Limit],
        given: dict[str, Any],
    ) -> None:
        self.name, self.value, self.bounds = name, value, bounds
        self.limits, self.given = limits, given
        #: What SciPy's solver said last.
        self.found: Any = {}

    def find(self, start: Array) -> Any:
        """Find the minimum, with the report of SciPy's solver."""
        unknowns: Any = start
        if self.limits:
            count = shape_of(self.constrain(start)[0])
            unknowns = start, np.zeros(count)  # host array: where the solver starts
        made = implicit(
            self.equation, unknowns, self.solve, None, self.name, beside=self.describe
        )
        x = self.point(made)
        report = {**self.found, "x": x, "fun": self.value(x)}
        return load_scipy().OptimizeResult(report)

    def point(self, unknowns: Any) -> Any:
        """Return the point among the unknowns."""
        return unknowns[0] if self.limits else unknowns

    def constrain(self, x: Array) -> tuple[Any, Any, Any]:
        """Return the values of all constraints, the lowest and the highest allowed."""
        columns: list[list[Any]] = [[], [], []]
        for f, *ends in self.limits:
            y = to_vector(f(x))
            for column, part in zip(columns, (y, *ends), strict=True):
                column.append(np.broadcast_to(to_array(part) * 1.0, y.shape))
        c, low, high = (np.concatenate(column) for column in columns)
        return c, low, high

    def equation(self, unknowns: Any) -> Any:
        """Return what is 0 at the minimum."""
        x = self.point(unknowns)
        if not self.limits:
            slope = grad(self.value)(x)
        else:
            weights = unknowns[1]
            slope = grad(lambda x: self.value(x) - weights @ self.constrain(x)[0])(x)
        if self.bounds is not None:
            slope = clip_step(x, slope, find_bounds(self.bounds, x))
        if not self.limits:
            return slope
        c, low, high = self.constrain(x)
        return slope, c - np.clip(c - weights, low, high)

    def describe(self, unknowns: Any) -> Any:
        """Return what the solver needs to know at a point."""
        x = self.point(unknowns)
        known = [self.value(x), grad(self.value)(x)]
        if self.bounds is not None:
            known += find_bounds(self.bounds, x)
        if self.limits:
            slopes = jacobian(lambda x: self.constrain(x)[0])(x)
            known += [slopes, *self.constrain(x)]
        return tuple(known)

    def solve(self, both: Function, start: Any) -> Any:
        """Find the unknowns by SciPy's solver, and check that they are a minimum."""
        zeros = start[1] if self.limits else None
        last: list[Any] = [None, None]

        def look(x: Any) -> Any:
            if last[0] is None or not np.array_equal(last[0], x):
                last[:] = [x.copy(), both((x, zeros) if self.limits else x)[1]]
            return last[1]

        x = self._call_solver(look, self.point(start))
        _, slope, *rest = look(x)
        solution: Any = x
        size = find_largest([x, self.point(start)]) or 1.0
        weights: Array = np.zeros(0)  # host array: SciPy's own
        if self.limits:
            weights = find_weights(slope, x, size, rest)
            solution = x, weights
        step = find_newton_step(both, solution)[: x.size]
        if not find_largest(step) <= EXACT * size:
            check_convergence(self.name, self.found)
        check_minimum(self.name, step, size, both(solution)[0], "tol")

        def slope_at(x: Any) -> Any:
            """Return the slope of the Lagrangian."""
            known = both((x, weights) if self.limits else x)[1]
            return known[1] - weights @ known[-4] if self.limits else known[1]

        reach = 2 * find_largest(step) + NEAR * size
        if self.limits:
            ends, rows = rest[-3:], rest[-4]
            check_limits(
                self.name, "constraint", ends, rows, weights, x, slope_at, reach
            )
        if self.bounds is not None:
            check_bounds(self.name, x, rest[:2], slope_at, reach)
        return solution

    def _call_solver(self, look: Function, x: Array) -> Array:
        more = dict(self.given)
        if self.bounds is not None:
            more["bounds"] = load_scipy().Bounds(*look(x)[2:4])
        if self.limits:
            more["constraints"] = load_scipy().NonlinearConstraint(
                lambda x: look(x)[-3], *look(x)[-2:], jac=lambda x: look(x)[-4]
            )

        def objective(x: Array) -> tuple[float, Any]:
            y, slope, *_ = look(x)
            return float(y), slope

        self.found = blame.call_solver(
            self.name, lambda: load_scipy().minimize(objective, x, jac=True, **more)
        )
        return np.array(self.found.x)  # host array: SciPy's own


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
    args = to_tuple(args)
    given = {"bracket": bracket, "method": method, "tol": tol, "options": options}
    if not traces.has_open_trace():
        return load_scipy().minimize_scalar(fun, args=args, bounds=bounds, **given)
    ends: Any = None if bounds is None else [admit(b) * 1.0 for b in bounds]

    def value(x: ArrayLike) -> Array:
        return np.reshape(fun(x, *args), ())

    start = np.float64(1.0)
    if ends is not None:
        start = np.float64(np.mean([require_number(b) for b in ends]))
    elif bracket is not None:
        start = np.float64(bracket[0])
    return _ScalarMinimum(value, ends, given).find(start)


class _ScalarMinimum:
    """A minimum in one number, maybe between two ends, as the root of an equation."""

    name = "minimize_scalar"

    def __init__(self, value: Function, ends: Any, given: dict[str, Any]) -> None:
        self.value, self.ends, self.given = value, ends, given
        #: What SciPy's solver said last.
        self.found: Any = {}

    def find(self, start: Any) -> Any:
        """Find the minimum, with the report of SciPy's solver."""
        x = implicit(
            self.equation, start, self.solve, None, self.name, beside=self.describe
        )
        report = {**self.found, "x": x, "fun": self.value(x)}
        return load_scipy().OptimizeResult(report)

    def equation(self, x: Any) -> Any:
        """Return what is 0 at the minimum."""
        slope = grad(self.value)(x)
        return slope if self.ends is None else clip_step(x, slope, self.ends)

    def describe(self, x: Any) -> Any:
        """Return what the solver needs to know at a point."""
        return self.value(x), grad(self.value)(x), *(self.ends or ())

    def solve(self, both: Function, x: ArrayLike) -> Any:
        """Find the minimum by SciPy's solver, and check that it is one."""
        plain = None if self.ends is None else [float(b) for b in both(x)[1][2:]]
        found = blame.call_solver(
            self.name,
            lambda: load_scipy().minimize_scalar(
                lambda x: float(both(np.float64(x))[1][0]), bounds=plain, **self.given
            ),
        )
        self.found = check_convergence(self.name, found)

        def slope_at(x: float) -> float:
            return float(both(np.float64(x))[1][1])

        made = _find_end(float(found.x), plain, slope_at) if plain else None
        if made is None:
            made = np.float64(polish_root(slope_at, float(found.x)))
        bracket = self.given["bracket"]
        first, *_, last = plain or ((0, 1) if bracket is None else bracket)
        size = max(abs(made), CLOSE * abs(last - first))
        step = find_newton_step(both, made)
        check_minimum(self.name, step, size, slope_at(made), "tol")
        if plain is not None:
            check_bounds(
                self.name, np.reshape(made, 1), plain,
                lambda x: np.reshape(both(np.reshape(x, ()))[1][1], 1),
                2 * find_largest(step) + NEAR * size,
            )  # fmt: skip
        return made


def _find_end(
    x: float, ends: Sequence[float], slope_at: Callable[[float], float]
) -> Any:
    """Return the end at which a minimum lies that was found near; else None."""
    # Inside of an interval the search comes near to its ends, not to them.
    reach = 1e-4 * (ends[1] - ends[0])
    made = None
    for end, outwards in zip(ends, (1, -1), strict=True):
        if abs(x - end) < reach and outwards * slope_at(end) >= 0:
            made = np.float64(end)
    return made


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
    args = to_tuple(args)
    if not traces.has_open_trace():
        if bounds is not None:
            more["bounds"] = bounds
        return load_scipy().least_squares(
            fun, x0, jac, args=args, kwargs=kwargs or {}, **more
        )
    if loss not in LOSSES:
        raise UsageError(
            f"least_squares(..., loss={loss!r}){blame.user_line()} is not known inside"
            f" a derivative. There are {', '.join(LOSSES)}."
        )
    refuse_settings("least_squares", settings, "callback")

    def residuals(x: ArrayLike) -> Array:
        return to_vector(fun(x, *args, **(kwargs or {})))

    start = np.atleast_1d(to_array(x0).astype(float))
    return _LeastSquares(residuals, bounds, more).find(start)


class _LeastSquares:
    """The least sum of squared residuals, as the root of an equation."""

    name = "least_squares"

    def __init__(
        self, residuals: Function, bounds: Any, settings: dict[str, Any]
    ) -> None:
        self.residuals, self.bounds, self.settings = residuals, bounds, settings
        #: What SciPy's solver said last.
        self.found: Any = {}

    def find(self, start: Array) -> Any:
        """Find the least sum, with the report of SciPy's solver."""
        x = implicit(
            self.equation, start, self.solve, None, self.name, beside=self.describe
        )
        report = {"x": x, "fun": self.residuals(x), "cost": self.cost(x)}
        return load_scipy().OptimizeResult({**self.found, **report})

    def cost(self, x: ArrayLike) -> Array:
        """Return half the sum of the losses."""
        margin = self.settings["f_scale"]
        squares = np.square(self.residuals(x) / margin)
        return 0.5 * margin**2 * np.sum(LOSSES[self.settings["loss"]](squares))

    def find_ends(self, x: Array) -> tuple[Any, Any]:
        """Return the lower and the upper bound of each unknown."""
        bounds = self.bounds
        ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
        low, high = (np.broadcast_to(to_array(b) * 1.0, x.shape) for b in ends)
        return low, high

    def equation(self, x: Any) -> Any:
        """Return what is 0 at the minimum."""
        slope = grad(self.cost)(x)
        return slope if self.bounds is None else clip_step(x, slope, self.find_ends(x))

    def describe(self, x: Any) -> Any:
        """Return what the solver needs to know at a point."""
        ends = () if self.bounds is None else self.find_ends(x)
        margin = admit(self.settings["f_scale"]) * 1.0
        slopes = jacobian(self.residuals)(x), grad(self.cost)(x)
        return self.residuals(x), *slopes, margin, *ends

    def solve(self, both: Function, x: Any) -> Any:
        """Find the minimum by SciPy's solver, and check that it is one."""
        _, _, _, margin, *ends = both(x)[1]
        more = {**self.settings, "f_scale": float(margin)}
        if ends:
            more["bounds"] = ends
        found = blame.call_solver(
            self.name,
            lambda: load_scipy().least_squares(
                lambda x: both(x)[1][0], x, lambda x: both(x)[1][1], **more
            ),
        )
        self.found = check_convergence(self.name, found)
        rest = both(found.x)[0]
        size = find_largest([found.x, x]) or 1.0
        step = find_newton_step(both, found.x)
        check_minimum(self.name, step, size, rest, "ftol, xtol and gtol")
        if ends:
            reach = 2 * find_largest(step) + NEAR * size
            check_bounds(self.name, found.x, ends, lambda x: both(x)[1][2], reach)
        return found.x
