"""One node looked at: its rule in both modes against its own values, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checks.compared import Entry, Verdict
from workbench.checks.differences import Slope
from workbench.checks.judging import judged
from workbench.checks.local import Local, coordinates
from workbench.checks.narrow import narrow
from workbench.checks.searching import Search

__all__ = ["Look"]

Array = np.ndarray[Any, Any]

RTOL, SINGLE = 1e-6, 2e-3
#: Roundings of an output below which no value shows a derivative.
ROUNDINGS = 64
#: Roundings of an output divided by the smallest step of the differences.
SHRINKS = 2.0**19
#: What a sum over all outputs may be off by before entries are looked for.
SCREEN = 1e-9
#: How many suspects of one kind are looked at.
SUSPECTS = 3


class Look(Search):
    """The rule of one node, looked at.

    Attributes
    ----------
    entries
        What was found: the worst entries, and those at kinks.
    notes
        What cannot be told of single entries.
    mode
        The mode that is looked at now.
    """

    def __init__(
        self, local: Local, rng: np.random.Generator, rtol: float | None, exact: int
    ) -> None:
        super().__init__(local, rng)
        usual = SINGLE if local.alone else RTOL
        self.rtol = usual if rtol is None else rtol
        self.exact = exact
        self.entries: list[Entry] = []
        self.notes: list[str] = []
        self.mode = "rev"
        #: Why there is no forward mode.
        self.aside = ""
        kind = local.outputs.dtype
        self.eps = float(np.finfo(kind).eps) if kind.kind in "fc" else 2.2e-16
        self.backs: dict[int, list[Any]] = {}
        #: How the truth was found.
        self.methods: set[str] = set()

    def first(self) -> None:
        """The rule itself, at all inputs, in both modes."""
        local = self.local
        if not len(local.outputs):
            return
        for spot in local.spots:
            if local.count(spot):
                self.at(spot)
        if not self.entries or all(e.verdict == "right" for e in self.entries):
            note = narrow(local, self.random(len(local.outputs)), self.rng)
            self.notes += [note] if note else []

    def at(self, spot: int) -> None:
        """The rule at one input."""
        local = self.local
        n, reach = local.count(spot), local.reach(spot)
        exact = n <= self.exact
        if exact:
            ways = np.diag(reach)
        else:
            size = self.rng.choice([-1.0, 1.0], (2, n)) * self.rng.uniform(0.5, 1, n)
            ways = size * reach
            if np.ptp(np.log(reach)) > 1:  # small entries count beside large ones too
                even = self.rng.choice([-1.0, 1.0], n) * float(np.min(reach))
                ways = np.concatenate([ways, even[None]])
        found = local.truth(spot, ways)
        self.methods.add(found.method)
        limit = self.limit(found)
        before = len(self.entries)
        self.mode = "rev"
        self.reverse(spot, ways, found, limit, exact)
        self.mode = "fwd"
        try:
            self.forward(spot, ways, found, limit, exact)
        except Exception as error:
            if not local.transposed:
                raise
            # There is no forward rule, and the reverse rule cannot be transposed.
            self.aside = f"No forward mode: {type(error).__name__}: {error}"
        self.mode = "rev"
        if np.any(found.kink) and not self.wrong(before):
            self.kinks(spot, found, exact)

    def wrong(self, start: int = 0) -> bool:
        """Whether an entry found since is wrong."""
        return any(e.verdict == "wrong" for e in self.entries[start:])

    def limit(self, found: Slope) -> Array:
        """What each derivative may be off by; infinite where nothing is known."""
        y = self.local.outputs
        hidden = ROUNDINGS * self.eps * np.abs(y) + 1e-300
        limit = self.rtol * np.abs(found.value) + 4 * found.error + hidden
        return np.where(np.isfinite(found.value) & np.isfinite(limit), limit, np.inf)

    def undefined(self, found: Slope, limit: Array) -> Array:
        """Where some derivative of the same output, or by the same entry, is none."""
        sides = np.isfinite(found.left) & np.isfinite(found.right)
        none = ~np.isfinite(limit) | (found.kink & ~sides)
        lost: Array = np.any(none, axis=0) | np.any(none, axis=1)[:, None]
        return lost

    # Forward mode

    def forward(
        self, spot: int, ways: Array, found: Slope, limit: Array, exact: bool
    ) -> None:
        """All outputs along each direction."""
        local = self.local
        got = np.array([local.pushed(spot, way) for way in ways])
        off = np.abs(got - found.value)
        bad = ~(off <= limit) & np.isfinite(limit) & np.isfinite(local.outputs)
        low, high = np.minimum(found.left, found.right), np.maximum(
            found.left, found.right
        )  # fmt: skip
        inside = (got >= low - limit) & (got <= high + limit)
        # Of infinity at one entry 0 times that is NaN at the others: one finding.
        bad &= np.isfinite(got) | ~self.undefined(found, limit)
        bad &= ~(found.kink & (found.jump | inside | ~np.isfinite(high - low)))
        if not np.any(bad):
            return
        ratio = np.where(bad, off / limit, -1)
        ratio = np.where(bad & ~np.isfinite(ratio), np.inf, ratio)
        for flat in np.argsort(-ratio, axis=None, kind="stable")[:SUSPECTS]:
            d, o = (int(k) for k in np.unravel_index(flat, bad.shape))
            if not bad[d, o]:
                break
            k = d if exact else self.entry_of(spot, ways[d], o, got[d], found.value[d])
            if self.confirm(spot, k, o, "fwd"):
                return
        if not exact and np.max(ratio) > 1e3:
            self.notes.append("forward mode is off along a direction, at no one entry.")

    # Reverse mode

    def reverse(
        self, spot: int, ways: Array, found: Slope, limit: Array, exact: bool
    ) -> None:
        """Cotangents sent back, weighed with each direction."""
        local = self.local
        y = local.outputs
        if exact and len(y) <= self.exact and y.dtype.kind != "c":
            self.entrywise(spot, ways, found, limit)
            return
        known = np.all(np.isfinite(limit) & ~found.kink, axis=0) & np.isfinite(y)
        size = np.max(np.where(known, np.abs(found.value), 0), axis=0)
        usual = np.where(np.abs(y) > 0, np.abs(y), 1)
        size = np.where(size > 1e-100, size, np.where(np.isfinite(usual), usual, 1))
        for _ in range(3 if exact else 2):
            weights = np.where(known, self.random(len(y)) / size, 0)
            if y.dtype.kind == "c":
                turned = np.exp(2j * np.pi * self.rng.uniform(size=len(y)))
                weights = weights * turned
            back = self.back(spot, weights)
            odd = ~np.isfinite(back)
            if np.any(odd) and not exact:
                for k in np.nonzero(odd)[0][:SUSPECTS].tolist():
                    o = self.output_of(spot, k, weights)
                    if self.confirm(spot, k, o, "rev"):
                        return
                # No derivative there: the other entries are compared without them.
                ways, back = np.where(odd, 0, ways), np.where(odd, 0, back)
                found = local.truth(spot, ways)
            terms = np.where(known, weights * np.where(known, found.value, 0), 0).real
            expected = np.sum(terms, axis=1)
            got = back * np.diag(ways) if exact else ways @ back
            error = np.where(known, np.abs(weights) * found.error, 0)
            most = SCREEN * np.sum(np.abs(terms), axis=1) + 8 * np.sqrt(
                np.sum(error**2, axis=1)
            )
            most += (
                ROUNDINGS
                * self.eps
                * np.sqrt(len(y))
                * np.max(np.abs(weights * np.where(known, y, 0)), initial=0)
            )
            if local.alone:
                most += 1e-4 * np.sum(np.abs(terms), axis=1)
            off = np.abs(got - expected)
            bad = ~(off <= most)
            if not np.any(bad):
                continue
            d = int(np.argmax(np.where(np.isnan(off), np.inf, off / most)))
            k = d if exact else self.source(spot, ways[d], weights, back)
            o = self.output_of(spot, k, weights)
            if self.confirm(spot, k, o, "rev"):
                return
            if np.max(off / most) > 1e6:
                self.notes.append(
                    "reverse mode is off along a direction, at no one entry."
                )

    def random(self, n: int) -> Array:
        """Weights of either sign, none near 0."""
        signs = self.rng.choice([-1.0, 1.0], n)
        made: Array = signs * self.rng.uniform(0.5, 1, n)
        return made

    def entrywise(self, spot: int, ways: Array, found: Slope, limit: Array) -> None:
        """Each output by each entry, of few."""
        local, x = self.local, self.local.values[spot]
        place = local.spots.index(spot)
        for o in range(len(local.outputs)):
            if o not in self.backs:
                one = np.zeros(len(local.outputs))
                one[o] = 1
                self.backs[o] = local.pulled(one)
            c = self.backs[o][place]
            got = coordinates(np.zeros(np.shape(x)) if c is None else c, x)
            got = got * np.diag(ways)
            off = np.abs(got - found.value[:, o])
            bad = ~(off <= limit[:, o]) & np.isfinite(limit[:, o])
            bad &= bool(np.isfinite(local.outputs[o]))
            bad &= np.isfinite(got) | ~self.undefined(found, limit)[:, o]
            if not np.any(bad):
                continue
            ratio = np.where(bad, off / limit[:, o], -1)
            ratio = np.where(np.isnan(ratio), np.inf, ratio)
            for k in np.argsort(-ratio, kind="stable")[:SUSPECTS]:
                if bad[k] and self.confirm(spot, int(k), o, "rev"):
                    return

    # Entries

    def confirm(self, spot: int, k: int, o: int, mode: str) -> bool:
        """Look at one entry again, with all there is; keep it unless it is right."""
        local = self.local
        found, reach = self.column(spot, k), float(local.reach(spot)[k])
        way = np.zeros(local.count(spot))
        way[k] = reach
        limit = self.limit(found)[0]
        if found.method == "complex step":
            limit = limit + 8 * local.wobble(spot, way[None], self.rng)[0]
            limit = limit + ROUNDINGS * local.noise
        else:
            limit = limit + SHRINKS * local.noise
        turns: tuple[complex, ...] = (1,)
        if mode == "fwd":
            row = local.pushed(spot, way)
            pairs: list[tuple[Any, Any, complex]] = [(row[o], found.value[0, o], 1)]
        else:
            pairs = []
            if local.outputs.dtype.kind == "c":
                turns = (1, -1j)
            for turn in turns:
                one = np.zeros(len(local.outputs), type(turn))
                one[o] = turn
                got = reach * self.back(spot, one)[k]
                pairs.append((got, (turn * found.value[0, o]).real, turn))
        wrong = False
        for got, expected, turn in pairs:
            left, right = found.left[0, o], found.right[0, o]
            if turn != 1 or mode == "rev":
                left, right = (turn * left).real, (turn * right).real
            said = judged(
                got, expected, float(limit[o]), left, right,
                bool(found.kink[0, o]), bool(found.jump[0, o]),
            )  # fmt: skip
            if said == "wrong" and not np.isfinite(got):
                everywhere = self.undefined(found, self.limit(found))
                said = "unsure" if np.any(everywhere) else said
            if said == "right":
                continue
            if said == "wrong" and wrong:
                continue
            wrong |= said == "wrong"
            self.keep(spot, k, o, mode, said, (got, expected, left, right), found,
                      float(limit[o]), reach)  # fmt: skip
        return wrong

    def keep(
        self, spot: int, k: int, o: int, mode: str, said: Verdict,
        numbers: tuple[Any, ...], found: Slope, limit: float, reach: float,
    ) -> None:  # fmt: skip
        """Write an entry down, in the user's units."""
        plain = []
        for x in numbers:
            x = complex(x)
            plain.append(x.real / reach if x.imag == 0 else x / reach)
        self.entries.append(
            Entry(
                self.local.label(spot),
                self.local.index(spot, k),
                1,
                mode,
                plain[0],
                plain[1],
                float(found.error[0, o]) / reach,
                limit / reach,
                plain[2],
                plain[3],
                said,
                found.method,
                self.local.place(o),
                bool(found.jump[0, o]),
            )
        )

    def kinks(self, spot: int, found: Slope, exact: bool) -> None:
        """Which entries are at a kink: the first few of them, by name."""
        local = self.local
        rows, outputs = np.nonzero(found.kink)
        for d, o in list(zip(rows.tolist(), outputs.tolist(), strict=True))[:SUSPECTS]:
            if exact:
                k = d
            elif local.count(spot) == len(local.outputs):
                k = o
            else:
                k = self.bent(spot, o)
            column = self.column(spot, k)
            if not column.kink[0, o]:
                continue
            way = np.zeros(local.count(spot))
            way[k] = local.reach(spot)[k]
            row = local.pushed(spot, way)
            limit = float(self.limit(column)[0, o])
            limit = limit if np.isfinite(limit) else 1e-6
            noise = float(local.noise[o])
            left, right = column.left[0, o], column.right[0, o]
            apart = max(abs(left), abs(right)) if column.jump[0, o] else right - left
            if abs(apart) <= SHRINKS * noise:
                continue  # rounding, which is not that of this output alone
            sides = column.left[0, o], column.right[0, o]
            said = judged(row[o], column.value[0, o], limit, *sides, True,
                          bool(column.jump[0, o]))  # fmt: skip
            self.keep(spot, k, o, "fwd", said, (row[o], column.value[0, o], *sides),
                      column, limit, float(local.reach(spot)[k]))  # fmt: skip
            if said != "kink":
                return
        gaps = np.abs(found.right - found.left)
        if np.any(found.kink & ~(gaps <= SHRINKS * local.noise)) and not self.entries:
            self.notes.append("left and right differ along a direction, at no entry.")
