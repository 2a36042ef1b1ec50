"""Where the entries of a matrix stand that can differ from zero."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.autodiff.sparse.colouring import Colouring, colour
from workbench.core.blame import format_count
from workbench.core.source import Site
from workbench.core.tree import is_sparse
from workbench.errors import DtypeError, ShapeError

#: The index arrays of a pattern: int32 where that is enough, else int64.
Indices = npt.NDArray[np.signedinteger[Any]]

#: The formats of SciPy that `SparsityPattern.to_scipy` makes.
FORMATS = ("csr", "csc", "coo")


class DenseOp(NamedTuple):
    """An op that was taken to let each entry of its result depend on many.

    Attributes
    ----------
    name
        The op's name.
    site
        The user's line that calls it, if one is known.
    reason
        Why: what is not known, or what makes it so.
    is_own
        Its derivatives are those of a rule of its own: a Hessian need not be symmetric.
    is_given
        It is not dense: a user has said which entries it reads.
    """

    name: str
    site: Site | None
    reason: str
    is_own: bool = False
    is_given: bool = False

    def __str__(self) -> str:
        place = "" if self.site is None else f" ({self.site})"
        return f"{self.name}{place}: {self.reason}"


class SparsityPattern:
    """The places of a matrix where an entry can differ from zero.

    It is fixed while the values of a Jacobian or Hessian vary, and never changes.
    Rows stand for entries of the outputs, columns for entries of the inputs, each
    flattened in C order and one after the other where there are several.

    Parameters
    ----------
    shape
        The numbers of rows and columns.
    rows, columns
        The row and the column of each place, in any order; what is named twice counts
        once.
    dense_ops
        Which ops of the program could not say better than that each entry of their
        result depends on many of their operand.
    notes
        For which values it holds, in sentences, where it does not for all.

    Attributes
    ----------
    shape : tuple of int
        The numbers of rows and columns.
    nnz : int
        How many places there are.
    density : float
        Their share of all entries; 0 where there are none.
    rows, columns : (nnz,) arrays of int
        The places, sorted by row, then by column.
    indptr, indices : (rows + 1,) and (nnz,) arrays of int
        The same as SciPy's CSR arrays have it: the columns of row i are
        ``indices[indptr[i]:indptr[i + 1]]``.
    dense_ops : tuple of DenseOp
        The ops that were taken as dense, each with its name, site and reason; and
        those of which a user has given the pattern (``is_given``).
    notes : tuple of str
        For which values it holds, where it does not for all.

    Raises
    ------
    ShapeError
        If the shape is not of two axes, or a place lies outside of it.

    Examples
    --------
    >>> import workbench as wb
    >>> wb.SparsityPattern((2, 3), rows=[0, 1, 1], columns=[0, 1, 2])
    <SparsityPattern 2×3, 3 nonzeros, density 0.5>
    """

    __slots__ = ("__dict__", "dense_ops", "indices", "indptr", "notes", "shape")

    def __init__(
        self,
        shape: Sequence[int],
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        *,
        dense_ops: Collection[DenseOp] = (),
        notes: Collection[str] = (),
    ) -> None:
        height, width = check_shape(shape)
        row = _check_places("row", rows, height)
        column = _check_places("column", columns, width)
        if row.shape != column.shape:
            raise ShapeError(
                f"{row.size} rows and {column.size} columns do not name the places of a"
                " sparsity pattern: give one row and one column for each place."
            )
        keys = row * width + column
        if keys.size and not bool((keys[1:] > keys[:-1]).all()):
            keys = np.unique(keys)
        row, column = np.divmod(keys, max(width, 1))
        counts = np.bincount(row, minlength=height)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        self._fill((height, width), indptr, column, tuple(dense_ops), tuple(notes))

    def _fill(
        self,
        shape: tuple[int, int],
        indptr: npt.NDArray[Any],
        indices: npt.NDArray[Any],
        dense_ops: tuple[DenseOp, ...],
        notes: tuple[str, ...] = (),
    ) -> None:
        kind = choose_index_dtype(max(*shape, len(indices)))
        self.shape = shape
        self.indptr = _freeze(indptr, kind)
        self.indices = _freeze(indices, kind)
        self.dense_ops = dense_ops
        self.notes = notes

    @classmethod
    def from_csr(
        cls,
        shape: tuple[int, int],
        indptr: npt.NDArray[Any],
        indices: npt.NDArray[Any],
        dense_ops: Collection[DenseOp] = (),
        notes: Collection[str] = (),
    ) -> SparsityPattern:
        """Return the pattern of CSR arrays that are sorted and free of duplicates.

        Nothing is checked: it is for those who have just made them.
        """
        pattern = cls.__new__(cls)
        pattern._fill(shape, indptr, indices, tuple(dense_ops), tuple(notes))
        return pattern

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparsityPattern:
        """Return the places of the entries that a matrix stores.

        Parameters
        ----------
        matrix
            A sparse array or matrix of SciPy, in any format: each stored entry counts,
            a stored zero too. Or an array of two axes: what is not 0 counts (NaN does).

        Raises
        ------
        ShapeError
            If it has not two axes.
        DtypeError
            If it holds no numbers.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> wb.SparsityPattern.from_scipy(np.eye(3))
        <SparsityPattern 3×3, 3 nonzeros, density 0.333>
        """
        if isinstance(matrix, SparsityPattern):
            return matrix
        if is_sparse(matrix):
            shape = check_shape(matrix.shape)
            places = matrix.tocoo()
            if matrix.format == "dia":  # its own COO leaves stored zeros out
                rows, columns = _list_diagonals(matrix)
            else:
                rows, columns = places.row, places.col
            return cls(shape, rows, columns)
        dense = np.asarray(matrix)
        if dense.dtype.kind not in "biufc":
            raise DtypeError(
                f"a sparsity pattern is made of numbers, not of {dense.dtype}: give an"
                " array of 0 and 1, or a sparse array of SciPy."
            )
        return cls(check_shape(dense.shape), *np.nonzero(dense))

    @classmethod
    def full(
        cls, shape: Sequence[int], dense_ops: Collection[DenseOp] = ()
    ) -> SparsityPattern:
        """Return the pattern of a dense matrix.

        Examples
        --------
        >>> import workbench as wb
        >>> wb.SparsityPattern.full((2, 2)).nnz
        4
        """
        height, width = check_shape(shape)
        indptr = np.arange(height + 1) * width
        indices = np.tile(np.arange(width), height)
        return cls.from_csr((height, width), indptr, indices, dense_ops)

    @property
    def nnz(self) -> int:
        """The number of places."""
        return len(self.indices)

    @property
    def density(self) -> float:
        """The share of entries that can differ from zero; 0 for an empty matrix."""
        height, width = self.shape
        return self.nnz / (height * width) if height and width else 0.0

    @cached_property
    def rows(self) -> Indices:
        """The row of each place, ascending."""
        counts = np.diff(self.indptr)
        rows = np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), counts)
        return _freeze(rows, self.indices.dtype)

    @property
    def columns(self) -> Indices:
        """The column of each place, ascending within a row."""
        return self.indices

    @cached_property
    def csc(self) -> tuple[Indices, Indices, Indices]:
        """The same by columns: ``indptr``, rows, and where each place is in CSR.

        Values in the order of CSR become those of CSC as ``values[csc[2]]``.
        """
        from scipy.sparse import csr_array

        order = np.arange(self.nnz, dtype=self.indices.dtype)
        by_columns = csr_array((order, self.indices, self.indptr), self.shape).tocsc()
        kind = self.indices.dtype
        return (
            _freeze(by_columns.indptr, kind),
            _freeze(by_columns.indices, kind),
            _freeze(by_columns.data, kind),
        )

    @cached_property
    def T(self) -> SparsityPattern:
        """The pattern of the transposed matrix."""
        indptr, indices, _ = self.csc
        shape = self.shape[::-1]
        transposed = SparsityPattern.from_csr(
            shape, indptr, indices, self.dense_ops, self.notes
        )
        transposed.__dict__["T"] = self
        return transposed

    def to_scipy(self, format: str = "csr") -> Any:
        """Return a sparse array of SciPy that is True at each place.

        Parameters
        ----------
        format
            ``"csr"``, ``"csc"`` or ``"coo"``.

        Raises
        ------
        ValueError
            If the format is another one.

        Examples
        --------
        >>> import workbench as wb
        >>> wb.SparsityPattern((2, 2), [0, 1], [1, 0]).to_scipy().toarray()
        array([[False,  True],
               [ True, False]])
        """
        from scipy import sparse

        if format not in FORMATS:
            raise ValueError(
                f"a sparsity pattern has no format {format!r}. Write one of"
                f" {', '.join(map(repr, FORMATS))}."
            )
        marks = np.ones(self.nnz, bool)
        if format == "csc":
            indptr, indices, _ = self.csc
            return sparse.csc_array(
                (marks, indices.copy(), indptr.copy()), shape=self.shape
            )
        if format == "coo":
            places = self.rows.copy(), self.indices.copy()
            return sparse.coo_array((marks, places), shape=self.shape)
        index = self.indices.copy(), self.indptr.copy()
        return sparse.csr_array((marks, *index), shape=self.shape)

    def toarray(self) -> npt.NDArray[np.bool_]:
        """Return a dense array that is True at each place."""
        dense = np.zeros(self.shape, bool)
        dense[self.rows, self.indices] = True
        return dense

    def contains(self, other: SparsityPattern) -> bool:
        """Return whether each place of another pattern is one of this.

        Raises
        ------
        ShapeError
            If their shapes differ.
        """
        return (self | other).nnz == self.nnz

    def __or__(self, other: object) -> SparsityPattern:
        if not isinstance(other, SparsityPattern):
            return NotImplemented
        if other.shape != self.shape:
            raise ShapeError(
                f"patterns of the shapes {self.shape} and {other.shape} have no union:"
                " they describe matrices of different sizes."
            )
        return SparsityPattern(
            self.shape,
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.indices, other.indices]),
            dense_ops=dict.fromkeys((*self.dense_ops, *other.dense_ops)),
            notes=dict.fromkeys((*self.notes, *other.notes)),
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, SparsityPattern)
            and self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    @cached_property
    def _hash(self) -> int:
        parts = self.indptr.tobytes(), self.indices.tobytes()
        return hash((self.shape, *parts))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        height, width = self.shape
        count = format_count(self.nnz, "nonzero")
        return (
            f"<SparsityPattern {height}×{width}, {count}, density {self.density:.3g}>"
        )

    def colouring(
        self,
        mode: str = "auto",
        order: str = "auto",
        *,
        symmetric: bool = False,
        seed: int = 0,
    ) -> Colouring:
        """Return colours of its columns or rows: few products then give all entries.

        Parameters
        ----------
        mode
            What gets colours: ``"columns"``, ``"rows"``, ``"both"``; of a symmetric
            matrix ``"star"`` or ``"acyclic"``; ``"auto"`` for the cheapest.
        order
            ``"natural"``, ``"largest_first"``, ``"smallest_last"``, ``"incidence"``,
            ``"random"``; ``"auto"`` looks for a stencil or trees first.
        symmetric
            With ``mode="auto"``: it is the pattern of a symmetric matrix, such as a
            Hessian.
        seed
            That of the random order.

        Raises
        ------
        UsageError
            If there is no such mode or order.
        ShapeError
            If a symmetric matrix is meant, and the pattern is none of one.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> pattern = wb.SparsityPattern.from_scipy(np.eye(6) + np.eye(6, k=1))
        >>> pattern.colouring().colours
        array([0, 1, 0, 1, 0, 1], dtype=int32)
        """
        return colour(self, mode, order, symmetric=symmetric, seed=seed)

    def report(self) -> str:
        """Return in words how large and how full it is, and what made it so.

        Examples
        --------
        >>> import workbench as wb
        >>> print(wb.SparsityPattern((2, 2), [0, 1], [0, 1]).report())
        2×2, 2 nonzeros (50 % of all entries), at most 1 in a row and 1 in a column.
        Each op of the program says exactly which entries it reads.
        """
        height, width = self.shape
        most = int(np.diff(self.indptr).max(initial=0))
        tallest = int(np.bincount(self.indices, minlength=1).max(initial=0))
        lines = [
            f"{height}×{width}, {format_count(self.nnz, 'nonzero')}"
            f" ({100 * self.density:.3g} % of all entries), at most {most} in a row and"
            f" {tallest} in a column."
        ]
        told = describe_ops(self.dense_ops)
        if all(op.is_given for op in self.dense_ops):
            told.append("Each op of the program says exactly which entries it reads.")
        return "\n".join([*lines, *told, *self.notes])


def describe_ops(ops: Sequence[DenseOp]) -> list[str]:
    """Return in words which ops were taken as dense, and whose pattern was given."""
    dense = [f"  {op}" for op in ops if not op.is_given]
    given = [f"  {op}" for op in ops if op.is_given]
    lines = ["Taken as dense, where it may be sparser:", *dense] if dense else []
    return lines + (["Pattern given by the user:", *given] if given else [])


def check_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of rows and columns; raise if it is not the shape of a matrix.

    Raises
    ------
    ShapeError
        If there are not two lengths, or one is negative.
    """
    lengths = tuple(int(n) for n in shape)
    if len(lengths) != 2 or min(lengths) < 0:
        raise ShapeError(
            f"a sparsity pattern has two axes, rows and columns, not the shape"
            f" {lengths}. Flatten the outputs and the inputs: pattern of"
            " y.reshape(-1) by x.reshape(-1)."
        )
    return lengths[0], lengths[1]


def choose_index_dtype(largest: int) -> np.dtype[Any]:
    """Return int32 where it holds the largest index or count, else int64."""
    return np.dtype(np.int32 if largest < 2**31 - 1 else np.int64)


def _check_places(what: str, places: npt.ArrayLike, length: int) -> npt.NDArray[Any]:
    found = np.asarray(places)
    if not found.size:
        return np.zeros(0, np.int64)
    if found.dtype.kind not in "iu":
        raise DtypeError(
            f"the {what}s of a sparsity pattern are integers, not {found.dtype}."
        )
    found = found.astype(np.int64).reshape(-1)
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= length:
        wrong = low if low < 0 else high
        raise ShapeError(
            f"{what} {wrong} lies outside of a sparsity pattern with {length}"
            f" {what}s (0 to {length - 1})."
        )
    return found


def _list_diagonals(matrix: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the places that an array of SciPy's diagonal format stores."""
    height, width = matrix.shape
    columns = np.arange(matrix.data.shape[1])
    places = [columns - offset for offset in matrix.offsets]
    kept = [(0 <= rows) & (rows < height) & (columns < width) for rows in places]
    return (
        np.concatenate(
            [r[k] for r, k in zip(places, kept, strict=True)] or [columns[:0]]
        ),
        np.concatenate([columns[k] for k in kept] or [columns[:0]]),
    )


def _freeze(values: npt.NDArray[Any], kind: np.dtype[Any]) -> Indices:
    """Return an array of indices that cannot be written."""
    made = np.asarray(values, kind)
    if made.base is not None or made is values:
        made = made.view()
    made.flags.writeable = False
    return made
