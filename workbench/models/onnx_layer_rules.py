"""What ONNX's layers of networks mean in NumPy: windows, norms, frequencies.

Rows as in `onnx_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from workbench.core.tensor import value_of
from workbench.models.onnx_rules import (
    Array,
    Ints,
    Unsupported,
    check_count,
    rank_of,
    read_integers,
    row,
    take_root,
)
from workbench.ops.conv import conv, conv_transpose
from workbench.ops.pooling import max_pool, mean_pool
from workbench.ops.updates import at

Pairs = list[tuple[int, int]]

# Windows


class Windows:
    """How windows lie on the axes of space: strides, dilations, padding."""

    def __init__(
        self,
        x: Array,
        size: Sequence[int],
        strides: Sequence[int] | None,
        pads: Sequence[int] | None,
        dilations: Sequence[int] | None,
        auto_pad: str = "NOTSET",
        ceil_mode: int = 0,
    ) -> None:
        rank = len(size)
        self.size = tuple(size)
        self.strides = tuple(strides or (1,) * rank)
        self.dilations = tuple(dilations or (1,) * rank)
        full = [(k - 1) * d + 1 for k, d in zip(size, self.dilations, strict=True)]
        lengths = [index(n) for n in x.shape[2:]] if auto_pad or ceil_mode else []
        if auto_pad.startswith("SAME"):
            whole = [
                max((-(-n // s) - 1) * s + k - n, 0)
                for n, s, k in zip(lengths, self.strides, full, strict=True)
            ]
            self.pairs = split_padding(whole, auto_pad)
        else:
            given = tuple(pads or (0,) * (2 * rank))
            self.pairs = list(zip(given[:rank], given[rank:], strict=True))
        #: The padding that was given; what ``ceil_mode`` adds at the end is more.
        self.own = list(self.pairs)
        if ceil_mode:
            for i, (n, s, k) in enumerate(
                zip(lengths, self.strides, full, strict=True)
            ):
                low, high = self.pairs[i]
                count = -(-(n + low + high - k) // s) + 1
                if (count - 1) * s >= n + low:  # one that starts behind the end
                    count -= 1
                self.pairs[i] = (low, max((count - 1) * s + k - n - low, high))

    @property
    def settings(self) -> dict[str, Any]:
        """Return what pooling takes."""
        return {
            "stride": self.strides,
            "padding": self.pairs,
            "dilation": self.dilations,
        }

    def view(self, x: Array, fill: float) -> Array:
        """Return the windows of an array, the entries of each along the last axis."""
        x = np.pad(x, [(0, 0), (0, 0), *self.pairs], constant_values=fill)
        rank = len(self.size)
        full = [(k - 1) * d + 1 for k, d in zip(self.size, self.dilations, strict=True)]
        space = tuple(range(2, 2 + rank))
        views: Any = np.lib.stride_tricks.sliding_window_view(x, full, space)
        gaps = (slice(None, None, s) for s in (*self.strides, *self.dilations))
        views = views[(..., *gaps)]
        return np.reshape(views, (*views.shape[: 2 + rank], math.prod(self.size)))


def split_padding(whole: Sequence[int], auto_pad: str) -> Pairs:
    """Return padding cut into what stands before and behind."""
    halves = [(n // 2, n - n // 2) for n in whole]
    return halves if auto_pad == "SAME_UPPER" else [(b, a) for a, b in halves]


def add_bias(y: Array, bias: Array) -> Array:
    """Return an array with a number for each channel added, if there is one."""
    if bias is None:
        return y
    return y + np.reshape(bias, (-1, *(1,) * (rank_of(y) - 2)))


@row("Conv")
def _convolve(
    x: Array,
    w: Array,
    bias: Array = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    at_ = Windows(x, w.shape[2:], strides, pads, dilations, auto_pad)
    return add_bias(conv(x, w, groups=group, **at_.settings), bias)


@row("ConvTranspose")
def _transpose_convolution(
    x: Array,
    w: Array,
    bias: Array = None,
    auto_pad: str = "NOTSET",
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    at_ = Windows(x, w.shape[2:], strides, pads, dilations)
    more = tuple(output_padding or (0,) * len(at_.size))
    pairs = at_.pairs
    if output_shape or auto_pad.startswith("SAME"):
        lengths = [index(n) for n in x.shape[2:]]
        wanted = output_shape or [
            n * s for n, s in zip(lengths, at_.strides, strict=True)
        ]
        check_count(wanted)
        whole = [
            s * (n - 1) + e + (k - 1) * d + 1 - m
            for n, s, e, k, d, m in zip(
                lengths, at_.strides, more, at_.size, at_.dilations, wanted, strict=True
            )
        ]
        pairs = split_padding(whole, auto_pad)
    y = conv_transpose(
        x, w, stride=at_.strides, padding=pairs, output_padding=more,
        dilation=at_.dilations, groups=group,
    )  # fmt: skip
    return add_bias(y, bias)


@row("MaxPool")
def _pool_largest(
    x: Array,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    storage_order: int = 0,
    strides: Any = None,
    *,
    step: Any,
) -> Any:
    at_ = Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    if x.dtype.kind != "f":
        raise Unsupported("of integers")
    y = max_pool(x, at_.size, **at_.settings)
    if len(step.outputs) < 2:
        return y
    values = value_of(x)
    if values is None:
        raise Unsupported("with places, without values")
    best = np.argmax(at_.view(values, -np.inf), -1)[..., None]
    places = np.arange(math.prod(x.shape[2:]))
    places = places.reshape(x.shape[2:], order="F" if storage_order else "C")
    windows = at_.view(np.broadcast_to(places, (1, 1, *places.shape)), -1)
    shape = (*best.shape[:-1], windows.shape[-1])
    chosen = np.take_along_axis(np.broadcast_to(windows, shape), best, -1)[..., 0]
    images = np.arange(math.prod(x.shape[:2])).reshape(x.shape[:2])
    first = images.reshape(*x.shape[:2], *(1,) * places.ndim) * places.size
    return [y, chosen + first]


@row("MaxUnpool")
def _spread_largest(
    x: Array,
    places: Array,
    output_shape: Ints = None,
    kernel_shape: Any = (),
    pads: Any = None,
    strides: Any = None,
) -> Array:
    rank = len(kernel_shape)
    gaps, given = strides or (1,) * rank, pads or (0,) * (2 * rank)
    space = [
        (n - 1) * s + k - given[i] - given[i + rank]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], gaps, kernel_shape, strict=True))
    ]
    shape = check_count((*x.shape[:2], *space))
    whole = np.zeros_like(x, shape=(math.prod(shape),))
    flat = at(whole)[np.reshape(places, -1)].set(np.reshape(x, -1))
    y = np.reshape(flat, shape)
    if output_shape is None:
        return y
    wanted = check_count(read_integers(output_shape))
    return np.pad(y, [(0, m - n) for n, m in zip(shape, wanted, strict=True)])


@row("AveragePool")
def _pool_mean(
    x: Array,
    kernel_shape: Any,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    at_ = Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    if at_.pairs == at_.own or not count_include_pad:
        return mean_pool(
            x, at_.size, counts_padding=bool(count_include_pad), **at_.settings
        )
    # What `ceil_mode` adds behind the padding is not counted.
    x = np.pad(x, [(0, 0), (0, 0), *at_.own])
    rest = [(0, b[1] - a[1]) for a, b in zip(at_.own, at_.pairs, strict=True)]
    return mean_pool(x, at_.size, **{**at_.settings, "padding": rest})


@row("LpPool")
def _pool_power(
    x: Array,
    kernel_shape: Any,
    p: int = 2,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    at_ = Windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return take_root(np.sum(at_.view(np.abs(x) ** p, 0), -1), p)


def _space(x: Array) -> tuple[int, ...]:
    return tuple(range(2, rank_of(x)))


@row("GlobalAveragePool")
def _mean_of_space(x: Array) -> Array:
    return np.mean(x, _space(x), keepdims=True)


@row("GlobalMaxPool")
def _largest_of_space(x: Array) -> Array:
    return np.max(x, _space(x), keepdims=True)


@row("GlobalLpPool")
def _power_of_space(x: Array, p: int = 2) -> Array:
    return take_root(np.sum(np.abs(x) ** p, _space(x), keepdims=True), p)


@row("Col2Im")
def _add_windows(
    x: Array,
    image_shape: Ints,
    block_shape: Ints,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    image, block = read_integers(image_shape), read_integers(block_shape)
    check_count((*x.shape[:1], *image))
    rank, entries = len(block), math.prod(block)
    gaps, steps = dilations or (1,) * rank, strides or (1,) * rank
    given = pads or (0,) * (2 * rank)
    pairs = list(zip(given[:rank], given[rank:], strict=True))
    counts, more = [], []
    for n, k, d, s, pair in zip(image, block, gaps, steps, pairs, strict=True):
        rest = n + sum(pair) - (k - 1) * d - 1
        counts.append(rest // s + 1)
        more.append(rest % s)  # what the windows do not reach
    examples, channels = x.shape[0], x.shape[1] // entries
    parts = np.reshape(x, (examples * channels, entries, *counts))
    # Each filter puts one entry of a window where it belongs.
    filters = np.reshape(np.eye(entries, dtype=x.dtype), (entries, 1, *block))
    y = conv_transpose(
        parts, filters, stride=steps, padding=pairs, dilation=gaps, output_padding=more
    )
    return np.reshape(y, (examples, channels, *image))


# Norms


def _standardize(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Any, ...]:
    """Return entries without their mean and over their deviation, and these two."""
    mean = np.mean(x, axes, keepdims=True)
    scale = 1 / np.sqrt(np.var(x, axes, keepdims=True) + epsilon)
    return (x - mean) * scale, mean, scale


def _by_channel(v: Array, x: Array) -> Array:
    return np.reshape(v, (1, -1, *(1,) * (rank_of(x) - 2)))


@row("BatchNormalization")
def _normalize_batch(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    *,
    step: Any,
) -> Any:
    if not spatial or len(step.outputs) > 3 or (step.version < 7 and not is_test):
        raise Unsupported("in the training mode of version 13 or before")
    if training_mode:
        axes = (0, *_space(x))
        seen, spread = np.mean(x, axes), np.var(x, axes)
        new = [
            old * momentum + now * (1 - momentum)
            for old, now in ((mean, seen), (var, spread))
        ]
        mean, var = seen, spread
    else:
        new = []
    slope = scale / np.sqrt(var + epsilon)
    y = (x - _by_channel(mean, x)) * _by_channel(slope, x) + _by_channel(bias, x)
    return [y, *new]


@row("InstanceNormalization")
def _normalize_instance(
    x: Array, scale: Array, bias: Array, epsilon: float = 1e-5
) -> Array:
    y = _standardize(x, _space(x), epsilon)[0]
    return y * _by_channel(scale, x) + _by_channel(bias, x)


@row("LayerNormalization")
def _normalize_layer(
    x: Array,
    scale: Array,
    bias: Array = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    rank = rank_of(x)
    y, mean, inverse = _standardize(x, tuple(range(axis % rank, rank)), epsilon)
    y = y * scale
    return [y if bias is None else y + bias, mean, inverse]


@row("RMSNormalization")
def _normalize_size(
    x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    rank = rank_of(x)
    axes = tuple(range(axis % rank, rank))
    return x / np.sqrt(np.mean(x * x, axes, keepdims=True) + epsilon) * scale


@row("GroupNormalization")
def _normalize_group(
    x: Array,
    scale: Array,
    bias: Array,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Array:
    parts = np.reshape(x, (x.shape[0], num_groups, -1))
    y = np.reshape(_standardize(parts, (2,), epsilon)[0], x.shape)
    if scale.shape[0] != x.shape[1]:  # before version 21: one for each group
        each = x.shape[1] // num_groups
        scale, bias = np.repeat(scale, each), np.repeat(bias, each)
    return y * _by_channel(scale, x) + _by_channel(bias, x)


@row("LRN")
def _normalize_response(
    x: Array,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Array:
    low = (size - 1) // 2
    squares = np.pad(
        x * x, [(0, 0), (low, size - 1 - low), *[(0, 0)] * (rank_of(x) - 2)]
    )
    near = np.sum(np.lib.stride_tricks.sliding_window_view(squares, size, 1), -1)
    return x / (bias + alpha / size * near) ** beta


# In frequencies


@row("DFT")
def _fourier(
    x: Array,
    length: Ints = None,
    axis: Ints = None,
    inverse: int = 0,
    onesided: int = 0,
    *,
    step: Any,
) -> Array:
    if axis is None:
        axis = 1 if step.version < 20 else -2
    (along,) = read_integers(axis)
    along %= rank_of(x)
    count = None if length is None else read_integers(length)[0]
    if count is not None:
        check_count((count,))
    z = _as_complex(x)
    if inverse and onesided:
        return np.fft.irfft(z, count, along)[..., None]
    if onesided and x.shape[-1] == 1:
        return _as_pairs(np.fft.rfft(z, count, along))
    if onesided:
        y = np.fft.fft(z, count, along)
        return _as_pairs(np.take(y, np.arange(y.shape[along] // 2 + 1), along))
    return _as_pairs((np.fft.ifft if inverse else np.fft.fft)(z, count, along))


def _as_complex(x: Array) -> Array:
    """Return the numbers whose real and imaginary parts lie along the last axis."""
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _as_pairs(z: Array) -> Array:
    return np.stack([np.real(z), np.imag(z)], -1)


@row("STFT")
def _short_fourier(
    x: Array,
    frame_step: Ints,
    window: Array = None,
    frame_length: Ints = None,
    onesided: int = 1,
) -> Array:
    (gap,) = read_integers(frame_step)
    width = window.shape[0] if frame_length is None else read_integers(frame_length)[0]
    frames = np.lib.stride_tricks.sliding_window_view(_as_complex(x), width, 1)
    frames = frames[:, ::gap]
    frames = frames if window is None else frames * window
    real = onesided and x.shape[-1] == 1
    return _as_pairs((np.fft.rfft if real else np.fft.fft)(frames, axis=-1))
