"""Linear algebra: norms, inverses, solutions, determinants, the Cholesky factor.

All work on stacks of matrices. Formulas: M. B. Giles, "An extended collection of
matrix derivative results for forward and reverse mode AD" (2008); for Cholesky
I. Murray, "Differentiation of the Cholesky decomposition" (2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.errors import NotDifferentiableError
from workbench.graph import blame
from workbench.graph.op import Op, declare, implements
from workbench.graph.tensor import admit, apply
from workbench.graph.types import Spec
from workbench.ops.contraction import product_dtype, spec_or_value, swap
from workbench.ops.define import dtype_of, op, shape_of, sum_to
from workbench.ops.reductions import conjugate, reduction, settings
from workbench.ops.shaping import normal_axes

__all__: list[str] = []

Params = dict[str, Any]
Batched = tuple[bool, ...]


# norm: the Euclidean one is an op, the others are written with reductions


def _norm_compute(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    squares = np.square(np.abs(x) if dtype_of(x).kind == "c" else x)
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _norm_weight(y: Any, x: Any, **_: Any) -> Any:
    return conjugate(x) / np.where(np.equal(y, 0), 1, y)


NORM = reduction("norm", _norm_compute, _norm_weight, rule="g · x / y, 0 at 0")


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """`numpy.linalg.norm`; its gradient is 0 where it is 0."""
    rank = len(shape_of(x))
    if axis is None:
        if ord is None or (ord == 2 and rank == 1) or (ord == "fro" and rank == 2):
            return apply(NORM, (x,), settings(None, keepdims))
        axes = tuple(range(rank))
    else:
        axes = normal_axes(axis, rank)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes[0], keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if ord in (None, "fro"):
        return apply(NORM, (x,), settings(axes, keepdims))
    return _matrix_norm(x, ord, axes, keepdims)


def _vector_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return apply(NORM, (x,), settings(axis, keepdims))
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((size != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axis, keepdims=keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    total = np.sum(size**ord, axis=axis, keepdims=keepdims)
    nothing = total == 0
    return np.where(nothing, 0, np.where(nothing, 1, total) ** (1 / ord))


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if ord in (1, -1, np.inf, -np.inf):
        first, second = (row, column) if abs(ord) == 1 else (column, row)
        sums = np.sum(np.abs(x), axis=first, keepdims=True)
        choose = np.max if ord > 0 else np.min
        y = choose(sums, axis=second, keepdims=True)
        return y if keepdims else np.squeeze(y, axes)
    if ord in (2, -2, "nuc"):
        raise NotDifferentiableError(
            f"np.linalg.norm(x, {ord!r}) of a matrix{blame.here()} needs singular"
            " values, which have no derivative here. Use 'fro', 1 or np.inf, or cut"
            " the gradient on purpose with x.value."
        )
    raise ValueError(f"Invalid norm order {ord!r} for matrices.")


@implements(np.linalg.vector_norm)
def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    """`numpy.linalg.vector_norm`."""
    if ord == 2:
        return apply(NORM, (x,), settings(axis, keepdims))
    return _vector_norm(x, ord, axis, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """`numpy.linalg.matrix_norm`."""
    return norm(x, ord, (-2, -1), keepdims)


# What all ops on square matrices share


def _square(x: Any) -> Spec:
    spec = spec_or_value(x)
    if len(spec.shape) < 2 or spec.shape[-1] != spec.shape[-2]:
        raise np.linalg.LinAlgError(
            f"the last two axes of shape {spec.shape} must be equal"
        )
    exact = spec.dtype.kind in "biu"
    return Spec(spec.shape, np.dtype(float) if exact else spec.dtype)


def _stacked(made: Op) -> Op:
    """NumPy's functions work on stacks of matrices, and a batch is one more."""
    made.batch = lambda inputs, batched, params: apply(made, inputs, params)
    return made


def _hermitian(x: Any) -> Any:
    return conjugate(swap(x))


# inv


def _inv_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
    return -(y @ tangents[0] @ y)


INV = _stacked(
    op(
        "inv",
        np.linalg.inv,
        lambda g, y, x: -(swap(y) @ g @ swap(y)),
        push=_inv_push,
        rule="−yᵀ g yᵀ",
        reads=("y",),
        infer=_square,
    )
)


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """`numpy.linalg.inv`."""
    return apply(INV, (a,))


# solve


def _solve_infer(a: Any, b: Any) -> Spec:
    matrix, right = _square(a), spec_or_value(b)
    n = matrix.shape[-1]
    dtype = product_dtype(matrix, right)
    vector = len(right.shape) == 1
    if not right.shape or right.shape[-1 if vector else -2] != n:
        raise ValueError(
            f"the right side of shape {right.shape} does not have {n} rows"
        )
    if vector:
        return Spec((*matrix.shape[:-2], n), dtype)
    loop = np.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    return Spec((*loop, n, right.shape[-1]), dtype)


def _solve_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b = inputs
    vector = len(shape_of(b)) == 1
    if vector:
        g, y = g[..., None], y[..., None]
    right = np.linalg.solve(swap(a), g)
    left = -(right @ swap(y)) if mask & 1 else None
    return [left, sum_to(right[..., 0] if vector else right, shape_of(b))]


def _solve_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    moved_a, moved_b = tangents
    if moved_a is None:
        return np.linalg.solve(inputs[0], moved_b)
    if len(shape_of(inputs[1])) > 1:
        moved = -(moved_a @ y)
        return np.linalg.solve(inputs[0], moved if moved_b is None else moved_b + moved)
    moved = -(moved_a @ y[..., None])
    if moved_b is not None:
        moved = moved_b[..., None] + moved
    return np.linalg.solve(inputs[0], moved)[..., 0]


def _solve_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    a, b = inputs
    vector = len(shape_of(b)) - batched[1] == 1
    if vector:
        b = b[..., None]
    rank = max(len(shape_of(x)) - k for x, k in zip((a, b), batched, strict=True))
    a, b = (
        np.reshape(x, (shape_of(x)[0], *(1,) * short, *shape_of(x)[1:]))
        if k and (short := rank + 1 - len(shape_of(x)))
        else x
        for x, k in zip((a, b), batched, strict=True)
    )
    y = np.linalg.solve(a, b)
    return y[..., 0] if vector else y


SOLVE = declare("solve")
SOLVE.compute, SOLVE.infer, SOLVE.batch = np.linalg.solve, _solve_infer, _solve_batch
SOLVE.pull, SOLVE.push = _solve_pull, _solve_push
SOLVE.rule, SOLVE.reads = "−(x₀⁻ᵀ g) yᵀ   x₀⁻ᵀ g", (0, "y")
SOLVE.cure = "The right side has as many rows as the matrix; a vector has one axis."


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """`numpy.linalg.solve`."""
    return apply(SOLVE, (admit(a), admit(b)))


# det, by its matrix of cofactors, which exists for singular matrices too


def _reduced(x: Any) -> Spec:
    spec = _square(x)
    return Spec(spec.shape[:-2], spec.dtype)


def _cofactor_compute(x: Any) -> Any:
    left, sizes, right = np.linalg.svd(x)
    one = np.ones_like(sizes[..., :1])
    before = np.cumprod(np.concatenate([one, sizes[..., :-1]], axis=-1), axis=-1)
    turned = np.flip(sizes, -1)
    after = np.cumprod(np.concatenate([one, turned[..., :-1]], axis=-1), axis=-1)
    others = before * np.flip(after, -1)
    sign = np.linalg.det(left) * np.linalg.det(right)
    product = (conjugate(left) * others[..., None, :]) @ conjugate(right)
    return sign[..., None, None] * product


def _cofactor_pull(g: Any, y: Any, x: Any) -> Any:
    turned = swap(np.linalg.inv(x))
    total = np.sum(g * y, axis=(-2, -1))[..., None, None]
    return total * turned - turned @ swap(g) @ y


COFACTOR = _stacked(
    op(
        "cofactor",
        _cofactor_compute,
        _cofactor_pull,
        rule="x⁻ᵀ (g · y) − x⁻ᵀ gᵀ y",
        reads=(0, "y"),
        infer=_square,
    )
)


def _cofactor(x: Any) -> Any:
    return apply(COFACTOR, (x,))


DET = _stacked(
    op(
        "det",
        np.linalg.det,
        lambda g, y, x: g[..., None, None] * _cofactor(x),
        push=lambda t, y, x: np.sum(t[0] * _cofactor(x), axis=(-2, -1)),
        rule="g · cofactors of x",
        reads=(0,),
        infer=_reduced,
    )
)


@implements(np.linalg.det)
def det(a: Any) -> Any:
    """`numpy.linalg.det`; its gradient is right for singular matrices too."""
    return apply(DET, (a,))


# slogdet


class SlogdetResult(NamedTuple):
    """What `numpy.linalg.slogdet` returns."""

    sign: Any
    logabsdet: Any


def _logabsdet_infer(x: Any) -> Spec:
    spec = _reduced(x)
    return Spec(spec.shape, np.finfo(spec.dtype).dtype)


LOGABSDET = _stacked(
    op(
        "logabsdet",
        lambda x: np.linalg.slogdet(x)[1],
        lambda g, y, x: g[..., None, None] * swap(np.linalg.inv(x)),
        push=lambda t, y, x: np.sum(t[0] * swap(np.linalg.inv(x)), axis=(-2, -1)),
        rule="g · x⁻ᵀ",
        reads=(0,),
        infer=_logabsdet_infer,
    )
)
SIGN = _stacked(op("sign_of_det", lambda x: np.linalg.slogdet(x)[0], infer=_reduced))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> SlogdetResult:
    """`numpy.linalg.slogdet`."""
    if dtype_of(a).kind == "c":  # the sign turns with the matrix
        whole = np.linalg.det(a)
        return SlogdetResult(whole / np.abs(whole), apply(LOGABSDET, (a,)))
    return SlogdetResult(apply(SIGN, (a,)), apply(LOGABSDET, (a,)))


# cholesky, which reads the lower triangle alone


def _half_lower(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    return (np.tril(x) + np.tril(x, -1)) / 2


def _cholesky_pull(g: Any, y: Any, x: Any) -> Any:
    turned = _hermitian(y)
    middle = _half_lower(turned @ conjugate(g))
    left = np.linalg.solve(turned, middle)
    full = _hermitian(np.linalg.solve(turned, _hermitian(left)))
    # Twice the Hermitian part: an entry below the diagonal stands for two.
    return conjugate(_half_lower(full + _hermitian(full)))


def _diagonal(x: Any) -> Any:
    kept = np.tril(x) - np.tril(x, -1)
    return (kept + conjugate(kept)) / 2


def _cholesky_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
    below = np.tril(tangents[0], -1)
    full = below + _hermitian(below) + _diagonal(tangents[0])
    left = np.linalg.solve(y, full)
    return y @ _half_lower(_hermitian(np.linalg.solve(y, _hermitian(left))))


CHOLESKY = _stacked(
    op(
        "cholesky",
        np.linalg.cholesky,
        _cholesky_pull,
        push=_cholesky_push,
        rule="y⁻ᵀ Φ(yᵀ g) y⁻¹ on the lower triangle",
        reads=("y",),
        infer=_square,
    )
)


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """`numpy.linalg.cholesky`; the gradient lies where it reads, in one triangle."""
    if upper:
        return _hermitian(apply(CHOLESKY, (_hermitian(a),)))
    return apply(CHOLESKY, (a,))
