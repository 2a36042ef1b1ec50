"""Tables on a grid of places, of one variable and of several."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.core.types import ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import shape_of
from workbench.ops.interpolation import basis_values, find_intervals, spread
from workbench.ops.shaping import moveaxis, normal_axis
from workbench.ops.taking import take
from workbench.scipy.interpolate.curves import (
    PchipInterpolator,
    admit_floats,
    check_lengths,
    check_places,
    lead_axis,
    place_axis,
)
from workbench.scipy.interpolate.splines import make_interp_spline

__all__ = ["RegularGridInterpolator", "interp1d", "interpn"]

# Straight lines and steps

#: The degree of the splines that `interp1d` knows by name.
LINE_DEGREES = {"slinear": 1, "quadratic": 2, "cubic": 3}
STEPS = ("nearest", "nearest-up", "previous", "next", "zero")


class interp1d:
    """A function of a table: `scipy.interpolate.interp1d`.

    Parameters
    ----------
    x
        Places, shape (n,).
    y
        Values; their axis ``axis`` has length n.
    kind
        ``"linear"``, ``"nearest"``, ``"nearest-up"``, ``"previous"``, ``"next"``,
        ``"zero"``, ``"slinear"``, ``"quadratic"``, ``"cubic"``, or the degree of a
        spline. Steps have the slope 0.
    axis
        The axis of ``y`` along the places.
    copy
        Accepted; the arrays are never changed.
    bounds_error
        Whether a point outside is an error; by default it is unless there is a
        ``fill_value``.
    fill_value
        The value outside, a pair of those below and above, or ``"extrapolate"``.
    assume_sorted
        Whether the places are known to ascend; else they are sorted.

    Raises
    ------
    ValueError
        If shapes do not fit, or a point lies outside.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import interp1d
    >>> f = interp1d([0.0, 1.0, 3.0], [0.0, 2.0, 0.0])
    >>> wb.elementwise_grad(f)(np.array([0.5, 2.0]))
    array([ 2., -1.])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: str | int = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        places: Any = admit_floats(x, True)
        given: Any = admit_floats(y, True)
        if len(shape_of(places)) != 1:
            raise ValueError(
                f"interp1d{blame.user_line()}: the x array must have exactly one"
                f" dimension, not shape {shape_of(places)}"
            )
        if not shape_of(given):
            raise ValueError(f"interp1d{blame.user_line()}: the y array has no axis")
        self.axis = normal_axis(axis, len(shape_of(given)))
        check_lengths("interp1d", places, given, self.axis)
        values = lead_axis(given, self.axis)
        if not assume_sorted:
            order = np.argsort(places, kind="mergesort")
            places, values = take(places, order), take(values, order, axis=0)
        check_places("interp1d", places, 1)
        self.x: Any = places
        self.kind = kind
        self._values = values
        self._extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        if self._extrapolates and bounds_error:
            raise ValueError(
                f"interp1d{blame.user_line()}: cannot extrapolate and raise at the same"
                " time; leave bounds_error out"
            )
        self.fill_value = fill_value
        is_filled = not (isinstance(fill_value, float) and math.isnan(fill_value))
        self.bounds_error = (
            not is_filled if bounds_error is None else bool(bounds_error)
        )
        self._evaluate = self._choose_way()

    @property
    def y(self) -> Any:
        """The values, as they were given but for the order of the places."""
        return moveaxis(self._values, 0, self.axis)

    @classmethod
    def adopt(cls, theirs: Any) -> interp1d:
        """Return the same function as an object of SciPy's."""
        kind = theirs._kind
        if kind == "spline":
            kind = theirs._spline.k
        fill = "extrapolate" if theirs._extrapolate else theirs.fill_value
        return cls(
            theirs.x, theirs.y, kind, theirs.axis, True,
            None if theirs._extrapolate else theirs.bounds_error, fill, True,
        )  # fmt: skip

    def _choose_way(self) -> Callable[[Any], Any]:
        kind = self.kind
        degree = LINE_DEGREES.get(kind) if isinstance(kind, str) else kind
        if kind in STEPS or degree == 0:
            return self._evaluate_step
        if kind == "linear" or degree == 1:
            check_places("interp1d", self.x)
            return self._evaluate_line
        if not isinstance(degree, int):
            known = ", ".join(map(repr, ("linear", *STEPS, *LINE_DEGREES)))
            raise NotImplementedError(
                f"interp1d(..., kind={kind!r}){blame.user_line()}: the kinds are"
                f" {known}, or the degree of a spline"
            )
        spline = make_interp_spline(self.x, self._values, degree)
        return lambda q: spline(q, 0, True)

    def _evaluate_line(self, q: Any) -> Any:
        place = find_intervals(self.x, q)
        left = take(self.x, place)
        share = (q - left) / (take(self.x, place + 1) - left)
        low = take(self._values, place, axis=0)
        share = spread(share, len(shape_of(low)))
        return low + share * (take(self._values, place + 1, axis=0) - low)

    def _evaluate_step(self, q: Any) -> Any:
        x, last = self.x, shape_of(self.x)[0] - 1
        if self.kind in ("nearest", "nearest-up"):
            middle = x[:-1] + np.diff(x) / 2
            if self.kind == "nearest":
                place = np.searchsorted(middle, q, "left")
            else:
                place = np.searchsorted(middle, q, "right")
        elif self.kind == "next":
            place = np.searchsorted(x, q, "left")
        else:
            place = np.searchsorted(x, q, "right") - 1
        found = take(self._values, np.clip(place, 0, last), axis=0)
        is_gap = np.isnan(q)
        if self.kind == "previous":
            is_gap = np.logical_or(is_gap, np.less(place, 0))
        elif self.kind == "next":
            is_gap = np.logical_or(is_gap, np.greater(place, last))
        return np.where(spread(is_gap, len(shape_of(found))), np.nan, found)

    def __call__(self, x: ArrayLike) -> Any:
        """Return the values at points."""
        q = admit_floats(x, True)
        y = self._evaluate(q)
        if not self._extrapolates:
            y = self._fill(y, q)
        return place_axis(y, len(shape_of(q)), self.axis)

    def _fill(self, y: Any, q: Any) -> Any:
        below, above = np.less(q, self.x[0]), np.greater(q, self.x[-1])
        if self.bounds_error:
            for word, outside in (("below", below), ("above", above)):
                found = value_of(outside)
                if found is not None and bool(np.any(found)):
                    end = value_of(self.x[0] if word == "below" else self.x[-1])
                    raise ValueError(
                        f"interp1d{blame.user_line()}: a value in x_new is {word} the"
                        f" interpolation range, which ends at {float(end):.6g}. Give"
                        ' fill_value="extrapolate", or a value for outside.'
                    )
        fill = self.fill_value
        low, high = fill if isinstance(fill, tuple) and len(fill) == 2 else (fill, fill)
        rank = len(shape_of(y))
        y = np.where(spread(below, rank), admit(low), y)
        return np.where(spread(above, rank), admit(high), y)


# Of several variables


def join_points(given: tuple[Any, ...], count: int, name: str) -> Any:
    """Return points as an array whose last axis has the coordinates."""
    if len(given) == 1 and isinstance(given[0], tuple):
        given = given[0]
    if len(given) > 1:
        parts = [admit_floats(x) for x in given]
        shape = np.broadcast_shapes(*map(shape_of, parts))
        return np.stack([np.broadcast_to(x, shape) for x in parts], axis=-1)
    points = admit_floats(given[0])
    if len(shape_of(points)) == 1 and count == 1:
        points = points[:, None]
    if not shape_of(points) or shape_of(points)[-1] != count:
        raise ValueError(
            f"{name}{blame.user_line()}: the requested sample points xi have shape"
            f" {shape_of(points)}; their last axis must have length {count}"
        )
    return points


#: The degree of the spline along each axis, by SciPy's name of the method.
DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


class RegularGridInterpolator:
    """A table on a grid: `scipy.interpolate.RegularGridInterpolator`.

    Differentiable by the query, by the values, and by the places of the grid.

    Parameters
    ----------
    points
        The places along each axis, ascending or descending, of lengths m, n, ...
    values
        Shape (m, n, ..., ...).
    method
        ``"linear"``, ``"nearest"``, ``"slinear"``, ``"cubic"``, ``"quintic"`` or, of
        one variable, ``"pchip"``.
    bounds_error
        Whether a point outside is an error; else it is ``fill_value``.
    fill_value
        The value outside; None extends the table.
    solver, solver_args
        Not known: the systems of splines are banded.

    Raises
    ------
    ValueError
        If shapes do not fit, places do not ascend, or a point lies outside.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import RegularGridInterpolator
    >>> table = RegularGridInterpolator(([0, 1], [0, 2]), [[0.0, 1.0], [2.0, 5.0]])
    >>> wb.grad(lambda x: table(x)[0])(np.array([0.5, 1.0]))
    array([3., 1.])
    """

    def __init__(
        self,
        points: Any,
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        *,
        solver: Any = None,
        solver_args: Any = None,
    ) -> None:
        name = "RegularGridInterpolator"
        if solver is not None or solver_args is not None:
            raise UsageError(
                f"{name}(..., solver=...){blame.user_line()} is not known inside a"
                " derivative. Leave it out."
            )
        self.values = admit_floats(values)
        self.method, self.bounds_error, self.fill_value = (
            method, bounds_error, fill_value,
        )  # fmt: skip
        self._check_method(method)
        shape = shape_of(self.values)
        if len(points) > len(shape):
            raise ValueError(
                f"{name}{blame.user_line()}: there are {len(points)} point arrays, but"
                f" values has {len(shape)} dimensions"
            )
        grid = []
        for axis, places in enumerate(points):
            x = admit_floats(places)
            known = value_of(x)
            if known is not None and len(known) > 1 and known[0] > known[-1]:
                x, self.values = np.flip(x), np.flip(self.values, axis)
            check_places(name, x, 1)
            if shape_of(x)[0] != shape[axis]:
                raise ValueError(
                    f"{name}{blame.user_line()}: there are {shape_of(x)[0]} points and"
                    f" {shape[axis]} values on dimension {axis}"
                )
            grid.append(x)
        self.grid = tuple(grid)

    @classmethod
    def adopt(cls, theirs: Any) -> RegularGridInterpolator:
        """Return the same table as an object of SciPy's."""
        return cls(
            theirs.grid, theirs.values, theirs.method, theirs.bounds_error,
            theirs.fill_value,
        )  # fmt: skip

    def _check_method(self, method: str) -> None:
        known = ("linear", "nearest", "pchip", *DEGREES)
        if method not in known:
            listed = ", ".join(map(repr, known))
            raise ValueError(
                f"RegularGridInterpolator(..., method={method!r}){blame.user_line()}:"
                f" the methods are {listed}"
            )

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """Return the table's values at points, shape (..., number of variables)."""
        method = self.method if method is None else method
        self._check_method(method)
        if nu is not None:
            raise UsageError(
                f"RegularGridInterpolator.__call__(..., nu=...){blame.user_line()} is"
                " not known inside a derivative. Leave it out: wb.grad differentiates"
                " the table by its points."
            )
        count = len(self.grid)
        points = join_points((xi,), count, "RegularGridInterpolator")
        shape = shape_of(points)[:-1] or (1,)
        q = [np.reshape(points[..., i], (-1,)) for i in range(count)]
        outside = self._find_outside(q)
        if method == "linear":
            y = self._evaluate_lines(q)
        elif method == "nearest":
            y = self._evaluate_steps(q)
        elif method == "pchip":
            y = self._evaluate_pchip(q)
        else:
            y = self._evaluate_splines(q, DEGREES[method])
        rank = len(shape_of(y))
        is_lost = np.isnan(q[0])
        for x in q[1:]:
            is_lost = np.logical_or(is_lost, np.isnan(x))
        if (
            outside is not None
            and not self.bounds_error
            and self.fill_value is not None
        ):
            y = np.where(spread(outside, rank), admit(self.fill_value), y)
        y = np.where(spread(is_lost, rank), np.nan, y)
        return np.reshape(y, shape + shape_of(y)[1:])

    def _find_outside(self, q: list[Any]) -> Any:
        found: Any = None
        for axis, (x, places) in enumerate(zip(q, self.grid, strict=True)):
            here = np.logical_or(np.less(x, places[0]), np.greater(x, places[-1]))
            known = value_of(np.logical_or(here, np.isnan(x)))
            if self.bounds_error and known is not None and bool(np.any(known)):
                raise ValueError(
                    f"RegularGridInterpolator{blame.user_line()}: one of the requested"
                    f" xi is out of bounds in dimension {axis}. Give"
                    " bounds_error=False, and fill_value=None to extend the table."
                )
            found = here if found is None else np.logical_or(found, here)
        return found

    def _take(self, places: list[Any]) -> Any:
        """Return the values at corners of the grid, one for each point."""
        index: Any = 0
        for axis, place in enumerate(places):
            index = index * shape_of(self.values)[axis] + place
        rest = shape_of(self.values)[len(places) :]
        return take(np.reshape(self.values, (-1, *rest)), index, axis=0)

    def _evaluate_lines(self, q: list[Any]) -> Any:
        places: list[Any] = []
        shares: list[Any] = []
        for x, grid in zip(q, self.grid, strict=True):
            if shape_of(grid)[0] == 1:  # a table that does not change along an axis
                places.append(np.zeros(shape_of(x), int))
                shares.append(None)
                continue
            place = find_intervals(grid, x)
            left = take(grid, place)
            places.append(place)
            shares.append((x - left) / (take(grid, place + 1) - left))
        y: Any = None
        for corner in product(*[(0,) if s is None else (0, 1) for s in shares]):
            found = self._take([p + c for p, c in zip(places, corner, strict=True)])
            for c, share in zip(corner, shares, strict=True):
                if share is not None:
                    weight = share if c else 1 - share
                    found = found * spread(weight, len(shape_of(found)))
            y = found if y is None else y + found
        return y

    def _evaluate_steps(self, q: list[Any]) -> Any:
        places = []
        for x, grid in zip(q, self.grid, strict=True):
            if shape_of(grid)[0] == 1:
                places.append(np.zeros(shape_of(x), int))
                continue
            place = find_intervals(grid, x)
            left = take(grid, place)
            share = (x - left) / (take(grid, place + 1) - left)
            places.append(np.where(np.less_equal(share, 0.5), place, place + 1))
        return self._take(places)

    def _evaluate_pchip(self, q: list[Any]) -> Any:
        if len(q) > 1:
            raise UsageError(
                f"RegularGridInterpolator(..., method='pchip'){blame.user_line()}: a"
                " table of several variables is not known to it inside a derivative."
                " Write method='cubic'."
            )
        return PchipInterpolator(self.grid[0], self.values)(q[0])

    def _evaluate_splines(self, q: list[Any], k: int) -> Any:
        """Return the product of splines along all axes."""
        c = self.values
        places, weights = [], []
        for axis, (x, grid) in enumerate(zip(q, self.grid, strict=True)):
            if shape_of(grid)[0] <= k:
                raise ValueError(
                    f"RegularGridInterpolator{blame.user_line()}: there are"
                    f" {shape_of(grid)[0]} points in dimension {axis}, but a spline of"
                    f" degree {k} needs {k + 1}"
                )
            spline = make_interp_spline(grid, np.moveaxis(c, axis, 0), k)
            c = np.moveaxis(spline.c, 0, axis)
            place = find_intervals(spline.t, x, k)
            places.append(place - k)
            weights.append(basis_values(spline.t, x, place, k))
        lengths = shape_of(c)
        flat = np.reshape(c, (-1, *lengths[len(q) :]))
        y: Any = None
        for corner in product(range(k + 1), repeat=len(q)):
            index: Any = 0
            weight: Any = 1.0
            for axis, r in enumerate(corner):
                index = index * lengths[axis] + places[axis] + r
                weight = weight * weights[axis][r]
            found = take(flat, index, axis=0)
            found = found * spread(weight, len(shape_of(found)))
            y = found if y is None else y + found
        return y

    def __repr__(self) -> str:
        shape = " × ".join(str(shape_of(x)[0]) for x in self.grid)
        return f"<RegularGridInterpolator: {shape}, {self.method}>"


def interpn(
    points: Any,
    values: ArrayLike,
    xi: Any,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:
    """Return the values of a table on a grid: `scipy.interpolate.interpn`."""
    table = RegularGridInterpolator(
        points, values, method, bounds_error=bounds_error, fill_value=fill_value
    )
    return table(xi)
