"""Closure conversion: what a function reads from outside becomes an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.autodiff.batch import run_examples
from workbench.autodiff.call import pull_through, push_through
from workbench.core import walk
from workbench.core.recorder import Recorder
from workbench.core.tensor import Tensor
from workbench.errors import TraceError

X = np.array([0.5, -1.0, 2.0])


def closed_inside(f: Any, *outer: Any) -> tuple[list[Tensor], Recorder]:
    """What `close` makes of ``lambda x: f(x, *outer)`` while a trace is open."""
    kept: list[Any] = []

    def traced(*leaves: Any) -> Any:
        kept.extend([list(leaves), Recorder(lambda x: f(x, *leaves), X)])
        return sum(np.sum(x) for x in leaves)

    wb.grad(traced, tuple(range(len(outer))))(*outer)
    return kept[0], kept[1]


def test_what_is_live_is_captured_once_and_nothing_else() -> None:
    constant = np.arange(3.0)
    leaves, closed = closed_inside(
        lambda x, a, b: {"y": x * a + constant * a, "n": [np.sum(x)]}, 2.0, 3.0
    )
    assert [x is leaves[0] for x in closed.captured] == [True]
    n, y = closed.run([5.0, X])  # keys in order
    np.testing.assert_allclose(y, 5 * X + 5 * constant)
    assert type(y) is np.ndarray
    assert n == np.sum(X)
    assert closed.graph.tree([1, 2]) == {"y": 2, "n": [1]}
    assert [s.shape for s in closed.specs] == [(), (3,)]


def test_it_records_on_tensors_under_names_lines_and_scopes() -> None:
    def f(x: Any) -> Any:
        with wb.scope("inner"):
            return np.tanh(x) * 2

    closed = Recorder(f, wb.Spec((3,), float))
    graph = wb.trace(lambda z: closed.run([z])[0])(X)
    node = graph.outputs[0]
    assert node.scope == "inner"
    assert "np.tanh(x) * 2" in node.site.text
    np.testing.assert_allclose(node.value, np.tanh(X) * 2)


def test_derivatives_of_the_program_are_those_of_the_function() -> None:
    def through(theta: Any) -> Any:
        closed = Recorder(lambda x: np.sum(np.sin(theta * x) ** 2), X)
        return closed.run([*closed.captured, X])[0]

    def plain(theta: Any) -> Any:
        return np.sum(np.sin(theta * X) ** 2)

    for order in range(4):
        np.testing.assert_allclose(through(0.7), plain(0.7), err_msg=str(order))
        through, plain = wb.grad(through), wb.grad(plain)


def test_a_gradient_inside_is_part_of_the_program() -> None:
    def f(theta: Any) -> Any:
        closed = Recorder(wb.grad(lambda x: np.sum(theta * x**3)), X)
        return np.sum(closed.run([*closed.captured, X])[0])

    np.testing.assert_allclose(wb.grad(f)(2.0), np.sum(3 * X**2))


def test_with_values_a_branch_may_look() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x[0] > 0 else -x

    with pytest.raises(TraceError):
        Recorder(f, X)
    closed = Recorder(f, X, values=True)
    np.testing.assert_allclose(closed.values[0], 2 * X)
    np.testing.assert_allclose(closed.run([X])[0], 2 * X)


def test_dynamic_records_on_the_values_of_each_run() -> None:
    def f(theta: Any) -> Any:
        closed = Recorder(
            lambda x: theta * x if x[0] > 0 else theta**2 * x, X, dynamic=True
        )
        left = closed.run([*closed.captured, X])[0]
        right = closed.run([*closed.captured, -X])[0]
        return np.sum(left) + np.sum(right)

    total = np.sum(X)
    np.testing.assert_allclose(f(3.0), 3 * total - 9 * total)
    np.testing.assert_allclose(wb.grad(f)(3.0), total - 6 * total)
    np.testing.assert_allclose(wb.hessian(f)(3.0), -2 * total)


def test_a_branch_that_reads_more_says_so() -> None:
    def f(a: Any, b: Any) -> Any:
        closed = Recorder(lambda x: a * x if x[0] > 0 else b * x, X, dynamic=True)
        return np.sum(closed.run([*closed.captured, -X])[0])

    with pytest.raises(TraceError, match="one of its branches only"):
        wb.grad(f, (0, 1))(1.0, 2.0)


def test_the_first_run_tells_what_is_captured() -> None:
    """Later runs come when the outer trace is closed, and captures look dead."""
    leaves, closed = closed_inside(lambda x, a: x * a, 2.0)
    assert closed.captured[0] is leaves[0]
    kept: list[Recorder] = []

    def f(a: Any, b: Any) -> Any:
        kept.append(
            Recorder(lambda x: a * x if x[0] > 0 else a * b * x, X, dynamic=True)
        )
        return a + b

    wb.grad(f)(2.0, 3.0)
    np.testing.assert_allclose(kept[0].run([5.0, X])[0], 5 * X)
    np.testing.assert_allclose(kept[0].run([5.0, -X])[0], -15 * X)
    wb.grad(f, (0, 1))(2.0, 3.0)
    with pytest.raises(TraceError, match="one of its branches only"):
        kept[1].run([5.0, -X])


def test_linear_time_and_no_walk_into_the_outer_graph() -> None:
    def f(x: Any) -> Any:
        for _ in range(20_000):
            x = x * 1.0001
        closed = Recorder(lambda z: z * x, 1.0)
        assert len(walk.order_nodes(closed.graph.outputs)) == 3
        return closed.run([*closed.captured, 2.0])[0]

    np.testing.assert_allclose(wb.grad(f)(1.0), 2 * 1.0001**20_000)


def test_flat_derivatives_and_batches() -> None:
    def run(xs: Any) -> Any:
        return [np.sin(xs[0]) * xs[1], xs[1] + 1]

    a, b = np.array([0.1, 0.2]), np.array([3.0, 4.0])
    g = np.ones(2)
    np.testing.assert_allclose(pull_through(run, [a, b], [g, None])[0], np.cos(a) * b)
    assert pull_through(run, [a, b], [None, g])[0] is None
    moved = push_through(run, [a, b], [g, None])
    np.testing.assert_allclose(moved[0], np.cos(a) * b)
    assert moved[1] is None
    many = run_examples(run, [np.stack([a, 2 * a]), b], [True, False])
    np.testing.assert_allclose(many[0], np.sin([a, 2 * a]) * b)
    np.testing.assert_allclose(many[1], [b + 1, b + 1])
