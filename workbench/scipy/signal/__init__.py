"""`scipy.signal` for Tensors and arrays: convolutions and linear filters.

The same names, arguments and values as SciPy's; derivatives by both arrays, by the
coefficients of a filter, and by its initial state.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import signal
>>> x, k = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25])
>>> signal.convolve(x, k, mode="same")
array([0.5 , 1.25, 2.  ])
>>> wb.grad(lambda k: np.sum(signal.convolve(x, k, mode="valid") ** 2))(k)
array([17. , 10.5])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.broadcasting import broadcast_shapes
from workbench.core.types import Spec, spec_of
from workbench.ops.convolution import centred, convolved, turned
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.lengths import delay
from workbench.ops.shaping import normal_axes
from workbench.scipy.signal.filters import (
    MODES,
    checked,
    convolve2d,
    correlate2d,
    lfilter,
    nothing,
    pair,
    swapped,
)

__all__ = [
    "choose_conv_method",
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "correlation_lags",
    "fftconvolve",
    "lfilter",
    "oaconvolve",
]

# Convolution and correlation in any number of dimensions


def choose_conv_method(
    in1: Any, in2: Any, mode: str = "full", measure: bool = False
) -> str:
    """`scipy.signal.choose_conv_method`: ``"direct"`` or ``"fft"``, by SciPy's rule.

    Parameters
    ----------
    in1, in2, mode
        As of `convolve`; only shapes and dtypes count.
    measure
        Refused: which is faster on this machine is no part of a program.

    Examples
    --------
    >>> choose_conv_method(np.ones(10), np.ones(3))
    'direct'
    """
    import scipy.signal

    if measure:
        raise ValueError(
            f"choose_conv_method(..., measure=True){blame.here()}: a traced program"
            " does not depend on time. Leave measure out."
        )
    choose: Any = scipy.signal.choose_conv_method
    found: str = choose(_example(in1), _example(in2), mode)
    return found


def _example(x: Any) -> Any:
    """An array of NumPy with the shape and the dtype of ``x``."""
    if isinstance(x, np.ndarray):
        return x
    spec: Spec = spec_of(x)
    return Spec(spec.shape, spec.dtype).example()


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """`scipy.signal.convolve`: of two arrays with as many axes.

    Parameters
    ----------
    in1, in2
        Arrays or Tensors of the same rank, real or complex.
    mode
        ``"full"``: every overlap; ``"valid"``: the complete ones; ``"same"``: the
        middle of the full one, in the shape of ``in1``.
    method
        ``"direct"``, ``"fft"``, or ``"auto"``, which takes the one that SciPy takes.

    Raises
    ------
    ValueError
        If the ranks differ, or no array fits into the other for ``"valid"``.

    Examples
    --------
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 3., 5., 3.])
    """
    a, b = pair("convolve", in1, in2)
    checked("convolve", mode, MODES)
    if not shape_of(a):
        return a * b
    if mode == "valid" and swapped("convolve", shape_of(a), shape_of(b)):
        a, b = b, a
    checked("convolve", method, ("auto", "direct", "fft"), "method")
    if 0 in shape_of(a) + shape_of(b):
        if method == "fft":
            return np.zeros_like(a, shape=(0,))
        return nothing("convolve", a, b, mode)
    if method == "auto":
        method = choose_conv_method(a, b, mode)
    return convolved(a, b, mode, method)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """`scipy.signal.correlate`: `convolve` with ``conj(in2)`` turned round.

    Parameters
    ----------
    in1, in2, mode, method
        As of `convolve`.

    Raises
    ------
    ValueError
        As `convolve` does.

    Examples
    --------
    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0]), mode="valid")
    array([2., 3.])
    """
    a, b = pair("correlate", in1, in2)
    checked("correlate", mode, MODES)
    if not shape_of(a):
        return a * conjugate(b)
    if mode == "valid" and swapped("correlate", shape_of(a), shape_of(b)):
        # SciPy slides the smaller array, and turns the result round.
        return turned(conjugate(convolve(b, turned(conjugate(a)), mode, method)))
    return convolve(a, turned(conjugate(b)), mode, method)


def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> Any:
    """`scipy.signal.correlation_lags`: plain integers.

    Examples
    --------
    >>> correlation_lags(3, 2)
    array([-1,  0,  1,  2])
    """
    import scipy.signal

    lags: Any = scipy.signal.correlation_lags
    return lags(in1_len, in2_len, mode)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """`scipy.signal.fftconvolve`: by Fourier transforms, along some axes.

    Parameters
    ----------
    in1, in2, mode
        As of `convolve`. Along axes that are not convolved, lengths are equal or 1.
    axes
        The axes to convolve; all of them by default.

    Raises
    ------
    ValueError
        If the ranks differ, an axis is named twice, or shapes do not fit.

    Examples
    --------
    >>> fftconvolve(np.ones((2, 3)), np.ones((1, 2)), axes=1).round(12)
    array([[1., 2., 2., 1.],
           [1., 2., 2., 1.]])
    """
    return _by_fft("fftconvolve", in1, in2, mode, axes)


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """`scipy.signal.oaconvolve`: the values of `fftconvolve`, which computes them.

    SciPy adds overlapping pieces here, to save memory where one array is much longer;
    this takes one transform of the whole.

    Examples
    --------
    >>> oaconvolve(np.ones(3), np.ones(2), mode="valid").round(12)
    array([2., 2.])
    """
    return _by_fft("oaconvolve", in1, in2, mode, axes)


def _by_fft(name: str, in1: Any, in2: Any, mode: str, axes: Any) -> Any:
    a, b = pair(name, in1, in2)
    checked(name, mode, MODES)
    rank = len(shape_of(a))
    if not rank:
        return a * b
    if 0 in shape_of(a) + shape_of(b):
        return np.zeros_like(a, shape=(0,))
    spatial = tuple(range(rank)) if axes is None else normal_axes(axes, rank)
    if not spatial or len(set(spatial)) < len(spatial):
        raise ValueError(
            f"{name}(..., axes={axes!r}){blame.here()}: name each axis once"
        )
    # An axis along which one array has length 1 is a product, to SciPy in any mode.
    lengths = list(zip(shape_of(a), shape_of(b), strict=True))
    spatial = tuple(i for i in spatial if 1 not in lengths[i])
    others = [i for i in range(rank) if i not in spatial]
    loop = broadcast_shapes(*(tuple(shape_of(x)[i] for i in others) for x in (a, b)))
    if mode == "valid" and swapped(name, shape_of(a), shape_of(b), spatial):
        a, b = b, a
    if spatial and dtype_of(a).kind in "biu" and dtype_of(b).kind in "biu":
        a = a.astype(float)  # as SciPy's, which rounds only in `convolve`
    order = (*others, *spatial)
    if others:
        # The axes that are not convolved go in front, equally long.
        a, b = (
            np.broadcast_to(
                np.transpose(x, order), (*loop, *(shape_of(x)[i] for i in spatial))
            )
            for x in (a, b)
        )
    whole = "valid" if mode == "valid" else "full"
    y = convolved(a, b, whole, "fft", len(others)) if spatial else a * b
    if others:
        y = np.transpose(y, np.argsort(order))
    return centred(y, tuple(n for n, _ in lengths)) if mode == "same" else y


delay(globals(), __all__)
