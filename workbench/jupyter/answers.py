"""The requests of a page to a session: plots, questions, commands, and long work.

Each request is a function with a decorator, which gives its name on the wire; the
parameters are the fields that the page sends, and what is returned is the answer
(`session/wire/protocol/requests.py`). What comes is checked by the schema before it is
used. Nothing here sends: `link.py` does.
"""

from __future__ import annotations

import re
import weakref
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from workbench.checks.doctor.finding import Findings
from workbench.checks.progress import Progress
from workbench.checks.report import Report
from workbench.core.schema import DataError, clean_text, quote
from workbench.errors import OverrideError, UsageError, WorkbenchError
from workbench.jupyter.plots import PLOTS
from workbench.overrides.targets import ByNode, ByOp, ByScope, Target
from workbench.session import Session
from workbench.session.applied_override import AppliedOverride
from workbench.session.profile import SessionProfile
from workbench.session.wire import (
    Picture,
    encode_array,
    encode_entry,
    encode_moments,
    encode_picture,
    encode_preview,
    gather_details,
    list_array_history,
    list_details,
    list_norms,
    list_peers,
    list_rewrites,
    name_branches,
    take_inside,
    take_moment,
    take_peer,
    take_program,
    write_lesson,
)
from workbench.session.wire.protocol import fields
from workbench.session.wire.protocol.messages import (
    ArrayData,
    ArrayHistoryData,
    ArrayIndex,
    ArrayQuantity,
    ArrayTime,
    DetailsData,
    EntryData,
    ExpressionData,
    InsideData,
    MomentData,
    NormsData,
    Path,
    PeersData,
    PreviewData,
    ProgramData,
    RunsData,
    SimplificationData,
    SweepsData,
)
from workbench.session.wire.protocol.requests import command, job, question
from workbench.session.wire.protocol.snapshot import DetailData, TargetData
from workbench.session.wire.schema import read

Message = dict[str, Any]
#: The rules of a simplification that are switched off.
Without = Annotated[list[fields.Typed], fields.Meta(maxItems=fields.MOST_RULES)]


# Plots

PlotName = Annotated[str, fields.Meta(title="PlotKind", enum=tuple(PLOTS))]


class WindowData(TypedDict):
    """A part of a matrix: rows and columns, each from and to (excluded)."""

    rows: fields.Span
    columns: fields.Span


class MatrixData(TypedDict):
    """The matrix of a heat map; each cell stands for ``block`` entries each way."""

    kind: PlotName
    of: fields.Node
    wrt: fields.NodeList
    #: The nodes between the two, both included.
    path: fields.NodeList
    mode: Literal["forward", "reverse", ""]
    rows: fields.Count
    columns: fields.Count
    window: WindowData
    block: fields.Span
    #: Of a pattern that follows from the program: how many colours the numbers of its
    #: cells are; 0 where they are shares of a block. Absent from one of values.
    colours: NotRequired[fields.Count]


class FigureData(TypedDict):
    """A Plotly figure: the data of application/vnd.plotly.v1+json."""

    data: Annotated[list[Any], fields.Meta(maxItems=fields.MOST_STRINGS)]
    layout: dict[str, Any]


class PlotData(TypedDict):
    """A figure, with the other plots of the same nodes."""

    title: fields.Text
    note: fields.Text
    figure: FigureData
    matrix: Annotated[MatrixData | None, fields.Meta(default=None)]
    views: Annotated[list[PlotName], fields.Meta(maxItems=len(PLOTS), default=[])]
    #: The overrides in force, "stop at h"; those left out if it is the true one.
    overrides: Annotated[list[fields.Text], fields.Meta(default=[])]
    #: Whether it is the true derivative of a program with overrides.
    is_true: Annotated[bool, fields.Meta(default=False)]
    #: Of a gradient check what it says; "changed" where overrides are in force; None
    #: where nothing was checked.
    verdict: Annotated[fields.Outcome | None, fields.Meta(default=None)]
    #: Why all entries are zero; empty where they are not.
    zero: Annotated[fields.Text, fields.Meta(default="")]


@job("plot")
def make_plot(
    session: Session,
    plot: PlotName,
    wrt: Annotated[list[int], fields.Meta(maxItems=fields.MOST_NODES)],
    progress: Progress,
    of: int | None = None,
    window: WindowData | None = None,
    overrides: bool = True,
) -> PlotData:
    """Return a figure of derivatives, with the shown part of its matrix.

    Without ``of`` that of the output, without ``wrt`` by the session's; of a ``window``
    that part of the matrix; without ``overrides`` the true derivative.
    """
    made = PLOTS[plot].draw(
        session,
        of=of,
        wrt=wrt or None,
        window=read_window(window),
        progress=progress,
        overrides=overrides,
    )
    return {
        "title": made.title,
        "note": made.page_note,
        "figure": cast(FigureData, made.data),
        "matrix": cast(MatrixData | None, made.matrix),
        "views": list(made.views),
        "overrides": [clean_text(text) for text in made.overrides],
        "is_true": made.is_true,
        "verdict": made.verdict,
        "zero": clean_text(made.zero),
    }


Span = tuple[int, int]


def read_window(window: WindowData | None) -> tuple[Span, Span] | None:
    """Return the rows and columns of a window, each from and to; None for all."""
    if window is None:
        return None
    for which, (start, end) in (
        ("rows", window["rows"]),
        ("columns", window["columns"]),
    ):
        if not 0 <= start < end:
            raise UsageError(f"the {which} of the window are no [from, to]")
    (first, last), (left, right) = window["rows"], window["columns"]
    return (first, last), (left, right)


# How the derivative is simplified, and what is in a node


@job("simplify")
def list_steps(session: Session, without: Without) -> SimplificationData:
    """Return the steps that simplify the derivative."""
    return list_rewrites(session, without)


@job("program")
def draw_program(
    session: Session, without: Without, step: fields.Count
) -> Picture[ProgramData]:
    """Return the derivative as a program after so many of these steps."""
    shown, extra = take_program(session, without, step)
    return encode_picture(shown.header, shown.columns, extra)


@job("inside")
def draw_inside(session: Session, path: Path) -> Picture[InsideData]:
    """Return the program inside a node, at one step of a loop."""
    shown, extra = take_inside(session, path)
    return encode_picture(shown.header, shown.columns, extra)


@job("inspect-inside")
def inspect_inside(session: Session, path: Path, node: int) -> DetailData:
    """Return the details of a node inside others; a loop around the node runs again."""
    return gather_details(session, node, path)


# Questions


@question("inspect")
def inspect_node(session: Session, node: int) -> DetailData:
    """Return the details of a node."""
    return gather_details(session, node)


@question("array")
def draw_array(
    session: Session,
    node: fields.Node,
    quantity: ArrayQuantity,
    index: ArrayIndex,
    against: ArrayTime | None = None,
) -> ArrayData:
    """Return a part of a node's value or gradient in cells, or its change."""
    return encode_array(session, node, quantity, index, against)


@job("array-history", title="A histogram over the runs")
def draw_array_history(
    session: Session,
    node: fields.Node,
    quantity: ArrayQuantity,
    index: ArrayIndex,
    progress: Progress,
) -> ArrayHistoryData:
    """Return histograms of a part of an array at kept runs, which run again."""
    return list_array_history(session, node, quantity, index, progress)


@question("norms")
def follow_node(session: Session, node: int) -> NormsData:
    """Return the norms of a node over the runs."""
    return list_norms(session, node)


@question("runs")
def save_runs(session: Session) -> RunsData:
    """Return the past runs that a page saves with its picture."""
    return {"moments": encode_moments(session)}


@question("lesson")
def play_sweeps(session: Session) -> SweepsData:
    """Return the sweeps of a small program, with numbers and the chain rule."""
    return {"lesson": write_lesson(session)}


@question("details")
def save_details(session: Session) -> DetailsData:
    """Return the details of all nodes, which a page saves with its picture."""
    return {"details": list_details(session)}


@question("moment")
def show_run(session: Session, step: fields.Count) -> Picture[MomentData]:
    """Return a run of the past as changes of the picture."""
    return take_moment(session, step)


#: The sessions that pages show: by their names, and which of that name it is, from 1.
SHOWN: weakref.WeakValueDictionary[tuple[str, int], Session] = (
    weakref.WeakValueDictionary()
)


def note_shown(session: Session) -> None:
    """Remember that a page shows a session."""
    if not any(other is session for other in SHOWN.values()):
        name, number = session.name, 1
        while (name, number) in SHOWN:
            number += 1
        SHOWN[name, number] = session


def find_peers(session: Session) -> dict[str, Session]:
    """Return its branches, and other sessions that have been shown, by their names.

    Of several with one name the later ones have a number: "net (2)".
    """
    return name_branches(session) | {
        name if count == 1 else f"{name} ({count})": other
        for (name, count), other in sorted(SHOWN.items())
        if other is not session
    }


@question("peers")
def name_peers(session: Session) -> PeersData:
    """Return the other sessions, and which have the same program."""
    return list_peers(session, find_peers(session))


@question("peer")
def show_peer(session: Session, name: fields.Typed) -> Picture[MomentData]:
    """Return the present state of another session, as changes of the picture."""
    other = find_peers(session).get(name)
    if other is None:
        raise UsageError(f"there is no other session {quote(name)}: show it first.")
    return take_peer(session, other)


# Rules that are not attached yet


def read_target(target: TargetData) -> Target:
    """Return the target that the page names.

    Raises
    ------
    OverrideError
        If it is one that only Python can give.
    """
    if target["kind"] == "node":
        return ByNode(target["node"])
    if target["kind"] == "op":
        return ByOp(target["op"])
    if target["kind"] == "scope":
        return ByScope(target["scope"])
    raise OverrideError(
        f"{quote(target['text'])} is no target that the page can give: a node, an op or"
        " a scope."
    )


@question("check-expression")
def check_expression(
    session: Session, target: TargetData, rule: fields.Typed, id: int | None = None
) -> ExpressionData:
    """Return whether a rule would do for a target, or for that of an override."""
    try:
        # An override that is there keeps its own target, which may be no data.
        place = read_target(target) if id is None else find_override(session, id)
        words, ok = session.check_rule(place, rule), True
    except WorkbenchError as error:
        words, ok = str(error), False
    return {"ok": ok, "message": clean_text(words)}


@job("preview")
def make_preview(
    session: Session,
    node: int,
    target: TargetData,
    rule: fields.Typed,
    id: int | None = None,
    steps: fields.Typed | None = None,
) -> PreviewData:
    """Return a node's cotangents with a rule that is not attached yet."""
    old = None if id is None else find_override(session, id)
    found = session.preview(
        node,
        read_target(target),
        rule,
        steps=read_loop_steps(steps, old),
        replacing=old,
    )
    return {"node": found.node, "passed": encode_preview(session, found)}


# Commands


@command("override")
def attach_override(
    session: Session,
    target: TargetData,
    rule: fields.Typed,
    label: fields.Typed,
    id: int | None = None,
    steps: fields.Typed | None = None,
) -> None:
    """Attach a rule, or replace the rule and the target of an override.

    Without ``steps``, those of the override that is replaced stay.
    """
    old = None if id is None else find_override(session, id)
    session.override(
        read_target(target),
        rule,
        name=label.strip() or None,
        steps=read_loop_steps(steps, old),
        replacing=old,
    )


@command("edit")
def edit_override(
    session: Session,
    id: int,
    rule: fields.Typed,
    label: fields.Typed,
    steps: fields.Typed | None = None,
) -> None:
    """Give an override another rule, whatever its target is."""
    old = find_override(session, id)
    session.override(
        old.override.target,
        rule,
        name=label.strip() or None,
        enabled=old.enabled,
        steps=read_loop_steps(steps, old),
        replacing=old,
    )


def read_steps(text: str) -> int | slice | None:
    """Return the steps of a loop that a text names as a subscript has them.

    Raises
    ------
    UsageError
        If the text names no steps.
    """
    parts = [part.strip() for part in text.split(":")]
    if parts == [""]:
        return None
    if len(parts) > 3 or not all(re.fullmatch(r"(-?[0-9]{1,9})?", x) for x in parts):
        raise UsageError(
            f"{clean_text(text, 40)!r} names no steps of a loop: write one, 3, or -1"
            " for the last, or several, 10:20. An empty field means all."
        )
    numbers = [int(part) if part else None for part in parts]
    return numbers[0] if len(numbers) == 1 else slice(*numbers)


def read_loop_steps(
    steps: str | None, old: AppliedOverride | None
) -> int | slice | None:
    """Return the steps of a loop for a rule; the old steps if none are given."""
    if steps is not None:
        return read_steps(steps)
    return None if old is None else old.override.steps


def find_override(session: Session, which: int) -> AppliedOverride:
    """Return an override by its number."""
    for one in session.overrides:
        if one.id == which:
            return one
    raise UsageError(f"there is no override {which}")


@command("switch")
def switch_override(session: Session, id: int, enabled: bool) -> None:
    """Switch an override on or off."""
    session.switch(id, enabled)


@command("remove")
def remove_override(session: Session, id: int) -> None:
    """Remove an override."""
    session.remove(id)


@command("move")
def move_override(session: Session, id: int, to: int) -> None:
    """Put an override at another place in the order; 0 is the first."""
    session.move(id, to)


@command("undo")
def undo_changes(session: Session, steps: int = 1) -> None:
    """Go some changes back."""
    session.undo(steps)


@command("redo")
def redo_changes(session: Session, steps: int = 1) -> None:
    """Go some changes forth."""
    session.redo(steps)


@command("fix")
def attach_fix(
    session: Session, finding: fields.Count, at: fields.Count | None = None
) -> None:
    """Attach the fix of a finding, by its position in the list of the run shown."""
    if at is None:
        session.fix(finding)
        return
    found = session.find_view(at).findings
    if found is None:
        raise UsageError(
            f"there are no findings of run {at}, or no longer: ask the doctor again"
        )
    if finding >= len(found):
        raise UsageError(f"there is no finding {finding} of run {at}")
    session.fix(found[finding])


@command("stop-when")
def stop_loops(
    session: Session,
    node: fields.Node,
    not_finite: bool = True,
    norm_above: float | None = None,
    norm_below: float | None = None,
    angle_above: float | None = None,
) -> None:
    """Stop a loop of runs when the gradient of a node meets a condition."""
    session.stop_when(
        node,
        not_finite=not_finite,
        norm_above=norm_above,
        norm_below=norm_below,
        angle_above=angle_above,
    )


@command("stop-no-more")
def remove_stop(session: Session, id: int) -> None:
    """Remove a condition at which a loop of runs stops."""
    kept = [one for one in session.stops if one.id != id]
    if len(kept) == len(session.stops):
        raise UsageError(f"there is no stop condition {id}, or no longer")
    session.stops[:] = kept


@question("entry")
def find_entry(session: Session, node: fields.Node, index: fields.Count) -> EntryData:
    """Return an entry of an input, which the page may change."""
    return encode_entry(session, node, index)


@command("change-entry")
def change_entry(
    session: Session, node: fields.Node, index: fields.Count, value: float, drag: int
) -> None:
    """Set one entry of an input; the changes of one drag are one step of undo."""
    session.change_entry(node, index, value, drag=("page", drag))


# Long work of which the session keeps what it finds


@job("check", keeps="report", title="The gradient check")
def check_gradients(session: Session, progress: Progress) -> Report:
    """Check all rules and gradients."""
    return session.check(progress=progress)


@job("diagnose", keeps="findings", title="The doctor")
def diagnose_session(session: Session, progress: Progress) -> Findings:
    """Ask the doctor."""
    return session.diagnose(progress=progress)


@job("profile", keeps="profile", title="The profile")
def profile_session(session: Session) -> SessionProfile:
    """Measure a run."""
    return session.profile()


@job("run-again", keeps="branch", title="A branch")
def run_again(session: Session, step: fields.Count, progress: Progress) -> Session:
    """Run the program again from a run on, with the overrides of now."""
    return session.run_again(step, progress=progress)


def read_event(message: object) -> Message:
    """Return a message of a page; raise a UsageError that names the fault."""
    try:
        event: Message = read("PageEvent", message)
    except DataError as error:
        if error.keys == ["event"] and isinstance(message, dict):
            raise UsageError(
                f"the page asks for {quote(message.get('event'))}, which this kernel"
                " does not know: update autodiff-workbench, and reload the page"
            ) from None
        raise UsageError(f"this request of the page cannot be read: {error}") from None
    return event
