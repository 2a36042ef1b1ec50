"""Overrides, checks, findings and history of a saved picture, read with suspicion.

Only what is known is taken over. What the first schema lacks is absent: nothing is
covered, checked, found or done.
"""

from __future__ import annotations

from typing import Any

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
from workbench.session.wire.validate import (
    count,
    damaged,
    flag,
    items,
    one_of,
    record,
    said,
    text,
    texts,
    within,
)

__all__ = ["check_overrides", "failed", "found"]

MOST_OVERRIDES = 10_000
MOST_LINES = 10_000


def found(header: dict[str, Any], nodes: int) -> dict[str, Any]:
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
        relative=said(data, "relative", f"{where}.relative"),
        angle=said(data, "angle", f"{where}.angle"),
    )


def failed(value: object, nodes: int) -> ErrorData | None:
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
        expected=said(data, "expected", f"{where}.expected"),
        got=said(data, "got", f"{where}.got"),
        ratio=said(data, "ratio", f"{where}.ratio"),
        text=text(data, "text", f"{where}.text"),
    )


def _gradient(data: dict[str, Any], where: str) -> GradientCheckData:
    ok = flag(data, "ok", f"{where}.ok")
    return GradientCheckData(
        name=text(data, "name", f"{where}.name"),
        mode=text(data, "mode", f"{where}.mode"),
        ok=ok,
        verdict=_outcome(data, ok, where),
        change=said({"change": None, **data}, "change", f"{where}.change"),
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
