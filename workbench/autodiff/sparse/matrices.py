"""The matrices of a sparse derivative: SciPy's arrays with entries in one place.

Each has index arrays of its own, which its holder may change. SciPy's constructors look
at all of them; here an instance is filled as they would, in a thirtieth of the time.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.core import blame
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.ops.sparse.pattern import SparseStructure, make_array, to_host

#: So many copies of the index arrays are kept: one is mostly still held by the caller.
MOST_COPIES = 2
#: Index arrays of fewer bytes are copied anew: that is fast where memory is at hand.
SMALL = 2**16


class MatrixMaker:
    """The maker of matrices of one pattern in one format.

    Attributes
    ----------
    layout
        Their class and their index arrays.
    name
        How the derivative is called, in errors.
    """

    def __init__(self, pattern: SparsityPattern, format: str, name: str) -> None:
        self.layout = make_layout(pattern, format)
        self.name = name
        self._is_coo = format == "coo"
        self._is_small = sum(part.nbytes for part in self.layout.index) < SMALL
        #: The attributes of an instance but for its arrays.
        self._attributes: list[tuple[str, Any]] | None = None
        #: Index arrays of matrices that were returned, for use once nobody holds them.
        self._copies: deque[list[Any]] = deque(maxlen=MOST_COPIES)

    def make(self, entries: Any) -> Any:
        """Return the matrix of some entries: ours around a Tensor, else SciPy's."""
        if type(entries) is not np.ndarray:
            if isinstance(entries, Tensor):
                return make_tensor(entries, self.layout)
            return make_array(entries, self.layout)
        if self._attributes is None:
            self._attributes = self._list_attributes(entries)
        made = object.__new__(self.layout.kind)
        for name, value in self._attributes:
            setattr(made, name, value)
        made.data = entries
        if self._is_small:
            first, second = self.layout.index
            index = first.copy(), second.copy()
        else:
            index = self._copy_index()
        if self._is_coo:
            made.coords = index
        else:
            made.indices, made.indptr = index
        return made

    def _list_attributes(self, entries: Any) -> list[tuple[str, Any]]:
        """Return the attributes that SciPy gives to each matrix of this structure."""
        arrays = "data", "indices", "indptr", "coords"
        made = vars(self.layout.matrix(entries, own=True))
        return [(name, made[name]) for name in made if name not in arrays]

    def _copy_index(self) -> tuple[Any, Any]:
        """Return copies of the index arrays, in memory that nobody else holds."""
        try:
            parts = self._copies.pop()
        except IndexError:
            parts = []
        is_free = bool(parts) and all(n == _OWN for n in _count_references(parts))
        if is_free and all(map(_is_copy, parts, self.layout.index)):
            for part, source in zip(parts, self.layout.index, strict=True):
                # Mostly nobody has changed it, and to write takes longer than to read.
                if not are_same_bytes(part, source):
                    part[...] = source
        else:
            parts = [part.copy() for part in self.layout.index]
        # The tuple holds them before another thread can find them in the queue.
        made = parts[0], parts[1]
        self._copies.appendleft(parts)
        return made

    def check(self, out: Any, dtype: np.dtype[Any]) -> None:
        """Raise unless a matrix has the index arrays of this derivative.

        Raises
        ------
        UsageError
            If it has others, or its entries cannot hold such a dtype.
        """
        layout = self.layout
        fits = (
            getattr(out, "format", None) == layout.format
            and out.shape == layout.shape
            and out.data.shape == layout.data_shape
            and all(map(are_equal, list_indices(out), layout.index))
        )
        if not fits:
            raise UsageError(
                f"{self.name}: out= is {blame.shorten(repr(out))}, and its entries do"
                f" not stand where those of the {self.name} do: {layout}. Give a matrix"
                " that this derivative returned before, with all its entries."
            )
        if out.dtype != dtype and not np.can_cast(dtype, out.dtype, "same_kind"):
            raise UsageError(
                f"{self.name}: out= holds {out.dtype}, and the entries are {dtype}."
                " Give a matrix that was returned for arguments of this dtype."
            )


def make_tensor(entries: Any, layout: SparseStructure) -> Any:
    """Return the sparse array of entries that are recorded."""
    from workbench.ops.sparse.tensor import SparseTensor

    return SparseTensor(entries, layout)


def make_layout(pattern: SparsityPattern, format: str) -> SparseStructure:
    """Return the class and index arrays of SciPy's array of a pattern."""
    import scipy.sparse

    if format == "csc":
        index: tuple[Any, ...] = pattern.csc[1], pattern.csc[0]
    elif format == "coo":
        index = pattern.rows, pattern.columns
    else:
        index = pattern.indices, pattern.indptr
    kind = getattr(scipy.sparse, f"{format}_array")
    return SparseStructure(kind, format, pattern.shape, index, (pattern.nnz,))


def list_indices(matrix: Any) -> tuple[Any, ...]:
    """Return the index arrays of a sparse array in CSR, CSC or COO."""
    if matrix.format == "coo":
        if not hasattr(matrix, "coords"):  # CuPy's
            return matrix.row, matrix.col
        return tuple(matrix.coords)
    return matrix.indices, matrix.indptr


# Arrays that nobody holds


def _count_references(parts: list[Any]) -> list[int]:
    """Return how many references there are to each of some arrays."""
    count = getattr(sys, "getrefcount", None)
    return [0 if count is None else count(part) for part in parts]


def _is_copy(part: Any, source: Any) -> bool:
    """Return whether an array still has the form of a copy, whatever its holder did."""
    return bool(
        part.shape == source.shape
        and part.dtype == source.dtype
        and part.flags.carray
        and part.flags.owndata
        and weakref.getweakrefcount(part) == 0
    )


#: The references to an array that only a list holds; where Python does not count them,
#: no array is known to be free.
_OWN = _count_references([np.empty(1)])[0] or -1  # host array: only counted


# Arrays that are equal


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two arrays of integers have the same entries."""
    one, other = to_host(one), to_host(other)
    if one.shape != other.shape:
        return False
    if one.dtype == other.dtype and one.flags.c_contiguous and other.flags.c_contiguous:
        return are_same_bytes(one, other)
    return bool(np.array_equal(one, other))


def _find_memcmp() -> Callable[..., int] | None:
    """Return C's function that compares memory, if the process exports the name."""
    try:
        function = ctypes.CDLL(None).memcmp
    except (AttributeError, OSError, TypeError):  # as on Windows
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return function


_memcmp = _find_memcmp()


def are_same_bytes(one: Any, other: Any) -> bool:
    """Return whether arrays of one shape and dtype, without gaps, have the same bytes.

    C reads both once; NumPy would write down what it finds for each entry.
    """
    if _memcmp is None or one.nbytes < SMALL:
        return bool(one.tobytes() == other.tobytes())
    return _memcmp(one.ctypes.data, other.ctypes.data, one.nbytes) == 0
