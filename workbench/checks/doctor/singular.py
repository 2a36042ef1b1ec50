"""Singular points of ops: one row per op and kind of trouble.

A row holds the mask of the entries, the words, and the line that avoids the trouble.
Explanations of a whole node are in `explanation.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: The replacement for an override that is not finite.
MEND = "where(isfinite(d), d, 0)"

#: Rules for an infinite slope; the first that gives true gradients is suggested. They
#: send 0 to its entries, before these are summed with others.
ENTRIES = ["sanitise_entries", MEND]

#: Rules that bound a gradient that overflows its dtype.
BOUNDED = ["clip(d, -1, 1)", "where(isfinite(d), clip(d, -1, 1), 0)"]

#: The named rules that know the singular points of an op.
SAFE = {
    "sqrt": "safe_sqrt",
    **dict.fromkeys(("log", "log2", "log10", "log1p"), "safe_log"),
    **dict.fromkeys(("divide", "reciprocal"), "safe_divide"),
    **dict.fromkeys(("power", "float_power"), "safe_power"),
    "arccos": "safe_arccos",
    "arcsin": "safe_arcsin",
    "arctan2": "safe_atan2",
}


class Row(NamedTuple):
    """One kind of trouble of one op, at the operands' values.

    ``where`` gives the mask of the entries; ``code`` has ``{0}``, ``{1}`` for the
    operands, ``{tiny}`` for a number beside 0 and ``{near}`` for one beside 1 that the
    operand's dtype can hold. It changes entries that are not finite, and those where
    an operand is outside of ``bounds``, which are written in the same way.
    """

    kind: str
    where: Callable[..., Any]
    trouble: str
    cause: str
    text: str
    code: str
    bounds: tuple[str, str] = ("-np.inf", "np.inf")


_LOG = [
    Row("log-of-zero", lambda x: np.equal(x, 0), "takes the logarithm of 0",
        "The logarithm of 0 is minus infinity.", "keep the operand above 0",
        "np.{op}(np.maximum({0}, {tiny}))", ("{tiny}", "np.inf")),
    Row("log-of-negative", lambda x: x < 0, "takes the logarithm of a negative number",
        "A negative number has no real logarithm.", "keep the operand above 0",
        "np.{op}(np.maximum({0}, {tiny}))", ("{tiny}", "np.inf")),
]  # fmt: skip
_BELOW = [
    Row("division-by-zero", lambda *x: np.equal(x[-1], 0), "divides by 0",
        "A number divided by 0 is infinite, and 0 / 0 is NaN.",
        "divide by 1 where the divisor is 0",
        "{0} / np.where({1} == 0, 1, {1})"),
]  # fmt: skip
_WHOLE = [_BELOW[0]._replace(code="np.{op}({0}, np.where({1} == 0, 1, {1}))")]
_UNIT = Row(
    "outside-domain", lambda x: np.abs(x) > 1, "has an operand outside [-1, 1]",
    "It is defined between -1 and 1 only; rounding alone can lead slightly outside.",
    "clip the operand", "np.{op}(np.clip({0}, -1, 1))",
)  # fmt: skip

VALUES: dict[str, list[Row]] = {
    "log": _LOG,
    "log2": _LOG,
    "log10": _LOG,
    "log1p": [
        Row("log-of-zero", lambda x: np.equal(x, -1),
            "takes the logarithm of 1 + (-1) = 0",
            "The logarithm of 0 is minus infinity.", "keep the operand above -1",
            "np.log1p(np.maximum({0}, -1 + {near}))", ("-1 + {near}", "np.inf")),
        Row("log-of-negative", lambda x: x < -1,
            "takes the logarithm of a negative number",
            "A negative number has no real logarithm.", "keep the operand above -1",
            "np.log1p(np.maximum({0}, -1 + {near}))", ("-1 + {near}", "np.inf")),
    ],
    "sqrt": [
        Row("sqrt-of-negative", lambda x: x < 0,
            "takes the square root of a negative number",
            "A negative number has no real square root; a difference that should be 0"
            " can be slightly below.", "keep the operand at 0 or above",
            "np.sqrt(np.maximum({0}, 0))"),
    ],
    "divide": _BELOW,
    "floor_divide": _WHOLE,
    "remainder": _WHOLE,
    "fmod": _WHOLE,
    "reciprocal": [_BELOW[0]._replace(code="1 / np.where({0} == 0, 1, {0})")],
    "power": [
        Row("power-of-negative", lambda x, p: (x < 0) & (p != np.floor(p)),
            "raises a negative number to a fraction",
            "A negative number has no real power with a fraction as exponent.",
            "take the power of the absolute value, and keep the sign",
            "np.sign({0}) * np.abs({0}) ** {1}"),
        Row("division-by-zero", lambda x, p: np.equal(x, 0) & (p < 0),
            "raises 0 to a negative power",
            "0 to a negative power is a division by 0.", "replace a base of 0 by 1",
            "np.where({0} == 0, 1, {0}) ** {1}"),
    ],
    "arccos": [_UNIT],
    "arcsin": [_UNIT],
    "arctanh": [
        Row("outside-domain", lambda x: np.abs(x) >= 1,
            "has an operand at or outside ±1",
            "It is infinite at -1 and 1, and defined between them only.",
            "clip the operand", "np.arctanh(np.clip({0}, -1 + {near}, 1 - {near}))",
            ("-1 + {near}", "1 - {near}")),
    ],
    "arccosh": [
        Row("outside-domain", lambda x: x < 1, "has an operand below 1",
            "It is defined from 1 on.", "clip the operand",
            "np.arccosh(np.maximum({0}, 1))"),
    ],
}  # fmt: skip
VALUES["logit"] = VALUES["ndtri"] = [
    Row("outside-domain", lambda x: (x <= 0) | (x >= 1),
        "has an operand at or outside 0 and 1",
        "It is infinite at 0 and 1, and defined between them only.",
        "clip the operand",
        "workbench.scipy.special.{op}(np.clip({0}, {tiny}, 1 - {near}))",
        ("{tiny}", "1 - {near}")),
]  # fmt: skip
VALUES["erfinv"] = [
    VALUES["arctanh"][0]._replace(
        code="workbench.scipy.special.erfinv(np.clip({0}, -1 + {near}, 1 - {near}))"
    )
]
VALUES["float_power"] = VALUES["power"]

EXPONENTIAL = {"exp", "exp2", "expm1", "sinh", "cosh"}

#: Ops whose result may be larger than a dtype holds, for operands that it holds.
GROWING = EXPONENTIAL | {
    "add", "subtract", "multiply", "divide", "reciprocal", "square", "power",
    "float_power", "matmul", "tensordot", "einsum", "convolve", "convolve_nd", "sum",
    "mean", "prod", "cumsum", "cumprod", "var", "std", "norm", "hypot", "det", "inv",
    "solve", "gamma", "gammaln", "astype", "scan", "fft", "absolute", "cross", "outer",
    "logaddexp", "logsumexp", "mul0", "div0",
}  # fmt: skip

#: Points where a slope is infinite, but the value is finite.
SLOPES: dict[str, list[Row]] = {
    "sqrt": [
        Row("infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
            "The slope of sqrt(x) is 1 / (2 sqrt(x)): infinite at 0.", "", ""),
    ],
    "cbrt": [
        Row("infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
            "The slope of the cube root is infinite at 0.", "", ""),
    ],
    "power": [
        Row("infinite-slope", lambda x, p: np.equal(x, 0) & (p < 1),
            "has an infinite slope at 0",
            "The slope of x**p is p x**(p - 1): infinite at 0 where p < 1.", "", ""),
    ],
    "arccos": [
        Row("infinite-slope", lambda x: np.equal(np.abs(x), 1),
            "has an infinite slope at ±1",
            "The slope is 1 / sqrt(1 - x²): infinite at -1 and 1.", "", ""),
    ],
    "log": [
        Row("infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
            "The slope of log(x) is 1 / x: infinite at 0.", "", ""),
    ],
    "log1p": [
        Row("infinite-slope", lambda x: np.equal(x, -1), "has an infinite slope at -1",
            "The slope of log1p(x) is 1 / (1 + x): infinite at -1.", "", ""),
    ],
    "divide": [
        Row("infinite-slope", lambda x, y: np.equal(y, 0),
            "has an infinite slope where the divisor is 0",
            "The slope of a / b is 1 / b: infinite where b is 0.", "", ""),
    ],
    "reciprocal": [
        Row("infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
            "The slope of 1 / x is -1 / x²: infinite at 0.", "", ""),
    ],
    "arccosh": [
        Row("infinite-slope", lambda x: np.equal(x, 1), "has an infinite slope at 1",
            "The slope is 1 / sqrt(x² - 1): infinite at 1.", "", ""),
    ],
    "arctanh": [
        Row("infinite-slope", lambda x: np.equal(np.abs(x), 1),
            "has an infinite slope at ±1",
            "The slope is 1 / (1 - x²): infinite at -1 and 1.", "", ""),
    ],
    "arctan2": [
        Row("infinite-slope", lambda y, x: np.equal(x, 0) & np.equal(y, 0),
            "has no slope at (0, 0)",
            "The angle of (0, 0) is not defined: its slopes x / (x² + y²) are 0 / 0.",
            "", ""),
    ],
}  # fmt: skip
SLOPES["float_power"] = SLOPES["power"]
SLOPES["arcsin"] = SLOPES["arccos"]
SLOPES["log2"] = SLOPES["log10"] = SLOPES["log"]


#: The distance of a point's neighbours, relative to its size, at least to 1.
NEIGHBOUR_STEP = 1e-4


def find_pole(
    evaluate: Callable[..., Any], args: Sequence[Any], mask: Any, both: bool = False
) -> int | None:
    """Return the operand that has a pole, an isolated point of infinite values.

    Parameters
    ----------
    evaluate
        The function whose values are infinite.
    args
        The operands, finite at the entries of ``mask``, where the values are not.
    both
        Whether values must be finite on both sides.

    Returns
    -------
    None where values are infinite on a side of the point, or all around it, as those
    that overflow are; the number of the operand where they are finite on one side, and
    on the other finite or NaN.

    Examples
    --------
    >>> with np.errstate(all="ignore"):
    ...     x, at = np.array([0.0]), np.array([True])
    ...     find_pole(np.log, [x], at), find_pole(np.exp, [x + 710], at)
    (0, None)
    """
    for k, x in enumerate(args):
        dtype = getattr(x, "dtype", np.dtype(type(x)))
        if dtype.kind not in "fc":
            continue
        step = NEIGHBOUR_STEP * np.maximum(np.abs(x), 1)
        sides = []
        for side in (x + step, x - step):
            moved = [*args[:k], np.asarray(side, dtype), *args[k + 1 :]]
            sides.append(np.broadcast_to(evaluate(*moved), mask.shape)[mask])
        infinite = [np.isinf(y).any() for y in sides]
        enough = np.logical_and if both else np.logical_or
        if not any(infinite) and enough(*map(np.isfinite, sides)).all():
            return k
    return None


def has_both_signs(compute: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Return whether NaN comes from terms that overflow with both signs.

    It does where smaller operands of the same ratios give finite values.

    Examples
    --------
    >>> a = np.full((1, 2), 1e200)
    >>> with np.errstate(over="ignore", invalid="ignore"):
    ...     has_both_signs(np.matmul, [a, a.T * [[1], [-1]]])
    True
    """
    floats = [k for k, x in enumerate(args) if getattr(x, "dtype", None) is not None
              and x.dtype.kind in "fc" and x.size]  # fmt: skip
    if not floats or not all(np.isfinite(args[k]).all() for k in floats):
        return False
    top = max(float(np.abs(args[k]).max()) for k in floats)
    if top < 1e3:
        return False
    smaller = [
        (x / top).astype(x.dtype) if k in floats else x for k, x in enumerate(args)
    ]
    made = compute(*smaller)
    parts = made if isinstance(made, tuple) else (made,)
    return all(bool(np.isfinite(part).all()) for part in parts)
