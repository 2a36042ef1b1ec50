"""`autograd.misc.flatten`: a nest of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import tree

__all__ = ["flatten", "flatten_func"]


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the entries of a nest as one vector, and the map of vectors to nests.

    Examples
    --------
    >>> from workbench.compat.autograd.misc import flatten
    >>> vector, unflatten = flatten({"a": [1.0, 2.0], "b": 3.0})
    >>> vector, unflatten(2 * vector)["a"][1]
    (array([1., 2., 3.]), np.float64(4.0))
    """
    leaves, structure = tree.flatten(value)
    shapes = [np.shape(x) for x in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()
    starts = [0, *ends[:-1]]

    def unflatten(vector: Any) -> Any:
        parts = [
            np.reshape(vector[i:j], shape) if shape else vector[i]
            for i, j, shape in zip(starts, ends, shapes, strict=True)
        ]
        return structure(parts)

    flat = [np.ravel(x) for x in leaves]
    made = np.concatenate(flat) if flat else np.zeros(0)
    return (made if made.dtype.kind in "fc" else made.astype(float)), unflatten


def flatten_func(
    func: Callable[..., Any], example: Any
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Return a function of vectors, of one of nests; the map back, and the vector."""
    vector, unflatten = flatten(example)

    def flat_func(flat_arg: Any, *args: Any, **kwargs: Any) -> Any:
        return flatten(func(unflatten(flat_arg), *args, **kwargs))[0]

    return flat_func, unflatten, vector
