"""Row B3 in a cell: every linear part at once, after the cell has run.

The truth is the chain rule of the cell, by hand.
"""

from __future__ import annotations

import numpy as np

from .conftest import Notebook

CELL = """%%autodiff loss --wrt w,v
h = np.tanh(X @ w + 0.5)
k = np.sin(h @ v + 1.0)
loss = (k * k).sum()
"""


def test_B3_structures_of_a_cell(notebook: Notebook) -> None:
    notebook.run(
        "X = np.arange(12.0).reshape(4, 3) / 7\n"
        "w = np.array([[0.5, -1.0], [2.0, 0.1], [0.3, 0.2]])\n"
        "v = np.array([0.4, -0.8])"
    )
    notebook.run(CELL)
    session = notebook.names["ad"]
    X, w, v = (notebook.names[name] for name in "Xwv")

    def by_hand(factor: float) -> tuple[object, object]:
        h = np.tanh(X @ w + 0.5)
        g = factor * 2 * np.sin(h @ v + 1) * np.cos(h @ v + 1)
        d = factor * np.outer(g, v) * (1 - h**2)
        return X.T @ d, h.T @ g

    def check(factor: float) -> None:
        for name, expected in zip("wv", by_hand(factor), strict=True):
            np.testing.assert_allclose(session.grads[name], expected, rtol=1e-12)

    check(1.0)
    notebook.run(
        "import workbench as wb\n"
        "one = ad.override(wb.pattern(lambda W, x, b: W @ x + b), '0.5 * d')"
    )
    check(0.5)
    assert len(notebook.names["one"].matched) == 2
    assert "wb.pattern(lambda W, x, b: W @ x + b)" in session.code()
    notebook.run("ad.undo()")
    check(1.0)
    notebook.run("ad.redo()")
    check(0.5)
