"""Indexing: `x[index]`, its transpose, and how a batch is indexed.

How an index is split into a static key and arrays stands in `keys.py`, the functional
update `at(x)[index]` in `updates.py`. Entries that an index takes twice receive the
sum of both cotangents.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame, dims, source
from workbench.core.broadcasting import broadcast_shapes
from workbench.core.op import ViewParams, declare
from workbench.core.tensor import Tensor, apply, note_view
from workbench.core.types import Spec
from workbench.errors import UnknownLengthError
from workbench.ops.define import dtype_of, linear, masked, shape_of
from workbench.ops.keys import (
    ARRAY,
    WHOLE,
    Key,
    Slice,
    Unvalued,
    as_index,
    indexed,
    known_masks,
    masked_by_symbols,
    split_index,
    without_ellipsis,
    without_masks,
)
from workbench.ops.spans import cut, is_mask, unmasked

__all__ = [
    "GETITEM",
    "SCATTER",
    "Moves",
    "Scattered",
    "batched_index",
    "distinct",
    "getitem",
    "own_ufunc",
]

Params = dict[str, Any]
Batched = tuple[bool, ...]


# Taking: x[index]


def _take(x: Any, *arrays: Any, key: Key) -> Any:
    if not hasattr(x, "__getitem__"):
        x = np.asarray(x)  # host array: a Python number
    return x[as_index(key, arrays)]


def _take_transpose(g: Any, x: Any, *arrays: Any, key: Key) -> Any:
    if not any(isinstance(a, Tensor) or is_mask(a) for a in (g, *arrays)):
        return Scattered(g, key, arrays, shape_of(x))
    spread = apply(SCATTER, (g, *arrays), {"key": key, "shape": shape_of(x)})
    # What a mask leaves out must stay 0, whatever its derivative is.
    return masked(spread) if any(map(is_mask, arrays)) else spread


class Scattered:
    """A cotangent that is zero but at an index: not an array before it must be.

    A loop that takes ``x[i]`` for each i sends back as many of them. Reverse mode
    adds them up in place (`into`), so that the loop's gradient takes linear time.

    >>> part = Scattered(np.array([5.0, 6.0]), (Slice(1, None, None),), (), (3,))
    >>> part.into(part.dense())
    array([ 0., 10., 12.])
    """

    __slots__ = ("_shape", "arrays", "g", "key")

    #: It has no array's shape, so that nobody takes it for one.
    shape = None

    def __init__(
        self, g: Any, key: Key, arrays: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        self.g = g
        self.key = key
        self.arrays = arrays
        self._shape = shape

    def dense(self) -> Any:
        """The array, which belongs to nobody else."""
        return _scatter(self.g, *self.arrays, key=self.key, shape=self._shape)

    def into(self, total: Any) -> Any:
        """``total`` with this added to it, in place."""
        index = as_index(self.key, self.arrays)
        if distinct(self.arrays):
            total[index] += self.g
        else:
            own_ufunc("add", total).at(total, index, self.g)
        return total


def _scatter(g: Any, *arrays: Any, key: Key, shape: tuple[int, ...]) -> Any:
    out = np.zeros_like(g, shape=shape)
    if distinct(arrays):
        out[as_index(key, arrays)] = g
    else:
        own_ufunc("add", out).at(out, as_index(key, arrays), g)
    return out


def own_ufunc(name: str, array: Any) -> Any:
    """The ufunc of the array's own library: NumPy's do not pass on ``ufunc.at``."""
    library = sys.modules.get(type(array).__module__.partition(".")[0], np)
    return getattr(library, name)


def distinct(arrays: tuple[Any, ...]) -> bool:
    """Whether an index surely names no entry twice, by the look of its arrays."""
    return all(is_mask(a) or dims.same((a.size,), (1,)) for a in arrays)


def _take_lengths(x: Any, *arrays: Any, key: Key) -> Spec:
    return Spec(indexed(shape_of(x), key, arrays), dtype_of(x))


def _take_view(params: Params) -> bool:
    """Whether NumPy gives a view: for an index without arrays, and a diagonal."""
    return (
        all(part is not ARRAY for part in params["key"]) or type(params) is ViewParams
    )


GETITEM = linear(
    "getitem",
    _take,
    _take_transpose,
    rule="g at the index, else 0",
    lengths=_take_lengths,
    view=_take_view,
)
SCATTER = linear(
    "scatter",
    _scatter,
    lambda g, x, *arrays, key, shape: apply(GETITEM, (g, *arrays), {"key": key}),
    rule="g at the index",
    lengths=lambda g, *arrays, key, shape: Spec(shape, dtype_of(g)),
)


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``."""
    try:
        key, arrays = split_index(index)
    except Unvalued:
        return _spanned(x, index)
    if arrays and masked_by_symbols(arrays):
        key, arrays = split_index(unmasked(index))
        # Numbers of the entries now: that they were a mask is said of the array.
        x = apply(declare("mask"), (x,))
    known_masks(x, arrays)
    return apply(GETITEM, (x, *arrays), {"key": key})


def _spanned(x: Any, index: Any) -> Any:
    """``x[index]``, where slices end at Tensors without a value."""
    x, rest = cut(x, index)
    return getitem(x, rest) if rest else x


def _refusal(x: Any, error: Exception) -> Exception:
    """NumPy's refusal of an index, with the shape and the user's line."""
    return type(error)(f"x[...] of shape {shape_of(x)}{blame.here()}: {error}")


_frame = sys._getframe
_plain_kinds = (int, slice)


def _tensor_getitem(self: Tensor, index: Any) -> Any:
    value = self._value
    if type(self) is Tensor and type(index) in _plain_kinds and value is not None:
        # The eager path: x[3] and x[1:], without a walk up the frames.
        try:
            key, _ = split_index(index)
        except Unvalued:
            return _spanned(self, index)
        frame = _frame(1)
        try:
            taken = _take(value, key=key)
        except UnknownLengthError:
            return getitem(self, index)
        except (IndexError, ValueError) as error:
            raise _refusal(self, error) from error
        made = Tensor(
            GETITEM,
            (self,),
            (value,),
            {"key": key},
            taken,
            frame.f_code,
            frame.f_lasti,
            source.surroundings(),
        )
        if type(taken) is np.ndarray:
            note_view(self, made)
        return made
    return getitem(self, index)


Tensor.__getitem__ = _tensor_getitem  # type: ignore[assignment, method-assign]


# Batching. NumPy puts the axes that arrays make in front if the arrays stand apart.


class Moves(NamedTuple):
    """An index with the batch axis in it, and where its result has which axes.

    ``bring`` takes the result to (batch, axes of one example), ``send`` takes what
    is to be written back to the order in which the index wants it.
    """

    key: Key
    arrays: tuple[Any, ...]
    axes: tuple[tuple[int, ...], tuple[int, ...]]

    def bring(self, y: Any) -> Any:
        """What the index took, batch axis first."""
        return np.moveaxis(y, *self.axes) if self.axes[0] else y

    def send(self, values: Any) -> Any:
        """What the index is to write, in the index's own order of axes."""
        return np.moveaxis(values, *self.axes[::-1]) if self.axes[0] else values


def batched_index(
    key: Key, arrays: tuple[Any, ...], batched: Batched, rank: int, has_batch: bool
) -> Moves:
    """The index for a batch, of an ``x`` with ``rank`` axes in one example.

    ``has_batch`` says whether ``x`` itself has the batch axis.
    """
    if not arrays:
        return Moves((WHOLE, *key), (), ((), ()))
    given = key, arrays
    key, arrays, batched = without_masks(key, arrays, batched)
    key = without_ellipsis(key, rank)
    shapes = [shape_of(a)[b:] for a, b in zip(arrays, batched, strict=True)]
    width = len(broadcast_shapes(*shapes))
    places = [i for i, p in enumerate(key) if p is ARRAY or type(p) is int]
    together = places[-1] - places[0] + 1 == len(places)
    start = sum(p is None or type(p) is Slice for p in key[: places[0]])
    if not (together or width == 0):
        start = 0
    if not any(batched):
        apart = not together and width > 0
        key, arrays = given  # masks stay what they are: they never poison
        return Moves((WHOLE, *key), arrays, ((width,), (0,)) if apart else ((), ()))
    size = next(shape_of(a)[0] for a, b in zip(arrays, batched, strict=True) if b)
    aligned = tuple(
        np.reshape(a, (size, *(1,) * (width - len(s)), *s)) if b else a
        for a, b, s in zip(arrays, batched, shapes, strict=True)
    )
    if not has_batch:
        first = start if together else 0
        return Moves(key, aligned, ((first,), (0,)) if first else ((), ()))
    example = next(a for a, b in zip(aligned, batched, strict=True) if b)
    rows = np.reshape(np.arange(size, like=example), (size, *(1,) * width))
    old = tuple(range(1, 1 + width))
    new = tuple(range(1 + start, 1 + start + width))
    return Moves((ARRAY, *key), (rows, *aligned), (old, new) if start else ((), ()))


def _take_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    x, *arrays = inputs
    rank = len(shape_of(x)) - batched[0]
    moves = batched_index(params["key"], tuple(arrays), batched[1:], rank, batched[0])
    return moves.bring(apply(GETITEM, (x, *moves.arrays), {"key": moves.key}))


def _scatter_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    g, *arrays = inputs
    shape = params["shape"]
    size = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    if not batched[0]:
        g = np.broadcast_to(g, (size, *shape_of(g)))
    moves = batched_index(params["key"], tuple(arrays), batched[1:], len(shape), True)
    return apply(
        SCATTER,
        (moves.send(g), *moves.arrays),
        {"key": moves.key, "shape": (size, *shape)},
    )


GETITEM.batch, SCATTER.batch = _take_batch, _scatter_batch
