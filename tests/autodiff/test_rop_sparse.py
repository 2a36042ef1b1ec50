"""C7: the seed's second list, all sparse ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.autodiff.pushing import Rng, pushes
from workbench.scipy import sparse
from workbench.scipy.sparse.linalg import spsolve

# The second list: all sparse ops


ROWS = np.array([0, 0, 2, 2, 2])

COLUMNS = np.array([1, 3, 0, 1, 3])

OTHER = np.array([0, 1, 1, 2, 2]), np.array([0, 1, 3, 1, 2])


def csr(d: Any) -> Any:
    """3×4 with five entries, in rows 0 and 2."""
    return sparse.csr_array((d * 1.0, COLUMNS.copy(), np.array([0, 2, 2, 5])),
                            shape=(3, 4))  # fmt: skip


def csc(d: Any) -> Any:
    return csr(d).tocsc()


def coo(d: Any) -> Any:
    return sparse.coo_array((d * 1.0, OTHER), shape=(3, 4))


def test_C7_sparse_CSM(rng: Rng) -> None:
    """A sparse array of stored values, and dense of it (`DenseFromSparse`)."""
    for make in (csr, csc, coo):
        pushes(lambda d, m=make: m(d**2).toarray(), rng.normal(size=5), rng=rng)


def test_C7_sparse_CSMProperties(rng: Rng) -> None:
    pushes(lambda d: (csr(d) * 3.0).data ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_SparseFromDense(rng: Rng) -> None:
    """Entries of a dense array that are stored; which ones, is fixed."""
    pushes(lambda x: csr(x[ROWS, COLUMNS]).toarray() ** 2, rng.normal(size=(3, 4)),
           rng=rng)  # fmt: skip
    pushes(lambda d, x: csr(d).multiply(x).toarray(), rng.normal(size=5),
           rng.normal(size=(3, 4)), rng=rng)  # fmt: skip


def test_C7_sparse_GetItem(rng: Rng) -> None:
    d = rng.normal(size=5)
    pushes(lambda d: csr(d)[2, 1] ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[1:, ::2].toarray() ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[[2, 0]].toarray() ** 2, d, rng=rng)
    pushes(lambda d: csr(d)[[2, 0], [3, 3]] ** 2, d, rng=rng)


def test_C7_sparse_Transpose(rng: Rng) -> None:
    pushes(lambda d: csr(d).T.toarray() ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_Neg(rng: Rng) -> None:
    pushes(lambda d: (-csr(d)).toarray() ** 2, rng.normal(size=5), rng=rng)


def test_C7_sparse_Cast(rng: Rng) -> None:
    pushes(lambda d: csr(d**2).astype(np.complex128).toarray().real, rng.normal(size=5),
           rng=rng, step="differences")  # fmt: skip


def test_C7_sparse_ColScaleCSC(rng: Rng) -> None:
    pushes(lambda d, s: (csc(d) * s).toarray(), rng.normal(size=5),
           rng.normal(size=4), rng=rng)  # fmt: skip


def test_C7_sparse_RowScaleCSC(rng: Rng) -> None:
    pushes(lambda d, s: csc(d).multiply(s[:, None]).toarray(), rng.normal(size=5),
           rng.normal(size=3), rng=rng)  # fmt: skip


def test_C7_sparse_SpSum(rng: Rng) -> None:
    for axis in (None, 0, 1, -1):
        pushes(lambda d, a=axis: csr(d**2).sum(axis=a), rng.normal(size=5), rng=rng)


def test_C7_sparse_Diag(rng: Rng) -> None:
    square = np.array([0, 0, 1, 2]), np.array([0, 2, 1, 2])
    pushes(lambda d: sparse.csr_array((d, square), shape=(3, 3)).diagonal() ** 2,
           rng.normal(size=4), rng=rng)  # fmt: skip


def test_C7_sparse_SquareDiagonal(rng: Rng) -> None:
    pushes(lambda d: sparse.diags_array(d**2).toarray(), rng.normal(size=3), rng=rng)
    pushes(lambda d: sparse.diags_array([d, d[1:] ** 2], offsets=[0, 1]).toarray(),
           rng.normal(size=3), rng=rng)  # fmt: skip


def test_C7_sparse_Add(rng: Rng) -> None:
    """Sparse and sparse, of the same entries and of others; sparse and dense."""
    d, e, x = rng.normal(size=5), rng.normal(size=5), rng.normal(size=(3, 4))
    pushes(lambda d, e: (csr(d) + coo(e)).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: (csr(d) - csr(e)).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, x: csr(d**2) + x, d, x, rng=rng)


def test_C7_sparse_Mul(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    x, v = rng.normal(size=(3, 4)), rng.normal(size=4)
    pushes(lambda d, e: csr(d).multiply(coo(e)).toarray(), d, e, rng=rng)
    pushes(lambda d, x: (csr(d) * x).toarray(), d, x, rng=rng)
    pushes(lambda d, v: (csr(d) * v).toarray(), d, v, rng=rng)
    pushes(lambda d: (csr(d) * 3.0 / 2.0).toarray() ** 2, d, rng=rng)


def test_C7_sparse_HStack_VStack(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    pushes(lambda d, e: sparse.hstack([csr(d), coo(e)]).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: sparse.vstack([csr(d), coo(e)]).toarray() ** 2, d, e, rng=rng)
    pushes(lambda d, e: sparse.block_array([[csr(d), None], [None, coo(e)]]).toarray()
           ** 2, d, e, rng=rng)  # fmt: skip


def test_C7_sparse_structured_functions(rng: Rng) -> None:
    """Functions of the stored values that keep 0: sin, tan, sqrt, expm1, ..."""
    d = rng.uniform(0.1, 0.7, 5)
    for (
        name
    ) in "sin tan sinh tanh arcsin arctan arcsinh arctanh expm1 log1p sqrt".split():
        pushes(lambda d, n=name: getattr(csr(d), n)().toarray(), d, rng=rng)
    pushes(lambda d: (csr(d) ** 3).toarray(), d, rng=rng)
    pushes(lambda d: csr(d).power(2).toarray(), d, rng=rng)
    pushes(lambda d: abs(csr(d)).toarray(), d, rng=rng, step="differences")


def test_C7_sparse_TrueDot(rng: Rng) -> None:
    d, e = rng.normal(size=5), rng.normal(size=5)
    pushes(lambda d, e: (csr(d) @ coo(e).T).toarray(), d, e, rng=rng)


def test_C7_sparse_StructuredDot(rng: Rng) -> None:
    d, x = rng.normal(size=5), rng.normal(size=(4, 2))
    for make in (csr, csc, coo):
        pushes(lambda d, x, m=make: m(d) @ x, d, x, rng=rng)
        pushes(lambda d, x, m=make: m(d) @ x[:, 0], d, x, rng=rng)


def test_C7_sparse_Dot_from_the_left(rng: Rng) -> None:
    d, x = rng.normal(size=5), rng.normal(size=(2, 3))
    pushes(lambda d, x: x @ csr(d), d, x, rng=rng)
    pushes(lambda d, x: x[0] @ csc(d), d, x, rng=rng)


def test_C7_sparse_SamplingDot(rng: Rng) -> None:
    """Entries of a product of dense matrices, where a sparse one stores some."""
    p, x, y = rng.normal(size=5), rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    pushes(lambda p, x, y: csr(p).multiply(x @ y.T).toarray(), p, x, y, rng=rng)


def test_C7_sparse_Usmm(rng: Rng) -> None:
    """``alpha * x @ y + z``."""
    pushes(lambda s, d, y, z: s * (csr(d) @ y) + z, rng.normal(size=()),
           rng.normal(size=5), rng.normal(size=(4, 2)), rng.normal(size=(3, 2)),
           rng=rng)  # fmt: skip


def test_C7_sparse_Solve(rng: Rng) -> None:
    places = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 2, 1, 0, 2, 1])

    def f(d: Any, b: Any) -> Any:
        return spsolve(sparse.csc_array((d * 1.0, places), shape=(3, 3)), b)

    d = np.array([4.0, 1, 5, 1, 6, 1]) + 0.2 * rng.normal(size=6)
    pushes(f, d, rng.normal(size=3), rng=rng)
    pushes(f, d, rng.normal(size=(3, 2)), rng=rng)


def test_C7_sparse_Remove0_and_EnsureSorted(rng: Rng) -> None:
    """What changes the storage and no entry: the tangent follows the entries."""
    unsorted = np.array([3, 1, 3, 1, 0])

    def f(d: Any) -> Any:
        made = sparse.csr_array((d * 1.0, unsorted, np.array([0, 2, 2, 5])),
                                shape=(3, 4))  # fmt: skip
        return made.tocoo().tocsc().tocsr().toarray() ** 2

    pushes(f, rng.normal(size=5), rng=rng)
