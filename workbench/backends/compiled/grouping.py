"""`Groups`: which nodes of a program are computed together, and in which order.

`Joins` says what kernels write to where it is to lie beside others.

Nodes are cut into levels, so that no two kernels wait for each other: a node stands on
the level of an operand that its own kernel computes, and on the next one where it must
wait for an operand. Nodes of one level and one domain are one kernel. An update of
entries comes after what reads the old ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.roles import Roles
from workbench.backends.compiled.steps import (
    find_domain,
    is_number,
    pack_strides,
    read_spec,
)
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.ops.joining import CONCATENATE, STACK
from workbench.ops.shaping import RESHAPE

#: What a kernel computes, and of this what has a value for each entry of the domain.
FUSED = ("entry", "gather", "reduction")
IN_REGISTERS = ("entry", "gather")
#: A kernel computes at most so many nodes: code generation takes more than linear time.
MOST_NODES = 256
#: From so many entries on, a kernel is of nodes that share operands.
LARGE_DOMAIN = 4096
#: Roles with memory of their own.
OWNERS = ("entry", "gather", "reduction", "product", "system", "move")
#: What has no memory of its own.
ALIASES = ("view", "part", "window")


class Groups:
    """The nodes of a program grouped into kernels and other steps, in order.

    Attributes
    ----------
    ordered
        The level of each group, the place of its first node among all, and its nodes;
        or the one node that is no part of a kernel.
    groups
        The number of the group of each node, by its serial.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Tensor], roles: Roles) -> None:
        self.graph, self.nodes, self.roles = graph, nodes, roles
        self.ordered: list[tuple[int, int, Any]] = []
        self.groups: dict[int, int] = {}
        self._levels: dict[int, int] = {}
        #: Updates of a first operand that no later step reads.
        self._updates: set[int] = set()
        self._find_updates()
        self._find_levels()

    def find_root(self, x: Tensor) -> int:
        """Return the serial of the node that owns the memory of a node or view."""
        while self.roles.of.get(x.serial) in ("view", "window"):
            x = x.inputs[0]
        return x.serial

    def _find_updates(self) -> None:
        """Find the updates that are the last readers of the changed array."""
        last = {
            self.find_root(x): order
            for order, node in enumerate(self.nodes)
            for x in node.inputs
            if isinstance(x, Tensor)
        }
        for y in self.graph.outputs:
            if isinstance(y, Tensor):
                last[self.find_root(y)] = len(self.nodes)
        for order, node in enumerate(self.nodes):
            updates = node.op.compute_into is not None
            if not updates or self.roles.of[node.serial] != "move":
                continue
            x, *others = node.inputs
            if not isinstance(x, Tensor) or last[self.find_root(x)] != order:
                continue
            roots = [self.find_root(y) for y in others if isinstance(y, Tensor)]
            if self.find_root(x) not in roots or self._is_entry(node):
                self._updates.add(node.serial)

    def _is_entry(self, node: Tensor) -> bool:
        """Return whether an update sets one entry, once its value has been read."""
        key = node.params["key"]
        return len(key) == len(node.shape) and all(type(k) is int for k in key)

    def is_in_place(self, node: Tensor) -> bool:
        """Return whether an update needs no copy of the changed array.

        Nobody reads that later, and its memory is the program's own: it is what one
        step makes, no output and no input. (The loop around a program inside knows
        whether the step may write over an input of that.)
        """
        if node.serial not in self._updates:
            return False
        x = node.inputs[0]
        while self.roles.of.get(x.serial) == "view" and x.op is RESHAPE:
            x = x.inputs[0]
        return self.roles.of.get(x.serial) in OWNERS

    def _find_levels(self) -> None:
        """Give each node a level, and nodes of one level and domain a group."""
        ready: dict[int, int] = {}
        #: When all have read a value that have done so up to a node.
        read: dict[int, int] = {}
        groups: dict[Any, list[tuple[int, Tensor]]] = {}
        for order, node in enumerate(self.nodes):
            role = self.roles.of[node.serial]
            fused = role in FUSED
            domain = find_domain(node, role)
            level = 0
            for k, x in enumerate(node.inputs):
                if not isinstance(x, Tensor) or x.serial not in self.roles.of:
                    continue
                if (
                    fused
                    and not (role == "gather" and k == 0)
                    and self.roles.of[x.serial] in IN_REGISTERS
                    and read_spec(x).shape == domain
                ):
                    level = max(level, self._levels[x.serial])
                else:
                    level = max(level, ready[x.serial])
            if node.serial in self._updates:
                # It may write over what others have to read first.
                level = max(level, read.get(self.find_root(node.inputs[0]), 0))
            self._levels[node.serial] = level
            ready[node.serial] = level if role in ALIASES else level + 1
            for x in node.inputs:
                if isinstance(x, Tensor) and role not in ALIASES:
                    root = self.find_root(x)
                    read[root] = max(read.get(root, 0), ready[node.serial])
            if not fused:
                if role not in ALIASES:
                    self.ordered.append((level, order, node))
                continue
            groups.setdefault((level, domain), []).append((order, node))
        for (level, domain), members in groups.items():
            for part in self._split_group(members, domain):
                kernel = [node for _, node in part]
                self.ordered.append((level, part[0][0], kernel))
        self.ordered.sort(key=lambda entry: entry[:2])
        for number, (_, _, group) in enumerate(self.ordered):
            for node in group if type(group) is list else (group,):
                self.groups[node.serial] = number

    def _split_group(
        self, members: list[tuple[int, Tensor]], domain: tuple[int, ...]
    ) -> list[list[tuple[int, Tensor]]]:
        """Return the nodes of one level and domain as kernels.

        Over a large domain, those that share no operand are apart: together they
        would only read from more places at a time.
        """
        parts = [members]
        if math.prod(domain) >= LARGE_DOMAIN:
            parts = self._connect(members)
        return [
            part[k : k + MOST_NODES]
            for part in parts
            for k in range(0, len(part), MOST_NODES)
        ]

    def _connect(
        self, members: list[tuple[int, Tensor]]
    ) -> list[list[tuple[int, Tensor]]]:
        """Return nodes in parts that share no operand."""
        heads: dict[int, int] = {}

        def find(key: int) -> int:
            while heads.setdefault(key, key) != key:
                heads[key] = key = heads[heads[key]]
            return key

        for _, node in members:
            for x in node.inputs:
                if not is_number(x):
                    key = self.find_root(x) if isinstance(x, Tensor) else -id(x)
                    heads[find(key)] = find(node.serial)
        parts: dict[int, list[tuple[int, Tensor]]] = {}
        for order, node in members:
            parts.setdefault(find(node.serial), []).append((order, node))
        return list(parts.values())

    def find_kept(self, placed: Collection[tuple[int, int]]) -> set[int]:
        """Return the nodes with entries that other kernels or steps read."""
        kept = set()
        for node in self.nodes:
            role = self.roles.of[node.serial]
            group = self.groups.get(node.serial)
            for k, x in enumerate(node.inputs):
                if isinstance(x, Tensor) and x.serial in self.roles.of:
                    if (node.serial, k) in placed:
                        continue
                    fused = role in FUSED and not (role == "gather" and k == 0)
                    if not fused or self.groups.get(x.serial) != group:
                        kept.add(self.find_root(x))
                    elif fused and read_spec(x).shape != find_domain(node, role):
                        kept.add(self.find_root(x))
        for y in self.graph.outputs:
            if isinstance(y, Tensor):
                kept.add(self.find_root(y))
        return kept


class Joins:
    """Arrays that kernels lay side by side: who writes which part, and where.

    What a kernel computes it writes to where a join has it, so that nothing is copied.

    Attributes
    ----------
    placed
        The operands that their kernels write to where they belong: the serial of the
        join, and which operand.
    inside
        The joins that lie in the memory of another one, and in which operand of it.
    windows
        Where these lie there.
    targets
        Where else a kernel writes a value that it computes.
    beside
        Inputs and constants that the kernel of a value writes too, and where.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Tensor], roles: Roles) -> None:
        self.nodes, self.roles = nodes, roles
        self.placed: set[tuple[int, int]] = set()
        self.inside: dict[int, tuple[Tensor, int]] = {}
        self.windows: dict[int, View] = {}
        self.targets: dict[int, list[View]] = {}
        self.beside: dict[int, list[tuple[Any, View]]] = {}
        self._find_placed(graph)

    def _find_placed(self, graph: Graph) -> None:
        """Find operands that kernels write straight into a join, and nested joins."""
        readers: dict[int, int] = {}
        for x in (x for node in self.nodes for x in node.inputs):
            if isinstance(x, Tensor):
                readers[x.serial] = readers.get(x.serial, 0) + 1
        for y in graph.outputs:
            if isinstance(y, Tensor):
                readers[y.serial] = 2
        for node in self.nodes:
            if not self._is_join(node):
                continue
            for k, x in enumerate(node.inputs):
                if not isinstance(x, Tensor) or read_spec(x).dtype != node.dtype:
                    continue
                if self.roles.of.get(x.serial) in IN_REGISTERS:
                    self.placed.add((node.serial, k))
                    continue
                while (
                    self.roles.of.get(x.serial) == "view"
                    and x.op is RESHAPE
                    and readers[x.serial] == 1
                ):
                    x = x.inputs[0]
                contiguous = node.op is CONCATENATE and node.params["axis"] == 0
                if contiguous and self._is_join(x) and readers[x.serial] == 1:
                    self.inside[x.serial] = node, k
                    self.placed.add((node.serial, k))

    def _is_join(self, x: Any) -> bool:
        """Return whether kernels lay arrays side by side."""
        return (
            isinstance(x, Tensor)
            and self.roles.of.get(x.serial) == "move"
            and x.op.kind == "join"
        )

    def place_operands(
        self,
        groups: Collection[int],
        own_view: Callable[[Tensor], View],
        places: dict[int, int],
    ) -> None:
        """Give each operand of a join that its kernel writes its place there.

        Parameters
        ----------
        groups
            The serials of the nodes that are parts of kernels.
        own_view
            Where a node lies that has memory of its own, or a window.
        places
            The buffer of each node; that of a join inside of another one is added.
        """
        for node in reversed(self.nodes):
            if not self._is_join(node):
                continue
            if node.serial in self.inside:
                outer, k = self.inside[node.serial]
                place = self.locate_operands(outer, own_view(outer))[k]
                spec = read_spec(node)
                window = place._replace(shape=spec.shape, strides=pack_strides(spec))
                self.windows[node.serial] = window
                places[node.serial] = place.buffer
            writer = None
            views = self.locate_operands(node, own_view(node))
            for k, x in enumerate(node.inputs):
                if (node.serial, k) in self.placed and x.serial in groups:
                    if self.roles.of[x.serial] in IN_REGISTERS:
                        self.targets.setdefault(x.serial, []).append(views[k])
                        writer = x if writer is None else writer
            if writer is None:
                continue
            for k, x in enumerate(node.inputs):
                spec = read_spec(x)
                if (
                    (node.serial, k) not in self.placed
                    and views[k].shape == spec.shape == read_spec(writer).shape
                    and spec.dtype == node.dtype
                    and self._is_given(x)
                ):
                    self.placed.add((node.serial, k))
                    beside = self.beside.setdefault(writer.serial, [])
                    beside.append((x, views[k]))

    def _is_given(self, x: Any) -> bool:
        """Return whether an operand is an input, a constant, or a view of one."""
        if isinstance(x, Tensor) and self.roles.of.get(x.serial) == "view":
            root = self.roles.layouts[x.serial].root
            return root not in self.roles.of
        return not isinstance(x, Tensor) or x.serial not in self.roles.of

    def locate_operands(self, node: Tensor, out: View) -> list[View]:
        """Return where a join that lies at ``out`` has each of its operands."""
        axis = node.params["axis"] % len(out.shape)
        step, start, views = out.strides[axis], 0, []
        for x in node.inputs:
            shape, strides = list(out.shape), list(out.strides)
            offset = out.offset + start * step
            if node.op is STACK:
                del shape[axis], strides[axis]
                start += 1
            else:
                shape[axis] = read_spec(x).shape[axis]
                start += shape[axis]
            views.append(
                out._replace(offset=offset, shape=tuple(shape), strides=tuple(strides))
            )
        return views
