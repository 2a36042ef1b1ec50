"""Which function of SciPy or scikit-learn asks a Tensor for its numbers.

NumPy lets a Tensor answer; SciPy takes it for an array of Python objects. So the
error says which of its functions the user called, and what to call instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from types import CellType, FrameType
from typing import Any

import numpy as np

__all__ = ["instead", "library_call", "numpy_call"]

LIBRARIES = ("scipy.", "sklearn.")

#: What SciPy appends to a distribution's name in those of its classes.
_FAMILY = re.compile("_(gen|frozen)$")


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
        if home.endswith("._methods"):  # where x.mean() and np.mean(x) both run
            name = name.removeprefix("_")
        rooms = [("np", np)]
        if home.startswith(("numpy.linalg", "numpy.fft")):
            room = home.split(".")[1]
            rooms.append((f"np.{room}", getattr(np, room)))
        for label, module in rooms:
            if not name.startswith("_") and callable(getattr(module, name, None)):
                found = f"{label}.{name}"
        frame = frame.f_back
    return found


def _public(frame: FrameType, home: str) -> str | None:
    """The public name of the function that a frame runs, if it has one."""
    code = frame.f_code
    name = code.co_name
    owner = frame.f_locals.get("self") if "self" in code.co_varnames else None
    if name in ("__init__", "__call__"):
        name = type(owner).__name__
    if home.startswith("scipy._lib."):  # a decorator; it closes over the function
        for free in code.co_freevars:
            inner = frame.f_locals.get(free)
            if callable(inner) and hasattr(inner, "__name__"):
                home, name = str(inner.__module__), inner.__name__
    parts = home.split(".")
    count = next((i for i, p in enumerate(parts) if p.startswith("_")), len(parts))
    if code.co_freevars and owner is not None:
        names = {n for kind in type(owner).__mro__ for n in vars(kind)}
        name = _decorated(names, type(owner), frame) or name
    for length in range(count, 1, -1):
        place = ".".join(parts[:length])
        module = sys.modules.get(place)
        found = name
        if code.co_freevars and owner is None:
            found = _decorated(dir(module), module, frame) or name
        if found.startswith("_"):
            continue
        if callable(getattr(module, found, None)):
            return f"{place}.{found}"
        # A method, such as that of a distribution: scipy.stats.norm.logpdf.
        label = getattr(owner, "name", None)
        if isinstance(label, str) and hasattr(module, label):
            return f"{place}.{label}.{found}"
        # One of vectors has no name: that of its class ends in _gen or _frozen.
        family = _FAMILY.sub("", type(owner).__name__)
        if not isinstance(getattr(module, family, type), type):
            outer = f"{place}.{family}"
            return outer if found == type(owner).__name__ else f"{outer}.{found}"
        for kind in type(owner).__mro__[:-1] if owner is not None else ():
            if getattr(module, kind.__name__, None) is kind:
                return f"{place}.{kind.__name__}.{found}"
    return None


def _decorated(names: Iterable[str], home: object, frame: FrameType) -> str | None:
    """Under which of these names of a module or class a frame's function stands.

    That of a decorator runs the same code for all that it decorates; they differ by
    what that code closes over.
    """
    code, scope = frame.f_code, frame.f_locals
    for name in names:
        step = None if name.startswith("_") else getattr(home, name, None)
        while step is not None:
            if getattr(step, "__code__", None) is code:
                cells = zip(code.co_freevars, step.__closure__ or (), strict=True)
                if all(_inside(cell) is scope.get(free) for free, cell in cells):
                    return name
            step = getattr(step, "__wrapped__", None)
    return None


def _inside(cell: CellType) -> object:
    """What a cell of a closure holds; None while it holds nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def instead(called: str) -> str:
    """What to write in place of a function of SciPy, as the cure of an error."""
    home, _, name = called.rpartition(".")
    own = f"workbench.{home}"
    found = getattr(_module(own), name, None) if home else None
    # Some of our modules hand out all that SciPy's have.
    if callable(found) and found is not getattr(sys.modules.get(home), name, None):
        return f"Write {own}.{name}, which does"
    if home == "scipy.sparse.linalg":
        return "Call it in the `solve` of wb.custom_linear_solve, which has derivatives"
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
