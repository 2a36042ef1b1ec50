"""The families of `scipy.stats`: densities, distribution functions, quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats as truth

from tests.ops.samples.special import between
from tests.ops.samples.table import Draw, Table, apart, constant, definite, positive
from workbench.scipy import stats

row = Table()

_Shapes = tuple[Draw, ...]
#: Points inside the support, and shape parameters, of each continuous family.
FAMILIES: dict[str, tuple[Draw, _Shapes]] = {
    "norm": (apart(2, 3), ()),
    "t": (apart(2, 3), (between(1.5, 4, 3),)),
    "cauchy": (apart(2, 3), ()),
    "laplace": (apart(3, shift=5.0), ()),
    "logistic": (apart(2, 3), ()),
    "gumbel_r": (apart(2, 3), ()),
    "gumbel_l": (apart(2, 3), ()),
    "skewnorm": (apart(2, 3), (apart(3),)),
    "vonmises": (apart(2, 3), (positive(3),)),
    "uniform": (between(0.6, 1.2, 3), ()),
    "beta": (between(0.6, 1.2, 2, 3), (between(1, 3, 3), between(1, 3, 3))),
    "expon": (between(0.5, 2, 3), ()),
    "gamma": (between(0.5, 2, 2, 3), (between(1, 3, 3),)),
    "chi2": (between(0.5, 2, 3), (between(1, 3, 3),)),
    "f": (between(0.5, 2, 3), (between(1, 3, 3), between(5, 7, 3))),
    "nct": (apart(2, 3), (between(2.5, 6, 3), apart(3))),
    "ncx2": (between(0.5, 2, 3), (between(1.5, 3, 3), between(0.5, 2, 3))),
    "ncf": (
        between(0.5, 2, 3),
        (between(1.5, 3, 3), between(5, 7, 3), between(0.5, 2, 3)),
    ),
    "lognorm": (between(0.6, 2, 3), (between(0.5, 1, 3),)),
    "pareto": (between(4, 5, 3), (between(1.5, 3, 3),)),  # its mean ends at 1
    "weibull_min": (between(0.6, 2, 3), (between(1, 3, 3),)),
    "halfnorm": (between(0.5, 2, 3), ()),
    "halfcauchy": (between(0.5, 2, 3), ()),
    "invgamma": (between(0.6, 2, 3), (between(2.5, 4, 3),)),
    "rayleigh": (between(0.6, 2, 3), ()),
    "truncnorm": (between(0.6, 1.2, 3), (between(-2, -1, 3), between(1, 2, 3))),
    "genextreme": (apart(3), (between(0.1, 0.2, 3),)),
}
LOC: Draw = between(0.1, 0.3, 3)
SCALE: Draw = between(1.3, 1.6, 3)


def kept(f: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's values in the dtype of the arguments: its own are always float64."""
    return lambda *args: np.asarray(
        f(*[np.asarray(a, np.float64) for a in args])
    ).astype(np.result_type(*args))


for _name, (_points, _shapes) in FAMILIES.items():
    _ours, _theirs = getattr(stats, _name), getattr(truth, _name)
    for _method in ("logpdf", "pdf"):
        row(
            f"{_name}.{_method}",
            getattr(_ours, _method),
            _points,
            *_shapes,
            LOC,
            SCALE,
            truth=kept(getattr(_theirs, _method)),
        )
    if not (_ours.has_function("cdf") or _ours.has_function("logcdf")):
        continue
    for _method in ("cdf", "logcdf", "sf", "logsf"):
        _f, _truth = getattr(_ours, _method), getattr(_theirs, _method)
        row(f"{_name}.{_method}", _f, _points, *_shapes, LOC, SCALE,
            truth=kept(_truth))  # fmt: skip
    for _method in ("ppf", "isf"):
        if _ours.has_function(_method):
            row(
                f"{_name}.{_method}",
                getattr(_ours, _method),
                between(0.2, 0.45, 3),
                *_shapes,
                LOC,
                SCALE,
                truth=kept(getattr(_theirs, _method)),
            )
    for _method in ("mean", "var", "std", "entropy"):
        if (
            _ours.has_function({"std": "var"}.get(_method, _method))
            and _name != "cauchy"
        ):
            if (_name, _method) in (("vonmises", "mean"), ("halfcauchy", "mean"),
                ("halfcauchy", "var"), ("halfcauchy", "std"), ("t", "var"),
                ("t", "std"), ("pareto", "var"), ("pareto", "std")):  # fmt: skip
                continue  # constant or infinite: in tests/scipy/test_stats.py
            row(
                f"{_name}.{_method}",
                getattr(_ours, _method),
                *_shapes,
                LOC,
                SCALE,
                truth=kept(getattr(_theirs, _method)),
            )

# Discrete families: by the parameters

K = np.array([0.0, 1.0, 3.0])
DISCRETE: dict[str, tuple[tuple[float, ...], Draw]] = {
    "poisson": ((), between(0.5, 3, 2, 3)),
    "bernoulli": ((), between(0.2, 0.8, 2, 3)),
    "binom": ((5.0,), between(0.2, 0.8, 2, 3)),
    "geom": ((), between(0.2, 0.8, 2, 3)),
    "nbinom": ((2.5,), between(0.2, 0.8, 2, 3)),
}


def counted(f: Callable[..., Any], shapes: tuple[float, ...]) -> Callable[..., Any]:
    return lambda p: f(constant(K.astype(p.dtype), p), *shapes, p)


def probable(f: Callable[..., Any], shapes: tuple[float, ...]) -> Callable[..., Any]:
    return lambda p: f(*shapes, p)


for _name, (_counts, _draw) in DISCRETE.items():
    _ours, _theirs = getattr(stats, _name), getattr(truth, _name)
    for _method in ("pmf", "cdf", "sf"):
        row(
            f"{_name}.{_method}",
            counted(getattr(_ours, _method), _counts),
            _draw,
            truth=kept(counted(getattr(_theirs, _method), _counts)),
        )
    for _method in ("mean", "var"):
        row(
            f"{_name}.{_method}",
            probable(getattr(_ours, _method), _counts),
            _draw,
            truth=kept(probable(getattr(_theirs, _method), _counts)),
        )
row(
    "nbinom.logpmf by both",
    lambda n, p: stats.nbinom.logpmf(constant([2.0, 0, 1], p), n, p),
    between(1, 3, 2, 3),
    between(0.2, 0.8, 3),
    truth=lambda n, p: truth.nbinom.logpmf(np.array([2.0, 0.0, 1.0]), n, p),
)

# Vectors

row(
    "multivariate_normal.logpdf",
    lambda x, m, a: stats.multivariate_normal.logpdf(x, m, a @ a.T),
    apart(2, 3),
    apart(3),
    definite(3, 3),
    truth=kept(lambda x, m, a: truth.multivariate_normal.logpdf(x, m, a @ a.T)),
)
row(
    "multivariate_normal.pdf",
    lambda x, m, c: stats.multivariate_normal.pdf(x, m, c),
    apart(2, 3),
    apart(3),
    positive(3),
    truth=kept(lambda x, m, c: truth.multivariate_normal.pdf(x, m, c)),
)
row(
    "multivariate_normal.logpdf on a plane",
    lambda b, u: stats.multivariate_normal.logpdf(
        u @ b.T, None, b @ b.T, allow_singular=True
    ),
    lambda rng: np.array([[1.0, 0.4], [-0.3, 1.2], [0.5, 0.6]]),
    apart(2, 2),
)
row(
    "wishart.logpdf",
    lambda a, n, b: stats.wishart.logpdf(a @ a.T, n, b @ b.T),
    definite(3, 3),
    between(4, 5),
    definite(3, 3),
    truth=kept(lambda a, n, b: truth.wishart.logpdf(a @ a.T, float(n), b @ b.T)),
)
row(
    "dirichlet.logpdf",
    lambda x, a: stats.dirichlet.logpdf(x / np.sum(x), a),
    positive(3),
    positive(3),
    truth=kept(lambda x, a: truth.dirichlet.logpdf(x / np.sum(x), a)),
)
row("dirichlet.var", stats.dirichlet.var, positive(3), truth=kept(truth.dirichlet.var))
row("dirichlet.entropy", stats.dirichlet.entropy, positive(3),
    truth=kept(truth.dirichlet.entropy))  # fmt: skip
row(
    "multinomial.logpmf",
    lambda p: stats.multinomial.logpmf(
        constant(K.astype(p.dtype), p), 4, p / np.sum(p)
    ),
    positive(3),
    truth=kept(lambda p: truth.multinomial.logpmf(K, 4, p / np.sum(p))),
)
