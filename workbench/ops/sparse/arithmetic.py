"""Sums and products of sparse arrays with sparse, dense and plain ones.

The pattern of a result is that of the patterns, whatever the values: an entry that
cancels stays, as a stored zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame, dims, types
from workbench.core.tensor import admit, apply
from workbench.core.tree import is_sparse
from workbench.core.types import Array, Shape
from workbench.errors import ShapeError, TraceError
from workbench.ops.define import shape_of
from workbench.ops.sparse.pattern import (
    PRODUCT,
    SparseStructure,
    gather_values,
    list_entries,
    make_sparse,
    pattern_of,
    scatter_values,
    split_sparse,
    sum_duplicates,
)


def to_dense(s: Any) -> Array:
    """Return the whole array, zeros and all."""
    values, pattern = list_entries(s)
    height, width = pattern.plane
    whole = scatter_values(values, pattern.keys, height * width)
    return np.reshape(whole, tuple(s.shape))


# Sums


def add(a: Any, b: Any) -> Any:
    """Return ``a + b``: sparse for two sparse arrays, else dense, as in SciPy."""
    return _sum(a, b, np.add)


def subtract(a: Any, b: Any) -> Any:
    """Return ``a - b``."""
    return _sum(a, b, np.subtract)


def _sum(a: Any, b: Any, together: Callable[[Any, Any], Any]) -> Any:
    if is_sparse(a) and is_sparse(b):
        return _sparse_sum(a, b, together)
    other = b if is_sparse(a) else a
    if shape_of(other) == ():
        if types.is_weak(other) and other == 0:
            return a if is_sparse(a) else b if together is np.add else -b
        raise NotImplementedError(
            f"a number added to a sparse array{blame.user_line()} would fill it: every"
            " zero would become that number. Write S.toarray() + c, or add it to the"
            " stored entries alone by a sparse array of the same pattern."
        )
    return together(
        to_dense(a) if is_sparse(a) else a, to_dense(b) if is_sparse(b) else b
    )


def _check_same_shape(a: Any, b: Any) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise ShapeError(
            f"sparse arrays of shapes {tuple(a.shape)} and {tuple(b.shape)}"
            f"{blame.user_line()} have no sum. Give both the same shape."
        )


def _sparse_sum(a: Any, b: Any, together: Callable[[Any, Any], Any]) -> Any:
    _check_same_shape(a, b)
    (left, first), (right, second) = split_sparse(a), split_sparse(b)
    if first == second:
        return make_sparse(together(left, right), first)
    (left, p), (right, q) = list_entries(a), list_entries(b)
    pattern = find_structure(p, q, lambda s, t: s + t, a.shape)
    places = np.concatenate([pattern.locate(x.rows, x.columns) for x in (p, q)])
    signed = right if together is np.add else -right
    data = scatter_values(np.concatenate([left, signed]), places, pattern.stored)
    return make_sparse(data, pattern)


def find_structure(
    p: SparseStructure,
    q: SparseStructure,
    function: Callable[[Any, Any], Any],
    shape: Shape | None = None,
) -> SparseStructure:
    """Return the pattern that SciPy finds for arrays of ones: nothing cancels."""
    ones = [
        x.matrix(np.ones(x.stored, np.int64))  # host array: a pattern
        for x in (p, q)
    ]
    p.built = q.built = None
    made = function(*ones)
    if shape is not None and len(shape) == 1:
        made = made.reshape(shape)
    pattern, _ = pattern_of(made)
    pattern.built = None
    return pattern


# Entry by entry


def multiply(a: Any, b: Any) -> Any:
    """Multiply entry by entry; sparse if an operand is, broadcast as in SciPy."""
    if is_sparse(a) and is_sparse(b):
        (left, p), (right, q) = sum_duplicates(a), sum_duplicates(b)
        shape = a.shape if len(a.shape) == len(b.shape) else None
        pattern = find_structure(p, q, lambda s, t: s.multiply(t).tocsr(), shape)
        return make_sparse(
            _gather_at(left, p, pattern) * _gather_at(right, q, pattern), pattern
        )
    if not is_sparse(a):
        a, b = b, a
    return _scale_entries(a, b, np.multiply)


def divide(a: Any, b: Any) -> Any:
    """Divide the stored entries by a dense ``b``."""
    if is_sparse(b):
        raise TraceError(
            f"division by a sparse array{blame.user_line()}: its zeros would give"
            " infinity or NaN nearly everywhere. Write x / S.toarray() if that is"
            " meant."
        )
    return _scale_entries(a, b, np.true_divide)


def _gather_at(values: Array, have: SparseStructure, wanted: SparseStructure) -> Array:
    """Gather the entries of one pattern at the places of another; stretch axes of 1."""
    rows = wanted.rows if have.plane[0] > 1 else np.zeros_like(wanted.rows)
    columns = wanted.columns if have.plane[1] > 1 else np.zeros_like(wanted.columns)
    return gather_values(values, have.locate(rows, columns))


def _scale_entries(s: Any, x: Array, together: Callable[[Any, Any], Any]) -> Any:
    x = admit(x)
    shape = shape_of(x)
    if dims.is_same_shape(shape, (1,) * len(shape)):
        data, pattern = split_sparse(s)
        x = x if shape == () else np.reshape(x, ())
        return make_sparse(together(data, x), pattern)
    values, pattern = list_entries(s)
    height, width = pattern.plane
    aligned = (1,) * (2 - len(shape)) + shape
    if dims.has_dim(aligned) and len(aligned) == 2:
        x = np.broadcast_to(x, aligned := (height, width))
    if len(aligned) > 2 or any(
        n not in (1, m) for n, m in zip(aligned, (height, width), strict=True)
    ):
        raise ShapeError(
            f"a sparse array of shape {tuple(s.shape)} and a dense one of shape"
            f" {shape}{blame.user_line()}: the dense one is stretched to the sparse"
            " one's shape, so each of its axes must be equal or 1. Write S.toarray() *"
            " x to stretch the sparse one."
        )
    x = np.reshape(x, aligned)
    rows = pattern.rows if aligned[0] > 1 else np.zeros_like(pattern.rows)
    columns = pattern.columns if aligned[1] > 1 else np.zeros_like(pattern.columns)
    flat = np.reshape(x, -1)
    found = gather_values(flat, rows * aligned[1] + columns)
    if len(s.shape) == 1:
        pattern = split_sparse(s)[1]
    return make_sparse(together(values, found), pattern)


# Matrix products


def matmul(a: Any, b: Any) -> Any:
    """Return ``a @ b``: sparse for two sparse arrays, else dense."""
    if is_sparse(a) and is_sparse(b):
        return _sparse_matmul(a, b)
    if is_sparse(a):
        values, pattern = list_entries(a)
        y = apply(PRODUCT, (values, admit(b)), {"pattern": pattern})
        return y[0] if len(a.shape) == 1 else y
    values, pattern = list_entries(b)
    # A vector is listed as a row, which is its transpose.
    turned = pattern if len(b.shape) == 1 else pattern.T
    x = admit(a)
    lead = shape_of(x)[:-1]
    if len(lead) != 1:
        x = np.reshape(x, (-1, shape_of(x)[-1])) if lead else x
    y = apply(PRODUCT, (values, x.T if lead else x), {"pattern": turned})
    if len(b.shape) == 1:
        y = y[0]
    elif lead:
        y = y.T
    return np.reshape(y, (*lead, *b.shape[1:])) if len(lead) > 1 else y


def _sparse_matmul(a: Any, b: Any) -> Any:
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ShapeError(
            f"the product of sparse arrays of shapes {tuple(a.shape)} and"
            f" {tuple(b.shape)}{blame.user_line()}: of two sparse arrays, both must"
            " have two axes. Write S @ v.toarray()."
        )
    (left, p), (right, q) = list_entries(a), list_entries(b)
    if p.shape[1] != q.shape[0]:
        raise ShapeError(
            f"the product of sparse arrays of shapes {p.shape} and {q.shape}"
            f"{blame.user_line()}: the first has {p.shape[1]} columns, the second"
            f" {q.shape[0]} rows; both must be equal. Transpose one with .T."
        )
    # Each entry (i, k) of the first meets every entry (k, j) of the second.
    order = np.argsort(q.rows, kind="stable")
    starts = np.arange(q.shape[0] + 1)  # host array: indices
    ends = np.searchsorted(q.rows[order], starts)
    counts = np.diff(ends)[p.columns]
    first = np.repeat(np.arange(p.stored), counts)  # host array: indices
    ahead = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(len(first)) - ahead  # host array: indices
    second = order[np.repeat(ends[p.columns], counts) + within]
    pattern = find_structure(p, q, lambda s, t: s @ t)
    places = pattern.locate(p.rows[first], q.columns[second])
    terms = gather_values(left, first) * gather_values(right, second)
    return make_sparse(scatter_values(terms, places, pattern.stored), pattern)


def _multiply_by_class(a: Any, b: Any) -> Any:
    """Return ``a * b``: the matrix product for SciPy's older classes."""
    for s in (a, b):
        if is_sparse(s) and split_sparse(s)[1].matrixlike:
            other = b if s is a else a
            return multiply(a, b) if shape_of(other) == () else matmul(a, b)
    return multiply(a, b)


#: What answers Python's operators, by the name of the op on Tensors.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": add,
    "subtract": subtract,
    "multiply": _multiply_by_class,
    "divide": divide,
    "matmul": matmul,
}
