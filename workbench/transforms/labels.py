"""Short texts for gradient rules, for the picture and the lists of overrides."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from workbench.transforms.targets import name_of

__all__ = ["label_of"]

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_LABELS: list[tuple[str, Callable[..., str]]] = [
    ("true|d", lambda: "true"),
    (
        rf"clip\(d,{_NUMBER},{_NUMBER}\)",
        lambda low, high: (
            f"clip ±{short(abs(float(high)))}"
            if float(low) == -float(high)
            else f"clip {short(float(low))} … {short(float(high))}"
        ),
    ),
    (rf"{_NUMBER}\*d", lambda factor: f"scale ×{short(float(factor))}"),
    (r"zeros_like\(d\)", lambda: "stop"),
    ("-d", lambda: "reverse"),
    ("g", lambda: "straight-through"),
]


def label_of(rule: str | Callable[..., Any]) -> str:
    """A short text for a rule.

    >>> label_of("clip(d, -0.1, 0.1)"), label_of("0.5 * d"), label_of("g")
    ('clip ±0.1', 'scale ×0.5', 'straight-through')
    """
    if not isinstance(rule, str):
        return name_of(rule)
    packed = "".join(rule.split())
    for pattern, label in _LABELS:
        if (match := re.fullmatch(pattern, packed)) is not None:
            return label(*match.groups())
    text = " ".join(rule.split())
    return text if len(text) <= 28 else f"{text[:27]}…"


def short(number: float) -> str:
    """A number as people write it: no needless zeros, a real minus sign."""
    text = re.sub(r"e([+-])0*", r"e\1", repr(number).removesuffix(".0"))
    return text.replace("e+", "e").replace("-", "−")
