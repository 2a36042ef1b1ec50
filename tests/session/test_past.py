"""A session goes back to a run: all of it is that run's, the first bad one leads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import B1, B2, W1, W2, T, X, fresh
from workbench.errors import OverrideError, UsageError
from workbench.session import kept_inputs
from workbench.session.kept_inputs import KeptInputs, RunInputs

START = {"W1": W1, "b1": B1, "W2": W2, "b2": B2}


def train(session: wb.Session, count: int, rate: float = 0.5) -> list[dict[str, Any]]:
    """Descend for some steps; return the weights of each."""
    weights = {name: session.values[name] for name in session.grads}
    seen = []
    for _ in range(count):
        session.run(weights)
        seen.append({k: np.copy(w) for k, w in weights.items()})
        weights = {k: w - rate * session.grads[k] for k, w in weights.items()}
    return seen


def true_gradient(weights: dict[str, Any]) -> Any:
    """Return the gradient by W1 of the network, by NumPy and the chain rule."""
    h = np.tanh(X @ weights["W1"] + weights["b1"])
    z = h @ weights["W2"] + weights["b2"]
    dz = (1 / (1 + np.exp(-z)) - T) / len(T)
    return X.T @ (dz[:, None] * weights["W2"] * (1 - h**2))


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_at_a_run_all_is_of_that_run(backend: str) -> None:
    session = fresh()
    if backend == "compiled":
        names = list(START)
        session = wb.Session(session.graph, None, names, backend="compiled")
        assert session.wait(60)
    seen = train(session, 12)
    last = session.grads["W1"].copy()
    for step in (1, 5, 11):
        past = session.at(step)
        for name, weight in seen[step - 1].items():
            np.testing.assert_array_equal(past.values[name], weight)
        np.testing.assert_allclose(past.grads["W1"], true_gradient(seen[step - 1]))
        assert past.timeline.count == step
        assert past.check(nodes=False).ok
        jacobian = past.jacobian(wrt="W1")
        np.testing.assert_allclose(jacobian, true_gradient(seen[step - 1]))
    np.testing.assert_array_equal(session.grads["W1"], last)
    assert session.report is None, "what is checked there is checked there"


def test_an_input_that_no_run_gives_stays_what_it_was() -> None:
    session = wb.Session(wb.trace(lambda x, y: np.sum(x * y))(np.ones(1), np.ones(1)))
    session.run(x=np.full(1, 2.0))
    session.run(x=np.full(1, 3.0))
    session.run(y=np.full(1, 5.0))
    assert [float(session.at(step).value) for step in (1, 2, 3)] == [2.0, 3.0, 15.0]


def test_the_overrides_are_those_of_the_run() -> None:
    session = fresh()
    seen = train(session, 3)
    session.override("tanh", "2 * d")
    more = train(session, 2)
    session.override("tanh", "3 * d")
    at_two, at_five = session.at(2), session.at(5)
    assert at_two.overrides == []
    np.testing.assert_allclose(at_two.grads["W1"], true_gradient(seen[1]))
    assert [one.label for one in at_five.overrides] == ["scale ×2"]
    np.testing.assert_allclose(at_five.grads["W1"], 2 * true_gradient(more[1]))


def test_a_branch_leaves_the_session_as_it_is() -> None:
    session = fresh()
    train(session, 10)
    losses = session.timeline.losses
    branch = session.at(4)
    branch.override("tanh", "zeros_like(d)")
    train(branch, 6)
    assert branch.timeline.count == 10
    np.testing.assert_array_equal(branch.timeline.losses[:4], losses[:4])
    assert branch.timeline.losses[9] != losses[9]
    np.testing.assert_array_equal(session.timeline.losses, losses)
    assert session.overrides == []
    assert session.compare(branch)["W1"].values[0] is not None
    assert np.isfinite(branch.timeline.norms("W1")[2]).all()


def test_a_loop_is_opened_at_a_run() -> None:
    def power(w: Any) -> Any:
        return wb.scan(lambda h: w * h, initial=[w], n_steps=4)[-1]

    session = wb.Session(wb.trace(power)(2.0))
    for w in (2.0, 3.0, 5.0):
        session.run(w=w)
    inside = session.at(2).open_inside([(1, 1)])
    assert inside.forward.graph.nodes[-1].value == 3.0**3


def test_draws_that_are_made_anew_cannot_be_shown_again() -> None:
    rng = wb.random.Generator(np.random.default_rng(0))

    def walk(x: Any) -> Any:
        return wb.scan(lambda h: h + rng.normal(), initial=[x], n_steps=3)[-1]

    session = wb.Session(wb.trace(walk)(1.0))
    session.run(x=2.0)
    with pytest.raises(UsageError, match=r"ad\.at\(1\).*draws random numbers"):
        session.at(1)


# What is kept


def test_the_memory_is_bounded_and_says_what_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", 20 * 800)
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(100)))
    for step in range(1, 201):
        session.run(x=np.full(100, float(step)))
    inputs = session.timeline.inputs
    assert inputs.bytes <= 20 * 800
    assert 10 <= len(inputs.steps) <= 21
    assert inputs.steps[0] == 1
    assert inputs.steps[-1] == 200
    assert np.diff(inputs.steps).max() <= 200 / 5
    missing = next(s for s in range(1, 200) if s not in inputs.steps)
    with pytest.raises(UsageError, match=rf"ad\.at\({missing}\).*are not kept.*0 MB"):
        session.at(missing)
    for step in inputs.steps:
        assert session.at(step).values["x"][0] == step
    assert session.at(-1).values["x"][0] == 200


def test_inputs_that_have_no_room_are_not_kept() -> None:
    kept = KeptInputs(budget=100)
    for step in range(1, 6):
        kept.add(RunInputs(step, {0: np.ones(50)}, (), 0.0, 0.0), pinned=step == 3)
    assert kept.steps == [5]
    assert kept.bytes == 0


def test_marked_runs_stay_and_the_ones_before_them() -> None:
    kept = KeptInputs(budget=10 * 80)
    for step in range(1, 301):
        kept.add(RunInputs(step, {0: np.ones(10)}, (), 0.0, 0.0), pinned=step == 77)
    assert {1, 76, 77, 300} <= set(kept.steps)
    assert kept.bytes <= 800


def test_an_array_of_several_runs_counts_once() -> None:
    data = np.ones(1000)
    kept = KeptInputs()
    for step in range(1, 11):
        values = {0: data, 1: np.ones(1)}
        kept.add(RunInputs(step, values, (), 0.0, 0.0), pinned=False)
    assert kept.bytes == 9 * 8


# The first bad run


def diverge(session: wb.Session, count: int = 20) -> None:
    """Train log(w) with a step that is far too long: w is below 0 at the second run."""
    w = np.array([0.5, 2.0])
    with np.errstate(all="ignore"):
        for _ in range(count):
            session.run(w=w)
            w = w - 10.0 * session.grads["w"]


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_the_doctor_begins_at_the_first_bad_run(backend: str) -> None:
    graph = wb.trace(lambda w: np.sum(np.log(w) ** 2 + w))(np.ones(2))
    session = wb.Session(graph, backend=backend)
    session.wait(60)
    diverge(session)
    bad = session.timeline.first_bad
    assert bad is not None
    assert (bad.step, bad.node) == (2, session.nodes.find("log 1"))
    found = session.diagnose()
    assert found.step == 2
    assert "at step 2 of 20" in str(found)
    assert found[0].node.op.name == "log"
    assert "w holds" not in str(found)
    assert session.stale == frozenset()


def test_a_gradient_that_is_seen_late_is_blamed_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.session import timeline

    graph = wb.trace(lambda w: np.sum(np.sqrt(w)))(np.ones(2))
    session = wb.Session(graph)
    session.run(w=np.ones(2))
    monkeypatch.setattr(timeline, "GRACE", -1.0)
    monkeypatch.setattr(timeline, "SHARE", 0.0)
    with np.errstate(all="ignore"):
        session.run(w=np.array([0.0, 1.0]))
        session.run(w=np.ones(2) - session.grads["w"])
    bad = session.timeline.first_bad
    assert bad is not None
    assert (bad.step, bad.node) == (2, session.nodes.find("sqrt 1"))
    assert session.diagnose()[0].kind == "infinite-slope"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_input_that_is_fed_back_is_not_blamed(bad: float) -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(w**2))(np.ones(2)))
    session.run(w=np.ones(2))
    session.run(w=np.array([bad, 1.0]))
    bad_step = session.timeline.first_bad
    assert bad_step is not None
    assert bad_step.node == session.nodes.find("w")
    (finding,) = session.diagnose()
    assert finding.title == "w is not finite since step 2"
    assert "lines of the loop" in finding.cause
    assert "np.where" not in str(finding)


def test_data_that_is_bad_from_the_start_is_blamed() -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(w**2))(np.ones(2)))
    session.run(w=np.array([np.nan, 1.0]))
    session.run(w=np.array([np.nan, 1.0]))
    found = session.diagnose()
    assert found.step == 1
    assert "w holds" in found[0].title


def test_the_doctor_looks_at_the_first_bad_run_with_the_overrides_of_now() -> None:
    graph = wb.trace(lambda w: np.sum(np.sqrt(w)))(np.ones(2))
    session = wb.Session(graph)
    with np.errstate(all="ignore"):
        session.run(w=np.ones(2))
        session.run(w=np.array([0.0, 1.0]))
        session.run(w=np.ones(2) - session.grads["w"])
    session.fix(session.diagnose()[0])
    assert [one.severity for one in session.diagnose() if one.severity == "error"] == []
    assert session.findings is not None
    assert session.findings.step == 2


def test_a_session_that_is_well_again_is_examined_as_it_is() -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(np.log(w)))(np.ones(2)))
    with np.errstate(all="ignore"):
        session.run(w=-np.ones(2))
        session.run(w=np.ones(2))
    assert session.timeline.first_bad is not None
    assert session.timeline.first_bad.step == 1
    assert session.diagnose().step is None


# Many runs, many marks, and branches


def add_runs(kept: KeptInputs, first: int, last: int, pinned: set[int]) -> None:
    for step in range(first, last + 1):
        run = RunInputs(step, {0: np.full(1000, step)}, (), 0.0, 0.0)
        kept.add(run, pinned=step in pinned)


def test_of_more_runs_than_are_kept_every_second_one_stays() -> None:
    kept = KeptInputs()
    for step in range(1, 3001):
        kept.add(RunInputs(step, {0: step}, (), 0.0, 0.0), pinned=step == 948)
    steps = kept.steps
    assert {1, 947, 948, 3000} <= set(steps)
    most = kept_inputs.MOST_RUNS
    assert most // 2 <= len(steps) <= most
    assert np.diff(steps).max() <= 4


def test_runs_with_a_mark_leave_room_for_later_ones() -> None:
    kept = KeptInputs(budget=50 * 8000)
    add_runs(kept, 1, 100, pinned=set(range(1, 101)))
    add_runs(kept, 101, 3000, pinned=set())
    assert 20 <= len(kept.steps) <= 51
    assert {1, 2, 3} <= set(kept.steps)
    assert np.diff([s for s in kept.steps if s > 100]).max() <= 3000 / 10
    assert kept.bytes <= 50 * 8000


def test_changes_of_overrides_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", 20 * 800)
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(100)))
    one = session.override("tanh", "2 * d")
    for step in range(1, 201):
        if step <= 100:
            session.switch(one, step % 2 == 0)
        session.run(x=np.full(100, step / 100))
    assert np.diff(session.timeline.inputs.steps).max() <= 200 / 5


def test_a_nan_is_marked_after_any_number_of_changes() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(2)))
    one = session.override("log", "2 * d")
    for step in range(150):
        session.switch(one, step % 2 == 0)
        session.run(x=np.ones(2))
    with np.errstate(all="ignore"):
        session.run(x=-np.ones(2))
    assert session.timeline.first_bad is not None
    assert session.timeline.first_bad.step == 151
    kinds = [mark.kind for mark in session.timeline.marks]
    assert kinds.count("overrides") <= 64


def test_a_run_whose_gradient_was_not_measured_is_not_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.session import timeline

    monkeypatch.setattr(timeline, "GRACE", -1.0)
    monkeypatch.setattr(timeline, "SHARE", 0.0)
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    for x in (1.0, 2.0, 3.0):
        session.run(x=np.full(2, x))
    assert np.isnan(session.timeline.gradients[1])
    assert not session.at(2).timeline.is_bad


def test_an_output_that_is_not_one_number_is_well_again() -> None:
    session = wb.Session(wb.trace(lambda x: np.log(x))(np.ones(2)), seed=np.ones(2))
    with np.errstate(all="ignore"):
        for x in (1.0, 0.0, 3.0, 4.0, 5.0):
            session.run(x=np.full(2, x))
    assert [session.at(step).timeline.is_bad for step in (1, 2, 4)] == [
        False, True, False,
    ]  # fmt: skip
    assert session.at(4).diagnose().step is None


def test_what_happens_on_a_branch_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.session import timeline

    monkeypatch.setattr(timeline, "GRACE", 1e9)  # all is kept, however long runs take
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    for step in range(10):
        session.run(x=np.full(2, 1.0 + step))
    for _ in range(10):
        session.run(x=np.full(2, 1e6))
    with np.errstate(all="ignore"):
        session.run(x=np.full(2, np.nan))
    branch, bad = session.at(10), session.at(21)
    branch.run(x=np.full(2, 1e6))
    assert [mark.kind for mark in branch.timeline.marks] == ["explosion"]
    branch.run(x=np.full(2, np.nan))
    assert [mark.kind for mark in branch.timeline.marks] == ["explosion", "nan"]
    assert bad.timeline.is_bad


def test_a_gradient_is_blamed_although_overrides_changed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.session import timeline

    session = wb.Session(wb.trace(lambda w: np.sum(np.sqrt(w)))(np.ones(2)))
    session.run(w=np.ones(2))
    monkeypatch.setattr(timeline, "GRACE", -1.0)
    monkeypatch.setattr(timeline, "SHARE", 0.0)
    with np.errstate(all="ignore"):
        session.run(w=np.array([0.0, 1.0]))
        w = np.ones(2) - session.grads["w"]
        session.override("sqrt", "clip(d, -1, 1)")
        session.run(w=w)
    bad = session.timeline.first_bad
    assert bad is not None
    assert (bad.step, bad.node) == (2, session.nodes.find("sqrt 1"))
    assert session.at(2).timeline.is_bad


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_a_branch_computes_with_the_constants_of_its_run(backend: str) -> None:
    weights = wb.constant(np.ones(3))
    graph = wb.trace(lambda x: np.sum(np.sin(x) * weights))(np.ones(3))
    session = wb.Session(graph, backend=backend, wrt=["x"])
    (constant,) = [name for name in session.nodes.inputs if name != "x"]
    for factor in (2.0, 10.0):
        session.run({constant: np.full(3, factor)}, x=np.full(3, 0.5))
        session.run(x=np.full(3, 0.5))
        assert session.wait(60)
    branch = session.at(2)
    for x in (1.0, 0.25):
        value = branch.run(x=np.full(3, x))
        np.testing.assert_allclose(value, 6 * np.sin(x))
        np.testing.assert_allclose(branch.grads["x"], 2 * np.cos(x))
    np.testing.assert_allclose(session.run(x=np.ones(3)), 30 * np.sin(1.0))


# What is asked of a run


@pytest.mark.parametrize("step", [0, 4, 999, -4])
def test_a_run_that_there_was_not_is_refused_in_words(step: int) -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x))(np.ones(2)))
    for x in (1.0, 2.0, 3.0):
        session.run(x=np.full(2, x))
    with pytest.raises(UsageError, match=rf"at\({step}\): there were 3 runs, counted"):
        session.at(step)


@pytest.mark.parametrize("step", ["2", None, True, 2.0])
def test_a_run_is_an_integer(step: Any) -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x))(np.ones(2)))
    session.run(x=np.ones(2))
    for ask in (session.at, session.find_view):
        with pytest.raises(UsageError, match="an integer counted from 1"):
            ask(step)


def test_the_last_run_is_another_one_after_a_run() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
    session.run(x=np.full(2, 1.0))
    assert float(session.find_view(-1).value) == 2.0
    session.run(x=np.full(2, 2.0))
    assert float(session.find_view(-1).value) == 8.0
    assert session.find_view(-1) is session.find_view(2)


@pytest.mark.parametrize(("budget", "stays"), [(10**6, True), (30_000, False)])
def test_what_was_computed_of_runs_has_room_in_the_budget(
    monkeypatch: pytest.MonkeyPatch, budget: int, stays: bool
) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BYTES", budget)
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(1000)))
    for x in (1.0, 2.0, 3.0):
        session.run(x=np.full(1000, x))
    views = [session.find_view(step) for step in (1, 2)]
    for view in views:
        assert view.grads["x"].shape == (1000,)
    last = session.find_view(3)
    assert last.grads["x"].shape == (1000,)
    assert session.find_view(3) is last
    assert (session.find_view(1) is views[0]) == stays


def test_findings_of_another_first_bad_run_are_stale() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(2)))
    with np.errstate(all="ignore"):
        for x in (1.0, -1.0):
            session.run(x=np.full(2, x))
        assert session.diagnose().step == 2
        session.run(x=np.full(2, -2.0))
        assert session.stale == frozenset()
        for x in (1.0, -1.0):
            session.run(x=np.full(2, x))
    assert session.timeline.first_bad is not None
    assert session.timeline.first_bad.step == 5
    assert session.stale == {"findings"}


def test_the_fix_of_an_earlier_finding_is_attached() -> None:
    session = wb.Session(wb.trace(lambda w: np.sum(np.sqrt(w)))(np.ones(2)))
    with np.errstate(all="ignore"):
        session.run(w=np.ones(2))
        session.run(w=np.array([0.0, 1.0]))
        session.run(w=np.ones(2) - session.grads["w"])
        found = session.diagnose()
        session.diagnose()
        entry = session.fix(found[0])
    assert not isinstance(entry, str)
    assert entry.matched == (session.nodes.find("sqrt 1"),)


def test_a_line_beyond_all_numbers_is_refused_in_words() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x))(np.ones(2)))
    with pytest.raises(OverrideError, match="nothing in session"):
        session.override("v@" + "9" * 5000, "2 * d")
