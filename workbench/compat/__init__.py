"""Old programs, unchanged: names of other libraries that lead to this one.

`theano/` holds Theano's. Nothing here computes: every name is a line or three over
NumPy and the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "theano":  # loads when it is first used
        return import_module(f"{__name__}.theano")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
