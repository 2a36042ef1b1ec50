"""Arrays put together and taken apart; arrays that hold Tensors, gathered.

An op here has any number of inputs and is linear in all of them together.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from workbench.core import blame, dims
from workbench.core.blame import find_library_call
from workbench.core.deferred import operand_shape
from workbench.core.dims import Dim, unify_lengths
from workbench.core.op import ATTRIBUTES, OPERANDS, Op, declare, implements
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.traits import Traits
from workbench.core.types import (
    Array,
    ArrayLike,
    Batched,
    Params,
    Shape,
    Spec,
    is_device_array,
    is_lazy,
    is_weak,
)
from workbench.errors import DtypeError, TraceError
from workbench.ops import entries, shaping
from workbench.ops.define import (
    Casting,
    Compute,
    admit_all,
    dtype_of,
    shape_of,
)
from workbench.ops.device import make_zeros, on_cupy
from workbench.ops.indexing import Slice, sliced_length


def _admit_parts(arrays: Iterable[Any]) -> tuple[Any, ...]:
    if not isinstance(arrays, (tuple, list)):
        arrays = list(arrays)  # a Tensor or an array: its rows
    return admit_all(arrays)


def _fill_tangents(
    tangents: tuple[Any, ...], inputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the tangents, with zeros for inputs that do not vary."""
    return tuple(
        np.zeros_like(x) if t is None else t
        for t, x in zip(tangents, inputs, strict=True)
    )


def batch_all(inputs: tuple[Any, ...], batched: Batched) -> tuple[Any, ...]:
    """Return all inputs with the batch axis."""
    size = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    return tuple(
        x if b else np.broadcast_to(x, (size, *shape_of(x)))
        for x, b in zip(inputs, batched, strict=True)
    )


def _declare_joining(name: str, compute: Compute, part: Callable[..., list[Any]]) -> Op:
    """Declare an op that puts its inputs side by side along ``axis``."""
    new_op = declare(name)

    def pull(
        mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        return part(mask, g, inputs, params["axis"])

    def push(
        tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
    ) -> Array:
        return apply(new_op, _fill_tangents(tangents, inputs), params)

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        return apply(new_op, batch_all(inputs, batched), {"axis": params["axis"] + 1})

    new_op.compute, new_op.pull, new_op.push, new_op.batch = compute, pull, push, batch
    new_op.rule, new_op.reads = "to each input its part of g", ()
    new_op.joins, new_op.kind, new_op.traits = 0, "join", Traits(analytic=True)
    return new_op


def _concatenate_compute(*arrays: Any, axis: int) -> Array:
    return np.concatenate(arrays, axis=axis)


def _concatenate_parts(
    mask: int, g: Array, inputs: tuple[Any, ...], axis: int
) -> list[Any]:
    before = (slice(None),) * axis
    passed: list[Any] = []
    start = 0
    for i, x in enumerate(inputs):
        stop = start + shape_of(x)[axis]
        passed.append(g[(*before, slice(start, stop))] if mask >> i & 1 else None)
        start = stop
    return passed


def _stack_compute(*arrays: Any, axis: int) -> Array:
    return np.stack(arrays, axis=axis)


def _stack_parts(mask: int, g: Array, inputs: tuple[Any, ...], axis: int) -> list[Any]:
    before = (slice(None),) * axis
    return [g[(*before, i)] if mask >> i & 1 else None for i in range(len(inputs))]


def _concatenate_lengths(*arrays: Any, axis: int) -> Spec:
    shapes = [shape_of(x) for x in arrays]
    found = _unify_shapes(shapes, axis)
    found[axis] = sum(s[axis] for s in shapes)
    return Spec(tuple(found), np.result_type(*map(dtype_of, arrays)))


def _stack_lengths(*arrays: Any, axis: int) -> Spec:
    found = _unify_shapes([shape_of(x) for x in arrays])
    found.insert(axis, len(arrays))
    return Spec(tuple(found), np.result_type(*map(_dtype_source, arrays)))


def _dtype_source(x: Any) -> Any:
    """Return the part of ``x`` that decides a dtype; a Python number decides none."""
    return (
        x.example() if isinstance(x, Spec) and x.weak else x if is_weak(x) else x.dtype
    )


def _unify_shapes(shapes: list[tuple[Any, ...]], but: int = -1) -> list[Any]:
    """Return the lengths that all shapes share, one of them apart."""
    found = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(found):
            raise ValueError(f"arrays of {len(found)} and {len(shape)} axes")
        for i, n in enumerate(shape):
            if i != but:
                found[i] = unify_lengths(
                    found[i], n, f"along axis {i} {found[i]} and {n} long"
                )
    return found


CONCATENATE = _declare_joining("concatenate", _concatenate_compute, _concatenate_parts)
STACK = _declare_joining("stack", _stack_compute, _stack_parts)


@on_cupy(STACK)
def _stack_on_cupy(*arrays: Any, axis: int) -> Array:
    """Stack arrays and numbers, which CuPy's function takes for no arrays."""
    like = next(x for x in arrays if is_device_array(x))
    return np.stack(
        [np.asarray(x, like=like) if is_weak(x) else x for x in arrays], axis=axis
    )


CONCATENATE.template = "np.concatenate([{all}]{more})"
STACK.template = "np.stack([{all}]{more})"
CONCATENATE.lengths = _concatenate_lengths
STACK.lengths = _stack_lengths
CONCATENATE.cure = (
    "All lengths but those of the joined axis must be equal; arrays of different rank"
    " need an axis more: x[:, None]."
)
STACK.cure = "All shapes must be equal; np.concatenate joins unequal ones."


@implements(np.concatenate)
def concatenate(
    arrays: Iterable[Any],
    /,
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays along an axis, as `numpy.concatenate` does."""
    parts = _admit_parts(arrays)
    if axis is None:
        parts, axis = tuple(map(np.ravel, parts)), 0
    rank = len(shape_of(parts[0]))
    y = apply(CONCATENATE, parts, {"axis": shaping.normal_axis(axis, max(rank, 1))})
    return _cast(y, dtype, casting)


def _cast(y: Array, dtype: npt.DTypeLike | None, casting: Casting) -> Array:
    """Cast to the requested dtype, where NumPy's casting rule allows that."""
    if dtype is None:
        return y
    if not np.can_cast(dtype_of(y), dtype, casting):
        raise TypeError(
            f"Cannot cast {dtype_of(y)} to {np.dtype(dtype)} by the rule {casting!r}"
            f"{blame.user_line()}. Write casting='unsafe'."
        )
    return y.astype(dtype)


@implements(np.stack)
def stack(
    arrays: Iterable[Any],
    axis: int = 0,
    out: None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays along a new axis, as `numpy.stack` does."""
    parts = _admit_parts(arrays)
    rank = len(shape_of(parts[0])) + 1
    y = apply(STACK, parts, {"axis": shaping.normal_axis(axis, rank)})
    return _cast(y, dtype, casting)


@implements(np.vstack)
def vstack(
    tup: Iterable[Any],
    *,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays along the first axis, as `numpy.vstack` does."""
    parts = [np.atleast_2d(x) for x in _admit_parts(tup)]
    return _cast(np.concatenate(parts, 0), dtype, casting)


@implements(np.hstack)
def hstack(
    tup: Iterable[Any],
    *,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays along the second axis, vectors along their only one."""
    parts = [np.atleast_1d(x) for x in _admit_parts(tup)]
    y = np.concatenate(parts, 0 if len(shape_of(parts[0])) == 1 else 1)
    return _cast(y, dtype, casting)


@implements(np.dstack)
def dstack(tup: Iterable[Any]) -> Array:
    """Join arrays along the third axis, as `numpy.dstack` does."""
    return np.concatenate([np.atleast_3d(x) for x in _admit_parts(tup)], 2)


@implements(np.column_stack)
def column_stack(tup: Iterable[Any]) -> Array:
    """Join vectors and matrices as columns, as `numpy.column_stack` does."""
    return np.concatenate(
        [
            np.reshape(x, (-1, 1)) if len(shape_of(x)) < 2 else x
            for x in _admit_parts(tup)
        ],
        1,
    )


@implements(np.block)
def block(arrays: object) -> Array:
    """Join nested lists of blocks, the innermost along the last axis."""
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0] if inner else None

    def lay(blocks: object, level: int) -> Array:
        if isinstance(blocks, list) == (level == 0):
            raise ValueError(
                f"np.block{blame.user_line()}: List depths are mismatched. Every block"
                f" stands {depth} lists deep, as the first one does."
            )
        if isinstance(blocks, list) and not blocks:
            raise ValueError(f"np.block{blame.user_line()}: a list of blocks is empty")
        if not isinstance(blocks, list):
            x = admit(blocks)
            return np.reshape(x, (1,) * max(depth - len(shape_of(x)), 0) + shape_of(x))
        return np.concatenate([lay(b, level - 1) for b in blocks], -level)

    return lay(arrays, depth)


@implements(np.append)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Append values along an axis, or to the flattened array."""
    return np.concatenate([admit(arr), admit(values)], axis)


def _shape_along(x: ArrayLike, axis: int | None, change: Callable[[Any], Any]) -> Shape:
    """Return the shape of ``x`` with another length along an axis; None: flat."""
    shape = operand_shape(x)
    if axis is None:
        shape, axis = (math.prod(shape),), 0
    axis = shaping.normal_axis(axis, len(shape))
    return (*shape[:axis], change(shape[axis]), *shape[axis + 1 :])


def _delete_lengths(arr: Array, obj: object, axis: int | None = None) -> Shape:
    def remaining_length(n: int | Dim) -> int | Dim | None:
        if isinstance(obj, slice):
            return n - sliced_length(n, Slice(obj.start, obj.stop, obj.step))
        places = np.asarray(_require_index(obj))  # host array: a plain index
        if places.dtype == bool:
            return n - int(np.count_nonzero(places))
        ends = {bool(k < 0) for k in places.flat}
        # Whether -1 and 3 are one place, the length decides.
        return n - len({*places.flat}) if len(ends) < 2 else None

    return _shape_along(arr, axis, remaining_length)


@implements(np.delete, lengths=_delete_lengths)
def delete(arr: Array, obj: Any, axis: int | None = None) -> Array:
    """Leave entries out; where a mask does, none poisons, as in `numpy.where`."""
    arr = admit(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = shaping.normal_axis(axis, len(shape_of(arr)))
    line = np.arange(shape_of(arr)[axis])  # host array: positions, an index
    obj = _require_index(obj)
    kept = np.delete(line, obj)
    places = np.asarray(obj)  # host array: a plain index
    if places.dtype == bool:
        return arr[(slice(None),) * axis + (np.isin(line, kept),)]
    if isinstance(obj, slice) or places.size == 1:
        return shaping.lay_out(np.take(arr, kept, axis), shaping.memory_order(arr))
    return arr[(slice(None),) * axis + (kept,)]


def _insert_lengths(
    arr: Array, obj: object, values: ArrayLike, axis: int | None = None
) -> Shape:
    def extended_length(n: int | Dim) -> int | Dim | None:
        if isinstance(obj, slice):
            added = sliced_length(n, Slice(obj.start, obj.stop, obj.step))
            return n + added if isinstance(added, int) and added != 1 else None
        places = np.asarray(_require_index(obj))  # host array: positions
        if places.dtype == bool:
            places = np.flatnonzero(places)
        if places.size != 1:
            return n + places.size
        rank = 1 if axis is None else len(operand_shape(arr))
        lengths = (1,) * (rank - len(operand_shape(values))) + operand_shape(values)
        at = 0 if places.ndim == 0 else shaping.normal_axis(axis or 0, rank)
        return n + lengths[at]

    return _shape_along(arr, axis, extended_length)


@implements(np.insert, lengths=_insert_lengths)
def insert(arr: Array, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """Insert values before positions: join both, then take the new order."""
    arr, number, obj = admit(arr), admit(values), _require_index(obj)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    rank = len(shape_of(arr))
    axis = shaping.normal_axis(axis, rank)
    length = shape_of(arr)[axis]
    if isinstance(obj, slice):
        obj = range(*obj.indices(length))
    places = np.asarray(obj)  # host array: positions
    if places.dtype == bool:
        places = np.flatnonzero(places)
    lengths = (1,) * (rank - len(shape_of(number))) + shape_of(number)
    values = np.reshape(number, lengths)
    if places.ndim == 0:
        values = shaping.moveaxis(values, 0, axis)
    count = shape_of(values)[axis] if places.size == 1 else places.size
    shape = tuple(count if i == axis else n for i, n in enumerate(shape_of(arr)))
    if is_weak(number):
        new = np.full_like(arr, number, shape=shape)  # not (): it has an axis
    else:
        new = np.broadcast_to(values, shape)
        new = new.astype(arr.dtype) if new.dtype != arr.dtype else new
    if places.size == 1:
        places = np.repeat(places, count)
    old = np.arange(length)  # host array: positions in what is joined
    added = np.arange(length, length + count)  # host array: positions, too
    order = np.insert(old, places, added)
    y = np.take(np.concatenate([arr, new], axis), order, axis)
    return shaping.lay_out(y, shaping.memory_order(arr))


def _require_index(obj: object) -> Any:
    """Return plain positions to insert or delete at: the shape depends on them."""
    if isinstance(obj, Tensor):
        if obj._value is None:
            raise TraceError(
                f"the shape{blame.user_line()} depends on the values of"
                f" {blame.describe(obj)}, which has none while tracing without values."
                " Give plain integers."
            )
        return obj._value
    return obj


@implements(np.resize, lengths=lambda a, new_shape: shaping.as_integers(new_shape))
def resize(a: Array, new_shape: int | Shape) -> Array:
    """Return an array of a shape, filled with the entries over and over."""
    a, shape = np.ravel(admit(a)), shaping.as_integers(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError(
            f"all elements of `new_shape` must be non-negative{blame.user_line()}"
        )
    size, have = math.prod(shape), shape_of(a)[0]
    if not have or not size:
        return make_zeros(a, shape)
    tiled = np.tile(a, -(-size // have))
    return np.reshape(tiled[:size], shape)


# split: slices, which are views


def _split_lengths(ary: Array, sections: SupportsIndex, axis: int = 0) -> list[Any]:
    """Return the shapes of so many parts: the first ones may be one longer."""
    count = operator.index(sections)
    longest = _shape_along(ary, axis, lambda n: n + count - 1)
    axis = shaping.normal_axis(axis, len(longest))
    before, after = longest[:axis], longest[axis + 1 :]
    return [(*before, (longest[axis] - i) // count, *after) for i in range(count)]


@implements(np.array_split, lengths=_split_lengths)
def array_split(
    ary: Array,
    indices_or_sections: SupportsIndex | Sequence[SupportsIndex],
    axis: int = 0,
) -> list[Any]:
    """Split along an axis, into parts that may differ in length."""
    return _split(ary, indices_or_sections, axis, even=False)


@implements(np.split, lengths=_split_lengths)
def split(
    ary: Array,
    indices_or_sections: SupportsIndex | Sequence[SupportsIndex],
    axis: int = 0,
) -> list[Any]:
    """Split along an axis into equal parts, or at positions."""
    return _split(ary, indices_or_sections, axis, even=True)


@implements(np.vsplit, lengths=_split_lengths)
def vsplit(
    ary: Array, indices_or_sections: SupportsIndex | Sequence[SupportsIndex]
) -> list[Any]:
    """Split along the first axis, as `numpy.vsplit` does."""
    _check_rank(ary, 2, "vsplit")
    return _split(ary, indices_or_sections, 0, even=True)


def _check_rank(x: Array, rank: int, name: str) -> None:
    if len(shape_of(x)) < rank:
        raise ValueError(
            f"np.{name}{blame.user_line()} only works on arrays of {rank} or more"
            " dimensions"
        )


def _hsplit_lengths(ary: Array, sections: SupportsIndex) -> list[Any]:
    return _split_lengths(ary, sections, min(len(shape_of(ary)) - 1, 1))


@implements(np.hsplit, lengths=_hsplit_lengths)
def hsplit(
    ary: Array, indices_or_sections: SupportsIndex | Sequence[SupportsIndex]
) -> list[Any]:
    """Split along the second axis, a vector along its only one."""
    _check_rank(ary, 1, "hsplit")
    axis = 1 if len(shape_of(ary)) > 1 else 0
    return _split(ary, indices_or_sections, axis, even=True)


@implements(np.dsplit, lengths=lambda ary, n: _split_lengths(ary, n, 2))
def dsplit(
    ary: Array, indices_or_sections: SupportsIndex | Sequence[SupportsIndex]
) -> list[Any]:
    """Split along the third axis, as `numpy.dsplit` does."""
    _check_rank(ary, 3, "dsplit")
    return _split(ary, indices_or_sections, 2, even=True)


@implements(np.unstack)
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the entries along an axis, one by one, as `numpy.unstack` does."""
    return tuple(shaping.moveaxis(x, axis, 0))


def _split(x: Array, sections: Any, axis: int, *, even: bool) -> list[Any]:
    axis = shaping.normal_axis(axis, len(shape_of(x)))
    length = shape_of(x)[axis]
    ends: Iterable[int]
    if isinstance(sections, (tuple, list, np.ndarray)):
        ends = map(operator.index, sections)
    else:
        count = int(sections)
        if count < 1:
            raise ValueError(
                f"number of sections must be larger than 0{blame.user_line()}"
            )
        size, longer = divmod(length, count)
        if even and length % sections:
            raise ValueError(
                f"np.split{blame.user_line()}: an axis of length {length} does not"
                f" split into {count} equal parts; np.array_split makes unequal ones"
            )
        # One by one: a rule that is data is stopped before millions of them are known.
        ends = (i * size + min(i, longer) for i in range(1, count))
    before = (slice(None),) * axis
    pairs = itertools.pairwise(itertools.chain([0], ends, [length]))
    return [x[(*before, slice(a, b))] for a, b in pairs]


# Tensors that NumPy takes apart, and arrays of Tensors put together again.
#
# ``np.array([t, u])`` does not ask the protocols. It asks each Tensor for an array,
# and gets one of its entries, as Tensors; so what NumPy builds has the right shape,
# whatever it does next, and the first op that meets it gathers one Tensor.

#: An array of more Python objects than this would take seconds and much memory.
LIMIT = 100_000

#: Functions of SciPy that are written in NumPy alone, and keep the gradient.
BY_ENTRIES = {
    "scipy.integrate.simpson",
    "scipy.integrate.trapezoid",
    "scipy.special.softmax",
}


def _entries(x: Tensor, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return an object array of the entries of a Tensor.

    Where no copy was asked for, it stands for the memory of the Tensor: the array is
    read-only, since a write would not show in the Tensor.
    """
    shape = x.shape
    frame = sys._getframe(2)
    called = find_library_call(frame)
    # SciPy's sparse arrays step aside for what is an array of no axis.
    asking = frame.f_globals.get("__name__", "")
    sparse = asking.startswith("scipy.sparse")
    if (
        called is not None
        and called.startswith(blame.LIBRARIES)
        and not sparse
        and called not in BY_ENTRIES
    ):
        raise blame.lost_gradient_error(x, called, called)
    if sparse:
        refuse_sparse_method(frame)
    # Of lengths not known, NumPy gets the Tensor whole.
    apart = shape != () and not sparse and not dims.has_dim(shape)
    if apart and x.size > LIMIT:
        raise TraceError(
            f"{blame.describe(x)}{blame.user_line()} is to become an array of Python"
            f" objects, and has {x.size} entries. Leave out np.asarray(x), or write"
            " np.stack in place of np.array."
        )
    if apart and x.dtype.kind == "c":
        raise TraceError(
            f"{blame.describe(x)}{blame.user_line()} is to become an array of Python"
            " objects, whose .imag is 0 to NumPy, and .real the whole number. Leave out"
            " np.asarray(x), or write np.stack in place of np.array."
        )
    if apart:
        return entries.make_entries(x, copy)
    holder = np.empty((), object)  # host array: of Python objects
    holder[()] = x
    holder.flags.writeable = bool(copy)
    return holder


def refuse_sparse_method(frame: FrameType) -> None:
    """Refuse a method of SciPy's sparse arrays that would return NotImplemented.

    Of an operator, Python hears that and asks the Tensor; of ``S.multiply(x)`` the
    user would get it.
    """
    outer = frame
    while outer.f_back is not None and outer.f_back.f_globals.get(
        "__name__", ""
    ).startswith("scipy.sparse"):
        outer = outer.f_back
    if outer.f_code.co_name == "multiply":
        raise TraceError(
            f"S.multiply(x){blame.user_line()}: SciPy does not ask x, which is traced."
            " Write S * x (of the older csr_matrix classes"
            " scipy.sparse.csr_array(S) * x)."
        )


def _gather(array: np.ndarray[Any, Any]) -> Array:
    """Return one Tensor from an object array of Tensors and numbers."""
    flat: list[Any] = array.ravel().tolist()
    flat = [admit(x) if isinstance(x, dims.Dim) else x for x in flat]
    example = next((x for x in flat if isinstance(x, Tensor)), None)
    if example is None:
        raise DtypeError(
            f"an object array of shape {array.shape} has no derivative"
            f"{blame.user_line()}. Make it a float array with .astype(float)."
        )
    if len(flat) > 1 and all(x is example for x in flat):  # as of np.full(n, t)
        shape = array.shape + example.shape
        return np.copy(np.broadcast_to(example, shape), order="C")
    if entries.has_entries(flat) and example.shape == ():
        made: Array = entries.gather(array)
        return made
    return np.reshape(np.stack(flat), array.shape + example.shape)


def _gather_list(items: Sequence[Any]) -> Array:
    """Return one array or Tensor from a list of numbers, arrays and Tensors."""
    if _holds_tensor(items):
        return shaping.lay_out(np.stack([admit(x) for x in items]), "C")
    lazy = next(filter(is_lazy, items), None)
    if lazy is not None:
        raise blame.lazy_error(lazy)
    array = np.array(items)  # host array: a list of numbers
    return _gather(array) if array.dtype == object else array


ATTRIBUTES[np.ndarray.__array__] = _entries
OPERANDS[np.ndarray], OPERANDS[list] = _gather, _gather_list


def _holds_tensor(items: Iterable[Any]) -> bool:
    return any(
        isinstance(x, Tensor) or (isinstance(x, (list, tuple)) and _holds_tensor(x))
        for x in items
    )
