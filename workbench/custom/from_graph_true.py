"""An op made of a graph, with the derivatives of that graph: no rule stands here."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

from workbench.core import types
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.core.trace import blank
from workbench.custom.program_op import Whole, key_of
from workbench.custom.registry import Entry
from workbench.ops import several

__all__ = ["GraphOp"]


class GraphOp(Op):
    """What an op made of a graph holds, and what its graph derives.

    Attributes
    ----------
    inputs, outputs
        The symbols that it takes, and what it computes of them.
    implicit
        What the graph reads besides its inputs: shared values, Tensors of a trace.
    single
        Whether there is one output, which comes as itself.
    whole
        The graph as an op, of `inputs` and `implicit`.
    declared
        The connection pattern of the inputs, if the user has given one.
    entry
        What is known of it by its name; those made on one line are one definition.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    implicit: list[Tensor]
    single: bool
    whole: Whole
    declared: list[Any] | None
    entry: Entry

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._wholes: dict[Hashable, Whole] = {}

    @cached_property
    def _key(self) -> Hashable:
        return key_of(self.whole.leaves)

    def _whole(self, values: Sequence[Any]) -> Whole:
        """The graph for values of these shapes: recorded once for each."""
        key = key_of(values)
        if key is None or key == self._key:
            return self.whole
        found = self._wholes.get(key)
        if found is None:
            leaves = [
                blank(types.spec_of(v), x.name)
                for v, x in zip(values, self.whole.leaves, strict=True)
            ]
            found = Whole(self.name, leaves, self.whole.program(leaves))
            self._wholes[key] = found
        return found

    def true_pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...]
    ) -> list[Any]:
        """The cotangents that the graph passes on, as far as it is connected."""
        whole = self._whole(inputs)
        if self.declared is None:
            return whole._pull(mask, g, y, inputs, {})
        everything = [True] * len(self.outputs)
        rows = [*self.declared, *[everything] * len(self.implicit)]
        places: dict[tuple[bool, ...], int] = {}
        for i, row in enumerate(rows):
            if mask >> i & 1:
                places[tuple(row)] = places.get(tuple(row), 0) | 1 << i
        passed: list[Any] = [None] * len(inputs)
        for row, chosen in places.items():
            parts = (g,) if self.single else tuple(g)
            kept = [c if on else None for c, on in zip(parts, row, strict=True)]
            if all(c is None for c in kept):
                continue
            arriving = kept[0] if self.single else several.Parts(kept)
            made = whole._pull(chosen, arriving, y, inputs, {})
            for i, c in enumerate(made):
                if chosen >> i & 1:
                    passed[i] = c
        return passed

    def true_push(self, tangents: tuple[Any, ...], y: Any, inputs: Any) -> Any:
        """The tangents of the graph."""
        return self._whole(inputs)._push(tangents, y, inputs, {})
