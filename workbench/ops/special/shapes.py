"""Derivatives of the incomplete gamma and beta functions by their shapes.

Each is a mean over the nearer tail, ``d log P / da = E[d log p / da | tail]``, and so
keeps its digits there. The integrals of these means decay from the end of the tail on,
and a rule of Gauss gives them to 12 digits, with all derivatives of their own. Of many
numbers at once series and continued fractions give the same means, in a tenth of the
time: these are not differentiated further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

from workbench.core.tensor import ON_HOST
from workbench.core.types import Array
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.special.define import F, float_helper, series

# Means over a tail
#
# Each is a quotient of integrals of exp(-fall(s)) over s > 0, where ``fall`` is convex
# and rises from 0: s is the distance from the end of the tail, in the logarithm of the
# variable (gamma) or of its odds (beta).

#: Where ``fall`` is so large, the rest of the integral is not counted.
FALL = 31.0

_ROOTS, _MASSES = np.polynomial.legendre.leggauss(28)  # host array: constants
_HALF = (_ROOTS + 1) / 2

#: Squares of the points of Gauss's rule, dense at 0: integrands bend most there.
NODES = _HALF * _HALF

#: Weights of the mean of a function at the nodes, and of s times it: columns.
WEIGHTS = np.stack([_HALF * _MASSES, _HALF * NODES * _MASSES], axis=1)

#: So many entries at a time stay in a core's memory with all their nodes.
_CHUNK = 512


def split_large(integrate: Callable[..., Array]) -> Callable[..., Array]:
    """Let integrals of arrays that broadcast, in a first axis, be computed in parts."""

    @wraps(integrate)
    def compute(*arrays: Any) -> Array:
        if not all(isinstance(x, ON_HOST) for x in arrays):
            return integrate(*arrays)
        full = np.broadcast_arrays(*arrays)
        if full[0].size <= _CHUNK:
            return integrate(*arrays)
        flat = [x.reshape(-1) for x in full]
        parts = [
            integrate(*[x[i : i + _CHUNK] for x in flat])
            for i in range(0, flat[0].size, _CHUNK)
        ]
        return np.concatenate(parts, axis=1).reshape(-1, *full[0].shape)

    return compute


def _spread_nodes(end: Array) -> Array:
    """Return the nodes of each interval from 0 to an end, along a new first axis."""
    nodes = np.reshape(convert_like(NODES, end), (-1, *(1,) * len(shape_of(end))))
    return nodes * end


def _weigh(density: Array, columns: slice = slice(None)) -> Array:
    """Return the means by each column of weights, along the first axis."""
    return np.tensordot(convert_like(WEIGHTS.T[columns], density), density, 1)


def _is_small(size: Array) -> bool:
    """Return whether rounding errors of 1, so many times, do not count.

    Then exp and log may stand for expm1 and log1p, in a third of the time. Of values
    that are not known yet they may not.
    """
    if not isinstance(size, ON_HOST):
        return False
    return bool(np.max(size, initial=0) < 1e4)  # host array: as the type says


def _bound_end(slope: Array, bend: Array) -> Array:
    """Return where ``slope * s + bend * s**2 / (2 + s)`` has fallen, or beyond."""
    b = FALL - 2 * slope
    total = slope + bend
    return (b + np.sqrt(b * b + 8 * FALL * total)) / (2 * total)


def choose_tail(
    mass: Array, is_own: Array, other: Callable[..., Array], *arguments: Array
) -> Array:
    """Return the mass of a tail, of that of either one.

    ``other(*arguments)`` is it too, and stands in where 1 minus the mass loses digits:
    there alone it is computed.
    """
    thin: Any = np.logical_and(np.logical_not(is_own), np.greater(mass, 0.99))
    tail: Any = np.where(is_own, mass, 1 - mass)
    if type(thin) is np.ndarray:
        few: Any = [np.broadcast_to(x, thin.shape)[thin] for x in arguments]
        if len(few[0]):
            tail[thin] = other(*few)
        return tail
    safe = [np.where(thin, x, 1) for x in arguments[:2]]
    return np.where(thin, other(*safe, *arguments[2:]), tail)


# Means of many numbers at once, by recurrences
#
# The logarithm of a tail is that of a power, of gamma functions, and of a series or of
# a continued fraction; both are summed with their derivative by the shape.

#: Steps of a recurrence. Numbers that need more have the integral.
STEPS = (12, 20, 32, 48, 80, 128, 200)

#: So many numbers are worth a step of a recurrence.
WORTH = 4

#: Fewer numbers have the integral at once.
MANY = WORTH * STEPS[0]

#: Where the rest of a recurrence is the exponential of minus so much, it ends.
REST = 36.0

#: The series of the lower tail serves the upper one, where that has so much.
ENOUGH = 0.01

#: So many numbers of a recurrence stay in a core's memory.
_BLOCK = 4096

#: Numbers of a recurrence.
Doubles = np.ndarray[Any, np.dtype[np.float64]]

#: Whole numbers as arrays: of a number of Python's a call takes twice as long.
_WHOLE = [np.array(float(n)) for n in range(2 * STEPS[-1])]  # host array: constants
_ONE = _WHOLE[1]


class Recurrence(NamedTuple):
    """A recurrence: where it settles, and what its first steps give.

    ``settles(steps, *arrays)`` returns whether the rest has fallen by exp(-REST), and
    ``sum_up(steps, *arrays)`` the mean.
    """

    settles: Callable[..., Array]
    sum_up: Callable[..., Array]


def _fill(
    mean: Doubles, places: Array, recurrence: Recurrence, arrays: Sequence[Array]
) -> None:
    """Write the means at these places in which a recurrence settles."""
    given = [x[places] for x in arrays]
    for steps in STEPS:
        ready = recurrence.settles(steps, *given)
        chosen = np.flatnonzero(ready)
        if chosen.size < max(WORTH * steps, places.size / 8):
            continue  # these few have the next one, or the integral
        for i in range(0, chosen.size, _BLOCK):
            part = chosen[i : i + _BLOCK]
            mean[places[part]] = recurrence.sum_up(steps, *[x[part] for x in given])
        others = np.flatnonzero(np.logical_not(ready))
        places, given = places[others], [x[others] for x in given]
        if places.size < WORTH * steps:
            return


def _follow_recurrences(
    choose: Callable[..., Sequence[tuple[Array, Recurrence]]], *arrays: Any
) -> Any:
    """Return means of many plain numbers, NaN where no recurrence settles; or None.

    ``choose(*arrays)`` names recurrences, each with the mask of the numbers that it is
    for; they read all arrays but those of truth values.
    """
    if not all(isinstance(x, ON_HOST) for x in arrays):
        return None
    full = np.broadcast_arrays(*arrays)
    if full[0].size < MANY:
        return None
    flat = [x.reshape(-1) for x in full]
    double = [x.astype(float, copy=False) for x in flat if x.dtype != bool]
    mean = np.full(full[0].size, np.nan)  # host array: as the type says
    with np.errstate(all="ignore"):  # of the numbers for which these are not meant
        for mask, recurrence in choose(*flat):
            _fill(mean, np.flatnonzero(mask), recurrence, double)
    return mean.reshape(full[0].shape)


def _integrate_rest(mean: Any, integrate: Callable[..., Array], *arrays: Any) -> Array:
    """Return means, by their integrals where they are not known yet."""
    if mean is None:
        return integrate(*arrays)
    rest = np.isnan(mean)
    if np.any(rest):
        few = [np.broadcast_to(x, rest.shape)[rest] for x in arrays]
        mean[rest] = integrate(*few)
    return mean


# Incomplete gamma functions: DLMF 8.8.13


@split_large
def _integrate_gamma(c: Array, x: Array, end: Array) -> Array:
    """Return the means of exp(c s - x expm1(s)), and of s times it, up to the end."""
    away = _spread_nodes(end)
    grown = np.exp(away) - 1 if _is_small(x) else np.expm1(away)
    return _weigh(np.exp(c * away - x * grown))


def _settles_series(steps: int, a: Doubles, x: Doubles) -> Array:
    """Return whether the terms x**n / (a + 1)_n have fallen."""
    grown = (a + 0.25 * steps) * (a + 0.75 * steps)
    return grown > math.exp(2 * REST / steps) * x * x


def _sum_series(steps: int, a: Doubles, x: Doubles) -> Doubles:
    """Return minus the slope by a of the log of the sum of x**n / (a + 1)_n.

    By Horner's rule: S_(n - 1) = 1 + S_n / w, w = (a + n) / x, and so its slope.
    """
    step, start = 1 / x, a / x
    whole, slope, w = np.ones_like(a), np.zeros_like(a), np.empty_like(a)
    for n in _WHOLE[steps:0:-1]:
        np.multiply(step, n, out=w)
        w += start
        whole /= w
        slope += whole
        slope /= w
        whole += _ONE
    slope /= whole
    slope *= step
    return np.negative(slope, out=slope)


def _settles_legendre(steps: int, a: Doubles, x: Doubles) -> Array:
    """Return whether the rest of Legendre's fraction has fallen."""
    n = 0.5 * steps
    b, away = x + (steps + 1) - a, n - a
    root = b + np.sqrt(np.maximum(b * b - 4 * n * away, 0))
    c = 4 * n * np.maximum(np.abs(away), 0.25 * (n + a))
    return (root > 0) & (c < math.exp(-REST / steps) * root * root)


def _follow_legendre(steps: int, a: Doubles, x: Doubles) -> Doubles:
    """Return the slope by a of the log of Legendre's fraction: DLMF 8.9.2.

    It is 1 / K_0, K_n = x + 2 n + 1 - a - (n + 1) (n + 1 - a) / K_(n + 1).
    """
    b = x - a
    k = b + (2 * steps + 1)
    slope, part, v = -1 / k, np.empty_like(a), np.empty_like(a)
    for n, odd in zip(_WHOLE[steps:0:-1], _WHOLE[2 * steps - 1 :: -2], strict=True):
        np.divide(n, k, out=part)
        np.subtract(n, a, out=v)
        v *= part
        slope *= v
        slope += part
        slope -= _ONE
        np.add(b, odd, out=k)
        k -= v
        slope /= k
    return np.negative(slope, out=slope)


_SERIES = Recurrence(_settles_series, _sum_series)
_LEGENDRE = Recurrence(_settles_legendre, _follow_legendre)


def _choose_gamma(a: Array, x: Array, left: Array) -> tuple[Any, ...]:
    """Return each recurrence with its mask and arguments."""
    return (left, _SERIES), (np.logical_not(left), _LEGENDRE)


def _integrate_gamma_mean(a: Array, x: Array, left: Array) -> Array:
    """Return the mean of log(t / x) over a tail."""
    c = np.where(left, a + 1, a)
    slope = np.abs(x - c)
    high = 2 * FALL / (slope + np.sqrt(slope * slope + 2 * FALL * x))
    high = np.minimum(high, np.log1p((FALL + a * high) / x))
    low = np.minimum((FALL + x) / c, _bound_end(slope, x))
    end = stop_gradient(np.where(left, low, high))
    means = _integrate_gamma(c, x, np.where(left, -end, end))
    whole, first = end * means[0], end * end * means[1]
    return np.where(left, -x * first / (x * whole + 1), first / whole)


@float_helper
def gammainc_by_shape(a: Array, x: Array, mass: Array, *, upper: bool) -> Array:
    """Return the derivative of gammainc(a, x) by a.

    ``mass`` is gammainc(a, x), or, ``upper``, gammaincc(a, x).

    With DLMF 8.2.1 for t = x exp(s) and D = x**c exp(-x) / gamma(c), right of the
    median gammaincc(a, x) = D M and c = a; left of it by DLMF 8.8.5 gammainc(a, x) =
    D (M + 1/x) and c = a + 1, where M is the integral of exp(c s - x expm1(s)) from 0
    outwards. The logarithms of both are differentiated: DLMF 5.2.2 and 8.8.13.
    """
    inside = np.isfinite(x) & (x > 0) & (a > 0) & np.isfinite(a)
    a, x = np.where(inside, a, 1), np.where(inside, x, 1)
    above = mass if upper else 1 - mass
    left = x < a + 0.5
    has_series = left | (above > ENOUGH)  # it is short there, and keeps 12 digits
    mean = _follow_recurrences(_choose_gamma, a, x, has_series)
    if mean is not None:
        left = np.where(np.isnan(mean), left, has_series)
    c = np.where(left, a + 1, a)
    mean = _integrate_rest(mean, _integrate_gamma_mean, a, x, left)
    other = F.gammainc if upper else F.gammaincc
    tail = choose_tail(mass, left != upper, other, a, x)
    y = np.where(left, tail, -tail) * (np.log(x) - F.psi(c) + mean)
    return np.astype(np.where(inside, y, 0 * mass), dtype_of(mass))


# Incomplete beta functions: DLMF 8.17.20


def _digamma_gap(a: Array, b: Array, total: Array) -> Array:
    """Return psi(a + b) - psi(a) with its digits where a is large: DLMF 5.11.2.

    ``total`` is a + b, with its digits where that is small.
    """
    large = a > 20
    if isinstance(large, ON_HOST) and not np.any(large):
        return F.psi(total) - F.psi(a)
    p, q = np.where(large, a, 20), np.where(large, b, 1)

    def rest(n: Array) -> Array:
        u = 1 / (n * n)
        terms = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
        return u * series(u, *terms)

    far = np.log1p(q / p) + q / (2 * p * (p + q)) + rest(p) - rest(p + q)
    p, whole = np.where(large, 1, a), np.where(large, 1, total)
    return np.where(large, far, F.psi(whole) - F.psi(p))


#: Shapes below have slopes of the other shape by series: the rest would cancel.
TINY = 0.01


def _has_tiny(shape: Array) -> bool:
    """Return whether a shape may be tiny: of values that are not known yet it may."""
    if not isinstance(shape, ON_HOST):
        return True
    return bool(np.min(shape, initial=1) < TINY)  # host array: as the type says


def _step_digamma(a: Array, b: Array) -> Array:
    """Return psi(a + b) - psi(a) of tiny b: DLMF 5.5.2 and Taylor's series."""
    zetas = [(-1) ** k * F.zeta(k + 0.0, a + 1) for k in range(2, 8)]
    return b * series(b, *zetas) + b / (a * (a + b))


def _spread_beta(
    rate: Array, total: Array, z: Array, beyond: Array, end: Array
) -> tuple[Array, Array, Array]:
    """Return -s, log(1 - z + z exp(-s)) and exp(-fall) at the nodes."""
    away = _spread_nodes(-end)
    if _is_small(total):
        share = np.log(beyond + z * np.exp(away))
    else:
        share = np.log1p(z * np.expm1(away))
    return away, share, np.exp(rate * away - total * share)


@split_large
def _integrate_beta(
    rate: Array, total: Array, z: Array, beyond: Array, end: Array
) -> Array:
    """Return the means of exp(-fall), and of s and log(1 - z + z exp(-s)) times it."""
    _, share, density = _spread_beta(rate, total, z, beyond, end)
    return np.concatenate([_weigh(density), _weigh(density * share, slice(1))])


@split_large
def _integrate_log(
    rate: Array, total: Array, z: Array, beyond: Array, end: Array
) -> Array:
    """Return the mean of -log(1 - t) / t times exp(-fall)."""
    away, share, density = _spread_beta(rate, total, z, beyond, end)
    t = z * np.exp(away - share)
    is_low = t < 0.5
    low = -np.log1p(-np.where(is_low, t, 0))
    ratio = np.where(is_low, low, share - np.log(beyond)) / t
    return _weigh(density * ratio, slice(1))


def _bound_beta(p: Array, q: Array, z: Array, beyond: Array) -> Array:
    """Return where the integrand over a tail has fallen."""
    total = p + q + 1
    end = np.minimum(
        (FALL - total * np.log1p(-z)) / (p + 1),
        _bound_end(p + 1 - total * z, total * z * beyond),
    )
    grown = np.expm1(np.minimum((FALL + q * end) / total, 700))
    return stop_gradient(np.minimum(end, np.log1p(grown / beyond)))


def _settles_beta(steps: int, p: Doubles, q: Doubles, z: Doubles) -> Array:
    """Return whether the rest of the fraction has fallen."""
    m = 0.25 * steps
    share, away = z / (p + 2 * m), q - m
    odd = (p + m) * (p + q + m) * share / (p + 2 * m + 1)
    even = m * np.maximum(np.abs(away), 0.25 * (q + m)) * share / (p + 2 * m - 1)
    signed = np.copysign(even, away)
    t = np.maximum(1 - odd + signed, 0)
    root = t + np.sqrt(np.maximum(t * t + 4 * odd * signed, 0))
    return (root > 0) & (4 * even * odd < math.exp(-2 * REST / steps) * root * root)


def _follow_beta(
    steps: int, p: Doubles, q: Doubles, z: Doubles, *, by_p: bool
) -> Doubles:
    """Return minus the slope by p or q of the log of the fraction of DLMF 8.17.22.

    The fraction is 1 / K. Extended, so that few operations remain, it is of J_n =
    b_n + c_(n + 1) / J_(n + 1), with b_n = p + n of odd n, (p + n) / z of even n,
    c_(2 m) = m (q - m), c_(2 m + 1) = -(p + m) (p + q + m).
    """
    total, start, step = p + q, p / z, 1 / z
    j, slope = (p + steps) if steps % 2 else (start + steps * step), np.zeros_like(p)
    if by_p:
        slope = (1 if steps % 2 else step) / j
    c, by, b = (np.empty_like(p) for _ in range(3))
    for n in range(steps, 1, -1):
        m, before = _WHOLE[n // 2], _WHOLE[n - 1]
        if n % 2:
            np.add(p, m, out=c)
            np.add(total, m, out=b)
            if by_p:
                np.add(c, b, out=by)
                by /= j
                np.subtract(step, by, out=by)
            else:
                np.divide(c, j, out=by)
                np.negative(by, out=by)
            c *= b
            c /= j
            slope *= c
            slope += by
            np.multiply(step, before, out=b)
            b += start
            np.subtract(b, c, out=j)
        else:
            np.subtract(q, m, out=c)
            c *= m
            c /= j
            slope *= c
            if by_p:
                np.subtract(_ONE, slope, out=slope)
            else:
                np.divide(m, j, out=by)
                np.subtract(by, slope, out=slope)
            np.add(p, before, out=b)
            np.add(b, c, out=j)
        slope /= j
    # The last with its digits where p is tiny: K = 1 - v, v = (p + q) z / J_1
    v = total * z / j
    return (z / j - v * slope) / (1 - v)


_BETA_BY_P = Recurrence(_settles_beta, partial(_follow_beta, by_p=True))
_BETA_BY_Q = Recurrence(_settles_beta, partial(_follow_beta, by_p=False))


def _choose_beta(p: Array, q: Array, z: Array, by_p: Array) -> tuple[Any, ...]:
    return (by_p, _BETA_BY_P), (np.logical_not(by_p) & (p > TINY), _BETA_BY_Q)


def _integrate_beta_mean(
    p: Array, q: Array, z: Array, beyond: Array, by_p: Array
) -> Array:
    """Return the mean over a tail, less that over all: see `betainc_by_shape`."""
    total = p + q + 1
    end = _bound_beta(p, q, z, beyond)
    means = _integrate_beta(p + 1, total, z, beyond, end)
    whole = end * means[0]
    inner = end * (np.where(by_p, end * means[1], 0) + means[2])
    mean = z * (whole - (p + q) * inner) / (1 + (p + q) * z * whole)
    if _has_tiny(p):
        is_tiny = np.logical_not(by_p) & (p < TINY)
        tiny = np.where(is_tiny, p, TINY)
        few = end * _integrate_log(p + 1, total, z, beyond, end)[0]
        few = -tiny * z * few / (1 + (p + q) * z * whole)
        mean = np.where(is_tiny, few, mean)
    return mean


@float_helper
def betainc_by_shape(
    a: Array, b: Array, x: Array, rest: Array, mass: Array, *, first: bool, upper: bool
) -> Array:
    """Return the derivative of betainc(a, b, x) by a, the ``first``, or by b.

    ``rest`` is 1 - x with its digits, ``mass`` betainc(a, b, x), or, ``upper``,
    betaincc(a, b, x).

    Of the nearer tail, p, q and z being a, b and x or, for the upper one, b, a and 1 -
    x, the mass is by DLMF 8.17.18 z**p (1 - z)**q gamma(p + q) / (gamma(p + 1)
    gamma(q)) times 1 + (p + q) z M, where M is the integral of exp(-fall(s)), fall =
    (p + 1) s + (p + q + 1) log(1 - z + z exp(-s)); s is the logarithm of the odds of z
    by those of t in DLMF 8.17.1. Its logarithm is differentiated. Of tiny p the terms
    by q cancel, and log(1 - t) is integrated itself.
    """
    inside = (x > 0) & (rest > 0) & (a > 0) & (b > 0) & np.isfinite(a + b)
    a, b = np.where(inside, a, 1), np.where(inside, b, 1)
    x, rest = np.where(inside, x, 0.5), np.where(inside, rest, 0.5)
    left = x * (a + b + 2) <= a + 1
    p, q = np.where(left, a, b), np.where(left, b, a)
    z, beyond = np.where(left, x, rest), np.where(left, rest, x)
    by_p = left == first
    mean = _follow_recurrences(_choose_beta, p, q, z, by_p)
    mean = _integrate_rest(mean, _integrate_beta_mean, p, q, z, beyond, by_p)
    gap = _digamma_gap(np.where(by_p, p + 1, q), np.where(by_p, q - 1, p), p + q)
    base = np.log(np.where(by_p, z, beyond)) + gap
    if _has_tiny(p):
        is_tiny = np.logical_not(by_p) & (p < TINY)
        base = np.where(is_tiny, _step_digamma(q, np.where(is_tiny, p, TINY)), base)
    slope = base + mean
    tail = choose_tail(mass, left != upper, F.betainc, p, q, z)
    y = np.where(left, tail, -tail) * slope
    return np.astype(np.where(inside, y, 0 * mass), dtype_of(mass))
