"""Elementwise ops: of one operand, of two, choices."""

from __future__ import annotations

import numpy as np

from tests.ops.samples.table import (
    DIVIDED,
    Table,
    above_one,
    apart,
    apart_in_both_parts,
    constant,
    inside,
    positive,
)

row = Table()

# Elementwise: the ops of one operand, by where they are defined

for _name in "exp exp2 expm1 sin cos sinh cosh tanh arctan arcsinh square".split():
    row(_name, getattr(np, _name), apart(2, 3), kinds="fc")
for _name in "log log2 log10 log1p sqrt cbrt reciprocal".split():
    _complex = "" if _name == "cbrt" else "c"
    row(_name, getattr(np, _name), positive(4), kinds="f" + _complex)
for _name in "arcsin arccos arctanh tan".split():
    row(_name, getattr(np, _name), inside(3), kinds="fc")
row("arccosh", np.arccosh, above_one(3), kinds="fc")
row("arccosh left of the imaginary axis", np.arccosh, apart(3), kinds="c")
row("negative", np.negative, apart(3), kinds="fc")
row("positive", np.positive, apart(3), kinds="fc")
for _name in "absolute fabs deg2rad rad2deg radians degrees".split():
    row(_name, getattr(np, _name), apart(3))
for _name in "sign floor ceil trunc rint spacing".split():
    row(_name, getattr(np, _name), apart(3), order=1)
row("absolute of complex", np.absolute, apart(3), kinds="c")
row("sinc", np.sinc, apart(3), kinds="fc")
row("np.i0", np.i0, apart(2, 3))
row("sinc at one point", np.sinc, lambda rng: np.array(0.0))
row("nan_to_num", lambda x: np.nan_to_num(x) * x, apart(3), kinds="fc")
row("round", lambda x: x * (np.round(x) + (x / 10).round(1)), apart(3))
row(
    "round of complex",
    lambda x: x * (np.round(x) + (x / 10).round(1)),
    apart_in_both_parts(3),
    kinds="c",
)
row("round to tens", lambda x: x * np.round(10 * x, -1), apart(3))
row("frexp", lambda x: np.frexp(x + 4)[0] * x + np.frexp(x + 4)[1], apart(2, 3))
row("ldexp", lambda x: np.ldexp(x, constant([3, -1, 0], x)) ** 2, apart(2, 3))
row("modf", lambda x: np.modf(2 * x)[0] ** 2 + np.modf(x)[1], apart(3))
row("nextafter", lambda x, y: np.nextafter(x, y) * y, apart(3), apart(3))
row(
    "whole numbers",
    lambda x: (
        x
        * np.gcd((2 * x + 7).astype(int), 12)
        * np.lcm((2 * x + 7).astype(int), 4)
        * np.bitwise_count((2 * x + 7).astype(int)).astype(x.dtype)
    ),
    apart(3),
)
row(
    "real_if_close",
    lambda x: np.real_if_close(x * 1j + x - x * 1j),
    apart(3),
    batch=False,
)
row(
    "iscomplex",
    lambda x: x * (np.iscomplex(x) + 2 * np.isreal(x)),
    apart(3),
    kinds="fc",
)
row("isposinf", lambda x: x * ~(np.isposinf(x) | np.isneginf(x)), apart(3))
row(
    "array_equiv",
    lambda x, y: (
        x * np.array_equiv(x, y) * np.array_equal(x, y) + x * np.allclose(x, x)
    ),
    apart(2, 3),
    apart(3),
)
row("fix", lambda x: np.fix(x) * x, apart(3))
row("python abs and neg", lambda x: abs(-x), apart(3))
row("conjugate", np.conjugate, apart(3), kinds="fc")
row("real of complex", lambda x: np.real(x) * 2.0, apart(3), kinds="c")
row("imag of complex", lambda x: np.imag(x) * 2.0, apart(3), kinds="c")
row("real of real", lambda x: x.real + x.imag, apart(3))
row("angle", lambda z: np.angle(z) + np.angle(z, deg=True), positive(3), kinds="c")

# Elementwise: two operands, with broadcasting, scalars and empty arrays

for _name in "add subtract multiply divide".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3), kinds="fc")
    row(f"{_name} of columns", getattr(np, _name), apart(2, 1), apart(1, 3))
row("power", np.power, positive(2, 3), apart(3))
row("power of negative", lambda x: np.power(x, constant([3, 2, -1, 0], x)), apart(2, 4))
row("power by floats", lambda x: np.power(x, [3.0, 2.0, -1.0]), apart(3), kinds="fc")
row("power of complex", lambda x, y: x**y, positive(3), apart(3), kinds="c")
row("power by numbers", lambda x: x**3 + x**-1 + x**2 + x**1 + x**0.0, apart(3))
row("number to a power", lambda x: 2.0**x, apart(3))
row("float_power", np.float_power, positive(3), apart(3), kinds="fc")
for _name in "arctan2 hypot logaddexp logaddexp2 copysign".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3))
for _name in "maximum minimum fmax fmin".split():
    row(_name, getattr(np, _name), apart(2, 3), apart(3, shift=0.024))
row("remainder", np.remainder, *DIVIDED)
row("fmod", np.fmod, *DIVIDED)
row("floor_divide", np.floor_divide, *DIVIDED, order=1)
row("divmod", lambda x, y: np.divmod(x, y)[1], *DIVIDED)
row("heaviside", np.heaviside, apart(3), positive(3), order=1)
row("a Python number", lambda x: (3 * x - 1) / 2 + 1 / x, apart(3))
row("empty operands", lambda x, y: x * y + np.exp(x), apart(0, 3), apart(3))
row("shape ()", lambda x, y: x * np.sin(y) / y, apart(), apart())
row("negative strides", lambda x, y: x[::-1, ::-1] * y[::2], apart(2, 3), apart(5))
row(
    "clip",
    lambda x, a, b: np.clip(x, a, b),
    apart(2, 3),
    lambda rng: np.full(3, -1.0),
    lambda rng: np.full(3, 1.0),
)
row(
    "clip by numbers",
    lambda x: np.clip(x, -1, 1) + x.clip(0.5) + x.clip(max=1),
    apart(4),
)
row("where", lambda x, y: np.where(x > 0, x * y, y), apart(2, 3), apart(3))
row("select", lambda x: np.select([x > 1, x > 0], [x**2, 3 * x], x), apart(6))
row("choose", lambda x: np.choose([0, 1, 0], [x, x**2]), apart(3))
row("dtype=", lambda x: np.add(x, x * x, dtype=np.float64), apart(3))
row("sign of complex", np.sign, apart(3), kinds="c")
row("dtype= and a number", lambda x: np.multiply(2, x, dtype=np.float64), apart(3))
row("add.outer", np.add.outer, apart(2), apart(3))
row("multiply.outer", np.multiply.outer, apart(2, 2), apart(3))
row(
    "comparisons",
    lambda x, y: x * ((x > y) & (x >= y) | ~(x == y)),
    apart(3),
    apart(3, shift=0.024),
)
row(
    "predicates", lambda x: x * (np.isfinite(x) & ~np.isnan(x) & ~np.isinf(x)), apart(3)
)
row(
    "logic",
    lambda x, y: (
        x
        * (
            np.logical_and(x > 0, np.logical_not(y))
            | np.logical_or(x < 0, y < 1) ^ np.logical_xor(np.signbit(x), np.signbit(y))
        )
    ),
    apart(3),
    apart(3),
)
row("isclose", lambda x, y: x * np.isclose(x, y), apart(3), apart(3, shift=0.024))
row("stop_gradient", lambda x: x * np.sign(x), apart(3))
