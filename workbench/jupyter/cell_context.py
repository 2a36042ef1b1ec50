"""What surrounds the run of a cell: its number, its warnings, interrupts."""

from __future__ import annotations

import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.core import hooks, source
from workbench.core.op import Op

__all__ = ["cell_number", "name_cells", "uninterrupted", "warning_at_lines"]

_NUMBER = re.compile(r"\d+")


def cell_number(shell: Any) -> int:
    """The number that the notebook shows at the cell that runs now."""
    frame = sys._getframe(1)
    while frame is not None:
        label = shell.compile.format_code_name(frame.f_code.co_filename)
        found = _NUMBER.search(label[1]) if label else None
        if found is not None:
            return int(found.group())
        if frame.f_back is None:
            break
        frame = frame.f_back
    return int(shell.execution_count)


@contextmanager
def warning_at_lines() -> Iterator[None]:
    """Let NumPy's warnings name the user's line, not the one where an op computes."""

    def warn(what: str, _: int) -> None:
        frame = sys._getframe(1)
        op = None
        while source.internal(frame) and frame.f_back is not None:
            found = frame.f_locals.get("op")
            op = found if op is None and isinstance(found, Op) else op
            frame = frame.f_back
        where = "" if op is None else f" in {op.name}"
        warnings.warn_explicit(
            f"{what} encountered{where}",
            RuntimeWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            module=frame.f_globals.get("__name__"),
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )

    modes: Any = {k: "call" for k, mode in np.geterr().items() if mode == "warn"}
    with np.errstate(call=warn, **modes):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interrupt back until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[Any] = []
    old = signal.signal(signal.SIGINT, lambda *args: held.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
    if held and callable(old):
        old(*held[0])


#: The shells whose cells are called by their numbers.
_SHELLS: list[Any] = []


def name_cells(shell: Any) -> None:
    """Let every place in a cell of this notebook read ``[3]:1``."""
    if shell not in _SHELLS:
        _SHELLS.append(shell)


@hooks.source.set
def cell_name(filename: str) -> str | None:
    """Return ``"[3]"`` for the file name of the third cell; None for another file."""
    for shell in _SHELLS:
        label = shell.compile.format_code_name(filename)
        if label is not None:
            return str(label[1]).removeprefix("In")
    return None
