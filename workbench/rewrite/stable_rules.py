"""Rules that put a form that keeps its digits in the place of one that loses them.

The value is the same in real numbers. In floats it is better: finite where the plain
form overflows, and right to the last digits where it cancels. So an infinity or a NaN
that only the plain form made goes away.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.ops.elementwise import stop_gradient
from workbench.ops.reductions import logsumexp
from workbench.rewrite.forms import is_same_value, own_inputs, skip_identities
from workbench.rewrite.rule import Replacement, node_rule, rule

OVERFLOW = "Finite also where the plain form overflows."
DIGITS = "Keeps the digits that the plain form loses."
OF_ONE = OVERFLOW + " The derivative is right to the digits of 1."


def _is_real(bound: Any) -> bool:
    """Return whether all wildcards stand for real floats."""
    return all(types.spec_of(x).dtype.kind == "f" for x in bound.values())


rule("log of 1 + exp", "log(1 + exp(x))", "logaddexp(0, x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("log1p of exp", "log1p(exp(x))", "logaddexp(0, x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("log of the logistic function", "log(1 / (1 + exp(-x)))", "-logaddexp(0, -x)",
    group="stabilise", when=_is_real, note=OVERFLOW)  # fmt: skip
rule("log of a sum of two exponentials", "log(exp(x) + exp(y))", "logaddexp(x, y)",
    group="stabilise", when=_is_real, note=OVERFLOW)  # fmt: skip
rule("log of 1 + x", "log(1 + x)", "log1p(x)", group="stabilise",
    when=_is_real, note=DIGITS)  # fmt: skip
rule("log of 1 - x", "log(1 - x)", "log1p(-x)", group="stabilise",
    when=_is_real, note=DIGITS)  # fmt: skip
rule("exp minus 1", "exp(x) - 1", "expm1(x)", group="stabilise",
    when=_is_real, note=DIGITS)  # fmt: skip
rule("1 minus exp", "1 - exp(x)", "-expm1(x)", group="stabilise",
    when=_is_real, note=DIGITS)  # fmt: skip
rule("log of exp", "log(exp(x))", "x", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("root of a square", "sqrt(x * x)", "abs(x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("root of a power", "sqrt(x**2)", "abs(x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("root of square", "sqrt(square(x))", "abs(x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("root of a sum of squares", "sqrt(x * x + y * y)", "hypot(x, y)",
    group="stabilise", when=_is_real,
    note=OVERFLOW + " Infinite where x or y is, also beside a NaN.")  # fmt: skip


# Logistic functions and hyperbolic tangents: what reverse mode makes of them too

rule("exp over 1 + exp", "exp(x) / (1 + exp(x))", "exp(-logaddexp(0, -x))",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("exp times a quotient by 1 + exp", "a / (1 + exp(x)) * exp(x)",
    "a * exp(-logaddexp(0, -x))", group="stabilise", when=_is_real,
    note=OF_ONE)  # fmt: skip
rule("slope of the logistic function", "exp(x) / (1 + exp(x))**2",
    "exp(x - 2 * logaddexp(0, x))", group="stabilise", when=_is_real,
    note=OF_ONE)  # fmt: skip
rule("slope of the logistic function, by a product",
    "exp(x) / ((1 + exp(x)) * (1 + exp(x)))", "exp(x - 2 * logaddexp(0, x))",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("1 minus the logistic function", "1 - 1 / (1 + exp(x))",
    "exp(-logaddexp(0, -x))", group="stabilise", when=_is_real,
    note=DIGITS)  # fmt: skip
rule("tanh of exponentials", "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "tanh(x)",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("tanh of half", "(exp(x) - 1) / (exp(x) + 1)", "tanh(x / 2)",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("tanh of half by expm1", "expm1(x) / (exp(x) + 1)", "tanh(x / 2)",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("tanh of minus half", "(1 - exp(x)) / (1 + exp(x))", "-tanh(x / 2)",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("tanh of minus half by expm1", "-expm1(x) / (1 + exp(x))", "-tanh(x / 2)",
    group="stabilise", when=_is_real, note=OF_ONE)  # fmt: skip
rule("log of exp minus 1", "log(expm1(x))", "x + log(-expm1(-x))",
    group="stabilise", when=_is_real, note=OVERFLOW)  # fmt: skip


def _exponent_of_sum(x: Any) -> tuple[Tensor, dict[str, Any]] | None:
    """Return x and the axes of a ``sum(exp(x))``."""
    if not isinstance(x, Tensor) or x.op.name != "sum":
        return None
    inner = skip_identities(own_inputs(x)[0])
    if not isinstance(inner, Tensor) or inner.op.name != "exp" or len(x.inputs) != 1:
        return None
    settings = {"axis": x.params.get("axis"), "keepdims": x.params.get("keepdims")}
    if not x.params.keys() <= settings.keys():
        return None
    if types.spec_of(inner.inputs[0]).dtype.kind != "f":
        return None  # the difference of two integers may overflow
    settings["keepdims"] = bool(settings["keepdims"])
    return inner.inputs[0], settings


@node_rule("log of a sum of exponentials", "log", "log(sum(exp(x)))", "logsumexp(x)",
    group="stabilise", note=OVERFLOW)  # fmt: skip
def log_sum_exp(node: Tensor) -> Replacement | None:
    """Take the largest exponent out of the sum before it can overflow."""
    found = _exponent_of_sum(skip_identities(node.inputs[0]))
    if found is None:
        return None
    x, settings = found
    return Replacement((x,), partial(logsumexp, **settings), tuple(settings.items()))


def _is_shifted(x: Any) -> bool:
    """Return whether the largest entry has been taken off."""
    if not isinstance(x, Tensor) or x.op.name != "subtract":
        return False
    largest = x.inputs[1]
    while isinstance(largest, Tensor) and largest.op.name in ("stop_gradient", "mask"):
        largest = largest.inputs[0]
    return isinstance(largest, Tensor) and largest.op.name == "max"


@node_rule("softmax", "divide", "exp(x) / sum(exp(x), keepdims=True)", "softmax(x)",
    group="stabilise", note=OVERFLOW)  # fmt: skip
def softmax(node: Tensor) -> Replacement | None:
    """Take the largest exponent out of both sides before they can overflow."""
    top, bottom = map(skip_identities, node.inputs)
    found = _exponent_of_sum(bottom)
    if found is None or not isinstance(top, Tensor) or top.op.name != "exp":
        return None
    x, settings = found
    if not is_same_value(top.inputs[0], x):
        return None
    if _is_shifted(x):
        return None
    whole = settings["axis"] is None and len(node.shape) == len(top.shape)
    if not (settings["keepdims"] or whole):
        return None
    axis = settings["axis"]

    def divide_by_sum(x: Any) -> Any:
        e = np.exp(x - stop_gradient(np.max(x, axis=axis, keepdims=True)))
        return e / np.sum(e, axis=axis, keepdims=True)

    return Replacement((x,), divide_by_sum, axis)


@node_rule("log of softmax", "log", "log(softmax(x))", "x - logsumexp(x)",
    group="stabilise", note=OVERFLOW)  # fmt: skip
def log_softmax(node: Tensor) -> Replacement | None:
    """Subtract the logarithm of the sum in place of dividing by the sum."""
    quotient = skip_identities(node.inputs[0])
    if not isinstance(quotient, Tensor) or quotient.op.name != "divide":
        return None
    top, bottom = map(skip_identities, quotient.inputs)
    found = _exponent_of_sum(bottom)
    if found is None or not isinstance(top, Tensor) or top.op.name != "exp":
        return None
    x, settings = found
    if not settings["keepdims"] or not is_same_value(top.inputs[0], x):
        return None
    return Replacement(
        (x,), lambda x: x - logsumexp(x, **settings), tuple(settings.items())
    )
