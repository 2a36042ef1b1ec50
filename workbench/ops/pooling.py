"""Pooling: the largest entry, or the mean, of each window of channels in space.

A maximum finds the places of its entries, and sends cotangents back to them; a mean is
a convolution with ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.op import Op, Reading
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, Params, Spec, as_spec
from workbench.errors import DtypeError, ShapeError
from workbench.ops.conv import (
    MOST_TAPS,
    apply_conv,
    check_windows,
    read_padding,
    read_setting,
    view_windows,
)
from workbench.ops.define import (
    composite,
    dtype_of,
    list_positions,
    op,
    shape_of,
    unfold_by,
)
from workbench.ops.taps import Numbers, Pads, count_windows, pad_space, slice_taps


def _view_padded(x: Any, params: Params, fill: float) -> Any:
    """Return the windows of ``x``, each of them as one axis in the end."""
    size, stride, dilation = (params[n] for n in ("size", "stride", "dilation"))
    padded = pad_space(x, params["padding"], fill)
    windows = view_windows(padded, size, stride, dilation)
    return np.reshape(windows, (*shape_of(windows)[: 2 + len(size)], math.prod(size)))


def _find_largest(x: Any, **params: Any) -> Any:
    if math.prod(params["size"]) > MOST_TAPS or 0 in shape_of(x):
        return np.max(_view_padded(x, params, -np.inf), -1)
    taps = slice_taps(x, fill=-np.inf, **params)
    return taps.cut(reduce(np.maximum, taps.slices))


def _locate_largest(x: Any, **params: Any) -> Any:
    """Return where in the axes of space the largest entry of each window is.

    It is a number that counts all entries of a channel. Of equal ones it is the first,
    which has the slope; np.max would share it.
    """
    size, rank = params["size"], len(params["size"])
    space = shape_of(x)[2:]
    steps = [math.prod(space[axis + 1 :]) for axis in range(rank)]
    # How far the entries of a window are from its first one.
    moved = [
        sum(map(math.prod, zip(tap, params["dilation"], steps, strict=True)))
        for tap in np.ndindex(*size)
    ]
    if math.prod(size) > MOST_TAPS or 0 in shape_of(x):
        windows = _view_padded(x, params, -np.inf)
        entry = np.argmax(windows, -1)
        far = np.take(np.asarray(moved, like=entry), entry)
        largest = np.max(windows, -1)
    else:
        taps = slice_taps(x, fill=-np.inf, **params)
        largest = reduce(np.maximum, taps.slices)
        # As wide as the entries, which kernels like.
        kind = np.int32 if dtype_of(x).itemsize <= 4 else np.int64
        far = np.zeros_like(largest, dtype=kind)
        for part, distance in list(zip(taps.slices, moved, strict=True))[::-1]:
            # A NaN is larger than all others.
            is_it = (part == largest) | (part != part)
            far = np.where(is_it, kind(distance), far)
        far, largest = taps.cut(far).astype(np.intp), taps.cut(largest)
    first: Any = 0
    inside: Any = 0
    lengths = shape_of(far)[2:]
    for axis, (n, step, gap, (low, _)) in enumerate(
        zip(
            lengths, params["stride"], params["dilation"], params["padding"],
            strict=True,
        )
    ):  # fmt: skip
        start = list_positions(n, like=far) * step - low
        shape = (n, *(1,) * (rank - 1 - axis))
        first = first + np.reshape(start * steps[axis], shape)
        # Where a window begins in the padding, its first entry behind that.
        start = np.where(start < 0, start % gap, start)
        inside = inside + np.reshape(start * steps[axis], shape)
    if not any(low > 0 for low, _ in params["padding"]):
        return far + first
    # What was added is as large as an entry of -inf, but has no place.
    return np.where(largest == -np.inf, inside, far + first)


def _infer_pool(
    x: Any, *, size: Numbers, stride: Numbers, padding: Pads, dilation: Numbers,
    dtype: np.dtype[Any] | None = None,
) -> Spec:  # fmt: skip
    spec = as_spec(x)
    lengths = count_windows(spec.shape[2:], size, stride, padding, dilation)
    return Spec((*spec.shape[:2], *lengths), dtype or spec.dtype)


def _batch_pool(pool: Op, x: Any, params: Params) -> Any:
    """Let a batch be more examples."""
    size, front, *rest = shape_of(x)
    y = apply(pool, (np.reshape(x, (size * front, *rest)),), params)
    return np.reshape(y, (size, front, *shape_of(y)[1:]))


def _flatten_space(x: Any) -> Any:
    front, channels, *space = shape_of(x)
    return np.reshape(x, (front, channels, math.prod(space)))


def _take_places(x: Any, place: Any) -> Any:
    """Return the entries of ``x`` that stand at these places of the axes of space."""
    taken = np.take_along_axis(_flatten_space(x), _flatten_space(place), -1)
    return np.reshape(taken, shape_of(place))


def _average(
    x: Any,
    *,
    size: Numbers,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    counts_padding: bool,
) -> Any:
    """Convolve each channel with ones, and divide by how many entries there are."""
    front, channels, *space = shape_of(x)
    ones = np.ones_like(x, shape=(1, 1, *size))
    setting = stride, padding, dilation, (1,) * len(size), 1
    sums = apply_conv(np.reshape(x, (front * channels, 1, *space)), ones, *setting)
    counts: Any = math.prod(size)
    if not counts_padding and _adds(padding):
        counts = apply_conv(np.ones_like(x, shape=(1, 1, *space)), ones, *setting)
    return np.reshape(sums / counts, (front, channels, *shape_of(sums)[2:]))


def _adds(padding: Pads) -> bool:
    """Return whether something is added, not only cut."""
    return any(low > 0 or high > 0 for low, high in padding)


#: How pooling is written out.
_POOL = '''\
def pool(x, reduce, fill, size, stride, padding, dilation):
    """The entries of each window, reduced."""
    space = tuple(range(2, x.ndim))
    pairs = list(zip(x.shape[2:], padding))
    x = x[(..., *(slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in pairs))]
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)]
    x = np.pad(x, widths, constant_values=x.dtype.type(fill))
    full = [(n - 1) * d + 1 for n, d in zip(size, dilation)]
    windows = np.lib.stride_tricks.sliding_window_view(x, full, space)
    windows = windows[(..., *(slice(None, None, s) for s in (*stride, *dilation)))]
    return reduce(windows, axis=tuple(range(x.ndim, windows.ndim)))
'''


_LOCATE = '''\
def locate_largest(x, size, stride, padding, dilation):
    """The place of the largest entry of each window, counted in its channel."""
    pairs = list(zip(x.shape[2:], padding))
    cut = (..., *(slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in pairs))
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)]
    full = [(n - 1) * d + 1 for n, d in zip(size, dilation)]
    steps = (..., *(slice(None, None, s) for s in (*stride, *dilation)))
    places = np.arange(np.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    found = []
    for values, fill in ((x, x.dtype.type(-np.inf)), (places, -1)):
        values = np.pad(values[cut], widths, constant_values=fill)
        space = tuple(range(2, x.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(values, full, space)[steps]
        found.append(windows.reshape(*windows.shape[: x.ndim], -1))
    values, places = np.broadcast_arrays(*found)
    largest = (values == np.max(values, -1, keepdims=True)) | np.isnan(values)
    best = np.argmax(largest & (places >= 0), -1)[..., None]
    return np.take_along_axis(places, best, -1)[..., 0]
'''


def _spell_mean(node: Tensor) -> str:
    settings = "{size}, {stride}, {padding}, {dilation}"
    if node.params["counts_padding"] or not _adds(node.params["padding"]):
        return f"pool({{0}}, np.mean, 0.0, {settings})"
    count = f"pool(np.ones_like({{0}}[:1, :1]), np.sum, 0.0, {settings})"
    return f"np.divide(pool({{0}}, np.sum, 0.0, {settings}), {count})"


LARGEST: Op = op(
    "locate_largest",
    _locate_largest,
    infer=partial(_infer_pool, dtype=np.dtype(np.intp)),
    batch=lambda inputs, batched, params: _batch_pool(LARGEST, inputs[0], params),
    unfold=_locate_largest,
    template="locate_largest({0}, {size}, {stride}, {padding}, {dilation})",
    helper=_LOCATE,
    flat="position",
    picks=">",
)


MAX_POOL: Op = composite(
    "max_pool",
    lambda x, **params: _take_places(x, apply(LARGEST, (x,), params)),
    compute=_find_largest,
    infer=_infer_pool,
    batch=lambda inputs, batched, params: _batch_pool(MAX_POOL, inputs[0], params),
    template="pool({0}, np.max, -np.inf, {size}, {stride}, {padding}, {dilation})",
    helper=_POOL,
    rule="g at the largest of each window",
    pattern=Reading(lambda x, **params: np.max(_view_padded(x, params, -np.inf), -1)),
)


# Kernels need no places for the value alone.
MAX_POOL.unfold = unfold_by(_find_largest)


MEAN_POOL = composite(
    "mean_pool",
    _average,
    template=_spell_mean,
    helper=_POOL,
    rule="g shared in each window",
)


def max_pool(
    x: Array,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
) -> Array:
    """Return the largest entry of each window.

    Of entries that are equally large the first has the cotangent, as in PyTorch and
    JAX; in `numpy.max` they share it.

    Parameters
    ----------
    x
        Shape ``(N, C, *S)``, of floats.
    size
        The lengths of a window; one for all axes of space or one for each.
    stride
        The distance of windows; by default they lie side by side.
    padding, dilation
        As for `conv`; what is added is never the largest.

    Returns
    -------
    Shape ``(N, C, *T)``, with the lengths of `conv`.

    Raises
    ------
    ShapeError
        If a window is larger than the padded array, or lies in the padding alone.
    DtypeError
        If ``x`` is not of floats.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = np.array([[[1.0, 3.0, 2.0, 5.0, 4.0]]])
    >>> wb.max_pool(x, 2), wb.max_pool(x, 3, stride=1)
    (array([[[3., 5.]]]), array([[[3., 5., 5.]]]))
    """
    x = admit(x)
    params = _read_pool("max_pool", x, size, stride, padding, dilation)
    return apply(MAX_POOL, (x,), params)


def mean_pool(
    x: Array,
    size: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    counts_padding: bool = False,
) -> Array:
    """Return the mean of each window.

    Parameters
    ----------
    x, size, stride, padding, dilation
        As for `max_pool`.
    counts_padding
        Whether the zeros of the padding count as entries of the window.

    Returns
    -------
    Shape ``(N, C, *T)``, with the lengths of `conv`.

    Raises
    ------
    ShapeError, DtypeError
        As for `max_pool`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x = np.array([[[2.0, 4.0, 6.0, 8.0]]])
    >>> wb.mean_pool(x, 2), wb.mean_pool(x, 2, padding=1)
    (array([[[3., 7.]]]), array([[[2., 5., 8.]]]))
    """
    x = admit(x)
    params = _read_pool("mean_pool", x, size, stride, padding, dilation)
    params["counts_padding"] = bool(counts_padding)
    return apply(MEAN_POOL, (x,), params)


def _all_hold_entries(
    n: Any, size: int, step: int, gap: int, pair: tuple[int, int]
) -> bool:
    """Return whether each window holds an entry; of an unknown length, if it can be."""
    low, high = pair
    if not isinstance(n, int):
        return max(pair) <= (size - 1) * gap
    count = (n + low + high - (size - 1) * gap - 1) // step + 1
    windows = step * np.arange(count)[:, None] - low  # host array: of places
    places = windows + gap * np.arange(size)  # host array: of places
    return bool(np.all(np.any((places >= 0) & (places < n), 1)))


def _read_pool(
    name: str, x: Array, size: Any, stride: Any, padding: Any, dilation: Any
) -> dict[str, Any]:
    shape = shape_of(x)
    if len(shape) < 3:
        raise ShapeError(
            f"{name}{blame.user_line()}: x has shape {shape}, and needs (examples,"
            " channels, *space); for one example write x[None]."
        )
    if dtype_of(x).kind != "f":
        raise DtypeError(
            f"{name}{blame.user_line()}: x is of dtype {dtype_of(x)}, and pooling takes"
            " floats. Write x.astype(float)."
        )
    rank = len(shape) - 2
    lengths = read_setting(name, "size", size, rank)
    steps = lengths if stride is None else read_setting(name, "stride", stride, rank)
    gaps = read_setting(name, "dilation", dilation, rank)
    pads = read_padding(name, padding, lengths, gaps)
    check_windows(name, shape[2:], lengths, pads, gaps)
    for n, k, step, gap, pair in zip(
        shape[2:], lengths, steps, gaps, pads, strict=True
    ):
        if not _all_hold_entries(n, k, step, gap, pair):
            raise ShapeError(
                f"{name}{blame.user_line()}: with padding {pair} some windows of {k} on"
                f" an axis of {n} would hold no entry. Pad by less than a window."
            )
    return {"size": lengths, "stride": steps, "padding": pads, "dilation": gaps}
