"""Elementwise ops: one row each, the partial derivatives with the output named.

Kinks are fixed choices: `abs` has derivative 0 at 0, `hypot` at the origin, and so
have both all higher ones; ties of `maximum` and `minimum` share evenly. A complex
gradient is df/dx - i df/dy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import UFUNCS, always, declare, implements, severed
from workbench.core.tensor import apply
from workbench.ops.define import (
    RULE_NAMES,
    dtype_of,
    elementwise,
    linear,
    masked,
    no_out,
)

__all__ = ["stop_gradient"]


# Arithmetic. Python's operators, so that Python numbers stay weak.


def _as_numpy(
    operate: Callable[[Any, Any], Any], ufunc: np.ufunc
) -> Callable[[Any, Any], Any]:
    """Return an operator that gives inf or NaN where Python raises, as arrays do."""

    def compute(a: Any, b: Any) -> Any:
        try:
            return operate(a, b)
        except (ZeroDivisionError, OverflowError):
            if not any(isinstance(x, (float, complex)) for x in (a, b)):
                raise  # integers, which have no inf
            with np.errstate(all="ignore"):  # what is found is told by its value
                return ufunc(a, b).item()

    return compute


_power = _as_numpy(operator.pow, np.power)
elementwise("add", operator.add, "1", "1")
elementwise("subtract", operator.sub, "1", "-1")
elementwise("multiply", operator.mul, "x1", "x0")
elementwise("divide", _as_numpy(operator.truediv, np.divide), "g / x1", "-g * y / x1")
elementwise("negative", operator.neg, "-1")
elementwise("positive", operator.pos, "1")
elementwise("reciprocal", np.reciprocal, "-y * y")
elementwise(
    "power",
    _power,
    "g * power_less(x0, x1)",
    "g * (y * log(where(x0 == 0, 1, x0)))",
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · y · log(x₀)",
)
elementwise("float_power", np.float_power,
    "g * float_power_less(x0, x1)",
    "g * (y * log(where(x0 == 0, 1, x0)))",
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · y · log(x₀)")  # fmt: skip
elementwise("square", np.square, "2 * x")
elementwise("sqrt", np.sqrt, "0.5 * g / y")
elementwise("cbrt", np.cbrt, "g / (3 * y * y)")
elementwise("floor_divide", _as_numpy(operator.floordiv, np.floor_divide), "0", "0")
elementwise("remainder", _as_numpy(operator.mod, np.remainder),
    "1", "-floor_divide(x0, x1)")  # fmt: skip
elementwise("fmod", np.fmod, "1", "-rint((x0 - y) / x1)")

for _name in (
    "add subtract multiply divide power floor_divide remainder negative positive"
    " absolute"
).split():  # NumPy's own spelling of the same ops
    UFUNCS[getattr(np, _name)] = declare(_name)

# Exponentials and logarithms

elementwise("exp", np.exp, "y")
elementwise("exp2", np.exp2, "y * 0.6931471805599453")
elementwise("expm1", np.expm1, "exp(x)")  # y + 1 cancels where x << 0
elementwise("log", np.log, "g / x")
elementwise("log2", np.log2, "g / (x * 0.6931471805599453)")
elementwise("log10", np.log10, "g / (x * 2.302585092994046)")
elementwise("log1p", np.log1p, "g / (1 + x)")
# 1 / (1 + exp(b - a)), which keeps its digits far out and where it is nearly 1; of
# two -inf the sum is -inf, and nothing flows back.
_AGAINST = "where(y == -inf, sign(y), {1}) - {0}"
elementwise("logaddexp", np.logaddexp,
    *(f"exp(-logaddexp(0, {_AGAINST.format(*pair)}))"
      for pair in (("x0", "x1"), ("x1", "x0"))),
    pretty_rule="g · exp(x₀ − y)   g · exp(x₁ − y)")  # fmt: skip
elementwise("logaddexp2", np.logaddexp2,
    *(f"exp2(-logaddexp2(0, {_AGAINST.format(*pair)}))"
      for pair in (("x0", "x1"), ("x1", "x0"))),
    pretty_rule="g · 2^(x₀ − y)   g · 2^(x₁ − y)")  # fmt: skip

# Trigonometric and hyperbolic

elementwise("sin", np.sin, "cos(x)")
elementwise("cos", np.cos, "-sin(x)")
elementwise("tan", np.tan, "1 + y**2")
# Of its own, since a product of two factors cancels in the second derivative.
elementwise("one_minus_square", lambda x: (1 - x) * (1 + x), "-2 * x")
elementwise("arcsin", np.arcsin, "g / root_of_one_minus_square(x)",
    pretty_rule="g / √(1 − x²)")  # fmt: skip
elementwise("arccos", np.arccos, "-g / root_of_one_minus_square(x)",
    pretty_rule="−g / √(1 − x²)")  # fmt: skip
elementwise("arctan", np.arctan, "g / (1 + x**2)")
# By the length twice: its square is 0, or infinite, far from where the quotient is.
elementwise("arctan2", np.arctan2,
    "by_length_twice(x1, x0, x1)", "-by_length_twice(x0, x0, x1)",
    pretty_rule="g · x₁ / (x₀² + x₁²)   −g · x₀ / (x₀² + x₁²)")  # fmt: skip
_LENGTH = "where(y == 0, inf, y)"  # at the origin all derivatives are 0
elementwise("hypot", np.hypot, f"g * x0 / {_LENGTH}", f"g * x1 / {_LENGTH}",
    pretty_rule="g · x₀ / y   g · x₁ / y")  # fmt: skip
elementwise("sinh", np.sinh, "cosh(x)")
elementwise("cosh", np.cosh, "sinh(x)")
elementwise("tanh", np.tanh, "1 - y * y")
elementwise("arcsinh", np.arcsinh, "g / sqrt(1 + x**2)")
# Two roots: the root of the product lies on another branch where Re x < 0.
elementwise("arccosh", np.arccosh, "g / (sqrt(x - 1) * sqrt(x + 1))")
elementwise("arctanh", np.arctanh, "g / one_minus_square(x)",
    pretty_rule="g / (1 − x²)")  # fmt: skip
elementwise("deg2rad", np.deg2rad, "g * 0.017453292519943295")
elementwise("radians", np.radians, "g * 0.017453292519943295")
elementwise("rad2deg", np.rad2deg, "g * 57.29577951308232")
elementwise("degrees", np.degrees, "g * 57.29577951308232")

# Choices between values

# maximum, minimum, fmax, fmin: g goes to the winner, halves at a tie. A plain 0, and
# not 0 * g, to the loser: sqrt(maximum(x, 0)) sends back inf where x < 0.

_SHARE = "where({0} == {1}, 0.5 * g, where({2}, g, 0))"
for _name, _beats in (("maximum", ">"), ("minimum", "<"), ("fmax", ">"), ("fmin", "<")):
    _wins = "{0} %s {1}" % _beats  # noqa: UP031
    if _name.startswith("f"):  # which step over a NaN
        _wins = f"({_wins}) | isnan({{1}})"
    elementwise(
        _name,
        getattr(np, _name),
        *(
            _SHARE.format(a, b, _wins.format(a, b))
            for a, b in (("x0", "x1"), ("x1", "x0"))
        ),
        pretty_rule="g to the winner, halves at a tie",
    )
elementwise("absolute", abs, "conj(sign(x))")
elementwise("fabs", np.fabs, "sign(x)")
elementwise("copysign", np.copysign, "g * (sign(x0) * sign(y))", "0")
elementwise("sign", np.sign, "0")
# Of complex arrays it is another function: `sign` in complex_parts.py.
UFUNCS.pop(np.sign)
elementwise("heaviside", np.heaviside, "0", "where(x0 == 0, g, 0)")
for _rounding in ("floor", "ceil", "trunc", "rint"):
    elementwise(_rounding, getattr(np, _rounding), "0")


def _clip_rule(side: str) -> str:
    return {
        "x": "where((x0 > x1) & (x0 < x2), g, where((x0 >= x1) & (x0 <= x2),"
        " 0.5 * g, 0 * g))",
        "low": "where((x0 < x1) & (x1 < x2), g, where((x0 == x1) & (x1 < x2),"
        " 0.5 * g, 0 * g))",
        "high": "where((x0 > x2) | (x1 >= x2), g, where(x0 == x2, 0.5 * g, 0 * g))",
    }[side]


def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.clip(x, low, high)


elementwise("clip", _clip, _clip_rule("x"), _clip_rule("low"), _clip_rule("high"),
    pretty_rule="g inside the bounds, halves on them, 0 outside")  # fmt: skip


@implements(np.clip)
def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: None = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Any:
    """`numpy.clip`; a bound of None is no bound."""
    no_out("np.clip", out)
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is None and high is None:
        return apply(declare("positive"), (a,))
    if high is None:
        return apply(declare("maximum"), (a, low))
    if low is None:
        return apply(declare("minimum"), (a, high))
    return apply(declare("clip"), (a, low, high))


# `where`: what flows back is masked, so that 0 * inf cannot become NaN


def _where_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: dict[str, Any]
) -> tuple[Any, ...]:
    condition = inputs[0]
    return (
        None,
        masked(np.where(condition, g, 0)) if mask & 2 else None,
        masked(np.where(condition, 0, g)) if mask & 4 else None,
    )


def _where_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    _, a, b = tangents
    if a is None and b is None:
        return None
    return np.where(inputs[0], 0 if a is None else a, 0 if b is None else b)


_where = elementwise("where", np.where)
_where.pull, _where.push = _where_pull, _where_push
_where.rule = "g where the condition holds   g where it does not"
_where.reads = (0,)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`numpy.where`; with the condition alone, the indices, as plain arrays.

    What is not taken never poisons a derivative: ``0 * inf`` on the way back is 0, in
    both modes, at any order. So it is with `numpy.select`, `choose`, `piecewise`,
    ``where=``, with a boolean index (``x[mask]``, ``wb.at(x)[mask].set(v)``),
    `compress`, `extract` and `delete` by a mask, and the branch of a `cond` that does
    not run. It is not so, since nothing there says what is left out, with a product
    (``mask * f(x)``), with `minimum`, `maximum`, `fmin`, `fmax`, `clip` of what is not
    finite, and with entries taken by number: ``y[2]``, `take`.
    """
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError(
            "either both or neither of x and y should be given. Write np.where(c, x,"
            " 0.0) for 0 elsewhere"
        )
    return apply(_where, (condition, x, y))


def mul0(a: Any, b: Any) -> Any:
    """``a * b``, and 0 where either is 0, be the other infinite or NaN."""
    return apply(declare("mul0"), (a, b))


def div0(a: Any, b: Any) -> Any:
    """``a / b``, and 0 where ``a`` is 0."""
    return apply(declare("div0"), (a, b))


def _choose(condition: Any, x: Any, y: Any) -> Any:
    """`numpy.where` in rules; of two numbers one, which stays a number.

    An array would be NumPy's own, and could not meet those of another library.
    """
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return np.where(condition, x, y)


def _one_minus_square(x: Any) -> Any:
    """``1 - x**2``, exact near 1 too."""
    return apply(declare("one_minus_square"), (x,))


def _root_of_one_minus_square(x: Any) -> Any:
    """``sqrt(1 - x**2)``, on the side of the branch cut that the sign of 0 says.

    ``1 - x`` and ``1 + x`` would lose that sign, ``-(x - 1)`` keeps it.
    """
    if dtype_of(x).kind == "c":
        return np.sqrt(-(x - 1)) * np.sqrt(-(-x - 1))
    return np.sqrt(_one_minus_square(x))


def _by_length_twice(x: Any, a: Any, b: Any) -> Any:
    """``x / (a**2 + b**2)``, with one length for both divisions."""
    length = np.hypot(a, b)
    return x / length / length


def _power_less(x: Any, p: Any, power: Any = _power) -> Any:
    """``p * x ** (p - 1)``, and 0 where both are 0.

    An exponent that varies is kept as it is, for the mixed derivative ``1 / x`` at
    ``p = 0``: there the base gives way. A whole one is a constant.
    """
    if dtype_of(p).kind not in "fc":
        return p * power(x, _choose(np.equal(p, 0), 1, p - 1))
    zero = np.equal(p, 0)
    if not isinstance(zero, (bool, np.bool_)):
        x = np.where(zero & np.equal(x, 0), 1, x)
    elif zero:
        x = np.where(np.equal(x, 0), 1, x)
    return p * power(x, p - 1)


def _float_power_less(x: Any, p: Any) -> Any:
    return _power_less(x, p, np.float_power)


RULE_NAMES.update(power_less=_power_less, float_power_less=_float_power_less)
RULE_NAMES["by_length_twice"] = _by_length_twice
RULE_NAMES["one_minus_square"] = _one_minus_square
RULE_NAMES["root_of_one_minus_square"] = _root_of_one_minus_square
RULE_NAMES.update(mul0=mul0, div0=div0, masked=masked, where=_choose)


elementwise("mul0", lambda a, b: _zero_wins(a, b, operator.mul),
    "masked(mul0(g, x1))", "masked(mul0(g, x0))")  # fmt: skip
elementwise("div0", lambda a, b: _zero_wins(a, b, operator.truediv),
    "masked(div0(g, x1))", "masked(-mul0(g, div0(y, x1)))")  # fmt: skip
declare("multiply").masked = declare("mul0")
declare("divide").masked = declare("div0")


def _zero_wins(a: Any, b: Any, compute: Any) -> Any:
    """``a * b`` or ``a / b``, 0 where ``a`` (in a product, either) is 0."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        out = compute(a, b)
        zero = (a == 0) | (b == 0) if compute is operator.mul else a == 0
        return np.where(zero, np.zeros_like(out), out)


linear("mask", lambda x: x, lambda g, x: masked(g)).elementwise = True


# No derivative: comparisons, predicates, logic, bits

for _name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
    elementwise(_name, getattr(np, _name))
for _name in (
    "isnan isinf isfinite signbit logical_and logical_or logical_xor logical_not"
    " bitwise_and bitwise_or bitwise_xor invert left_shift right_shift"
).split():
    elementwise(_name, getattr(np, _name))

# Identity, the kind of a leaf; `stop` cuts; `strong` makes a number a scalar

elementwise("identity", lambda x: x, "1")
STOP = elementwise("stop_gradient", lambda x: x, "0")
STOP.connection, STOP.view = severed, always
elementwise("strong", np.asarray, "1")


def stop_gradient(x: Any) -> Any:
    """The same values, with derivative zero; nests of arrays too.

    >>> import numpy as np, workbench as wb
    >>> float(wb.grad(lambda x: x * wb.stop_gradient(x))(3.0))
    3.0
    """
    from workbench.core.tree import map_tree

    return map_tree(lambda leaf: apply(declare("stop_gradient"), (leaf,)), x)
