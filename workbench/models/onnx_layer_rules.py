"""What ONNX's layers of networks mean in NumPy: windows, norms, recurrences, samples.

Rows as in `onnx_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
import scipy.special

from workbench.control_flow.scan import scan
from workbench.core.tensor import value_of
from workbench.models.onnx_rules import (
    Array,
    Ints,
    Unsupported,
    check_count,
    rank_of,
    read_integers,
    row,
)
from workbench.ops.conv import conv, conv_transpose, max_pool, mean_pool
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


def _add_bias(y: Array, bias: Array) -> Array:
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
    return _add_bias(conv(x, w, groups=group, **at_.settings), bias)


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
    return _add_bias(y, bias)


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
    return np.sum(at_.view(np.abs(x) ** p, 0), -1) ** (1 / p)


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
    return np.sum(np.abs(x) ** p, _space(x), keepdims=True) ** (1 / p)


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


# Recurrences

_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x > 0, x, a * np.expm1(np.where(x > 0, 0, x))),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x > 0, x, a * x),
    "Relu": lambda x, a, b: np.where(x > 0, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, a, b: scipy.special.expit(x),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
}
_DEFAULTS = {
    "Affine": (1.0, 0.0), "Elu": (1.0, 0.0), "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, 0.0), "ScaledTanh": (1.0, 1.0), "ThresholdedRelu": (1.0, 0.0),
}  # fmt: skip

Cell = Callable[..., tuple[Any, Any]]


def _lstm(x: Array, h: Array, c: Array, p: Any, f: Sequence[Any], forget: bool) -> Any:
    """Return the next state and cell; ``p`` holds the bound of gates and peepholes."""
    gate, peek = p
    k = h.shape[-1]
    i, o, g, new = (x[:, j * k : (j + 1) * k] for j in range(4))
    i = f[0](gate(i + peek[0] * c if peek is not None else i))
    g = 1 - i if forget else f[0](gate(g + peek[2] * c if peek is not None else g))
    c = g * c + i * f[1](gate(new))
    o = f[0](gate(o + peek[1] * c if peek is not None else o))
    return o * f[2](c), c


def _run_recurrence(
    kind: str,
    x: Array,
    w: Array,
    r: Array,
    bias: Array,
    lengths: Any,
    start: Array,
    cell: Array,
    peepholes: Array,
    settings: dict[str, Any],
) -> list[Any]:
    hidden, layout = settings["hidden_size"], settings.get("layout", 0)
    if layout:
        x = np.swapaxes(x, 0, 1)
        start, cell = (s if s is None else np.swapaxes(s, 0, 1) for s in (start, cell))
    direction = settings.get("direction", "forward")
    ways = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}[direction]
    usual = {"LSTM": "Sigmoid Tanh Tanh", "GRU": "Sigmoid Tanh", "RNN": "Tanh"}[kind]
    names = settings.get("activations") or usual.split() * len(ways)
    slopes = list(settings.get("activation_alpha") or ())
    shifts = list(settings.get("activation_beta") or ())
    functions = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise Unsupported(f"with the activation {name}")
        a, b = _DEFAULTS.get(name, (0.0, 0.0))
        a = slopes.pop(0) if slopes and name in _DEFAULTS else a
        b = (
            shifts.pop(0)
            if shifts and name in ("Affine", "HardSigmoid", "ScaledTanh")
            else b
        )
        functions.append(lambda x, f=_ACTIVATIONS[name], a=a, b=b: f(x, a, b))
    per = len(functions) // len(ways)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    bound = settings.get("clip")
    rows, last, cells = [], [], []
    count = x.shape[0]
    ends = None if lengths is None else np.array(read_integers(lengths))
    for d, way in enumerate(ways):
        turned = x[::way]
        if ends is not None and way < 0:  # each from its own end
            steps = np.arange(count)[:, None]
            places = np.where(steps < ends, ends - 1 - steps, steps)
            turned = x[places, np.arange(len(ends))]
        zero = np.zeros_like(x, shape=(x.shape[1], hidden))
        first = zero if start is None else start[d]
        inner = zero if cell is None else cell[d]
        moved = None if bias is None else bias[d]
        peek = None if peepholes is None else np.reshape(peepholes[d], (3, hidden))
        step = _make_cell(
            kind, w[d].T, r[d].T, moved, peek, gates * hidden, bound,
            functions[d * per : (d + 1) * per],
            bool(settings.get("linear_before_reset", 0)),
            bool(settings.get("input_forget", 0)),
        )  # fmt: skip
        if ends is None:
            y, inside = scan(step, [turned], initial=[first, inner])
            shown = y
        else:
            live = (np.arange(count)[:, None] < ends)[..., None]

            def masked(x: Any, live: Any, h: Any, c: Any, step: Cell = step) -> Any:
                new, inside = step(x, h, c)
                return np.where(live, new, h), np.where(live, inside, c)

            y, inside = scan(masked, [turned, live], initial=[first, inner])
            shown = np.where(live, y, 0)
        if way < 0:
            shown = shown[::-1] if ends is None else shown[places, np.arange(len(ends))]
        rows.append(shown)
        last.append(y[-1])
        cells.append(inside[-1])
    ys, hs, cs = np.stack(rows, 1), np.stack(last), np.stack(cells)
    if layout:
        ys = np.transpose(ys, (2, 0, 1, 3))
        hs, cs = np.swapaxes(hs, 0, 1), np.swapaxes(cs, 0, 1)
    return [ys, hs, cs]


def _make_cell(
    kind: str,
    w: Array,
    r: Array,
    bias: Array,
    peek: Array,
    width: int,
    bound: float | None,
    f: Sequence[Any],
    reset_after: bool,
    forget: bool,
) -> Cell:
    """Return one step of a recurrence: of an input and two states."""

    def gate(x: Array) -> Array:
        return x if not bound else np.clip(x, -bound, bound)

    before: Any = 0.0 if bias is None else bias[:width]
    after: Any = 0.0 if bias is None else bias[width:]

    def lstm(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        return _lstm(x @ w + h @ r + before + after, h, c, (gate, peek), f, forget)

    def gru(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        k = h.shape[-1]
        a = x @ w + before
        both = h @ r[:, : 2 * k] + (after if bias is None else after[: 2 * k])
        update = f[0](gate(a[:, :k] + both[:, :k]))
        reset = f[0](gate(a[:, k : 2 * k] + both[:, k:]))
        rest = after if bias is None else after[2 * k :]
        if reset_after:
            inner = reset * (h @ r[:, 2 * k :] + rest)
        else:
            inner = (reset * h) @ r[:, 2 * k :] + rest
        new = f[1](gate(a[:, 2 * k :] + inner))
        return (1 - update) * new + update * h, c

    def rnn(x: Array, h: Array, c: Array) -> tuple[Any, Any]:
        return f[0](gate(x @ w + h @ r + before + after)), c

    return {"LSTM": lstm, "GRU": gru, "RNN": rnn}[kind]


@row("LSTM", "GRU", "RNN")
def _recur(
    x: Array,
    w: Array,
    r: Array,
    bias: Array = None,
    lengths: Any = None,
    start: Array = None,
    cell: Array = None,
    peepholes: Array = None,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
    *,
    step: Any,
) -> Any:
    settings = {**step.settings, "hidden_size": hidden_size or r.shape[-1]}
    made = _run_recurrence(
        step.op, x, w, r, bias, lengths, start, cell, peepholes, settings
    )
    return made[: 3 if step.op == "LSTM" else 2]


# Samples between entries


def _resize_matrix(
    length: int,
    count: int,
    scale: float,
    mode: str,
    places: Array,
    settings: dict[str, Any],
) -> Array:
    """Return the weights of the old entries for each of the new ones."""
    narrow = min(scale, 1.0) if settings["antialias"] else 1.0
    old = np.floor(places)
    if mode == "nearest":
        rounds = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": old,
            "ceil": np.ceil(places),
        }[settings["nearest_mode"]]
        near, weights = rounds[:, None], np.ones((count, 1))
    else:
        reach = (1 if mode == "linear" else 2) / narrow
        steps = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
        near = old[:, None] + steps
        far = np.abs(places[:, None] - near) * narrow
        if mode == "linear":
            weights = np.maximum(1 - far, 0)
        else:
            a = settings["cubic_coeff_a"]
            inner = ((a + 2) * far - (a + 3)) * far**2 + 1
            outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
            weights = np.where(far <= 1, inner, np.where(far < 2, outer, 0))
        if settings["exclude_outside"]:
            weights = np.where((near >= 0) & (near < length), weights, 0)
        if settings["exclude_outside"] or settings["antialias"]:
            weights = weights / np.sum(weights, 1, keepdims=True)
    matrix = np.zeros((count, length))
    columns = np.clip(near, 0, length - 1).astype(int)
    np.add.at(matrix, (np.arange(count)[:, None], columns), weights)
    return matrix


def _find_places(
    length: int,
    count: int,
    scale: float,
    mode: str,
    region: tuple[float, float],
) -> Array:
    """Return where the new entries lie among the old ones."""
    new = np.arange(count, dtype=float)
    wide = scale * length
    if mode == "align_corners":
        return np.zeros(count) if wide == 1 else new * (length - 1) / (wide - 1)
    if mode == "asymmetric":
        return new / scale
    if mode == "tf_crop_and_resize":
        low, high = region
        if wide == 1:
            return np.full(count, (low + high) * (length - 1) / 2)
        return low * (length - 1) + new * (high - low) * (length - 1) / (wide - 1)
    if mode == "pytorch_half_pixel" and wide == 1:
        return np.full(count, -0.5)
    places = (new + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        places = places + length / 2 * (1 - count / wide)
    elif mode not in ("half_pixel", "pytorch_half_pixel"):
        raise Unsupported(f"with coordinates {mode}")
    return places


@row("Resize")
def _resize(
    x: Array,
    roi: Any = None,
    scales: Any = None,
    sizes: Ints = None,
    antialias: int = 0,
    axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    *,
    step: Any,
) -> Array:
    if step.version < 11:  # the scales come second
        roi, scales = None, roi
        coordinate_transformation_mode = "asymmetric"
        nearest_mode = "floor"
    rank = rank_of(x)
    along = list(range(rank)) if axes is None else [n % rank for n in axes]
    lengths = [index(x.shape[i]) for i in along]
    if scales is not None and math.prod(scales.shape):
        factors = [float(s) for s in np.asarray(value_of(scales))]
        counts = [math.floor(n * s) for n, s in zip(lengths, factors, strict=True)]
    else:
        counts = list(read_integers(sizes))
        factors = [m / n for n, m in zip(lengths, counts, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            factors = [pick(factors)] * len(factors)
            counts = [math.floor(n * factors[0] + 0.5) for n in lengths]
    check_count(counts)
    region = (
        [0.0, 1.0] * len(along)
        if roi is None or not math.prod(roi.shape)
        else [float(r) for r in np.asarray(value_of(roi))]
    )
    half = len(along)
    ends = (
        [(0.0, 1.0)] * half
        if len(region) != 2 * half or roi is None
        else list(zip(region[:half], region[half:], strict=True))
    )
    settings = {
        "antialias": antialias, "cubic_coeff_a": cubic_coeff_a,
        "exclude_outside": exclude_outside, "nearest_mode": nearest_mode,
    }  # fmt: skip
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    y = x
    inside: Any = True
    for axis, n, m, s, end in zip(along, lengths, counts, factors, ends, strict=True):
        if s == 1 and n == m and not crops:
            continue
        places = _find_places(n, m, s, coordinate_transformation_mode, end)
        kind = {"linear": "linear", "cubic": "cubic"}.get(mode, "nearest")
        matrix = _resize_matrix(n, m, s, kind, places, settings).astype(x.dtype)
        y = np.moveaxis(np.tensordot(y, matrix, ((axis,), (1,))), -1, axis)
        within = (places >= 0) & (places <= n - 1)
        shape = [1] * rank
        shape[axis] = m
        inside = inside & np.reshape(within, shape)
    return np.where(inside, y, extrapolation_value).astype(x.dtype) if crops else y


@row("Upsample")
def _enlarge(x: Array, scales: Any, mode: str = "nearest", *, step: Any) -> Array:
    y = x
    for axis, s in enumerate(np.reshape(np.asarray(value_of(scales)), -1).tolist()):
        n = index(x.shape[axis])
        (m,) = check_count((math.floor(n * s),))
        settings = {"antialias": 0, "exclude_outside": 0, "nearest_mode": "floor"}
        kind = "nearest" if mode == "nearest" else "linear"
        places = _find_places(n, m, s, "asymmetric", (0.0, 1.0))
        matrix = _resize_matrix(n, m, s, kind, places, settings).astype(x.dtype)
        y = np.moveaxis(np.tensordot(y, matrix, ((axis,), (1,))), -1, axis)
    return y


def _reflect(x: Array, low: float, high: float) -> Array:
    """Return places mirrored at both ends until they lie between them."""
    span = high - low
    if span <= 0:
        return x * 0 + low
    far = np.abs(x - low) % (2 * span)
    return low + np.where(far > span, 2 * span - far, far)


def _take_points(
    x: Array, places: Sequence[Array], map_place: Callable[[Array, int], Any]
) -> Array:
    """Return the entries of ``x`` (N, C, \\*S) at whole places (N, P) along each axis.

    ``map_place`` maps the place along an axis to one that exists, and a mask or None.
    """
    shape = [index(n) for n in x.shape]
    flat: Any = 0
    inside: Any = None
    for axis, place in enumerate(places):
        mapped, mask = map_place(place, axis)
        flat = flat * shape[2 + axis] + mapped.astype(int)
        if mask is not None:
            inside = mask if inside is None else inside & mask
    lines = np.reshape(x, (shape[0], shape[1], -1))
    taken = lines[
        np.arange(shape[0])[:, None, None],
        np.arange(shape[1])[None, :, None],
        flat[:, None, :],
    ]
    return taken if inside is None else np.where(inside[:, None, :], taken, 0)


def _keep_inside(lengths: Sequence[int]) -> Callable[[Array, int], Any]:
    """Return a map of places that gives zero outside."""

    def map_place(place: Array, axis: int) -> Any:
        n = lengths[axis]
        return np.clip(place, 0, n - 1), (place >= 0) & (place <= n - 1)

    return map_place


def _interpolate(
    x: Array,
    places: Sequence[Array],
    map_place: Callable[[Array, int], Any],
    weigh: Callable[[Array], list[tuple[int, Array]]],
) -> Array:
    """Return weighted sums of the entries around places between them: (N, C, P)."""
    floors = [np.floor(p) for p in places]
    parts: list[tuple[list[Array], Any]] = [([], 1.0)]
    for place, floor in zip(places, floors, strict=True):
        weighed = weigh(place - floor)
        parts = [
            ([*at_, floor + step], weight * w)
            for at_, weight in parts
            for step, w in weighed
        ]
    total: Any = 0.0
    for at_, weight in parts:
        total = total + _take_points(x, at_, map_place) * weight[:, None, :]
    return total


def _weigh_linear(rest: Array) -> list[tuple[int, Array]]:
    return [(0, 1 - rest), (1, rest)]


def _weigh_cubic(rest: Array) -> list[tuple[int, Array]]:
    a = -0.75
    made = []
    for step in (-1, 0, 1, 2):
        far = rest + 1 if step == -1 else rest if step == 0 else step - rest
        if step in (0, 1):
            weight = ((a + 2) * far - (a + 3)) * far**2 + 1
        else:
            weight = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
        made.append((step, weight))
    return made


@row("GridSample")
def _sample_grid(
    x: Array,
    grid: Array,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Array:
    rank = rank_of(x) - 2
    lengths = [index(n) for n in x.shape[2:]]
    shape = (x.shape[0], x.shape[1], *grid.shape[1:-1])
    if 0 in shape:
        return np.zeros(shape, x.dtype)
    ends = [(0.0, n - 1.0) if align_corners else (-0.5, n - 0.5) for n in lengths]
    places = []
    for axis, n in enumerate(lengths):
        unit = np.reshape(grid[..., rank - 1 - axis], (grid.shape[0], -1))
        place = (unit + 1) / 2 * (n - 1) if align_corners else ((unit + 1) * n - 1) / 2
        if mode == "nearest":
            place = np.round(place)
        low, high = ends[axis]
        outside = (place < low) | (place > high)
        if padding_mode == "border":
            place = np.where(outside, np.clip(place, 0, n - 1), place)
        elif padding_mode == "reflection":
            place = np.where(outside, _reflect(place, low, high), place)
        places.append(place)

    def map_place(place: Array, axis: int) -> Any:
        n = lengths[axis]
        if padding_mode == "zeros":
            return _keep_inside(lengths)(place, axis)
        if padding_mode == "reflection":
            place = _reflect(place, *ends[axis])
        return np.clip(place, 0, n - 1), None

    if mode == "nearest":
        y = _take_points(x, places, map_place)
    else:
        weigh = _weigh_cubic if mode in ("cubic", "bicubic") else _weigh_linear
        y = _interpolate(x, places, map_place, weigh)
    return np.reshape(y, shape).astype(x.dtype)


@row("RoiAlign")
def _pool_regions(
    x: Array,
    rois: Array,
    batch: Ints,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    *,
    step: Any,
) -> Array:
    if mode != "avg":
        raise Unsupported(f"with mode {mode}")
    if step.version < 16:
        coordinate_transformation_mode = "output_half_pixel"
    half = coordinate_transformation_mode == "half_pixel"
    lengths = [index(n) for n in x.shape[2:]]
    counts = (output_height, output_width)
    check_count((rois.shape[0], x.shape[1], *counts))
    parts = []
    for k, image in enumerate(read_integers(batch)):
        y = x[image]
        for axis, (n, count) in enumerate(zip(lengths, counts, strict=True)):
            low = rois[k, 1 - axis] * spatial_scale - 0.5 * half
            high = rois[k, 3 - axis] * spatial_scale - 0.5 * half
            size = high - low if half else np.maximum(high - low, 1.0)
            each = sampling_ratio or math.ceil(float(value_of(size)) / count)
            each = max(each, 1)
            cells = (np.arange(count * each) + 0.5) / each
            places = low + cells.astype(x.dtype) * (size / count)
            inside = (places >= -1) & (places <= n)
            near = np.clip(places, 0, n - 1)[:, None] - np.arange(n, dtype=x.dtype)
            weights = np.maximum(1 - np.abs(near), 0) * inside[:, None]
            means = np.mean(np.reshape(weights, (count, each, n)), 1)
            y = np.moveaxis(np.tensordot(y, means, ((1 + axis,), (1,))), -1, 1 + axis)
        parts.append(y)
    return np.stack(parts)


@row("DeformConv")
def _convolve_deformed(
    x: Array,
    w: Array,
    offset: Array,
    bias: Array = None,
    mask: Array = None,
    dilations: Any = None,
    group: int = 1,
    kernel_shape: Any = None,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
) -> Array:
    at_ = Windows(x, w.shape[2:], strides, pads, dilations)
    lengths, entries = [index(n) for n in x.shape[2:]], math.prod(at_.size)
    rank, examples = len(lengths), x.shape[0]
    space = offset.shape[2:]
    moves = np.reshape(offset, (examples * offset_group, entries, rank, -1))
    kernel = np.stack(np.meshgrid(*map(np.arange, at_.size), indexing="ij"))
    window = np.stack(np.meshgrid(*map(np.arange, space), indexing="ij"))
    places = []
    for axis in range(rank):
        base = window[axis].reshape(1, -1) * at_.strides[axis] - at_.pairs[axis][0]
        base = base + kernel[axis].reshape(-1, 1) * at_.dilations[axis]
        place = moves[:, :, axis] + base.astype(x.dtype)
        places.append(np.reshape(place, (examples * offset_group, -1)))
    parts = np.reshape(x, (examples * offset_group, -1, *lengths))
    taken = _interpolate(parts, places, _keep_inside(lengths), _weigh_linear)
    taken = np.reshape(taken, (examples, offset_group, -1, entries, math.prod(space)))
    if mask is not None:
        taken = taken * np.reshape(mask, (examples, offset_group, 1, entries, -1))
    taken = np.reshape(taken, (examples, group, -1, math.prod(space)))
    filters = np.reshape(w, (group, w.shape[0] // group, -1))
    y = np.einsum("ngkp,gok->ngop", taken, filters)
    return _add_bias(np.reshape(y, (examples, w.shape[0], *space)), bias)
