"""`History`: what was changed in a session, and how it was before: undo and redo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
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


Inputs = Mapping[int, Any]


class Change(NamedTuple):
    """One change of a session.

    Attributes
    ----------
    text
        What it did, in words.
    entries
        The overrides on the other side of it: before, or, once undone, after.
    before, after
        The values of the inputs that it changed, by their ids.
    drag
        The movement that it is part of: changes of one movement are one.
    """

    text: str
    entries: Entries
    before: Inputs = MappingProxyType({})
    after: Inputs = MappingProxyType({})
    drag: object = None


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

    A change of inputs by hand is one too. Since overrides are values, to undo is to
    take an earlier tuple of them. The last thousand changes are kept. A history never
    changes: a session replaces it.

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

        It takes the place of the last one where both are part of one drag.
        """
        done, last = self._done, self._done[-1] if self._done else None
        if last is not None and change.drag is not None and change.drag == last.drag:
            done, change = done[:-1], change._replace(before=last.before)
        return History((*done[1 - MOST_STEPS :], change))

    def move_steps(
        self, is_undo: bool, now: Entries, steps: int = 1
    ) -> tuple[History, Entries, dict[int, Any]]:
        """Return the history some steps back or forth, with overrides and inputs there.

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
        inputs: dict[int, Any] = {}
        for one in reversed(changes[-steps:]):
            moved.append(one._replace(entries=now))
            now = one.entries
            inputs.update(one.before if is_undo else one.after)
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
