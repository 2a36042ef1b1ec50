"""A sparse array as part of a nest of arguments: what `core/tree.py` asks for."""

from __future__ import annotations

from typing import Any

from workbench.core import hooks
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops.sparse.entries import made_of, taken
from workbench.ops.sparse.pattern import Pattern
from workbench.ops.sparse.tensor import operate

__all__ = ["build"]


def build(data: Any, pattern: Pattern) -> Any:
    """A sparse array of a nest, around what has come for its values.

    What is not of their shape is no sparse array: the block of a Jacobian, a batch.
    """
    shape = getattr(data, "shape", None)
    if shape == pattern.data_shape:
        return made_of(data, pattern)
    if isinstance(data, Tensor) and data.ndim < len(pattern.data_shape):
        raise UsageError(
            f"vmap over the stored entries of {pattern!r}: a batch of sparse arrays"
            " is one array of stored values per example. Give"
            " in_axes=None for a sparse array that all examples share; for a batch,"
            " pass the values, (examples, stored), and make the array inside with"
            " workbench.scipy.sparse.csr_array((data, indices, indptr), shape)."
        )
    return data


hooks.build_sparse.set(build)
hooks.take_sparse.set(taken)
hooks.operate_sparse.set(operate)
