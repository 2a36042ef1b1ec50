"""After a cell the notebook holds plain values: no Tensor stays behind.

A walk visits all that the notebook's names reach: lists, dicts, sets, closures,
defaults, attributes of objects whose class the notebook defined, or a module of the
user's whose code the cell has called. Mutable objects are changed in place and keep
their identity; tuples are built again where they contain a Tensor. The walk holds
interrupts back, since one that ends early would leave Tensors behind. So it must be
fast: what a type can hold is found once, and the parts of all lists and dicts that are
found together are looked at by their types alone, with no Python code for each part.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from inspect import getgeneratorlocals
from itertools import chain
from operator import is_
from types import (
    CellType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, cast

import numpy as np

from workbench.core.memory import resolve
from workbench.core.plain import PLAIN
from workbench.core.tensor import Tensor, value_of
from workbench.core.traces import base_chain
from workbench.numpy.namespaces import STANDING


def is_buffer(value: object) -> bool:
    """Return whether a value is an array of numbers, of NumPy or another library."""
    if type(value) is np.ndarray:
        return bool(value.dtype != object)
    return hasattr(type(value), "__cuda_array_interface__")


def make_plain(x: Any, locked: Collection[int], start: int) -> Any:
    """Return a Tensor or array in the form that the cell without the magic gives.

    Symbols, expressions of them and Tensors from before the cell, whose first serial is
    ``start``, stay as they are. ``locked`` are the ids of arrays that the trace has
    made read-only.
    """
    if isinstance(x, Tensor):
        node = resolve(x)
        if node._value is None or x.serial < start:
            return x
        x = node
    value = value_of(x)
    if type(x) in PLAIN:
        root = x if x.root is None else x.root
        if root.born < start:
            return x
        value = x.view(np.ndarray)
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        if id(base_chain(value)[-1]) in locked:
            # A view taken while the trace held the array; broadcasts stay read-only.
            value.flags.writeable = 0 not in value.strides
    return value


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
        Returns the plain value of a Tensor, and of an array that was made in the
        cell; any other array as it is.
    standing
        Of the types of what stands for something of NumPy's: what returns that.
    homes
        The names of modules: of objects whose class stands in another, attributes stay.
    """

    def __init__(
        self,
        value: Callable[[Any], Any],
        standing: Mapping[type, Callable[[Any], Any]] = STANDING,
        homes: Collection[str] = ("__main__",),
    ) -> None:
        self._value = value
        self._standing = standing
        self._homes = homes
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
        """Convert a value and all objects reached from the value; return the result."""
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
        """Find the functions that convert objects of a type."""
        if issubclass(kind, Tensor) or kind in PLAIN:
            self._replacers[kind] = self._value
            return
        if kind in self._standing:
            self._replacers[kind] = self._convert_standing
        if kind is np.ndarray:
            self._replacers[kind] = self._convert_array
            return
        if issubclass(kind, (tuple, frozenset)):
            self._replacers[kind] = self._rebuild
            return
        if kind is GeneratorType:
            self._replacers[kind] = self._convert_generator
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
            ((type,), self._convert_class),
        ):
            if issubclass(kind, bases):
                steps.append(step)
        if issubclass(kind, SimpleNamespace) or kind.__module__ in self._homes:
            steps.append(self._convert_members)
        if hasattr(kind, "tocsr"):
            self._replacers[kind] = self._convert_sparse
            self._changers[kind] = steps
        elif steps:
            self._changers[kind] = steps
        elif kind not in self._replacers:
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

    def _convert_standing(self, x: Any) -> Any:
        """Return NumPy's own object for a stand-in; treat a function as any object."""
        true = self._standing[type(x)](x)
        if true is x and type(x) in self._changers:
            self._queue(x)
        return true

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
        """Queue parts that change in place; return False if a part may be replaced."""
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
        if x.__module__ not in self._homes:
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

    def _convert_generator(self, x: GeneratorType[Any, Any, Any]) -> Any:
        """Return a generator that gives the same as plain values.

        What a generator holds in its own names cannot be replaced.
        """
        if id(x) not in self._seen:
            self._seen[id(x)] = x  # it may hold itself
            held = list(getgeneratorlocals(x).values())
            if not all(map(is_, held, map(self._convert_value, held))):
                made: Any = _yield_plain(x, self._convert_later)
                next(made)  # so that it takes what is sent
                made.__name__, made.__qualname__ = x.__name__, x.__qualname__
                self._seen[id(x)] = made
        return self._seen[id(x)]

    def _convert_later(self, x: Any) -> Any:
        made = PlainConverter(self._value, self._standing, self._homes)
        return made.convert(x)

    def _convert_class(self, x: type) -> None:
        if x.__module__ in self._homes:
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


def _yield_plain(
    values: GeneratorType[Any, Any, Any], convert: Callable[[Any], Any]
) -> Generator[Any, Any, Any]:
    """Yield the values of a cell's generator, as plain values."""
    sent: Any = yield
    while True:
        try:
            value = values.send(sent)
        except StopIteration as end:
            return convert(end.value)
        sent = yield convert(value)
