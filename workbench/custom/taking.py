"""What a user's op takes: how many inputs, and what may be one."""

from __future__ import annotations

import inspect
from math import inf
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor, admit
from workbench.custom.messages import counted

__all__ = ["input_counts", "numbers", "operand"]


def input_counts(cls: Any) -> tuple[float, float]:
    """How many inputs the `compute` of a class takes: at least, at most."""
    kind = type(inspect.getattr_static(cls, "compute"))
    own = 0 if kind in (staticmethod, classmethod) else 1
    try:
        parameters = list(inspect.signature(cls.compute).parameters.values())[own:]
    except (TypeError, ValueError):
        return 0, inf
    places = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is p.empty for p in places)
    return least, inf if many else len(places)


def numbers(least: float, most: float) -> str:
    """``2 inputs``, ``1 to 2 inputs``, ``at least 1 input``."""
    if least == most:
        return counted(int(least), "input")
    if most == inf:
        return f"at least {counted(int(least), 'input')}"
    return f"{int(least)} to {counted(int(most), 'input')}"


def operand(x: Any) -> Any:
    """What an op takes: arrays and Tensors as they are, lists as arrays."""
    if isinstance(x, (list, tuple)):
        found = admit(x)
        return found if hasattr(found, "dtype") else np.asarray(x)  # host array: a list
    if isinstance(x, Tensor) or types.weak(x) or hasattr(x, "dtype"):
        return x
    if x is None:
        types.spec_of(x)  # says so
    return admit(x)
