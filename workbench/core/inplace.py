"""Arrays that are written to: versions of a memory, and handles that show the latest.

A Tensor is a node of a program, and nodes never change. A user holds Tensors as NumPy's
arrays, which do. The two meanings part at the first write: a `Memory` then stands for
the array that all its names and views share, and knows its latest version, a node. A
write makes the next version, and every Tensor that shows the memory becomes a *handle*,
by its class: whoever is given a handle takes the latest node in its place, of a view
the view taken again of the latest version.

What was recorded before reads the nodes as they were. A handle keeps a copy of the node
that it was (`Handle.node`), and who walks over a program puts that in the place of
handles on the way (`replace_handles`): a Graph holds nodes alone.

Three facts must hold, or numbers would be wrong in silence: functions share memory, and
lay it out, as NumPy's do; who is handed the node of a version has it noted (`adopt`);
and what an array *is* is answered as NumPy does. How entries are put into a version,
and the functions that write, stand in `ops/writing.py`.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from workbench.core import blame, dims, hooks, source, traces, types
from workbench.core.op import CopyParams, RavelParams, ViewParams, declare
from workbench.core.tensor import (
    CHANGED,
    IDENTITY,
    NO_PARAMS,
    Tensor,
    apply,
    take_name,
)
from workbench.core.traces import OpenTrace, node_of
from workbench.errors import DtypeError, ShapeError, TraceError

_frame = sys._getframe

#: The slot behind the property of handles.
SLOT: Any = vars(Tensor)["_value"]
READ = SLOT.__get__

#: One write at a time: threads of the function's own may share an array.
LOCK = threading.RLock()
BINARY_OP = dis.opmap["BINARY_OP"]

#: Whether counts of references are exact: threads share them where there is no GIL.
COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()
#: The references to what a local name alone holds, as `getrefcount` is given it.
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
        The value of the latest version, where nobody has seen it: written in place.
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
        """Keep the last value alone: the program that made it has ended.

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
        for handle in self.handles:
            if (x := handle()) is not None:
                x.memory.taken = None

    def hand_over(self, outer: OpenTrace, first: int, walked: set[int]) -> None:
        """Leave it to the trace around; ``first`` is the serial of our first leaf.

        Nodes that nobody shows any more must not hold the handles that users had.
        """
        purify([self.latest], first, walked)
        self.owner, self.allowed = outer, None

    def is_shown(self) -> bool:
        """Return whether anybody may still read or write it; if not, let it go."""
        shown: list[Any] = [r() for r in (*self.handles, *self.fresh)]
        latest, self.latest = self.latest, None
        if any(x is not None and x is not latest for x in shown) or not COUNTS:
            self.latest = latest
            return True
        shown.clear()
        if getrefcount(latest) > ALONE_HERE:
            self.latest = latest
            return True
        self.buffer = self.shown = self.seen = None
        return False

    def check_reopened(self, name: str) -> None:
        """Refuse to write to what outlived its trace, if not all of it would show."""
        alive = [x for r in self.fresh if (x := r()) is not None]
        if any(type(x) not in CHANGED for x in alive):
            raise TraceError(
                f"{name}{blame.user_line()} changes an array that a function has filled"
                " while it was traced, and a view of it, or another name, that was kept"
                " since would not show the change. Work on a copy: x = x.copy()."
            )
        self.fresh.clear()


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
            hooks.write_entries.call(seen, node)
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
    """Return whether a node is a version whose value is made when it is asked for."""
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
    """What a Tensor that shows a changed memory knows: the memory, and its own node."""

    __slots__ = ("_node", "kind", "memory", "seen", "taken", "whole", "x")

    def __init__(self, x: Tensor, memory: Memory, whole: bool) -> None:
        self.memory, self.whole, self.kind = memory, whole, type(x)
        self.seen = -1
        self.taken: Any = None
        self._node: Any = None
        self.x = ref(x)

    @property
    def node(self) -> Tensor:
        """The node that the Tensor was when it was made."""
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
    """Return the node that a handle stands for now; anything else as it is."""
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
    """Return a result that a user is handed: who shows a memory must be known to it."""
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


# Who shares the memory


def find_memory(x: Tensor) -> Tensor:
    """Return the Tensor whose memory a Tensor shows, perhaps its own."""
    while type(x) in CHANGED or (
        x.op.view is not None and _may_be_view(x, x.inputs[0])
    ):
        if type(x) in CHANGED:
            if x.memory.whole:
                return x
            x = x.memory.node
        else:
            x = x.inputs[0]
    return x


def _may_be_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view, or may be one where values are not known."""
    unknown = isinstance(base, Tensor) and READ(x) is None
    if unknown and type(x.params) is not CopyParams:
        return x.op.view is not None and x.op.view(x.params)
    return is_view(x, base)


def is_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view of the one that it was made of."""
    if not isinstance(base, Tensor):
        return False
    if isinstance(x.params, ViewParams):
        return x.params.holder is None or x.params.holder() is not None
    if type(x.params) is CopyParams or is_number(x) or is_number(base):
        return False
    a, b = READ(x), READ(base)
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return a is b or bool(np.may_share_memory(a, b))
    if a is None and x._value is None:
        return _is_symbolic_view(x, base)
    return x.op.view is not None and x.op.view(x.params)


def _is_symbolic_view(x: Tensor, base: Tensor) -> bool:
    """Return whether NumPy would give a view, found at stand-ins of known lengths."""
    if x.op.view is None or not x.op.view(x.params):
        return False
    if not x.op.may_copy:
        return True
    if (example := find_layout(base)) is not None:
        made = x.op.compute(example, **x.params)
        if type(x.params) is RavelParams and not made.flags.c_contiguous:
            return False
        return bool(np.may_share_memory(example, made))
    raise TraceError(
        f"whether {blame.describe(x)} shares memory with what it was made of"
        f"{blame.quote_site(x.site)}, and would be changed in place"
        f"{blame.user_line()}, depends on the order of entries in memory, which is not"
        " known while tracing without values. Write .copy() where it is made, or before"
        " that."
    )


COPY = declare("copy")


def find_layout(node: Any) -> Any:
    """Return an array that lies in memory as the value of a node would; or None.

    Each op back to the leaves is run once on arrays of ones, which lie as values would.
    None where it is not known: in the functions that are recorded once, arguments of
    two axes may lie in either order.
    """
    stack = traces.LOCAL.stack or traces.OPEN
    known = stack[0].layouts if stack else {}
    node = node_of(node)
    todo = [node]
    while todo:
        x = todo[-1]
        if not isinstance(x, Tensor) or x.serial in known:
            todo.pop()
            continue
        value = READ(x)
        if value is None and (example := _find_example(x)) is not None:
            value = example
        if value is not None or _has_unknown_length(x):
            known[todo.pop().serial] = value
            continue
        inputs = [node_of(i) for i in x.inputs]
        missing = [i for i in inputs if isinstance(i, Tensor) and i.serial not in known]
        if missing:
            todo += missing
            continue
        parts = [known[i.serial] if isinstance(i, Tensor) else i for i in inputs]
        known[todo.pop().serial] = _lay_out_example(x, parts)
    return known[node.serial] if isinstance(node, Tensor) else node


def note_example(leaf: Tensor, batch: Any, axis: int) -> None:
    """Note how the examples of a batch lie in memory, for a leaf without a value."""
    batch = resolve(batch)
    value = batch._value if isinstance(batch, Tensor) else batch
    if type(value) is np.ndarray and value.ndim and value.size:
        example = value[(slice(None),) * (axis % value.ndim) + (0,)]
        if type(example) is np.ndarray:
            traces.LOCAL.stack[-1].examples[leaf.serial] = example


def _find_example(x: Tensor) -> Any:
    """Return what a leaf without a value will look like, where a trace knows it."""
    if x.op is IDENTITY:
        for trace in traces.LOCAL.stack or traces.OPEN:
            if (example := trace.examples.get(x.serial)) is not None:
                return example
    return None


def _has_unknown_length(x: Tensor) -> bool:
    spec: Any = x.spec  # several of a node with several outputs
    specs = spec if isinstance(spec, tuple) else (spec,)
    return any(dims.has_dim(spec.shape) for spec in specs)


def _lay_out_example(x: Tensor, parts: list[Any]) -> Any:
    spec: Any = x.spec
    several = isinstance(spec, tuple)
    if not several:
        shape, dtype = spec.shape, spec.dtype
        order = x.params.get("order") if x.op is COPY else None
        if x.op is IDENTITY and parts:  # what an inner trace makes of a Tensor
            return parts[0]
        if x.op is IDENTITY and len(shape) > 1:
            return None
        if x.op is IDENTITY or not shape or order in ("C", "F"):
            return np.ones(shape, dtype, order=order or "C")  # host array: a stand-in
    if any(p is None for p in parts):
        return None
    try:
        with np.errstate(all="ignore"):
            made = x.op.compute(*parts, **x.params)
    except Exception:
        return None
    if several:
        return made
    if type(made) is not np.ndarray or made.shape != shape:
        return None
    if type(x.params) is RavelParams:
        made = np.ascontiguousarray(made)
    for part in parts:  # one array for all that lie alike: a program has many nodes
        if type(part) is np.ndarray and part.dtype == made.dtype:
            if part.shape == shape and part.strides == made.strides:
                return part
    return made


def is_number(x: Tensor) -> bool:
    """Return whether a Tensor is a number to NumPy, which has no memory to share."""
    if type(x.memory) is Memory:
        return False
    value = READ(x)
    if type(value) is np.ndarray:
        return False
    if isinstance(value, np.generic) or types.is_weak(value):
        return True
    # Without a value, or of a device, whose numbers are arrays without axes.
    if (x.spec if value is None else value).shape:
        return False
    # A view without axes is an array; an entry is a number, and so is a reduction.
    whole = x.op.view is None or type(x.params) is CopyParams
    return whole or ("key" in x.params and Ellipsis not in x.params["key"])


def _list_views(x: Tensor) -> list[Tensor]:
    return [
        view
        for r in x.views or ()
        if (view := r()) is not None and type(view) not in CHANGED and is_view(view, x)
    ]


# Writing


def open_memory(x: Tensor, name: str) -> tuple[Memory, list[Tensor]]:
    """Return the memory that a Tensor shows, and the views from it to the whole.

    Raises
    ------
    TraceError
        Where NumPy lets nobody write, or others than the program would see it.
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
        elif node.op.view is None or not is_view(node, node.inputs[0]):
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
    """Make a node the latest version of a memory, and handles of all that shows it.

    It is the last step of a write, when nothing can fail any more.
    """
    old = memory.latest
    stack: list[tuple[Any, bool]] = []
    if memory.fresh:
        stack = [(x, True) for r in memory.fresh if (x := r()) is not None]
        memory.fresh.clear()
    if old.views:
        stack += [(view, False) for view in _list_views(old)]
    while stack:
        x, whole = stack.pop()
        if type(x) in CHANGED:
            continue
        if x.views:
            stack += [(view, False) for view in _list_views(x)]
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
    """Replace what the memory of ``x`` holds by what a function makes of it."""
    with LOCK:
        if is_number(node_of(x)):
            raise TypeError(
                f"{name}{blame.user_line()}: {blame.describe(x)} is a number, which"
                " NumPy does not let anybody write to"
            )
        memory, path = open_memory(x, name)
        old = latest_of(x, memory) if path else memory.latest
        hooks.write_view.call(memory, path, change(old))


def write_path(memory: Memory, path: Sequence[Tensor], new: Any) -> None:
    """Let the view at the end of a path be a new value, and so the base."""
    for view in path:
        parent = latest_of(view.inputs[0], memory)
        new = hooks.put_view.call(view, parent, new)
    store(memory, _lay_like(new, memory.latest))


def _lay_like(new: Any, old: Any) -> Any:
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
    if value is None:
        a, b = find_layout(old), find_layout(new)
        if a is not None and b is not None:
            if own and a.strides == b.strides:
                return new
            if a.flags.forc:
                order = "C" if a.flags.c_contiguous else "F"
                return apply(COPY, (new,), {"order": order})
        # It is written into a copy of the old one, which lies as that does.
        return apply(declare("index_set"), (old, new), {"key": (Ellipsis,)})
    before = old._value
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
        return Tensor(COPY, (x,), (value,), NO_PARAMS, room, *line, context)
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
                check_alone(trace, READ(base), name, place)
    if _shows_array(base):
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)} in place, and"
            f" {what} shows a plain array, which others may see. {cure}"
        )
    for view in path or [x]:  # one without entries has no memory to be found by
        if view.op.read_only or type(view.params) is ViewParams:
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
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        if any(isinstance(a.params, OwnParams) for a in map(node_of, (x, y))):
            return find_memory(x) is find_memory(y)
    x, y = (resolve(a)._value if isinstance(a, Tensor) else a for a in (x, y))
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
        return False
    if not np.may_share_memory(x, y):
        return False
    try:
        return bool(np.shares_memory(x, y, max_work=10_000))
    except np.exceptions.TooHardError:
        return True


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
                if value is None and is_number(self):
                    return result
        elif type(self) not in CHANGED:
            if not traces.OPEN or is_number(self):
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
    """Let a result be what the memory of ``x`` holds, and return what ``x`` is now."""
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
        new = _lay_like(new, memory.latest)
        store(memory, new)
        memory.fresh.append(ref(new))
    return new


def _fit_memory(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Return the result in the shape and dtype of the memory that would hold it."""
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
    """Counts what refers to the target of an in-place operator."""

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
        if hooks.writes.call(function, args, kw):
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
            "__getitem__": lambda self, index: hooks.read_entries.call(
                self, index, source.place_of(_frame(1))
            ),
            "__array_ufunc__": array_ufunc,
            "__array_function__": array_function,
            **METHODS,
        },
    )
    CHANGED.add(made)
    return made
