"""The ops behind `scipy.special`, loaded when the first of its ufuncs meets a Tensor.

One file for each family; formulas are cited from the NIST Digital Library of
Mathematical Functions (DLMF).
"""

from workbench.ops.special import (
    bessel,
    define,
    distributions,
    elliptic,
    gammas,
    hypergeometric,
    logistic,
    shapes,
)

__all__ = [
    "bessel",
    "define",
    "distributions",
    "elliptic",
    "gammas",
    "hypergeometric",
    "logistic",
    "shapes",
]
