"""`autograd.tracer`: the nodes of a run, one after the other, for code of the user's.

`trace` records a function as `workbench.trace` does, and then makes the nodes that the
caller's subclass of `Node` defines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from workbench.compat.autograd.boxes import Box, getval, isbox, new_box
from workbench.compat.autograd.extend import (
    Node,
    notrace_primitive,
    primitive,
    register_notrace,
)
from workbench.core import walk
from workbench.core.tensor import Tensor, apply, array_of
from workbench.core.trace import trace as record

__all__ = [
    "Box",
    "Node",
    "getval",
    "isbox",
    "new_box",
    "notrace_primitive",
    "primitive",
    "register_notrace",
    "toposort",
    "trace",
]


class Step:
    """What a node of a program computes, as a function with a name."""

    __slots__ = ("__name__", "_op", "_params")

    def __init__(self, node: Tensor) -> None:
        self._op, self._params = node.op, node.params
        self.__name__ = node.op.name

    def __call__(self, *args: Any) -> Any:
        """Compute it of other arguments."""
        return apply(self._op, args, self._params)

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


def trace(start_node: Node, fun: Callable[..., Any], x: Any) -> tuple[Any, Node | None]:
    """Return the value of a function, and the node that made it, or None.

    The nodes are of the class of ``start_node``, which stands for the argument; those
    of what does not depend on it are left out.
    """
    graph = record(fun)(x)
    nodes: dict[int, Node] = {leaf.serial: start_node for leaf in graph.inputs}
    kind: Any = type(start_node)
    outputs = [y for y in graph.outputs if isinstance(y, Tensor)]
    for step in walk.order_nodes(outputs):
        argnums = tuple(
            i for i, y in enumerate(step.inputs)
            if isinstance(y, Tensor) and y.serial in nodes
        )  # fmt: skip
        if step.serial not in nodes and argnums:
            args = tuple(map(array_of, step.inputs))
            parents = tuple(nodes[step.inputs[i].serial] for i in argnums)
            nodes[step.serial] = kind(
                array_of(step), Step(step), args, {}, argnums, parents
            )
    found = nodes.get(outputs[0].serial) if outputs else None
    if found is None:
        warnings.warn("Output seems independent of input.", stacklevel=2)
    return graph.tree(list(map(array_of, graph.outputs))), found


def toposort(
    end_node: Any, parents: Callable[[Any], Any] = attrgetter("parents")
) -> Iterator[Any]:
    """Yield a node and all that lie before it, each after all that read it."""
    readers: dict[int, int] = {}
    stack = [end_node]
    while stack:
        node = stack.pop()
        readers[id(node)] = readers.get(id(node), 0) + 1
        if readers[id(node)] == 1:
            stack.extend(parents(node))
    ready = [end_node]
    while ready:
        node = ready.pop()
        yield node
        for parent in parents(node):
            readers[id(parent)] -= 1
            if not readers[id(parent)]:
                ready.append(parent)
