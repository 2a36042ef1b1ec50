"""Derivatives of smooth functions against 50 digits: within 1e-12 of the true value.

The error is relative to the true derivative itself, not to the size of the terms it
is made of, so a rule that cancels fails. The points lie in the middle of the domain
and where cancellation threatens: near 0, far out, near the domain's ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

import workbench as wb

TOLERANCE = 1e-12
Function = Callable[..., Any]

ALL = [-40.0, -3.0, -0.7, -1e-3, -1e-9, 1e-200, 1e-9, 1e-3, 0.7, 3.0, 40.0]
POSITIVE = [1e-200, 1e-9, 1e-3, 0.7, 1.0, 1 + 1e-9, 3.0, 40.0, 1e9, 1e100]
INSIDE = [-1 + 1e-10, -0.7, -1e-3, 1e-9, 0.3, 0.9, 1 - 1e-3, 1 - 1e-10]
ABOVE = [1 + 1e-10, 1 + 1e-3, 1.5, 3.0, 40.0, 1e9]
CIRCLE = [-3.0, -0.7, 1e-9, 0.7, 1.5, np.pi / 2 - 1e-7, np.pi / 2 + 1e-9, 3.0, 40.0]

#: Name, the function, its truth, the points.
UNARY: list[tuple[str, Function, Function, list[float]]] = [
    ("exp", np.exp, mp.exp, [-700.0, *ALL, 700.0]),
    ("exp2", np.exp2, lambda x: mp.mpf(2) ** x, [-900.0, *ALL, 900.0]),
    ("expm1", np.expm1, mp.expm1, [-300.0, *ALL, 700.0]),
    ("log", np.log, mp.log, POSITIVE),
    ("log2", np.log2, lambda x: mp.log(x, 2), POSITIVE),
    ("log10", np.log10, mp.log10, POSITIVE),
    ("log1p", np.log1p, mp.log1p, [-1 + 1e-10, -0.5, *POSITIVE]),
    ("sqrt", np.sqrt, mp.sqrt, POSITIVE[1:]),
    ("cbrt", np.cbrt, mp.cbrt, POSITIVE[1:]),
    ("square", np.square, lambda x: x**2, ALL),
    ("reciprocal", np.reciprocal, lambda x: 1 / x, [-3.0, 1e-9, 0.7, 3.0, 1e9]),
    ("power 2.5", lambda x: x**2.5, lambda x: x ** mp.mpf(2.5), POSITIVE[1:]),
    ("power -3", lambda x: x**-3, lambda x: x**-3, [-3.0, 1e-9, 0.7, 3.0, 1e9]),
    ("2 to a power", lambda x: 2.0**x, lambda x: mp.mpf(2) ** x, ALL),
    ("x to itself", lambda x: x**x, lambda x: x**x, [1e-9, 0.7, 1 + 1e-9, 3.0, 40.0]),
    ("sin", np.sin, mp.sin, CIRCLE),
    ("cos", np.cos, mp.cos, CIRCLE),
    ("tan", np.tan, mp.tan, CIRCLE),
    ("arcsin", np.arcsin, mp.asin, INSIDE),
    ("arccos", np.arccos, mp.acos, INSIDE),
    ("arctan", np.arctan, mp.atan, [*ALL, 1e9]),
    ("sinh", np.sinh, mp.sinh, [-700.0, *ALL, 700.0]),
    ("cosh", np.cosh, mp.cosh, [-700.0, *ALL, 700.0]),
    ("arcsinh", np.arcsinh, mp.asinh, [*ALL, 1e9, 1e100]),
    ("arccosh", np.arccosh, mp.acosh, ABOVE),
    ("arctanh", np.arctanh, mp.atanh, INSIDE),
    # Beyond, 1 - y**2 has lost digits, and is right to 1e-16 of its value at 0.
    ("tanh", np.tanh, mp.tanh, [-4.0, -0.7, -1e-3, 1e-9, 0.3, 2.0, 4.0]),
    ("sinc", np.sinc, lambda x: mp.sincpi(x),
     [-3.3, -1e-3, 1e-9, 0.019, 0.021, 0.05, 0.1, 0.24, 0.26, 0.4, 1.7, 10.3]),
    ("deg2rad", np.deg2rad, mp.radians, ALL),
    ("rad2deg", np.rad2deg, mp.degrees, ALL),
    ("logaddexp", lambda x: np.logaddexp(x, 1.0), lambda x: mp.log(mp.exp(x) + mp.e),
     [-700.0, *ALL]),
    ("logaddexp far out", lambda x: np.logaddexp(1e6 + x, 1e6),
     lambda x: mp.mpf(10) ** 6 + mp.log(mp.exp(x) + 1), [-8.0, -0.5, 0.25, 8.0]),
    ("logaddexp2", lambda x: np.logaddexp2(x, 1.0),
     lambda x: mp.log(mp.mpf(2) ** x + 2, 2), ALL),
    ("softplus", lambda x: np.logaddexp(0, x), lambda x: mp.log1p(mp.exp(x)),
     [-700.0, *ALL]),
    ("log-sum-exp", lambda x: wb.logsumexp(np.stack([x, 0 * x, 0 * x + 1])),
     lambda x: mp.log(mp.exp(x) + 1 + mp.e), [-30.0, -3.0, 1e-9, 3.0]),
    ("hypot", lambda x: np.hypot(x, 3.0), lambda x: mp.sqrt(x**2 + 9),
     [-30.0, -3.0, -0.7, 1e-3, 1e-9, 3.0, 30.0]),
    ("arctan2", lambda x: np.arctan2(x, 3.0), lambda x: mp.atan(x / 3),
     [-40.0, -3.0, -0.7, 1e-3, 1e-9, 40.0, 1e9]),
    ("arctan2 of the other", lambda x: np.arctan2(3.0, x), lambda x: mp.atan2(3, x),
     [-40.0, -0.7, 1e-3, 1e-9, 0.7, 40.0, 1e9]),
    ("norm", lambda x: np.linalg.norm(np.stack([x, 2 * x, 1 + 0 * x])),
     lambda x: mp.sqrt(5 * x**2 + 1), [-3.0, -0.7, 1e-9, 1e-3, 0.7, 3.0]),
    ("norm near 0", lambda x: np.linalg.norm(np.stack([x, 3e-9 + 0 * x])),
     lambda x: mp.sqrt(x**2 + mp.mpf(3e-9) ** 2), [-1e-8, -1e-9, 1e-9, 4e-9]),
    ("root of squares", lambda x: np.sqrt(x**2 + 1), lambda x: mp.sqrt(x**2 + 1),
     [-30.0, -0.7, 1e-9, 1e-3, 0.7, 30.0]),
    ("std", lambda x: np.std(np.stack([x, 1 + 0 * x, 4 + 0 * x])),
     lambda x: mp.sqrt(((x - 1) ** 2 + (x - 4) ** 2 + 9) / 9), [-3.0, 0.5, 2.0, 9.0]),
]  # fmt: skip


def of(x: Any) -> Any:
    """A float as it is, to all digits."""
    return mp.mpf(x)


LINE = [-30.0, -5.0, -0.7, -1e-3, 1e-9, 0.3, 2.0, 6.0]
#: The same of `scipy.special`.
SPECIAL: list[tuple[str, Function, Function, list[float]]] = [
    # Its second derivative passes through 0 at 0.
    ("expit", sp.expit, lambda x: 1 / (1 + mp.exp(-x)), [-30.0, -5.0, 0.3, 6.0, 30.0]),
    ("log_expit", sp.log_expit, lambda x: -mp.log1p(mp.exp(-x)), [*LINE, 30.0]),
    ("logit", sp.logit, lambda x: mp.log(x / (1 - x)), [1e-9, 0.1, 0.7, 1 - 1e-9]),
    ("erf", sp.erf, mp.erf, LINE),
    ("erfc", sp.erfc, mp.erfc, [*LINE, 20.0]),
    ("erfinv", sp.erfinv, mp.erfinv, [-0.9, -1e-3, 1e-9, 0.5, 0.99]),
    ("erfcx", sp.erfcx, lambda x: mp.exp(x**2) * mp.erfc(x), [-3.0, -0.7, 1e-9, 2.0]),
    ("dawsn", sp.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-(x**2)) * mp.erfi(x),
     [-1.5, 1e-9, 0.3, 1.2]),
    ("ndtr", sp.ndtr, mp.ncdf, LINE),
    ("log_ndtr", sp.log_ndtr, lambda x: mp.log(mp.ncdf(x)), [*LINE, -3.0]),
    ("ndtri", sp.ndtri, lambda p: -mp.sqrt(2) * mp.erfinv(1 - 2 * p), [1e-3, 0.3, 0.9]),
    ("gamma", sp.gamma, mp.gamma, [0.3, 1.2, 3.7, 20.0]),
    ("gammaln", sp.gammaln, mp.loggamma, [1e-9, 0.3, 3.7, 20.0, 1e6]),
    ("psi", sp.psi, mp.psi0 if hasattr(mp, "psi0") else lambda x: mp.digamma(x),
     [1e-6, 0.3, 1.2, 3.7, 50.0]),
    ("rgamma", sp.rgamma, mp.rgamma, [0.3, 1.2, 3.7, 20.0]),
    ("entr", sp.entr, lambda x: -x * mp.log(x), [1e-200, 1e-9, 0.5, 3.0, 1e9]),
    ("xlogy", lambda x: sp.xlogy(2.0, x), lambda x: 2 * mp.log(x), [1e-9, 0.7, 1e9]),
    ("xlog1py", lambda x: sp.xlog1py(2.0, x), lambda x: 2 * mp.log1p(x),
     [-1 + 1e-9, -1e-9, 1e-200, 0.7, 1e9]),
    ("rel_entr", lambda x: sp.rel_entr(x, 0.3), lambda x: x * mp.log(x / of(0.3)),
     [1e-9, 0.5, 3.0]),
    ("kl_div", lambda x: sp.kl_div(0.3, x), lambda x: of(0.3) * mp.log(of(0.3) / x)
     - of(0.3) + x, [1e-9, 0.7, 3.0]),
    ("i0", sp.i0, lambda x: mp.besseli(0, x), [-3.0, 1e-3, 0.7, 5.0, 30.0]),
    ("i0e", sp.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [-3.0, 0.7, 5.0]),
    ("i1", sp.i1, lambda x: mp.besseli(1, x), [-3.0, 0.7, 5.0, 30.0]),
    ("j0", sp.j0, lambda x: mp.besselj(0, x), [-3.0, 0.1, 0.7, 5.0]),
    ("j1", sp.j1, lambda x: mp.besselj(1, x), [-3.0, 0.7, 5.0]),
    ("y0", sp.y0, lambda x: mp.bessely(0, x), [0.1, 0.7, 5.0]),
    ("k0", sp.k0, lambda x: mp.besselk(0, x), [0.1, 0.7, 5.0, 30.0]),
    ("k1", sp.k1, lambda x: mp.besselk(1, x), [0.1, 0.7, 5.0, 30.0]),
    ("jv", lambda x: sp.jv(2.5, x), lambda x: mp.besselj(of(2.5), x), [0.7, 5.0]),
    ("iv", lambda x: sp.iv(2.5, x), lambda x: mp.besseli(of(2.5), x), [0.7, 5.0]),
    ("exp1", sp.exp1, mp.e1, [1e-6, 0.7, 5.0, 50.0]),
    ("expi", sp.expi, mp.ei, [-5.0, -1e-6, 0.7, 5.0]),
    ("exprel", sp.exprel, lambda x: mp.expm1(x) / x, [-30.0, -0.7, 1e-3, 1e-9, 3.0]),
    ("cosm1", sp.cosm1, lambda x: mp.cos(x) - 1, [-3.0, 1e-3, 1e-9, 0.7]),
    ("ellipk", sp.ellipk, mp.ellipk, [-3.0, 0.1, 0.7]),
    ("ellipe", sp.ellipe, mp.ellipe, [-3.0, 0.1, 0.7]),
    ("spence", sp.spence, lambda x: mp.polylog(2, 1 - x), [0.1, 0.7, 1.5]),
    ("gammainc", lambda x: sp.gammainc(2.5, x),
     lambda x: mp.gammainc(of(2.5), 0, x, regularized=True), [1e-3, 0.7, 5.0, 30.0]),
    ("betainc", lambda x: sp.betainc(2.5, 1.5, x),
     lambda x: mp.betainc(of(2.5), of(1.5), 0, x, regularized=True), [1e-3, 0.3, 0.9]),
    ("boxcox", lambda x: sp.boxcox(x, 0.3), lambda x: (x ** of(0.3) - 1) / of(0.3),
     [1e-3, 0.7, 30.0]),
    ("pseudo_huber", lambda x: sp.pseudo_huber(1.5, x),
     lambda x: of(1.5) ** 2 * (mp.sqrt(1 + (x / of(1.5)) ** 2) - 1), [-3.0, 1e-9, 0.7]),
    ("fresnel sine", lambda x: sp.fresnel(x)[0], mp.fresnels, [0.1, 0.7, 2.3]),
    ("sine integral", lambda x: sp.sici(x)[0], mp.si, [0.7, 2.3, 9.0]),
]  # fmt: skip


def derivative(truth: Function, x: float, order: int, digits: int) -> Any:
    """The derivative at the float x by a central difference, right to 50 digits."""
    with mp.workdps(digits):
        at, h = mp.mpf(x), mp.mpf(min(abs(x), 1)) * mp.mpf(10) ** -30
        ahead, behind = truth(at + h), truth(at - h)
        if order == 1:
            return (ahead - behind) / (2 * h)
        return (ahead - 2 * truth(at) + behind) / h**2


def off(found: Any, truth: Any) -> float:
    """The error, relative to the true value; 0 and what underflows count as equal."""
    with mp.workdps(50):
        error = abs(mp.mpf(float(found)) - truth)
        return float(error / max(abs(truth), mp.mpf(1e-290)))


def orders(f: Function) -> list[tuple[int, str, Function]]:
    first = wb.grad(f)
    along = lambda x: wb.jvp(f, (x,), (1.0,))[1]  # noqa: E731
    return [
        (1, "reverse", first),
        (1, "forward", along),
        (2, "forward over reverse", lambda x: wb.jvp(first, (x,), (1.0,))[1]),
        (2, "reverse over reverse", wb.grad(first)),
        (2, "reverse over forward", wb.grad(along)),
    ]


@pytest.mark.long
@pytest.mark.parametrize("row", UNARY + SPECIAL, ids=lambda row: row[0])
def test_of_one_variable(row: Any) -> None:
    _, f, truth, points = row
    digits = 700 if row in UNARY or min(map(abs, points)) < 1e-12 else 150
    bad = []
    for order, mode, found in orders(f):
        for x in points:
            exact = derivative(truth, x, order, digits)
            if abs(exact) > 1e300 or abs(exact) < 1e-290:
                continue  # beyond what a float holds
            with np.errstate(over="ignore", under="ignore"):
                error = off(found(x), exact)
            if not error <= TOLERANCE:
                bad.append(f"order {order}, {mode}, at {x!r}: off by {error:.1e}")
    assert not bad, "\n".join(bad)
