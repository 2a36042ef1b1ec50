"""What the functions of two arrays in `scipy.signal` check, and how they say no."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import admit
from workbench.ops.define import dtype_of, shape_of

__all__ = ["MODES", "checked", "nothing", "pair", "swapped"]

Shape = tuple[int, ...]
MODES = ("full", "valid", "same")


def checked(name: str, value: Any, known: tuple[str, ...], what: str = "mode") -> str:
    """A word that an argument can be; an error lists those that it can."""
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise ValueError(
            f"{name}(..., {what}={value!r}){blame.here()}: {what} is one of {listed}"
        )
    return str(value)


def pair(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The two arrays, which have as many axes as each other."""
    a, b = admit(a), admit(b)
    if len(shape_of(a)) != len(shape_of(b)):
        raise ValueError(
            f"{name}{blame.here()}: in1 and in2 should have the same dimensionality,"
            f" not {len(shape_of(a))} and {len(shape_of(b))} axes; x[None] adds one"
        )
    return a, b


def swapped(name: str, a: Shape, b: Shape, axes: Any = None) -> bool:
    """Whether a valid convolution slides ``a`` over ``b``."""
    axes = range(len(a)) if axes is None else axes
    if all(a[i] >= b[i] for i in axes):
        return False
    if all(b[i] >= a[i] for i in axes):
        return True
    raise ValueError(
        f"{name}(..., mode='valid'){blame.here()}: one of the shapes {a} and {b} must"
        " be at least as large as the other in every dimension"
    )


def nothing(name: str, a: Any, b: Any, mode: str) -> Any:
    """The sums over no product, where an array has no entry, in SciPy's shapes."""
    n, m = shape_of(a), shape_of(b)
    shape = n
    if mode == "full":
        shape = tuple(i + j - 1 for i, j in zip(n, m, strict=True))
    elif mode == "valid":
        shape = tuple(i - j + 1 for i, j in zip(n, m, strict=True))
    if any(i < 0 for i in shape) or len(n) == 1:
        raise ValueError(
            f"{name}{blame.here()}: in1 of shape {n} and in2 of shape {m}; neither can"
            " be empty"
        )
    return np.zeros_like(a, shape=shape, dtype=np.result_type(dtype_of(a), dtype_of(b)))
