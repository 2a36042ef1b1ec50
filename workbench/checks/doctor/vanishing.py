"""Gradients that vanish or explode on their way back, and units that do not learn."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, Step, finite, is_leaf, size
from workbench.checks.doctor.equivalence import offer
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import inner, number
from workbench.checks.doctor.spelling import LEFT_OUT, operand
from workbench.core.tensor import Tensor, value_of

# Units that do not learn: dead ReLUs, saturated sigmoids and tanhs.
#
# Only hidden layers are looked at, those whose result a later matrix product reads: a
# hinge loss that is satisfied everywhere and the probabilities of a good classifier are
# flat as well, and as they should be.
#
# Thresholds, with reasons. A unit is dead if its slope is 0 for every sample of the
# batch. With few samples that is chance (a healthy unit at 4 samples: one in 16), so
# single units count from 16 samples on (one in 65,536). Of a random layer behind a
# random layer a third may be dead: half of a layer are worth a note, nine tenths a
# warning; a layer that is dead as a whole counts from 8 entries on. A sigmoid or tanh
# is saturated where its slope is below a thousandth of the largest; a warning needs
# nine tenths of a layer, since some saturated entries are a network that has made up
# its mind.

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


def find_idle_units(case: Case) -> Iterator[Finding]:
    """The hidden layers that are dead or saturated."""
    hidden: set[int] | None = None
    for node in case.nodes:
        kind = _kind(node)
        if kind is None or node.serial not in case.varying:
            continue
        if not isinstance(node._value, (np.ndarray, np.generic)):
            continue  # arrays of another library
        if hidden is None:
            hidden = _read_by_products(case)
        if node.serial not in hidden or node.serial in (case.rules or ()):
            continue  # where an override has the say, the op's own slope has none
        found = _dead(case, node) if kind == "relu" else _saturated(case, node, kind)
        if found is not None:
            yield found


def _read_by_products(case: Case) -> set[int]:
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
    """Return whether a condition is ``x > 0``."""
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
    """Return a ReLU that lets a little through, with the upper bound that it has."""
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
    """Return the largest operand of dead units."""
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
        _scaled_operand(case, node, kind),
    )


#: What brings an operand nearer to 0, the mildest first.
SCALED = (
    "{0} / np.std({0})",
    "({0} - np.mean({0})) / np.std({0})",
    "{0} / np.max(np.abs({0}))",
)


def _scaled_operand(case: Case, node: Tensor, kind: str) -> Fix | None:
    """Return the operand of a unit in the size that it learns from."""
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


# Vanishing and exploding gradients: the way from the result back to an input.
#
# Along each way the factor of every node is what it passes on over what arrived, in L2
# norms; where several readers pass something on, the largest counts. Thresholds, with
# reasons: a gradient 1e8 times smaller than at the result is below the rounding of a
# float32 next to it, and half of the digits of a float64 below; 1e8 times larger, it
# leaves no step size that suits both ends. No single node counts for more than a factor
# of 100 there, so that a change of units is no alarm, and six decades must remain; but
# one node that is no scaling by a constant may make 1e8 alone, unless that is but the
# units of the input: the result follows it in proportion. In proportion is whatever
# moves the result by no more than 100 times the relative change of the input, which no
# power law of physics and no exponential that a program is at home with exceeds;
# beyond, a step that is small beside the input is none for the result.
#
# An input may hide what explodes before it: tiny activations times a gradient of 1e23
# are an ordinary gradient, until the activations are not tiny. So a gradient that one
# line makes grow, time after time, is told though no input shows it.

DECADES = 8.0
CAPPED = 6.0
#: What one node may add to the capped sum, in decades.
ONE = 2.0
#: A layer has at most so many nodes on the way.
LAYER = 20
#: An input still counts where the result changes by this part of the change in it.
COUNTS = 1e-3
#: A result that changes by more than so many times the change in an input, both beside
#: their sizes, explodes.
GROWS = 100.0


class Way(NamedTuple):
    """From the result to a node: decades gained, capped; the extreme single one."""

    total: float
    capped: float
    single: float
    where: Tensor | None
    reader: Tensor | None


def find_vanishing_ways(
    case: Case, known: Collection[Tensor] = ()
) -> Iterator[Finding]:
    """One finding for what vanishes, one for what explodes.

    ``known`` are the nodes that were blamed already: dead and saturated layers.
    """
    ways = _ways(case)
    blamed = {node.serial for node in known}
    for sign in (-1, 1):
        found = []
        for x, g in zip(case.wrt, case.gradients, strict=True):
            way = ways.get(x.serial)
            if way is None or g is None or not finite(g):
                continue
            single = sign * way.single >= DECADES and way.where is not None
            gradual = sign * way.capped >= CAPPED
            if sign * way.total < DECADES or not (single or gradual):
                continue
            looped = way.where is not None and way.where.op.name == "scan"
            if looped or not _in_its_units(case, x, g, sign, ways, gradual):
                found.append((sign * way.total, x))
        hidden = _growing_line(case, ways) if sign > 0 and not found else None
        if hidden is not None:
            found.append((hidden[0], hidden[1]))
        if not found:
            continue
        _, worst = max(found, key=lambda pair: pair[0])
        nodes = _nodes(worst, ways)
        if any(node.serial in blamed for node in nodes):
            continue
        yield _told(case, worst, nodes, ways, sign, len(found) - 1)


def _growing_line(case: Case, ways: dict[int, Way]) -> tuple[float, Tensor] | None:
    """Return a node on whose way one line makes the gradient grow, step by step."""
    grown = [
        (ways[node.serial].total, node)
        for node in case.nodes
        if node.serial in ways
        and ways[node.serial].total >= DECADES
        and ways[node.serial].capped >= CAPPED
    ]
    if not grown:
        return None
    total, worst = max(grown, key=lambda pair: pair[0])
    nodes = _nodes(worst, ways)
    if len(nodes) < LAYER:
        return None
    ends = [worst, *nodes[:-1]]
    lines: dict[Any, list[float]] = {}
    for end, node in zip(ends, nodes, strict=True):
        before = ways.get(node.serial)
        factor = ways[end.serial].capped - (before.capped if before else 0.0)
        lines.setdefault((node.op.name, node.code, node.lasti), []).append(factor)
    repeated = max(lines.values(), key=sum)
    if sum(repeated) < CAPPED or len(repeated) < LAYER:
        return None
    return total, worst


def _in_its_units(
    case: Case, x: Tensor, g: Any, sign: int, ways: dict[int, Way], gradual: bool
) -> bool:
    """Whether a gradient that a few nodes make small or large is so by its units alone.

    Then the result changes in proportion to the input: what has vanished or explodes
    does not. An input or a result of 0 says nothing.
    """
    # Entry by entry: each may have a unit of its own.
    moved = size(value_of(g) * x._value)[0] * math.sqrt(max(1, np.size(x._value)))
    result = math.hypot(*[size(y._value)[0] for y in case.outputs])
    if not moved or not result:
        return False
    share = moved / result
    return (share > COUNTS if sign < 0 else share < GROWS) and (
        not gradual or len(_nodes(x, ways, LAYER)) < LAYER
    )


def _ways(case: Case) -> dict[int, Way]:
    """The way to each node, by its serial; linear in the edges of the program."""
    ways: dict[int, Way] = {}
    best: dict[int, float] = {}
    nothing = Way(0.0, 0.0, 0.0, None, None)
    for step in case.steps:
        own = ways.get(step.node.serial, nothing)
        if not (step.norm > 0 and step.finite):
            continue
        for serial, norm, whole in step.passed:
            if not whole or not norm > best.get(serial, 0.0):
                continue
            best[serial] = norm
            factor = math.log10(norm) - math.log10(step.norm)
            if factor < -CAPPED and _cancels(step, factor):
                factor = 0.0
            capped = max(-ONE, min(ONE, factor))
            single, where = own.single, own.where
            if abs(factor) > abs(single) and not _scaling(step):
                single, where = factor, step.node
            ways[serial] = Way(
                own.total + factor, own.capped + capped, single, where, step.node
            )
    return ways


def _scaling(step: Step) -> bool:
    """Return whether a factor is no fault of one node.

    That of a product with one constant number, which is a change of units, and that
    of a square near 0, as of a residual that has converged.
    """
    node = step.node
    if node.op.name in ("square", "power", "absolute"):
        return True
    return node.op.name in ("multiply", "divide") and any(
        number(x) is not None or x is node.inputs[1 - k]
        for k, x in enumerate(node.inputs)
    )


def _cancels(step: Step, factor: float) -> bool:
    """Return whether what a linear node passes on is so small since its terms cancel.

    So it is at an optimum, where residuals are at right angles to the data: a product
    that passes on far less than its other operand is large.
    """
    name = step.node.op.name
    if name in ("add", "subtract"):
        return True
    if name not in PRODUCTS:
        return False
    sizes = [
        size(a._value if isinstance(a, Tensor) else a)[0]
        / math.sqrt(max(1, np.size(value_of(a))))
        for a in step.node.inputs
    ]
    return bool(sizes) and factor < math.log10(max(min(sizes), 1e-300)) - CAPPED


def _nodes(x: Tensor, ways: dict[int, Way], most: float = math.inf) -> list[Tensor]:
    """Return the nodes on the way, from the input to the result; at most so many."""
    found: list[Tensor] = []
    reader = ways[x.serial].reader
    while reader is not None and len(found) < most:
        found.append(reader)
        way = ways.get(reader.serial)
        reader = None if way is None else way.reader
    return found


def _told(
    case: Case,
    x: Tensor,
    nodes: list[Tensor],
    ways: dict[int, Way],
    sign: int,
    others: int,
) -> Finding:
    steps = case.step_of
    way = ways[x.serial]
    # What each node on the way did to it: the difference to the node before.
    ends = [x, *nodes[:-1]]
    factors = []
    for end, node in zip(ends, nodes, strict=True):
        before = ways.get(node.serial)
        factors.append(
            ways[end.serial].total - (0.0 if before is None else before.total)
        )
    products = [k for k, node in enumerate(nodes) if node.op.name in PRODUCTS]
    if len(nodes) > LAYER * len(products):
        products = []  # the way goes round the layers: they are not what does it
    group = 1
    # The layer where it happens: the product (or, without any, the node) that does
    # most, taken from one product to the next.
    if sign * way.single >= DECADES / 2 and way.where is not None:
        blamed = way.where
    elif len(products) > 2:
        blamed, all_of_it = _worst_layer(nodes, factors, products, sign)
        group = 0
    else:
        blamed, group, all_of_it = _worst_line(nodes, factors, sign)
    word = "explodes" if sign > 0 else "vanishes"
    top = steps[nodes[-1].serial].norm
    count = len(products) if len(products) > 2 else len(nodes)
    what = "matrix products" if len(products) > 2 else "nodes"
    each = _power(way.total / max(1, count))
    at = next(k for k, node in enumerate(nodes) if node is blamed)
    step = _power(factors[at])
    more = f" So for {others} more of the inputs." if others else ""
    step_told = f"{step:.2g} at {case.call(blamed)}"
    if group > 1:
        step_told = f"{all_of_it:.2g} by the {group} on that line alone"
    elif not group:
        step_told = f"{all_of_it:.2g} from there to the next one"
    fix: Fix | None = None
    if sign > 0:
        rule = "d / maximum(1, norm(d))"
        code = f'wb.override("{blamed.op.name}", "{rule}")'
        fix = Fix("bound the norm of what flows there", code, rule, everywhere=True)
    else:
        fix = _scaled_weights(case, [blamed, *nodes])
    where = f" in scope {blamed.scope!r}" if blamed.scope else ""
    return Finding(
        "exploding" if sign > 0 else "vanishing",
        "warning",
        blamed,
        "backward",
        f"the gradient {word} on the way to {case.call(x)}, most of all at"
        f" {case.call(blamed)}{where}",
        f"From {top:.3g} at the result it comes to {top * _power(way.total):.3g} over"
        f" {count} {what}: a factor of {each:.2g} at each, {step_told}.{more}",
        "Each factor on the way multiplies the ones before."
        + (
            " Weights that are too large, or a step repeated too often, make it grow."
            if sign > 0
            else " Small weights or flat nonlinearities make it shrink."
        ),
        fix,
        tuple(reversed(nodes)),
    )  # fmt: skip


def _scaled_weights(case: Case, nodes: list[Tensor]) -> Fix | None:
    """The weights of a product that shrinks what passes, scaled to keep norms."""
    for node in nodes:
        if node.op.name not in PRODUCTS:
            continue
        for k, x in enumerate(node.inputs):
            weights = value_of(x)
            if is_leaf(x) and np.ndim(weights) == 2 and operand(node, k) != LEFT_OUT:
                fix = offer(
                    case,
                    node,
                    "scale the weights to keep norms, or add skip connections",
                    f"{{{k}}} / np.linalg.norm({{{k}}}, 2)",
                    mends=lambda w: bool(np.isclose(np.linalg.norm(w, 2), 1)),
                )
                if fix is not None and np.linalg.norm(weights, 2) < 1:
                    return fix
    return None


def _worst_line(
    nodes: list[Tensor], factors: list[float], sign: int
) -> tuple[Tensor, int, float]:
    """The node that does most of what one op of one line does, in a loop as well.

    With how many of them there are on the way, and the factor of all together.
    """
    lines: dict[Any, list[int]] = {}
    for k, node in enumerate(nodes):
        key = k if node.code is None else (node.op.name, node.code, node.lasti)
        lines.setdefault(key, []).append(k)
    worst = max(lines.values(), key=lambda some: sign * sum(factors[k] for k in some))
    blamed = max(worst, key=lambda k: sign * factors[k])
    return nodes[blamed], len(worst), _power(sum(factors[k] for k in worst))


def _worst_layer(
    nodes: list[Tensor], factors: list[float], products: list[int], sign: int
) -> tuple[Tensor, float]:
    """The product around which the most is lost or gained, and the factor there."""
    best, found = -math.inf, nodes[products[0]]
    for k, place in enumerate(products):
        end = products[k + 1] if k + 1 < len(products) else len(nodes)
        own = sign * sum(factors[place:end])
        if own > best:
            best, found = own, nodes[place]
    return found, _power(sign * best)


def _power(decades: float) -> float:
    return float(10 ** min(decades, 308.0))
