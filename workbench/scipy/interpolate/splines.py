"""B-splines: `BSpline`, what makes them, and FITPACK's names for the same."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from workbench.core import blame
from workbench.core.tensor import apply, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.interpolation import (
    BSPLINE,
    basis_values,
    differentiate_bspline,
    find_intervals,
    hermite,
    mask_outside,
    spread,
    wrap,
)
from workbench.ops.linalg.systems import banded
from workbench.ops.shaping import normal_axis
from workbench.ops.taking import take
from workbench.ops.updates import at
from workbench.scipy.interpolate.curves import (
    Extrapolation,
    PPoly,
    admit_floats,
    admit_number,
    check_places,
    lead_axis,
    place_axis,
    prepare_points,
)

__all__ = [
    "BSpline",
    "make_interp_spline",
    "make_smoothing_spline",
    "splantider",
    "splder",
    "splev",
    "splint",
    "splrep",
]


class BSpline:
    """A spline as a sum of B-splines: `scipy.interpolate.BSpline`.

    Differentiable by the query, by the coefficients and by the knots.

    Parameters
    ----------
    t
        Knots, shape (n + k + 1,), which do not descend.
    c
        Coefficients, shape (n, ...) or longer.
    k
        The degree.
    extrapolate
        Whether the end pieces hold outside of ``t[k] .. t[n]`` (True), NaN stands
        there, or the curve repeats (``"periodic"``).
    axis
        Where the axis of the query stands in the result.

    Raises
    ------
    ValueError
        If the knots descend or are too few for the degree and the coefficients.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import BSpline
    >>> t = np.array([0.0, 1, 2, 3, 4])
    >>> wb.grad(lambda c: BSpline(t, c, 1)(1.75))(np.array([1.0, 2.0, 3.0]))
    array([0.25, 0.75, 0.  ])
    """

    def __init__(
        self,
        t: ArrayLike,
        c: ArrayLike,
        k: int,
        extrapolate: Extrapolation = True,
        axis: int = 0,
    ) -> None:
        self.t, self.k = admit_floats(t), int(k)
        self.extrapolate = extrapolate
        values = admit_floats(c)
        self.axis = normal_axis(axis, len(shape_of(values)))
        self.c = lead_axis(values, self.axis)
        self._check()

    def _check(self) -> None:
        where = f"BSpline{blame.user_line()}: "
        if self.k < 0:
            raise ValueError(f"{where}spline order cannot be negative: k={self.k}")
        if len(shape_of(self.t)) != 1:
            raise ValueError(f"{where}knot vector must be one-dimensional")
        count = shape_of(self.t)[0] - self.k - 1
        if count < self.k + 1:
            raise ValueError(
                f"{where}need at least {2 * self.k + 2} knots for degree {self.k}, not"
                f" {shape_of(self.t)[0]}"
            )
        if shape_of(self.c)[0] < count:
            raise ValueError(
                f"{where}knots, coefficients and degree are inconsistent:"
                f" {shape_of(self.t)[0]} knots of degree {self.k} take {count}"
                f" coefficients, not {shape_of(self.c)[0]}"
            )
        knots = value_of(self.t)
        if knots is None:
            return
        if not bool(np.all(np.isfinite(knots))):
            raise ValueError(f"{where}knots should not have nans or infs")
        if bool(np.any(knots[1:] < knots[:-1])):
            raise ValueError(f"{where}knots must be in a non-decreasing order")
        if not bool(knots[self.k] < knots[count]):
            raise ValueError(f"{where}need at least two internal knots")

    @classmethod
    def adopt(cls, theirs: Any) -> BSpline:
        """Return the same spline as an object of SciPy's."""
        made = BSpline.construct_fast(
            theirs.t, theirs.c, theirs.k, theirs.extrapolate, theirs.axis
        )
        return made

    @classmethod
    def construct_fast(
        cls,
        t: Any,
        c: Any,
        k: int,
        extrapolate: Extrapolation = True,
        axis: int = 0,
    ) -> Self:
        """Return a spline of arrays that fit; the axis of ``c`` stands in front."""
        made = object.__new__(cls)
        made.t, made.c, made.k = t, c, k
        made.extrapolate, made.axis = extrapolate, axis
        return made

    @classmethod
    def basis_element(cls, t: ArrayLike, extrapolate: Extrapolation = True) -> Self:
        """Return the B-spline of some knots, of degree ``len(t) - 2``."""
        inner: Any = admit_floats(t)
        k = shape_of(inner)[0] - 2
        if k < 0:
            raise ValueError(
                f"BSpline.basis_element{blame.user_line()}: t has shape"
                f" {shape_of(inner)},"
                " and needs two knots or more"
            )
        ones = np.ones(k)
        knots = np.concatenate([inner[:1] - ones, inner, inner[-1:] + ones])
        c = np.zeros(2 * k + 1)
        c[k] = 1.0
        return cls.construct_fast(knots, c, k, extrapolate)

    @property
    def tck(self) -> tuple[Any, Any, int]:
        """The knots, the coefficients and the degree."""
        return self.t, self.c, self.k

    def __call__(
        self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolation | None = None
    ) -> Any:
        """Return the spline, or its derivative of order ``nu``, at points."""
        if extrapolate is None:
            extrapolate = self.extrapolate
        if nu < 0:
            return self.antiderivative(-nu)(x, 0, extrapolate)
        given: Any = admit_floats(x)
        q = given
        low, high = self._ends
        if extrapolate == "periodic":
            q = wrap(q, low, high)
        place = find_intervals(self.t, q, self.k)
        params = {"k": self.k, "nu": int(nu)}
        y = apply(BSPLINE, (self.t, self.c, q, place), params)
        if not extrapolate:
            y = mask_outside(y, given, low, high)
        return place_axis(y, len(shape_of(q)), self.axis)

    @property
    def _ends(self) -> tuple[Any, Any]:
        return self.t[self.k], self.t[shape_of(self.t)[0] - self.k - 1]

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the derivative as a spline of a lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        t, c, k = self.tck
        for _ in range(nu):
            if not k:
                c = 0 * c
                break
            t, c = differentiate_bspline(t, c, k)
            k -= 1
        return BSpline.construct_fast(t, c, k, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the integral from the first knot on, as a spline."""
        if nu < 0:
            return self.derivative(-nu)
        t, c, k = self.tck
        knots = value_of(t)
        if k == 0 and knots is not None and bool(knots[-1] == knots[-2]):
            t, c = t[:-1], c[: shape_of(t)[0] - 2]  # an empty interval adds nothing
        for _ in range(nu):
            count = shape_of(t)[0] - k - 1
            length = (t[k + 1 : k + 1 + count] - t[:count]) / (k + 1)
            area = np.cumsum(c[:count] * spread(length, len(shape_of(c))), axis=0)
            c = np.concatenate([np.zeros_like(area[:1]), area])
            t = np.concatenate([t[:1], t, t[-1:]])
            k += 1
        extrapolate = self.extrapolate != "periodic" and self.extrapolate
        return BSpline.construct_fast(t, c, k, extrapolate, self.axis)

    def integrate(
        self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolation | None = None
    ) -> Any:
        """Return the integral between two points, which may be Tensors.

        Without extrapolation what lies outside of the base adds nothing.
        """
        if extrapolate is None:
            extrapolate = self.extrapolate
        total = self.antiderivative()
        total.axis = 0
        a, b = admit_floats(a), admit_floats(b)
        low, high = self._ends

        def reach(q: Any) -> Any:
            if extrapolate == "periodic":
                inside = wrap(q, low, high)
                whole = total(high, 0, True) - total(low, 0, True)
                turns = np.round((q - inside) / (high - low))
                return turns * whole + total(inside, 0, True)
            return total(q if extrapolate else np.clip(q, low, high), 0, True)

        return reach(b) - reach(a)

    def __repr__(self) -> str:
        return (
            f"<BSpline: degree {self.k}, {shape_of(self.t)[0] - self.k - 1}"
            " coefficients>"
        )


# Splines through points


def place_knots(x: Any, k: int) -> Any:
    """Return the knots of a spline of degree k through points at ``x``.

    Of an odd degree these are places, and of an even one the middles between these; as
    many are left out at the ends as there are free conditions.
    """
    if k == 0:
        return np.concatenate([x, x[-1:]])
    if k % 2:
        inner = x[(k + 1) // 2 : -((k + 1) // 2)]
    else:
        inner = ((x[1:] + x[:-1]) / 2)[k // 2 : -(k // 2)]
    return np.concatenate([np.repeat(x[:1], k + 1), inner, np.repeat(x[-1:], k + 1)])


Condition = tuple[int, Any]
#: What SciPy calls conditions at an end: orders of derivatives that are 0.
WORDS = {"clamped": (1,), "natural": (2,)}


def _read_conditions(given: Any, k: int, y: Any) -> list[list[Condition]]:
    """Return the derivatives that are given at both ends: order and value."""
    rest = shape_of(y)[1:]
    pair = (given, given) if isinstance(given, str) or given is None else given
    found: list[list[Condition]] = []
    for end in pair:
        if end is None or end == "not-a-knot":
            found.append([])
        elif isinstance(end, str):
            if end not in WORDS:
                raise ValueError(
                    f"make_interp_spline(..., bc_type={given!r}){blame.user_line()}:"
                    f" unknown boundary condition {end!r}; those known are"
                    " 'not-a-knot', 'clamped', 'natural', 'periodic', and lists of"
                    " (order, value)"
                )
            found.append([(order, np.zeros(rest, dtype_of(y))) for order in WORDS[end]])
        else:
            found.append([(int(order), admit_number(value, y)) for order, value in end])
    for end in found:
        for order, value in end:
            if shape_of(value) != tuple(rest) or not 0 <= order <= k:
                raise ValueError(
                    f"make_interp_spline(..., bc_type=...){blame.user_line()}: a"
                    f" condition of order {order} with a value of shape"
                    f" {shape_of(value)}; orders go to {k}, and values have shape"
                    f" {tuple(rest)}"
                )
    return found


def _basis_derivatives(t: Any, q: Any, place: Any, k: int, order: int) -> list[Any]:
    """Return the derivatives of the k + 1 B-splines that are not 0 at points."""
    values = basis_values(t, q, place, k - order)
    for degree in range(k - order + 1, k + 1):
        made: list[Any] = [0.0] * (degree + 1)
        for r, value in enumerate(values):
            first = place + 1 + r - degree
            low = take(t, first)
            length = take(t, first + degree) - low
            share = np.where(length == 0, 0, degree / np.where(length == 0, 1, length))
            made[r] = made[r] - share * value
            made[r + 1] = made[r + 1] + share * value
        values = made
    return values


def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: ArrayLike | None = None,
    bc_type: Any = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """Return the spline through points: `scipy.interpolate.make_interp_spline`.

    Parameters
    ----------
    x, y
        Places, ascending, shape (n,), and values along ``axis``.
    k
        The degree.
    t
        Knots; by default those of "not a knot", or the places where ``bc_type`` adds
        conditions.
    bc_type
        None, a word (``"clamped"``, ``"natural"``, ``"periodic"``), or a pair of lists
        of ``(order, value)``, one for each end.
    axis
        The axis of ``y`` along the places.
    check_finite
        Accepted; points that are not finite are always refused.

    Raises
    ------
    ValueError
        If shapes, knots and conditions do not fit each other.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import make_interp_spline
    >>> f = lambda y: make_interp_spline([0, 1, 2, 3], y)(0.5)
    >>> wb.grad(f)(np.zeros(4))
    array([ 0.3125,  0.9375, -0.3125,  0.0625])
    """
    name = "make_interp_spline"
    places, values, axis = prepare_points(name, x, y, axis)
    shape = shape_of(values)
    if k < 0:
        raise ValueError(f"{name}{blame.user_line()}: expect non-negative k, not {k}")
    if isinstance(bc_type, str) and bc_type == "periodic":
        return _make_periodic(places, values, k, axis)
    left, right = _read_conditions(bc_type, k, values)
    count = shape[0] + len(left) + len(right)
    if t is None:
        t = _choose_knots(places, k, count)
    knots = admit_floats(t)
    if shape_of(knots)[0] - k - 1 != count:
        raise ValueError(
            f"{name}{blame.user_line()}: the number of derivatives at boundaries does"
            f" not match: {shape_of(knots)[0]} knots of degree {k} take"
            f" {shape_of(knots)[0] - k - 1} conditions, and there are {count}"
        )
    _check_knots(name, places, knots, k)
    flat = np.reshape(values, (shape[0], -1))
    first, last = places[0], places[-1]
    rows = [
        *[(first, order, np.reshape(v, (1, -1))) for order, v in sorted_by_order(left)],
        (places, 0, flat),
        *[
            (last, order, np.reshape(v, (1, -1)))
            for order, v in sorted_by_order(right)[::-1]
        ],
    ]
    return BSpline.construct_fast(
        knots, np.reshape(_solve_collocation(knots, k, rows), (count, *shape[1:])), k,
        True, axis,
    )  # fmt: skip


def sorted_by_order(conditions: list[Condition]) -> list[Condition]:
    """Return conditions of an end, the lowest derivative first."""
    return sorted(conditions, key=lambda one: one[0])


def _choose_knots(x: Any, k: int, count: int) -> Any:
    """Return the knots of a spline with ``count`` conditions, n of them points.

    Conditions at the ends give back the places that "not a knot" leaves out.
    """
    n = shape_of(x)[0]
    if n < k + 1 and count < k + 1:
        raise ValueError(
            f"make_interp_spline{blame.user_line()}: {n} points are too few for degree"
            f" {k}, which takes {k + 1}"
        )
    if count == n:
        return place_knots(x, k)
    return np.concatenate([np.repeat(x[:1], k), x, np.repeat(x[-1:], k)])


def _check_knots(name: str, x: Any, t: Any, k: int) -> None:
    places, knots = value_of(x), value_of(t)
    if places is None or knots is None:
        return
    if bool(np.any(knots[1:] < knots[:-1])):
        raise ValueError(
            f"{name}{blame.user_line()}: expect t to be a 1-D sorted array_like"
        )
    if places[0] < knots[k] or places[-1] > knots[-k - 1]:
        raise ValueError(f"{name}{blame.user_line()}: out of bounds w/ x = {places}")


def _solve_collocation(t: Any, k: int, rows: list[tuple[Any, int, Any]]) -> Array:
    """Return the coefficients with given values or derivatives at points."""
    right = np.concatenate([value for _, _, value in rows])
    count = shape_of(right)[0]
    blocks, places = [], []
    for q, order, _ in rows:
        points = np.reshape(q, (-1,))
        place = find_intervals(t, points, k)
        made = _basis_derivatives(t, points, place, k, order)
        blocks.append(np.stack([m + 0 * points for m in made], axis=1))
        places.append(value_of(place))
    if any(place is None for place in places):
        matrix = np.concatenate(
            [
                _spread_rows(t, b, q, k)
                for b, (q, _, _) in zip(blocks, rows, strict=True)
            ]
        )
        return np.linalg.solve(matrix, right)
    # In banded storage: the entry of row i and column j stands at (k + i - j, j).
    block = np.concatenate(blocks)
    row = np.arange(count)[:, None] + np.zeros((1, k + 1), int)
    column = np.concatenate(places)[:, None] - k + np.arange(k + 1)
    reach = max(1, int(np.max(np.abs(row - column))))
    storage: Any = np.zeros_like(block, shape=(2 * reach + 1, count))
    storage = at(storage)[reach + row - column, column].set(block)
    return banded(storage, right, reach, reach)


def _spread_rows(t: Any, block: Any, q: Any, k: int) -> Any:
    """Return rows of the whole matrix, at columns that are found when it runs."""
    count = shape_of(t)[0] - k - 1
    place = find_intervals(t, np.reshape(q, (-1,)), k)
    column = place[:, None] - k + np.arange(k + 1)
    chosen = np.equal(column[..., None], np.arange(count))
    return np.sum(np.where(chosen, block[..., None], 0), axis=1)


def _make_periodic(x: Any, values: Any, k: int, axis: int) -> BSpline:
    """Return the spline whose derivatives agree at both ends."""
    name, shape = "make_interp_spline", shape_of(values)
    known = value_of(values)
    if known is not None and not np.allclose(known[0], known[-1], atol=1e-15):
        raise ValueError(
            f"{name}(..., bc_type='periodic'){blame.user_line()}: first and last points"
            " does not match while periodic case expected"
        )
    if k % 2 == 0 or shape[0] <= k:
        raise UsageError(
            f"{name}(..., k={k}, bc_type='periodic'){blame.user_line()} has a"
            " derivative for odd degrees below the number of points. Write k=3."
        )
    period = x[-1] - x[0]
    t = np.concatenate([x[-k - 1 : -1] - period, x, x[1 : k + 1] + period])
    # The coefficients repeat, so those of the last k are those of the first.
    count = shape[0] - 1
    points = x[:-1]
    place = np.arange(k, k + count)
    block = np.stack(
        [m + 0 * points for m in basis_values(t, points, place, k)], axis=1
    )
    column = (place[:, None] - k + np.arange(k + 1)) % count
    chosen = np.equal(column[..., None], np.arange(count))
    matrix = np.sum(np.where(chosen, block[..., None], 0), axis=1)
    c = np.linalg.solve(matrix, np.reshape(values[:-1], (count, -1)))
    c = np.reshape(np.concatenate([c, c[:k]]), (count + k, *shape[1:]))
    return BSpline.construct_fast(t, c, k, "periodic" if k > 1 else True, axis)


def make_smoothing_spline(
    x: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    lam: ArrayLike | None = None,
    *,
    axis: int = 0,
) -> PPoly:
    """Return the smoothest curve near points, as SciPy's function of this name.

    It minimises ``sum(w * (y - f(x))**2) + lam * integral(f''**2)``, and is
    differentiable by the values, the places, the weights and ``lam``. After C. Reinsch,
    "Smoothing by spline functions" (1967).

    Parameters
    ----------
    x, y
        Places, ascending, at least five, shape (n,), and values along ``axis``.
    w
        Weights, positive, shape (n,); by default 1.
    lam
        How much the curvature counts, 0 or more.
    axis
        The axis of ``y`` along the places.

    Returns
    -------
    PPoly
        The curve as cubic pieces.

    Raises
    ------
    UsageError
        Without ``lam``: SciPy's choice by cross validation is a search.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import make_smoothing_spline
    >>> y = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    >>> f = lambda lam: make_smoothing_spline(np.arange(5.0), y, lam=lam)(2.0)
    >>> wb.grad(f)(1.0).round(6)
    np.float64(-0.046703)
    """
    name = "make_smoothing_spline"
    places, values, axis = prepare_points(name, x, y, axis)
    check_places(name, places, 5)
    if lam is None:
        raise UsageError(
            f"{name}(..., lam=None){blame.user_line()} searches lam by cross"
            " validation, which has no derivative. Give lam, such as one that SciPy"
            " finds on plain numbers."
        )
    weights = np.ones_like(places) if w is None else admit_floats(w)
    if shape_of(weights) != shape_of(places):
        raise ValueError(
            f"{name}{blame.user_line()}: weights of shape {shape_of(weights)} for"
            f" {shape_of(places)} points"
        )
    known = value_of(weights)
    if known is not None and bool(np.any(known <= 0)):
        raise ValueError(f"{name}{blame.user_line()}: invalid vector of weights")
    strength = admit_floats(lam)
    known = value_of(strength)
    if known is not None and bool(known < 0):
        raise ValueError(
            f"{name}{blame.user_line()}: regularization parameter should be"
            " non-negative"
        )
    shape = shape_of(values)
    flat = np.reshape(values, (shape[0], -1))
    made = _smooth_values(places, flat, 1 / weights, strength)
    smooth, slopes = (np.reshape(part, shape) for part in made)
    return PPoly.construct_fast(hermite(places, smooth, slopes), places, True, axis)


def _smooth_values(
    x: Array, y: Array, v: Array, strength: Array
) -> tuple[Array, Array]:
    """Return the values and the slopes of smoothing splines; ``v`` are 1 / weights."""
    h = np.diff(x)
    a, c = 1 / h[:-1], 1 / h[1:]
    b = -(a + c)
    # The second derivatives g at inner places: (R + lam Qᵀ W⁻¹ Q) g = Qᵀ y.
    main = (h[:-1] + h[1:]) / 3
    main = main + strength * (a * a * v[:-2] + b * b * v[1:-1] + c * c * v[2:])
    side = h[1:-1] / 6 + strength * (
        b[:-1] * a[1:] * v[1:-2] + c[:-1] * b[1:] * v[2:-1]
    )
    far = strength * (c[:-2] * a[2:] * v[2:-2])
    zero = np.zeros(2)
    storage = np.stack(
        [
            np.concatenate([zero, far]),
            np.concatenate([zero[:1], side]),
            main,
            np.concatenate([side, zero[:1]]),
            np.concatenate([far, zero]),
        ]
    )
    secant = np.diff(y, axis=0) / h[:, None]
    bend = banded(storage, np.diff(secant, axis=0), 2, 2)
    edge = np.zeros_like(bend[:1])
    bend = np.concatenate([edge, bend, edge])
    turn = np.diff(np.diff(bend, axis=0) / h[:, None], axis=0)
    first = (bend[1:2] - bend[:1]) / h[0]
    last = -(bend[-1:] - bend[-2:-1]) / h[-1]
    smooth = y - strength * v[:, None] * np.concatenate([first, turn, last])
    secant = np.diff(smooth, axis=0) / h[:, None]
    slope = secant - h[:, None] * (2 * bend[:-1] + bend[1:]) / 6
    end = secant[-1:] + h[-1] * (bend[-2:-1] + 2 * bend[-1:]) / 6
    return smooth, np.concatenate([slope, end])


# FITPACK's names


def splrep(
    x: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    xb: Any = None,
    xe: Any = None,
    k: int = 3,
    task: int = 0,
    s: float | None = None,
    t: ArrayLike | None = None,
    full_output: int = 0,
    per: int = 0,
    quiet: int = 1,
) -> tuple[Any, Any, int]:
    """Return knots, coefficients and degree of the spline through points.

    As `scipy.interpolate.splrep` with ``s=0``, its default where there are no weights.

    Raises
    ------
    UsageError
        For ``s`` above 0, weights, ends, tasks: a search for knots has no derivative.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import splev, splrep
    >>> x = np.arange(5.0)
    >>> wb.grad(lambda y: splev(1.5, splrep(x, y)))(np.zeros(5)).round(6)
    array([-0.046875,  0.5     ,  0.65625 , -0.125   ,  0.015625])
    """
    for setting, given in (
        ("w", w), ("xb", xb), ("xe", xe), ("task", task), ("s", s), ("t", t),
        ("full_output", full_output), ("per", per),
    ):  # fmt: skip
        if given is not None and not (np.ndim(given) == 0 and given == 0):
            raise UsageError(
                f"splrep(..., {setting}=...){blame.user_line()} is not known inside a"
                " derivative: FITPACK searches knots. Leave it out for the spline"
                " through the points, or write make_smoothing_spline(x, y, w, lam)."
            )
    x, y = admit_floats(x), admit_floats(y)
    if not 1 <= k <= 5:
        raise TypeError(
            f"splrep(..., k={k}){blame.user_line()}: given degree of the spline (k={k})"
            " is not supported. (1<=k<=5)"
        )
    spline = make_interp_spline(x, y, k)
    c = spline.c
    padding = np.zeros_like(c, shape=(k + 1,))
    return spline.t, np.concatenate([c, padding]), k


def _to_spline(tck: Any) -> BSpline:
    if isinstance(tck, BSpline):
        return tck
    t, c, k = tck
    if isinstance(c, (list, tuple)):  # a curve: one line of coefficients each
        c = np.stack([admit_floats(x) for x in c], axis=-1)
    return BSpline(t, c, k)


def splev(x: ArrayLike, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Return a spline, or its derivative, at points: `scipy.interpolate.splev`."""
    if ext not in (0, 1, 2, 3):
        raise ValueError(
            f"splev(..., ext={ext!r}){blame.user_line()}: ext not in (0, 1, 2, 3)"
        )
    spline = _to_spline(tck)
    if not 0 <= der <= spline.k:
        raise ValueError(
            f"splev(..., der={der}){blame.user_line()}: 0<=der={der}<=k={spline.k} must"
            " hold"
        )
    q = admit_floats(x)
    low, high = spline._ends
    outside = np.logical_or(np.less(q, low), np.greater(q, high))
    known = value_of(outside)
    if ext == 2 and known is not None and bool(np.any(known)):
        raise ValueError(
            f"splev(..., ext=2){blame.user_line()}: found x value not in the domain"
        )
    # FITPACK holds the value of the border, and not the derivatives.
    y = spline(np.clip(q, low, high) if ext == 3 and not der else q, der, True)
    if ext == 1:
        y = np.where(spread(outside, len(shape_of(y))), 0, y)
    if isinstance(tck, (list, tuple)) and isinstance(tck[1], (list, tuple)):
        return [y[..., i] for i in range(shape_of(y)[-1])]
    return y


def splint(a: ArrayLike, b: ArrayLike, tck: Any, full_output: int = 0) -> Any:
    """Return the integral of a spline, 0 outside: `scipy.interpolate.splint`."""
    if full_output:
        raise UsageError(
            f"splint(..., full_output=1){blame.user_line()} is not known inside a"
            " derivative. Leave it out."
        )
    return _to_spline(tck).integrate(a, b, False)


def splder(tck: Any, n: int = 1) -> Any:
    """Return the derivative of a spline: `scipy.interpolate.splder`."""
    return _answer_like(tck, _to_spline(tck).derivative(n))


def splantider(tck: Any, n: int = 1) -> Any:
    """Return the integral of a spline: `scipy.interpolate.splantider`."""
    return _answer_like(tck, _to_spline(tck).antiderivative(n))


def _answer_like(tck: Any, spline: BSpline) -> Any:
    if isinstance(tck, BSpline):
        return spline
    padding = np.zeros_like(spline.c, shape=(spline.k + 1, *shape_of(spline.c)[1:]))
    return spline.t, np.concatenate([spline.c, padding]), spline.k
