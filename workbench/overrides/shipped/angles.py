"""Angles whose derivatives stay finite: see `safe.py`.

`safe_atan2` is another function nearby, since the true derivative has no limit at the
origin; the others are the true one wherever that can be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.overrides.named import named_rule
from workbench.overrides.rules import Node
from workbench.overrides.shipped.safe import positive, safe_text

__all__ = ["safe_arccos", "safe_arcsin", "safe_atan2"]


@named_rule("safe_atan2", of="arctan2", label=lambda eps: "safe atan2")
def _safe_atan2(node: Node, g: Any, *, eps: float = 1e-12) -> Any:
    positive("safe_atan2", eps=eps)
    y, x = node.inputs
    square = x * x + y * y + eps
    return g * (x / square), g * (-y / square)


def safe_atan2(eps: float = 1e-12) -> str:
    """The angle of a point, with a gradient of 0 at the origin.

    ``g · x / (x² + y² + eps)`` and ``−g · y / (x² + y² + eps)``: near the origin every
    slope occurs, and there is no limit that could be kept. It is off by the part
    ``eps / r²`` at a distance r.

    Parameters
    ----------
    eps
        What is added to the square of the distance.

    Returns
    -------
    The text of the rule, for `arctan2`. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x, y: np.arctan2(y, x)
    >>> rule = wb.override("arctan2", wb.rules.safe_atan2(eps=0.01))
    >>> [float(g) for g in wb.grad(f, (0, 1), overrides=[rule])(0.0, 0.0)]
    [-0.0, 0.0]
    """
    return safe_text("safe_atan2", eps=eps)


def _beside_one(x: Any, g: Any, eps: float) -> Any:
    """``g / √(1 − x²)``, and 0 where ``1 − x² < eps``."""
    square = (1 - x) * (1 + x)
    real = np.dtype(getattr(square, "dtype", float)).kind != "c"
    far = (square if real else np.abs(square)) >= eps
    return np.where(far, g / np.sqrt(np.where(far, square, 1)), 0)


@named_rule("safe_arcsin", of="arcsin", label=lambda eps: "safe arcsin")
def _safe_arcsin(node: Node, g: Any, *, eps: float = 1e-12) -> Any:
    positive("safe_arcsin", eps=eps)
    return _beside_one(node.inputs[0], g, eps)


@named_rule("safe_arccos", of="arccos", label=lambda eps: "safe arccos")
def _safe_arccos(node: Node, g: Any, *, eps: float = 1e-12) -> Any:
    positive("safe_arccos", eps=eps)
    return -_beside_one(node.inputs[0], g, eps)


def safe_arcsin(eps: float = 1e-12) -> str:
    """The arc sine with a gradient of 0 at ±1: ``g / √(1 − x²)``.

    It is 0 where ``1 − x² < eps``, so beyond ±1 too, where rounding may have carried
    a cosine between unit vectors, and where the value is NaN.

    Parameters
    ----------
    eps
        How small a ``1 − x²`` counts as 0.

    Returns
    -------
    The text of the rule, for `arcsin`; real or complex. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.arcsin(x))
    >>> rule = wb.override("arcsin", wb.rules.safe_arcsin())
    >>> wb.grad(f, overrides=[rule])(np.array([1.0, 0.6]))
    array([0.  , 1.25])
    """
    return safe_text("safe_arcsin", eps=eps)


def safe_arccos(eps: float = 1e-12) -> str:
    """The arc cosine with a gradient of 0 at ±1: ``−g / √(1 − x²)``.

    As :func:`safe_arcsin`; for the angle between vectors that may be parallel.

    Parameters
    ----------
    eps
        How small a ``1 − x²`` counts as 0.

    Returns
    -------
    The text of the rule, for `arccos`; real or complex. Forward mode is its transpose.

    Raises
    ------
    OverrideError
        If ``eps`` is not positive; where it is attached to another op.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.arccos(x))
    >>> rule = wb.override("arccos", wb.rules.safe_arccos())
    >>> wb.grad(f, overrides=[rule])(np.array([-1.0, 0.6]))
    array([-0.  , -1.25])
    """
    return safe_text("safe_arccos", eps=eps)
