"""Array makers: `zeros_like` and its kin, `like=x`, `np.array`, `linspace`.

What they make depends on the shape, dtype and library of ``x`` alone, so no
gradient flows. From a Tensor with a value comes a plain array; without one, a
node that makes the array when the program runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.core.dims import Dim, broadcast_shapes, largest
from workbench.core.methods import FUNCTION_METHODS, check_order
from workbench.core.op import MAKERS, connect_nothing, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.traces import is_active
from workbench.core.types import (
    Array,
    ArrayLike,
    Axis,
    Cotangent,
    Params,
    Shape,
    Spec,
    Tangent,
    is_device_array,
    is_differentiable,
    is_weak,
    spec_of,
)
from workbench.errors import UnknownLengthError
from workbench.ops import shaping
from workbench.ops.define import (
    align_batch,
    convert_like,
    dtype_of,
    linear,
    list_positions,
    op,
    shape_of,
    sum_to,
)
from workbench.ops.device import on_cupy
from workbench.ops.lengths import ARANGE, has_no_value
from workbench.ops.reductions import promote_half, wide_dtype

#: How entries lie in memory: rows or columns first, or as those of an operand do.
MemoryOrder = Literal["C", "F", "A", "K"]


# full_like: a constant in the shape of another array


def _full_like_compute(
    x: Array,
    *,
    fill: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: tuple[int, ...] | None = None,
    order: MemoryOrder = "K",
) -> Array:
    more: Any = {"dtype": dtype, "order": order}
    return np.full_like(x, fill, shape=shape, **more)  # not (): or NumPy's


def _fill_elsewhere(
    x: Array,
    *,
    fill: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: Any = None,
    order: MemoryOrder = "K",
) -> Array:
    """Return the same on CuPy, which takes the shape () for none given."""
    if shape == ():
        return np.reshape(np.full_like(x, fill, dtype=dtype, shape=(1,)), ())
    more: Any = {"dtype": dtype, "order": order}
    return np.full_like(x, fill, shape=shape, **more)  # not (): see above


def _full_like_batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> Array:
    shape = params.get("shape")
    if shape is not None:
        params = {**params, "shape": (shape_of(inputs[0])[0], *shape)}
    return apply(FULL_LIKE, inputs, params)


def _full_like_lengths(
    x: Array,
    *,
    fill: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: Shape | None = None,
    order: MemoryOrder = "K",
) -> Spec:
    found = dtype_of(x) if dtype is None else np.dtype(dtype)
    return Spec(shape_of(x) if shape is None else shape, found)


def _full_like_body(
    x: Array,
    *,
    fill: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: Shape | None = None,
    order: MemoryOrder = "K",
) -> Array:
    """Return one entry, broadcast: lengths and settings decide the result."""
    dtype = dtype_of(x) if dtype is None else dtype
    shape = shape_of(x) if shape is None else shape
    whole = np.full(shape, fill, dtype)  # host array: of no operand's entries
    first = whole.reshape(-1)[:1].reshape(()) if whole.size else whole
    return np.broadcast_to(first, whole.shape)


FULL_LIKE = op(
    "full_like",
    _full_like_compute,
    batch=_full_like_batch,
    lengths=_full_like_lengths,
    template="np.full_like({0}, fill_value={fill}{more})",
    unfold=_full_like_body,
)
on_cupy(FULL_LIKE)(_fill_elsewhere)
FULL_LIKE.connection = connect_nothing


def _make_filled(
    a: Array,
    fill: ArrayLike,
    dtype: npt.DTypeLike | None,
    order: str,
    shape: Shape | None,
) -> Array:
    params: Params = {"fill": fill}
    if dtype is not None:
        params["dtype"] = np.dtype(dtype)
    if shape is not None:
        params["shape"] = shaping.as_integers(shape)
    if order != "K":
        params["order"] = order
    value = value_of(a)
    return apply(FULL_LIKE, (a if value is None else value,), params)


def _answer_filled(fill: int, *functions: Any) -> None:
    """Answer functions that make an array full of one number."""

    @implements(*functions)
    def answer(
        a: Array,
        dtype: npt.DTypeLike | None = None,
        order: str = "K",
        subok: bool = True,
        shape: Shape | None = None,
        *,
        device: object = None,
    ) -> Array:
        return _make_filled(a, fill, dtype, order, shape)


_answer_filled(0, np.zeros_like, np.empty_like)
_answer_filled(1, np.ones_like)


@implements(np.full_like)
def full_like(
    a: Array,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: object = None,
) -> Array:
    """Return an array like ``a`` filled with one value; its gradient is kept."""
    if is_weak(fill_value):
        return _make_filled(a, fill_value, dtype, order, shape)
    shape = shape_of(a) if shape is None else shaping.as_integers(shape)
    filled = _fill(shape, fill_value, dtype_of(a) if dtype is None else dtype)
    if order == "A":
        order = shaping.memory_order(a)
    if order == "K" and len(shape) == len(shape_of(a)):
        return shaping.lay_like(filled, a)
    return shaping.lay_out(filled, "F" if order == "F" else "C")


def _fill(shape: Shape, fill: ArrayLike, dtype: npt.DTypeLike | None) -> Array:
    """Return a new array that holds ``fill``, broadcast, in C order."""
    fill = admit(fill)
    if dtype is not None and dtype_of(fill) != dtype:
        fill = fill.astype(dtype)
    return np.copy(np.broadcast_to(fill, shape), order="C")


# like=: an array of the library of x


def _like_compute(x: Array, *, maker: str, settings: tuple[Any, ...]) -> Array:
    args, keywords = settings
    if not hasattr(x, "__array_function__"):
        return getattr(np, maker)(*args, **dict(keywords))
    if not isinstance(x, np.ndarray | np.generic) and maker in _ELSEWHERE:
        return _ELSEWHERE[maker](x, *args, **dict(keywords))
    return getattr(np, maker)(*args, like=x, **dict(keywords))


# NumPy passes device= on to these, which CuPy's functions do not know.


def _ones_like(
    x: Array, shape: Shape, dtype: npt.DTypeLike | None = float, **_: Any
) -> Array:
    return _fill_elsewhere(x, fill=1, dtype=dtype, shape=shape)


def _full_elsewhere(
    x: Array, shape: Shape, fill: ArrayLike, dtype: npt.DTypeLike | None = None
) -> Array:
    dtype = np.asarray(fill).dtype if dtype is None else dtype  # host array: a number
    return _fill_elsewhere(x, fill=fill, dtype=dtype, shape=shape)


def _eye_elsewhere(
    x: Array,
    N: Any,
    M: Any = None,
    k: int = 0,
    dtype: npt.DTypeLike | None = float,
    **_: Any,
) -> Array:
    rows = list_positions(N, like=x)[:, None]
    columns = list_positions(N if M is None else M, like=x)
    return np.equal(columns - rows, k).astype(dtype)


_ELSEWHERE: dict[str, Callable[..., Any]] = {
    "ones": _ones_like,
    "full": _full_elsewhere,
    "eye": _eye_elsewhere,
}


def _like_batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> Array:
    size = shape_of(inputs[0])[0]
    made = apply(MAKE_LIKE, inputs, params)
    return np.broadcast_to(made, (size, *shape_of(made)))


def _like_lengths(x: Array, *, maker: str, settings: tuple[Any, ...]) -> Spec:
    args, keywords = settings
    more = dict(keywords)
    dtype = np.dtype(more.pop("dtype", int if maker == "arange" else float))
    rows, *rest = args
    if maker == "arange" and not more and all(map(_is_whole, args)):
        start, stop, *steps = args if rest else (0, rows)
        step = steps[0] if steps else 1
        if not isinstance(step, Dim) and step:
            side = 1 if step > 0 else -1
            count = (side * (stop - start) + abs(step) - 1) // abs(step)
            return Spec((largest(count, 0),), dtype)
    elif maker in ("zeros", "ones", "empty") and not more and not rest:
        return Spec(rows if isinstance(rows, tuple) else (rows,), dtype)
    elif maker in ("eye", "identity", "tri") and more.keys() <= {"k", "M"}:
        columns = rest[0] if rest else more.get("M")
        return Spec((rows, rows if columns is None else columns), dtype)
    raise UnknownLengthError("only a run tells the shape that these settings give")


def _is_whole(n: object) -> bool:
    return isinstance(n, (int, np.integer, Dim))


def _like_body(x: Array, *, maker: str, settings: tuple[Any, ...]) -> Array:
    """Return the made array: the settings alone decide the result."""
    like = np.empty((), dtype_of(x))  # host array: of NumPy's kind
    made: Array = MAKE_LIKE.compute(like, maker=maker, settings=settings)
    return made


MAKE_LIKE = op(
    "make_like",
    _like_compute,
    batch=_like_batch,
    lengths=_like_lengths,
    template="make_like({0}, {maker}, *{settings})",
    helper='''\
def make_like(x, maker, args, settings):
    """An array of the library of x."""
    like = {"like": x} if hasattr(x, "__array_function__") else {}
    return getattr(np, maker)(*args, **like, **dict(settings))
''',
    unfold=_like_body,
)
MAKE_LIKE.connection = connect_nothing


def _make_like(
    name: str, like: Array | None, args: tuple[Any, ...], more: Params
) -> Array:
    """Call ``np.name(*args, like=like, **more)``, or record a node that does."""
    settings = tuple(
        (k, v)
        for k, v in more.items()
        if v is not None and (k, v) not in (("order", "C"), ("M", None), ("k", 0))
    )
    value = value_of(like)
    return apply(
        MAKE_LIKE,
        (like if value is None else value,),
        {"maker": name, "settings": (tuple(map(_as_hashable, args)), settings)},
    )


def _as_hashable(setting: object) -> object:
    if isinstance(setting, (list, tuple)):
        return shaping.as_integers(setting)
    return operator.index(setting) if isinstance(setting, Tensor) else setting


def _answer_maker(name: str) -> Callable[..., Array]:
    def answer(*args: Any, like: Array, **more: Any) -> Array:
        return _make_like(name, like, args, more)

    return answer


@implements(np.arange)
def arange(
    *ends: Any,
    like: Array | None = None,
    dtype: npt.DTypeLike | None = None,
    **more: Any,
) -> Array:
    """Return evenly spaced numbers; the ends may be Tensors without a value."""
    ends = (*ends, *[more.pop(k) for k in ("start", "stop", "step") if k in more])
    if any(map(has_no_value, ends)):
        return apply(ARANGE, ends, {} if dtype is None else {"dtype": np.dtype(dtype)})
    return _make_like(
        "arange", like, tuple(map(value_of, ends)), {"dtype": dtype, **more}
    )


MAKERS.add(np.arange)

for _name in ("empty", "eye", "identity", "ones", "tri", "zeros"):
    implements(getattr(np, _name))(_answer_maker(_name))
    MAKERS.add(getattr(np, _name))


@implements(np.full)
def full(
    shape: int | Shape,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: Literal["C", "F"] = "C",
    *,
    like: Array,
    device: object = None,
) -> Array:
    """Return an array filled with one value; the gradient of a Tensor is kept."""
    if is_weak(fill_value):
        settings = {"dtype": dtype, "order": order}
        return _make_like("full", like, (shape, fill_value), settings)
    return shaping.lay_out(_fill(shaping.as_integers(shape), fill_value, dtype), order)


MAKERS.add(np.full)


def _answer_array(name: str) -> Callable[..., Array]:
    own = {"ascontiguousarray": "C", "asfortranarray": "F"}.get(name, "K")
    first = "object" if name == "array" else "a"

    def answer(*args: Any, like: Array | None = None, **settings: Any) -> Array:
        given = dict(zip((first, "dtype", "order"), args, strict=False))
        given.update(settings)
        made: Any = admit(given[first])
        value = value_of(like)
        if is_device_array(value) and isinstance(made, Tensor):
            if type(made._value) is np.ndarray and not is_active(made):
                made = given[first] = made._value  # no gradient: it moves there
        if not isinstance(made, Tensor):
            more = {"like": value} if hasattr(value, "__array_function__") else {}
            return getattr(np, name)(given.pop(first), **more, **given)
        order: Any = given.get("order") or own
        dtype = given.get("dtype")
        if dtype is not None and dtype_of(made) != dtype:
            made = made.astype(dtype)
        if made is given[first] and given.get("copy", name == "array"):
            made = np.copy(made, order=order)
        elif order != "K":
            made = shaping.lay_out(
                made, shaping.memory_order(made) if order == "A" else order
            )
        short = given.get("ndmin", int(own != "K")) - len(shape_of(made))
        return np.reshape(made, (1,) * short + shape_of(made)) if short > 0 else made

    return answer


for _name in ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"):
    implements(getattr(np, _name))(_answer_array(_name))
    MAKERS.add(getattr(np, _name))


# copy and astype: entry by entry, so they batch as any elementwise op

COPY = linear("copy", np.copy, lambda g, x, **_: g, rule="g", carries=(0,), moves=True)


@implements(np.copy)
def copy(a: Array, order: str | None = "K", subok: bool = False) -> Array:
    """Copy an array, which makes a node of its own in the program."""
    check_order(order)
    same = order in (None, "K") or len(shape_of(a)) < 2
    return apply(COPY, (a,), {} if same else {"order": order})


#: The method copies in C order, where the function keeps that of the array.
FUNCTION_METHODS["copy"] = lambda a, order="C": np.copy(a, order=order or "C")


def _astype_compute(x: Array, *, dtype: np.dtype[Any]) -> Array:
    return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


def _astype_pull(g: Array, y: Array, x: Array, *, dtype: np.dtype[Any]) -> Cotangent:
    # Casting to integers rounds and has derivative 0; the sweep casts back.
    return g if is_differentiable(dtype) else None


def _astype_push(
    tangents: tuple[Any, ...], y: Array, x: Array, *, dtype: np.dtype[Any]
) -> Tangent:
    return tangents[0].astype(dtype) if is_differentiable(dtype) else None


ASTYPE = op(
    "astype",
    _astype_compute,
    _astype_pull,
    push=_astype_push,
    rule="g in the dtype of x",
    reads=(),
    template="np.astype({0}, {dtype})",
    moves=True,
    grows=True,
)
COPY.elementwise = ASTYPE.elementwise = True
COPY.passes = ASTYPE.passes = True
ASTYPE.carries = (0,)


@implements(np.astype)
def astype(
    x: Array,
    dtype: npt.DTypeLike | None,
    /,
    *,
    copy: bool = True,
    device: object = None,
) -> Array:
    """Convert to a dtype; the gradient comes back in the dtype of ``x``."""
    if not copy and dtype_of(x) == dtype:
        return x
    return apply(ASTYPE, (x,), {"dtype": np.dtype(dtype)})


# What NumPy asks about an array


@implements(np.shape)
def shape(a: Array) -> tuple[int, ...]:
    """Return the lengths of the axes, as `numpy.shape` does."""
    return shape_of(a)


@implements(np.ndim)
def ndim(a: Array) -> int:
    """Return the number of axes, as `numpy.ndim` does."""
    return len(shape_of(a))


@implements(np.size)
def size(a: Array, axis: Axis = None) -> int | Dim:
    """Return the number of entries, or of those along axes, as `numpy.size` does."""
    lengths = shape_of(a)
    rank = len(lengths)
    axes = range(rank) if axis is None else shaping.normal_axes(axis, rank)
    return math.prod(lengths[n] for n in axes)


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that operands promote to, as `numpy.result_type` does."""
    return np.result_type(*map(_dtype_stand_in, arrays_and_dtypes))


def _dtype_stand_in(x: object) -> Any:
    """Return a stand-in with the dtype and the weakness of a Tensor."""
    if not isinstance(x, Tensor):
        return x
    spec = x.spec if x._value is None else spec_of(x._value)
    return spec.example() if spec.weak else spec.dtype


@implements(np.iscomplexobj)
def iscomplexobj(x: Array) -> bool:
    """Return whether the dtype is complex, as `numpy.iscomplexobj` does."""
    return bool(x.dtype.kind == "c")


@implements(np.isrealobj)
def isrealobj(x: Array) -> bool:
    """Return whether the dtype is not complex, as `numpy.isrealobj` does."""
    return bool(x.dtype.kind != "c")


@implements(np.array_str, np.array2string)
def array_text(a: Array, *args: Any, **settings: Any) -> str:
    """Return the text of a Tensor, which takes no gradient away."""
    return str(a)


@implements(np.array_repr)
def array_repr(arr: Array, *args: Any, **settings: Any) -> str:
    """Return the text of a Tensor, as `array_text` does under another name."""
    return str(arr)


# Evenly spaced numbers: `linspace`, and its powers `logspace` and `geomspace`.

# linspace: linear in both ends, with NumPy's own values


def _line_shares(num: int, endpoint: bool, like: Array, rank: int) -> Array:
    """Return how much of the way to the stop each number has gone."""
    parts = num - 1 if endpoint else num
    line = list_positions(num, like=like).astype(wide_dtype(like)) / max(parts, 1)
    return np.reshape(line, (num, *(1,) * rank))


def _compute(start: Any, stop: Any, *, num: int, endpoint: bool = True) -> Array:
    return np.linspace(start, stop, num, endpoint=endpoint)  # host array: of numbers


def _line_lengths(start: Any, stop: Any, *, num: int, endpoint: bool = True) -> Spec:
    shape = broadcast_shapes(shape_of(start), shape_of(stop))
    first, last = (
        x if is_weak(x) else spec_of(x).example() if spec_of(x).weak else
        np.ones((), dtype_of(x))  # host array: of its dtype
        for x in (start, stop)
    )  # fmt: skip
    made: Any = np.linspace(first, last, 2)  # host array: of numbers
    return Spec((num, *shape), made.dtype)


def _pull(part: int) -> Callable[..., Array]:
    def pull(
        g: Array,
        y: Array,
        start: ArrayLike,
        stop: ArrayLike,
        *,
        num: int,
        endpoint: bool = True,
    ) -> Array:
        share = _line_shares(num, endpoint, g, len(shape_of(g)) - 1)
        passed = np.sum(g * (share if part else 1 - share), axis=0)
        return sum_to(passed, shape_of(stop if part else start))

    return pull


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Array:
    return np.moveaxis(apply(LINSPACE, align_batch(inputs, batched), params), 1, 0)


def _line_body(start: Any, stop: Any, *, num: int, endpoint: bool = True) -> Any:
    parts = num - 1 if endpoint else num
    if num < 1 or np.result_type(dtype_of(start), dtype_of(stop)).char == "e":
        return None
    way = np.subtract(stop, start) * 1.0
    real = np.empty(0, dtype_of(way)).real.dtype  # host array: its dtype
    line = np.arange(num, dtype=real)  # host array: positions
    line = line.reshape(num, *(1,) * len(shape_of(way)))
    made = line * (way / float(parts)) + start if parts else line * way + start
    if not endpoint or num < 2:
        return made
    return np.concatenate([made[:-1], np.broadcast_to(stop, shape_of(made[:1]))])


LINSPACE = op(
    "linspace",
    _compute,
    _pull(0),
    _pull(1),
    batch=_batch,  # five times as fast as by the body
    rule="Σ g (1 − t)   Σ g t",
    reads=(),
    lengths=_line_lengths,
    unfold=_line_body,
)


@implements(np.linspace)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Array | tuple[Array, Any]:
    """Return evenly spaced numbers, differentiable in both ends."""
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
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return powers of evenly spaced exponents, differentiable in ends and base."""
    start, stop, base = admit(start), admit(stop), admit(base)
    if len(shape_of(base)):
        rank = max(len(shape_of(x)) for x in (start, stop, base))
        start, stop, base = (
            convert_like(
                np.reshape(x, (1,) * (rank - len(shape_of(x))) + shape_of(x)), base
            )
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
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return a geometric sequence, differentiable in both ends."""
    start, stop, num = admit(start), admit(stop), operator.index(num)
    for x in (start, stop):
        value = value_of(x)
        if value is not None and bool(np.any(np.equal(value, 0))):
            raise ValueError("Geometric sequence cannot include zero")
    # NumPy computes in double precision at least, if no dtype is given.
    kind = np.result_type(start, stop, 1.0, np.float64 if dtype is None else dtype)
    like = start if hasattr(start, "dtype") else stop
    start, stop = (_as_array(x, like).astype(kind) for x in (start, stop))
    # Turned so that the start is positive: the others keep their angle to it.
    turn = np.sign(start)
    first, last = start / turn, stop / turn
    y = logspace(np.log10(first), np.log10(last), num, endpoint) * turn
    # The ends are what was given, to the last digit.
    one = (1, *shape_of(y)[1:])
    parts = [np.broadcast_to(start, one), y[1:]]
    if endpoint and num > 1:
        parts = [parts[0], y[1:-1], np.broadcast_to(stop, one)]
    if num > 0:
        y = shaping.lay_like(np.concatenate(parts), y)
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    return y if dtype is None else y.astype(dtype)


def _as_array(x: Array, like: Array) -> Array:
    """Return a number as an array of the library of the other end."""
    if hasattr(x, "astype"):
        return x
    return convert_like(np.asarray(x), like)  # host array: a number, moved
