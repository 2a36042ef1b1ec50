"""Functions of complex vectors, as formulas of both parts.

An error is small beside the modulus of a result, not beside each part. Where a part is
infinite or NaN, results are those of C's annex G, which NumPy follows.
"""

from __future__ import annotations

import math

from workbench.backends.compiled.builder import Complex, EntryBuilder
from workbench.backends.compiled.formula import Formula, Term, Writer, call_formula
from workbench.backends.compiled.functions import (
    CONSTANTS,
    INF,
    NAN,
    atan2,
    exp_less_one,
    log_of_sum,
    reduce_by_log_2,
    sine_and_cosine,
    tan,
)
from workbench.errors import CompilerError

Pair = tuple[Term, Term]


def exp(f: Formula, x: Term, y: Term) -> Pair:
    """Write exp(x + i y) as exp(x) (cos(y) + i sin(y))."""
    sine, cosine = sine_and_cosine(f, y)
    real, imag = _multiply_exp(f, x, cosine, sine)
    endless = abs(x).equals(INF) & ~(abs(y) < INF)
    right = x > 0.0
    real = f.where(endless, f.where(right, INF, 0.0), real)
    imag = f.where(endless, f.where(right, NAN, 0.0), imag)
    return real, f.where(y.equals(0.0), y, imag)


def _multiply_exp(f: Formula, x: Term, p: Term, q: Term, less: float = 0.0) -> Pair:
    """Return exp(x) p and exp(x) q, over 2^less, where exp(x) alone may overflow."""
    bound = 1.9 * f.constants.exp_infinite
    shifted, r = reduce_by_log_2(f, f.clamp(x, -bound, bound))
    e = f.where(x < bound, 1.0 + exp_less_one(f, r), x * INF)
    shifted = shifted - less
    return f.scale(e * p, shifted), f.scale(e * q, shifted)


#: From here on exp(-2 x) is nothing beside 1.
FAR = 22.0


def _hyperbolic(f: Formula, a: Term) -> Pair:
    """Return sinh(a) and cosh(a), for a from 0 up to `FAR`."""
    shifted, r = reduce_by_log_2(f, f.where(a > FAR, FAR, a))
    e = (1.0 + exp_less_one(f, r)) * f.power_of_two(shifted - 1.0)
    inverse = 0.25 / e
    square = a * a
    near = f.fma(a * square, f.polynomial("sinh", square), a)
    return f.where(a < 1.0, near, e - inverse), e + inverse


def _multiply_hyperbolic(f: Formula, a: Term, p: Term, q: Term) -> Pair:
    """Return sinh(a) p and cosh(a) q, for a from 0 on."""
    sine, cosine = _hyperbolic(f, a)
    far = _multiply_exp(f, a, p, q, 1.0)
    beyond = a > FAR
    return f.where(beyond, far[0], sine * p), f.where(beyond, far[1], cosine * q)


def sinh(f: Formula, x: Term, y: Term) -> Pair:
    """Write sinh(x + i y) as sinh(x) cos(y) + i cosh(x) sin(y)."""
    sine, cosine = sine_and_cosine(f, y)
    a = abs(x)
    real, imag = _multiply_hyperbolic(f, a, cosine, sine)
    real = f.with_sign(real, f.sign_of(x))
    endless = ~(abs(y) < INF)
    real = f.where(endless & a.equals(0.0), x, real)
    real = f.where(endless & a.equals(INF), INF, real)
    return real, f.where(y.equals(0.0), y, imag)


def cosh(f: Formula, x: Term, y: Term) -> Pair:
    """Write cosh(x + i y) as cosh(x) cos(y) + i sinh(x) sin(y)."""
    sine, cosine = sine_and_cosine(f, y)
    a = abs(x)
    imag, real = _multiply_hyperbolic(f, a, sine, cosine)
    imag = f.where(y.equals(0.0), y, imag)
    endless = ~(abs(y) < INF)
    imag = f.where(endless & a.equals(0.0), 0.0, imag)
    real = f.where(endless & a.equals(INF), INF, real)
    return real, f.with_sign(imag, f.sign_of(x))


def sin(f: Formula, x: Term, y: Term) -> Pair:
    """Write sin(z) as -i sinh(i z)."""
    imag, real = sinh(f, y, x)
    return real, imag


def cos(f: Formula, x: Term, y: Term) -> Pair:
    """Write cos(z) as cosh(i z)."""
    real, imag = cosh(f, y, x)
    return real, -imag


def tanh(f: Formula, x: Term, y: Term) -> Pair:
    """Write tanh(x + i y) by t = tan(y), s = sinh(x) and b = 1 + t².

    It is (b s √(1 + s²) + i t) / (1 + b s²), and far out ±1 + 4 i t / b exp(-2 |x|):
    Kahan, Branch Cuts for Complex Elementary Functions, 1987.
    """
    t = tan(f, y)
    a = abs(x)
    sine, cosine = _hyperbolic(f, a)
    b = f.fma(t, t, 1.0)
    below = f.fma(b * sine, sine, 1.0)
    real, imag = b * sine * cosine / below, t / below
    far, _ = _multiply_exp(f, -(a + a), 4.0 * t / b, t)
    beyond, endless = a > FAR, ~(abs(y) < INF)
    real, imag = f.where(beyond, 1.0, real), f.where(beyond, far, imag)
    real = f.where(endless, f.where(a.equals(INF), 1.0, f.where(a > 0.0, NAN, a)), real)
    imag = f.where(endless & a.equals(INF), 0.0, imag)
    real = f.where(a.equals(a), real, NAN)
    return f.with_sign(real, f.sign_of(x)), f.where(y.equals(0.0), y, imag)


def complex_tan(f: Formula, x: Term, y: Term) -> Pair:
    """Write tan(z) as -i tanh(i z)."""
    imag, real = tanh(f, y, x)
    return real, imag


def _scale_squares(f: Formula, large: Term) -> tuple[Term, Term]:
    """Return where numbers are too small and too large for their squares."""
    c = f.constants
    return large < 2.0**-c.safe_square, large > 2.0**c.safe_square


def log(f: Formula, x: Term, y: Term) -> Pair:
    """Write log(z) as log|z| + i atan2(y, x).

    Where |z|² is near 1, it is 1 + 2 t + t² + q², by the larger part 1 + t.
    """
    c = f.constants
    a, b = abs(x), abs(y)
    large, small = f.where(a > b, a, b), f.where(a > b, b, a)
    up, down = _scale_squares(f, large)
    power = 2.0**c.lift_square
    scale = f.where(up, power, f.where(down, 1 / power, 1.0))
    moved = math.log(power)
    p, q = large * scale, small * scale
    square = f.fma(p, p, q * q)
    t = p - 1.0
    total, error = f.add_exactly(f.fma(t, 2.0, f.fma(t, t, q * q)), 1.0)
    near = (square > 0.5) & (square < 3.0)
    total, error = f.where(near, total, square), f.where(near, error, 0.0)
    real = f.fma(log_of_sum(f, total, error), 0.5, f.where(down, moved, 0.0))
    real = real - f.where(up, moved, 0.0)
    nothing = a.equals(0.0) & b.equals(0.0)
    real = f.where(nothing, -INF, f.where(square < INF, real, square))
    real = f.where(a.equals(INF) | b.equals(INF), INF, real)
    return real, atan2(f, y, x)


def log2(f: Formula, x: Term, y: Term) -> Pair:
    """Write log2(z) as log(z) / log 2."""
    real, imag = log(f, x, y)
    return real * (1 / math.log(2)), imag * (1 / math.log(2))


def log10(f: Formula, x: Term, y: Term) -> Pair:
    """Write log10(z) as log(z) / log 10."""
    real, imag = log(f, x, y)
    return real * (1 / math.log(10)), imag * (1 / math.log(10))


def sqrt(f: Formula, x: Term, y: Term) -> Pair:
    """Write √z by t = √((|x| + |z|) / 2) and y / (2 t)."""
    c = f.constants
    a, b = abs(x), abs(y)
    large = f.where(a > b, a, b)
    up, down = _scale_squares(f, large)
    power, root = 2.0**c.lift_square, 2.0 ** (c.lift_square // 2)
    scale = f.where(up, power, f.where(down, 1 / power, 1.0))
    back = f.where(up, 1 / root, f.where(down, root, 1.0))
    p, q = a * scale, b * scale
    length = f.call("sqrt", f.fma(p, p, q * q))
    t = f.call("sqrt", 0.5 * (p + length)) * back
    t = f.where(a.equals(INF), INF, t)
    nothing = a.equals(0.0) & b.equals(0.0)
    other = f.where(nothing, b, b / (t + t))
    left = x < 0.0
    real, imag = f.where(left, other, t), f.where(left, t, other)
    endless = b.equals(INF)
    real, imag = f.where(endless, INF, real), f.where(endless, INF, imag)
    return real, f.with_sign(imag, f.sign_of(y))


#: By NumPy's names.
COMPLEX_FUNCTIONS: dict[str, Writer] = {
    "tan": complex_tan,
    **{
        writer.__name__: writer
        for writer in (exp, log, log2, log10, sqrt, sin, cos, sinh, cosh, tanh)
    },
}


def call_complex_function(b: EntryBuilder, name: str, x: Complex) -> Complex:
    """Call a function of a complex value by NumPy's name.

    Raises
    ------
    CompilerError
        If there is no such function.
    """
    if name not in COMPLEX_FUNCTIONS:
        raise CompilerError(f"no kernel computes {name} of complex values.")
    parts = call_formula(
        b, f"complex_{name}", COMPLEX_FUNCTIONS[name], CONSTANTS[x.real.kind], x.real,
        x.imag,
    )  # fmt: skip
    return Complex(parts[0], parts[1], x.kind)
