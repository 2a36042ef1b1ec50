"""Gradients that are 0 or missing: the nodes that cut them, or pass nothing on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.steps import Rules, ends_of
from workbench.checks import conventions
from workbench.checks.doctor import spelling
from workbench.checks.doctor.case import Case, SweepStep, hold_on_host, measure_norm
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
    """Yield a finding for each input without a gradient, or for each node to blame.

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
    """Yield a finding for each length of 0 with a second derivative by convention."""
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
    cuts = _find_cuts(case, x)
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


def _find_cuts(case: Case, x: Tensor) -> list[Tensor]:
    """Return the nodes that depend on an input, and return nothing on the way back.

    Those without a derivative, the first on each path, since what follows does not
    vary; else those whose rules return nothing.
    """
    reached = walk.find_dependents(case.nodes, [x])

    def read(node: Tensor) -> Iterator[Tensor]:
        for a in node.inputs:
            if isinstance(a, Tensor) and a.serial in reached:
                yield a

    cuts = [
        node
        for node in case.nodes
        if node.serial in reached
        and _is_cut(node)
        and any(types.is_differentiable(a.dtype) for a in read(node))
        and _has_smooth_way(case, x, node)
    ]
    return cuts or [
        step.node
        for step in case.steps
        if step.node.serial in reached
        and not any(serial in reached for serial, _, _ in step.passed)
        and any(True for _ in read(step.node))
    ]


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
    found, _ = _find_blocks(case, x)
    skip = known | reported
    if not found or any(s in skip for s in found):
        return
    node = found[min(found)]
    step = case.step_of[node.serial]
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


def _find_blocks(case: Case, x: Tensor) -> tuple[dict[int, Tensor], list[Tensor]]:
    """Return the nodes that make the gradient by an input 0 in all entries.

    By their serials those that something arrives at, and that pass on nothing but 0;
    and those where what arrives from several others sums to 0.
    """
    passers: dict[int, list[tuple[SweepStep, float]]] = {}
    for step in case.steps:
        for serial, norm, _ in step.passed:
            passers.setdefault(serial, []).append((step, norm))
    blocks: dict[int, Tensor] = {}
    sums: list[Tensor] = []
    seen, stack = {x.serial}, [x]
    while stack:
        at = stack.pop()
        made = passers.get(at.serial, ())
        if any(norm for _, norm in made):
            sums.append(at)
        for step, norm in made:
            if norm or step.node.serial in seen:
                continue
            seen.add(step.node.serial)
            if step.norm:
                blocks[step.node.serial] = step.node
            else:
                stack.append(step.node)
    return blocks, sums


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
    """Return whether the cotangent is small enough for products to underflow."""
    norm = case.step_of[node.serial].norm
    if isinstance(node._value, tuple):
        return False
    dtype = node.dtype
    if dtype.kind not in "fc":
        return False
    return norm < float(np.finfo(dtype).tiny) * 1e6


# Why a derivative of some nodes by others is zero, in a few words.

#: So many nodes are named.
MOST_NAMED = 3


def explain_zeros(
    outputs: Sequence[Any],
    sources: Sequence[Tensor],
    rules: Rules,
    name_of: Callable[[Tensor], str],
    constant: Sequence[Tensor] = (),
) -> str:
    """Return why the derivative of outputs by sources is zero everywhere.

    Parameters
    ----------
    outputs, sources
        What is differentiated, and by what.
    rules
        The rules of overrides.
    name_of
        The label of a node.
    constant
        Sources that are held while the others vary.
    """
    given = [y for y in outputs if isinstance(y, Tensor) and y._value is not None]
    reached = walk.find_dependents(walk.order_nodes(given), sources)
    given = [y for y in given if y.serial in reached]
    if not given:
        return ""
    held = [x.serial for x in constant]
    case = Case("", given, [], [*sources], rules, name_of, constant=held)
    blocks: dict[int, Tensor] = {}
    sums: list[Tensor] = []
    with np.errstate(all="ignore"), hold_on_host(case.nodes):
        case.seeds = [_draw_seed(y) for y in given]
        for x in sources:
            found, summed = _find_blocks(case, x)
            blocks |= found
            sums += summed
        if blocks:
            last = sorted(blocks.values(), key=lambda node: -node.serial)
            return _join([_describe_block(case, node) for node in last])
        if sums:
            at = max(sums, key=lambda node: node.serial)
            return f"what flows back along several paths cancels at {name_of(at)}"
        cuts = [node for x in sources for node in _find_cuts(case, x)]
        texts = [_describe_cut(name_of(node), node.op.name) for node in cuts]
    return _join(texts) or "no path leads through ops with a derivative"


def _draw_seed(y: Tensor) -> Any:
    """Return a cotangent that is nowhere zero, and in no simple proportion."""
    entries = np.random.default_rng(0).uniform(0.5, 1.5, y.shape)
    return np.ones_like(y._value) * entries.astype(y.dtype)


def _describe_cut(label: str, op: str) -> str:
    """Return that a node has no derivative."""
    of = "" if label.startswith(op) else f" ({op})"
    return f"{label}{of} has no derivative"


def _describe_block(case: Case, node: Tensor) -> str:
    """Return why a node passes on nothing that arrives."""
    rule = None if case.rules is None else case.rules.get(node.serial)
    if rule is not None and rule.pull is not None:
        return f"stopped by {rule.label} at {case.name_node(ends_of(node)[-1])}"
    of = ""
    while node.origin is not None:  # of a second derivative: a node of the gradient
        origin = node.origin
        of, node = "the gradient of ", origin.forward
        if origin.overridden:
            return f"what {origin.rule} passes on at {case.name_node(node)} is constant"
    label, place = of + case.name_node(node), blame.quote_site(node.site)
    text = " and ".join((node.op.rule or "its own").split("   "))
    if node.op.traits.saturates:
        return f"{label} is saturated: its rule {text} is 0 at these values{place}"
    if node.op.traits.selects:
        return f"{label} selects other entries or a constant{place}"
    return f"{label} passes nothing on: its rule {text} is 0 at these values{place}"


def _join(texts: Iterable[str]) -> str:
    found = [*dict.fromkeys(texts)]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more
