"""A rule that leaves out those entries of a result at which the op's is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor, value_of
from workbench.errors import WorkbenchError
from workbench.ops.define import masked
from workbench.overrides.named import named_rule
from workbench.overrides.rules import Node

__all__ = ["sanitise_entries"]

#: So often the rule runs to find the entries at which it is not finite.
MOST_RUNS = 400


@named_rule("sanitise_entries", label=lambda: "sanitise entries")
def _sanitise_entries(node: Node, *cotangents: Any) -> Any:
    given = any(isinstance(x, Tensor) for x in (*node.inputs, *cotangents))

    def passed(arriving: list[Any]) -> list[Any]:
        # As what leaves a `where`: a 0 that arrives wins over an infinite slope.
        found = node.asked(*[None if c is None else masked(c) for c in arriving])
        return found if given else [None if c is None else value_of(c) for c in found]

    # The rule is linear in what arrives: where it is finite hangs on its inputs alone.
    ones = [None if c is None else np.ones_like(value_of(c)) for c in cotangents]
    with np.errstate(all="ignore"):
        try:
            found = passed(list(cotangents))
            known = all(c is None or value_of(c) is not None for c in found)
            if known and not _are_finite(passed(ones)):
                nothing = [c if c is None else np.zeros_like(c) for c in ones]
                if not _are_finite(passed(nothing)):
                    return _sanitised(node.asked(*cotangents))
                kept: list[Any] = list(cotangents)
                for i, c in enumerate(ones):
                    if c is not None:
                        good = _finite_entries(passed, nothing, i, c)
                        kept[i] = np.where(good, kept[i], 0)
                found = passed(kept)
        except WorkbenchError:
            found = node.asked(*cotangents)  # a rule that cannot be recorded
    return _sanitised(found)


def _sanitised(found: list[Any]) -> list[Any]:
    """Return gradients with 0 for what is not finite."""
    return [
        None
        if c is None
        else c
        if value_of(c) is not None and _are_finite([c])
        else np.where(np.isfinite(c), c, 0)
        for c in found
    ]


def _are_finite(arrays: list[Any]) -> bool:
    """Return whether all numbers are finite, as far as they are known."""
    values = [value_of(c) for c in arrays]
    return all(
        bool(np.all(np.isfinite(v)))
        for v in values
        if v is not None and types.differentiable(types.spec_of(v).dtype)
    )


def _finite_entries(
    passed: Callable[[list[Any]], list[Any]], nothing: list[Any], i: int, c: Any
) -> Any:
    """Return the entries of cotangent i at which a rule is finite, found by halving."""
    size, shape = int(np.size(c)), np.shape(c)
    place = np.reshape(np.arange(size, like=c), shape)
    good = np.equal(place, place)
    parts, runs = [(0, size)], 0
    while parts:
        low, high = parts.pop()
        part = (place >= low) & (place < high)
        arriving = list(nothing)
        arriving[i] = np.where(part, c, 0)
        runs += 1
        if _are_finite(passed(arriving)):
            continue
        if high - low > 1 and runs < MOST_RUNS:
            middle = (low + high) // 2
            parts += [(low, middle), (middle, high)]
        else:  # or more of them than can be told apart
            good = good & ~part
    return good


def sanitise_entries() -> str:
    """The op's own rule, where it is finite: other entries of the result pass on 0.

    They are left out before they are summed with good ones. An op of one's own that
    gives all distances of two sets of points, or a product with an infinite entry, has
    the gradient of all pairs but those at which there is none; `sanitise`, which looks
    at the sums, would lose the good ones with them.

    Returns
    -------
    The text of the rule, for any op. Forward mode is its transpose.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> class Distances(wb.Op):
    ...     def compute(self, x, y):
    ...         return abs(x[:, None] - y)
    ...     def vjp(self, node, g):
    ...         (x, y), (d,) = node.inputs, node.outputs
    ...         part = g * (x[:, None] - y) / d
    ...         return np.sum(part, 1), -np.sum(part, 0)
    >>> f = lambda x: np.sum(Distances()(x, np.array([1.0, 5.0])))
    >>> rule = wb.override("distances", wb.rules.sanitise_entries())
    >>> with np.errstate(invalid="ignore"):
    ...     wb.grad(f)(np.array([1.0, 2.0]))
    array([nan,  0.])
    >>> wb.grad(f, overrides=[rule])(np.array([1.0, 2.0]))
    array([-1.,  0.])
    """
    return "sanitise_entries"
