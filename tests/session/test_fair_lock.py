"""Threads and interrupts: a session is whole whenever one comes, and free for others.

An interrupt is a real signal at a random moment, as a press on Stop is.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import NAMES, fresh
from workbench.session import nodes
from workbench.session.state import FairLock

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no timers on this system"
)


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """What raises a KeyboardInterrupt after so many seconds, in a second again.

    One that comes as Python frees something is ignored by Python.
    """
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        # One that comes inside of NumPy's own `errstate` leaves its settings behind,
        # and another test would miss a warning.
        with np.errstate():
            yield (
                lambda seconds: (
                    signal.setitimer(signal.ITIMER_REAL, seconds, 1) and None
                )
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(work: Callable[[], object], alarm: Any, seconds: float) -> None:
    """Do work again and again, until an interrupt comes."""
    try:
        alarm(seconds)
        while True:
            work()
    except KeyboardInterrupt:
        alarm(0)


def others_get(turns: FairLock) -> bool:
    """Whether another thread gets the lock, which nobody has any more."""
    got = []

    def take() -> None:
        with turns.lock:
            got.append(True)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(10)
    return bool(got)


def test_five_hundred_interrupts_leave_a_lock_free(
    alarm: Any, rng: np.random.Generator
) -> None:
    turns = FairLock()

    def work() -> None:
        with turns.lock, turns.lock:
            pass

    for _ in range(500):
        interrupted(work, alarm, rng.uniform(1e-5, 3e-4))
        assert others_get(turns)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_of_changes_leave_a_whole_session(
    alarm: Any, rng: np.random.Generator
) -> None:
    """Overrides, undo, redo, inputs: what is shown belongs together each time."""
    model = fresh()
    X = model.values["X"]
    one = model.override("tanh", "0.5 * d")
    rules = ["0.5 * d", "clip(d, -0.1, 0.1)", "2 * d"]

    def work() -> None:
        model.edit(one.id, str(rng.choice(rules)))
        model.undo()
        model.redo()
        model.switch(one.id, rng.random() < 0.5)
        model.run(X=X * rng.choice([0.5, 1.0]))

    for _ in range(100):
        interrupted(work, alarm, rng.uniform(1e-4, 2e-2))
        assert others_get(model._fair_lock)
        (only,) = model.overrides
        assert model.values[model.graph.nodes[-1]] == model.value
        again = fresh()
        again.run(X=model.values["X"])
        if only.enabled:
            again.override("tanh", only.rule)
        for name in NAMES:
            assert again.grads[name].tobytes() == model.grads[name].tobytes()


def test_a_loop_that_changes_a_session_lets_others_in() -> None:
    """They wait for one change or two of the loop, not for its end."""
    model = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)), name="s")
    ended, changes, waited = threading.Event(), [0], []

    def loop() -> None:
        while not ended.is_set():
            model.run(x=np.ones(2))
            changes[0] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(50):
            start = changes[0]
            with model.lock:
                waited.append(changes[0] - start)
    finally:
        ended.set()
        thread.join()
    assert sorted(waited)[25] <= 3


def test_a_check_that_is_stopped_at_once_under_an_override() -> None:
    model = fresh()
    model.override("tanh", "0.5 * d")
    report = model.check(progress=lambda done, total: True)
    assert report.stopped
    assert set(report.changed) == set(NAMES)


# The steps of a loop


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_a_step_reads_one_state_until_its_next_run() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
    model = wb.Session(graph, name="s")
    model.run(x=np.zeros(2))
    seen: dict[str, Any] = {}

    def edit() -> None:
        with model.lock:
            model.keep_step()
            model.override("tanh", "0.5 * d")
            model.keep_step()  # a second change within the same step
            model.override("tanh", "0.25 * d")
        seen["grads"] = model.grads["x"]

    in_another_thread(edit)
    np.testing.assert_array_equal(seen["grads"], [0.25, 0.25])
    np.testing.assert_array_equal(model.grads["x"], [1, 1])
    assert model.overrides == [], "half an edit is seen"
    with model.lock:
        assert len(model.overrides) == 2, "who holds the lock sees the last state"
    model.run(x=np.zeros(2))
    np.testing.assert_array_equal(model.grads["x"], [0.25, 0.25])


def test_a_change_by_the_loop_itself_keeps_those_of_others() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
    model = wb.Session(graph, name="s")
    model.run(x=np.zeros(2))

    def edit() -> None:
        with model.lock:
            model.keep_step()
            model.override("tanh", "0.5 * d")

    in_another_thread(edit)
    model.override("sum", "3 * d")
    assert [one.id for one in model.overrides] == [1, 2]
    np.testing.assert_array_equal(model.grads["x"], [1.5, 1.5])


def test_the_end_of_a_loop_ends_its_step() -> None:
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
    model = wb.Session(graph, name="s")
    model.run(x=np.zeros(2))

    def edit() -> None:
        with model.lock:
            model.keep_step()
            model.override("tanh", "0.5 * d")

    in_another_thread(edit)
    assert model.make_copy().overrides, "a copy is of the last state"
    model.end_step()
    np.testing.assert_array_equal(model.grads["x"], [0.5, 0.5])
    model.undo()
    in_another_thread(edit)
    np.testing.assert_array_equal(model.grads["x"], [0.5, 0.5])  # no loop runs


def test_no_step_of_a_loop_sees_half_an_edit() -> None:
    """Values and gradients of each step are of the same overrides, to the digit."""
    model = fresh()
    name = NAMES[0]
    start = model.values[name]
    true = {}
    for factor in (1.0, 0.5):
        if factor != 1:
            model.override("tanh", f"{factor} * d")
        true[factor] = model.grads[name].tobytes()
    model.undo()
    ended = threading.Event()

    def edit_on() -> None:
        while not ended.is_set():
            for change in (lambda: model.override("tanh", "0.5 * d"), model.undo):
                with model.lock:
                    model.keep_step()
                    change()

    thread = threading.Thread(target=edit_on)
    thread.start()
    try:
        for _ in range(100):
            model.run({name: start})
            count = len(model.overrides)
            for _ in range(4):
                time.sleep(1e-3)  # long enough for an edit
                assert len(model.overrides) == count
                found = model.grads[name].tobytes()
                assert found == true[0.5 if count else 1.0]
    finally:
        ended.set()
        thread.join()


# What the page asks is of one run, though the loop goes on


def test_a_node_is_found_after_later_runs_while_it_is_looked_at() -> None:
    model = fresh()
    model.run()
    looked_at = model.graph
    for _ in range(2):
        model.run()
    for i, node in enumerate(looked_at.nodes):
        assert model.nodes.find(node) == i


def test_labels_are_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run, while they are made, turns no input into a constant."""
    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
    graph.nodes[0].name = None
    known, model = wb.Session(graph).nodes.labels, wb.Session(graph)

    def run_first(inputs: Any) -> set[Any]:
        monkeypatch.undo()
        model.run()
        return {*inputs}

    monkeypatch.setattr(nodes, "set", run_first, raising=False)
    assert model.nodes.labels == known == ["input 0", "tanh 1", "sum 2"]
