"""The names of `numpy.fft`, written with the ops of `fourier.py` as NumPy has them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.dims import Dim
from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.ops.complex_parts import conjugate
from workbench.ops.define import no_out, shape_of
from workbench.ops.fourier import (
    FFT,
    FFTN,
    IFFT,
    IFFTN,
    IRFFT,
    RFFT,
    SWAPPED,
    normed,
    settings,
)
from workbench.ops.shaping import normal_axes, normal_axis

__all__: list[str] = []

Params = dict[str, Any]


def _length(given: Any) -> Any:
    if isinstance(given, Dim):
        return given
    n: int = operator.index(given)
    if n < 1:
        raise ValueError(
            f"Invalid number of FFT data points ({n}) specified{blame.here()}."
        )
    return n


def _last(axis: Any, rank: int) -> int:
    """An axis counted from the end."""
    return normal_axis(axis, rank) - rank


def _transform(made: Op, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    a = admit(a)
    axis = _last(axis, len(shape_of(a)))
    n = _length(_default(made, shape_of(a)[axis]) if n is None else n)
    return apply(made, (a,), settings(n, axis, norm))


def _default(made: Op, length: Any) -> Any:
    return 2 * (length - 1) if made is IRFFT else length


@implements(np.fft.fft)
def fft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.fft`."""
    no_out("np.fft.fft", out)
    return _transform(FFT, a, n, axis, norm)


@implements(np.fft.ifft)
def ifft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.ifft`."""
    no_out("np.fft.ifft", out)
    return _transform(IFFT, a, n, axis, norm)


@implements(np.fft.rfft)
def rfft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.rfft`."""
    no_out("np.fft.rfft", out)
    return _transform(RFFT, a, n, axis, norm)


@implements(np.fft.irfft)
def irfft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.irfft`."""
    no_out("np.fft.irfft", out)
    return _transform(IRFFT, a, n, axis, norm)


@implements(np.fft.hfft)
def hfft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.hfft`: of a signal that is Hermitian in time."""
    no_out("np.fft.hfft", out)
    return irfft(conjugate(admit(a)), n, axis, SWAPPED[normed(norm)])


@implements(np.fft.ihfft)
def ihfft(
    a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.ihfft`."""
    no_out("np.fft.ihfft", out)
    return np.conjugate(rfft(a, n, axis, SWAPPED[normed(norm)]))


# Several axes


def _grid(a: Any, s: Any, axes: Any, real: bool = False) -> tuple[list[int], list[int]]:
    """The length and the axis, counted from the end, of each transform.

    ``real``: the last one goes back to real numbers, of twice as many.
    """
    shape = shape_of(a)
    rank = len(shape)
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    axes = [n - rank for n in normal_axes(list(axes), rank)]
    if s is None:
        lengths = [shape[n] for n in axes]
        if real and axes:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        lengths = [
            shape[axis] if n in (-1, None) else n
            for n, axis in zip(s, axes, strict=False)
        ]
    if len(lengths) != len(axes):
        raise ValueError(
            f"Shape and axes have different lengths{blame.here()}: {tuple(s)} and"
            f" {tuple(axes)}."
        )
    return [_length(n) for n in lengths], axes


def _transform_all(a: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Any:
    a = admit(a)
    lengths, axes = _grid(a, s, axes)
    if len(set(axes)) == len(axes) > 1:
        params: Params = {"s": tuple(lengths), "axes": tuple(axes)}
        params |= {} if normed(norm) == "backward" else {"norm": norm}
        return apply(IFFTN if inverse else FFTN, (a,), params)
    # An axis named twice is transformed twice.
    for n, axis in zip(lengths[::-1], axes[::-1], strict=True):
        a = apply(IFFT if inverse else FFT, (a,), settings(n, axis, norm))
    return a


@implements(np.fft.fftn)
def fftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.fftn`."""
    no_out("np.fft.fftn", out)
    return _transform_all(a, s, axes, norm, inverse=False)


@implements(np.fft.ifftn)
def ifftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.ifftn`."""
    no_out("np.fft.ifftn", out)
    return _transform_all(a, s, axes, norm, inverse=True)


@implements(np.fft.fft2)
def fft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.fft2`."""
    return fftn(a, s, axes, norm, out)


@implements(np.fft.ifft2)
def ifft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.ifft2`."""
    return ifftn(a, s, axes, norm, out)


@implements(np.fft.rfftn)
def rfftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.rfftn`."""
    no_out("np.fft.rfftn", out)
    a = admit(a)
    lengths, axes = _grid(a, s, axes)
    y = rfft(a, lengths[-1], axes[-1], norm)
    rest = axes[:-1]
    return _transform_all(y, lengths[:-1], rest, norm, inverse=False) if rest else y


@implements(np.fft.irfftn)
def irfftn(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.irfftn`."""
    no_out("np.fft.irfftn", out)
    a = admit(a)
    lengths, axes = _grid(a, s, axes, real=True)
    rest = axes[:-1]
    if rest:
        a = _transform_all(a, lengths[:-1], rest, norm, inverse=True)
    return irfft(a, lengths[-1], axes[-1], norm)


@implements(np.fft.rfft2)
def rfft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.rfft2`."""
    return rfftn(a, s, axes, norm, out)


@implements(np.fft.irfft2)
def irfft2(
    a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: None = None
) -> Any:
    """`numpy.fft.irfft2`."""
    return irfftn(a, s, axes, norm, out)


# Shifts: rolls by half a turn


def _shift(x: Any, axes: Any, back: bool) -> Any:
    x = admit(x)
    shape = shape_of(x)
    every = range(len(shape)) if axes is None else axes
    chosen = normal_axes(list(every) if isinstance(every, range) else every, len(shape))
    steps = [-(shape[n] // 2) if back else shape[n] // 2 for n in chosen]
    return np.roll(x, steps, chosen) if chosen else np.copy(x)


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """`numpy.fft.fftshift`."""
    return _shift(x, axes, back=False)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """`numpy.fft.ifftshift`."""
    return _shift(x, axes, back=True)
