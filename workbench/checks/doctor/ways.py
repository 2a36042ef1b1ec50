"""Vanishing and exploding gradients: the way from the result back to an input.

Along each way the factor of every node is what it passes on over what arrived, in L2
norms; where several readers pass something on, the largest counts. Thresholds, with
reasons: a gradient 1e8 times smaller than at the result is below the rounding of a
float32 next to it, and half of the digits of a float64 below; 1e8 times larger, it
leaves no step size that suits both ends. No single node counts for more than a factor
of 100 there, so that a change of units is no alarm, and six decades must remain; but
one node that is no scaling by a constant may make 1e8 alone, unless that is but the
units of the input: the result follows it in proportion. In proportion is whatever moves
the result by no more than 100 times the relative change of the input, which no power
law of physics and no exponential that a program is at home with exceeds; beyond, a
step that is small beside the input is none for the result.

An input may hide what explodes before it: tiny activations times a gradient of 1e23
are an ordinary gradient, until the activations are not tiny. So a gradient that one
line makes grow, time after time, is told though no input shows it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, Step, finite, is_leaf, size
from workbench.checks.doctor.equivalence import offer
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.matching import number
from workbench.checks.doctor.spelling import LEFT_OUT, operand
from workbench.checks.doctor.units import PRODUCTS
from workbench.core.tensor import Tensor, value_of

__all__ = ["look"]

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


def look(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
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
        hidden = _hidden(case, ways) if sign > 0 and not found else None
        if hidden is not None:
            found.append((hidden[0], hidden[1]))
        if not found:
            continue
        _, worst = max(found, key=lambda pair: pair[0])
        nodes = _nodes(worst, ways)
        if any(node.serial in blamed for node in nodes):
            continue
        yield _told(case, worst, nodes, ways, sign, len(found) - 1)


def _hidden(case: Case, ways: dict[int, Way]) -> tuple[float, Tensor] | None:
    """A node on whose way one line makes the gradient grow, step by step."""
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
    """Whether a factor is no fault of one node.

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
    """Whether what a linear node passes on is so small since its terms cancel.

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
    """The nodes on the way, from the input to the result; at most so many."""
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
        fix = _scaled(case, [blamed, *nodes])
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


def _scaled(case: Case, nodes: list[Tensor]) -> Fix | None:
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
