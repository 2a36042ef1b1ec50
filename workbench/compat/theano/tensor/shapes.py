"""Shapes: `dimshuffle` and its kin, joining, makers, `Assert`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.config import config
from workbench.compat.theano.op import Apply, Op
from workbench.compat.theano.tensor.lifting import (
    Table,
    as_length,
    as_lengths,
    is_known_length,
    is_length_one,
    lift,
    lifted,
)
from workbench.compat.theano.types import as_tensor_variable, dtype_name
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike
from workbench.errors import ShapeError, UsageError
from workbench.ops import shaping

__all__ = [
    "TABLE",
    "addbroadcast",
    "batched_dot",
    "dimshuffle",
    "dot",
    "flatten",
    "patternbroadcast",
    "reshape",
    "specify_shape",
]


def dimshuffle(x: ArrayLike, *pattern: Any) -> Array:
    """Return the axes in another order; ``"x"`` is a new axis of length 1.

    An axis that the pattern leaves out must have the length 1.
    """
    x = as_tensor_variable(x)
    if len(pattern) == 1 and isinstance(pattern[0], (list, tuple)):
        pattern = tuple(pattern[0])
    kept = [p % x.ndim for p in pattern if p != "x"] if x.ndim else []
    if any(p != "x" and not -x.ndim <= p < x.ndim for p in pattern):
        raise ShapeError(f"dimshuffle{pattern}: the variable has {x.ndim} axes.")
    if len(set(kept)) < len(kept):
        raise ShapeError(f"dimshuffle{pattern} takes an axis twice.")
    dropped = [n for n in range(x.ndim) if n not in kept]
    for n in dropped:
        if not is_length_one(x.shape[n]):
            raise ShapeError(
                f"dimshuffle{pattern} leaves out axis {n} of a variable of shape"
                f" {x.shape}, whose length is not known to be 1. Declare it so"
                f" (T.addbroadcast(x, {n})), or take an entry of that axis."
            )
    if dropped:
        x = np.squeeze(x, axis=tuple(dropped))
    order = [sorted(kept).index(n) for n in kept]
    if order != sorted(order):
        x = np.transpose(x, order)
    new = tuple(i for i, p in enumerate(pattern) if p == "x")
    return np.expand_dims(x, new) if new else x


def reshape(x: ArrayLike, newshape: Any, ndim: int | None = None) -> Array:
    """Give an array another shape; its lengths may be variables."""
    shape = as_lengths(newshape, ndim)
    return lift(np.reshape(as_tensor_variable(x), shape))


def flatten(x: ArrayLike, ndim: int | None = None, outdim: int | None = None) -> Array:
    """Return the last axes as one, so that ``ndim`` are left; one unless given."""
    x, left = as_tensor_variable(x), ndim or outdim or 1
    if not 1 <= left <= max(x.ndim, 1):
        raise ShapeError(f"flatten to {left} axes of a variable that has {x.ndim}.")
    if left == x.ndim:
        return x
    return np.reshape(x, (*x.shape[: left - 1], -1))


def shape_padleft(t: ArrayLike, n_ones: int = 1) -> Array:
    """Return an array with ``n_ones`` new axes in front."""
    return lift(np.expand_dims(as_tensor_variable(t), tuple(range(n_ones))))


def shape_padright(t: ArrayLike, n_ones: int = 1) -> Array:
    """Return an array with ``n_ones`` new axes at the end."""
    t = as_tensor_variable(t)
    return lift(np.expand_dims(t, tuple(range(t.ndim, t.ndim + n_ones))))


def shape_padaxis(t: ArrayLike, axis: int) -> Array:
    """Return a new axis at ``axis``."""
    return lift(np.expand_dims(as_tensor_variable(t), axis))


def addbroadcast(x: ArrayLike, *axes: int) -> Any:
    """Return the same array; a run checks that ``axes`` have the length 1."""
    x = as_tensor_variable(x)
    chosen = {n % x.ndim for n in axes}
    if all(is_length_one(x.shape[n]) for n in chosen):
        return x
    return specify_shape(x, [1 if n in chosen else None for n in range(x.ndim)])


def unbroadcast(x: ArrayLike, *axes: int) -> Array:
    """Return the array itself: an axis of length 1 broadcasts here, as in NumPy."""
    return as_tensor_variable(x)


def patternbroadcast(x: Any, broadcastable: Any) -> Any:
    """Declare the axes broadcastable that are true in the pattern."""
    axes = [i for i, b in enumerate(broadcastable) if b]
    return addbroadcast(x, *axes) if axes else as_tensor_variable(x)


def specify_shape(x: Any, shape: Any) -> Array:
    """Return the same array with a declared shape, checked at run time."""
    return lift(shaping.specify_shape(as_tensor_variable(x), _resolve_shape(shape)))


def _resolve_shape(shape: Any) -> Any:
    """Return a shape in which a length that is not known yet is any."""
    lengths = [None if n is None else as_length(n) for n in np.atleast_1d(shape)]
    return [n if is_known_length(n) else None for n in lengths]


def join(axis: int, *tensors: Any) -> Array:
    """Join arrays along an axis, which stands first, as `concatenate` does."""
    return concatenate(list(tensors), axis)


def concatenate(tensor_list: Any, axis: int = 0) -> Array:
    """Join arrays along an axis, as `numpy.concatenate` does."""
    return lift(np.concatenate([as_tensor_variable(t) for t in tensor_list], axis=axis))


def stack(*tensors: Any, axis: Any = 0) -> Array:
    """Join a list, or several arguments, along a new axis."""
    parts: Any = tensors
    if isinstance(tensors[0], (list, tuple)):
        parts, axis = tensors[0], (*tensors[1:], axis)[0]
    return lift(np.stack([as_tensor_variable(t) for t in parts], axis=int(axis)))


def stacklists(arg: Any) -> Any:
    """Nested lists of variables as one array."""
    if isinstance(arg, (list, tuple)):
        return stack([stacklists(part) for part in arg])
    return as_tensor_variable(arg)


def vertical_stack(*args: Any) -> Array:
    """Stack matrices on top of each other."""
    return concatenate(args, 0)


def horizontal_stack(*args: Any) -> Array:
    """Stack matrices side by side."""
    return concatenate(args, 1)


def split(x: ArrayLike, splits_size: Any, n_splits: int, axis: int = 0) -> list[Any]:
    """Parts of ``splits_size`` entries along an axis; they must add up to all."""
    x, sizes = as_tensor_variable(x), as_lengths(splits_size, n_splits)
    if len(sizes) != n_splits:
        raise UsageError(f"split: {len(sizes)} sizes for {n_splits} parts.")
    before = (slice(None),) * (axis % x.ndim)
    ends: list[Any] = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    length = x.shape[axis]
    if is_known_length(ends[-1]) and is_known_length(length) and ends[-1] != length:
        raise ShapeError(f"split: the sizes {sizes} do not add up to {length}.")
    return [x[(*before, slice(a, b))] for a, b in pairwise(ends)]


def tile(x: ArrayLike, reps: Any, ndim: int | None = None) -> Array:
    """Repeat a whole array along each axis, as `numpy.tile` does."""
    x = as_tensor_variable(x)
    counts = as_lengths(reps if isinstance(reps, (list, tuple)) else (reps,))
    if ndim is not None and ndim > len(counts):
        counts = (1,) * (ndim - len(counts)) + counts
    return lift(np.tile(x, counts))


def repeat(x: ArrayLike, repeats: Any, axis: int | None = None) -> Array:
    """Repeat each entry along an axis, as `numpy.repeat` does."""
    count = as_length(repeats) if np.ndim(repeats) == 0 else repeats
    return lift(np.repeat(as_tensor_variable(x), count, axis=axis))


def roll(x: Any, shift: Any, axis: int | None = None) -> Any:
    """Shift the entries along an axis, round the end; the shift may be a variable."""
    x = as_tensor_variable(x)
    if isinstance(shift, (int, np.integer)):
        return lift(np.roll(x, int(shift), axis=axis))
    if axis is None:
        return np.reshape(roll(np.ravel(x), shift, 0), x.shape)
    n = x.shape[axis]
    places = np.remainder(np.arange(n, like=x) - shift, n)
    return lift(np.take(x, places, axis=axis))


def transpose(x: ArrayLike, axes: Any = None) -> Array:
    """Reverse or permute the axes, as `numpy.transpose` does."""
    return lift(np.transpose(as_tensor_variable(x), axes))


def batched_dot(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the product of each pair of arrays along the first axis."""
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("batched_dot: both variables have the axis of the batch.")
    if a.ndim <= 3 and b.ndim <= 3:
        left = a[:, None, :] if a.ndim == 2 else a[:, None, None] if a.ndim == 1 else a
        right = b[:, :, None] if b.ndim == 2 else b[:, None, None] if b.ndim == 1 else b
        if a.ndim == 1 or b.ndim == 1:  # numbers by which arrays are multiplied
            return batched_tensordot(a, b, 0)
        made = np.matmul(left, right)
        if b.ndim == 2:
            made = made[..., 0]
        return made[:, 0] if a.ndim == 2 else made
    return batched_tensordot(a, b, [[a.ndim - 1], [max(1, b.ndim - 2)]])


def batched_tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Array:
    """Return `numpy.tensordot` of each pair of arrays along the first axis."""
    a, b = as_tensor_variable(a), as_tensor_variable(b)
    if isinstance(axes, int):
        axes = [range(a.ndim - axes, a.ndim), range(1, 1 + axes)]
    left, right = ([int(n) for n in np.atleast_1d(list(part))] for part in axes)
    # Sublists of einsum: 0 is the batch, then the axes of a, then those of b.
    of_a = list(range(a.ndim))
    of_b = [0, *range(a.ndim, a.ndim + b.ndim - 1)]
    for i, j in zip(left, right, strict=True):
        of_b[j] = of_a[i]
    out = [n for i, n in enumerate(of_a) if i not in left]
    out += [n for j, n in enumerate(of_b) if j > 0 and j not in right]
    letters = "abcdefghijklmnopqrstuvwxyz"
    spelt = ["".join(letters[n] for n in part) for part in (of_a, of_b, out)]
    return lift(np.einsum(f"{spelt[0]},{spelt[1]}->{spelt[2]}", a, b))


def tensordot(a: ArrayLike, b: ArrayLike, axes: Any = 2) -> Array:
    """Sum products over pairs of axes, as `numpy.tensordot` does."""
    return lift(np.tensordot(as_tensor_variable(a), as_tensor_variable(b), axes))


def dot(l: Any, r: Any) -> Array:  # noqa: E741 Theano's names
    """Sum products over the last axis of ``l`` and the last but one of ``r``."""
    return lift(np.dot(as_tensor_variable(l), as_tensor_variable(r)))


def outer(x: ArrayLike, y: ArrayLike) -> Array:
    """Multiply each entry of ``x`` by each entry of ``y``, as `numpy.outer` does."""
    return lift(np.outer(as_tensor_variable(x), as_tensor_variable(y)))


def shape(x: ArrayLike) -> tuple[Any, ...]:
    """Return the shape: a tuple of lengths, each of which may stand in arithmetic."""
    return as_tensor_variable(x).shape


def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the diagonal matrix of a vector, or the diagonal of a matrix."""
    return lift(np.diag(as_tensor_variable(v), k))


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of two axes, as `numpy.diagonal` does."""
    return lift(np.diagonal(as_tensor_variable(a), offset, axis1, axis2))


def trace(a: ArrayLike, offset: int = 0) -> Array:
    """Return the sum of a diagonal."""
    return lift(np.trace(as_tensor_variable(a), offset))


TABLE: Table = {
    name: function
    for name, function in list(globals().items())
    if getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
TABLE |= {name: lifted(getattr(np, name), name) for name in ("swapaxes", "moveaxis")}
TABLE |= {name: lifted(getattr(np, name), name) for name in ("squeeze", "tril", "triu")}
TABLE["rebroadcast"] = patternbroadcast


# Arrays made from lengths: `alloc`, `zeros`, `arange`, `eye`.


def alloc(value: Any, *shape: Any) -> Array:
    """Broadcast ``value`` to a shape; its lengths may be variables."""
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if type(value) is float:
        value = np.asarray(value, config.floatX)
    return lift(np.broadcast_to(as_tensor_variable(value), as_lengths(shape)))


def zeros(shape: Any, dtype: npt.DTypeLike | None = None) -> Array:
    """Return zeros, of `config.floatX` unless a dtype is given."""
    return alloc(np.zeros((), dtype_name(dtype)), *as_lengths(shape))


def ones(shape: Any, dtype: npt.DTypeLike | None = None) -> Array:
    """Return ones, of `config.floatX` unless a dtype is given."""
    return alloc(np.ones((), dtype_name(dtype)), *as_lengths(shape))


def zeros_like(
    model: ArrayLike, dtype: npt.DTypeLike | None = None, opt: bool = False
) -> Array:
    """Return zeros of the shape and dtype of ``model``, or of another dtype."""
    kind = None if dtype is None else dtype_name(dtype)
    return lift(np.zeros_like(as_tensor_variable(model), dtype=kind))


def ones_like(
    model: ArrayLike, dtype: npt.DTypeLike | None = None, opt: bool = False
) -> Array:
    """Return ones of the shape and dtype of ``model``, or of another dtype."""
    kind = None if dtype is None else dtype_name(dtype)
    return lift(np.ones_like(as_tensor_variable(model), dtype=kind))


def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: npt.DTypeLike | None = None
) -> Array:
    """Return evenly spaced numbers; the arguments may be variables."""
    if stop is None:
        start, stop = 0, start
    kind = None if dtype is None else dtype_name(dtype)
    ends: list[Any] = [as_tensor_variable(n) for n in (start, stop, step)]
    like = next((n for n in ends if n._value is None), ends[0])
    return lift(np.arange(*ends, dtype=kind, like=like))


def eye(n: Any, m: Any = None, k: int = 0, dtype: npt.DTypeLike | None = None) -> Array:
    """Return ones on a diagonal, of `config.floatX` unless a dtype is given."""
    rows = as_length(n)
    columns = rows if m is None else as_length(m)
    how: Any = {"k": int(k), "dtype": dtype_name(dtype)}
    if is_known_length(rows) and is_known_length(columns):
        return lift(np.eye(rows, columns, **how))
    like: Any = alloc(np.zeros((), how["dtype"]), rows, columns)
    return lift(np.eye(rows, columns, like=like, **how))


def identity_like(x: Any) -> Array:
    """Return a matrix with ones on its diagonal, in the shape and dtype of another."""
    x = as_tensor_variable(x)
    return lift(np.eye(x.shape[0], x.shape[1], dtype=x.dtype, like=x))


def tri(
    n: Any, m: ArrayLike | None = None, k: int = 0, dtype: npt.DTypeLike | None = None
) -> Array:
    """Return ones in a lower triangle, of `config.floatX` unless a dtype is given."""
    rows = as_length(n)
    columns = rows if m is None else as_length(m)
    return lift(np.tril(ones((rows, columns), dtype), int(k)))


MAKERS: Table = {
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


# `Assert`: a variable that is what it was, if a condition holds.


class Assert(Op):
    """Hand on a variable, or raise `AssertionError` if a condition is false."""

    __props__ = ("msg",)

    def __init__(self, msg: str = "Assert failed!") -> None:
        self.msg = msg

    def make_node(self, value: Any, *conds: Any) -> Apply:
        """Return one output, of the type of the first input."""
        value = as_tensor_variable(value)
        return Apply(self, [value, *conds], [value.type()])

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Look at the conditions, and hand on."""
        value, *conds = inputs
        if not all(map(np.all, conds)):
            raise AssertionError(self.msg)
        output_storage[0][0] = value

    def infer_shape(self, node: Tensor, shapes: Sequence[Any]) -> list[Any]:
        """Return the shape of the first input."""
        return [shapes[0]]

    def grad(self, inputs: Sequence[Any], output_grads: Sequence[Any]) -> list[Any]:
        """Return the output gradient for the first input, None for the others."""
        return [output_grads[0], *[None] * (len(inputs) - 1)]

    def R_op(self, inputs: Sequence[Any], eval_points: Sequence[Any]) -> list[Any]:
        """Return the tangent of the first input."""
        return [eval_points[0]]
