"""Long work for the page: one check or diagnosis at a time, and plots.

Each runs in a thread of its own on the session as it was, says how far it is, and can
be stopped. What it finds belongs to the session as it was: if that has changed
meanwhile, it is stale from the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from workbench.errors import UsageError

__all__ = ["Job", "Jobs"]

#: Seconds from one word of progress to the next.
PAUSE = 0.2
#: Seconds after which a job that does not stop by itself is interrupted.
PATIENCE = 1.0
#: So many plots are computed at once.
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
        self._began = self._told = clock()
        self._done = self._total = 0
        self._interrupt: Callable[[], object] | None = None

    def progress(self, done: Any, total: Any) -> bool:
        """Say how far it is, at most five times a second; whether to stop.

        What a check or a diagnosis is given as its ``progress``.
        """
        now = self._clock()
        self._done, self._total = int(done), int(total)
        if now - self._told >= PAUSE and not self.over:
            self._told = now
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
    def words(self) -> str:
        """What it is doing, for who asks for another."""
        what = {"check": "The gradient check", "diagnose": "The doctor"}
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
        """Start one.

        Raises
        ------
        UsageError
            If a check or the doctor is at work and another is asked for, or if too
            many plots are.
        """
        job = Job(request, kind, self._clock, post)
        with self._lock:
            running = self._running()
            plots = [one for one in running if one.kind == "plot"]
            if kind == "plot" and len(plots) >= MOST_PLOTS:
                raise UsageError(
                    f"{len(plots)} plots are computed at the moment: wait for them, or"
                    " stop some."
                )
            others = [one for one in running if one.kind != "plot"]
            if kind != "plot" and others:
                raise UsageError(f"{others[0].words}: wait for it, or stop it.")
            self._known[job] = None

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
        """Let one stop with what it has; one that has nothing to give is interrupted.

        One that is over, or never was, is nothing to stop.
        """
        with self._lock:
            found = [job for job in self._running() if job.request == request]
        for job in found:
            again, job.stopped = job.stopped, True
            if job.kind == "plot" or again:
                job.interrupt()
            else:
                self._later(PATIENCE, job.interrupt)

    def _running(self) -> list[Job]:
        """Those that are still at work; the others are forgotten."""
        # A thread that was interrupted at its very end may not have said so.
        self._known = {
            job: thread
            for job, thread in self._known.items()
            if not job.over and (thread is None or thread.running)
        }
        return list(self._known)
