"""The nodes that a derivative is between, looked at before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import steps
from workbench.autodiff.supernode import StandIn
from workbench.core import blame, types, walk
from workbench.core.tensor import Tensor
from workbench.errors import DtypeError, UsageError
from workbench.ops import several
from workbench.overrides.matching import Resolution
from workbench.session.nodes import Node
from workbench.session.stages import Forward

#: A `Session`, whose file stands above this one.
Session = Any

__all__ = ["Chosen", "between", "in_force", "one_array", "several_of"]


class Chosen:
    """The nodes that a derivative is between, looked at before anything is computed.

    Raises
    ------
    UsageError
        If there is nothing to differentiate by, a node has several arrays, or the
        session has no values.
    DtypeError
        If one of them is of integer dtype.
    """

    def __init__(
        self, session: Session, of: Node | None, wrt: Iterable[Node] | Node | None
    ) -> None:
        find = session.nodes.find
        with session.lock:  # a run in another thread changes both at once
            nodes, self.resolution = session.graph.nodes, session.resolution
            self.forward: Forward = session.forward
            self.ids: Mapping[int, int] = self.forward.ids
            self.seed = session.seed
        self.session = session.name
        self.single = wrt is not None and _one(wrt)
        given = [] if wrt is None else several_of(wrt)
        asked = session.wrt if wrt is None else [find(x) for x in given]
        self.wrt = list(dict.fromkeys(asked))
        self.of = session.output if of is None else find(of)
        names = session.nodes.labels
        self.label, self.labels = names[self.of], [names[i] for i in self.wrt]
        self.output: Tensor = nodes[self.of]
        self.sources: list[Tensor] = [nodes[i] for i in self.wrt]
        if not self.sources:
            raise UsageError(
                f"the derivative of {self.label} by nothing: wrt is empty. Name a node"
                " that it is computed from."
            )
        for node, name in zip(
            (self.output, *self.sources), (self.label, *self.labels), strict=True
        ):
            one_array(node, nodes, names)
            if node._value is None:
                raise UsageError(
                    f"{name} has no value: session {session.name!r} was traced without,"
                    f" and a derivative is taken at values. Give all inputs to"
                    f" {session.name}.run(...)."
                )
        for node, name in zip(self.sources, self.labels, strict=True):
            if not types.differentiable(node.dtype):
                raise DtypeError(
                    f"{name} is of dtype {node.dtype}, and nothing is differentiated by"
                    f" integers. Write {name}.astype(float) in the program, or choose"
                    " a float node."
                )

    def pulls(self) -> Any:
        """The reverse rules of the overrides."""
        resolution: Resolution | None = self.resolution
        return None if resolution is None else resolution.pulls()

    def labels_in_force(self, path: Iterable[int]) -> tuple[str, ...]:
        """The labels of the overrides whose rules run on the path, each once."""
        resolution: Resolution | None = self.resolution
        if resolution is None:
            return ()
        found = in_force(resolution, self.forward, path, self.sources)
        return tuple(dict.fromkeys(resolution.overrides[k].label for k in found))

    def pushes(self) -> Any:
        """Their forward rules."""
        resolution: Resolution | None = self.resolution
        return None if resolution is None else resolution.pushes()


def _flows(x: Tensor) -> bool:
    """Whether a derivative may flow through a node."""
    return several.parts(x) is not None or types.differentiable(x.dtype)


def between(chosen: Chosen) -> list[int]:
    """The ids of the nodes on the ways from ``wrt`` to ``of``, both included.

    Those ways count on which a derivative flows: not through a comparison. Where it
    flows on none, all of them.
    """
    stops = {x.serial for x in chosen.sources}
    needed = walk.order([chosen.output], min(stops), stops)
    known = {x.serial for x in needed}
    reached = walk.reaches(needed, [x for x in chosen.sources if x.serial in known])
    flows = {chosen.output.serial}
    planned = steps.plan([chosen.output], chosen.sources, chosen.pulls())
    for node, mask in reversed(planned):
        if node.serial in flows and node.serial not in stops:
            for k, x in enumerate(node.inputs):
                if mask >> k & 1 and _flows(x):
                    flows.add(x.serial)
    if flows & stops:
        reached &= flows
    return [chosen.ids[x.serial] for x in needed if x.serial in reached]


def in_force(
    resolution: Resolution | None,
    forward: Forward,
    way: Iterable[int],
    sources: Iterable[Tensor],
) -> list[int]:
    """Return the positions of the overrides whose rules run on a way, in order.

    ``way`` are the ids of the nodes between ``sources`` and what is differentiated. A
    source's own rule does not run, nor that of a part that holds one inside.
    """
    if resolution is None:
        return []
    stops = {x.serial for x in sources}
    on = set(way) - {forward.ids[serial] for serial in stops}
    return sorted(
        {
            k
            for k, node in resolution.winners.values()
            if not (type(node) is StandIn and stops & set(node.region.inside))
            and not on.isdisjoint(forward.places(node))
        }
    )


def _one(wrt: Any) -> bool:
    return isinstance(wrt, (str, int, np.integer, Tensor))


def several_of(wrt: Iterable[Node] | Node) -> list[Node]:
    """One node or several, as a list."""
    return [wrt] if _one(wrt) else list(wrt)  # type: ignore[list-item, arg-type]


def one_array(node: Tensor, nodes: Sequence[Tensor], labels: Sequence[str]) -> None:
    """Refuse an op with several outputs, and name those that there are."""
    if several.parts(node) is None:
        return
    known = zip(nodes, labels, strict=True)
    names = [
        label for x, label in known if x.op is several.ITEM and x.inputs[0] is node
    ]
    raise UsageError(
        f"{node.op.name}{blame.at(node.site)} has several outputs, and a derivative is"
        f" of one array by others. Ask for one of them: {', '.join(names)}."
    )
