"""Which of many entries is off, by halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["halved"]

Array = np.ndarray[Any, Any]


def halved(count: int, off: Callable[[Array], float], rng: np.random.Generator) -> int:
    """One of ``count`` entries that is off, in some ``2 log2(count)`` questions.

    ``off(chosen)`` says by how much those together are off for which ``chosen`` is
    true. The half that is off by more is halved again; halves are drawn at random, so
    that errors that cancel in one pairing do not in all.

    Examples
    --------
    >>> wrong = np.arange(100) == 42
    >>> halved(100, lambda chosen: float(np.sum(wrong & chosen)),
    ...        np.random.default_rng(0))
    42
    """
    left = rng.permutation(count)
    while len(left) > 1:
        first, second = np.array_split(left, 2)
        sizes = []
        for some in (first, second):
            chosen = np.zeros(count, bool)
            chosen[some] = True
            sizes.append(off(chosen))
        left = first if sizes[0] >= sizes[1] else second
    return int(left[0])
