"""Curves through points, as polynomials between these: `CubicSpline` and its kin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, apply, value_of
from workbench.core.types import ArrayLike
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.interpolation import (
    AKIMA,
    CUBIC,
    HERMITE,
    PCHIP,
    PIECEWISE,
    Ends,
    find_intervals,
    mask_outside,
    spread,
    wrap,
)
from workbench.ops.shaping import moveaxis, normal_axis

__all__ = [
    "Akima1DInterpolator",
    "CubicHermiteSpline",
    "CubicSpline",
    "PPoly",
    "PchipInterpolator",
    "pchip_interpolate",
]

Extrapolation = bool | str


def admit_floats(x: ArrayLike, keep: bool = False) -> Any:
    """Return an array or Tensor of numbers in double precision, as SciPy computes.

    With ``keep`` a lower precision stays.
    """
    x = admit(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    kind = dtype_of(x).kind
    if kind not in "biufc":
        raise TypeError(
            f"{blame.user_line().strip() or 'an interpolation'}: entries of dtype"
            f" {dtype_of(x)} are no numbers"
        )
    wide = np.dtype(complex if kind == "c" else float)
    if dtype_of(x) == wide or (keep and kind in "fc"):
        return x
    return x.astype(wide)


def admit_number(x: Any, like: Any) -> Any:
    """Return a number of Python's in the dtype of an array, and an array as it is."""
    is_number = isinstance(x, (int, float, complex))
    return np.asarray(x, dtype_of(like)) if is_number else admit_floats(x)


def check_places(name: str, x: Any, least: int = 2) -> None:
    """Refuse places that are too few, not in ascending order or not finite."""
    shape = shape_of(x)
    if len(shape) != 1:
        raise ValueError(
            f"{name}{blame.user_line()}: `x` must be 1-dimensional, not of shape"
            f" {shape}"
        )
    if isinstance(shape[0], int) and shape[0] < least:
        raise ValueError(
            f"{name}{blame.user_line()}: `x` must contain at least {least} elements,"
            f" not {shape[0]}"
        )
    if dtype_of(x).kind == "c":
        raise ValueError(
            f"{name}{blame.user_line()}: `x` must contain real values, and has dtype"
            f" {dtype_of(x)}"
        )
    value = value_of(x)
    if value is None:
        return
    if not bool(np.all(np.isfinite(value))):
        raise ValueError(
            f"{name}{blame.user_line()}: `x` must contain only finite values"
        )
    if not bool(np.all(value[1:] > value[:-1])):
        raise ValueError(
            f"{name}{blame.user_line()}: `x` must be strictly increasing sequence. Sort"
            " the points and join those of the same place first."
        )


def check_lengths(name: str, x: Any, y: Any, axis: int) -> None:
    """Refuse values of another number than there are places."""
    numbers = shape_of(x)[0], shape_of(y)[axis]
    if all(isinstance(n, int) for n in numbers) and numbers[0] != numbers[1]:
        raise ValueError(
            f"{name}{blame.user_line()}: the length of `y` along axis={axis},"
            f" {shape_of(y)[axis]}, doesn't match the length of `x`, {shape_of(x)[0]}"
        )


def place_axis(y: Any, count: int, axis: int) -> Any:
    """Return values with the ``count`` axes of the query in front at ``axis``."""
    if not axis:
        return y
    rank = len(shape_of(y))
    order = [*range(count, count + axis), *range(count), *range(count + axis, rank)]
    return np.transpose(y, order)


def lead_axis(y: Any, axis: int) -> Any:
    """Return values with one axis moved to the front."""
    return moveaxis(y, axis, 0) if axis else y


class PPoly:
    """Polynomials between break points, as `scipy.interpolate.PPoly`.

    Parameters
    ----------
    c
        Coefficients, shape (k, m, ...), of the highest power first.
    x
        Break points, shape (m + 1,), ascending.
    extrapolate
        Whether the first and the last piece hold outside (True, the default), NaN
        stands there (False), or the curve repeats (``"periodic"``).
    axis
        Where the axis of the query stands in the result.

    Raises
    ------
    ValueError
        If the shapes do not fit or the break points do not ascend.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import PPoly
    >>> p = PPoly(np.array([[1.0], [0.0], [2.0]]), np.array([0.0, 1.0]))
    >>> wb.grad(p)(3.0)  # of x**2 + 2
    np.float64(6.0)
    """

    c: Any
    x: Any

    def __init__(
        self,
        c: ArrayLike,
        x: ArrayLike,
        extrapolate: Extrapolation | None = None,
        axis: int = 0,
    ) -> None:
        name = type(self).__name__
        self.c, self.x = admit_floats(c), admit_floats(x)
        self.axis = axis
        self.extrapolate: Extrapolation = True if extrapolate is None else extrapolate
        check_places(name, self.x)
        shape = shape_of(self.c)
        if len(shape) < 2 or shape[1] != shape_of(self.x)[0] - 1:
            raise ValueError(
                f"{name}{blame.user_line()}: `c` has shape {shape}, and its second axis"
                f" must be one shorter than `x`, of length {shape_of(self.x)[0]}"
            )

    @classmethod
    def adopt(cls, theirs: Any) -> PPoly:
        """Return the same curve as an object of SciPy's."""
        return PPoly(theirs.c, theirs.x, theirs.extrapolate, theirs.axis)

    @classmethod
    def construct_fast(
        cls,
        c: Any,
        x: Any,
        extrapolate: Extrapolation | None = None,
        axis: int = 0,
    ) -> Self:
        """Return a curve of arrays that are known to fit."""
        made = object.__new__(cls)
        made.c, made.x, made.axis = c, x, axis
        made.extrapolate = True if extrapolate is None else extrapolate
        return made

    def __call__(
        self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolation | None = None
    ) -> Any:
        """Return the curve, or its derivative of order ``nu``, at points.

        The derivative at a break point is that of the piece on its right.
        """
        if nu < 0:
            return self.antiderivative(-nu)(x, 0, extrapolate)
        if extrapolate is None:
            extrapolate = self.extrapolate
        given: Any = admit_floats(x)
        q = given
        if extrapolate == "periodic":
            q = wrap(q, self.x[0], self.x[-1])
        place = find_intervals(self.x, q)
        y = apply(PIECEWISE, (self.c, self.x, q, place), {"nu": int(nu)})
        if not extrapolate:
            y = mask_outside(y, given, self.x[0], self.x[-1])
        return place_axis(y, len(shape_of(q)), self.axis)

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the derivative as a curve of its own."""
        if nu < 0:
            return self.antiderivative(-nu)
        order = shape_of(self.c)[0]
        left = max(order - nu, 1)
        c = self.c[:left] * 0 if nu >= order else self.c[:left]
        factors = [float(math.perm(order - 1 - j, nu)) for j in range(left)]
        c = c * spread(np.asarray(factors), len(shape_of(c)))
        return PPoly.construct_fast(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the integral from the first break point on, as a curve."""
        if nu < 0:
            return self.derivative(-nu)
        c = self.c
        step = spread(np.diff(self.x), len(shape_of(c)) - 1)
        for _ in range(nu):
            order = shape_of(c)[0]
            powers = spread(np.arange(order, 0, -1.0), len(shape_of(c)))
            c = c / powers
            area = c[0] * step
            for j in range(1, order):
                area = (area + c[j]) * step
            before = np.cumsum(area, axis=0)[:-1]
            first = np.concatenate([np.zeros_like(area[:1]), before])
            c = np.concatenate([c, first[None]])
        # The integral of a periodic curve grows with each period.
        extrapolate = self.extrapolate != "periodic" and self.extrapolate
        return PPoly.construct_fast(c, self.x, extrapolate, self.axis)

    def integrate(
        self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolation | None = None
    ) -> Any:
        """Return the integral between two points, which may be Tensors."""
        if extrapolate is None:
            extrapolate = self.extrapolate
        total = self.antiderivative()
        total.axis = 0
        ends: list[Any] = [admit_floats(a), admit_floats(b)]
        low, high = self.x[0], self.x[-1]
        if extrapolate != "periodic":
            difference = total(ends[1], 0, True) - total(ends[0], 0, True)
            if extrapolate:
                return difference
            for q in ends:
                difference = difference + mask_outside(np.zeros_like(q), q, low, high)
            return difference
        period = high - low
        whole = total(high, 0, True)

        def reach(q: Any) -> Any:
            inside = wrap(q, low, high)
            return np.round((q - inside) / period) * whole + total(inside, 0, True)

        return reach(ends[1]) - reach(ends[0])

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {shape_of(self.c)[1]} pieces of degree"
            f" {shape_of(self.c)[0] - 1}>"
        )


def prepare_points(
    name: str, x: ArrayLike, y: ArrayLike, axis: int
) -> tuple[Any, Any, int]:
    """Return places, values with their axis in front, and the axis from 0."""
    x, y = admit_floats(x), admit_floats(y)
    check_places(name, x)
    if not shape_of(y):
        raise ValueError(f"{name}{blame.user_line()}: `y` has no axis")
    axis = normal_axis(axis, len(shape_of(y)))
    check_lengths(name, x, y, axis)
    value = value_of(y)
    if value is not None and not bool(np.all(np.isfinite(value))):
        raise ValueError(
            f"{name}{blame.user_line()}: `y` must contain only finite values"
        )
    return x, lead_axis(y, axis), axis


def refuse_complex(name: str, y: Any) -> None:
    """Refuse complex values, which have no order to keep."""
    if dtype_of(y).kind == "c":
        raise ValueError(
            f"{name}{blame.user_line()} only works with real values for `y`, not"
            f" {dtype_of(y)}. Interpolate real and imaginary part."
        )


class CubicHermiteSpline(PPoly):
    """Cubic pieces with values and slopes: `scipy.interpolate.CubicHermiteSpline`.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.interpolate import CubicHermiteSpline
    >>> f = lambda slope: CubicHermiteSpline([0, 1], [0, 1], [slope, 1.0])(0.5)
    >>> wb.grad(f)(1.0)
    np.float64(0.125)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        dydx: ArrayLike,
        axis: int = 0,
        extrapolate: Extrapolation | None = None,
    ) -> None:
        x, values, axis = prepare_points(type(self).__name__, x, y, axis)
        slopes = lead_axis(admit_floats(dydx), axis)
        if shape_of(slopes) != shape_of(values):
            raise ValueError(
                f"CubicHermiteSpline{blame.user_line()}: the shapes of `y` and `dydx`"
                f" must be identical, not {shape_of(values)} and {shape_of(slopes)}"
            )
        self._set(apply(HERMITE, (x, values, slopes), {}), x, extrapolate, axis)

    def _set(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate = True if extrapolate is None else extrapolate


#: The order and the value of the derivative at an end, by SciPy's word for it.
CONDITIONS: dict[str, tuple[int, float]] = {
    "clamped": (1, 0.0),
    "natural": (2, 0.0),
}


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through points: `scipy.interpolate.CubicSpline`.

    Differentiable by the query, by the values, by the places and by derivatives that
    are given at the ends.

    Parameters
    ----------
    x
        Places, shape (n,), ascending, n at least 2.
    y
        Values; their axis ``axis`` has length n.
    axis
        The axis of ``y`` along the places.
    bc_type
        ``"not-a-knot"``, ``"periodic"``, ``"clamped"``, ``"natural"``, or a pair of
        these (not periodic) or of ``(order, value)`` with order 1 or 2.
    extrapolate
        As in `PPoly`; by default True, and of a periodic spline ``"periodic"``.

    Raises
    ------
    ValueError
        If the places do not ascend, a condition is not known, or the values of a
        periodic spline differ at the ends.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.interpolate import CubicSpline
    >>> f = lambda y: CubicSpline([0, 1, 2, 3], y, bc_type="natural")(1.5)
    >>> wb.grad(f)(np.array([0.0, 1.0, 0.0, 1.0]))
    array([-0.075,  0.575,  0.575, -0.075])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: Any = "not-a-knot",
        extrapolate: Extrapolation | None = None,
    ) -> None:
        x, values, axis = prepare_points("CubicSpline", x, y, axis)
        ends, given = self._read_conditions(bc_type, values)
        if ends is None:
            extrapolate = "periodic" if extrapolate is None else extrapolate
            first = value_of(values)
            if first is not None and not np.allclose(
                first[0], first[-1], rtol=1e-15, atol=1e-15
            ):
                raise ValueError(
                    f"CubicSpline{blame.user_line()}: the first and last `y` point"
                    " along axis must be identical (within machine precision) when"
                    " bc_type='periodic'."
                )
        c = apply(CUBIC, (x, values, *given), {"ends": ends})
        self._set(c, x, extrapolate, axis)

    @staticmethod
    def _read_conditions(given: Any, y: Any) -> tuple[Ends | None, Any]:
        """Return the orders of the derivatives at the ends, and their values."""
        rest = shape_of(y)[1:]
        if isinstance(given, str):
            if given == "periodic":
                return None, ()
            given = (given, given)
        if not isinstance(given, Sequence) or len(given) != 2:
            raise ValueError(
                f"CubicSpline(..., bc_type={given!r}){blame.user_line()}: give a"
                " word or a pair, one for each end"
            )
        orders: list[int | None] = []
        values = []
        for end in given:
            if isinstance(end, str) and end == "not-a-knot":
                orders.append(None)
                continue
            order, value = (
                CONDITIONS.get(end, (0, 0.0)) if isinstance(end, str) else end
            )
            if order not in (1, 2):
                known = ", ".join(map(repr, ("not-a-knot", "periodic", *CONDITIONS)))
                raise ValueError(
                    f"CubicSpline(..., bc_type={given!r}){blame.user_line()}:"
                    f" {end!r} is no condition of an end. Those known are {known}, and"
                    " (1, slope) or (2, second derivative)."
                )
            orders.append(int(order))
            values.append(np.broadcast_to(admit_number(value, y), rest))
        return (orders[0], orders[1]), tuple(values)


class PchipInterpolator(CubicHermiteSpline):
    """Cubic pieces that are monotone where the points are.

    As `scipy.interpolate.PchipInterpolator`; its slopes have kinks where two
    neighbouring secants change their order or their sign.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.interpolate import PchipInterpolator
    >>> wb.grad(PchipInterpolator([0, 1, 2], [0.0, 1.0, 4.0]))(0.0)
    np.float64(0.0)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        extrapolate: Extrapolation | None = None,
    ) -> None:
        x, values, axis = prepare_points("PchipInterpolator", x, y, axis)
        refuse_complex("PchipInterpolator", values)
        self._set(apply(PCHIP, (x, values), {}), x, extrapolate, axis)


class Akima1DInterpolator(CubicHermiteSpline):
    """Cubic pieces with the slopes of Akima: `scipy.interpolate.Akima1DInterpolator`.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.interpolate import Akima1DInterpolator
    >>> curve = Akima1DInterpolator([0, 1, 2, 3], [0.0, 2.0, 1.0, 3.0])
    >>> wb.grad(curve)(1.5)
    np.float64(-1.75)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        *,
        method: str = "akima",
        extrapolate: Extrapolation | None = None,
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(
                f"Akima1DInterpolator(..., method={method!r}){blame.user_line()}:"
                " `method` is 'akima' or 'makima'"
            )
        x, values, axis = prepare_points("Akima1DInterpolator", x, y, axis)
        refuse_complex("Akima1DInterpolator", values)
        c = apply(AKIMA, (x, values), {"modified": method == "makima"})
        self._set(c, x, bool(extrapolate) if extrapolate != "periodic" else extrapolate,
                  axis)  # fmt: skip


def pchip_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: Any = 0, axis: int = 0
) -> Any:
    """Return a monotone curve through points, or its derivatives, at places."""
    curve = PchipInterpolator(xi, yi, axis=axis)
    if np.ndim(der) == 0:
        return curve(x, nu=int(der))
    return [curve(x, nu=int(nu)) for nu in der]
