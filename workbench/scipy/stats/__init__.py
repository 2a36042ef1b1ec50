"""The common families of `scipy.stats`, for Tensors and arrays.

SciPy's own do not take Tensors. These have the same names and call forms, frozen or
not: ``norm.logpdf(x, loc, scale)``, ``norm(loc, scale).logpdf(x)``.
"""

from __future__ import annotations

from typing import Any

from workbench.core.blame import suggest
from workbench.scipy.stats.multivariate import (
    dirichlet,
    multinomial,
    multivariate_normal,
    wishart,
)
from workbench.scipy.stats.univariate import (
    bernoulli,
    beta,
    binom,
    cauchy,
    chi2,
    expon,
    f,
    gamma,
    genextreme,
    geom,
    gumbel_l,
    gumbel_r,
    halfcauchy,
    halfnorm,
    invgamma,
    laplace,
    logistic,
    lognorm,
    nbinom,
    ncf,
    nct,
    ncx2,
    norm,
    pareto,
    poisson,
    rayleigh,
    skewnorm,
    t,
    truncnorm,
    uniform,
    vonmises,
    weibull_min,
)

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "f",
    "gamma",
    "genextreme",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "invgamma",
    "laplace",
    "logistic",
    "lognorm",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "ncf",
    "nct",
    "ncx2",
    "norm",
    "pareto",
    "poisson",
    "rayleigh",
    "skewnorm",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "weibull_min",
    "wishart",
]


def __getattr__(name: str) -> Any:
    close = suggest(name, __all__)
    raise AttributeError(
        f"workbench.scipy.stats has no {name}.{close} There are: {', '.join(__all__)}."
    )
