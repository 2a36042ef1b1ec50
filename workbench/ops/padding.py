"""`numpy.pad` in all its modes.

Margins of zeros or constants are an op; margins that copy entries are taken by
position; margins that are computed (statistics, ramps, odd reflections) are joined on,
axis by axis, as NumPy fills them: those of a later axis see those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from workbench.core import blame
from workbench.core.broadcasting import largest
from workbench.core.dims import Dim, none
from workbench.core.op import implements
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import weak
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, op, shape_of
from workbench.ops.shaping import normal_axis

__all__ = ["PAD", "pad"]

Params = dict[str, Any]
Batched = tuple[bool, ...]
Pair = tuple[int, int]
Widths = tuple[Pair, ...]


# A margin of constants


def _pad_compute(x: Any, *, width: Widths, fill: Any = 0) -> Any:
    return np.pad(x, width, constant_values=fill)


def _pad_pull(g: Any, y: Any, x: Any, *, width: Widths, fill: Any = 0) -> Any:
    return g[
        tuple(
            slice(before, before + n)
            for (before, _), n in zip(width, shape_of(x), strict=True)
        )
    ]


def _pad_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    fill = params.get("fill", 0)
    if isinstance(fill, tuple) and len(fill) == len(params["width"]):
        params = {**params, "fill": ((0, 0), *fill)}
    return apply(PAD, inputs, {**params, "width": ((0, 0), *params["width"])})


PAD = op(
    "pad",
    _pad_compute,
    _pad_pull,
    push=lambda tangents, y, x, *, width, fill=0: np.pad(tangents[0], width),
    rule="g without the margins",
    reads=(),
    batch=_pad_batch,
)


def _constant(x: Any, width: Widths, constant_values: Any = 0) -> Any:
    fill = constant_values
    params: Params = {"width": width}
    if isinstance(fill, (int, float, complex)):
        return apply(PAD, (x,), params | ({"fill": fill} if fill else {}))
    if not isinstance(fill, Tensor) and not _holds_tensor(fill):
        pairs = _pairs(fill, len(width))
        made = tuple(tuple(0 if v is None else v for v in pair) for pair in pairs)
        return apply(PAD, (x,), {**params, "fill": made})
    if isinstance(fill, Tensor) and shape_of(fill) == ():
        inside = apply(PAD, (np.ones_like(x, dtype=bool),), params)
        return np.where(inside, apply(PAD, (x,), params), fill.astype(dtype_of(x)))
    pairs = _pairs(fill, len(width))
    for axis, pair in enumerate(width):

        def filled(side: int, like: Any = x, i: int = axis) -> Any:
            value: Any = 0 if pairs[i][side] is None else pairs[i][side]
            if weak(value):
                return np.full_like(like, value, shape=())
            return value.astype(dtype_of(like))

        x = _joined(x, axis, pair, filled)
    return x


# Margins that hold copies


def _copied(x: Any, width: Widths, mode: Any) -> Any:
    for axis, (before, after) in enumerate(width):
        if before or after:
            n = shape_of(x)[axis]
            if isinstance(n, Dim):
                x = np.take(x, _places(x, n, before, after, mode), axis)
                continue
            line = np.arange(n)  # host array: positions
            x = np.take(x, np.pad(line, (before, after), mode=mode), axis)
    return x


def _places(x: Any, n: Dim, before: int, after: int, mode: str) -> Any:
    """Which entries lie along an axis of unknown length, margins included."""
    k = np.arange(-before, n + after, like=x)
    if mode == "edge":
        return np.clip(k, 0, n - 1)
    if mode == "wrap":
        return k % n
    # There and back again; "symmetric" takes both ends twice.
    last = 2 * n - (1 if mode == "symmetric" else 2)
    k = k % (2 * n if mode == "symmetric" else largest(last, 1))
    return np.minimum(k, last - k)


# Margins that are computed


def _joined(x: Any, axis: int, pair: Pair, made: Callable[[int], Any]) -> Any:
    """``x`` between ``made(0)`` and ``made(1)``, each as wide as its margin."""
    parts = [x]
    for side in (0, 1):
        if pair[side]:
            shape = list(shape_of(x))
            shape[axis] = pair[side]
            margin = np.broadcast_to(made(side), tuple(shape))
            parts.insert(0 if side == 0 else 2, margin)
    return np.concatenate(parts, axis) if len(parts) > 1 else x


def _window(x: Any, axis: int, where: slice) -> Any:
    return x[(slice(None),) * axis + (where,)]


def _pairs(given: Any, rank: int) -> Any:
    """A setting per axis and side, from all the ways to write it."""
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


def _holds_tensor(given: Any) -> bool:
    if isinstance(given, (tuple, list)):
        return any(map(_holds_tensor, given))
    return isinstance(given, Tensor)


def _rounded(x: Any, dtype: Any) -> Any:
    """Whole numbers for an array of integers, as NumPy rounds them."""
    if dtype.kind in "iu":
        x = np.rint(x)
    return x if dtype_of(x) == dtype else x.astype(dtype)


STATISTICS: dict[str, Any] = {
    "maximum": np.max,
    "mean": np.mean,
    "median": np.median,
    "minimum": np.min,
}


def _statistic(x: Any, width: Widths, mode: str, stat_length: Any = None) -> Any:
    find = STATISTICS[mode]
    lengths = _pairs(stat_length, len(width))
    for axis, (pair, reach) in enumerate(zip(width, lengths, strict=True)):
        size = shape_of(x)[axis]
        ends = [size if n is None else min(int(n), size) for n in reach]
        if 0 in ends and mode in ("maximum", "minimum"):
            raise ValueError("stat_length of 0 yields no value for padding")
        windows = slice(0, ends[0]), slice(size - ends[1], size)

        def margin(side: int, y: Any = x, i: int = axis, at: Any = windows) -> Any:
            values = find(_window(y, i, at[side]), axis=i, keepdims=True)
            return _rounded(values, dtype_of(y))

        x = _joined(x, axis, pair, margin)
    return x


def _ramp(x: Any, width: Widths, end_values: Any = 0) -> Any:
    ends = _pairs(0 if end_values is None else end_values, len(width))
    for axis, pair in enumerate(width):
        edges = _window(x, axis, slice(0, 1)), _window(x, axis, slice(-1, None))

        def margin(
            side: int, at: Any = edges, i: int = axis, n: Pair = pair, y: Any = x
        ) -> Any:
            edge = at[side]
            end = 0 if ends[i][side] is None else ends[i][side]
            whole = dtype_of(y).kind in "iu"
            steps = np.arange(n[side], like=edge)
            steps = steps if side == 0 else np.flip(steps)
            line = np.reshape(steps, (-1, *(1,) * (len(shape_of(y)) - i - 1)))
            if not whole:
                line = line.astype(np.finfo(dtype_of(y)).dtype)
            made = line * ((edge - end) / n[side]) + end
            made = np.floor(made) if whole else made
            return made if dtype_of(made) == dtype_of(y) else made.astype(dtype_of(y))

        x = _joined(x, axis, pair, margin)
    return x


def _odd(x: Any, width: Widths, mode: str) -> Any:
    """Reflected at the edges, and turned round: twice the edge minus the copy."""
    own = 1 if mode == "symmetric" else 0
    for axis, (before, after) in enumerate(width):
        period = shape_of(x)[axis]
        if period == 1:
            edges = x

            def repeated(side: int, edge: Any = edges) -> Any:
                return edge

            x = _joined(x, axis, (before, after), repeated)
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
                copy = np.flip(_window(x, axis, slice(start, start + first)), axis)
                edge = _window(x, axis, slice(0, 1))
                x = np.concatenate([2 * edge - copy, x], axis)
            if last:
                stop = shape_of(x)[axis] - start
                copy = np.flip(_window(x, axis, slice(stop - last, stop)), axis)
                edge = _window(x, axis, slice(-1, None))
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


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **settings: Any) -> Any:
    """`numpy.pad`, in all modes but a function."""
    if callable(mode):
        raise TraceError(
            f"np.pad(..., mode={mode!r}){blame.here()}: a function that fills the"
            " margins in place would lose the gradient. Join the margins with"
            " np.concatenate."
        )
    if mode not in SETTINGS:
        raise ValueError(f"np.pad: mode {mode!r} is not supported{blame.here()}")
    if unknown := set(settings) - SETTINGS[mode]:
        raise ValueError(
            f"np.pad: unsupported keyword arguments for mode {mode!r}:"
            f" {unknown}{blame.here()}"
        )
    array = admit(array)
    if not shape_of(array):
        return array
    width = _widths(pad_width, len(shape_of(array)))
    if mode == "constant":
        return _constant(array, width, **settings)
    if mode == "empty":
        return _constant(array, width)
    if any(none(n) and any(w) for n, w in zip(shape_of(array), width, strict=True)):
        raise ValueError(
            f"np.pad{blame.here()}: an axis of length 0 cannot be extended in mode"
            f" {mode!r}; 'constant' and 'empty' do it"
        )
    if mode == "linear_ramp":
        return _ramp(array, width, **settings)
    if mode in ("maximum", "mean", "median", "minimum"):
        return _statistic(array, width, mode, **settings)
    if settings.get("reflect_type", "even") == "odd":
        return _odd(array, width, mode)
    return _copied(array, width, mode)


def _widths(pad_width: Any, rank: int) -> Widths:
    if isinstance(pad_width, dict):
        given = {normal_axis(n, rank): w for n, w in pad_width.items()}
        pad_width = [
            (w, w) if isinstance(w := given.get(n, 0), int) else tuple(w)
            for n in range(rank)
        ]
    if np.asarray(pad_width).dtype.kind not in "iu":  # host array: widths
        raise TypeError(f"`pad_width` must be of integral type{blame.here()}")
    pairs = np.broadcast_to(pad_width, (rank, 2)).tolist()
    if any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"index can't contain negative values{blame.here()}")
    return tuple((int(a), int(b)) for a, b in pairs)
