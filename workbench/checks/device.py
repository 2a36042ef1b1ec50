"""Functions of arrays elsewhere, checked from main memory: there and back are ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import tree
from workbench.core.op import Op
from workbench.core.tensor import apply, value_of
from workbench.core.types import weak
from workbench.ops.define import linear

__all__ = ["from_host", "is_elsewhere", "to_host"]


def is_elsewhere(x: Any) -> bool:
    """Return whether a value is an array of another library, such as CuPy's."""
    x = value_of(x)
    return not (
        x is None or weak(x) or isinstance(x, np.ndarray | np.generic)
    ) and hasattr(x, "__cuda_array_interface__")


def to_host(x: Any) -> Any:
    """Return an array in main memory; what is there as it is."""
    return x.get() if is_elsewhere(x) else x


# The second input says where to; nothing of its values is read.
TO_HOST: Op = linear(
    "to_host", to_host, lambda g, x: apply(TO_DEVICE, (g, x)), rule="g"
)
TO_DEVICE: Op = linear(
    "to_device",
    lambda x, like: np.asarray(x, like=like) if is_elsewhere(like) else x,
    lambda g, x, like: apply(TO_HOST, (g,)),
    rule="g",
)
TO_HOST.batch = lambda inputs, batched, params: apply(TO_HOST, inputs, params)
TO_DEVICE.batch = lambda inputs, batched, params: apply(TO_DEVICE, inputs, params)


def from_host(
    f: Callable[..., Any], values: Sequence[Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that runs where some values are, of values in main memory.

    It is ``f`` itself where all of them are there already.
    """
    if not any(map(is_elsewhere, values)):
        return f, list(values)

    def run(*given: Any) -> Any:
        there = [
            apply(TO_DEVICE, (x, like)) if is_elsewhere(like) else x
            for x, like in zip(given, values, strict=True)
        ]
        outputs, structure = tree.flatten(f(*there))
        return structure(
            [apply(TO_HOST, (y,)) if is_elsewhere(y) else y for y in outputs]
        )

    return run, [to_host(x) for x in values]
