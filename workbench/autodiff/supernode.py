"""Stand-ins: one node in the place of a part of a program, for the sweeps alone.

A rule of a pattern or of a cut-out subgraph is that of many nodes at once. A sweep
that has such a rule walks over a stand-in, whose inputs are those of the whole part,
where it would have walked over the node at the end of it. The program itself does
not change, and a sweep without such rules pays nothing. What a stand-in computes
stands in `regions.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.core import blame
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError
from workbench.ops import several

__all__ = [
    "Passing",
    "StandIn",
    "original",
    "settled",
    "shown",
    "stand_in_of",
    "standing",
    "whole_of",
]

Rules = Mapping[int, Any]


class StandIn(Tensor):
    """A node that a sweep walks over in the place of a part of a program.

    It has the serial of the node at the part's end, so that all that is kept by
    serial finds it. Of several ends there is one stand-in for the whole, just before
    the first of them, and one more for each, which takes its share out.
    """

    __slots__ = ("region", "shown")

    #: What it stands for (`regions.Region`).
    region: Any
    #: What a rule sees as its outputs where it is recorded.
    shown: Any


class Passing:
    """The rule at one of several ends: it hands on to the stand-in for the whole."""

    __slots__ = ("node",)
    label = ""

    def __init__(self, node: StandIn) -> None:
        self.node = node

    def __call__(self, *arguments: Any) -> Any:
        """As `item` does, in the mode whose arguments these are."""
        op = several.ITEM
        rule = op.push if len(arguments) == 4 else op.pull
        assert rule is not None
        return rule(*arguments)


def stand_in_of(rule: Any) -> StandIn | None:
    """The stand-in that a rule belongs to; None for a rule of one node."""
    node = getattr(getattr(rule, "pull", rule), "node", None)
    return node if type(node) is StandIn else None


def whole_of(node: Tensor) -> Tensor:
    """The stand-in for the whole part, of that for one of its ends; else the node."""
    if type(node) is StandIn and node.op is several.ITEM:
        whole: Tensor = node.inputs[0]
        return whole
    return node


def standing(rules: Rules | None) -> dict[int, StandIn]:
    """The stand-ins among rules, by serial."""
    if not rules:
        return {}
    found = ((s, stand_in_of(rule)) for s, rule in rules.items())
    return {s: node for s, node in found if node is not None}


def shown(node: Tensor) -> Any:
    """A node as a recorded rule sees it: itself, or the tuple of its outputs."""
    if type(node) is StandIn:
        return node.shown
    return several.outputs(node)


def original(node: Tensor) -> Tensor:
    """The node of the user's program that a step of a sweep belongs to."""
    if type(node) is StandIn:
        last: Tensor = node.shown[-1] if isinstance(node.shown, tuple) else node.shown
        return last
    return node


def settled(
    rules: Rules | None, wrt: Sequence[Tensor], stopped: Collection[int] = ()
) -> Rules | None:
    """Rules without those of patterns that would pass by what is asked for.

    A derivative by a value inside a match, or one that holds it constant, is of a
    program in which the whole structure does not stand.

    Raises
    ------
    OverrideError
        If a ``wrt`` lies inside a cut-out subgraph, or reaches it past its inputs.
    """
    found = standing(rules)
    if not found or rules is None:
        return rules
    asked = {x.serial: x for x in wrt}
    held = {s for s, rule in rules.items() if not hasattr(rule, "label")}
    held |= set(stopped)
    gone: set[int] = set()
    checked: dict[int, bool] = {}
    for serial, node in found.items():
        region = node.region
        if id(region) not in checked:
            inside = region.inside
            cut = any(s in inside for s in (*asked, *held))
            if region.strict:
                refuse_around(region, asked.values())
            checked[id(region)] = cut
        if checked[id(region)]:
            gone.add(serial)
    return {s: rule for s, rule in rules.items() if s not in gone} if gone else rules


def refuse_around(region: Any, wrt: Iterable[Tensor]) -> None:
    """Refuse a cut-out subgraph that a ``wrt`` reaches past its inputs."""
    for x in wrt:
        if x.serial in region.inside or x.serial in region.strays:
            how = "lies inside it" if x.serial in region.inside else "is read in it"
            raise OverrideError(
                f"{region.text}: {blame.describe(x)} {how} and is not among its inputs,"
                " and the gradient by it is asked for. Add it to the inputs of"
                " wb.subgraph(outputs, inputs), or cut the region elsewhere."
            )
