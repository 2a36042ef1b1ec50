"""The header of a snapshot: its overrides, history, checks, findings and profile."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.report import Comparison, Identity, NodeCheck, Report
from workbench.checks.statistics import is_on_device
from workbench.core.schema import clean_text
from workbench.core.tensor import Tensor
from workbench.ops.define import shape_of
from workbench.overrides.override import write_steps
from workbench.overrides.targets import ByNode, ByOp, ByScope
from workbench.session.applied_override import AppliedOverride, is_data
from workbench.session.history import History
from workbench.session.inner_program import LoopNorms
from workbench.session.profile import SessionProfile
from workbench.session.stages import Values
from workbench.session.wire.protocol import snapshot
from workbench.session.wire.protocol.fields import STATUSES

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]
#: The longest text of a check or a finding.
MOST_WORDS = 1000
#: The longest line of the user's source that the page may change.
MOST_LINE = 2000
#: The most changes that are sent each way; a session keeps more.
MOST_CHANGES = 200
#: The most nodes of a check, lines of its gradients and findings that are sent.
MOST_LINES = 200
#: The most nodes of a path through the program.
MOST_PATH = 1000
#: Of a node that holds others, and of several lists of nodes: what comes first.
RANKS = ("wrong", "unsure", "kink", "overridden", "right", "unchecked")
_CODES = {status: STATUSES.index(status) for status in RANKS}


def encode_overrides(
    overrides: Sequence[AppliedOverride],
    seconds: float,
    sweep: float = 0.0,
    least: int = 1,
) -> tuple[list[snapshot.OverrideData], list[int]]:
    """Return the overrides as the page sees them, and the ids of those without effects.

    Effects cost a sweep each, which takes about ``sweep`` seconds. Those that are not
    known are measured for so many ``seconds``, at ``least`` so many of them; the others
    are left out.
    """
    until = time.perf_counter() + seconds
    encoded, unmeasured, measured = [], [], 0
    for one in overrides:
        known = one.measured or not one.enabled
        if not known and measured >= least and time.perf_counter() + sweep > until:
            unmeasured.append(one.id)
            encoded.append(encode_override(one, effects=False))
            continue
        measured += not known
        encoded.append(encode_override(one))
    return encoded, unmeasured


def encode_override(
    one: AppliedOverride, effects: bool = True
) -> snapshot.OverrideData:
    """Return an override as data; a rule of nodes is written node by node."""
    vjp = one.override.vjp
    return snapshot.OverrideData(
        id=one.id,
        label=one.label,
        rule=clean_text(str(vjp)) if is_data(vjp) else one.rule,
        data=one.data,
        stored=one.stored,
        target=encode_target(one),
        steps=write_steps(one.override.steps),
        enabled=one.enabled,
        matched=list(one.matched),
        covered=list(one.covered),
        note=clean_text(one.note),
        effects=[
            snapshot.EffectData(
                node=e.node,
                name=e.name,
                relative=finite_number(e.relative),
                angle=finite_number(e.angle),
            )
            for e in (one.effects if effects else ())
        ],
        code=one.code,
    )


def encode_loops(loops: Sequence[LoopNorms]) -> list[snapshot.LoopNormsData]:
    """Return the gradients along loops, of the first so many of them."""
    return [
        snapshot.LoopNormsData(
            node=one.node,
            steps=one.steps,
            marks=[*one.marks],
            norms=[finite_number(norm) for norm in one.norms],
        )
        for one in loops[:MOST_LINES]
    ]


def encode_target(one: AppliedOverride) -> snapshot.TargetData:
    """Return the target of an override as data."""
    target = one.override.target
    if isinstance(target, ByNode):
        return {"kind": "node", "node": one.node}
    if isinstance(target, ByOp):
        return {"kind": "op", "op": target.op}
    if isinstance(target, ByScope):
        return {"kind": "scope", "scope": target.glob.removesuffix("/*")}
    return {"kind": "other", "text": clean_text(one.target)}


def encode_history(history: History) -> snapshot.HistoryData:
    """Return the last changes, and the next that could be done again."""
    return snapshot.HistoryData(
        done=[clean_text(text) for text in history.done[-MOST_CHANGES:]],
        undone=[clean_text(text) for text in history.undone[:MOST_CHANGES]],
    )


def finite_number(x: Any) -> float | None:
    """Return a finite real number, or None: JSON has no NaN."""
    if x is None or isinstance(x, tuple) or shape_of(x) != ():
        return None
    if isinstance(x, complex) or np.dtype(getattr(x, "dtype", float)).kind == "c":
        return None
    number = float(x.get() if is_on_device(x) else x)
    return number if math.isfinite(number) else None


# What a check and the doctor have found. Both speak of the values at which they looked,
# which a session may have left since: nodes keep their ids, so what was found of a node
# still stands at its place.


class EncodedCheck(NamedTuple):
    """A check: the columns `check` and `check_ratio`, and what the header says."""

    status: Array
    ratio: Array
    data: snapshot.CheckData


def encode_last_check(session: Session) -> EncodedCheck | None:
    """Return the last check of a session; None before the first."""
    found = session.get_result("report")
    if found is None:
        return None
    if found.data is None:
        found.data = encode_check(found.state.forward, found.result)
    made: EncodedCheck = found.data
    stale = "report" in session.stale
    return made._replace(data=snapshot.CheckData(**{**made.data, "stale": stale}))


def encode_check(forward: Values, report: Report) -> EncodedCheck:
    """Return a report in columns and in words."""
    count = len(forward.graph.nodes)
    worst: dict[int, NodeCheck] = {}
    for one in report.nodes:
        for i in forward.find_ids(one.node):
            if i not in worst or rank_node_check(one) < rank_node_check(worst[i]):
                worst[i] = one
    status = np.zeros(count, np.uint8)
    ratio = np.full(count, np.nan)
    for i, one in worst.items():
        status[i], ratio[i] = _CODES[one.status], one.ratio
    counts = np.bincount(status, minlength=len(STATUSES)).tolist()
    notable = sorted(
        (item for item in worst.items() if item[1].status != "right"),
        key=lambda item: (rank_node_check(item[1]), item[0]),
    )
    data = snapshot.CheckData(
        ok=report.ok,
        verdict=report.verdict,
        changes=clean_text(report.changes()),
        stopped=report.stopped or report.spent,
        unchecked=clean_list(report.describe_unchecked()),
        stale=False,
        summary=clean_text(report.summary()),
        counts=cast(snapshot.StatusCounts, dict(zip(STATUSES, counts, strict=True))),
        nodes=[encode_node_check(i, one) for i, one in notable[:MOST_LINES]],
        gradients=encode_gradients(report)[:MOST_LINES],
    )
    return EncodedCheck(status, ratio, data)


def clean_list(texts: list[str]) -> list[str]:
    """Return some sentences as the page shows them."""
    return [clean_text(text, MOST_WORDS) for text in texts]


def rank_node_check(one: NodeCheck) -> tuple[int, float]:
    """Return the key that sorts the nodes of a check, the worst first."""
    return RANKS.index(one.status), -one.ratio


def encode_node_check(i: int, one: NodeCheck) -> snapshot.NodeCheckData:
    """Return one node of a check."""
    entry = one.entry
    return snapshot.NodeCheckData(
        node=i,
        status=one.status,
        mode=one.mode,
        place="" if entry is None else clean_text(entry.place, 200),
        expected=None if entry is None else real_number(entry.numeric),
        got=None if entry is None else real_number(entry.analytic),
        ratio=None if entry is None else finite_number(one.ratio),
        text=clean_text(one.text, MOST_WORDS),
    )


def encode_gradients(report: Report) -> list[snapshot.GradientCheckData]:
    """Return one line for each input, mode and order, and for each equation tested."""
    lines = [
        encode_gradient(report, one, one.argument, one.mode, describe_comparison(one))
        for one in report.comparisons
    ]
    for one in report.identities:
        words = "holds" if one.holds else f"fails: off by {one.error:.2g}"
        text = f"{words} (tolerance {one.tolerance:.2g})"
        if one.holds and not np.isfinite(one.error):
            text = "not finite on both sides"
        lines.append(encode_gradient(report, one, one.name, "", text))
    return lines


def encode_gradient(
    report: Report, one: Comparison | Identity, name: str, mode: str, text: str
) -> snapshot.GradientCheckData:
    """Return one line; where something is changed on purpose, that comes first."""
    verdict = report.judge(one)
    names = [one.argument] if isinstance(one, Comparison) else [*one.arguments]
    by: list[str] = []
    change = None
    if verdict == "changed":
        by = [
            clean_text(label, 200)
            for n in names
            for label in report.changers.get(n, ())
        ]
        change = finite_number(report.changed[names[0]]) if len(names) == 1 else None
        colon = ":" if isinstance(one, Comparison) else ""
        text = f"{report.changes(*names)}; the true one{colon} {text}"
    return snapshot.GradientCheckData(
        name=clean_text(name, 200),
        mode=mode,
        ok=verdict != "wrong",
        verdict=verdict,
        change=change,
        by=list(dict.fromkeys(by)),
        text=clean_text(text, MOST_WORDS),
    )


def describe_comparison(one: Comparison) -> str:
    """Return the result of one comparison in words."""
    which = "" if one.order == 1 else f"order {one.order}: "
    count = f"{len(one.entries)} of {one.size} entries"
    worst = one.worst
    if worst is None:
        return f"{which}nothing compared"
    if one.wrong:
        return clean_text(
            f"{which}{len(one.wrong)} wrong in {count}; worst {worst.place}: expected"
            f" {worst.numeric:.6g}, got {worst.analytic:.6g}, off by {worst.error:.2g}"
            f" (tolerance {worst.tolerance:.2g})",
            MOST_WORDS,
        )
    return clean_text(
        f"{which}{count} agree; worst {worst.place}: off by {worst.error:.2g}"
        f" (tolerance {worst.tolerance:.2g})",
        MOST_WORDS,
    )


def real_number(x: complex) -> float | None:
    """Return a real number for the page; None for complex ones, shown in words."""
    return finite_number(complex(x).real) if complex(x).imag == 0 else None


def encode_findings(session: Session) -> snapshot.FindingsData | None:
    """Return the doctor's findings; None before the first diagnosis."""
    found = session.get_result("findings")
    if found is None:
        return None
    findings = found.result
    if found.data is None:
        found.data = [
            encode_finding(found.state.forward, one, session.output)
            for one in findings[:MOST_LINES]
        ]
    data = snapshot.FindingsData(
        stale="findings" in session.stale,
        stopped=findings.stopped,
        unchecked=clean_list(findings.describe_unchecked()),
        list=found.data,
    )
    if findings.step is not None:
        data["step"] = findings.step
    return data


def encode_finding(forward: Values, one: Finding, output: int) -> snapshot.FindingData:
    """Return one finding; of a node inside a loop the loop is shown."""
    at = forward.find_ids(one.node) or [output]
    return snapshot.FindingData(
        kind=one.kind,
        severity=one.severity,
        node=at[0],
        path=list_node_ids(forward, one.path)[:MOST_PATH],
        sweep=one.sweep,
        title=clean_text(one.title, MOST_WORDS),
        evidence=clean_text(one.evidence, MOST_WORDS),
        cause=clean_text(one.cause, MOST_WORDS),
        fix=None if one.fix is None else encode_fix(one.fix),
    )


def encode_fix(fix: Fix) -> snapshot.FixData:
    """Return a fix; with its change of the source, if that is in a cell."""
    data = snapshot.FixData(
        text=clean_text(fix.text, MOST_WORDS),
        code=clean_text(fix.code, MOST_WORDS),
        attachable=fix.rule is not None,
    )
    edit = fix.edit
    cell = None if edit is None else re.fullmatch(r"\[(\d+)\]", edit.file)
    # A line that would be cut, or cleaned, is not the user's any more.
    if (
        edit is not None
        and cell is not None
        and all(
            clean_text(line, MOST_LINE) == line for line in (*edit.before, *edit.after)
        )
    ):
        data["edit"] = snapshot.EditData(
            cell=int(cell[1]),
            line=edit.line,
            before=list(edit.before),
            after=list(edit.after),
        )
    return data


class EncodedProfile(NamedTuple):
    """A profile: its columns, and what the header says."""

    columns: dict[str, Array]
    data: snapshot.ProfileData


def encode_last_profile(session: Session) -> EncodedProfile | None:
    """Return the last profile of a session; None before the first."""
    profile = session.last_profile
    if profile is None:
        return None
    if profile.data is None:
        profile.data = encode_profile(profile, session.nodes.count)
    made: EncodedProfile = profile.data
    stale = "profile" in session.stale
    return made._replace(data=snapshot.ProfileData(**{**made.data, "stale": stale}))


def encode_profile(profile: SessionProfile, count: int) -> EncodedProfile:
    """Return a profile of a program of so many nodes in columns and in words."""
    fused = [i for i, row in enumerate(profile) if len(row.nodes) > 1][:MOST_LINES]
    places = {row: place for place, row in enumerate(fused)}
    columns: dict[str, Array] = {}
    for name, costs in (("value", profile.values), ("rule", profile.rules)):
        columns[f"{name}_time"] = time_column = np.full(count, np.nan)
        columns[f"{name}_bytes"] = bytes_column = np.full(count, np.nan)
        columns[f"{name}_step"] = step_column = np.full(count, -1, np.int32)
        for i, cost in costs.items():
            time_column[i], bytes_column[i] = cost.time, cost.traffic
            step_column[i] = places.get(cost.row, -1)
    steps = [
        snapshot.ProfileStepData(
            name=row.step,
            ops=clean_text(row.ops, 200),
            count=len(row.nodes),
            time=row.time,
            bytes=row.traffic,
        )
        for row in (profile.rows[i] for i in fused)
    ]
    data = snapshot.ProfileData(
        stale=False,
        backend=profile.backend,
        time=profile.time,
        bytes=math.fsum(row.traffic for row in profile),
        steps=steps,
    )
    return EncodedProfile(columns, data)


def list_node_ids(forward: Values, nodes: Iterable[Tensor]) -> list[int]:
    """Return the ids of nodes in a row, each once."""
    return list(dict.fromkeys(i for x in nodes for i in forward.find_ids(x)))
