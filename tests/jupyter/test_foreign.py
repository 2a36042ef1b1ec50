"""Cells on arrays of another library, as on CuPy's: compute follows data."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.cupy.standin import Standin
from tests.gpu.stand_in import Foreign
from workbench.backends.cupy import devices

from .conftest import Notebook


@pytest.fixture
def foreign(notebook: Notebook, stand_in: object) -> Notebook:
    notebook.names["W"] = Foreign(np.arange(6.0).reshape(2, 3) / 7)
    notebook.names["b"] = Foreign(np.array([0.5, -1.0, 2.0]))
    return notebook


def test_inputs_results_and_gradients_stay_where_they_are(foreign: Notebook) -> None:
    W, b = foreign.names["W"], foreign.names["b"]
    foreign.run("%%autodiff loss --show none\nh = np.tanh(W + b)\nloss = np.sum(h)")
    assert foreign.names["W"] is W
    assert foreign.names["b"] is b
    for name in ("h", "loss"):
        assert type(foreign.names[name]) is Foreign
    g = foreign.names["ad"].grads["b"]
    assert type(g) is Foreign
    true = (1 - np.tanh(W._inner + b._inner) ** 2).sum(0)
    np.testing.assert_allclose(g._inner, true)


def test_items_and_places_are_updated(foreign: Notebook) -> None:
    foreign.run(
        "%%autodiff loss --show none\nout = b * 2\nsame = out\nout[0] = b[1]\n"
        "out += 1\nout[1:] *= 3\nloss = np.sum(same * out)"
    )
    b = foreign.names["b"]._inner
    y = np.array([b[1] + 1, 3 * (2 * b[1] + 1), 3 * (2 * b[2] + 1)])
    out = foreign.names["out"]
    assert type(out) is Foreign
    assert foreign.names["same"] is out
    np.testing.assert_allclose(out._inner, y)
    g = foreign.names["ad"].grads["b"]._inner
    np.testing.assert_allclose(g, [0, 2 * y[0] + 12 * y[1], 12 * y[2]])


def test_an_older_array_is_not_changed(foreign: Notebook) -> None:
    ran = foreign.run("%%autodiff --show none\nb[0] = 1.0\nnp.sum(b)", ok=False)
    assert "is older than this cell" in ran.text
    assert "Work on a copy: x = x.copy()." in ran.text


def test_it_is_shown(foreign: Notebook) -> None:
    ran = foreign.run(
        "%%autodiff loss --show graph jacobian\nh = np.tanh(W + b)\nloss = np.sum(h)"
    )
    assert len(ran.outputs) == 2


def test_a_cell_asks_for_the_gpu(
    foreign: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_RUNTIME", None)
    monkeypatch.setattr(devices, "_find_missing", lambda: "it is out.")
    cell = "%%autodiff loss --backend cupy --show none\nloss = np.sum(np.tanh(W + b))"
    ran = foreign.run(cell, ok=False)
    assert "there is no GPU to compute on: it is out." in " ".join(ran.text.split())
    runtime = Standin()
    monkeypatch.setattr(devices, "_RUNTIME", runtime)
    foreign.run(cell)
    assert foreign.names["ad"]._state.programs.backend == "cupy"
