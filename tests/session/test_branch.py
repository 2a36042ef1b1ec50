"""Branches: runs made again from a past one, and conditions that stop a loop."""

import math
from functools import partial

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError
from workbench.session.branch import measure_rate
from workbench.session.wire import (
    name_branches,
    read_saved,
    save_snapshot,
    take_snapshot,
)


def loss(w, x):
    return np.sum(np.log(1 + w * x) ** 2)


def gradient(w, x):
    """The derivative by hand."""
    return 2 * np.log(1 + w * x) * x / (1 + w * x)


def train(session, w, steps, rate, x=None):
    """Run gradient descent as a user's cell does; return the weights of each run."""
    weights = []
    with np.errstate(all="ignore"):
        for k in range(steps):
            weights.append(w)
            data = {} if x is None else {"x": x[k]}
            session.run(w=w, **data)
            w = w - rate * session.grads["w"]
    return weights


def make(dtype=float):
    w, x = np.array([1.0, 0.5], dtype), np.array([2.0, 3.0], dtype)
    return wb.Session(wb.trace(loss)(w, x), wrt=["w"]), w, x


def descend(w, x, steps, rate, clip=math.inf):
    """Return the losses of the same training in plain NumPy."""
    losses = []
    for _ in range(steps):
        losses.append(loss(w, x))
        w = w - rate * np.clip(gradient(w, x), -clip, clip)
    return losses


def test_a_branch_without_a_change_is_what_was():
    session, w, _ = make()
    train(session, w, 12, 0.05)
    branch = session.run_again(4)
    assert branch.timeline.count == 12
    assert branch.branch_step == 4
    np.testing.assert_array_equal(branch.timeline.losses, session.timeline.losses)
    np.testing.assert_array_equal(branch.values["w"], session.values["w"])
    assert session.branches == [branch]


def test_a_training_that_breaks_is_run_again_with_an_override():
    session, w, x = make()
    train(session, w, 20, 2.0)
    assert session.timeline.first_bad.step == 2
    assert math.isnan(session.value)
    session.override("multiply", "clip(d, -0.1, 0.1)")
    branch = session.run_again(1)
    want = descend(w, x, 20, 2.0, 0.1)
    np.testing.assert_allclose(branch.timeline.losses, want, rtol=1e-12)
    assert not branch.timeline.is_bad
    assert math.isnan(session.value)
    changes = session.compare(20, branch)
    assert changes.before == "run 20"
    assert changes.after == "branch from run 1"


def test_a_branch_goes_on_after_the_last_run():
    session, w, x = make()
    train(session, w, 5, 0.05)
    branch = session.run_again(5, 9)
    want = descend(w, x, 9, 0.05)
    np.testing.assert_allclose(branch.timeline.losses, want, rtol=1e-13)


def test_a_run_that_is_not_kept_is_made_again_from_the_one_before():
    session, w, _ = make()
    session.timeline.inputs.budget = 400
    weights = train(session, w, 200, 0.01)
    step = next(k for k in range(50, 200) if k not in session.timeline.inputs.steps)
    branch = session.run_again(step, step)
    np.testing.assert_allclose(branch.values["w"], weights[step - 1], rtol=1e-12)
    assert branch.timeline.count == step


def test_overrides_of_the_time_hold_until_the_branch_begins():
    session, w, x = make()
    train(session, w, 3, 0.05)
    w = session.values["w"] - 0.05 * session.grads["w"]
    session.override("multiply", "2 * d")
    train(session, w, 40, 0.05)
    session.timeline.inputs.budget = 300
    while session.timeline.inputs._thin() and len(session.timeline.inputs.steps) > 6:
        pass
    step = next(k for k in range(10, 43) if k not in session.timeline.inputs.steps)
    session.undo()
    branch = session.run_again(step, step + 1)
    v, all_weights = np.array([1.0, 0.5]), []
    for k in range(step + 1):
        all_weights.append(v)
        v = v - 0.05 * gradient(v, x) * (2 if 3 <= k < step - 1 else 1)
    np.testing.assert_allclose(branch.values["w"], all_weights[step], rtol=1e-12)


def test_data_of_each_run_comes_from_the_runs_that_are_kept():
    session, w, x = make()
    data = [x * (1 + 0.1 * k) for k in range(8)]
    train(session, w, 8, 0.02, data)
    branch = session.run_again(3)
    np.testing.assert_array_equal(branch.values["x"], data[-1])
    np.testing.assert_array_equal(branch.timeline.losses, session.timeline.losses)
    with pytest.raises(UsageError, match=r"step 9 needs its own x.*update=lambda run"):
        session.run_again(3, 10)
    assert session.branches[-1].timeline.count == 8  # what it came to


def test_an_update_that_is_not_recognised_is_asked_for():
    session, w, _ = make()
    speed = np.zeros(2)
    for _ in range(6):
        session.run(w=w)
        speed = 0.9 * speed + session.grads["w"]
        w = w - 0.01 * speed
    with pytest.raises(UsageError, match=r"how the next w follows.*update=lambda run"):
        session.run_again(2)
    branch = session.run_again(
        2, 4, update=lambda run: {"w": run.values["w"] - 0.05 * run.grads["w"]}
    )
    v = session.at(2).values["w"]
    want = descend(v, session.values["x"], 3, 0.05)
    np.testing.assert_allclose(branch.timeline.losses[1:], want, rtol=1e-12)


@pytest.mark.parametrize("step", [1, 3])
def test_an_update_is_called_once_after_each_run(step):
    session, w, x = make()
    data = [x * (1 + 0.1 * k) for k in range(8)]
    train(session, w, 8, 0.02, data)
    following, seen = iter(data[step:]), []

    def update(run):
        seen.append(run.timeline.count)
        return {"x": next(following)}

    branch = session.run_again(step, update=update)
    assert seen == [*range(step, 8)]
    np.testing.assert_array_equal(branch.timeline.losses, session.timeline.losses)


def test_an_update_sees_the_overrides_of_now_at_the_first_run():
    session, w, x = make()
    train(session, w, 4, 0.05)
    session.override("multiply", "2 * d")
    branch = session.run_again(
        1, 2, update=lambda run: {"w": run.values["w"] - 0.1 * run.grads["w"]}
    )
    want = w - 0.1 * 2 * gradient(w, x)
    np.testing.assert_allclose(branch.values["w"], want, rtol=1e-13)


def test_an_update_that_returns_no_inputs_is_refused():
    session, w, _ = make()
    train(session, w, 4, 0.05)
    text = r"returns the inputs of the next run by their names, but it returned None\."
    with pytest.raises(UsageError, match=text + r".*update=lambda run: {'w': run.val"):
        session.run_again(2, update=lambda run: None)
    with pytest.raises(UsageError, match="but it is 3"):
        session.run_again(2, update=3)
    with pytest.raises(wb.errors.UnknownNodeError, match="no input is named 'q'"):
        session.run_again(2, update=lambda run: {"q": 1})


@pytest.mark.parametrize("until", [2.5, "2", True])
def test_the_last_run_is_a_number(until):
    session, w, _ = make()
    train(session, w, 4, 0.05)
    with pytest.raises(UsageError, match="until is the number of the last run"):
        session.run_again(2, until=until)


def test_a_rate_that_changes_is_said():
    session, w, _ = make()
    for k in range(4):
        session.run(w=w)
        w = w - 0.05 / (k + 1) * session.grads["w"]
    with pytest.raises(UsageError, match=r"its rate changes from 0\.0"):
        session.run_again(2)


def test_a_rate_that_changes_later_is_said():
    session, w, _ = make()
    for k in range(1, 31):
        session.run(w=w)
        w = w - (0.05 if k < 20 else 0.001) * session.grads["w"]
    with pytest.raises(UsageError, match=r"its rate changes from 0\.05 to 0\.001"):
        session.run_again(2)
    # Where the branch makes no run of the other rate, it is known.
    for step, until in ((2, 20), (20, 30)):
        losses = session.run_again(step, until).timeline.losses
        np.testing.assert_array_equal(losses, session.timeline.losses[:until])


def test_a_projection_that_begins_later_is_seen():
    session = wb.Session(wb.trace(lambda w: np.sum(w**2))(np.ones(2)))
    w = np.array([1.0, 2.0])
    for _ in range(12):
        session.run(w=w)
        w = np.maximum(w - 0.1 * session.grads["w"], 0.4)
    with pytest.raises(UsageError, match=r"how the next w follows from a run is not"):
        session.run_again(2)


def test_one_step_tells_no_rule():
    session, w, _ = make()
    train(session, w, 2, 0.05)  # momentum would look the same
    with pytest.raises(UsageError, match="only one pair of successive runs is kept"):
        session.run_again(1, 6)


def test_a_branch_is_stopped_by_its_progress():
    session, w, _ = make()
    train(session, w, 12, 0.05)
    asked = []

    def stop(done, total):
        asked.append((done, total))
        return done == 3

    branch = session.run_again(2, progress=stop)
    assert branch.timeline.count == 4
    assert asked[-1] == (3, 11)


def test_the_last_run_comes_after_the_first():
    session, w, _ = make()
    train(session, w, 4, 0.05)
    with pytest.raises(UsageError, match="its last run is 3 or later"):
        session.run_again(3, until=2)
    with pytest.raises(UsageError, match="there were 4 runs, counted from 1"):
        session.run_again(7)


def test_few_branches_are_kept():
    session, w, _ = make()
    train(session, w, 3, 0.05)
    made = [session.run_again(2) for _ in range(6)]
    assert session.branches == made[-4:]


def test_a_branch_keeps_its_name():
    session, w, _ = make()
    train(session, w, 4, 0.05)
    made = {}
    for step in (2, 2, 1, 2, 2, 2):
        branch = session.run_again(step)
        made[branch.branch_name] = branch
    assert [*made] == [
        "branch from run 2",
        "branch from run 2 (2)",
        "branch from run 1",
        "branch from run 2 (3)",
        "branch from run 2 (4)",
        "branch from run 2 (5)",
    ]
    last = dict([*made.items()][-4:])
    assert name_branches(session) == last
    data = take_snapshot(session).header["branches"]
    assert [one["name"] for one in data] == [*last]
    assert session.compare(2, session.branches[-1]).after == "branch from run 2 (5)"


def test_a_branch_of_a_copy_is_named_by_the_session_that_adopts_it():
    session, w, _ = make()
    train(session, w, 4, 0.05)
    copy = session.make_copy()
    theirs, mine = copy.run_again(2), session.run_again(2)
    session.adopt("branch", theirs, copy)
    assert name_branches(session) == {
        "branch from run 2": mine,
        "branch from run 2 (2)": theirs,
    }


def test_a_branch_without_a_run_is_not_kept():
    session, w, _ = make()
    train(session, w, 4, 0.05)
    copy, told = session.make_copy(), []
    end = session.subscribe(told.append)
    branch = copy.run_again(2, progress=lambda done, total: True)
    session.adopt("branch", branch, copy)
    assert (session.branches, told) == ([], ["branches"])
    end()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.1, 0.003, 1 / 3])
def test_the_rate_is_measured(dtype, rate):
    random = np.random.default_rng(0)
    w, g = (random.normal(size=50).astype(dtype) for _ in range(2))
    found = measure_rate(w, w - rate * g, g)
    assert found == rate or rate == 1 / 3
    np.testing.assert_allclose(found, rate, rtol=10 * np.finfo(dtype).eps)


def test_the_rate_is_measured_where_numbers_are_finite():
    w, g = np.array([1.0, 2.0]), np.array([np.inf, 4.0])
    assert measure_rate(w, w - 0.25 * g, g) == 0.25
    assert measure_rate(w, w * np.nan, g) is None
    assert measure_rate(w, w, 0 * w) is None
    assert math.isnan(measure_rate(w, w + 1, 0 * w))
    huge = partial(np.full, 2)
    assert measure_rate(w, w - 1e-200 * huge(1e200), huge(1e200)) == 1e-200


def climb(session, w, rate=0.1):
    """Run gradient ascent of w**4 until something stops it; return the error."""
    try:
        with np.errstate(all="ignore"):
            for _ in range(400):
                session.run(w=w)
                w = w + rate * session.grads["w"]
    except wb.errors.LoopStoppedError as error:
        return str(error)
    return "not stopped"


def make_quartic():
    return wb.Session(wb.trace(lambda w: np.sum((w * w) ** 2))(np.ones(2)))


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
@pytest.mark.parametrize("node", ["w", "multiply 1", None])
def test_a_loop_stops_where_a_norm_is_large(node, backend):
    graph = wb.trace(lambda w: np.sum((w * w) ** 2))(np.ones(2))
    session = wb.Session(graph, backend=backend)
    assert session.wait()
    session.stop_when(node, norm_above=40)
    w, norms = np.ones(2), []  # by hand: 4 w³, and 2 w² at the square
    for _ in range(4):
        norms.append(np.linalg.norm(2 * w**2 if node == "multiply 1" else 4 * w**3))
        w = w + 0.1 * 4 * w**3
    step = 1 + next(k for k, norm in enumerate(norms) if norm > 40)
    text = climb(session, np.ones(2))
    assert f"stopped at run {step}: the gradient of" in text
    assert f"has norm {norms[step - 1]:.4g}, above 40." in text
    mark = session.timeline.marks[-1]
    assert (mark.step, mark.kind) == (step, "stop")
    assert step in session.timeline.inputs.steps
    session.stops.clear()
    session.run(w=np.full(2, 9.0))  # goes on


def test_a_loop_stops_where_a_gradient_is_not_finite():
    session = make_quartic()
    session.stop_when("w")
    text = climb(session, np.ones(2), 1.0)
    assert "is not finite: 2 infinite of 2 entries" in text
    assert (
        session.timeline.count == 1 + session.timeline.first_bad.step
    )  # where loss is inf


def test_a_loop_stops_where_a_gradient_vanishes_or_turns():
    session = make_quartic()
    session.stop_when("w", norm_below=1e-3)
    assert "below 0.001" in climb(session, np.ones(2), -0.1)
    session.stops.clear()
    session.stop_when("w", angle_above=30)
    session.run(w=np.array([1.0, 0.0]))
    with pytest.raises(wb.errors.LoopStoppedError, match="has turned by 90°"):
        session.run(w=np.array([0.0, 1.0]))


def test_a_condition_must_say_something():
    session = make_quartic()
    with pytest.raises(UsageError, match="names no condition: add norm_above="):
        session.stop_when("w", not_finite=False)
    with pytest.raises(UsageError, match="a finite number from 0 on, not -1"):
        session.stop_when("w", norm_above=-1)
    for number in ("3", 1j, True, np.ones(2), [1], 10**400, 10**5000, np.inf, np.nan):
        with pytest.raises(UsageError, match="a finite number from 0 on, not"):
            session.stop_when("w", norm_above=number)
    with pytest.raises(UsageError, match=r"stop_when\(\['w'\]\): a condition is about"):
        session.stop_when(["w"])
    assert session.stops == []


def test_a_node_without_a_gradient_stops_no_loop():
    session, _, _ = make()
    text = r"x has no gradient, so no loop would ever stop: the gradient by w does not"
    with pytest.raises(UsageError, match=text):
        session.stop_when("x")
    session.override("multiply", "0 * d")
    session.stop_when("multiply 2")  # it has one, of 0 or not
    assert len(session.stops) == 1


def test_a_branch_is_not_stopped():
    session = make_quartic()
    session.stop_when("w", norm_above=40)
    climb(session, np.ones(2))
    assert session.run_again(1, 6).timeline.count == 6


def test_branches_stay_in_the_saved_picture():
    session, w, _ = make()
    train(session, w, 12, 0.05)
    session.override("multiply", "clip(d, -0.1, 0.1)")
    branch = session.run_again(3)
    (data,) = take_snapshot(session).header["branches"]
    assert (data["name"], data["step"], data["count"]) == ("branch from run 3", 3, 12)
    assert data["text"] == "1: clip ±0.1 on every multiply"
    assert data["losses"] == branch.timeline.losses[2:].tolist()
    saved = save_snapshot(take_snapshot(session))
    assert read_saved(saved).header["branches"] == [data]
    saved["header"]["branches"][0]["losses"].pop()
    with pytest.raises(wb.errors.SnapshotError, match="a branch of its runs"):
        read_saved(saved)
