"""What rounding does to a derivative, measured: where terms cancel it is all there is.

A derivative is linear in its cotangents, or in its tangents: of a multiple of them it
is the same multiple, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["MULTIPLES", "noises"]

#: The multiples, whose digits have nothing in common.
MULTIPLES = (1.1, 1.3819660112501052, 1.7320508075688772)


def noises(
    linear: Callable[[list[Any]], Sequence[Any]],
    given: Sequence[Any],
    made: Sequence[Any],
) -> list[float]:
    """By how much the entries of each of ``made = linear(given)`` are rounded, at most.

    Examples
    --------
    >>> def gradient(g):
    ...     return [g[0] - 49 * (g[0] / 49)]
    >>> off = noises(gradient, [np.ones(2)], gradient([np.ones(2)]))
    >>> 0 < off[0] < 1e-15
    True
    """
    most = [0.0] * len(made)
    for c in MULTIPLES:
        again = linear([np.asarray(x * c).astype(np.asarray(x).dtype) for x in given])
        for i, (x, y) in enumerate(zip(made, again, strict=True)):
            off = np.abs(np.asarray(y) / c - np.asarray(x))
            most[i] = max(most[i], float(np.max(off[np.isfinite(off)], initial=0)))
    return most
