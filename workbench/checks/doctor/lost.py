"""What is said of lost digits: what cancels, what float32 cannot hold, what mends it.

Where they are lost is found in `digits.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.equivalence import is_finite_in_float64
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.spelling import closed, operand
from workbench.graph.tensor import Tensor

__all__ = ["Jump", "finding"]

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
