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
from workbench.ops.device import leave_device
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg import factors, systems
from workbench.ops.linalg.shared import complete, hermitian, matrices, stacked
from workbench.ops.linalg.singular import singular_values
from workbench.ops.linalg.singular import svd as _svd
from workbench.ops.linalg.spectra import eig as _eig
from workbench.ops.linalg.spectra import eigh as _eigh
from workbench.ops.linalg.spectra import eigvals as _eigvals
from workbench.ops.linalg.spectra import eigvalsh as _eigvalsh
from workbench.scipy.linalg.arguments import (
    require_floats,
    require_matrix,
    require_right_side,
    require_value,
)

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
    """Return the Cholesky factor of a positive definite matrix.

    Parameters
    ----------
    a
        A Hermitian matrix; the gradient lies in the triangle that is read.
    lower
        Whether to read the lower triangle and return the lower factor.
    overwrite_a
        Accepted; nothing is overwritten.
    check_finite
        Whether to refuse NaN and infinity.

    Raises
    ------
    MatrixError
        If the matrix is not positive definite.
    """
    a = require_matrix(a, check_finite, square=True)
    return factors.cholesky(a, upper=not lower)


def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Array, bool]:
    """Return the Cholesky factor for `cho_solve`, and the flag of its triangle.

    The other triangle holds the entries of ``a``, as in SciPy.
    """
    a = require_matrix(a, check_finite, square=True)
    c = factors.cholesky(a, upper=not lower)
    return c + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a system by the result of `cho_factor`: `scipy.linalg.cho_solve`.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.diag([2.0, 4.0])
    >>> wb.grad(lambda b: np.sum(wl.cho_solve(wl.cho_factor(a), b)))(np.ones(2))
    array([0.5 , 0.25])
    """
    c, lower = c_and_lower
    c = require_matrix(c, check_finite, square=True)
    b, vector = require_right_side(b, check_finite)
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
    """Return the factors of ``a = p @ l @ u``, as `scipy.linalg.lu` does.

    Parameters
    ----------
    a
        A matrix of any shape whose leading blocks have inverses.
    permute_l
        Whether to return ``(p @ l, u)``.
    overwrite_a
        Accepted; nothing is overwritten.
    check_finite
        Whether to refuse NaN and infinity.
    p_indices
        Whether to return the rows' order as integers in place of ``p``.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a = np.array([[4.0, 2.0], [2.0, 3.0]])
    >>> wb.grad(lambda a: wl.lu(a)[2][1, 1])(a)  # a[1, 1] - a[1, 0] a[0, 1] / a[0, 0]
    array([[ 0.25, -0.5 ],
           [-0.5 ,  1.  ]])
    """
    p, low, up = systems.lu(require_matrix(a, check_finite))
    if permute_l:
        return p @ low, up
    if p_indices:
        return np.astype(np.argmax(p, axis=-1), np.int32), low, up
    return p, low, up


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Return both LU factors in one matrix, and the row swaps, for `lu_solve`."""
    p, low, up = systems.lu(require_matrix(a, check_finite))
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
    """Solve a system by the result of `lu_factor` of one matrix."""
    whole, swaps = lu_and_piv
    whole = require_matrix(whole, check_finite, square=True)
    b, vector = require_right_side(b, check_finite)
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
        opposite = swap(whole) if trans == 1 else hermitian(whole)
        y = solve(opposite, solve(opposite, b, True), False, True)
        y = np.take_along_axis(y, np.argsort(order)[:, None], axis=0)
    return y[..., 0] if vector else y


# The order of columns that pivoting finds; integers, through which nothing flows


def _order_columns(x: Array) -> Array:
    flat = np.reshape(x, (-1, *x.shape[-2:]))
    rows = [scipy.linalg.qr(m, mode="r", pivoting=True)[1] for m in flat]
    return np.reshape(np.stack(rows), (*x.shape[:-2], x.shape[-1]))


def _infer_column_order(x: Array) -> Spec:
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
ORDER.compute, ORDER.infer = _order_columns, _infer_column_order
leave_device(ORDER, "QR decomposition with pivots")


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: object = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Return the factors of ``a = q @ r``, as `scipy.linalg.qr` does.

    Parameters
    ----------
    a
        A matrix of full rank.
    overwrite_a, lwork
        Accepted; nothing is overwritten.
    mode
        ``"full"``, ``"economic"``, or ``"r"`` for ``r`` alone.
    pivoting
        Whether columns change places, and their order is returned too.
    check_finite
        Whether to refuse NaN and infinity.

    Raises
    ------
    ValueError
        For ``mode="raw"``, whose Householder vectors have no derivative here.
    """
    a = require_matrix(a, check_finite)
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
    """Return the nearest matrix with orthonormal columns, and the other polar factor.

    Right for repeated singular values too; NaN for a square matrix of less than full
    rank, whose polar factor is not determined.
    """
    a = require_matrix(a)
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    nearest = u @ vh
    rest = hermitian(nearest) @ a if side == "right" else a @ hermitian(nearest)
    return nearest, rest


def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True
) -> tuple[Array, Array]:
    """Return the orthogonal R with ``A @ R`` nearest to ``B``, and the scale.

    The scale is the sum of the singular values of ``A.T @ B``.
    """
    A, B = require_floats(A, check_finite), require_floats(B, check_finite)
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


def _reduce_pencil(a: ArrayLike, b: ArrayLike | None, check_finite: bool) -> Array:
    """Return a matrix with the eigenvalues of the pencil ``a v = w b v``."""
    a = require_matrix(a, check_finite, square=True)
    if b is None:
        return a
    return np.linalg.solve(require_matrix(b, check_finite, square=True), a)


def _to_complex(x: Array) -> Array:
    kind = np.result_type(dtype_of(x), np.complex64)
    return x if dtype_of(x) == kind else x.astype(kind)


def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array:
    """Return the eigenvalues, always complex; with ``b`` those of ``b⁻¹ a``."""
    _refuse_option("homogeneous_eigvals=True", "w, with b", homogeneous_eigvals)
    return _to_complex(_eigvals(_reduce_pencil(a, b, check_finite)))


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
    """Return eigenvalues and right eigenvectors; with ``b`` those of ``b⁻¹ a``.

    Raises
    ------
    NotDifferentiableError
        For left eigenvectors, whose phases LAPACK chooses apart.
    """
    _refuse_option("left=True", "np.linalg.inv(vr).conj().T", left)
    _refuse_option("homogeneous_eigvals=True", "w, with b", homogeneous_eigvals)
    whole = _reduce_pencil(a, b, check_finite)
    if not right:
        return _to_complex(_eigvals(whole))
    values, vectors = _eig(whole)
    return _to_complex(values), vectors


def _refuse_option(what: str, cure: str, given: bool) -> None:
    if given:
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
    """Return eigenvalues and eigenvectors of a Hermitian matrix: `scipy.linalg.eigh`.

    Parameters
    ----------
    a
        A Hermitian matrix; the gradient lies in the triangle that is read.
    b
        A positive definite matrix, for ``a v = w b v``; solved by its Cholesky factor.
    lower
        Whether the lower triangle is read.
    eigvals_only
        Whether to return the eigenvalues alone.
    overwrite_a, overwrite_b, driver
        Accepted; nothing is overwritten.
    type
        1 for ``a v = w b v``, 2 for ``a b v = w v``, 3 for ``b a v = w v``.
    check_finite
        Whether to refuse NaN and infinity.
    subset_by_index, subset_by_value
        The first and last index, or the interval, of the eigenvalues to return. They
        are taken from the whole spectrum.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> a, b = np.diag([1.0, 6.0]), np.diag([1.0, 2.0])
    >>> wb.grad(lambda b: wl.eigh(a, b)[0][1])(b).round(12)
    array([[ 0. ,  0. ],
           [ 0. , -1.5]])
    """
    a = require_matrix(a, check_finite, square=True)
    if subset_by_index is not None and subset_by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    root = None
    if b is not None:
        b = require_matrix(b, check_finite, square=True)
        root = factors.cholesky(b if lower else complete(b, False))
        a = _reduce_generalised(complete(a, lower), root, type)
        lower = True
    which = "L" if lower else "U"
    if eigvals_only:
        values = _eigvalsh(a, which)
        return values[..., _select_subset(values, subset_by_index, subset_by_value)]
    values, vectors = _eigh(a, which)
    if root is not None:
        if type == 3:
            vectors = root @ vectors
        else:
            vectors = systems.triangular(hermitian(root), vectors, False)
    if subset_by_index is None and subset_by_value is None:
        return values, vectors
    chosen = _select_subset(values, subset_by_index, subset_by_value)
    return values[..., chosen], vectors[..., chosen]


def _reduce_generalised(a: Array, root: Array, type: int) -> Array:
    """Return the Hermitian matrix with the eigenvalues of a generalised problem."""
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    if type > 1:  # a b v = w v, b a v = w v
        return hermitian(root) @ a @ root
    half = systems.triangular(root, a, True)
    return hermitian(systems.triangular(root, hermitian(half), True))


def _select_subset(
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
        known = require_value(values, "eigh(..., subset_by_value=...)")
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
    """Return the eigenvalues of a Hermitian matrix; its parameters are `eigh`'s."""
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
    """Return eigenvalues and eigenvectors of a tridiagonal matrix, which is formed.

    Raises
    ------
    ValueError
        For ``select="v"``; take a slice of the whole spectrum.
    """
    if select not in ("a", "i"):
        raise ValueError(f"select={select!r}; write 'a' or 'i' and take a slice")
    d, e = require_floats(d, check_finite), require_floats(e, check_finite)
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
    """Return the eigenvalues of a tridiagonal matrix, which is formed."""
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, ...]:
    """Return the singular value decomposition, as `scipy.linalg.svd` does.

    Parameters
    ----------
    a
        A matrix.
    full_matrices
        Whether the factors are square.
    compute_uv
        Whether to return them: ``(u, s, vh)``, else ``s``.
    overwrite_a, lapack_driver
        Accepted; nothing is overwritten.
    check_finite
        Whether to refuse NaN and infinity.
    """
    made = _svd(require_matrix(a, check_finite), full_matrices, compute_uv)
    return tuple(made) if compute_uv else made


def svdvals(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Return the singular values of a matrix, the largest first."""
    return singular_values(require_matrix(a, check_finite))
