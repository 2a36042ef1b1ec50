"""Inside a loop: at which step, and in which op of it, a value or slope breaks.

The step runs again, recorded, on the values that it had; what the doctor says of the
nodes of a program it says of those too. The loop stays the node to blame, since the
program has no other; the finding names the step, the op and the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor import slopes, values
from workbench.checks.doctor.case import Case, finite
from workbench.checks.doctor.finding import Finding
from workbench.graph import blame
from workbench.graph.tensor import Tensor, leaf, next_serial, value_of
from workbench.transforms.program import Program

__all__ = ["backward", "forward"]

#: Loops of more ops in all their steps are not recorded for their backward sweep.
MOST = 200_000
#: Loops within loops are gone into this deep.
DEPTH = 4


class _Run:
    """A loop with the values that it ran on."""

    def __init__(self, node: Tensor) -> None:
        self.loop = node.params["loop"]
        args = [value_of(x) for x in (node.args or node.inputs)]
        _, self.consts, self.seqs, self.inits = self.loop.split(args)
        value = node._value
        self.count = int(value[-1] if self.loop.until else self.loop.length(args))
        order = range(self.count)
        self.order = list(reversed(order) if self.loop.reverse else order)
        self.step = Program(self.loop.body.outputs, self.loop.body.leaves)

    @property
    def stacked(self) -> int:
        """How many of the user's outputs of a step there are."""
        return int(self.loop.carries + self.loop.visible)


def forward(case: Case, node: Tensor) -> Finding | None:
    """What broke first inside a loop whose result is not finite."""
    if node.op.name != "scan" or node.op.custom or case.depth >= DEPTH:
        return None
    run = _Run(node)
    carries = list(run.inits)
    for t in run.order:
        rows = [x[t] for x in run.seqs]
        made = run.step([*run.consts, *rows, *carries])
        if not all(finite(y) for y in made[: run.stacked]):
            inside = [leaf(x) for x in (*run.consts, *rows, *carries)]
            again = run.step(inside)[: run.stacked]
            bad = [y for y in again if isinstance(y, Tensor) and not finite(y._value)]
            sub = Case("a step", bad, [], [], depth=case.depth + 1)
            found = values.origins(sub, bad)
            for origin, path in found.items():
                if origin.inputs:
                    inner = forward(sub, origin) or values.told(sub, origin, path)
                    return _outer(case, node, inner, t, origin)
            return None
        carries = made[: run.loop.carries]
    return None


def backward(case: Case, node: Tensor, g: Any) -> Finding | None:
    """What broke first on the way back through a loop, to which ``g`` arrived."""
    if node.op.name != "scan" or node.op.custom or case.depth >= DEPTH:
        return None
    run = _Run(node)
    loop = run.loop
    if run.count * max(1, len(loop.body.nodes)) > MOST or case.rules:
        return None
    consts = [leaf(x) for x in run.consts]
    inits = [leaf(x) for x in run.inits]
    seqs = [[leaf(x[t]) for t in range(run.count)] for x in run.seqs]
    carries: list[Any] = list(inits)
    parts = g if isinstance(g, tuple) else (g,)
    outputs: list[Tensor] = []
    seeds: list[Any] = []
    starts: list[tuple[int, int]] = []

    def ask(y: Any, seed: Any) -> None:
        if isinstance(y, Tensor) and y.inputs and y.dtype.kind in "fc":
            outputs.append(y)
            seeds.append(seed)

    for t in run.order:
        starts.append((next_serial(), t))
        made = run.step([*consts, *[rows[t] for rows in seqs], *carries])
        carries = made[: loop.carries]
        for i in range(loop.carries, run.stacked):
            if i < len(parts) and parts[i] is not None:
                ask(made[i], np.asarray(value_of(parts[i]))[t])
    for i in range(loop.carries):
        if i < len(parts) and parts[i] is not None:
            ask(carries[i], value_of(parts[i]))
    flat = [x for rows in seqs for x in rows]
    leaves = [x for x in (*consts, *flat, *inits) if x.dtype.kind in "fc"]
    if not outputs or not leaves:
        return None
    sub = Case("a loop", outputs, seeds, leaves, depth=case.depth + 1)
    for finding in slopes.look(sub):
        inner_node = finding.node
        at = max((s for s in starts if s[0] <= inner_node.serial), default=(0, 0))
        return _outer(case, node, finding, at[1], inner_node)
    return None


def _outer(
    case: Case, node: Tensor, inner: Finding, step: int, origin: Tensor
) -> Finding:
    """A finding about a node of a step, as one about the loop."""
    fix = inner.fix
    if fix is not None:
        fix = replace(fix, rule=None)  # it is a rule for the node inside
    place = blame.at(origin.site)
    return replace(
        inner,
        node=node,
        title=f"{case.call(node)}, at step {step}: {inner.title}",
        evidence=f"In the step{place}: {inner.evidence}",
        fix=fix,
        path=(node,),
    )


def refined(case: Case, found: Iterator[Finding]) -> Iterator[Finding]:
    """Findings, those about loops with what happened inside."""
    for finding in found:
        node = finding.node
        inner = None
        if node.op.name == "scan" and not node.op.custom:
            try:
                if finding.sweep == "forward":
                    inner = forward(case, node)
                else:
                    step = case.step_of.get(node.serial)
                    if step is not None and step.arrays is not None:
                        inner = backward(case, node, step.arrays[0])
            except (ArithmeticError, IndexError, TypeError, ValueError):
                inner = None  # what is said of the loop as a whole holds
        yield finding if inner is None else inner
