"""Images read between their pixels: moved, turned, scaled.

An image is a B-spline whose coefficients a linear system gives (the "prefilter"); the
spline is then read at places. The system is solved as it stands: where SciPy's
recursion breaks off early (mode "reflect", few pixels), that one is off by up to 1e-2
and does not have the pixels' values. Source: M. Unser, "Splines: a perfect fit for
signal and image processing" (1999).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.dims import is_zero_length
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Spec, is_device_array
from workbench.errors import TraceError
from workbench.ops.arranging import pad
from workbench.ops.define import composite, convert_like, dtype_of, shape_of
from workbench.ops.lengths import defer_functions
from workbench.ops.linalg.systems import banded
from workbench.ops.shaping import moveaxis, normal_axis
from workbench.ops.taking import take
from workbench.scipy import special
from workbench.scipy.ndimage.filters import MODES, repeat_per_axis

__all__ = [
    "affine_transform",
    "map_coordinates",
    "rotate",
    "shift",
    "spline_filter",
    "spline_filter1d",
    "zoom",
]

#: By degree: the values of a B-spline at 0, 1, 2.
AT_PIXELS = {
    2: (6 / 8, 1 / 8),
    3: (4 / 6, 1 / 6),
    4: (230 / 384, 76 / 384, 1 / 384),
    5: (66 / 120, 26 / 120, 1 / 120),
}
#: How the coefficients go on over the edge, where that differs from the image itself.
EDGES = {
    "constant": "mirror",
    "grid-constant": "mirror",
    "grid-mirror": "reflect",
    "nearest": "reflect",
    "wrap": "mirror",
}
#: How many pixels are added where no filter fits to a mode, as by SciPy.
PADDED = 12


def _fold(x: Array, n: int, mode: str) -> Array:
    """Return places moved into an axis of ``n`` pixels as a mode has it."""
    if mode == "grid-wrap":
        return np.mod(x, n)
    if n == 1 and mode in ("mirror", "wrap"):
        return 0 * x
    if mode == "mirror":
        x = np.mod(x, 2 * n - 2)
        return np.minimum(x, 2 * n - 2 - x)
    if mode in ("reflect", "grid-mirror"):
        x = np.mod(x + 0.5, 2 * n)
        return np.minimum(x, 2 * n - x) - 0.5
    if mode == "wrap":
        is_inside = np.logical_and(np.greater_equal(x, 0), np.less_equal(x, n - 1))
        return np.where(is_inside, x, np.mod(x, n - 1))
    return x


def _fold_pixels(place: Array, n: int, mode: str) -> Array:
    """Return whole places within an axis of ``n`` pixels."""
    folded = _fold(place, n, {"constant": "mirror", "wrap": "mirror"}.get(mode, mode))
    return np.clip(folded.astype(np.intp), 0, n - 1)


def _find_weights(u: Array, order: int) -> list[Any]:
    """Return the B-splines of one degree that are not 0 in an interval, at ``u``."""
    found: list[Any] = [np.ones_like(u)]
    # By the recursion of Cox and de Boor for knots at whole numbers.
    for d in range(1, order + 1):
        made: list[Any] = []
        for r in range(d + 1):
            rising = (u + (d - r)) * found[r - 1] if r else None
            falling = (r + 1 - u) * found[r] if r < d else None
            both = [x for x in (rising, falling) if x is not None]
            made.append(sum(both[1:], both[0]) / d)
        found = made
    return found


def _read(c: Array, q: Array, cval: Array, *, order: int, mode: str) -> Array:
    """Return the spline with coefficients ``c`` at places, shape (axes, places)."""
    lengths = shape_of(c)
    if any(map(is_zero_length, lengths)):
        return np.zeros_like(q[0]) + cval
    rank = len(lengths)
    index: Any = 0
    weight: Any = 1.0
    outside: Any = False
    lost: Any = False
    for axis, n in enumerate(lengths):
        x = q[axis]
        if mode == "constant":
            is_here = np.logical_or(np.less(x, 0), np.greater(x, n - 1))
            outside = np.logical_or(outside, is_here)
        x = _fold(x, n, mode)
        first = np.floor(x if order % 2 else x + 0.5)
        u = x - first if order % 2 else x - first + 0.5
        taps = [first + (r - order // 2) for r in range(order + 1)]
        shape = (*(order + 1 if i == axis else 1 for i in range(rank)), -1)
        places = np.reshape(np.stack(taps), shape)
        if mode == "grid-constant":
            is_off = np.logical_or(np.less(places, 0), np.greater(places, n - 1))
            lost = np.logical_or(lost, is_off)
        index = index * n + _fold_pixels(places, n, mode)
        weight = weight * np.reshape(np.stack(_find_weights(u, order)), shape)
    found = take(np.reshape(c, (-1,)), index)
    if mode == "grid-constant":
        found = np.where(lost, cval, found)
    y = np.sum(found * weight, axis=tuple(range(rank)))
    return np.where(outside, cval, y) if mode == "constant" else y


def _compute_read(c: Any, q: Any, cval: Any, *, order: int, mode: str) -> Any:
    is_other = is_device_array(c) or is_device_array(q) or np.iscomplexobj(cval)
    if is_other or not c.size:
        return _read(c, q, cval, order=order, mode=mode)
    from scipy import ndimage

    read: Any = ndimage.map_coordinates
    return read(c, q, None, order, mode, float(cval), prefilter=False)


READ = composite(
    "map_coordinates",
    _read,
    compute=_compute_read,
    rule="the slopes of the spline",
    infer=lambda c, q, cval, **_: Spec((shape_of(q)[1],), dtype_of(c)),
    helper='''\
def map_coordinates(c, q, cval, order, mode):
    """A spline with these coefficients, at places."""
    return ndimage.map_coordinates(c, q, None, order, mode, cval, prefilter=False)
''',
)


# Coefficients


def _filter_axis(x: Array, axis: int, order: int, mode: str) -> Array:
    """Return the coefficients of splines along an axis."""
    shape = shape_of(x)
    n = shape[axis]
    if order < 2 or n == 1 or any(map(is_zero_length, shape)):
        return x
    values = AT_PIXELS[order]
    width = len(values) - 1
    lines: Any = moveaxis(x, axis, 0)
    if mode == "grid-wrap":
        angles = 2 * np.pi / n * np.arange(n)
        ratio = sum(
            (2 * v * np.cos(k * angles) for k, v in enumerate(values) if k),
            np.full(n, values[0]),
        )
        parts = np.reshape(ratio, (n,) + (1,) * (len(shape) - 1))
        y: Any = np.fft.ifft(np.fft.fft(lines, axis=0) / convert_like(parts, x), axis=0)
        y = y if dtype_of(x).kind == "c" else np.real(y)
        return moveaxis(y, 0, axis)
    band = np.zeros((2 * width + 1, n))
    places = np.arange(n)
    for k in range(-width, width + 1):
        near = np.asarray(_fold_pixels(places + k, n, EDGES.get(mode, mode)))
        np.add.at(band, (width + places - near, near), values[abs(k)])
    right = np.reshape(lines, (n, -1))
    y = banded(convert_like(band, x), right, width, width)
    return moveaxis(np.reshape(y, shape_of(lines)), 0, axis)


def _admit_image(
    name: str, x: ArrayLike, order: int, mode: str, output: Any
) -> tuple[Any, np.dtype[Any]]:
    """Return an image in double precision, and the dtype of the result."""
    x = admit(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    if isinstance(output, (np.ndarray, Tensor)):
        raise TraceError(
            f"{name}(..., output=array){blame.user_line()}: a traced value is never"
            f" written into an array that exists. Write y = {name}(...) without output,"
            " or give a dtype."
        )
    if order not in range(6):
        raise RuntimeError(
            f"{name}(..., order={order}){blame.user_line()}: spline order not"
            " supported; the orders are 0 to 5"
        )
    if mode not in MODES:
        raise RuntimeError(
            f"{name}(..., mode={mode!r}){blame.user_line()}: the modes are"
            f" {', '.join(map(repr, MODES))}"
        )
    if not shape_of(x):
        raise RuntimeError(f"{name}{blame.user_line()}: input must have an axis")
    dtype = dtype_of(x) if output is None else np.dtype(output)
    wide = np.dtype(complex if dtype_of(x).kind == "c" else float)
    if wide.kind == "c":
        dtype = np.promote_types(dtype, np.complex64)
    return (x if dtype_of(x) == wide else x.astype(wide)), dtype


def _read_image(
    x: Array,
    places: Array,
    dtype: np.dtype[Any],
    order: int,
    mode: str,
    cval: ArrayLike,
    prefilter: bool,
) -> Array:
    """Return an image at places, shape (axes, ...)."""
    rank = len(shape_of(x))
    shape = shape_of(places)[1:]
    q = np.reshape(places, (rank, -1))
    fill = admit(cval)
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            more: dict[str, Any] = {"mode": "edge"}
            if mode == "grid-constant":
                more = {"constant_values": fill}
            x, q = pad(x, PADDED, **more), q + PADDED
        x = reduce(lambda c, i: _filter_axis(c, i, order, mode), range(rank), x)
    if not hasattr(fill, "dtype"):
        fill = convert_like(np.asarray(fill, dtype_of(x)), x)
    y = apply(READ, (x, q, fill), {"order": order, "mode": mode})
    y = np.reshape(y, shape)
    if dtype.kind in "biu":
        y = _round(y, dtype)
    return y if dtype_of(y) == dtype else y.astype(dtype)


def _round(y: Array, dtype: np.dtype[Any]) -> Array:
    """Return whole numbers that a dtype has, halves away from 0, as SciPy's."""
    if dtype.kind == "b":
        return np.trunc(y)
    low, high = (float(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    if high > np.iinfo(dtype).max:  # rounded up, where double precision has it not
        high = math.nextafter(high, 0)
    return np.clip(np.trunc(y + np.copysign(0.5, y)), low, high)


def spline_filter1d(
    input: ArrayLike,
    order: int = 3,
    axis: int = -1,
    output: npt.DTypeLike = np.float64,
    mode: str = "mirror",
) -> Array:
    """Return the coefficients of a spline along an axis, as SciPy's of this name.

    Parameters
    ----------
    input, output, mode
        As of `map_coordinates`.
    order
        The degree, 0 to 5.
    axis
        The axis.

    Raises
    ------
    RuntimeError
        If the order or the mode is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> spline_filter1d(np.array([0.0, 1.0, 0.0])).round(6)
    array([-1.,  2., -1.])
    """
    x, dtype = _admit_image("spline_filter1d", input, order, mode, output)
    y = _filter_axis(x, normal_axis(axis, len(shape_of(x))), order, mode)
    return y if dtype_of(y) == dtype or dtype_of(y).kind == "c" else y.astype(dtype)


def spline_filter(
    input: ArrayLike,
    order: int = 3,
    output: npt.DTypeLike = np.float64,
    mode: str = "mirror",
) -> Array:
    """Return the coefficients of a spline along all axes: `spline_filter1d` of each."""
    x, dtype = _admit_image("spline_filter", input, order, mode, output)
    axes = range(len(shape_of(x)))
    y = reduce(lambda c, i: _filter_axis(c, i, order, mode), axes, x)
    return y if dtype_of(y) == dtype or dtype_of(y).kind == "c" else y.astype(dtype)


def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: npt.DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return an image at places between its pixels: `scipy.ndimage.map_coordinates`.

    Differentiable by the image, by the places and by ``cval``.

    Parameters
    ----------
    input
        The image, of any rank.
    coordinates
        Shape (rank of the image, ...), in pixels.
    output
        The dtype of the result; by default that of ``input``.
    order
        The degree of the spline, 0 to 5.
    mode
        What lies over the edge, as SciPy has it.
    cval
        A number or a Tensor of no axis.
    prefilter
        Whether ``input`` is an image, not yet the coefficients of a spline.

    Raises
    ------
    RuntimeError
        If the coordinates do not fit, or the order or the mode is unknown.
    TraceError
        If ``output`` is an array.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> image = np.arange(9.0).reshape(3, 3) ** 2
    >>> map_coordinates(image, np.array([[0.5], [1.0]]), order=1)
    array([8.5])
    >>> wb.grad(lambda q: map_coordinates(image, q, order=1)[0])(np.array([[0.5], [1]]))
    array([[15.],
           [ 6.]])
    """
    x, dtype = _admit_image("map_coordinates", input, order, mode, output)
    q: Any = admit(coordinates)
    q = q if hasattr(q, "dtype") else np.asarray(q)
    if shape_of(q)[:1] != (len(shape_of(x)),) or dtype_of(q).kind not in "biuf":
        raise RuntimeError(
            f"map_coordinates{blame.user_line()}: coordinates of shape {shape_of(q)}"
            f" and dtype {dtype_of(q)}; they must be real, a row for each of the"
            f" {len(shape_of(x))} axes"
        )
    q = q if dtype_of(q) == np.float64 else q.astype(float)
    return _read_image(x, q, dtype, order, mode, cval, prefilter)


def _list_places(shape: Sequence[int], like: Any) -> Any:
    return convert_like(np.indices(shape).astype(float), like)


def affine_transform(
    input: ArrayLike,
    matrix: ArrayLike,
    offset: Any = 0.0,
    output_shape: tuple[int, ...] | None = None,
    output: npt.DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return an image whose pixel o is that at ``matrix @ o + offset``.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As of `map_coordinates`.
    matrix
        Square; its diagonal alone; or one of homogeneous coordinates, which then has
        the offset.
    offset
        A number, or one for each axis.
    output_shape
        By default that of the image.

    Raises
    ------
    RuntimeError
        If the matrix does not fit to the image.

    Examples
    --------
    >>> import numpy as np
    >>> affine_transform(np.arange(4.0), np.array([[0.5]]), order=1)
    array([0. , 0.5, 1. , 1.5])
    """
    x, dtype = _admit_image("affine_transform", input, order, mode, output)
    rank = len(shape_of(x))
    m: Any = admit(matrix)
    m = m if hasattr(m, "dtype") else np.asarray(m)
    move: Any = offset
    if shape_of(m) in ((rank + 1, rank + 1), (rank, rank + 1)):
        m, move = m[:rank, :rank], m[:rank, rank]
    if shape_of(m) not in ((rank, rank), (rank,)):
        raise RuntimeError(
            f"affine_transform{blame.user_line()}: improper number of rows or columns:"
            f" a matrix of shape {shape_of(m)} for an image of {rank} axes"
        )
    if isinstance(move, (list, tuple)):
        move = np.stack([admit(v) for v in move])
    if shape_of(admit(move)):
        move = np.reshape(move, (rank, 1))
    shape = shape_of(x) if output_shape is None else tuple(output_shape)
    grid = np.reshape(_list_places(shape, x), (rank, -1))
    q = m[:, None] * grid if len(shape_of(m)) == 1 else m @ grid
    y = np.reshape(q + move, (rank, *shape))
    return _read_image(x, y, dtype, order, mode, cval, prefilter)


def shift(
    input: ArrayLike,
    shift: Any,
    output: npt.DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return an image moved by a number of pixels, one or one for each axis.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As of `map_coordinates`.
    shift
        How far, differentiable.

    Raises
    ------
    RuntimeError
        As `map_coordinates` does.

    Examples
    --------
    >>> import numpy as np
    >>> shift(np.arange(4.0), 0.5, order=1)
    array([0. , 0.5, 1.5, 2.5])
    """
    x, dtype = _admit_image("shift", input, order, mode, output)
    moves = _repeat("shift", shift, len(shape_of(x)))
    grid = _list_places(shape_of(x), x)
    q = np.stack([grid[i] - v for i, v in enumerate(moves)])
    return _read_image(x, q, dtype, order, mode, cval, prefilter)


def _repeat(name: str, given: Any, rank: int) -> list[Any]:
    """Return one number for each axis, of a number, a sequence or a Tensor of them."""
    given = admit(given) if isinstance(given, Tensor) else given
    shape = shape_of(given) if isinstance(given, (Tensor, np.ndarray)) else ()
    return repeat_per_axis(
        [given[i] for i in range(rank)] if shape else given, rank, name
    )


def zoom(
    input: ArrayLike,
    zoom: Any,
    output: npt.DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Array:
    """Return an image of more or fewer pixels, by a factor or one for each axis.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As of `map_coordinates`.
    zoom
        Numbers; the lengths are rounded, and have no derivative.
    grid_mode
        Whether whole pixels are scaled, not the distances of their middles.

    Raises
    ------
    TraceError
        If a factor has no value in the trace.

    Examples
    --------
    >>> import numpy as np
    >>> zoom(np.array([0.0, 2.0]), 1.5, order=1)
    array([0., 1., 2.])
    """
    x, dtype = _admit_image("zoom", input, order, mode, output)
    factors = [value_of(v) for v in _repeat("zoom", zoom, len(shape_of(x)))]
    if any(v is None for v in factors):
        raise TraceError(
            f"zoom{blame.user_line()}: the shape of the result depends on zoom, which"
            " has no value while tracing without values. Give numbers."
        )
    pairs = [
        (n, round(n * float(v))) for n, v in zip(shape_of(x), factors, strict=True)
    ]
    places = _list_places([after for _, after in pairs], x)
    rows = []
    for i, (before, after) in enumerate(pairs):
        if grid_mode:
            rows.append((places[i] + 0.5) * (before / after if after else 1.0) - 0.5)
        else:
            rows.append(places[i] * ((before - 1) / (after - 1) if after > 1 else 1.0))
    return _read_image(x, np.stack(rows), dtype, order, mode, cval, prefilter)


def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: npt.DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return an image turned by an angle in degrees, in the plane of two axes.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As of `map_coordinates`.
    angle
        A number or a Tensor of no axis, differentiable.
    axes
        The plane.
    reshape
        Whether the result has room for the whole image; its shape has no derivative.

    Raises
    ------
    ValueError
        If the axes are no plane of the image.
    TraceError
        If the shape depends on an angle that has no value in the trace.

    Examples
    --------
    >>> import numpy as np
    >>> rotate(np.array([[1.0, 2.0], [3.0, 4.0]]), 90, order=1)
    array([[2., 4.],
           [1., 3.]])
    """
    x, dtype = _admit_image("rotate", input, order, mode, output)
    rank = len(shape_of(x))
    if rank < 2 or len(axes) != 2:
        raise ValueError(
            f"rotate{blame.user_line()}: axes={axes} must be two axes of an image that"
            f" has {rank}"
        )
    i, j = sorted(normal_axis(a, rank) for a in axes)
    turn = np.asarray(angle, float) if not isinstance(angle, Tensor) else angle
    cosine, sine = special.cosdg(turn), special.sindg(turn)
    lengths = [shape_of(x)[i], shape_of(x)[j]]
    sizes = list(lengths)
    if reshape:
        c, s = value_of(cosine), value_of(sine)
        if c is None:
            raise TraceError(
                f"rotate{blame.user_line()}: the shape of the result depends on the"
                " angle, which has no value while tracing without values. Give"
                " reshape=False."
            )
        h, w = lengths
        corners = np.array([[c, s], [-s, c]]) @ [[0, 0, h, h], [0, w, 0, w]]
        sizes = [int(n) for n in np.ptp(corners, axis=1) + 0.5]
    shape = list(shape_of(x))
    shape[i], shape[j] = sizes
    grid = _list_places(shape, x)
    # Summed in SciPy's order, for at an edge the last bit decides.
    up, left = ((n - 1) / 2 for n in sizes)
    rows = [grid[k] for k in range(rank)]
    rows[i] = (lengths[0] - 1) / 2 - (cosine * up + sine * left)
    rows[j] = (lengths[1] - 1) / 2 - (cosine * left - sine * up)
    rows[i] = rows[i] + cosine * grid[i] + sine * grid[j]
    rows[j] = rows[j] - sine * grid[i] + cosine * grid[j]
    return _read_image(x, np.stack(rows), dtype, order, mode, cval, prefilter)


defer_functions(globals(), __all__)
