"""Eigenvalues and their vectors.

Formulas: M. B. Giles, "An extended collection of matrix derivative results for
forward and reverse mode AD" (2008), section 3.1; for complex matrices C. Boeddeker
et al., "On the computation of complex-valued gradients with application to
statistically optimum beamforming" (2017). With ``P = V⁻¹ dA V`` the
eigenvalues move by the diagonal of P, and the vectors by ``V (F ∘ P)`` with
``Fᵢⱼ = 1 / (λⱼ - λᵢ)``.

Repeated eigenvalues. What is symmetric in equal eigenvalues (their sum, a trace,
``sum(h(w))``) has its derivative in both modes. The vectors of a repeated
eigenvalue are not determined. What is made of vectors and values and is the same for
every choice of them, as ``V @ diag(h(w)) @ V.T`` or the projector
``V[:, 1:] @ V[:, 1:].T``, has its derivative in both modes too: that takes a look at
the program that reads them (`autodiff/limits.py`). Its second derivative is NaN there,
and so is all that depends on the choice. A rule alone, without that program, gives NaN
where both values and vectors are used. For functions of a matrix write
`numpy.linalg.matrix_power`, `workbench.scipy.linalg.sqrtm`, `expm` or `logm`: they have
derivatives of all orders there, and no digits are lost between eigenvalues that are
nearly equal.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from workbench.core.op import Limit, Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.traits import Basis
from workbench.core.types import Array, Params, Spec, Tangent, as_spec
from workbench.ops.contraction import swap
from workbench.ops.define import Parts, apply_and_split, op
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg.shared import (
    average_equal,
    broadcast,
    complete,
    draw_turn,
    eye_like,
    fold,
    hermitian,
    largest,
    noise,
    peak,
    quotient,
    real_dtype,
    square,
    stacked,
    turn_of,
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


def _open_or_closed(
    values: Array, along: Array | None, factor: float = 8
) -> tuple[Any, Any]:
    """Return gaps, and where they count as 0: those of the values that are not equal.

    With ``along`` those of the equal ones, which move apart as it says.
    """
    gap, equal, apart = _differences(values, factor)
    if along is None:
        return gap, equal
    return along[..., None, :] - along[..., :, None], ~(equal & apart)


def _own_share(
    moved: Array, values: Array, along: Array | None, factor: float = 8
) -> Array:
    """Keep the share of distinct values; with ``along``, the share of repeated ones."""
    _, equal, apart = _differences(values, factor)
    shared = np.any(equal & apart, axis=-1)
    return np.where(shared if along is not None else ~shared, moved, 0)


def _turn_equal(
    values: Array, vectors: Array, factor: float = 8
) -> tuple[Array, Array]:
    """Return equal values to the last bit, and other vectors of them."""
    _, equal, apart = _differences(values, factor)
    return average_equal(values, equal), vectors @ draw_turn(vectors, equal & apart)


def _coincide(values: Array, factor: float = 8) -> Array:
    """Return whether values are equal, for each matrix."""
    _, equal, apart = _differences(values, factor)
    return np.any(equal & apart, axis=(-2, -1))


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
    g: Parts, y: tuple[Any, ...], x: Array, *, UPLO: Literal["L", "U"]
) -> Array:
    values, v = y
    if g[1] is None:
        return conjugate(fold((v * g[0][..., None, :]) @ hermitian(v), UPLO == "L"))
    gap, equal, apart = _differences(values)
    seen = hermitian(v) @ conjugate(g[1])
    # With the eigenvalues in play nothing shows what is missing: see the top.
    wrong = equal if g[0] is not None else np.abs(turn_of(seen)) > noise(seen)
    return _eigh_passed(g, v, quotient(turn_of(seen), gap, equal, wrong & apart), UPLO)


def _eigh_passed(g: Parts, v: Array, inner: Array, UPLO: Literal["L", "U"]) -> Array:
    if g[0] is not None:
        inner = inner + eye_like(inner) * g[0][..., None, :]
    return conjugate(fold(v @ inner @ hermitian(v), UPLO == "L"))


def _eigh_limit_pull(
    along: Array | None, g: Parts, y: tuple[Any, ...], inputs: Any, params: Params
) -> list[Any]:
    values, v = y
    turn = turn_of(hermitian(v) @ conjugate(g[1]))
    inner = quotient(turn, *_open_or_closed(values, along), False)
    own = None if g[0] is None else _own_share(g[0], values, along)
    return [_eigh_passed(Parts((own, None)), v, inner, params["UPLO"])]


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


def _eigh_limit_push(
    along: Array | None,
    tangents: tuple[Any, ...],
    y: tuple[Any, ...],
    inputs: Any,
    params: Params,
) -> tuple[Any, ...]:
    values, v = y
    inner = hermitian(v) @ complete(tangents[0], params["UPLO"] == "L") @ v
    moved = v @ quotient(inner, *_open_or_closed(values, along), False)
    return _own_share(np.real(_diagonal(inner)), values, along), moved


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
        basis=Basis("eigenvalue", 0, (1,)),
        limit=Limit(
            0,
            lambda y: _coincide(y[0]),
            lambda y: _turn_equal(y[0], y[1]),
            _eigh_limit_pull,
            _eigh_limit_push,
        ),
    )
)


@implements(np.linalg.eigh)
def eigh(a: Array, UPLO: Literal["L", "U"] = "L") -> EighResult:
    """Return eigenvalues and eigenvectors; the gradient lies in the triangle read.

    Eigenvectors are determined up to a sign, complex ones up to a phase; their
    derivative is the one without a turn of that phase. Where an eigenvalue repeats, a
    result of values and vectors that is the same for every choice of them, as ``(v *
    np.log(w)) @ v.T``, has its first derivative, and NaN as its second; what depends on
    the choice has NaN.
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
        condition="eigenvectors",
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


def _eig_pull(g: Parts, y: tuple[Any, ...], x: Array) -> Array:
    values, v = y
    if g[1] is None:
        return _eig_passed(g, v, 0)
    gap, equal, apart = _differences(values, 64)
    seen = _eig_seen(g, v)
    # With the eigenvalues in play nothing shows what is missing: see the top.
    wrong = (np.abs(seen) > noise(seen)) if g[0] is None else equal
    return _eig_passed(g, v, quotient(seen, gap, equal, wrong & apart))


def _eig_seen(g: Parts, v: Array) -> Array:
    to_v = conjugate(g[1])
    # Each vector keeps its length 1, and its largest entry stays real.
    along = np.sum(conjugate(v) * to_v, axis=-2, keepdims=True)
    w = to_v - v * np.real(along)
    if v.dtype.kind == "c":
        hit = _largest(v)
        w = w - np.where(hit, 1j * np.imag(along), 0) / np.where(hit, v, 1)
    return swap(v) @ conjugate(w)


def _eig_passed(g: Parts, v: Array, inner: Any) -> Array:
    if g[0] is not None:
        inner = inner + g[0][..., None, :] * eye_like(v)
    return swap(np.linalg.inv(v)) @ inner @ swap(v)


def _eig_limit_pull(
    along: Array | None, g: Parts, y: tuple[Any, ...], inputs: Any, params: Params
) -> list[Any]:
    values, v = y
    inner = quotient(_eig_seen(g, v), *_open_or_closed(values, along, 64), False)
    own = None if g[0] is None else _own_share(g[0], values, along, 64)
    return [_eig_passed(Parts((own, None)), v, inner)]


def _eig_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array
) -> tuple[Array, Array]:
    values, v = y
    gap, equal, apart = _differences(values, 64)
    inner = np.linalg.inv(v) @ tangents[0] @ v
    wrong = apart & (np.abs(inner) > noise(inner))
    moved = _keep_length(v, v @ quotient(inner, gap, equal, wrong))
    return _diagonal(inner), moved


def _keep_length(v: Array, w: Array) -> Array:
    """Return tangents of unit vectors with a real largest entry."""
    moved = w - v * np.real(np.sum(conjugate(v) * w, axis=-2, keepdims=True))
    if v.dtype.kind == "c":
        hit = _largest(v)
        turned = np.sum(np.where(hit, np.imag(w), 0), axis=-2, keepdims=True)
        real = np.sum(np.where(hit, np.real(v), 0), axis=-2, keepdims=True)
        moved = moved - 1j * v * (turned / real)
    return moved


def _eig_turn(y: tuple[Any, ...]) -> tuple[Array, Array]:
    values, v = _turn_equal(y[0], y[1], 64)
    v = v / np.linalg.norm(v, axis=-2, keepdims=True)
    if v.dtype.kind == "c":
        size = np.abs(v)
        hit = np.equal(size, peak(size, axis=-2, keepdims=True))
        lead = np.sum(np.where(hit, v, 0), axis=-2, keepdims=True)
        v = v * (conjugate(lead) / np.abs(lead))
        v = np.where(hit, np.real(v), v)
    return values, v


def _eig_limit_push(
    along: Array | None,
    tangents: tuple[Any, ...],
    y: tuple[Any, ...],
    inputs: Any,
    params: Params,
) -> tuple[Any, ...]:
    values, v = y
    inner = np.linalg.inv(v) @ tangents[0] @ v
    turned = v @ quotient(inner, *_open_or_closed(values, along, 64), False)
    own = _own_share(_diagonal(inner), values, along, 64)
    return own, _keep_length(v, turned)


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
        condition="eigenvectors",
        basis=Basis("eigenvalue", 0, (1,)),
        limit=Limit(
            0,
            lambda y: _coincide(y[0], 64),
            _eig_turn,
            _eig_limit_pull,
            _eig_limit_push,
        ),
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
