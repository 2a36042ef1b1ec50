"""Lengths that are known only when the program runs, as operands and as settings.

``x / n`` with ``n = x.shape[0]`` divides by the op `length`, an integer that is
measured; `sum_to` of such shapes is the op `unbroadcast`, which sees at run time over
which axes to sum. How settings hold lengths stands in `core/deferred.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from workbench.core import blame, deferred, hooks, source
from workbench.core.deferred import later, waits
from workbench.core.dims import Dim
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.ops.define import op

__all__ = ["delay", "delayed"]

LENGTH = op(
    "length",
    lambda *, n: operator.index(n),
    infer=lambda *, n: Spec((), np.dtype(int), True),
    lengths=lambda *, n: Spec((), np.dtype(int), True),
    rule="a length has no derivative",
)


@hooks.length.set
def _length(n: Dim) -> Tensor:
    """A length as an operand: an integer, weak as Python's."""
    bound, operands, settings = deferred.bound(LENGTH, (), {"n": n})
    made = Tensor(
        bound, operands, (None,) * len(operands), settings, None, *source.caller(),
        source.surroundings(),
    )  # fmt: skip
    made.spec = Spec((), np.dtype(int), True)
    return made


def delayed(function: Callable[..., Any], *, pin: bool = False) -> Callable[..., Any]:
    """The same function; called when the program runs, where it needs a length.

    NumPy's own functions do so by themselves. This is for functions of ours that
    NumPy does not hand to Tensors. With ``pin`` all ops that it makes stand on the
    user's line; not so for one that runs a function of the user's.
    """

    @wraps(function)
    def called(*args: Any, **settings: Any) -> Any:
        try:
            if not pin:
                return function(*args, **settings)
            with source.pinned():
                return function(*args, **settings)
        except blame.PLAIN as error:
            if waits(error, called, args, settings):
                return later(error, called, args, settings)
            told = blame.placed(error, function.__name__, args, settings)
            if not pin or told is error:
                raise
            raise told from error

    return called


def delay(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make the functions of a module `delayed`."""
    for name in names:
        if isinstance(namespace.get(name), FunctionType):
            namespace[name] = delayed(namespace[name], pin=True)
