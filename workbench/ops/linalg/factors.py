"""Cholesky and QR factors, and the factor of a covariance.

Formulas: I. Murray, "Differentiation of the Cholesky decomposition" (2016); S. F.
Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with
application in optimum experimental design" (2010), section 4.4; for wide matrices
D. A. O. Roberts and L. R. Roberts, "QR and LQ decomposition matrix backpropagation
algorithms for square, wide, and deep matrices" (2020).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.core.dims import is_same_shape, is_zero_length, smallest
from workbench.core.op import Reading, implements
from workbench.core.tensor import admit, apply
from workbench.core.traits import Basis
from workbench.core.types import Array, Spec
from workbench.ops.contraction import swap
from workbench.ops.define import Parts, apply_and_split, dtype_of, op, shape_of
from workbench.ops.elementwise import conjugate
from workbench.ops.linalg import shared
from workbench.ops.shaping import lay_out


class QRResult(NamedTuple):
    """What `numpy.linalg.qr` returns."""

    Q: Any
    R: Any


# cholesky, which reads the lower triangle alone


def _cholesky_pull(g: Array, y: Array, x: Array) -> Array:
    turned = shared.hermitian(y)
    middle = shared.half_lower(turned @ conjugate(g))
    left = np.linalg.solve(turned, middle)
    full = shared.hermitian(np.linalg.solve(turned, shared.hermitian(left)))
    # Twice the Hermitian part: an entry below the diagonal stands for two.
    return conjugate(shared.half_lower(full + shared.hermitian(full)))


def _cholesky_push(tangents: tuple[Any, ...], y: Array, x: Array) -> Array:
    full = shared.mirrored(tangents[0])
    left = np.linalg.solve(y, full)
    return y @ shared.half_lower(
        shared.hermitian(np.linalg.solve(y, shared.hermitian(left)))
    )


def _read_leading_blocks(x: Array) -> Array:
    """Read by entry (i, j) the lower triangle to (j, j), and of row i to j."""
    lower = np.tril(x)
    blocks = np.cumsum(np.sum(lower, axis=-1), axis=-1)
    return np.tril(np.cumsum(lower, axis=-1) + blocks[..., None, :])


CHOLESKY = shared.stacked(
    op(
        "cholesky",
        np.linalg.cholesky,
        _cholesky_pull,
        push=_cholesky_push,
        rule="y⁻ᵀ Φ(yᵀ g) y⁻¹ on the lower triangle",
        pattern=Reading(_read_leading_blocks),
        condition="definite",
        reads=("y",),
        infer=shared.square,
    )
)


@implements(np.linalg.cholesky)
def cholesky(a: Array, /, *, upper: bool = False) -> Array:
    """Return the Cholesky factor; the gradient lies in the triangle that is read."""
    a = admit(a)
    if upper:
        return lay_out(shared.hermitian(apply(CHOLESKY, (shared.hermitian(a),))), "C")
    return apply(CHOLESKY, (a,))


# qr. R has a real diagonal, as LAPACK makes it, so that both factors are determined;
# of a wide matrix the first columns are factored and the others follow.


def _qr_infer(x: Array, *, mode: str) -> tuple[Spec, Spec]:
    spec = shared.matrices(x)
    *loop, rows, columns = spec.shape
    inner = rows if mode == "complete" else smallest(rows, columns)
    return (
        Spec((*loop, rows, inner), spec.dtype),
        Spec((*loop, inner, columns), spec.dtype),
    )


def _solve_right(x: Array, r: Array) -> Array:
    """Return ``x r⁻¹``."""
    return swap(np.linalg.solve(swap(r), swap(x)))


def _solve_right_adjoint(x: Array, r: Array) -> Array:
    """Return ``x r⁻ᴴ``."""
    return shared.hermitian(np.linalg.solve(r, shared.hermitian(x)))


def _qr_push(
    tangents: tuple[Any, ...], y: tuple[Any, ...], x: Array, *, mode: str
) -> tuple[Array, Array]:
    q, r = y
    few = smallest(*shape_of(x)[-2:])
    first, upper, t = q[..., :few], r[..., :few, :few], tangents[0]
    over = _solve_right(t[..., :few], upper)
    inner = shared.hermitian(first) @ over
    below = np.tril(inner, -1)
    turn = below - shared.hermitian(below) + _imaginary_diagonal(inner)
    moved_q = over + first @ (turn - inner)
    moved_r = (inner - turn) @ upper
    if not is_same_shape((few,), shape_of(x)[-1:]):
        rest = (
            shared.hermitian(moved_q) @ x[..., few:]
            + shared.hermitian(first) @ t[..., few:]
        )
        moved_r = np.concatenate([moved_r, rest], axis=-1)
    last = q[..., few:]
    if not is_zero_length(shape_of(last)[-1]):
        moved_last = -(first @ (shared.hermitian(moved_q) @ last))
        moved_q = np.concatenate([moved_q, moved_last], axis=-1)
        moved_r = np.concatenate([moved_r, np.zeros_like(r[..., few:, :])], axis=-2)
    return moved_q, moved_r


def _imaginary_diagonal(x: Array) -> Array:
    kept = np.triu(np.tril(x))
    return (kept - conjugate(kept)) / 2


def _qr_pull(g: Parts, y: tuple[Any, ...], x: Array, *, mode: str) -> Array:
    q, r = y
    few = smallest(*shape_of(x)[-2:])
    first, last, upper = q[..., :few], q[..., few:], r[..., :few, :few]
    to_q = None if g[0] is None else conjugate(g[0])
    to_r = None if g[1] is None else conjugate(g[1])[..., :few, :]
    if to_q is not None and not is_zero_length(shape_of(last)[-1]):
        # What completes the basis turns as the first columns do.
        to_q = to_q[..., :few] - last @ (shared.hermitian(to_q[..., few:]) @ first)
    wide, more_columns = None, not is_same_shape((few,), shape_of(x)[-1:])
    if more_columns and to_r is not None:
        wide = first @ to_r[..., few:]
        more = x[..., few:] @ shared.hermitian(to_r[..., few:])
        to_q = more if to_q is None else to_q + more
        to_r = to_r[..., :few]
    elif more_columns:
        wide = np.zeros_like(x[..., few:])
    # dQ = T + Q (Ω - Qᴴ T) and dR = (Qᴴ T - Ω) R with T = dA R⁻¹.
    inner: Any = 0
    if to_q is not None:
        inner = shared.hermitian(first) @ to_q
    if to_r is not None:
        inner = inner - to_r @ shared.hermitian(upper)
    turn = np.tril(inner - shared.hermitian(inner), -1) + _imaginary_diagonal(inner)
    made = first @ (turn - inner)
    made = _solve_right_adjoint(made if to_q is None else made + to_q, upper)
    if wide is not None:
        made = np.concatenate([made, wide], axis=-1)
    return conjugate(made)


def _read_columns(x: Array, *, mode: str) -> tuple[Array, Array]:
    """Read the columns to j by Q[:, j], those to i, and j, by R[i, j].

    The last column of a square Q stands at right angles to all others: of real numbers
    only its sign is left, and it does not read its own column.
    """
    rows, columns = shape_of(x)[-2:]
    before, so_far, each = shared.read_columns_so_far(x)
    few = min(rows, columns)
    if rows == few and dtype_of(x).kind != "c":
        so_far = np.concatenate([so_far[..., :-1], before[..., -1:]], axis=-1)
    q, r = so_far[..., None, :], np.triu(so_far[..., None] + each[..., None, :])
    if mode == "complete" and rows > few:
        # What completes a basis turns with all columns before.
        q = np.concatenate([q] + [q[..., -1:]] * (rows - few), axis=-1)
        margins = [(0, 0)] * (len(shape_of(r)) - 2)
        r = np.pad(r, [*margins, (0, rows - few), (0, 0)])
    return q, r


QR = shared.stacked(
    op(
        "qr",
        lambda x, *, mode: tuple(np.linalg.qr(x, mode=mode)),
        _qr_pull,
        push=_qr_push,
        rule="(g of Q + Q copyltu(R gᵀ of R − gᵀ of Q Q)) R⁻ᵀ",
        pattern=Reading(_read_columns),
        output_names=("Q", "R"),
        reads=(0, "y"),
        infer=_qr_infer,
        cure="Both derivatives of qr need a matrix of full rank.",
        condition="columns",
        basis=Basis("column of R", None, (0,)),
    )
)


@implements(np.linalg.qr)
def qr(a: Array, mode: str = "reduced") -> Array | QRResult:
    """Factor matrices of full rank into ``Q`` and ``R``, as `numpy.linalg.qr` does.

    The columns that ``mode="complete"`` adds are any basis of the remaining space, and
    move as the basis that turns least. ``mode="raw"`` is refused.
    """
    a = admit(a)
    if mode == "r":
        return apply_and_split(QR, (a,), {"mode": "reduced"})[1]
    if mode not in ("reduced", "complete"):
        raise ValueError(
            f"qr: mode {mode!r}; write 'reduced', 'complete' or 'r' ('raw' holds"
            " Householder vectors, which have no derivative here)"
        )
    return QRResult(*apply_and_split(QR, (a,), {"mode": mode}))


# The factor of a covariance, by its eigenvectors: F with ``Fᵀ F = x``, of which draws
# are made. ``Fᵀ dF + dFᵀ F = dx`` holds for ``dF = F⁻ᵀ dx / 2 + K F`` with any K that
# is antisymmetric. That of the eigenvectors divides by differences of eigenvalues;
# where these are 0 the vectors are not determined, K is 0, and F moves there as a
# symmetric root would. So derivatives of expectations are right, to any order.


def _factor_compute(x: Array, *, method: str) -> Array:
    if method == "eigh":
        values, vectors = np.linalg.eigh(x)
        return np.swapaxes(vectors * np.sqrt(values)[..., None, :], -1, -2)
    _, values, rows = np.linalg.svd(x)
    return np.sqrt(values)[..., :, None] * rows


def _factor_turns(y: Array) -> Array:
    """Return K for each entry of ``y dx yᵀ``."""
    size = np.sum(y * y, axis=-1)
    row, column = size[..., None, :], size[..., :, None]
    gap = column - row
    total = (row + column) / (2 * row * column)
    return shared.quotient(total, gap, np.abs(gap) <= shared.noise(row, 64), False)


def _factor_pull(g: Array, y: Array, x: Array, *, method: str) -> Array:
    half = np.linalg.solve(y, g) / 2
    made = half + swap(y) @ ((g @ swap(y)) * _factor_turns(y)) @ y
    return shared.fold(made, True) if method == "eigh" else (made + swap(made)) / 2


def _factor_push(
    tangents: tuple[Any, ...], y: Array, x: Array, *, method: str
) -> Array:
    t = tangents[0]
    t = shared.complete(t, True) if method == "eigh" else (t + swap(t)) / 2
    half = np.linalg.solve(swap(y), t) / 2
    return half + ((y @ t @ swap(y)) * _factor_turns(y)) @ y


FACTOR = shared.stacked(
    op(
        "covariance_factor",
        _factor_compute,
        _factor_pull,
        push=_factor_push,
        rule="y⁻¹ g / 2 + yᵀ (g yᵀ ∘ turns of the eigenvectors) y",
        reads=("y",),
        infer=shared.square,
        helper='''\
def covariance_factor(x, method):
    """F with F.T @ F = x, made of eigenvectors."""
    if method == "eigh":
        values, vectors = np.linalg.eigh(x)
        return np.swapaxes(vectors * np.sqrt(values)[..., None, :], -1, -2)
    _, values, rows = np.linalg.svd(x)
    return np.sqrt(values)[..., :, None] * rows
''',
    )
)


def covariance_factor(x: Array, method: str) -> Array:
    """Return F with ``Fᵀ F = x``, by `eigh` or `svd` of a regular covariance."""
    return apply(FACTOR, (x,), {"method": method})
