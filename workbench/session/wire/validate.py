"""What a notebook holds is looked at before it is used: types, sizes, ranges."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from workbench.errors import SnapshotError
from workbench.session.wire.header import cut
from workbench.session.wire.protocol import (
    OUTCOMES,
    STATUSES,
    CheckData,
    EffectData,
    ErrorData,
    FindingData,
    FindingsData,
    FixData,
    GradientCheckData,
    HistoryData,
    NodeCheckData,
    Outcome,
    OverrideData,
    TargetData,
)

Array = np.ndarray[Any, Any]
#: The longest text that is read back.
MOST_CHARACTERS = 20_000
#: The longest lists.
MOST_OVERRIDES, MOST_LINES = 10_000, 10_000
#: The largest number; a whole number of JSON may be larger.
LARGEST = sys.float_info.max


def rising(starts: Array, end: int, name: str) -> None:
    """Whether starts rise from 0 to the end of their list."""
    if starts[0] != 0 or starts[-1] != end or bool(np.any(np.diff(starts) < 0)):
        damaged(f"{name} does not rise from 0 to {end}")


def within(values: Any, low: int, end: int, name: str) -> None:
    """Whether all are whole numbers from ``low`` to before ``end``."""
    if isinstance(values, list):
        bad = any(type(x) is not int or not low <= x < end for x in values)
    else:
        bad = bool(np.any((values < low) | (values >= end)))
    if bad:
        damaged(f"{name} must be whole numbers from {low} to {end - 1}")


def record(data: object, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(data, dict):
        damaged(f"{what} is not an object")
    return data


def count(data: dict[str, Any], name: str, most: int) -> int:
    """A number of things."""
    value = data.get(name)
    if type(value) is not int or not 0 <= value <= most:
        damaged(f"{name} is {cut(repr(value))}, not a number from 0 to {most}")
    return value


def damaged(why: str) -> NoReturn:
    """Say that saved data cannot be read, and what to do."""
    raise SnapshotError(
        f"this saved picture cannot be read: {why}. Run the cell again to draw it anew."
    )


def text(data: dict[str, Any], name: str, where: str) -> str:
    """A field that is text."""
    value = data.get(name)
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        damaged(f"{where} is {cut(repr(value), 200)}, not text of bearable length")
    return value


def one_of(data: dict[str, Any], name: str, known: Sequence[str], where: str) -> str:
    """A field that is one of a few words."""
    value = data.get(name)
    if not isinstance(value, str) or value not in known:
        damaged(f"{where} is {cut(repr(value), 200)}, not one of {', '.join(known)}")
    return value


def flag(data: dict[str, Any], name: str, where: str) -> bool:
    """A field that is true or false."""
    value = data.get(name)
    if not isinstance(value, bool):
        damaged(f"{where} is {cut(repr(value), 200)}, neither true nor false")
    return value


def optional_float(data: dict[str, Any], name: str, where: str) -> float | None:
    """A field that is a finite number, or null."""
    value = data.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        damaged(f"{where} is {cut(repr(value), 200)}, not a finite number")
    return float(value)


def items(value: object, most: int, where: str) -> list[Any]:
    """A list that is not too long."""
    if not isinstance(value, list) or len(value) > most:
        damaged(f"{where} is not a list of bearable length")
    return value


def texts(value: object, most: int, where: str) -> list[str]:
    """A list of texts."""
    found = items(value, most, where)
    if not all(isinstance(x, str) for x in found):
        damaged(f"{where} holds what is not text")
    return found


# Overrides, checks, findings and history. Only what is known is taken over; what the
# first schema lacks is absent: nothing is covered, checked, found or done.


def read_added_fields(header: dict[str, Any], nodes: int) -> dict[str, Any]:
    """The fields that schema 2 has added, those of an older picture empty."""
    history = record(header.get("history") or {}, "history")
    check, findings = header.get("check"), header.get("findings")
    return {
        "history": HistoryData(
            done=texts(history.get("done", []), MOST_LINES, "history.done"),
            undone=texts(history.get("undone", []), MOST_LINES, "history.undone"),
        ),
        "check": None if check is None else _check(record(check, "check"), nodes),
        "findings": None
        if findings is None
        else _findings(record(findings, "findings"), nodes),
    }


def check_overrides(value: object, nodes: int) -> list[OverrideData]:
    """The overrides that a header lists."""
    if not isinstance(value, list):
        damaged("overrides is not a list")
    return [
        _override(record(item, f"overrides[{i}]"), f"overrides[{i}]", nodes)
        for i, item in enumerate(items(value, MOST_OVERRIDES, "overrides"))
    ]


def _override(data: dict[str, Any], where: str, nodes: int) -> OverrideData:
    known = data.get("data", False)
    data = {"covered": [], "note": "", "stored": known, "data": False, **data}
    if type(data.get("id")) is not int:
        damaged(f"{where}.id is {cut(repr(data.get('id')), 200)}")
    for name in ("matched", "covered"):
        if not isinstance(data.get(name), list):
            damaged(f"{where}.{name} is not a list")
        within(data[name], 0, nodes, f"{where}.{name}")
    effects = items(data.get("effects"), nodes, f"{where}.effects")
    return OverrideData(
        id=data["id"],
        label=text(data, "label", f"{where}.label"),
        rule=text(data, "rule", f"{where}.rule"),
        data=flag(data, "data", f"{where}.data"),
        stored=flag(data, "stored", f"{where}.stored"),
        target=_target(record(data.get("target"), f"{where}.target"), where, nodes),
        enabled=flag(data, "enabled", f"{where}.enabled"),
        matched=data["matched"],
        covered=data["covered"],
        note=text(data, "note", f"{where}.note"),
        effects=[
            _effect(
                record(item, f"{where}.effects[{i}]"), f"{where}.effects[{i}]", nodes
            )
            for i, item in enumerate(effects)
        ],
        code=text(data, "code", f"{where}.code"),
    )


def _target(data: dict[str, Any], where: str, nodes: int) -> TargetData:
    kind = one_of(
        data, "kind", ("node", "op", "scope", "other"), f"{where}.target.kind"
    )
    if kind == "node":
        within([data.get("node")], 0, nodes, f"{where}.target.node")
        return {"kind": "node", "node": data["node"]}
    field = "text" if kind == "other" else kind
    words = text(data, field, f"{where}.target.{field}")
    return {"kind": kind, field: words}  # type: ignore[misc]


def _effect(data: dict[str, Any], where: str, nodes: int) -> EffectData:
    within([data.get("node")], 0, nodes, f"{where}.node")
    return EffectData(
        node=data["node"],
        name=text(data, "name", f"{where}.name"),
        relative=optional_float(data, "relative", f"{where}.relative"),
        angle=optional_float(data, "angle", f"{where}.angle"),
    )


def read_error(value: object, nodes: int) -> ErrorData | None:
    """Where a cell failed half-way."""
    if value is None:
        return None
    data = record(value, "error")
    if data.get("node") is not None:
        within([data["node"]], 0, nodes, "error.node")
    return ErrorData(node=data.get("node"), message=text(data, "message", "error"))


def _outcome(data: dict[str, Any], ok: bool, where: str) -> Outcome:
    """The verdict; older pictures say only whether something is wrong."""
    if "verdict" not in data:
        return "right" if ok else "wrong"
    return one_of(data, "verdict", OUTCOMES, f"{where}.verdict")  # type: ignore[return-value]


def _check(data: dict[str, Any], nodes: int) -> CheckData:
    counts = record(data.get("counts"), "check.counts")
    ok = flag(data, "ok", "check.ok")
    return CheckData(
        ok=ok,
        verdict=_outcome(data, ok, "check"),
        changes=text({"changes": "", **data}, "changes", "check.changes"),
        stopped=flag(data, "stopped", "check.stopped"),
        stale=flag(data, "stale", "check.stale"),
        summary=text(data, "summary", "check.summary"),
        counts={
            name: count(counts, name, nodes) if name in counts else 0
            for name in STATUSES
        },
        nodes=[
            _node(record(item, f"check.nodes[{i}]"), f"check.nodes[{i}]", nodes)
            for i, item in enumerate(
                items(data.get("nodes"), MOST_LINES, "check.nodes")
            )
        ],
        gradients=[
            _gradient(record(item, f"check.gradients[{i}]"), f"check.gradients[{i}]")
            for i, item in enumerate(
                items(data.get("gradients"), MOST_LINES, "check.gradients")
            )
        ],
    )


def _records(
    data: dict[str, Any], name: str, where: str
) -> list[tuple[dict[str, Any], str]]:
    """The objects of a list, each with its place."""
    return [
        (record(item, f"{where}[{i}]"), f"{where}[{i}]")
        for i, item in enumerate(items(data.get(name), MOST_LINES, where))
    ]


def _node(data: dict[str, Any], where: str, nodes: int) -> NodeCheckData:
    within([data.get("node")], 0, nodes, f"{where}.node")
    return NodeCheckData(
        node=data["node"],
        status=one_of(data, "status", STATUSES, f"{where}.status"),
        mode=text(data, "mode", f"{where}.mode"),
        place=text(data, "place", f"{where}.place"),
        expected=optional_float(data, "expected", f"{where}.expected"),
        got=optional_float(data, "got", f"{where}.got"),
        ratio=optional_float(data, "ratio", f"{where}.ratio"),
        text=text(data, "text", f"{where}.text"),
    )


def _gradient(data: dict[str, Any], where: str) -> GradientCheckData:
    ok = flag(data, "ok", f"{where}.ok")
    return GradientCheckData(
        name=text(data, "name", f"{where}.name"),
        mode=text(data, "mode", f"{where}.mode"),
        ok=ok,
        verdict=_outcome(data, ok, where),
        change=optional_float({"change": None, **data}, "change", f"{where}.change"),
        by=texts(data.get("by", []), MOST_LINES, f"{where}.by"),
        text=text(data, "text", f"{where}.text"),
    )


def _findings(data: dict[str, Any], nodes: int) -> FindingsData:
    return FindingsData(
        stale=flag(data, "stale", "findings.stale"),
        stopped=flag(data, "stopped", "findings.stopped"),
        list=[
            _finding(item, where, nodes)
            for item, where in _records(data, "list", "findings.list")
        ],
    )


def _finding(data: dict[str, Any], where: str, nodes: int) -> FindingData:
    within([data.get("node")], 0, nodes, f"{where}.node")
    path = items(data.get("path"), nodes, f"{where}.path")
    within(path, 0, nodes, f"{where}.path")
    fix = data.get("fix")
    severity = one_of(data, "severity", ("error", "warning", "note"), where)
    sweep = one_of(data, "sweep", ("forward", "backward"), f"{where}.sweep")
    return FindingData(
        kind=text(data, "kind", f"{where}.kind"),
        severity=severity,  # type: ignore[typeddict-item]
        node=data["node"],
        path=path,
        sweep=sweep,  # type: ignore[typeddict-item]
        title=text(data, "title", f"{where}.title"),
        evidence=text(data, "evidence", f"{where}.evidence"),
        cause=text(data, "cause", f"{where}.cause"),
        fix=None if fix is None else _fix(record(fix, f"{where}.fix"), f"{where}.fix"),
    )


def _fix(data: dict[str, Any], where: str) -> FixData:
    return FixData(
        text=text(data, "text", f"{where}.text"),
        code=text(data, "code", f"{where}.code"),
        attachable=flag(data, "attachable", f"{where}.attachable"),
    )
