"""Elementary functions of vectors, as formulas.

Each reduces its argument to a small range and evaluates a polynomial there, without
tables, so that every lane takes the same way: a lane's result depends on its argument
alone, not on its neighbours, nor on how many there are. Where numbers at the ends of a
format need more work, a branch looks for them first.

The reductions are those of Cody and Waite (Software Manual for the Elementary
Functions, 1980) and of Tang (ACM Transactions on Mathematical Software 15 and 16);
where another method is taken, its function says which. The polynomials stand in
`coefficients`, which says how they were computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from workbench.backends.compiled.builder import EntryBuilder, Value
from workbench.backends.compiled.coefficients import DOUBLE_TABLE, SINGLE_TABLE
from workbench.backends.compiled.formula import (
    Constants,
    Formula,
    Term,
    Writer,
    call_formula,
)
from workbench.errors import CompilerError

INF, NAN = math.inf, math.nan
#: Such a number and 1 add up to it in every format; its square is finite.
LARGE = 2.0**60
TAN_PI_8 = math.sqrt(2) - 1

CONSTANTS = {
    "f8": Constants(
        kind="f8", digits=52, bias=1023,
        log_2=(0.6931471806019545, -4.2009150726810846e-11),
        log2_e=(1.4426950408889634, 2.0355273740931033e-17),
        log10_e=(0.4342944819032518, 1.098319650216765e-17),
        log10_2=(0.3010299956640665, -8.532344317057107e-14),
        third=(0.3333333333333333, 1.850371707708594e-17),
        half_pi=(
            1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33,
        ),
        half_pi_short=(
            1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21,
            8.4784276603689e-32,
        ),
        root_half_bits=0x3FE6A09E667F3BCD,
        exp_zero=-746.0, exp_infinite=710.0, exp_normal=708.0, erfc_zero=28.0,
        most_angle=(2.0**30, 2.0**19), safe_square=500, lift_square=600,
        polynomials=DOUBLE_TABLE,
    ),
    "f4": Constants(
        kind="f4", digits=23, bias=127,
        log_2=(0.693145751953125, 1.428606765330187e-06),
        log2_e=(1.4426950216293335, 1.925963033500011e-08),
        log10_e=(0.4342944920063019, -1.0103049952192578e-08),
        log10_2=(0.30103302001953125, -3.024355464731343e-06),
        third=(0.3333333432674408, -9.934107758624577e-09),
        half_pi=(
            1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15,
        ),
        half_pi_short=(
            1.57080078125, -4.454515874385834e-06, 6.077272018956137e-11,
            -1.7151245100058819e-15,
        ),
        root_half_bits=0x3F3504F3,
        exp_zero=-105.0, exp_infinite=89.0, exp_normal=86.0, erfc_zero=11.0,
        most_angle=(2.0**13, 2.0**10), safe_square=60, lift_square=100,
        polynomials=SINGLE_TABLE,
    ),
}  # fmt: skip


# Exponentials: x = n log 2 + r


def reduce_by_log_2(f: Formula, x: Term) -> tuple[Term, Term]:
    """Return n, shifted, and ``x - n log 2``."""
    c = f.constants
    shifted = f.fma(x, c.log2_e[0], c.shifter)
    n = shifted - c.shifter
    return shifted, f.fma(n, -c.log_2[1], f.fma(n, -c.log_2[0], x))


def exp_less_one(f: Formula, r: Term) -> Term:
    """Return exp(r) - 1 for a small r."""
    return f.fma(r * r, f.polynomial("exp", r), r)


def _scaled(f: Formula, x: Term, shifted: Term, usual: bool) -> Term:
    """Return ``x 2^n``; usually x is near 1 and the result a normal number."""
    if usual:
        return (x.bits() + (shifted.bits() << f.constants.digits)).as_float()
    return f.scale(x, shifted)


def _split_exponential(
    f: Formula, x: Term, most: float, write: Callable[[bool], Term]
) -> Term:
    """Return an exponential that is simpler to write for a bounded argument."""
    outside = ~(abs(x) < most)
    return f.split(outside, lambda: write(False), lambda: write(True))


def exp(f: Formula, x: Term) -> Term:
    """Write exp(x) as 2^n exp(r)."""
    c = f.constants

    def write(usual: bool) -> Term:
        inside = x if usual else f.clamp(x, c.exp_zero, c.exp_infinite)
        shifted, r = reduce_by_log_2(f, inside)
        return _scaled(f, 1.0 + exp_less_one(f, r), shifted, usual)

    return _split_exponential(f, x, c.exp_normal, write)


def exp2(f: Formula, x: Term) -> Term:
    """Write 2^x as 2^n 2^r."""
    c = f.constants
    highest = float(c.bias + 2)

    def write(usual: bool) -> Term:
        inside = x if usual else f.clamp(x, -highest - c.digits, highest)
        shifted = inside + c.shifter
        r = inside - (shifted - c.shifter)
        return _scaled(f, f.fma(r, f.polynomial("exp2", r), 1.0), shifted, usual)

    return _split_exponential(f, x, highest - 4.0, write)


def expm1(f: Formula, x: Term) -> Term:
    """Write exp(x) - 1 as 2 (s p + (s - 1/2)), with s = 2^(n-1) and p = exp(r) - 1."""
    shifted, r = reduce_by_log_2(f, f.clamp(x, -60.0, f.constants.exp_infinite))
    s = f.power_of_two(shifted - 1.0)
    y = 2.0 * f.fma(s, exp_less_one(f, r), s - 0.5)
    return f.where(abs(x) < 4.0 * f.constants.smallest, x, y)


def _half_exp(f: Formula, x: Term, usual: bool) -> Term:
    """Return exp(x) / 2 for x ≥ 0."""
    x = x if usual else f.clamp(x, 0.0, f.constants.exp_infinite + 1.0)
    shifted, r = reduce_by_log_2(f, x)
    return _scaled(f, 1.0 + exp_less_one(f, r), shifted - 1.0, usual)


def cosh(f: Formula, x: Term) -> Term:
    """Write cosh(x) as e + 1 / (4 e), with e = exp(|x|) / 2."""

    def write(usual: bool) -> Term:
        e = _half_exp(f, abs(x), usual)
        return e + 0.25 / e

    return _split_exponential(f, x, f.constants.exp_normal, write)


def sinh(f: Formula, x: Term) -> Term:
    """Write sinh(x) as x + x³ S(x²) up to 1, and as e - 1 / (4 e) beyond."""

    def write(usual: bool) -> Term:
        a = abs(x)
        e = _half_exp(f, a, usual)
        square = a * a
        near = f.fma(a * square, f.polynomial("sinh", square), a)
        return f.with_sign(f.where(a < 1.0, near, e - 0.25 / e), f.sign_of(x))

    return _split_exponential(f, x, f.constants.exp_normal, write)


def tanh(f: Formula, x: Term) -> Term:
    """Write tanh(x) as u / (u + 2), with u = exp(2 |x|) - 1."""
    a = abs(x)
    a = f.where(f.literal(20.0) < a, 20.0, a)
    shifted, r = reduce_by_log_2(f, a + a)
    s = f.power_of_two(shifted)
    u = f.fma(s, exp_less_one(f, r), s - 1.0)
    return f.with_sign(u / (u + 2.0), f.sign_of(x))


# Logarithms: x = 2^k m, with m from √½ to √2


def _split_exponent(f: Formula, x: Term, lift: bool) -> tuple[Term, Term, Term]:
    """Return k, m and the bits of 2^-k; with ``lift`` also of a subnormal x."""
    c = f.constants
    start: Term | float = 2.0**c.digits + c.bias
    if lift:
        tiny = x < c.smallest
        x = f.where(tiny, x * 2.0**c.lift, x)
        start = f.where(tiny, start + c.lift, start)
    moved = x.bits() + (c.one_bits - c.root_half_bits)
    m = ((moved & c.fraction_bits) + c.root_half_bits).as_float()
    k = _read_exponent(f, moved) - start
    return k, m, 2 * c.one_bits - (moved & ~c.fraction_bits)


def _read_exponent(f: Formula, bits: Term) -> Term:
    """Return the biased exponent as a float, plus 2^digits."""
    c = f.constants
    return ((bits >> c.digits) | ((c.bias + c.digits) << c.digits)).as_float()


def _log_of_fraction(f: Formula, t: Term) -> tuple[Term, Term]:
    """Return log(1 + t) for a small t as the sum of two terms.

    By s = t / (2 + t), log(1 + t) is t - t²/2 + s (t²/2 + s² L(s²)).
    """
    half_square = 0.5 * t * t
    s = t / (t + 2.0)
    square = s * s
    rest = s * f.fma(square, f.polynomial("log", square), half_square)
    high, low = f.add_smaller(t, -half_square)
    return high, low + rest


def _logarithm(f: Formula, x: Term, finish: Callable[[Term, Term, Term], Term]) -> Term:
    """Return a term made from k and both terms of log(m).

    Normal positive numbers alone need no lift and no limits.
    """

    def write(usual: bool) -> Term:
        k, m, _ = _split_exponent(f, x, not usual)
        y = finish(k, *_log_of_fraction(f, m - 1.0))
        if usual:
            return y
        outside = f.where(x.equals(0.0), -INF, f.where(x < 0.0, NAN, x))
        return f.where((x > 0.0) & (x < INF), y, outside)

    rare = ~((x >= f.constants.smallest) & (x < INF))
    return f.split(rare, lambda: write(False), lambda: write(True))


def log(f: Formula, x: Term) -> Term:
    """Write log(x) as k log 2 + log(m)."""
    return _logarithm(f, x, lambda k, high, low: _add_exponent(f, k, high, low))


def _add_exponent(f: Formula, k: Term, high: Term, low: Term) -> Term:
    c = f.constants
    return f.fma(k, c.log_2[0], high + f.fma(k, c.log_2[1], low))


def log2(f: Formula, x: Term) -> Term:
    """Write log2(x) as k + log(m) / log 2."""
    c = f.constants

    def finish(k: Term, high: Term, low: Term) -> Term:
        product, error = f.multiply_exactly(high, c.log2_e[0])
        error = error + f.fma(high, c.log2_e[1], low * c.log2_e[0])
        total, lost = f.add_smaller(k, product)
        return total + (lost + error)

    return _logarithm(f, x, finish)


def log10(f: Formula, x: Term) -> Term:
    """Write log10(x) as k log10 2 + log(m) / log 10."""
    c = f.constants

    def finish(k: Term, high: Term, low: Term) -> Term:
        product, error = f.multiply_exactly(high, c.log10_e[0])
        error = error + f.fma(high, c.log10_e[1], low * c.log10_e[0])
        total, lost = f.add_smaller(k * c.log10_2[0], product)
        return total + (lost + f.fma(k, c.log10_2[1], error))

    return _logarithm(f, x, finish)


def log_of_sum(f: Formula, total: Term, error: Term, bounded: bool = True) -> Term:
    """Return the logarithm of a normal number and its rounding error.

    The error of 2^k m, over 2^k, belongs to m. ``bounded``: a number far from the
    largest ones, where 2^-k is no normal number.
    """
    k, m, inverse = _split_exponent(f, total, False)
    over = inverse.as_float()
    over = over if bounded else f.where(total < LARGE, over, 0.0)
    high, low = _log_of_fraction(f, f.fma(error, over, m - 1.0))
    return _add_exponent(f, k, high, low)


def _log_one_plus(f: Formula, x: Term, bounded: bool = False) -> Term:
    """Return log(1 + x) for a finite x > -1."""
    return log_of_sum(f, *f.add_exactly(x, 1.0), bounded)


def log1p(f: Formula, x: Term) -> Term:
    """Write log(1 + x) by the logarithm of the sum and its rounding error."""

    def write(usual: bool) -> Term:
        y = f.where(x.equals(0.0), x, _log_one_plus(f, x, usual))
        if usual:
            return y
        y = f.where((x > -1.0) & (x < INF), y, f.where(x < -1.0, NAN, x))
        return f.where(x.equals(-1.0), -INF, y)

    rare = ~((x > -1.0) & (x < LARGE))
    return f.split(rare, lambda: write(False), lambda: write(True))


def asinh(f: Formula, x: Term) -> Term:
    """Write asinh(x) as log(1 + |x| + x² / (1 + √(1 + x²))), or log(2 |x|)."""
    a = abs(x)
    large = a > LARGE
    square = a * a
    t = a + square / (1.0 + f.call("sqrt", square + 1.0))
    y = _log_one_plus(f, f.where(large, a, t)) + f.where(large, math.log(2), 0.0)
    return f.with_sign(f.where(a < INF, y, a), f.sign_of(x))


def acosh(f: Formula, x: Term) -> Term:
    """Write acosh(x) as log(1 + t + √(2 t + t²)) with t = x - 1, or log(2 x)."""
    large = x > LARGE
    t = x - 1.0
    t = f.where(large, x, t + f.call("sqrt", f.fma(t, t, t + t)))
    y = _log_one_plus(f, t) + f.where(large, math.log(2), 0.0)
    return f.where(x < 1.0, NAN, f.where(x < INF, y, x))


def atanh(f: Formula, x: Term) -> Term:
    """Write atanh(x) as log(1 + 2 |x| / (1 - |x|)) / 2."""
    a = abs(x)
    y = 0.5 * _log_one_plus(f, (a + a) / (1.0 - a), True)
    y = f.where(a < 1.0, y, f.where(a > 1.0, NAN, INF * a))
    return f.where(x.equals(0.0), x, f.with_sign(y, f.sign_of(x)))


# Powers


def _log_exactly(f: Formula, k: Term, m: Term) -> tuple[Term, Term]:
    """Return k log 2 + log(m) as a sum of two floats, with a quarter more digits.

    log(m) is 2 s (1 + s²/3 + s⁴ P(s²)) by s = (m - 1) / (m + 1), each of these with
    its rounding error.
    """
    c = f.constants
    t = m - 1.0
    below, below_low = f.add_smaller(f.literal(2.0), t)
    inverse = 1.0 / below
    s = t * inverse
    s_low = (f.subtract_product(t, s, below) - s * below_low) * inverse
    square, square_low = f.multiply_exactly(s, s)
    square_low = f.fma(s + s, s_low, square_low)
    third, third_low = f.multiply_exactly(square, c.third[0])
    third_low = third_low + f.fma(square, c.third[1], square_low * c.third[0])
    u, u_low = f.add_smaller(third, square * square * f.polynomial("power", square))
    u_low = u_low + third_low
    s, s_low = s + s, s_low + s_low
    product, product_low = f.multiply_exactly(s, u)
    product_low = product_low + f.fma(s, u_low, s_low * u)
    high, low = f.add_smaller(s, product)
    low = low + (product_low + s_low)
    total, lost = f.add_smaller(k * c.log_2[0], high)
    return total, lost + f.fma(k, c.log_2[1], low)


def power(f: Formula, x: Term, y: Term) -> Term:
    """Write x^y as exp(y log |x|), the logarithm being a sum of two floats."""
    c = f.constants
    a = abs(x)
    k, m, _ = _split_exponent(f, a, True)
    high, low = _log_exactly(f, k, m)
    high = f.where(a.equals(0.0), -INF, f.where(a < INF, high, a))
    product, error = f.multiply_exactly(high, y)
    finite = abs(product) < -1.1 * c.exp_zero
    error = f.where(finite, f.fma(low, y, error), 0.0)
    shifted, r = reduce_by_log_2(f, f.clamp(product, c.exp_zero, c.exp_infinite))
    made = f.scale(1.0 + exp_less_one(f, r + error), shifted)
    # 1 to any power, and a number left of 0 to a power that is not whole
    made = f.where(a.equals(1.0) & y.equals(y), 1.0, made)
    half = y * 0.5
    whole = f.call("trunc", y).equals(y)
    even = f.call("trunc", half).equals(half)
    made = f.with_sign(made, f.where(even, 0, f.where(whole, f.sign_of(x), 0)))
    made = f.where(f.where(whole, 0.0, x) < 0.0, f.where(a < INF, NAN, made), made)
    return f.where(y.equals(0.0), 1.0, f.where(x.equals(1.0), 1.0, made))


def cbrt(f: Formula, x: Term) -> Term:
    """Write the cube root of 2^(3q) m as 2^q times that of m, by a step of Halley's."""
    c = f.constants
    a = abs(x)
    tiny = a < c.smallest
    a = f.where(tiny, a * 2.0**c.lift, a)
    exponent = _read_exponent(f, a.bits()) - (2.0**c.digits + c.bias)
    m = ((a.bits() & c.fraction_bits) | c.one_bits).as_float()
    shifted = f.fma(exponent, 1 / 3, c.shifter)
    rest = exponent - 3.0 * (shifted - c.shifter)
    less, more = rest < 0.0, rest > 0.0
    y = f.polynomial("cbrt", m)
    y = y * f.where(less, 0.5 ** (1 / 3), f.where(more, 2 ** (1 / 3), 1.0))
    m = m * f.where(less, 0.5, f.where(more, 2.0, 1.0))
    cube = y * y * y
    y = f.fma(y, (m - cube) / (cube + cube + m), y)
    shifted = f.where(tiny, shifted - c.lift / 3, shifted)
    y = f.with_sign(y * f.power_of_two(shifted), f.sign_of(x))
    return f.where((a > 0.0) & (a < INF), y, x)


def hypot(f: Formula, x: Term, y: Term) -> Term:
    """Write √(x² + y²), scaled where the squares would overflow or underflow."""
    c = f.constants
    a, b = abs(x), abs(y)
    larger = f.where(a > b, a, b)
    up, down = larger < 2.0**-c.safe_square, larger > 2.0**c.safe_square
    scale = f.where(up, 2.0**c.lift_square, f.where(down, 2.0**-c.lift_square, 1.0))
    back = f.where(up, 2.0**-c.lift_square, f.where(down, 2.0**c.lift_square, 1.0))
    p, q = a * scale, b * scale
    made = f.call("sqrt", f.fma(p, p, q * q)) * back
    return f.where(a.equals(INF) | b.equals(INF), INF, made)


# Trigonometric functions: x = n π/2 + r


def _reduce_angle(f: Formula, x: Term) -> tuple[Term, Term]:
    """Return the bits that end in n, and r.

    One part of n π/2 after the other is taken off, each difference exact or rounded
    once: products are exact inside of a fused multiply-add, or of parts of few digits.
    """
    c = f.constants
    shifted = f.fma(x, 2 / math.pi, c.shifter)
    n = shifted - c.shifter
    r = x
    for part in c.half_pi if f.fused else c.half_pi_short:
        r = f.fma(n, -part, r)
    return shifted.bits(), r


def _sine(f: Formula, r: Term) -> Term:
    square = r * r
    return f.fma(r * square, f.polynomial("sin", square), r)


def _cosine(f: Formula, r: Term) -> Term:
    square = r * r
    return f.fma(square, f.fma(square, f.polynomial("cos", square), -0.5), 1.0)


def _is_odd(f: Formula, bits: Term) -> Term:
    return (bits << (f.constants.size - 1)) < 0


def _reduce_by_library(
    f: Formula, x: Term, names: Sequence[str], ys: Sequence[Term]
) -> tuple[Term, ...]:
    """Return these terms, with C's library for angles that are too large."""
    large = abs(x) > f.constants.most_angle[0 if f.fused else 1]

    def write() -> tuple[Term, ...]:
        pairs = zip(names, ys, strict=True)
        return tuple(f.where(large, f.call_library(n, x), y) for n, y in pairs)

    return f.split_several(large, write, lambda: tuple(ys))


def _turn(f: Formula, x: Term, names: Sequence[str]) -> tuple[Term, ...]:
    """Return ±sin(r) or ±cos(r), for the sine or the cosine of x, or for both."""
    bits, r = _reduce_angle(f, x)
    odd, sine, cosine = _is_odd(f, bits), _sine(f, r), _cosine(f, r)
    ys = []
    for name in names:
        if name == "sin":
            y, turns = f.where(odd, cosine, sine), bits
        else:
            y, turns = f.where(odd, sine, cosine), bits + 1
        y = f.with_sign(y, (turns & 2) << (f.constants.size - 2))
        ys.append(f.where(x.equals(0.0), x, y) if name == "sin" else y)
    return _reduce_by_library(f, x, names, ys)


def sin(f: Formula, x: Term) -> Term:
    """Write sin(x) as ±sin(r) or ±cos(r)."""
    return _turn(f, x, ["sin"])[0]


def cos(f: Formula, x: Term) -> Term:
    """Write cos(x) as ±cos(r) or ±sin(r)."""
    return _turn(f, x, ["cos"])[0]


def sine_and_cosine(f: Formula, x: Term) -> tuple[Term, Term]:
    """Return both, of one reduction."""
    sine, cosine = _turn(f, x, ["sin", "cos"])
    return sine, cosine


def tan(f: Formula, x: Term) -> Term:
    """Write tan(x) as sin(r) / cos(r), or as -cos(r) / sin(r)."""
    bits, r = _reduce_angle(f, x)
    odd, sine, cosine = _is_odd(f, bits), _sine(f, r), _cosine(f, r)
    y = f.where(odd, cosine, sine) / f.where(odd, sine, cosine)
    y = f.with_sign(y, bits << (f.constants.size - 1))
    return _reduce_by_library(f, x, ["tan"], [f.where(x.equals(0.0), x, y)])[0]


def asin(f: Formula, x: Term) -> Term:
    """Write asin(x) as x + x³ A(x²), beyond ½ as π/2 - 2 asin √((1 - |x|) / 2)."""
    pi, pi_low, _ = f.constants.half_pi
    a = abs(x)
    far = a > 0.5
    square = f.where(far, 0.5 - 0.5 * a, a * a)
    t = f.where(far, f.call("sqrt", square), a)
    rest = t * square * f.polynomial("asin", square)
    beyond = pi - (2.0 * t + (2.0 * rest - pi_low))
    return f.with_sign(f.where(far, beyond, t + rest), f.sign_of(x))


def acos(f: Formula, x: Term) -> Term:
    """Write acos(x) as π/2 - asin(x), beyond ½ as 2 asin √((1 - x) / 2)."""
    pi, pi_low, _ = f.constants.half_pi
    a = abs(x)
    far = a > 0.5
    square = f.where(far, 0.5 - 0.5 * a, a * a)
    t = f.where(far, f.call("sqrt", square), x)
    rest = t * square * f.polynomial("asin", square)
    y = f.where(x > 0.5, t + rest, pi - (t + (rest - pi_low)))
    return f.where(far, y + y, y)


def _arc(f: Formula, t: Term, low: Term) -> Term:
    """Return atan(t) + low for |t| up to tan(π/8)."""
    square = t * t
    return t + f.fma(t * square, f.polynomial("atan", square), low)


def atan(f: Formula, x: Term) -> Term:
    """Write atan(x) by x, (x - 1) / (x + 1) or -1 / x, beside 0, π/4 or π/2."""
    pi, pi_low, _ = f.constants.half_pi
    a = abs(x)
    far, middle = a > 1 / TAN_PI_8, a > TAN_PI_8
    above = f.where(far, -1.0, f.where(middle, a - 1.0, a))
    below = f.where(far, a, f.where(middle, a + 1.0, 1.0))
    base = f.where(far, pi, f.where(middle, pi / 2, 0.0))
    low = f.where(far, pi_low, f.where(middle, pi_low / 2, 0.0))
    return f.with_sign(base + _arc(f, above / below, low), f.sign_of(x))


def atan2(f: Formula, y: Term, x: Term) -> Term:
    """Write the angle of (x, y) by the ratio of the smaller to the larger part."""
    c = f.constants
    a, b = abs(x), abs(y)
    steep = b > a
    large, small = f.where(steep, b, a), f.where(steep, a, b)
    both = a.equals(INF) & b.equals(INF)
    large = f.where(both | large.equals(0.0), 1.0, large)
    small = f.where(both, 1.0, small)
    scale = f.where(large > 2.0 ** (c.bias - 20), 2.0**-20, 1.0)
    large, small = large * scale, small * scale
    middle = small > large * TAN_PI_8
    above = f.where(middle, small - large, small)
    below = f.where(middle, small + large, large)
    left = x.bits() < 0
    # The angle is so many right ones, and that of the ratio, which may count back.
    turned = f.sign_of(x) ^ f.where(steep, c.sign_bit, 0)
    ratio = f.with_sign(above / below, turned)
    right = f.where(steep, 1.0, f.where(left, 2.0, 0.0))
    right = right + f.where(middle, f.with_sign(f.literal(0.5), turned), 0.0)
    base, error = f.multiply_exactly(right, c.half_pi[0])
    low = f.fma(right, c.half_pi[1], error)
    return f.with_sign(base + _arc(f, ratio, low), f.sign_of(y))


# The error function


# For a from 1 on, a exp(a²) erfc(a) is a polynomial of t = (a - 3) / (a + 3), a map of
# the half-line to a short range: Shepherd and Laframboise, Mathematics of Computation
# 36, 1981.


def erf(f: Formula, x: Term) -> Term:
    """Write erf(x) as x + x E(x²) up to 1, and as 1 - erfc(x) beyond."""
    a = abs(x)
    near = f.fma(a, f.polynomial("erf", a * a), a)
    a = f.where(f.literal(6.0) < a, 6.0, a)
    shifted, r = reduce_by_log_2(f, -(a * a))
    # One division gives 1 / a and t.
    more = a + 3.0
    inverse = 1.0 / (a * more)
    tail = f.polynomial("erf beyond 1", (a - 3.0) * (a * inverse)) * (more * inverse)
    tail = tail * f.power_of_two(shifted) * (1.0 + exp_less_one(f, r))
    return f.with_sign(f.where(a < 1.0, near, 1.0 - tail), f.sign_of(x))


def erfc(f: Formula, x: Term) -> Term:
    """Write erfc(x) as (1 - x) - x E(x²) up to 1, and by its own form beyond."""
    a = abs(x)
    near = (1.0 - x) - x * f.polynomial("erf", x * x)
    most = f.constants.erfc_zero
    inside = f.where(f.literal(most) < a, most, a)
    square, error = f.multiply_exactly(inside, inside)
    shifted, r = reduce_by_log_2(f, -square)
    tail = f.polynomial("erfc", (inside - 3.0) / (inside + 3.0)) / inside
    far = f.scale(f.fma(exp_less_one(f, r - error), tail, tail), shifted)
    return f.where(a < 1.0, near, f.where(x < 0.0, 2.0 - far, far))


#: By the names that C has for functions of doubles.
FUNCTIONS: dict[str, Writer] = {
    "pow": power,
    **{
        writer.__name__: writer
        for writer in (
            exp, exp2, expm1, log, log2, log10, log1p, sin, cos, tan, asin, acos, atan,
            atan2, sinh, cosh, tanh, asinh, acosh, atanh, cbrt, hypot, erf, erfc,
        )
    },
}  # fmt: skip


def call_function(b: EntryBuilder, name: str, *values: Value) -> Value:
    """Call an elementary function by C's name.

    Raises
    ------
    CompilerError
        If there is no such function of such values.
    """
    kind = values[0].kind
    if name in b.library:
        return b.call_library(name, *values)
    writer, constants = FUNCTIONS.get(name), CONSTANTS.get(kind)
    if writer is None or constants is None:
        raise CompilerError(f"no kernel computes {name} of {kind}.")
    return call_formula(b, name, writer, constants, *values)[0]
