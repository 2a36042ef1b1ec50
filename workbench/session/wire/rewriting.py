"""The derivative of a session as programs for the page: its steps, and one program.

Each program is a snapshot like any other, without values: the page draws it with the
same means. Its nodes have keys that stay from step to step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from os.path import basename
from typing import TYPE_CHECKING

import numpy as np

from workbench.core import walk
from workbench.core.graph import Graph
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor, value_of
from workbench.errors import UsageError
from workbench.rewrite.driver import Key, RewriteStep
from workbench.rewrite.text import Names, format_node
from workbench.session.derivative_program import Rewriting, find_rewriting
from workbench.session.stages import Values
from workbench.session.wire.columns import (
    Array,
    Snapshot,
    describe_structure,
    take_blank_snapshot,
)
from workbench.session.wire.header import encode_override
from workbench.session.wire.lesson import name_values
from workbench.session.wire.protocol.messages import (
    ProgramData,
    RewriteData,
    SimplificationData,
)
from workbench.session.wire.protocol.snapshot import OverrideData

if TYPE_CHECKING:
    from workbench.session.session import Session

#: Larger derivatives are not drawn step by step.
MOST_PROGRAM_NODES = 2000
#: The most steps that are listed.
MOST_REWRITES = 2000
#: The most operations of a program that is written out as code, and its length.
MOST_OPERATIONS, MOST_CODE = 60, 2000
#: The longest code of a step.
MOST_SIDE = 300


def list_rewrites(session: Session, without: Collection[str]) -> SimplificationData:
    """Return the steps that simplify the derivative of a session.

    Raises
    ------
    UsageError
        If the derivative is too large for the page, or no rule has a name that is
        switched off.

    Examples
    --------
    >>> import workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: x * x)(3.0))
    >>> found = list_rewrites(session, [])
    >>> [(step["rule"], step["before"], step["after"]) for step in found["steps"]]
    [('one times x', '1 * x', 'x'), ('one times x', 'x * 1', 'x'), ('x plus x', 'x + x', '2 * x')]
    """  # noqa: E501
    rewriting = _find_rewriting(session, without)
    steps = rewriting.result.steps
    sides = [x for step in steps for x in (step.before, step.after)]
    nodes = walk.order_nodes([x for x in sides if isinstance(x, Tensor)])
    names = _name_nodes(session, rewriting, nodes, rewriting.keys)
    return SimplificationData(
        steps=[_encode_step(step, names) for step in steps[:MOST_REWRITES]],
        total=len(steps),
    )


def take_program(
    session: Session, without: Collection[str], number: int
) -> tuple[Snapshot, ProgramData]:
    """Return the derivative of a session as a program after so many steps.

    Its nodes, and after them what the step took away; and what is said besides.

    Raises
    ------
    UsageError
        If the derivative is too large for the page, or no rule has a name that is
        switched off.
    """
    rewriting = _find_rewriting(session, without)
    after = _Nodes(*rewriting.find_program(number))
    before = _Nodes(*rewriting.find_program(number - 1)) if number else after
    ghosts = _copy_ghosts(before, after)
    reached = after.nodes
    known = {key for key, _ in before.keyed}
    shown = Graph([x for x in after.graph.inputs if x in set(reached)], [])
    # What the step took away comes last: nothing else reads it.
    shown.__dict__["nodes"] = [*reached, *[node for _, node in ghosts]]
    keys = [*[key for key, _ in after.keyed], *[key for key, _ in ghosts]]
    forward = [_find_forward(session, rewriting, after, n, k) for k, n in after.keyed]
    forward += [_find_forward(session, rewriting, before, n, k) for k, n in ghosts]
    values = Values(shown)
    outputs = _name_outputs(session, after.graph)
    serials = {x.serial: key for x, key in zip(shown.nodes, keys, strict=True)}
    own = _name_nodes(session, rewriting, shown.nodes, serials)
    named = {x.serial for x in shown.nodes if x.name}
    names = own | {i: name for i, name in outputs.items() if i not in named}
    structure = describe_structure(shown, partial(_label_node, names, outputs))
    snapshot = take_blank_snapshot(values, structure, session.name, values=False)
    header, columns = snapshot.header, snapshot.columns
    header["overrides"] = _encode_overrides(session, values, forward, columns)
    first = next((x for x in after.graph.outputs if isinstance(x, Tensor)), None)
    if first is not None:
        header["output"] = values.ids[first.serial]
    header["output_name"] = clean_text(", ".join(outputs.values()))
    wrt = {session.graph.nodes[i].serial for i in session.wrt}
    header["wrt"] = [i for i, x in enumerate(shown.nodes) if x.serial in wrt]
    extra = ProgramData(
        step=number,
        nodes=len(shown.nodes),
        keys=[f"{step}.{place}" for step, place in keys],
        forward=forward,
        came=[i for i, key in enumerate(keys[: len(reached)]) if key not in known],
        went=list(range(len(reached), len(keys))),
        text=_write_program(session, after, names),
    )
    return snapshot, extra


def _find_rewriting(session: Session, without: Collection[str]) -> Rewriting:
    """Return the simplification of a session, unless too large for the page."""
    cure = f"In Python: for step in {session.name}.simplify().steps: print(step)"
    count = len(session.graph.nodes)
    what = "program"
    if count <= MOST_PROGRAM_NODES:
        count = len(session.chain_rule.nodes)
        what = "derivative"
    if count > MOST_PROGRAM_NODES:
        raise UsageError(
            f"the {what} has {count:,} nodes; the page shows rewrites of up to"
            f" {MOST_PROGRAM_NODES:,}. {cure}"
        )
    return find_rewriting(session._state, without=without)


def _encode_step(step: RewriteStep, names: Names) -> RewriteData:
    rule = step.rule
    return RewriteData(
        rule=clean_text(step.name),
        group="" if rule is None else rule.group,
        note="" if rule is None else clean_text(rule.note),
        before=clean_text(format_node(step.before, names=names), MOST_SIDE),
        after=clean_text(format_node(step.after, names=names), MOST_SIDE),
        site="" if step.site is None else f"{basename(step.site[0])}:{step.site[1]}",
    )


class _Nodes:
    """A program at one step: what its outputs need, with keys."""

    def __init__(self, graph: Graph, keys: dict[int, Key]) -> None:
        self.graph, self.keys = graph, keys
        outputs = [x for x in graph.outputs if isinstance(x, Tensor)]
        self.nodes: list[Tensor] = walk.order_nodes(outputs)
        self.keyed = [(keys[x.serial], x) for x in self.nodes]


def _copy_ghosts(before: _Nodes, after: _Nodes) -> list[tuple[Key, Tensor]]:
    """Return copies of the nodes that a step removed, on the nodes that remain."""
    there = dict(after.keyed)
    ghosts = []
    for key, node in before.keyed:
        if key not in there:
            inputs = tuple(
                [
                    there[before.keys[x.serial]] if isinstance(x, Tensor) else x
                    for x in node.inputs
                ]
            )
            if inputs:
                args = tuple(map(value_of, inputs))
                node = walk.copy_node(node, inputs, args, None)
            there[key] = node
            ghosts.append((key, node))
    return ghosts


def _find_forward(
    session: Session, rewriting: Rewriting, nodes: _Nodes, node: Tensor, key: Key
) -> int:
    """Return the id of the session's node that a node belongs to; -1 for none."""
    ids, program = session.forward.ids, rewriting.replay.program
    if key[0] == 0:
        node = program.nodes[key[1]]
    while node.serial not in ids and node.origin is not None:
        node = node.origin.forward
        known = nodes.keys.get(node.serial)
        if known is not None and known[0] == 0:
            node = program.nodes[known[1]]
    return ids.get(node.serial, -1)


def _name_outputs(session: Session, graph: Graph) -> dict[int, str]:
    """Return the name of each output as a derivative, by the output's serial."""
    names: dict[int, str] = {}
    for label, y in zip(_name_wrt(session), graph.outputs, strict=True):
        if isinstance(y, Tensor):
            name = f"∂/∂{label}"
            known = names.get(y.serial)
            names[y.serial] = name if known is None else f"{known}, {name}"
    return names


def _name_nodes(
    session: Session,
    rewriting: Rewriting,
    nodes: Sequence[Tensor],
    keys: Mapping[int, Key],
) -> dict[int, str]:
    """Return the names of nodes that their own does not tell apart, by serial."""
    program = session.graph.nodes
    known = name_values(program, session.output)
    taken = {x.name for x in program if x.name} | {*known.values()}
    shared = _find_shared(session, rewriting, known)
    names = rewriting.find_names(keys, taken)
    for x in nodes:
        if x.name:
            names.pop(x.serial, None)
            if x.inputs and (key := keys.get(x.serial)) in shared:
                names[x.serial] = shared[key]
    return names


def _find_shared(
    session: Session, rewriting: Rewriting, known: Names
) -> dict[Key | None, str]:
    """Return the names of values that share one in the user's program, by key."""
    nodes, ids = session.graph.nodes, session.forward.ids
    shared: dict[Key | None, str] = {}
    for place, x in enumerate(rewriting.replay.program.nodes):
        node = x
        while node.serial not in ids and node.origin is not None:
            node = node.origin.forward
        value = nodes[ids[node.serial]] if node.serial in ids else x
        if x.name and x.inputs and value.name == x.name and value.serial in known:
            shared[0, place] = known[value.serial]
    # What takes the place of a value takes its name.
    keys = rewriting.keys
    for step in rewriting.result.steps:
        before, after = step.before, step.after
        if isinstance(after, Tensor) and before.name and after.name == before.name:
            if (name := shared.get(keys.get(before.serial))) is not None:
                shared[keys.get(after.serial)] = name
    return shared


def _name_wrt(session: Session) -> list[str]:
    """Return the names of what the session differentiates by."""
    known = name_values(session.graph.nodes, session.output)
    nodes, labels = session.graph.nodes, session.nodes.labels
    return [known.get(nodes[i].serial, labels[i]) for i in session.wrt]


def _label_node(names: Names, outputs: Names, node: Tensor) -> str | None:
    """Return the heading of a card: the node's own name, or "t3 = t1 * t2"."""
    if not node.inputs:
        return node.name
    name = names.get(node.serial) or node.name or ""
    if node.name:
        # Of one that is an output too, both.
        output = outputs.get(node.serial)
        return clean_text(name if output is None else f"{output} = {name}")
    return clean_text(f"{name} = {format_node(node, 1, names)}", MOST_SIDE)


def _encode_overrides(
    session: Session, values: Values, forward: Sequence[int], columns: dict[str, Array]
) -> list[OverrideData]:
    """Return the overrides that are on, with the nodes that their rules have made."""
    column = np.full(len(forward), -1, np.int32)
    encoded: list[OverrideData] = []
    for one in session.overrides:
        if not one.enabled:
            continue
        there = {*one.matched, *one.covered}
        ids = [
            i
            for i, x in enumerate(values.graph.nodes)
            if x.origin is not None
            and x.origin.overridden
            and x.origin.rule == one.label
            and (forward[i] in there or forward[i] < 0)
        ]
        column[ids] = len(encoded)
        own = set(ids)
        read = {
            values.ids[x.serial]
            for i in ids
            for x in values.graph.nodes[i].inputs
            if isinstance(x, Tensor)
        }
        data = encode_override(one, effects=False)
        data["target"] = {"kind": "other", "text": clean_text(one.target)}
        data["matched"] = sorted(own - read)
        data["covered"] = sorted(own & read)
        encoded.append(data)
    columns["override"] = column
    return encoded


def _write_program(session: Session, nodes: _Nodes, names: Names) -> str:
    """Return the program as code, as a paper has it; empty if too long.

    What several lines read is a line of its own before them, and so is an equation for
    each output. Values of the program that the user has named are written by their
    names.
    """
    own = {x.name for x in session.graph.nodes if x.name}
    ends = [x for x in nodes.graph.outputs if isinstance(x, Tensor)]
    given = {x.serial for x in nodes.nodes if x.inputs and x.name in own}
    needed = [x for x in walk.order_nodes(ends, stop=given) if x.inputs]
    read = Counter(
        x.serial
        for y in needed
        if y.serial not in given
        for x in y.inputs
        if isinstance(x, Tensor)
    )
    made = [x for x in needed if x.serial not in given]
    if len(made) > MOST_OPERATIONS:
        return ""
    shared = {x.serial for x in made if read[x.serial] > 1}
    atoms, end = given | shared, session.graph.nodes[session.output]
    known = name_values(session.graph.nodes, session.output)
    output = known.get(end.serial) or session.nodes.labels[session.output]

    def write(x: object) -> str:
        is_given = isinstance(x, Tensor) and x.serial in given
        return format_node(x, 0 if is_given else MOST_OPERATIONS, names, atoms)

    lines = [f"{names[x.serial]} = {write(x)}" for x in made if x.serial in shared]
    lines += [
        f"∂{output}/∂{label} = {write(y)}"
        for label, y in zip(_name_wrt(session), nodes.graph.outputs, strict=True)
    ]
    text = "\n".join(lines)
    return "" if len(text) > MOST_CODE else clean_text(text, MOST_CODE)
