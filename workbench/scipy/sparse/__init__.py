"""`scipy.sparse` with Tensors: the same names, and sparse arrays that are traced.

A sparse array of SciPy that is differentiated by, or that meets a Tensor, needs
nothing from here: its operators and methods do. These functions make sparse arrays of
stored values, blocks or diagonals that are Tensors. Every other name is SciPy's own.

The gradient with respect to a sparse array is one of the same class, with the same
entries stored; it says nothing of the entries that are not stored. A Jacobian has an
axis for the stored values in their order, ``S.data``. Entries that cancel stay stored.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import sparse
>>> def energy(k):
...     chain = sparse.diags_array([2 * k, -k[1:], -k[1:]], offsets=[0, 1, -1])
...     return np.sum(chain @ np.array([1.0, 2.0, 4.0]))
>>> wb.grad(energy)(np.ones(3))
array([2., 1., 2.])
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy.typing as npt

from workbench.core.tree import is_sparse
from workbench.core.types import ArrayLike
from workbench.ops.sparse import stacking
from workbench.ops.sparse.pattern import move_entries
from workbench.ops.sparse.stacking import block_diag, find, kron, kronsum

__all__ = [
    "block_array",
    "block_diag",
    "bmat",
    "bsr_array",
    "bsr_matrix",
    "coo_array",
    "coo_matrix",
    "csc_array",
    "csc_matrix",
    "csr_array",
    "csr_matrix",
    "dia_array",
    "dia_matrix",
    "diags",
    "diags_array",
    "find",
    "hstack",
    "issparse",
    "kron",
    "kronsum",
    "tril",
    "triu",
    "vstack",
]

bsr_array = stacking.constructor("bsr_array")
bsr_matrix = stacking.constructor("bsr_matrix")
coo_array = stacking.constructor("coo_array")
coo_matrix = stacking.constructor("coo_matrix")
csc_array = stacking.constructor("csc_array")
csc_matrix = stacking.constructor("csc_matrix")
csr_array = stacking.constructor("csr_array")
csr_matrix = stacking.constructor("csr_matrix")
dia_array = stacking.constructor("dia_array")
dia_matrix = stacking.constructor("dia_matrix")


def vstack(
    blocks: Sequence[Any], format: str | None = None, dtype: npt.DTypeLike | None = None
) -> Any:
    """Stack sparse arrays on top of each other, as `scipy.sparse.vstack` does."""
    return stacking.stack("vstack", blocks, format, dtype)


def hstack(
    blocks: Sequence[Any], format: str | None = None, dtype: npt.DTypeLike | None = None
) -> Any:
    """Stack sparse arrays side by side, as `scipy.sparse.hstack` does."""
    return stacking.stack("hstack", blocks, format, dtype)


def block_array(
    blocks: Any, *, format: str | None = None, dtype: npt.DTypeLike | None = None
) -> Any:
    """Make a sparse array of blocks, as `scipy.sparse.block_array` does.

    Parameters
    ----------
    blocks
        Rows of sparse arrays; None is a block of zeros.
    format, dtype
        Those of the result.
    """
    return stacking.block_array("block_array", blocks, format, dtype)


def bmat(
    blocks: Any, format: str | None = None, dtype: npt.DTypeLike | None = None
) -> Any:
    """Make a sparse matrix of blocks, as `scipy.sparse.bmat` does."""
    return stacking.block_array("bmat", blocks, format, dtype)


def diags_array(
    diagonals: Any,
    /,
    *,
    offsets: Any = 0,
    shape: tuple[int, int] | None = None,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Any:
    """Make a sparse array of diagonals, which may be Tensors: `diags_array` of SciPy.

    Parameters
    ----------
    diagonals
        One array for each diagonal.
    offsets
        Which diagonals they are; 0 is the main one, positive ones lie above it.
    shape, format, dtype
        Those of the result.
    """
    return stacking.diagonals("diags_array", diagonals, offsets, shape, format, dtype)


def diags(
    diagonals: Any,
    offsets: Any = 0,
    shape: tuple[int, int] | None = None,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Any:
    """Make a sparse matrix of diagonals, which may be Tensors: `diags` of SciPy."""
    return stacking.diagonals("diags", diagonals, offsets, shape, format, dtype)


def tril(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the entries on the ``k``-th diagonal and below."""
    return _select_triangle("tril", A, k, format)


def triu(A: Any, k: int = 0, format: str | None = None) -> Any:
    """Return the entries on the ``k``-th diagonal and above."""
    return _select_triangle("triu", A, k, format)


def _select_triangle(name: str, a: Any, k: int, format: str | None) -> Any:
    import scipy.sparse

    function = getattr(scipy.sparse, name)
    if not stacking.holds_tensor(a):
        return function(a, k, format)
    return move_entries(lambda s: function(s, k, format), a)


def issparse(x: ArrayLike) -> bool:
    """Return whether ``x`` is a sparse array, traced or not."""
    return is_sparse(x)


def __getattr__(name: str) -> Any:
    import scipy.sparse

    if name.startswith("__"):
        raise AttributeError(name)
    if name == "linalg":
        return import_module(f"{__name__}.linalg")
    return getattr(scipy.sparse, name)
