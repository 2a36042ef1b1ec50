"""Inverses, solutions and determinants: inv, pinv, solve, lstsq, det, slogdet.

Formulas: M. B. Giles, "An extended collection of matrix derivative results for
forward and reverse mode AD" (2008); for the pseudoinverse G. H. Golub and V.
Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate" (1973), equation 4.12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench.core.deferred import operand_shape
from workbench.core.dims import broadcast_shapes, smallest, unify_lengths
from workbench.core.op import Op, Reading, declare, implements
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.traits import Traits
from workbench.core.types import (
    Array,
    ArrayLike,
    Batched,
    Cotangent,
    Params,
    Spec,
    Tangent,
    as_spec,
)
from workbench.errors import MatrixError
from workbench.ops.contraction import product_dtype, swap
from workbench.ops.define import align_batch, dtype_of, op, shape_of, sum_to
from workbench.ops.device import on_cupy
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg.shared import (
    broadcast,
    broadcast_stacks,
    complete,
    eye_like,
    hermitian,
    matrices,
    peak,
    read_system,
    real_dtype,
    reduced,
    square,
    stacked,
)
from workbench.ops.linalg.singular import singular_values
from workbench.ops.shaping import as_integers, normal_axis

# inv


def _inv_push(tangents: tuple[Any, ...], y: Array, x: Array) -> Array:
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
        condition="general",
        grows=True,
    )
)


@implements(np.linalg.inv)
def inv(a: Array) -> Array:
    """Return the inverse of each matrix, as `numpy.linalg.inv` does."""
    return apply(INV, (admit(a),))


# solve


def _solve_infer(a: Array, b: Array) -> Spec:
    matrix, right = square(a), as_spec(b)
    n = matrix.shape[-1]
    dtype = np.result_type(product_dtype(matrix, right), matrix.dtype)
    vector = len(right.shape) == 1
    said = f"the right side of shape {right.shape} does not have {n} rows"
    if not right.shape:
        raise ValueError(said)
    n = unify_lengths(n, right.shape[-1 if vector else -2], said)
    if vector:
        return Spec((*matrix.shape[:-2], n), dtype)
    loop = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    return Spec((*loop, n, right.shape[-1]), dtype)


def _solve_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b = inputs
    vector = len(shape_of(b)) == 1
    if vector:
        g, y = g[..., None], y[..., None]
    right = solve(swap(a), g)
    left = -(right @ swap(y)) if mask & 1 else None
    return [left, sum_to(right[..., 0] if vector else right, shape_of(b))]


def _solve_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Array:
    moved_a, moved_b = tangents
    if moved_a is None:
        return solve(inputs[0], moved_b)
    if len(shape_of(inputs[1])) > 1:
        moved = -(moved_a @ y)
        return solve(inputs[0], moved if moved_b is None else moved_b + moved)
    moved = -(moved_a @ y[..., None])
    if moved_b is not None:
        moved = moved_b[..., None] + moved
    return solve(inputs[0], moved)[..., 0]


def _solve_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    a, b = inputs
    vector = len(shape_of(b)) - batched[1] == 1
    if vector:
        b = b[..., None]
    y = solve(*align_batch((a, b), batched))
    return y[..., 0] if vector else y


def _solve_on_cupy(a: Array, b: Array) -> Array:
    return np.linalg.solve(*((a, b) if b.ndim == 1 else broadcast_stacks(a, b)))


SOLVE = declare("solve")
SOLVE.compute, SOLVE.infer, SOLVE.batch = np.linalg.solve, _solve_infer, _solve_batch
on_cupy(SOLVE)(_solve_on_cupy)
SOLVE.pull, SOLVE.push = _solve_pull, _solve_push
SOLVE.traits = Traits(condition="general", grows=True)
SOLVE.rule, SOLVE.reads = "−(x₀⁻ᵀ g) yᵀ   x₀⁻ᵀ g", (0, "y")
SOLVE.kind, SOLVE.pattern = "matrix", Reading(read_system)
SOLVE.cure = "The right side has as many rows as the matrix; a vector has one axis."


@implements(np.linalg.solve)
def solve(a: Array, b: Array) -> Array:
    """Solve ``a @ x = b`` for ``x``, as `numpy.linalg.solve` does."""
    return apply(SOLVE, (admit(a), admit(b)))


# pinv: the rank is taken as constant, as it is wherever there is a derivative


def _pinv_pull(g: Array, y: Array, x: Array, **_: Any) -> Array:
    g, turned = conjugate(g), hermitian(y)
    back = hermitian(g)
    left = back @ y @ turned
    right = turned @ y @ back
    made = left - x @ (y @ left) + right - (right @ y) @ x - turned @ g @ turned
    return conjugate(made)


def _pinv_push(tangents: tuple[Any, ...], y: Array, x: Array, **_: Any) -> Array:
    t, turned = tangents[0], hermitian(y)
    back = hermitian(t)
    left = y @ (turned @ back)
    right = (back @ turned) @ y
    return left - (left @ x) @ y + right - y @ (x @ right) - y @ t @ y


def _pinv_infer(x: Array, **_: Any) -> Spec:
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
        condition="pseudoinverse",
    )
)


@on_cupy(PINV)
def _pinv_on_cupy(x: Array, *, hermitian: bool = False, **params: Any) -> Array:
    return np.linalg.pinv(x, **params)  # CuPy makes nothing of symmetry


def _cuts(a: Array, rcond: float) -> bool:
    """Return whether singular values that are not nearly 0 are to count as 0."""
    return rcond > max(1e-9, 100 * float(np.finfo(matrices(a).dtype).eps))


def cut(a: Array, limit: Callable[[Any], Any]) -> Array:
    """Return the pseudoinverse without values up to ``limit(largest value)``."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    small = s <= limit(np.max(s, axis=-1, keepdims=True))
    inverse = np.where(small, 0, 1 / np.where(small, 1, s))
    return hermitian(vh) @ (inverse[..., :, None] * hermitian(u))


def pseudoinverse(a: Array, rcond: float | None, hermitian: bool) -> Array:
    """Return the pseudoinverse; of a Hermitian matrix read the lower triangle."""
    params: Params = {} if rcond is None else {"rcond": rcond}
    if hermitian:
        a, params["hermitian"] = complete(a, lower=True), True
    if rcond is not None and _cuts(a, rcond):
        return cut(a, lambda top: rcond * top)
    return apply(PINV, (a,), params)


@implements(np.linalg.pinv)
def pinv(
    a: Array,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: float | None = None,
) -> Array:
    """Return the pseudoinverse, as `numpy.linalg.pinv` does.

    Its derivative is that at constant rank; where a singular value crosses
    ``rcond``, the pseudoinverse jumps and has none. With an ``rcond`` that cuts values
    which are not nearly 0 (above 1e-9), its second derivative at repeated singular
    values is NaN.
    """
    a = admit(a)
    if rcond is not None and rtol is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rcond is None and rtol is not None:
        rcond = rtol
    limit = None if rcond is None else float(value_of(rcond))
    return pseudoinverse(a, limit, hermitian)


# lstsq


def _lstsq_compute(a: Array, b: Array, *, rcond: float | None = None) -> Array:
    if len(a.shape) == 2 and len(b.shape) <= 2:
        return np.linalg.lstsq(a, b, rcond=rcond)[0]
    return np.linalg.pinv(a, rcond=_limit(a, rcond)) @ b


def _limit(a: Array, rcond: float | None) -> float:
    """Return the limit of `lstsq`, which is not that of `pinv` by default."""
    if rcond is None:
        eps = float(np.finfo(matrices(a).dtype).eps)
        return eps * float(max(shape_of(a)[-2:]))
    return rcond if rcond >= 0 else float(np.finfo(matrices(a).dtype).eps)


def _lstsq_infer(a: Array, b: Array, **_: Any) -> Spec:
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


def _lstsq_left(
    g: Array, y: Array, a: Array, b: Array, *, rcond: float | None = None
) -> Array:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    g, turned = conjugate(g), hermitian(inverse)
    shared = turned @ g
    rest = b - a @ y
    across = (turned @ y) @ hermitian(g - swap(conjugate(a)) @ shared)
    made = rest @ hermitian(inverse @ shared) - shared @ hermitian(y) + across
    return sum_to(conjugate(made), shape_of(a))


def _lstsq_right(
    g: Array, y: Array, a: Array, b: Array, *, rcond: float | None = None
) -> Array:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    return sum_to(swap(inverse) @ g, shape_of(b))


def _lstsq_push(
    tangents: tuple[Any, ...],
    y: Array,
    a: Array,
    b: Array,
    *,
    rcond: float | None = None,
) -> Array:
    inverse = np.linalg.pinv(a, rcond=_limit(a, rcond))
    moved_a, moved_b = tangents
    if moved_a is None:
        return inverse @ moved_b
    turned, back = hermitian(inverse), hermitian(moved_a)
    across = back @ (turned @ y)
    made = inverse @ (turned @ (back @ (b - a @ y)) - moved_a @ y) + across
    made = made - inverse @ (a @ across)
    return made if moved_b is None else made + inverse @ moved_b


def _lstsq_text(node: Tensor) -> tuple[str, Params]:
    a, b = node.inputs
    limit = node.params.get("rcond")
    if len(shape_of(a)) == 2 and len(shape_of(b)) <= 2:
        return "np.linalg.lstsq({0}, {1}, rcond={limit})[0]", {"limit": limit}
    return "np.linalg.pinv({0}, rcond={limit}) @ {1}", {"limit": _limit(a, limit)}


LSTSQ = op(
    "least_squares",
    _lstsq_compute,
    _lstsq_left,
    _lstsq_right,
    push=_lstsq_push,
    rule="that of x₀⁺ x₁ at constant rank   x₀⁺ᵀ g",
    template=_lstsq_text,
    reads=(0, 1, "y"),
    infer=_lstsq_infer,
    batch="whole",
    pattern=Reading(read_system),
    cure="The right side has as many rows as the matrix.",
    kind="matrix",
    condition="least squares",
)


def least_squares(a: Array, b: Array, rcond: float | None) -> Any:
    """Return the solution of least size; ``b`` a vector or a matrix."""
    params: Params = {} if rcond is None else {"rcond": rcond}
    if rcond is not None and _cuts(a, rcond):
        return cut(a, lambda top: rcond * top) @ b
    if len(shape_of(b)) == 1:
        return apply(LSTSQ, (a, b[:, None]), params)[..., 0]
    return apply(LSTSQ, (a, b), params)


def _lstsq_lengths(
    a: Array, b: Array, rcond: ArrayLike | None = None
) -> list[tuple[Any, ...]]:
    rows, columns = operand_shape(a)
    return [
        (columns, *operand_shape(b)[1:]), (None,), (), (smallest(rows, columns),),
    ]  # fmt: skip


@implements(np.linalg.lstsq, lengths=_lstsq_lengths)
def lstsq(
    a: Array, b: Array, rcond: ArrayLike | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution, residuals, rank and singular values.

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
def tensorsolve(a: Array, b: Array, axes: tuple[int, ...] | None = None) -> Array:
    """Solve ``tensordot(a, x, x.ndim) = b`` for ``x``, as NumPy does."""
    a, b = admit(a), admit(b)
    rank = len(shape_of(a))
    if axes is not None:
        last = [normal_axis(n, rank) for n in as_integers(axes)]
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
def tensorinv(a: Array, ind: int = 2) -> Array:
    """Return the inverse of an array as a linear map of its first ``ind`` axes."""
    a = admit(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = shape_of(a)
    first, last = shape[:ind], shape[ind:]
    matrix = np.reshape(a, (math.prod(first), math.prod(last)))
    return np.reshape(inv(matrix), (*last, *first))


# Determinants.
#
# A determinant is a polynomial of the entries, and so are its derivatives: the matrix
# of cofactors, and the second cofactors, products of all singular values but one and
# but two. They are right for singular matrices too, and so are those of all orders.


class SlogdetResult(NamedTuple):
    """What `numpy.linalg.slogdet` returns."""

    sign: Any
    logabsdet: Any


# The matrix of cofactors


def _products(sizes: Any) -> tuple[Any, Any, Any]:
    """Return products of the first values, of the last, and of all but one."""
    one = np.ones_like(sizes[..., :1])
    before = np.cumprod(np.concatenate([one, sizes[..., :-1]], axis=-1), axis=-1)
    turned = np.flip(sizes, -1)
    after = np.cumprod(np.concatenate([one, turned[..., :-1]], axis=-1), axis=-1)
    after = np.flip(after, -1)
    return before, after, before * after


#: Up to this rounding error per row of ``x⁻¹``, ``det x · x⁻ᵀ`` has as many digits as
#: singular values give, which take ten times as long.
TAME = 2e-13


def _by_inverse(x: Array) -> Array | None:
    """Return the cofactors by the inverse; None near a singular matrix."""
    if x.shape[-1] < 8 or not x.size:  # small ones gain nothing
        return None
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return None
    whole = np.linalg.det(x)
    size, limits = np.abs(whole), np.finfo(x.dtype)
    error = _largest_row(x) * _largest_row(inverse) * limits.eps
    tame = (error < TAME * x.shape[-1]) & (size > limits.tiny) & (size < limits.max)
    if not bool(np.all(tame)):
        return None
    return whole[..., None, None] * swap(inverse)


def _largest_row(x: Array) -> Array:
    """Return the norm of each matrix as a map between largest entries."""
    return np.max(np.sum(np.abs(x), axis=-1), axis=-1)


def _cofactor_compute(x: Array) -> Array:
    quick = _by_inverse(x)
    if quick is not None:
        return quick
    left, sizes, right = np.linalg.svd(x)
    others = _products(sizes)[2]
    sign = np.linalg.det(left) * np.linalg.det(right)
    product = (conjugate(left) * others[..., None, :]) @ conjugate(right)
    return sign[..., None, None] * product


# Determinants of small matrices, as they are written out

#: Determinants of matrices up to this length are written out.
MOST_WRITTEN = 3


def _list_entries(x: Any) -> list[list[Any]] | None:
    """Return the entries of matrices, each a stack; None if there are too many."""
    n = x.shape[-1]
    if n > MOST_WRITTEN or x.dtype.kind not in "fc":
        return None
    return [[x[..., i, j] for j in range(n)] for i in range(n)]


def _det_body(x: Any) -> Any:
    """Write a determinant along the first row."""
    rows = _list_entries(x)
    if rows is None:
        return None
    if len(rows) == 1:
        return rows[0][0]
    total = None
    for j, entry in enumerate(rows[0]):
        term = entry * _write_minor(rows, 0, j)
        total = term if total is None else total - term if j % 2 else total + term
    return total


def _write_minor(rows: list[list[Any]], i: int, j: int) -> Any:
    """Return the determinant without a row and a column: of 1 or 4 entries."""
    left = [row[:j] + row[j + 1 :] for k, row in enumerate(rows) if k != i]
    if len(left) == 1:
        return left[0][0]
    (a, b), (c, d) = left
    return a * d - b * c


def _cofactor_body(x: Any) -> Any:
    rows = _list_entries(x)
    if rows is None:
        return None
    if len(rows) == 1:
        return np.ones_like(x)
    made = [
        [
            -minor if (i + j) % 2 else minor
            for j in range(len(rows))
            for minor in (_write_minor(rows, i, j),)
        ]
        for i in range(len(rows))
    ]
    return np.stack([np.stack(row, axis=-1) for row in made], axis=-2)


def _read_minors(x: Array) -> Array:
    """Read all but the row and the column of each entry."""
    others = 1 - np.eye(shape_of(x)[-1])  # host array: factors of 0 and 1
    return others @ x @ others


COFACTOR = stacked(
    op(
        "cofactor",
        _cofactor_compute,
        lambda g, y, x: apply(ALONG, (x, g)),
        push=lambda t, y, x: apply(ALONG, (x, t[0])),
        rule="x⁻ᵀ (g · y) − x⁻ᵀ gᵀ y",
        helper='''\
def cofactor(x):
    """The derivative of det: all singular values but one multiply."""
    U, S, Vh = np.linalg.svd(x)
    others = np.where(np.eye(x.shape[-1], dtype=bool), 1, S[..., None, :])
    middle = np.prod(others, axis=-1)[..., None, :]
    sign = np.linalg.det(U) * np.linalg.det(Vh)
    return sign[..., None, None] * ((np.conj(U) * middle) @ np.conj(Vh))
''',
        reads=(0,),
        infer=square,
        unfold=_cofactor_body,
        pattern=Reading(_read_minors),
    )
)


# Its derivatives along t, along t and u, and so on: symmetric maps, polynomials of x.
# With x = U S Vᴴ, cofactors multiply, so for the first it is enough to move S by
# D = Uᴴ t V: an entry beside the diagonal becomes minus the product of all values but
# two, one on it a sum of such products.


def _first_along(x: Array, t: Array) -> Array:
    left, sizes, right = np.linalg.svd(x)
    inner = conjugate(swap(left)) @ t @ conjugate(swap(right))
    pairs = _all_but_two(sizes)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    kept = np.sum(pairs * diagonal[..., None, :], axis=-1)
    moved = eye_like(inner) * kept[..., None, :] - pairs * swap(inner)
    sign = np.linalg.det(left) * np.linalg.det(right)
    return sign[..., None, None] * (conjugate(left) @ moved @ conjugate(right))


def _all_but_two(sizes: Array) -> Array:
    """Return for i and j the product of all other values; 0 where i is j."""
    before, after, _ = _products(sizes)
    eye = eye_like(sizes)
    above = np.triu(np.ones_like(eye), 1)
    # Row i: the values after i, multiplied up; the last factor goes to `between`.
    values = np.where(above == 1, sizes[..., None, :], 1)
    running = np.cumprod(values, axis=-1)
    between = np.concatenate(
        [np.ones_like(running[..., :1]), running[..., :-1]], axis=-1
    )
    upper = above * before[..., :, None] * between * after[..., None, :]
    return upper + swap(upper)


def _second_along(x: Array, a: Array, b: Array) -> Array | None:
    """Return the second derivative of the cofactors; None near singular matrices."""
    cofactor = _by_inverse(x)
    if cofactor is None:
        return None
    turned = swap(np.linalg.inv(x))
    first = _first_along(x, b)
    moved = -(turned @ swap(b) @ turned)
    return (
        first * _traced(turned * a)
        + cofactor * _traced(moved * a)
        - moved @ swap(a) @ cofactor
        - turned @ swap(a) @ first
    )


def _traced(x: Array) -> Array:
    return np.sum(x, axis=(-2, -1), keepdims=True)


def _along_compute(x: Array, *directions: Any) -> Array:
    *others, last = directions
    if not others:
        return _first_along(x, last)
    degree = x.shape[-1] - len(directions)
    made = np.zeros_like(sum(directions, x))
    if degree < 1:
        return made
    quick = _second_along(x, *directions) if len(directions) == 2 else None
    if quick is not None:
        return quick
    # Along the last direction the others' derivative is a polynomial of this degree:
    # its values on a circle, as many as the degree, tell the coefficient.
    size, step = (np.max(np.abs(v), (-2, -1), keepdims=True) for v in (x, last))
    radius = np.where(size == 0, 1, size) / np.where(step == 0, 1, step)
    unit = last * radius
    for k in range(count := max(degree, 2)):
        turn = 1 - 2 * k if count == 2 else np.exp(2j * np.pi * k / count)
        value = _along_compute(x + turn * unit, *others)
        part = value / (turn * count * radius)
        made = made + (part if made.dtype.kind == "c" else np.real(part))
    return made


def _along_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    x, *directions = inputs
    passed = [apply(ALONG, (*inputs, g)) if mask & 1 else None]
    for i in range(len(directions)):
        rest = (*directions[:i], *directions[i + 1 :], g)
        passed.append(apply(ALONG, (x, *rest)) if mask >> i + 1 & 1 else None)
    return passed


def _along_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    total = None
    for i, t in enumerate(tangents):
        if t is not None:
            moved = (*inputs, t) if i == 0 else (*inputs[:i], t, *inputs[i + 1 :])
            term = apply(ALONG, moved)
            total = term if total is None else total + term
    return total


def _along_infer(x: Array, *directions: Any) -> Spec:
    spec = square(x)
    for t in directions:
        spec = broadcast(spec, as_spec(t).shape[:-2])
    return spec


ALONG: Op = declare("cofactor_along")
ALONG.pattern = "matrix"
ALONG.batch = "aligned"
ALONG.compute, ALONG.infer = _along_compute, _along_infer
ALONG.pull, ALONG.push = _along_pull, _along_push
ALONG.helper = '''\
def cofactor_along(x, *directions):
    """The derivative of the cofactors along each direction, a polynomial of x."""
    *others, t = directions
    n = x.shape[-1]
    if others:  # by values on a circle, as many as the polynomial's degree
        count, total = max(n - len(directions), 2), np.zeros_like(sum(directions, x))
        if n <= len(directions):
            return total
        size, step = (np.max(np.abs(v), (-2, -1), keepdims=True) for v in (x, t))
        radius = np.where(size == 0, 1, size) / np.where(step == 0, 1, step)
        for k in range(count):
            turn = 1 - 2 * k if count == 2 else np.exp(2j * np.pi * k / count)
            part = cofactor_along(x + turn * radius * t, *others)
            part = part / (turn * count * radius)
            total = total + (part if np.iscomplexobj(total) else np.real(part))
        return total
    U, S, Vh = np.linalg.svd(x)
    others = np.zeros_like(S, shape=(*S.shape, n))
    for i, j in np.ndindex(n, n):
        if i != j:
            others[..., i, j] = np.prod(np.delete(S, [i, j], -1), axis=-1)
    turned = np.conj(np.swapaxes(U, -1, -2)) @ t @ np.conj(np.swapaxes(Vh, -1, -2))
    on = np.einsum("...ij,...jj->...i", others, turned)[..., None, :]
    middle = on * np.eye(n, dtype=S.dtype) - others * np.swapaxes(turned, -1, -2)
    sign = np.linalg.det(U) * np.linalg.det(Vh)
    return sign[..., None, None] * (np.conj(U) @ middle @ np.conj(Vh))
'''
ALONG.rule = "the next derivative of det(x₀), along g too"


# det

DET = stacked(
    op(
        "det",
        np.linalg.det,
        lambda g, y, x: g[..., None, None] * apply(COFACTOR, (x,)),
        push=lambda t, y, x: np.sum(t[0] * apply(COFACTOR, (x,)), axis=(-2, -1)),
        rule="g · cofactors of x",
        reads=(0,),
        infer=reduced,
        unfold=_det_body,
        condition="determinant",
        grows=True,
    )
)


@implements(np.linalg.det)
def det(a: Array) -> Array:
    """Return determinants; their derivatives are right for singular matrices too."""
    return apply(DET, (admit(a),))


# slogdet


def _logabsdet_infer(x: Array) -> Spec:
    spec = reduced(x)
    return Spec(spec.shape, real_dtype(spec.dtype))


def _slope_of_log(x: Array) -> Array:
    """Return the transposed inverse: the derivative of ``log det``."""
    try:
        return swap(np.linalg.inv(x))
    except np.linalg.LinAlgError as error:
        raise MatrixError(
            "the matrix is singular: the logarithm of its determinant is -inf there,"
            " and has no derivative. Write np.linalg.det(x), whose derivatives are"
            " right for singular matrices too, or add a small multiple of np.eye(n)."
        ) from error


LOGABSDET = stacked(
    op(
        "logabsdet",
        lambda x: np.linalg.slogdet(x)[1],
        lambda g, y, x: g[..., None, None] * _slope_of_log(x),
        push=lambda t, y, x: np.sum(t[0] * _slope_of_log(x), axis=(-2, -1)),
        rule="g · x⁻ᵀ",
        template="np.linalg.slogdet({0})[1]",
        reads=(0,),
        infer=_logabsdet_infer,
        condition="determinant",
    )
)


def _sign_pull(g: Array, y: Array, x: Array) -> Cotangent:
    if dtype_of(x).kind != "c":
        return None
    return 1j * np.imag(g * y)[..., None, None] * _slope_of_log(x)


def _sign_push(tangents: tuple[Any, ...], y: Array, x: Array) -> Array:
    if dtype_of(x).kind != "c":
        return np.zeros_like(y)
    moved = np.sum(tangents[0] * _slope_of_log(x), axis=(-2, -1))
    return 1j * y * np.imag(moved)


SIGN = stacked(
    op(
        "sign_of_det",
        lambda x: np.linalg.slogdet(x)[0],
        _sign_pull,
        push=_sign_push,
        rule="0, or i Im(g y) x⁻ᵀ for a complex matrix, whose sign turns",
        template="np.linalg.slogdet({0})[0]",
        reads=(0, "y"),
        infer=reduced,
    )
)


@implements(np.linalg.slogdet)
def slogdet(a: Array) -> SlogdetResult:
    """Return the sign or phase of a determinant, and the logarithm of its size.

    Raises
    ------
    MatrixError
        Where a derivative is asked for of a singular matrix, whose logarithm is -inf.
    """
    a = admit(a)
    return SlogdetResult(apply(SIGN, (a,)), apply(LOGABSDET, (a,)))
