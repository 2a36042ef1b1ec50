"""Lost digits: the program again in a wider dtype, and the node that lost them.

float32 is compared with float64, float64 with the 80-bit format where the machine has
one. A result (or a gradient) that the wider run contradicts is blamed on the node where
the error relative to the value jumps, at the entry that carries it on to the result:
before a subtraction that cancels it is that of rounding, behind it is large.

Thresholds, with reasons. Rounding alone costs a few digits in any long program. 30
times the root of the rounding unit is more than half of the digits (7e-3 in float32,
4.5e-7 in float64), which no healthy program of ours came near; a tenth of the value is
an error. A result that is itself as near to 0 as the rounding of what it was computed
from is no loss: a residual that has converged is nothing but rounding.

A double program is run again only if something in it cancels: a sum or difference that
is 1e6 times smaller than its terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, finite, is_leaf
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.spelling import operand
from workbench.graph import walk
from workbench.graph.tensor import Tensor, value_of
from workbench.transforms import reverse

__all__ = ["look"]

ROOTS = 30.0
WRONG = 0.1
CANCELS = 1e6
SUMS = {"sum", "mean", "matmul", "einsum", "tensordot", "var", "cumsum"}
#: Products with more multiplications run in the dtype they have: others are slow.
MOST_PRODUCTS = 3e7

WIDER = {
    "float16": np.float64,
    "float32": np.float64,
    "complex64": np.complex128,
}
WIDEST = {"float64": np.longdouble, "complex128": np.clongdouble}


class Jump(NamedTuple):
    """By how much one node made an error worse, and how large it was then."""

    node: Tensor
    times: float
    error: float


def look(case: Case) -> Iterator[Finding]:
    """A finding where the wider run contradicts the result or a gradient."""
    if not all(finite(y._value) for y in case.outputs) or case.unfinite:
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
    wide = _again(case, table)
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
                largest = np.maximum(np.abs(a), np.abs(b))
                if bool(np.any(largest > CANCELS * np.abs(y))):
                    return True
        elif name in ("sum", "mean") and np.size(node._value) <= 1:
            a = value_of(node.args[0])
            if np.size(a) > 1:
                terms = float(np.sum(np.abs(a)))
                if terms > CANCELS * abs(complex(np.sum(a))):
                    return True
    return False


# The wider run


def _again(case: Case, table: dict[str, Any]) -> dict[int, Tensor]:
    """The program in wider dtypes: new nodes by the serials of the old ones."""
    made: dict[int, Tensor] = {}
    total = len(case.nodes)
    for i, node in enumerate(case.nodes):
        if not i % 256:
            case.tell(2 * total + i // 4, total)
        inputs = tuple(
            [made[x.serial] if isinstance(x, Tensor) else x for x in node.inputs]
        )
        args = tuple([value_of(x) for x in inputs])
        if is_leaf(node) or not inputs:
            value = _wide(node._value, table)
        else:
            value = _computed(node, args, table)
        made[node.serial] = walk.like(node, inputs, args, value)
    return made


def _computed(node: Tensor, args: tuple[Any, ...], table: dict[str, Any]) -> Any:
    if node.op.name == "astype" and str(node.dtype) in table:
        return _wide(args[0], table)
    if node.op.name == "identity":
        return args[0]
    if not (table is WIDEST and _large(node, args)):
        try:
            return _wide(node.op.compute(*args, **node.params), table)
        except Exception:
            pass
    old = [value_of(x) for x in (node.args or node.inputs)]
    plain = [
        a.astype(b.dtype) if hasattr(a, "astype") and hasattr(b, "dtype") else a
        for a, b in zip(args, old, strict=True)
    ]
    try:
        return _wide(node.op.compute(*plain, **node.params), table)
    except Exception:
        return _wide(node._value, table)


def _large(node: Tensor, args: tuple[Any, ...]) -> bool:
    if node.op.name not in ("matmul", "tensordot", "einsum", "convolve", "convolve_nd"):
        return False
    rows = float(np.size(args[0]))
    return rows * float(np.shape(args[-1])[-1] if np.ndim(args[-1]) else 1) > (
        MOST_PRODUCTS
    )


def _wide(value: Any, table: dict[str, Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_wide(part, table) for part in value)
    dtype = table.get(str(getattr(value, "dtype", "")))
    if dtype is None:
        return (
            np.longdouble(value)
            if type(value) is float and table is WIDEST
            else (value)
        )
    return value.astype(dtype)


# The comparison


def _compare(
    case: Case, wide: dict[int, Tensor], unit: float, dtype: str
) -> Iterator[Finding]:
    outputs = [wide[y.serial] for y in case.outputs]
    if not all(finite(y._value) for y in outputs):
        return
    enough = ROOTS * unit**0.5
    top = max((_top(n._value) for n in _floats(case.nodes)), default=0.0)
    errors = [
        _apart(y._value, z._value) for y, z in zip(case.outputs, outputs, strict=True)
    ]
    scales = [max(_top(z._value), unit * top) for z in outputs]
    off = [e / s if s else 0.0 for e, s in zip(errors, scales, strict=True)]
    worst = max(off, default=0.0)
    if worst > enough:
        k = off.index(worst)
        jump = _value_jump(case, wide, unit, k, errors[k])
        if jump is not None:
            y, z = case.outputs[k]._value, outputs[k]._value
            yield _told(case, jump, worst, dtype, _both(y, z), "result")
        return
    yield from _gradients(case, wide, unit, enough, dtype)


def _top(x: Any) -> float:
    return float(np.max(np.abs(x))) if np.size(x) else 0.0


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
    case: Case, wide: dict[int, Tensor], unit: float, k: int, error: float
) -> Jump | None:
    """The node where the error that reaches output ``k`` became large."""
    old = {new.serial: case.by_serial[serial] for serial, new in wide.items()}
    relative: dict[int, float] = {}
    carried: dict[int, float] = {}

    def note(node: Tensor, g: Any) -> None:
        low = old.get(node.serial)
        if low is None or isinstance(node._value, tuple) or isinstance(g, tuple):
            return
        if node.dtype.kind not in "fc":
            return
        apart = np.ravel(np.subtract(low._value, node._value))
        reach = np.abs(apart * np.ravel(value_of(g)))
        if not reach.size:
            return
        at = int(np.argmax(reach))
        value = abs(np.ravel(node._value)[at])
        carried[low.serial] = float(reach.sum())
        relative[low.serial] = float(abs(apart[at]) / value) if value else np.inf

    leaves = [wide[x.serial] for x in case.wrt]
    arrived: dict[int, Any] = {}

    def visit(step: reverse.Visit) -> None:
        note(step.node, step.cotangent)
        for x, c in zip(step.node.inputs, step.passed, strict=False):
            if c is not None and isinstance(x, Tensor):
                arrived[x.serial] = c

    seed = np.ones_like(wide[case.outputs[k].serial]._value)
    try:
        reverse.pull_back(
            [wide[case.outputs[k].serial]], [seed], leaves, visit=visit, nulls_pass=True
        )
    except Exception:
        return _by_norm(case, wide, unit)
    best: Jump | None = None
    for serial, own in relative.items():
        node = case.by_serial[serial]
        if carried[serial] < 0.1 * error or not np.isfinite(own):
            if not (own == np.inf and carried[serial] >= 0.1 * error):
                continue
        before = max(
            (
                relative.get(x.serial, unit)
                for x in node.inputs
                if isinstance(x, Tensor)
            ),
            default=unit,
        )
        times = min(own, 1e30) / max(before, unit)
        if best is None or times > 1.01 * best.times:
            best = Jump(node, times, own)
    return best if best is not None else _by_norm(case, wide, unit)


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
    case: Case, wide: dict[int, Tensor], unit: float, enough: float, dtype: str
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
    if jump is not None:
        told = _both(value_of(case.gradients[which]), value_of(made[which]))
        name = f"gradient by {case.call(case.wrt[which])}"
        yield _told(case, jump, worst, dtype, told, name)


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


def _told(
    case: Case, jump: Jump, off: float, dtype: str, both: str, what: str
) -> Finding:
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
    lost = min(16.0, np.log10(max(jump.times, 1.0)))
    return Finding(
        kind,
        "error" if off > WRONG else "warning",
        node,
        "backward" if what.startswith("gradient") else "forward",
        title,
        f"The {what} is {both}: off by {off:.2g} of its size; about {lost:.0f} digits"
        " are lost here.",
        cause,
        fix,
    )
