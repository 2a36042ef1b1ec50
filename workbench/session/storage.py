"""Overrides of a session in a file: those that are data, as JSON.

A file is not trusted. Everything in it is looked at before it is used, its rules are
texts that the expression language reads or lists of nodes, and a node is the one that
was meant only if its op and its shape are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import EISDIR, ENOENT
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.core.blame import shorten
from workbench.core.tensor import Tensor
from workbench.custom.graph_rule import graph_rule
from workbench.errors import OverrideError, SnapshotError, WorkbenchError
from workbench.ops.define import shape_of
from workbench.overrides import override as overriding
from workbench.overrides.linear_structures import ByLinear
from workbench.overrides.override import Override
from workbench.overrides.subgraphs import BySubgraph, subgraph
from workbench.overrides.targets import ByNode, ByOp, ByScope, Target
from workbench.session import applied_override
from workbench.session.nodes import Nodes
from workbench.session.state import Entry

if TYPE_CHECKING:
    from workbench.session.state import State

#: The newest version of the file. A reader refuses a newer one; 2 has `steps`.
SCHEMA = 2
#: The largest file that is read, and what may be in it.
MOST_BYTES, MOST_OVERRIDES, MOST_CHARACTERS = 10_000_000, 1000, 2000
MOST_PLACES = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """One override of a file, of known types, not yet looked at beside a program."""

    where: str
    target: dict[str, Any]
    vjp: str | dict[str, Any]
    jvp: str | dict[str, Any] | None
    name: str | None
    enabled: bool
    steps: int | slice | None


# Out


def written(
    session: str, entries: Iterable[Entry], nodes: Nodes, tensors: Sequence[Tensor]
) -> tuple[str, list[str]]:
    """Overrides as the text of a file, and in words those that are not data."""
    kept, lost = [], []
    for number, made in entries:
        where = f"override {number} ({made.label})"
        functions = [
            which
            for which, rule in (("rule", made.vjp), ("forward rule", made.jvp))
            if not applied_override.storable(rule)
        ]
        if not applied_override.data_target(made.target):
            functions.append(
                f"target, {applied_override.target_text(made.target, nodes)},"
            )
        if functions:
            lost.append(f"{where}: its {' and its '.join(functions)} is code")
            continue
        steps = {} if made.steps is None else {"steps": _steps_data(made.steps)}
        kept.append(
            {
                "target": _target_data(made.target, nodes, tensors),
                "vjp": _rule_data(made.vjp),
                "jvp": _rule_data(made.jvp),
                "name": made.name,
                "enabled": made.enabled,
                **steps,
            }
        )
    version = SCHEMA if any("steps" in one for one in kept) else 1
    data = {"workbench_overrides": version, "session": session, "overrides": kept}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n", lost


def _steps_data(steps: int | slice) -> Any:
    if isinstance(steps, slice):
        return [steps.start, steps.stop, steps.step]
    return steps


def _target_data(
    target: Target, nodes: Nodes, tensors: Sequence[Tensor]
) -> dict[str, Any]:
    def data(node: Any) -> dict[str, Any]:
        i = nodes.find(node)
        name, tensor = nodes.name_of(i), tensors[i]
        op, shape = tensor.op.name, _shape(tensor)
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


def _rule_data(rule: Any) -> Any:
    return rule if rule is None or isinstance(rule, str) else json.loads(rule.to_json())


def _shape(node: Tensor) -> list[int | None]:
    shape = shape_of(node)
    return [] if shape is None else [int(n) if n is not None else None for n in shape]


def write(path: str | PathLike[str], text: str) -> None:
    """Replace a file, which is whole at any moment."""
    goal = Path(path)
    if not goal.parent.is_dir():
        raise FileNotFoundError(ENOENT, "there is no such folder", str(goal.parent))
    if goal.is_dir():
        raise IsADirectoryError(EISDIR, "a folder, not a file", str(goal))
    # Not by `tempfile`, whose files nobody else may read.
    made = goal.with_name(f".{goal.name[:100]}.{token_hex(8)}")
    try:
        with made.open("x", encoding="utf-8") as file:
            file.write(text)
        made.replace(goal)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


# In


def read(path: str | PathLike[str]) -> list[Stored]:
    """Return what a file holds, looked at; nothing of it runs.

    Raises
    ------
    SnapshotError
        If it is damaged, too large, or of a newer Workbench.
    """
    with open(path, "rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        _damaged(f"it has more than {MOST_BYTES:,} bytes")
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_no_number)
        json.dumps(data, ensure_ascii=False).encode()  # half a character is no text
    except (ValueError, RecursionError) as error:
        _damaged(f"it is no JSON ({shorten(str(error), 200)})")
    if not isinstance(data, dict) or "workbench_overrides" not in data:
        _damaged('it has no "workbench_overrides"')
    version = data["workbench_overrides"]
    if type(version) is not int or version < 1:
        _damaged(f"its version is {shorten(repr(version), 200)}")
    if version > SCHEMA:
        raise SnapshotError(
            f"these overrides were written with schema {version}; this Workbench reads"
            f" up to {SCHEMA}: update autodiff-workbench."
        )
    listed = data.get("overrides")
    if not isinstance(listed, list) or len(listed) > MOST_OVERRIDES:
        _damaged("overrides is no list of bearable length")
    return [_stored(item, f"overrides[{i}]") for i, item in enumerate(listed)]


def _stored(item: object, where: str) -> Stored:
    if not isinstance(item, dict):
        _damaged(f"{where} is not an object")
    target, name = item.get("target"), item.get("name")
    if not isinstance(target, dict):
        _damaged(f"{where}.target is not an object")
    if name is not None:
        _text(name, f"{where}.name")
    enabled = item.get("enabled", True)
    if not isinstance(enabled, bool):
        _damaged(f"{where}.enabled is neither true nor false")
    rules: list[Any] = []
    for which in ("vjp", "jvp"):
        rule = item.get(which)
        if not isinstance(rule, dict) and not (rule is None and which == "jvp"):
            _text(rule, f"{where}.{which}")
        rules.append(rule)
    _check_target(target, f"{where}.target")
    steps = _steps(item.get("steps"), f"{where}.steps")
    return Stored(where, target, rules[0], rules[1], name, enabled, steps)


def _steps(given: Any, where: str) -> int | slice | None:
    """Iterations of a loop: a number, or the three of a slice."""
    if given is None or type(given) is int:
        return given
    if not isinstance(given, list) or len(given) != 3:
        _damaged(f"{where} names no iterations of a loop")
    if any(n is not None and type(n) is not int for n in given) or given[2] == 0:
        _damaged(f"{where} names no iterations of a loop")
    return slice(*given)


def _check_target(target: dict[str, Any], where: str) -> None:
    kind = target.get("kind")
    if kind == "node":
        if target.get("name") is not None:
            _text(target["name"], f"{where}.name")
        if type(target.get("node")) is not int:
            _damaged(f"{where}.node is {shorten(repr(target.get('node')), 200)}")
        _text(target.get("op"), f"{where}.op")
        shape = target.get("shape")
        if not isinstance(shape, list) or any(
            n is not None and type(n) is not int for n in shape
        ):
            _damaged(f"{where}.shape is no shape")
    elif kind in ("op", "scope"):
        _text(target.get(kind), f"{where}.{kind}")
    elif kind == "linear":
        names = target.get("data")
        if names is not None and (
            not isinstance(names, list) or not 0 < len(names) <= MOST_PLACES
        ):
            _damaged(f"{where}.data is no list of names")
        for i, name in enumerate(names or ()):
            _text(name, f"{where}.data[{i}]")
    elif kind == "subgraph":
        for which in ("outputs", "inputs"):
            listed = target.get(which)
            if not isinstance(listed, list) or not 0 < len(listed) <= MOST_PLACES:
                _damaged(f"{where}.{which} is no list of nodes")
            for i, item in enumerate(listed):
                if not isinstance(item, dict) or item.get("kind") != "node":
                    _damaged(f"{where}.{which}[{i}] is no node")
                _check_target(item, f"{where}.{which}[{i}]")
    else:
        _damaged(
            f"{where}.kind is {shorten(repr(kind), 200)}, not node, op, scope, linear"
            " or subgraph"
        )


def entries_of(
    stored: Sequence[Stored], state: State, nodes: Nodes, strict: bool
) -> tuple[list[Entry], list[str]]:
    """Return the overrides of a file that are new to a session, and what did not fit.

    Raises
    ------
    OverrideError
        If something does not fit, and all has to.
    """
    added, problems = dict[int, Entry](), dict[int, str]()  # by the place in the file
    following = state.following
    known = [entry.override for entry in state.entries]
    for place, one in enumerate(stored):
        try:
            made = fitted(one, nodes, state.forward.graph.nodes)
            target = applied_override.target_in(
                nodes, state.forward.program, made.target
            )
            made = replace(made, target=target)
            if any(applied_override.alike(made, other) for other in known):
                continue
            added[place] = Entry(following, made)
            known.append(made)
            following += 1
        except WorkbenchError as error:
            problems[place] = str(error)
    if not strict:
        added = _sift(added, problems, state)
    lines = [
        f"{stored[place].where}: {shorten(problems[place], 1000)}"
        for place in sorted(problems)
    ]
    if problems and strict:
        raise OverrideError(
            f"{nodes.session}.load: {len(problems)} of {len(stored)} overrides do not"
            f" fit, and none was attached. {' '.join(lines[:5])} With"
            " strict=False those that fit are."
        )
    return list(added.values()), lines


def _sift(
    added: dict[int, Entry], problems: dict[int, str], state: State
) -> dict[int, Entry]:
    """Return those of some overrides that fit together; note the errors of the others.

    All are tried at once, then halves of what does not fit: a file is not
    trusted, and one by one would be a sweep for each of those before.
    """
    good = dict[int, Entry]()
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


def fitted(stored: Stored, nodes: Nodes, tensors: Sequence[Tensor]) -> Override:
    """Return an override of a file as one of this program.

    Raises
    ------
    OverrideError
        If its node is not there, or is another; ExpressionError if a rule is
        refused; RegistrationError for a list of nodes that is none.
    """
    return overriding.override(
        _target(stored.target, nodes, tensors),
        _rule(stored.vjp),
        jvp=_rule(stored.jvp),
        name=stored.name,
        enabled=stored.enabled,
        steps=stored.steps,
    )


def _rule(rule: Any) -> Any:
    return graph_rule.from_json(rule) if isinstance(rule, dict) else rule


def _target(data: dict[str, Any], nodes: Nodes, tensors: Sequence[Tensor]) -> Target:
    if data["kind"] == "op":
        return ByOp(data["op"])
    if data["kind"] == "scope":
        return ByScope(data["scope"])
    if data["kind"] == "linear":
        return ByLinear(data.get("data"))
    if data["kind"] == "subgraph":
        ends, reads = (
            [_node(x, nodes, tensors) for x in data[which]]
            for which in ("outputs", "inputs")
        )
        return subgraph(ends, reads)
    return ByNode(_node(data, nodes, tensors))


def _node(data: dict[str, Any], nodes: Nodes, tensors: Sequence[Tensor]) -> int:
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
    if node.op.name != data["op"] or _shape(node) != data["shape"]:
        raise OverrideError(
            f"{nodes.labels[i]} is {node.op.name} {_shown(_shape(node))} here, and was"
            f" {shorten(data['op'], 200)} {shorten(_shown(data['shape']), 200)}"
            " where the override was saved: it is another node."
        )
    return int(i)


def _shown(shape: list[int | None]) -> str:
    return "(" + ", ".join("?" if n is None else str(n) for n in shape) + ")"


def _text(value: object, where: str) -> None:
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        _damaged(f"{where} is {shorten(repr(value), 200)}, not text of bearable length")


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _damaged(why: str) -> NoReturn:
    raise SnapshotError(f"this file of overrides cannot be read: {why}.")
