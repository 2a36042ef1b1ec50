"""A graph becomes a straight line: which value to compute when, and where it lies.

Every backend starts from a `Schedule`. Values live in numbered slots; a slot is
reused as soon as nobody reads its value any more, so a schedule of a million
steps holds only what is alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.core import blame, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Step:
    """One op: read slots, compute, write a slot, forget slots."""

    node: Tensor
    reads: tuple[int, ...]
    writes: int
    #: Slots whose values are dead after this step and are not written by it.
    forgets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A graph in the order of its computation.

    Attributes
    ----------
    inputs
        The slot of each input of the graph; -1 for one that nothing reads.
    constants
        What lies in which slot before the first step; these slots are never
        reused.
    steps
        What to do.
    outputs
        The slot of each output.
    size
        The number of slots.
    """

    inputs: tuple[int, ...]
    constants: dict[int, Any]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    size: int


def schedule(graph: Graph) -> Schedule:
    """Order the part of a graph that its outputs need, and give each value a slot.

    What depends on no input is a constant: its value is taken as it is.

    Raises
    ------
    UsageError
        If an output needs a Tensor without value that is no input.
    """
    given = {x.serial for x in graph.inputs}
    varying = set(given)
    computed = []
    roots = [y for y in graph.outputs if isinstance(y, Tensor)]
    for node in walk.order(roots, stop=given):
        if node.serial in given:
            continue
        if any(isinstance(x, Tensor) and x.serial in varying for x in node.inputs):
            varying.add(node.serial)
            computed.append(node)
        elif node._value is None:
            if not node.inputs:
                raise _unknown(node, graph)
            computed.append(node)  # of constants, and nobody has computed it yet
    return _Allocation(graph).run(computed)


def _unknown(node: Tensor, graph: Graph) -> UsageError:
    names = ", ".join(graph.label(x) for x in graph.inputs) or "none"
    return UsageError(
        f"{blame.describe(node)}{blame.at(node.site)} has no value and is no input of"
        f" the graph (inputs: {names}). Make it an input, or trace it with a value."
    )


class _Allocation:
    """The slots while they are being given out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.free: list[int] = []
        self.size = 0
        self.slots: dict[int, int] = {}
        self.constants: dict[int, Any] = {}
        self.shared: dict[int, int] = {}

    def new(self) -> int:
        if self.free:
            return self.free.pop()
        self.size += 1
        return self.size - 1

    def fixed(self, value: Any) -> int:
        """The slot of a constant; one object has one slot."""
        slot = self.shared.get(id(value))
        if slot is None:
            slot = self.shared[id(value)] = self.size
            self.size += 1
            self.constants[slot] = value
        return slot

    def slot(self, x: Any) -> int:
        if isinstance(x, Tensor):
            known = self.slots.get(x.serial)
            return self.fixed(x._value) if known is None else known
        return self.fixed(x)

    def run(self, computed: list[Tensor]) -> Schedule:
        last: dict[int, int] = {}
        for i, node in enumerate(computed):
            for x in node.inputs:
                if isinstance(x, Tensor):
                    last[x.serial] = i
        kept = {x.serial for x in self.graph.outputs if isinstance(x, Tensor)}
        for x in self.graph.inputs:
            if x.serial in last or x.serial in kept:
                self.slots[x.serial] = self.new()
        steps = []
        for i, node in enumerate(computed):
            reads = tuple([self.slot(x) for x in node.inputs])
            freed = []
            for x in node.inputs:
                if isinstance(x, Tensor) and last[x.serial] == i:
                    last[x.serial] = -1  # it is freed once, be it read twice
                    if x.serial in self.slots and x.serial not in kept:
                        freed.append(self.slots[x.serial])
            self.free += freed
            writes = self.slots[node.serial] = self.new()
            forgets = tuple([slot for slot in freed if slot != writes])
            steps.append(Step(node, reads, writes, forgets))
        return Schedule(
            tuple([self.slots.get(x.serial, -1) for x in self.graph.inputs]),
            self.constants,
            tuple(steps),
            tuple([self.slot(x) for x in self.graph.outputs]),
            self.size,
        )
