"""A run whose inputs would let Python decide otherwise is an error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.random as wr
from workbench.errors import UsageError


def branch(q: Any) -> Any:
    return q**2 if q > 0 else -(q**3)


def test_another_branch_is_an_error_that_tells_all() -> None:
    session = wb.Session(wb.trace(branch)(1.5))
    with pytest.raises(UsageError) as caught:
        session.run(q=-2.0)
    text = str(caught.value)
    assert "at test_decisions.py:" in text
    assert "return q**2 if q > 0 else -(q**3)" in text
    assert "greater bool[] was True when the program was recorded, and is False" in text
    assert "Run the cell again" in text
    assert "np.where" in text
    # It is as it was, and goes on.
    assert session.value == 2.25
    assert session.run(q=3.0) == 9.0
    assert session.grads["q"] == 6.0
    assert session.timeline.count == 1


@pytest.mark.parametrize("backend", ["numpy", "compiled"])
def test_each_backend_looks(backend: str) -> None:
    session = wb.Session(wb.trace(branch)(1.5), backend=backend)
    assert session.wait()
    assert float(session.run(q=3.0)) == 9.0
    with pytest.raises(UsageError, match="is False now"):
        session.run(q=-2.0)
    assert float(session.run(q=2.0)) == 4.0


def test_a_loop_of_another_length_is_an_error() -> None:
    def halve(q: Any, w: Any) -> Any:
        steps = 0
        while q * w > 1:
            q = q / 2
            steps += 1
        return q * steps + np.sin(w)

    session = wb.Session(wb.trace(halve)(9.0, 1.0))
    # The same decisions at other values, of one input and of several.
    assert math.isclose(session.run(q=9.5), halve(9.5, 1.0))
    assert math.isclose(session.run(w=1.25, q=9.0), halve(9.0, 1.25))
    # What both have decided is looked at with the value that the other has now.
    with pytest.raises(UsageError, match=r"while q \* w > 1"):
        session.run(q=16.0)
    assert math.isclose(session.run(w=0.9375), halve(9.0, 0.9375))
    assert math.isclose(session.run(q=16.0), halve(16.0, 0.9375))


@pytest.mark.parametrize(
    ("ask", "call"),
    [
        (lambda x: [0, 1][np.argmax(x)], "int(x)"),
        (lambda x: len(range(np.argmax(x))), "int(x)"),
    ],
)
def test_a_number_that_python_took(ask: Any, call: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return w * x[ask(x)]

    session = wb.Session(wb.trace(f)(np.array([1.0, 2.0]), 1.0))
    assert session.run(x=np.array([1.5, 3.0])) == 3.0
    assert session.run(w=-1.0) == -3.0
    with pytest.raises(UsageError) as caught:
        session.run(x=np.array([3.0, 1.0]))
    assert f"{call} of " in str(caught.value)
    assert f"in place of {call}" in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "call"),
    [
        (lambda x: int(np.argmax(x)), "int(x)"),
        (lambda x: np.argmax(x).item(), "x.item()"),
        (lambda x: np.argsort(x).tolist()[-1], "x.tolist()"),
    ],
)
def test_a_number_that_may_only_be_printed_is_told_once(ask: Any, call: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return w * x[int(ask(x))]

    session = wb.Session(wb.trace(f)(np.array([1.0, 2.0]), 1.0))
    assert session.run(x=np.array([1.5, 3.0])) == 3.0
    with pytest.warns(UserWarning, match="^run: ") as caught:
        assert session.run(x=np.array([3.0, 1.0])) == 1.0
    (told,) = [str(one.message) for one in caught]
    assert told.startswith(f"run: {call} of ")
    assert f"in place of {call}; to print it, x.value." in told
    assert caught[0].filename == __file__
    assert session.run(x=np.array([7.0, 1.0])) == 1.0  # which was told


def test_what_is_not_decided_by_an_input_does_not_matter() -> None:
    flag = np.array(2)

    def f(x: Any) -> Any:
        if flag > 1 and x.shape[0] == 2 and x.dtype == float and x is not None:
            return np.sum(x) * flag
        return x[0]

    session = wb.Session(wb.trace(f)(np.ones(2)))
    assert session.run(x=np.full(2, -3.0)) == -12.0


def test_nothing_is_kept_where_nothing_was_decided() -> None:
    graph = wb.trace(lambda x: np.sum(np.where(x > 0, x, -x)))(np.ones(2))
    assert len(graph.decisions) == 0
    assert wb.Session(graph)._state.objective.decisions is None


def test_a_branch_inside_a_gradient_is_one_of_the_program() -> None:
    def slope(q: Any) -> Any:
        return wb.grad(branch)(q)

    session = wb.Session(wb.trace(slope)(1.5))
    assert session.run({0: 2.0}) == 4.0
    with pytest.raises(UsageError, match="is False now"):
        session.run({0: -2.0})


def test_an_input_is_its_own_decision() -> None:
    session = wb.Session(wb.trace(lambda q, w: w if q else w**2)(1.0, 3.0))
    assert session.run(q=-4.0) == 3.0
    with pytest.raises(UsageError, match="was True when the program was recorded"):
        session.run(q=0.0)


def test_the_branch_of_cond_is_decided_by_values_too() -> None:
    def f(q: Any) -> Any:
        return wb.cond(q > 0, lambda q: q**2, lambda q: -(q**3), q)

    session = wb.Session(wb.trace(f)(1.5))
    with pytest.raises(UsageError, match=r"wb\.cond would decide otherwise") as caught:
        session.run(q=-2.0)
    assert "return wb.cond(" in str(caught.value)


def test_what_decides_in_each_run_is_free() -> None:
    def f(q: Any) -> Any:
        far = wb.while_loop(lambda x: x > 1, lambda x: x / 2, q)
        return np.where(q > 0, q**2, -(q**3)) + 0 * far

    session = wb.Session(wb.trace(f)(1.5))
    for q in (-2.0, 9.0):
        assert session.run(q=q) == branch(q)
        assert session.grads["q"] == wb.grad(branch)(q)


def test_what_is_recorded_anew_in_each_run_is_free() -> None:
    def root(a: Any) -> Any:
        # The equation itself looks at values, so it is recorded wherever it runs.
        def g(x: Any) -> Any:
            return x**2 - a if x > 1 else x - a

        return wb.custom_root(g, 1.0, lambda g, x: bisect(g), solve)

    def bisect(g: Any) -> float:
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if g(middle) < 0 else (low, middle)
        return low

    def solve(g: Any, y: Any) -> Any:
        return y / g(1.0)

    session = wb.Session(wb.trace(root)(4.0))
    assert math.isclose(session.run(a=9.0), 3.0)
    assert math.isclose(session.run(a=0.5), 0.5)


def test_a_constant_of_a_decision_is_that_of_the_recording() -> None:
    most = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        return np.sum(x) if np.all(x < most) else np.sum(x**2)

    session = wb.Session(wb.trace(f)(np.zeros(2)))
    most[:] = -9.0
    assert session.run(x=np.full(2, 0.5)) == 1.0


def test_what_a_loop_draws_is_another_thing_in_each_run() -> None:
    rng = wr.default_rng(1)

    def f(x: Any) -> Any:
        walk = wb.scan(lambda h: h + rng.normal(x), initial=[x], n_steps=3)
        return x if walk[-1] > 3 * x else 2 * x

    session = wb.Session(wb.trace(f)(1.0))
    for k in range(1, 40):
        session.run(x=1.0 / k)
    assert session.timeline.count == 39


def test_a_draw_with_a_value_is_the_same_in_each_run() -> None:
    rng = wr.default_rng(1)

    def f(x: Any) -> Any:
        return x if rng.uniform() < x else x**2

    session = wb.Session(wb.trace(f)(1.0))
    assert session.run(x=2.0) == 2.0
    with pytest.raises(UsageError, match="is False now"):
        session.run(x=-1.0)


def test_a_decision_that_fails_on_the_way_names_the_first_other_one() -> None:
    def f(A: Any) -> Any:
        if np.sum(A) > 0 and np.sum(np.linalg.inv(A)) > 0:
            return np.sum(A)
        return np.sum(A**2)

    session = wb.Session(wb.trace(f)(np.eye(2)))
    with pytest.raises(UsageError, match="would decide otherwise"):
        session.run(A=np.zeros((2, 2)))


def test_a_copy_looks_too() -> None:
    session = wb.Session(wb.trace(branch)(1.5))
    copy = session.make_copy()
    with pytest.raises(UsageError, match="is False now"):
        copy.run(q=-2.0)
