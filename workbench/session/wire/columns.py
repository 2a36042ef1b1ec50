"""A session as a header and flat buffers; the changes between two of them.

Ids are positions in the traced program, so columns of one session can be
compared from change to change. What belongs to a stage (statistics of values, of
gradients) is computed once for that stage: an override costs the statistics of
the new gradients and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from workbench.checks import statistics
from workbench.checks.statistics import is_on_device
from workbench.core import hooks, sites, walk
from workbench.core.blame import format_count
from workbench.core.graph import Graph
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor
from workbench.core.types import format_shape
from workbench.core.walk import is_leaf
from workbench.ops.define import shape_of
from workbench.overrides.resolution import Resolution
from workbench.session.applied_override import AppliedOverride
from workbench.session.inner_program import has_loops, is_holder, measure_loops
from workbench.session.nodes import Nodes
from workbench.session.profile import describe_backend, find_device
from workbench.session.repeats import find_unrolled
from workbench.session.stages import Backward, Values
from workbench.session.wire.header import (
    encode_findings,
    encode_history,
    encode_last_check,
    encode_last_profile,
    encode_loops,
    encode_overrides,
    finite_number,
)
from workbench.session.wire.protocol.fields import (
    COLUMNS,
    KINDS,
    MOST_PARTS,
    SCHEMA,
    STATISTICS,
    Column,
    PatchColumn,
)
from workbench.session.wire.protocol.snapshot import Header
from workbench.session.wire.timeline import (
    encode_branches,
    encode_stops,
    encode_timeline,
    find_new_points,
)

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]
INPUT, CONSTANT, OP = range(len(KINDS))
#: For so many seconds the gradients along loops are measured for one picture, of
#: programs that take no longer than so many.
LOOPS, QUICK = 1.0, 0.2
#: Columns of fewer entries are sent whole, and so are gaps of so many between parts.
LONG, GAP = 2000, 64
#: Columns that tell the same of two sweeps, which agree wherever no override reaches.
TWINS = {"true_stats": "grad_stats", "true_edge_norm": "edge_norm"}
TWINS |= {other: name for name, other in TWINS.items()}


@dataclass(frozen=True)
class Snapshot:
    """A session at one moment: a JSON header, and the columns named in the header.

    ``unmeasured`` are the overrides whose effects have been left out, by number;
    ``loops_left`` the loops whose gradients have been, by the id of their node.
    """

    header: Header
    columns: dict[str, Array]
    unmeasured: tuple[int, ...] = ()
    loops_left: tuple[int, ...] = ()

    @property
    def buffers(self) -> list[Array]:
        """The columns in the header's order, little-endian and contiguous."""
        return [pack_column(c["name"], self.columns) for c in self.header["columns"]]


Extra = TypeVar("Extra")


class Picture(NamedTuple, Generic[Extra]):
    """A graph in the form that travels: whole, or the changes of another one.

    Attributes
    ----------
    of
        The number of the message whose picture it changes, 0 for the one that the page
        shows; None for a whole one.
    header, columns, buffers
        The fields of the header, its columns and their bytes: all, or what changed.
    extra
        What its message says besides.
    """

    of: int | None
    header: dict[str, Any]
    columns: list[PatchColumn]
    buffers: list[Array]
    extra: Extra

    @property
    def message(self) -> dict[str, Any]:
        """The fields of the message with the picture, beside its buffers."""
        told = {"of": self.of, "header": self.header, "columns": self.columns}
        return {**told, **cast(dict[str, Any], self.extra)}


def encode_picture(
    header: Mapping[str, Any],
    columns: Mapping[str, Array],
    extra: Extra,
    of: int | None = None,
) -> Picture[Extra]:
    """Return a picture: a whole one, or changes of the picture with number ``of``."""
    listed = cast(list[PatchColumn], list_columns(columns))
    fields = {key: value for key, value in header.items() if key != "columns"}
    buffers = [pack_column(one["name"], columns) for one in listed]
    return Picture(of, fields, listed, buffers, extra)


def pack_column(name: str, columns: Mapping[str, Array]) -> Array:
    """Return a column in the form sent to the page: contiguous, little-endian."""
    wire = np.dtype(COLUMNS[name]).newbyteorder("<")
    return np.ascontiguousarray(columns[name], wire)


def list_columns(columns: Mapping[str, Array]) -> list[Column]:
    """Return the list of columns, in the order of the protocol."""
    return [
        Column(name=name, dtype=dtype, length=int(columns[name].size))
        for name, dtype in COLUMNS.items()
        if name in columns
    ]


def take_snapshot(
    session: Session, seconds: float = inf, least: int = 1, loops: float = LOOPS
) -> Snapshot:
    """Return the snapshot of a session's present state.

    The effects of overrides are measured for so many ``seconds``, but at ``least`` so
    many of them; the others are left out, and known the next time. The gradients along
    loops are measured for as many seconds as ``loops`` says, unless a run takes long.

    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    >>> shown = take_snapshot(session)
    >>> shown.header["output_value"], shown.columns["kind"]
    (2.0, array([0, 2, 2], dtype=uint8))
    """
    with session.lock:  # a run in another thread changes all stages at once
        forward, backward, truth = session.forward, session.backward, session.truth
        structure = find_structure(session.nodes, session.graph)
        snapshot = take_blank_snapshot(forward, structure, session.name)
        header, columns = snapshot.header, snapshot.columns
        count, overrides = header["nodes"], session.overrides
        if backward is not None and truth is not None:
            columns["grad_stats"] = gradient_statistics(backward, count, truth)
            columns["edge_norm"] = backward.edge_norms
            columns["change"] = relative_changes(session, backward, truth, count)
            if overrides:
                columns["true_stats"] = gradient_statistics(truth, count)
                columns["true_edge_norm"] = truth.edge_norms
        device = find_device(session._state)
        header["backend"] = describe_backend(session._state, device)
        header["seconds"] = session.seconds
        if device is not None:
            header["device"] = clean_text(device, 200)
        columns["override"] = override_column(
            session.resolution, forward, overrides, count
        )
        check = encode_last_check(session)
        if check is not None:
            columns["check"], columns["check_ratio"] = check.status, check.ratio
        profile = encode_last_profile(session)
        if profile is not None:
            columns |= profile.columns
        output = session.graph.nodes[session.output]
        header["output"] = session.output
        header["output_name"] = output.name or output.op.name
        # Of all rows, where a cluster computes it; the nodes are those of a few.
        header["output_value"] = finite_number(session.value)
        header["wrt"] = list(session.wrt)
        header["columns"] = list_columns(columns)
        sweep = 0.0 if truth is None else truth.seconds
        header["overrides"], unmeasured = encode_overrides(
            overrides, seconds, sweep, least
        )
        header["undo"], header["redo"] = session.history.undo, session.history.redo
        header["history"] = encode_history(session.history)
        header["check"] = None if check is None else check.data
        header["findings"] = encode_findings(session)
        header["profile"] = None if profile is None else profile.data
        header["timeline"] = encode_timeline(session)
        header["branches"] = encode_branches(session)
        header["stops"] = encode_stops(session)
        left: list[int] = []
        if has_loops(session._state):
            is_quick = session.seconds <= QUICK
            known, left = measure_loops(session._state, loops if is_quick else 0.0)
            header["loops"] = encode_loops(known)
            left = left if is_quick else []
        return replace(snapshot, unmeasured=tuple(unmeasured), loops_left=tuple(left))


def take_failed_snapshot(
    graph: Graph, name: str, message: str, node: Tensor | None = None
) -> Snapshot:
    """Return the snapshot of a cell that failed half-way: the program so far.

    Parameters
    ----------
    graph
        What was traced before the failure.
    name
        What the session would have been called.
    message
        Why it failed.
    node
        Where, if that is known. Without a value it has no shape and dtype either.
    """
    forward, structure = Values(graph), describe_structure(graph)
    at = None if node is None else forward.ids.get(node.serial)
    if at is not None and graph.nodes[at]._value is None:
        structure.columns["shape"][at] = structure.columns["dtype"][at] = -1
    shown = take_blank_snapshot(forward, structure, name)
    shown.header["error"] = {"node": at, "message": clean_text(message)}
    return shown


def take_blank_snapshot(
    forward: Values, structure: Structure, name: str, *, values: bool = True
) -> Snapshot:
    """Return a snapshot of values without gradients, or of nodes without values."""
    count, edges = len(forward.graph.nodes), forward.starts[-1]
    columns = dict(structure.columns)
    columns["value_stats"] = (
        value_statistics(forward)
        if values
        else np.full(count * len(STATISTICS), np.nan)
    )
    columns["grad_stats"] = np.full(count * len(STATISTICS), np.nan)
    columns["edge_norm"] = np.full(edges, np.nan)
    columns["change"] = np.full(count, np.nan)
    columns["override"] = np.full(count, -1, np.int32)
    header = Header(
        schema=SCHEMA,
        version=find_version(),
        session=name,
        nodes=count,
        edges=edges,
        output=-1,
        output_name="",
        output_value=None,
        wrt=[],
        holders=list_holders(forward.graph),
        strings=structure.strings,
        columns=list_columns(columns),
        overrides=[],
        undo=None,
        redo=None,
        history={"done": [], "undone": []},
        check=None,
        findings=None,
        profile=None,
        timeline=None,
        branches=[],
        stops=[],
        backend="numpy",
        seconds=forward.seconds,
        error=None,
    )
    if structure.around:
        header["around"] = structure.around
    return Snapshot(header, columns)


def list_holders(graph: Graph) -> list[int]:
    """Return the ids of the nodes that hold programs, which can be looked into."""
    return [i for i, node in enumerate(graph.nodes) if is_holder(node)]


def find_changes(
    old: Snapshot, new: Snapshot, of: int = 0
) -> Picture[dict[str, Any]] | None:
    """Return the picture that turns ``old`` into ``new``; None without changes.

    Of a long column that has changed in a few places it holds these alone.
    """
    fields = {
        key: value
        for key, value in new.header.items()
        if key != "columns" and value != old.header.get(key)
    }
    if fields.get("timeline") is not None:
        fields["timeline"] = find_new_points(
            old.header["timeline"], new.header["timeline"]
        )
    names = [
        name
        for name in COLUMNS
        if name in new.columns
        and not (
            name in old.columns
            and (
                old.columns[name] is new.columns[name]
                or equal_columns(old.columns[name], new.columns[name])
            )
        )
    ]
    if not names and not set(fields) - {"seconds"}:
        return None
    listed: list[PatchColumn] = []
    buffers: list[Array] = []
    for name in names:
        column = new.columns[name]
        found = find_parts(name, old.columns, column)
        base, spans = found if found is not None else (None, [])
        if base is not None:
            column = np.concatenate([column[:0], *(column[a:b] for a, b in spans)])
        (entry,) = list_columns({name: column})
        more: dict[str, Any] = {} if base is None else {"base": base, "parts": spans}
        listed.append(cast(PatchColumn, {**entry, **more}))
        buffers.append(pack_column(name, {name: column}))
    return Picture(of, fields, listed, buffers, {})


def find_parts(
    name: str, old: Mapping[str, Array], column: Array
) -> tuple[str, list[list[int]]] | None:
    """Return the old column most like a new one, and the spans that differ.

    None where the column is best sent whole: if it is short, or differs in many places.
    """
    if column.size < LONG:
        return None
    best: tuple[str, Array] | None = None
    for base in (name, TWINS.get(name)):
        before = None if base is None else old.get(base)
        if base is None or before is None or before.size != column.size:
            continue
        differs = before != column
        if column.dtype.kind == "f":
            differs &= ~(np.isnan(before) & np.isnan(column))
        places = np.flatnonzero(differs)
        if best is None or places.size < best[1].size:
            best = base, places
    if best is None:
        return None
    base, places = best
    if not places.size:
        return base, []
    ends = np.flatnonzero(np.diff(places) > GAP)
    starts = places[[0, *(ends + 1)]]
    stops = places[[*ends, -1]] + 1
    if len(starts) > MOST_PARTS or (stops - starts).sum() > column.size // 2:
        return None
    return base, np.stack([starts, stops], axis=1).tolist()


def equal_columns(a: Array, b: Array) -> bool:
    """Return True if two columns are equal, NaN to NaN."""
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


# What does not change from run to run


class Structure(NamedTuple):
    """The columns that describe the nodes and their connections.

    ``around`` tells for each loop the one around it, and the iteration there; it is
    empty if no loop is in another.
    """

    columns: dict[str, Array]
    strings: list[str]
    around: list[list[int]]


def find_structure(nodes: Nodes, graph: Graph) -> Structure:
    """Return the structure of a session's program, computed once."""
    if nodes.structure is None:
        nodes.structure = describe_structure(graph)
    found: Structure = nodes.structure
    return found


class Strings:
    """A table of strings without repetition."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        #: The position of each text as it was given.
        self.known: dict[str | None, int] = {None: -1, "": -1}

    def __call__(self, text: str | None) -> int:
        """Return the position of a text, added if it is new; -1 for none."""
        found = self.known.get(text)
        if found is None:
            assert text is not None
            clean = clean_text(text)
            found = self.positions.setdefault(clean, len(self.positions))
            self.known[text] = found
        return found


def describe_structure(
    graph: Graph,
    find_name: Callable[[Tensor], str | None] = lambda node: node.name,
) -> Structure:
    """Return the structure of a program: its nodes, their edges and their places.

    A node of a derivative stands where the node stands that it belongs to.
    """
    forward = Values(graph)
    string = Strings()
    inputs = {x.serial for x in graph.inputs}
    rows: dict[str, list[int]] = {
        name: [] for name in "kind op name dtype shape scope place source line".split()
    }
    places: dict[tuple[Any, int], tuple[int, int, int]] = {}
    types: dict[Any, tuple[int, int]] = {}
    edges, saved_starts, saved = [], [0], []
    add = [rows[name].append for name in rows]
    ids = forward.ids
    for i, node in enumerate(graph.nodes):
        leaf = is_leaf(node)
        kind = OP if not leaf else INPUT if node.serial in inputs else CONSTANT
        kind_of_value = find_type(node)
        if kind_of_value not in types:
            dtype, shape = format_type(*kind_of_value)
            types[kind_of_value] = string(dtype), string(shape)
        op = -1 if leaf else string(node.op.name)
        name = string(name_constant(node) if kind == CONSTANT else find_name(node))
        scope = string(node.scope)
        maker = node
        while (origin := maker.origin) is not None:
            maker = origin.forward
        place = (-1, -1, -1) if leaf else find_site(maker, places, string)
        row = (kind, op, name, *types[kind_of_value], scope, *place)
        for append, entry in zip(add, row, strict=True):
            append(entry)
        read = node.inputs
        edges += [ids[read[k].serial] for k in forward.slots[i]]
        if not leaf:
            saved += list_read_nodes(node, i, forward)
        saved_starts.append(len(saved))
    columns: dict[str, Array] = {
        name: np.array(row, COLUMNS[name]) for name, row in rows.items()
    }
    columns["input_start"] = np.array(forward.starts, np.int32)
    columns["inputs"] = np.array(edges, np.int32)
    columns["saved_start"] = np.array(saved_starts, np.int32)
    columns["saved"] = np.array(saved, np.int32)
    unrolled = find_unrolled(graph.nodes)
    if unrolled.members:
        columns["loop"], columns["iteration"] = unrolled.loop, unrolled.step
    is_nested = any(outer >= 0 for outer, _ in unrolled.around)
    around = [[outer, at] for outer, at in unrolled.around] if is_nested else []
    return Structure(columns, list(string.positions), around)


def name_constant(node: Tensor) -> str | None:
    """Return the name of a constant, else its value if that is one number."""
    value = node._value
    if node.name or value is None or isinstance(value, tuple) or shape_of(value) != ():
        return node.name
    if is_on_device(value):
        return None  # each would be a transfer by itself
    return str(value)


def find_type(node: Tensor) -> tuple[Any, Any]:
    """Return a node's dtype and shape; None and a number for so many outputs."""
    value = node.spec if node._value is None else node._value
    if type(value) is np.ndarray:
        return value.dtype, value.shape
    if isinstance(value, tuple):
        return None, len(value)
    return node.dtype, node.shape


def format_type(dtype: Any, shape: Any) -> tuple[str, str]:
    """Return a dtype and a shape as the page shows them."""
    if dtype is None:
        return "", format_count(shape, "output")
    return str(dtype), format_shape(shape)


def find_site(
    node: Tensor, places: dict[tuple[Any, int], tuple[int, int, int]], string: Strings
) -> tuple[int, int, int]:
    """Return the place where a node was made, the text of its line and its number."""
    context = node.context
    key = (node.code, node.lasti)
    if context is not None and context.code is not None:
        key = (context.code, context.lasti)
    if key not in places:
        site = sites.decode(*key)
        if site is None:
            places[key] = (-1, -1, -1)
        else:
            in_cell = site.place.startswith("[")
            line = site.line if in_cell else -1
            places[key] = (string(site.place), string(site.text), line)
    return places[key]


def list_read_nodes(node: Tensor, i: int, forward: Values) -> list[int]:
    """Return the ids of the nodes with values that a node's gradient rule reads."""
    ids: list[int] = []
    if not (reads := node.op.reads):
        return ids
    for which in reads:
        if which == "y":
            ids.append(i)
        elif isinstance(which, int) and which < len(node.inputs):
            x = node.inputs[which]
            if isinstance(x, Tensor):
                ids.append(forward.ids[x.serial])
    return list(dict.fromkeys(ids)) if len(ids) > 1 else ids


def find_version() -> str:
    """Return the version of the package that runs."""
    return str(hooks.namespace("workbench").__version__)


# The columns of numbers: statistics, once for each stage, and what overrides do


def value_statistics(forward: Values) -> Array:
    """Return the column `value_stats`."""
    if forward.statistics is None:
        forward.statistics = forward.measure(statistics.summarize_arrays).ravel()
    return forward.statistics


def gradient_statistics(
    backward: Backward, count: int, truth: Backward | None = None
) -> Array:
    """Return the column `grad_stats` or `true_stats`.

    Of arrays that are those of the ``truth``, its numbers are taken if they are known.
    """
    if backward.statistics is None:
        found = [*map(backward.cotangents.get, range(count))]
        known = None if truth is None else truth.statistics
        if known is None or truth is None:
            table = statistics.summarize_arrays(found)
        else:
            true = map(truth.cotangents.get, range(count))
            other = [i for i, (g, t) in enumerate(zip(found, true, strict=True))
                     if g is not t]  # fmt: skip
            table = known.reshape(count, -1).copy()
            table[other] = statistics.summarize_arrays([found[i] for i in other])
        backward.statistics = table.ravel()
    return backward.statistics


def relative_changes(
    session: Session, backward: Backward, truth: Backward, count: int
) -> Array:
    """Return the column `change`: only nodes behind an override can differ."""
    nodes, ids = session.graph.nodes, session.forward.ids
    column = np.full(count, np.nan)
    column[list(backward.cotangents)] = 0.0
    if backward is truth or session.resolution is None:
        return column
    winners = {
        i: nodes[i]
        for _, node in session.resolution.winners.values()
        for i in session.forward.find_ids(node)
    }
    behind = {
        ids[x.serial]
        for x in walk.order_nodes(
            [x for y in winners.values() for x in y.inputs if isinstance(x, Tensor)]
        )
    }
    found, expected, places = [], [], []
    for i in behind.intersection(backward.cotangents):
        g, true = backward.cotangents[i], truth.cotangents.get(i)
        if g is true:
            continue  # from an earlier sweep
        like = nodes[i]._value
        if isinstance(like, tuple):
            g, true = _fill_outputs(g, like), _fill_outputs(true, like)
        elif true is None:
            true = np.zeros_like(like)
        found.append(g)
        expected.append(true)
        places.append(i)
    column[places] = statistics.relative_changes(found, expected)
    return column


def _fill_outputs(parts: Any, like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the cotangents of all outputs of one op, zeros where nothing flows."""
    given = (None,) * len(like) if parts is None else parts
    return tuple(
        np.zeros_like(x) if g is None else g for g, x in zip(given, like, strict=True)
    )


def override_column(
    resolution: Resolution | None,
    forward: Values,
    overrides: list[AppliedOverride],
    count: int,
) -> Array:
    """Return the column `override`: the override that each node runs or lies within.

    A node within a match keeps its own rule where another override points at it.
    """
    column = np.full(count, -1, np.int32)
    if resolution is None:
        return column
    for k, one in enumerate(overrides):
        if one.enabled:
            column[list(one.covered)] = k
    for k, node in resolution.winners.values():
        column[forward.find_ids(node)] = k
    return column
