"""How near to singular matrices are: LAPACK's estimates of their condition.

A factor tells the 1-norm of the inverse in O(n²) (N. J. Higham, "Accuracy and
Stability of Numerical Algorithms", 2nd ed., 2002, section 15.2), to a factor of about
3 and, unlike the digits of a solution, hardly any differently on another CPU: rounding
moves it by the share of itself that the matrix is away from singular.

Rows and columns are scaled first, symmetrically where the matrix is (A. van der Sluis,
"Condition numbers and equilibration of matrices", 1969): that one unknown is counted
in metres and another in nanometres costs no digits. All is computed in double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "LOST",
    "WRONG",
    "banded_condition",
    "definite_condition",
    "general_condition",
    "inverse_norm",
    "kept_condition",
    "triangular_condition",
]

#: What is left is less than this part of the digits of its dtype.
LOST = 1e-4
#: From here on no digit is left that one could rely on.
WRONG = 0.1

#: A symmetric matrix is definite but for rounding where its least eigenvalue is no
#: further below 0 than this many roundings of its largest, for each row.
ROUNDINGS = 10


def general_condition(a: Any) -> float:
    """Return the condition of a square matrix, infinite where it is singular.

    0 for a matrix that is not finite or has no entries: nothing is known of it.

    Examples
    --------
    >>> import numpy as np
    >>> general_condition(np.diag([1.0, 1e-9])), general_condition(np.ones((2, 2)))
    (1.0, inf)
    >>> bool(1e9 < general_condition(np.array([[1, 1], [1, 1 + 1e-9]])) < 1e10)
    True
    """
    a = _double(a)
    if a is None:
        return 0.0
    a = _scaled(a)
    getrf, gecon = _lapack("getrf", of=a), _lapack("gecon", of=a)
    factor, _, failed = getrf(a)
    return np.inf if failed else _inverted(gecon(factor, _norm(a))[0])


def definite_condition(a: Any) -> float:
    """Return the condition of the positive definite matrix in a lower triangle.

    Whether rounding lets Cholesky's factor through makes no difference: where it does
    not, the condition is infinite. 0 for a matrix that is clearly not definite: it has
    no factor, and that is no matter of digits.

    Examples
    --------
    >>> import numpy as np
    >>> definite_condition(np.ones((3, 3)))
    inf
    >>> definite_condition(np.array([[1.0, 2.0], [2.0, 1.0]]))  # eigenvalues 3 and -1
    0.0
    """
    a = _double(a)
    if a is None:
        return 0.0
    a = np.tril(a) + np.tril(a, -1).conj().T
    diagonal = np.diagonal(a).real
    if not (diagonal > 0).all():
        return 0.0 if (diagonal < 0).any() else np.inf
    root = np.sqrt(diagonal)
    a = a / root / root[:, None]
    potrf, pocon = _lapack("potrf", of=a), _lapack("pocon", of=a)
    factor, failed = potrf(a, lower=1)
    if not failed:
        return _inverted(pocon(factor, _norm(a), uplo="L")[0])
    values = np.linalg.eigvalsh(a)
    noise = ROUNDINGS * len(a) * np.finfo(float).eps * values[-1]
    return np.inf if values[0] > -noise else 0.0


def triangular_condition(a: Any, lower: bool, unit: bool = False) -> float:
    """Return the condition of a triangular matrix; ``unit``: its diagonal is 1.

    Examples
    --------
    >>> import numpy as np
    >>> triangular_condition(np.array([[1.0, 1.0], [9.0, 0.0]]), lower=False)
    inf
    """
    a = _double(np.tril(a) if lower else np.triu(a))
    if a is None:
        return 0.0
    if unit:
        np.fill_diagonal(a, 1)
    if not np.diagonal(a).all():
        return np.inf
    a = _scaled(a)
    trtrs = _lapack("trtrs", of=a)
    solve = lambda x: trtrs(a, x, lower=lower)[0]  # noqa: E731
    back = lambda x: trtrs(a, x, lower=lower, trans=2)[0]  # noqa: E731
    return _norm(a) * inverse_norm(solve, back, len(a))


def banded_condition(ab: Any, lower: int, upper: int) -> float:
    """Return the condition of a banded matrix, from its diagonals.

    Examples
    --------
    >>> import numpy as np
    >>> banded_condition(np.array([[0, 1.0], [2, 2], [1, 0]]), 1, 1)  # [[2, 1], [1, 2]]
    3.0
    """
    ab = _double(ab)
    if ab is None:
        return 0.0
    rows, n = ab.shape
    # Entry (i, j) of the matrix stands in row upper + i - j of the band.
    i = np.arange(rows)[:, None] - upper + np.arange(n)
    inside = (i >= 0) & (i < n)
    ab, i = np.where(inside, ab, 0), np.clip(i, 0, n - 1)
    largest = np.zeros(n)
    np.maximum.at(largest, i, np.abs(ab))
    ab = ab / np.where(largest == 0, 1, largest)[i]
    columns = np.abs(ab).max(axis=0)
    ab = ab / np.where(columns == 0, 1, columns)
    gbtrf, gbtrs = _lapack("gbtrf", of=ab), _lapack("gbtrs", of=ab)
    room = np.concatenate([np.zeros_like(ab, shape=(lower, n)), ab])
    factor, swaps, failed = gbtrf(room, lower, upper)
    if failed:
        return np.inf
    solve = lambda x: gbtrs(factor, lower, upper, x, swaps)[0]  # noqa: E731
    back = lambda x: gbtrs(factor, lower, upper, x, swaps, trans=2)[0]  # noqa: E731
    return _norm(ab) * inverse_norm(solve, back, n)


def kept_condition(a: Any, limit: float) -> float:
    """Return the condition of what a least-squares solution keeps of a matrix.

    Singular values up to ``limit`` times the largest count as 0 there. Where there is
    none, unknowns (of a wide matrix equations) are scaled, which changes no digits.

    Examples
    --------
    >>> import numpy as np
    >>> round(kept_condition(np.ones((3, 2)), 1e-15))
    1
    """
    a = _double(a)
    if a is None:
        return 0.0
    values = np.linalg.svd(a, compute_uv=False)
    kept = values[values > limit * values[0]] if limit else values
    if not kept.size or not values[0]:
        return 0.0
    if kept.size == min(a.shape):
        tall = a if a.shape[1] <= a.shape[0] else a.T
        kept = np.linalg.svd(_columns_scaled(tall), compute_uv=False)
    return _inverted(kept[-1] / kept[0])


def inverse_norm(
    solve: Callable[[Any], Any], back: Callable[[Any], Any], n: int
) -> float:
    """Return about the 1-norm of an inverse, known by its solutions alone.

    ``back`` solves with the conjugate transpose. Hager's estimate, as LAPACK has it.

    Examples
    --------
    >>> import numpy as np
    >>> inverse = np.array([[1.0, -4.0], [0.0, 2.0]])
    >>> inverse_norm(lambda x: inverse @ x, lambda x: inverse.T @ x, 2)
    6.0
    """
    x, found, place = np.full(n, 1 / n), 0.0, -1
    for _ in range(5):
        y = solve(x)
        size = float(np.abs(y).sum())
        if not np.isfinite(size):
            return np.inf
        if size <= found:
            break
        found = size
        turned = np.abs(y)
        z = np.abs(back(np.where(turned == 0, 1, y / np.where(turned == 0, 1, turned))))
        best = int(np.argmax(z))
        if best == place or (place >= 0 and z[best] <= z[place]):
            break
        place, x = best, np.zeros(n)
        x[best] = 1
    # A vector that no cancellation hides from (Higham, algorithm 15.5).
    signs = (-1.0) ** np.arange(n) * (1 + np.arange(n) / max(n - 1, 1))
    return max(found, 2 * float(np.abs(solve(signs)).sum()) / (3 * n))


def _double(a: Any) -> Any:
    """A matrix in double, a copy; None if it is not finite, or empty."""
    a = np.array(a, complex if np.iscomplexobj(a) else float)
    return a if a.size and np.isfinite(a).all() else None


def _scaled(a: Any) -> Any:
    """A matrix with rows, then columns, whose largest entries are 1."""
    largest = np.abs(a).max(axis=1, keepdims=True)
    return _columns_scaled(a / np.where(largest == 0, 1, largest))


def _columns_scaled(a: Any) -> Any:
    largest = np.abs(a).max(axis=0)
    return a / np.where(largest == 0, 1, largest)


def _norm(a: Any) -> float:
    return float(np.abs(a).sum(axis=0).max())


def _inverted(reciprocal: Any) -> float:
    return 1 / float(reciprocal) if reciprocal > 0 else np.inf


def _lapack(name: str, of: Any) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, (of,))
