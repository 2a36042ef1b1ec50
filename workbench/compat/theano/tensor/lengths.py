"""Shapes as Theano gives them: tuples, lists, or vectors of integers.

Here a shape is a tuple of integers and of lengths that are known when the program
runs; an integer variable becomes such a length (`workbench.ops.spans`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops.shaping import integer

__all__ = ["as_length", "as_lengths", "known", "one"]


def as_length(n: Any) -> Any:
    """One length: an integer, or what stands for one until the program runs."""
    return integer(n)


def as_lengths(shape: Any, ndim: int | None = None) -> tuple[Any, ...]:
    """A shape: a tuple, a list, or a vector of integers whose length is known."""
    if isinstance(shape, Tensor) and shape.ndim == 1:
        count = shape.shape[0] if ndim is None else ndim
        if not known(count):
            raise UsageError(
                "a shape that is a vector of unknown length: give ndim=, the number of"
                " axes."
            )
        return tuple(as_length(shape[i]) for i in range(count))
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if not isinstance(shape, (tuple, list)):
        shape = (shape,)
    return tuple(map(as_length, shape))


def known(n: Any) -> bool:
    """Whether a length is a number already."""
    return isinstance(n, (int, np.integer))


def one(n: Any) -> bool:
    """Whether a length is known to be 1."""
    return known(n) and bool(n == 1)
