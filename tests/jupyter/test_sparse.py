"""Sparse arrays in a cell: constants, and made of values that vary."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from .conftest import Notebook

SETUP = """
import scipy.sparse
from workbench.scipy import sparse
S = scipy.sparse.csr_array([[1.0, 0.0], [2.0, 3.0]])
x = np.array([0.5, 2.0])
v = S.data.copy()
"""


def test_what_a_cell_leaves_is_scipys(notebook: Notebook) -> None:
    notebook.run(SETUP)
    notebook.run(
        "%%autodiff loss --show none\n"
        "scaled = S * x\n"
        "kept = [scaled]\n"
        "made = sparse.csr_array((v, S.indices, S.indptr), shape=(2, 2))\n"
        "loss = np.sum((made @ x) ** 2) + scaled.sum()\n"
    )
    names = notebook.names
    assert type(names["made"]) is scipy.sparse.csr_array
    assert type(names["kept"][0]) is scipy.sparse.csr_array
    np.testing.assert_allclose(names["scaled"].toarray(), [[0.5, 0], [1, 6]])
    y = names["S"] @ names["x"]
    grads = names["ad"].grads
    np.testing.assert_allclose(grads["v"], 2 * y[[0, 1, 1]] * names["x"][[0, 0, 1]])
    np.testing.assert_allclose(grads["x"], 2 * names["S"].T @ y + [3, 3])


def test_a_sparse_variable_says_what_to_write(notebook: Notebook) -> None:
    notebook.run(SETUP)
    ran = notebook.run("%%autodiff loss --wrt S\nloss = np.sum(S @ x)", ok=False)
    assert "v = S.data" in ran.text
