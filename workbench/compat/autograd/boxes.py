"""What autograd calls a box: here a Tensor; or an object of a type of the user's.

A box of an object (`Box.register`) holds the object and a `Handle`: a number of the
program that stands for it, so that the sweep finds the calls that read the object, in
the right order, and the sum of the objects' own cotangents.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from workbench.core import tree
from workbench.core.memory import resolve
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import is_live

__all__ = ["Box", "Handle", "find_live", "getval", "isbox", "new_box"]


class _BoxType(type):
    """Counts Tensors among the boxes."""

    def __instancecheck__(cls, x: object) -> bool:
        return type.__instancecheck__(cls, x) or (
            cls in (Box, ArrayBox) and isinstance(x, Tensor)
        )


class Box(metaclass=_BoxType):
    """A value in a program; a subclass holds objects of a type of the user's.

    Attributes
    ----------
    _value
        The object.
    _trace, _node
        What autograd keeps of the program; ``_node`` is the `Handle` of the object.
    """

    type_mappings: ClassVar[dict[type, type]] = {}
    __slots__ = ("_node", "_trace", "_value")

    def __init__(self, value: Any, trace: Any, node: Any) -> None:
        self._value, self._trace, self._node = value, trace, node

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return f"Autograd {type(self).__name__} with value {self._value!s}"

    @classmethod
    def register(cls, value_type: type) -> None:
        """Let objects of a type stand in programs in boxes of this class."""
        Box.type_mappings[value_type] = cls
        Box.type_mappings[cls] = cls


class ArrayBox(Box):
    """The class of Tensors, for ``isinstance``."""

    __slots__ = ()


class Handle:
    """A number that stands for an object in a program, and the object's cotangent."""

    __slots__ = ("number", "space", "total")

    def __init__(self, number: Any, space: Any) -> None:
        self.number, self.space = number, space
        self.total: Any = None

    def add(self, cotangent: Any) -> None:
        """Add a cotangent of the object to those that have arrived."""
        known = self.total
        self.total = cotangent if known is None else self.space._add(known, cotangent)

    def take(self) -> Any:
        """Return the sum of what has arrived, and begin anew."""
        total, self.total = self.total, None
        return self.space.zeros() if total is None else total


def isbox(x: object) -> bool:
    """Return whether a value is part of a program that is being recorded."""
    return is_live(resolve(x)) or type(x) in Box.type_mappings.values()


def getval(x: Any) -> Any:
    """Return the value of a box, through all levels; anything else as it is."""
    if type(x) in Box.type_mappings.values():
        return getval(x._value)
    return value_of(resolve(x))


def new_box(value: Any, trace: Any, node: Any) -> Any:
    """Return an object in a box of its type."""
    kind = Box.type_mappings.get(type(value))
    if kind is None:
        raise TypeError(
            f"there is no box for {type(value)}. Write a subclass of Box, and call its"
            " register with the type; arrays need none: wb.trace records them."
        )
    return kind(value, trace, node)


def find_live(x: Any) -> bool:
    """Return whether an argument is a Tensor that is recorded, or a nest with one."""
    if isinstance(x, Tensor):
        return is_live(x)
    if x is None or isinstance(x, (int, float, str, np.generic)):
        return False
    if type(x) is np.ndarray and x.dtype != object:
        return False
    return any(is_live(resolve(leaf)) for leaf in tree.flatten(x)[0])
