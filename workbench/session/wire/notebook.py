"""A snapshot inside a notebook: as JSON with base64, and back, with suspicion.

What a notebook holds is not trusted. Everything is looked at before it is used:
schema, types, lengths, and that every index is one that the graph has.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

import numpy as np

from workbench.errors import SnapshotError
from workbench.session.wire.columns import Array, Snapshot, announced
from workbench.session.wire.header import cut
from workbench.session.wire.protocol import (
    COLUMNS,
    KINDS,
    SCHEMA,
    STATISTICS,
    STATUSES,
    Header,
    Saved,
)
from workbench.session.wire.validate import (
    check_overrides,
    count,
    damaged,
    optional_float,
    read_added_fields,
    read_error,
    record,
    rising,
    text,
    texts,
    within,
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
    """What a notebook keeps of a snapshot; None for one too large to keep.

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
    """The snapshot that a notebook holds.

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
    """The buffers as arrays, each of the type and length that was announced."""
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
