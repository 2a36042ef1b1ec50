"""How far a long check is: counted, told softly, stopped when asked to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

#: Called before each piece of work with (done, all); true stops the check.
Progress = Callable[[int, int], object]

#: After so many seconds a check says how far it is, and then as often.
FIRST, AGAIN = 1.0, 0.25


class Stopped(Exception):
    """The caller's progress function has said that it is enough."""


class Telling:
    """The progress of one check; as a context it ends quietly what was stopped.

    Without a ``progress`` of the caller's, what takes more than a second writes one
    line about itself in a terminal or a notebook, and wipes it in the end.

    Attributes
    ----------
    stopped
        Whether the check was stopped: by its ``progress``, or by an interrupt.

    Examples
    --------
    >>> with Telling(lambda done, total: done == 2, 5) as telling:
    ...     for _ in range(5):
    ...         telling.step()
    >>> telling.done, telling.total, telling.stopped
    (2, 5, True)
    """

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.stopped = False
        self.start = self.told = time.monotonic()
        self.shown = 0

    def __enter__(self) -> Telling:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self.shown:
            self.write("")
        self.stopped = isinstance(error, (Stopped, KeyboardInterrupt))
        return self.stopped

    def step(self) -> None:
        """Count a piece of work; ask whether to go on.

        Raises
        ------
        Stopped
            If the caller's function has said so.
        """
        if self.progress is not None:
            if self.progress(self.done, self.total):
                raise Stopped
        else:
            now = time.monotonic()
            if now - self.start > FIRST and now - self.told > AGAIN:
                self.told = now
                self.write(self.line())
        self.done += 1

    @property
    def left(self) -> float | None:
        """Seconds left, if the rest goes as what is done; None before any is."""
        if not self.done or self.total < self.done:
            return None
        return (time.monotonic() - self.start) / self.done * (self.total - self.done)

    def line(self) -> str:
        """``checked 120 of 1000, 7 s left``."""
        left = self.left
        rest = "" if left is None else f", {left:.0f} s left"
        return f"checked {self.done} of {self.total}{rest}"

    def write(self, text: str) -> None:
        """Put a line in the place of the last one."""
        # A notebook shows all of stderr as an error, an empty line too.
        out = sys.stdout if _notebook() else sys.stderr
        if out is sys.stderr and not out.isatty():
            return
        out.write("\r" + text.ljust(self.shown) + ("" if text else "\r"))
        out.flush()
        self.shown = len(text)


def _notebook() -> bool:
    """Return whether this is the kernel of a notebook."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
