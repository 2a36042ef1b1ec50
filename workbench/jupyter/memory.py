"""Which arrays a cell may change in place, and which it has replaced.

A Tensor never changes, so an item assignment makes a new value, and all that held
the old one has to follow: names of the notebook, local names of the functions that
run, lists, dicts, closures and attributes. `Memory` does that, and remembers what
was replaced. Whatever still reads an old value afterwards would have seen in NumPy
what has changed since: that is an error with its line, never a wrong gradient.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import CO_OPTIMIZED
from types import (
    CellType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Protocol, cast

import numpy as np

from workbench.core import blame, source, traces
from workbench.core.tensor import Tensor, next_serial, value_of
from workbench.core.tree import is_sparse
from workbench.errors import TraceError

# Names bound to an object, in the functions that run now.
#
# An item assignment in a cell makes a new value, and every name that was bound to
# the old one has to follow: names of the notebook, and local names of functions on
# the way from the cell to the assignment.

#: From 3.13 on, what is written into `frame.f_locals` reaches the function.
WRITES_THROUGH = sys.version_info >= (3, 13)

#: References to a local value: before that, the frame keeps a dict of them too.
REFERENCES = 1 if WRITES_THROUGH else 2


def running() -> Iterator[FrameType]:
    """The functions of the user that run now, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_locals is not frame.f_globals:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("workbench."):
            yield frame
        frame = frame.f_back


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the local names of a function that runs, as they are now."""
    return dict(frame.f_locals)


def rebind(frame: FrameType, old: object, new: object) -> None:
    """Bind every local name that means ``old`` to ``new``."""
    names = frame.f_locals
    found = [name for name, value in names.items() if value is old]
    for name in found:
        names[name] = new
    if found and not WRITES_THROUGH and frame.f_code.co_flags & CO_OPTIMIZED:
        # What debuggers do: write the names back into the running function.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


# What a cell may change, and what it has replaced

Names = dict[str, Any]


def root(array: Any) -> Any:
    """Return the array that owns the memory behind an array."""
    while (base := getattr(array, "base", None)) is not None and is_buffer(base):
        array = base
    return array


def is_buffer(value: Any) -> bool:
    """Return whether it is an array of numbers, of NumPy or of another library."""
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    return hasattr(type(value), "__cuda_array_interface__")


def is_array(x: Any) -> bool:
    """Whether an item assignment would change it in place: an array, or its Tensor."""
    return is_buffer(value_of(x))


def overlap(a: Any, b: Any) -> bool:
    """Return whether two arrays may share memory."""
    return type(a) is type(b) and bool(np.may_share_memory(a, b))


class Written(Protocol):
    """Where an array was found that an assignment changes.

    Nothing else refers to ``value`` on its behalf; ``owner`` is the list, dict or
    object that it is a part of, if it was found in one.
    """

    value: Any
    owner: Any
    text: str


class Replaced:
    """An array of the cell before one of its item assignments.

    ``region`` is the part that has changed since; ``after`` the serial of the
    node that did it.
    """

    __slots__ = ("after", "new", "old", "region", "text")

    def __init__(self, old: Any, new: Any, region: Any, text: str) -> None:
        self.old = old
        self.new = new
        self.region = region
        self.text = text
        self.after = new.serial if isinstance(new, Tensor) else next_serial()


class Memory:
    """Which arrays a cell may change, and which it has replaced.

    Parameters
    ----------
    names
        The names of the notebook, where the cell runs.
    older
        Arrays that were there before the cell; it must not change them.
    """

    def __init__(self, names: Names, older: Iterable[Any]) -> None:
        self.names = names
        self.older = {id(root(x)): x for x in older}
        #: Arrays that the trace has made read-only, by the id of their owner.
        self.locked: dict[int, Any] = {}
        #: By the id of the memory's owner.
        self.replaced: dict[int, list[Replaced]] = {}
        #: What functions from outside of the cell have changed by ``+=``, by the id
        #: of what shares memory with it.
        self.changed: dict[int, tuple[Tensor, traces.Change]] = {}
        #: What could not be put right at the end.
        self.problem: str | None = None
        self._new: dict[int, Replaced] = {}
        #: What holds an array besides names, by the array's id.
        self._held: dict[int, list[Any]] = {}

    def check(self, obj: Any, name: str) -> None:
        """Refuse an array that the cell must not change."""
        value = value_of(obj)
        if id(root(value)) in self.older:
            raise older(name)
        if getattr(value, "base", None) is not None or not isinstance(obj, Tensor):
            self._check_views(obj, name)

    def _check_views(self, obj: Any, name: str) -> None:
        """Refuse an array that shares memory with one that another name shows."""
        visible: list[tuple[str, Any]] = list(self.names.items())
        for frame in running():
            visible += locals_of(frame).items()
        with traces.OldValues():
            self._refuse_views(obj, name, visible)

    def _refuse_views(
        self, obj: Any, name: str, visible: Sequence[tuple[str, Any]]
    ) -> None:
        value = value_of(obj)
        owner = root(value)
        for label, x in visible:
            if x is obj or not is_array(x) or root(value_of(x)) is not owner:
                continue
            if overlap(value_of(x), value) and not _made_from(x, obj):
                view = f"{name} is a view of {label}"
                if getattr(value, "base", None) is None:
                    view = f"{label} is a view of it"
                raise TraceError(
                    f"{name} changes in place{blame.user_line()}, and {view}, which"
                    f" would change too. Assign to one of them only: write {name} ="
                    f" {name}.copy() before, or take the .copy() for {label}."
                )

    def replace(self, place: Written, new: Any, key: Any, held: list[Any]) -> None:
        """Bind all that held the array of a place to ``new``.

        ``held`` are the `holders` of a plain array; of a Tensor they are known.
        """
        old = place.value
        value = value_of(old)
        held = held or self._held.pop(id(old), [])
        entry = Replaced(old, new, region(value, key), place.text)
        self.replaced.setdefault(id(root(value)), []).append(entry)
        self._new[id(old)] = entry
        if isinstance(old, Tensor) and isinstance(new, Tensor) and old.name:
            new.name = old.name
        for label, x in self.names.items():
            if x is old:
                self.names[label] = new
        for frame in running():
            rebind(frame, old, new)
        if held:
            self._held[id(new)] = held
            for holder in held:
                _swap(holder, old, new)

    def holders(self, place: Written) -> list[Any]:
        """Lists, dicts and objects that hold a plain array, besides names.

        Called while the place alone refers to the array, for it counts references.
        """
        known = sum(x is place.value for x in self.names.values())
        for frame in running():
            found = sum(x is place.value for x in locals_of(frame).values())
            known += found * REFERENCES
        if place.owner is not None:
            known += 1
        if sys.getrefcount(place.value) - known <= ALONE:
            return []
        # Somebody else holds it: ask every object, which takes a moment.
        held: list[Any] = []
        referrers = gc.get_referrers(place.value)
        for x in referrers:
            if isinstance(x, tuple):
                owners = [y for y in gc.get_referrers(x) if y is not referrers]
                self._refuse_tuple(owners, place)
            elif (
                x is not self.names
                and type(x) is not traces.Arrays
                and (
                    isinstance(x, (list, dict, CellType))
                    or type(x).__module__ == "__main__"
                )
            ):
                held.append(x)
        return held

    def _refuse_tuple(self, owners: list[Any], place: Written) -> None:
        """A tuple cannot be given the new array; those of calls and loops need not."""
        if any(isinstance(x, (list, dict)) for x in owners):
            raise TraceError(
                f"{place.text} changes in place{blame.user_line()}, and a tuple holds"
                " it, which would change too. Use a list in place of the tuple."
            )

    def latest(self, x: Any) -> Any:
        """Return what an object has become through all item assignments."""
        while (entry := self._new.get(id(x))) is not None:
            x = entry.new
        return x

    def note_changes(self, changes: Iterable[traces.Change]) -> None:
        """Keep in mind what is stale when the trace of the cell closes."""
        for change in changes:
            for key, tensor, _ in change.marked:
                if (alive := tensor()) is not None:
                    self.changed[key] = alive, change

    def newest(self, x: Any) -> Any:
        """What a Tensor has become by ``+=`` in functions from outside of the cell."""
        while (found := self.changed.get(id(x))) is not None:
            change = found[1]
            made = change.made()
            if change.old() is not x or made is None:
                site = source.decode(change.code, change.lasti)
                self.problem = (
                    f"{change.name}{blame.quote_site(site)} has changed an array in"
                    f" place, and {blame.describe(x)}{blame.quote_site(x.site)}, which"
                    " shares its memory, is kept by the cell, and would have changed"
                    " too. Keep a .copy() instead."
                )
                return x
            x = made
        return x

    def stale_read(self, nodes: Sequence[Tensor]) -> tuple[Tensor, str] | None:
        """The first node that read an array after it had been replaced, and why."""
        for node in nodes if self.replaced else ():
            for arg in node.args:
                if not is_buffer(arg):
                    continue
                for entry in self.replaced.get(id(root(arg)), ()):
                    late = node.serial > entry.after
                    if late and overlap(arg, entry.region):
                        name = entry.text.split("[")[0]
                        return node, (
                            f"{node.op.name}{blame.quote_site(node.site)} reads an"
                            f" array as it was before {entry.text} changed: through a"
                            " view of it, or from a tuple or object that holds it. Take"
                            " a .copy() where it is to stay as it was; else read"
                            f" {name} itself."
                        )
        return None


def older(name: str) -> TraceError:
    """Return the error for an array that other cells see."""
    return TraceError(
        f"{name} changes in place{blame.user_line()}, and the array behind it is older"
        " than this cell: the graph would not know its new value. Write"
        f" {name} = {name}.copy() before, and change that."
    )


def region(value: Any, key: Any) -> Any:
    """The part of an array that an index means, as a view; all of it, if unsure."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            parts.append(slice(part, part + 1 or None))
        elif isinstance(part, slice) or part is Ellipsis:
            parts.append(part)
        else:
            return value
    found = value[tuple(parts)]
    return found if overlap(found, value) else value


def _swap(holder: Any, old: Any, new: Any) -> None:
    """Put ``new`` wherever a list, dict, closure or object holds ``old``."""
    if isinstance(holder, list):
        for i, x in enumerate(holder):
            if x is old:
                holder[i] = new
    elif isinstance(holder, CellType):
        if holder.cell_contents is old:
            holder.cell_contents = new
    else:
        held = holder if isinstance(holder, dict) else vars(holder)
        for key, x in list(held.items()):
            if x is old:
                held[key] = new


def _made_from(x: Any, base: Any) -> bool:
    """Return whether a Tensor is a view taken from another."""
    while isinstance(x, Tensor) and x.inputs and x.serial > getattr(base, "serial", 0):
        x = x.inputs[0]
        if x is base:
            return True
    return False


class _Slot:
    """A place of nothing, to count the references of one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


#: The references to an array that only a place refers to, as they are counted.
ALONE = sys.getrefcount(_Slot(np.zeros(1)).value)


def plain(x: Any, memory: Memory, start: int) -> Any:
    """Return what a Tensor or array of the cell is without the magic.

    Symbols, expressions of them and Tensors that were there before the cell, whose
    first serial is ``start``, are what the user made them.
    """
    x = memory.newest(memory.latest(x))
    if isinstance(x, Tensor) and (x._value is None or x.serial < start):
        return x
    value = value_of(x)
    if not isinstance(value, np.ndarray):
        return value
    for entry in memory.replaced.get(id(root(value)), ()):
        old = value_of(entry.old)
        latest = value_of(memory.latest(entry.old))
        if old.base is None and old.strides == latest.strides:
            # A view of what has been replaced is a view of its latest value.
            start = value.__array_interface__["data"][0]
            offset = start - old.__array_interface__["data"][0]
            return np.ndarray(value.shape, value.dtype, latest, offset, value.strides)
        if overlap(value, entry.region):
            memory.problem = (
                f"{entry.text} was changed, and a view of it was kept, which would"
                " have changed too. Keep a .copy() instead."
            )
    if not value.flags.writeable and id(root(value)) in memory.locked:
        # A view taken while the trace held the array; broadcasts stay read-only.
        value.flags.writeable = 0 not in value.strides
    return value


# After a cell the notebook holds plain values: no Tensor stays behind.
#
# A walk over what the notebook's names reach, without recursion: lists, dicts,
# sets, closures, defaults, attributes of objects whose class the notebook defined.
# What is mutable is changed in place, so its identity stays; what is not (tuples)
# is built anew where something inside was a Tensor.

#: Nothing inside these can be a Tensor.
CLOSED = (
    bool,
    bytes,
    complex,
    float,
    int,
    np.float64,
    str,
    type(None),
    ModuleType,
)
_CLOSED = frozenset(CLOSED)


class Plain:
    """Turns Tensors into what the same cell without the magic would have made.

    Parameters
    ----------
    value
        The plain value of a Tensor, and of an array that the cell has replaced;
        any other array as it is.
    """

    def __init__(self, value: Callable[[Any], Any]) -> None:
        self._value = value
        self._seen: dict[int, Any] = {}
        self._todo: list[Any] = []

    def names(self, names: dict[str, Any], hidden: Iterable[str]) -> None:
        """Make everything plain that the names of a notebook reach."""
        skip = set(hidden)
        for name in [n for n in names if n not in skip]:
            old = names[name]
            new = self.value(old)
            if new is not old:
                names[name] = new
        self._finish()

    def one(self, x: Any) -> Any:
        """Return one value, and all it reaches, made plain."""
        made = self.value(x)
        self._finish()
        return made

    def inside(self, x: Any) -> None:
        """Return the attributes of an object, whatever its class."""
        self._attributes(x)
        self._finish()

    def value(self, x: Any) -> Any:
        """Return the plain value; what is mutable is noted, to be changed in place."""
        kind = type(x)
        if kind in _CLOSED:
            return x
        if isinstance(x, Tensor):
            return self._value(x)
        if kind is np.ndarray:
            return self._array(x)
        if is_sparse(x) and isinstance(x.data, Tensor):
            from workbench.ops.sparse.pattern import taken
            from workbench.ops.sparse.tensor import build

            data, pattern = taken(x)
            made = self._value(data)
            return x if made is data else build(made, pattern)
        if isinstance(x, (tuple, frozenset)):
            return self._rebuilt(x)
        if id(x) not in self._seen:
            self._seen[id(x)] = x
            self._todo.append(x)
        return x

    def _finish(self) -> None:
        while self._todo:
            self._change(self._todo.pop())

    def _array(self, x: Any) -> Any:
        if x.dtype != object:
            return self._value(x)
        flat = x.ravel().tolist()
        if not any(isinstance(e, Tensor) for e in flat):
            return x
        plain = [self.value(e) for e in flat]
        if all(np.ndim(e) == 0 and not isinstance(e, str) for e in plain):
            # What np.array would have made of the plain numbers.
            return np.array(plain).reshape(x.shape)
        for index, e in zip(np.ndindex(x.shape), plain, strict=True):
            x[index] = e
        return x

    def _rebuilt(self, x: Any) -> Any:
        if id(x) in self._seen:
            return self._seen[id(x)]
        # Noted before its parts are looked at: a list inside may hold the tuple.
        self._seen[id(x)] = x
        parts = list(x)
        plain = [self.value(e) for e in parts]
        if all(a is b for a, b in zip(parts, plain, strict=True)):
            return x
        kind: Any = type(x)
        made = kind._make(plain) if hasattr(kind, "_make") else kind(plain)
        self._seen[id(x)] = made
        return made

    def _change(self, x: Any) -> None:
        """Make the parts of something mutable plain, in place."""
        if isinstance(x, dict):
            self._dict(x)
        elif isinstance(x, (list, deque)):
            if not {*map(type, x)} <= _CLOSED:
                for i, old in enumerate(list(x)):
                    new = self.value(old)
                    if new is not old:
                        x[i] = new
        elif isinstance(x, set):
            plain = {self.value(e) for e in x if isinstance(e, (Tensor, tuple))}
            if plain:
                rest = {e for e in x if not isinstance(e, (Tensor, tuple))}
                x.clear()
                x.update(rest | plain)
        elif isinstance(x, CellType):
            self._cell(x)
        elif isinstance(x, FunctionType):
            self._function(x)
        elif isinstance(x, (staticmethod, classmethod, MethodType)):
            self.value(x.__func__)
            self.value(getattr(x, "__self__", None))
        elif isinstance(x, property):
            for f in (x.fget, x.fset, x.fdel):
                self.value(f)
        elif isinstance(x, functools.partial):
            settings = self.value(dict(x.keywords))
            self._finish_dict(settings)
            cast(Any, x).__setstate__((x.func, self.value(x.args), settings, vars(x)))
        elif isinstance(x, GeneratorType):
            if x.gi_frame is not None:
                for old in locals_of(x.gi_frame).values():
                    new = self.value(old)
                    if new is not old:
                        rebind(x.gi_frame, old, new)
        elif isinstance(x, type):
            if x.__module__ == "__main__":
                for name, old in list(vars(x).items()):
                    new = self.value(old)
                    if new is not old:
                        setattr(x, name, new)
        if isinstance(x, SimpleNamespace) or type(x).__module__ == "__main__":
            self._attributes(x)

    def _dict(self, x: dict[Any, Any]) -> None:
        if any(isinstance(k, (Tensor, tuple)) for k in x):
            items = [(self.value(k), v) for k, v in x.items()]
            if any(a is not b for (a, _), b in zip(items, x, strict=True)):
                x.clear()
                x.update(items)
        self._finish_dict(x)

    def _finish_dict(self, x: dict[Any, Any]) -> None:
        if {*map(type, x.values())} <= _CLOSED:
            return
        for key, old in list(x.items()):
            new = self.value(old)
            if new is not old:
                x[key] = new

    def _cell(self, x: CellType) -> None:
        try:
            old = x.cell_contents
        except ValueError:  # a name that has not been bound yet
            return
        new = self.value(old)
        if new is not old:
            x.cell_contents = new

    def _function(self, x: FunctionType) -> None:
        if x.__module__ != "__main__":
            return
        for cell in x.__closure__ or ():
            self.value(cell)
        x.__defaults__ = self.value(x.__defaults__)
        if x.__kwdefaults__:
            self._finish_dict(x.__kwdefaults__)
        if x.__dict__:
            self._finish_dict(x.__dict__)

    def _attributes(self, x: Any) -> None:
        own = getattr(x, "__dict__", None)
        if isinstance(own, dict):
            self._finish_dict(own)
        for kind in type(x).__mro__:
            slots = vars(kind).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                try:
                    old = getattr(x, name)
                    new = self.value(old)
                    if new is not old:
                        object.__setattr__(x, name, new)
                except AttributeError:
                    continue
