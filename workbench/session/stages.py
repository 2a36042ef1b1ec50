"""The stages of a session: values, then gradients.

A stage never changes once it is made. After a change the session makes the affected
stages again, and only then drops the old ones.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from workbench.autodiff import steps
from workbench.checks import statistics
from workbench.checks.statistics import (
    SMALL,
    Table,
    compute_row_norms,
    is_measured_there,
)
from workbench.core import types, walk
from workbench.core.graph import Graph
from workbench.core.memory import is_lazy
from workbench.core.schedule import compute_node
from workbench.core.tensor import (
    TENSORS,
    MaskedTensor,
    Tensor,
    mask_cotangent,
    value_of,
)
from workbench.core.walk import is_leaf
from workbench.overrides.override import Override
from workbench.overrides.regions import Region

Array = np.ndarray[Any, Any]
#: How many versions of an array are made at once where each of them is looked at.
FEW = 100
#: The most small arrays that wait until their norms are computed together.
MOST_WAITING = 2000


@dataclass(eq=False)
class Values:
    """A program with its values, and results for these values.

    Attributes
    ----------
    graph
        The program. Ids are positions among its nodes.
    seconds
        The time to compute the values.
    alone
        The gradients with one override and no other.
    truth
        The cotangents with all overrides off, once they are computed.
    steps
        The steps of the sweep by the session's ``wrt``, once an override was changed.
    statistics
        The statistics of all values in one column, once they are asked for.
    loop_runs
        The runs of loops that were looked into, by node: see `inner_program.py`.
    derivatives
        The last derivatives that were plotted, by what they are of.
    """

    graph: Graph
    seconds: float = 0.0
    solo_gradients: dict[Override, Mapping[int, Any] | None] = field(
        default_factory=dict
    )
    truth: Backward | None = None
    steps: Sequence[tuple[Tensor, int]] | None = None
    statistics: Array | None = None
    loop_runs: dict[int, Any] = field(default_factory=dict)
    derivatives: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def ids(self) -> dict[int, int]:
        """The id of each node by its serial."""
        return {node.serial: i for i, node in enumerate(self.graph.nodes)}

    @cached_property
    def holders(self) -> dict[int, list[int]]:
        """The ids of the nodes that contain an inner node, by that node's serial."""
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.graph.nodes):
            if node.op.graphs is not None:
                for x in steps.with_inner_nodes([node])[1:]:
                    found.setdefault(x.serial, []).append(i)
        return found

    @cached_property
    def program(self) -> list[Tensor]:
        """The nodes, then their inner nodes: all possible targets of an override."""
        return steps.with_inner_nodes(self.graph.nodes)

    def find_ids(self, node: Tensor) -> list[int]:
        """Return the id of a node; for an inner node the ids of the nodes around."""
        known = self.ids.get(node.serial)
        return self.holders.get(node.serial, []) if known is None else [known]

    @cached_property
    def slots(self) -> list[tuple[int, ...]]:
        """For each node the positions of inputs that are nodes: these are its edges."""
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        slots = []
        for node in self.graph.nodes:
            found = tuple([k for k, x in enumerate(node.inputs) if type(x) in TENSORS])
            slots.append(known.setdefault(found, found))  # there are few different ones
        return slots

    @cached_property
    def starts(self) -> list[int]:
        """The first edge of each node, and the number of all edges at the end."""
        return list(accumulate(map(len, self.slots), initial=0))

    def measure(self, measure_arrays: Callable[[list[Any]], Any]) -> Any:
        """Return one row for each value, from a function that measures many at once.

        Versions of an array are made for it, a few at a time, and dropped.
        """
        nodes = self.graph.nodes
        count = FEW if any(map(is_lazy, nodes)) else max(1, len(nodes))
        starts = range(0, max(1, len(nodes)), count)
        return np.concatenate(
            [measure_arrays([x._value for x in nodes[i : i + count]]) for i in starts]
        )

    def run(self, leaves: Mapping[int, Any]) -> Values:
        """Return the program with other values for some leaves, by their ids.

        Only nodes that depend on them are computed again. What Python decided when the
        program was traced stays so (`objective.py` looks whether it may).

        Raises
        ------
        ShapeError, DtypeError
            Where NumPy refuses the new values, with the user's line.
        """
        start = time.perf_counter()
        nodes = self.graph.nodes
        values = {nodes[i].serial: value for i, value in leaves.items()}

        def keep(node: Tensor, operands: tuple[Any, ...]) -> Any:
            if not TENSORS.isdisjoint(map(type, operands)):
                return node  # some leaf still has no value
            value = compute_node(node, operands)
            if not (is_lazy(node) and types.spec_of(value) == node.spec):
                values[node.serial] = value
            return value

        changed = Graph([nodes[i] for i in leaves], self.graph.outputs)
        changed.run([*leaves.values()], keep)
        return Values(replace_values(self.graph, values), time.perf_counter() - start)

    def drop_values(self) -> Values:
        """Return the program without the values that depend on its inputs."""
        varying = self.graph.schedule.varying
        return Values(replace_values(self.graph, dict.fromkeys(varying)))


def replace_values(
    graph: Graph, values: Mapping[int, Any], constant: Callable[[Any], Any] = value_of
) -> Graph:
    """Return the same program with other values of some nodes, by their serials.

    Versions of an array stay as they are: without values until one is asked for.
    """
    copies: dict[int, Tensor] = {}
    for node in graph.nodes:
        serial = node.serial
        inputs = [
            copies[x.serial] if type(x) in TENSORS else constant(x) for x in node.inputs
        ]
        if is_lazy(node) and serial not in values:
            copies[serial] = walk.copy_version(node, tuple(inputs))
            continue
        args = [
            old if is_lazy(x) else value_of(x)
            for x, old in zip(inputs, node.args, strict=True)
        ]
        value = values[serial] if serial in values else node._value
        copies[serial] = copy = walk.copy_node(node, tuple(inputs), tuple(args), value)
        if value is None and types.is_weak(node._value):
            copy.spec = types.spec_of(node._value)  # that of the Tensor is an array's
    new = Graph(
        [copies[x.serial] for x in graph.inputs],
        [copies[x.serial] if isinstance(x, Tensor) else x for x in graph.outputs],
    )
    # The nodes keep their positions whatever a walk would find.
    new.__dict__["nodes"] = list(copies.values())
    return new


def own_arrays(graph: Graph, lent: Iterable[Any] = ()) -> Graph:
    """Return the same program on arrays that no other code can change.

    The arrays of a notebook may change in place after the cell has run; what a session
    shows must not change with them. Leaves and constants are copied, and values that
    share memory with one of them or with an array in ``lent``; for views the memory is
    copied, and the view made again. Nothing else is computed.
    """
    leaves = [node._value for node in graph.nodes if is_leaf(node)]
    constants = [
        x for node in graph.nodes for x in node.inputs if type(x) not in TENSORS
    ]
    others = [*leaves, *constants, *lent]
    spans = sorted(filter(None, map(_memory_span, others)))
    starts = [start for start, _ in spans]
    # Of spans that overlap, or one within another, the furthest end counts.
    ends = list(accumulate((end for _, end in spans), max))
    owners = _find_owners(others)
    copies: dict[int, Any] = {}

    def is_shared(x: Any) -> bool:
        if owners is not None and type(x) is np.ndarray:
            # Nearly all values of a program have memory of their own.
            if x.base is None and x.flags.owndata and id(x) not in owners:
                return False
        if (span := _memory_span(x)) is None:
            return False
        before = bisect_left(starts, span[1])
        return before > 0 and ends[before - 1] > span[0]

    def copy(x: Any) -> Any:
        if isinstance(x, np.generic) or not hasattr(x, "copy"):
            return x
        if id(x) not in copies:
            copies[id(x)] = x, x.copy()
        return copies[id(x)][1]

    values: dict[int, Any] = {}
    for node in graph.nodes:
        if is_lazy(node):
            continue
        value = node._value
        if is_leaf(node):
            value = copy(value)
        elif isinstance(value, tuple):
            value = tuple([copy(x) if is_shared(x) else x for x in value])
        elif is_shared(value):
            if node.op.view is not None and node.op.view.shares(node.params):
                args = [
                    values.get(x.serial, x._value) if isinstance(x, Tensor) else copy(x)
                    for x in node.inputs
                ]
                value = compute_node(node, args)
            else:
                value = copy(value)
        values[node.serial] = value
    return replace_values(graph, values, copy)


def _find_owners(arrays: Iterable[Any]) -> set[int] | None:
    """Return the ids of the owners of the arrays' memory; None if unknown."""
    owners: set[int] = set()
    for x in arrays:
        if not isinstance(x, np.ndarray):
            continue  # it has no memory, or that of a device
        while (base := x.base) is not None:
            if not isinstance(base, np.ndarray):
                return None
            x = base
        if not x.flags.owndata:
            return None
        owners.add(id(x))
    return owners


def _memory_span(x: Any) -> tuple[int, int] | None:
    """Return the start and the end of an array's memory; None without memory."""
    if isinstance(x, np.ndarray):
        return byte_bounds(x)
    if not hasattr(type(x), "__cuda_array_interface__"):
        return None
    while (base := getattr(x, "base", None)) is not None:
        x = base
    return id(x), id(x) + 1  # the owner represents memory on a device


@dataclass(eq=False)
class Backward:
    """The cotangents of a program.

    Attributes
    ----------
    cotangents
        The cotangent of each node that has one, by its id.
    edge_norms
        The L2 norm of the cotangent along each edge, NaN where there is none.
    seconds
        The time of the sweep.
    raw
        What the rules were given in the place of a cotangent that is no array: several
        outputs, or one with a mask.
    statistics
        The statistics of all cotangents in one column, once they are asked for.
    loop_sweeps
        What arrived at loops that were looked into, by node: see `inner_program.py`.
    loop_norms
        What was measured of loops, by node; None for one that cannot be opened.
    """

    cotangents: dict[int, Any]
    edge_norms: Any
    seconds: float = 0.0
    raw: dict[int, Any] = field(default_factory=dict)
    statistics: Array | None = None
    loop_sweeps: dict[int, Any] = field(default_factory=dict)
    loop_norms: dict[int, Any] = field(default_factory=dict)

    def find_raw(self, i: int) -> Any:
        """Return the cotangent of a node as given to its rule; None without one."""
        return self.raw[i] if i in self.raw else self.cotangents.get(i)

    def complete(self, earlier: Backward, affected: set[int], forward: Values) -> None:
        """Copy the results that were not computed again from an earlier sweep.

        ``affected`` are the ids of the nodes whose cotangents may differ.
        """
        again = np.zeros(len(forward.graph.nodes), bool)
        again[[*affected, *self.cotangents]] = True
        stays = ~np.repeat(again, np.diff(forward.starts))
        self.edge_norms[stays] = earlier.edge_norms[stays]
        for mine, before in (
            (self.cotangents, earlier.cotangents),
            (self.raw, earlier.raw),
        ):
            mine.update({i: g for i, g in before.items() if not again[i]})


class Recorder:
    """Keeps the cotangents of a sweep, and the norms of the cotangents along edges.

    Norms of small arrays are computed many at once, when `finish` is called or enough
    of them wait. Those of arrays on a device stay there until `finish`.
    """

    def __init__(self, forward: Values, backward: Backward) -> None:
        self._forward, self._backward = forward, backward
        self._edges: list[int] = []
        self._arrays: list[Any] = []
        self._norms = Table(compute_row_norms)
        self._edges_there: list[int] = []
        self._arrays_there: list[Any] = []

    def record(self, node: Tensor, g: Any, passed: Sequence[Any]) -> None:
        """Keep the cotangent of a step's node, and those that the step passes on."""
        forward, edges, arrays = self._forward, self._edges, self._arrays
        if isinstance(node, Region):
            self._record_region(node, g, passed)
        else:
            i = forward.ids[node.serial]
            if type(g) is np.ndarray:
                self._backward.cotangents[i] = g
            else:
                self._keep(i, g)
            e, count = forward.starts[i], len(passed)
            for k in forward.slots[i]:
                if k < count and (c := passed[k]) is not None:
                    # As `_add_edge`, without the call: this runs for every edge.
                    if type(c) is np.ndarray and c.size <= SMALL:
                        edges.append(e)
                        arrays.append(c)
                    else:
                        self._add_edge(e, c)
                e += 1
        if len(edges) > MOST_WAITING:
            self._compute()

    def _keep(self, i: int, g: Any) -> None:
        """Keep the cotangent of a node that is no plain array."""
        self._backward.cotangents[i] = found = to_array(g)
        if found is not g:
            # A mask is kept without what it was made from.
            masked = isinstance(g, MaskedTensor)
            self._backward.raw[i] = mask_cotangent(found) if masked else g

    def _record_region(self, region: Region, g: Any, passed: Sequence[Any]) -> None:
        """Keep the cotangents at the ends of a region, and the results of its rule."""
        for e, c in _find_region_edges(self._forward, region, passed):
            self._add_edge(e, c)
        ids, ends = self._forward.ids, region.outputs
        for x, part in zip(ends, (g,) if len(ends) == 1 else g, strict=True):
            if part is not None and x.serial in ids:
                self._backward.cotangents[ids[x.serial]] = to_array(part)

    def _add_edge(self, edge: int, c: Any) -> None:
        """Compute the norm of the cotangent along an edge, later if small."""
        c = to_array(c)
        if type(c) is np.ndarray and c.size <= SMALL:
            self._edges.append(edge)
            self._arrays.append(c)
        elif is_measured_there(c):
            self._add_norm_there(edge, c)
        else:
            self._backward.edge_norms[edge] = statistics.norm(c)

    def _add_norm_there(self, edge: int, c: Any) -> None:
        """Compute the norm of an array on a device: a large one at once."""
        if getattr(c, "size", SMALL) >= SMALL:
            self._norms.add([edge], [c])
            return
        self._edges_there.append(edge)
        self._arrays_there.append(c)
        if len(self._edges_there) > MOST_WAITING:
            self._compute_there()

    def _compute_there(self) -> None:
        """Compute the norms of small arrays on a device, many at once."""
        self._norms.add(self._edges_there, self._arrays_there)
        self._edges_there, self._arrays_there = [], []

    def _compute(self) -> None:
        """Compute the norms of small arrays, many at once."""
        norms = statistics.compute_norms(self._arrays)
        self._backward.edge_norms[self._edges] = norms
        self._edges, self._arrays = [], []

    def finish(self) -> None:
        """Compute the norms that wait, and fetch those from a device."""
        self._compute()
        if self._edges_there:
            self._compute_there()
        edges, norms = self._norms.fetch()
        if edges:
            self._backward.edge_norms[edges] = norms


def _find_region_edges(
    forward: Values, region: Region, passed: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """Yield the cotangents that a region's rule returns, each with its edge.

    It is the first edge in the program by which the region reads the input.
    """
    ids, starts, slots = forward.ids, forward.starts, forward.slots
    if region.moves is not None:
        for c, read in zip(passed, region.layout.first_reads, strict=False):
            if c is None or read is None:
                continue
            i = ids.get(region.made[read[0]].serial)
            if i is not None:
                yield starts[i] + slots[i].index(read[1]), c
        return
    waiting = {
        x.serial: c
        for x, c in zip(region.inputs, passed, strict=False)
        if c is not None  # which a constant gets
    }
    for node in region.nodes:
        if waiting and (i := ids.get(node.serial)) is not None:
            for e, k in enumerate(slots[i], starts[i]):
                c = waiting.pop(node.inputs[k].serial, None)
                if c is not None:
                    yield e, c


def to_array(g: Any) -> Any:
    """Return a cotangent as an array, also if given as a Tensor with a mask."""
    if isinstance(g, tuple):
        return tuple(map(value_of, g))
    return g._value if isinstance(g, Tensor) else g
