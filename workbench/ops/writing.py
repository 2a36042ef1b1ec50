"""How entries are written: ``x[i] = v``, functions and methods that write, ``out=``.

`core/memory.py` says what a memory and its versions are; here stands how the next
version is made. A store at an index writes into a buffer while it is private, so that n
stores into n entries take linear time, and back the cotangent is written into, too.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from types import CodeType
from typing import Any

import numpy as np

from workbench.core import (
    blame,
    dims,
    hooks,
    inplace,
    sharing,
    source,
    tensor,
    traces,
    types,
)
from workbench.core.deferred import LengthParams
from workbench.core.inplace import lay_like, open_memory, store, write
from workbench.core.memory import (
    LOCK,
    SLOT,
    TAKEN,
    FlatParams,
    Memory,
    OwnParams,
    Version,
    copy_in_place,
    latest_of,
    resolve_nest,
)
from workbench.core.methods import FUNCTION_METHODS
from workbench.core.op import ATTRIBUTES, declare, find_out, implements
from workbench.core.plain import PLAIN, turn
from workbench.core.tensor import (
    CHANGED,
    LARGE,
    Tensor,
    admit,
    apply,
    make_lean,
    value_of,
)
from workbench.errors import DtypeError, GradientLostError, TraceError
from workbench.ops import indexing
from workbench.ops.define import dtype_of
from workbench.ops.updates import SET, at

READ = SLOT.__get__
_frame = sys._getframe
Line = tuple[CodeType, int]


# Entries: x[i] = v, and x[i] of what was written to


def assign(x: Tensor, index: object, value: Any, line: Line | None = None) -> None:
    """Assign to items: ``x[index] = value``."""
    line = line or source.place_of(_frame(1))
    with LOCK:
        if type(value) in CHANGED:
            if _is_same_view(x, index, value):
                return  # x[i] += v has written through the view x[i]
            value = value.memory.read()
        memory, path = open_memory(x, "x[i] = v")
        if sharing.is_number(traces.node_of(x)):
            raise TypeError(
                f"x[i] = v{blame.user_line()}: {blame.describe(x)} is a number, which"
                " NumPy does not let anybody write to"
            )
        index = resolve_nest(index)
        if isinstance(value, np.ndarray) and value.dtype != object:
            value = value.copy()  # its owner may fill it again
        key = _find_key(index)
        if key is not None:
            composed = _compose_path(memory, path, key) if path else key
            if composed is not None and set_in_place(memory, composed, (), value, line):
                return
        elif not path and _set_at_arrays(memory, index, value, line):
            return
        with source.pin_line():
            old = latest_of(x, memory) if path else memory.latest
            if (entries := indexing.find_entries(old, index)) is not None:
                new = value = indexing.set_entries(old, entries, value)
            else:
                new = at(old)[index].set(value)
            _check_gradient(value, old)
            if new.dtype != old.dtype:
                new = new.astype(old.dtype)
            write_view(memory, path, new)


def _check_gradient(value: Any, x: Any) -> None:
    """Refuse to store floats with a gradient into integers."""
    if isinstance(value, Tensor) and x.dtype.kind in "biu":
        if types.is_differentiable(value.dtype):
            raise DtypeError(
                f"x[i] = v with x of dtype {x.dtype} and v of {value.dtype}"
                f"{blame.user_line()}: the values would be rounded and their gradient"
                " lost. Make x an array of floats, or write x.astype(float) before."
            )


_kind: Any = Tensor
_kind.__setitem__ = assign


def _find_key(index: Any) -> indexing.Key | None:
    """Return an index of integers and slices as a key; None for any other."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if not (kind is int or kind is slice or part is Ellipsis):
            return None
        if kind is slice and not all(
            n is None or type(n) is int for n in (part.start, part.stop, part.step)
        ):
            return None
    return indexing.split_index(index)[0]


def _compose_path(
    memory: Memory, path: Sequence[Tensor], last: indexing.Key
) -> indexing.Key | None:
    """Return one key of the base that replaces an index of a view of a view.

    None where one of the views is something else than a slice.
    """
    shape = memory.latest.shape
    if not all(type(n) is int for n in shape):
        return None
    axes: list[Any] = [range(n) for n in shape]
    for key in [*(_slices_of(view) for view in reversed(path)), last]:
        if key is None or not _take_axes(axes, key):
            return None
    return tuple([x if type(x) is int else _slice_of(x) for x in axes])


def _slices_of(view: Tensor) -> indexing.Key | None:
    if view.op is not indexing.GETITEM or len(view.operands) > 1:
        return None
    key: indexing.Key = view.settings["key"]
    return key


def _take_axes(axes: list[Any], key: indexing.Key) -> bool:
    """Apply a key to ranges of axes, in place; return whether the key allows that."""
    left = [i for i, x in enumerate(axes) if type(x) is range]
    used = sum(part is not Ellipsis for part in key)
    if used > len(left):
        return False
    if Ellipsis in key:
        i = key.index(Ellipsis)
        key = (*key[:i], *(indexing.WHOLE,) * (len(left) - used), *key[i + 1 :])
    for i, part in zip(left, key, strict=False):
        if type(part) is int:
            if not -len(axes[i]) <= part < len(axes[i]):
                return False
            axes[i] = axes[i][part]
        elif type(part) is indexing.Slice:
            axes[i] = axes[i][slice(part.start, part.stop, part.step)]
        else:
            return False
    return True


def _slice_of(places: range) -> indexing.Slice:
    if not places:
        return indexing.Slice(0, 0, 1)
    stop = places.stop
    return indexing.Slice(places.start, None if stop < 0 else stop, places.step)


def _is_whole(key: indexing.Key, shape: tuple[int, ...]) -> bool:
    """Return whether a key names all entries, in their order."""
    parts = list(key)
    if Ellipsis in parts:
        i = parts.index(Ellipsis)
        parts[i : i + 1] = [indexing.WHOLE] * (len(shape) - len(parts) + 1)
    if len(parts) > len(shape):
        return False  # it adds axes
    for part, n in zip(parts, shape, strict=False):  # axes that are not named are whole
        if type(part) is not indexing.Slice:
            return False
        if part != indexing.WHOLE and range(n)[slice(*part)] != range(n):
            return False
    return True


def _set_at_arrays(memory: Memory, index: Any, value: Any, line: Line) -> bool:
    """Write at an index of arrays, where these have values and are no masks."""
    try:
        key, arrays = indexing.split_index(index)
    except Exception:
        return False
    plain = map(value_of, arrays)
    if any(a is None or a.dtype.kind == "b" for a in plain):
        return False
    return set_in_place(memory, key, arrays, value, line)


def set_in_place(
    memory: Memory, key: indexing.Key, arrays: Any, value: Any, line: Line
) -> bool:
    """Make the next version by a write into the buffer; return whether done."""
    latest = memory.latest
    v = value._value if isinstance(value, Tensor) else value
    kind = type(latest)
    if kind is Version:
        dtype = latest.spec.dtype
    elif kind is Tensor or isinstance(latest, tensor.LeanTensor):
        before = latest._value
        if type(before) is not np.ndarray:
            return False
        dtype = before.dtype
    else:
        return False
    if isinstance(value, Tensor) and type(value) in tensor.MASKED:
        return False
    weak = types.is_weak(v)
    is_plain = weak or type(v) is np.ndarray or isinstance(v, np.generic)
    if dtype.kind not in "fc" or not is_plain:
        return False
    given = type(v) if weak else v.dtype
    if given is not dtype and not np.can_cast(given, dtype, "same_kind"):
        return False
    buffer = memory.buffer
    shape = latest.shape
    if not arrays and _is_whole(key, shape):
        return _replace_whole(memory, value, v, line)
    if buffer is None:
        buffer = copy_in_place(latest._value)
    plain = tuple([value_of(a) for a in arrays])
    try:
        buffer[indexing.as_index(key, plain)] = v  # an error leaves it as it was
    except (ValueError, IndexError) as error:
        raise type(error)(
            f"x[i] = v of shape {shape}{blame.user_line()}: {error}"
        ) from error
    if memory.shown is None or memory.shown.shape != shape:
        blank = np.full((), np.nan, dtype)  # host array: not read by anyone
        memory.shown = np.broadcast_to(blank, shape)
    made = Version(
        SET,
        (latest, value, *arrays),
        (memory.shown, v, *plain),
        {"key": key},
        None,
        *line,
        source.current_context(),
    )
    made.spec = latest.spec if kind is Version else types.Spec(shape, dtype)
    store(memory, made)
    memory.buffer = buffer
    return True


def _replace_whole(memory: Memory, value: Any, v: Any, line: Line) -> bool:
    """Overwrite all entries; the next version does not read the old ones."""
    old = memory.latest
    room = copy_in_place(old._value)
    room[...] = v
    part: Any = value
    if isinstance(value, Tensor):
        if np.shape(v) != room.shape:
            part = np.broadcast_to(value, room.shape)
        if part.dtype != room.dtype:
            part = part.astype(room.dtype)
        v = part._value
    store(memory, inplace.make_copy(part, v, room, line))
    return True


def _is_same_view(x: Tensor, index: object, value: Any) -> bool:
    """Return whether a value is the view of ``x`` at this very index."""
    handle = value.memory
    if handle.whole or value.op is not indexing.GETITEM or type(x) not in CHANGED:
        return False
    if x.memory.memory is not handle.memory or len(value.inputs) > 1:
        return False
    if type(value.params) is LengthParams:
        return False
    key = _find_key(index)
    if key is None or key != value.params["key"]:
        return False
    parent = value.inputs[0]
    if parent is x:
        return True
    # The view was taken of the version before: of the node that x stood for then.
    if x.memory.whole:
        return parent.memory is handle.memory or (
            type(parent) in CHANGED and parent.memory.whole
        )
    return (
        parent.memory is TAKEN
        and parent.op is x.op
        and parent.params == x.params
        and len(x.inputs) == 1
    )


def _write_entries(value: Any, node: Any) -> None:
    """Write the values of one version into an array."""
    value[indexing.as_index(node.params["key"], node.args[2:])] = node.args[1]


ATTRIBUTES[np.ndarray.__setitem__] = _write_entries


def _read_entries(x: Any, index: Any, line: Line) -> Any:
    """Return ``x[index]`` of a handle: of a version a copy, which is a view by name."""
    node = x.memory.read()
    memory = node.memory
    index = resolve_nest(index)
    if (waiting := indexing.find_entries(node, index)) is not None:
        return waiting
    if type(node) is Version and READ(node) is None and memory.latest is node:
        try:
            key, arrays = indexing.split_index(index)
            with LOCK:
                made = read_in_place(memory, key, arrays, line)
        except Exception:  # which `getitem` explains
            made = None
        if made is not None:
            return made
    with source.pin_line():
        return indexing.getitem(node, index)


ATTRIBUTES[np.ndarray.__getitem__] = _read_entries


def read_in_place(memory: Memory, key: indexing.Key, arrays: Any, line: Line) -> Any:
    """Return a copy of entries of the latest version, while its value is private.

    None where the copy would have other strides than the view that it replaces: a
    reshape of the copy would then be a view where NumPy makes a copy.
    """
    plain = tuple([value_of(a) for a in arrays]) if arrays else ()
    if arrays and any(a is None for a in plain):
        return None
    value = memory.buffer[indexing.as_index(key, plain)]
    params: dict[str, Any] = {"key": key}
    is_view = type(value) is np.ndarray and not arrays
    if is_view:
        flags = value.flags
        if flags.c_contiguous or flags.f_contiguous:
            value = value.copy("K")
        elif value.ndim == 1:  # in every second place of a copy
            room = np.empty(2 * len(value), value.dtype)[::2]  # host array: as value
            room[:] = value
            value = room
        else:
            return None
        params = OwnParams(params)
    made = Tensor(
        indexing.GETITEM,
        (memory.latest, *arrays),
        (memory.shown, *plain),
        params,
        value,
        *line,
        source.current_context(),
    )
    if is_view:
        tensor.note_view(memory.latest, made)
        if value.nbytes >= LARGE:
            make_lean(made)
    return made


# Views: a part of the base


@hooks.write_view.set
def write_view(memory: Memory, path: Sequence[Tensor], new: Any) -> None:
    """Let the view at the end of a path be a new value."""
    if path and isinstance(new, Tensor):
        key = _compose_path(memory, path, (Ellipsis,))
        line: Line = (new.code or source.caller()[0], new.lasti)
        if key is not None and set_in_place(memory, key, (), new, line):
            return
    if not path and isinstance(new, Tensor) and new.op is SET:
        is_measured = type(new.params) is LengthParams
        if not is_measured and new.inputs[0] is memory.latest and new.memory is None:
            store(memory, new)  # it lies in memory as what it is a copy of
            return
    for step in path:
        new = _put_view(step, latest_of(step.inputs[0], memory), new)
    store(memory, lay_like(new, memory.latest))


def _put_view(view: Tensor, parent: Any, new: Any) -> Any:
    """Return a parent with the entries of one view replaced."""
    if view.op.view is not None and view.op.view.put is not None:
        return view.op.view.put(parent, new, view.params)
    # By the places that the view shows.
    size = parent.size
    whole = np.arange(size).reshape(parent.shape)  # host array: of the places
    places = view.op.compute(whole, **view.settings)
    flat = at(np.ravel(parent))[np.ravel(places)].set(np.ravel(new))
    return np.reshape(flat, parent.shape)


def _flat(x: Any) -> Any:
    """Return all entries in one line, which may be written to."""
    return apply(declare("reshape"), (x,), FlatParams(shape=(int(x.size),)))


ATTRIBUTES[np.ndarray.flat] = _flat


# Ufuncs


def _need_tensor(x: Any, name: str) -> None:
    if type(x) in PLAIN:
        turn(x)
    elif not isinstance(x, Tensor):
        called = blame.find_numpy_caller()
        through = "" if called in (None, name) else f"{called} calls {name}, which "
        raise GradientLostError(
            f"{through or name + ' '}writes a traced value into a plain array"
            f"{blame.user_line()}, which would lose its gradient. Make that array with"
            " import workbench.numpy as np, or write np.where(mask, x, a), or"
            " np.broadcast_to(x, a.shape)."
        )


def write_at(ufunc: Any, x: Any, index: Any, *values: Any) -> None:
    """Answer ``ufunc.at``."""
    name = f"np.{ufunc.__name__}.at"
    _need_tensor(x, name)
    index = resolve_nest(index)
    given = [admit(resolve_nest(v)) for v in values]

    def change(latest: Any) -> Any:
        place = at(latest)[index]
        if ufunc is np.add:
            return place.add(*given)
        if ufunc is np.subtract:
            return place.add(np.negative(given[0]))
        if ufunc is np.multiply:
            return place.multiply(*given)
        if ufunc is np.divide:
            return place.multiply(1 / given[0])
        if ufunc is np.maximum:
            return place.max(*given)
        if ufunc is np.minimum:
            return place.min(*given)
        return _repeat_at(ufunc, latest, index, given)

    write(x, name, change)


def _repeat_at(ufunc: Any, x: Any, index: Any, values: list[Any]) -> Any:
    """Apply an update entry by entry, as NumPy does, repeats included."""
    plain = tuple([value_of(i) for i in (index if type(index) is tuple else (index,))])
    if any(i is None for i in plain) or dims.has_dim(x.shape):
        raise TraceError(
            f"np.{ufunc.__name__}.at{blame.user_line()}: which entries are meant is not"
            " known while tracing without values. Give the index as a plain array."
        )
    whole = np.arange(x.size).reshape(x.shape)  # host array: of the places
    places = np.asarray(whole[plain])  # host array: of the places
    flat: Any = np.ravel(x)
    first = np.ravel(places)
    vs = [np.ravel(np.broadcast_to(v, places.shape)) for v in values]
    while len(first):
        _, now = np.unique(first, return_index=True)  # each entry once
        now = np.sort(now)
        part = first[now]
        flat = at(flat)[part].set(ufunc(flat[part], *(v[now] for v in vs)))
        rest = np.arange(len(first))  # host array: of the places
        later = np.setdiff1d(rest, now)
        first, vs = first[later], [v[later] for v in vs]
    return np.reshape(flat, x.shape)


# `out=`


def write_ufunc(
    ufunc: Any, method: str, inputs: tuple[Any, ...], settings: Any, out: Any
) -> Any:
    """Answer ``out=`` of a ufunc: compute, then write the result into that array."""
    name = f"np.{ufunc.__name__}"
    if method != "__call__":
        name += f".{method}"
    outs = out if isinstance(out, tuple) else (out,)
    called = blame.find_numpy_caller()
    if called is not None and called != name:
        raise TraceError(
            f"{called} of a list or array of Tensors{blame.user_line()}: NumPy writes"
            " into an array on its way, and their gradient would be lost. Make one"
            f" Tensor of them first: {called}(np.array(a, like=x)), where x is any"
            " Tensor."
        )
    for o in outs:
        if type(o) in PLAIN:
            turn(o)
    if any(o is not None and not isinstance(o, Tensor) for o in outs):
        blame.refuse_in_place()
        raise _plain_out_error(name)
    where = settings.pop("where", True) if method == "__call__" else True
    call = ufunc if method == "__call__" else getattr(ufunc, method)
    given = [resolve_nest(x) for x in inputs]
    settings = {k: resolve_nest(v) for k, v in settings.items()}
    made = call(*given, **settings)
    results = made if isinstance(made, tuple) else (made,)
    for o, y in zip(outs, results, strict=True):
        if o is not None:
            store_all(o, y, where, f"{name}(..., out=...)")
    if len(outs) == 1:
        return outs[0]
    return tuple([y if o is None else o for o, y in zip(outs, results, strict=True)])


@hooks.write_out.set
def write_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer ``out=`` of a function: compute, then write the result into that array."""
    out = kwargs.pop("out", None)
    if out is None:
        place = find_out(function)
        out, args = args[place], (*args[:place], None, *args[place + 1 :])
    made = function(*resolve_nest(args), **resolve_nest(kwargs))
    return write_result(f"np.{function.__name__}", out, made)


def write_result(name: str, out: Any, made: Any) -> Any:
    """Write a function's result into the given array, and return that array."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if type(out) in PLAIN:
        turn(out)
    if not isinstance(out, Tensor):
        raise _plain_out_error(name)
    if np.shape(made) != out.shape:
        raise ValueError(
            f"{name}(..., out=...){blame.user_line()}: the result has shape"
            f" {np.shape(made)}, and out has shape {out.shape}. Give an array of the"
            " shape of the result."
        )
    store_all(out, made, True, f"{name}(..., out=...)")
    return out


def _plain_out_error(name: str) -> TraceError:
    return TraceError(
        f"{name}(..., out=...){blame.user_line()}: out is a plain array, and a traced"
        " value is never written into one, its gradient would be lost. Make it with"
        f" import workbench.numpy as np, or write y = {name}(...) without out=."
    )


def store_all(x: Any, y: Any, where: Any = True, name: str = "out=") -> None:
    """Write an array over all of another, where a condition holds."""
    where, y = resolve_nest(where), admit(resolve_nest(y))
    _check_cast(y, x, name)

    def change(latest: Any) -> Any:
        new = np.broadcast_to(y, latest.shape)
        if new.dtype != latest.dtype:
            new = new.astype(latest.dtype)
        if where is True:
            return new
        return np.where(np.broadcast_to(where, latest.shape), new, latest)

    write(x, name, change)


def _check_cast(y: Any, x: Any, name: str) -> None:
    dtype = dtype_of(y)
    if types.is_weak(y) and np.can_cast(type(y), x.dtype, "same_kind"):
        return
    if not np.can_cast(dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"{name}{blame.user_line()}: {dtype} does not fit into {x.dtype}. Make the"
            f" array that is written to of dtype {dtype}."
        )


# Functions


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Write one array into another, as `numpy.copyto` does."""
    _need_tensor(dst, "np.copyto")
    src = admit(resolve_nest(src))
    if casting == "unsafe" and src.dtype != dst.dtype:
        src = dst.dtype.type(src) if types.is_weak(src) else src.astype(dst.dtype)
    store_all(dst, src, where, "np.copyto")


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Set entries of the array in one line, as `numpy.put` does."""
    _need_tensor(a, "np.put")
    ind = np.ravel(_plain_index(ind, "np.put")).astype(int)
    if mode == "wrap":
        ind = ind % a.size
    elif mode == "clip":
        ind = np.clip(ind, 0, a.size - 1)
    if not len(ind):
        return
    if not np.size(v):
        return
    v = np.resize(np.ravel(admit(resolve_nest(v))), ind.shape)

    def change(latest: Any) -> Any:
        return np.reshape(at(np.ravel(latest))[ind].set(v), latest.shape)

    write(a, "np.put", change)


def _plain_index(index: Any, name: str) -> Any:
    value = value_of(resolve_nest(index))
    if value is None:
        raise TraceError(
            f"{name}{blame.user_line()}: which entries are meant is not known while"
            " tracing without values. Write np.where(mask, v, x), or give the index as"
            " a plain array."
        )
    return np.asarray(value)  # host array: of the places


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Set the entries where a mask is true, one value after the other."""
    _need_tensor(arr, "np.place")
    if np.size(vals) == 1 and value_of(resolve_nest(mask)) is None:
        putmask(arr, mask, vals)
        return
    put(arr, np.flatnonzero(_plain_index(mask, "np.place").astype(bool)), vals)


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Set the entries where a mask is true to those at the same place."""
    _need_tensor(a, "np.putmask")
    values = admit(resolve_nest(values))
    if np.shape(values) != a.shape:
        values = np.reshape(np.resize(values, (a.size,)), a.shape)
    mask = admit(resolve_nest(mask))
    flags = mask if dtype_of(mask).kind == "b" else np.not_equal(mask, 0)
    store_all(a, values, flags, "np.putmask")


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """Set entries by an index along one axis, as `numpy.put_along_axis` does."""
    _need_tensor(arr, "np.put_along_axis")
    values = admit(resolve_nest(values))
    if axis is None:
        put(arr, indices, values)
        return
    indices = resolve_nest(indices)
    if value_of(indices) is not None:  # whose owner may fill it again
        indices = np.array(value_of(indices))  # host array: places
    axis = axis % arr.ndim
    grid: list[Any] = [
        np.arange(n).reshape((-1,) + (1,) * (arr.ndim - 1 - i))  # host array: places
        for i, n in enumerate(arr.shape)
    ]
    grid[axis] = indices
    write(arr, "np.put_along_axis", lambda latest: at(latest)[tuple(grid)].set(values))


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Set the main diagonal, as `numpy.fill_diagonal` does."""
    _need_tensor(a, "np.fill_diagonal")
    plain = np.zeros(a.shape, bool)  # host array: of the places
    np.fill_diagonal(plain, True, wrap)
    put(a, np.flatnonzero(plain), val)


# Methods


def _fill(x: Any, value: Any) -> None:
    y = admit(resolve_nest(value))
    store_all(x, y, True, "x.fill")


def _sort(x: Any, axis: int = -1, *more: Any, **settings: Any) -> None:
    axis = operator.index(axis)
    write(x, "x.sort", lambda latest: np.sort(latest, axis, *more, **settings))


def _partition(x: Any, kth: Any, axis: int = -1, *more: Any, **settings: Any) -> None:
    write(
        x,
        "x.partition",
        lambda latest: np.partition(latest, kth, axis, *more, **settings),
    )


def _resize(x: Any, *shape: Any, refcheck: bool = True) -> None:
    """Give an array another shape in place, with zeros in new entries."""
    lengths = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    size = int(np.prod(lengths, dtype=int))
    with LOCK:
        memory, path = open_memory(x, "x.resize")
        others = [h for r in memory.handles if (h := r()) is not None and h is not x]
        views = [v for r in memory.latest.views or () if (v := r()) is not None]
        if path or others or views:
            raise ValueError(
                f"x.resize(...){blame.user_line()}: a view of x, or another name,"
                " shares its memory, and NumPy refuses to move it then. Write x ="
                " np.resize(x, shape), or np.concatenate([x, np.zeros(n)])."
            )
        flat = np.ravel(memory.latest)[:size]
        short = size - int(np.shape(flat)[0])
        if short:
            more = np.zeros(short, x.dtype)  # host array: joined on any device
            flat = np.concatenate([flat, more])
        memory.buffer = memory.shown = None
        laid: Any = np.copy(np.reshape(flat, tuple(lengths)))
        store(memory, laid)


FUNCTION_METHODS["fill"] = _fill
FUNCTION_METHODS["sort"] = _sort
FUNCTION_METHODS["partition"] = _partition
FUNCTION_METHODS["put"] = put
FUNCTION_METHODS["resize"] = _resize
