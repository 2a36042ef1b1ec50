"""What was compared: entries of gradients, equations, the rules of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from workbench.core.tensor import Tensor

__all__ = [
    "Comparison",
    "Entry",
    "Identity",
    "NodeCheck",
    "Outcome",
    "Status",
    "Verdict",
]

Array = np.ndarray[Any, Any]
Verdict = Literal["right", "wrong", "kink", "unsure"]
#: What is said of a node: that of its worst entry, or that an override runs there.
Status = Literal["right", "wrong", "kink", "unsure", "overridden"]
#: What is said of a gradient, and of all together: "changed" is on purpose.
Outcome = Literal["right", "wrong", "changed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one gradient: what came out, and what differences say.

    ``left`` and ``right`` are one-sided; at a kink they disagree, and any value
    between them is a subgradient. ``output`` is the entry of a node's output,
    ``"y[3]"``; empty where all outputs are weighed together. ``jump``: it is the value
    that differs from one side to the other, not its slope alone.
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
    output: str = ""
    jump: bool = False

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
    """One equation between derivatives that holds whatever the function is.

    ``arguments`` are those whose gradients it speaks of; none where it is of all.
    """

    name: str
    left: float
    right: float
    tolerance: float
    arguments: tuple[str, ...] = ()

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
