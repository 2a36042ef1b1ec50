"""Where the entries of a matrix stand that can differ from zero."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.autodiff.sparse.colouring import Colouring, colour
from workbench.autodiff.sparse.places import DenseOp, Places
from workbench.core.blame import format_count
from workbench.core.tree import is_sparse
from workbench.errors import DtypeError, ShapeError

#: The formats of SciPy that `SparsityPattern.to_scipy` makes.
FORMATS = ("csr", "csc", "coo")


class SparsityPattern(Places):
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
        counts = np.bincount(row.astype(np.intp), minlength=height)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        self._fill((height, width), indptr, column, tuple(dense_ops), tuple(notes))

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

    def colouring(
        self,
        mode: str = "auto",
        order: str = "auto",
        *,
        symmetric: bool = False,
    ) -> Colouring:
        """Return colours of its columns or rows: few products then give all entries.

        Parameters
        ----------
        mode
            What gets colours: ``"columns"``, ``"rows"``, ``"both"``; of a symmetric
            matrix ``"star"``; ``"auto"`` for the cheapest.
        order
            ``"natural"``, ``"largest_first"``, ``"smallest_last"``; ``"auto"`` looks
            for a stencil or trees first.
        symmetric
            With ``mode="auto"``: it is the pattern of a symmetric matrix, such as a
            Hessian.

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
        return colour(self, mode, order, symmetric=symmetric)

    def report(self) -> str:
        """Return a text of the pattern's size and fill, and of the ops behind the fill.

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
    """Return lines on the ops taken as dense, and on those with a given pattern."""
    dense = [f"  {op}" for op in ops if not op.is_given]
    given = [f"  {op}" for op in ops if op.is_given]
    lines = ["Taken as dense, where it may be sparser:", *dense] if dense else []
    return lines + (["Pattern given by the user:", *given] if given else [])


def check_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of rows and columns; raise an error if not two lengths.

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
