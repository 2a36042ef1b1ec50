"""`autograd.scipy.signal`: SciPy's, and a convolution over chosen axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.signal

from workbench.compat.autograd.namespace import NAMESPACE
from workbench.errors import UsageError
from workbench.numpy.namespaces import swap_scipy

__all__ = ["convolve"]

Axes = Sequence[Sequence[int]]


def convolve(
    A: Any,
    B: Any,
    axes: Axes | None = None,
    dot_axes: Axes | None = None,
    mode: str = "full",
) -> Any:
    """Convolve two arrays along some axes, sum along others, and keep the rest.

    Parameters
    ----------
    A, B
        The arrays.
    axes
        The axes of each that are convolved, a pair of lists; by default all.
    dot_axes
        The axes of each that are multiplied and summed; by default none.
    mode
        ``"full"``, ``"same"`` (as long as ``A``) or ``"valid"``.

    Returns
    -------
    An array of the axes of ``A`` that are left, those of ``B``, and the convolved ones.

    Examples
    --------
    >>> import numpy as np
    >>> from workbench.compat.autograd.scipy.signal import convolve
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0]))
    array([ 1.,  1.,  1., -3.])
    """
    if mode not in ("full", "same", "valid"):
        raise AssertionError(
            f"Mode {mode} undefined, it can be one of 'valid', 'full', and 'same'"
        )
    along = [range(np.ndim(A)), range(np.ndim(B))] if axes is None else axes
    summed = ((), ()) if dot_axes is None else dot_axes
    if len(along[0]) != len(along[1]) or len(summed[0]) != len(summed[1]):
        raise UsageError(
            f"convolve: axes={axes!r} and dot_axes={dot_axes!r} name as many axes of A"
            " as of B."
        )
    lengths = [(np.shape(A)[i], np.shape(B)[j]) for i, j in zip(*along, strict=True)]
    if mode == "valid" and not (
        all(a >= b for a, b in lengths) or all(a <= b for a, b in lengths)
    ):
        raise ValueError(
            "One array must be larger than the other along all convolved dimensions"
        )
    # The longer one slides over the shorter one.
    swapped = mode == "valid" and any(a < b for a, b in lengths)
    x, k = (B, A) if swapped else (A, B)
    x_axes, k_axes = along[::-1] if swapped else along
    x_dots, k_dots = summed[::-1] if swapped else summed
    if mode != "valid":
        widths = [(0, 0)] * np.ndim(x)
        for i, (_, b) in zip(x_axes, lengths, strict=True):
            before = b - 1 if mode == "full" else b // 2
            widths[i] = (before, b - 1 if mode == "full" else b - 1 - b // 2)
        x = np.pad(x, widths)
    window = tuple(np.shape(k)[j] for j in k_axes)
    seen = np.lib.stride_tricks.sliding_window_view(x, window, tuple(x_axes))
    flipped = [slice(None)] * np.ndim(k)
    for j in k_axes:
        flipped[j] = slice(None, None, -1)
    n = np.ndim(x)
    pairs: Any = [[*range(n, n + len(window)), *x_dots], [*k_axes, *k_dots]]
    made = np.tensordot(seen, k[tuple(flipped)], pairs)
    # The axes of x that are left, the convolved ones among them, then those of k.
    left = [i for i in range(n) if i not in x_dots]
    kept = [left.index(i) for i in left if i not in x_axes]
    slid = [left.index(i) for i in x_axes]
    others = list(range(len(left), np.ndim(made)))
    order = [*others, *kept, *slid] if swapped else [*kept, *others, *slid]
    return np.transpose(made, order)


__getattr__ = NAMESPACE.fall_back("scipy.signal", swap_scipy(scipy.signal))
