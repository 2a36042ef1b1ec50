"""What a run of a session costs: each node's value, and its gradient rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import NAMES, W1, fresh
from tests.session.test_backend import make_session
from workbench.errors import UsageError


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_all_of_the_cost_falls_to_nodes(backend: str) -> None:
    session = make_session(backend)
    session.run(W1=2 * W1)
    grads = {name: session.grads[name] for name in NAMES}
    profile = session.profile()
    assert profile.backend == backend
    costs = [*profile.values.values(), *profile.rules.values()]
    np.testing.assert_allclose(sum(cost.time for cost in costs), profile.time)
    np.testing.assert_allclose(
        sum(cost.traffic for cost in costs), sum(row.traffic for row in profile)
    )
    h = session.nodes.find("h")
    assert profile.values[h].time > 0
    assert profile.rules[h].time > 0
    for leaf in NAMES:
        assert session.nodes.find(leaf) not in profile.values
    assert all("network.py" in site.filename for row in profile for site in row.sites)
    for name in NAMES:  # nothing has changed
        np.testing.assert_array_equal(session.grads[name], grads[name])


def test_numpy_reads_and_writes_what_an_op_does() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(1000))
    session = wb.Session(graph)
    profile = session.profile()
    assert profile.values[1].traffic == 16_000
    assert profile.values[2].traffic == 8_008
    # 1 − y², and its product with the gradient of each entry.
    assert profile.rules[1].traffic >= 3 * 8_000
    assert profile.peak >= 16_000


def test_a_kernel_says_which_nodes_it_fuses() -> None:
    graph = wb.trace(lambda x: np.sum(np.exp(np.sin(x))))(np.ones(1000))
    session = wb.Session(graph, backend="compiled")
    profile = session.profile()
    (row,) = profile
    assert row.step == "kernel 1"
    assert {cost.row for cost in profile.values.values()} == {0}
    assert {"exp", "sin", "cos"} <= {node.op.name for node in row.nodes}
    np.testing.assert_allclose(sum(row.parts), 1.0)


def test_a_session_keeps_its_last_profile() -> None:
    session = fresh()
    told: list[str] = []
    session.subscribe(told.append)
    assert session.last_profile is None
    profile = session.profile()
    assert session.last_profile is profile
    assert told == ["checks"]
    session.run(W1=2 * W1)
    assert "profile" not in session.stale
    session.override("tanh", "0.5 * d")
    assert "profile" in session.stale
    session.undo()
    assert "profile" not in session.stale


def test_overrides_are_measured_too() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(1000))
    for backend in ("numpy", "compiled"):
        session = wb.Session(graph, backend=backend)
        session.override("tanh", "exp(sin(g)) * d")
        names = {node.op.name for row in session.profile() for node in row.nodes}
        assert {"exp", "sin", "tanh"} <= names
        assert session.profile().rules[1].time > 0


def test_a_rule_that_looks_at_values_is_measured_by_numpy() -> None:
    def rule(node: Any, g: Any) -> Any:
        return g if np.sum(node.outputs[0]) > 0 else -2 * g

    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    session = wb.Session(graph, backend="compiled")
    session.override("tanh", rule)
    assert session.profile().backend == "numpy"


def test_without_values_there_is_nothing_to_measure() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x))(wb.Spec((2,), float)))
    with pytest.raises(UsageError, match="traced without values"):
        session.profile()
