"""What the doctor finds, as data: where, in which pass, why, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from workbench.graph import blame
from workbench.graph.tensor import Tensor

__all__ = ["Finding", "Findings", "Fix"]

Severity = Literal["error", "warning", "note"]
Sweep = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """What would mend a finding.

    Attributes
    ----------
    text
        What it does, in a few words: ``"zero gradient where x is 0"``.
    code
        One line of Python to write: an override, or another spelling of the line.
    rule
        The rule to attach at the finding's node, as data (an expression or a named
        rule); None where the program itself has to change.
    """

    text: str
    code: str
    rule: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """One thing that is wrong, or may be.

    Attributes
    ----------
    kind
        What it is, a word of the list in the docs: ``"infinite-slope"``.
    severity
        ``"error"``: the result is wrong or not finite. ``"warning"``: it is likely
        not what was meant. ``"note"``: good to know.
    node
        The node to blame.
    sweep
        The pass in which it shows.
    title
        One line that names node and trouble.
    evidence
        The numbers that show it.
    cause
        Why, in plain words.
    fix
        What would mend it; None where nothing general can be said.
    path
        Nodes on the way from the blamed one to where it shows, in the order of the
        pass.
    """

    kind: str
    severity: Severity
    node: Tensor
    sweep: Sweep
    title: str
    evidence: str
    cause: str
    fix: Fix | None = None
    path: tuple[Tensor, ...] = ()

    @property
    def place(self) -> str:
        """The user's line that made the node, ``" (at [3]:2: y = ..."``, or nothing."""
        return blame.at(self.node.site)

    def __str__(self) -> str:
        rows = [
            f"{self.severity}: {self.title}",
            f"  {self.evidence}",
            f"  {self.cause}",
        ]
        if self.fix is not None:
            rows.append(f"  Fix: {self.fix.text}. {self.fix.code}")
        return "\n".join(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Findings(Sequence[Finding]):
    """What was found, most important first; empty for a healthy program.

    Attributes
    ----------
    found
        The findings.
    of
        What was looked at.
    stopped
        Whether it was stopped before it was done.
    """

    found: tuple[Finding, ...]
    of: str
    stopped: bool = False

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __repr__(self) -> str:
        early = " (stopped early)" if self.stopped else ""
        if not self.found:
            return f"{self.of}: nothing to report{early}."
        return "\n".join([*map(str, self.found)]) + early
