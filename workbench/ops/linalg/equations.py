"""Sylvester's equation and banded systems, by SciPy.

The solution of ``A X + X B = Q`` is linear in Q, and so is that of a banded system in
its right side: the transposed equation passes the cotangent back, as for `solve`
(M. B. Giles, "An extended collection of matrix derivative results for forward and
reverse mode AD", 2008, section 2.3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from workbench.core.broadcasting import broadcast_shapes, meet
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec
from workbench.ops.contraction import product_dtype, swap
from workbench.ops.define import aligned, shape_of, sum_to
from workbench.ops.linalg.shared import Batched, Params, matrices, square

__all__ = ["banded", "sylvester"]


# A X + X B = Q


def _sylvester_infer(a: Any, b: Any, q: Any) -> Spec:
    left, right, whole = square(a), square(b), matrices(q)
    if whole.shape[-2:] != (left.shape[-1], right.shape[-1]):
        raise ValueError(
            f"q of shape {whole.shape} does not have {left.shape[-1]} rows and"
            f" {right.shape[-1]} columns"
        )
    loop = broadcast_shapes(left.shape[:-2], right.shape[:-2], whole.shape[:-2])
    return Spec((*loop, *whole.shape[-2:]), product_dtype(left, right, whole))


def _sylvester_lengths(a: Any, b: Any, q: Any) -> Spec:
    left, right, whole = matrices(a), matrices(b), matrices(q)
    rows = meet(whole.shape[-2], meet(*left.shape[-2:]))
    columns = meet(whole.shape[-1], meet(*right.shape[-2:]))
    loop = broadcast_shapes(left.shape[:-2], right.shape[:-2], whole.shape[:-2])
    return Spec((*loop, rows, columns), product_dtype(left, right, whole))


def _sylvester_compute(a: Any, b: Any, q: Any) -> Any:
    spec = _sylvester_infer(a, b, q)
    if 0 in spec.shape:  # SciPy takes no stack of no matrices
        return np.zeros_like(q, dtype=spec.dtype, shape=spec.shape)
    if "c" in (a.dtype.kind, b.dtype.kind, q.dtype.kind):
        # SciPy takes the real Schur form of a real matrix, whose blocks of two its
        # complex solver does not see: a wrong solution without a word.
        a, b = (x.astype(np.result_type(x, np.complex64)) for x in (a, b))
    return scipy.linalg.solve_sylvester(a, b, q)


def _sylvester_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    a, b, q = inputs
    back = sylvester(swap(a), swap(b), g)
    return [
        sum_to(-(back @ swap(y)), shape_of(a)) if mask & 1 else None,
        sum_to(-(swap(y) @ back), shape_of(b)) if mask & 2 else None,
        sum_to(back, shape_of(q)) if mask & 4 else None,
    ]


def _sylvester_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    moved_a, moved_b, moved = tangents
    for term in (
        None if moved_a is None else -(moved_a @ y),
        None if moved_b is None else -(y @ moved_b),
    ):
        if term is not None:
            moved = term if moved is None else moved + term
    return sylvester(inputs[0], inputs[1], moved)


def _sylvester_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
    return apply(SYLVESTER, aligned(inputs, batched), params)


SYLVESTER = declare("solve_sylvester")
SYLVESTER.compute, SYLVESTER.infer = _sylvester_compute, _sylvester_infer
SYLVESTER.lengths = _sylvester_lengths
SYLVESTER.pull, SYLVESTER.push = _sylvester_pull, _sylvester_push
SYLVESTER.batch = _sylvester_batch
SYLVESTER.rule = "−z yᵀ   −yᵀ z   z, with x₀ᵀ z + z x₁ᵀ = g"
SYLVESTER.reads = (0, 1, "y")
SYLVESTER.cure = "a and b are square; q has the rows of a and the columns of b."


def sylvester(a: Any, b: Any, q: Any) -> Any:
    """The solution of ``a x + x b = q``."""
    return apply(SYLVESTER, (a, b, q))


# Banded systems: entry i, j of the matrix stands in row upper + i - j of the band


def _banded_compute(ab: Any, b: Any, *, lower: int, upper: int) -> Any:
    return scipy.linalg.solve_banded((lower, upper), ab, b, check_finite=False)


def _banded_infer(ab: Any, b: Any, *, lower: int, upper: int) -> Spec:
    band, right = matrices(ab), matrices(b)
    if band.shape[-2:] != (lower + upper + 1, right.shape[-2]):
        raise ValueError(
            f"a band of shape {band.shape} for a right side of {right.shape[-2]} rows"
            f" must have shape {(lower + upper + 1, right.shape[-2])}"
        )
    return Spec(right.shape, product_dtype(band, right))


def _shifts(rows: int, lower: int, n: int) -> tuple[Any, Any]:
    """For each row of a band and column the row of the matrix, and if it is inside."""
    ahead = np.arange(rows)[:, None] - lower  # host array: an index
    index = ahead + np.arange(n)  # host array: an index
    return np.clip(index, 0, max(n - 1, 0)), (index >= 0) & (index < n)


def _transposed(ab: Any, lower: int) -> Any:
    """The band of the transposed matrix."""
    rows, n = shape_of(ab)
    columns, inside = _shifts(rows, lower, n)
    own = np.arange(rows)[:, None]  # host array: an index
    return np.where(inside, np.flip(ab, 0)[own, columns], 0)


def _banded_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    ab, _ = inputs
    lower, upper = params["lower"], params["upper"]
    back = banded(_transposed(ab, lower), g, upper, lower)
    made = None
    if mask & 1:
        rows, n = shape_of(ab)
        index, inside = _shifts(rows, upper, n)
        made = np.where(inside, -np.sum(back[index] * y, axis=-1), 0)
    return [made, back]


BANDED = declare("solve_banded")
BANDED.compute, BANDED.infer, BANDED.pull = _banded_compute, _banded_infer, _banded_pull
BANDED.rule, BANDED.reads = "−(x₀⁻ᵀ g) yᵀ on the band   x₀⁻ᵀ g", (0, "y")
BANDED.cure = "The band has a row for each diagonal; the right side is a matrix."


def banded(ab: Any, b: Any, lower: int, upper: int) -> Any:
    """The solution of a banded system; ``b`` is a matrix."""
    return apply(BANDED, (ab, b), {"lower": lower, "upper": upper})
