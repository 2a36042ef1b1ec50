"""What a page may ask of a session: plots, questions, commands, and long work.

Each message is checked by the schema before it is used, and answered from the session
that it is about. Nothing here sends: `link.py` does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from workbench.checks.progress import Progress
from workbench.core.schema import DataError, clean_text, quote
from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter import plots
from workbench.session import Session
from workbench.session.applied_override import AppliedOverride
from workbench.session.wire import (
    encode_preview,
    gather_details,
    list_norms,
    list_peers,
    list_rewrites,
    list_runs,
    read_steps,
    read_target,
    take_inside,
    take_moment,
    take_peer,
    take_program,
)
from workbench.session.wire.protocol.events import (
    CheckExpressionEvent,
    EditEvent,
    InsideEvent,
    InspectEvent,
    MomentEvent,
    NormsEvent,
    OverrideEvent,
    PlotEvent,
    PreviewEvent,
    ProgramEvent,
    SimplifyEvent,
)
from workbench.session.wire.protocol.messages import WindowData
from workbench.session.wire.schema import read

Message = dict[str, Any]


# Plots


def make_plot(session: Session, message: PlotEvent, progress: Progress) -> Message:
    """Return a figure of derivatives, with what it shows of its matrix."""
    window = read_window(message["window"])
    make = PLOTS[message["plot"]]
    of, wrt = message["of"], message["wrt"] or None
    plot = make(session, of, wrt, window, progress, message["overrides"])
    return {
        "type": "plot",
        "title": plot.title,
        "note": plot.page_note,
        "figure": plot.data,
        "matrix": plot.matrix,
        "views": list(plot.views),
        "overrides": [clean_text(text) for text in plot.overrides],
        "is_true": plot.is_true,
        "verdict": plot.verdict,
        "zero": clean_text(plot.zero),
    }


Span = tuple[int, int]


def read_window(window: WindowData | None) -> tuple[Span, Span] | None:
    """Return the rows and columns of a matrix, each from and to; None for all of it."""
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


PLOTS: dict[str, Callable[..., Any]] = {
    "jacobian": lambda s, of, by, w, p, o: plots.jacobian_plot(
        s, of, by, w, progress=p, overrides=o),
    "hessian": lambda s, of, by, w, p, o: plots.hessian_plot(
        s, by, w, progress=p, overrides=o),
    "singular": lambda s, of, by, w, p, o: plots.singular_plot(
        s, of, by, p, overrides=o),
    "spectrum": lambda s, of, by, w, p, o: plots.spectrum_plot(
        s, by, p, overrides=o),
    "sparsity": lambda s, of, by, w, p, o: plots.sparsity_plot(
        s, of, by, w, p, overrides=o),
    "check": lambda s, of, by, w, p, o: plots.check_plot(s, by),
    "steps": lambda s, of, by, w, p, o: plots.steps_plot(s, of),
}  # fmt: skip


def make_preview(session: Session, message: PreviewEvent) -> Message:
    """Return what a node would pass on with a rule that is not attached yet."""
    old = find_override(session, message["id"]) if "id" in message else None
    found = session.preview(
        message["node"],
        read_target(message["target"]),
        message["rule"],
        steps=read_loop_steps(message, old),
        replacing=old,
    )
    passed = encode_preview(session, found)
    return {"type": "preview", "node": found.node, "passed": passed}


# How the derivative is simplified


def list_steps(session: Session, message: SimplifyEvent) -> Message:
    """Return the steps that simplify the derivative."""
    return list_rewrites(session, message["without"])


def draw_program(session: Session, message: ProgramEvent) -> tuple[Message, list[Any]]:
    """Return the derivative after so many steps, with its columns."""
    shown, answer = take_program(session, message["without"], message["step"])
    return answer, shown.buffers


def draw_inside(session: Session, message: InsideEvent) -> tuple[Message, list[Any]]:
    """Return the program inside a node, with its columns."""
    shown, answer = take_inside(session, message["path"])
    return answer, shown.buffers


#: Long work that is an answer, with its buffers: stopped, it has nothing to show.
ANSWERS: dict[str, Callable[[Session, Any, Progress], tuple[Message, list[Any]]]] = {
    "plot": lambda session, m, progress: (make_plot(session, m, progress), []),
    "preview": lambda session, m, progress: (make_preview(session, m), []),
    "simplify": lambda session, m, progress: (list_steps(session, m), []),
    "program": lambda session, m, progress: draw_program(session, m),
    "inside": lambda session, m, progress: draw_inside(session, m),
    # Of a node inside others: a loop around it is run again.
    "inspect": lambda session, m, progress: (inspect_node(session, m), []),
}


# Questions


def inspect_node(session: Session, message: InspectEvent) -> Message:
    """Return the details of a node."""
    return {
        "type": "detail",
        **gather_details(session, message["node"], message.get("path")),
    }


def follow_node(session: Session, message: NormsEvent) -> Message:
    """Return the norms of a node over the runs."""
    return list_norms(session, message["node"])


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
    """Return the other sessions that have been shown, by their names.

    Of several with one name the later ones have a number: "net (2)".
    """
    return {
        name if count == 1 else f"{name} ({count})": other
        for (name, count), other in sorted(SHOWN.items())
        if other is not session
    }


def find_moment(session: Session, message: MomentEvent) -> tuple[Message, list[Any]]:
    """Return a run of the past, or another session, as changes of the picture."""
    if "session" not in message:
        return take_moment(session, message["step"])
    name = message["session"]
    other = find_peers(session).get(name)
    if other is not None:
        return take_peer(session, other)
    raise UsageError(f"there is no other session {quote(name)}: show it first.")


def check_expression(session: Session, message: CheckExpressionEvent) -> Message:
    """Return whether a rule would do, and why not."""
    try:
        # An override that is there keeps its own target, which may be no data.
        known = "id" in message
        target = (
            find_override(session, message["id"])
            if known
            else read_target(message["target"])
        )
        words, ok = session.check_rule(target, message["rule"]), True
    except WorkbenchError as error:
        words, ok = str(error), False
    return {"type": "expression", "ok": ok, "message": clean_text(words)}


QUESTIONS: dict[str, Callable[[Session, Any], Message]] = {
    "inspect": inspect_node,
    "norms": follow_node,
    "peers": lambda session, message: list_peers(session, find_peers(session)),
    "runs": lambda session, message: list_runs(session),
    "check-expression": check_expression,
}


# Commands


def attach_override(session: Session, message: OverrideEvent) -> None:
    """Attach a rule, or replace the rule and the target of an override."""
    old = find_override(session, message["id"]) if "id" in message else None
    session.override(
        read_target(message["target"]),
        message["rule"],
        name=message["label"].strip() or None,
        steps=read_loop_steps(message, old),
        replacing=old,
    )


def edit_override(session: Session, message: EditEvent) -> None:
    """Give an override another rule."""
    old = find_override(session, message["id"])
    session.override(
        old.override.target,
        message["rule"],
        name=message["label"].strip() or None,
        enabled=old.enabled,
        steps=read_loop_steps(message, old),
        replacing=old,
    )


def read_loop_steps(
    message: OverrideEvent | EditEvent | PreviewEvent, old: AppliedOverride | None
) -> int | slice | None:
    """Return the steps of a loop that a rule holds in: as before, if it names none."""
    if "steps" in message:
        return read_steps(message["steps"])
    return None if old is None else old.override.steps


def find_override(session: Session, which: int) -> AppliedOverride:
    """Return an override by its number."""
    for one in session.overrides:
        if one.id == which:
            return one
    raise UsageError(f"there is no override {which}")


COMMANDS: dict[str, Callable[[Session, Any], object]] = {
    "override": attach_override,
    "switch": lambda session, m: session.switch(m["id"], m["enabled"]),
    "remove": lambda session, m: session.remove(m["id"]),
    "edit": edit_override,
    "move": lambda session, m: session.move(m["id"], m["to"]),
    "undo": lambda session, m: session.undo(m["steps"]),
    "redo": lambda session, m: session.redo(m["steps"]),
    "fix": lambda session, m: session.fix(m["finding"]),
}


# Long work: what a session keeps of it, and how it is found


LONG: dict[str, tuple[str, Callable[[Session, Progress], Any]]] = {
    "check": ("report", lambda session, progress: session.check(progress=progress)),
    "diagnose": (
        "findings",
        lambda session, progress: session.diagnose(progress=progress),
    ),
    "profile": ("profile", lambda session, progress: session.profile()),
}


def read_event(message: object) -> Message:
    """Return a message of a page; a UsageError says what is wrong with it."""
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
