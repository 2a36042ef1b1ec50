"""Factors of a matrix: Cholesky, LU, QR, polar, and solutions by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import swap
from workbench.ops.define import shape_of
from workbench.ops.linalg import factors, triangular
from workbench.ops.linalg.shared import hermitian, matrices, stacked
from workbench.scipy.linalg.checks import floating, matrix, right_side

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "lu",
    "lu_factor",
    "lu_solve",
    "orthogonal_procrustes",
    "polar",
    "qr",
]


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """`scipy.linalg.cholesky`; the gradient lies in the triangle that it reads."""
    a = matrix(a, check_finite, square=True)
    return factors.cholesky(a, upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """`scipy.linalg.cho_factor`: the factor, beside what ``a`` holds there."""
    a = matrix(a, check_finite, square=True)
    c = factors.cholesky(a, upper=not lower)
    return c + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: Any,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """`scipy.linalg.cho_solve`, by the result of `cho_factor`.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.diag([2.0, 4.0])
    >>> wb.grad(lambda b: np.sum(wl.cho_solve(wl.cho_factor(a), b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    c, lower = c_and_lower
    c = matrix(c, check_finite, square=True)
    b, vector = right_side(b, check_finite)
    first = c if lower else hermitian(c)
    y = triangular.triangular(first, b, True)
    y = triangular.triangular(hermitian(first), y, False)
    return y[..., 0] if vector else y


def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """`scipy.linalg.lu`, of matrices of any shape whose leading blocks have inverses.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> wb.grad(lambda a: wl.lu(a)[2][1, 1])(a)  # a[1, 1] - a[1, 0] a[0, 1] / a[0, 0]
    array([[ 0.25, -0.5 ],
           [-0.5 ,  1.  ]])
    """
    p, low, up = triangular.lu(matrix(a, check_finite))
    if permute_l:
        return p @ low, up
    if p_indices:
        return np.astype(np.argmax(p, axis=-1), np.int32), low, up
    return p, low, up


def lu_factor(
    a: Any, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """`scipy.linalg.lu_factor`: both factors in one matrix, and the row swaps."""
    p, low, up = triangular.lu(matrix(a, check_finite))
    (*loop, rows, few), columns = shape_of(low), shape_of(up)[-1]
    below = np.tril(low, -1)
    if columns > few:
        rest = np.zeros_like(below, shape=(*loop, rows, columns - few))
        below = np.concatenate([below, rest], axis=-1)
    if rows > few:
        rest = np.zeros_like(up, shape=(*loop, rows - few, columns))
        up = np.concatenate([up, rest], axis=-2)
    return below + up, triangular.pivots(p, few)


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """`scipy.linalg.lu_solve`, by the result of `lu_factor` of one matrix."""
    whole, swaps = lu_and_piv
    whole = matrix(whole, check_finite, square=True)
    b, vector = right_side(b, check_finite)
    if len(shape_of(whole)) != 2:
        raise ValueError(
            f"lu_solve: the factors have shape {shape_of(whole)}; write it for one"
            " matrix and put workbench.vmap around it"
        )
    if trans not in (0, 1, 2):
        raise ValueError(f"trans={trans!r}; write 0, 1 or 2")
    order = triangular.permutation(swaps)
    solve = triangular.triangular
    if trans == 0:
        y = solve(
            whole,
            solve(whole, np.take_along_axis(b, order[:, None], axis=0), True, True),
            False,
        )
    else:
        turned = swap(whole) if trans == 1 else hermitian(whole)
        y = solve(turned, solve(turned, b, True), False, True)
        y = np.take_along_axis(y, np.argsort(order)[:, None], axis=0)
    return y[..., 0] if vector else y


# The order of columns that pivoting finds; integers, through which nothing flows


def _column_order(x: Any) -> Any:
    flat = np.reshape(x, (-1, *x.shape[-2:]))
    rows = [scipy.linalg.qr(m, mode="r", pivoting=True)[1] for m in flat]
    return np.reshape(np.stack(rows), (*x.shape[:-2], x.shape[-1]))


def _column_order_infer(x: Any) -> Spec:
    spec = matrices(x)
    return Spec((*spec.shape[:-2], spec.shape[-1]), np.dtype(np.int32))


ORDER = stacked(declare("pivoted_columns"))
ORDER.compute, ORDER.infer = _column_order, _column_order_infer


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """`scipy.linalg.qr`, of a matrix of full rank; see `numpy.linalg.qr`.

    Raises
    ------
    ValueError
        For ``mode="raw"``, whose Householder vectors have no derivative here.
    """
    a = matrix(a, check_finite)
    if mode not in ("full", "r", "economic"):
        raise ValueError(
            f"qr: mode {mode!r}; write 'full', 'r' or 'economic' ('raw' has no"
            " derivative here)"
        )
    order: tuple[Any, ...] = ()
    if pivoting:
        order = (apply(ORDER, (a,)),)
        a = np.take_along_axis(a, order[0][..., None, :], axis=-1)
    q, r = factors.qr(a, "reduced" if mode == "economic" else "complete")
    return (r, *order) if mode == "r" else (q, r, *order)


def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """`scipy.linalg.polar`: the nearest matrix with orthonormal columns, and the rest.

    Right for repeated singular values too; NaN for a square matrix of less than full
    rank, whose polar factor is not determined.
    """
    a = matrix(a)
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    nearest = u @ vh
    rest = hermitian(nearest) @ a if side == "right" else a @ hermitian(nearest)
    return nearest, rest


def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """`scipy.linalg.orthogonal_procrustes`."""
    A, B = floating(A, check_finite), floating(B, check_finite)
    if len(shape_of(A)) != 2 or shape_of(A) != shape_of(B):
        raise ValueError(
            f"the shapes of A and B differ or are not those of matrices: {shape_of(A)}"
            f" and {shape_of(B)}"
        )
    u, s, vh = np.linalg.svd(swap(swap(B) @ conjugate(A)), full_matrices=False)
    return u @ vh, np.sum(s)
