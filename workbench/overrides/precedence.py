"""Which of several overrides has the say at a node, and what to tell of the others.

The more particular target wins, then the later override. A match of a pattern (or a
cut-out subgraph) stands as a whole or not at all: where another has the say at its
last node, or at one that it would pass by, it gives way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.core.tensor import Tensor
from workbench.overrides.regions import Region

if TYPE_CHECKING:
    from workbench.overrides.override import Override

__all__ = ["Settled"]

KINDS = {0: "op", 1: "scope", 2: "predicate", 3: "pattern", 4: "node"}
#: In the place of the position of an override that wins: what it is instead.
OWN, ASKED = -1, -2


class Settled:
    """Who has the say where.

    Parameters
    ----------
    overrides
        All of them, those that are off too.
    matched
        For each of them, the nodes that its target means.
    regions
        For those whose target means parts of a program: these, by position.
    wrt
        The serials of what is differentiated by, if that is known.
    """

    def __init__(
        self,
        overrides: Sequence[Override],
        matched: Sequence[Sequence[Tensor]],
        regions: Mapping[int, Sequence[Region]],
        wrt: Sequence[int] = (),
    ) -> None:
        self.overrides = overrides
        self.matched = matched
        self.regions = regions
        #: By the serial of a node: the position of the override, and what stands there.
        self.winners: dict[int, tuple[int, Tensor]] = {}
        #: For each override, whose nodes or matches it lost to whom, how many.
        self.lost: list[Counter[int]] = [Counter() for _ in overrides]
        self.passed: list[Counter[int]] = [Counter() for _ in overrides]
        self.covered = [
            inner_nodes(regions[i]) if i in regions else []
            for i in range(len(overrides))
        ]
        on = [i for i, one in enumerate(overrides) if one.enabled]
        on.sort(key=lambda i: (overrides[i].target.rank, i))
        # Nodes first, since a match gives way to them; then patterns, the last first.
        held: dict[int, int] = {}
        for i in on:
            if i not in regions and overrides[i].target.rank > 3:
                held.update((node.serial, i) for node in matched[i])
        inside: dict[int, int] = {}
        won: list[tuple[int, Region]] = []
        asked = set(wrt)
        for i in reversed(on):
            for region in sorted(regions.get(i, ()), key=last, reverse=True):
                other = self.before(region, held, inside, asked)
                if other is not None:
                    self.lost[i][OWN if other == i else other] += 1
                    continue
                won.append((i, region))
                held.update((x.serial, i) for x in region.outputs)
                for serial in region.inside:
                    inside.setdefault(serial, i)
        for i in on:
            if i not in regions and overrides[i].target.rank < 3:
                self.winners.update((node.serial, (i, node)) for node in matched[i])
        for i, region in reversed(won):
            for node in region.stand_ins():
                self.winners[node.serial] = i, node
        for i in on:
            if i not in regions and overrides[i].target.rank > 3:
                self.winners.update((node.serial, (i, node)) for node in matched[i])
        for i in on:
            if i not in regions:
                self.count(i, inside)

    def before(
        self,
        region: Region,
        held: Mapping[int, int],
        inside: Mapping[int, int],
        asked: set[int],
    ) -> int | None:
        """Who has the say in a region already; None if it may stand."""
        for x in region.outputs:
            for known in (held, inside):
                if x.serial in known:
                    return known[x.serial]
        for serial in sorted(region.inside):
            if serial in held:
                return held[serial]
        # An error of its own tells of a subgraph that was cut there by hand.
        if asked and not region.strict and not asked.isdisjoint(region.inside):
            return ASKED
        return None

    def count(self, i: int, inside: Mapping[int, int]) -> None:
        """Which nodes of an override others have the say at, or pass by."""
        for node in self.matched[i]:
            other = self.winners[node.serial][0]
            if other != i:
                self.lost[i][other] += 1
            elif node.serial in inside:
                self.passed[i][inside[node.serial]] += 1

    # In words

    def notes(self) -> list[str]:
        """For each override, where another has the say; empty where none."""
        found: list[list[str]] = [[] for _ in self.overrides]
        for i, lost in enumerate(self.lost):
            for other, count in lost.items():
                what = self.share(count, i)
                if other == OWN:
                    found[i].append(
                        f"{what} {verb(count, 'overlaps', 'overlap')} with a match of"
                        " its own that ends later in the program"
                    )
                elif other == ASKED:
                    found[i].append(
                        f"{what} {verb(count, 'holds', 'hold')} a value inside that the"
                        " derivative is asked by, and"
                        f" {verb(count, 'does', 'do')} not count"
                    )
                else:
                    gives = verb(count, "gives", "give")
                    found[i].append(f"{what} {gives} way to {self.named(other, i)}")
                    found[other].append(
                        f"has the say over {self.share(count, i, 'the')} of"
                        f" {self.named(i, other)}"
                    )
            for other, count in self.passed[i].items():
                lies = verb(count, "lies", "lie")
                found[i].append(
                    f"{self.share(count, i)} {lies} inside {self.named(other, i)}, and"
                    f" {verb(count, 'counts', 'count')} where other parts read"
                    f" {verb(count, 'it', 'them')}"
                )
        return ["; ".join(parts) for parts in found]

    def share(self, count: int, i: int, whose: str = "its") -> str:
        """So many of the nodes or matches that an override means."""
        total, noun, plural = len(self.matched[i]), "node", "nodes"
        if i in self.regions:
            total, noun, plural = len(self.regions[i]), "match", "matches"
        if count < total:
            return f"{count} of {total} {plural}"
        return f"{whose} only {noun}" if total == 1 else f"all {total} {plural}"

    def named(self, other: int, to: int) -> str:
        """Another override as the notes of one call it."""
        one, rank = self.overrides[other], self.overrides[to].target.rank
        kind = getattr(one.target, "kind", KINDS[one.target.rank])
        # Of two on the same kind of target their order decides; else the kind.
        when = "an"
        if one.target.rank == rank:
            when = "a later" if other > to else "an earlier"
        of = "an" if kind == "op" else "a"
        return f"{one.label!r}, {when} override of {of} {kind}"


def last(region: Region) -> float:
    """Where a region ends."""
    return max(x.serial for x in region.outputs)


def inner_nodes(regions: Sequence[Region]) -> list[Tensor]:
    """The nodes inside regions, once each, in the order of the program."""
    found = {
        node.serial: node
        for region in regions
        for node in region.covered
        if node.serial in region.inside
    }
    return [found[serial] for serial in sorted(found)]


def verb(count: int, one: str, many: str) -> str:
    """The form of a word for a number of things."""
    return one if count == 1 else many
