"""Other derivatives of a session's program: of any node, by any other.

The program runs again as a function of the chosen nodes. Overrides follow it:
each new Tensor is matched with the node whose place it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.autodiff.supernode import StandIn
from workbench.core import walk
from workbench.core.tensor import Tensor
from workbench.overrides.override import Override
from workbench.overrides.regions import Region
from workbench.overrides.targets import ByPart, ByPredicate, Target
from workbench.session import stages
from workbench.session.chosen import Chosen, one_array
from workbench.session.derivative import second, split
from workbench.session.nodes import Node, handed, listed
from workbench.session.sweeping import Sweeps

#: A `Session`, whose file stands above this one.
Session = Any

__all__ = ["Part", "hessian", "jacobian"]


class Part:
    """One node of a session as a function of others.

    Attributes
    ----------
    function
        Takes the values of ``wrt``, arrays or Tensors, and gives that of ``of``.
    values
        The values of ``wrt`` as they are.
    overrides
        To hand to a derivative of the function: those that run inside it.
    wrt
        The ids of the nodes that it is a function of.
    inside
        The serials of the nodes that it computes.
    """

    def __init__(
        self, session: Session, of: Node | None, wrt: Iterable[Node] | Node | None
    ) -> None:
        find = session.nodes.find
        with session.lock:  # a run in another thread changes both at once
            nodes, resolution = session.graph.nodes, session.resolution
            held = session.forward.held
        self.wrt = session.wrt if wrt is None else [find(x) for x in listed(wrt)]
        self.labels = [session.nodes.labels[i] for i in self.wrt]
        self.output = nodes[session.output if of is None else find(of)]
        self.sources = [nodes[i] for i in self.wrt]
        for node in (self.output, *self.sources):
            one_array(node, nodes, session.nodes.labels)
        self.values = [handed(x._value) for x in self.sources]
        self.winners = {} if resolution is None else resolution.winners
        self.known = session.forward.ids
        inside = self.inside = self._inside()
        #: What has taken the place of a node, by its serial.
        self.moved: dict[int, Any] = {}
        #: Of nodes within nodes, which a run does not make anew.
        self.within = {
            serial: k
            for serial, (k, _) in self.winners.items()
            if any(nodes[i].serial in inside for i in held.get(serial, ()))
        }
        self.owners = dict(self.within)
        running = {k for serial, (k, _) in self.winners.items() if serial in inside}
        running |= set(self.within.values())
        self.overrides: list[Override] = [
            replace(given, target=self._target(k, given.target), name=given.label)
            for k, given in enumerate(resolution.overrides if resolution else [])
            if k in running
        ]

    def _target(self, k: int, target: Target) -> Target:
        """What an override means in each run of the function."""
        if isinstance(target, ByPart):
            return Moved(partial(self._regions, k))
        return ByPredicate(partial(self._owned, k))

    def _regions(self, k: int) -> list[Region]:
        """The parts of the program that an override has the say over, as they ran."""
        found = {
            id(node.region): node.region
            for i, node in self.winners.values()
            if i == k and type(node) is StandIn
        }
        sources = {x.serial for x in self.sources}
        return [
            region.moved(self._new)
            for region in found.values()
            if sources.isdisjoint(region.inside)
            and all(x.serial not in self.known or x.serial in self.moved
                    for x in region.outputs)
        ]  # fmt: skip

    def _new(self, x: Tensor) -> Any:
        """What a node is in the last run; its value, where that does not vary."""
        if x.serial in self.moved:
            return self.moved[x.serial]
        return x._value if x.serial in self.known else x

    def _inside(self) -> set[int]:
        """The serials of the nodes that the function computes."""
        needed = walk.order([self.output])
        return walk.reaches(needed, self.sources) - {x.serial for x in self.sources}

    def _owned(self, k: int, node: Tensor) -> bool:
        return self.owners.get(node.serial) == k

    def _seen(self, node: Tensor, new: Tensor) -> None:
        self.moved[node.serial] = new
        if node.serial in self.winners:
            self.owners[new.serial] = self.winners[node.serial][0]

    def function(self, *values: Any) -> Any:
        """The node computed again."""
        self.owners = dict(self.within)
        new = dict(zip(self.sources, values, strict=True))
        self.moved = {x.serial: y for x, y in new.items()}
        return stages.replay([self.output], new, self._seen)[0]


class Moved(ByPart):
    """Parts of a program that runs again: those that stand where known ones stood."""

    def __init__(self, found: Callable[[], list[Region]]) -> None:
        self.found = found

    def regions(
        self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()
    ) -> list[Region]:
        """The parts, as they are in the last run."""
        return self.found()

    def missed(self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()) -> str:
        """Said of none, since they are known."""
        return "they are not computed"

    def __str__(self) -> str:
        return "parts of the program"


def jacobian(
    session: Session, of: Node | None, wrt: Iterable[Node] | Node | None
) -> Any:
    """See `Session.jacobian`."""
    chosen = Chosen(session, of, wrt)
    pulls, pushes = chosen.pulls(), chosen.pushes
    entries = Sweeps([chosen.output], chosen.sources, pulls, pushes).entries()
    shapes = [("", x.shape) for x in chosen.sources]
    return _by_name(chosen, split(entries, [("", chosen.output.shape)], shapes)[0])


def hessian(session: Session, wrt: Iterable[Node] | Node | None) -> Any:
    """See `Session.hessian`."""
    found = second(session, wrt)
    chosen = Chosen(session, None, wrt)
    blocks = split(found.held(), found.row_parts, found.column_parts)
    return _by_name(chosen, [_by_name(chosen, row) for row in blocks])


def _by_name(chosen: Chosen, found: Sequence[Any]) -> Any:
    """One result for one node; a dict by name for several."""
    if chosen.single:
        return found[0]
    return dict(zip(chosen.labels, found, strict=True))
