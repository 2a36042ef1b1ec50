"""A fair lock: a loop that changes a session lets other threads in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def changing(method: F) -> F:
    """A method that one thread at a time may run: the page has one of its own."""

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._turns.lock:
            return method(self, *args, **kwargs)

    return cast(F, alone)


class Turns:
    """A re-entrant lock that goes to those who wait for it in the order they came.

    `threading.RLock` goes to whoever is quickest, which is a loop that has just
    let go of it. Here who comes stands in line first, behind who waits already.

    An interrupt may come between any two steps of Python, but not inside of those
    that take and release a lock of Python's own in a ``with``. So what is handed out
    is one of these: written in Python, a lock that was interrupted as it is taken or
    released would be held for ever.

    >>> turns = Turns()
    >>> with turns.lock, turns.lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._line = threading.Lock()

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock, once it is one's turn: to be taken at once."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            with self._line, self._lock:  # whoever comes next waits behind us
                pass
        return self._lock
