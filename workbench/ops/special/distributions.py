"""Distribution functions by their old names (`chdtr`, `stdtr`, ...) and inverses.

By the argument the derivative is the density; by an integer count it is 0, since SciPy
rounds it down; by most shape parameters it has no closed form. The same functions
under today's names stand in `scipy.stats`, and here in `workbench.scipy.stats`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.ops.special.define import F, helper, special

__all__: list[str] = []

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
    """The density of noncentral chi-square: DLMF 13.6.9 and Johnson, Kotz (29.4)."""
    central = np.exp(F.xlogy(0.5 * df - 1, 0.5 * x) - F.gammaln(0.5 * df))
    return 0.5 * central * np.exp(-0.5 * (x + nc)) * F.hyp0f1(0.5 * df, 0.25 * nc * x)


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


@helper
def t_density(df: Any, t: Any) -> Any:
    """The density of Student's t."""
    power = -0.5 * (df + 1) * np.log1p(t * t / df)
    return np.exp(power - F.betaln(0.5 * df, 0.5) - 0.5 * np.log(df))


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
