"""Which arrays a cell may change in place, and which it has replaced.

A Tensor never changes, so an item assignment makes a new value, and all that held
the old one has to follow: names of the notebook, local names of the functions that
run, lists, dicts, closures and attributes. `Memory` does that, and remembers what
was replaced. Whatever still reads an old value afterwards would have seen in NumPy
what has changed since: that is an error with its line, never a wrong gradient.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from types import CellType
from typing import Any, Protocol

import numpy as np

from workbench.core import blame, source, traces
from workbench.core.tensor import Tensor, next_serial, value_of
from workbench.errors import TraceError
from workbench.jupyter import frames

__all__ = [
    "Memory",
    "Written",
    "is_array",
    "is_buffer",
    "older",
    "overlap",
    "plain",
    "root",
]

Names = dict[str, Any]


def root(array: Any) -> Any:
    """The array that owns the memory behind an array."""
    while (base := getattr(array, "base", None)) is not None and is_buffer(base):
        array = base
    return array


def is_buffer(value: Any) -> bool:
    """Whether it is an array of numbers, of NumPy or of another library."""
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    return hasattr(type(value), "__cuda_array_interface__")


def is_array(x: Any) -> bool:
    """Whether an item assignment would change it in place: an array, or its Tensor."""
    return is_buffer(value_of(x))


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory."""
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
        for frame in frames.running():
            visible += frames.locals_of(frame).items()
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
                    f"{name} changes in place{blame.here()}, and {view}, which would"
                    f" change too. Assign to one of them only: write {name} ="
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
        for frame in frames.running():
            frames.rebind(frame, old, new)
        if held:
            self._held[id(new)] = held
            for holder in held:
                _swap(holder, old, new)

    def holders(self, place: Written) -> list[Any]:
        """Lists, dicts and objects that hold a plain array, besides names.

        Called while the place alone refers to the array, for it counts references.
        """
        known = sum(x is place.value for x in self.names.values())
        for frame in frames.running():
            found = sum(x is place.value for x in frames.locals_of(frame).values())
            known += found * frames.REFERENCES
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
                f"{place.text} changes in place{blame.here()}, and a tuple holds it,"
                " which would change too. Use a list in place of the tuple."
            )

    def latest(self, x: Any) -> Any:
        """What an object has become through all item assignments."""
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
                    f"{change.name}{blame.at(site)} has changed an array in place, and"
                    f" {blame.describe(x)}{blame.at(x.site)}, which shares its memory,"
                    " is kept by the cell, and would have changed too. Keep a .copy()"
                    " instead."
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
                            f"{node.op.name}{blame.at(node.site)} reads an array as it"
                            f" was before {entry.text} changed: through a view of it,"
                            " or from a tuple or object that holds it. Take a .copy()"
                            f" where it is to stay as it was; else read {name} itself."
                        )
        return None


def older(name: str) -> TraceError:
    """The error for an array that other cells see."""
    return TraceError(
        f"{name} changes in place{blame.here()}, and the array behind it is older than"
        " this cell: the graph would not know its new value. Write"
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
    """Whether a Tensor is a view taken from another."""
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
    """What a Tensor or array of the cell is without the magic.

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
