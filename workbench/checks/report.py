"""What a gradient check found: entry by entry, and in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from workbench.errors import GradientError
from workbench.graph.tensor import Tensor

__all__ = ["Comparison", "Entry", "Identity", "NodeCheck", "Report"]

Array = np.ndarray[Any, Any]
Verdict = Literal["right", "wrong", "kink", "unsure"]
#: What is said of a node: that of its worst entry, or that an override runs there.
Status = Literal["right", "wrong", "kink", "unsure", "overridden"]
MODES = {
    "rev": "reverse mode",
    "fwd": "forward mode",
    "given": "the gradient given",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one gradient: what came out, and what differences say.

    ``left`` and ``right`` are one-sided; at a kink they disagree, and any value
    between them is a subgradient.
    """

    argument: str
    index: tuple[int, ...]
    order: int
    mode: str
    analytic: complex
    numeric: complex
    uncertainty: float
    tolerance: float
    left: complex
    right: complex
    verdict: Verdict
    method: str

    @property
    def error(self) -> float:
        """The absolute error."""
        return float(abs(self.analytic - self.numeric))

    @property
    def relative(self) -> float:
        """The error relative to the larger of the two."""
        size = max(abs(self.analytic), abs(self.numeric))
        return self.error / size if size else 0.0

    @property
    def place(self) -> str:
        """How one writes the entry: ``W[3, 1]``."""
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.argument}{where}"

    @property
    def badness(self) -> tuple[int, float]:
        """What sorts entries: the wrong ones last, then by error in tolerances."""
        ratio = self.error / self.tolerance
        rank = {"unsure": 0, "kink": 1, "right": 2, "wrong": 3}[self.verdict]
        return rank, ratio if ratio == ratio else np.inf


@dataclass(frozen=True, slots=True)
class Comparison:
    """One argument in one mode at one order: the entries that were compared.

    ``checked`` holds the flat positions of the entries among all ``size`` of the
    argument; the arrays below are in that order.
    """

    argument: str
    shape: tuple[int, ...]
    order: int
    mode: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many entries the argument has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def checked(self) -> Array:
        """Flat positions of the entries that were compared."""
        if not self.shape:
            return np.zeros(len(self.entries), np.int64)
        where = [np.ravel_multi_index(e.index, self.shape) for e in self.entries]
        return np.array(where, np.int64)

    @property
    def analytic(self) -> Array:
        """What came out."""
        return np.array([e.analytic for e in self.entries])

    @property
    def numeric(self) -> Array:
        """What differences of the values say."""
        return np.array([e.numeric for e in self.entries])

    @property
    def absolute(self) -> Array:
        """Absolute errors."""
        return np.array([e.error for e in self.entries])

    @property
    def relative(self) -> Array:
        """Relative errors."""
        return np.array([e.relative for e in self.entries])

    @property
    def tolerance(self) -> Array:
        """What an error may be."""
        return np.array([e.tolerance for e in self.entries])

    @property
    def kinks(self) -> Array:
        """Where one-sided differences disagree: there is no derivative."""
        return np.array([e.verdict == "kink" for e in self.entries], bool)

    @property
    def wrong(self) -> list[Entry]:
        """The entries that are off by more than the tolerance."""
        return [e for e in self.entries if e.verdict == "wrong"]

    @property
    def worst(self) -> Entry | None:
        """The entry with the largest error in tolerances; a wrong one if there is."""
        return max(self.entries, key=lambda e: e.badness, default=None)


@dataclass(frozen=True, slots=True)
class Identity:
    """One equation between derivatives that holds whatever the function is."""

    name: str
    left: float
    right: float
    tolerance: float

    @property
    def error(self) -> float:
        """By how much the two sides differ."""
        return abs(self.left - self.right)

    @property
    def holds(self) -> bool:
        """Whether they differ by no more than the tolerance."""
        return bool(self.error <= self.tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class NodeCheck:
    """One node whose rule was checked at the values that it had in the run.

    Attributes
    ----------
    node
        The node.
    status
        What to think of its rule.
    mode
        The mode of its worst entry, ``"rev"`` or ``"fwd"``.
    entry
        The worst entry: of which input, expected and got. None where there is none,
        as for an op that has no float input.
    text
        One line in words: why it is wrong, which kink it is, what the override
        changes.
    """

    node: Tensor
    status: Status
    mode: str
    entry: Entry | None
    text: str

    @property
    def ratio(self) -> float:
        """The error of its worst entry in tolerances; more than 1 is too much."""
        entry = self.entry
        if entry is None:
            return 0.0
        ratio = entry.error / entry.tolerance
        return ratio if ratio == ratio else np.inf


@dataclass(slots=True)
class Report:
    """All that a gradient check compared.

    Attributes
    ----------
    function
        The name of what was checked, and its line where there is one.
    comparisons
        One per argument, mode and order.
    identities
        The adjoint test, second differences along a line.
    seed
        Chose the entries and directions; the same seed repeats the check.
    stopped
        Whether it was stopped before it was done.
    overridden
        The overrides that ran, which change a gradient on purpose.
    blamed
        The op and line whose rule made a gradient that is not finite, or None.
    nodes
        One per node whose rule was checked by itself, in the order of the program.
    """

    function: str
    seed: int
    comparisons: list[Comparison] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    stopped: bool = False
    overridden: tuple[str, ...] = ()
    blamed: str | None = None
    nodes: list[NodeCheck] = field(default_factory=list)

    @property
    def wrong(self) -> list[Entry]:
        """All entries that are off."""
        return [e for c in self.comparisons for e in c.wrong]

    @property
    def worst(self) -> Entry | None:
        """The worst entry of all; of the lowest order at which any is wrong.

        What is wrong in a gradient makes all that is derived from it wrong.
        """
        found = [e for c in self.comparisons if (e := c.worst) is not None]
        first = min((e.order for e in self.wrong), default=None)
        if first is not None:
            found = [e for e in found if e.order == first]
        return max(found, key=lambda e: e.badness, default=None)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong and all(i.holds for i in self.identities)

    def raise_if_wrong(self) -> Report:
        """The report itself, or a `GradientError` that carries it."""
        if not self.ok:
            raise GradientError(self.summary(), self)
        return self

    def summary(self) -> str:
        """One paragraph: what is wrong, or how well all agrees."""
        entries = [e for c in self.comparisons for e in c.entries]
        total = sum(c.size for c in self.comparisons)
        counted = (
            f"{len(entries)} of {total} entries checked, seed {self.seed}"
            if len(entries) < total
            else f"all {total} entries checked, seed {self.seed}"
        )
        kinks = sum(e.verdict == "kink" for e in entries)
        unsure = sum(e.verdict == "unsure" for e in entries)
        notes = [counted]
        if kinks:
            notes.append(f"{kinks} at a kink, where there is no derivative")
        if unsure:
            notes.append(f"{unsure} where differences cannot tell")
        if self.stopped:
            notes.append("stopped early")
        worst, wrong = self.worst, self.wrong
        if wrong and worst is not None:
            return (
                f"{_which(worst)} of {self.function} with respect to {worst.place} is"
                f" wrong ({MODES.get(worst.mode, worst.mode)}): expected"
                f" {worst.numeric:.10g} ± {worst.uncertainty:.1g} ({worst.method}), got"
                f" {worst.analytic:.10g}; off by {worst.error:.3g}, tolerance"
                f" {worst.tolerance:.3g}. {len(wrong)} entries are off"
                f" ({'; '.join(notes)}). {self._cure(worst)}"
            )
        for identity in self.identities:
            if not identity.holds:
                return (
                    f"{self.function}: {identity.name} fails: {identity.left:.10g}"
                    f" against {identity.right:.10g}, off by {identity.error:.3g},"
                    f" tolerance {identity.tolerance:.3g} ({'; '.join(notes)}). One of"
                    " the two modes has a wrong rule on the way."
                )
        if worst is None:
            return f"{self.function}: nothing to check ({'; '.join(notes)})"
        return (
            f"{self.function}: gradients agree with differences; worst"
            f" {worst.place}, off by {worst.error:.2g}, tolerance"
            f" {worst.tolerance:.2g} ({'; '.join(notes)})"
        )

    def _cure(self, worst: Entry) -> str:
        if self.overridden:
            return (
                f"Overrides change it on purpose ({', '.join(self.overridden)}): switch"
                " them off to check the true gradient."
            )
        if self.blamed is not None:
            return (
                f"The rule of {self.blamed} makes it: what arrives there is finite, and"
                " what it passes on is not. Look for a division by 0 in it; choose with"
                " np.where before dividing."
            )
        return (
            f"Mend the gradient rule of an op between {worst.argument} and the output;"
            " if the function is only this noisy, raise rtol."
        )

    def __str__(self) -> str:
        rows = [self.summary(), ""]
        for c in self.comparisons:
            worst = c.worst
            if worst is not None:
                rows.append(
                    f"{'ok  ' if not c.wrong else 'WRONG'} order {c.order} {c.mode}"
                    f"  {c.argument}: {len(c.entries)} of {c.size} entries,"
                    f" worst {worst.place}: {worst.error:.2g}"
                    f" (tolerance {worst.tolerance:.2g})"
                )
        for i in self.identities:
            rows.append(
                f"{'ok  ' if i.holds else 'WRONG'} {i.name}: {i.error:.2g}"
                f" (tolerance {i.tolerance:.2g})"
            )
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"<Report {'ok' if self.ok else 'WRONG'}: {self.summary()}>"


def _which(entry: Entry) -> str:
    ordinal = {1: "the gradient", 2: "the second derivative"}
    return ordinal.get(entry.order, f"the derivative of order {entry.order}")
