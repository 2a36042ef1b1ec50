"""Which of many entries is off, by halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.checks.differences import Slope
from workbench.checks.local import Local, coordinates

__all__ = ["Search", "halved"]

Array = np.ndarray[Any, Any]


def halved(count: int, off: Callable[[Array], float], rng: np.random.Generator) -> int:
    """One of ``count`` entries that is off, in some ``2 log2(count)`` questions.

    ``off(chosen)`` says by how much those together are off for which ``chosen`` is
    true. The half that is off by more is halved again; halves are drawn at random, so
    that errors that cancel in one pairing do not in all.

    Examples
    --------
    >>> wrong = np.arange(100) == 42
    >>> halved(100, lambda chosen: float(np.sum(wrong & chosen)),
    ...        np.random.default_rng(0))
    42
    """
    left = rng.permutation(count)
    while len(left) > 1:
        first, second = np.array_split(left, 2)
        sizes = []
        for some in (first, second):
            chosen = np.zeros(count, bool)
            chosen[some] = True
            sizes.append(off(chosen))
        left = first if sizes[0] >= sizes[1] else second
    return int(left[0])


class Search:
    """What of one node is off, once a direction is: an entry and an output."""

    def __init__(self, local: Local, rng: np.random.Generator) -> None:
        self.local = local
        self.rng = rng

    def entry_of(
        self, spot: int, way: Array, output: int, got: Array, true: Array
    ) -> int:
        """An entry of the input by which forward mode is off at one output."""
        local = self.local
        if len(way) == len(local.outputs):
            alone = np.zeros(len(way))
            alone[output] = way[output]
            off = self.gap(spot, alone, output)
            if not off < 0.5 * abs(got[output] - true[output]):
                return output

        def part(chosen: Array) -> float:
            return self.gap(spot, np.where(chosen, way, 0), output)

        return halved(len(way), part, self.rng)

    def gap(self, spot: int, way: Array, output: int) -> float:
        """By how much forward mode is off along a direction at one output."""
        moved = self.local.pushed(spot, way)
        true = self.local.truth(spot, way[None]).value[0]
        off = abs(moved[output] - true[output])
        return float(off) if off == off else np.inf

    def source(self, spot: int, way: Array, weights: Array, back: Array) -> int:
        """An entry at which what reverse mode sends back is off."""
        if not np.all(np.isfinite(back)):
            return int(np.argmax(~np.isfinite(back)))

        def part(chosen: Array) -> float:
            some = np.where(chosen, way, 0)
            true = self.local.truth(spot, some[None]).value[0]
            true = np.where(weights != 0, weights * true, 0).real
            off = abs(float(np.sum(true)) - float(some @ back))
            return off if off == off else np.inf

        return halved(len(way), part, self.rng)

    def output_of(self, spot: int, k: int, weights: Array) -> int:
        """The output at which what is sent back to an entry is off."""
        reach = self.local.reach(spot)[k]
        true = self.column(spot, k).value[0]

        def part(chosen: Array) -> float:
            some = np.where(chosen, weights, 0)
            terms = np.where(some != 0, some * true, 0).real
            off = abs(float(np.sum(terms)) - reach * self.back(spot, some)[k])
            return float(off) if off == off else np.inf

        if len(weights) == self.local.count(spot):
            alone = np.arange(len(weights)) == k
            if part(alone) >= 0.5 * part(np.ones(len(weights), bool)):
                return k
        return halved(len(weights), part, self.rng)

    def bent(self, spot: int, output: int) -> int:
        """An entry whose two sides differ at one output."""
        reach = self.local.reach(spot)

        def part(chosen: Array) -> float:
            some = self.local.truth(spot, np.where(chosen, reach, 0)[None])
            gap = abs(some.right[0, output] - some.left[0, output])
            return float(gap) if gap == gap else np.inf

        return halved(len(reach), part, self.rng)

    def back(self, spot: int, weights: Array) -> Array:
        """What reverse mode sends back to one input, as coordinates."""
        x = self.local.values[spot]
        c = self.local.pulled(weights)[self.local.spots.index(spot)]
        return coordinates(np.zeros(np.shape(x)) if c is None else c, x)

    def column(self, spot: int, k: int) -> Slope:
        """The truth along one entry, as exact as can be."""
        way = np.zeros(self.local.count(spot))
        way[k] = self.local.reach(spot)[k]
        return self.local.truth(spot, way[None], 1e-11)
