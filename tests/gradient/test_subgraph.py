"""`subgraph_grad`: part of a gradient at a time, layer by layer (C4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_whole import at
from workbench.errors import UsageError
from workbench.gradient import grad, subgraph_grad


def layers() -> dict[str, Any]:
    """The seed's net of two layers, with the weights as symbols."""
    x, t = wb.vector("x", shape=3), wb.vector("t", shape=2)
    w1, w2 = wb.matrix("w1", shape=(3, 4)), wb.matrix("w2", shape=(4, 2))
    a1 = np.tanh(x @ w1)
    a2 = np.tanh(a1 @ w2)
    cost2 = np.sum(np.square(a2 - t)) + np.square(np.sum(w2))
    cost1 = np.square(np.sum(w1))
    return locals()


def test_C4_layer_by_layer(rng: np.random.Generator) -> None:
    net = layers()
    w1, w2, a1, x = (net[name] for name in ("w1", "w2", "a1", "x"))
    params, costs, ends = [[w2], [w1]], [net["cost2"], net["cost1"]], [[a1], [x]]
    following = None
    found = []
    for i in range(2):
        param, following = subgraph_grad(
            wrt=params[i], end=ends[i], start=following, cost=costs[i]
        )
        following = dict(zip(ends[i], following, strict=True))
        found.extend(param)
    by_x = following[x]
    whole = grad(net["cost2"] + net["cost1"], [w2, w1, x])
    values = {
        "x": rng.standard_normal(3), "t": rng.standard_normal(2),
        "w1": rng.standard_normal((3, 4)), "w2": rng.standard_normal((4, 2)),
    }  # fmt: skip
    for a, b in zip([*found, by_x], whole, strict=True):
        np.testing.assert_allclose(at(a, **values), at(b, **values), rtol=1e-13)
    # And by hand.
    h = np.tanh(values["x"] @ values["w1"])
    o = np.tanh(h @ values["w2"])
    delta = 2 * (o - values["t"]) * (1 - o**2)
    by_w2 = np.outer(h, delta) + 2 * np.sum(values["w2"])
    np.testing.assert_allclose(at(found[0], **values), by_w2, rtol=1e-12)


def test_C4_details_and_parts() -> None:
    x, v, w = wb.scalars("x v w")
    h = v * x
    out = w * h
    start = {out: wb.constant(2.0)}
    wrt, end, from_start, from_cost = subgraph_grad(
        [w], [h], start=start, cost=w**2, details=True
    )
    values = {"x": 3.0, "v": 5.0, "w": 7.0}
    assert [at(g, **values) for g in wrt] == [2 * 15 + 14]
    assert [at(g, **values) for g in end] == [14.0]
    assert [at(g, **values) for g in from_start] == [30.0]
    assert [at(g, **values) for g in from_cost] == [14.0]
    only_cost = subgraph_grad([w], [h], cost=out, details=True)
    assert [at(g, **values) for g in only_cost[2]] == [0.0]
    assert [at(g, **values) for g in only_cost[3]] == [15.0]
    # What is not connected has gradient zero.
    (dx,), _ = subgraph_grad([x], [h], cost=out)
    assert at(dx, **values) == 0.0
    with pytest.raises(UsageError, match=r"start.*cost"):
        subgraph_grad([w], [h])


def test_subgraph_grad_that_starts_nowhere() -> None:
    """An empty start is none, as that before the last layer may be."""
    x = wb.scalar("x")
    (g,), _ = subgraph_grad([x], [], start={}, cost=x**2)
    assert at(g, x=3.0) == 6.0
    with pytest.raises(UsageError, match="subgraph_grad: give start"):
        subgraph_grad([x], [], start={})
