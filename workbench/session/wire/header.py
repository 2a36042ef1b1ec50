"""What the header of a snapshot says of overrides, and its numbers and texts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.ops.define import shape_of
from workbench.overrides.targets import ByNode, ByOp, ByScope
from workbench.session.applied_override import Attached, is_data
from workbench.session.history import History
from workbench.session.wire.protocol import (
    EffectData,
    HistoryData,
    OverrideData,
    TargetData,
)

__all__ = ["cut", "finite_number", "history_data", "overrides_data"]

MOST_CHARACTERS = 2000
#: So many changes are told each way; a session keeps more.
MOST_STEPS = 200


def overrides_data(
    overrides: Sequence[Attached], seconds: float
) -> tuple[list[OverrideData], list[int]]:
    """The overrides as the page sees them, and the ids of those without effects.

    Effects cost a sweep each. Those that are not known are measured for so long, at
    least one of them; the others are left out.
    """
    until = time.perf_counter() + seconds
    listed, left, measured = [], [], False
    for one in overrides:
        known = one.measured or not one.enabled
        if not known and measured and time.perf_counter() > until:
            left.append(one.id)
            listed.append(override_data(one, effects=False))
            continue
        measured |= not known
        listed.append(override_data(one))
    return listed, left


def override_data(one: Attached, effects: bool = True) -> OverrideData:
    """An override as the page sees it; a rule of nodes is told node by node."""
    vjp = one.override.vjp
    return OverrideData(
        id=one.id,
        label=one.label,
        rule=cut(str(vjp)) if is_data(vjp) else one.rule,
        data=one.data,
        stored=one.stored,
        target=target_data(one),
        enabled=one.enabled,
        matched=list(one.matched),
        covered=list(one.covered),
        note=cut(one.note),
        effects=[
            EffectData(
                node=e.node,
                name=e.name,
                relative=finite_number(e.relative),
                angle=finite_number(e.angle),
            )
            for e in (one.effects if effects else ())
        ],
        code=one.code,
    )


def target_data(one: Attached) -> TargetData:
    """What an override is attached to."""
    target = one.override.target
    if isinstance(target, ByNode):
        return {"kind": "node", "node": one.matched[0]}
    if isinstance(target, ByOp):
        return {"kind": "op", "op": target.op}
    if isinstance(target, ByScope):
        return {"kind": "scope", "scope": target.glob.removesuffix("/*")}
    return {"kind": "other", "text": cut(one.where)}


def history_data(history: History) -> HistoryData:
    """The last changes, and the next that could be done again."""
    return HistoryData(
        done=[cut(text) for text in history.done[-MOST_STEPS:]],
        undone=[cut(text) for text in history.undone[:MOST_STEPS]],
    )


def finite_number(x: Any) -> float | None:
    """A finite real number, or None: JSON has no NaN."""
    if x is None or isinstance(x, tuple) or shape_of(x) != ():
        return None
    if isinstance(x, complex) or np.dtype(getattr(x, "dtype", float)).kind == "c":
        return None
    number = float(x)
    return number if math.isfinite(number) else None


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """A string of bearable length, which can be sent: no half of a character."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode()
