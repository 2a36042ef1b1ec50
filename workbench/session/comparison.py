"""`NormChanges`: two moments of a program, or two sessions of it, node by node.

What is compared are norms: those of the present, those that the timeline remembers of a
run, those that the true rules would give, or those of another session of the same
program. The page compares by the same sides. `Preview` compares what a node passes on
without and with a rule that is not attached yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, overload

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.budget import budget_for
from workbench.checks import statistics
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.errors import UsageError
from workbench.overrides.override import override
from workbench.overrides.regions import Region
from workbench.overrides.resolution import Resolution
from workbench.session.applied_override import (
    AppliedOverride,
    complete_steps,
    resolve_target,
)
from workbench.session.history import NumberedOverride, find_entry
from workbench.session.nodes import Node, Nodes
from workbench.session.pairing import Pairing, pair_nodes
from workbench.session.stages import to_array
from workbench.session.state import State
from workbench.session.timeline import MISSING, Timeline, find_loss, measure_norms

Array = np.ndarray[Any, Any]
#: So many rows are printed.
MOST_ROWS = 12
#: A ratio so near to 1 is no change: other orders of summation give that much.
SAME = 1e-9


class Side(NamedTuple):
    """One side of a comparison: its name, its output, and the norms of all nodes.

    `MISSING` where there is no array.
    """

    label: str
    loss: float
    values: Array
    gradients: Array
    #: Of another program: the node there that belongs to one here, if its op is another
    #: one, or "nothing", by the id of the one here.
    others: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NormChange:
    """The norms of one node on both sides.

    Attributes
    ----------
    node, label
        Its id and its name.
    line
        The place in the user's code, ``"[3]:1"`` or ``"net.py:20"``; empty for none.
    values, gradients
        The L2 norms of its value, and of its gradient, before and after. NaN for an
        array with a NaN; None where there is no array.
    """

    node: int
    label: str
    line: str
    values: tuple[float | None, float | None]
    gradients: tuple[float | None, float | None]
    #: Where another program is compared: the node there, if it is of another op, or
    #: "nothing"; else "".
    other: str = ""

    @property
    def value_ratio(self) -> float | None:
        """The norm of the value after, in norms before; None beyond comparison."""
        return divide_norms(*self.values)

    @property
    def gradient_ratio(self) -> float | None:
        """The norm of the gradient after, in norms before; None beyond comparison."""
        return divide_norms(*self.gradients)

    @property
    def size(self) -> float:
        """The size of the change: the larger one of both as a power of two.

        0 for no change. Infinite where an array, or a NaN, is on one side alone, and
        from zero.
        """
        return max(measure_change(*self.values), measure_change(*self.gradients))

    def __repr__(self) -> str:
        parts = (
            f"{what} {format_pair(pair)}"
            for what, pair in (("gradient", self.gradients), ("value", self.values))
            if pair != (None, None)
        )
        other = f" ({self.other} there)" if self.other else ""
        return f"<{self.label}{other}: {', '.join(parts)}>"


class NormChanges(Sequence[NormChange]):
    """The norms of all nodes on two sides, the largest change first.

    Attributes
    ----------
    before, after
        What the two sides are, ``"run 12"``, ``"now"``, ``"without overrides"``.
    losses
        The value of the output on both; NaN if it is not one real number.
    differing
        The names of the nodes that have another op in the other program, or none.
    """

    def __init__(self, before: Side, after: Side, nodes: Nodes) -> None:
        others = {**before.others, **after.others}
        self.differing = [nodes.labels[i] for i in others]
        self.before, self.after = before.label, after.label
        self.losses = before.loss, after.loss
        self._nodes = nodes
        lines = [find_line(x) for x in nodes.graph.nodes]
        columns = (before.values, after.values, before.gradients, after.gradients)
        norms = np.stack(columns, 1).tolist()
        rows = []
        for i, row in enumerate(norms):
            v, w, g, h = (None if x == MISSING else x for x in row)
            label, other = nodes.labels[i], others.get(i, "")
            rows.append(NormChange(i, label, lines[i], (v, w), (g, h), other))
        #: By their ids.
        self._by_node = rows
        self._rows = sorted(rows, key=lambda row: -row.size)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[NormChange]:
        return iter(self._rows)

    @overload
    def __getitem__(self, which: int | str) -> NormChange: ...
    @overload
    def __getitem__(self, which: slice) -> list[NormChange]: ...
    def __getitem__(self, which: int | str | slice) -> NormChange | list[NormChange]:
        """Return a row by its rank, or that of a node by its name.

        Raises
        ------
        UnknownNodeError
            If no node has this name.
        """
        if isinstance(which, str):
            return self._by_node[self._nodes.find(which)]
        return self._rows[which]

    def __repr__(self) -> str:
        changed = [row for row in self._rows if row.size > 0]
        head = f"<{self.before} → {self.after}"
        if any(map(math.isfinite, self.losses)):
            head += f": output {format_pair(self.losses)}"
        count = len(self._rows)
        head += f"; {len(changed) or 'none'} of {count} nodes changed"
        if self.differing:
            head += f"; of another op there: {', '.join(self.differing[:MOST_ROWS])}"
        head += ">"
        shown = changed[:MOST_ROWS]
        if not shown:
            return head
        table = [("node", "line", "‖gradient‖", "", "‖value‖", "")]
        for row in shown:
            table.append(
                (
                    row.label,
                    row.line,
                    format_pair(row.gradients),
                    format_ratio(row.gradient_ratio),
                    format_pair(row.values),
                    format_ratio(row.value_ratio),
                )
            )
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  " + "  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table
        ]
        if len(changed) > len(shown):
            lines.append(f"  and {len(changed) - len(shown)} more")
        return "\n".join([head, *lines])


def measure_present(state: State, label: str) -> Side:
    """Return a session as its state shows it.

    Raises
    ------
    UsageError
        If it has no gradients.
    """
    state.require_backward()
    count, row = state.objective.nodes.count, measure_norms(state)
    loss = find_loss(state.value)
    return Side(
        label,
        math.nan if loss is None else loss,
        row[:count].copy(),
        row[count : 2 * count].copy(),
    )


def find_pairing(here: State, other: State) -> Pairing | None:
    """Return which nodes of two programs belong together; None for the same program.

    Raises
    ------
    UsageError
        If they have little in common; the text says where they differ.
    """
    reason = describe_mismatch(here, other)
    if not reason:
        return None
    pairing = pair_nodes(here, other)
    if not pairing.is_close:
        raise UsageError(reason)
    return pairing


def name_differing(pairing: Pairing | None, other: State) -> dict[int, str]:
    """Return what is there in the place of each node that differs, by its id here."""
    labels = other.objective.nodes.labels
    found = {} if pairing is None else pairing.differing
    return {i: "nothing" if j < 0 else labels[j] for i, j in found.items()}


def measure_other(here: State, other: State, label: str) -> Side:
    """Return another session, of this program or of one that differs in few ops.

    Raises
    ------
    UsageError
        If it has no gradients, or the program has little in common with this one.
    """
    side = measure_present(other, label)
    pairing = find_pairing(here, other)
    if pairing is None:
        return side
    return side._replace(
        values=pairing.map_nodes(side.values, MISSING),
        gradients=pairing.map_nodes(side.gradients, MISSING),
        others=name_differing(pairing, other),
    )


def measure_truth(state: State) -> Side:
    """Return the same with the gradients of the true rules."""
    present, truth = measure_present(state, "without overrides"), state.truth
    assert truth is not None  # it has gradients
    found = map(truth.cotangents.get, range(state.objective.nodes.count))
    norms = statistics.compute_norms([*found], MISSING)
    return present._replace(gradients=np.array(norms))


def measure_run(timeline: Timeline, which: int) -> Side:
    """Return a run of the past.

    Raises
    ------
    UnknownNodeError
        If its norms are not kept.
    """
    found = timeline.read_norms(timeline[which].step)
    return Side(f"run {found.step}", found.loss, found.values, found.gradients)


def describe_mismatch(one: State, other: State) -> str:
    """Return where two programs differ, in words; empty if they are the same.

    They are the same if their ops, what each reads, and what is differentiated are: the
    shapes, names and values may be others.
    """
    here, there = one.objective.nodes, other.objective.nodes
    name = there.session
    if here.count != there.count:
        return (
            f"{name} is another program: it has {there.count} nodes, and"
            f" {here.session} has {here.count}."
        )
    forward, second = one.forward, other.forward
    labels, others = here.labels, there.labels
    pairs = zip(forward.graph.nodes, second.graph.nodes, strict=True)
    for i, (x, y) in enumerate(pairs):
        kinds = ["an input" if is_leaf(node) else node.op.name for node in (x, y)]
        if kinds[0] != kinds[1]:
            return (
                f"{name} is another program: its node {i}, {others[i]}, is {kinds[1]},"
                f" and here {labels[i]} is {kinds[0]}."
            )
        reads = [
            [values.ids[node.inputs[k].serial] for k in values.slots[i]]
            for values, node in ((forward, x), (second, y))
        ]
        if reads[0] != reads[1]:
            texts = [
                ", ".join(names[k] for k in ids)
                for names, ids in zip((labels, others), reads, strict=True)
            ]
            return (
                f"{name} is another program: its {others[i]} reads {texts[1]}, and here"
                f" {labels[i]} reads {texts[0]}."
            )
    output, second_output = one.objective.output, other.objective.output
    if output != second_output:
        return (
            f"{name} differentiates {others[second_output]}, and {here.session}"
            f" differentiates {labels[output]}."
        )
    return ""


def find_line(node: Any) -> str:
    """Return the place that made a node; empty for an input."""
    site = None if is_leaf(node) else node.site
    return "" if site is None else site.place


def divide_norms(before: float | None, after: float | None) -> float | None:
    """Return a norm in another; None where one is missing, a NaN, or the first is 0.

    >>> divide_norms(2.0, 1.0), divide_norms(0.0, 1.0), divide_norms(None, 1.0)
    (0.5, None, None)
    """
    if before is None or after is None or not before:
        return None
    if not (math.isfinite(before) and math.isfinite(after)):
        return None
    return after / before


def measure_change(before: float | None, after: float | None) -> float:
    """Return a change of a norm as a power of two, 0 for none.

    >>> measure_change(2.0, 0.5), measure_change(0.0, 0.0), measure_change(None, 1.0)
    (2.0, 0.0, inf)
    """
    if before is None or after is None:
        return 0.0 if before is after else math.inf
    if before == after or (math.isnan(before) and math.isnan(after)):
        return 0.0
    ratio = divide_norms(before, after)
    if not ratio:
        return math.inf
    return 0.0 if abs(ratio - 1) <= SAME else abs(math.log2(ratio))


def format_pair(pair: tuple[float | None, float | None]) -> str:
    """Return two norms as text, ``"1.2 → 0.3"``."""
    if pair == (None, None):
        return ""
    return " → ".join("none" if x is None else f"{x:.4g}" for x in pair)


def format_ratio(ratio: float | None) -> str:
    """Return a ratio as text, ``"×0.25"``."""
    return "" if ratio is None else f"×{ratio:.3g}"


# Another rule, before it is attached.

#: What a node passes on to each of its inputs, by the input's id.
Passed = dict[int, Any]


@dataclass(frozen=True)
class Preview:
    """The cotangents that a node passes on, without an override and with the override.

    Attributes
    ----------
    node
        The id of the node.
    before, after
        The gradient that it passes on to each of its inputs, by the id of the input:
        without the override, and with it. The other overrides are in force.
    """

    node: int
    before: Passed
    after: Passed


def preview_override(
    state: State,
    at: Node,
    target: Any,
    vjp: Any,
    *,
    steps: int | slice | None = None,
    replacing: int | AppliedOverride | None = None,
) -> Preview:
    """Return a node's cotangents with and without an override; nothing is attached.

    See `Session.preview`.
    """
    nodes = state.objective.nodes
    state.require_backward()
    node = nodes.find(at)
    found = resolve_target(nodes, state.forward.program, target)
    steps = complete_steps(target, found, steps, nodes)
    made = NumberedOverride(0, override(found, vjp, steps=steps))
    entries, place = [*state.entries], len(state.entries)
    if replacing is not None:
        number = replacing if isinstance(replacing, int) else replacing.id
        place = entries.index(find_entry(state.entries, number))
        entries.pop(place)
    before = _sweep_to(state, node, entries)
    entries.insert(place, made)
    after = _sweep_to(state, node, entries)
    if not before and not after:
        label = nodes.labels[node]
        raise UsageError(
            f"no gradient reaches {label}: a rule there would change nothing."
        )
    return Preview(node, before, after)


class _Reached(Exception):
    """The node has passed on its cotangents: the rest of the sweep is not needed."""


def _sweep_to(state: State, node: int, entries: list[NumberedOverride]) -> Passed:
    """Return the cotangents that a node passes to its inputs under some overrides."""
    forward, objective = state.forward, state.objective
    nodes, passed = forward.graph.nodes, Passed()
    resolution: Resolution | None = None
    if entries:
        resolution = state.resolve([entry.override for entry in entries])
    tensor: Tensor = nodes[node]

    def keep(node: Tensor, _: Any, parts: list[Any]) -> None:
        ends = node.outputs if isinstance(node, Region) else (node,)
        if all(x.serial != tensor.serial for x in ends):
            return
        for x, c in zip(node.inputs, parts, strict=False):
            if c is None or not isinstance(x, Tensor) or x.serial not in forward.ids:
                continue
            i, c = forward.ids[x.serial], to_array(c)
            # An input that is read twice gets both.
            old = passed.get(i)
            passed[i] = c if old is None or isinstance(c, tuple) else old + c
        raise _Reached

    quiet = np.errstate(all="ignore")
    with quiet, budget_for([x._value for x in nodes]), suppress(_Reached):
        reverse.pull_back(
            [nodes[objective.output]],
            [state.cotangent],
            [nodes[i] for i in objective.wrt],
            rules=None if resolution is None else resolution.rules,
            visit=keep,
        )
    return passed
