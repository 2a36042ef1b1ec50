"""A program at fixed shapes, made of the ops that kernels know.

A run on symbols of fixed shapes records the program again: every length is a number
then, and what is a few ops together is written as these.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.backends.compiled.addresses import expand_index, has_index
from workbench.backends.compiled.builder import KINDS
from workbench.core import walk
from workbench.core.deferred import measure_lengths
from workbench.core.dims import has_dim
from workbench.core.graph import Graph, inline
from workbench.core.schedule import Schedule
from workbench.core.tensor import MaskedTensor, Tensor, apply, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec, spec_of
from workbench.ops.define import ITEM, dtype_of
from workbench.ops.shaping import BROADCAST, RESHAPE


def expand(
    graph: Graph,
    specs: Sequence[Spec],
    schedule: Schedule | None = None,
    kinds: Collection[str] = KINDS,
) -> Graph:
    """Return a graph at inputs of these specs, made of simpler ops.

    The schedule is one of the graph that has constants of its own; ``kinds`` are those
    of the entries that kernels compute with.
    """
    leaves = list(graph.leaves)
    # A program recorded at these very specs keeps the nodes that stay as they are.
    if any(
        x._value is not None or has_dim(x.spec.shape) or x.spec != spec
        for x, spec in zip(leaves, specs, strict=True)
    ):
        leaves = [
            make_leaf_like(spec, x.name) for x, spec in zip(leaves, specs, strict=True)
        ]
        for x, spec in zip(leaves, specs, strict=True):
            x.spec = spec  # a Python number's is weak
    runner = schedule or graph
    if any(node.op.hoist is not None for node in graph.interior):
        runner = Graph(leaves, runner.run(leaves, _hoist_node))
    outputs = runner.run(leaves, partial(_expand_node, kinds=kinds))
    made = Graph(leaves, outputs)
    return inline(made)


def _hoist_node(node: Tensor, operands: tuple[Any, ...]) -> Any:
    """Return a node, or a loop with the work of its steps reduced."""
    op = node.op
    operands, params = measure_lengths(operands, node.params)
    if op.hoist is not None:
        made = op.hoist(operands, params)
        return tuple(made) if isinstance(spec_of(node), tuple) else made[0]
    if op is ITEM and isinstance(operands[0], tuple):
        return operands[0][params["index"]]
    return apply(op, operands, params)


def _expand_node(
    node: Tensor, operands: tuple[Any, ...], kinds: Collection[str]
) -> Any:
    """Return a node at these operands, written in simpler ops.

    No operand counts as masked: each op is the one that computes, as it was recorded.
    """
    op = node.op
    operands = tuple([_unmask(x) for x in operands])
    if _is_passing(node) and _have_same_specs(operands[:1], (node,)):
        return operands[0]
    operands, params = measure_lengths(operands, node.params)
    if has_index(op) and _has_kind(operands[0], kinds) and _are_known(operands):
        made = expand_index(op, operands, params)
        if made is not None:
            return _expand_written(made, operands, kinds)
    if op.finite is not None:
        checked = _check_finite(operands) if _are_known(operands) else None
        if checked is not None:
            made = apply(op.finite, checked, params)
            return _expand_written(made, operands, kinds)
    elif op.unfold is not None and any(isinstance(x, Tensor) for x in operands):
        outputs = op.unfold(operands, params)
        if outputs is not None:
            several = isinstance(spec_of(node), tuple)
            made = tuple(outputs) if several else outputs[0]
            return _expand_written(made, operands, kinds)
    if op is ITEM and isinstance(operands[0], tuple):
        return operands[0][params["index"]]
    if len(operands) == len(node.inputs) and _have_same_specs(operands, node.inputs):
        if all(map(operator.is_, operands, node.inputs)) and type(node) is Tensor:
            return node
        if params is node.params and node._value is None:
            args = tuple([value_of(x) for x in operands])
            return walk.copy_node(node, operands, args, None, kind=Tensor)
    return apply(op, operands, params)


def _check_finite(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return operands as they are; where one is not finite, NumPy runs the program.

    It does so wherever an index is out of bounds, as the one here is then. None where
    the operands are no floats of kernels, or constants that are not finite.
    """
    if any(dtype_of(x).char not in "fd" for x in operands):
        return None
    zeros: Any = 0
    for x in operands:
        value = value_of(x)
        if value is None:
            zeros = zeros + np.sum(x * 0)
        elif not np.all(np.isfinite(value)):
            return None
    # The smallest operand costs least to be the one that waits for the check.
    least = min(range(len(operands)), key=lambda i: math.prod(operands[i].shape))
    one = np.ones_like(zeros, shape=(1,), dtype=dtype_of(operands[least]))
    checked = list(operands)
    checked[least] = one[np.where(np.equal(zeros, 0), 0, 1)] * checked[least]
    return tuple(checked)


def _unmask(x: Any) -> Any:
    """Return what a run that records has masked, as it was before."""
    return x.inputs[0] if isinstance(x, MaskedTensor) and x.op.passes else x


def _is_passing(node: Tensor) -> bool:
    """Return whether a node hands its operand on, if that has its spec."""
    op = node.op
    if op is RESHAPE:
        return not node.params.get("order")
    return op is BROADCAST or (op.passes and not node.params)


def _have_same_specs(operands: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(
        a is b
        or (
            isinstance(a, Tensor)
            and isinstance(b, Tensor)
            and _is_known(spec_of(a))
            and _is_known(spec_of(b))
            and spec_of(a) == spec_of(b)
        )
        for a, b in zip(operands, others, strict=True)
    )


def _is_known(spec: Any) -> bool:
    """Return whether a spec describes one array with known lengths."""
    return isinstance(spec, Spec) and not has_dim(spec.shape)


def _are_known(operands: Sequence[Any]) -> bool:
    """Return whether all lengths are numbers, and something is to be computed."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    return bool(tensors) and not any(has_dim(x.shape) for x in tensors)


def _has_kind(x: Any, kinds: Collection[str]) -> bool:
    """Return whether the entries of an operand are of some kinds."""
    spec = spec_of(x)
    return isinstance(spec, Spec) and spec.dtype.str[1:] in kinds


def _expand_written(
    made: Any, operands: tuple[Any, ...], kinds: Collection[str]
) -> Any:
    """Return the written nodes, expanded to simpler ops themselves."""
    last = max(x.serial for x in operands if isinstance(x, Tensor))
    new: dict[int, Tensor] = {}
    pending = list(made) if isinstance(made, tuple) else [made]
    while pending:
        x = pending.pop()
        if isinstance(x, Tensor) and x.serial > last and x.serial not in new:
            new[x.serial] = x
            pending += x.inputs
    if not any(has_index(x.op) or x.op.unfold or _is_passing(x) for x in new.values()):
        return made
    values: dict[int, Any] = {}

    def find(x: Any) -> Any:
        return values.get(x.serial, x) if isinstance(x, Tensor) else x

    for serial in sorted(new):
        node = new[serial]
        values[serial] = _expand_node(node, tuple(map(find, node.inputs)), kinds)
    return tuple(map(find, made)) if isinstance(made, tuple) else find(made)
