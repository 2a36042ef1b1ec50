"""Gradients that somebody has, held against differences of a function that runs.

Entries one by one, as far as the work allows; and all that is left along a random
direction: of each argument, or of all together where there are many. Where that is off,
halving the set of arguments finds one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.checks.differences import slope
from workbench.checks.judging import NOISES
from workbench.checks.report import Comparison, Identity
from workbench.checks.running import Check
from workbench.checks.searching import halved

__all__ = ["Given"]

Array = np.ndarray[Any, Any]

#: Directions of many arguments together; along one an error may be near 0 by chance.
DIRECTIONS = 2


class Given:
    """Gradients by several arguments, and what they are held against.

    Attributes
    ----------
    check
        Chooses, counts, and keeps what was found.
    known
        The function carries complex numbers and has no kink.
    noise
        What rounding does to the gradient by each argument, at most.
    most
        How many entries all arguments have together; None: each has its own share.
    """

    def __init__(
        self,
        check: Check,
        function: Callable[..., Any],
        arrays: Sequence[Array],
        gradients: Sequence[Any],
        *,
        most: int | None = None,
        known: bool = False,
        noise: Sequence[float] | None = None,
    ) -> None:
        self.noise = [0.0] * len(arrays) if noise is None else noise
        self.check, self.function, self.known = check, function, known
        self.arrays = list(arrays)
        self.gradients = [np.asarray(g) for g in gradients]
        self.wide = [
            x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x
            for x in self.arrays
        ]
        self.picked = [check.picked(x) for x in self.arrays]
        full = most is None or sum(map(len, self.picked)) <= most
        if not full:
            self.share(most or 0)
        rest = [i for i, x in enumerate(self.arrays) if len(self.picked[i]) < x.size]
        #: The arguments of each direction.
        self.groups = [[i] for i in rest] if full else [rest] * DIRECTIONS
        check.telling.total += len(self.groups) + sum(map(len, self.picked))

    def share(self, most: int) -> None:
        """Leave ``most`` entries in all: one of each argument, then another."""
        rng = self.check.rng
        turns = [rng.permutation(k) for k in self.picked]
        order = rng.permutation(len(turns))
        deepest = max(map(len, turns))
        dealt = [(i, t) for t in range(deepest) for i in order if t < len(turns[i])]
        counts = np.bincount([i for i, _ in dealt[:most]], minlength=len(turns))
        self.picked = [np.sort(k[:n]) for k, n in zip(turns, counts, strict=True)]

    def run(self) -> None:
        """Compare."""
        off: list[int] = []
        for group in self.groups:
            self.check.telling.step()
            if group != off and not self.together(group):
                off = group
        for i in range(len(self.arrays)):
            self.entries(i)

    def flat(self, *new: Array) -> Array:
        """The function's one number, as an array of one entry."""
        return np.reshape(np.asarray(self.function(*new)), (-1,))

    def entries(self, which: int) -> None:
        """Some entries of one argument, each by itself."""
        check, x = self.check, self.arrays[which]
        row = Comparison(check.names[which], x.shape, 1, "given")
        check.report.comparisons.append(row)
        for k in self.picked[which]:
            check.telling.step()
            found = check.measure(self.flat, self.arrays, which, k, self.known)
            truth = check.truth(
                self.flat, self.arrays, which, k, found, np.ones(1), True
            )
            got = self.gradients[which].flat[k]
            noise = self.noise[which]
            row.entries.append(check.entry(row, k, got, truth, noise))

    def together(self, group: list[int]) -> bool:
        """Whether all entries of some arguments agree along a random direction."""
        check = self.check
        ways: dict[int, Any] = {}
        for i in group:
            x = self.arrays[i]
            ways[i] = np.asarray(check.random_like(x)) * np.where(x != 0, np.abs(x), 1)
        said = self.along(ways)
        if said is not None and not said.holds and len(group) > 1:

            def off(chosen: Array) -> float:
                check.telling.total += 1
                check.telling.step()
                part = self.along(
                    {group[k]: ways[group[k]] for k in np.nonzero(chosen)[0]}
                )
                return 0.0 if part is None else part.error / part.tolerance

            i = group[halved(len(group), off, check.rng)]
            alone = self.along({i: ways[i]})
            said = said if alone is None or alone.holds else alone
        if said is None:
            return True
        check.report.identities.append(said)
        return said.holds

    def along(self, ways: dict[int, Any]) -> Identity | None:
        """One direction: what the gradients say of it, and what the function does."""

        def line(t: complex) -> Array:
            moved = [
                x + t * ways[i] if i in ways else x for i, x in enumerate(self.wide)
            ]
            return self.flat(*moved)

        real = all(self.arrays[i].dtype.kind != "c" for i in ways)
        found = slope(line, analytic=real, known=self.known, target=1e-9)
        if found.kink[0] or not np.isfinite(found.value[0] + found.error[0]):
            return None
        expected = float(np.real(found.value[0]))
        got = most = 0.0
        for i, way in ways.items():
            gradient = self.gradients[i]
            terms = (gradient * way).real
            got += float(np.sum(terms))
            kind: Any = gradient.dtype if gradient.dtype.kind in "fc" else float
            most = max(most, self.check.tolerance(expected, 0.0, kind))
            most += NOISES * self.noise[i] * float(np.sum(np.abs(way)))
            most += 4e3 * float(np.finfo(kind).eps * np.sum(np.abs(terms)))
        names = [self.check.names[i] for i in ways]
        what = names[0] if len(names) == 1 else f"{names[0]}, ... {names[-1]}"
        name = f"the gradient by {what}, all entries along a direction"
        slack = 4 * float(found.error[0])
        return Identity(name, got, expected, most + slack, tuple(names))
