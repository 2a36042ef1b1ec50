"""Checks: every node's rule checked, what a check found in the picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.benchmarks import sessions
from tests.benchmarks.sessions import Question


def questions(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Question]:
    """What is asked of one program."""
    import workbench as wb
    from workbench.snapshot import take

    session = wb.Session(wb.trace(f)(*args))

    def check() -> None:
        assert session.check().ok
        take(session)

    middle = len(session.graph.nodes) // 2

    def derivative() -> None:
        session.derivative(session.output, middle)

    return [
        Question("session.check and its picture", check, 1),
        Question("session.derivative, output by a node inside", derivative, 3),
    ]


def run(keep: bool) -> None:
    """Measure, print and keep."""
    sessions.run(
        "checks",
        "A check of every node, by the cost of a gradient",
        {
            "chain of 250 ops on 8 numbers": sessions.chain(250),
            "chain of 1,000 ops on 8 numbers": sessions.chain(1000),
            "50 tanh layers, 569 x 16": sessions.network(50),
            "200 tanh layers, 569 x 16": sessions.network(200),
        },
        questions,
        keep,
    )
