"""The index arrays of a sparsity pattern, and the ops that made the pattern dense.

What colours and the formats of SciPy need is here; how patterns are made, joined and
told of is in `pattern.py`, which is above the colourings.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from workbench.core.blame import format_count
from workbench.core.sites import Site

#: The index arrays of a pattern: int32 where that is enough, else int64.
Indices = npt.NDArray[np.signedinteger[Any]]


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


class Places:
    """Some places of a matrix, sorted by row, then by column; see `SparsityPattern`."""

    __slots__ = ("__dict__", "dense_ops", "indices", "indptr", "notes", "shape")

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
    ) -> Self:
        """Return the pattern of CSR arrays that are sorted and free of duplicates.

        Nothing is checked: it is for those who have just made them.
        """
        pattern = cls.__new__(cls)
        pattern._fill(shape, indptr, indices, tuple(dense_ops), tuple(notes))
        return pattern

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
    def T(self) -> Self:
        """The pattern of the transposed matrix."""
        indptr, indices, _ = self.csc
        shape = self.shape[::-1]
        transposed = self.from_csr(shape, indptr, indices, self.dense_ops, self.notes)
        transposed.__dict__["T"] = self
        return transposed

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Places)
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
            f"<{type(self).__name__} {height}×{width}, {count}, density"
            f" {self.density:.3g}>"
        )


def choose_index_dtype(largest: int) -> np.dtype[Any]:
    """Return int32 if the largest index or count fits, else int64."""
    return np.dtype(np.int32 if largest < 2**31 - 1 else np.int64)


def _freeze(values: npt.NDArray[Any], kind: np.dtype[Any]) -> Indices:
    """Return an array of indices that cannot be written."""
    made = np.asarray(values, kind)
    if made.base is not None or made is values:
        made = made.view()
    made.flags.writeable = False
    return made
