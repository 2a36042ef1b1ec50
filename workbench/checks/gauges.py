"""Outputs that an op leaves open: the phase of an eigenvector, a basis of a null space.

LAPACK chooses one, a rule another, and both are right. Compared is what every choice
gives alike: products in which the choice cancels. And of a matrix that is said to be
Hermitian, of which an op reads one triangle, only directions count that keep it so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.tensor import Tensor

__all__ = ["Fold", "fold_of", "hermitian"]

Fold = Callable[..., tuple[Any, ...]]


def fold_of(node: Tensor, whole: Any) -> Fold | None:
    """What of the outputs does not depend on a choice; None: all of them.

    A function of the outputs, in plain NumPy.
    """
    if node.op.custom or not isinstance(whole, tuple):
        return None
    name, free = node.op.name, np.iscomplexobj(whole[-1])
    if name == "eigh" and len(whole) == 2:
        return _eigenvectors if free else None
    if name == "svd" and len(whole) == 3:
        u, s, v = whole
        beyond = u.shape[-1] > s.shape[-1] or v.shape[-2] > s.shape[-1]
        return _singular if free or beyond else None
    if name == "qr" and len(whole) == 2:
        q, r = whole
        return _factors if q.shape[-1] > r.shape[-1] else None
    return None


def hermitian(node: Tensor) -> bool:
    """Whether an op takes its matrix to be Hermitian without looking."""
    return bool(node.params.get("hermitian")) and not node.op.custom


def _pairs(left: Any, right: Any) -> Any:
    """All products of two entries of the same column."""
    return left[..., :, None, :] * right[..., None, :, :]


def _eigenvectors(w: Any, v: Any) -> tuple[Any, ...]:
    return w, _pairs(v, np.conj(v))


def _singular(u: Any, s: Any, v: Any) -> tuple[Any, ...]:
    k = s.shape[-1]
    first, rest = u[..., :, :k], u[..., :, k:]
    right, beyond = np.swapaxes(v[..., :k, :], -1, -2), v[..., k:, :]
    made = [s, _pairs(first, np.conj(first)), _pairs(first, right)]
    if rest.shape[-1]:
        made.append(rest @ np.conj(np.swapaxes(rest, -1, -2)))
    if beyond.shape[-2]:
        made.append(np.conj(np.swapaxes(beyond, -1, -2)) @ beyond)
    return tuple(made)


def _factors(q: Any, r: Any) -> tuple[Any, ...]:
    k = r.shape[-1]
    rest = q[..., :, k:]
    return q[..., :, :k], r, rest @ np.conj(np.swapaxes(rest, -1, -2))
