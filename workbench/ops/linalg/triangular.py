"""Triangular systems and LU factors, by SciPy.

Formulas: M. B. Giles, "An extended collection of matrix derivative results for
forward and reverse mode AD" (2008), for solutions; for LU the derivative of
``P L U`` splits ``L⁻¹ Pᵀ dA U⁻¹`` at the diagonal (F. R. de Hoog, R. S. Anderssen and
M. A. Lukas, "Differentiation of matrix functionals using triangular factorization",
2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from workbench.core.broadcasting import broadcast_shapes
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec, value_spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import product_dtype, swap
from workbench.ops.define import aligned, op, shape_of, sum_to
from workbench.ops.linalg.shared import (
    Batched,
    Params,
    eye_like,
    hermitian,
    matrices,
    real_dtype,
    square,
    stacked,
)
from workbench.ops.several import several

__all__ = ["lu", "permutation", "pivots", "triangular"]


# Triangular systems; the right side is a matrix


def _part(a: Any, lower: bool, unit: bool) -> Any:
    return np.tril(a, -unit) if lower else np.triu(a, unit)


def _triangular_compute(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    # SciPy takes no stack of no matrices, and no arrays of other libraries.
    if type(a) is np.ndarray and type(b) is np.ndarray and a.size and b.size:
        return scipy.linalg.solve_triangular(
            a, b, lower=lower, unit_diagonal=unit, check_finite=False
        )
    whole = _part(a, lower, unit)
    return np.linalg.solve(whole + eye_like(a) if unit else whole, b)


def _triangular_infer(a: Any, b: Any, **_: Any) -> Spec:
    matrix, right = square(a), value_spec(b)
    if right.shape[-2] != matrix.shape[-1]:
        raise ValueError(
            f"the right side of shape {right.shape} does not have"
            f" {matrix.shape[-1]} rows"
        )
    loop = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    dtype = np.result_type(product_dtype(matrix, right), matrix.dtype)
    return Spec((*loop, *right.shape[-2:]), dtype)


def _triangular_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b = inputs
    lower, unit = params["lower"], params["unit"]
    right = triangular(swap(a), g, not lower, unit)
    left = None
    if mask & 1:
        left = _part(sum_to(-(right @ swap(y)), shape_of(a)), lower, unit)
    return [left, sum_to(right, shape_of(b))]


def _triangular_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    moved_a, moved = tangents
    lower, unit = params["lower"], params["unit"]
    if moved_a is not None:
        term = _part(moved_a, lower, unit) @ y
        moved = -term if moved is None else moved - term
    return triangular(inputs[0], moved, lower, unit)


def _triangular_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    return apply(TRIANGULAR, aligned(inputs, batched), params)


TRIANGULAR = declare("solve_triangular")
TRIANGULAR.compute, TRIANGULAR.infer = _triangular_compute, _triangular_infer
TRIANGULAR.pull, TRIANGULAR.push = _triangular_pull, _triangular_push
TRIANGULAR.batch = _triangular_batch
TRIANGULAR.rule = "−(x₀⁻ᵀ g) yᵀ on the triangle   x₀⁻ᵀ g"
TRIANGULAR.reads = (0, "y")
TRIANGULAR.cure = "The right side has as many rows as the matrix."


def triangular(a: Any, b: Any, lower: bool, unit: bool = False) -> Any:
    """``a⁻¹ b`` by one triangle of ``a``; ``unit``: its diagonal counts as 1."""
    return apply(TRIANGULAR, (a, b), {"lower": lower, "unit": unit})


# lu


def _lu_infer(x: Any) -> Any:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    few = min(rows, columns)
    return (
        Spec((*loop, rows, rows), real_dtype(spec.dtype)),
        Spec((*loop, rows, few), spec.dtype),
        Spec((*loop, few, columns), spec.dtype),
    )


def _lu_compute(x: Any) -> Any:
    if 0 in x.shape[:-2]:
        specs = _lu_infer(x)
        return tuple(np.zeros_like(x, dtype=s.dtype, shape=s.shape) for s in specs)
    return tuple(scipy.linalg.lu(x, check_finite=False))


def _lu_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
    p, lower, upper = y
    few = min(shape_of(x)[-2:])
    t = swap(p) @ tangents[0]
    first, top = lower[..., :few, :], upper[..., :, :few]
    left = triangular(first, t[..., :few, :few], True, True)
    inner = swap(triangular(swap(top), swap(left), True))
    moved_l, moved_u = first @ np.tril(inner, -1), np.triu(inner) @ top
    if shape_of(x)[-2] > few:
        rest = t[..., few:, :] - lower[..., few:, :] @ moved_u
        rest = swap(triangular(swap(top), swap(rest), True))
        moved_l = np.concatenate([moved_l, rest], axis=-2)
    if shape_of(x)[-1] > few:
        rest = t[..., few:] - moved_l @ upper[..., few:]
        rest = triangular(first, rest, True, True)
        moved_u = np.concatenate([moved_u, rest], axis=-1)
    return None, moved_l, moved_u


def _lu_pull(g: Any, y: Any, x: Any) -> Any:
    p, lower, upper = y
    rows, columns = shape_of(x)[-2:]
    few = min(rows, columns)
    to_l = np.zeros_like(lower) if g[1] is None else conjugate(g[1])
    to_u = np.zeros_like(upper) if g[2] is None else conjugate(g[2])
    first, top = lower[..., :few, :], upper[..., :, :few]
    turned_l, turned_u = hermitian(first), hermitian(top)
    below = beside = None
    if rows > few:
        # x u⁻ᴴ is (u⁻¹ xᴴ)ᴴ
        below = hermitian(triangular(top, hermitian(to_l[..., few:, :]), False))
        to_u = to_u - hermitian(lower[..., few:, :]) @ below
    if columns > few:
        beside = triangular(turned_l, to_u[..., few:], False, True)
        to_l = to_l - beside @ hermitian(upper[..., few:])
    inner = np.tril(turned_l @ to_l[..., :few, :], -1)
    inner = inner + np.triu(to_u[..., :few] @ turned_u)
    left = triangular(turned_l, inner, False, True)
    made = hermitian(triangular(top, hermitian(left), False))
    if below is not None:
        made = np.concatenate([made, below], axis=-2)
    if beside is not None:
        made = np.concatenate([made, beside], axis=-1)
    return p @ conjugate(made)


LU = stacked(
    op(
        "lu",
        _lu_compute,
        _lu_pull,
        push=_lu_push,
        rule="P L⁻ᵀ (tril(Lᵀ g of L) + triu(g of U Uᵀ)) U⁻ᵀ",
        reads=("y",),
        infer=_lu_infer,
        cure="Both derivatives of lu need leading blocks that can be inverted.",
    )
)


def lu(a: Any) -> Any:
    """``P``, ``L`` and ``U``."""
    return several(LU, (a,))


# Row swaps as LAPACK counts them; integers, through which nothing flows


def _pivots_compute(p: Any, *, count: int) -> Any:
    flat = np.reshape(np.argmax(p, axis=-2), (-1, p.shape[-1]))
    made = np.zeros_like(flat, dtype=np.int32, shape=(flat.shape[0], count))
    for row, order in zip(made, flat.tolist(), strict=True):
        now = list(range(len(order)))
        for j in range(count):
            i = now.index(order[j])
            now[i], now[j], row[j] = now[j], now[i], i
    return np.reshape(made, (*p.shape[:-2], count))


PIVOTS = stacked(
    op(
        "lu_pivots",
        _pivots_compute,
        infer=lambda p, *, count: Spec((*p.shape[:-2], count), np.dtype(np.int32)),
    )
)


def pivots(p: Any, count: int) -> Any:
    """The swaps of rows behind a permutation matrix."""
    return apply(PIVOTS, (p,), {"count": count})


def _order_compute(swaps: Any) -> Any:
    flat = np.reshape(swaps, (-1, swaps.shape[-1]))
    made = np.zeros_like(flat, dtype=np.intp)
    for row, steps in zip(made, flat.tolist(), strict=True):
        order = list(range(len(steps)))
        for j, i in enumerate(steps):
            order[i], order[j] = order[j], order[i]
        row[:] = order
    return np.reshape(made, swaps.shape)


ORDER = stacked(
    op(
        "pivot_order",
        _order_compute,
        infer=lambda swaps: Spec(swaps.shape, np.dtype(np.intp)),
    )
)


def permutation(swaps: Any) -> Any:
    """The order of rows that swaps lead to."""
    return apply(ORDER, (swaps,))
