"""What a session keeps: the program, its values, its gradients, its overrides.

`Kept` computes and shows them; `session.py` adds what asks for more, and what
changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from copy import copy as copied
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.budget import budget_for
from workbench.core.arguments import check_graph
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import UnknownNodeError, UsageError
from workbench.ops.define import shape_of
from workbench.overrides.matching import Resolution, resolve
from workbench.overrides.override import Override
from workbench.session import applied_override, coding, question, stages
from workbench.session.applied_override import Attached
from workbench.session.fair_lock import Turns
from workbench.session.history import Entries, History
from workbench.session.nodes import Arrays, Node, Nodes, handed
from workbench.session.stages import Backward, Forward

if TYPE_CHECKING:
    from workbench.checks.doctor.finding import Findings
    from workbench.checks.report import Report

__all__ = ["Kept", "State"]


@dataclass(frozen=True)
class State:
    """Everything a session shows; it never changes, a session swaps it."""

    forward: Forward
    entries: Entries
    resolution: Resolution | None
    backward: Backward | None
    history: History
    #: The number of the next override.
    following: int


class Kept:
    """The part of `Session` that computes its stages and shows them."""

    def __init__(
        self,
        graph: Graph,
        output: Node | None = None,
        wrt: Iterable[Node] | None = None,
        *,
        name: str = "ad",
        seed: Any = None,
        copy: bool = True,
    ) -> None:
        check_graph(graph, "a Session", "wb.Session({})")
        self._turns = Turns()
        #: What its own code calls it.
        self.name = question.name_of(name)
        #: Its nodes by name and id.
        self.nodes = Nodes(graph.nodes, name, graph.inputs)
        #: The id of the node that is differentiated.
        self.output = question.output_of(self.nodes, graph, output)
        #: The ids of the nodes it is differentiated by.
        self.wrt = question.wrt_of(self.nodes, graph, self.output, wrt)
        #: The cotangent of an output that is not one number.
        self.seed = question.seed_for(
            seed, graph.nodes[self.output], [graph.nodes[i] for i in self.wrt]
        )
        self._state: State
        self._listeners: list[Callable[[str], object]] = []
        # What was last asked for of the program, and of which of its states.
        self._checked: tuple[State, Report] | None = None
        self._diagnosed: tuple[State, Findings] | None = None
        self._gradient_graph: tuple[State, Graph] | None = None
        traced = Forward(graph)
        first = stages.own(traced) if copy else traced
        self._take(self._made(first, (), History()))

    # Stages

    def _made(self, forward: Forward, entries: Entries, history: History) -> State:
        """The state that follows from inputs and overrides."""
        nodes = forward.graph.nodes
        resolution = None
        if entries:
            given = [entry.override for entry in entries]
            where = f"session {self.name!r}"
            wrt = [nodes[i] for i in self.wrt]
            resolution = resolve(given, forward.program, where=where, wrt=wrt)
        backward = None
        if nodes[self.output]._value is not None:
            if resolution is not None and resolution.winners:
                # All rules of a sweep share what rules that are data may use.
                with budget_for([x._value for x in nodes]):
                    backward = self._swept(forward, resolution)
            else:
                backward = self._true(forward)
        following = max((e.id + 1 for e in entries), default=1)
        if hasattr(self, "_state"):  # numbers are not given twice
            following = max(following, self._state.following)
        return State(forward, entries, resolution, backward, history, following)

    def _swept(self, forward: Forward, resolution: Resolution | None) -> Backward:
        seed = self._seed_of(forward)
        return stages.sweep(forward, self.output, seed, self.wrt, resolution)

    def _true(self, forward: Forward) -> Backward:
        if forward.truth is None:
            forward.truth = self._swept(forward, None)
        return forward.truth

    def _seed_of(self, forward: Forward) -> Any:
        if self.seed is not None:
            return self.seed
        return np.ones_like(forward.graph.nodes[self.output]._value)

    def _take(self, state: State) -> None:
        ids = state.forward.ids
        # All at once: an interrupt comes at a call, so before or after both.
        self._state = state
        self.nodes.current = ids

    def _change(self, state: State, what: str) -> None:
        self._take(state)
        self._tell(what)

    def _edit(self, text: str, entries: Entries) -> None:
        """Take other overrides, as a step that can be undone."""
        history = self._state.history.noted(text, self._state.entries)
        self._change(self._fitting(entries, history), "overrides")

    def _fitting(self, entries: Entries, history: History) -> State:
        """The state with other overrides, if each new one can also run alone.

        A rule that nowhere runs since another has the say would else fail when that
        is gone, and its effects could not be told.
        """
        before = self._state
        state = self._made(before.forward, entries, history)
        found = state.resolution
        if found is None or state.backward is None:
            return state
        known = {e.override for e in before.entries}
        for k, (_, one) in enumerate(entries):
            if one.enabled and one not in known and not state.forward.alone.get(one):
                winners = (found.winners.get(x.serial) for x in found.matched[k])
                if any(w is None or w[0] != k for w in winners):
                    state.forward.alone[one] = self._alone(state.forward, one)
        return state

    def _alone(self, forward: Forward, override: Override) -> Mapping[int, Any]:
        """The gradients with one override and no other."""
        # Without what flows elsewhere, which is large.
        wrt = [forward.graph.nodes[i] for i in self.wrt]
        found = resolve([override], forward.program, wrt=wrt)
        seed = self._seed_of(forward)
        return stages.gradients(forward, self.output, seed, self.wrt, found)

    def _tell(self, what: str) -> None:
        for callback in list(self._listeners):
            callback(what)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while the session changes, and by who reads several of its stages."""
        return self._turns.lock

    # What was found out about it

    def frozen(self) -> Self:
        """It as it is now: what later becomes of one is nothing to the other.

        For work in another thread, which the session does not wait for.
        """
        with self.lock:
            made = copied(self)
            made.nodes = copied(self.nodes)
            made._turns = Turns()
            made._listeners = []
            return made

    def adopt(self, what: str, found: Any, of: Kept) -> None:
        """Keep a ``"report"`` or ``"findings"`` of the session as it was in ``of``."""
        with self.lock:
            if what == "report":
                self._checked = of._state, found
            else:
                self._diagnosed = of._state, found
            self._tell("checks")

    @overload
    def examined(self, what: Literal["report"]) -> tuple[Forward, Report] | None: ...
    @overload
    def examined(
        self, what: Literal["findings"]
    ) -> tuple[Forward, Findings] | None: ...
    def examined(self, what: str) -> tuple[Forward, Any] | None:
        """The report or the findings, with the values that they speak of."""
        found = self._checked if what == "report" else self._diagnosed
        return None if found is None else (found[0].forward, found[1])

    @property
    def history(self) -> History:
        """What was changed, and what was taken back."""
        return self._state.history

    @property
    def report(self) -> Report | None:
        """The last gradient check; None before the first."""
        return None if self._checked is None else self._checked[1]

    @property
    def findings(self) -> Findings | None:
        """What the doctor found last; None before it was asked."""
        return None if self._diagnosed is None else self._diagnosed[1]

    @property
    def stale(self) -> frozenset[str]:
        """Which of ``"report"`` and ``"findings"`` are of an earlier state."""
        known = {"report": self._checked, "findings": self._diagnosed}
        return frozenset(
            name
            for name, found in known.items()
            if found is not None and found[0] is not self._state
        )

    # What it shows

    @property
    def graph(self) -> Graph:
        """The program, forward."""
        return self._state.forward.graph

    @property
    def forward(self) -> Forward:
        """The stage of the values."""
        return self._state.forward

    @property
    def backward(self) -> Backward | None:
        """The stage of the gradients; None for a program without values."""
        return self._state.backward

    @property
    def truth(self) -> Backward | None:
        """The stage of the gradients with all overrides off."""
        state = self._state
        if state.backward is None:
            return None
        # Where overrides are on it only stands for comparison: what it divides by 0
        # is what they may be there to mend.
        with np.errstate(all="ignore"):
            return self._true(state.forward)

    @property
    def resolution(self) -> Resolution | None:
        """Which override runs where; None without overrides."""
        return self._state.resolution

    def needed(self) -> Backward:
        """The stage of the gradients, or the error that says why there is none."""
        if self._state.backward is None:
            raise UsageError(
                f"session {self.name!r} has no values, so no gradients: it was traced"
                f" without. Give all inputs to {self.name}.run(...)."
            )
        return self._state.backward

    @property
    def value(self) -> Any:
        """The output's value."""
        return handed(self.graph.nodes[self.output]._value)

    @property
    def values(self) -> Arrays:
        """The value of each node, by its name, its id or its Tensor."""
        nodes = self.graph.nodes
        names = self.nodes.names
        return Arrays(self.nodes, names, lambda i: nodes[i]._value, "values")

    @property
    def grads(self) -> Arrays:
        """The gradient by each ``wrt``, under its name; overrides applied."""
        known, nodes = self.needed().cotangents, self.graph.nodes
        names = {self.nodes.labels[i]: i for i in self.wrt}

        def gradient(i: int) -> Any:
            if i not in self.wrt:
                label = self.nodes.labels[i]
                raise UnknownNodeError(
                    f"{label} is not in wrt ({', '.join(names)}). What flows back to"
                    f" it is {self.name}.cotangents[{label!r}]."
                )
            return known[i] if i in known else np.zeros_like(nodes[i]._value)

        return Arrays(self.nodes, names, gradient, "gradients")

    @property
    def cotangents(self) -> Arrays:
        """What flows back to each node; None where nothing does."""
        known = self.needed().cotangents
        names = {name: i for name, i in self.nodes.names.items() if i in known}
        return Arrays(self.nodes, names, known.get, "cotangents")

    @property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied.

        Each of its Tensors names the forward node that it belongs to (`origin`).
        """
        state = self._state
        if self._gradient_graph is None or self._gradient_graph[0] is not state:
            self.needed()
            nodes = state.forward.graph.nodes
            made = reverse.pull_back(
                [nodes[self.output]],
                [self._seed_of(state.forward)],
                [nodes[i] for i in self.wrt],
                record=True,
                rules=None if state.resolution is None else state.resolution.pulls(),
            )
            graph = Graph(state.forward.graph.inputs, made)
            self._gradient_graph = state, graph
        return self._gradient_graph[1]

    def __getitem__(self, node: Node) -> Tensor:
        return self.graph.nodes[self.nodes.find(node)]

    def __repr__(self) -> str:
        state, labels = self._state, self.nodes.labels
        node = state.forward.graph.nodes[self.output]
        text = node.name or node.op.name
        if shape_of(node) != ():
            text += f" {node.shape}"
        elif node._value is not None:
            number = node._value.item() if hasattr(node._value, "item") else node._value
            text += f" = {number:g}"
        by = ", ".join(labels[i] for i in self.wrt) or "nothing"
        more = len(state.entries)
        tail = f", {more} override{'s' * (more != 1)}" if more else ""
        return (
            f"<Session {self.name!r}: {text} by {by}; {self.nodes.count} nodes{tail}>"
        )

    @property
    def overrides(self) -> list[Attached]:
        """All overrides in order: what each matched and what it changes."""
        state = self._state
        if state.resolution is None:
            return []
        found, alone = state.resolution, state.forward.alone
        on = [e.override for e in state.entries if e.override.enabled]
        return [
            Attached(
                entry.id,
                entry.override,
                places(state.forward, found.matched[k]),
                places(state.forward, found.covered[k]),
                found.notes[k],
                applied_override.target_text(entry.override.target, self.nodes),
                coding.code_line(self.name, entry, self.nodes),
                entry.override in alone or on in ([entry.override], []),
                partial(self._effects, state, entry.override),
            )
            for k, entry in enumerate(state.entries)
        ]

    def _effects(
        self, state: State, override: Override
    ) -> list[applied_override.Effect]:
        if state.backward is None:
            return []
        on = [e.override for e in state.entries if e.override.enabled]
        forward = state.forward
        alone: Mapping[int, Any] | None
        if on == [override]:
            alone = state.backward.cotangents
        elif override in forward.alone:
            alone = forward.alone[override]
        else:
            try:
                alone = self._alone(forward, override)
            except Exception:  # a rule of the user's that fails on these values
                alone = None
            for gone in set(forward.alone).difference(on):
                del forward.alone[gone]
            forward.alone[override] = alone
        if alone is None:
            return []
        with np.errstate(all="ignore"):
            true = self._true(forward).cotangents
        return applied_override.effects(alone, true, self.wrt, self.nodes.labels)


def places(forward: Forward, matched: Iterable[Tensor]) -> tuple[int, ...]:
    """The ids of nodes; a loop stands for what it holds, once."""
    return tuple(dict.fromkeys(i for node in matched for i in forward.places(node)))
