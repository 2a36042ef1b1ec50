"""The steps that no CUDA graph contains, with alternatives in words.

A program's graph ends at such a step, and another one may begin after it: CuPy's
functions take memory of their own and look at numbers, which a graph cannot.
"""

from __future__ import annotations

import numpy as np

from workbench.core.blame import quote_site
from workbench.core.tensor import Tensor
from workbench.core.types import Spec, spec_of
from workbench.ops.device import ON_HOST

#: What is a kernel, or saves a call, instead of ops that CuPy computes, by their kind.
INSTEAD: dict[str, str] = {
    "order": "np.max, np.argmax and their like are kernels",
    "matrix": "of a matrix that stays the same, compute it once and hand it in",
    "loop": "what is no kernel in its step may stand before or after the loop",
}
#: Instead of other ops.
OTHERWISE = (
    "a composition of NumPy's functions, or a wb.KernelOp with cuda, is captured"
)
#: Instead of ops on float16 that are kernels of wider floats.
WIDER = "of x.astype(np.float32) it may be a kernel"


def explain_call(node: Tensor) -> str:
    """Return the op that CuPy computes, the reason, and an alternative."""
    name = node.op.name
    where = quote_site(node.site)
    if name in ON_HOST:
        return f"{name}{where}, which the CPU computes: CuPy has no {ON_HOST[name]}"
    return f"{name}{where}, which CuPy computes: {advise(node)}"


def advise(node: Tensor) -> str:
    """Return an alternative to an op that CuPy computes."""
    known = INSTEAD.get("loop" if node.op.repeats else node.op.kind)
    if known is not None:
        return known
    specs = [spec_of(x) for x in node.inputs]
    halves = any(isinstance(s, Spec) and s.dtype == np.float16 for s in specs)
    return WIDER if halves else OTHERWISE
