"""The continuous families in their standard form, ``loc = 0`` and ``scale = 1``.

Densities and moments: N. L. Johnson, S. Kotz, N. Balakrishnan, "Continuous univariate
distributions" (1994, 1995), with SciPy's names of parameters. A tail is written so that
it keeps its digits: `sf` is never ``1 - cdf``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.scipy.stats.family import INF, Continuous, F

__all__ = [
    "beta",
    "cauchy",
    "chi2",
    "expon",
    "f",
    "gamma",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "norm",
    "pareto",
    "rayleigh",
    "skewnorm",
    "t",
    "uniform",
    "vonmises",
    "weibull_min",
]

LOG_2 = math.log(2)
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
EULER = 0.5772156649015329
POSITIVE = (0.0, INF)


def _or_inf(condition: Any, value: Any) -> Any:
    """A moment, infinite where the condition fails."""
    return np.where(condition, value, INF)


def _safe(condition: Any, value: Any) -> Any:
    """What is divided by, 1 where the condition fails."""
    return np.where(condition, value, 1)


# On the whole line

norm = Continuous(
    "norm",
    logpdf=lambda z: -0.5 * z * z - LOG_ROOT_TWO_PI,
    cdf=lambda z: F.ndtr(z),
    sf=lambda z: F.ndtr(-z),
    logcdf=lambda z: F.log_ndtr(z),
    logsf=lambda z: F.log_ndtr(-z),
    ppf=lambda q: F.ndtri(q),
    isf=lambda q: -F.ndtri(q),
    mean=lambda: 0.0,
    var=lambda: 1.0,
    entropy=lambda: LOG_ROOT_TWO_PI + 0.5,
)

t = Continuous(
    "t",
    "df",
    logpdf=lambda z, n: (
        -0.5 * (n + 1) * np.log1p(z * z / n) - 0.5 * np.log(n) - F.betaln(0.5, 0.5 * n)
    ),
    cdf=lambda z, n: F.stdtr(n, z),
    sf=lambda z, n: F.stdtr(n, -z),
    ppf=lambda q, n: F.stdtrit(n, q),
    isf=lambda q, n: -F.stdtrit(n, q),
    mean=lambda n: _or_inf(np.greater(n, 1), 0 * n),
    var=lambda n: np.where(
        np.greater(n, 1),
        _or_inf(np.greater(n, 2), n / _safe(np.greater(n, 2), n - 2)),
        np.nan,
    ),
    entropy=lambda n: (
        0.5 * (n + 1) * (F.psi(0.5 * (n + 1)) - F.psi(0.5 * n))
        + 0.5 * np.log(n)
        + F.betaln(0.5 * n, 0.5)
    ),
)


def _cauchy_quantile(q: Any) -> Any:
    """-1 / tan(pi q), from the nearer end."""
    high = q > 0.5
    y = 1 / np.tan(math.pi * np.where(high, 1 - q, q))
    return np.where(high, y, -y)


cauchy = Continuous(
    "cauchy",
    logpdf=lambda z: -math.log(math.pi) - np.log1p(z * z),
    cdf=lambda z: np.arctan2(1, -z) / math.pi,
    sf=lambda z: np.arctan2(1, z) / math.pi,
    ppf=_cauchy_quantile,
    isf=lambda q: -_cauchy_quantile(q),
    mean=lambda: math.nan,
    var=lambda: math.nan,
    entropy=lambda: math.log(4 * math.pi),
)


def _laplace_logcdf(z: Any) -> Any:
    left = z < 0
    tail = -0.5 * np.exp(-np.where(left, 1, z))
    return np.where(left, z - LOG_2, np.log1p(tail))


laplace = Continuous(
    "laplace",
    logpdf=lambda z: -np.abs(z) - LOG_2,
    logcdf=_laplace_logcdf,
    logsf=lambda z: _laplace_logcdf(-z),
    ppf=lambda q: np.where(
        q > 0.5,
        -np.log(2 * np.where(q > 0.5, 1 - q, 0.5)),
        np.log(2 * np.where(q > 0.5, 0.5, q)),
    ),
    isf=lambda q: np.where(
        q > 0.5,
        np.log(2 * np.where(q > 0.5, 1 - q, 0.5)),
        -np.log(2 * np.where(q > 0.5, 0.5, q)),
    ),
    mean=lambda: 0.0,
    var=lambda: 2.0,
    entropy=lambda: LOG_2 + 1,
)

logistic = Continuous(
    "logistic",
    logpdf=lambda z: F.log_expit(z) + F.log_expit(-z),
    cdf=lambda z: F.expit(z),
    sf=lambda z: F.expit(-z),
    logcdf=lambda z: F.log_expit(z),
    logsf=lambda z: F.log_expit(-z),
    ppf=lambda q: F.logit(q),
    isf=lambda q: -F.logit(q),
    mean=lambda: 0.0,
    var=lambda: math.pi**2 / 3,
    entropy=lambda: 2.0,
)

gumbel_r = Continuous(
    "gumbel_r",
    logpdf=lambda z: -z - np.exp(-z),
    logcdf=lambda z: -np.exp(-z),
    sf=lambda z: -np.expm1(-np.exp(-z)),
    ppf=lambda q: -np.log(-np.log(q)),
    isf=lambda q: -np.log(-np.log1p(-q)),
    mean=lambda: EULER,
    var=lambda: math.pi**2 / 6,
    entropy=lambda: EULER + 1,
)

gumbel_l = Continuous(
    "gumbel_l",
    logpdf=lambda z: z - np.exp(z),
    logsf=lambda z: -np.exp(z),
    cdf=lambda z: -np.expm1(-np.exp(z)),
    ppf=lambda q: np.log(-np.log1p(-q)),
    isf=lambda q: np.log(-np.log(q)),
    mean=lambda: -EULER,
    var=lambda: math.pi**2 / 6,
    entropy=lambda: EULER + 1,
)

# Azzalini's; its distribution function is Owen's (1956)

skewnorm = Continuous(
    "skewnorm",
    "a",
    valid=lambda a: np.isfinite(a),
    inner=lambda a: 0.0,
    logpdf=lambda z, a: LOG_2 + norm.function("logpdf")(z) + F.log_ndtr(a * z),
    cdf=lambda z, a: F.ndtr(z) - 2 * F.owens_t(z, a),
    sf=lambda z, a: F.ndtr(-z) - 2 * F.owens_t(-z, -a),
    mean=lambda a: math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a),
    var=lambda a: 1 - 2 / math.pi * a * a / (1 + a * a),
)

vonmises = Continuous(
    "vonmises",
    "kappa",
    valid=lambda kappa: np.greater_equal(kappa, 0),
    logpdf=lambda z, kappa: (
        kappa * F.cosm1(z) - math.log(2 * math.pi) - np.log(F.i0e(kappa))
    ),
    mean=lambda kappa: 0.0 * kappa,
    entropy=lambda kappa: (
        math.log(2 * math.pi) + np.log(F.i0e(kappa))
        + kappa * (1 - F.i1e(kappa) / F.i0e(kappa))
    ),
)  # fmt: skip

# On an interval

uniform = Continuous(
    "uniform",
    support=(0.0, 1.0),
    logpdf=lambda z: 0 * z,
    cdf=lambda z: z,
    sf=lambda z: 1 - z,
    ppf=lambda q: q,
    isf=lambda q: 1 - q,
    mean=lambda: 0.5,
    var=lambda: 1 / 12,
    entropy=lambda: 0.0,
)

beta = Continuous(
    "beta",
    "a b",
    support=(0.0, 1.0),
    logpdf=lambda z, a, b: F.xlogy(a - 1, z) + F.xlog1py(b - 1, -z) - F.betaln(a, b),
    cdf=lambda z, a, b: F.betainc(a, b, z),
    sf=lambda z, a, b: F.betaincc(a, b, z),
    ppf=lambda q, a, b: F.betaincinv(a, b, q),
    isf=lambda q, a, b: F.betainccinv(a, b, q),
    mean=lambda a, b: a / (a + b),
    var=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    entropy=lambda a, b: (
        F.betaln(a, b)
        - (a - 1) * F.psi(a)
        - (b - 1) * F.psi(b)
        + (a + b - 2) * F.psi(a + b)
    ),
)

# On the positive half line

expon = Continuous(
    "expon",
    support=POSITIVE,
    logpdf=lambda z: -z,
    cdf=lambda z: -np.expm1(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -np.log1p(-q),
    isf=lambda q: -np.log(q),
    mean=lambda: 1.0,
    var=lambda: 1.0,
    entropy=lambda: 1.0,
)

gamma = Continuous(
    "gamma",
    "a",
    support=POSITIVE,
    logpdf=lambda z, a: F.xlogy(a - 1, z) - z - F.gammaln(a),
    cdf=lambda z, a: F.gammainc(a, z),
    sf=lambda z, a: F.gammaincc(a, z),
    ppf=lambda q, a: F.gammaincinv(a, q),
    isf=lambda q, a: F.gammainccinv(a, q),
    mean=lambda a: a,
    var=lambda a: a,
    entropy=lambda a: a + F.gammaln(a) + (1 - a) * F.psi(a),
)

chi2 = Continuous(
    "chi2",
    "df",
    support=POSITIVE,
    logpdf=lambda z, n: (
        F.xlogy(0.5 * n - 1, z) - 0.5 * z - F.gammaln(0.5 * n) - 0.5 * LOG_2 * n
    ),
    cdf=lambda z, n: F.gammainc(0.5 * n, 0.5 * z),
    sf=lambda z, n: F.gammaincc(0.5 * n, 0.5 * z),
    ppf=lambda q, n: 2 * F.gammaincinv(0.5 * n, q),
    isf=lambda q, n: 2 * F.gammainccinv(0.5 * n, q),
    mean=lambda n: n,
    var=lambda n: 2 * n,
    entropy=lambda n: (
        0.5 * n + LOG_2 + F.gammaln(0.5 * n) + (1 - 0.5 * n) * F.psi(0.5 * n)
    ),
)


def _f_quantile(w: Any, m: Any, n: Any) -> Any:
    """From ``1 - w``, the part that the second degrees of freedom have."""
    return n * (1 - w) / (m * w)


f = Continuous(
    "f",
    "dfn dfd",
    support=POSITIVE,
    logpdf=lambda z, m, n: (
        0.5 * m * np.log(m)
        + 0.5 * n * np.log(n)
        + F.xlogy(0.5 * m - 1, z)
        - 0.5 * (m + n) * np.log(n + m * z)
        - F.betaln(0.5 * m, 0.5 * n)
    ),
    cdf=lambda z, m, n: F.fdtr(m, n, z),
    sf=lambda z, m, n: F.fdtrc(m, n, z),
    ppf=lambda q, m, n: F.fdtri(m, n, q),
    isf=lambda q, m, n: _f_quantile(F.betaincinv(0.5 * n, 0.5 * m, q), m, n),
    mean=lambda m, n: _or_inf(np.greater(n, 2), n / _safe(np.greater(n, 2), n - 2)),
    var=lambda m, n: _or_inf(
        np.greater(n, 4),
        2 * n * n * (m + n - 2) / (m * _safe(n > 4, (n - 2) ** 2 * (n - 4))),
    ),
    entropy=lambda m, n: (
        np.log(n) - np.log(m)
        + F.betaln(0.5 * m, 0.5 * n)
        + (1 - 0.5 * m) * F.psi(0.5 * m)
        - (1 + 0.5 * n) * F.psi(0.5 * n)
        + 0.5 * (m + n) * F.psi(0.5 * (m + n))
    ),
)  # fmt: skip

lognorm = Continuous(
    "lognorm",
    "s",
    support=POSITIVE,
    open=True,
    logpdf=lambda z, s: (
        -0.5 * np.square(np.log(z) / s) - np.log(z) - np.log(s) - LOG_ROOT_TWO_PI
    ),
    cdf=lambda z, s: F.ndtr(np.log(z) / s),
    sf=lambda z, s: F.ndtr(-np.log(z) / s),
    logcdf=lambda z, s: F.log_ndtr(np.log(z) / s),
    logsf=lambda z, s: F.log_ndtr(-np.log(z) / s),
    ppf=lambda q, s: np.exp(s * F.ndtri(q)),
    isf=lambda q, s: np.exp(-s * F.ndtri(q)),
    mean=lambda s: np.exp(0.5 * s * s),
    var=lambda s: np.expm1(s * s) * np.exp(s * s),
    entropy=lambda s: LOG_ROOT_TWO_PI + 0.5 + np.log(s),
)

pareto = Continuous(
    "pareto",
    "b",
    support=(1.0, INF),
    logpdf=lambda z, b: np.log(b) - (b + 1) * np.log(z),
    cdf=lambda z, b: -np.expm1(-b * np.log(z)),
    logsf=lambda z, b: -b * np.log(z),
    sf=lambda z, b: z**-b,
    ppf=lambda q, b: (1 - q) ** (-1 / b),
    isf=lambda q, b: q ** (-1 / b),
    mean=lambda b: _or_inf(np.greater(b, 1), b / _safe(np.greater(b, 1), b - 1)),
    var=lambda b: _or_inf(
        np.greater(b, 2), b / _safe(np.greater(b, 2), (b - 2) * (b - 1) ** 2)
    ),
    entropy=lambda b: 1 + 1 / b - np.log(b),
)

weibull_min = Continuous(
    "weibull_min",
    "c",
    support=POSITIVE,
    logpdf=lambda z, c: np.log(c) + F.xlogy(c - 1, z) - z**c,
    cdf=lambda z, c: -np.expm1(-(z**c)),
    logsf=lambda z, c: -(z**c),
    ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c),
    isf=lambda q, c: (-np.log(q)) ** (1 / c),
    mean=lambda c: F.gamma(1 + 1 / c),
    var=lambda c: F.gamma(1 + 2 / c) - np.square(F.gamma(1 + 1 / c)),
    entropy=lambda c: EULER + 1 - EULER / c - np.log(c),
)

halfnorm = Continuous(
    "halfnorm",
    support=POSITIVE,
    logpdf=lambda z: LOG_2 - LOG_ROOT_TWO_PI - 0.5 * z * z,
    cdf=lambda z: F.erf(z / math.sqrt(2)),
    logsf=lambda z: LOG_2 + F.log_ndtr(-z),
    sf=lambda z: F.erfc(z / math.sqrt(2)),
    ppf=lambda q: math.sqrt(2) * F.erfinv(q),
    isf=lambda q: math.sqrt(2) * F.erfcinv(q),
    mean=lambda: math.sqrt(2 / math.pi),
    var=lambda: 1 - 2 / math.pi,
    entropy=lambda: LOG_ROOT_TWO_PI - LOG_2 + 0.5,
)

halfcauchy = Continuous(
    "halfcauchy",
    support=POSITIVE,
    logpdf=lambda z: math.log(2 / math.pi) - np.log1p(z * z),
    cdf=lambda z: 2 / math.pi * np.arctan(z),
    sf=lambda z: 2 / math.pi * np.arctan2(1, z),
    ppf=lambda q: np.tan(0.5 * math.pi * q),
    isf=lambda q: 1 / np.tan(0.5 * math.pi * q),
    mean=lambda: INF,
    var=lambda: INF,
    entropy=lambda: math.log(2 * math.pi),
)

invgamma = Continuous(
    "invgamma",
    "a",
    support=POSITIVE,
    open=True,
    logpdf=lambda z, a: -(a + 1) * np.log(z) - F.gammaln(a) - 1 / z,
    cdf=lambda z, a: F.gammaincc(a, 1 / z),
    sf=lambda z, a: F.gammainc(a, 1 / z),
    ppf=lambda q, a: 1 / F.gammainccinv(a, q),
    isf=lambda q, a: 1 / F.gammaincinv(a, q),
    mean=lambda a: _or_inf(np.greater(a, 1), 1 / _safe(np.greater(a, 1), a - 1)),
    var=lambda a: _or_inf(
        np.greater(a, 2), 1 / _safe(np.greater(a, 2), (a - 1) ** 2 * (a - 2))
    ),
    entropy=lambda a: a - (a + 1) * F.psi(a) + F.gammaln(a),
)

rayleigh = Continuous(
    "rayleigh",
    support=POSITIVE,
    open=True,
    logpdf=lambda z: np.log(z) - 0.5 * z * z,
    cdf=lambda z: -np.expm1(-0.5 * z * z),
    logsf=lambda z: -0.5 * z * z,
    ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
    isf=lambda q: np.sqrt(-2 * np.log(q)),
    mean=lambda: math.sqrt(math.pi / 2),
    var=lambda: 2 - math.pi / 2,
    entropy=lambda: 0.5 * EULER + 1 - 0.5 * LOG_2,
)
