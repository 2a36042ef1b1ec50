"""The names of `scipy.special` for Tensors and arrays.

SciPy's ufuncs take Tensors as they are and are handed on. Its plain functions do not
ask NumPy's protocols; they stand here, written with those ufuncs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special as _scipy

from workbench.core.blame import suggest
from workbench.core.op import CALLS, UFUNCS
from workbench.core.refusals import REFUSED
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.ops.lengths import defer_functions
from workbench.ops.reductions import logsumexp
from workbench.ops.special import define as _define
from workbench.ops.special.logistic import log_softmax, softmax

__all__ = [
    "comb",
    "diric",
    "factorial",
    "h1vp",
    "h2vp",
    "ivp",
    "jvp",
    "kvp",
    "lambertw",
    "log_softmax",
    "logsumexp",
    "multigammaln",
    "perm",
    "polygamma",
    "sinc",
    "softmax",
    "softplus",
    "spherical_in",
    "spherical_jn",
    "spherical_kn",
    "spherical_yn",
    "yvp",
    "zeta",
]


_F = _define.F

# Written by SciPy with ufuncs alone, so that Tensors pass
h1vp, h2vp, ivp, jvp, kvp, yvp = (
    getattr(_scipy, _name) for _name in "h1vp h2vp ivp jvp kvp yvp".split()
)
sinc = np.sinc


def __getattr__(name: str) -> Any:
    found = getattr(_scipy, name, None)
    # With SCIPY_ARRAY_API=1 a function stands before the ufunc.
    found = getattr(found, "__wrapped__", found)
    # SciPy's module also has names that are not functions: `__path__` is a list.
    if callable(found) and (found in UFUNCS or found in CALLS):
        return found
    full = f"scipy.special.{name}"
    if full in REFUSED:
        why, instead = REFUSED[full]
        raise AttributeError(
            f"workbench.scipy.special has no {name}: {why}. Write {instead}."
        )
    close = suggest(name, __dir__())
    raise AttributeError(
        f"workbench.scipy.special has no {name}.{close}"
        + (f" Write {full}(x.value) to cut the gradient." if found else "")
    )


def __dir__() -> list[str]:
    ufuncs = [
        name
        for name in dir(_scipy)
        if isinstance(f := getattr(_scipy, name), np.ufunc)
        and (f in UFUNCS or f in CALLS)
    ]
    return sorted({*__all__, *ufuncs})


# Exponentials that are summed


def softplus(x: ArrayLike) -> Array:
    """Return ``log(1 + exp(x))`` without overflow, as `scipy.special.softplus`.

    >>> float(softplus(-800.0)), float(softplus(800.0))
    (0.0, 800.0)
    """
    return np.logaddexp(0, x)


# Gamma and zeta


def polygamma(n: Any, x: ArrayLike) -> Array:
    """Return the n-th derivative of `digamma`.

    Parameters
    ----------
    n
        The order, an integer or an array of them; it does not vary.
    x
        An array or Tensor, which broadcasts with ``n``.

    Notes
    -----
    It is ``(-1)**(n + 1) * n! * zeta(n + 1, x)``: DLMF 25.11.12.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(polygamma(1, 1.0), np.pi**2 / 6))
    True
    """
    x = admit(x)
    if isinstance(n, int):  # a number keeps float32
        if n == 0:
            return _F.digamma(x)
        return float((-1) ** (n + 1) * math.factorial(n)) * _F.zeta(n + 1, x)
    n = admit(n)
    first = np.equal(n, 0)
    factor = (-1.0) ** (n + 1) * _F.gamma(n + 1.0)
    order = np.where(first, 1, n) + 1  # zeta(1, x) is infinite
    return np.where(first, _F.digamma(x), factor * _F.zeta(order, x))


def multigammaln(a: ArrayLike, d: int) -> Any:
    """Return the logarithm of the multivariate gamma function: DLMF 35.3.4.

    Parameters
    ----------
    a
        An array or Tensor with entries above ``(d - 1) / 2``.
    d
        The dimension, a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import special
    >>> bool(np.isclose(multigammaln(3.0, 2), special.multigammaln(3.0, 2)))
    True
    """
    a = admit(a)
    if d != int(d) or d < 1:
        raise ValueError(f"d should be a positive integer (dimension), not {d}")
    given = value_of(a)  # None while tracing without values
    if given is not None and np.any(given <= 0.5 * (d - 1)):
        raise ValueError(f"a must be above (d - 1) / 2 = {0.5 * (d - 1)}")
    total = d * (d - 1) * 0.25 * math.log(math.pi)
    for j in range(int(d)):
        total = total + _F.gammaln(a - j / 2)
    return total


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Return the Riemann zeta function, or Hurwitz' of ``x`` and ``q``.

    Parameters
    ----------
    x
        The exponent, by which no derivative is known.
    q
        The shift, by which there is a derivative; by default 1.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.isclose(zeta(2.0), np.pi**2 / 6))
    True
    """
    return _F.riemann_zeta(x) if q is None else _F.zeta(x, q)


def lambertw(z: ArrayLike, k: ArrayLike = 0, tol: float = 1e-8) -> Array:
    """Return the complex w with ``w * exp(w) = z``, as `scipy.special.lambertw` does.

    >>> float(lambertw(0.0).real)
    0.0
    """
    return _F.lambertw(z, np.asarray(k, dtype=np.dtype("long"))[()], tol)


# Counting


def factorial(n: ArrayLike) -> Array:
    """Return ``gamma(n + 1)``, and 0 for negative n, as `scipy.special.factorial`.

    >>> float(factorial(4.0))
    24.0
    """
    n = admit(n)
    outside = n < 0
    return np.where(outside, 0, _F.gamma(np.where(outside, 0, n) + 1))


def comb(N: ArrayLike, k: ArrayLike) -> Array:
    """Return ``binom(N, k)``, and 0 unless ``0 <= k <= N``, as `scipy.special.comb`.

    >>> float(comb(5.0, 2.0))
    10.0
    """
    N, k = admit(N), admit(k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return np.where(inside, _F.binom(np.where(inside, N, 1), np.where(inside, k, 1)), 0)


def perm(N: ArrayLike, k: ArrayLike) -> Array:
    """Return ``poch(N - k + 1, k)``, 0 unless ``0 <= k <= N``: `scipy.special.perm`.

    >>> float(perm(5.0, 2.0))
    20.0
    """
    N, k = admit(N), admit(k)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    k, N = np.where(inside, k, 1), np.where(inside, N, 1)
    return np.where(inside, _F.poch(N - k + 1, k), 0)


def diric(x: ArrayLike, n: int) -> Any:
    """Return ``sin(n x / 2) / (n sin(x / 2))``, as `scipy.special.diric`.

    A sum of cosines, which has no special points: DLMF 1.15.12.

    >>> float(diric(0.0, 4))
    1.0
    """
    if n != int(n) or n < 1:
        raise ValueError(f"n must be a positive integer, not {n}")
    x = admit(x)
    if n % 2:
        terms = [2 * np.cos(k * x) for k in range(1, (n + 1) // 2)]
        return sum(terms, np.ones_like(x)) / n
    return sum(2 * np.cos((k + 0.5) * x) for k in range(n // 2)) / n


# Spherical Bessel functions


def _compute_spherical(
    name: str, n: ArrayLike, z: ArrayLike, derivative: bool
) -> Array:
    kind = np.dtype("long")
    own: Any = n
    n = own.astype(kind) if hasattr(n, "astype") else np.asarray(n, kind)[()]
    return getattr(_F, f"{name}_d" if derivative else name)(n, z)


def spherical_jn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Array:
    """Return the spherical Bessel function of the first kind, of integer order ``n``.

    >>> float(spherical_jn(0, 0.0))
    1.0
    """
    return _compute_spherical("spherical_jn", n, z, derivative)


def spherical_yn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Array:
    """Return the spherical Bessel function of the second kind, of integer order ``n``.

    >>> bool(np.isclose(spherical_yn(0, 2.0), -np.cos(2.0) / 2))
    True
    """
    return _compute_spherical("spherical_yn", n, z, derivative)


def spherical_in(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Array:
    """Return the modified spherical Bessel function of the first kind, of order ``n``.

    >>> bool(np.isclose(spherical_in(0, 2.0), np.sinh(2.0) / 2))
    True
    """
    return _compute_spherical("spherical_in", n, z, derivative)


def spherical_kn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Array:
    """Return the modified spherical Bessel function of the second kind, of order ``n``.

    >>> bool(np.isclose(spherical_kn(0, 2.0), np.pi / 4 * np.exp(-2.0)))
    True
    """
    return _compute_spherical("spherical_kn", n, z, derivative)


defer_functions(globals(), __all__)
