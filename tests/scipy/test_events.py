"""Events of `solve_ivp` and its states at any time, against closed forms and SciPy's.

A stone thrown up by v from a height h lands after ``(v + r) / g`` with speed ``r``, r
being ``sqrt(v² + 2 g h)``; an oscillator cos(w t) is zero at ``(k + 1/2) π / w``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import workbench as wb
from workbench.errors import ConvergenceError, MatrixError, ShapeError, UsageError
from workbench.scipy.integrate import solve_ivp
from workbench.scipy.integrate.events import find_event_times

G = 9.81
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def throw(h: Any, v: Any, solver: Any = solve_ivp, **settings: Any) -> Any:
    def rate(t: Any, y: Any) -> Any:
        return np.stack([y[1], -G + 0 * t])

    def ground(t: Any, y: Any) -> Any:
        return y[0]

    ground.terminal = True  # type: ignore[attr-defined]
    ground.direction = -1  # type: ignore[attr-defined]
    start = np.stack([h, v])
    return solver(rate, (0.0, 9.0), start, events=ground, **{**TIGHT, **settings})


def land(h: Any, v: Any) -> Any:
    return (v + np.sqrt(v * v + 2 * G * h)) / G


def oscillate(w: Any, **settings: Any) -> Any:
    def zero(t: Any, y: Any, w: Any) -> Any:
        return y[0]

    def rise(t: Any, y: Any, w: Any) -> Any:
        return y[0] - 0.5

    def never(t: Any, y: Any, w: Any) -> Any:
        return y[0] - 2

    rise.direction = 1  # type: ignore[attr-defined]
    return solve_ivp(
        lambda t, y, w: np.stack([y[1], -w * w * y[0]]), (0.0, 10.0),
        np.array([1.0, 0.0]), "DOP853", events=[zero, rise, never], args=(w,),
        rtol=1e-9, atol=1e-10, **settings,
    )  # fmt: skip


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: wb.grad(f, (0, 1))(10.0, 2.0),
    "jvp": lambda f: wb.jvp(f, (10.0, 2.0), (1.0, -0.5)),
    "hessian": lambda f: wb.hessian(f, (0, 1))(10.0, 2.0),
    "forward over forward": lambda f: wb.jacfwd(wb.jacfwd(f))(10.0, 2.0),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_the_time_and_the_speed_of_landing(transform: str, method: str) -> None:
    derive = TRANSFORMS[transform]
    for ours, truth in (
        (lambda h, v: throw(h, v, method=method).t_events[0][0], land),
        (lambda h, v: throw(h, v, method=method).t[-1], land),
        (
            lambda h, v: throw(h, v, method=method).y[1, -1],
            lambda h, v: -np.sqrt(v * v + 2 * G * h),
        ),
        (
            lambda h, v: throw(h, v, method=method).y_events[0][0, 1],
            lambda h, v: -np.sqrt(v * v + 2 * G * h),
        ),
    ):
        np.testing.assert_allclose(derive(ours), derive(truth), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"t_eval": np.linspace(0, 9, 30)}])
@pytest.mark.parametrize("method", ["RK45", "Radau", "LSODA"])
def test_values_are_scipys(method: str, settings: dict[str, Any]) -> None:
    """With SciPy's own coarse tolerances too: the solver takes the same steps."""
    coarse = {"method": method, "rtol": 1e-3, "atol": 1e-6, **settings}
    kept = []

    def run(h: Any) -> Any:
        kept.append(throw(h, 2.0, **coarse))
        return kept[0].y

    y, _ = wb.vjp(run, 10.0)
    theirs = throw(10.0, 2.0, scipy.integrate.solve_ivp, **coarse)
    made = kept[0]
    np.testing.assert_allclose(y, theirs.y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(getattr(made.t, "value", made.t), theirs.t, rtol=1e-12)
    at, rows = made.t_events[0].value, made.y_events[0].value
    np.testing.assert_allclose(at, theirs.t_events[0], rtol=1e-12)
    np.testing.assert_allclose(rows, theirs.y_events[0], rtol=1e-9, atol=1e-9)
    assert (made.status, made.message) == (theirs.status, theirs.message) == (
        1, "A termination event occurred.",
    )  # fmt: skip


def test_the_sum_up_to_an_event() -> None:
    """States at given times before the landing, of which the number may change."""
    times = np.linspace(0, 9, 30)
    before = times[times < land(10.0, 2.0)]
    made = wb.grad(
        lambda h, v: np.sum(throw(h, v, t_eval=times).y[0]), (0, 1)
    )(10.0, 2.0)  # fmt: skip
    np.testing.assert_allclose(made, (len(before), np.sum(before)), rtol=1e-9)


def test_many_crossings_of_several_events() -> None:
    w = 1.3
    zeros = (np.arange(4) + 0.5) * np.pi / w
    rises = (np.array([1, 2]) * 2 * np.pi - np.arccos(0.5)) / w
    for i, times in enumerate((zeros, rises)):
        f = lambda w, i=i: oscillate(w).t_events[i]  # noqa: E731
        np.testing.assert_allclose(wb.vjp(f, w)[0], times, rtol=1e-9)
        np.testing.assert_allclose(wb.jacrev(f)(w), -times / w, rtol=1e-8)
        np.testing.assert_allclose(wb.jacfwd(f)(w), -times / w, rtol=1e-8)
    second = wb.grad(wb.grad(lambda w: oscillate(w).t_events[0][1]))(w)
    np.testing.assert_allclose(second, 2 * zeros[1] / w**2, rtol=1e-7)
    speeds = wb.jacobian(lambda w: oscillate(w).y_events[1][:, 1])(w)
    np.testing.assert_allclose(speeds, np.full(2, np.sqrt(0.75)), rtol=1e-7)
    last = [oscillate(w).t_events[2].shape]
    wb.grad(lambda w: last.append(oscillate(w).t_events[2].shape) or w)(w)
    assert last == [(0,), (0,)]


def test_what_an_event_reads() -> None:
    def reach(level: Any) -> Any:
        sol = solve_ivp(
            lambda t, y: y, (0.0, 5.0), np.ones(1), events=lambda t, y: y[0] - level,
            **TIGHT,
        )  # fmt: skip
        return sol.t_events[0][0]

    np.testing.assert_allclose(wb.grad(reach)(3.0), 1 / 3, rtol=1e-8)
    np.testing.assert_allclose(wb.grad(wb.grad(reach))(3.0), -1 / 9, rtol=1e-7)
    by_value = lambda level: solve_ivp(  # noqa: E731
        lambda t, y: y, (0.0, 5.0), np.ones(1), **TIGHT,
        events=lambda t, y: y[0] - (level if t > 0.2 else 2 * level),
    ).t_events[0][0]  # fmt: skip
    np.testing.assert_allclose(wb.grad(by_value)(3.0), 1 / 3, rtol=1e-8)


def test_a_bounce_from_event_to_event() -> None:
    """Two flights: from h down, and up again with a part c of the speed."""

    def rate(t: Any, y: Any) -> Any:
        return np.stack([y[1], -G + 0 * t])

    def ground(t: Any, y: Any) -> Any:
        return y[0]

    ground.terminal = True  # type: ignore[attr-defined]
    ground.direction = -1  # type: ignore[attr-defined]

    def second_landing(h: Any, c: Any) -> Any:
        fall = solve_ivp(rate, (0.0, 9.0), np.stack([h, 0.0]), events=ground, **TIGHT)
        start = np.stack([0.0, -c * fall.y[1, -1]])
        sol = solve_ivp(rate, (fall.t[-1], 9.0), start, events=ground, **TIGHT)
        return sol.t[-1]

    truth = lambda h, c: (1 + 2 * c) * np.sqrt(2 * h / G)  # noqa: E731
    np.testing.assert_allclose(
        wb.grad(second_landing, (0, 1))(10.0, 0.8), wb.grad(truth, (0, 1))(10.0, 0.8),
        rtol=1e-8,
    )  # fmt: skip


def test_the_states_at_any_time() -> None:
    w, times = 1.3, np.array([3.0, 1.0, 7.0])
    f = lambda w: oscillate(w, dense_output=True).sol(times)[0]  # noqa: E731
    np.testing.assert_allclose(wb.vjp(f, w)[0], np.cos(w * times), rtol=1e-8)
    np.testing.assert_allclose(wb.jacrev(f)(w), -times * np.sin(w * times), rtol=1e-8)
    by_time = wb.grad(lambda t: oscillate(w, dense_output=True).sol(t)[0])(2.0)
    np.testing.assert_allclose(by_time, -w * np.sin(w * 2), rtol=1e-8)
    back = lambda y: solve_ivp(  # noqa: E731
        lambda t, y: -y, (3.0, 0.0), np.stack([y]), dense_output=True, **TIGHT,
        events=lambda t, y: y[0] - 2,
    )  # fmt: skip
    made = wb.grad(lambda y: np.sum(back(y).sol(np.array([0.0, 2.5]))))(1.0)
    np.testing.assert_allclose(made, np.exp(3) + np.exp(0.5), rtol=1e-8)
    by_start = wb.grad(lambda y: back(y).t_events[0][0])(1.0)  # t = 3 + log(y / 2)
    np.testing.assert_allclose(by_start, 1.0, rtol=1e-8)
    with pytest.raises(UsageError, match=r"outside of \[0, 10\]"):
        wb.grad(lambda w: oscillate(w, dense_output=True).sol(11.0)[0])(w)


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="events and dense_output depend on values"):
        wb.trace(lambda k: oscillate(k, t_eval=np.ones(1)).y)(wb.Spec((), float))
    with pytest.raises(ShapeError, match=r"returned shape \(2,\)\. Return one number"):
        wb.grad(
            lambda k: np.sum(
                solve_ivp(
                    lambda t, y: k * y, (0, 1), np.ones(2), events=lambda t, y: y
                ).y
            )
        )(1.0)
    with pytest.raises(ConvergenceError, match="not solved up to t = 3"):
        wb.grad(
            lambda k: np.sum(
                solve_ivp(
                    lambda t, y: k * y**2, (0, 3), np.ones(1),
                    events=lambda t, y: y[0] - 1e300,
                ).y
            )
        )(1.0)  # fmt: skip


def test_an_event_that_only_touches_zero() -> None:
    class Touch:
        def evaluate(self, times: Any, rows: Any) -> Any:
            return (times - 2) ** 2 - rows[:, 0]

    def touch(c: Any) -> Any:
        rows = lambda times, known: np.stack([0 * times + c - 1], axis=1)  # noqa: E731
        made = find_event_times([Touch()], [np.array([2.0])], rows)  # type: ignore[list-item]
        return made[0][0]

    with pytest.raises(MatrixError, match="touches zero without crossing it"):
        wb.grad(touch)(1.0)


@pytest.mark.parametrize("more", [{}, {"events": lambda t, y: y[0] - 0.5}])
@pytest.mark.parametrize(
    ("times", "error", "text"),
    [([0.5, 0.2], UsageError, r"holds 0\.2 behind 0\.5.*must rise"),
     ([0, 0, 1.0], UsageError, "holds 0 behind 0.*np.unique"),
     ([0, 2.0], UsageError, r"holds 2, outside t_span, which is \(0, 1\)"),
     ([[0, 1.0]], ShapeError, r"shape \(1, 2\); it must have one axis")],
)  # fmt: skip
def test_times_that_scipy_refuses(
    times: Any, error: type[Exception], text: str, more: dict[str, Any]
) -> None:
    def final(a: Any) -> Any:
        return solve_ivp(lambda t, y: -a * y, (0, 1.0), [1.0], t_eval=times, **more).y[
            0, -1
        ]

    with pytest.raises(error, match=text):
        wb.grad(final)(1.0)
    with pytest.raises(ValueError, match="t_eval"):
        scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1.0), [1.0], t_eval=times)


def test_times_that_fall_where_the_span_does() -> None:
    slope = wb.grad(
        lambda a: solve_ivp(
            lambda t, y: a * y, (1.0, 0.0), [1.0], t_eval=[0.5, 0.0], **TIGHT
        ).y[0, -1]
    )(2.0)
    np.testing.assert_allclose(slope, -np.exp(-2.0), rtol=1e-6)
