"""The first entries of a sequence, where only the run knows how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.graph.op import declare
from workbench.graph.tensor import Tensor, apply
from workbench.graph.types import Spec
from workbench.ops.define import linear, shape_of

__all__ = ["pad", "window"]

WINDOW = declare("scan_window")
PAD = declare("scan_pad")


def window(x: Any, n: Any) -> Any:
    """``x[:n]``, where ``n`` may be a Tensor."""
    return apply(WINDOW, (x, n))


def pad(g: Any, x: Any) -> Any:
    """``g`` and zeros after it, as many rows as ``x`` has."""
    return apply(PAD, (g, x))


def _pad(g: Any, x: Any) -> Any:
    made = np.zeros_like(g, shape=(x.shape[0], *g.shape[1:]))
    made[: len(g)] = g
    return made


def _short(x: Any, n: Any) -> Spec:
    shape = shape_of(x)
    known = not isinstance(n, (Spec, Tensor))
    return Spec((min(int(n), shape[0]) if known else shape[0], *shape[1:]), x.dtype)


linear(
    "scan_window",
    lambda x, n: x[: int(n)],
    lambda g, x, n: pad(g, x),
    rule="g, and zeros for the entries left out",
    infer=_short,
)
linear(
    "scan_pad",
    _pad,
    lambda g, x, like: window(g, shape_of(x)[0]),
    rule="the first entries of g",
    infer=lambda g, x: Spec((x.shape[0], *g.shape[1:]), g.dtype),
)
