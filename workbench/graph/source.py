"""The user's line and scope behind each Tensor.

A Tensor keeps only its code object and instruction offset; they are decoded
here when somebody asks, so tracing pays nothing for lines that nobody reads.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from dis import get_instructions
from itertools import islice
from opcode import opmap
from types import CodeType, FrameType
from typing import NamedTuple

__all__ = [
    "Context",
    "Site",
    "assigns",
    "called",
    "caller",
    "decode",
    "internal",
    "kept",
    "name_files",
    "pinned",
    "scope",
    "short",
]


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the user's code.

    ``place`` reads ``"[3]:1"`` for line 1 of cell 3 and ``"net.py:20"`` for a
    file; ``text`` is that line without its indentation.
    """

    filename: str
    line: int
    column: int
    text: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}  {self.text}" if self.text else self.place


class Context(NamedTuple):
    """What a new Tensor notes of its surroundings besides its own frame.

    ``scope`` is a path such as ``"encoder/layer1"``. ``code`` and ``lasti``,
    where set, stand in for the frame: a NumPy function that we build from
    several ops puts all of them on the line where the user called it. A ``helper``
    is no op of the user's, but what another takes to run on a batch.
    """

    scope: str | None = None
    code: CodeType | None = None
    lasti: int = -1
    helper: bool = False


#: What new Tensors note; a context variable, so each thread and task has its own.
CONTEXT: ContextVar[Context | None] = ContextVar("CONTEXT", default=None)

#: What the user's line is never in.
LIBRARIES = ("workbench.", "numpy.", "scipy.", "sklearn.")

_namers: list[Callable[[str], str | None]] = []


def name_files(namer: Callable[[str], str | None]) -> None:
    """Register ``namer(filename) -> "[3]" or None``, asked by :func:`decode`."""
    if namer not in _namers:
        _namers.append(namer)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Put every op of the block into the scope ``name``; scopes nest with ``/``.

    >>> import numpy as np, workbench as wb
    >>> def f(x):
    ...     with wb.scope("encoder"):
    ...         return np.tanh(x)
    >>> wb.trace(f)(np.ones(2)).outputs[0].scope
    'encoder'
    """
    if not name or any(part in ("", "*") for part in name.split("/")):
        raise ValueError(
            f"scope({name!r}): a scope is a name or a path of names such as "
            "'encoder/layer1'; write at least one letter between the slashes."
        )
    outer = CONTEXT.get()
    path = name if outer is None or outer.scope is None else f"{outer.scope}/{name}"
    token = CONTEXT.set(
        Context(path, outer.code if outer else None, outer.lasti if outer else -1)
    )
    try:
        yield
    finally:
        CONTEXT.reset(token)


def internal(frame: FrameType) -> bool:
    """Whether a frame runs the code of Workbench, NumPy, SciPy or scikit-learn.

    That of `contextlib` stands between the two where a ``with`` opens a trace.
    """
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(LIBRARIES) or name in ("numpy", "contextlib")


def caller(depth: int = 1) -> tuple[CodeType, int]:
    """The nearest frame outside Workbench, as (code object, offset)."""
    frame = sys._getframe(depth)
    while internal(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def assigns() -> bool:
    """Whether the user's line is at an assignment to entries: ``x[i] = v``."""
    code, lasti = caller()
    return 0 <= lasti < len(code.co_code) and (
        code.co_code[lasti] == opmap["STORE_SUBSCR"]
    )


def called(code: CodeType, lasti: int) -> tuple[str, ...]:
    """The dotted name of the method that an instruction calls, as far as attributes go.

    They start where the call does: those of its arguments start later.
    """
    before = [step for step in get_instructions(code) if step.offset <= lasti]
    starts = [step.positions and step.positions[::2] for step in before]
    return tuple(
        step.argval
        for step, start in zip(before, starts, strict=True)
        if start == starts[-1]
        and step.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
    )


def decode(code: CodeType | None, lasti: int) -> Site | None:
    """The line, column and text behind a code object and offset."""
    if code is None:
        return None
    position = next(islice(code.co_positions(), max(lasti, 0) // 2, None), None)
    line = (position[0] if position else None) or code.co_firstlineno
    column = (position[2] if position else None) or 0
    filename = code.co_filename
    text = linecache.getline(filename, line).strip()
    return Site(filename, line, column, text, f"{short(filename)}:{line}")


def short(filename: str) -> str:
    """How a file or cell is called: ``"net.py"``, or ``"[3]"`` for a cell."""
    for namer in _namers:
        if (name := namer(filename)) is not None:
            return name
    return os.path.basename(filename)


class kept:
    """Leaves the surroundings of ops after a block as they were before it."""

    __slots__ = ("before",)

    before: Context | None

    def __enter__(self) -> None:
        self.before = CONTEXT.get()

    def __exit__(self, *error: object) -> None:
        if CONTEXT.get() is not self.before:
            CONTEXT.set(self.before)


class pinned:
    """Puts every op of the block on the line of the nearest frame of the user."""

    __slots__ = ("token",)

    token: Token[Context | None] | None

    def __enter__(self) -> None:
        outer = CONTEXT.get()
        if outer is None or outer.code is None:
            scope = outer.scope if outer is not None else None
            self.token = CONTEXT.set(Context(scope, *caller(2)))
        else:
            self.token = None

    def __exit__(self, *error: object) -> None:
        if self.token is not None:
            CONTEXT.reset(self.token)
