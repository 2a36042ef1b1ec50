"""The tutorials, run in a real kernel: what they say is what comes out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.project.executed import (
    NOTEBOOKS,
    PLOTLY,
    Executed,
    Tutorial,
    alike,
    differences,
    numbers,
    quiet,
)
from workbench.session.wire import MIME_TYPE, read_saved

#: The first two in every run; the others, and what they say, in the long one.
each_tutorial = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if i > 1 else [])
        for i, path in enumerate(NOTEBOOKS)
    ],
)


@each_tutorial
def test_it_runs(path: Path, tutorial: Tutorial) -> None:
    cells = tutorial(path.stem).notebook.cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert outputs
    assert "error" not in {output.output_type for output in outputs}


@each_tutorial
def test_its_kept_outputs_are_those_of_a_fresh_run(
    path: Path, tutorial: Tutorial
) -> None:
    """A forge shows the tutorials as they are kept: with their graphs."""
    executed = tutorial(path.stem)
    assert executed.notebook.metadata.kernelspec.name == "python3"
    assert [cell.execution_count for cell in executed.kept.cells if "outputs" in cell]
    different = [*differences(executed)]
    assert not different, "\n".join([*different, "`make tutorials` writes them anew"])


def test_outputs_are_compared_by_words_and_numbers() -> None:
    assert alike("loss 0.69315 after 12 ms", "loss 0.69314 after 1300 ms")
    assert alike("off by 3e-12", "off by -8e-11")
    assert alike("1.5  2", "1.5 2")
    assert not alike("loss 0.69", "loss 0.71")
    assert not alike("loss 0.69", "loss nan")
    assert not alike("12 entries", "12 rows")
    assert not alike("12 entries", None)


@pytest.fixture(scope="module")
def first(tutorial: Tutorial) -> Executed:
    return tutorial("01-first-gradient")


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
    quiet(first)


@pytest.mark.long
def test_a_killed_worker_changes_no_digit(tutorial: Tutorial) -> None:
    cluster = tutorial("12-on-a-cluster")
    quiet(cluster)
    killed = cluster.printed("victim = ")
    assert killed.splitlines() == [
        "the same digits: True",
        "the worker is another one: True",
    ]
    assert "(777, 778) in chunk 3" in cluster.printed("broken = ")
