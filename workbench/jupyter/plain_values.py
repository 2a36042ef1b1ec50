"""After a cell the notebook holds plain values: no Tensor in what its names hold.

Visited are the names of the notebook, the attributes of objects and classes that the
notebook defined, or a module of the user's whose code the cell has called, those of
objects of other classes that a name holds, and what functions enclose; in each of
these, containers to a depth of three. Elsewhere a Tensor stays, and behaves as its
array. Mutable objects are changed in place and keep their identity; tuples are built
again where they contain a Tensor. What classes of users have put in the way of reads
and writes is not asked; an object that fails all the same stays as it is, and the walk
goes on. It holds interrupts back, since one that ends early would leave Tensors behind.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from types import FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
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
OURS = __name__.partition(".")[0]


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
        The names of modules: of objects whose class stands in another, attributes stay
        unless a name of the notebook holds the object.
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
            if self._is_foreign(type(old)):
                with suppress(Exception):
                    self._convert_attributes(old)
        self._convert_holders()

    def convert(self, x: Any) -> Any:
        """Return the plain value of an object, converted in place where it can be."""
        made = self._convert_value(x, DEPTH)
        self._convert_holders()
        return made

    def _is_open(self, kind: type) -> bool:
        """Return whether an object of a type can be or hold a Tensor."""
        if kind not in self._open:
            self._open[kind] = False
            with suppress(Exception):  # of a metaclass that answers nothing
                self._open[kind] = (
                    issubclass(
                        kind, (Tensor, np.ndarray, type, FunctionType, *CONTAINERS)
                    )
                    or kind in PLAIN
                    or kind in self._standing
                    or self._is_own(kind)
                    or hasattr(kind, "tocsr")
                )
        return self._open[kind]

    def _is_own(self, kind: type) -> bool:
        return issubclass(kind, SimpleNamespace) or kind.__module__ in self._homes

    def _is_foreign(self, kind: type) -> bool:
        """Return whether a class is of a library, other than this one."""
        if self._is_open(kind) or issubclass(kind, ModuleType):
            return False
        return str(type.__getattribute__(kind, "__module__")).split(".")[0] != OURS

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
            with suppress(Exception):
                made = self._convert_container(made, depth)
        elif visited < 0 and hasattr(kind, "tocsr"):
            with suppress(Exception):
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
            kind: Any = list if isinstance(x, list) else deque
            for i, part in enumerate(old):
                new = self._convert_value(part, depth - 1)
                if new is not part:
                    kind.__setitem__(x, i, new)
            return x
        is_keys = isinstance(x, (dict, set, frozenset))
        convert = self._convert_key if is_keys else self._convert_value
        made = [convert(part, depth - 1) for part in old]
        is_same = all(a is b for a, b in zip(old, made, strict=True))
        if isinstance(x, dict):
            base: Any = OrderedDict if isinstance(x, OrderedDict) else dict
            values = [self._convert_value(part, depth - 1) for part in x.values()]
            if not is_same:
                base.clear(x)
            for key, value in zip(made, values, strict=True):
                if is_same and base.__getitem__(x, key) is value:
                    continue
                base.__setitem__(x, key, value)
            return x
        if is_same:
            return x
        if isinstance(x, set):
            set.clear(x)
            set.update(x, made)
            return x
        kind = tuple if isinstance(x, tuple) else frozenset
        built = kind.__new__(type(x), made)
        if hasattr(built, "__dict__"):
            vars(built).update(vars(x))
        return built

    def _convert_key(self, x: Any, depth: int) -> Any:
        """Return a key or a member of a set as it will be.

        An object keeps its attributes, and so its hash; a Tensor stays whose array
        could be no key.
        """
        if not isinstance(x, (Tensor, tuple, frozenset)):
            return x
        made = self._convert_value(x, depth)
        try:
            hash(made)
        except Exception:
            return x
        return made

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
            with suppress(Exception):
                self._convert_holder(self._todo.pop())

    def _convert_holder(self, x: Any) -> None:
        is_class = isinstance(x, type)
        if isinstance(x, (type, FunctionType)) and x.__module__ not in self._homes:
            return
        if isinstance(x, FunctionType):
            self._convert_function(x)
        with suppress(AttributeError):  # it has none
            self._convert_attributes(x)
        for slot in () if is_class else self._list_slots(type(x)):
            with suppress(AttributeError):  # not set yet
                old = slot.__get__(x)
                new = self._convert_value(old, DEPTH)
                if new is not old:
                    slot.__set__(x, new)

    def _convert_function(self, x: FunctionType) -> None:
        for cell in x.__closure__ or ():
            with suppress(ValueError):  # a name that has not been bound yet
                cell.cell_contents = self._convert_value(cell.cell_contents, DEPTH)
        x.__defaults__ = self._convert_value(x.__defaults__, DEPTH)
        x.__kwdefaults__ = self._convert_value(x.__kwdefaults__, DEPTH)

    def _convert_attributes(self, x: Any) -> None:
        """Convert what stands in an object's ``__dict__``, past its own methods."""
        attributes = object.__getattribute__(x, "__dict__")
        for name, old in [*attributes.items()]:
            new = self._convert_value(old, DEPTH)
            if new is old:
                continue
            if isinstance(x, type):
                type.__setattr__(x, name, new)
            else:
                attributes[name] = new

    def _list_slots(self, kind: type) -> list[MemberDescriptorType]:
        return [
            slot
            for base in kind.__mro__
            if "__slots__" in vars(base)
            for slot in vars(base).values()
            if isinstance(slot, MemberDescriptorType)
        ]
