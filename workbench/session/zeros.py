"""Why all entries of a derivative are zero, in words.

One backward sweep tells it: from numbers that are nowhere zero at the output, it is
followed where they end. A node that something arrives at and that passes on nothing but
zeros is to blame: its override, its values, or an op that has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import Rules, ends_of
from workbench.checks.statistics import fetch, is_on_device
from workbench.core import blame, types, walk
from workbench.core.tensor import Tensor
from workbench.session.stages import to_array

#: So many nodes are named.
MOST_NAMED = 3


def explain_zeros(
    outputs: Sequence[Any],
    sources: Sequence[Tensor],
    rules: Rules,
    name_of: Callable[[Tensor], str],
    constant: Sequence[Tensor] = (),
) -> str:
    """Return why the derivative of outputs by sources is zero everywhere.

    Parameters
    ----------
    outputs, sources
        What is differentiated, and by what.
    rules
        The rules of overrides.
    name_of
        The label of a node.
    constant
        Sources that are held while the others vary.
    """
    given = [y for y in outputs if isinstance(y, Tensor) and y._value is not None]
    serials = {x.serial for x in sources}
    needed = walk.order_nodes(given, min(serials, default=0), serials)
    reached = walk.find_dependents(needed, [x for x in sources if x in {*needed}])
    given = [y for y in given if y.serial in reached]
    if not given:
        return ""
    blocked: list[Tensor] = []
    cancelled: list[Tensor] = []
    left = False
    visited: list[tuple[Tensor, int]] = []
    signs: list[list[Any]] = []  # of what arrives at a node, and of what it passes on

    def visit(node: Tensor, cotangent: Any, passed: list[Any]) -> None:
        signs.append(_list_signs(cotangent))
        for x, c in zip(node.inputs, passed, strict=False):
            if isinstance(x, Tensor) and x.serial in reached:
                signs.append(_list_signs(c))
        visited.append((node, len(signs)))

    seeds = [_make_seed(y) for y in given]
    with np.errstate(all="ignore"):
        reverse.pull_back(
            given, seeds, sources, rules=rules, visit=visit,
            constant=[x.serial for x in constant],
        )  # fmt: skip
    alive, start = _read_signs(signs), 0
    for node, end in visited:
        arrived, goes_on = alive[start], any(alive[start + 1 : end])
        start = end
        left |= goes_on
        if arrived and not goes_on:
            blocked.append(node)
        elif not arrived and left and not blocked:
            cancelled.append(node)
    if blocked:
        texts = [_describe_block(x, rules, name_of) for x in blocked]
        return _join(dict.fromkeys(texts))
    if left:
        at = f" at {name_of(cancelled[0])}" if cancelled else ""
        return f"what flows back along several paths cancels{at}"
    flat = [x for x in needed if x.serial in reached and _has_no_derivative(x)]
    texts = [_describe_flat(name_of(x), x.op.name) for x in flat]
    return _join(dict.fromkeys(texts)) or "no path leads through ops with a derivative"


def _make_seed(y: Tensor) -> Any:
    """Return a cotangent that is nowhere zero, and in no simple proportion."""
    entries = np.random.default_rng(0).uniform(0.5, 1.5, y.shape)
    like = y._value if is_on_device(y._value) else None
    return np.ones_like(y._value) * np.asarray(entries, y.dtype, like=like)


def _list_signs(g: Any) -> list[Any]:
    """Return whether each part of a cotangent has an entry that is not zero."""
    found = to_array(g)
    parts = found if isinstance(found, tuple) else (found,)
    return [np.any(x != 0) for x in parts if x is not None]


def _read_signs(signs: Sequence[list[Any]]) -> list[bool]:
    """Return whether any sign of each list is set; those on a device come together."""
    flat = [sign for one in signs for sign in one]
    there = [i for i, sign in enumerate(flat) if is_on_device(sign)]
    fetched = fetch([flat[i].astype(np.float64) for i in there])
    for i, found in zip(there, fetched, strict=True):
        flat[i] = found
    ends = [*accumulate(map(len, signs))]
    return [
        any(map(bool, flat[end - len(one) : end]))
        for one, end in zip(signs, ends, strict=True)
    ]


def _has_no_derivative(x: Tensor) -> bool:
    return bool(x.inputs) and (x.op.pull is None or not _is_float(x))


def _is_float(x: Tensor) -> bool:
    return isinstance(x._value, tuple) or types.is_differentiable(x.dtype)


def _describe_flat(label: str, op: str) -> str:
    """Return that a node has no derivative."""
    kind = "" if label.startswith(op) else f" ({op})"
    return f"{label}{kind} has no derivative"


def _describe_block(
    node: Tensor, rules: Rules, name_of: Callable[[Tensor], str]
) -> str:
    """Return why a node passes on nothing that arrives."""
    rule = None if rules is None else rules.get(node.serial)
    if rule is not None and rule.pull is not None:
        return f"stopped by {rule.label} at {name_of(ends_of(node)[-1])}"
    of = ""
    while node.origin is not None:  # of a second derivative: a node of the gradient
        origin = node.origin
        of, node = "the gradient of ", origin.forward
        if origin.overridden:
            return f"what {origin.rule} passes on at {name_of(node)} is constant"
    label, place = of + name_of(node), blame.quote_site(node.site)
    text = " and ".join((node.op.rule or "its own").split("   "))
    if node.op.traits.saturates:
        return f"{label} is saturated: its rule {text} is 0 at these values{place}"
    if node.op.traits.selects:
        return f"{label} selects other entries or a constant{place}"
    return f"{label} passes nothing on: its rule {text} is 0 at these values{place}"


def _join(texts: Sequence[str] | dict[str, None]) -> str:
    found = list(texts)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more
