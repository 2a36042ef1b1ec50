"""Arrays made from lengths: `alloc`, `zeros`, `arange`, `eye`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.config import config
from workbench.compat.theano.tensor.lengths import as_length, as_lengths, known
from workbench.compat.theano.tensor.lifting import Table, lift
from workbench.compat.theano.types import as_tensor_variable, dtype_name

__all__ = ["TABLE", "alloc", "arange", "eye", "ones", "zeros"]


def alloc(value: Any, *shape: Any) -> Any:
    """``value``, broadcast to a shape whose lengths may be variables."""
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if type(value) is float:
        value = np.asarray(value, config.floatX)
    return lift(np.broadcast_to(as_tensor_variable(value), as_lengths(shape)))


def zeros(shape: Any, dtype: Any = None) -> Any:
    """`numpy.zeros`, of `config.floatX` unless a dtype is given."""
    return alloc(np.zeros((), dtype_name(dtype)), *as_lengths(shape))


def ones(shape: Any, dtype: Any = None) -> Any:
    """`numpy.ones`, of `config.floatX` unless a dtype is given."""
    return alloc(np.ones((), dtype_name(dtype)), *as_lengths(shape))


def zeros_like(model: Any, dtype: Any = None, opt: bool = False) -> Any:
    """`numpy.zeros_like`."""
    kind = None if dtype is None else dtype_name(dtype)
    return lift(np.zeros_like(as_tensor_variable(model), dtype=kind))


def ones_like(model: Any, dtype: Any = None, opt: bool = False) -> Any:
    """`numpy.ones_like`."""
    kind = None if dtype is None else dtype_name(dtype)
    return lift(np.ones_like(as_tensor_variable(model), dtype=kind))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """`numpy.arange`; its arguments may be variables."""
    if stop is None:
        start, stop = 0, start
    kind = None if dtype is None else dtype_name(dtype)
    ends = [as_tensor_variable(n) for n in (start, stop, step)]
    like = next((n for n in ends if n._value is None), ends[0])
    return lift(np.arange(*ends, dtype=kind, like=like))


def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """`numpy.eye`, of `config.floatX` unless a dtype is given."""
    rows = as_length(n)
    columns = rows if m is None else as_length(m)
    how: Any = {"k": int(k), "dtype": dtype_name(dtype)}
    if known(rows) and known(columns):
        return lift(np.eye(rows, columns, **how))
    like = alloc(np.zeros((), how["dtype"]), rows, columns)
    return lift(np.eye(rows, columns, like=like, **how))


def identity_like(x: Any) -> Any:
    """The matrix with ones on its diagonal, in the shape and dtype of another."""
    x = as_tensor_variable(x)
    return lift(np.eye(x.shape[0], x.shape[1], dtype=x.dtype, like=x))


def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """`numpy.tri`, of `config.floatX` unless a dtype is given."""
    rows = as_length(n)
    columns = rows if m is None else as_length(m)
    return lift(np.tril(ones((rows, columns), dtype), int(k)))


TABLE: Table = {
    "alloc": alloc,
    "arange": arange,
    "empty": zeros,
    "empty_like": zeros_like,
    "eye": eye,
    "identity_like": identity_like,
    "ones": ones,
    "ones_like": ones_like,
    "tri": tri,
    "zeros": zeros,
    "zeros_like": zeros_like,
}
