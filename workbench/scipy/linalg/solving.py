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
from workbench.scipy.linalg.arguments import floating, matrix, number, right_side
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


def _seen(a: Array, assume_a: str | None, lower: bool) -> Array:
    """The matrix that a solver sees which reads the part its assumption names."""
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
    """`scipy.linalg.solve`; the gradient lies in the part that ``assume_a`` reads.

    The entries that a structure does not name ('upper triangular', 'symmetric' with
    ``lower``, ...) are not looked at. Nothing is overwritten, here and in all of this
    module.

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
    a = matrix(a, check_finite, square=True)
    b, vector = right_side(b, check_finite)
    seen = _seen(a, assume_a, lower)
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
    """`scipy.linalg.solve_triangular`; the gradient lies in the triangle it reads.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[2.0, 1.0], [9.0, 4.0]])
    >>> wb.grad(lambda a: wl.solve_triangular(a, np.ones(2))[0])(a)
    array([[-0.1875 , -0.125  ],
           [ 0.     ,  0.03125]])
    """
    a = matrix(a, check_finite, square=True)
    b, vector = right_side(b, check_finite)
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
    """`scipy.linalg.inv`; the gradient lies in the part that ``assume_a`` reads."""
    a = matrix(a, check_finite, square=True)
    return inverses.inv(_seen(a, assume_a, lower))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """`scipy.linalg.det`; right for singular matrices, to second order."""
    return _det(matrix(a, check_finite, square=True))


def norm(
    a: ArrayLike,
    ord: int | float | str | None = None,
    axis: Axis = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Array:
    """`scipy.linalg.norm`: as `numpy.linalg.norm`, whose docstring names the kinks."""
    return norms.norm(floating(a, check_finite), ord, axis, keepdims)


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Any, Any, Any, Any]:
    """`scipy.linalg.lstsq`: solution, residuals, rank, singular values.

    The solution of least size, differentiated at constant rank; see
    `numpy.linalg.lstsq`.
    """
    a, b = matrix(a, check_finite), floating(b, check_finite)
    if cond is None:
        cond = float(np.finfo(np.result_type(dtype_of(a), dtype_of(b))).eps)
    x, rest, rank, values = inverses.lstsq(a, b, number(cond))
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
    """`scipy.linalg.pinv`; its derivative is that at constant rank."""
    a = matrix(a, check_finite)
    return _pinv(a, a, number(atol), number(rtol), return_rank)


def pinvh(
    a: ArrayLike,
    atol: Any = None,
    rtol: Any = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, Array | int]:
    """`scipy.linalg.pinvh`; the gradient lies in the triangle it reads."""
    a = complete(matrix(a, check_finite, square=True), lower)
    return _pinv(a, a, number(atol), number(rtol), return_rank)


def _pinv(
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
    """`scipy.linalg.solve_sylvester`: the solution of ``a x + x b = q``.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a, b, q = np.diag([1.0, 2.0]), np.array([[2.0]]), np.ones((2, 1))
    >>> wb.grad(lambda q: np.sum(wl.solve_sylvester(a, b, q)))(q)
    array([[0.33333333],
           [0.25      ]])
    """
    return _sylvester(matrix(a, square=True), matrix(b, square=True), matrix(q))


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Array:
    """`scipy.linalg.solve_continuous_lyapunov`: ``a x + x aᴴ = q``."""
    a, q = matrix(a, square=True), matrix(q, square=True)
    return _sylvester(a, hermitian(a), q)


#: SciPy's older name.
solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(
    a: ArrayLike, q: ArrayLike, method: str | None = None
) -> Array:
    """`scipy.linalg.solve_discrete_lyapunov`: ``a x aᴴ - x + q = 0``."""
    a, q = matrix(a, square=True), matrix(q, square=True)
    if method is None:
        method = "bilinear" if shape_of(a)[-1] >= 10 else "direct"
    if method.lower() == "direct":
        whole = np.kron(a, conjugate(a))
        flat = np.linalg.solve(eye_like(whole) - whole, np.reshape(q, (-1,)))
        return np.reshape(flat, shape_of(q))
    if method.lower() != "bilinear":
        raise ValueError(f"Unknown solver {method}; write 'direct' or 'bilinear'")
    eye, turned = eye_like(a), hermitian(a)
    inverse = np.linalg.inv(turned + eye)
    b = (turned - eye) @ inverse
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
    """`scipy.linalg.solve_banded`; the gradient has the form of the band."""
    ab = matrix(ab, check_finite)
    b, vector = right_side(b, check_finite)
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
    """`scipy.linalg.solveh_banded`; solved by LU, so it need not be definite."""
    ab = matrix(ab, check_finite)
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
    """`scipy.linalg.solve_toeplitz`, by the whole matrix: cubic time, stable."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    c = floating(c, check_finite)
    whole = toeplitz(c, None if r is None else floating(r, check_finite))
    b, vector = right_side(b, check_finite)
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
    """`scipy.linalg.solve_circulant`, of a vector ``c``, by the whole matrix."""
    c = floating(c)
    b, vector = right_side(b)
    if len(shape_of(c)) != 1 or (caxis, baxis, outaxis) != (-1, 0, 0):
        raise ValueError(
            "solve_circulant of a stack: write it for one vector c and put"
            " workbench.vmap around it"
        )
    whole = circulant(c)
    if singular == "raise":
        y = np.linalg.solve(whole, b)
    else:
        y = inverses.least_squares(whole, b, number(tol))
    return y[..., 0] if vector else y
