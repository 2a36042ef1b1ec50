"""The user's frame and scope behind each Tensor, and the blocks in force.

What a frame's instruction says (its line, what it calls) is read in `sites`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from functools import cache
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, CO_ITERABLE_COROUTINE
from itertools import count
from opcode import opmap
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple, TypeVar

# Blocks: what a ``with`` statement holds, for those who are inside it.
#
# A context variable keeps what a thread or a task is in, and nothing more: what a
# generator sets goes on when it is suspended, for whoever called it, and a token is of
# no use in another task. So a `Block` remembers the generator that opened it, and
# whether it is still open; `active_blocks` tells which of several hold for the caller:
#
# * A block holds for what runs inside it: in this thread or task, and in those that
#   start with a copy of its context while it is open (tasks of asyncio,
#   ``asyncio.to_thread``). A plain new thread starts without.
# * One that a generator has opened holds while this generator runs, in whatever thread,
#   and not while it is suspended at a ``yield``: not for who iterates over it. An
#   asynchronous generator that awaits something is not suspended.
# * A generator that is itself a context manager (by `contextlib`), or a fixture of
#   pytest, opens a block for those who enter it; so does one that another delegates to
#   by ``yield from`` for that other.
# * Once left, wherever that is, it holds nowhere.

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
        """End the block everywhere."""
        self.open = False
        self.disown()

    def disown(self) -> None:
        """Let the block hold whether the generator that opened it runs or not."""
        owner, self.owner = self.owner, None
        if owner is not None:
            remaining = [block for block in self.owned.pop(owner) if block is not self]
            if remaining:
                self.owned[owner] = remaining


Some = TypeVar("Some", bound=Block)

#: Whether there ever was a block of overrides (`overrides/override_blocks.py`): else a
#: derivative need not ask which of them hold for it.
OVERRIDDEN = [False]


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


def active_blocks(blocks: Sequence[Some], kind: type[Some]) -> list[Some]:
    """Return the blocks of one kind that hold for the caller, the innermost last.

    ``blocks`` are those of the caller's context; what the generators on its stack have
    opened elsewhere is added.
    """
    active = [
        block
        for block in blocks
        if block.open and (block.owner is None or not is_suspended(block.owner))
    ]
    owned = kind.owned
    if not owned:
        return active
    height: dict[FrameType | None, int] = {}
    stack: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame in owned:
            stack.append(frame)
        frame = frame.f_back
    for i, frame in enumerate(reversed(stack)):
        height[frame] = i + 1
        active += [b for b in owned.get(frame, ()) if b not in active]
    # A generator that runs has been called inside the blocks of its caller.
    return sorted(active, key=lambda b: (height.get(b.owner, 0), b.serial))


def pop_left_block(
    opened: list[Some], find_active: Callable[[], Sequence[Some]]
) -> Some:
    """Take out the one of an object's open blocks that its caller leaves.

    ``find_active`` gives the blocks of the caller's context: where several tasks or
    generators are in a block of one object, each leaves its own.
    """
    if len(opened) == 1:
        return opened.pop()
    candidates = [block for block in find_active() if block in opened]
    chosen = (active_blocks(candidates, type(opened[-1])) or opened)[-1]
    opened.remove(chosen)
    return chosen


# Lines and scopes


class Context(NamedTuple):
    """The surroundings that a new Tensor notes besides its own frame.

    ``scope`` is a path such as ``"encoder/layer1"``. ``code`` and ``lasti``,
    where set, stand in for the frame: a NumPy function that we build from
    several ops puts all of them on the line where the user called it. A ``helper``
    is not an op of the user's, but what another takes to run on a batch. ``block`` is
    the innermost scope's, for where generators or tasks leave theirs open.
    """

    scope: str | None = None
    code: CodeType | None = None
    lasti: int = -1
    helper: bool = False
    block: Scope | None = None


#: What new Tensors note; a context variable, so each thread and task has its own.
CONTEXT: ContextVar[Context | None] = ContextVar("CONTEXT", default=None)

#: What the user's line is never in.
LIBRARIES = ("workbench.", "numpy.", "scipy.", "sklearn.")
#: Whole modules that it is not in either.
PASSED = ("numpy", "contextlib")
#: Where Python's own modules are.
STANDARD_LIBRARY = os.path.dirname(os.__file__).replace("\\", "/") + "/"


#: Files whose frames a new Tensor may note as they are: the user's, and Workbench's.
NOTED_FILES: set[str] = set()
#: Files of code that is not the user's, as `is_internal` has found.
INTERNAL_FILES: set[str] = set()
#: The code of one frame to note, the last: an op looks only whether its own is that.
NOTED: list[CodeType | None] = [None]


class Scope(Block):
    """One entering of a `scope`.

    ``name`` is what it adds to the path, ``outer`` the surroundings before, ``inner``
    those within. ``moves``: these must be looked at each time they are asked for,
    since a generator has opened it, or one around it, or it was left elsewhere.
    """

    __slots__ = ("inner", "moves", "name", "outer")

    inner: Context | None
    moves: bool

    def __init__(self, name: str, outer: Context | None) -> None:
        super().__init__()
        self.name = name
        self.outer = outer
        around = outer.block if outer is not None else None
        self.moves = self.owner is not None or (around is not None and around.moves)


class scope(ContextDecorator):
    """Put every op of the block into the scope ``name``; scopes nest with ``/``.

    A generator that is suspended inside a scope does not put its caller's ops there.
    A function may be decorated with it: each call is a block.

    Parameters
    ----------
    name
        A name, or a path of names such as ``"encoder/layer1"``.

    Raises
    ------
    ValueError
        If a name is empty or ``*``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def f(x):
    ...     with wb.scope("encoder"):
    ...         return np.tanh(x)
    >>> wb.trace(f)(np.ones(2)).outputs[0].scope
    'encoder'
    """

    def __init__(self, name: str) -> None:
        if not name or any(part in ("", "*") for part in name.split("/")):
            raise ValueError(
                f"scope({name!r}): a scope is a name or a path of names such as "
                "'encoder/layer1'; write at least one letter between the slashes."
            )
        self.name = name
        self.opened: list[Scope] = []

    def _recreate_cm(self) -> scope:
        return scope(self.name)  # of a function with it as a decorator, for each call

    def __enter__(self) -> None:
        outer = CONTEXT.get()
        block = Scope(self.name, outer)
        around = current_context() if block.moves else outer
        path, code, lasti = self.name, None, -1
        if around is not None:
            code, lasti = around.code, around.lasti
            if around.scope is not None:
                path = f"{around.scope}/{path}"
        block.inner = Context(path, code, lasti, block=block)
        self.opened.append(block)
        CONTEXT.set(block.inner)

    def __exit__(self, *error: object) -> None:
        context = CONTEXT.get()
        block = pop_left_block(self.opened, lambda: open_scopes(context))
        block.close()
        inner, block.inner = block.inner, None  # which is a circle
        if context is not inner:
            block.moves = True  # left in another task, or while another goes on
            return
        outer = block.outer
        while outer is not None and outer.block is not None and not outer.block.open:
            outer = outer.block.outer
        CONTEXT.set(outer)


def open_scopes(context: Context | None) -> list[Scope]:
    """Return the blocks behind surroundings, the outermost first."""
    scopes = []
    while context is not None and context.block is not None:
        scopes.append(context.block)
        context = context.block.outer
    return scopes[::-1]


def prune_scopes(context: Context) -> Context | None:
    """Return surroundings without the scopes that do not hold for the caller."""
    blocks = open_scopes(context)
    base = blocks[0].outer if blocks else context
    names = [block.name for block in active_blocks(blocks, Scope)]
    if not names:
        return base
    if base is None:
        return Context("/".join(names))
    return base._replace(scope="/".join([*filter(None, [base.scope]), *names]))


def current_context() -> Context | None:
    """Return the context that a new Tensor notes."""
    context = CONTEXT.get()
    if context and context.block and context.block.moves:
        return prune_scopes(context)
    return context


@cache
def is_installed(filename: str) -> bool:
    """Return whether a file is one of Python's own or of an installed package.

    A package that its author works on in place, an editable install, is not.
    """
    if filename.startswith("<frozen "):
        return True
    path = filename.replace("\\", "/")
    return (
        "/site-packages/" in path
        or "/dist-packages/" in path
        or path.startswith(STANDARD_LIBRARY)
    )


def is_internal(frame: FrameType) -> bool:
    """Return whether the code of a frame is not the user's own.

    It is that of Workbench, NumPy, SciPy or scikit-learn, of another installed package,
    or of Python's standard library.
    """
    name: str = frame.f_globals.get("__name__", "")
    return (
        name.startswith(LIBRARIES)
        or name in PASSED
        or is_installed(frame.f_code.co_filename)
    )


def find_user_frame(frame: FrameType) -> FrameType:
    """Return the nearest frame, from this one outwards, of the user's own code.

    If there is none, the nearest outside Workbench and NumPy: a program may be an
    installed package itself.
    """
    found: FrameType | None = frame
    while found is not None:
        filename = found.f_code.co_filename
        if filename not in INTERNAL_FILES:
            if not is_internal(found):
                return found
            if not filename.startswith("<"):
                INTERNAL_FILES.add(filename)
        found = found.f_back
    while True:
        name: str = frame.f_globals.get("__name__", "")
        outer = frame.f_back
        if outer is None or not (name.startswith(LIBRARIES) or name in PASSED):
            return frame
        frame = outer


def caller(depth: int = 1) -> tuple[CodeType, int]:
    """Return the nearest frame of the user's own, as (code object, offset)."""
    frame = sys._getframe(depth)
    while True:
        name: str = frame.f_globals.get("__name__", "")
        outside = not (name.startswith(LIBRARIES) or name in PASSED)  # as `is_internal`
        if outside or (outer := frame.f_back) is None:
            break
        frame = outer
    if frame.f_code.co_filename not in NOTED_FILES:
        frame = find_user_frame(frame)
    return frame.f_code, frame.f_lasti


def place_of(frame: FrameType) -> tuple[CodeType, int]:
    """Return the code and instruction of a frame that a new Tensor notes."""
    code = frame.f_code
    filename = code.co_filename
    if filename not in NOTED_FILES:
        name: str = frame.f_globals.get("__name__", "")
        if not name.startswith("workbench.") and (
            filename in INTERNAL_FILES or is_internal(frame)
        ):
            frame = find_user_frame(frame)
            return frame.f_code, frame.f_lasti
        NOTED_FILES.add(filename)
    NOTED[0] = code
    return code, frame.f_lasti


def count_frames() -> int:
    """Return how many frames above its caller the user's is: the level of a warning."""
    level, frame = 1, sys._getframe(1)
    user = find_user_frame(frame)
    while frame is not user and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


class pin_line:
    """Puts every op of the block on the line of the nearest frame of the user."""

    __slots__ = ("token",)

    token: Token[Context | None] | None

    def __enter__(self) -> None:
        outer = CONTEXT.get()
        if outer is not None and outer.block is not None:
            outer = current_context()
        if outer is None or outer.code is None:
            scope = outer.scope if outer is not None else None
            self.token = CONTEXT.set(Context(scope, *caller(2)))
        else:
            self.token = None

    def __exit__(self, *error: object) -> None:
        if self.token is not None:
            CONTEXT.reset(self.token)


class at_site:
    """Put every op of the block on a line of another program, and into its scope.

    Parameters
    ----------
    place
        A code object and the offset of an instruction; None for the line of the nearest
        frame of the user. `code_at_line` makes one where only the line is known.
    scope
        A path that is added to that of the block's surroundings; "" adds nothing.
    """

    __slots__ = ("outer", "path", "place")

    outer: Context | None

    def __init__(self, place: tuple[CodeType, int] | None, scope: str = "") -> None:
        self.place = place
        self.path = scope

    def __enter__(self) -> None:
        self.outer = CONTEXT.get()
        around = current_context() or Context()
        path = "/".join(filter(None, [around.scope, self.path])) or None
        place = self.place or (around.code and (around.code, around.lasti))
        code, lasti = place or caller(2)
        CONTEXT.set(Context(path, code, lasti, around.helper))

    def __exit__(self, *error: object) -> None:
        CONTEXT.set(self.outer)


@cache
def code_at_line(filename: str, line: int) -> tuple[CodeType, int]:
    """Return a code object and an offset that stand at a line of a file."""
    # After the instruction that each code object begins with.
    return compile("pass", filename, "exec").replace(co_firstlineno=line), 2
