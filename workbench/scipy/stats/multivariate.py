"""Distributions of vectors and matrices: `multivariate_normal`, `wishart`, ..."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike, is_weak
from workbench.errors import MatrixError, ShapeError
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.lengths import defer_function
from workbench.scipy.special import multigammaln
from workbench.scipy.stats.family import INF, F, unwrap_scalar

__all__ = ["dirichlet", "multinomial", "multivariate_normal", "wishart"]


class _Multivariate:
    """What the three share: they freeze, ``dirichlet(alpha).logpdf(x)``."""

    name = ""
    #: Those that take no point.
    constants: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if callable(method) and not name.startswith("_"):
                setattr(cls, name, defer_function(method, pin=True))

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the distribution with these parameters; its methods take the point."""
        return _Frozen(self, args, kwds)

    def __repr__(self) -> str:
        return f"<workbench.scipy.stats.{self.name}>"


def _log_volume(matrices: Any, what: str) -> Any:
    """Return the logarithm of the determinant of positive definite matrices."""
    scales = np.linalg.eigvalsh(stop_gradient(matrices))
    definite = value_of(np.all(np.greater(scales, 0)))
    if definite is not None and not definite:
        raise MatrixError(
            f"wishart{blame.user_line()}: {what} is not positive definite. X @ X.T is,"
            " for any X of full rank."
        )
    return np.linalg.slogdet(matrices)[1]


class _Frozen:
    def __init__(
        self, family: _Multivariate, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> None:
        self.dist, self.args, self.kwds = family, args, kwds

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        found = getattr(self.dist, method)
        if method in self.dist.constants:
            return lambda: found(*self.args, **self.kwds)
        return lambda x: found(x, *self.args, **self.kwds)


class MultivariateNormal(_Multivariate):
    """The normal distribution of vectors, as `scipy.stats.multivariate_normal`.

    ``mean`` has shape (d,), 0 by default; ``cov`` has shape (d, d), or is a number or
    a vector for a multiple of the identity or a diagonal matrix; 1 by default. The
    points ``x`` have their entries along the last axis, and broadcast. ``cov`` must be
    positive definite; it is read as symmetric.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import multivariate_normal
    >>> x, mean, cov = np.array([1.0, 2.0]), np.zeros(2), np.array([[4.0, 0], [0, 1]])
    >>> wb.grad(multivariate_normal.logpdf)(x, mean, cov)
    array([-0.25, -2.  ])
    """

    name = "multivariate_normal"
    constants = ("entropy",)

    def _resolve_parameters(
        self, mean: Any, cov: Any, x: Any = None
    ) -> tuple[Any, Any, int]:
        cov = admit(1.0 if cov is None else cov)
        mean = None if mean is None else admit(mean)
        shapes = [shape_of(cov)] + ([] if mean is None else [shape_of(mean)])
        d = max((shape[-1] for shape in shapes if shape), default=1)
        if len(shape_of(cov)) < 2:
            given = [v for v in (x, mean, cov) if v is not None and not is_weak(v)]
            kind = np.result_type(*map(dtype_of, given), 1.0)
            like = {"like": given[0]} if given else {}
            cov = cov * np.identity(d, dtype=kind, **like)
        if shape_of(cov)[-2:] != (d, d):
            raise ShapeError(
                f"multivariate_normal{blame.user_line()}: mean has shape"
                f" {() if mean is None else shape_of(mean)} and cov"
                f" {shape_of(cov)}. Give a mean of shape (d,) and a cov of shape"
                " (d, d)."
            )
        return 0.0 if mean is None else mean, cov, d

    def logpdf(
        self,
        x: ArrayLike,
        mean: ArrayLike | None = None,
        cov: ArrayLike | None = None,
        allow_singular: bool = False,
    ) -> Array:
        """Return the logarithm of the density at points along the last axis of ``x``.

        With ``allow_singular`` it is that on the subspace of the covariance, whose rank
        counts as constant, and -inf off it.

        Raises
        ------
        MatrixError
            If ``cov`` is not positive definite; with ``allow_singular``, if it has an
            eigenvalue below 0.
        """
        x = admit(x)
        mean, factor, d = self._resolve_parameters(mean, cov, x)
        rank = len(shape_of(x))
        if d == 1 and (rank == 0 or shape_of(x)[-1] != 1):
            x = np.reshape(x, (*shape_of(x), 1))  # SciPy: points of one number each
        away = x - mean
        if allow_singular:
            return self._compute_on_subspace(away, factor)
        factor = np.linalg.cholesky(factor)
        if len(shape_of(factor)) == len(shape_of(away)) == 2:  # one matrix for all
            squares = np.sum(np.square(np.linalg.solve(factor, away.T)), axis=0)
        else:
            white = np.linalg.solve(factor, np.expand_dims(away, -1))
            squares = np.sum(np.square(white), axis=(-2, -1))
        diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
        y = -np.sum(np.log(diagonal), axis=-1) - 0.5 * squares
        return y - 0.5 * d * math.log(2 * math.pi)

    def _compute_on_subspace(self, away: Array, cov: Any) -> Array:
        """Return the log density of what has a rank, by SciPy's rule of which."""
        if dtype_of(cov).kind != "f":
            cov = np.astype(cov, float)
        scales = np.linalg.eigvalsh(stop_gradient(cov))
        largest = np.max(np.abs(scales), axis=-1)
        kind = dtype_of(cov)
        rounding = (1e3 if kind == np.float32 else 1e6) * float(np.finfo(kind).eps)
        least = value_of(np.min(scales + rounding * np.expand_dims(largest, -1)))
        if least is not None and least < 0:
            raise MatrixError(
                f"multivariate_normal{blame.user_line()}: cov has an eigenvalue below"
                " 0. A covariance has none: X @ X.T is one for any X."
            )
        inverse = np.linalg.pinv(cov, rcond=rounding, hermitian=True)
        share = cov @ inverse  # the projector on the subspace
        rest = -share + np.identity(shape_of(cov)[-1], dtype=kind, like=cov)
        rank = stop_gradient(np.rint(np.trace(share, axis1=-2, axis2=-1)))
        column = np.expand_dims(away, -1)
        squares = np.sum(column * (inverse @ column), axis=(-2, -1))
        log_volume = np.linalg.slogdet(cov + rest)[1]
        y = -0.5 * (rank * math.log(2 * math.pi) + log_volume + squares)
        off = stop_gradient(np.sum(np.square(rest @ column), axis=(-2, -1)))
        return unwrap_scalar(np.where(np.sqrt(off) < rounding * largest, y, -INF))

    def pdf(
        self,
        x: ArrayLike,
        mean: ArrayLike | None = None,
        cov: ArrayLike | None = None,
        allow_singular: bool = False,
    ) -> Array:
        """Return the density at points along the last axis of ``x``."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(
        self, mean: ArrayLike | None = None, cov: ArrayLike | None = None
    ) -> Array:
        """Return the differential entropy, in nats."""
        _, matrix, d = self._resolve_parameters(mean, cov)
        return 0.5 * (d * (1 + math.log(2 * math.pi)) + np.linalg.slogdet(matrix)[1])


class Dirichlet(_Multivariate):
    """The Dirichlet distribution, as `scipy.stats.dirichlet`.

    ``alpha`` has shape (K,). A point ``x`` has shape (K,), or (K, n) for n points;
    its entries, along the first axis, are to add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.scipy.stats import dirichlet
    >>> round(float(dirichlet.pdf(np.array([0.2, 0.3, 0.5]), np.ones(3))), 12)
    2.0
    """

    name = "dirichlet"
    constants = ("mean", "var", "entropy")

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Return the logarithm of the density; -inf off the simplex."""
        x, alpha = admit(x), admit(alpha)
        columns = np.reshape(alpha, (*shape_of(alpha), *(1,) * (len(shape_of(x)) - 1)))
        near = max(1e-9, 8 * float(np.finfo(np.result_type(dtype_of(x), 0.0)).eps))
        inside = np.all(x >= 0, axis=0) & (np.abs(np.sum(x, axis=0) - 1) < near)
        safe = np.where(inside, x, 1 / shape_of(x)[0])
        y = np.sum(F.xlogy(columns - 1, safe), axis=0) - self._log_beta(alpha)
        return unwrap_scalar(np.where(inside, y, -INF))

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Return the density; 0 off the simplex."""
        return np.exp(self.logpdf(x, alpha))

    def _log_beta(self, alpha: Array) -> Array:
        return np.sum(F.gammaln(alpha)) - F.gammaln(np.sum(alpha))

    def mean(self, alpha: ArrayLike) -> Array:
        """Return the mean, of shape (K,)."""
        alpha = admit(alpha)
        return alpha / np.sum(alpha)

    def var(self, alpha: ArrayLike) -> Array:
        """Return the variance of each entry, of shape (K,)."""
        alpha = admit(alpha)
        total = np.sum(alpha)
        return alpha * (total - alpha) / (total * total * (total + 1))

    def entropy(self, alpha: ArrayLike) -> Array:
        """Return the differential entropy, in nats."""
        alpha = admit(alpha)
        total = np.sum(alpha)
        return (
            self._log_beta(alpha)
            + (total - shape_of(alpha)[-1]) * F.psi(total)
            - np.sum((alpha - 1) * F.psi(alpha))
        )


class Multinomial(_Multivariate):
    """The multinomial distribution, as `scipy.stats.multinomial`.

    ``n`` is the number of trials, ``p`` of shape (..., K) holds the probabilities of
    the classes, counts ``x`` have them along the last axis. ``p`` is to add up to 1;
    SciPy would change its last entry where it does not, here it is taken as given.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.scipy.stats import multinomial
    >>> round(float(multinomial.pmf(np.array([1, 1]), 2, np.array([0.5, 0.5]))), 12)
    0.5
    """

    name = "multinomial"
    constants = ("mean",)

    def logpmf(self, x: ArrayLike, n: Any, p: ArrayLike) -> Array:
        """Return the log probability; -inf unless the counts add up to n."""
        x, n, p = np.floor(admit(x)), admit(n), admit(p)
        inside = np.all(x >= 0, axis=-1) & np.equal(np.sum(x, axis=-1), n)
        safe = np.where(np.expand_dims(inside, -1), x, 0)
        terms = F.xlogy(safe, p) - F.gammaln(safe + 1)
        ways = math.lgamma(n + 1) if is_weak(n) else F.gammaln(n + 1.0)
        y = ways + np.sum(terms, axis=-1)
        y = np.where(inside, y, -INF)
        valid = np.all((p >= 0) & (p <= 1), axis=-1)
        return unwrap_scalar(np.where(valid, y, np.nan))

    def pmf(self, x: ArrayLike, n: Any, p: ArrayLike) -> Array:
        """Return the probability; 0 unless the counts add up to n."""
        return np.exp(self.logpmf(x, n, p))

    def mean(self, n: Any, p: ArrayLike) -> Array:
        """Return the expected counts."""
        return n * admit(p)


class Wishart(_Multivariate):
    """The Wishart distribution, as `scipy.stats.wishart`.

    ``df`` are the degrees of freedom, at least the dimension p, and ``scale`` is a
    positive definite matrix, shape (p, p), read as symmetric. A point ``x`` is such a
    matrix; for n of them its shape is (p, p, n).

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import wishart
    >>> by_df = wb.grad(lambda n: wishart.logpdf(np.eye(2), n, np.eye(2)))
    >>> round(float(by_df(4.0)), 6)
    -0.922784
    """

    name = "wishart"
    constants = ("mean",)

    def logpdf(self, x: Any, df: Any, scale: Any) -> Array:
        """Return the logarithm of the density at matrices.

        Raises
        ------
        MatrixError
            If ``scale``, or a point, is not positive definite.
        """
        x, df, scale = admit(x), admit(df), admit(scale)
        p = shape_of(scale)[-1] if shape_of(scale) else 1
        if len(shape_of(x)) < 2:  # numbers
            x = np.reshape(x, (1, 1, *shape_of(x)))
        if shape_of(x)[:2] != (p, p):
            raise ShapeError(
                f"wishart{blame.user_line()}: x has shape {shape_of(x)} and scale"
                f" {shape_of(scale)}. Give points of shape ({p}, {p}), or ({p}, {p}, n)"
                " for n of them."
            )
        scale = np.reshape(scale, (p, p))
        points: Any = np.moveaxis(x, (0, 1), (-2, -1))
        ratio = np.linalg.solve(scale, points)
        y = 0.5 * (df - p - 1) * _log_volume(points, "x")
        y = y - 0.5 * np.trace(ratio, axis1=-2, axis2=-1)
        y = y - 0.5 * df * (p * math.log(2) + _log_volume(scale, "scale"))
        return unwrap_scalar(y - multigammaln(0.5 * df, p))

    def pdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the density at matrices."""
        return np.exp(self.logpdf(x, df, scale))

    def mean(self, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the mean."""
        return df * admit(scale)


multivariate_normal = MultivariateNormal()
wishart = Wishart()
dirichlet = Dirichlet()
multinomial = Multinomial()
