"""Arrays that change in place: versions of a memory, and views that follow them.

A Tensor is a node of a program, and nodes never change. A user holds Tensors as NumPy's
arrays, which do. The two meanings part at the first write: `Memory` then stands for the
array that all its names and views share, and knows its latest version, a node. A write
computes the next version (``at(base)[index].set(v)``), and every Tensor that shows the
memory becomes a *handle*, by its class: an op that is given a handle takes the latest
node in its place, of a view the view taken again of the latest version.

What was recorded before reads the nodes as they were (`traces.OldValues`); a Graph holds
nodes alone (`purify`).
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

from workbench.core import blame, dims, source, tensor, traces, types
from workbench.core.op import CopyParams, ViewParams, declare
from workbench.core.tensor import (
    CHANGED,
    IDENTITY,
    NO_PARAMS,
    LeanTensor,
    Tensor,
    apply,
    take_name,
)
from workbench.core.traces import OldValues, OpenTrace
from workbench.errors import DtypeError, ShapeError, TraceError

_frame = sys._getframe

#: The slot behind the property of handles.
SLOT: Any = vars(Tensor)["_value"]
READ = SLOT.__get__

#: Ops whose result NumPy gives as a view that cannot be written to.
READ_ONLY = frozenset({"broadcast_to", "windows"})

_LOCK = threading.RLock()

#: The references to the left operand of ``h += v`` whose only holder is the name h,
#: found below, and the code of Python's instruction for it.
ALONE = 0
BINARY_OP = dis.opmap["BINARY_OP"]

_SLOTS: dict[str, Any] = {
    name: vars(kind)[name]
    for kind in Tensor.__mro__
    for name in getattr(kind, "__slots__", ())
    if name not in ("__weakref__", "memory", "views")
}


class FlatParams(ViewParams):
    """The settings of the entries in one line that may be written to: ``x.flat``."""


class Memory:
    """The memory that some Tensors show: which node its latest version is."""

    __slots__ = ("buffer", "closed", "fresh", "handles", "latest", "shown", "version")

    def __init__(self, root: Tensor) -> None:
        self.latest: Any = root
        self.version = 0
        #: Tensors that show all of it and are no handles yet.
        self.fresh: list[ref[Any]] = [ref(root)]
        self.handles: list[ref[Any]] = []
        self.closed = False
        #: The value of the latest version, where nobody has seen it: written in place.
        self.buffer: Any = None
        #: An array of its shape that takes no memory, for rules that read no more.
        self.shown: Any = None

    def close(self) -> None:
        """Keep the last value alone: the program that made it has ended."""
        self.closed = True
        last = self.latest
        if isinstance(last, Tensor):
            value = last._value
            if value is not None:
                self.latest = Tensor(IDENTITY, (), (), NO_PARAMS, value)
                self.version += 1
        for handle in self.handles:
            if (x := handle()) is not None:
                x.memory.taken = None
                x.memory.seen = -1
        self.handles.clear()
        self.fresh.clear()
        _LAYOUTS.clear()


class Version(Tensor):
    """A version of a memory that differs from the one before at an index.

    Its value is the buffer of the memory as long as it is the latest. A later write goes
    into the same buffer, unless somebody has been given it, and who then asks for this
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


class OwnParams(ViewParams):
    """The settings of a view of a version: its value is a copy, its meaning a view."""


def _read_version(x: Any) -> Any:
    value = READ(x)
    if value is not None:
        return value
    memory = x.memory
    if memory.latest is x and memory.buffer is not None:
        value, memory.buffer = memory.buffer, None
        SLOT.__set__(x, value)
        return value
    from workbench.ops.indexing import as_index

    chain = [x]
    before = x.inputs[0]
    while type(before) is Version and READ(before) is None:
        chain.append(before)
        before = before.inputs[0]
    value = np.copy(before._value)
    for node in reversed(chain):
        value[as_index(node.params["key"], node.args[2:])] = node.args[1]
    return value


def _set_in_place(memory: Memory, latest: Any, index: Any, value: Any) -> Any:
    """Return the next version, written into the buffer; None where that is not known."""
    from workbench.ops.indexing import ARRAY, as_index, split_index
    from workbench.ops.updates import SET

    if isinstance(value, Tensor):
        v = value._value
    elif isinstance(value, np.ndarray):
        if type(value) is not np.ndarray or value.dtype == object:
            return None
        v = value = value.copy()
    else:
        v = value
    if v is None or not (types.is_weak(v) or isinstance(v, (np.ndarray, np.generic))):
        return None
    if type(latest) is Version:
        kind = latest.spec.dtype
    else:
        base = latest._value if isinstance(latest, Tensor) else latest
        if type(base) is not np.ndarray:
            return None
        kind = base.dtype
    if kind.kind not in "fc":
        return None
    if not np.can_cast(v.dtype if hasattr(v, "dtype") else type(v), kind, "same_kind"):
        return None
    try:
        key, arrays = split_index(index)
    except Exception:  # noqa: BLE001 says that the other way will tell
        return None
    plain = tuple([a._value if isinstance(a, Tensor) else a for a in arrays])
    if any(a is None or a.dtype.kind == "b" for a in plain):
        return None
    buffer, fresh = memory.buffer, False
    if buffer is None:
        buffer, fresh = np.copy(latest._value), True
    buffer[as_index(key, plain)] = v  # an error leaves it as it was
    if memory.shown is None:
        shown = np.broadcast_to(np.full((), np.nan, buffer.dtype), buffer.shape)
        memory.shown = shown
    code, lasti = source.caller(2)
    made = Version(
        SET,
        (latest, value, *arrays),
        (memory.shown, v, *plain),
        {"key": key},
        None,
        code,
        lasti,
        source.current_context(),
    )
    made.spec = types.Spec(buffer.shape, buffer.dtype)
    memory.buffer = buffer
    return made


def take(self: Any, index: Any) -> Any:
    """Return ``x[index]`` of a handle: of a version a copy, which is a view by name."""
    from workbench.ops.indexing import GETITEM, as_index, getitem, split_index

    node = resolve(self)
    if type(node) is Version and READ(node) is None:
        memory = node.memory
        if memory.latest is node and memory.buffer is not None:
            try:
                key, arrays = split_index(resolve_nest(index))
            except Exception:  # noqa: BLE001 says that the other way will tell
                return getitem(node, index)
            plain = tuple([a._value if isinstance(a, Tensor) else a for a in arrays])
            if any(a is None for a in plain):
                return getitem(node, index)
            try:
                value = memory.buffer[as_index(key, plain)]
            except IndexError:
                return getitem(node, index)
            params: dict[str, Any] = {"key": key}
            if type(value) is np.ndarray and not arrays:
                flags = value.flags
                if value.ndim > 1 and not (flags.c_contiguous or flags.f_contiguous):
                    return getitem(node, index)  # whose copy would have other strides
                value, params = value.copy("K"), OwnParams(params)
            code, lasti = source.caller(2)
            made = Tensor(
                GETITEM,
                (node, *arrays),
                (memory.shown, *plain),
                params,
                value,
                code,
                lasti,
                source.current_context(),
            )
            if type(params) is OwnParams:
                tensor.note_view(node, made)
            return made
    return getitem(node, resolve_nest(index))


class Handle:
    """What a Tensor that shows a changed memory knows: the memory, and its own node."""

    __slots__ = ("_node", "kind", "memory", "number", "seen", "taken", "whole", "x")

    def __init__(self, x: Tensor, memory: Memory, whole: bool) -> None:
        self.memory, self.whole, self.kind = memory, whole, type(x)
        self.number = traces.LATEST[0]
        self.seen, self.taken, self._node = -1, None, None
        self.x = ref(x)

    @property
    def node(self) -> Tensor:
        """The node that the Tensor was when it was made."""
        if self._node is None:
            self._node = _copy_node(self.x(), self.kind)
        return self._node


def _copy_node(x: Any, kind: type) -> Tensor:
    made = object.__new__(kind)
    for name, slot in _SLOTS.items():
        try:
            value = slot.__get__(x)
        except AttributeError:
            continue
        slot.__set__(made, value)
    made.views = vars(Tensor)["views"].__get__(x) if _has(x, "views") else None
    return made


def _has(x: Any, name: str) -> bool:
    try:
        vars(Tensor)[name].__get__(x)
    except AttributeError:
        return False
    return True


# Reading


def resolve(x: Any) -> Any:
    """Return the node that a handle stands for now."""
    handle = x.memory
    if handle.number <= traces.LOCAL.last_change:
        return handle.node
    memory = handle.memory
    if handle.whole:
        return memory.latest
    if handle.seen != memory.version:
        with _LOCK:
            parent = _latest_of(x.inputs[0], memory)
            made = apply(x.op, (parent, *x.inputs[1:]), x.params)
            made.memory = TAKEN
            take_name(made, x)
            handle.taken, handle.seen = made, memory.version
    return handle.taken


#: Marks nodes that stand for views, and that no user holds.
TAKEN: Any = object()


def _latest_of(node: Any, memory: Memory) -> Any:
    """Return the latest version of a member of a memory, as a node."""
    if type(node) in CHANGED:
        handle = node.memory
        if handle.memory is memory:
            return memory.latest if handle.whole else resolve(node)
    if node.memory is memory:
        return memory.latest
    parent = _latest_of(node.inputs[0], memory)
    made = apply(node.op, (parent, *node.inputs[1:]), node.params)
    made.memory = TAKEN
    return made


def resolve_all(values: Sequence[Any]) -> list[Any]:
    """Return values, nodes in place of handles."""
    return [resolve(x) if type(x) in CHANGED else x for x in values]


def resolve_nest(value: Any) -> Any:
    """Return arguments of a call, nodes in place of handles."""
    if type(value) in CHANGED:
        return resolve(value)
    if type(value) in (list, tuple) and any(
        type(x) in CHANGED or type(x) in (list, tuple) for x in value
    ):
        return type(value)(resolve_nest(x) for x in value)
    return value


def node_of(x: Any) -> Any:
    """Return the node that a Tensor was when it was made."""
    return x.memory.node if type(x) in CHANGED else x


def purify(roots: Iterable[Any], first: int) -> None:
    """Let the nodes from a serial on be made from nodes, not from handles."""
    if not traces.MARKED:
        return
    seen: set[int] = set()
    stack = [x for x in roots if isinstance(x, Tensor) and x.serial >= first]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inputs = node.inputs
        for x in inputs:
            if type(x) in CHANGED:
                node.inputs = inputs = tuple([node_of(i) for i in inputs])
                break
        for x in inputs:
            if isinstance(x, Tensor) and x.serial >= first and id(x) not in seen:
                stack.append(x)


# Who shares the memory


def _shows_array(x: Tensor) -> bool:
    """Return whether the memory is that of a plain array, which others may see."""
    if x.op.view is None or type(x.params) is CopyParams:
        return False
    return type(x.inputs[0]) is np.ndarray


def find_memory(x: Tensor) -> Tensor:
    """Return the Tensor whose memory a Tensor shows, perhaps its own."""
    return _find_memory_path(node_of(x))[0]


def _find_memory_path(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the Tensor whose memory ``x`` shows, and the views on the way to it."""
    path = []
    while x.op.view is not None and _is_view(x, base := x.inputs[0]):
        path.append(x)
        x = base
    return x, path


def _is_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view of the one that it was made of."""
    if not isinstance(base, Tensor):
        return False
    if isinstance(x.params, ViewParams):
        return x.params.holder is None or x.params.holder() is not None
    a, b = READ(x), READ(base)
    if type(x.params) is CopyParams or _is_number(x) or _is_number(base):
        return False
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return a is b or bool(np.may_share_memory(a, b))
    if a is None:
        return _is_symbolic_view(x, base)
    return x.op.view is not None and x.op.view(x.params)


def _is_symbolic_view(x: Tensor, base: Tensor) -> bool:
    """Return whether NumPy would give a view, found at stand-ins of known lengths."""
    if x.op.view is None or not x.op.view(x.params):
        return False
    if x.op.name != "reshape":
        return True
    if len(base.spec.shape) < 2 and len(x.spec.shape) < 2:
        return True
    example = _find_layout(base)
    if example is None:
        raise TraceError(
            f"whether {blame.describe(x)} shares memory with what it was made of is not"
            f" known while tracing without values{blame.quote_site(x.site)}. Write"
            " .copy() where it is made."
        )
    return bool(np.may_share_memory(example, x.op.compute(example, **x.params)))


#: Layouts by the serials of nodes; a trace that ends empties it.
_LAYOUTS: dict[int, Any] = {}


def _find_layout(node: Any) -> Any:
    """Return an array that lies in memory as the value of a node would; or None."""
    if not isinstance(node, Tensor):
        return node
    if (value := READ(node)) is not None:
        return value
    if node.serial in _LAYOUTS:
        return _LAYOUTS[node.serial]
    made: Any = None
    if not dims.has_dim(node.spec.shape):
        if node.op is IDENTITY:
            made = np.ones(node.spec.shape, node.spec.dtype)
        else:
            parts = [_find_layout(node_of(i)) for i in node.inputs]
            if all(p is not None for p in parts):
                try:
                    with np.errstate(all="ignore"):
                        made = node.op.compute(*parts, **node.params)
                except Exception:  # noqa: BLE001 says that it is not known
                    made = None
    if type(made) is not np.ndarray or made.shape != node.spec.shape:
        made = None if node.spec.shape else np.ones(())
    _LAYOUTS[node.serial] = made
    return made


def _is_number(x: Tensor) -> bool:
    """Return whether a Tensor is a number to NumPy, which has no memory to share."""
    value = READ(x)
    if type(x) is Version:
        return False
    if value is not None:
        return isinstance(value, np.generic) or types.is_weak(value)
    if x.spec.shape:
        return False
    # A view without axes is an array; an entry is a number, and so is a reduction.
    whole = x.op.view is None or type(x.params) is CopyParams
    return whole or ("key" in x.params and Ellipsis not in x.params["key"])


# Writing


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
        if not traces.OPEN:
            return result
        value = self._value
        if getrefcount(self) <= ALONE and type(self) is Tensor:
            op, y = self.op, result._value
            if (
                type(y) is np.ndarray is type(value)
                and y.dtype is value.dtype
                and y.shape == value.shape
                and op.view is None
                and op is not IDENTITY
                and traces.OPEN[-1].unknown is None
            ):  # a view of it, or its memory, would hold it too
                frame = _frame(1)
                if frame.f_code.co_code[frame.f_lasti] == BINARY_OP:
                    return result  # only the target held it, and is bound to this
        if type(value) is not np.ndarray:
            if isinstance(value, np.generic) or types.is_weak(value):
                return result  # numbers have no memory to share
            if value is None and _is_number(self):
                return result
        return _write_whole(self, result, name)

    own = operate_in_place.__code__
    return operate_in_place


def _write_whole(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Let a result be what the memory of ``x`` holds, and return what ``x`` is now."""
    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if opened[-1].rebinds:
        return new
    new = _fit_memory(x, new, name)
    with _LOCK:
        memory, base, path = _open_memory(x, opened, name)
        if path:
            _store(memory, _put_back(path, new, memory), opened, base)
            return x
        if new.memory is not None or new is memory.latest:
            new = _fresh_node(new)
        _store(memory, new, opened, base)
        memory.fresh.append(ref(new))
    return new


def _fresh_node(new: Tensor) -> Tensor:
    return apply(declare("identity_copy"), (new,)) if False else np.copy(new)


def assign(x: Tensor, index: object, value: object) -> None:
    """Assign to items: ``x[index] = value``."""
    from workbench.ops.updates import at

    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if not opened:
        raise TraceError(
            f"item assignment to {blame.describe(x)}{blame.user_line()}: the program"
            " that it belongs to has ended, or it is an expression of symbols, which"
            " has no memory. Write x = wb.at(x)[i].set(v)."
        )
    with _LOCK:
        if type(value) in CHANGED and _is_same_view(x, index, value):
            return  # x[i] += v has written through the view x[i]
        index = resolve_nest(index)
        if type(value) in CHANGED:
            value = resolve(value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            value = value.copy()
        write(x, "x[i] = v", lambda latest: at(latest)[index].set(value), (index, value))


def write(
    x: Tensor, name: str, change: Callable[[Any], Any], place: Any = None
) -> None:
    """Replace what the memory of ``x`` holds by what a function makes of it."""
    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if not opened:
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)}, and the program"
            " that it belongs to has ended."
        )
    with _LOCK:
        if _is_number(node_of(x)):
            raise TypeError(
                f"{name}{blame.user_line()}: {blame.describe(x)} is a number, which"
                " NumPy does not let anybody write to"
            )
        memory, base, path = _open_memory(x, opened, name)
        if place is not None and not path:
            new = _set_in_place(memory, memory.latest, *place)
            if new is not None:
                _store(memory, new, opened, base)
                return
        latest = memory.latest if not path else _latest_of(x, memory)
        new = change(latest)
        if new is latest:
            return
        if new.dtype != latest.dtype:
            new = new.astype(latest.dtype)
        if path:
            new = _put_back(path, new, memory)
        elif isinstance(new, Tensor) and new.memory is not None:
            new = np.copy(new)
        if not isinstance(new, Tensor):  # a constant
            value = np.array(new)
            new = Tensor(
                declare("stop_gradient"), (value,), (value,), CopyParams(), value,
                *source.caller(2), source.current_context(),
            )  # fmt: skip
        _store(memory, new, opened, base)


def _is_same_view(x: Tensor, index: object, value: Any) -> bool:
    """Return whether a value is the view of ``x`` at this very index."""
    from workbench.ops.indexing import GETITEM, split_index

    handle = value.memory
    if handle.whole or value.op is not GETITEM or type(x) not in CHANGED:
        return False
    if x.memory.memory is not handle.memory:
        return False
    try:
        key, arrays = split_index(index)
    except Exception:  # noqa: BLE001 says that the write will tell
        return False
    if arrays or key != value.params["key"]:
        return False
    parent = value.inputs[0]
    if parent is x:
        return True
    # The view was taken of the version before: of the node that x stood for then.
    if x.memory.whole:
        return parent.memory is handle.memory or (
            type(parent) in CHANGED and parent.memory.whole
        ) or parent is x.memory._node
    return parent.memory is TAKEN and parent.op is x.op and parent.params == x.params


def _open_memory(
    x: Tensor, opened: Sequence[OpenTrace], name: str
) -> tuple[Memory, Tensor, list[Tensor]]:
    """Return the memory of a Tensor, the Tensor that it is of, and the views to it."""
    node: Any = x
    path: list[Tensor] = []
    memory: Any = None
    while True:
        if type(node) in CHANGED:
            memory = node.memory.memory
            if node.memory.whole:
                break
            path.append(node)
            node = node.inputs[0]
            continue
        if type(node.memory) is Memory:
            memory = node.memory
            break
        if node.op.view is not None and _is_view(node, node.inputs[0]):
            path.append(node)
            node = node.inputs[0]
            continue
        break
    base = node
    _check_writeable(x, base, path, opened, name)
    if memory is None:
        memory = base.memory = Memory(base)
    elif memory.closed:
        memory.closed = False
    return memory, base, path


def _store(
    memory: Memory, new: Tensor, opened: Sequence[OpenTrace], base: Tensor
) -> None:
    """Make a node the latest version of a memory, and handles of all that shows it."""
    traces.LATEST[0] += 1
    traces.MARKED[0] = True
    old = memory.latest
    if not memory.handles and not memory.version:
        owner = opened[0]
        for trace in opened:
            if min(trace.leaves, default=0) <= base.serial:
                owner = trace
        owner.changes.append(memory)
    stack = []
    for found in memory.fresh:
        if (x := found()) is not None:
            stack.append((x, True))
    memory.fresh.clear()
    if isinstance(old, Tensor):
        stack += [(view, False) for view in _list_views(old)]
    while stack:
        x, whole = stack.pop()
        stack += [(view, False) for view in _list_views(x)]
        if x.memory is TAKEN or type(x) in CHANGED:
            continue
        handle = Handle(x, memory, whole)
        x.memory = handle
        x.__class__ = changed_class(handle.kind)
        memory.handles.append(ref(x))
    if new.memory is None:
        new.memory = memory
    if type(new) is not Version:
        memory.buffer = None
    memory.latest = new
    memory.version += 1
    n = len(memory.handles)
    if n >= 64 and not n & (n - 1):
        memory.handles[:] = [h for h in memory.handles if h() is not None]


def _list_views(x: Tensor) -> list[Tensor]:
    found = []
    for view in x.views or ():
        alive = view()
        if alive is not None and type(alive) not in CHANGED and _is_view(alive, x):
            found.append(alive)
    return found


def _put_back(path: list[Tensor], new: Any, memory: Memory) -> Any:
    """Return the base in which a view, at the end of a path, has other entries."""
    for view in path:
        parent = _latest_of(view.inputs[0], memory)
        new = _put_in(view, parent, new)
    return new


def _put_in(view: Tensor, parent: Any, new: Any) -> Any:
    """Return a parent whose view has other entries."""
    name, params = view.op.name, dict(view.params)
    if name == "getitem":
        from workbench.ops.updates import SET

        return apply(SET, (parent, new, *view.inputs[1:]), {"key": params["key"]})
    if name == "reshape":
        order = params.get("order", "C")
        return np.reshape(new, parent.shape, order=order)
    if name == "transpose":
        axes = params.get("axes")
        if axes is None:
            return np.transpose(new)
        back = [0] * len(axes)
        for i, n in enumerate(axes):
            back[n % len(axes)] = i
        return np.transpose(new, tuple(back))
    if name == "flip":
        return np.flip(new, params["axis"])
    if name == "real":
        return np.imag(parent) * 1j + new if parent.dtype.kind == "c" else new
    if name == "imag":
        return np.real(parent) + new * 1j
    if name in ("specify_shape", "stop_gradient"):
        return new
    from workbench.ops.updates import at

    size = parent.size
    places = view.op.compute(np.arange(size).reshape(parent.shape), **view.params)
    flat = at(np.ravel(parent))[np.ravel(places)].set(np.ravel(new))
    return np.reshape(flat, parent.shape)


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
    opened = list(opened)
    if base.op is IDENTITY and type(base) not in CHANGED and base.memory is None:
        own = any(t.owns and base.serial in t.leaves for t in opened)
        if not own:
            raise TraceError(
                f"{name}{blame.user_line()} changes {blame.describe(x)} in place, and"
                f" {what} was given to the function: what its caller holds would change"
                f" too, an array or, in a loop, an earlier result. {cure}"
            )
    if _shows_array(base):
        raise TraceError(
            f"{name}{blame.user_line()} changes {blame.describe(x)} in place, and"
            f" {what} shows a plain array, which others may see. {cure}"
        )
    for view in path or [x]:  # one without entries has no memory to be found by
        if view.op.name in READ_ONLY or type(view.params) is ViewParams:
            raise TraceError(
                f"{name}{blame.user_line()}: x is a view by {view.op.name}"
                f"{blame.quote_site(view.site)}, which NumPy does not let anybody write"
                f" to. {cure}"
            )
    for trace in opened:
        if trace.unknown is not None and base.serial < min(trace.leaves, default=0):
            raise TraceError(
                f"{name}{blame.user_line()} changes {blame.describe(x)} in place in"
                " a function that is recorded once and runs many times, and it was made"
                f" outside of that: each run would change it again. {cure}"
            )


# The classes of handles


def _read_value(x: Tensor) -> Any:
    """Return the value of the latest version."""
    return resolve(x)._value


@cache
def changed_class(kind: type[Tensor]) -> type[Tensor]:
    """Return the class that Tensors of a class have when they are handles."""
    if kind in CHANGED:
        return kind
    from workbench.core.operators import general_methods

    def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        if method == "at" or kw.get("out") is not None:
            return Tensor.__array_ufunc__(self, ufunc, method, *inputs, **kw)
        inputs = tuple(resolve_nest(x) for x in inputs)
        kw = {k: resolve_nest(v) for k, v in kw.items()}
        owner = next((x for x in inputs if isinstance(x, Tensor)), resolve(self))
        return owner.__array_ufunc__(ufunc, method, *inputs, **kw)

    def array_function(self: Any, function: Any, kinds: Any, args: Any, kw: Any) -> Any:
        if function in WRITERS or kw.get("out") is not None:
            return Tensor.__array_function__(self, function, kinds, args, kw)
        new = tuple(resolve_nest(x) for x in args)
        kw = {k: resolve_nest(v) for k, v in kw.items()}
        made = Tensor.__array_function__(resolve(self), function, kinds, new, kw)
        for given, node in zip(args, new, strict=True):
            if made is node and given is not node:
                return given  # NumPy gives back what it was given
        return made

    made: type[Tensor] = type(
        f"Changed{kind.__name__}",
        (kind,),
        {
            "__slots__": (),
            "__module__": __name__,
            "__doc__": "A Tensor whose memory has been changed in place since.",
            "_value": property(_read_value, SLOT.__set__),
            "shape": property(lambda self: _shape_of(self)),
            "dtype": property(lambda self: resolve(self).dtype),
            "spec": property(lambda self: types.spec_of(resolve(self))),
            "stored": property(lambda self: resolve(self)._value),
            "__getitem__": take,
            "__array_ufunc__": array_ufunc,
            "__array_function__": array_function,
            **general_methods(),
        },
    )
    CHANGED.add(made)
    return made


def _shape_of(x: Any) -> Any:
    return resolve(x).shape


#: Functions that write into their first argument.
WRITERS: set[Any] = set()


def rebind_in_place(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of a loop in which ``x += y`` always binds ``x`` to a new value.

    That is what it means to Theano, whose variables have no memory.
    """

    @wraps(step)
    def run(*args: Any) -> Any:
        traces.LOCAL.stack[-1].rebinds = True
        return step(*args)

    return run


tensor.resolve = resolve


class _Probe:
    """Counts what refers to the target of an in-place operator."""

    def __iadd__(self, other: object) -> int:  # noqa: PYI034
        held = (self, other)  # as the inputs of the result do
        return getrefcount(self) - 0 * len(held)


def _count_alone() -> int:
    probe: Any = _Probe()
    probe += 1
    return probe


ALONE = _count_alone()
