"""`theano.tensor.nnet.conv2d`: Theano's habits of `workbench.conv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lifting import lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.shared import Shared
from workbench.core.types import Array
from workbench.errors import ShapeError, UsageError
from workbench.ops.conv import conv

__all__ = ["conv2d"]


def conv2d(
    input: Any,
    filters: Any,
    input_shape: Any = None,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    image_shape: Any = None,
    filter_dilation: Any = (1, 1),
    **_: Any,
) -> Array:
    """Return the convolution of images (batch, channel, row, column) with filters.

    Parameters
    ----------
    filters
        (output channel, input channel, row, column); rows and columns known, by
        ``filter_shape`` if not by the variable.
    border_mode
        ``"valid"``, ``"full"``, ``"half"``, or how many zeros to put around.
    subsample
        Every how many places the filters are laid.
    filter_dilation
        The distance of entries of a filter.
    filter_flip
        Turn the filters round, as a convolution does; else it is a correlation.
    """
    x: Any = as_tensor_variable(input)
    w: Any = as_tensor_variable(filters)
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"conv2d: images and filters have 4 axes: {x.ndim}, {w.ndim}.")
    known = w.state.shape if isinstance(w, Shared) else w.shape
    sizes = [n if filter_shape is None else filter_shape[i] for i, n in
             enumerate(known)][2:]  # fmt: skip
    sizes = [n if m is None else m for n, m in zip(known[2:], sizes, strict=True)]
    if not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise ShapeError(
            "conv2d: the rows and columns of the filters are not known. Give"
            " filter_shape=(out, in, rows, columns)."
        )
    size = tuple(map(int, sizes))
    gaps = tuple(map(int, filter_dilation))
    reach = [(n - 1) * gap + 1 for n, gap in zip(size, gaps, strict=True)]
    if filter_flip:
        w = w[:, :, ::-1, ::-1]
    w = np.reshape(w, (*w.shape[:2], *size))
    around = _count_zeros(border_mode, *reach)
    steps = tuple(map(int, subsample))
    return lift(conv(x, w, stride=steps, padding=around, dilation=gaps))


def _count_zeros(mode: Any, rows: int, columns: int) -> tuple[int, int]:
    """Return how many rows and columns of zeros stand around the images."""
    if isinstance(mode, str):
        known = {
            "valid": (0, 0),
            "full": (rows - 1, columns - 1),
            "half": (rows // 2, columns // 2),
        }
        if mode not in known:
            raise UsageError(
                f"conv2d: border_mode={mode!r} is unknown. Give {', '.join(known)},"
                " a number, or a pair of numbers."
            )
        return known[mode]
    if isinstance(mode, int):
        return mode, mode
    return int(mode[0]), int(mode[1])
