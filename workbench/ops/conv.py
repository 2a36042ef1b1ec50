"""Convolution and pooling as networks have them: channels, strides, groups.

Any number of axes, unlike SciPy's one channel: examples come first, then channels, then
the axes of space. Each op is a body of windows, a product and sums, so that both modes
of every order, batches, kernels and patterns follow, and it stays one node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.op import Op, Reading
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, Batched, Params, Shape, Spec, as_spec
from workbench.errors import DtypeError, ShapeError, UnknownLengthError
from workbench.ops.contraction import product_dtype
from workbench.ops.define import (
    composite,
    dtype_of,
    list_positions,
    multilinear,
    op,
    shape_of,
    unfold_by,
)
from workbench.ops.einsum import declare_masked
from workbench.ops.elementwise import mul0
from workbench.ops.taps import (
    Numbers,
    Pads,
    Residue,
    Taps,
    count_windows,
    merge_residues,
    pad_space,
    slice_taps,
    spread_space,
)

# The bodies

#: A window of more entries, and so many windows, are copied out, not taken by taps.
MOST_TAPS = 128
#: A product of matrices that sums over fewer channels has those of all taps at once.
FEW_CHANNELS = 16
#: A group of at most so many filters of one channel is no product of matrices.
FEW_FILTERS = 4


def _view_windows(x: Any, size: Numbers, stride: Numbers, dilation: Numbers) -> Any:
    """Return the windows of each axis of space, with an axis in the end for each."""
    for i, (n, step, gap) in enumerate(zip(size, stride, dilation, strict=True), 2):
        x = np.lib.stride_tricks.sliding_window_view(x, (n - 1) * gap + 1, i)
        if gap > 1:
            x = x[..., ::gap]
        if step > 1:
            x = x[(slice(None),) * i + (slice(None, None, step),)]
    return x


def _convolve_windows(
    x: Any,
    w: Any,
    *,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    spacing: Numbers,
    groups: int,
) -> Any:
    """Multiply the windows of each group: a pattern sees that groups do not meet."""
    channels, outputs = shape_of(w)[1], shape_of(w)[0] // groups
    rank = len(stride)
    x = pad_space(spread_space(x, spacing), padding)
    x = _view_windows(x, shape_of(w)[2:], stride, dilation)
    window = tuple(range(2 + rank, 2 + 2 * rank))
    summed = ((1, *window), (1, *range(2, 2 + rank)))
    parts = [
        np.tensordot(
            x[:, k * channels : (k + 1) * channels],
            w[k * outputs : (k + 1) * outputs],
            summed,
        )
        for k in range(groups)
    ]
    y = parts[0] if groups == 1 else np.concatenate(parts, -1)
    return np.moveaxis(y, -1, 1)


def _convolve(
    x: Any,
    w: Any,
    *,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    spacing: Numbers,
    groups: int,
) -> Any:
    """Multiply the taps of ``x`` with ``w``, whichever of both has fewer."""
    settings: dict[str, Any] = {"dilation": dilation, "groups": groups}
    space, size = shape_of(x)[2:], shape_of(w)[2:]
    if 0 in (*shape_of(x), *shape_of(w)):
        return _convolve_windows(
            x, w, stride=stride, padding=padding, spacing=spacing, **settings
        )
    if max(spacing) > 1:
        meets = any(s > 1 < gap for s, gap in zip(stride, spacing, strict=True))
        if meets or math.prod(spacing) > MOST_TAPS:
            ones = (1,) * len(size)
            x = spread_space(x, spacing)
            return _convolve(
                x, w, stride=stride, padding=padding, spacing=ones, **settings
            )
        return _convolve_spread(x, w, stride, padding, dilation, spacing, groups)
    lengths = count_windows(space, size, stride, padding, dilation)
    if min(math.prod(lengths), math.prod(size)) > MOST_TAPS:
        return _convolve_windows(
            x, w, stride=stride, padding=padding, spacing=spacing, **settings
        )
    if math.prod(lengths) < math.prod(size):
        return _convolve_by_windows(x, w, stride, padding, dilation, groups, lengths)
    return _convolve_by_taps(x, w, stride, padding, dilation, groups)


def _convolve_spread(
    x: Any,
    w: Any,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    spacing: Numbers,
    groups: int,
) -> Any:
    """Convolve an array with zeros between its entries, without them."""

    def compute(residue: Residue) -> Any:
        if residue.taps is None:
            return None
        return _convolve(
            x, w[(slice(None), slice(None), *residue.taps)], stride=stride,
            padding=residue.padding, dilation=residue.dilation,
            spacing=(1,) * len(stride), groups=groups,
        )  # fmt: skip

    space, size = shape_of(x)[2:], shape_of(w)[2:]
    return merge_residues(compute, space, size, stride, padding, dilation, spacing)


def _convolve_by_taps(
    x: Any, w: Any, stride: Numbers, padding: Pads, dilation: Numbers, groups: int
) -> Any:
    """Add up what each entry of the filters gives in all windows."""
    front, size = shape_of(x)[0], shape_of(w)[2:]
    outputs, channels = shape_of(w)[0] // groups, shape_of(w)[1]
    taps = slice_taps(x, size, stride, padding, dilation)
    count = len(taps.places)
    # Filters as rows, in which the channels of a tap lie side by side.
    rows = np.reshape(
        np.moveaxis(np.reshape(w, (groups, outputs, channels, *size)), 2, -1),
        (groups, outputs, count * channels),
    )
    if outputs < FEW_CHANNELS <= channels and len(taps.parts) == 1:
        y = _multiply_before_shifting(taps, rows, channels)
        return taps.cut(np.reshape(y, (front, groups * outputs, -1)))
    slices = [np.reshape(part, (front, groups, channels, -1)) for part in taps.slices]
    if channels == 1 and outputs <= FEW_FILTERS:
        y = _add_up(rows[..., k : k + 1] * part for k, part in enumerate(slices))
    elif channels < FEW_CHANNELS:
        y = rows @ np.concatenate(slices, 2)
    else:
        y = _add_up(
            rows[..., k * channels : (k + 1) * channels] @ part
            for k, part in enumerate(slices)
        )
    return taps.cut(np.reshape(y, (front, groups * outputs, -1)))


def _multiply_before_shifting(taps: Taps, rows: Any, channels: int) -> Any:
    """Multiply all with the filters of all taps at once, and add up slices of that.

    The matrix is too narrow otherwise, where there are few filters of many channels.
    """
    groups, outputs = shape_of(rows)[:2]
    (x,) = taps.parts.values()
    front, _, whole = shape_of(x)
    count, length = len(taps.places), math.prod(taps.rows)
    filters = np.reshape(rows, (groups, outputs * count, channels))
    x = np.reshape(x, (front, groups, channels, whole))
    made = np.reshape(filters @ x, (front, groups, outputs, count, whole))
    return _add_up(
        made[..., k, start : start + length] for k, (_, start) in enumerate(taps.places)
    )


def _add_up(terms: Iterable[Any]) -> Any:
    return reduce(operator.add, terms)


def _convolve_by_windows(
    x: Any,
    w: Any,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    groups: int,
    lengths: Numbers,
) -> Any:
    """Multiply each window with all filters, where there are few windows.

    Each entry of ``w`` meets its slice of ``x`` in all windows: both change places.
    """
    front, size = shape_of(x)[0], shape_of(w)[2:]
    outputs, channels = shape_of(w)[0] // groups, shape_of(w)[1]
    taps = slice_taps(x, lengths, dilation, padding, stride)
    longer = [(0, n - m) for n, m in zip(taps.rows, size, strict=True)]
    filters = np.reshape(pad_space(w, tuple(longer)), (groups, outputs, channels, -1))
    filters = np.transpose(filters, (2, 0, 3, 1))
    products = []
    for part in taps.slices:
        part = np.reshape(part, (front, groups, channels, -1))
        products.append(np.sum(np.transpose(part, (2, 1, 0, 3)) @ filters, 0))
    y = np.transpose(np.stack(products), (2, 1, 3, 0))
    return np.reshape(y, (front, groups * outputs, *lengths))


def _convolve_entries(
    x: Any, w: Any, *, stride: Numbers, padding: Pads, dilation: Numbers,
    spacing: Numbers, groups: int,
) -> Any:  # fmt: skip
    """Convolve with products that are 0 wherever one factor is 0."""
    rank, size = len(stride), shape_of(w)[2:]
    x = pad_space(spread_space(x, spacing), padding)
    windows = _view_windows(x, size, stride, dilation)
    front, channels, *rest = shape_of(windows)
    own, outputs = channels // groups, shape_of(w)[0] // groups
    windows = np.reshape(windows, (front, groups, 1, own, *rest))
    filters = np.reshape(w, (groups, outputs, own, *(1,) * rank, *size))
    products = mul0(windows, filters)
    y = np.sum(products, axis=(3, *range(4 + rank, 4 + 2 * rank)))
    return np.reshape(y, (front, groups * outputs, *rest[:rank]))


def _turn_filters(w: Any, groups: int) -> Any:
    """Return filters turned round, with the channels of a group as its outputs."""
    outputs, channels, *size = shape_of(w)
    turned = np.flip(w, tuple(range(2, 2 + len(size))))
    parts = np.reshape(turned, (groups, outputs // groups, channels, *size))
    return np.reshape(
        np.swapaxes(parts, 1, 2), (groups * channels, outputs // groups, *size)
    )


def _infer(
    x: Any, w: Any, *, stride: Numbers, padding: Pads, dilation: Numbers,
    spacing: Numbers, groups: int,
) -> Spec:  # fmt: skip
    x, w = as_spec(x), as_spec(w)
    space = zip(x.shape[2:], spacing, strict=True)
    spread = tuple([(n - 1) * gap + 1 for n, gap in space])
    lengths = count_windows(spread, w.shape[2:], stride, padding, dilation)
    return Spec((x.shape[0], w.shape[0], *lengths), product_dtype(x, w))


def _pull_operand(
    g: Any, x: Any, w: Any, *, stride: Numbers, padding: Pads, dilation: Numbers,
    spacing: Numbers, groups: int,
) -> Any:  # fmt: skip
    """Return the cotangent of ``x``: ``g``, spread, with the filters turned round."""
    pads = []
    for n, m, k, step, (low, _), gap, apart in zip(
        shape_of(x)[2:], shape_of(g)[2:], shape_of(w)[2:], stride, padding, dilation,
        spacing, strict=True,
    ):  # fmt: skip
        pads.append(((k - 1) * gap - low, (n - 1) * apart - (m - 1) * step + low))
    filters = _turn_filters(w, groups)
    return apply_conv(g, filters, spacing, tuple(pads), dilation, stride, groups)


def _pull_filters(
    g: Any, x: Any, w: Any, *, stride: Numbers, padding: Pads, dilation: Numbers,
    spacing: Numbers, groups: int,
) -> Any:  # fmt: skip
    """Return the cotangent of ``w``: the windows of ``x`` with ``g`` as filters."""
    pads = []
    for n, m, k, step, (low, _), gap, apart in zip(
        shape_of(x)[2:], shape_of(g)[2:], shape_of(w)[2:], stride, padding, dilation,
        spacing, strict=True,
    ):  # fmt: skip
        high = (k - 1) * gap + (m - 1) * step - (n - 1) * apart - low
        pads.append((low, high))
    front, channels, *space = shape_of(x)
    own = channels // groups
    # Examples are summed over, as channels are; the channels stand for examples.
    x = np.reshape(x, (front, groups, own, *space))
    x = np.transpose(x, (2, 1, 0, *range(3, 3 + len(space))))
    x = np.reshape(x, (own, groups * front, *space))
    g = np.swapaxes(g, 0, 1)
    y = apply_conv(x, g, dilation, tuple(pads), stride, spacing, groups)
    return np.swapaxes(y, 0, 1)


def _batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    """Let a batch be more examples, or more filters, or more groups of both."""
    x, w = inputs
    groups = params["groups"]
    if not batched[1]:
        size, front, *rest = shape_of(x)
        y = apply(CONV, (np.reshape(x, (size * front, *rest)), w), params)
        return np.reshape(y, (size, front, *shape_of(y)[1:]))
    size, outputs, *rest = shape_of(w)
    own = outputs // groups
    if batched[0]:
        _, front, channels, *before = shape_of(x)
        x = np.reshape(np.swapaxes(x, 0, 1), (front, size * channels, *before))
        w = np.reshape(w, (size * outputs, *rest))
        y = apply(CONV, (x, w), {**params, "groups": size * groups})
    else:
        # The filters of a group stay side by side.
        front = shape_of(x)[0]
        w = np.swapaxes(np.reshape(w, (size, groups, own, *rest)), 0, 1)
        w = np.reshape(w, (groups * size * own, *rest))
        y = apply(CONV, (x, w), params)
        y = np.reshape(y, (front, groups, size, own, *shape_of(y)[2:]))
        y = np.swapaxes(y, 1, 2)
    space = shape_of(y)[len(shape_of(y)) - len(rest) + 1 :]
    return np.swapaxes(np.reshape(y, (front, size, outputs, *space)), 0, 1)


def _view_padded(x: Any, params: Params, fill: float) -> Any:
    """Return the windows of ``x``, each of them as one axis in the end."""
    size, stride, dilation = (params[n] for n in ("size", "stride", "dilation"))
    padded = pad_space(x, params["padding"], fill)
    windows = _view_windows(padded, size, stride, dilation)
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


_CONV0 = '''\
def conv0(x, w, stride, padding, dilation, spacing, groups):
    """A convolution whose every product is 0 where a factor is 0."""
    size, rank = w.shape[2:], w.ndim - 2
    spread = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], spacing)]
    apart = np.zeros((*x.shape[:2], *spread), np.result_type(x, w))
    apart[(..., *(slice(None, None, s) for s in spacing))] = x
    cut = [slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(spread, padding)]
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)]
    apart = np.pad(apart[(..., *cut)], widths)
    full = [(n - 1) * d + 1 for n, d in zip(size, dilation)]
    space = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(apart, full, space)
    windows = windows[(..., *(slice(None, None, s) for s in (*stride, *dilation)))]
    axes, products = (2, *range(3 + rank, 3 + 2 * rank)), []
    with np.errstate(all="ignore"):
        for a, b in zip(np.split(windows, groups, 1), np.split(w, groups)):
            a = a[:, None]
            b = np.expand_dims(b, tuple(range(2, 2 + rank)))
            entries = np.where((a == 0) | (b == 0), 0, a * b)
            products.append(np.sum(entries, axes))
    return np.concatenate(products, 1)
'''
CONV = multilinear(
    "conv",
    _convolve,
    _pull_operand,
    _pull_filters,
    batch=_batch,
    infer=_infer,
    unfold=_convolve,
    template="conv({0}, {1}, {stride}, {padding}, {dilation}, {spacing}, {groups})",
    helper='''\
def conv(x, w, stride, padding, dilation, spacing, groups):
    """The products of windows of x, of examples and channels, with each row of w."""
    size, rank = w.shape[2:], w.ndim - 2
    spread = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], spacing)]
    apart = np.zeros((*x.shape[:2], *spread), np.result_type(x, w))
    apart[(..., *(slice(None, None, s) for s in spacing))] = x
    cut = [slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(spread, padding)]
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)]
    apart = np.pad(apart[(..., *cut)], widths)
    full = [(n - 1) * d + 1 for n, d in zip(size, dilation)]
    space = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(apart, full, space)
    windows = windows[(..., *(slice(None, None, s) for s in (*stride, *dilation)))]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups))
    axes = (1, *range(2 + rank, 2 + 2 * rank)), (1, *space)
    products = [np.tensordot(a, b, axes) for a, b in parts]
    return np.moveaxis(np.concatenate(products, -1), -1, 1)
''',
    rule="g with w turned round   windows of x with g",
    pattern=Reading(_convolve_windows, is_same=True),
    contracts=True,
    sums=True,
)  # fmt: skip
_MASKED = declare_masked(CONV, _convolve_entries)
_MASKED.template = str(CONV.template).replace("conv(", "conv0(", 1)
_MASKED.helper = _CONV0
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


# What users call


def conv(
    x: Array,
    w: Array,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return the convolution of a network: windows of ``x`` times each filter of ``w``.

    ``y[n, o, i] = sum over c, k of x[n, c, i * stride + k * dilation] * w[o, c, k]``
    along each axis of space; as in all networks the filter is not turned round, unlike
    in `numpy.convolve`.

    Parameters
    ----------
    x
        Shape ``(N, C, *S)``: examples, channels, any number of axes of space.
    w
        Shape ``(O, C // groups, *K)``: a filter for each channel of the result.
    stride, dilation
        The distance of windows, and of entries inside a window; one for all axes of
        space or one for each.
    padding
        How many zeros are added at both ends of each axis of space: a number, one for
        each axis, or a pair ``(before, after)`` for each; negative ones cut.
        ``"same"``: so many that a stride of 1 keeps the lengths; ``"valid"``: none.
    groups
        The channels are cut into so many groups, each with filters of its own.

    Returns
    -------
    Shape ``(N, O, *T)``, of the common dtype, where ``T`` is
    ``(S + before + after - (K - 1) * dilation - 1) // stride + 1``.

    Raises
    ------
    ShapeError
        If the shapes do not fit, or a window is larger than the padded array.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, w = np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 0.0, -1.0]]])
    >>> wb.conv(x, w)
    array([[[-2., -2., -2.]]])
    >>> wb.conv(np.ones((2, 4, 8, 8)), np.ones((6, 2, 3, 3)), padding="same",
    ...         stride=2, groups=2).shape
    (2, 6, 4, 4)
    """
    x, w, rank = _check_operands("conv", x, w)
    steps, gaps = (
        _read("conv", "stride", stride, rank),
        _read("conv", "dilation", dilation, rank),
    )
    groups = _read("conv", "groups", groups, 1)[0]
    channels, (outputs, own) = shape_of(x)[1], shape_of(w)[:2]
    if _has_rest(outputs, groups) or dims.always_differ((channels,), (own * groups,)):
        raise ShapeError(
            f"conv{blame.user_line()}: x of {channels} channels and {outputs} filters"
            f" of {own} do not fit with groups={groups}: x has shape (N, C, ...), w"
            " (O, C // groups, ...), and groups divides both C and O."
        )
    pads = _read_padding("conv", padding, shape_of(w)[2:], gaps)
    _check_windows("conv", shape_of(x)[2:], shape_of(w)[2:], pads, gaps)
    return apply_conv(x, w, steps, pads, gaps, (1,) * rank, groups)


def conv_transpose(
    x: Array,
    w: Array,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Return the transpose of `conv`, which makes an array larger.

    It is the cotangent that `conv` with these settings sends back to its first operand
    for the cotangent ``x``.

    Parameters
    ----------
    x
        Shape ``(N, C, *S)``.
    w
        Shape ``(C, O // groups, *K)``.
    stride, padding, dilation, groups
        Those of the `conv` that it is the transpose of.
    output_padding
        What is added to the length of each axis: strides leave open how long the
        operand of the `conv` was.

    Returns
    -------
    Shape ``(N, O, *T)``, where ``T`` is
    ``(S - 1) * stride + (K - 1) * dilation + 1 - before - after + output_padding``.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> x, w = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]])
    >>> wb.conv_transpose(x, w, stride=2)
    array([[[  1.,  10., 102.,  20., 200.]]])
    """
    name = "conv_transpose"
    x, w, rank = _check_operands(name, x, w)
    steps, gaps = (
        _read(name, "stride", stride, rank),
        _read(name, "dilation", dilation, rank),
    )
    more = _read(name, "output_padding", output_padding, rank, least=0)
    groups = _read(name, "groups", groups, 1)[0]
    channels, inputs = shape_of(x)[1], shape_of(w)[0]
    if _has_rest(inputs, groups) or dims.always_differ((channels,), (inputs,)):
        raise ShapeError(
            f"{name}{blame.user_line()}: x of {channels} channels and w of {inputs} do"
            f" not fit with groups={groups}: x has shape (N, C, ...), w"
            " (C, O // groups, ...), and groups divides C."
        )
    size = shape_of(w)[2:]
    given = _read_padding(name, padding, size, gaps)
    pads = tuple(
        ((k - 1) * gap - low, (k - 1) * gap - high + extra)
        for k, gap, (low, high), extra in zip(size, gaps, given, more, strict=True)
    )
    for n, k, step, gap, (low, high) in zip(
        shape_of(x)[2:], size, steps, gaps, pads, strict=True
    ):
        longer = (n - 1) * step + 1
        cut = longer + min(low, 0) + min(high, 0)
        whole = longer + low + high - (k - 1) * gap
        if dims.is_always_less(cut, 0) or dims.is_always_less(whole, 1):
            raise ShapeError(
                f"{name}{blame.user_line()}: padding={padding!r} cuts all that an axis"
                f" of {n} with filters of {k} gives. Cut less, or add output_padding."
            )
    filters = _turn_filters(w, groups)
    return apply_conv(x, filters, (1,) * rank, pads, gaps, steps, groups)


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


# What they are given


def apply_conv(
    x: Array,
    w: Array,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    spacing: Numbers,
    groups: int,
) -> Array:
    """Return `conv` with zeros between the entries of ``x`` too, ``spacing`` apart."""
    params = {
        "stride": stride, "padding": padding, "dilation": dilation,
        "spacing": spacing, "groups": groups,
    }  # fmt: skip
    return apply(CONV, (x, w), params)


def _check_operands(name: str, x: Array, w: Array) -> tuple[Array, Array, int]:
    x, w = admit(x), admit(w)
    rank = len(shape_of(w)) - 2
    if rank < 1 or len(shape_of(x)) != rank + 2:
        raise ShapeError(
            f"{name}{blame.user_line()}: x has shape {shape_of(x)} and w"
            f" {shape_of(w)}: both have as many axes, at least three. x is (examples,"
            " channels, *space); for one example write x[None]."
        )
    if not all(isinstance(n, int) for n in shape_of(w)[2:]):
        raise UnknownLengthError(
            f"{name}{blame.user_line()}: w has shape {shape_of(w)}: how long a filter"
            " is decides how many windows there are, and has to be known. Give the"
            " symbol its lengths: wb.tensor('w', shape=(None, None, 3, 3))."
        )
    if any(map(dims.is_zero_length, shape_of(w))):
        raise ShapeError(
            f"{name}{blame.user_line()}: w of shape {shape_of(w)} has no entries."
        )
    return x, w, rank


def _has_rest(length: Any, groups: int) -> bool:
    """Return whether a length is known and does not divide into so many groups."""
    return isinstance(length, int) and length % groups != 0


def _read(name: str, what: str, given: Any, rank: int, least: int = 1) -> Numbers:
    """Return a setting with one integer for each axis of space."""
    try:
        several = isinstance(given, (Sequence, np.ndarray))
        made = (
            tuple(map(operator.index, given))
            if several
            else (operator.index(given),) * rank
        )
    except TypeError:
        made = ()
    if len(made) != rank or min(made) < least:
        raise ShapeError(
            f"{name}{blame.user_line()}: {what}={given!r}: give an integer of at least"
            f" {least}, or one for each of the {rank} axes of space."
        )
    return made


def _read_padding(name: str, given: Any, size: Shape, dilation: Numbers) -> Pads:
    rank = len(size)
    if isinstance(given, str) and given in ("same", "valid"):
        whole = [(k - 1) * gap if given == "same" else 0
                 for k, gap in zip(size, dilation, strict=True)]  # fmt: skip
        return tuple((n // 2, n - n // 2) for n in whole)
    try:
        parts = (
            list(given) if isinstance(given, (Sequence, np.ndarray)) else [given] * rank
        )
        pairs = [
            tuple(
                map(
                    operator.index,
                    x if isinstance(x, (Sequence, np.ndarray)) else (x, x),
                )
            )
            for x in parts
        ]
    except TypeError:
        pairs = []
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            f"{name}{blame.user_line()}: padding={given!r}: give a number, 'same' or"
            f" 'valid', or for each of the {rank} axes of space a number or a pair"
            " (before, after)."
        )
    return tuple((a, b) for a, b in pairs)


def _check_windows(
    name: str, space: Shape, size: Shape, padding: Pads, dilation: Numbers
) -> None:
    for axis, (n, k, (low, high), gap) in enumerate(
        zip(space, size, padding, dilation, strict=True)
    ):
        if dims.is_always_less(n + min(low, 0) + min(high, 0), 0):
            raise ShapeError(
                f"{name}{blame.user_line()}: padding {(low, high)} cuts more than axis"
                f" {axis} of space has, which is {n} long."
            )
        if dims.is_always_less(n + low + high, (k - 1) * gap + 1):
            raise ShapeError(
                f"{name}{blame.user_line()}: a window of {(k - 1) * gap + 1} is larger"
                f" than axis {axis} of space, {n} long with padding {(low, high)}."
            )


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
    lengths = _read(name, "size", size, rank)
    steps = lengths if stride is None else _read(name, "stride", stride, rank)
    gaps = _read(name, "dilation", dilation, rank)
    pads = _read_padding(name, padding, lengths, gaps)
    _check_windows(name, shape[2:], lengths, pads, gaps)
    for n, k, step, gap, pair in zip(
        shape[2:], lengths, steps, gaps, pads, strict=True
    ):
        if not _all_hold_entries(n, k, step, gap, pair):
            raise ShapeError(
                f"{name}{blame.user_line()}: with padding {pair} some windows of {k} on"
                f" an axis of {n} would hold no entry. Pad by less than a window."
            )
    return {"size": lengths, "stride": steps, "padding": pads, "dilation": gaps}
