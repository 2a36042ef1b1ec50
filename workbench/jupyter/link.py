"""The kernel's end of the wire: one session, shown by the pages that ask.

`session/wire/protocol/` says what travels. Changes of the session go out as
patches, at most twenty a second, with at most one that no page has acknowledged;
what comes faster is folded into the next, and the last state always goes out.
Every field of a request is checked before it is used; long work runs as a
job, in a thread of its own. Nothing here knows a widget: messages leave through a
function.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, cast

from workbench.checks.progress import Progress
from workbench.errors import UsageError, WorkbenchError
from workbench.jupyter import plots
from workbench.session import Session
from workbench.session.applied_override import AppliedOverride
from workbench.session.inside import measure_loops
from workbench.session.wire import (
    Snapshot,
    encode_preview,
    find_changes,
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
    take_snapshot,
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
from workbench.session.wire.schema import WireError, clean_text, quote, read

# Long work for the page: one check, diagnosis or profile at a time, and plots.
#
# Each runs in a thread of its own on the session as it was, says how far it is, and can
# be stopped. What it finds belongs to the session as it was: if that has changed
# meanwhile, it is stale from the first.

#: Seconds from one word of progress to the next.
PROGRESS_PAUSE = 0.2
#: Seconds after which a job that does not stop by itself is interrupted.
PATIENCE = 1.0
#: So many plots, and rewrites of the derivative, are computed at once.
MOST_PLOTS = 8

Clock = Callable[[], float]
Post = Callable[[dict[str, Any]], object]


class Job:
    """One long request.

    Attributes
    ----------
    request, kind
        The number by which the page knows it, and what it asks for.
    stopped
        Whether it was told to stop.
    """

    def __init__(self, request: int, kind: str, clock: Clock, post: Post) -> None:
        self.request = request
        self.kind = kind
        self.stopped = False
        self.over = False
        self._clock = clock
        self._post = post
        self._began = self._sent = clock()
        self._done = self._total = 0
        self._interrupt: Callable[[], object] | None = None

    def progress(self, done: Any, total: Any) -> bool:
        """Send the progress, at most five times a second; return whether to stop.

        A check or a diagnosis calls it as its ``progress``.
        """
        now = self._clock()
        self._done, self._total = int(done), int(total)
        if now - self._sent >= PROGRESS_PAUSE and not self.over:
            self._sent = now
            left = None
            if 0 < self._done <= self._total:
                rest = self._total - self._done
                left = (now - self._began) / self._done * rest
            self._post(
                {
                    "type": "progress",
                    "request": self.request,
                    "done": self._done,
                    "total": self._total,
                    "left": left,
                }
            )
        return self.stopped

    def interrupt(self) -> None:
        """Raise a KeyboardInterrupt in it, wherever it is."""
        if not self.over and self._interrupt is not None:
            self._interrupt()

    @property
    def description(self) -> str:
        """The work that is under way, for a page that asks for another."""
        what = {
            "check": "The gradient check",
            "diagnose": "The doctor",
            "profile": "The profile",
        }
        far = f" ({self._done} of {self._total} nodes)" if self._total else ""
        return f"{what.get(self.kind, 'A plot')} is still at work{far}"


class Jobs:
    """The long requests of one session that have not been answered yet.

    Parameters
    ----------
    clock, later, start
        The time in seconds, what calls back after some, and what does long work: it
        returns something with ``stop`` and ``running``, or None once it is done.
    """

    def __init__(
        self,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], object],
        start: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._clock = clock
        self._later = later
        self._start = start
        self._lock = threading.Lock()
        #: Jobs with their threads; two pages may give two the same number.
        self._known: dict[Job, Any] = {}

    def begin(
        self, request: int, kind: str, post: Post, work: Callable[[Job], None]
    ) -> None:
        """Start a long request.

        Raises
        ------
        UsageError
            If a check, the doctor or a profile is at work and another is asked for, or
            if too many plots are.
        """
        job = Job(request, kind, self._clock, post)
        with self._lock:
            running = self._running()
            plots = [one for one in running if one.kind in ANSWERS]
            if kind in ANSWERS and len(plots) >= MOST_PLOTS:
                raise UsageError(
                    f"{len(plots)} plots are computed at the moment: wait for them, or"
                    " stop some."
                )
            others = [one for one in running if one.kind not in ANSWERS]
            if kind not in ANSWERS and others:
                raise UsageError(f"{others[0].description}: wait for it, or stop it.")
            self._known[job] = None

        if kind == "plot":
            # Not in its thread: a library whose loading is interrupted stays broken.
            import workbench.jupyter.figure  # noqa: F401

        def run() -> None:
            try:
                work(job)
            finally:
                job.over = True

        try:
            thread = self._start(run)
        except BaseException:
            job.over = True
            raise
        job._interrupt = getattr(thread, "stop", None)
        with self._lock:
            if job in self._known:
                self._known[job] = thread

    def stop(self, request: int) -> None:
        """Let a request stop with what it has; interrupt a plot, which has nothing.

        A request that is over, or never was, is left alone.
        """
        with self._lock:
            found = [job for job in self._running() if job.request == request]
        for job in found:
            again, job.stopped = job.stopped, True
            if job.kind in ANSWERS or again:
                job.interrupt()
            else:
                self._later(PATIENCE, job.interrupt)

    def _running(self) -> list[Job]:
        """Return the jobs that are still at work; the others are forgotten."""
        # A thread that was interrupted at its very end may not have said so.
        self._known = {
            job: thread
            for job, thread in self._known.items()
            if not job.over and (thread is None or thread.running)
        }
        return list(self._known)


# Long answers in threads of their own, which an interrupt of the kernel stops.
#
# The page's questions arrive in another thread than the cells run in (or in the same
# one, in older kernels). While one is answered, others must be too; and a press on
# Stop interrupts the kernel, which tells only the main thread.

_running: set[int] = set()
_lock = threading.Lock()


class Work:
    """A call that runs in a thread of its own."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    @property
    def running(self) -> bool:
        """True until the call has come to its end."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Raise a KeyboardInterrupt at its next step; nothing once it is over."""
        with _lock:
            if self._thread.ident in _running:
                _interrupt(self._thread.ident)


def start(work: Callable[[], None]) -> Work:
    """Run a call in a thread of its own, which a KeyboardInterrupt stops."""

    def run() -> None:
        ident = threading.get_ident()
        with _lock:
            _running.add(ident)
        try:
            work()
        except KeyboardInterrupt:
            pass  # stopped after it had answered
        finally:
            _forget(ident)

    thread = threading.Thread(target=run, daemon=True, name="workbench")
    thread.start()
    return Work(thread)


def _forget(ident: int) -> None:
    while True:
        try:
            with _lock:
                _running.discard(ident)
            return
        except KeyboardInterrupt:  # too late to stop anything
            continue


def stop() -> None:
    """Stop all that `start` has started, each at its next step."""
    with _lock:
        for ident in _running:
            _interrupt(ident)


def _interrupt(ident: int | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(ident or 0), ctypes.py_object(KeyboardInterrupt)
    )


def listen() -> None:
    """Let an interrupt of a kernel that runs no cell stop the threads of `start`.

    While a cell runs, an interrupt is the cell's; in between, kernels ignore it.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # no kernel

    def install(left: int) -> None:
        known = signal.getsignal(signal.SIGINT)
        if known is signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupted)
        elif known is not _interrupted and left:
            loop.call_later(0.5, install, left - 1)  # the cell still runs

    if threading.current_thread() is threading.main_thread():
        loop.call_soon(install, 20)


def _interrupted(number: int, frame: Any) -> None:
    stop()


# What a page may ask for. Each message is checked by the schema before it is used.

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
    except WireError as error:
        if error.keys == ["event"] and isinstance(message, dict):
            raise UsageError(
                f"the page asks for {quote(message.get('event'))}, which this kernel"
                " does not know: update autodiff-workbench, and reload the page"
            ) from None
        raise UsageError(f"this request of the page cannot be read: {error}") from None
    return event


# The link

#: Seconds from one patch to the next, at least.
PAUSE = 0.05
#: The part of the processor's time of a loop that its picture may take.
SHARE = 0.015
#: A loop that waits for something else, for data say, takes little of that: by the
#: clock it waits for its picture so many times as long at most.
MOST_WAIT = 4
#: Seconds that Jupyter takes for a patch and its acknowledgement, in other threads.
MESSAGES = 0.004
#: Seconds for the effects of overrides in one patch; the others follow in the next.
EFFECTS = 0.03
#: The part of the time of a loop that the gradients along loops in it may take.
LOOP_SHARE = 0.01
#: Bytes a second of the slowest line that everything is waited for.
SLOWEST = 5e6
#: The answer to all requests once the session does not exist any more.
GONE = "The session of this picture has been deleted. Run the cell again."

Send = Callable[[dict[str, Any], list[Any]], object]
Later = Callable[[float, Callable[[], None]], object]


def call_after(seconds: float, callback: Callable[[], None]) -> threading.Timer:
    """Call back from another thread, for a cell may keep this one busy."""
    timer = threading.Timer(seconds, callback)
    timer.daemon = True
    timer.start()
    return timer


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
        #: Whether all pages do that have said hello: what is sent goes to all of them.
        self._read_parts = True
        self._unacknowledged: int | None = None
        #: When everything that was sent has come to the page, if it is not lost.
        self._arrives = 0.0
        self._stale = False
        #: A command waits for the state that it led to.
        self._answering = False
        #: Long requests that are done when the state is sent that they led to.
        self._done_requests: list[int] = []
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
        self._send = _discard

    # Out

    @property
    def is_waiting(self) -> bool:
        """True if the last state will be sent without a further word.

        Read under the session's lock, without which nothing is sent.
        """
        later = self._unacknowledged is not None or self._due is not None
        return self._stale and later and not self._answering

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
            in_loop = self.is_running() and not self._answering
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
        if not in_loop or waited < PAUSE:
            return PAUSE - waited
        had = self._processor_clock() - self._processor_last
        # Looked at again after a pause at least: each timer is a thread.
        left = self._pause - had
        left = max(left, PAUSE) if left > 0 else 0.0
        return min(left, MOST_WAIT * self._pause - waited)

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
        if new.loops_left:
            self._plan_loops()
        if old is not None:
            _copy_effects(new, old)
        if old is None or old.header["nodes"] != new.header["nodes"]:
            self._post({"type": "snapshot", "header": new.header}, new.buffers)
        else:
            patch = find_changes(old, new, parts=self._read_parts)
            if patch is None and not self._answering:
                self._post_done()
                if self._stale:
                    self._resume_later(PAUSE)
                return
            header, columns, buffers = patch if patch else ({}, [], [])
            if self._answering:
                header = {k: new.header[k] for k in ("undo", "redo")} | header
            message = {"type": "patch", "of": self._sent_seq, "header": header}
            self._post({**message, "columns": columns}, buffers)
        self._answering = False
        self._unacknowledged = self._sent_seq = self._seq
        self._last, self._processor_last = self._clock(), self._processor_clock()
        self._post_done()

    def _post_done(self) -> None:
        """Send that long requests are done: the state with their findings was sent."""
        finished, self._done_requests = self._done_requests, []
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
            self._answering = False
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
            self._flush()
        elif event in COMMANDS or event == "stop":
            with self._lock:
                self._answering = True
            if event == "stop":
                self._jobs.stop(message["of"])
            else:
                self._change(session, event, message)
            if self._answering:  # nothing that it changed has told the page yet
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
            self._read_parts &= bool(message.get("parts"))
            if (
                message.get("again", False)
                and self._unacknowledged is not None
                and self._clock() < self._arrives
            ):
                return
            start = self._clock()
            self._sent = None
            snapshot = take_snapshot(session, EFFECTS, loops=0.0)
            self._send_state(snapshot)
            size = sum(column.nbytes for column in snapshot.columns.values())
            taken = self._clock() - start
            self._arrives = self._clock() + 4 * taken + size / SLOWEST

    def _change(self, session: Session, event: str, message: Message) -> None:
        """Do a command between two steps of the loop that runs the session, if any."""
        with session.lock:
            if self.is_running():
                session.keep_step()
            COMMANDS[event](session, message)

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
