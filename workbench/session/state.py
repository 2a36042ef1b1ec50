"""`State`: what a session has at one moment, what it had, and who may change it.

The `Objective` says what is differentiated by what, and is checked before anything
runs. A state never changes. A change of a session makes another state, and the session
takes it when all of it is computed: what fails or is interrupted leaves the last one.
Its `History` says how it came about. `Turns` let one thread at a time change it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from keyword import iskeyword
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.budget import budget_for
from workbench.core import blame, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import is_float
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    NonScalarOutputError,
    OverrideError,
    ShapeError,
    UsageError,
)
from workbench.ops.define import shape_of
from workbench.overrides.override import Override
from workbench.overrides.resolution import Resolution, resolve
from workbench.session.nodes import Node, Nodes, one_array
from workbench.session.stages import Backward, Values, plain
from workbench.session.statistics import Effect, measure_effects


class Objective:
    """What is differentiated, by what, from which cotangent; it never changes.

    Attributes
    ----------
    nodes
        The nodes of the session by name and id.
    output
        The id of the node that is differentiated.
    wrt
        The ids of the nodes it is differentiated by.
    seed
        The cotangent of an output that is not one number.
    """

    def __init__(
        self,
        nodes: Nodes,
        graph: Graph,
        output: Node | None,
        wrt: Iterable[Node] | None,
        seed: Any,
    ) -> None:
        self.nodes = nodes
        self.output = output_of(nodes, graph, output)
        self.wrt = wrt_of(nodes, graph, self.output, wrt)
        self.seed = seed_for(
            seed, graph.nodes[self.output], [graph.nodes[i] for i in self.wrt]
        )


def check_name(name: str) -> str:
    """Check what a session's code calls it: a variable's name, for the code is to run.

    Raises
    ------
    UsageError
        If it is none.
    """
    if isinstance(name, str) and name.isidentifier() and not iskeyword(name):
        return name
    raise UsageError(
        f"a session cannot be called {name!r}: its code is lines such as"
        " ad.override(...), so it needs a name that a variable may have."
    )


def output_of(nodes: Nodes, graph: Graph, output: Node | None) -> int:
    """Return the id of what is differentiated, by default the last output.

    Raises
    ------
    DisconnectedInputError
        If it is a constant.
    DtypeError
        If it is of integer or boolean dtype.
    UsageError
        If there is none, or it has several arrays.
    """
    if output is None:
        if not graph.outputs:
            raise UsageError("the program has no output. Name what to look at.")
        output = graph.outputs[-1]
        if not isinstance(output, Tensor):
            raise DisconnectedInputError(
                f"the output is the constant {output!r}: it depends on no input. Return"
                " something that is computed from the inputs with NumPy."
            )
    found = nodes.find(output)
    node = graph.nodes[found]
    if not is_float(node):
        one_array(node, graph.nodes, nodes.labels)
        raise DtypeError(
            f"the output {nodes.labels[found]} ({blame.describe(node)}"
            f"{blame.quote_site(node.site)}) is of dtype {node.dtype}, and has no"
            " derivative. Name a float value that it is computed from."
        )
    return found


def wrt_of(
    nodes: Nodes, graph: Graph, output: int, wrt: Iterable[Node] | None
) -> list[int]:
    """Return the ids of what it is differentiated by.

    Raises
    ------
    DtypeError
        If one of them is of integer dtype.
    DisconnectedInputError
        If the output does not depend on one of them.
    """
    tensors = graph.nodes
    reached = {x.serial for x in walk.order_nodes([tensors[output]])}
    if wrt is None:
        return [
            nodes.find(x) for x in graph.inputs if x.serial in reached and is_float(x)
        ]
    ids = [nodes.find(x) for x in ([wrt] if isinstance(wrt, str) else wrt)]
    labels = nodes.labels
    for i in ids:
        if not is_float(tensors[i]):
            one_array(tensors[i], tensors, labels)
            raise DtypeError(
                f"{labels[i]} is of dtype {tensors[i].dtype}, and an integer has no"
                f" derivative. Write {labels[i]} = {labels[i]}.astype(float) before,"
                " or leave it out of wrt."
            )
    lost = [labels[i] for i in ids if tensors[i].serial not in reached]
    if lost:
        others = [x.name for x in graph.inputs if x.serial in reached and x.name]
        raise DisconnectedInputError(
            f"{labels[output]} does not depend on {', '.join(lost)}. Leave"
            f" {'it' if len(lost) == 1 else 'them'} out of wrt; it depends on"
            f" {', '.join(others) or 'no input'}."
        )
    return ids


def seed_for(seed: Any, node: Tensor, wrt: Iterable[Tensor]) -> Any:
    """Return the seed in the output's shape and dtype; None where none is needed.

    Raises
    ------
    NonScalarOutputError
        If the output is many numbers and there is no seed.
    DtypeError
        If the output is complex, a ``wrt`` is real, and there is no seed.
    ShapeError
        If the seed has another shape.
    """
    if seed is None:
        if shape_of(node) != ():
            raise NonScalarOutputError(
                f"a session needs one number; the output is {blame.describe(node)}"
                f"{blame.quote_site(node.site)}. Reduce it (np.sum, np.mean), or give a"
                f" seed: a cotangent of shape {node.shape}."
            )
        real = next((x for x in wrt if x.dtype.kind != "c"), None)
        if node.dtype.kind == "c" and real is not None:
            raise DtypeError(
                f"the output {blame.describe(node)}{blame.quote_site(node.site)} is"
                f" complex, and its gradient by {blame.describe(real)} would be that of"
                " the real part alone. Return the part that is meant, np.real(y),"
                " np.imag(y) or np.abs(y), or give a seed: 1 for the real part, -1j for"
                " the other."
            )
        return None
    if np.shape(seed) != node.shape:
        raise ShapeError(
            f"the seed has shape {np.shape(seed)}; the output is"
            f" {blame.describe(node)}{blame.quote_site(node.site)}. Give a cotangent of"
            f" shape {node.shape}."
        )
    if hasattr(seed, "astype"):
        return seed.astype(node.dtype)
    return np.array(seed, node.dtype)


# The overrides of a session as they are, and as they were: undo and redo.

#: So many changes can be undone; a loop that switches one must not fill the memory.
MOST_STEPS = 1000


class Entry(NamedTuple):
    """One override of a session and its number, which stays when it is edited."""

    id: int
    override: Override


Entries = tuple[Entry, ...]


def entry_of(entries: Entries, number: int) -> Entry:
    """Return the override of this number.

    Raises
    ------
    OverrideError
        If there is none; with those that there are.
    """
    for entry in entries:
        if entry.id == number:
            return entry
    known = ", ".join(str(e.id) for e in entries) or "none"
    raise OverrideError(f"there is no override {number}; there are: {known}.")


@dataclass(frozen=True, slots=True)
class History:
    """What was changed, in words, with the overrides as they were before.

    Since overrides are values, going back is taking an earlier tuple of them. The
    last thousand changes are kept. A history never changes: a session swaps it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    >>> one = session.override("tanh", "0.5 * d")
    >>> session.switch(one, False)
    >>> session.undo()
    >>> session.history
    <history: scale ×0.5 on every tanh | switch off scale ×0.5>
    """

    _done: tuple[tuple[str, Entries], ...] = ()
    _undone: tuple[tuple[str, Entries], ...] = ()

    @property
    def done(self) -> list[str]:
        """What was changed, oldest first."""
        return [text for text, _ in self._done]

    @property
    def undone(self) -> list[str]:
        """What was taken back, in the order of redo."""
        return [text for text, _ in reversed(self._undone)]

    @property
    def undo(self) -> str | None:
        """What was changed last; None if nothing was."""
        return self._done[-1][0] if self._done else None

    @property
    def redo(self) -> str | None:
        """What was taken back last; None if nothing was."""
        return self._undone[-1][0] if self._undone else None

    def noted(self, text: str, before: Entries) -> History:
        """The history after one more change; what was taken back is forgotten."""
        return History((*self._done[1 - MOST_STEPS :], (text, before)))

    def stepped(
        self, back: bool, now: Entries, steps: int = 1
    ) -> tuple[History, Entries]:
        """Return the history after so many steps back (or forth), and where they lead.

        Raises
        ------
        UsageError
            If there are not as many.
        """
        word, left = ("undo", self._done) if back else ("redo", self._undone)
        if type(steps) is not int or steps < 1:
            raise UsageError(f"{word}({steps!r}): the steps are a number from 1.")
        if not left:
            raise UsageError(f"there is nothing to {word}.")
        if steps > len(left):
            there = "is 1 change" if len(left) == 1 else f"are {len(left)} changes"
            raise UsageError(f"{word}({steps}): there {there} to {word}.")
        moved = []
        for text, before in reversed(left[-steps:]):
            moved.append((text, now))
            now = before
        rest = left[:-steps]
        if back:
            return History(rest, (*self._undone, *moved)), now
        return History((*self._done, *moved), rest), now

    def __repr__(self) -> str:
        parts = [", ".join(self.done[-10:]) or "nothing done"]
        if self._undone:
            parts.append(", ".join(self.undone[:10]))
        return f"<history: {' | '.join(parts)}>"


#: That of a session that is new.
NOTHING_DONE = History()


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
    """

    def __init__(
        self,
        objective: Objective,
        forward: Values,
        entries: Entries = (),
        history: History = NOTHING_DONE,
        following: int = 1,
    ) -> None:
        self.objective, self.forward = objective, forward
        self.entries, self.history = entries, history
        # Numbers are not given twice, not even that of an override that is gone.
        self.following = max(following, *(entry.id + 1 for entry in entries), 1)
        # Whoever first asks for the gradients, NumPy's warnings are set as here.
        self._errors = np.geterr()
        self.resolution = None
        if entries:
            self.resolution = self._resolve([entry.override for entry in entries])

    def _resolve(self, overrides: list[Override]) -> Resolution:
        """Decide which override runs where.

        Raises
        ------
        OverrideError
            If one of them matches nothing, or does not fit.
        """
        nodes, objective = self.forward.graph.nodes, self.objective
        return resolve(
            overrides,
            self.forward.program,
            where=f"session {objective.nodes.session!r}",
            wrt=[nodes[i] for i in objective.wrt],
        )

    # The stage of the gradients

    @cached_property
    def backward(self) -> Backward | None:
        """What flows back; None for a program without values."""
        nodes = self.forward.graph.nodes
        if nodes[self.objective.output]._value is None:
            return None
        with np.errstate(**self._errors):
            if self.resolution is None or not self.resolution.winners:
                return self._true()
            # All rules of a sweep share what rules that are data may use.
            with budget_for([x._value for x in nodes]):
                return self.sweep(self.resolution)

    @property
    def truth(self) -> Backward | None:
        """What flows back with all overrides off."""
        if self.backward is None:
            return None
        # Where overrides are on it only stands for comparison: what it divides by 0
        # is what they may be there to mend.
        with np.errstate(all="ignore"):
            return self._true()

    def _true(self) -> Backward:
        """Run the backward sweep without overrides, once for the same values."""
        if self.forward.truth is None:
            self.forward.truth = self.sweep(None)
        return self.forward.truth

    def sweep(
        self,
        resolution: Resolution | None,
        wrt: Sequence[int] | None = None,
        *,
        everywhere: bool = True,
    ) -> Backward:
        """Run the backward sweep, and keep what arrives ``everywhere``, or by ``wrt``.

        ``wrt`` are by default the session's.
        """
        forward, wrt = self.forward, self.objective.wrt if wrt is None else wrt
        nodes = forward.graph.nodes
        found = Backward({}, np.full(forward.starts[-1], np.nan))
        start = time.perf_counter()
        made = reverse.pull_back(
            [nodes[self.objective.output]],
            [self.cotangent],
            [nodes[i] for i in wrt],
            rules=None if resolution is None else resolution.rules,
            visit=partial(found.note, forward) if everywhere else None,
        )
        for i, g in zip(wrt, made, strict=True):
            if g is not None:
                found.cotangents[i] = plain(g)
        found.seconds = time.perf_counter() - start
        return found

    @property
    def cotangent(self) -> Any:
        """What the backward sweep starts from."""
        objective = self.objective
        if objective.seed is not None:
            return objective.seed
        return np.ones_like(self.forward.graph.nodes[objective.output]._value)

    def needed(self) -> Backward:
        """Return what flows back, or raise the error that says why nothing does."""
        if self.backward is None:
            name = self.objective.nodes.session
            raise UsageError(
                f"session {name!r} has no values, so no gradients: it was traced"
                f" without. Give all inputs to {name}.run(...)."
            )
        return self.backward

    @cached_property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied."""
        self.needed()
        nodes = self.forward.graph.nodes
        made = reverse.pull_back(
            [nodes[self.objective.output]],
            [self.cotangent],
            [nodes[i] for i in self.objective.wrt],
            record=True,
            rules=None if self.resolution is None else self.resolution.rules,
        )
        return Graph(self.forward.graph.inputs, made)

    # The states that follow

    def run(self, leaves: Mapping[int, Any]) -> State:
        """Return the state with other values of some inputs, by their ids."""
        forward = self.forward.run(leaves)
        return State(
            self.objective, forward, self.entries, self.history, self.following
        )

    def edit(self, text: str, entries: Entries) -> State:
        """Return the state with other overrides, as a change that can be undone.

        Each new one must also run alone: a rule that nowhere runs since another has
        the say would else fail when that is gone, and its effects could not be told.
        """
        history = self.history.noted(text, self.entries)
        state = State(self.objective, self.forward, entries, history, self.following)
        found = state.resolution
        if found is None or state.backward is None:
            return state
        known, alone = {e.override for e in self.entries}, self.forward.alone
        for k, (_, one) in enumerate(entries):
            if one.enabled and one not in known and not alone.get(one):
                winners = (found.winners.get(x.serial) for x in found.matched[k])
                if any(w is None or w[0] != k for w in winners):
                    alone[one] = state._alone(one)
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

    # The overrides

    def has_effects(self, override: Override) -> bool:
        """Return whether what an override changes is known, or costs a sweep."""
        return override in self.forward.alone or self._enabled() in ([override], [])

    def effects(self, override: Override) -> list[Effect]:
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
                alone = self._alone(override)
            except Exception:  # a rule of the user's that fails on these values
                alone = None
            for gone in set(known).difference(on):
                del known[gone]
            known[override] = alone
        if alone is None:
            return []
        with np.errstate(all="ignore"):
            true = self._true().cotangents
        objective = self.objective
        return measure_effects(alone, true, objective.wrt, objective.nodes.labels)

    def _alone(self, override: Override) -> Mapping[int, Any]:
        """Return the gradients with one override and no other."""
        # Without what flows elsewhere, which is large.
        return self.sweep(self._resolve([override]), everywhere=False).cotangents

    def _enabled(self) -> list[Override]:
        return [e.override for e in self.entries if e.override.enabled]


class HasState(Protocol):
    """A session, as its derivatives and its checks see it."""

    name: str
    nodes: Nodes
    _state: State

    def _keep(self, what: str, found: Any, state: State) -> None:
        """Keep what was found out about one of its states."""


# A fair lock: a loop that changes a session lets other threads in.

F = TypeVar("F", bound=Callable[..., Any])


def changing(method: F) -> F:
    """A method that one thread at a time may run: the page has one of its own."""

    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._turns.lock:
            return method(self, *args, **kwargs)

    return cast(F, alone)


class Turns:
    """A re-entrant lock that goes to those who wait for it in the order they came.

    `threading.RLock` goes to whoever is quickest, which is a loop that has just
    let go of it. Here who comes stands in line first, behind who waits already.

    An interrupt may come between any two steps of Python, but not inside of those
    that take and release a lock of Python's own in a ``with``. So what is handed out
    is one of these: written in Python, a lock that was interrupted as it is taken or
    released would be held for ever.

    >>> turns = Turns()
    >>> with turns.lock, turns.lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._line = threading.Lock()

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock, once it is one's turn: to be taken at once."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            with self._line, self._lock:  # whoever comes next waits behind us
                pass
        return self._lock
