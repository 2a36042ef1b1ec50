"""The gamma and beta families, and the incomplete ones (DLMF chapters 5 and 8).

The incomplete functions have a closed derivative by their last argument only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.errors import NotDifferentiableError
from workbench.ops.define import dtype_of
from workbench.ops.special.define import F, helper, special

__all__ = ["beta_density", "gamma_density"]


@helper
def whole_up_to_zero(x: Any) -> Any:
    """Whether x is a pole of gamma: 0, -1, -2, ..."""
    return np.equal(np.floor(x), x) & np.less_equal(x, 0)


def in_shape_of(y: Any, *inputs: Any) -> tuple[Any, ...]:
    """Inputs in the shape and dtype of the result, Python numbers among them."""
    nothing = np.zeros_like(y)
    return tuple(x + nothing for x in inputs)


def turns(x: Any) -> tuple[Any, Any]:
    """cos(pi x) and sin(pi x) / pi, exact where x is whole."""
    near = np.rint(x)
    sign, angle = 1 - 2 * np.mod(near, 2), math.pi * (x - near)
    return sign * np.cos(angle), sign * np.sin(angle) / math.pi


# The gamma function and its logarithm: DLMF 5.2.2, psi = gamma' / gamma


@helper
def trigamma(x: Any) -> Any:
    """The derivative of `digamma`, zeta(2, x): DLMF 25.11.12."""
    if dtype_of(x).kind == "c":
        raise NotDifferentiableError(
            f"scipy.special.digamma of complex numbers{blame.here()}: SciPy has no"
            " trigamma function of complex arguments. Take real arguments, or cut the"
            " gradient on purpose with x.value."
        )
    return F.zeta(2, x)


@helper
def rgamma_slope(x: Any) -> Any:
    """The derivative of 1 / gamma(x), finite at the poles of gamma.

    Left of 1/2 by reflection, 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi: DLMF 5.5.3.
    """
    left = np.real(x) < 0.5
    a, b = np.where(left, x, 0), np.where(left, 1, x)
    turned = np.cos(math.pi * a) - np.sin(math.pi * a) / math.pi * F.psi(1 - a)
    return np.where(left, F.gamma(1 - a) * turned, -F.rgamma(b) * F.psi(b))


special("gamma", "y * psi(x)")
special("gammaln", "psi(x)")
special("loggamma", "psi(x)")
special("rgamma", "rgamma_slope(x)", pretty_rule="−g · y · digamma(x)")
special("digamma", "trigamma(x)", pretty_rule="g · zeta(2, x)")
special("gammasgn", "0")


@helper
def poch_slope(y: Any, z: Any, m: Any) -> Any:
    """The derivative of poch(z, m) by z, finite where z is a pole of gamma.

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
def binom_by_n(y: Any, n: Any, k: Any) -> Any:
    """The derivative of binom(n, k) by n, finite where it is 0.

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
def binom_by_k(y: Any, n: Any, k: Any) -> Any:
    """The derivative of binom(n, k) by k, finite where it is 0.

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


# Incomplete gamma functions: DLMF 8.8.13


@helper
def gamma_density(a: Any, x: Any) -> Any:
    """The derivative of gammainc(a, x) by x.

    Near 0 by the power itself, whose derivatives stay right at 0 where it is whole.
    """
    near = (x < 1) & (a < 100)
    b = np.where(near & (x >= 0), x, np.where(near, np.nan, 1))
    order = np.where(near, a, 1)
    power = b ** (order - 1) * np.exp(-b) * F.rgamma(order)
    far = np.where(near, 1, x)
    return np.where(near, power, np.exp(F.xlogy(a - 1, far) - far - F.gammaln(a)))


special("gammainc", None, "gamma_density(x0, x1)")
special("gammaincc", None, "-gamma_density(x0, x1)")
special("gammaincinv", None, "g / gamma_density(x0, y)")
special("gammainccinv", None, "-g / gamma_density(x0, y)")


# Incomplete beta functions: DLMF 8.17.20


@helper
def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by x.

    By the powers themselves, whose derivatives stay right at 0 and 1 where they are
    whole; where these could underflow, by their logarithms.
    """
    small = (a + b < 100) & np.isfinite(a + b)
    inside = np.where((x >= 0) & (x <= 1), x, np.nan)
    p, q = np.where(small, a, 1), np.where(small, b, 1)
    z = np.where(small, inside, 0.5)
    power = z ** (p - 1) * (1 - z) ** (q - 1) / F.beta(p, q)
    z = np.where(small, 0.5, x)
    large = np.exp(F.xlogy(a - 1, z) + F.xlog1py(b - 1, -z) - F.betaln(a, b))
    return np.where(small, power, large)


special("betainc", None, None, "beta_density(x0, x1, x2)")
special("betaincc", None, None, "-beta_density(x0, x1, x2)")
special("betaincinv", None, None, "g / beta_density(x0, x1, y)")
special("betainccinv", None, None, "-g / beta_density(x0, x1, y)")


# Wright's generalized Bessel function, a series in x: DLMF 10.46.1

special("wright_bessel", None, None, "wright_bessel(x0, x0 + x1, x2)")
special("log_wright_bessel", None, None, "exp(log_wright_bessel(x0, x0 + x1, x2) - y)")
