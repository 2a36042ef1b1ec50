"""The overrides of a session in order: moved, edited, taken back, interrupted."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import (
    NAMES,
    RULES,
    W1,
    assert_grads,
    by_hand,
    fresh,
)
from workbench.errors import (
    ExpressionError,
    OverrideError,
    UsageError,
)


@pytest.fixture
def model() -> wb.Session:
    return fresh()


# Order, other rules, steps


def test_an_override_moves_and_the_later_has_the_say(model: wb.Session) -> None:
    one = model.override("tanh", "-d")
    two = model.override("tanh", "g")
    three = model.override("exp", "d")
    assert_grads(model, by_hand(RULES["g"]))
    model.move(one, 2)
    assert [o.id for o in model.overrides] == [two.id, three.id, one.id]
    assert_grads(model, by_hand(RULES["-d"]))
    assert model.history.undo == "move reverse to place 3"
    model.move(one.id, 0)
    assert_grads(model, by_hand(RULES["g"]))
    model.move(one, 0)  # where it is
    assert model.history.done[-1] == "move reverse to place 1"
    assert len(model.history.done) == 5
    model.undo()
    assert_grads(model, by_hand(RULES["-d"]))


@pytest.mark.parametrize("to", [-1, 1, 0.0, True, "0", None])
def test_a_place_that_is_not_there(model: wb.Session, to: Any) -> None:
    model.override("tanh", "-d")
    with pytest.raises(OverrideError, match=r"places go from 0 to 0"):
        model.move(1, to)
    with pytest.raises(OverrideError, match=r"there is no override 7; there are: 1\."):
        model.move(7, 0)
    assert len(model.history.done) == 1


@pytest.mark.parametrize(
    "target",
    [
        "h",
        "tanh",
        lambda n: n.op.name == "tanh",
        "encoder/*",
    ],
)
def test_another_rule_with_the_same_target(model: wb.Session, target: Any) -> None:
    one = model.override(target, "2 * d", name="twice")
    other = model.override("exp", "d")
    new = model.edit(one, "0.5 * d" if target == "encoder/*" else "g")
    assert (new.id, new.matched, new.where) == (one.id, one.matched, one.where)
    assert [o.id for o in model.overrides] == [one.id, other.id]
    if target != "encoder/*":
        assert_grads(model, by_hand(RULES["g"]))
        assert new.label == "straight-through"
    model.edit(one.id, name="mine")
    assert model.overrides[0].label == "mine"
    assert model.overrides[0].rule == new.rule
    model.undo(2)
    assert model.overrides[0].label == "twice"
    assert model.history.undone == [
        f"change to {new.label} on {one.where}",
        f"change to mine on {one.where}",
    ]


def test_a_new_rule_takes_the_forward_rule_of_the_old_with_it(
    model: wb.Session,
) -> None:
    one = model.override("h", "g", jvp="t")
    assert model.edit(one, name="both").override.jvp == "t"
    assert model.edit(one, "2 * d").override.jvp is None
    assert model.edit(one, jvp="true").override.vjp == "2 * d"


def test_an_edit_that_does_not_fit_changes_nothing(model: wb.Session) -> None:
    off = model.override("log", "2 * d", enabled=False)
    one = model.override("h", "g")
    before, code, done = model.grads["W1"], model.code(), model.history.done
    with pytest.raises(ExpressionError, match="Did you mean clip"):
        model.edit(one, "cilp(d, -1, 1)")
    with pytest.raises(OverrideError, match=r"has shape \(\)|shape"):
        model.edit(one, "mean(d)")
    with pytest.raises(OverrideError, match="there is no override 9"):
        model.edit(9, "g")
    np.testing.assert_array_equal(model.grads["W1"], before)
    assert (model.code(), model.history.done) == (code, done)
    assert not model.edit(off, "d").enabled


def test_many_steps_back_and_forth(model: wb.Session) -> None:
    states = [model.grads["W1"]]
    for k in range(6):
        model.override("h", f"{k + 2} * d")
        states.append(model.grads["W1"])
    texts = [f"scale ×{k + 2} on h" for k in range(6)]
    assert (model.history.done, model.history.undone) == (texts, [])
    model.undo(4)
    np.testing.assert_array_equal(model.grads["W1"], states[2])
    assert (model.history.done, model.history.undone) == (texts[:2], texts[2:])
    model.redo(3)
    np.testing.assert_array_equal(model.grads["W1"], states[5])
    assert model.history.undone == texts[5:]
    model.undo(5)
    np.testing.assert_array_equal(model.grads["W1"], states[0])
    assert model.history.undone == texts
    for word, step, count in (("undo", model.undo, 1), ("redo", model.redo, 7)):
        with pytest.raises(UsageError, match=f"{word}"):
            step(count)
    for bad in (0, -1, 1.5, True, "1"):
        with pytest.raises(UsageError, match="the steps are a number from 1"):
            model.redo(bad)
    np.testing.assert_array_equal(model.grads["W1"], states[0])
    model.override("h", "g")
    assert model.history.undone == []


def test_steps_are_checked_against_the_history(model: wb.Session) -> None:
    model.override("h", "g")
    with pytest.raises(UsageError, match=r"undo\(3\): there is 1 change to undo"):
        model.undo(3)
    model.override("h", "2 * d")
    with pytest.raises(UsageError, match=r"undo\(3\): there are 2 changes to undo"):
        model.undo(3)


def test_a_history_is_as_long_as_it_may_be(model: wb.Session) -> None:
    one = model.override("log", "2 * d")
    for k in range(1100):
        model.switch(one, bool(k % 2))
    assert len(model.history.done) == 1000
    model.undo(1000)
    assert len(model.history.undone) == 1000
    assert [o.enabled for o in model.overrides] == [model.overrides[0].enabled]


def test_random_changes_are_taken_back_step_by_step(
    model: wb.Session, rng: np.random.Generator
) -> None:
    """Numbers, order and gradients are those of each moment, whichever way one goes."""

    def look() -> tuple[Any, ...]:
        listed = [(o.id, o.where, o.rule, o.enabled) for o in model.overrides]
        return listed, [model.grads[n].tobytes() for n in NAMES]

    moments = [look()]
    for _ in range(120):
        ids = [o.id for o in model.overrides]
        kind = rng.integers(6) if ids else 0
        if kind <= 1:
            target = ["h", "tanh", "decoder/*", "log", "exp"][rng.integers(5)]
            model.override(target, f"{rng.uniform(-2, 2):.3f} * d")
        elif kind == 2:
            model.switch(int(rng.choice(ids)), bool(rng.integers(2)))
        elif kind == 3:
            model.remove(int(rng.choice(ids)))
        elif kind == 4:
            model.move(int(rng.choice(ids)), int(rng.integers(len(ids))))
        else:
            model.edit(int(rng.choice(ids)), f"{rng.uniform(-2, 2):.3f} * d")
        if len(model.history.done) == len(moments):
            moments.append(look())
    at = len(moments) - 1
    for _ in range(60):
        to = int(rng.integers(len(moments)))
        if to < at:
            model.undo(at - to)
        elif to > at:
            model.redo(to - at)
        at = to
        assert look() == moments[at]


# Interrupts


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_every_kind_of_change_can_be_interrupted(
    model: wb.Session, stop: type[BaseException], tmp_path: Any
) -> None:
    armed = False

    def rule(node: Any, g: Any) -> Any:
        if armed:
            raise stop
        return 0.5 * node.vjp(g)[0]

    one = model.override("h", rule)
    two = model.override("decoder", "2 * d")
    three = model.override("exp", "d", enabled=False)
    model.switch(two, False)
    model.undo()
    other = fresh()
    other.override("log", "3 * d")
    other.save(tmp_path / "log.json")
    state, heard = model._state, list[str]()
    model.subscribe(heard.append)
    armed = True
    for change in (
        lambda: model.edit(two, "3 * d"),
        lambda: model.edit(three, "3 * d"),
        lambda: model.move(one, 2),
        lambda: model.switch(three, True),
        lambda: model.remove(two),
        lambda: model.undo(2),
        lambda: model.redo(),
        lambda: model.load(tmp_path / "log.json"),
        lambda: model.run(W1=2 * W1),
    ):
        with pytest.raises(stop):
            change()
        assert model._state is state
    assert heard == []
    armed = False
    model.remove(one)
    assert model.override("log", "g").id == 4


def test_a_rule_that_another_hides_must_fit_all_the_same(model: wb.Session) -> None:
    """Else it would fail as soon as the other is gone."""
    model.override("h", "0.5 * d")
    with pytest.raises(OverrideError, match=r"has shape \(\)"):
        model.override("tanh", "mean(d)")
    off = model.override("tanh", "mean(d)", enabled=False)
    with pytest.raises(OverrideError, match=r"has shape \(\)"):
        model.switch(off, True)
    assert_grads(model, by_hand(RULES["0.5 * d"]))
    assert len(model.history.done) == 2


def test_effects_of_a_rule_that_fails_on_later_values_are_none(
    model: wb.Session,
) -> None:
    def rule(node: Any, g: Any) -> Any:
        if np.all(node.outputs[0] == np.tanh(model_b1)):
            raise ZeroDivisionError
        return node.vjp(g)

    model_b1 = np.array([0.1, -0.2])
    model.override("h", "0.5 * d")
    hidden = model.override("tanh", rule)
    assert hidden.effects[0].relative == 0
    model.run(W1=np.zeros((3, 2)))
    assert model.overrides[1].effects == ()
    assert [e.relative for e in model.overrides[0].effects][1] == pytest.approx(0.5)


def test_a_drag_of_an_entry_is_one_step_of_undo() -> None:
    w, x = np.array([0.5, -1.0]), np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    session = wb.Session(wb.trace(lambda w: np.sum(np.tanh(x @ w)))(w), name="fit")
    one = session.override("tanh", "2 * d")
    for value in (0.1, 0.2, 0.3):
        session.change_entry("w", 1, value, drag="first")
    session.change_entry("w", 0, 4.0, drag="second")
    at = np.array([4.0, 0.3])
    np.testing.assert_array_equal(session.values["w"], at)
    # Loss and both sweeps are those of the new values, with the override.
    np.testing.assert_allclose(session.value, np.sum(np.tanh(x @ at)))
    slope = x.T @ (1 - np.tanh(x @ at) ** 2)
    np.testing.assert_allclose(session.grads["w"], 2 * slope)
    assert session.history.done[1:] == ["w[1] = 0.3", "w[0] = 4"]
    assert session.timeline.count == 0
    session.undo(2)
    np.testing.assert_array_equal(session.values["w"], w)
    assert [each.id for each in session.overrides] == [one.id]
    session.undo()
    session.redo(3)
    np.testing.assert_array_equal(session.values["w"], at)
    np.testing.assert_allclose(session.grads["w"], 2 * slope)
    np.testing.assert_array_equal(w, [0.5, -1.0])


def make_product() -> wb.Session:
    """A session of ``sum(a * b)`` at ones."""
    return wb.Session(wb.trace(lambda a, b: np.sum(a * b))(np.ones(2), np.ones(2)))


def test_undo_leaves_an_input_that_a_run_has_replaced() -> None:
    session = make_product()
    session.change_entry("b", 1, 4.0)
    session.change_entry("a", 0, 5.0, drag=1)
    session.run(a=np.array([7.0, 8.0]))
    assert session.history.done == ["b[1] = 4"]
    session.change_entry("a", 0, 6.0, drag=1)  # another step than that before the run
    assert session.history.done == ["b[1] = 4", "a[0] = 6"]
    session.undo()
    np.testing.assert_array_equal(session.values["a"], [7.0, 8.0])
    session.run(a=np.array([9.0, 9.0]))
    assert session.history.undone == []
    session.undo()
    np.testing.assert_array_equal(session.values["b"], [1.0, 1.0])
    np.testing.assert_array_equal(session.values["a"], [9.0, 9.0])
    with pytest.raises(UsageError, match="there is nothing to undo"):
        session.undo()
    session.redo()
    np.testing.assert_array_equal(session.values["b"], [1.0, 4.0])
    np.testing.assert_array_equal(session.values["a"], [9.0, 9.0])
    np.testing.assert_array_equal(session.grads["a"], [1.0, 4.0])


def test_a_drag_is_one_step_for_each_entry() -> None:
    session = make_product()
    session.change_entry("a", 0, 5.0, drag=1)
    session.change_entry("b", 0, 7.0, drag=1)
    session.change_entry("b", 1, 2.0, drag=1)
    session.change_entry("b", 1, 3.0, drag=1)
    assert session.history.done == ["a[0] = 5", "b[0] = 7", "b[1] = 3"]
    session.undo()
    np.testing.assert_array_equal(session.values["b"], [7.0, 1.0])
    np.testing.assert_array_equal(session.values["a"], [5.0, 1.0])
    session.undo(2)
    np.testing.assert_array_equal(session.values["b"], [1.0, 1.0])
    np.testing.assert_array_equal(session.values["a"], [1.0, 1.0])
    session.redo(3)
    np.testing.assert_array_equal(session.values["b"], [7.0, 3.0])
    assert float(session.value) == 5 * 7 + 3


def test_an_override_between_changes_of_entries_is_taken_back_in_its_turn() -> None:
    session = make_product()
    session.change_entry("a", 0, 5.0)
    session.override("multiply", "2 * d")
    session.change_entry("b", 0, 3.0)
    session.run(b=np.full(2, 10.0))
    assert len(session.history.done) == 2
    session.undo()
    np.testing.assert_array_equal(session.grads["a"], [10.0, 10.0])
    session.undo()
    np.testing.assert_array_equal(session.grads["b"], [1.0, 1.0])
    session.redo(2)
    np.testing.assert_array_equal(session.grads["b"], [10.0, 2.0])


def test_a_number_that_is_changed_stays_a_number() -> None:
    session = wb.Session(wb.trace(lambda x: x * x)(3.0))
    session.change_entry("x", 0, 4)
    assert (session.value, session.grads["x"]) == (16.0, 8.0)
    session.undo()
    assert (session.value, session.grads["x"]) == (9.0, 6.0)


def test_the_history_keeps_entries_and_no_arrays() -> None:
    session = wb.Session(wb.trace(np.sum)(np.ones(100_000)))  # 0.8 MB
    (name,) = session.grads
    session.change_entry(name, 0, 2.0)
    tracemalloc.start()
    try:
        session.change_entry(name, 1, 2.0)
        before, _ = tracemalloc.get_traced_memory()
        for k in range(20):
            session.change_entry(name, k, 3.0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2e6


def test_an_entry_that_cannot_be_changed_says_why() -> None:
    f = lambda w, k: np.sum(w * np.abs(k))  # noqa: E731
    session = wb.Session(wb.trace(f)(np.ones(2), np.ones(2) + 1j))
    with pytest.raises(UsageError, match="w has no entry 2: it has 2, numbered from 0"):
        session.change_entry("w", 2, 1.0)
    with pytest.raises(UsageError, match="k is no array of real numbers in the memory"):
        session.change_entry("k", 0, 1.0)
    assert session.history.done == []


@pytest.mark.parametrize("index", [0.5, "a", (0,), None, True, np.bool(True), [0]])
def test_an_entry_is_named_by_one_integer(index: Any) -> None:
    session = make_product()
    with pytest.raises(UsageError, match="a is named by its place in the flat"):
        session.change_entry("a", index, 1.0)
    matrix = wb.Session(wb.trace(lambda w: np.sum(w * w))(np.ones((2, 3))))
    with pytest.raises(UsageError) as caught:
        matrix.change_entry("w", (1, 2), 1.0)  # type: ignore[arg-type]
    advice = "not by (1, 2): write np.ravel_multi_index((i, j), (2, 3))."
    assert str(caught.value).endswith(advice)
    i, j = 1, 2
    matrix.change_entry("w", np.ravel_multi_index((i, j), (2, 3)), 5.0)
    assert matrix.values["w"][1, 2] == 5


@pytest.mark.parametrize(
    "value",
    [None, "a", "7", 1j, np.complex128(1), True, np.ones(2), 10**400, 10**5000,
     np.timedelta64(3, "s")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_new_value_is_a_real_number(value: Any) -> None:
    session = make_product()
    with pytest.raises(
        UsageError, match=r"change_entry\('a', 0, \.\.\.\): its new value"
    ):
        session.change_entry("a", 0, value)
    assert session.history.done == []
    np.testing.assert_array_equal(session.values["a"], [1.0, 1.0])


def test_values_of_numpy_and_such_that_are_not_finite_are_numbers() -> None:
    session = make_product()
    for value in (3, np.float32(3), np.int64(3), np.array(3.0)):
        session.change_entry("a", 0, value)  # type: ignore[arg-type]
        assert session.values["a"][0] == 3
    session.change_entry("a", 0, np.inf)
    assert session.value == np.inf
    assert session.history.undo == "a[0] = inf"
