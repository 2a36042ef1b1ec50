"""Ops that are built on functions, as graphs: shown, compiled, kept in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.scipy.integrate import odeint, quad
from workbench.scipy.optimize import brentq, minimize
from workbench.session.wire import take_snapshot

W = np.array([[0.5, 0.2], [-0.3, 0.8]])
X = np.array([2.0, 3.0])


def jacobi(matvec: Any, b: Any) -> Any:
    x = b * 0
    for _ in range(100):
        x = x + (b - matvec(x)) / 4
    return x


#: A program per op, the op's name, and the same in closed form.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "checkpoint": (
        lambda x: np.sum(wb.checkpoint(lambda x: np.tanh(W @ x))(x)),
        lambda x: np.sum(np.tanh(W @ x)),
    ),
    "custom_root": (
        lambda x: brentq(lambda z: z**3 - x[0] * x[1], 0, 9),
        lambda x: np.cbrt(x[0] * x[1]),
    ),
    "custom_linear_solve": (
        lambda x: np.sum(
            wb.custom_linear_solve(lambda z: x * z + W @ z / 9, np.ones(2), jacobi)
        ),
        lambda x: np.sum(np.linalg.solve(np.diag(x) + W / 9, np.ones(2))),
    ),
    "initial_value_problem": (
        lambda x: np.sum(
            odeint(lambda y, t: -x * y, np.ones(2), [0.0, 0.5], rtol=1e-10, atol=1e-10)
        ),
        lambda x: 2 + np.sum(np.exp(-0.5 * x)),
    ),
    "integral": (
        lambda x: quad(lambda z: np.sum(np.exp(-x * z)), 0, 1)[0],
        lambda x: np.sum((1 - np.exp(-x)) / x),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_says_what_it_is(name: str) -> None:
    graph = wb.trace(PROGRAMS[name][0])(X)
    assert name in [node.op.name for node in graph.nodes]
    assert " at 0x" not in str(graph)
    # A function stands among the settings; what holds one program is that program.
    assert "<a" in str(graph) or "=<Graph of " in str(graph) or name == "checkpoint"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_backend_runs_it_on_other_values(name: str) -> None:
    f, truth = PROGRAMS[name]
    for g, expected in ((f, truth), (wb.grad(f), wb.grad(truth))):
        function = compile(wb.trace(g)(wb.Spec((2,), float)))
        np.testing.assert_allclose(function(X)[0], expected(X), rtol=1e-7)
        np.testing.assert_allclose(function(X + 1)[0], expected(X + 1), rtol=1e-7)
        scope = dict(function.constants)
        exec(function.source, scope)
        np.testing.assert_allclose(scope["function"](X), expected(X), rtol=1e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_session_keeps_it(name: str) -> None:
    f, truth = PROGRAMS[name]
    session = wb.Session(wb.trace(f)(X))
    np.testing.assert_allclose(session.grads["x"], wb.grad(truth)(X), rtol=1e-7)
    session.run(x=X + 1)
    np.testing.assert_allclose(session.grads["x"], wb.grad(truth)(X + 1), rtol=1e-7)
    assert session.check().ok
    ops = take_snapshot(session).header
    assert name in str(ops)
    assert " at 0x" not in str(ops)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_override_takes_its_place(name: str) -> None:
    """Of an op whose inputs and outputs are many, a rule of one gradient each."""
    f = PROGRAMS[name][0]

    def nothing(node: Any, *g: Any) -> list[Any]:
        return [np.zeros_like(x) for x in node.inputs]

    cut = wb.override(name, vjp=nothing)
    np.testing.assert_array_equal(wb.grad(f, overrides=[cut])(X), [0, 0])


def test_they_nest_in_one_another() -> None:
    """A minimum over an integral of a solution of a differential equation."""

    def best(a: Any) -> Any:
        def cost(x: Any) -> Any:
            def square(k: Any) -> Any:
                t = np.stack([0 * k, k])
                y = odeint(lambda y, t: -a * y, np.ones(1), t, rtol=1e-10, atol=1e-10)
                return y[-1, 0]

            # Integral of exp(-a k) from 0 to 1, times x, and a bowl.
            area = quad(wb.checkpoint(square), 0, 1)[0]
            return (x[0] - area) ** 2

        return minimize(cost, np.zeros(1), tol=1e-10).x[0]

    truth = lambda a: (1 - np.exp(-a)) / a  # noqa: E731
    np.testing.assert_allclose(best(2.0), truth(2.0), rtol=1e-6)
    np.testing.assert_allclose(wb.grad(best)(2.0), wb.grad(truth)(2.0), rtol=1e-5)
