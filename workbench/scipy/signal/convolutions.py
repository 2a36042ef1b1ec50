"""Convolutions, correlations and rational filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.deferred import operand_shape
from workbench.core.dims import broadcast_shapes, largest, smallest
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike, Shape, Spec, spec_of
from workbench.errors import UnknownLengthError
from workbench.ops.arranging import pad
from workbench.ops.convolution import convolve_arrays, crop_to_center, flip_axes
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.device import make_zeros
from workbench.ops.elementwise import conjugate
from workbench.ops.filters import recursive
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import moveaxis, normal_axes, normal_axis

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

# Linear filters.


def lfilter(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    zi: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """Filter along an axis by a rational filter, as `scipy.signal.lfilter` does.

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
                f"lfilter{blame.user_line()}: {name} has shape {shape_of(v)}, and must"
                " have one axis with an entry or more"
            )
    if not shape_of(x):
        raise ValueError(f"lfilter{blame.user_line()}: x must have an axis")
    lead = value_of(a)
    if lead is not None and not bool(lead[0] != 0):
        raise ValueError(
            f"lfilter{blame.user_line()}: a[0] is 0; shift the coefficients"
        )
    given = (b, a, x) if zi is None else (b, a, x, admit(zi))
    dtypes = [dtype_of(v) for v in given]
    dtype = np.result_type(*dtypes)
    if dtype.kind not in "fc":
        dtype = np.dtype(float)
    b, a, x = (v if dtype_of(v) == dtype else v.astype(dtype) for v in (b, a, x))
    axis = normal_axis(axis, len(shape_of(x)))
    signal: Any = x
    signal = np.moveaxis(signal, axis, -1)
    length, order = shape_of(signal)[-1], max(shape_of(a)[0], shape_of(b)[0]) - 1
    moving = _convolve_lines(b, signal)
    if zi is None:
        driven = moving[..., :length]
    else:
        state: Any = admit(zi)
        state = np.moveaxis(state, axis, -1)
        if shape_of(state) != (*shape_of(signal)[:-1], order):
            raise ValueError(
                f"lfilter{blame.user_line()}: zi has length {order} along axis {axis},"
                f" and otherwise the shape of x, not {shape_of(zi)}"
            )
        state = state if dtype_of(state) == dtype else state.astype(dtype)
        moving = _extend(moving, length + order)
        # The state is that of the filter with a[0] = 1.
        moving = moving + np.pad(state * a[0], _pad_width(state, 0, length))
        driven = moving[..., :length]
    y = recursive(a, driven) if length else driven
    if zi is None:
        return moveaxis(y, -1, axis)
    left = moving - _extend(_convolve_lines(a, y), length + order)
    return moveaxis(y, -1, axis), moveaxis(left[..., length:], -1, axis) / a[0]


def _pad_width(x: Array, before: int, after: int) -> list[tuple[int, int]]:
    return [(0, 0)] * (len(shape_of(x)) - 1) + [(before, after)]


def _convolve_lines(b: Array, x: Array) -> Array:
    """Return the full convolution of each line of ``x`` with ``b``."""
    line = np.reshape(b, (1,) * (len(shape_of(x)) - 1) + shape_of(b))
    if 0 in shape_of(x):
        return np.pad(x, _pad_width(x, 0, shape_of(b)[0] - 1))
    return convolve_arrays(x, line, "full")


def _extend(x: Array, length: int) -> Array:
    return np.pad(x, _pad_width(x, 0, length - shape_of(x)[-1]))


# What the functions of two arrays in `scipy.signal` check, and how they say no.


MODES = ("full", "valid", "same")


def check_choice(
    name: str, value: object, choices: tuple[str, ...], what: str = "mode"
) -> str:
    """Return an argument if allowed; an error lists the words to choose from."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"{name}(..., {what}={value!r}){blame.user_line()}: {what} is one of"
            f" {listed}"
        )
    return str(value)


def admit_pair(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Return the two arrays, which have as many axes as each other."""
    a, b = admit(a), admit(b)
    if len(shape_of(a)) != len(shape_of(b)):
        raise ValueError(
            f"{name}{blame.user_line()}: in1 and in2 should have the same"
            f" dimensionality, not {len(shape_of(a))} and {len(shape_of(b))} axes;"
            " x[None] adds one"
        )
    return a, b


def is_swapped(
    name: str, a: Shape, b: Shape, axes: Iterable[int] | None = None
) -> bool:
    """Return whether a valid convolution slides ``a`` over ``b``."""
    axes = range(len(a)) if axes is None else axes
    if all(a[i] >= b[i] for i in axes):
        return False
    if all(b[i] >= a[i] for i in axes):
        return True
    raise ValueError(
        f"{name}(..., mode='valid'){blame.user_line()}: one of the shapes {a} and {b}"
        " must be at least as large as the other in every dimension"
    )


def make_empty(name: str, a: Array, b: Array, mode: str) -> Array:
    """Return zeros in SciPy's shapes, as an array has no entry and a sum no term."""
    n, m = shape_of(a), shape_of(b)
    shape = n
    if mode == "full":
        shape = tuple(i + j - 1 for i, j in zip(n, m, strict=True))
    elif mode == "valid":
        shape = tuple(i - j + 1 for i, j in zip(n, m, strict=True))
    if any(i < 0 for i in shape) or len(n) == 1:
        raise ValueError(
            f"{name}{blame.user_line()}: in1 of shape {n} and in2 of shape {m}; neither"
            " can be empty"
        )
    return make_zeros(a, shape, np.result_type(dtype_of(a), dtype_of(b)))


# Convolution and correlation in two dimensions, with a boundary.


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Array:
    """Convolve two matrices, with a choice of boundary: `scipy.signal.convolve2d`.

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
        If an array is not a matrix, or no array fits into the other for ``"valid"``.

    Examples
    --------
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> convolve2d(x, np.ones((2, 2)), mode="same", boundary="wrap")
    array([[6., 6.],
           [6., 6.]])
    """
    return _convolve_bounded("convolve2d", in1, in2, mode, boundary, fillvalue)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Array:
    """Correlate two matrices, with a choice of boundary: `scipy.signal.correlate2d`.

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
    a, b = admit_pair("correlate2d", in1, in2)
    swap = mode == "valid" and is_swapped("correlate2d", shape_of(a), shape_of(b))
    if swap:
        a, b = b, a
    y = _convolve_bounded(
        "correlate2d", a, flip_axes(conjugate(b)), mode, boundary, fillvalue, late=True
    )  # fmt: skip
    # Unlike `correlate`, SciPy's takes no conjugate of a result that it turns.
    return flip_axes(y) if swap else y


#: SciPy's name of a boundary, and NumPy's.
BOUNDARIES = {"fill": "constant", "symm": "symmetric", "wrap": "wrap"}


def _convolve_bounded(
    name: str,
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str,
    boundary: str,
    fillvalue: Any,
    late: bool = False,
) -> Array:
    a, b = admit_pair(name, in1, in2)
    if len(shape_of(a)) != 2:
        raise ValueError(
            f"{name}{blame.user_line()}: inputs must both be 2-D arrays, not of"
            f" {len(shape_of(a))} axes; workbench.scipy.signal.convolve takes any"
        )
    check_choice(name, mode, MODES)
    check_choice(name, boundary, ("fill", "wrap", "symm"), "boundary")
    if mode == "valid" and is_swapped(name, shape_of(a), shape_of(b)):
        a, b = b, a
    if 0 in shape_of(a) + shape_of(b):
        return make_empty(name, a, b, mode)
    named: Any = BOUNDARIES[boundary]
    plain = boundary == "fill" and type(fillvalue) in (int, float) and fillvalue == 0
    if mode == "valid":
        return convolve_arrays(a, b, mode)
    if plain:
        return _crop_middle(convolve_arrays(a, b, "full"), a, b, mode, late)
    width = [(n - 1, n - 1) for n in shape_of(b)]
    if boundary == "fill":
        around = pad(a, width, constant_values=fillvalue)  # it may be a Tensor
    else:
        around = np.pad(a, width, mode=named)
    return _crop_middle(convolve_arrays(around, b, "valid"), a, b, mode, late)


def _crop_middle(y: Array, a: Array, b: Array, mode: str, late: bool) -> Array:
    """Crop the full result to the place of ``a``, one later for a correlation."""
    if mode != "same":
        return y
    starts = [(m if late else m - 1) // 2 for m in shape_of(b)]
    return y[tuple(slice(i, i + n) for i, n in zip(starts, shape_of(a), strict=True))]


# Convolution and correlation in any number of dimensions


def choose_conv_method(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", measure: bool = False
) -> str:
    """Return ``"direct"`` or ``"fft"``, by the rule of `scipy.signal`.

    Parameters
    ----------
    in1, in2, mode
        As of `convolve`; only shapes and dtypes count.
    measure
        Must be false: a program does not depend on what is fastest on this machine.

    Examples
    --------
    >>> choose_conv_method(np.ones(10), np.ones(3))
    'direct'
    """
    import scipy.signal

    if measure:
        raise ValueError(
            f"choose_conv_method(..., measure=True){blame.user_line()}: a traced"
            " program does not depend on time. Leave measure out."
        )
    choose: Any = scipy.signal.choose_conv_method
    found: str = choose(_make_example(in1), _make_example(in2), mode)
    return found


def _make_example(x: ArrayLike) -> Array:
    """Return an array of NumPy with the shape and the dtype of ``x``."""
    if isinstance(x, np.ndarray):
        return x
    spec: Spec = spec_of(x)
    return Spec(spec.shape, spec.dtype).example()


def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto"
) -> Array:
    """Convolve two arrays of the same rank: `scipy.signal.convolve`.

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
    a, b = admit_pair("convolve", in1, in2)
    check_choice("convolve", mode, MODES)
    if not shape_of(a):
        return a * b
    if mode == "valid" and is_swapped("convolve", shape_of(a), shape_of(b)):
        a, b = b, a
    check_choice("convolve", method, ("auto", "direct", "fft"), "method")
    if 0 in shape_of(a) + shape_of(b):
        if method == "fft":
            return np.zeros_like(a, shape=(0,))
        return make_empty("convolve", a, b, mode)
    if method == "auto":
        method = choose_conv_method(a, b, mode)
    return convolve_arrays(a, b, mode, method)


def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto"
) -> Array:
    """Return `convolve` with ``conj(in2)`` reversed: `scipy.signal.correlate`.

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
    a, b = admit_pair("correlate", in1, in2)
    check_choice("correlate", mode, MODES)
    if not shape_of(a):
        return a * conjugate(b)
    if mode == "valid" and is_swapped("correlate", shape_of(a), shape_of(b)):
        # SciPy slides the smaller array, and turns the result round.
        return flip_axes(conjugate(convolve(b, flip_axes(conjugate(a)), mode, method)))
    return convolve(a, flip_axes(conjugate(b)), mode, method)


def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> Array:
    """Return the lags of `correlate`, integers: `scipy.signal.correlation_lags`.

    Parameters
    ----------
    in1_len, in2_len
        The lengths of the two arrays.
    mode
        As of `convolve`.

    Examples
    --------
    >>> correlation_lags(3, 2)
    array([-1,  0,  1,  2])
    """
    import scipy.signal

    lags: Any = scipy.signal.correlation_lags
    return lags(in1_len, in2_len, mode)


def fftconvolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Convolve by Fourier transforms along some axes: `scipy.signal.fftconvolve`.

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
    return _convolve_by_fft("fftconvolve", in1, in2, mode, axes)


def oaconvolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Return `fftconvolve`, which has the values of `scipy.signal.oaconvolve`.

    SciPy adds overlapping pieces here, to save memory where one array is much longer;
    this takes one transform of the whole.

    Examples
    --------
    >>> oaconvolve(np.ones(3), np.ones(2), mode="valid").round(12)
    array([2., 2.])
    """
    return _convolve_by_fft("oaconvolve", in1, in2, mode, axes)


def _convolve_by_fft(
    name: str,
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str,
    axes: int | Sequence[int] | None,
) -> Array:
    a, b = admit_pair(name, in1, in2)
    check_choice(name, mode, MODES)
    rank = len(shape_of(a))
    if not rank:
        return a * b
    if 0 in shape_of(a) + shape_of(b):
        return np.zeros_like(a, shape=(0,))
    spatial = tuple(range(rank)) if axes is None else normal_axes(axes, rank)
    if not spatial or len(set(spatial)) < len(spatial):
        raise ValueError(
            f"{name}(..., axes={axes!r}){blame.user_line()}: name each axis once"
        )
    # An axis along which one array has length 1 is a product, to SciPy in any mode.
    lengths = list(zip(shape_of(a), shape_of(b), strict=True))
    spatial = tuple(i for i in spatial if 1 not in lengths[i])
    others = [i for i in range(rank) if i not in spatial]
    loop = broadcast_shapes(*(tuple(shape_of(x)[i] for i in others) for x in (a, b)))
    if mode == "valid" and is_swapped(name, shape_of(a), shape_of(b), spatial):
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
    y = convolve_arrays(a, b, whole, "fft", len(others)) if spatial else a * b
    if others:
        y = np.transpose(y, np.argsort(order))
    return crop_to_center(y, tuple(n for n, _ in lengths)) if mode == "same" else y


def _infer_lengths(
    in1: Array,
    in2: Array,
    mode: str = "full",
    *rest: Any,
    axes: int | Sequence[int] | None = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Return the shape of a convolution, or correlation, along all axes."""
    if axes is not None or not all(isinstance(x, str) for x in rest[:1]):
        raise UnknownLengthError("measured when it runs")
    if mode == "same":
        return operand_shape(in1)
    pairs = [*zip(operand_shape(in1), operand_shape(in2), strict=True)]
    if mode == "full":
        return tuple(n + m - 1 for n, m in pairs)
    return tuple(largest(n, m) - smallest(n, m) + 1 for n, m in pairs)


_CONVOLUTIONS = (
    "convolve convolve2d correlate correlate2d fftconvolve oaconvolve"
).split()
defer_functions(globals(), __all__, dict.fromkeys(_CONVOLUTIONS, _infer_lengths))
