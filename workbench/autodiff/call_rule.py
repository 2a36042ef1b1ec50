"""How a user's rule is called: on arrays that it cannot change, as what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import types

__all__ = [
    "NOTHING",
    "ONTO_COPIES",
    "WITHOUT",
    "in_place",
    "missing_tangent",
    "read_only",
    "ruled",
    "takes_arrays",
]

#: What to do in place of a change in place.
ONTO_COPIES = "Work on a copy: x = x.copy()."
#: What to say of a rule that gave a bare None, as a function does whose
#: `return` was forgotten: no gradient at all would be a wrong one in silence.
NOTHING = "returned None: has it a `return` at its end?"
#: How a rule says that an input has no gradient.
WITHOUT = "For an input without gradient put None in the list: return [None] for one."


def missing_tangent(made: Any, y: Any) -> tuple[str, str] | None:
    """Return what to say of a forward rule that gave None, and what to write instead.

    A tangent of 0 is written down, for every output: what a rule left out would be a
    wrong derivative in silence. None of a rule that gave all, integers aside.
    """
    many = isinstance(y, tuple)
    parts = made if many else (made,)
    if made is None:
        parts = (None,) * len(y) if many else (None,)
    elif not many and isinstance(made, (tuple, list)) and len(made) == 1:
        parts = made
    for i, (t, part) in enumerate(zip(parts, y if many else (y,), strict=True)):
        if t is None and (types.weak(part) or types.differentiable(part.dtype)):
            each = " Give one tangent per output." if len(parts) > 1 else ""
            return (
                NOTHING
                if made is None
                else f"returned None for the tangent of output {i}",
                "For an output that does not move return"
                f" np.zeros_like(node.outputs[{i}]).{each}",
            )
    return None


def read_only(x: Any) -> Any:
    """An array that cannot be changed in place; anything else as it is."""
    if isinstance(x, np.ndarray):
        x = x.view() if type(x) is np.ndarray else types.plain(x).view()
        x.flags.writeable = False
    return x


def in_place(error: ValueError) -> str | None:
    """What code did that changed an array which it was lent; None: another error."""
    if "read-only" not in str(error):
        return None
    return f"it changes an array in place that others read too ({error})"


def takes_arrays(rule: Any) -> bool:
    """Whether a rule is an op, called on arrays, and no function of a node."""
    return isinstance(getattr(rule, "__op__", None), str)


def ruled(
    rule: Callable[..., Any], node: Any, arriving: Sequence[Any], of: Sequence[Any]
) -> Any:
    """What a rule gives: a function of the node, or an op of its inputs.

    An op gets arrays alone: zeros where nothing arrives for one in ``of``.
    """
    if not takes_arrays(rule):
        return rule(node, *arriving)
    return rule(*node.inputs, *map(_filled, arriving, of))


def _filled(c: Any, x: Any) -> Any:
    if c is not None:
        return c
    varies = types.weak(x) or types.differentiable(x.dtype)
    return np.zeros_like(x, dtype=None if varies else float)
