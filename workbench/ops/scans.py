"""Running sums and products, differences, `gradient`, `trapezoid`, `interp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import dims
from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, ArrayLike, Axis
from workbench.ops import define
from workbench.ops.define import op
from workbench.ops.elementwise import stop_gradient
from workbench.ops.shaping import (
    broadcast_to,
    lay_like,
    moveaxis,
    normal_axes,
    normal_axis,
)
from workbench.ops.taking import take


def _run_backwards(function: Callable[..., Any], g: Array, axis: int) -> Array:
    """Return the same running function, from the end to the start."""
    return np.flip(function(np.flip(g, axis), axis=axis), axis)


# cumsum


CUMSUM = define.linear(
    "cumsum",
    np.cumsum,
    lambda g, x, *, axis: _run_backwards(np.cumsum, g, axis),
    rule="g summed from the end",
    batch="shifted",
    lengths=define.shape_of_first,
    kind="running",
    combines=np.add,
    sums=True,
    grows=True,
    analytic=True,
)


# cumprod: a backward linear recurrence, right where entries are 0


def _cumprod_pull(g: Array, y: Array, x: Array, *, axis: int) -> Array:
    """Return ``before * later``: ``later[i] = g[i] + x[i + 1] * later[i + 1]``."""
    line, up = moveaxis(x, axis, 0), moveaxis(g, axis, 0)
    length = define.shape_of(line)[0]
    if length == 0:
        return g
    one = np.ones_like(line[:1])
    before = np.concatenate([one, moveaxis(y, axis, 0)[:-1]])
    # Affine maps compose: each step doubles how many are taken in.
    factor, later, reach = np.concatenate([line[1:], 0 * one]), up, 1
    while reach < length:
        later = np.concatenate(
            [later[:-reach] + factor[:-reach] * later[reach:], later[-reach:]]
        )
        factor = np.concatenate([factor[:-reach] * factor[reach:], factor[-reach:]])
        reach *= 2
    return moveaxis(before * later, 0, axis)


def _cumprod_push(tangents: tuple[Any, ...], y: Array, x: Array, *, axis: int) -> Array:
    """Solve ``t[i] = t[i - 1] * x[i] + y[i - 1] * moved[i]`` by doubling."""
    line, moved = moveaxis(x, axis, 0), moveaxis(tangents[0], axis, 0)
    length = define.shape_of(line)[0]
    if length == 0:
        return tangents[0]
    one = np.ones_like(line[:1])
    before = np.concatenate([one, moveaxis(y, axis, 0)[:-1]])
    factor, t, reach = line, before * moved, 1
    while reach < length:
        t = np.concatenate([t[:reach], t[reach:] + factor[reach:] * t[:-reach]])
        factor = np.concatenate([factor[:reach], factor[reach:] * factor[:-reach]])
        reach *= 2
    return moveaxis(t, 0, axis)


CUMPROD = op(
    "cumprod",
    np.cumprod,
    _cumprod_pull,
    push=_cumprod_push,
    rule="g times the product of the others, summed from the end",
    reads=(0, "y"),
    batch="shifted",
    lengths=define.shape_of_first,
    kind="running",
    combines=np.multiply,
    grows=True,
)


def _check_single_axis(x: Array, axis: int | None) -> Array:
    """Require an axis where there are several, as the array API does."""
    x = admit(x)
    if len(define.shape_of(x)) == 0:
        x = np.reshape(x, (1,))
    elif axis is None and len(define.shape_of(x)) > 1:
        raise ValueError(
            "For arrays which have more than one dimension ``axis`` argument is"
            " required."
        )
    return x


def _answer_running(op: Op, standard: str, first: int) -> None:
    """Answer NumPy's function, and the standard's that may begin with ``first``."""

    @implements(getattr(np, op.name))
    def running(
        a: Array,
        axis: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        *,
        include_initial: bool = False,
    ) -> Array:
        if dtype is not None:
            a = define.convert_dtype(a, dtype)
        if axis is None or (define.shape_of(a) == () and axis in (0, -1)):
            a, axis = np.ravel(a), 0
        axis = normal_axis(axis, len(define.shape_of(a)))
        y = apply(op, (a,), {"axis": axis})
        if not include_initial:
            return y
        lengths = define.shape_of(y)
        one = np.full_like(y, first, shape=(*lengths[:axis], 1, *lengths[axis + 1 :]))
        return np.concatenate([one, y], axis)

    @implements(getattr(np, standard))
    def single(x: Array, /, *, axis: int | None = None, **settings: Any) -> Array:
        return running(_check_single_axis(x, axis), axis, **settings)


_answer_running(CUMSUM, "cumulative_sum", 0)
_answer_running(CUMPROD, "cumulative_prod", 1)


# Differences along an axis, and what is made of them: `gradient`, `trapezoid`.
#
# `interp` is linear in the values and differentiable in the places too; at a knot it
# has the slope of the piece that NumPy takes, the one to the right.


def _index_along(axis: int, part: Any) -> tuple[Any, ...]:
    """Return the index that takes ``part`` of one axis."""
    return (slice(None),) * axis + (part,)


def _lay_along(x: Array, axis: int, rank: int) -> Array:
    """Return a vector that lies along one axis of an array."""
    return np.reshape(x, tuple(-1 if i == axis else 1 for i in range(rank)))


# diff, ediff1d, unwrap


@implements(np.diff)
def diff(
    a: Array, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Array:
    """Return differences of neighbours along an axis, as `numpy.diff` does."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a, prepend, append = admit(a), admit(prepend), admit(append)
    rank = len(define.shape_of(a))
    if rank == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    if n == 0:
        return a
    axis = normal_axis(axis, rank)
    one = tuple(1 if i == axis else k for i, k in enumerate(define.shape_of(a)))
    ends = [
        x if x is None or define.shape_of(x) else broadcast_to(_as_array(x, a), one)
        for x in (prepend, append)
    ]
    parts = [x for x in (ends[0], a, ends[1]) if x is not None]
    y = parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
    differ = np.not_equal if define.dtype_of(y).kind == "b" else np.subtract
    for _ in range(n):
        y = differ(
            y[_index_along(axis, slice(1, None))], y[_index_along(axis, slice(-1))]
        )
    return y


def _as_array(x: Any, like: Any) -> Array:
    """Return a number as an array, in the dtype that NumPy chooses."""
    return x if hasattr(x, "dtype") else np.asarray(x, like=like)


@implements(np.ediff1d)
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Return differences of neighbours, flattened, as `numpy.ediff1d` does."""
    line = np.ravel(admit(ary))
    y = line[1:] - line[:-1]
    ends = []
    for name, x in (("to_begin", to_begin), ("to_end", to_end)):
        if x is None:
            continue
        x = np.ravel(_as_array(admit(x), line))
        if not np.can_cast(
            define.dtype_of(x), define.dtype_of(line), casting="same_kind"
        ):
            raise TypeError(
                f"dtype of `{name}` must be compatible with input `ary` under the"
                " `same_kind` rule."
            )
        ends.append((name, x.astype(define.dtype_of(line))))
    if not ends:
        return y
    before = [x for name, x in ends if name == "to_begin"]
    return np.concatenate([*before, y, *[x for n, x in ends if n == "to_end"]])


@implements(np.unwrap)
def unwrap(
    p: Array,
    discont: float | None = None,
    axis: int = -1,
    *,
    period: float = 2 * np.pi,
) -> Array:
    """Add whole periods, which have no derivative, where a phase jumps."""
    p = admit(p)
    axis = normal_axis(axis, len(define.shape_of(p)))
    step = np.diff(stop_gradient(p), axis=axis)
    if discont is None:
        discont = period / 2
    if np.result_type(define.dtype_of(step), period).kind in "iu":
        high, rest = divmod(period, 2)
        ambiguous = rest == 0
    else:
        high, ambiguous = period / 2, True
    inside = np.remainder(step + high, period) - high
    if ambiguous:  # half a period up stays up
        inside = np.where((inside == -high) & (step > 0), high, inside)
    turns = np.where(np.abs(step) < discont, 0, inside - step)
    first = p[_index_along(axis, slice(1))]
    rest = p[_index_along(axis, slice(1, None))] + np.cumsum(turns, axis=axis)
    y = np.concatenate([first.astype(define.dtype_of(rest)), rest], axis)
    return lay_like(y, p)


# gradient


def _slopes(f: Array, axis: int, step: Any, edge_order: int) -> Array:
    """Return second-order differences along one axis, one-sided at its ends.

    Of three points with steps a and b the derivative of the parabola: at the middle
    ``(a**2 f2 + (b**2 - a**2) f1 - b**2 f0) / (a b (a + b))``. B. Fornberg,
    "Generation of finite difference formulas on arbitrarily spaced grids" (1988).
    """
    rank = len(define.shape_of(f))

    def part(start: int | None, stop: int | None) -> Array:
        return f[_index_along(axis, slice(start, stop))]

    if np.ndim(step) == 0:
        middle = (part(2, None) - part(None, -2)) / (2.0 * step)
        a = b = c = d = step
    else:
        step = _lay_along(step, axis, rank)

        def cut(start: int | None, stop: int | None) -> Array:
            return step[_index_along(axis, slice(start, stop))]

        a, b = cut(None, -1), cut(1, None)
        middle = (
            -b / (a * (a + b)) * part(None, -2)
            + (b - a) / (a * b) * part(1, -1)
            + a / (b * (a + b)) * part(2, None)
        )
        a, b, c, d = cut(0, 1), cut(1, 2), cut(-2, -1), cut(-1, None)
    if edge_order == 1:
        first = (part(1, 2) - part(0, 1)) / a
        last = (part(-1, None) - part(-2, -1)) / d
    else:
        first = (
            -(2.0 * a + b) / (a * (a + b)) * part(0, 1)
            + (a + b) / (a * b) * part(1, 2)
            - a / (b * (a + b)) * part(2, 3)
        )
        last = (
            d / (c * (c + d)) * part(-3, -2)
            - (c + d) / (c * d) * part(-2, -1)
            + (2.0 * d + c) / (d * (c + d)) * part(-1, None)
        )
    return np.concatenate([first, middle, last], axis)


@implements(np.gradient)
def gradient(
    f: Array, *varargs: Any, axis: Axis = None, edge_order: int = 1
) -> Array | tuple[Array, ...]:
    """Estimate slopes by differences along axes, differentiable in the spacing too."""
    f = admit(f)
    shape = define.shape_of(f)
    axes = tuple(range(len(shape))) if axis is None else normal_axes(axis, len(shape))
    given = [admit(x) for x in varargs]
    if not given:
        steps: list[Any] = [1.0] * len(axes)
    elif len(given) == 1 and np.ndim(given[0]) == 0:
        steps = given * len(axes)
    elif len(given) == len(axes):
        steps = [_spacing(x, shape[n]) for x, n in zip(given, axes, strict=True)]
    else:
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if define.dtype_of(f).kind not in "fc":
        f = f.astype(np.float64)
    found = []
    for n, step in zip(axes, steps, strict=True):
        if dims.is_always_less(shape[n], edge_order + 1):
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least"
                " (edge_order + 1) elements are required."
            )
        slopes = _slopes(f, n, step, edge_order)
        same = define.dtype_of(slopes) == define.dtype_of(f)
        found.append(lay_like(slopes if same else slopes.astype(define.dtype_of(f)), f))
    return found[0] if len(axes) == 1 else tuple(found)


def _spacing(x: Array, length: int) -> Array:
    if np.ndim(x) == 0:
        return x
    if np.ndim(x) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if dims.always_differ(define.shape_of(x), (length,)):
        raise ValueError(
            "when 1d, distances must match the length of the corresponding dimension"
        )
    return np.diff(x.astype(np.float64) if define.dtype_of(x).kind in "iu" else x)


# trapezoid


@implements(np.trapezoid)
def trapezoid(
    y: Array, x: Array | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integrate along an axis by the trapezoidal rule."""
    y, x = admit(y), None if x is None else admit(x)
    axis = normal_axis(axis, len(define.shape_of(y)))
    if x is None:
        step = dx
    elif len(define.shape_of(x)) == 1:
        step = np.diff(x)
        below = (1,) * (len(define.shape_of(y)) - axis - 1)
        step = np.reshape(step, (*define.shape_of(step), *below))
    else:
        step = np.diff(x, axis=axis)
    middle = (
        y[_index_along(axis, slice(1, None))] + y[_index_along(axis, slice(-1))]
    ) / 2
    return np.sum(step * middle, axis=axis)


# interp


@implements(np.interp)
def interp(
    x: Array,
    xp: Any,
    fp: Any,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Interpolate linearly, differentiable in the places, the knots and the values.

    >>> import numpy as np, workbench as wb
    >>> xp, fp = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0])
    >>> float(wb.grad(np.interp)(2.0, xp, fp))
    0.5
    """
    kind = np.complex128 if define.dtype_of(fp := admit(fp)).kind == "c" else np.float64
    like = next((v for v in (x, xp, fp) if hasattr(v, "dtype")), fp)
    x, xp = (
        _as_array(define.admit_like(v, like), like).astype(np.float64) for v in (x, xp)
    )
    fp = define.convert_like(fp, like).astype(kind)
    if len(define.shape_of(xp)) != 1 or len(define.shape_of(fp)) != 1:
        raise ValueError("Data points must be 1-D sequences")
    length = define.shape_of(xp)[0]
    if dims.always_differ((length,), define.shape_of(fp)):
        raise ValueError("fp and xp are not of the same length.")
    if dims.is_zero_length(length):
        raise ValueError("array of sample points is empty")
    if period is not None:
        if not hasattr(period, "dtype") and period == 0:
            raise ValueError("period must be a non-zero value")
        period = np.abs(period)
        left = right = None
        x, xp = np.remainder(x, period), np.remainder(xp, period)
        order = np.argsort(xp)
        xp, fp = take(xp, order), take(fp, order)
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
        length += 2
    first, last = xp[0], xp[-1]
    if dims.is_same_shape((length,), (1,)):
        y = np.broadcast_to(fp[0], define.shape_of(x))
    else:
        k = np.clip(np.searchsorted(xp, x, "right") - 1, 0, dims.largest(length - 2, 0))
        up, width = k + 1, 0
        if not dims.is_always_less(1, length):  # a single knot is its own neighbour
            up = np.minimum(up, length - 1)
            width = np.equal(up, k)
        start, end = take(xp, k), take(xp, up)
        low, high = take(fp, k), take(fp, up)
        y = (high - low) / (end - start + width) * (x - start) + low
    y = np.where(x < first, fp[0] if left is None else left, y)
    return np.where(x > last, fp[-1] if right is None else right, y)
