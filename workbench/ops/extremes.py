"""The largest and the smallest entry: `max`, `min`, `ptp`.

Ties share the gradient evenly. Where the extremes stand (`argmax`) says
`sorting.py`; of two arrays, entry by entry, the larger one, `arithmetic.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import Op, implements
from workbench.core.tensor import apply
from workbench.ops.define import no_out, shape_of
from workbench.ops.reductions import (
    lengths_of,
    reduced_axes,
    reduction,
    settings,
    wide_dtype,
)

__all__: list[str] = []


def _extremum(name: str, function: Callable[..., Any]) -> Op:
    def compute(
        x: Any, *, axis: Any = None, keepdims: bool = False, initial: Any = None
    ) -> Any:
        if initial is None:
            return function(x, axis=axis, keepdims=keepdims)
        if not isinstance(x, np.ndarray | np.generic):
            # CuPy's have no initial=; of nothing the sum is 0.
            if 0 in shape_of(x):
                nothing = np.sum(x, axis=axis, keepdims=keepdims)
                return np.full_like(nothing, initial)
            found = function(x, axis=axis, keepdims=keepdims)
            return (np.maximum if name == "max" else np.minimum)(found, initial)
        return function(x, axis=axis, keepdims=keepdims, initial=initial)

    def weight(
        y: Any, x: Any, *, axis: Any = None, initial: Any = None, **_: Any
    ) -> Any:
        hit = np.equal(x, y)
        axes = reduced_axes(axis, len(shape_of(x)))
        ties = np.sum(hit, axis=axes, keepdims=True, dtype=wide_dtype(x))
        return hit / (ties if initial is None else ties + np.equal(y, initial))

    made = reduction(
        name, compute, weight, rule=f"g to the {name}imum, shared evenly at a tie"
    )
    made.lengths = lengths_of(compute)
    return made


_extrema = {"max": _extremum("max", np.max), "min": _extremum("min", np.min)}


def _select(
    name: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    no_out(f"np.{name}", out)
    if where is not True:
        if initial is None:
            raise ValueError(
                f"np.{name}(where=...) needs initial=, the result where nothing is"
                " chosen: -np.inf for max, np.inf for min"
            )
        a = np.where(where, a, initial)
    if initial is not None and not isinstance(initial, (int, float)):
        limit = np.maximum if name == "max" else np.minimum
        return limit(_select(name, a, axis, None, keepdims, None, True), initial)
    params = settings(axis, keepdims, a)
    if initial is not None:
        params["initial"] = initial
    return apply(_extrema[name], (a,), params)


@implements(np.max, np.amax)
def max_(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.max`; entries that tie share the gradient evenly."""
    return _select("max", a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
def min_(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """`numpy.min`; entries that tie share the gradient evenly."""
    return _select("min", a, axis, out, keepdims, initial, where)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """`numpy.ptp`: the largest less the smallest."""
    no_out("np.ptp", out)
    largest = np.max(a, axis=axis, keepdims=keepdims)
    return largest - np.min(a, axis=axis, keepdims=keepdims)
