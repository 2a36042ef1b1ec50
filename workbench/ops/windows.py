"""`sliding_window_view`: every window of an array along an axis, and its transpose.

The windows are a view: no entry is copied. Backwards, what came to an entry in all the
windows that hold it is added up, one shift of the window at a time.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.dims import is_always_less
from workbench.core.op import View, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, Axis, Spec, as_spec
from workbench.ops.define import linear, shape_of
from workbench.ops.device import make_zeros
from workbench.ops.reductions import can_reduce
from workbench.ops.shaping import normal_axes

# The axis counts from the end of the array without windows, so a batch axis in front
# changes nothing.


def _windows_infer(x: Array, *, window: int, axis: int) -> Spec:
    spec = as_spec(x)
    shape = list(spec.shape)
    shape[axis] -= window - 1
    return Spec((*shape, window), spec.dtype)


def _windows_transpose(g: Array, x: Array, *, window: int, axis: int) -> Array:
    return apply(OVERLAP, (g,), {"window": window, "axis": axis})


def _overlap_compute(g: Array, *, window: int, axis: int) -> Array:
    *shape, _ = shape_of(g)
    places = shape[axis]
    shape[axis] += window - 1
    out = make_zeros(g, tuple(shape))
    before = (slice(None),) * (len(shape) + axis)
    for shift in range(window):
        out[(*before, slice(shift, shift + places))] += g[..., shift]
    return out


def _overlap_infer(g: Array, *, window: int, axis: int) -> Spec:
    spec = as_spec(g)
    shape = list(spec.shape[:-1])
    shape[axis] += window - 1
    return Spec(tuple(shape), spec.dtype)


#: Windows of at most so many entries are sums of diagonals: kernels read more of them
#: in a worse order than NumPy does slice by slice.
MOST_OVERLAPPED = 2**16


def _overlap_body(g: Array, *, window: int, axis: int) -> Any:
    """Return sums of diagonals, which are a view of windows of ``g``."""
    if not can_reduce(g) or math.prod(shape_of(g)) > MOST_OVERLAPPED:
        return None
    around = [(0, 0)] * len(shape_of(g))
    around[axis - 1] = (window - 1, window - 1)
    padded = np.pad(g, around) if window > 1 else g
    windows = np.lib.stride_tricks.sliding_window_view(padded, window, axis - 1)
    return np.sum(np.diagonal(windows[..., ::-1], 0, -2, -1), -1)


WINDOWS = linear(
    "windows",
    lambda x, *, window, axis: np.lib.stride_tricks.sliding_window_view(
        x, window, axis
    ),
    _windows_transpose,
    rule="g added up where windows overlap",
    carries=(0,),
    template="np.lib.stride_tricks.sliding_window_view({0}, {window}, {axis})",
    infer=_windows_infer,
    view=View(read_only=True),
)
OVERLAP = linear(
    "overlap_add",
    _overlap_compute,
    lambda g, x, *, window, axis: apply(
        WINDOWS, (g,), {"window": window, "axis": axis}
    ),
    rule="the windows of g",
    template="overlap_add({0}, {window}, {axis})",
    helper='''\
def overlap_add(g, window, axis):
    """Windows along an axis, added where they overlap."""
    g = np.moveaxis(g, axis - 1 if axis < 0 else axis, 0)
    out = np.zeros_like(g, shape=(g.shape[0] + window - 1, *g.shape[1:-1]))
    for shift in range(window):
        out[shift : shift + g.shape[0]] += g[..., shift]
    return np.moveaxis(out, 0, axis)
''',
    infer=_overlap_infer,
    unfold=_overlap_body,
)
WINDOWS.batch = OVERLAP.batch = "whole"


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Array,
    window_shape: Any,
    axis: Axis = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Array:
    """Return every window of a shape, as NumPy's `sliding_window_view` does."""
    x = admit(x)
    rank = len(shape_of(x))
    several = isinstance(window_shape, (tuple, list, np.ndarray))
    windows = tuple(window_shape) if several else (window_shape,)
    axes = tuple(range(rank)) if axis is None else normal_axes(axis, rank)
    if len(windows) != len(axes):
        raise ValueError(
            f"sliding_window_view{blame.user_line()}: {len(windows)} lengths of windows"
            f" for {len(axes)} axes"
        )
    if any(n < 0 for n in windows):
        raise ValueError(
            f"sliding_window_view{blame.user_line()}: `window_shape` cannot contain"
            " negative values"
        )
    for done, (window, n) in enumerate(zip(windows, axes, strict=True)):
        if is_always_less(shape_of(x)[n], window):
            raise ValueError(
                f"sliding_window_view{blame.user_line()}: window shape {window} is"
                f" larger than axis {n} of length {shape_of(x)[n]}"
            )
        params = {"window": operator.index(window), "axis": n - rank - done}
        x = apply(WINDOWS, (x,), params)
    return x
