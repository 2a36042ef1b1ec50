"""Entries moved, repeated or left out: flip, roll, tile, repeat, diagonals, pad.

All are linear; each has its transpose beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.deferred import operand_shape
from workbench.core.dims import Dim, has_dim, is_zero_length, largest, smallest
from workbench.core.op import Op, View, ViewParams, declare, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import (
    Array,
    ArrayLike,
    Axis,
    Batched,
    Params,
    Shape,
    Spec,
    is_weak,
)
from workbench.errors import TraceError
from workbench.ops.define import (
    dtype_of,
    linear,
    list_positions,
    op,
    shape_of,
    spec_of_first,
)
from workbench.ops.indexing import ARRAY, GETITEM, SCATTER, Slice
from workbench.ops.shaping import (
    as_integer,
    as_integers,
    distinct_axes,
    lay_out,
    memory_order,
    moveaxis,
    normal_axes,
    normal_axis,
)

# flip


FLIP = linear(
    "flip",
    np.flip,
    lambda g, x, *, axis: np.flip(g, axis),
    rule="g flipped",
    carries=(0,),
    lengths=lambda x, *, axis: Spec(shape_of(x), dtype_of(x)),
    view=View(put=lambda x, part, params: np.flip(part, params["axis"])),
    batch="shifted",
    moves=True,
    analytic=True,
)


@implements(np.flip)
def flip(m: Array, axis: Axis = None) -> Array:
    """Reverse the order of the entries along axes, as `numpy.flip` does."""
    rank = len(shape_of(m))
    axes = tuple(range(rank)) if axis is None else distinct_axes(axis, rank)
    return apply(FLIP, (m,), {"axis": axes})


@implements(np.flipud)
def flipud(m: Array) -> Array:
    """Reverse the order of the rows, as `numpy.flipud` does."""
    return np.flip(m, 0)


@implements(np.fliplr)
def fliplr(m: Array) -> Array:
    """Reverse the order of the columns, as `numpy.fliplr` does."""
    return np.flip(m, 1)


@implements(np.rot90)
def rot90(m: Array, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Rotate an array by 90 degrees ``k`` times, as `numpy.rot90` does."""
    axes = normal_axes(tuple(axes), len(shape_of(m)))
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"np.rot90{blame.user_line()}: axes are two different ones")
    first, second = axes
    if k % 4 == 2:
        return np.flip(m, (first, second))
    if k % 4 == 0:
        return m
    if k % 4 == 1:
        return np.swapaxes(np.flip(m, second), first, second)
    return np.flip(np.swapaxes(m, first, second), second)


# roll


def _roll_body(x: Array, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    if 0 in shape_of(x):
        return None
    for step, n in zip(shift, axis, strict=True):
        at = -step % shape_of(x)[n]
        if at:
            front = (slice(None),) * n
            parts = [x[(*front, slice(at, None))], x[(*front, slice(None, at))]]
            x = np.concatenate(parts, axis=n)
    return x


ROLL = linear(
    "roll",
    np.roll,
    lambda g, x, *, shift, axis: np.roll(g, tuple(-n for n in shift), axis),
    rule="g rolled back",
    carries=(0,),
    batch="shifted",
    lengths=spec_of_first,
    unfold=_roll_body,
    moves=True,
    analytic=True,
)


@implements(np.roll)
def roll(a: Array, shift: int | Sequence[int], axis: Axis = None) -> Array:
    """Shift the entries along axes, round the end, as `numpy.roll` does."""
    if axis is None and len(shape_of(a)) != 1:
        return np.reshape(np.roll(np.reshape(a, -1), shift, 0), shape_of(a))
    axis = 0 if axis is None else axis
    shifts, axes = np.broadcast_arrays(as_integers(shift), as_integers(axis))
    params = {
        "shift": tuple(shifts.tolist()),
        "axis": normal_axes(tuple(axes.tolist()), len(shape_of(a))),
    }
    return apply(ROLL, (a,), params)


# tile and repeat: a broadcast, folded into the axes


def _tile_compute(x: Array, *, reps: tuple[int, ...]) -> Array:
    return np.tile(x, reps)


def _tile_transpose(g: Array, x: Array, *, reps: tuple[int, ...]) -> Array:
    shape = (1,) * (len(reps) - len(shape_of(x))) + shape_of(x)
    reps = (1,) * (len(shape) - len(reps)) + reps
    folded = [n for pair in zip(reps, shape, strict=True) for n in pair]
    summed = np.sum(np.reshape(g, folded), axis=tuple(range(0, 2 * len(shape), 2)))
    return np.reshape(summed, shape_of(x))


def _tile_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    x, reps = inputs[0], params["reps"]
    size, *rest = shape_of(x)
    aligned = np.reshape(x, (size, *(1,) * (len(reps) - len(rest)), *rest))
    ones = (1,) * (len(rest) - len(reps))
    return apply(TILE, (aligned,), {"reps": (1, *ones, *reps)})


def _tile_body(x: Array, *, reps: tuple[int, ...]) -> Array:
    rank = max(len(reps), len(shape_of(x)))
    shape = (1,) * (rank - len(shape_of(x))) + shape_of(x)
    reps = (1,) * (rank - len(reps)) + reps
    apart = [m for n in shape for m in (1, n)]
    spread = [m for pair in zip(reps, shape, strict=True) for m in pair]
    whole = [n * times for n, times in zip(shape, reps, strict=True)]
    return np.reshape(np.broadcast_to(np.reshape(x, apart), spread), whole)


TILE = linear(
    "tile", _tile_compute, _tile_transpose, rule="g summed over the tiles",
    batch=_tile_batch, carries=(0,), unfold=_tile_body,
    moves=True, analytic=True,
)  # fmt: skip


@implements(np.tile)
def tile(A: Array, reps: int | Sequence[int]) -> Array:
    """Repeat a whole array along each axis, as `numpy.tile` does."""
    return apply(TILE, (A,), {"reps": as_integers(reps)})


def _repeat_compute(x: Array, *, repeats: int, axis: tuple[int]) -> Array:
    return np.repeat(x, repeats, axis[0])


def _repeat_transpose(g: Array, x: Array, *, repeats: int, axis: tuple[int]) -> Array:
    shape, at = shape_of(x), axis[0] + 1
    return np.sum(np.reshape(g, (*shape[:at], repeats, *shape[at:])), axis=at)


def _repeat_body(x: Array, *, repeats: int, axis: tuple[int]) -> Any:
    shape, at = shape_of(x), axis[0] + 1
    apart = np.reshape(x, (*shape[:at], 1, *shape[at:]))
    spread = np.broadcast_to(apart, (*shape[:at], repeats, *shape[at:]))
    return np.reshape(spread, (*shape[: at - 1], shape[at - 1] * repeats, *shape[at:]))


REPEAT = linear(
    "repeat",
    _repeat_compute,
    _repeat_transpose,
    rule="g summed over the repeats",
    moves=True,
    analytic=True,
    carries=(0,),
    template="np.repeat({0}, {repeats}, *{axis})",
    batch="shifted",
    unfold=_repeat_body,
)


@implements(np.repeat)
def repeat(a: Array, repeats: Any, axis: int | None = None) -> Array:
    """Repeat each entry along an axis, as `numpy.repeat` does."""
    if axis is None or (np.shape(a) == () and axis in (0, -1)):
        a, axis = np.ravel(a), 0
    axis = normal_axis(axis, len(shape_of(a)))
    if np.ndim(repeats) == 0:
        params = {"repeats": operator.index(repeats), "axis": (axis,)}
        return apply(REPEAT, (a,), params)
    line = np.arange(shape_of(a)[axis])  # host array: positions, an index
    return np.take(a, np.repeat(line, repeats), axis)


# Triangles and diagonals


def _triangle(name: str, function: Callable[..., Any]) -> Op:
    def body(x: Array, *, k: int = 0) -> Array:
        kept = function(np.ones(shape_of(x), bool), k)  # host array: of known entries
        return np.where(kept, x, dtype_of(x).type(0))

    return linear(
        name,
        function,
        lambda g, x, *, k: function(g, k),
        rule=f"{name} of g",
        lengths=spec_of_first,
        batch="whole",
        unfold=body,
        pattern="moved",
    )


TRIL, TRIU = _triangle("tril", np.tril), _triangle("triu", np.triu)


@implements(np.tril)
def tril(m: Array, k: int = 0) -> Array:
    """Return the lower triangle with zeros above, as `numpy.tril` does."""
    return apply(TRIL, (_broadcast_to_matrix(m),), {"k": operator.index(k)})


@implements(np.triu)
def triu(m: Array, k: int = 0) -> Array:
    """Return the upper triangle with zeros below, as `numpy.triu` does."""
    return apply(TRIU, (_broadcast_to_matrix(m),), {"k": operator.index(k)})


def _broadcast_to_matrix(m: Array) -> Array:
    shape = shape_of(m)
    return np.broadcast_to(m, shape * 2) if len(shape) == 1 else m


def _diagonal_places(
    like: Array, offset: int, rows: int, columns: int
) -> tuple[Any, Any]:
    """Return the row and the column of each entry on a diagonal."""
    start = max(-offset, 0), max(offset, 0)
    length = largest(smallest(rows - start[0], columns - start[1]), 0)
    line = list_positions(length, like=like)
    return line + start[0], line + start[1]


@implements(np.diagonal)
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of two axes, as `numpy.diagonal` does."""
    if len(shape_of(a)) < 2:
        raise ValueError(
            f"np.diagonal{blame.user_line()}: diag requires an array of at least two"
            " dimensions"
        )
    matrices = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = shape_of(matrices)[-2:]
    places = _diagonal_places(a, offset, rows, columns)
    key = (Ellipsis, ARRAY, ARRAY)
    return apply(GETITEM, (matrices, *places), ViewParams(key=key))


@implements(np.linalg.diagonal)
def matrix_diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the last two axes, as `numpy.linalg.diagonal` does."""
    return np.diagonal(x, offset, -2, -1)


@implements(np.diag)
def diag(v: Array, k: int = 0) -> Array:
    """Return a matrix's diagonal or a diagonal matrix, as `numpy.diag` does."""
    if len(shape_of(v)) == 2:
        return np.diagonal(v, k)
    if len(shape_of(v)) != 1:
        raise ValueError(f"np.diag{blame.user_line()}: Input must be 1- or 2-d.")
    (length,) = shape_of(v)
    size = length + abs(k)
    places = _diagonal_places(v, k, size, size)
    params = {"key": (ARRAY, ARRAY), "shape": (size, size)}
    return apply(SCATTER, (v, *places), params)


@implements(np.diagflat)
def diagflat(v: Array, k: int = 0) -> Array:
    """Return a matrix with all entries on a diagonal, as `numpy.diagflat` does."""
    return np.diag(np.ravel(admit(v)), k)


@implements(np.trace)
def trace(
    a: Array,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: npt.DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Return the sum along a diagonal of two axes, as `numpy.trace` does."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.linalg.trace)
def matrix_trace(
    x: Array, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None
) -> Array:
    """Return the trace of the last two axes, as `numpy.linalg.trace` does."""
    return np.trace(x, offset, -2, -1, dtype)


# `numpy.pad` in all its modes.
#
# Margins of zeros or constants are an op; margins that copy entries are taken by
# position; margins that are computed (statistics, ramps, odd reflections) are joined
# on, axis by axis, as NumPy fills them: those of a later axis see those of an earlier
# one.

Pair = tuple[Any, Any]
Widths = tuple[Pair, ...]


# A margin of constants


def _pad_compute(x: Array, *, width: Widths, fill: ArrayLike = 0) -> Array:
    return np.pad(x, width, constant_values=fill)


def _pad_pull(
    g: Array, y: Array, x: Array, *, width: Widths, fill: ArrayLike = 0
) -> Array:
    return g[
        tuple(
            slice(before, before + n)
            for (before, _), n in zip(width, shape_of(x), strict=True)
        )
    ]


def _pad_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    fill = params.get("fill", 0)
    if isinstance(fill, tuple) and len(fill) == len(params["width"]):
        params = {**params, "fill": ((0, 0), *fill)}
    return apply(PAD, inputs, {**params, "width": ((0, 0), *params["width"])})


def _pad_lengths(x: Array, *, width: Widths, fill: ArrayLike = 0) -> Spec:
    pairs = zip(shape_of(x), width, strict=True)
    padded = tuple(before + n + after for n, (before, after) in pairs)
    return Spec(padded, dtype_of(x))


def _pad_body(x: Array, *, width: Widths, fill: ArrayLike = 0) -> Any:
    if not isinstance(fill, (int, float, complex)):
        return None
    shape = shape_of(x)
    key = tuple(
        Slice(before, before + n, None)
        for (before, _), n in zip(width, shape, strict=True)
    )
    whole = tuple(b + n + a for (b, a), n in zip(width, shape, strict=True))
    if fill == 0:
        return apply(SCATTER, (x,), {"key": key, "shape": whole})
    margin = np.full(whole, fill, dtype_of(x))  # host array: the margins
    return apply(declare("index_set"), (margin, x), {"key": key})


PAD = op(
    "pad",
    _pad_compute,
    _pad_pull,
    lengths=_pad_lengths,
    push=lambda tangents, y, x, *, width, fill=0: np.pad(tangents[0], width),
    rule="g without the margins",
    reads=(),
    batch=_pad_batch,
    unfold=_pad_body,
    pattern="moved",
    template=lambda node: (
        "np.pad({0}, pad_width={width}, constant_values={fill})"
        if "fill" in node.params
        else "np.pad({0}, pad_width={width})"
    ),
)


def _pad_constant(x: Array, width: Widths, constant_values: object = 0) -> Array:
    fill = constant_values
    params: Params = {"width": width}
    if isinstance(fill, (int, float, complex)):
        return apply(PAD, (x,), params | ({"fill": fill} if fill else {}))
    if not isinstance(fill, Tensor) and not _holds_tensor(fill):
        pairs = _list_pairs(fill, len(width))
        made = tuple(tuple(0 if v is None else v for v in pair) for pair in pairs)
        return apply(PAD, (x,), {**params, "fill": made})
    if isinstance(fill, Tensor) and shape_of(fill) == ():
        inside = apply(PAD, (np.ones_like(x, dtype=bool),), params)
        return np.where(inside, apply(PAD, (x,), params), fill.astype(dtype_of(x)))
    pairs = _list_pairs(fill, len(width))
    for axis, pair in enumerate(width):

        def filled(side: int, like: Array = x, i: int = axis) -> Array:
            value: Any = 0 if pairs[i][side] is None else pairs[i][side]
            if is_weak(value):
                return np.reshape(np.full_like(like, value, shape=(1,)), ())
            return value.astype(dtype_of(like))

        x = _join_margins(x, axis, pair, filled)
    return x


# Margins that hold copies

#: Of longer lines a program without values does not hold the places.
MOST_PLACES = 4**8


def _pad_copies(x: Array, width: Widths, mode: Any) -> Array:
    for axis, (before, after) in enumerate(width):
        if before or after:
            n = shape_of(x)[axis]
            # Without a value, the places too are computed when the program runs.
            many = isinstance(n, Dim) or before + n + after > MOST_PLACES
            if many and value_of(x) is None:
                x = np.take(x, _padded_places(x, n, before, after, mode), axis)
                continue
            line = np.arange(n)  # host array: positions
            x = np.take(x, np.pad(line, (before, after), mode=mode), axis)
    return x


def _padded_places(x: Array, n: int | Dim, before: int, after: int, mode: str) -> Array:
    """Return which entries lie along an axis, margins included."""
    k = list_positions(-before, n + after, like=x)
    if mode == "edge":
        return np.clip(k, 0, n - 1)
    if mode == "wrap":
        return k % n
    # There and back again; "symmetric" takes both ends twice.
    last = 2 * n - (1 if mode == "symmetric" else 2)
    k = k % (2 * n if mode == "symmetric" else largest(last, 1))
    return np.minimum(k, last - k)


# Margins that are computed


def _join_margins(
    x: Array, axis: int, pair: Pair, make_margin: Callable[[int], Array]
) -> Array:
    """Join ``make_margin(0)``, ``x`` and ``make_margin(1)``, each in its width."""
    parts = [x]
    for side in (0, 1):
        if pair[side]:
            shape = list(shape_of(x))
            shape[axis] = pair[side]
            margin = np.broadcast_to(make_margin(side), tuple(shape))
            parts.insert(0 if side == 0 else 2, margin)
    return np.concatenate(parts, axis) if len(parts) > 1 else x


def _take_window(x: Array, axis: int, where: slice) -> Array:
    return x[(slice(None),) * axis + (where,)]


def _list_pairs(given: Any, rank: int) -> list[Any]:
    """Return one setting per axis and side, from every form that NumPy accepts."""
    if given is None:
        return [(None, None)] * rank
    if isinstance(given, dict):
        named = {normal_axis(k, rank): v for k, v in given.items()}
        return [
            v if isinstance(v := named.get(i, (None, None)), (tuple, list)) else (v, v)
            for i in range(rank)
        ]
    if isinstance(given, Tensor):
        return [list(pair) for pair in np.broadcast_to(cast(Any, given), (rank, 2))]
    if isinstance(given, (tuple, list)) and _holds_tensor(given):
        # Numbers and Tensors side by side stay themselves, with their own dtypes.
        if not any(isinstance(v, (tuple, list)) for v in given):
            given = [given]
        pairs = [tuple(v) * (2 if len(v) == 1 else 1) for v in given]
        return pairs * (rank if len(pairs) == 1 else 1)
    return np.broadcast_to(given, (rank, 2)).tolist()


def _holds_tensor(given: object) -> bool:
    if isinstance(given, (tuple, list)):
        return any(map(_holds_tensor, given))
    return isinstance(given, Tensor)


def _round_to_dtype(x: Array, dtype: np.dtype[Any]) -> Array:
    """Cast to a dtype; for integers round first, as NumPy does."""
    if dtype.kind in "iu":
        x = np.rint(x)
    return x if dtype_of(x) == dtype else x.astype(dtype)


STATISTICS: dict[str, Any] = {
    "maximum": np.max,
    "mean": np.mean,
    "median": np.median,
    "minimum": np.min,
}


def _pad_statistic(
    x: Array, width: Widths, mode: str, stat_length: object = None
) -> Array:
    find = STATISTICS[mode]
    lengths = _list_pairs(stat_length, len(width))
    for axis, (pair, reach) in enumerate(zip(width, lengths, strict=True)):
        size = shape_of(x)[axis]
        ends = [size if n is None else min(int(n), size) for n in reach]
        if 0 in ends and mode in ("maximum", "minimum"):
            raise ValueError("stat_length of 0 yields no value for padding")
        windows = slice(0, ends[0]), slice(size - ends[1], size)

        def margin(side: int, y: Array = x, i: int = axis, at: Any = windows) -> Array:
            values = find(_take_window(y, i, at[side]), axis=i, keepdims=True)
            return _round_to_dtype(values, dtype_of(y))

        x = _join_margins(x, axis, pair, margin)
    return x


def _pad_ramp(x: Array, width: Widths, end_values: object = 0) -> Array:
    ends = _list_pairs(0 if end_values is None else end_values, len(width))
    for axis, pair in enumerate(width):
        edges = (
            _take_window(x, axis, slice(0, 1)),
            _take_window(x, axis, slice(-1, None)),
        )

        def margin(
            side: int, at: Any = edges, i: int = axis, n: Pair = pair, y: Array = x
        ) -> Array:
            edge = at[side]
            end = 0 if ends[i][side] is None else ends[i][side]
            whole = dtype_of(y).kind in "iu"
            steps = list_positions(n[side], like=edge)
            steps = steps if side == 0 else np.flip(steps)
            line = np.reshape(steps, (-1, *(1,) * (len(shape_of(y)) - i - 1)))
            if not whole:
                line = line.astype(np.finfo(dtype_of(y)).dtype)
            made = line * ((edge - end) / n[side]) + end
            made = np.floor(made) if whole else made
            return made if dtype_of(made) == dtype_of(y) else made.astype(dtype_of(y))

        x = _join_margins(x, axis, pair, margin)
    return x


def _pad_odd(x: Array, width: Widths, mode: str) -> Array:
    """Pad by odd reflection: twice the edge minus the reflected copy."""
    own = 1 if mode == "symmetric" else 0
    for axis, (before, after) in enumerate(width):
        period = shape_of(x)[axis]
        if period == 1:
            edges = x

            def repeated(side: int, edge: Any = edges) -> Array:
                return edge

            x = _join_margins(x, axis, (before, after), repeated)
            continue
        while before or after:
            size = shape_of(x)[axis]
            reach = (
                size // period * period
                if own
                else (size - 1) // (period - 1) * (period - 1)
            )
            first, last = min(reach, before), min(reach, after)
            start = 1 - own
            if first:
                copy = np.flip(_take_window(x, axis, slice(start, start + first)), axis)
                edge = _take_window(x, axis, slice(0, 1))
                x = np.concatenate([2 * edge - copy, x], axis)
            if last:
                stop = shape_of(x)[axis] - start
                copy = np.flip(_take_window(x, axis, slice(stop - last, stop)), axis)
                edge = _take_window(x, axis, slice(-1, None))
                x = np.concatenate([x, 2 * edge - copy], axis)
            before, after = before - first, after - last
    return x


# What NumPy calls

#: The settings that each mode takes.
SETTINGS = {
    "constant": {"constant_values"},
    "edge": set(),
    "empty": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
}


def _padded_lengths(
    array: Array, pad_width: object, *args: Any, **settings: Any
) -> Shape:
    shape = operand_shape(array)
    pairs = zip(shape, _as_widths(pad_width, len(shape)), strict=True)
    return tuple(before + n + after for n, (before, after) in pairs)


@implements(np.pad, lengths=_padded_lengths)
def pad(
    array: Array, pad_width: object, mode: object = "constant", **settings: Any
) -> Array:
    """Pad each axis as `numpy.pad` does, in all modes but a function."""
    if callable(mode):
        raise TraceError(
            f"np.pad(..., mode={mode!r}){blame.user_line()}: a function that fills the"
            " margins in place would lose the gradient. Join the margins with"
            " np.concatenate."
        )
    if mode not in SETTINGS:
        raise ValueError(f"np.pad: mode {mode!r} is not supported{blame.user_line()}")
    if unknown := set(settings) - SETTINGS[mode]:
        raise ValueError(
            f"np.pad: unsupported keyword arguments for mode {mode!r}:"
            f" {unknown}{blame.user_line()}"
        )
    array = admit(array)
    if not shape_of(array):
        return array
    padded = _pad(array, _as_widths(pad_width, len(shape_of(array))), mode, settings)
    order = memory_order(array)
    return np.copy(array, order=order) if padded is array else lay_out(padded, order)


def _pad(array: Array, width: Widths, mode: str, settings: Params) -> Array:
    if mode == "constant":
        return _pad_constant(array, width, **settings)
    if mode == "empty":
        return _pad_constant(array, width)
    if any(
        is_zero_length(n) and any(w)
        for n, w in zip(shape_of(array), width, strict=True)
    ):
        raise ValueError(
            f"np.pad{blame.user_line()}: an axis of length 0 cannot be extended in mode"
            f" {mode!r}; 'constant' and 'empty' do it"
        )
    if mode == "linear_ramp":
        return _pad_ramp(array, width, **settings)
    if mode in ("maximum", "mean", "median", "minimum"):
        return _pad_statistic(array, width, mode, **settings)
    if settings.get("reflect_type", "even") == "odd":
        return _pad_odd(array, width, mode)
    return _pad_copies(array, width, mode)


def _as_widths(pad_width: Any, rank: int) -> Widths:
    if isinstance(pad_width, dict):
        given = {normal_axis(n, rank): w for n, w in pad_width.items()}
        pad_width = [
            (w, w) if isinstance(w := given.get(n, 0), int) else tuple(w)
            for n in range(rank)
        ]
    widths = np.asarray(pad_width)  # host array: widths
    if widths.dtype.kind not in "iu" and not has_dim(widths.tolist()):
        raise TypeError(f"`pad_width` must be of integral type{blame.user_line()}")
    try:
        pairs = np.broadcast_to(widths, (rank, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"np.pad{blame.user_line()}: widths of shape {widths.shape} for {rank}"
            " axes. Write one number, one pair (before, after), or a pair for each"
            " axis."
        ) from None
    if any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"index can't contain negative values{blame.user_line()}")
    return tuple((as_integer(a), as_integer(b)) for a, b in pairs)
