"""The lines of a step: each op one line of Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import Any

from workbench.autodiff.body import Body
from workbench.backends.spelling import INFIX, SILENT
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor

__all__ = ["FILE", "Code", "compiled"]

#: What tracebacks call the code of a loop.
FILE = "<step of a loop>"


class Code:
    """The lines of a loop, the objects that they name, and the node of each line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: list[Tensor | None] = []
        self.scope: dict[str, Any] = {}
        self.objects: dict[Any, str] = {}

    def line(self, text: str, node: Tensor | None = None) -> None:
        """Add a line, and the node that it computes."""
        self.lines.append(text)
        self.nodes.append(node)

    def object(self, value: Any, key: Any = None) -> str:
        """The name of something that the code cannot spell."""
        key = ("id", id(value)) if key is None else key
        if key not in self.objects:
            self.objects[key] = f"f{len(self.objects)}"
            self.scope[self.objects[key]] = value
        return self.objects[key]

    def write(self, graph: Graph, given: dict[Tensor, str], pad: str) -> list[str]:
        """The lines of a graph; the names of its outputs."""
        names = {x.serial: name for x, name in given.items()}
        body = Body(graph.inputs, graph.outputs)
        return self.steps(body.nodes, names, pad, graph.outputs, set(), "i")

    def steps(
        self,
        nodes: Sequence[Tensor],
        names: dict[int, str],
        pad: str,
        outputs: Sequence[Any],
        skipped: set[int],
        letter: str = "v",
    ) -> list[str]:
        """The lines of nodes; names are used again when their value is dead."""
        # What only hands its operand on has no line, and goes by the operand's name.
        same: dict[int, int] = {}
        for node in nodes:
            if _silent(node):
                serial = node.inputs[0].serial
                same[node.serial] = same.get(serial, serial)

        def behind(xs: Sequence[Any]) -> list[int]:
            return [same.get(x.serial, x.serial) for x in xs if isinstance(x, Tensor)]

        last: dict[int, int] = {}
        kept = set(behind(outputs))
        for at, node in enumerate(nodes):
            if node.serial in skipped:
                kept.update(behind(node.inputs))
            for serial in behind(node.inputs):
                last[serial] = at
        own: dict[int, str] = {}
        free: list[str] = []
        made = 0
        for at, node in enumerate(nodes):
            if node.serial in skipped:
                continue
            if node.serial in same:
                names[node.serial] = names[same[node.serial]]
                continue
            operands = [self.name_of(x, names) for x in node.inputs]
            text = self.expression(node, operands)
            for serial in dict.fromkeys(behind(node.inputs)):
                if last[serial] == at and serial in own and serial not in kept:
                    free.append(own.pop(serial))
            if free:
                name = free.pop()
            else:
                name = f"{letter}{made}"
                made += 1
            self.line(f"{pad}{name} = {text}", node)
            names[node.serial] = own[node.serial] = name
        return [
            "" if getattr(y, "serial", None) in skipped else self.name_of(y, names)
            for y in outputs
        ]

    def name_of(self, x: Any, names: dict[int, str]) -> str:
        """How the code calls an operand."""
        if isinstance(x, Tensor):
            found = names.get(x.serial)
            if found is not None:
                return found
            x = x._value
        if type(x) in (int, bool):
            return f"({x!r})"
        return self.object(x)

    def expression(self, node: Tensor, operands: list[str]) -> str:
        """A node as an expression of its operands."""
        op, params = node.op, node.params
        if op.name in INFIX and len(operands) == 2 and not params:
            return f"{operands[0]} {INFIX[op.name][0]} {operands[1]}"
        if op.name == "negative":
            return f"-{operands[0]}"
        if op.name == "item":
            return f"{operands[0]}[{params['index']}]"
        if params:
            callee = self.object(partial(op.compute, **params), ("node", node.serial))
        else:
            callee = self.object(op.compute)
        return f"{callee}({', '.join(operands)})"


def _silent(node: Tensor) -> bool:
    """Whether a node only hands on an operand that the step computes."""
    return (
        node.op.name in SILENT
        and len(node.inputs) == 1
        and not node.params
        and isinstance(node.inputs[0], Tensor)
    )


@lru_cache(maxsize=512)
def compiled(text: str) -> CodeType:
    """The code of a text, compiled once."""
    return compile(text, FILE, "exec")
