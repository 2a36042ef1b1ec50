"""`Rewriting`: the derivative of a session as a program, and its steps of rewriting.

First as the chain rule writes it, with overrides applied; then simplified by steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from workbench.core.graph import Graph
from workbench.rewrite.driver import Key, Replay, prepare_replay
from workbench.rewrite.rule import Rule
from workbench.session.state import State

#: So many programs at steps are kept: those that a page goes to and fro between.
MOST_KEPT = 8


_TEMPORARY = re.compile(r"t[1-9][0-9]{0,8}")


def _name_temporary(number: int, used: Iterable[int]) -> str:
    """Return the name of a temporary, past the numbers that are used, ascending.

    >>> [_name_temporary(k, [1, 3]) for k in (1, 2, 3)]
    ['t2', 't4', 't5']
    """
    for one in used:
        number += one <= number
    return f"t{number}"


class Rewriting:
    """One simplification of a session's derivative, with the program at each step."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._known: dict[int, tuple[Graph, dict[int, Key]]] = {}

    @property
    def result(self) -> Graph:
        """The program in its last form."""
        return self._finished[0]

    @property
    def keys(self) -> dict[int, Key]:
        """The key of each node of all steps, by its serial."""
        return self._finished[1]

    def find_names(
        self, keys: Mapping[int, Key] | None = None, taken: Iterable[str] = ()
    ) -> dict[int, str]:
        """Return names for the nodes that the user has not named, by serial.

        Temporaries are numbered in the order of the program, ``t1``, ``t2``, further
        on by the steps that make them: a name means one node at all steps. Names that
        are ``taken`` are left out.
        Without ``keys`` those of the nodes of all steps.
        """
        used = sorted({int(x[1:]) for x in taken if _TEMPORARY.fullmatch(x)})
        numbers, count = self._numbers, len(self._numbers)
        names = {}
        for serial, key in (self._finished[1] if keys is None else keys).items():
            step, place = key
            if step:
                names[serial] = _name_temporary(count + step, used) + "′" * place
            elif key in numbers:
                names[serial] = _name_temporary(numbers[key], used)
        return names

    @cached_property
    def _numbers(self) -> dict[Key, int]:
        nodes = self.replay.program.nodes
        places = [i for i, x in enumerate(nodes) if x.inputs and not x.name]
        return {(0, place): number for number, place in enumerate(places, 1)}

    @cached_property
    def _finished(self) -> tuple[Graph, dict[int, Key]]:
        return self.replay.run_with_keys()

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
