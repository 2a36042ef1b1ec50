"""The gamma and beta families, and the incomplete ones (DLMF chapters 5 and 8).

The incomplete functions have a closed derivative by their last argument only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import NotDifferentiableError
from workbench.graph import blame
from workbench.ops.define import dtype_of
from workbench.ops.special.define import F, helper, special

__all__ = ["beta_density", "gamma_density"]


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
special("poch", "y * (psi(x0 + x1) - psi(x0))", "y * psi(x0 + x1)")
special("zeta", None, "-x0 * zeta(x0 + 1, x1)")  # DLMF 25.11.17
special("riemann_zeta", None)  # zeta of one argument
special("zetac", None)

# The beta function: DLMF 5.12.1

special("beta", "y * (psi(x0) - psi(x0 + x1))", "y * (psi(x1) - psi(x0 + x1))")
special("betaln", "psi(x0) - psi(x0 + x1)", "psi(x1) - psi(x0 + x1)")
special(
    "binom",
    "y * (psi(x0 + 1) - psi(x0 - x1 + 1))",
    "y * (psi(x0 - x1 + 1) - psi(x1 + 1))",
)


# Incomplete gamma functions: DLMF 8.8.13


@helper
def gamma_density(a: Any, x: Any) -> Any:
    """The derivative of gammainc(a, x) by x."""
    return np.exp(F.xlogy(a - 1, x) - x - F.gammaln(a))


special("gammainc", None, "gamma_density(x0, x1)")
special("gammaincc", None, "-gamma_density(x0, x1)")
special("gammaincinv", None, "g / gamma_density(x0, y)")
special("gammainccinv", None, "-g / gamma_density(x0, y)")


# Incomplete beta functions: DLMF 8.17.20


@helper
def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of betainc(a, b, x) by x."""
    return np.exp(F.xlogy(a - 1, x) + F.xlog1py(b - 1, -x) - F.betaln(a, b))


special("betainc", None, None, "beta_density(x0, x1, x2)")
special("betaincc", None, None, "-beta_density(x0, x1, x2)")
special("betaincinv", None, None, "g / beta_density(x0, x1, y)")
special("betainccinv", None, None, "-g / beta_density(x0, x1, y)")


# Wright's generalized Bessel function, a series in x: DLMF 10.46.1

special("wright_bessel", None, None, "wright_bessel(x0, x0 + x1, x2)")
special("log_wright_bessel", None, None, "exp(log_wright_bessel(x0, x0 + x1, x2) - y)")
