"""The origins of NaN and infinities that reach a result or a gradient.

From a result that is not finite a walk goes back through nodes that are not, to NaN
first, up to a node with finite operands: the origin. A NaN made from infinities is
blamed on the node that made these, unless they are constants. Harmless infinities (a
mask of minus infinity before a softmax) are never visited: no result that is not finite
leads to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor import explanation, forms
from workbench.checks.doctor.case import (
    DEPTH,
    MOST,
    Case,
    LoopRun,
    SweepStep,
    count_nonfinite,
    holds_ops,
    is_finite,
    is_leaf,
    lift_finding,
    name_nonfinite,
    unfold_node,
)
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import find_form
from workbench.checks.doctor.singular import BOUNDED
from workbench.checks.doctor.spelling import (
    LEFT_OUT,
    parenthesize,
    quote_operand,
)
from workbench.checks.isolated_node import loop_of
from workbench.core import types, walk
from workbench.core.tensor import Tensor, make_leaf, next_serial, value_of
from workbench.errors import WorkbenchError
from workbench.ops.define import Parts


def find_bad_values(case: Case) -> Iterator[Finding]:
    """Yield a finding for each origin of outputs that are not finite.

    For nodes that hold others it tells what happened inside.
    """
    return _refine_findings(case, _find_bad_values(case))


def _find_bad_values(case: Case) -> Iterator[Finding]:
    roots = [y for y in case.outputs if y.serial in case.nonfinite]
    mended: set[int] = set()
    for node, path in find_value_origins(case, roots).items():
        form = find_form(case, node)
        if form is not None:
            if form.target.serial in mended:
                continue  # the same form was suggested before
            mended.add(form.target.serial)
        yield explain_value(case, node, path)


def find_value_origins(
    case: Case, roots: list[Tensor]
) -> dict[Tensor, tuple[Tensor, ...]]:
    """Return the nodes where NaN or infinity began, with paths to the result."""
    found: dict[Tensor, tuple[Tensor, ...]] = {}
    parents: dict[int, Tensor | None] = {y.serial: None for y in roots}
    stack = list(roots)
    while stack:
        node = stack.pop()
        sources = _find_sources(case, node)
        if not sources or _has_new_nonfinite(node):
            found[node] = _trace_path(case, node, parents)
        for x in sources:
            if x.serial not in parents:
                parents[x.serial] = node
                stack.append(x)
    return dict(sorted(found.items(), key=lambda item: item[0].serial))


def _find_sources(case: Case, node: Tensor) -> list[Tensor]:
    """Return the operands that make a node not finite; none for an origin."""
    bad = [
        x for x in node.inputs if isinstance(x, Tensor) and x.serial in case.nonfinite
    ]
    if not bad:
        return []
    if _has_new_nonfinite(node):  # and perhaps some entries come from operands
        return [x for x in bad if not _is_given(case, x)]
    if case.nonfinite[node.serial] == "nan":
        nans = [x for x in bad if case.nonfinite[x.serial] == "nan"]
        if nans:
            return nans
        # NaN from infinities: the operands that made them, unless they are constants.
        made = [x for x in bad if not _is_given(case, x)]
        return made
    return bad


def _is_given(case: Case, x: Tensor) -> bool:
    """Return whether infinities were put there on purpose, as constants are."""
    stack, seen = [x], {x.serial}
    while stack:
        node = stack.pop()
        sources = [
            a
            for a in node.inputs
            if isinstance(a, Tensor) and a.serial in case.nonfinite
        ]
        constants = any(
            not isinstance(a, Tensor) and not is_finite(_drop_non_numbers(a))
            for a in node.inputs
        )
        if not sources and not constants and not is_leaf(node):
            return False
        for a in sources:
            if a.serial not in seen:
                seen.add(a.serial)
                stack.append(a)
    return True


def _drop_non_numbers(a: Any) -> Any:
    return a if isinstance(a, (int, float, complex)) or hasattr(a, "dtype") else None


def _find_bad_data(case: Case, node: Tensor) -> int | None:
    """Return the number of an operand that is data with the same kind of bad entries.

    Infinite data that became NaN does not count: it may be a mask multiplied by 0.
    """
    shown = case.nonfinite[node.serial]
    for k, a in enumerate(node.inputs):
        plain = not isinstance(a, Tensor) or (is_leaf(a) and a.name is None)
        value = _drop_non_numbers(value_of(a))
        if (
            plain
            and value is not None
            and not is_finite(value)
            and name_nonfinite(value) == shown
        ):
            return k
    return None


def _explain_data(
    case: Case, node: Tensor, k: int, path: tuple[Tensor, ...]
) -> Finding:
    """Return the finding for a constant of the program that is not finite."""
    call = case.find_library_call(node)
    if call is not None and types.is_weak(node.inputs[k]):
        return _explain_outside(node, call, path)
    text = parenthesize(quote_operand(node, k))
    name_of = LEFT_OUT if text == "constant" else text
    text = "the data" if name_of == LEFT_OUT else text
    how = count_nonfinite(value_of(node.inputs[k]))
    return Finding(
        "input-not-finite",
        "error",
        node,
        "forward",
        f"{case.name_node(node)} reads data that is not finite",
        f"{text[0].upper()}{text[1:]} holds {how}."
        if text == "the data"
        else f"{text} holds {how}.",
        "The program reads data that is not finite, and what it computes from it is"
        " not finite either.",
        Fix(
            "leave such entries out, or put 0 in their place",
            f"np.where(np.isfinite({name_of}), {name_of}, 0)",
        ),
        path,
    )


def _explain_outside(node: Tensor, call: str, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for a library's function that has no value for its arguments.

    Such a function puts NaN, or minus infinity, where an argument is not allowed.
    """
    nan = name_nonfinite(node._value) == "nan"
    shown = describe_inputs(node)
    return Finding(
        "outside-domain",
        "error",
        node,
        "forward",
        f"{call} gives {'NaN' if nan else 'an infinite value'}",
        f"Its result holds {count_nonfinite(node._value)}"
        + (f"; it depends on {shown}." if shown else "."),
        "An argument is outside of what it is defined for, such as a scale that is"
        " not above 0."
        if nan
        else "A point is outside of the support, or at its edge, where the density is"
        " 0: its logarithm is minus infinity.",
        None,
        path,
    )


#: How many arguments of a library's function are shown.
MOST_SHOWN = 4


def describe_inputs(node: Tensor) -> str:
    """Return the named inputs of the program that a node depends on, and their values.

    Empty if there are none; of many the first few.
    """
    given = [x for x in walk.order_nodes([node]) if is_leaf(x) and x.name is not None]
    return ", ".join(map(_format_range, given[:MOST_SHOWN]))


def _format_range(x: Tensor) -> str:
    """Return the name of an input and its values: ``s = 0``, ``x from 0 to 1``."""
    value = np.asarray(value_of(x))
    if value.size == 0 or value.dtype.kind not in "iuf":
        return str(x.name)
    low, high = value.min(), value.max()
    if low == high:
        return f"{x.name} = {low:.6g}"
    return f"{x.name} from {low:.6g} to {high:.6g}"


def _has_new_nonfinite(node: Tensor) -> bool:
    """Return whether an elementwise op makes bad entries from finite operands."""
    if not node.op.elementwise or isinstance(node._value, tuple):
        return False
    y = node._value
    try:
        clean = np.ones(np.shape(y), bool)
        for a in node.args:
            clean = clean & np.isfinite(value_of(a))
        return bool((clean & ~np.isfinite(y)).any())
    except (TypeError, ValueError):
        return False


def _trace_path(
    case: Case, node: Tensor, parents: dict[int, Tensor | None]
) -> tuple[Tensor, ...]:
    path = [node]
    while (after := parents[path[-1].serial]) is not None:
        path.append(after)
    return tuple(path)


def explain_value(case: Case, node: Tensor, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for one origin."""
    name = case.name_node(node)
    if is_leaf(node):
        how, x = count_nonfinite(node._value), node.name or "x"
        return Finding(
            "input-not-finite",
            "error",
            node,
            "forward",
            f"{name} holds {how}",
            f"{how[0].upper()}{how[1:]} entries of {name} are not finite before"
            " anything is computed.",
            "The program gets an input that is not finite, and what it computes from it"
            " is not finite either.",
            Fix(
                "leave such rows out, or put 0 in their place",
                f"{x} = np.where(np.isfinite({x}), {x}, 0)",
            ),
            path,
        )
    bad = [x for x in node.inputs if not is_finite(_drop_non_numbers(value_of(x)))]
    more = _has_new_nonfinite(node)
    given = None if more else _find_bad_data(case, node)
    if given is not None:
        return _explain_data(case, node, given, path)
    if bad and not more:
        diagnosis = explanation.diagnose_infinity(case, node)
    else:
        diagnosis = explanation.diagnose_value(case, node)
    cancelled = explain_cancelled(case, node, diagnosis, path)
    if cancelled is not None:
        return cancelled
    cause, fix = diagnosis.cause, diagnosis.fix
    # A stable form needs no mask behind it.
    if find_form(case, node) is None:
        unwanted = explanation.find_dropped(case, node, _find_bad_entries(node))
        if unwanted is not None:
            cause, fix = cause + unwanted.cause, unwanted.fix or fix
    return Finding(
        diagnosis.kind,
        "error",
        node,
        "forward",
        f"{name} {diagnosis.trouble}",
        diagnosis.evidence,
        cause,
        fix,
        path,
    )


def _find_bad_entries(node: Tensor) -> Any:
    y = node._value
    return False if isinstance(y, tuple) else ~np.isfinite(y)


def explain_cancelled(
    case: Case, node: Tensor, diagnosis: explanation.Diagnosis, path: tuple[Tensor, ...]
) -> Finding | None:
    """Return the finding for a cancelled sum with rounding that an op cannot take."""
    if diagnosis.operand is None or node.op.custom:
        return None
    found = forms.find_cancelled(case, node, diagnosis.operand, diagnosis.mask)
    if found is None:
        return None
    return Finding(
        "cancellation",
        "error",
        found.node,
        "forward",
        f"{case.name_node(found.node)} cancels, and {case.name_node(node)}"
        f" {diagnosis.trouble}",
        found.evidence,
        forms.CAUSE,
        found.fix,
        (found.node, *path),
    )


# Backward: the origins of NaN and infinities in gradients.
#
# From a gradient that is not finite the walk goes forward, against the sweep, through
# cotangents, to the first step with a finite cotangent: its rule is the origin. So an
# infinite slope that is later multiplied by 0 (the sqrt of a square at 0) is blamed on
# the slope, not on the product that shows NaN.


def find_bad_slopes(case: Case) -> Iterator[Finding]:
    """Yield a finding for each origin of gradients that are not finite.

    None for nodes that were blamed for values, and for readers of what has cancelled.
    For nodes that hold others it tells what happened inside.
    """
    return _refine_findings(case, _find_bad_slopes(case))


def _find_bad_slopes(case: Case) -> Iterator[Finding]:
    blamed = case.blamed
    for one in case.found:
        if one.kind == "cancellation":
            blamed.update(node.serial for node in one.path[1:2])
    for step, path in find_slope_origins(case):
        node = step.node
        if node.serial in blamed:
            continue
        bad_inputs = [
            x
            for x in node.inputs
            if isinstance(x, Tensor) and x.serial in case.nonfinite
        ]
        if bad_inputs:
            makers = find_value_origins(case, bad_inputs)
            if any(x.serial in blamed for x in makers):
                continue  # its values are to blame, and have a finding
            for maker, way in makers.items():
                if maker.serial not in blamed:
                    blamed.add(maker.serial)
                    yield explain_value(case, maker, way)
            continue
        blamed.add(node.serial)
        yield explain_slope(case, step, path)


def find_slope_origins(case: Case) -> Iterator[tuple[SweepStep, tuple[Tensor, ...]]]:
    """Yield the steps where NaN or infinity began, in sweep order, with paths."""
    steps = case.steps
    passers: dict[int, list[SweepStep]] = {}
    for step in steps:
        for serial, _, whole in step.passed:
            if not whole:
                passers.setdefault(serial, []).append(step)
    parents: dict[int, Tensor | None] = {}
    stack = []
    for x, g in zip(case.wrt, case.gradients, strict=True):
        if g is not None and not is_finite(g) and x.serial not in parents:
            parents[x.serial] = None
            stack.append(x)
    found: dict[int, SweepStep] = {}
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
            if serial in parents:
                continue
            parents[serial] = x
            if step.finite:
                found[serial] = step
            else:
                stack.append(step.node)
    for serial in sorted(found, reverse=True):
        path = [found[serial].node]
        while (after := parents.get(path[-1].serial)) is not None:
            path.append(after)
        yield found[serial], tuple(path)


def explain_slope(case: Case, step: SweepStep, path: tuple[Tensor, ...]) -> Finding:
    """Return the finding for one origin."""
    node, name = step.node, case.name_node(step.node)
    if step.arrays is None:
        return Finding(
            "gradient-overflow",
            "error",
            node,
            "backward",
            f"the gradient of {name} overflows",
            f"Its norm is {step.norm:.3g}: the gradients from its readers are finite,"
            " their sum is not.",
            "The sum of these gradients is larger than the dtype holds.",
            explanation.offer_rule(case, node, "bound the gradient there", BOUNDED),
            path,
        )
    diagnosis = explanation.diagnose_slope(case, node, *step.arrays)
    cancelled = explain_cancelled(case, node, diagnosis, path)
    if cancelled is not None:
        return cancelled
    return Finding(
        diagnosis.kind,
        "error",
        node,
        "backward",
        f"{name} {diagnosis.trouble}",
        diagnosis.evidence,
        diagnosis.cause,
        diagnosis.fix,
        path,
    )


# Findings about nodes that hold others: the step, and the op, that is not finite first.


def _find_bad_value(case: Case, node: Tensor) -> Finding | None:
    """Return a finding for the first value inside a node that is not finite."""
    if case.depth >= DEPTH:
        return None
    if loop_of(node) is None:
        inside = unfold_node(node)
        return inside and _find_first(case, node, inside[1], "inside", "Inside")
    run = LoopRun(node)
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
    for origin, path in find_value_origins(sub, bad).items():
        if origin.inputs:
            inner = _find_bad_value(sub, origin) or explain_value(sub, origin, path)
            return lift_finding(case, node, inner, where, prefix)
    return None


def _find_bad_slope(case: Case, node: Tensor, g: Any) -> Finding | None:
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
    run = LoopRun(node)
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
    for finding in find_bad_slopes(sub):
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
    for finding in find_bad_slopes(sub):
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


def _join_fixes(rule: Fix | None, line: Fix | None) -> Fix | None:
    """Return one fix: a rule to attach, or a line for the user's own rule."""
    if rule is None or line is None:
        return rule
    return replace(rule, text=f"{rule.text}; or write {line.code} in its rule")


def _refine_findings(case: Case, found: Iterator[Finding]) -> Iterator[Finding]:
    """Yield findings; for nodes with inner nodes, the findings inside."""
    for finding in found:
        node = finding.node
        inner = None
        if holds_ops(node):
            try:
                if finding.sweep == "forward":
                    inner = _find_bad_value(case, node)
                else:
                    step = case.step_of.get(node.serial)
                    if step is not None and step.arrays is not None:
                        inner = _find_bad_slope(case, node, step.arrays[0])
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
