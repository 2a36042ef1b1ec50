"""Singular points of functions: where a value, or a slope, is not finite, and why.

The rows of ops name these (`Traits.undefined`, `Traits.steep`). A `SingularPoint` holds
the mask of the entries, the words, and the line that avoids the trouble.
"""

from __future__ import annotations

import numpy as np

from workbench.core.traits import SingularPoint

# Where a value is not finite though the operands are

LOGARITHM = (
    SingularPoint(
        "log-of-zero", lambda x: np.equal(x, 0), "takes the logarithm of 0",
        "The logarithm of 0 is minus infinity.", "keep the operand above 0",
        "np.{op}(np.maximum({0}, {tiny}))", ("{tiny}", "np.inf")),
    SingularPoint(
        "log-of-negative", lambda x: x < 0, "takes the logarithm of a negative number",
        "A negative number has no real logarithm.", "keep the operand above 0",
        "np.{op}(np.maximum({0}, {tiny}))", ("{tiny}", "np.inf")),
)  # fmt: skip
LOGARITHM_OF_NEXT = (
    SingularPoint(
        "log-of-zero", lambda x: np.equal(x, -1), "takes the logarithm of 1 + (-1) = 0",
        "The logarithm of 0 is minus infinity.", "keep the operand above -1",
        "np.{op}(np.maximum({0}, -1 + {near}))", ("-1 + {near}", "np.inf")),
    SingularPoint(
        "log-of-negative", lambda x: x < -1, "takes the logarithm of a negative number",
        "A negative number has no real logarithm.", "keep the operand above -1",
        "np.{op}(np.maximum({0}, -1 + {near}))", ("-1 + {near}", "np.inf")),
)  # fmt: skip
ROOT = (
    SingularPoint(
        "sqrt-of-negative", lambda x: x < 0,
        "takes the square root of a negative number",
        "A negative number has no real square root; a difference that should be 0"
        " can be slightly below.", "keep the operand at 0 or above",
        "np.{op}(np.maximum({0}, 0))"),
)  # fmt: skip
QUOTIENT = (
    SingularPoint(
        "division-by-zero", lambda *x: np.equal(x[-1], 0), "divides by 0",
        "A number divided by 0 is infinite, and 0 / 0 is NaN.",
        "divide by 1 where the divisor is 0",
        "{0} / np.where({1} == 0, 1, {1})", blamed=-1),
)  # fmt: skip
WHOLE_QUOTIENT = (
    QUOTIENT[0]._replace(code="np.{op}({0}, np.where({1} == 0, 1, {1}))"),
)
RECIPROCAL = (QUOTIENT[0]._replace(code="1 / np.where({0} == 0, 1, {0})"),)
POWER = (
    SingularPoint(
        "power-of-negative", lambda x, p: (x < 0) & (p != np.floor(p)),
        "raises a negative number to a fraction",
        "A negative number has no real power with a fraction as exponent.",
        "take the power of the absolute value, and keep the sign",
        "np.sign({0}) * np.abs({0}) ** {1}"),
    SingularPoint(
        "division-by-zero", lambda x, p: np.equal(x, 0) & (p < 0),
        "raises 0 to a negative power",
        "0 to a negative power is a division by 0.", "replace a base of 0 by 1",
        "np.where({0} == 0, 1, {0}) ** {1}"),
)  # fmt: skip
COSINE = (
    SingularPoint(
        "outside-domain", lambda x: np.abs(x) > 1, "has an operand outside [-1, 1]",
        "It is defined between -1 and 1 only; rounding alone can lead slightly"
        " outside.",
        "clip the operand", "np.{op}(np.clip({0}, -1, 1))"),
)  # fmt: skip
BETWEEN_ONES = (
    SingularPoint(
        "outside-domain", lambda x: np.abs(x) >= 1, "has an operand at or outside ±1",
        "It is infinite at -1 and 1, and defined between them only.",
        "clip the operand", "np.{op}(np.clip({0}, -1 + {near}, 1 - {near}))",
        ("-1 + {near}", "1 - {near}")),
)  # fmt: skip
INVERSE_ERROR = (
    BETWEEN_ONES[0]._replace(
        code="workbench.scipy.special.{op}(np.clip({0}, -1 + {near}, 1 - {near}))"
    ),
)
FROM_ONE = (
    SingularPoint(
        "outside-domain", lambda x: x < 1, "has an operand below 1",
        "It is defined from 1 on.", "clip the operand", "np.{op}(np.maximum({0}, 1))"),
)  # fmt: skip
PROBABILITY = (
    SingularPoint(
        "outside-domain", lambda x: (x <= 0) | (x >= 1),
        "has an operand at or outside 0 and 1",
        "It is infinite at 0 and 1, and defined between them only.",
        "clip the operand",
        "workbench.scipy.special.{op}(np.clip({0}, {tiny}, 1 - {near}))",
        ("{tiny}", "1 - {near}")),
)  # fmt: skip

# Where a slope is infinite though the value is finite

STEEP_ROOT = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
        "The slope of sqrt(x) is 1 / (2 sqrt(x)): infinite at 0."),
)  # fmt: skip
STEEP_CUBE_ROOT = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
        "The slope of the cube root is infinite at 0."),
)  # fmt: skip
STEEP_POWER = (
    SingularPoint(
        "infinite-slope", lambda x, p: np.equal(x, 0) & (p < 1),
        "has an infinite slope at 0",
        "The slope of x**p is p x**(p - 1): infinite at 0 where p < 1."),
)  # fmt: skip
STEEP_COSINE = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(np.abs(x), 1),
        "has an infinite slope at ±1",
        "The slope is 1 / sqrt(1 - x²): infinite at -1 and 1."),
)  # fmt: skip
STEEP_LOGARITHM = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
        "The slope of log(x) is 1 / x: infinite at 0."),
)  # fmt: skip
STEEP_LOGARITHM_OF_NEXT = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, -1), "has an infinite slope at -1",
        "The slope of log1p(x) is 1 / (1 + x): infinite at -1."),
)  # fmt: skip
STEEP_QUOTIENT = (
    SingularPoint(
        "infinite-slope", lambda x, y: np.equal(y, 0),
        "has an infinite slope where the divisor is 0",
        "The slope of a / b is 1 / b: infinite where b is 0.", blamed=-1),
)  # fmt: skip
STEEP_RECIPROCAL = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, 0), "has an infinite slope at 0",
        "The slope of 1 / x is -1 / x²: infinite at 0."),
)  # fmt: skip
STEEP_FROM_ONE = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(x, 1), "has an infinite slope at 1",
        "The slope is 1 / sqrt(x² - 1): infinite at 1."),
)  # fmt: skip
STEEP_BETWEEN_ONES = (
    SingularPoint(
        "infinite-slope", lambda x: np.equal(np.abs(x), 1),
        "has an infinite slope at ±1",
        "The slope is 1 / (1 - x²): infinite at -1 and 1."),
)  # fmt: skip
STEEP_ANGLE = (
    SingularPoint(
        "infinite-slope", lambda y, x: np.equal(x, 0) & np.equal(y, 0),
        "has no slope at (0, 0)",
        "The angle of (0, 0) is not defined: its slopes x / (x² + y²) are 0 / 0."),
)  # fmt: skip
