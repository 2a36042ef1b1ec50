"""Products written with others: `dot`, `inner`, `outer`, `kron`, `cross`, chains."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame
from workbench.core.deferred import operand_shape
from workbench.core.op import CALLS, implements
from workbench.core.tensor import admit
from workbench.core.tree import is_sparse
from workbench.core.types import Array, Axis, Shape
from workbench.ops.define import shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.shaping import lay_like, lay_out, moveaxis


@implements(np.dot)
def dot(a: Array, b: Array, out: None = None) -> Array:
    """Sum products over the last axis of ``a`` and the last but one of ``b``."""
    if is_sparse(a) or is_sparse(b):
        return a @ b
    a, b = admit(a), admit(b)
    ranks = len(shape_of(a)), len(shape_of(b))
    if not all(ranks):
        return a * b
    if ranks[1] <= 2:
        return a @ b
    return np.tensordot(a, b, (-1, -2))


@implements(np.inner)
def inner(a: Array, b: Array, /) -> Array:
    """Sum products over the last axes, as `numpy.inner` does."""
    a, b = admit(a), admit(b)
    if not shape_of(a) or not shape_of(b):
        return a * b
    if len(shape_of(b)) == 1:
        return a @ b
    return np.tensordot(a, b, (-1, -1))


@implements(np.outer)
def outer(a: Array, b: Array, out: None = None) -> Array:
    """Multiply each entry of ``a`` by each entry of ``b``, as `numpy.outer` does."""
    return np.reshape(admit(a), (-1, 1)) * np.reshape(admit(b), (1, -1))


@implements(np.linalg.outer)
def vector_outer(x1: Array, x2: Array, /) -> Array:
    """Return the outer product of two vectors, as `numpy.linalg.outer` does."""
    ranks = len(shape_of(x1 := admit(x1))), len(shape_of(x2 := admit(x2)))
    if ranks != (1, 1):
        raise ValueError(
            f"np.linalg.outer{blame.user_line()}: Input arrays must be one-dimensional,"
            f" not of {ranks[0]} and {ranks[1]} axes"
        )
    return outer(x1, x2)


@implements(np.vdot)
def vdot(a: Array, b: Array, /) -> Array:
    """Sum the products of all entries, the first operand's conjugated."""
    return conjugate(np.ravel(admit(a))) @ np.ravel(admit(b))


@implements(np.linalg.matmul)
def matmul(x1: Array, x2: Array, /) -> Array:
    """Multiply matrices, as ``@`` does."""
    return admit(x1) @ admit(x2)


@implements(np.linalg.vecdot)
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Sum products along an axis, the first operand's conjugated."""
    a: Any = admit(x1)
    b: Any = admit(x2)
    a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    return np.einsum("...i,...i->...", conjugate(a), b)


CALLS[np.vecdot] = vecdot
CALLS[np.matvec] = lambda a, b: lay_out(np.einsum("...ij,...j->...i", a, b), "C")
CALLS[np.vecmat] = lambda a, b: lay_out(
    np.einsum("...i,...ij->...j", conjugate(a), b), "C"
)


@implements(np.kron)
def kron(a: Array, b: Array) -> Array:
    """Return the Kronecker product, as `numpy.kron` does."""
    a, b = admit(a), admit(b)
    rank = max(len(shape_of(a)), len(shape_of(b)))
    left, right = ((1,) * (rank - len(s)) + s for s in (shape_of(a), shape_of(b)))
    tall = [n for pair in zip(left, (1,) * rank, strict=True) for n in pair]
    wide = [n for pair in zip((1,) * rank, right, strict=True) for n in pair]
    blocks = np.reshape(a, tall) * np.reshape(b, wide)
    return np.reshape(blocks, tuple(m * n for m, n in zip(left, right, strict=True)))


@implements(np.cross)
def cross(
    a: Array,
    b: Array,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Return cross products; a vector of length 2 has a third entry 0."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = admit(a), admit(b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    lengths = shape_of(a)[-1], shape_of(b)[-1]
    if lengths == (2, 2):  # only the third entry is left
        return lay_out(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], "C")
    if not {2, 3}.issuperset(lengths):
        raise ValueError(
            f"np.cross{blame.user_line()}: vectors of length {lengths[0]} and"
            f" {lengths[1]}; both must have length 3 (or 2)"
        )
    a, b = (
        np.concatenate([v, np.zeros_like(v[..., :1])], -1) if n == 2 else v
        for v, n in zip((a, b), lengths, strict=True)
    )
    ahead, behind = [1, 2, 0], [2, 0, 1]
    y = np.take(a, ahead, -1) * np.take(b, behind, -1)
    y = y - np.take(a, behind, -1) * np.take(b, ahead, -1)
    return moveaxis(lay_out(y, "C"), -1, axisc)


@implements(np.linalg.cross)
def vector_cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return the cross products of vectors of length 3."""
    if {shape_of(admit(x))[axis] for x in (x1, x2)} != {3}:
        raise ValueError(
            f"np.linalg.cross{blame.user_line()}: both inputs must be vectors of length"
            f" 3 along axis {axis}"
        )
    return cross(x1, x2, axis=axis)


def _multi_dot_lengths(arrays: Sequence[Array], **settings: Any) -> Shape:
    first, *_, last = map(operand_shape, arrays)
    return (*first[:-1], *last[1:])


@implements(np.linalg.multi_dot, lengths=_multi_dot_lengths)
def multi_dot(arrays: Sequence[Array], *, out: None = None) -> Array:
    """Multiply several matrices, the longest inner axis first."""
    arrays = list(map(admit, arrays))
    if len(arrays) < 2:
        raise ValueError(
            f"np.linalg.multi_dot{blame.user_line()}: Expecting at least two arrays."
        )
    lengths = [shape_of(x)[0] for x in arrays] + [shape_of(arrays[-1])[-1]]
    lengths[0] = 1 if len(shape_of(arrays[0])) == 1 else lengths[0]
    lengths[-1] = 1 if len(shape_of(arrays[-1])) == 1 else lengths[-1]
    while len(arrays) > 1:
        # The longest inner axis goes first: the greedy order, best for three.
        at = max(range(1, len(arrays)), key=lambda i: lengths[i])
        arrays[at - 1 : at + 1] = [arrays[at - 1] @ arrays[at]]
        del lengths[at]
    return arrays[0]


@implements(np.linalg.matrix_power)
def matrix_power(a: Array, n: int) -> Array:
    """Raise a matrix to a whole power, by repeated squaring."""
    n = operator.index(n)
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 0:
        identity: Any = np.identity
        ones = identity(shape_of(a)[-1], a.dtype, like=a)
        return lay_like(np.zeros_like(a) + ones, a)
    factors = []
    while n:
        if n & 1:
            factors.append(a)
        n >>= 1
        if n:
            a = a @ a
    return reduce(operator.matmul, factors)


# Products that leave zeros out


def mul_without_zeros(a: Array, b: Array) -> Array:
    """Multiply entry by entry; a factor that is 0 counts as 1.

    What counts as 1 does not vary: its derivative is 0, that of the other factor 1.

    Examples
    --------
    >>> import numpy as np
    >>> mul_without_zeros(np.array([0.0, 2.0, 3.0]), np.array([5.0, 0.0, 4.0]))
    array([ 5.,  2., 12.])
    """
    a, b = admit(a), admit(b)
    left, right = np.equal(a, 0), np.equal(b, 0)
    product = np.where(left, 1, a) * np.where(right, 1, b)
    return np.where(left & right, 0, product)


def prod_without_zeros(
    a: Array,
    axis: Axis = None,
    dtype: npt.DTypeLike | None = None,
    keepdims: bool = False,
) -> Array:
    """Return the product of all entries that are not 0; 1 if there is none.

    An entry that is 0 is left out and does not vary: its derivative is 0. That of
    another is the product of those that are left.

    Parameters
    ----------
    a
        An array or Tensor.
    axis
        The axis, or tuple of axes; all by default.
    dtype
        The dtype to multiply in.
    keepdims
        Keep the reduced axes with length 1.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> float(prod_without_zeros(np.array([2.0, 0.0, 3.0])))
    6.0
    >>> wb.grad(prod_without_zeros)(np.array([2.0, 0.0, 3.0]))
    array([3., 0., 2.])
    """
    a = admit(a)
    kept = np.where(np.equal(a, 0), np.ones_like(a), a)
    return np.prod(kept, axis=axis, dtype=dtype, keepdims=keepdims)
