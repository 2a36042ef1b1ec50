"""Fourier transforms: linear ops, and the names of `numpy.fft` written with them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, SupportsIndex

import numpy as np

from workbench.core import blame
from workbench.core.dims import Dim, has_dim, is_same_shape, is_zero_length, smallest
from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, Params, Shape, Spec, as_spec
from workbench.ops.define import dtype_of, linear, list_positions, shape_of
from workbench.ops.device import make_zeros
from workbench.ops.elementwise import conjugate
from workbench.ops.shaping import normal_axes, normal_axis

# Fourier transforms: the linear ops of `numpy.fft`.
#
# `fft` and `ifft` have symmetric matrices, so each is its own transpose;
# `rfft` and `irfft` are each other's transposes but for a weight: the frequencies that
# a real transform leaves out count twice. The names of NumPy are written with these,
# below. J. W. Cooley, P. A. W. Lewis, P. D. Welch, "The Fast Fourier Transform and
# its Applications" (1969).


#: What a transform and its inverse are scaled by, turned round.
SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def norm_name(norm: str | None) -> str:
    """Return a ``norm`` by its name, the usual one for None."""
    norm = "backward" if norm is None else norm
    if norm not in SWAPPED:
        raise ValueError(
            f"Invalid norm value {norm!r}{blame.user_line()}: it is 'backward', 'ortho'"
            " or 'forward'."
        )
    return str(norm)


def settings(n: int | Dim, axis: int, norm: str | None) -> Params:
    """Return the settings of a transform along one axis, without the default norm."""
    params: Params = {"n": n, "axis": axis}
    return params if norm_name(norm) == "backward" else {**params, "norm": norm}


def resize_axes(x: Array, lengths: dict[int, int]) -> Array:
    """Cut off axes, or fill them up with zeros, to a length per axis."""
    shape = shape_of(x)
    lengths = {axis % len(shape): n for axis, n in lengths.items()}
    lengths = {i: n for i, n in lengths.items() if not is_same_shape((n,), (shape[i],))}
    if has_dim([shape, *lengths.values()]):
        return _resize_unknown(x, lengths)
    if any(n < shape[axis] for axis, n in lengths.items()):
        x = x[tuple(slice(lengths.get(i)) for i in range(len(shape)))]
    if any(n > shape[axis] for axis, n in lengths.items()):
        x = np.pad(x, [(0, max(lengths.get(i, 0) - n, 0)) for i, n in enumerate(shape)])
    return x


def _resize_unknown(x: Array, lengths: dict[int, Any]) -> Array:
    """Resize axes of unknown length: cut off first, then fill up with zeros."""
    for axis, n in lengths.items():
        x = x[(slice(None),) * axis + (slice(smallest(n, shape_of(x)[axis])),)]
        shape = list(shape_of(x))
        shape[axis] = n - shape[axis]
        if not is_zero_length(shape[axis]):
            x = np.concatenate([x, make_zeros(x, tuple(shape))], axis)
    return x


@lru_cache(maxsize=64)
def _result_dtype(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a transform, from a trial on one entry."""
    one = np.ones(1, dtype)  # host array: to ask for a dtype
    found: np.dtype[Any] = getattr(np.fft, name)(one, 1).dtype
    return found


# fft, ifft, fftn, ifftn: symmetric, so that the transpose is the transform itself.
# The axes of all ops count from the end, so a batch axis in front changes nothing.


def _infer_transform(
    spec: Spec, lengths: Any, axes: tuple[int, ...], name: str
) -> Spec:
    shape = list(spec.shape)
    for axis, n in zip(axes, lengths, strict=True):
        shape[axis] = n
    return Spec(tuple(shape), _result_dtype(name, spec.dtype))


def _complex_op(name: str) -> Op:
    transform = getattr(np.fft, name)
    many = name.endswith("n")

    def axes_of(params: Params) -> Shape:
        return params["axes"] if many else (params["axis"],)

    def transpose(g: Array, x: Array, **params: Any) -> Array:
        passed = apply(new_op, (g,), params)
        if dtype_of(x).kind != "c":
            passed = np.real(passed)
        shape = shape_of(x)
        return resize_axes(passed, {axis: shape[axis] for axis in axes_of(params)})

    def infer(x: Array, **params: Any) -> Spec:
        lengths = params["s"] if many else (params["n"],)
        return _infer_transform(as_spec(x), lengths, axes_of(params), "fft")

    new_op = linear(
        name,
        transform,
        transpose,
        rule=f"{name} of g",
        pattern="lines",
        infer=infer,
        sums=True,
        grows=True,
    )
    new_op.batch = "whole"
    return new_op


FFT, IFFT = _complex_op("fft"), _complex_op("ifft")
FFTN, IFFTN = _complex_op("fftn"), _complex_op("ifftn")


# rfft and irfft: the kept frequencies, of which all but the ends count twice


def _counts(like: Array, length: int) -> Array:
    """Return how often each kept frequency of a real signal of this length counts."""
    k = list_positions(length // 2 + 1, like=like)
    once = np.logical_or(np.equal(k, 0), np.equal(2 * k, length))
    return np.where(once, 1, 2).astype(np.finfo(dtype_of(like)).dtype)


def _weigh_frequencies(x: Array, weights: Array, axis: int) -> Array:
    return x * np.reshape(weights, (-1, *(1,) * (-axis - 1)))


def _rfft_transpose(
    g: Array, x: Array, *, n: int, axis: int, norm: str | None = None
) -> Array:
    spectrum = _weigh_frequencies(np.conjugate(g), 1 / _counts(g, n), axis)
    passed = apply(IRFFT, (spectrum,), settings(n, axis, SWAPPED[norm_name(norm)]))
    return resize_axes(passed, {axis: shape_of(x)[axis]})


def _rfft_infer(x: Array, *, n: int, axis: int, norm: str | None = None) -> Spec:
    spec = as_spec(x)
    if spec.dtype.kind == "c":
        raise TypeError("a real transform of complex entries; np.fft.fft takes them")
    return _infer_transform(spec, (n // 2 + 1,), (axis,), "rfft")


RFFT = linear(
    "rfft",
    np.fft.rfft,
    _rfft_transpose,
    rule="irfft of conj(g), scaled",
    pattern="lines",
    infer=_rfft_infer,
)


def _irfft_transpose(
    g: Array, x: Array, *, n: int, axis: int, norm: str | None = None
) -> Array:
    passed = apply(RFFT, (g,), settings(n, axis, SWAPPED[norm_name(norm)]))
    passed = _weigh_frequencies(np.conjugate(passed), _counts(g, n), axis)
    return resize_axes(passed, {axis: shape_of(x)[axis]})


def _irfft_infer(x: Array, *, n: int, axis: int, norm: str | None = None) -> Spec:
    return _infer_transform(as_spec(x), (n,), (axis,), "irfft")


IRFFT = linear(
    "irfft",
    np.fft.irfft,
    _irfft_transpose,
    rule="conj(rfft of g), scaled",
    pattern="lines",
    infer=_irfft_infer,
)
RFFT.batch = IRFFT.batch = "whole"


# The names of `numpy.fft`


def _length(given: SupportsIndex | Dim) -> int | Dim:
    if isinstance(given, Dim):
        return given
    n: int = operator.index(given)
    if n < 1:
        raise ValueError(
            f"Invalid number of FFT data points ({n}) specified{blame.user_line()}."
        )
    return n


def _axis_from_end(axis: int, rank: int) -> int:
    """Return an axis counted from the end."""
    return normal_axis(axis, rank) - rank


def _transform(op: Op, a: Array, n: int | None, axis: int, norm: str | None) -> Array:
    axis = _axis_from_end(axis, len(shape_of(a)))
    length = _length(_default(op, shape_of(a)[axis]) if n is None else n)
    return apply(op, (a,), settings(length, axis, norm))


def _default(op: Op, length: int | Dim) -> int | Dim:
    return 2 * (length - 1) if op is IRFFT else length


def _hermitian(a: Array, n: int | None, axis: int, norm: str | None) -> Array:
    """Return the transform of a signal that is Hermitian in time."""
    return _transform(IRFFT, conjugate(a), n, axis, SWAPPED[norm_name(norm)])


def _inverse_hermitian(a: Array, n: int | None, axis: int, norm: str | None) -> Array:
    return np.conjugate(_transform(RFFT, a, n, axis, SWAPPED[norm_name(norm)]))


def _answer_along_one(name: str, transform: Callable[..., Any]) -> Callable[..., Any]:
    """Answer a transform of `numpy.fft` along one axis."""

    @implements(getattr(np.fft, name))
    def answer(
        a: Array,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        out: None = None,
    ) -> Array:
        return transform(admit(a), n, axis, norm)

    return answer


fft, ifft, rfft, irfft = (
    _answer_along_one(made.name, partial(_transform, made))
    for made in (FFT, IFFT, RFFT, IRFFT)
)
hfft, ihfft = (
    _answer_along_one("hfft", _hermitian),
    _answer_along_one("ihfft", _inverse_hermitian),
)


# Several axes


def _grid(
    a: Array, s: Sequence[Any] | None, axes: Sequence[int] | None, real: bool = False
) -> tuple[list[Any], list[int]]:
    """Return the length and the axis, counted from the end, of each transform.

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
            f"Shape and axes have different lengths{blame.user_line()}:"
            f" {() if s is None else tuple(s)} and {tuple(axes)}."
        )
    return [_length(n) for n in lengths], axes


def _transform_all(
    a: Array,
    s: Sequence[Any] | None,
    axes: Sequence[int] | None,
    norm: str | None,
    *,
    inverse: bool,
) -> Array:
    lengths, axes = _grid(a, s, axes)
    if len(set(axes)) == len(axes) > 1:
        params: Params = {"s": tuple(lengths), "axes": tuple(axes)}
        params |= {} if norm_name(norm) == "backward" else {"norm": norm}
        return apply(IFFTN if inverse else FFTN, (a,), params)
    # An axis named twice is transformed twice.
    for n, axis in zip(lengths[::-1], axes[::-1], strict=True):
        a = apply(IFFT if inverse else FFT, (a,), settings(n, axis, norm))
    return a


def _from_real(
    a: Array, s: Sequence[Any] | None, axes: Sequence[int] | None, norm: str | None
) -> Array:
    lengths, axes = _grid(a, s, axes)
    y = rfft(a, lengths[-1], axes[-1], norm)
    rest = axes[:-1]
    return _transform_all(y, lengths[:-1], rest, norm, inverse=False) if rest else y


def _to_real(
    a: Array, s: Sequence[Any] | None, axes: Sequence[int] | None, norm: str | None
) -> Array:
    lengths, axes = _grid(a, s, axes, real=True)
    rest = axes[:-1]
    if rest:
        a = _transform_all(a, lengths[:-1], rest, norm, inverse=True)
    return irfft(a, lengths[-1], axes[-1], norm)


def _answer_along_all(
    name: str, transform: Callable[..., Any]
) -> list[Callable[..., Any]]:
    """Answer a transform of `numpy.fft` along several axes, and that along two."""

    def answered(called: str, default: tuple[int, int] | None) -> Callable[..., Any]:
        @implements(getattr(np.fft, called))
        def answer(
            a: Array,
            s: Sequence[Any] | None = None,
            axes: Sequence[int] | None = default,
            norm: str | None = None,
            out: None = None,
        ) -> Array:
            return transform(admit(a), s, axes, norm)

        return answer

    return [answered(f"{name}n", None), answered(f"{name}2", (-2, -1))]


fftn, fft2 = _answer_along_all("fft", partial(_transform_all, inverse=False))
ifftn, ifft2 = _answer_along_all("ifft", partial(_transform_all, inverse=True))
rfftn, rfft2 = _answer_along_all("rfft", _from_real)
irfftn, irfft2 = _answer_along_all("irfft", _to_real)


# Shifts: rolls by half a turn


def _shift(x: Array, axes: int | Sequence[int] | None, inverse: bool) -> Array:
    x = admit(x)
    shape = shape_of(x)
    every = range(len(shape)) if axes is None else axes
    chosen = normal_axes(list(every) if isinstance(every, range) else every, len(shape))
    steps = [-(shape[n] // 2) if inverse else shape[n] // 2 for n in chosen]
    return np.roll(x, steps, chosen) if chosen else np.copy(x)


@implements(np.fft.fftshift)
def fftshift(x: Array, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency to the middle of each axis, as `numpy.fft.fftshift`."""
    return _shift(x, axes, inverse=False)


@implements(np.fft.ifftshift)
def ifftshift(x: Array, axes: int | Sequence[int] | None = None) -> Array:
    """Undo `fftshift`, as `numpy.fft.ifftshift` does."""
    return _shift(x, axes, inverse=True)
