"""`History`: what was changed in a session, and how it was before: undo and redo."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.errors import OverrideError, UsageError
from workbench.overrides.override import Override

#: The most changes that can be undone, so that a long loop does not fill the memory.
MOST_STEPS = 1000


class NumberedOverride(NamedTuple):
    """One override of a session and its number, which stays when it is edited."""

    id: int
    override: Override


Entries = tuple[NumberedOverride, ...]


class EntryValue(NamedTuple):
    """One entry of an input, at a position of the flat array, and a value of it."""

    input: int
    position: int
    value: Any


class Change(NamedTuple):
    """One change of a session.

    Attributes
    ----------
    text
        What it did, in words.
    entries
        The overrides on the other side of it: before, or, once undone, after.
    before, after
        The entry of an input that it changed; None if it changed the overrides.
    drag
        The movement that it is part of: changes of one entry in one movement are one.
    """

    text: str
    entries: Entries
    before: EntryValue | None = None
    after: EntryValue | None = None
    drag: object = None

    def has_same_drag(self, other: Change) -> bool:
        """Return whether both change one entry in one movement."""
        if self.drag is None or self.before is None or other.before is None:
            return False
        return self.drag == other.drag and self.before[:2] == other.before[:2]


def find_entry(entries: Entries, number: int) -> NumberedOverride:
    """Return the override of this number.

    Raises
    ------
    OverrideError
        If there is none; the text lists those that there are.
    """
    for entry in entries:
        if entry.id == number:
            return entry
    known = ", ".join(str(e.id) for e in entries)
    known = f"there are: {known}." if known else "the session has none."
    raise OverrideError(f"there is no override {number}; {known}")


@dataclass(frozen=True, slots=True)
class History:
    """The changes of a session's overrides, with the overrides before each.

    A change of an entry of an input by hand is one too, until a run replaces that
    input. Since overrides are values, to undo is to take an earlier tuple of them. The
    last thousand changes are kept. A history never changes: a session replaces it.

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

    _done: tuple[Change, ...] = ()
    _undone: tuple[Change, ...] = ()

    @property
    def done(self) -> list[str]:
        """The changes, oldest first."""
        return [one.text for one in self._done]

    @property
    def undone(self) -> list[str]:
        """The undone changes, in the order of redo."""
        return [one.text for one in reversed(self._undone)]

    @property
    def undo(self) -> str | None:
        """The last change, which undo takes back; None if there is none."""
        return self._done[-1].text if self._done else None

    @property
    def redo(self) -> str | None:
        """The last undone change, which redo repeats; None if there is none."""
        return self._undone[-1].text if self._undone else None

    def add_change(self, change: Change) -> History:
        """Return the history after one more change, without the undone changes.

        It takes the place of the last one where both move one entry in one drag.
        """
        done = self._done
        if done and change.has_same_drag(done[-1]):
            done, change = done[:-1], change._replace(before=done[-1].before)
        return History((*done[1 - MOST_STEPS :], change))

    def forget_inputs(self, inputs: Collection[int]) -> History:
        """Return the history without the changes of some inputs, by their ids."""

        def is_kept(change: Change) -> bool:
            return change.before is None or change.before.input not in inputs

        done, undone = (tuple(filter(is_kept, x)) for x in (self._done, self._undone))
        return History(done, undone)

    def move_steps(
        self, is_undo: bool, now: Entries, steps: int = 1
    ) -> tuple[History, Entries, list[EntryValue]]:
        """Return the history some steps back or forth, and the overrides there.

        And the entries of inputs to set, one after another.

        Raises
        ------
        UsageError
            If there are not as many.
        """
        word, changes = ("undo", self._done) if is_undo else ("redo", self._undone)
        if type(steps) is not int or steps < 1:
            raise UsageError(f"{word}({steps!r}): the steps are a number from 1.")
        if not changes:
            raise UsageError(f"there is nothing to {word}.")
        if steps > len(changes):
            count = (
                "is 1 change" if len(changes) == 1 else f"are {len(changes)} changes"
            )
            raise UsageError(f"{word}({steps}): there {count} to {word}.")
        moved: list[Change] = []
        inputs: list[EntryValue] = []
        for one in reversed(changes[-steps:]):
            moved.append(one._replace(entries=now))
            now = one.entries
            entry = one.before if is_undo else one.after
            if entry is not None:
                inputs.append(entry)
        remaining = changes[:-steps]
        if is_undo:
            return History(remaining, (*self._undone, *moved)), now, inputs
        return History((*self._done, *moved), remaining), now, inputs

    def __repr__(self) -> str:
        parts = [", ".join(self.done[-10:]) or "nothing done"]
        if self._undone:
            parts.append(", ".join(self.undone[:10]))
        return f"<history: {' | '.join(parts)}>"


#: The history of a new session.
NOTHING_DONE = History()
