"""Distribution functions by their old names (`chdtr`, `stdtr`, ...) and inverses.

By the argument the derivative is the density; by an integer count it is 0, since SciPy
rounds it down; by most shape parameters it has no closed form. The same functions
under today's names stand in `scipy.stats`, and here in `workbench.scipy.stats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.ops.special.define import F, helper, series, special, where

__all__ = ["log_t_density"]

# Gamma and chi-square: gdtr(a, b, x) = gammainc(b, a x), chdtr(v, x) of half of each

special("gdtr", "x2 * gamma_density(x1, x0 * x2)", None,
    "x0 * gamma_density(x1, x0 * x2)")  # fmt: skip
special("gdtrc", "-x2 * gamma_density(x1, x0 * x2)", None,
    "-x0 * gamma_density(x1, x0 * x2)")  # fmt: skip
special("gdtrix", "-g * y / x0", None, "g / (x0 * gamma_density(x1, x0 * y))")
special("gdtria", "g / (x2 * gamma_density(x1, y * x2))", None, "-g * y / x2")
special("chdtr", None, "0.5 * gamma_density(0.5 * x0, 0.5 * x1)")
special("chdtrc", None, "-0.5 * gamma_density(0.5 * x0, 0.5 * x1)")
special("chdtri", None, "-2 * g / gamma_density(0.5 * x0, 0.5 * y)")


@helper
def noncentral_density(x: Any, df: Any, nc: Any) -> Any:
    """The density of noncentral chi-square: Johnson, Kotz and Balakrishnan (29.4).

    By 0F1, which is regular at nc = 0; where that overflows, by its Bessel function.
    """
    far = nc * x > 1e4
    a, b, mean = np.where(far, 1, x), np.where(far, x, 1), np.where(far, nc, 1)
    near = np.exp(F.xlogy(0.5 * df - 1, 0.5 * a) - F.gammaln(0.5 * df))
    near = near * np.exp(-0.5 * (a + np.where(far, 0, nc)))
    near = near * F.hyp0f1(0.5 * df, 0.25 * np.where(far, 0, nc) * a)
    power = np.exp((0.25 * df - 0.5) * np.log(b / mean))
    gap = np.exp(-0.5 * np.square(np.sqrt(b) - np.sqrt(mean)))
    large = power * gap * F.ive(0.5 * df - 1, np.sqrt(mean * b))
    return 0.5 * np.where(far, large, near)


special(
    "chndtr",
    "noncentral_density(x0, x1, x2)",
    None,
    "-noncentral_density(x0, x1 + 2, x2)",
)

# Poisson: pdtr(k, m) = gammaincc(k + 1, m)

special("pdtr", "0", "-gamma_density(floor(x0) + 1, x1)")
special("pdtrc", "0", "gamma_density(floor(x0) + 1, x1)")
special("pdtri", "0", "-g / gamma_density(floor(x0) + 1, y)")


# Binomial: bdtr(k, n, p) = betaincc(k + 1, n - k, p); it is 1 where k is n


@helper
def binomial_density(k: Any, n: Any, p: Any) -> Any:
    """The derivative of bdtr by p, with the sign turned."""
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
def f_density(m: Any, n: Any, x: Any) -> Any:
    """The density of the F distribution with m and n degrees of freedom."""
    a, b = 0.5 * m, 0.5 * n
    power = F.xlogy(a, m) + F.xlogy(b, n) + F.xlogy(a - 1, x)
    return np.exp(power - (a + b) * np.log(m * x + n) - F.betaln(a, b))


special("fdtr", None, None, "f_density(x0, x1, x2)")
special("fdtrc", None, None, "-f_density(x0, x1, x2)")
special("fdtri", None, None, "g / f_density(x0, x1, y)")


def log_t_density(df: Any, t: Any) -> Any:
    """The logarithm of the density of Student's t; of infinite df, the normal one.

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
def t_density(df: Any, t: Any) -> Any:
    """The density of Student's t."""
    return np.exp(log_t_density(df, t))


special("stdtr", None, "t_density(x0, x1)")
special("stdtrit", None, "g / t_density(x0, y)")

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
