"""Gradients that vanish or explode on their way back, and units that do not learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor.case import (
    Case,
    SweepStep,
    is_finite,
    is_leaf,
    measure_norm,
)
from workbench.checks.doctor.edits import edit_expression, edit_operand
from workbench.checks.doctor.equivalence import offer_fix
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import constant_value, skip_reshapes
from workbench.checks.doctor.spelling import (
    LEFT_OUT,
    parenthesize,
    quote_line,
    quote_operand,
    spell,
)
from workbench.checks.progress import tick
from workbench.core import sites, types, walk
from workbench.core.op import Op
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.errors import WorkbenchError
from workbench.ops import define
from workbench.ops.arranging import PAD

# Units that do not learn: dead ReLUs, saturated sigmoids and tanhs.
#
# Only hidden layers are examined, those whose result a later matrix product reads: a
# hinge loss that is satisfied everywhere and the probabilities of a good classifier are
# flat too, and rightly so.
#
# Thresholds, with reasons. A unit is dead if its slope is 0 for every sample of the
# batch. With few samples that is chance (a healthy unit at 4 samples: one in 16), so
# single units count from 16 samples on (one in 65,536). Of a random layer behind a
# random layer a third may be dead: half of a layer are worth a note, nine tenths a
# warning; a layer that is dead as a whole counts from 8 entries on. A sigmoid or tanh
# is saturated where its slope is below a thousandth of the largest; a warning needs
# nine tenths of a layer, since a trained network has some saturated entries.

SAMPLES = 16
ENTRIES = 8
FEW = 0.5
MOST_DEAD = 0.9
SLOPE = 1e-3
MOST_SATURATED = 0.9


def find_idle_units(case: Case) -> Iterator[Finding]:
    """Yield a finding for each hidden layer that is dead or saturated."""
    hidden: set[int] | None = None
    for node in case.nodes:
        kind = _classify_unit(node)
        if kind is None or node.serial not in case.varying:
            continue
        if not isinstance(node._value, (np.ndarray, np.generic)):
            continue  # arrays of another library
        if hidden is None:
            hidden = _read_by_products(case)
        if node.serial not in hidden or node.serial in (case.rules or ()):
            continue  # an override replaces the op's own slope
        found = (
            _find_dead(case, node)
            if kind == "relu"
            else _find_saturated(case, node, kind)
        )
        if found is not None:
            yield found


def _read_by_products(case: Case) -> set[int]:
    """Return the serials of nodes that a later product reads, also past light ops."""
    found: set[int] = set()
    for node in reversed(case.nodes):
        light = node.serial in found and _is_light(node.op)
        if node.op.traits.contracts or light:
            found.update(x.serial for x in node.inputs if isinstance(x, Tensor))
    return found


def _is_light(op: Op) -> bool:
    """Return whether an op may stand between a unit and the product after the unit."""
    is_sum = op.traits.sums and not op.traits.contracts
    joins = op.joins is not None or op is define.ITEM or op is PAD
    return bool(op.carries) or joins or is_sum or bool(op.traits.picks)


def _classify_unit(node: Tensor) -> str | None:
    """Return ``"relu"``, ``"tanh"`` or ``"sigmoid"``; None for any other node."""
    traits = node.op.traits
    if traits.picks == ">" and len(node.inputs) == 2:
        return "relu" if any(constant_value(x) == 0 for x in node.inputs) else None
    if traits.selects and node.op.chooses:
        _, yes, no = node.inputs
        return (
            "relu"
            if constant_value(no) == 0 and _is_positive_test(node.inputs[0], yes)
            else None
        )
    if traits.symbol == "*":
        a, b = node.inputs
        return "relu" if _is_positive_test(a, b) or _is_positive_test(b, a) else None
    if _clips(node):
        return "relu" if constant_value(node.inputs[1]) == 0 else None
    if traits.logistic is not None:
        return "tanh" if traits.logistic[0] < 0 else "sigmoid"
    if _divides(node):
        below = skip_reshapes(node.inputs[-1])
        if isinstance(below, Tensor) and below.op.traits.symbol == "+":
            exp = any(_is_exponential(skip_reshapes(x)) for x in below.inputs)
            one = any(constant_value(x) == 1 for x in below.inputs)
            return "sigmoid" if exp and one else None
    return None


def _clips(node: Tensor) -> bool:
    """Return whether a node keeps its first operand between two others."""
    three = node.op.traits.selects and len(node.inputs) == 3
    return three and not node.op.chooses


def _divides(node: Tensor) -> bool:
    """Return whether a node is a quotient, or the inverse of its one operand."""
    return node.op.traits.safe == "safe_divide"


def _is_exponential(x: Any) -> bool:
    """Return whether a node is a number to the power of its operand."""
    grown = x.op.traits.exponential if isinstance(x, Tensor) else None
    # Of others that grow so, sinh and expm1 are 0 at 0, and cosh is even.
    return grown is not None and not grown.even and bool(x.op.compute(0.0) == 1)


def _is_positive_test(condition: Any, x: Any) -> bool:
    """Return whether a condition is ``x > 0``."""
    condition = skip_reshapes(condition)
    return (
        isinstance(condition, Tensor)
        and condition.op.traits.symbol in (">", ">=")
        and condition.inputs[0] is x
        and constant_value(condition.inputs[1]) == 0
    )


def _find_dead(case: Case, node: Tensor) -> Finding | None:
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
    name = case.name_node(node)
    whole = count == units
    which = "all" if whole else _join_units(np.flatnonzero(dead))
    k = _find_cut_operand(node)
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
        f" there is {_max_operand(node, dead):.3g}.",
        "Where a ReLU gives 0 its slope is 0: no gradient reaches what is before it, so"
        " it stays dead.",
        _offer_leaky(case, node, k),
    )


def _offer_leaky(case: Case, node: Tensor, k: int) -> Fix | None:
    """Return a fix with a leaky ReLU, which keeps an upper bound."""
    text = "let a little gradient through, or start with smaller biases"
    x = f"{{{k}}}"
    for above in (x, f"np.minimum({x}, {{2}})"):
        if "{2}" in above and not _clips(node):
            continue
        code = f"np.where({x} > 0, {above}, 0.01 * {x})"
        fix = offer_fix(
            case, node, text, code, changes=lambda *xs: np.less_equal(xs[0], 0)
        )
        if fix is not None:
            rule = f"where(x{k} > 0, d, 0.01 * g)"
            return replace(fix, rule=rule if node.op.traits.picks else None)
    return None


def _find_cut_operand(node: Tensor) -> int:
    """Return the number of the operand that a ReLU cuts: not the 0, not ``x > 0``."""
    if node.op.chooses:
        return 1
    for k, x in enumerate(node.inputs):
        if constant_value(x) is None and not (
            isinstance(x, Tensor) and x.dtype.kind == "b"
        ):
            return k
    return 0


def _max_operand(node: Tensor, dead: Any) -> float:
    """Return the largest operand of dead units."""
    for x in node.args:
        x = value_of(x)
        if np.shape(x) == np.shape(node._value) and x.dtype.kind == "f":
            return float(np.asarray(x)[..., dead].max())
    return 0.0


def _join_units(places: Any, most: int = 12) -> str:
    text = ", ".join(map(str, places[:most]))
    return text + (", …" if len(places) > most else "")


def _find_saturated(case: Case, node: Tensor, kind: str) -> Finding | None:
    y = value_of(node._value)
    if isinstance(y, tuple) or np.size(y) < ENTRIES or y.dtype.kind != "f":
        return None
    # As a share of the largest slope: 1 for tanh, 1/4 for the sigmoid.
    slope = 1 - np.square(y) if kind == "tanh" else 4 * y * (1 - y)
    flat = np.asarray(slope < SLOPE)
    share = float(flat.mean())
    if share < MOST_SATURATED:
        return None
    name = case.name_node(node)
    return Finding(
        "saturated",
        "warning",
        node,
        "backward",
        f"{name}: {share:.0%} of its entries are saturated",
        f"{int(flat.sum()):,} of {flat.size:,} slopes are below {SLOPE:g} of the"
        f" largest; the largest slope there is {float(np.max(slope)):.2g}.",
        f"Far from 0 a {kind} is flat: almost no gradient passes.",
        _offer_scaled_operand(case, node, kind),
    )


#: Lines that bring an operand nearer to 0, the mildest first.
SCALED = (
    "{0} / np.std({0})",
    "({0} - np.mean({0})) / np.std({0})",
    "{0} / np.max(np.abs({0}))",
)


def _offer_scaled_operand(case: Case, node: Tensor, kind: str) -> Fix | None:
    """Return a fix that scales the operand of a unit, to let the unit learn."""
    unit = node
    if _divides(node):
        unit = next(
            x for x in map(skip_reshapes, skip_reshapes(node.inputs[-1]).inputs)
            if _is_exponential(x)
        )  # fmt: skip
    whole = unit.inputs[0]
    if not isinstance(whole, Tensor):
        return None

    def mends(z: Any) -> bool:
        t = np.tanh(z if kind == "tanh" else z / 2)
        return bool(np.mean(1 - np.square(t) < SLOPE) < MOST_SATURATED)

    text = "bring its operand nearer to 0: smaller weights, or scaled inputs"
    for code in SCALED:
        fix = offer_fix(case, whole, text, code, of=unit, mends=mends)
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
    """The path from the result to a node: its decades, capped, and the largest step."""

    total: float
    capped: float
    single: float
    where: Tensor | None
    reader: Tensor | None


def find_changing_gradients(case: Case) -> Iterator[Finding]:
    """Yield one finding for a vanishing gradient, and one for an exploding gradient.

    None for nodes that were blamed already: dead and saturated layers.
    """
    ways = _find_ways(case)
    blamed = case.blamed
    nearby: list[dict[Tensor, Any]] | None = None
    for sign in (-1, 1):
        found = []
        for x, g in zip(case.wrt, case.gradients, strict=True):
            way = ways.get(x.serial)
            if way is None or g is None or not is_finite(g):
                continue
            single = sign * way.single >= DECADES and way.where is not None
            gradual = sign * way.capped >= CAPPED
            if sign * way.total < DECADES or not (single or gradual):
                continue
            looped = way.where is not None and way.where.op.repeats
            if not looped and _is_unit_scaling(case, x, g, sign, ways, gradual):
                continue
            if sign < 0:
                nearby = _differentiate_nearby(case) if nearby is None else nearby
                if _is_stationary(g, *[some.get(x) for some in nearby]):
                    continue  # nothing has shrunk: it is 0 at a point beside this one
            found.append((sign * way.total, x))
        hidden = _find_growing_line(case, ways) if sign > 0 and not found else None
        if hidden is not None:
            found.append((hidden[0], hidden[1]))
        if not found:
            continue
        _, worst = max(found, key=lambda pair: pair[0])
        nodes = _list_nodes(worst, ways)
        if any(node.serial in blamed for node in nodes):
            continue
        yield _explain_way(case, worst, nodes, ways, sign, len(found) - 1)


# A gradient that is 0 but for rounding, as that of cos(x) at pi, or of a sum that does
# not depend on the input; or that is almost 0 near to where it is, as that of a loss
# that a solver has made small. Inputs and constants that are a rounding away give
# another gradient of the first kind, and those that are a little more away one of the
# second kind that is far larger; while one that has shrunk on its way stays nearly as
# it is.

#: Of the gradient, what a rounding of the inputs changes if it is nothing else.
NOISE = 0.1
#: The relative change of inputs and constants, and how many times a gradient is larger
#: there that is almost 0 here.
AWAY, GROWTH = 1e-4, 100.0
#: Constants that are a whole number of these are meant as they stand: 2.0, 0.5.
FINEST = 1024


def _differentiate_nearby(case: Case) -> list[dict[Tensor, Any]]:
    """Return the gradients some roundings away, and somewhat more than that."""
    return [_differentiate_moved(case, step) for step in (None, AWAY)]


def _differentiate_moved(case: Case, step: float | None) -> dict[Tensor, Any]:
    """Return the gradients for inputs and constants that are a relative step away.

    By default that is some roundings. Empty where they cannot be computed.
    """
    rng = np.random.default_rng(0)
    inputs_moved = {x.serial for x in case.wrt}

    def move(value: Any, is_input: bool = False) -> Any:
        kind = getattr(value, "dtype", np.dtype(float))
        if types.is_weak(value) and not isinstance(value, float):
            return value
        if not isinstance(kind, np.dtype) or kind.kind != "f":
            return value
        signs = rng.choice([-1.0, 1.0], np.shape(value))
        size = np.abs(value)
        if is_input and step is not None:
            size = np.maximum(size, 1)  # an input near 0 moves too
        with np.errstate(all="ignore"):
            exact = not is_input and np.floor(value * FINEST) == value * FINEST
            far = 4 * np.finfo(kind).eps if step is None else step
            off = value + np.where(exact, 0, signs * size * far)
        if types.is_weak(value):
            return float(off)
        return np.asarray(off).astype(kind)

    made: dict[int, Tensor] = {}
    try:
        for node in case.nodes:
            tick()
            inputs = tuple(
                [made[x.serial] if isinstance(x, Tensor) else move(x)
                 for x in node.inputs]
            )  # fmt: skip
            if is_leaf(node):
                moved = move(node._value, node.serial in inputs_moved)
                new = make_leaf(moved, node.name)
            else:
                args = tuple([value_of(x) for x in inputs])
                value = compute_node(node, args)
                new = walk.copy_node(node, inputs, args, value)
            made[node.serial] = new
        gradients = reverse.pull_back(
            [made[y.serial] for y in case.outputs],
            case.seeds,
            [made[x.serial] for x in case.wrt],
            nulls_pass=True,
        )
    except (ArithmeticError, TypeError, ValueError, WorkbenchError):
        return {}  # as where an op refuses such values
    pairs = zip(case.wrt, gradients, strict=True)
    return {x: value_of(g) for x, g in pairs if g is not None}


def _is_stationary(g: Any, rounded: Any, away: Any) -> bool:
    """Return whether a gradient is 0 beside this point, as those nearby tell."""
    size = measure_norm(g)[0]
    if rounded is not None and measure_norm(value_of(g) - rounded)[0] > NOISE * size:
        return True
    return (
        away is not None and is_finite(away) and (measure_norm(away)[0] > GROWTH * size)
    )


def _find_growing_line(case: Case, ways: dict[int, Way]) -> tuple[float, Tensor] | None:
    """Return a node with a path along which one line lets the gradient grow."""
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
    nodes = _list_nodes(worst, ways)
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


def _is_unit_scaling(
    case: Case, x: Tensor, g: Any, sign: int, ways: dict[int, Way], gradual: bool
) -> bool:
    """Return whether a small or large gradient is only a matter of units.

    Then the result changes in proportion to the input; with a vanished or exploding
    gradient it does not. An input or a result of 0 decides nothing.
    """
    # Entry by entry: each may have a unit of its own.
    moved = measure_norm(value_of(g) * x._value)[0] * math.sqrt(
        max(1, np.size(x._value))
    )
    result = math.hypot(*[measure_norm(y._value)[0] for y in case.outputs])
    if not moved or not result:
        return False
    share = moved / result
    return (share > COUNTS if sign < 0 else share < GROWS) and (
        not gradual or len(_list_nodes(x, ways, LAYER)) < LAYER
    )


def _find_ways(case: Case) -> dict[int, Way]:
    """Return the path to each node, by its serial, in time linear in the edges."""
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
            if factor < -CAPPED and _is_cancelling(step, factor):
                factor = 0.0
            capped = max(-ONE, min(ONE, factor))
            single, where = own.single, own.where
            if abs(factor) > abs(single) and not _is_scaling(step):
                single, where = factor, step.node
            ways[serial] = Way(
                own.total + factor, own.capped + capped, single, where, step.node
            )
    return ways


def _is_scaling(step: SweepStep) -> bool:
    """Return whether the factor of a step is harmless.

    A product with one constant number is a change of units; a square near 0 may be a
    residual that has converged.
    """
    node = step.node
    root = node.op.root
    if node.op.even is not None or (root is not None and not root.infinite):
        return True
    return node.op.traits.symbol in ("*", "/") and any(
        constant_value(x) is not None or x is node.inputs[1 - k]
        for k, x in enumerate(node.inputs)
    )


def _is_cancelling(step: SweepStep, factor: float) -> bool:
    """Return whether the cotangents of a linear node are small since its terms cancel.

    At an optimum residuals are at right angles to the data: the cotangents of a product
    are then far smaller than its other operand.
    """
    traits = step.node.op.traits
    if traits.symbol in ("+", "-"):
        return True
    if not traits.contracts:
        return False
    sizes = [
        measure_norm(a._value if isinstance(a, Tensor) else a)[0]
        / math.sqrt(max(1, np.size(value_of(a))))
        for a in step.node.inputs
    ]
    return bool(sizes) and factor < math.log10(max(min(sizes), 1e-300)) - CAPPED


def _list_nodes(
    x: Tensor, ways: dict[int, Way], most: float = math.inf
) -> list[Tensor]:
    """Return the nodes on the path from the input to the result, at most ``most``."""
    found: list[Tensor] = []
    reader = ways[x.serial].reader
    while reader is not None and len(found) < most:
        found.append(reader)
        way = ways.get(reader.serial)
        reader = None if way is None else way.reader
    return found


def _explain_way(
    case: Case,
    x: Tensor,
    nodes: list[Tensor],
    ways: dict[int, Way],
    sign: int,
    others: int,
) -> Finding:
    steps = case.step_of
    way = ways[x.serial]
    # The factor of each node on the path: the difference to the node before.
    ends = [x, *nodes[:-1]]
    factors = []
    for end, node in zip(ends, nodes, strict=True):
        before = ways.get(node.serial)
        factors.append(
            ways[end.serial].total - (0.0 if before is None else before.total)
        )
    products = [k for k, node in enumerate(nodes) if node.op.traits.contracts]
    if len(nodes) > LAYER * len(products):
        products = []  # the path mostly avoids the layers: they are not the cause
    group, layer = 1, list[Tensor]()
    # The layer where it happens: the product (or, without any, the node) that does
    # most, taken from one product to the next.
    if sign * way.single >= DECADES / 2 and way.where is not None:
        blamed = way.where
    elif len(products) > 2:
        blamed, factor_there = _find_worst_layer(nodes, factors, products, sign)
        # The last layer is read by none, and may be a loss.
        layer = [ends[products[0]], *nodes[products[0] : products[1]]]
        group = 0
    else:
        blamed, group, factor_there = _find_worst_line(nodes, factors, sign)
    word = "explodes" if sign > 0 else "vanishes"
    top = steps[nodes[-1].serial].norm
    count = len(products) if len(products) > 2 else len(nodes)
    what = "matrix products" if len(products) > 2 else "nodes"
    each = _power_of_ten(way.total / max(1, count))
    at = next(k for k, node in enumerate(nodes) if node is blamed)
    step = _power_of_ten(factors[at])
    more = f" So for {others} more of the inputs." if others else ""
    culprit = f"{step:.2g} at {case.name_node(blamed)}"
    if group > 1:
        culprit = f"{factor_there:.2g} by the {group} on that line alone"
    elif not group:
        culprit = f"{factor_there:.2g} in that layer alone"
    fix: Fix | None = None
    if sign > 0:
        rule = "d / maximum(1, norm(d))"
        code = f'wb.override("{blamed.op.name}", "{rule}")'
        fix = Fix("bound the norm of what flows there", code, rule, everywhere=True)
    else:
        scaled = _offer_scaled_weights(case, [blamed, *nodes])
        fix = scaled or _offer_kept_norm(case, blamed, layer)
    where = f" in scope {blamed.scope!r}" if blamed.scope else ""
    return Finding(
        "exploding" if sign > 0 else "vanishing",
        "warning",
        blamed,
        "backward",
        f"the gradient {word} on its way to {case.name_node(x)}, most of all at"
        f" {case.name_node(blamed)}{where}",
        f"From {top:.3g} at the result it comes to {top * _power_of_ten(way.total):.3g}"
        f" over {count} {what}: a factor of {each:.2g} at each, {culprit}.{more}",
        "The factors on the way multiply."
        + (
            " Weights that are too large, or a step repeated too often, make it grow."
            if sign > 0
            else " Small weights or flat nonlinearities make it shrink."
        ),
        fix,
        tuple(reversed(nodes)),
    )  # fmt: skip


def _offer_scaled_weights(case: Case, nodes: list[Tensor]) -> Fix | None:
    """Return a fix that scales the weights of a shrinking product to keep norms."""
    lines: dict[Any, list[Tensor]] = {}
    for node in case.nodes:
        if node.op.traits.contracts:
            lines.setdefault((node.op, sites.instruction_of(node)), []).append(node)
    places = {line: _list_weights(some) for line, some in lines.items()}
    seen: set[Any] = set()
    for node in nodes:
        line = node.op, sites.instruction_of(node)
        for k in places.get(line, ()):
            x, text = node.inputs[k], quote_operand(node, k)
            weights = value_of(x)
            key = line, k, id(weights)
            # A call may give another matrix where it is written a second time.
            if key in seen or text == LEFT_OUT or "(" in text:
                continue
            seen.add(key)
            if case.find_library_call(node) is not None or not is_finite(weights):
                continue
            if 0 < np.linalg.norm(weights, 2) < 1:
                code = spell(node, f"{{{k}}} / np.linalg.norm({{{k}}}, 2)")
                edit = edit_operand(node, k, code)
                # Without a change only the name of an input is certain.
                if edit is not None or getattr(x, "name", None) == text:
                    text = "scale the weights to keep norms, or add skip connections"
                    return Fix(text, code, edit=edit)
    return None


def _list_weights(nodes: list[Tensor]) -> list[int]:
    """Return which operands of a line's products are weights, times what is computed.

    They are a matrix that is an input or a constant, each time that the line runs.
    """
    leaves = [
        k
        for k in range(len(nodes[0].inputs))
        if all(k < len(node.inputs) and _is_matrix(node.inputs[k]) for node in nodes)
    ]
    # Of two such operands either may be data.
    return leaves if len(leaves) < len(nodes[0].inputs) else []


def _is_matrix(x: Any) -> bool:
    """Return whether an operand is an input or a constant, a matrix of floats."""
    value = value_of(x) if is_leaf(x) else None
    return (
        isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "fc"
    )


#: It keeps the direction of a gradient, and the size of the one that arrives.
KEPT_NORM = "d * norm(g) / where(norm(d) == 0, 1, norm(d))"


def _offer_kept_norm(case: Case, blamed: Tensor, layer: list[Tensor]) -> Fix | None:
    """Return a fix with a rule that keeps norms, or else a skip around the layer."""
    if blamed.op.repeats or isinstance(blamed._value, tuple):
        return None
    text = (
        "keep the norm of what flows back there: only its direction is true then, and"
        " gradients may explode where other factors make them grow"
    )
    code = f'wb.override("{blamed.op.name}", "{KEPT_NORM}")'
    skip = _write_skip(case, layer)
    if skip is None:
        return Fix(text, code, KEPT_NORM, everywhere=True)
    text += f"; or let each layer add to what it reads, {skip.code}"
    return Fix(text, code, KEPT_NORM, everywhere=True, edit=skip.edit)


def _write_skip(case: Case, layer: list[Tensor]) -> Fix | None:
    """Return the result of a layer with what it reads added; None where impossible.

    The first of its nodes is what it reads.
    """
    if not layer:
        return None
    start, first, *_ = layer
    unit = next((x for x in reversed(layer[1:]) if x.op.elementwise), None)
    if unit is None or case.is_inner_step(unit) or case.find_library_call(unit):
        return None
    line = quote_line(unit)
    k = next((k for k, x in enumerate(first.inputs) if x is start), None)
    if k is None or types.spec_of(start._value) != types.spec_of(unit._value):
        return None
    read = quote_operand(first, k)
    if not line or read == LEFT_OUT:
        return None
    code = f"{parenthesize(read)} + {line}"
    edit = edit_expression(case, unit, code, [(first, read), (unit, line)])
    return Fix("", code, edit=edit)


def _find_worst_line(
    nodes: list[Tensor], factors: list[float], sign: int
) -> tuple[Tensor, int, float]:
    """Return the node with the largest factor on the line with the largest factor.

    With the number of nodes of that line on the path, and their factor together.
    """
    lines: dict[Any, list[int]] = {}
    for k, node in enumerate(nodes):
        key = k if node.code is None else (node.op.name, node.code, node.lasti)
        lines.setdefault(key, []).append(k)
    worst = max(lines.values(), key=lambda some: sign * sum(factors[k] for k in some))
    blamed = max(worst, key=lambda k: sign * factors[k])
    return nodes[blamed], len(worst), _power_of_ten(sum(factors[k] for k in worst))


def _find_worst_layer(
    nodes: list[Tensor], factors: list[float], products: list[int], sign: int
) -> tuple[Tensor, float]:
    """Return who changes the gradient in the layer that does most, and its factor.

    A layer goes from a product to the next one. In it that op is to blame which does
    most on the whole way.
    """
    layers = list(pairwise([*products, len(nodes)]))
    start, end = max(layers, key=lambda ends: sign * sum(factors[slice(*ends)]))
    totals: dict[Op, float] = {}
    for node, factor in zip(nodes, factors, strict=True):
        totals[node.op] = totals.get(node.op, 0.0) + sign * factor
    blamed = max(nodes[start:end], key=lambda node: totals[node.op])
    return blamed, _power_of_ten(sum(factors[start:end]))


def _power_of_ten(decades: float) -> float:
    return float(10 ** min(decades, 308.0))
