"""Graphs as a whole: what copies and inlines them."""

from __future__ import annotations

import numpy as np

import workbench as wb
from workbench.core.graph import inline


def test_inlining_stops_at_leaves() -> None:
    x = wb.scalar("x")
    cube = wb.OpFromGraph([x], x * x * x, inline=True, vjp="clip(d, -1, 1)")
    c = cube(x)
    graph = inline(wb.Graph([c], [cube(np.sin(c))]))
    np.testing.assert_allclose(graph.run([2.0])[0], np.sin(2.0) ** 3)
