"""Which op's rule made a gradient that is not finite.

The first step of the backward sweep where what arrives is finite and what is passed on
is not. Of a program with a hundred steps after it the check would blame all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.core import blame, types
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import record
from workbench.ops.several import flat

__all__ = ["unfinite"]


def unfinite(f: Callable[..., Any], values: Sequence[Any]) -> str | None:
    """The op and line where a gradient of ``f(*values)`` stops to be finite.

    Every output is asked for with a cotangent of ones. None: nowhere.

    Examples
    --------
    >>> with np.errstate(all="ignore"):
    ...     unfinite(lambda x: 3 * np.sqrt(x), [np.zeros(2)]).partition(" (at")[0]
    'sqrt float64[2]'
    """
    found: list[str] = []

    def look(visit: reverse.Visit) -> None:
        if found or not finite([visit.cotangent]):
            return
        if not finite(visit.passed):
            found.append(f"{blame.describe(visit.node)}{blame.at(visit.node.site)}")

    made = record(lambda leaves: f(*leaves), values)
    varying = [
        y
        for y in made.outputs
        if isinstance(y, Tensor) and types.differentiable(y.dtype)
    ]
    ones = [np.ones_like(y._value) for y in varying]
    with np.errstate(all="ignore"):
        reverse.pull_back(varying, ones, made.leaves, visit=look)
    return found[0] if found else None


def finite(cotangents: Sequence[Any]) -> bool:
    """Whether all entries of all that has arrived are finite."""
    return all(
        c is None or bool(np.all(np.isfinite(value_of(c)))) for c in flat(cotangents)
    )
