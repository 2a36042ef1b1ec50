"""After a cell the notebook holds plain values: no Tensor in what its names hold.

Visited are the names of the notebook, the attributes of objects and classes that the
notebook defined, or a module of the user's whose code the cell has called, and what
their functions enclose; in each of these, containers to a depth of three. Elsewhere a
Tensor stays, and behaves as its array. Mutable objects are changed in place and keep
their identity; tuples are built again where they contain a Tensor. The walk holds
interrupts back, since one that ends early would leave Tensors behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any

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


#: So deep are containers looked into: a list of dicts of arrays needs two.
DEPTH = 3
CONTAINERS = (list, tuple, dict, set, frozenset, deque)


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
        #: By id: what has been visited, what stands in its place, and how deep.
        self._seen: dict[int, tuple[Any, Any, int]] = {}
        #: The holders that are still to be visited: own objects, classes, functions.
        self._todo: list[Any] = []
        #: Whether objects of a type can be or hold a Tensor.
        self._open: dict[type, bool] = {}

    def convert_names(self, names: dict[str, Any], hidden: Iterable[str]) -> None:
        """Convert what the names of a notebook hold, in place."""
        skip = set(hidden)
        for name in [n for n in names if n not in skip]:
            old = names[name]
            new = self._convert_value(old, DEPTH)
            if new is not old:
                names[name] = new
        self._convert_holders()

    def convert(self, x: Any) -> Any:
        """Return the plain value of an object, converted in place where it can be."""
        made = self._convert_value(x, DEPTH)
        self._convert_holders()
        return made

    def _is_open(self, kind: type) -> bool:
        """Return whether an object of a type can be or hold a Tensor."""
        if kind not in self._open:
            self._open[kind] = (
                issubclass(kind, (Tensor, np.ndarray, type, FunctionType, *CONTAINERS))
                or kind in PLAIN
                or kind in self._standing
                or hasattr(kind, "tocsr")
                or self._is_own(kind)
            )
        return self._open[kind]

    def _is_own(self, kind: type) -> bool:
        return issubclass(kind, SimpleNamespace) or kind.__module__ in self._homes

    def _hold_nothing(self, parts: Iterable[Any], depth: int) -> bool:
        """Return whether no part can hold a Tensor: rows of numbers are found fast."""
        parts = list(parts)
        opened = {kind for kind in {*map(type, parts)} if self._is_open(kind)}
        if not opened:
            return True
        if depth == 0 or not opened <= {list, tuple, dict}:
            return opened <= {list, tuple, dict}  # too deep to be looked into
        rows = [x for x in parts if type(x) in opened]
        if dict in opened:
            rows += [x.values() for x in rows if type(x) is dict]
        return self._hold_nothing(chain.from_iterable(rows), depth - 1)

    # One value

    def _convert_value(self, x: Any, depth: int) -> Any:
        kind = type(x)
        if not self._is_open(kind):
            return x
        if issubclass(kind, Tensor) or kind in PLAIN:
            return self._value(x)
        if kind in self._standing:
            true = self._standing[kind](x)
            if true is not x:
                return true
        if kind is np.ndarray:
            return self._convert_array(x)
        _, made, visited = self._seen.get(id(x), (x, x, -1))
        if visited < depth and issubclass(kind, CONTAINERS):
            # Noted before its parts are converted: a list inside may hold it.
            self._seen[id(x)] = x, made, depth
            made = self._convert_container(made, depth)
        elif visited < 0 and hasattr(kind, "tocsr"):
            made = self._convert_sparse(x)
        self._seen[id(x)] = x, made, max(visited, depth)
        self._seen.setdefault(id(made), (made, made, depth))
        if visited < 0 and (
            issubclass(kind, (type, FunctionType)) or self._is_own(kind)
        ):
            self._todo.append(made)
        return made

    def _convert_container(self, x: Any, depth: int) -> Any:
        """Return a container of plain values; a mutable one is changed in place."""
        if depth == 0:
            return x
        parts = chain(x, x.values()) if isinstance(x, dict) else x
        if self._hold_nothing(parts, depth - 1):
            return x
        old = list(x)
        if isinstance(x, (list, deque)):
            for i, part in enumerate(old):
                new = self._convert_value(part, depth - 1)
                if new is not part:
                    x[i] = new
            return x
        # An object that is a key keeps its attributes, and so its hash.
        is_keys = isinstance(x, (dict, set, frozenset))
        made = [
            self._convert_value(part, depth - 1)
            if not is_keys or isinstance(part, (Tensor, tuple, frozenset))
            else part
            for part in old
        ]
        is_same = all(a is b for a, b in zip(old, made, strict=True))
        if isinstance(x, dict):
            values = [self._convert_value(part, depth - 1) for part in x.values()]
            if not is_same:
                x.clear()
            for key, value in zip(made, values, strict=True):
                if is_same and x[key] is value:
                    continue
                x[key] = value
            return x
        if is_same:
            return x
        if isinstance(x, set):
            x.clear()
            x.update(made)
            return x
        kind: Any = type(x)
        return kind._make(made) if hasattr(kind, "_make") else kind(made)

    def _convert_array(self, x: Any) -> Any:
        if x.dtype != object:
            return self._value(x)
        flat = x.ravel().tolist()
        if not any(isinstance(e, Tensor) for e in flat):
            return x
        converted = [self._convert_value(e, 0) for e in flat]
        if all(np.ndim(e) == 0 and not isinstance(e, str) for e in converted):
            # As np.array would do with the plain numbers.
            return np.array(converted).reshape(x.shape)
        for index, e in zip(np.ndindex(x.shape), converted, strict=True):
            x[index] = e
        return x

    def _convert_sparse(self, x: Any) -> Any:
        if not isinstance(getattr(x, "data", None), Tensor):
            return x
        from workbench.ops.sparse.pattern import split_sparse
        from workbench.ops.sparse.tensor import build

        data, pattern = split_sparse(x)
        made = self._value(data)
        return x if made is data else build(made, pattern)

    # What holds values under names: each begins anew with the depth

    def _convert_holders(self) -> None:
        while self._todo:
            x = self._todo.pop()
            is_class = isinstance(x, type)
            if isinstance(x, (type, FunctionType)) and x.__module__ not in self._homes:
                continue
            if isinstance(x, FunctionType):
                for cell in x.__closure__ or ():
                    with suppress(ValueError):  # a name that has not been bound yet
                        cell.cell_contents = self._convert_value(
                            cell.cell_contents, DEPTH
                        )
                x.__defaults__ = self._convert_value(x.__defaults__, DEPTH)
                x.__kwdefaults__ = self._convert_value(x.__kwdefaults__, DEPTH)
            for name, old in [*getattr(x, "__dict__", {}).items()]:
                new = self._convert_value(old, DEPTH)
                if new is not old and is_class:
                    setattr(x, name, new)
                elif new is not old:
                    x.__dict__[name] = new
            for slot in () if is_class else self._list_slots(type(x)):
                with suppress(AttributeError):  # not set yet
                    old = slot.__get__(x)
                    new = self._convert_value(old, DEPTH)
                    if new is not old:
                        slot.__set__(x, new)

    def _list_slots(self, kind: type) -> list[MemberDescriptorType]:
        return [
            slot
            for base in kind.__mro__
            if "__slots__" in vars(base)
            for slot in vars(base).values()
            if isinstance(slot, MemberDescriptorType)
        ]
