"""Progress of a long check: a count, a line in the terminal, a way to stop it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

#: Called before each piece of work with (done, all); true stops the check.
Progress = Callable[[int, int], object]

#: Seconds until a check first writes its progress, and between two writes.
FIRST, AGAIN = 1.0, 0.25


class CheckStopped(Exception):
    """The caller's progress function has asked to stop the check."""


class ProgressMeter:
    """Count the progress of one check; as a context it catches the stop of the check.

    Without a ``progress`` function, a check that takes more than a second writes one
    line in a terminal or a notebook, and wipes it in the end.

    Attributes
    ----------
    stopped
        Whether the check was stopped: by its ``progress``, or by an interrupt.

    Examples
    --------
    >>> with ProgressMeter(lambda done, total: done == 2, 5) as meter:
    ...     for _ in range(5):
    ...         meter.step()
    >>> meter.done, meter.total, meter.stopped
    (2, 5, True)
    """

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.stopped = False
        self.start = self.last_written = time.monotonic()
        self.width = 0

    def __enter__(self) -> ProgressMeter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self.width:
            self.write("")
        self.stopped = isinstance(error, (CheckStopped, KeyboardInterrupt))
        return self.stopped

    def step(self) -> None:
        """Count a piece of work; ask whether to go on.

        Raises
        ------
        Stopped
            If the caller's function returns true.
        """
        if self.progress is not None:
            if self.progress(self.done, self.total):
                raise CheckStopped
        else:
            now = time.monotonic()
            if now - self.start > FIRST and now - self.last_written > AGAIN:
                self.last_written = now
                self.write(self.format_line())
        self.done += 1

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds that are left; None before the first piece."""
        if not self.done or self.total < self.done:
            return None
        return (time.monotonic() - self.start) / self.done * (self.total - self.done)

    def format_line(self) -> str:
        """Return the progress as text: ``checked 120 of 1000, 7 s left``."""
        left = self.seconds_left
        rest = "" if left is None else f", {left:.0f} s left"
        return f"checked {self.done} of {self.total}{rest}"

    def write(self, text: str) -> None:
        """Overwrite the last line."""
        # A notebook shows all of stderr as an error, an empty line too.
        out = sys.stdout if _is_notebook() else sys.stderr
        if out is sys.stderr and not out.isatty():
            return
        out.write("\r" + text.ljust(self.width) + ("" if text else "\r"))
        out.flush()
        self.width = len(text)


def _is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
