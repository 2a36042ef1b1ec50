"""Eigenvalues and eigenvectors.

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

from typing import Any, NamedTuple

import numpy as np

from workbench.core.op import Op, implements
from workbench.core.tensor import admit, apply
from workbench.core.types import Spec, value_spec
from workbench.ops.complex_parts import conjugate
from workbench.ops.contraction import swap
from workbench.ops.define import op
from workbench.ops.linalg.shared import (
    Params,
    broadcast,
    complete,
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
)
from workbench.ops.several import several

__all__ = ["EigResult", "EighResult", "eig", "eigh", "eigvals", "eigvalsh"]


class EigResult(NamedTuple):
    """What `numpy.linalg.eig` returns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `numpy.linalg.eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


def _differences(values: Any, factor: float = 8) -> tuple[Any, Any, Any]:
    """``λⱼ - λᵢ``, where that is 0, and where i and j are two.

    ``factor`` says how far apart rounding leaves equal eigenvalues: for `eigh` less
    than 2, for `eig`, whose vectors need not be orthogonal, mostly less than 50.
    """
    gap = values[..., None, :] - values[..., :, None]
    equal = np.abs(gap) <= noise(values[..., None, :], factor)
    return gap, equal, eye_like(gap) == 0


def _diagonal(x: Any) -> Any:
    return np.diagonal(x, axis1=-2, axis2=-1)


def _is_lower(UPLO: str) -> bool:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper() == "L"


# V diag(w) Vᴴ of a Hermitian matrix x, of which one triangle is read, and real
# weights w. A pair of equal eigenvalues with equal weights stays what it is if the
# weights do not vary; if they do, the derivative depends on how they go with the
# eigenvalues, which is not known here: NaN.


def _weights_compute(x: Any, w: Any, *, UPLO: Any) -> Any:
    _, v = np.linalg.eigh(x, UPLO=UPLO)
    return (v * w[..., None, :]) @ hermitian(v)


def _weights_moved(full: Any, x: Any, w: Any, UPLO: Any, varies: bool) -> Any:
    """Its change along a Hermitian matrix, at fixed weights; its own transpose."""
    values, v = np.linalg.eigh(x, UPLO=UPLO)
    gap, equal, apart = _differences(values)
    inner = hermitian(v) @ full @ v
    row = w[..., None, :]
    step = row - w[..., :, None]
    wrong = np.abs(step * inner) > noise(row) * largest(inner)
    if varies:
        wrong = wrong | (np.abs(inner) > noise(inner))
    return v @ (inner * quotient(step, gap, equal, apart & wrong)) @ hermitian(v)


def _diagonal_of(full: Any, x: Any, UPLO: Any) -> Any:
    _, v = np.linalg.eigh(x, UPLO=UPLO)
    return np.real(np.sum(conjugate(v) * (full @ v), axis=-2))


def _weights_pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
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
        to_w = _diagonal_of(g, x, UPLO)
    return [to_x, to_w]


def _weights_push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> Any:
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
        infer=lambda x, w, *, UPLO: broadcast(square(x), value_spec(w).shape[:-1]),
    )
)
WEIGHTS.pull, WEIGHTS.push = _weights_pull, _weights_push
WEIGHTS.rule, WEIGHTS.reads = "V (K ∘ Vᴴ g V) Vᴴ   diag(Vᴴ g V)", (0, 1)


# eigvalsh


def _real_values(x: Any, **_: Any) -> Spec:
    spec = square(x)
    return Spec(spec.shape[:-1], real_dtype(spec.dtype))


def _eigvalsh_pull(g: Any, y: Any, x: Any, *, UPLO: Any) -> Any:
    made = apply(WEIGHTS, (x, g), {"UPLO": UPLO})
    return conjugate(fold(made, UPLO == "L"))


def _eigvalsh_push(tangents: tuple[Any, ...], y: Any, x: Any, *, UPLO: Any) -> Any:
    return _diagonal_of(complete(tangents[0], UPLO == "L"), x, UPLO)


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
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """`numpy.linalg.eigvalsh`; the gradient lies in the triangle that it reads.

    Right for symmetric functions of equal eigenvalues; a single one of them gets
    one of the many directions in which it could move.
    """
    return apply(EIGVALSH, (admit(a),), {"UPLO": "L" if _is_lower(UPLO) else "U"})


# eigh


def _eigh_infer(x: Any, **_: Any) -> Any:
    spec = square(x)
    return _real_values(x), spec


def _eigh_pull(g: Any, y: Any, x: Any, *, UPLO: Any) -> Any:
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


def _eigh_push(tangents: tuple[Any, ...], y: Any, x: Any, *, UPLO: Any) -> Any:
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
        reads=("y",),
        infer=_eigh_infer,
    )
)


@implements(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """`numpy.linalg.eigh`; the gradient lies in the triangle that it reads.

    Eigenvectors are determined up to a sign, complex ones up to a phase; their
    derivative is the one without a turn of that phase. What depends on the vectors
    of a repeated eigenvalue has NaN where it is not determined; the docstring of
    this module says when.
    """
    params: Params = {"UPLO": "L" if _is_lower(UPLO) else "U"}
    return EighResult(*several(EIGH, (admit(a),), params))


# eig, eigvals


def _complex_values(x: Any) -> Spec:
    spec = square(x)
    made = np.result_type(spec.dtype, np.complex64)
    return Spec(spec.shape[:-1], made)


def _eigvals_pull(g: Any, y: Any, x: Any) -> Any:
    _, v = np.linalg.eig(x)
    # The plain transpose: eigenvalues are analytic functions of the matrix.
    return swap(v @ (g[..., :, None] * np.linalg.inv(v)))


def _eigvals_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
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
def eigvals(a: Any) -> Any:
    """`numpy.linalg.eigvals`.

    Real where NumPy finds real ones; complex when traced without values. Right for
    symmetric functions of equal eigenvalues, unless the matrix is defective
    (has too few eigenvectors): then there is no derivative, and the result is
    inf, NaN or a `MatrixError`. The second derivative at equal ones is NaN.
    """
    return apply(EIGVALS, (admit(a),))


def _eig_infer(x: Any) -> Any:
    values = _complex_values(x)
    return values, Spec(square(x).shape, values.dtype)


def _largest(v: Any) -> Any:
    """1 at the entry of each eigenvector that LAPACK makes real, 0 elsewhere."""
    size = np.where(np.imag(v) == 0, np.abs(v), 0)
    hit = np.equal(size, peak(size, axis=-2, keepdims=True))
    return hit & (np.cumsum(hit, axis=-2) == 1)


def _eig_pull(g: Any, y: Any, x: Any) -> Any:
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
        # With the eigenvalues in play nothing shows what is missing: see the module.
        wrong = (np.abs(seen) > floor) if g[0] is None else equal
        total = total + quotient(seen, gap, equal, wrong & apart)
    return swap(inverse) @ total @ swap(v)


def _eig_push(tangents: tuple[Any, ...], y: Any, x: Any) -> Any:
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
        reads=("y",),
        infer=_eig_infer,
    )
)


@implements(np.linalg.eig)
def eig(a: Any) -> EigResult:
    """`numpy.linalg.eig`.

    Real where NumPy finds real eigenvalues; complex when traced without values.
    Vectors have length 1 and a real largest entry, as LAPACK has them, and so have
    their derivatives. A repeated eigenvalue gives NaN where the result is not
    determined; the docstring of this module says when.
    """
    return EigResult(*several(EIG, (admit(a),)))
