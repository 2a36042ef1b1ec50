"""The kernel's end of the wire: one session, shown by the pages that ask.

`session/wire/protocol/` says what travels. Changes of the session go out as
patches, at most twenty a second, with at most one that no page has acknowledged;
what comes faster is folded into the next, and the last state always goes out.
`sending.py` knows in which pieces and when, the link who has asked for what.
Every field of a request is checked before it is used; long work runs as a
job, in a thread of its own. Nothing here knows a widget: messages leave through a
function.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from workbench.core.schema import clean_text
from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter.answers import Message, note_shown, read_event
from workbench.jupyter.jobs import (
    Clock,
    Job,
    Jobs,
    Later,
    call_after,
    start,
    stop,
    thread_clock,
)
from workbench.jupyter.sending import PAUSE, Outbox, Pacer, Send
from workbench.session import Session
from workbench.session.inner_program import measure_loops
from workbench.session.wire import (
    Picture,
    Snapshot,
    encode_picture,
    find_changes,
    take_snapshot,
)
from workbench.session.wire.protocol.events import PAGE_REQUESTS
from workbench.session.wire.protocol.requests import REQUESTS, RequestKind

#: Seconds for the effects of overrides in one patch; the others follow in the next.
EFFECTS = 0.03
#: The answer to all requests once the session does not exist any more.
GONE = "The session of this picture has been deleted. Run the cell again."


class Link:
    """The kernel's answers to the pages of one session.

    Parameters
    ----------
    session
        The session that is shown; referred to weakly.
    send
        Takes a message and its buffers.
    is_running
        Tells whether a cell runs, which may hold a loop over the session.
    clock, later, start
        The time in seconds, what calls back after some, and what does long work.
    processor_clock
        The seconds that the process has had of the processor.
    """

    def __init__(
        self,
        session: Session,
        send: Send,
        *,
        is_running: Callable[[], bool] = lambda: False,
        clock: Clock = time.monotonic,
        later: Later = call_after,
        start: Callable[[Callable[[], None]], Any] = start,
        processor_clock: Clock = time.process_time,
    ) -> None:
        self._session = weakref.ref(session)
        note_shown(session)
        self.is_running = is_running
        self._clock = clock
        self._outbox = Outbox(send, clock)
        self._pacer = Pacer(clock, processor_clock, later)
        self._jobs = Jobs(clock, later, start)
        self._lock = threading.RLock()
        #: The last state that was sent; None: none yet.
        self._sent: Snapshot | None = None
        self._stale = False
        #: The last command that waits for the state that it led to, by its request;
        #: whether one of another page waits too; and the last one that had its state.
        self._answering: int | None = None
        self._answers_pages = False
        self._answered = 0
        #: Long requests that are done when the state is sent that they led to: the next
        #: one, or the one that is on its way.
        self._done_requests: list[int] = []
        self._ending_requests: list[int] = []
        # The session keeps the subscription, so it must not keep us.
        self._end = session.subscribe(_make_notifier(weakref.ref(self)))

    def close(self) -> None:
        """Send no more messages."""
        self._end()
        self._outbox.close()

    # Out

    @property
    def is_waiting(self) -> bool:
        """True if the last state will be sent without a further word.

        Read under the session's lock, without which nothing is sent.
        """
        later = self._outbox.is_waiting or self._pacer.has_plan
        return self._stale and later and self._answering is None

    def mark_changed(self) -> None:
        """Send the state of the session soon: the state sent last is outdated."""
        with self._lock:
            self._stale = True
        self._flush()

    def _flush(self) -> None:
        session = self._session()
        if session is None:
            return
        # The session's lock comes first: whoever changes it holds it already.
        with session.lock, self._lock:
            if not self._stale or self._outbox.is_waiting:
                return
            in_loop = self.is_running() and self._answering is None
            left = self._pacer.find_time_left(in_loop)
            if left > 0:
                self._pacer.plan(left, self._resume)
            elif self._sent is not None:
                self._measure_loops(session, in_loop)
                start = thread_clock()
                # In a large program the gradients go first, the effects after them.
                least = 1 if self._sent.unmeasured else 0
                self._send_state(take_snapshot(session, EFFECTS, least, loops=0.0))
                self._pacer.charge(thread_clock() - start)

    def _measure_loops(self, session: Session, in_loop: bool) -> None:
        """Measure gradients along loops; in a loop of Python for a part of its time."""
        left = self._sent.loops_left if self._sent else ()
        if left and self._pacer.may_measure_loops(in_loop):
            start = time.perf_counter()
            measure_loops(session._state, EFFECTS, least=1)
            self._pacer.charge_loops(time.perf_counter() - start)

    def _send_loops(self) -> None:
        self._pacer.end_loops()
        self.mark_changed()

    def _resume(self) -> None:
        with self._lock:
            self._pacer.end_plan()
        self._flush()

    def _send_state(self, new: Snapshot) -> None:
        """Send the changes, or everything to a page that knows nothing."""
        old, self._sent = self._sent, new
        self._stale = bool(new.unmeasured)
        self._ending_requests += self._done_requests
        self._done_requests = []
        if new.loops_left:  # later: the picture goes first
            self._pacer.plan_loops(self.is_running(), self._send_loops)
        if old is not None:
            _copy_effects(new, old)
        answers: int | None = None
        if old is None or old.header["nodes"] != new.header["nodes"]:
            picture = encode_picture(new.header, new.columns, dict[str, Any]())
        else:
            state = self._outbox.state
            found = find_changes(old, new, state)
            if found is None and self._answering is None:
                self._post_done()
                if self._stale:
                    self._pacer.plan(PAUSE, self._resume)
                return
            picture = found or Picture(state, {}, [], [], {})
            if self._answering is not None:
                for key in ("undo", "redo"):
                    picture.header.setdefault(key, new.header[key])
                self._answered = self._answering
            answers = None if self._answers_pages else self._answered
        self._answering, self._answers_pages = None, False
        message = {"type": "picture", "answers": answers, **picture.message}
        if self._outbox.send_state(message, picture.buffers):
            self._note_sent()

    def _note_sent(self) -> None:
        """Note that a state has gone, with the last of its pieces."""
        self._pacer.note_sent()
        self._post_done()

    def _post_done(self) -> None:
        """Send that long requests are done: the state with their findings was sent."""
        finished, self._ending_requests = self._ending_requests, []
        for request in finished:
            self._outbox.post({"type": "done", "request": request})

    # In

    def receive(self, message: Any) -> None:
        """Answer a message of a page; raise no error, whatever the message."""
        request: Any = None
        try:
            if isinstance(message, dict) and type(message.get("request")) is int:
                request = message["request"]
            self._answer(read_event(message))
        except KeyboardInterrupt as error:
            stop()  # it was meant for whatever runs
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
            if request == self._answering:
                self._answering, self._answers_pages = None, False
            self._outbox.post(
                {"type": "failure", "request": request, "message": clean_text(text)}
            )

    def _answer(self, message: Message) -> None:
        event = message["event"]
        session = self._session()
        if session is None:
            raise UsageError(GONE)
        if event == "hello":
            self._introduce(session, message)
        elif event == "ack":
            with self._lock:
                if self._outbox.acknowledge(message["of"]):
                    self._note_sent()
            self._flush()
        elif event == "stop":
            self._jobs.stop(message["of"])
            self._note_command(message["request"])
            self._answer_command()
        else:
            self._answer_request(REQUESTS[event], session, message)

    def _answer_request(
        self, kind: RequestKind, session: Session, message: Message
    ) -> None:
        if kind.kind == "command":
            self._change(session, kind, message)
            self._answer_command()
            return
        # All that is asked about a run of the past is asked of the session at that run.
        at = message.get("at")
        asked = session if at is None else session.find_view(at)
        if kind.kind == "question":
            self._reply(kind, message["request"], kind.call(asked, message))
        else:
            frozen = asked.make_copy()  # it may change while the work is done
            self._begin(kind, message, frozen)

    def _answer_command(self) -> None:
        if self._answering is not None:  # nothing has told the page of it yet
            self.mark_changed()

    def _introduce(self, session: Session, message: Message) -> None:
        """Send everything, unless a copy may still be on its way to the page."""
        with session.lock, self._lock:
            if message.get("again", False) and self._outbox.is_arriving:
                return
            start = self._clock()
            self._sent = None
            self._outbox.set_patience(0.0)
            self._answered = 0  # the page numbers its requests anew
            self._send_state(take_snapshot(session, EFFECTS, loops=0.0))
            self._outbox.set_patience(4 * (self._clock() - start))

    def _change(self, session: Session, kind: RequestKind, message: Message) -> None:
        """Do a command between two steps of the loop that runs the session, if any."""
        with session.lock:
            if self.is_running():
                session.keep_step()
            # Under the lock: what is sent meanwhile does not answer it.
            waiting = self._answering, self._answers_pages
            self._note_command(message["request"])
            try:
                kind.call(session, message)
            except BaseException:
                # The ones before, which are done, still wait for their state.
                if self._answering == message["request"]:
                    self._answering, self._answers_pages = waiting
                raise

    def _note_command(self, request: int) -> None:
        """Answer a command with the next state."""
        with self._lock:
            if self._answering is not None:
                pages = {one // PAGE_REQUESTS for one in (self._answering, request)}
                self._answers_pages |= len(pages) > 1
            self._answering = request

    def end_step(self) -> None:
        """Show the session's present state, now that the cell with the runs is over."""
        session = self._session()
        if session is not None:
            session.end_step()
            self._flush()  # what a loop has left at last need not wait

    def _begin(self, kind: RequestKind, message: Message, frozen: Session) -> None:
        request = message["request"]

        def work(job: Job) -> None:
            known = [*frozen.branches]
            try:
                more = {"progress": job.progress} if kind.reports else {}
                found = kind.call(frozen, message, **more)
                if kind.keeps is None:
                    self._reply(kind, request, found)
                else:
                    self._keep(job, kind.keeps, found, frozen, message.get("at"))
            except (Exception, KeyboardInterrupt) as error:
                # What a branch came to stays, as in Python.
                if frozen.branches != known and self._session() is not None:
                    owner = self._find_owner(message.get("at"))
                    owner.adopt("branch", frozen.branches[-1], frozen)
                self._fail(request, error)

        self._jobs.begin(request, kind, self._post_locked, work)

    def _keep(
        self, job: Job, what: str, found: Any, frozen: Session, at: int | None
    ) -> None:
        """Let the session keep a result, which goes out with the session's state.

        That of a run of the past is shown when the page asks for that run again.
        """
        job.over = True  # what is found is as good as sent: another may begin
        session = self._find_owner(at)
        if at is not None:
            session.adopt(what, found, frozen)
            self._post_locked({"type": "done", "request": job.request})
            return
        with session.lock:
            with self._lock:
                self._done_requests.append(job.request)
            session.adopt(what, found, frozen)

    def _find_owner(self, at: int | None) -> Session:
        """Return the session that keeps the result of a job about a run or the last."""
        session = self._session()
        if session is None:
            raise UsageError(GONE)
        return session if at is None else session.find_view(at)

    def _post_locked(self, message: Message) -> None:
        with self._lock:
            self._outbox.post(message)

    def _reply(self, kind: RequestKind, request: int, found: Any) -> None:
        body, buffers = found, []
        if isinstance(found, Picture):
            body, buffers = found.message, found.buffers
        with self._lock:
            answer = {"type": kind.name, "request": request, **body}
            self._outbox.post(answer, buffers)


def _make_notifier(link: weakref.ref[Link]) -> Callable[[str], object]:
    def notify(_: str) -> None:
        found = link()
        # Told in each step of a loop: most often a state is on its way already.
        if found is not None and not found.is_waiting:
            found.mark_changed()

    return notify


def _copy_effects(new: Snapshot, old: Snapshot) -> None:
    """Fill in the effects that were not measured from those sent before."""
    known = {one["id"]: one for one in old.header["overrides"]}
    for one in new.header["overrides"]:
        before = known.get(one["id"])
        if one["id"] in new.unmeasured and before and before["code"] == one["code"]:
            one["effects"] = before["effects"]
    if new.loops_left:
        # What is told of a loop stays until it is measured again: nothing blinks.
        loops = old.header.get("loops", [])
        stay = [one for one in loops if one["node"] in new.loops_left]
        new.header["loops"] = [*new.header.get("loops", []), *stay]
