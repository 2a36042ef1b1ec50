"""One node looked at: its rule in both modes against its own values, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import jvp, vjp
from workbench.checks.differences import EXACT_STEP, Slope, curvature, judged, slope
from workbench.checks.local import Local, coordinates
from workbench.checks.report import Entry, Verdict
from workbench.core import types
from workbench.core.tensor import Tensor, apply
from workbench.ops import define

# Whether a rule that is right holds in single precision too, as far as that can be.
#
# A backward stable way to compute a rule in single precision gives what the exact rule
# gives for operands and outputs that are rounded differently, ``x (1 + d)`` with ``|d|
# <= eps`` (N. Higham, Accuracy and Stability of Numerical Algorithms, section 1.5).
# What such roundings change is measured with the rule itself, in double precision and
# with random ``d``; sixteen times that, and a thousand roundings of the largest entry
# for long sums, is what the run in single precision may be off by.

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)
#: How often operands are rounded at random.
DRAWS = 3


def narrow(local: Local, weights: Array, rng: np.random.Generator) -> str:
    """What is lost in single precision beyond rounding, in words; empty if nothing."""
    kind = np.dtype(types.spec_of(local.node.args[local.spots[0]]).dtype)
    known = kind in (np.float32, np.complex64)
    if local.alone or local.fold or local.hermitian or not known:
        return ""
    weights = weights.astype(np.float32).astype(float)
    exact = local.pulled(weights)
    spread = [np.zeros(1) for _ in exact]
    for _ in range(DRAWS):
        moved = list(local.values)
        for i in local.spots:
            signs = rng.choice([-1.0, 1.0], np.shape(moved[i]))
            moved[i] = moved[i] * (1 + EPS * signs)
        again = local.pulled(weights, values=moved)
        spread = [
            s if a is None or b is None else np.maximum(s, np.abs(a - b))
            for s, a, b in zip(spread, exact, again, strict=True)
        ]
    low = local.single(weights)
    for spot, a, b, s in zip(local.spots, exact, low, spread, strict=True):
        if a is None or b is None:
            continue
        most = 16 * s + 1e3 * EPS * np.max(np.abs(a), initial=0)
        off = np.abs(b - a)
        bad = ~(off <= most) & np.isfinite(most) & np.isfinite(a) & (np.abs(a) < 1e38)
        if np.any(bad):
            k = int(np.argmax(np.where(bad, off, -1)))
            place = ", ".join(str(int(n)) for n in np.unravel_index(k, np.shape(a)))
            where = f"[{place}]" if place else ""
            return (
                "right in double precision, but in single precision it gives"
                f" {np.ravel(b)[k]:.6g} at {local.label(spot)}{where} in place of"
                f" {np.ravel(a)[k]:.6g}."
            )
    return ""


# The second order of one node: its rules differentiated, along one direction.
#
# The truth is the op's ``compute`` again: differences of its complex step where it is
# analytic, second differences of its values elsewhere.

#: What the second derivative may be off by: from the complex step, from values.
SECOND_ORDER_RTOL = {"complex step": 1e-5, "differences": 2e-3}


def second_order(local: Local, look: Look, rng: np.random.Generator) -> str:
    """Compare both modes over the reverse and the forward rule with values.

    What is wrong is written into ``look.entries``; returns a note where there is no
    second derivative.
    """
    values = [local.values[i] for i in local.spots]
    if any(np.asarray(x).dtype.kind == "c" for x in values) or local.alone:
        return ""
    if local.node.op.pull is None or local.fold or not len(local.outputs):
        return ""
    if local.outputs.dtype.kind == "c" or not np.all(np.isfinite(local.outputs)):
        return ""
    ways = [
        local.shaped(look.random(local.count(i)) * local.reach(i), np.asarray(x))
        for i, x in zip(local.spots, values, strict=True)
    ]
    weights = look.random(len(local.outputs))
    expected, error, method = _truth(local, ways, weights, look)
    if not np.isfinite(expected) or not error <= 0.01 * abs(expected) + 1e-6:
        return ""
    try:
        with np.errstate(all="ignore"):
            found = _asked(local, values, ways, weights)
    except Exception as error_:
        # A rule need not have a derivative of its own, such as a kernel's.
        return f"Its rule has no derivative: {type(error_).__name__}: {error_}"
    # As for the rule itself: what rounding hides while all entries move by their size.
    y = local.outputs
    limit = SECOND_ORDER_RTOL[method] * abs(expected) + 10 * error
    limit += 1e4 * 2.3e-16 * float(np.sum(np.abs(weights * y))) + 1e-300
    for mode, got in found.items():
        if abs(got - expected) <= limit or not np.isfinite(expected):
            continue
        names = ", ".join(dict.fromkeys(local.label(i) for i in local.spots))
        sides = expected, expected
        look.entries.append(
            Entry(
                names, (), 2, mode, got, expected, error, limit, *sides, "wrong", method
            )
        )
    return ""


def _truth(
    local: Local, ways: list[Array], weights: Array, look: Look
) -> tuple[float, float, str]:
    """The second derivative of the weighted sum of the outputs, from values alone."""
    values = [np.asarray(local.values[i]) for i in local.spots]

    def at(t: complex) -> Array:
        filled = list(local.values)
        for i, x, way in zip(local.spots, values, ways, strict=True):
            filled[i] = x + t * way
        return local.joined(local.compute(filled))

    def along(t: complex) -> Array:
        try:
            return np.array([np.sum(weights * at(t))])
        except Exception:
            return np.array([np.nan])

    def first(t: complex) -> Array:
        return np.array([np.sum(weights * at(t + 1j * EXACT_STEP).imag)])

    if look.methods == {"complex step"}:
        try:
            found = slope(lambda t: first(t) / EXACT_STEP, analytic=False)
            if not found.kink[0]:
                return float(found.value[0]), float(found.error[0]), "complex step"
        except Exception:
            pass  # inputs that move together may leave the domain: values tell
    value, error = curvature(along)
    return float(np.real(value[0])), float(error[0]), "differences"


def _asked(
    local: Local, values: list[Any], ways: list[Array], weights: Array
) -> dict[str, float]:
    """The same from the rules: forward over reverse, and forward over forward."""
    node, inside = local.node, local.overrides

    def outputs(*moved: Any) -> tuple[Any, ...]:
        filled = list(local.values)
        for i, x in zip(local.spots, moved, strict=True):
            filled[i] = x
        whole = apply(node.op, tuple(filled), node.params)
        if not local.many:
            return (whole,)
        made = define.outputs(whole) if isinstance(whole, Tensor) else whole
        return tuple(made[k] for k in local.chosen)

    cotangents, at = [], 0
    for shape, size in zip(local.shapes, local.sizes, strict=True):
        cotangents.append(np.reshape(weights[at : at + size], shape))
        at += size

    def back(*moved: Any) -> Any:
        return vjp(outputs, *moved, overrides=inside)[1](tuple(cotangents))

    def ahead(*moved: Any) -> Any:
        return jvp(outputs, moved, tuple(ways), overrides=inside)[1]

    given = tuple(values)
    moved = jvp(back, given, tuple(ways), overrides=inside)[1]
    twice = jvp(ahead, given, tuple(ways), overrides=inside)[1]
    return {
        "rev": sum(float(np.sum(c * way)) for c, way in zip(moved, ways, strict=True)),
        "fwd": sum(
            float(np.sum(w * np.asarray(t)))
            for w, t in zip(cotangents, twice, strict=True)
        ),
    }


# Which of many entries is off, by halving.


def halved(count: int, off: Callable[[Array], float], rng: np.random.Generator) -> int:
    """Return one of ``count`` entries that is off, in some ``2 log2(count)`` questions.

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
        """Return an entry of the input by which forward mode is off at one output."""
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
        """Return an entry at which what reverse mode sends back is off."""
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
        """Return the output at which what is sent back to an entry is off."""
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
        """Return an entry whose two sides differ at one output."""
        reach = self.local.reach(spot)

        def part(chosen: Array) -> float:
            some = self.local.truth(spot, np.where(chosen, reach, 0)[None])
            gap = abs(some.right[0, output] - some.left[0, output])
            return float(gap) if gap == gap else np.inf

        return halved(len(reach), part, self.rng)

    def back(self, spot: int, weights: Array) -> Array:
        """Return what reverse mode sends back to one input, as coordinates."""
        x = self.local.values[spot]
        c = self.local.pulled(weights)[self.local.spots.index(spot)]
        return coordinates(np.zeros(np.shape(x)) if c is None else c, x)

    def column(self, spot: int, k: int) -> Slope:
        """Return the truth along one entry, as exact as can be."""
        way = np.zeros(self.local.count(spot))
        way[k] = self.local.reach(spot)[k]
        return self.local.truth(spot, way[None], 1e-11)


# The rule of one node, looked at

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
        """Return whether an entry found since is wrong."""
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
