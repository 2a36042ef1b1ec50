"""Python loops that a trace has unrolled, and stores one after the other.

A trace records each iteration of a ``for`` as nodes of its own. They stand at the same
place in the code, so the loop is found again as a stretch of nodes that repeats. What
is found serves to look at one iteration, and to override a node in some of them.

Stores that fill an array, entry by entry, stand in a scope of their own in a session,
so that they are folded as other scopes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from workbench.core import sites, source
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.errors import OverrideError
from workbench.ops.updates import SET
from workbench.overrides.override import Override, write_steps
from workbench.overrides.targets import ByNode

Array = np.ndarray[Any, Any]

#: Fewer iterations, or fewer ops in all of them, are read as they stand.
LEAST_TIMES, LEAST_OPS = 4, 20
#: The body of a loop has at most so many ops.
LONGEST = 5000
#: How many distances to an equal op are tried as the length of a body.
TRIES = 4
#: So often what was found is taken as one element: loops in loops, two for each.
MOST_ROUNDS = 16
#: Comparisons for each op; a sequence made to take more is left as it is.
EFFORT = 60


class Repeat(NamedTuple):
    """A stretch of a sequence, ``period`` long, that is there ``times`` times."""

    start: int
    period: int
    times: int


class Nested(NamedTuple):
    """A stretch that repeats, and the one that it is a part of.

    ``around`` is the position of that one in the list, -1 for none, and ``at`` the
    iteration there.
    """

    start: int
    period: int
    times: int
    around: int = -1
    at: int = -1


def find_nested_repeats(
    signatures: Sequence[int] | Array, order: Sequence[int] | Array = ()
) -> list[Nested]:
    """Return the stretches of a sequence that repeat, and those within their bodies.

    A stretch that was found is taken as one element, and the sequence is looked at
    again: so what repeats around it is found too. Those around come first.

    Parameters
    ----------
    signatures, order
        As of `find_repeats`.

    Examples
    --------
    >>> inner = [1, 2, 3, 4, 5] * 4
    >>> for found in find_nested_repeats([*inner, 6] * 4)[:3]:
    ...     print(found)
    Nested(start=0, period=21, times=4, around=-1, at=-1)
    Nested(start=0, period=5, times=4, around=0, at=0)
    Nested(start=21, period=5, times=4, around=0, at=1)
    """
    given = np.asarray(signatures, np.int64)
    places = np.asarray(order, np.int64)
    if not len(places):
        places = np.full(len(given), -1)
    # Where each element begins in the whole sequence, and where the last one ends.
    starts = np.arange(len(given) + 1)
    names: dict[tuple[int, ...], int] = {}
    found: list[Repeat] = []
    heights = np.zeros(len(given), np.int64)
    for _ in range(MOST_ROUNDS):
        level = _find_innermost(given, places)
        if not level:
            break
        # From the inside: what is around may begin before all within it is known.
        tall = [heights[start : start + period].max() for start, period, _ in level]
        level = [one for one, height in zip(level, tall, strict=True)
                 if height == min(tall)]  # fmt: skip
        kept = np.ones(len(given), bool)
        following, first = given.copy(), places.copy()
        for start, period, times in level:
            begin, end = int(starts[start]), int(starts[start + times * period])
            if end - begin >= LEAST_OPS:
                found.append(Repeat(begin, (end - begin) // times, times))
            body = slice(start, start + period)
            key = (times, *given[body].tolist())
            # What stands for a stretch is no signature of an element.
            following[start] = -2 - names.setdefault(key, len(names))
            first[start] = places[body].min()
            heights[start] = min(tall) + 1
            kept[start + 1 : start + times * period] = False
        given, places, heights = following[kept], first[kept], heights[kept]
        starts = starts[np.append(kept, True)]
    return _nest(found)


def _find_innermost(given: Array, places: Array) -> list[Repeat]:
    """Return the stretches that repeat and hold no other in their bodies."""
    found: list[Repeat] = []
    for one in find_repeats(given, places, least=LEAST_TIMES):
        start, period, times = one
        body = slice(start, start + period)
        inner = _find_innermost(given[body], places[body])
        for k in range(times):
            found += [x._replace(start=x.start + start + k * period) for x in inner]
        if not inner:
            found.append(one)
    return found


def _nest(found: Sequence[Repeat]) -> list[Nested]:
    """Return stretches with those around them, from the outer to the inner."""
    nested: list[Nested] = []
    open_: list[int] = []
    for one in sorted(found, key=lambda one: (one.start, -one.period * one.times)):
        while open_ and one.start >= (around := nested[open_[-1]]).start + (
            around.period * around.times
        ):
            open_.pop()
        outer = open_[-1] if open_ else -1
        at = (one.start - nested[outer].start) // nested[outer].period if open_ else -1
        open_.append(len(nested))
        nested.append(Nested(*one, outer, at))
    return nested


def find_repeats(
    signatures: Sequence[int] | Array,
    order: Sequence[int] | Array = (),
    least: int = LEAST_OPS,
) -> list[Repeat]:
    """Return the stretches of a sequence that repeat, in linear time.

    The shortest body from the earliest start, none over another.

    Parameters
    ----------
    signatures
        Equal numbers for equal elements.
    order
        For each element its place in the source, -1 for none: a body begins with the
        first of its elements, as far as the repetition allows.
    least
        The fewest elements of a stretch.

    Examples
    --------
    >>> find_repeats([9, *[1, 2, 3, 4, 5] * 6, 1, 2])
    [Repeat(start=1, period=5, times=6)]
    """
    given = np.asarray(signatures, np.int64)
    places = np.asarray(order, np.int64)
    count = len(given)
    periods = _list_periods(given, least)
    found: list[Repeat] = []
    end, effort = 0, EFFORT * count
    for start in np.flatnonzero((periods > 0).any(0)).tolist():
        if start < end or effort < 0:
            continue
        for period in periods[:, start].tolist():
            if period == 0:
                continue
            same = _count_equal(given[start : count - period], given[start + period :])
            effort -= same
            times = same // period + 1
            if times >= LEAST_TIMES and times * period >= least:
                spare = same - (times - 1) * period
                start += _find_body(places[start : start + period], spare)
                found.append(Repeat(start, period, times))
                end = start + times * period
                break
    return found


def _list_periods(given: Array, least: int) -> Array:
    """Return the lengths that a body from each element on may have; 0 for none.

    A few of its elements are compared, which leaves almost none that has not.
    """
    count = len(given)
    periods = np.zeros((TRIES, count), np.int64)
    if count < least:
        return periods
    order = np.argsort(given, kind="stable")
    following = np.full(count + 1, count)
    equal = given[order[1:]] == given[order[:-1]]
    following[order[:-1][equal]] = order[1:][equal]
    starts = np.arange(count)
    candidates = following[:count]
    padded = np.append(given, np.full(LEAST_TIMES, -1))
    for row in periods:
        lengths = candidates - starts
        good = (lengths <= LONGEST) & (starts + LEAST_TIMES * lengths <= count)
        at, length = starts[good], lengths[good]
        alike = padded[at + 1] == padded[at + length + 1]
        for k in range(2, LEAST_TIMES):
            alike &= given[at] == given[at + k * length]
        row[at[alike]] = length[alike]
        candidates = following[candidates]
    return periods


def _count_equal(one: Array, other: Array) -> int:
    """Return how many elements two sequences have in common from their start on."""
    done, size = 0, 64
    while done < len(one):
        different = one[done : done + size] != other[done : done + size]
        if different.any():
            return done + int(different.argmax())
        done, size = done + size, 4 * size
    return len(one)


def _find_body(places: Array, spare: int) -> int:
    """Return the start of the body in a stretch: the place first in the source."""
    if len(places) == 0 or (places < 0).any():
        return 0
    first = int(places.argmin())
    return first if first <= spare else 0


@dataclass(frozen=True)
class Unrolled:
    """The loops of a program that a trace has unrolled.

    Attributes
    ----------
    loop
        For each node the number of its loop, -1 for none.
    step
        For each node the iteration that it stands in, from 0; -1 for none.
    members
        For each loop the ids of its nodes, a row for each iteration. A loop in a loop
        is one for each iteration there, and comes after it.
    around
        For each loop the one that it stands in, and the iteration there; -1 for none.
    """

    loop: Array
    step: Array
    members: list[Array]
    around: list[tuple[int, int]]

    def count_steps(self, node: int) -> int | None:
        """Return the number of iterations of a node's loop; None outside of loops."""
        number = int(self.loop[node])
        return None if number < 0 else len(self.members[number])

    def holds_whole(self, node_ids: Sequence[int]) -> bool:
        """Return whether some nodes are all of each loop that one of them stands in."""
        numbers = {int(self.loop[i]) for i in node_ids} - {-1}
        todo = [*numbers]
        while todo:
            outer, _ = self.around[todo.pop()]
            if outer >= 0 and outer not in numbers:
                numbers.add(outer)
                todo.append(outer)
        own = {*node_ids}
        return all(own.issuperset(self.members[n].ravel().tolist()) for n in numbers)

    def select(self, override: Override, node_ids: Iterable[int]) -> list[int]:
        """Return those of some nodes that stand in the steps of an override.

        Of an override of one node they are the nodes at its place in those steps.

        Raises
        ------
        OverrideError
            If the loop of the one node has no such step.
        """
        steps = override.steps
        found: list[int] = []
        for i in node_ids:
            number = int(self.loop[i]) if i < len(self.loop) else -1
            if number < 0:
                continue
            rows = self.members[number]
            chosen = np.atleast_1d(_take_steps(np.arange(len(rows)), steps))
            if isinstance(override.target, ByNode):
                (place,) = np.flatnonzero(rows[self.step[i]] == i)
                if not len(chosen):
                    raise OverrideError(
                        f"override {override.label!r}: steps={write_steps(steps)} names"
                        f" none of the {len(rows)} steps of the loop. They are counted"
                        " from 0, from the end if negative."
                    )
                found += rows[chosen, place].tolist()
            elif self.step[i] in chosen:
                found.append(i)
        return found


def _take_steps(numbers: Array, steps: int | slice | None) -> Array:
    """Return the iterations that are named, as far as they exist."""
    if isinstance(steps, int):
        return (
            numbers[[steps]] if -len(numbers) <= steps < len(numbers) else numbers[:0]
        )
    return numbers[slice(None) if steps is None else steps]


def find_unrolled(nodes: Sequence[Tensor]) -> Unrolled:
    """Return the loops that a trace has unrolled into nodes.

    Nodes of one op on one line of the code, in one scope, are those of a loop if they
    repeat together. Each belongs to the innermost loop that it stands in.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def program(x):
    ...     for _ in range(10):
    ...         x = np.tanh(x) * 2
    ...     return x
    >>> graph = wb.trace(program)(np.ones(3))
    >>> find_unrolled(graph.nodes).step.tolist()[:8]
    [-1, 0, 0, 1, 1, 2, 2, 3]
    """
    # By its line: where an instruction stands changes as Python specialises it.
    known: dict[Any, int] = {}
    numbers: dict[Any, int] = {}
    lines: list[int] = []
    groups: dict[str | None, list[int]] = {}
    signatures = np.full(len(nodes), -1)
    for i, node in enumerate(nodes):
        site = node.op, *sites.instruction_of(node)
        number = known.get(site)
        if number is None:
            place = sites.decode(*site[1:])
            line = -1 if place is None else place.line
            number = numbers.setdefault((*site[:2], line), len(lines))
            known[site] = number
            if number == len(lines):
                lines.append(line)
        if node.inputs or not is_leaf(node):
            signatures[i] = number
            groups.setdefault(node.scope, []).append(i)
    loop = np.full(len(nodes), -1, np.int32)
    step = np.full(len(nodes), -1, np.int32)
    members: list[Array] = []
    around: list[tuple[int, int]] = []
    for listed in groups.values():
        if len(listed) < LEAST_OPS:
            continue
        ids = np.array(listed)
        own_signatures = signatures[ids]
        places = np.array(lines)[own_signatures]
        first = len(members)
        for start, period, times, outer, at in find_nested_repeats(
            own_signatures, places
        ):
            own = ids[start : start + period * times].reshape(times, period)
            # The inner ones come later.
            loop[own], step[own] = len(members), np.arange(times)[:, None]
            members.append(own)
            around.append((first + outer, at) if outer >= 0 else (-1, -1))
    return Unrolled(loop, step, members, around)


# Stores

#: Fewer stores are read as they stand.
LEAST_STORES = 4


def find_stores(graph: Graph) -> list[list[int]]:
    """Return the ids of stores that follow one another, and read nothing in between.

    Each makes a version of an array that the next store alone reads. With them goes
    what their own lines compute for them alone. Loops that compute more are left out:
    they are folded as a whole.
    """
    nodes = graph.nodes
    if not any(node.op is SET for node in nodes):
        return []
    ids = {node.serial: i for i, node in enumerate(nodes)}
    readers: list[list[int]] = [[] for _ in nodes]
    for i, x in (*((-1, x) for x in graph.outputs), *_list_edges(nodes)):
        if isinstance(x, Tensor):
            readers[ids[x.serial]].append(i)
    runs: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        if node.op is SET:
            base = ids.get(getattr(node.inputs[0], "serial", -1), -1)
            is_alone = base >= 0 and len(readers[base]) == 1
            runs[i] = [*(runs.pop(base, []) if is_alone else []), i]
    found = [run for run in runs.values() if len(run) >= LEAST_STORES]
    if not found:
        return found
    unrolled = find_unrolled(nodes)
    found = [_add_values(run, nodes, ids, readers) for run in found]
    return [run for run in found if unrolled.holds_whole(run)]


def _list_edges(nodes: Sequence[Tensor]) -> Iterable[tuple[int, Any]]:
    return ((i, x) for i, node in enumerate(nodes) for x in node.inputs)


def _add_values(
    run: list[int],
    nodes: Sequence[Tensor],
    ids: dict[int, int],
    readers: list[list[int]],
) -> list[int]:
    """Return the ids of stores, and of the nodes on their lines made only for them."""
    members = set(run)
    todo = [-i for i in run]  # a node comes after all that read it
    heapify(todo)
    while todo:
        node = nodes[i := -heappop(todo)]
        if i not in members:
            own = readers[i]
            alone = all(reader in members for reader in own)
            if is_leaf(node) or not alone or node.scope != nodes[own[0]].scope:
                continue
            if _line_of(node) not in [_line_of(nodes[reader]) for reader in own]:
                continue
            members.add(i)
        for x in node.inputs:
            if isinstance(x, Tensor) and (k := ids[x.serial]) not in members:
                heappush(todo, -k)
    return sorted(members)


def _line_of(node: Tensor) -> Any:
    site = node.site
    return site and (site.filename, site.line)


def scope_stores(graph: Graph) -> None:
    """Put consecutive stores into scopes with names like ``"out ← 300 stores"``."""
    nodes = graph.nodes
    used: set[str] = set()
    for run in find_stores(graph):
        last = nodes[run[-1]]
        count = sum(nodes[i].op is SET for i in run)
        around = "" if last.scope is None else f"{last.scope}/"
        name = path = f"{around}{last.name or 'array'} ← {count} stores"
        while path in used:
            path = f"{name} ({sum(x.startswith(name) for x in used) + 1})"
        used.add(path)
        for i in run:
            context = nodes[i].context or source.Context()
            nodes[i].context = context._replace(scope=path)
