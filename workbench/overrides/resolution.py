"""Which override holds at which node of one program.

`resolve` finds the nodes that each override means and settles which of several has
the say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import NoReturn
from weakref import WeakKeyDictionary

from workbench.autodiff import steps
from workbench.core import blame
from workbench.core.op import declare
from workbench.core.tensor import IDENTITY, Tensor, next_serial
from workbench.errors import OverrideError
from workbench.overrides.node_rule import NodeRule
from workbench.overrides.override import Override, describe_steps
from workbench.overrides.regions import Region
from workbench.overrides.targets import ByNode, ByPart, Nodes, describe_mismatch

STRONG = declare("strong")

# Which of several overrides has the say at a node, and what to tell of the others.
#
# The more particular target wins, then the later override. A match of a pattern (or a
# cut-out subgraph) stands as a whole or not at all: where another has the say at its
# last node, or at one that it would pass by, it gives way.

KINDS = {0: "op", 1: "scope", 2: "predicate", 3: "pattern", 4: "node"}
#: In the place of the position of an override that wins: what it is instead.
OWN, ASKED = -1, -2


class Resolution:
    """Which override's rule runs at which node of one program.

    Parameters
    ----------
    overrides
        All that were asked for, those that are off too.
    matched
        For each of them, the nodes that its target means.
    regions
        For those whose target means parts of the program: these, by position.
    wrt
        The serials of what is differentiated by, if that is known.

    Attributes
    ----------
    winners
        The override that has the say at a node, by the node's serial: its
        position in `overrides`, and the node.
    parts
        Where it means a part of the program, that part, by the serial of each of its
        outputs.
    """

    def __init__(
        self,
        overrides: Sequence[Override],
        matched: Sequence[list[Tensor]],
        regions: Mapping[int, Sequence[Region]],
        wrt: Sequence[int] = (),
    ) -> None:
        self.overrides = list(overrides)
        self.matched = matched
        self.regions = regions
        self.winners: dict[int, tuple[int, Tensor]] = {}
        self.parts: dict[int, Region] = {}
        #: By the serial of a node: the positions of all that mean it by themselves and
        #: not as a part, the one that has the say last.
        self.ranked: dict[int, list[int]] = {}
        #: For each override, the number of nodes or matches lost to each other one.
        self.lost: list[Counter[int]] = [Counter() for _ in overrides]
        #: By the serial of a node inside a part that stands: the override of the part.
        self.inside: dict[int, int] = {}
        on = [i for i, one in enumerate(overrides) if one.enabled]
        on.sort(key=lambda i: (overrides[i].target.rank, i))
        for i in on:
            for node in matched[i] if i not in regions else ():
                self.ranked.setdefault(node.serial, []).append(i)
        # Nodes first, since a match gives way to them; then patterns, the last first.
        tops = {serial: ranked[-1] for serial, ranked in self.ranked.items()}
        holders = {s: i for s, i in tops.items() if overrides[i].target.rank > 3}
        won: list[tuple[int, Region]] = []
        wrt_serials = set(wrt)
        for i in reversed(on):
            for region in sorted(regions.get(i, ()), key=end_of, reverse=True):
                other = self.find_winner(region, holders, wrt_serials)
                if other is not None:
                    self.check_steps(other, i, region)
                    self.lost[i][OWN if other == i else other] += 1
                    continue
                if self.ranked:
                    ends = [x.serial for x in region.outputs]
                    for serial in (*region.inside, *ends):
                        for k in self.ranked.get(serial, ()):
                            self.check_steps(i, k, region)
                won.append((i, region))
                for x in region.outputs:
                    holders[x.serial] = i
                for serial in region.inside:
                    self.inside.setdefault(serial, i)
        for i in on:
            for node in matched[i] if i not in regions else ():
                self.winners[node.serial] = i, node
        for i, region in reversed(won):
            for x in region.outputs:
                self.winners[x.serial] = i, x
                self.parts[x.serial] = region

    def check_steps(self, winner: int, loser: int, region: Region) -> None:
        """Refuse ``steps=`` at a part where another override means something too.

        Outside of its steps the other would hold, at another part or node.
        """
        if winner in (loser, ASKED) or self.overrides[winner].steps is None:
            return
        one, other = self.overrides[winner], self.overrides[loser]
        end = region.outputs[0]
        raise OverrideError(
            f"override {one.label!r} on {one.target}{describe_steps(one.steps)}:"
            f" {other.label!r} on {other.target} means the same part of the program,"
            f" which ends with {blame.describe(end)}{blame.quote_site(end.site)}, or a"
            " node in it. Of a structure or a subgraph one override alone may name"
            " steps. Leave steps= out, or target nodes."
        )

    @property
    def cut_counts(self) -> list[int]:
        """For each override the number of parts that have a variable of wrt inside."""
        return [lost[ASKED] for lost in self.lost]

    @cached_property
    def covered(self) -> list[list[Tensor]]:
        """For each override, the nodes inside its matches, with rules at rest."""
        return [list_inner(self.regions.get(i, ())) for i in range(len(self.overrides))]

    def find_winner(
        self, region: Region, holders: Mapping[int, int], wrt_serials: set[int]
    ) -> int | None:
        """Return the winner over a region: an override's position, or `ASKED`.

        None if the region may stand.
        """
        for x in region.outputs:
            for positions in (holders, self.inside):
                if x.serial in positions:
                    return positions[x.serial]
        held = [serial for serial in region.inside if serial in holders]
        if held:
            return holders[min(held)]
        # An error of its own tells of a subgraph that was cut there by hand.
        if (
            wrt_serials
            and not region.strict
            and not wrt_serials.isdisjoint(region.inside)
        ):
            return ASKED
        return None

    @cached_property
    def rules(self) -> dict[int, NodeRule]:
        """The rules for both sweeps, by the serial of the node."""
        # A rule gets the position of its node among those of the override.
        at = [
            {
                x.serial: k
                for k, one in enumerate(self.regions.get(i, tensors))
                for x in steps.ends_of(one)
            }
            for i, tensors in enumerate(self.matched)
        ]
        prepared = [one.prepare() if one.enabled else one.at for one in self.overrides]
        by_serial: dict[int, NodeRule] = {}
        for serial, (i, node) in self.winners.items():
            part = self.parts.get(serial)
            if part is not None and serial != part.serial:
                continue
            target = node if part is None else part
            rule: NodeRule | None = None
            # One that means some steps of a loop leaves the others to the next.
            ranked = [i] if part is not None else self.ranked[serial]
            first = len(ranked) - 1
            while first and self.overrides[ranked[first]].steps is not None:
                first -= 1
            for k in ranked[first:]:
                rule = prepared[k](target, at[k][serial], rule)
            if rule is not None and (part is not None or not rule.is_true):
                for x in steps.ends_of(target):
                    by_serial[x.serial] = rule
        return by_serial

    # In words

    @cached_property
    def notes(self) -> list[str]:
        """For each override, where another has the say; empty where none."""
        lost, passed = self._count_lost()
        texts: list[list[str]] = [[] for _ in self.overrides]
        for i in range(len(self.overrides)):
            for other, count in lost[i].items():
                what = self.describe_share(count, i)
                if other == OWN:
                    texts[i].append(
                        f"{what} {inflect(count, 'overlaps', 'overlap')} with a"
                        " match of its own that ends later in the program"
                    )
                elif other == ASKED:
                    texts[i].append(
                        f"{what} {inflect(count, 'holds', 'hold')} a value inside that"
                        " the derivative is taken by, and"
                        f" {inflect(count, 'does', 'do')} not count"
                    )
                else:
                    gives = inflect(count, "gives", "give")
                    texts[i].append(
                        f"{what} {gives} way to {self.describe_override(other, i)}"
                    )
                    texts[other].append(
                        f"has the say over {self.describe_share(count, i, 'the')} of"
                        f" {self.describe_override(i, other)}"
                    )
            for other, count in passed[i].items():
                lies = inflect(count, "lies", "lie")
                texts[i].append(
                    f"{self.describe_share(count, i)} {lies} inside"
                    f" {self.describe_override(other, i)}, and"
                    f" {inflect(count, 'counts', 'count')} where other parts read"
                    f" {inflect(count, 'it', 'them')}"
                )
        return ["; ".join(parts) for parts in texts]

    def _count_lost(self) -> tuple[list[Counter[int]], list[Counter[int]]]:
        """Count the nodes of each override that another one rules, or hides."""
        lost = [Counter(one) for one in self.lost]
        passed: list[Counter[int]] = [Counter() for _ in self.overrides]
        for serial, ranked in self.ranked.items():
            for i in ranked:
                other = self.winners[serial][0]
                if other != i:
                    lost[i][other] += 1
                elif serial in self.inside:
                    passed[i][self.inside[serial]] += 1
        return lost, passed

    def describe_share(self, count: int, i: int, whose: str = "its") -> str:
        """Return in words how many of its nodes or matches an override means."""
        total, noun, plural = len(self.matched[i]), "node", "nodes"
        if i in self.regions:
            total, noun, plural = len(self.regions[i]), "match", "matches"
        if count < total:
            return f"{count} of {total} {plural}"
        return f"{whose} only {noun}" if total == 1 else f"all {total} {plural}"

    def describe_override(self, other: int, reader: int) -> str:
        """Return one override's name in the notes of another."""
        one, rank = self.overrides[other], self.overrides[reader].target.rank
        kind = getattr(one.target, "kind", KINDS[one.target.rank])
        # Of two on the same kind of target their order decides; else the kind.
        when = "an"
        if one.target.rank == rank:
            when = "a later" if other > reader else "an earlier"
        of = "an" if kind == "op" else "a"
        where = describe_steps(one.steps)
        return f"{one.label!r}, {when} override of {of} {kind}{where}"


def end_of(region: Region) -> float:
    """Return the serial of the last output of a region."""
    return max([x.serial for x in region.outputs])


def list_inner(regions: Sequence[Region]) -> list[Tensor]:
    """Return the nodes inside regions, once each, in the order of the program."""
    found = {
        node.serial: node
        for region in regions
        for node in region.nodes
        if node.serial in region.inside
    }
    return [found[serial] for serial in sorted(found)]


def inflect(count: int, one: str, many: str) -> str:
    """Return the singular or the plural form of a word."""
    return one if count == 1 else many


#: Returns the nodes of an override that stand in its steps of unrolled loops.
SelectUnrolled = Callable[[Override, Sequence[Tensor]], list[Tensor]]

#: When an override last matched something: the serial of a Tensor made then.
_MATCHED: WeakKeyDictionary[Override, int] = WeakKeyDictionary()


def resolve(
    overrides: Sequence[Override],
    nodes: Nodes,
    *,
    where: str = "the program",
    since: float = inf,
    wrt: Nodes = (),
    around: int = 0,
    program: Nodes = (),
    select_unrolled: SelectUnrolled | None = None,
) -> Resolution:
    """Find the nodes of a program that each override applies to.

    Parameters
    ----------
    overrides
        In order: of two of the same kind at one node, the later one wins.
    nodes
        All nodes of the program; an id means a position among them.
    where
        What an error calls the program.
    since
        An override that has matched elsewhere after this serial need not match
        here: of a Hessian, the gradient inside may hold all the nodes.
    wrt
        What is differentiated by, if that is known: a match of a pattern that holds
        one inside does not count.
    around
        How many of the overrides, the first ones, are those of ``with`` blocks, which
        need not mean this program.
    program
        All that holds the nodes, also what derivatives have made; else ``nodes``.
    select_unrolled
        Where Python loops that were unrolled count as loops: returns those of the
        matched nodes, or those in their place, that stand in the override's steps.

    Raises
    ------
    OverrideError
        If an override that is on matches nothing; with what was close.
    """
    chosen: list[Nodes] = []

    def list_ops() -> list[Nodes]:
        """Return the nodes that are ops, and those of them that the user wrote."""
        if not chosen:
            # A node that a derivative has made is none of the user's program, unless
            # the user points at it; nor one that only helps an op of the user's to run
            # on a batch.
            ops = [n for n in nodes if n.op is not IDENTITY and n.origin is None]
            # What makes an array of a Python number is no op that the user wrote.
            user_ops = [n for n in ops if n.op is not STRONG
                   and (n.context is None or not n.context.helper)]  # fmt: skip
            chosen[:] = ops, user_ops
        return chosen

    # A part of the program may hold what is differentiated by.
    outer_wrt = [x for x in wrt if x.op is not IDENTITY]
    if outer_wrt:
        serials = {node.serial for node in nodes}
        outer_wrt = [x for x in outer_wrt if x.serial not in serials]
    matched = []
    regions: dict[int, list[Region]] = {}
    for i, override in enumerate(overrides):
        target = override.target
        by_id = (
            target.has_nodes if isinstance(target, ByPart) else type(target) is ByNode
        )
        among = nodes if by_id else list_ops()[not isinstance(target, ByPart)]
        if isinstance(target, ByPart):
            candidates = (
                sorted([*among, *outer_wrt], key=serial_of) if outer_wrt else among
            )
            parts = target.find_regions(candidates, wrt)
            if override.enabled and override.distinguishes_inputs:
                for part in parts:
                    if part.unclear:
                        raise OverrideError(
                            f"override {override.label!r}: {part.unclear}"
                        )
            regions[i] = parts
            found = [x for region in regions[i] for x in region.outputs]
        else:
            found = target.select(among)
        means = bool(found)
        if override.steps is not None and found:
            unrolled = select_unrolled(override, found) if select_unrolled else []
            needed = i >= around and not unrolled
            found = keep_in_loops(override, found, program or nodes, needed)
            found = [*found, *unrolled]
            if i in regions:
                kept_serials = {x.serial for x in found}
                regions[i] = [
                    part
                    for part in regions[i]
                    if kept_serials.issuperset(x.serial for x in part.outputs)
                ]
        if by_id and found and found[0].op is IDENTITY:
            raise OverrideError(
                f"{blame.describe(found[0])} has no op, so no rule to override."
                " Override a node that reads it."
            )
        if found or (means and i < around):
            _MATCHED[override] = next_serial()
        elif override.enabled and _MATCHED.get(override, 0) < since:
            raise OverrideError(
                describe_mismatch(override.target, override.label, nodes, where, wrt)
            )
        matched.append(found)
    resolution = Resolution(overrides, matched, regions, [x.serial for x in wrt])
    for i, parts in regions.items():
        if (
            i >= around
            and overrides[i].enabled
            and resolution.cut_counts[i] == len(parts) > 0
        ):
            refuse_cut(overrides[i], parts, wrt)
    return resolution


def keep_in_loops(
    override: Override, matched: Sequence[Tensor], nodes: Nodes, needed: bool
) -> list[Tensor]:
    """Return those of the nodes of an override that stand in the step of a loop.

    Raises
    ------
    OverrideError
        If none does and one is ``needed``, or one stands in a branch or the like
        inside the step.
    """
    loop_serials: set[int] = set()
    deeper_serials: set[int] = set()
    for holder, inner in steps.inner_nodes(nodes):
        if holder.op.repeats:
            loop_serials.update(x.serial for x in inner)
        elif holder.serial in loop_serials or holder.serial in deeper_serials:
            deeper_serials.update(x.serial for x in inner)
    chosen = [x for x in matched if x.serial in loop_serials]
    for x in matched:
        if x.serial in deeper_serials:
            raise OverrideError(
                f"override {override.label!r}:"
                f" {blame.describe(x)}{blame.quote_site(x.site)} stands in a branch, a"
                " checkpoint or the like inside the step of a loop, where steps= does"
                " not reach. Leave steps= out, or choose in the rule."
            )
    if not chosen and needed:
        raise OverrideError(
            f"override {override.label!r} on {override.target}:"
            f" steps={override.steps!r} names iterations of a loop, and"
            f" {blame.describe(matched[0])}{blame.quote_site(matched[0].site)} is in"
            " none. Leave steps= out, or target a node in the step of wb.scan or"
            " wb.while_loop, or (in a session) in a Python loop of some length."
        )
    return chosen


def serial_of(node: Tensor) -> int:
    """Return the serial of a node, by which nodes are sorted."""
    return node.serial


def refuse_cut(override: Override, parts: Sequence[Region], wrt: Nodes) -> NoReturn:
    """Refuse an override if each matched structure contains a ``wrt`` node."""
    inside = {serial for part in parts for serial in part.inside}
    names = [blame.describe(x) for x in wrt if x.serial in inside]
    many = f"all {len(parts)} places hold" if len(parts) > 1 else "the one place holds"
    raise OverrideError(
        f"override {override.label!r} on {override.target}: {many} {' or '.join(names)}"
        " inside, and the derivative by that takes it as an input: without the nodes"
        " before it, the structure is not there. Differentiate by the inputs of the"
        " structure, or target a node."
    )
