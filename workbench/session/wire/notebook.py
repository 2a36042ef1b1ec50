"""A snapshot inside a notebook: as JSON with base64, and back, with suspicion.

What a notebook holds is not trusted. Before it is used its types and sizes are checked
by the schema, and here what no schema says: that buffers are as long as their columns,
and that every index is one that the graph has.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NoReturn, cast

import numpy as np

from workbench.core.schema import DataError, clean_text, quote
from workbench.errors import SnapshotError
from workbench.session.wire.columns import Array, Snapshot, list_columns
from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.snapshot import (
    DetailData,
    Header,
    LessonData,
    MomentsData,
    Saved,
)
from workbench.session.wire.schema import read

#: From so many nodes on, a picture is saved without the values that rules read,
#: and its numbers keep seven digits, so that compressed notebooks stay small.
LARGE = 5_000
#: A picture of more nodes is not saved: it would make the notebook unbearable.
MOST_SAVED = 50_000


def save_snapshot(
    snapshot: Snapshot,
    model_id: str = "",
    moments: MomentsData | None = None,
    lesson: LessonData | None = None,
    details: list[DetailData] | None = None,
) -> Saved | None:
    """Return the saved form of a snapshot for a notebook; None for one too large.

    Parameters
    ----------
    snapshot
        What to save.
    model_id
        The live widget that it is the picture of.
    moments
        Some of its past runs.
    lesson
        Its sweeps with numbers, for a page.
    details
        What there is to say about each node, for a page.
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
    header = cast(Header, {**snapshot.header, "columns": list_columns(columns)})
    return Saved(
        schema=fields.SCHEMA,
        model_id=model_id,
        header=header,
        buffers=[
            base64.b64encode(buffer.tobytes()).decode("ascii")
            for buffer in Snapshot(header, columns).buffers
        ],
        moments=moments,
        lesson=lesson,
        details=details,
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
    >>> from workbench.session.wire import take_snapshot
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    >>> read_saved(save_snapshot(take_snapshot(session))).header["nodes"]
    3
    """
    check_schema(data)
    try:
        whole: Saved = read("Saved", data)
    except DataError as error:
        refuse(str(error))
    header = whole["header"]
    ids = [override["id"] for override in header["overrides"]]
    if len({*ids}) < len(ids):
        refuse("two of its overrides have one id")
    line = header["timeline"]
    if line is not None:
        lengths = {len(line[name]) for name in ("steps", "losses", "gradients")}
        if len(lengths) > 1:
            refuse("its timeline has not as many losses and gradients as steps")
    for branch in header.get("branches", []):
        steps = branch["steps"]
        places = [branch["step"] - 1, *steps, branch["count"] + 1]
        if len(branch["losses"]) != len(steps) or _is_unordered(places):
            refuse("a branch of its runs has not a loss for each step, in order")
    for loop in header.get("loops", []):
        marks = loop["marks"]
        if len(loop["norms"]) != len(marks) or max(marks, default=-1) >= loop["steps"]:
            refuse("along a loop it has not a norm for each of its steps that it marks")
    if any(outer >= k for k, (outer, _) in enumerate(header.get("around", []))):
        refuse("a loop in it stands in one that does not come before it")
    columns = read_columns(header["columns"], whole["buffers"])
    check_columns(columns, header)
    if whole["moments"] is not None:
        check_moments(whole["moments"], header)
    return Snapshot(header, columns)


def _is_unordered(steps: list[int]) -> bool:
    """Return whether a step is not after the one before it."""
    return any(a >= b for a, b in pairwise(steps))


def check_moments(moments: MomentsData, header: Header) -> None:
    """Raise an error unless the saved runs are as long as they say, one after another.

    Parameters
    ----------
    moments
        The runs.
    header
        The header of the picture, which counts its nodes, edges and runs.
    """
    steps = moments["steps"]
    if {len(moments["losses"]), len(moments["overrides"])} != {len(steps)}:
        refuse("its runs have not as many losses and overrides as steps")
    count = (header["timeline"] or {"count": 0})["count"]
    places = [0, *steps, count + 1]
    if _is_unordered(places):
        refuse(f"its runs are not one after another, from 1 to {count}")
    try:
        raw = base64.b64decode(moments["norms"], validate=True)
    except (binascii.Error, ValueError):
        refuse("the norms of its runs are not base64")
    size = 4 * len(steps) * (2 * header["nodes"] + header["edges"])
    if len(raw) != size:
        refuse(f"the norms of its runs have {len(raw)} bytes, not {size}")


def check_schema(data: object) -> None:
    """Raise an error if a newer workbench wrote a picture, before the rest is read."""
    whole = data if isinstance(data, dict) else {}
    header = whole.get("header")
    header = header if isinstance(header, dict) else {}
    for schema in (whole.get("schema"), header.get("schema", fields.SCHEMA)):
        if type(schema) is not int or schema < 1:
            refuse(f"its schema is {quote(schema)}")
        if schema > fields.SCHEMA:
            version = header.get("version")
            writer = version if isinstance(version, str) else "(unknown)"
            raise SnapshotError(
                f"this picture was written by workbench {clean_text(writer, 40)} with"
                f" schema {quote(schema)}; this one reads up to {fields.SCHEMA}: update"
                " autodiff-workbench, or run the cell again to draw it anew."
            )


def refuse(why: str) -> NoReturn:
    """Raise an error that saved data cannot be read, with the remedy."""
    raise SnapshotError(
        f"this saved picture cannot be read: {why}. Run the cell again to draw it anew."
    )


def read_columns(
    listed: Sequence[fields.Column], buffers: Sequence[str]
) -> dict[str, Array]:
    """Return the buffers as arrays, each of the type and length that was announced."""
    if len(buffers) != len(listed):
        refuse("it does not hold one buffer for each column")
    columns: dict[str, Array] = {}
    for i, (column, packed) in enumerate(zip(listed, buffers, strict=True)):
        name = column["name"]
        if name in columns or column["dtype"] != fields.COLUMNS[name]:
            refuse(f"columns[{i}] is {quote(column)}: twice or mistyped")
        wire = np.dtype(fields.COLUMNS[name]).newbyteorder("<")
        size = column["length"] * wire.itemsize
        # Before it is decoded: base64 makes four characters of three bytes.
        if len(packed) > 4 * (size // 3 + 1):
            refuse(f"the buffer of {name} is not its base64")
        try:
            raw = base64.b64decode(packed, validate=True)
        except (binascii.Error, ValueError):
            refuse(f"the buffer of {name} is not base64")
        if len(raw) != size:
            refuse(f"the buffer of {name} has {len(raw)} bytes, not {size}")
        columns[name] = np.frombuffer(raw, wire).astype(fields.COLUMNS[name])
    return columns


def check_columns(columns: Mapping[str, Array], header: Header) -> None:
    """Raise an error unless all columns are there, as long and in the range they must.

    Parameters
    ----------
    columns
        The columns by their names.
    header
        The header, which counts what they are about.
    """
    nodes, edges = header["nodes"], header["edges"]
    sizes = {
        "nodes": nodes,
        "edges": edges,
        "starts": nodes + 1,
        "statistics": nodes * len(fields.STATISTICS),
        "strings": len(header["strings"]),
        "overrides": len(header["overrides"]),
        "steps": len((header["profile"] or {"steps": []})["steps"]),
    }
    for name, rule in fields.COLUMN_RULES.items():
        if name not in columns:
            if rule.optional:
                continue
            refuse(f"the column {name} is missing")
        column = columns[name]
        if rule.length is not None and column.size != sizes[rule.length]:
            refuse(
                f"the column {name} has {column.size} entries, not {sizes[rule.length]}"
            )
        if rule.low is not None and rule.below is not None:
            end = sizes[rule.below] if isinstance(rule.below, str) else rule.below
            if bool(np.any((column < rule.low) | (column >= end))):
                refuse(f"{name} must be whole numbers from {rule.low} to {end - 1}")
    check_starts(columns["input_start"], edges, "input_start")
    check_starts(columns["saved_start"], columns["saved"].size, "saved_start")
    readers = np.repeat(np.arange(nodes), np.diff(columns["input_start"]))
    if bool(np.any((columns["inputs"] < 0) | (columns["inputs"] >= readers))):
        refuse("a node reads one that does not stand before it")


def check_starts(starts: Array, end: int, name: str) -> None:
    """Raise an error unless starts rise from 0 to the end of their list."""
    if (
        starts[0] != 0
        or starts[-1] != end
        or bool(
            np.any(starts[1:] < starts[:-1])  # a difference of two could wrap round
        )
    ):
        refuse(f"{name} does not rise from 0 to {end}")
