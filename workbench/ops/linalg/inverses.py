"""Inverses and solutions: inv, pinv, solve, lstsq, and those of tensors.

Formulas: M. B. Giles, "An extended collection of matrix derivative results for
forward and reverse mode AD" (2008); for the pseudoinverse G. H. Golub and V.
Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate" (1973), equation 4.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.broadcasting import broadcast_shapes
from workbench.core.op import declare, implements
from workbench.core.tensor import admit, apply, value_of
from workbench.core.types import Spec, value_spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import product_dtype, swap
from workbench.ops.define import aligned, op, shape_of, sum_to
from workbench.ops.linalg.shared import (
    Batched,
    Params,
    complete,
    hermitian,
    matrices,
    peak,
    square,
    stacked,
)
from workbench.ops.linalg.singular import singular_values
from workbench.ops.shaping import integers, normal_axis

__all__ = [
    "cut",
    "inv",
    "least_squares",
    "lstsq",
    "pinv",
    "pseudoinverse",
    "solve",
    "tensorinv",
    "tensorsolve",
]


# inv


def _inv_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
    return -(y @ tangents[0] @ y)


INV = stacked(
    op(
        "inv",
        np.linalg.inv,
        lambda g, y, x: -(swap(y) @ g @ swap(y)),
        push=_inv_push,
        rule="−yᵀ g yᵀ",
        reads=("y",),
        infer=square,
    )
)


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    """`numpy.linalg.inv`."""
    return apply(INV, (admit(a),))


# solve


def _solve_infer(a: Any, b: Any) -> Spec:
    matrix, right = square(a), value_spec(b)
    n = matrix.shape[-1]
    dtype = np.result_type(product_dtype(matrix, right), matrix.dtype)
    vector = len(right.shape) == 1
    if not right.shape or right.shape[-1 if vector else -2] != n:
        raise ValueError(
            f"the right side of shape {right.shape} does not have {n} rows"
        )
    if vector:
        return Spec((*matrix.shape[:-2], n), dtype)
    loop = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
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
    y = np.linalg.solve(*aligned((a, b), batched))
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


# pinv: the rank is taken as constant, as it is wherever there is a derivative


def _pinv_pull(g: Any, y: Any, x: Any, **_: Any) -> Any:
    g, turned = conjugate(g), hermitian(y)
    back = hermitian(g)
    left = back @ y @ turned
    right = turned @ y @ back
    made = left - x @ (y @ left) + right - (right @ y) @ x - turned @ g @ turned
    return conjugate(made)


def _pinv_push(tangents: tuple[Any, ...], y: Any, x: Any, **_: Any) -> Any:
    t, turned = tangents[0], hermitian(y)
    back = hermitian(t)
    left = y @ (turned @ back)
    right = (back @ turned) @ y
    return left - (left @ x) @ y + right - y @ (x @ right) - y @ t @ y


def _pinv_infer(x: Any, **_: Any) -> Spec:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    return Spec((*loop, columns, rows), spec.dtype)


PINV = stacked(
    op(
        "pinv",
        lambda x, **params: np.linalg.pinv(x, **params),
        _pinv_pull,
        push=_pinv_push,
        rule="−yᵀ g yᵀ + (1 − x y) gᵀ y yᵀ + yᵀ y gᵀ (1 − y x)",
        reads=(0, "y"),
        infer=_pinv_infer,
    )
)


def _cuts(a: Any, rcond: float) -> bool:
    """Whether singular values that are not nearly 0 are to count as 0."""
    return rcond > max(1e-9, 100 * float(np.finfo(matrices(a).dtype).eps))


def cut(a: Any, limit: Callable[[Any], Any]) -> Any:
    """The pseudoinverse of ``a`` without values up to ``limit(largest value)``."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    small = s <= limit(np.max(s, axis=-1, keepdims=True))
    inverse = np.where(small, 0, 1 / np.where(small, 1, s))
    return hermitian(vh) @ (inverse[..., :, None] * hermitian(u))


def pseudoinverse(a: Any, rcond: float | None, hermitian: bool) -> Any:
    """The pseudoinverse; of a Hermitian matrix it reads the lower triangle."""
    params: Params = {} if rcond is None else {"rcond": rcond}
    if hermitian:
        a, params["hermitian"] = complete(a, lower=True), True
    if rcond is not None and _cuts(a, rcond):
        return cut(a, lambda top: rcond * top)
    return apply(PINV, (a,), params)


@implements(np.linalg.pinv)
def pinv(
    a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Any:
    """`numpy.linalg.pinv`.

    Its derivative is that at constant rank; where a singular value crosses
    ``rcond``, the pseudoinverse jumps and has none. With an ``rcond`` that cuts values
    which are not nearly 0 (above 1e-9), repeated singular values give NaN.
    """
    a = admit(a)
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None and rtol is not None:
        rcond = rtol
    limit = None if rcond is None else float(value_of(rcond))
    return pseudoinverse(a, limit, hermitian)


# lstsq


def _lstsq_compute(a: Any, b: Any, *, rcond: float | None = None) -> Any:
    if len(a.shape) == 2 and len(b.shape) <= 2:
        return np.linalg.lstsq(a, b, rcond=rcond)[0]
    return np.linalg.pinv(a, rcond=_limit(a, rcond)) @ b


def _limit(a: Any, rcond: float | None) -> float:
    """The limit of `lstsq`, which is not that of `pinv` by default."""
    if rcond is None:
        eps = float(np.finfo(matrices(a).dtype).eps)
        return eps * float(max(shape_of(a)[-2:]))
    return rcond if rcond >= 0 else float(np.finfo(matrices(a).dtype).eps)


def _lstsq_infer(a: Any, b: Any, **_: Any) -> Spec:
    matrix, right = matrices(a), matrices(b)
    if matrix.shape[-2] != right.shape[-2]:
        raise ValueError(
            f"the right side of shape {right.shape} does not have"
            f" {matrix.shape[-2]} rows"
        )
    loop = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    return Spec(
        (*loop, matrix.shape[-1], right.shape[-1]), product_dtype(matrix, right)
    )


def _lstsq_left(g: Any, y: Any, a: Any, b: Any, *, rcond: float | None = None) -> Any:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    g, turned = conjugate(g), hermitian(inverse)
    shared = turned @ g
    rest = b - a @ y
    across = (turned @ y) @ hermitian(g - swap(conjugate(a)) @ shared)
    made = rest @ hermitian(inverse @ shared) - shared @ hermitian(y) + across
    return sum_to(conjugate(made), shape_of(a))


def _lstsq_right(g: Any, y: Any, a: Any, b: Any, *, rcond: float | None = None) -> Any:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    return sum_to(swap(inverse) @ g, shape_of(b))


def _lstsq_push(
    tangents: tuple[Any, ...], y: Any, a: Any, b: Any, *, rcond: float | None = None
) -> Any:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    moved_a, moved_b = tangents
    if moved_a is None:
        return inverse @ moved_b
    turned, back = hermitian(inverse), hermitian(moved_a)
    across = back @ (turned @ y)
    made = inverse @ (turned @ (back @ (b - a @ y)) - moved_a @ y) + across
    made = made - inverse @ (a @ across)
    return made if moved_b is None else made + inverse @ moved_b


def _lstsq_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    return apply(LSTSQ, inputs, params)


LSTSQ = op(
    "least_squares",
    _lstsq_compute,
    _lstsq_left,
    _lstsq_right,
    push=_lstsq_push,
    rule="that of x₀⁺ x₁ at constant rank   x₀⁺ᵀ g",
    reads=(0, 1, "y"),
    infer=_lstsq_infer,
    batch=_lstsq_batch,
    cure="The right side has as many rows as the matrix.",
)


def least_squares(a: Any, b: Any, rcond: float | None) -> Any:
    """The solution of least size; ``b`` a vector or a matrix."""
    params: Params = {} if rcond is None else {"rcond": rcond}
    if rcond is not None and _cuts(a, rcond):
        return cut(a, lambda top: rcond * top) @ b
    if len(shape_of(b)) == 1:
        return apply(LSTSQ, (a, b[:, None]), params)[..., 0]
    return apply(LSTSQ, (a, b), params)


@implements(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """`numpy.linalg.lstsq`: solution, residuals, rank, singular values.

    The solution is that of least size, so it is defined, and differentiated at
    constant rank, for matrices of less than full rank too. Residuals are empty for
    those, as NumPy has it; traced without values, the rank is taken as full.
    """
    a, b = admit(a), admit(b)
    if len(shape_of(a)) != 2:
        raise np.linalg.LinAlgError(f"lstsq: a of shape {shape_of(a)} must have 2 axes")
    if len(shape_of(b)) not in (1, 2):
        raise np.linalg.LinAlgError(f"lstsq: b of shape {shape_of(b)} must have 1 or 2")
    limit = None if rcond is None else float(value_of(rcond))
    x = least_squares(a, b, limit)
    values = singular_values(a)
    floor = _limit(a, limit) * peak(values)
    rank = np.astype(np.sum(values > floor), np.int32)
    rows, columns = shape_of(a)
    known = value_of(rank)
    if rows <= columns or (known is not None and bool(known < columns)):
        empty = np.zeros_like(x, dtype=values.dtype, shape=(0,))
        return x, empty, rank, values
    apart = np.abs(b - a @ x) ** 2
    return x, np.sum(np.reshape(apart, (rows, -1)), axis=0), rank, values


# Tensors as matrices


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """`numpy.linalg.tensorsolve`."""
    a, b = admit(a), admit(b)
    rank = len(shape_of(a))
    if axes is not None:
        last = [normal_axis(n, rank) for n in integers(axes)]
        a = np.transpose(a, [n for n in range(rank) if n not in last] + last)
    shape = shape_of(a)[len(shape_of(b)) - rank :] if rank > len(shape_of(b)) else ()
    size = math.prod(shape)
    if size**2 != math.prod(shape_of(a)):
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement"
            " prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    matrix = np.reshape(a, (size, size))
    return np.reshape(solve(matrix, np.reshape(b, (-1,))), shape)


@implements(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """`numpy.linalg.tensorinv`."""
    a = admit(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = shape_of(a)
    first, last = shape[:ind], shape[ind:]
    matrix = np.reshape(a, (math.prod(first), math.prod(last)))
    return np.reshape(inv(matrix), (*last, *first))
