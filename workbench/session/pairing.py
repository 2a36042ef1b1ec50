"""`Pairing`: which nodes of two programs belong together.

Of one program each node belongs to itself. Two that differ in an op or two are paired
by the user's names first; then forward, an op with the same inputs; then backward from
the output, an op that is read in the same place; and what is left between paired nodes
belongs together whatever its op, such as a ``tanh`` and the ``maximum`` in its place.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.ops.define import shape_of
from workbench.session.state import State

Array = np.ndarray[Any, Any]


class Outline:
    """The program of a session as ops, what each reads, and names.

    Attributes
    ----------
    ops
        The name of each node's op; of an input its name, or shape and dtype.
    inputs
        The ids of the nodes that each node reads.
    dtypes, names
        The dtype of each node, and the user's name; None where another has it too.
    """

    def __init__(self, state: State) -> None:
        forward, nodes = state.forward, state.forward.graph.nodes
        self.output, self.starts = state.objective.output, forward.starts
        self.ops = [
            f"input {x.name or f'{shape_of(x)} {x.dtype}'}" if is_leaf(x) else x.op.name
            for x in nodes
        ]
        self.inputs = [
            tuple(forward.ids[x.inputs[k].serial] for k in slots)
            for x, slots in zip(nodes, forward.slots, strict=True)
        ]
        self.dtypes = [_name_dtype(x) for x in nodes]
        known = Counter(x.name for x in nodes)
        self.names = [x.name if x.name and known[x.name] == 1 else None for x in nodes]


def _name_dtype(node: Tensor) -> str:
    """Return the dtype of a node; of one with several outputs those of all."""
    spec = types.spec_of(node)
    return ", ".join(
        str(x.dtype) for x in (spec if isinstance(spec, tuple) else [spec])
    )


@dataclass(frozen=True)
class Pairing:
    """The nodes of another program that belong to those of this one.

    Attributes
    ----------
    here, there
        Both programs.
    pairs
        For each node here the id of the one there; -1 for none.
    """

    here: Outline
    there: Outline
    pairs: tuple[int, ...]

    @cached_property
    def differing(self) -> dict[int, int]:
        """The nodes here of which the other has another op, or none (-1)."""
        return {
            i: j
            for i, j in enumerate(self.pairs)
            if j < 0 or self.here.ops[i] != self.there.ops[j]
        }

    @property
    def is_close(self) -> bool:
        """Whether at least half of the smaller program is the same in the other."""
        same = len(self.pairs) - len(self.differing)
        return 2 * same >= min(len(self.here.ops), len(self.there.ops))

    def map_nodes(self, column: Array, missing: Any) -> Array:
        """Return a column of the other's nodes as one of the nodes here.

        It may have several numbers for each node, one node after the other.
        """
        rows = column.reshape(len(self.there.ops), -1)
        made = np.full((len(self.pairs), rows.shape[1]), missing, column.dtype)
        pairs = np.array(self.pairs)
        made[pairs >= 0] = rows[pairs[pairs >= 0]]
        return made.reshape(-1)

    def map_edges(self, column: Array, missing: Any) -> Array:
        """Return a column of the other's edges as one of the edges here."""
        made = np.full(self.here.starts[-1], missing, column.dtype)
        for i, j in enumerate(self.pairs):
            if j >= 0 and len(self.here.inputs[i]) == len(self.there.inputs[j]):
                a, b = self.here.starts[i], self.there.starts[j]
                size = len(self.here.inputs[i])
                made[a : a + size] = column[b : b + size]
        return made


def pair_nodes(one: State, other: State) -> Pairing:
    """Return which nodes of another program belong to those of this one."""
    here, there = Outline(one), Outline(other)
    pairs, taken = [-1] * len(here.ops), set[int]()

    def pair(i: int, j: int) -> None:
        if pairs[i] < 0 and j not in taken:
            pairs[i] = j
            taken.add(j)

    def go_forward(is_loose: bool) -> None:
        """Pair nodes that read the same; loosely those of another op too."""

        def make_key(outline: Outline, i: int, inputs: Sequence[int]) -> Any:
            return (outline.dtypes if is_loose else outline.ops)[i], tuple(inputs)

        waiting: dict[Any, deque[int]] = defaultdict(deque)
        for j, inputs in enumerate(there.inputs):
            if j not in taken and (inputs or not is_loose):
                waiting[make_key(there, j, inputs)].append(j)
        for i, inputs in enumerate(here.inputs):
            if pairs[i] < 0:
                found = waiting.get(make_key(here, i, [pairs[k] for k in inputs]))
                if found:
                    pair(i, found.popleft())

    def go_backward(is_loose: bool) -> None:
        """Pair nodes that are read in the same place."""
        for i in range(len(pairs) - 1, -1, -1):
            j = pairs[i]
            if j >= 0 and here.ops[i] == there.ops[j]:
                for k, m in zip(here.inputs[i], there.inputs[j], strict=False):
                    is_leaf_pair = not here.inputs[k] or not there.inputs[m]
                    alike = here.dtypes[k] == there.dtypes[m] and not is_leaf_pair
                    if here.ops[k] == there.ops[m] or (is_loose and alike):
                        pair(k, m)

    named = {name: j for j, name in enumerate(there.names) if name is not None}
    for i, name in enumerate(here.names):
        j = named.get(name, -1) if name is not None else -1
        if j >= 0 and bool(here.inputs[i]) == bool(there.inputs[j]):
            pair(i, j)
    go_forward(False)
    if here.ops[here.output] == there.ops[there.output]:
        pair(here.output, there.output)
    for is_loose in (False, True):
        go_backward(is_loose)
        go_forward(is_loose)
    go_backward(False)
    return Pairing(here, there, tuple(pairs))
