"""Index arrays: `x[i]` and writes to an index, as addresses of kernels.

Each index becomes one array per axis (`spread_index`), all broadcast to the shape of
what it takes. Arrays that are known and step evenly along one axis are strides; the
others are read by the kernel, which adds them up to an address (`find_index_address`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.kernel import Address, IndexAxis, View
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Shape, Spec, spec_of
from workbench.ops.define import shape_of
from workbench.ops.indexing import (
    ARRAY,
    GETITEM,
    SCATTER,
    WHOLE,
    Key,
    as_index,
    without_ellipsis,
    without_masks,
)
from workbench.ops.lengths import is_mask
from workbench.ops.updates import ADD, SET, add_to_entries, list_update


class SpreadIndex(NamedTuple):
    """An index as a view, and one array for each axis of the view.

    Attributes
    ----------
    view
        The key of the view: slices and integers, no array.
    arrays
        The arrays, which broadcast to the shape that the index takes.
    """

    view: Key
    arrays: tuple[Any, ...]

    @property
    def is_whole(self) -> bool:
        """True if the view is the array itself."""
        return all(part == WHOLE for part in self.view)


def spread_index(shape: Shape, key: Key, arrays: tuple[Any, ...]) -> SpreadIndex | None:
    """Return an index with one array per axis; None where the index allows none."""
    if not arrays or any(is_mask(a) and not _is_known_mask(a) for a in arrays):
        return None
    key, arrays, _ = without_masks(key, arrays, (False,) * len(arrays))
    parts = list(without_ellipsis(key, len(shape)))
    used = sum(p is not None and p is not Ellipsis for p in parts)
    parts += [WHOLE] * (len(shape) - used)
    places = [i for i, p in enumerate(parts) if p is ARRAY or type(p) is int]
    together = places[-1] - places[0] + 1 == len(places)
    view = tuple(WHOLE if p is ARRAY else p for p in parts)
    lengths = np.empty(shape, bool)[as_index(view, ())].shape
    rest = [p for p in parts if type(p) is not int and p is not Ellipsis]
    start = sum(p is None or _is_slice(p) for p in parts[: places[0]])
    start = start if together else 0
    width = len(np.broadcast_shapes(*map(shape_of, arrays)))
    free = sum(p is not ARRAY for p in rest)
    given, found, done = iter(arrays), [], 0
    for part, n in zip(rest, lengths, strict=True):
        if part is ARRAY:
            a = next(given)
            if free > start:
                a = np.reshape(a, (*shape_of(a), *(1,) * (free - start)))
            found.append(a)
            continue
        axis = done if done < start else done + width
        behind = free + width - axis - 1
        found.append(np.arange(n).reshape(n, *(1,) * behind))  # host array: positions
        done += 1
    return SpreadIndex(view, tuple(found))


def _is_known_mask(mask: Any) -> bool:
    known = not isinstance(mask, Tensor) or mask._value is not None
    return known and len(shape_of(mask)) > 0


def _is_slice(part: Any) -> bool:
    return part is not ARRAY and type(part) is not int and part is not Ellipsis


def wrap_indices(index: Any, length: int) -> np.ndarray[Any, Any] | None:
    """Return known indices counted from the start; None if one is out of bounds."""
    whole = np.asarray(index)
    if whole.dtype.kind not in "iu":
        return None
    whole = whole.astype(np.int64)
    wrapped = np.where(whole < 0, whole + length, whole)
    return wrapped if np.all((wrapped >= 0) & (wrapped < length)) else None


def find_index_address(
    view: View, operands: Sequence[Any], domain: Shape, held: dict[int, Any]
) -> Address | None:
    """Return the address of the entries of a view at one index per axis.

    Parameters
    ----------
    operands
        A Tensor or an array for each axis of the view.
    domain
        What the operands broadcast to.
    held
        Receives what the kernel loads, by the numbers under which it does.

    Returns
    -------
    None if an index that is known is out of bounds.
    """
    offset, strides = view.offset, [0] * len(domain)
    axes = []
    for operand, length, stride in zip(operands, view.shape, view.strides, strict=True):
        known = operand._value if isinstance(operand, Tensor) else operand
        if known is None:
            held[operand.serial] = operand
            axes.append(IndexAxis(operand.serial, length, stride, False))
            continue
        wrapped = wrap_indices(known, length)
        if wrapped is None:
            return None
        even = _find_even_steps(wrapped)
        if even is None:
            held[-id(wrapped)] = wrapped
            axes.append(IndexAxis(-id(wrapped), length, stride, True))
            continue
        first, axis, step = even
        offset += first * stride
        if axis:
            strides[len(domain) - axis] += step * stride
    spread = View(view.buffer, offset, tuple(domain), tuple(strides), view.kind)
    return Address(spread, tuple(axes))


def _find_even_steps(whole: np.ndarray[Any, Any]) -> tuple[int, int, int] | None:
    """Return the first number, the axis from the end, and the step; None: uneven."""
    if whole.size == 1:
        return int(whole.reshape(-1)[0]), 0, 0
    long = [i for i, n in enumerate(whole.shape) if n != 1]
    if len(long) != 1:
        return None
    line = whole.reshape(-1)
    steps = np.diff(line)
    if np.any(steps != steps[0]):
        return None
    return int(line[0]), whole.ndim - long[0], int(steps[0])


def is_index(x: Any) -> bool:
    """Return whether a kernel takes entries by an operand."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind in "iu" and math.prod(shape_of(x)) > 0


def has_checks(addresses: Iterable[Address]) -> bool:
    """Return whether an index value may be out of bounds."""
    return any(not axis.checked for one in addresses for axis in one.axes)


# The ops of indices, with an array per axis


def expand_index(op: Op, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return an op of an index written as a view and one array for each axis.

    None: it needs no other form. A sum with an array that is zero but at an index is
    written as an update, so that the gradient of a loop that reads an entry in each
    step adds to one entry.
    """
    if op is GETITEM:
        return _expand_getitem(*operands, **params)
    if op is SCATTER:
        return _expand_scatter(*operands, **params)
    if op.kind == "update":
        return _expand_update(op, *operands, **params)
    return _expand_add(*operands) if op.ufunc is np.add and not params else None


def has_index(op: Op) -> bool:
    """Return whether an op may be written so."""
    return op is GETITEM or op.kind == "update" or op.ufunc is np.add


def _expand_getitem(x: Any, *arrays: Any, key: Key, order: str = "") -> Any:
    """Write a view, and then the rest.

    Values lie where the plan has them, and not in the order of NumPy's functions.
    """
    index = _spread(x, shape_of(x), key, arrays)
    if index is None:
        return apply(GETITEM, (x, *arrays), {"key": key}) if order else None
    view = x if index.is_whole else apply(GETITEM, (x,), {"key": index.view})
    return apply(GETITEM, (view, *index.arrays), {"key": (ARRAY,) * len(index.arrays)})


def _expand_scatter(g: Any, *arrays: Any, key: Key, shape: Shape) -> Any:
    index = _spread(g, shape, key, arrays)
    if index is None:
        return None
    part = np.empty(shape, bool)[as_index(index.view, ())].shape
    made = apply(
        SCATTER, (g, *index.arrays),
        {"key": (ARRAY,) * len(index.arrays), "shape": part},
    )  # fmt: skip
    if index.is_whole:
        return made
    return apply(SCATTER, (made,), {"key": index.view, "shape": shape})


def _expand_update(op: Op, x: Any, v: Any, *arrays: Any, key: Key) -> Any:
    if not arrays and op is ADD:
        changed = apply(GETITEM, (x,), {"key": key}) + v
        return apply(SET, (x, changed), {"key": key})
    index = _spread(x, shape_of(x), key, arrays)
    if index is None:
        return None
    view = x if index.is_whole else apply(GETITEM, (x,), {"key": index.view})
    whole = (ARRAY,) * len(index.arrays)
    made = apply(op, (view, v, *index.arrays), {"key": whole})
    if index.is_whole:
        return made
    return apply(SET, (x, made), {"key": index.view})


def _spread(
    x: Any, shape: Shape, key: Key, arrays: tuple[Any, ...]
) -> SpreadIndex | None:
    """Return an index with one array per axis, if kernels support the entries."""
    spec = spec_of(x)
    if not isinstance(spec, Spec) or 0 in shape:
        return None
    is_spread = len(key) == len(shape) and all(part is ARRAY for part in key)
    if is_spread and not any(map(is_mask, arrays)):
        return None
    return spread_index(tuple(shape), key, arrays)


def _expand_add(x: Any, y: Any) -> Any:
    found = add_to_entries(x, y)
    if found is None:
        return None
    made, updates = found
    for node, key in updates:
        made = apply(ADD, (made, *list_update(node)), {"key": key})
    return made
