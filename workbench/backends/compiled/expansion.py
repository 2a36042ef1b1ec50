"""A program at fixed shapes, made of the ops that kernels know.

A run on symbols of fixed shapes records the program again: every length is a number
then, and what is a few ops together is written as these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.entries import PASSING
from workbench.core.deferred import DeferredOp
from workbench.core.graph import Graph, inline
from workbench.core.schedule import Schedule
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec, spec_of
from workbench.ops.define import sum_to


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
    if (
        node.op.name in PASSING
        and isinstance(operands[0], Tensor)
        and not node.params
        and operands[0].spec == spec_of(node)
    ):
        return operands[0]
    op, params = node.op, node.params
    if isinstance(op, DeferredOp):
        op, operands, params = op.measure_lengths(operands, params)
    written = EXPANSIONS.get(op.name)
    if written is not None and isinstance(operands[0], Tensor):
        made = written(*operands, **params)
        if made is not None:
            return made
    if op.unfold is not None and op.name != "cond":
        outputs = op.unfold(operands, params)
        return tuple(outputs) if isinstance(spec_of(node), tuple) else outputs[0]
    if op.name == "item" and isinstance(operands[0], tuple):
        return operands[0][params["index"]]
    return apply(op, operands, params)


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
    """Write a product of vectors, or with few entries to sum, as sums."""
    if len(a.shape) == len(spec_of(b).shape) == 1 and a.dtype.kind in "fc":
        return np.sum(a * b)
    return None


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


EXPANSIONS: dict[str, Callable[..., Any]] = {
    "mean": _expand_mean,
    "full_like": _expand_full_like,
    "logsumexp": _expand_logsumexp,
    "matmul": _expand_matmul,
    "tensordot": _expand_tensordot,
    "tril": _expand_triangle("tril"),
    "triu": _expand_triangle("triu"),
    "unbroadcast": _expand_unbroadcast,
}
