"""What ufuncs do besides being called plainly: methods and keyword arguments.

`np.add.reduce` is `np.sum`, `np.multiply.accumulate` is `np.cumprod`, and so on;
`dtype=` casts the operands. ``out=`` and ``where=`` write into arrays that exist,
which a traced program cannot do, and say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import TraceError
from workbench.graph import blame
from workbench.graph.op import FUNCTIONS, UFUNCS, load
from workbench.graph.tensor import admit, apply
from workbench.graph.types import weak
from workbench.ops.complex_parts import sign
from workbench.ops.define import no_out, shape_of
from workbench.ops.reductions import logsumexp
from workbench.ops.rounding import frexp, modf
from workbench.ops.shaping import normal_axis

__all__ = ["CALLS"]

Ufunc = Any


def _answer(
    ufunc: Ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Answer every use of a ufunc that is not a plain call of a known op."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:  # not one of SciPy's
        name = f"np.{name}"
    if method == "at":
        raise TraceError(
            f"{name}.at{blame.here()} writes in place, and the gradient would be lost."
            " Write x = wb.at(x)[i].add(v), or .multiply, .min, .max, .set."
        )
    no_out(
        name if method == "__call__" else f"{name}.{method}", settings.pop("out", None)
    )
    answer = METHODS.get(method)
    if answer is None:
        raise _unknown(ufunc, f".{method}")
    return answer(ufunc, name, *inputs, **settings)


FUNCTIONS["ufunc"] = _answer


def _unknown(ufunc: Ufunc, part: str = "") -> Exception:
    error: Exception = FUNCTIONS["unknown"](ufunc, part)
    return error


# A call: with keyword arguments, or of a ufunc that is written with other ops


def _call(
    ufunc: Ufunc,
    name: str,
    *inputs: Any,
    where: Any = True,
    dtype: Any = None,
    **settings: Any,
) -> Any:
    if where is not True:
        raise TraceError(
            f"{name}(..., where=...){blame.here()} leaves memory as it was where the"
            f" condition fails, which a traced value does not have. Write"
            f" np.where(condition, {name}(...), 0)."
        )
    named = {}
    if ufunc is np.vecdot and "axis" in settings:
        named["axis"] = settings.pop("axis")
    for setting in ("signature", "axes", "axis", "keepdims"):
        if settings.get(setting) is not None:
            raise _unknown(ufunc, f"(..., {setting}=...)")
    if dtype is not None:
        arrays = tuple(map(admit, inputs))
        inputs = tuple(x if weak(x) else x.astype(dtype) for x in arrays)
    if ufunc in UFUNCS:
        return apply(UFUNCS[ufunc], inputs)
    if ufunc in CALLS:
        return CALLS[ufunc](*inputs, **named)
    if load(ufunc):
        return _call(ufunc, name, *inputs, dtype=dtype, **named)
    raise _unknown(ufunc)


CALLS: dict[Ufunc, Callable[..., Any]] = {
    np.divmod: lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)),
    np.sign: sign,
    np.frexp: frexp,
    np.modf: modf,
}


# reduce


def _reduce(
    ufunc: Ufunc,
    name: str,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    if dtype is not None:
        array = np.astype(array, dtype)
    more = {} if initial is None else {"initial": initial}
    if ufunc in REDUCTIONS:
        return REDUCTIONS[ufunc](
            array, axis=axis, keepdims=keepdims, where=where, **more
        )
    if ufunc is not np.logaddexp and ufunc not in ASSOCIATIVE:
        raise _unknown(ufunc, ".reduce")
    if where is not True:
        if ufunc is not np.logaddexp:
            raise _unknown(ufunc, ".reduce(..., where=...)")
        array = np.where(where, array, -np.inf)
    if ufunc is np.logaddexp:
        y = logsumexp(array, axis=axis, keepdims=keepdims)
    else:
        y = _halved(ufunc, array, axis, keepdims)
    return y if initial is None else ufunc(y, initial)


def _halved(ufunc: Ufunc, x: Any, axis: Any, keepdims: bool) -> Any:
    """Reduce along one axis by halves: few and large operations."""
    rank = len(shape_of(x))
    if axis is None and rank > 1:
        x = np.ravel(x)
        y = _halved(ufunc, x, 0, False)
        return np.reshape(y, (1,) * rank) if keepdims else y
    (axis,) = axis if isinstance(axis, tuple) else (axis or 0,)
    y = np.moveaxis(x, normal_axis(axis, rank), 0)
    if ufunc is np.hypot:  # of one entry its size, of none 0
        if shape_of(y)[0] == 0:
            return np.sum(x, axis=axis, keepdims=keepdims)
        y = np.abs(y) if shape_of(y)[0] == 1 else y
    while (length := shape_of(y)[0]) > 1:
        half = length // 2
        pairs = ufunc(y[:half], y[half : 2 * half])
        y = pairs if length % 2 == 0 else np.concatenate([pairs, y[2 * half :]])
    return np.expand_dims(y[0], axis) if keepdims else y[0]


REDUCTIONS: dict[Ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
ASSOCIATIVE = {np.fmax, np.fmin, np.hypot, np.logaddexp, np.logaddexp2}


# accumulate


def _accumulate(
    ufunc: Ufunc,
    name: str,
    array: Any,
    axis: int = 0,
    dtype: Any = None,
    out: None = None,
) -> Any:
    if dtype is not None:
        array = np.astype(array, dtype)
    if ufunc is np.add:
        return np.cumsum(array, axis=axis)
    if ufunc is np.multiply:
        return np.cumprod(array, axis=axis)
    if ufunc not in ASSOCIATIVE | {np.maximum, np.minimum}:
        raise _unknown(ufunc, ".accumulate")
    # Each step takes in twice as many entries: log2(n) steps and no loop over n.
    y = np.moveaxis(array, axis, 0)
    reach, length = 1, shape_of(y)[0]
    while reach < length:
        y = np.concatenate([y[:reach], ufunc(y[:-reach], y[reach:])])
        reach *= 2
    return np.moveaxis(y, 0, axis)


def _outer(ufunc: Ufunc, name: str, a: Any, b: Any, **settings: Any) -> Any:
    a, b = admit(a), admit(b)
    tall = np.reshape(a, shape_of(a) + (1,) * len(shape_of(b)))
    return _call(ufunc, name, tall, b, **settings)


METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
}
