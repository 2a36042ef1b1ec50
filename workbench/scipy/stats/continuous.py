"""Continuous families on the whole line or an interval, in their standard form.

That is with ``loc = 0`` and ``scale = 1``. Densities and moments: N. L. Johnson, S.
Kotz, N. Balakrishnan, "Continuous univariate distributions" (1994, 1995), with SciPy's
names of parameters. A tail is written so that it keeps its digits: `sf` is never
``1 - cdf``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.ops.special.distributions import log_t_density
from workbench.scipy.stats.family import INF, F
from workbench.scipy.stats.kinds import Continuous

__all__ = [
    "EULER",
    "LOG_2",
    "LOG_ROOT_TWO_PI",
    "beta",
    "cauchy",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "norm",
    "or_inf",
    "safe",
    "skewnorm",
    "t",
    "uniform",
    "vonmises",
]

LOG_2 = math.log(2)
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
EULER = 0.5772156649015329


def or_inf(condition: Any, value: Any) -> Any:
    """A moment, infinite where the condition fails."""
    return np.where(condition, value, INF)


def safe(condition: Any, value: Any) -> Any:
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


def _t_entropy(n: Any) -> Any:
    """For large n by the asymptotic series of psi and gammaln: DLMF 5.11."""
    large = np.greater(n, 200)
    a, b = 1 / np.where(large, n, 1), np.where(large, 1, n)
    rest = a * (1 + a * (1 / 4 + a * (-1 / 6 + a * (-1 / 8 + a * (0.3 + a / 4)))))
    direct = 0.5 * (b + 1) * (F.psi(0.5 * (b + 1)) - F.psi(0.5 * b))
    direct = direct + 0.5 * np.log(b) + F.betaln(0.5 * b, 0.5)
    return np.where(large, LOG_ROOT_TWO_PI + 0.5 + rest, direct)


t = Continuous(
    "t",
    "df",
    inner=lambda n: 0.0,
    logpdf=lambda z, n: log_t_density(n, z),
    cdf=lambda z, n: F.stdtr(n, z),
    sf=lambda z, n: F.stdtr(n, -z),
    ppf=lambda q, n: F.stdtrit(n, q),
    isf=lambda q, n: -F.stdtrit(n, q),
    mean=lambda n: or_inf(np.greater(n, 1), np.zeros_like(n)),
    var=lambda n: np.where(
        np.greater(n, 1),
        or_inf(np.greater(n, 2), 1 + 2 / safe(np.greater(n, 2), n - 2)),
        np.nan,
    ),
    entropy=_t_entropy,
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
