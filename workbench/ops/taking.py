"""NumPy's functions that take or look up entries, and those about positions.

All are cases of `getitem` and `where`. Functions that write in place are
refused, with the functional update that does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.dims import Dim, has_dim, is_zero_length
from workbench.core.methods import FUNCTION_METHODS
from workbench.core.op import FUNCTIONS, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Shape, Spec
from workbench.errors import DtypeError, ShapeError, TraceError
from workbench.ops import shaping
from workbench.ops.define import (
    Casting,
    dtype_of,
    list_positions,
    op,
    shape_of,
)
from workbench.ops.device import on_cupy
from workbench.ops.indexing import (
    ARRAY,
    GETITEM,
    WHOLE,
    LaidOut,
    has_symbolic_mask,
)
from workbench.ops.lengths import PLACES, is_symbolic, nonzero_places
from workbench.ops.updates import at


@implements(np.take)
def take(
    a: Array,
    indices: Array,
    axis: int | None = None,
    out: None = None,
    mode: str = "raise",
) -> Array:
    """Take entries by index along an axis, as `numpy.take` does."""
    a = admit(a)
    if axis is None or (shape_of(a) == () and axis in (0, -1)):
        a, axis = np.ravel(a), 0
    axis = shaping.normal_axis(axis, len(shape_of(a)))
    indices = admit(indices)
    if hasattr(indices, "dtype") and (
        indices.dtype.kind == "b" or is_zero_length(indices.size)
    ):
        indices = indices.astype(int)  # 0 and 1, as NumPy has it, or none at all
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(
            f"np.take(..., mode={mode!r}){blame.user_line()}: it is 'raise', 'wrap' or"
            " 'clip'"
        )
    if mode != "raise":
        length = shape_of(a)[axis]
        indices = (
            np.remainder(indices, length)
            if mode == "wrap"
            else np.clip(indices, 0, length - 1)
        )
    # Unlike an index, NumPy copies here, and lays the copy out in C order.
    order = {"order": "C"} if len(shape_of(a)) > 1 else {}
    if not hasattr(indices, "dtype"):
        number = shaping.as_integer(indices)
        return apply(GETITEM, (a,), {"key": (*(WHOLE,) * axis, number), **order})
    return apply(GETITEM, (a, indices), {"key": (*(WHOLE,) * axis, ARRAY), **order})


@implements(np.take_along_axis)
def take_along_axis(arr: Array, indices: Array, axis: int | None = -1) -> Array:
    """Take entries by an index per row, as `numpy.take_along_axis` does."""
    return take_along(arr, indices, axis)


def take_along(
    arr: Array, indices: Array, axis: int | None = -1, *, order: LaidOut = ""
) -> Array:
    """Take entries by an index per row; ``order`` says how they lie (see `GETITEM`).

    >>> import numpy as np
    >>> take_along(np.array([[3.0, 1.0]]), np.array([[1, 0]]))
    array([[1., 3.]])
    """
    arr, indices = admit(arr), admit(indices)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    rank = len(shape_of(arr))
    if len(shape_of(indices)) != rank:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = shaping.normal_axis(axis, rank)
    parts = []
    for i, length in enumerate(shape_of(arr)):
        line = [1] * rank
        line[i] = length
        parts.append(
            indices
            if i == axis
            else np.reshape(list_positions(length, like=indices), tuple(line))
        )
    params = {"order": order} if order and rank > 1 else {}
    return apply(GETITEM, (arr, *parts), {"key": (ARRAY,) * rank, **params})


def permute_row_elements(x: Array, order: Array, inverse: bool = False) -> Array:
    """Return the entries of each row in another order: ``x[..., order]``, row by row.

    Parameters
    ----------
    x
        An array or Tensor; rows run along its last axis.
    order
        A permutation of the places of a row, or one for each row; broadcast
        against ``x``.
    inverse
        Undo it: entry i goes to place ``order[i]``.

    Examples
    --------
    >>> import numpy as np
    >>> x, order = np.array([[10.0, 20.0, 30.0]]), np.array([2, 0, 1])
    >>> permute_row_elements(x, order)
    array([[30., 10., 20.]])
    >>> permute_row_elements(permute_row_elements(x, order), order, inverse=True)
    array([[10., 20., 30.]])
    """
    x, order = admit(x), admit(order)
    if inverse:
        order = np.argsort(order, axis=-1)
    rank = max(len(shape_of(x)), len(shape_of(order)))
    x, order = (
        np.reshape(a, (1,) * (rank - len(shape_of(a))) + shape_of(a))
        for a in (x, order)
    )
    return np.take_along_axis(x, order, -1)


@implements(np.compress)
def compress(
    condition: Array, a: Array, axis: int | None = None, out: None = None
) -> Array:
    """Take slices by a mask; those left out never poison, as in `numpy.where`."""
    a = admit(a)
    if axis is None:
        a, axis = np.ravel(a), 0
    axis = shaping.normal_axis(axis, len(shape_of(a)))
    mask = _full_mask(condition, shape_of(a)[axis])
    if mask is not None:
        return shaping.lay_out(a[(slice(None),) * axis + (mask,)], "C")
    places = np.nonzero(condition)
    if len(places) != 1:
        raise ValueError(
            f"np.compress{blame.user_line()}: condition must have one axis, not"
            f" {len(places)}"
        )
    return np.take(a, places[0], axis)


@implements(np.extract)
def extract(condition: Array, arr: ArrayLike) -> Array:
    """Take entries by a mask; those left out never poison, as in `numpy.where`."""
    return np.compress(np.ravel(condition), np.ravel(arr))


def _full_mask(condition: Array, length: int | Dim) -> Array | None:
    """Return a condition as one flag per entry; None for a shape that NumPy refuses."""
    condition = admit(condition)
    if not hasattr(condition, "dtype"):
        condition = np.asarray(condition)  # host array: a list of flags
    shape = shape_of(condition)
    if len(shape) != 1:
        return None
    if dtype_of(condition).kind != "b":
        condition = np.not_equal(condition, 0)
    if value_of(condition) is None or has_dim((shape[0], length)):
        return condition if has_symbolic_mask((condition,)) else None
    if shape[0] > length:
        return None
    if shape[0] < length:
        rest = np.zeros_like(condition, shape=(length - shape[0],))
        condition = np.concatenate([condition, rest])
    return condition


@implements(np.select)
def select(
    condlist: Sequence[ArrayLike],
    choicelist: Sequence[ArrayLike],
    default: Any = 0,
) -> Any:
    """Choose from the array of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    for condition in map(admit, condlist):
        if dtype_of(condition).kind != "b":
            raise TypeError(
                f"np.select{blame.user_line()}: a condition of dtype"
                f" {dtype_of(condition)}; they must be boolean: write x != 0"
            )
    y = default
    for holds, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        y = np.where(holds, choice, y)
    return shaping.lay_out(y, "C")


@implements(np.choose)
def choose(
    a: Any, choices: Iterable[Any], out: None = None, mode: str = "raise"
) -> Array:
    """Choose from arrays by index; the others never poison, as in `numpy.where`."""
    choices = [admit(choice) for choice in choices]
    if isinstance(a, (list, tuple)):
        a = np.asarray(a, like=choices[0])
    index, *arrays = np.broadcast_arrays(a, *choices)
    if dtype_of(index).kind not in "biu":
        raise DtypeError(
            f"np.choose{blame.user_line()}: the indices are {dtype_of(index)}. Write"
            " integers: x.astype(int)."
        )
    last = len(arrays) - 1
    if mode == "wrap":
        index = np.remainder(index, len(arrays))
    elif mode == "clip":
        index = np.clip(index, 0, last)
    elif (known := value_of(index)) is not None and np.any(
        (known < 0) | (known > last)
    ):
        raise ShapeError(
            f"np.choose{blame.user_line()}: an index is not among 0 to {last}, the"
            " numbers of the choices. Write mode='wrap' or mode='clip'."
        )
    y = arrays[last]
    for k in range(last - 1, -1, -1):
        y = np.where(np.equal(index, k), arrays[k], y)
    return shaping.lay_out(y, "C")


@implements(np.piecewise)
def piecewise(
    x: Array, condlist: ArrayLike, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:
    """Call each function on the entries where its condition holds.

    Traced without values, where they are not known, it is called on all entries, and
    `numpy.where` chooses.
    """
    x = admit(x)
    conditions = [np.not_equal(admit(c), 0) for c in _list_conditions(x, condlist)]
    if len(conditions) == len(funclist) - 1:
        conditions.append(np.logical_not(reduce(np.logical_or, conditions)))
    if len(conditions) != len(funclist):
        n = len(conditions)
        raise ValueError(
            f"np.piecewise{blame.user_line()}: with {n} condition(s), either {n} or"
            f" {n + 1} functions are expected"
        )
    if not shape_of(x):
        lines = [np.reshape(c, (1,)) for c in conditions]
        return np.reshape(np.piecewise(x[None], lines, funclist, *args, **kw), ())
    y: Array = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        if value_of(condition) is None:
            made = function(x, *args, **kw) if callable(function) else function
            y = np.where(condition, made, y).astype(dtype_of(x))
        elif not callable(function):
            y = at(y)[condition].set(function)
        elif np.any(value_of(condition)):
            y = at(y)[condition].set(function(x[condition], *args, **kw))
    return y


def _list_conditions(x: Array, given: Any) -> list[Any]:
    """Return the conditions one by one; a single one may stand alone."""
    whole = hasattr(given, "shape")
    if whole and len(shape_of(given)) == len(shape_of(x)):
        return [given]
    if not whole and not isinstance(given, (list, tuple)):
        return [given]
    alone = not whole and shape_of(x) and isinstance(given[0], (bool, np.bool_))
    return [given] if alone else list(given)


# What depends on values in its shape: plain arrays, or an error


def require_positions(x: object, name: str) -> Any:
    """Return the plain array to search for positions; values decide their number."""
    if isinstance(x, Tensor):
        if x._value is None:
            raise TraceError(
                f"np.{name}({blame.describe(x)}){blame.user_line()}: how many positions"
                " there are depends on values, which a trace without values does not"
                " have. Write np.where(condition, a, b), which keeps the shape, or"
                " trace with values (wb.grad, a %%autodiff cell)."
            )
        return x._value
    return x


def _answer_positions(name: str, symbolic: Callable[[Any], Any]) -> Callable[..., Any]:
    function = getattr(np, name)

    def answer(a: Array, *more: Any, **settings: Any) -> Any:
        if is_symbolic(a):
            return symbolic(a)
        return function(require_positions(a, name), *more, **settings)

    return answer


FUNCTIONS[np.nonzero] = _answer_positions("nonzero", nonzero_places)
FUNCTIONS[np.flatnonzero] = _answer_positions(
    "flatnonzero", lambda a: nonzero_places(np.ravel(a))[0]
)
FUNCTIONS[np.argwhere] = _answer_positions(
    "argwhere", lambda a: np.transpose(apply(PLACES, (a,)))
)


@implements(np.unique)
def unique(
    ar: Array,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **settings: Any,
) -> Array | tuple[Array, ...]:
    """Return unique values; of equal entries the first one has the gradient."""
    ar = admit(ar)
    find: Any = np.unique
    _, index, *more = find(
        require_positions(ar, "unique"),
        True,
        return_inverse,
        return_counts,
        axis,
        **settings,
    )
    values = np.take(ar, index, axis)
    if axis:
        values = shaping.moveaxis(
            shaping.lay_out(shaping.moveaxis(values, axis, 0), "C"), 0, axis
        )
    parts = [values, *([index] if return_index else []), *more]
    return tuple(parts) if len(parts) > 1 else parts[0]


# Methods of arrays that are not functions of NumPy


# NumPy's own, which see to ``out=``.
FUNCTION_METHODS["choose"] = np.choose
FUNCTION_METHODS["compress"] = lambda a, condition, *more, **settings: np.compress(
    condition, a, *more, **settings
)


# Functions about positions and memory: integers, or plain answers, no derivative.
#
# `ix_`, `unravel_index` and their like also take Tensors of integers, with or without
# values. What asks only for the shape or the dtype of a Tensor answers as NumPy does.


# Indices made of others


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Return indices of a grid, the cross product of arrays, as `numpy.ix_` does."""
    made = []
    for i, part in enumerate(map(admit, args)):
        if len(shape_of(part)) != 1:
            raise ValueError(f"Cross index must be 1 dimensional{blame.user_line()}")
        if dtype_of(part).kind == "b":
            (part,) = np.nonzero(part)
        line = [1] * len(args)
        line[i] = -1
        made.append(np.reshape(part, tuple(line)))
    return tuple(made)


def _strides(shape: tuple[int, ...], order: str) -> list[int]:
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted{blame.user_line()}")
    rank = range(len(shape))
    if order == "F":
        return [math.prod(shape[:i]) for i in rank]
    return [math.prod(shape[i + 1 :]) for i in rank]


@implements(np.unravel_index)
def unravel_index(
    indices: Array, shape: int | Shape, order: str = "C"
) -> tuple[Any, ...]:
    """Convert flat indices to an index per axis."""
    indices, shape = admit(indices), shaping.as_integers(shape)
    _check_bounds(indices, math.prod(shape), "np.unravel_index")
    return tuple(
        np.remainder(np.floor_divide(indices, stride), n)
        for stride, n in zip(_strides(shape, order), shape, strict=True)
    )


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Iterable[Any],
    dims: int | Shape,
    mode: str | tuple[str, ...] = "raise",
    order: str = "C",
) -> Array:
    """Convert an index per axis to flat indices."""
    dims = shaping.as_integers(dims)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    total: Any = 0
    parts = list(map(admit, multi_index))
    if len(parts) != len(dims):
        raise ValueError(
            f"np.ravel_multi_index{blame.user_line()}: {len(parts)} indices for"
            f" {len(dims)} lengths"
        )
    for part, n, how, stride in zip(
        parts, dims, modes, _strides(dims, order), strict=True
    ):
        if how == "wrap":
            part = np.remainder(part, n)
        elif how == "clip":
            part = np.clip(part, 0, n - 1)
        else:
            _check_bounds(part, n, "np.ravel_multi_index")
        total = total + part * stride
    return total


def _check_bounds(index: Array, size: int, name: str) -> None:
    if dtype_of(index).kind not in "iu":
        raise TypeError(
            f"{name}{blame.user_line()}: only int indices permitted, not"
            f" {dtype_of(index)}; write .astype(int)"
        )
    known = value_of(index)
    if known is not None and np.any((known < 0) | (known >= size)):
        raise ShapeError(
            f"{name}{blame.user_line()}: an index is out of bounds for {size}"
        )


@implements(np.tril_indices_from)
def tril_indices_from(arr: Array, k: int = 0) -> tuple[Any, ...]:
    """Return the indices of the lower triangle, from the shape alone."""
    return np.tril_indices(_check_matrix(arr)[0], k, _check_matrix(arr)[1])


@implements(np.triu_indices_from)
def triu_indices_from(arr: Array, k: int = 0) -> tuple[Any, ...]:
    """Return the indices of the upper triangle, from the shape alone."""
    return np.triu_indices(_check_matrix(arr)[0], k, _check_matrix(arr)[1])


@implements(np.diag_indices_from)
def diag_indices_from(arr: Array) -> tuple[Any, ...]:
    """Return the indices of the main diagonal, from the shape alone."""
    shape = shape_of(arr)
    if len(shape) < 2:
        raise ValueError(f"input array must be at least 2-d{blame.user_line()}")
    if len(set(shape)) > 1:
        raise ValueError(
            f"All dimensions of input must be of equal length{blame.user_line()}:"
            f" {shape}"
        )
    return np.diag_indices(shape[0], len(shape))


def _check_matrix(arr: Array) -> tuple[int, ...]:
    shape = shape_of(arr)
    if len(shape) != 2:
        raise ValueError(f"input array must be 2-d{blame.user_line()}, not {shape}")
    return shape


# Bits


def _bit_lengths(x: Array, *, axis: int | None, change: Callable[[Any], Any]) -> Spec:
    shape = shape_of(x) if axis is not None else (math.prod(shape_of(x)),)
    at = shaping.normal_axis(axis or 0, len(shape))
    changed = (*shape[:at], change(shape[at]), *shape[at + 1 :])
    return Spec(changed, np.dtype(np.uint8))


PACKBITS = op(
    "packbits",
    lambda x, *, axis=None, bitorder="big": np.packbits(x, axis, bitorder),
    lengths=lambda x, *, axis=None, bitorder="big": _bit_lengths(
        x, axis=axis, change=lambda n: (n + 7) // 8
    ),
)


def _unpacked_lengths(
    x: Array, *, axis: int | None = None, count: int | None = None, bitorder: str = ""
) -> Spec:
    def change(n: Any) -> Any:
        return 8 * n if count is None else count if count >= 0 else 8 * n + count

    return _bit_lengths(x, axis=axis, change=change)


UNPACKBITS = op(
    "unpackbits",
    lambda x, *, axis=None, count=None, bitorder="big": np.unpackbits(
        x, axis, count, bitorder
    ),
    lengths=_unpacked_lengths,
)


def _bit_places(like: Array, bitorder: str) -> Array:
    shifts = list_positions(8, like=like)
    return (7 - shifts if bitorder == "big" else shifts).astype(np.uint8)


# CuPy's take one axis and no count.


@on_cupy(PACKBITS)
def _packbits_on_cupy(
    x: Any, *, axis: int | None = None, bitorder: str = "big"
) -> Array:
    line: Any = np.ravel(x) if axis is None else np.moveaxis(x, axis, -1)
    *loop, size = shape_of(line)
    bits = np.not_equal(line, 0).astype(np.uint8)
    bits = np.pad(bits, [*[(0, 0)] * len(loop), (0, -size % 8)])
    bits = np.reshape(bits, (*loop, -(-size // 8), 8))
    made: Any = np.sum(
        np.left_shift(bits, _bit_places(x, bitorder)), -1, dtype=np.uint8
    )
    return made if axis is None else np.moveaxis(made, -1, axis)


@on_cupy(UNPACKBITS)
def _unpackbits_on_cupy(
    x: Any,
    *,
    axis: int | None = None,
    count: int | None = None,
    bitorder: str = "big",
) -> Array:
    line: Any = np.ravel(x) if axis is None else np.moveaxis(x, axis, -1)
    *loop, size = shape_of(line)
    whole = np.right_shift(line[..., None], _bit_places(x, bitorder)) & 1
    bits: Any = np.reshape(whole.astype(np.uint8), (*loop, 8 * size))
    if count is not None:
        bits = bits[..., :count]
        more = max(count - 8 * size, 0)
        bits = np.pad(bits, [*[(0, 0)] * len(loop), (0, more)]) if more else bits
    return bits if axis is None else np.moveaxis(bits, -1, axis)


@implements(np.packbits)
def packbits(a: Array, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack bits into bytes, as `numpy.packbits` does."""
    return apply(PACKBITS, (admit(a),), {"axis": axis, "bitorder": bitorder})


@implements(np.unpackbits)
def unpackbits(
    a: Array,
    /,
    axis: int | None = None,
    count: int | None = None,
    bitorder: str = "big",
) -> Array:
    """Unpack bytes into bits, as `numpy.unpackbits` does."""
    params = {"axis": axis, "count": count, "bitorder": bitorder}
    return apply(UNPACKBITS, (admit(a),), params)


# Questions about arrays, answered plainly


@implements(np.may_share_memory)
def may_share_memory(a: Array, b: Array, max_work: int = 0) -> bool:
    """Return whether the arrays that Tensors hold may share memory."""
    return _share_memory(np.may_share_memory, a, b, max_work)


@implements(np.shares_memory)
def shares_memory(a: Array, b: Array, max_work: int = -1) -> bool:
    """Return whether the arrays that Tensors hold share memory."""
    return _share_memory(np.shares_memory, a, b, max_work)


def _share_memory(ask: Callable[..., Any], a: Array, b: Array, work: int) -> bool:
    a, b = value_of(a), value_of(b)
    return a is not None and b is not None and bool(ask(a, b, max_work=work))


@implements(np.can_cast)
def can_cast(from_: object, to: object, casting: Casting = "safe") -> bool:
    """Return whether the dtype of a Tensor can be cast to another."""
    return np.can_cast(_dtype(from_), _dtype(to), casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> type:
    """Return the scalar type that the dtypes of Tensors have in common."""
    empty = [
        np.empty(0, _dtype(x)) if isinstance(x, Tensor) else x  # host array: dtype
        for x in arrays
    ]
    return np.common_type(*empty)


@implements(np.min_scalar_type)
def min_scalar_type(a: Array, /) -> np.dtype[Any]:
    """Return the least dtype that holds a number, or an array's own dtype."""
    value = value_of(a)
    return a.dtype if value is None else np.min_scalar_type(value)


def _dtype(x: object) -> Any:
    return x.dtype if isinstance(x, Tensor) else x
