"""Moving the stored values of sparse arrays about: everything that is only structure.

What SciPy does to a sparse array without looking at its values (indexing, stacking,
conversion, triangles) is done by SciPy, to an array of the same pattern whose values
are the numbers 1, 2, 3, ...; the numbers that come out say which value goes where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import hooks
from workbench.core.tensor import Tensor, apply
from workbench.core.tree import is_sparse
from workbench.ops.define import shape_of
from workbench.ops.indexing import SCATTER
from workbench.ops.keys import ARRAY
from workbench.ops.sparse.pattern import Pattern, pattern_of, simple
from workbench.ops.sparse.products import placed

__all__ = ["canonical", "carried", "gather", "listed", "made_of", "spread", "taken"]


def taken(s: Any) -> tuple[Any, Pattern]:
    """The stored values and the pattern of a sparse array, ours or SciPy's."""
    if isinstance(getattr(s, "pattern", None), Pattern):
        return s.data, s.pattern
    pattern, data = pattern_of(s)
    return data, pattern


def made_of(data: Any, pattern: Pattern) -> Any:
    """The sparse array of these values: ours around a Tensor, else SciPy's."""
    if isinstance(data, Tensor):
        return hooks.sparse_tensor(data, pattern)
    return pattern.matrix(data, own=True)


def listed(s: Any) -> tuple[Any, Pattern]:
    """The entries of a sparse array as a vector, with a pattern of two axes."""
    data, pattern = taken(s)
    flat = simple(pattern)
    if flat is pattern:
        return data, pattern
    if len(pattern.data_shape) > 1:
        data = np.reshape(data, -1)
    if pattern.kept is not None:
        data = gather(data, pattern.kept)
    return data, flat


def canonical(s: Any) -> tuple[Any, Pattern]:
    """As `listed`, with entries that stand in one place added up."""
    data, pattern = listed(s)
    if pattern.distinct:
        return data, pattern
    keys, where = np.unique(pattern.keys, return_inverse=True)
    rows, columns = np.divmod(keys, max(pattern.plane[1], 1))
    alone = Pattern(
        pattern.family("coo"), "coo", pattern.shape, (rows, columns), keys.shape
    )
    return spread(data, where, len(keys)), alone


def gather(values: Any, index: Any) -> Any:
    """The values at an index, which is an array on the host."""
    return values[placed(index, values)]


def spread(values: Any, index: Any, size: int) -> Any:
    """A vector with the values added up where the index says."""
    params = {"key": (ARRAY,), "shape": (size,)}
    return apply(SCATTER, (values, placed(index, values)), params)


def numbered(values: Any, start: int) -> Any:
    """The numbers that stand for some values: ``start``, ``start + 1``, ..."""
    count = int(np.prod(shape_of(values), dtype=np.int64))
    return np.arange(start, start + count)  # host array: numbers of entries


def restored(result: Any, values: list[Any]) -> Any:
    """What a function made of numbers, with the values that they stand for.

    0 stands for no value.
    """
    joined = values[0] if len(values) == 1 else np.concatenate(values)
    sparse = is_sparse(result)
    if sparse:
        pattern, numbers = pattern_of(result)
        pattern.built = None
    else:
        numbers = np.asarray(result)  # host array: numbers of entries
    if numbers.size and numbers.min() > 0:
        found = gather(joined, numbers - 1)
    else:
        nothing = np.zeros_like(joined, shape=(1,))
        found = gather(np.concatenate([nothing, joined]), numbers)
    return made_of(found, pattern) if sparse else found


def carried(function: Callable[..., Any], *operands: Any) -> Any:
    """What a function that only moves entries makes of sparse arrays."""
    values, numbers, start = [], [], 1
    for s in operands:
        data, pattern = canonical(s)
        whole = pattern.matrix(numbered(data, start))
        pattern.built = None
        # What moves entries of a vector wants a vector.
        numbers.append(whole.reshape(s.shape) if len(s.shape) == 1 else whole)
        values.append(data)
        start += shape_of(data)[0]
    return restored(function(*numbers), values)
