"""Gamma and beta draws: values by quantile, derivatives by implicit reparameterisation.

The noise is the quantile of what NumPy drew, kept as ``u`` for a probability below
one half and as ``-(1 - u)`` above, so that neither tail loses digits. See `slopes.py`
for the derivative by a shape; it has a second derivative, and no third.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.op import Op
from workbench.core.tensor import apply
from workbench.errors import NotDifferentiableError
from workbench.ops.define import op
from workbench.ops.random.slopes import beta_moments, gamma_moments

__all__ = ["BETA", "GAMMA", "QUANTILES", "beta_tail", "gamma_tail"]

#: The ops of this file.
QUANTILES = [
    f"random_{law}_{what}"
    for law in ("gamma", "beta")
    for what in ("quantile", "slope", "bend")
]


def _tail(below: Any, above: Any) -> Any:
    return np.where(below <= 0.5, below, -above)


def gamma_tail(a: Any, x: Any) -> Any:
    """The signed quantile of a draw ``x`` of the gamma law of shape ``a``."""
    from scipy.special import gammainc, gammaincc

    return _tail(gammainc(a, x), gammaincc(a, x))


def beta_tail(a: Any, b: Any, x: Any) -> Any:
    """The signed quantile of a draw ``x`` of the beta law."""
    from scipy.special import betainc, betaincc

    return _tail(betainc(a, b, x), betaincc(a, b, x))


def _third(*_: Any, **__: Any) -> Any:
    raise NotDifferentiableError(
        "the third derivative of a gamma or beta draw by its shape is not known; two"
        " are. Cut it with stop_gradient where it is not wanted."
    )


def _entrywise(made: Op) -> Op:
    made.elementwise = True
    return made


# Gamma


def _gamma(a: Any, q: Any) -> Any:
    from scipy.special import gammainccinv, gammaincinv

    size = np.abs(q)
    return np.where(q >= 0, gammaincinv(a, size), gammainccinv(a, size))


def _gamma_slope(a: Any, x: Any) -> Any:
    return np.where(x > 0, -gamma_moments(a, np.where(x > 0, x, 1), 1)[0], 0.0)


def _gamma_bend(a: Any, x: Any) -> Any:
    from scipy.special import psi

    safe = np.where(x > 0, x, 1)
    first, second = gamma_moments(a, safe)
    return np.where(x > 0, first * (np.log(safe) - psi(a)) - second, 0.0)


def _gamma_slope_by_x(y: Any, a: Any, x: Any) -> Any:
    from scipy.special import psi

    safe = np.where(x > 0, x, 1)
    whole = psi(a) - np.log(safe) - y * ((a - 1) / safe - 1)
    return np.where(x > 0, whole, 0)


GAMMA: Op = _entrywise(
    op(
        "random_gamma_quantile",
        _gamma,
        lambda g, y, a, q: g * apply(GAMMA_SLOPE, (a, y)),
        None,
        push=lambda t, y, a, q: t[0] * apply(GAMMA_SLOPE, (a, y)),
        rule="−g · (∂F/∂a) / f(y)",
        reads=(0, "y"),
    )
)
GAMMA_SLOPE: Op = _entrywise(
    op(
        "random_gamma_slope",
        _gamma_slope,
        lambda g, y, a, x: g * apply(GAMMA_BEND, (a, x)),
        lambda g, y, a, x: g * _gamma_slope_by_x(y, a, x),
        rule="g · ∂²y/∂a²",
        reads=(0, 1, "y"),
    )
)
GAMMA_BEND: Op = _entrywise(op("random_gamma_bend", _gamma_bend, _third, _third))


# Beta


def _beta(a: Any, b: Any, q: Any) -> Any:
    from scipy.special import betainccinv, betaincinv

    size = np.abs(q)
    return np.where(q >= 0, betaincinv(a, b, size), betainccinv(a, b, size))


def _inside(x: Any) -> tuple[Any, Any]:
    """Where a beta draw is no end of the interval, and a point to use at the ends."""
    inside = (x > 0) & (x < 1)
    return inside, np.where(inside, x, 0.5)


def _moments(a: Any, b: Any, x: Any, by: str, count: int = 3) -> Any:
    """F', F'' and the mixed F'' over the density; of ``1 - x`` with shapes swapped."""
    if by == "a":
        return beta_moments(a, b, x, 1 - x, count)
    return -beta_moments(b, a, 1 - x, x, count)


def _score(a: Any, b: Any, x: Any, by: str) -> Any:
    """The derivative of the log density by a shape."""
    from scipy.special import psi

    log = np.log(x) if by == "a" else np.log1p(-x)
    return log - psi(a if by == "a" else b) + psi(a + b)


def _beta_slope(a: Any, b: Any, x: Any, *, by: str) -> Any:
    inside, safe = _inside(x)
    return np.where(inside, -_moments(a, b, safe, by, 1)[0], 0.0)


def _beta_bend(a: Any, b: Any, x: Any, *, by: str, wrt: str) -> Any:
    inside, safe = _inside(x)
    first, second, mixed = _moments(a, b, safe, by)
    bend = first * _score(a, b, safe, wrt) - (second if by == wrt else mixed)
    return np.where(inside, bend, 0.0)


def _beta_slope_by_x(y: Any, a: Any, b: Any, x: Any, by: str) -> Any:
    inside, safe = _inside(x)
    bent = (a - 1) / safe - (b - 1) / (1 - safe)
    return np.where(inside, -_score(a, b, safe, by) - y * bent, 0)


def _slope(a: Any, b: Any, y: Any, by: str) -> Any:
    return apply(BETA_SLOPE, (a, b, y), {"by": by})


def _bend(a: Any, b: Any, x: Any, by: str, wrt: str) -> Any:
    return apply(BETA_BEND, (a, b, x), {"by": by, "wrt": wrt})


def _beta_push(t: tuple[Any, ...], y: Any, a: Any, b: Any, q: Any) -> Any:
    total = None
    for tangent, by in zip(t, ("a", "b"), strict=False):
        if tangent is not None:
            term = tangent * _slope(a, b, y, by)
            total = term if total is None else total + term
    return total


BETA: Op = _entrywise(
    op(
        "random_beta_quantile",
        _beta,
        lambda g, y, a, b, q: g * _slope(a, b, y, "a"),
        lambda g, y, a, b, q: g * _slope(a, b, y, "b"),
        None,
        push=_beta_push,
        rule="−g · (∂F/∂a) / f(y)   −g · (∂F/∂b) / f(y)",
        reads=(0, 1, "y"),
    )
)
BETA_SLOPE: Op = _entrywise(
    op(
        "random_beta_slope",
        _beta_slope,
        lambda g, y, a, b, x, by: g * _bend(a, b, x, by, "a"),
        lambda g, y, a, b, x, by: g * _bend(a, b, x, by, "b"),
        lambda g, y, a, b, x, by: g * _beta_slope_by_x(y, a, b, x, by),
        rule="g · ∂²y/∂a²   g · ∂²y/∂a∂b",
        reads=(0, 1, 2, "y"),
    )
)
BETA_BEND: Op = _entrywise(op("random_beta_bend", _beta_bend, _third, _third, _third))
