"""Convolution and pooling as networks have them: channels, strides, groups.

Any number of axes, unlike SciPy's one channel: examples come first, then channels, then
the axes of space. Each op is a body of windows, a product and sums, so that both modes
of every order, batches, kernels and patterns follow, and it stays one node.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.op import Reading
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import Array, Shape
from workbench.errors import DtypeError, ShapeError, UnknownLengthError
from workbench.ops.define import composite, dtype_of, shape_of

#: The lengths before and after each axis of space.
Pads = tuple[tuple[int, int], ...]
Numbers = tuple[int, ...]

# The bodies


def _spread(x: Any, spacing: Numbers) -> Any:
    """Put ``spacing - 1`` zeros between neighbours along each axis of space."""
    shape: list[Any] = list(shape_of(x))
    for i, step in enumerate(spacing, 2):
        if step > 1:
            n = shape[i]
            before = (slice(None),) * i
            # A row of zeros follows each entry but the last.
            apart = np.reshape(
                x[(*before, slice(None, n - 1))],
                (*shape[:i], n - 1, 1, *shape[i + 1 :]),
            )
            widths = [(0, 0)] * (len(shape) + 1)
            widths[i + 1] = (0, step - 1)
            joined = (*shape[:i], (n - 1) * step, *shape[i + 1 :])
            spread = np.reshape(np.pad(apart, widths), joined)
            x = np.concatenate([spread, x[(*before, slice(n - 1, None))]], i)
            shape[i] = (n - 1) * step + 1
    return x


def _pad(x: Any, padding: Pads, fill: float = 0.0) -> Any:
    """Pad the axes of space; a negative length cuts."""
    if any(low < 0 or high < 0 for low, high in padding):
        cuts = [
            slice(max(-low, 0), n + min(high, 0))
            for n, (low, high) in zip(shape_of(x)[2:], padding, strict=True)
        ]
        x = x[(slice(None), slice(None), *cuts)]
    widths = [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)]
    if not any(map(any, widths)):
        return x
    return np.pad(x, widths, constant_values=fill) if fill else np.pad(x, widths)


def _adds(padding: Pads) -> bool:
    """Return whether something is added, not only cut."""
    return any(low > 0 or high > 0 for low, high in padding)


def _view_windows(x: Any, size: Numbers, stride: Numbers, dilation: Numbers) -> Any:
    """Return the windows of each axis of space, with an axis in the end for each."""
    for i, (n, step, gap) in enumerate(zip(size, stride, dilation, strict=True), 2):
        x = np.lib.stride_tricks.sliding_window_view(x, (n - 1) * gap + 1, i)
        if gap > 1:
            x = x[..., ::gap]
        if step > 1:
            x = x[(slice(None),) * i + (slice(None, None, step),)]
    return x


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
    """Multiply the windows of ``x`` with ``w``, group by group."""
    size = shape_of(w)[2:]
    rank = len(size)
    x = _view_windows(_pad(_spread(x, spacing), padding), size, stride, dilation)
    if groups == 1:
        window = tuple(range(2 + rank, 2 + 2 * rank))
        summed = ((1, *window), (1, *range(2, 2 + rank)))
        return np.moveaxis(np.tensordot(x, w, summed), -1, 1)
    front, channels, *rest = shape_of(x)
    x = np.reshape(x, (front, groups, channels // groups, *rest))
    outputs = shape_of(w)[0]
    w = np.reshape(w, (groups, outputs // groups, *shape_of(w)[1:]))
    n, g, c, o = range(4)
    space, inner = [*range(4, 4 + rank)], [*range(4 + rank, 4 + 2 * rank)]
    y = np.einsum(
        x, [n, g, c, *space, *inner], w, [g, o, c, *inner], [n, g, o, *space],
        optimize=True,
    )  # fmt: skip
    return np.reshape(y, (front, outputs, *shape_of(y)[3:]))


def _convolve_parts(x: Any, w: Any, *, groups: int, **settings: Any) -> Any:
    """Convolve each group by itself: a pattern then sees that groups do not meet."""
    channels, outputs = shape_of(w)[1], shape_of(w)[0] // groups
    parts = [
        _convolve(
            x[:, k * channels : (k + 1) * channels],
            w[k * outputs : (k + 1) * outputs],
            groups=1,
            **settings,
        )
        for k in range(groups)
    ]
    return parts[0] if groups == 1 else np.concatenate(parts, 1)


def _find_largest(
    x: Any, *, size: Numbers, stride: Numbers, padding: Pads, dilation: Numbers
) -> Any:
    rank = len(size)
    windows = _view_windows(_pad(x, padding, -np.inf), size, stride, dilation)
    entries = np.reshape(windows, (*shape_of(windows)[: 2 + rank], -1))
    # The first of equal entries has the slope, which np.max would share.
    place = np.argmax(entries, -1, keepdims=True)
    return np.take_along_axis(entries, place, -1)[..., 0]


def _count_entries(
    x: Any, axis: int, size: int, step: int, pair: tuple[int, int], gap: int
) -> Any:
    """Return how many entries of ``x`` each window along an axis holds."""
    line = _pad(np.ones_like(x, shape=(1, 1, shape_of(x)[axis])), (pair,))
    return np.sum(_view_windows(line, (size,), (step,), (gap,)), -1)


def _average(
    x: Any,
    *,
    size: Numbers,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    counts_padding: bool,
) -> Any:
    rank = len(size)
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    windows = _view_windows(_pad(x, padding), size, stride, dilation)
    if counts_padding or not _adds(padding):
        return np.mean(windows, axes)
    counts: Any = 1.0
    for i, setting in enumerate(zip(size, stride, padding, dilation, strict=True)):
        entries = _count_entries(x, i + 2, *setting)
        counts = counts * np.reshape(
            entries, (1, 1, *(1,) * i, -1, *(1,) * (rank - 1 - i))
        )
    return np.sum(windows, axes) / counts


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


def _spell_mean(node: Tensor) -> str:
    settings = "{size}, {stride}, {padding}, {dilation}"
    if node.params["counts_padding"] or not _adds(node.params["padding"]):
        return f"pool({{0}}, np.mean, 0.0, {settings})"
    count = f"pool(np.ones_like({{0}}[:1, :1]), np.sum, 0.0, {settings})"
    return f"np.divide(pool({{0}}, np.sum, 0.0, {settings}), {count})"


CONV = composite(
    "conv",
    _convolve,
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
    pattern=Reading(_convolve_parts, is_same=True),
    contracts=True,
    sums=True,
)  # fmt: skip
MAX_POOL = composite(
    "max_pool",
    _find_largest,
    template="pool({0}, np.max, -np.inf, {size}, {stride}, {padding}, {dilation})",
    helper=_POOL,
    rule="g at the largest of each window",
)
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
    channels, (inputs, own) = shape_of(x)[1], shape_of(w)[:2]
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
    # Filters turned round, with the channels of each group in the place of its outputs.
    turned = np.flip(w, tuple(range(2, 2 + rank)))
    parts = np.reshape(turned, (groups, inputs // groups, own, *size))
    filters = np.reshape(
        np.swapaxes(parts, 1, 2), (groups * own, inputs // groups, *size)
    )
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
