"""The README does what it says: its lines run in order, and give the numbers beside."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np

from tests.jupyter.conftest import Notebook

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_readme_runs_and_gives_the_numbers_beside_its_lines(
    notebook: Notebook,
) -> None:
    cells = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(cells) >= 10
    compared = 0
    for cell in cells:
        if "%" in cell and re.search(r"^%", cell, re.MULTILINE):
            ran = notebook.run(cell)
            assert ran.error is None, (cell, ran.text)
            continue
        for line in ast.parse(cell).body:
            source = ast.get_source_segment(cell, line) or ""
            expected = beside(cell, line)
            ran = notebook.run(source)
            assert ran.error is None, (source, ran.text)
            if expected is not None:
                np.testing.assert_allclose(ran.result, expected, rtol=1e-6)
                compared += 1
    assert compared >= 12


def beside(cell: str, line: ast.stmt) -> Any:
    """The number, or list of numbers, that the comment of an expression is."""
    if not isinstance(line, ast.Expr):
        return None
    _, mark, comment = cell.splitlines()[line.end_lineno - 1].partition("  # ")
    try:
        found = ast.literal_eval(comment.strip()) if mark else None
    except (ValueError, SyntaxError):
        return None  # words
    return found if isinstance(found, (int, float, list)) else None
