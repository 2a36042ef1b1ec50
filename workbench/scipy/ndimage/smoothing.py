"""Gaussian and uniform filters of images; `ndimage.py` gives SciPy's names."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, admit, value_of
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, shape_of
from workbench.scipy.ndimage.kernels import along_axis, chosen_axes, one_per_axis

__all__ = [
    "gaussian_filter",
    "gaussian_filter1d",
    "uniform_filter",
    "uniform_filter1d",
]


def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Any:
    """`scipy.ndimage.gaussian_filter1d`: a Gaussian, or its derivative, along an axis.

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
        raise ValueError(f"gaussian_filter1d{blame.here()}: order must be non-negative")
    if radius is None:
        value = value_of(sigma)
        if value is None:
            raise TraceError(
                f"gaussian_filter1d{blame.here()}: the length of the filter depends on"
                " sigma, which has no value while tracing without values. Give radius="
                " (about 4 * sigma)."
            )
        radius = int(truncate * float(value) + 0.5)
    radius = operator.index(radius)
    if radius < 0:
        raise ValueError(
            f"gaussian_filter1d{blame.here()}: radius must be a nonnegative integer"
        )
    x = admit(input)
    weights = np.flip(_gaussian(x, sigma, order, radius))
    return along_axis("gaussian_filter1d", x, weights, axis, output, mode, cval, 0)


def _gaussian(like: Any, sigma: Any, order: int, radius: int) -> Any:
    """The Gaussian at whole numbers, of sum 1, or its derivative."""
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
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """`scipy.ndimage.gaussian_filter`: `gaussian_filter1d` along several axes.

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
    chosen = chosen_axes(axes, len(shape_of(x)))
    count = len(chosen)
    columns = [
        one_per_axis(v, count, "gaussian_filter") for v in (sigma, order, mode, radius)
    ]
    for axis, s, o, m, r in zip(chosen, *columns, strict=True):
        if isinstance(s, Tensor) or s > 1e-15:
            x = gaussian_filter1d(x, s, axis, o, output, m, cval, truncate, radius=r)
    return x if output is None or dtype_of(x) == np.dtype(output) else x.astype(output)


def uniform_filter1d(
    input: Any,
    size: int,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """`scipy.ndimage.uniform_filter1d`: the mean of ``size`` neighbours.

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
        raise RuntimeError(f"uniform_filter1d{blame.here()}: incorrect filter size")
    x = admit(input)
    weights = np.full_like(x, 1 / size, dtype=np.dtype(float), shape=(size,))
    return along_axis("uniform_filter1d", x, weights, axis, output, mode, cval, origin)


def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """`scipy.ndimage.uniform_filter`: `uniform_filter1d` along several axes.

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
    chosen = chosen_axes(axes, len(shape_of(x)))
    count = len(chosen)
    columns = [one_per_axis(v, count, "uniform_filter") for v in (size, mode, origin)]
    for axis, n, m, o in zip(chosen, *columns, strict=True):
        if n > 1:
            x = uniform_filter1d(x, n, axis, output, m, cval, o)
    return x if output is None or dtype_of(x) == np.dtype(output) else x.astype(output)
