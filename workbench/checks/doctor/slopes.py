"""Backward: which nodes made the NaN and infinities that reach a gradient.

From a gradient that is not finite the walk goes forward, against the sweep, through
what was passed on, to the first step at which a finite cotangent arrived: its rule made
it. An infinite slope that is multiplied by 0 further on (the sqrt of a square at 0) is
so blamed on the slope, and not on the product that shows NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workbench.checks.doctor import values, words
from workbench.checks.doctor.case import Case, Step, finite
from workbench.checks.doctor.finding import Finding
from workbench.checks.doctor.singular import BOUNDED
from workbench.core.tensor import Tensor

__all__ = ["look", "origins"]


def look(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
    """A finding for each origin of what is not finite in the gradients.

    ``known`` are the nodes that were blamed for values already.
    """
    blamed = {node.serial for node in known}
    for step, path in origins(case):
        node = step.node
        if node.serial in blamed:
            continue
        wild = [
            x
            for x in node.inputs
            if isinstance(x, Tensor) and x.serial in case.unfinite
        ]
        if wild:
            makers = values.origins(case, wild)
            if any(x.serial in blamed for x in makers):
                continue  # its values are to blame, which has been said
            for maker, way in makers.items():
                if maker.serial not in blamed:
                    blamed.add(maker.serial)
                    yield values.told(case, maker, way)
            continue
        blamed.add(node.serial)
        yield told(case, step, path)


def origins(case: Case) -> Iterator[tuple[Step, tuple[Tensor, ...]]]:
    """The steps where it began, in the order of the sweep, each with the way on."""
    steps = case.steps
    passers: dict[int, list[Step]] = {}
    for step in steps:
        for serial, _, whole in step.passed:
            if not whole:
                passers.setdefault(serial, []).append(step)
    came: dict[int, Tensor | None] = {}
    stack = []
    for x, g in zip(case.wrt, case.gradients, strict=True):
        if g is not None and not finite(g) and x.serial not in came:
            came[x.serial] = None
            stack.append(x)
    found: dict[int, Step] = {}
    while stack:
        x = stack.pop()
        makers = passers.get(x.serial, [])
        if not makers:
            own = case.step_of.get(x.serial)
            if own is not None:  # finite parts whose sum is not
                found[x.serial] = own
            continue
        for step in makers:
            serial = step.node.serial
            if serial in came:
                continue
            came[serial] = x
            if step.finite:
                found[serial] = step
            else:
                stack.append(step.node)
    for serial in sorted(found, reverse=True):
        path = [found[serial].node]
        while (after := came.get(path[-1].serial)) is not None:
            path.append(after)
        yield found[serial], tuple(path)


def told(case: Case, step: Step, path: tuple[Tensor, ...]) -> Finding:
    """The finding for one origin."""
    node, name = step.node, case.call(step.node)
    if step.arrays is None:
        return Finding(
            "gradient-overflow",
            "error",
            node,
            "backward",
            f"the gradient that arrives at {name} overflows",
            f"Its norm is {step.norm:.3g}; what its readers pass on is finite, the sum"
            " is not.",
            "The sum of what flows back is larger than the dtype holds.",
            words.attached(case, node, "bound the gradient there", BOUNDED),
            path,
        )
    said = words.slope(case, node, *step.arrays)
    gone = values.of_cancelled(case, node, said, path)
    if gone is not None:
        return gone
    return Finding(
        said.kind,
        "error",
        node,
        "backward",
        f"{name} {said.trouble}",
        said.evidence,
        said.cause,
        said.fix,
        path,
    )
