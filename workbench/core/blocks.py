"""Blocks: what a ``with`` statement holds, for those who are inside it.

A context variable keeps what a thread or a task is in, and nothing more: what a
generator sets goes on when it is suspended, for whoever called it, and a token is of
no use in another task. So a `Block` remembers the generator that opened it, and
whether it is still open; `in_force` tells which of several hold for the caller:

* A block holds for what runs inside it: in this thread or task, and in those that
  start with a copy of its context while it is open (tasks of asyncio,
  ``asyncio.to_thread``). A plain new thread starts without.
* One that a generator has opened holds while this generator runs, in whatever thread,
  and not while it is suspended at a ``yield``: not for who iterates over it. An
  asynchronous generator that awaits something is not suspended.
* A generator that is itself a context manager (by `contextlib`), or a fixture of
  pytest, opens a block for those who enter it; so does one that another delegates to
  by ``yield from`` for that other.
* Once left, wherever that is, it holds nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, CO_ITERABLE_COROUTINE
from itertools import count
from opcode import opmap
from types import FrameType
from typing import Any, ClassVar, TypeVar

__all__ = ["Block", "in_force", "is_suspended", "take_left"]

_serial = count(1).__next__
GENERATORS = CO_GENERATOR | CO_ASYNC_GENERATOR
SEND, RESUME, CACHE = opmap["SEND"], opmap["RESUME"], opmap["CACHE"]

#: Whose generators run up to their ``yield`` for a ``with`` statement around it.
MANAGERS = "contextlib"
#: Whose generators run up to their ``yield`` for all that comes after.
FIXTURES = "_pytest.fixtures"


class Block:
    """One entering of a ``with`` block; each kind of block is a class of its own.

    Attributes
    ----------
    owner
        The frame of the generator that has opened it; None outside of generators.
    open
        Whether it has not been left.
    """

    __slots__ = ("open", "owner", "serial")

    #: The open blocks of generators, which may go on in another thread or task.
    owned: ClassVar[dict[FrameType, list[Any]]]

    def __init_subclass__(cls) -> None:
        cls.owned = {}

    def __init__(self) -> None:
        self.open = True
        self.serial = _serial()
        self.owner = find_owner(sys._getframe(1))
        if self.owner is not None:
            self.owned.setdefault(self.owner, []).append(self)

    def close(self) -> None:
        """Let it hold nowhere from now on."""
        self.open = False
        owner, self.owner = self.owner, None
        if owner is not None:
            left = [block for block in self.owned.pop(owner) if block is not self]
            if left:
                self.owned[owner] = left


Some = TypeVar("Some", bound=Block)


def find_owner(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the generator that a block opened in ``frame`` belongs to."""
    while frame is not None:
        code = frame.f_code
        flags = code.co_flags
        if flags & GENERATORS and not flags & CO_ITERABLE_COROUTINE:
            caller = frame.f_back
            if caller is None:
                return frame
            name = caller.f_globals.get("__name__")
            if name == FIXTURES:
                return None
            if name != MANAGERS and not (flags & CO_GENERATOR and is_sending(caller)):
                return frame
        elif code.co_name == "<module>":
            break  # what runs a script or a cell has no part in its blocks
        frame = frame.f_back
    return None


def is_sending(frame: FrameType) -> bool:
    """Return whether a frame is at a ``yield from`` or an ``await``."""
    codes, at = frame.f_code.co_code, frame.f_lasti
    # Python 3.12 may stand at the instruction's cache, which follows it.
    return codes[at] == SEND or (codes[at] == CACHE and codes[at - 2] == SEND)


def is_suspended(frame: FrameType) -> bool:
    """Return whether a generator is suspended at a ``yield``, not at an ``await``."""
    if frame.f_back is not None:
        return False
    code, at = frame.f_code, max(frame.f_lasti, 0)
    # Where it stands, or (until Python 3.12) right after, is the instruction that it
    # resumes at: that of a `yield` (1), of a `yield from` (2) or of an `await` (3).
    following = code.co_code[at : at + 4]
    for i in range(0, len(following), 2):
        if following[i] == RESUME:
            how = following[i + 1] & 3
            return how == 1 or (how == 2 and bool(code.co_flags & CO_GENERATOR))
    return False


def in_force(blocks: Sequence[Some], kind: type[Some]) -> list[Some]:
    """Return the blocks of one kind that hold for the caller, the innermost last.

    ``blocks`` are those of the caller's context; what the generators on its stack have
    opened elsewhere is added.
    """
    found = [
        block
        for block in blocks
        if block.open and (block.owner is None or not is_suspended(block.owner))
    ]
    owned = kind.owned
    if not owned:
        return found
    height: dict[FrameType | None, int] = {}
    stack: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame in owned:
            stack.append(frame)
        frame = frame.f_back
    for i, frame in enumerate(reversed(stack)):
        height[frame] = i + 1
        found += [b for b in owned.get(frame, ()) if b not in found]
    # A generator that runs has been called inside the blocks of its caller.
    return sorted(found, key=lambda b: (height.get(b.owner, 0), b.serial))


def take_left(opened: list[Some], here: Callable[[], Sequence[Some]]) -> Some:
    """Take out the one of an object's open blocks that its caller leaves.

    ``here`` gives the blocks of the caller's context: where several tasks or
    generators are in a block of one object, each leaves its own.
    """
    if len(opened) == 1:
        return opened.pop()
    own = [block for block in here() if block in opened]
    chosen = (in_force(own, type(opened[-1])) or opened)[-1]
    opened.remove(chosen)
    return chosen
