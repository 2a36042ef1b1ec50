"""The product of a sparse array with a dense one, and what its derivative needs.

Both ops are linear in each operand. The cotangent of the stored values is the dense
product read off at their places alone (the "sampled" product), so nothing of the
size of the whole array is ever made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.broadcasting import meet
from workbench.core.op import Op
from workbench.core.tensor import apply
from workbench.core.types import Spec, value_spec
from workbench.ops.contraction import product_dtype
from workbench.ops.define import multilinear, shape_of
from workbench.ops.indexing import own_ufunc
from workbench.ops.sparse.pattern import Pattern

__all__ = ["PRODUCT", "SAMPLE", "around", "block_diagonal", "placed"]

Params = dict[str, Any]
Batched = tuple[bool, ...]

#: The most numbers that a sampled product gathers at a time.
MOST_GATHERED = 2**22


def placed(index: Any, like: Any) -> Any:
    """An index array in the library, and on the device, of the values it is for."""
    value = getattr(like, "_value", like)
    if value is None or isinstance(value, (np.ndarray, np.generic)):
        return index
    return np.asarray(index, like=value)


def around(data: Any, pattern: Pattern) -> Any:
    """The sparse array around these values; None if their library has none."""
    if isinstance(data, np.ndarray):
        if all(isinstance(part, np.ndarray) for part in pattern.index):
            return pattern.matrix(data)
    elif type(data).__module__.partition(".")[0] == "cupy":
        from importlib import import_module

        kind = getattr(import_module("cupyx.scipy.sparse"), f"{pattern.format}_matrix")
        index = tuple(placed(part, data) for part in pattern.index)
        own = Pattern(kind, pattern.format, pattern.shape, index, pattern.data_shape)
        return own.matrix(data)
    return None


# sparse @ dense


def _product(data: Any, x: Any, *, pattern: Pattern) -> Any:
    s = around(data, pattern)
    if s is not None:
        # SciPy makes a number of one row in COO.
        return np.reshape(s @ x, (pattern.shape[0], *shape_of(x)[1:]))
    rows, columns = placed(pattern.rows, data), placed(pattern.columns, data)
    wide = data if len(shape_of(x)) == 1 else data[:, None]
    terms = wide * x[columns]
    out = np.zeros_like(terms, shape=(pattern.shape[0], *shape_of(x)[1:]))
    own_ufunc("add", out).at(out, rows, terms)
    return out


def _product_infer(data: Any, x: Any, *, pattern: Pattern) -> Spec:
    spec = value_spec(x)
    if len(spec.shape) not in (1, 2):
        raise ValueError(f"a product with an array of {len(spec.shape)} axes")
    meet(
        pattern.shape[1],
        spec.shape[0],
        f"the last axis of {pattern.shape} has length {pattern.shape[1]}, the first"
        f" of {spec.shape} another",
    )
    return Spec(
        (pattern.shape[0], *spec.shape[1:]), product_dtype(value_spec(data), spec)
    )


def _folded(x: Any) -> Any:
    """A batch of vectors or matrices as the columns of one matrix."""
    return np.reshape(np.moveaxis(x, 0, -1), (shape_of(x)[1], -1))


def block_diagonal(
    inputs: tuple[Any, ...], batched: Batched, pattern: Pattern
) -> tuple[list[Any], Pattern, int]:
    """The operands of a batch as those of one block-diagonal array."""
    count = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    tall = []
    for x, b in zip(inputs, batched, strict=True):
        if not b:
            x = np.broadcast_to(x, (count, *shape_of(x)))
        tall.append(np.reshape(x, (count * shape_of(x)[1], *shape_of(x)[2:])))
    return tall, pattern.repeated(count), count


def _product_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    pattern: Pattern = params["pattern"]
    data, x = inputs
    height = pattern.shape[0]
    if not batched[0]:
        size, _, *rest = shape_of(x)
        y = apply(PRODUCT, (data, _folded(x)), params)
        return np.moveaxis(np.reshape(y, (height, *rest, size)), -1, 0)
    tall, blocks, count = block_diagonal(inputs, batched, pattern)
    y = apply(PRODUCT, tuple(tall), {"pattern": blocks})
    return np.reshape(y, (count, height, *shape_of(y)[1:]))


PRODUCT: Op = multilinear(
    "sparse_matmul",
    _product,
    lambda g, data, x, *, pattern: apply(SAMPLE, (g, x), {"pattern": pattern}),
    lambda g, data, x, *, pattern: apply(PRODUCT, (data, g), {"pattern": pattern.T}),
    rule="g xᵀ where entries are stored   Sᵀ g",
    batch=_product_batch,
    infer=_product_infer,
    lengths=_product_infer,
    cure="The sparse array has as many columns as the other operand has rows.",
)


# (g xᵀ) where entries are stored


def _sample(g: Any, x: Any, *, pattern: Pattern) -> Any:
    rows, columns = placed(pattern.rows, g), placed(pattern.columns, g)
    if len(shape_of(g)) == 1:
        return g[rows] * x[columns]
    step = max(1, MOST_GATHERED // max(1, shape_of(g)[1]))
    parts = [
        np.einsum("kj,kj->k", g[rows[i : i + step]], x[columns[i : i + step]])
        for i in range(0, max(1, len(pattern.rows)), step)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sample_infer(g: Any, x: Any, *, pattern: Pattern) -> Spec:
    return Spec(pattern.rows.shape, product_dtype(value_spec(g), value_spec(x)))


def _sample_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    tall, blocks, count = block_diagonal(inputs, batched, params["pattern"])
    y = apply(SAMPLE, tuple(tall), {"pattern": blocks})
    return np.reshape(y, (count, len(params["pattern"].rows)))


SAMPLE: Op = multilinear(
    "sparse_sample",
    _sample,
    lambda c, g, x, *, pattern: apply(PRODUCT, (c, x), {"pattern": pattern}),
    lambda c, g, x, *, pattern: apply(PRODUCT, (c, g), {"pattern": pattern.T}),
    rule="C x   Cᵀ g",
    batch=_sample_batch,
    infer=_sample_infer,
    cure="Both have as many columns; the array has a row for each row of the first.",
)
