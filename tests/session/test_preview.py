"""What a node would pass on with a rule, beside what it passes on once attached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import workbench as wb
from workbench.errors import ExpressionError, OverrideError, UsageError
from workbench.session.wire import encode_preview, take_snapshot


def named(x: Any, name: str) -> Any:
    x.name = name
    return x


def model(W: Any, x: Any) -> Any:
    h = named(np.tanh(named(W @ x, "a")), "h")
    g = named(np.tanh(h * 3.0), "g")
    return named(np.sum(g * g), "loss")


W = np.linspace(-0.5, 0.7, 12).reshape(4, 3)
X = np.array([0.3, -1.0, 0.8])


@pytest.fixture
def session() -> wb.Session:
    return wb.Session(wb.trace(model)(W, X), wrt=["W"])


def passed_by_hand(clip: float | None = None) -> np.ndarray[Any, Any]:
    """What h passes on to a, with the rule clip(d, -c, c), by the chain rule."""
    h = np.tanh(W @ X)
    g = np.tanh(3 * h)
    d = 2 * g * (1 - g**2) * 3 * (1 - h**2)
    return d if clip is None else np.clip(d, -clip, clip)


def test_a_preview_is_what_the_node_passes_on_by_hand(session: wb.Session) -> None:
    found = session.preview("h", "h", "clip(d, -0.2, 0.2)")
    a = session.nodes.find("a")
    assert {*found.before} == {*found.after} == {a}
    assert_allclose(found.before[a], passed_by_hand(), rtol=1e-12)
    assert_allclose(found.after[a], passed_by_hand(0.2), rtol=1e-12)
    assert np.any(found.before[a] != found.after[a])


def test_nothing_is_attached(session: wb.Session) -> None:
    before, state = take_snapshot(session), session._state
    session.preview("h", "tanh", "clip(d, -0.2, 0.2)")
    after = take_snapshot(session)
    assert session._state is state
    assert session.overrides == []
    assert session.history.done == []
    assert_array_equal(before.columns["grad_stats"], after.columns["grad_stats"])


def test_it_is_what_comes_when_it_is_attached(session: wb.Session) -> None:
    """With other overrides in force, and with one that it replaces."""
    session.override("g", "0.5 * d", name="half")
    a = session.nodes.find("a")
    found = session.preview("h", "tanh", "3 * d")
    session.override("tanh", "3 * d")
    norms = take_snapshot(session).columns
    edge = int(norms["input_start"][session.nodes.find("h")])
    assert norms["edge_norm"][edge] == pytest.approx(np.linalg.norm(found.after[a]))
    # A rule of a node comes before one of an op: g keeps its half, h gets 3 of it.
    assert_allclose(found.after[a], 1.5 * passed_by_hand(), rtol=1e-12)
    # What it replaces counts as absent: before is the true rule of h.
    again = session.preview("h", "tanh", "0.1 * d", replacing=2)
    assert_allclose(again.before[a], 0.5 * passed_by_hand(), rtol=1e-12)
    assert_allclose(again.after[a], 0.05 * passed_by_hand(), rtol=1e-12)


def test_before_and_after_stand_beside_the_truth_on_the_wire(
    session: wb.Session,
) -> None:
    assert "true_edge_norm" not in take_snapshot(session).columns
    session.override("h", "clip(d, -0.2, 0.2)")
    columns = take_snapshot(session).columns
    edge = int(columns["input_start"][session.nodes.find("h")])
    now, true = columns["edge_norm"][edge], columns["true_edge_norm"][edge]
    assert now == pytest.approx(np.linalg.norm(passed_by_hand(0.2)))
    assert true == pytest.approx(np.linalg.norm(passed_by_hand()))


def test_an_input_that_is_read_twice_gets_both() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(named(x * x, "y")))(X))
    found = session.preview("y", "y", "10 * d")
    assert_allclose(found.before[0], 2 * X)
    assert_allclose(found.after[0], 20 * X)


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        ("clip(q, -1, 1)", ExpressionError, "q"),
        ("d +", ExpressionError, "d \\+"),
        ("__import__('os')", ExpressionError, "__import__"),
        ("9" * 2000, ExpressionError, "characters"),
        ("d ** 1000", ExpressionError, "exponent"),
    ],
)
def test_bad_rules_are_refused(
    session: wb.Session, rule: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        session.preview("h", "h", rule)
    assert session.overrides == []


def test_what_no_gradient_reaches_is_said() -> None:
    def f(x: Any) -> Any:
        side = named(np.exp(x), "side")
        return np.sum(x * wb.stop_gradient(side))

    session = wb.Session(wb.trace(f)(X))
    with pytest.raises(UsageError, match="no gradient reaches side"):
        session.preview("side", "side", "2 * d")
    with pytest.raises(OverrideError, match="nothing in session"):
        session.preview("side", "nobody", "2 * d")


def test_what_is_not_finite_is_counted(session: wb.Session) -> None:
    found = session.preview("h", "h", "d / (g - g)")
    (sent,) = encode_preview(session, found)
    assert sent["name"] == "a"
    assert sent["before"] is not None
    assert sent["after"] is not None
    assert sent["before"]["nan"] + sent["before"]["inf"] == 0
    assert sent["after"]["nan"] + sent["after"]["inf"] == 4
    assert sent["after_norm"] is None
    assert sent["before_norm"] == pytest.approx(np.linalg.norm(passed_by_hand()))
