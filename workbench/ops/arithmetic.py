"""Elementwise ops: one row each, the partial derivatives with the output named.

Kinks are fixed choices: `abs` has derivative 0 at 0, `hypot` at the origin; ties of
`maximum` and `minimum` share evenly. A complex gradient is df/dx - i df/dy.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from workbench.graph.op import UFUNCS, declare, implements
from workbench.graph.tensor import apply
from workbench.ops.define import (
    RULE_NAMES,
    dtype_of,
    elementwise,
    linear,
    masked,
    no_out,
    op,
)

__all__ = ["sign", "stop_gradient"]


# Arithmetic. Python's operators, so that Python numbers stay weak.

elementwise("add", operator.add, "1", "1")
elementwise("subtract", operator.sub, "1", "-1")
elementwise("multiply", operator.mul, "x1", "x0")
elementwise("divide", operator.truediv, "g / x1", "-g * y / x1")
elementwise("negative", operator.neg, "-1")
elementwise("positive", operator.pos, "1")
elementwise("reciprocal", np.reciprocal, "-y * y")
elementwise(
    "power",
    operator.pow,
    "g * (x1 * x0 ** where(x1 == 0, 1, x1 - 1))",
    "g * (y * log(where(x0 == 0, 1, x0)))",
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · y · log(x₀)",
)
elementwise("float_power", np.float_power,
    "g * (x1 * float_power(x0, where(x1 == 0, 1, x1 - 1)))",
    "g * (y * log(where(x0 == 0, 1, x0)))")  # fmt: skip
elementwise("square", np.square, "2 * x")
elementwise("sqrt", np.sqrt, "0.5 * g / y")
elementwise("cbrt", np.cbrt, "g / (3 * y * y)")
elementwise("floor_divide", operator.floordiv, "0", "0")
elementwise("remainder", operator.mod, "1", "-floor_divide(x0, x1)")
elementwise("fmod", np.fmod, "1", "-trunc(x0 / x1)")

for _name in (
    "add subtract multiply divide power floor_divide remainder negative positive"
    " absolute"
).split():  # NumPy's own spelling of the same ops
    UFUNCS[getattr(np, _name)] = declare(_name)

# Exponentials and logarithms

elementwise("exp", np.exp, "y")
elementwise("exp2", np.exp2, "y * 0.6931471805599453")
elementwise("expm1", np.expm1, "y + 1")
elementwise("log", np.log, "g / x")
elementwise("log2", np.log2, "g / (x * 0.6931471805599453)")
elementwise("log10", np.log10, "g / (x * 2.302585092994046)")
elementwise("log1p", np.log1p, "g / (1 + x)")
# Of two -inf the sum is -inf: exp(-inf - 0), not exp(-inf + inf).
_FINITE = "where(y == -inf, 0, y)"
elementwise("logaddexp", np.logaddexp, f"exp(x0 - {_FINITE})", f"exp(x1 - {_FINITE})",
    pretty_rule="g · exp(x₀ − y)   g · exp(x₁ − y)")  # fmt: skip
elementwise("logaddexp2", np.logaddexp2, f"exp2(x0 - {_FINITE})",
    f"exp2(x1 - {_FINITE})", pretty_rule="g · 2^(x₀ − y)   g · 2^(x₁ − y)")  # fmt: skip

# Trigonometric and hyperbolic

elementwise("sin", np.sin, "cos(x)")
elementwise("cos", np.cos, "-sin(x)")
elementwise("tan", np.tan, "1 + y**2")
elementwise("arcsin", np.arcsin, "g / sqrt(1 - x**2)")
elementwise("arccos", np.arccos, "-g / sqrt(1 - x**2)")
elementwise("arctan", np.arctan, "g / (1 + x**2)")
elementwise("arctan2", np.arctan2,
    "g * x1 / (x0**2 + x1**2)", "-g * x0 / (x0**2 + x1**2)")  # fmt: skip
_LENGTH = "where(y == 0, 1, y)"  # the derivative at the origin is 0
elementwise("hypot", np.hypot, f"g * x0 / {_LENGTH}", f"g * x1 / {_LENGTH}",
    pretty_rule="g · x₀ / y   g · x₁ / y")  # fmt: skip
elementwise("sinh", np.sinh, "cosh(x)")
elementwise("cosh", np.cosh, "sinh(x)")
elementwise("tanh", np.tanh, "1 - y * y")
elementwise("arcsinh", np.arcsinh, "g / sqrt(1 + x**2)")
elementwise("arccosh", np.arccosh, "g / sqrt((x - 1) * (x + 1))")
elementwise("arctanh", np.arctanh, "g / (1 - x**2)")
elementwise("deg2rad", np.deg2rad, "g * 0.017453292519943295")
elementwise("radians", np.radians, "g * 0.017453292519943295")
elementwise("rad2deg", np.rad2deg, "g * 57.29577951308232")
elementwise("degrees", np.degrees, "g * 57.29577951308232")

# Choices between values

# maximum, minimum, fmax, fmin: g goes to the winner, halves at a tie

_SHARE = "where({0} == {1}, 0.5 * g, where({0} {2} {1}, g, 0 * g))"
for _name, _beats in (("maximum", ">"), ("minimum", "<"), ("fmax", ">"), ("fmin", "<")):
    elementwise(
        _name,
        getattr(np, _name),
        _SHARE.format("x0", "x1", _beats),
        _SHARE.format("x1", "x0", _beats),
        pretty_rule="g to the winner, halves at a tie",
    )
elementwise("absolute", abs, "conj(sign(x))")
elementwise("fabs", np.fabs, "sign(x)")
elementwise("copysign", np.copysign, "g * (sign(x0) * sign(y))", "0")
elementwise("sign", np.sign, "0")
UFUNCS.pop(np.sign)  # of complex arrays it is another function: `sign` below
elementwise("heaviside", np.heaviside, "0", "where(x0 == 0, g, 0 * g)")
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
    """`numpy.where`; with the condition alone, the indices, as plain arrays."""
    if x is None and y is None:
        return np.nonzero(condition)
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


# Complex parts

elementwise("conjugate", np.conjugate, "conj(g)")
_real = elementwise("real", np.real, "g")
_imag = op(
    "imag",
    np.imag,
    lambda g, y, x: g * -1j if dtype_of(x).kind == "c" else 0 * g,
    push=lambda t, y, x: np.imag(t[0]),
    rule="−i g",
)
_imag.elementwise = True


@implements(np.real)
def real(val: Any) -> Any:
    """`numpy.real`."""
    return apply(_real, (val,)) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Any) -> Any:
    """`numpy.imag`."""
    return apply(_imag, (val,))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """`numpy.angle`."""
    turned = np.arctan2(np.imag(z), np.real(z))
    return np.rad2deg(turned) if deg else turned


def sign(x: Any) -> Any:
    """`numpy.sign`: constant but for complex arrays, where it is ``x / abs(x)``."""
    if dtype_of(x).kind != "c":
        return apply(declare("sign"), (x,))
    size = np.abs(x)
    return x / np.where(np.equal(size, 0), 1, size)


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
elementwise("stop_gradient", lambda x: x, "0")
elementwise("strong", np.asarray, "1")


def stop_gradient(x: Any) -> Any:
    """The same values, with derivative zero; nests of arrays too.

    >>> import numpy as np, workbench as wb
    >>> float(wb.grad(lambda x: x * wb.stop_gradient(x))(3.0))
    3.0
    """
    from workbench.graph.tree import map_tree

    return map_tree(lambda leaf: apply(declare("stop_gradient"), (leaf,)), x)


# `round` and predicates that NumPy does not dispatch as ufuncs


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`numpy.round`, whose derivative is zero."""
    no_out("np.round", out)
    scale = 10.0**decimals
    return np.rint(a * scale) / scale


# Written with the rows above


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """`numpy.nan_to_num`; what is replaced has derivative zero."""
    limits = np.finfo(dtype_of(x))
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    x = np.where(np.isnan(x), nan, x)
    x = np.where(np.equal(x, np.inf), posinf, x)
    return np.where(np.equal(x, -np.inf), neginf, x)


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """`numpy.sinc`; near 0 by its series, so that all its derivatives are right."""
    near = np.abs(x) < 0.02
    angle = np.pi * np.where(near, 1, x)
    z = np.square(np.pi * np.where(near, x, 0))
    series = 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72)))
    return np.where(near, series, np.sin(angle) / angle)


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """`numpy.isclose`."""
    finite = np.isfinite(a) & np.isfinite(b)
    near = np.abs(a - b) <= atol + rtol * np.abs(b)
    y = np.where(finite, near, np.equal(a, b))
    return y | (np.isnan(a) & np.isnan(b)) if equal_nan else y


@implements(np.allclose)
def allclose(
    a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Any:
    """`numpy.allclose`."""
    return np.all(np.isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """`numpy.array_equal`."""
    if np.shape(a1) != np.shape(a2):
        return False
    same = np.equal(a1, a2)
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@implements(np.fix)
def fix(x: Any, out: None = None) -> Any:
    """`numpy.fix`."""
    no_out("np.fix", out)
    return np.trunc(x)


@implements(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """`numpy.polyval`, by Horner's rule."""
    y = 0 * x
    for factor in p:
        y = y * x + factor
    return y
