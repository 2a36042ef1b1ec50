"""What a page may ask for: every field of a message is looked at before it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter import plotting
from workbench.session import Session
from workbench.session.applied_override import Attached
from workbench.session.wire import detail, read_target

__all__ = ["COMMANDS", "LONG", "QUESTIONS", "cut", "integer", "plotted"]

#: The longest text that is taken from or sent to the page.
MOST_TEXT = 2000

Message = dict[str, Any]
Progress = Callable[[int, int], object]


def cut(text: str) -> str:
    """A text of bearable length, which can be sent: no half of a character."""
    text = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
    return text.encode("utf-8", "backslashreplace").decode()


# Plots


def plotted(session: Session, message: Message, progress: Progress) -> Message:
    """A figure of derivatives, with what it shows of its matrix."""
    kind, of, wrt = message.get("plot"), message.get("of"), message.get("wrt")
    if of is not None:
        of = integer(message, "of")
    if not isinstance(wrt, list) or any(type(x) is not int for x in wrt):
        raise UsageError("wrt is no list of nodes")
    window = read_window(message.get("window"))
    make = PLOTS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise UsageError(f"there is no plot {cut(repr(kind))}")
    plot = make(session, of, wrt or None, window, progress)
    return {
        "type": "plot",
        "title": plot.title,
        "note": plot.note,
        "figure": plot.data,
        "matrix": plot.matrix,
        "views": list(plot.views),
    }


Span = tuple[int, int]


def read_window(window: Any) -> tuple[Span, Span] | None:
    """Rows and columns of a matrix, each from and to; None for all of it."""
    if window is None:
        return None
    if not isinstance(window, dict):
        raise UsageError("the window is neither null nor rows and columns")
    return read_span(window, "rows"), read_span(window, "columns")


def read_span(window: Message, which: str) -> Span:
    """From and to, excluded; empty ones are none."""
    span = window.get(which)
    if (
        not isinstance(span, list)
        or len(span) != 2
        or any(type(x) is not int for x in span)
        or not 0 <= span[0] < span[1]
    ):
        raise UsageError(f"the {which} of the window are no [from, to]")
    return span[0], span[1]


PLOTS: dict[str, Callable[..., Any]] = {
    "jacobian": lambda s, of, by, w, p: plotting.jacobian_plot(s, of, by, w,
        progress=p),
    "hessian": lambda s, of, by, w, p: plotting.hessian_plot(s, by, w, progress=p),
    "singular": lambda s, of, by, w, p: plotting.singular_plot(s, of, by, p),
    "spectrum": lambda s, of, by, w, p: plotting.spectrum_plot(s, by, p),
    "sparsity": lambda s, of, by, w, p: plotting.sparsity_plot(s, of, by, w, p),
    "check": lambda s, of, by, w, p: plotting.check_plot(s, by),
    "steps": lambda s, of, by, w, p: plotting.steps_plot(s, of),
}  # fmt: skip


# Questions


def _inspect(session: Session, message: Message) -> Message:
    return {"type": "detail", **detail(session, integer(message, "node"))}


def _check_expression(session: Session, message: Message) -> Message:
    try:
        # Of an override that is there, its own target: it may be no data.
        known = message.get("id") is not None
        target = _attached(session, message) if known else _target(message)
        words, ok = session.check_rule(target, _text(message, "rule")), True
    except WorkbenchError as error:
        words, ok = str(error), False
    return {"type": "expression", "ok": ok, "message": cut(words)}


QUESTIONS: dict[Any, Callable[[Session, Message], Message]] = {
    "inspect": _inspect,
    "check-expression": _check_expression,
}


# Commands


def _override(session: Session, message: Message) -> None:
    replacing = integer(message, "id") if message.get("id") is not None else None
    label = _text(message, "label").strip()
    session.override(
        _target(message),
        _text(message, "rule"),
        name=label or None,
        replacing=replacing,
    )


def _switch(session: Session, message: Message) -> None:
    enabled = message.get("enabled")
    if not isinstance(enabled, bool):
        raise UsageError("enabled is neither true nor false")
    session.switch(integer(message, "id"), enabled)


def _remove(session: Session, message: Message) -> None:
    session.remove(integer(message, "id"))


def _edit(session: Session, message: Message) -> None:
    label = _text(message, "label").strip()
    session.edit(integer(message, "id"), _text(message, "rule"), name=label or None)


def _fix(session: Session, message: Message) -> None:
    position = integer(message, "finding")
    if position < 0:
        raise UsageError("findings are counted from 0")
    session.fix(position)


def _steps(message: Message) -> int:
    return integer(message, "steps") if message.get("steps") is not None else 1


COMMANDS: dict[Any, Callable[[Session, Message], None]] = {
    "override": _override,
    "switch": _switch,
    "remove": _remove,
    "edit": _edit,
    "move": lambda session, m: session.move(integer(m, "id"), integer(m, "to")),
    "undo": lambda session, message: session.undo(_steps(message)),
    "redo": lambda session, message: session.redo(_steps(message)),
    "fix": _fix,
}


# Long work: what a session keeps of it, and how it is found


LONG: dict[Any, tuple[str, Callable[[Session, Progress], Any]]] = {
    "check": ("report", lambda session, progress: session.check(progress=progress)),
    "diagnose": (
        "findings",
        lambda session, progress: session.diagnose(progress=progress),
    ),
}


# Fields


def integer(message: Message, field: str) -> int:
    """A field that is a whole number."""
    value = message.get(field)
    if type(value) is not int:
        raise UsageError(f"{field} is no whole number")
    return value


def _text(message: Message, field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise UsageError(f"{field} is no text of bearable length")
    return value


def _attached(session: Session, message: Message) -> Attached:
    which = integer(message, "id")
    for one in session.overrides:
        if one.id == which:
            return one
    raise UsageError(f"there is no override {which}")


def _target(message: Message) -> Any:
    target = message.get("target")
    if not isinstance(target, dict):
        raise UsageError("the target is none")
    return read_target(target)
