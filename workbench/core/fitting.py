"""Which length fits: numbers that an op gave at stand-ins, as a formula of lengths.

`probe.py` asks an op at several sets of small lengths; what its result's lengths were
there is compared with lengths that may occur: those of the operands, sums, products,
quotients.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import combinations
from typing import Any

from workbench.core.broadcasting import largest, smallest
from workbench.core.dims import Dim

__all__ = ["fit"]

#: What a length may be made of two.
PAIRS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.mul,
    operator.add,
    operator.sub,
    lambda a, b: b - a,
    smallest,
    largest,
)


def fit(found: list[Any], candidates: list[tuple[Any, tuple[int, ...]]]) -> Any:
    """The length that has these values at the stand-ins; None if there is no such."""
    if any(isinstance(n, Dim) or n is None for n in found):
        return None
    first = found[0]
    if all(n == first for n in found):
        return first
    for n, values in candidates:
        shift = first - values[0]
        if all(f - v == shift for f, v in zip(found, values, strict=True)):
            return n + shift
    for n, values in candidates:
        if values[0] and first % values[0] == 0:
            factor = first // values[0]
            if all(f == factor * v for f, v in zip(found, values, strict=True)):
                return factor * n
    for n, values in candidates:
        for k in range(2, 9):
            for up in range(k):
                if all((v + up) // k == f for f, v in zip(found, values, strict=True)):
                    return (n + up) // k
    for (a, left), (b, right) in combinations(candidates, 2):
        pairs = list(zip(found, left, right, strict=True))
        for made in PAIRS:
            shift = first - made(left[0], right[0])
            if all(f - made(v, w) == shift for f, v, w in pairs):
                return made(a, b) + shift
    return None
