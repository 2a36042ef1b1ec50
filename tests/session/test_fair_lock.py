"""Threads and interrupts: a session is whole whenever one comes, and free for others.

An interrupt is a real signal at a random moment, as a press on Stop is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import NAMES, fresh
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
