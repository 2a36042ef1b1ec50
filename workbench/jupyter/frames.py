"""Names bound to an object, in the functions that run now.

An item assignment in a cell makes a new value, and every name that was bound to
the old one has to follow: names of the notebook, and local names of functions on
the way from the cell to the assignment.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

__all__ = ["REFERENCES", "locals_of", "rebind", "running"]

#: From 3.13 on, what is written into `frame.f_locals` reaches the function.
WRITES_THROUGH = sys.version_info >= (3, 13)

#: References to a local value: before that, the frame keeps a dict of them too.
REFERENCES = 1 if WRITES_THROUGH else 2


def running() -> Iterator[FrameType]:
    """The functions of the user that run now, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_locals is not frame.f_globals:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("workbench."):
            yield frame
        frame = frame.f_back


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local names of a function that runs, as they are now."""
    return dict(frame.f_locals)


def rebind(frame: FrameType, old: object, new: object) -> None:
    """Bind every local name that means ``old`` to ``new``."""
    names = frame.f_locals
    found = [name for name, value in names.items() if value is old]
    for name in found:
        names[name] = new
    if found and not WRITES_THROUGH and frame.f_code.co_flags & CO_OPTIMIZED:
        # What debuggers do: write the names back into the running function.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
