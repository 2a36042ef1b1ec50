"""Forms that keep their digits, in the place of those that overflow or cancel.

The rows of the group ``stabilise`` compute the same in real numbers. In floats they are
better: finite where the plain form overflows, and right to the last digits where it
cancels. So an infinity or a NaN that only the plain form made goes away.

Those of the group ``advice`` are better for some values alone, or change the value at a
point. No program is rewritten by them: the doctor offers them where they are right for
the values at hand.

The forms are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., 2002, sections 1.7 to 1.14, and of P. Blanchard, D. J. Higham, N. J. Higham,
"Accurately computing the log-sum-exp and softmax functions", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.core import dims, types
from workbench.core.tensor import Tensor, apply
from workbench.ops.define import dtype_of, shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.indexing import GETITEM, SCATTER
from workbench.ops.reductions import logsumexp, reduced_axes
from workbench.ops.special.define import F
from workbench.rewrite.forms import (
    is_same_value,
    own_inputs,
    own_op,
    skip_identities,
)
from workbench.rewrite.rule import FUNCTIONS, Replacement, node_rule, rule

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
    largest = stop_gradient(np.max(x, axis=axis, keepdims=True))
    e = np.exp(x - np.where(np.isfinite(largest), largest, np.zeros_like(largest)))
    return e / np.sum(e, axis=axis, keepdims=True)


def unit_vector(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return ``x / norm(x)``, the largest entry taken out before it is squared."""
    largest = stop_gradient(np.max(np.abs(x), axis=axis, keepdims=True))
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


def _is_real(bound: Any) -> bool:
    """Return whether all wildcards stand for real floats."""
    return all(
        types.spec_of(x).dtype.kind == "f"
        for x in bound.values()
        if not isinstance(x, dict)
    )


def _is_unshifted(bound: Any) -> bool:
    """Return whether a sum reaches all entries of x, whose largest is still in it."""
    axes = bound["axes"]
    spread = "axis" not in axes or axes.get("keepdims", False)
    return spread and _is_real(bound) and not _is_shifted(bound["x"])


def _is_shifted(x: Any) -> bool:
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


#: The spellings of a square.
SQUARES = (lambda x: x * x, lambda x: x**2, np.square)

stable = partial(rule, group="stabilise", when=_is_real, spellings={"square": SQUARES})
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
stable("reciprocal of 1 + exp", "reciprocal(1 + exp(x))", "expit(-x)", note=OF_ONE)
stable("exp over 1 + exp", "exp(x) / (1 + exp(x))", "expit(x)", note=OF_ONE)
stable("exp times a quotient by 1 + exp", "a / (1 + exp(x)) * exp(x)", "a * expit(x)",
    note=OF_ONE)  # fmt: skip
stable("masked exp times a quotient by 1 + exp", "mul0(div0(a, 1 + exp(x)), exp(x))",
    "mul0(a, expit(x))", note=OF_ONE + " At infinity the limit.")  # fmt: skip
stable("share of two", "exp(x) / (exp(x) + exp(y))", "expit(x - y)", note=OF_ONE)
stable("slope of a sigmoid", "exp(x) / (1 + exp(x))**2",
    "exp(x - 2 * logaddexp(0, x))", note=OF_ONE)  # fmt: skip
stable("slope of a sigmoid by a product", "exp(x) / ((1 + exp(x)) * (1 + exp(x)))",
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
stable("exp plus -1", "exp(x) + -1", "expm1(x)", note=DIGITS)
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
advice("negative root of a quadratic", "-x + sqrt(square(x) - q)",
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


# Softmax in programs of its entries, and in what reverse mode makes of it

#: A part of a replacement: a function of the operands that it is built from.
Part = Callable[[Sequence[Any]], Any]


def _hold(values: list[Any], x: Any) -> Part:
    """Add an operand to those of a replacement; return it as a part."""
    i = len(values)
    values.append(x)
    return lambda given: given[i]


def _is_sum_of(total: Any, exp: Tensor) -> bool:
    """Return whether a value is the sum of an exponential along axes."""
    total = skip_identities(total)
    if not isinstance(total, Tensor) or total.op.name != "sum":
        return False
    return _is_same_exp(own_inputs(total)[0], exp)


def _is_same_exp(x: Any, exp: Tensor) -> bool:
    if is_same_value(x, exp):
        return True
    x = skip_identities(x)
    return (
        isinstance(x, Tensor)
        and x.op.name == "exp"
        and is_same_value(x.inputs[0], exp.inputs[0])
    )


def _is_softmax(p: Any) -> bool:
    """Return whether a value is an exponential over a sum of the same ones."""
    if not isinstance(p, Tensor) or p.op.name != "divide":
        return False
    exp = skip_identities(p.inputs[0])
    return (
        isinstance(exp, Tensor)
        and exp.op.name == "exp"
        and _is_sum_of(p.inputs[1], exp)
        and _is_real({"x": exp.inputs[0]})
    )


def _is_sigmoid(p: Any) -> bool:
    return isinstance(p, Tensor) and p.op.name == "expit" and p.dtype.kind == "f"


@node_rule("log of entries of a softmax", "log", "log((exp(x) / sum(exp(x)))[i])",
    "(x - logsumexp(x))[i]", group="stabilise", note=TO_ONE,
    reads="getitem")  # fmt: skip
def log_of_entries(node: Tensor) -> Replacement | None:
    """Take the entries after the logarithm, in its stable form."""
    entries = skip_identities(node.inputs[0])
    quotient, *places = own_inputs(entries)
    if not _is_softmax(quotient):
        return None
    exp, total = map(skip_identities, quotient.inputs)
    settings, params = total.params, own_op(entries)[2]

    def build(x: Any, *places: Any) -> Any:
        y = x - logsumexp(x, **settings)
        return apply(GETITEM, (y, *places), params)

    operands = (exp.inputs[0], *places)
    return Replacement(operands, build, (str(settings), str(params)))


@node_rule("softmax in a cotangent", "multiply", "a / sum(exp(x)) * exp(x)",
    "a * softmax(x)", group="stabilise", note=OF_ONE, reads="exp")  # fmt: skip
def softmax_in_cotangent(node: Tensor) -> Replacement | None:
    """Join an exponential with its sum, by which terms of the other factor are divided.

    The terms are ``a / sum(exp(x))`` and ``sum(b / sum(exp(x)))``: what reverse mode
    makes of a softmax, and of the logarithm of such a sum.
    """
    for k in (0, 1):
        exp, factor = (skip_identities(node.inputs[i]) for i in (k, 1 - k))
        if not isinstance(exp, Tensor) or exp.op.name != "exp":
            continue
        if not dims.is_same_shape(exp.shape, node.shape) or not _is_real(
            {"x": exp.inputs[0]}
        ):
            continue
        values: list[Any] = [exp.inputs[0]]
        found: list[Tensor] = []
        part = _multiply_by_sum(factor, exp, values, found)
        if part is None or any(_axes_of(x) != _axes_of(found[0]) for x in found):
            continue
        axis = found[0].params.get("axis")
        of_terms = _softmax_of_shifted if _is_shifted(exp.inputs[0]) else softmax
        build = partial(_build_product, part, of_terms, axis)
        return Replacement(tuple(values), build, node.serial)
    return None


def _build_product(part: Part, share: Any, axis: Any, *given: Any) -> Any:
    return part(given) * share(given[0], axis)


def _softmax_of_shifted(x: Any, axis: Any) -> Any:
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)


def _axes_of(total: Tensor) -> tuple[int, ...]:
    """Return the axes of a sum, from the first on."""
    return reduced_axes(total.params.get("axis"), len(own_inputs(total)[0].shape))


def _multiply_by_sum(
    x: Any, exp: Tensor, values: list[Any], found: list[Tensor]
) -> Part | None:
    """Return a factor of an exponential times the sum that all its terms are over.

    The sums are added to ``found``, and the operands of the part to ``values``.
    """
    x = skip_identities(x)
    if not isinstance(x, Tensor):
        return None
    if x.op.name == "divide" and _is_sum_of(x.inputs[1], exp):
        total = skip_identities(x.inputs[1])
        if total.shape and not total.params.get("keepdims"):
            return None  # it does not stand where it is spread over its own terms
        found.append(total)
        return _hold(values, x.inputs[0])
    if x.op.name == "reshape":
        inner, shape = skip_identities(x.inputs[0]), x.shape
        if not isinstance(inner, Tensor) or inner.op.name != "divide":
            return None
        total = skip_identities(inner.inputs[1])
        if not _is_sum_of(total, exp) or total.params.get("keepdims"):
            return None
        axes = _axes_of(total)
        kept = tuple(1 if i in axes else n for i, n in enumerate(exp.shape))
        if not dims.is_same_shape(shape, kept):
            return None
        found.append(total)
        own = _hold(values, inner.inputs[0])
        return lambda given: np.reshape(_spread(own(given), inner), shape)
    if x.op.name == "add":
        parts = [_multiply_by_sum(y, exp, values, found) for y in x.inputs]
        if any(part is None for part in parts):
            return None
        a, b = parts
        return lambda given: a(given) + b(given)  # type: ignore[misc]
    if x.op.name == "broadcast_to":
        return _multiply_by_sum(x.inputs[0], exp, values, found)
    if x.op.name == "sum":
        known = len(found)
        term = skip_identities(own_inputs(x)[0])
        part = _multiply_by_sum(term, exp, values, found)
        spread = x.params.get("keepdims") or not x.shape
        if part is None or not spread:
            return None
        if any(set(_axes_of(x)) - set(_axes_of(y)) for y in found[known:]):
            return None
        terms, params = part, x.params
        return lambda given: np.sum(_spread(terms(given), term), **params)
    return None


#: The ops of a product and of a quotient; the second ones where entries are masked.
PRODUCTS = ("multiply", "mul0")
QUOTIENTS = ("divide", "div0")


@node_rule("probability times a quotient by it", " ".join(PRODUCTS),
    "a / softmax(x) * softmax(x)", "a", group="stabilise", note=OVERFLOW,
    reads="divide expit multiply mul0")  # fmt: skip
def probability_times_quotient(node: Tensor) -> Replacement | None:
    """Leave out the division by a softmax or sigmoid: it is 0 by its rounding alone.

    It is what reverse mode makes of the logarithm of such a probability.
    """
    for k in (0, 1):
        share, factor = (skip_identities(node.inputs[i]) for i in (k, 1 - k))
        for p, rest in ((share, None), *_list_factors(share)):
            if not (_is_softmax(p) or _is_sigmoid(p)):
                continue
            if not dims.is_same_shape(p.shape, node.shape):
                continue
            values: list[Any] = [p]
            part = _multiply_by_share(factor, p, values)
            if part is not None:
                if rest is not None:
                    part = partial(_multiply_parts, part, _hold(values, rest))
                build = partial(_build_spread, part, node)
                return Replacement(tuple(values), build, node.serial)
    return None


def _list_factors(x: Any) -> list[tuple[Any, Any]]:
    """Return the factors of a product, each with the other one."""
    if not isinstance(x, Tensor) or x.op.name not in PRODUCTS:
        return []
    a, b = map(skip_identities, x.inputs)
    return [(a, b), (b, a)]


def _build_spread(part: Part, node: Tensor, *given: Any) -> Any:
    return _spread(part(given), node)


def _spread(x: Any, like: Tensor) -> Any:
    """Return an array in the shape of another, a Python number in its dtype too."""
    if dtype_of(x) != like.dtype:
        x = x * np.ones((), like.dtype)
    if dims.is_same_shape(shape_of(x), like.shape):
        return x
    return np.broadcast_to(x, like.shape)


def _multiply_by_share(x: Any, share: Tensor, values: list[Any]) -> Part | None:
    """Return a value times the share that it is divided by; None if it is not."""
    x = skip_identities(x)
    if not isinstance(x, Tensor):
        return None
    if x.op.name in QUOTIENTS and is_same_value(x.inputs[1], share):
        return _hold(values, x.inputs[0])
    if x.op.name == "negative":
        part = _multiply_by_share(x.inputs[0], share, values)
        return None if part is None else partial(_negate, part)
    for y, other in _list_factors(x):
        part = _multiply_by_share(y, share, values)
        if part is not None:
            return partial(_multiply_parts, part, _hold(values, other))
    if x.op.name in ("add", "subtract"):
        parts = [_multiply_by_share(y, share, values) for y in x.inputs]
        if all(part is None for part in parts):
            return None
        a, b = (
            partial(_multiply_parts, _hold(values, y), _take_first)
            if part is None
            else part
            for part, y in zip(parts, x.inputs, strict=True)
        )
        if x.op.name == "add":
            return lambda given: a(given) + b(given)
        return lambda given: a(given) - b(given)
    if x.op.name == "scatter":
        quotient, *places = map(skip_identities, own_inputs(x))
        if not isinstance(quotient, Tensor) or quotient.op.name != "divide":
            return None
        entries = skip_identities(quotient.inputs[1])
        params = own_op(x)[2]
        if not isinstance(entries, Tensor) or entries.op.name != "getitem":
            return None
        source, *others = own_inputs(entries)
        if not is_same_value(source, share) or len(others) != len(places):
            return None
        if own_op(entries)[2]["key"] != params["key"]:
            return None
        if not all(map(is_same_value, places, others)):
            return None
        top = _hold(values, quotient.inputs[0])
        parts_of_index = [_hold(values, y) for y in places]
        return lambda given: apply(
            SCATTER,
            (_spread(top(given), quotient), *[y(given) for y in parts_of_index]),
            params,
        )
    return None


def _negate(part: Part, given: Sequence[Any]) -> Any:
    return -part(given)


def _multiply_parts(a: Part, b: Part, given: Sequence[Any]) -> Any:
    return a(given) * b(given)


def _take_first(given: Sequence[Any]) -> Any:
    return given[0]
