"""The second order of one node: its rules differentiated, along one direction.

The truth is the op's ``compute`` again: differences of its complex step where it is
analytic, second differences of its values elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.autodiff.grad import jvp, vjp
from workbench.checks.compared import Entry
from workbench.checks.differences import EXACT_STEP, curvature, slope
from workbench.checks.local import Local
from workbench.core.tensor import Tensor, apply
from workbench.ops import several

if TYPE_CHECKING:
    from workbench.checks.check_rule import Look

__all__ = ["second_order"]

Array = np.ndarray[Any, Any]

#: What the second derivative may be off by: from the complex step, from values.
RTOL = {"complex step": 1e-5, "differences": 2e-3}


def second_order(local: Local, look: Look, rng: np.random.Generator) -> str:
    """Compare both modes over the reverse and the forward rule with values.

    What is wrong is written into ``look.entries``; returns a note where there is no
    second derivative.
    """
    values = [local.values[i] for i in local.spots]
    if any(np.asarray(x).dtype.kind == "c" for x in values) or local.alone:
        return ""
    if local.node.op.pull is None or local.fold or not len(local.outputs):
        return ""
    if local.outputs.dtype.kind == "c" or not np.all(np.isfinite(local.outputs)):
        return ""
    ways = [
        local.shaped(look.random(local.count(i)) * local.reach(i), np.asarray(x))
        for i, x in zip(local.spots, values, strict=True)
    ]
    weights = look.random(len(local.outputs))
    expected, error, method = _truth(local, ways, weights, look)
    if not np.isfinite(expected) or not error <= 0.01 * abs(expected) + 1e-6:
        return ""
    try:
        with np.errstate(all="ignore"):
            found = _asked(local, values, ways, weights)
    except Exception as error_:
        # A rule need not have a derivative of its own, such as a kernel's.
        return f"Its rule has no derivative: {type(error_).__name__}: {error_}"
    # As for the rule itself: what rounding hides while all entries move by their size.
    y = local.outputs
    limit = RTOL[method] * abs(expected) + 10 * error
    limit += 1e4 * 2.3e-16 * float(np.sum(np.abs(weights * y))) + 1e-300
    for mode, got in found.items():
        if abs(got - expected) <= limit or not np.isfinite(expected):
            continue
        names = ", ".join(dict.fromkeys(local.label(i) for i in local.spots))
        sides = expected, expected
        look.entries.append(
            Entry(
                names, (), 2, mode, got, expected, error, limit, *sides, "wrong", method
            )
        )
    return ""


def _truth(
    local: Local, ways: list[Array], weights: Array, look: Look
) -> tuple[float, float, str]:
    """The second derivative of the weighted sum of the outputs, from values alone."""
    values = [np.asarray(local.values[i]) for i in local.spots]

    def at(t: complex) -> Array:
        filled = list(local.values)
        for i, x, way in zip(local.spots, values, ways, strict=True):
            filled[i] = x + t * way
        return local.joined(local.compute(filled))

    def along(t: complex) -> Array:
        try:
            return np.array([np.sum(weights * at(t))])
        except Exception:
            return np.array([np.nan])

    def first(t: complex) -> Array:
        return np.array([np.sum(weights * at(t + 1j * EXACT_STEP).imag)])

    if look.methods == {"complex step"}:
        try:
            found = slope(lambda t: first(t) / EXACT_STEP, analytic=False)
            if not found.kink[0]:
                return float(found.value[0]), float(found.error[0]), "complex step"
        except Exception:
            pass  # inputs that move together may leave the domain: values tell
    value, error = curvature(along)
    return float(np.real(value[0])), float(error[0]), "differences"


def _asked(
    local: Local, values: list[Any], ways: list[Array], weights: Array
) -> dict[str, float]:
    """The same from the rules: forward over reverse, and forward over forward."""
    node = local.node

    def outputs(*moved: Any) -> tuple[Any, ...]:
        filled = list(local.values)
        for i, x in zip(local.spots, moved, strict=True):
            filled[i] = x
        whole = apply(node.op, tuple(filled), node.params)
        if not local.many:
            return (whole,)
        made = several.outputs(whole) if isinstance(whole, Tensor) else whole
        return tuple(made[k] for k in local.chosen)

    cotangents, at = [], 0
    for shape, size in zip(local.shapes, local.sizes, strict=True):
        cotangents.append(np.reshape(weights[at : at + size], shape))
        at += size

    def back(*moved: Any) -> Any:
        return vjp(outputs, *moved)[1](tuple(cotangents))

    def ahead(*moved: Any) -> Any:
        return jvp(outputs, moved, tuple(ways))[1]

    given = tuple(values)
    moved = jvp(back, given, tuple(ways))[1]
    twice = jvp(ahead, given, tuple(ways))[1]
    return {
        "rev": sum(float(np.sum(c * way)) for c, way in zip(moved, ways, strict=True)),
        "fwd": sum(
            float(np.sum(w * np.asarray(t)))
            for w, t in zip(cotangents, twice, strict=True)
        ),
    }
