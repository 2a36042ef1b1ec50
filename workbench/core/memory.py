"""Arrays that are written to: memories, their versions, and handles that show the last.

A Tensor is a node of a program, and nodes never change. A user holds Tensors as NumPy's
arrays, which do. The two meanings part at the first write: a `Memory` then stands for
the array that all its names and views share, and knows its latest version, a node. A
write makes the next version, and every Tensor that shows the memory becomes a *handle*,
by its class: code that gets a handle takes the latest node in its place, of a view the
view taken again of the latest version.

What was recorded before reads the nodes as they were. A handle keeps a copy of the node
that it was (`Handle.node`), and who walks over a program puts that in the place of
handles on the way (`replace_handles`): a Graph holds nodes alone.

Three facts must hold, or numbers would be wrong in silence: functions share memory, and
lay it out, as NumPy's do (`sharing.py`); a node of a version that is handed out is
noted (`adopt`); and what an array *is* is answered as NumPy does. A write begins and
ends in `inplace.py`; how entries are put into a version, and the functions that write,
stand in `ops/writing.py`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from functools import cache
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from workbench.core import blame, source, types
from workbench.core.deferred import compute_op
from workbench.core.op import ATTRIBUTES, ViewParams, writes
from workbench.core.tensor import (
    CHANGED,
    IDENTITY,
    NO_PARAMS,
    Tensor,
    apply,
    take_name,
)
from workbench.core.traces import OpenTrace, node_of
from workbench.errors import TraceError

_frame = sys._getframe

#: The slot behind the property of handles.
SLOT: Any = vars(Tensor)["_value"]
READ = SLOT.__get__

#: One write at a time: threads of the function's own may share an array.
LOCK = threading.RLock()

#: Whether counts of references are exact: threads share them where there is no GIL.
COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()
#: The references to what one attribute alone holds, as `getrefcount` is given it.
ALONE_HERE = 2


class OwnParams(ViewParams):
    """The settings of a view of a version: its value is a copy, its meaning a view."""


class FlatParams(ViewParams):
    """The settings of the entries in one line that may be written to: ``x.flat``."""


class Memory:
    """The memory that some Tensors show, and the node of its latest version.

    Attributes
    ----------
    latest
        The node of the newest version of the whole.
    version
        How often it was written to.
    fresh
        Weak references to Tensors that show all of it and are no handles yet.
    handles
        Weak references to its handles.
    owner
        The trace (or sum of a sweep) at whose end it closes; None when it is closed.
    allowed
        The innermost trace in which a write has been found to be allowed.
    buffer
        The value of the latest version, while it is private: written in place.
    shown
        An array of its shape that takes no memory, for rules that read no more.
    seen
        The serial and the value of an older version that somebody has asked for, for
        who asks for the next one.
    """

    __slots__ = (
        "allowed",
        "buffer",
        "fresh",
        "handles",
        "latest",
        "owner",
        "seen",
        "shown",
        "version",
    )

    def __init__(self, root: Tensor) -> None:
        self.latest: Any = root
        self.version = 0
        self.fresh: list[ref[Any]] = [ref(root)]
        self.handles: list[ref[Any]] = []
        self.owner: Any = None
        self.allowed: Any = None
        self.buffer: Any = None
        self.shown: Any = None
        self.seen: Any = None

    def close(self) -> None:
        """Keep the last value alone: the program behind the memory has ended.

        Memory and nodes refer to each other, and each program with a write would be
        left to the garbage collector, with all its arrays.
        """
        last = self.latest
        value = last._value
        made = Tensor(IDENTITY, (), (), NO_PARAMS, value)
        if value is None:
            made.spec = last.spec
        # Who shows it and is no handle must be gone before it is written to again.
        self.fresh += last.views or ()
        self.latest, self.owner, self.allowed = made, None, None
        self.buffer = self.shown = None
        self.version += 1
        if type(value) is np.ndarray:
            self.show(value)
        for handle in self.handles:
            if (x := handle()) is not None:
                x.memory.taken = None

    def show(self, value: Any) -> None:
        """Let all readers share one array after the end of their program.

        A view of a version may have been a copy, and lie in another array.
        """
        SLOT.__set__(self.latest, value)
        for found in self.fresh:
            x = found()
            if x is None or type(x) in CHANGED:
                continue
            if x.memory is self:
                SLOT.__set__(x, value)
            else:
                _show_view(x, value)

    def hand_over(self, outer: OpenTrace, first: int, walked: set[int]) -> None:
        """Leave the memory to the outer trace; ``first`` is our first leaf's serial.

        Nodes that nobody shows any more must not hold the handles that users had.
        """
        purify([self.latest], first, walked)
        self.owner, self.allowed = outer, None

    def is_shown(self) -> bool:
        """Return whether any handle is in use; if not, drop the content."""
        x = None
        for found in (*self.handles, *self.fresh):
            x = found()
            if x is not None and x is not self.latest:
                return True
        x = None  # which may have been the latest: it is counted now
        if not COUNTS or getrefcount(self.latest) > ALONE_HERE:
            return True
        self.latest = self.buffer = self.shown = self.seen = None
        return False

    def check_reopened(self, name: str) -> None:
        """Refuse a write after the trace, where a view would miss the change."""
        alive = [x for r in self.fresh if (x := r()) is not None]
        if any(type(x) not in CHANGED for x in alive):
            raise TraceError(
                f"{name}{blame.user_line()} changes an array that a function has filled"
                " while it was traced, and a view of it, or another name, that was kept"
                " since would not show the change. Work on a copy: x = x.copy()."
            )
        self.fresh.clear()


def _show_view(view: Any, base: Any) -> None:
    """Let a view, and views of that view, share the memory of an array."""
    if view.op.view is None or type(READ(view)) is not np.ndarray:
        return
    made = compute_op(view.op, (base, *view.args[1:]), view.params)
    if type(made) is np.ndarray and np.may_share_memory(made, base):
        SLOT.__set__(view, made)
        for found in view.views or ():
            if (x := found()) is not None and type(x) not in CHANGED:
                _show_view(x, made)


class Version(Tensor):
    """A version of a memory that differs from the one before at an index.

    Its value is the buffer of the memory as long as it is the latest. A later write
    goes into the same buffer, unless somebody has been given it; who then asks for this
    value gets it computed again.
    """

    __slots__ = ()

    _value = property(lambda self: _read_version(self), SLOT.__set__)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape, a tuple of integers."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.spec.dtype


types.SPECIFIED.add(Version)


def _read_version(x: Any) -> Any:
    value = READ(x)
    if value is not None:
        return value
    with LOCK:  # or a write of another thread goes into what is read
        return _find_value(x)


def _find_value(x: Any) -> Any:
    value = READ(x)
    if value is not None:
        return value
    memory = x.memory
    if memory.latest is x and memory.buffer is not None:
        value, memory.buffer = memory.buffer, None
        SLOT.__set__(x, value)
        return value
    chain, node = [], x
    serial, seen = memory.seen or (0, None)
    while type(node) is Version and READ(node) is None and node.serial != serial:
        chain.append(node)
        node = node_of(node.inputs[0])
    if type(node) is not Version or READ(node) is not None:
        seen = node._value if isinstance(node, Tensor) else node
    if chain:
        seen = copy_in_place(seen)
        for node in reversed(chain):
            ATTRIBUTES[np.ndarray.__setitem__](seen, node)
        memory.seen = x.serial, seen
    return seen


def read_args(node: Any) -> tuple[Any, ...]:
    """Return the values that a node was computed from, those of versions too.

    Its ``args`` may hold in their place an array of which rules read the shape alone.
    """
    if type(node) is Version or any(type(x) is Version for x in node.inputs):
        return tuple([x._value if isinstance(x, Tensor) else x for x in node.inputs])
    args: tuple[Any, ...] = node.args
    return args


def is_lazy(node: Any) -> bool:
    """Return whether a node is a version with a value made on request."""
    return type(node) is Version and READ(node) is None


def copy_in_place(value: Any) -> Any:
    """Return a copy that lies in memory as the array does, gaps and all.

    Whether a reshape is a view, and what is written through it, depends on that.
    """
    made = np.copy(value)
    if type(value) is not np.ndarray or made.strides == value.strides:
        return made
    if not value.size or any(
        n > 1 and s == 0 for n, s in zip(value.shape, value.strides, strict=True)
    ):
        return made  # entries that lie on one another are not written to
    ends = [(n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)]
    low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)
    room = np.empty(high - low + value.itemsize, np.uint8)
    laid = np.ndarray(value.shape, value.dtype, room, -low, value.strides)
    laid[...] = value
    return laid


class Handle:
    """The state of a Tensor that shows changed memory: the memory, and its own node."""

    __slots__ = ("_node", "kind", "memory", "seen", "taken", "whole", "x")

    def __init__(self, x: Tensor, memory: Memory, whole: bool) -> None:
        self.memory, self.whole, self.kind = memory, whole, type(x)
        self.seen = -1
        self.taken: Any = None
        self._node: Any = None
        self.x = ref(x)

    @property
    def node(self) -> Tensor:
        """The node of the Tensor at its creation."""
        if self._node is None:
            memory = self.memory if self.whole else None
            self._node = _copy_node(self.x(), self.kind, memory)
        made: Tensor = self._node
        return made

    def read(self) -> Any:
        """Return the node that the Tensor stands for now."""
        memory = self.memory
        if self.whole:
            return memory.latest
        if self.taken is None or self.seen != memory.version:
            with LOCK:
                x: Any = self.x()
                if isinstance(x.params, ViewParams) and x.params.holder is not None:
                    raise explain_entry(x)
                made = _take_again(x, latest_of(x.inputs[0], memory))
                take_name(made, x)
                self.taken, self.seen = made, memory.version
        return self.taken


def explain_entry(x: Tensor) -> TraceError:
    """Return the error for an entry of ``np.asarray(x)`` read after a write to x."""
    return TraceError(
        f"an entry of np.asarray of {blame.describe(x)} is read{blame.user_line()}"
        " after the array was written to: the entries that plain NumPy is given do not"
        " follow. Leave np.asarray out, take it after the change, or a .copy() before."
    )


def _copy_node(x: Any, kind: Any, memory: Memory | None) -> Tensor:
    made: Tensor = object.__new__(kind)
    for base in kind.__mro__:
        for name in getattr(base, "__slots__", ()):
            if name in ("__weakref__", "memory"):
                continue
            slot: Any = vars(base)[name]
            try:
                value = slot.__get__(x)
            except AttributeError:
                continue
            slot.__set__(made, value)
    if memory is not None:
        made.memory = memory
    return made


#: Marks nodes that stand for views, and that no user holds.
TAKEN: Any = object()


def _take_again(view: Tensor, parent: Any) -> Any:
    made = apply(view.op, (parent, *view.inputs[1:]), view.params)
    made.memory = TAKEN
    return made


def latest_of(node: Any, memory: Memory) -> Any:
    """Return the latest version of a member of a memory, as a node."""
    path = []
    while True:
        if type(node) in CHANGED and node.memory.memory is memory:
            made = node.memory.read()
            break
        if node.memory is memory:
            made = memory.latest
            break
        path.append(node)
        node = node.inputs[0]
    for view in reversed(path):
        made = _take_again(view, made)
    return made


def resolve(x: Any) -> Any:
    """Return the current node of a handle; else the object unchanged."""
    return x.memory.read() if type(x) in CHANGED else x


def resolve_nest(value: Any) -> Any:
    """Return arguments of a call, nodes in place of handles."""
    kind = type(value)
    if kind in CHANGED:
        return value.memory.read()
    if kind is list or kind is tuple:
        new = [resolve_nest(x) for x in value]
        if any(x is not y for x, y in zip(value, new, strict=True)):
            return kind(new)
    elif kind is dict:
        return {key: resolve_nest(x) for key, x in value.items()}
    return value


def adopt(made: Any) -> Any:
    """Return a result for the user, noted in its memory as one more reader."""
    if isinstance(made, Tensor):
        if type(made) not in CHANGED:
            memory = made.memory
            if type(memory) is Memory:
                if memory.owner is not None and made is memory.latest:
                    memory.fresh.append(ref(made))
            elif memory is TAKEN:
                made.memory = None
    elif isinstance(made, (list, tuple)):
        for x in made:
            adopt(x)
    return made


def replace_handles(node: Any) -> None:
    """Let a node be made from nodes, not from handles: whoever walks does so first."""
    node.inputs = tuple(map(node_of, node.inputs))


def purify(
    roots: Iterable[Any], first: int = 0, walked: set[int] | None = None
) -> None:
    """Let the nodes from a serial on be made from nodes, not from handles.

    ``walked`` are the serials of those that are known to be, and takes more of them.
    """
    seen: set[int] = set() if walked is None else walked
    stack = [node_of(x) for x in roots if isinstance(x, Tensor)]
    while stack:
        node = stack.pop()
        if node.serial >= first and node.serial not in seen:
            seen.add(node.serial)
            if not CHANGED.isdisjoint(map(type, node.inputs)):
                replace_handles(node)
            stack += [x for x in node.inputs if isinstance(x, Tensor)]


# The classes of handles

#: The operators of handles; `core/operators.py` fills it.
METHODS: dict[str, Any] = {}


def _read_value(x: Any) -> Any:
    """Return the value of the latest version."""
    return x.memory.read()._value


@cache
def changed_class(kind: type[Tensor]) -> type[Tensor]:
    """Return the class that Tensors of a class have when they are handles."""

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        if method == "at" or kw.get("out") is not None:
            return Tensor.__array_ufunc__(self, ufunc, method, *inputs, **kw)
        inputs = tuple([resolve_nest(x) for x in inputs])
        kw = {k: resolve_nest(v) for k, v in kw.items()}
        owner = next((x for x in inputs if isinstance(x, Tensor)), resolve(self))
        return adopt(owner.__array_ufunc__(ufunc, method, *inputs, **kw))

    def array_function(self: Any, function: Any, kinds: Any, args: Any, kw: Any) -> Any:
        if writes(function, args, kw):
            return Tensor.__array_function__(self, function, kinds, args, kw)
        new = resolve_nest(tuple(args))
        kw = {k: resolve_nest(v) for k, v in kw.items()}
        made = Tensor.__array_function__(resolve(self), function, kinds, new, kw)
        for given, node in zip(args, new, strict=True):
            if made is node and given is not node:
                return given  # NumPy gives back what it was given
        return adopt(made)

    made: type[Tensor] = type(
        f"Changed{kind.__name__}",
        (kind,),
        {
            "__slots__": (),
            "__module__": __name__,
            "__doc__": "A Tensor whose memory has been changed in place since.",
            "_value": property(_read_value, SLOT.__set__),
            "shape": property(lambda self: self.memory.read().shape),
            "dtype": property(lambda self: self.memory.read().dtype),
            "spec": property(lambda self: types.spec_of(self.memory.read())),
            "stored": property(_read_value),
            "__getitem__": lambda self, index: ATTRIBUTES[np.ndarray.__getitem__](
                self, index, source.place_of(_frame(1))
            ),
            "__array_ufunc__": array_ufunc,
            "__array_function__": array_function,
            **METHODS,
        },
    )
    CHANGED.add(made)
    return made
