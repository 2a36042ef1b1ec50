"""Exponential and trigonometric integrals, the dilogarithm, hypergeometric functions.

Also integrals of Bessel and Struve functions, and Kolmogorov's distribution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.types import Array
from workbench.ops.special.define import F, helper, series, special, special_tuple

# Exponential integrals: DLMF 6.2 and 8.19.13

special("expi", "g * exp(x) / x")
special("exp1", "-g * exp(-x) / x")


@helper
def expn_slope(n: Array, x: Array) -> Array:
    """Return the derivative of expn(n, x) by x; expn(0, x) is exp(-x) / x."""
    first = np.equal(n, 0)
    lowered = -F.expn(np.where(first, 1, n) - 1, x)
    return np.where(first, -np.exp(-x) * (1 + x) / (x * x), lowered)


special("expn", None, "expn_slope(x0, x1)", pretty_rule="not known   −g · E(x₀ − 1)")


# Sine and cosine integrals, and hyperbolic ones: DLMF 6.2.9 to 6.2.16


def _sinhc(x: Array) -> Array:
    """Return sinh(x) / x; near 0 by its series: all its derivatives are right."""
    near = np.abs(x) < 0.02
    b = np.where(near, 1, x)
    small = np.square(np.where(near, x, 0))
    return np.where(
        near, series(small, 1, 1 / 6, 1 / 120, 1 / 5040, 1 / 362880), np.sinh(b) / b
    )


special_tuple(
    "sici",
    (lambda y, x: np.sinc(x / math.pi), lambda y, x: np.cos(x) / x),
    rule="g₀ · sin(x) / x + g₁ · cos(x) / x",
)
special_tuple(
    "shichi",
    (lambda y, x: _sinhc(x), lambda y, x: np.cosh(x) / x),
    rule="g₀ · sinh(x) / x + g₁ · cosh(x) / x",
)


@helper
def spence_slope(x: Array) -> Array:
    """Return log(x) / (1 - x); near 1 by its series: DLMF 25.12.2."""
    near = np.abs(x - 1) < 0.05
    a, b = np.where(near, x, 1) - 1, np.where(near, 2, x)
    terms = [-((-1.0) ** k) / (k + 1) for k in range(14)]
    return np.where(near, series(a, *terms), np.log(b) / (1 - b))


special("spence", "spence_slope(x)", pretty_rule="g · log(x) / (1 − x)")

# Hypergeometric functions by their argument: DLMF 13.3.15, 13.3.22, 15.5.1, 16.3.1

special("hyp0f1", None, "hyp0f1(x0 + 1, x1) / x0")
special("hyp1f1", None, None, "x0 / x1 * hyp1f1(x0 + 1, x1 + 1, x2)")
special("hyperu", None, None, "-x0 * hyperu(x0 + 1, x1 + 1, x2)")
special("hyp2f1", None, None, None, "x0 * x1 / x2 * hyp2f1(x0 + 1, x1 + 1, x2 + 1, x3)")


# Integrals of Bessel, Airy and Struve functions: their integrands


@helper
def by_x_squares(y: Array, x: Array, *terms: float) -> Array:
    """Return ``y / x``; near 0 by an odd power series of x with these terms."""
    near = np.abs(x) < 0.3
    a, b = np.where(near, x, 0), np.where(near, 1, x)
    return np.where(near, a * series(a * a, *terms), y / b)


_J0 = [(-1) ** k / (math.factorial(k + 1) ** 2 * 4 ** (k + 1)) for k in range(7)]
_I0 = [abs(c) for c in _J0]

special_tuple(
    "itj0y0",
    (lambda y, x: F.j0(x), lambda y, x: F.y0(x)),
    rule="g₀ · j0(x) + g₁ · y0(x)",
)
special_tuple(
    "iti0k0",
    (lambda y, x: F.i0(x), lambda y, x: F.k0(x)),
    rule="g₀ · i0(x) + g₁ · k0(x)",
)
special_tuple(
    "it2j0y0",
    (
        lambda y, x: by_x_squares(1 - F.j0(x), x, *_J0),
        lambda y, x: -F.y0(x) / x,
    ),
    rule="g₀ · (1 − j0(x)) / x − g₁ · y0(x) / x",
)
special_tuple(
    "it2i0k0",
    (
        lambda y, x: by_x_squares(F.i0(x) - 1, x, *_I0),
        lambda y, x: -F.k0(x) / x,
    ),
    rule="g₀ · (i0(x) − 1) / x − g₁ · k0(x) / x",
)


special_tuple(
    "itairy",
    (
        lambda y, x: F.airy(x)[0],
        lambda y, x: F.airy(x)[2],
        lambda y, x: F.airy(-x)[0],
        lambda y, x: F.airy(-x)[2],
    ),
    rule="airy at x and −x",
)
special("itstruve0", "struve(0, x)")
special("it2struve0", "-struve(0, x) / x")
special("itmodstruve0", "modstruve(0, x)")


# Kolmogorov's distribution: DLMF 20.2.4, its two theta series


@helper
def kolmogorov_slope(x: Array) -> Array:
    """Return the derivative of kolmogorov, its density with the sign turned."""
    positive = x > 0
    small = x < 1
    a = np.where(small & (x > 0.02), x, 1)
    b = np.where(small, 1, x)
    left: Any = 0 * x
    right: Any = 0 * x
    for k in range(1, 6):
        c = (2 * k - 1) ** 2 * math.pi**2 / 8
        left = left + (2 * c / (a * a) - 1) * np.exp(-c / (a * a)) / (a * a)
        right = right + (-1) ** k * 8 * k * k * b * np.exp(-2 * k * k * b * b)
    left = np.where(x > 0.02, -math.sqrt(2 * math.pi) * left, 0)
    return np.where(positive, np.where(small, left, right), 0)


special("kolmogorov", "kolmogorov_slope(x)")
special("kolmogi", "g / kolmogorov_slope(y)")


# Orthogonal polynomials and Legendre functions, by their argument (DLMF 18.9).
#
# The degree may be any number: each derivative is a polynomial of one degree less of
# the next family, which stays finite at the ends of the interval. The constant one, of
# degree 0, has derivative 0.

# DLMF 18.9.15 for Jacobi's, of which these are special cases

special(
    "eval_jacobi",
    None,
    None,
    None,
    "(x0 != 0) * (0.5 * (x0 + x1 + x2 + 1))"
    " * eval_jacobi(below(x0), x1 + 1, x2 + 1, x3)",
)
special(
    "eval_sh_jacobi",
    None,
    None,
    None,
    "x0 * eval_sh_jacobi(below(x0), x1 + 2, x2 + 1, x3)",
)
special(
    "eval_legendre",
    None,
    "(x0 != 0) * (0.5 * (x0 + 1)) * eval_jacobi(below(x0), 1, 1, x1)",
)
special(
    "eval_sh_legendre",
    None,
    "(x0 != 0) * (x0 + 1) * eval_jacobi(below(x0), 1, 1, 2 * x1 - 1)",
)

# DLMF 18.9.19 for Gegenbauer's; of Chebyshev's, the first kind leads to the second,
# 18.9.21, and the second is Gegenbauer's

special(
    "eval_gegenbauer",
    None,
    None,
    "(x0 != 0) * (2 * x1) * eval_gegenbauer(below(x0), x1 + 1, x2)",
)
special("eval_chebyt", None, "x0 * eval_chebyu(below(x0), x1)")
special("eval_chebyu", None, "(x0 != 0) * 2 * eval_gegenbauer(below(x0), 2, x1)")
special("eval_chebyc", None, "x0 * eval_chebyu(below(x0), 0.5 * x1)")
special("eval_chebys", None, "(x0 != 0) * eval_gegenbauer(below(x0), 2, 0.5 * x1)")
special("eval_sh_chebyt", None, "2 * x0 * eval_chebyu(below(x0), 2 * x1 - 1)")
special(
    "eval_sh_chebyu", None, "(x0 != 0) * 4 * eval_gegenbauer(below(x0), 2, 2 * x1 - 1)"
)

# DLMF 18.9.23 for Laguerre's, 18.9.25 for Hermite's

special("eval_laguerre", None, "-1.0 * (x0 != 0) * eval_genlaguerre(below(x0), 1, x1)")
special(
    "eval_genlaguerre",
    None,
    None,
    "-1.0 * (x0 != 0) * eval_genlaguerre(below(x0), x1 + 1, x2)",
)
special("eval_hermite", None, "2 * x0 * eval_hermite(below(x0), x1)")
special("eval_hermitenorm", None, "x0 * eval_hermitenorm(below(x0), x1)")

# Legendre functions: DLMF 14.10.5

special(
    "lpmv",
    None,
    None,
    "g * ((x1 + x0) * lpmv(x0, x1 - 1, x2) - x1 * x2 * y) / (1 - x2 * x2)",
)
