"""The overrides of a session as they are, and as they were: undo and redo."""

from __future__ import annotations

from typing import NamedTuple

from workbench.errors import OverrideError, UsageError
from workbench.transforms.overrides import Override

__all__ = ["Entries", "Entry", "History", "entry_of"]


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


class History:
    """What was changed, in words, with the overrides as they were before.

    Since overrides are values, going back is taking an earlier tuple of them.
    """

    def __init__(self) -> None:
        self._done: list[tuple[str, Entries]] = []
        self._undone: list[tuple[str, Entries]] = []

    @property
    def undo(self) -> str | None:
        """What was changed last; None if nothing was."""
        return self._done[-1][0] if self._done else None

    @property
    def redo(self) -> str | None:
        """What was taken back last; None if nothing was."""
        return self._undone[-1][0] if self._undone else None

    def note(self, text: str, before: Entries) -> None:
        """Write down a change that has been made."""
        self._done.append((text, before))
        self._undone.clear()

    def peek(self, back: bool) -> Entries:
        """The overrides that one step back (or forth) leads to."""
        steps = self._done if back else self._undone
        if not steps:
            raise UsageError(f"there is nothing to {'undo' if back else 'redo'}.")
        return steps[-1][1]

    def step(self, back: bool, now: Entries) -> None:
        """Write down that this step was taken from the overrides ``now``."""
        source, other = self._done, self._undone
        if not back:
            source, other = other, source
        text, _ = source.pop()
        other.append((text, now))
