"""Distributions: incomplete gamma and beta functions and what is made of them.

By the argument the derivative is the density; by the shapes see
`workbench.ops.special.shapes`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.tensor import ON_HOST
from workbench.core.types import Array
from workbench.ops.special.define import F, float_helper, series, special, where
from workbench.ops.special.shapes import betainc_by_shape, choose_tail


def are_plain(*arrays: Any) -> bool:
    """Return whether arrays are NumPy's: their rules are not differentiated again."""
    return all(isinstance(x, ON_HOST) for x in arrays)


@float_helper
def gamma_density(a: Array, x: Array) -> Array:
    """Return the derivative of gammainc(a, x) by x.

    Near 0 by the power itself, whose derivatives stay right at 0 where it is whole.
    """
    end = np.isinf(x) & (x > 0)
    x = np.where(end, 1, x)
    if are_plain(a, x):
        x = np.where(x < 0, np.nan, x)
        return np.where(end, 0, np.exp(F.xlogy(a - 1, x) - x - F.gammaln(a)))
    near = (x < 1) & (a < 100)
    b = np.where(near & (x >= 0), x, np.where(near, np.nan, 1))
    order = np.where(near, a, 1)
    power = b ** (order - 1) * np.exp(-b) * F.rgamma(order)
    far = np.where(near, 1, x)
    density = np.exp(F.xlogy(a - 1, far) - far - F.gammaln(a))
    return np.where(end, 0, np.where(near, power, density))


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


@float_helper
def divide_slope(by_shape: Array, density: Array) -> Array:
    """Return a slope by a shape over the density: 0 at the ends, which stay there."""
    ends = by_shape == 0
    return np.where(ends, 0, by_shape / np.where(ends, 1, density))


@float_helper
def beta_density(a: Array, b: Array, x: Array, rest: Any = None) -> Array:
    """Return the derivative of betainc(a, b, x) by x; ``rest`` is 1 - x."""
    return beta_power(a, b, -1, -1, x, 1 - x if rest is None else rest)


def beta_power(a: Array, b: Array, i: int, j: int, x: Array, rest: Array) -> Array:
    """Return x**(a + i) (1 - x)**(b + j) / B(a, b); ``rest`` is 1 - x.

    By the powers themselves, whose derivatives stay right at 0 and 1 where they are
    whole; where these could underflow, by their logarithms.
    """
    small = (a + b < 100) & np.isfinite(a + b)
    inside = (x >= 0) & (rest >= 0)
    x, rest = np.where(inside, x, np.nan), np.where(inside, rest, np.nan)
    if are_plain(small, x) and np.all(small):
        return x ** (a + i) * rest ** (b + j) / F.beta(a, b)
    p, q = np.where(small, a, 1), np.where(small, b, 1)
    y, z = np.where(small, x, 0.5), np.where(small, rest, 0.5)
    power = y ** (p + i) * z ** (q + j) / F.beta(p, q)
    y, z = np.where(small, 0.5, x), np.where(small, 0.5, rest)
    large = np.exp(F.xlogy(a + i, y) + F.xlogy(b + j, z) - F.betaln(a, b))
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


# Poisson: pdtr(k, m) = gammaincc(k + 1, m)

special("pdtr", "0", "-gamma_density(floor(x0) + 1, x1)")
special("pdtrc", "0", "gamma_density(floor(x0) + 1, x1)")
special("pdtri", "0", "-g / gamma_density(floor(x0) + 1, y)")


# Binomial: bdtr(k, n, p) = betaincc(k + 1, n - k, p); it is 1 where k is n


@float_helper
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


@float_helper
def f_density(m: Array, n: Array, x: Array) -> Array:
    """Return the density of the F distribution with m and n degrees of freedom."""
    end = np.isinf(x) & (x > 0)
    x = np.where(end, 1, x)
    whole = m * x + n
    # One power: the square of n / whole alone underflows far out
    power = beta_power(0.5 * m, 0.5 * n, -1, 1, m / whole * x, n / whole)
    return np.where(end, 0, m / n * power)


# By degrees of freedom: x and both degrees count by m x / n alone


@float_helper
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
    by_scale = beta_power(*shapes[:2], 0, 0, *shapes[2:]) / (m if first else -n)
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


@float_helper
def t_density(df: Array, t: Array) -> Array:
    """Return the density of Student's t."""
    if are_plain(df, t) and np.all(df < 200):
        half = 0.5 * df
        constant = F.gamma(half + 0.5) * F.rgamma(half) / np.sqrt(math.pi * df)
        return constant * np.exp(-(half + 0.5) * np.log1p(t * t / df))
    return np.exp(log_t_density(df, t))


@float_helper
def stdtr_by_degrees(df: Array, t: Array, mass: Array) -> Array:
    """Return the derivative of stdtr, which is ``mass``, by the degrees of freedom.

    By that of the tail beyond abs(t), betainc(df/2, 1/2, df / (df + t²)) / 2. It falls
    as 1/df², its two parts as 1/df: about df units in the last place are lost.
    """
    inside = np.isfinite(df) & np.isfinite(t)
    df, u = np.where(inside, df, 1), np.where(inside, t, 0)
    square, far = u * u, np.abs(u)
    tail = choose_tail(mass, u < 0, lambda df, u: F.stdtr(df, -u), df, far)
    x, rest = df / (df + square), square / (df + square)
    shapes = 0.5 * df, 0.5, x, rest
    by_shape = betainc_by_shape(*shapes, 2 * tail, first=True, upper=False)
    y = -0.25 * np.sign(u) * by_shape - 0.5 * u / df * t_density(df, u)
    return np.where(inside, y, 0)


special("stdtr", "stdtr_by_degrees(x0, x1, y)", "t_density(x0, x1)")
special(
    "stdtrit",
    "-g * divide_slope(stdtr_by_degrees(x0, y, x1), t_density(x0, y))",
    "g / t_density(x0, y)",
)
special(
    "stdtridf",
    "g / stdtr_by_degrees(y, x1, x0)",
    "-g * t_density(y, x1) / stdtr_by_degrees(y, x1, x0)",
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
