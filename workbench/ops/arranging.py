"""Entries moved, repeated or left out: flip, roll, tile, repeat, diagonals.

All are linear; each has its transpose beside it. Margins stand in `padding.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.broadcasting import largest, smallest
from workbench.core.op import Op, ViewParams, always, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Spec
from workbench.ops.define import dtype_of, linear, no_out, shape_of
from workbench.ops.indexing import GETITEM, SCATTER
from workbench.ops.keys import ARRAY
from workbench.ops.shaping import distinct_axes, integers, normal_axes, normal_axis

__all__: list[str] = []

Params = dict[str, Any]
Batched = tuple[bool, ...]


def _shifted(made: Op) -> Callable[..., Any]:
    """The batch rule of an op whose params name ``axis``: each one further."""

    def batch(inputs: Any, batched: Batched, params: Params) -> Any:
        axis = tuple(n + 1 for n in params["axis"])
        return apply(made, inputs, {**params, "axis": axis})

    return batch


# flip


def _flip_compute(x: Any, *, axis: tuple[int, ...]) -> Any:
    return np.flip(x, axis)


FLIP = linear(
    "flip",
    _flip_compute,
    lambda g, x, *, axis: np.flip(g, axis),
    rule="g flipped",
    lengths=lambda x, *, axis: Spec(shape_of(x), dtype_of(x)),
    view=always,
)
FLIP.batch = _shifted(FLIP)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """`numpy.flip`."""
    rank = len(shape_of(m))
    axes = tuple(range(rank)) if axis is None else distinct_axes(axis, rank)
    return apply(FLIP, (m,), {"axis": axes})


@implements(np.flipud)
def flipud(m: Any) -> Any:
    """`numpy.flipud`."""
    return np.flip(m, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    """`numpy.fliplr`."""
    return np.flip(m, 1)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """`numpy.rot90`."""
    axes = normal_axes(tuple(axes), len(shape_of(m)))
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"np.rot90{blame.here()}: axes are two different ones")
    first, second = axes
    if k % 4 == 2:
        return np.flip(m, (first, second))
    if k % 4 == 0:
        return m
    if k % 4 == 1:
        return np.swapaxes(np.flip(m, second), first, second)
    return np.flip(np.swapaxes(m, first, second), second)


# roll


def _roll_compute(x: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return np.roll(x, shift, axis)


ROLL = linear(
    "roll",
    _roll_compute,
    lambda g, x, *, shift, axis: np.roll(g, tuple(-n for n in shift), axis),
    rule="g rolled back",
)
ROLL.batch = _shifted(ROLL)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """`numpy.roll`."""
    if axis is None:
        return np.reshape(np.roll(np.ravel(a), shift, 0), shape_of(a))
    shifts, axes = np.broadcast_arrays(integers(shift), integers(axis))
    params = {
        "shift": tuple(shifts.tolist()),
        "axis": normal_axes(tuple(axes.tolist()), len(shape_of(a))),
    }
    return apply(ROLL, (a,), params)


# tile and repeat: a broadcast, folded into the axes


def _tile_compute(x: Any, *, reps: tuple[int, ...]) -> Any:
    return np.tile(x, reps)


def _tile_transpose(g: Any, x: Any, *, reps: tuple[int, ...]) -> Any:
    shape = (1,) * (len(reps) - len(shape_of(x))) + shape_of(x)
    reps = (1,) * (len(shape) - len(reps)) + reps
    folded = [n for pair in zip(reps, shape, strict=True) for n in pair]
    summed = np.sum(np.reshape(g, folded), axis=tuple(range(0, 2 * len(shape), 2)))
    return np.reshape(summed, shape_of(x))


def _tile_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    x, reps = inputs[0], params["reps"]
    size, *rest = shape_of(x)
    aligned = np.reshape(x, (size, *(1,) * (len(reps) - len(rest)), *rest))
    ones = (1,) * (len(rest) - len(reps))
    return apply(TILE, (aligned,), {"reps": (1, *ones, *reps)})


TILE = linear(
    "tile", _tile_compute, _tile_transpose, rule="g summed over the tiles",
    batch=_tile_batch,
)  # fmt: skip


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """`numpy.tile`."""
    return apply(TILE, (A,), {"reps": integers(reps)})


def _repeat_compute(x: Any, *, repeats: int, axis: tuple[int]) -> Any:
    return np.repeat(x, repeats, axis[0])


def _repeat_transpose(g: Any, x: Any, *, repeats: int, axis: tuple[int]) -> Any:
    shape, at = shape_of(x), axis[0] + 1
    return np.sum(np.reshape(g, (*shape[:at], repeats, *shape[at:])), axis=at)


REPEAT = linear(
    "repeat", _repeat_compute, _repeat_transpose, rule="g summed over the repeats"
)
REPEAT.batch = _shifted(REPEAT)


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """`numpy.repeat`."""
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
    def compute(x: Any, *, k: int) -> Any:
        return function(x, k)

    made = linear(name, compute, lambda g, x, *, k: function(g, k), rule=f"{name} of g")

    made.batch = lambda inputs, batched, params: apply(made, inputs, params)
    return made


TRIL, TRIU = _triangle("tril", np.tril), _triangle("triu", np.triu)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """`numpy.tril`."""
    return apply(TRIL, (_matrix(m),), {"k": operator.index(k)})


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """`numpy.triu`."""
    return apply(TRIU, (_matrix(m),), {"k": operator.index(k)})


def _matrix(m: Any) -> Any:
    shape = shape_of(m)
    return np.broadcast_to(m, shape * 2) if len(shape) == 1 else m


def _places(like: Any, offset: int, rows: int, columns: int) -> tuple[Any, Any]:
    """Row and column of each entry on a diagonal."""
    start = max(-offset, 0), max(offset, 0)
    length = largest(smallest(rows - start[0], columns - start[1]), 0)
    line = np.arange(length, like=like)
    return line + start[0], line + start[1]


@implements(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """`numpy.diagonal`."""
    if len(shape_of(a)) < 2:
        raise ValueError(
            f"np.diagonal{blame.here()}: diag requires an array of at least two"
            " dimensions"
        )
    matrices = np.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = shape_of(matrices)[-2:]
    places = _places(a, offset, rows, columns)
    key = (Ellipsis, ARRAY, ARRAY)
    return apply(GETITEM, (matrices, *places), ViewParams(key=key))


@implements(np.linalg.diagonal)
def matrix_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """`numpy.linalg.diagonal`."""
    return np.diagonal(x, offset, -2, -1)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """`numpy.diag`."""
    if len(shape_of(v)) == 2:
        return np.diagonal(v, k)
    if len(shape_of(v)) != 1:
        raise ValueError(f"np.diag{blame.here()}: Input must be 1- or 2-d.")
    (length,) = shape_of(v)
    size = length + abs(k)
    places = _places(v, k, size, size)
    params = {"key": (ARRAY, ARRAY), "shape": (size, size)}
    return apply(SCATTER, (v, *places), params)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """`numpy.diagflat`."""
    return np.diag(np.ravel(admit(v)), k)


@implements(np.trace)
def trace(
    a: Any,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Any:
    """`numpy.trace`."""
    no_out("np.trace", out)
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.linalg.trace)
def matrix_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """`numpy.linalg.trace`."""
    return np.trace(x, offset, -2, -1, dtype)
