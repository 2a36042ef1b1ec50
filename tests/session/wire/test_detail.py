"""Answers about one node, and what the targets of a page mean."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import workbench as wb
from tests.session.wire.golden.write import session
from workbench.checks import statistics
from workbench.core.schema import DataError
from workbench.errors import OverrideError, UnknownNodeError
from workbench.jupyter.answers import read_target
from workbench.session.wire import gather_details, take_snapshot
from workbench.session.wire.schema import read


@pytest.fixture
def model() -> wb.Session:
    return session()


def test_a_loop_runs_on_while_a_node_is_described(
    model: wb.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inputs are called as in the run of the node, though another has followed."""
    h = model.nodes.find("h")
    known, measure = gather_details(model, h)["inputs"], statistics.distributions

    def run_first(arrays: Any) -> Any:
        for _ in range(2):
            model.run(X=2 * model.values["X"])
        return measure(arrays)

    monkeypatch.setattr(statistics, "distributions", run_first)
    assert gather_details(model, h)["inputs"] == known


def test_detail_of_a_node(model: wb.Session) -> None:
    h = model.nodes.find("h")
    found = gather_details(model, h)
    assert found["node"] == h
    assert found["rule"] == model["h"].op.rule
    assert found["inputs"] == [f"add {h - 1}"]
    assert found["value"] == statistics.distribution(model.values["h"])
    assert found["gradient"] == statistics.distribution(model.cotangents["h"])
    assert model.truth is not None
    assert found["true_gradient"] == statistics.distribution(model.truth.cotangents[h])
    assert found["array"] == str(model.values["h"])
    assert found["gradient_array"] == str(model.cotangents["h"])
    data = gather_details(model, model.nodes.find("X"))
    assert (data["rule"], data["gradient"], data["gradient_array"]) == (None,) * 3
    with pytest.raises(UnknownNodeError):
        gather_details(model, 99)
    json.dumps(
        [gather_details(model, i) for i in range(len(model.graph))], allow_nan=False
    )


def test_detail_of_settings_constants_and_large_arrays() -> None:
    table = np.arange(300.0)

    def f(x: Any) -> Any:
        return np.sum(np.sum(x * 2.5 * table, axis=0, keepdims=True))

    made = wb.Session(wb.trace(f)(np.ones(300)))
    by_op = {n.op.name: i for i, n in enumerate(made.graph.nodes)}
    total = by_op["sum"] - 1
    assert ["axis", "0"] in gather_details(made, total)["params"]
    assert ["keepdims", "True"] in gather_details(made, total)["params"]
    assert gather_details(made, by_op["multiply"])["inputs"][1] == "float64[300]"
    assert gather_details(made, by_op["multiply"] - 1)["inputs"] == ["x", "2.5"]
    assert gather_details(made, 0)["array"] is None
    assert gather_details(made, 0)["true_gradient"] is None


# The page's targets


def test_targets_of_the_page_are_those_of_a_session(model: wb.Session) -> None:
    h = model.nodes.find("h")
    for wire, matched in [
        ({"kind": "node", "node": h}, [h]),
        ({"kind": "op", "op": "tanh"}, [h]),
        ({"kind": "scope", "scope": "encoder"}, [h - 2, h - 1, h]),
    ]:
        target = read_target(read("Target", wire))
        assert list(model.override(target, "d").matched) == matched
        shown = take_snapshot(model).header["overrides"][-1]
        assert shown["target"] == wire


@pytest.mark.parametrize(
    "wire",
    [
        {},
        {"kind": "other", "text": "x"},
        {"kind": "node", "node": "1"},
        {"kind": "node", "node": True},
        {"kind": "op", "op": None},
        {"kind": ["node"]},
        {"kind": "kind"},
    ],
)
def test_other_targets_are_refused(wire: dict[str, Any]) -> None:
    """By the schema; one that only Python can give is a target all the same."""
    with pytest.raises((DataError, OverrideError)) as caught:
        read_target(read("Target", wire))
    if "text" in wire:
        assert "'x' is no target that the page can give" in str(caught.value)


def test_a_rule_is_told_by_the_nodes_that_it_is_for() -> None:
    m = scipy.sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]]))

    def f(a: Any, b: Any) -> Any:
        return np.sum(m @ (2.5 * a) * b)

    session = wb.Session(wb.trace(f)(np.ones(2), np.ones(2)))
    told = {node.op.name: gather_details(session, i) for i, node in numbered(session)}
    assert told["sparse_matmul"]["rule"] == "by multiply 2: Sᵀ g"
    assert told["sparse_matmul"]["params"][0] == ["pattern", "csr_array 2×2, 2 stored"]
    products = [
        gather_details(session, i)["rule"]
        for i, node in numbered(session)
        if node.op.name == "multiply"
    ]
    assert products == ["by a: g · x₀", "by sparse_matmul 3: g · x₁   by b: g · x₀"]


def numbered(session: wb.Session) -> list[tuple[int, Any]]:
    """The nodes of a session with their ids."""
    return list(enumerate(session.graph.nodes))
