"""Eigenvalues, eigenvectors and singular values.

What holds for repeated ones stands in the docstrings of `numpy.linalg.eigh`, `eig`
and `svd` as this library has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.errors import NotDifferentiableError
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.linalg import factors, triangular
from workbench.ops.linalg.shared import complete, hermitian
from workbench.ops.linalg.singular import singular_values
from workbench.ops.linalg.singular import svd as _svd
from workbench.ops.linalg.spectra import eig as _eig
from workbench.ops.linalg.spectra import eigh as _eigh
from workbench.ops.linalg.spectra import eigvals as _eigvals
from workbench.ops.linalg.spectra import eigvalsh as _eigvalsh
from workbench.scipy.linalg.checks import floating, matrix, with_values

__all__ = [
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "svd",
    "svdvals",
]


def _pencil(a: Any, b: Any, check_finite: bool) -> Any:
    """The matrix whose eigenvalues are those of ``a v = w b v``."""
    a = matrix(a, check_finite, square=True)
    if b is None:
        return a
    return np.linalg.solve(matrix(b, check_finite, square=True), a)


def _complex(x: Any) -> Any:
    kind = np.result_type(dtype_of(x), np.complex64)
    return x if dtype_of(x) == kind else np.astype(x, kind)


def eigvals(
    a: Any,
    b: Any = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """`scipy.linalg.eigvals`, always complex; with ``b`` those of ``b⁻¹ a``."""
    _refuse("homogeneous_eigvals=True", "w, with b", homogeneous_eigvals)
    return _complex(_eigvals(_pencil(a, b, check_finite)))


def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
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
            f"scipy.linalg.eig(..., {what}){blame.here()} has no derivative here."
            f" Write {cure}."
        )


def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
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
            vectors = triangular.triangular(hermitian(root), vectors, False)
    if subset_by_index is None and subset_by_value is None:
        return values, vectors
    chosen = _subset(values, subset_by_index, subset_by_value)
    return values[..., chosen], vectors[..., chosen]


def _reduced(a: Any, root: Any, type: int) -> Any:
    """The Hermitian matrix with the eigenvalues of a generalised problem."""
    if type not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    if type > 1:  # a b v = w v, b a v = w v
        return hermitian(root) @ a @ root
    half = triangular.triangular(root, a, True)
    return hermitian(triangular.triangular(root, hermitian(half), True))


def _subset(values: Any, by_index: Any, by_value: Any) -> slice:
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
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
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
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
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
    d: Any,
    e: Any,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """`scipy.linalg.eigvalsh_tridiagonal`, by the whole matrix."""
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """`scipy.linalg.svd`."""
    made = _svd(matrix(a, check_finite), full_matrices, compute_uv)
    return tuple(made) if compute_uv else made


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """`scipy.linalg.svdvals`."""
    return singular_values(matrix(a, check_finite))
