"""A write to an array: its memory, permission, and the next version.

`memory.py` says what memories, versions and handles are, and `sharing.py` who shares
one. A write goes from a Tensor along its views to the memory (`open_memory`), puts the
new value back up the path, and makes handles of all that shows the memory (`store`):
that is the last step, when nothing can fail any more. ``x += y`` and its kin stand at
the end.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from workbench.core import blame, dims, hooks, sharing, source, traces, types
from workbench.core.memory import (
    COUNTS,
    LOCK,
    READ,
    SLOT,
    TAKEN,
    Handle,
    Memory,
    OwnParams,
    Version,
    changed_class,
    copy_in_place,
    latest_of,
    resolve,
)
from workbench.core.op import CopyParams, View, ViewParams, declare
from workbench.core.tensor import CHANGED, IDENTITY, NO_PARAMS, Tensor, apply, take_name
from workbench.core.traces import OpenTrace, node_of
from workbench.errors import DtypeError, ShapeError, TraceError

_frame = sys._getframe
BINARY_OP = dis.opmap["BINARY_OP"]


def open_memory(x: Tensor, name: str) -> tuple[Memory, list[Tensor]]:
    """Return the memory of a Tensor, and the views from there to the whole.

    Raises
    ------
    TraceError
        Where NumPy refuses writes, or arrays outside the program would change too.
    """
    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if type(x) in CHANGED and x.memory.whole:
        memory = x.memory.memory
        if opened and memory.allowed is opened[-1]:
            return memory, []
    node: Any = x
    path: list[Tensor] = []
    memory = None
    while True:
        if type(node) in CHANGED:
            memory = node.memory.memory
            if node.memory.whole:
                break
        elif type(node.memory) is Memory:
            if node.memory.owner is not None:
                memory = node.memory
                if node is x:
                    _note_whole(x, memory, name)
            break
        elif node.op.view is None or not sharing.is_view(node, node.inputs[0]):
            break
        path.append(node)
        node = node.inputs[0]
    if memory is not None and memory.owner is None:
        memory.check_reopened(name)
    if not opened and (memory is None or memory.latest._value is None):
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)} in place: the"
            " program that it belongs to has ended, or it is an expression of symbols,"
            " which has no memory. Write x = wb.at(x)[i].set(v), or x = x + y."
        )
    _check_writeable(x, node, path, opened, name)
    if memory is None:
        memory = node.memory = Memory(node)
    if opened:
        memory.allowed = opened[-1]
        if memory.owner is None:
            memory.owner = opened[0]
            for trace in opened:
                if min(trace.leaves, default=0) <= node.serial:
                    memory.owner = trace
            memory.owner.changes.append(memory)
            if not opened[0].collects_seldom:
                opened[0].collects_seldom = True
                traces.collect_seldom()
    return memory, path


def _note_whole(node: Tensor, memory: Memory, name: str) -> None:
    """Note a version that somebody holds, and writes to."""
    if any(r() is node for r in memory.fresh):
        return
    if node is not memory.latest:
        raise TraceError(
            f"{name}{blame.user_line()}: {blame.describe(node)} has been changed by"
            " another name of it since. Work on a copy: x = x.copy()."
        )
    memory.fresh.append(ref(node))


def store(memory: Memory, new: Tensor) -> None:
    """Make a node the latest version of a memory, and handles of its readers.

    It is the last step of a write, when nothing can fail any more.
    """
    old = memory.latest
    stack: list[tuple[Any, bool]] = []
    if memory.fresh:
        stack = [(x, True) for r in memory.fresh if (x := r()) is not None]
        memory.fresh.clear()
    if old.views:
        stack += [(view, False) for view in sharing.list_views(old)]
    while stack:
        x, whole = stack.pop()
        if type(x) in CHANGED:
            continue
        if x.views:
            stack += [(view, False) for view in sharing.list_views(x)]
        if x.memory is TAKEN:
            continue
        traces.WRITTEN[0] = True
        handle = Handle(x, memory, whole)
        x.memory = handle
        kind: Any = handle.kind
        x.__class__ = changed_class(kind)
        handles = memory.handles
        handles.append(ref(x))
        n = len(handles)
        if n >= 64 and not n & (n - 1):
            handles[:] = [h for h in handles if h() is not None]
    new.memory = memory
    if new.name is None:
        take_name(new, old)
    if type(new) is not Version:
        memory.buffer = None
    memory.latest = new
    memory.version += 1
    if memory.owner is None:
        memory.close()


def write(x: Tensor, name: str, change: Callable[[Any], Any]) -> None:
    """Replace the content of the memory of ``x`` by a function's result."""
    with LOCK:
        if sharing.is_number(node_of(x)):
            raise TypeError(
                f"{name}{blame.user_line()}: {blame.describe(x)} is a number, which"
                " NumPy does not let anybody write to"
            )
        memory, path = open_memory(x, name)
        old = latest_of(x, memory) if path else memory.latest
        hooks.write_view.call(memory, path, change(old))


def lay_like(new: Any, old: Any) -> Any:
    """Return a node of its own for a new version, which lies in memory as the old one.

    What is made entry by entry may lie otherwise, and may be another's.
    """
    value = new._value if isinstance(new, Tensor) else new
    own = (
        isinstance(new, Tensor)
        and new.memory is None
        and new.op.view is None
        and new.op is not IDENTITY
    )
    before = old._value
    if value is None or before is None:
        a, b = sharing.find_layout(old), sharing.find_layout(new)
        if isinstance(new, Tensor) and a is not None and b is not None:
            if own and a.strides == b.strides:
                return new
            if a.flags.forc:
                order = "C" if a.flags.c_contiguous else "F"
                return apply(sharing.COPY, (new,), {"order": order})
        # It is written into a copy of the old one, which lies as that does.
        return apply(declare("index_set"), (old, new), {"key": (Ellipsis,)})
    if own and type(value) is type(before) is np.ndarray:
        if value.strides == before.strides:
            return new
    if type(before) is not np.ndarray:
        return np.copy(new)
    if before.shape == np.shape(value) and before.dtype == value.dtype:
        room = copy_in_place(before)
        room[...] = value
    else:
        room = np.copy(value)
    return make_copy(new, value, room, source.caller(2))


def make_copy(x: Any, value: Any, room: Any, line: tuple[Any, int]) -> Tensor:
    """Return the node of an array with memory of its own: of a Tensor, or a constant.

    ``value`` is what ``x`` is in numbers, ``room`` the array that holds a copy of it.
    """
    context = source.current_context()
    if isinstance(x, Tensor):
        return Tensor(sharing.COPY, (x,), (value,), NO_PARAMS, room, *line, context)
    op = declare("stop_gradient")
    return Tensor(op, (room,), (room,), CopyParams(), room, *line, context)


def _check_writeable(
    x: Tensor,
    base: Tensor,
    path: list[Tensor],
    opened: Iterable[OpenTrace],
    name: str,
) -> None:
    """Refuse a change that NumPy refuses, or that others than the program would see."""
    what = "it" if base is x else f"{blame.describe(base)}, of which it is a view,"
    cure = "Work on a copy: x = x.copy()."
    is_leaf = base.op is IDENTITY and type(base) not in CHANGED
    if is_leaf and not any(t.owns and base.serial in t.leaves for t in opened):
        owners = [t for t in opened if base.serial in t.leaves] or [*opened]
        why = owners[0].given if owners else OpenTrace.given
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)} in place, and"
            f" {what} {why}. {cure}"
        )
    if is_leaf:
        for trace in opened:
            if base.serial in trace.leaves:
                place = sorted(trace.leaves).index(base.serial)
                check_alone(trace, trace.arguments[place], name, place)
    if _shows_array(base):
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)} in place, and"
            f" {what} shows a plain array, which others may see. {cure}"
        )
    for view in path or [x]:  # one without entries has no memory to be found by
        if (view.op.view or View()).read_only or type(view.params) is ViewParams:
            raise TraceError(
                f"{name}{blame.user_line()}: x is a view by {view.op.name}"
                f"{blame.quote_site(view.site)}, which NumPy does not let anybody write"
                f" to. {cure}"
            )
        if isinstance(view.params, ViewParams) and view.params.holder is not None:
            raise TraceError(
                f"{name}{blame.user_line()}: x is an entry of np.asarray(y), which is"
                f" not written to. {cure}"
            )
    for trace in opened:
        outside = base.serial < min(trace.leaves, default=0)
        if outside and trace.unknown is not None:
            raise TraceError(
                f"{name}{blame.user_line()} changes {blame.describe(x)} in place in"
                " a function that is recorded once and runs many times, and it was made"
                f" outside of that: each run would change it again. {cure}"
            )


def check_alone(
    trace: OpenTrace, array: Any, name: str, place: int = -1, key: int = 0
) -> None:
    """Refuse to write to an argument that shares memory with another one.

    ``place`` is that of the argument among the leaves of the trace, or ``key`` the id
    of one that is no leaf, which the function has under all its names as one array.
    """
    others = [x for i, x in enumerate(trace.arguments) if i != place]
    others += [x for x in trace.constants if id(x) != key]
    if any(_overlap(array, x) for x in others):
        raise TraceError(
            f"{name}{blame.user_line()} changes an argument that shares memory with"
            " another one, which would have to change with it and yet is an argument"
            " of its own. Give the function copies (f(a.copy(), b)), or one array, of"
            " which it takes its parts."
        )


def _overlap(x: Any, y: Any) -> bool:
    """Return whether two arguments share memory."""
    x, y = _find_place(x), _find_place(y)
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return False
    if not np.may_share_memory(x, y):
        return False
    shares_memory: Any = np.shares_memory
    try:
        return bool(shares_memory(x, y, max_work=10_000))
    except np.exceptions.TooHardError:
        return True


def _find_place(x: Any) -> Any:
    """Return an array that lies where an argument does: a view of a version, too."""
    if not isinstance(x, Tensor):
        return x
    node = resolve(x)
    if isinstance(node.params, OwnParams):
        return node.op.compute(_find_place(node.inputs[0]), **node.params)
    return node._value


def _shows_array(x: Tensor) -> bool:
    """Return whether the memory is that of a plain array, which others may see."""
    if type(x) in CHANGED or x.op.view is None or type(x.params) is CopyParams:
        return False
    return type(x.inputs[0]) is np.ndarray


# `+=` and its kin


def make_in_place(
    name: str, method: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return the in-place operator that belongs to an operator: ``+=`` to ``+``."""

    def operate_in_place(self: Tensor, other: Any) -> Any:
        result = method(self, other)
        if result is NotImplemented:
            return result
        if result.code is own:  # the fast way of an operator has taken our frame
            result.code, result.lasti = source.place_of(_frame(1))
        if type(self) is Tensor:
            if not traces.OPEN:
                return result
            value = SLOT.__get__(self)
            if getrefcount(self) <= ALONE and _is_unseen(self, value, result._value):
                frame = _frame(1)
                if frame.f_code.co_code[frame.f_lasti] == BINARY_OP:
                    return result  # only the target held it, and is bound to this
            if type(value) is not np.ndarray:
                if isinstance(value, np.generic) or types.is_weak(value):
                    return result  # numbers have no memory to share
                if value is None and sharing.is_number(self):
                    return result
        elif type(self) not in CHANGED:
            if not traces.OPEN or sharing.is_number(self):
                return result
        return write_whole(self, result, name)

    own = operate_in_place.__code__
    return operate_in_place


def _is_unseen(x: Tensor, value: Any, new: Any) -> bool:
    """Return whether ``+=`` may leave the old value: a view, or its base, holds none.

    That nobody else holds the Tensor is known.
    """
    return (
        type(value) is np.ndarray is type(new)
        and new.dtype is value.dtype
        and new.strides == value.strides
        and new.shape == value.shape
        and x.op.view is None
        and x.op is not IDENTITY
        and all(trace.unknown is None for trace in traces.OPEN)
    )


def write_whole(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Store a result in the memory of ``x``, and return the new ``x``."""
    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if opened and opened[-1].rebinds:
        return new
    if opened and x.op is not IDENTITY and type(x) not in CHANGED:
        if READ(x) is None and all(
            x.serial < min(trace.leaves, default=0) for trace in opened
        ):
            return new  # a symbol from outside
    new = _fit_memory(x, new, name)
    with LOCK:
        memory, path = open_memory(x, f"x {name} y")
        if path or not opened:
            hooks.write_view.call(memory, path, new)
            return x
        new = lay_like(new, memory.latest)
        store(memory, new)
        memory.fresh.append(ref(new))
    return new


def _fit_memory(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Return the result in the shape and dtype of the memory, if they fit."""
    cure = f"Write x = x {name[:-1]} y, which makes a new array."
    if dims.always_differ(new.shape, x.shape):
        raise ShapeError(
            f"x {name} y{blame.user_line()}: the result has shape {new.shape}, and"
            f" does not fit into {blame.describe(x)}. {cure}"
        )
    if new.dtype == x.dtype:
        return new
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"x {name} y{blame.user_line()}: the result is of dtype {new.dtype}, and"
            f" does not fit into {blame.describe(x)}. {cure}"
        )
    converted: Tensor = new.astype(x.dtype)
    return converted


def rebind_in_place(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of a loop in which ``x += y`` always binds ``x`` to a new value.

    That is what it means to Theano, whose variables have no memory.
    """

    @wraps(step)
    def run(*args: Any) -> Any:
        traces.LOCAL.stack[-1].rebinds = True
        return step(*args)

    return run


class _Probe:
    """Counts references to the target of an in-place operator."""

    def __iadd__(self, other: object) -> Any:
        held = (self, other)  # as the inputs of the result do
        return getrefcount(self) if held else 0


def _count_alone() -> int:
    probe: Any = _Probe()
    probe += 1
    found: int = probe
    return found


#: The references to the left operand of ``h += v`` whose only holder is the name h.
#: Where threads run at once counts tell nothing: never.
ALONE = _count_alone() if COUNTS else -1
