"""Sparse arrays: of stored values that vary, and in products with what varies."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from tests.ops.samples.table import Draw, Table, apart, constant, inside
from workbench.core.tensor import Tensor
from workbench.scipy import sparse
from workbench.scipy.sparse.linalg import (
    bicgstab,
    cg,
    eigsh,
    expm,
    gmres,
    inv,
    minres,
    splu,
    spsolve,
)

row = Table()

#: 3×4 with an empty row and an empty column.
ROWS = np.array([0, 0, 2, 2, 2])
COLUMNS = np.array([1, 3, 3, 0, 1])
POINTERS = np.array([0, 2, 2, 5])
SHAPE = (3, 4)


def csr(d: Any) -> Any:
    """On arrays of its own, which SciPy's methods sort in place."""
    return sparse.csr_array((d * 1.0, COLUMNS.copy(), POINTERS.copy()), shape=SHAPE)


def coo(d: Any) -> Any:
    """One place stands twice."""
    places = np.array([0, 0, 2, 2, 0]), np.array([1, 3, 3, 0, 1])
    return sparse.coo_array((d, places), shape=SHAPE)


row("csr @ vector", lambda d, x: csr(d) @ x, apart(5), apart(4), kinds="fc")
row("csr @ matrix", lambda d, x: csr(d) @ x, apart(5), apart(4, 2), kinds="fc")
row("coo @ vector", lambda d, x: coo(d) @ x, apart(5), apart(4))
row("vector @ csr", lambda d, x: x @ csr(d), apart(5), apart(3))
row("matrix @ coo", lambda d, x: x @ coo(d), apart(5), apart(2, 3))
row("sparse transposed @", lambda d, x: csr(d).T @ x, apart(5), apart(3, 2))
row(
    "sparse @ nothing",
    lambda d, x: sparse.csr_array((d, ([], [])), shape=(2, 3)) @ x,
    apart(0),
    apart(3),
)
row(
    "sparse of one row @",
    lambda d, x: sparse.csr_array((d, ([0], [1])), shape=(1, 2)) @ x,
    apart(1),
    apart(2),
)
row("sparse sampled", lambda d, x: (csr(d) * x).sum(axis=1), apart(5), apart(3, 4))
row("sparse scaled", lambda d, x: (csr(d) / x).sum(axis=0), apart(5), apart(1, 4))
row("sparse + dense", lambda d, x: csr(d) + x, apart(5), apart(3, 4))
row(
    "sparse + sparse",
    lambda d, e: (csr(d) - 2.0 * coo(e)).toarray(),
    apart(5),
    apart(5),
    kinds="fc",
)
row(
    "sparse * sparse",
    lambda d, e: (csr(d) * coo(e)).toarray(),
    apart(5),
    apart(5),
)
row("sparse @ sparse", lambda d, e: (csr(d) @ coo(e).T).toarray(), apart(5), apart(5))
row("sparse entries", lambda d: csr(d).tanh().power(2).toarray(), apart(5))
row("sparse rows", lambda d: csr(d)[[2, 0, 2], 1:].toarray(), apart(5))
row("sparse diagonal", lambda d: coo(d).diagonal(1), apart(5))
row("sparse stacked", lambda d: sparse.vstack([csr(d), coo(d)]).toarray(), apart(5))
row("sparse kron", lambda d, e: sparse.kron(csr(d), coo(e)).sum(1), apart(5), apart(5))


def tridiagonal(d: Any) -> Any:
    return sparse.diags_array([d + 4.0, d[1:], d[:-1] / 2], offsets=[0, 1, -1])


row("sparse diagonals", lambda d: tridiagonal(d).toarray(), apart(3))


def system(d: Any) -> Any:
    index = np.array([0, 0, 1, 2, 2, 1, 2]), np.array([0, 2, 1, 0, 2, 1, 2])
    return sparse.csc_array((d, index), shape=(3, 3))


def stored(*shape: int) -> Draw:
    """Values that make a system with a dominant diagonal."""
    strong = np.array([4.0, 0, 2, 0, 5, 2, 0])
    return lambda rng: strong + apart(*shape)(rng) / 2


for _name, _shape in (("vector", (3,)), ("matrix", (3, 2))):
    row(
        f"sparse solve {_name}",
        lambda d, b: spsolve(system(d), b),
        stored(7),
        apart(*_shape),
        truth=lambda d, b: np.linalg.solve(system(d).toarray(), b),
        kinds="fc" if _name == "vector" else "f",
    )
_CONSTANT = scipy.sparse.csr_array(np.array([[1.0, 0, 2], [0, -3, 0]]))
row("constant * x", lambda x: (_CONSTANT * x).sum(axis=0), apart(2, 3))
row("x - constant", lambda x: x - _CONSTANT, apart(2, 3))
row("constant / x", lambda x: (_CONSTANT / x).toarray(), apart(3))


# Largest entries: where `apart` has positive and negative ones, zeros too.

row("sparse max", lambda d: csr(d).max(), apart(5))
row(
    "sparse max of columns",
    lambda d: csr(d).max(axis=0).toarray(),
    apart(5),
    truth=lambda d: np.max(csr(d).toarray(), axis=0),
)
row(
    "sparse min of rows",
    lambda d: coo(d).min(axis=1).toarray(),
    apart(5),
    truth=lambda d: np.min(coo(d).toarray(), axis=1),
)


def larger(d: Any, e: Any) -> Any:
    """The method of the one that varies: that of SciPy's knows no other classes."""
    a, b = csr(d), coo(e)
    return (a.maximum(b) if isinstance(d, Tensor) else b.maximum(a)).toarray()


row(
    "sparse maximum",
    larger,
    apart(5),
    lambda rng: 3.0 * apart(5)(rng),
    truth=lambda d, e: np.maximum(csr(d).toarray(), coo(e).toarray()),
)
row(
    "sparse minimum of a number",
    lambda d: csr(d).minimum(0.5).toarray(),
    apart(5),
    truth=lambda d: np.minimum(csr(d).toarray(), 0.5),
)


# Functions of whole matrices

row(
    "sparse expm",
    lambda d: expm(tridiagonal(d)).toarray(),
    inside(3),
    truth=lambda d: scipy.linalg.expm(tridiagonal(d).toarray()),
)
row(
    "sparse inv",
    lambda d: inv(system(d)).toarray(),
    stored(7),
    truth=lambda d: np.linalg.inv(system(d).toarray()),
)
row(
    "sparse factors",
    lambda d, b: splu(system(d)).solve(b, "T"),
    stored(7),
    apart(3),
    truth=lambda d, b: np.linalg.solve(system(d).toarray().T, b),
)


def symmetric(d: Any) -> Any:
    """Definite, with eigenvalues apart."""
    e = np.concatenate([d[:4] / 4 + constant([3.0, 5.0, 7.0, 9.0], d), d[4:], d[4:]])
    places = [0, 1, 2, 3, 0, 1, 2, 1, 2, 3], [0, 1, 2, 3, 1, 2, 3, 0, 1, 2]
    return sparse.coo_array((e, tuple(map(np.array, places))), shape=(4, 4)).tocsr()


def largest(d: Any) -> Any:
    """Two eigenvalues, and what of their vectors does not depend on a sign."""
    values, vectors = eigsh(symmetric(d), 2, which="LA")
    return np.concatenate([values[None, :], vectors * vectors[:1]])


def largest_of_dense(d: Any) -> Any:
    values, vectors = np.linalg.eigh(symmetric(d).toarray())
    values, vectors = values[2:], vectors[:, 2:]
    return np.concatenate([values[None, :], vectors * vectors[:1]])


row("sparse eigsh", largest, inside(7), truth=largest_of_dense)
for _solver in (cg, minres, bicgstab, gmres):
    row(
        f"sparse {_solver.__name__}",
        lambda d, b, solve=_solver: solve(
            symmetric(d), b, rtol=1e-5 if d.dtype == np.float32 else 1e-13
        )[0],
        inside(7),
        apart(4),
        truth=lambda d, b: np.linalg.solve(symmetric(d).toarray(), b),
    )
