"""Continuous and discrete families: SciPy's methods, from the standard form.

Outside the support a density is 0, and so are its derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.tensor import Tensor, admit
from workbench.ops.define import dtype_of
from workbench.scipy.stats.family import (
    INF,
    Family,
    Function,
    alike,
    holds,
    log_of,
    numeral,
    scalar,
)

__all__ = ["Continuous", "Discrete"]


def _log(scale: Any, beside: Any) -> Any:
    """The logarithm; of a Python number in the dtype of what it is added to."""
    y = np.log(scale)
    return y.astype(dtype_of(beside)) if numeral(scale) else y


def _varies(x: Any, density: bool) -> bool:
    """Whether x is a Tensor of a density, which is not looked through for infinities.

    That is the inner loop of most fits, and it would take as long again.
    """
    return density and isinstance(x, Tensor)


class Continuous(Family):
    """A continuous family: `scipy.stats.norm` and others under their names.

    Methods take ``(x, *shapes, loc=0, scale=1)`` as SciPy's do, arrays or Tensors that
    broadcast, and keep float32. Parameters that are not allowed give NaN.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import norm
    >>> float(wb.grad(lambda mean: norm.logpdf(1.5, mean, 0.5))(1.0))
    2.0
    >>> norm(1.0, 0.5).sf(np.array([1.0, np.inf]))
    array([0.5, 0. ])
    """

    settings = ("loc", "scale")
    methods = (
        "pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "median",
        "mean", "var", "std", "entropy", "support",
    )  # fmt: skip

    def _standard(
        self, x: Any, density: bool, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The standardised x, moved inside the support where it was not; the rest."""
        x = admit(x)
        valid, parameters = self.checked(self.parameters(args, kwds), x)
        *shapes, loc, scale = parameters
        z = (x - loc) / scale
        shapes = alike(shapes, z)
        low, high = self.ends(shapes)
        inner = self._functions.get("inner")
        whole = not callable(self._support) and (low, high) == (-INF, INF)
        if inner is None and whole and (holds(np.isfinite(x)) or _varies(x, density)):
            return z, None, None, valid, shapes, scale
        below = np.less_equal(z, low) if self.has("open") else np.less(z, low)
        below = below | np.equal(z, -INF)
        above = np.greater(z, high) | np.equal(z, INF)
        if inner is not None:
            point = inner(*shapes)
        elif whole:
            point = 0.0
        else:
            point = 0.5 * (low + high) if high < INF else low + 1.0
        return np.where(below | above, point, z), below, above, valid, shapes, scale

    def _at(
        self,
        compute: Function,
        limits: tuple[float, float],
        x: Any,
        args: tuple[Any, ...],
        kwds: dict[str, Any],
    ) -> Any:
        """A function of x: its limits outside the support, NaN for bad parameters."""
        z, below, above, valid, shapes, scale = self._standard(
            x, limits[0] == limits[1], args, kwds
        )
        y = compute(z, scale, *shapes)
        if below is not None:
            y = np.where(below, limits[0], np.where(above, limits[1], y))
        return self._finish(valid, y)

    def logpdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of the density; -inf outside the support."""
        f = self.function("logpdf")
        return self._at(
            lambda z, scale, *s: f(z, *s) - _log(scale, z), (-INF, -INF), x, args, kwds
        )

    def pdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The density; 0 outside the support."""
        f = self.function("logpdf")
        return self._at(
            lambda z, scale, *s: np.exp(f(z, *s)) / scale, (0.0, 0.0), x, args, kwds
        )

    def _cumulative(self, method: str) -> Function:
        """cdf or sf: as written, or as the exponential of its logarithm."""
        if not self.has(method) and self.has(f"log{method}"):
            g = self.function(f"log{method}")
            return lambda z, scale, *s: np.exp(g(z, *s))
        f = self.function(method)
        return lambda z, scale, *s: f(z, *s)

    def _log_cumulative(self, method: str, other: str) -> Function:
        """logcdf or logsf: as written, or the logarithm of whichever is small."""
        if self.has(f"log{method}"):
            f = self.function(f"log{method}")
            return lambda z, scale, *s: f(z, *s)
        f, g = self._cumulative(method), self._cumulative(other)

        def compute(z: Any, scale: Any, *s: Any) -> Any:
            y, rest = f(z, scale, *s), g(z, scale, *s)
            large = np.less(rest, 0.5)
            return np.where(large, np.log1p(-np.where(large, rest, 0)), log_of(y))

        return compute

    def cdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The distribution function, the probability of a value up to x."""
        return self._at(self._cumulative("cdf"), (0.0, 1.0), x, args, kwds)

    def sf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The survival function, 1 - cdf with the digits of its small values."""
        return self._at(self._cumulative("sf"), (1.0, 0.0), x, args, kwds)

    def logcdf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of `cdf`, finite where that underflows if a form is known."""
        return self._at(self._log_cumulative("cdf", "sf"), (-INF, 0.0), x, args, kwds)

    def logsf(self, x: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of `sf`, finite where that underflows if a form is known."""
        return self._at(self._log_cumulative("sf", "cdf"), (0.0, -INF), x, args, kwds)

    def _inverse(
        self, method: str, q: Any, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> Any:
        q = admit(q)
        valid, parameters = self.checked(self.parameters(args, kwds), q)
        *shapes, loc, scale = parameters
        f = self.function(method)
        shapes = alike(shapes, q, loc, scale)
        inside = np.greater(q, 0) & np.less(q, 1)
        y = f(np.where(inside, q, 0.5), *shapes)
        low, high = self.ends(shapes)
        first, last = (low, high) if method == "ppf" else (high, low)
        y = np.where(inside, y, np.nan)
        y = np.where(np.equal(q, 0), first, np.where(np.equal(q, 1), last, y))
        return self._finish(valid, y * scale + loc)

    def ppf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """The quantile function, the inverse of `cdf`; NaN unless 0 <= q <= 1."""
        return self._inverse("ppf", q, args, kwds)

    def isf(self, q: Any, *args: Any, **kwds: Any) -> Any:
        """The inverse of `sf`; NaN unless 0 <= q <= 1."""
        return self._inverse("isf", q, args, kwds)

    def median(self, *args: Any, **kwds: Any) -> Any:
        """The median."""
        return self.ppf(0.5, *args, **kwds)

    def entropy(self, *args: Any, **kwds: Any) -> Any:
        """The differential entropy, in nats."""
        valid, parameters, y = self.moment("entropy", args, kwds)
        return self._finish(valid, y + _log(parameters[-1], y), *parameters)

    def support(self, *args: Any, **kwds: Any) -> tuple[Any, Any]:
        """The ends of the support."""
        valid, parameters = self.checked(self.parameters(args, kwds))
        *shapes, loc, scale = parameters
        low, high = self.ends(shapes)
        return (
            self._finish(valid, loc + scale * low),
            self._finish(valid, loc + scale * high),
        )


class Discrete(Family):
    """A discrete family: `scipy.stats.poisson` and others under their names.

    Methods take ``(k, *shapes, loc=0)`` as SciPy's do. Derivatives are by the
    parameters; by ``k``, which is whole, there are none.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import poisson
    >>> float(wb.grad(lambda mu: poisson.logpmf(3, mu))(1.5))
    1.0
    """

    settings = ("loc",)
    methods = (
        "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "mean", "var", "std",
        "entropy", "support",
    )  # fmt: skip

    def _at(
        self,
        compute: Function,
        limits: tuple[float, float],
        whole: bool,
        k: Any,
        args: tuple[Any, ...],
        kwds: dict[str, Any],
    ) -> Any:
        k = admit(k)
        valid, parameters = self.checked(self.parameters(args, kwds), k)
        *shapes, loc = parameters
        k = k - loc
        shapes = alike(shapes, k)
        n = np.floor(k)  # which does not vary
        low, high = self.ends(shapes)
        below = np.less(n, low)
        above = np.greater(n, high) if whole else np.greater_equal(n, high)
        outside = below | above
        if whole:
            outside = outside | np.not_equal(n, k)
        y = compute(np.where(outside, low, n), *shapes)
        if whole:
            y = np.where(outside, limits[0], y)
        else:
            y = np.where(below, limits[0], np.where(above, limits[1], y))
        y = np.where(np.isnan(k), np.nan, y)
        return self._finish(valid, y)

    def logpmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of the probability of k; -inf unless k is whole and inside."""
        f = self.function("logpmf")
        return self._at(f, (-INF, -INF), True, k, args, kwds)

    def pmf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The probability of k; 0 unless k is whole and inside the support."""
        f = self.function("logpmf")
        return self._at(lambda *a: np.exp(f(*a)), (0.0, 0.0), True, k, args, kwds)

    def cdf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The probability of a value up to k."""
        return self._at(self.function("cdf"), (0.0, 1.0), False, k, args, kwds)

    def sf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The probability of a value above k."""
        return self._at(self.function("sf"), (1.0, 0.0), False, k, args, kwds)

    def logcdf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of `cdf`."""
        return scalar(log_of(self.cdf(k, *args, **kwds)))

    def logsf(self, k: Any, *args: Any, **kwds: Any) -> Any:
        """The logarithm of `sf`."""
        return scalar(log_of(self.sf(k, *args, **kwds)))

    def entropy(self, *args: Any, **kwds: Any) -> Any:
        """The entropy, in nats."""
        valid, parameters, y = self.moment("entropy", args, kwds)
        return self._finish(valid, y, *parameters)

    def support(self, *args: Any, **kwds: Any) -> tuple[Any, Any]:
        """The first and the last whole number with a probability."""
        valid, parameters = self.checked(self.parameters(args, kwds))
        low, high = self.ends(parameters[:-1])
        loc = parameters[-1]
        return self._finish(valid, loc + low), self._finish(valid, loc + high)
