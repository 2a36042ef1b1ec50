"""The key of an index: what of ``x[1:, i, None]`` is a setting of an op.

An index is split into a static key, which is hashable, and arrays, which are
inputs of the op: ``x[1:, i, None]`` has the key ``(1:, array, None)``. What an index
takes, and of which shape, is read off these two. The ops stand in `indexing.py`.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame, traces
from workbench.core.broadcasting import broadcast_shapes, largest, smallest
from workbench.core.dims import Dim
from workbench.core.tensor import Tensor, admit, value_of
from workbench.errors import TraceError, UnknownLengthError
from workbench.ops.define import shape_of
from workbench.ops.spans import is_mask, positions, unmasked, unvalued

__all__ = [
    "ARRAY",
    "WHOLE",
    "Key",
    "Slice",
    "Unvalued",
    "as_index",
    "indexed",
    "known_masks",
    "masked_by_symbols",
    "split_index",
    "split_place",
    "without_ellipsis",
    "without_masks",
]

Batched = tuple[bool, ...]
Key = tuple[Any, ...]


class Slice(NamedTuple):
    """A slice as part of a key; Python's own are unhashable before 3.12."""

    start: Any
    stop: Any
    step: Any

    def __repr__(self) -> str:
        start, stop, step = ("" if part is None else str(part) for part in self)
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


class _Array:
    """Stands in a key for the next array among the inputs."""

    def __repr__(self) -> str:
        return "array"

    def __reduce__(self) -> str:
        return "ARRAY"


ARRAY = _Array()
WHOLE = Slice(None, None, None)


def split_index(index: Any) -> tuple[Key, tuple[Any, ...]]:
    """The key and the arrays of an index."""
    key: list[Any] = []
    arrays: list[Any] = []
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is int or part is None or part is Ellipsis:
            key.append(part)
        elif kind is slice:
            key.append(Slice(_bound(part.start), _bound(part.stop), _bound(part.step)))
        elif isinstance(part, (np.integer, int)) and not isinstance(part, bool):
            key.append(operator.index(part))
        elif isinstance(part, Dim):
            key.append(part)
        else:
            array = admit(np.bool_(part) if isinstance(part, bool) else part)
            if hasattr(array, "dtype") and array.dtype.kind not in "biu":
                if shape_of(array) != (0,):
                    raise IndexError(
                        f"an index of dtype {array.dtype}{blame.here()}: arrays are"
                        " indexed by integers or booleans; write .astype(int)"
                    )
                array = array.astype(int)  # x[[]]
            key.append(ARRAY)
            arrays.append(array)
    return tuple(key), tuple(arrays)


class Unvalued(Exception):
    """A slice ends at a Tensor without a value: `spans.py` knows what to do."""


def _bound(part: Any) -> Any:
    if part is None or type(part) is int or isinstance(part, Dim):
        return part
    if unvalued(part):
        raise Unvalued
    return operator.index(part)


def split_place(x: Any, index: Any) -> tuple[Key, tuple[Any, ...], bool]:
    """As `split_index`, of a place that is written: slices may end at Tensors.

    The last is whether a mask was made into the numbers of its entries.
    """
    try:
        key, arrays = split_index(index)
    except Unvalued:
        return *split_index(positions(x, index)), False
    if arrays and masked_by_symbols(arrays):
        return *split_index(unmasked(index)), True
    return key, arrays, False


def masked_by_symbols(arrays: tuple[Any, ...]) -> bool:
    """Whether a mask of an expression of symbols is among the arrays of an index."""
    return any(is_mask(a) and unvalued(a) for a in arrays) and not traces.any_open()


@lru_cache(maxsize=4096)
def _static(key: Key) -> Any:
    """The index of a key without arrays."""
    parts = tuple(slice(*p) if type(p) is Slice else p for p in key)
    return parts[0] if len(parts) == 1 else parts


def as_index(key: Key, arrays: tuple[Any, ...]) -> Any:
    """The index that `split_index` took apart."""
    if not arrays:
        return _static(key)
    rest = iter(arrays)
    parts = tuple(
        next(rest) if p is ARRAY else slice(*p) if type(p) is Slice else p for p in key
    )
    return parts[0] if len(parts) == 1 else parts


def known_masks(x: Any, arrays: tuple[Any, ...]) -> None:
    """Refuse a boolean index whose values are not known."""
    for a in arrays:
        if isinstance(a, Tensor) and a._value is None and is_mask(a):
            raise TraceError(
                f"the shape of {blame.describe(x)} at a boolean index"
                f"{blame.here()} depends on values, and the mask has none while"
                " tracing without values. Write np.where(mask, x, 0), which keeps the"
                " shape, or trace with values (wb.grad, a %%autodiff cell)."
            )


# The shape of what an index takes


def indexed(shape: tuple[Any, ...], key: Key, arrays: tuple[Any, ...]) -> Any:
    """The shape of what an index takes, of lengths that may be unknown.

    Raises
    ------
    IndexError
        If there are more indices than axes.
    """
    if any(map(is_mask, arrays)):
        if not all(isinstance(a, np.ndarray) for a in arrays if is_mask(a)):
            raise UnknownLengthError(
                f"a boolean index into shape {shape}{blame.here()}: how many entries it"
                " takes is known only when it runs. Write np.where(mask, x, 0)."
            )
        key, arrays, _ = without_masks(key, arrays, (False,) * len(arrays))
    rest = iter(arrays)
    parts = [next(rest) if p is ARRAY else p for p in key]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if used > len(shape):
        raise IndexError(
            f"too many indices: the array has {len(shape)} axes, but {used} were"
            " indexed"
        )
    if Ellipsis not in key:
        parts.append(Ellipsis)
        key = (*key, Ellipsis)
    at = key.index(Ellipsis)
    parts[at : at + 1] = [WHOLE] * (len(shape) - used)
    lengths = iter(shape)
    found: list[Any] = []
    chosen: list[Any] = []
    places: list[int] = []
    for i, part in enumerate(parts):
        if part is None:
            found.append(1)
        elif type(part) is Slice:
            found.append(sliced(next(lengths), part))
        else:
            next(lengths)
            places.append(i)
            chosen.append(() if isinstance(part, (int, Dim)) else shape_of(part))
            if len(places) == 1:
                first = len(found)
    if not arrays or not places:
        return tuple(found)
    # NumPy puts what arrays make in front if they, and integers, stand apart. An
    # ellipsis between them sets apart even if it stands for no axis.
    spelt = [i for i, p in enumerate(key) if p is ARRAY or isinstance(p, (int, Dim))]
    together = spelt[-1] - spelt[0] + 1 == len(spelt)
    start = first if together else 0
    return (*found[:start], *broadcast_shapes(*chosen), *found[start:])


def sliced(n: Any, part: Slice) -> Any:
    """The length of a slice of an axis, by Python's rules."""
    start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
    if isinstance(step, Dim):
        raise UnknownLengthError(f"a slice of step {step}{blame.here()}: give a number")
    if step > 0:
        if stop is None and start is not None and _from_end(start):
            return (smallest(n, -start) + step - 1) // step
        first = 0 if start is None else start
        if _from_end(first):
            first = largest(n + first, 0)
        last = n if stop is None else n + stop if _from_end(stop) else smallest(stop, n)
        count = last - first
    elif step < 0:
        first = n - 1 if start is None else start
        if start is not None:
            first = n + start if _from_end(start) else smallest(start, n - 1)
        last = -1 if stop is None else stop
        if stop is not None and _from_end(stop):
            last = largest(n + stop, -1)
        count = first - last
    else:
        raise ValueError("slice step cannot be zero")
    return largest((count + abs(step) - 1) // abs(step), 0)


def _from_end(edge: Any) -> bool:
    """Whether a slice starts or ends at a place counted from the end."""
    low, high = edge.bounds() if isinstance(edge, Dim) else (edge, edge)
    if low is not None and low >= 0:
        return False
    if high is not None and high < 0:
        return True
    raise UnknownLengthError(
        f"a slice that starts or ends at {edge}{blame.here()}: whether it counts from"
        " the end is known only when the program runs. Write np.take(x, np.arange(...,"
        " like=x)), or declare the length: shape=(3,)."
    )


# Keys that say the same


def without_ellipsis(key: Key, rank: int) -> Key:
    """The key with its ellipsis spelt out; an empty one stays, as it sets apart."""
    used = sum(p is not None and p is not Ellipsis for p in key)
    if Ellipsis not in key:
        return key
    at = key.index(Ellipsis)
    gap = (WHOLE,) * (rank - used) or (Ellipsis,)
    return (*key[:at], *gap, *key[at + 1 :])


def without_masks(
    key: Key, arrays: tuple[Any, ...], batched: Batched
) -> tuple[Key, tuple[Any, ...], Batched]:
    """Boolean arrays replaced by the integers where they are true."""
    if not any(map(is_mask, arrays)):
        return key, arrays, batched
    new_key: list[Any] = []
    new_arrays: list[Any] = []
    new_batched: list[bool] = []
    rest = iter(zip(arrays, batched, strict=True))
    for part in key:
        if part is not ARRAY:
            new_key.append(part)
            continue
        a, b = next(rest)
        found = [a]
        if is_mask(a):
            if b or not shape_of(a):
                raise TraceError(
                    "vmap: a boolean index that differs from example to example gives"
                    f" results of different lengths{blame.here()}. Write"
                    " np.where(mask, x, 0), which keeps the shape."
                )
            found = list(np.nonzero(value_of(a)))
        new_key += [ARRAY] * len(found)
        new_arrays += found
        new_batched += [b] * len(found)
    return tuple(new_key), tuple(new_arrays), tuple(new_batched)
