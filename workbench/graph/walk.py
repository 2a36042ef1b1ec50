"""Order, substitute, cut out: walks over Tensors, all iterative, linear time.

A Tensor's serial is larger than those of its inputs, so sorting by serial is a
topological order and no walk needs recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.graph.tensor import Tensor, apply

__all__ = ["order", "reaches", "substitute"]


def order(roots: Iterable[Tensor], first: int = 0) -> list[Tensor]:
    """All Tensors that the roots depend on, from serial ``first``, ascending."""
    seen = {root.serial: root for root in roots if root.serial >= first}
    stack = list(seen.values())
    while stack:
        for x in stack.pop().inputs:
            if isinstance(x, Tensor) and x.serial >= first and x.serial not in seen:
                seen[x.serial] = x
                stack.append(x)
    return [seen[serial] for serial in sorted(seen)]


def reaches(nodes: Sequence[Tensor], sources: Iterable[Tensor]) -> set[int]:
    """The serials of those nodes (ascending) that depend on a source, or are one."""
    found = {x.serial for x in sources}
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, Tensor) and x.serial in found:
                found.add(node.serial)
                break
    return found


def substitute(outputs: Sequence[Any], new: Mapping[Tensor, Any]) -> list[Any]:
    """The outputs computed again with some Tensors replaced.

    Only what depends on a replaced Tensor is applied anew; with plain arrays in
    ``new`` and nothing else unknown, the results are plain arrays.
    """
    made: dict[int, Any] = {x.serial: y for x, y in new.items()}
    if not made:
        return list(outputs)
    roots = [x for x in outputs if isinstance(x, Tensor)]
    for node in order(roots, min(made)):
        if node.serial in made:
            continue
        if any(isinstance(x, Tensor) and x.serial in made for x in node.inputs):
            inputs = tuple(
                made.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            )
            made[node.serial] = apply(node.op, inputs, node.params)
    return [made.get(x.serial, x) if isinstance(x, Tensor) else x for x in outputs]
