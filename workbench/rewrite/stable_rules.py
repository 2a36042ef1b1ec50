"""Rules that put a form that keeps its digits in the place of one that loses them.

The value is the same in real numbers. In floats it is better: finite where the plain
form overflows, and right to the last digits where it cancels. So an infinity or a NaN
that only the plain form made goes away.
"""

from __future__ import annotations

from typing import Any

from workbench.core import types
from workbench.rewrite.rule import rule

OVERFLOW = "Finite also where the plain form overflows."
DIGITS = "Keeps the digits that the plain form loses."


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
rule("root of a power", "sqrt(square(x))", "abs(x)", group="stabilise",
    when=_is_real, note=OVERFLOW)  # fmt: skip
rule("root of a sum of squares", "sqrt(x * x + y * y)", "hypot(x, y)",
    group="stabilise", when=_is_real, note=OVERFLOW)  # fmt: skip
