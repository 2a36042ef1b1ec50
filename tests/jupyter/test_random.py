"""Random draws in a cell: a plain generator of NumPy's takes part."""

from __future__ import annotations

import numpy as np

from .conftest import Notebook

SETUP = """
mu = np.array([0.5, -1.0, 2.0])
rng = np.random.default_rng(7)
class Box:
    def normal(self, x):
        return x * 2
box = Box()
"""


def test_a_draw_is_a_node_and_has_a_gradient(notebook: Notebook) -> None:
    notebook.run(SETUP)
    notebook.run(
        "%%autodiff loss --show none\n"
        "y = rng.normal(mu, 0.5)\n"
        "noise = rng.standard_normal(3)\n"
        "rows = rng.permutation(mu)\n"
        "loss = np.sum(y ** 2) + np.sum(noise * rows) + np.power(mu, 2).sum()\n"
        "loss = loss + np.sum(box.normal(mu))\n"
    )
    names = notebook.names
    plain = np.random.default_rng(7)
    mu = names["mu"]
    y, noise = plain.normal(mu, 0.5), plain.standard_normal(3)
    order = plain.permutation(3)
    np.testing.assert_allclose(names["y"], y)
    assert type(names["noise"]) is np.ndarray
    np.testing.assert_array_equal(names["noise"], noise)
    assert type(names["rng"]) is np.random.Generator
    assert names["rng"].random() == plain.random()  # the stream is one
    expected = 2 * y + 2 * mu + 2
    expected[order] += noise
    session = names["ad"]
    np.testing.assert_allclose(session.grads["mu"], expected)
    assert "random_standard_normal" in {n.op.name for n in session.graph.nodes}
    assert session.graph["noise"].op.name == "random_standard_normal"


def test_a_rate_says_what_to_write(notebook: Notebook) -> None:
    notebook.run(SETUP)
    ran = notebook.run(
        "%%autodiff --show none\nnp.sum(mu * rng.poisson(mu ** 2))", ok=False
    )
    assert "score function" in ran.text
