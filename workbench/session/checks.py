"""Whether a session's gradients are right, and what the doctor says of them.

`check` compares them to what the ops compute: the program runs again as a function of
its inputs (`Part`), and overrides follow it. `diagnose` asks the doctor, `fix` attaches
what mends a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.autodiff.grad import vjp
from workbench.checks.doctor.case import Case
from workbench.checks.doctor.diagnose import examine, fix_of
from workbench.checks.doctor.finding import Finding, Findings
from workbench.checks.progress import Progress
from workbench.core import types, walk
from workbench.core.graph import Graph
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import Override, override
from workbench.overrides.regions import Region
from workbench.overrides.resolution import Resolution, resolve
from workbench.overrides.targets import ByNode, ByOp, ByPart, ByPredicate, Target
from workbench.session import stages
from workbench.session.applied_override import Attached, code_line
from workbench.session.derivative import in_force, one_array
from workbench.session.history import Entry
from workbench.session.nodes import Node, as_list, handed
from workbench.session.stages import Values
from workbench.session.statistics import relative_change

if TYPE_CHECKING:
    from workbench.checks.report import Report
    from workbench.session.session import Session

#: How many numbers a check may compute for the entries of the gradients: of a large
#: program fewer entries are checked, and at least so many of all inputs together.
WORK, FEWEST, MOST = 4e8, 4, 64
#: How often a program runs for one entry.
RUNS = 16
#: To call an op is as much work as so many numbers.
CALL = 1e4


def check(
    session: Session,
    wrt: Iterable[Node] | Node | None,
    nodes: bool,
    progress: Progress | None,
    settings: dict[str, Any],
) -> Report:
    """See `Session.check`."""
    from workbench.checks.differences import Tolerance
    from workbench.checks.local import carries
    from workbench.checks.nodes import check_nodes, checkable
    from workbench.checks.progress import Telling
    from workbench.checks.report import Report, passing
    from workbench.checks.running import Check, from_host, to_host
    from workbench.checks.verify import Given, fresh_seed

    unknown = set(settings) - {"atol", "entries", "order", "rtol", "seed"}
    if unknown or settings.get("entries", 1) < 1 or settings.get("order", 1) < 1:
        given = ", ".join(f"{k}={v!r}" for k, v in settings.items())
        raise UsageError(
            f"session.check got {given}. Its settings are entries and order, of 1 or"
            " more, rtol, atol and seed; entries=8 say."
        )
    with session.lock:  # a run in another thread changes all of them at once
        part = Part(session, None, wrt)
        known = session.needed().cotangents
        state, resolution = session._state, session.resolution
        truth = session.truth
        assert truth is not None  # where gradients are, the true ones are too
        true = truth.cotangents
        forward, labels = session.forward, session.nodes.labels
        attached, cotangent = session.overrides, state.cotangent
    order = settings.pop("order", 2)
    seed = settings.pop("seed", None)
    report = Report(labels[session.output], fresh_seed() if seed is None else seed)
    # What the program itself stops or scales is not the true gradient either.
    ops = passing([x for x in forward.program if x.serial in part.inside])
    passed = None
    if ops:
        passed = resolve(ops, forward.program)
        with np.errstate(all="ignore"):
            true = stages.sweep(
                forward, session.output, cotangent, part.wrt, passed
            ).cotangents
    report.overridden = tuple(override.label for override in [*part.overrides, *ops])
    report.labels = {x.serial: labels[i] for x, i in _ids(forward)}
    program = forward.graph.nodes
    work = sum(1 if x._value is None else max(np.size(x._value), 1)
               for x in program if not isinstance(x._value, tuple))  # fmt: skip
    fair = int(WORK / (RUNS * max(work, len(program) * CALL)))
    entries = settings.pop("entries", None)
    rtol, atol = settings.pop("rtol", None), settings.pop("atol", None)
    telling = Telling(progress, sum(map(checkable, program)) if nodes else 0)
    gradients = [
        to_host(true.get(i, np.zeros_like(x)))
        for i, x in zip(part.wrt, part.values, strict=True)
    ]
    number, values = from_host(_number(part.function, session.seed), part.values)
    whole = Given(
        Check(
            report,
            part.labels,
            ("given",),
            Tolerance(rtol, atol),
            MOST if entries is None else entries,
            telling,
        ),
        number,
        [np.asarray(x) for x in values],
        gradients,
        most=max(fair, FEWEST) if entries is None else None,
        known=all(map(carries, program)),
        noise=_noise(number, values),
    )
    with telling:
        if nodes:
            covered = [] if resolution is None else getattr(resolution, "covered", [])
            check_nodes(
                program,
                seed=report.seed,
                order=order,
                rtol=rtol,
                rules=None if resolution is None else resolution.pulls(),
                covered={x.serial for some in covered for x in some},
                arriving=lambda node: known.get(forward.ids.get(node.serial, -1)),
                step=telling.step,
                found=report.nodes,
            )
        whole.run()
    report.stopped = telling.stopped
    if report.overridden:
        for label, i, g in zip(part.labels, part.wrt, gradients, strict=True):
            report.changed[label] = relative_change(known.get(i, np.zeros_like(g)), g)
            if report.changed[label] != 0:
                way = _way(forward, part.output, i)
                x = forward.graph.nodes[i]
                report.changers[label] = _changers(
                    [attached[k] for k in in_force(resolution, forward, way, [x])], i
                ) + _labels(passed, in_force(passed, forward, way, [x]))
    session._keep("report", report, state)
    return report


def _way(forward: Values, output: Any, source: int) -> list[int]:
    """The ids of the nodes between one node and the output."""
    found = walk.reaches(walk.order([output]), [forward.graph.nodes[source]])
    return [forward.ids[serial] for serial in found if serial in forward.ids]


def _changers(running: Sequence[Attached], source: int) -> tuple[str, ...]:
    """The labels of the overrides that change one gradient, of those that run."""

    def changes(one: Attached) -> bool:
        return any(e.node == source and e.relative != 0 for e in one.effects)

    # By itself none may: of an inner node effects are not measured.
    found = [one for one in running if changes(one)] or running
    return tuple(dict.fromkeys(one.label for one in found))


def _labels(resolution: Resolution | None, positions: list[int]) -> tuple[str, ...]:
    """The labels of the overrides at these positions."""
    if resolution is None:
        return ()
    return tuple(resolution.overrides[k].label for k in positions)


def _ids(forward: Any) -> Iterable[tuple[Any, int]]:
    return [(x, i) for i, x in enumerate(forward.graph.nodes)]


def _noise(function: Callable[..., Any], values: list[Any]) -> list[float]:
    """What rounding does to the gradients, without overrides."""
    from workbench.checks.differences import noises

    with np.errstate(all="ignore"):
        y, pullback = vjp(function, *values)
        one = np.ones_like(y)
        return noises(lambda g: pullback(g[0]), [one], pullback(one))


def _number(function: Callable[..., Any], seed: Any) -> Callable[..., Any]:
    """The output as one number, weighed by the session's seed."""
    if seed is None:
        return function
    return lambda *values: np.sum(seed * function(*values))


class Part:
    """One node of a session as a function of others.

    Attributes
    ----------
    function
        Takes the values of ``wrt``, arrays or Tensors, and gives that of ``of``.
    values
        The values of ``wrt`` as they are.
    overrides
        To hand to a derivative of the function: those that run inside it.
    wrt
        The ids of the nodes that it is a function of.
    inside
        The serials of the nodes that it computes.
    """

    def __init__(
        self, session: Session, of: Node | None, wrt: Iterable[Node] | Node | None
    ) -> None:
        find = session.nodes.find
        with session.lock:  # a run in another thread changes both at once
            nodes, resolution = session.graph.nodes, session.resolution
            held = session.forward.held
        self.wrt = session.wrt if wrt is None else [find(x) for x in as_list(wrt)]
        self.labels = [session.nodes.labels[i] for i in self.wrt]
        self.output = nodes[session.output if of is None else find(of)]
        self.sources = [nodes[i] for i in self.wrt]
        for node in (self.output, *self.sources):
            one_array(node, nodes, session.nodes.labels)
        self.values = [handed(x._value) for x in self.sources]
        self.graph = Graph(self.sources, [self.output])
        self.winners = {} if resolution is None else resolution.winners
        self.parts = {} if resolution is None else resolution.parts
        self.known = session.forward.ids
        inside = self.inside = self._inside()
        #: What has taken the place of a node, by its serial.
        self.moved: dict[int, Any] = {}
        #: Of nodes within nodes, which a run does not make anew.
        self.within = {
            serial: k
            for serial, (k, _) in self.winners.items()
            if any(nodes[i].serial in inside for i in held.get(serial, ()))
        }
        self.owners = dict(self.within)
        running = {k for serial, (k, _) in self.winners.items() if serial in inside}
        running |= set(self.within.values())
        self.overrides: list[Override] = [
            replace(given, target=self._target(k, given.target), name=given.label)
            for k, given in enumerate(resolution.overrides if resolution else [])
            if k in running
        ]

    def _target(self, k: int, target: Target) -> Target:
        """What an override means in each run of the function."""
        if isinstance(target, ByPart):
            return Moved(partial(self._regions, k))
        return ByPredicate(partial(self._owned, k))

    def _regions(self, k: int) -> list[Region]:
        """The parts of the program that an override has the say over, as they ran."""
        found = {
            id(part): part
            for serial, part in self.parts.items()
            if self.winners[serial][0] == k
        }
        sources = {x.serial for x in self.sources}
        return [
            region.moved(self._new)
            for region in found.values()
            if sources.isdisjoint(region.inside)
            and all(x.serial not in self.known or x.serial in self.moved
                    for x in region.outputs)
        ]  # fmt: skip

    def _new(self, x: Tensor) -> Any:
        """What a node is in the last run; its value, where that does not vary."""
        if x.serial in self.moved:
            return self.moved[x.serial]
        return x._value if x.serial in self.known else x

    def _inside(self) -> set[int]:
        """The serials of the nodes that the function computes."""
        needed = walk.order([self.output])
        return walk.reaches(needed, self.sources) - {x.serial for x in self.sources}

    def _owned(self, k: int, node: Tensor) -> bool:
        return self.owners.get(node.serial) == k

    def _seen(self, node: Tensor, operands: tuple[Any, ...]) -> Any:
        """Compute a step of a run, and note what takes the place of the node."""
        new = compute_node(node, operands)
        if isinstance(new, Tensor):
            self.moved[node.serial] = new
            if node.serial in self.winners:
                self.owners[new.serial] = self.winners[node.serial][0]
        return new

    def function(self, *values: Any) -> Any:
        """The node computed again."""
        self.owners = dict(self.within)
        self.moved = {x.serial: y for x, y in zip(self.sources, values, strict=True)}
        # NumPy's warnings were given when the program ran, under the user's settings.
        with np.errstate(all="ignore"):
            return self.graph.run(values, self._seen)[0]


class Moved(ByPart):
    """Parts of a program that runs again: those that stand where known ones stood."""

    def __init__(self, found: Callable[[], list[Region]]) -> None:
        self.found = found

    def regions(
        self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()
    ) -> list[Region]:
        """The parts, as they are in the last run."""
        return self.found()

    def missed(self, nodes: Sequence[Tensor], wrt: Sequence[Tensor] = ()) -> str:
        """Said of none, since they are known."""
        return "they are not computed"

    def __str__(self) -> str:
        return "parts of the program"


# The doctor


def diagnose(session: Session, progress: Progress | None = None) -> Findings:
    """Look at the state that a session has; kept as its `findings`."""
    with session.lock:  # a run in another thread changes all of it at once
        state = session._state
        session.needed()
        nodes = state.forward.graph.nodes
        seed = state.cotangent
        output = session.output
        wrt = list(session.wrt)
    case = Case(
        f"session {session.name!r}",
        [nodes[output]],
        [seed],
        [nodes[i] for i in wrt],
        None if state.resolution is None else state.resolution.pulls(),
        named=_namer(session, state),
        progress=progress,
        unread=_unread(state.forward.graph, nodes[output], wrt, nodes),
    )
    found = examine(case)
    found = replace(found, found=tuple(_said(session, state, one) for one in found))
    session._keep("findings", found, state)
    return found


def _said(session: Session, state: Any, finding: Finding) -> Finding:
    """The finding with the line that attaches its fix to this session."""
    mend, i = finding.fix, state.forward.ids.get(finding.node.serial)
    if mend is None or mend.rule is None or i is None:
        return finding
    target = ByOp(finding.node.op.name) if mend.everywhere else ByNode(i)
    entry = Entry(0, override(target, mend.rule))
    line = code_line(session.name, entry, session.nodes)
    return replace(finding, fix=replace(mend, code=line))


def _namer(session: Session, state: Any) -> Callable[[Tensor], str]:
    """What the picture calls a node."""
    ids, labels = state.forward.ids, session.nodes.labels

    def named(node: Tensor) -> str:
        i = ids.get(node.serial)
        return labels[i] if i is not None else node.name or node.op.name

    return named


def _unread(graph: Any, output: Tensor, wrt: list[int], nodes: Any) -> list[Tensor]:
    """Float inputs of the program that its output does not depend on at all."""
    reached = {x.serial for x in walk.order([output])}
    return [
        x
        for x in graph.inputs
        if x.serial not in reached and types.differentiable(x.dtype)
    ]


def fix(session: Session, which: Finding | int) -> Attached | str:
    """Attach what mends a finding; or the code to write, where that is not enough.

    Raises
    ------
    UsageError
        If there is no such finding, nothing mends it, or it is of another program.
    """
    if isinstance(which, Finding):
        finding = which
    elif type(which) is not int:
        raise UsageError(
            f"{session.name}.fix({which!r}): give a finding, or its number among"
            f" {session.name}.findings."
        )
    else:
        found = session.findings
        if found is None:
            raise UsageError(
                f"{session.name}.fix({which}): nothing was found yet. Call"
                f" {session.name}.diagnose() first."
            )
        if not -len(found) <= which < len(found):
            raise UsageError(
                f"{session.name}.fix({which}): there are {len(found)} findings, from 0"
                f" to {len(found) - 1}."
                if len(found)
                else f"{session.name}.fix({which}): there is no finding."
            )
        finding = found[which]
    mend = fix_of(finding)
    if mend.rule is None:
        return mend.code
    node = finding.node
    known = session._diagnosed
    # Of a run that others have followed the Tensors are gone, their ids are not.
    i = None if known is None else known[0].forward.ids.get(node.serial)
    at = session.nodes.find(node) if i is None else i
    target = node.op.name if mend.everywhere else at
    made: Attached = session.override(target, mend.rule)
    return made
