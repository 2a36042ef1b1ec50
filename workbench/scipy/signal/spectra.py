"""Spectra of segments of a signal."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import ArrayLike
from workbench.errors import UsageError
from workbench.ops.define import convert_like, dtype_of, shape_of
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import moveaxis, normal_axis
from workbench.ops.taking import take
from workbench.scipy.signal.convolutions import check_choice
from workbench.scipy.signal.filters import admit_signal

__all__ = ["csd", "istft", "periodogram", "stft", "welch"]


def _find_window(name: str, window: Any, nperseg: int | None, count: int) -> Any:
    """Return the weights of a segment, which is at most as long as the signal."""
    if isinstance(window, (str, tuple)):
        import scipy.signal

        length = min(256 if nperseg is None else int(nperseg), count)
        return np.asarray(scipy.signal.get_window(window, length))
    weights = np.asarray(window)
    if weights.ndim != 1 or len(weights) > count or nperseg not in (None, len(weights)):
        raise ValueError(
            f"{name}{blame.user_line()}: a window of shape {weights.shape} for segments"
            f" of length {nperseg} of a signal of length {count}"
        )
    return weights


def _transform(
    x: Any, window: Any, step: int, nfft: int, detrend: Any, is_half: bool
) -> Any:
    """Return the transforms of the segments of lines, shape (..., segments, nfft)."""
    length = len(window)
    starts = np.arange(0, shape_of(x)[-1] - length + 1, step)
    parts = take(x, convert_like(starts[:, None] + np.arange(length), x), axis=-1)
    if detrend == "constant":
        parts = parts - np.mean(parts, axis=-1, keepdims=True)
    elif detrend == "linear":
        line = np.stack([np.ones(length), np.linspace(-1, 1, length)], axis=1)
        keep = np.eye(length) - line @ np.linalg.pinv(line)
        parts = parts @ convert_like(keep.T, x)
    elif callable(detrend):
        parts = detrend(parts)
    elif detrend:
        raise ValueError(
            f"detrend={detrend!r}{blame.user_line()}: trend type must be 'linear',"
            " 'constant', False or a function"
        )
    parts = parts * convert_like(window.astype(dtype_of(np.real(parts))), x)
    return np.fft.rfft(parts, nfft) if is_half else np.fft.fft(parts, nfft)


def _check_steps(name: str, length: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    overlap = length // 2 if noverlap is None else int(noverlap)
    if overlap >= length:
        raise ValueError(
            f"{name}{blame.user_line()}: noverlap must be less than nperseg."
        )
    padded = length if nfft is None else int(nfft)
    if padded < length:
        raise ValueError(
            f"{name}{blame.user_line()}: nfft must be greater than or equal to nperseg."
        )
    return length - overlap, padded


def _find_frequencies(nfft: int, fs: float, is_half: bool) -> Any:
    return (np.fft.rfftfreq if is_half else np.fft.fftfreq)(nfft, 1 / fs)


def csd(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the cross spectrum of two signals: `scipy.signal.csd`.

    Both have one length. ``average`` must be ``"mean"``.

    Raises
    ------
    ValueError
        If a setting does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([1.0, 0, -1, 0]), np.array([0, 1.0, 0, -1])
    >>> csd(x, y, window="boxcar")[1].round(9) + 0.0
    array([0.+0.j, 0.-2.j, 0.+0.j])
    """
    return _estimate(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
        scaling, axis, average,
    )  # fmt: skip


def _estimate(
    name: str, x: Any, y: Any, fs: float, window: Any, nperseg: Any, noverlap: Any,
    nfft: Any, detrend: Any, return_onesided: bool, scaling: str, axis: int,
    average: str,
) -> tuple[Any, Any]:  # fmt: skip
    if average != "mean":
        raise UsageError(
            f"{name}(..., average={average!r}){blame.user_line()} is not known inside a"
            " derivative. Write average='mean'."
        )
    check_choice(name, scaling, ("density", "spectrum"), "scaling")
    first = admit_signal(name, x)
    second = first if y is None else admit_signal(name, y)
    axis = normal_axis(axis, len(shape_of(first)))
    lines = [moveaxis(v, axis, -1) for v in (first, second)]
    counts = [shape_of(v)[-1] for v in lines]
    if counts[0] != counts[1]:
        raise UsageError(
            f"{name}{blame.user_line()}: signals of lengths {counts[0]} and"
            f" {counts[1]}. Extend the shorter one by np.pad first."
        )
    weights = _find_window(name, window, nperseg, counts[0])
    step, padded = _check_steps(name, len(weights), noverlap, nfft)
    is_half = return_onesided and all(dtype_of(v).kind != "c" for v in lines)
    a = _transform(lines[0], weights, step, padded, detrend, is_half)
    b = (
        a
        if y is None
        else _transform(lines[1], weights, step, padded, detrend, is_half)
    )
    if y is None:
        power: Any = np.real(a) ** 2 + np.imag(a) ** 2
    else:
        power = np.conj(a) * b
    size = fs * np.sum(weights**2) if scaling == "density" else np.sum(weights) ** 2
    scale = np.full(shape_of(a)[-1], 1 / size)
    if is_half:  # those left out count twice
        scale[1 : None if padded % 2 else -1] *= 2
    scale = scale.astype(dtype_of(np.real(power)))
    found = np.mean(power, axis=-2) * convert_like(scale, first)
    return _find_frequencies(padded, fs, is_half), moveaxis(found, -1, axis)


def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """Return frequencies and the power spectrum of a signal: `scipy.signal.welch`.

    ``average`` must be ``"mean"``.

    Raises
    ------
    ValueError
        If a setting does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> welch(np.array([1.0, 0, -1, 0]), window="boxcar")[1].round(9) + 0.0
    array([0., 2., 0.])
    """
    return _estimate(
        "welch", x, None, fs, window, nperseg, noverlap, nfft, detrend,
        return_onesided, scaling, axis, average,
    )  # fmt: skip


def periodogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "boxcar",
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Any, Any]:
    """Return `welch` of one segment, the whole signal: `scipy.signal.periodogram`."""
    signal = admit_signal("periodogram", x)
    length = shape_of(signal)[normal_axis(axis, len(shape_of(signal)))]
    return _estimate(
        "periodogram", signal, None, fs, window, length, 0, nfft, detrend,
        return_onesided, scaling, axis, "mean",
    )  # fmt: skip


def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:
    """Return frequencies, times and transforms of segments: `scipy.signal.stft`.

    ``boundary`` is ``"zeros"`` or None.

    Raises
    ------
    ValueError
        If a setting does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> stft(np.ones(4), window="boxcar", nperseg=2, noverlap=0, boundary=None)[2].real
    array([[1., 1.],
           [0., 0.]])
    """
    check_choice("stft", scaling, ("spectrum", "psd"), "scaling")
    if boundary not in ("zeros", None):
        raise UsageError(
            f"stft(..., boundary={boundary!r}){blame.user_line()} is not known inside a"
            " derivative. Extend x by np.pad, and give boundary=None."
        )
    signal = admit_signal("stft", x)
    axis = normal_axis(axis, len(shape_of(signal)))
    lines: Any = moveaxis(signal, axis, -1)
    weights = _find_window("stft", window, nperseg, shape_of(lines)[-1])
    length = len(weights)
    step, wide = _check_steps("stft", length, noverlap, nfft)
    edge = length // 2 if boundary else 0
    count = shape_of(lines)[-1] + 2 * edge
    more = (-(count - length) % step) % length if padded else 0
    width = [(0, 0)] * (len(shape_of(lines)) - 1) + [(edge, edge + more)]
    is_half = return_onesided and dtype_of(lines).kind != "c"
    found = _transform(np.pad(lines, width), weights, step, wide, detrend, is_half)
    size = (
        np.sum(weights) if scaling == "spectrum" else (fs * np.sum(weights**2)) ** 0.5
    )
    found = moveaxis(np.swapaxes(found, -1, -2) / float(size), -2, axis)
    start = 0.0 if boundary else length / 2
    middles = start + step * np.arange(shape_of(found)[-1])
    return _find_frequencies(wide, fs, is_half), middles / fs, found


def istft(
    Zxx: ArrayLike,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Any, Any]:
    """Return times and the signal of transforms of segments: `scipy.signal.istft`.

    Raises
    ------
    ValueError
        If a setting does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> settings = {"window": "hamming", "nperseg": 4}
    >>> transforms = stft(np.array([1.0, 2, 3, 4]), **settings)[2]
    >>> istft(transforms, **settings)[1].round(9)
    array([1., 2., 3., 4.])
    """
    check_choice("istft", scaling, ("spectrum", "psd"), "scaling")
    given = admit_signal("istft", Zxx)
    rank = len(shape_of(given))
    if rank < 2 or normal_axis(time_axis, rank) == normal_axis(freq_axis, rank):
        raise ValueError(
            f"istft{blame.user_line()}: Zxx has shape {shape_of(given)}; give an axis"
            " of times and another one of frequencies."
        )
    lines: Any = np.moveaxis(given, (time_axis, freq_axis), (-2, -1))
    count, bins = shape_of(lines)[-2:]
    usual = 2 * (bins - 1) if input_onesided else bins
    length = usual if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    step, wide = _check_steps("istft", length, noverlap, nfft)
    weights = _find_window("istft", window, length, length)
    inverse = np.fft.irfft if input_onesided else np.fft.ifft
    parts: Any = inverse(lines, wide)[..., :length]
    size = (
        np.sum(weights) if scaling == "spectrum" else (fs * np.sum(weights**2)) ** 0.5
    )
    real = dtype_of(np.real(parts))
    parts = parts * convert_like((weights * size).astype(real), parts)
    edge = length // 2 if boundary else 0
    end = length + (count - 1) * step - edge
    norm = _add_overlaps(np.tile(weights**2, (count, 1)), step)[edge:end]
    share = 1 / np.where(norm > 1e-10, norm, 1)
    found = _add_overlaps(parts, step)[..., edge:end]
    found = found * convert_like(share.astype(real), parts)
    place = normal_axis(time_axis, rank)
    found = moveaxis(found, -1, place - (normal_axis(freq_axis, rank) < place))
    # By the first axis, as SciPy has it.
    return np.arange(shape_of(found)[0]) / fs, found


def _add_overlaps(parts: Any, step: int) -> Any:
    """Return the sum of segments, each ``step`` entries after the one before.

    They have shape (..., segments, length).
    """
    *outer, count, length = shape_of(parts)
    times = -(-length // step)
    width = [(0, 0)] * len(outer)
    filled = np.pad(parts, [*width, (0, 0), (0, times * step - length)])
    pieces = np.reshape(filled, (*outer, count, times, step))
    total: Any = 0
    for i in range(times):
        room = [*width, (i, times - 1 - i), (0, 0)]
        total = total + np.pad(pieces[..., i, :], room)
    return np.reshape(total, (*outer, -1))[..., : length + (count - 1) * step]


defer_functions(globals(), __all__)
