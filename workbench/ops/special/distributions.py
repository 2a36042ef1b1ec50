"""Incomplete gamma and beta functions, and the distributions that they make.

By the argument the derivative is the density. By the shapes it is a mean over the
nearer tail, ``d log P / da = E[d log p / da | tail]``, and so keeps its digits there:
the integrals of these means decay from the end of the tail on, and a rule of Gauss
gives them to 12 digits, with all derivatives of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.core.tensor import ON_HOST
from workbench.core.types import Array
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.special.define import F, helper, series, special, where

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


def _choose_tail(
    mass: Array, is_own: Array, other: Callable[..., Array], *arguments: Array
) -> Array:
    """Return the mass of a tail, of that of either one.

    ``other(*arguments)`` is it too, and stands in where 1 minus the mass loses digits:
    there alone it is computed.
    """
    thin: Any = np.logical_and(np.logical_not(is_own), np.greater(mass, 0.9))
    tail: Any = np.where(is_own, mass, 1 - mass)
    if type(thin) is np.ndarray:
        few: Any = [np.broadcast_to(x, thin.shape)[thin] for x in arguments]
        if len(few[0]):
            tail[thin] = other(*few)
        return tail
    safe = [np.where(thin, x, 1) for x in arguments[:2]]
    return np.where(thin, other(*safe, *arguments[2:]), tail)


# Incomplete gamma functions: DLMF 8.8.13


@split_large
def _integrate_gamma(c: Array, x: Array, end: Array) -> Array:
    """Return the means of exp(c s - x expm1(s)), and of s times it, up to the end."""
    away = _spread_nodes(end)
    grown = np.exp(away) - 1 if _is_small(x) else np.expm1(away)
    return _weigh(np.exp(c * away - x * grown))


@helper
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
    left = x < a + 0.5
    c = np.where(left, a + 1, a)
    slope = np.abs(x - c)
    high = 2 * FALL / (slope + np.sqrt(slope * slope + 2 * FALL * x))
    high = np.minimum(high, np.log1p((FALL + a * high) / x))
    low = np.minimum((FALL + x) / c, _bound_end(slope, x))
    end = stop_gradient(np.where(left, low, high))
    means = _integrate_gamma(c, x, np.where(left, -end, end))
    whole, first = end * means[0], end * end * means[1]
    mean = np.where(left, -x * first / (x * whole + 1), first / whole)
    other = F.gammainc if upper else F.gammaincc
    tail = _choose_tail(mass, left != upper, other, a, x)
    y = np.where(left, tail, -tail) * (np.log(x) - F.psi(c) + mean)
    return np.astype(np.where(inside, y, 0 * mass), dtype_of(mass))


# Incomplete beta functions: DLMF 8.17.20


def _digamma_gap(a: Array, b: Array, total: Array) -> Array:
    """Return psi(a + b) - psi(a) with its digits where a is large: DLMF 5.11.2.

    ``total`` is a + b, with its digits where that is small.
    """
    large = a > 20
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


@helper
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
    total = p + q + 1
    end = np.minimum(
        (FALL - total * np.log1p(-z)) / (p + 1),
        _bound_end(p + 1 - total * z, total * z * beyond),
    )
    grown = np.expm1(np.minimum((FALL + q * end) / total, 700))
    end = stop_gradient(np.minimum(end, np.log1p(grown / beyond)))
    means = _integrate_beta(p + 1, total, z, beyond, end)
    by_p = left == first
    whole = end * means[0]
    inner = end * (np.where(by_p, end * means[1], 0) + means[2])
    mean = z * (whole - (p + q) * inner) / (1 + (p + q) * z * whole)
    fixed = _digamma_gap(np.where(by_p, p + 1, q), np.where(by_p, q - 1, p), p + q)
    slope = np.log(np.where(by_p, z, beyond)) + fixed + mean
    if _has_tiny(p):
        is_tiny = np.logical_not(by_p) & (p < TINY)
        tiny = np.where(is_tiny, p, TINY)
        mean = end * _integrate_log(p + 1, total, z, beyond, end)[0]
        mean = -tiny * z * mean / (1 + (p + q) * z * whole)
        slope = np.where(is_tiny, _step_digamma(q, tiny) + mean, slope)
    tail = _choose_tail(mass, left != upper, F.betainc, p, q, z)
    y = np.where(left, tail, -tail) * slope
    return np.astype(np.where(inside, y, 0 * mass), dtype_of(mass))


@helper
def gamma_density(a: Array, x: Array) -> Array:
    """Return the derivative of gammainc(a, x) by x.

    Near 0 by the power itself, whose derivatives stay right at 0 where it is whole.
    """
    near = (x < 1) & (a < 100)
    b = np.where(near & (x >= 0), x, np.where(near, np.nan, 1))
    order = np.where(near, a, 1)
    power = b ** (order - 1) * np.exp(-b) * F.rgamma(order)
    far = np.where(near, 1, x)
    return np.where(near, power, np.exp(F.xlogy(a - 1, far) - far - F.gammaln(a)))


special(
    "gammainc",
    "gammainc_by_shape(x0, x1, y, upper=False)",
    "gamma_density(x0, x1)",
)
special(
    "gammaincc",
    "-gammainc_by_shape(x0, x1, y, upper=True)",
    "-gamma_density(x0, x1)",
)
special(
    "gammaincinv",
    "-g * divide_slope("
    "gammainc_by_shape(x0, y, x1, upper=False), gamma_density(x0, y))",
    "g / gamma_density(x0, y)",
)
special(
    "gammainccinv",
    "-g * divide_slope(gammainc_by_shape(x0, y, x1, upper=True), gamma_density(x0, y))",
    "-g / gamma_density(x0, y)",
)


@helper
def divide_slope(by_shape: Array, density: Array) -> Array:
    """Return a slope by a shape over the density: 0 at the ends, which stay there."""
    ends = by_shape == 0
    return np.where(ends, 0, by_shape / np.where(ends, 1, density))


@helper
def beta_density(a: Array, b: Array, x: Array) -> Array:
    """Return the derivative of betainc(a, b, x) by x.

    By the powers themselves, whose derivatives stay right at 0 and 1 where they are
    whole; where these could underflow, by their logarithms.
    """
    small = (a + b < 100) & np.isfinite(a + b)
    inside = np.where((x >= 0) & (x <= 1), x, np.nan)
    p, q = np.where(small, a, 1), np.where(small, b, 1)
    z = np.where(small, inside, 0.5)
    power = z ** (p - 1) * (1 - z) ** (q - 1) / F.beta(p, q)
    z = np.where(small, 0.5, x)
    large = np.exp(F.xlogy(a - 1, z) + F.xlog1py(b - 1, -z) - F.betaln(a, b))
    return np.where(small, power, large)


for _name, _upper, _sign in (("betainc", False, ""), ("betaincc", True, "-")):
    _shapes = [
        f"betainc_by_shape(x0, x1, {{x}}, 1 - {{x}}, {{p}}, {first=}, upper={_upper})"
        for first in (True, False)
    ]
    special(
        _name,
        *(_sign + part.format(x="x2", p="y") for part in _shapes),
        f"{_sign}beta_density(x0, x1, x2)",
    )
    special(
        f"{_name}inv",
        *(
            f"-g * divide_slope({part.format(x='y', p='x2')}, beta_density(x0, x1, y))"
            for part in _shapes
        ),
        f"{_sign}g / beta_density(x0, x1, y)",
    )


# Distribution functions by their old names (`chdtr`, `stdtr`, ...) and inverses.
#
# By the argument the derivative is the density; by an integer count it is 0, since
# SciPy rounds it down. The same functions under today's names stand in `scipy.stats`,
# and here in `workbench.scipy.stats`.

# Gamma and chi-square: gdtr(a, b, x) = gammainc(b, a x), chdtr(v, x) of half of each

for _name, _upper, _sign in (("gdtr", False, ""), ("gdtrc", True, "-")):
    special(
        _name,
        f"{_sign}x2 * gamma_density(x1, x0 * x2)",
        f"{_sign}gammainc_by_shape(x1, x0 * x2, y, upper={_upper})",
        f"{_sign}x0 * gamma_density(x1, x0 * x2)",
    )
special(
    "gdtrix",
    "-g * y / x0",
    "-g * divide_slope(gammainc_by_shape(x1, x0 * y, x2, upper=False),"
    " x0 * gamma_density(x1, x0 * y))",
    "g / (x0 * gamma_density(x1, x0 * y))",
)
special(
    "gdtria",
    "g / (x2 * gamma_density(x1, y * x2))",
    "-g * divide_slope(gammainc_by_shape(x1, y * x2, x0, upper=False),"
    " x2 * gamma_density(x1, y * x2))",
    "-g * y / x2",
)
special(
    "gdtrib",
    "-g * x2 * gamma_density(y, x0 * x2)"
    " / gammainc_by_shape(y, x0 * x2, x1, upper=False)",
    "g / gammainc_by_shape(y, x0 * x2, x1, upper=False)",
    "-g * x0 * gamma_density(y, x0 * x2)"
    " / gammainc_by_shape(y, x0 * x2, x1, upper=False)",
)
for _name, _upper, _sign in (("chdtr", False, ""), ("chdtrc", True, "-")):
    special(
        _name,
        f"{_sign}0.5 * gammainc_by_shape(0.5 * x0, 0.5 * x1, y, upper={_upper})",
        f"{_sign}0.5 * gamma_density(0.5 * x0, 0.5 * x1)",
    )
special(
    "chdtri",
    "-g * divide_slope(gammainc_by_shape(0.5 * x0, 0.5 * y, x1, upper=True),"
    " gamma_density(0.5 * x0, 0.5 * y))",
    "-2 * g / gamma_density(0.5 * x0, 0.5 * y)",
)
special(
    "chdtriv",
    "2 * g / gammainc_by_shape(0.5 * y, 0.5 * x1, x0, upper=False)",
    "-g * gamma_density(0.5 * y, 0.5 * x1)"
    " / gammainc_by_shape(0.5 * y, 0.5 * x1, x0, upper=False)",
)


def _log_noncentral_density(x: Array, df: Array, nc: Any) -> Array:
    """Return the log of the noncentral chi-square density.

    It is that of a Bessel function I (Johnson, Kotz, Balakrishnan, 29.4). Of a large
    order by DLMF 10.41.3, where the terms that grow have cancelled; else by 0F1, which
    is regular at nc = 0; and where 0F1 overflows, by the scaled Bessel function.
    """
    order = 0.5 * df - 1
    is_large = (order > 100) & (x > 0)
    is_far = np.logical_not(is_large) & (nc * x > 1e4)
    is_near = np.logical_not(is_large | is_far)

    a, c = np.where(is_near, x, 1), np.where(is_near, nc, 0)
    half = np.where(is_near, 0.5 * df, 1)
    near = F.xlogy(half - 1, 0.5 * a) - F.gammaln(half) - 0.5 * (a + c)
    near = near + np.log(F.hyp0f1(half, 0.25 * c * a))

    a, c = np.where(is_far, x, 1), np.where(is_far, nc, 1)
    v = np.where(is_far, order, 0)
    gap = np.sqrt(a) - np.sqrt(c)
    far = 0.5 * v * np.log(a / c) - 0.5 * gap * gap + np.log(F.ive(v, np.sqrt(a * c)))

    a, c = np.where(is_large, x, 1), np.where(is_large, nc, 0)
    v = np.where(is_large, order, 100)
    root = np.sqrt(1 + a * c / (v * v))
    middle = v * (1 + root)
    away = (a - middle) / middle
    p = 1 / root
    q = p * p
    u1 = p * series(q, 3, -5) / 24
    u2 = q * series(q, 81, -462, 385) / 1152
    u3 = p * q * series(q, 30375, -369603, 765765, -425425) / 414720
    u4 = series(q, 4465125, -94121676, 349922430, -446185740, 185910725)
    u4 = q * q * u4 / 39813120
    large = v * (np.log1p(away) - away) - 0.5 * c * away * away
    large = large - 0.5 * np.log(2 * math.pi * v * root)
    large = large + np.log1p(series(1 / v, 0, u1, u2, u3, u4))
    return np.where(is_large, large, np.where(is_far, far, near)) - math.log(2)


@helper
def noncentral_density(x: Array, df: Array, nc: Any) -> Array:
    """Return the noncentral chi-square density."""
    return np.exp(_log_noncentral_density(x, df, nc))


special(
    "chndtr",
    "noncentral_density(x0, x1, x2)",
    None,
    "-noncentral_density(x0, x1 + 2, x2)",
)
special(
    "chndtrix",
    "g / noncentral_density(y, x1, x2)",
    None,
    "g * divide_slope("
    "noncentral_density(y, x1 + 2, x2), noncentral_density(y, x1, x2))",
)
special(
    "chndtrinc",
    "g * noncentral_density(x0, x1, y) / noncentral_density(x0, x1 + 2, y)",
    None,
    "-g / noncentral_density(x0, x1 + 2, y)",
)

# Poisson: pdtr(k, m) = gammaincc(k + 1, m)

special("pdtr", "0", "-gamma_density(floor(x0) + 1, x1)")
special("pdtrc", "0", "gamma_density(floor(x0) + 1, x1)")
special("pdtri", "0", "-g / gamma_density(floor(x0) + 1, y)")


# Binomial: bdtr(k, n, p) = betaincc(k + 1, n - k, p); it is 1 where k is n


@helper
def binomial_density(k: Array, n: Array, p: Array) -> Array:
    """Return the derivative of bdtr by p, with the sign turned."""
    k = np.floor(k)
    inside = (k >= 0) & (k < n)
    density: Any = F.xlogy(k, p) + F.xlog1py(n - k - 1, -p)
    constant = F.betaln(np.where(inside, k + 1, 1), np.where(inside, n - k, 1))
    return np.where(inside, np.exp(density - constant), 0)


special("bdtr", "0", "0", "-binomial_density(x0, x1, x2)")
special("bdtrc", "0", "0", "binomial_density(x0, x1, x2)")
special("bdtri", "0", "0", "-g / binomial_density(x0, x1, y)")
special("nbdtr", "0", "0", "beta_density(x1, floor(x0) + 1, x2)")
special("nbdtrc", "0", "0", "-beta_density(x1, floor(x0) + 1, x2)")
special("nbdtri", "0", "0", "g / beta_density(x1, floor(x0) + 1, y)")


# F and Student's t


@helper
def f_density(m: Array, n: Array, x: Array) -> Array:
    """Return the density of the F distribution with m and n degrees of freedom."""
    a, b = 0.5 * m, 0.5 * n
    power = F.xlogy(a, m) + F.xlogy(b, n) + F.xlogy(a - 1, x)
    return np.exp(power - (a + b) * np.log(m * x + n) - F.betaln(a, b))


# By degrees of freedom: x and both degrees count by m x / n alone


@helper
def fdtr_by_degrees(
    m: Array, n: Array, x: Array, mass: Array, *, first: bool, upper: bool
) -> Array:
    """Return the derivative of fdtr(m, n, x) by m, the ``first``, or by n.

    ``mass`` is fdtr(m, n, x), or, ``upper``, fdtrc(m, n, x).
    """
    end = np.isinf(x)  # where it stays 1
    x = np.where(end, 1, x)
    whole = m * x + n
    shapes = 0.5 * m, 0.5 * n, m * x / whole, n / whole
    by_shape = betainc_by_shape(*shapes, mass, first=first, upper=upper)
    by_scale = f_density(m, n, x) * x / (m if first else -n)
    return np.where(end, 0, 0.5 * by_shape + by_scale)


for _name, _upper, _sign in (("fdtr", False, ""), ("fdtrc", True, "-")):
    special(
        _name,
        *(
            f"{_sign}fdtr_by_degrees(x0, x1, x2, y, {first=}, upper={_upper})"
            for first in (True, False)
        ),
        f"{_sign}f_density(x0, x1, x2)",
    )
special(
    "fdtri",
    *(
        f"-g * divide_slope(fdtr_by_degrees(x0, x1, y, x2, {first=}, upper=False),"
        " f_density(x0, x1, y))"
        for first in (True, False)
    ),
    "g / f_density(x0, x1, y)",
)


# The noncentral F distribution: Johnson, Kotz, Balakrishnan (30.47), with Kummer's
# transformation (DLMF 13.2.39); for many degrees of freedom of the denominator, where
# its terms overflow, as the mean over the denominator

#: Degrees of freedom of the denominator that are many.
MANY = 40

#: Points of the trapezoid rule in standard deviations: a normal density is 0 beyond.
STEP = 0.6
DEVIATIONS = STEP * np.arange(-20, 21)  # host array: constants


@split_large
def _integrate_denominators(
    n: Array, k: Array, nc: Array, c: Array, power: Any
) -> Array:
    """Return the mean of t**power times the noncentral density at c t, t chi-square.

    ``n`` are the degrees of freedom of t, ``k`` those of the noncentral density. In
    the logarithm of t, the integrand is about normal: its middle and deviation are
    those for the bound of Amos (1974) of the quotient of Bessel functions.
    """
    a = 0.5 * k
    g = n + 2 * power + k - 2 - a
    scale = 1 + c
    b = 2 * g * scale + nc * c
    spread = 4 * g * scale * nc * c + (nc * c) ** 2 + (2 * a * scale) ** 2
    middle = (b + np.sqrt(spread)) / (2 * scale * scale)
    root = np.sqrt(a * a + nc * c * middle)
    width = 1 / np.sqrt(0.5 * g + 0.25 * (root + a * a / root))
    points = convert_like(DEVIATIONS, middle)
    points = np.reshape(points, (-1, *(1,) * len(shape_of(middle))))
    t = stop_gradient(middle * np.exp(width * points))
    weight = stop_gradient(width) * STEP
    density = _log_noncentral_density(t, n, 0) + _log_noncentral_density(c * t, k, nc)
    total = np.sum(t * np.exp(density + power * np.log(t)), 0, keepdims=True)
    return weight * total


@helper
def noncentral_f_density(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the density of the noncentral F distribution."""
    is_many = n > MANY
    a, b, whole = 0.5 * m, where(is_many, 1, 0.5 * n), m * x + n
    share, rest = m * x / whole, n / whole
    power = F.xlogy(a - 1, share) + F.xlogy(b + 1, rest) - F.betaln(a, b)
    mixture = F.hyp1f1(-b, a, -0.5 * nc * share)
    few = np.exp(power - 0.5 * nc * rest) * mixture
    many = _integrate_denominators(where(is_many, n, MANY), m, nc, m * x / n, 1)
    return m / n * np.where(is_many, many[0], few)


@helper
def noncentral_f_by_nc(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the derivative of ncfdtr by the noncentrality, with the sign turned."""
    is_many = n > MANY
    a, b, whole = 0.5 * m, where(is_many, 1, 0.5 * n), m * x + n
    share, rest = m * x / whole, n / whole
    power = F.xlogy(a, share) + F.xlogy(b, rest) - F.betaln(a, b)
    mixture = F.hyp1f1(1 - b, a + 1, -0.5 * nc * share)
    few = 0.5 / a * np.exp(power - 0.5 * nc * rest) * mixture
    c = m * x / n
    many = _integrate_denominators(where(is_many, n, MANY), m + 2, nc, c, 0)
    return np.where(is_many, many[0], few)


special(
    "ncfdtr",
    None,
    None,
    "-noncentral_f_by_nc(x0, x1, x2, x3)",
    "noncentral_f_density(x0, x1, x2, x3)",
)
special(
    "ncfdtri",
    None,
    None,
    "g * divide_slope("
    "noncentral_f_by_nc(x0, x1, x2, y), noncentral_f_density(x0, x1, x2, y))",
    "g / noncentral_f_density(x0, x1, x2, y)",
)


def log_t_density(df: Array, t: Array) -> Array:
    """Return the log density of Student's t; for infinite df the normal one.

    The constant is a ratio of gamma functions, for large df by DLMF 5.11.13; and
    df log(1 + t²/df) is t² log(1 + u)/u of u = t²/df, by its series where u is small.
    """
    large = np.greater(df, 200)
    a, n = 2 / where(large, df, 1), where(large, 1, df)
    near_normal = -0.5 * math.log(2 * math.pi) - series(
        a, 0, 1 / 8, 0, -1 / 192, 0, 1 / 640, 0, -17 / 14336
    )
    constant = -0.5 * np.log(n) - F.betaln(0.5 + 0 * n, 0.5 * n)
    u = t * t / df
    small = u < 0.05
    b, c = np.where(small, u, 0), np.where(small, 1, u)
    terms = [(-1) ** k / (k + 1) for k in range(14)]
    scaled = np.where(
        small, t * t * series(b, *terms), np.where(small, 1, df) * np.log1p(c)
    )
    return where(large, near_normal, constant) - 0.5 * (np.log1p(u) + scaled)


@helper
def t_density(df: Array, t: Array) -> Array:
    """Return the density of Student's t."""
    return np.exp(log_t_density(df, t))


@helper
def stdtr_by_degrees(df: Array, t: Array) -> Array:
    """Return the derivative of stdtr by the degrees of freedom.

    By that of the tail beyond abs(t), betainc(df/2, 1/2, df / (df + t²)) / 2. It falls
    as 1/df², its two parts as 1/df: about df units in the last place are lost.
    """
    inside = np.isfinite(df) & np.isfinite(t)
    df, u = np.where(inside, df, 1), np.where(inside, t, 0)
    square, mass = u * u, 2 * F.stdtr(df, -np.abs(u))
    x, rest = df / (df + square), square / (df + square)
    by_shape = betainc_by_shape(0.5 * df, 0.5, x, rest, mass, first=True, upper=False)
    y = -0.25 * np.sign(u) * by_shape - 0.5 * u / df * t_density(df, u)
    return np.where(inside, y, 0)


special("stdtr", "stdtr_by_degrees(x0, x1)", "t_density(x0, x1)")
special(
    "stdtrit",
    "-g * divide_slope(stdtr_by_degrees(x0, y), t_density(x0, y))",
    "g / t_density(x0, y)",
)
special(
    "stdtridf",
    "g / stdtr_by_degrees(y, x1)",
    "-g * t_density(y, x1) / stdtr_by_degrees(y, x1)",
)

# The mean or the deviation of a normal distribution that has a given quantile

special(
    "nrdtrimn",
    "g * -2.5066282746310002 * x1 * exp(0.5 * ndtri(x0) ** 2)",
    "-ndtri(x0)",
    "1",
)
special(
    "nrdtrisd",
    "-g / ndtri(x1)",
    "g * -2.5066282746310002 * y * exp(0.5 * ndtri(x1) ** 2) / ndtri(x1)",
    "g / ndtri(x1)",
)
