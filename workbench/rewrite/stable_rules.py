"""Forms that keep their digits, in the place of those that overflow or cancel.

The rows of the group ``stabilise`` compute the same in real numbers. In floats they are
better: finite where the plain form overflows, and right to the last digits where it
cancels. So an infinity or a NaN that only the plain form made goes away.

Each is found in all spellings of its left side: ``x * x`` is ``square(x)``, ``x + -1``
is ``x - 1``, and ``reciprocal(x)`` is ``1 / x`` to it.

Those of the group ``advice`` are better for some values alone, or change the value at a
point. No program is rewritten by them: the doctor offers them where they are right for
the values at hand.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.ops.elementwise import stop_gradient
from workbench.ops.reductions import logsumexp
from workbench.ops.special.define import F
from workbench.rewrite.forms import (
    skip_identities,
)
from workbench.rewrite.rule import FUNCTIONS, rule

OVERFLOW = "Finite also where the plain form overflows."
DIGITS = "Keeps the digits that the plain form loses."
#: Of logarithms of sums: those near 0 are differences.
TO_ONE = OVERFLOW + " Right to the digits of 1."
OF_ONE = OVERFLOW + " The derivative is right to the digits of 1."

#: What users write for the functions of the rows that are not `numpy`'s own.
PUBLIC_NAMES = {
    "det": "np.linalg.det",
    "expit": "workbench.scipy.special.expit",
    "gammaln": "workbench.scipy.special.gammaln",
    "logsumexp": "wb.logsumexp",
    "norm": "np.linalg.norm",
    "slogdet": "np.linalg.slogdet",
    "softmax": "workbench.scipy.special.softmax",
}


def softmax(x: Any, axis: Any = None) -> Any:
    """Return ``exp(x) / sum(exp(x))``, the largest exponent taken out of both."""
    # An axis of unknown length may have no entries: then that is the maximum.
    largest = stop_gradient(np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    e = np.exp(x - np.where(np.isfinite(largest), largest, np.zeros_like(largest)))
    return e / np.sum(e, axis=axis, keepdims=True)


def unit_vector(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return ``x / norm(x)``, divided by the largest entry before any square."""
    largest = stop_gradient(np.max(np.abs(x), axis=axis, keepdims=True, initial=0))
    usual = (largest > 0) & np.isfinite(largest)
    y = x / np.where(usual, largest, np.ones_like(largest))
    return y / np.linalg.norm(y, axis=axis, keepdims=keepdims)


def log_complement(x: Any) -> Any:
    """Return ``log(1 - exp(x))`` in the form that keeps the digits for this x.

    Both are right at ``-log(2)``: M. Mächler, "Accurately computing
    log(1 - exp(-|a|))", 2012.
    """
    near = x > -math.log(2)
    by_expm1 = np.log(-np.expm1(np.where(near, x, -1)))
    return np.where(near, by_expm1, np.log1p(-np.exp(np.where(near, -1, x))))


FUNCTIONS |= {
    "det": np.linalg.det,
    "expit": F.expit,
    "gamma": F.gamma,
    "gammaln": F.gammaln,
    "log_complement": log_complement,
    "logsumexp": logsumexp,
    "norm": np.linalg.norm,
    "slogdet": np.linalg.slogdet,
    "softmax": softmax,
    "unit_vector": unit_vector,
}


def is_real(bound: Any) -> bool:
    """Return whether all wildcards stand for real floats."""
    return all(
        types.spec_of(x).dtype.kind == "f"
        for x in bound.values()
        if not isinstance(x, dict)
    )


def _is_unshifted(bound: Any) -> bool:
    """Return whether a sum reaches all entries of x, with the largest still inside."""
    axes = bound["axes"]
    spread = "axis" not in axes or axes.get("keepdims", False)
    return spread and is_real(bound) and not is_shifted(bound["x"])


def is_shifted(x: Any) -> bool:
    """Return whether the largest entry has been taken off, or out."""
    if not isinstance(x, Tensor) or x.op.name not in ("subtract", "divide"):
        return False
    largest = skip_identities(x.inputs[1])
    while isinstance(largest, Tensor) and largest.op.name in _GUARDS:
        largest = next((y for y in largest.inputs[::-1] if _is_largest(y)),
                       largest.inputs[-1])  # fmt: skip
    return _is_largest(largest)


#: What stands around the largest entry in shifts that are written with care.
_GUARDS = ("stop_gradient", "mask", "where", "reshape", "broadcast_to", "astype")


def _is_largest(x: Any) -> bool:
    while isinstance(x, Tensor) and x.op.name in ("stop_gradient", "mask"):
        x = x.inputs[0]
    return isinstance(x, Tensor) and x.op.name == "max"


def _is_by_length(bound: Any) -> bool:
    """Return whether y is a length or a standard deviation, which may be 0."""
    y = skip_identities(bound["y"])
    return isinstance(y, Tensor) and y.op.name in ("norm", "sqrt", "hypot", "std")


stable = partial(rule, group="stabilise", when=is_real)
advice = partial(stable, group="advice")


# Logarithms of sums

stable("softplus", "log(1 + exp(x))", "logaddexp(0, x)", note=OVERFLOW)
stable("softplus by log1p", "log1p(exp(x))", "logaddexp(0, x)", note=OVERFLOW)
stable("log of a sum of two exponentials", "log(exp(x) + exp(y))", "logaddexp(x, y)",
    note=OVERFLOW)  # fmt: skip
stable("log of 1 + x", "log(1 + x)", "log1p(x)", note=DIGITS)
stable("log of 1 - exp", "log(1 - exp(x))", "log_complement(x)", note=DIGITS)
advice("log of 1 - exp near 0", "log(1 - exp(x))", "log(-expm1(x))")
stable("log of exp", "log(exp(x))", "x", note=OVERFLOW)
stable("log of exp - 1", "log(exp(x) - 1)", "x + log(-expm1(-x))", note=OVERFLOW)
stable("log of expm1", "log(expm1(x))", "x + log(-expm1(-x))", note=OVERFLOW)

# Sigmoids; also what reverse mode makes of them

stable("log of a sigmoid", "log(1 / (1 + exp(-x)))", "-logaddexp(0, -x)",
    note=OVERFLOW)  # fmt: skip
stable("log of a mirrored sigmoid", "log(1 / (1 + exp(x)))", "-logaddexp(0, x)",
    note=OVERFLOW)  # fmt: skip
stable("log of a quotient by 1 + exp", "log(exp(x) / (1 + exp(x)))",
    "-logaddexp(0, -x)", note=OVERFLOW)  # fmt: skip
stable("log of a share of two", "log(exp(x) / (exp(x) + exp(y)))",
    "-logaddexp(0, y - x)", note=OVERFLOW)  # fmt: skip
stable("log of expit", "log(expit(x))", "-logaddexp(0, -x)", note=OVERFLOW)
stable("log of 1 - a sigmoid", "log(1 - 1 / (1 + exp(-x)))", "-logaddexp(0, x)",
    note=OVERFLOW)  # fmt: skip
stable("log of 1 - a quotient by 1 + exp", "log(1 - exp(x) / (1 + exp(x)))",
    "-logaddexp(0, x)", note=OVERFLOW)  # fmt: skip
stable("log of 1 - expit", "log(1 - expit(x))", "-logaddexp(0, x)", note=OVERFLOW)
stable("log of 1 - x", "log(1 - x)", "log1p(-x)", note=DIGITS)
stable("sigmoid", "1 / (1 + exp(-x))", "expit(x)", note=OF_ONE)
stable("mirrored sigmoid", "1 / (1 + exp(x))", "expit(-x)", note=OF_ONE)
stable("exp over 1 + exp", "exp(x) / (1 + exp(x))", "expit(x)", note=OF_ONE)
stable("exp times a quotient by 1 + exp", "a / (1 + exp(x)) * exp(x)", "a * expit(x)",
    note=OF_ONE)  # fmt: skip
stable("masked exp times a quotient by 1 + exp", "mul0(div0(a, 1 + exp(x)), exp(x))",
    "mul0(a, expit(x))", note=OF_ONE + " At infinity the limit.")  # fmt: skip
stable("share of two", "exp(x) / (exp(x) + exp(y))", "expit(x - y)", note=OF_ONE)
stable("slope of a sigmoid", "exp(x) / (1 + exp(x))**2",
    "exp(x - 2 * logaddexp(0, x))", note=OF_ONE)  # fmt: skip
stable("1 minus a sigmoid", "1 - 1 / (1 + exp(x))", "expit(x)", note=OF_ONE)
stable("1 minus a quotient by 1 + exp", "1 - exp(x) / (1 + exp(x))", "expit(-x)",
    note=OF_ONE)  # fmt: skip
stable("1 minus expit", "1 - expit(x)", "expit(-x)", note=OF_ONE)
advice("quotient by 1 + exp", "a / (1 + exp(x))", "a * expit(-x)")

# Hyperbolic tangents

stable("tanh of exponentials", "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "tanh(x)",
    note=OF_ONE)  # fmt: skip
stable("tanh of half", "(exp(x) - 1) / (exp(x) + 1)", "tanh(x / 2)", note=OF_ONE)
stable("tanh of half by expm1", "expm1(x) / (exp(x) + 1)", "tanh(x / 2)",
    note=OF_ONE)  # fmt: skip
stable("tanh of minus half", "(1 - exp(x)) / (1 + exp(x))", "-tanh(x / 2)",
    note=OF_ONE)  # fmt: skip
stable("tanh of minus half by expm1", "-expm1(x) / (1 + exp(x))", "-tanh(x / 2)",
    note=OF_ONE)  # fmt: skip

# Softmax, its logarithm and its cross-entropy

stable("log-sum-exp", "log(sum(exp(x), **axes))", "logsumexp(x, **axes)",
    note=TO_ONE)  # fmt: skip
stable("log-softmax", "log(exp(x) / sum(exp(y), **axes))", "x - logsumexp(y, **axes)",
    note=TO_ONE)  # fmt: skip
stable("softmax", "exp(x) / sum(exp(x), **axes)", "softmax(x, **axis)",
    when=_is_unshifted, note=OF_ONE)  # fmt: skip
advice("share of a sum of exponentials", "exp(x) / sum(exp(y), **axes)",
    "exp(x - logsumexp(y, **axes))")  # fmt: skip

# Differences

stable("exp minus 1", "exp(x) - 1", "expm1(x)", note=DIGITS)
stable("1 minus exp", "1 - exp(x)", "-expm1(x)", note=DIGITS)
stable("1 minus cos", "1 - cos(x)", "2 * sin(x / 2)**2", note=DIGITS)
stable("cosh minus 1", "cosh(x) - 1", "2 * sinh(x / 2)**2", note=DIGITS)
advice("difference of squares", "square(x) - square(y)", "(x - y) * (x + y)")
stable("variance in one pass", "mean(square(x), **axes) - square(mean(x, **axes))",
    "var(x, **axes)", note=DIGITS)  # fmt: skip
advice("covariance in one pass",
    "mean(x * y, **axes) - mean(x, **axes) * mean(y, **axes)",
    "mean((x - mean(x, **kept)) * (y - mean(y, **kept)), **axes)")  # fmt: skip
advice("root of a quadratic", "x - sqrt(square(x) - q)", "q / (x + sqrt(x**2 - q))")
advice("mirrored root of a quadratic", "sqrt(square(x) - q) - x",
    "-q / (x + sqrt(x**2 - q))")  # fmt: skip
advice("difference of square roots", "sqrt(x) - sqrt(y)",
    "(x - y) / (sqrt(x) + sqrt(y))")  # fmt: skip
advice("difference of logarithms", "log(x) - log(y)", "log(x / y)")
advice("difference of near logarithms", "log(x) - log(y)", "log1p((x - y) / y)")

# Products that overflow or become 0 long before their logarithm does

advice("log of a product of numbers above 0", "log(prod(x, **axes))",
    "sum(log(x), **axes)", positive=True)  # fmt: skip
advice("log of a running product of numbers above 0", "log(cumprod(x, **axis))",
    "cumsum(log(x), **axis)", positive=True)  # fmt: skip
advice("log of a determinant", "log(det(x))", "slogdet(x)[1]")
advice("log of the gamma function", "log(gamma(x))", "gammaln(x)")

# Lengths

stable("root of a square", "sqrt(square(x))", "abs(x)", note=OVERFLOW)
stable("root of a sum of squares", "sqrt(square(x) + square(y))", "hypot(x, y)",
    note=OVERFLOW + " Infinite where x or y is, also beside a NaN.")  # fmt: skip
stable("vector over its length", "x / norm(x, **axes)", "unit_vector(x, **axes)",
    when=_is_unshifted, note=OF_ONE)  # fmt: skip
stable("vector over the root of its squares", "x / sqrt(sum(square(x), **axes))",
    "unit_vector(x, **axes)", when=_is_unshifted, note=OF_ONE)  # fmt: skip
advice("length of a vector", "sqrt(sum(square(x), **axes))", "norm(x, **axes)")
advice("length of a vector by a product", "sqrt(x @ x)", "norm(x)")
advice("standard deviation", "sqrt(mean(square(x - mean(x, **kept)), **axes))",
    "std(x, **axes)")  # fmt: skip
advice("standard deviation of all", "sqrt(mean(square(x - mean(x))))", "std(x)")
advice("root of a variance", "sqrt(var(x, **axes))", "std(x, **axes)")
advice("standard deviation in one pass",
    "sqrt(mean(square(x), **axes) - square(mean(x, **axes)))",
    "std(x, **axes)")  # fmt: skip
advice("quotient by a length that may be 0 (1 there)", "x / y",
    "x / where(y == 0, 1, y)", when=_is_by_length)  # fmt: skip
