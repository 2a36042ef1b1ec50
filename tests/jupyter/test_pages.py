"""The README and the guide do what they say: their lines run in order.

The number, or list of numbers, beside an expression is what comes out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jupyter.conftest import Notebook

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "notebooks" / "guide").rglob("*.md"))]
#: Python on a forge, or what the site runs too, with its options.
CELL = re.compile(
    r"^```(?:python|\{code-cell\} ipython3)\n(?::\w.*\n\n?)*(.*?)^```", re.M | re.S
)
WITH_CODE = [page for page in PAGES if CELL.search(page.read_text("utf-8"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_it_runs_and_gives_the_numbers_beside_its_lines(
    notebook: Notebook, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    for name in ("np", "wb"):  # a page imports what it uses
        del notebook.names[name]
    for cell in CELL.findall(page.read_text("utf-8")):
        run_cell(notebook, cell)


def run_cell(notebook: Notebook, cell: str) -> None:
    """Run a cell; where it is plain Python, line by line, each with its number."""
    if re.search(r"^%", cell, re.MULTILINE):
        ran = notebook.run(cell, ok=False)
        assert ran.error is None, (cell, ran.text)
        return
    for line in ast.parse(cell).body:
        start = min([line.lineno, *(d.lineno for d in decorators(line))])
        source = "\n".join(cell.splitlines()[start - 1 : line.end_lineno])
        ran = notebook.run(source, ok=False)
        assert ran.error is None, (source, ran.text)
        expected = number_beside(cell, line)
        if expected is not None:
            np.testing.assert_allclose(
                ran.result, expected, rtol=1e-6, atol=1e-300, err_msg=source
            )


def decorators(line: ast.stmt) -> list[ast.expr]:
    return getattr(line, "decorator_list", [])


def number_beside(cell: str, line: ast.stmt) -> Any:
    """Return the number, or list of numbers, in the comment of an expression."""
    if not isinstance(line, ast.Expr):
        return None
    _, mark, comment = cell.splitlines()[line.end_lineno - 1].partition("  # ")
    try:
        found = ast.literal_eval(comment.strip()) if mark else None
    except (ValueError, SyntaxError):
        return None  # words
    return found if isinstance(found, (int, float, list)) else None


def numbers_beside(page: Path) -> Iterator[Any]:
    for cell in CELL.findall(page.read_text("utf-8")):
        if not re.search(r"^%", cell, re.MULTILINE):
            for line in ast.parse(cell).body:
                found = number_beside(cell, line)
                if found is not None:
                    yield found


def test_many_pages_have_code_and_numbers() -> None:
    assert len(WITH_CODE) >= 15
    assert sum(1 for page in WITH_CODE for _ in numbers_beside(page)) >= 30
