"""Families of one number in their standard form: ``loc = 0`` and ``scale = 1``.

That is with ``loc = 0`` and ``scale = 1``. Densities and moments: N. L. Johnson, S.
Kotz, N. Balakrishnan, "Continuous univariate distributions" (1994, 1995), with SciPy's
names of parameters. A tail is written so that it keeps its digits: `sf` is never
``1 - cdf``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike
from workbench.ops.define import convert_like, dtype_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.special.define import series
from workbench.ops.special.distributions import log_t_density
from workbench.ops.special.noncentral import (
    chi_square_tail,
    f_tail,
    log_noncentral_density,
    log_noncentral_t_density,
    noncentral_f_density,
)
from workbench.ops.special.shapes import FALL, NODES, WEIGHTS
from workbench.scipy.stats.family import (
    INF,
    Continuous,
    Discrete,
    F,
    is_certain,
    log_of,
    unwrap_scalar,
)

LOG_2 = math.log(2)
LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
EULER = 0.5772156649015329


def mask_inf(condition: ArrayLike, value: ArrayLike) -> Array:
    """Return a moment, infinite where the condition fails."""
    return np.where(condition, value, INF)


def mask_one(condition: ArrayLike, value: ArrayLike) -> Array:
    """Return the divisor, with 1 where the condition fails."""
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


def _t_entropy(n: Array) -> Array:
    """Return the entropy; for large n by the series of psi and gammaln: DLMF 5.11."""
    large = np.greater(n, 200)
    a, b = 1 / np.where(large, n, 1), np.where(large, 1, n)
    rest = a * (1 + a * (1 / 4 + a * (-1 / 6 + a * (-1 / 8 + a * (0.3 + a / 4)))))
    direct = 0.5 * (b + 1) * (F.psi(0.5 * (b + 1)) - F.psi(0.5 * b))
    direct = direct + 0.5 * np.log(b) + F.betaln(0.5 * b, 0.5)
    return np.where(large, LOG_ROOT_TWO_PI + 0.5 + rest, direct)


def _log_t(z: Array, n: Array) -> Array:
    """Return the log density; by its plain form for few degrees of freedom.

    The other one keeps its digits for many, also infinitely many.
    """
    if not is_certain(np.less_equal(n, 200)):
        return log_t_density(n, z)
    constant = -0.5 * np.log(n) - F.betaln(0.5, 0.5 * n)
    return constant - 0.5 * (n + 1) * np.log1p(z * z / n)


t = Continuous(
    "t",
    "df",
    inner=lambda n: 0.0,
    logpdf=_log_t,
    cdf=lambda z, n: F.stdtr(n, z),
    sf=lambda z, n: F.stdtr(n, -z),
    ppf=lambda q, n: F.stdtrit(n, q),
    isf=lambda q, n: -F.stdtrit(n, q),
    mean=lambda n: mask_inf(np.greater(n, 1), np.zeros_like(n)),
    var=lambda n: np.where(
        np.greater(n, 1),
        mask_inf(np.greater(n, 2), 1 + 2 / mask_one(np.greater(n, 2), n - 2)),
        np.nan,
    ),
    entropy=_t_entropy,
)


#: Of n / (n - 2) less the squared mean of 1 / scale, in powers of 2 / n: DLMF 5.11.8.
_SCALE_GAP = (
    *(0, 1 / 4, 15 / 32, 83 / 128, 0.78369140625, 0.8743896484375),
    *(0.9276580810546875, 0.956798553466796875, 0.97549974918365479),
    *(0.98958203196525574, 0.99484378471970558, 0.98989224899560213),
    0.99313110957155004,
)


def _find_scale_moments(n: Array) -> tuple[Array, Array, Array]:
    """Return the mean of 1 / scale of nct, that of its square, and its variance.

    The first wants n > 1, the others n > 2; of large n by series.
    """
    large = np.greater(n, 40)
    z, few = 2 / np.where(large, n, 40), np.where(large, 3, n)
    half, rest = 0.5 * few, mask_one(np.greater(few, 2), few - 2)
    direct = F.gamma(half - 0.5) * F.rgamma(half) * np.sqrt(half)
    gap = series(z, *_SCALE_GAP)
    square = np.where(large, 1 / (1 - z), few / rest)
    mean = np.where(large, np.sqrt(1 / (1 - z) - gap), direct)
    return mean, square, np.where(large, gap, square - direct * direct)


def _nct_mean(n: Array, nc: Array) -> Array:
    known = np.greater(n, 1)
    return np.where(known, nc * _find_scale_moments(np.where(known, n, 2))[0], np.nan)


def _nct_var(n: Array, nc: Array) -> Array:
    known = np.greater(n, 2)
    _, square, variance = _find_scale_moments(np.where(known, n, 3))
    return np.where(known, square + nc * nc * variance, np.nan)


# The upper tail is the lower one of the distribution turned around
nct = Continuous(
    "nct",
    "df nc",
    valid=lambda n, nc: np.greater(n, 0) & np.isfinite(nc),
    typical=(3.0, 0.0),
    inner=lambda n, nc: 0.0 * n,
    logpdf=lambda z, n, nc: log_noncentral_t_density(n, nc, z),
    cdf=lambda z, n, nc: F.nctdtr(n, nc, z),
    sf=lambda z, n, nc: F.nctdtr(n, -nc, -z),
    ppf=lambda q, n, nc: F.nctdtrit(n, nc, q),
    isf=lambda q, n, nc: -F.nctdtrit(n, -nc, q),
    mean=_nct_mean,
    var=_nct_var,
)


def _cauchy_quantile(q: Array) -> Array:
    """Return -1 / tan(pi q), computed from the nearer end."""
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


def _laplace_logcdf(z: Array) -> Array:
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
    logpdf=lambda z, a: LOG_2 + norm.find_function("logpdf")(z) + F.log_ndtr(a * z),
    cdf=lambda z, a: F.ndtr(z) - 2 * F.owens_t(z, a),
    sf=lambda z, a: F.ndtr(-z) - 2 * F.owens_t(-z, -a),
    mean=lambda a: math.sqrt(2 / math.pi) * a / np.sqrt(1 + a * a),
    var=lambda a: 1 - 2 / math.pi * a * a / (1 + a * a),
)


def _vonmises_tail(x: Array, kappa: Array) -> Array:
    """Return the probability between x, from 0 to pi, and pi, by a rule of Gauss.

    Beyond an angle s from x, where the density has fallen by 2 kappa sin(x + s/2)
    sin(s/2) in its logarithm, no less than by sin(s/2)**2 or by a chord, nothing
    counts.
    """
    at = stop_gradient(x)
    steep = np.minimum(np.sin(at), np.cos(0.5 * at))
    high = 0.5 * FALL / np.maximum(stop_gradient(kappa), 1e-9)
    by_square = 2 * np.arcsin(np.sqrt(np.minimum(high, 1)))
    by_chord = math.pi * high / np.maximum(steep, 1e-9)
    end = np.minimum(math.pi - x, np.minimum(by_square, by_chord))
    half = np.expand_dims(0.5 * end, -1) * convert_like(NODES, x)
    fall = np.sin(np.expand_dims(x, -1) + half) * np.sin(half)
    density = np.exp(-2 * np.expand_dims(kappa, -1) * fall)
    mass = end * (density @ convert_like(WEIGHTS, x))[..., 0]
    y = mass * np.exp(kappa * F.cosm1(x)) / (2 * math.pi * F.i0e(kappa))
    return np.astype(y, dtype_of(x))


def _vonmises_cdf(z: Array, kappa: Array) -> Array:
    """Return the probability from -pi to z; each turn more adds 1, as in SciPy's."""
    turns = np.rint(z / (2 * math.pi))
    x = z - 2 * math.pi * turns
    tail = _vonmises_tail(np.abs(x), kappa)
    return np.where(np.less(x, 0), turns + tail, turns + 1 - tail)


def _vonmises_sf(z: Array, kappa: Array) -> Array:
    turns = np.rint(z / (2 * math.pi))
    x = z - 2 * math.pi * turns
    tail = _vonmises_tail(np.abs(x), kappa)
    return np.where(np.less(x, 0), 1 - tail - turns, tail - turns)


vonmises = Continuous(
    "vonmises",
    "kappa",
    valid=lambda kappa: np.greater_equal(kappa, 0),
    cdf=_vonmises_cdf,
    sf=_vonmises_sf,
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


# The discrete families in their standard form, ``loc = 0``.
#
# Probabilities and moments: N. L. Johnson, A. W. Kemp, S. Kotz, "Univariate discrete
# distributions" (2005), with SciPy's names of parameters.


def _is_probability(p: Array) -> Any:
    return np.greater_equal(p, 0) & np.less_equal(p, 1)


def _is_count(n: Array) -> Any:
    return np.greater_equal(n, 0) & np.equal(np.floor(n), n)


poisson = Discrete(
    "poisson",
    "mu",
    support=(0, INF),
    valid=lambda mu: np.greater_equal(mu, 0),
    logpmf=lambda k, mu: F.xlogy(k, mu) - F.gammaln(k + 1) - mu,
    cdf=lambda k, mu: F.pdtr(k, mu),
    sf=lambda k, mu: F.pdtrc(k, mu),
    mean=lambda mu: mu,
    var=lambda mu: mu,
)

bernoulli = Discrete(
    "bernoulli",
    "p",
    support=(0, 1),
    valid=_is_probability,
    typical=(0.5,),
    logpmf=lambda k, p: F.xlogy(k, p) + F.xlog1py(1 - k, -p),
    cdf=lambda k, p: 1 - p,
    sf=lambda k, p: p,
    mean=lambda p: p,
    var=lambda p: p * (1 - p),
    entropy=lambda p: F.entr(p) + F.entr(1 - p),
)


def _binom_logpmf(k: Array, n: Array, p: Array) -> Array:
    n = np.floor(n)  # which does not vary
    ways = F.gammaln(n + 1) - F.gammaln(k + 1) - F.gammaln(n - k + 1)
    return ways + F.xlogy(k, p) + F.xlog1py(n - k, -p)


binom = Discrete(
    "binom",
    "n p",
    support=lambda n, p: (0, np.floor(n)),
    valid=lambda n, p: _is_count(n) & _is_probability(p),
    typical=(1.0, 0.5),
    logpmf=_binom_logpmf,
    cdf=lambda k, n, p: F.betaincc(k + 1, np.maximum(np.floor(n) - k, 1), p),
    sf=lambda k, n, p: F.betainc(k + 1, np.maximum(np.floor(n) - k, 1), p),
    mean=lambda n, p: n * p,
    var=lambda n, p: n * p * (1 - p),
)

geom = Discrete(
    "geom",
    "p",
    support=(1, INF),
    valid=lambda p: np.greater(p, 0) & np.less_equal(p, 1),
    typical=(0.5,),
    logpmf=lambda k, p: F.xlog1py(k - 1, -p) + np.log(p),
    cdf=lambda k, p: -np.expm1(F.xlog1py(k, -p)),
    sf=lambda k, p: np.exp(F.xlog1py(k, -p)),
    mean=lambda p: 1 / p,
    var=lambda p: (1 - p) / (p * p),
    entropy=lambda p: F.entr(p) / p + F.entr(1 - p) / p,
)

nbinom = Discrete(
    "nbinom",
    "n p",
    support=(0, INF),
    valid=lambda n, p: np.greater(n, 0) & np.greater(p, 0) & np.less_equal(p, 1),
    typical=(1.0, 0.5),
    logpmf=lambda k, n, p: (
        F.gammaln(n + k) - F.gammaln(k + 1) - F.gammaln(n)
        + n * np.log(p) + F.xlog1py(k, -p)
    ),
    cdf=lambda k, n, p: F.betainc(n, k + 1, p),
    sf=lambda k, n, p: F.betaincc(n, k + 1, p),
    mean=lambda n, p: n * (1 - p) / p,
    var=lambda n, p: n * (1 - p) / (p * p),
)  # fmt: skip


# Continuous families on the positive half line, in their standard form.
#
# That is with ``loc = 0`` and ``scale = 1``; formulas are from the books cited above.

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


def _gamma_entropy(a: Array) -> Array:
    """Return a + gammaln(a) + (1 - a) psi(a); for large a by DLMF 5.11.1, 5.11.2."""
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


ncx2 = Continuous(
    "ncx2",
    "df nc",
    support=POSITIVE,
    valid=lambda n, nc: np.greater(n, 0) & np.greater_equal(nc, 0),
    logpdf=log_noncentral_density,
    cdf=lambda z, n, nc: F.chndtr(z, n, nc),
    sf=chi_square_tail,
    ppf=lambda q, n, nc: F.chndtrix(q, n, nc),
    isf=lambda q, n, nc: F.chndtrix(1 - q, n, nc),  # SciPy has no inverse of its tail
    mean=lambda n, nc: n + nc,
    var=lambda n, nc: 2 * n + 4 * nc,
)


def _f_quantile(w: Array, m: Array, n: Array) -> Array:
    """Return the quantile, from that of the beta law of the second degrees."""
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
    mean=lambda m, n: mask_inf(np.greater(n, 2), n / mask_one(np.greater(n, 2), n - 2)),
    var=lambda m, n: mask_inf(
        np.greater(n, 4),
        2 * n * n * (m + n - 2) / (m * mask_one(n > 4, (n - 2) ** 2 * (n - 4))),
    ),
    entropy=lambda m, n: (
        np.log(n) - np.log(m)
        + F.betaln(0.5 * m, 0.5 * n)
        + (1 - 0.5 * m) * F.psi(0.5 * m)
        - (1 + 0.5 * n) * F.psi(0.5 * n)
        + 0.5 * (m + n) * F.psi(0.5 * (m + n))
    ),
)  # fmt: skip


def _ncf_var(m: Array, n: Array, nc: Array) -> Array:
    known = np.greater(n, 4)
    k = np.where(known, n, 6) - 2
    total = np.square(m + nc) + (m + 2 * nc) * k
    return mask_inf(known, 2 * np.square(n / m) * total / (k * k * (k - 2)))


ncf = Continuous(
    "ncf",
    "dfn dfd nc",
    support=POSITIVE,
    valid=lambda m, n, nc: (
        np.greater(m, 0) & np.greater(n, 0) & np.greater_equal(nc, 0)
    ),
    logpdf=lambda z, m, n, nc: log_of(noncentral_f_density(m, n, nc, z)),
    cdf=lambda z, m, n, nc: F.ncfdtr(m, n, nc, z),
    sf=f_tail,
    ppf=lambda q, m, n, nc: F.ncfdtri(m, n, nc, q),
    isf=lambda q, m, n, nc: F.ncfdtri(m, n, nc, 1 - q),
    mean=lambda m, n, nc: mask_inf(
        np.greater(n, 2), n * (m + nc) / (m * mask_one(np.greater(n, 2), n - 2))
    ),
    var=_ncf_var,
)


def _log_lognormal(z: Array, s: Array) -> Array:
    level = np.log(z)
    return -0.5 * np.square(level / s) - level - (np.log(s) + LOG_ROOT_TWO_PI)


lognorm = Continuous(
    "lognorm",
    "s",
    support=POSITIVE,
    open=True,
    logpdf=_log_lognormal,
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
    mean=lambda b: mask_inf(np.greater(b, 1), b / mask_one(np.greater(b, 1), b - 1)),
    var=lambda b: mask_inf(
        np.greater(b, 2), b / mask_one(np.greater(b, 2), (b - 2) * (b - 1) ** 2)
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
    mean=lambda a: mask_inf(np.greater(a, 1), 1 / mask_one(np.greater(a, 1), a - 1)),
    var=lambda a: mask_inf(
        np.greater(a, 2), 1 / mask_one(np.greater(a, 2), (a - 1) ** 2 * (a - 2))
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


# Families whose support depends on their shapes: `truncnorm`, `genextreme`.

# The normal distribution between a and b


def _detach_infinite(x: Array) -> Array:
    """Return an end of the interval; detach an infinite end from the scale.

    Its tangent, as of ``(inf - loc) / scale``, is infinite, and 0 times that no number.
    """
    if not isinstance(x, Tensor):
        return x
    end = np.where(np.isinf(x), stop_gradient(x), x)
    return end.astype(x.dtype)


class _Truncated(Continuous):
    """`truncnorm`, with ends that may be infinite."""

    def bind_parameters(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> list[Any]:
        a, b, *settings = super().bind_parameters(args, kwds)
        return [_detach_infinite(a), _detach_infinite(b), *settings]


def _log_mass(a: Array, b: Array) -> Array:
    """Return log(ndtr(b) - ndtr(a)), computed in the tail nearer to the interval."""
    right = np.greater(a, 0)
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    low = np.where(np.isinf(low), -1e18, low)  # no mass beyond, and a finite slope
    tail = np.less_equal(high, 0)
    top = F.log_ndtr(np.where(tail, high, 0))
    # log(exp(top) - exp(bottom))
    difference = F.log_ndtr(np.where(tail, low, -1)) - top
    in_tail = top + log_of(-np.expm1(difference))
    around = np.log1p(
        -F.ndtr(np.where(tail, -1, low)) - F.ndtr(-np.where(tail, 1, high))
    )
    return unwrap_scalar(np.where(tail, in_tail, around))


def _log_share(part: Array, rest: Array, whole: Array) -> Array:
    """Return the logarithm of a share of the mass; near 0 by that of the rest."""
    direct = part - whole
    large = direct > -0.1
    return np.where(large, np.log1p(-np.exp(np.where(large, rest - whole, -1))), direct)


def _density(z: Array) -> Array:
    z = np.where(np.isinf(z), 1e3, z)  # 0 there too, and flat
    return np.exp(-0.5 * z * z - LOG_ROOT_TWO_PI)


def _moment(z: Array) -> Array:
    """Return z times the density, 0 where z is infinite."""
    finite = np.isfinite(z)
    safe = np.where(finite, z, 0)
    return safe * _density(safe)


def _truncnorm_ppf(q: Array, a: Array, b: Array) -> Array:
    mass = _log_mass(a, b)
    left = np.less(a, 0)
    p, r = np.where(left, q, 0.5), np.where(left, 0.5, q)
    from_left = F.ndtri_exp(np.logaddexp(F.log_ndtr(a), np.log(p) + mass))
    from_right = -F.ndtri_exp(np.logaddexp(F.log_ndtr(-b), np.log1p(-r) + mass))
    return np.where(left, from_left, from_right)


def _truncnorm_isf(q: Array, a: Array, b: Array) -> Array:
    mass = _log_mass(a, b)
    left = np.less(b, 0)
    p, r = np.where(left, q, 0.5), np.where(left, 0.5, q)
    from_left = F.ndtri_exp(np.logaddexp(F.log_ndtr(a), np.log1p(-p) + mass))
    from_right = -F.ndtri_exp(np.logaddexp(F.log_ndtr(-b), np.log(r) + mass))
    return np.where(left, from_left, from_right)


def _truncnorm_mean(a: Array, b: Array) -> Array:
    return (_density(a) - _density(b)) / np.exp(_log_mass(a, b))


truncnorm = _Truncated(
    "truncnorm",
    "a b",
    support=lambda a, b: (a, b),
    valid=lambda a, b: np.less(a, b),
    typical=(-1.0, 1.0),
    inner=lambda a, b: np.minimum(np.maximum(a, 0.0), b),
    logpdf=lambda z, a, b: -0.5 * z * z - LOG_ROOT_TWO_PI - _log_mass(a, b),
    logcdf=lambda z, a, b: _log_share(
        _log_mass(a, z), _log_mass(z, b), _log_mass(a, b)
    ),
    logsf=lambda z, a, b: _log_share(
        _log_mass(z, b), _log_mass(a, z), _log_mass(a, b)
    ),
    ppf=_truncnorm_ppf,
    isf=_truncnorm_isf,
    mean=_truncnorm_mean,
    var=lambda a, b: (
        1
        + (_moment(a) - _moment(b)) / np.exp(_log_mass(a, b))
        - np.square(_truncnorm_mean(a, b))
    ),
    entropy=lambda a, b: (
        LOG_ROOT_TWO_PI + 0.5 + _log_mass(a, b)
        + 0.5 * (_moment(a) - _moment(b)) / np.exp(_log_mass(a, b))
    ),
)  # fmt: skip


# Extreme values: the distribution function is exp(-exp(L)), L = log(1 - c z) / c


def _level(z: Array, c: Array) -> Array:
    """Return log1p(-c z) / c, by its series near 0: c = 0 is not a special point."""
    u = c * z
    near = np.abs(u) < 0.05
    a, b = np.where(near, u, 0), np.where(near, -1, u)
    ratio = np.where(
        near, series(a, *[-1 / (k + 1) for k in range(14)]), np.log1p(-b) / b
    )
    return z * ratio


def _extreme_quantile(y: Array, c: Array) -> Array:
    """Return (1 - y**c) / c for y = -log(probability)."""
    return -F.boxcox(y, c)


def _extreme_ends(c: Array) -> tuple[Any, Any]:
    flat = np.equal(c, 0)
    end = 1 / np.where(flat, 1, c)
    return (
        np.where(np.less(c, 0), end, -INF),
        np.where(np.greater(c, 0), end, INF),
    )


genextreme = Continuous(
    "genextreme",
    "c",
    support=_extreme_ends,
    valid=lambda c: np.isfinite(c),
    inner=lambda c: 0.0 * c,
    open=True,
    logpdf=lambda z, c: -np.exp(_level(z, c)) + _level(z, c) - np.log1p(-c * z),
    logcdf=lambda z, c: -np.exp(_level(z, c)),
    sf=lambda z, c: -np.expm1(-np.exp(_level(z, c))),
    ppf=lambda q, c: _extreme_quantile(-np.log(q), c),
    isf=lambda q, c: _extreme_quantile(-np.log1p(-q), c),
    entropy=lambda c: EULER * (1 - c) + 1,
)
