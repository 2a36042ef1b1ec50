"""The overrides of a session as they are, and as they were: undo and redo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from workbench.errors import OverrideError, UsageError
from workbench.overrides.override import Override

#: So many changes can be undone; a loop that switches one must not fill the memory.
MOST_STEPS = 1000


class Entry(NamedTuple):
    """One override of a session and its number, which stays when it is edited."""

    id: int
    override: Override


Entries = tuple[Entry, ...]


def entry_of(entries: Entries, number: int) -> Entry:
    """The override of this number.

    Raises
    ------
    OverrideError
        If there is none; with those that there are.
    """
    for entry in entries:
        if entry.id == number:
            return entry
    known = ", ".join(str(e.id) for e in entries) or "none"
    raise OverrideError(f"there is no override {number}; there are: {known}.")


@dataclass(frozen=True, slots=True)
class History:
    """What was changed, in words, with the overrides as they were before.

    Since overrides are values, going back is taking an earlier tuple of them. The
    last thousand changes are kept. A history never changes: a session swaps it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    >>> one = session.override("tanh", "0.5 * d")
    >>> session.switch(one, False)
    >>> session.undo()
    >>> session.history
    <history: scale ×0.5 on every tanh | switch off scale ×0.5>
    """

    _done: tuple[tuple[str, Entries], ...] = ()
    _undone: tuple[tuple[str, Entries], ...] = ()

    @property
    def done(self) -> list[str]:
        """What was changed, oldest first."""
        return [text for text, _ in self._done]

    @property
    def undone(self) -> list[str]:
        """What was taken back, in the order of redo."""
        return [text for text, _ in reversed(self._undone)]

    @property
    def undo(self) -> str | None:
        """What was changed last; None if nothing was."""
        return self._done[-1][0] if self._done else None

    @property
    def redo(self) -> str | None:
        """What was taken back last; None if nothing was."""
        return self._undone[-1][0] if self._undone else None

    def noted(self, text: str, before: Entries) -> History:
        """The history after one more change; what was taken back is forgotten."""
        return History((*self._done[1 - MOST_STEPS :], (text, before)))

    def stepped(
        self, back: bool, now: Entries, steps: int = 1
    ) -> tuple[History, Entries]:
        """The history after so many steps back (or forth), and where they lead.

        Raises
        ------
        UsageError
            If there are not as many.
        """
        word, left = ("undo", self._done) if back else ("redo", self._undone)
        if type(steps) is not int or steps < 1:
            raise UsageError(f"{word}({steps!r}): the steps are a number from 1.")
        if not left:
            raise UsageError(f"there is nothing to {word}.")
        if steps > len(left):
            there = "is 1 change" if len(left) == 1 else f"are {len(left)} changes"
            raise UsageError(f"{word}({steps}): there {there} to {word}.")
        moved = []
        for text, before in reversed(left[-steps:]):
            moved.append((text, now))
            now = before
        rest = left[:-steps]
        if back:
            return History(rest, (*self._undone, *moved)), now
        return History((*self._done, *moved), rest), now

    def __repr__(self) -> str:
        parts = [", ".join(self.done[-10:]) or "nothing done"]
        if self._undone:
            parts.append(", ".join(self.undone[:10]))
        return f"<history: {' | '.join(parts)}>"


#: That of a session that is new.
NOTHING_DONE = History()
