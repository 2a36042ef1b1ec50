"""How variables behave while a library's name is installed, as they did in Theano.

Their truth, their text and what ``x.dtype`` is differ from the library's, so that they
are put in place for old programs only.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.core.methods import Conversions
from workbench.core.op import declare
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, Tensor

__all__ = ["begin", "end"]

#: Comparisons by which lists look for a variable, and what they ask in Theano.
SAME = {declare("equal"): True, declare("not_equal"): False}

#: Who sees NumPy's dtypes: the first part of the names of their modules.
WITHIN = ("workbench", "numpy")


class DtypeName(str):
    """A dtype in Theano's form, its name: ``x.dtype.startswith("float")``.

    It answers to what NumPy's dtype does too, and equals it.

    >>> made = DtypeName("float32")
    >>> made + "!", made.kind, made == np.float32, np.dtype(made)
    ('float32!', 'f', True, dtype('float32'))
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(np.dtype(str(self)), name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == str(other)
        return bool(np.dtype(str(self)) == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


_DTYPE: Any = vars(Tensor)["dtype"]


def _dtype(x: Tensor) -> Any:
    """Return the dtype to the library, and its name to programs."""
    found = _DTYPE.__get__(x)
    within = _is_ours(sys._getframe(1).f_globals.get("__name__"))
    return found if within else _named(found)


@lru_cache(4096)
def _is_ours(module: object) -> bool:
    return str(module).partition(".")[0] in WITHIN


_named = lru_cache(64)(DtypeName)


def _truth(x: Tensor) -> bool:
    """Return a Tensor's truth; of ``x == y`` without a value, whether they are one.

    So ``x in [y, x]`` and ``params.index(x)`` find a variable, as in Theano. Any other
    variable is true (``if not W: W = shared(...)``), but for conditions.
    """
    if x._value is None:
        if x.op in SAME and all(isinstance(i, Tensor) for i in x.inputs):
            a, b = x.inputs
            return (a is b) is SAME[x.op]
        if x.spec.dtype.kind != "b" or (x.op is IDENTITY and not x.inputs):
            return True
    return Conversions.__bool__(x)


def _text(x: Tensor) -> str:
    """Return the name of a variable, or else its text."""
    return x.name or (repr(x) if x._value is None else str(x._value))


def begin() -> None:
    """Let variables behave as in Theano."""
    patched: Any = Tensor
    patched.__bool__ = _truth
    patched.dtype = property(_dtype, doc=_DTYPE.__doc__)
    patched.__str__ = _text
    Shared.__str__ = _text  # type: ignore[assignment, method-assign]


def end() -> None:
    """Restore the library's own behaviour of Tensors."""
    patched: Any = Tensor
    for name in ("__bool__", "__str__"):
        if name in vars(Tensor):
            delattr(Tensor, name)
    patched.dtype = _DTYPE
    Shared.__str__ = Shared.__repr__  # type: ignore[assignment, method-assign]
