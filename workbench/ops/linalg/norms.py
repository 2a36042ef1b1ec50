"""Norms of vectors and matrices, condition numbers, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.dims import has_dim
from workbench.core.op import implements
from workbench.core.tensor import admit, apply, value_of
from workbench.core.types import Array, ArrayLike, Axis, Params, Spec
from workbench.ops.define import dtype_of, op, shape_of
from workbench.ops.elementwise import conjugate, divide_by_length
from workbench.ops.linalg.shared import eye_like, matrices
from workbench.ops.linalg.singular import singular_values
from workbench.ops.reductions import (
    can_reduce,
    reduced_root,
    reduction,
    settings,
)
from workbench.ops.shaping import moveaxis, normal_axes

# norm: the Euclidean one is an op, and the one by powers; the others are written with
# reductions. Where a length is 0, all its derivatives are; its even powers have those
# of a sum of squares.


def _norm_compute(x: Array, *, axis: Axis = None, keepdims: bool = False) -> Array:
    squares = np.square(np.abs(x) if dtype_of(x).kind == "c" else x)
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _norm_body(x: Array, **params: Any) -> Any:
    return _norm_compute(x, **params) if can_reduce(x) else None


def _norm_weight(y: Array, x: Array, **_: Any) -> Array:
    return divide_by_length(conjugate(x), y)


NORM = reduction(
    "norm",
    _norm_compute,
    _norm_weight,
    rule="g · x / y, 0 at 0",
    root=reduced_root("x̄", lambda x, **_: conjugate(x), squares=True),
    unfold=_norm_body,
    grows=True,
    aliases=("matrix_norm", "vector_norm"),
    safe="safe_norm",
)


def _power_norm_compute(
    x: Array, *, ord: float, axis: Axis = None, keepdims: bool = False
) -> Any:
    size = np.abs(x)
    nothing = size == 0
    if ord < 0:  # one entry that is 0 makes the whole 0
        flat = np.any(nothing, axis=axis, keepdims=keepdims)
        size = np.where(nothing, 1, size)
    total = np.sum(size**ord, axis=axis, keepdims=keepdims)
    if ord > 0:
        return total ** (1 / ord)
    return np.where(flat, 0, total ** (1 / ord))


def _power_norm_body(x: Array, **params: Any) -> Any:
    return _power_norm_compute(x, **params) if can_reduce(x) else None


def _power_norm_weight(y: Array, x: Array, *, ord: float, **_: Any) -> Array:
    size = np.abs(x)
    # Of an entry that is 0, below the order 1 the slope is infinite, and below 2 the
    # one of the slope: both are taken as 0.
    nothing = np.equal(size, 0) | np.equal(y, 0)
    share = np.where(nothing, 1, size) / np.where(nothing, 1, y)
    return np.where(nothing, 0, share ** (ord - 1)) * conjugate(np.sign(x))


POWER_NORM = reduction(
    "power_norm",
    _power_norm_compute,
    _power_norm_weight,
    rule="g · (|x| / y)^(p − 1) · sign x, 0 at 0",
    template="np.linalg.vector_norm({0}{more})",
    unfold=_power_norm_body,
    length=True,
)


@implements(np.linalg.norm)
def norm(
    x: Array, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """Return a norm of any order, of vectors or of matrices.

    Where a norm has a kink, the gradient is the subgradient of least size: 0 at 0,
    where the second derivative, which is infinite, is taken as 0 too (even powers of
    the Euclidean norm have the derivatives of ``sum(x*x)``);
    the nuclear norm's is ``U @ Vh`` over the singular values that are not 0 (G. A.
    Watson, "Characterization of the subdifferential of some matrix norms", 1992).
    The orders 2 and -2 of a matrix share the gradient among values that tie.
    """
    x = admit(x)
    rank = len(shape_of(x))
    if axis is None:
        if ord is None or (ord == 2 and rank == 1) or (ord == "fro" and rank == 2):
            y = apply(NORM, (_floating(x),), settings(None))
            return np.reshape(y, (1,) * rank) if keepdims else y
        axes = tuple(range(rank))
    else:
        axes = normal_axes(axis, rank)
    x = _floating(x)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord in (None, "fro", "f"):
        return apply(NORM, (x,), settings(axes, keepdims))
    return _matrix_norm(x, ord, axes, keepdims)


def _floating(x: Array) -> Array:
    return x if dtype_of(x).kind in "fc" else x.astype(float)


def _vector_norm(
    x: Array, ord: float | str | None, axis: Axis, keepdims: bool
) -> Array:
    if ord is None or ord == 2:
        return apply(NORM, (x,), settings(axis, keepdims))
    size = np.abs(x)
    if ord == np.inf:
        return _largest(size, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((size != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    return apply(POWER_NORM, (x,), settings(axis, keepdims, ord=float(ord)))


def _largest(size: Array, axis: Axis, keepdims: bool = False) -> Array:
    """Return the largest magnitude, 0 for an empty array."""
    if has_dim(shape_of(size)):  # a magnitude that ties with this 0 has no slope
        of: Params = {"axis": axis, "keepdims": keepdims}
        return np.max(size, initial=0.0, **of)  # a Tensor: of unknown length
    choose: Any = np.sum if 0 in shape_of(size) else np.max
    return choose(size, axis=axis, keepdims=keepdims)


def _matrix_norm(
    x: Array, ord: float | str | None, axes: tuple[int, ...], keepdims: bool
) -> Array:
    row, column = axes
    if ord in (1, -1, np.inf, -np.inf):
        first, second = (row, column) if abs(ord) == 1 else (column, row)
        sums = np.sum(np.abs(x), axis=first, keepdims=True)
        choose: Any = _largest if ord > 0 else np.min
        y = choose(sums, axis=second, keepdims=True)
        return y if keepdims else np.squeeze(y, axes)
    if ord in (2, -2, "nuc"):
        values = singular_values(moveaxis(x, axes, (-2, -1)))
        choose = np.min if ord == -2 else np.max
        if ord == "nuc" or (ord == 2 and 0 in shape_of(values)):
            choose = np.sum
        y = choose(values, axis=-1)
        return np.expand_dims(y, axes) if keepdims else y
    raise ValueError(f"Invalid norm order {ord!r} for matrices.")


@implements(np.linalg.vector_norm)
def vector_norm(
    x: Array,
    /,
    *,
    axis: Axis = None,
    keepdims: bool = False,
    ord: float | str | None = 2,
) -> Array:
    """Return a vector norm along axes, as `numpy.linalg.vector_norm` does."""
    x = _floating(admit(x))
    return _vector_norm(x, ord, axis, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro"
) -> Array:
    """Return a norm of each matrix, as `numpy.linalg.matrix_norm` does."""
    return norm(x, ord, (-2, -1), keepdims)


# cond


@implements(np.linalg.cond)
def cond(x: Array, p: float | str | None = None) -> Array:
    """Return the condition number in any norm, as `numpy.linalg.cond` does."""
    x = admit(x)
    if 0 in shape_of(x):
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        values = singular_values(x)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    x = _floating(x)
    size = norm(x, p, (-2, -1))
    try:
        return size * norm(np.linalg.inv(x), p, (-2, -1))
    except np.linalg.LinAlgError as error:
        if "ingular" not in str(error):
            raise
    # Somewhere there is no inverse: inf there, as NumPy has it.
    known: Any = value_of(x)
    flat = np.reshape(known, (-1, *shape_of(x)[-2:]))
    none = np.reshape([_singular(m) for m in flat], shape_of(x)[:-2])
    none = np.asarray(none, like=known)
    safe = np.where(none[..., None, None], eye_like(x), x)
    return np.where(none, np.inf, size * norm(np.linalg.inv(safe), p, (-2, -1)))


def _singular(x: Array) -> bool:
    try:
        np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return True
    return False


# matrix_rank

RANK = op(
    "matrix_rank",
    lambda x, **params: np.linalg.matrix_rank(x, **params),
    infer=lambda x, **_: matrices_rank(x),
    kind="matrix",
)
RANK.batch = "whole"


def matrices_rank(x: Array) -> Spec:
    """Return the spec of `matrix_rank`: one integer per matrix."""
    spec = matrices(x)
    return type(spec)(spec.shape[:-2], np.dtype(np.intp))


@implements(np.linalg.matrix_rank)
def matrix_rank(
    A: Array,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Any:
    """Return the rank, an integer, through which no gradient flows."""
    A = admit(A)
    if len(shape_of(A)) < 2:
        return np.any(A != 0).astype(np.intp)
    given = {"tol": tol, "rtol": rtol, "hermitian": hermitian or None}
    params = {k: _plain(v) for k, v in given.items() if v is not None}
    return apply(RANK, (A,), params)


def _plain(limit: Any) -> float:
    """Return a limit as a plain setting: the rank has no derivative."""
    limit = value_of(limit)
    return limit if isinstance(limit, (bool, int, float)) else float(limit)
