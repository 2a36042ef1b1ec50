"""Short texts for gradient rules, for the picture and the lists of overrides."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from workbench.errors import ExpressionError
from workbench.overrides.rule_parser import Bound, read
from workbench.overrides.targets import name_of

__all__ = ["label_of"]

_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"

#: Labels of expressions; those that the functions of `workbench.rules` write too.
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
    (rf"-\({_NUMBER}\*d\)", lambda factor: f"reverse ×{short(float(factor))}"),
    ("g", lambda: "straight-through"),
    (
        rf"where\(abs\(x\)<={_NUMBER},g,0\)",
        lambda limit: f"straight-through ±{short(float(limit))}",
    ),
    (r"where\(isfinite\(d\),d,0\)", lambda: "sanitise"),
    (
        rf"d\*\({_NUMBER}/maximum\({_NUMBER},norm\(d[^()]*(?:\([^()]*\))?[^()]*\)\)\)",
        lambda limit, _: f"norm ≤ {short(float(limit))}",
    ),
    (r"d/where\(norm\((.*)\)==0,1,norm\(\1\)\)", lambda _: "normalise"),
]


def label_of(rule: str | Callable[..., Any]) -> str:
    """A short text for a rule.

    >>> label_of("clip(d, -0.1, 0.1)"), label_of("0.5 * d"), label_of("g")
    ('clip ±0.1', 'scale ×0.5', 'straight-through')
    """
    if not isinstance(rule, str):
        return str(getattr(rule, "label", None) or name_of(rule))
    if (known := _known(rule)) is not None:
        return known
    try:
        named = read(rule)
    except ExpressionError:  # it is that of a forward rule, or of one unregistered
        named = None
    text = named.label if isinstance(named, Bound) else " ".join(rule.split())
    return text if len(text) <= 28 else f"{text[:27]}…"


@lru_cache(maxsize=256)
def _known(rule: str) -> str | None:
    packed = "".join(rule.split())
    for pattern, label in _LABELS:
        if (match := re.fullmatch(pattern, packed)) is not None:
            return label(*match.groups())
    return None


def short(number: float) -> str:
    """A number as people write it: no needless zeros, a real minus sign."""
    text = re.sub(r"e([+-])0*", r"e\1", repr(number).removesuffix(".0"))
    return text.replace("e+", "e").replace("-", "−")
