"""Gradients that are 0 or missing: the nodes that cut them, the entries dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.checks import conventions
from workbench.checks.doctor import spelling
from workbench.checks.doctor.case import Case, measure_norm
from workbench.checks.doctor.equivalence import (
    offer_fix,
)
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import constant_value
from workbench.checks.doctor.spelling import (
    MOST as MOST_TEXT,
)
from workbench.core import blame, types, walk
from workbench.core.spelling import fill_template
from workbench.core.tensor import Tensor, value_of

#: Common numbers: a constant that equals one of them proves nothing.
COMMON = {0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 10.0}


def find_zero_gradients(case: Case) -> Iterator[Finding]:
    """Yield a finding for each input without a gradient, or each node that cuts it.

    None for the zeros after a node that was blamed already.
    """
    known = case.blamed
    case.steps  # noqa: B018  (which finds the gradients too)
    serials = {node.serial for node in case.nodes}
    reported: set[int] = set()
    for x, g in zip(case.wrt, case.gradients, strict=True):
        if x.serial not in serials or (not case.readers.get(x.serial) and g is None):
            yield _explain_unread(case, x)
        elif g is None:
            yield from _explain_cuts(case, x, reported)
        elif np.size(g) and measure_norm(g) == (0.0, True):
            yield from _explain_zero(case, x, reported, known)
    for x in case.unread:
        yield _explain_unread(case, x)


def find_conventions(case: Case) -> Iterator[Finding]:
    """Yield a finding for each length of 0 whose second derivative is a convention."""
    for node in conventions.find_conventions(case.outputs, case.wrt, case.rules):
        zeros = int(np.sum(np.equal(node._value, 0)))
        text = spelling.quote_line(node) or "y"
        if "\n" in text or len(text) > MOST_TEXT:
            text = "y"
        yield Finding(
            "convention",
            "note",
            node,
            "backward",
            f"{case.name_node(node)} is 0 here, and its second derivative is a"
            " convention",
            f"Entries that are 0: {zeros} of {np.size(node._value)}. There the second"
            " derivative is taken as 0.",
            conventions.explain_convention(node.op.name),
            Fix(
                "a length that is smooth, and differs by 1e-8 at most",
                fill_template(conventions.SMOOTH, [spelling.to_expression(text)]).code,
            ),
        )


def _explain_unread(case: Case, x: Tensor) -> Finding:
    """Return the finding for an input that the result does not depend on."""
    name = case.name_node(x)
    copy = _find_copy_reader(case, x)
    if copy is None:
        evidence = "No node behind the result reads it."
        cause = (
            "Its gradient is 0 everywhere. If the result should depend on it, the"
            " program uses its value without gradient (x.value, float(x.value), a"
            " plain array, an index or another whole number made of it), or it uses"
            " another variable by mistake."
        )
    else:
        evidence = (
            f"No node reads it, but {case.name_node(copy)}{_quote_site(copy)} reads a"
            " constant with its value."
        )
        cause = "x.value is a plain array: what is computed from it has no gradient."
    return Finding(
        "disconnected",
        "warning",
        x,
        "backward",
        f"the result does not depend on {name}",
        evidence,
        cause,
        Fix("use the Tensor itself", (x.name or "x")),
    )


def _quote_site(node: Tensor) -> str:
    return blame.quote_site(node.site)


def _find_copy_reader(case: Case, x: Tensor) -> Tensor | None:
    """Return a node that reads the value of a Tensor as a constant."""
    value = x._value
    for node in case.nodes:
        for a in node.inputs:
            if isinstance(a, Tensor):
                if a.inputs or a.name is not None or any(a is w for w in case.wrt):
                    continue
                a = a._value
            if a is value and isinstance(a, np.ndarray):
                return node
            if isinstance(a, np.ndarray) and isinstance(value, np.ndarray):
                if a.size and a.shape == value.shape and np.may_share_memory(a, value):
                    return node
            elif isinstance(a, (float, np.floating)) and np.shape(value) == ():
                if float(a) == float(value_of(value)) and float(a) not in COMMON:
                    return node
    return None


def _explain_cuts(case: Case, x: Tensor, reported: set[int]) -> Iterator[Finding]:
    """Yield a finding for each op without derivative that cuts an input's gradient."""
    reached = walk.find_dependents(case.nodes, [x])
    cuts = [
        node
        for node in case.nodes
        if node.serial in reached
        and node.inputs
        and _is_cut(node)
        and any(isinstance(a, Tensor) and a.serial in reached for a in node.inputs)
        # The first on each path: what follows it does not vary.
        and any(
            isinstance(a, Tensor)
            and a.serial in reached
            and types.is_differentiable(a.dtype)
            for a in node.inputs
        )
        and _has_smooth_way(case, x, node)
    ]
    if not cuts:  # rules that return nothing
        cuts = [
            step.node
            for step in case.steps
            if step.node.serial in reached
            and not any(serial in reached for serial, _, _ in step.passed)
            and any(
                isinstance(a, Tensor) and a.serial in reached for a in step.node.inputs
            )
        ]
    for node in cuts:
        if node.serial in reported:
            continue
        reported.add(node.serial)
        yield _explain_cut(case, node, f"the gradient by {case.name_node(x)} is cut")
    if not cuts:
        yield Finding(
            "zero-gradient",
            "warning",
            x,
            "backward",
            f"no gradient arrives at {case.name_node(x)}",
            "The result depends on it, and nothing flows back.",
            "Every path to it goes through a rule that returns nothing.",
        )


def _is_cut(node: Tensor) -> bool:
    if node.op.pull is None or node.op.traits.flat == "stop":
        return True
    return not isinstance(node._value, tuple) and not types.is_differentiable(
        node.dtype
    )


def _has_smooth_way(case: Case, x: Tensor, end: Tensor) -> bool:
    """Return whether a way without another cut leads from an input to a node."""
    seen = {end.serial}
    stack = [a for a in end.inputs if isinstance(a, Tensor)]
    while stack:
        node = stack.pop()
        if node is x:
            return True
        if node.serial in seen or _is_cut(node):
            continue
        seen.add(node.serial)
        stack += [a for a in node.inputs if isinstance(a, Tensor)]
    return False


def _explain_cut(case: Case, node: Tensor, title: str) -> Finding:
    name, op, traits = case.name_node(node), node.op.name, node.op.traits
    rule: str | None = "g"
    if traits.flat == "rounding":
        kind, cause = (
            "rounded",
            "A rounded value is constant almost everywhere: slope 0.",
        )
        text, code = (
            "let the gradient through as if it did not round (straight-through)",
            f'wb.override("{op}", "g")',
        )
        if traits.symbol == "//":
            text = "replace it by a quotient that is not rounded"
            code = spelling.spell(node, "{0} / {1}")
            rule = None
    elif traits.flat == "comparison":
        kind = "compared"
        cause = "A comparison is a step function: its slope is 0 wherever it has one."
        text = "replace it by a smooth step of some `width`"
        code, rule = _write_smooth_step(node), None
    elif traits.moves or not types.is_differentiable(node.dtype):
        kind = "cast-to-integer" if traits.moves else "chosen"
        if traits.flat == "position":
            cause = "A position has no slope."
            text = "replace it by a mean of the positions, weighted by softmax"
            code, rule = _write_soft_position(node), None
        else:
            cause = "Integers do not vary: their slope is 0."
            text = "keep it a float, and let the gradient through"
            code, rule = "", None
            if traits.moves:
                kept = offer_fix(case, node, text, "np.trunc({0})")
                code = "" if kept is None else kept.code
    elif traits.flat == "stop":
        kind, cause = "stopped", f"{op} lets no gradient through."
        text, code, rule = "let it through", spelling.quote_operand(node), None
    else:
        kind, cause = "no-derivative", f"{op} has no derivative."
        text, code = "attach a rule", f'wb.override("{op}", "g")'
        rule = None
    if isinstance(node._value, tuple) or node.shape != (
        node.inputs[0].shape if isinstance(node.inputs[0], Tensor) else ()
    ):
        rule = None
    return Finding(
        kind,
        "warning",
        node,
        "backward",
        f"{title} by {name}",
        f"Nothing flows back through {op}: all ways end at such nodes.",
        cause,
        Fix(text, code, rule) if code else None,
    )


def _explain_zero(
    case: Case, x: Tensor, reported: set[int], known: set[int]
) -> Iterator[Finding]:
    """Yield a finding for the node that makes an input's gradient 0 in all entries."""
    passers: dict[int, list[Any]] = {}
    for step in case.steps:
        for serial, norm, _ in step.passed:
            passers.setdefault(serial, []).append((step, norm))
    found: dict[int, Any] = {}
    seen, stack = {x.serial}, [x]
    while stack:
        for step, norm in passers.get(stack.pop().serial, ()):
            if norm or step.node.serial in seen:
                continue
            seen.add(step.node.serial)
            if step.norm:
                found[step.node.serial] = step
            else:
                stack.append(step.node)
    skip = known | reported
    if not found or any(s in skip for s in found):
        return
    step = found[min(found)]
    node = step.node
    reported.add(node.serial)
    if node.op.traits.flat == "stop":
        yield _explain_cut(
            case, node, f"the gradient by {case.name_node(x)} is stopped"
        )
        return
    vanished = _has_underflowed(case, node)
    if not vanished and (known or node.serial in (case.rules or ())):
        return  # other findings say more; an override does it on purpose
    yield Finding(
        "zero-gradient",
        "warning" if vanished else "note",
        node,
        "backward",
        f"the gradient by {case.name_node(x)} is exactly 0: {case.name_node(node)}"
        " passes on 0",
        f"A gradient of norm {step.norm:.3g} arrives at {case.name_node(node)}, and all"
        " that it passes on is 0.",
        "The gradient has become too small for its dtype on the way."
        if vanished
        else _explain_flatness(node),
    )


def _explain_flatness(node: Tensor) -> str:
    """Return why a slope is 0, though nothing has become too small."""
    op, traits = node.op, node.op.traits
    if traits.contracts or op.pairs is not None:
        for k, a in enumerate(node.inputs):
            if np.size(value_of(a)) and not np.any(value_of(a)):
                text = spelling.quote_operand(node, k)
                return f"It is a product, and its operand {text} is 0 in all entries."
    is_length = traits.length or (op.root is not None and not op.root.infinite)
    if is_length and not np.any(node._value):
        return (
            f"{op.name} is 0 here, where it has a kink and no derivative; the"
            " first and all higher ones are taken as 0. Use a square, a sum of squares"
            " or a variance, which have no kink, or another starting point."
        )
    if op.even is not None and not np.any(value_of(node.inputs[0])):
        text = spelling.quote_operand(node)
        return f"Its operand {text} is 0 in all entries, where a square is flat."
    if op.chooses:
        return "It takes the other operand in all entries: this one is not used."
    if traits.moves or (traits.sums and not traits.contracts):
        return (
            "What arrives there sums to 0: the result stays as it is when all entries"
            " move alike."
        )
    return (
        "Its slope is 0 at these values: a factor of 0, a flat place, or entries"
        " that are not used."
    )


def _write_soft_position(node: Tensor) -> str:
    """Return code for a smooth position in place of an argmax; empty if unknown."""
    z, axis = spelling.quote_operand(node), node.params.get("axis")
    picks = node.op.traits.picks
    if not picks or z == spelling.LEFT_OUT:
        return ""
    if axis is None and np.ndim(value_of(node.inputs[0])) != 1:
        return ""
    if picks == "<":
        z = spelling.negate_text(z)
    if axis in (None, -1, np.ndim(value_of(node.inputs[0])) - 1):
        soft = f"workbench.scipy.special.softmax({z}, axis=-1)"
        keep = ", keepdims=True" if node.params.get("keepdims") else ""
        count = spelling.spell(node, "np.arange({0}.shape[-1])")
        return f"np.sum({soft} * {count}, axis=-1{keep})"
    return ""


def _write_smooth_step(node: Tensor) -> str:
    """Return a sigmoid in place of a comparison, a tanh in place of a sign."""
    if node.op.compute is np.sign:
        return spelling.spell(node, "np.tanh({0} / width)")
    step, symbol = "x", node.op.traits.symbol
    if symbol in ("<", "<="):
        step = "({1} - {0})"
    elif symbol in (">", ">="):
        step = "{0}" if constant_value(node.inputs[1]) == 0 else "({0} - {1})"
    return spelling.spell(node, f"workbench.scipy.special.expit({step} / width)")


def _has_underflowed(case: Case, node: Tensor) -> bool:
    """Return whether the cotangent is so small that a product with it underflows."""
    norm = case.step_of[node.serial].norm
    if isinstance(node._value, tuple):
        return False
    dtype = node.dtype
    if dtype.kind not in "fc":
        return False
    return norm < float(np.finfo(dtype).tiny) * 1e6
