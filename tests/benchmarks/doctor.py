"""The doctor: what it costs to be told that a program is well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.benchmarks import sessions
from tests.benchmarks.sessions import Question


def questions(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Question]:
    """What is asked of one program."""
    import workbench as wb
    from workbench.session.wire import take_snapshot

    traced = wb.trace(f)(*args)
    session = wb.Session(traced)
    rounds = 1 if len(traced.nodes) > 50_000 else 3

    def diagnose() -> None:
        session.diagnose()
        take_snapshot(session)

    return [
        Question("session.diagnose and its picture", diagnose, rounds),
        Question("wb.diagnose", lambda: wb.diagnose(f, *args), rounds),
    ]


def run(keep: bool) -> None:
    """Measure, print and keep."""
    lengths = (1_000, 10_000, 100_000)
    programs: dict[str, Any] = {
        f"chain of {n:,} ops on 8 numbers": sessions.chain(n) for n in lengths
    }
    programs["50 tanh layers, 569 x 16"] = sessions.network(50)
    programs["200 tanh layers, 569 x 16"] = sessions.network(200)
    sessions.run(
        "doctor",
        "The doctor, by the cost of a gradient",
        programs,
        questions,
        keep,
    )
