"""Nodes inside nodes with the values that they had: a step of a loop, a branch taken.

A loop keeps no values of its steps. One of them is computed again, node by node: the
third, or the last of fewer, since first values are often zeros, where kinks lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import walk
from workbench.core.tensor import Tensor, leaf

__all__ = ["inner"]

#: How many steps of a loop are taken before its nodes are looked at.
STEPS = 3


def inner(node: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Each node inside a node, and a copy of it that holds a value.

    Empty for a node without any, and for one whose step cannot be computed alone.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def last(x):
    ...     return wb.scan(np.sin, initial=x, n_steps=3, last=True)
    >>> (loop,) = [n for n in wb.trace(last)(0.5).nodes if n.op.name == "scan"]
    >>> [(old.op.name, float(new.value.round(4))) for old, new in inner(loop)]
    [('sin', 0.4451)]
    """
    try:
        if node.op.name == "scan":
            return _step(node.params["loop"], node.args)
        if node.op.name == "cond":
            pred, *values = node.args
            body = node.params["branches"][0 if np.all(pred) else 1]
            return _run(body, values)[0]
    except Exception:
        # Lengths that only the run itself knows, an op that needs its loop.
        return []
    return []


def _step(loop: Any, args: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
    """The nodes of one step of a loop, with their values."""
    _, consts, seqs, carries = loop.split(tuple(args))
    count = loop.length(tuple(args))
    made: list[tuple[Tensor, Tensor]] = []
    for k in range(min(count, STEPS)):
        at = -1 - k if loop.reverse else k
        made, outputs = _run(loop.body, [*consts, *(s[at] for s in seqs), *carries])
        carries = outputs[: loop.carries]
    return made


def _run(
    body: Any, values: Sequence[Any]
) -> tuple[list[tuple[Tensor, Tensor]], list[Any]]:
    """The nodes of a body on values, and its outputs."""
    new = {x.serial: leaf(v, x.name) for x, v in zip(body.leaves, values, strict=True)}
    made = []
    for node in body.nodes:
        inputs = tuple(
            new.get(x.serial, x) if isinstance(x, Tensor) else x for x in node.inputs
        )
        args = tuple(x._value if isinstance(x, Tensor) else x for x in inputs)
        value = node.op.compute(*args, **node.params)
        new[node.serial] = walk.like(node, inputs, args, value)
        made.append((node, new[node.serial]))
    outputs = [
        new[y.serial]._value if isinstance(y, Tensor) and y.serial in new
        else y._value if isinstance(y, Tensor) else y
        for y in body.outputs
    ]  # fmt: skip
    return made, outputs
