"""Lost digits: the program again in a wider dtype, and the node that lost them.

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

A double program is run again only if something in it can lose as much: a sum or
difference that is 1e6 times smaller than its terms, a logarithm near 1, an angle of
many turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, finite
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.spelling import operand
from workbench.checks.doctor.wider import WIDER, WIDEST, again
from workbench.graph.tensor import Tensor, value_of
from workbench.transforms import reverse

__all__ = ["look"]

ROOTS = 30.0
WRONG = 0.1
CANCELS = 1e6
#: An error that grows so much at one node began there.
JUMP = 1e3
#: A node is looked at where its error does at least this share of what is too much:
#: what follows may make more of it than its slope says.
SHARE = 0.03
SUMS = {"sum", "mean", "matmul", "einsum", "tensordot", "var", "cumsum"}


class Jump(NamedTuple):
    """By how much one node made an error worse, and how large it was then."""

    node: Tensor
    times: float
    error: float
    told: str = ""


def look(case: Case) -> Iterator[Finding]:
    """A finding where the wider run contradicts the result or a gradient."""
    if not all(finite(y._value) for y in case.outputs):
        return
    narrow = any(str(node.dtype) in WIDER for node in _floats(case.nodes))
    if not narrow and (
        np.finfo(np.longdouble).eps >= np.finfo(float).eps or not _cancelling(case)
    ):
        return
    if any(not isinstance(x._value, _HOST) for x in case.wrt):
        return  # arrays of another library
    unit = float(np.finfo(np.float32 if narrow else np.float64).eps) / 2
    table: dict[str, Any] = WIDER if narrow else WIDEST
    wide = again(case, table)
    yield from _compare(case, wide, unit, "float32" if narrow else "float64")


_HOST = (np.ndarray, np.generic, float, complex)


def _floats(nodes: list[Tensor]) -> Iterator[Tensor]:
    for node in nodes:
        if not isinstance(node._value, tuple) and node.dtype.kind in "fc":
            yield node


def _cancelling(case: Case) -> bool:
    """Whether a sum or difference is far smaller than its terms."""
    for node in _floats(case.nodes):
        name = node.op.name
        if name in ("subtract", "add"):
            a, b = (value_of(x) for x in node.args)
            y = node._value
            with np.errstate(all="ignore"):
                largest = np.maximum(_sizes(a), _sizes(b))
                if bool(np.any(largest > CANCELS * np.abs(y))):
                    return True
        elif name in ("sum", "mean") and np.size(node._value) <= 1:
            a = value_of(node.args[0])
            if np.size(a) > 1:
                terms = float(np.sum(np.abs(a)))
                if terms > CANCELS * abs(complex(np.sum(a))):
                    return True
        elif name in ("log", "log2", "log10"):
            if bool(np.any(np.abs(node._value) < 1 / CANCELS)):
                return True
        elif name in ("sin", "cos", "tan"):
            if bool(np.any(np.abs(value_of(node.args[0])) > CANCELS)):
                return True
    return False


# The comparison


def _compare(
    case: Case, wide: dict[int, Tensor], unit: float, dtype: str
) -> Iterator[Finding]:
    outputs = [wide[y.serial] for y in case.outputs]
    if not all(finite(y._value) for y in outputs):
        return
    enough = ROOTS * unit**0.5
    top = max((_top(x._value) for x in case.wrt), default=0.0)
    near = all(_top(z._value) < unit**0.5 * top for z in outputs)
    jump = _value_jump(case, wide, unit, enough, unit * top)
    if jump is None:
        jump = _whole(case, wide, unit, enough, unit * top)
    if jump is not None:
        if not (near and form_of(case, jump.node) is None):
            yield _told(case, jump, dtype, "result")
        return
    yield from _gradients(case, wide, unit, enough, dtype, near)


def _top(x: Any) -> float:
    found = float(np.max(np.abs(x))) if np.size(x) else 0.0
    if not np.isfinite(found):  # an infinite mask is no size
        found = float(np.max(_sizes(x)))
    return found


def _sizes(x: Any) -> Any:
    return np.where(np.isfinite(x), np.abs(x), 0)


def _apart(a: Any, b: Any) -> float:
    return _top(np.subtract(a, b)) if np.shape(a) == np.shape(b) else 0.0


def _both(y: Any, z: Any) -> str:
    k = int(np.argmax(np.abs(np.subtract(y, z)))) if np.size(y) > 1 else 0
    a, b = np.ravel(y)[k], np.ravel(z)[k]
    return f"{_digits(a)}, and in higher precision {_digits(b)}"


def _digits(x: Any) -> str:
    if np.iscomplexobj(x):
        return f"{complex(x):.8g}"
    return f"{float(x):.8g}"


def _value_jump(
    case: Case, wide: dict[int, Tensor], unit: float, enough: float, floor: float
) -> Jump | None:
    """The first node that loses digits which the result hangs on.

    What an entry's error does to the result is its product with the cotangent; all
    entries count with their sizes, since that they cancel is luck.
    """
    old = {new.serial: case.by_serial[serial] for serial, new in wide.items()}
    scale = floor
    for y, seed in zip(case.outputs, case.seeds, strict=True):
        scale = max(scale, float(np.sum(np.abs(wide[y.serial]._value * seed))))
    found: list[Jump] = []
    most = 0.0

    def visit(step: reverse.Visit) -> None:
        node = old.get(step.node.serial)
        if node is None or isinstance(node._value, tuple):
            return
        new, g = step.node._value, value_of(step.cotangent)
        apart = _sizes(np.subtract(node._value, new))
        reach = _sizes(apart * g)
        nonlocal most
        total = float(reach.sum())
        most = max(most, total)
        if not reach.size or total < SHARE * enough * scale:
            return
        at = np.unravel_index(int(np.argmax(reach)), reach.shape)
        own = _ratio(apart[at], abs(np.asarray(new)[at]))
        before = max([unit, *_before(node, wide, at)])
        if own >= enough and own >= JUMP * before:
            told = (
                f"{_entry(node, at)} is {_digits(np.asarray(node._value)[at])}, and in"
                f" higher precision {_digits(np.asarray(new)[at])}: off by {own:.2g} of"
                " its size"
            )
            found.append(Jump(node, own / before, own, told))

    seeds = [
        np.ones_like(wide[y.serial]._value) * s
        for y, s in zip(case.outputs, case.seeds, strict=True)
    ]
    try:
        reverse.pull_back(
            [wide[y.serial] for y in case.outputs],
            seeds,
            [wide[x.serial] for x in case.wrt],
            visit=visit,
            nulls_pass=True,
        )
    except Exception:  # a rule for one dtype alone
        return None
    if most < enough * scale:
        return None
    # The first of them: the others have it from there.
    return min(found, key=lambda jump: jump.node.serial, default=None)


def _before(
    node: Tensor, wide: dict[int, Tensor], at: tuple[Any, ...]
) -> Iterator[float]:
    """The relative errors of a node's operands, at the same entry if they have it."""
    for x in node.inputs:
        if not isinstance(x, Tensor) or isinstance(x._value, tuple):
            continue
        if x.dtype.kind not in "fc":
            continue
        new = wide[x.serial]._value
        if np.shape(new) == np.shape(node._value):
            apart = abs(np.asarray(x._value)[at] - np.asarray(new)[at])
            yield _ratio(apart, abs(np.asarray(new)[at]))
        else:
            yield _ratio(_apart(x._value, new), _top(new))


def _ratio(a: Any, b: Any) -> float:
    if not a:
        return 0.0
    return min(float(a / b), 1e30) if b else 1e30


def _entry(node: Tensor, at: tuple[Any, ...]) -> str:
    name = node.name or "its value"
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _whole(
    case: Case, wide: dict[int, Tensor], unit: float, enough: float, floor: float
) -> Jump | None:
    """For a result that is off as a whole: the node that did most of it."""
    for y in case.outputs:
        z = wide[y.serial]._value
        off = _apart(y._value, z) / max(_top(z), floor, np.finfo(float).tiny)
        if off > enough:
            jump = _by_norm(case, wide, unit)
            told = f"The result is {_both(y._value, z)}: off by {off:.2g} of its size"
            return None if jump is None else jump._replace(error=off, told=told)
    return None


def _by_norm(case: Case, wide: dict[int, Tensor], unit: float) -> Jump | None:
    """The node whose largest entry is off by far more than its operands' are."""
    best: Jump | None = None
    own: dict[int, float] = {}
    for node in _floats(case.nodes):
        z = wide[node.serial]._value
        scale = _top(z)
        own[node.serial] = _apart(node._value, z) / scale if scale else 0.0
        before = [own.get(x.serial, 0.0) for x in node.inputs if isinstance(x, Tensor)]
        times = own[node.serial] / max([*before, unit])
        if best is None or times > best.times:
            best = Jump(node, times, own[node.serial])
    return best


def _gradients(
    case: Case,
    wide: dict[int, Tensor],
    unit: float,
    enough: float,
    dtype: str,
    near: bool,
) -> Iterator[Finding]:
    """A gradient that the wider run contradicts, though the result agrees."""
    if case.rules:
        return  # rules of overrides are tied to the nodes that they were made for
    leaves = [wide[x.serial] for x in case.wrt]
    high: dict[int, Any] = {}

    def visit(step: reverse.Visit) -> None:
        high[step.node.serial] = step.cotangent

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
        if g is None or h is None or not finite(g) or not finite(h):
            continue
        scale = max(_top(value_of(h)), _usual(case, x))
        off = _apart(value_of(g), value_of(h)) / scale if scale else 0.0
        if off > worst:
            worst, which = off, k
    if worst <= enough:
        return
    jump = _slope_jump(case, wide, high, unit)
    if jump is not None and not (near and form_of(case, jump.node) is None):
        both = _both(value_of(case.gradients[which]), value_of(made[which]))
        name = f"gradient by {case.call(case.wrt[which])}"
        told = f"The {name} is {both}: off by {worst:.2g} of its size"
        yield _told(case, jump._replace(error=worst, told=told), dtype, name)


def _usual(case: Case, x: Tensor) -> float:
    """What a gradient by ``x`` would be if nothing cancelled in it."""
    norm = _top(x._value)
    found = 0.0
    for reader in case.readers.get(x.serial, ()):
        step = case.step_of.get(reader.serial)
        if step is not None and norm:
            found = max(found, 1e-3 * step.norm * _top_of(reader) / norm)
    return found


def _top_of(node: Tensor) -> float:
    return 0.0 if isinstance(node._value, tuple) else _top(node._value)


def _slope_jump(
    case: Case, wide: dict[int, Tensor], high: dict[int, Any], unit: float
) -> Jump | None:
    """The node whose rule made the error of a cotangent large."""
    low: dict[int, Any] = {}

    def visit(step: reverse.Visit) -> None:
        low[step.node.serial] = step.cotangent

    reverse.pull_back(case.outputs, case.seeds, case.wrt, visit=visit, nulls_pass=True)

    def error(serial: int) -> float:
        a, b = low.get(serial), high.get(wide[serial].serial)
        if a is None or b is None or isinstance(a, tuple):
            return 0.0
        scale = _top(value_of(b))
        return _apart(value_of(a), value_of(b)) / scale if scale else 0.0

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
        if best is None or times > best.times:
            best = Jump(step.node, times, max(passed))
    return best


def _told(case: Case, jump: Jump, dtype: str, what: str) -> Finding:
    node, name = jump.node, case.call(jump.node)
    form = form_of(case, node)
    cancels = node.op.name in ("subtract", "add", *SUMS)
    if cancels:
        kind, title = "cancellation", f"{name} cancels: its terms are nearly equal"
        cause = (
            "The leading digits of two nearly equal numbers cancel, and what is left"
            " is their rounding."
        )
    elif dtype == "float32":
        kind, title = "float32-contradicted", f"{name}: float64 gives another {what}"
        cause = "float32 has 7 digits, and this node needs more."
    else:
        kind, title = "lost-digits", f"{name} loses nearly all digits"
        cause = "A small error of its operand is a large one of its result."
    if form is not None:
        fix = Fix(f"the stable form of {form.name}", form.code)
    elif dtype == "float32":
        fix = Fix(
            "compute this part in float64",
            f"({operand(node, 0)}).astype(np.float64)",
        )
    else:
        fix = Fix(
            "subtract before the rounding: another form of the expression",
            "(a - b) * (a + b) for a**2 - b**2, and its like",
        )
    told = jump.told[:1].upper() + jump.told[1:]
    lost = min(16.0, np.log10(max(jump.times, 1.0)))
    return Finding(
        kind,
        "error" if jump.error > WRONG else "warning",
        node,
        "backward" if what.startswith("gradient") else "forward",
        title,
        f"{told}; about {lost:.0f} digits are lost here.",
        cause,
        fix,
    )
