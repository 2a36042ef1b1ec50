"""Patterns, cut-out parts, checks and findings in the picture of a session."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import B2, NAMES, TRUE, W2, T, X, by_hand, fresh
from workbench.checks import statistics
from workbench.session.wire import take_snapshot
from workbench.session.wire.protocol.fields import STATUSES


@pytest.fixture
def model() -> wb.Session:
    return fresh()


def ids(model: wb.Session, op: str) -> list[int]:
    return [i for i, x in enumerate(model.graph.nodes) if x.op.name == op]


def edge(shown: Any, reader: int, read: int) -> int:
    """The first edge from one node to another that reads it."""
    start, inputs = shown.columns["input_start"], shown.columns["inputs"]
    first = int(start[reader])
    return first + inputs[first : start[reader + 1]].tolist().index(read)


def test_B3_a_pattern_in_the_picture(model: wb.Session) -> None:
    """Both linear parts of the network, all their gradients halved."""
    true = by_hand(TRUE)
    one = model.override(wb.pattern(lambda a, b, c: a @ b + c), "0.5 * d")
    adds, matmuls = ids(model, "add"), ids(model, "matmul")
    shown = take_snapshot(model)
    data = shown.header["overrides"][0]
    assert sorted(data["matched"]) == [i for i in adds if i - 1 in matmuls]
    assert sorted(data["covered"]) == matmuls
    assert data["target"] == {"kind": "other", "text": str(one.where)}
    assert (data["data"], data["stored"]) == (True, False)
    column = shown.columns["override"]
    covered = {*data["matched"], *data["covered"]}
    assert set(np.flatnonzero(column == 0)) == covered
    assert (column[[i for i in range(len(column)) if i not in covered]] == -1).all()
    # By hand: what reaches the first layer has passed two of them.
    for name, factor in (("W1", 0.25), ("b1", 0.25), ("W2", 0.5), ("b2", 0.5)):
        np.testing.assert_allclose(model.grads[name], factor * true[name], rtol=1e-12)
    effects = {e["name"]: (e["relative"], e["angle"]) for e in data["effects"]}
    for name, relative in (("W1", 0.75), ("b1", 0.75), ("W2", 0.5), ("b2", 0.5)):
        assert effects[name] == pytest.approx((relative, 0), abs=1e-6)
    # The matmul within passes nothing on; the rule's gradient flows to what it reads.
    stats = shown.columns["grad_stats"].reshape(-1, 6)
    norms = shown.columns["edge_norm"]
    for matmul, name in zip(matmuls, ("W1", "W2"), strict=True):
        assert np.isnan(stats[matmul]).all()
        w = model.nodes.find(name)
        assert norms[edge(shown, matmul, w)] == pytest.approx(
            np.linalg.norm(model.grads[name])
        )
        assert np.isnan(norms[edge(shown, matmul + 1, matmul)])
    json.dumps(shown.header, allow_nan=False)


def test_a_part_with_several_outputs_in_the_picture() -> None:
    def f(a: Any, b: Any) -> Any:
        u, v = np.sin(a * b), np.cos(a * b)
        u.name, v.name = "u", "v"
        return np.sum(u * v)

    a, b = np.array([0.3, -0.8]), np.array([1.1, 0.4])
    session = wb.Session(wb.trace(f)(a, b), name="s")
    true = dict(session.grads)
    one = session.override(wb.subgraph(["u", "v"], ["a", "b"]), "2 * d")
    assert one.matched == tuple(session.nodes.find(n) for n in ("u", "v"))
    assert one.where == "subgraph u, v of a, b"
    for name, g in true.items():
        np.testing.assert_allclose(session.grads[name], 2 * g, rtol=1e-12)
    shown = take_snapshot(session)
    products = [i for i in ids(session, "multiply") if i < one.matched[0]]
    assert set(one.covered) >= set(products[:1])
    assert (shown.columns["override"][list(one.matched)] == 0).all()
    norms = shown.columns["edge_norm"]
    at = session.nodes.find("a")
    assert norms[edge(shown, products[0], at)] == pytest.approx(
        np.linalg.norm(session.grads["a"])
    )


def test_which_override_has_the_say_is_said(model: wb.Session) -> None:
    model.override("tanh", "2 * d")
    model.override("h", "g", name="node")
    model.override("log", "3 * d", enabled=False)
    first, second, third = take_snapshot(model).header["overrides"]
    assert "'node'" in first["note"]
    assert "has the say" in second["note"]
    assert third["note"] == ""
    assert (third["enabled"], len(third["matched"])) == (False, 2)
    assert not (take_snapshot(model).columns["override"] == 2).any()
    assert "gives way" in repr(model.overrides[0])


def test_a_node_in_a_match_keeps_its_own_override(model: wb.Session) -> None:
    """The node outranks the pattern: of the match nothing is covered."""
    pattern = model.override(wb.pattern(lambda a, b, c: a @ b + c), "0.5 * d")
    first, second = ids(model, "matmul")
    model.override(first, "3 * d")
    shown = take_snapshot(model)
    column = shown.columns["override"]
    assert column[first] == 1
    assert column[first + 1] == -1
    assert (column[[second, second + 1]] == 0).all()
    assert shown.header["overrides"][0]["note"]
    assert pattern.note == ""
    true = by_hand(TRUE)
    np.testing.assert_allclose(model.grads["W1"], 3 * 0.5 * true["W1"], rtol=1e-12)
    np.testing.assert_allclose(model.grads["b1"], 0.5 * true["b1"], rtol=1e-12)


def test_a_check_of_the_network_in_the_picture(model: wb.Session) -> None:
    model.override("h", "clip(d, -0.02, 0.02)")
    assert take_snapshot(model).header["check"] is None
    assert "check" not in take_snapshot(model).columns
    report = model.check()
    shown = take_snapshot(model)
    status, ratio = shown.columns["check"], shown.columns["check_ratio"]
    h = model.nodes.find("h")
    assert status[h] == STATUSES.index("overridden")
    rights = [i for i, s in enumerate(status) if STATUSES[s] == "right"]
    assert len(rights) >= 10
    assert (ratio[rights] <= 1).all()
    unchecked = status == 0
    assert np.isnan(ratio[unchecked]).all()
    check = shown.header["check"]
    assert check is not None
    assert check["ok"] == report.ok
    assert check["counts"]["unchecked"] == int(unchecked.sum())
    assert check["gradients"][0]["name"] in NAMES
    model.run(W1=np.zeros((3, 2)))
    later = take_snapshot(model)
    assert later.header["check"] == {**check, "stale": True}
    np.testing.assert_array_equal(later.columns["check"], status)


def test_many_overrides_do_not_make_a_patch_wait() -> None:
    """What costs a sweep each is measured bit by bit; at the end all is known."""

    def chain(x: Any) -> Any:
        for k in range(36):
            with wb.scope(f"part{k % 12}"):
                x = np.tanh(x) * 1.01 + 0.01
        return np.sum(x)

    session = wb.Session(wb.trace(chain)(np.linspace(-1, 1, 8)))
    for k in range(12):
        session.override(f"part{k}/*", f"{1 + k / 100} * d")
    session.run(x=np.linspace(-2, 2, 8))
    first = take_snapshot(session, 0.0)
    assert len(first.unmeasured) == 11
    assert [bool(o["effects"]) for o in first.header["overrides"]][:2] == [True, False]
    rounds = 0
    while (now := take_snapshot(session, 0.0)).unmeasured:
        rounds += 1
    assert rounds == 10
    for one, told in zip(session.overrides, now.header["overrides"], strict=True):
        alone = wb.Session(wb.trace(chain)(np.linspace(-2, 2, 8)))
        true = alone.grads["x"]
        if one.id in (1, 5, 12):
            alone.override(one.override)
            relative = statistics.relative_change(alone.grads["x"], true)
            assert told["effects"][0]["relative"] == pytest.approx(relative)


def test_the_network_by_hand_is_the_one_that_is_traced() -> None:
    """The truth that the tests above scale."""
    model = fresh()
    h = np.tanh(X @ model.values["W1"] + model.values["b1"])
    p = 1 / (1 + np.exp(-(h @ W2 + B2)))
    np.testing.assert_allclose(model.grads["b2"], np.mean(p - T), rtol=1e-12)
