"""The guide's list of rewrite rules, made from the tables of rules themselves.

`python -m tests.rewrite.listing` prints it; `--write` puts it into the page.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from workbench.rewrite.driver import TABLES
from workbench.rewrite.rule import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "notebooks" / "guide" / "reference" / "rewrites.md"
START = "<!-- made by python -m tests.rewrite.listing --write -->"
END = "<!-- the end of what tests.rewrite.listing makes -->"


def write_table() -> str:
    """Return the section as Markdown."""
    assert TABLES
    lines = [START, ""]
    order = ("simplify", "stabilise", "contract", "fast", "advice")
    rules = sorted(RULES.values(), key=lambda rule: order.index(rule.group))
    for group, members in groupby(rules, key=lambda rule: rule.group):
        lines += [
            f"### {group}",
            "",
            "| rule | before | after | |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {rule.name} | `{rule.lhs}` | `{rule.rhs}` | {rule.note} |"
            for rule in members
        ]
        lines.append("")
    return "\n".join([*lines, END])


def put_into_page(text: str) -> str:
    """Return the page with its section replaced."""
    before, rest = text.split(START)
    return before + write_table() + rest.split(END)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(put_into_page(PAGE.read_text()))
    else:
        print(write_table())
