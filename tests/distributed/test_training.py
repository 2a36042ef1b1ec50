"""A training over Dask arrays in a session: its timeline and its overrides."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import workbench as wb
import workbench.distributed as wd
from workbench.errors import ClusterError, UsageError

RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=(50, 3)), RNG.integers(0, 2, 50)
W = {"a": RNG.normal(size=(3, 4)), "b": RNG.normal(size=4)}


def loss(W: Any, X: Any, y: Any) -> Any:
    hidden = np.tanh(np.tanh(X @ W["a"]) * 2)
    return np.mean((hidden @ W["b"] - y) ** 2)


def split(rows: int) -> Any:
    return da.from_array(X, chunks=(rows, 3)), da.from_array(Y, chunks=rows)


def train(session: Any, steps: int, rate: float = 0.1) -> list[float]:
    a, b = W["a"], W["b"]
    losses = []
    for _ in range(steps):
        losses.append(session.run({"W['a']": a, "W['b']": b}))
        a, b = (x - rate * session.grads[f"W['{k}']"] for k, x in (("a", a), ("b", b)))
    return losses


def test_a_training_is_that_of_all_rows(client: Any) -> None:
    """On chunks of two lengths, as on one machine with all rows."""
    session = wd.session(loss, W, *split(20), sample=5)
    here = wb.Session(wb.trace(lambda W: loss(W, X, Y))(W))
    assert session.nodes.graph.inputs[2].shape == (5, 3)
    found, truth = train(session, 6), train(here, 6)
    np.testing.assert_allclose(found, truth, rtol=1e-11)
    np.testing.assert_allclose(session.timeline.losses, truth, rtol=1e-11)
    np.testing.assert_allclose(session.timeline.gradients, here.timeline.gradients)


@pytest.mark.parametrize("target", ["tanh", "tanh 2"])
def test_an_override_holds_from_the_next_step(client: Any, target: str) -> None:
    session = wd.session(loss, W, *split(25))
    here = wb.Session(wb.trace(lambda W: loss(W, X, Y))(W))
    node: Any = target
    if target == "tanh 2":  # one node of two
        node, other = ([n for n in s.graph.nodes if n.op.name == "tanh"][1]
                       for s in (session, here))  # fmt: skip
    else:
        other = node
    train(session, 2)
    session.override(node, "clip(d, -0.01, 0.01)")
    here.override(other, "clip(d, -0.01, 0.01)")
    np.testing.assert_allclose(train(session, 4), train(here, 4), rtol=1e-11)
    assert "overrides" in {mark.kind for mark in session.timeline.marks}
    session.undo()
    here.undo()
    np.testing.assert_allclose(train(session, 2), train(here, 2), rtol=1e-11)


def test_the_rest_of_a_session_is_about_the_first_rows(client: Any) -> None:
    session = wd.session(loss, W, *split(25), sample=7)
    value = session.run()
    here = wb.Session(wb.trace(lambda W: loss(W, X[:7], Y[:7]))(W))
    assert value == session.value != here.value
    assert session.check().verdict == "right"
    assert not session.diagnose()
    assert {"tanh"} <= {op for row in session.profile() for op in row.ops.split(", ")}
    assert session.backend == "compiled"
    assert session.wait()
    picture = session.graph.nodes[session.output].value
    np.testing.assert_allclose(picture, here.value, rtol=1e-12)


def test_what_it_cannot_run_is_refused(client: Any) -> None:
    session = wd.session(loss, W, *split(25))
    with pytest.raises(UsageError, match="those of its Dask arrays"):
        session.run(X=np.zeros((16, 3)))
    with pytest.raises(ClusterError, match="no sum over rows"):
        wd.session(loss, W, *split(25), reduce="sum")


def test_another_reduction_is_refused(client: Any) -> None:
    with pytest.raises(UsageError, match=r"reduce='max'\. Write 'mean' or 'sum'"):
        wd.session(lambda w, X: np.sum(X @ w), np.ones(2), X, reduce="max")
