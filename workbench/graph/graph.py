"""`Graph`: a program as data, its inputs, outputs and all between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from workbench.graph import types, walk
from workbench.graph.tensor import IDENTITY, Tensor

__all__ = ["Graph"]


class Graph:
    """The Tensors that lie between some inputs and some outputs.

    Attributes
    ----------
    inputs
        The leaves the program was traced with, in order.
    outputs
        What it computes; constants where an output depends on no input.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.sum(x * x))(np.arange(3.0))
    >>> print(graph)
    x      = input              float64[3]
    %1     = multiply(x, x)     float64[3]
    %2     = sum(%1)            float64[]
    """

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Any]) -> None:
        self.inputs = list(inputs)
        self.outputs = list(outputs)

    @cached_property
    def nodes(self) -> list[Tensor]:
        """Every Tensor the outputs need, and every input, in order of creation."""
        roots = [x for x in self.outputs if isinstance(x, Tensor)]
        return walk.order([*roots, *self.inputs])

    @cached_property
    def ids(self) -> dict[Tensor, int]:
        """The position of each Tensor among the nodes."""
        return {node: i for i, node in enumerate(self.nodes)}

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> Tensor:
        for node in reversed(self.nodes):
            if node.name == name:
                return node
        names = sorted({node.name for node in self.nodes if node.name})
        raise KeyError(f"no node is named {name!r}; there are {', '.join(names)}")

    def label(self, x: Any) -> str:
        """A Tensor's name, ``%3`` for its position, or a constant's text."""
        if isinstance(x, Tensor):
            if x.name:
                return x.name
            return f"%{self.ids[x]}" if x in self.ids else "outer"
        if types.weak(x) or getattr(x, "shape", None) == ():
            return str(x)
        return repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x)

    def __str__(self) -> str:
        rows = []
        for node in self.nodes:
            if node.op is IDENTITY and not node.inputs:
                made = "input"
            else:
                arguments = [self.label(x) for x in node.inputs]
                arguments += [f"{k}={v}" for k, v in node.params.items()]
                made = f"{node.op.name}({', '.join(arguments)})"
            rows.append((self.label(node), made, repr(types.spec_of(node))))
        widths = [max((len(row[i]) for row in rows), default=0) for i in (0, 1)]
        return "\n".join(
            f"{name:<{max(widths[0], 6)}} = {made:<{widths[1] + 4}} {spec}"
            for name, made, spec in rows
        )

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} nodes>"
