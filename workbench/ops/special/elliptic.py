"""Elliptic integrals and functions, and functions of both (DLMF 19 and 22).

By the parameter, the usual formulas divide by ``m``; here Carlson's integrals stand in
their place, which keep their digits around ``m = 0``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.core.types import Array
from workbench.ops.special.define import F, helper, special, special_tuple

# Complete integrals: DLMF 19.4.1 and 19.4.2; near m = 0 the hypergeometric series
# 19.5.1 and 19.5.2, differentiated


@helper
def ellipk_slope(m: Array) -> Array:
    """Return the derivative of ellipk."""
    near = np.abs(m) < 0.3
    a, b = np.where(near, m, 0), np.where(near, 0.5, m)
    far = (F.ellipe(b) / (1 - b) - F.ellipk(b)) / (2 * b)
    return np.where(near, math.pi / 8 * F.hyp2f1(1.5, 1.5, 2, a), far)


@helper
def ellipkm1_slope(p: Array, y: Array) -> Array:
    """Return the derivative of ellipkm1, a function of 1 - m."""
    near = p > 0.7
    a, b = np.where(near, p, 1), np.where(near, 0.5, p)
    far = (y - F.ellipe(1 - b) / b) / (2 * (1 - b))
    return np.where(near, -math.pi / 8 * F.hyp2f1(1.5, 1.5, 2, 1 - a), far)


@helper
def ellipe_slope(m: Array) -> Array:
    """Return the derivative of ellipe."""
    near = np.abs(m) < 0.3
    a, b = np.where(near, m, 0), np.where(near, 0.5, m)
    far = (F.ellipe(b) - F.ellipk(b)) / (2 * b)
    return np.where(near, -math.pi / 8 * F.hyp2f1(0.5, 1.5, 2, a), far)


special("ellipk", "ellipk_slope(x)")
special("ellipkm1", "ellipkm1_slope(x, y)")
special("ellipe", "ellipe_slope(x)")


# Incomplete integrals: DLMF 19.25.5 and 19.25.9, differentiated by 19.18.1. Each half
# turn adds twice the complete integral.


def _turned(phi: Array) -> tuple[Any, Any]:
    turns = np.rint(phi / math.pi)
    return 2 * turns, np.sin(phi - math.pi * turns)


@helper
def ellipkinc_by_m(phi: Array, m: Array) -> Array:
    """Return the derivative of ellipkinc by the parameter."""
    turns, s = _turned(phi)
    square = s * s
    part = s * square / 6 * F.elliprd(1 - square, 1, 1 - m * square)
    return part + turns * ellipk_slope(m)


@helper
def ellipeinc_by_m(phi: Array, m: Array) -> Array:
    """Return the derivative of ellipeinc by the parameter."""
    turns, s = _turned(phi)
    square = s * s
    part = -s * square / 6 * F.elliprd(1 - square, 1 - m * square, 1)
    return part + turns * ellipe_slope(m)


special("ellipkinc", "g / sqrt(1 - x1 * sin(x0) ** 2)", "ellipkinc_by_m(x0, x1)")
special("ellipeinc", "sqrt(1 - x1 * sin(x0) ** 2)", "ellipeinc_by_m(x0, x1)")


# Jacobi's functions: DLMF 22.13.1; by the parameter all follow the amplitude


def _amplitude_by_m(y: tuple[Any, ...], u: Array, m: Array) -> Array:
    # ellipkinc(ph, m) is u, whose derivative by ph is 1 / dn
    return -y[2] * ellipkinc_by_m(y[3], m)


def _dn_by_m(y: tuple[Any, ...], u: Array, m: Array) -> Array:
    sn, cn, dn, _ = y
    return -sn * (sn + 2 * m * cn * _amplitude_by_m(y, u, m)) / (2 * dn)


special_tuple(
    "ellipj",
    (
        lambda y, u, m: y[1] * y[2],
        lambda y, u, m: -y[0] * y[2],
        lambda y, u, m: -m * y[0] * y[1],
        lambda y, u, m: y[2],
    ),
    (
        lambda y, u, m: y[1] * _amplitude_by_m(y, u, m),
        lambda y, u, m: -y[0] * _amplitude_by_m(y, u, m),
        _dn_by_m,
        _amplitude_by_m,
    ),
    rule="by u: g₀ · cn · dn − g₁ · sn · dn − g₂ · m · sn · cn + g₃ · dn",
    output_names=("sn", "cn", "dn", "ph"),
)


# Carlson's symmetric integrals: DLMF 19.18.1, 19.18.11, 19.18.12


#: Terms of the series around equal arguments, and up to which distance it stands.
_TERMS, _NEAR = 6, 0.03


def _elliprd_near(m: Array, d: Any, other: Array) -> Array:
    """Return the derivative of elliprd(m - d, other, m + d) by its first argument.

    The integral of ``-3/4 ((t + m)² - d²)^(-3/2) (t + other)^(-1/2)``, expanded in
    ``d²``; each term is a hypergeometric function (DLMF 19.16.9, 15.6.1).
    """
    total, factor = 0.0, -0.75
    for k in range(_TERMS):
        power = 2.5 + 2 * k
        shape = F.hyp2f1(0.5, power, power + 1, 1 - other / m)
        total = total + factor / power * (d / m) ** (2 * k) * shape
        factor *= (1.5 + k) / (k + 1)
    return total / (m * m * np.sqrt(m))


@helper
def elliprd_share(x: Array, z: Array, other: Array) -> Array:
    """Return the derivative of elliprd(x, other, z) by x, or by its second argument.

    A divided difference, by the Euler-Poisson equation (DLMF 19.18.13); where x and z
    are near each other, a series in their distance takes its place.
    """
    near = np.abs(z - x) <= _NEAR * np.abs(z + x)
    apart = F.elliprd(other, z, x) - F.elliprd(x, other, z)
    divided = apart / (2 * np.where(near, 1, x - z))
    m, d = np.where(near, (x + z) / 2, 1), np.where(near, (z - x) / 2, 0)
    return np.where(near, _elliprd_near(m, d, np.where(near, other, 1)), divided)


@helper
def elliprd_part(x: Array, z: Array, other: Array) -> Array:
    """Return x times the derivative by x: 0 at x = 0, where that is infinite."""
    zero = x == 0
    return x * elliprd_share(np.where(zero, z, x), z, other)


special(
    "elliprf",
    "-elliprd(x1, x2, x0) / 6",
    "-elliprd(x2, x0, x1) / 6",
    "-elliprd(x0, x1, x2) / 6",
)


@helper
def elliprg_slope(x: Array, y: Array, z: Array) -> Array:
    """Return the derivative of elliprg(x, y, z) by x.

    ``(elliprf - x elliprd / 3) / 4`` by DLMF 19.18.4 and 19.18.5, finite at x = 0;
    where y and z are 0, elliprg is ``sqrt(x) / 2`` (DLMF 19.20.4).
    """
    zero, alone = x == 0, (y == 0) & (z == 0)
    other = np.where(alone, 1, z)
    part = x * F.elliprd(y, other, np.where(zero, 1, x)) / 3
    slope = (F.elliprf(x, y, other) - part) / 4
    return np.where(alone, 1 / (4 * np.sqrt(np.where(alone, x, 1))), slope)


special("elliprc", "-elliprd(x1, x1, x0) / 6", "-elliprd(x0, x1, x1) / 3")
special(
    "elliprd",
    "elliprd_share(x0, x2, x1)",
    "elliprd_share(x1, x2, x0)",
    "-(1.5 * y + elliprd_part(x0, x2, x1) + elliprd_part(x1, x2, x0)) / x2",
)

special(
    "elliprg",
    "elliprg_slope(x0, x1, x2)",
    "elliprg_slope(x1, x0, x2)",
    "elliprg_slope(x2, x0, x1)",
)

# The arithmetic-geometric mean is pi a / (2 K(1 - (b/a)²)): DLMF 19.8.5


@helper
def agm_by_second(a: Array, b: Array, y: Array) -> Array:
    """Return the derivative of agm(a, b) by b."""
    ratio = b / a
    return 4 / math.pi * (y / a) ** 2 * ratio * ellipk_slope(1 - ratio * ratio)


special("agm", "agm_by_second(x1, x0, y)", "agm_by_second(x0, x1, y)")
