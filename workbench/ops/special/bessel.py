"""Bessel functions, Airy's, Struve's and Kelvin's (DLMF chapters 9, 10 and 11).

By the argument each derivative is made of neighbouring orders; by the order it has no
closed form. The recurrences are those that stay finite at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import Array
from workbench.errors import NotDifferentiableError
from workbench.ops.define import RULE_NAMES, dtype_of
from workbench.ops.special.define import F, by_x, helper, special, special_tuple

# DLMF 10.6.1 and 10.29.1; the orders 0 and 1 have functions of their own

for _name in ("jv", "yv", "hankel1", "hankel2"):
    special(_name, None, f"0.5 * ({_name}(x0 - 1, x1) - {_name}(x0 + 1, x1))")
special("yn", None, "0.5 * (yv(x0 - 1, x1) - yv(x0 + 1, x1))")
special("iv", None, "0.5 * (iv(x0 - 1, x1) + iv(x0 + 1, x1))")
special("kv", None, "-0.5 * (kv(x0 - 1, x1) + kv(x0 + 1, x1))")
special("kn", None, "-0.5 * (kv(x0 - 1, x1) + kv(x0 + 1, x1))")
RULE_NAMES["bessel_i0"] = F.i0  # np.i0 is another function
special("j0", "-j1(x)")
special("j1", "0.5 * (j0(x) - jv(2, x))")
special("y0", "-y1(x)")
special("y1", "0.5 * (y0(x) - yv(2, x))")
special("i0", "i1(x)", op_name="bessel_i0")
special("i1", "0.5 * (bessel_i0(x) + iv(2, x))")
special("k0", "-k1(x)")
special("k1", "-0.5 * (k0(x) + kv(2, x))")

# Scaled by an exponential of z: a term more


@helper
def of_real(x: Array, name: str) -> Array:
    """Return the argument of a function scaled by exp(-|x|), which must be real."""
    if dtype_of(x).kind == "c":
        raise NotDifferentiableError(
            f"scipy.special.{name} of complex numbers{blame.user_line()} is scaled by"
            " the magnitude of a part of its argument, and has no complex derivative."
            f" Take real arguments, or scipy.special.{name.removesuffix('e')}."
        )
    return x


special("kve", None, "y - 0.5 * (kve(x0 - 1, x1) + kve(x0 + 1, x1))")
special(
    "hankel1e", None, "0.5 * (hankel1e(x0 - 1, x1) - hankel1e(x0 + 1, x1)) - 1j * y"
)
special(
    "hankel2e", None, "0.5 * (hankel2e(x0 - 1, x1) - hankel2e(x0 + 1, x1)) + 1j * y"
)
for _name in ("jve", "yve"):  # of real numbers these are jv and yv
    _x = f"of_real(x1, {_name!r})"
    special(_name, None, f"0.5 * ({_name}(x0 - 1, {_x}) - {_name}(x0 + 1, x1))")
special(
    "ive",
    None,
    "0.5 * (ive(x0 - 1, of_real(x1, 'ive')) + ive(x0 + 1, x1)) - sign(x1) * y",
)
special("i0e", "i1e(x) - sign(x) * y")
special("i1e", "0.5 * (i0e(x) + ive(2, x)) - sign(x) * y")
special("k0e", "y - k1e(x)")
special("k1e", "y - 0.5 * (k0e(x) + kve(2, x))")


# Spherical Bessel functions, DLMF 10.51: the order 0 has no order below it, and its
# factor is 0. Behind SciPy's functions stand these ufuncs, and those of derivatives.

for _name, _signs in (("jn", "+-"), ("yn", "+-"), ("in", "++"), ("kn", "--")):
    for _f in (f"spherical_{_name}", f"spherical_{_name}_d"):
        special(
            _f,
            None,
            f"({_signs[0]}x0 * {_f}(below(x0), x1) {_signs[1]} (x0 + 1)"
            f" * {_f}(x0 + 1, x1)) / (2 * x0 + 1)",
        )


# Airy functions and their derivatives: y'' = x y, DLMF 9.2.1

special_tuple(
    "airy",
    (
        lambda y, x: y[1],
        lambda y, x: x * y[0],
        lambda y, x: y[3],
        lambda y, x: x * y[2],
    ),
    rule="g₀ · Ai′ + g₁ · x · Ai + g₂ · Bi′ + g₃ · x · Bi",
    output_names=("Ai", "Aip", "Bi", "Bip"),
)


def _root(x: Array) -> Array:
    return np.sqrt(np.maximum(of_real(x, "airye"), 0))


special_tuple(
    "airye",
    (
        lambda y, x: y[1] + _root(x) * y[0],
        lambda y, x: x * y[0] + _root(x) * y[1],
        lambda y, x: y[3] - _root(x) * y[2],
        lambda y, x: x * y[2] - _root(x) * y[3],
    ),
    rule="that of airy, and ±√x · y for the scaling",
)


# Struve functions: DLMF 11.4.27 and 11.4.30, near 0 the power series 11.2.1 and 11.2.2.
# The mean of two neighbours cancels far out, where these grow and y' does not.


@helper
def struve_slope(
    v: Array, x: Array, function: Callable[..., Any], sign: float
) -> Array:
    """Return the derivative by x; ``sign`` is that of the series, -1 for `struve`."""
    near = (np.abs(x) < 2) & (v > -1.25)  # beyond, the series has poles
    a, b, order = np.where(near, x, 1), np.where(near, 2, x), np.where(near, v, 0)
    t = 0.25 * sign * a * a
    total: Any = 0
    for k in range(15, -1, -1):  # by Horner's rule: the last term is below 1e-25
        ratio = t / ((k + 1.5) * (k + order + 1.5))
        total = (2 * k + order + 1) + ratio * total
    first = (0.5 * a) ** order * F.rgamma(order + 1.5) / math.sqrt(math.pi)
    return np.where(near, first * total, function(v - 1, b) - v / b * function(v, b))


special("struve", None, "struve_slope(x0, x1, struve, -1.0)",
    pretty_rule="not known   g · (H(x₀ − 1) − x₀ / x₁ · y)")  # fmt: skip
special("modstruve", None, "struve_slope(x0, x1, modstruve, 1.0)",
    pretty_rule="not known   g · (L(x₀ − 1) − x₀ / x₁ · y)")  # fmt: skip


# Kelvin functions: ber + i bei solves y'' + y'/x - i y = 0, DLMF 10.61.3; y'/x tends
# to 0 and to 1/2 where x does to 0

special("ber", "berp(x)")
special("bei", "beip(x)")
special("ker", "kerp(x)")
special("kei", "keip(x)")
special("berp", "-bei(x) - by_x(y, x, 0.0)")
special("beip", "ber(x) - by_x(y, x, 0.5)")
special("kerp", "-kei(x) - y / x")
special("keip", "ker(x) - y / x")
special_tuple(
    "kelvin",
    (
        lambda y, x: y[2],
        lambda y, x: y[3],
        lambda y, x: 1j * y[0] - by_x(y[2], x, 0.5j),
        lambda y, x: 1j * y[1] - y[3] / x,
    ),
    rule="g₀ · Be′ + g₁ · Ke′ + g₂ · Be″ + g₃ · Ke″",
)

# Parabolic cylinder functions and their derivatives: DLMF 12.2.1 and 12.2.3


def _parabolic(energy: Any) -> tuple[Callable[..., Any], ...]:
    return (lambda y, a, x: y[1], lambda y, a, x: energy(a, x) * y[0])


for _name in ("pbdv", "pbvv"):
    special_tuple(
        _name,
        None,
        _parabolic(lambda v, x: 0.25 * x * x - v - 0.5),
        rule="not known   g₀ · y₁ + g₁ · (x₁² / 4 − x₀ − ½) · y₀",
    )
special_tuple(
    "pbwa",
    None,
    _parabolic(lambda a, x: a - 0.25 * x * x),
    rule="not known   g₀ · y₁ + g₁ · (x₀ − x₁² / 4) · y₀",
)
