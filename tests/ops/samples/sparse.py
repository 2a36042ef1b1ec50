"""Sparse arrays: of stored values that vary, and in products with what varies."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from tests.ops.samples.table import Draw, Table, apart
from workbench.scipy import sparse
from workbench.scipy.sparse.linalg import spsolve

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
