"""The program inside a node, run again and recorded on its values.

So the doctors examine what is inside a loop, a branch, a checkpointed function, an op
made of a graph, or a function with its own rules, as any program. The outer node
remains the one to blame, since the program has no other; the finding names the inner
op and its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.finding import Finding
from workbench.checks.isolated_node import loop_of
from workbench.core.tensor import Tensor, make_leaf, value_of

#: Loops of more ops in all their steps are not recorded for their backward sweep.
MOST = 200_000
#: The depth to which nested loops are examined.
DEPTH = 4


class LoopRun:
    """A loop with the values of its run."""

    def __init__(self, node: Tensor) -> None:
        self.loop = node.params["loop"]
        args = [value_of(x) for x in (node.args or node.inputs)]
        _, self.consts, self.seqs, self.inits = self.loop.split_inputs(args)
        value = node._value
        self.count = int(value[-1] if self.loop.until else self.loop.count_steps(args))
        order = range(self.count)
        self.order = list(reversed(order) if self.loop.reverse else order)
        self.step = self.loop.body.run

    @property
    def output_count(self) -> int:
        """The number of the user's outputs of a step."""
        return int(self.loop.carries + self.loop.visible)


def unfold_node(node: Tensor) -> tuple[list[Tensor], list[Any]] | None:
    """Return the inputs of a node as leaves, and its outputs made by the ops inside.

    None for an op without inner ops of the user's.
    """
    unfold = node.op.unfold
    if unfold is None or not holds_ops(node):
        return None
    leaves = [make_leaf(np.asarray(value_of(x))) for x in (node.args or node.inputs)]
    outputs = unfold(leaves, node.params)
    return None if outputs is None else (leaves, list(outputs))


def holds_ops(node: Tensor) -> bool:
    """Return whether there is a program in a node, more than the body of its row."""
    return node.op.custom or node.op.graphs is not None


def record_inside(node: Tensor) -> Iterator[tuple[list[Any], str, str]]:
    """Yield the recorded outputs inside a node and their place: once, or each step."""
    if loop_of(node) is None:
        inside = unfold_node(node)
        if inside is not None:
            yield inside[1], "inside", "Inside"
        return
    run = LoopRun(node)
    if run.count * max(1, len(run.loop.body.interior)) > MOST:
        return
    carries = list(run.inits)
    for t in run.order:
        leaves = [
            make_leaf(x) for x in (*run.consts, *[x[t] for x in run.seqs], *carries)
        ]
        made = run.step(leaves)
        carries = [value_of(y) for y in made[: run.loop.carries]]
        yield made, f"at step {t}", "In the step"


def lift_finding(
    case: Case, node: Tensor, inner: Finding, where: str, prefix: str
) -> Finding:
    """Return a finding about an inner node as one about the outer node.

    ``where`` names the part of it in the title, ``prefix`` in the evidence.
    """
    fix = inner.fix
    reached = node.op.graphs is not None
    if fix is not None and fix.rule is not None and not reached:
        fix = None  # an override does not reach the inner node
    evidence = inner.evidence
    if inner.site is None:  # else the evidence names the place already
        evidence = f"{prefix}{inner.place}: {evidence}"
    return replace(
        inner,
        node=node,
        title=f"{case.name_node(node)}, {where}: {inner.title}",
        evidence=evidence,
        fix=fix,
        path=(node,),
        site=inner.site or inner.node.site,
    )
