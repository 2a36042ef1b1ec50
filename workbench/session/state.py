"""`State`: all that a session holds at one moment, and the lock of its changes.

A state never changes, though some of it is computed when it is first asked for. A
change of a session makes another state, and the session takes it when its gradients are
computed: what fails or is interrupted leaves the last one. A `FairLock` lets one thread
at a time change it, and a `LoopView` is what a loop reads of it from one run to the
next.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from workbench.autodiff import reverse, steps
from workbench.autodiff.budget import budget_for
from workbench.autodiff.forward import push_forward
from workbench.autodiff.higher_order import is_draw
from workbench.autodiff.linear_map import LinearMap
from workbench.autodiff.steps import parts_among
from workbench.checks.statistics import angles, relative_changes
from workbench.core.float_warnings import warn_at_lines
from workbench.core.formatting import format_percent
from workbench.core.graph import Graph
from workbench.core.memory import is_lazy
from workbench.core.tensor import Tensor, make_leaf
from workbench.core.walk import is_leaf
from workbench.errors import (
    TraceError,
    UsageError,
)
from workbench.ops.define import shape_of
from workbench.overrides.node_rule import is_same_rule
from workbench.overrides.override import Override
from workbench.overrides.resolution import Resolution, resolve
from workbench.session.history import (
    NOTHING_DONE,
    Change,
    Entries,
    EntryValue,
    History,
)
from workbench.session.nodes import set_entry
from workbench.session.objective import Objective
from workbench.session.programs import Programs, Recorded
from workbench.session.stages import Backward, Recorder, Values, to_array


class Results(NamedTuple):
    """The results of a program of a session, and the time taken."""

    value: Any
    #: By ``wrt``, by id.
    gradients: Mapping[int, Any]
    seconds: float


class State:
    """All that a session shows at one moment.

    Attributes
    ----------
    objective
        The output, the inputs and the seed.
    forward
        The program with its values.
    start
        The program with values of before some inputs changed: its nodes are the same.
    entries
        The overrides, in order.
    history
        The changes, done and undone.
    next_id
        The number of the next override.
    programs
        What compiles its program; None if each node runs by itself.
    results
        The output and the gradients, if its program computed them.
    before
        The state with the same values before a change of the overrides; only until its
        gradients are computed.
    """

    def __init__(
        self,
        objective: Objective,
        start: Values,
        entries: Entries = (),
        history: History = NOTHING_DONE,
        next_id: int = 1,
        programs: Programs | None = None,
        changed: Mapping[int, Any] | None = None,
        results: Results | None = None,
        before: State | None = None,
    ) -> None:
        self.objective, self.start = objective, start
        self.entries, self.history = entries, history
        # A number is never used twice, not even that of a removed override.
        self.next_id = max(next_id, *(entry.id + 1 for entry in entries), 1)
        self.programs, self.results = programs, results
        self._before = before
        #: The inputs whose values are not those of `start`, by their ids.
        self._changed = changed or {}
        self._forward = None if self._changed else start
        self._lock = threading.RLock()
        # NumPy's error settings for the gradients are those of this moment.
        self._errors = np.geterr(), np.geterrcall()
        #: The last simplification of the gradients, see `programs.py`.
        self.rewriting: Any = None

    @property
    def forward(self) -> Values:
        """The program with its values, which are computed if nobody has looked yet."""
        if self._forward is None:
            with self._lock, self._warn_at_lines():
                if self._forward is None:
                    self._forward = self.start.run(self._changed)
        return self._forward

    @property
    def has_arrays(self) -> bool:
        """True if the values and the gradients of all nodes are computed."""
        return self._forward is not None and "backward" in self.__dict__

    def count_bytes(self) -> int:
        """Return the bytes of the arrays that have been computed for it alone."""
        arrays: list[Any] = []
        if self._forward is not None:
            nodes = self._forward.graph.nodes
            arrays += [x._value for x in nodes if not is_leaf(x) and not is_lazy(x)]
        if (backward := self.__dict__.get("backward")) is not None:
            arrays += backward.cotangents.values()
        return sum({id(x): getattr(x, "nbytes", 0) for x in arrays}.values())

    def _warn_at_lines(self) -> AbstractContextManager[None]:
        """Return the block in which NumPy's settings are those of this state."""
        return warn_at_lines(self.objective.warned, *self._errors)

    @cached_property
    def resolution(self) -> Resolution | None:
        """The nodes of each override; None without overrides.

        Raises
        ------
        OverrideError
            If one of them matches nothing, or does not fit.
        """
        if not self.entries:
            return None
        return self.resolve([entry.override for entry in self.entries])

    def resolve(self, overrides: list[Override]) -> Resolution:
        """Resolve which override runs at which node.

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
            select_unrolled=self.select_unrolled,
        )

    def select_unrolled(
        self, override: Override, matched: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the nodes of an override in its steps of Python's own loops."""
        nodes, ids = self.forward.graph.nodes, self.forward.ids
        known = [ids[x.serial] for x in matched if x.serial in ids]
        found = self.objective.nodes.unrolled.select(override, known)
        return [nodes[i] for i in found]

    # The output and the gradients

    @property
    def value(self) -> Any:
        """The value of the output."""
        if self.results is not None:
            return self.results.value
        return self.forward.graph.nodes[self.objective.output]._value

    def require_gradients(self) -> Mapping[int, Any]:
        """Return the gradients by ``wrt``, by id; raise an error if there are none."""
        if self.results is not None:
            return self.results.gradients
        return self.require_backward().cotangents

    @property
    def seconds(self) -> float:
        """The time to compute the values and the gradients."""
        if self.results is not None:
            return self.results.seconds
        backward = self.backward
        return self.forward.seconds + (0.0 if backward is None else backward.seconds)

    # The stage of the gradients

    @cached_property
    def backward(self) -> Backward | None:
        """The gradients with overrides; None for a program without values."""
        before, self._before = self._before, None
        nodes = self.forward.graph.nodes
        if nodes[self.objective.output]._value is None:
            return None
        with self._warn_at_lines():
            if self.resolution is None or not self.resolution.winners:
                return self._sweep_truth()
            earlier = None if before is None else before._last_sweep
            # All rules of a sweep that are data share one budget.
            with budget_for([x._value for x in nodes]):
                return self.sweep(self.resolution, earlier=earlier)

    @property
    def _last_sweep(self) -> tuple[Backward, Resolution | None] | None:
        """The gradients known so far, and the resolution of that sweep."""
        known = self.__dict__.get("backward")
        if known is not None:
            return known, self.resolution
        truth = self.forward.truth
        return None if truth is None else (truth, None)

    @property
    def truth(self) -> Backward | None:
        """The gradients with all overrides off."""
        if self.backward is None:
            return None
        # With overrides on it is only for comparison: a division by 0 in it may be
        # what they mend.
        with np.errstate(all="ignore"):
            return self._sweep_truth()

    def _sweep_truth(self) -> Backward:
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
        earlier: tuple[Backward, Resolution | None] | None = None,
    ) -> Backward:
        """Run the backward sweep, and keep all cotangents, or only those by ``wrt``.

        ``wrt`` is by default that of the session. What an ``earlier`` sweep of it has
        found, with another resolution, is not computed again where no rule that has
        changed reaches.
        """
        forward, wrt = self.forward, self.objective.wrt if wrt is None else wrt
        nodes = forward.graph.nodes
        output, sources = nodes[self.objective.output], [nodes[i] for i in wrt]
        backward = Backward({}, np.full(forward.starts[-1], np.nan))
        recorder = Recorder(forward, backward)
        start = time.perf_counter()
        found = None
        if earlier is not None:
            found = find_earlier(forward, *earlier, resolution)
            if found is not None and forward.steps is None:
                forward.steps = steps.plan_steps([output], sources)
        gradients = reverse.pull_back(
            [output],
            [self.cotangent],
            sources,
            rules=None if resolution is None else resolution.rules,
            visit=recorder.record if everywhere else None,
            steps=None if found is None else forward.steps,
            earlier=found,
        )
        recorder.finish()
        if everywhere and earlier is not None and found and found.affected is not None:
            affected = {forward.ids[s] for s in found.affected}
            backward.complete(earlier[0], affected, forward)
        for i, g in zip(wrt, gradients, strict=True):
            if g is not None:
                backward.cotangents[i] = to_array(g)
        backward.seconds = time.perf_counter() - start
        return backward

    @property
    def cotangent(self) -> Any:
        """The cotangent that the backward sweep starts with."""
        objective = self.objective
        if objective.seed is not None:
            return objective.seed
        return np.ones_like(self.forward.graph.nodes[objective.output]._value)

    def require_backward(self) -> Backward:
        """Return the gradients; raise an error if the program has no values."""
        if self.backward is None:
            name = self.objective.nodes.session
            raise UsageError(
                f"session {name!r} has no gradients, since it was traced without"
                f" values. Pass all inputs to {name}.run(...)."
            )
        return self.backward

    @cached_property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied."""
        self.require_backward()
        nodes = self.forward.graph.nodes
        made = reverse.pull_back(
            [nodes[self.objective.output]],
            [self.cotangent],
            [nodes[i] for i in self.objective.wrt],
            record=True,
            rules=None if self.resolution is None else self.resolution.rules,
        )
        return Graph(self.forward.graph.inputs, made)

    @cached_property
    def chain_rule(self) -> Graph:
        """The gradients as the chain rule writes them, overrides applied."""
        self.require_backward()
        objective, nodes = self.objective, self.forward.graph.nodes
        output, wrt = nodes[objective.output], [nodes[i] for i in objective.wrt]
        rules = None if self.resolution is None else self.resolution.rules
        with np.errstate(all="ignore"):  # the program itself has warned already
            if not rules and shape_of(output) == () and [*map(shape_of, wrt)] == [()]:
                # As differentiating by hand does.
                one = make_leaf(wrt[0].dtype.type(1))
                made = push_forward([output], wrt, [one], record=True, spelled=True)
                if objective.seed is not None:
                    made = [None if made[0] is None else made[0] * objective.seed]
            else:
                start = make_leaf(self.cotangent)
                made = reverse.pull_back(
                    [output], [start], wrt, record=True, rules=rules
                )
        made = [
            np.zeros_like(x._value) if g is None else g
            for x, g in zip(wrt, made, strict=True)
        ]
        return Graph(self.forward.graph.inputs, made)

    # The program that is compiled

    @property
    def key(self) -> tuple[Override, ...]:
        """The key of the state's program: the overrides that are on."""
        return tuple(self._list_enabled())

    @property
    def last_values(self) -> Values:
        """The program with the last values that are known: these, or those before."""
        return self.start if self._forward is None else self._forward

    @property
    def reason(self) -> str | None:
        """The reason why the next run is NumPy's for good; None if there is none."""
        return None if self.programs is None else self.programs.find_reason(self.key)

    @property
    def backend(self) -> str:
        """The backend of the next run: ``numpy`` or ``compiled``."""
        found = None if self.programs is None else self.programs.find(self.key)
        return "numpy" if found is None else found.backend

    def make_program(self) -> Recorded | None:
        """Return the program of the output and the gradients, recorded if need be.

        None if the session has no backend but NumPy, or an input has no value.
        """
        if self.programs is None or any(x is None for x in self.list_inputs()):
            return None
        return self.programs.make(self.key, self.record_program)

    def list_inputs(self, changed: Mapping[int, Any] | None = None) -> list[Any]:
        """Return the values of the inputs, some of them changed."""
        start, new = self.start, {**self._changed, **(changed or {})}
        ids = [start.ids[x.serial] for x in start.graph.inputs]
        return [new.get(i, start.graph.nodes[i]._value) for i in ids]

    def find_leaf(self, i: int) -> Any:
        """Return the value of an input, or of a constant, by its id."""
        known = self._changed
        return known[i] if i in known else self.start.graph.nodes[i]._value

    def draws_anew(self) -> bool:
        """Return whether another run with the same inputs draws other numbers."""
        varying = self.start.graph.schedule.varying
        nodes = [x for x in self.start.graph.nodes if x.serial in varying]
        return any(map(is_draw, steps.with_inner_nodes(nodes)))

    def make_visible(self, entries: Entries | None = None) -> State:
        """Return the same state with all arrays, that of compiled code computed here.

        With other overrides, if ``entries`` are given. Without a warning: the run has
        given those that there are.
        """
        entries = self.entries if entries is None else entries
        if self.results is None and entries == self.entries:
            return self
        with np.errstate(all="ignore"):
            return State(self.objective, self.start, entries, changed=self._changed)

    def go_to(self, values: Mapping[int, Any], entries: Entries) -> State:
        """Return the state with other inputs and overrides, of another time.

        It has no changes to undo, and warns of nothing: the run has done that.
        """
        start, programs = self.last_values, self.programs
        inputs = {start.ids[x.serial] for x in start.graph.inputs}
        constants = {
            i: x
            for i, x in values.items()
            if i not in inputs and x is not start.graph.nodes[i]._value
        }
        with np.errstate(all="ignore"):
            if constants:
                # Programs hold the constants of the values that they were made with.
                start = start.run(constants)
                programs = None if programs is None else programs.renew()
            return State(
                self.objective, start, entries,
                next_id=self.next_id, programs=programs, changed=values,
            )  # fmt: skip

    def record_program(
        self, start: Values | None = None, share: float = 1.0
    ) -> tuple[Graph, Mapping[int, int]]:
        """Return the output and the gradients as a program of the inputs.

        The origins of its nodes lead to nodes of which it returns the ids: from those
        that compute their values in one step, from those of their gradients in more.

        Parameters
        ----------
        start
            The same nodes, of other shapes perhaps; by default those of the session.
        share
            What output and gradients are multiplied by, before any rule is asked.

        Raises
        ------
        TraceError
            If what is computed depends on values, or on random numbers.
        """
        blank = State(self.objective, (start or self.start).drop_values(), self.entries)
        nodes = blank.start.graph.nodes
        if blank.draws_anew():
            raise TraceError("it draws random numbers, in each run anew.")
        output, *wrt = (nodes[i] for i in (self.objective.output, *self.objective.wrt))
        seed = self.objective.seed
        if seed is None:
            seed = np.full(shape_of(output), share, output.dtype)
        with np.errstate(all="ignore"):  # of constants
            made = LinearMap([output], wrt, blank.resolution, record=True).pull([seed])
        reverse.refuse_nulls(made, wrt)
        zeros = [
            np.zeros(x.shape, x.dtype) if g is None else g
            for g, x in zip(made, wrt, strict=True)
        ]
        for x, traced in zip(nodes, self.start.graph.nodes, strict=True):
            if not is_leaf(x):
                x.origin = reverse.Origin(traced, "", False)
        result = output if share == 1 else output * share
        graph = Graph(blank.start.graph.inputs, [result, *zeros])
        return graph, self.start.ids

    # Next states

    def run(self, leaves: Mapping[int, Any]) -> State:
        """Return the state with other values of some inputs, by their ids.

        Changes of them by hand cannot be undone any more.

        Raises
        ------
        UsageError
            If Python would decide otherwise with them than when it was recorded.
        """
        if self.objective.decisions is not None:
            nodes = self.start.graph.nodes
            self.objective.decisions.check(
                leaves, lambda i: self._changed.get(i, nodes[i]._value)
            )
        inputs = {self.start.ids[x.serial] for x in self.start.graph.inputs}
        programs, history = self.programs, self.history.forget_inputs(leaves)
        if programs is not None and not inputs.issuperset(leaves):
            programs = programs.renew()  # a constant of the program is another one
        elif (made := self.make_program()) is not None and made.function is not None:
            clock = time.perf_counter()
            value, *found = made.function.run(self.list_inputs(leaves))
            seconds = time.perf_counter() - clock
            gradients = dict(zip(self.objective.wrt, found, strict=True))
            changed = {**self._changed, **leaves} if self._forward is None else leaves
            return State(
                self.objective, self.last_values, self.entries, history,
                self.next_id, programs, changed, Results(value, gradients, seconds),
            )  # fmt: skip
        with warn_at_lines(self.objective.warned):
            forward = self.forward.run(leaves)
        return State(
            self.objective, forward, self.entries, history, self.next_id, programs
        )

    def edit(self, text: str, entries: Entries) -> State:
        """Return the state with other overrides, as a change that can be undone.

        Each new one must also run alone: else a rule that another override replaces at
        all nodes would fail later, when the other is removed.
        """
        history = self.history.add_change(Change(text, self.entries))
        state = State(
            self.objective, self.forward, entries, history, self.next_id, self.programs,
            before=self,
        )  # fmt: skip
        found = state.resolution
        if found is None or state.backward is None:
            return state
        known, solo = {e.override for e in self.entries}, self.forward.solo_gradients
        for k, (_, one) in enumerate(entries):
            if one.enabled and one not in known and not solo.get(one):
                winners = (found.winners.get(x.serial) for x in found.matched[k])
                if any(w is None or w[0] != k for w in winners):
                    solo[one] = state._sweep_solo(one)
        return state

    def step(self, is_undo: bool, steps: int) -> State:
        """Return the state some changes earlier, or later.

        Raises
        ------
        UsageError
            If there are not as many.
        """
        history, entries, inputs = self.history.move_steps(is_undo, self.entries, steps)
        at = self.run(self._set_entries(inputs)) if inputs else self
        return State(
            self.objective, at.forward, entries, history, self.next_id, at.programs,
            before=at,
        )  # fmt: skip

    def change_entry(
        self, before: EntryValue, after: EntryValue, text: str, drag: object
    ) -> State:
        """Return the state with another entry of an input, which can be undone."""
        change = Change(text, self.entries, before, after, drag)
        state = self.run(self._set_entries([after]))
        state.history = self.history.add_change(change)
        return state

    def _set_entries(self, entries: Sequence[EntryValue]) -> dict[int, Any]:
        """Return the inputs with these entries, by their ids."""
        made: dict[int, Any] = {}
        for i, index, value in entries:
            old = made[i] if i in made else self.find_leaf(i)
            made[i] = set_entry(old, index, value)
        return made

    # The overrides

    def has_effects(self, override: Override) -> bool:
        """Return whether the effects of an override are known, without a sweep."""
        return override in self.forward.solo_gradients or self._list_enabled() in (
            [override],
            [],
        )

    def effects(self, override: Override) -> list[Effect]:
        """Compare the gradients with one override alone with the true ones."""
        if self.backward is None:
            return []
        on, solo_gradients = self._list_enabled(), self.forward.solo_gradients
        solo: Mapping[int, Any] | None
        if on == [override]:
            solo = self.backward.cotangents
        elif override in solo_gradients:
            solo = solo_gradients[override]
        else:
            try:
                solo = self._sweep_solo(override)
            except Exception:  # a rule of the user's that fails on these values
                solo = None
            for stale in set(solo_gradients).difference(on):
                del solo_gradients[stale]
            solo_gradients[override] = solo
        if solo is None:
            return []
        with np.errstate(all="ignore"):
            true = self._sweep_truth().cotangents
        objective = self.objective
        return measure_effects(solo, true, objective.wrt, objective.nodes.labels)

    def _sweep_solo(self, override: Override) -> Mapping[int, Any]:
        """Return the gradients with one override and no other."""
        truth = self.forward.truth
        earlier = None if truth is None else (truth, None)
        resolution = self.resolve([override])
        with np.errstate(all="ignore"):  # it is only for comparison
            # Without the cotangents of other nodes, which are large.
            found = self.sweep(resolution, everywhere=False, earlier=earlier)
        return found.cotangents

    def _list_enabled(self) -> list[Override]:
        return [e.override for e in self.entries if e.override.enabled]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one override, alone, on the gradient by one input.

    Attributes
    ----------
    node, name
        The input.
    relative
        ``‖g − g_true‖ / ‖g_true‖``; inf where only the true gradient is zero.
    angle
        Between the two, in degrees; NaN where one of them has no direction.
    """

    node: int
    name: str
    relative: float
    angle: float

    def __str__(self) -> str:
        if self.relative == 0:
            return f"{self.name} unchanged"
        turned = f", turned {self.angle:.2g}°" if self.angle >= 0.05 else ""
        if not math.isfinite(self.relative):
            return f"{self.name} beyond comparison"
        return f"{self.name} by {format_percent(self.relative)}{turned}"


def measure_effects(
    solo: Mapping[int, Any],
    true: Mapping[int, Any],
    wrt: Sequence[int],
    labels: Sequence[str],
) -> list[Effect]:
    """Return the effects on gradients beside the true ones, for each input."""
    pairs = []
    for i in wrt:
        g, g_true = solo.get(i), true.get(i)
        if g is not None or g_true is not None:
            g = np.zeros_like(g_true) if g is None else g
            pairs.append((i, g, np.zeros_like(g) if g_true is None else g_true))
    found, expected = [g for _, g, _ in pairs], [g for _, _, g in pairs]
    relative, turned = relative_changes(found, expected), angles(found, expected)
    changes = {
        i: (float(change), 0.0 if change == 0 else float(angle))
        for (i, _, _), change, angle in zip(pairs, relative, turned, strict=True)
    }
    return [Effect(i, labels[i], *changes.get(i, (0.0, 0.0))) for i in wrt]


def find_earlier(
    forward: Values,
    backward: Backward,
    before: Resolution | None,
    resolution: Resolution | None,
) -> reverse.Earlier | None:
    """Return the results of an earlier sweep, for one with another resolution.

    None if all must be computed again: where a rule is that of a part of the program,
    or of a node that passes nothing on without it.
    """
    old = {} if before is None else before.rules
    new = {} if resolution is None else resolution.rules
    if parts_among(old) or parts_among(new):
        return None
    changed: set[int] = set()
    find = forward.find_ids
    for serial in old.keys() | new.keys():
        one, other = old.get(serial), new.get(serial)
        places = [i for rule in (one, other) if rule for i in find(rule.node)]
        holders = [forward.graph.nodes[i] for i in places]
        # The plan of the steps knows no rules, so also where this one stays.
        if not holders or any(node.op.pull is None for node in holders):
            return None
        if one is not None and other is not None and is_same_rule(one, other):
            continue
        changed.update(node.serial for node in holders)
    ids, find_raw = forward.ids, backward.find_raw
    return reverse.Earlier(lambda serial: find_raw(ids[serial]), changed)


R = TypeVar("R")


@dataclass
class Found(Generic[R]):
    """The result of a check or of the doctor.

    Attributes
    ----------
    state, result
        What it is about, and what was found.
    data
        The same as data for the page, once that is asked for.
    """

    state: State
    result: R
    data: Any = None


# A fair lock: a loop that changes a session lets other threads in.

F = TypeVar("F", bound=Callable[..., Any])


def with_lock(method: F) -> F:
    """Run a method in one thread at a time; the page has a thread of its own."""

    @wraps(method)
    def run_locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._fair_lock.lock:
            return method(self, *args, **kwargs)

    return cast(F, run_locked)


class FairLock:
    """A re-entrant lock that waiting threads get in the order in which they came.

    `threading.RLock` goes to the fastest thread, which is a loop that has just released
    it. Here a thread first queues behind those that wait already.

    An interrupt may come between any two steps of Python, but not inside a ``with`` on
    one of Python's own locks. So the property returns one of these: a lock written in
    Python would stay locked for ever if it was interrupted as it is taken or released.

    >>> turns = FairLock()
    >>> with turns.lock, turns.lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._queue = threading.Lock()

    def is_owned(self) -> bool:
        """Return whether this thread has the lock."""
        return cast(bool, self._lock._is_owned())  # type: ignore[attr-defined]

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock, once this thread's turn has come; take the lock at once."""
        if not self.is_owned():
            with self._queue, self._lock:  # later threads wait behind this one
                pass
        return self._lock


class LoopView(NamedTuple):
    """The view that a loop has of a session from one run to the next.

    A step of a loop is several calls: ``run``, then ``grads``. A change that the page
    makes in between would give it the value of before and gradients of after. So the
    thread of the loop goes on to see the state of its run.
    """

    #: The thread of the loop.
    thread: int
    state: State
