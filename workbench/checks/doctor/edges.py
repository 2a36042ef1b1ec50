"""Forms that hold at these values, and just so: notes, before they become errors.

An exponential is near its edge where its operand is beyond half of what its dtype
bears; by one more doubling it overflows. Told only of forms that have a stable
spelling, so that the note says what to write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from workbench.checks.doctor.case import Case
from workbench.checks.doctor.finding import Finding, Fix
from workbench.checks.doctor.forms import form_of
from workbench.checks.doctor.spelling import operand
from workbench.core.tensor import Tensor, value_of

__all__ = ["look"]

NEAR = 0.5


def look(case: Case, known: Collection[Tensor] = ()) -> Iterator[Finding]:
    """A note for each form that is near its edge; none where an error was found."""
    blamed = {node.serial for node in known}
    for node in case.nodes:
        if node.op.name != "exp" or node.serial in blamed:
            continue
        y = node._value
        if not isinstance(y, (np.ndarray, np.generic)) or y.size == 0:
            continue
        dtype = np.asarray(value_of(y)).dtype
        if dtype.kind != "f":
            continue
        limit = float(np.log(np.finfo(dtype).max))
        top = float(np.max(value_of(node.args[0])))
        if not NEAR * limit < top < limit:
            continue
        form = form_of(case, node)
        if form is None:
            continue
        yield Finding(
            "near-overflow",
            "note",
            node,
            "forward",
            f"{case.call(node)} is near its largest value",
            f"{operand(node, 0)} reaches {top:.4g}; from {limit:.4g} on exp overflows"
            f" {dtype}.",
            f"The {form.name} overflows for larger operands; its stable form never"
            " does.",
            Fix(f"the stable form of {form.name}", form.code),
        )
