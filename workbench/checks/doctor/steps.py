"""Inside a node: at which step, and in which op of it, a value or slope breaks.

A loop, a branch, a checkpointed function, an op made of a graph, a function with rules
of its own: what is inside runs again, recorded, on the values that it had, and what
the doctor says of the nodes of a program it says of those too. The outer node stays the
one to blame, since the program has no other; the finding names the op and its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor import values
from workbench.checks.doctor.case import Case, finite
from workbench.checks.doctor.finding import Finding, Fix
from workbench.core.tensor import Tensor, make_leaf, next_serial, value_of
from workbench.errors import WorkbenchError
from workbench.ops.define import Parts

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
        self.step = self.loop.body.run

    @property
    def stacked(self) -> int:
        """How many of the user's outputs of a step there are."""
        return int(self.loop.carries + self.loop.visible)


def unfolded(node: Tensor) -> tuple[list[Tensor], list[Any]] | None:
    """The inputs of a node as leaves, and its outputs as the ops inside make them.

    None for an op without any.
    """
    unfold = node.op.unfold
    if unfold is None:
        return None
    leaves = [make_leaf(np.asarray(value_of(x))) for x in (node.args or node.inputs)]
    return leaves, list(unfold(leaves, node.params))


def recorded(node: Tensor) -> Iterator[tuple[list[Any], str, str]]:
    """What is made inside a node, recorded, and where: once, or at each step."""
    if node.op.name != "scan" or node.op.custom:
        inside = unfolded(node)
        if inside is not None:
            yield inside[1], "inside", "Inside"
        return
    run = _Run(node)
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


def forward(case: Case, node: Tensor) -> Finding | None:
    """Return what broke first inside a node whose result is not finite."""
    if case.depth >= DEPTH:
        return None
    if node.op.name != "scan" or node.op.custom:
        inside = unfolded(node)
        return inside and _first(case, node, inside[1], "inside", "Inside")
    run = _Run(node)
    carries = list(run.inits)
    for t in run.order:
        rows = [x[t] for x in run.seqs]
        made = run.step([*run.consts, *rows, *carries])
        if not all(finite(y) for y in made[: run.stacked]):
            leaves = [make_leaf(x) for x in (*run.consts, *rows, *carries)]
            again = run.step(leaves)[: run.stacked]
            return _first(case, node, again, f"at step {t}", "In the step")
        carries = made[: run.loop.carries]
    return None


def _first(
    case: Case, node: Tensor, made: list[Any], where: str, within: str
) -> Finding | None:
    """Return what broke first of what has been recorded inside a node."""
    bad = [y for y in made if isinstance(y, Tensor) and not finite(y._value)]
    sub = Case("what is inside", bad, [], [], depth=case.depth + 1)
    for origin, path in values.value_origins(sub, bad).items():
        if origin.inputs:
            inner = forward(sub, origin) or values.tell_value(sub, origin, path)
            return outer(case, node, inner, where, within)
    return None


def backward(case: Case, node: Tensor, g: Any) -> Finding | None:
    """What broke first on the way back through a node, to which ``g`` arrived."""
    if case.depth >= DEPTH or case.rules:
        return None
    if node.op.name != "scan" or node.op.custom:
        return (
            _in_rule(case, node, g)
            if _has_own_rule(node)
            else _unfolded_back(case, node, g)
        )
    run = _Run(node)
    loop = run.loop
    if run.count * max(1, len(loop.body.interior)) > MOST:
        return None
    consts = [make_leaf(x) for x in run.consts]
    inits = [make_leaf(x) for x in run.inits]
    seqs = [[make_leaf(x[t]) for t in range(run.count)] for x in run.seqs]
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
    for finding in refined(sub, values.find_bad_slopes(sub)):
        at = max((s for s in starts if s[0] <= finding.node.serial), default=(0, 0))
        return outer(case, node, finding, f"at step {at[1]}", "In the step")
    return None


def _has_own_rule(node: Tensor) -> bool:
    """Return whether the derivative of a node is a rule of the user's own."""
    op = node.op
    return op.custom and (op.has_own_rule or op.graphs is None or op.unfold is None)


def _unfolded_back(case: Case, node: Tensor, g: Any) -> Finding | None:
    """The first slope that breaks among the ops inside, whose rules are the node's."""
    inside = unfolded(node)
    if inside is None:
        return None
    leaves, made = inside
    parts = g if isinstance(g, tuple) else (g,)
    pairs = [
        (y, value_of(c))
        for y, c in zip(made, parts, strict=False)
        if isinstance(y, Tensor) and c is not None and y.dtype.kind in "fc"
    ]
    wrt = [x for x in leaves if x.dtype.kind in "fc"]
    if not pairs or not wrt:
        return None
    outputs, seeds = map(list, zip(*pairs, strict=True))
    sub = Case("what is inside", outputs, seeds, wrt, depth=case.depth + 1)
    for finding in refined(sub, values.find_bad_slopes(sub)):
        return outer(case, node, finding, "inside", "Inside")
    return None


def _in_rule(case: Case, node: Tensor, g: Any) -> Finding | None:
    """Return the first op of a user's rule whose value is not finite."""
    pull: Any = node.op.pull
    args = [np.asarray(value_of(x)) for x in (node.args or node.inputs)]
    leaves = tuple([make_leaf(x) for x in args])
    mask = sum(1 << i for i, x in enumerate(args) if x.dtype.kind in "fc")
    y = node._value
    y = tuple(map(make_leaf, y)) if isinstance(y, tuple) else make_leaf(y)
    if isinstance(g, tuple):
        arriving: Any = Parts(None if c is None else make_leaf(value_of(c)) for c in g)
    else:
        arriving = make_leaf(value_of(g))
    made = list(pull(mask, arriving, y, leaves, node.params))
    found = _first(case, node, made, "in its rule", "In the rule")
    return found and replace(found, sweep="backward")


def outer(case: Case, node: Tensor, inner: Finding, where: str, within: str) -> Finding:
    """Return a finding about a node inside another, as one about that other.

    ``where`` and ``within`` say in which part of it, for the title and the evidence.
    """
    fix = inner.fix
    reached = node.op.graphs is not None
    if fix is not None and fix.rule is not None and not reached:
        fix = None  # an override does not get there
    evidence = inner.evidence
    if inner.site is None:  # else it is told where already
        evidence = f"{within}{inner.place}: {evidence}"
    return replace(
        inner,
        node=node,
        title=f"{case.call(node)}, {where}: {inner.title}",
        evidence=evidence,
        fix=fix,
        path=(node,),
        site=inner.site or inner.node.site,
    )


def _both(rule: Fix | None, line: Fix | None) -> Fix | None:
    """Return a rule to attach, and what to write in the user's own rule instead."""
    if rule is None or line is None:
        return rule
    return replace(rule, text=f"{rule.text}; or write {line.code} in its rule")


def refined(case: Case, found: Iterator[Finding]) -> Iterator[Finding]:
    """Findings, those about nodes that hold others with what happened inside."""
    for finding in found:
        node = finding.node
        inner = None
        if node.op.name == "scan" or node.op.unfold or node.op.custom:
            try:
                if finding.sweep == "forward":
                    inner = forward(case, node)
                else:
                    step = case.step_of.get(node.serial)
                    if step is not None and step.arrays is not None:
                        inner = backward(case, node, step.arrays[0])
            except (ArithmeticError, IndexError, TypeError, ValueError, WorkbenchError):
                inner = None  # what is said of the node as a whole holds
        if inner is None:
            yield finding
        elif inner.fix is None or (finding.sweep == "backward" and _has_own_rule(node)):
            yield replace(inner, fix=_both(finding.fix, inner.fix))
        elif case.depth:
            yield inner
        elif finding.sweep == "backward" and finding.fix and finding.fix.rule:
            # A rule of the node inside is none for the one outside, which has its own.
            own = replace(finding.fix, text=inner.fix.text)
            yield replace(inner, fix=own)
        else:
            yield replace(inner, fix=replace(inner.fix, rule=None))
