"""The tutorials, run in a real kernel: what they say is what comes out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from workbench.snapshot import MIME_TYPE, read_saved

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"


class Executed:
    """A notebook after it has run."""

    def __init__(self, path: Path) -> None:
        self.notebook: Any = nbformat.read(path, as_version=4)
        client = NotebookClient(
            self.notebook,
            timeout=120,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute()

    def cell(self, start: str) -> Any:
        (found,) = (
            cell
            for cell in self.notebook.cells
            if cell.cell_type == "code" and cell.source.startswith(start)
        )
        return found

    def printed(self, start: str) -> str:
        outputs = self.cell(start).outputs
        return "".join(o.text for o in outputs if o.output_type == "stream")

    def data(self, kind: str) -> list[Any]:
        return [
            output.data[kind]
            for cell in self.notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if kind in output.get("data", {})
        ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.fixture(scope="module")
def first() -> Executed:
    return Executed(ROOT / "notebooks" / "01-first-gradient.ipynb")


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"[+-]?\d+\.?\d*(?:e-?\d+)?", text)]


def test_the_picture_is_saved_three_times(first: Executed) -> None:
    (output,) = first.cell("%%autodiff").outputs
    assert set(output.data) == {MIME_TYPE, "image/svg+xml", "text/plain"}
    kept = read_saved(output.data[MIME_TYPE])
    assert kept.header["session"] == "model"
    assert kept.header["output_name"] == "loss"
    names = {*kept.header["strings"]}
    assert {"X", "W1", "b1", "h", "W2", "b2", "p", "t", "loss"} <= names
    svg = ElementTree.fromstring(output.data["image/svg+xml"])
    assert svg.tag.endswith("svg")
    assert output.data["text/plain"].startswith("<Session 'model': loss = ")


def test_a_step_keeps_the_promise_of_the_gradient(first: Executed) -> None:
    promised, came = numbers(first.printed('print("loss", loss)'))[-2:]
    assert promised < 0
    assert came == pytest.approx(promised, rel=0.05)


def test_training_lowers_the_loss(first: Executed) -> None:
    before, after, right = numbers(first.printed('weights = {"W1"'))
    assert before == pytest.approx(0.69, abs=0.1)
    assert after < before / 5
    assert right > 95


def test_the_saved_picture_is_that_of_the_end(first: Executed) -> None:
    """What the notebook keeps is what was last seen: trained, all overrides undone."""
    (output,) = first.cell("%%autodiff").outputs
    header = read_saved(output.data[MIME_TYPE]).header
    after = numbers(first.printed('weights = {"W1"'))[1]
    assert header["output_value"] == pytest.approx(after, abs=5e-4)
    assert header["overrides"] == []


def test_the_override_changes_and_is_undone(first: Executed) -> None:
    change = re.search(r"changed by (\d+)%", first.printed("limit = "))
    assert change is not None
    assert 10 < int(change[1]) < 100
    undone = first.printed("print(model.code())")
    assert "model.override('h', vjp='clip(d, -" in undone
    assert "as before: True" in undone


def test_the_matrices_are_drawn(first: Executed) -> None:
    assert len(first.data(PLOTLY)) == 3
    assert "symmetric: True" in first.printed("H = model.hessian")
    sizes = [
        figure["data"][0]["z"]["shape"]
        for figure in first.data(PLOTLY)
        if figure["data"][0]["type"] == "heatmap"
    ]
    assert sizes == ["190, 16", "33, 33"]  # 569 rows in blocks of three


def test_the_check_agrees_and_sees_the_override(first: Executed) -> None:
    assert "gradients agree with differences" in first.printed("report = ")
    assert "still the true gradient? False" in first.printed('model.override("h", "0.9')


def test_nothing_was_printed_as_an_error(first: Executed) -> None:
    for cell in first.notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
