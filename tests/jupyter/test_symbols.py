"""Symbols, constants and Tensors of the user's beside ``%%autodiff`` cells."""

from __future__ import annotations

import numpy as np

from workbench.core.tensor import Tensor

from .conftest import Notebook

SETUP = """
w = np.array([0.5, 0.2])
a, b = wb.vectors("a b")
made = {"expression": np.sum(np.sin(a) * b), "constant": wb.constant(2.0)}
n = wb.shared(1.0, "n")
"""


def test_symbols_stay_what_they_are_after_a_cell(notebook: Notebook) -> None:
    notebook.run(SETUP)
    old = [notebook.names["a"], *notebook.names["made"].values(), notebook.names["n"]]
    notebook.run("%%autodiff loss\nh = np.tanh(w)\nloss = np.sum(h * h)")
    names = notebook.names
    new = [names["a"], *names["made"].values(), names["n"]]
    assert all(x is y for x, y in zip(old, new, strict=True))
    assert type(names["h"]) is np.ndarray
    notebook.run("f = wb.function([a, b], made['expression'])\ny = f(w, w)")
    np.testing.assert_allclose(names["y"], np.sum(np.sin(names["w"]) * names["w"]))


def test_a_tensor_of_an_earlier_session_stays_one(notebook: Notebook) -> None:
    notebook.run(SETUP)
    notebook.run("%%autodiff loss\nh = np.tanh(w)\nloss = np.sum(h * h)")
    notebook.run("node = ad['h']")
    notebook.run("%%autodiff loss\nh = np.tanh(w)\nloss = np.sum(h)")
    assert isinstance(notebook.names["node"], Tensor)


def test_expressions_made_in_a_cell_are_kept(notebook: Notebook) -> None:
    notebook.run(SETUP)
    notebook.run("%%autodiff loss\ne = np.sum(a * b)\nloss = np.sum(w * w)")
    notebook.run("y = wb.function([a, b], e)(w, w)")
    np.testing.assert_allclose(notebook.names["y"], 0.29)


def test_an_output_without_a_value_says_which_symbol_has_none(
    notebook: Notebook,
) -> None:
    notebook.run(SETUP)
    ran = notebook.run("%%autodiff z\nz = np.sum(a * w)", ok=False)
    assert type(ran.error).__name__ == "UsageError"
    assert "z depends on a, which has no value" in ran.text
    assert "wb.grad(expression, wrt)" in ran.text
    assert isinstance(notebook.names["a"], Tensor)
    assert type(notebook.names["w"]) is np.ndarray
