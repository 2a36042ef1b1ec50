"""Noncentral distributions: chi-square, F and Student's t, by all their parameters.

N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous univariate distributions", vol. 2
(1995), chapters 29 to 31. Chi-square and F are means over a Poisson distribution; t is
a mean over the scale of its denominator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special as scipy_special

from workbench.core.tensor import ON_HOST, Tensor
from workbench.core.types import Array
from workbench.errors import NotDifferentiableError
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.special.define import F, float_helper, series, special, where
from workbench.ops.special.shapes import (
    FALL,
    betainc_by_shape,
    gammainc_by_shape,
    split_large,
)


def _spread(points: Any, like: Array) -> Array:
    """Return constants along a new first axis of arrays."""
    points = convert_like(points.astype(dtype_of(like)), like)
    return np.reshape(points, (-1, *(1,) * len(shape_of(like))))


# By the degrees of freedom: means over a Poisson distribution
#
# Of K of the mean nc / 2, F = E[P(a + K)], where P(a + k) is the sum of terms D_j over
# j >= k. So F is the sum of D_j P(K <= j), and P(a) - F that of D_j P(K > j).

#: Terms of a sum.
_COUNTS = np.arange(256.0)  # host array: constants
#: With less of its central mass, a slope by the upper sum loses too many digits.
CANCELS = 1e-3
#: Poisson's probabilities of k are the k-th powers of the rate times these.
_ROOTS = np.exp(-scipy_special.gammaln(_COUNTS + 1) / np.maximum(_COUNTS, 1))


def _reaches(peak: Array, nc: Array) -> Array:
    """Return whether the terms around a peak, and all likely counts, are in a sum."""
    most = len(_COUNTS)
    rate = 0.5 * nc
    return (peak + 9 * np.sqrt(peak + 1) + 20 < most) & (
        rate + 9 * np.sqrt(rate + 1) + 20 < most
    )


def _check_reach(reached: Array, nc: Any, name: str) -> None:
    """Refuse what the sums cannot reach, where the numbers are known."""
    if isinstance(reached, ON_HOST) and not np.all(reached):
        raise NotDifferentiableError(
            f"scipy.special.{name}: its derivative by degrees of freedom is a sum of"
            f" {len(_COUNTS)} terms, which suffices for noncentralities up to about 250"
            f" and arguments not too far out; here it does not, with noncentralities up"
            f" to {float(np.max(nc)):.6g}. Hold the degrees of freedom fixed, with"
            " wb.stop_gradient(x) or x.value in their place."
        )


def _has_sum(degrees: Any, reached: Any) -> bool:
    """Return whether a density is wanted as a sum, for slopes by degrees of freedom.

    Not for degrees that are no Tensor, nor where the sum is known not to reach.
    """
    known = getattr(reached, "_value", reached)
    return isinstance(degrees, Tensor) and (known is None or bool(np.all(known)))


def _choose_sum(
    reached: Any, made: Array, formula: Callable[..., Array], *degrees: Any
) -> Array:
    """Return a sum where it reaches, else what a formula gives of the degrees.

    The formula has no slope by the degrees: an infinite one shows that it is missing.
    """
    if getattr(reached, "_value", reached) is not None:
        return made  # all are reached
    other = formula(*map(stop_gradient, degrees))
    for x in degrees:
        steep = np.sqrt(np.where(reached, 1, x - stop_gradient(x)))
        other = other + (steep - stop_gradient(steep))
    return np.where(reached, made, other)


def _weigh_counts(nc: Array, like: Array) -> Array:
    """Return the probabilities of the counts, with all slopes at nc = 0."""
    rate = 0.5 * nc
    counts, roots = _spread(_COUNTS, like), _spread(_ROOTS, like)
    return np.exp(-rate) * (rate * roots) ** counts


def _poisson_tails(nc: Array, like: Array) -> tuple[Array, Array]:
    """Return P(K <= j) and P(K > j) of each count j."""
    mass = _weigh_counts(nc, like)
    from_end = np.flip(np.cumsum(np.flip(mass, 0), 0), 0)
    return np.cumsum(mass, 0), from_end - mass


def _find_peak(a: Array, y: Array, nc: Array) -> Array:
    """Return where terms of chi-square are largest in a tail."""
    return 0.5 * (np.sqrt(a * a + 2 * y * nc) - a)


@split_large
def _sum_chi_square(a: Array, x: Array, nc: Array) -> Array:
    """Return the sums of D_j P(K <= j) and of D_j P(K > j), and their slopes by a.

    D_j is x**(a + j) exp(-x) / gamma(a + j + 1).
    """
    whole = a + x + nc
    shape = a + _spread(_COUNTS, whole)
    term = np.exp(F.xlogy(shape, x) - x - F.gammaln(shape + 1))
    return _sum_both(term, np.log(x) - F.psi(shape + 1), nc, whole)


@split_large
def _log_sum_densities(a: Array, x: Array, nc: Array) -> Array:
    """Return the log of the mean of x**(a + K - 1) exp(-x) / gamma(a + K)."""
    whole = a + x + nc
    shape = a + _spread(_COUNTS, whole)
    term = np.exp(F.xlogy(shape - a, x) - F.gammaln(shape) + F.gammaln(a))
    mean = np.sum(_weigh_counts(nc, whole) * term, 0, keepdims=True)
    return F.xlogy(a - 1, x) - x - F.gammaln(a) + np.log(mean)


def _sum_both(
    term: Array, slope: Array, nc: Array, like: Array, other: Any = None
) -> Array:
    """Return sums of terms times P(K <= j) and P(K > j), and of their slopes.

    Behind them comes the last term.
    """
    below, above = _poisson_tails(nc, like)
    slopes = [1, slope] if other is None else [1, slope, other]
    sums = [
        np.sum(term * part * by, 0, keepdims=True)
        for by in slopes
        for part in (below, above)
    ]
    return np.concatenate(np.broadcast_arrays(*sums, term[-1:]), 0)


def _has_all_terms(sums: Array, ratio: Array) -> Array:
    """Return whether the rest of the first sum does not count.

    Its terms fall by the ratio from the last one on, and later by less.
    """
    return sums[-1] * ratio < 1e-17 * (1 - ratio) * sums[0]


@float_helper
def chndtr_by_degrees(x: Array, df: Array, nc: Array, mass: Array) -> Array:
    """Return the derivative of chndtr, which is ``mass``, by the degrees of freedom.

    By the sum over P(K <= j) in the lower tail, where it has no more than all terms;
    else by the other one, which cancels only where P(a + K) falls far with K.
    """
    inside = (x > 0) & np.isfinite(x) & (df > 0) & np.isfinite(df) & (nc >= 0)
    a, y = 0.5 * np.where(inside, df, 1), 0.5 * np.where(inside, x, 1)
    nc = np.where(inside, nc, 1)
    peak = _find_peak(a, y, nc)
    sums = _sum_chi_square(a, y, nc)
    central = F.gammainc(a, y)
    by_sum = (mass < 0.5) & _has_all_terms(sums, y / (a + len(_COUNTS)))
    reached = _reaches(peak, nc) & (by_sum | (mass > CANCELS * central))
    _check_reach(reached, nc, "chndtr")
    rest = gammainc_by_shape(a, y, central, upper=False) - sums[3]
    slope = np.where(reached, 0.5 * np.where(by_sum, sums[2], rest), np.nan)
    return np.where(inside, slope, 0 * mass)


def chi_square_tail(x: Array, df: Array, nc: Array) -> Array:
    """Return the upper tail of noncentral chi-square, with its digits.

    Where the sum does not reach it is 1 minus the other one.
    """
    lower = F.chndtr(x, df, nc)
    far = (lower > 0.9) & _reaches(_find_peak(0.5 * df, 0.5 * x, nc), nc)
    a, y = 0.5 * np.where(far, df, 1), 0.5 * np.where(far, x, 1)
    tail = F.gammaincc(a, y) + _sum_chi_square(a, y, np.where(far, nc, 1))[1]
    return np.where(far, tail, 1 - np.where(far, 0, lower))


def log_noncentral_density(x: Array, df: Array, nc: Any) -> Array:
    """Return the log of the noncentral chi-square density.

    It is that of a Bessel function I (Johnson, Kotz, Balakrishnan, 29.4). Of a large
    order by DLMF 10.41.3, where the terms that grow have cancelled; else by 0F1, which
    is regular at nc = 0; and where 0F1 overflows, by the scaled Bessel function.
    """
    reached = _reaches(_find_peak(0.5 * df, 0.5 * x, nc), nc)
    if _has_sum(df, reached):
        made = _log_sum_densities(0.5 * df, 0.5 * x, nc)[0] - math.log(2)
        return _choose_sum(reached, made, lambda df: _log_density(x, df, nc), df)
    return _log_density(x, df, nc)


def _log_density(x: Array, df: Array, nc: Any) -> Array:
    """Return the log density, without a slope by the degrees of freedom."""
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


@float_helper
def noncentral_density(x: Array, df: Array, nc: Any) -> Array:
    """Return the noncentral chi-square density."""
    end = np.isinf(x)
    density = np.exp(log_noncentral_density(np.where(end, 1, x), df, nc))
    return np.where(end, 0, density)


special(
    "chndtr",
    "noncentral_density(x0, x1, x2)",
    "chndtr_by_degrees(x0, x1, x2, y)",
    "-noncentral_density(x0, x1 + 2, x2)",
)
special(
    "chndtrix",
    "g / noncentral_density(y, x1, x2)",
    "-g * divide_slope("
    "chndtr_by_degrees(y, x1, x2, x0), noncentral_density(y, x1, x2))",
    "g * divide_slope("
    "noncentral_density(y, x1 + 2, x2), noncentral_density(y, x1, x2))",
)
special(
    "chndtrinc",
    "g * noncentral_density(x0, x1, y) / noncentral_density(x0, x1 + 2, y)",
    "g * chndtr_by_degrees(x0, x1, y, x2) / noncentral_density(x0, x1 + 2, y)",
    "-g / noncentral_density(x0, x1 + 2, y)",
)

special(
    "chndtridf",
    "-g * noncentral_density(x0, y, x2) / chndtr_by_degrees(x0, y, x2, x1)",
    "g / chndtr_by_degrees(x0, y, x2, x1)",
    "g * noncentral_density(x0, y + 2, x2) / chndtr_by_degrees(x0, y, x2, x1)",
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
    density = log_noncentral_density(t, n, 0) + log_noncentral_density(c * t, k, nc)
    total = np.sum(t * np.exp(density + power * np.log(t)), 0, keepdims=True)
    return weight * total


def _find_f_peak(a: Array, b: Array, y: Array, nc: Array) -> Array:
    """Return where terms of F are largest in a tail."""
    rate = 0.5 * nc * y
    c = rate - a
    return 0.5 * (c + np.sqrt(c * c + 4 * rate * (a + b)))


@split_large
def _sum_f(a: Array, b: Array, y: Array, rest: Array, nc: Array) -> Array:
    """Return the sums of D_j P(K <= j) and of D_j P(K > j), and slopes by a, by b.

    D_j is y**(a + j) (1 - y)**b gamma(a + b + j) / (gamma(a + j + 1) gamma(b)).
    """
    whole = a + b + y + nc
    shape = a + _spread(_COUNTS, whole)
    scale = F.gammaln(shape + b) - F.gammaln(shape + 1) - F.gammaln(b)
    term = np.exp(F.xlogy(shape, y) + b * np.log(rest) + scale)
    psi = F.psi(shape + b)
    by_a, by_b = np.log(y) + psi - F.psi(shape + 1), np.log(rest) + psi - F.psi(b)
    return _sum_both(term, by_a, nc, whole, by_b)


@split_large
def _log_sum_f_densities(a: Array, b: Array, y: Array, rest: Array, nc: Array) -> Array:
    """Return log means of y**(a + K - 1) (1 - y)**(b - 1) / B(a + K, b).

    The second is of that over a + K.
    """
    whole = a + b + y + nc
    shape = a + _spread(_COUNTS, whole)
    constant = F.betaln(a, b)
    term = np.exp(F.xlogy(shape - a, y) - F.betaln(shape, b) + constant)
    term = _weigh_counts(nc, whole) * term
    sums = [np.sum(x, 0, keepdims=True) for x in (term, term / shape)]
    power = F.xlogy(a - 1, y) + F.xlogy(b - 1, rest) - constant
    return power + np.log(np.concatenate(sums, 0))


@float_helper
def noncentral_f_density(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the density of the noncentral F distribution."""
    end = np.isinf(x)
    x = np.where(end, 1, x)
    y, rest = m * x / (m * x + n), n / (m * x + n)
    reached = _reaches(_find_f_peak(0.5 * m, 0.5 * n, y, nc), nc)
    if _has_sum(m, reached) or _has_sum(n, reached):
        log_density = _log_sum_f_densities(0.5 * m, 0.5 * n, y, rest, nc)[0]
        made = m / n * np.exp(log_density + 2 * np.log(rest))
        made = _choose_sum(reached, made, lambda m, n: _f_density(m, n, nc, x), m, n)
    else:
        made = _f_density(m, n, nc, x)
    return np.where(end, 0, made)


def _f_density(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the density, without slopes by the degrees of freedom."""
    is_many = n > MANY
    a, b, whole = 0.5 * m, where(is_many, 1, 0.5 * n), m * x + n
    share, rest = m * x / whole, n / whole
    power = F.xlogy(a - 1, share) + F.xlogy(b + 1, rest) - F.betaln(a, b)
    mixture = F.hyp1f1(-b, a, -0.5 * nc * share)
    few = np.exp(power - 0.5 * nc * rest) * mixture
    c = where(is_many, m * x / n, 1)
    many = _integrate_denominators(where(is_many, n, MANY), m, nc, c, 1)
    return m / n * np.where(is_many, many[0], few)


@float_helper
def noncentral_f_by_nc(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the derivative of ncfdtr by the noncentrality, with the sign turned."""
    end = np.isinf(x)
    x = np.where(end, 1, x)
    y, rest = m * x / (m * x + n), n / (m * x + n)
    reached = _reaches(_find_f_peak(0.5 * m, 0.5 * n, y, nc), nc)
    if _has_sum(m, reached) or _has_sum(n, reached):
        sums = _log_sum_f_densities(0.5 * m, 0.5 * n, y, rest, nc)
        made = 0.5 * y * np.exp(sums[1] + np.log(rest))
        made = _choose_sum(reached, made, lambda m, n: _f_by_nc(m, n, nc, x), m, n)
    else:
        made = _f_by_nc(m, n, nc, x)
    return np.where(end, 0, made)


def _f_by_nc(m: Array, n: Array, nc: Array, x: Array) -> Array:
    """Return the derivative by nc, without slopes by the degrees of freedom."""
    is_many = n > MANY
    a, b, whole = 0.5 * m, where(is_many, 1, 0.5 * n), m * x + n
    share, rest = m * x / whole, n / whole
    power = F.xlogy(a, share) + F.xlogy(b, rest) - F.betaln(a, b)
    mixture = F.hyp1f1(1 - b, a + 1, -0.5 * nc * share)
    few = 0.5 / a * np.exp(power - 0.5 * nc * rest) * mixture
    c = where(is_many, m * x / n, 1)
    many = _integrate_denominators(where(is_many, n, MANY), m + 2, nc, c, 0)
    return np.where(is_many, many[0], few)


@float_helper
def ncfdtr_by_degrees(
    m: Array, n: Array, nc: Array, x: Array, mass: Array, *, first: bool
) -> Array:
    """Return the derivative of ncfdtr, which is ``mass``, by m, the ``first``, or n."""
    inside = (x > 0) & np.isfinite(x + m + n) & (m > 0) & (n > 0) & (nc >= 0)
    m, n, x = np.where(inside, m, 1), np.where(inside, n, 1), np.where(inside, x, 1)
    nc = np.where(inside, nc, 1)
    a, b, whole = 0.5 * m, 0.5 * n, m * x + n
    y, rest = m * x / whole, n / whole
    sums = _sum_f(a, b, y, rest, nc)
    below, above = (sums[2], sums[3]) if first else (sums[4], sums[5])
    last = a + len(_COUNTS)
    by_sum = (mass < 0.5) & _has_all_terms(sums, y * (last + b) / (last + 1))
    central = F.betainc(a, b, y)
    reached = _reaches(_find_f_peak(a, b, y, nc), nc)
    reached = reached & (by_sum | (mass > CANCELS * central))
    _check_reach(reached, nc, "ncfdtr")
    other = betainc_by_shape(a, b, y, rest, central, first=first, upper=False) - above
    slope = np.where(reached, np.where(by_sum, below, other), np.nan)
    by_scale = noncentral_f_density(m, n, nc, x) * x / (m if first else -n)
    return np.where(inside, 0.5 * slope + by_scale, 0 * mass)


def f_tail(x: Array, m: Array, n: Array, nc: Array) -> Array:
    """Return the upper tail of noncentral F, with its digits: see `chi_square_tail`."""
    lower = F.ncfdtr(m, n, nc, x)
    peak = _find_f_peak(0.5 * m, 0.5 * n, m * x / (m * x + n), nc)
    far = (lower > 0.9) & _reaches(peak, nc)
    p, q, z = np.where(far, m, 1), np.where(far, n, 1), np.where(far, x, 1)
    whole = p * z + q
    a, b, rest = 0.5 * p, 0.5 * q, q / whole
    above = _sum_f(a, b, p * z / whole, rest, np.where(far, nc, 1))[1]
    return np.where(far, F.betainc(b, a, rest) + above, 1 - np.where(far, 0, lower))


special(
    "ncfdtr",
    *(f"ncfdtr_by_degrees(x0, x1, x2, x3, y, {first=})" for first in (True, False)),
    "-noncentral_f_by_nc(x0, x1, x2, x3)",
    "noncentral_f_density(x0, x1, x2, x3)",
)
special(
    "ncfdtri",
    *(
        f"-g * divide_slope(ncfdtr_by_degrees(x0, x1, x2, y, x3, {first=}),"
        " noncentral_f_density(x0, x1, x2, y))"
        for first in (True, False)
    ),
    "g * divide_slope("
    "noncentral_f_by_nc(x0, x1, x2, y), noncentral_f_density(x0, x1, x2, y))",
    "g / noncentral_f_density(x0, x1, x2, y)",
)


# Noncentral t is (Z + nc) / exp(u), where exp(2 u) is chi-square over its degrees of
# freedom: means over u, by the trapezoid rule, which for such densities is exact

#: Points in deviations from the middle, and how they are bent to go further.
_SPACE = 0.075
_POINTS = _SPACE * np.arange(-120, 109)  # host array: constants
_BEND = 0.8


def _log_scale_density(df: Array, u: Array) -> Array:
    """Return the log density of u; for many df with its digits: DLMF 5.11.1."""
    h = 0.5 * df
    large = h > 50
    p, q = where(large, h, 50), where(large, 1, h)
    z = 1 / p
    far = 0.5 * np.log(0.5 * p / math.pi) - series(
        z, 0, 1 / 12, 0, -1 / 360, 0, 1 / 1260
    )
    constant = where(large, far, q * np.log(q) - q - F.gammaln(q))
    return math.log(2) + constant - h * (np.expm1(2 * u) - 2 * u)


def _score_of_degrees(df: Array, u: Array) -> Array:
    """Return the derivative of the log density of u by df: DLMF 5.11.2."""
    h = 0.5 * df
    large = h > 50
    p, q = where(large, h, 50), where(large, 1, h)
    z = 1 / p
    far = series(z, 0, 1 / 2, 1 / 12, 0, -1 / 120, 0, 1 / 252)
    return 0.5 * (where(large, far, np.log(q) - F.psi(q)) - (np.expm1(2 * u) - 2 * u))


def _find_middle(slope: Array, square: Array, linear: Array) -> tuple[Array, Array]:
    """Return the peak x of exp(slope u - square x**2 / 2 + linear x), and its width.

    x is exp(u); the width is a deviation in u.
    """
    middle = linear + np.sqrt(linear * linear + 4 * slope * square)
    middle = middle / (2 * square)
    return middle, np.minimum(1 / np.sqrt(slope + square * middle * middle), 0.7)


def _reach_down(slope: Array, width: Array) -> Array:
    """Return how far below its peak such an integrand ends.

    At a distance v it has fallen by slope (v - 1 + exp(-v)) and more, and by
    ((1 - exp(-v)) / width)**2 / 2 and more.
    """
    by_square = -np.log1p(-np.minimum(math.sqrt(2 * FALL) * width, 0.99999))
    return np.minimum(FALL / slope + 1, np.where(by_square < 9, by_square, math.inf))


def _place_nodes(
    middle: Array, width: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Return nodes u and the logarithms of their weights.

    They are dense within a width of a peak, and go on exponentially to the distances
    ``low`` below it and ``high`` above it.
    """
    first, last = float(_POINTS[0]), float(_POINTS[-1])  # which widen no float32
    low, high = np.maximum(-low / (width * first), 1), high / (width * last)
    high = np.maximum(high, 1)
    middle, width, low, high = map(stop_gradient, (middle, width, low, high))
    points = _spread(_POINTS, middle)
    u, slope = points, 0 * points + 1
    for stretch, end in ((low, first), (high, last)):
        bend = np.maximum(_BEND, np.log(stretch) / abs(end))
        grown = np.exp(bend * math.copysign(1, end) * points)
        share = (stretch - 1) / np.expm1(bend * abs(end))
        u = u + share * end * (grown - 1)
        slope = slope + share * bend * abs(end) * grown
    return np.log(middle) + width * u, np.log(width * _SPACE * slope)


def _spread_scales(slope: Array, square: Array, linear: Array) -> tuple[Array, Array]:
    """Return nodes for exp(slope u - square x**2 / 2 + linear x), and log weights."""
    middle, width = _find_middle(slope, square, linear)
    return _place_nodes(middle, width, _reach_down(slope, width), 0 * width)


def _spread_tail(df: Array, nc: Array, t: Array, sign: Array) -> tuple[Array, Array]:
    """Return nodes for the density of u times Phi(sign (t X - nc)), and log weights.

    Phi falls as a normal density on one side of nc / t. On the other it stays at 1,
    and the integrand ends where the density of u does.
    """
    bends = (sign * (t - nc) < 0) | (t * nc > 0)
    square, linear = df + np.where(bends, t * t, 0), np.where(bends, t * nc, 0)
    middle, width = _find_middle(df, square, linear)
    u = np.log(middle)
    short = np.minimum(sign * (t * middle - nc), 0)
    rest = np.expm1(2 * u) - 2 * u + (2 * FALL + short * short) / df
    end = np.sqrt(0.5 * rest)
    for _ in range(3):
        end = 0.5 * np.log1p(rest + 2 * end)
    start = -0.25 * (rest + np.sqrt(rest * (rest + 8)))
    is_up = sign * t > 0  # where Phi is 1
    low = np.where(is_up | ~bends, _reach_down(df, width), u - start)
    high = np.where(is_up & bends, end - u, 0)
    return _place_nodes(middle, width, low, high)


@split_large
def _log_mean_of_normals(df: Array, nc: Array, t: Array, power: Any) -> Array:
    """Return log E[X**power phi(t X - nc)], X the scale, along a first axis of 1."""
    u, weight = _spread_scales(df + power, df + t * t, t * nc)
    away = t * np.exp(u) - nc
    fall = _log_scale_density(df, u) + power * u - 0.5 * away * away + weight
    peak = stop_gradient(np.max(fall, 0, keepdims=True))
    total = np.sum(np.exp(fall - peak), 0, keepdims=True)
    return peak + np.log(total) - 0.5 * math.log(2 * math.pi)


@split_large
def _score_mean(df: Array, nc: Array, t: Array, sign: Array) -> Array:
    """Return the slope by df of E[Phi(sign (t X - nc))]."""
    u, weight = _spread_tail(df, nc, t, sign)
    share = F.log_ndtr(sign * (t * np.exp(u) - nc))
    density = np.exp(_log_scale_density(df, u) + share + weight)
    return np.sum(density * _score_of_degrees(df, u), 0, keepdims=True)


def _log_mean(df: Array, nc: Array, t: Array, power: Any) -> Array:
    """Return log E[X**power phi(t X - nc)], at infinite df, where X is 1, and t too."""
    end, normal = np.isinf(t), np.isinf(df)
    t, df = np.where(end, 0, t), np.where(normal, 1, df)
    away = t - nc
    made = _log_mean_of_normals(df, nc, t, power)[0]
    made = np.where(normal, -0.5 * away * away - 0.5 * math.log(2 * math.pi), made)
    return np.where(end, -math.inf, made)


def log_noncentral_t_density(df: Array, nc: Array, t: Array) -> Array:
    """Return the log density of noncentral t."""
    return _log_mean(df, nc, t, 1)


@float_helper
def noncentral_t_density(df: Array, nc: Array, t: Array) -> Array:
    """Return the density of noncentral t."""
    return np.exp(_log_mean(df, nc, t, 1))


@float_helper
def noncentral_t_by_nc(df: Array, nc: Array, t: Array) -> Array:
    """Return the derivative of nctdtr by the noncentrality, with the sign turned."""
    return np.exp(_log_mean(df, nc, t, 0))


@float_helper
def noncentral_t_by_degrees(df: Array, nc: Array, t: Array, mass: Array) -> Array:
    """Return the derivative of nctdtr, which is ``mass``, by the degrees of freedom.

    By the smaller tail. As Student's, it loses about df units in the last place.
    """
    inside = np.isfinite(df) & np.isfinite(t)
    df, t = np.where(inside, df, 1), np.where(inside, t, 0)
    sign = np.where(mass < 0.5, 1, -1)
    return np.where(inside, sign * _score_mean(df, nc, t, sign)[0], 0 * mass)


special(
    "nctdtr",
    "noncentral_t_by_degrees(x0, x1, x2, y)",
    "-noncentral_t_by_nc(x0, x1, x2)",
    "noncentral_t_density(x0, x1, x2)",
)
special(
    "nctdtrit",
    "-g * noncentral_t_by_degrees(x0, x1, y, x2) / noncentral_t_density(x0, x1, y)",
    "g * noncentral_t_by_nc(x0, x1, y) / noncentral_t_density(x0, x1, y)",
    "g / noncentral_t_density(x0, x1, y)",
)
special(
    "nctdtridf",
    "g / noncentral_t_by_degrees(y, x1, x2, x0)",
    "g * noncentral_t_by_nc(y, x1, x2) / noncentral_t_by_degrees(y, x1, x2, x0)",
    "-g * noncentral_t_density(y, x1, x2) / noncentral_t_by_degrees(y, x1, x2, x0)",
)
special(
    "nctdtrinc",
    "g * noncentral_t_by_degrees(x0, y, x2, x1) / noncentral_t_by_nc(x0, y, x2)",
    "-g / noncentral_t_by_nc(x0, y, x2)",
    "g * noncentral_t_density(x0, y, x2) / noncentral_t_by_nc(x0, y, x2)",
)
