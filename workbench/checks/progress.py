"""Progress and budget of a long check: a count, a line in the terminal, a way to stop.

A check computes a function again and again. Each time it asks `tick`, in the one place
where differences are taken, so that whatever checks with differences ends on time, can
be stopped in the middle of a node, and shows that it is at work. What such an end has
left out is listed. How much a check looks at by itself is decided by counts, which are
the same on every machine; only a check that is longer than its budget depends on time.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from numbers import Real
from types import TracebackType
from typing import Literal

from workbench.errors import UsageError

#: Called before each piece of work with (done, all); true stops the check.
Progress = Callable[[int, int], object]

#: Seconds until a check first writes its progress, and between two writes.
FIRST, AGAIN = 1.0, 0.25
#: Seconds that a check may take, where the caller does not say.
BUDGET = 30.0
#: What tells the time.
clock = time.monotonic


class CheckStopped(BaseException):
    """The caller's progress function has asked to stop the check.

    No `Exception`: what a check catches of the user's code is not this.
    """


class BudgetSpent(CheckStopped):
    """The check, or this part of it, has taken the time that it may take."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """One part of a check that was not looked at, or not to its end.

    Attributes
    ----------
    what
        The part in words: ``"matmul 3"``, ``"7 of 9 entries of W"``.
    reason
        ``"budget"``: the time was spent; ``"stopped"``: by the caller; ``"size"``: it
        is too large to be looked at by default.
    """

    what: str
    reason: Literal["budget", "stopped", "size"]

    def __str__(self) -> str:
        return self.what


def _is_number(x: object) -> bool:
    return isinstance(x, Real)


class ProgressMeter:
    """Count the progress of one check; as a context it catches the stop of the check.

    Without a ``progress`` function, a check that takes more than a second writes one
    line in a terminal or a notebook, and wipes it in the end.

    Parameters
    ----------
    progress
        Called with (done, all) before each piece of work, and now and then during one;
        true stops the check.
    total
        How many pieces there are.
    budget
        The seconds that the check may take; None: no limit.
    verb
        What is done to the pieces, as the line of progress says it.

    Attributes
    ----------
    stopped
        Whether the check was stopped: by its ``progress``, or by an interrupt.
    unchecked
        What was not looked at, since the check was stopped or its budget was spent.

    Raises
    ------
    UsageError
        If the budget is no number above 0.

    Examples
    --------
    >>> with ProgressMeter(lambda done, total: done == 2, 5) as meter:
    ...     for _ in range(5):
    ...         meter.step()
    >>> meter.done, meter.total, meter.stopped
    (2, 5, True)

    Work that is done in parts goes on after a part that has spent its share:

    >>> with ProgressMeter(None, budget=1e-9) as meter:
    ...     meter.attempt("the entries of x", meter.step)
    False
    >>> meter.stopped, meter.unchecked
    (False, [Unchecked(what='the entries of x', reason='budget')])
    """

    def __init__(
        self,
        progress: Progress | None,
        total: int = 0,
        budget: float | None = None,
        verb: str = "checked",
    ) -> None:
        if budget is not None and not (_is_number(budget) and budget > 0):
            raise UsageError(
                f"budget={budget!r}: a check takes a number of seconds above 0, or None"
                " for no limit; budget=60 say."
            )
        self.progress = progress
        self.budget = budget
        self.verb = verb
        self.total = total
        self.done = 0
        self.stopped = False
        self.unchecked: list[Unchecked] = []
        self.start = self.last_written = self.last_asked = clock()
        self.deadline = math.inf if budget is None else self.start + budget
        self.width = 0
        self.token: Token[ProgressMeter | None] | None = None

    def __enter__(self) -> ProgressMeter:
        self.token = _ACTIVE.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self.token is not None:
            _ACTIVE.reset(self.token)
        if self.width:
            self.write("")
        if isinstance(error, BudgetSpent):
            return True
        if isinstance(error, (CheckStopped, KeyboardInterrupt)):
            self.stopped = True
            return True
        return False

    # What may be done

    @property
    def is_over(self) -> bool:
        """True if nothing more is to be done: stopped, or the time is spent."""
        return self.stopped or self.is_spent

    @property
    def is_spent(self) -> bool:
        """True if the time for the present work is spent."""
        return clock() >= self.deadline

    @contextmanager
    def limit_share(self, share: float) -> Iterator[None]:
        """Limit the work inside to this share of the time that is left."""
        outer = self.deadline
        if math.isfinite(outer):
            now = clock()
            self.deadline = min(outer, now + share * (outer - now))
        try:
            yield
        finally:
            self.deadline = outer

    def attempt(
        self, what: str, work: Callable[[], object], share: float = 1.0
    ) -> bool:
        """Do a part of the check, if allowed; return whether the part is done.

        Parameters
        ----------
        what
            The part in words; if it is not done to its end, it is listed in
            ``unchecked``. Without words the caller lists it.
        work
            What does it.
        share
            How much of the time that is left it may take.
        """
        if not self.is_over:
            try:
                with self.limit_share(share):
                    work()
                return True
            except BudgetSpent:
                pass
            except (CheckStopped, KeyboardInterrupt):
                self.stopped = True
        if what:
            self.list_unchecked(what)
        return False

    def list_unchecked(self, what: str) -> None:
        """Note a part that was not looked at, or not to its end."""
        reason: Literal["budget", "stopped"] = "stopped" if self.stopped else "budget"
        self.unchecked.append(Unchecked(what, reason))

    # Progress

    def step(self) -> None:
        """Count a piece of work; ask whether to go on.

        Raises
        ------
        CheckStopped
            If the caller's function returns true.
        BudgetSpent
            If the time is spent.
        """
        self.tell(clock(), True)
        self.done += 1

    def report(self, done: int, total: int) -> None:
        """Show how far a piece of work is that is done whatever the time."""
        self.done, self.total = done, total
        outer, self.deadline = self.deadline, math.inf
        try:
            self.tell(clock(), True)
        finally:
            self.deadline = outer

    def tick(self) -> None:
        """Ask whether to go on with a piece of work; raise as `step` does."""
        now = clock()
        self.tell(now, now - self.last_asked > AGAIN)

    def tell(self, now: float, ask: bool) -> None:
        """Show the progress, and raise if the check may not go on."""
        if self.progress is not None:
            if ask:
                self.last_asked = now
                if self.progress(self.done, self.total):
                    raise CheckStopped
        elif now - self.start > FIRST and now - self.last_written > AGAIN:
            self.last_written = now
            self.write(self.format_line())
        if now >= self.deadline:
            raise BudgetSpent

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds that are left; None before the first piece."""
        if not self.done or self.total < self.done:
            return None
        now = clock()
        left = (now - self.start) / self.done * (self.total - self.done)
        return left if self.budget is None else min(left, self.budget)

    def format_line(self) -> str:
        """Return the progress as text: ``checked 120 of 1000, 7 s left``."""
        left = self.seconds_left
        rest = "" if left is None else f", {left:.0f} s left"
        return f"{self.verb} {self.done} of {self.total}{rest}"

    def write(self, text: str) -> None:
        """Overwrite the last line."""
        # A notebook shows all of stderr as an error, an empty line too.
        out = sys.stdout if _is_notebook() else sys.stderr
        if out is sys.stderr and not out.isatty():
            return
        out.write("\r" + text.ljust(self.width) + ("" if text else "\r"))
        out.flush()
        self.width = len(text)


_ACTIVE: ContextVar[ProgressMeter | None] = ContextVar("check", default=None)


def tick() -> None:
    """Ask the check that runs, if one does, whether to go on.

    To be called before each computation of what is checked; raises as
    `ProgressMeter.step` does.
    """
    meter = _ACTIVE.get()
    if meter is not None:
        meter.tick()


def find_meter() -> ProgressMeter | None:
    """Return the meter of the check that runs."""
    return _ACTIVE.get()


def is_spent() -> bool:
    """Return whether the check that runs, if one does, has spent its time."""
    meter = _ACTIVE.get()
    return meter is not None and meter.is_over


def describe_unchecked(
    unchecked: list[Unchecked] | tuple[Unchecked, ...],
    budget: float | None,
    most: int = 6,
) -> list[str]:
    """Return texts on the parts that were not looked at: one text for each reason.

    Examples
    --------
    >>> describe_unchecked([Unchecked("W", "budget"), Unchecked("b", "budget")], 30.0)
    ['not looked at, as the budget of 30 s is spent (budget=None sets no limit): W, b']
    """
    why = {
        "budget": "not looked at, as the budget"
        + ("" if budget is None else f" of {budget:g} s")
        + " is spent (budget=None sets no limit)",
        "stopped": "not looked at, as it was stopped",
        "size": "not looked at by default, for its size",
    }
    texts = []
    for reason, words in why.items():
        some = [one.what for one in unchecked if one.reason == reason]
        if some:
            rest = f" and {len(some) - most} more" if len(some) > most else ""
            texts.append(f"{words}: {', '.join(some[:most])}{rest}")
    return texts


def _is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
