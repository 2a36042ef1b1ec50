"""The error function, its relatives, and the normal distribution (DLMF chapter 7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.ops.special.define import F, helper, many, series, special

__all__: list[str] = []

_TWO_BY_ROOT_PI = "1.1283791670955126"
_HALF_ROOT_PI = "0.8862269254527580"

# DLMF 7.10.1; the inverses by the rule for inverse functions


@helper
def bell(x: Any, rate: float) -> Any:
    """``exp(-rate * x**2)``, flat where x is infinite: there 0 times x is no number."""
    x = np.where(np.isinf(x), 1e3, x)
    return np.exp(-rate * x * x)


special("erf", f"{_TWO_BY_ROOT_PI} * bell(x, 1.0)", pretty_rule="g · 2 / √π · exp(−x²)")
special("erfc", f"-{_TWO_BY_ROOT_PI} * bell(x, 1.0)",
    pretty_rule="−g · 2 / √π · exp(−x²)")  # fmt: skip
special("erfi", f"{_TWO_BY_ROOT_PI} * exp(x * x)")
special("erfinv", f"{_HALF_ROOT_PI} * exp(y * y)")
special("erfcinv", f"-{_HALF_ROOT_PI} * exp(y * y)")


# What decays slowly: 2 x y - 2 / sqrt(pi) cancels far out, there the asymptotic
# series DLMF 7.12.1 is differentiated


@helper
def erfcx_slope(x: Any, y: Any) -> Any:
    """The derivative of erfcx: 2 x y - 2 / sqrt(pi), without its cancellation."""
    far = np.real(x) > 50
    z = np.where(far, x, 100)
    u = 1 / (2 * z * z)
    tail = -series(u, 1.0, -3.0, 15.0, -105.0, 945.0) / (math.sqrt(math.pi) * z * z)
    return np.where(far, tail, 2 * x * y - 2 / math.sqrt(math.pi))


@helper
def dawsn_slope(x: Any, y: Any) -> Any:
    """The derivative of dawsn: 1 - 2 x y, without its cancellation."""
    far = np.abs(np.real(x)) > 50
    z = np.where(far, x, 100)
    u = 1 / (2 * z * z)
    return np.where(far, -u * series(u, 1.0, 3.0, 15.0, 105.0, 945.0), 1 - 2 * x * y)


special("erfcx", "erfcx_slope(x, y)", pretty_rule="g · (2 · x · y − 2 / √π)")
special("dawsn", "dawsn_slope(x, y)", pretty_rule="g · (1 − 2 · x · y)")
special("wofz", f"{_TWO_BY_ROOT_PI}j - 2 * x * y")  # DLMF 7.10.2


def _voigt(x: Any, sigma: Any, gamma: Any) -> tuple[Any, Any, Any]:
    """w(z) = wofz(z), w'(z), and z, of which the profile is made: DLMF 7.19.1."""
    z = (x + 1j * gamma) / (math.sqrt(2) * sigma)
    w = F.wofz(z)
    return w, 2j / math.sqrt(math.pi) - 2 * z * w, z


@helper
def voigt_by_x(x: Any, sigma: Any, gamma: Any) -> Any:
    """The derivative of voigt_profile by x."""
    slope = _voigt(x, sigma, gamma)[1]
    return np.real(slope) / (2 * math.sqrt(math.pi) * sigma * sigma)


@helper
def voigt_by_sigma(x: Any, sigma: Any, gamma: Any) -> Any:
    """The derivative of voigt_profile by sigma."""
    w, slope, z = _voigt(x, sigma, gamma)
    return -np.real(w + slope * z) / (math.sqrt(2 * math.pi) * sigma * sigma)


@helper
def voigt_by_gamma(x: Any, sigma: Any, gamma: Any) -> Any:
    """The derivative of voigt_profile by gamma."""
    slope = _voigt(x, sigma, gamma)[1]
    return -np.imag(slope) / (2 * math.sqrt(math.pi) * sigma * sigma)


special(
    "voigt_profile",
    "voigt_by_x(x0, x1, x2)",
    "voigt_by_sigma(x0, x1, x2)",
    "voigt_by_gamma(x0, x1, x2)",
)

# The normal distribution

_ROOT_TWO_PI = "2.5066282746310002"


@helper
def log_ndtr_slope(x: Any) -> Any:
    """Density by distribution; by erfcx to the left, where both vanish."""
    right = np.real(x) > 0
    high, low = np.where(right, x, 0), np.where(right, 0, x)
    tail = F.erfcx(-0.7071067811865476 * low)
    end = tail == 0  # at -inf
    to_left = np.where(end, np.inf, 0.7978845608028654 / np.where(end, 1, tail))
    return np.where(right, 0.3989422804014327 * bell(high, 0.5) / F.ndtr(high), to_left)


special("ndtr", "0.3989422804014327 * bell(x, 0.5)",
    pretty_rule="g · exp(−x² / 2) / √(2π)")  # fmt: skip
special("ndtri", f"{_ROOT_TWO_PI} * exp(0.5 * y * y)")
special("log_ndtr", "log_ndtr_slope(x)",
    pretty_rule="g · exp(−x² / 2) / √(2π) / ndtr(x)")  # fmt: skip
special("ndtri_exp", "1.2533141373155003 * erfcx(-0.7071067811865476 * y)")
special(
    "owens_t",
    "-0.19947114020071635 * exp(-0.5 * x0 * x0) * erf(0.7071067811865476 * x0 * x1)",
    "exp(-0.5 * x0 * x0 * (1 + x1 * x1)) * 0.15915494309189535 / (1 + x1 * x1)",
)


# Fresnel's integrals: DLMF 7.2.7 and 7.2.8

many(
    "fresnel",
    (
        lambda y, x: np.sin(math.pi / 2 * x * x),
        lambda y, x: np.cos(math.pi / 2 * x * x),
    ),
    rule="g₀ · sin(π x² / 2) + g₁ · cos(π x² / 2)",
)
