"""Lengths that are known only when the program runs, as operands and as settings.

``x / n`` with ``n = x.shape[0]`` divides by the op `length`, an integer that is
measured; `sum_to` of such shapes is the op `unbroadcast`, which sees at run time over
which axes to sum. How settings hold lengths stands in `graph/late.py`.
"""

from __future__ import annotations

import operator

import numpy as np

from workbench.graph import late, source
from workbench.graph.dims import Dim
from workbench.graph.op import FUNCTIONS
from workbench.graph.tensor import Tensor
from workbench.graph.types import Spec
from workbench.ops.define import op

__all__: list[str] = []

LENGTH = op(
    "length",
    lambda *, n: operator.index(n),
    infer=lambda *, n: Spec((), np.dtype(int), True),
    lengths=lambda *, n: Spec((), np.dtype(int), True),
    rule="a length has no derivative",
)


def _length(n: Dim) -> Tensor:
    """A length as an operand: an integer, weak as Python's."""
    bound, operands, settings = late.bound(LENGTH, (), {"n": n})
    made = Tensor(
        bound, operands, (None,) * len(operands), settings, None, *source.caller(),
        source.CONTEXT.get(),
    )  # fmt: skip
    made.spec = Spec((), np.dtype(int), True)
    return made


FUNCTIONS["length"] = _length
