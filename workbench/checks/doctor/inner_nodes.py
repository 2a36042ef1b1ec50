"""Findings inside a node: the step, and the op of it, that is not finite first.

The program inside a loop, a branch, a checkpointed function, an op made of a graph, or
a function with its own rules runs again, recorded, on its values, and the doctor
examines its nodes like those of any program. The outer node remains the one to blame,
since the program has no other; the finding names the inner op and its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor import values
from workbench.checks.doctor.case import Case, is_finite
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.isolated_node import loop_of
from workbench.core.tensor import Tensor, make_leaf, next_serial, value_of
from workbench.errors import WorkbenchError
from workbench.ops.define import Parts

#: Loops of more ops in all their steps are not recorded for their backward sweep.
MOST = 200_000
#: The depth to which nested loops are examined.
DEPTH = 4


class _LoopRun:
    """A loop with the values that it ran on."""

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
    if unfold is None or not _holds_ops(node):
        return None
    leaves = [make_leaf(np.asarray(value_of(x))) for x in (node.args or node.inputs)]
    outputs = unfold(leaves, node.params)
    return None if outputs is None else (leaves, list(outputs))


def _holds_ops(node: Tensor) -> bool:
    """Return whether there is a program in a node, more than the body of its row."""
    return node.op.custom or node.op.graphs is not None


def record_inside(node: Tensor) -> Iterator[tuple[list[Any], str, str]]:
    """Yield the recorded outputs inside a node and their place: once, or each step."""
    if loop_of(node) is None:
        inside = unfold_node(node)
        if inside is not None:
            yield inside[1], "inside", "Inside"
        return
    run = _LoopRun(node)
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


def find_bad_value(case: Case, node: Tensor) -> Finding | None:
    """Return a finding for the first value inside a node that is not finite."""
    if case.depth >= DEPTH:
        return None
    if loop_of(node) is None:
        inside = unfold_node(node)
        return inside and _find_first(case, node, inside[1], "inside", "Inside")
    run = _LoopRun(node)
    carries = list(run.inits)
    for t in run.order:
        rows = [x[t] for x in run.seqs]
        made = run.step([*run.consts, *rows, *carries])
        if not all(is_finite(y) for y in made[: run.output_count]):
            leaves = [make_leaf(x) for x in (*run.consts, *rows, *carries)]
            again = run.step(leaves)[: run.output_count]
            return _find_first(case, node, again, f"at step {t}", "In the step")
        carries = made[: run.loop.carries]
    return None


def _find_first(
    case: Case, node: Tensor, made: list[Any], where: str, prefix: str
) -> Finding | None:
    """Return a finding for the first recorded value that is not finite."""
    bad = [y for y in made if isinstance(y, Tensor) and not is_finite(y._value)]
    sub = Case("what is inside", bad, [], [], depth=case.depth + 1)
    for origin, path in values.find_value_origins(sub, bad).items():
        if origin.inputs:
            inner = find_bad_value(sub, origin) or values.explain_value(
                sub, origin, path
            )
            return lift_finding(case, node, inner, where, prefix)
    return None


def find_bad_slope(case: Case, node: Tensor, g: Any) -> Finding | None:
    """Return a finding for the first slope inside a node that is not finite.

    ``g`` is the cotangent of the node.
    """
    if case.depth >= DEPTH or case.rules:
        return None
    if loop_of(node) is None:
        return (
            _find_in_rule(case, node, g)
            if _has_own_rule(node)
            else _find_in_unfolded(case, node, g)
        )
    run = _LoopRun(node)
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

    def add_output(y: Any, seed: Any) -> None:
        if isinstance(y, Tensor) and y.inputs and y.dtype.kind in "fc":
            outputs.append(y)
            seeds.append(seed)

    for t in run.order:
        starts.append((next_serial(), t))
        made = run.step([*consts, *[rows[t] for rows in seqs], *carries])
        carries = made[: loop.carries]
        for i in range(loop.carries, run.output_count):
            if i < len(parts) and parts[i] is not None:
                add_output(made[i], np.asarray(value_of(parts[i]))[t])
    for i in range(loop.carries):
        if i < len(parts) and parts[i] is not None:
            add_output(carries[i], value_of(parts[i]))
    flat = [x for rows in seqs for x in rows]
    leaves = [x for x in (*consts, *flat, *inits) if x.dtype.kind in "fc"]
    if not outputs or not leaves:
        return None
    sub = Case("a loop", outputs, seeds, leaves, depth=case.depth + 1)
    for finding in refine_findings(sub, values.find_bad_slopes(sub)):
        at = max((s for s in starts if s[0] <= finding.node.serial), default=(0, 0))
        return lift_finding(case, node, finding, f"at step {at[1]}", "In the step")
    return None


def _has_own_rule(node: Tensor) -> bool:
    """Return whether the derivative of a node is a rule of the user's own."""
    op = node.op
    return op.custom and (op.has_own_rule or op.graphs is None or op.unfold is None)


def _find_in_unfolded(case: Case, node: Tensor, g: Any) -> Finding | None:
    """Return a finding for the first bad slope of a node that unfolds into ops."""
    inside = unfold_node(node)
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
    for finding in refine_findings(sub, values.find_bad_slopes(sub)):
        return lift_finding(case, node, finding, "inside", "Inside")
    return None


def _find_in_rule(case: Case, node: Tensor, g: Any) -> Finding | None:
    """Return a finding for the first op of a user's rule that is not finite."""
    pull: Any = node.op.pull
    args = [np.asarray(value_of(x)) for x in (node.args or node.inputs)]
    leaves = tuple([make_leaf(x) for x in args])
    mask = sum(1 << i for i, x in enumerate(args) if x.dtype.kind in "fc")
    y = node._value
    y = tuple(map(make_leaf, y)) if isinstance(y, tuple) else make_leaf(y)
    if isinstance(g, tuple):
        cotangent: Any = Parts(None if c is None else make_leaf(value_of(c)) for c in g)
    else:
        cotangent = make_leaf(value_of(g))
    made = list(pull(mask, cotangent, y, leaves, node.params))
    found = _find_first(case, node, made, "in its rule", "In the rule")
    return found and replace(found, sweep="backward")


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


def _join_fixes(rule: Fix | None, line: Fix | None) -> Fix | None:
    """Return one fix: a rule to attach, or a line for the user's own rule."""
    if rule is None or line is None:
        return rule
    return replace(rule, text=f"{rule.text}; or write {line.code} in its rule")


def refine_findings(case: Case, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings; for nodes with inner nodes what happened inside."""
    for finding in found:
        node = finding.node
        inner = None
        if _holds_ops(node):
            try:
                if finding.sweep == "forward":
                    inner = find_bad_value(case, node)
                else:
                    step = case.step_of.get(node.serial)
                    if step is not None and step.arrays is not None:
                        inner = find_bad_slope(case, node, step.arrays[0])
            except (ArithmeticError, IndexError, TypeError, ValueError, WorkbenchError):
                inner = None  # the finding about the whole node remains
        if inner is None:
            yield finding
        elif inner.fix is None or (finding.sweep == "backward" and _has_own_rule(node)):
            yield replace(inner, fix=_join_fixes(finding.fix, inner.fix))
        elif case.depth:
            yield inner
        elif finding.sweep == "backward" and finding.fix and finding.fix.rule:
            # A rule for the inner node does not fit the outer one: it has its own fix.
            fix = replace(finding.fix, text=inner.fix.text)
            yield replace(inner, fix=fix)
        else:
            yield replace(inner, fix=replace(inner.fix, rule=None))
