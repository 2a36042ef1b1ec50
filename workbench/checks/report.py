"""The report of a gradient check, and the ops that change a gradient on purpose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, Literal

import numpy as np

from workbench.autodiff.steps import with_inner_nodes
from workbench.checks.progress import ProgressMeter, Unchecked, describe_unchecked
from workbench.core.blame import format_count
from workbench.core.formatting import format_percent
from workbench.core.op import OPS
from workbench.core.pickling import NodeText
from workbench.core.tensor import Tensor
from workbench.errors import GradientError, UnknownNodeError
from workbench.overrides.override import Override, override

# What is compared: entries of gradients, equations, the rules of nodes.

Array = np.ndarray[Any, Any]
Verdict = Literal["right", "wrong", "kink", "unsure"]
#: The verdict on a node: that on its worst entry, or that an override runs there.
Status = Literal["right", "wrong", "kink", "unsure", "overridden"]
#: The verdict on a gradient, and on all together: "changed" is on purpose.
Outcome = Literal["right", "wrong", "changed"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one gradient: the result, and the value by differences.

    ``left`` and ``right`` are one-sided; at a kink they disagree, and any value
    between them is a subgradient. ``output`` is the entry of a node's output,
    ``"y[3]"``; empty where all outputs are weighed together. ``jump``: it is the value
    that differs from one side to the other, not its slope alone. ``along``: the
    derivative along a direction of all entries of the argument, as the budget was spent
    before the entry was found.
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
    along: bool = False

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
        """The entry as text: ``W[3, 1]``."""
        if self.along:
            return f"{self.argument} along a direction"
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.argument}{where}"

    @property
    def badness(self) -> tuple[int, float]:
        """The sort key of entries: wrong ones last, then by error in tolerances."""
        # A tolerance may be 0, by choice or where its size underflows.
        ratio = self.error / self.tolerance if self.tolerance else np.inf
        ratio = ratio if self.error else 0.0
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
        """The number of entries of the argument."""
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
        """The entries of the gradient that is checked."""
        return np.array([e.analytic for e in self.entries])

    @property
    def numeric(self) -> Array:
        """The same entries by differences of the function's values."""
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
        """The largest error allowed, for each entry."""
        return np.array([e.tolerance for e in self.entries])

    @property
    def kinks(self) -> Array:
        """True where one-sided differences disagree, so there is no derivative."""
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

    ``arguments`` names those whose gradients it concerns; empty if it concerns all.
    """

    name: str
    left: float
    right: float
    tolerance: float
    arguments: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The absolute difference of the two sides."""
        return abs(self.left - self.right)

    @property
    def holds(self) -> bool:
        """True if the two sides differ by no more than the tolerance.

        Or if there is none, as where a derivative is infinite: that is for the entries.
        """
        return bool(self.error <= self.tolerance or np.isinf(self.tolerance))


@dataclass(frozen=True, slots=True, eq=False)
class NodeCheck:
    """One node, with its rule checked at the values of the run.

    Attributes
    ----------
    node
        The node.
    status
        The verdict on its rule.
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

    def __reduce__(self) -> Any:
        """Pickle with what is told of the node, not with its program."""
        told = NodeText(self.node), self.status, self.mode, self.entry, self.text
        return NodeCheck, told

    @property
    def ratio(self) -> float:
        """The error of its worst entry in tolerances; more than 1 is too much."""
        entry = self.entry
        if entry is None:
            return 0.0
        ratio = entry.error / entry.tolerance
        return ratio if ratio == ratio else np.inf


# What changes a gradient on purpose: overrides, and ops that stand there for it.

#: So many gradients are named that one override changes.
MOST_NAMED = 8


def make_identity_overrides(nodes: Sequence[Tensor]) -> list[Override]:
    """Return overrides that let the true gradient pass ops that change gradients.

    These ops return their input; with the overrides their derivative is 1.
    """
    found = {
        x.op.name
        for x in with_inner_nodes(nodes)
        if x.op.traits.purpose and x.origin is None
    }
    return [override(name, "g", jvp="t", name=name) for name in sorted(found)]


def describe_changes(
    changed: Mapping[str, float], changers: Mapping[str, tuple[str, ...]]
) -> str:
    """Return a text on the changes of gradients, with their causes and sizes.

    ``overrides (stop) change W by 100 %, b by 50 % on purpose``; empty where nothing
    is changed. ``changers`` names for each gradient what changes it.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, relative in changed.items():
        if relative != 0:
            by = changers.get(name, ())
            groups.setdefault(by, []).append(f"{name} {_format_amount(relative)}")
    return "; ".join(
        f"{_format_subject(by)} {_join_amounts(amounts)} on purpose"
        for by, amounts in groups.items()
    )


def _join_amounts(amounts: list[str]) -> str:
    more = len(amounts) - MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(amounts[:MOST_NAMED]) + rest


def _format_amount(relative: float) -> str:
    if math.isnan(relative):
        return "beyond comparison"
    return "from zero" if math.isinf(relative) else f"by {format_percent(relative, 3)}"


def _format_subject(by: tuple[str, ...]) -> str:
    """Return the subject of a sentence about changes, with its verb."""
    ops = [label for label in by if label in OPS and OPS[label].traits.purpose]
    labels = [label for label in by if label not in ops]
    parts = [f"overrides ({', '.join(labels)})"] if labels else []
    parts += [] if by else ["overrides"]
    many = bool(parts) or len(ops) > 1
    return f"{' and '.join([*parts, *ops])} {'change' if many else 'changes'}"


# The report

#: The first word of a line about a node, the worst first.
WORDS: dict[Status, str] = {
    "wrong": "WRONG",
    "overridden": "changed",
    "kink": "kink",
    "unsure": "?",
    "right": "ok",
}
#: The same of a gradient.
OUTCOMES: dict[Outcome, str] = {"wrong": "WRONG", "changed": "changed", "right": "ok"}
#: Of the first word of a line.
WIDTH = 4
#: Of a bar beside the word: no colour of letters is read on light and dark pages.
COLOURS = {
    "WRONG": "#d32f2f",
    "kink": "#ef8f00",
    "changed": "#7b5ea7",
    "ok": "#388e3c",
}
#: How a report counts nodes, where the status is no word for it.
COUNTED: dict[str, str] = {"overridden": "changed on purpose"}
#: Lines about nodes in a report's text.
MOST_NODES = 20
MODES = {
    "rev": "reverse mode",
    "fwd": "forward mode",
    "given": "the gradient given",
}


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
    unchecked
        What was not looked at, each with the reason: the budget was spent, or it was
        stopped, or that is large.
    budget
        The seconds that it could take; None: no limit.
    overridden
        The overrides that ran, and the ops of the program that are there to change a
        gradient (`workbench.stop_gradient`).
    blamed
        The op and line whose rule made a gradient that is not finite, or None.
    convention
        What a check of second derivatives says of a length of 0, whose own is a
        convention; empty where there is none.
    nodes
        One per node whose rule was checked by itself, in the order of the program.
    labels
        What the nodes of a session are called, by the serial of the node.
    changed
        By how much these change the gradient of each input, relatively to the true
        one. What is compared with differences is the true gradient.
    changers
        Which of them change it, by the same names.
    diagnosis
        The call of the doctor for this program, which a text on NaN names.

    Examples
    --------
    A verdict has three values: right, wrong, and changed on purpose.

    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> session.check().verdict
    'right'
    >>> none = session.override("tanh", "0 * d")
    >>> report = session.check()
    >>> report.verdict, report.changed, report.changers
    ('changed', {'x': 1.0}, {'x': ('scale ×0',)})
    """

    function: str
    seed: int
    comparisons: list[Comparison] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    stopped: bool = False
    unchecked: list[Unchecked] = field(default_factory=list)
    budget: float | None = None
    overridden: tuple[str, ...] = ()
    blamed: str | None = None
    convention: str = ""
    nodes: list[NodeCheck] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    changers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    diagnosis: str = "wb.diagnose(f, *args)"

    def __reduce__(self) -> Any:
        """Pickle with the labels by node: serials are others elsewhere."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        told["labels"] = [self.labels.get(check.node.serial) for check in self.nodes]
        return _rebuild_report, (told,)

    @property
    def spent(self) -> bool:
        """True if the budget was spent before the end; then see ``unchecked``."""
        return any(one.reason == "budget" for one in self.unchecked)

    @property
    def faulty(self) -> list[NodeCheck]:
        """The nodes with a wrong rule, in the order of the program."""
        return [check for check in self.nodes if check.status == "wrong"]

    @property
    def counts(self) -> dict[str, int]:
        """The number of nodes of each status."""
        found: dict[str, int] = {}
        for check in self.nodes:
            found[check.status] = found.get(check.status, 0) + 1
        return found

    def node(self, which: Tensor | str) -> NodeCheck:
        """Return the check of one node: itself, its name, or ``"tanh 3"``.

        Raises
        ------
        UnknownNodeError
            If no node of that name was checked.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
        >>> session.check().node("tanh 1").status
        'right'
        """
        for check in self.nodes:
            node = check.node
            if isinstance(which, Tensor):
                if node.serial == which.serial:
                    return check
            elif which in (self.labels.get(node.serial), node.name):
                return check
        named = which if isinstance(which, str) else which.op.name
        known = [self.labels.get(c.node.serial, c.node.op.name) for c in self.nodes]
        raise UnknownNodeError(
            f"the report has no node {named!r}. Its nodes are"
            f" {', '.join(known[:12]) or 'none'}{', ...' if len(known) > 12 else ''}."
        )

    @property
    def wrong(self) -> list[Entry]:
        """All entries that are off."""
        return [e for c in self.comparisons for e in c.wrong]

    @property
    def worst(self) -> Entry | None:
        """The worst entry of all; of the lowest order at which any is wrong.

        A wrong gradient makes all its derivatives wrong too.
        """
        found = [e for c in self.comparisons if (e := c.worst) is not None]
        first = min((e.order for e in self.wrong), default=None)
        if first is not None:
            found = [e for e in found if e.order == first]
        return max(found, key=lambda e: e.badness, default=None)

    @property
    def ok(self) -> bool:
        """True if nothing is wrong; a change on purpose is not wrong."""
        holds = all(i.holds for i in self.identities)
        return holds and not self.wrong and not self.faulty

    @property
    def verdict(self) -> Outcome:
        """Return ``"right"``, ``"wrong"``, or ``"changed"`` on purpose."""
        if not self.ok:
            return "wrong"
        return "changed" if any(self.changed.values()) else "right"

    def judge(self, one: Comparison | Identity) -> Outcome:
        """Return the verdict on one comparison, or on one equation.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> report = wb.check_grads(lambda x: np.sum(np.tanh(x)), np.ones(3))
        >>> [report.judge(one) for one in report.comparisons[:2]]
        ['right', 'right']
        """
        names: tuple[str, ...]
        if isinstance(one, Comparison):
            good, names = not one.wrong, (one.argument,)
        else:
            good, names = one.holds, one.arguments
        if not good:
            return "wrong"
        return "changed" if any(self.changed.get(n, 0) for n in names) else "right"

    def changes(self, *arguments: str) -> str:
        """Return a text on changes on purpose, for some arguments or for all.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> with wb.overrides(wb.override("tanh", "0.5 * d")):
        ...     report = wb.check_grads(lambda x: np.sum(np.tanh(x)), np.ones(3))
        >>> report.changes()
        'overrides (scale ×0.5) change x by 50 % on purpose'
        """
        chosen = arguments or tuple(self.changed)
        some = {name: self.changed[name] for name in chosen if name in self.changed}
        return describe_changes(some, self.changers)

    def describe_unchecked(self) -> list[str]:
        """Return texts on the parts that were not looked at, one for each reason.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
        >>> session.check(budget=1e-9).describe_unchecked()[0][:35]
        'not looked at, as the budget of 1e-'
        >>> session.check(budget=None).describe_unchecked()
        []
        """
        return describe_unchecked(self.unchecked, self.budget)

    def end(self, meter: ProgressMeter) -> None:
        """Copy the end state and the unchecked parts from the meter of the check."""
        self.stopped, self.budget = meter.stopped, meter.budget
        self.unchecked = list(meter.unchecked)

    def raise_if_wrong(self) -> Report:
        """Return the report itself, or raise a `GradientError` with the report."""
        if not self.ok:
            raise GradientError(self.summary(), self)
        return self

    def summary(self) -> str:
        """Return one paragraph on the faults, or on the agreement if there is none."""
        notes = "; ".join(self._list_notes())
        worst, wrong, faulty = self.worst, self.wrong, self.faulty
        if wrong and worst is not None and not np.isfinite(worst.analytic):
            off = sum(not np.isfinite(e.analytic) for e in wrong)
            entries = "entry is" if off == 1 else "entries are"
            return (
                f"{_derivative_name(worst)} of {self.function} with respect to"
                f" {worst.place} is {worst.analytic:g}"
                f" ({MODES.get(worst.mode, worst.mode)}), and differences give"
                f" {worst.numeric:.10g}. {off} {entries}"
                f" not finite ({notes}). {self._suggest_cure(worst)}"
                f"{self._describe_other_changes()}"
            )
        if wrong and worst is not None:
            return (
                f"{_derivative_name(worst)} of {self.function} with respect to"
                f" {worst.place} is wrong ({MODES.get(worst.mode, worst.mode)}):"
                f" expected {worst.numeric:.10g} ± {worst.uncertainty:.1g}"
                f" ({worst.method}), got {worst.analytic:.10g}; off by"
                f" {worst.error:.3g}, tolerance {worst.tolerance:.3g}. {len(wrong)}"
                f" {'entry is' if len(wrong) == 1 else 'entries are'} off ({notes})."
                f" {self._suggest_cure(worst)}{self._describe_other_changes()}"
            )
        for identity in self.identities:
            if not identity.holds:
                last = "One of the two modes has a wrong rule on the way."
                if "direction" in identity.name:
                    last = "Some entries of it are wrong: raise entries to see which."
                return (
                    f"{self.function}: {identity.name} fails: {identity.left:.10g}"
                    f" against {identity.right:.10g}, off by {identity.error:.3g},"
                    f" tolerance {identity.tolerance:.3g} ({notes})."
                    f" {faulty[0].text if faulty else last}"
                    f"{self._describe_other_changes()}"
                )
        if faulty:
            count = len(faulty) - 1
            more = f" So {'is' if count == 1 else 'are'} {count} more." if count else ""
            return f"{faulty[0].text}{more} ({notes}).{self._describe_other_changes()}"
        changes = self.changes()
        compared = f"{changes}. Compared is the true gradient: " if changes else ""
        idle = ""
        if self.overridden and not changes:
            idle = f". Overrides ({', '.join(self.overridden)}) change nothing here."
        if worst is None:
            what = "nothing to check"
            if self.nodes:
                what = f"{len(self.nodes)} rules checked, none is wrong"
            return f"{self.function}: {compared}{what} ({notes}){idle}"
        if worst.verdict == "unsure":
            return (
                f"{self.function}: {compared}differences cannot tell at {worst.place},"
                f" where the gradient is {worst.analytic:.10g} ({notes}){idle}"
                + ("" if np.isfinite(worst.analytic) else f". {self._ask_doctor()}")
            )
        if worst.verdict == "kink":
            return (
                f"{self.function}: {compared}nothing is wrong, but every entry lies at"
                " a kink, where there is no derivative: compared are the derivatives"
                f" of its two sides ({notes}){idle}"
            )
        agree = "it agrees" if changes else "gradients agree"
        return (
            f"{self.function}: {compared}{agree} with differences; worst"
            f" {worst.place}, off by {worst.error:.2g}, tolerance"
            f" {worst.tolerance:.2g} ({notes}){idle}"
        )

    def _list_notes(self) -> list[str]:
        """Return notes on how much was checked."""
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
        if self.nodes:
            found = ", ".join(
                f"{n} {COUNTED.get(status, status)}"
                for status, n in self.counts.items()
            )
            notes.append(f"rules of {len(self.nodes)} nodes: {found}")
        if self.stopped:
            notes.append("stopped early")
        left = sum(one.reason == "budget" for one in self.unchecked)
        if left:
            budget = "" if self.budget is None else f" of {self.budget:g} s"
            parts = format_count(left, "part")
            notes.append(f"{parts} not looked at: the budget{budget} is spent")
        return notes

    def _describe_other_changes(self) -> str:
        """Return the changes on purpose as a sentence that follows the errors."""
        changes = self.changes()
        return f" Compared is the true gradient; {changes}, besides." if changes else ""

    def _suggest_cure(self, worst: Entry) -> str:
        if self.faulty:
            return self.faulty[0].text
        if self.blamed is not None:
            return (
                f"The rule of {self.blamed} makes it: the cotangent that it gets is"
                " finite, and what it returns is not. Look for a division by 0 in it;"
                f" choose with np.where before dividing. {self._ask_doctor()}"
            )
        if not np.isfinite(worst.analytic):
            return self._ask_doctor()
        if self.convention:
            return self.convention
        return (
            f"Correct the gradient rule of an op between {worst.argument} and the"
            " output; if the function is only this noisy, raise rtol."
        )

    def _ask_doctor(self) -> str:
        asked = f"{self.diagnosis} for the node where that begins, and for a cure."
        if self.overridden:
            return (
                f"Where no override ({', '.join(self.overridden)}) stands in for it,"
                f" ask {asked}"
            )
        return f"Ask {asked}"

    def __str__(self) -> str:
        rows = [self.summary(), ""]
        for c in self.comparisons:
            worst = c.worst
            if worst is None:
                continue
            start = f"order {c.order} {c.mode}  {c.argument}: {len(c.entries)} of"
            start += f" {c.size} entries"
            outcome = self.judge(c)
            if outcome == "changed":
                start += f": {self.changes(c.argument)}; of the true one"
            if worst.verdict == "unsure":
                word = "?" if outcome == "right" else OUTCOMES[outcome]
                rows.append(
                    f"{word:<{WIDTH}} {start}, differences cannot tell; at"
                    f" {worst.place} it is {worst.analytic:.6g}"
                )
                continue
            rows.append(
                f"{OUTCOMES[outcome]:<{WIDTH}} {start},"
                f" worst {worst.place}: {_describe_error(worst)}"
            )
        for i in self.identities:
            if i.holds and not np.isfinite(i.error):
                rows.append(f"{'?':<{WIDTH}} {i.name}: not finite on both sides")
                continue
            rows.append(
                f"{OUTCOMES[self.judge(i)]:<{WIDTH}} {i.name}: {i.error:.2g}"
                f" (tolerance {i.tolerance:.2g})"
            )
        shown = [check for check in self.nodes if check.text]
        for check in sorted(shown, key=_status_rank)[:MOST_NODES]:
            rows.append(f"{WORDS[check.status]:<{WIDTH}} {check.text}")
        if len(shown) > MOST_NODES:
            rows.append(f"... and {len(shown) - MOST_NODES} more nodes")
        rows += [f"{'-':<{WIDTH}} {text}" for text in self.describe_unchecked()]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """Return the report as HTML; texts of the program are escaped."""
        rows = []
        for row in str(self).splitlines()[2:]:
            word, _, rest = row.partition(" ")
            colour = COLOURS.get(word, "transparent")
            rows.append(
                f'<tr><td style="border-left: 4px solid {colour}">{escape(word)}</td>'
                f'<td style="text-align: left">{escape(rest.strip())}</td></tr>'
            )
        return f"<p>{escape(self.summary())}</p><table>{''.join(rows)}</table>"

    def __repr__(self) -> str:
        word = {"changed": "changed on purpose"}.get(self.verdict)
        return f"<Report {word or OUTCOMES[self.verdict]}: {self.summary()}>"


def _status_rank(check: NodeCheck) -> int:
    return list(WORDS).index(check.status)


def _describe_error(entry: Entry) -> str:
    """Return an entry's error and tolerance; the entry's value if not finite."""
    if not np.isfinite(entry.analytic):
        return f"the gradient is {entry.analytic:g}"
    return f"{entry.error:.2g} (tolerance {entry.tolerance:.2g})"


def _derivative_name(entry: Entry) -> str:
    ordinal = {1: "the gradient", 2: "the second derivative"}
    return ordinal.get(entry.order, f"the derivative of order {entry.order}")


def _rebuild_report(told: dict[str, Any]) -> Report:
    pairs = zip(told["nodes"], told["labels"], strict=True)
    labels = {check.node.serial: label for check, label in pairs if label is not None}
    return Report(**{**told, "labels": labels})
