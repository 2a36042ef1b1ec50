"""Indexing: `x[index]`, its transpose, and how a batch is indexed.

An index is split into a static key and arrays. The functional update `at(x)[index]`
stands in `updates.py`. Entries that an index takes twice receive the
sum of both cotangents.
"""

from __future__ import annotations

import operator
import sys
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from workbench.core import blame, dims, source, traces
from workbench.core.dims import (
    Dim,
    broadcast_shapes,
    largest,
    lower_bound,
    smallest,
)
from workbench.core.memory import resolve_nest
from workbench.core.op import View, ViewParams, declare
from workbench.core.tensor import (
    ANSWERING,
    Tensor,
    admit,
    apply,
    mask_cotangent,
    note_view,
    value_of,
)
from workbench.core.types import Array, Batched, Params, Shape, Spec, is_weak
from workbench.errors import TraceError, UnknownLengthError
from workbench.ops.define import dtype_of, linear, list_positions, shape_of
from workbench.ops.device import make_zeros
from workbench.ops.lengths import (
    has_no_value,
    index_positions,
    is_mask,
    replace_masks,
    slice_by_tensors,
)
from workbench.ops.shaping import moveaxis

# The key of an index: what of ``x[1:, i, None]`` is a setting of an op.
#
# An index is split into a static key, which is hashable, and arrays, which are
# inputs of the op: ``x[1:, i, None]`` has the key ``(1:, array, None)``. What an index
# takes, and of which shape, is read off these two.

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


def split_index(index: object) -> tuple[Key, tuple[Any, ...]]:
    """Return the key and the arrays of an index."""
    key: list[Any] = []
    arrays: list[Any] = []
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is int or part is None or part is Ellipsis:
            key.append(part)
        elif kind is slice:
            key.append(
                Slice(
                    _slice_bound(part.start),
                    _slice_bound(part.stop),
                    _slice_bound(part.step),
                )
            )
        elif isinstance(part, (np.integer, int)) and not isinstance(part, bool):
            key.append(operator.index(part))
        elif isinstance(part, Dim):
            key.append(part)
        else:
            array = admit(np.bool_(part) if isinstance(part, bool) else part)
            if hasattr(array, "dtype") and array.dtype.kind not in "biu":
                if shape_of(array) != (0,):
                    raise IndexError(
                        f"an index of dtype {array.dtype}{blame.user_line()}: arrays"
                        " are indexed by integers or booleans; write .astype(int)"
                    )
                array = array.astype(int)  # x[[]]
            key.append(ARRAY)
            arrays.append(array)
    return tuple(key), tuple(arrays)


class Unvalued(Exception):
    """A slice ends at a Tensor without a value; `lengths.py` handles this."""


def _slice_bound(part: Any) -> int | Dim | None:
    if part is None or type(part) is int or isinstance(part, Dim):
        return part
    if has_no_value(part):
        raise Unvalued
    return operator.index(part)


def split_target_index(x: Array, index: object) -> tuple[Key, tuple[Any, ...], bool]:
    """Split the index of entries that are replaced; slices may end at Tensors.

    The last is whether a mask was made into the numbers of its entries.
    """
    try:
        key, arrays = split_index(index)
    except Unvalued:
        return *split_index(index_positions(x, index)), False
    if arrays and has_symbolic_mask(arrays):
        return *split_index(replace_masks(index)), True
    return key, arrays, False


def has_symbolic_mask(arrays: tuple[Any, ...]) -> bool:
    """Return whether a mask among the arrays is an expression of symbols."""
    return (
        any(is_mask(a) and has_no_value(a) for a in arrays)
        and not traces.has_open_trace()
    )


@lru_cache(maxsize=4096)
def _index_of_key(key: Key) -> object:
    """Return the index of a key without arrays."""
    parts = tuple(slice(*p) if type(p) is Slice else p for p in key)
    return parts[0] if len(parts) == 1 else parts


def as_index(key: Key, arrays: tuple[Any, ...]) -> Any:
    """Return the index that `split_index` took apart."""
    if not arrays:
        return _index_of_key(key)
    rest = iter(arrays)
    parts = tuple(
        next(rest) if p is ARRAY else slice(*p) if type(p) is Slice else p for p in key
    )
    return parts[0] if len(parts) == 1 else parts


def check_masks(x: Array, arrays: tuple[Any, ...]) -> None:
    """Refuse a boolean index that has no values yet."""
    for a in arrays:
        if isinstance(a, Tensor) and a._value is None and is_mask(a):
            raise _masked_shape_error(x)


def _masked_shape_error(x: Array) -> TraceError:
    return TraceError(
        f"the shape of {blame.describe(x)} at a boolean index"
        f"{blame.user_line()} depends on values, and the mask has none while"
        " tracing without values. Write np.where(mask, x, 0), which keeps the"
        " shape, or trace with values (wb.grad, a %%autodiff cell). What works entry"
        " by entry may be stored at the same mask: x[mask] = 2 * x[mask]."
    )


# The shape of what an index takes


def indexed_shape(shape: tuple[Any, ...], key: Key, arrays: tuple[Any, ...]) -> Shape:
    """Return the shape of an indexed array; lengths may be unknown.

    Raises
    ------
    IndexError
        If there are more indices than axes.
    """
    if any(map(is_mask, arrays)):
        if not all(isinstance(a, np.ndarray) for a in arrays if is_mask(a)):
            raise UnknownLengthError(
                f"a boolean index into shape {shape}{blame.user_line()}: how many"
                " entries it takes is known only when it runs. Write np.where(mask, x,"
                " 0)."
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
            found.append(sliced_length(next(lengths), part))
        else:
            _check_bounds(part, next(lengths), len(places))
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


def _check_bounds(part: Any, length: int | Dim, axis: int) -> None:
    """Refuse an index that is known to be outside of an axis, as NumPy does."""
    known = isinstance(part, (int, np.ndarray)) and np.size(part) > 0
    if not known or type(length) is not int:
        return
    low, high = np.min(part), np.max(part)
    if low < -length or high >= length:
        wrong = low if low < -length else high
        raise IndexError(
            f"index {wrong} is out of bounds for axis {axis} with size {length}"
        )


def sliced_length(n: int | Dim, part: Slice) -> int | Dim:
    """Return the length of a slice of an axis, by Python's rules."""
    start, stop, step = part.start, part.stop, 1 if part.step is None else part.step
    if isinstance(step, Dim):
        raise UnknownLengthError(
            f"a slice of step {step}{blame.user_line()}: give a number"
        )
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
    """Return whether a slice starts or ends at a place counted from the end."""
    if lower_bound(edge) >= 0:
        return False
    if lower_bound(-edge) >= 1:
        return True
    raise UnknownLengthError(
        f"a slice that starts or ends at {edge}{blame.user_line()}: whether it counts"
        " from the end is known only when the program runs. Write np.take(x,"
        " list_positions(..., like=x)), or declare the length: shape=(3,)."
    )


# Keys that say the same


def without_ellipsis(key: Key, rank: int) -> Key:
    """Return the key with its ellipsis as slices; an empty one stays."""
    used = sum(p is not None and p is not Ellipsis for p in key)
    if Ellipsis not in key:
        return key
    at = key.index(Ellipsis)
    gap = (WHOLE,) * (rank - used) or (Ellipsis,)
    return (*key[:at], *gap, *key[at + 1 :])


def without_masks(
    key: Key, arrays: tuple[Any, ...], batched: Batched
) -> tuple[Key, tuple[Any, ...], Batched]:
    """Replace boolean arrays by the integers where they are true."""
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
                    f" results of different lengths{blame.user_line()}. Write"
                    " np.where(mask, x, 0), which keeps the shape."
                )
            found = list(np.nonzero(value_of(a)))
        new_key += [ARRAY] * len(found)
        new_arrays += found
        new_batched += [b] * len(found)
    return tuple(new_key), tuple(new_arrays), tuple(new_batched)


# Taking: x[index]


#: How that lies in memory: as NumPy has it for an index, or as a copy in C order, that
#: of `numpy.take`, or in the order of ``x``, that of `numpy.sort`.
LaidOut = Literal["", "C", "K"]


def _take(x: Array, *arrays: Any, key: Key, order: LaidOut = "") -> Array:
    if not hasattr(x, "__getitem__"):
        x = np.asarray(x)  # host array: a Python number
    if not order or not isinstance(x, np.ndarray):
        return x[as_index(key, arrays)]
    if order == "C" and key[-1] is ARRAY and key[:-1] == (WHOLE,) * (len(key) - 1):
        return np.take(x, arrays[0], len(key) - 1)
    taken = x[as_index(key, arrays)]
    shape = taken.shape
    made = np.empty_like(x, shape=shape, order=order)  # not (): NumPy's
    if arrays and made.strides == taken.strides:
        return taken
    made[...] = taken
    return made


def _take_transpose(
    g: Array, x: Array, *arrays: Any, key: Key, order: LaidOut = ""
) -> Array | Scattered:
    if not isinstance(g, Tensor) and not (arrays and any(map(_is_kept_off, arrays))):
        shape = x.shape if type(x) is np.ndarray else shape_of(x)
        return Scattered(g, key, arrays, shape)
    spread = apply(SCATTER, (g, *arrays), {"key": key, "shape": shape_of(x)})
    # What a mask leaves out must stay 0, whatever its derivative is.
    return mask_cotangent(spread) if any(map(is_mask, arrays)) else spread


def _is_kept_off(array: Any) -> bool:
    return isinstance(array, Tensor) or is_mask(array)


class Scattered:
    """A cotangent that is zero except at an index; it becomes an array when needed.

    A loop that takes ``x[i]`` for each i sends back as many of them. Reverse mode
    adds them up in place (`into`), so that the loop's gradient takes linear time.

    >>> part = Scattered(np.array([5.0, 6.0]), (Slice(1, None, None),), (), (3,))
    >>> part.into(part.dense())
    array([ 0., 10., 12.])
    """

    __slots__ = ("_shape", "arrays", "g", "key")

    #: No array shape looks like this, so that it is never mistaken for one.
    shape = None

    def __init__(
        self, g: Array, key: Key, arrays: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        self.g = g
        self.key = key
        self.arrays = arrays
        self._shape = shape

    def dense(self) -> Array:
        """Return the array, which belongs to nobody else."""
        return _scatter(self.g, *self.arrays, key=self.key, shape=self._shape)

    def into(self, total: Any) -> Array:
        """Add this to ``total``, in place."""
        if not self.arrays:
            total[_index_of_key(self.key)] += self.g
            return total
        index = as_index(self.key, self.arrays)
        if has_distinct_entries(self.arrays):
            total[index] += self.g
        else:
            find_library_ufunc("add", total).at(total, index, self.g)
        return total


def _scatter(g: Array, *arrays: Any, key: Key, shape: tuple[int, ...]) -> Array:
    out = make_zeros(g, shape)
    if has_distinct_entries(arrays):
        out[as_index(key, arrays)] = g
    else:
        find_library_ufunc("add", out).at(out, as_index(key, arrays), g)
    return out


def find_library_ufunc(name: str, array: object) -> Any:
    """Return the ufunc of the array's library: NumPy's do not pass on ``ufunc.at``."""
    library = sys.modules.get(type(array).__module__.partition(".")[0], np)
    return getattr(library, name)


def has_distinct_entries(arrays: tuple[Any, ...]) -> bool:
    """Return whether an index surely names no entry twice."""
    return all(is_mask(a) or dims.is_same_shape((a.size,), (1,)) for a in arrays)


def _take_lengths(x: Array, *arrays: Any, key: Key, order: LaidOut = "") -> Spec:
    return Spec(indexed_shape(shape_of(x), key, arrays), dtype_of(x))


def _take_view(params: Params) -> bool:
    """Return whether NumPy gives a view: no array in the index, or a diagonal."""
    whole = all(part is not ARRAY for part in params["key"])
    return (whole and "order" not in params) or type(params) is ViewParams


def _put_entries(x: Array, part: Array, params: Params) -> Array:
    return apply(declare("index_set"), (x, part), {"key": params["key"]})


GETITEM = linear(
    "getitem",
    _take,
    _take_transpose,
    rule="g at the index, else 0",
    pattern="indexed",
    carries=(0,),
    template="{0}[{index:1}]",
    lengths=_take_lengths,
    view=View(_take_view, _put_entries),
    moves=True,
    analytic=True,
)
SCATTER = linear(
    "scatter",
    _scatter,
    lambda g, x, *arrays, key, shape: apply(GETITEM, (g, *arrays), {"key": key}),
    rule="g at the index",
    pattern="scattered",
    template="scatter({0}, np.s_[{index:1}], {shape})",
    helper='''\
def scatter(g, index, shape):
    """Zeros with g added at an index."""
    out = np.zeros_like(g, shape=shape)
    np.add.at(out, index, g)
    return out
''',
    lengths=lambda g, *arrays, key, shape: Spec(shape, dtype_of(g)),
    kind="update",
    combines=np.add,
)


def getitem(x: Array, index: object) -> Array:
    """Return ``x[index]``."""
    try:
        key, arrays = split_index(index)
    except Unvalued:
        return _spanned(x, index)
    if arrays and has_symbolic_mask(arrays):
        key, arrays = split_index(replace_masks(index))
        # Numbers of the entries now: that they were a mask is said of the array.
        x = apply(declare("mask"), (x,))
    check_masks(x, arrays)
    return apply(GETITEM, (x, *arrays), {"key": key})


class MaskEntries(NDArrayOperatorsMixin):
    """The entries of an array at a mask with unknown values, and so of unknown number.

    It waits for a store at the same mask: what works entry by entry is done to all
    entries of the ``whole``, see `set_entries`. Any other use is an error.
    """

    __slots__ = ("axis", "error", "mask", "whole")

    def __init__(self, whole: Any, mask: Any, axis: int, error: TraceError) -> None:
        self.whole, self.mask, self.axis, self.error = whole, mask, axis, error

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any
    ) -> Any:
        out = settings.pop("out", (self,))  # that of +=
        if method != "__call__" or settings or ufunc.nout > 1 or ufunc.signature:
            raise self.error
        parts = []
        for x in inputs:
            if type(x) is not MaskEntries:
                fits, part = _fits_each(x, self), x
            else:
                part = x.whole
                fits = x.axis == self.axis and _is_same_mask(x.mask, self.mask)
            if not fits:
                raise self.error
            parts.append(part)
        if len(out) != 1 or out[0] is not self:
            raise self.error
        return MaskEntries(ufunc(*parts), self.mask, self.axis, self.error)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error

    __array__ = __array_function__ = __array_namespace__ = __bool__ = _refuse
    __float__ = __int__ = __complex__ = __index__ = __len__ = __iter__ = _refuse
    __getitem__ = __setitem__ = __contains__ = __reduce_ex__ = _refuse


ANSWERING.add(MaskEntries)


def _fits_each(x: Any, entries: MaskEntries) -> bool:
    """Return whether an operand is the same for each entry that a mask takes."""
    used = entries.axis + len(entries.mask.shape)
    return len(shape_of(x)) <= len(entries.whole.shape) - used


def _is_same_mask(a: Any, b: Any) -> bool:
    """Return whether two masks are one, or made alike: ``x > 0`` written twice."""
    if a is b:
        return True
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.op is not b.op:
        return type(a) is type(b) and is_weak(a) and a == b
    if not a.inputs or len(a.inputs) != len(b.inputs) or a.params != b.params:
        return False
    return all(map(_is_same_mask, a.inputs, b.inputs))


def find_entries(x: Any, index: Any) -> MaskEntries | None:
    """Return the entries at a mask without values; None for any other index.

    Besides the mask an index may have whole axes.
    """
    parts = index if type(index) is tuple else (index,)
    for axis, part in enumerate(parts):
        if has_no_value(part) and is_mask(part):
            rest = parts[axis + 1 :]
            if not traces.has_open_trace() or not all(map(_is_all, rest)):
                return None
            return MaskEntries(x, part, axis, _masked_shape_error(x))
        if part is Ellipsis or not _is_all(part):
            return None
    return None


def _is_all(part: Any) -> bool:
    return part is Ellipsis or (type(part) is slice and part == slice(None))


def set_entries(x: Any, named: MaskEntries, values: Any) -> Any:
    """Return ``x`` with values at a mask without values.

    Raises
    ------
    TraceError
        If the values are not made of entries at the same mask, entry by entry, nor the
        same for each.
    """
    mask, axis = named.mask, named.axis
    if type(values) is MaskEntries:
        if values.axis != axis or not _is_same_mask(values.mask, mask):
            raise values.error
        values = values.whole
        if not dims.is_same_shape(shape_of(values), x.shape):
            raise named.error
    elif not _fits_each(values, named):
        raise named.error
    after = len(x.shape) - axis - len(mask.shape)
    if after and mask.shape:
        mask = np.reshape(mask, mask.shape + (1,) * after)
    return np.where(mask, values, x)


def _spanned(x: Array, index: object) -> Array:
    """Return ``x[index]``, where slices end at Tensors without a value."""
    x, rest = slice_by_tensors(x, index)
    return getitem(x, rest) if rest else x


def _refusal(x: Array, error: Exception) -> Exception:
    """Return NumPy's error for an index, with the shape and the user's line."""
    return type(error)(f"x[...] of shape {shape_of(x)}{blame.user_line()}: {error}")


_frame = sys._getframe
NOTED = source.NOTED
_plain_kinds = (int, slice)


def _tensor_getitem(self: Tensor, index: object) -> Array:
    value = self._value
    if type(self) is Tensor and type(index) in _plain_kinds and value is not None:
        # The eager path: x[3] and x[1:], without a walk up the frames.
        try:
            key, _ = split_index(index)
        except Unvalued:
            return _spanned(self, index)
        frame = _frame(1)
        code, lasti = frame.f_code, frame.f_lasti
        if code is not NOTED[0]:
            code, lasti = source.place_of(frame)
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
            code,
            lasti,
            source.current_context(),
        )
        if type(taken) is np.ndarray or not isinstance(taken, np.generic):
            note_view(self, made)
        return made
    index = resolve_nest(index)
    waiting = find_entries(self, index)
    return getitem(self, index) if waiting is None else waiting


Tensor.__getitem__ = _tensor_getitem  # type: ignore[assignment, method-assign]


# Batching. NumPy puts the axes that arrays make in front if the arrays stand apart.


class Moves(NamedTuple):
    """An index with the batch axis inside, and the order of axes in its result.

    ``bring`` takes the result to (batch, axes of one example), ``send`` takes what
    is to be written back to the order in which the index wants it.
    """

    key: Key
    arrays: tuple[Any, ...]
    axes: tuple[tuple[int, ...], tuple[int, ...]]

    def bring(self, y: Array) -> Array:
        """Return the indexed entries, batch axis first."""
        return moveaxis(y, *self.axes) if self.axes[0] else y

    def send(self, values: Array) -> Array:
        """Return the values to write, with their axes in the order of the index."""
        return moveaxis(values, *self.axes[::-1]) if self.axes[0] else values


def batched_index(
    key: Key, arrays: tuple[Any, ...], batched: Batched, rank: int, has_batch: bool
) -> Moves:
    """Return the index for a batch, of an ``x`` with ``rank`` axes in one example.

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
    rows = np.reshape(list_positions(size, like=example), (size, *(1,) * width))
    old = tuple(range(1, 1 + width))
    new = tuple(range(1 + start, 1 + start + width))
    return Moves((ARRAY, *key), (rows, *aligned), (old, new) if start else ((), ()))


def _take_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    x, *arrays = inputs
    rank = len(shape_of(x)) - batched[0]
    moves = batched_index(params["key"], tuple(arrays), batched[1:], rank, batched[0])
    return moves.bring(apply(GETITEM, (x, *moves.arrays), {"key": moves.key}))


def _scatter_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
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
