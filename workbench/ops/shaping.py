"""Shapes: reshape, transpose, broadcast_to, `specify_shape`, and their cases.

What puts arrays together stands in `joining.py`, what moves or repeats entries
in `arranging.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np

from workbench.core import blame, dims, op, traces
from workbench.core.dims import Dim, broadcast_shapes, is_same_shape
from workbench.core.methods import check_order
from workbench.core.sharing import find_layout
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Axis, Batched, Params, Shape, Spec
from workbench.errors import ShapeError, TraceError, UnknownLengthError
from workbench.ops.define import dtype_of, linear, shape_of, sum_to
from workbench.ops.lengths import as_length


def normal_axis(axis: SupportsIndex, rank: int) -> int:
    """Return an axis counted from 0."""
    n = operator.index(axis)
    if not -rank <= n < rank:
        raise np.exceptions.AxisError(n, rank)
    return n % rank


def normal_axes(
    axes: SupportsIndex | Sequence[SupportsIndex], rank: int
) -> tuple[int, ...]:
    """Return axes counted from 0, in the order given."""
    several = axes if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(normal_axis(n, rank) for n in several)


def distinct_axes(
    axes: SupportsIndex | Sequence[SupportsIndex], rank: int
) -> tuple[int, ...]:
    """Return axes counted from 0; refuse an axis that is named twice."""
    found = normal_axes(axes, rank)
    if len(set(found)) < len(found):
        raise ValueError(f"repeated axis in {axes}{blame.user_line()}")
    return found


def as_integers(shape: object) -> tuple[Any, ...]:
    """Return a shape or axes as a tuple of integers, hashable; unknown lengths stay."""
    if isinstance(shape, (tuple, list, np.ndarray)):
        return tuple(map(as_integer, shape))
    return (as_integer(shape),)


def as_integer(n: Any) -> int | Dim:
    """Return a length: a Python integer, or one that is not known yet."""
    if type(n) is int:
        return n
    if isinstance(n, Tensor) and n._value is None:
        return as_length(n)
    return n if isinstance(n, Dim) else operator.index(n)


# How an array lies in memory
#
# Strides decide what is a view of what, and so what a change in place changes: results
# lie as NumPy's do. Without a value strides are known of the examples of a batch alone;
# elsewhere what stands here changes nothing.

#: The order of entries in memory: rows first, or columns first.
Order = Literal["C", "F"]


def value_in_memory(x: Array) -> Any:
    """Return a value, or an array with the same memory layout where that is known."""
    value = value_of(x)
    if value is None and any(trace.examples for trace in traces.LOCAL.stack):
        value = find_layout(x)
    return value


def memory_order(x: Array) -> Order:
    """Return "F" for a value in Fortran order alone, else "C".

    It is how `numpy.pad`, `numpy.insert` and their like lay out what they make.

    >>> import numpy as np
    >>> memory_order(np.ones((2, 3))), memory_order(np.ones((2, 3)).T)
    ('C', 'F')
    """
    value = value_in_memory(x)
    return "F" if isinstance(value, np.ndarray) and value.flags.fnc else "C"


def lay_out(x: Array, order: Order) -> Array:
    """Return an array in this memory order: itself if possible, else a copy.

    >>> import numpy as np
    >>> lay_out(np.ones((2, 3)).T, "C").strides
    (16, 8)
    """
    value = value_in_memory(x)
    if not isinstance(value, np.ndarray):
        return x
    flags = value.flags
    fits = flags.c_contiguous if order == "C" else flags.f_contiguous
    return x if fits else np.copy(x, order=order)


def lay_like(x: Array, like: Array) -> Array:
    """Return an array with its axes in memory in the order that those of ``like`` have.

    That is what NumPy calls order "K"; the ranks are equal.

    >>> import numpy as np
    >>> lay_like(np.ones((2, 3)), np.ones((3, 2)).T).strides
    (8, 16)
    """
    axes = memory_axes(like)
    rank = len(axes)
    if rank != len(shape_of(x)) or axes == tuple(range(rank)):
        return lay_out(x, "C")
    if axes == tuple(range(rank))[::-1]:
        return lay_out(x, "F")
    turned = np.transpose(x, axes)
    laid = lay_out(turned, "C")
    value = value_of(laid)
    if laid is turned or (value is not None and value is value_of(turned)):
        return x
    return np.transpose(laid, tuple(np.argsort(axes).tolist()))


def memory_axes(x: Array) -> tuple[int, ...]:
    """Return the axes of a value by their strides, the largest first.

    >>> import numpy as np
    >>> memory_axes(np.ones((2, 3, 4)).swapaxes(0, 1))
    (1, 0, 2)
    """
    value, rank = value_in_memory(x), len(shape_of(x))
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return tuple(range(rank))
    if value.flags.f_contiguous:
        return tuple(range(rank))[::-1]
    return tuple(sorted(range(rank), key=lambda n: -abs(value.strides[n])))


# reshape


def _reshape_compute(
    x: Array, *, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
) -> Array:
    return np.reshape(x, shape, order=order)


def _reshape_transpose(
    g: Array, x: Array, *, shape: Shape, order: Literal["C", "F"] = "C"
) -> Array:
    return np.reshape(g, shape_of(x), order=order)


def _reshape_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    x = inputs[0]
    size, *rest = shape_of(x)
    shape = _fill_free_length(params["shape"], math.prod(rest))
    if params.get("order", "C") == "C":
        return np.reshape(x, (size, *shape))
    # In Fortran order the batch axis varies slowest where it comes last.
    turned = moveaxis(x, 0, -1)
    return moveaxis(np.reshape(turned, (*shape, size), order="F"), -1, 0)


def _fill_free_length(shape: Shape, size: int | Dim) -> Shape:
    """Return a shape with its -1 replaced by the free length."""
    if not any(dims.is_same_shape((n,), (-1,)) for n in shape):
        return shape
    rest: Any = -math.prod(shape)
    if isinstance(rest, Dim) or isinstance(size, Dim):
        return tuple(
            [size // rest if dims.is_same_shape((n,), (-1,)) else n for n in shape]
        )
    return tuple((size // rest if rest else 0) if n == -1 else n for n in shape)


def _reshape_lengths(
    x: Array, *, shape: tuple[Any, ...], order: Literal["C", "F"] = "C"
) -> Spec:
    if sum(not isinstance(n, Dim) and n == -1 for n in shape) > 1:
        raise ValueError("can only specify one unknown dimension")
    entries = math.prod(shape_of(x))
    return Spec(_fill_free_length(shape, entries), dtype_of(x))


def _put_reshaped(x: Array, part: Array, params: Params) -> Array:
    return np.reshape(part, shape_of(x), order=params.get("order", "C"))


RESHAPE = linear(
    "reshape",
    _reshape_compute,
    _reshape_transpose,
    rule="g in the shape of x",
    template="np.reshape({0}, {shape}{more})",
    carries=(0,),
    batch=_reshape_batch,
    view=op.View(put=_put_reshaped, may_copy=True),
    lengths=_reshape_lengths,
    cure="The new shape must hold as many entries; one length may be -1.",
    moves=True,
    analytic=True,
)


@op.implements(np.reshape)
def reshape(
    a: Array,
    /,
    shape: int | Shape | None = None,
    order: str | None = "C",
    *,
    copy: bool | None = None,
) -> Array:
    """Give an array another shape, as `numpy.reshape` does."""
    kind = op.CopyParams if copy else dict
    params: Params = kind(shape=tuple(map(_normalize_free_length, as_integers(shape))))
    if _check_order(a, order) == "F":
        params["order"] = "F"
    return apply(RESHAPE, (a,), params)


def _normalize_free_length(n: int | Dim) -> int | Dim:
    """Return a length, or -1 for the one to be found: NumPy takes any negative."""
    return -1 if type(n) is int and n < 0 else n


@op.implements(np.ravel)
def ravel(a: Array, order: str | None = "C") -> Array:
    """Flatten an array to one axis, as `numpy.ravel` does."""
    read = _check_order(a, order)
    if order == "K":
        a, read = np.transpose(a, _reading_axes(a)), "C"
    flat: Any = np.reshape(a, (-1,), order=read)
    if isinstance(flat, Tensor) and value_of(flat) is None:
        flat.params = op.RavelParams(flat.params)  # a write asks whether it is a view
        return flat
    return lay_out(flat, "C")  # unlike a reshape, it never skips entries


def _reading_axes(x: Array) -> tuple[int, ...]:
    """Return the axes of a value as NumPy reads them in order "K", the slowest first.

    Repeated ones, whose stride is 0, stay where they are, as NumPy's loops do it.
    """
    value = value_of(x)
    if not isinstance(value, np.ndarray) or all(value.strides) or value.size < 2:
        return memory_axes(x)
    loop: Any = np.nditer(value, ["multi_index"], order="K")
    start, step, axes = loop.multi_index, 1, list[int]()
    while step < value.size:
        loop.iterindex = step
        axes += [n for n, i in enumerate(loop.multi_index) if i != start[n]]
        step *= value.shape[axes[-1]]
    rest = [n for n in range(value.ndim) if n not in axes]
    return (*rest, *axes[::-1])


def _check_order(a: Array, order: str | None) -> Order:
    """Return the order in which entries are read, "C" or "F"."""
    check_order(order)
    if order in ("A", "K") and len(shape_of(a)) > 1:
        if value_of(a) is None:
            raise TraceError(
                f"order={order!r}{blame.user_line()} depends on the order of an array"
                " in memory, which a trace without values (wb.vmap, wb.compile,"
                " wb.trace on specs) does not have. Write order='C' or order='F'."
            )
        return memory_order(a)
    return "F" if order == "F" else "C"


@op.implements(np.expand_dims)
def expand_dims(a: Array, axis: SupportsIndex | Sequence[SupportsIndex]) -> Array:
    """Insert axes of length 1, as `numpy.expand_dims` does."""
    shape = shape_of(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    new = distinct_axes(axes, len(shape) + len(axes))
    rest = iter(shape)
    return np.reshape(
        a, tuple(1 if i in new else next(rest) for i in range(len(shape) + len(axes)))
    )


@op.implements(np.squeeze)
def squeeze(a: Array, axis: Axis = None) -> Array:
    """Remove axes of length 1, as `numpy.squeeze` does."""
    shape = shape_of(a)
    if axis is None:
        if dims.has_dim(shape):
            error = UnknownLengthError(
                f"np.squeeze of {shape}{blame.user_line()}: which axes have length 1 is"
                " known only when the program runs. Name them: np.squeeze(x, axis=0)."
            )
            error.function = np.squeeze
            raise error
        return np.reshape(a, tuple(n for n in shape if n != 1))
    if not shape and axis in (0, -1):
        return a  # NumPy allows it
    axes = distinct_axes(axis, len(shape))
    if any(not isinstance(shape[i], Dim) and shape[i] != 1 for i in axes):
        raise ValueError(
            f"cannot squeeze axis {axis} of shape {shape}{blame.user_line()}: its"
            " length is not 1"
        )
    return np.reshape(a, tuple(n for i, n in enumerate(shape) if i not in axes))


@op.implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Array | tuple[Any, ...]:
    """Give each array at least one axis, as `numpy.atleast_1d` does."""
    return _at_least(arrays, lambda s: s or (1,))


@op.implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Array | tuple[Any, ...]:
    """Give each array at least two axes, as `numpy.atleast_2d` does."""
    return _at_least(arrays, lambda s: (1,) * (2 - len(s)) + s)


@op.implements(np.atleast_3d)
def atleast_3d(*arrays: Any) -> Array | tuple[Any, ...]:
    """Give each array at least three axes, as `numpy.atleast_3d` does."""
    return _at_least(
        arrays, lambda s: (1, *s, 1) if len(s) == 1 else s + (1,) * (3 - len(s)) if s
        else (1, 1, 1)
    )  # fmt: skip


def _at_least(
    arrays: Sequence[Any], shaped: Callable[[Shape], Shape]
) -> Array | tuple[Any, ...]:
    made = tuple(np.reshape(a, shaped(shape_of(a))) for a in map(admit, arrays))
    return made[0] if len(made) == 1 else made


# transpose


def _transpose_compute(x: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    return x.transpose(axes) if type(x) is np.ndarray else np.transpose(x, axes)


def _transpose_transpose(
    g: Array, x: Array, *, axes: tuple[int, ...] | None = None
) -> Array:
    if axes is None:
        return np.transpose(g)
    rank = len(axes)
    back = [0] * rank
    for i, n in enumerate(axes):
        back[n % rank] = i
    return np.transpose(g, tuple(back))


def _transpose_batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> Array:
    rank = len(shape_of(inputs[0])) - 1
    axes = params.get("axes")
    axes = range(rank - 1, -1, -1) if axes is None else (n % rank for n in axes)
    return np.transpose(inputs[0], (0, *(n + 1 for n in axes)))


def _transpose_lengths(x: Array, *, axes: tuple[int, ...] | None = None) -> Spec:
    shape = shape_of(x)
    order = range(len(shape))[::-1] if axes is None else axes
    if sorted(n % len(shape) for n in order) != list(range(len(shape))):
        raise UnknownLengthError("axes must name each axis once")
    return Spec(tuple(shape[n] for n in order), dtype_of(x))


def _put_transposed(x: Array, part: Array, params: Params) -> Array:
    axes = params.get("axes")
    if axes is None:
        return np.transpose(part)
    places = [n % len(axes) for n in axes]
    return np.transpose(part, [places.index(i) for i in range(len(axes))])


TRANSPOSE = linear(
    "transpose",
    _transpose_compute,
    _transpose_transpose,
    rule="gᵀ",
    carries=(0,),
    batch=_transpose_batch,
    view=op.View(put=_put_transposed),
    lengths=_transpose_lengths,
    moves=True,
    analytic=True,
)


@op.implements(np.transpose, np.permute_dims)
def transpose(a: Array, axes: Sequence[SupportsIndex] | None = None) -> Array:
    """Reverse or permute the axes, as `numpy.transpose` does."""
    params = {} if axes is None else {"axes": as_integers(axes)}
    return apply(op.declare("transpose"), (a,), params)


@op.implements(np.swapaxes)
def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    """Exchange two axes, as `numpy.swapaxes` does."""
    rank = len(shape_of(a))
    axes = list(range(rank))
    i, j = normal_axis(axis1, rank), normal_axis(axis2, rank)
    axes[i], axes[j] = axes[j], axes[i]
    return np.transpose(a, tuple(axes))


@op.implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Array, /) -> Array:
    """Exchange the last two axes, as `numpy.matrix_transpose` does."""
    return np.swapaxes(x, -1, -2)


@op.implements(np.moveaxis)
def moveaxis(
    a: Array,
    source: SupportsIndex | Sequence[SupportsIndex],
    destination: SupportsIndex | Sequence[SupportsIndex],
) -> Array:
    """Move axes to other positions, as `numpy.moveaxis` does."""
    rank = len(shape_of(a))
    old, new = normal_axes(source, rank), normal_axes(destination, rank)
    if len(old) != len(new):
        raise ValueError(
            f"np.moveaxis{blame.user_line()}: {len(old)} axes of the source, {len(new)}"
            " of the destination"
        )
    order = [n for n in range(rank) if n not in old]
    for at, n in sorted(zip(new, old, strict=True)):
        order.insert(at, n)
    return np.transpose(a, tuple(order))


@op.implements(np.rollaxis)
def rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    """Move an axis back to a position, as `numpy.rollaxis` does."""
    rank = len(shape_of(a))
    axis, start = normal_axis(axis, rank), start + rank if start < 0 else start
    if not 0 <= start <= rank:
        raise np.exceptions.AxisError(
            f"np.rollaxis{blame.user_line()}: start is not among {-rank} to {rank}"
        )
    return moveaxis(a, axis, start - 1 if axis < start else start)


# broadcast_to


def _broadcast_batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> Array:
    x, shape = inputs[0], params["shape"]
    size, *rest = shape_of(x)
    aligned = np.reshape(x, (size, *(1,) * (len(shape) - len(rest)), *rest))
    return np.broadcast_to(aligned, (size, *shape))


BROADCAST = linear(
    "broadcast_to",
    np.broadcast_to,
    lambda g, x, **_: sum_to(g, shape_of(x)),
    rule="g summed over the new axes",
    carries=(0,),
    template="np.broadcast_to({0}, {shape})",
    batch=_broadcast_batch,
    view=op.View(read_only=True),
    lengths=lambda x, *, shape: Spec(shape, dtype_of(x)),
    moves=True,
    analytic=True,
)


@op.implements(np.broadcast_to)
def broadcast_to(array: ArrayLike, shape: int | Shape, subok: bool = False) -> Array:
    """Broadcast an array to a shape, as `numpy.broadcast_to` does."""
    return apply(BROADCAST, (array,), {"shape": as_integers(shape)})


@op.implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Broadcast arrays to one shape, as `numpy.broadcast_arrays` does."""
    arrays = [admit(a) for a in args]
    shape = broadcast_shapes(*map(shape_of, arrays))
    return tuple(
        a if is_same_shape(shape_of(a), shape) else np.broadcast_to(a, shape)
        for a in arrays
    )


@op.implements(np.meshgrid)
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    """Return a grid of coordinates from vectors, as `numpy.meshgrid` does."""
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Valid values for `indexing` are 'xy' and 'ij'{blame.user_line()}, not"
            f" {indexing!r}."
        )
    rank = len(xi)
    made = [
        np.reshape(x, tuple(-1 if i == n else 1 for n in range(rank)))
        for i, x in enumerate(xi)
    ]
    if indexing == "xy" and rank > 1:
        made = [np.swapaxes(x, 0, 1) for x in made]
    made = made if sparse else list(np.broadcast_arrays(*made))
    return tuple([np.copy(x, order="C") for x in made] if copy else made)


# What a program states of a shape: `specify_shape`, checked when it runs.

Lengths = tuple[int | None, ...]


def _check_lengths(have: Sequence[int], shape: Lengths) -> None:
    if len(have) != len(shape) or any(
        n is not None and m != n for m, n in zip(have, shape, strict=True)
    ):
        text = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(
            f"specify_shape states the shape ({text}) of an array of shape"
            f" {tuple(have)}. Correct it, or write None for a length that varies."
        )


def _compute(x: Array, *, shape: Lengths) -> Array:
    _check_lengths(np.shape(x), shape)
    return x


def _infer(x: Array, *, shape: Lengths) -> Spec:
    """Return the stated shape, completed by the known one; the two must agree."""
    both = zip(shape_of(x), shape, strict=True)
    _check_lengths(
        [n if n is not None and isinstance(m, Dim) else m for m, n in both], shape
    )
    both = zip(shape_of(x), shape, strict=True)
    return Spec(tuple([m if n is None else n for m, n in both]), dtype_of(x))


_op = linear(
    "specify_shape",
    _compute,
    lambda g, x, **_: g,
    rule="g",
    carries=(0,),
    lengths=_infer,
    view=op.View(put=lambda x, part, params: part),
    helper='''\
def specify_shape(x, shape):
    """x, which has these lengths; None is any."""
    if len(x.shape) != len(shape) or any(
        n not in (None, m) for m, n in zip(x.shape, shape)
    ):
        raise ValueError(f"an array of shape {x.shape} is to have {shape}")
    return x
''',
)


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Array:
    return apply(_op, inputs, {"shape": (None, *params["shape"])})


_op.batch = _batch


def specify_shape(x: Array, shape: int | Shape) -> Array:
    """Return an array, marked with the shape that the caller states.

    Parameters
    ----------
    x
        An array or Tensor.
    shape
        Its lengths, None for one that may be any.

    Returns
    -------
    The array itself; its lengths are known from there on.

    Raises
    ------
    ShapeError
        If it has another shape: at once where that is known, else when it runs.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.ops.shaping import specify_shape
    >>> specify_shape(wb.matrix("x"), (None, 3)).shape[1]
    3
    """
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(lengths) != len(shape_of(x)):
        _check_lengths(shape_of(x), lengths)
    return apply(_op, (x,), {"shape": lengths})
