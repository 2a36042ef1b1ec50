"""C7: the seed's second list, all of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.autodiff.pushing import (
    Rng,
    apart,
    definite,
    pushes,
    regular,
    spread,
    symmetric,
    well,
)
from workbench.scipy import linalg

# The second list: all of linear algebra


def test_C7_MatrixInverse(rng: Rng) -> None:
    pushes(lambda a: np.linalg.inv(a), regular(rng, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.inv(a), regular(rng, 2, 3, 3), rng=rng)
    pushes(lambda a: linalg.inv(a), regular(rng, 3, 3), rng=rng, step="differences")


def test_C7_MatrixPinv(rng: Rng) -> None:
    for shape in ((3, 2), (2, 3), (3, 3)):
        pushes(lambda a: np.linalg.pinv(a), spread(rng, *shape), rng=rng,
               step="differences")  # fmt: skip


def test_C7_Det(rng: Rng) -> None:
    pushes(lambda a: np.linalg.det(a), regular(rng, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.det(a), regular(rng, 2, 3, 3), rng=rng)
    pushes(lambda a: np.linalg.slogdet(a)[1], regular(rng, 3, 3), rng=rng,
           step="differences")  # fmt: skip


def test_C7_Cholesky(rng: Rng) -> None:
    f = lambda a: np.linalg.cholesky(symmetric(a))  # noqa: E731
    pushes(f, definite(rng), rng=rng, step="differences")
    pushes(lambda a: linalg.cholesky(symmetric(a), lower=False), definite(rng),
           rng=rng, step="differences")  # fmt: skip


def test_C7_Solve(rng: Rng) -> None:
    a, b = regular(rng, 3, 3), rng.normal(size=(3, 2))
    pushes(lambda a, b: np.linalg.solve(a, b), a, b, rng=rng)
    pushes(lambda a, b: np.linalg.solve(a, b), a, b[:, 0], rng=rng)
    pushes(lambda a, b: linalg.solve(a, b), a, b, rng=rng, step="differences")


def test_C7_SolveTriangular(rng: Rng) -> None:
    a, b = regular(rng, 3, 3), rng.normal(size=(3, 2))
    for lower in (False, True):
        for trans in (0, 1):
            pushes(
                lambda a, b, lo=lower, t=trans: linalg.solve_triangular(
                    a, b, lower=lo, trans=t
                ),
                a, b, rng=rng, step="differences",
            )  # fmt: skip


def test_C7_CholeskySolve(rng: Rng) -> None:
    pushes(lambda a, b: linalg.cho_solve(linalg.cho_factor(symmetric(a)), b),
           definite(rng), rng.normal(size=3), rng=rng, step="differences")  # fmt: skip


def test_C7_SVD(rng: Rng) -> None:
    """Vectors are known up to signs: what does not depend on these is compared."""

    def f(a: Any) -> Any:
        U, S, Vh = np.linalg.svd(a, full_matrices=False)
        weights = np.arange(1.0, S.shape[0] + 1)
        return S, (U * weights) @ Vh, U**2, Vh**2

    for shape in ((3, 2), (2, 3), (3, 3)):
        a = spread(rng, *shape)
        pushes(f, a, rng=rng, step="differences")
        pushes(
            lambda a: np.linalg.svd(a, compute_uv=False),
            a,
            rng=rng,
            step="differences",
        )


def test_C7_Eigh(rng: Rng) -> None:
    a = regular(rng, 3, 3)
    for uplo in "LU":

        def f(a: Any, uplo: str = uplo) -> Any:
            values, vectors = np.linalg.eigh(symmetric(a), uplo)
            return values, (vectors * [1.0, 2.0, 5.0]) @ vectors.T, vectors**2

        pushes(f, a, rng=rng, step="differences")
        pushes(
            lambda a, u=uplo: np.linalg.eigvalsh(symmetric(a), u),
            a,
            rng=rng,
            step="differences",
        )


def test_C7_Eigvalsh_of_two_matrices(rng: Rng) -> None:
    pushes(lambda a, b: linalg.eigvalsh(symmetric(a), symmetric(b)),
           regular(rng, 3, 3), definite(rng), rng=rng, step="differences")  # fmt: skip


def test_C7_Eig(rng: Rng) -> None:
    """Neither order nor phase is fixed: what depends on neither is compared."""

    def f(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        order = np.argsort(np.real(values))
        return np.real(values)[order], np.abs(vectors)[:, order] ** 2

    def turns(a: Any) -> Any:
        values = np.linalg.eigvals(a)
        order = np.argsort(np.imag(values))
        return np.real(values)[order], np.imag(values)[order]

    # Eigenvalues that nearly meet would move the vectors by more than differences see.
    pushes(f, spread(rng, 3, 3), rng=rng, step="differences")
    turning = np.array([[1.0, -2.0, 0.1], [2.0, 1.0, 0.3], [0.2, -0.1, 4.0]])
    pushes(turns, turning, rng=rng, step="differences")


def test_C7_QRFull(rng: Rng) -> None:
    for shape in ((3, 3), (4, 2)):
        pushes(lambda a: tuple(np.linalg.qr(a)), spread(rng, *shape), rng=rng,
               step="differences")  # fmt: skip


def test_C7_QRIncomplete(rng: Rng) -> None:
    pushes(lambda a: np.linalg.qr(a, mode="r"), spread(rng, 4, 2), rng=rng,
           step="differences")  # fmt: skip


def test_C7_LU(rng: Rng) -> None:
    pushes(lambda a: linalg.lu(a)[1:], regular(rng, 3, 3), rng=rng, step="differences")


def test_C7_lstsq(rng: Rng) -> None:
    pushes(lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0],
           spread(rng, 4, 2), rng.normal(size=(4, 2)), rng=rng,
           step="differences")  # fmt: skip


def test_C7_AllocDiag(rng: Rng) -> None:
    pushes(lambda x: np.diag(x**2), rng.normal(size=3), rng=rng)
    pushes(lambda x: np.diag(x**2, -1), rng.normal(size=3), rng=rng)
    pushes(lambda x: np.diagflat(x**2), rng.normal(size=(2, 2)), rng=rng)


def test_C7_ExtractDiag(rng: Rng) -> None:
    x = rng.normal(size=(3, 4, 2))
    for offset in (0, 1, -2):
        pushes(lambda x, k=offset: np.diagonal(x**2, k), x, rng=rng)
        pushes(lambda x, k=offset: np.diagonal(x**2, k, 2, 0), x, rng=rng,
               varies=offset == 0 or offset == 1)  # fmt: skip
        pushes(lambda x, k=offset: np.diag(x[:, :, 0] ** 2, k), x, rng=rng)
    pushes(lambda x: np.trace(x**2), x, rng=rng)


def test_C7_TensorInv(rng: Rng) -> None:
    pushes(lambda a: np.linalg.tensorinv(a), well(rng, 24).reshape(4, 6, 8, 3), rng=rng)


def test_C7_TensorSolve(rng: Rng) -> None:
    pushes(lambda a, b: np.linalg.tensorsolve(a, b), well(rng, 6).reshape(2, 3, 6),
           rng.normal(size=(2, 3)), rng=rng)  # fmt: skip


def test_C7_Kron(rng: Rng) -> None:
    pushes(np.kron, rng.normal(size=(2, 2)), rng.normal(size=(1, 3)), rng=rng)


def test_C7_Expm(rng: Rng) -> None:
    pushes(linalg.expm, rng.normal(size=(3, 3)) / 2, rng=rng, step="differences")


def test_C7_MatrixFunctions(rng: Rng) -> None:
    for f in (linalg.logm, linalg.sqrtm):
        pushes(f, definite(rng), rng=rng, step="differences")


def test_C7_MatrixPower(rng: Rng) -> None:
    for n in (0, 1, 3, -2):
        pushes(lambda a, n=n: np.linalg.matrix_power(a, n), regular(rng, 3, 3),
               rng=rng, varies=n != 0)  # fmt: skip


def test_C7_MatrixDot(rng: Rng) -> None:
    pushes(lambda a, b, c: np.linalg.multi_dot([a, b, c]), rng.normal(size=(2, 3)),
           rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng=rng)  # fmt: skip


def test_C7_Norm(rng: Rng) -> None:
    a = regular(rng, 3, 3)
    for order in (None, "fro", "nuc", 1, 2, np.inf, -1, -2, -np.inf):
        pushes(lambda a, o=order: np.linalg.norm(a, o), a, rng=rng, step="differences")
    a = np.where(a < 0, -1, 1) * apart(rng, 3, 3) + np.sign(a) * 2
    for order in (None, 1, 2, 3, np.inf, -np.inf, 0.5):
        pushes(lambda a, o=order: np.linalg.norm(a, o, axis=1), a, rng=rng,
               step="differences")  # fmt: skip


def test_C7_SolveSylvester(rng: Rng) -> None:
    pushes(linalg.solve_sylvester, regular(rng, 3, 3), regular(rng, 2, 2),
           rng.normal(size=(3, 2)), rng=rng, step="differences")  # fmt: skip
