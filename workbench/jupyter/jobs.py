"""Long work for the page: one check, diagnosis or profile at a time, and plots.

Each runs in a thread of its own on the session as it was, says how far it is, and can
be stopped. What it finds belongs to the session as it was: if that has changed
meanwhile, it is stale from the first.

The Python of a browser has no threads: there the event loop does this work between two
cells, and what has begun is done to its end.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.errors import UsageError
from workbench.session.wire.protocol.requests import RequestKind

#: Seconds from one word of progress to the next.
PROGRESS_PAUSE = 0.2
#: Seconds after which a job that does not stop by itself is interrupted.
PATIENCE = 1.0
#: So many plots, and rewrites of the derivative, are computed at once.
MOST_PLOTS = 8

#: Whether this Python runs in a browser: without threads, processes and compilers.
IN_BROWSER = sys.platform == "emscripten"

Clock = Callable[[], float]
Post = Callable[[dict[str, Any]], object]
Later = Callable[[float, Callable[[], None]], object]

#: The seconds that this thread has had of the processor.
thread_clock: Clock = getattr(time, "thread_time", time.process_time)


def call_after(seconds: float, callback: Callable[[], None]) -> object:
    """Call back, from another thread if there are any: a cell may keep this busy."""
    if IN_BROWSER:
        return asyncio.get_running_loop().call_later(seconds, callback)
    timer = threading.Timer(seconds, callback)
    timer.daemon = True
    timer.start()
    return timer


class Job:
    """One long request.

    Attributes
    ----------
    request, kind
        The number by which the page knows it, and what it asks for.
    stopped
        Whether it was told to stop.
    """

    def __init__(
        self, request: int, kind: RequestKind, clock: Clock, post: Post
    ) -> None:
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
        """Raise a KeyboardInterrupt in the job, at any point."""
        if not self.over and self._interrupt is not None:
            self._interrupt()

    @property
    def description(self) -> str:
        """The work that is under way, for a page that asks for another."""
        far = f" ({self._done} of {self._total} nodes)" if self._total else ""
        return f"{self.kind.title} is still at work{far}"

    @property
    def is_answer(self) -> bool:
        """True for an answer, like a plot, with nothing to show when stopped."""
        return self.kind.keeps is None


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
        self, request: int, kind: RequestKind, post: Post, work: Callable[[Job], None]
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
            plots = [one for one in running if one.is_answer]
            if job.is_answer and len(plots) >= MOST_PLOTS:
                raise UsageError(
                    f"{len(plots)} plots are computed at the moment: wait for them, or"
                    " stop some."
                )
            others = [one for one in running if not one.is_answer]
            if not job.is_answer and others:
                raise UsageError(f"{others[0].description}: wait for it, or stop it.")
            self._known[job] = None

        if kind.name == "plot":
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
        """Let a request stop with its result so far; interrupt a plot, which has none.

        A request that is over, or never was, is left alone.
        """
        with self._lock:
            found = [job for job in self._running() if job.request == request]
        for job in found:
            again, job.stopped = job.stopped, True
            if job.is_answer or again:
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
        """Raise a KeyboardInterrupt at the work's next step; do nothing once over."""
        with _lock:
            if self._thread.ident in _running:
                _interrupt(self._thread.ident)


class LoopWork:
    """A call that the event loop makes as soon as it can; nothing stops it midway."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.running = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self.running = False

    def stop(self) -> None:
        """Do nothing: a job that has not begun sees by itself that it was stopped."""


def start(work: Callable[[], None]) -> Work | LoopWork:
    """Run a call in a thread of its own, which a KeyboardInterrupt stops."""
    if IN_BROWSER:
        return LoopWork(work)

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
