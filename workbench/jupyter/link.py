"""The kernel's end of the wire: one session, shown by the pages that ask.

`session/wire/protocol/` says what travels. Changes of the session go out as
patches, at most twenty a second, with at most one that no page has acknowledged;
what comes faster is folded into the next, and the last state always goes out. A large
state goes out in pieces, each acknowledged before the next.
Every field of a request is checked before it is used; long work runs as a
job, in a thread of its own. Nothing here knows a widget: messages leave through a
function.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from workbench.core.schema import clean_text
from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter.answers import (
    ANSWERS,
    COMMANDS,
    LONG,
    QUESTIONS,
    Message,
    find_moment,
    note_shown,
    read_event,
)
from workbench.jupyter.jobs import Clock, Job, Jobs, Later, call_after, start, stop
from workbench.session import Session
from workbench.session.inner_program import measure_loops
from workbench.session.wire import (
    Snapshot,
    cut_state,
    find_changes,
    take_snapshot,
)
from workbench.session.wire.protocol.events import (
    PAGE_REQUESTS,
    MomentEvent,
)

#: Seconds from one patch to the next, at least.
PAUSE = 0.05
#: The part of the processor's time of a loop that its picture may take.
SHARE = 0.015
#: A loop that waits for something else, for data say, takes little of that: by the
#: clock it waits for its picture so many times as long at most.
MOST_WAIT = 4
#: Seconds that Jupyter takes for a patch and its acknowledgement, in other threads.
MESSAGES = 0.005
#: Seconds for the effects of overrides in one patch; the others follow in the next.
EFFECTS = 0.03
#: The part of the time of a loop that the gradients along loops in it may take.
LOOP_SHARE = 0.01
#: Bytes a second of the slowest line that everything is waited for.
SLOWEST = 5e6
#: The answer to all requests once the session does not exist any more.
GONE = "The session of this picture has been deleted. Run the cell again."

Send = Callable[[dict[str, Any], list[Any]], object]


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
        self._send = send
        self.is_running = is_running
        self._clock = clock
        self._processor_clock = processor_clock
        self._later = later
        self._jobs = Jobs(clock, later, start)
        self._lock = threading.RLock()
        self._seq = 0
        #: The last state that was sent; None: none yet.
        self._sent: Snapshot | None = None
        #: The number of the message with it.
        self._sent_seq = 0
        #: The number of the last message of a state, or piece of one.
        self._unacknowledged: int | None = None
        #: What is left to send of that state, once it is acknowledged.
        self._rest: deque[tuple[Message, list[Any]]] = deque()
        #: When that message has come to the page, if it is not lost; and how long the
        #: page may be held up.
        self._arrives = self._patience = 0.0
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
        #: When the state is to be sent that waits; None if none does.
        self._due: float | None = None
        #: When the last patch went out, by both clocks.
        self._last = -PAUSE
        self._processor_last = -PAUSE
        #: How much of the processor a loop is to have after that, not to be held up.
        self._pause = 0.0
        #: When loops may be measured again while a cell runs; whether that is planned.
        self._loops_due = 0.0
        self._has_planned = False
        # The session keeps the subscription, so it must not keep us.
        self._end = session.subscribe(_make_notifier(weakref.ref(self)))

    def close(self) -> None:
        """Send no more messages."""
        self._end()
        self._rest.clear()
        self._send = _discard

    # Out

    @property
    def is_waiting(self) -> bool:
        """True if the last state will be sent without a further word.

        Read under the session's lock, without which nothing is sent.
        """
        later = self._unacknowledged is not None or self._due is not None
        return self._stale and later and self._answering is None

    def mark_changed(self) -> None:
        """Send the state of the session soon: it differs from the last one sent."""
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
            in_loop = self.is_running() and self._answering is None
            left = self._find_time_left(in_loop)
            if left > 0:
                self._resume_later(left)
            elif self._sent is not None:
                self._measure_loops(session, in_loop)
                start = time.thread_time()
                # In a large program the gradients go first, the effects after them.
                least = 1 if self._sent.unmeasured else 0
                self._send_state(take_snapshot(session, EFFECTS, least, loops=0.0))
                # Whichever thread has done it, a loop of Python stood still meanwhile.
                spent = time.thread_time() - start + MESSAGES
                self._pause = spent / SHARE

    def _find_time_left(self, in_loop: bool) -> float:
        """Return the seconds until a patch may go out, by the clock.

        A loop counts by what it has had of the processor, as the cost of a patch does:
        on a busy machine its picture comes as much less often as it is slower.
        """
        waited = self._clock() - self._last
        if not in_loop:
            return PAUSE - waited
        had = self._processor_clock() - self._processor_last
        left = self._pause - had
        if left > 0:
            # Looked at again when it has had that at its pace so far, and after a pause
            # at least: each timer is a thread.
            pace = had / waited if waited > PAUSE else 1.0
            left = max(left / pace if pace > 0 else left, PAUSE)
        return max(min(left, MOST_WAIT * self._pause - waited), PAUSE - waited)

    def _resume_later(self, seconds: float) -> None:
        due = self._clock() + seconds
        if self._due is None or due < self._due:
            self._due = due
            self._later(seconds, self._resume)

    def _measure_loops(self, session: Session, in_loop: bool) -> None:
        """Measure gradients along loops; in a loop of Python for a part of its time."""
        left = self._sent.loops_left if self._sent else ()
        if not left or (in_loop and self._clock() < self._loops_due):
            return
        start = time.perf_counter()
        measure_loops(session._state, EFFECTS, least=1)
        spent = time.perf_counter() - start
        self._loops_due = self._clock() + spent / LOOP_SHARE

    def _plan_loops(self) -> None:
        """Send the gradients along loops later: the picture goes first."""
        if not self._has_planned:
            self._has_planned = True
            due = self._loops_due - self._clock() if self.is_running() else 0.0
            self._later(max(PAUSE, due), self._send_loops)

    def _send_loops(self) -> None:
        self._has_planned = False
        self.mark_changed()

    def _resume(self) -> None:
        with self._lock:
            self._due = None
        self._flush()

    def _send_state(self, new: Snapshot) -> None:
        """Send what has changed, or everything to a page that knows nothing."""
        old, self._sent = self._sent, new
        self._stale = bool(new.unmeasured)
        self._ending_requests += self._done_requests
        self._done_requests = []
        if new.loops_left:
            self._plan_loops()
        if old is not None:
            _copy_effects(new, old)
        if old is None or old.header["nodes"] != new.header["nodes"]:
            buffers = new.buffers
            message: Message = {"type": "snapshot", "header": new.header}
        else:
            patch = find_changes(old, new)
            if patch is None and self._answering is None:
                self._post_done()
                if self._stale:
                    self._resume_later(PAUSE)
                return
            header, columns, buffers = patch if patch else ({}, [], [])
            if self._answering is not None:
                header = {k: new.header[k] for k in ("undo", "redo")} | header
                self._answered = self._answering
            answers = None if self._answers_pages else self._answered
            message = {
                "type": "patch", "of": self._sent_seq, "answers": answers,
                "header": header, "columns": columns,
            }  # fmt: skip
        self._answering, self._answers_pages = None, False
        self._rest = deque(cut_state(message, buffers, self._seq + 1))
        self._send_next()

    def _send_next(self) -> None:
        """Send a piece of the state that is on its way, or what ends it."""
        message, buffers = self._rest.popleft()
        self._post(message, buffers)
        self._unacknowledged = self._seq
        size = sum(buffer.nbytes for buffer in buffers)
        self._arrives = self._clock() + self._patience + size / SLOWEST
        if not self._rest:
            self._sent_seq = self._seq
            self._last, self._processor_last = self._clock(), self._processor_clock()
            self._post_done()

    def _post_done(self) -> None:
        """Send that long requests are done: the state with their findings was sent."""
        finished, self._ending_requests = self._ending_requests, []
        for request in finished:
            self._post({"type": "done", "request": request})

    def _post(self, message: Message, buffers: list[Any] | None = None) -> None:
        self._seq += 1
        self._send({**message, "seq": self._seq}, buffers or [])

    # In

    def receive(self, message: Any) -> None:
        """Answer a message of a page; whatever it is, nothing is raised."""
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
            self._post(
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
                if message["of"] == self._unacknowledged:
                    self._unacknowledged = None
                    if self._rest:
                        self._send_next()
            self._flush()
        elif event in COMMANDS or event == "stop":
            if event == "stop":
                self._jobs.stop(message["of"])
                self._note_command(message["request"])
            else:
                self._change(session, event, message)
            if self._answering is not None:  # nothing has told the page of it yet
                self.mark_changed()
        elif event == "moment":
            self._reply(
                message["request"], *find_moment(session, cast(MomentEvent, message))
            )
        elif event in QUESTIONS and "path" not in message:
            self._reply(message["request"], QUESTIONS[event](session, message))
        elif event in ANSWERS:
            frozen = session.make_copy()  # it may change while the plot is made
            self._begin(message, lambda job: self._show(job, frozen, message))
        else:
            frozen = session.make_copy()
            self._begin(message, lambda job: self._work(job, frozen))

    def _introduce(self, session: Session, message: Message) -> None:
        """Send everything; not again while it may still be on its way to the page."""
        with session.lock, self._lock:
            if (
                message.get("again", False)
                and self._unacknowledged is not None
                and self._clock() < self._arrives
            ):
                return
            start = self._clock()
            self._sent = None
            self._patience = 0.0
            self._answered = 0  # the page numbers its requests anew
            self._send_state(take_snapshot(session, EFFECTS, loops=0.0))
            self._patience = 4 * (self._clock() - start)
            self._arrives += self._patience

    def _change(self, session: Session, event: str, message: Message) -> None:
        """Do a command between two steps of the loop that runs the session, if any."""
        with session.lock:
            if self.is_running():
                session.keep_step()
            # Under the lock: what is sent meanwhile does not answer it.
            waiting = self._answering, self._answers_pages
            self._note_command(message["request"])
            try:
                COMMANDS[event](session, message)
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
        """Let the session be seen as it is: the cell that ran it is over."""
        session = self._session()
        if session is not None:
            session.end_step()
            self._flush()  # what a loop has left at last need not wait

    def _begin(self, message: Message, work: Callable[[Job], None]) -> None:
        request = message["request"]

        def guarded(job: Job) -> None:
            try:
                work(job)
            except (Exception, KeyboardInterrupt) as error:
                self._fail(request, error)

        self._jobs.begin(request, message["event"], self._post_locked, guarded)

    def _show(self, job: Job, frozen: Session, message: Message) -> None:
        answer, buffers = ANSWERS[job.kind](frozen, message, job.progress)
        self._reply(job.request, answer, buffers)

    def _work(self, job: Job, frozen: Session) -> None:
        """Check, diagnose or measure a session; what is found goes with its state."""
        what, work = LONG[job.kind]
        found = work(frozen, job.progress)
        job.over = True  # what is found is as good as sent: another may begin
        session = self._session()
        if session is None:
            raise UsageError(GONE)
        with session.lock:
            with self._lock:
                self._done_requests.append(job.request)
            session.adopt(what, found, frozen)

    def _post_locked(self, message: Message) -> None:
        with self._lock:
            self._post(message)

    def _reply(
        self, request: int, answer: Message, buffers: list[Any] | None = None
    ) -> None:
        with self._lock:
            self._post({**answer, "request": request}, buffers)


def _make_notifier(link: weakref.ref[Link]) -> Callable[[str], object]:
    def notify(_: str) -> None:
        found = link()
        # Told in each step of a loop: most often a state is on its way already.
        if found is not None and not found.is_waiting:
            found.mark_changed()

    return notify


def _copy_effects(new: Snapshot, old: Snapshot) -> None:
    """Fill in what was not measured with what was sent before."""
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


def _discard(message: Message, buffers: list[Any]) -> None:
    """Drop a message: the link is closed."""
