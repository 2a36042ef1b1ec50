"""Evenly spaced numbers: `linspace`, and its powers `logspace` and `geomspace`."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit, apply, value_of
from workbench.ops.define import aligned, dtype_of, op, shape_of
from workbench.ops.reductions import promote_half, wide_dtype
from workbench.ops.values import placed

__all__: list[str] = []

Params = dict[str, Any]


# linspace: linear in both ends, with NumPy's own values


def _shares(num: int, endpoint: bool, like: Any, rank: int) -> Any:
    """How much of the way to the stop each number has gone."""
    parts = num - 1 if endpoint else num
    line = np.arange(num, like=like).astype(wide_dtype(like)) / max(parts, 1)
    return np.reshape(line, (num, *(1,) * rank))


def _compute(start: Any, stop: Any, *, num: int, endpoint: bool = True) -> Any:
    return np.linspace(start, stop, num, endpoint=endpoint)  # host array: of numbers


def _pull(part: int) -> Any:
    def pull(
        g: Any, y: Any, start: Any, stop: Any, *, num: int, endpoint: bool = True
    ) -> Any:
        share = _shares(num, endpoint, g, len(shape_of(g)) - 1)
        # Summed over the line; the sweep sums over what was broadcast.
        return np.sum(g * (share if part else 1 - share), axis=0)

    return pull


def _push(tangents: tuple[Any, ...], y: Any, *ends: Any, **params: Any) -> Any:
    moved = [
        np.zeros_like(y, shape=shape_of(x)) if t is None else promote_half(t)
        for x, t in zip(ends, tangents, strict=True)
    ]
    return apply(LINSPACE, tuple(moved), params)


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Any:
    return np.moveaxis(apply(LINSPACE, aligned(inputs, batched), params), 1, 0)


LINSPACE = op(
    "linspace",
    _compute,
    _pull(0),
    _pull(1),
    push=_push,
    batch=_batch,
    rule="Σ g (1 − t)   Σ g t",
    reads=(),
)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`numpy.linspace`, differentiable in both ends."""
    start, stop, num = admit(start), admit(stop), operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    params: Params = {"num": num} if endpoint else {"num": num, "endpoint": False}
    y = apply(LINSPACE, (start, stop), params)
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    if dtype is not None:
        y = np.floor(y) if np.dtype(dtype).kind in "iu" else y
        y = y.astype(dtype)
    if not retstep:
        return y
    parts = num - 1 if endpoint else num
    if parts <= 0:
        return y, np.nan
    step = stop - start
    return y, (promote_half(step) / parts).astype(dtype_of(step))


@implements(np.logspace)
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`numpy.logspace`, differentiable in both ends and in the base."""
    start, stop, base = admit(start), admit(stop), admit(base)
    if len(shape_of(base)):
        rank = max(len(shape_of(x)) for x in (start, stop, base))
        start, stop, base = (
            placed(np.reshape(x, (1,) * (rank - len(shape_of(x))) + shape_of(x)), base)
            for x in (start, stop, base)
        )
        base = np.expand_dims(base, axis)
    y = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


@implements(np.geomspace)
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`numpy.geomspace`, differentiable in both ends."""
    start, stop, num = admit(start), admit(stop), operator.index(num)
    for x in (start, stop):
        value = value_of(x)
        if value is not None and bool(np.any(np.equal(value, 0))):
            raise ValueError("Geometric sequence cannot include zero")
    # NumPy computes in double precision at least, if no dtype is given.
    kind = np.result_type(start, stop, 1.0, np.float64 if dtype is None else dtype)
    like = start if hasattr(start, "dtype") else stop
    start, stop = (_whole(x, like).astype(kind) for x in (start, stop))
    # Turned so that the start is positive: the others keep their angle to it.
    turn = np.sign(start)
    first, last = start / turn, stop / turn
    y = logspace(np.log10(first), np.log10(last), num, endpoint)
    # The ends are what was given, to the last digit.
    one = (1, *shape_of(y)[1:])
    parts = [np.broadcast_to(first, one), y[1:]]
    if endpoint and num > 1:
        parts = [parts[0], y[1:-1], np.broadcast_to(last, one)]
    if num > 0:
        y = np.concatenate(parts)
    y = y * turn
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    return y if dtype is None else y.astype(dtype)


def _whole(x: Any, like: Any) -> Any:
    """A number as an array of the library of the other end."""
    return x if hasattr(x, "astype") else placed(np.asarray(x), like)  # host array: no
