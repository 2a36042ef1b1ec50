"""Convolution and correlation in two dimensions, with a boundary."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.ops.complex_parts import conjugate
from workbench.ops.convolution import convolved, turned
from workbench.ops.define import shape_of
from workbench.ops.padding import pad
from workbench.scipy.signal.pairs import MODES, checked, nothing, pair, swapped

__all__ = ["convolve2d", "correlate2d"]


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
) -> Any:
    """`scipy.signal.convolve2d`: of two matrices, with a choice of boundary.

    Parameters
    ----------
    in1, in2
        Matrices or Tensors of them.
    mode
        As of `convolve`.
    boundary
        What lies around ``in1``: ``"fill"`` (``fillvalue``), ``"wrap"`` (itself, over
        and over) or ``"symm"`` (its mirror image).
    fillvalue
        A number or a Tensor of no axis.

    Raises
    ------
    ValueError
        If an array is no matrix, or no array fits into the other for ``"valid"``.

    Examples
    --------
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> convolve2d(x, np.ones((2, 2)), mode="same", boundary="wrap")
    array([[6., 6.],
           [6., 6.]])
    """
    return _bounded("convolve2d", in1, in2, mode, boundary, fillvalue)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
) -> Any:
    """`scipy.signal.correlate2d`: of two matrices, with a choice of boundary.

    Parameters
    ----------
    in1, in2, mode, boundary, fillvalue
        As of `convolve2d`.

    Raises
    ------
    ValueError
        As `convolve2d` does.

    Examples
    --------
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> correlate2d(x, x, mode="valid")
    array([[14.]])
    """
    a, b = pair("correlate2d", in1, in2)
    swap = mode == "valid" and swapped("correlate2d", shape_of(a), shape_of(b))
    if swap:
        a, b = b, a
    y = _bounded(
        "correlate2d", a, turned(conjugate(b)), mode, boundary, fillvalue, late=True
    )  # fmt: skip
    # Unlike `correlate`, SciPy's takes no conjugate of a result that it turns.
    return turned(y) if swap else y


#: SciPy's name of a boundary, and NumPy's.
BOUNDARIES = {"fill": "constant", "symm": "symmetric", "wrap": "wrap"}


def _bounded(
    name: str,
    in1: Any,
    in2: Any,
    mode: str,
    boundary: str,
    fillvalue: Any,
    late: bool = False,
) -> Any:
    a, b = pair(name, in1, in2)
    if len(shape_of(a)) != 2:
        raise ValueError(
            f"{name}{blame.here()}: inputs must both be 2-D arrays, not of"
            f" {len(shape_of(a))} axes; workbench.scipy.signal.convolve takes any"
        )
    checked(name, mode, MODES)
    checked(name, boundary, ("fill", "wrap", "symm"), "boundary")
    if mode == "valid" and swapped(name, shape_of(a), shape_of(b)):
        a, b = b, a
    if 0 in shape_of(a) + shape_of(b):
        return nothing(name, a, b, mode)
    named: Any = BOUNDARIES[boundary]
    plain = boundary == "fill" and type(fillvalue) in (int, float) and fillvalue == 0
    if mode == "valid":
        return convolved(a, b, mode)
    if plain:
        return _middle(convolved(a, b, "full"), a, b, mode, late)
    width = [(n - 1, n - 1) for n in shape_of(b)]
    if boundary == "fill":
        around = pad(a, width, constant_values=fillvalue)  # it may be a Tensor
    else:
        around = np.pad(a, width, mode=named)
    return _middle(convolved(around, b, "valid"), a, b, mode, late)


def _middle(y: Any, a: Any, b: Any, mode: str, late: bool) -> Any:
    """What of the full result lies over ``a``; one later for a correlation."""
    if mode != "same":
        return y
    starts = [(m if late else m - 1) // 2 for m in shape_of(b)]
    return y[tuple(slice(i, i + n) for i, n in zip(starts, shape_of(a), strict=True))]
