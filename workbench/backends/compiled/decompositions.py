"""Ops in simpler ops: statistics, norms, what arranges entries anew.

Each row writes an op at fixed shapes in ops that kernels know, with NumPy's own order
of operations; None: NumPy computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.ops.define import dtype_of, shape_of, sum_to
from workbench.ops.indexing import SCATTER, Slice
from workbench.ops.reductions import count

#: Windows of at most so many entries are added up by one kernel; of more, slices
#: are read in a better order, and calls of NumPy cost little beside that.
MOST_OVERLAPPED = 2**16

# Reductions


def _is_smooth(x: Any, kinds: str = "fc") -> bool:
    """Return whether an operand has entries, of a kind that kernels reduce."""
    dtype = dtype_of(x)
    return dtype.kind in kinds and dtype.char != "e" and 0 not in shape_of(x)


def _expand_mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    if not _is_smooth(x, "fcbiu"):
        return None
    x = x.astype(float) if x.dtype.kind in "biu" else x
    total = np.sum(x, axis=axis, keepdims=keepdims)
    number: Any = count(x, axis)
    return total / float(number)


def _expand_variance(root: bool) -> Callable[..., Any]:
    def expand_variance(
        x: Any, *, axis: Any = None, keepdims: bool = False, ddof: float = 0
    ) -> Any:
        if not _is_smooth(x, "fcbiu"):
            return None
        x = x.astype(float) if x.dtype.kind in "biu" else x
        away = x - np.mean(x, axis=axis, keepdims=True)
        if x.dtype.kind == "c":
            squares = np.square(np.real(away)) + np.square(np.imag(away))
        else:
            squares = np.square(away)
        number: Any = count(x, axis)
        left = max(float(number) - ddof, 0.0)
        total = np.sum(squares, axis=axis, keepdims=keepdims) / left
        return np.sqrt(total) if root else total

    return expand_variance


def _expand_as_written(name: str) -> Callable[..., Any]:
    """Return how an op is written whose value is plain NumPy: by recording that."""

    def expand_as_written(x: Any, **settings: Any) -> Any:
        return declare(name).compute(x, **settings) if _is_smooth(x) else None

    return expand_as_written


def _expand_extremum(name: str) -> Callable[..., Any]:
    """Write the largest or smallest of entries and a number as that of two."""

    def expand_extremum(x: Any, *, initial: Any = None, **settings: Any) -> Any:
        if initial is None or not _is_smooth(x, "fiu"):
            return None
        reduce, limit = getattr(np, name), getattr(np, f"{name}imum")
        found = limit(reduce(x, **settings), initial)
        return found if found.dtype == x.dtype else None

    return expand_extremum


def _expand_present_extremum(name: str, worst: float) -> Callable[..., Any]:
    """Write the largest or smallest entry that is not NaN."""

    def expand_present_extremum(x: Any, **settings: Any) -> Any:
        if not _is_smooth(x, "f"):
            return None
        missing = np.isnan(x)
        found = getattr(np, name)(np.where(missing, worst, x), **settings)
        return np.where(np.all(missing, **settings), np.nan, found)

    return expand_present_extremum


def _expand_place(name: str) -> Callable[..., Any]:
    """Write the place of the first extreme entry; a NaN is one, as in NumPy."""

    def expand_place(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
        if not _is_smooth(x, "fiub"):
            return None
        rank = len(shape_of(x))
        if axis is None:
            made = expand_place(np.reshape(x, (x.size,)), axis=0)
            return np.reshape(made, (1,) * rank) if keepdims else made
        x = x.astype(np.uint8) if x.dtype.kind == "b" else x
        length = shape_of(x)[axis]
        hit = x == getattr(np, name)(x, axis=axis, keepdims=True)
        if x.dtype.kind == "f":
            hit = hit | np.isnan(x)
        line = [1] * rank
        line[axis] = length
        places = np.arange(length).reshape(line)  # host array: positions
        return np.min(np.where(hit, places, length), axis=axis, keepdims=keepdims)

    return expand_place


def _expand_count(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    if 0 in shape_of(x):
        return None
    return np.sum(x != 0, axis=axis, keepdims=keepdims)


def _expand_truth(name: str) -> Callable[..., Any]:
    def expand_truth(x: Any, **settings: Any) -> Any:
        return (
            None if dtype_of(x).kind == "b" else getattr(np, name)(x != 0, **settings)
        )

    return expand_truth


def _expand_unbroadcast(g: Any, *, shape: tuple[Any, ...]) -> Any:
    return sum_to(g, tuple(map(int, shape)))


def _expand_logsumexp(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Write a log-sum-exp by the largest entry, which is taken as 0 if infinite."""
    if not _is_smooth(x, "f"):
        return None
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, np.zeros((), x.dtype))
    total = np.sum(np.exp(x - largest), axis=axis, keepdims=keepdims)
    return np.log(total) + np.reshape(largest, total.shape)


# What arranges entries anew


def _expand_roll(x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    if 0 in shape_of(x):
        return None
    for step, n in zip(shift, axis, strict=True):
        at = -step % shape_of(x)[n]
        if at:
            front = (slice(None),) * n
            parts = [x[(*front, slice(at, None))], x[(*front, slice(None, at))]]
            x = np.concatenate(parts, axis=n)
    return x


def _expand_tile(x: Any, *, reps: tuple[int, ...]) -> Any:
    rank = max(len(reps), len(shape_of(x)))
    shape = (1,) * (rank - len(shape_of(x))) + shape_of(x)
    reps = (1,) * (rank - len(reps)) + reps
    apart = [m for n in shape for m in (1, n)]
    spread = [m for pair in zip(reps, shape, strict=True) for m in pair]
    whole = [n * times for n, times in zip(shape, reps, strict=True)]
    return np.reshape(np.broadcast_to(np.reshape(x, apart), spread), whole)


def _expand_repeat(x: Any, *, repeats: int, axis: tuple[int]) -> Any:
    shape, at = shape_of(x), axis[0] + 1
    if type(repeats) is not int:
        return None
    apart = np.reshape(x, (*shape[:at], 1, *shape[at:]))
    spread = np.broadcast_to(apart, (*shape[:at], repeats, *shape[at:]))
    return np.reshape(spread, (*shape[: at - 1], shape[at - 1] * repeats, *shape[at:]))


def _expand_pad(x: Any, *, width: Any, fill: Any = 0) -> Any:
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


def _expand_linspace(start: Any, stop: Any, *, num: int, endpoint: bool = True) -> Any:
    parts = num - 1 if endpoint else num
    if num < 1 or np.result_type(dtype_of(start), dtype_of(stop)).char == "e":
        return None
    way = np.subtract(stop, start) * 1.0
    real = np.empty(0, dtype_of(way)).real.dtype  # host array: its dtype
    line = np.arange(num, dtype=real).reshape(num, *(1,) * len(shape_of(way)))
    made = line * (way / float(parts)) + start if parts else line * way + start
    if not endpoint or num < 2:
        return made
    return np.concatenate([made[:-1], np.broadcast_to(stop, shape_of(made[:1]))])


def _expand_round(x: Any, *, decimals: int = 0) -> Any:
    if dtype_of(x).kind != "f" or dtype_of(x).char == "e":
        return None
    scale = 10.0 ** abs(decimals)
    if decimals == 0:
        return np.rint(x)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


def _expand_triangle(name: str) -> Callable[..., Any]:
    def expand_triangle(x: Any, *, k: int = 0) -> Any:
        kept = getattr(np, name)(np.ones(x.shape, bool), k)
        return np.where(kept, x, np.zeros((), x.dtype))

    return expand_triangle


# What only settings tell


def _expand_full_like(
    x: Any, *, fill: Any, dtype: Any = None, shape: Any = None, order: str = "K"
) -> Any:
    dtype = x.dtype if dtype is None else dtype
    whole = np.full(x.shape if shape is None else shape, fill, dtype)
    first = whole.reshape(-1)[:1].reshape(()) if whole.size else whole
    return np.broadcast_to(first, whole.shape)


def _expand_overlap(g: Any, *, window: int, axis: int) -> Any:
    """Return windows added where they overlap: sums of diagonals, which are a view."""
    if not _is_smooth(g) or g.size > MOST_OVERLAPPED:
        return None
    around = [(0, 0)] * g.ndim
    around[axis - 1] = (window - 1, window - 1)
    padded = np.pad(g, around) if window > 1 else g
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis - 1)
    return np.sum(np.diagonal(windows[..., ::-1], 0, -2, -1), -1)


def _make_like(x: Any, *, maker: str, settings: tuple[Any, ...]) -> Any:
    """Return an array that only the settings tell."""
    like = np.empty((), getattr(x, "dtype", float))  # host array: of NumPy's kind
    return declare("make_like").compute(like, maker=maker, settings=settings)


DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "all": _expand_truth("all"),
    "any": _expand_truth("any"),
    "argmax": _expand_place("max"),
    "argmin": _expand_place("min"),
    "count_nonzero": _expand_count,
    "full_like": _expand_full_like,
    "linspace": _expand_linspace,
    "logsumexp": _expand_logsumexp,
    "make_like": _make_like,
    "max": _expand_extremum("max"),
    "mean": _expand_mean,
    "min": _expand_extremum("min"),
    "nanmax": _expand_present_extremum("max", -np.inf),
    "nanmin": _expand_present_extremum("min", np.inf),
    "norm": _expand_as_written("norm"),
    "overlap_add": _expand_overlap,
    "pad": _expand_pad,
    "power_norm": _expand_as_written("power_norm"),
    "repeat": _expand_repeat,
    "roll": _expand_roll,
    "round": _expand_round,
    "std": _expand_variance(root=True),
    "tile": _expand_tile,
    "tril": _expand_triangle("tril"),
    "triu": _expand_triangle("triu"),
    "unbroadcast": _expand_unbroadcast,
    "var": _expand_variance(root=False),
}
