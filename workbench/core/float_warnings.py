"""NumPy's floating-point warnings, named by the user's lines.

What is recorded, and its derivatives, are computed in Workbench's own code, where NumPy
would say "invalid value encountered in divide" of a line that the user has never seen.
Here the warning names the op, or the op whose gradient it is, and stands at the line
that made it. Of several warnings of one line a session gives only the first: the
picture tells where a NaN begins. Elsewhere Python's filters decide how many.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from types import FrameType
from typing import Any

import numpy as np

from workbench.core import hooks, sites, source
from workbench.core.op import Op
from workbench.core.tensor import Tensor

#: What NumPy calls its kinds of errors, and how their settings are called.
KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}
#: The sweeps of a derivative: their local ``node`` is the one whose rule runs.
SWEEPS = ("workbench.autodiff.reverse", "workbench.autodiff.forward")
#: The interpreters of programs: their local ``node`` is the one that is computed.
INTERPRETERS = ("workbench.core.schedule", "workbench.autodiff.batch")
#: What runs a rule that is data: its own nodes are nothing of the user's.
DATA_RULES = "workbench.autodiff.budget"

#: The places that have had their warning: the file and the line.
Warned = set[tuple[str, int]]


@contextmanager
def warn_at_lines(
    warned: Warned,
    modes: Mapping[str, Any] | None = None,
    handler: Any = None,
) -> Iterator[None]:
    """Let NumPy's warnings in the block name the user's lines, each line once.

    Parameters
    ----------
    warned
        The places that have had their warning; new ones are added.
    modes, handler
        NumPy's error settings, as ``np.geterr()`` and ``np.geterrcall()`` give them;
        by default those of the moment. Errors that they raise are raised, what they
        ignore is ignored.
    """
    kinds: Mapping[str, Any] = {**np.geterr()} if modes is None else modes
    if modes is None:
        handler = np.geterrcall()

    def warn(what: str, flag: int) -> None:
        if kinds[KINDS.get(what, "invalid")] == "call":
            handler(what, flag)
        else:
            _warn_once(what, sys._getframe(1), warned)

    if hasattr(handler, "write"):  # what NumPy asks of it for the mode "log"
        warn.write = handler.write  # type: ignore[attr-defined]
    settings: Any = {k: "call" if v == "warn" else v for k, v in kinds.items()}
    with np.errstate(call=warn, **settings):
        yield


def _warn_user(what: str, flag: int) -> None:
    _warn_once(what, sys._getframe(1), None)


def _find_settings() -> tuple[Any, Any, Any]:
    """Return where NumPy keeps its settings, those of its start, and ours for them.

    `np.errstate` takes three microseconds, which is a part of a small gradient; to put
    settings that are made already takes a tenth. Nones where NumPy has no such place.
    """
    umath = sys.modules.get("numpy._core.umath")
    place = getattr(umath, "_extobj_contextvar", None)
    make = getattr(umath, "_make_extobj", None)
    if place is None or make is None:
        return None, None, None
    told = {"divide": "call", "over": "call", "invalid": "call", "under": "ignore"}
    return place, Context().run(place.get), make(call=_warn_user, **told)


class NamedWarnings:
    """A block in which NumPy's warnings name the user's lines, as Python counts them.

    Where somebody has NumPy's errors told to a function already, it changes nothing.
    """

    __slots__ = ("settings", "token")

    settings: np.errstate | None

    def __enter__(self) -> None:
        self.settings = self.token = None
        if _PLACE is not None:
            found = _PLACE.get()
            if found is _START:
                self.token = _PLACE.set(_TOLD)
                return
            if found is _TOLD:
                return
        kinds = np.geterr()
        modes = kinds.values()
        if "warn" in modes and "call" not in modes and "log" not in modes:
            told: Any = {k: "call" if v == "warn" else v for k, v in kinds.items()}
            self.settings = np.errstate(call=_warn_user, **told)
            self.settings.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.token is not None:
            _PLACE.reset(self.token)
        elif self.settings is not None:
            self.settings.__exit__(*error)


def _warn_once(what: str, frame: FrameType | None, warned: Warned | None) -> None:
    """Give a warning at the user's line behind a frame, if that has had none.

    Without ``warned`` Python decides how often it is shown.
    """
    op: Op | None = None
    node: Tensor | None = None
    in_sweep = False
    first = frame
    while frame is not None and _is_internal(frame):
        module = frame.f_globals.get("__name__", "")
        if module == DATA_RULES:
            node = op = None  # the node of the rule comes in an outer frame
        if node is None:
            found = frame.f_locals.get("node")
            if found is None and frame.f_code.co_name == "_compute":
                found = _find_step(module, frame.f_locals)
            if module in (*SWEEPS, *INTERPRETERS) and isinstance(found, Tensor):
                node, in_sweep = found, module in SWEEPS
            found = frame.f_locals.get("op")
            op = found if op is None and isinstance(found, Op) else op
        frame = frame.f_back
    if frame is None and first is not None:
        frame = source.find_user_frame(first)  # installed packages are all there is
    site = None
    if node is not None:
        while node.origin is not None:
            node, in_sweep = node.origin.forward, True
        op, site = node.op, node.site
    if site is not None:
        place = site.filename, site.line
    elif frame is not None:
        place = frame.f_code.co_filename, frame.f_lineno
    else:
        return
    if warned is not None:
        if place in warned:
            return
        warned.add(place)
    part = "the gradient of " if in_sweep else ""
    name = None if op is None else op.name
    if name is None and frame is not None:
        name = sites.function_at(frame.f_code, frame.f_lasti)
    names: dict[str, Any] = {} if frame is None else frame.f_globals
    file, line = place
    warnings.warn_explicit(
        f"{what} encountered" + ("" if name is None else f" in {part}{name}"),
        RuntimeWarning,
        _name_file(file),
        line,
        module=names.get("__name__"),
        registry=names.setdefault("__warningregistry__", {}),
    )


def _find_step(module: str, names: Mapping[str, Any]) -> Tensor | None:
    """Return the node that the hot loop of programs computes, which counts steps."""
    if module != INTERPRETERS[0] or "done" not in names:
        return None
    steps, done = names["self"].steps, names["done"]
    return steps[done].node if done < len(steps) else None


def _name_file(file: str) -> str:
    """Return how a warning names a file: a cell as ``[3]``, with its source line."""
    cell = hooks.source(file) if hooks.source.is_set else None
    if cell is None:
        return file
    # Python looks up the line to show under the name that it is given.
    if file in linecache.cache:
        linecache.cache[cell] = linecache.cache[file]
    return cell


def _is_internal(frame: FrameType) -> bool:
    """Return whether a frame is no user's; code that Workbench writes has no module."""
    module = frame.f_globals.get("__name__")
    return module in (None, "functools") or source.is_internal(frame)


_PLACE, _START, _TOLD = _find_settings()
