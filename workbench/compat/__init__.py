"""Programs that exist, unchanged: names of other libraries that lead to this one.

`autograd/`, `theano/`, `pytensor/` and `tensorflow/` hold those of these libraries,
`namespace.py` how they stand in for them. Nothing here computes: every name is a line
or three over NumPy and the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: The libraries, each loaded when it is first used.
LIBRARIES = ("autograd", "pytensor", "tensorflow", "theano")


def __getattr__(name: str) -> Any:
    if name in LIBRARIES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
