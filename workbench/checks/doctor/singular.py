"""Poles and overflow, found by values; rules that stay finite.

What is known of the singular points of an op stands in its row (`Traits.undefined`,
`Traits.steep`). Explanations of a whole node are in `explanation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: The replacement for an override that is not finite.
MEND = "where(isfinite(d), d, 0)"

#: Rules for an infinite slope; the first that gives true gradients is suggested. They
#: send 0 to its entries, before these are summed with others.
ENTRIES = ["sanitise_entries", MEND]

#: Rules that bound a gradient that overflows its dtype.
BOUNDED = ["clip(d, -1, 1)", "where(isfinite(d), clip(d, -1, 1), 0)"]

#: The distance of a point's neighbours, relative to its size, at least to 1.
NEIGHBOUR_STEP = 1e-4


def find_pole(
    evaluate: Callable[..., Any], args: Sequence[Any], mask: Any, both: bool = False
) -> int | None:
    """Return the operand that has a pole, an isolated point of infinite values.

    Parameters
    ----------
    evaluate
        The function whose values are infinite.
    args
        The operands, finite at the entries of ``mask``, where the values are not.
    both
        Whether values must be finite on both sides.

    Returns
    -------
    None where values are infinite on a side of the point, or all around it, as those
    that overflow are; the number of the operand where they are finite on one side, and
    on the other finite or NaN.

    Examples
    --------
    >>> with np.errstate(all="ignore"):
    ...     x, at = np.array([0.0]), np.array([True])
    ...     find_pole(np.log, [x], at), find_pole(np.exp, [x + 710], at)
    (0, None)
    """
    for k, x in enumerate(args):
        dtype = getattr(x, "dtype", np.dtype(type(x)))
        if dtype.kind not in "fc":
            continue
        step = NEIGHBOUR_STEP * np.maximum(np.abs(x), 1)
        sides = []
        for side in (x + step, x - step):
            moved = [*args[:k], np.asarray(side, dtype), *args[k + 1 :]]
            sides.append(np.broadcast_to(evaluate(*moved), mask.shape)[mask])
        infinite = [np.isinf(y).any() for y in sides]
        enough = np.logical_and if both else np.logical_or
        if not any(infinite) and enough(*map(np.isfinite, sides)).all():
            return k
    return None


def has_both_signs(compute: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Return whether NaN comes from terms that overflow with both signs.

    It does where smaller operands of the same ratios give finite values.

    Examples
    --------
    >>> a = np.full((1, 2), 1e200)
    >>> with np.errstate(over="ignore", invalid="ignore"):
    ...     has_both_signs(np.matmul, [a, a.T * [[1], [-1]]])
    True
    """
    floats = [k for k, x in enumerate(args) if getattr(x, "dtype", None) is not None
              and x.dtype.kind in "fc" and x.size]  # fmt: skip
    if not floats or not all(np.isfinite(args[k]).all() for k in floats):
        return False
    top = max(float(np.abs(args[k]).max()) for k in floats)
    if top < 1e3:
        return False
    smaller = [
        (x / top).astype(x.dtype) if k in floats else x for k, x in enumerate(args)
    ]
    made = compute(*smaller)
    parts = made if isinstance(made, tuple) else (made,)
    return all(bool(np.isfinite(part).all()) for part in parts)
