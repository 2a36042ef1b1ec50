"""Eigenvalues and singular values, and their vectors.

Formulas: M. B. Giles, "An extended collection of matrix derivative results for
forward and reverse mode AD" (2008), section 3.1; for complex matrices C. Boeddeker
et al., "On the computation of complex-valued gradients with application to
statistically optimum beamforming" (2017). With ``P = V⁻¹ dA V`` the
eigenvalues move by the diagonal of P, and the vectors by ``V (F ∘ P)`` with
``Fᵢⱼ = 1 / (λⱼ - λᵢ)``.

Repeated eigenvalues. What is symmetric in equal eigenvalues (their sum, a trace,
``sum(h(w))``) has its derivative in both modes. The vectors of a repeated
eigenvalue are not determined, and what is not either gets NaN, never a wrong
number: a cotangent that sees the choice of vectors, and one that uses both these
vectors and their eigenvalues, as ``V @ diag(h(w)) @ V.T`` does (the missing part is
``h'``, which no rule for V and w can see; write `numpy.linalg.matrix_power`,
`workbench.scipy.linalg.sqrtm`, `expm` or `logm` for those). What uses vectors alone and
is the same for every choice, such as the projector ``V[:, 1:] @ V[:, 1:].T``, is
right in reverse mode; forward mode has NaN in these vectors. `eig` of a matrix with
equal eigenvalues has NaN whenever both values and vectors are used.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.core.dims import smallest
from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Array, Cotangent, Params, Spec, Tangent, as_spec
from workbench.ops.contraction import swap
from workbench.ops.define import Parts, apply_and_split, op, shape_of
from workbench.ops.device import on_cupy
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg.shared import (
    broadcast,
    complete,
    eye_like,
    fold,
    hermitian,
    largest,
    matrices,
    noise,
    peak,
    quotient,
    real_dtype,
    square,
    stacked,
)


class EigResult(NamedTuple):
    """What `numpy.linalg.eig` returns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `numpy.linalg.eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


def _differences(values: Array, factor: float = 8) -> tuple[Any, Any, Any]:
    """Return ``λⱼ - λᵢ``, where that is 0, and where i and j differ.

    ``factor`` says how far apart rounding leaves equal eigenvalues: for `eigh` less
    than 2, for `eig`, whose vectors need not be orthogonal, mostly less than 50.
    """
    gap = values[..., None, :] - values[..., :, None]
    equal = np.abs(gap) <= noise(values[..., None, :], factor)
    return gap, equal, eye_like(gap) == 0


def _diagonal(x: Array) -> Array:
    return np.diagonal(x, axis1=-2, axis2=-1)


def _is_lower(UPLO: Literal["L", "U"]) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper() == "L"


# V diag(w) Vᴴ of a Hermitian matrix x, of which one triangle is read, and real
# weights w. A pair of equal eigenvalues with equal weights stays what it is if the
# weights do not vary; if they do, the derivative depends on how they go with the
# eigenvalues, which is not known here: NaN.


def _weights_compute(x: Array, w: Array, *, UPLO: Literal["L", "U"]) -> Array:
    _, v = np.linalg.eigh(x, UPLO=UPLO)
    return (v * w[..., None, :]) @ hermitian(v)


def _weights_moved(
    full: Array, x: Array, w: Array, UPLO: Literal["L", "U"], varies: bool
) -> Array:
    """Return the change along a Hermitian matrix at fixed weights; self-adjoint."""
    values, v = np.linalg.eigh(x, UPLO=UPLO)
    gap, equal, apart = _differences(values)
    inner = hermitian(v) @ full @ v
    row = w[..., None, :]
    step = row - w[..., :, None]
    wrong = np.abs(step * inner) > noise(row) * largest(inner)
    if varies:
        wrong = wrong | (np.abs(inner) > noise(inner))
    return v @ (inner * quotient(step, gap, equal, apart & wrong)) @ hermitian(v)


def _eigen_diagonal(full: Array, x: Array, UPLO: Literal["L", "U"]) -> Array:
    _, v = np.linalg.eigh(x, UPLO=UPLO)
    return np.real(np.sum(conjugate(v) * (full @ v), axis=-2))


def _weights_pull(
    mask: int, g: Array, y: Array, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    x, w = inputs
    UPLO = params["UPLO"]
    g = conjugate(g)
    g = (g + hermitian(g)) / 2
    to_x = to_w = None
    if mask & 1:
        made = _weights_moved(g, x, w, UPLO, bool(mask & 2))
        to_x = conjugate(fold(made, UPLO == "L"))
    if mask & 2:
        to_w = _eigen_diagonal(g, x, UPLO)
    return [to_x, to_w]


def _weights_push(
    tangents: tuple[Any, ...], y: Array, inputs: tuple[Any, ...], params: Params
) -> Tangent:
    (x, w), UPLO, total = inputs, params["UPLO"], None
    if tangents[0] is not None:
        t = complete(tangents[0], UPLO == "L")
        total = _weights_moved(t, x, w, UPLO, tangents[1] is not None)
    if tangents[1] is not None:
        term = apply(WEIGHTS, (x, tangents[1]), params)
        total = term if total is None else total + term
    return total


WEIGHTS: Op = stacked(
    op(
        "eigen_weights",
        _weights_compute,
        infer=lambda x, w, *, UPLO: broadcast(square(x), as_spec(w).shape[:-1]),
        template="eigen_weights({0}, {1}, {UPLO})",
        helper='''\
def eigen_weights(x, w, UPLO):
    """The matrix with the eigenvectors of x and the eigenvalues w."""
    vectors = np.linalg.eigh(x, UPLO=UPLO)[1]
    return (vectors * w[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2))
''',
    )
)
WEIGHTS.pull, WEIGHTS.push = _weights_pull, _weights_push
WEIGHTS.rule, WEIGHTS.reads = "V (K ∘ Vᴴ g V) Vᴴ   diag(Vᴴ g V)", (0, 1)


# eigvalsh


def _real_values(x: Array, **_: Any) -> Spec:
    spec = square(x)
    return Spec(spec.shape[:-1], real_dtype(spec.dtype))


def _eigvalsh_pull(g: Array, y: Array, x: Array, *, UPLO: Literal["L", "U"]) -> Array:
    made = apply(WEIGHTS, (x, g), {"UPLO": UPLO})
    return conjugate(fold(made, UPLO == "L"))


def _eigvalsh_push(
    tangents: tuple[Any, ...], y: Array, x: Array, *, UPLO: Literal["L", "U"]
) -> Array:
    return _eigen_diagonal(complete(tangents[0], UPLO == "L"), x, UPLO)


EIGVALSH = stacked(
    op(
        "eigvalsh",
        lambda x, *, UPLO: np.linalg.eigvalsh(x, UPLO=UPLO),
        _eigvalsh_pull,
        push=_eigvalsh_push,
        rule="V diag(g) Vᴴ on the triangle that is read",
        reads=(0,),
        infer=_real_values,
    )
)


@implements(np.linalg.eigvalsh)
def eigvalsh(a: Array, UPLO: Literal["L", "U"] = "L") -> Array:
    """Return eigenvalues; the gradient lies in the triangle that is read.

    Right for symmetric functions of equal eigenvalues; a single one of them gets
    one of the many directions in which it could move.
    """
    return apply(EIGVALSH, (admit(a),), {"UPLO": "L" if _is_lower(UPLO) else "U"})


# eigh


def _eigh_infer(x: Array, **_: Any) -> tuple[Spec, Spec]:
    spec = square(x)
    return _real_values(x), spec


def _eigh_pull(
    g: Array, y: tuple[Any, ...], x: Array, *, UPLO: Literal["L", "U"]
) -> Array:
    values, v = y
    if g[1] is None:
        return conjugate(fold((v * g[0][..., None, :]) @ hermitian(v), UPLO == "L"))
    gap, equal, apart = _differences(values)
    seen = hermitian(v) @ conjugate(g[1])
    turn = (seen - hermitian(seen)) / 2
    floor = noise(seen)
    wrong = np.abs(turn) > floor
    if g[0] is not None:
        row = g[0][..., None, :]
        own = row - g[0][..., :, None]
        wrong = wrong | (np.abs(seen) > floor) | (np.abs(own) > noise(row))
        wrong = wrong | swap(wrong)
    inner = quotient(turn, gap, equal, wrong & apart)
    if g[0] is not None:
        inner = inner + eye_like(inner) * g[0][..., None, :]
    return conjugate(fold(v @ inner @ hermitian(v), UPLO == "L"))


def _eigh_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array, *, UPLO: Literal["L", "U"]
) -> tuple[Array, Array]:
    values, v = y
    gap, equal, apart = _differences(values)
    t = complete(tangents[0], UPLO == "L")
    inner = hermitian(v) @ t @ v
    wrong = apart & (np.abs(inner) > noise(t))
    moved = v @ quotient(inner, gap, equal, wrong)
    return np.real(_diagonal(inner)), moved


EIGH = stacked(
    op(
        "eigh",
        lambda x, *, UPLO: tuple(np.linalg.eigh(x, UPLO=UPLO)),
        _eigh_pull,
        push=_eigh_push,
        rule="V (diag(g of w) + F ∘ Vᴴ g of V) Vᴴ on the triangle that is read",
        output_names=("values", "vectors"),
        reads=("y",),
        infer=_eigh_infer,
    )
)


@implements(np.linalg.eigh)
def eigh(a: Array, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """Return eigenvalues and eigenvectors; the gradient lies in the triangle read.

    Eigenvectors are determined up to a sign, complex ones up to a phase; their
    derivative is the one without a turn of that phase. What depends on the vectors
    of a repeated eigenvalue has NaN where it is not determined; the docstring of
    this module says when.
    """
    params: Params = {"UPLO": "L" if _is_lower(UPLO) else "U"}
    return EighResult(*apply_and_split(EIGH, (admit(a),), params))


# eig, eigvals


def _complex_values(x: Array) -> Spec:
    spec = square(x)
    made = np.result_type(spec.dtype, np.complex64)
    return Spec(spec.shape[:-1], made)


def _eigvals_pull(g: Array, y: Array, x: Array) -> Array:
    _, v = np.linalg.eig(x)
    # The plain transpose: eigenvalues are analytic functions of the matrix.
    return swap(v @ (g[..., :, None] * np.linalg.inv(v)))


def _eigvals_push(tangents: tuple[Any, ...], y: Array, x: Array) -> Array:
    _, v = np.linalg.eig(x)
    return np.sum(np.linalg.inv(v) * swap(tangents[0] @ v), axis=-1)


EIGVALS = stacked(
    op(
        "eigvals",
        np.linalg.eigvals,
        _eigvals_pull,
        push=_eigvals_push,
        rule="(V diag(g) V⁻¹)ᵀ",
        reads=(0,),
        infer=_complex_values,
    )
)


@implements(np.linalg.eigvals)
def eigvals(a: Array) -> Array:
    """Return the eigenvalues of general matrices, as `numpy.linalg.eigvals` does.

    Real where NumPy finds real ones; complex when traced without values. Right for
    symmetric functions of equal eigenvalues, unless the matrix is defective
    (has too few eigenvectors): then there is no derivative, and the result is
    inf, NaN or a `MatrixError`. The second derivative at equal ones is NaN.
    """
    return apply(EIGVALS, (admit(a),))


def _eig_infer(x: Array) -> tuple[Spec, Spec]:
    values = _complex_values(x)
    return values, Spec(square(x).shape, values.dtype)


def _largest(v: Array) -> Array:
    """Return 1 at the entry of each eigenvector that LAPACK makes real, else 0."""
    size = np.where(np.imag(v) == 0, np.abs(v), 0)
    hit = np.equal(size, peak(size, axis=-2, keepdims=True))
    return hit & (np.cumsum(hit, axis=-2) == 1)


def _eig_pull(g: Array, y: tuple[Any, ...], x: Array) -> Array:
    values, v = y
    inverse = np.linalg.inv(v)
    total = 0 if g[0] is None else g[0][..., None, :] * eye_like(v)
    if g[1] is not None:
        gap, equal, apart = _differences(values, 64)
        to_v = conjugate(g[1])
        # Each vector keeps its length 1, and its largest entry stays real.
        along = np.sum(conjugate(v) * to_v, axis=-2, keepdims=True)
        w = to_v - v * np.real(along)
        if v.dtype.kind == "c":
            hit = _largest(v)
            w = w - np.where(hit, 1j * np.imag(along), 0) / np.where(hit, v, 1)
        seen = swap(v) @ conjugate(w)
        floor = noise(seen)
        # With the eigenvalues in play nothing shows what is missing: see the top.
        wrong = (np.abs(seen) > floor) if g[0] is None else equal
        total = total + quotient(seen, gap, equal, wrong & apart)
    return swap(inverse) @ total @ swap(v)


def _eig_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array
) -> tuple[Array, Array]:
    values, v = y
    gap, equal, apart = _differences(values, 64)
    inner = np.linalg.inv(v) @ tangents[0] @ v
    wrong = apart & (np.abs(inner) > noise(inner))
    w = v @ quotient(inner, gap, equal, wrong)
    moved = w - v * np.real(np.sum(conjugate(v) * w, axis=-2, keepdims=True))
    if v.dtype.kind == "c":
        hit = _largest(v)
        turned = np.sum(np.where(hit, np.imag(w), 0), axis=-2, keepdims=True)
        real = np.sum(np.where(hit, np.real(v), 0), axis=-2, keepdims=True)
        moved = moved - 1j * v * (turned / real)
    return _diagonal(inner), moved


EIG = stacked(
    op(
        "eig",
        lambda x: tuple(np.linalg.eig(x)),
        _eig_pull,
        push=_eig_push,
        rule="V⁻ᵀ (diag(g of w) + F ∘ Vᵀ g of V) Vᵀ",
        output_names=("values", "vectors"),
        reads=("y",),
        infer=_eig_infer,
    )
)


@implements(np.linalg.eig)
def eig(a: Array) -> EigResult:
    """Return eigenvalues and eigenvectors, as `numpy.linalg.eig` does.

    Real where NumPy finds real eigenvalues; complex when traced without values.
    Vectors have length 1 and a real largest entry, as LAPACK has them, and so have
    their derivatives. A repeated eigenvalue gives NaN where the result is not
    determined; the docstring of this module says when.
    """
    return EigResult(*apply_and_split(EIG, (admit(a),)))


# Singular values and vectors.
#
# Formulas: J. Townsend, "Differentiating the singular value decomposition" (2016); for
# complex matrices Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex
# valued SVD" (2019). With ``P = Uᴴ dA V`` the turns of both bases are ``Uᴴ dU = (K + L)
# / 2`` and ``Vᴴ dV = (K - L) / 2``, where ``K = (P + Pᴴ) / (sⱼ - sᵢ)`` beside the
# diagonal and ``L = (P - Pᴴ) / (sⱼ + sᵢ)``: only K knows of values that are equal. The
# phase of a pair of complex vectors, which the matrix leaves open, is the one that does
# not turn ``U`` and ``V`` together.
#
# Values that are equal. Singular values have a derivative wherever what is made of them
# is symmetric in those that are equal, and it is right there. Vectors of a repeated
# value are not determined, and what is not either gets NaN, never a wrong number:
# a cotangent that sees the choice of vectors, and one that uses both the vectors
# and the values (the missing part depends on how the two go together). What uses
# vectors alone, and is the same for every choice, such as the projector ``U @ U.T`` or
# ``U @ Vh``, is right in reverse mode; forward mode has NaN in these vectors.


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
    """Set weights to 0 where the singular value is 0: it has a kink there."""
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


def _svd_pull(g: Parts, y: tuple[Any, ...], x: Array, **_: Any) -> Array:
    few = min(shape_of(x)[-2:])
    u, s, v = y[0], y[1], hermitian(y[2])
    to_u = None if g[0] is None else _narrow_cotangent(conjugate(g[0]), u, few)
    to_v = None if g[2] is None else _narrow_cotangent(swap(g[2]), v, few)
    u, v, inner = u[..., :few], v[..., :few], None
    if to_u is None and to_v is None:
        return conjugate((u * g[1][..., None, :]) @ hermitian(v))
    gaps = _gaps(s)
    left = None if to_u is None else hermitian(u) @ to_u
    right = None if to_v is None else hermitian(v) @ to_v
    both = _add_parts(left, right)
    across: Any = left if right is None else -right if left is None else left - right
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
        made = made + _divide_over_gaps(rest, s, gaps, floor) @ hermitian(v)
    if to_v is not None and columns > few:
        rest = to_v - v @ right
        made = made + u @ hermitian(_divide_over_gaps(rest, s, gaps, floor))
    return conjugate(made)


def _divide_over_gaps(rest: Array, s: Array, gaps: Gaps, floor: Array) -> Array:
    return quotient(rest, s[..., None, :], gaps.zero, np.abs(rest) > floor)


def _add_parts(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _svd_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array, **_: Any
) -> tuple[Array, Array, Array]:
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
        du = du + _divide_over_gaps(left - u @ inner, s, gaps, floor)
    if shape_of(x)[-1] > few:
        dv = dv + _divide_over_gaps(right - v @ back, s, gaps, floor)
    ds = np.real(np.diagonal(inner, axis1=-2, axis2=-1))
    return (
        _widen_tangent(du, whole_u, few),
        ds,
        hermitian(_widen_tangent(dv, whole_v, few)),
    )


def _widen_tangent(moved: Array, whole: Array, few: int) -> Array:
    """Return the tangent of a square basis from that of its first columns."""
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
        output_names=("U", "S", "Vh"),
        reads=("y",),
        infer=_svd_infer,
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
    return SVDResult(*apply_and_split(SVD, (a,), params))


@implements(np.linalg.svdvals)
def svdvals(x: Array, /) -> Array:
    """Return singular values; symmetric functions of equal ones are right."""
    return singular_values(admit(x))
