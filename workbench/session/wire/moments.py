"""Other moments of the picture as data: a past run, another session, what is saved.

Each is what to change in the picture so that it shows that moment. A saved picture
holds some runs itself, within bounds, for nobody can be asked then.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core.schema import clean_text
from workbench.errors import UsageError
from workbench.session.applied_override import attached_overrides
from workbench.session.comparison import find_pairing, name_differing
from workbench.session.history import Entries
from workbench.session.nodes import Nodes
from workbench.session.state import State
from workbench.session.timeline import MISSING, describe_entries
from workbench.session.wire.columns import (
    Picture,
    encode_picture,
    override_column,
    take_snapshot,
)
from workbench.session.wire.header import encode_override
from workbench.session.wire.protocol.fields import (
    COLUMNS,
    MOST_MOMENT_BYTES,
    MOST_MOMENTS,
    STATISTICS,
)
from workbench.session.wire.protocol.messages import (
    DifferenceData,
    MomentData,
    PeerData,
    PeersData,
)
from workbench.session.wire.protocol.snapshot import MomentsData, OverrideData
from workbench.session.wire.timeline import to_numbers

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]

#: The columns that other values and other rules change.
NUMBERS = (
    "value_stats",
    "grad_stats",
    "true_stats",
    "edge_norm",
    "true_edge_norm",
    "change",
    "override",
)
#: Those that are there at times: what a check, and a profile, has found.
CHECKED = ("check", "check_ratio")
PROFILED = tuple(
    f"{sweep}_{what}"
    for sweep in ("value", "rule")
    for what in ("time", "bytes", "step")
)
TRUE = ("true_stats", "true_edge_norm")
#: What a header tells of a run.
TOLD = (
    "output_value", "overrides", "check", "findings", "profile", "loops", "seconds",
)  # fmt: skip
#: Seconds for the effects of overrides, and for gradients along loops, at a past run.
EFFECTS = 0.03
NORM, BAD = STATISTICS.index("norm"), STATISTICS.index("bad")


def take_moment(session: Session, step: int) -> Picture[MomentData]:
    """Return the kept run that is nearest to one, as changes of the picture.

    All of it, if the inputs of that run are kept; else the norms of all nodes.

    Raises
    ------
    UsageError
        If there has been no run.
    """
    with session.lock:
        found = session.timeline.read_norms(step)
        near = session.timeline.inputs.find_nearest(step)
        is_whole = near is not None and abs(near - step) <= abs(found.step - step)
        view = session.find_view(near) if near is not None and is_whole else None
    if view is not None:
        # Without the lock: a loop may go on while this run is computed again.
        return take_view(session, view)
    with session.lock:
        has_overrides = bool(session.overrides)
        rules = encode_rules(session, session.timeline.find_entries(found.step))
    nothing = np.full(len(found.values) * len(STATISTICS), np.nan)
    columns: dict[str, Array] = {
        "value_stats": spread_norms(found.values),
        "grad_stats": spread_norms(found.gradients),
        "edge_norm": np.where(found.edges == MISSING, np.nan, found.edges),
        "change": np.full(len(found.values), np.nan),
    }
    if has_overrides:
        # What the true rules would have passed is not remembered.
        columns["true_stats"] = nothing
        columns["true_edge_norm"] = np.full(len(found.edges), np.nan)
    loss = found.loss if math.isfinite(found.loss) else None
    # What checks found is about the present, and so is what was seen of loops.
    header: dict[str, Any] = {
        "output_value": loss,
        "check": None,
        "findings": None,
        "profile": None,
        "loops": [],
    }
    if rules is not None:
        header["overrides"], columns["override"] = rules
    return encode_picture(
        header, columns, MomentData(step=found.step, whole=False, differing=[]), of=0
    )


def take_view(session: Session, view: Session) -> Picture[MomentData]:
    """Return a session at a run of its past, as changes of the picture."""
    shown = take_snapshot(view, seconds=EFFECTS, least=0, loops=EFFECTS)
    names = (*NUMBERS, *CHECKED, *PROFILED)
    columns = {name: shown.columns[name] for name in names if name in shown.columns}
    count, edges = session.nodes.count, shown.header["edges"]
    for name in list_passing_columns(session):
        if name not in columns:
            columns[name] = make_blank_column(name, count, edges)
    header = {key: shown.header.get(key, []) for key in TOLD}
    data = MomentData(step=view.timeline.count, whole=True, differing=[])
    return encode_picture(header, columns, data, of=0)


def list_passing_columns(session: Session) -> list[str]:
    """Return the columns of the present picture that a run of the past may not have."""
    with session.lock:
        has_rules, has_report = bool(session.overrides), session.report is not None
        has_profile = session.last_profile is not None
    return [
        *(TRUE if has_rules else ()),
        *(CHECKED if has_report else ()),
        *(PROFILED if has_profile else ()),
    ]


def make_blank_column(name: str, count: int, edges: int) -> Array:
    """Return a column that says nothing of any node, or of any edge."""
    dtype = np.dtype(COLUMNS[name])
    size = edges if name == "true_edge_norm" else count
    size *= len(STATISTICS) if name == "true_stats" else 1
    if dtype.kind == "f":
        return np.full(size, np.nan)
    return np.full(size, -1 if dtype.kind == "i" else 0, dtype)


def encode_rules(
    session: Session, entries: Entries
) -> tuple[list[OverrideData], Array] | None:
    """Return the overrides of a run, and which node ran which; None for those of now.

    Their effects are not computed: they were other ones at that time.
    """
    now = session._state
    if entries == now.entries:
        return None
    past = State(now.objective, now.forward, entries)
    overrides = attached_overrides(past)
    encoded = [encode_override(one, effects=False) for one in overrides]
    column = override_column(
        past.resolution, past.forward, overrides, session.nodes.count
    )
    return encoded, column


def take_peer(session: Session, other: Session) -> Picture[MomentData]:
    """Return another session, as changes of the picture.

    Of a program that differs in few ops what belongs to the nodes here, as they are
    paired, and which nodes differ.

    Raises
    ------
    UsageError
        If its program has little in common; the text says where they differ.
    """
    pairing = find_pairing(session._state, other._state)
    shown = take_snapshot(other, seconds=0.0, least=0)
    header = {
        "output_value": shown.header["output_value"],
        "overrides": shown.header["overrides"] if pairing is None else [],
        "check": None,
        "findings": None,
        "loops": shown.header.get("loops", []) if pairing is None else [],
        "timeline": shown.header["timeline"],
    }
    columns = {name: shown.columns[name] for name in NUMBERS if name in shown.columns}
    if pairing is not None:
        columns = {
            # Which override ran there is told by the other picture alone.
            name: make_blank_column(name, session.nodes.count, 0)
            if name == "override"
            else pairing.map_edges(column, np.nan)
            if name in ("edge_norm", "true_edge_norm")
            else pairing.map_nodes(column, np.nan)
            for name, column in columns.items()
        }
    differing = []
    if pairing is not None:
        ops = [*pairing.there.ops, ""]  # of no node, -1
        differing = [
            DifferenceData(
                node=i,
                other=clean_text(text, 200),
                op=clean_text(ops[pairing.differing[i]], 100),
            )
            for i, text in name_differing(pairing, other._state).items()
        ]
    data = MomentData(step=0, whole=True, differing=differing)
    return encode_picture(header, columns, data, of=0)


def list_peers(session: Session, others: Mapping[str, Session]) -> PeersData:
    """Return other sessions by their names, with why they cannot be compared."""
    state = session._state
    peers = [
        PeerData(
            name=name,
            refused=clean_text(_find_refusal(state, other._state), 300),
        )
        for name, other in others.items()
    ]
    return PeersData(peers=peers)


def _find_refusal(state: State, other: State) -> str:
    """Return why another program cannot be compared; empty if it can."""
    try:
        find_pairing(state, other)
    except UsageError as error:
        return str(error)
    return ""


def encode_moments(session: Session) -> MomentsData | None:
    """Return as many past runs as a saved picture may hold, evenly over all of them.

    The last run is the picture itself. None where there is no room for two.
    """
    timeline = session.timeline
    with session.lock:
        steps = [*timeline][:-1]
        if not steps:
            return None
        rows = [timeline.read_norms(steps[0])]
        width = sum(part.size for part in rows[0][2:])
        most = min(MOST_MOMENTS, MOST_MOMENT_BYTES // 4 * 3 // (4 * max(width, 1)))
        if most < 2:
            return None
        chosen = choose_evenly(len(steps), most)
        rows = [timeline.read_norms(steps[k]) for k in chosen]
        now = session._state.entries
        words = [
            describe_rules(entries, session.nodes) if entries != now else None
            for entries in (timeline.find_entries(row.step) for row in rows)
        ]
    table = np.stack([np.concatenate(row[2:]) for row in rows])
    # What is finite stays so: an infinite norm is that of an infinity.
    large = np.isfinite(table)
    largest = np.finfo(np.float32).max
    table[large] = np.minimum(table[large], largest)
    table = table.astype("<f4")
    return MomentsData(
        steps=[row.step for row in rows],
        losses=to_numbers(np.array([row.loss for row in rows])),
        overrides=words,
        norms=base64.b64encode(table.tobytes()).decode("ascii"),
    )


def choose_evenly(count: int, most: int) -> list[int]:
    """Return at most so many positions, the first and the last among them.

    >>> choose_evenly(5, 8), choose_evenly(100, 4)
    ([0, 1, 2, 3, 4], [0, 33, 66, 99])
    """
    if count <= most:
        return [*range(count)]
    return [round(k * (count - 1) / (most - 1)) for k in range(most)]


def describe_rules(entries: Entries, nodes: Nodes) -> str:
    """Return the overrides of a run in words."""
    texts = describe_entries(entries, nodes)
    return clean_text("; ".join(texts), 300) if texts else "no overrides"


def spread_norms(norms: Array) -> Array:
    """Return a column of statistics in which only norms are known.

    How many entries are not finite, a norm does not tell: some are infinitely many.
    """
    table = np.full((len(norms), len(STATISTICS)), np.nan)
    there = norms != MISSING
    table[there, NORM] = norms[there]
    table[there, BAD] = np.where(np.isfinite(norms[there]), 0, np.inf)
    return table.ravel()
