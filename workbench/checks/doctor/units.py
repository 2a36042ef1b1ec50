"""Units that do not learn: dead ReLUs, saturated sigmoids and tanhs.

Only hidden layers are looked at, those whose result a later matrix product reads: a
hinge loss that is satisfied everywhere and the probabilities of a good classifier are
flat as well, and as they should be.

Thresholds, with reasons. A unit is dead if its slope is 0 for every sample of the
batch. With few samples that is chance (a healthy unit at 4 samples: one in 16), so
single units count from 16 samples on (one in 65,536). Of a random layer behind a
random layer a third may be dead: half of a layer are worth a note, nine tenths a
warning; a layer that is dead as a whole counts from 8 entries on. A sigmoid or tanh is
saturated where its slope is below a thousandth of the largest; a warning needs nine
tenths of a layer, since some saturated entries are a network that has made up its
mind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.equivalence import offer
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.matching import inner, number
from workbench.core.tensor import Tensor, value_of

__all__ = ["look"]

SAMPLES = 16
ENTRIES = 8
FEW = 0.5
MOST_DEAD = 0.9
SLOPE = 1e-3
MOST_SATURATED = 0.9
PRODUCTS = {"matmul", "tensordot", "einsum", "convolve", "convolve_nd"}
#: What may stand between a unit and the product that reads it.
BETWEEN = {
    "reshape", "transpose", "getitem", "concatenate", "stack", "pad", "copy", "add",
    "multiply", "item", "broadcast_to", "max", "mean", "where", "astype",
}  # fmt: skip


def look(case: Case) -> Iterator[Finding]:
    """The hidden layers that are dead or saturated."""
    hidden: set[int] | None = None
    for node in case.nodes:
        kind = _kind(node)
        if kind is None or node.serial not in case.varying:
            continue
        if not isinstance(node._value, (np.ndarray, np.generic)):
            continue  # arrays of another library
        if hidden is None:
            hidden = _hidden(case)
        if node.serial not in hidden or node.serial in (case.rules or ()):
            continue  # where an override has the say, the op's own slope has none
        found = _dead(case, node) if kind == "relu" else _saturated(case, node, kind)
        if found is not None:
            yield found


def _hidden(case: Case) -> set[int]:
    """The serials of what a later product reads, perhaps past a few light ops."""
    found: set[int] = set()
    for node in reversed(case.nodes):
        name = node.op.name
        if name in PRODUCTS or (name in BETWEEN and node.serial in found):
            found.update(x.serial for x in node.inputs if isinstance(x, Tensor))
    return found


def _kind(node: Tensor) -> str | None:
    """``"relu"``, ``"tanh"``, ``"sigmoid"``, or None for any other node."""
    name = node.op.name
    if name == "maximum":
        return "relu" if any(number(x) == 0 for x in node.inputs) else None
    if name == "where":
        _, yes, no = node.inputs
        return "relu" if number(no) == 0 and _positive(node.inputs[0], yes) else None
    if name == "multiply":
        a, b = node.inputs
        return "relu" if _positive(a, b) or _positive(b, a) else None
    if name == "clip":
        return "relu" if number(node.inputs[1]) == 0 else None
    if name in ("tanh", "expit"):
        return "tanh" if name == "tanh" else "sigmoid"
    if name in ("divide", "reciprocal"):
        below = inner(node.inputs[-1])
        if isinstance(below, Tensor) and below.op.name == "add":
            return "sigmoid" if any(
                isinstance(inner(x), Tensor) and inner(x).op.name == "exp"
                for x in below.inputs
            ) and any(number(x) == 1 for x in below.inputs) else None  # fmt: skip
    return None


def _positive(condition: Any, x: Any) -> bool:
    """Whether a condition is ``x > 0``."""
    condition = inner(condition)
    return (
        isinstance(condition, Tensor)
        and condition.op.name in ("greater", "greater_equal")
        and condition.inputs[0] is x
        and number(condition.inputs[1]) == 0
    )


def _dead(case: Case, node: Tensor) -> Finding | None:
    y = value_of(node._value)
    if isinstance(y, tuple) or y.ndim == 0 or y.dtype.kind != "f":
        return None
    off = np.asarray(y <= 0)
    rows = off.reshape(-1, off.shape[-1]) if off.ndim > 1 else off.reshape(1, -1)
    dead = rows.all(axis=0)
    count, units, samples = int(dead.sum()), dead.size, rows.shape[0]
    if count == 0 or (count == units and off.size < ENTRIES):
        return None
    if count < units and (samples < SAMPLES or count < FEW * units):
        return None
    name = case.call(node)
    whole = count == units
    which = "all" if whole else _listed(np.flatnonzero(dead))
    k = _varying(node)
    title = (
        f"{name}: the whole layer of {units} ReLUs is dead"
        if whole
        else f"{name}: {count} of {units} ReLUs are dead"
    )
    severity = "warning" if count >= MOST_DEAD * units else "note"
    return Finding(
        "dead-relu",
        severity,  # type: ignore[arg-type]
        node,
        "backward",
        title,
        f"Units {which} give 0 for each of {samples:,} samples; the largest operand"
        f" there is {_top(node, dead):.3g}.",
        "Where a ReLU gives 0 its slope is 0: no gradient reaches what is before it, so"
        " it never wakes up.",
        _leaky(case, node, k),
    )


def _leaky(case: Case, node: Tensor, k: int) -> Fix | None:
    """A ReLU that lets a little through, with the upper bound that it has."""
    text = "let a little gradient through, or start with smaller biases"
    x = f"{{{k}}}"
    for above in (x, f"np.minimum({x}, {{2}})"):
        if "{2}" in above and node.op.name != "clip":
            continue
        code = f"np.where({x} > 0, {above}, 0.01 * {x})"
        fix = offer(case, node, text, code, changes=lambda *xs: np.less_equal(xs[0], 0))
        if fix is not None:
            rule = f"where(x{k} > 0, d, 0.01 * g)"
            return replace(fix, rule=rule if node.op.name == "maximum" else None)
    return None


def _varying(node: Tensor) -> int:
    """Which operand of a ReLU is the one that it cuts off: not the 0, not ``x > 0``."""
    if node.op.name == "where":
        return 1
    for k, x in enumerate(node.inputs):
        if number(x) is None and not (isinstance(x, Tensor) and x.dtype.kind == "b"):
            return k
    return 0


def _top(node: Tensor, dead: Any) -> float:
    """The largest operand of dead units."""
    for x in node.args:
        x = value_of(x)
        if np.shape(x) == np.shape(node._value) and x.dtype.kind == "f":
            return float(np.asarray(x)[..., dead].max())
    return 0.0


def _listed(places: Any, most: int = 12) -> str:
    told = ", ".join(map(str, places[:most]))
    return told + (", …" if len(places) > most else "")


def _saturated(case: Case, node: Tensor, kind: str) -> Finding | None:
    y = value_of(node._value)
    if isinstance(y, tuple) or np.size(y) < ENTRIES or y.dtype.kind != "f":
        return None
    # As a share of the largest slope: 1 for tanh, 1/4 for the sigmoid.
    slope = 1 - np.square(y) if kind == "tanh" else 4 * y * (1 - y)
    flat = np.asarray(slope < SLOPE)
    share = float(flat.mean())
    if share < MOST_SATURATED:
        return None
    name = case.call(node)
    return Finding(
        "saturated",
        "warning",
        node,
        "backward",
        f"{name}: {share:.0%} of its entries are saturated",
        f"{int(flat.sum()):,} of {flat.size:,} slopes are below {SLOPE:g} of the"
        f" largest; the largest slope there is {float(np.max(slope)):.2g}.",
        f"Far from 0 a {kind} is flat: next to no gradient passes.",
        _scaled(case, node, kind),
    )


#: What brings an operand nearer to 0, the mildest first.
SCALED = (
    "{0} / np.std({0})",
    "({0} - np.mean({0})) / np.std({0})",
    "{0} / np.max(np.abs({0}))",
)


def _scaled(case: Case, node: Tensor, kind: str) -> Fix | None:
    """The operand of a unit in the size that it learns from."""
    unit = node
    if node.op.name in ("divide", "reciprocal"):
        unit = next(
            x for x in map(inner, inner(node.inputs[-1]).inputs)
            if isinstance(x, Tensor) and x.op.name == "exp"
        )  # fmt: skip
    whole = unit.inputs[0]
    if not isinstance(whole, Tensor):
        return None

    def mends(z: Any) -> bool:
        t = np.tanh(z if kind == "tanh" else z / 2)
        return bool(np.mean(1 - np.square(t) < SLOPE) < MOST_SATURATED)

    text = "bring its operand nearer to 0: smaller weights, or scaled inputs"
    for code in SCALED:
        fix = offer(case, whole, text, code, of=unit, mends=mends)
        if fix is not None:
            return fix
    return None
