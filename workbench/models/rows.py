"""Rows of importers: tables of functions by the names of a library's ops.

What rows of several libraries mean alike stands here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.ops.define import shape_of

#: A row: of operands and settings the results, by NumPy's functions.
Rule = Callable[..., Any]


class Rows(dict[str, Rule]):
    """The rows of a library, by the names of its ops."""

    def enter(self, *names: str) -> Callable[[Rule], Rule]:
        """Return a decorator that enters a function as the row of these ops.

        Examples
        --------
        >>> rows = Rows()
        >>> rows.enter("tanh", "tanh_")(np.tanh) is rows["tanh_"]
        True
        """

        def enter(rule: Rule) -> Rule:
            for name in names:
                assert name not in self, name
                self[name] = rule
            return rule

        return enter


def sort_entries(
    x: Any, axis: int, descending: bool = False, count: int | None = None
) -> list[Any]:
    """Return the first so many sorted entries along an axis, and their places.

    NaN is larger than all numbers. Equal entries keep their order, also descending: few
    dtypes can be negated, but any array can be turned round.

    Examples
    --------
    >>> sort_entries(np.array([0, 200, 3, 200], np.uint8), 0, descending=True, count=3)
    [array([200, 200,   3], dtype=uint8), array([1, 3, 2])]
    """
    if descending and shape_of(x):
        turned = np.argsort(np.flip(x, axis), axis, kind="stable")
        places = shape_of(x)[axis] - 1 - np.flip(turned, axis)
    else:
        places = np.argsort(x, axis, kind="stable")
    if count is not None:
        places = np.take(places, np.arange(count), axis)
    return [np.take_along_axis(x, places, axis), places]
