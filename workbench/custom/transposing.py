"""Reverse mode of an op that has a rule for forward mode alone: `transposed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.core.tensor import Tensor, leaf
from workbench.core.traces import OpenTrace
from workbench.overrides.rules import has_derivative

__all__ = ["transposed"]

Rule = Callable[..., Any]
Params = dict[str, Any]


def transposed(push: Rule) -> Rule:
    """Reverse mode from forward mode: a rule is linear in the tangents.

    ``<pull(g), t> = <g, push(t)>`` for all ``t``; see `forward.transposed`.
    """

    def pull(
        mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        chosen = [
            i for i, x in enumerate(inputs) if mask >> i & 1 and has_derivative(x)
        ]
        with OpenTrace() as opened:
            seeds = [
                forward.reverse_leaf(x)
                if isinstance(x, Tensor) and x._value is None
                else leaf(np.zeros_like(reverse._bare(x)))
                for x in (inputs[i] for i in chosen)
            ]
            opened.leaves.update(s.serial for s in seeds)
            tangents: list[Any] = [None] * len(inputs)
            for i, seed in zip(chosen, seeds, strict=True):
                tangents[i] = seed
            moved = push(tuple(tangents), y, inputs, params)
        pairs = [
            (t, c)
            for t, c in (
                zip(moved, g, strict=True) if isinstance(moved, tuple) else [(moved, g)]
            )
            if t is not None and c is not None
        ]
        found = reverse.pull_back([t for t, _ in pairs], [c for _, c in pairs], seeds)
        passed: list[Any] = [None] * len(inputs)
        for i, c in zip(chosen, found, strict=True):
            passed[i] = c
        return passed

    return pull
