"""Overrides of a session in a file: those that are data, as JSON.

A file is not trusted. All of it is checked before it is used; its rules are texts of
the expression language or lists of nodes, and a node is accepted only if its op and its
shape are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from errno import EISDIR, ENOENT
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NoReturn,
    NotRequired,
    TypedDict,
)

from workbench.core.blame import format_count, shorten
from workbench.core.schema import DataError, Meta, Schemas
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError, SnapshotError, WorkbenchError
from workbench.ops.define import shape_of
from workbench.overrides import override as overriding
from workbench.overrides.graph_rule import graph_rule
from workbench.overrides.linear_structures import ByLinear
from workbench.overrides.override import Override
from workbench.overrides.subgraphs import BySubgraph, subgraph
from workbench.overrides.targets import ByNode, ByOp, ByScope, Target
from workbench.session import applied_override
from workbench.session.history import NumberedOverride
from workbench.session.nodes import Nodes

if TYPE_CHECKING:
    from workbench.session.state import State

#: The version of the file; a reader refuses a newer one.
SCHEMA = 1
#: The largest file that is read, and the limits of its content.
MOST_BYTES, MOST_OVERRIDES, MOST_CHARACTERS = 10_000_000, 1000, 2000
MOST_PLACES = 1000


Text = Annotated[str, Meta(maxLength=MOST_CHARACTERS)]
Many = Meta(minItems=1, maxItems=MOST_PLACES)


class NodeData(TypedDict):
    """A node: by its name, else by its id, with the op and shape to expect."""

    kind: Literal["node"]
    node: int
    name: NotRequired[Text | None]
    op: Text
    shape: list[int | None]


class OpData(TypedDict):
    """All nodes of an op."""

    kind: Literal["op"]
    op: Text


class ScopeData(TypedDict):
    """All nodes in some scopes."""

    kind: Literal["scope"]
    scope: Text


class LinearData(TypedDict):
    """All linear nodes, or those of some data."""

    kind: Literal["linear"]
    data: NotRequired[Annotated[list[Text], Many] | None]


class SubgraphData(TypedDict):
    """A part of the program, between nodes."""

    kind: Literal["subgraph"]
    outputs: Annotated[list[NodeData], Many]
    inputs: Annotated[list[NodeData], Many]


TargetData = NodeData | OpData | ScopeData | LinearData | SubgraphData
#: A text of the language of rules, or a list of nodes, which `graph_rule` reads.
Rule = Text | dict[str, Any]


class OverrideData(TypedDict):
    """One override of a file, not yet matched with a program."""

    target: TargetData
    vjp: Rule
    jvp: NotRequired[Rule | None]
    name: NotRequired[Text | None]
    enabled: Annotated[bool, Meta(default=True)]
    #: Iterations of a loop: a number, or the parts of a slice.
    steps: NotRequired[
        int | Annotated[list[int | None], Meta(minItems=3, maxItems=3)] | None
    ]


class StoredData(TypedDict):
    """A file of overrides."""

    workbench_overrides: int
    overrides: Annotated[list[OverrideData], Meta(maxItems=MOST_OVERRIDES)]


#: What a file may hold.
FILE = Schemas(StoredData)


# Writing


def serialize(
    session: str,
    entries: Iterable[NumberedOverride],
    nodes: Nodes,
    tensors: Sequence[Tensor],
) -> tuple[str, list[str]]:
    """Return the text of a file of overrides, and a line for each that is not data."""
    stored, skipped = [], []
    for number, override in entries:
        where = f"override {number} ({override.label})"
        functions = [
            which
            for which, rule in (("rule", override.vjp), ("forward rule", override.jvp))
            if not applied_override.is_storable(rule)
        ]
        if not applied_override.is_data_target(override.target):
            functions.append(
                f"target, {applied_override.format_target(override.target, nodes)},"
            )
        if functions:
            skipped.append(f"{where}: its {' and its '.join(functions)} is code")
            continue
        steps = (
            {} if override.steps is None else {"steps": _encode_steps(override.steps)}
        )
        stored.append(
            {
                "target": _encode_target(override.target, nodes, tensors),
                "vjp": _encode_rule(override.vjp),
                "jvp": _encode_rule(override.jvp),
                "name": override.name,
                "enabled": override.enabled,
                **steps,
            }
        )
    data = {"workbench_overrides": SCHEMA, "session": session, "overrides": stored}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n", skipped


def _encode_steps(steps: int | slice) -> Any:
    if isinstance(steps, slice):
        return [steps.start, steps.stop, steps.step]
    return steps


def _encode_target(
    target: Target, nodes: Nodes, tensors: Sequence[Tensor]
) -> dict[str, Any]:
    def data(node: Any) -> dict[str, Any]:
        i = nodes.find(node)
        name, tensor = nodes.find_name(i), tensors[i]
        op, shape = tensor.op.name, _list_shape(tensor)
        return {"kind": "node", "node": i, "name": name, "op": op, "shape": shape}

    if isinstance(target, ByNode):
        return data(target.node)
    if isinstance(target, BySubgraph):
        return {
            "kind": "subgraph",
            "outputs": [data(x) for x in target.outputs],
            "inputs": [data(x) for x in target.inputs],
        }
    if isinstance(target, ByOp):
        return {"kind": "op", "op": target.op}
    if isinstance(target, ByLinear):
        return {"kind": "linear", "data": target.data and list(target.data)}
    assert isinstance(target, ByScope)
    return {"kind": "scope", "scope": target.glob}


def _encode_rule(rule: Any) -> Any:
    return rule if rule is None or isinstance(rule, str) else json.loads(rule.to_json())


def _list_shape(node: Tensor) -> list[int | None]:
    shape = shape_of(node)
    return [] if shape is None else [int(n) if n is not None else None for n in shape]


def write(path: str | PathLike[str], text: str) -> None:
    """Replace a file; the file is complete at every moment."""
    goal = Path(path)
    if not goal.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(goal.parent))
    if goal.is_dir():
        raise IsADirectoryError(EISDIR, "a folder, not a file", str(goal))
    # Not by `tempfile`, whose files only their owner may read.
    made = goal.with_name(f".{goal.name[:100]}.{token_hex(8)}")
    try:
        with made.open("x", encoding="utf-8") as file:
            file.write(text)
        made.replace(goal)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


# Reading


def read(path: str | PathLike[str]) -> list[OverrideData]:
    """Read and check the overrides of a file; nothing in the file runs.

    Raises
    ------
    SnapshotError
        If it is damaged, too large, or of a newer Workbench.
    """
    with open(path, "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        _raise_damaged(f"it has more than {MOST_BYTES:,} bytes")
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(data, ensure_ascii=False).encode()  # lone surrogates raise here
    except (ValueError, RecursionError) as error:
        _raise_damaged(f"it is not JSON ({shorten(str(error), 200)})")
    if not isinstance(data, dict) or "workbench_overrides" not in data:
        _raise_damaged('it has no "workbench_overrides"')
    version = data["workbench_overrides"]
    if type(version) is not int or version < 1:
        _raise_damaged(f"its version is {shorten(repr(version), 200)}")
    if version > SCHEMA:
        raise SnapshotError(
            f"these overrides were written with schema {version}; this Workbench reads"
            f" up to {SCHEMA}: update autodiff-workbench."
        )
    try:
        stored: list[OverrideData] = FILE.read("Stored", data)["overrides"]
    except DataError as error:
        _raise_damaged(str(error))
    for place, one in enumerate(stored):
        steps = one.get("steps")
        if isinstance(steps, list) and steps[2] == 0:
            _raise_damaged(f"overrides[{place}].steps has steps of 0")
    return stored


def make_entries(
    stored: Sequence[OverrideData], state: State, nodes: Nodes, strict: bool
) -> tuple[list[NumberedOverride], list[str]]:
    """Return the overrides of a file that are new to a session, and lines on misfits.

    Raises
    ------
    OverrideError
        If one does not fit, with ``strict``.
    """
    added, problems = (
        dict[int, NumberedOverride](),
        dict[int, str](),
    )  # by the place in the file
    next_id = state.next_id
    overrides = [entry.override for entry in state.entries]
    for place, one in enumerate(stored):
        try:
            override = make_override(one, nodes, state.forward.graph.nodes)
            target = applied_override.resolve_target(
                nodes, state.forward.program, override.target
            )
            override = replace(override, target=target)
            if any(applied_override.is_equal(override, other) for other in overrides):
                continue
            added[place] = NumberedOverride(next_id, override)
            overrides.append(override)
            next_id += 1
        except WorkbenchError as error:
            problems[place] = str(error)
    if not strict:
        added = _sift(added, problems, state)
    lines = [
        f"overrides[{place}]: {shorten(problems[place], 1000)}"
        for place in sorted(problems)
    ]
    if problems and strict:
        raise OverrideError(
            f"{nodes.session}.load: {len(problems)} of {len(stored)} overrides do not"
            f" fit, so none was attached. {' '.join(lines[:5])} Pass"
            " strict=False to attach those that fit."
        )
    return list(added.values()), lines


def _sift(
    added: dict[int, NumberedOverride], problems: dict[int, str], state: State
) -> dict[int, NumberedOverride]:
    """Return the overrides that fit together; add the errors of the others.

    All are tried at once, then halves of those that fail: one by one would take a
    sweep for each, and a file is not trusted.
    """
    good = dict[int, NumberedOverride]()
    stack = [list(added)]
    while stack:
        part = stack.pop()
        tried = good | {place: added[place] for place in part}
        try:
            state.edit("", (*state.entries, *tried.values()))
            good = tried
        except WorkbenchError as error:
            half = len(part) // 2
            if half:
                stack += [part[half:], part[:half]]
            else:
                problems[part[0]] = str(error)
    return good


def make_override(
    stored: OverrideData, nodes: Nodes, tensors: Sequence[Tensor]
) -> Override:
    """Return an override of a file as one of this program.

    Raises
    ------
    OverrideError
        If its node is missing or another one; ExpressionError if a rule is refused;
        RegistrationError for an invalid list of nodes.
    """
    steps = stored.get("steps")
    return overriding.override(
        _make_target(stored["target"], nodes, tensors),
        _make_rule(stored["vjp"]),
        jvp=_make_rule(stored.get("jvp")),
        name=stored.get("name"),
        enabled=stored["enabled"],
        steps=slice(*steps) if isinstance(steps, list) else steps,
    )


def _make_rule(rule: Any) -> Any:
    return graph_rule.from_json(rule) if isinstance(rule, dict) else rule


def _make_target(data: TargetData, nodes: Nodes, tensors: Sequence[Tensor]) -> Target:
    if data["kind"] == "op":
        return ByOp(data["op"])
    if data["kind"] == "scope":
        return ByScope(data["scope"])
    if data["kind"] == "linear":
        return ByLinear(data.get("data"))
    if data["kind"] == "subgraph":
        ends = [_find_node(x, nodes, tensors) for x in data["outputs"]]
        reads = [_find_node(x, nodes, tensors) for x in data["inputs"]]
        return subgraph(ends, reads)
    return ByNode(_find_node(data, nodes, tensors))


def _find_node(data: NodeData, nodes: Nodes, tensors: Sequence[Tensor]) -> int:
    name, i = data.get("name"), data["node"]
    if name is not None:
        if name not in nodes.names:
            raise OverrideError(
                f"no node is named {shorten(repr(name), 200)}. There are"
                f" {shorten(', '.join(nodes.names), 200) or 'none with a name'}."
            )
        i = nodes.names[name]
    elif not 0 <= i < nodes.count:
        raise OverrideError(
            f"there is no node {i}: ids go from 0 to {nodes.count - 1}."
        )
    node = tensors[i]
    if node.op.name != data["op"] or _list_shape(node) != data["shape"]:
        raise OverrideError(
            f"{nodes.labels[i]} is {node.op.name} {_format_shape(_list_shape(node))}"
            f" here, and was {shorten(data['op'], 200)}"
            f" {shorten(_format_shape(data['shape']), 200)} where the override was"
            " saved: it is another node."
        )
    return int(i)


def _format_shape(shape: list[int | None]) -> str:
    return "(" + ", ".join("?" if n is None else str(n) for n in shape) + ")"


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _raise_damaged(why: str) -> NoReturn:
    raise SnapshotError(f"this file of overrides cannot be read: {why}.")


def load_overrides(
    state: State, path: str | PathLike[str], strict: bool
) -> tuple[State, list[str]]:
    """Attach the overrides of a file; return a line for each that does not fit too."""
    stored = read(path)
    added, lines = make_entries(stored, state, state.objective.nodes, strict)
    if added:
        entries = (*state.entries, *added)
        state = state.edit(f"load {format_count(len(added), 'override')}", entries)
    return state, lines
