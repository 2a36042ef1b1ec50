"""The guide's lists of what is supported are what the tables of ops say."""

from __future__ import annotations

import subprocess
import sys

from tests.project.supported import END, PAGE, ROOT, START, written


def test_the_table_is_current() -> None:
    # A fresh process: other tests add ops of their own.
    run = subprocess.run(
        [sys.executable, "-m", "tests.project.supported"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    text = PAGE.read_text()
    assert text == written(text, run.stdout.rstrip("\n")), (
        "run python -m tests.project.supported --write"
    )


def test_the_section_is_written_between_its_marks() -> None:
    made = f"{START}\nnew\n{END}"
    assert written(f"a\n{START}\nold\n{END}\nb", made) == f"a\n{made}\nb"
