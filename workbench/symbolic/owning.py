"""Who an array belongs to: what a function returns or keeps is nobody else's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.core.types import WEAK_TYPES

__all__ = ["apart"]


def apart(arrays: Sequence[Any], others: Iterable[Any]) -> list[Any]:
    """The arrays, with a copy of each that shares memory with one before it.

    ``others`` are arrays that somebody has: arguments, states. What is read-only is
    a constant of the program, and is copied too.
    """
    if all(isinstance(x, _NUMBERS) for x in arrays):
        return list(arrays)  # nobody can write into a number
    taken = set(map(_memory, others))
    made = []
    for x in arrays:
        memory = _memory(x)
        if isinstance(x, np.ndarray):
            if memory in taken or not x.flags.writeable:
                x = x.copy()
                memory = id(x)
        elif memory in taken and hasattr(x, "shape"):  # of another library
            x = x.copy()
            memory = id(x)
        taken.add(memory)
        made.append(x)
    return made


_NUMBERS = (np.number, np.bool_, *WEAK_TYPES)


def _memory(x: Any) -> int:
    """The object at the bottom of a view: two with the same one share memory."""
    while (base := getattr(x, "base", None)) is not None:
        x = base
    return id(x)
