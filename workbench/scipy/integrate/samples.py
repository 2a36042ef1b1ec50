"""Integrals of samples: `trapezoid`, `cumulative_trapezoid`, `simpson`.

Their public home is `workbench.scipy.integrate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame, types
from workbench.core.tensor import admit
from workbench.errors import ShapeError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.shaping import normal_axis

__all__ = ["cumulative_trapezoid", "simpson", "trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.trapezoid`: the integral of samples, joined by lines.

    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import trapezoid
    >>> wb.grad(trapezoid)(np.array([1.0, 2.0, 4.0]))
    array([0.5, 1. , 0.5])
    """
    y, step = _samples(y, x, dx, axis)
    return np.sum(step * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """`scipy.integrate.cumulative_trapezoid`: the integral up to each sample.

    >>> import numpy as np
    >>> from workbench.scipy.integrate import cumulative_trapezoid
    >>> cumulative_trapezoid(np.array([1.0, 2.0, 4.0]), initial=0)
    array([0. , 1.5, 4.5])
    """
    if initial is not None and initial != 0:
        raise UsageError(
            f"cumulative_trapezoid: initial={initial!r}{blame.here()}. It is 0 or None."
        )
    rank = len(shape_of(_array(y)))
    y, step = _samples(y, x, dx, axis)
    made = np.cumsum(step * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    if initial is not None:
        made = np.concatenate([np.zeros_like(y[..., :1]), made], axis=-1)
    return np.moveaxis(made, -1, normal_axis(axis, rank))


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.simpson`: the integral of samples, joined by parabolas.

    For an even number of samples the last interval is that of the parabola
    through the last three (Cartwright, *Simpson's rule cumulative integration with
    MS Excel and irregularly-spaced data*, 2017, eq. 8).

    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import simpson
    >>> 3 * wb.grad(simpson)(np.ones(5))
    array([1., 4., 2., 4., 1.])
    """
    y, step = _samples(y, x, dx, axis)
    count = shape_of(y)[-1]
    if count == 1:
        return 0 * y[..., 0]
    if count == 2:
        return _part(step, 0) * (y[..., 0] + y[..., 1]) / 2
    pairs = (count - 1) // 2
    h0, h1 = (_part(step, slice(i, 2 * pairs, 2)) for i in range(2))
    left, middle, right = (y[..., i : i + 2 * pairs - 1 : 2] for i in range(3))
    both = h0 + h1
    total = np.sum(
        both / 6 * (
            left * (2 - h1 / h0) + middle * both**2 / (h0 * h1)
            + right * (2 - h0 / h1)
        ),
        axis=-1,
    )  # fmt: skip
    if count % 2 == 0:
        h0, h1 = _part(step, -2), _part(step, -1)
        both = h0 + h1
        total = (
            total
            + y[..., -1] * (h1 * (2 * h1 + 3 * h0) / (6 * both))
            + y[..., -2] * (h1 * (h1 + 3 * h0) / (6 * h0))
            - y[..., -3] * (h1**3 / (6 * h0 * both))
        )
    return total


def _samples(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """The samples with their axis last, and the steps between them."""
    y = _array(y)
    rank = len(shape_of(y))
    axis = normal_axis(axis, rank)
    y = np.moveaxis(y, axis, -1)
    count = shape_of(y)[-1]
    if x is None:
        return y, dx if types.weak(dx) else _array(dx)
    x = _array(x)
    if len(shape_of(x)) > 1:
        x = np.moveaxis(x, axis, -1)
    if shape_of(x)[-1] != count:
        raise ShapeError(
            f"{count} samples at {shape_of(x)[-1]} places{blame.here()}: give one place"
            " per sample, along the same axis."
        )
    return y, x[..., 1:] - x[..., :-1]


def _part(step: Any, index: Any) -> Any:
    """Some of the steps; a number where all are alike."""
    return step[..., index] if shape_of(step) else step


def _array(x: Any) -> Any:
    x = admit(x)
    return x if hasattr(x, "shape") else np.asarray(x)
