"""Continuous families on the positive half line, in their standard form.

That is with ``loc = 0`` and ``scale = 1``; formulas are from the books cited in
`continuous.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.scipy.stats.continuous import (
    EULER,
    LOG_2,
    LOG_ROOT_TWO_PI,
    or_inf,
    safe,
)
from workbench.scipy.stats.family import INF, F
from workbench.scipy.stats.kinds import Continuous

__all__ = [
    "chi2",
    "expon",
    "f",
    "gamma",
    "halfcauchy",
    "halfnorm",
    "invgamma",
    "lognorm",
    "pareto",
    "rayleigh",
    "weibull_min",
]

POSITIVE = (0.0, INF)

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


def _gamma_entropy(a: Any) -> Any:
    """a + gammaln(a) + (1 - a) psi(a); for large a, by DLMF 5.11.1 and 5.11.2."""
    large = np.greater(a, 250)
    b, c = np.where(large, a, 1), np.where(large, 1, a)
    rest = -1 / (3 * b) - 1 / (12 * b**2) - 1 / (90 * b**3) + 1 / (120 * b**4)
    return np.where(
        large,
        LOG_ROOT_TWO_PI + 0.5 + 0.5 * np.log(b) + rest,
        c + F.gammaln(c) + (1 - c) * F.psi(c),
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
    entropy=_gamma_entropy,
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
    entropy=lambda n: LOG_2 + _gamma_entropy(0.5 * n),
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
    mean=lambda m, n: or_inf(np.greater(n, 2), n / safe(np.greater(n, 2), n - 2)),
    var=lambda m, n: or_inf(
        np.greater(n, 4),
        2 * n * n * (m + n - 2) / (m * safe(n > 4, (n - 2) ** 2 * (n - 4))),
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
    mean=lambda b: or_inf(np.greater(b, 1), b / safe(np.greater(b, 1), b - 1)),
    var=lambda b: or_inf(
        np.greater(b, 2), b / safe(np.greater(b, 2), (b - 2) * (b - 1) ** 2)
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
    mean=lambda a: or_inf(np.greater(a, 1), 1 / safe(np.greater(a, 1), a - 1)),
    var=lambda a: or_inf(
        np.greater(a, 2), 1 / safe(np.greater(a, 2), (a - 1) ** 2 * (a - 2))
    ),
    entropy=lambda a: _gamma_entropy(a) - 2 * F.psi(a),
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
