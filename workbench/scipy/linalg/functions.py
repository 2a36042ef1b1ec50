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
from workbench.ops.linalg.functions import FUNCTIONS_OF_MATRICES, frechet_derivative
from workbench.scipy.linalg.arguments import require_matrix

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


def _apply_function(name: str, a: ArrayLike, **params: Any) -> Array:
    return apply(FUNCTIONS_OF_MATRICES[name], (require_matrix(a, square=True),), params)


def expm(A: ArrayLike) -> Array:
    """Return the exponential of a matrix, as `scipy.linalg.expm` does.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> wb.grad(lambda a: wl.expm(a)[0, 1])(np.zeros((2, 2)))
    array([[0., 1.],
           [0., 0.]])
    """
    return _apply_function("expm", A)


def logm(A: ArrayLike) -> Array:
    """Return the principal logarithm of a matrix: `scipy.linalg.logm`."""
    return _apply_function("logm", A)


def sqrtm(A: ArrayLike) -> Array:
    """Return the principal square root of a matrix: `scipy.linalg.sqrtm`.

    It has no derivative at a singular matrix.
    """
    return _apply_function("sqrtm", A)


def sinm(A: ArrayLike) -> Array:
    """Return the sine of a matrix: `scipy.linalg.sinm`."""
    return _apply_function("sinm", A)


def cosm(A: ArrayLike) -> Array:
    """Return the cosine of a matrix: `scipy.linalg.cosm`."""
    return _apply_function("cosm", A)


def tanm(A: ArrayLike) -> Array:
    """Return the tangent of a matrix: `scipy.linalg.tanm`."""
    return _apply_function("tanm", A)


def sinhm(A: ArrayLike) -> Array:
    """Return the hyperbolic sine of a matrix: `scipy.linalg.sinhm`."""
    return _apply_function("sinhm", A)


def coshm(A: ArrayLike) -> Array:
    """Return the hyperbolic cosine of a matrix: `scipy.linalg.coshm`."""
    return _apply_function("coshm", A)


def tanhm(A: ArrayLike) -> Array:
    """Return the hyperbolic tangent of a matrix: `scipy.linalg.tanhm`."""
    return _apply_function("tanhm", A)


def fractional_matrix_power(A: ArrayLike, t: Any) -> Array:
    """Return the power of a matrix, as `scipy.linalg.fractional_matrix_power` does.

    Parameters
    ----------
    A
        A square matrix.
    t
        The exponent, a plain number.

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
    return _apply_function("fractional_matrix_power", A, t=float(t))


def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Return ``expm(A)`` and its derivative along ``E``: `scipy.linalg.expm_frechet`.

    Parameters
    ----------
    A, E
        Square matrices of one shape.
    method
        Accepted as in SciPy; both methods compute alike here.
    compute_expm
        Whether to return ``expm(A)`` too, in front.
    check_finite
        Whether to refuse NaN and infinity.

    Notes
    -----
    Both come from one block matrix: N. J. Higham, "Functions of Matrices" (2008),
    theorem 3.6.
    """
    A, E = (
        require_matrix(A, check_finite, square=True),
        require_matrix(E, check_finite, square=True),
    )
    if np.shape(A) != np.shape(E):
        raise ValueError("expected A and E to be the same shape")
    value, tangent = frechet_derivative(FUNCTIONS_OF_MATRICES["expm"], A, E, {})
    return (value, tangent) if compute_expm else tangent
