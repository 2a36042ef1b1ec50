"""What ufuncs do besides being called plainly: methods and keyword arguments.

`np.add.reduce` is `np.sum`, `np.multiply.accumulate` is `np.cumprod`, and so on;
`dtype=` casts the operands. ``out=`` and ``where=`` write into arrays that exist,
which a traced program cannot do, and say what to write instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.op import ATTRIBUTES, CALLS, UFUNCS, implements, load_ops
from workbench.core.refusals import unsupported_error
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, ArrayLike, Axis, is_weak
from workbench.ops import shaping
from workbench.ops.define import refuse_where, shape_of
from workbench.ops.elementwise import frexp, modf, sign
from workbench.ops.reductions import logsumexp, reduced_axes
from workbench.ops.updates import at
from workbench.ops.writing import write_at, write_ufunc

# The methods of ufuncs that take one array: `reduce`, `accumulate`, `reduceat`.
#
# Those of `np.add` and `np.multiply` are `np.sum`, `np.cumprod` and so on. Other
# ufuncs are applied by halves or by doubling: log2(n) large steps, no loop over n.

Ufunc = Any

REDUCTIONS: dict[Ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
#: Associative ufuncs with their identity; None where no number is one.
ASSOCIATIVE: dict[Ufunc, Any] = {
    np.fmax: None,
    np.fmin: None,
    np.hypot: 0,
    np.logaddexp: -np.inf,
    np.logaddexp2: -np.inf,
    np.logical_xor: False,
    np.bitwise_and: -1,
    np.bitwise_or: 0,
    np.bitwise_xor: 0,
    np.gcd: 0,
    np.lcm: None,
}
LOGICAL = {np.logical_and, np.logical_or, np.logical_xor}
#: Of these the first entry is changed by the sum, or product, of the others.
INVERSES: dict[Ufunc, Ufunc] = {np.subtract: np.add, np.divide: np.multiply}


def _prepare_operand(ufunc: Ufunc, array: Array, dtype: npt.DTypeLike | None) -> Array:
    """Return the operand in the dtype that is asked for, flags for a logical ufunc."""
    array = admit(array)
    if dtype is not None:
        array = array.astype(dtype)
    return np.not_equal(array, 0) if ufunc in LOGICAL else array


# reduce


def reduce(
    ufunc: Ufunc,
    name: str,
    array: Array,
    axis: Axis = 0,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Array | bool = True,
) -> Array:
    """Apply ``ufunc.reduce``.

    Raises
    ------
    ValueError
        Of nothing, or with ``where=`` and no ``initial=``, where nothing is neutral.
    """
    array = _prepare_operand(ufunc, array, dtype)
    if ufunc in REDUCTIONS and (initial is None or ufunc not in LOGICAL):
        more = {} if initial is None else {"initial": initial}
        return REDUCTIONS[ufunc](
            array, axis=axis, keepdims=keepdims, where=where, **more
        )
    if ufunc in REDUCTIONS:
        y = REDUCTIONS[ufunc](array, axis=axis, keepdims=keepdims, where=where)
        return ufunc(y, initial)
    if ufunc not in ASSOCIATIVE and ufunc not in INVERSES:
        raise unsupported_error(ufunc, ".reduce")
    neutral = ASSOCIATIVE.get(ufunc)
    if where is not True:
        if neutral is None and initial is None:
            raise ValueError(
                f"reduction operation {ufunc.__name__!r} does not have an identity, so"
                f" to use a where mask one has to specify 'initial'{blame.user_line()}"
            )
        if ufunc in INVERSES:
            array = np.where(where, array, 0 if ufunc is np.subtract else 1)
        else:
            array = np.where(where, array, initial if neutral is None else neutral)
    if ufunc in INVERSES:
        return _reduce_by_inverse(ufunc, array, axis, keepdims, initial)
    if ufunc is np.logaddexp:
        y = logsumexp(array, axis=axis, keepdims=keepdims)
    else:
        rest = initial if neutral is None else neutral
        y = _reduce_by_halves(ufunc, array, axis, keepdims, rest)
    return y if initial is None else ufunc(y, initial)


def _reduce_by_halves(
    ufunc: Ufunc, x: Array, axis: Axis, keepdims: bool, neutral: Any
) -> Array:
    """Reduce along some axes by halves: few and large operations."""
    shape = shape_of(x)
    rank = len(shape)
    axes = reduced_axes(None, rank) if axis is None else shaping.normal_axes(axis, rank)
    rest = tuple(n for i, n in enumerate(shape) if i not in axes)
    y = shaping.moveaxis(x, axes, tuple(range(len(axes))))
    y = np.reshape(y, (math.prod(shape[n] for n in axes), *rest))
    length = shape_of(y)[0]
    if length == 0:
        if neutral is None and 0 not in rest:
            raise ValueError(
                f"zero-size array to reduction operation {ufunc.__name__} which has no"
                f" identity{blame.user_line()}"
            )
        y = np.full_like(y, neutral or 0, shape=(1, *rest))
    if ufunc is np.hypot and length == 1:  # of one entry its size
        y = np.abs(y)
    while (length := shape_of(y)[0]) > 1:
        half = length // 2
        pairs = ufunc(y[:half], y[half : 2 * half])
        y = pairs if length % 2 == 0 else np.concatenate([pairs, y[2 * half :]])
    return np.expand_dims(y[0], axes) if keepdims else y[0]


def _reduce_by_inverse(
    ufunc: Ufunc, x: Array, axis: Axis, keepdims: bool, initial: ArrayLike | None
) -> Array:
    """Return ``x[0] - x[1] - ...``, or the same of quotients."""
    rank = len(shape_of(x))
    if axis is None:
        if rank > 1:
            raise ValueError(
                f"reduction operation '{ufunc.__name__}' is not reorderable, so at most"
                f" one axis may be specified{blame.user_line()}"
            )
        axis = 0
    (n,) = shaping.normal_axes(axis, rank)
    y = shaping.moveaxis(x, n, 0)
    if initial is None and shape_of(y)[0] == 0 and 0 not in shape_of(y)[1:]:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no"
            f" identity{blame.user_line()}"
        )
    first, others = (initial, y) if initial is not None else (y[0], y[1:])
    y = ufunc(first, REDUCTIONS[INVERSES[ufunc]](others, axis=0))
    return np.expand_dims(y, n) if keepdims else y


# accumulate


def accumulate(
    ufunc: Ufunc,
    name: str,
    array: Array,
    axis: int = 0,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Apply ``ufunc.accumulate``."""
    array = _prepare_operand(ufunc, array, dtype)
    if ufunc is np.add:
        return np.cumsum(array, axis=axis)
    if ufunc is np.multiply:
        return np.cumprod(array, axis=axis)
    y = shaping.moveaxis(array, axis, 0)
    if ufunc in INVERSES:
        run = np.cumsum if ufunc is np.subtract else np.cumprod
        y = np.concatenate([y[:1], ufunc(y[:1], run(y[1:], axis=0))])
        return shaping.lay_like(shaping.moveaxis(y, 0, axis), array)
    if ufunc not in ASSOCIATIVE and ufunc not in REDUCTIONS:
        raise unsupported_error(ufunc, ".accumulate")
    # Each step takes in twice as many entries.
    reach, length = 1, shape_of(y)[0]
    while reach < length:
        y = np.concatenate([y[:reach], ufunc(y[:-reach], y[reach:])])
        reach *= 2
    return shaping.lay_like(shaping.moveaxis(y, 0, axis), array)


# reduceat


def reduceat(
    ufunc: Ufunc,
    name: str,
    array: Array,
    indices: Iterable[SupportsIndex],
    axis: int = 0,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Apply ``ufunc.reduceat``: reduce the stretches that start at ``indices``.

    Raises
    ------
    IndexError
        For an index that is not in the array.
    """
    array = _prepare_operand(ufunc, array, dtype)
    axis = shaping.normal_axis(axis, len(shape_of(array)))
    y = shaping.moveaxis(array, axis, 0)
    length = shape_of(y)[0]
    starts = [int(i) for i in indices]
    for i in starts:
        if not 0 <= i < length:
            raise IndexError(
                f"index {i} out-of-bounds in {ufunc.__name__}.reduceat [0, {length})"
                f"{blame.user_line()}"
            )
    if not starts:
        return shaping.moveaxis(y[:0], 0, axis)
    ends = [*starts[1:], length]
    counts = [b - a for a, b in zip(starts, ends, strict=True)]
    if ufunc is np.add and min(counts) > 0:
        owner = np.repeat(np.arange(len(starts)), counts)  # host array: an index
        none = np.zeros_like(y, shape=(len(starts), *shape_of(y)[1:]))
        y = shaping.moveaxis(at(none)[owner].add(y[starts[0] :]), 0, axis)
        return shaping.lay_out(y, "C")
    parts = [
        reduce(ufunc, name, y[a:b]) if a + 1 < b else y[a]
        for a, b in zip(starts, ends, strict=True)
    ]
    return shaping.lay_out(np.stack(parts, axis=axis), "C")


# Functions of a user that NumPy calls slice by slice.


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Array, *args: Any, **kwargs: Any
) -> Array:
    """Call a function once per slice of an array; slow for many slices.

    For many slices, `workbench.vmap` runs a function on all of them at once.
    """
    arr = admit(arr)
    rank = len(shape_of(arr))
    axis = shaping.normal_axis(axis, rank)
    turned = shaping.moveaxis(arr, axis, -1)
    rows = shape_of(turned)[:-1]
    if math.prod(rows) == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    lines = np.reshape(turned, (math.prod(rows), shape_of(turned)[-1]))
    found = [admit(func1d(lines[k], *args, **kwargs)) for k in range(math.prod(rows))]
    y = np.stack(found)
    part = shape_of(y)[1:]
    y = np.reshape(y, rows + part)
    order = (
        *range(axis),
        *range(len(rows), len(rows) + len(part)),
        *range(axis, len(rows)),
    )
    return np.transpose(y, order)


@implements(np.apply_over_axes)
def apply_over_axes(
    func: Callable[..., Any], a: Array, axes: int | Sequence[int]
) -> Array:
    """Apply a function to one axis after another."""
    y = admit(a)
    rank = len(shape_of(y))
    for axis in axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,):
        n = shaping.normal_axis(axis, rank)
        made = func(y, n)
        if len(shape_of(made)) == rank - 1:
            made = np.expand_dims(made, n)
        if len(shape_of(made)) != rank:
            raise ValueError("function is not returning an array of the correct shape")
        y = made
    return y


# Every other use of a ufunc


def _answer(
    ufunc: Ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Answer every use of a ufunc that is not a plain call of a known op."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:  # not one of SciPy's
        name = f"np.{name}"
    if method == "at":
        write_at(ufunc, *inputs)
        return None
    out = settings.pop("out", None)
    outs = out if isinstance(out, tuple) else (out,)
    if any(x is not None for x in outs):
        return write_ufunc(ufunc, method, inputs, settings, out)
    answer = METHODS.get(method)
    if answer is None:
        raise unsupported_error(ufunc, f".{method}")
    return answer(ufunc, name, *inputs, **settings)


ATTRIBUTES[np.ufunc.__call__] = _answer

# A call: with keyword arguments, or of a ufunc that is written with other ops


def _call(
    ufunc: Ufunc,
    name: str,
    *inputs: Any,
    where: Array | bool = True,
    dtype: npt.DTypeLike | None = None,
    order: str = "K",
    **settings: Any,
) -> Array:
    if order != "K":
        y = _call(ufunc, name, *inputs, where=where, dtype=dtype, **settings)
        if order == "A":
            order = "F" if all(shaping.memory_order(x) == "F" for x in inputs) else "C"
        return shaping.lay_out(y, "F" if order == "F" else "C")
    refuse_where(name, where)
    named = {}
    if ufunc is np.vecdot and "axis" in settings:
        named["axis"] = settings.pop("axis")
    for setting in ("signature", "axes", "axis", "keepdims"):
        if settings.get(setting) is not None:
            raise unsupported_error(ufunc, f"(..., {setting}=...)")
    if dtype is not None:
        arrays = tuple(map(admit, inputs))
        inputs = tuple(x if is_weak(x) else x.astype(dtype) for x in arrays)
    if ufunc in UFUNCS:
        return apply(UFUNCS[ufunc], inputs)
    if ufunc in CALLS:
        return CALLS[ufunc](*inputs, **named)
    if load_ops(ufunc) and (ufunc in UFUNCS or ufunc in CALLS):
        return _call(ufunc, name, *inputs, dtype=dtype, **named)
    raise unsupported_error(ufunc)


CALLS[np.divmod] = lambda a, b: (np.floor_divide(a, b), np.remainder(a, b))
CALLS.update({np.sign: sign, np.frexp: frexp, np.modf: modf})


# outer


def _outer(ufunc: Ufunc, name: str, a: Array, b: Array, **settings: Any) -> Array:
    a, b = admit(a), admit(b)
    tall = np.reshape(a, shape_of(a) + (1,) * len(shape_of(b)))
    return _call(ufunc, name, tall, b, **settings)


METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": reduce,
    "accumulate": accumulate,
    "reduceat": reduceat,
    "outer": _outer,
}
