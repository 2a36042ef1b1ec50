"""Every check ends on time, finds what is wrong, and says what it has not looked at."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.scipy.stats as stats
from workbench.checks import progress
from workbench.checks.progress import ProgressMeter
from workbench.checks.step_sweep import sweep_node
from workbench.errors import GradientError, UsageError
from workbench.gradient import verify_grad
from workbench.session.wire import take_snapshot


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look at the clock take a second: no test depends on real time."""
    monkeypatch.setattr(progress, "clock", count().__next__)


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often a check computes something."""
    seen: list[int] = []
    tick = ProgressMeter.tick

    def counted(meter: ProgressMeter) -> None:
        seen.append(1)
        tick(meter)

    monkeypatch.setattr(ProgressMeter, "tick", counted)
    return seen


def process(n: int, weigh: Callable[[Any], Any] = lambda K: K) -> Any:
    """Return a Gaussian process of n points as a session; its matrix is (n, n)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.sin(X[:, 0])

    def loss(p: Any) -> Any:
        s = X / np.exp(p[3:])
        d = np.expand_dims(s, 1) - np.expand_dims(s, 0)
        K = np.exp(p[2]) * np.exp(-0.5 * np.sum(d**2, axis=2))
        K = weigh(K) + (np.exp(p[1]) + 1e-4) * np.eye(n)
        return -stats.multivariate_normal.logpdf(y, p[0] * np.ones(n), K)

    return wb.Session(wb.trace(loss)(0.1 * rng.normal(size=5)))


class ScaledForBudget(wb.Op):
    """Twice its operand, with a rule that is wrong at some entry."""

    def __init__(self, wrong: tuple[int, ...]) -> None:
        self.wrong = wrong

    def compute(self, x: Any) -> Any:
        return 2 * x

    def vjp(self, node: Any, g: Any) -> Any:
        factor = np.full(node.inputs[0].shape, 2.0)
        factor[self.wrong] = 3.0
        return (g * factor,)


# The work


def test_the_work_hardly_grows_with_the_entries(ticks: list[int]) -> None:
    counts = []
    for n in (30, 120):
        ticks.clear()
        report = process(n).check(seed=1, budget=None)
        assert report.ok
        assert not report.spent
        counts.append(len(ticks))
    assert counts[1] < 1.5 * counts[0]  # of sixteen times as many entries


@pytest.mark.parametrize("wrong", [(3, 5), (59, 0)])
def test_one_wrong_entry_of_thousands_is_found(wrong: tuple[int, int]) -> None:
    report = process(60, ScaledForBudget(wrong)).check(budget=None)
    [faulty] = report.faulty
    assert faulty.node.op.name == "scaled_for_budget"
    assert faulty.entry is not None
    assert faulty.entry.index == wrong
    assert faulty.entry.numeric == pytest.approx(2)
    assert faulty.entry.analytic == pytest.approx(3)


def test_check_grads_looks_along_a_direction_of_all_entries() -> None:
    scaled = ScaledForBudget((4321,))
    report = wb.check_grads(lambda x: np.sum(np.sin(x)), np.ones(5000), order=1)
    assert [one.name for one in report.identities][-1] == (
        "the gradient by x, all entries along a direction"
    )
    with pytest.raises(GradientError, match=r"scaled.*x\[4321\]"):
        wb.check_grads(lambda x: np.sum(scaled(x)), np.ones(5000), order=1, entries=4)


# The budget


def test_a_meter_goes_on_after_a_part_that_was_too_long(steady: None) -> None:
    done = []
    with ProgressMeter(None, budget=100) as meter:

        def endless() -> None:
            while True:
                progress.tick()

        assert not meter.attempt("the first", endless, 0.5)
        assert meter.attempt("the second", lambda: done.append(1))
        assert not meter.attempt("the third", endless)
        assert not meter.attempt("the last", lambda: done.append(2))
    assert done == [1]
    assert [str(one) for one in meter.unchecked] == [
        "the first", "the third", "the last",
    ]  # fmt: skip
    assert {one.reason for one in meter.unchecked} == {"budget"}
    assert not meter.stopped


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), "long"])
def test_a_budget_is_above_0(bad: Any) -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.sin(x)))(np.ones(3)))
    for check in (
        lambda: session.check(budget=bad),
        lambda: session.diagnose(budget=bad),
        lambda: wb.check_grads(np.sin, 1.0, budget=bad),
        lambda: wb.diagnose(np.sin, 1.0, budget=bad),
        lambda: verify_grad(np.sin, [np.ones(3)], budget=bad),
    ):
        with pytest.raises(UsageError, match="a number of seconds above 0"):
            check()


def test_a_session_tells_what_it_has_not_looked_at(steady: None) -> None:
    session = process(40)
    report = session.check(budget=1500)
    assert report.ok
    assert report.spent
    assert not report.stopped
    left = [one.what for one in report.unchecked if one.reason == "budget"]
    assert left
    # A slow node leaves time for others, and they for the gradients as a whole.
    assert report.counts["right"] > 5
    assert len(report.comparisons) + len(report.identities) > 0
    # Each node by the name that the picture has for it.
    checked = {report.labels[one.node.serial] for one in report.nodes}
    left_out = set(session.nodes.labels) & set(left)
    assert left_out
    assert checked.isdisjoint(left_out)
    assert "not looked at: the budget of 1500 s is spent" in report.summary()
    assert left[0] in str(report)
    assert left[0] in report._repr_html_()
    header = take_snapshot(session).header
    assert header["check"]["unchecked"] == report.describe_unchecked()
    assert not session.check(budget=None).spent


def test_a_search_that_is_cut_short_still_says_that_the_rule_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.checks import check_rule

    def cut(*_: Any) -> int:
        raise progress.BudgetSpent

    monkeypatch.setattr(check_rule, "find_by_halving", cut)
    report = process(40, ScaledForBudget((3, 5))).check()
    [faulty] = report.faulty
    assert faulty.entry is not None
    assert faulty.entry.along
    assert faulty.entry.place.endswith("along a direction")
    assert "was not found in time" in faulty.text


def test_check_grads_tells_what_it_has_not_looked_at(steady: None) -> None:
    x = np.linspace(0.1, 1, 200)
    report = wb.check_grads(lambda x: np.sum(np.sin(x) / x), x, budget=400)
    assert report.spent
    left = [str(one) for one in report.unchecked]
    assert any("of 64 chosen entries of x" in one for one in left)
    assert "derivatives of order 2 over rev" in left
    assert 0 < len(report.comparisons[0].entries) < 64
    assert not wb.check_grads(np.sin, x, budget=None).unchecked


def test_the_doctor_tells_what_it_has_not_looked_at(steady: None) -> None:
    def f(x: Any) -> Any:
        for _ in range(40):
            x = np.sin(x) + np.float32(1)
        return np.sum(x)

    x = np.ones(3, np.float32)
    found = wb.diagnose(f, x, budget=3)
    assert not found.stopped
    assert "exponentials that soon overflow" in [str(one) for one in found.unchecked]
    assert "as the budget of 3 s is spent" in repr(found)
    assert "as the budget of 3 s is spent" in found._repr_html_()
    session = wb.Session(wb.trace(f)(x))
    session.diagnose(budget=3)
    header = take_snapshot(session).header
    assert header["findings"]["unchecked"] == session.findings.describe_unchecked()
    assert not wb.diagnose(f, x, budget=None).unchecked


def test_a_fix_that_was_not_tried_is_not_offered(steady: None) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sqrt(x))

    [tried] = wb.diagnose(f, np.zeros(3), budget=None)
    assert tried.fix is not None
    # The first finding is made, whatever the time.
    found = wb.diagnose(f, np.zeros(3), budget=2)
    assert all(one.fix is None for one in found)


def test_verify_grad_warns_of_what_it_has_not_compared(steady: None) -> None:
    x = np.linspace(0.1, 1, 300)
    with pytest.warns(UserWarning, match=r"verify_grad: .* of 300 entries of pt\[0\]"):
        verify_grad(np.tanh, [x], n_tests=1, budget=900)
    wrong = ScaledForBudget((...,))
    with (
        pytest.warns(UserWarning, match="not looked at"),
        pytest.raises(GradientError),
    ):
        verify_grad(wrong, [x], n_tests=1, budget=900)


def test_a_sweep_of_steps_leaves_out_the_smallest(steady: None) -> None:
    node = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)).nodes[1]
    whole, some = sweep_node(node, budget=None), sweep_node(node, budget=60)
    assert not whole.unchecked
    assert "of 159 steps" in some.unchecked
    known = np.isfinite(some.errors["forward"])
    assert known[0]
    assert not known[-1]
    np.testing.assert_array_equal(
        some.errors["forward"][known], whole.errors["forward"][known]
    )


# Interrupts


@pytest.mark.parametrize("after", [1, 40])
def test_an_interrupt_inside_a_node_leaves_the_session_whole(after: int) -> None:
    calls = []

    class Slow(wb.Op):
        """The sine, which is interrupted at some call."""

        def compute(self, x: Any) -> Any:
            calls.append(1)
            if len(calls) == limit:
                raise KeyboardInterrupt
            return np.sin(x)

        def vjp(self, node: Any, g: Any) -> Any:
            return (g * np.cos(node.inputs[0]),)

    limit = 0
    slow = Slow()
    session = wb.Session(wb.trace(lambda x: np.sum(slow(x) ** 2))(np.ones(3)))
    before = session.grads["x"].copy()
    calls.clear()
    assert session.check(seed=0).ok
    total = len(calls)
    limit, _ = min(total - 1, 2 + after), calls.clear()
    try:
        report = session.check(seed=0)
    except KeyboardInterrupt:  # before there was anything to report
        assert after == 1
    else:
        assert report.stopped
        assert any(one.reason == "stopped" for one in report.unchecked)
        assert "not looked at, as it was stopped" in str(report)
    limit = 0
    assert session.check(seed=0).counts == {"right": 3}
    np.testing.assert_array_equal(session.grads["x"], before)
