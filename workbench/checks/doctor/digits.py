"""Lost digits: a run of the program in a wider dtype finds the node that lost them.

float32 is compared with float64, float64 with the 80-bit format where the machine has
one. A result (or a gradient) that the wider run contradicts is blamed on the node where
the error relative to the value jumps, at the entry that carries it on to the result:
before a subtraction that cancels it is that of rounding, behind it is large.

Thresholds, with reasons. Rounding alone costs a few digits in any long program. 30
times the root of the rounding unit is more than half of the digits (7e-3 in float32,
4.5e-7 in float64), which no healthy program of ours came near; a tenth of the value is
an error. A result that is near to 0 beside the inputs (by the root of the rounding
unit) is no loss, unless a stable form is known: a residual that has converged is
nothing but rounding.

A double program is run again only where its rounding may count so much, by its first
derivatives (the adjoint way of rounding-error analysis: N. J. Higham, "Accuracy and
Stability of Numerical Algorithms", 2nd ed., 2002, section 26.3), and only up to there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor.case import WIDER, WIDEST, Case, is_finite, rerun_wider
from workbench.checks.doctor.edits import widen_operand
from workbench.checks.doctor.equivalence import is_finite_in_float64
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import CAUSE, find_form, offer_form
from workbench.checks.doctor.matrices import WRONG
from workbench.core import walk
from workbench.core.formatting import format_number
from workbench.core.tensor import Tensor, value_of

ROOTS = 30.0
#: How many nodes that may lose digits are examined first.
FIRST = 8
#: An error that grows by this factor at a node comes from the node.
JUMP = 1e3
#: A node is examined where its error causes at least this share of the limit: later
#: nodes may enlarge it by more than their slope.
SHARE = 0.03


class Jump(NamedTuple):
    """A node that makes an error larger: by what factor, and how large it gets."""

    node: Tensor
    times: float
    error: float
    text: str = ""


def find_lost_digits(case: Case) -> Iterator[Finding]:
    """Yield a finding where the wider run contradicts the result or a gradient.

    Errors of what depends on a matrix that is nearly singular come from there.
    """
    known = [one.node for one in case.found if one.kind == "singular-matrix"]
    for one in _compare_precisions(case):
        if not any(_is_connected(one.node, node) for node in known):
            yield one


def _is_connected(a: Tensor, b: Tensor) -> bool:
    """Return whether one of two nodes depends on the other."""
    first, last = sorted((a, b), key=lambda node: node.serial)
    return any(node is first for node in walk.order_nodes([last], first.serial - 1))


def _compare_precisions(case: Case) -> Iterator[Finding]:
    if not all(is_finite(y._value) for y in case.outputs):
        return
    if any(not isinstance(x._value, _HOST) for x in case.wrt):
        return  # arrays of another library
    if any(getattr(node._value, "dtype", None) in WIDER for node in case.nodes):
        yield from _compare_single(case)
    elif np.finfo(np.longdouble).eps < np.finfo(float).eps:
        yield from _compare_double(case)


def _compare_single(case: Case) -> Iterator[Finding]:
    """Compare a program that has float32 values with a run in float64."""
    unit = float(np.finfo(np.float32).eps) / 2
    enough = ROOTS * unit**0.5
    wide = rerun_wider(case, WIDER, case.nodes)
    outputs = [wide[y.serial] for y in case.outputs]
    if not all(is_finite(y._value) for y in outputs):
        return
    scale, bare = _measure_scales(case, unit)
    near = _is_near_zero(case, wide, unit)
    jump = _find_value_jump(case, wide, unit, enough, scale)
    if jump is None:
        jump = _require_form(case, _find_value_jump(case, wide, unit, enough, bare))
    if jump is None:
        jump = _find_result_jump(case, wide, unit, enough)
    if jump is None:
        yield from _compare_gradients(case, wide, unit, enough, near)
    elif not (near and find_form(case, jump.node) is None):
        yield _make_finding(case, jump, "float32", "result")


def _compare_double(case: Case) -> Iterator[Finding]:
    """Compare a float64 program with the 80-bit format, where rounding may count.

    The effect of an operand's rounding on the result is at most its product with the
    cotangent. Where that is too large, the wider run measures the effect.
    """
    unit = float(np.finfo(np.float64).eps) / 2
    enough = ROOTS * unit**0.5
    scale, bare = _measure_scales(case, unit)
    most = SHARE * enough * scale / unit
    flagged = sorted(
        [step.node for step in case.steps if step.strain >= most],
        key=lambda node: node.serial,
    )
    for some in (flagged[:FIRST], flagged[FIRST:]):
        if not some:
            break
        wide = rerun_wider(case, WIDEST, walk.order_nodes(some))
        jump = _find_value_jump(case, wide, unit, enough, scale)
        if jump is not None:
            known = find_form(case, jump.node) is not None
            if known or not _is_near_zero(case, wide, unit):
                yield _make_finding(case, jump, "float64", "result")
            return
    if bare < scale:
        most = SHARE * enough * bare / unit
        some = [
            step.node
            for step in case.steps
            if step.strain >= most and find_form(case, step.node) is not None
        ]
        wide = rerun_wider(case, WIDEST, walk.order_nodes(some))
        jump = _require_form(case, _find_value_jump(case, wide, unit, enough, bare))
        if jump is not None:
            yield _make_finding(case, jump, "float64", "result")


def _measure_scales(case: Case, unit: float) -> tuple[float, float]:
    """Return the size of the result, no less than the inputs' rounding, and its own."""
    sizes = [
        float(np.sum(np.abs(y._value * seed)))
        for y, seed in zip(case.outputs, case.seeds, strict=True)
    ]
    bare = max([*sizes, float(np.finfo(np.float32).tiny)])
    return max(unit * _max_input(case), bare), bare


def _max_input(case: Case) -> float:
    return max((_max_abs(x._value) for x in case.wrt), default=0.0)


def _is_near_zero(case: Case, wide: dict[int, Tensor], unit: float) -> bool:
    """Return whether the result, also the wider one, is near 0 beside the inputs."""
    least = unit**0.5 * _max_input(case)
    again = [wide[y.serial] for y in case.outputs if y.serial in wide]
    return all(_max_abs(y._value) < least for y in [*case.outputs, *again])


def _require_form(case: Case, jump: Jump | None) -> Jump | None:
    """Return the jump if a better form is known for its node, else None."""
    return jump if jump and find_form(case, jump.node) is not None else None


_HOST = (np.ndarray, np.generic, float, complex)


def _select_floats(nodes: list[Tensor]) -> Iterator[Tensor]:
    for node in nodes:
        dtype = getattr(node._value, "dtype", None)
        if isinstance(node._value, float | complex) or (
            isinstance(dtype, np.dtype) and dtype.kind in "fc"
        ):
            yield node


def _make_finding(case: Case, jump: Jump, dtype: str, what: str) -> Finding:
    """Return the finding about the node that lost the digits of a result or gradient.

    ``dtype`` is that of the program, ``what`` names what the wider run contradicts.
    """
    node, name = jump.node, case.name_node(jump.node)
    form = find_form(case, node)
    fix: Fix | None = None
    cancels = node.op.traits.sums
    if cancels:
        kind, title = "cancellation", f"{name} cancels: its terms are nearly equal"
        cause = CAUSE
    elif dtype == "float32":
        kind, title = "float32-contradicted", f"{name}: float64 gives another {what}"
        cause = "float32 has 7 digits, and this node needs more."
    else:
        kind, title = "lost-digits", f"{name} loses nearly all digits"
        cause = "A small error of its operand is a large one of its result."
    if form is not None:
        fix = offer_form(case, form)
    elif dtype == "float32" and is_finite_in_float64(node):
        fix = widen_operand(node)
    text = jump.text[:1].upper() + jump.text[1:]
    lost = min(16.0, np.log10(max(jump.times, 1.0)))
    return Finding(
        kind,
        "error" if jump.error > WRONG else "warning",
        node,
        "backward" if what.startswith("gradient") else "forward",
        title,
        f"{text}; about {lost:.0f} digits are lost here.",
        cause,
        fix,
    )


# The comparison


def _max_abs(x: Any) -> float:
    found = float(np.max(np.abs(x))) if np.size(x) else 0.0
    if not np.isfinite(found):  # an infinite mask is no size
        found = float(np.max(_finite_abs(x)))
    return found


def _finite_abs(x: Any) -> Any:
    return np.where(np.isfinite(x), np.abs(x), 0)


def _max_difference(a: Any, b: Any) -> float:
    return _max_abs(np.subtract(a, b)) if np.shape(a) == np.shape(b) else 0.0


def _format_both(y: Any, z: Any) -> str:
    k = int(np.argmax(np.abs(np.subtract(y, z)))) if np.size(y) > 1 else 0
    a, b = np.ravel(y)[k], np.ravel(z)[k]
    return f"{format_number(a, 8)}, and in higher precision {format_number(b, 8)}"


def _find_value_jump(
    case: Case, wide: dict[int, Tensor], unit: float, enough: float, scale: float
) -> Jump | None:
    """Return the first node that loses digits on which the result depends.

    The effect of an entry's error on the result is its product with the cotangent.
    Absolute values are summed, since these effects cancel only by luck.
    """
    found: list[Jump] = []
    most = 0.0

    def visit(node: Tensor, cotangent: Any, _: list[Any]) -> None:
        nonlocal most
        g = value_of(cotangent)
        known = wide.get(node.serial)
        if known is None or isinstance(node._value, tuple):
            return
        new = known._value
        gap = _finite_abs(np.subtract(node._value, new))
        reach = _finite_abs(gap * g)
        total = float(reach.sum())
        most = max(most, total)
        if not reach.size or total < SHARE * enough * scale:
            return
        at = np.unravel_index(int(np.argmax(reach)), reach.shape)
        own = _ratio(gap[at], abs(np.asarray(new)[at]))
        before = max([unit, *_operand_errors(node, wide, at)])
        if own >= enough and own >= JUMP * before and not _is_conditioned(node):
            text = (
                f"{_format_entry(node, at)} is"
                f" {format_number(np.asarray(node._value)[at], 8)}, and in higher"
                f" precision {format_number(np.asarray(new)[at], 8)}: off by {own:.2g}"
                " of its size"
            )
            found.append(Jump(node, own / before, own, text))

    reverse.pull_back(case.outputs, case.seeds, case.wrt, visit=visit, nulls_pass=True)
    if most < enough * scale:
        return None
    # The first of them: the others inherit its error.
    return min(found, key=lambda jump: jump.node.serial, default=None)


def _is_conditioned(node: Tensor) -> bool:
    """Return whether `matrices.py` judges the digits of a node, by its condition."""
    return bool(node.op.traits.condition)


def _operand_errors(
    node: Tensor, wide: dict[int, Tensor], at: tuple[Any, ...]
) -> Iterator[float]:
    """Yield the relative errors of a node's operands, at the same entry if possible."""
    for x in node.inputs:
        if not isinstance(x, Tensor) or isinstance(x._value, tuple):
            continue
        if x.dtype.kind not in "fc":
            continue
        new = wide[x.serial]._value
        if np.shape(new) == np.shape(node._value):
            gap = abs(np.asarray(x._value)[at] - np.asarray(new)[at])
            yield _ratio(gap, abs(np.asarray(new)[at]))
        else:
            yield _ratio(_max_difference(x._value, new), _max_abs(new))


def _ratio(a: Any, b: Any) -> float:
    if not a:
        return 0.0
    return min(float(a / b), 1e30) if b else 1e30


def _format_entry(node: Tensor, at: tuple[Any, ...]) -> str:
    name = node.name or "its value"
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _find_result_jump(
    case: Case, wide: dict[int, Tensor], unit: float, enough: float
) -> Jump | None:
    """Return the node with the largest part in a result that is wrong as a whole."""
    floor = unit * max((_max_abs(x._value) for x in case.wrt), default=0.0)
    for y in case.outputs:
        z = wide[y.serial]._value
        off = _max_difference(y._value, z) / max(
            _max_abs(z), floor, np.finfo(float).tiny
        )
        if off > enough:
            jump = _find_norm_jump(case, wide, unit)
            both = _format_both(y._value, z)
            text = f"The result is {both}: off by {off:.2g} of its size"
            return None if jump is None else jump._replace(error=off, text=text)
    return None


def _find_norm_jump(case: Case, wide: dict[int, Tensor], unit: float) -> Jump | None:
    """Return the node with a largest entry far more off than its operands' entries."""
    best: Jump | None = None
    own: dict[int, float] = {}
    for node in _select_floats(case.nodes):
        z = wide[node.serial]._value
        scale = _max_abs(z)
        own[node.serial] = _max_difference(node._value, z) / scale if scale else 0.0
        before = [own.get(x.serial, 0.0) for x in node.inputs if isinstance(x, Tensor)]
        times = own[node.serial] / max([*before, unit])
        if (best is None or times > best.times) and not _is_conditioned(node):
            best = Jump(node, times, own[node.serial])
    return best


def _compare_gradients(
    case: Case, wide: dict[int, Tensor], unit: float, enough: float, near: bool
) -> Iterator[Finding]:
    """Yield a finding if the wider run contradicts a gradient, but not the result."""
    if case.rules:
        return  # rules of overrides are tied to the nodes that they were made for
    leaves = [wide[x.serial] for x in case.wrt]
    high: dict[int, Any] = {}

    def visit(node: Tensor, cotangent: Any, _: list[Any]) -> None:
        high[node.serial] = cotangent

    seeds = [np.ones_like(wide[y.serial]._value) * s for y, s in zip(
        case.outputs, case.seeds, strict=True)]  # fmt: skip
    try:
        made = reverse.pull_back(
            [wide[y.serial] for y in case.outputs], seeds, leaves, visit=visit,
            nulls_pass=True,
        )  # fmt: skip
    except Exception:
        return
    worst, which = 0.0, -1
    for k, (x, g, h) in enumerate(zip(case.wrt, case.gradients, made, strict=True)):
        if g is None or h is None or not is_finite(g) or not is_finite(h):
            continue
        scale = max(_max_abs(value_of(h)), _estimate_gradient(case, x))
        off = _max_difference(value_of(g), value_of(h)) / scale if scale else 0.0
        if off > worst:
            worst, which = off, k
    if worst <= enough:
        return
    jump = _find_slope_jump(case, wide, high, unit)
    if jump is not None and not (near and find_form(case, jump.node) is None):
        both = _format_both(value_of(case.gradients[which]), value_of(made[which]))
        name = f"gradient by {case.name_node(case.wrt[which])}"
        text = f"The {name} is {both}: off by {worst:.2g} of its size"
        yield _make_finding(
            case, jump._replace(error=worst, text=text), "float32", name
        )


def _estimate_gradient(case: Case, x: Tensor) -> float:
    """Estimate the size of a gradient by ``x`` in which nothing cancels."""
    norm = _max_abs(x._value)
    found = 0.0
    for reader in case.readers.get(x.serial, ()):
        step = case.step_of.get(reader.serial)
        if step is not None and norm:
            found = max(found, 1e-3 * step.norm * _max_value(reader) / norm)
    return found


def _max_value(node: Tensor) -> float:
    return 0.0 if isinstance(node._value, tuple) else _max_abs(node._value)


def _find_slope_jump(
    case: Case, wide: dict[int, Tensor], high: dict[int, Any], unit: float
) -> Jump | None:
    """Return the node with the rule that made the error of a cotangent large."""
    low: dict[int, Any] = {}

    def visit(node: Tensor, cotangent: Any, _: list[Any]) -> None:
        low[node.serial] = cotangent

    reverse.pull_back(case.outputs, case.seeds, case.wrt, visit=visit, nulls_pass=True)

    def error(serial: int) -> float:
        a, b = low.get(serial), high.get(wide[serial].serial)
        if a is None or b is None or isinstance(a, tuple):
            return 0.0
        scale = _max_abs(value_of(b))
        return _max_difference(value_of(a), value_of(b)) / scale if scale else 0.0

    best: Jump | None = None
    for step in case.steps:
        passed = [
            error(x.serial)
            for x in step.node.inputs
            if isinstance(x, Tensor) and x.serial in low
        ]
        if not passed:
            continue
        times = max(passed) / max(error(step.node.serial), unit)
        if (best is None or times > best.times) and not _is_conditioned(step.node):
            best = Jump(step.node, times, max(passed))
    return best
