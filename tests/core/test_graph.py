"""Graphs as a whole: what copies and inlines them."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.core.graph import inline


def test_inlining_stops_at_leaves() -> None:
    x = wb.scalar("x")
    cube = wb.OpFromGraph([x], x * x * x, inline=True, vjp="clip(d, -1, 1)")
    c = cube(x)
    graph = inline(wb.Graph([c], [cube(np.sin(c))]))
    np.testing.assert_allclose(graph.run([2.0])[0], np.sin(2.0) ** 3)


@pytest.mark.parametrize("dtype", ["i8", "b1", "f4", "c16"])
def test_a_spec_of_any_dtype_is_an_input(dtype: str) -> None:
    f = lambda x, k: np.sum(x, where=k.astype(bool)) + np.sum(k)  # noqa: E731
    x, k = np.arange(4.0), np.array([1, 0, 1, 1], dtype)
    graph = wb.trace(f)(x, k=wb.Spec((4,), dtype))
    assert [graph.label(leaf) for leaf in graph.leaves] == ["x", "k"]
    assert compile(graph).run([x, k]) == [f(x, k)]
