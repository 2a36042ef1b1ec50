"""Gradients that are 0 or do not arrive, who cuts them, what is dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, size
from workbench.checks.doctor.equivalence import Form, Operands, offer, prove
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import number
from workbench.checks.doctor.spelling import LEFT_OUT, minus, operand, spell
from workbench.checks.doctor.vanishing import PRODUCTS
from workbench.core import blame, types, walk
from workbench.core.tensor import Tensor, value_of

ROUNDING = {"rint", "round", "floor", "ceil", "trunc", "floor_divide"}
COMPARING = {
    "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "isclose",
    "sign", "heaviside", "signbit", "logical_and", "logical_or", "logical_not",
}  # fmt: skip
CHOOSING = {"argmax", "argmin", "argsort", "searchsorted", "digitize"}
STOPPING = {"stop_gradient", "zero_grad"}

#: Lengths, whose kink is where they are 0.
LENGTHS = {"absolute", "fabs", "hypot", "norm", "power_norm", "std", "svdvals"}

#: Numbers that everybody writes: that a constant is one of them says nothing.
COMMON = {0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 10.0}


def find_zero_gradients(
    case: Case, known: Collection[Tensor] = ()
) -> Iterator[Finding]:
    """A finding for each input without a gradient, or one for each that cuts it.

    ``known`` are the nodes that were blamed already for what is 0 after them.
    """
    case.steps  # noqa: B018  (which finds the gradients too)
    serials = {node.serial for node in case.nodes}
    told: set[int] = set()
    for x, g in zip(case.wrt, case.gradients, strict=True):
        if x.serial not in serials or (not case.readers.get(x.serial) and g is None):
            yield _unread(case, x)
        elif g is None:
            yield from _cut(case, x, told)
        elif np.size(g) and size(g) == (0.0, True):
            yield from _zero(case, x, told, known)
    for x in case.unread:
        yield _unread(case, x)


def _unread(case: Case, x: Tensor) -> Finding:
    """Return an input that the result does not depend on."""
    name = case.call(x)
    copy = _copied(case, x)
    if copy is None:
        evidence = "No node behind the result reads it."
        cause = (
            "Its gradient is 0 everywhere. If it was meant to count, its value was"
            " taken out on the way (x.value, float(x.value), a plain array, an index"
            " or another whole number made of it), or another variable stands where"
            " it should."
        )
    else:
        evidence = (
            f"No node reads it, but {case.call(copy)}{_place(copy)} reads a constant"
            " that is its value."
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


def _place(node: Tensor) -> str:
    return blame.quote_site(node.site)


def _copied(case: Case, x: Tensor) -> Tensor | None:
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


def _cut(case: Case, x: Tensor, told: set[int]) -> Iterator[Finding]:
    """An input that counts, but through ops without derivative only."""
    reached = walk.find_dependents(case.nodes, [x])
    cuts = [
        node
        for node in case.nodes
        if node.serial in reached
        and node.inputs
        and _cuts(node)
        and any(isinstance(a, Tensor) and a.serial in reached for a in node.inputs)
        # The first on each way: what is behind it varies no more.
        and any(
            isinstance(a, Tensor)
            and a.serial in reached
            and types.is_differentiable(a.dtype)
            for a in node.inputs
        )
        and _smooth(case, x, node)
    ]
    if not cuts:  # rules that give nothing where they were asked
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
        if node.serial in told:
            continue
        told.add(node.serial)
        yield _cutter(case, node, f"the gradient by {case.call(x)} is cut")
    if not cuts:
        yield Finding(
            "zero-gradient",
            "warning",
            x,
            "backward",
            f"no gradient arrives at {case.call(x)}",
            "The result depends on it, and nothing flows back.",
            "Every way to it goes through a rule that gives nothing.",
        )


def _cuts(node: Tensor) -> bool:
    if node.op.pull is None or node.op.name in STOPPING:
        return True
    return not isinstance(node._value, tuple) and not types.is_differentiable(
        node.dtype
    )


def _smooth(case: Case, x: Tensor, end: Tensor) -> bool:
    """Return whether a way without another cut leads from an input to a node."""
    seen = {end.serial}
    stack = [a for a in end.inputs if isinstance(a, Tensor)]
    while stack:
        node = stack.pop()
        if node is x:
            return True
        if node.serial in seen or _cuts(node):
            continue
        seen.add(node.serial)
        stack += [a for a in node.inputs if isinstance(a, Tensor)]
    return False


def _cutter(case: Case, node: Tensor, title: str) -> Finding:
    name, op = case.call(node), node.op.name
    rule: str | None = "g"
    if op in ROUNDING:
        kind, cause = "rounded", "What is rounded is flat almost everywhere: slope 0."
        text, code = (
            "let the gradient through as if nothing was rounded (straight-through)",
            f'wb.override("{op}", "g")',
        )
        if op == "floor_divide":
            text = "a quotient that is not rounded in its place"
            code = spell(node, "{0} / {1}")
            rule = None
    elif op in COMPARING:
        kind = "compared"
        cause = "A comparison gives steps: its slope is 0 wherever it has one."
        text = "a smooth step in its place, some `width` wide"
        code, rule = _smooth_step(node), None
    elif op == "astype" or not types.is_differentiable(node.dtype):
        kind = "cast-to-integer" if op == "astype" else "chosen"
        if op in CHOOSING:
            cause = "A position has no slope."
            text = "a mean of the positions in its place, weighted by softmax"
            code, rule = _soft_position(node), None
        else:
            cause = "Integers do not vary: their slope is 0."
            text = "keep it a float, and let the gradient through"
            code, rule = "", None
            if op == "astype":
                kept = offer(case, node, text, "np.trunc({0})")
                code = "" if kept is None else kept.code
    elif op in STOPPING:
        kind, cause = "stopped", f"{op} lets no gradient through."
        text, code, rule = "let it through", operand(node), None
    else:
        kind, cause = "no-derivative", f"{op} has no derivative."
        text, code = "a rule for it", f'wb.override("{op}", "g")'
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


def _zero(
    case: Case, x: Tensor, told: set[int], known: Collection[Tensor]
) -> Iterator[Finding]:
    """An input whose gradient arrives and is 0 all over: where it became so."""
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
    skip = {node.serial for node in known} | told
    if not found or any(s in skip for s in found):
        return
    step = found[min(found)]
    node = step.node
    told.add(node.serial)
    if node.op.name in STOPPING:
        yield _cutter(case, node, f"the gradient by {case.call(x)} is stopped")
        return
    vanished = _vanished(case, node)
    if not vanished and (known or node.serial in (case.rules or ())):
        return  # what is wrong elsewhere tells more; an override was meant so
    yield Finding(
        "zero-gradient",
        "warning" if vanished else "note",
        node,
        "backward",
        f"the gradient by {case.call(x)} is exactly 0: {case.call(node)} passes on 0",
        f"A gradient of norm {step.norm:.3g} arrives at {case.call(node)}, and all that"
        " it passes on is 0.",
        "The gradient has become too small for its dtype on the way."
        if vanished
        else _flat(node),
    )


def _flat(node: Tensor) -> str:
    """Return why a slope is 0, though nothing has become too small."""
    if node.op.name in ("multiply", *PRODUCTS):
        for k, a in enumerate(node.inputs):
            if np.size(value_of(a)) and not np.any(value_of(a)):
                text = operand(node, k)
                return f"It is a product, and its operand {text} is 0 all over."
    if node.op.name in LENGTHS and not np.any(node._value):
        return (
            f"{node.op.name} is 0 here, where it has a kink: no derivative is the right"
            " one, and the first and all higher ones are taken as 0. A square, a sum of"
            " squares or a variance has no kink; or start somewhere else."
        )
    if node.op.name in ("square", "power") and not np.any(value_of(node.inputs[0])):
        return f"Its operand {operand(node)} is 0 all over, where a square is flat."
    return (
        "Its slope is 0 at these values: a factor of 0, a flat place, or entries"
        " that are not used."
    )


def _soft_position(node: Tensor) -> str:
    """What varies smoothly in the place of a position; nothing where none is known."""
    z, axis = operand(node), node.params.get("axis")
    if node.op.name not in ("argmax", "argmin") or z == LEFT_OUT:
        return ""
    if axis is None and np.ndim(value_of(node.inputs[0])) != 1:
        return ""
    if node.op.name == "argmin":
        z = minus(z)
    if axis in (None, -1, np.ndim(value_of(node.inputs[0])) - 1):
        soft = f"workbench.scipy.special.softmax({z}, axis=-1)"
        keep = ", keepdims=True" if node.params.get("keepdims") else ""
        count = spell(node, "np.arange({0}.shape[-1])")
        return f"np.sum({soft} * {count}, axis=-1{keep})"
    return ""


def _smooth_step(node: Tensor) -> str:
    """Return a sigmoid in place of a comparison, a tanh in place of a sign."""
    if node.op.name == "sign":
        return spell(node, "np.tanh({0} / width)")
    step = "x"
    if len(node.inputs) == 2 and node.op.name in _ABOVE + _BELOW:
        step = "({0} - {1})" if node.op.name in _ABOVE else "({1} - {0})"
        if number(node.inputs[1]) == 0 and node.op.name in _ABOVE:
            step = "{0}"
    return spell(node, f"workbench.scipy.special.expit({step} / width)")


_ABOVE = ("greater", "greater_equal")
_BELOW = ("less", "less_equal")


def _vanished(case: Case, node: Tensor) -> bool:
    """Return whether what arrives is so small that a product with it underflows."""
    norm = case.step_of[node.serial].norm
    if isinstance(node._value, tuple):
        return False
    dtype = node.dtype
    if dtype.kind not in "fc":
        return False
    return norm < float(np.finfo(dtype).tiny) * 1e6


# What a program throws away, and what stays poisoned all the same.
#
# ``(x > 0) * np.log(x)``, ``np.fmax(np.log(x), -5)``, ``np.minimum(1 / x, 9)``,
# ``np.log(x)[2]``: the entries that are not finite are not wanted, but 0 times infinity
# is NaN, in the value or on the way back. Where `np.where` chooses, nothing flows to
# what it has left out. From the node that is blamed the walk goes to who drops its bad
# entries, and says so.

EXTREMES = {"maximum": ">", "fmax": ">", "minimum": "<", "fmin": "<"}
TAKING = {"getitem", "take", "take_along_axis"}
#: Ops that move entries, and do nothing else.
MOVING = {"reshape", "transpose", "broadcast_to", "flip", "roll", "copy", "getitem"}
#: So far the walk goes.
MOST = 40


class Dropped(NamedTuple):
    """Who drops the bad entries of a node, in a sentence, and what to write there."""

    node: Tensor
    cause: str
    fix: Fix | None


def dropped(case: Case, node: Tensor, bad: Any) -> Dropped | None:
    """Return who drops those entries of a node; None if they are wanted."""
    if not isinstance(bad, np.ndarray | np.generic | bool):
        return None  # arrays of another library
    bad = np.asarray(bad)
    if isinstance(node._value, tuple) or bad.shape != np.shape(node._value):
        return None
    if not bad.any():
        return None
    stack, seen = [(node, bad)], {node.serial}
    while stack and len(seen) < MOST:
        x, bad = stack.pop(0)
        for reader in case.readers.get(x.serial, ()):
            if reader.serial in seen or isinstance(reader._value, tuple):
                continue
            seen.add(reader.serial)
            k = next(i for i, a in enumerate(reader.inputs) if a is x)
            found = _drops(case, node, reader, k, bad)
            if found is not None:
                return found
            further = _carried(reader, k, bad)
            if further is not None:
                stack.append((reader, further))
    return None


def _drops(
    case: Case, origin: Tensor, node: Tensor, k: int, bad: Any
) -> Dropped | None:
    """Return what to say if a node drops the bad entries of its operand k."""
    name, y = node.op.name, np.asarray(node._value)
    if name == "multiply":
        other = np.broadcast_to(value_of(node.inputs[1 - k]), y.shape)
        if not (other[np.broadcast_to(bad, y.shape)] == 0).all():
            return None
        truth = other.dtype == bool
        kept = f"{{{1 - k}}}" if truth else f"{{{1 - k}}} != 0"
        value = f"{{{k}}}" if truth else "{0} * {1}"
        return _tell_dropped(
            case, node, f"multiplies by 0 there, with {_text(node, 1 - k)}: 0 times"
            " infinity or NaN is NaN, and a product masks nothing",
            f"np.where({kept}, {value}, 0)",
        )  # fmt: skip
    if name in EXTREMES and len(node.inputs) == 2:
        mine = np.broadcast_to(value_of(node.inputs[k]), y.shape)
        there = np.broadcast_to(bad, y.shape)
        if not np.isfinite(y[there]).all() or (mine[there] == y[there]).any():
            return None
        return _tell_dropped(
            case, node, "takes the other operand there, and sends back 0",
            f"np.where({{0}} {EXTREMES[name]} {{1}}, {{0}}, {{1}})",
        )  # fmt: skip
    if name in TAKING and k == 0:
        rest = [value_of(a) for a in node.inputs[1:]]
        if not np.shape(bad) or np.any(node.op.compute(bad, *rest, **node.params)):
            return None
        return Dropped(
            node,
            f" {_named(node)} does not use these entries, and sends back 0: take what"
            " is used before it is computed with.",
            _taken_first(case, origin, node),
        )
    return None


def _tell_dropped(case: Case, node: Tensor, what: str, code: str) -> Dropped:
    text = "choose with np.where, to whose other branch nothing flows"
    return Dropped(
        node,
        f" {_named(node)} {what}; np.where leaves it out in values and gradients.",
        offer(case, node, text, code),
    )


def _named(node: Tensor) -> str:
    return f"{node.op.name}{blame.quote_site(node.site)}"


def _text(node: Tensor, k: int) -> str:
    text = operand(node, k)
    return "its other operand" if text == LEFT_OUT else text


def _taken_first(case: Case, origin: Tensor, node: Tensor) -> Fix | None:
    """Return the entries of the operand in place of those of the result."""
    name = origin.op.name
    if node.op.name != "getitem" or node.inputs[0] is not origin:
        return None
    if not origin.op.elementwise or len(origin.inputs) != 1 or not hasattr(np, name):
        return None
    o = Operands()
    code = f"np.{name}({o(origin, 0)}[{o.index(node)}])"
    form = prove(case, Form("take the entries first", code, node), o)
    return None if form is None else Fix(form.name, form.code)


def _carried(node: Tensor, k: int, bad: Any) -> Any:
    """Return the bad entries of an operand in what is made of it, entry by entry."""
    shape = np.shape(node._value)
    if node.op.name in MOVING and k == 0:
        return node.op.compute(bad, *map(value_of, node.inputs[1:]), **node.params)
    if node.op.name == "where" or not node.op.elementwise:
        return None
    return np.broadcast_to(bad, shape) if np.ndim(bad) <= len(shape) else None
