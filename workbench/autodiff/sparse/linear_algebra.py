"""Which entries of a matrix its factors, its inverse and its solutions read.

Most of linear algebra reads each matrix of a stack as a whole. Factors are triangles,
column by column: Cholesky's L to column j reads the leading block of that size, and the
row that it stands in; Q and R read the columns up to their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import (
    NodeFacts,
    Shape,
    full_relation,
    number_entries,
    relate_dense,
)
from workbench.autodiff.sparse.products import MOST_PRODUCTS
from workbench.autodiff.sparse.relations import Positions, Relation, count_up

#: What is said where a matrix of which some entries never vary is taken as dense.
FIXED_ENTRIES = (
    "it is taken to read each matrix as a whole, and some entries there never vary:"
    " zeros among them are not followed"
)
#: What is said of a triangle whose places are too many to be listed.
TOO_MANY = "its triangle has too many places: it is taken to read all that it may"


def _relate_matrices(node: NodeFacts) -> list[list[Relation | None]]:
    """Relate each matrix of a stack to what is computed of it, and of its fellows."""
    stack = max((s[:-2] for s in node.shapes if s is not None), key=math.prod)
    if any(map(node.has_fixed_entries, range(len(node.shapes)))):
        node.loose = FIXED_ENTRIES
    count = math.prod(stack)
    found = []
    for place, output in enumerate(node.outputs):
        if output[: len(stack)] != stack:
            found.append(relate_dense(node, place))
            continue
        groups = np.repeat(count_up(count), math.prod(output) // max(count, 1))
        row: list[Relation | None] = []
        for shape, varies in zip(node.shapes, node.varies, strict=True):
            size = 0 if shape is None else math.prod(shape)
            fits = shape is not None and shape[: len(stack)] == stack
            if not varies or shape is None:
                row.append(None)
            elif fits:
                members = np.repeat(count_up(count), size // max(count, 1))
                if not row and "UPLO" in node.params:
                    members = np.where(_find_unread(node), -1, members)
                row.append(Relation(groups, members, count))
            else:
                row.append(full_relation(size, math.prod(output)))
        found.append(row)
    return found


def _find_unread(node: NodeFacts) -> Any:
    """Return which entries lie in the triangle that NumPy does not look at."""
    shape = node.shapes[0]
    over = np.triu(np.ones(shape[-2:], bool), 1)
    unread = over if node.params["UPLO"] == "L" else over.T
    return np.broadcast_to(unread, shape).reshape(-1)


# Factors: what each entry reads, listed for one matrix


def _relate_factors(node: NodeFacts) -> list[list[Relation | None]]:
    """Relate the factors of each matrix to the part of it that each entry reads."""
    (shape,) = node.shapes
    rows, columns = shape[-2:]
    if math.prod(shape[:-2]) * (rows * columns) ** 2 > 4 * MOST_PRODUCTS:
        found = _relate_matrices(node)
        node.loose = TOO_MANY
        return found
    if node.has_fixed_entries(0):
        node.loose = FIXED_ENTRIES
    listed = LISTS[node.op.pattern](node, rows, columns)
    return [
        [None if reads is None else _repeat_lists(reads, shape)] for reads in listed
    ]


def _repeat_lists(reads: Sequence[Positions], shape: Shape) -> Relation:
    """Return the relation of a stack, from what each entry reads of one matrix."""
    from scipy.sparse import csr_array, eye_array, kron

    indptr = np.concatenate([[0], np.cumsum([len(r) for r in reads], dtype=np.int64)])
    indices = np.concatenate([*reads, count_up(0)])
    size = shape[-1] * shape[-2]
    one = csr_array(
        (np.ones(len(indices), bool), indices, indptr), shape=(len(reads), size)
    )
    count = math.prod(shape[:-2])
    if count == 1:
        return Relation(matrix=one)
    each = eye_array(count, dtype=bool)
    return Relation(matrix=kron(each, one, format="csr").astype(bool))


def _list_cholesky(node: NodeFacts, n: int, _: int) -> list[list[Positions] | None]:
    """Return what L[i, j] reads: the lower triangle to (j, j), and of row i to j."""
    entries = number_entries((n, n))
    blocks = [entries[:j, :j][np.tril_indices(j)] for j in range(n + 1)]
    nothing = count_up(0)
    reads = []
    for i in range(n):
        for j in range(n):
            if j > i:
                reads.append(nothing)
            elif j == i:
                reads.append(blocks[j + 1])
            else:
                reads.append(np.concatenate([blocks[j + 1], entries[i, : j + 1]]))
    return [reads]


def _list_qr(node: NodeFacts, rows: int, columns: int) -> list[list[Positions] | None]:
    """Return what is read: by Q[:, j] the columns to j, by R[i, j] those to i, and j.

    The last column of a square Q stands at right angles to all others: of real numbers
    only its sign is left, and it does not read its own column.
    """
    entries, few = number_entries((rows, columns)), min(rows, columns)
    is_fixed = rows == few and not node.is_complex
    reach = [j if is_fixed and j == rows - 1 else j + 1 for j in range(few)]
    before = [entries[:, :k].reshape(-1) for k in reach]
    inner = node.outputs[0][-1]
    # What completes a basis turns with all columns before.
    of_q = [*before, *[entries[:, :few].reshape(-1)] * (inner - few)]
    of_r = [
        _join_columns(entries, reach[i], j) if i <= j and i < few else count_up(0)
        for i in range(inner)
        for j in range(columns)
    ]
    return [of_q * rows, of_r]


def _list_lu(node: NodeFacts, rows: int, columns: int) -> list[list[Positions] | None]:
    """Return what is read: the columns to j by L[i, j], before i, and j, by U[i, j].

    Which rows depends on how they are swapped: values decide it, so all may be read.
    """
    entries, few = number_entries((rows, columns)), min(rows, columns)
    nothing = count_up(0)
    before = [entries[:, : j + 1].reshape(-1) for j in range(few)]
    of_l = [before[j] if j < i else nothing for i in range(rows) for j in range(few)]
    of_u = [
        _join_columns(entries, i, j) if i <= j else nothing
        for i in range(few)
        for j in range(columns)
    ]
    return [None, of_l, of_u]


def _join_columns(entries: Positions, count: int, j: int) -> Positions:
    """Return the entries of the first columns, and of column j."""
    if j < count:
        return entries[:, :count].reshape(-1)
    return entries[:, [*range(count), j]].reshape(-1)


def _list_cofactors(node: NodeFacts, n: int, _: int) -> list[list[Positions] | None]:
    """Return what entry (i, j) reads: all but row i and column j."""
    entries, rest = number_entries((n, n)), [np.arange(n) != i for i in range(n)]
    return [[entries[rest[i]][:, rest[j]].ravel() for i in range(n) for j in range(n)]]


LISTS: dict[Any, Callable[..., list[list[Positions] | None]]] = {
    "leading blocks": _list_cholesky,
    "minors": _list_cofactors,
    "columns before a pivot": _list_lu,
    "columns so far": _list_qr,
}


# Solutions


def _relate_solution(node: NodeFacts) -> list[Relation | None]:
    """Relate a solution to its whole matrix, and to its column of the right side."""
    if node.has_fixed_entries(0):
        node.loose = FIXED_ENTRIES
    (a, b), full = node.shapes, node.outputs[0]
    columns = len(b) > 1
    stack = full[:-2] if columns else full[:-1]
    count = math.prod(a[:-2])
    matrix = np.broadcast_to(number_entries(a[:-2]), stack)
    matrix = matrix.reshape(*stack, *(1,) * (len(full) - len(stack)))
    groups = np.broadcast_to(matrix, full).reshape(-1)
    left = Relation(groups, np.repeat(count_up(count), a[-1] * a[-2]), count)
    return [left if node.varies[0] else None, _relate_column(b, full)]


def _relate_triangular(node: NodeFacts) -> list[Relation | None]:
    """Relate a solution by one triangle: x[i] reads what stands before it there.

    ``∂x[i] = -Σ a⁻¹[i, k] ∂a[k, l] x[l]``, and the inverse is a triangle too.
    """
    (a, b), full = node.shapes, node.outputs[0]
    found = _relate_solution(node)
    n, columns = full[-2:]
    lower, unit = node.params["lower"], node.params["unit"]
    row, column = np.indices((n, n))
    triangle = (row >= column) if lower else (row <= column)
    if math.prod(full[:-2]) * columns * n**3 > 6 * MOST_PRODUCTS:
        node.loose = TOO_MANY
        return found
    if node.varies[0]:
        kept = triangle & (row != column) if unit else triangle
        k, place = row[kept], np.flatnonzero(kept)
        reads = [place[(k <= i) if lower else (k >= i)] for i in range(n)]
        found[0] = _spread(reads, a, full, own=False)
    if node.varies[1]:
        reads = [np.flatnonzero(triangle[i]) for i in range(n)]
        found[1] = _spread(reads, b, full, own=True)
    return found


def _spread(
    reads: Sequence[Any], operand: Shape, full: Shape, *, own: bool
) -> Relation:
    """Return what each entry of a stack of solutions reads, from what row i does.

    ``own``: places are rows, and each column reads the same column of an operand;
    else each reads places of the whole matrix. Stacks are broadcast.
    """
    from scipy.sparse import csr_array

    stack, columns = full[:-2], full[-1]
    steps = np.broadcast_to(number_entries(operand[:-2]), stack).reshape(-1)
    starts = steps.astype(np.int64) * (operand[-2] * operand[-1])
    own_column = np.arange(columns) if own else np.zeros(columns, int)
    lengths = np.array([len(r) for r in reads], np.int64)
    one = np.concatenate([
        (own_column[:, None] + r * (columns if own else 1)).reshape(-1) for r in reads
    ] or [np.zeros(0, np.int64)])  # fmt: skip
    indices = (starts[:, None] + one).reshape(-1)
    counts = np.tile(np.repeat(lengths, columns), len(starts))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    shape = math.prod(full), math.prod(operand)
    return Relation(
        matrix=csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)
    )


def _relate_beside_matrix(node: NodeFacts) -> list[Relation | None]:
    """Relate what solves a matrix without a stack: to all of it, and to its column."""
    found = relate_dense(node)
    if node.has_fixed_entries(0):
        node.loose = FIXED_ENTRIES
    if node.varies[1]:
        found[1] = _relate_column(node.shapes[1], node.outputs[0])
    return found


def _relate_column(shape: Shape, full: Shape) -> Relation:
    """Relate each column of a result to the same column of a right side."""
    if len(shape) < 2:
        return full_relation(math.prod(shape), math.prod(full))
    lines = number_entries((*shape[:-2], 1, shape[-1]))
    members = np.broadcast_to(lines, shape).reshape(-1)
    groups = np.broadcast_to(lines, full).reshape(-1)
    return Relation(groups, members, lines.size)


#: What the rows of ops say (`Op.pattern`).
RELATIONS: dict[str, Callable[[NodeFacts], Any]] = {
    "matrix": _relate_matrices,
    "solution": _relate_solution,
    "triangular solution": _relate_triangular,
    "matrix and column": _relate_beside_matrix,
    **dict.fromkeys(LISTS, _relate_factors),
}
