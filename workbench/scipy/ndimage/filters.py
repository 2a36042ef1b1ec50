"""Linear filters of images of any rank."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.dims import is_zero_length
from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import TraceError
from workbench.ops.arranging import pad
from workbench.ops.convolution import convolve_arrays, flip_axes
from workbench.ops.define import (
    admit_like,
    convert_like,
    dtype_of,
    shape_of,
    shape_of_first,
)
from workbench.ops.distances import root
from workbench.ops.elementwise import conjugate
from workbench.ops.lengths import defer_functions
from workbench.ops.shaping import distinct_axes

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]

# Images convolved with kernels.

#: SciPy's name of what lies over the edge, and NumPy's.
MODES = {
    "constant": "constant",
    "grid-constant": "constant",
    "grid-mirror": "symmetric",
    "grid-wrap": "wrap",
    "mirror": "reflect",
    "nearest": "edge",
    "reflect": "symmetric",
    "wrap": "wrap",
}

#: Kernels of more entries go through Fourier transforms.
LARGE = 256


def repeat_per_axis(given: Any, count: int, name: str) -> list[Any]:
    """Return one setting per axis."""
    if not isinstance(given, (list, tuple)) and np.ndim(given) == 0:
        return [given] * count
    if len(given) != count:
        raise RuntimeError(
            f"{name}{blame.user_line()}: sequence argument must have length equal to"
            f" input rank: {len(given)} and {count}"
        )
    return list(given)


def resolve_axes(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return the axes to filter, counted from 0; all of them for None."""
    if axes is None:
        return tuple(range(rank))
    return distinct_axes(list(axes) if np.iterable(axes) else axes, rank)


def _filter(
    name: str,
    x: Array,
    weights: Array,
    axes: Sequence[int],
    output: npt.DTypeLike | None,
    mode: Any,
    cval: ArrayLike,
    origins: list[int],
) -> Array:
    """Correlate ``x``, extended over its edges, with a kernel of its rank."""
    if isinstance(output, (np.ndarray, Tensor)):
        raise TraceError(
            f"{name}(..., output=array){blame.user_line()}: a traced value is never"
            f" written into an array that exists. Write y = {name}(...) without output,"
            " or give a dtype."
        )
    lengths = shape_of(weights)
    if 0 in lengths:
        raise RuntimeError(f"{name}{blame.user_line()}: no filter weights given")
    width = [(0, 0)] * len(shape_of(x))
    for axis, origin in zip(axes, origins, strict=True):
        n = lengths[axis]
        before = n // 2 + operator.index(origin)
        if not 0 <= before < n:
            raise ValueError(
                f"{name}(..., origin={origin}){blame.user_line()}: the origin must lie"
                f" in the filter, which has length {n} along axis {axis}"
            )
        width[axis] = (before, n - 1 - before)
    if mode not in MODES:
        raise RuntimeError(
            f"{name}(..., mode={mode!r}){blame.user_line()}: the modes are"
            f" {', '.join(map(repr, MODES))}"
        )
    complex_ = "c" in (dtype_of(x).kind, dtype_of(weights).kind)
    dtype = np.dtype(output) if output is not None else dtype_of(x)
    if complex_ and output is None:
        dtype = np.promote_types(dtype_of(x), np.complex64)
    if any(map(is_zero_length, shape_of(x))):
        return x if dtype_of(x) == dtype else x.astype(dtype)
    if dtype_of(x).kind in "biu":
        x = x.astype(float)
    named: Any = MODES[mode]
    more = {"constant_values": cval} if named == "constant" else {}
    y = convolve_arrays(
        pad(x, width, named, **more),
        flip_axes(weights),
        "valid",
        "fft" if math.prod(lengths) > LARGE else "direct",
    )
    return y if dtype_of(y) == dtype else y.astype(dtype)


def correlate(
    input: ArrayLike,
    weights: ArrayLike,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Return the weighted sum of each pixel's neighbours: `scipy.ndimage.correlate`.

    Parameters
    ----------
    input
        The image, of any rank.
    weights
        The weights, with one axis for each one of ``axes``; complex ones are
        conjugated, as in SciPy.
    output
        The dtype of the result; by default that of ``input``.
    mode
        What lies over the edge: ``"reflect"`` (d c b a | a b c d | d c b a),
        ``"mirror"`` (d c b | a b c d | c b a), ``"nearest"``, ``"wrap"``, or
        ``"constant"`` (``cval``); SciPy's ``"grid-"`` names too.
    cval
        A number or a Tensor of no axis.
    origin
        Moves the filter, by one number or one per axis.
    axes
        The axes to filter; all by default.

    Raises
    ------
    RuntimeError
        If the weights do not fit to the axes, or the mode is unknown, as in SciPy.
    ValueError
        If the origin lies outside of the filter.

    Examples
    --------
    >>> import numpy as np
    >>> correlate(np.eye(2), np.ones((1, 2)), mode="nearest")
    array([[2., 1.],
           [0., 1.]])
    """
    own = conjugate(admit_like(weights, input))
    return _correlate("correlate", input, own, output, mode, cval, origin, axes)


def convolve(
    input: ArrayLike,
    weights: ArrayLike,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Return `correlate` with the weights reversed: `scipy.ndimage.convolve`.

    Parameters
    ----------
    input, weights, output, mode, cval, origin, axes
        As of `correlate`; complex weights are taken as they are.

    Raises
    ------
    RuntimeError, ValueError
        As `correlate` does.

    Examples
    --------
    >>> import numpy as np
    >>> convolve(np.array([0.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """
    return _convolve("convolve", input, weights, output, mode, cval, origin, axes)


def _convolve(
    name: str,
    x: ArrayLike,
    weights: ArrayLike,
    output: npt.DTypeLike | None,
    mode: Any,
    cval: ArrayLike,
    origin: Any,
    axes: int | Sequence[int] | None,
) -> Array:
    """Correlate with the reversed weights, and move their origin accordingly."""
    own = admit_like(weights, x)
    chosen = resolve_axes(axes, len(shape_of(admit(x))))
    # SciPy takes the axes of the weights in ascending order, whatever that of `axes`.
    found = _check_rank(name, own, len(chosen))
    lengths = dict(zip(sorted(chosen), found, strict=True))
    origins = [
        -operator.index(o) - (lengths[axis] % 2 == 0)
        for axis, o in zip(
            chosen, repeat_per_axis(origin, len(chosen), name), strict=True
        )
    ]
    return _correlate(name, x, flip_axes(own), output, mode, cval, origins, axes)


def _check_rank(name: str, weights: Array, rank: int) -> tuple[int, ...]:
    if len(shape_of(weights)) != rank:
        raise RuntimeError(
            f"{name}{blame.user_line()}: filter weights array has incorrect shape:"
            f" {shape_of(weights)}, and {rank} axes are filtered"
        )
    return shape_of(weights)


def _correlate(
    name: str,
    x: ArrayLike,
    weights: ArrayLike,
    output: npt.DTypeLike | None,
    mode: Any,
    cval: ArrayLike,
    origin: Any,
    axes: int | Sequence[int] | None,
) -> Array:
    x, weights = admit(x), admit(weights)
    rank = len(shape_of(x))
    chosen = resolve_axes(axes, rank)
    lengths = _check_rank(name, weights, len(chosen))
    shape = [1] * rank
    for axis, n in zip(sorted(chosen), lengths, strict=True):
        shape[axis] = n
    origins = repeat_per_axis(origin, len(chosen), name)
    kernel = np.reshape(weights, shape)
    return _filter(name, x, kernel, chosen, output, mode, cval, origins)


def correlate1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return `correlate` along one axis: `scipy.ndimage.correlate1d`.

    Parameters
    ----------
    input, output, mode, cval, origin
        As of `correlate`.
    weights
        The weights, with one axis.
    axis
        The axis to filter.

    Raises
    ------
    RuntimeError, ValueError
        As `correlate` does.

    Examples
    --------
    >>> import numpy as np
    >>> correlate1d(np.array([1.0, 5.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    array([ 4.,  1., -3.])
    """
    weights = conjugate(admit_like(weights, input))
    return _correlate("correlate1d", input, weights, output, mode, cval, origin, axis)


def convolve1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return `convolve` along one axis: `scipy.ndimage.convolve1d`.

    Parameters
    ----------
    input, weights, axis, output, mode, cval, origin
        As of `correlate1d`.

    Raises
    ------
    RuntimeError, ValueError
        As `correlate` does.

    Examples
    --------
    >>> import numpy as np
    >>> convolve1d(np.array([1.0, 5.0, 2.0]), np.array([-1.0, 0.0, 1.0]))
    array([-4., -1.,  3.])
    """
    return _convolve("convolve1d", input, weights, output, mode, cval, origin, axis)


# Gaussian and uniform filters of images.


def gaussian_filter1d(
    input: ArrayLike,
    sigma: ArrayLike,
    axis: int = -1,
    order: int = 0,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Array:
    """Filter by a Gaussian or its derivative along an axis, as SciPy's of this name.

    Parameters
    ----------
    input, axis, output, mode, cval
        As of `correlate1d`.
    sigma
        The standard deviation in pixels: a number, or a Tensor of no axis.
    order
        How often the Gaussian is differentiated.
    truncate
        The filter ends after this many standard deviations.
    radius
        Where it ends, in pixels, in place of ``truncate``.

    Raises
    ------
    TraceError
        If ``sigma`` has no value in the trace and ``radius`` is not given: the length
        of the filter depends on it.
    ValueError
        If ``order`` or ``radius`` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_filter1d(np.array([0.0, 1.0, 0.0]), 1.0, radius=1).round(4)
    array([0.2741, 0.4519, 0.2741])
    """
    order = operator.index(order)
    if order < 0:
        raise ValueError(
            f"gaussian_filter1d{blame.user_line()}: order must be non-negative"
        )
    if radius is None:
        value = value_of(sigma)
        if value is None:
            raise TraceError(
                f"gaussian_filter1d{blame.user_line()}: the length of the filter"
                " depends on sigma, which has no value while tracing without values."
                " Give radius= (about 4 * sigma)."
            )
        radius = int(truncate * float(value) + 0.5)
    radius = operator.index(radius)
    if radius < 0:
        raise ValueError(
            f"gaussian_filter1d{blame.user_line()}: radius must be a nonnegative"
            " integer"
        )
    x = admit(input)
    weights = np.flip(_sample_gaussian(x, sigma, order, radius))
    return _correlate("gaussian_filter1d", x, weights, output, mode, cval, 0, axis)


def _sample_gaussian(like: Any, sigma: Any, order: int, radius: int) -> Array:
    """Return the Gaussian at whole numbers, of sum 1, or its derivative."""
    line = np.arange(-radius, radius + 1, like=like).astype(float)
    square = sigma * sigma
    phi = np.exp(line * line * (-0.5 / square))
    phi = phi / np.sum(phi)
    # phi' = -x/sigma**2 phi: the coefficients of the polynomial in front of phi.
    factors: list[Any] = [1.0]
    for _ in range(order):
        raised = [0.0, *(-c / square for c in factors)]
        lowered = [k * c for k, c in enumerate(factors)][1:]
        lowered += [0.0] * (len(raised) - len(lowered))
        factors = [a + b for a, b in zip(raised, lowered, strict=True)]
    front: Any = factors[-1]
    for c in factors[-2::-1]:
        front = front * line + c
    return front * phi


def gaussian_filter(
    input: ArrayLike,
    sigma: ArrayLike,
    order: int | Sequence[int] = 0,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Filter by a Gaussian along several axes: `scipy.ndimage.gaussian_filter`.

    Parameters
    ----------
    input, output, cval, truncate
        As of `gaussian_filter1d`.
    sigma, order, mode, radius
        As of `gaussian_filter1d`, or one for each axis in a list or tuple.
    axes
        The axes to filter; all by default.

    Raises
    ------
    TraceError, ValueError, RuntimeError
        As `gaussian_filter1d` does.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_filter(np.eye(3), (1.0, 0.0)).round(4)
    array([[0.6409, 0.2961, 0.063 ],
           [0.2961, 0.4078, 0.2961],
           [0.063 , 0.2961, 0.6409]])
    """
    x = admit(input)
    chosen = resolve_axes(axes, len(shape_of(x)))
    count = len(chosen)
    columns = [
        repeat_per_axis(v, count, "gaussian_filter")
        for v in (sigma, order, mode, radius)
    ]
    for axis, s, o, m, r in zip(chosen, *columns, strict=True):
        if isinstance(s, Tensor) or s > 1e-15:
            x = gaussian_filter1d(x, s, axis, o, output, m, cval, truncate, radius=r)
    return x if output is None or dtype_of(x) == np.dtype(output) else x.astype(output)


def uniform_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: npt.DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return the mean of ``size`` neighbours: `scipy.ndimage.uniform_filter1d`.

    Parameters
    ----------
    input, axis, output, mode, cval, origin
        As of `correlate1d`.
    size
        The number of neighbours.

    Raises
    ------
    RuntimeError
        If ``size`` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> uniform_filter1d(np.array([3.0, 0.0, 3.0]), 3).round(12)
    array([2., 2., 2.])
    """
    size = operator.index(size)
    if size < 1:
        raise RuntimeError(
            f"uniform_filter1d{blame.user_line()}: incorrect filter size"
        )
    x = admit(input)
    weights = np.full_like(x, 1 / size, dtype=np.dtype(float), shape=(size,))
    return _correlate("uniform_filter1d", x, weights, output, mode, cval, origin, axis)


def uniform_filter(
    input: ArrayLike,
    size: int | Sequence[int] = 3,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Return the mean of neighbours along several axes: `scipy.ndimage.uniform_filter`.

    Parameters
    ----------
    input, output, cval
        As of `uniform_filter1d`.
    size, mode, origin
        As of `uniform_filter1d`, or one for each axis in a list or tuple.
    axes
        The axes to filter; all by default.

    Raises
    ------
    RuntimeError
        As `uniform_filter1d` does.

    Examples
    --------
    >>> import numpy as np
    >>> uniform_filter(np.eye(2), size=(1, 2))
    array([[1. , 0.5],
           [0. , 0.5]])
    """
    x = admit(input)
    chosen = resolve_axes(axes, len(shape_of(x)))
    count = len(chosen)
    columns = [
        repeat_per_axis(v, count, "uniform_filter") for v in (size, mode, origin)
    ]
    for axis, n, m, o in zip(chosen, *columns, strict=True):
        if n > 1:
            x = uniform_filter1d(x, n, axis, output, m, cval, o)
    return x if output is None or dtype_of(x) == np.dtype(output) else x.astype(output)


# Derivatives of images


def _filter_along(
    name: str,
    x: ArrayLike,
    axis: int,
    weights: Sequence[float],
    smooth: Sequence[float],
    output: npt.DTypeLike | None,
    mode: Any,
    cval: ArrayLike,
) -> Array:
    """Correlate with ``weights`` along an axis and with ``smooth`` along all others."""
    x = admit(x)
    rank = len(shape_of(x))
    axis = distinct_axes(axis, rank)[0]
    modes = repeat_per_axis(mode, rank, name)
    y = correlate1d(
        x, convert_like(np.array(weights), x), axis, output, modes[axis], cval
    )
    for other in range(rank):
        if other != axis:
            line = convert_like(np.array(smooth), x)
            y = correlate1d(y, line, other, output, modes[other], cval)
    return y


def sobel(
    input: ArrayLike,
    axis: int = -1,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
) -> Array:
    """Return Sobel's differences along an axis, as `scipy.ndimage.sobel`.

    Examples
    --------
    >>> import numpy as np
    >>> sobel(np.array([0.0, 1.0, 4.0]))
    array([1., 4., 3.])
    """
    return _filter_along(
        "sobel", input, axis, (-1.0, 0.0, 1.0), (1.0, 2.0, 1.0), output, mode, cval
    )


def prewitt(
    input: ArrayLike,
    axis: int = -1,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
) -> Array:
    """Return Prewitt's differences along an axis, as `scipy.ndimage.prewitt`.

    Examples
    --------
    >>> import numpy as np
    >>> prewitt(np.array([0.0, 1.0, 4.0]))
    array([1., 4., 3.])
    """
    return _filter_along(
        "prewitt", input, axis, (-1.0, 0.0, 1.0), (1.0, 1.0, 1.0), output, mode, cval
    )


def laplace(
    input: ArrayLike,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Return the sum of second differences along axes, as `scipy.ndimage.laplace`.

    Examples
    --------
    >>> import numpy as np
    >>> laplace(np.array([0.0, 1.0, 4.0]))
    array([ 1.,  2., -3.])
    """
    x = admit(input)
    chosen = resolve_axes(axes, len(shape_of(x)))
    line = convert_like(np.array([1.0, -2.0, 1.0]), x)
    modes = repeat_per_axis(mode, len(chosen), "laplace")
    parts = [
        correlate1d(x, line, axis, output, m, cval)
        for axis, m in zip(chosen, modes, strict=True)
    ]
    return sum(parts[1:], parts[0])


def _filter_each(
    name: str, order: int, x: ArrayLike, sigma: Any, output: Any, mode: Any, cval: Any,
    axes: Any, more: dict[str, Any],
) -> list[Array]:  # fmt: skip
    """Return a Gaussian's derivatives along each axis in turn."""
    x = admit(x)
    chosen = resolve_axes(axes, len(shape_of(x)))
    count = len(chosen)
    sigmas, modes = (repeat_per_axis(v, count, name) for v in (sigma, mode))
    return [
        gaussian_filter(
            x, sigmas, [order if i == at else 0 for i in range(count)], output, modes,
            cval, axes=chosen, **more,
        )
        for at in range(count)
    ]  # fmt: skip


def gaussian_laplace(
    input: ArrayLike,
    sigma: ArrayLike,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    **kwargs: Any,
) -> Array:
    """Return the sum of a Gaussian filter's second derivatives along axes.

    The arguments are those of `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_laplace(np.array([0.0, 1.0, 0.0]), 1.0, radius=1).round(4)
    array([ 0.    , -0.4519,  0.    ])
    """
    parts = _filter_each(
        "gaussian_laplace", 2, input, sigma, output, mode, cval, axes, kwargs
    )
    return sum(parts[1:], parts[0])


def gaussian_gradient_magnitude(
    input: ArrayLike,
    sigma: ArrayLike,
    output: npt.DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    **kwargs: Any,
) -> Array:
    """Return the length of a Gaussian filter's gradient, of slope 0 where it is 0.

    The arguments are those of `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> gaussian_gradient_magnitude(np.array([0.0, 1.0, 0.0]), 1.0, radius=1).round(4)
    array([0.2741, 0.    , 0.2741])
    """
    name = "gaussian_gradient_magnitude"
    parts = _filter_each(name, 1, input, sigma, output, mode, cval, axes, kwargs)
    return root(sum((p * p for p in parts[1:]), parts[0] * parts[0]))


defer_functions(globals(), __all__, dict.fromkeys(__all__, shape_of_first))
