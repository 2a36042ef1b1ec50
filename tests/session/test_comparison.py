"""Two moments, variants or sessions of one program, compared node by node."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import W1, by_hand, fresh
from workbench.errors import UnknownNodeError, UsageError
from workbench.session import timeline
from workbench.session.comparison import describe_mismatch


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "SHARE", 1e9)


def make(f: Any, x: Any, name: str = "ad") -> wb.Session:
    return wb.Session(wb.trace(f)(x), name=name)


def test_two_runs_are_compared_by_the_norms_of_each() -> None:
    model = fresh()
    for scale in (1.0, 3.0):
        model.run(W1=scale * W1)
    found = model.compare(1, 2)
    assert (found.before, found.after) == ("run 1", "run 2")
    true = [by_hand(lambda g, d, x, y: d, scale * W1) for scale in (1.0, 3.0)]
    for name in ("W1", "h", "b2"):
        want = [float(np.linalg.norm(np.ravel(one[name]))) for one in true]
        assert found[name].gradients == pytest.approx(want), name
    assert found["W1"].values == pytest.approx([np.linalg.norm(W1) * k for k in (1, 3)])
    assert found["W1"].value_ratio == pytest.approx(3.0)
    assert found["X"].gradients == (None, None)
    sizes = [row.size for row in found]
    assert sizes == sorted(sizes, reverse=True)
    assert len(found) == model.nodes.count
    # The present is the last run, and a number from the end is a run.
    assert [row.gradients for row in model.compare(-2)] == [
        row.gradients for row in found
    ]


def test_without_overrides_and_with_them() -> None:
    model = fresh()
    true = {name: float(np.linalg.norm(np.ravel(g))) for name, g in model.grads.items()}
    model.override("tanh", "0.25 * d")
    found = model.compare()
    assert (found.before, found.after) == ("without overrides", "now")
    for name in ("W1", "b1"):
        assert found[name].gradients == pytest.approx((true[name], true[name] / 4))
        assert found[name].size == pytest.approx(2.0)
    assert found["W2"].size == 0, "nothing of it lies behind the override"
    assert all(row.values[0] == row.values[1] for row in found)
    # An override off is no override.
    model.switch(1, False)
    assert all(row.size == 0 for row in model.compare())


def test_another_session_of_the_same_program() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) ** 2)

    one, other = make(f, np.ones(2)), make(f, np.full(5, 0.5), "other")
    found = one.compare(other)
    assert (found.before, found.after) == ("session other", "now")
    assert found["x"].values == pytest.approx((0.5 * math.sqrt(5), math.sqrt(2)))
    assert found["x"].gradients[0] == pytest.approx(
        np.linalg.norm(other.grads["x"]).item()
    )
    assert all(row.size == 0 for row in one.compare(one))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda y: np.exp(np.max(y)), "it has 3 nodes, and ad has 4"),
        (
            lambda y: np.prod(np.sin(y) / y),
            "its node 1, sin 1, is sin, and here tanh 1 is tanh",
        ),
    ],
)
def test_another_program_is_refused_in_words(other: Any, words: str) -> None:
    one = make(lambda x: np.sum(np.tanh(x) * x), np.ones(2))
    b = make(other, np.ones(2), "b")
    with pytest.raises(UsageError) as caught:
        one.compare(b)
    assert "b is another program" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("relu", "there"),
    [
        (lambda z: np.maximum(z, 0), "maximum 3"),
        (lambda z: np.where(z > 0, z, 0.1 * z), "where 5"),
    ],
)
def test_two_programs_that_differ_in_an_op_are_paired(relu: Any, there: str) -> None:
    X, w = np.array([[1.0, 2.0], [-3.0, 1.0]]), np.array([0.5, -0.75])

    def with_activation(f: Any) -> Any:
        return lambda X, w: np.mean((f(X @ w) - 1.0) ** 2)

    one, b = (
        wb.Session(wb.trace(with_activation(f))(X, w), wrt=["w"], name=name)
        for f, name in ((np.tanh, "ad"), (relu, "b"))
    )
    found = one.compare(b)
    assert found.differing == ["tanh 3"]
    assert found["tanh 3"].other == there
    z = X @ w
    for side, f, slope in (
        (0, relu(z), np.where(z > 0, 1, relu(-1.0) / -1.0)),
        (1, np.tanh(z), 1 - np.tanh(z) ** 2),
    ):
        norm = np.linalg.norm
        assert found["tanh 3"].values[side] == pytest.approx(norm(f))
        dh = 2 * (f - 1) / 2
        assert found["tanh 3"].gradients[side] == pytest.approx(norm(dh))
        assert found["w"].gradients[side] == pytest.approx(norm(X.T @ (dh * slope)))
    assert "of another op there: tanh 3" in repr(found)
    # The other way the same nodes belong together.
    back = b.compare(one)
    assert back[there].other == "tanh 3"


def test_a_layer_more_is_a_node_without_a_pair() -> None:
    x = np.array([0.3, -0.4])
    one = make(lambda x: np.sum(np.exp(np.tanh(x)) ** 2), x)
    b = make(lambda x: np.sum(np.exp(x) ** 2), x, "b")
    found = one.compare(b)
    assert found["tanh 1"].other == "nothing"
    assert found["tanh 1"].gradients[0] is None
    # What is there belongs together all the same.
    assert found["exp 2"].values[0] == pytest.approx(np.linalg.norm(np.exp(x)))
    assert found["x"].gradients[0] == pytest.approx(
        np.linalg.norm(2 * np.exp(2 * x)).item()
    )


def test_another_output_is_refused() -> None:
    def f(x: Any) -> Any:
        y = np.sum(np.tanh(x))
        return y, np.exp(y)

    graph = wb.trace(f)(np.ones(2))
    one, other = (
        wb.Session(graph, graph.outputs[k], name=name)
        for k, name in enumerate(("one", "other"))
    )
    assert describe_mismatch(one._state, other._state) == (
        "other differentiates exp 3, and one differentiates sum 2."
    )


def test_a_nan_and_what_is_not_there_come_first() -> None:
    with np.errstate(all="ignore"):
        model = make(lambda x: np.sum(np.log(x)), np.ones(2))
        model.run(x=np.ones(2))
        model.run(x=np.array([1.0, -1.0]))
        found = model.compare(1, 2)
    assert found[0].size == math.inf
    assert math.isnan(found["log 1"].values[1] or 0.0)
    assert found["log 1"].value_ratio is None
    assert "output 0 → nan" in repr(found)


def test_it_prints_what_changed_most() -> None:
    model = make(lambda x: np.sum(x**2), np.ones(4))
    for scale in (1.0, 0.5):
        model.run(x=np.full(4, scale))
    head, title, *rows = repr(model.compare(1, 2)).splitlines()
    assert head == "<run 1 → run 2: output 4 → 1; 3 of 3 nodes changed>"
    assert title.split() == ["node", "line", "‖gradient‖", "‖value‖"]
    assert rows[-1].split() == ["x", *"4 → 2 ×0.5 2 → 1 ×0.5".split()]
    assert (
        repr(model.compare(2)) == "<run 2 → now: output 1 → 1; none of 3 nodes changed>"
    )


def test_what_is_no_side_is_refused() -> None:
    model = make(lambda x: np.sum(x**2), np.ones(2))
    with pytest.raises(UnknownNodeError, match="there were 0 runs"):
        model.compare(3)
    for wrong in ("yesterday", 1.5, True):
        with pytest.raises(UsageError, match="a side is a run"):
            model.compare(wrong)  # type: ignore[arg-type]


def test_compiled_code_is_compared_with_all_of_its_nodes() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    model = wb.Session(graph, backend="compiled")
    assert model.wait()
    for scale in (1.0, 2.0):
        model.run(x=np.full(3, scale))
    now = np.linalg.norm(np.tanh(np.full(3, 2.0)))
    assert model.compare(2)["tanh 1"].values[1] == pytest.approx(now)


def test_a_run_remembers_its_overrides() -> None:
    model = fresh()
    model.run(W1=W1)
    one = model.override("tanh", "0.5 * d")
    model.run(W1=W1)
    model.override("h", "2 * d", name="twice")
    model.switch(one, False)
    model.run(W1=W1)
    model.undo(3)
    line = model.timeline
    assert [line[step].overrides for step in (1, 2, 3)] == [
        (),
        ("1: scale ×0.5 on every tanh",),
        ("2: twice on h",),
    ]


def test_changes_of_overrides_in_each_run_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline, "MOST_CHANGES", 8)
    model = make(lambda x: np.sum(np.tanh(x)), np.ones(2))
    one = model.override("tanh", "0.5 * d")
    for step in range(100):
        model.switch(one, step % 2 == 0)
        model.run(x=np.ones(2))
    assert len(model.timeline._rules) <= 8
    assert model.timeline.find_entries(100) == model._state.entries
    assert model.timeline.find_entries(1)[0].override.enabled
