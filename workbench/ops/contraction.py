"""Contractions: products summed over axes, linear in each operand.

`matmul` and `tensordot` stand here, `einsum` in `einsum.py`; what is written with these
(`dot`, `outer`, ...) in `products.py`.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import numpy as np

from workbench.core.dims import (
    broadcast_shapes,
    unify_lengths,
)
from workbench.core.op import UFUNCS, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import (
    Array,
    Batched,
    Params,
    Shape,
    Spec,
    as_spec,
)
from workbench.ops.define import (
    align_batch,
    dtype_of,
    multilinear,
    shape_of,
    sum_to,
)
from workbench.ops.shaping import normal_axes

#: The axes of the two operands of a tensordot that meet, pair by pair.
AxisPairs = tuple[tuple[int, ...], tuple[int, ...]]


def swap(x: Array) -> Array:
    """Return the transpose of the last two axes."""
    return x.T if len(shape_of(x)) == 2 else np.swapaxes(x, -1, -2)


def product_dtype(*operands: Any) -> np.dtype[Any]:
    """Return the dtype of a product; a Python number never decides the dtype."""
    specs = map(as_spec, operands)
    return np.result_type(*(s.example() if s.weak else s.dtype for s in specs))


# matmul


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if not a or not b:
        raise ValueError("matmul: an operand has no axis, write * for a number")
    meeting = b[-2 if len(b) > 1 else 0]
    unify_lengths(
        a[-1],
        meeting,
        f"the last axis of {a} has length {a[-1]}, the axis of {b} that meets it"
        f" {meeting}",
    )
    loop = broadcast_shapes(a[:-2], b[:-2])
    return (*loop, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _matmul_infer(a: Array, b: Array) -> Spec:
    a, b = as_spec(a), as_spec(b)
    return Spec(_matmul_shape(a.shape, b.shape), product_dtype(a, b))


def _matmul_left(g: Array, a: Array, b: Array) -> Array:
    """Return the cotangent of ``a`` in ``a @ b``."""
    if len(shape_of(b)) == 1:
        return g[..., None] * b
    if len(shape_of(a)) == 1:
        if len(shape_of(b)) == 2:
            return b @ g
        g = g[..., None, :]
        return sum_to(g @ swap(b), (*shape_of(b)[:-2], 1, shape_of(a)[0]))[..., 0, :]
    return g @ swap(b)


def _matmul_right(g: Array, a: Array, b: Array) -> Array:
    """Return the cotangent of ``b`` in ``a @ b``."""
    if len(shape_of(a)) == 1:
        return a * g if len(shape_of(b)) == 1 else a[:, None] * g[..., None, :]
    if len(shape_of(b)) == 1:
        if len(shape_of(a)) == 2:
            return g @ a
        rows = math.prod(shape_of(g))
        return np.reshape(g, (rows,)) @ np.reshape(a, (rows, shape_of(b)[0]))
    return swap(a) @ g


def _matmul_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    a, b = inputs
    row = len(shape_of(a)) - batched[0] == 1
    column = len(shape_of(b)) - batched[1] == 1
    if row and column and all(batched):
        return np.einsum("bi,bi->b", a, b)
    # One product for the whole batch, where NumPy would loop over the examples.
    if column and not batched[1]:
        return a @ b
    if row and not batched[1] and len(shape_of(b)) == 2:
        return a @ b
    if column and not batched[0] and len(shape_of(a)) <= 2:
        return b @ swap(a) if len(shape_of(a)) == 2 else b @ a
    if not batched[1] and len(shape_of(a)) == 3 and len(shape_of(b)) == 2:
        size, rows, width = shape_of(a)
        flat = np.reshape(a, (size * rows, width)) @ b
        return np.reshape(flat, (size, rows, shape_of(b)[1]))
    # A vector becomes a matrix, so that the batch axis is one to loop over.
    if row:
        a = a[..., None, :]
    if column:
        b = b[..., None]
    a, b = align_batch((a, b), batched)
    y = a @ b
    y = y[..., 0] if column else y
    return (y[..., 0] if column else y[..., 0, :]) if row else y


def _matmul_body(a: Any, b: Any) -> Any:
    """Write a product of vectors or integers as sums, one of stacks as of matrices."""
    left, right = shape_of(a), shape_of(b)
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    if dtype.char == "e" or 0 in (*left, *right):
        return None
    if dtype.kind not in "fc":
        return _multiply_integers(a, b, dtype)
    if len(left) == len(right) == 1:
        return np.sum(a * b)
    if len(left) > 2 and len(right) <= 2:  # one product for the whole stack
        whole = np.reshape(a, (math.prod(left[:-1]), left[-1])) @ b
        return np.reshape(whole, (*left[:-1], *right[1:]))
    return None


def _multiply_integers(a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
    rows = len(shape_of(a)) > 1
    columns = len(shape_of(b)) > 1
    a = a[..., None] if rows else a[:, None]
    b = b if columns else b[:, None]
    b = b[..., None, :, :] if rows else b
    if dtype.kind == "b":
        made = np.any(a & b, axis=-2)
    else:
        made = np.sum(a * b, axis=-2).astype(dtype)
    return made if columns else made[..., 0]


def _pairs_vectors(inputs: tuple[Any, ...], params: Params) -> bool:
    return all(len(shape_of(x)) == 1 for x in inputs)


#: The traits of a product of two operands that sums over axes.
CONTRACTION: Any = {"contracts": True, "sums": True, "grows": True, "analytic": True}

MATMUL = multilinear(
    "matmul",
    operator.matmul,
    _matmul_left,
    _matmul_right,
    rule="g x₁ᵀ   x₀ᵀ g",
    batch=_matmul_batch,
    infer=_matmul_infer,
    cure="The last axis of the left operand must be as long as the second last (or"
    " only) axis of the right one; transpose one of them with .T.",
    template="{0} @ {1}",
    unfold=_matmul_body,
    pattern="contraction",
    aliases=("dot", "inner"),
    **CONTRACTION,
)
UFUNCS[np.matmul] = MATMUL
MATMUL.pairs = _pairs_vectors


# tensordot


def _list_free_axes(rank: int, used: tuple[int, ...]) -> list[int]:
    return [n for n in range(rank) if n not in used]


def _tensordot_compute(a: Array, b: Array, *, axes: AxisPairs) -> Array:
    return np.tensordot(a, b, axes)


def _tensordot_infer(a: Array, b: Array, *, axes: AxisPairs) -> Spec:
    a, b = as_spec(a), as_spec(b)
    for i, j in zip(*axes, strict=True):
        unify_lengths(
            a.shape[i],
            b.shape[j],
            f"axis {i} of {a.shape} has length {a.shape[i]}, axis {j} of"
            f" {b.shape} has {b.shape[j]}",
        )
    shape = [a.shape[n] for n in _list_free_axes(len(a.shape), axes[0])]
    shape += [b.shape[n] for n in _list_free_axes(len(b.shape), axes[1])]
    return Spec(tuple(shape), product_dtype(a, b))


def _tensordot_left(g: Array, a: Array, b: Array, *, axes: AxisPairs) -> Array:
    rank, (left, right) = len(shape_of(a)), axes
    free, other = _list_free_axes(rank, left), _list_free_axes(len(shape_of(b)), right)
    outer = tuple(range(len(free), len(free) + len(other)))
    # The axes come out as: free ones of a, then the summed ones in the order of b.
    passed = np.tensordot(g, b, (outer, tuple(other)))
    order = [*free, *(left[right.index(n)] for n in sorted(right))]
    return np.transpose(passed, [order.index(n) for n in range(rank)])


def _tensordot_right(g: Array, a: Array, b: Array, *, axes: AxisPairs) -> Array:
    rank, (left, right) = len(shape_of(b)), axes
    other, free = _list_free_axes(len(shape_of(a)), left), _list_free_axes(rank, right)
    outer = tuple(range(len(other)))
    passed = np.tensordot(a, g, (tuple(other), outer))
    order = [*(right[left.index(n)] for n in sorted(left)), *free]
    return np.transpose(passed, [order.index(n) for n in range(rank)])


def _tensordot_batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> Array:
    a, b = inputs
    left, right = params["axes"]
    if not all(batched):
        # One operand is the same for all examples: its batch axis is a free one.
        shifted = (
            tuple(n + batched[0] for n in left), tuple(n + batched[1] for n in right)
        )  # fmt: skip
        y = np.tensordot(a, b, shifted)
        return y if batched[0] else np.moveaxis(y, len(shape_of(a)) - len(left), 0)
    ranks = len(shape_of(a)) - 1, len(shape_of(b)) - 1
    spelt = tensordot_subscripts(ranks, left, right)
    first, second, output = re.split(",|->", spelt)
    return np.einsum(f"Z{first},Z{second}->Z{output}", a, b)


def parse_subscripts(subscripts: str) -> tuple[list[str], str]:
    """Return the terms of the operands, and that of the output."""
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def tensordot_subscripts(
    ranks: tuple[int, int], left: tuple[int, ...], right: tuple[int, ...]
) -> str:
    """Return the einsum that a tensordot is."""
    first = LETTERS[: ranks[0]]
    second = list(LETTERS[ranks[0] : sum(ranks)])
    for i, j in zip(left, right, strict=True):
        second[j] = first[i]
    output = [first[n] for n in _list_free_axes(ranks[0], left)]
    output += [second[n] for n in _list_free_axes(ranks[1], right)]
    return f"{first},{''.join(second)}->{''.join(output)}"


def _tensordot_body(a: Any, b: Any, *, axes: tuple[Any, Any]) -> Any:
    """Write a contraction as a product of matrices."""
    shapes = shape_of(a), shape_of(b)
    left, right = axes
    free = [n for n in range(len(shapes[0])) if n not in left]
    other = [n for n in range(len(shapes[1])) if n not in right]
    inner = math.prod(shapes[0][n] for n in left)
    rows = math.prod(shapes[0][n] for n in free)
    columns = math.prod(shapes[1][n] for n in other)
    flat_a = np.reshape(np.transpose(a, (*free, *left)), (rows, inner))
    flat_b = np.reshape(np.transpose(b, (*right, *other)), (inner, columns))
    shape = (*(shapes[0][n] for n in free), *(shapes[1][n] for n in other))
    return np.reshape(flat_a @ flat_b, shape)


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
TENSORDOT = multilinear(
    "tensordot",
    _tensordot_compute,
    _tensordot_left,
    _tensordot_right,
    rule="g · x₁ over its free axes   x₀ · g over its free axes",
    batch=_tensordot_batch,
    infer=_tensordot_infer,
    cure="The axes that meet must have equal lengths, pair by pair.",
    unfold=_tensordot_body,
    pattern="contraction",
    aliases=("dot", "inner"),
    **CONTRACTION,
)


def _pairs_all_axes(inputs: tuple[Any, ...], params: Params) -> bool:
    left, right = params["axes"]
    return bool(left == right) and len(left) == len(shape_of(inputs[0]))


TENSORDOT.pairs = _pairs_all_axes


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Array, b: Array, axes: Any = 2) -> Array:
    """Sum products over pairs of axes, as `numpy.tensordot` does."""
    a, b = admit(a), admit(b)
    ranks = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, (tuple, list)):
        left, right = axes
    else:
        axes = min(axes, max(ranks) + 1)  # more there are not, and no list of them
        left, right = range(ranks[0] - axes, ranks[0]), range(axes)
    left, right = (
        normal_axes(list(n) if isinstance(n, range) else n, rank)
        for n, rank in zip((left, right), ranks, strict=True)
    )
    if len(left) != len(right):
        raise ValueError(f"tensordot: {len(left)} axes of a, {len(right)} of b")
    return apply(TENSORDOT, (a, b), {"axes": (left, right)})
