"""Makers of Theano's functions from NumPy's: their results are variables.

NumPy computes at once where no operand is a variable; Theano's functions give a
constant then, which has ``.dimshuffle`` and ``.eval()`` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isclass
from types import ModuleType
from typing import Any

import numpy as np

from workbench.compat.theano.types import as_tensor_variable
from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops.shaping import as_integer

__all__ = ["LiftedModule", "Table", "axes", "documented", "lift", "lifted", "special"]

Function = Callable[..., Any]
#: Names with what they are: a NumPy function, or one written here.
Table = dict[str, Function]


def lift(found: Any, operands: Iterable[Any] = ()) -> Any:
    """Return a result as a variable, or each of several.

    What came of Python numbers alone stays a Python number, which gives way to the
    dtype of what it meets.
    """
    if isinstance(found, Tensor):
        return found
    if isinstance(found, (tuple, list)):
        return [lift(y, operands) for y in found]
    if isinstance(found, np.generic) and all(map(types.is_weak, operands)):
        found = found.item()
    return as_tensor_variable(found)


def documented(
    function: Function, name: str, like: str, original: Any = None
) -> Function:
    """Name a function as Theano does; its docstring names the library's function.

    Where that is a ufunc, the function keeps it, for reductions by it.
    """
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{like}`."
    if isinstance(original, np.ufunc):
        vars(function)["ufunc"] = original
    return function


def lifted(function: Function, name: str) -> Function:
    """Return a NumPy function under a name of Theano's."""

    def call(*operands: Any, **settings: Any) -> Any:
        return lift(function(*operands, **settings), operands)

    home = getattr(function, "__module__", None) or "numpy"
    return documented(call, name, f"{home}.{function.__name__}", function)


class LiftedModule:
    """The functions of a module, as functions of variables."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not callable(found) or isclass(found):
            raise AttributeError(name)
        return lifted(found, name)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._module) if hasattr(self, name)]


def special(ours: str, name: str) -> Function:
    """Return a function of `scipy.special`, loaded at its first call."""

    def call(*operands: Any) -> Any:
        from workbench.scipy import special

        return lift(getattr(special, ours)(*operands), operands)

    return documented(call, name, f"scipy.special.{ours}")


def axes(axis: Any) -> int | tuple[int, ...] | None:
    """Return an axis or several: Theano takes lists, NumPy tuples."""
    if isinstance(axis, (list, np.ndarray)):
        return tuple(int(n) for n in np.atleast_1d(axis))
    return axis


# Shapes as Theano gives them: tuples, lists, or vectors of integers.
#
# Here a shape is a tuple of integers and of lengths that are known when the program
# runs; an integer variable becomes such a length (`workbench.ops.lengths`).


def as_length(n: Any) -> Any:
    """Return one length: an integer, or a symbolic length of the program."""
    return as_integer(n)


def as_lengths(shape: Any, ndim: int | None = None) -> Any:
    """Return a shape, from a tuple, a list, or a vector of integers of known length."""
    if isinstance(shape, Tensor) and shape.ndim == 1:
        count = shape.shape[0] if ndim is None else ndim
        if not is_known_length(count):
            raise UsageError(
                "a shape that is a vector of unknown length: give ndim=, the number of"
                " axes."
            )
        return tuple(as_length(shape[i]) for i in range(count))
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if not isinstance(shape, (tuple, list)):
        shape = (shape,)
    return tuple(map(as_length, shape))


def is_known_length(n: Any) -> bool:
    """Return whether a length is a number already."""
    return isinstance(n, (int, np.integer))


def is_length_one(n: Any) -> bool:
    """Return whether a length is known to be 1."""
    return is_known_length(n) and bool(n == 1)
