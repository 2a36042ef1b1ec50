"""Laws with draws written as functions of their parameters and of plain noise.

Their gradients are explicit: those of that function, at fixed noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from workbench.core import blame, source
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import ShapeError
from workbench.ops import random
from workbench.ops.define import shape_of
from workbench.ops.linalg.factors import covariance_factor
from workbench.random.drawing import (
    SIZE_TEXT,
    Drawing,
    Size,
    broadcast_size,
    check_range,
    describe_method,
    has_tensor,
    match_library,
    require_constant,
)


class ExplicitLaws(Drawing):
    """`normal`, `uniform`, `triangular`, ...; tables below add `laplace`, ..."""

    def _draw_scaled(
        self, name: str, base: str, loc: ArrayLike, scale: ArrayLike, size: Size
    ) -> tuple[Array, Array]:
        """Return the location, and the scale times noise of the law ``base``."""
        loc, scale = admit(loc), admit(scale)
        check_range(f"rng.{name}", lambda v: v >= 0, scale=scale)
        size = broadcast_size(f"rng.{name}", size, loc, scale)
        settings = {} if base.startswith("standard") else {"loc": 0.0, "scale": 1.0}
        z = self._draw(base, size, **settings)
        return loc, scale * match_library(z, loc, scale)

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a normal distribution.

        Parameters
        ----------
        loc, scale
            Mean and standard deviation; both may be Tensors, which broadcast.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``loc + scale * z`` of a standard normal ``z``, and its gradients
        are those at fixed ``z``.
        """
        if not has_tensor(loc, scale):
            return self._draw("normal", size, loc=loc, scale=scale)
        with source.pin_line():
            mean, noise = self._draw_scaled(
                "normal", "standard_normal", loc, scale, size
            )
            return mean + noise

    def lognormal(
        self, mean: ArrayLike = 0.0, sigma: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a log-normal distribution.

        Parameters
        ----------
        mean, sigma
            Mean and standard deviation of the logarithm; both may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``exp(mean + sigma * z)`` of a standard normal ``z``.
        """
        if not has_tensor(mean, sigma):
            return self._draw("lognormal", size, mean=mean, sigma=sigma)
        with source.pin_line():
            center, noise = self._draw_scaled(
                "lognormal", "standard_normal", mean, sigma, size
            )
            return np.exp(center + noise)

    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: Size = None
    ) -> Any:
        """Draw from a uniform distribution on an interval.

        Parameters
        ----------
        low, high
            The ends of the interval; both may be Tensors. ``high`` is left out.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is ``low + (high - low) * u`` with ``u`` uniform in [0, 1).
        """
        if not has_tensor(low, high):
            return self._draw("uniform", size, low=low, high=high)
        with source.pin_line():
            low, high = admit(low), admit(high)
            size = broadcast_size("rng.uniform", size, low, high)
            u = match_library(self._draw("random", size), low, high)
            return low + (high - low) * u

    def triangular(
        self, left: ArrayLike, mode: ArrayLike, right: ArrayLike, size: Size = None
    ) -> Any:
        """Draw from a triangular distribution.

        Parameters
        ----------
        left, mode, right
            The lowest, the most likely and the highest value; all may be Tensors.
        size
            The shape of the result; by default that of the parameters.

        Notes
        -----
        The draw is the quantile of a uniform draw, so it has a gradient by all three.
        """
        if not has_tensor(left, mode, right):
            return self._draw("triangular", size, left=left, mode=mode, right=right)
        with source.pin_line():
            left, mode, right = admit(left), admit(mode), admit(right)
            call = "rng.triangular"
            check_range(call, lambda v: v >= 0, width=value_of(mode - left))
            check_range(call, lambda v: v >= 0, width=value_of(right - mode))
            size = broadcast_size(call, size, left, mode, right)
            u = match_library(self._draw("random", size), left, mode, right)
            base = right - left
            below_mode = u <= (mode - left) / base
            rising = np.sqrt(np.where(below_mode, u * (mode - left) * base, 1))
            falling = np.sqrt(np.where(below_mode, 1, (1 - u) * (right - mode) * base))
            return np.where(below_mode, left + rising, right - falling)

    def vonmises(self, mu: ArrayLike, kappa: ArrayLike, size: Size = None) -> Any:
        """Draw an angle from a von Mises distribution.

        Parameters
        ----------
        mu
            The most likely angle, in radians; it may be a Tensor.
        kappa
            The concentration, through which no gradient goes.
        size
            The shape of the result; by default that of the parameters.

        Raises
        ------
        NotDifferentiableError
            If ``kappa`` is a Tensor that is differentiated by.
        """
        kappa = require_constant(kappa, "rng.vonmises(kappa=x)")
        if not has_tensor(mu, kappa):
            return self._draw("vonmises", size, mu=mu, kappa=kappa)
        with source.pin_line():
            mu = admit(mu)
            size = broadcast_size("rng.vonmises", size, mu, kappa)
            angle = mu + self._draw("vonmises", size, mu=0.0, kappa=kappa)
            return angle - 2 * np.pi * np.round(angle / (2 * np.pi))

    def multivariate_normal(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        size: Size = None,
        check_valid: Literal["warn", "raise", "ignore"] = "warn",
        tol: float = 1e-8,
        *,
        method: str = "svd",
    ) -> Any:
        """Draw vectors from a multivariate normal distribution.

        Parameters
        ----------
        mean
            The mean, shape (n,); it may be a Tensor.
        cov
            The covariance, shape (n, n), positive semidefinite; it may be a Tensor.
        size
            How many vectors, in which shape; they have the last axis of the result.
        check_valid, tol
            How NumPy checks a plain covariance.
        method
            The factor of the covariance: ``"svd"``, ``"eigh"`` or ``"cholesky"``.

        Raises
        ------
        ShapeError
            If the shapes of ``mean`` and ``cov`` do not fit together.
        MatrixError
            If a derivative by ``cov`` is asked for where it is singular.

        Notes
        -----
        A draw is ``mean + z @ F`` with ``F.T @ F = cov``, and its gradients are those
        at fixed ``z``. Where ``cov`` has equal eigenvalues, the draws of ``"svd"`` and
        ``"eigh"`` jump with the choice of eigenvectors; F moves there as the symmetric
        root of ``cov`` does, so that the derivatives of all expectations are right,
        to any order. Near to such a point eigenvectors turn fast, and estimates with
        few draws are noisy: ``method="cholesky"`` is smooth.
        """
        if not has_tensor(mean, cov):
            options = {"check_valid": check_valid, "tol": tol, "method": method}
            return self._draw(
                "multivariate_normal", size, mean=mean, cov=cov, **options
            )
        with source.pin_line():
            mean, cov = admit(mean), admit(cov)
            length = shape_of(mean)[-1:]
            if len(shape_of(mean)) != 1 or shape_of(cov) != length * 2:
                raise ShapeError(
                    f"rng.multivariate_normal{blame.user_line()}: mean of shape"
                    f" {shape_of(mean)} and cov of shape {shape_of(cov)}. Give (n,) and"
                    " (n, n)."
                )
            loop = broadcast_size("rng.multivariate_normal", size) or ()
            z = match_library(
                self._draw("standard_normal", (*loop, *length)), mean, cov
            )
            factor: Array
            if method == "cholesky":
                factor = np.linalg.cholesky(cov).T
            elif method == "eigh" or method == "svd":
                factor = covariance_factor(cov, method)
            else:
                raise ValueError("method must be 'svd', 'eigh' or 'cholesky'")
            return mean + z @ factor


def _make_law(
    name: str,
    base: str,
    law: Callable[..., Any],
    defaults: dict[str, float | None],
    summary: str,
    texts: dict[str, str],
) -> Callable[..., Any]:
    """Make a method that draws ``law(parameters, noise)``.

    The noise is NumPy's draw from ``base`` without parameters.
    """
    names = list(defaults)
    nonnegative = ("scale", "a")

    def method(self: Drawing, *args: Any, size: Size = None, **named: Any) -> Any:
        settings = defaults | dict(zip(names, args, strict=False)) | named
        if len(args) > len(names):
            size = args[len(names)]
        missing = [key for key in names if settings[key] is None]
        if missing or set(settings) - set(names) or len(args) > len(names) + 1:
            raise TypeError(f"{name}() takes {', '.join(names)} and size")
        if not has_tensor(*settings.values()):
            return self._draw(name, size, **settings)
        with source.pin_line():
            parameters = {key: admit(x) for key, x in settings.items()}
            bounded = {k: x for k, x in parameters.items() if k in nonnegative}
            check_range(f"rng.{name}", lambda v: v >= 0, **bounded)
            size = broadcast_size(f"rng.{name}", size, *parameters.values())
            standard = {"loc": 0.0, "scale": 1.0} if base == name else {}
            z = self._draw(base, size, **standard)
            return law(*parameters.values(), match_library(z, *parameters.values()))

    return describe_method(method, name, summary, {**texts, "size": SIZE_TEXT})


def _shift_and_scale(loc: Array, scale: Array, z: Array) -> Array:
    return loc + scale * z


_E = "standard_exponential"
_LOCATION = {
    "loc": "The middle, a number or a Tensor.",
    "scale": "The width, a number or a Tensor; not negative.",
}
_SCALE = {"scale": "The scale, a number or a Tensor; not negative."}
_SHAPE = {"a": "The shape parameter, a number or a Tensor; not negative."}
for _law in (
    _make_law(
        "laplace",
        "laplace",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a Laplace distribution.",
        _LOCATION,
    ),
    _make_law(
        "logistic",
        "logistic",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a logistic distribution.",
        _LOCATION,
    ),
    _make_law(
        "gumbel",
        "gumbel",
        _shift_and_scale,
        {"loc": 0.0, "scale": 1.0},
        "Draw from a Gumbel distribution, of the largest of many values.",
        _LOCATION,
    ),
    _make_law(
        "exponential",
        _E,
        lambda s, z: s * z,
        {"scale": 1.0},
        "Draw from an exponential distribution: ``scale * z`` of standard noise.",
        _SCALE,
    ),
    _make_law(
        "rayleigh",
        _E,
        lambda s, z: s * np.sqrt(2.0 * z),
        {"scale": 1.0},
        "Draw from a Rayleigh distribution: ``scale * sqrt(2 z)``, z exponential.",
        _SCALE,
    ),
    _make_law(
        "weibull",
        _E,
        lambda a, z: z ** (1.0 / a),
        {"a": None},
        "Draw from a Weibull distribution: ``z**(1 / a)``, z exponential.",
        _SHAPE,
    ),
    _make_law(
        "pareto",
        _E,
        lambda a, z: np.expm1(z / a),
        {"a": None},
        "Draw from a Lomax distribution (Pareto II): ``expm1(z / a)``, z exponential.",
        _SHAPE,
    ),
    _make_law(
        "power",
        _E,
        lambda a, z: (-np.expm1(-z)) ** (1.0 / a),
        {"a": None},
        "Draw from a power distribution on [0, 1], with density ``a x**(a - 1)``.",
        _SHAPE,
    ),
):
    setattr(ExplicitLaws, _law.__name__, _law)


def _make_plain(name: str, summary: str) -> Callable[..., Any]:
    """Make a method that draws from a law without parameters."""
    numpy_method = getattr(np.random.Generator, name)

    def method(self: Drawing, size: Size = None, *args: Any, **named: Any) -> Any:
        if args or named.get("out") is not None or not random.is_recording_draws():
            return numpy_method(self, size, *args, **named)
        return self._draw(name, size, **named)

    size = "The shape of the result; by default one number."
    return describe_method(method, name, summary, {"size": size})


for _law in (
    _make_plain("random", "Draw floats uniformly from [0, 1)."),
    _make_plain("standard_normal", "Draw from the standard normal distribution."),
    _make_plain("standard_exponential", "Draw from the exponential law of mean 1."),
    _make_plain("standard_cauchy", "Draw from the standard Cauchy distribution."),
):
    setattr(ExplicitLaws, _law.__name__, _law)
