"""The largest and smallest entries of sparse arrays, zeros that are not stored too.

Where a result is stored is known from the patterns alone; among equal entries the
gradient is shared, and a zero that is not stored takes its share, as in dense arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame, types
from workbench.core.tree import is_sparse
from workbench.core.types import Array
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.sparse.arithmetic import find_structure, to_dense
from workbench.ops.sparse.pattern import (
    SparseStructure,
    gather_values,
    make_sparse,
    split_sparse,
    sum_duplicates,
)

Extreme = Callable[..., Any]


def _refuse_complex(s: Any, name: str) -> None:
    if s.dtype.kind == "c":
        raise DtypeError(
            f"{name} of a complex sparse array{blame.user_line()}: complex numbers have"
            f" no order. Write abs(S).{name}(...), or take S.real."
        )


def _find_padding(extreme: Extreme, dtype: np.dtype[Any]) -> Any:
    """Return the value of a dtype that every other one wins against."""
    if dtype.kind == "f":
        return -np.inf if extreme is np.max else np.inf
    if dtype.kind == "b":
        return extreme is not np.max
    limits = np.iinfo(dtype)
    return limits.min if extreme is np.max else limits.max


def read_axis(axis: Any, rank: int, name: str) -> int | None:
    """Return the one axis that is meant, None for all of them."""
    if axis is None:
        return None
    axes = axis if isinstance(axis, tuple) else (axis,)
    call = f"{name}(axis={axis!r}) of a sparse array{blame.user_line()}"
    for one in axes:
        if isinstance(one, (bool, np.bool_)) or not hasattr(one, "__index__"):
            raise TypeError(
                f"{call}: {one!r} is not an axis. Write an integer, a tuple of"
                " integers, or None for all entries."
            )
        if not -rank <= one < rank:
            raise ShapeError(
                f"{call}: the array has {rank} axes. Write a number from {-rank} to"
                f" {rank - 1}, or None for all entries."
            )
    different = {int(one) % rank for one in axes}
    if len(different) < len(axes):
        raise ShapeError(f"{call} has one axis twice. Name each once.")
    if not different:
        raise ShapeError(f"{call} has no axis. Write S alone, or None for all entries.")
    return None if len(different) == rank else different.pop()


def find_extreme(
    s: Any, axis: Any, extreme: Extreme, out: Any = None, *, explicit: bool = False
) -> Any:
    """Return ``s.max(axis)`` or ``s.min(axis)``: a number, or sparse as in SciPy."""
    name = extreme.__name__.removeprefix("a")
    _refuse_complex(s, name)
    if out is not None:
        raise UsageError(
            f"S.{name}(out=...){blame.user_line()}: a sparse array has no out, in SciPy"
            f" too. Write made = S.{name}(...)."
        )
    axis = read_axis(axis, len(s.shape), name)
    values, pattern = sum_duplicates(s)
    height, width = pattern.plane
    if height * width == 0:
        raise ValueError(f"{name} of an array without entries{blame.user_line()}")
    if axis is None:
        if explicit and not pattern.stored:
            raise ValueError(f"{name} of no stored entries{blame.user_line()}")
        full = explicit or pattern.stored == height * width
        nothing = np.zeros_like(values, shape=(0 if full else 1,))
        return extreme(np.concatenate([values, nothing]))
    owner = pattern.columns if axis == 0 else pattern.rows
    length = height if axis == 0 else width
    kept, counts = np.unique(owner, return_counts=True)
    most = 0 if explicit else length
    made = _reduce_groups(values, owner, counts, most, extreme)
    places: tuple[Any, ...]
    shape: tuple[int, ...]
    if pattern.matrixlike:
        zero = np.zeros_like(kept)
        places = (zero, kept) if axis == 0 else (kept, zero)
        shape = (1, width) if axis == 0 else (height, 1)
    else:
        places, shape = (kept,), (width if axis == 0 else height,)
    own = SparseStructure(pattern.family("coo"), "coo", shape, places, kept.shape)
    return make_sparse(made, own)


def _reduce_groups(
    values: Array, owner: Any, counts: Any, length: int, extreme: Extreme
) -> Array:
    """Reduce the values of each owner, with a zero where fewer than ``length``.

    Groups of nearly one size are the rows of one array, filled up at the end; so no
    more than twice the values is made, whatever the sizes are.
    """
    order = np.argsort(owner, kind="stable")
    starts = np.cumsum(counts) - counts
    size = len(order)
    # After the values stand a zero, and what loses against all.
    nothing = np.zeros_like(values, shape=(1,))
    padding = np.full_like(nothing, _find_padding(extreme, values.dtype))
    longer = np.concatenate([values, nothing, padding])
    classes = np.ceil(np.log2(np.maximum(counts, 1))).astype(int)
    parts, which = [], []
    for one in np.unique(classes):
        groups = np.flatnonzero(classes == one)
        step = np.arange(counts[groups].max())  # host array: indices
        inside = step < counts[groups][:, None]
        index = starts[groups][:, None] + np.where(inside, step, 0)
        index = np.where(inside, order[np.minimum(index, size - 1)], size + 1)
        rest = np.where(counts[groups] < length, size, size + 1)
        index = np.concatenate([index, rest[:, None]], axis=1)
        parts.append(extreme(gather_values(longer, index), axis=1))
        which.append(groups)
    if not parts:
        return values[:0]
    back = np.argsort(np.concatenate(which))
    return gather_values(np.concatenate(parts), back)


def combine_extremes(a: Any, b: Any, extreme: Extreme) -> Any:
    """Return the larger, or the smaller, of both entry by entry."""
    name = extreme.__name__
    s, other = (a, b) if is_sparse(a) else (b, a)
    for x in (a, b):
        if is_sparse(x):
            _refuse_complex(x, name)
    if is_sparse(other):
        return _combine_sparse(s, other, extreme)
    if shape_of(other) != ():
        return extreme(to_dense(s), other)
    if not types.is_weak(other) and not isinstance(other, (np.generic, np.ndarray)):
        raise TraceError(
            f"{name} of a sparse array and a number that varies{blame.user_line()}:"
            " which entries are stored would depend on its value. Write"
            f" np.{name}(S.toarray(), c)."
        )
    # NaN is not on this side of zero either: it would win everywhere.
    if not ((other <= 0) if extreme is np.maximum else (other >= 0)):
        raise NotImplementedError(
            f"S.{name}({other}){blame.user_line()} would fill the array: every zero"
            f" would become that number. Write np.{name}(S.toarray(), {other})."
        )
    values, pattern = sum_duplicates(s)
    return make_sparse(extreme(values, other), pattern)


def _combine_sparse(a: Any, b: Any, extreme: Extreme) -> Any:
    if tuple(a.shape) != tuple(b.shape):
        raise ShapeError(
            f"sparse arrays of shapes {tuple(a.shape)} and {tuple(b.shape)}"
            f"{blame.user_line()} are not compared. Give both the same shape."
        )
    (left, first), (right, second) = split_sparse(a), split_sparse(b)
    if first == second and first.distinct:
        return make_sparse(extreme(left, right), first)
    (left, p), (right, q) = sum_duplicates(a), sum_duplicates(b)
    pattern = find_structure(p, q, lambda s, t: s + t, a.shape)
    return make_sparse(
        extreme(_gather_or_zero(left, p, pattern), _gather_or_zero(right, q, pattern)),
        pattern,
    )


def _gather_or_zero(
    values: Array, have: SparseStructure, wanted: SparseStructure
) -> Array:
    """Return the values at the places of another pattern, 0 where there is none."""
    order = np.argsort(have.keys, kind="stable")
    found = np.searchsorted(have.keys, wanted.keys, sorter=order)
    at = order[np.minimum(found, max(0, len(order) - 1))] if len(order) else found
    there = np.isin(wanted.keys, have.keys)
    nothing = np.zeros_like(values, shape=(1,))
    index = np.where(there, at, have.stored)
    return gather_values(np.concatenate([values, nothing]), index)
