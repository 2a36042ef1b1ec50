"""Which nodes a walk visits, and which of their rules are recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.autodiff.supernode import StandIn, standing
from workbench.core import traces, walk
from workbench.core.tensor import Tensor
from workbench.core.trace import live

__all__ = ["outer_steps", "plan"]


def plan(
    outputs: Sequence[Any],
    wrt: Sequence[Tensor],
    rules: Mapping[int, Any] | None = None,
) -> list[tuple[Tensor, int]]:
    """The nodes between ``wrt`` and ``outputs``, ascending, and the inputs that vary.

    Bit i of the mask says that input i depends on a ``wrt`` Tensor. What passes only
    through ops without derivative (comparisons, `sign`) does not vary, unless one of
    ``rules`` gives such a node a derivative. Where a rule is that of a part of the
    program, its stand-in is walked over in the place of that part's last node.
    """
    varying = {x.serial for x in wrt}
    first = min(varying, default=0)
    seen = {x.serial: x for x in outputs if isinstance(x, Tensor) and x.serial >= first}
    instead = standing(rules) if rules else None
    if instead:
        seen = _around(seen, instead, first)
    stack = list(seen.values()) if not instead else []
    pop, push = stack.pop, stack.append
    while stack:
        for x in pop().inputs:
            # The exact class first: this loop runs for every edge of a program.
            if type(x) is Tensor or isinstance(x, Tensor):
                serial = x.serial
                if serial >= first and serial not in seen:
                    seen[serial] = x
                    push(x)
    steps = []
    for serial in sorted(seen):
        node = seen[serial]
        mask, bit = 0, 1
        for x in node.inputs:
            if (type(x) is Tensor or isinstance(x, Tensor)) and x.serial in varying:
                mask |= bit
            bit += bit
        if mask:
            if node.op.pull is None and (rules is None or serial not in rules):
                continue
            varying.add(serial)
            steps.append((node, mask))
    return steps


def _around(
    seen: dict[int, Tensor], instead: Mapping[int, StandIn], first: int
) -> dict[int, Tensor]:
    """All that is between, as `plan` finds it, with stand-ins where there are some."""
    seen = {serial: instead.get(serial, x) for serial, x in seen.items()}
    stack = list(seen.values())
    while stack:
        for x in stack.pop().inputs:
            if isinstance(x, Tensor) and x.serial >= first and x.serial not in seen:
                seen[x.serial] = found = instead.get(x.serial, x)
                stack.append(found)
    return seen


def outer_steps(
    outputs: Sequence[Any], steps: Sequence[tuple[Tensor, int]], wrt: Sequence[Tensor]
) -> set[int]:
    """The serials of those nodes whose rules must be recorded.

    These depend on a Tensor of an outer open trace, or have no value.
    """
    first = min((x.serial for x in wrt), default=0)
    # Who depends on a Tensor without value has none, so the last ones tell.
    abstract = any(node._value is None for node in outputs if isinstance(node, Tensor))
    if not abstract and not traces.any_open():
        return set()
    known: dict[int, bool] = {}

    def is_live(x: Tensor) -> bool:
        if x.serial not in known:
            known[x.serial] = live(x)
        return known[x.serial]

    found = {
        x.serial for x in wrt if any(is_live(i) for i in x.inputs) or x._value is None
    }
    roots = [node for node, _ in steps]
    for node in walk.order(roots, first):
        for x in node.inputs:
            if isinstance(x, Tensor) and (
                x.serial in found or (x.serial < first and is_live(x))
            ):
                found.add(node.serial)
                break
    return found
