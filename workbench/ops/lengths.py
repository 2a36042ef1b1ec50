"""Lengths that are known only when the program runs, as operands and as settings.

``x / n`` with ``n = x.shape[0]`` divides by the op `length`, an integer that is
measured; `sum_to` of such shapes is the op `unbroadcast`, which sees at run time over
which axes to sum. How settings hold lengths stands in `core/deferred.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame, deferred, source, traces
from workbench.core.deferred import can_defer, defer_call
from workbench.core.dims import Dim
from workbench.core.op import LENGTHS, OPERANDS, OPS, connect_nothing
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, Batched, Spec
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, linear, list_positions, op, shape_of

_INTEGER = Spec((), np.dtype(int), True)

LENGTH = op(
    "length",
    lambda *, n: operator.index(n),
    infer=lambda *, n: _INTEGER,
    lengths=lambda *, n: _INTEGER,
    rule="a length has no derivative",
    template="{n}",
)


def _length(n: Dim) -> Tensor:
    """Return a length as an operand: an integer, weak as Python's."""
    place = *source.caller(), source.current_context()
    made: Tensor = deferred.defer_op(LENGTH, (), {"n": n}, _INTEGER, Tensor, *place)
    return made


OPERANDS[Dim] = _length


def defer_function(
    function: Callable[..., Any],
    *,
    pin: bool = False,
    lengths: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return the function, deferred to run time where a length is unknown before.

    NumPy's own functions do so by themselves. This is for functions of ours that
    NumPy does not hand to Tensors. With ``pin`` all ops that it makes stand on the
    user's line; not so for one that runs a function of the user's. ``lengths`` tells
    the shape of its result from the arguments, a list of several.
    """

    @wraps(function)
    def wrapper(*args: Any, **settings: Any) -> Array:
        try:
            if not pin:
                return function(*args, **settings)
            with source.pin_line():
                return function(*args, **settings)
        except blame.PLAIN as error:
            if can_defer(error, wrapper, args, settings):
                return defer_call(error, wrapper, args, settings)
            told = blame.locate_user_error(error, function.__name__, args, settings)
            if not pin or told is error:
                raise
            raise told from error

    if lengths is not None:
        LENGTHS[wrapper] = lengths
    return wrapper


def defer_functions(
    namespace: dict[str, Any],
    names: Iterable[str],
    lengths: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> None:
    """Apply `defer_function` to functions of a module, some with rules of lengths."""
    for name in names:
        if isinstance(namespace.get(name), FunctionType):
            namespace[name] = defer_function(
                namespace[name], pin=True, lengths=lengths.get(name)
            )


# Lengths that values decide: slices whose ends are Tensors, and `arange` up to one.
#
# ``x[i * n : (i + 1) * n]`` with a symbol ``i`` is the op `span`, whose result has a
# length that is measured when the program runs. An integer without a value that stands
# for a length, ``np.reshape(x, (n, -1))``, is the length of ``np.arange(n)``.

#: Start, stop and step of a slice: a number, None, or `GIVEN` for the next operand.
Key = tuple[Any, ...]

GIVEN = "given"


def has_no_value(x: object) -> bool:
    """Return whether ``x`` is a Tensor without a value."""
    return isinstance(x, Tensor) and x._value is None


def is_mask(array: object) -> bool:
    """Return whether an array of an index chooses by true and false."""
    return hasattr(array, "dtype") and array.dtype.kind == "b"


# x[start:stop:step] along one axis


def _index_span(key: Key, bounds: tuple[Any, ...], axis: int) -> tuple[slice, ...]:
    rest = iter(bounds)
    ends = [int(next(rest)) if type(b) is str else b for b in key]
    return (*(slice(None),) * axis, slice(*ends))


def _span(x: Array, *bounds: Any, axis: int, key: Key) -> Array:
    return x[_index_span(key, bounds, axis)]


def _span_transpose(g: Array, x: Array, *bounds: Any, axis: int, key: Key) -> Array:
    params = {"axis": axis, "key": key, "length": shape_of(x)[axis]}
    return apply(UNSPAN, (g, *bounds), params)


def _unspan(g: Array, *bounds: Any, axis: int, key: Key, length: int | Dim) -> Array:
    out = np.zeros_like(g, shape=(*g.shape[:axis], length, *g.shape[axis + 1 :]))
    out[_index_span(key, bounds, axis)] = g
    return out


def _with_length(x: Array, axis: int, length: int | Dim | None) -> Spec:
    shape = shape_of(x)
    return Spec((*shape[:axis], length, *shape[axis + 1 :]), dtype_of(x))


def _span_lengths(x: Array, *bounds: Any, axis: int, key: Key) -> Spec:
    return _with_length(x, axis, None)


def _unspan_lengths(
    g: Array, *bounds: Any, axis: int, key: Key, length: int | Dim
) -> Spec:
    return _with_length(g, axis, length)


def _batch(name: str) -> Callable[..., Array]:
    def batch(inputs: tuple[Any, ...], batched: Batched, params: Any) -> Array:
        if any(batched[1:]):
            return NotImplemented
        return apply(OPS[name], inputs, {**params, "axis": params["axis"] + 1})

    return batch


SPAN = linear(
    "span",
    _span,
    _span_transpose,
    rule="g in the slice, else 0",
    pattern="moved",
    infer=_span_lengths,
    batch=_batch("span"),
    helper='''\
def span(x, *ends, axis, key):
    """x[start:stop:step] along an axis; what the key does not hold is given."""
    ends = iter(ends)
    part = slice(*[int(next(ends)) if type(k) is str else k for k in key])
    return x[(slice(None),) * axis + (part,)]
''',
)
UNSPAN = linear(
    "unspan",
    _unspan,
    lambda g, x, *bounds, axis, key, length: apply(
        SPAN, (g, *bounds), {"axis": axis, "key": key}
    ),
    rule="g in the slice",
    pattern="moved",
    infer=_unspan_lengths,
    batch=_batch("unspan"),
    helper='''\
def unspan(g, *ends, axis, key, length):
    """Zeros that hold g in a slice along an axis."""
    ends = iter(ends)
    part = slice(*[int(next(ends)) if type(k) is str else k for k in key])
    out = np.zeros_like(g, shape=(*g.shape[:axis], length, *g.shape[axis + 1 :]))
    out[(slice(None),) * axis + (part,)] = g
    return out
''',
)


def _slice_axis(x: Array, part: slice, axis: int) -> Array:
    """Take ``x`` between the ends of a slice along an axis."""
    key, bounds = [], []
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, Tensor):
            if bound.dtype.kind not in "iu" or shape_of(bound) != ():
                raise IndexError(
                    f"a slice that ends at {blame.describe(bound)}{blame.user_line()}:"
                    " its ends are single integers; write .astype(int)"
                )
            key.append(GIVEN)
            bounds.append(bound)
        else:
            key.append(bound)
    return apply(SPAN, (x, *bounds), {"axis": axis, "key": tuple(key)})


def _has_tensor_end(part: Any) -> bool:
    return isinstance(part, slice) and any(
        map(has_no_value, (part.start, part.stop, part.step))
    )


def _list_index_parts(x: Array, index: object) -> list[tuple[Any, int]]:
    """Return the parts of an index, each with its first axis."""
    parts = index if type(index) is tuple else (index,)
    widths = [
        0 if p is None or p is Ellipsis else len(shape_of(p)) if is_mask(p) else 1
        for p in parts
    ]
    found, axis = [], 0
    for part, width in zip(parts, widths, strict=True):
        found.append((part, axis))
        axis += len(shape_of(x)) - sum(widths) if part is Ellipsis else width
    return found


def slice_by_tensors(x: Array, index: object) -> tuple[Any, tuple[Any, ...]]:
    """Apply the slices with Tensor ends; return the array and the remaining index.

    The second is the index of what is still to be taken; ``()`` where that is all.
    """
    rest = []
    for part, axis in _list_index_parts(x, index):
        if _has_tensor_end(part):
            x, part = _slice_axis(x, part, axis), slice(None)
        rest.append(part)
    if all(isinstance(p, slice) and p == slice(None) for p in rest):
        return x, ()
    return x, tuple(rest)


def index_positions(x: Array, index: object) -> tuple[Any, ...]:
    """Return the same index as arrays of positions, for writing."""
    parts = _list_index_parts(x, index)
    made = []
    for part, axis in parts:
        if _has_tensor_end(part):
            others = [p for p, _ in parts if p is not part]
            if not all(p is Ellipsis or isinstance(p, slice) for p in others) or any(
                map(_has_tensor_end, others)
            ):
                raise TraceError(
                    f"at(x)[...] of {blame.describe(x)}{blame.user_line()}: a slice"
                    " that ends at a Tensor stands beside integers or arrays. Write one"
                    " index after the other: row = x[i], at(row)[a:b].set(v), and"
                    " at(x)[i].set(row)."
                )
            n = shape_of(x)[axis]
            part = _slice_axis(list_positions(n, like=x), part, 0)
        made.append(part)
    return tuple(made)


# arange up to a Tensor


def _arange(*ends: Any, dtype: npt.DTypeLike | None = None) -> Array:
    like = next((e for e in ends if hasattr(e, "__array_function__")), None)
    return np.arange(*ends, dtype=dtype, like=like)


def _arange_lengths(*ends: Any, dtype: npt.DTypeLike | None = None) -> Spec:
    entries = [e.example() if isinstance(e, Spec) else e for e in ends]
    return Spec((None,), _arange(*entries, dtype=dtype).dtype)


ARANGE = op(
    "arange",
    _arange,
    infer=_arange_lengths,
    rule="positions have no derivative",
)
ARANGE.connection = connect_nothing


def as_length(n: Tensor) -> int | Dim:
    """Return an integer without a value as a length."""
    if n.op is LENGTH:
        return n.settings["n"]
    if n.dtype.kind not in "iu" or shape_of(n) != ():
        raise TypeError(
            f"{blame.describe(n)}{blame.user_line()} is not a length: a length is one"
            " integer."
        )
    return shape_of(apply(ARANGE, (n,)))[0]


# Where an array is not 0: how many places there are is known when the program runs


def _places_lengths(x: Array) -> Spec:
    return Spec((len(shape_of(x)), None), np.dtype(np.intp))


PLACES = op(
    "nonzero_places",
    lambda x: np.stack(np.nonzero(x)),
    template="np.stack(np.nonzero({0}))",
    infer=_places_lengths,
    rule="positions have no derivative",
)
PLACES.connection = connect_nothing


def is_symbolic(x: object) -> bool:
    """Return whether ``x`` is part of an expression of symbols outside a trace."""
    return has_no_value(x) and not traces.has_open_trace() and bool(shape_of(x))


def nonzero_places(x: Array) -> tuple[Any, ...]:
    """Return where a Tensor is not 0, an array of positions for each axis."""
    found = apply(PLACES, (x,))
    return tuple(found[i] for i in range(len(shape_of(x))))


def replace_masks(index: object) -> tuple[Any, ...]:
    """Replace the masks of an index that have no value by their true places."""
    parts: list[Any] = []
    for part in index if type(index) is tuple else (index,):
        if is_mask(part) and is_symbolic(part):
            parts += nonzero_places(part)
        else:
            parts.append(part)
    return tuple(parts)
