"""What the functions of this package ask of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.dims import always_differ
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, shape_of


def require_floats(x: ArrayLike, check_finite: bool = False) -> Array:
    """Return an array or Tensor of floats.

    Raises
    ------
    ValueError
        If it must be finite and is not.
    """
    array: Any = admit(x)
    if dtype_of(array).kind not in "fc":
        array = array.astype(float) if hasattr(array, "dtype") else np.float64(array)
    value = value_of(array)
    if check_finite and isinstance(value, np.ndarray) and not np.isfinite(value).all():
        raise ValueError("array must not contain infs or NaNs")
    return array


def require_matrix(
    x: ArrayLike, check_finite: bool = False, *, square: bool = False
) -> Array:
    """Return a stack of matrices of floats."""
    x = require_floats(x, check_finite)
    shape = shape_of(x)
    if len(shape) < 2:
        raise ValueError(f"expected a matrix, with two axes or more; shape {shape}")
    if square and always_differ(shape[-1:], shape[-2:-1]):
        raise ValueError(f"expected a square matrix; shape {shape}")
    return x


def require_right_side(b: ArrayLike, check_finite: bool = False) -> tuple[Array, bool]:
    """Return a right side as a matrix, and a flag that tells vectors."""
    b = require_floats(b, check_finite)
    vector = len(shape_of(b)) == 1
    return (b[:, None] if vector else b), vector


def require_value(x: ArrayLike, what: str) -> Array:
    """Return the value of an argument that decides a shape."""
    value = value_of(x)
    if value is None:
        raise TraceError(
            f"{what}{blame.user_line()}: the shape of the result depends on values,"
            " which this trace does not have. Give the arrays themselves, or select"
            " from the whole result by index."
        )
    return value


def to_number(x: ArrayLike) -> float | None:
    """Return a tolerance: a plain number, through which nothing flows."""
    return None if x is None else float(value_of(x))
