"""`State`: inputs and overrides of a session, and the values that follow from them.

A state never changes. A change of a session makes another state, and the session
takes it when all of it is computed: what fails or is interrupted leaves the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import Override
from workbench.session import applied_override, coding
from workbench.session.applied_override import Attached, Effect
from workbench.session.history import Entries, History
from workbench.session.nodes import Nodes
from workbench.session.objective import Objective
from workbench.session.stages import Backward, Forward


class State:
    """Everything a session shows at one moment.

    Attributes
    ----------
    objective
        What is differentiated by what.
    forward
        The program with its values.
    entries
        The overrides, in order.
    history
        What was changed, and what was taken back.
    following
        The number of the next override.
    resolution
        Which override runs where; None without overrides.
    backward
        What flows back; None for a program without values.
    """

    def __init__(
        self,
        objective: Objective,
        forward: Forward,
        entries: Entries,
        history: History,
        following: int,
    ) -> None:
        self.objective, self.forward = objective, forward
        self.entries, self.history = entries, history
        # Numbers are not given twice, not even that of an override that is gone.
        self.following = max(following, *(entry.id + 1 for entry in entries), 1)
        self.resolution = None
        if entries:
            given = [entry.override for entry in entries]
            self.resolution = objective.resolve(forward, given)
        self.backward: Backward | None = objective.sweep(forward, self.resolution)

    # The states that follow

    def run(self, leaves: Mapping[int, Any]) -> State:
        """Return the state with other values of some inputs, by their ids."""
        forward = self.forward.run(leaves)
        return State(
            self.objective, forward, self.entries, self.history, self.following
        )

    def edit(self, text: str, entries: Entries) -> State:
        """Return the state with other overrides, as a change that can be undone."""
        return self.replace(entries, self.history.noted(text, self.entries))

    def replace(self, entries: Entries, history: History) -> State:
        """Return the state with other overrides, if each new one can also run alone.

        A rule that nowhere runs since another has the say would else fail when that
        is gone, and its effects could not be told.
        """
        state = State(self.objective, self.forward, entries, history, self.following)
        found = state.resolution
        if found is None or state.backward is None:
            return state
        known, alone = {e.override for e in self.entries}, self.forward.alone
        for k, (_, one) in enumerate(entries):
            if one.enabled and one not in known and not alone.get(one):
                winners = (found.winners.get(x.serial) for x in found.matched[k])
                if any(w is None or w[0] != k for w in winners):
                    alone[one] = self.objective.alone(self.forward, one)
        return state

    def step(self, back: bool, steps: int) -> State:
        """Return the state so many changes of the overrides earlier, or later.

        Raises
        ------
        UsageError
            If there are not as many.
        """
        history, entries = self.history.stepped(back, self.entries, steps)
        return State(self.objective, self.forward, entries, history, self.following)

    # What it shows

    def needed(self) -> Backward:
        """Return what flows back, or raise the error that says why nothing does."""
        if self.backward is None:
            name = self.objective.session
            raise UsageError(
                f"session {name!r} has no values, so no gradients: it was traced"
                f" without. Give all inputs to {name}.run(...)."
            )
        return self.backward

    @property
    def truth(self) -> Backward | None:
        """What flows back with all overrides off."""
        if self.backward is None:
            return None
        # Where overrides are on it only stands for comparison: what it divides by 0
        # is what they may be there to mend.
        with np.errstate(all="ignore"):
            return self.objective.truth(self.forward)

    @cached_property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied."""
        self.needed()
        nodes = self.forward.graph.nodes
        made = reverse.pull_back(
            [nodes[self.objective.output]],
            [self.objective.cotangent(self.forward)],
            [nodes[i] for i in self.objective.wrt],
            record=True,
            rules=None if self.resolution is None else self.resolution.pulls(),
        )
        return Graph(self.forward.graph.inputs, made)

    def overrides(self, nodes: Nodes) -> list[Attached]:
        """List the overrides in order: what each matched and what it changes."""
        found, alone = self.resolution, self.forward.alone
        if found is None:
            return []
        on = self._enabled()
        return [
            Attached(
                entry.id,
                entry.override,
                _places(self.forward, found.matched[k]),
                _places(self.forward, found.covered[k]),
                found.notes[k],
                applied_override.target_text(entry.override.target, nodes),
                coding.code_line(self.objective.session, entry, nodes),
                entry.override in alone or on in ([entry.override], []),
                partial(self._effects, entry.override),
            )
            for k, entry in enumerate(self.entries)
        ]

    def _enabled(self) -> list[Override]:
        return [e.override for e in self.entries if e.override.enabled]

    def _effects(self, override: Override) -> list[Effect]:
        """Compare the gradients with one override alone to the true ones."""
        if self.backward is None:
            return []
        on, known = self._enabled(), self.forward.alone
        alone: Mapping[int, Any] | None
        if on == [override]:
            alone = self.backward.cotangents
        elif override in known:
            alone = known[override]
        else:
            try:
                alone = self.objective.alone(self.forward, override)
            except Exception:  # a rule of the user's that fails on these values
                alone = None
            for gone in set(known).difference(on):
                del known[gone]
            known[override] = alone
        if alone is None:
            return []
        with np.errstate(all="ignore"):
            true = self.objective.truth(self.forward).cotangents
        objective = self.objective
        return applied_override.effects(alone, true, objective.wrt, objective.labels)


def _places(forward: Forward, matched: Iterable[Tensor]) -> tuple[int, ...]:
    """Return the ids of nodes; a loop stands for what it holds, once."""
    return tuple(dict.fromkeys(i for node in matched for i in forward.places(node)))
