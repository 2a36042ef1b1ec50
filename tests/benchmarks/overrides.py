"""Overrides: gradients with some, patterns found, sessions that take and undo them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.benchmarks import sessions
from tests.benchmarks.sessions import Question

CHAIN = "chain of {:,} ops on 8 numbers"


def questions(
    linear: Callable[..., Any], f: Callable[..., Any], args: tuple[Any, ...]
) -> list[Question]:
    """What is asked of one program; ``linear`` is a pattern that it has often."""
    import workbench as wb
    from workbench.session.wire import find_changes, take_snapshot

    rule, everywhere = "clip(d, -1, 1)", tuple(range(len(args)))
    pattern = wb.pattern(linear)
    traced = wb.trace(f)(*args)
    rounds = 1 if len(traced.nodes) > 50_000 else 5

    def gradient(target: Any) -> Any:
        over = [wb.override(target, rule)]
        return partial(wb.grad(f, everywhere, overrides=over), *args)

    session = wb.Session(traced)
    tanh = [x for x in traced.nodes if x.op.name == "tanh"]

    def edit(*targets: Any) -> None:
        for target in targets:
            session.override(target, rule)
        for one in session.overrides:
            assert one.effects
        session.undo(len(targets))

    def pictured() -> None:
        take_snapshot(wb.Session(traced))

    def patched() -> None:
        old = take_snapshot(session)
        session.override("tanh", rule)
        assert find_changes(old, take_snapshot(session)) is not None
        session.undo()

    middle = session.nodes.find(tanh[len(tanh) // 2])
    asked = [
        Question(
            "a session and its gradients", lambda: wb.Session(traced).grads, rounds
        ),
        Question("a session, its gradients and picture", pictured, rounds),
        Question("grad, every tanh overridden", gradient("tanh"), rounds),
        Question("grad, a pattern overridden", gradient(pattern), rounds),
        Question("the pattern's places", lambda: pattern.select(traced.nodes), rounds),
        Question("session: override one node, undo", lambda: edit(middle), rounds),
        Question("session: override every tanh, undo", lambda: edit("tanh"), rounds),
        Question("session: override a pattern, undo", lambda: edit(pattern), rounds),
        Question("session: override, two pictures, undo", patched, rounds),
    ]
    if len(tanh) <= 1000:
        fifty = partial(edit, *[session.nodes.find(x) for x in tanh[:50]])
        asked.append(Question("session: 50 overrides, effects, undo", fifty, 1))
    return asked


def run(keep: bool) -> None:
    """Measure, print and keep."""
    kinds: dict[str, Any] = {
        CHAIN.format(n): sessions.chain(n) for n in (1_000, 10_000, 100_000)
    }
    sessions.run(
        "overrides",
        "Overrides of a chain, by the cost of its gradient",
        kinds,
        partial(questions, lambda a, b, c: a * b + c),
        keep,
    )
