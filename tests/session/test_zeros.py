"""Why all entries of a derivative are zero: the reasons, each beside the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.jupyter import plots
from workbench.session.derivative import make_second_derivative


def named(x: Any, name: str) -> Any:
    x.name = name
    return x


def session_of(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def saturated(x: Any) -> Any:
    h = named(np.tanh(x * 100.0), "h")
    return np.sum(named(h * 2.0, "y"))


def constant_side(x: Any) -> Any:
    return np.sum(named(np.maximum(x, 50.0), "y"))


def by_zeros(x: Any) -> Any:
    return np.sum(named(x * np.zeros(3), "y"))


def flat(x: Any) -> Any:
    return np.sum(named(named(np.floor(x), "f") * x, "z")) + 0.0


def stopped(x: Any) -> Any:
    return np.sum(named(wb.stop_gradient(x) * 2.0, "y")) + np.sum(x)


def cancels(x: Any) -> Any:
    a = named(x + 1.0, "a")
    return np.sum(named(a * 2.0 - a * 2.0, "y"))


def dead_between(x: Any) -> Any:
    """Each mask lets half of the entries through, and none through both."""
    a = named(np.where(np.array([True, False, False]), x, 0.0), "a")
    return np.sum(named(np.where(np.array([False, True, True]), a, 0.0), "y"))


X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("f", "of", "words"),
    [
        (saturated, "y", "h is saturated: its rule g · (1 − y²) is 0 at these values"),
        (constant_side, "y", "y selects other entries or a constant"),
        (
            by_zeros,
            "y",
            "y passes nothing on: its rule g · x₁ and g · x₀ is 0 at these",
        ),
        (flat, "f", "f (floor) has no derivative"),
        (stopped, "y", "stop_gradient 1 has no derivative"),
        (cancels, "y", "what flows back along several paths cancels at a"),
        (dead_between, "y", "a selects other entries or a constant"),
    ],
)
def test_the_reason_is_said_where_all_is_zero(
    f: Callable[..., Any], of: str, words: str
) -> None:
    session = session_of(f, X)
    found = session.derivative(of, "x")
    np.testing.assert_array_equal(found.value, np.zeros((3, 3)))
    plot = plots.jacobian_plot(session, of, "x")
    assert words in plot.zero
    assert plot.note.count("zero everywhere: ") == 1
    assert plot.zero in plot.note
    pattern = plots.sparsity_plot(session, of, "x")  # entries that can be nonzero
    assert (words in pattern.zero) == ("every entry is zero" in pattern.note)


def test_the_line_is_quoted() -> None:
    reason = session_of(saturated, X).derivative("y", "x").zero_reason
    assert "test_zeros.py:" in reason
    assert 'h = named(np.tanh(x * 100.0), "h")' in reason


def test_what_is_not_zero_has_no_reason() -> None:
    session = session_of(lambda x: np.sum(named(np.tanh(x), "y")), X)
    assert plots.jacobian_plot(session, "y", "x").zero == ""
    # Zeros of a part say nothing of the whole.
    part = plots.jacobian_plot(session, "y", "x", ((0, 1), (1, 3)))
    assert "100% zeros" in part.note
    assert part.zero == ""


def test_an_override_that_stops_is_named() -> None:
    def f(x: Any) -> Any:
        h = named(np.tanh(x), "h")
        return np.sum(named(h * h, "y"))

    session = session_of(f, X)
    session.override("h", "0 * d", name="halt")
    plot = plots.jacobian_plot(session, "y", "x")
    assert plot.zero == "stopped by halt at h"
    assert (plot.verdict, plot.overrides) == ("changed", ("halt at h",))
    true = plots.jacobian_plot(session, "y", "x", overrides=False)
    assert (true.zero, true.verdict, true.is_true) == ("", None, True)
    assert true.overrides == ("halt at h",)
    # By hand: 2 tanh(x) (1 - tanh(x)²) on the diagonal.
    t = np.tanh(X)
    np.testing.assert_allclose(
        np.array(true.figure.data[0].z, float), np.diag(2 * t * (1 - t**2)), rtol=1e-12
    )
    second = plots.hessian_plot(session)
    assert second.zero == "the gradient is zero: stopped by halt at h"
    session.edit(1, "3", name="three")
    np.testing.assert_array_equal(session.hessian("x"), np.zeros((3, 3)))
    assert plots.hessian_plot(session).zero == (
        "the gradient by x does not depend on x: it is constant"
    )


def test_a_linear_function_has_no_second_derivative() -> None:
    session = session_of(lambda x: np.sum(3.0 * x), X)
    plot = plots.hessian_plot(session)
    assert plot.zero == "the gradient by x does not depend on x: it is constant"
    assert make_second_derivative(session._state, "x").compute_all().any() == 0


def test_a_saturated_second_derivative_says_whose() -> None:
    session = session_of(saturated, X)
    reason = plots.hessian_plot(session).zero
    assert "saturated" in reason or "is 0 at these values" in reason
    np.testing.assert_array_equal(session.hessian("x"), np.zeros((3, 3)))


def test_true_second_derivatives_leave_overrides_out() -> None:
    session = session_of(lambda x: np.sum(np.exp(x)), X)
    session.override("exp", "2 * d", name="twice")
    np.testing.assert_allclose(session.hessian("x"), np.diag(4 * np.exp(X)))
    np.testing.assert_allclose(
        session.hessian("x", overrides=False), np.diag(np.exp(X))
    )
    np.testing.assert_allclose(session.jacobian(wrt="x"), 2 * np.exp(X))
    np.testing.assert_allclose(session.jacobian(wrt="x", overrides=False), np.exp(X))
    plot = plots.hessian_plot(session, overrides=False)
    (label,) = plot.overrides
    assert "the true one, without 1 override: twice on every exp" in plot.note
    assert label == "twice on every exp"
    assert session.overrides[0].enabled
