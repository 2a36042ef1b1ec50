"""The steps of a walk over a program, in the order of both sweeps.

Which nodes it visits and which of their rules are recorded; the stand-ins that it
visits in the place of parts of the program; the programs inside nodes, and the rules
of overrides that reach into them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from workbench.core import blame, deferred, traces, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import live
from workbench.errors import OverrideError
from workbench.ops import define

# Stand-ins: one node in the place of a part of a program, for the sweeps alone.
#
# A rule of a pattern or of a cut-out subgraph is that of many nodes at once. A sweep
# that has such a rule walks over a stand-in, whose inputs are those of the whole part,
# where it would have walked over the node at the end of it. The program itself does
# not change, and a sweep without such rules pays nothing. What a stand-in computes
# stands in `overrides/regions.py`.

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
        op = define.ITEM
        rule = op.push if len(arguments) == 4 else op.pull
        assert rule is not None
        return rule(*arguments)


def stand_in_of(rule: Any) -> StandIn | None:
    """The stand-in that a rule belongs to; None for a rule of one node."""
    node = getattr(rule, "node", None)
    return node if type(node) is StandIn else None


def whole_of(node: Tensor) -> Tensor:
    """The stand-in for the whole part, of that for one of its ends; else the node."""
    if type(node) is StandIn and node.op is define.ITEM:
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
    return define.outputs(node)


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


# Programs inside nodes: the steps of loops, the branches of a choice.
#
# An override may mean a node in there: the sweep hands all its rules to the rule of the
# op, which differentiates its graphs with them.


def everything(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Nodes, and those inside them, and inside these.

    What a derivative has made is no node of the user's, but may hold some: values that
    it computes again.
    """
    found, stack = list(nodes), list(nodes)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node.origin is not None and node.op.maker is not None:
            continue  # an op of the user's in a rule: none of the program
        for graph in graphs_of(node):
            new = [x for x in graph.between if x.serial not in seen]
            seen.update(x.serial for x in new)
            found += [x for x in new if x.origin is None]
            stack += new
    return found


def graphs_of(node: Tensor) -> Sequence[Graph]:
    """Return the programs that a node holds."""
    op, inputs, params = deferred.stripped(node)
    return () if op.graphs is None else op.graphs(inputs, params)


def inner_rules(node: Tensor, rule: Any, rules: Rules | None) -> tuple[Any, ...]:
    """Return what the true rule of a node is given besides: rules for nodes inside."""
    op = node.op
    inside = rules and op.graphs is not None and rule in (op.pull, op.push)
    return (rules,) if inside else ()


# The steps of a walk


def plan(
    outputs: Sequence[Any],
    wrt: Sequence[Tensor],
    rules: Mapping[int, Any] | None = None,
) -> list[tuple[Tensor, int]]:
    """The nodes between ``wrt`` and ``outputs``, ascending, and the inputs that vary.

    Bit i of the mask says that input i depends on a ``wrt`` Tensor. What passes only
    through ops without derivative (comparisons, `sign`) does not vary, unless one of
    ``rules`` gives such a node a derivative. Where a rule is that of a part of the
    program, its stand-in is walked over in the place of that part's last node.
    """
    varying = {x.serial for x in wrt}
    first = min(varying, default=0)
    seen = {x.serial: x for x in outputs if isinstance(x, Tensor) and x.serial >= first}
    instead = standing(rules) if rules else None
    if instead:
        seen = _around(seen, instead, first)
    stack = list(seen.values()) if not instead else []
    pop, push = stack.pop, stack.append
    while stack:
        for x in pop().inputs:
            # The exact class first: this loop runs for every edge of a program.
            if type(x) is Tensor or isinstance(x, Tensor):
                serial = x.serial
                if serial >= first and serial not in seen:
                    seen[serial] = x
                    push(x)
    steps = []
    for serial in sorted(seen):
        node = seen[serial]
        mask, bit = 0, 1
        for x in node.inputs:
            if (type(x) is Tensor or isinstance(x, Tensor)) and x.serial in varying:
                mask |= bit
            bit += bit
        if mask:
            if node.op.pull is None and (rules is None or serial not in rules):
                continue
            varying.add(serial)
            steps.append((node, mask))
    return steps


def _around(
    seen: dict[int, Tensor], instead: Mapping[int, StandIn], first: int
) -> dict[int, Tensor]:
    """All that is between, as `plan` finds it, with stand-ins where there are some."""
    seen = {serial: instead.get(serial, x) for serial, x in seen.items()}
    stack = list(seen.values())
    while stack:
        for x in stack.pop().inputs:
            if isinstance(x, Tensor) and x.serial >= first and x.serial not in seen:
                seen[x.serial] = found = instead.get(x.serial, x)
                stack.append(found)
    return seen


def outer_steps(
    outputs: Sequence[Any], steps: Sequence[tuple[Tensor, int]], wrt: Sequence[Tensor]
) -> set[int]:
    """The serials of those nodes whose rules must be recorded.

    These depend on a Tensor of an outer open trace, or have no value.
    """
    if not traces.LOCAL.stack:
        # Who depends on a Tensor without value has none, so the last ones tell.
        for y in outputs:
            if isinstance(y, Tensor) and y._value is None:
                break
        else:
            return set()
    first = min((x.serial for x in wrt), default=0)
    known: dict[int, bool] = {}

    def is_live(x: Tensor) -> bool:
        if x.serial not in known:
            known[x.serial] = live(x)
        return known[x.serial]

    found = {
        x.serial for x in wrt if any(is_live(i) for i in x.inputs) or x._value is None
    }
    roots = [node for node, _ in steps]
    for node in walk.order(roots, first):
        for x in node.inputs:
            if isinstance(x, Tensor) and (
                x.serial in found or (x.serial < first and is_live(x))
            ):
                found.add(node.serial)
                break
    return found
