"""The overrides of a session: attached, changed, undone, said as code.

The truth is the chain rule of the two-layer network, worked out by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import (
    B1,
    B2,
    NAMES,
    RULES,
    TRUE,
    W1,
    W2,
    X,
    assert_grads,
    by_hand,
    fresh,
    network,
)
from workbench.errors import (
    ExpressionError,
    OverrideError,
    UnknownNodeError,
)


@pytest.fixture
def model() -> wb.Session:
    return fresh()


# Overrides


def test_an_override_of_a_node_and_undo_and_redo(model: wb.Session) -> None:
    rule = "clip(d, -0.02, 0.02)"
    model.override("h", rule)
    assert_grads(model, by_hand(RULES[rule]))
    model.undo()
    assert_grads(model, by_hand(TRUE))
    assert model.overrides == []
    model.redo()
    assert_grads(model, by_hand(RULES[rule]))


@pytest.mark.parametrize(
    "target",
    ["h", wb.override("tanh", "g")],
    ids=["name", "override"],
)
def test_targets(model: wb.Session, target: Any) -> None:
    rule = () if isinstance(target, type(wb.override("tanh", "g"))) else ("g",)
    one = model.override(target, *rule)
    assert one.matched == (model.nodes.find("h"),)
    assert_grads(model, by_hand(RULES["g"]))


def test_a_node_as_a_tensor_of_the_trace_of_this_run_or_by_its_id() -> None:
    graph = wb.trace(network)(X, W1, B1, W2, B2)
    model = wb.Session(graph, wrt=NAMES, name="model")
    i = model.nodes.find("h")
    for target in (graph["h"], model["h"], i, np.int64(i)):
        one = model.override(target, "g")
        assert_grads(model, by_hand(RULES["g"]))
        model.remove(one)
        assert_grads(model, by_hand(TRUE))
    foreign = wb.trace(network)(X, W1, B1, W2, B2)["h"]
    with pytest.raises(UnknownNodeError, match="or of an earlier run of it"):
        model.override(foreign, "g")


def test_a_scope(model: wb.Session) -> None:
    one = model.override("decoder/*", "zeros_like(d)")
    assert [model.graph.nodes[i].op.name for i in one.matched] == ["matmul", "add"]
    assert all(np.all(g == 0) for g in model.grads.values())
    assert one.where == "scope decoder/*"


def test_an_op_comes_before_a_node_of_its_name() -> None:
    def f(x: Any) -> Any:
        y = np.sin(np.sin(x))
        y.name = "sin"
        return np.sum(y)

    session = wb.Session(wb.trace(f)(np.array([0.3])), name="s")
    both = session.override("sin", "g")
    assert len(both.matched) == 2
    assert both.code == "s.override('sin', vjp='g')"
    session.undo()
    one = session.override(session["sin"], "g")
    assert len(one.matched) == 1
    assert one.code == "s.override(s['sin'], vjp='g')"
    np.testing.assert_allclose(session.grads["x"], np.cos(0.3))


def test_two_overrides_and_switching_and_removing(model: wb.Session) -> None:
    op = model.override("tanh", "-d")
    node = model.override("h", "g")
    assert_grads(model, by_hand(RULES["g"]))
    model.switch(node, False)
    assert_grads(model, by_hand(RULES["-d"]))
    assert [one.enabled for one in model.overrides] == [True, False]
    model.switch(node.id, True)
    model.remove(op.id)
    assert_grads(model, by_hand(RULES["g"]))
    assert [one.id for one in model.overrides] == [node.id]
    model.undo()
    assert [one.id for one in model.overrides] == [op.id, node.id]
    for _ in range(4):
        model.undo()
    assert_grads(model, by_hand(TRUE))
    for _ in range(5):
        model.redo()
    assert [one.id for one in model.overrides] == [node.id]
    assert_grads(model, by_hand(RULES["g"]))


def test_an_override_can_take_the_place_of_another(model: wb.Session) -> None:
    first = model.override("h", "g")
    second = model.override("tanh", "-d", replacing=first)
    assert second.id == first.id
    assert len(model.overrides) == 1
    assert_grads(model, by_hand(RULES["-d"]))
    model.undo()
    assert_grads(model, by_hand(RULES["g"]))
    assert model.override("h", "d").id > second.id


def test_history_says_what_it_would_do(model: wb.Session) -> None:
    assert (model.history.undo, model.history.redo) == (None, None)
    one = model.override("h", "clip(d, -0.1, 0.1)")
    assert model.history.undo == "clip ±0.1 on h"
    model.switch(one, False)
    assert model.history.undo == "switch off clip ±0.1"
    model.undo()
    assert model.history.redo == "switch off clip ±0.1"
    model.override("tanh", "g", replacing=one)
    assert model.history.undo == "change to straight-through on every tanh"
    assert model.history.redo is None
    model.remove(one)
    assert model.history.undo == "remove straight-through"


def test_effects_are_the_change_and_the_angle(model: wb.Session) -> None:
    one = model.override("h", "-d")
    changed = {e.name: (e.relative, e.angle) for e in one.effects}
    assert changed["W1"] == pytest.approx((2, 180))
    assert changed["b1"] == pytest.approx((2, 180))
    assert changed["W2"] == changed["b2"] == (0, 0)
    clip = model.override("h", "clip(d, -0.02, 0.02)", replacing=one)
    true, clipped = by_hand(TRUE)["W1"], by_hand(RULES["clip(d, -0.02, 0.02)"])["W1"]
    effect = clip.effects[0]
    assert effect.relative == pytest.approx(
        np.linalg.norm(clipped - true) / np.linalg.norm(true)
    )
    cosine = np.sum(clipped * true) / np.linalg.norm(clipped) / np.linalg.norm(true)
    assert effect.angle == pytest.approx(np.degrees(np.arccos(cosine)))


def test_the_effects_of_each_override_are_its_own(model: wb.Session) -> None:
    half = model.override("h", "0.5 * d")
    double = model.override("decoder", "2 * d")
    assert [round(e.relative, 9) for e in half.effects] == [0.5, 0.5, 0, 0]
    assert [round(e.relative, 9) for e in double.effects] == [3, 3, 3, 1]
    listed = {one.id: one for one in model.overrides}
    assert [round(e.relative, 9) for e in listed[half.id].effects] == [0.5, 0.5, 0, 0]
    model.switch(half, False)
    assert model.overrides[0].effects == ()
    assert repr(model.overrides[0]) == "<override 1: scale ×0.5 on h, off>"


def test_a_gradient_that_is_cut_off_is_zero_and_says_so(model: wb.Session) -> None:
    one = model.override("h", lambda node, g: [None])
    np.testing.assert_array_equal(model.grads["W1"], np.zeros((3, 2)))
    assert one.effects[0].relative == 1
    assert np.isnan(one.effects[0].angle)
    assert not one.data


def test_code_builds_the_overrides_again(model: wb.Session) -> None:
    def my_rule(node: Any, g: Any) -> Any:
        return 3 * node.vjp(g)[0]

    model.override("h", "clip(d, -0.02, 0.02)")
    model.override("decoder", "2 * d", name="twice", jvp="true")
    model.override("exp", my_rule, enabled=False)
    unnamed = next(
        i for i, n in enumerate(model.graph.nodes) if n.op.name == "negative"
    )
    model.override(unnamed, "d")
    line = model.graph.nodes[unnamed].site.line
    lines = model.code().splitlines()
    assert lines == [
        "model.override('h', vjp='clip(d, -0.02, 0.02)')",
        "model.override('decoder/*', vjp='2 * d', jvp='true', name='twice')",
        "model.override('exp', vjp=my_rule, enabled=False)"
        "  # with your function my_rule",
        f"model.override('negative@{line}', vjp='d')",
    ]
    again = wb.Session(wb.trace(network)(X, W1, B1, W2, B2), wrt=NAMES, name="model")
    exec(model.code(), {"model": again, "my_rule": my_rule})
    for name in NAMES:
        np.testing.assert_array_equal(again.grads[name], model.grads[name])
    assert again.code() == model.code()


def test_an_expression_is_checked_as_it_is_typed(model: wb.Session) -> None:
    assert model.check_rule("h", "clip(d, -1, 1)") == "ok"
    assert model.check_rule("log", "g") == "ok for 2 nodes"
    with pytest.raises(ExpressionError, match="Did you mean clip"):
        model.check_rule("h", "cilp(d, -1, 1)")
    with pytest.raises(ExpressionError, match="tanh has 1 input, the last is x"):
        model.check_rule("h", "x1 * d")
    with pytest.raises(OverrideError, match=r"has shape \(\), the input has \(4, 2\)"):
        model.check_rule("h", "mean(d)")
    with pytest.raises(OverrideError, match=r"has shape \(4, 2\), the input has"):
        model.check_rule("matmul", "g")
    assert model.overrides == []


# A change that fails, and telling others


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_a_change_that_is_interrupted_leaves_the_last_good_state(
    model: wb.Session, stop: type[BaseException]
) -> None:
    armed = False

    def rule(node: Any, g: Any) -> Any:
        if armed:
            raise stop
        return 0.5 * node.vjp(g)[0]

    heard: list[str] = []
    model.subscribe(heard.append)
    one = model.override("h", rule)
    expected = by_hand(RULES["0.5 * d"])
    assert_grads(model, expected)
    armed = True
    undo, graph = model.history.undo, model.graph
    for change in (
        lambda: model.override("decoder", "2 * d"),
        lambda: model.run(W1=2 * W1),
        lambda: model.switch(one, True),
    ):
        with pytest.raises(stop):
            change()
        assert_grads(model, expected)
        assert model.graph is graph
        assert model.history.undo == undo
        assert len(model.overrides) == 1
    assert heard == ["overrides"]


def test_a_rule_that_does_not_fit_changes_nothing(model: wb.Session) -> None:
    with pytest.raises(OverrideError, match="returned 2 gradients"):
        model.override("h", lambda node, g: (g, g))
    with pytest.raises(OverrideError, match="'straight-through' on matmul"):
        model.override("matmul", "g")
    assert model.overrides == []
    assert model.history.undo is None
    assert_grads(model, by_hand(TRUE))


def test_listeners_hear_of_each_change_until_they_leave(model: wb.Session) -> None:
    heard: list[tuple[str, float]] = []
    leave = model.subscribe(lambda what: heard.append((what, float(model.value))))
    model.override("h", "g")
    model.run(b2=0.5)
    model.undo()
    leave()
    leave()
    model.redo()
    assert [what for what, _ in heard] == ["overrides", "values", "overrides"]
    assert heard[1][1] == heard[2][1] != heard[0][1]


def test_a_region_passes_back_along_its_first_edge_in_the_program() -> None:
    def program(x: Any, b: Any) -> Any:
        t = np.tanh(x)  # which the pattern below reads last
        return np.sum(np.tanh(x + b) * t)

    x, b = np.array([0.3, 0.7]), np.array([1.0, 2.0])
    model = wb.Session(wb.trace(program)(x, b))
    model.override(wb.pattern(lambda a, b: np.tanh(a + b) * np.tanh(a)), "2 * d")
    by_b = (1 - np.tanh(x + b) ** 2) * np.tanh(x)
    by_x = by_b + np.tanh(x + b) * (1 - np.tanh(x) ** 2)
    norms = model.require_backward().edge_norms
    names = [node.op.name for node in model.graph.nodes if node.inputs]
    assert names[:2] == ["tanh", "add"]
    expected = [np.linalg.norm(2 * by_x), np.nan, np.linalg.norm(2 * by_b)]
    np.testing.assert_allclose(norms[:3], expected)


@pytest.mark.parametrize("low", ["-abs(x)", "-5"])
@pytest.mark.parametrize("x", [np.array([0.3, -0.7, 2.0]), np.array(-0.7)])
def test_bounds_of_a_clip_may_depend_on_the_input(low: str, x: Any) -> None:
    model = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(x))
    model.override("tanh", f"clip(g, {low}, abs(x))")
    # The gradient that arrives is 1: |x| passes where it is less.
    np.testing.assert_allclose(model.grads["x"], np.minimum(1, np.abs(x)))
    slope = np.where(np.abs(x) < 1, np.sign(x), 0)
    found = model.hessian()["x"]["x"]
    np.testing.assert_allclose(found, np.diag(slope) if x.ndim else slope)
