"""How a gamma or beta draw moves with its shape, at a fixed quantile.

If F(z; a) = u stays, dz/da = -(dF/da) / f, with f the density: the implicit
reparameterisation of Figurnov, Mohamed and Mnih, "Implicit reparameterization
gradients", 2018, equation 5. dF/da is the integral of f(t) (d log f(t) / da), from 0
to z or from z to infinity, whichever keeps one sign: then nothing cancels. In the
logarithm of the distance from z the integrand is smooth, and the trapezoidal rule
converges exponentially (Trefethen and Weideman, "The exponentially convergent
trapezoidal rule", 2014, section 14). Against 80-digit arithmetic the relative error of
dF/da is below 1e-12 for gamma shapes from 1e-3 to 1e5 and beta shapes from 1e-2 to
2e3, that of second derivatives below 2e-10.

All of this runs in NumPy on the host, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

__all__ = ["beta_moments", "gamma_moments"]

Array = Any
Function = Callable[[Array], Array]

NODES = 192
STEPS = 14
#: The most numbers that one sweep of the rule holds.
MOST = 2**17


def _last(condition: Function, low: Array) -> Array:
    """The last logarithm, from ``low`` on, at which a condition holds, roughly."""
    high = np.full_like(low, 110.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        holds = condition(middle)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return (low + high) / 2


def _integrals(exponent: Function, weights: Function, like: Array) -> Array:
    """The integrals of exp(exponent(v)) * weight(v) over v > 0, one per weight.

    ``exponent`` falls from 0; ``weights`` gives an array with an axis of weights in
    front. ``like`` is a column, and both take a row of points for each entry.
    """
    start = _last(lambda w: exponent(np.exp(w)) > -1, np.full_like(like, -90.0))
    # What a slow decay spreads over many decades counts by its width.
    stop = _last(lambda w: exponent(np.exp(w)) + w > start - 42, start)
    last = np.maximum(stop - start, 1.0) + 0.1
    step = (last + 3.7) / (NODES - 1)
    count = np.arange(NODES)  # host array: the rule's nodes
    t = -3.7 + step * count
    inward = np.exp(-t)
    v = np.exp(np.minimum(start + t - inward, 700.0))
    terms = np.exp(exponent(v)) * v * (1 + inward)
    made: Array = step[:, 0] * np.sum(terms * weights(v), axis=-1)
    return made


def _swept(
    function: Callable[..., Array], count: int, arguments: Sequence[Array]
) -> Array:
    """A function of columns, for entries of any shape, some at a time."""
    given = np.broadcast_arrays(*arguments)
    shape = given[0].shape
    flat = [np.reshape(x, (-1, 1)).astype(float) for x in given]
    size = max(1, MOST // NODES)
    made = np.empty((count, flat[0].shape[0]))  # host array: results
    with np.errstate(all="ignore"):
        for i in range(0, flat[0].shape[0], size):
            made[:, i : i + size] = function(*(x[i : i + size] for x in flat))
    return np.reshape(made, (count, *shape))


def gamma_moments(a: Array, x: Array, count: int = 2) -> Array:
    """dF/da and d²F/da² over the density, of the gamma distribution at ``x``.

    ``count`` is 1 for the first alone, which takes two thirds of the time.
    """
    return _swept(partial(_gamma, count=count), count, (a, x))


def _gamma(a: Array, x: Array, *, count: int) -> Array:
    from scipy.special import psi, zeta

    # zeta(2, a) is the derivative of psi (DLMF 25.11.12).
    centre: Array = psi(a)
    spread: Array = zeta(2, a)
    log = np.log(x)
    made = np.empty((count, a.shape[0]))  # host array: results
    # For small shapes what lies below spreads over too many decades to go around.
    below = ((log < centre) | ((a < 1) & (x < 1)))[:, 0]

    def lower(i: Array) -> Array:
        a_, x_, l_, c_, s_ = (z[i] for z in (a, x, log, centre, spread))

        def weights(v: Array) -> Array:
            first = l_ - v - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_])

        return x_[:, 0] * _integrals(lambda v: -a_ * v - x_ * np.expm1(-v), weights, a_)

    def upper(i: Array) -> Array:
        a_, x_, l_, c_, s_ = (z[i] for z in (a, x, log, centre, spread))

        def weights(v: Array) -> Array:
            first = l_ + np.log1p(v / x_) - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_])

        return -_integrals(lambda v: (a_ - 1) * np.log1p(v / x_) - v, weights, a_)

    made[:, below] = lower(below)
    made[:, ~below] = upper(~below)
    return made


def beta_moments(a: Array, b: Array, x: Array, y: Array, count: int = 3) -> Array:
    """dF/da, d²F/da² and d²F/dadb over the density, of the beta law at ``x``.

    ``y`` is ``1 - x``, given apart so that both may be small; ``count`` is 1 for the
    first alone.
    """
    return _swept(partial(_beta, count=count), count, (a, b, x, y))


def _beta(a: Array, b: Array, x: Array, y: Array, *, count: int) -> Array:
    from scipy.special import psi, zeta

    whole = psi(a + b)
    centre, other = psi(a) - whole, psi(b) - whole
    shared = zeta(2, a + b)
    spread = zeta(2, a) - shared
    made = np.empty((count, a.shape[0]))  # host array: results
    below = ((np.log(x) < centre) | ((a < 1) & (x < 0.5)))[:, 0]
    columns = (a, b, x, y, centre, other, spread, shared)

    def both(i: Array, up: bool) -> Array:
        a_, b_, x_, y_, c_, o_, s_, h_ = (z[i] for z in columns)
        # Towards 0 in log t, or towards 1 in log (1 - t).
        near, far, own, cross = (y_, x_, b_, a_) if up else (x_, y_, a_, b_)

        def drift(v: Array) -> Array:
            return np.log1p(-near / far * np.expm1(-v))

        def weights(v: Array) -> Array:
            inner, outer = np.log(near) - v, np.log(far) + drift(v)
            log_t, log_rest = (outer, inner) if up else (inner, outer)
            first = log_t - c_
            if count == 1:
                return first[None]
            return np.stack([first, first * first - s_, first * (log_rest - o_) + h_])

        value = near[:, 0] * _integrals(
            lambda v: -own * v + (cross - 1) * drift(v), weights, a_
        )
        return -value if up else value

    made[:, below] = both(below, False)
    made[:, ~below] = both(~below, True)
    return made
