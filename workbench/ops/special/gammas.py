"""Gamma, beta and error functions, the normal distribution (DLMF 5 and 7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import Array
from workbench.errors import NotDifferentiableError
from workbench.ops import singular
from workbench.ops.define import dtype_of
from workbench.ops.special.define import (
    F,
    helper,
    series,
    special,
    special_tuple,
)


@helper
def whole_up_to_zero(x: Array) -> Array:
    """Return whether x is a pole of gamma: 0, -1, -2, ..."""
    return np.equal(np.floor(x), x) & np.less_equal(x, 0)


def in_shape_of(y: Array, *inputs: Any) -> tuple[Any, ...]:
    """Return inputs in the shape and dtype of the result, Python numbers too."""
    nothing = np.zeros_like(y)
    return tuple(x + nothing for x in inputs)


def turns(x: Array) -> tuple[Any, Any]:
    """Return cos(pi x) and sin(pi x) / pi, exact where x is whole."""
    near = np.rint(x)
    sign, angle = 1 - 2 * np.mod(near, 2), math.pi * (x - near)
    return sign * np.cos(angle), sign * np.sin(angle) / math.pi


# The gamma function and its logarithm: DLMF 5.2.2, psi = gamma' / gamma


@helper
def trigamma(x: Array) -> Array:
    """Return the derivative of `digamma`, zeta(2, x): DLMF 25.11.12."""
    if dtype_of(x).kind == "c":
        raise NotDifferentiableError(
            f"scipy.special.digamma of complex numbers{blame.user_line()}: SciPy has no"
            " trigamma function of complex arguments. Take real arguments, or cut the"
            " gradient on purpose with x.value."
        )
    return F.zeta(2, x)


@helper
def rgamma_slope(x: Array) -> Array:
    """Return the derivative of 1 / gamma(x), finite at the poles of gamma.

    Left of 1/2 by reflection, 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi: DLMF 5.5.3.
    """
    left = np.real(x) < 0.5
    a, b = np.where(left, x, 0), np.where(left, 1, x)
    turned = np.cos(math.pi * a) - np.sin(math.pi * a) / math.pi * F.psi(1 - a)
    return np.where(left, F.gamma(1 - a) * turned, -F.rgamma(b) * F.psi(b))


special("gamma", "y * psi(x)", grows=True)
special("gammaln", "psi(x)", grows=True)
special("loggamma", "psi(x)")
special("rgamma", "rgamma_slope(x)", pretty_rule="−g · y · digamma(x)")
special("digamma", "trigamma(x)", aliases=("psi",), pretty_rule="g · zeta(2, x)")
special("gammasgn", "0")


@helper
def poch_slope(y: Array, z: Array, m: Array) -> Array:
    """Return the derivative of poch(z, m) by z, finite where z is a pole of gamma.

    There gamma(z + m) / gamma(z) is 0, and by reflection (DLMF 5.5.3) sin(pi z) / pi
    times gamma(1 - z) gamma(z + m); or, with z + m a pole as well, a polynomial of z.
    """
    z, m = in_shape_of(y, z, m)
    pole, both = whole_up_to_zero(z), whole_up_to_zero(z + m)
    a = np.where(pole, z, 0)
    b = np.where(pole & ~both, z + m, 1)
    size = F.gammasgn(b) * np.exp(F.gammaln(1 - a) + F.gammaln(b))
    cosine, sine = turns(a)
    by_reflection = size * (cosine + sine * (F.psi(b) - F.psi(1 - a)))
    c = np.where(pole & both, z + m, 0)
    polynomial = y * (F.psi(1 - c) - F.psi(1 - a))
    d, e = np.where(pole, 1, z), np.where(pole, 1, z + m)
    regular = y * (F.psi(e) - F.psi(d))
    return np.where(pole, np.where(both, polynomial, by_reflection), regular)


special("poch", "poch_slope(y, x0, x1)", "y * psi(x0 + x1)")
special("zeta", None, "-x0 * zeta(x0 + 1, x1)")  # DLMF 25.11.17
special("riemann_zeta", None)  # zeta of one argument
special("zetac", None)

# The beta function: DLMF 5.12.1

special("beta", "y * (psi(x0) - psi(x0 + x1))", "y * (psi(x1) - psi(x0 + x1))")
special("betaln", "psi(x0) - psi(x0 + x1)", "psi(x1) - psi(x0 + x1)")


@helper
def binom_by_n(y: Array, n: Array, k: Array) -> Array:
    """Return the derivative of binom(n, k) by n, finite where binom(n, k) is 0.

    That is where n - k + 1 or k + 1 is a pole of gamma. In the first case, by
    reflection (DLMF 5.5.3), binom(n, k) is sin(pi (k - n)) beta(n + 1, k - n) / pi.
    """
    n, k = in_shape_of(y, n, k)
    late = whole_up_to_zero(n - k + 1) & np.equal(y, y)  # NaN where n + 1 is a pole
    a, b = np.where(late, n, 0), np.where(late, k - n, 1)
    cosine, sine = turns(b)
    reflected = F.beta(a + 1, b) * (sine * (F.psi(a + 1) - F.psi(b)) - cosine)
    rest = np.where(late, 1, n - k + 1)
    return np.where(late, reflected, y * (F.psi(n + 1) - F.psi(rest)))


@helper
def binom_by_k(y: Array, n: Array, k: Array) -> Array:
    """Return the derivative of binom(n, k) by k, finite where binom(n, k) is 0.

    As `binom_by_n`; where k + 1 is the pole, binom(n, k) is
    -sin(pi k) beta(n + 1, -k) / pi.
    """
    n, k = in_shape_of(y, n, k)
    late = whole_up_to_zero(n - k + 1) & np.equal(y, y)
    early = whole_up_to_zero(k + 1) & np.equal(y, y) & ~late
    either = late | early
    a, b = np.where(either, n, 0), np.where(either, np.where(late, k - n, -k), 1)
    cosine, sine = turns(b)
    size = F.beta(a + 1, b) * np.where(early, -1, 1)
    reflected = size * (cosine + sine * (F.psi(b) - F.psi(a + b + 1)))
    p, q = np.where(either, 1, n - k + 1), np.where(either, 1, k + 1)
    return np.where(either, reflected, y * (F.psi(p) - F.psi(q)))


special("binom", "binom_by_n(y, x0, x1)", "binom_by_k(y, x0, x1)")


# Wright's generalized Bessel function, a series in x: DLMF 10.46.1

special("wright_bessel", None, None, "wright_bessel(x0, x0 + x1, x2)")
special("log_wright_bessel", None, None, "exp(log_wright_bessel(x0, x0 + x1, x2) - y)")


# The error function, its relatives, and the normal distribution (DLMF chapter 7).


_TWO_BY_ROOT_PI = "1.1283791670955126"
_HALF_ROOT_PI = "0.8862269254527580"

# DLMF 7.10.1; the inverses by the rule for inverse functions


@helper
def bell(x: Array, rate: float) -> Array:
    """Return ``exp(-rate * x**2)``, flat where x is infinite (0 times x is NaN)."""
    x = np.where(np.isinf(x), 1e3, x)
    return np.exp(-rate * x * x)


special("erf", f"{_TWO_BY_ROOT_PI} * bell(x, 1.0)", saturates=True,
    pretty_rule="g · 2 / √π · exp(−x²)")  # fmt: skip
special("erfc", f"-{_TWO_BY_ROOT_PI} * bell(x, 1.0)", saturates=True,
    pretty_rule="−g · 2 / √π · exp(−x²)")  # fmt: skip
special("erfi", f"{_TWO_BY_ROOT_PI} * exp(x * x)")
special("erfinv", f"{_HALF_ROOT_PI} * exp(y * y)", undefined=singular.INVERSE_ERROR)
special("erfcinv", f"-{_HALF_ROOT_PI} * exp(y * y)")


# What decays slowly: 2 x y - 2 / sqrt(pi) cancels far out, there the asymptotic
# series DLMF 7.12.1 is differentiated


@helper
def erfcx_slope(x: Array, y: Array) -> Array:
    """Return the derivative of erfcx: 2 x y - 2 / sqrt(pi), without cancellation."""
    far = np.real(x) > 50
    z = np.where(far, x, 100)
    u = 1 / (2 * z * z)
    tail = -series(u, 1.0, -3.0, 15.0, -105.0, 945.0) / (math.sqrt(math.pi) * z * z)
    return np.where(far, tail, 2 * x * y - 2 / math.sqrt(math.pi))


@helper
def dawsn_slope(x: Array, y: Array) -> Array:
    """Return the derivative of dawsn: 1 - 2 x y, without its cancellation."""
    far = np.abs(np.real(x)) > 50
    z = np.where(far, x, 100)
    u = 1 / (2 * z * z)
    return np.where(far, -u * series(u, 1.0, 3.0, 15.0, 105.0, 945.0), 1 - 2 * x * y)


special("erfcx", "erfcx_slope(x, y)", pretty_rule="g · (2 · x · y − 2 / √π)")
special("dawsn", "dawsn_slope(x, y)", pretty_rule="g · (1 − 2 · x · y)")
special("wofz", f"{_TWO_BY_ROOT_PI}j - 2 * x * y")  # DLMF 7.10.2


def _voigt(x: Array, sigma: Array, gamma: Array) -> tuple[Any, Any, Any]:
    """Return w(z) = wofz(z), w'(z) and z, which make the profile: DLMF 7.19.1."""
    z = (x + 1j * gamma) / (math.sqrt(2) * sigma)
    w = F.wofz(z)
    return w, 2j / math.sqrt(math.pi) - 2 * z * w, z


@helper
def voigt_by_x(x: Array, sigma: Array, gamma: Array) -> Array:
    """Return the derivative of voigt_profile by x."""
    slope = _voigt(x, sigma, gamma)[1]
    return np.real(slope) / (2 * math.sqrt(math.pi) * sigma * sigma)


@helper
def voigt_by_sigma(x: Array, sigma: Array, gamma: Array) -> Array:
    """Return the derivative of voigt_profile by sigma."""
    w, slope, z = _voigt(x, sigma, gamma)
    return -np.real(w + slope * z) / (math.sqrt(2 * math.pi) * sigma * sigma)


@helper
def voigt_by_gamma(x: Array, sigma: Array, gamma: Array) -> Array:
    """Return the derivative of voigt_profile by gamma."""
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
def log_ndtr_slope(x: Array) -> Array:
    """Return density by distribution; by erfcx to the left, where both vanish."""
    right = np.real(x) > 0
    high, low = np.where(right, x, 0), np.where(right, 0, x)
    tail = F.erfcx(-0.7071067811865476 * low)
    end = tail == 0  # at -inf
    to_left = np.where(end, np.inf, 0.7978845608028654 / np.where(end, 1, tail))
    return np.where(right, 0.3989422804014327 * bell(high, 0.5) / F.ndtr(high), to_left)


special("ndtr", "0.3989422804014327 * bell(x, 0.5)",
    scalar="0.5 * erfc(x * -0.7071067811865476)",
    pretty_rule="g · exp(−x² / 2) / √(2π)")  # fmt: skip
special("ndtri", f"{_ROOT_TWO_PI} * exp(0.5 * y * y)", undefined=singular.PROBABILITY)
special("log_ndtr", "log_ndtr_slope(x)",
    pretty_rule="g · exp(−x² / 2) / √(2π) / ndtr(x)")  # fmt: skip
special("ndtri_exp", "1.2533141373155003 * erfcx(-0.7071067811865476 * y)")
special(
    "owens_t",
    "-0.19947114020071635 * exp(-0.5 * x0 * x0) * erf(0.7071067811865476 * x0 * x1)",
    "exp(-0.5 * x0 * x0 * (1 + x1 * x1)) * 0.15915494309189535 / (1 + x1 * x1)",
)


# Fresnel's integrals: DLMF 7.2.7 and 7.2.8

special_tuple(
    "fresnel",
    (
        lambda y, x: np.sin(math.pi / 2 * x * x),
        lambda y, x: np.cos(math.pi / 2 * x * x),
    ),
    rule="g₀ · sin(π x² / 2) + g₁ · cos(π x² / 2)",
)
