"""What a session remembers of its runs: norms, losses, marks, within bounds."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import B1, B2, W1, W2, X, by_hand, fresh
from workbench.checks.statistics import compute_norms
from workbench.errors import UnknownNodeError, UsageError
from workbench.session import timeline
from workbench.session.timeline import thin_losses


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let norms take any time, so that no test depends on the machine."""
    monkeypatch.setattr(timeline, "SHARE", 1e9)


@pytest.fixture
def model() -> wb.Session:
    return fresh()


def train(model: wb.Session, count: int, rate: float = 0.5) -> list[dict[str, Any]]:
    """Descend for some steps from the session's own weights; those of each step."""
    weights = {name: model.values[name] for name in model.grads}
    seen = []
    for _ in range(count):
        model.run(weights)
        seen.append(dict(weights))
        weights = {k: w - rate * model.grads[k] for k, w in weights.items()}
    return seen


def loss_by_hand(weights: dict[str, Any]) -> float:
    h = np.tanh(X @ weights["W1"] + weights["b1"])
    z = h @ weights["W2"] + weights["b2"]
    t = np.array([1.0, 0.0, 1.0, 0.0])
    return float(np.mean(np.logaddexp(0, z) - t * z))


def test_each_run_is_remembered_by_its_norms(model: wb.Session) -> None:
    start = {"W1": W1, "b1": B1, "W2": W2, "b2": B2}
    for step in (1, 2, 3):
        model.run(W1=step * W1)
    line = model.timeline
    assert list(line) == [1, 2, 3]
    assert len(line) == line.count == 3
    for step in (1, 2, 3):
        moment, true = line[step], by_hand(lambda g, d, x, y: d, step * W1)
        loss = loss_by_hand({**start, "W1": step * W1})
        assert moment.loss == pytest.approx(loss)
        assert moment.values["W1"] == pytest.approx(step * np.linalg.norm(W1))
        for name in ("W1", "b1", "W2", "h"):
            norm = np.linalg.norm(np.ravel(true[name]))
            assert moment.gradients[name] == pytest.approx(norm), name
        assert "X" not in moment.gradients, "it has no gradient"
    sizes = [np.sqrt(sum(line[s].gradients[k] ** 2 for k in model.grads)) for s in line]
    np.testing.assert_allclose(line.gradients, sizes)
    np.testing.assert_allclose(line.losses, [line[s].loss for s in line])


def test_a_node_over_time(model: wb.Session) -> None:
    seen = train(model, 30)
    steps, values, gradients = model.timeline.norms("W2")
    np.testing.assert_array_equal(steps, np.arange(1, 31))
    want = [np.linalg.norm(weights["W2"]) for weights in seen]
    np.testing.assert_allclose(values, want)
    assert gradients[-1] < gradients[0]
    assert np.isnan(model.timeline.norms("X")[2]).all()
    losses = [loss_by_hand(weights) for weights in seen]
    np.testing.assert_allclose(model.timeline.losses, losses)


def test_edges_are_remembered_too(model: wb.Session) -> None:
    model.run(W1=2 * W1)
    backward = model.require_backward()
    found = model.timeline.read_norms(1)
    flows = ~np.isnan(backward.edge_norms)
    np.testing.assert_array_equal(found.edges[flows], backward.edge_norms[flows])
    assert (found.edges[~flows] == timeline.MISSING).all()


def test_slices_and_numbers_from_the_end(model: wb.Session) -> None:
    train(model, 10)
    line = model.timeline
    assert [m.step for m in line[3:6]] == [3, 4, 5]
    assert [m.step for m in line[-2:]] == [9, 10]
    assert [m.step for m in line[:]] == list(line)
    assert line[-1].step == 10
    assert line.find_nearest(99).step == 10


def test_what_is_not_there(model: wb.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(model.timeline) == "<timeline: no steps yet>"
    assert [len(part) for part in model.timeline.norms("h")] == [0, 0, 0]
    with pytest.raises(UsageError, match=r"model\.timeline is empty.*model\.run\("):
        model.timeline.find_nearest(1)
    monkeypatch.setattr(timeline, "SHARE", 0.0)
    monkeypatch.setattr(timeline, "GRACE", -1.0)
    train(model, 9)
    line = model.timeline
    assert list(line) == [1, 9], "the first and the last, whatever they take"
    assert line.steps.tolist() == list(range(1, 10)), "but the loss of each"
    assert np.isfinite(line.losses).all()
    with pytest.raises(UnknownNodeError, match=r"\[4\].*of 1 and 9.*find_nearest\(4\)"):
        line[4]
    for step in (0, 10, -3):
        with pytest.raises(KeyError, match=r"there were 9 runs, counted from 1"):
            line[step]
    with pytest.raises(UsageError, match=r"\[0:9:2\].*\[start:stop\]"):
        line[0:9:2]
    with pytest.raises(UnknownNodeError, match="nowhere"):
        line.norms("nowhere")


def test_a_long_training_is_thinned_and_not_cut(
    model: wb.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MOST_MOMENTS", 16)
    monkeypatch.setattr(timeline, "MOST_LOSSES", 64)
    train(model, 400, 0.01)
    line = model.timeline
    steps = list(line)
    assert 8 <= len(steps) <= 16
    assert steps[0] == 1
    assert steps[-1] == 400
    gaps = np.diff(steps)
    assert gaps.max() <= 400 / 4, "no part of it is lost"
    assert len(line.losses) <= 64
    assert line.steps[0] <= 8
    assert line.steps[-1] == 400
    assert (np.diff(line.steps) > 0).all()
    # What is kept is what there was: the same as at a session that runs it alone.
    other = fresh()
    seen = train(other, 400, 0.01)
    for step in steps:
        assert line[step].loss == pytest.approx(loss_by_hand(seen[step - 1]))


def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_BYTES", 20_000)
    model = fresh()
    weights = model.values["W1"]
    for _ in range(200):
        model.run(W1=weights)
    kept = model.timeline._kept
    assert kept.rows.nbytes <= 20_000
    assert len(kept.steps) >= timeline.LEAST_MOMENTS


def test_a_peak_survives_thinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_LOSSES", 40)
    model = wb.Session(wb.trace(lambda x: np.sum(x * x))(np.ones(1)))
    for step in range(1, 1001):
        model.run(x=np.array([30.0 if step == 357 else 1.0 + step / 1000]))
    line = model.timeline
    assert line.losses[line.steps == 357].tolist() == [900.0]
    assert 20 <= len(line.losses) <= 40


def test_thinning_keeps_a_nan() -> None:
    table = [x for k in range(8) for x in (k, np.nan if k == 5 else k % 3, 0.0)]
    left = np.array(thin_losses(timeline.array("d", table))).reshape(-1, 3)
    assert left[:, 0].tolist() == [0.0, 2.0, 5.0, 6.0]


# Marks


def test_the_first_nan_is_marked_with_its_node() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x) * 2.0)

    model = wb.Session(wb.trace(f)(np.ones(4)))
    with np.errstate(all="ignore"):
        for low in (1.0, 0.5, -1.0, -2.0, 1.0, -1.0):
            model.run(x=np.array([low, 1.0, low, 2.0]))
    marks = model.timeline.marks
    assert [(m.step, m.kind) for m in marks] == [(3, "nan"), (6, "nan")]
    (node,) = (i for i, x in enumerate(model.graph.nodes) if x.op.name == "log")
    assert marks[0].node == node
    assert marks[0].text == f"NaN in the value of log {node}: 2 of 4 entries"
    assert np.isnan(model.timeline[3].values[f"log {node}"])
    assert "2 marks" in repr(model.timeline)


def test_a_nan_of_the_backward_sweep_is_marked() -> None:
    model = wb.Session(wb.trace(lambda x: np.sum(np.sqrt(x)))(np.ones(2)))
    with np.errstate(all="ignore"):
        model.run(x=np.array([0.0, 1.0]))
    (mark,) = model.timeline.marks
    assert mark.node == model.nodes.find("sqrt 1"), "whose rule is to blame"
    text = "infinity in the gradient of x: 1 of 2 entries, by the rule of sqrt 1"
    assert mark.text == text


def test_an_explosion_is_marked_once() -> None:
    model = wb.Session(wb.trace(lambda x: np.sum(x * x))(np.ones(1)))
    sizes = [1.0] * 10 + [10.0**k for k in range(1, 8)] + [1e7] * 3
    for size in sizes:
        model.run(x=np.array([size]))
    (mark,) = model.timeline.marks
    assert mark.kind == "explosion"
    assert 10 < mark.step <= 14
    assert mark.step in model.timeline
    assert "100 times" in mark.text


def test_a_steady_fall_is_no_explosion(model: wb.Session) -> None:
    train(model, 60)
    assert model.timeline.marks == []


def test_overrides_are_marks_and_edits_are_history(model: wb.Session) -> None:
    train(model, 3)
    model.override("tanh", "zeros_like(d)")
    assert model.timeline.count == 3, "an edit is no run"
    assert model.timeline[3].gradients["W1"] > 0, "with the overrides that held"
    train(model, 2)
    model.undo()
    train(model, 1)
    marks = model.timeline.marks
    assert [(m.step, m.kind) for m in marks] == [(4, "overrides"), (6, "overrides")]
    assert marks[0].text == "with 1 override from here on"
    assert model.timeline[4].gradients["W1"] == 0
    assert len(model.history.done) == 0
    assert model.history.undone == ["stop on every tanh"]


def test_marks_survive_thinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_MOMENTS", 12)
    model = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(1)))
    with np.errstate(all="ignore"):
        for step in range(1, 301):
            model.run(x=np.array([-1.0 if step == 77 else 1.0]))
    assert 77 in model.timeline
    assert len(model.timeline) <= 12


# Beside other things of a session


def test_a_failing_run_is_not_remembered(model: wb.Session) -> None:
    train(model, 2)
    with pytest.raises(wb.errors.ShapeError):
        model.run(W1=np.ones(7))
    assert model.timeline.count == 2


def test_a_copy_remembers_its_own_runs(model: wb.Session) -> None:
    train(model, 2)
    copy = model.make_copy()
    copy.run(W1=W1)
    assert (copy.timeline.count, model.timeline.count) == (3, 2)


def test_a_seed_has_no_loss() -> None:
    model = wb.Session(wb.trace(np.tanh)(np.ones(3)), seed=np.ones(3))
    model.run({model.wrt[0]: np.zeros(3)})
    line = model.timeline
    assert np.isnan(line.losses).all()
    assert line.marks == []
    assert line.gradients[0] == pytest.approx(np.sqrt(3))
    assert repr(line) == "<timeline: 1 step>"


def test_compiled_code_remembers_what_it_computes() -> None:
    pytest.importorskip("llvmlite")
    graph = wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(3))
    model = wb.Session(graph, backend="compiled")
    model.wait()
    for size in (1.0, 2.0, 3.0):
        model.run(x=np.full(3, size))
        if size == 2:
            assert model.values["tanh 1"][0] == np.tanh(2), "somebody looks"
            assert model.backward is not None
    line = model.timeline
    for step in (1, 2, 3):
        y = np.tanh(np.full(3, float(step)))
        want = np.linalg.norm(2 * y * (1 - y**2))
        assert line[step].gradients["x"] == pytest.approx(want)
        assert line[step].loss == pytest.approx(np.sum(y * y))
    assert "tanh 1" not in line[1].values
    want = np.linalg.norm(np.tanh(np.full(3, 2.0)))
    assert line[2].values["tanh 1"] == pytest.approx(want)


def test_norms_of_all_kinds_of_arrays() -> None:
    arrays = [
        np.array([3.0, 4.0]),
        np.full((2, 2), 1e200),
        np.full(4, 1e-200),
        np.zeros(3),
        np.zeros((0, 2)),
        np.arange(12.0).reshape(3, 4).T,
        np.array([3, 4], np.float32),
        np.array([3, -4]),
        np.array([3 + 4j]),
        np.array([1.0, np.inf]),
        np.float64(-2.0),
        (np.array([3.0]), np.array([4.0])),
        None,
    ]
    want = [5, 2e200, 2e-200, 0, 0, np.sqrt(506), 5, 5, 5, np.inf, 2, 5, -1]
    np.testing.assert_allclose(compute_norms(arrays, -1.0), want)
    assert np.isnan(compute_norms([np.array([np.nan, 1.0])])).all()


@pytest.mark.skipif(
    importlib.util.find_spec("pandas") is not None, reason="pandas is installed"
)
def test_without_pandas_it_says_what_there_is(model: wb.Session) -> None:
    with pytest.raises(UsageError, match=r"pip install pandas.*timeline\.losses"):
        model.timeline.to_dataframe()


def test_a_table_of_pandas(model: wb.Session) -> None:
    pytest.importorskip("pandas")
    train(model, 4)
    table = model.timeline.to_dataframe()
    assert table.index.tolist() == [1, 2, 3, 4]
    norms = model.timeline.norms("W2")[2]
    np.testing.assert_array_equal(table["gradient", "W2"], norms)
    np.testing.assert_array_equal(
        table["loss"].to_numpy().ravel(), model.timeline.losses
    )


def test_an_interrupt_in_the_first_run_leaves_a_session_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(timeline, "measure_norms", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.run(x=np.zeros(2))
    assert session.run(x=np.full(2, 3.0)) == 18
    assert session.timeline[-1].loss == 18


def test_a_gradient_whose_norm_overflows_is_a_mark() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * 1.5e308) + np.sum(y * 1.5e308)

    session = wb.Session(wb.trace(f)(np.zeros(1), np.zeros(1)))
    session.run(x=np.zeros(1))
    (mark,) = session.timeline.marks
    assert mark.text == "the norm of the gradient is beyond the largest number"


def test_an_override_after_a_compiled_run_leaves_its_norms() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x) ** 2))(np.ones(2))
    session = wb.Session(graph, backend="compiled")
    session.wait(60)
    for _ in range(3):
        session.run(x=np.full(2, 0.5))
    before = session.timeline[-1].gradients["x"]
    session.override("tanh", "100*d")
    _ = session.grads["x"]
    assert session.timeline[-1].gradients["x"] == before


def test_a_compiled_run_counts_the_entries_of_the_node_that_it_blames() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    session = wb.Session(graph, backend="compiled")
    session.wait(60)
    session.run(x=np.ones(3))
    session.run(x=np.array([np.nan, np.nan, 1.0]))
    assert session.timeline.marks[-1].text == "NaN in the value of x: 2 of 3 entries"
