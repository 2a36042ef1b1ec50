"""`theano.tensor.signal.pool`: the greatest entry, or the mean, of each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lifting import is_known_length, lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.dims import largest
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError

__all__ = ["max_pool_2d", "pool_2d"]

MODES = ("max", "sum", "average_inc_pad", "average_exc_pad")


def pool_2d(
    input: Any,
    ws: Any = None,
    ignore_border: bool = False,
    stride: Any = None,
    pad: Any = (0, 0),
    mode: str = "max",
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> Array:
    """Reduce windows of ``ws`` entries over the last two axes to one entry each.

    Parameters
    ----------
    ws
        Rows and columns of a window (``ds`` in old programs).
    ignore_border
        Leave out windows that would reach over the border.
    stride
        From one window to the next (``st``); ``ws`` unless given.
    pad
        How many rows and columns to put around (``padding``).
    mode
        ``"max"``, ``"sum"``, ``"average_inc_pad"`` or ``"average_exc_pad"``.
    """
    x = as_tensor_variable(input)
    size = _pair(ws if ws is not None else ds)
    steps = _pair(next((s for s in (stride, st) if s is not None), size))
    around = _pair(padding if padding is not None else pad)
    if mode not in MODES:
        raise UsageError(
            f"pool_2d: mode={mode!r} is unknown. Give one of {', '.join(MODES)}."
        )
    if any(around) and not ignore_border:
        raise UsageError("pool_2d: padding works with ignore_border=True.")
    full = (slice(None),) * (x.ndim - 2)
    ends = [(n, n) for n in around]
    if not ignore_border:
        ends = [
            (0, _measure_overhang(n, w, s))
            for n, w, s in zip(x.shape[-2:], size, steps, strict=True)
        ]
    widths = [(0, 0)] * (x.ndim - 2) + ends

    def windows(array: Any, outside: float) -> Array:
        if any(not (is_known_length(n) and n == 0) for end in ends for n in end):
            array = np.pad(array, widths, constant_values=outside)
        found = np.lib.stride_tricks.sliding_window_view(array, size, axis=(-2, -1))
        return found[(*full, slice(None, None, steps[0]), slice(None, None, steps[1]))]

    if mode == "max":
        return lift(np.max(windows(x, -np.inf), axis=(-2, -1)))
    total = np.sum(windows(x, 0.0), axis=(-2, -1))
    if mode == "sum":
        return lift(total)
    if mode == "average_inc_pad" and ignore_border:
        return lift(total / (size[0] * size[1]))
    inside = np.ones_like(x)
    return lift(total / np.sum(windows(inside, 0.0), axis=(-2, -1)))


def _measure_overhang(n: Any, w: int, s: int) -> Any:
    """Return how far the last window that begins inside reaches over the border."""
    # If windows overlap, one that holds nothing new is left out.
    count = (n - 1) // s + 1 if s >= w else largest(0, (n - 1 - w + s) // s) + 1
    return largest((count - 1) * s + w - n, 0)


def max_pool_2d(
    input: ArrayLike,
    ds: Any = None,
    ignore_border: bool = False,
    st: Any = None,
    padding: Any = (0, 0),
    mode: str = "max",
    **more: Any,
) -> Array:
    """Return the greatest entry of each window: `pool_2d` under its older name."""
    return pool_2d(input, more.get("ws", ds), ignore_border, st, padding, mode)


def _pair(n: Any) -> tuple[int, int]:
    if n is None:
        raise UsageError("pool_2d: give ws=(rows, columns), the size of a window.")
    return (int(n), int(n)) if np.ndim(n) == 0 else (int(n[0]), int(n[1]))
