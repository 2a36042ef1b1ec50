"""The error of differences against their step: a V, whose tip is the best step.

With a large step truncation of the series dominates, with a small one rounding. The
error of forward differences falls as ``h`` and rises as ``eps / h``; that of central
ones falls as ``h**2``, of extrapolated ones as ``h**4``;
the complex step subtracts nothing and only falls, as ``h**2`` (J. Martins, P. Sturdza,
J. Alonso, ACM Transactions on Mathematical Software 29, 2003).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.checks.differences import EXACT_STEP, Slope, slope
from workbench.checks.isolated_node import IsolatedNode
from workbench.checks.nodes import describe_node
from workbench.checks.progress import BUDGET, ProgressMeter, describe_unchecked
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops import define

Array = np.ndarray[Any, Any]
Line = Callable[[complex], Array]

#: The ways to a derivative, and the power of the step that each cuts off.
METHODS = {"forward": 1, "central": 2, "extrapolated": 4, "complex step": 2}
#: The relative steps, from large to small.
STEPS = 2.0 ** -np.arange(0, 53, 1.0)


@dataclass(frozen=True, slots=True)
class Steps:
    """Errors of one derivative, by the way it is measured and by the step.

    Attributes
    ----------
    what
        Of what it is the derivative.
    steps
        The steps, relatively to the size of the variable, from large to small.
    errors
        For each way the relative error at each step; NaN where the function has no
        value. ``"complex step"`` is there where the function is analytic.
    chosen
        The step that a check takes, and the way: ``("central", 2.0**-17)``.
    value
        The derivative that the errors are measured from.
    method
        How that was found.
    unchecked
        Which steps the budget has left out, in words; their errors are NaN.
    """

    what: str
    steps: Array
    errors: dict[str, Array] = field(repr=False)
    chosen: tuple[str, float]
    value: float
    method: str
    unchecked: str = ""

    def best(self, way: str) -> tuple[float, float]:
        """Return the step at which a method has the least error, and that error."""
        known = self.errors[way]
        if not np.any(np.isfinite(known)):
            return np.nan, np.nan
        k = int(np.nanargmin(known))
        return float(self.steps[k]), float(known[k])


def sweep_steps(
    line: Line,
    what: str = "the function",
    *,
    analytic: bool = True,
    budget: float | None = BUDGET,
) -> Steps:
    """Measure one derivative with every step.

    Parameters
    ----------
    line
        ``line(t)``, an array of one entry, for steps ``t`` around 0 that are relative
        to the size of the variable; complex ones too if it is analytic.
    what
        The name of the function.
    analytic
        Try complex steps. They count if differences confirm them.
    budget
        The seconds that the steps may take; None: no limit.

    Examples
    --------
    >>> found = sweep_steps(lambda t: np.array([np.exp(1 + t)]))
    >>> round(found.value, 6), found.method, found.chosen[0]
    (2.718282, 'complex step', 'complex step')
    >>> step, error = found.best("central")
    >>> 1e-7 < step < 1e-4, error < 1e-9
    (True, True)
    """
    found: Slope = slope(line, analytic=analytic)
    value = float(np.real(found.value[0]))
    size = abs(value) or 1.0
    center = float(np.real(line(0.0)[0]))

    turns = (1, -1, 1j) if found.method == "complex step" else (1, -1)
    meter = ProgressMeter(None, len(turns) * len(STEPS), budget)
    left = 0

    def at(t: complex) -> complex:
        nonlocal left
        if meter.is_over:
            left += 1
            return complex(np.nan)
        meter.report(meter.done + 1, meter.total)
        try:
            return complex(line(t)[0])
        except Exception:
            return complex(np.nan)

    with meter, np.errstate(all="ignore"):
        rows = np.array([[at(turn * h) for turn in turns] for h in STEPS])
        ahead, behind = rows[:, 0].real, rows[:, 1].real
        central = (ahead - behind) / (2 * STEPS)
        halved = np.append(central[1:], np.nan)
        ways = {
            "forward": (ahead - center) / STEPS,
            "central": central,
            "extrapolated": (4 * halved - central) / 3,
        }
        chosen = "extrapolated"
        if found.method == "complex step":
            ways["complex step"] = rows[:, 2].imag / STEPS
            chosen = "complex step"
        errors = {way: np.abs(x - value) / size for way, x in ways.items()}
    if meter.stopped:
        raise KeyboardInterrupt
    made = Steps(what, STEPS, errors, (chosen, 0.0), value, found.method)
    step = EXACT_STEP if chosen == "complex step" else made.best(chosen)[0]
    if left:
        meter.list_unchecked(f"{left} of {meter.total} steps")
    unchecked = "; ".join(describe_unchecked(meter.unchecked, budget))
    return Steps(what, STEPS, errors, (chosen, step), value, found.method, unchecked)


def sweep_node(node: Tensor, seed: int = 0, budget: float | None = BUDGET) -> Steps:
    """Measure one node with every step: weighted outputs, along a random direction.

    Each entry moves by a part of its own size, so the steps are relative.

    Raises
    ------
    UsageError
        If the node has no value, or no input that varies.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> program = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    >>> sorted(sweep_node(program.nodes[1]).errors)
    ['central', 'complex step', 'extrapolated', 'forward']
    """
    if node._value is None or not node.args or define.is_tuple_tensor(node.inputs[0]):
        raise UsageError(
            f"{describe_node(node)} is not computed from arrays here, so there is no"
            " derivative to measure. Choose a node with inputs and a value."
        )
    isolated = IsolatedNode(node)
    if not isolated.argnums or not len(isolated.outputs):
        raise UsageError(
            f"{describe_node(node)} has no float input and output, so no derivative to"
            " measure. Choose another node."
        )
    rng = np.random.default_rng(seed)
    starts = [np.asarray(isolated.values[i]) for i in isolated.argnums]
    ways = []
    for i, x in zip(isolated.argnums, starts, strict=True):
        way = rng.uniform(0.5, 1, isolated.count_coordinates(i)) * rng.choice(
            [-1, 1], isolated.count_coordinates(i)
        )
        ways.append(isolated.as_direction(way * isolated.step_scales(i), x))
    weights = rng.uniform(0.5, 1, len(isolated.outputs))
    weights = np.where(np.isfinite(isolated.outputs), weights, 0)

    def line(t: complex) -> Array:
        filled = list(isolated.values)
        for i, x, way in zip(isolated.argnums, starts, ways, strict=True):
            filled[i] = x + t * way
        y = isolated.concatenate_outputs(isolated.compute(filled))
        return np.array([np.sum(np.where(weights != 0, weights * y, 0))])

    real = all(x.dtype.kind == "f" for x in starts) and not isolated.single_only
    return sweep_steps(line, describe_node(node), analytic=real, budget=budget)
