"""Bounds and constraints of minima: their forms, multipliers and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import jacobian
from workbench.core import blame
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike
from workbench.errors import NotDifferentiableError
from workbench.scipy.optimize.solvers import (
    CLOSE,
    Function,
    find_largest,
    load_scipy,
    to_array,
    to_tuple,
)

__all__ = [
    "Bounds",
    "LinearConstraint",
]


#: A function of x with its lowest and highest values.
Limit = tuple[Function, Any, Any]


def list_limits(constraints: Any) -> list[Limit]:
    """Return constraints in each of SciPy's forms as limits of functions."""
    if isinstance(constraints, Mapping) or not isinstance(constraints, Sequence):
        constraints = (constraints,)
    found: list[Limit] = []
    for given in constraints:
        if isinstance(given, Mapping):
            fun, more = given["fun"], to_tuple(given.get("args", ()))
            high = 0.0 if given["type"] == "eq" else np.inf
            found.append((lambda x, f=fun, a=more: f(x, *a), 0.0, high))
        elif hasattr(given, "A"):
            found.append((lambda x, a=given.A: a @ x, given.lb, given.ub))
        else:
            found.append((given.fun, given.lb, given.ub))
    return found


def find_bounds(bounds: Any, x: Array) -> tuple[Any, Any]:
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
    lower, upper = (np.broadcast_to(to_array(end), x.shape) for end in ends)
    return lower, upper


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
    return load_scipy().Bounds(to_array(lb), to_array(ub), keep_feasible)


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
    ends = to_array(lb), to_array(ub)
    return load_scipy().LinearConstraint(to_array(A), *ends, keep_feasible)


def find_weights(slope: Array, x: Array, size: float, rest: Sequence[Any]) -> Array:
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
    unit = find_largest(slope)
    if unit and np.any(held):
        lengths = np.linalg.norm(rows[held], axis=1)
        lengths = np.where(lengths > 0, lengths, 1.0)
        signs = np.where(is_high[held], -np.inf, 0), np.where(is_low[held], np.inf, 0)
        columns = (rows[held] / lengths[:, None]).T
        found = load_scipy().lsq_linear(columns, slope / unit, signs, method="bvls")
        weights[held] = found.x * unit / lengths
    return weights[:count]


def check_limits(
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


def check_bounds(
    name: str, x: Array, ends: Sequence[Any], slope_at: Function, reach: float
) -> None:
    """Refuse a bound that holds without any force."""
    rows, slope = np.eye(x.size), slope_at(x)
    check_limits(name, "bound of x", (x, *ends), rows, slope, x, slope_at, reach)


def clip_step(x: Array, slope: Array, bounds: tuple[Any, Any]) -> Array:
    """Return what is 0 where a minimum lies within bounds, or is held by one."""
    return x - np.clip(x - slope, *bounds)
