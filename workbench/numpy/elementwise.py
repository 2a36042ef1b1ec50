"""Elementwise functions where the standard differs from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["clip"]


def clip(
    x: Any,
    /,
    min: Any = None,
    max: Any = None,
    *,
    a_min: Any = None,
    a_max: Any = None,
) -> Any:
    """``x`` with its entries brought between two bounds; None is no bound.

    NumPy takes both bounds by position or both by name; the standard any mix.
    ``a_min`` and ``a_max`` are NumPy's names for them.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.clip(np.arange(4), 1, max=2)
    array([1, 1, 2, 2])
    """
    low = a_min if min is None else min
    return np.clip(x, low, a_max if max is None else max)
