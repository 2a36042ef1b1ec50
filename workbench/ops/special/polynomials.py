"""Orthogonal polynomials and Legendre functions, by their argument (DLMF 18.9).

The degree may be any number: each derivative is a polynomial of one degree less of the
next family, which stays finite at the ends of the interval. The constant one, of
degree 0, has derivative 0.
"""

from __future__ import annotations

from workbench.ops.special.define import special

__all__: list[str] = []

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
