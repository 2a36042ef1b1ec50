"""Singular values, and their vectors.

Formulas: J. Townsend, "Differentiating the singular value decomposition" (2016); for
complex matrices Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex
valued SVD" (2019). With ``P = Uᴴ dA V`` the turns of both bases are ``Uᴴ dU = (K + L)
/ 2`` and ``Vᴴ dV = (K - L) / 2``, where ``K = (P + Pᴴ) / (sⱼ - sᵢ)`` beside the
diagonal and ``L = (P - Pᴴ) / (sⱼ + sᵢ)``: only K knows of values that are equal. The
phase of a pair of complex vectors, which the matrix leaves open, is the one that does
not turn ``U`` and ``V`` together.

Values that are equal, or 0. Singular values have a derivative wherever what is made of
them is symmetric in those that are equal, and it is right there. The vectors of a
repeated value are not determined; what is made of them, and of the values, and is the
same for every choice, is right in both modes (`autodiff/limits.py`), and what is not
gets NaN, never a wrong number. A value that is 0 moves with its vectors as if it could
be negative. The second derivative of what is made of both is NaN there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.dims import smallest
from workbench.core.op import Limit, Op, Reading, implements
from workbench.core.tensor import admit, apply
from workbench.core.traits import Basis
from workbench.core.types import Array, Cotangent, Params, Spec, Tangent, as_spec
from workbench.ops.contraction import swap
from workbench.ops.define import Parts, apply_and_split, dtype_of, op, shape_of
from workbench.ops.device import on_cupy
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg.shared import (
    average_equal,
    broadcast,
    complete,
    draw_turn,
    eye_like,
    hermitian,
    largest,
    matrices,
    noise,
    quotient,
    real_dtype,
    stacked,
    turn_of,
)


class SVDResult(NamedTuple):
    """What `numpy.linalg.svd` returns."""

    U: Any
    S: Any
    Vh: Any


def _thin_svd(x: Array) -> tuple[Array, Array, Array]:
    """Return U, s and V of the thin decomposition."""
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
    #: The values as a row; None: those that the gaps are of.
    row: Any = None


def _gaps(s: Array) -> Gaps:
    row, column = s[..., None, :], s[..., :, None]
    minus, plus = row - column, row + column
    limit = noise(row, 8)
    apart = eye_like(s) == 0
    zero = row <= limit
    return Gaps(minus, plus, np.abs(minus) <= limit, plus <= 2 * limit, zero, apart)


# svdvals, and what its derivative is made of


def _values_infer(x: Array, **_: Any) -> Spec:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    return Spec((*loop, smallest(rows, columns)), real_dtype(spec.dtype))


def _zero_at_kinks(weight: Any, s: Array) -> Array:
    """Set weights to 0 at singular values of 0, where the derivative has a kink."""
    limit = noise(s[..., None, :], 8)[..., 0]
    return np.where(s <= limit, 0, weight)


SVDVALS = stacked(
    op(
        "svdvals",
        lambda x: np.linalg.svd(x, compute_uv=False),
        lambda g, y, x: conjugate(apply_singular_weights(x, _zero_at_kinks(g, y))),
        push=lambda t, y, x: _zero_at_kinks(_singular_diagonal(t[0], x), y),
        rule="U diag(g) Vᴴ",
        reads=(0, "y"),
        infer=_values_infer,
        length=True,
    )
)


def _singular_diagonal(t: Array, x: Array) -> Array:
    """Return the real diagonal of ``Uᴴ t V``."""
    u, _, v = _thin_svd(x)
    return np.real(np.sum(conjugate(u) * (t @ v), axis=-2))


def singular_values(x: Array) -> Array:
    """Return the singular values of a stack of matrices, descending."""
    return apply(SVDVALS, (x,))


# U diag(w) Vᴴ of a matrix x and weights w. A pair of equal values with equal weights
# stays what it is if the weights do not vary; if they do, the derivative depends
# on how they go with the values, which is not known here: NaN.


def _between_compute(x: Array, w: Array) -> Array:
    u, _, v = _thin_svd(x)
    return (u * w[..., None, :]) @ hermitian(v)


def _turn_basis(inner: Any, w: Array, gaps: Gaps, varies: bool) -> Array:
    """Return ``Uᴴ dy V`` for ``Uᴴ dx V`` at fixed weights; self-adjoint."""
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


def _between_moved(t: Array, x: Array, w: Array, varies: bool) -> Array:
    """Return the change of ``U diag(w) Vᴴ`` along ``t``, at fixed weights."""
    u, s, v = _thin_svd(x)
    gaps = _gaps(s)
    left, right = t @ v, hermitian(u) @ t
    inner = right @ v
    made = u @ _turn_basis(inner, w, gaps, varies) @ hermitian(v)
    rows, columns = shape_of(x)[-2:]
    row = w[..., None, :]
    slope = quotient(row, s[..., None, :], gaps.zero, np.abs(row) > noise(row))
    if rows > columns:
        made = made + ((left - u @ inner) * slope) @ hermitian(v)
    if columns > rows:
        made = made + (u * slope) @ (right - inner @ hermitian(v))
    return made


def _between_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    x, w = inputs
    g = conjugate(g)
    moved = _between_moved(g, x, w, bool(mask & 2)) if mask & 1 else None
    return [
        None if moved is None else conjugate(moved),
        _singular_diagonal(g, x) if mask & 2 else None,
    ]


def _between_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    x, w = inputs
    total = None
    if tangents[0] is not None:
        total = _between_moved(tangents[0], x, w, tangents[1] is not None)
    if tangents[1] is not None:
        term = apply_singular_weights(x, tangents[1])
        total = term if total is None else total + term
    return total


BETWEEN: Op = stacked(
    op(
        "singular_weights",
        _between_compute,
        infer=lambda x, w: broadcast(matrices(x), as_spec(w).shape[:-1]),
        helper='''\
def singular_weights(x, w):
    """The matrix with the singular vectors of x and the singular values w."""
    U, _, Vh = np.linalg.svd(x, full_matrices=False)
    return (U * w[..., None, :]) @ Vh
''',
    )
)
BETWEEN.pull, BETWEEN.push = _between_pull, _between_push
BETWEEN.rule, BETWEEN.reads = "(K ∘ Uᴴ g V) between U and Vᴴ   diag(Uᴴ g V)", (0, 1)


def apply_singular_weights(x: Array, w: Array) -> Array:
    """Return the matrix with the singular vectors of x and the singular values w."""
    return apply(BETWEEN, (x, w))


# svd


def _svd_infer(
    x: Array, *, full_matrices: bool = True, hermitian: bool = False
) -> tuple[Spec, Spec, Spec]:
    spec = matrices(x)
    *loop, rows, columns = spec.shape
    few = smallest(rows, columns)
    tall, wide = (rows, columns) if full_matrices else (few, few)
    return (
        Spec((*loop, rows, tall), spec.dtype),
        Spec((*loop, few), real_dtype(spec.dtype)),
        Spec((*loop, wide, columns), spec.dtype),
    )


def _svd_compute(x: Array, **params: Any) -> tuple[Any, ...]:
    return tuple(np.linalg.svd(x, **params))


def _svd_on_cupy(
    x: Array, *, full_matrices: bool = True, hermitian: bool = False
) -> tuple[Any, ...]:
    """Return the factors; by `numpy.linalg.eigh` those of a Hermitian matrix."""
    if not hermitian:
        return tuple(np.linalg.svd(x, full_matrices=full_matrices))
    w, u = np.linalg.eigh(x)
    order = np.flip(np.argsort(np.abs(w), axis=-1), -1)
    w = np.take_along_axis(w, order, axis=-1)
    u = np.take_along_axis(u, order[..., None, :], axis=-1)
    signs = np.where(np.less(w, 0), -1, 1).astype(w.dtype)
    return u, np.abs(w), conjugate(swap(u * signs[..., None, :]))


def _narrow_cotangent(g: Cotangent, whole: Array, few: int) -> Any:
    """Return the cotangent of the first columns of a square basis.

    What is orthogonal to the first columns turns as they do: ``dW = -U dUᴴ W``.
    """
    first, last = whole[..., :few], whole[..., few:]
    if g is None or shape_of(whole)[-1] == few:
        return g
    return g[..., :few] - last @ (hermitian(g[..., few:]) @ first)


class _Seen(NamedTuple):
    """What the cotangents of both bases say, in these bases."""

    turn: Any
    across: Any
    #: What lies outside the first columns, of U and of V; None: nothing.
    rest: tuple[Any, Any]
    #: The largest magnitude, and what rounding may leave of a zero.
    floor: Any


def _svd_seen(g: Parts, y: tuple[Any, ...], x: Array) -> _Seen:
    rows, columns = shape_of(x)[-2:]
    few = min(rows, columns)
    whole_u, whole_v = y[0], hermitian(y[2])
    u, v = whole_u[..., :few], whole_v[..., :few]
    to_u = None if g[0] is None else _narrow_cotangent(conjugate(g[0]), whole_u, few)
    to_v = None if g[2] is None else _narrow_cotangent(swap(g[2]), whole_v, few)
    left = None if to_u is None else hermitian(u) @ to_u
    right = None if to_v is None else hermitian(v) @ to_v
    both = _add_parts(left, right)
    across: Any = left if right is None else -right if left is None else left - right
    floor = noise(both) if left is None or right is None else noise(left) + noise(right)
    rest = (
        None if to_u is None or rows == few else to_u - u @ left,
        None if to_v is None or columns == few else to_v - v @ right,
    )
    return _Seen(turn_of(both), turn_of(across), rest, floor)


def _svd_pull(g: Parts, y: tuple[Any, ...], x: Array, **_: Any) -> Array:
    few = min(shape_of(x)[-2:])
    if g[0] is None and g[2] is None:
        u, v = y[0][..., :few], hermitian(y[2])[..., :few]
        return conjugate((u * g[1][..., None, :]) @ hermitian(v))
    return _svd_passed(g, y, x, _svd_seen(g, y, x), _gaps(y[1]), strict=True)


def _svd_passed(
    g: Parts, y: tuple[Any, ...], x: Array, seen: _Seen, gaps: Gaps, strict: bool
) -> Array:
    """Return the cotangent; with ``strict``, NaN in undetermined places."""
    few = min(shape_of(x)[-2:])
    u, v, floor = y[0][..., :few], hermitian(y[2])[..., :few], seen.floor
    # With the values in play nothing shows what is missing.
    hidden = g[1] is not None

    def divide(part: Array, gap: Any, closed: Any, off: Any = True) -> Array:
        wrong = (closed if hidden else np.abs(part) > floor) & off if strict else False
        return quotient(part, gap, closed, wrong)

    inner = divide(seen.turn, gaps.minus, gaps.equal, gaps.apart)
    odd = gaps.apart if dtype_of(x).kind != "c" else True
    inner = inner + divide(seen.across, gaps.plus, gaps.none, odd)
    if g[1] is not None:
        inner = inner + eye_like(inner) * g[1][..., None, :]
    made = u @ inner @ hermitian(v)
    row = y[1][..., None, :] if gaps.row is None else gaps.row
    if seen.rest[0] is not None:
        made = made + divide(seen.rest[0], row, gaps.zero) @ hermitian(v)
    if seen.rest[1] is not None:
        made = made + u @ hermitian(divide(seen.rest[1], row, gaps.zero))
    return conjugate(made)


def _svd_limit_pull(
    along: Array | None, g: Parts, y: tuple[Any, ...], inputs: Any, params: Params
) -> list[Any]:
    gaps, x = _open_or_closed_gaps(y[1], along), inputs[0]
    own = None if g[1] is None else _own_share(g[1], y[1], along)
    seen = _svd_seen(g, y, x)
    return [_svd_passed(Parts((None, own, None)), y, x, seen, gaps, strict=False)]


def _own_share(moved: Array, s: Array, along: Array | None) -> Array:
    """Keep the share of distinct values; with ``along``, the share of repeated ones."""
    gaps = _gaps(s)
    shared = np.any(gaps.equal & gaps.apart, axis=-1) | gaps.zero[..., 0, :]
    return np.where(shared if along is not None else ~shared, moved, 0)


def _open_or_closed_gaps(s: Array, along: Array | None) -> Gaps:
    """Return gaps of the values; of those that vanish alone where they move apart."""
    gaps = _gaps(s)
    if along is None:
        return gaps
    row, column = along[..., None, :], along[..., :, None]
    closed = ~(gaps.equal & gaps.apart), ~gaps.none, ~gaps.zero
    return Gaps(row - column, row + column, *closed, gaps.apart, row)


def _divide_over_gaps(rest: Array, s: Array, gaps: Gaps, floor: Array | float) -> Array:
    row = s[..., None, :] if gaps.row is None else gaps.row
    return quotient(rest, row, gaps.zero, np.abs(rest) > floor)


def _add_parts(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _svd_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array, **_: Any
) -> tuple[Array, Array, Array]:
    return _svd_moved(tangents[0], y, x, _gaps(y[1]), strict=True)


def _svd_moved(
    t: Array, y: tuple[Any, ...], x: Array, gaps: Gaps, strict: bool
) -> tuple[Array, Array, Array]:
    """Return the tangents; with ``strict``, NaN in undetermined places."""
    few = min(shape_of(x)[-2:])
    whole_u, s, whole_v = y[0], y[1], hermitian(y[2])
    u, v = whole_u[..., :few], whole_v[..., :few]
    left, right = t @ v, hermitian(t) @ u
    inner = hermitian(u) @ left
    back = hermitian(inner)
    floor = noise(t) if strict else np.inf
    both, anti = inner + back, inner - back
    k = quotient(both, gaps.minus, gaps.equal, gaps.apart & (np.abs(both) > floor))
    m = quotient(anti, gaps.plus, gaps.none, np.abs(anti) > floor)
    du, dv = u @ (k + m) / 2, v @ (k - m) / 2
    if shape_of(x)[-2] > few:
        du = du + _divide_over_gaps(left - u @ inner, s, gaps, floor)
    if shape_of(x)[-1] > few:
        dv = dv + _divide_over_gaps(right - v @ back, s, gaps, floor)
    ds = np.real(np.diagonal(inner, axis1=-2, axis2=-1))
    return (
        _widen_tangent(du, whole_u, few),
        ds,
        hermitian(_widen_tangent(dv, whole_v, few)),
    )


def _svd_limit_push(
    along: Array | None,
    tangents: tuple[Any, ...],
    y: tuple[Any, ...],
    inputs: Any,
    params: Params,
) -> tuple[Any, ...]:
    gaps = _open_or_closed_gaps(y[1], along)
    du, ds, dv = _svd_moved(tangents[0], y, inputs[0], gaps, strict=False)
    return du, _own_share(ds, y[1], along), dv


def _svd_turn(y: tuple[Any, ...]) -> tuple[Array, Array, Array]:
    u, s, vh = y
    few, gaps = shape_of(s)[-1], _gaps(s)
    both = draw_turn(u, gaps.equal & gaps.apart)
    alone = draw_turn(u, gaps.none & gaps.apart)
    first, last = u[..., :few] @ both @ alone, hermitian(both) @ vh[..., :few, :]
    return (
        np.concatenate([first, u[..., few:]], axis=-1),
        average_equal(np.where(gaps.zero[..., 0, :], 0, s).astype(s.dtype), gaps.equal),
        np.concatenate([last, vh[..., few:, :]], axis=-2),
    )


def _svd_coincide(y: tuple[Any, ...]) -> Array:
    gaps = _gaps(y[1])
    return np.any(gaps.equal & gaps.apart, (-2, -1)) | np.any(gaps.zero, (-2, -1))


def _widen_tangent(moved: Array, whole: Array, few: int) -> Array:
    """Return the tangent of a square basis from that of its first columns."""
    if shape_of(whole)[-1] == few:
        return moved
    first, last = whole[..., :few], whole[..., few:]
    return np.concatenate([moved, -(first @ (hermitian(moved) @ last))], axis=-1)


def _read_whole(x: Array, **_: Any) -> tuple[Array | None, Array, Array | None]:
    """Read the whole matrix; of real numbers a basis of one axis has only a sign."""
    real, (rows, columns) = dtype_of(x).kind != "c", shape_of(x)[-2:]
    s = np.sum(x, axis=(-2, -1))[..., None]
    u = None if real and rows == 1 else s[..., None]
    return u, s, None if real and columns == 1 else s[..., None]


SVD = stacked(
    op(
        "svd",
        _svd_compute,
        _svd_pull,
        push=_svd_push,
        rule="U (turns of U and V over the gaps of s + diag(g of s)) Vᴴ",
        output_names=("U", "S", "Vh"),
        pattern=Reading(_read_whole),
        reads=("y",),
        infer=_svd_infer,
        limit=Limit(1, _svd_coincide, _svd_turn, _svd_limit_pull, _svd_limit_push),
        basis=Basis("singular value", 1, (0,), rows=(2,)),
    )
)
on_cupy(SVD)(_svd_on_cupy)


@implements(np.linalg.svd)
def svd(
    a: Array,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
) -> Array | SVDResult:
    """Return ``U``, ``S`` and ``Vh``, or the singular values alone.

    Where a singular value repeats, a result of values and vectors that is the same for
    every choice of them has its first derivative, and NaN as its second; what depends
    on the choice has NaN. A singular value that is 0 moves with its vectors as if it
    could be negative, so that results of all three are right there (in `svdvals` it has
    a kink, and gradient 0). The columns that ``full_matrices`` adds are any basis of
    the remaining space, and move as the basis that turns least.
    """
    a = admit(a)
    if hermitian:
        a = complete(a, lower=True)
    if not compute_uv:
        return singular_values(a)
    params: Params = {"full_matrices": full_matrices}
    if hermitian:
        params["hermitian"] = True
    return SVDResult(*apply_and_split(SVD, (a,), params))


@implements(np.linalg.svdvals)
def svdvals(x: Array, /) -> Array:
    """Return singular values; symmetric functions of equal ones are right."""
    return singular_values(admit(x))
