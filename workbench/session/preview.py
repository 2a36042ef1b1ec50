"""The cotangents of a node under another rule, before that rule is attached."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.budget import budget_for
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import override
from workbench.overrides.regions import Region
from workbench.overrides.resolution import Resolution
from workbench.session.applied_override import (
    AppliedOverride,
    complete_steps,
    resolve_target,
)
from workbench.session.history import NumberedOverride, find_entry
from workbench.session.nodes import Node
from workbench.session.stages import to_array
from workbench.session.state import State

#: What a node passes on to each of its inputs, by the input's id.
Passed = dict[int, Any]


@dataclass(frozen=True)
class Preview:
    """The cotangents that a node passes on, without an override and with the override.

    Attributes
    ----------
    node
        The id of the node.
    before, after
        The gradient that it passes on to each of its inputs, by the id of the input:
        without the override, and with it. The other overrides are in force.
    """

    node: int
    before: Passed
    after: Passed


def preview_override(
    state: State,
    at: Node,
    target: Any,
    vjp: Any,
    *,
    steps: int | slice | None = None,
    replacing: int | AppliedOverride | None = None,
) -> Preview:
    """Return a node's cotangents with and without an override; nothing is attached.

    See `Session.preview`.
    """
    nodes = state.objective.nodes
    state.require_backward()
    node = nodes.find(at)
    found = resolve_target(nodes, state.forward.program, target)
    steps = complete_steps(target, found, steps, nodes)
    made = NumberedOverride(0, override(found, vjp, steps=steps))
    entries, place = [*state.entries], len(state.entries)
    if replacing is not None:
        number = replacing if isinstance(replacing, int) else replacing.id
        place = entries.index(find_entry(state.entries, number))
        entries.pop(place)
    before = _sweep_to(state, node, entries)
    entries.insert(place, made)
    after = _sweep_to(state, node, entries)
    if not before and not after:
        label = nodes.labels[node]
        raise UsageError(
            f"no gradient reaches {label}: a rule there would change nothing."
        )
    return Preview(node, before, after)


class _Reached(Exception):
    """The node has passed on its cotangents: the rest of the sweep is not needed."""


def _sweep_to(state: State, node: int, entries: list[NumberedOverride]) -> Passed:
    """Return the cotangents that a node passes to its inputs under some overrides."""
    forward, objective = state.forward, state.objective
    nodes, passed = forward.graph.nodes, Passed()
    resolution: Resolution | None = None
    if entries:
        resolution = state.resolve([entry.override for entry in entries])
    tensor: Tensor = nodes[node]

    def keep(node: Tensor, _: Any, parts: list[Any]) -> None:
        ends = node.outputs if isinstance(node, Region) else (node,)
        if all(x.serial != tensor.serial for x in ends):
            return
        for x, c in zip(node.inputs, parts, strict=False):
            if c is None or not isinstance(x, Tensor) or x.serial not in forward.ids:
                continue
            i, c = forward.ids[x.serial], to_array(c)
            # An input that is read twice gets both.
            old = passed.get(i)
            passed[i] = c if old is None or isinstance(c, tuple) else old + c
        raise _Reached

    quiet = np.errstate(all="ignore")
    with quiet, budget_for([x._value for x in nodes]), suppress(_Reached):
        reverse.pull_back(
            [nodes[objective.output]],
            [state.cotangent],
            [nodes[i] for i in objective.wrt],
            rules=None if resolution is None else resolution.rules,
            visit=keep,
        )
    return passed
