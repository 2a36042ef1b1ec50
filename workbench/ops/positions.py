"""Functions about positions and memory: integers, or plain answers, no derivative.

`ix_`, `unravel_index` and their like also take Tensors of integers, with or without
values. What asks only for the shape or the dtype of a Tensor answers as NumPy does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.op import implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.errors import ShapeError
from workbench.ops.define import dtype_of, op, shape_of
from workbench.ops.shaping import integers

__all__: list[str] = []


# Indices made of others


@implements(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """`numpy.ix_`."""
    made = []
    for i, part in enumerate(map(admit, args)):
        if len(shape_of(part)) != 1:
            raise ValueError(f"Cross index must be 1 dimensional{blame.here()}")
        if dtype_of(part).kind == "b":
            (part,) = np.nonzero(part)
        line = [1] * len(args)
        line[i] = -1
        made.append(np.reshape(part, tuple(line)))
    return tuple(made)


def _strides(shape: tuple[int, ...], order: str) -> list[int]:
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted{blame.here()}")
    rank = range(len(shape))
    if order == "F":
        return [math.prod(shape[:i]) for i in rank]
    return [math.prod(shape[i + 1 :]) for i in rank]


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """`numpy.unravel_index`."""
    indices, shape = admit(indices), integers(shape)
    _inside(indices, math.prod(shape), "np.unravel_index")
    return tuple(
        np.remainder(np.floor_divide(indices, stride), n)
        for stride, n in zip(_strides(shape, order), shape, strict=True)
    )


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Any:
    """`numpy.ravel_multi_index`."""
    dims = integers(dims)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    total: Any = 0
    parts = list(map(admit, multi_index))
    if len(parts) != len(dims):
        raise ValueError(
            f"np.ravel_multi_index{blame.here()}: {len(parts)} indices for {len(dims)}"
            " lengths"
        )
    for part, n, how, stride in zip(
        parts, dims, modes, _strides(dims, order), strict=True
    ):
        if how == "wrap":
            part = np.remainder(part, n)
        elif how == "clip":
            part = np.clip(part, 0, n - 1)
        else:
            _inside(part, n, "np.ravel_multi_index")
        total = total + part * stride
    return total


def _inside(index: Any, size: int, name: str) -> None:
    if dtype_of(index).kind not in "iu":
        raise TypeError(
            f"{name}{blame.here()}: only int indices permitted, not {dtype_of(index)};"
            " write .astype(int)"
        )
    known = value_of(index)
    if known is not None and np.any((known < 0) | (known >= size)):
        raise ShapeError(f"{name}{blame.here()}: an index is out of bounds for {size}")


@implements(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """`numpy.tril_indices_from`: of the shape alone."""
    return np.tril_indices(_matrix(arr)[0], k, _matrix(arr)[1])


@implements(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """`numpy.triu_indices_from`: of the shape alone."""
    return np.triu_indices(_matrix(arr)[0], k, _matrix(arr)[1])


@implements(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """`numpy.diag_indices_from`: of the shape alone."""
    shape = shape_of(arr)
    if len(shape) < 2:
        raise ValueError(f"input array must be at least 2-d{blame.here()}")
    if len(set(shape)) > 1:
        raise ValueError(
            f"All dimensions of input must be of equal length{blame.here()}: {shape}"
        )
    return np.diag_indices(shape[0], len(shape))


def _matrix(arr: Any) -> tuple[int, ...]:
    shape = shape_of(arr)
    if len(shape) != 2:
        raise ValueError(f"input array must be 2-d{blame.here()}, not {shape}")
    return shape


# Bits

PACKBITS = op(
    "packbits",
    lambda x, *, axis=None, bitorder="big": np.packbits(x, axis, bitorder),
)
UNPACKBITS = op(
    "unpackbits",
    lambda x, *, axis=None, count=None, bitorder="big": np.unpackbits(
        x, axis, count, bitorder
    ),
)


@implements(np.packbits)
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Any:
    """`numpy.packbits`."""
    return apply(PACKBITS, (admit(a),), {"axis": axis, "bitorder": bitorder})


@implements(np.unpackbits)
def unpackbits(
    a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """`numpy.unpackbits`."""
    params = {"axis": axis, "count": count, "bitorder": bitorder}
    return apply(UNPACKBITS, (admit(a),), params)


# Questions about arrays, answered plainly


@implements(np.may_share_memory)
def may_share_memory(a: Any, b: Any, max_work: int = 0) -> bool:
    """`numpy.may_share_memory`, of the arrays that Tensors hold."""
    return _shared(np.may_share_memory, a, b, max_work)


@implements(np.shares_memory)
def shares_memory(a: Any, b: Any, max_work: int = -1) -> bool:
    """`numpy.shares_memory`, of the arrays that Tensors hold."""
    return _shared(np.shares_memory, a, b, max_work)


def _shared(ask: Any, a: Any, b: Any, work: int) -> bool:
    a, b = value_of(a), value_of(b)
    return a is not None and b is not None and bool(ask(a, b, max_work=work))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """`numpy.can_cast`, of the dtype of a Tensor."""
    return np.can_cast(_dtype(from_), _dtype(to), casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    """`numpy.common_type`, of the dtypes of Tensors."""
    empty = [
        np.empty(0, _dtype(x)) if isinstance(x, Tensor) else x  # host array: dtype
        for x in arrays
    ]
    return np.common_type(*empty)


@implements(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> Any:
    """`numpy.min_scalar_type`: of a number its least dtype, of an array its own."""
    value = value_of(a)
    return a.dtype if value is None else np.min_scalar_type(value)


def _dtype(x: Any) -> Any:
    return x.dtype if isinstance(x, Tensor) else x
