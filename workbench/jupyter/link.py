"""The kernel's end of the wire: one session, shown by the pages that ask.

`extension/src/protocol.ts` says what travels. Changes of the session go out as
patches, at most twenty a second, with at most one that no page has acknowledged;
what comes faster is folded into the next, and the last state always goes out.
Nothing here knows a widget: messages leave through a function.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter import plots, worker
from workbench.session import Session
from workbench.snapshot import Snapshot, changes, detail, read_target, take

__all__ = ["Later", "Link", "after"]

#: Seconds from one patch to the next.
PAUSE = 0.05
#: The longest text that is taken from or sent to the page.
MOST_TEXT = 2000

Send = Callable[[dict[str, Any], list[Any]], object]
Later = Callable[[float, Callable[[], None]], object]


def after(seconds: float, callback: Callable[[], None]) -> threading.Timer:
    """Call back from another thread, for a cell may keep this one busy."""
    timer = threading.Timer(seconds, callback)
    timer.daemon = True
    timer.start()
    return timer


class Link:
    """What answers the page for one session.

    Parameters
    ----------
    session
        What is shown; referred to weakly.
    send
        Takes a message and its buffers.
    clock, later, start
        The time in seconds, what calls back after some, and what does long work.
    """

    def __init__(
        self,
        session: Session,
        send: Send,
        *,
        clock: Callable[[], float] = time.monotonic,
        later: Later = after,
        start: Callable[[Callable[[], None]], object] = worker.start,
    ) -> None:
        self._session = weakref.ref(session)
        self._send = send
        self._clock = clock
        self._later = later
        self._start = start
        self._lock = threading.RLock()
        self._seq = 0
        #: What the page has been told; None: nothing yet.
        self._told: Snapshot | None = None
        self._unacknowledged: int | None = None
        self._stale = False
        #: A command waits for the state that it led to.
        self._answering = False
        self._waiting = False
        self._last = -PAUSE
        # The session keeps the subscription, so it must not keep us.
        self._end = session.subscribe(_notifier(weakref.ref(self)))

    def close(self) -> None:
        """Tell the page nothing more."""
        self._end()
        self._send = _nowhere

    # Out

    def changed(self) -> None:
        """The session is not what the page was told."""
        with self._lock:
            self._stale = True
        self._flush()

    def _flush(self) -> None:
        session = self._session()
        if session is None:
            return
        # The session's lock comes first: whoever changes it holds it already.
        with session.lock, self._lock:
            if not self._stale or self._unacknowledged is not None:
                return
            left = self._last + PAUSE - self._clock()
            if left > 0:
                if not self._waiting:
                    self._waiting = True
                    self._later(left, self._resume)
                return
            if self._told is not None:
                self._tell(take(session))

    def _resume(self) -> None:
        with self._lock:
            self._waiting = False
        self._flush()

    def _tell(self, new: Snapshot) -> None:
        """Send what has changed, or everything to a page that knows nothing."""
        old, self._told = self._told, new
        self._stale = False
        if old is None or old.header["nodes"] != new.header["nodes"]:
            self._post({"type": "snapshot", "header": new.header}, new.buffers)
        else:
            patch = changes(old, new)
            if patch is None and not self._answering:
                return
            header, columns, buffers = patch if patch else ({}, [], [])
            if self._answering:
                header = {k: new.header[k] for k in ("undo", "redo")} | header
            self._post({"type": "patch", "header": header, "columns": columns}, buffers)
        self._answering = False
        self._unacknowledged = self._seq
        self._last = self._clock()

    def _post(self, message: dict[str, Any], buffers: list[Any] | None = None) -> None:
        self._seq += 1
        self._send({**message, "seq": self._seq}, buffers or [])

    # In

    def receive(self, message: Any) -> None:
        """Answer a message of a page; whatever it is, nothing is raised."""
        request: Any = None
        try:
            if not isinstance(message, dict) or message.get("type") != "event":
                raise UsageError("the page sent what is no event")
            request = message.get("request")
            if type(request) is not int:
                request = None
            self._answer(message, request)
        except KeyboardInterrupt as error:
            worker.stop()  # it was meant for whatever runs
            self._fail(request, error)
        except Exception as error:
            self._fail(request, error)

    def _fail(self, request: int | None, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        if isinstance(error, KeyboardInterrupt):
            text = "Stopped."
        elif not isinstance(error, WorkbenchError):
            text = f"{type(error).__name__}: {text}"
        with self._lock:
            self._answering = False
            self._post({"type": "failure", "request": request, "message": cut(text)})

    def _answer(self, message: dict[str, Any], request: int | None) -> None:
        event = message.get("event")
        session = self._session()
        if session is None:
            raise UsageError("This session is no more. Run the cell again.")
        if event == "hello":
            with session.lock, self._lock:
                self._told = None
                self._tell(take(session))
            return
        if event == "ack":
            with self._lock:
                if message.get("of") == self._unacknowledged:
                    self._unacknowledged = None
            self._flush()
            return
        if request is None:
            raise UsageError(f"{cut(repr(event))} needs a request number")
        if event in _COMMANDS:
            with self._lock:
                self._answering = True
            _COMMANDS[event](session, message)
            self.changed()
        elif event in _QUESTIONS:
            self._reply(request, _QUESTIONS[event](session, message))
        elif event == "plot":
            with session.lock:
                frozen = copy(session)  # it may change while the plot is made
            self._start(lambda: self._work(request, frozen, message))
        else:
            raise UsageError(
                f"the page asks for {cut(repr(event))}, which this kernel does not"
                " know: update autodiff-workbench, and reload the page"
            )

    def _work(self, request: int, session: Session, message: dict[str, Any]) -> None:
        try:
            self._reply(request, _plot(session, message))
        except (Exception, KeyboardInterrupt) as error:
            self._fail(request, error)

    def _reply(self, request: int, answer: dict[str, Any]) -> None:
        with self._lock:
            self._post({**answer, "request": request})


def _notifier(link: weakref.ref[Link]) -> Callable[[str], object]:
    def notify(_: str) -> None:
        found = link()
        if found is not None:
            found.changed()

    return notify


def _nowhere(message: dict[str, Any], buffers: list[Any]) -> None:
    """Where messages go after the end."""


def cut(text: str) -> str:
    """A text of bearable length."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


# What the page may ask for


def _inspect(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "detail", **detail(session, _integer(message, "node"))}


def _check_expression(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    try:
        target, rule = _target(message), _text(message, "rule")
        words, ok = session.check_rule(target, rule), True
    except WorkbenchError as error:
        words, ok = str(error), False
    return {"type": "expression", "ok": ok, "message": cut(words)}


def _plot(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    kind, of, wrt = message.get("plot"), message.get("of"), message.get("wrt")
    if of is not None:
        of = _integer(message, "of")
    if not isinstance(wrt, list) or any(type(x) is not int for x in wrt):
        raise UsageError("wrt is no list of nodes")
    by = wrt or None
    if kind == "jacobian":
        plot = plots.jacobian_plot(session, of, by)
    elif kind == "hessian":
        plot = plots.hessian_plot(session, by)
    elif kind == "check":
        plot = plots.check_plot(session, by)
    else:
        raise UsageError(f"there is no plot {cut(repr(kind))}")
    return {
        "type": "plot",
        "title": plot.title,
        "note": plot.note,
        "figure": plot.data,
    }


_QUESTIONS: dict[Any, Callable[[Session, dict[str, Any]], dict[str, Any]]] = {
    "inspect": _inspect,
    "check-expression": _check_expression,
}


def _override(session: Session, message: dict[str, Any]) -> None:
    replacing = _integer(message, "id") if message.get("id") is not None else None
    label = _text(message, "label").strip()
    session.override(
        _target(message),
        _text(message, "rule"),
        name=label or None,
        replacing=replacing,
    )


def _switch(session: Session, message: dict[str, Any]) -> None:
    enabled = message.get("enabled")
    if not isinstance(enabled, bool):
        raise UsageError("enabled is neither true nor false")
    session.switch(_integer(message, "id"), enabled)


def _remove(session: Session, message: dict[str, Any]) -> None:
    session.remove(_integer(message, "id"))


_COMMANDS: dict[Any, Callable[[Session, dict[str, Any]], None]] = {
    "override": _override,
    "switch": _switch,
    "remove": _remove,
    "undo": lambda session, message: session.undo(),
    "redo": lambda session, message: session.redo(),
}


def _integer(message: dict[str, Any], field: str) -> int:
    value = message.get(field)
    if type(value) is not int:
        raise UsageError(f"{field} is no whole number")
    return value


def _text(message: dict[str, Any], field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise UsageError(f"{field} is no text of bearable length")
    return value


def _target(message: dict[str, Any]) -> Any:
    target = message.get("target")
    if not isinstance(target, dict):
        raise UsageError("the target is none")
    return read_target(target)
