"""Ops that hand their operand on and change what flows back through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec, spec_of
from workbench.ops.define import aligned, elementwise, op

__all__ = ["CLIP", "SCALE", "ZERO"]


def _first(x: Any, *settings: Any) -> Any:
    return x


def _as_first(x: Any, *settings: Any) -> Spec:
    found: Spec = spec_of(x)
    return found


def _only_first(inputs: tuple[Any, ...], params: dict[str, Any]) -> list[list[bool]]:
    return [[i == 0] for i in range(len(inputs))]


# zero_grad: connected, with gradient zero

ZERO = elementwise("zero_grad", lambda x: x, "0")

# grad_clip: the gradient entry by entry between two bounds. Clipping is not linear, so
# it has no transpose: forward mode is that of the value, which the op does not change.

CLIP = op(
    "grad_clip",
    _first,
    lambda g, y, x, low, high: np.clip(g, low, high),
    None,
    None,
    push=lambda tangents, y, x, low, high: tangents[0],
    infer=_as_first,
    reads=(1, 2),
    rule="clip(g, x₁, x₂)",
)
CLIP.connection = _only_first

# grad_scale: linear in g, so forward mode is scaled too

SCALE = op(
    "grad_scale",
    _first,
    lambda g, y, x, multiplier: g * multiplier,
    None,
    push=lambda tangents, y, x, multiplier: (
        None if tangents[0] is None else tangents[0] * multiplier
    ),
    infer=_as_first,
    reads=(1,),
    rule="g · x₁",
)
SCALE.connection = _only_first


def _batch(name: str) -> Any:
    def batch(
        inputs: tuple[Any, ...], batched: tuple[bool, ...], params: dict[str, Any]
    ) -> Any:
        if not batched[0]:
            # The value is that of the first operand alone, so the batch must be its.
            size = next(x.shape[0] for x, b in zip(inputs, batched, strict=True) if b)
            x = inputs[0]
            inputs = (np.broadcast_to(x, (size, *np.shape(x))), *inputs[1:])
            batched = (True, *batched[1:])
        return apply(declare(name), aligned(inputs, batched), params)

    return batch


CLIP.batch = _batch("grad_clip")
SCALE.batch = _batch("grad_scale")
