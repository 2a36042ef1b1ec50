"""What all ops on matrices share: checks, stacks, triangles, safe quotients."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import dims
from workbench.core.dims import broadcast_shapes, unify_lengths
from workbench.core.op import Op
from workbench.core.types import Array, Axis, Spec, as_spec
from workbench.ops.contraction import swap
from workbench.ops.define import dtype_of, list_positions, shape_of
from workbench.ops.elementwise import conjugate

# Which entries systems of equations read, for sparsity patterns


def read_system(a: Array, b: Array, **_: Any) -> Array:
    """Read as a solution: the whole matrix, and its own column of the right side."""
    whole = np.sum(a, axis=(-2, -1))
    if len(shape_of(b)) == 1:
        return whole[..., None] + np.sum(b)
    return whole[..., None, None] + np.sum(b, axis=-2, keepdims=True)


def read_columns_so_far(x: Array) -> tuple[Array, Array, Array]:
    """Return sums over the columns before each one, up to each one, and over each.

    Those before are no more than the rows.
    """
    each = np.sum(x, axis=-2)
    so_far = np.cumsum(each[..., : min(shape_of(x)[-2:])], axis=-1)
    nothing = np.zeros_like(so_far[..., :1])
    return np.concatenate([nothing, so_far[..., :-1]], axis=-1), so_far, each


# What `infer` says


def matrices(x: object) -> Spec:
    """Return a stack of matrices, in the dtype that LAPACK gives its results."""
    spec = as_spec(x)
    if len(spec.shape) < 2:
        raise np.linalg.LinAlgError(
            f"shape {spec.shape} must be that of a matrix, with two axes or more"
        )
    exact = spec.dtype.kind in "biu"
    return Spec(spec.shape, np.dtype(float) if exact else spec.dtype)


def square(x: Array, **_: Any) -> Spec:
    """Return a stack of square matrices."""
    spec = matrices(x)
    try:
        n = unify_lengths(*spec.shape[-2:])
    except ValueError:
        raise np.linalg.LinAlgError(
            f"the last two axes of shape {spec.shape} must be equal"
        ) from None
    return Spec((*spec.shape[:-2], n, n), spec.dtype)


def reduced(x: Array) -> Spec:
    """Return one number for each square matrix."""
    spec = square(x)
    return Spec(spec.shape[:-2], spec.dtype)


def broadcast(spec: Spec, loop: tuple[int, ...]) -> Spec:
    """Return a stack of matrices that meets a stack of this shape."""
    return Spec(
        (*broadcast_shapes(spec.shape[:-2], loop), *spec.shape[-2:]), spec.dtype
    )


def real_dtype(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    """Return the dtype of real numbers as precise as this one."""
    return np.finfo(dtype).dtype


def stacked(op: Op) -> Op:
    """Let an op of matrices take stacks of them: a batch is one more axis."""
    op.batch, op.kind = "whole", "matrix"
    return op


def broadcast_stacks(*stacks: Array) -> tuple[Array, ...]:
    """Return stacks of matrices in one shape; CuPy's solvers take no other."""
    loop = broadcast_shapes(*(shape_of(x)[:-2] for x in stacks))
    return tuple(np.broadcast_to(x, (*loop, *shape_of(x)[-2:])) for x in stacks)


# Triangles and transposes


def hermitian(x: Array) -> Array:
    """Return the conjugate transpose."""
    return conjugate(swap(x))


def half_lower(x: Array) -> Array:
    """Return the lower triangle with half of the diagonal."""
    return (np.tril(x) + np.tril(x, -1)) / 2


def mirrored(x: Array) -> Array:
    """Return the Hermitian matrix with this lower triangle; both modes follow."""
    below = np.tril(x, -1)
    kept = np.tril(x) - below
    return below + hermitian(below) + (kept + conjugate(kept)) / 2


def complete(x: Array, lower: bool) -> Array:
    """Return the Hermitian matrix that a routine sees which reads one triangle."""
    return mirrored(x) if lower else hermitian(mirrored(hermitian(x)))


def fold(full: Any, lower: bool) -> Array:
    """Apply the transpose of `complete`: an entry off the diagonal counts twice."""
    whole = full + hermitian(full)
    below = half_lower(whole)
    return below if lower else hermitian(below)


def turn_of(seen: Array) -> Array:
    """Return the anti-Hermitian part of a cotangent of vectors: its rotations."""
    return (seen - hermitian(seen)) / 2


def average_equal(values: Array, equal: Array) -> Array:
    """Return values that are equal to the last bit where they are marked as equal."""
    count = np.sum(equal, axis=-1)
    total = np.sum(np.where(equal, values[..., None, :], 0), axis=-1)
    return (total / np.where(count == 0, 1, count)).astype(dtype_of(values))


def draw_turn(like: Array, pairs: Array) -> Array:
    """Return a unitary matrix in the dtype of ``like`` that mixes these pairs alone.

    It is always the same: a Cayley transform of numbers that follow no simple law.
    """
    k = list_positions(shape_of(pairs)[-1], like=like)
    noise = np.cos(3.0 * k[:, None] ** 2 + 5.0 * k)
    if dtype_of(like).kind == "c":
        noise = noise + 1j * np.cos(7.0 * k[:, None] + 2.0 * k**2)
    change = np.where(pairs, noise - hermitian(noise), 0)
    eye = eye_like(change)
    return np.linalg.solve(eye - change, eye + change).astype(dtype_of(like))


def eye_like(x: Array) -> Array:
    """Return the identity matrix in the size and dtype of the last axis of ``x``."""
    identity: Any = np.identity
    return identity(shape_of(x)[-1], dtype=dtype_of(x), like=x)


# Quotients by gaps that may vanish


def largest(x: Array) -> Array:
    """Return the largest magnitude in each matrix, with both axes kept."""
    return peak(np.abs(x), axis=(-2, -1), keepdims=True)


def peak(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return the largest of magnitudes, 0 of none; CuPy's `max` has no ``initial=``."""
    if 0 in [n for n in shape_of(x) if isinstance(n, int)]:
        return np.sum(x, axis=axis, keepdims=keepdims)
    if dims.has_dim(shape_of(x)):  # what it runs on may have length 0
        return np.max(x, axis=axis, keepdims=keepdims, initial=0)  # a Tensor: so
    return np.max(x, axis=axis, keepdims=keepdims)


def noise(x: Array, factor: float = 1000) -> Array:
    """Return the rounding error of a zero in matrices of the size of ``x``."""
    n = dims.largest(*shape_of(x)[-2:], 1)
    return largest(x) * (factor * n * float(np.finfo(dtype_of(x)).eps))


def quotient(x: Array, gap: Any, closed: Any, wrong: Any) -> Array:
    """Return ``x / gap``; where the gap is 0, 0, or NaN if that would be wrong."""
    filler = np.where(wrong, np.nan, 0)
    safe = np.where(closed, 1, gap)
    return np.where(closed, filler.astype(real_dtype(dtype_of(x))), x / safe)
