"""Convolution as networks have it: channels, strides, groups.

Any number of axes, unlike SciPy's one channel: examples come first, then channels, then
the axes of space. Each op is a body of windows, a product and sums, so that both modes
of every order, batches, kernels and patterns follow, and it stays one node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.op import Reading
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, Batched, Params, Shape, Spec, as_spec
from workbench.errors import ShapeError, UnknownLengthError
from workbench.ops.contraction import product_dtype
from workbench.ops.define import (
    multilinear,
    shape_of,
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


def view_windows(x: Any, size: Numbers, stride: Numbers, dilation: Numbers) -> Any:
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
    x = view_windows(x, shape_of(w)[2:], stride, dilation)
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
    windows = view_windows(x, size, stride, dilation)
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


#: How both are written out: the windows of the spread and padded array.
_WINDOWS = """\
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
"""
_CONV0 = f'''\
def conv0(x, w, stride, padding, dilation, spacing, groups):
    """A convolution whose every product is 0 where a factor is 0."""
{_WINDOWS}    axes, products = (2, *range(3 + rank, 3 + 2 * rank)), []
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
    helper=f'''\
def conv(x, w, stride, padding, dilation, spacing, groups):
    """The products of windows of x, of examples and channels, with each row of w."""
{_WINDOWS}    parts = zip(np.split(windows, groups, 1), np.split(w, groups))
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
        read_setting("conv", "stride", stride, rank),
        read_setting("conv", "dilation", dilation, rank),
    )
    groups = read_setting("conv", "groups", groups, 1)[0]
    channels, (outputs, own) = shape_of(x)[1], shape_of(w)[:2]
    if _has_rest(outputs, groups) or dims.always_differ((channels,), (own * groups,)):
        raise ShapeError(
            f"conv{blame.user_line()}: x of {channels} channels and {outputs} filters"
            f" of {own} do not fit with groups={groups}: x has shape (N, C, ...), w"
            " (O, C // groups, ...), and groups divides both C and O."
        )
    pads = read_padding("conv", padding, shape_of(w)[2:], gaps)
    check_windows("conv", shape_of(x)[2:], shape_of(w)[2:], pads, gaps)
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
        read_setting(name, "stride", stride, rank),
        read_setting(name, "dilation", dilation, rank),
    )
    more = read_setting(name, "output_padding", output_padding, rank, least=0)
    groups = read_setting(name, "groups", groups, 1)[0]
    channels, inputs = shape_of(x)[1], shape_of(w)[0]
    if _has_rest(inputs, groups) or dims.always_differ((channels,), (inputs,)):
        raise ShapeError(
            f"{name}{blame.user_line()}: x of {channels} channels and w of {inputs} do"
            f" not fit with groups={groups}: x has shape (N, C, ...), w"
            " (C, O // groups, ...), and groups divides C."
        )
    size = shape_of(w)[2:]
    given = read_padding(name, padding, size, gaps)
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


def read_setting(
    name: str, what: str, given: Any, rank: int, least: int = 1
) -> Numbers:
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


def read_padding(name: str, given: Any, size: Shape, dilation: Numbers) -> Pads:
    """Return how much is added or cut before and behind each axis of space."""
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


def check_windows(
    name: str, space: Shape, size: Shape, padding: Pads, dilation: Numbers
) -> None:
    """Raise an error if a window is larger than the padded axis, or all is cut."""
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
