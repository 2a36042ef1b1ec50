"""Long answers in threads of their own, which an interrupt of the kernel stops.

The page's questions arrive in another thread than the cells run in (or in the same
one, in older kernels). While one is answered, others must be too; and a press on
Stop interrupts the kernel, which tells only the main thread.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Work", "listen", "start", "stop"]

_running: set[int] = set()
_lock = threading.Lock()


class Work:
    """Something that runs in a thread of its own."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    @property
    def running(self) -> bool:
        """Whether it has not come to its end."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Raise a KeyboardInterrupt at its next step; nothing once it is over."""
        with _lock:
            if self._thread.ident in _running:
                _interrupt(self._thread.ident)


def start(work: Callable[[], None]) -> Work:
    """Run something in a thread of its own; what stops it is a KeyboardInterrupt."""

    def run() -> None:
        ident = threading.get_ident()
        with _lock:
            _running.add(ident)
        try:
            work()
        except KeyboardInterrupt:
            pass  # stopped after it had answered
        finally:
            _forget(ident)

    thread = threading.Thread(target=run, daemon=True, name="workbench")
    thread.start()
    return Work(thread)


def _forget(ident: int) -> None:
    while True:
        try:
            with _lock:
                _running.discard(ident)
            return
        except KeyboardInterrupt:  # too late to stop anything
            continue


def stop() -> None:
    """Stop all that `start` has started, each at its next step."""
    with _lock:
        for ident in _running:
            _interrupt(ident)


def _interrupt(ident: int | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(ident or 0), ctypes.py_object(KeyboardInterrupt)
    )


def listen() -> None:
    """Let an interrupt of a kernel that runs no cell stop what we have started.

    While a cell runs, an interrupt is the cell's; in between, kernels ignore it.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # no kernel

    def install(left: int) -> None:
        known = signal.getsignal(signal.SIGINT)
        if known is signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupted)
        elif known is not _interrupted and left:
            loop.call_later(0.5, install, left - 1)  # the cell still runs

    if threading.current_thread() is threading.main_thread():
        loop.call_soon(install, 20)


def _interrupted(number: int, frame: Any) -> None:
    stop()
