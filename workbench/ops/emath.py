"""`numpy.emath`: functions that turn complex where a real result does not exist.

Whether they do depends on the values, of all entries together, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import implements
from workbench.core.tensor import admit
from workbench.core.types import Array, ArrayLike, is_weak
from workbench.ops.define import dtype_of


def _is_negative(x: Array) -> Array:
    return x < 0


def _is_beyond_one(x: Array) -> Array:
    return np.abs(x) > 1


def _widen_to_complex(x: ArrayLike, outside: Callable[[Any], Any]) -> Any:
    """Return ``x``; as complex numbers if an entry is outside the real domain."""
    x = admit(x)
    if dtype_of(x).kind == "c" or not bool(np.any(outside(x))):
        return x
    return x * np.result_type(dtype_of(x), np.complex64).type(1)


def _define(
    function: Callable[..., Any], plain: Any, outside: Callable[[Any], Any]
) -> None:
    @implements(function)
    def answer(x: Array) -> Array:
        return plain(_widen_to_complex(x, outside))


for _name in ("sqrt", "log", "log2", "log10"):
    _define(getattr(np.emath, _name), getattr(np, _name), _is_negative)
for _name in ("arccos", "arcsin", "arctanh"):
    _define(getattr(np.emath, _name), getattr(np, _name), _is_beyond_one)


@implements(np.emath.logn)
def logn(n: ArrayLike, x: Array) -> Array:
    """Return the logarithm to base ``n``, complex where the real one does not exist."""
    return np.log(_widen_to_complex(x, _is_negative)) / np.log(
        _widen_to_complex(n, _is_negative)
    )


@implements(np.emath.power)
def power(x: Array, p: Array) -> Array:
    """Return powers, complex where they must be; negative integers act as floats."""
    # A Python number decides the dtype here, as it does in NumPy's own.
    p = np.result_type(type(p)).type(p) if is_weak(p) else admit(p)
    if dtype_of(p).kind in "iu" and bool(np.any(p < 0)):
        p = p * 1.0
    return np.power(_widen_to_complex(x, _is_negative), p)
