"""A user's ops in notebook cells: nodes like others, defined again by a second run."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.core.op import CUSTOM

from .conftest import Notebook

DEFINITION = """
from scipy.spatial import distance
class Cdist(wb.Op):
    name = "cdist_of_cells"
    def compute(self, x, w):
        return distance.cdist(x, w)
    def vjp(self, node, g):
        x, w = node.inputs
        diff = x[:, None, :] - w[None, :, :]
        diff = FACTOR * g[:, :, None] * diff / node.outputs[0][:, :, None]
        return np.sum(diff, axis=1), -np.sum(diff, axis=0)
cdist = Cdist()
x, w = np.array([[3.0, 4.0]]), np.zeros((1, 2))
"""
CELL = "%%autodiff loss\nz = cdist(x, w)\nloss = np.sum(z)"


def test_in_a_cell(notebook: Notebook) -> None:
    notebook.run(DEFINITION.replace("FACTOR", "1"))
    notebook.run(CELL)
    session = notebook.names["ad"]
    node = next(n for n in session.graph.nodes if n.op.name == "cdist_of_cells")
    assert node.site is not None
    assert node.site.text == "z = cdist(x, w)"
    np.testing.assert_allclose(session.grads["x"], [[0.6, 0.8]])
    notebook.run("half = ad.override(Cdist, vjp='0.5 * d')")
    np.testing.assert_allclose(session.grads["x"], [[0.3, 0.4]])
    notebook.run("print(half.code)")
    assert "'cdist_of_cells'" in session.overrides[0].code


def test_a_definition_that_runs_again_replaces(notebook: Notebook) -> None:
    notebook.run(DEFINITION.replace("FACTOR", "1"))
    notebook.run(DEFINITION.replace("FACTOR", "2"))
    notebook.run(CELL)
    np.testing.assert_allclose(notebook.names["ad"].grads["x"], [[1.2, 1.6]])
    assert CUSTOM["cdist_of_cells"].home == ("__main__", "Cdist")
    other = "class Other(wb.Op):\n    name = 'cdist_of_cells'\n    compute = abs"
    ran = notebook.run(other, ok=False)
    assert "is defined by __main__.Cdist already" in ran.text


def test_registered_in_a_cell(notebook: Notebook) -> None:
    notebook.run(
        "class CellOut(wb.Op):\n    def compute(self, x):\n        return x * 1.0\n"
        "x = np.ones(2)"
    )
    cell = (
        '@wb.register_gradient("cell_out")\ndef _cell_out_grad(node, g):\n'
        "    return FACTOR * g"
    )
    notebook.run(cell.replace("FACTOR", "1"))
    notebook.run(cell.replace("FACTOR", "3"))
    notebook.run("%%autodiff\nnp.sum(CellOut()(x))")
    np.testing.assert_allclose(notebook.names["ad"].grads["x"], [3, 3])
    ran = notebook.run(cell.replace("_cell_out_grad", "another"), ok=False)
    assert "has a registered gradient already, __main__._cell_out_grad" in ran.text


@pytest.mark.parametrize("line", ["return g", "return g, None, None"])
def test_an_error_of_a_rule_points_into_its_cell(notebook: Notebook, line: str) -> None:
    notebook.run(
        "class CellPair(wb.Op):\n    def compute(self, x, y):\n        return x + y\n"
        f"    def vjp(self, node, g):\n        {line}\nx = np.ones(2)"
    )
    number = notebook.number
    ran = notebook.run("%%autodiff\nnp.sum(CellPair()(x, x))", ok=False)
    assert f"CellPair.vjp (at [{number}]:4: def vjp(self, node, g):)" in ran.text
    assert "cell_pair has 2 inputs" in ran.text
    assert "return g0, g1" in ran.text
