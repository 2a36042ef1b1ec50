"""Functions of a matrix: `expm`, `logm`, `sqrtm`, ...; right for repeated eigenvalues.

A real matrix with negative eigenvalues has a complex logarithm and square root, as
in SciPy; traced without values the result is taken as real.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, ArrayLike, is_differentiable
from workbench.errors import TraceError
from workbench.ops.linalg.functions import FUNCTIONS_OF_MATRICES, along
from workbench.scipy.linalg.arguments import matrix

__all__ = [
    "coshm",
    "cosm",
    "expm",
    "expm_frechet",
    "fractional_matrix_power",
    "logm",
    "sinhm",
    "sinm",
    "sqrtm",
    "tanhm",
    "tanm",
]


def _apply(name: str, a: ArrayLike, **params: Any) -> Array:
    return apply(FUNCTIONS_OF_MATRICES[name], (matrix(a, square=True),), params)


def expm(A: ArrayLike) -> Array:
    """`scipy.linalg.expm`.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> wb.grad(lambda a: wl.expm(a)[0, 1])(np.zeros((2, 2)))
    array([[0., 1.],
           [0., 0.]])
    """
    return _apply("expm", A)


def logm(A: ArrayLike) -> Array:
    """`scipy.linalg.logm`, the principal logarithm; float32 stays."""
    return _apply("logm", A)


def sqrtm(A: ArrayLike) -> Array:
    """`scipy.linalg.sqrtm`, the principal square root; no derivative if singular."""
    return _apply("sqrtm", A)


def sinm(A: ArrayLike) -> Array:
    """`scipy.linalg.sinm`."""
    return _apply("sinm", A)


def cosm(A: ArrayLike) -> Array:
    """`scipy.linalg.cosm`."""
    return _apply("cosm", A)


def tanm(A: ArrayLike) -> Array:
    """`scipy.linalg.tanm`."""
    return _apply("tanm", A)


def sinhm(A: ArrayLike) -> Array:
    """`scipy.linalg.sinhm`."""
    return _apply("sinhm", A)


def coshm(A: ArrayLike) -> Array:
    """`scipy.linalg.coshm`."""
    return _apply("coshm", A)


def tanhm(A: ArrayLike) -> Array:
    """`scipy.linalg.tanhm`."""
    return _apply("tanhm", A)


def fractional_matrix_power(A: ArrayLike, t: Any) -> Array:
    """`scipy.linalg.fractional_matrix_power`, by the matrix; ``t`` is a plain number.

    Raises
    ------
    TraceError
        If ``t`` is a Tensor that varies: write ``expm(t * logm(A))``.
    """
    if isinstance(t, Tensor) and is_differentiable(t.dtype):
        raise TraceError(
            f"fractional_matrix_power(A, t){blame.user_line()}: t is a traced value,"
            " and the derivative by it is not known. Write expm(t * logm(A)), or"
            " t.value."
        )
    return _apply("fractional_matrix_power", A, t=float(t))


def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """`scipy.linalg.expm_frechet`: ``expm(A)`` and its derivative along ``E``.

    Each ``method`` is answered by the block matrix of N. J. Higham, "Functions of
    Matrices" (2008), theorem 3.6.
    """
    A, E = matrix(A, check_finite, square=True), matrix(E, check_finite, square=True)
    if np.shape(A) != np.shape(E):
        raise ValueError("expected A and E to be the same shape")
    value, moved = along(FUNCTIONS_OF_MATRICES["expm"], A, E, {})
    return (value, moved) if compute_expm else moved
