"""The doctor's findings as data: the node, the pass, the cause and the fix."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Literal, overload

from workbench.checks.progress import Unchecked, describe_unchecked
from workbench.core import blame
from workbench.core.blame import format_count
from workbench.core.pickling import NodeText
from workbench.core.sites import Site
from workbench.core.tensor import Tensor

#: The characters of a line of printed findings, beside the number of each.
WIDTH = 77

Severity = Literal["error", "warning", "note"]
Sweep = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the user's source: some lines, and what to write in their place.

    Attributes
    ----------
    file
        The file, ``"net.py"``, or the cell, ``"[3]"``.
    line
        The number of the first of these lines, from 1.
    before, after
        The whole lines as they were when the program ran, and the new ones.
    """

    file: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        rows = [f"{self.file}:{self.line}"]
        rows += [f"- {line}" for line in self.before]
        rows += [f"+ {line}" for line in self.after]
        return "\n".join(rows)


@dataclass(frozen=True, slots=True, eq=False)
class Fix:
    """A fix for a finding.

    Attributes
    ----------
    text
        What it does, in a few words: ``"zero gradient where x is 0"``.
    code
        One line of Python to write: an override, or another spelling of the line.
    rule
        The rule to attach at the finding's node, as data (an expression or a named
        rule); None where the program itself must change.
    everywhere
        Whether the rule is for every node of its op, as for a growth over many steps.
    edit
        The code as a change of the user's source, where it is certain which lines to
        change; ``print(fix.edit)`` shows them. None where it is not, and where the fix
        is a rule only.
    """

    text: str
    code: str
    rule: str | None = None
    everywhere: bool = False
    edit: Edit | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """One thing that is wrong, or may be wrong.

    Attributes
    ----------
    kind
        What it is, ``"infinite-slope"`` for example; the page "What the doctor finds"
        lists what each means.
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
        How to mend it; None where there is no general fix.
    path
        Nodes on the way from the blamed one to where it shows, in the order of the
        pass.
    site
        The user's line, where it is not the one that made the node: that of an op
        inside the node, or the one that raised an error.
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
    site: Site | None = None

    def __reduce__(self) -> Any:
        """Pickle with what is told of the nodes, not with their program."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        told["node"] = NodeText(self.node)
        told["path"] = tuple(map(NodeText, self.path))
        return Finding, tuple(told.values())

    @property
    def place(self) -> str:
        """The user's line to look at, ``" (at [3]:2: y = ..."``, or nothing.

        An input has none: it was made where the program was traced.
        """
        if self.site is not None:
            return blame.quote_site(self.site)
        if not self.node.inputs:
            return ""
        return blame.quote_site(self.node.site)

    def __str__(self) -> str:
        rows = [
            wrap_text(f"{self.severity}: {self.title}{self.place}", after="  "),
            wrap_text(self.evidence, "  "),
            wrap_text(self.cause, "  "),
        ]
        if self.fix is not None:
            rows.append(wrap_text(f"Fix: {self.fix.text}:", "  ", "    "))
            rows.append(f"    {self.fix.code}")  # as it is to be copied
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"<{self.severity} {self.kind!r}: {self.title}{self.place}>"


@dataclass(frozen=True, slots=True, eq=False)
class Findings(Sequence[Finding]):
    """The findings about a program, most important first; empty if it is healthy.

    Attributes
    ----------
    found
        The findings.
    of
        The name of the program.
    stopped
        Whether the search was stopped early.
    unchecked
        What was not looked at, since it was stopped or its budget was spent.
    budget
        The seconds that the search could take; None: no limit.
    step
        The run of a session that was examined; None for what it is now.
    """

    found: tuple[Finding, ...]
    of: str
    stopped: bool = False
    unchecked: tuple[Unchecked, ...] = ()
    budget: float | None = None
    step: int | None = None

    def describe_unchecked(self) -> list[str]:
        """Return texts on the parts that were not looked at, one for each reason."""
        return describe_unchecked(self.unchecked, self.budget)

    def _format_end(self) -> str:
        """Return how the search ended, as sentences that follow another."""
        early = " Stopped before it was done." if self.stopped else ""
        left = self.describe_unchecked()
        return early + "".join(f" {one[0].upper()}{one[1:]}." for one in left)

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
        early = self._format_end()
        if not self.found:
            return wrap_text(f"{self.of}: nothing to report.{early}")
        head = wrap_text(f"{self.of}: {count_severities(self.found)}.{early}")
        rows = [
            f"{i}  {text}".replace("\n", "\n   ")
            for i, text in enumerate(map(str, self.found))
        ]
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        """Return the findings as an HTML table; texts of the program are escaped."""
        early = escape(self._format_end())
        words = count_severities(self.found) if self.found else "nothing to report"
        head = f"<p><b>{escape(self.of)}</b>: {words}.{early}</p>"
        if not self.found:
            return head
        rows = "".join(map(_format_row, range(len(self.found)), self.found))
        titles = "".join(
            f'<th style="text-align:left">{title}</th>'
            for title in ("", "", "finding", "why", "fix")
        )
        return (
            f"{head}<table><thead><tr>{titles}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def wrap_text(text: str, first: str = "", after: str | None = None) -> str:
    """Return a text in lines of up to `WIDTH` characters, broken between words.

    Parameters
    ----------
    text
        Its own line breaks stay.
    first, after
        What the first line begins with, and the others; without ``after`` the same.

    Examples
    --------
    >>> print(wrap_text("as many words as there are " * 4, "  "))
      as many words as there are as many words as there are as many words as there
      are as many words as there are
    """
    after = first if after is None else after
    rows: list[str] = []
    for line in text.rstrip().split("\n"):
        wrapped = textwrap.wrap(
            line,
            WIDTH,
            initial_indent=after if rows else first,
            subsequent_indent=after,
            break_long_words=False,
            break_on_hyphens=False,
        )
        rows += wrapped or [""]
    return "\n".join(rows)


def count_severities(found: Sequence[Finding]) -> str:
    """Return the number of findings of each severity: ``"1 error, 2 notes"``."""
    words = []
    for severity in ("error", "warning", "note"):
        n = sum(one.severity == severity for one in found)
        if n:
            words.append(format_count(n, severity))
    return ", ".join(words)


#: Colours that are read on light and dark pages, beside the word itself.
_COLOURS = {"error": "#d1453b", "warning": "#b7791f", "note": "#5b7083"}


def _format_row(i: int, one: Finding) -> str:
    fix = ""
    if one.fix is not None:
        fix = f"{escape(one.fix.text)}<br><code>{escape(one.fix.code)}</code>"
    place = f"<br><small>{escape(one.place.strip())}</small>" if one.place else ""
    style = "text-align:left;vertical-align:top"
    cells = (
        str(i),
        f'<b style="color:{_COLOURS[one.severity]}">{one.severity}</b>',
        f"{escape(one.title)}{place}<br>{escape(one.evidence)}",
        escape(one.cause),
        fix,
    )
    return f"<tr>{''.join(f'<td style={style!r}>{cell}</td>' for cell in cells)}</tr>"
