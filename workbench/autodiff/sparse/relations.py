"""Which entries of one array depend on which of another, in compact form.

A `Relation` says it of one op: it is a sparse matrix of truth values, kept as the
product of two maps of indices wherever that is possible (a slice, a broadcast, a sum
over an axis, a dense block for each matrix of a stack). A `Dependence` says it of a
value of a program and of all inputs: a union of few matrices, each of which picks rows
of a table. So the entry of a stencil costs a few integers, and entries that depend on
the same inputs share their list. All of it is NumPy and SciPy on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.autodiff.sparse.places import choose_index_dtype
from workbench.errors import UsageError

#: Positions of entries; -1 where there is none.
Positions = npt.NDArray[np.signedinteger[Any]]
Mask = npt.NDArray[np.bool_]

#: A union of more matrices than this becomes one table.
MOST_TERMS = 16
#: The most places that are written out one by one, 5 bytes each.
MOST_PLACES = 2**28
#: A product of matrices that may have more places is made a few rows after the other,
#: so that it ends as soon as it has too many; and the most terms that it adds up.
MOST_AT_ONCE, MOST_ADDED = 2**25, 2**32


class Relation(NamedTuple):
    """Which entries of an operand each entry of a result depends on.

    Entry ``o`` of the result reads group ``groups[o]``, and entry ``i`` of the operand
    belongs to group ``members[i]``; -1 is no group. None stands for ``0, 1, 2, ...``:
    with ``members`` None each entry is a group of its own, and ``groups`` picks
    entries, as slices and broadcasting do; with ``groups`` None each entry of the
    result is what is left of a group, as in a sum.

    Attributes
    ----------
    groups : (result size,) array or None
        The group that each entry of the result reads.
    members : (operand size,) array or None
        The group of each entry of the operand.
    height
        The number of groups.
    matrix
        A CSR array in place of ``members``: groups by operand. It is boolean; of a sum
        that may add an entry several times it says how often.
    """

    groups: Positions | None = None
    members: Positions | None = None
    height: int = 0
    matrix: Any = None

    @property
    def is_identity(self) -> bool:
        """True if each entry of the result reads the same entry of the operand."""
        return self.groups is None and self.members is None and self.matrix is None

    def pull_mask(self, mask: Mask, size: int) -> Mask:
        """Return which entries of the operand some marked entry of the result reads."""
        if self.matrix is not None:
            rows = np.nonzero(mask)[0] if self.groups is None else self.groups[mask]
            found = np.zeros(size, bool)
            found[self.matrix[np.unique(rows[rows >= 0])].indices] = True
            return found
        if self.groups is None:
            marked = mask
        else:
            marked = np.zeros((size if self.members is None else self.height) + 1, bool)
            marked[self.groups[mask]] = True  # -1 marks the last one, which is none
            marked[-1] = False
            marked = marked[:-1]
        if self.members is None:
            return marked
        return np.append(marked, False)[self.members]


#: Each entry of the result depends on the same entry of the operand.
IDENTITY = Relation()


class UnionTerm(NamedTuple):
    """One matrix of a union: for each entry the row of a table, or -1.

    Attributes
    ----------
    rows : (size,) array or None
        The row for each entry; None for ``0, 1, 2, ...``.
    table
        A boolean CSR array with a column for each input; None for the identity.
    """

    rows: Positions | None
    table: Any

    def select_rows(self, size: int) -> Positions:
        """Return the row for each entry as an array."""
        return count_up(size) if self.rows is None else self.rows


class Dependence:
    """Which of all inputs each entry of a value depends on: a union of terms.

    Parameters
    ----------
    size
        The number of entries.
    width
        The number of inputs.
    terms
        The matrices whose union it is.
    """

    __slots__ = ("size", "terms", "width")

    def __init__(self, size: int, width: int, terms: Sequence[UnionTerm]) -> None:
        self.size = size
        self.width = width
        self.terms = merge_terms(terms)
        if len(self.terms) > MOST_TERMS:
            self.terms = [UnionTerm(None, self.make_csr())]

    def make_csr(self) -> Any:
        """Return the dependence as one boolean CSR array, sorted, without duplicates.

        Raises
        ------
        UsageError
            If it has more than `MOST_PLACES` entries.
        """
        check_count(self.count_places())
        maps = [t.select_rows(self.size) for t in self.terms if t.table is None]
        made = None
        if maps:
            made = stack_maps(maps, (self.size, self.width))
        for term in self.terms:
            if term.table is not None:
                rows = pick_rows(term.table, term.rows)
                made = rows if made is None else made + rows
        if made is None:
            made = make_csr([], [], (self.size, self.width))
        if not made.has_canonical_format:
            made.sum_duplicates()
        return made

    def count_places(self) -> int:
        """Return how many places all terms have; those of several count again."""
        return sum(map(self._count_term, self.terms))

    def _count_term(self, term: UnionTerm) -> int:
        if term.table is None:
            return self.size
        counts = np.append(np.diff(term.table.indptr), 0)
        if term.rows is None:
            return int(counts.sum())
        return int(counts[term.rows].sum(dtype=np.int64))

    def reaches_all(self) -> bool:
        """Return whether each entry depends on some input."""
        found = np.zeros(self.size, bool)
        for rows, table in self.terms:
            if table is None:
                found |= True if rows is None else rows >= 0
            else:
                filled = np.append(np.diff(table.indptr) > 0, False)
                found |= filled[:-1] if rows is None else filled[rows]
        return bool(found.all())

    def compose(self, relation: Relation, size: int) -> Dependence:
        """Return the dependence of a result of ``size`` entries through a relation."""
        if relation.is_identity:
            return self
        return Dependence(size, self.width, self.compose_terms(relation))

    def compose_terms(self, relation: Relation) -> list[UnionTerm]:
        """Return the terms of a result's dependence through a relation."""
        groups, members, height, matrix = relation
        if matrix is not None:
            return [UnionTerm(groups, self._multiply(matrix))]
        if members is None:
            if groups is None:
                return list(self.terms)
            return [UnionTerm(pick(t.rows, groups), t.table) for t in self.terms]
        kept = members >= 0
        entries = np.nonzero(kept)[0] if not kept.all() else None
        left = members if entries is None else members[entries]
        reduced = None
        pairs: list[Positions] = []
        for rows, table in self.terms:
            right = rows if entries is None or rows is None else rows[entries]
            if right is None:
                right = count_up(self.size) if entries is None else entries
            if table is None:
                pairs.append(right)
                continue
            part = multiply(make_csr(left, right, (height, table.shape[0])), table)
            reduced = part if reduced is None else reduced + part
        if pairs:
            part = make_csr(
                np.concatenate([left] * len(pairs)),
                np.concatenate(pairs),
                (height, self.width),
            )
            reduced = part if reduced is None else reduced + part
        return [] if reduced is None else [UnionTerm(groups, reduced)]

    def _multiply(self, matrix: Any) -> Any:
        made = None
        for rows, table in self.terms:
            part = matrix.astype(bool)
            if rows is not None:
                places = part.tocoo()
                columns = rows[places.col]
                width = self.width if table is None else table.shape[0]
                part = make_csr(places.row, columns, (matrix.shape[0], width))
            if table is not None:
                part = multiply(part, table)
            made = part if made is None else made + part
        return made

    def unite(self, others: Sequence[Dependence]) -> Dependence:
        """Return the union with others of the same size."""
        if not others:
            return self
        terms = [t for part in (self, *others) for t in part.terms]
        return Dependence(self.size, self.width, terms)

    def is_within(self, other: Dependence) -> bool:
        """Return whether another one has all of its places."""
        if self is other:
            return True
        known = {(id(t.rows), id(t.table)) for t in other.terms}
        if all((id(t.rows), id(t.table)) for t in self.terms) and all(
            (id(t.rows), id(t.table)) in known for t in self.terms
        ):
            return True
        theirs = other.make_csr()
        return bool((self.make_csr() + theirs).nnz == theirs.nnz)


def as_relation(found: Dependence, most: int) -> Relation | None:
    """Return a result's relation to the one input that a walk began with.

    None where more than ``most`` places are to be written out.
    """
    if len(found.terms) == 1:
        rows, table = found.terms[0]
        return (
            IDENTITY if rows is None and table is None else Relation(rows, matrix=table)
        )
    if found.count_places() > most:
        return None
    return Relation(matrix=found.make_csr())


def make_identity(size: int, width: int, start: int) -> Dependence:
    """Return the dependence of an input: entry i on input ``start + i`` alone."""
    rows = None if size == width else count_up(size) + start
    return Dependence(size, width, [UnionTerm(rows, None)])


def merge_terms(terms: Sequence[UnionTerm]) -> list[UnionTerm]:
    """Return terms without duplicates."""
    if len(terms) < 2:
        return list(terms)
    kept: list[UnionTerm] = []
    for term in terms:
        if not any(_is_same_term(term, other) for other in kept):
            kept.append(term)
    return kept


def _is_same_term(a: UnionTerm, b: UnionTerm) -> bool:
    if a.table is not b.table:
        return False
    if a.rows is b.rows:
        return True
    if a.rows is None or b.rows is None:
        rows = b.rows if a.rows is None else a.rows
        if rows is None or not len(rows) or rows[0] != 0 or rows[-1] != len(rows) - 1:
            return False
        return bool((rows == count_up(len(rows))).all())
    if len(a.rows) and (a.rows[0] != b.rows[0] or a.rows[-1] != b.rows[-1]):
        return False
    return bool(np.array_equal(a.rows, b.rows))


def count_up(size: int) -> Positions:
    """Return 0, 1, 2, ... as positions."""
    return np.arange(size, dtype=choose_index_dtype(size))


def pick(values: Positions | None, index: Positions) -> Positions:
    """Return ``values[index]``, with -1 where the index is -1; None is 0, 1, 2, ..."""
    if values is None:
        return index
    if len(index) and index.min() < 0:
        return np.append(values, values.dtype.type(-1))[index]
    return values[index]


def pick_rows(table: Any, rows: Positions | None) -> Any:
    """Return rows of a CSR array, empty ones where the row is -1."""
    if rows is None:
        return table
    from scipy.sparse import csr_array

    parts = table.data, table.indices, np.append(table.indptr, table.indptr[-1])
    made = csr_array(parts, shape=(table.shape[0] + 1, table.shape[1]))[rows]
    made.has_sorted_indices = table.has_sorted_indices
    made.has_canonical_format = table.has_canonical_format
    return made


def multiply(left: Any, right: Any) -> Any:
    """Return the product of boolean CSR arrays; raise an error if too large.

    Raises
    ------
    UsageError
        If it has more than `MOST_PLACES` entries, or is a sum of too many products.
    """
    counts = np.diff(right.indptr)[left.indices]
    terms = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])[left.indptr]
    if terms[-1] <= MOST_AT_ONCE:
        return left @ right
    if terms[-1] > MOST_ADDED:
        check_count(int(terms[-1]))
    from scipy.sparse import vstack

    parts: list[Any] = []
    count, row = 0, 0
    while row < left.shape[0]:
        end = int(np.searchsorted(terms, terms[row] + MOST_AT_ONCE, "right")) - 1
        end = max(end, row + 1)
        parts.append(left[row:end] @ right)
        count += parts[-1].nnz
        check_count(count)
        row = end
    return vstack(parts, format="csr")


def make_csr(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the boolean CSR array of these places; those with a -1 are left out."""
    from scipy.sparse import coo_array

    rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    if len(rows):
        kept = (rows >= 0) & (columns >= 0)
        if not kept.all():
            rows, columns = rows[kept], columns[kept]
    kind = choose_index_dtype(max(*shape, len(rows)))
    places = rows.astype(kind), columns.astype(kind)
    return coo_array((np.ones(len(rows), bool), places), shape=shape).tocsr()


def stack_maps(maps: Sequence[Positions], shape: tuple[int, int]) -> Any:
    """Return the boolean CSR array with the entries of each map in its rows.

    Row i has the columns ``maps[0][i]``, ``maps[1][i]``, ...; -1 is none.
    """
    from scipy.sparse import csr_array

    ordered = sorted(maps, key=lambda m: int(m[len(m) // 2]) if len(m) else 0)
    table = np.stack(ordered, axis=1)
    if len(maps) > 1:
        ascending = all(bool((a < b).all()) for a, b in pairwise(ordered))
        if not ascending:
            table.sort(axis=1)
    kept = table >= 0
    if len(maps) > 1:
        kept[:, 1:] &= table[:, 1:] != table[:, :-1]
    if kept.all():
        indices = table.reshape(-1)
        indptr = np.arange(len(table) + 1) * len(maps)
    else:
        indices = table[kept]
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    made = csr_array((np.ones(len(indices), bool), indices, indptr), shape=shape)
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def check_count(count: int) -> None:
    """Refuse to write out more places than memory holds.

    Raises
    ------
    UsageError
        If there are more than `MOST_PLACES`.
    """
    if count > MOST_PLACES:
        raise UsageError(
            f"a sparsity pattern of up to {count:.2g} places is too large to be written"
            f" out; the most are {MOST_PLACES:,}. Ask for products with the matrix,"
            " wb.hvp, wb.jvp or wb.vjp, for the pattern of a part of the outputs, or"
            " for the dense matrix: sparse=False."
        )
