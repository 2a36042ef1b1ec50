"""A cell that fails half-way: its graph so far beneath the error, which says shapes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from workbench.jupyter import failed_cell
from workbench.session.wire import MIME_TYPE, Snapshot, read_saved

from .conftest import Notebook, Ran

SETUP = """
W = np.ones((4, 2))
v = np.ones(3)
def project(a):
    return a @ v
class Fussy(wb.Op):
    def compute(self, x):
        raise RuntimeError("not today")
    def vjp(self, node, g):
        return g
fussy = Fussy()
"""


@pytest.fixture
def cells(notebook: Notebook) -> Notebook:
    notebook.run(SETUP)
    return notebook


def fail(cells: Notebook, body: str, line: str = "loss") -> Ran:
    ran = cells.run(f"%%autodiff {line}\n{body}\nloss = np.sum(q)", ok=False)
    assert ran.error is not None
    return ran


def picture(ran: Ran) -> Snapshot:
    (output,) = ran.outputs
    assert {MIME_TYPE, "image/svg+xml", "text/plain"} == {*output}
    return read_saved(output[MIME_TYPE])


def ops(shown: Snapshot) -> list[str]:
    strings = shown.header["strings"]
    return ["" if k < 0 else strings[k] for k in shown.columns["op"].tolist()]


def error_of(shown: Snapshot) -> Any:
    error = shown.header["error"]
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("expression", "lead"),
    [
        ("h @ v", "(4, 2) @ (3,): 2 ≠ 3"),
        ("project(h)", "(4, 2) @ (3,): 2 ≠ 3"),
        ("h + v", "(4, 2) + (3,): 2 ≠ 3"),
        ("h.T * h", "(2, 4) * (4, 2): 4 ≠ 2"),
        ("h[None] @ np.ones((3, 2, 5, 2)).swapaxes(0, 1) @ np.ones((4, 2, 2))",
         "(1, 4, 2) @ (2, 3, 5, 2): 2 ≠ 5"),
        ("np.maximum(h, v)", "maximum((4, 2), (3,)): 2 ≠ 3"),
        ("np.where(h > 0, h, v)", "where((4, 2), (4, 2), (3,)): 2 ≠ 3"),
    ],
)  # fmt: skip
def test_the_error_leads_with_the_shapes(
    cells: Notebook, expression: str, lead: str
) -> None:
    ran = fail(cells, f"h = np.tanh(W)\nq = {expression}")
    assert f"ShapeError: {lead}. " in ran.text
    shown = picture(ran)
    assert error_of(shown)["message"].startswith(lead)
    # The lengths are the two that NumPy compares.
    shapes = re.findall(r"\(([\d, ]+)\)", lead)
    lengths = {int(n) for shape in shapes for n in shape.split(",") if n.strip()}
    assert {int(n) for n in re.findall(r"(\d+) ≠ (\d+)", lead)[0]} <= lengths


def test_the_graph_so_far_has_the_op_that_failed(cells: Notebook) -> None:
    shown = picture(fail(cells, "h = np.tanh(W)\nq = project(h)"))
    at = error_of(shown)["node"]
    assert ops(shown)[at] == "matmul"
    assert sorted(ops(shown)) == ["", "matmul", "tanh"]
    starts = shown.columns["input_start"]
    read = shown.columns["inputs"][starts[at] : starts[at + 1]].tolist()
    assert [ops(shown)[i] for i in read] == ["tanh"]
    # What was computed has its numbers, what failed has none, and no shape.
    norms = shown.columns["value_stats"].reshape(-1, 6)[:, 4]
    tanh = ops(shown).index("tanh")
    assert norms[tanh] == pytest.approx(np.sqrt(8) * np.tanh(1))
    assert np.isnan(norms[at])
    assert shown.columns["shape"][at] == shown.columns["dtype"][at] == -1
    strings = shown.header["strings"]
    assert strings[shown.columns["name"][tanh]] == "h"


def test_the_picture_stands_beneath_the_error(cells: Notebook) -> None:
    ran = fail(cells, "h = np.tanh(W)\nq = h @ v", "loss --name net")
    (output,) = ran.outputs
    assert output["text/plain"] == "<net as far as it came: 4 nodes>"
    assert '<rect class="op wrong"' in output["image/svg+xml"]
    assert "(4, 2) @ (3,): 2 ≠ 3" in output["image/svg+xml"]
    # The next cell shows its own picture and no other.
    ran = cells.run("%%autodiff loss\nloss = np.sum(W * W)")
    assert len(ran.outputs) == 1
    assert read_saved(ran.outputs[0][MIME_TYPE]).header["error"] is None
    assert cells.run("1 + 1").outputs == []


def test_other_errors_say_their_line(cells: Notebook) -> None:
    shown = picture(fail(cells, "h = np.tanh(W)\nq = h + missing"))
    error = error_of(shown)
    assert error["node"] is None
    assert error["message"] == (
        f"NameError: name 'missing' is not defined (at [{cells.number}]:3)"
    )
    shown = picture(fail(cells, "h = np.tanh(W)\nq = fussy(h)"))
    error = error_of(shown)
    assert ops(shown)[error["node"]] == "fussy"
    assert error["message"].startswith("RuntimeError: not today")


def test_values_in_lists_and_functions_belong_to_the_graph(cells: Notebook) -> None:
    cells.run("def deep(a):\n    b = np.sinh(a)\n    raise KeyError('gone')")
    shown = picture(fail(cells, "parts = [np.exp(W), np.cos(W)]\nq = deep(parts[0])"))
    assert sorted(ops(shown)) == ["", "cos", "exp", "sinh"]
    assert error_of(shown)["message"] == (f"KeyError: 'gone' (at [{cells.number}]:3)")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("q = missing", "loss"),  # nothing was computed
        ("h = np.tanh(W)\nq = h @ v", "loss --show none"),
        ("h = np.tanh(W)\nq = h @ v", "los"),  # refused before it runs
    ],
)
def test_no_picture_where_there_is_nothing_to_see(
    cells: Notebook, body: str, line: str
) -> None:
    assert fail(cells, body, line).outputs == []


def test_a_failed_cell_leaves_plain_values_and_the_old_session(
    cells: Notebook,
) -> None:
    cells.run("%%autodiff loss --show none\nloss = np.sum(W * W)")
    before = cells.names["ad"]
    fail(cells, "h = np.tanh(W)\nq = h @ v")
    assert cells.names["ad"] is before
    assert type(cells.names["h"]) is np.ndarray
    np.testing.assert_array_equal(cells.names["h"], np.tanh(np.ones((4, 2))))


def test_values_that_were_changed_in_place_are_shown_as_they_were(
    cells: Notebook,
) -> None:
    cells.run("def bump(a):\n    a *= 3")
    shown = picture(fail(cells, "h = W * 2\nbump(h)\nq = h @ v"))
    norms = shown.columns["value_stats"].reshape(-1, 6)[:, 4]
    first = ops(shown).index("multiply")
    assert norms[first] == pytest.approx(2 * np.sqrt(8))


def test_an_error_that_is_its_own_cause_has_an_end() -> None:
    error = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        raise error from error
    assert error.__cause__ is error
    assert len([*failed_cell._iterate_frames(error)]) == 1
