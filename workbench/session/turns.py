"""A lock that is handed on in turn: a loop that changes a session lets others in."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["Turns"]


class Turns:
    """A lock that who holds it may take again, and that nobody waits for in vain.

    `threading.RLock` goes to whoever is quickest, which is a loop that has just
    let go of it; here it goes to who has waited longest.

    >>> lock = Turns()
    >>> with lock, lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._owner: int | None = None
        self._depth = 0
        self._tickets = 0
        self._serving = 0
        self._left: set[int] = set()

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            if self._owner != me:
                ticket = self._tickets
                self._tickets += 1
                try:
                    while self._serving != ticket:
                        self._changed.wait()
                except BaseException:  # interrupted: nobody waits for this ticket
                    self._left.add(ticket)
                    self._advance()
                    raise
                self._owner = me
            self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._serving += 1
                self._advance()

    def _advance(self) -> None:
        while self._serving in self._left:
            self._left.discard(self._serving)
            self._serving += 1
        self._changed.notify_all()
