"""The arrays that a cell may change in place, and those that it has replaced.

A Tensor never changes, so an item assignment makes a new value, which must replace the
old one everywhere: in names of the notebook, local names of the running functions,
lists, dicts, closures and attributes. `Memory` does that, and remembers what was
replaced. In NumPy a later read of the old value would see the change; here it is an
error with its line, never a wrong gradient.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from inspect import CO_OPTIMIZED
from itertools import chain
from operator import is_
from types import (
    CellType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Protocol, cast

import numpy as np

from workbench.core import blame, inplace, traces
from workbench.core.tensor import Tensor, next_serial, value_of
from workbench.errors import TraceError

# Names bound to an object, in the functions that run now.
#
# An item assignment in a cell makes a new value, and every name of the old one is bound
# to it: names of the notebook, and local names of functions between the cell and the
# assignment.

#: From 3.13 on, writing into `frame.f_locals` changes the function's names.
WRITES_THROUGH = sys.version_info >= (3, 13)

#: References to a local value: before that, the frame keeps a dict of them too.
REFERENCES = 1 if WRITES_THROUGH else 2


def iterate_user_frames() -> Iterator[FrameType]:
    """Yield the frames of the user's running functions, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_locals is not frame.f_globals:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("workbench."):
            yield frame
        frame = frame.f_back


def get_locals(frame: FrameType) -> dict[str, Any]:
    """Return the current local names of a running function."""
    return dict(frame.f_locals)


def rebind(frame: FrameType, old: object, new: object) -> None:
    """Bind every local name of ``old`` to ``new``."""
    names = frame.f_locals
    found = [name for name, value in names.items() if value is old]
    for name in found:
        names[name] = new
    if found and not WRITES_THROUGH and frame.f_code.co_flags & CO_OPTIMIZED:
        # As debuggers do, write the names back into the running function.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


# What a cell may change, and what it has replaced

Names = dict[str, Any]


def find_owner(array: Any) -> Any:
    """Return the array that owns the memory behind an array."""
    while (base := getattr(array, "base", None)) is not None and is_buffer(base):
        array = base
    return array


def is_buffer(value: object) -> bool:
    """Return whether it is an array of numbers, of NumPy or of another library."""
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    return hasattr(type(value), "__cuda_array_interface__")


def is_array(x: object) -> bool:
    """Return whether an item assignment changes a value in place: arrays, Tensors."""
    return is_buffer(value_of(x))


def may_overlap(a: object, b: object) -> bool:
    """Return whether two arrays may share memory."""
    return type(a) is type(b) and bool(np.may_share_memory(a, b))


class WrittenPlace(Protocol):
    """The place of an array that an assignment changes.

    It holds the only extra reference to ``value``; ``owner`` is the list, dict or
    object that contains the array, if there is one.
    """

    value: Any
    owner: Any
    text: str


class ReplacedArray:
    """An array of the cell before one of its item assignments.

    ``region`` is the part that has changed; ``after`` is the serial of the node that
    changed it.
    """

    __slots__ = ("after", "new", "old", "region", "text")

    def __init__(self, old: Any, new: Any, region: Any, text: str) -> None:
        self.old = old
        self.new = new
        self.region = region
        self.text = text
        self.after = new.serial if isinstance(new, Tensor) else next_serial()


class Memory:
    """The arrays that a cell may change, and those that it has replaced.

    Parameters
    ----------
    names
        The names of the notebook, where the cell runs.
    older
        Arrays that existed before the cell, which must not change them.
    """

    def __init__(self, names: Names, older: Iterable[Any]) -> None:
        self.names = names
        self.older = {id(find_owner(x)): x for x in older}
        #: Arrays that the trace has made read-only, by the id of their owner.
        self.locked: dict[int, Any] = {}
        #: The replaced arrays, by the id of the memory's owner.
        self.replaced: dict[int, list[ReplacedArray]] = {}
        #: Changes by ``+=`` in functions from outside of the cell, by the id of each
        #: Tensor that shares the memory.
        #: The error that was found at the end, if any.
        self.problem: str | None = None
        self._new: dict[int, ReplacedArray] = {}
        #: The objects that hold an array, besides names, by the array's id.
        self._holders: dict[int, list[Any]] = {}

    def check(self, obj: object, name: str) -> None:
        """Raise an error for an array that the cell must not change."""
        value = value_of(obj)
        if id(find_owner(value)) in self.older:
            raise make_older_error(name)
        if getattr(value, "base", None) is not None or not isinstance(obj, Tensor):
            self._check_views(obj, name)

    def _check_views(self, obj: object, name: str) -> None:
        """Raise an error for an array that shares memory with another visible name."""
        visible: list[tuple[str, Any]] = list(self.names.items())
        for frame in iterate_user_frames():
            visible += get_locals(frame).items()
        self._refuse_views(obj, name, visible)

    def _refuse_views(
        self, obj: object, name: str, visible: Sequence[tuple[str, Any]]
    ) -> None:
        value = value_of(obj)
        owner = find_owner(value)
        for label, x in visible:
            if x is obj or not is_array(x) or find_owner(value_of(x)) is not owner:
                continue
            if may_overlap(value_of(x), value) and not _is_view_of(x, obj):
                view = f"{name} is a view of {label}"
                if getattr(value, "base", None) is None:
                    view = f"{label} is a view of it"
                raise TraceError(
                    f"{name} changes in place{blame.user_line()}, and {view}, which"
                    f" would change too. Assign to one of them only: write {name} ="
                    f" {name}.copy() before, or use a .copy() for {label}."
                )

    def replace(
        self, place: WrittenPlace, new: object, key: Any, holders: list[Any]
    ) -> None:
        """Replace the array of a place by ``new`` in all that holds it.

        ``holders`` comes from `find_holders` for a plain array; it is empty for a
        Tensor.
        """
        old = place.value
        value = value_of(old)
        holders = holders or self._holders.pop(id(old), [])
        entry = ReplacedArray(old, new, select_region(value, key), place.text)
        self.replaced.setdefault(id(find_owner(value)), []).append(entry)
        self._new[id(old)] = entry
        if isinstance(old, Tensor) and isinstance(new, Tensor) and old.name:
            new.name = old.name
        for label, x in self.names.items():
            if x is old:
                self.names[label] = new
        for frame in iterate_user_frames():
            rebind(frame, old, new)
        if holders:
            self._holders[id(new)] = holders
            for holder in holders:
                _replace_in(holder, old, new)

    def find_holders(self, place: WrittenPlace) -> list[Any]:
        """Return the lists, dicts and objects that hold a plain array, besides names.

        Call it while only the place refers to the array, since it counts references.
        """
        known = sum(x is place.value for x in self.names.values())
        for frame in iterate_user_frames():
            found = sum(x is place.value for x in get_locals(frame).values())
            known += found * REFERENCES
        if place.owner is not None:
            known += 1
        if sys.getrefcount(place.value) - known <= ALONE:
            return []
        # Another object holds it: search all objects, which is slow.
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

    def _refuse_tuple(self, owners: Sequence[object], place: WrittenPlace) -> None:
        """Raise an error for a tuple that holds the array; not for those of calls."""
        if any(isinstance(x, (list, dict)) for x in owners):
            raise TraceError(
                f"{place.text} changes in place{blame.user_line()}, and a tuple holds"
                " it, which would change too. Use a list in place of the tuple."
            )

    def find_latest(self, x: Any) -> Any:
        """Return the latest value of an object after all item assignments."""
        while (entry := self._new.get(id(x))) is not None:
            x = entry.new
        return x

    def note_changes(self, changes: Iterable[Any]) -> None:
        """Note nothing: handles know their latest version."""

    def find_newest(self, x: Any) -> Any:
        """Return the latest version of a handle."""
        return inplace.resolve(x)

    def find_stale_read(self, nodes: Sequence[Tensor]) -> tuple[Tensor, str] | None:
        """Return the first node that read an array after its replacement, and why."""
        for node in nodes if self.replaced else ():
            for arg in node.args:
                if not is_buffer(arg):
                    continue
                for entry in self.replaced.get(id(find_owner(arg)), ()):
                    late = node.serial > entry.after
                    if late and may_overlap(arg, entry.region):
                        name = entry.text.split("[")[0]
                        return node, (
                            f"{node.op.name}{blame.quote_site(node.site)} reads an"
                            f" old array, from before {entry.text} changed: through a"
                            " view of it, or from a tuple or object that holds it. Take"
                            f" a .copy() to keep the old values, or read {name} itself."
                        )
        return None


def make_older_error(name: str) -> TraceError:
    """Return the error for an array that other cells see."""
    return TraceError(
        f"{name} changes in place{blame.user_line()}, and its array is older"
        " than this cell, so the graph would miss its new value. Write"
        f" {name} = {name}.copy() before, and change that."
    )


def select_region(value: Any, key: Any) -> Any:
    """Return the part of an array at an index, as a view; all of it, if unsure."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            parts.append(slice(part, part + 1 or None))
        elif isinstance(part, slice) or part is Ellipsis:
            parts.append(part)
        else:
            return value
    found = value[tuple(parts)]
    return found if may_overlap(found, value) else value


def _replace_in(holder: object, old: object, new: object) -> None:
    """Replace ``old`` by ``new`` in a list, dict, closure or object."""
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


def _is_view_of(x: object, base: object) -> bool:
    """Return whether a Tensor is a view taken from another."""
    while isinstance(x, Tensor) and x.inputs and x.serial > getattr(base, "serial", 0):
        x = x.inputs[0]
        if x is base:
            return True
    return False


class _Slot:
    """An empty place, to measure the reference count that a place adds."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


#: The reference count of an array that only a place refers to.
ALONE = sys.getrefcount(_Slot(np.zeros(1)).value)


def make_plain(x: Any, memory: Memory, start: int) -> Any:
    """Return a Tensor or array of the cell as the cell without the magic would make it.

    Symbols, expressions of them and Tensors from before the cell, whose first serial is
    ``start``, stay as they are.
    """
    x = memory.find_newest(memory.find_latest(x))
    if isinstance(x, Tensor) and (x._value is None or x.serial < start):
        return x
    value = value_of(x)
    if not isinstance(value, np.ndarray):
        return value
    for entry in memory.replaced.get(id(find_owner(value)), ()):
        old = value_of(entry.old)
        latest = value_of(memory.find_latest(entry.old))
        if old.base is None and old.strides == latest.strides:
            # A view of what has been replaced is a view of its latest value.
            start = value.__array_interface__["data"][0]
            offset = start - old.__array_interface__["data"][0]
            return np.ndarray(value.shape, value.dtype, latest, offset, value.strides)
        if may_overlap(value, entry.region):
            memory.problem = (
                f"{entry.text} was changed, and a view of it was kept, which would"
                " have changed too. Keep a .copy() instead."
            )
    if not value.flags.writeable and id(find_owner(value)) in memory.locked:
        # A view taken while the trace held the array; broadcasts stay read-only.
        value.flags.writeable = 0 not in value.strides
    return value


# After a cell the notebook holds plain values: no Tensor stays behind.
#
# A walk visits all that the notebook's names reach: lists, dicts, sets, closures,
# defaults, attributes of objects whose class the notebook defined. Mutable objects are
# changed in place and keep their identity; tuples are built again where they contain a
# Tensor. The walk holds interrupts back, since one that ends early would leave Tensors
# behind. So it must be fast: what a type can hold is found once, and the parts of all
# lists and dicts that are found together are looked at by their types alone, with no
# Python code for each part.

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

#: So many lists or dicts are looked at together: one Tensor costs a look at each part.
TOGETHER = 200


class PlainConverter:
    """Convert Tensors to the values that the cell without the magic would have.

    Parameters
    ----------
    value
        Returns the plain value of a Tensor, and of an array that the cell has
        replaced; any other array as it is.
    """

    def __init__(self, value: Callable[[Any], Any]) -> None:
        self._value = value
        self._seen: dict[int, Any] = {}
        #: The mutable objects that are still to be converted, by type.
        self._todo: dict[type, list[Any]] = {}
        self._closed: set[type] = set(CLOSED)
        #: By type: what returns the plain value.
        self._replacers: dict[type, Callable[[Any], Any]] = {}
        #: By type: what converts the parts of a mutable object in place.
        self._changers: dict[type, list[Callable[[Any], None]]] = {}
        #: By type: the slots of its instances.
        self._slots: dict[type, list[MemberDescriptorType]] = {}

    def convert_names(self, names: dict[str, Any], hidden: Iterable[str]) -> None:
        """Convert everything that the names of a notebook reach."""
        skip = set(hidden)
        for name in [n for n in names if n not in skip]:
            old = names[name]
            new = self._convert_value(old)
            if new is not old:
                names[name] = new
        self._convert_pending()

    def convert(self, x: Any) -> Any:
        """Convert one value, and all that it reaches, and return it."""
        made = self._convert_value(x)
        self._convert_pending()
        return made

    def convert_attributes(self, x: object) -> None:
        """Convert the attributes of an object of any class."""
        self._convert_members(x)
        self._convert_pending()

    # What a type can hold

    def _find_open(self, parts: Iterable[Any]) -> set[type]:
        """Return the types of the parts that can be or hold a Tensor."""
        kinds = {*map(type, parts)} - self._closed
        for kind in kinds:
            if kind not in self._replacers and kind not in self._changers:
                self._learn_type(kind)
        return kinds - self._closed

    def _find_open_parts(self, parts: Collection[Any]) -> set[type]:
        """Return the same, without the tuples that hold nothing of these types."""
        opened = self._find_open(parts)
        if tuple in opened:
            seen = self._seen
            tuples = {
                id(x): x for x in parts if type(x) is tuple and seen.get(id(x)) is not x
            }
            if not self._find_open(chain.from_iterable(tuples.values())):
                seen.update(tuples)
                opened.remove(tuple)
        return opened

    def _learn_type(self, kind: type) -> None:
        """Find out what converts the objects of a type."""
        if issubclass(kind, Tensor):
            self._replacers[kind] = self._value
            return
        if kind is np.ndarray:
            self._replacers[kind] = self._convert_array
            return
        if issubclass(kind, (tuple, frozenset)):
            self._replacers[kind] = self._rebuild
            return
        steps: list[Callable[[Any], None]] = []
        for bases, step in (
            ((dict,), self._convert_dict),
            ((list, deque), self._convert_sequence),
            ((set,), self._convert_set),
            ((CellType,), self._convert_cell),
            ((FunctionType,), self._convert_function),
            ((staticmethod, classmethod, MethodType), self._convert_method),
            ((property,), self._convert_property),
            ((functools.partial,), self._convert_partial),
            ((GeneratorType,), self._convert_generator),
            ((type,), self._convert_class),
        ):
            if issubclass(kind, bases):
                steps.append(step)
        if issubclass(kind, SimpleNamespace) or kind.__module__ == "__main__":
            steps.append(self._convert_members)
        if hasattr(kind, "tocsr"):
            self._replacers[kind] = self._convert_sparse
            self._changers[kind] = steps
        elif steps:
            self._changers[kind] = steps
        else:
            self._closed.add(kind)

    # One value

    def _convert_value(self, x: Any) -> Any:
        """Return the plain value; queue a mutable one to be changed in place."""
        kind = type(x)
        if kind in self._closed:
            return x
        replace = self._replacers.get(kind)
        if replace is None and kind not in self._changers:
            self._learn_type(kind)
            return self._convert_value(x)
        if replace is not None:
            return replace(x)
        self._queue(x)
        return x

    def _queue(self, x: Any) -> None:
        if id(x) not in self._seen:
            self._seen[id(x)] = x
            self._todo.setdefault(type(x), []).append(x)

    def _convert_array(self, x: Any) -> Any:
        if x.dtype != object:
            return self._value(x)
        flat = x.ravel().tolist()
        if not any(issubclass(kind, Tensor) for kind in {*map(type, flat)}):
            return x
        converted = [self._convert_value(e) for e in flat]
        if all(np.ndim(e) == 0 and not isinstance(e, str) for e in converted):
            # As np.array would do with the plain numbers.
            return np.array(converted).reshape(x.shape)
        for index, e in zip(np.ndindex(x.shape), converted, strict=True):
            x[index] = e
        return x

    def _convert_sparse(self, x: Any) -> Any:
        if not isinstance(getattr(x, "data", None), Tensor):
            self._queue(x)
            return x
        from workbench.ops.sparse.pattern import split_sparse
        from workbench.ops.sparse.tensor import build

        data, pattern = split_sparse(x)
        made = self._value(data)
        return x if made is data else build(made, pattern)

    def _rebuild(self, x: Any) -> Any:
        if id(x) in self._seen:
            return self._seen[id(x)]
        # Noted before its parts are converted: a list inside may hold the tuple.
        self._seen[id(x)] = x
        parts = list(x)
        if not self._find_open_parts(parts):
            return x
        converted = [self._convert_value(e) for e in parts]
        if all(map(is_, parts, converted)):
            return x
        kind: Any = type(x)
        rebuilt = kind._make(converted) if hasattr(kind, "_make") else kind(converted)
        self._seen[id(x)] = rebuilt
        return rebuilt

    # Mutable objects, in place

    def _convert_pending(self) -> None:
        while self._todo:
            kind, found = self._todo.popitem()
            for start in range(0, len(found), TOGETHER):
                some = found[start : start + TOGETHER]
                if not self._is_plain(kind, some):
                    for step in self._changers[kind]:
                        for x in some:
                            step(x)

    def _is_plain(self, kind: type, found: list[Any]) -> bool:
        """Return whether nothing in some lists or dicts is replaced; queue the rest."""
        if kind is list:
            return self._queue_parts([*chain.from_iterable(found)])
        if kind is dict:
            values = chain.from_iterable(map(dict.values, found))
            return not self._find_replaced(found) and self._queue_parts([*values])
        return False

    def _queue_parts(self, parts: list[Any]) -> bool:
        """Queue what changes in place; return False if a part may be replaced."""
        opened = self._find_open_parts(parts)
        if not opened.isdisjoint(self._replacers):
            return False
        seen = self._seen
        for kind in opened:
            queue = self._todo.setdefault(kind, [])
            for x in parts:
                if type(x) is kind and id(x) not in seen:
                    seen[id(x)] = x
                    queue.append(x)
        return True

    def _find_replaced(self, found: Iterable[Iterable[Any]]) -> bool:
        """Return whether a key of dicts or sets may be replaced."""
        opened = self._find_open_parts([*chain.from_iterable(found)])
        return not opened.isdisjoint(self._replacers)

    def _convert_sequence(self, x: Any) -> None:
        if self._queue_parts(list(x)):
            return
        for i, old in enumerate(list(x)):
            new = self._convert_value(old)
            if new is not old:
                x[i] = new

    def _convert_keys(self, keys: Iterable[Any]) -> list[Any]:
        """Return the plain keys; an object keeps its attributes, and so its hash."""
        return [
            self._convert_value(k) if isinstance(k, (Tensor, tuple, frozenset)) else k
            for k in keys
        ]

    def _convert_set(self, x: set[Any]) -> None:
        if self._find_replaced([x]):
            converted = self._convert_keys(x)
            if not all(map(is_, x, converted)):
                x.clear()
                x.update(converted)

    def _convert_dict(self, x: dict[Any, Any]) -> None:
        if self._find_replaced([x]):
            converted = self._convert_keys(x)
            if not all(map(is_, x, converted)):
                values = list(x.values())
                x.clear()
                for key, value in zip(converted, values, strict=True):
                    x[key] = value
        self._convert_values(x)

    def _convert_values(self, x: dict[Any, Any]) -> None:
        if self._queue_parts(list(x.values())):
            return
        for key, old in list(x.items()):
            new = self._convert_value(old)
            if new is not old:
                x[key] = new

    def _convert_cell(self, x: CellType) -> None:
        try:
            old = x.cell_contents
        except ValueError:  # a name that has not been bound yet
            return
        new = self._convert_value(old)
        if new is not old:
            x.cell_contents = new

    def _convert_function(self, x: FunctionType) -> None:
        if x.__module__ != "__main__":
            return
        for cell in x.__closure__ or ():
            self._convert_value(cell)
        x.__defaults__ = self._convert_value(x.__defaults__)
        if x.__kwdefaults__:
            self._convert_values(x.__kwdefaults__)
        if x.__dict__:
            self._convert_values(x.__dict__)

    def _convert_method(self, x: Any) -> None:
        self._convert_value(x.__func__)
        self._convert_value(getattr(x, "__self__", None))

    def _convert_property(self, x: property) -> None:
        for f in (x.fget, x.fset, x.fdel):
            self._convert_value(f)

    def _convert_partial(self, x: functools.partial[Any]) -> None:
        settings = self._convert_value(dict(x.keywords))
        self._convert_values(settings)
        cast(Any, x).__setstate__(
            (x.func, self._convert_value(x.args), settings, vars(x))
        )

    def _convert_generator(self, x: GeneratorType[Any, Any, Any]) -> None:
        if x.gi_frame is not None:
            for old in get_locals(x.gi_frame).values():
                new = self._convert_value(old)
                if new is not old:
                    rebind(x.gi_frame, old, new)

    def _convert_class(self, x: type) -> None:
        if x.__module__ == "__main__":
            for name, old in list(vars(x).items()):
                new = self._convert_value(old)
                if new is not old:
                    setattr(x, name, new)

    def _convert_members(self, x: object) -> None:
        own = getattr(x, "__dict__", None)
        if isinstance(own, dict):
            self._convert_value(own)
        kind = type(x)
        if kind not in self._slots:
            self._slots[kind] = [
                slot
                for base in kind.__mro__
                if "__slots__" in vars(base)
                for slot in vars(base).values()
                if isinstance(slot, MemberDescriptorType)
            ]
        for slot in self._slots[kind]:
            try:
                old = slot.__get__(x)
            except AttributeError:  # not set yet
                continue
            new = self._convert_value(old)
            if new is not old:
                slot.__set__(x, new)
