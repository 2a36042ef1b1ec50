"""Laws whose draws are functions of their parameters and of plain noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame, source
from workbench.core.tensor import admit, value_of
from workbench.errors import ShapeError
from workbench.ops.define import shape_of
from workbench.random.checking import (
    Drawing,
    checked,
    constant,
    extent,
    fitted,
    traced,
)

__all__ = ["Laws"]


class Laws(Drawing):
    """`normal`, `lognormal`, `uniform`, `triangular`, `vonmises`, ..."""

    def _located(
        self, name: str, base: str, loc: Any, scale: Any, size: Any
    ) -> tuple[Any, Any]:
        loc, scale = admit(loc), admit(scale)
        checked(f"rng.{name}", lambda v: v >= 0, scale=scale)
        size = extent(f"rng.{name}", size, loc, scale)
        settings = {} if base.startswith("standard") else {"loc": 0.0, "scale": 1.0}
        z = self._plain(base, size, **settings)
        return loc, scale * fitted(z, loc, scale)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``loc + scale * z`` of a standard normal ``z``."""
        if not traced(loc, scale):
            return self._plain("normal", size, loc=loc, scale=scale)
        with source.pinned():
            loc, spread = self._located("normal", "standard_normal", loc, scale, size)
            return loc + spread

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``exp(mean + sigma * z)``."""
        if not traced(mean, sigma):
            return self._plain("lognormal", size, mean=mean, sigma=sigma)
        with source.pinned():
            mean, spread = self._located(
                "lognormal", "standard_normal", mean, sigma, size
            )
            return np.exp(mean + spread)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """As NumPy's: ``low + (high - low) * u``."""
        if not traced(low, high):
            return self._plain("uniform", size, low=low, high=high)
        with source.pinned():
            low, high = admit(low), admit(high)
            size = extent("rng.uniform", size, low, high)
            u = fitted(self._plain("random", size), low, high)
            return low + (high - low) * u

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """As NumPy's: the quantile of a uniform draw, which moves with all three."""
        if not traced(left, mode, right):
            return self._plain("triangular", size, left=left, mode=mode, right=right)
        with source.pinned():
            left, mode, right = map(admit, (left, mode, right))
            checked("rng.triangular", lambda v: v >= 0, width=value_of(mode - left))
            checked("rng.triangular", lambda v: v >= 0, width=value_of(right - mode))
            size = extent("rng.triangular", size, left, mode, right)
            u = fitted(self._plain("random", size), left, mode, right)
            base = right - left
            first = u <= (mode - left) / base
            rising = np.sqrt(np.where(first, u * (mode - left) * base, 1))
            falling = np.sqrt(np.where(first, 1, (1 - u) * (right - mode) * base))
            return np.where(first, left + rising, right - falling)

    def vonmises(self, mu: Any, kappa: Any, size: Any = None) -> Any:
        """As NumPy's; the gradient by ``mu`` alone."""
        kappa = constant(kappa, "rng.vonmises(kappa=x)")
        if not traced(mu, kappa):
            return self._plain("vonmises", size, mu=mu, kappa=kappa)
        with source.pinned():
            mu = admit(mu)
            size = extent("rng.vonmises", size, mu, kappa)
            turned = mu + self._plain("vonmises", size, mu=0.0, kappa=kappa)
            return turned - 2 * np.pi * np.round(turned / (2 * np.pi))

    def multivariate_normal(
        self,
        mean: Any,
        cov: Any,
        size: Any = None,
        check_valid: Any = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        """As NumPy's. Where ``cov`` has equal eigenvalues, its factor by ``"svd"`` or
        ``"eigh"`` has no derivative: write ``method="cholesky"``.
        """
        if not traced(mean, cov):
            more = {"check_valid": check_valid, "tol": tol, "method": method}
            return self._plain("multivariate_normal", size, mean=mean, cov=cov, **more)
        with source.pinned():
            mean, cov = admit(mean), admit(cov)
            length = shape_of(mean)[-1:]
            if len(shape_of(mean)) != 1 or shape_of(cov) != length * 2:
                raise ShapeError(
                    f"rng.multivariate_normal{blame.here()}: mean of shape"
                    f" {shape_of(mean)} and cov of shape {shape_of(cov)}. Give (n,) and"
                    " (n, n)."
                )
            lead = () if size is None else extent("rng.multivariate_normal", size)
            z = fitted(self._plain("standard_normal", (*lead, *length)), mean, cov)
            if method == "cholesky":
                factor = np.linalg.cholesky(cov).T
            elif method == "eigh":
                values, vectors = np.linalg.eigh(cov)
                factor = (vectors * np.sqrt(values)).T
            elif method == "svd":
                _, values, vectors = np.linalg.svd(cov)
                factor = np.sqrt(values)[:, None] * vectors
            else:
                raise ValueError("method must be 'svd', 'eigh' or 'cholesky'")
            return mean + z @ factor
