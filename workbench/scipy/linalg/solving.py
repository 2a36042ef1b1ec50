"""Linear systems, least squares, inverses, norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.tensor import value_of
from workbench.core.types import Array, ArrayLike, Axis
from workbench.ops.contraction import swap
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg import inverses, norms
from workbench.ops.linalg.inverses import det as _det
from workbench.ops.linalg.shared import complete, eye_like, hermitian, peak
from workbench.ops.linalg.systems import banded, triangular
from workbench.ops.linalg.systems import sylvester as _sylvester
from workbench.scipy.linalg.arguments import (
    require_floats,
    require_matrix,
    require_right_side,
    to_number,
)
from workbench.scipy.linalg.structured import circulant, toeplitz

__all__ = [
    "det",
    "inv",
    "lstsq",
    "norm",
    "pinv",
    "pinvh",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_lyapunov",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
]

_SHORT = {"gen": "general", "sym": "symmetric", "her": "hermitian",
          "pos": "positive definite"}  # fmt: skip
_HALVES = ("symmetric", "hermitian", "positive definite")


def _mask_structure(a: Array, assume_a: str | None, lower: bool) -> Array:
    """Return the matrix of the entries that a solver reads under an assumption."""
    kind = _SHORT.get(assume_a or "general", assume_a or "general")
    if kind in ("general", "banded"):
        return a
    if kind in ("diagonal", "tridiagonal"):
        width = kind == "tridiagonal"
        return np.triu(np.tril(a, width), -width)
    if kind.endswith("triangular"):
        return np.tril(a) if kind.startswith("lower") else np.triu(a)
    if kind == "symmetric":
        below = np.tril(a, -1) if lower else swap(np.triu(a, 1))
        return np.triu(np.tril(a)) + below + swap(below)
    if kind in _HALVES:
        return complete(a, lower)
    raise ValueError(
        f"{assume_a} is not a recognized matrix structure: 'general', 'banded',"
        " 'diagonal', 'tridiagonal', 'upper triangular', 'lower triangular',"
        " 'symmetric', 'hermitian' or 'positive definite'"
    )


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Array:
    """Solve ``a @ x = b``, as `scipy.linalg.solve` does.

    Parameters
    ----------
    a
        A square matrix; the gradient lies in the part that ``assume_a`` reads.
    b
        The right side, a vector or a matrix.
    lower
        Which triangle is read of a symmetric or Hermitian matrix.
    overwrite_a, overwrite_b
        Accepted; nothing is overwritten, here and in all of this module.
    check_finite
        Whether to refuse NaN and infinity.
    assume_a
        The structure of ``a``: ``"upper triangular"``, ``"symmetric"``, ... Entries
        outside of it are not read.
    transposed
        Whether to solve ``a.T @ x = b``.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is singular.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> wb.grad(lambda b: wl.solve(a, b)[0])(np.ones(2))
    array([ 0.5  , -0.125])
    """
    a = require_matrix(a, check_finite, square=True)
    b, vector = require_right_side(b, check_finite)
    seen = _mask_structure(a, assume_a, lower)
    if (assume_a or "").endswith("triangular"):
        low = (assume_a or "").startswith("lower")
        y = triangular(swap(a), b, not low) if transposed else triangular(a, b, low)
    else:
        y = np.linalg.solve(swap(seen) if transposed else seen, b)
    return y[..., 0] if vector else y


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a triangular system, as `scipy.linalg.solve_triangular` does.

    Parameters
    ----------
    a
        A square matrix; the gradient lies in the triangle that is read.
    b
        The right side, a vector or a matrix.
    trans
        0 for ``a``, 1 or ``"T"`` for its transpose, 2 or ``"C"`` for the conjugate.
    lower
        Whether the lower triangle is read.
    unit_diagonal
        Whether the diagonal counts as ones, and is not read.
    overwrite_b
        Accepted; nothing is overwritten.
    check_finite
        Whether to refuse NaN and infinity.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[2.0, 1.0], [9.0, 4.0]])
    >>> wb.grad(lambda a: wl.solve_triangular(a, np.ones(2))[0])(a)
    array([[-0.1875 , -0.125  ],
           [ 0.     ,  0.03125]])
    """
    a = require_matrix(a, check_finite, square=True)
    b, vector = require_right_side(b, check_finite)
    turns = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in turns:
        raise ValueError(f"trans={trans!r}; write 0, 1 or 2 (or 'N', 'T' or 'C')")
    turn = turns[trans]
    if turn:
        a, lower = swap(a) if turn == 1 else hermitian(a), not lower
    y = triangular(a, b, bool(lower), bool(unit_diagonal))
    return y[..., 0] if vector else y


def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Array:
    """Return the inverse; its gradient lies in the part that ``assume_a`` reads."""
    a = require_matrix(a, check_finite, square=True)
    return inverses.inv(_mask_structure(a, assume_a, lower))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinant; derivatives hold at singular matrices, up to second."""
    return _det(require_matrix(a, check_finite, square=True))


def norm(
    a: ArrayLike,
    ord: int | float | str | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Array:
    """Return the norm of a vector or a matrix, as `numpy.linalg.norm` does."""
    return norms.norm(require_floats(a, check_finite), ord, axis, keepdims)


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution, the residuals, rank and singular values.

    The solution is that of least norm, differentiated at constant rank; see
    `numpy.linalg.lstsq`.
    """
    a, b = require_matrix(a, check_finite), require_floats(b, check_finite)
    if cond is None:
        cond = float(np.finfo(np.result_type(dtype_of(a), dtype_of(b))).eps)
    x, rest, rank, values = inverses.lstsq(a, b, to_number(cond))
    if len(shape_of(b)) == 1 and shape_of(rest) == (1,):
        rest = rest[0]
    return x, rest, rank, values


def pinv(
    a: ArrayLike,
    *,
    atol: Any = None,
    rtol: Any = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, Array | int]:
    """Return the pseudoinverse, with the derivative at constant rank."""
    a = require_matrix(a, check_finite)
    return _compute_pinv(a, a, to_number(atol), to_number(rtol), return_rank)


def pinvh(
    a: ArrayLike,
    atol: Any = None,
    rtol: Any = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, Array | int]:
    """Return the pseudoinverse of a Hermitian matrix.

    The gradient lies in the triangle that ``lower`` names.
    """
    a = complete(require_matrix(a, check_finite, square=True), lower)
    return _compute_pinv(a, a, to_number(atol), to_number(rtol), return_rank)


def _compute_pinv(
    a: Array,
    whole: Array,
    atol: float | None,
    rtol: float | None,
    return_rank: bool,
) -> Array | tuple[Array, Array | int]:
    eps = float(np.finfo(dtype_of(a)).eps)
    limit = max(shape_of(a)[-2:]) * eps if rtol is None else rtol
    if atol:
        y = inverses.cut(whole, lambda top: atol + limit * top)
    else:
        y = inverses.pseudoinverse(whole, limit, False)
    if not return_rank:
        return y
    values = np.linalg.svdvals(a)
    floor = (atol or 0) + limit * peak(values, axis=-1, keepdims=True)
    rank = np.sum(values > floor, axis=-1)
    known = value_of(rank)
    return y, int(known) if np.ndim(known) == 0 and known is not None else rank


# Matrix equations


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Solve Sylvester's equation ``a x + x b = q``: `scipy.linalg.solve_sylvester`.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a, b, q = np.diag([1.0, 2.0]), np.array([[2.0]]), np.ones((2, 1))
    >>> wb.grad(lambda q: np.sum(wl.solve_sylvester(a, b, q)))(q)
    array([[0.33333333],
           [0.25      ]])
    """
    return _sylvester(
        require_matrix(a, square=True),
        require_matrix(b, square=True),
        require_matrix(q),
    )


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Array:
    """Solve the continuous Lyapunov equation ``a x + x aᴴ = q``."""
    a, q = require_matrix(a, square=True), require_matrix(q, square=True)
    return _sylvester(a, hermitian(a), q)


#: SciPy's older name.
solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(
    a: ArrayLike, q: ArrayLike, method: str | None = None
) -> Array:
    """Solve the discrete Lyapunov equation ``a x aᴴ - x + q = 0``."""
    a, q = require_matrix(a, square=True), require_matrix(q, square=True)
    if method is None:
        method = "bilinear" if shape_of(a)[-1] >= 10 else "direct"
    if method.lower() == "direct":
        whole = np.kron(a, conjugate(a))
        flat = np.linalg.solve(eye_like(whole) - whole, np.reshape(q, (-1,)))
        return np.reshape(flat, shape_of(q))
    if method.lower() != "bilinear":
        raise ValueError(f"Unknown solver {method}; write 'direct' or 'bilinear'")
    eye, adjoint = eye_like(a), hermitian(a)
    inverse = np.linalg.inv(adjoint + eye)
    b = (adjoint - eye) @ inverse
    c = 2 * (np.linalg.inv(a + eye) @ q @ inverse)
    return _sylvester(hermitian(b), b, -c)


# Structured systems


def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a banded system, as `scipy.linalg.solve_banded` does.

    Parameters
    ----------
    l_and_u
        How many diagonals there are below and above the main one.
    ab
        The diagonals, one a row, shape (l + u + 1, n); so is the gradient.
    b
        The right side, a vector or a matrix.
    overwrite_ab, overwrite_b
        Accepted; nothing is overwritten.
    check_finite
        Whether to refuse NaN and infinity.
    """
    ab = require_matrix(ab, check_finite)
    b, vector = require_right_side(b, check_finite)
    lower, upper = map(int, l_and_u)
    y = banded(ab, b, lower, upper)
    return y[..., 0] if vector else y


def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a Hermitian banded system by LU, indefinite systems included."""
    ab = require_matrix(ab, check_finite)
    width = shape_of(ab)[-2] - 1
    rows = []
    for k in range(width, 0, -1):  # what lies k above the diagonal
        if lower:
            rows.append(conjugate(np.roll(ab[k], k)))
        else:
            rows.append(ab[width - k])
    rows.append(ab[0 if lower else width])
    for k in range(1, width + 1):
        rows.append(ab[k] if lower else conjugate(np.roll(ab[width - k], -k)))
    return solve_banded((width, width), np.stack(rows), b, check_finite=check_finite)


def solve_toeplitz(c_or_cr: Any, b: ArrayLike, check_finite: bool = True) -> Array:
    """Solve a Toeplitz system by the whole matrix: in cubic time, stable."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    c = require_floats(c, check_finite)
    whole = toeplitz(c, None if r is None else require_floats(r, check_finite))
    b, vector = require_right_side(b, check_finite)
    y = np.linalg.solve(whole, b)
    return y[..., 0] if vector else y


def solve_circulant(
    c: ArrayLike,
    b: ArrayLike,
    singular: str = "raise",
    tol: Any = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Array:
    """Solve a circulant system, of a vector ``c``, by the whole matrix."""
    c = require_floats(c)
    b, vector = require_right_side(b)
    if len(shape_of(c)) != 1 or (caxis, baxis, outaxis) != (-1, 0, 0):
        raise ValueError(
            "solve_circulant of a stack: write it for one vector c and put"
            " workbench.vmap around it"
        )
    whole = circulant(c)
    if singular == "raise":
        y = np.linalg.solve(whole, b)
    else:
        y = inverses.least_squares(whole, b, to_number(tol))
    return y[..., 0] if vector else y
