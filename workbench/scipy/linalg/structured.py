"""Matrices made of vectors and blocks: toeplitz, hankel, block_diag and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.dims import (
    broadcast_shapes,
    is_always_less,
    is_zero_length,
    largest,
    smallest,
)
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike
from workbench.ops.define import admit_all, dtype_of, list_indices, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.shaping import broadcast_to

__all__ = [
    "block_diag",
    "circulant",
    "companion",
    "convolution_matrix",
    "diagsvd",
    "fiedler",
    "hankel",
    "khatri_rao",
    "leslie",
    "matmul_toeplitz",
    "toeplitz",
]


def _to_line(x: ArrayLike, name: str) -> Array:
    x = admit(x)
    shape = shape_of(x)
    if not shape:
        x = np.reshape(x, (1,)) if hasattr(x, "dtype") else np.atleast_1d(x)
    elif is_zero_length(shape[-1]):
        raise ValueError(f"{name} of shape {shape} has no entries")
    return x


def _gather_entries(
    values: Array, rows: int, columns: int, first: int, down: int, across: int = 1
) -> Array:
    """Return a matrix with the entries ``values[first + down * i + across * j]``."""
    i, j = list_indices(rows)[:, None], list_indices(columns)
    return values[..., first + down * i + across * j]


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return a Toeplitz matrix, as `scipy.linalg.toeplitz` does.

    Parameters
    ----------
    c
        The first column; stacks of vectors give stacks of matrices.
    r
        The first row, whose first entry is ignored; by default ``conj(c)``.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.scipy.linalg as wl
    >>> wb.grad(lambda c: np.sum(wl.toeplitz(c)))(np.ones(3))
    array([3., 4., 2.])
    """
    c = _to_line(c, "c")
    r = conjugate(c) if r is None else _to_line(r, "r")
    rows, columns = shape_of(c)[-1], shape_of(r)[-1]
    values = np.concatenate([np.flip(c, -1), r[..., 1:]], axis=-1)
    return _gather_entries(values, rows, columns, rows - 1, -1)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return a Hankel matrix of first column ``c`` and last row ``r``."""
    c = _to_line(c, "c")
    r = np.zeros_like(c) if r is None else _to_line(r, "r")
    values = np.concatenate([c, r[..., 1:]], axis=-1)
    return _gather_entries(values, shape_of(c)[-1], shape_of(r)[-1], 0, 1)


def circulant(c: ArrayLike) -> Array:
    """Return a circulant matrix of first column ``c``."""
    c = _to_line(c, "c")
    n = shape_of(c)[-1]
    values = np.concatenate([np.flip(c, -1), np.flip(c, -1)[..., :-1]], axis=-1)
    return _gather_entries(values, n, n, n - 1, -1)


def companion(a: ArrayLike) -> Array:
    """Return the companion matrix of a polynomial's coefficients, the highest first."""
    a = _to_line(a, "a")
    n = shape_of(a)[-1]
    if is_always_less(n, 2):
        raise ValueError(f"the length of a must be 2 or more, not {n}")
    loop = shape_of(a)[:-1]
    row = np.reshape(-a[..., 1:] / a[..., 0][..., None], (*loop, 1, n - 1))
    below = np.identity(n - 1, dtype=row.dtype, like=row)[:-1]
    below = np.broadcast_to(below, (*loop, n - 2, n - 1))
    return np.concatenate([row, below], axis=-2)


def block_diag(*arrs: Any) -> Array:
    """Return blocks along the diagonal of a matrix: `scipy.linalg.block_diag`.

    Examples
    --------
    >>> import numpy as np, workbench.scipy.linalg as wl
    >>> wl.block_diag(np.ones((1, 2)), 3.0)
    array([[1., 1., 0.],
           [0., 0., 3.]])
    """
    blocks = [np.atleast_2d(x) for x in admit_all(arrs)] or [
        np.zeros((1, 0))  # host array: of no block at all
    ]
    loop = broadcast_shapes(*(shape_of(x)[:-2] for x in blocks))
    dtype = np.result_type(*(dtype_of(x) for x in blocks))
    width = sum(shape_of(x)[-1] for x in blocks)
    zero = np.zeros_like(blocks[0], dtype=dtype, shape=(1, 1))
    rows, before = [], 0
    for x in blocks:
        shape = shape_of(x)
        x = broadcast_to(x, (*loop, *shape[-2:]))
        after = width - before - shape[-1]
        left, right = (
            broadcast_to(zero, (*loop, shape[-2], n)) for n in (before, after)
        )
        rows.append(np.concatenate([left, x, right], axis=-1))
        before += shape[-1]
    return np.concatenate(rows, axis=-2)


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker products of columns: `scipy.linalg.khatri_rao`."""
    a, b = admit(a), admit(b)
    (*loop, m, n), (*other, k, width) = shape_of(a), shape_of(b)
    if n != width:
        raise ValueError(f"{n} columns of a, {width} of b; they must be equal")
    made = a[..., :, None, :] * b[..., None, :, :]
    return np.reshape(made, (*broadcast_shapes(tuple(loop), tuple(other)), m * k, n))


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrix that convolves a vector of length ``n`` as a product.

    Parameters
    ----------
    a
        The vector, or stack of vectors, to convolve with.
    n
        The length of the other vector, and the number of columns.
    mode
        ``"full"``, ``"valid"`` or ``"same"``, as of `numpy.convolve`.
    """
    a = _to_line(a, "a")
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if mode not in ("full", "valid", "same"):
        raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")
    m = shape_of(a)[-1]
    rest = np.zeros_like(a[..., :1], shape=(*shape_of(a)[:-1], n - 1))
    padded = np.concatenate([rest, a, rest], axis=-1)
    # Entry i, j of the full matrix is a[i - j].
    first, count = 0, m + n - 1
    if mode == "same":
        first, count = (smallest(n, m) - 1) // 2, largest(n, m)
    elif mode == "valid":
        first, count = smallest(n, m) - 1, largest(n, m) - smallest(n, m) + 1
    return _gather_entries(padded, count, n, n - 1 + first, 1, -1)


def matmul_toeplitz(
    c_or_cr: Any, x: ArrayLike, check_finite: bool = False, workers: int | None = None
) -> Array:
    """Multiply a Toeplitz matrix, which is formed, by ``x``."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return toeplitz(c, r) @ admit(x)


def diagsvd(s: ArrayLike, M: int, N: int) -> Array:
    """Return an M by N matrix with singular values on its diagonal."""
    whole = np.diag(admit(s))
    few = shape_of(whole)[-1]
    if few not in (M, N):
        raise ValueError("Length of s must be M or N.")
    tall = np.concatenate([whole, np.zeros_like(whole, shape=(M - few, few))], axis=0)
    return np.concatenate([tall, np.zeros_like(whole, shape=(M, N - few))], axis=1)


def fiedler(a: ArrayLike) -> Array:
    """Return the distances of all pairs of entries: `scipy.linalg.fiedler`."""
    a = np.atleast_1d(admit(a))
    return np.abs(a[..., :, None] - a[..., None, :])


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return the Leslie matrix of fecundities ``f`` and survival rates ``s``."""
    f, s = np.atleast_1d(admit(f)), np.atleast_1d(admit(s))
    n = shape_of(f)[-1]
    if shape_of(s)[-1] != n - 1:
        raise ValueError(f"s has {shape_of(s)[-1]} entries; it must have {n - 1}")
    below = np.identity(n - 1, dtype=dtype_of(s), like=s) * s[..., :, None]
    column = np.zeros_like(below[..., :1])
    below = np.concatenate([below, column], axis=-1)
    return np.concatenate([f[..., None, :], below], axis=-2)
