"""The structure of powers and inverses of sparse matrices, whatever their values.

The inverse of a matrix with a full diagonal may differ from zero at (i, j) where j is
reached from i by its entries; so may any power series of it, such as the exponential
(J. R. Gilbert, "Predicting structure in sparse matrix computations", SIAM J. Matrix
Anal. Appl. 15, 1994). Of another matrix the rows are ordered so first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Of so many strongly connected parts it is found by bits which reach which.
MOST_BITS = 4096


def find_reach(matrix: Any, most: float = np.inf) -> Any | None:
    """Return which columns each row reaches by entries of a square matrix, itself too.

    Parameters
    ----------
    matrix
        A boolean CSR array, (n, n).
    most
        None is returned where there are more places than that.
    """
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.csgraph import connected_components

    n = matrix.shape[0]
    if n == 0:
        return matrix
    count, labels = connected_components(matrix, connection="strong")
    sizes = np.bincount(labels, minlength=count)
    if int(sizes @ sizes) > most:
        return None
    places = np.ones(n, bool), (np.arange(n), labels)
    member = csr_array(places, shape=(n, count))
    joined = (member.T @ matrix @ member).tocsr() + eye_array(count, dtype=bool)
    joined = joined.astype(bool)
    closed = _close_by_bits(joined) if count <= MOST_BITS else None
    while closed is None:
        if joined.nnz > most:
            return None
        more = (joined @ joined).astype(bool)
        closed = joined if more.nnz == joined.nnz else None
        joined = more
    if int(sizes @ (closed.astype(np.int64) @ sizes)) > most:
        return None
    made = (member @ closed @ member.T).tocsr().astype(bool)
    made.sort_indices()
    return made


def _close_by_bits(joined: Any) -> Any | None:
    """Return which parts each part reaches, if their numbers are an order of them."""
    from scipy.sparse import csr_array

    count = joined.shape[0]
    rows, columns = joined.nonzero()
    if np.all(rows >= columns):
        order = range(count)
    elif np.all(rows <= columns):
        order = range(count - 1, -1, -1)
    else:
        return None
    bits = np.packbits(np.eye(count, dtype=bool), axis=1)
    indptr, indices = joined.indptr, joined.indices
    for i in order:
        after = indices[indptr[i] : indptr[i + 1]]
        bits[i] = np.bitwise_or.reduce(bits[after], axis=0)
    return csr_array(np.unpackbits(bits, axis=1, count=count).astype(bool))


def find_inverse_structure(matrix: Any, most: float = np.inf) -> Any | None:
    """Return where the inverse of a square matrix of this structure can be nonzero.

    None: every such matrix is singular, or it would have more than ``most`` places.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n = matrix.shape[0]
    if np.all(matrix.diagonal()):
        return find_reach(matrix, most)
    numbers = csr_array(
        (np.ones(matrix.nnz, np.int8), matrix.indices, matrix.indptr), matrix.shape
    )
    column = maximum_bipartite_matching(numbers, perm_type="column")
    if np.any(column < 0):
        return None
    reach = find_reach(matrix[:, column].tocsr(), most)
    if reach is None:
        return None
    # Row i of the ordered inverse is row column[i] of the inverse.
    order = np.empty(n, np.intp)
    order[column] = np.arange(n)
    return reach[order]
