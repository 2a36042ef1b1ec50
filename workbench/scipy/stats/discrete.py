"""The discrete families in their standard form, ``loc = 0``.

Probabilities and moments: N. L. Johnson, A. W. Kemp, S. Kotz, "Univariate discrete
distributions" (2005), with SciPy's names of parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.scipy.stats.family import INF, F
from workbench.scipy.stats.kinds import Discrete

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]


def _probability(p: Any) -> Any:
    return np.greater_equal(p, 0) & np.less_equal(p, 1)


def _count(n: Any) -> Any:
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
    valid=_probability,
    typical=(0.5,),
    logpmf=lambda k, p: F.xlogy(k, p) + F.xlog1py(1 - k, -p),
    cdf=lambda k, p: 1 - p,
    sf=lambda k, p: p,
    mean=lambda p: p,
    var=lambda p: p * (1 - p),
    entropy=lambda p: F.entr(p) + F.entr(1 - p),
)


def _binom_logpmf(k: Any, n: Any, p: Any) -> Any:
    n = np.floor(n)  # which does not vary
    ways = F.gammaln(n + 1) - F.gammaln(k + 1) - F.gammaln(n - k + 1)
    return ways + F.xlogy(k, p) + F.xlog1py(n - k, -p)


binom = Discrete(
    "binom",
    "n p",
    support=lambda n, p: (0, np.floor(n)),
    valid=lambda n, p: _count(n) & _probability(p),
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
