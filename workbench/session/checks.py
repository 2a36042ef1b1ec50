"""The check of a session's gradients, and the doctor for a session.

`check` compares the gradients with the values of the ops: the program runs again as a
function of its inputs (`OutputFunction`), with its overrides. `diagnose` runs the
doctor, `find_fix` returns the fix of a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from workbench.autodiff.jacobian import vjp
from workbench.checks.doctor.case import Case, count_nonfinite, hold_on_host, is_finite
from workbench.checks.doctor.diagnose import examine, require_fix
from workbench.checks.doctor.finding import Finding, Findings, Fix
from workbench.checks.doctor.values import find_slope_origins, find_value_origins
from workbench.checks.isolated_node import to_host
from workbench.checks.progress import BUDGET, Progress
from workbench.checks.statistics import relative_change
from workbench.core import types, walk
from workbench.core.graph import Graph
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import Override, override
from workbench.overrides.regions import Region
from workbench.overrides.resolution import Resolution, resolve
from workbench.overrides.targets import ByNode, ByOp, ByPart, ByPredicate, Target
from workbench.session.applied_override import (
    AppliedOverride,
    attached_overrides,
    write_code_line,
)
from workbench.session.derivative import find_active
from workbench.session.history import NumberedOverride
from workbench.session.nodes import Node, Nodes, check_one_array, copy_for_user, to_list
from workbench.session.stages import Values
from workbench.session.state import State

if TYPE_CHECKING:
    from workbench.checks.report import Report

#: How many numbers a check may compute for the entries of the gradients (a large
#: program has fewer entries checked), and the fewest and most entries to check.
WORK, FEWEST, MOST = 1e8, 4, 64
#: The runs of the program for one entry.
RUNS = 16
#: The part of the time that the rules of the nodes may take, before the whole.
NODES_SHARE = 0.7
#: The cost of calling an op, in numbers computed.
CALL = 1e4


# The program has warned already: the report says where a number is not finite.
@np.errstate(all="ignore")
def check_gradients(
    state: State,
    wrt: Iterable[Node] | Node | None = None,
    *,
    nodes: bool = True,
    progress: Progress | None = None,
    budget: float | None = BUDGET,
    **settings: Any,
) -> Report:
    """Check each node's rule by itself, and the gradients as a whole.

    See `Session.check`.
    """
    from workbench.checks.comparison import Check, run_from_host
    from workbench.checks.differences import Tolerance
    from workbench.checks.gradient_check import GivenGradients, draw_seed
    from workbench.checks.isolated_node import is_analytic
    from workbench.checks.nodes import check_nodes, is_checkable
    from workbench.checks.progress import ProgressMeter
    from workbench.checks.report import Report, make_identity_overrides

    unknown = set(settings) - {"atol", "entries", "order", "rtol", "seed"}
    if unknown or settings.get("entries", 1) < 1 or settings.get("order", 1) < 1:
        settings_text = ", ".join(f"{k}={v!r}" for k, v in settings.items())
        raise UsageError(
            f"session.check got {settings_text}. Its settings are entries and order, of"
            " 1 or more, rtol, atol and seed; entries=8 say."
        )
    forward, resolution, objective = state.forward, state.resolution, state.objective
    labels = objective.nodes.labels
    part = OutputFunction(state, objective.nodes, wrt)
    cotangents, truth = state.require_backward().cotangents, state.truth
    assert truth is not None  # with gradients there are true gradients
    true, attached = truth.cotangents, attached_overrides(state)
    order = settings.pop("order", 2)
    seed = settings.pop("seed", None)
    report = Report(labels[objective.output], draw_seed() if seed is None else seed)
    report.diagnosis = f"{objective.nodes.session}.diagnose()"
    # A gradient that the program itself stops or scales is not the true one either.
    ops = make_identity_overrides(
        [x for x in forward.program if x.serial in part.inside]
    )
    passed = None
    if ops:
        passed = resolve(ops, forward.program)
        true = state.sweep(passed, part.wrt).cotangents
    report.overridden = tuple(override.label for override in [*part.overrides, *ops])
    program = forward.graph.nodes
    report.labels = {x.serial: label for x, label in zip(program, labels, strict=True)}
    work = sum(1 if x._value is None else max(np.size(x._value), 1)
               for x in program if not isinstance(x._value, tuple))  # fmt: skip
    affordable = int(WORK / (RUNS * max(work, len(program) * CALL)))
    entries = settings.pop("entries", None)
    rtol, atol = settings.pop("rtol", None), settings.pop("atol", None)
    meter = ProgressMeter(
        progress, sum(map(is_checkable, program)) if nodes else 0, budget
    )
    gradients = [
        to_host(true.get(i, np.zeros_like(x)))
        for i, x in zip(part.wrt, part.values, strict=True)
    ]
    number, values = run_from_host(
        _weigh_output(part.function, objective.seed), part.values
    )
    comparison = GivenGradients(
        Check(
            report,
            part.labels,
            ("given",),
            Tolerance(rtol, atol),
            MOST if entries is None else entries,
            meter,
        ),
        number,
        [np.asarray(x) for x in values],
        gradients,
        most=max(affordable, FEWEST) if entries is None else None,
        known=all(map(is_analytic, program)),
        noise=_measure_noise(number, values),
    )
    with meter:
        if nodes:
            covered = [] if resolution is None else getattr(resolution, "covered", [])
            with meter.limit_share(NODES_SHARE):
                check_nodes(
                    program,
                    seed=report.seed,
                    order=order,
                    rtol=rtol,
                    rules=None if resolution is None else resolution.rules,
                    covered={x.serial for some in covered for x in some},
                    cotangent_of=lambda node: cotangents.get(
                        forward.ids.get(node.serial, -1)
                    ),
                    meter=meter,
                    name_of=_make_namer(state),
                    found=report.nodes,
                )
        comparison.run()
    report.end(meter)
    if report.overridden:
        for label, i, g in zip(part.labels, part.wrt, gradients, strict=True):
            passed_on = cotangents.get(i, np.zeros_like(g))
            report.changed[label] = relative_change(to_host(passed_on), to_host(g))
            if report.changed[label] != 0:
                path = _find_ids_between(forward, part.output, i)
                x = forward.graph.nodes[i]
                report.changers[label] = _name_changers(
                    [attached[k] for k in find_active(resolution, forward, path, [x])],
                    i,
                ) + _list_labels(passed, find_active(passed, forward, path, [x]))
    return report


def _find_ids_between(forward: Values, output: Any, source: int) -> list[int]:
    """Return the ids of the nodes between one node and the output."""
    found = walk.find_dependents(
        walk.order_nodes([output]), [forward.graph.nodes[source]]
    )
    return [forward.ids[serial] for serial in found if serial in forward.ids]


def _name_changers(running: Sequence[AppliedOverride], source: int) -> tuple[str, ...]:
    """Return the labels of the active overrides that change one gradient."""

    def changes(one: AppliedOverride) -> bool:
        return any(e.node == source and e.relative != 0 for e in one.effects)

    # Perhaps none does alone: effects of overrides of inner nodes are not measured.
    found = [one for one in running if changes(one)] or running
    return tuple(dict.fromkeys(one.label for one in found))


def _list_labels(
    resolution: Resolution | None, positions: list[int]
) -> tuple[str, ...]:
    """Return the labels of the overrides at these positions."""
    if resolution is None:
        return ()
    return tuple(resolution.overrides[k].label for k in positions)


def _measure_noise(function: Callable[..., Any], values: list[Any]) -> list[float]:
    """Return the rounding errors of the gradients, without overrides."""
    from workbench.checks.differences import measure_rounding

    y, pullback = vjp(function, *values)
    one = np.ones_like(y)
    return measure_rounding(lambda g: pullback(g[0]), [one], pullback(one))


def _weigh_output(function: Callable[..., Any], seed: Any) -> Callable[..., Any]:
    """Return the function with one number as output, weighted by the session's seed."""
    if seed is None:
        return function
    return lambda *values: np.sum(seed * function(*values))


class OutputFunction:
    """The output of a session as a function of other nodes.

    Attributes
    ----------
    function
        Takes the values of ``wrt``, arrays or Tensors, and returns that of the output.
    values
        The values of ``wrt`` as they are.
    overrides
        The overrides for a derivative of the function: those that run inside it.
    wrt
        The ids of the nodes that it is a function of.
    inside
        The serials of the nodes that it computes.
    """

    def __init__(
        self, state: State, names: Nodes, wrt: Iterable[Node] | Node | None
    ) -> None:
        forward, resolution = state.forward, state.resolution
        nodes, objective, holders = (
            forward.graph.nodes,
            state.objective,
            forward.holders,
        )
        given = objective.wrt if wrt is None else to_list(wrt)
        self.wrt = [names.find(x) for x in given]
        self.labels = [names.labels[i] for i in self.wrt]
        self.output = nodes[objective.output]
        self.sources = [nodes[i] for i in self.wrt]
        for node in (self.output, *self.sources):
            check_one_array(node, nodes, names.labels)
        self.values = [copy_for_user(x._value) for x in self.sources]
        self.graph = Graph(self.sources, [self.output])
        self.winners = {} if resolution is None else resolution.winners
        self.parts = {} if resolution is None else resolution.parts
        self.last_run_ids = forward.ids
        inside = self.inside = self._find_inside()
        #: The Tensor of the last run for a node, by the serial of the node.
        self.rebuild: dict[int, Any] = {}
        #: The override of each inner node, which a run does not make again.
        self.within = {
            serial: k
            for serial, (k, _) in self.winners.items()
            if any(nodes[i].serial in inside for i in holders.get(serial, ()))
        }
        self.owners = dict(self.within)
        running = {k for serial, (k, _) in self.winners.items() if serial in inside}
        running |= set(self.within.values())
        self.overrides: list[Override] = [
            replace(given, target=self._make_target(k, given.target), name=given.label)
            for k, given in enumerate(resolution.overrides if resolution else [])
            if k in running
        ]

    def _make_target(self, k: int, target: Target) -> Target:
        """Return the target of an override in each run of the function."""
        if isinstance(target, ByPart):
            return MovedParts(partial(self._move_regions, k))
        return ByPredicate(partial(self._is_owned, k))

    def _move_regions(self, k: int) -> list[Region]:
        """Return the program parts that an override replaces, in the last run."""
        regions = {
            id(part): part
            for serial, part in self.parts.items()
            if self.winners[serial][0] == k
        }
        sources = {x.serial for x in self.sources}
        return [
            region.rebuild(self._get_current_value)
            for region in regions.values()
            if sources.isdisjoint(region.inside)
            and all(x.serial not in self.last_run_ids or x.serial in self.rebuild
                    for x in region.outputs)
        ]  # fmt: skip

    def _get_current_value(self, x: Tensor) -> Any:
        """Return the Tensor of a node in the last run; if constant, its value."""
        if x.serial in self.rebuild:
            return self.rebuild[x.serial]
        return x._value if x.serial in self.last_run_ids else x

    def _find_inside(self) -> set[int]:
        """Return the serials of the nodes that the function computes."""
        needed = walk.order_nodes([self.output])
        return walk.find_dependents(needed, self.sources) - {
            x.serial for x in self.sources
        }

    def _is_owned(self, k: int, node: Tensor) -> bool:
        return self.owners.get(node.serial) == k

    def _run_step(self, node: Tensor, operands: tuple[Any, ...]) -> Any:
        """Compute a step of a run, and note the new Tensor for the node."""
        new = compute_node(node, operands)
        if isinstance(new, Tensor):
            self.rebuild[node.serial] = new
            if node.serial in self.winners:
                self.owners[new.serial] = self.winners[node.serial][0]
        return new

    def function(self, *values: Any) -> Any:
        """Run the program again, and return the output."""
        # NumPy's warnings were given when the program ran, under the user's settings.
        with np.errstate(all="ignore"):
            if not any(isinstance(x, Tensor) or x.dtype.hasobject for x in values):
                return self.graph.run(values)[0]  # for its value alone
            self.owners = dict(self.within)
            self.rebuild = {
                x.serial: y for x, y in zip(self.sources, values, strict=True)
            }
            return self.graph.run(values, self._run_step)[0]


class MovedParts(ByPart):
    """The target of parts of a program that runs again."""

    def __init__(self, move_regions: Callable[[], list[Region]]) -> None:
        self.move_regions = move_regions

    def find_regions(
        self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()
    ) -> list[Region]:
        """Return the parts, as they are in the last run."""
        return self.move_regions()

    def explain_mismatch(
        self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()
    ) -> str:
        """Return the text for a target without parts, which does not occur here."""
        return "they are not computed"

    def __str__(self) -> str:
        return "parts of the program"


# The doctor


def find_causes(
    state: State,
    progress: Progress | None = None,
    *,
    budget: float | None = BUDGET,
    step: int | None = None,
    count: int = 0,
) -> Findings:
    """Find the nodes to blame for wrong values and gradients.

    Of a ``step`` of so many it says so. See `Session.diagnose`.
    """
    found = examine(make_case(state, progress, budget))
    told = tuple(_attach_code(state, one) for one in found)
    if step is None:
        return replace(found, found=told)
    return replace(
        found, found=told, step=step, of=f"{found.of} at step {step} of {count}"
    )


def make_case(
    state: State, progress: Progress | None = None, budget: float | None = None
) -> Case:
    """Return a state as the doctor examines it."""
    state.require_backward()
    nodes, output = state.forward.graph.nodes, state.objective.output
    return Case(
        f"session {state.objective.nodes.session!r}",
        [nodes[output]],
        [state.cotangent],
        [nodes[i] for i in state.objective.wrt],
        None if state.resolution is None else state.resolution.rules,
        name_of=_make_namer(state),
        progress=progress,
        budget=budget,
        unread=_find_unread(state.forward.graph, nodes[output]),
    )


class BadOrigin(NamedTuple):
    """Where the first NaN or infinity of a state comes from.

    Attributes
    ----------
    node
        The id of the node whose value, or gradient rule, made it.
    sweep
        The pass in which it shows.
    shown, bad
        The node that has it, and the value, or the gradient, that is not finite.
    """

    node: int
    sweep: Literal["forward", "backward"]
    shown: int
    bad: Any


@np.errstate(all="ignore")
def find_origin(state: State) -> BadOrigin | None:
    """Return where the first NaN or infinity comes from; None if all is finite."""
    for i in find_fed_back(state, state.objective.wrt):
        return BadOrigin(i, "forward", i, state.find_leaf(i))
    case = make_case(state)
    with hold_on_host(case.nodes):
        return _find_value_origin(state, case) or _find_slope_origin(state, case)


def _find_value_origin(state: State, case: Case) -> BadOrigin | None:
    roots = [y for y in case.outputs if y.serial in case.nonfinite]
    for node in find_value_origins(case, roots):
        for i in state.forward.find_ids(node)[:1]:
            return BadOrigin(i, "forward", i, node._value)
    return None


def _find_slope_origin(state: State, case: Case) -> BadOrigin | None:
    forward, cotangents = state.forward, state.require_backward().cotangents
    for step, _ in find_slope_origins(case):
        bad = {serial for serial, _, whole in step.passed if not whole}
        shown = [forward.ids[s] for s in sorted(bad) if s in forward.ids]
        for i in forward.find_ids(step.node)[:1]:
            if shown:
                return BadOrigin(i, "backward", shown[0], cotangents.get(shown[0]))
    for i in state.objective.wrt:  # finite parts whose sum is not
        if i in cotangents and not is_finite(cotangents[i]):
            return BadOrigin(i, "backward", i, cotangents[i])
    return None


def find_fed_back(state: State, inputs: Collection[int]) -> list[int]:
    """Return those of some inputs that are not finite and differentiated by.

    They are what a training has made in the run before: none of them is to blame.
    """
    wrt = state.objective.wrt
    return [i for i in inputs if i in wrt and not is_finite(state.find_leaf(i))]


def blame_update(found: Findings, state: State, fed_back: Sequence[int]) -> Findings:
    """Return findings that blame the update between two runs for what it made.

    ``fed_back`` are the inputs that were finite, as their gradients, a run before.
    Other errors follow from them.
    """
    if not fed_back:
        return found
    step = found.step or 0
    made = tuple(_blame_update(state, i, step) for i in fed_back)
    rest = tuple(one for one in found if one.severity != "error")
    return replace(found, found=(*made, *rest))


def _blame_update(state: State, i: int, step: int) -> Finding:
    """Return the finding for an input that a run got from an update of the user's."""
    node, name = state.forward.graph.nodes[i], state.objective.nodes.labels[i]
    how, x = count_nonfinite(node._value), node.name or "x"
    return Finding(
        "input-not-finite",
        "error",
        node,
        "forward",
        f"{name} is not finite since step {step}",
        f"{how[0].upper()}{how[1:]} entries of {name} are not finite at step {step}.",
        f"At step {step - 1} {name} and its gradient were finite, and so was all that"
        f" the program computed: the lines of the loop that make the next {name} from"
        " it have made this.",
        Fix(
            "make that update smaller, or test it before it is used",
            f"assert np.isfinite({x}).all()",
        ),
    )


def _attach_code(state: State, finding: Finding) -> Finding:
    """Return the finding with the line that attaches its fix to this session."""
    find_fix, i = finding.fix, state.forward.ids.get(finding.node.serial)
    if find_fix is None or find_fix.rule is None or i is None:
        return finding
    target = ByOp(finding.node.op.name) if find_fix.everywhere else ByNode(i)
    entry = NumberedOverride(0, override(target, find_fix.rule))
    nodes = state.objective.nodes
    line = write_code_line(nodes.session, entry, nodes)
    return replace(finding, fix=replace(find_fix, code=line))


def _make_namer(state: State) -> Callable[[Tensor], str]:
    """Return the function that names nodes as the picture does."""
    ids, labels = state.forward.ids, state.objective.nodes.labels

    def name_node(node: Tensor) -> str:
        i = ids.get(node.serial)
        return labels[i] if i is not None else node.name or node.op.name

    return name_node


def _find_unread(graph: Graph, output: Tensor) -> list[Tensor]:
    """Return the float inputs of the program that its output does not depend on."""
    reached = {x.serial for x in walk.order_nodes([output])}
    return [
        x
        for x in graph.inputs
        if x.serial not in reached and types.is_differentiable(x.dtype)
    ]


def find_fix(
    nodes: Nodes, which: Finding | int, findings: Findings | None
) -> tuple[str | int, str] | str:
    """Return the target and rule of a finding's fix; or the code to write.

    That is where the program must change: no rule can be attached then.

    Raises
    ------
    UsageError
        If there is no such finding, it has no fix, or is of another program.
    """
    name = nodes.session
    if isinstance(which, Finding):
        finding = which
    elif type(which) is not int:
        raise UsageError(
            f"{name}.fix({which!r}): pass a finding, or its number among"
            f" {name}.findings."
        )
    else:
        if findings is None:
            raise UsageError(
                f"{name}.fix({which}): there are no findings yet. Call"
                f" {name}.diagnose() first."
            )
        if not -len(findings) <= which < len(findings):
            raise UsageError(
                f"{name}.fix({which}): there are {len(findings)} findings, from"
                f" 0 to {len(findings) - 1}."
                if len(findings)
                else f"{name}.fix({which}): the last diagnosis has found"
                f" nothing. After a change, {name}.diagnose() looks again."
            )
        finding = findings[which]
    fix, node = require_fix(finding), finding.node
    if fix.rule is None:
        return f"{fix.code}  # nothing is attached: write this in the program"
    return (node.op.name if fix.everywhere else nodes.find(node)), fix.rule
