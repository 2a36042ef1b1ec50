"""Linear filters for Tensors; `signal.py` gives them SciPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.ops.convolution import convolved
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.filters import recursive
from workbench.ops.shaping import normal_axis

__all__ = ["lfilter"]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """`scipy.signal.lfilter`: a rational filter along one axis.

    ``a[0] y[t] = b[0] x[t] + b[1] x[t-1] + ... - a[1] y[t-1] - ...``, differentiable by
    ``b``, ``a``, ``x`` and ``zi``. The part with ``b`` is a convolution, the part with
    ``a`` a recursion, whose gradient is the same recursion backwards in time.

    Parameters
    ----------
    b, a
        Coefficients with one axis; ``a[0]`` is not 0.
    x
        The signal, of any rank.
    axis
        The axis of time.
    zi
        The state before the first entry, of length ``max(len(a), len(b)) - 1`` along
        ``axis``. With it the result is ``(y, zf)``, where ``zf`` is the last state.

    Raises
    ------
    ValueError
        If ``a[0]`` is 0, or a shape does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> lfilter([1.0], [1.0, -0.5], np.array([1.0, 0.0, 0.0]))
    array([1.  , 0.5 , 0.25])
    """
    b, a, x = (admit(v) for v in (b, a, x))
    b, a = (v if shape_of(v) else np.reshape(v, (1,)) for v in (b, a))
    for name, v in (("b", b), ("a", a)):
        if len(shape_of(v)) != 1 or not shape_of(v)[0]:
            raise ValueError(
                f"lfilter{blame.here()}: {name} has shape {shape_of(v)}, and must have"
                " one axis with an entry or more"
            )
    if not shape_of(x):
        raise ValueError(f"lfilter{blame.here()}: x must have an axis")
    lead = value_of(a)
    if lead is not None and not bool(lead[0] != 0):
        raise ValueError(f"lfilter{blame.here()}: a[0] is 0; shift the coefficients")
    given = (b, a, x) if zi is None else (b, a, x, admit(zi))
    dtypes = [dtype_of(v) for v in given]
    dtype = np.result_type(*dtypes)
    if dtype.kind not in "fc":
        dtype = np.dtype(float)
    b, a, x = (v if dtype_of(v) == dtype else v.astype(dtype) for v in (b, a, x))
    axis = normal_axis(axis, len(shape_of(x)))
    signal = np.moveaxis(x, axis, -1)
    length, order = shape_of(signal)[-1], max(shape_of(a)[0], shape_of(b)[0]) - 1
    moving = _moving(b, signal)
    if zi is None:
        driven = moving[..., :length]
    else:
        state = np.moveaxis(admit(zi), axis, -1)
        if shape_of(state) != (*shape_of(signal)[:-1], order):
            raise ValueError(
                f"lfilter{blame.here()}: zi has length {order} along axis {axis}, and"
                f" otherwise the shape of x, not {shape_of(zi)}"
            )
        state = state if dtype_of(state) == dtype else state.astype(dtype)
        moving = _extended(moving, length + order)
        # The state is that of the filter with a[0] = 1.
        moving = moving + np.pad(state * a[0], _ahead(state, 0, length))
        driven = moving[..., :length]
    y = recursive(a, driven) if length else driven
    if zi is None:
        return np.moveaxis(y, -1, axis)
    left = moving - _extended(_moving(a, y), length + order)
    return np.moveaxis(y, -1, axis), np.moveaxis(left[..., length:], -1, axis) / a[0]


def _ahead(x: Any, before: int, after: int) -> Any:
    return [(0, 0)] * (len(shape_of(x)) - 1) + [(before, after)]


def _moving(b: Any, x: Any) -> Any:
    """The full convolution of each line of ``x`` with ``b``."""
    line = np.reshape(b, (1,) * (len(shape_of(x)) - 1) + shape_of(b))
    if 0 in shape_of(x):
        return np.pad(x, _ahead(x, 0, shape_of(b)[0] - 1))
    return convolved(x, line, "full")


def _extended(x: Any, length: int) -> Any:
    return np.pad(x, _ahead(x, 0, length - shape_of(x)[-1]))
