"""Functions of a user that NumPy calls slice by slice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit
from workbench.ops.define import shape_of
from workbench.ops.shaping import normal_axis

__all__: list[str] = []


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """`numpy.apply_along_axis`: one call for each slice, so use it for few of them.

    For many slices, `workbench.vmap` runs a function on all of them at once.
    """
    arr = admit(arr)
    rank = len(shape_of(arr))
    axis = normal_axis(axis, rank)
    turned = np.moveaxis(arr, axis, -1)
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
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """`numpy.apply_over_axes`."""
    y = admit(a)
    rank = len(shape_of(y))
    for axis in axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes,):
        n = normal_axis(axis, rank)
        made = func(y, n)
        if len(shape_of(made)) == rank - 1:
            made = np.expand_dims(made, n)
        if len(shape_of(made)) != rank:
            raise ValueError("function is not returning an array of the correct shape")
        y = made
    return y
