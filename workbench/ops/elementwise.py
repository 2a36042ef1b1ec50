"""Elementwise ops: one row each, the partial derivatives with the output named.

Kinks are fixed choices: `abs` has derivative 0 at 0, `hypot` at the origin, and so
have both all higher ones, while their even powers have the derivatives of squares
(`Op.root`); ties of `maximum` and `minimum` share evenly. A complex gradient is
df/dx - i df/dy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.inplace import write
from workbench.core.op import (
    UFUNCS,
    View,
    connect_nothing,
    declare,
    implements,
    note_traits,
)
from workbench.core.tensor import (
    IDENTITY,
    Tensor,
    admit,
    apply,
    mask_cotangent,
    value_of,
)
from workbench.core.trace import is_live
from workbench.core.traits import Exponential, Spelling
from workbench.core.tree import map_tree
from workbench.core.types import Array, ArrayLike, Tangent
from workbench.errors import TraceError
from workbench.ops import singular
from workbench.ops.define import (
    RULE_NAMES,
    Compute,
    convert_dtype,
    dtype_of,
    elementwise,
    linear,
    op,
    refuse_where,
    root_of,
    shape_of,
)
from workbench.ops.device import on_cupy
from workbench.ops.shaping import lay_out

# Arithmetic. Python's operators, so that Python numbers stay weak.


def _as_numpy(
    operate: Callable[[Any, Any], Any], ufunc: np.ufunc
) -> Callable[[Any, Any], Any]:
    """Return an operator that gives inf or NaN where Python raises, as arrays do."""

    def compute(a: Array, b: Array) -> Array:
        try:
            return operate(a, b)
        except (ZeroDivisionError, OverflowError):
            if not any(isinstance(x, (float, complex)) for x in (a, b)):
                raise  # the value of inf or NaN says enough
            with np.errstate(all="ignore"):  # what is found is told by its value
                return ufunc(a, b).item()

    return compute


def always_pairs(inputs: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Return the ``pairs`` of a product entry by entry."""
    return True


def _constant_exponent(inputs: tuple[Any, ...]) -> Any:
    """Return the values of an exponent that is a constant, else None."""
    p = inputs[1]
    if isinstance(p, Tensor) and (p.inputs or p.op is not IDENTITY or is_live(p)):
        return None
    return value_of(p)


def _is_half(inputs: tuple[Any, ...]) -> bool:
    if type(inputs[1]) is int:  # a square, as it mostly is
        return False
    p = _constant_exponent(inputs)
    return isinstance(p, (float, np.ndarray)) and np.ndim(p) == 0 and bool(p == 0.5)


def _even_power(inputs: tuple[Any, ...]) -> Callable[[Any], Any] | None:
    """Return the ``even`` of a power, if its exponent is even and a constant."""
    p: Any = _constant_exponent(inputs)
    if p is None or dtype_of(p).kind not in "iuf" or not np.all((p % 2 == 0) & (p > 0)):
        return None
    x, p = inputs
    if np.ndim(p) == 0 and value_of(p) == 2:
        return lambda g: 2 * g
    return lambda g: g * (p * x ** (p - 2))


def _read_difference(*operands: Any) -> tuple[Any, Any] | None:
    """Return the operands of the difference that a sum with a negative is."""
    for x, y in (operands, operands[::-1]):
        if isinstance(y, Tensor):
            if y.op.name == "negative":
                return x, y.inputs[0]
        elif isinstance(y, (int, float)) and y < 0:
            return x, -y
    return None


def _read_square(x: Any, p: Any) -> tuple[Any, Any] | None:
    """Return the factors of a power that is a square."""
    return (x, x) if isinstance(p, (int, float)) and p == 2 else None


_power = _as_numpy(operator.pow, np.power)
elementwise("add", operator.add, "1", "1", template="{0} + {1}",
    spelling=Spelling("subtract", _read_difference),
    commutative=True, sums=True, grows=True, analytic=True)  # fmt: skip
elementwise("subtract", operator.sub, "1", "-1", template="{0} - {1}",
    sums=True, grows=True, analytic=True)  # fmt: skip
elementwise("multiply", operator.mul, "x1", "x0", template="{0} * {1}",
    commutative=True, grows=True, analytic=True,
    carries=(0, 1)).pairs = always_pairs  # fmt: skip
elementwise("divide", _as_numpy(operator.truediv, np.divide),
    "g / x1", "-g * y / x1", template="{0} / {1}", carries=(0,),
    grows=True, aliases=("true_divide",), undefined=singular.QUOTIENT,
    steep=singular.STEEP_QUOTIENT, safe="safe_divide")  # fmt: skip
elementwise("negative", operator.neg, "-1", template="-{0}", carries=(0,),
    analytic=True)  # fmt: skip
elementwise("positive", operator.pos, "1", template="{0}", carries=(0,), passes=True,
    analytic=True)  # fmt: skip
elementwise("reciprocal", np.reciprocal, "-y * y", scalar="1 / x", grows=True,
    spelling=Spelling("divide", lambda x: (1, x)),
    undefined=singular.RECIPROCAL, steep=singular.STEEP_RECIPROCAL,
    safe="safe_divide")  # fmt: skip
_ROOT = root_of("0.5", "0", infinite=True, holds=_is_half)
elementwise(
    "power",
    _power,
    "g * power_less(x0, x1)",
    "g * (y * log(where(x0 == 0, 1, x0)))",
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · y · log(x₀)",
    root=_ROOT,
    spelling=Spelling("multiply", _read_square),
    template="{0} ** {1}",
    aliases=("pow",),
    undefined=singular.POWER,
    steep=singular.STEEP_POWER,
    safe="safe_power",
    grows=True,
).even = _even_power
elementwise(
    "float_power",
    np.float_power,
    "g * float_power_less(x0, x1)",
    "g * (y * log(where(x0 == 0, 1, x0)))",
    root=_ROOT,
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · y · log(x₀)",
    scalar="x0 ** x1",
    undefined=singular.POWER,
    steep=singular.STEEP_POWER,
    safe="safe_power",
    grows=True,
).even = _even_power
elementwise(
    "square",
    np.square,
    "2 * x",
    scalar="x * x",
    grows=True,
    analytic=True,
    spelling=Spelling("multiply", lambda x: (x, x)),
).even = lambda inputs: lambda g: 2 * g
elementwise("sqrt", np.sqrt, "0.5 * g / y", root=root_of("0.5", infinite=True),
    undefined=singular.ROOT, steep=singular.STEEP_ROOT, safe="safe_sqrt")  # fmt: skip
elementwise("cbrt", np.cbrt, "g / (3 * y * y)", steep=singular.STEEP_CUBE_ROOT)
elementwise("floor_divide", _as_numpy(operator.floordiv, np.floor_divide),
    "0", "0", template="{0} // {1}", flat="rounding",
    undefined=singular.WHOLE_QUOTIENT)  # fmt: skip
elementwise("remainder", _as_numpy(operator.mod, np.remainder),
    "1", "-floor_divide(x0, x1)", template="{0} % {1}", aliases=("mod",),
    undefined=singular.WHOLE_QUOTIENT)  # fmt: skip
elementwise("fmod", np.fmod, "1", "-rint((x0 - y) / x1)",
    undefined=singular.WHOLE_QUOTIENT)  # fmt: skip

for _name in (
    "add subtract multiply divide power floor_divide remainder negative positive"
    " absolute"
).split():  # NumPy's own spelling of the same ops
    UFUNCS[getattr(np, _name)] = declare(_name)
    declare(_name).ufunc = getattr(np, _name)

# Exponentials and logarithms

elementwise("exp", np.exp, "y", exponential=Exponential(np.log), grows=True,
    analytic=True, safe="safe_exp")  # fmt: skip
elementwise("exp2", np.exp2, "y * 0.6931471805599453",
    exponential=Exponential(np.log2), grows=True, safe="safe_exp")  # fmt: skip
elementwise("expm1", np.expm1, "exp(x)",  # y + 1 cancels where x << 0
    exponential=Exponential(np.log), grows=True, safe="safe_exp")  # fmt: skip
for _name, _slope in (
    ("log", "g / x"),
    ("log2", "g / (x * 0.6931471805599453)"),
    ("log10", "g / (x * 2.302585092994046)"),
):
    elementwise(_name, getattr(np, _name), _slope, undefined=singular.LOGARITHM,
        steep=singular.STEEP_LOGARITHM, safe="safe_log")  # fmt: skip
elementwise("log1p", np.log1p, "g / (1 + x)", undefined=singular.LOGARITHM_OF_NEXT,
    steep=singular.STEEP_LOGARITHM_OF_NEXT, safe="safe_log")  # fmt: skip
# 1 / (1 + exp(b - a)), which keeps its digits far out and where it is nearly 1; of
# two -inf the sum is -inf, and nothing flows back.
_AGAINST = "where(y == -inf, sign(y), {1}) - {0}"
elementwise("logaddexp", np.logaddexp,
    *(f"exp(-logaddexp(0, {_AGAINST.format(*pair)}))"
      for pair in (("x0", "x1"), ("x1", "x0"))),
    pretty_rule="g · exp(x₀ − y)   g · exp(x₁ − y)", commutative=True, grows=True,
    scalar="where(x0 == x1, x0 + 0.6931471805599453, where(x0 > x1,"
    " x0 + log1p(exp(x1 - x0)), where(x0 < x1, x1 + log1p(exp(x0 - x1)),"
    " x0 - x1)))")  # fmt: skip
elementwise("logaddexp2", np.logaddexp2,
    *(f"exp2(-logaddexp2(0, {_AGAINST.format(*pair)}))"
      for pair in (("x0", "x1"), ("x1", "x0"))),
    pretty_rule="g · 2^(x₀ − y)   g · 2^(x₁ − y)", commutative=True,
    scalar="where(x0 == x1, x0 + 1, where(x0 > x1,"
    " x0 + 1.4426950408889634 * log1p(exp2(x1 - x0)), where(x0 < x1,"
    " x1 + 1.4426950408889634 * log1p(exp2(x0 - x1)), x0 - x1)))")  # fmt: skip

# Trigonometric and hyperbolic

elementwise("sin", np.sin, "cos(x)", analytic=True)
elementwise("cos", np.cos, "-sin(x)", analytic=True)
elementwise("tan", np.tan, "1 + y**2", analytic=True)
# Of its own, since a product of two factors cancels in the second derivative.
elementwise("one_minus_square", lambda x: (1 - x) * (1 + x), "-2 * x",
    template="(1 - {0}) * (1 + {0})", scalar="(1 - x) * (1 + x)")  # fmt: skip
elementwise("arcsin", np.arcsin, "g / root_of_one_minus_square(x)",
    pretty_rule="g / √(1 − x²)", aliases=("asin",),
    undefined=singular.COSINE, steep=singular.STEEP_COSINE,
    safe="safe_arcsin")  # fmt: skip
elementwise("arccos", np.arccos, "-g / root_of_one_minus_square(x)",
    pretty_rule="−g / √(1 − x²)", aliases=("acos",),
    undefined=singular.COSINE, steep=singular.STEEP_COSINE,
    safe="safe_arccos")  # fmt: skip
elementwise("arctan", np.arctan, "g / (1 + x**2)", aliases=("atan",), analytic=True,
    saturates=True)  # fmt: skip
# By the length twice: its square is 0, or infinite, far from where the quotient is.
elementwise("arctan2", np.arctan2,
    "by_length_twice(x1, x0, x1)", "-by_length_twice(x0, x0, x1)",
    pretty_rule="g · x₁ / (x₀² + x₁²)   −g · x₀ / (x₀² + x₁²)", aliases=("atan2",),
    steep=singular.STEEP_ANGLE, safe="safe_atan2")  # fmt: skip
_LENGTH = "where(y == 0, inf, y)"  # at the origin all derivatives are 0
# The root of a sum of squares, as of a variance: 0 with all its derivatives at 0.
elementwise("root_of_squares", lambda x: np.sqrt(x), f"0.5 * g / {_LENGTH}",
    root=root_of("0.5"), pretty_rule="g / (2 y), 0 at 0", template="np.sqrt({0})",
    scalar="sqrt(x)")  # fmt: skip
elementwise("hypot", np.hypot, f"g * x0 / {_LENGTH}", f"g * x1 / {_LENGTH}",
    root=root_of("x0", "x1"), pretty_rule="g · x₀ / y   g · x₁ / y", commutative=True,
    grows=True, safe="safe_norm")  # fmt: skip
elementwise("sinh", np.sinh, "cosh(x)", exponential=Exponential(np.log, even=True),
    grows=True, analytic=True)  # fmt: skip
elementwise("cosh", np.cosh, "sinh(x)", exponential=Exponential(np.log, even=True),
    grows=True, analytic=True)  # fmt: skip
elementwise("tanh", np.tanh, "1 - y * y", analytic=True, saturates=True,
    logistic=(-1, 1))  # fmt: skip
elementwise("arcsinh", np.arcsinh, "g / sqrt(1 + x**2)", aliases=("asinh",),
    analytic=True)  # fmt: skip
# Two roots: the root of the product lies on another branch where Re x < 0.
elementwise("arccosh", np.arccosh, "g / (sqrt(x - 1) * sqrt(x + 1))",
    aliases=("acosh",), undefined=singular.FROM_ONE,
    steep=singular.STEEP_FROM_ONE)  # fmt: skip
elementwise("arctanh", np.arctanh, "g / one_minus_square(x)",
    pretty_rule="g / (1 − x²)", aliases=("atanh",), undefined=singular.BETWEEN_ONES,
    steep=singular.STEEP_BETWEEN_ONES)  # fmt: skip
for _name in ("deg2rad", "radians"):
    elementwise(_name, getattr(np, _name), "g * 0.017453292519943295",
        scalar="x * (pi / 180)")  # fmt: skip
for _name in ("rad2deg", "degrees"):
    elementwise(_name, getattr(np, _name), "g * 57.29577951308232",
        scalar="x * (180 / pi)")  # fmt: skip

# Choices between values

# maximum, minimum, fmax, fmin: g goes to the winner, halves at a tie. A plain 0, and
# not 0 * g, to the loser: sqrt(maximum(x, 0)) sends back inf where x < 0. fmax and fmin
# step over a NaN: what made it gets a masked 0, as from `where`.

_SHARE = "where({0} == {1}, 0.5 * g, where({2}, g, 0))"
for _name, _beats in (("maximum", ">"), ("minimum", "<"), ("fmax", ">"), ("fmin", "<")):
    _wins, _share, _scalar = "{0} %s {1}" % _beats, _SHARE, ""  # noqa: UP031
    if _name.startswith("f"):
        _wins, _share = f"({_wins}) | isnan({{1}})", f"masked({_SHARE})"
        _scalar = f"where((x0 {_beats}= x1) | (x1 != x1), x0, x1)"
    elementwise(
        _name,
        getattr(np, _name),
        *(
            _share.format(a, b, _wins.format(a, b))
            for a, b in (("x0", "x1"), ("x1", "x0"))
        ),
        pretty_rule="g to the winner, halves at a tie",
        scalar=_scalar,
        commutative=True,
        picks=_beats,
        selects=True,
    )
elementwise("absolute", abs, "conj(sign(x))", root=root_of("conj(x)"), grows=True,
    aliases=("abs",))  # fmt: skip
elementwise("fabs", np.fabs, "sign(x)", root=root_of("x"), scalar="abs(x)")
elementwise("copysign", np.copysign, "g * (sign(x0) * sign(y))", "0")
elementwise("sign", np.sign, "0", flat="comparison",
    scalar="where(x > 0, 1, where(x < 0, -1, where(x == 0, 0, x)))")  # fmt: skip
# Of complex arrays it is another function: `sign`, at the end of this file.
UFUNCS.pop(np.sign)
elementwise("heaviside", np.heaviside, "0", "where(x0 == 0, g, 0)", flat="comparison",
    scalar="where(x0 > 0, 1, where(x0 < 0, 0, where(x0 == 0, x1, x0)))")  # fmt: skip
for _rounding in ("floor", "ceil", "trunc", "rint"):
    elementwise(_rounding, getattr(np, _rounding), "0", flat="rounding")
note_traits("trunc", aliases=("fix",))
note_traits("rint", aliases=("round",))


def _clip_rule(side: str) -> str:
    return {
        "x": "where((x0 > x1) & (x0 < x2), g, where((x0 >= x1) & (x0 <= x2),"
        " 0.5 * g, 0 * g))",
        "low": "where((x0 < x1) & (x1 < x2), g, where((x0 == x1) & (x1 < x2),"
        " 0.5 * g, 0 * g))",
        "high": "where((x0 > x2) | (x1 >= x2), g, where(x0 == x2, 0.5 * g, 0 * g))",
    }[side]


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.clip(x, low, high)


elementwise("clip", _clip, _clip_rule("x"), _clip_rule("low"), _clip_rule("high"),
    pretty_rule="g inside the bounds, halves on them, 0 outside",
    scalar="minimum(maximum(x0, x1), x2)", selects=True)  # fmt: skip


@implements(np.clip)
def clip(
    a: Array,
    a_min: Array | None = None,
    a_max: Array | None = None,
    out: None = None,
    *,
    min: Array | None = None,
    max: Array | None = None,
    where: Array | bool = True,
    dtype: npt.DTypeLike | None = None,
    **settings: Any,
) -> Array:
    """Clip to bounds, as `numpy.clip` does; None sets no bound.

    Of the settings of a ufunc, ``casting``, ``order`` and ``subok`` change nothing.
    """
    refuse_where("np.clip", where)
    if dtype is not None:
        a = convert_dtype(a, dtype)
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
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: dict[str, Any]
) -> tuple[Any, ...]:
    condition = inputs[0]
    return (
        None,
        mask_cotangent(np.where(condition, g, 0)) if mask & 2 else None,
        mask_cotangent(np.where(condition, 0, g)) if mask & 4 else None,
    )


def _where_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: dict[str, Any]
) -> Tangent:
    _, a, b = tangents
    if a is None and b is None:
        return None
    return np.where(inputs[0], 0 if a is None else a, 0 if b is None else b)


WHERE = elementwise("where", np.where, selects=True)
WHERE.pull, WHERE.push = _where_pull, _where_push
WHERE.rule = "g where the condition holds   g where it does not"
WHERE.reads, WHERE.joins = (0,), 1


@implements(np.where)
def where(
    condition: Array, x: ArrayLike | None = None, y: ArrayLike | None = None
) -> Array | tuple[Any, ...]:
    """Choose entries as `numpy.where` does; of a condition alone, return indices.

    What is not taken never poisons a derivative: ``0 * inf`` on the way back is 0, in
    both modes, at any order. So it is with `numpy.select`, `choose`, `piecewise`,
    ``where=``, with a boolean index (``x[mask]``, ``wb.at(x)[mask].set(v)``),
    `compress`, `extract` and `delete` by a mask, with the NaN that `fmin`, `fmax`,
    `nanmedian` and their kin skip, and the branch of a `cond` that does not run. It is
    not so, since nothing there says what is left out, with a product (``mask * f(x)``),
    with `minimum`, `maximum`, `clip` of what is not finite, and with entries taken by
    number: ``y[2]``, `take`.
    """
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError(
            "either both or neither of x and y should be given. Write np.where(c, x,"
            " 0.0) for 0 elsewhere"
        )
    return apply(WHERE, (condition, x, y))


def mul0(a: Array, b: Array) -> Array:
    """Return ``a * b``, and 0 where a factor is 0, even times infinity or NaN."""
    return apply(declare("mul0"), (a, b))


def div0(a: Array, b: Array) -> Array:
    """Return ``a / b``, and 0 where ``a`` is 0."""
    return apply(declare("div0"), (a, b))


def _choose(
    condition: Array | bool, x: Array | complex, y: Array | complex
) -> Array | complex:
    """Choose as `numpy.where` does, in rules; of two numbers, return a number.

    An array would be NumPy's own, and could not meet those of another library.
    """
    if isinstance(condition, (bool, np.bool_)):
        return x if condition else y
    return np.where(condition, x, y)


def _one_minus_square(x: Array) -> Array:
    """Return ``1 - x**2``, exact near 1 too."""
    return apply(declare("one_minus_square"), (x,))


def _root_of_one_minus_square(x: Array) -> Array:
    """Return ``sqrt(1 - x**2)``, on the side of the cut that the sign of 0 says.

    ``1 - x`` and ``1 + x`` would lose that sign, ``-(x - 1)`` keeps it.
    """
    if dtype_of(x).kind == "c":
        return np.sqrt(-(x - 1)) * np.sqrt(-(-x - 1))
    return np.sqrt(_one_minus_square(x))


def _by_length_twice(x: Array, a: Array, b: Array) -> Array:
    """Return ``x / (a**2 + b**2)``, with one length for both divisions."""
    length = np.hypot(a, b)
    return x / length / length


def _power_less(
    x: Array | complex, p: Array | complex, power: Callable[[Any, Any], Any] = _power
) -> Array:
    """Return ``p * x ** (p - 1)``, and 0 where both are 0.

    An exponent that varies is kept as it is, for the mixed derivative ``1 / x`` at
    ``p = 0``: there the base gives way. A whole one is a constant.
    """
    if type(p) is int:  # a plain number, as it mostly is
        return p * power(x, p - 1 if p else 1)
    if dtype_of(p).kind not in "fc":
        return p * power(x, _choose(np.equal(p, 0), 1, p - 1))
    zero = np.equal(p, 0)
    if not isinstance(zero, (bool, np.bool_)):
        x = np.where(zero & np.equal(x, 0), 1, x)
    elif zero:
        x = np.where(np.equal(x, 0), 1, x)
    return p * power(x, p - 1)


def _float_power_less(x: Array | complex, p: Array | complex) -> Array:
    return _power_less(x, p, np.float_power)


RULE_NAMES.update(power_less=_power_less, float_power_less=_float_power_less)
RULE_NAMES["by_length_twice"] = _by_length_twice
RULE_NAMES["one_minus_square"] = _one_minus_square
RULE_NAMES["root_of_one_minus_square"] = _root_of_one_minus_square
RULE_NAMES.update(mul0=mul0, div0=div0, masked=mask_cotangent, where=_choose)


elementwise("mul0", lambda a, b: _zero_wins(a, b, operator.mul),
    "masked(mul0(g, x1))", "masked(mul0(g, x0))",
    scalar="where((x0 == 0) | (x1 == 0), 0, x0 * x1)", carries=(0, 1), helper='''\
def mul0(a, b):
    """a * b, and 0 where either is 0, be the other infinite or NaN."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | (b == 0), 0, a * b)
''')  # fmt: skip
elementwise("div0", lambda a, b: _zero_wins(a, b, operator.truediv),
    "masked(div0(g, x1))", "masked(-mul0(g, div0(y, x1)))",
    scalar="where(x0 == 0, 0, x0 / x1)", carries=(0,), helper='''\
def div0(a, b):
    """a / b, and 0 where a is 0."""
    with np.errstate(all="ignore"):
        return np.where(a == 0, 0, a / b)
''')  # fmt: skip
declare("mul0").pairs = always_pairs
note_traits("mul0 div0", grows=True)
declare("multiply").masked = declare("mul0")
declare("divide").masked = declare("div0")


def _zero_wins(a: Array, b: Array, compute: Compute) -> Array:
    """Return ``a * b`` or ``a / b``; 0 where ``a`` (of a product, either) is 0."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        out = compute(a, b)
        zero = (a == 0) | (b == 0) if compute is operator.mul else a == 0
        return np.where(zero, np.zeros_like(out), out)


MASK = linear(
    "mask", lambda x: x, lambda g, x: mask_cotangent(g), template="{0}", carries=(0,),
    passes=True,
)  # fmt: skip
MASK.elementwise = True


# No derivative: comparisons, predicates, logic, bits

for _name, _written in (
    ("less", "<"), ("less_equal", "<="), ("greater", ">"), ("greater_equal", ">="),
    ("equal", "=="), ("not_equal", "!="), ("bitwise_and", "&"), ("bitwise_or", "|"),
    ("bitwise_xor", "^"), ("left_shift", "<<"), ("right_shift", ">>"),
):  # fmt: skip
    elementwise(_name, getattr(np, _name), template=f"{{0}} {_written} {{1}}")
for _name, _scalar in {
    "isnan": "x != x", "isinf": "abs(x) == inf", "isfinite": "abs(x) < inf",
    "signbit": "", "invert": "", "logical_not": "x == 0",
    "logical_and": "(x0 != 0) & (x1 != 0)", "logical_or": "(x0 != 0) | (x1 != 0)",
    "logical_xor": "(x0 != 0) ^ (x1 != 0)",
}.items():  # fmt: skip
    elementwise(_name, getattr(np, _name), scalar=_scalar)
note_traits(
    "less less_equal greater greater_equal equal not_equal signbit logical_and"
    " logical_or logical_not",
    flat="comparison",
)
note_traits(
    "equal not_equal bitwise_and bitwise_or bitwise_xor logical_and logical_or"
    " logical_xor",
    commutative=True,
)

# Identity, the kind of a leaf; `stop` cuts; `strong` makes a number a scalar

elementwise("identity", lambda x: x, "1", template="{0}", passes=True)
STOP = elementwise("stop_gradient", lambda x: x, "0", template="{0}", passes=True,
    flat="stop", purpose="stops the gradient")  # fmt: skip
STOP.connection = connect_nothing
STOP.view = View(put=lambda x, part, params: part)
elementwise("strong", np.asarray, "1", template="np.asarray({0})", carries=(0,),
    passes=True, moves=True)  # fmt: skip


def stop_gradient(x: Any) -> Any:
    """Return the same values, with derivative zero.

    Parameters
    ----------
    x
        An array, a number, or a nest of them.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> float(wb.grad(lambda x: x * wb.stop_gradient(x))(3.0))
    3.0
    """
    return map_tree(lambda leaf: apply(declare("stop_gradient"), (leaf,)), x)


# Rounding, the parts of a floating-point number, and what mends special values.
#
# `frexp` gives the mantissa with derivative 2 to minus the exponent, `ldexp` scales
# by powers of 2. Rounded numbers are constant almost everywhere: derivative 0.

# round, fix


def _round_compute(x: Array, *, decimals: int = 0) -> Array:
    return np.round(x, decimals)


def _round_body(x: Array, *, decimals: int = 0) -> Any:
    kind = dtype_of(x).kind
    if decimals == 0 and kind in "fc":
        return np.rint(x)
    if decimals >= 0 and kind in "iu":
        return np.positive(x)
    if kind != "f" or dtype_of(x).char == "e":
        return None
    scale = 10.0 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


elementwise("round", _round_compute, "0", unfold=_round_body, flat="rounding",
    aliases=("around",))  # fmt: skip


@implements(np.round, np.around)
def round_(a: Array, decimals: int = 0, out: None = None) -> Array:
    """Round to decimals, as `numpy.round` does, with derivative zero."""
    return apply(declare("round"), (a,), {"decimals": decimals} if decimals else {})


@implements(np.fix)
def fix(x: Array, out: None = None) -> Array:
    """Round towards zero, as `numpy.fix` does."""
    return np.trunc(x)


# The parts of a number

elementwise("nextafter", np.nextafter, "1", "0")
elementwise("spacing", np.spacing, "0")


@on_cupy(declare("spacing"))
def _spacing_on_cupy(x: Array) -> Array:
    ahead = np.nextafter(x, np.copysign(np.inf, x).astype(x.dtype))
    back = np.nextafter(x, 0 * x)
    last = np.isinf(ahead) & np.isfinite(x)
    return np.where(np.isinf(x), np.nan, np.where(last, x - back, ahead - x))


elementwise("ldexp", np.ldexp, "ldexp(g, x1)", "0")
elementwise("exponent", lambda x: np.frexp(x)[1], template="np.frexp({0})[1]")
elementwise("fraction", lambda x: np.modf(x)[0], "1", template="np.modf({0})[0]",
    scalar="copysign(where(abs(x) == inf, 0, x - trunc(x)), x)")  # fmt: skip


def frexp(x: Array) -> tuple[Any, Any]:
    """Split into the mantissa, which varies, and the exponent, which does not."""
    exponent = apply(declare("exponent"), (x,))
    return np.ldexp(x, -exponent), exponent


def modf(x: Array) -> tuple[Any, Any]:
    """Split into the fraction, which varies, and the whole part, which does not."""
    return apply(declare("fraction"), (x,)), np.trunc(x)


# Whole numbers: no derivative

for _name in ("gcd", "lcm", "bitwise_count"):
    elementwise(_name, getattr(np, _name))


# Special values


@implements(np.nan_to_num)
def nan_to_num(
    x: Array,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Replace NaN and infinities; replaced entries have derivative zero."""
    if not copy and isinstance(x, Tensor):
        fill = nan, posinf, neginf
        write(x, "np.nan_to_num(...)", lambda y: nan_to_num(y, True, *fill))
        return x
    dtype = dtype_of(x)
    if dtype.kind not in "fc":
        return np.copy(x)
    if dtype.kind == "c":
        parts = [nan_to_num(p, True, nan, posinf, neginf) for p in (x.real, x.imag)]
        return (parts[0] + parts[1] * 1j).astype(dtype)
    limits = np.finfo(dtype)
    # Python numbers: they keep the dtype of x.
    posinf = float(limits.max) if posinf is None else posinf
    neginf = float(limits.min) if neginf is None else neginf
    x = np.where(np.isnan(x), nan, x)
    x = np.where(np.equal(x, np.inf), posinf, x)
    return np.where(np.equal(x, -np.inf), neginf, x).astype(dtype)


@implements(np.sinc)
def sinc(x: Array) -> Array:
    """Compute `numpy.sinc`, near 0 by its series, so that all derivatives are right."""
    near = np.abs(x) < 0.02
    angle = np.pi * np.where(near, 1, x)
    z = np.square(np.pi * np.where(near, x, 0))
    series = 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72)))
    return np.where(near, series, np.sin(angle) / angle)


@implements(np.i0)
def i0(x: Any) -> Array:
    """Compute `numpy.i0`, a modified Bessel function; its slope is that of order 1.

    The ops of `scipy.special` have both. DLMF 10.29.3.
    """
    if dtype_of(x).kind == "c":
        raise TypeError("i0 not supported for complex values")
    from scipy.special import i0 as bessel

    return bessel(x)


# Comparisons and tests that NumPy writes with others: none has a derivative.


@implements(np.isclose)
def isclose(
    a: Array,
    b: Array,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Return which entries are equal within tolerances, as `numpy.isclose` does."""
    a, b = admit(a), admit(b)
    finite = np.isfinite(a) & np.isfinite(b)
    near = np.abs(a - b) <= admit(atol) + admit(rtol) * np.abs(b)
    y = np.where(finite, near, np.equal(a, b))
    return y | (np.isnan(a) & np.isnan(b)) if equal_nan else y


@implements(np.allclose)
def allclose(
    a: Array,
    b: Array,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array | np.bool:
    """Return whether all entries are close, as `numpy.allclose`."""
    return np.all(np.isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(
    a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False
) -> Array | np.bool | bool:
    """Return whether shapes and entries are equal, as `numpy.array_equal`."""
    a1, a2 = admit(a1), admit(a2)
    if shape_of(a1) != shape_of(a2):
        return False
    same = np.equal(a1, a2)
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array | np.bool | bool:
    """Return whether arrays are equal once one is broadcast to the other."""
    a1, a2 = admit(a1), admit(a2)
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:  # shapes that do not fit are not equivalent
        return False
    return np.all(np.equal(a1, a2))


def _signed(name: str, x: Array, out: object, sign: float) -> Array:
    if dtype_of(x).kind == "c":
        raise TypeError(
            f"This operation is not supported for {dtype_of(x)} values because it would"
            " be ambiguous."
        )
    return np.equal(x, sign * np.inf)


@implements(np.isposinf)
def isposinf(x: Array, out: None = None) -> Array:
    """Return which entries are positive infinity, as `numpy.isposinf` does."""
    return _signed("isposinf", x, out, 1)


@implements(np.isneginf)
def isneginf(x: Array, out: None = None) -> Array:
    """Return which entries are negative infinity, as `numpy.isneginf` does."""
    return _signed("isneginf", x, out, -1)


# Complex numbers: their parts, angle and sign, and what asks for them.
#
# A complex gradient is df/dx - i df/dy. The sign of a complex number is its direction,
# which has no derivative at 0: there it is taken as 0, as that of all lengths.

elementwise("conjugate", np.conjugate, "conj(g)", aliases=("conj",))
_real = elementwise("real", np.real, "g")
_imag = op(
    "imag",
    np.imag,
    lambda g, y, x: g * -1j if dtype_of(x).kind == "c" else 0 * g,
    push=lambda t, y, x: np.imag(t[0]),
    rule="−i g",
    reads=(),
)
_imag.elementwise = True


def _put_real(x: Array, part: Array, params: dict[str, Any]) -> Array:
    return np.imag(x) * 1j + part if dtype_of(x).kind == "c" else part


_real.view = View(put=_put_real)
_imag.view = View(put=lambda x, part, params: np.real(x) + part * 1j)


def conjugate(x: Array) -> Array:
    """Return the conjugate of a complex array; return a real array unchanged."""
    return np.conjugate(x) if dtype_of(x).kind == "c" else x


@implements(np.real)
def real(val: Array) -> Array:
    """Return the real part, as `numpy.real` does."""
    return apply(_real, (val,)) if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val: Array) -> Array:
    """Return the imaginary part, as `numpy.imag` does."""
    return apply(_imag, (val,))


@implements(np.angle)
def angle(z: Array, deg: bool = False) -> Array:
    """Return the angle of complex numbers, as `numpy.angle` does."""
    turned = np.arctan2(np.imag(z), np.real(z))
    return np.rad2deg(turned) if deg else turned


def divide_by_length(x: Array, length: Array) -> Array:
    """Return ``x / length``; where the length is 0, 0 with all its derivatives."""
    zero = np.equal(length, 0)
    if dtype_of(x).kind == "c":  # which CuPy divides by infinity to NaN
        return np.where(zero, 0, x / np.where(zero, 1, length))
    return x / np.where(zero, np.inf, length)


def _direction(x: Array) -> Array:
    """Return ``x / abs(x)``, by parts: a complex divisor may overflow on the way."""
    if isinstance(x, (np.ndarray, np.generic, complex)):
        return np.sign(x)
    size = np.abs(x)
    safe = np.where(np.equal(size, 0), 1, size)
    return np.real(x) / safe + 1j * (np.imag(x) / safe)


# With u = ȳ dx, the direction turns by Im(u) / |x|: dy = i y Im(u) / |x|.
_sign = op(
    "direction",
    _direction,
    lambda g, y, x: 1j * np.conjugate(y) * divide_by_length(np.imag(g * y), np.abs(x)),
    push=lambda t, y, x: (
        1j * y * divide_by_length(np.imag(np.conjugate(y) * t[0]), np.abs(x))
    ),
    rule="i ȳ · Im(g y) / |x|, 0 at 0",
    template="np.sign({0})",
    reads=(0, "y"),
)
_sign.elementwise = True


def sign(x: Array) -> Array:
    """Return the sign: constant where real, ``x / abs(x)`` where complex."""
    made = _sign if dtype_of(x).kind == "c" else declare("sign")
    return apply(made, (x,))


@implements(np.iscomplex)
def iscomplex(x: Array) -> Array:
    """Return which entries have an imaginary part, as `numpy.iscomplex` does."""
    y = np.not_equal(np.imag(x), 0)
    return y if dtype_of(x).kind == "c" else lay_out(y, "C")  # NumPy's are new flags


@implements(np.isreal)
def isreal(x: Array) -> Array:
    """Return which entries have no imaginary part, as `numpy.isreal` does."""
    return np.equal(np.imag(x), 0)


@implements(np.real_if_close)
def real_if_close(a: Array, tol: float = 100) -> Array:
    """Return the real part if the values have next to no imaginary part.

    Raises
    ------
    TraceError
        For complex numbers in a trace without values (`workbench.vmap`).
    """
    a = admit(a)
    dtype = dtype_of(a)
    if dtype.kind != "c":
        return a
    value = value_of(a)
    if value is None:
        raise TraceError(
            f"np.real_if_close({blame.describe(a)}){blame.user_line()}: whether the"
            " result is real depends on values, which a trace without values does not"
            " have. Write np.real(x)."
        )
    limit = np.finfo(dtype).eps * tol if tol > 1 else tol
    return np.real(a) if bool(np.all(np.abs(np.imag(value)) < limit)) else a
