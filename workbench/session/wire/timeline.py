"""The runs of a session as data: few points of all, and the norms of one.

The page has the loss of all runs in some hundred points. The norms of one node at all
runs it asks for; those of all nodes at one run are in `moments.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core.schema import clean_text
from workbench.errors import UsageError
from workbench.session.timeline import describe_entries
from workbench.session.wire.protocol.messages import NormsData
from workbench.session.wire.protocol.snapshot import (
    BranchData,
    MarkData,
    StopData,
    TimelineData,
)

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]

#: So many parts of the runs are drawn, two points in each: the lowest and the highest.
MOST_PARTS = 240
#: And of a branch.
MOST_BRANCH_PARTS = 60


def encode_timeline(session: Session) -> TimelineData | None:
    """Return the runs of a session; None before the first."""
    timeline = session.timeline
    if timeline.count == 0:
        return None
    table = timeline.table
    table = table[choose_points(table[:, 0], table[:, 1])]
    return TimelineData(
        count=timeline.count,
        keep=0,
        steps=table[:, 0].astype(int).tolist(),
        losses=to_numbers(table[:, 1]),
        gradients=to_numbers(table[:, 2]),
        marks=[
            MarkData(
                step=mark.step,
                kind=mark.kind,
                node=mark.node,
                text=clean_text(mark.text, 200),
            )
            for mark in timeline.marks
        ],
        first_bad=timeline.first_bad.step
        if timeline.is_bad and timeline.first_bad is not None
        else None,
        kept=len(timeline.inputs.steps),
        kept_bytes=float(timeline.inputs.bytes),
    )


def name_branches(session: Session) -> dict[str, Session]:
    """Return the branches of a session by their names, the oldest first."""
    return {branch.branch_name: branch for branch in session.branches}


def encode_branches(session: Session) -> list[BranchData]:
    """Return the branches of a session, each from its first own run on."""
    found = []
    for name, branch in name_branches(session).items():
        line = branch.timeline
        step, table = branch.branch_step or 1, line.table
        table = table[table[:, 0] >= step]
        table = table[choose_points(table[:, 0], table[:, 1], MOST_BRANCH_PARTS)]
        text = "; ".join(describe_entries(line.find_entries(line.count), branch.nodes))
        found.append(
            BranchData(
                name=name,
                step=step,
                count=line.count,
                text=clean_text(text, 200),
                steps=table[:, 0].astype(int).tolist(),
                losses=to_numbers(table[:, 1]),
            )
        )
    return found


def encode_stops(session: Session) -> list[StopData]:
    """Return the conditions at which a loop of runs stops."""
    return [
        StopData(id=one.id, nodes=list(one.nodes), text=clean_text(one.text, 200))
        for one in session.stops
    ]


def choose_points(steps: Array, numbers: Array, most: int = MOST_PARTS) -> Array:
    """Return the positions of the points to draw: of each part lowest, highest; last.

    Parts begin at multiples of a power of two, so that points stay when others come.
    A number that is not finite counts as the highest.
    """
    if len(steps) <= 2 * most:
        return np.arange(len(steps))
    size = 2 ** math.ceil(math.log2(steps[-1] / most))
    parts = steps // size
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    counts = np.diff(starts, append=len(steps))
    numbers = np.where(np.isfinite(numbers), numbers, np.inf)
    chosen = [np.array([len(steps) - 1])]
    for reduce in (np.minimum.reduceat, np.maximum.reduceat):
        found = np.flatnonzero(numbers == np.repeat(reduce(numbers, starts), counts))
        chosen.append(found[np.diff(parts[found], prepend=-1) != 0])
    return np.unique(np.concatenate(chosen))


def find_new_points(old: TimelineData | None, new: TimelineData | None) -> Any:
    """Return the change from one timeline to the next: the points after the kept ones.

    >>> old = TimelineData(
    ...     count=2, keep=0, steps=[1, 2], losses=[3.0, 2.0], gradients=[None, None],
    ...     marks=[], first_bad=None, kept=1, kept_bytes=0.0,
    ... )
    >>> new = old | {"count": 3, "steps": [1, 3], "losses": [3.0, 1.0]}
    >>> piece = find_new_points(old, new)
    >>> piece["keep"], piece["steps"], piece["losses"]
    (1, [3], [1.0])
    >>> merge_points(old, piece) == new
    True
    """
    if old is None or new is None:
        return new
    rows = [
        list(zip(one["steps"], one["losses"], one["gradients"], strict=True))
        for one in (old, new)
    ]
    keep = 0
    for before, now in zip(*rows, strict=False):
        if before != now:
            break
        keep += 1
    return TimelineData(
        count=new["count"],
        keep=keep,
        steps=new["steps"][keep:],
        losses=new["losses"][keep:],
        gradients=new["gradients"][keep:],
        marks=new["marks"],
        first_bad=new["first_bad"],
        kept=new["kept"],
        kept_bytes=new["kept_bytes"],
    )


def merge_points(old: TimelineData | None, new: TimelineData) -> TimelineData:
    """Return a timeline merged with new points, as the page does."""
    keep = new["keep"]
    if old is None or keep == 0:
        return new
    return TimelineData(
        count=new["count"],
        keep=0,
        steps=old["steps"][:keep] + new["steps"],
        losses=old["losses"][:keep] + new["losses"],
        gradients=old["gradients"][:keep] + new["gradients"],
        marks=new["marks"],
        first_bad=new["first_bad"],
        kept=new["kept"],
        kept_bytes=new["kept_bytes"],
    )


def list_norms(session: Session, node: int) -> NormsData:
    """Return the norms of a node over the runs, in at most some hundred points.

    Raises
    ------
    UsageError
        If there is no such node.
    """
    if not 0 <= node < session.nodes.count:
        raise UsageError(f"there is no node {node}")
    with session.lock:
        steps, values, gradients = session.timeline.norms(node)
    peaks = values if np.isnan(gradients).all() else gradients
    chosen = choose_points(steps, peaks)
    return NormsData(
        node=node,
        steps=steps[chosen].tolist(),
        values=to_numbers(values[chosen]),
        gradients=to_numbers(gradients[chosen]),
    )


def to_numbers(numbers: Array) -> list[float | None]:
    """Return numbers for JSON: None for those that are not finite."""
    return [x if math.isfinite(x) else None for x in numbers.tolist()]
