"""Rounding, the parts of a floating-point number, and what mends special values.

`frexp` gives the mantissa with derivative 2 to minus the exponent, `ldexp` scales
by powers of 2. Rounded numbers are constant almost everywhere: derivative 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.op import declare, implements
from workbench.core.tensor import apply
from workbench.errors import TraceError
from workbench.ops.define import dtype_of, elementwise, no_out

__all__ = ["frexp", "modf"]


# round, fix


def _round_compute(x: Any, *, decimals: int = 0) -> Any:
    return np.round(x, decimals)


elementwise("round", _round_compute, "0")


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: None = None) -> Any:
    """`numpy.round`, whose derivative is zero."""
    no_out("np.round", out)
    return apply(declare("round"), (a,), {"decimals": decimals} if decimals else {})


@implements(np.fix)
def fix(x: Any, out: None = None) -> Any:
    """`numpy.fix`."""
    no_out("np.fix", out)
    return np.trunc(x)


# The parts of a number

elementwise("nextafter", np.nextafter, "1", "0")
elementwise("spacing", np.spacing, "0")
elementwise("ldexp", np.ldexp, "ldexp(g, x1)", "0")
elementwise("exponent", lambda x: np.frexp(x)[1])
elementwise("fraction", lambda x: np.modf(x)[0], "1")


def frexp(x: Any) -> tuple[Any, Any]:
    """`numpy.frexp`: the mantissa, which varies, and the exponent, which does not."""
    exponent = apply(declare("exponent"), (x,))
    return np.ldexp(x, -exponent), exponent


def modf(x: Any) -> tuple[Any, Any]:
    """`numpy.modf`: the fraction, which varies, and the whole part, which does not."""
    return apply(declare("fraction"), (x,)), np.trunc(x)


# Whole numbers: no derivative

for _name in ("gcd", "lcm", "bitwise_count"):
    elementwise(_name, getattr(np, _name))


# Special values


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """`numpy.nan_to_num`; what is replaced has derivative zero."""
    if not copy:
        raise TraceError(
            f"np.nan_to_num(..., copy=False){blame.here()}: a traced value never"
            " changes in place. Write x = np.nan_to_num(x)."
        )
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
def sinc(x: Any) -> Any:
    """`numpy.sinc`; near 0 by its series, so that all its derivatives are right."""
    near = np.abs(x) < 0.02
    angle = np.pi * np.where(near, 1, x)
    z = np.square(np.pi * np.where(near, x, 0))
    series = 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72)))
    return np.where(near, series, np.sin(angle) / angle)


@implements(np.i0)
def i0(x: Any) -> Any:
    """`numpy.i0`, the modified Bessel function of order 0; its derivative is order 1.

    The ops of `scipy.special` have both. DLMF 10.29.3.
    """
    if dtype_of(x).kind == "c":
        raise TypeError("i0 not supported for complex values")
    from scipy.special import i0 as bessel

    return bessel(x)
