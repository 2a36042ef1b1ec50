"""Linear filters for Tensors; `signal.py` gives them SciPy's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.ops.arranging import pad
from workbench.ops.convolution import convolved, turned
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.filters import recursive
from workbench.ops.shaping import normal_axis


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


# What the functions of two arrays in `scipy.signal` check, and how they say no.

Shape = tuple[int, ...]
MODES = ("full", "valid", "same")


def checked(name: str, value: Any, known: tuple[str, ...], what: str = "mode") -> str:
    """A word that an argument can be; an error lists those that it can."""
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise ValueError(
            f"{name}(..., {what}={value!r}){blame.here()}: {what} is one of {listed}"
        )
    return str(value)


def pair(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The two arrays, which have as many axes as each other."""
    a, b = admit(a), admit(b)
    if len(shape_of(a)) != len(shape_of(b)):
        raise ValueError(
            f"{name}{blame.here()}: in1 and in2 should have the same dimensionality,"
            f" not {len(shape_of(a))} and {len(shape_of(b))} axes; x[None] adds one"
        )
    return a, b


def swapped(name: str, a: Shape, b: Shape, axes: Any = None) -> bool:
    """Whether a valid convolution slides ``a`` over ``b``."""
    axes = range(len(a)) if axes is None else axes
    if all(a[i] >= b[i] for i in axes):
        return False
    if all(b[i] >= a[i] for i in axes):
        return True
    raise ValueError(
        f"{name}(..., mode='valid'){blame.here()}: one of the shapes {a} and {b} must"
        " be at least as large as the other in every dimension"
    )


def nothing(name: str, a: Any, b: Any, mode: str) -> Any:
    """The sums over no product, where an array has no entry, in SciPy's shapes."""
    n, m = shape_of(a), shape_of(b)
    shape = n
    if mode == "full":
        shape = tuple(i + j - 1 for i, j in zip(n, m, strict=True))
    elif mode == "valid":
        shape = tuple(i - j + 1 for i, j in zip(n, m, strict=True))
    if any(i < 0 for i in shape) or len(n) == 1:
        raise ValueError(
            f"{name}{blame.here()}: in1 of shape {n} and in2 of shape {m}; neither can"
            " be empty"
        )
    return np.zeros_like(a, shape=shape, dtype=np.result_type(dtype_of(a), dtype_of(b)))


# Convolution and correlation in two dimensions, with a boundary.


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
