"""Logistic functions, entropies, losses, power transforms and plain conveniences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import CALLS, Op, declare
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, ArrayLike, Axis
from workbench.ops import singular
from workbench.ops.define import dtype_of
from workbench.ops.elementwise import stop_gradient
from workbench.ops.reductions import logsumexp, wide_dtype
from workbench.ops.special.define import F, float_helper, helper, series, special, where

# NumPy's own, by SciPy's name: SciPy has no loops for half precision


def _in_its_dtype(ufunc: np.ufunc, op: Op) -> Callable[[Array], Array]:
    def call(x: Array) -> Array:
        kind = dtype_of(x)
        *_, result = ufunc.resolve_dtypes((kind, None))
        return apply(op, (x if kind == result else x.astype(result),))

    return call


for _theirs, _ours in (
    ("cbrt", "cbrt"),
    ("exp2", "exp2"),
    ("expm1", "expm1"),
    ("log1p", "log1p"),
    ("round", "rint"),
):
    _ufunc = getattr(F, _theirs).ufunc
    CALLS[_ufunc] = _in_its_dtype(_ufunc, declare(_ours))

# The logistic function and its inverse: 1 - y would lose the digits of small tails

special("expit", "y * expit(-x)", saturates=True, logistic=(0, 1),
    scalar="where(x >= 0, 1, exp(-abs(x))) / (1 + exp(-abs(x)))")  # fmt: skip
special("log_expit", "expit(-x)",
    scalar="where(x < 0, x, -0.0) - log1p(exp(-abs(x)))")  # fmt: skip
special("logit", "g / (x * (1 - x))", undefined=singular.PROBABILITY,
    scalar="where((x < 0.3) | (x > 0.65), log(x / (1 - x)),"
    " 2 * arctanh(2 * x - 1))")  # fmt: skip

# Entropies: 0 log 0 is 0, and what lies outside the domain is constant


@float_helper
def log_ratio(x: Array, y: Array) -> Array:
    """Return log(x / y), with all digits where x is near y."""
    near = np.abs(x - y) < 0.5 * np.abs(y)
    a, b = np.where(near, y, 1), np.where(near, 1, y)
    return np.where(
        near,
        np.log1p((np.where(near, x, 1) - a) / a),
        np.log(np.where(near, 1, x)) - np.log(b),
    )


@helper
def ratio(x: Array, y: Array) -> Array:
    """Return ``x / y``, and 0 where x is 0, whatever y is.

    Where y is a number the quotient stays, for its derivative ``1 / y`` by x.
    """
    nothing = (x == 0) & ((y == 0) | np.isnan(y))
    return where(nothing, 0 * x, x / where(nothing, 1, y))


special("xlogy", "log(x1)", "ratio(x0, x1)", pretty_rule="g · log(x₁)   g · x₀ / x₁",
    scalar="where((x0 == 0) & (x1 == x1), 0, x0 * log(x1))")  # fmt: skip
special("xlog1py", "log1p(x1)", "ratio(x0, 1 + x1)",
    pretty_rule="g · log1p(x₁)   g · x₀ / (1 + x₁)",
    scalar="where((x0 == 0) & (x1 == x1), 0, x0 * log1p(x1))")  # fmt: skip
special(
    "entr",
    "where(x < 0, 0 * x, -1 - log(where(x < 0, 1, x)))",
    pretty_rule="−g · (1 + log(x))",
    scalar="where(x == 0, 0, where(x < 0, -inf, -x * log(x)))",
)
_OUTSIDE = "(x0 < 0) | (x1 < 0) | (x1 == 0) & (x0 > 0)"
_INSIDE = f"where({_OUTSIDE}, 1, x0), where({_OUTSIDE}, 1, x1)"
#: log(x0 / x1), with all digits where they are near each other, or far apart.
_LOG_RATIO = (
    "where(abs(x0 - x1) < 0.5 * x1, log1p((x0 - x1) / x1),"
    " where((x0 / x1 > 1e-37) & (x0 / x1 < inf), log(x0 / x1), log(x0) - log(x1)))"
)


def _entropy(inside: str, at_zero: str) -> str:
    """Return the scalar of an entry: inside the domain, at 0, and outside."""
    return (
        f"where((x0 > 0) & (x1 > 0), {inside},"
        f" where((x0 == 0) & (x1 >= 0), {at_zero},"
        " where((x0 == x0) & (x1 == x1), inf, x0 + x1)))"
    )


special(
    "rel_entr",
    f"where({_OUTSIDE}, 0 * x0, 1 + log_ratio({_INSIDE}))",
    f"where({_OUTSIDE}, 0 * x0, -ratio({_INSIDE}))",
    pretty_rule="g · (1 + log(x₀ / x₁))   −g · x₀ / x₁",
    scalar=_entropy(f"x0 * {_LOG_RATIO}", "0"),
)
special(
    "kl_div",
    f"where({_OUTSIDE}, 0 * x0, log_ratio({_INSIDE}))",
    f"where({_OUTSIDE}, 0 * x0, 1 - ratio({_INSIDE}))",
    pretty_rule="g · log(x₀ / x₁)   g · (1 − x₀ / x₁)",
    scalar=_entropy("x0 * log(x0 / x1) - x0 + x1", "x1"),
)


# Losses

special(
    "huber",
    "where(abs(x1) <= x0, 0 * x1, abs(x1) - x0)",
    "where(abs(x1) <= x0, x1, x0 * sign(x1))",
    pretty_rule="g · max(|x₁| − x₀, 0)   g · clip(x₁, −x₀, x₀)",
    scalar="where(x0 < 0, inf, where(abs(x1) <= x0, 0.5 * x1 * x1,"
    " x0 * (abs(x1) - 0.5 * x0)))",
)


@helper
def pseudo_huber_by_delta(delta: Any, r: Array) -> Array:
    """Return the derivative by delta: (h - delta)² / h with h the hypotenuse."""
    h = np.hypot(delta, r)
    safe = np.where(h == 0, 1, h)
    return np.square(r * r / np.where(h == 0, 1, h + delta)) / safe


special(
    "pseudo_huber",
    "pseudo_huber_by_delta(x0, x1)",
    "ratio(x0 * x1, hypot(x0, x1))",
    scalar="where(x0 < 0, inf, where((x0 == 0) | (x1 == 0), 0,"
    " x0 * x0 * expm1(0.5 * log1p(square(x1 / x0)))))",
)


# Power transforms: written so that lambda = 0, where they are logarithms, is no
# special point


@helper
def power_slope(t: Array) -> Array:
    """Return (1 + (t - 1) exp(t)) / t²; near 0 the sum of t**k / (k! (k + 2))."""
    near = np.abs(t) < 0.5
    a, b = np.where(near, t, 0), np.where(near, 1, t)
    terms = [1 / (math.factorial(k) * (k + 2)) for k in range(15)]
    return np.where(near, series(a, *terms), (1 + (b - 1) * np.exp(b)) / (b * b))


@helper
def root_slope(t: Array) -> Array:
    """Return (t / (1 + t) - log1p(t)) / t², near 0 by its series."""
    near = np.abs(t) < 0.1
    a, b = np.where(near, t, 0), np.where(near, 1, t)
    terms = [(-1) ** (k + 1) * (k + 1) / (k + 2) for k in range(18)]
    return np.where(near, series(a, *terms), (b / (1 + b) - np.log1p(b)) / (b * b))


special("boxcox", "x0 ** (x1 - 1)", "log(x0) ** 2 * power_slope(x1 * log(x0))")
special(
    "boxcox1p",
    "(1 + x0) ** (x1 - 1)",
    "log1p(x0) ** 2 * power_slope(x1 * log1p(x0))",
)
special("inv_boxcox", "g * y / (1 + x0 * x1)", "y * x0 ** 2 * root_slope(x0 * x1)")
special(
    "inv_boxcox1p",
    "g * (1 + y) / (1 + x0 * x1)",
    "(1 + y) * x0 ** 2 * root_slope(x0 * x1)",
)
special("exprel", "power_slope(x)", pretty_rule="g · (exp(x) − y) / x",
    scalar="where(x == 0, 1, where(x > 709.782712893384, inf, where(x > 80,"
    " exp(0.5 * x) / x * exp(0.5 * x), expm1(x) / x)))")  # fmt: skip
special(
    "powm1",
    "g * (x1 * x0 ** where(x1 == 0, 1, x1 - 1))",
    "g * ((1 + y) * log(where(x0 == 0, 1, x0)))",
    pretty_rule="g · x₁ · x₀^(x₁ − 1)   g · (1 + y) · log(x₀)",
)
special("cosm1", "-sin(x)", scalar="0 - 2 * square(sin(0.5 * x))")
special("exp10", "y * 2.302585092994046", scalar="10 ** x")

# Angles in degrees

special("sindg", "cosdg(x) * 0.017453292519943295")
special("cosdg", "sindg(x) * -0.017453292519943295")
special("tandg", "(1 + y * y) * 0.017453292519943295")
special("cotdg", "(1 + y * y) * -0.017453292519943295")
special(
    "radian",
    "g * 0.017453292519943295",
    "g * 0.0002908882086657216",
    "g * 4.84813681109536e-06",
)


# Lambert's W, of w exp(w) = z, and Wright's omega, of w + log(w) = z: DLMF 4.13.4


special("lambertw", "g / (exp(y) + x0)", "0", "0")
special("wrightomega", "g * y / (1 + y)")


# Tukey's lambda: its quantile function is boxcox(p, lambda) - boxcox(1 - p, lambda)


@helper
def tukey_density(y: Array, shape: Array) -> Array:
    """Return the derivative of tklmbda by x, 0 outside the support."""
    inside = (y > 0) & (y < 1)
    p = np.where(inside, y, 0.5)
    return np.where(inside, 1 / (p ** (shape - 1) + (1 - p) ** (shape - 1)), 0)


@helper
def tukey_by_shape(y: Array, shape: Array) -> Array:
    """Return the derivative of tklmbda by lambda."""
    p = np.where((y > 0) & (y < 1), y, 0.5)
    a, b = np.log(p), np.log1p(-p)
    moved = a * a * power_slope(shape * a) - b * b * power_slope(shape * b)
    return -moved * tukey_density(y, shape)


special("tklmbda", "tukey_density(y, x1)", "tukey_by_shape(y, x1)")


# Exponentials that are divided by their sum


def _shift_peak(x: ArrayLike, axis: Axis) -> Array:
    x = admit(x)
    largest = stop_gradient(np.max(x, axis=axis, keepdims=True))
    return x - np.where(np.isfinite(largest), largest, 0)


def softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Return ``exp(x) / sum(exp(x))`` without overflow, as `scipy.special.softmax`.

    Parameters
    ----------
    x
        An array or Tensor of any shape.
    axis
        The axis, or tuple of axes, that the sum runs over; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    powers = np.exp(_shift_peak(x, axis))
    total = np.sum(powers, axis=axis, keepdims=True, dtype=wide_dtype(powers))
    return (powers / total).astype(dtype_of(powers))


def log_softmax(x: ArrayLike, axis: Axis = None) -> Array:
    """Return ``log(softmax(x))`` with all its digits, as `scipy.special.log_softmax`.

    Parameters
    ----------
    x
        An array or Tensor of any shape.
    axis
        The axis, or tuple of axes, that the sum runs over; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.array([1000.0, 0.0]))
    array([    0., -1000.])
    """
    moved = _shift_peak(x, axis)
    return moved - logsumexp(moved, axis=axis, keepdims=True)
