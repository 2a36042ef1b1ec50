"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.ops.define import linear, no_out, op, shape_of
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
    if axis is None or (shape_of(x) == () and axis in (0, -1)):
        x, axis = np.ravel(x), 0
    axis = normal_axis(axis, len(shape_of(x)))
    y = apply(made, (x,), {"axis": axis})
    if initial is None:
        return y
    one = tuple(1 if i == axis else n for i, n in enumerate(shape_of(y)))
    return np.concatenate([np.full_like(y, initial, shape=one), y], axis)


def _single(x: Any, axis: int | None) -> Any:
    """Of many axes one must be named, where the standard's functions ask for it."""
    x = admit(x)
    if len(shape_of(x)) == 0:
        x = np.reshape(x, (1,))
    elif axis is None and len(shape_of(x)) > 1:
        raise ValueError(
            "For arrays which have more than one dimension ``axis`` argument is"
            " required."
        )
    return x


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
    first = 0 if include_initial else None
    return _running(CUMSUM, _single(x, axis), axis, dtype, out, first)


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
    first = 1 if include_initial else None
    return _running(CUMPROD, _single(x, axis), axis, dtype, out, first)
