"""Checks: every node's rule checked, what a check found in the picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks import sessions
from tests.benchmarks.sessions import Question

#: Of a program with more entries not all are checked.
MOST = 500


def questions(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Question]:
    """What is asked of one program."""
    import workbench as wb
    from workbench.session.wire import take_snapshot

    session = wb.Session(wb.trace(f)(*args))

    def check() -> None:
        assert session.check().ok
        take_snapshot(session)

    middle = len(session.graph.nodes) // 2

    def derivative() -> None:
        session.derivative(session.output, middle)

    found = [
        Question("session.check and its picture", check, 1),
        Question("session.derivative, output by a node inside", derivative, 3),
    ]
    if sum(np.size(x) for x in args) <= MOST:
        found.append(Question("wb.check_grads, all entries", lambda: every(f, args), 1))
    return found


def every(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Check all entries, in both modes and of both orders."""
    import workbench as wb

    assert wb.check_grads(f, args, entries=MOST).ok


def small_network() -> sessions.Program:
    """Three dense layers with 440 weights on a table of 30 rows and 8 columns."""
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((30, 8)), rng.standard_normal((30, 6))
    shapes = ((8, 20), (20,), (20, 10), (10,), (10, 5))

    def f(W: Any, a: Any, V: Any, b: Any, U: Any) -> Any:
        return np.mean((np.tanh(np.tanh(X @ W + a) @ V + b) @ U - T[:, :5]) ** 2)

    return f, tuple(rng.standard_normal(shape) for shape in shapes)


def run(keep: bool) -> None:
    """Measure, print and keep."""
    sessions.run(
        "checks",
        "A check of every node, by the cost of a gradient",
        {
            "chain of 250 ops on 8 numbers": sessions.chain(250),
            "chain of 1,000 ops on 8 numbers": sessions.chain(1000),
            "three layers of 440 weights, 30 rows": small_network(),
            "50 tanh layers, 569 x 16": sessions.network(50),
            "200 tanh layers, 569 x 16": sessions.network(200),
        },
        questions,
        keep,
    )
