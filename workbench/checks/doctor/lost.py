"""What is said of lost digits: what cancels, what float32 cannot hold, what mends it.

Where they are lost is found in `digits.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case, first
from workbench.checks.doctor.equivalence import is_finite_in_float64
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.matching import inner
from workbench.checks.doctor.spelling import LEFT_OUT, closed, operand
from workbench.checks.doctor.wider import WIDER, WIDEST, again
from workbench.core import walk
from workbench.core.tensor import Tensor, value_of

__all__ = ["Cancelled", "Jump", "cancelled", "finding"]

WRONG = 0.1
SUMS = {"sum", "mean", "matmul", "einsum", "tensordot", "var", "cumsum"}


class Jump(NamedTuple):
    """By how much one node made an error worse, and how large it was then."""

    node: Tensor
    times: float
    error: float
    told: str = ""


def finding(case: Case, jump: Jump, dtype: str, what: str) -> Finding:
    """The finding about the node that lost the digits of a result or gradient.

    ``dtype`` is what the program ran in, ``what`` is what the wider run contradicts.
    """
    node, name = jump.node, case.call(jump.node)
    form = form_of(case, node)
    fix: Fix | None = None
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
    elif dtype == "float32" and is_finite_in_float64(node):
        fix = Fix(
            "compute this part in float64",
            f"{closed(operand(node, 0))}.astype(np.float64)",
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


#: A result of so few roundings of its terms is nothing but rounding.
ROUNDINGS = 8


class Cancelled(NamedTuple):
    """A sum whose digits have cancelled, all of them."""

    node: Tensor
    evidence: str
    fix: Fix | None


#: What is said of it.
CAUSE = (
    "The leading digits of nearly equal numbers cancel, and what is left is their"
    " rounding."
)


def cancelled(case: Case, node: Tensor, k: int, mask: Any) -> Cancelled | None:
    """Whether what an op cannot take is the rounding of terms that have cancelled.

    Parameters
    ----------
    node, k
        The op, and which of its operands is 0 or less.
    mask
        At which of its entries.

    Returns
    -------
    None where the same program in a wider dtype gives the same: the operand is what it
    is.
    """
    x = inner(node.inputs[k])
    if not isinstance(x, Tensor) or isinstance(x._value, tuple):
        return None
    y, terms = np.asarray(value_of(x._value)), _terms(x)
    if terms is None or y.dtype.kind not in "fc":
        return None
    if x is node.inputs[k] and mask.shape != y.shape:
        return None
    asked = mask if x is node.inputs[k] else np.ones(y.shape, bool)
    unit = float(np.finfo(y.dtype).eps)
    asked = asked & (np.abs(y) <= ROUNDINGS * unit * terms) & (terms > 0)
    table = WIDER if y.dtype in WIDER else WIDEST
    wide_unit = float(np.finfo(table[y.dtype]).eps) if y.dtype in table else unit
    if not asked.any() or wide_unit >= unit:
        return None
    true = again(case, table, walk.order([x]), told=False)[x.serial]._value
    off = np.abs(true - y) > np.maximum(np.abs(true), np.abs(y)) / 2
    asked = asked & off & (np.abs(true) > ROUNDINGS * wide_unit * terms)
    if not asked.any():
        return None
    at = first(asked)
    text = operand(node, k)
    text = "Its value" if text == LEFT_OUT else text
    return Cancelled(
        x,
        f"{text} is {y[at]:.6g}, and in higher precision {true[at]:.6g}; its terms are"
        f" of size {float(terms[at]):.3g}, and their rounding of"
        f" {unit * float(terms[at]):.2g}.",
        _mend(case, node, x),
    )


def _mend(case: Case, node: Tensor, x: Tensor) -> Fix | None:
    form = form_of(case, node) or form_of(case, x)
    if form is not None:
        return Fix(f"the stable form of {form.name}", form.code)
    if np.dtype(x.dtype) in WIDER:
        text = closed(operand(x, 0))
        return Fix("compute this part in float64", f"{text}.astype(np.float64)")
    return None


def _terms(x: Tensor) -> Any:
    """The sizes of what a sum is made of, added; None for another op, or of data."""
    if x.op.name not in ("add", "subtract", *SUMS - {"var"}):
        return None
    # What is given has not been rounded: a difference of data is exact.
    if all(is_given(a) for a in x.inputs):
        return None
    sizes = [np.abs(np.asarray(value_of(a))) for a in x.inputs]
    if x.op.name == "subtract":
        return sizes[0] + sizes[1]
    try:
        return np.abs(x.op.compute(*sizes, **x.params))
    except (TypeError, ValueError):
        return None


def is_given(x: Any) -> bool:
    """Whether an operand is an input or a constant, perhaps only reshaped."""
    x = inner(x)
    return not isinstance(x, Tensor) or not x.inputs
