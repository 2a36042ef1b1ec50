"""Sparse arrays made of stored values, diagonals and blocks that are Tensors.

Each function takes what SciPy's of the same name takes. Without a Tensor it is
SciPy's; with one, SciPy makes an array of numbers in its place (see `ops/joining.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame, dims
from workbench.core.tensor import Tensor, admit
from workbench.core.tree import is_sparse
from workbench.core.types import Array
from workbench.errors import ShapeError, TraceError
from workbench.ops.define import shape_of
from workbench.ops.sparse.arithmetic import add
from workbench.ops.sparse.pattern import (
    SparseStructure,
    list_entries,
    make_sparse,
    move_entries,
    number_values,
    pattern_of,
    sum_duplicates,
)
from workbench.ops.sparse.pattern import restore_values as with_values
from workbench.ops.sparse.tensor import SparseTensor


def _scipy() -> Any:
    return import_module("scipy.sparse")


def holds_tensor(x: object) -> bool:
    """Return whether a Tensor takes part in an argument."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_tensor, x))
    if isinstance(x, np.ndarray) and x.dtype == object:
        return any(map(holds_tensor, x.ravel().tolist()))
    return isinstance(x, (Tensor, SparseTensor))


def constructor(name: str) -> Callable[..., Any]:
    """Return the maker of arrays of one class of SciPy's, which keeps Tensors."""

    def make(
        arg1: Any,
        shape: Any = None,
        dtype: npt.DTypeLike | None = None,
        copy: bool = False,
    ) -> Any:
        scipy_sparse = _scipy()
        kind = getattr(scipy_sparse, name)
        if not holds_tensor(arg1):
            return kind(arg1, shape=shape, dtype=dtype, copy=copy)
        if isinstance(arg1, SparseTensor):
            made = arg1.asformat(name.partition("_")[0])
        elif isinstance(arg1, tuple) and holds_tensor(arg1[0]):
            made = _of_parts(kind, name, admit(arg1[0]), arg1[1:], shape)
        else:
            raise TraceError(
                f"{name} of a dense Tensor{blame.user_line()}: which of its entries are"
                " stored would depend on values, and those that are 0 would lose their"
                f" gradient. Say which with {name}((values, (rows, columns)), shape)."
            )
        return made if dtype is None else made.astype(dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Make a `scipy.sparse.{name}`; its stored values may be a Tensor.

    ``((values, (rows, columns)), shape)``, the parts of the format, or another
    sparse array; a dense Tensor, whose zeros depend on values, is a TraceError.
    """
    return make


def _of_parts(
    kind: Any, name: str, data: Array, rest: tuple[Any, ...], shape: Any
) -> Any:
    if len(rest) == 1 and not name.startswith(("coo", "dia")):
        # Others would add up the numbers of entries that stand in one place.
        coo = kind.__module__.rpartition("._")[0], name.partition("_")[2]
        made = _of_parts(_class(coo[0], f"coo_{coo[1]}"), "coo", data, rest, shape)
        return made.asformat(name.partition("_")[0])
    if dims.has_dim(shape_of(data)) and not name.startswith("dia"):
        # One value for each place, as the run will find.
        places = rest[0][0] if name.startswith("coo") else rest[0]
        data = np.reshape(data, (len(places),))
    numbers = np.reshape(number_values(data, 0), shape_of(data))
    whole = kind((numbers, *rest), shape=shape)
    pattern, kept = pattern_of(whole)
    pattern.built = None
    if kept.shape != numbers.shape:
        raise ShapeError(
            f"{name}{blame.user_line()}: {numbers.size} values for {kept.size} places."
            " Give one value for each."
        )
    return make_sparse(data, pattern)


def _class(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _as_sparse(block: Any, array: bool = True) -> Any:
    """Return a block as a sparse array; all entries of a dense one are stored."""
    scipy_sparse = _scipy()
    if is_sparse(block):
        return block
    if not isinstance(block, Tensor):
        kind = scipy_sparse.coo_array if array else scipy_sparse.coo_matrix
        return kind(np.atleast_2d(np.asarray(block)))  # host array: a constant
    height, width = ((1, 1) + shape_of(block))[-2:]
    rows, columns = map(np.ravel, np.indices((height, width)))
    kind = scipy_sparse.coo_array
    pattern = SparseStructure(kind, "coo", (height, width), (rows, columns), rows.shape)
    return make_sparse(np.reshape(block, -1), pattern)


def _finish_array(made: Any, format: str | None, dtype: npt.DTypeLike | None) -> Any:
    made = made if format is None else made.asformat(format)
    return made if dtype is None else made.astype(dtype)


def stack(
    name: str, blocks: Sequence[Any], format: str | None, dtype: npt.DTypeLike | None
) -> Any:
    """Stack sparse arrays, as `scipy.sparse.vstack` and `hstack` do."""
    scipy_sparse = _scipy()
    function = getattr(scipy_sparse, name)
    if not holds_tensor(blocks):
        return function(blocks, format=format, dtype=dtype)
    made = move_entries(
        lambda *parts: function(parts, format=format), *map(_as_sparse, blocks)
    )
    return _finish_array(made, None, dtype)


def block_array(
    name: str,
    blocks: Sequence[Sequence[Any]],
    format: str | None,
    dtype: npt.DTypeLike | None,
) -> Any:
    """Join blocks, as `scipy.sparse.block_array` and `bmat` do; None is zeros."""
    scipy_sparse = _scipy()
    function = getattr(scipy_sparse, name)
    if not holds_tensor(blocks):
        return function(blocks, format=format, dtype=dtype)
    flat = [_as_sparse(x) for row in blocks for x in row if x is not None]

    def put(*parts: Any) -> Any:
        rest = iter(parts)
        grid = [[None if x is None else next(rest) for x in row] for row in blocks]
        return function(grid, format=format)

    return _finish_array(move_entries(put, *flat), None, dtype)


def block_diag(
    mats: Sequence[Any], format: str | None = None, dtype: npt.DTypeLike | None = None
) -> Any:
    """Return the blocks along a diagonal, as `scipy.sparse.block_diag` does.

    All entries of a dense Tensor are stored.
    """
    scipy_sparse = _scipy()
    if not holds_tensor(mats):
        return scipy_sparse.block_diag(mats, format=format, dtype=dtype)
    made = move_entries(
        lambda *parts: scipy_sparse.block_diag(parts, format=format),
        *map(_as_sparse, mats),
    )
    return _finish_array(made, None, dtype)


def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """Return the Kronecker product, as `scipy.sparse.kron` does.

    That of Tensors is in COO format if no format is given.
    """
    scipy_sparse = _scipy()
    if not holds_tensor((A, B)):
        return scipy_sparse.kron(A, B, format=format)
    (left, p), (right, q) = list_entries(_as_sparse(A)), list_entries(_as_sparse(B))
    rows = (p.rows[:, None] * q.shape[0] + q.rows).ravel()
    columns = (p.columns[:, None] * q.shape[1] + q.columns).ravel()
    shape = (p.shape[0] * q.shape[0], p.shape[1] * q.shape[1])
    pattern = SparseStructure(
        p.family("coo"), "coo", shape, (rows, columns), rows.shape
    )
    data = np.reshape(left[:, None] * right, -1)
    return _finish_array(make_sparse(data, pattern), format, None)


def kronsum(A: Any, B: Any, format: str | None = None) -> Any:
    """Return the Kronecker sum ``kron(I, A) + kron(B, I)``, as `scipy.sparse.kronsum`.

    ``A`` and ``B`` are square.
    """
    scipy_sparse = _scipy()
    if not holds_tensor((A, B)):
        return scipy_sparse.kronsum(A, B, format=format)
    a, b = _as_sparse(A), _as_sparse(B)
    left = scipy_sparse.eye_array(b.shape[0], dtype=a.dtype)
    right = scipy_sparse.eye_array(a.shape[0], dtype=b.dtype)
    return _finish_array(add(kron(left, a, None), kron(b, right, None)), format, None)


def diagonals(
    name: str,
    diags: Any,
    offsets: Any,
    shape: Any,
    format: str | None,
    dtype: npt.DTypeLike | None,
) -> Any:
    """Put vectors on diagonals, as `scipy.sparse.diags_array` and `diags` do."""
    scipy_sparse = _scipy()
    function = getattr(scipy_sparse, name)
    settings = {"offsets": offsets, "shape": shape, "format": format}
    if not holds_tensor(diags):
        more = {} if dtype is None else {"dtype": dtype}
        return function(diags, **settings, **more)
    single = np.ndim(offsets) == 0 and shape_of(admit(diags)) != ()
    vectors: list[Any] = [admit(diags)] if single else [admit(x) for x in diags]
    if single and len(shape_of(vectors[0])) > 1:
        vectors = list(vectors[0])
    flat, numbers, start = [], [], 1
    for x in vectors:
        count = number_values(x, start)
        numbers.append(count)
        start += len(count)
        flat.append(np.reshape(x, -1))
    made = function(numbers[0] if single else numbers, **settings, dtype=np.int64)
    return _finish_array(with_values(made, flat), None, dtype)


def find(A: Any) -> tuple[Any, Any, Any]:
    """Return rows, columns and values of the entries, as `scipy.sparse.find` does.

    Of a sparse Tensor those of every stored entry, zeros too.
    """
    scipy_sparse = _scipy()
    if not holds_tensor(A):
        rows, columns, values = scipy_sparse.find(A)
        return rows, columns, values
    data, pattern = sum_duplicates(A)
    return pattern.rows, pattern.columns, data
