"""Overrides of what loops and branches hold, in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError
from workbench.session.wire import take_snapshot

X = np.linspace(-1.0, 1.0, 10).reshape(5, 2)


def looped(w: Any) -> Any:
    hs = wb.scan(
        lambda x, h, w: np.tanh(w * h + x),
        sequences=[X],
        initial=[np.zeros(2)],
        non_sequences=[w],
    )
    return np.sum(hs[-1] ** 2)


def by_hand(f: Callable[[Any], Any], w: Any) -> Any:
    """The gradient step by step, with f at what flows out of each tanh."""
    hs = [np.zeros(2)]
    for x in X:
        hs.append(np.tanh(w * hs[-1] + x))
    g, by_w = 2 * hs[-1], np.zeros(2)
    for t in range(5, 0, -1):
        d = f(g * (1 - hs[t] ** 2))
        by_w += d * hs[t - 1]
        g = d * w
    return by_w


def clip(d: Any) -> Any:
    return np.clip(d, -0.01, 0.01)


def test_an_override_of_an_op_means_it_in_the_steps_of_a_loop() -> None:
    w = np.array([0.5, 0.2])
    session = wb.Session(wb.trace(looped)(w))
    one = session.override("tanh", "clip(d, -0.01, 0.01)")
    np.testing.assert_allclose(session.grads["w"], by_hand(clip, w), rtol=1e-12)
    jacobian = session.jacobian(wrt="w")
    np.testing.assert_allclose(jacobian, by_hand(clip, w), rtol=1e-12)
    # The loop bears its label in the picture; what lies before has changed.
    scan = session.nodes.find("scan 1")
    assert one.matched == (scan,)
    columns = take_snapshot(session).columns
    assert columns["override"][scan] == 0
    assert columns["change"][session.nodes.find("w")] > 0.5
    session.run(w=np.ones(2))
    g = session.grads["w"]
    np.testing.assert_allclose(g, by_hand(clip, np.ones(2)), rtol=1e-12)
    session.undo()
    g = session.grads["w"]
    np.testing.assert_allclose(g, by_hand(lambda d: d, np.ones(2)), rtol=1e-12)


def test_an_override_reaches_branches_inside_loops() -> None:
    def f(w: Any) -> Any:
        last = wb.scan(
            lambda h: wb.cond(np.sum(h) > 0, np.tanh, np.sin, h),
            initial=[w],
            n_steps=3,
        )
        return np.sum(last[-1])

    w = np.array([0.5, 0.2])
    session = wb.Session(wb.trace(f)(w))
    assert session.check_rule("tanh", "2 * d").startswith("ok")
    session.override("tanh", "2 * d")
    y, true = w, np.ones(2)
    for _ in range(3):
        y = np.tanh(y)
        true = true * (1 - y**2)
    np.testing.assert_allclose(session.grads["w"], 8 * true, rtol=1e-12)
    with pytest.raises(OverrideError, match="matches nothing in session 'ad'"):
        session.override("cosh", "d")
    np.testing.assert_allclose(session.grads["w"], 8 * true, rtol=1e-12)
