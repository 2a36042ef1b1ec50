"""Singular values and vectors.

Formulas: J. Townsend, "Differentiating the singular value decomposition" (2016);
for complex matrices Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for
complex valued SVD" (2019). With ``P = Uᴴ dA V`` the turns of both bases are
``Uᴴ dU = (K + L) / 2`` and ``Vᴴ dV = (K - L) / 2``, where
``K = (P + Pᴴ) / (sⱼ - sᵢ)`` beside the diagonal and ``L = (P - Pᴴ) / (sⱼ + sᵢ)``: only
K knows of values that are equal. The phase of a pair of complex vectors, which the
matrix leaves open, is the one that does not turn ``U`` and ``V`` together.

Values that are equal. Singular values have a derivative wherever what is made of them
is symmetric in those that are equal, and it is right there. Vectors of a repeated
value are not determined, and what is not either gets NaN, never a wrong number:
a cotangent that sees the choice of vectors, and one that uses both the vectors
and the values (the missing part depends on how the two go together). What uses
vectors alone, and is the same for every choice, such as the projector ``U @ U.T`` or
``U @ Vh``, is right in reverse mode; forward mode has NaN in these vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Spec, value_spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import swap
from workbench.ops.define import op, shape_of
from workbench.ops.linalg.shared import (
    Params,
    broadcast,
    complete,
    eye_like,
    hermitian,
    largest,
    matrices,
    noise,
    quotient,
    real_dtype,
    stacked,
)
from workbench.ops.several import several

__all__ = ["SVDResult", "singular_values", "svd", "svdvals"]


class SVDResult(NamedTuple):
    """What `numpy.linalg.svd` returns."""

    U: Any
    S: Any
    Vh: Any


def _thin(x: Any) -> Any:
    """U, s and V."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return u, s, hermitian(vh)


class Gaps(NamedTuple):
    """Differences and sums of singular values, and where they vanish."""

    minus: Any
    plus: Any
    #: Pairs of equal values, those with themselves too.
    equal: Any
    #: Pairs of values that are both 0.
    none: Any
    #: Values that are 0, as a row.
    zero: Any
    #: Pairs of two.
    apart: Any


def _gaps(s: Any) -> Gaps:
    row, column = s[..., None, :], s[..., :, None]
    minus, plus = row - column, row + column
    limit = noise(row, 8)
    apart = eye_like(s) == 0
    zero = row <= limit
    return Gaps(minus, plus, np.abs(minus) <= limit, plus <= 2 * limit, zero, apart)


# svdvals, and what its derivative is made of


def _values_infer(x: Any, **_: Any) -> Spec:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    return Spec((*loop, min(rows, columns)), real_dtype(spec.dtype))


def _kinked(weight: Any, s: Any) -> Any:
    """Weights of singular values, 0 for those that are 0: they have a kink there."""
    limit = noise(s[..., None, :], 8)[..., 0]
    return np.where(s <= limit, 0, weight)


SVDVALS = stacked(
    op(
        "svdvals",
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda g, y, x: conjugate(_between(x, _kinked(g, y))),
        push=lambda t, y, x: _kinked(_diagonal_of(t[0], x), y),
        rule="U diag(g) Vᴴ",
        reads=(0, "y"),
        infer=_values_infer,
    )
)


def _diagonal_of(t: Any, x: Any) -> Any:
    """The real diagonal of ``Uᴴ t V``."""
    u, _, v = _thin(x)
    return np.real(np.sum(conjugate(u) * (t @ v), axis=-2))


def singular_values(x: Any) -> Any:
    """The singular values of a stack of matrices, descending."""
    return apply(SVDVALS, (x,))


# U diag(w) Vᴴ of a matrix x and weights w. A pair of equal values with equal weights
# stays what it is if the weights do not vary; if they do, the derivative depends
# on how they go with the values, which is not known here: NaN.


def _between_compute(x: Any, w: Any) -> Any:
    u, _, v = _thin(x)
    return (u * w[..., None, :]) @ hermitian(v)


def _turned(inner: Any, w: Any, gaps: Gaps, varies: bool) -> Any:
    """``Uᴴ dy V`` for ``Uᴴ dx V``, at fixed weights; it is its own transpose."""
    row, column = w[..., None, :], w[..., :, None]
    back = hermitian(inner)
    whole, turn = (inner + back) / 2, (inner - back) / 2
    step, total = row - column, row + column
    wrong = np.abs(step * whole) > noise(row) * largest(whole)
    if varies:
        wrong = wrong | (np.abs(whole) > noise(inner))
    wrong, odd = wrong & gaps.apart, np.abs(total * turn) > noise(row) * largest(inner)
    return whole * quotient(step, gaps.minus, gaps.equal, wrong) + (
        turn * quotient(total, gaps.plus, gaps.none, odd)
    )


def _between_moved(t: Any, x: Any, w: Any, varies: bool) -> Any:
    """The change of ``U diag(w) Vᴴ`` along ``t``, at fixed weights."""
    u, s, v = _thin(x)
    gaps = _gaps(s)
    left, right = t @ v, hermitian(u) @ t
    inner = right @ v
    made = u @ _turned(inner, w, gaps, varies) @ hermitian(v)
    rows, columns = shape_of(x)[-2:]
    row = w[..., None, :]
    slope = quotient(row, s[..., None, :], gaps.zero, np.abs(row) > noise(row))
    if rows > columns:
        made = made + ((left - u @ inner) * slope) @ hermitian(v)
    if columns > rows:
        made = made + (u * slope) @ (right - inner @ hermitian(v))
    return made


def _between_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    x, w = inputs
    g = conjugate(g)
    moved = _between_moved(g, x, w, bool(mask & 2)) if mask & 1 else None
    return [
        None if moved is None else conjugate(moved),
        _diagonal_of(g, x) if mask & 2 else None,
    ]


def _between_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
    x, w = inputs
    total = None
    if tangents[0] is not None:
        total = _between_moved(tangents[0], x, w, tangents[1] is not None)
    if tangents[1] is not None:
        term = _between(x, tangents[1])
        total = term if total is None else total + term
    return total


BETWEEN: Op = stacked(
    op(
        "singular_weights",
        _between_compute,
        infer=lambda x, w: broadcast(matrices(x), value_spec(w).shape[:-1]),
    )
)
BETWEEN.pull, BETWEEN.push = _between_pull, _between_push
BETWEEN.rule, BETWEEN.reads = "(K ∘ Uᴴ g V) between U and Vᴴ   diag(Uᴴ g V)", (0, 1)


def _between(x: Any, w: Any) -> Any:
    return apply(BETWEEN, (x, w))


# svd


def _svd_infer(x: Any, *, full_matrices: bool = True, hermitian: bool = False) -> Any:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    few = min(rows, columns)
    tall, wide = (rows, columns) if full_matrices else (few, few)
    return (
        Spec((*loop, rows, tall), spec.dtype),
        Spec((*loop, few), real_dtype(spec.dtype)),
        Spec((*loop, wide, columns), spec.dtype),
    )


def _svd_compute(x: Any, **params: Any) -> Any:
    return tuple(np.linalg.svd(x, **params))


def _narrowed(g: Any, whole: Any, few: int) -> Any:
    """The cotangent of the first columns of a square basis; the others complete it.

    What is orthogonal to the first columns turns as they do: ``dW = -U dUᴴ W``.
    """
    first, last = whole[..., :few], whole[..., few:]
    if g is None or shape_of(whole)[-1] == few:
        return g
    return g[..., :few] - last @ (hermitian(g[..., few:]) @ first)


def _svd_pull(g: Any, y: Any, x: Any, **_: Any) -> Any:
    few = min(shape_of(x)[-2:])
    u, s, v = y[0], y[1], hermitian(y[2])
    to_u = None if g[0] is None else _narrowed(conjugate(g[0]), u, few)
    to_v = None if g[2] is None else _narrowed(swap(g[2]), v, few)
    u, v, inner = u[..., :few], v[..., :few], None
    if to_u is None and to_v is None:
        return conjugate((u * g[1][..., None, :]) @ hermitian(v))
    gaps = _gaps(s)
    left = None if to_u is None else hermitian(u) @ to_u
    right = None if to_v is None else hermitian(v) @ to_v
    both = _sum(left, right)
    across = left if right is None else -right if left is None else left - right
    floor = noise(both) if left is None or right is None else noise(left) + noise(right)
    turn = (both - hermitian(both)) / 2
    wrong = np.abs(turn) > floor
    if g[1] is not None:
        row = g[1][..., None, :]
        own = row - g[1][..., :, None]
        wrong = wrong | (np.abs(both) > floor) | (np.abs(own) > noise(row))
    inner = quotient(turn, gaps.minus, gaps.equal, wrong & gaps.apart)
    anti = (across - hermitian(across)) / 2
    inner = inner + quotient(anti, gaps.plus, gaps.none, np.abs(anti) > floor)
    if g[1] is not None:
        inner = inner + eye_like(inner) * g[1][..., None, :]
    made = u @ inner @ hermitian(v)
    rows, columns = shape_of(x)[-2:]
    if to_u is not None and rows > few:
        rest = to_u - u @ left
        made = made + _over(rest, s, gaps, floor) @ hermitian(v)
    if to_v is not None and columns > few:
        rest = to_v - v @ right
        made = made + u @ hermitian(_over(rest, s, gaps, floor))
    return conjugate(made)


def _over(rest: Any, s: Any, gaps: Gaps, floor: Any) -> Any:
    return quotient(rest, s[..., None, :], gaps.zero, np.abs(rest) > floor)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _svd_push(tangents: tuple[Any, ...], y: Any, x: Any, **_: Any) -> Any:
    few = min(shape_of(x)[-2:])
    whole_u, s, whole_v = y[0], y[1], hermitian(y[2])
    u, v, t = whole_u[..., :few], whole_v[..., :few], tangents[0]
    gaps = _gaps(s)
    left, right = t @ v, hermitian(t) @ u
    inner = hermitian(u) @ left
    back = hermitian(inner)
    floor = noise(t)
    both, anti = inner + back, inner - back
    k = quotient(both, gaps.minus, gaps.equal, gaps.apart & (np.abs(both) > floor))
    m = quotient(anti, gaps.plus, gaps.none, np.abs(anti) > floor)
    du, dv = u @ (k + m) / 2, v @ (k - m) / 2
    if shape_of(x)[-2] > few:
        du = du + _over(left - u @ inner, s, gaps, floor)
    if shape_of(x)[-1] > few:
        dv = dv + _over(right - v @ back, s, gaps, floor)
    ds = np.real(np.diagonal(inner, axis1=-2, axis2=-1))
    return _widened(du, whole_u, few), ds, hermitian(_widened(dv, whole_v, few))


def _widened(moved: Any, whole: Any, few: int) -> Any:
    """The tangent of a square basis from that of its first columns."""
    if shape_of(whole)[-1] == few:
        return moved
    first, last = whole[..., :few], whole[..., few:]
    return np.concatenate([moved, -(first @ (hermitian(moved) @ last))], axis=-1)


SVD = stacked(
    op(
        "svd",
        _svd_compute,
        _svd_pull,
        push=_svd_push,
        rule="U (turns of U and V over the gaps of s + diag(g of s)) Vᴴ",
        reads=("y",),
        infer=_svd_infer,
    )
)


@implements(np.linalg.svd)
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Any:
    """`numpy.linalg.svd`: ``U``, ``S``, ``Vh``, or the singular values alone.

    What depends on the vectors of a repeated singular value has NaN where it is
    not determined; the docstring of this module says when. A singular value that is
    0 moves with its vectors as if it could be negative, so that what is made of all
    three is right there (in `svdvals` it has a kink, and gradient 0). The columns that
    ``full_matrices`` adds are any basis of what is left, and move as the one that
    turns least.
    """
    a = admit(a)
    if hermitian:
        a = complete(a, lower=True)
    if not compute_uv:
        return singular_values(a)
    params: Params = {"full_matrices": full_matrices}
    if hermitian:
        params["hermitian"] = True
    return SVDResult(*several(SVD, (a,), params))


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """`numpy.linalg.svdvals`; right for symmetric functions of equal values."""
    return singular_values(admit(x))
