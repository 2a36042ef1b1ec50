"""The kernel's end of the wire: one session, shown by the pages that ask.

`extension/src/wire/protocol.ts` says what travels. Changes of the session go out as
patches, at most twenty a second, with at most one that no page has acknowledged;
what comes faster is folded into the next, and the last state always goes out.
What a page may ask for stands in `asked.py`, long work in `jobs.py`. Nothing here
knows a widget: messages leave through a function.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter import worker
from workbench.jupyter.handlers import COMMANDS, LONG, QUESTIONS, cut, integer, plotted
from workbench.jupyter.jobs import Job, Jobs
from workbench.session import Session
from workbench.session.wire import Snapshot, changes, take

__all__ = ["Later", "Link", "after"]

#: Seconds from one patch to the next.
PAUSE = 0.05
#: Seconds for the effects of overrides in one patch; the others follow in the next.
EFFECTS = 0.03

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
        start: Callable[[Callable[[], None]], Any] = worker.start,
    ) -> None:
        self._session = weakref.ref(session)
        self._send = send
        self._clock = clock
        self._later = later
        self._jobs = Jobs(clock, later, start)
        self._lock = threading.RLock()
        self._seq = 0
        #: What the page has been told; None: nothing yet.
        self._told: Snapshot | None = None
        self._unacknowledged: int | None = None
        self._stale = False
        #: A command waits for the state that it led to.
        self._answering = False
        #: Long requests that are done when the state is sent that they led to.
        self._finished: list[int] = []
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
                self._wait(left)
            elif self._told is not None:
                self._tell(take(session, EFFECTS))

    def _wait(self, seconds: float) -> None:
        if not self._waiting:
            self._waiting = True
            self._later(seconds, self._resume)

    def _resume(self) -> None:
        with self._lock:
            self._waiting = False
        self._flush()

    def _tell(self, new: Snapshot) -> None:
        """Send what has changed, or everything to a page that knows nothing."""
        old, self._told = self._told, new
        self._stale = bool(new.unmeasured)
        if old is not None and new.unmeasured:
            _fill(new, old)
        if old is None or old.header["nodes"] != new.header["nodes"]:
            self._post({"type": "snapshot", "header": new.header}, new.buffers)
        else:
            patch = changes(old, new)
            if patch is None and not self._answering:
                self._finish()
                if self._stale:
                    self._wait(PAUSE)
                return
            header, columns, buffers = patch if patch else ({}, [], [])
            if self._answering:
                header = {k: new.header[k] for k in ("undo", "redo")} | header
            self._post({"type": "patch", "header": header, "columns": columns}, buffers)
        self._answering = False
        self._unacknowledged = self._seq
        self._last = self._clock()
        self._finish()

    def _finish(self) -> None:
        """Say of long requests that they are done: what they found has been sent."""
        finished, self._finished = self._finished, []
        for request in finished:
            self._post({"type": "done", "request": request})

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
                self._tell(take(session, EFFECTS))
            return
        if event == "ack":
            with self._lock:
                if message.get("of") == self._unacknowledged:
                    self._unacknowledged = None
            self._flush()
            return
        if request is None:
            raise UsageError(f"{cut(repr(event))} needs a request number")
        if not isinstance(event, str):
            raise UsageError(f"{cut(repr(event))} is no event")
        if event in COMMANDS or event == "stop":
            with self._lock:
                self._answering = True
            if event == "stop":
                self._jobs.stop(integer(message, "of"))
            else:
                COMMANDS[event](session, message)
            self.changed()
        elif event in QUESTIONS:
            self._reply(request, QUESTIONS[event](session, message))
        elif event == "plot":
            frozen = session.frozen()  # it may change while the plot is made
            self._begin(request, event, lambda job: self._plot(job, frozen, message))
        elif event in LONG:
            frozen = session.frozen()
            self._begin(request, event, lambda job: self._work(job, frozen))
        else:
            raise UsageError(
                f"the page asks for {cut(repr(event))}, which this kernel does not"
                " know: update autodiff-workbench, and reload the page"
            )

    def _begin(self, request: int, kind: str, work: Callable[[Job], None]) -> None:
        def guarded(job: Job) -> None:
            try:
                work(job)
            except (Exception, KeyboardInterrupt) as error:
                self._fail(request, error)

        self._jobs.begin(request, kind, self._say, guarded)

    def _plot(self, job: Job, frozen: Session, message: dict[str, Any]) -> None:
        self._reply(job.request, plotted(frozen, message, job.progress))

    def _work(self, job: Job, frozen: Session) -> None:
        """Check or diagnose a session; what is found is told with its state."""
        what, work = LONG[job.kind]
        found = work(frozen, job.progress)
        job.over = True  # what is found is as good as told: another may begin
        session = self._session()
        if session is None:
            raise UsageError("This session is no more. Run the cell again.")
        with session.lock:
            with self._lock:
                self._finished.append(job.request)
            session.adopt(what, found, frozen)
        self.changed()

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._post(message)

    def _reply(self, request: int, answer: dict[str, Any]) -> None:
        with self._lock:
            self._post({**answer, "request": request})


def _notifier(link: weakref.ref[Link]) -> Callable[[str], object]:
    def notify(_: str) -> None:
        found = link()
        if found is not None:
            found.changed()

    return notify


def _fill(new: Snapshot, old: Snapshot) -> None:
    """Where effects have been left out, those that the page was told before."""
    known = {one["id"]: one for one in old.header["overrides"]}
    for one in new.header["overrides"]:
        before = known.get(one["id"])
        if one["id"] in new.unmeasured and before and before["code"] == one["code"]:
            one["effects"] = before["effects"]


def _nowhere(message: dict[str, Any], buffers: list[Any]) -> None:
    """Where messages go after the end."""
