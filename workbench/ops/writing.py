"""Functions and methods of NumPy that write into their first argument, or ``out=``."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame, hooks, inplace
from workbench.core.inplace import FlatParams, resolve_nest, write
from workbench.core.methods import FUNCTION_METHODS
from workbench.core.op import FUNCTIONS, declare, implements
from workbench.core.tensor import CHANGED, Tensor, admit, apply, value_of
from workbench.core.types import Array
from workbench.errors import GradientLostError, TraceError
from workbench.ops.updates import at

hooks.assign.set(inplace.assign)


@hooks.flat.set
def _flat(x: Any) -> Any:
    """Return all entries in one line, which may be written to."""
    return apply(declare("reshape"), (x,), FlatParams(shape=(int(x.size),)))


def _need_tensor(x: Any, name: str) -> None:
    if not isinstance(x, Tensor):
        raise GradientLostError(blame.STORED.format(blame.user_line()))


# Ufuncs


def write_at(ufunc: Any, x: Any, index: Any, *values: Any) -> None:
    """Answer ``ufunc.at``."""
    name = f"np.{ufunc.__name__}.at"
    if not isinstance(x, Tensor):
        _need_tensor(x, name)
    index = resolve_nest(index)
    values = tuple(resolve_nest(v) for v in values)

    def change(latest: Any) -> Any:
        place = at(latest)[index]
        if ufunc is np.add:
            return place.add(*values)
        if ufunc is np.subtract:
            return place.add(np.negative(admit(*values)))
        if ufunc is np.multiply:
            return place.multiply(*values)
        if ufunc is np.divide:
            return place.multiply(1 / admit(*values))
        if ufunc is np.maximum:
            return place.max(*values)
        if ufunc is np.minimum:
            return place.min(*values)
        if not values:  # np.negative.at(x, i): named twice, it is done twice
            return place.set(ufunc(place.get()))
        made = latest  # one entry after another, as NumPy does
        places = np.arange(made.size).reshape(made.shape)[
            value_of(index) if isinstance(index, Tensor) else index
        ]
        flat = np.ravel(made)
        vs = np.broadcast_to(admit(*values), np.shape(places))
        for k in np.ndindex(np.shape(places)):
            i = int(places[k])
            flat = at(flat)[i].set(ufunc(flat[i], vs[k]))
        return np.reshape(flat, made.shape)

    write(x, name, change)


def write_out(
    ufunc: Any, method: str, inputs: tuple[Any, ...], settings: Any, out: Any
) -> Any:
    """Answer ``out=``: compute, and write the result into the array given."""
    name = f"np.{ufunc.__name__}(..., out=...)"
    outs = out if isinstance(out, tuple) else (out,)
    outs = tuple(o for o in outs)
    for o in outs:
        if o is not None and not isinstance(o, Tensor):
            blame.refuse_in_place()
            _need_tensor(o, name)
    where = settings.pop("where", True)
    call = ufunc if method == "__call__" else getattr(ufunc, method)
    given = tuple(resolve_nest(x) for x in inputs)
    settings = {k: resolve_nest(v) for k, v in settings.items()}
    made = call(*given, **settings)
    results = made if isinstance(made, tuple) else (made,)
    for o, y in zip(outs, results, strict=True):
        if o is not None:
            store_all(o, y, where, name)
    return outs[0] if len(outs) == 1 else outs


def store_all(x: Any, y: Any, where: Any = True, name: str = "out=") -> None:
    """Write an array over all of another, where a condition holds."""
    where = resolve_nest(where)

    def change(latest: Any) -> Any:
        new = np.broadcast_to(admit(resolve_nest(y)), latest.shape)
        if not np.can_cast(new.dtype, latest.dtype, "same_kind"):
            raise TypeError(
                f"{name}{blame.user_line()}: {new.dtype} does not fit into"
                f" {latest.dtype}"
            )
        if new.dtype != latest.dtype:
            new = new.astype(latest.dtype)
        return new if where is True else np.where(where, new, latest)

    write(x, name, change)


# Functions


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write one array into another."""
    _need_tensor(dst, "np.copyto")
    if casting == "unsafe" and isinstance(src, (int, float, np.generic, np.ndarray)):
        src = np.asarray(src).astype(dst.dtype)
    store_all(dst, src, where, "np.copyto")


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Set entries of the array in one line."""
    _need_tensor(a, "np.put")
    ind = value_of(resolve_nest(ind))
    ind = np.ravel(np.asarray(ind))
    size = a.size
    if mode == "wrap":
        ind = ind % size
    elif mode == "clip":
        ind = np.clip(ind, 0, size - 1)
    v = np.resize(np.ravel(admit(resolve_nest(v))), ind.shape) if len(ind) else v

    def change(latest: Any) -> Any:
        if not len(ind):
            return latest
        return np.reshape(at(np.ravel(latest))[ind].set(v), latest.shape)

    write(a, "np.put", change)


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Set the entries where a mask is true, one value after the other."""
    mask = np.asarray(value_of(resolve_nest(mask))).astype(bool)
    put(arr, np.flatnonzero(mask), vals)


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Set the entries where a mask is true to those at the same place."""
    _need_tensor(a, "np.putmask")
    values = admit(resolve_nest(values))
    if np.shape(values) != a.shape:
        values = np.reshape(np.resize(values, (a.size,)), a.shape)
    store_all(a, values, mask, "np.putmask")


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """Set entries by an index along one axis."""
    _need_tensor(arr, "np.put_along_axis")
    indices = np.asarray(value_of(resolve_nest(indices)))
    values = resolve_nest(values)
    if axis is None:
        return put(arr, indices, values)
    grid = list(np.indices(indices.shape, sparse=True))
    grid[axis % arr.ndim] = indices
    write(
        arr, "np.put_along_axis", lambda latest: at(latest)[tuple(grid)].set(values)
    )
    return None


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Set the main diagonal."""
    _need_tensor(a, "np.fill_diagonal")
    plain = np.zeros(a.shape, bool)
    np.fill_diagonal(plain, True, wrap)
    put(a, np.flatnonzero(plain), val)


inplace.WRITERS |= {
    np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal
}  # fmt: skip


# Functions with `out=`


def _with_out(function: Any, position: int | None) -> None:
    answer = FUNCTIONS[function]

    def call(*args: Any, **kw: Any) -> Any:
        out = kw.pop("out", None)
        if out is None and position is not None and len(args) > position:
            out = args[position]
            args = (*args[:position], *args[position + 1 :])
        if out is None:
            return answer(*args, **kw)
        _need_tensor(out, f"np.{function.__name__}(..., out=...)")
        args = tuple(resolve_nest(x) for x in args)
        kw = {k: resolve_nest(v) for k, v in kw.items()}
        store_all(out, function(*args, **kw), True, f"np.{function.__name__}(out=)")
        return out

    FUNCTIONS[function] = call


for _name in """cumsum cumprod sum prod mean std var max min take clip dot
    concatenate stack einsum matmul round compress choose trace median argmax argmin
    """.split():
    _function = getattr(np, _name)
    if _function in FUNCTIONS:
        _with_out(_function, None)


# Methods


def _fill(x: Any, value: Any) -> None:
    value = resolve_nest(value)

    def change(latest: Any) -> Any:
        new = np.broadcast_to(admit(value), latest.shape)
        return new if new.dtype == latest.dtype else new.astype(latest.dtype)

    write(x, "x.fill", change)


def _sort(x: Any, axis: int = -1, **kw: Any) -> None:
    write(x, "x.sort", lambda latest: np.sort(latest, axis=axis, **kw))


def _partition(x: Any, kth: Any, axis: int = -1, **kw: Any) -> None:
    write(x, "x.partition", lambda latest: np.partition(latest, kth, axis=axis, **kw))


FUNCTION_METHODS["fill"] = _fill
FUNCTION_METHODS["sort"] = _sort
FUNCTION_METHODS["partition"] = _partition
FUNCTION_METHODS["put"] = put
