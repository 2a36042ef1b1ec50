"""The program inside a node: one step of a loop, the branch taken, an op's own graph.

It runs again on the values of the session, for the one step that is looked at, and its
cotangents are those of the session's own sweep at that step: what all later steps pass
back arrives there. Of a long loop the states at some steps are kept, so that each step
costs a short stretch of the loop, and bounded memory.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.autodiff.steps import Part, Rule, Rules
from workbench.checks import statistics
from workbench.control_flow.loop import Loop
from workbench.control_flow.op import SCAN
from workbench.control_flow.running import get_runner
from workbench.core import blame
from workbench.core.graph import Graph
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.core.types import is_differentiable
from workbench.errors import UsageError
from workbench.ops import define
from workbench.session.stages import (
    Backward,
    Recorder,
    Values,
    replace_values,
    to_array,
)
from workbench.session.state import State

#: The states of a loop that are kept: at so many steps, and of so many bytes.
MOST_STATES, MOST_BYTES = 48, 2**26
#: How deep one looks into programs inside programs.
MOST_DEPTH = 16


@dataclass(frozen=True, eq=False)
class InnerProgram:
    """The program inside a node, with its values and cotangents.

    Attributes
    ----------
    forward
        The program with its values. Ids are positions among its nodes.
    backward, truth
        Its cotangents, with the overrides and without; None if none arrive.
    rules
        The rules of overrides at its nodes, by serial.
    origins
        The node of the program without values that each of its nodes is, by id.
    step, steps
        The step of a loop, from 0, and how many there are; None for no loop.
    norms
        The norms of the gradient that arrives at the state of a loop before some of its
        steps: the steps, and the norms. Empty for no loop.
    """

    forward: Values
    backward: Backward | None
    truth: Backward | None
    rules: Mapping[int, Rule]
    origins: Sequence[Tensor]
    step: int | None = None
    steps: int | None = None
    norms: tuple[Sequence[int], Sequence[float]] = ((), ())


def is_holder(node: Tensor) -> bool:
    """Return whether a node holds a program that can be looked into."""
    return node.op.graphs is not None


def open_inside(state: State, path: Sequence[tuple[int, int]]) -> InnerProgram:
    """Return the program inside a node of a session, and inside a node of that.

    Parameters
    ----------
    state
        The state of the session.
    path
        For each node its id, in the session and then in the program before, and the
        step of a loop, from 0, from the end if negative.

    Raises
    ------
    UsageError
        If a node holds no program, has no such step, or draws random numbers in it.
    """
    if not 0 < len(path) <= MOST_DEPTH:
        raise UsageError(f"a path of {len(path)} nodes leads into no program.")
    shown = _show_session(state)
    rules: Rules = shown.rules
    with np.errstate(all="ignore"):  # the run itself has warned
        for node, step in path:
            shown = _open_node(shown, rules, node, step)
            rules = shown.rules
    return shown


def _show_session(state: State) -> InnerProgram:
    """Return the program of a session itself, as one inside of nothing."""
    resolution = state.resolution
    return InnerProgram(
        state.forward,
        state.backward,
        state.truth if resolution is not None else None,
        {} if resolution is None else resolution.rules,
        state.forward.graph.nodes,
    )


def _open_node(
    around: InnerProgram, rules: Rules, node_id: int, step: int
) -> InnerProgram:
    """Return the program inside a node of a program."""
    nodes = around.forward.graph.nodes
    if not 0 <= node_id < len(nodes):
        raise UsageError(f"there is no node {node_id} to look into.")
    node = nodes[node_id]
    label = _name(node)
    if not is_holder(node):
        raise UsageError(f"{label} holds no program to look into.")
    if node._value is None:
        raise UsageError(
            f"{label} has no value yet. Give the session values with run(...)."
        )
    if node.op is SCAN:
        return _open_loop(around, rules, node_id, step, label)
    graph, values, offset = _find_program(node, label)
    forward = _bind_values(graph, values)
    varying = [
        i for i in range(len(graph.leaves)) if _is_varying(around, node_id, i + offset)
    ]
    sweeps = [
        None
        if (g := _find_cotangents(backward, node_id)) is None
        else _sweep(forward, graph, g, varying, found)
        for backward, found in _list_sweeps(around, rules)
    ]
    return InnerProgram(
        forward, sweeps[0], sweeps[1], _map_rules(graph, forward, rules), graph.nodes
    )


def _name(node: Tensor) -> str:
    """Return a node and its line, as errors begin."""
    return f"{blame.describe(node)}{blame.quote_site(node.site)}"


def _list_sweeps(
    around: InnerProgram, rules: Rules
) -> tuple[tuple[Backward | None, Rules], tuple[Backward | None, Rules]]:
    """Return the cotangents around with the rules that made them, and the true ones."""
    return (around.backward, rules), (around.truth, None)


def _find_program(node: Tensor, label: str) -> tuple[Graph, list[Any], int]:
    """Return the program that a node has run, its values, and where these begin."""
    assert node.op.graphs is not None
    args = [value_of(x) for x in node.operands]
    graphs = node.op.graphs(node.operands, node.settings)
    offset = 0
    graph: Graph = graphs[0]
    if len(graphs) == 2 and "branches" in node.params:
        graph, offset = graphs[0 if bool(args[0]) else 1], 1
    values = args[offset:]
    if len(graphs) > 1 + offset or len(values) != len(graph.leaves):
        raise UsageError(f"{label} holds programs that the page cannot show.")
    return graph, values, offset


def _bind_values(graph: Graph, values: Sequence[Any]) -> Values:
    """Return a program without values on these values of its leaves."""
    known = {x.serial: v for x, v in zip(graph.leaves, values, strict=True)}

    def keep(node: Tensor, operands: tuple[Any, ...]) -> Any:
        known[node.serial] = value = compute_node(node, operands)
        return value

    graph.run(values, keep)
    return Values(replace_values(graph, known))


def _is_varying(around: InnerProgram, node_id: int, k: int) -> bool:
    """Return whether an input of a node has a cotangent in the program around."""
    x = around.forward.graph.nodes[node_id].inputs[k]
    if not isinstance(x, Tensor) or around.backward is None:
        return False
    return around.forward.ids.get(x.serial) in around.backward.cotangents


def _find_cotangents(backward: Backward | None, node_id: int) -> Sequence[Any] | None:
    """Return the cotangents of the outputs of a node; None if nothing arrives."""
    g = None if backward is None else backward.cotangents.get(node_id)
    return g if g is None or isinstance(g, tuple) else (g,)


def _sweep(
    forward: Values,
    graph: Graph,
    cotangents: Sequence[Any],
    varying: Sequence[int],
    rules: Rules,
    at: tuple[int, int] | None = None,
) -> Backward:
    """Run the backward sweep through a program, and keep all cotangents.

    ``varying`` are the leaves that gradients are asked by; ``at`` a step of a loop and
    the number of all steps.
    """
    backward = Backward({}, np.full(forward.starts[-1], np.nan))
    recorder = Recorder(forward, backward)
    leaves = [forward.graph.nodes[graph.ids[graph.leaves[i]]] for i in varying]
    leaves = [x for x in leaves if is_differentiable(x.dtype)]
    outputs = forward.graph.outputs[: len(cotangents)]
    recorder = Recorder(forward, backward)
    found = reverse.pull_back(
        outputs,
        [c if isinstance(y, Tensor) else None
         for c, y in zip(cotangents, outputs, strict=True)],
        leaves,
        rules=_map_rules(graph, forward, rules, at),
        visit=recorder.record,
    )  # fmt: skip
    recorder.finish()
    for x, g in zip(leaves, found, strict=True):
        if g is not None:
            backward.cotangents[forward.ids[x.serial]] = to_array(g)
    return backward


def _map_rules(
    graph: Graph, forward: Values, rules: Rules, at: tuple[int, int] | None = None
) -> dict[int, Rule]:
    """Return rules for the nodes of a program at those of the same with values.

    Those for nodes inside of these stay as they are; of those that mean some steps of
    a loop the ones that hold in the step ``at``.

    Raises
    ------
    UsageError
        If a rule is that of a structure in it.
    """
    if not rules:
        return {}
    made = dict(rules)
    for old, new in zip(graph.nodes, forward.graph.nodes, strict=True):
        rule = made.pop(old.serial, None)
        while rule is not None and at is not None and not _holds(rule, *at):
            rule = rule.otherwise
        if rule is None:
            continue
        if isinstance(rule.node, Part):
            raise UsageError(
                f"the override {rule.label!r} is of a structure inside, and cannot be"
                " shown node by node. Switch it off to look inside."
            )
        made[new.serial] = rule
    return made


def _holds(rule: Rule, step: int, count: int) -> bool:
    """Return whether a rule holds in a step of so many."""
    return rule.steps is None or step in _list_steps(rule.steps, count)


def _list_steps(steps: int | slice, count: int) -> Sequence[int]:
    """Return the steps of a loop that are named, as far as they exist."""
    if isinstance(steps, slice):
        return range(count)[steps]
    return range(count)[steps : steps + 1 or None] if -count <= steps < count else ()


# Loops


@dataclass(frozen=True)
class _LaterRule:
    """A rule of a loop in some of its steps alone, which are counted from 0 there."""

    rule: Any
    steps: slice | None
    otherwise: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rule, name)


def _shift_rule(rule: Any, start: int, stop: int, count: int) -> Any:
    """Return a rule of a loop of so many steps for those from ``start`` to ``stop``."""
    if rule is None or rule.steps is None:
        return rule
    named = sorted(_list_steps(rule.steps, count))
    inside = [t - start for t in named if start <= t < stop]
    otherwise = _shift_rule(rule.otherwise, start, stop, count)
    if not inside:
        return otherwise
    stride = inside[1] - inside[0] if len(inside) > 1 else 1
    return _LaterRule(rule, slice(inside[0], inside[-1] + 1, stride), otherwise)


class LoopRun:
    """A loop that has run: its states before some steps, and their cotangents.

    Steps are counted as the entries of its sequences are; ``order`` says how it goes.
    """

    def __init__(self, node: Tensor) -> None:
        self.loop: Loop = node.params["loop"]
        loop, args = self.loop, [value_of(x) for x in node.inputs]
        if loop.draws:
            raise UsageError(
                f"{_name(node)} draws random numbers in its steps, which would be"
                " drawn anew. Draw them before the loop, and give them as a sequence."
            )
        _, self.consts, self.seqs, inits = loop.split_inputs(args)
        value: Any = node._value
        self.count = int(value[-1] if loop.until else loop.count_steps(args))
        size = sum(np.size(x) * np.dtype(getattr(x, "dtype", float)).itemsize
                   for x in inits)  # fmt: skip
        states = max(2, min(MOST_STATES, MOST_BYTES // max(1, size), self.count))
        #: How many steps are done before each kept state.
        self.starts = sorted({self.count * k // states for k in range(states)})
        self.states = [inits]
        for a, b in zip(self.starts, self.starts[1:], strict=False):
            self.states.append(self.run(self.states[-1], a, b))

    @property
    def marks(self) -> list[int]:
        """The step before which each kept state is, as steps are counted."""
        n = self.count
        return [n - 1 - t if self.loop.reverse else t for t in self.starts]

    def find_entries(self, done: int, until: int) -> slice:
        """Return the entries of the steps after ``done`` of them."""
        n = self.count
        return slice(n - until, n - done) if self.loop.reverse else slice(done, until)

    def run(self, state: Sequence[Any], done: int, until: int) -> list[Any]:
        """Return the state after some more steps."""
        if done == until:
            return [*state]
        rows = self.find_entries(done, until)
        brief = copy.copy(self.loop)
        brief.keep = False  # nothing is stored of the steps
        given = [*self.consts, *(x[rows] for x in self.seqs), *state]
        return list(get_runner(brief)(until - done, given)[: self.loop.carries])

    def pull(
        self,
        state: Sequence[Any],
        done: int,
        until: int,
        arriving: Sequence[Any],
        rows: Sequence[Any],
        rules: Rules,
    ) -> list[Any]:
        """Return the cotangents of a state, from those of the state some steps later.

        ``rows`` are the cotangents of the stacked outputs of all steps.
        """
        if done == until:
            return [*arriving]
        entries, loop = self.find_entries(done, until), copy.copy(self.loop)
        loop.limit, loop.keep, count = None, True, until - done
        if not loop.counted and (loop.steps is not None or not loop.seqs):
            loop.steps = count
        leaves = [make_leaf(x) for x in state]
        inputs = [*self.consts, *(x[entries] for x in self.seqs), *leaves]
        head = [count] if loop.counted else []
        made = define.apply_and_split(SCAN, (*head, *inputs), {"loop": loop})
        cotangents = [*arriving, *(None if g is None else g[entries] for g in rows)]
        shifted = {
            serial: found
            for serial, rule in (rules or {}).items()
            if (found := _shift_rule(rule, entries.start, entries.stop, self.count))
        }
        wrt = [x for x in leaves if is_differentiable(x.dtype)]
        found = iter(
            reverse.pull_back(
                made[: len(cotangents)], cotangents, wrt, rules=shifted or None
            )
        )
        return [
            to_array(next(found)) if is_differentiable(x.dtype) else None
            for x in leaves
        ]


class LoopSweep:
    """The cotangents of the kept states of a loop in one backward sweep."""

    def __init__(self, run: LoopRun, g: Sequence[Any], rules: Rules) -> None:
        carries = run.loop.carries
        self.rows = [*g[carries : carries + run.loop.visible]]
        self.rules = rules
        arriving = [*g[:carries]]
        ends = [*run.starts[1:], run.count]
        #: The cotangents of the state after the steps of each stretch.
        self.arriving: list[list[Any]] = []
        #: The norm of the cotangent of each kept state.
        self.norms: list[float] = []
        found: list[list[Any]] = []
        for state, a, b in reversed([*zip(run.states, run.starts, ends, strict=True)]):
            self.arriving.insert(0, arriving)
            arriving = run.pull(state, a, b, arriving, self.rows, rules)
            found.insert(0, [c for c in arriving if c is not None])
        lengths = iter(statistics.compute_norms([c for one in found for c in one]))
        for one in found:
            parts = [next(lengths) for _ in one]
            self.norms.append(float(np.linalg.norm(parts)) if parts else np.nan)


#: The loops of one state of a session of which runs are kept.
MOST_LOOPS = 2


def _make_room(known: dict[int, Any]) -> None:
    """Forget the oldest loops but one."""
    while len(known) >= MOST_LOOPS:
        known.pop(next(iter(known)))


def _find_run(around: InnerProgram, node_id: int) -> LoopRun:
    """Return the run of a loop, from memory if known."""
    runs: dict[int, LoopRun] = around.forward.loop_runs
    run = runs.get(node_id)
    if run is None:
        _make_room(runs)
        run = runs[node_id] = LoopRun(around.forward.graph.nodes[node_id])
    return run


def _find_sweep(
    run: LoopRun, backward: Backward, node_id: int, g: Sequence[Any], rules: Rules
) -> LoopSweep:
    """Return the backward sweep of a loop, from memory if known."""
    known: dict[int, LoopSweep] = backward.loop_sweeps
    swept = known.get(node_id)
    if swept is None:
        _make_room(known)
        swept = known[node_id] = LoopSweep(run, g, rules)
        norms = LoopNorms(node_id, run.count, run.marks, swept.norms)
        backward.loop_norms[node_id] = norms
    return swept


class LoopNorms(NamedTuple):
    """The gradient that arrives at the state of a loop before some of its steps.

    Attributes
    ----------
    node
        The id of the loop.
    steps
        How many steps it has made.
    marks, norms
        Some of the steps, and the norm of the gradient at each.
    """

    node: int
    steps: int
    marks: Sequence[int]
    norms: Sequence[float]


def has_loops(state: State) -> bool:
    """Return whether a loop is a node of a session's program."""
    return any(node.op is SCAN for node in state.forward.graph.nodes)


def measure_loops(
    around: State | InnerProgram, seconds: float, least: int = 0
) -> tuple[list[LoopNorms], list[int]]:
    """Return the gradients along the loops of a program, and the loops left out.

    Each costs about a run of the loop, forward and back; what is known costs nothing.

    Parameters
    ----------
    around
        The state of a session, or a program inside one of its nodes.
    seconds
        For so long loops are measured; the others are left out.
    least
        So many are measured however long it takes.
    """
    shown = around if isinstance(around, InnerProgram) else _show_session(around)
    backward = shown.backward
    if backward is None:
        return [], []
    known: dict[int, LoopNorms | None] = backward.loop_norms
    until, measured = time.perf_counter() + seconds, 0
    unmeasured: list[int] = []
    for i, node in enumerate(shown.forward.graph.nodes):
        if node.op is not SCAN or i in known:
            continue
        g = _find_cotangents(backward, i)
        if g is None:
            continue
        if measured >= least and time.perf_counter() >= until:
            unmeasured.append(i)
            continue
        measured += 1
        try:
            with np.errstate(all="ignore"):  # the run itself has warned
                _find_sweep(_find_run(shown, i), backward, i, g, shown.rules)
        except Exception:  # of a user's rule any; whoever looks inside is told
            known[i] = None
    return [one for _, one in sorted(known.items()) if one is not None], unmeasured


def _open_loop(
    around: InnerProgram, rules: Rules, node_id: int, step: int, label: str
) -> InnerProgram:
    """Return one step of a loop."""
    run = _find_run(around, node_id)
    loop, body, n = run.loop, run.loop.body, run.count
    if not -n <= step < n:
        raise UsageError(
            f"{label} has no step {step}: it makes {n}, counted from 0, from the end if"
            " negative."
        )
    step %= n
    done = n - 1 - step if loop.reverse else step
    k = max(i for i, start in enumerate(run.starts) if start <= done)
    state = run.run(run.states[k], run.starts[k], done)
    values = [*run.consts, *(x[step] for x in run.seqs), *state]
    forward = _bind_values(body, values)
    end = run.starts[k + 1] if k + 1 < len(run.starts) else n
    after = [value_of(y) for y in forward.graph.outputs[: loop.carries]]
    first = loop.consts + loop.seqs
    varying = [
        i
        for i in range(len(body.leaves))
        if i >= first or _is_varying(around, node_id, i + loop.counted)
    ]
    sweeps: list[Backward | None] = []
    norms: Sequence[float] = ()
    for backward, found in _list_sweeps(around, rules):
        g = _find_cotangents(backward, node_id)
        if backward is None or g is None:
            sweeps.append(None)
            continue
        swept = _find_sweep(run, backward, node_id, g, found)
        arriving = run.pull(after, done + 1, end, swept.arriving[k], swept.rows, found)
        rows = [None if c is None else c[step] for c in swept.rows]
        sweeps.append(
            _sweep(forward, body, [*arriving, *rows], varying, found, (step, n))
        )
        norms = norms or swept.norms
    return InnerProgram(
        forward,
        sweeps[0],
        sweeps[1],
        _map_rules(body, forward, rules, (step, n)),
        body.nodes,
        step,
        n,
        (run.marks, norms) if norms else ((), ()),
    )
