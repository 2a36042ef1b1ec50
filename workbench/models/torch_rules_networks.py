"""What ATen's ops of networks mean: convolution, pooling, norms, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.models.torch_rules import (
    RULES,
    is_number,
    promote,
    rank_of,
    row,
    swap_last,
)
from workbench.ops.conv import conv, conv_transpose
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.pooling import max_pool, mean_pool
from workbench.ops.reductions import logsumexp


def repeat_setting(setting: Any, rank: int) -> tuple[int, ...]:
    """Return a setting for each axis of space, from one or one for each."""
    given = (setting,) if isinstance(setting, int) else tuple(setting)
    return given * rank if len(given) == 1 else given


@row("_log_softmax")
def _log_softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    return x - logsumexp(x, axis=dim, keepdims=True)


@row("_softmax", "softmax")
def _softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    return np.exp(_log_softmax(x, dim))


@row("_safe_softmax")
def _safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    # Where a mask hides everything there is nothing to share: 0.
    hidden = np.all(np.isneginf(x), axis=dim, keepdims=True)
    return np.where(hidden, 0, _softmax(np.where(hidden, 0, x), dim))


# Convolution


@row("convolution")
def _convolution(
    x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    rank = rank_of(w) - 2
    settings: dict[str, Any] = {
        "stride": repeat_setting(stride, rank),
        "padding": [(p, p) for p in repeat_setting(padding, rank)],
        "dilation": repeat_setting(dilation, rank),
        "groups": groups,
    }
    if transposed:
        more = repeat_setting(output_padding, rank)
        y = conv_transpose(x, w, output_padding=more, **settings)
    else:
        y = conv(x, w, **settings)
    return y if bias is None else y + np.reshape(bias, (-1, *(1,) * rank))


# Pooling: of PyTorch's examples and channels, or of channels alone


def _with_examples(x: Any, rank: int) -> tuple[Any, bool]:
    alone = rank_of(x) == rank + 1
    return (x[None] if alone else x), alone


def _pad_to_ceil(
    n: int, size: int, step: int, pad: int, gap: int, ceil: bool
) -> tuple[int, int]:
    """Return the widths of a window's axis; rounding up adds entries at the end."""
    if not ceil:
        return pad, pad
    count = -(-(n + 2 * pad - gap * (size - 1) - 1) // step) + 1
    if (count - 1) * step >= n + pad:
        count -= 1  # a window begins inside
    return pad, max((count - 1) * step + gap * (size - 1) + 1 - n - pad, 0)


def _read_windows(
    x: Any, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, rank: int
) -> dict[str, Any]:
    sizes = repeat_setting(size, rank)
    steps = repeat_setting(stride, rank) if stride not in ((), [], None) else sizes
    gaps = repeat_setting(dilation, rank)
    pads = [
        _pad_to_ceil(*each, ceil)
        for each in zip(
            shape_of(x)[-rank:], sizes, steps, repeat_setting(padding, rank), gaps,
            strict=True,
        )
    ]  # fmt: skip
    return {"size": sizes, "stride": steps, "padding": pads, "dilation": gaps}


def _pool_by_max(
    rank: int, x: Any, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Any:
    x, alone = _with_examples(x, rank)
    windows = _read_windows(x, size, stride, padding, dilation, ceil, rank)
    y = max_pool(x, **windows)
    return [y[0] if alone else y, None]  # nobody reads the places, as `reads` says


def _pool_by_mean(
    rank: int, x: Any, size: Any, stride: Any, padding: Any, ceil: bool,
    counts_padding: bool, divisor: Any,
) -> Any:  # fmt: skip
    if ceil and (counts_padding or divisor is not None):
        return NotImplemented  # what is added to round up never counts
    x, alone = _with_examples(x, rank)
    windows = _read_windows(x, size, stride, padding, 1, ceil, rank)
    y = mean_pool(x, counts_padding=counts_padding or divisor is not None, **windows)
    if divisor is not None:
        y = y * (math.prod(windows["size"]) / divisor)
    return y[0] if alone else y


def _enter_pools() -> None:
    for rank in (1, 2, 3):

        def by_max(
            x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
            ceil_mode: bool = False, *, rank: int = rank,
        ) -> Any:  # fmt: skip
            return _pool_by_max(rank, x, size, stride, padding, dilation, ceil_mode)

        def by_mean(
            x: Any, size: Any, stride: Any = (), padding: Any = 0,
            ceil_mode: bool = False, count_include_pad: bool = True,
            divisor_override: Any = None, *, rank: int = rank,
        ) -> Any:  # fmt: skip
            settings = (ceil_mode, count_include_pad, divisor_override)
            return _pool_by_mean(rank, x, size, stride, padding, *settings)

        RULES[f"max_pool{rank}d_with_indices"] = by_max
        RULES[f"avg_pool{rank}d"] = by_mean


_enter_pools()


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _pool_to_size(x: Any, size: Sequence[int]) -> Any:
    shape = shape_of(x)
    for axis, wanted in enumerate(size, len(shape) - len(size)):
        n, each = shape[axis], np.arange(wanted)
        start = each * n // wanted
        counts = -(-(each + 1) * n // wanted) - start
        steps = np.arange(counts.max(initial=0))
        # Entries of a window and no others: infinity elsewhere does not count.
        places = np.minimum(start[:, None] + steps, n - 1)
        rest = (1,) * (len(shape) - axis - 1)
        inside = np.reshape(steps < counts[:, None], (*places.shape, *rest))
        y = np.take(x, places, axis)
        y = np.sum(y if inside.all() else np.where(inside, y, 0), axis + 1)
        x = y / np.reshape(counts, (-1, *rest)).astype(dtype_of(x))
    return x


# Other sizes


def _read_size(x: Any, size: Any, scales: Any) -> list[tuple[int, int, int, float]]:
    """Return for each axis of space: itself, its length, the new one, their ratio."""
    shape = shape_of(x)
    scales = [None if s is None else float(s) for s in scales or ()]
    rank = len(size) if size is not None else len(scales)
    found = []
    for i, axis in enumerate(range(len(shape) - rank, len(shape))):
        n = shape[axis]
        scale = scales[i] if scales else None
        wanted = int(n * scale) if size is None and scale else size[i]
        found.append((axis, n, wanted, 1 / scale if scale else n / wanted))
    return found


def _enlarge(x: Any, size: Any, scales: Any) -> Any:
    for axis, n, wanted, ratio in _read_size(x, size, scales):
        places = np.floor(np.arange(wanted) * ratio).astype(int)
        x = np.take(x, np.minimum(places, n - 1), axis)
    return x


@row("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def _resize_nearest(x: Any, size: Any, scales: Any = None) -> Any:
    return _enlarge(x, size, scales)


@row("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _resize_nearest_each(x: Any, size: Any, *scales: Any) -> Any:
    return _enlarge(x, size, None if None in scales else scales)


def _interpolate(x: Any, size: Any, align: bool, scales: Any) -> Any:
    if dtype_of(x).kind != "f":
        return NotImplemented
    for axis, n, wanted, ratio in _read_size(x, size, scales):
        places = (
            np.arange(wanted) * ((n - 1) / max(wanted - 1, 1))
            if align
            else np.clip((np.arange(wanted) + 0.5) * ratio - 0.5, 0, None)
        )
        low = np.minimum(np.floor(places).astype(int), n - 1)
        high = np.minimum(low + 1, n - 1)
        share = np.reshape(places - low, (-1, *(1,) * (rank_of(x) - axis - 1)))
        share = share.astype(dtype_of(x))
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


@row("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def _resize_linear(x: Any, size: Any, align: bool, scales: Any = None) -> Any:
    return _interpolate(x, size, align, scales)


@row("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _resize_linear_each(x: Any, size: Any, align: bool, *scales: Any) -> Any:
    return _interpolate(x, size, align, None if None in scales else scales)


# Normalisation


def _normalize(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    mean = np.mean(x, axis=axes, keepdims=True)
    scale = 1 / np.sqrt(np.var(x, axis=axes, keepdims=True) + eps)
    return (x - mean) * scale, mean, scale


def _rescale(y: Any, weight: Any, bias: Any) -> Any:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _along_channels(v: Any, rank: int) -> Any:
    return None if v is None else np.reshape(v, (1, -1, *(1,) * (rank - 2)))


@row("native_layer_norm")
def _layer_norm(
    x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Any:
    y, mean, scale = _normalize(x, tuple(range(-len(shape), 0)), eps)
    return [_rescale(y, weight, bias), mean, scale]


@row("native_group_norm")
def _group_norm(
    x: Any, weight: Any, bias: Any, n: int, c: int, entries: int, groups: int,
    eps: float,
) -> Any:  # fmt: skip
    y, mean, scale = _normalize(np.reshape(x, (n, groups, -1)), (-1,), eps)
    y = np.reshape(y, shape_of(x))
    weight, bias = (_along_channels(v, rank_of(x)) for v in (weight, bias))
    return [_rescale(y, weight, bias), mean[..., 0], scale[..., 0]]


def _batch_norm(
    x: Any, weight: Any, bias: Any, statistics: tuple[Any, Any] | None, eps: float
) -> tuple[Any, Any, Any]:
    """Return the output, the mean and the variance of each channel."""
    rank = rank_of(x)
    if statistics is None:
        axes = (0, *range(2, rank))
        statistics = np.mean(x, axis=axes), np.var(x, axis=axes)
    mean, var = statistics
    scale = _along_channels(1 / np.sqrt(var + eps), rank)
    y = (x - _along_channels(mean, rank)) * scale
    weight, bias = (_along_channels(v, rank) for v in (weight, bias))
    return _rescale(y, weight, bias), mean, var


@row("_native_batch_norm_legit_no_training")
def _batch_norm_fixed(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    return [_batch_norm(x, weight, bias, (mean, var), eps)[0], None, None]


@row("_native_batch_norm_legit", "native_batch_norm")
def _batch_norm_of(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    known = None if training else (mean, var)
    y, mean, var = _batch_norm(x, weight, bias, known, eps)
    return [y, mean, 1 / np.sqrt(var + eps)]


@row("_native_batch_norm_legit.no_stats")
def _batch_norm_alone(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm_of(x, weight, bias, None, None, training, momentum, eps)


@row("_native_batch_norm_legit_functional")
def _batch_norm_training(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Return the running statistics too, which have no derivative."""
    known = None if training else (running_mean, running_var)
    y, mean, var = _batch_norm(x, weight, bias, known, eps)
    saved = [y, mean, 1 / np.sqrt(var + eps)]
    if not training:
        return [*saved, running_mean, running_var]
    shape = shape_of(x)
    n = math.prod(shape) / shape[1]
    mean, var = stop_gradient(mean), stop_gradient(var) * (n / max(n - 1, 1))
    rest = 1 - momentum
    return [
        *saved,
        rest * running_mean + momentum * mean,
        rest * running_var + momentum * var,
    ]


# Embeddings, attention, dropout


@row("embedding")
def _embed(
    weight: Any, index: Any, padding: int = -1, by_frequency: bool = False, *_: Any
) -> Any:
    if by_frequency:
        return NotImplemented
    y = weight[index]
    if padding < 0:
        return y
    # That row's gradient is dropped, not its value.
    return np.where((index == padding)[..., None], stop_gradient(y), y)


@row("scaled_dot_product_attention")
def _attend(
    q: Any, k: Any, v: Any, mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p or enable_gqa:
        return NotImplemented
    scores = np.matmul(q, swap_last(k)) * (scale or 1 / math.sqrt(shape_of(q)[-1]))
    if is_causal:
        mask = np.tril(np.ones(shape_of(scores)[-2:], bool))
    if mask is not None and dtype_of(mask).kind == "b":
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None:
        scores = scores + mask
    return np.matmul(_softmax(scores, -1), v)


def draw_coins(x: Any, p: float) -> Any:
    """Return 0 and 1 like an array, drawn by PyTorch once for each trace."""
    import torch

    like = torch.from_numpy(np.empty(shape_of(x), dtype_of(x)))
    return torch.empty_like(like).bernoulli_(p).numpy()


@row("native_dropout")
def _drop(x: Any, p: float, train: bool | None = True) -> Any:
    if not train or p == 0:
        return [x, np.ones(shape_of(x), bool)]
    keep = draw_coins(x, 1 - p) != 0
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return [np.where(keep, x, 0) * scale, keep]


@row("dropout")
def _drop_alone(x: Any, p: float, train: bool) -> Any:
    return _drop(x, p, train)[0]


@row("bernoulli.p")
def _flip_coins(x: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    return draw_coins(x, p)


@row("lerp.Scalar", "lerp.Tensor")
def _mix(x: Any, y: Any, weight: Any) -> Any:
    if not is_number(weight):
        x, weight = promote(x, weight)
    return x + weight * (y - x)
