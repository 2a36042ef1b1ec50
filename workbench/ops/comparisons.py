"""Comparisons and tests that NumPy writes with others: none has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit
from workbench.ops.define import dtype_of, no_out, shape_of

__all__: list[str] = []


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """`numpy.isclose`."""
    a, b = admit(a), admit(b)
    finite = np.isfinite(a) & np.isfinite(b)
    near = np.abs(a - b) <= admit(atol) + admit(rtol) * np.abs(b)
    y = np.where(finite, near, np.equal(a, b))
    return y | (np.isnan(a) & np.isnan(b)) if equal_nan else y


@implements(np.allclose)
def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """`numpy.allclose`."""
    return np.all(np.isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`numpy.array_equal`."""
    a1, a2 = admit(a1), admit(a2)
    if shape_of(a1) != shape_of(a2):
        return False
    same = np.equal(a1, a2)
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """`numpy.array_equiv`: equal once one is broadcast to the other."""
    a1, a2 = admit(a1), admit(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:  # shapes that do not fit are not equivalent
        return False
    return np.all(np.equal(a1, a2))


def _signed(name: str, x: Any, out: Any, sign: float) -> Any:
    no_out(f"np.{name}", out)
    if dtype_of(x).kind == "c":
        raise TypeError(
            f"This operation is not supported for {dtype_of(x)} values because it would"
            " be ambiguous."
        )
    return np.equal(x, sign * np.inf)


@implements(np.isposinf)
def isposinf(x: Any, out: None = None) -> Any:
    """`numpy.isposinf`."""
    return _signed("isposinf", x, out, 1)


@implements(np.isneginf)
def isneginf(x: Any, out: None = None) -> Any:
    """`numpy.isneginf`."""
    return _signed("isneginf", x, out, -1)
