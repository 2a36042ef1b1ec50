"""What ONNX's samples between entries mean in NumPy: sizes, grids, regions.

Rows as in `onnx_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import value_of
from workbench.models.onnx_layer_rules import Windows, add_bias
from workbench.models.onnx_rules import (
    Array,
    Ints,
    RefusedError,
    Unsupported,
    check_count,
    rank_of,
    read_integers,
    row,
)


def _resize_axis(
    x: Array,
    axis: int,
    scale: float,
    mode: str,
    places: Array,
    settings: dict[str, Any],
) -> Array:
    """Return sums of the few entries along an axis that lie near each place."""
    length = index(x.shape[axis])
    narrow = min(scale, 1.0) if settings["antialias"] else 1.0
    old = np.floor(places)
    if mode == "nearest":
        near = {
            "round_prefer_floor": np.ceil(places - 0.5),
            "round_prefer_ceil": np.floor(places + 0.5),
            "floor": old,
            "ceil": np.ceil(places),
        }[settings["nearest_mode"]]
        return np.take(x, np.clip(near, 0, length - 1).astype(int), axis)
    most = math.ceil((1 if mode == "linear" else 2) / narrow)
    near = old[:, None] + np.arange(1 - most, most + 1)
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
    check_count((*x.shape[:axis], weights.size, *x.shape[axis + 1 :]))
    columns = np.clip(near, 0, length - 1).astype(int)
    around = [1] * (rank_of(x) + 1)
    around[axis : axis + 2] = weights.shape
    weights = np.reshape(weights.astype(x.dtype), around)
    parts = np.take(x, columns, axis) * weights
    if not np.all(weights):  # what has no weight may be infinite
        parts = np.where(weights == 0, 0, parts)
    return np.sum(parts, axis + 1)


def _as_floats(x: Array) -> Array:
    """Return integers as floats, in which sums are weighted; floats as they are."""
    return x if x.dtype.kind == "f" else x.astype(float)


def _restore_dtype(y: Array, x: Array) -> Array:
    """Return sums in the dtype of ``x``; of integers without their fraction.

    That is what ONNX's reference and other libraries do. A product that misses a whole
    number by its rounding alone is that number.
    """
    if x.dtype.kind == "f":
        return y
    ends = (0, 1) if x.dtype.kind == "b" else np.iinfo(x.dtype)
    low, high = ends if isinstance(ends, tuple) else (ends.min, ends.max)
    return np.clip(np.trunc(np.round(y, 6)), low, high).astype(x.dtype)


def _find_places(
    length: int,
    count: int,
    scale: float,
    mode: str,
    region: tuple[float, float],
) -> Array:
    """Return where the new entries lie among the old ones."""
    new = np.arange(count, dtype=float)
    if mode == "align_corners":
        return new * (length - 1) / max(count - 1, 1)
    if mode == "asymmetric":
        return new / scale
    if mode == "tf_crop_and_resize":
        low, high = region
        if count == 1:
            return np.full(count, (low + high) * (length - 1) / 2)
        return (low + new * (high - low) / (count - 1)) * (length - 1)
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(count)
    places = (new + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        places = places + length / 2 * (1 - count / (scale * length))
    elif mode not in ("half_pixel", "pytorch_half_pixel"):
        raise Unsupported(f"with coordinates {mode}")
    return places


def _read_scales(scales: Any) -> list[float]:
    """Return factors as the decimals that were meant: 0.2, not 0.200000003."""
    made = [float(str(s)) for s in np.reshape(np.asarray(value_of(scales)), -1)]
    if not all(0 < s < math.inf for s in made):
        raise RefusedError(f"its scales {blame.shorten(str(made))} are not positive")
    return made


def _scale_length(n: int, scale: float) -> int:
    """Return a length times a factor, in which 100 · 0.29 is 29."""
    return math.floor(float(np.float32(n) * np.float32(scale)))


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
        factors = _read_scales(scales)
        counts = [_scale_length(n, s) for n, s in zip(lengths, factors, strict=True)]
    elif sizes is None:
        raise RefusedError("it has neither scales nor sizes")
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
    # What is nearest is an entry itself.
    kind = {"linear": "linear", "cubic": "cubic"}.get(mode, "nearest")
    y = x if kind == "nearest" else _as_floats(x)
    inside: Any = True
    for axis, n, m, s, end in zip(along, lengths, counts, factors, ends, strict=True):
        if s == 1 and n == m and not crops:
            continue
        places = _find_places(n, m, s, coordinate_transformation_mode, end)
        y = _resize_axis(y, axis, s, kind, places, settings)
        within = (places >= 0) & (places <= n - 1)
        shape = [1] * rank
        shape[axis] = m
        inside = inside & np.reshape(within, shape)
    y = np.where(inside, y, extrapolation_value) if crops else y
    return y.astype(x.dtype) if kind == "nearest" else _restore_dtype(y, x)


@row("Upsample")
def _enlarge(x: Array, scales: Any, mode: str = "nearest", *, step: Any) -> Array:
    kind = "nearest" if mode == "nearest" else "linear"
    y = x if kind == "nearest" else _as_floats(x)
    for axis, s in enumerate(_read_scales(scales)):
        n = index(x.shape[axis])
        (m,) = check_count((_scale_length(n, s),))
        settings = {"antialias": 0, "exclude_outside": 0, "nearest_mode": "floor"}
        if s == 1:
            continue
        places = _find_places(n, m, s, "asymmetric", (0.0, 1.0))
        y = _resize_axis(y, axis, s, kind, places, settings)
    return y if kind == "nearest" else _restore_dtype(y, x)


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
            places = np.clip(places, 0, n - 1)
            before = np.floor(places)
            column = (-1, 1) if axis == 0 else (-1,)
            rest = np.reshape(places - before, column)
            first = np.take(y, before.astype(int), 1 + axis)
            second = np.take(y, np.minimum(before + 1, n - 1).astype(int), 1 + axis)
            whole = first * (1 - rest) + second * rest
            whole = np.where(np.reshape(inside, column), whole, 0)
            split = (*y.shape[: 1 + axis], count, each, *y.shape[2 + axis :])
            y = np.mean(np.reshape(whole, split), 2 + axis)
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
    return add_bias(np.reshape(y, (examples, w.shape[0], *space)), bias)
