"""Inlining: nodes that ask for it become the ops that they are made of.

An op with rules of its own must stay one node until the program has been
differentiated; a backend puts its ops in its place when it makes a function.
"""

from __future__ import annotations

from typing import Any

from workbench.autodiff.program import Program
from workbench.core import types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, value_of
from workbench.ops.several import ITEM

__all__ = ["inlined"]


def inlined(graph: Graph) -> Graph:
    """The graph with the ops inside in place of every node that is to be inlined.

    Each stands on the line where it was written. The same graph if there is none.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> cube = wb.OpFromGraph([x], x * x * x, inline=True, vjp="clip(d, -1, 1)")
    >>> print(inlined(Graph([x], [cube(x)])))
    x      = input              float64[]
    %1     = multiply(x, x)     float64[]
    %2     = multiply(%1, x)    float64[]
    """
    if not any(node.op.inline for node in graph.nodes):
        return graph
    made: dict[int, Any] = {}
    programs: dict[Any, Program] = {}
    given = {x.serial for x in graph.inputs}
    for node in graph.nodes:
        if node.serial in given:
            continue
        inputs = tuple(
            [made.get(x.serial, x) if isinstance(x, Tensor) else x for x in node.inputs]
        )
        if node.op.inline and node.op.body is not None:
            key = node.op, tuple(map(_spec, inputs))
            program = programs.get(key)
            if program is None:
                body = node.op.body(*map(_spec, inputs))
                program = programs[key] = Program(body.outputs, body.inputs)
            outputs = program(inputs)
            several = isinstance(types.spec_of(node), tuple)
            made[node.serial] = tuple(outputs) if several else outputs[0]
            _name(made[node.serial], node)
        elif node.op is ITEM and isinstance(inputs[0], tuple):
            made[node.serial] = inputs[0][node.params["index"]]
            _name(made[node.serial], node)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            values = tuple(map(value_of, inputs))
            made[node.serial] = walk.like(node, inputs, values, node._value)
    outputs = [
        made.get(y.serial, y) if isinstance(y, Tensor) else y for y in graph.outputs
    ]
    return Graph(graph.inputs, outputs)


def _spec(x: Any) -> Any:
    return types.spec_of(x)


def _name(made: Any, node: Tensor) -> None:
    """What stands for a node bears its name."""
    if isinstance(made, Tensor) and node.name is not None and made.name is None:
        made.name = node.name
