"""Triangular, LU, Sylvester's and banded systems, by SciPy.

A solution is linear in its right side, that of ``A X + X B = Q`` in Q: the transposed
equation passes the cotangent back, as for `solve` (M. B. Giles, "An extended collection
of matrix derivative results for forward and reverse mode AD", 2008, section 2.3.1).

For LU the derivative of ``P L U`` splits ``L⁻¹ Pᵀ dA U⁻¹`` at the diagonal (F. R. de
Hoog, R. S. Anderssen and M. A. Lukas, "Differentiation of matrix functionals using
triangular factorization", 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from workbench.core.dims import broadcast_shapes, smallest, unify_lengths
from workbench.core.op import Reading, declare
from workbench.core.tensor import apply
from workbench.core.traits import Traits
from workbench.core.types import Array, Params, Spec, Tangent, as_spec
from workbench.ops import define
from workbench.ops.contraction import product_dtype, swap
from workbench.ops.device import find_library, leave_device, make_zeros, on_cupy
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg import shared

# Triangular systems; the right side is a matrix


def _part(a: Array, lower: bool, unit: bool) -> Array:
    return np.tril(a, -unit) if lower else np.triu(a, unit)


def _triangular_compute(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    # SciPy takes no stack of no matrices, and no arrays of other libraries.
    if type(a) is np.ndarray and type(b) is np.ndarray and a.size and b.size:
        return scipy.linalg.solve_triangular(
            a, b, lower=lower, unit_diagonal=unit, check_finite=False
        )
    whole = _part(a, lower, unit)
    return np.linalg.solve(whole + shared.eye_like(a) if unit else whole, b)


def _triangular_on_cupy(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    a, b = shared.broadcast_stacks(a, b)
    if not (a.size and b.size):
        return np.zeros_like(b, dtype=np.result_type(a, b))
    solve = find_library(b, "linalg").solve_triangular
    return solve(a, b, lower=lower, unit_diagonal=unit)


def _triangular_infer(a: Array, b: Array, **_: Any) -> Spec:
    matrix, right = shared.square(a), as_spec(b)
    said = f"the right side of shape {right.shape} does not have"
    n = unify_lengths(
        matrix.shape[-1], right.shape[-2], f"{said} {matrix.shape[-1]} rows"
    )
    loop = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    dtype = np.result_type(product_dtype(matrix, right), matrix.dtype)
    return Spec((*loop, n, right.shape[-1]), dtype)


def _triangular_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b = inputs
    lower, unit = params["lower"], params["unit"]
    right = triangular(swap(a), g, not lower, unit)
    left = None
    if mask & 1:
        left = _part(define.sum_to(-(right @ swap(y)), define.shape_of(a)), lower, unit)
    return [left, define.sum_to(right, define.shape_of(b))]


def _triangular_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Array:
    moved_a, moved = tangents
    lower, unit = params["lower"], params["unit"]
    if moved_a is not None:
        term = _part(moved_a, lower, unit) @ y
        moved = -term if moved is None else moved - term
    return triangular(inputs[0], moved, lower, unit)


def _read_triangle(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    """Return the reads of a solution: the triangle's row and the right side before.

    ``∂x[i] = -Σ a⁻¹[i, k] ∂a[k, l] x[l]``, and the inverse is a triangle too.
    """
    rows = np.sum(_part(a, lower, unit), axis=-1)[..., None] + b
    if lower:
        return np.cumsum(rows, axis=-2)
    return np.flip(np.cumsum(np.flip(rows, axis=-2), axis=-2), axis=-2)


TRIANGULAR = declare("solve_triangular")
TRIANGULAR.compute, TRIANGULAR.infer = _triangular_compute, _triangular_infer
on_cupy(TRIANGULAR)(_triangular_on_cupy)
TRIANGULAR.pull, TRIANGULAR.push = _triangular_pull, _triangular_push
TRIANGULAR.batch, TRIANGULAR.kind = "aligned", "matrix"
TRIANGULAR.pattern = Reading(_read_triangle)
TRIANGULAR.traits = Traits(condition="triangular")
TRIANGULAR.template = (
    "linalg.solve_triangular({0}, {1}, lower={lower}, unit_diagonal={unit})"
)
TRIANGULAR.rule = "−(x₀⁻ᵀ g) yᵀ on the triangle   x₀⁻ᵀ g"
TRIANGULAR.reads = (0, "y")
TRIANGULAR.cure = "The right side has as many rows as the matrix."


def triangular(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    """Return ``a⁻¹ b`` by one triangle of ``a``; ``unit``: with 1 on its diagonal."""
    return apply(TRIANGULAR, (a, b), {"lower": lower, "unit": unit})


# lu


def _lu_infer(x: Array) -> tuple[Spec, Spec, Spec]:
    spec = shared.matrices(x)
    *loop, rows, columns = spec.shape
    few = smallest(rows, columns)
    return (
        Spec((*loop, rows, rows), shared.real_dtype(spec.dtype)),
        Spec((*loop, rows, few), spec.dtype),
        Spec((*loop, few, columns), spec.dtype),
    )


def _lu_compute(x: Any) -> tuple[Any, ...]:
    if 0 in x.shape[:-2]:
        specs = _lu_infer(x)
        return tuple(make_zeros(x, s.shape, s.dtype) for s in specs)
    return tuple(scipy.linalg.lu(x, check_finite=False))


def _lu_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array
) -> tuple[Tangent, ...]:
    p, lower, upper = y
    few = min(define.shape_of(x)[-2:])
    t = swap(p) @ tangents[0]
    first, top = lower[..., :few, :], upper[..., :, :few]
    left = triangular(first, t[..., :few, :few], True, True)
    inner = swap(triangular(swap(top), swap(left), True))
    moved_l, moved_u = first @ np.tril(inner, -1), np.triu(inner) @ top
    if define.shape_of(x)[-2] > few:
        rest = t[..., few:, :] - lower[..., few:, :] @ moved_u
        rest = swap(triangular(swap(top), swap(rest), True))
        moved_l = np.concatenate([moved_l, rest], axis=-2)
    if define.shape_of(x)[-1] > few:
        rest = t[..., few:] - moved_l @ upper[..., few:]
        rest = triangular(first, rest, True, True)
        moved_u = np.concatenate([moved_u, rest], axis=-1)
    return None, moved_l, moved_u


def _lu_pull(g: define.Parts, y: tuple[Any, ...], x: Array) -> Array:
    p, lower, upper = y
    rows, columns = define.shape_of(x)[-2:]
    few = min(rows, columns)
    to_l = np.zeros_like(lower) if g[1] is None else conjugate(g[1])
    to_u = np.zeros_like(upper) if g[2] is None else conjugate(g[2])
    first, top = lower[..., :few, :], upper[..., :, :few]
    turned_l, turned_u = shared.hermitian(first), shared.hermitian(top)
    below = right = None
    if rows > few:
        # x u⁻ᴴ is (u⁻¹ xᴴ)ᴴ
        below = shared.hermitian(
            triangular(top, shared.hermitian(to_l[..., few:, :]), False)
        )
        to_u = to_u - shared.hermitian(lower[..., few:, :]) @ below
    if columns > few:
        right = triangular(turned_l, to_u[..., few:], False, True)
        to_l = to_l - right @ shared.hermitian(upper[..., few:])
    inner = np.tril(turned_l @ to_l[..., :few, :], -1)
    inner = inner + np.triu(to_u[..., :few] @ turned_u)
    left = triangular(turned_l, inner, False, True)
    made = shared.hermitian(triangular(top, shared.hermitian(left), False))
    if below is not None:
        made = np.concatenate([made, below], axis=-2)
    if right is not None:
        made = np.concatenate([made, right], axis=-1)
    return p @ conjugate(made)


def _read_before_pivots(x: Array) -> tuple[None, Array, Array]:
    """Read the columns to j by L[i, j], before i, and j, by U[i, j].

    Which rows depends on how they are swapped: values decide it, so all may be read.
    """
    before, so_far, each = shared.read_columns_so_far(x)
    rows = np.ones((define.shape_of(x)[-2], 1))  # host array: factors of 1
    lower = np.tril(so_far[..., None, :] * rows, -1)
    return None, lower, np.triu(before[..., None] + each[..., None, :])


LU = shared.stacked(
    define.op(
        "lu",
        _lu_compute,
        _lu_pull,
        push=_lu_push,
        rule="P L⁻ᵀ (tril(Lᵀ g of L) + triu(g of U Uᵀ)) U⁻ᵀ",
        pattern=Reading(_read_before_pivots),
        template="linalg.lu({0})",
        output_names=("P", "L", "U"),
        reads=("y",),
        infer=_lu_infer,
        condition="factors",
        cure="Both derivatives of lu need leading blocks that can be inverted.",
    )
)


@on_cupy(LU)
def _lu_on_cupy(x: Any) -> tuple[Any, ...]:
    if x.ndim == 2:
        return tuple(find_library(x, "linalg").lu(x))
    if 0 in x.shape[:-2]:
        return _lu_compute(x)
    flat = np.reshape(x, (-1, *x.shape[-2:]))  # CuPy takes one matrix at a time
    columns = zip(*(_lu_on_cupy(m) for m in flat), strict=True)
    parts = [np.stack(column) for column in columns]
    return tuple(np.reshape(y, (*x.shape[:-2], *y.shape[-2:])) for y in parts)


def lu(a: Array) -> tuple[Any, ...]:
    """Return ``P``, ``L`` and ``U``."""
    return define.apply_and_split(LU, (a,))


# Row swaps as LAPACK counts them; integers, through which nothing flows


def _pivots_compute(p: Array, *, count: int) -> Array:
    flat = np.reshape(np.argmax(p, axis=-2), (-1, p.shape[-1]))
    made = np.zeros_like(flat, dtype=np.int32, shape=(flat.shape[0], count))
    for row, order in zip(made, flat.tolist(), strict=True):
        now = list(range(len(order)))
        for j in range(count):
            i = now.index(order[j])
            now[i], now[j], row[j] = now[j], now[i], i
    return np.reshape(made, (*p.shape[:-2], count))


PIVOTS = shared.stacked(
    define.op(
        "lu_pivots",
        _pivots_compute,
        infer=lambda p, *, count: Spec((*p.shape[:-2], count), np.dtype(np.int32)),
        template="lu_pivots({0}, {count})",
        helper='''\
def lu_pivots(p, count):
    """The row that each row was swapped with, from the permutation that came of it."""
    pivots = np.zeros((*p.shape[:-2], count), np.int32)
    for at in np.ndindex(p.shape[:-2]):
        order, now = list(np.argmax(p[at], axis=0)), list(range(p.shape[-1]))
        for j in range(count):
            i = now.index(order[j])
            now[i], now[j], pivots[(*at, j)] = now[j], now[i], i
    return pivots
''',
    )
)


leave_device(PIVOTS, "function that finds the swaps of a permutation")


def pivots(p: Array, count: int) -> Array:
    """Return the swaps of rows behind a permutation matrix."""
    return apply(PIVOTS, (p,), {"count": count})


def _order_compute(swaps: Any) -> Array:
    flat = np.reshape(swaps, (-1, swaps.shape[-1]))
    made = np.zeros_like(flat, dtype=np.intp)
    for row, steps in zip(made, flat.tolist(), strict=True):
        order = list(range(len(steps)))
        for j, i in enumerate(steps):
            order[i], order[j] = order[j], order[i]
        row[:] = order
    return np.reshape(made, swaps.shape)


ORDER = shared.stacked(
    define.op(
        "pivot_order",
        _order_compute,
        infer=lambda swaps: Spec(swaps.shape, np.dtype(np.intp)),
        helper='''\
def pivot_order(swaps):
    """The order of rows after each row was swapped with another."""
    orders = np.zeros(swaps.shape, np.intp)
    for at in np.ndindex(swaps.shape[:-1]):
        order = list(range(swaps.shape[-1]))
        for j, i in enumerate(swaps[at]):
            order[i], order[j] = order[j], order[i]
        orders[at] = order
    return orders
''',
    )
)


leave_device(ORDER, "function that applies swaps in their order")


def permutation(swaps: Any) -> Array:
    """Return the order of rows that swaps lead to."""
    return apply(ORDER, (swaps,))


# A X + X B = Q


def _sylvester_infer(a: Array, b: Array, q: Array) -> Spec:
    left, right, whole = shared.square(a), shared.square(b), shared.matrices(q)
    said = (
        f"q of shape {whole.shape} does not have {left.shape[-1]} rows and"
        f" {right.shape[-1]} columns"
    )
    rows = unify_lengths(whole.shape[-2], left.shape[-1], said)
    columns = unify_lengths(whole.shape[-1], right.shape[-1], said)
    loop = broadcast_shapes(left.shape[:-2], right.shape[:-2], whole.shape[:-2])
    return Spec((*loop, rows, columns), product_dtype(left, right, whole))


def _sylvester_compute(a: Any, b: Any, q: Any) -> Array:
    spec = _sylvester_infer(a, b, q)
    if 0 in spec.shape:  # SciPy takes no stack of no matrices
        return make_zeros(q, spec.shape, spec.dtype)
    if "c" in (a.dtype.kind, b.dtype.kind, q.dtype.kind):
        # SciPy takes the real Schur form of a real matrix, whose blocks of two its
        # complex solver does not see: a wrong solution without a word.
        a, b = (x.astype(np.result_type(x, np.complex64)) for x in (a, b))
    return scipy.linalg.solve_sylvester(a, b, q)


def _sylvester_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b, q = inputs
    back = sylvester(swap(a), swap(b), g)
    return [
        define.sum_to(-(back @ swap(y)), define.shape_of(a)) if mask & 1 else None,
        define.sum_to(-(swap(y) @ back), define.shape_of(b)) if mask & 2 else None,
        define.sum_to(back, define.shape_of(q)) if mask & 4 else None,
    ]


def _sylvester_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Array:
    moved_a, moved_b, moved = tangents
    for term in (
        None if moved_a is None else -(moved_a @ y),
        None if moved_b is None else -(y @ moved_b),
    ):
        if term is not None:
            moved = term if moved is None else moved + term
    return sylvester(inputs[0], inputs[1], moved)


SYLVESTER = declare("solve_sylvester")
SYLVESTER.compute, SYLVESTER.infer = _sylvester_compute, _sylvester_infer
leave_device(SYLVESTER, "Schur decomposition")
SYLVESTER.pull, SYLVESTER.push = _sylvester_pull, _sylvester_push
SYLVESTER.batch, SYLVESTER.kind = "aligned", "matrix"
SYLVESTER.traits = Traits(condition="sylvester")
SYLVESTER.template = "linalg.solve_sylvester({0}, {1}, {2})"
SYLVESTER.rule = "−z yᵀ   −yᵀ z   z, with x₀ᵀ z + z x₁ᵀ = g"
SYLVESTER.reads = (0, 1, "y")
SYLVESTER.cure = "a and b are square; q has the rows of a and the columns of b."


def sylvester(a: Array, b: Array, q: Array) -> Array:
    """Return the solution of ``a x + x b = q``."""
    return apply(SYLVESTER, (a, b, q))


# Banded systems: entry i, j of the matrix stands in row upper + i - j of the band


def _banded_compute(ab: Array, b: Array, *, lower: int, upper: int) -> Array:
    return scipy.linalg.solve_banded((lower, upper), ab, b, check_finite=False)


def _banded_infer(ab: Array, b: Array, *, lower: int, upper: int) -> Spec:
    band, right = shared.matrices(ab), shared.matrices(b)
    if band.shape[-2:] != (lower + upper + 1, right.shape[-2]):
        raise ValueError(
            f"a band of shape {band.shape} for a right side of {right.shape[-2]} rows"
            f" must have shape {(lower + upper + 1, right.shape[-2])}"
        )
    return Spec(right.shape, product_dtype(band, right))


def _shifts(rows: int, lower: int, n: int) -> tuple[Any, Any]:
    """Return the matrix row of each entry of a band, and whether there is one."""
    ahead = np.arange(rows)[:, None] - lower  # host array: an index
    index = ahead + np.arange(n)  # host array: an index
    return np.clip(index, 0, max(n - 1, 0)), (index >= 0) & (index < n)


def _transposed(ab: Array, lower: int) -> Array:
    """Return the band of the transposed matrix."""
    rows, n = define.shape_of(ab)
    columns, inside = _shifts(rows, lower, n)
    own = np.arange(rows)[:, None]  # host array: an index
    return np.where(define.convert_like(inside, ab), np.flip(ab, 0)[own, columns], 0)


def _banded_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    ab, _ = inputs
    lower, upper = params["lower"], params["upper"]
    back = banded(_transposed(ab, lower), g, upper, lower)
    made = None
    if mask & 1:
        rows, n = define.shape_of(ab)
        index, inside = _shifts(rows, upper, n)
        made = np.where(
            define.convert_like(inside, y), -np.sum(back[index] * y, axis=-1), 0
        )
    return [made, back]


BANDED = declare("solve_banded")
BANDED.compute, BANDED.infer, BANDED.pull = _banded_compute, _banded_infer, _banded_pull
BANDED.pattern = "banded solution"
leave_device(BANDED, "solver of banded systems")
BANDED.template = "linalg.solve_banded(({lower}, {upper}), {0}, {1})"
BANDED.traits = Traits(condition="banded")
BANDED.rule, BANDED.reads = "−(x₀⁻ᵀ g) yᵀ on the band   x₀⁻ᵀ g", (0, "y")
BANDED.cure = "The band has a row for each diagonal; the right side is a matrix."


def banded(ab: Array, b: Array, lower: int, upper: int) -> Array:
    """Return the solution of a banded system; ``b`` is a matrix."""
    return apply(BANDED, (ab, b), {"lower": lower, "upper": upper})
