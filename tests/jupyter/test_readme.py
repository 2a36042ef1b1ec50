"""What the README says: its examples run, its names and places are there."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.jupyter.conftest import Notebook
from tests.test_layers import FLOORS

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "README.md").read_text()


def values(block: str) -> list[tuple[str, object]]:
    """The lines of a block that say in a comment what they give."""
    found = []
    for line in block.splitlines():
        code, _, comment = line.partition("  # ")
        try:
            found.append((code, ast.literal_eval(comment)))
        except (SyntaxError, ValueError):
            continue  # no comment, or words
    return found


def test_its_examples_run_in_order(notebook: Notebook) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    compared = 0
    for block in blocks:
        notebook.run(block)
        for code, value in values(block):
            np.testing.assert_allclose(notebook.run(code).result, value)
            compared += 1
    assert len(blocks) > 5
    assert compared > 5


def test_its_names_exist() -> None:
    for dotted in sorted(set(re.findall(r"\bwb\.([\w.]*\w)", TEXT))):
        found: object = wb
        for name in dotted.split("."):
            found = getattr(found, name)


@pytest.mark.parametrize(
    "place",
    sorted(
        set(re.findall(r"`((?:workbench|tests|extension)/[\w./-]*)`", TEXT))
        | set(re.findall(r"\]\((\w[\w./-]+)\)", TEXT))
    ),
)
def test_its_places_exist(place: str) -> None:
    assert (ROOT / place).exists()


def test_its_floors_are_those_of_the_house() -> None:
    """The table of floors, from the top down, names every room once."""
    table = TEXT.partition("| floor of `workbench/` |")[2].partition("\n\n")[0]
    named = [re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])
             for row in table.splitlines()[2:]]  # fmt: skip
    rooms = {
        path.stem for path in (ROOT / "workbench").iterdir() if path.stem in FLOORS
    }
    assert sorted(chain.from_iterable(named)) == sorted(rooms)
    heights = [{FLOORS[name] for name in row} for row in named]
    assert all(len(height) == 1 for height in heights)
    order = [max(height) for height in heights]
    assert order == sorted(order, reverse=True)
