"""Which function of SciPy or scikit-learn asks a Tensor for its numbers.

NumPy lets a Tensor answer; SciPy takes it for an array of Python objects. So the
error says which of its functions the user called, and what to call instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np

__all__ = ["instead", "library_call", "numpy_call"]

LIBRARIES = ("scipy.", "sklearn.")


def library_call(frame: FrameType | None) -> str | None:
    """The function of SciPy or scikit-learn that asks; None if neither does.

    It is the one that the user called: the outermost public one of the library, in
    a run of frames that belong to the library or to NumPy.
    """
    first = True
    found: str | None = None
    while frame is not None:
        home: str = frame.f_globals.get("__name__", "")
        if home.startswith(LIBRARIES):
            first = False
            found = _public(frame, home) or found or home.partition("._")[0]
        elif first and not home.startswith("numpy"):
            return None
        elif not home.startswith(("numpy", "contextlib")):
            return found
        frame = frame.f_back
    return found


def numpy_call(frame: FrameType | None) -> str | None:
    """The function of NumPy that the user called and that runs; None: none does."""
    found: str | None = None
    while frame is not None:
        home: str = frame.f_globals.get("__name__", "")
        if home.partition(".")[0] != "numpy":
            return found
        name = frame.f_code.co_name
        if not name.startswith("_") and callable(getattr(np, name, None)):
            found = f"np.{name}"
        frame = frame.f_back
    return found


def _public(frame: FrameType, home: str) -> str | None:
    """The public name of the function that a frame runs, if it has one."""
    name = frame.f_code.co_name
    owner = frame.f_locals.get("self")
    if name in ("__init__", "__call__"):
        name = type(owner).__name__
    if name.startswith("_"):
        return None
    parts = home.split(".")
    count = next((i for i, p in enumerate(parts) if p.startswith("_")), len(parts))
    for length in range(count, 1, -1):
        module = sys.modules.get(".".join(parts[:length]))
        made: Callable[..., Any] | None = getattr(module, name, None)
        if callable(made):
            return ".".join((*parts[:length], name))
        # A method, such as that of a distribution: scipy.stats.norm.logpdf.
        label = getattr(owner, "name", None)
        if isinstance(label, str) and hasattr(module, label):
            return ".".join((*parts[:length], label, name))
        kind = type(owner).__name__
        if owner is not None and hasattr(module, kind):
            return ".".join((*parts[:length], kind, name))
    return None


def instead(called: str) -> str:
    """What to write in place of a function of SciPy, as the cure of an error."""
    home, _, name = called.rpartition(".")
    own = f"workbench.{home}"
    if called.startswith("scipy.") and hasattr(_module(own), name):
        return f"Write {own}.{name}, which does"
    return "Write it with NumPy's functions, which do"


def _module(name: str) -> Any:
    """A module, or an object of one; None if there is none of this name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise  # something else is missing
    home, _, last = name.rpartition(".")
    return getattr(_module(home), last, None) if "." in home else None
