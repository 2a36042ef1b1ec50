"""The derivative of a session as programs: as the chain rule writes it, and simplified.

Each is computed at first use and kept until the session changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from workbench.core.graph import Graph
from workbench.rewrite.driver import Key, Replay, prepare_replay
from workbench.rewrite.rule import Rule
from workbench.session.state import State

#: So many programs at steps are kept: those that a page goes to and fro between.
MOST_KEPT = 8


class Rewriting:
    """One simplification of a session's derivative, with the program at each step."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._known: dict[int, tuple[Graph, dict[int, Key]]] = {}

    @cached_property
    def result(self) -> Graph:
        """The program in its last form."""
        return self.replay.run()

    def find_program(self, number: int) -> tuple[Graph, dict[int, Key]]:
        """Return the program after so many steps, and the key of each of its nodes."""
        found = self._known.pop(number, None) or self.replay.run_with_keys(number)
        self._known[number] = found  # as the one used last
        while len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        return found


def find_rewriting(
    state: State,
    rules: Iterable[Rule] = (),
    *,
    without: Collection[str] = (),
    fast: bool = False,
) -> Rewriting:
    """Return the simplification of a session's derivative; the last one is kept."""
    replay = prepare_replay(state.chain_rule, rules, without=without, fast=fast)
    known: Rewriting | None = state.rewriting
    if known is None or known.replay != replay:
        state.rewriting = known = Rewriting(replay)
    return known


def simplify_gradients(
    state: State,
    rules: Iterable[Rule] = (),
    *,
    without: Collection[str] = (),
    fast: bool = False,
) -> Graph:
    """Return the gradients as a program, simplified step by step; overrides applied.

    See `Session.simplify`.
    """
    return find_rewriting(state, rules, without=without, fast=fast).result
