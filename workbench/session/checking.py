"""Whether a session's gradients are right: the program's, and each node's rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core import walk
from workbench.errors import UsageError
from workbench.overrides.matching import Resolution, resolve
from workbench.session import stages
from workbench.session.chosen import in_force
from workbench.session.derivatives import Part
from workbench.session.nodes import Node
from workbench.session.statistics import relative_change

if TYPE_CHECKING:
    from workbench.checks.progress import Progress
    from workbench.checks.report import Report
    from workbench.session.applied_override import Attached
    from workbench.session.stages import Forward

#: A `Session`, whose file stands above this one.
Session = Any

__all__ = ["check"]

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
    from workbench.checks.analytic import carries
    from workbench.checks.device import from_host, to_host
    from workbench.checks.given import Given
    from workbench.checks.judging import Tolerance
    from workbench.checks.nodes import check_nodes, checkable
    from workbench.checks.progress import Telling
    from workbench.checks.purpose import passing
    from workbench.checks.report import Report
    from workbench.checks.running import Check
    from workbench.checks.verify import fresh_seed

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
        true = session.truth.cotangents
        forward, labels = session.forward, session.nodes.labels
        attached, cotangent = session.overrides, state.objective.cotangent(forward)
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


def _way(forward: Forward, output: Any, source: int) -> list[int]:
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
    from workbench.autodiff.grad import vjp
    from workbench.checks.rounding import noises

    with np.errstate(all="ignore"):
        y, pullback = vjp(function, *values)
        one = np.ones_like(y)
        return noises(lambda g: pullback(g[0]), [one], pullback(one))


def _number(function: Callable[..., Any], seed: Any) -> Callable[..., Any]:
    """The output as one number, weighed by the session's seed."""
    if seed is None:
        return function
    return lambda *values: np.sum(seed * function(*values))
