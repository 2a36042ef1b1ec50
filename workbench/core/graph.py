"""`Graph`: a program as data, its inputs, outputs and all between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from workbench.core import types, walk
from workbench.core.tensor import Tensor
from workbench.errors import UsageError

#: Beside a picture, a larger graph is told in one line.
MOST_TEXT = 200


class Graph:
    """The Tensors that lie between some inputs and some outputs.

    Printed it is a list of its nodes; a node of a gradient says which forward node it
    comes from, and by which rule.

    Parameters
    ----------
    inputs, outputs
        Two lists of Tensors; an output may be a constant.

    Raises
    ------
    UsageError
        If an input is no Tensor, or they are no lists.

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
        for what, given in (("inputs", inputs), ("outputs", outputs)):
            if isinstance(given, (Tensor, str)) or not hasattr(given, "__iter__"):
                shown = repr(given)[:60]
                raise UsageError(
                    f"the {what} of a graph are a list, not {shown}. Write"
                    " wb.Graph([x], [y])."
                )
        self.inputs = list(inputs)
        for x in self.inputs:
            if not isinstance(x, Tensor):
                raise UsageError(
                    f"an input of a graph is a Tensor, not {repr(x)[:60]}: a symbol"
                    " (wb.scalar('x')), or a leaf of a trace."
                )
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

    @cached_property
    def _repeated(self) -> set[str]:
        """The names that several nodes have."""
        counts = Counter(node.name for node in self.nodes if node.name)
        return {name for name, count in counts.items() if count > 1}

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> Tensor:
        for node in reversed(self.nodes):
            if node.name == name:
                return node
        names = sorted({node.name for node in self.nodes if node.name})
        raise KeyError(f"no node is named {name!r}; there are {', '.join(names)}")

    def label(self, x: Any) -> str:
        """A Tensor's name, ``%3`` for its position, or a constant's text.

        Several of one name have their positions too: ``x%0``, ``x%3``.
        """
        if isinstance(x, Tensor):
            name, place = x.name, self.ids.get(x)
            if place is None:
                return name or "outer"
            if not name:
                return f"%{place}"
            return f"{name}%{place}" if name in self._repeated else name
        if types.weak(x) or getattr(x, "shape", None) == ():
            return str(x)
        return repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x)

    # How it is shown: what writes and draws loads when it is first asked for

    def __str__(self) -> str:
        from workbench.core.drawing import listing

        return listing(self)

    def dot(self) -> str:
        """The graph in the DOT language, for Graphviz and all that read it.

        Forward and backward nodes stand in a cluster each; a dashed line joins a node
        of a gradient to the forward node whose rule made it.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.scalar("x")
        >>> print(wb.Graph([x], [np.sin(x)]).dot().splitlines()[-2])
          n0 -> n1;
        """
        from workbench.core.drawing import dot

        return dot(self)

    def svg(self) -> str:
        """The graph as a picture that stands alone: a text of SVG.

        The program runs down, its gradient up beside it. A graph of more than a few
        hundred nodes is told in words. In a notebook a graph shows this by itself.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> x = wb.scalar("x")
        >>> picture = wb.Graph([x], [np.sin(x)]).svg()
        >>> picture.startswith("<svg"), "float64[]" in picture
        (True, True)
        """
        from workbench.core.drawing import still

        return still(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = str(self) if len(self) <= MOST_TEXT else repr(self)
        return {"image/svg+xml": self.svg(), "text/plain": text}

    def __repr__(self) -> str:
        return f"<Graph of {len(self)} nodes>"
