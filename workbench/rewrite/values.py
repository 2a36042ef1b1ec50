"""What a wildcard stands for, and when two values or settings are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.ops import several
from workbench.rewrite.forms import Kind, through

__all__ = [
    "MISSING",
    "equal",
    "is_value",
    "kinds_of",
    "named",
    "same",
    "same_settings",
]

#: In the place of a value that is not known yet.
MISSING = object()


def kinds_of(nodes: Sequence[Tensor]) -> set[Kind]:
    """The ranks and kinds of numbers that a program has."""
    found: set[Kind] = set()
    for node in nodes:
        for x in (node, *node.inputs):
            if isinstance(x, Tensor):
                held = x._value
                if held is None:
                    held = x.spec
            else:
                held = x
            try:
                found.add((len(held.shape), held.dtype.kind))
            except (AttributeError, TypeError):
                if types.weak(held):
                    found.add((0, np.result_type(type(held)).kind))
    return {kind for kind in found if kind[1] in "fcbiu"}


def is_value(x: Any) -> bool:
    """Whether a wildcard may stand for it: one array or number."""
    if isinstance(x, Tensor):
        return several.parts(x) is None
    return types.weak(x) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def same(a: Any, b: Any) -> bool:
    """Whether two places hold one value: the same Tensor, or equal constants."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or (a is not MISSING and through(a) is through(b))
    return a is not MISSING and equal(a, b)


def equal(a: Any, b: Any) -> bool:
    """Whether two constants are equal: numbers and arrays by shape and entries."""
    if a is b:
        return True
    if not (is_value(a) and is_value(b)):
        return type(a) is type(b) and bool(a == b)
    if types.spec_of(a).shape != types.spec_of(b).shape:
        return False
    found = a == b
    return bool(found if types.weak(found) else found.all())


def same_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two nodes of an op have the same settings."""
    if a.keys() != b.keys():
        return False
    try:
        return all(
            x is b[key] or (type(x) is type(b[key]) and bool(x == b[key]))
            for key, x in a.items()
        )
    except (TypeError, ValueError):
        return False


def named(names: Sequence[str], bound: Sequence[Any]) -> dict[str, Any]:
    """What the wildcards stand for, by name; a Python number as an array."""
    return {
        name: np.asarray(x) if types.weak(x) else x  # host array: a number
        for name, x in zip(names, bound, strict=True)
    }
