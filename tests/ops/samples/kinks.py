"""Kinks: where there is no derivative, and which one is the fixed choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.ops.reductions import logsumexp
from workbench.ops.updates import at

Kink = tuple[str, Callable[[Any], Any], list[float], list[float]]
#: The derivative of sin(pi x) / (pi x) at 0.001, by its series.
_Z = np.pi * 0.001
_SLOPE = np.pi * (-_Z / 3 + _Z**3 / 30 - _Z**5 / 840)
KINKS: list[Kink] = [
    ("absolute at 0", lambda x: np.sum(np.abs(x)), [0.0, -2.0], [0.0, -1.0]),
    ("fabs at 0", lambda x: np.sum(np.fabs(x)), [0.0], [0.0]),
    ("sign at 0", lambda x: np.sum(np.sign(x)), [0.0], [0.0]),
    ("maximum at a tie", lambda x: np.maximum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5]),
    ("minimum at a tie", lambda x: np.minimum(x[0], x[1]), [1.0, 1.0], [0.5, 0.5]),
    (
        "relu at 0",
        lambda x: np.sum(np.maximum(x, 0)),
        [0.0, 1.0, -1.0],
        [0.5, 1.0, 0.0],
    ),
    ("max of ties", np.max, [2.0, 1.0, 2.0, 2.0], [1 / 3, 0.0, 1 / 3, 1 / 3]),
    ("min of ties", np.min, [2.0, 1.0, 1.0], [0.0, 0.5, 0.5]),
    ("max with initial", lambda x: np.max(x, initial=2.0), [2.0, 1.0], [0.5, 0.0]),
    ("max below initial", lambda x: np.max(x, initial=9.0), [2.0, 2.0], [0.0, 0.0]),
    (
        "clip on a bound",
        lambda x: np.sum(np.clip(x, 0, 1)),
        [0.0, 1.0, 2.0],
        [0.5, 0.5, 0],
    ),
    ("norm at 0", np.linalg.norm, [0.0, 0.0], [0.0, 0.0]),
    (
        "half-norm with a 0",
        lambda x: np.linalg.norm(x, 0.5),
        [0.0, 1.0, -1.0],
        [0.0, 2.0, -2.0],
    ),
    ("3-norm at 0", lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0.0, 0.0]),
    ("std of equals", np.std, [2.0, 2.0], [0.0, 0.0]),
    ("logsumexp of -inf", logsumexp, [-np.inf, -np.inf], [0.0, 0.0]),
    ("logsumexp with -inf", logsumexp, [-np.inf, 0.0], [0.0, 1.0]),
    (
        "logsumexp with a factor 0",
        lambda b: logsumexp(np.log([3, 6]), b=b),
        [1.0, 0.0],
        [1.0, 2.0],
    ),
    ("at max of ties", lambda x: at(x)[[0, 0]].max(x[0])[0], [1.0, 0.0], [1.0, 0.0]),
    ("logaddexp of -inf", lambda x: np.logaddexp(x[0], x[1]), [-np.inf] * 2, [0.0] * 2),
    ("hypot at 0", lambda x: np.hypot(x[0], x[1]), [0.0, 0.0], [0.0, 0.0]),
    ("sinc at 0", lambda x: np.sum(np.sinc(x)), [0.0, 0.001], [0.0, _SLOPE]),
    ("power 0 at 0", lambda x: np.sum(x**0), [0.0], [0.0]),
    ("power 1 at 0", lambda x: np.sum(x**1), [0.0], [1.0]),
    ("square at 0", lambda x: np.sum(x**2), [0.0], [0.0]),
    (
        "det of a singular matrix",
        lambda x: np.linalg.det(x.reshape(2, 2)),
        [1.0, 2.0, 2.0, 4.0],
        [4.0, -2.0, -2.0, 1.0],
    ),
    ("det of zeros", lambda x: np.linalg.det(x.reshape(2, 2)), [0.0] * 4, [0.0] * 4),
    ("fmax beside NaN", lambda x: np.fmax(x[0], np.nan), [1.0], [1.0]),
    ("fmin beside NaN", lambda x: np.fmin(np.nan, x[0]), [1.0], [1.0]),
    ("nanmax of ties", np.nanmax, [2.0, np.nan, 2.0], [0.5, 0.0, 0.5]),
    ("nanmax of -inf", np.nanmax, [-np.inf, np.nan, -np.inf], [0.5, 0.0, 0.5]),
    ("nanmin of inf", np.nanmin, [np.nan, np.nan, np.inf], [0.0, 0.0, 1.0]),
    ("nanmax of nothing", np.nanmax, [np.nan, np.nan], [0.0, 0.0]),
    ("nanstd of equals", np.nanstd, [2.0, np.nan, 2.0], [0.0, 0.0, 0.0]),
    (
        "std of equals about their mean",
        lambda x: np.std(x, mean=np.mean(x)),
        [2.0, 2.0],
        [0.0, 0.0],
    ),
    ("median with NaN", lambda x: np.nanmedian(x), [np.nan, 3.0, 1.0], [0.0, 0.5, 0.5]),
    (
        "interp at a knot has the slope to the right",
        lambda x: np.sum(np.interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 3.0])),
        [0.0, 1.0, 4.0],
        [2.0, 0.5, 0.0],
    ),
    ("prod of two zeros", lambda x: np.prod(x[1:]), [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    (
        "cumprod of zeros",
        lambda x: np.sum(np.cumprod(x)),
        [2.0, 0.0, 3.0, 0.0],
        [1.0, 8.0, 0.0, 0.0],
    ),
    ("i0 at 0", lambda x: np.i0(x[0]), [0.0], [0.0]),
    ("unwrap at half a turn", lambda x: np.sum(np.unwrap(x)), [0.0, np.pi], [1.0, 1.0]),
]
