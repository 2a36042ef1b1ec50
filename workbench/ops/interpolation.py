"""Tables of numbers as functions: piecewise polynomials, B-splines, their coefficients.

Each op is plain NumPy, so its derivatives by the query, by the values and by the knots
are those of the formulas. Loaded by `workbench.scipy.interpolate`, which gives them
SciPy's names.

Sources: C. de Boor, "A Practical Guide to Splines" (1978); F. N. Fritsch and J.
Butland, "A method for constructing local monotone piecewise cubic interpolants"
(1984); H. Akima, "A new method of interpolation" (1970).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import apply
from workbench.core.types import Array, Spec
from workbench.errors import UsageError
from workbench.ops.define import composite, dtype_of, shape_of
from workbench.ops.linalg.systems import banded
from workbench.ops.taking import take

Ends = tuple[int | None, int | None]
"""The orders of the derivatives that are given at the ends of a spline; None: none is,
and the third derivative has no jump at the next knot ("not a knot")."""


def spread(x: Array, rank: int) -> Array:
    """Return an array with axes of length 1 after its own, ``rank`` in all."""
    shape = shape_of(x)
    return (
        x if len(shape) == rank else np.reshape(x, shape + (1,) * (rank - len(shape)))
    )


def _find_interval(x: Array, q: Array, *, margin: int) -> Array:
    if mixed := blame.describe_places((x, q)):
        raise UsageError(f"a table and its query{blame.user_line()}: {mixed}")
    last = shape_of(x)[0] - 2 - margin
    return np.clip(np.searchsorted(x, q, "right") - 1, margin, last)


def _infer_interval(x: Array, q: Array, *, margin: int) -> Spec:
    return Spec(shape_of(q), np.dtype(np.intp))


INTERVAL = composite(
    "interval",
    _find_interval,
    rule="no derivative",
    infer=_infer_interval,
    helper='''\
def interval(x, q, margin):
    """The interval of ascending x that each entry of q lies in."""
    place = np.searchsorted(x, q, side="right") - 1
    return np.clip(place, margin, len(x) - 2 - margin)
''',
)


def find_intervals(x: Array, q: Array, margin: int = 0) -> Any:
    """Return which interval of ascending ``x`` each entry of ``q`` lies in.

    Those outside lie in the first or the last one, and ``margin`` intervals at both
    ends are left out.
    """
    return apply(INTERVAL, (x, q), {"margin": margin})


def wrap(q: Array, low: Array, high: Array) -> Array:
    """Return points moved by whole periods into an interval."""
    return low + np.mod(q - low, high - low)


def mask_outside(y: Array, q: Array, low: Array, high: Array) -> Array:
    """Return values with NaN where the point lies outside an interval."""
    is_inside = np.logical_and(np.less_equal(low, q), np.less_equal(q, high))
    return np.where(spread(is_inside, len(shape_of(y))), y, np.nan)


# Piecewise polynomials


def _evaluate_pieces(c: Array, x: Array, q: Array, place: Array, *, nu: int) -> Array:
    """Return ``sum_j c[j, i] (q - x[i])**(k - 1 - j)``, or a derivative by ``q``.

    ``c`` has shape (k, m, ...), ``x`` (m + 1,), and ``place`` the i of each point; the
    result has the shape of ``q`` and the rest.
    """
    order = shape_of(c)[0]
    found = take(c, place, axis=1)
    step = spread(q - take(x, place), len(shape_of(found)) - 1)
    y = None
    for j in range(order - nu):
        factor = math.perm(order - 1 - j, nu)
        term = found[j] * float(factor) if factor != 1 else found[j]
        y = term if y is None else y * step + term
    if y is None:  # each piece has a lower degree
        y = 0 * found[0] * step
    elif order - nu == 1:
        y = y + 0 * step  # a step's value is NaN where the point is
    return y


def _infer_at(c: Array, x: Array, q: Array, place: Array, *, nu: int) -> Spec:
    """Return the spec of a curve at points: their shape, and that of a value."""
    dtype = np.result_type(*[dtype_of(v) for v in (c, x, q)])
    return Spec((*shape_of(q), *shape_of(c)[2:]), dtype)


PIECEWISE = composite(
    "piecewise_polynomial",
    _evaluate_pieces,
    rule="the polynomial of the interval",
    infer=_infer_at,
    helper='''\
def piecewise_polynomial(c, x, q, place, nu):
    """Polynomials between break points, or a derivative, at points."""
    return interpolate.PPoly(c, x)(q, nu)
''',
)


def hermite(x: Array, y: Array, slopes: Array) -> Array:
    """Return the coefficients of the cubic pieces with values and slopes at knots.

    ``x`` has shape (n,), ``y`` and ``slopes`` (n, ...); the result (4, n - 1, ...).
    """
    step = spread(np.diff(x), len(shape_of(y)))
    secant = np.diff(y, axis=0) / step
    bend = (slopes[:-1] + slopes[1:] - 2 * secant) / step
    return np.stack(
        [bend / step, (secant - slopes[:-1]) / step - bend, slopes[:-1], y[:-1]]
    )


def _infer_pieces(x: Array, y: Array, *more: Array, **params: Any) -> Spec:
    """Return the spec of cubic pieces; at zeros their formulas have no values."""
    (count, *rest) = shape_of(y)
    dtype = np.result_type(*[dtype_of(v) for v in (x, y, *more)])
    return Spec((4, count - 1, *rest), dtype)


def _make_hermite(x: Array, y: Array, slopes: Array) -> Array:
    return hermite(x, y, slopes)


HERMITE = composite(
    "cubic_hermite",
    _make_hermite,
    rule="cubics with these slopes",
    infer=_infer_pieces,
    helper='''\
def cubic_hermite(x, y, slopes):
    """The coefficients of cubics with values and slopes at places."""
    return interpolate.CubicHermiteSpline(x, y, slopes).c
''',
)


# Cubic splines: the slopes at the knots solve a tridiagonal system.


def _find_parabola(step: Array, secant: Array) -> Array:
    """Return the slopes at three points of the parabola through them."""
    bend = (secant[1] - secant[0]) / (step[0] + step[1])
    first, second = step[0] * bend, step[1] * bend
    return np.stack([secant[0] - first, secant[0] + first, secant[1] + second])


def _solve_cyclic(step: Array, secant: Array) -> Array:
    """Return the slopes of a periodic spline.

    All slopes are linear in the first one, which its own equation then gives.
    """
    first = 2 * (step[-1] + step[0])
    if len(shape_of(secant)) and shape_of(secant)[0] == 1:
        return np.concatenate([secant, secant])
    before, after = step[:-1], step[1:]
    ab = np.stack(
        [
            np.concatenate([0 * after[:1, 0], before[:-1, 0]]),
            2 * (before + after)[:, 0],
            np.concatenate([after[1:, 0], 0 * before[:1, 0]]),
        ]
    )
    right = 3 * (after * secant[:-1] + before * secant[1:])
    ends = np.concatenate([-after[:1], 0 * before[1:]])
    ends = ends - np.concatenate([0 * after[1:], before[-1:]])
    solved = banded(ab, np.concatenate([right, ends], axis=1), 1, 1)
    free, response = solved[:, :-1], solved[:, -1:]
    known = 3 * (step[0] * secant[-1] + step[-1] * secant[0])
    known = known - step[0] * free[-1] - step[-1] * free[0]
    lead = known / (first + step[0] * response[-1] + step[-1] * response[0])
    inner = free + response * lead
    return np.concatenate([lead[None], inner, lead[None]])


def _find_slopes(
    x: Array, y: Array, given: tuple[Any, ...], ends: Ends | None
) -> Array:
    """Return the slopes of a cubic spline; ``y`` is a matrix, a column for each."""
    step = np.diff(x)[:, None]
    secant = np.diff(y, axis=0) / step
    count = shape_of(x)[0]
    if ends is None:
        return _solve_cyclic(step, secant)
    if count == 3 and ends == (None, None):
        return _find_parabola(step, secant)
    values = list(given)
    upper, diagonal, lower, right = [], [], [], []
    for at, order in enumerate(ends):
        near, far = (0, 1) if at == 0 else (-1, -2)
        h, m = step[near], secant[near]
        one = np.ones_like(h)
        if order is None and count > 2:
            k, both = step[far], h + step[far]
            diagonal.append(k)
            upper.append(both)
            right.append(((h + 2 * both) * k * m + h * h * secant[far]) / both)
        elif order is None or order == 1:  # of two points, the slope of their line
            diagonal.append(one)
            upper.append(0 * one)
            right.append(m if order is None else values.pop(0) + 0 * m)
        else:
            diagonal.append(2 * one)
            upper.append(one)
            half = values.pop(0) * h / 2
            right.append(3 * m + (-half if at == 0 else half))
    lower = [upper.pop()]
    before, after = step[:-1], step[1:]
    inner = 3 * (after * secant[:-1] + before * secant[1:])
    zero = 0 * step[0]
    ab = np.stack(
        [
            np.concatenate([zero, upper[0], before[:, 0]]),
            np.concatenate([diagonal[0], 2 * (before + after)[:, 0], diagonal[1]]),
            np.concatenate([after[:, 0], lower[0], zero]),
        ]
    )
    return banded(ab, np.concatenate([right[0][None], inner, right[1][None]]), 1, 1)


def _make_cubic(x: Array, y: Array, *given: Array, ends: Ends | None) -> Array:
    """Return the coefficients of the cubic spline through points.

    ``given`` are the values of the derivatives whose orders ``ends`` has; ``ends``
    None: the spline is periodic.
    """
    shape = shape_of(y)
    columns = math.prod(shape[1:])
    flat = np.reshape(y, (shape[0], columns))
    values = tuple([np.reshape(v, (columns,)) for v in given])
    return hermite(x, y, np.reshape(_find_slopes(x, flat, values, ends), shape))


CUBIC = composite(
    "cubic_spline",
    _make_cubic,
    rule="a cubic spline through the points",
    infer=_infer_pieces,
    helper='''\
def cubic_spline(x, y, *given, ends):
    """The coefficients of a cubic spline, with derivatives given at the ends."""
    if ends is None:
        return interpolate.CubicSpline(x, y, bc_type="periodic").c
    rest = iter(given)
    kinds = tuple(["not-a-knot" if n is None else (n, next(rest)) for n in ends])
    return interpolate.CubicSpline(x, y, bc_type=kinds).c
''',
)


# Shape-preserving cubics


def _find_end_slope(h: Array, k: Array, m: Array, n: Array) -> Array:
    """Return the slope at an end by three points, limited to keep the shape."""
    slope = ((2 * h + k) * m - h * n) / (h + k)
    is_same = np.equal(np.sign(slope), np.sign(m))
    is_steep = np.logical_and(
        np.not_equal(np.sign(m), np.sign(n)),
        np.greater(np.absolute(slope), 3 * np.absolute(m)),
    )
    return np.where(is_same, np.where(is_steep, 3 * m, slope), 0 * slope)


def _make_pchip(x: Array, y: Array) -> Array:
    """Return cubics that are monotone where the points are."""
    step = spread(np.diff(x), len(shape_of(y)))
    secant = np.diff(y, axis=0) / step
    if shape_of(x)[0] == 2:
        return np.stack([0 * secant, 0 * secant, secant, y[:-1]])
    h, k, m, n = step[:-1], step[1:], secant[:-1], secant[1:]
    turns = np.less_equal(np.sign(m) * np.sign(n), 0)
    first, second = 2 * k + h, k + 2 * h
    mean = first / np.where(turns, 1, m) + second / np.where(turns, 1, n)
    inner = np.where(turns, 0, (first + second) / mean)
    left = _find_end_slope(step[0], step[1], secant[0], secant[1])
    right = _find_end_slope(step[-1], step[-2], secant[-1], secant[-2])
    return hermite(x, y, np.concatenate([left[None], inner, right[None]]))


PCHIP = composite(
    "pchip",
    _make_pchip,
    rule="monotone cubics through the points",
    infer=_infer_pieces,
    helper='''\
def pchip(x, y):
    """The coefficients of monotone cubics."""
    return interpolate.PchipInterpolator(x, y).c
''',
)

#: Below this part of the largest weight, weights say nothing (SciPy's number).
NO_WEIGHT = 1e-9


def _make_akima(x: Array, y: Array, *, modified: bool) -> Array:
    """Return cubics whose slopes are means of secants, weighed by how these turn."""
    step = spread(np.diff(x), len(shape_of(y)))
    secant = np.diff(y, axis=0) / step
    if shape_of(x)[0] == 2:
        return np.stack([0 * secant, 0 * secant, secant, y[:-1]])
    before = 2 * secant[:1] - secant[1:2]
    after = 2 * secant[-1:] - secant[-2:-1]
    m = np.concatenate(
        [2 * before - secant[:1], before, secant, after, 2 * after - secant[-1:]]
    )
    turn = np.absolute(np.diff(m, axis=0))
    if modified:
        turn = turn + np.absolute(m[1:] + m[:-1]) / 2
    left, right = turn[2:], turn[:-2]
    total = left + right
    is_known = np.greater(total, NO_WEIGHT * np.max(total))
    weighed = (left * m[1:-2] + right * m[2:-1]) / np.where(is_known, total, 1)
    return hermite(x, y, np.where(is_known, weighed, (m[3:] + m[:-3]) / 2))


AKIMA = composite(
    "akima",
    _make_akima,
    rule="cubics with slopes of secants",
    infer=_infer_pieces,
    helper='''\
def akima(x, y, modified):
    """The coefficients of cubics with Akima's slopes."""
    method = "makima" if modified else "akima"
    return interpolate.Akima1DInterpolator(x, y, method=method).c
''',
)


# B-splines


def basis_values(t: Array, q: Array, place: Array, k: int) -> list[Any]:
    """Return the k + 1 B-splines that are not 0 in the interval ``place`` of knots.

    By the recursion of Cox and de Boor; quotients by no length are 0.
    """
    found: list[Any] = [1 + 0 * q]
    for degree in range(1, k + 1):
        made: list[Any] = []
        carried: Any = None
        for r in range(degree):
            high = take(t, place + 1 + r)
            low = take(t, place + 1 + r - degree)
            length = high - low
            is_empty = np.equal(length, 0)
            share = np.where(is_empty, 0, found[r] / np.where(is_empty, 1, length))
            rising = (high - q) * share
            made.append(rising if carried is None else carried + rising)
            carried = (q - low) * share
        found = [*made, carried]
    return found


def differentiate_bspline(t: Array, c: Array, k: int) -> tuple[Any, Any]:
    """Return the inner knots and the coefficients of the derivative of a B-spline."""
    count = shape_of(t)[0] - k - 1
    length = t[k + 1 : k + count] - t[1:count]
    is_empty = np.equal(length, 0)
    share = np.where(is_empty, 0, k / np.where(is_empty, 1, length))
    return t[1:-1], np.diff(c[:count], axis=0) * spread(share, len(shape_of(c)))


def _evaluate_bspline(
    t: Array, c: Array, q: Array, place: Array, *, k: int, nu: int
) -> Array:
    """Return a B-spline of degree k, or its derivative, at points.

    ``place`` is the number of the knot before each point, from k on.
    """
    degree = k
    for _ in range(min(nu, k)):
        t, c = differentiate_bspline(t, c, degree)
        degree -= 1
    place = place - (k - degree)
    y: Any = None
    for r, weight in enumerate(basis_values(t, q, place, degree)):
        value = take(c, place - degree + r, axis=0)
        term = value * spread(weight, len(shape_of(value)))
        y = term if y is None else y + term
    return 0 * y if nu > k else y


def _infer_bspline(
    t: Array, c: Array, q: Array, place: Array, *, k: int, nu: int
) -> Spec:
    dtype = np.result_type(*[dtype_of(v) for v in (t, c, q)])
    return Spec((*shape_of(q), *shape_of(c)[1:]), dtype)


BSPLINE = composite(
    "bspline",
    _evaluate_bspline,
    rule="the B-splines at the points",
    infer=_infer_bspline,
    helper='''\
def bspline(t, c, q, place, k, nu):
    """A B-spline, or a derivative, at points."""
    return interpolate.BSpline(t, c, k)(q, nu)
''',
)
