"""`updates=` of a function: shared values are written together, or not at all."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.errors import DtypeError, ShapeError, UsageError

x = wb.scalar("x")
v = wb.vector("v", shape=3)


def test_updates_read_the_old_values_and_are_written_together() -> None:
    a, b = wb.shared(1.0, "a"), wb.shared(2.0, "b")
    swap = wb.function([], [a, b], updates=[(a, b), (b, a + b)])
    assert swap() == [1.0, 2.0]
    assert swap() == [2.0, 3.0]
    assert (a.get_value(), b.get_value()) == (3.0, 5.0)


def test_updates_by_plain_values_and_casts() -> None:
    n, w = wb.shared(3, "n"), wb.shared(np.zeros(3, np.float32), "w")
    f = wb.function([v], None, updates={n: 0, w: w + v})
    f(np.ones(3))
    assert n.get_value() == 0
    assert w.get_value().dtype == np.float32
    np.testing.assert_array_equal(w.get_value(), 1)


def test_an_update_keeps_nothing_of_the_caller() -> None:
    w = wb.shared(np.zeros(3), "w")
    f = wb.function([v], [v, w], updates={w: v})
    given = np.ones(3)
    first, _ = f(given)
    given += 5
    first += 7
    np.testing.assert_array_equal(w.get_value(), 1)


@pytest.mark.parametrize(
    ("new", "error", "told"),
    [
        (v[:2], ShapeError, "the update of the shared value 'w' float64[3]"),
        (v * 1j, DtypeError, "not cast to float64 automatically"),
        (np.ones(2), ShapeError, "shape (2,)"),
    ],
)
def test_an_update_that_does_not_fit(
    new: Any, error: type[Exception], told: str
) -> None:
    w = wb.shared(np.zeros(3), "w")
    with pytest.raises(error, match=re.escape(told)):
        wb.function([v], None, updates={w: new}, on_unused_input="ignore")


def test_a_shared_value_is_updated_once() -> None:
    w = wb.shared(0.0, "w")
    with pytest.raises(UsageError, match="is updated twice"):
        wb.function([], None, updates=[(w, w + 1), (w, w + 2)])


# Errors, interrupts, threads


def failing(error: BaseException) -> Any:
    """An op that fails when it runs."""

    def compute(value: Any) -> Any:
        raise error

    op = declare(f"failing_{type(error).__name__}_test")
    op.compute, op.infer = compute, lambda spec: spec
    return op


@pytest.mark.parametrize("error", [FloatingPointError("no"), KeyboardInterrupt()])
def test_an_error_leaves_every_shared_value(error: BaseException) -> None:
    a, b = wb.shared(1.0), wb.shared(2.0)
    bad = apply(failing(error), (x,))
    f = wb.function([x], bad, updates={a: a + 1, b: bad})
    with pytest.raises(type(error)):
        f(1.0)
    assert (a.get_value(), b.get_value()) == (1.0, 2.0)
    step = wb.function([], None, updates={a: a + 1})
    step()  # no lock is left behind
    assert a.get_value() == 2.0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals")
def test_interrupts_at_any_moment_tear_no_update() -> None:
    a, b = wb.shared(0, "a"), wb.shared(0, "b")
    step = wb.function([], [a, b], updates={a: a + 1, b: b + 1})

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(1000):
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    signal.setitimer(signal.ITIMER_REAL, (1 + i % 50) * 1e-6)
                    step()
                    step()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert a.get_value() == b.get_value()
    finally:
        signal.signal(signal.SIGALRM, before)
    other = threading.Thread(target=step, daemon=True)
    other.start()
    other.join(10)
    assert not other.is_alive()  # no lock was left behind


def test_calls_from_many_threads_lose_no_update() -> None:
    n, m = wb.shared(0, "n"), wb.shared(0, "m")
    one = wb.function([], None, updates={n: n + 1, m: m - 1})
    other = wb.function([], None, updates={m: m + 1, n: n - 1})
    both = wb.function([], n + m)
    sums: list[int] = []

    def work(f: Any) -> None:
        for _ in range(200):
            f()
            sums.append(int(both()))

    threads = [threading.Thread(target=work, args=(f,)) for f in (one, other) * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (n.get_value(), m.get_value()) == (0, 0)
    assert set(sums) == {0}  # nobody saw half of an update


def test_a_call_within_a_call() -> None:
    n = wb.shared(0, "n")
    inner = wb.function([], n, updates={n: n + 1})
    op = declare("calling_test")
    op.compute, op.infer = (lambda a: a + inner()), (lambda spec: spec)
    outer = wb.function([x], apply(op, (x,)), updates={n: n + 10})
    assert outer(1.0) == 1.0
    assert n.get_value() == 10  # computed from what it was before
