"""Families whose support depends on their shapes: `truncnorm`, `genextreme`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.tensor import Tensor
from workbench.ops.arithmetic import stop_gradient
from workbench.ops.special.define import series
from workbench.scipy.stats.continuous import EULER, LOG_ROOT_TWO_PI
from workbench.scipy.stats.family import INF, F, log_of
from workbench.scipy.stats.kinds import Continuous

__all__ = ["genextreme", "truncnorm"]


# The normal distribution between a and b


def _end(x: Any) -> Any:
    """An end of the interval; an infinite one stays, whatever scale divides it.

    Its tangent, as of ``(inf - loc) / scale``, is infinite, and 0 times that no number.
    """
    if not isinstance(x, Tensor):
        return x
    held = np.where(np.isinf(x), stop_gradient(x), x)
    return held.astype(x.dtype)


class _Truncated(Continuous):
    """`truncnorm`, whose ends may be infinite."""

    def parameters(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> list[Any]:
        a, b, *settings = super().parameters(args, kwds)
        return [_end(a), _end(b), *settings]


def _log_mass(a: Any, b: Any) -> Any:
    """log(ndtr(b) - ndtr(a)), by the tail on whose side the interval lies."""
    right = np.greater(a, 0)
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    low = np.where(np.isinf(low), -1e18, low)  # no mass beyond, and a finite slope
    tail = np.less_equal(high, 0)
    top = F.log_ndtr(np.where(tail, high, 0))
    # log(exp(top) - exp(bottom))
    difference = F.log_ndtr(np.where(tail, low, -1)) - top
    in_tail = top + log_of(-np.expm1(difference))
    around = np.log1p(
        -F.ndtr(np.where(tail, -1, low)) - F.ndtr(-np.where(tail, 1, high))
    )
    return np.where(tail, in_tail, around)


def _share(part: Any, rest: Any, whole: Any) -> Any:
    """The logarithm of a part of the mass; near 0 by the rest, which is small there."""
    direct = part - whole
    large = direct > -0.1
    return np.where(large, np.log1p(-np.exp(np.where(large, rest - whole, -1))), direct)


def _density(z: Any) -> Any:
    z = np.where(np.isinf(z), 1e3, z)  # 0 there too, and flat
    return np.exp(-0.5 * z * z - LOG_ROOT_TWO_PI)


def _moment(z: Any) -> Any:
    """z times the density, 0 where z is infinite."""
    finite = np.isfinite(z)
    safe = np.where(finite, z, 0)
    return safe * _density(safe)


def _truncnorm_ppf(q: Any, a: Any, b: Any) -> Any:
    mass = _log_mass(a, b)
    left = np.less(a, 0)
    p, r = np.where(left, q, 0.5), np.where(left, 0.5, q)
    from_left = F.ndtri_exp(np.logaddexp(F.log_ndtr(a), np.log(p) + mass))
    from_right = -F.ndtri_exp(np.logaddexp(F.log_ndtr(-b), np.log1p(-r) + mass))
    return np.where(left, from_left, from_right)


def _truncnorm_isf(q: Any, a: Any, b: Any) -> Any:
    mass = _log_mass(a, b)
    left = np.less(b, 0)
    p, r = np.where(left, q, 0.5), np.where(left, 0.5, q)
    from_left = F.ndtri_exp(np.logaddexp(F.log_ndtr(a), np.log1p(-p) + mass))
    from_right = -F.ndtri_exp(np.logaddexp(F.log_ndtr(-b), np.log(r) + mass))
    return np.where(left, from_left, from_right)


def _truncnorm_mean(a: Any, b: Any) -> Any:
    return (_density(a) - _density(b)) / np.exp(_log_mass(a, b))


truncnorm = _Truncated(
    "truncnorm",
    "a b",
    support=lambda a, b: (a, b),
    valid=lambda a, b: np.less(a, b),
    typical=(-1.0, 1.0),
    inner=lambda a, b: np.minimum(np.maximum(a, 0.0), b),
    logpdf=lambda z, a, b: -0.5 * z * z - LOG_ROOT_TWO_PI - _log_mass(a, b),
    logcdf=lambda z, a, b: _share(_log_mass(a, z), _log_mass(z, b), _log_mass(a, b)),
    logsf=lambda z, a, b: _share(_log_mass(z, b), _log_mass(a, z), _log_mass(a, b)),
    ppf=_truncnorm_ppf,
    isf=_truncnorm_isf,
    mean=_truncnorm_mean,
    var=lambda a, b: (
        1
        + (_moment(a) - _moment(b)) / np.exp(_log_mass(a, b))
        - np.square(_truncnorm_mean(a, b))
    ),
    entropy=lambda a, b: (
        LOG_ROOT_TWO_PI + 0.5 + _log_mass(a, b)
        + 0.5 * (_moment(a) - _moment(b)) / np.exp(_log_mass(a, b))
    ),
)  # fmt: skip


# Extreme values: the distribution function is exp(-exp(L)), L = log(1 - c z) / c


def _level(z: Any, c: Any) -> Any:
    """log1p(-c z) / c, by its series where c z is near 0: no special point at c = 0."""
    u = c * z
    near = np.abs(u) < 0.05
    a, b = np.where(near, u, 0), np.where(near, -1, u)
    ratio = np.where(
        near, series(a, *[-1 / (k + 1) for k in range(14)]), np.log1p(-b) / b
    )
    return z * ratio


def _extreme_quantile(y: Any, c: Any) -> Any:
    """(1 - y**c) / c for y = -log(probability)."""
    return -F.boxcox(y, c)


def _extreme_ends(c: Any) -> tuple[Any, Any]:
    flat = np.equal(c, 0)
    end = 1 / np.where(flat, 1, c)
    return (
        np.where(np.less(c, 0), end, -INF),
        np.where(np.greater(c, 0), end, INF),
    )


genextreme = Continuous(
    "genextreme",
    "c",
    support=_extreme_ends,
    valid=lambda c: np.isfinite(c),
    inner=lambda c: 0.0 * c,
    open=True,
    logpdf=lambda z, c: -np.exp(_level(z, c)) + _level(z, c) - np.log1p(-c * z),
    logcdf=lambda z, c: -np.exp(_level(z, c)),
    sf=lambda z, c: -np.expm1(-np.exp(_level(z, c))),
    ppf=lambda q, c: _extreme_quantile(-np.log(q), c),
    isf=lambda q, c: _extreme_quantile(-np.log1p(-q), c),
    entropy=lambda c: EULER * (1 - c) + 1,
)
