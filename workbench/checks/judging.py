"""What a measured derivative says of one that is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checks.compared import Verdict
from workbench.checks.differences import Slope

__all__ = ["Tolerance", "Truth", "judged", "verdict"]

Array = np.ndarray[Any, Any]

#: What a derivative may be off by, relatively, in double and in single precision.
RTOL = {"double": 1e-6, "single": 2e-3}
ATOL = {"double": 1e-8, "single": 1e-4}
#: Roundings that are measured, and how many a derivative may be off by.
NOISES = 64


class Tolerance:
    """What an entry may be off by."""

    def __init__(self, rtol: float | None, atol: float | None) -> None:
        self.rtol, self.atol = rtol, atol

    def __call__(
        self,
        expected: complex,
        uncertainty: float,
        dtype: Any,
        noise: float = 0.0,
    ) -> float:
        """The absolute error that an entry of this size and dtype may have.

        ``noise`` is what rounding does to it, measured.
        """
        kind = "single" if np.finfo(dtype).eps > 1e-10 else "double"
        rtol = RTOL[kind] if self.rtol is None else self.rtol
        atol = ATOL[kind] + NOISES * noise if self.atol is None else self.atol
        size = abs(expected) if np.isfinite(expected) else 0.0
        slack = 4 * uncertainty if np.isfinite(uncertainty) else 0.0
        return atol + rtol * size + slack


class Truth:
    """What differences say of one entry, weighted by the output's cotangent."""

    __slots__ = ("jump", "kink", "left", "method", "numeric", "right", "uncertainty")

    def __init__(self, found: Slope, weights: Array, real: bool) -> None:
        moves = weights != 0

        def total(x: Array) -> complex:
            with np.errstate(all="ignore"):
                y = complex(np.sum(np.where(moves, weights * x, 0)))
            return y.real if real else y

        self.numeric = total(found.value)
        self.left, self.right = total(found.left), total(found.right)
        self.uncertainty = float(np.sum(np.abs(weights[moves]) * found.error[moves]))
        self.kink = bool(np.any(found.kink & moves))
        self.jump = bool(np.any(found.jump & moves))
        self.method = found.method


def verdict(got: complex, truth: Truth, tolerance: float) -> Verdict:
    """What to think of an entry."""
    if abs(got - truth.numeric) <= tolerance:
        return "kink" if truth.kink else "right"
    if truth.jump:
        return "kink"
    if truth.kink:
        sides = (truth.left, truth.right)
        if not np.all(np.isfinite(sides)):
            return "unsure"
        low, high = sorted(complex(s).real for s in sides)
        inside = low - tolerance <= complex(got).real <= high + tolerance
        return "kink" if inside else "wrong"
    if not np.isfinite(truth.numeric) or not np.isfinite(truth.uncertainty):
        return "unsure"
    return "wrong"


def judged(
    got: Any, expected: Any, limit: float, left: Any, right: Any, kink: bool, jump: bool
) -> Verdict:
    """What to think of one entry."""
    if kink:
        if jump:
            return "kink"
        sides = complex(left), complex(right)
        if not np.all(np.isfinite(sides)):
            return "unsure"
        low, high = sorted(s.real for s in sides)
        fits = low - limit <= complex(got).real <= high + limit
        return "kink" if fits else "wrong"
    if not np.isfinite(expected) or not np.isfinite(limit):
        return "unsure"
    return "right" if abs(got - expected) <= limit else "wrong"
