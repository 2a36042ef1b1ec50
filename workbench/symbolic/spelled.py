"""How the source of a function returns a nest of outputs."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

from workbench.core.tree import Tree

__all__ = ["identifier", "returned"]


#: What a source may import.
MODULES = {"fft", "linalg", "np", "signal", "sparse", "special", "stats"}


def identifier(name: str | None) -> str:
    """The name of a function as Python can write it."""
    made = re.sub(r"\W+", "_", name or "function")
    taken = keyword.iskeyword(made) or hasattr(builtins, made) or made in MODULES
    return f"f_{made}" if taken or made[0].isdigit() else made


def returned(codes: Sequence[str], structure: Tree | None, updates: int) -> str:
    """What the source returns, from the code of each output, updates last.

    A nest of dataclasses and the like, which are no code, is a tuple of its leaves.
    """
    outputs = list(map(_Code, codes))
    count = len(outputs) - updates
    nested: Any = None
    if structure is not None:
        nested = structure(outputs[:count])
        if not _plain(nested):
            nested = tuple(outputs[:count])
    if updates:
        nested = (nested, outputs[count:])
    text = repr(nested)
    # A tuple needs no parentheses where it is returned.
    return text[1:-1] if type(nested) is tuple and len(nested) > 1 else text


class _Code:
    """Code among the parts of a nest, whose text is then code too."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return self.code


def _plain(nested: Any) -> bool:
    """Whether a nest is of Python's own containers, whose text is code."""
    stack = [nested]
    while stack:
        x = stack.pop()
        if type(x) is dict:
            if not all(isinstance(key, (str, int)) for key in x):
                return False
            stack += x.values()
        elif type(x) in (list, tuple):
            stack += x
        elif x is not None and type(x) is not _Code:
            return False
    return True
