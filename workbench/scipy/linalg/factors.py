"""Factors of a matrix, eigenvalues and singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from workbench.core import blame
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Array, ArrayLike, Spec
from workbench.errors import NotDifferentiableError
from workbench.ops.contraction import swap
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg import factors, systems
from workbench.ops.linalg.shared import complete, hermitian, matrices, stacked
from workbench.ops.linalg.spectra import eig as _eig
from workbench.ops.linalg.spectra import eigh as _eigh
from workbench.ops.linalg.spectra import eigvals as _eigvals
from workbench.ops.linalg.spectra import eigvalsh as _eigvalsh
from workbench.ops.linalg.spectra import singular_values
from workbench.ops.linalg.spectra import svd as _svd
from workbench.scipy.linalg.arguments import floating, matrix, right_side, with_values

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "lu",
    "lu_factor",
    "lu_solve",
    "orthogonal_procrustes",
    "polar",
    "qr",
    "svd",
    "svdvals",
]


def cholesky(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Array:
    """`scipy.linalg.cholesky`; the gradient lies in the triangle that it reads."""
    a = matrix(a, check_finite, square=True)
    return factors.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Array, bool]:
    """`scipy.linalg.cho_factor`: the factor, beside what ``a`` holds there."""
    a = matrix(a, check_finite, square=True)
    c = factors.cholesky(a, upper=not lower)
    return c + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
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
    y = systems.triangular(first, b, True)
    y = systems.triangular(hermitian(first), y, False)
    return y[..., 0] if vector else y


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:
    """`scipy.linalg.lu`, of matrices of any shape whose leading blocks have inverses.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> wb.grad(lambda a: wl.lu(a)[2][1, 1])(a)  # a[1, 1] - a[1, 0] a[0, 1] / a[0, 0]
    array([[ 0.25, -0.5 ],
           [-0.5 ,  1.  ]])
    """
    p, low, up = systems.lu(matrix(a, check_finite))
    if permute_l:
        return p @ low, up
    if p_indices:
        return np.astype(np.argmax(p, axis=-1), np.int32), low, up
    return p, low, up


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """`scipy.linalg.lu_factor`: both factors in one matrix, and the row swaps."""
    p, low, up = systems.lu(matrix(a, check_finite))
    (*loop, rows, few), columns = shape_of(low), shape_of(up)[-1]
    below = np.tril(low, -1)
    if columns > few:
        rest = np.zeros_like(below, shape=(*loop, rows, columns - few))
        below = np.concatenate([below, rest], axis=-1)
    if rows > few:
        rest = np.zeros_like(up, shape=(*loop, rows - few, columns))
        up = np.concatenate([up, rest], axis=-2)
    return below + up, systems.pivots(p, few)


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
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
    order = systems.permutation(swaps)
    solve = systems.triangular
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


def _column_order(x: Array) -> Array:
    flat = np.reshape(x, (-1, *x.shape[-2:]))
    rows = [scipy.linalg.qr(m, mode="r", pivoting=True)[1] for m in flat]
    return np.reshape(np.stack(rows), (*x.shape[:-2], x.shape[-1]))


def _column_order_infer(x: Array) -> Spec:
    spec = matrices(x)
    return Spec((*spec.shape[:-2], spec.shape[-1]), np.dtype(np.int32))


ORDER = stacked(declare("pivoted_columns"))
ORDER.helper = '''\
def pivoted_columns(x):
    """The order in which QR with pivoting takes the columns."""
    orders = np.zeros((*x.shape[:-2], x.shape[-1]), np.int32)
    for at in np.ndindex(x.shape[:-2]):
        orders[at] = linalg.qr(x[at], mode="r", pivoting=True)[1]
    return orders
'''
ORDER.compute, ORDER.infer = _column_order, _column_order_infer


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: object = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
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


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
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


def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True
) -> tuple[Array, Array]:
    """`scipy.linalg.orthogonal_procrustes`."""
    A, B = floating(A, check_finite), floating(B, check_finite)
    if len(shape_of(A)) != 2 or shape_of(A) != shape_of(B):
        raise ValueError(
            f"the shapes of A and B differ or are not those of matrices: {shape_of(A)}"
            f" and {shape_of(B)}"
        )
    u, s, vh = np.linalg.svd(swap(swap(B) @ conjugate(A)), full_matrices=False)
    return u @ vh, np.sum(s)


# Eigenvalues, eigenvectors and singular values.
#
# What holds for repeated ones stands in the docstrings of `numpy.linalg.eigh`, `eig`
# and `svd` as this library has them.


def _pencil(a: ArrayLike, b: ArrayLike | None, check_finite: bool) -> Array:
    """Return the matrix whose eigenvalues are those of ``a v = w b v``."""
    a = matrix(a, check_finite, square=True)
    if b is None:
        return a
    return np.linalg.solve(matrix(b, check_finite, square=True), a)


def _complex(x: Array) -> Array:
    kind = np.result_type(dtype_of(x), np.complex64)
    return x if dtype_of(x) == kind else x.astype(kind)


def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array:
    """`scipy.linalg.eigvals`, always complex; with ``b`` those of ``b⁻¹ a``."""
    _refuse("homogeneous_eigvals=True", "w, with b", homogeneous_eigvals)
    return _complex(_eigvals(_pencil(a, b, check_finite)))


def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array | tuple[Array, Array]:
    """`scipy.linalg.eig`; with ``b`` those of ``b⁻¹ a``, in the order of these.

    Raises
    ------
    NotDifferentiableError
        For left eigenvectors, whose phases LAPACK chooses apart.
    """
    _refuse("left=True", "np.linalg.inv(vr).conj().T", left)
    _refuse("homogeneous_eigvals=True", "w, with b", homogeneous_eigvals)
    whole = _pencil(a, b, check_finite)
    if not right:
        return _complex(_eigvals(whole))
    values, vectors = _eig(whole)
    return _complex(values), vectors


def _refuse(what: str, cure: str, asked: bool) -> None:
    if asked:
        raise NotDifferentiableError(
            f"scipy.linalg.eig(..., {what}){blame.user_line()} has no derivative here."
            f" Write {cure}."
        )


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
) -> Any:
    """`scipy.linalg.eigh`, the generalised problem included (by Cholesky of ``b``).

    The gradient lies in the triangle that ``lower`` names. A subset is taken from the
    whole spectrum.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a, b = np.diag([1.0, 6.0]), np.diag([1.0, 2.0])
    >>> wb.grad(lambda b: wl.eigh(a, b)[0][1])(b).round(12)
    array([[ 0. ,  0. ],
           [ 0. , -1.5]])
    """
    a = matrix(a, check_finite, square=True)
    if subset_by_index is not None and subset_by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    root = None
    if b is not None:
        b = matrix(b, check_finite, square=True)
        root = factors.cholesky(b if lower else complete(b, False))
        a = _reduced(complete(a, lower), root, type)
        lower = True
    which = "L" if lower else "U"
    if eigvals_only:
        values = _eigvalsh(a, which)
        return values[..., _subset(values, subset_by_index, subset_by_value)]
    values, vectors = _eigh(a, which)
    if root is not None:
        if type == 3:
            vectors = root @ vectors
        else:
            vectors = systems.triangular(hermitian(root), vectors, False)
    if subset_by_index is None and subset_by_value is None:
        return values, vectors
    chosen = _subset(values, subset_by_index, subset_by_value)
    return values[..., chosen], vectors[..., chosen]


def _reduced(a: Array, root: Array, type: int) -> Array:
    """Return the Hermitian matrix with the eigenvalues of a generalised problem."""
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    if type > 1:  # a b v = w v, b a v = w v
        return hermitian(root) @ a @ root
    half = systems.triangular(root, a, True)
    return hermitian(systems.triangular(root, hermitian(half), True))


def _subset(
    values: Array, by_index: Sequence[int] | None, by_value: Sequence[float] | None
) -> slice:
    if by_index is not None:
        first, last = map(int, by_index)
        n = shape_of(values)[-1]
        if not 0 <= first <= last < n:
            raise ValueError(
                "Requested eigenvalue indices are not valid. Valid range is"
                f" [0, {n - 1}] and start <= end, but start={first}, end={last}"
            )
        return slice(first, last + 1)
    if by_value is not None:
        low, high = by_value
        known = with_values(values, "eigh(..., subset_by_value=...)")
        inside = np.flatnonzero((known > low) & (known <= high))
        if not len(inside):
            return slice(0, 0)
        return slice(int(inside[0]), int(inside[-1]) + 1)
    return slice(None)


def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
) -> Array:
    """`scipy.linalg.eigvalsh`, the generalised problem included."""
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        check_finite=check_finite,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Sequence[int] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """`scipy.linalg.eigh_tridiagonal`, by the whole matrix.

    Raises
    ------
    ValueError
        For ``select="v"``; take a slice of the whole spectrum.
    """
    if select not in ("a", "i"):
        raise ValueError(f"select={select!r}; write 'a' or 'i' and take a slice")
    d, e = floating(d, check_finite), floating(e, check_finite)
    subset = select_range if select == "i" else None
    whole = np.diag(d) + np.diag(e, -1)
    return eigh(whole, eigvals_only=eigvals_only, subset_by_index=subset)


def eigvalsh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    select: str = "a",
    select_range: Sequence[int] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Array:
    """`scipy.linalg.eigvalsh_tridiagonal`, by the whole matrix."""
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, ...]:
    """`scipy.linalg.svd`."""
    made = _svd(matrix(a, check_finite), full_matrices, compute_uv)
    return tuple(made) if compute_uv else made


def svdvals(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """`scipy.linalg.svdvals`."""
    return singular_values(matrix(a, check_finite))
