"""A program at fixed shapes, made of the ops that kernels know.

A run on symbols of fixed shapes records the program again: every length is a number
then, and what is a few ops together is written as these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.addresses import SpreadIndex, spread_index
from workbench.backends.compiled.contractions import contract
from workbench.backends.compiled.entries import PASSING
from workbench.core.deferred import DeferredOp
from workbench.core.dims import has_dim
from workbench.core.graph import Graph, inline
from workbench.core.op import declare
from workbench.core.schedule import Schedule
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import make_leaf_like
from workbench.core.types import Shape, Spec, spec_of
from workbench.ops.define import dtype_of, shape_of, sum_to
from workbench.ops.indexing import ARRAY, GETITEM, SCATTER, Key, as_index
from workbench.ops.lengths import is_mask


def expand(
    graph: Graph, specs: Sequence[Spec], schedule: Schedule | None = None
) -> Graph:
    """Return a graph at inputs of these specs, made of simpler ops.

    The schedule is one of the graph that has constants of its own.
    """
    leaves = [
        make_leaf_like(spec, x.name)
        for x, spec in zip(graph.leaves, specs, strict=True)
    ]
    for x, spec in zip(leaves, specs, strict=True):
        x.spec = spec  # a Python number's is weak
    runner = schedule or graph
    if any(node.op.hoist is not None for node in graph.interior):
        runner = Graph(leaves, runner.run(leaves, _hoist_node))
    outputs = runner.run(leaves, _expand_node)
    made = Graph(leaves, outputs)
    return inline(made)


def _hoist_node(node: Tensor, operands: tuple[Any, ...]) -> Any:
    """Return a node, or a loop whose steps do less."""
    op, params = node.op, node.params
    if isinstance(op, DeferredOp):
        op, operands, params = op.measure_lengths(operands, params)
    if op.hoist is not None:
        return tuple(op.hoist(operands, params))
    if op.name == "item" and isinstance(operands[0], tuple):
        return operands[0][params["index"]]
    return apply(op, operands, params)


def _expand_node(node: Tensor, operands: tuple[Any, ...]) -> Any:
    """Return a node at these operands, written in simpler ops."""
    op, params = node.op, node.params
    if (
        op.name in PASSING
        and isinstance(operands[0], Tensor)
        and not node.params
        and operands[0].spec == spec_of(node)
    ):
        return operands[0]
    if isinstance(op, DeferredOp):
        op, operands, params = op.measure_lengths(operands, params)
    written = EXPANSIONS.get(op.name)
    if written is not None and _are_known(operands):
        made = written(*operands, **params)
        if made is not None:
            return _expand_written(made, operands)
    if op.unfold is not None and op.name != "cond":
        outputs = op.unfold(operands, params)
        several = isinstance(spec_of(node), tuple)
        return _expand_written(tuple(outputs) if several else outputs[0], operands)
    if op.name == "item" and isinstance(operands[0], tuple):
        return operands[0][params["index"]]
    return apply(op, operands, params)


def _are_known(operands: Sequence[Any]) -> bool:
    """Return whether all lengths are numbers, and something is to be computed."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    return bool(tensors) and not any(has_dim(x.shape) for x in tensors)


def _expand_written(made: Any, operands: tuple[Any, ...]) -> Any:
    """Return what was written of operands, in simpler ops itself."""
    last = max(x.serial for x in operands if isinstance(x, Tensor))
    new: dict[int, Tensor] = {}
    pending = list(made) if isinstance(made, tuple) else [made]
    while pending:
        x = pending.pop()
        if isinstance(x, Tensor) and x.serial > last and x.serial not in new:
            new[x.serial] = x
            pending += x.inputs
    if not any(x.op.name in EXPANSIONS or x.op.unfold for x in new.values()):
        return made
    values: dict[int, Any] = {}

    def find(x: Any) -> Any:
        return values.get(x.serial, x) if isinstance(x, Tensor) else x

    for serial in sorted(new):
        node = new[serial]
        values[serial] = _expand_node(node, tuple(map(find, node.inputs)))
    return tuple(map(find, made)) if isinstance(made, tuple) else find(made)


def _expand_getitem(x: Any, *arrays: Any, key: Key) -> Any:
    """Write an index with arrays as a view and one array for each axis."""
    index = _spread(x, shape_of(x), key, arrays)
    if index is None:
        return None
    view = x if index.is_whole else apply(GETITEM, (x,), {"key": index.view})
    return apply(GETITEM, (view, *index.arrays), {"key": (ARRAY,) * len(index.arrays)})


def _expand_scatter(g: Any, *arrays: Any, key: Key, shape: Shape) -> Any:
    index = _spread(g, shape, key, arrays)
    if index is None:
        return None
    part = np.empty(shape, bool)[as_index(index.view, ())].shape
    made = apply(
        SCATTER, (g, *index.arrays),
        {"key": (ARRAY,) * len(index.arrays), "shape": part},
    )  # fmt: skip
    if index.is_whole:
        return made
    return apply(SCATTER, (made,), {"key": index.view, "shape": shape})


def _expand_update(name: str) -> Callable[..., Any]:
    """Return how an update of entries is written: of a view, with an array per axis."""
    op = declare(f"index_{name}")

    def expand_update(x: Any, v: Any, *arrays: Any, key: Key) -> Any:
        if not arrays and name == "add":
            changed = apply(GETITEM, (x,), {"key": key}) + v
            return apply(declare("index_set"), (x, changed), {"key": key})
        index = _spread(x, shape_of(x), key, arrays)
        if index is None:
            return None
        view = x if index.is_whole else apply(GETITEM, (x,), {"key": index.view})
        whole = (ARRAY,) * len(index.arrays)
        made = apply(op, (view, v, *index.arrays), {"key": whole})
        if index.is_whole:
            return made
        return apply(declare("index_set"), (x, made), {"key": index.view})

    return expand_update


def _spread(
    x: Any, shape: Shape, key: Key, arrays: tuple[Any, ...]
) -> SpreadIndex | None:
    """Return an index with an array per axis, if kernels know such entries."""
    spec = spec_of(x)
    if not isinstance(spec, Spec) or spec.dtype.char == "e" or 0 in shape:
        return None
    is_spread = len(key) == len(shape) and all(part is ARRAY for part in key)
    if is_spread and not any(map(is_mask, arrays)):
        return None
    return spread_index(tuple(shape), key, arrays)


def _expand_mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    if x.dtype.kind not in "fc" or x.dtype.char == "e" or not x.size:
        return None
    axes = range(x.ndim) if axis is None else axis if type(axis) is tuple else (axis,)
    count = math.prod(x.shape[n] for n in axes)
    return np.sum(x, axis=axis, keepdims=keepdims) / float(count)


def _expand_full_like(
    x: Any, *, fill: Any, dtype: Any = None, shape: tuple[int, ...] | None = None
) -> Any:
    dtype = x.dtype if dtype is None else dtype
    whole = np.full(x.shape if shape is None else shape, fill, dtype)
    first = whole.reshape(-1)[:1].reshape(()) if whole.size else whole
    return np.broadcast_to(first, whole.shape)


def _expand_matmul(a: Any, b: Any) -> Any:
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


def _expand_tensordot(a: Any, b: Any, *, axes: tuple[Any, Any]) -> Any:
    """Write a contraction as a product of matrices."""
    shapes = a.shape, spec_of(b).shape
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


def _expand_unbroadcast(g: Any, *, shape: tuple[Any, ...]) -> Any:
    return sum_to(g, tuple(map(int, shape)))


def _expand_logsumexp(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Write a log-sum-exp by the largest entry, which is taken as 0 if infinite."""
    if x.dtype.kind != "f" or x.dtype.char == "e" or not x.size:
        return None
    largest = np.max(x, axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, np.zeros((), x.dtype))
    total = np.sum(np.exp(x - largest), axis=axis, keepdims=keepdims)
    return np.log(total) + np.reshape(largest, total.shape)


def _expand_triangle(name: str) -> Callable[..., Any]:
    def expand_triangle(x: Any, *, k: int = 0) -> Any:
        kept = getattr(np, name)(np.ones(x.shape, bool), k)
        return np.where(kept, x, np.zeros((), x.dtype))

    return expand_triangle


def _make_like(x: Any, *, maker: str, settings: tuple[Any, ...]) -> Any:
    """Return an array that only the settings tell."""
    like = np.empty((), getattr(x, "dtype", float))  # host array: of NumPy's kind
    return declare("make_like").compute(like, maker=maker, settings=settings)


EXPANSIONS: dict[str, Callable[..., Any]] = {
    "make_like": _make_like,
    "getitem": _expand_getitem,
    "scatter": _expand_scatter,
    "index_add": _expand_update("add"),
    "index_max": _expand_update("max"),
    "index_min": _expand_update("min"),
    "index_set": _expand_update("set"),
    "mean": _expand_mean,
    "einsum": contract,
    "full_like": _expand_full_like,
    "logsumexp": _expand_logsumexp,
    "matmul": _expand_matmul,
    "tensordot": _expand_tensordot,
    "tril": _expand_triangle("tril"),
    "triu": _expand_triangle("triu"),
    "unbroadcast": _expand_unbroadcast,
}
