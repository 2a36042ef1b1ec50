"""After a cell the notebook holds plain values: no Tensor stays behind.

A walk over what the notebook's names reach, without recursion: lists, dicts,
sets, closures, defaults, attributes of objects whose class the notebook defined.
What is mutable is changed in place, so its identity stays; what is not (tuples)
is built anew where something inside was a Tensor.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from types import (
    CellType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, cast

import numpy as np

from workbench.core.tensor import Tensor
from workbench.core.tree import is_sparse
from workbench.jupyter import frames

__all__ = ["Plain"]

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
        """One value, and all it reaches, made plain."""
        made = self.value(x)
        self._finish()
        return made

    def inside(self, x: Any) -> None:
        """The attributes of an object, whatever its class."""
        self._attributes(x)
        self._finish()

    def value(self, x: Any) -> Any:
        """The plain value; what is mutable is noted, to be changed in place."""
        kind = type(x)
        if kind in _CLOSED:
            return x
        if isinstance(x, Tensor):
            return self._value(x)
        if kind is np.ndarray:
            return self._array(x)
        if is_sparse(x) and isinstance(x.data, Tensor):
            from workbench.ops.sparse.entries import taken
            from workbench.ops.sparse.nests import build

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
                for old in frames.locals_of(x.gi_frame).values():
                    new = self.value(old)
                    if new is not old:
                        frames.rebind(x.gi_frame, old, new)
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
