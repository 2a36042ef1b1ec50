"""Runs the text of a program."""

from __future__ import annotations

from typing import Any

from workbench.backends.numpy import NumpyFunction


def run_text(function: NumpyFunction, *arrays: Any) -> Any:
    """What the text computes, in a namespace of its own."""
    namespace = dict(function.constants)
    exec(function.source, namespace)
    made = namespace["function"](*arrays)
    return made if isinstance(made, tuple) else (made,)
