"""Filters along an axis: smoothing, in sections, forwards and backwards, resampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit, value_of
from workbench.core.types import ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import moveaxis, normal_axis
from workbench.scipy.ndimage import convolve1d
from workbench.scipy.signal.convolutions import check_choice, convolve, lfilter

__all__ = [
    "filtfilt",
    "hilbert",
    "lfilter_zi",
    "resample",
    "resample_poly",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "upfirdn",
]


def admit_signal(name: str, x: ArrayLike) -> Any:
    """Return an array or Tensor of floats with an axis or more."""
    x = admit(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    if not shape_of(x):
        raise ValueError(f"{name}{blame.user_line()}: x must have an axis")
    return x.astype(float) if dtype_of(x).kind in "biu" else x


def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Any:
    """Return polynomials fitted to each window: `scipy.signal.savgol_filter`.

    Parameters
    ----------
    x
        The signal, of any rank.
    window_length, polyorder
        How many entries a window has, and the degree of the polynomial.
    deriv, delta
        The order of the derivative that is returned, and the distance of entries.
    axis
        The axis of time.
    mode, cval
        What lies over the ends, as of `scipy.ndimage.convolve1d`; ``"interp"`` reads
        the polynomial of the last whole window.

    Raises
    ------
    ValueError
        If the window is longer than the signal or the degree too high.

    Examples
    --------
    >>> import numpy as np
    >>> savgol_filter(np.array([0.0, 3.0, 0.0, 3.0, 0.0]), 3, 1).round(9) + 0.0
    array([1., 1., 2., 1., 1.])
    """
    import scipy.signal

    x = admit_signal("savgol_filter", x)
    coeffs = scipy.signal.savgol_coeffs(window_length, polyorder, deriv, delta)
    if mode != "interp":
        return convolve1d(x, convert_like(coeffs, x), axis, mode=mode, cval=cval)
    axis = normal_axis(axis, len(shape_of(x)))
    if window_length > shape_of(x)[axis] or window_length % 2 == 0:
        raise ValueError(
            f"savgol_filter{blame.user_line()}: window_length={window_length} must be"
            f" odd and at most {shape_of(x)[axis]}, the length of the signal; another"
            " mode= than 'interp' takes any"
        )
    half = window_length // 2
    smooth: Any = scipy.signal.savgol_filter
    fitted = smooth(np.eye(window_length), window_length, polyorder, deriv, delta, 0)
    fitted, coeffs = (v.astype(dtype_of(x)) for v in (fitted, coeffs))
    lines: Any = moveaxis(x, axis, -1)
    line = convert_like(coeffs, x)
    kernel = np.reshape(line, (1,) * (len(shape_of(x)) - 1) + (-1,))
    parts = [
        lines[..., :window_length] @ convert_like(fitted[:half].T, x),
        convolve(lines, kernel, "valid", "direct"),
        lines[..., -window_length:] @ convert_like(fitted[half + 1 :].T, x),
    ]
    return moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Any:
    """Return the analytic signal, without negative frequencies, as SciPy's `hilbert`.

    Examples
    --------
    >>> import numpy as np
    >>> np.abs(hilbert(np.cos(np.pi / 2 * np.arange(4)))).round(9)
    array([1., 1., 1., 1.])
    """
    x = admit_signal("hilbert", x)
    if dtype_of(x).kind == "c":
        raise ValueError(f"hilbert{blame.user_line()}: x must be real.")
    axis = normal_axis(axis, len(shape_of(x)))
    n = shape_of(x)[axis] if N is None else N
    if n <= 0:
        raise ValueError(f"hilbert{blame.user_line()}: N must be positive.")
    weights = np.zeros(n, dtype_of(x))
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = 1
    shape = [n if i == axis else 1 for i in range(len(shape_of(x)))]
    found = np.fft.fft(x, n, axis) * convert_like(weights.reshape(shape), x)
    return np.fft.ifft(found, axis=axis)


# Steady states, sections, forwards and backwards


def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Any:
    """Return the state of `lfilter` that a constant signal of 1 leaves as it is.

    Examples
    --------
    >>> import numpy as np
    >>> lfilter_zi(np.array([1.0]), np.array([1.0, -0.5]))
    array([1.])
    """
    given = [admit_signal("lfilter_zi", v) for v in (b, a)]
    length = max(shape_of(v)[0] for v in given)
    moving, fed = (np.pad(v, (0, length - shape_of(v)[0])) / given[1][0] for v in given)
    rest = moving[1:] - fed[1:] * (np.sum(moving) / np.sum(fed))
    return np.flip(np.cumsum(np.flip(rest)))


def _admit_sections(name: str, sos: ArrayLike) -> Any:
    sections = admit_signal(name, sos)
    if len(shape_of(sections)) != 2 or shape_of(sections)[1] != 6:
        raise ValueError(
            f"{name}{blame.user_line()}: sos array must be shape (n_sections, 6), not"
            f" {shape_of(sections)}"
        )
    return sections


def sosfilt_zi(sos: ArrayLike) -> Any:
    """Return the state of `sosfilt` that a constant signal of 1 leaves as it is."""
    sections = _admit_sections("sosfilt_zi", sos)
    found, scale = [], 1.0
    for i in range(shape_of(sections)[0]):
        b, a = sections[i, :3], sections[i, 3:]
        found.append(scale * lfilter_zi(b, a))
        scale = scale * (np.sum(b) / np.sum(a))
    return np.stack(found)


def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Any:
    """Filter along an axis by sections of second order: `scipy.signal.sosfilt`.

    Parameters
    ----------
    sos
        Coefficients, shape (sections, 6), differentiable.
    x
        The signal, of any rank.
    axis
        The axis of time.
    zi
        The states before the first entry: (sections, ...), with 2 along the axis. With
        them the result is ``(y, zf)``.

    Raises
    ------
    ValueError
        If the coefficients do not have six columns.

    Examples
    --------
    >>> import numpy as np
    >>> sosfilt(np.array([[1.0, 0, 0, 1.0, -0.5, 0]]), np.array([1.0, 0.0, 0.0]))
    array([1.  , 0.5 , 0.25])
    """
    sections = _admit_sections("sosfilt", sos)
    y: Any = admit_signal("sosfilt", x)
    states: Any = None if zi is None else admit(zi)
    left = []
    for i in range(shape_of(sections)[0]):
        b, a = sections[i, :3], sections[i, 3:]
        if states is None:
            y = lfilter(b, a, y, axis)
        else:
            both: Any = lfilter(b, a, y, axis, states[i])
            y, state = both
            left.append(state)
    return y if states is None else (y, np.stack(left))


def _extend(name: str, x: Any, padtype: str | None, count: int) -> Any:
    """Return lines that go on at both ends for ``count`` entries."""
    if padtype is None or not count:
        return x
    check_choice(name, padtype, ("odd", "even", "constant"), "padtype")
    if shape_of(x)[-1] <= count:
        raise ValueError(
            f"{name}{blame.user_line()}: the length of the input vector x must be"
            f" greater than padlen, which is {count}"
        )
    first, last = x[..., :1], x[..., -1:]
    before, after = x[..., count:0:-1], x[..., -2 : -count - 2 : -1]
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    elif padtype == "constant":
        before, after = first + 0 * before, last + 0 * after
    return np.concatenate([before, x, after], axis=-1)


def _filter_twice(
    name: str, run: Any, state: Any, x: ArrayLike, axis: int, padtype: Any, count: int
) -> Any:
    """Filter forwards and then backwards, each from the steady state of its start."""
    signal = admit_signal(name, x)
    axis = normal_axis(axis, len(shape_of(signal)))
    lines = _extend(name, moveaxis(signal, axis, -1), padtype, count)
    for _ in range(2):
        y, _ = run(lines, state(lines[..., :1]))
        lines = np.flip(y, -1)
    end = shape_of(lines)[-1] - count if padtype is not None else None
    return moveaxis(lines[..., count if padtype is not None else 0 : end], -1, axis)


def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Any:
    """Filter forwards and backwards, without delay: `scipy.signal.filtfilt`.

    ``method`` must be ``"pad"``.

    Examples
    --------
    >>> import numpy as np
    >>> filtfilt(np.array([0.5]), np.array([1.0, -0.5]), np.ones(8)).round(9)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    if method != "pad":
        raise UsageError(
            f"filtfilt(..., method={method!r}){blame.user_line()} is not known inside a"
            " derivative. Write method='pad'."
        )
    own, theirs = admit_signal("filtfilt", b), admit_signal("filtfilt", a)
    count = 3 * max(shape_of(own)[0], shape_of(theirs)[0]) if padlen is None else padlen
    zi = lfilter_zi(own, theirs)
    return _filter_twice(
        "filtfilt",
        lambda x, z: lfilter(own, theirs, x, -1, z),
        lambda first: first * zi,
        x, axis, padtype, count if padtype is not None else 0,
    )  # fmt: skip


def sosfiltfilt(
    sos: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Any:
    """Filter by sections forwards and backwards: `scipy.signal.sosfiltfilt`.

    Examples
    --------
    >>> import numpy as np
    >>> sos = np.array([[0.5, 0, 0, 1.0, -0.5, 0]])
    >>> sosfiltfilt(sos, np.ones(8)).round(9)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    sections = _admit_sections("sosfiltfilt", sos)
    if padlen is None:
        known = value_of(sections)
        taps = 2 * shape_of(sections)[0] + 1
        if known is not None:
            ends = (int(np.sum(known[:, i] == 0)) for i in (2, 5))
            taps -= min(ends)
        padlen = 3 * taps
    zi = sosfilt_zi(sections)

    def spread(first: Any) -> Any:
        shape = (shape_of(zi)[0], *(1,) * (len(shape_of(first)) - 1), 2)
        return np.reshape(zi, shape) * first[None]

    return _filter_twice(
        "sosfiltfilt",
        lambda x, z: sosfilt(sections, x, -1, z),
        spread,
        x, axis, padtype, padlen if padtype is not None else 0,
    )  # fmt: skip


# Other numbers of entries


def resample(
    x: ArrayLike,
    num: int,
    t: ArrayLike | None = None,
    axis: int = 0,
    window: None = None,
    domain: str = "time",
) -> Any:
    """Return ``num`` entries of a periodic signal, by Fourier: `scipy.signal.resample`.

    ``window`` must be None and ``domain`` ``"time"``. With times ``t`` the result is
    the signal and its times.

    Examples
    --------
    >>> import numpy as np
    >>> resample(np.array([1.0, 0.0, -1.0, 0.0]), 8).round(4) + 0.0
    array([ 1.    ,  0.7071,  0.    , -0.7071, -1.    , -0.7071,  0.    ,  0.7071])
    """
    if window is not None or domain != "time":
        raise UsageError(
            f"resample(..., window=..., domain=...){blame.user_line()}: neither is"
            " known inside a derivative. Multiply the transform, np.fft.rfft(x), by"
            " weights."
        )
    x = admit_signal("resample", x)
    axis = normal_axis(axis, len(shape_of(x)))
    lines = moveaxis(x, axis, -1)
    if dtype_of(x).kind == "c":
        y = _resample_lines(np.real(lines), num) + 1j * _resample_lines(
            np.imag(lines), num
        )
    else:
        y = _resample_lines(lines, num)
    y = moveaxis(y, -1, axis)
    if t is None:
        return y
    step: Any = admit(t)
    count = shape_of(x)[axis]
    return y, np.arange(num) * (step[1] - step[0]) * count / num + step[0]


def _resample_lines(x: Any, num: int) -> Any:
    count = shape_of(x)[-1]
    least = min(num, count)
    found: Any = np.fft.rfft(x)[..., : least // 2 + 1]
    if least % 2 == 0 and num != count:  # the frequency that has no partner
        weights = np.ones(least // 2 + 1)
        weights[-1] = 2 if num < count else 0.5
        found = found * convert_like(weights, x)
    return np.fft.irfft(found, num) * (num / count)


def upfirdn(
    h: ArrayLike,
    x: ArrayLike,
    up: int = 1,
    down: int = 1,
    axis: int = -1,
    mode: str = "constant",
    cval: float = 0,
) -> Any:
    """Put zeros between entries, filter, and keep each ``down``-th.

    ``mode`` must be ``"constant"`` and ``cval`` 0.

    Examples
    --------
    >>> import numpy as np
    >>> upfirdn(np.array([1.0, 1.0]), np.array([1.0, 2.0]), up=2)
    array([1., 1., 2., 2.])
    """
    if mode != "constant" or cval != 0:
        raise UsageError(
            f"upfirdn(..., mode={mode!r}, cval={cval}){blame.user_line()} is not known"
            " inside a derivative. Extend x by np.pad first."
        )
    taps, signal = admit_signal("upfirdn", h), admit_signal("upfirdn", x)
    axis = normal_axis(axis, len(shape_of(signal)))
    lines: Any = moveaxis(signal, axis, -1)
    if up > 1:
        width = [(0, 0)] * len(shape_of(lines)) + [(0, up - 1)]
        wide = np.pad(lines[..., None], width)
        shape = shape_of(lines)
        lines = np.reshape(wide, (*shape[:-1], shape[-1] * up))[..., : 1 - up]
    kernel = np.reshape(taps, (1,) * (len(shape_of(lines)) - 1) + (-1,))
    return moveaxis(convolve(lines, kernel)[..., ::down], -1, axis)


def resample_poly(
    x: ArrayLike,
    up: int,
    down: int,
    axis: int = 0,
    window: Any = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: float | None = None,
) -> Any:
    """Return a signal of ``up / down`` as many entries: `scipy.signal.resample_poly`.

    ``padtype`` must be ``"constant"`` and ``cval`` 0. ``window`` is a name, or the taps
    of a filter, which are differentiable.

    Examples
    --------
    >>> import numpy as np
    >>> resample_poly(np.ones(4), 1, 2, window=np.array([1.0]))
    array([1., 1.])
    """
    import scipy.signal

    if padtype != "constant" or cval:
        raise UsageError(
            f"resample_poly(..., padtype={padtype!r}, cval={cval}){blame.user_line()}"
            " is not known inside a derivative. Take off the line or the mean first,"
            " and add it to the result."
        )
    signal = admit_signal("resample_poly", x)
    common = math.gcd(up, down)
    up, down = up // common, down // common
    if up == down:
        return signal
    if isinstance(window, (str, tuple)):
        rate = max(up, down)
        half = 10 * rate
        design: Any = scipy.signal.firwin
        taps: Any = design(2 * half + 1, 1 / rate, window=window)
        taps = convert_like(taps.astype(dtype_of(signal)), signal)
    else:
        taps = admit_signal("resample_poly", window)
        half = (shape_of(taps)[0] - 1) // 2
    axis = normal_axis(axis, len(shape_of(signal)))
    lines: Any = moveaxis(signal, axis, -1)
    count = shape_of(lines)[-1]
    length = -(-count * up // down)
    # One pass over all places, of which each down-th from the middle is kept.
    y = upfirdn(taps * up, lines, up)
    short = half + (length - 1) * down + 1 - shape_of(y)[-1]
    if short > 0:
        y = np.pad(y, [(0, 0)] * (len(shape_of(y)) - 1) + [(0, short)])
    y = y[..., half : half + (length - 1) * down + 1 : down]
    return moveaxis(y, -1, axis)


defer_functions(globals(), __all__)
