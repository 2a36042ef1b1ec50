"""Running sums and products, and differences along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.graph.op import Op, implements
from workbench.graph.tensor import admit, apply
from workbench.ops.define import dtype_of, linear, no_out, op, shape_of
from workbench.ops.shaping import normal_axis

__all__: list[str] = []

Params = dict[str, Any]


def _batch(made: Op) -> Callable[..., Any]:
    def batch(inputs: Any, batched: tuple[bool, ...], params: Params) -> Any:
        return apply(made, inputs, {"axis": params["axis"] + 1})

    return batch


def _backwards(function: Any, g: Any, axis: int) -> Any:
    """The same running function, from the end to the start."""
    return np.flip(function(np.flip(g, axis), axis=axis), axis)


# cumsum


def _cumsum_compute(x: Any, *, axis: int) -> Any:
    return np.cumsum(x, axis=axis)


CUMSUM = linear(
    "cumsum",
    _cumsum_compute,
    lambda g, x, *, axis: _backwards(np.cumsum, g, axis),
    rule="g summed from the end",
)
CUMSUM.batch = _batch(CUMSUM)


# cumprod: a backward linear recurrence, right where entries are 0


def _cumprod_compute(x: Any, *, axis: int) -> Any:
    return np.cumprod(x, axis=axis)


def _cumprod_pull(g: Any, y: Any, x: Any, *, axis: int) -> Any:
    """``before[i] * later[i]`` with ``later[i] = g[i] + x[i + 1] * later[i + 1]``."""
    line, up = np.moveaxis(x, axis, 0), np.moveaxis(g, axis, 0)
    length = shape_of(line)[0]
    if length == 0:
        return g
    one = np.ones_like(line[:1])
    before = np.concatenate([one, np.moveaxis(y, axis, 0)[:-1]])
    # Affine maps compose: each step doubles how many are taken in.
    factor, later, reach = np.concatenate([line[1:], 0 * one]), up, 1
    while reach < length:
        later = np.concatenate(
            [later[:-reach] + factor[:-reach] * later[reach:], later[-reach:]]
        )
        factor = np.concatenate([factor[:-reach] * factor[reach:], factor[-reach:]])
        reach *= 2
    return np.moveaxis(before * later, 0, axis)


def _cumprod_push(tangents: Any, y: Any, x: Any, *, axis: int) -> Any:
    """``t[i] = t[i - 1] * x[i] + y[i - 1] * moved[i]``, doubled likewise."""
    line, moved = np.moveaxis(x, axis, 0), np.moveaxis(tangents[0], axis, 0)
    length = shape_of(line)[0]
    if length == 0:
        return tangents[0]
    one = np.ones_like(line[:1])
    before = np.concatenate([one, np.moveaxis(y, axis, 0)[:-1]])
    factor, t, reach = line, before * moved, 1
    while reach < length:
        t = np.concatenate([t[:reach], t[reach:] + factor[reach:] * t[:-reach]])
        factor = np.concatenate([factor[:reach], factor[reach:] * factor[:-reach]])
        reach *= 2
    return np.moveaxis(t, 0, axis)


CUMPROD = op(
    "cumprod",
    _cumprod_compute,
    _cumprod_pull,
    push=_cumprod_push,
    rule="g times the product of the others, summed from the end",
    reads=(0, "y"),
)
CUMPROD.batch = _batch(CUMPROD)


def _running(
    made: Op, x: Any, axis: int | None, dtype: Any, out: Any, initial: Any = None
) -> Any:
    no_out(f"np.{made.name}", out)
    if dtype is not None:
        x = np.astype(x, dtype)
    if axis is None:
        x, axis = np.ravel(x), 0
    axis = normal_axis(axis, max(len(shape_of(x)), 1))
    y = apply(made, (x,), {"axis": axis})
    if initial is None:
        return y
    first = np.ones_like(y[(slice(None),) * axis + (slice(1),)]) * initial
    return np.concatenate([first, y], axis)


@implements(np.cumsum)
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """`numpy.cumsum`."""
    return _running(CUMSUM, a, axis, dtype, out)


@implements(np.cumprod)
def cumprod(
    a: Any, axis: int | None = None, dtype: Any = None, out: None = None
) -> Any:
    """`numpy.cumprod`; its derivative is right where entries are 0."""
    return _running(CUMPROD, a, axis, dtype, out)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Any:
    """`numpy.cumulative_sum`."""
    return _running(CUMSUM, x, axis, dtype, out, 0 if include_initial else None)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Any:
    """`numpy.cumulative_prod`."""
    return _running(CUMPROD, x, axis, dtype, out, 1 if include_initial else None)


@implements(np.diff)
def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Any:
    """`numpy.diff`."""
    a, prepend, append = admit(a), admit(prepend), admit(append)
    axis = normal_axis(axis, len(shape_of(a)))
    first = a[(slice(None),) * axis + (slice(1),)]
    ends = [
        x if x is None or shape_of(x) else np.zeros_like(first, dtype=dtype_of(x)) + x
        for x in (prepend, append)
    ]
    parts = [x for x in (ends[0], a, ends[1]) if x is not None]
    y = parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
    whole = (slice(None),) * axis
    for _ in range(n):
        y = y[(*whole, slice(1, None))] - y[(*whole, slice(-1))]
    return y


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """`numpy.trapezoid`: the trapezoidal rule."""
    y, x = admit(y), admit(x)
    axis = normal_axis(axis, len(shape_of(y)))
    if x is None:
        step = dx
    elif len(shape_of(x)) == 1:
        below = (1,) * (len(shape_of(y)) - axis - 1)
        step = np.diff(x)
        step = np.reshape(step, (*shape_of(step), *below))
    else:
        step = np.diff(x, axis=axis)
    whole = (slice(None),) * axis
    middle = (y[(*whole, slice(1, None))] + y[(*whole, slice(-1))]) / 2
    return np.sum(step * middle, axis=axis)
