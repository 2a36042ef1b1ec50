"""The guide's list of what the doctor finds, made from the table of doctors itself.

`python -m tests.checks.doctor.listing` prints it; `--write` puts it into the page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workbench.checks.doctor.diagnose import DOCTORS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "notebooks" / "guide" / "reference" / "findings.md"
START = "<!-- made by python -m tests.checks.doctor.listing --write -->"
END = "<!-- the end of what tests.checks.doctor.listing makes -->"


def write_tables() -> str:
    """Return the section as Markdown: a table for each doctor."""
    lines = [START]
    for doctor in DOCTORS:
        lines += [
            "",
            f"## {doctor.topic[0].upper()}{doctor.topic[1:]}",
            "",
            "| kind | severity | means |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{name}` | {' or '.join(kind.severities)} | {kind.words} |"
            for name, kind in doctor.kinds.items()
        ]
    return "\n".join([*lines, "", END])


def put_into_page(text: str) -> str:
    """Return the page with its section replaced."""
    before, rest = text.split(START)
    return before + write_tables() + rest.split(END)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(put_into_page(PAGE.read_text()))
    else:
        print(write_tables())
