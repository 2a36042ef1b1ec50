"""A snapshot inside a notebook: as JSON with base64, and back, with suspicion.

What a notebook holds is not trusted. Everything is looked at before it is used:
schema, types, lengths, and that every index is one that the graph has.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import numpy as np

from workbench.errors import SnapshotError
from workbench.session.wire.columns import Array, Snapshot, announced
from workbench.session.wire.header import cut
from workbench.session.wire.protocol import (
    COLUMNS,
    KINDS,
    OUTCOMES,
    SCHEMA,
    STATISTICS,
    STATUSES,
    CheckData,
    EffectData,
    ErrorData,
    FindingData,
    FindingsData,
    FixData,
    GradientCheckData,
    Header,
    HistoryData,
    NodeCheckData,
    Outcome,
    OverrideData,
    Saved,
    TargetData,
)

# What a notebook holds is looked at before it is used: types, sizes, ranges.

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
    """Return a JSON object."""
    if not isinstance(data, dict):
        damaged(f"{what} is not an object")
    return data


def count(data: dict[str, Any], name: str, most: int) -> int:
    """Return a number of things."""
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
    """Return a field that is text."""
    value = data.get(name)
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        damaged(f"{where} is {cut(repr(value), 200)}, not text of bearable length")
    return value


def one_of(data: dict[str, Any], name: str, known: Sequence[str], where: str) -> str:
    """Return a field that is one of a few words."""
    value = data.get(name)
    if not isinstance(value, str) or value not in known:
        damaged(f"{where} is {cut(repr(value), 200)}, not one of {', '.join(known)}")
    return value


def flag(data: dict[str, Any], name: str, where: str) -> bool:
    """Return a field that is true or false."""
    value = data.get(name)
    if not isinstance(value, bool):
        damaged(f"{where} is {cut(repr(value), 200)}, neither true nor false")
    return value


def optional_float(data: dict[str, Any], name: str, where: str) -> float | None:
    """Return a field that is a finite number, or null."""
    value = data.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        damaged(f"{where} is {cut(repr(value), 200)}, not a finite number")
    return float(value)


def items(value: object, most: int, where: str) -> list[Any]:
    """Return a list that is not too long."""
    if not isinstance(value, list) or len(value) > most:
        damaged(f"{where} is not a list of bearable length")
    return value


def texts(value: object, most: int, where: str) -> list[str]:
    """Return a list of texts."""
    found = items(value, most, where)
    if not all(isinstance(x, str) for x in found):
        damaged(f"{where} holds what is not text")
    return found


# Overrides, checks, findings and history. Only what is known is taken over; what the
# first schema lacks is absent: nothing is covered, checked, found or done.


def read_added_fields(header: dict[str, Any], nodes: int) -> dict[str, Any]:
    """Return the fields that schema 2 has added, those of an older picture empty."""
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
    """Return the overrides that a header lists."""
    if not isinstance(value, list):
        damaged("overrides is not a list")
    return [
        _override(record(item, f"overrides[{i}]"), f"overrides[{i}]", nodes)
        for i, item in enumerate(items(value, MOST_OVERRIDES, "overrides"))
    ]


def _override(data: dict[str, Any], where: str, nodes: int) -> OverrideData:
    known = data.get("data", False)
    absent = {"covered": [], "note": "", "stored": known, "data": False, "steps": ""}
    data = {**absent, **data}
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
        steps=text(data, "steps", f"{where}.steps"),
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
    """Return where a cell failed half-way."""
    if value is None:
        return None
    data = record(value, "error")
    if data.get("node") is not None:
        within([data["node"]], 0, nodes, "error.node")
    return ErrorData(node=data.get("node"), message=text(data, "message", "error"))


def _outcome(data: dict[str, Any], ok: bool, where: str) -> Outcome:
    """Return the verdict; older pictures say only whether something is wrong."""
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
    """Return the objects of a list, each with its place."""
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


#: From so many nodes on, a picture is saved without the values that rules read,
#: and its numbers keep seven digits, so that compressed notebooks stay small.
LARGE = 5_000
#: A picture of more nodes is not saved: it would make the notebook unbearable.
MOST_SAVED = 50_000
#: The largest things that are read back.
MOST_NODES, MOST_EDGES, MOST_STRINGS = 1_000_000, 4_000_000, 1_000_000

_NAMED = ("op", "name", "dtype", "shape", "scope", "place", "source")
#: Absent without an override, and before the first check.
_OPTIONAL = ("true_stats", "check", "check_ratio")
_TEXTS = ("version", "session", "output_name", "backend")


def saved(snapshot: Snapshot, model_id: str = "") -> Saved | None:
    """Return what a notebook keeps of a snapshot; None for one too large to keep.

    Parameters
    ----------
    snapshot
        What to save.
    model_id
        The live widget that it is the picture of.
    """
    nodes = snapshot.header["nodes"]
    if nodes > MOST_SAVED:
        return None
    columns = dict(snapshot.columns)
    if nodes > LARGE:
        columns["saved"] = np.zeros(0, np.int32)
        columns["saved_start"] = np.zeros(nodes + 1, np.int32)
        for name, column in columns.items():
            if column.dtype.kind == "f":
                with np.errstate(over="ignore"):
                    columns[name] = column.astype(np.float32).astype(np.float64)
    header = cast(Header, {**snapshot.header, "columns": announced(columns)})
    return Saved(
        schema=SCHEMA,
        model_id=model_id,
        header=header,
        buffers=[
            base64.b64encode(buffer.tobytes()).decode("ascii")
            for buffer in Snapshot(header, columns).buffers
        ],
    )


def read_saved(data: object) -> Snapshot:
    """Return the snapshot that a notebook holds.

    Raises
    ------
    SnapshotError
        If a newer workbench wrote it, or it is damaged; with the place.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.session.wire import take
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    >>> read_saved(saved(take(session))).header["nodes"]
    3
    """
    whole = record(data, "the saved picture")
    inner = record(whole.get("header"), "its header")
    check_schema(whole.get("schema"), inner.get("version"))
    check_schema(inner.get("schema"), inner.get("version"))
    nodes = count(inner, "nodes", MOST_NODES)
    edges = count(inner, "edges", MOST_EDGES)
    for name in _TEXTS:
        text(inner, name, name)
    strings = texts(inner.get("strings"), MOST_STRINGS, "strings")
    for name in ("wrt", "columns"):
        if not isinstance(inner.get(name), list):
            damaged(f"{name} is not a list")
    within(inner["wrt"], 0, nodes, "wrt")
    within([inner.get("output")], -1, nodes, "output")
    told: dict[str, Any] = {"error": read_error(inner.get("error"), nodes)}
    for name in ("undo", "redo"):
        told[name] = None if inner.get(name) is None else text(inner, name, name)
    for name in ("output_value", "seconds"):
        told[name] = optional_float(inner, name, name)
    told["overrides"] = check_overrides(inner.get("overrides"), nodes)
    # Only what is known is taken over.
    known = {name: inner.get(name) for name in Header.__annotations__}
    inner = {**known, **told, **read_added_fields(inner, nodes)}
    columns = read_columns(inner["columns"], whole.get("buffers"))
    check_columns(columns, nodes, edges, len(strings), len(inner["overrides"]))
    return Snapshot(cast(Header, inner), columns)


def check_schema(schema: object, version: object) -> None:
    """Refuse what a newer workbench wrote."""
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        damaged(f"its schema is {cut(repr(schema))}")
    if schema > SCHEMA:
        writer = version[:40] if isinstance(version, str) else "(unknown)"
        raise SnapshotError(
            f"this picture was written by workbench {writer} with schema {schema}; this"
            f" one reads up to {SCHEMA}: update autodiff-workbench, or run the cell"
            " again to draw it anew."
        )


def read_columns(listed: list[object], buffers: object) -> dict[str, Array]:
    """Return the buffers as arrays, each of the type and length that was announced."""
    if not isinstance(buffers, list) or len(buffers) != len(listed):
        damaged("it does not hold one buffer for each column")
    columns: dict[str, Array] = {}
    for i, (item, packed) in enumerate(zip(listed, buffers, strict=True)):
        column = record(item, f"columns[{i}]")
        name = column.get("name")
        dtype = COLUMNS.get(name) if isinstance(name, str) else None
        if dtype is None or name in columns or column.get("dtype") != dtype:
            damaged(f"columns[{i}] is {cut(repr(item))}: unknown, twice or mistyped")
        length = count(column, "length", MOST_EDGES * len(STATISTICS))
        wire = np.dtype(dtype).newbyteorder("<")
        size = length * wire.itemsize
        # Looked at before it is decoded: base64 makes four characters of three bytes.
        if not isinstance(packed, str) or len(packed) > 4 * (size // 3 + 1):
            damaged(f"the buffer of {name} is not its base64")
        try:
            raw = base64.b64decode(packed, validate=True)
        except (binascii.Error, ValueError):
            damaged(f"the buffer of {name} is not base64")
        if len(raw) != size:
            damaged(f"the buffer of {name} has {len(raw)} bytes, not {size}")
        columns[str(name)] = np.frombuffer(raw, wire).astype(dtype)
    return columns


def check_columns(
    columns: dict[str, Array], nodes: int, edges: int, strings: int, overrides: int
) -> None:
    """All columns there, of the right length, every index inside its range."""
    per_node, statistics = nodes, nodes * len(STATISTICS)
    lengths = dict.fromkeys(COLUMNS, per_node) | {
        "input_start": nodes + 1,
        "saved_start": nodes + 1,
        "inputs": edges,
        "edge_norm": edges,
        "value_stats": statistics,
        "grad_stats": statistics,
        "true_stats": statistics,
    }
    for name in COLUMNS:
        if name not in columns:
            if name in _OPTIONAL:
                continue
            damaged(f"the column {name} is missing")
        if name != "saved" and columns[name].size != lengths[name]:
            damaged(
                f"the column {name} has {columns[name].size} entries, not"
                f" {lengths[name]}"
            )
    for name in _NAMED:
        within(columns[name], -1, strings, name)
    within(columns["kind"], 0, len(KINDS), "kind")
    within(columns["override"], -1, overrides, "override")
    if "check" in columns:
        within(columns["check"], 0, len(STATUSES), "check")
    within(columns["saved"], 0, nodes, "saved")
    rising(columns["input_start"], edges, "input_start")
    rising(columns["saved_start"], columns["saved"].size, "saved_start")
    readers = np.repeat(np.arange(nodes), np.diff(columns["input_start"]))
    if bool(np.any((columns["inputs"] < 0) | (columns["inputs"] >= readers))):
        damaged("a node reads one that does not stand before it")
