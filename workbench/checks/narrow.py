"""Whether a rule that is right holds in single precision too, as far as that can be.

A backward stable way to compute a rule in single precision gives what the exact rule
gives for operands and outputs that are rounded differently, ``x (1 + d)`` with
``|d| <= eps`` (N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.5).
What such roundings change is measured with the rule itself, in double precision and
with random ``d``; sixteen times that, and a thousand roundings of the largest entry for
long sums, is what the run in single precision may be off by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checks.local import Local
from workbench.core import types

__all__ = ["narrow"]

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)
#: How often operands are rounded at random.
DRAWS = 3


def narrow(local: Local, weights: Array, rng: np.random.Generator) -> str:
    """What is lost in single precision beyond rounding, in words; empty if nothing."""
    kind = np.dtype(types.spec_of(local.node.args[local.spots[0]]).dtype)
    known = kind in (np.float32, np.complex64)
    if local.alone or local.fold or local.hermitian or not known:
        return ""
    weights = weights.astype(np.float32).astype(float)
    exact = local.pulled(weights)
    spread = [np.zeros(1) for _ in exact]
    for _ in range(DRAWS):
        moved = list(local.values)
        for i in local.spots:
            signs = rng.choice([-1.0, 1.0], np.shape(moved[i]))
            moved[i] = moved[i] * (1 + EPS * signs)
        again = local.pulled(weights, values=moved)
        spread = [
            s if a is None or b is None else np.maximum(s, np.abs(a - b))
            for s, a, b in zip(spread, exact, again, strict=True)
        ]
    low = local.single(weights)
    for spot, a, b, s in zip(local.spots, exact, low, spread, strict=True):
        if a is None or b is None:
            continue
        most = 16 * s + 1e3 * EPS * np.max(np.abs(a), initial=0)
        off = np.abs(b - a)
        bad = ~(off <= most) & np.isfinite(most) & np.isfinite(a) & (np.abs(a) < 1e38)
        if np.any(bad):
            k = int(np.argmax(np.where(bad, off, -1)))
            place = ", ".join(str(int(n)) for n in np.unravel_index(k, np.shape(a)))
            where = f"[{place}]" if place else ""
            return (
                "right in double precision, but in single precision it gives"
                f" {np.ravel(b)[k]:.6g} at {local.label(spot)}{where} in place of"
                f" {np.ravel(a)[k]:.6g}."
            )
    return ""
