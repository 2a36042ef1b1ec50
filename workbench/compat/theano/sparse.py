"""`theano.sparse`: products with sparse matrices that are constants.

A sparse matrix of SciPy's takes part as it is. Symbols of sparse matrices are not
known: how many entries such a matrix has would have to be one too.
"""

from __future__ import annotations

from typing import Any, NoReturn

from workbench.compat.theano.tensor.lifting import lift
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError

__all__ = [
    "as_sparse_variable",
    "csc_matrix",
    "csr_matrix",
    "dense_from_sparse",
    "dot",
    "structured_dot",
]

NO_SYMBOLS = (
    "Use a sparse array of SciPy's as a constant (S @ x), or differentiate a function"
    " of it: wb.grad(f)(S), where f may take S as an argument."
)


def dot(x: Any, y: Any) -> Array:
    """Return the product of two matrices, of which one is sparse."""
    return lift(x @ y)


structured_dot = dot


def dense_from_sparse(x: Any) -> Array:
    """Return a sparse matrix of SciPy's as a constant with all its entries."""
    return lift(as_sparse_variable(x).toarray())


def as_sparse_variable(x: ArrayLike, name: str | None = None) -> Any:
    """Return a SciPy sparse matrix unchanged, and refuse anything else."""
    if not hasattr(x, "tocsr"):
        cure = "Make one of an array: scipy.sparse.csr_matrix(x)."
        if isinstance(x, Tensor):
            cure = NO_SYMBOLS
        raise UsageError(
            f"as_sparse_variable: {x!r} is not a SciPy sparse matrix. {cure}"
        )
    return x


def _refuse(kind: str) -> Any:
    def refuse(*args: Any, **settings: Any) -> NoReturn:
        raise UsageError(
            f"sparse.{kind}: symbols of sparse matrices are not known. {NO_SYMBOLS}"
        )

    refuse.__name__ = kind
    return refuse


csr_matrix = _refuse("csr_matrix")
csc_matrix = _refuse("csc_matrix")
