"""The program inside a node as a snapshot for the page, at one step of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.checks import statistics
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor
from workbench.session.inner_program import InnerProgram, measure_loops
from workbench.session.wire.columns import (
    Array,
    Snapshot,
    describe_structure,
    gradient_statistics,
    list_columns,
    take_blank_snapshot,
)
from workbench.session.wire.header import (
    encode_loops,
    encode_override,
    finite_number,
)
from workbench.session.wire.protocol.messages import InsideData, PlaceData
from workbench.session.wire.protocol.snapshot import OverrideData

if TYPE_CHECKING:
    from workbench.session import Session

#: For so many seconds the loops inside are measured, each time that it is shown.
LOOPS = 0.2


def read_path(path: Sequence[PlaceData]) -> list[tuple[int, int]]:
    """Return the nodes and steps that lead into a program."""
    return [(place["node"], place["step"]) for place in path]


def take_inside(
    session: Session, path: Sequence[PlaceData]
) -> tuple[Snapshot, InsideData]:
    """Return the program inside a node of a session, at a step of each loop.

    With what its message says besides.

    Raises
    ------
    UsageError
        If a node holds no program, has no such step, or draws random numbers in it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda w: wb.scan(lambda h: w * h, initial=[w], n_steps=9)[-1])
    >>> session = wb.Session(graph(0.5))
    >>> shown, extra = take_inside(session, [{"node": 1, "step": 3}])
    >>> extra["steps"], shown.header["nodes"]
    (9, 3)
    """
    with session.lock:
        inside = session.open_inside(read_path(path))
        overrides = session.overrides
        loops, _ = measure_loops(inside, LOOPS)
    forward = inside.forward
    nodes = forward.graph.nodes
    count = len(nodes)
    structure = describe_structure(forward.graph)
    snapshot = take_blank_snapshot(forward, structure, session.name)
    header, columns = snapshot.header, snapshot.columns
    backward = inside.backward
    if backward is not None:
        columns["grad_stats"] = gradient_statistics(backward, count)
        columns["edge_norm"] = backward.edge_norms
        columns["change"] = _measure_changes(inside)
        if inside.truth is not None:
            columns["true_stats"] = gradient_statistics(inside.truth, count)
    header["overrides"] = _encode_overrides(inside, overrides, columns)
    if not header["overrides"]:
        columns.pop("true_stats", None)
    header["columns"] = list_columns(columns)
    outputs = [x for x in forward.graph.outputs if isinstance(x, Tensor) and x.inputs]
    if outputs:
        header["output"] = forward.ids[outputs[0].serial]
        header["output_name"] = clean_text(outputs[0].name or outputs[0].op.name)
    if loops:
        header["loops"] = encode_loops(loops)
    marks, norms = inside.norms
    extra = InsideData(
        path=[PlaceData(node=n, step=t) for n, t in _list_places(path, inside)],
        step=inside.step,
        steps=inside.steps,
        marks=[*marks],
        norms=[finite_number(norm) for norm in norms],
    )
    return snapshot, extra


def _list_places(
    path: Sequence[PlaceData], inside: InnerProgram
) -> list[tuple[int, int]]:
    """Return the path with the step that is shown, counted from 0."""
    *around, (node, step) = read_path(path)
    return [*around, (node, step if inside.step is None else inside.step)]


def _measure_changes(inside: InnerProgram) -> Array:
    """Return the column `change`."""
    nodes, backward, truth = inside.forward.graph.nodes, inside.backward, inside.truth
    assert backward is not None
    column = np.full(len(nodes), np.nan)
    column[list(backward.cotangents)] = 0.0
    places, found, expected = [], [], []
    for i, g in backward.cotangents.items():
        true = g if truth is None else truth.cotangents.get(i)
        if g is true or isinstance(g, tuple):
            continue
        places.append(i)
        found.append(g)
        expected.append(np.zeros_like(g) if true is None else true)
    column[places] = statistics.relative_changes(found, expected)
    return column


def _encode_overrides(
    inside: InnerProgram,
    overrides: Sequence[Any],
    columns: dict[str, Array],
) -> list[OverrideData]:
    """Return the overrides in force inside, with the nodes where they hold."""
    column = np.full(len(inside.origins), -1, np.int32)
    encoded: list[OverrideData] = []
    by_rule: dict[int, list[int]] = {}
    for i, node in enumerate(inside.forward.graph.nodes):
        rule = inside.rules.get(node.serial)
        if rule is not None:
            by_rule.setdefault(_find_override(rule, overrides), []).append(i)
    for k, ids in sorted(by_rule.items()):
        if k < 0:
            continue
        column[ids] = len(encoded)
        data = encode_override(overrides[k], effects=False)
        if data["target"]["kind"] == "node":
            text = clean_text(overrides[k].target)
            data["target"] = {"kind": "other", "text": text}
        data["matched"], data["covered"] = ids, []
        encoded.append(data)
    columns["override"] = column
    return encoded


def _find_override(rule: Any, overrides: Sequence[Any]) -> int:
    """Return the position of the override that a rule is of; -1 for none."""
    owner = getattr(getattr(rule, "back", None), "owner", None)
    places = [k for k, one in enumerate(overrides) if one.override is owner]
    return places[0] if places else -1
