"""Where the entries of a sparse array stand: all of it but their values.

A `Pattern` is fixed while its values vary. It knows the class the values came in,
builds an array of that class around other values, and tells the row and column of
each stored entry. SciPy's classes are known by what they have (`format`, `indices`,
...), so CuPy's, which have the same, do as well.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.errors import UsageError

__all__ = ["Pattern", "host", "pattern_of", "simple"]

Array = Any

#: The attributes that hold the indices of each format.
INDEX = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "dia": ("offsets",),
}

SWAPPED = {"csr": "csc", "csc": "csr"}


class Pattern:
    """The class, shape and indices of a sparse array.

    Attributes
    ----------
    kind
        The class, such as `scipy.sparse.csr_array`.
    format
        Its name in SciPy: ``"csr"``, ``"csc"``, ``"coo"``, ``"bsr"``, ``"dia"``; or
        ``"lil"`` and ``"dok"``, whose entries are listed as those of ``"coo"``.
    shape
        That of the whole array: one or two axes.
    index
        ``(indices, indptr)``, ``(offsets,)``, or the coordinates.
    data_shape
        The shape of the stored values.
    """

    def __init__(
        self,
        kind: Any,
        name: str,
        shape: tuple[int, ...],
        index: tuple[Array, ...],
        data_shape: tuple[int, ...],
    ) -> None:
        self.kind = kind
        self.format = name
        self.shape = shape
        self.index = index
        self.data_shape = data_shape
        #: The last values that an array was built around, and that array.
        self.built: tuple[Any, Any] | None = None
        #: The last values that were factored, and the factors (`solving.py`).
        self.factored: tuple[Any, Any] | None = None

    # Two patterns are the same if the same entries stand in the same order.

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Pattern)
            and self.kind is other.kind
            and self.shape == other.shape
            and self.data_shape == other.data_shape
            and len(self.index) == len(other.index)
            and all(
                a is b or bool((a == b).all())
                for a, b in zip(self.index, other.index, strict=True)
            )
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.shape, self.data_shape))

    def __repr__(self) -> str:
        return self._text

    def __str__(self) -> str:
        size = "×".join(map(str, self.shape))
        return f"{self.kind.__name__} {size}, {self.stored} stored"

    @cached_property
    def _text(self) -> str:
        mark = 0
        for part in self.index:
            mark = zlib.adler32(np.ascontiguousarray(host(part)).tobytes(), mark)
        return f"<{self}, {mark:08x}>"

    @property
    def stored(self) -> int:
        """How many values are stored."""
        return int(np.prod(self.data_shape, dtype=np.int64))

    @property
    def matrixlike(self) -> bool:
        """Whether ``*`` is the matrix product: SciPy's older ``*_matrix`` classes."""
        return not self.kind.__name__.endswith("_array")

    def matrix(self, data: Array, *, own: bool = False) -> Any:
        """An array of the class around these values; ``own``: not sharing indices."""
        if not own and self.built is not None and self.built[0] is data:
            return self.built[1]
        kind = self.kind
        index = tuple(part.copy() for part in self.index) if own else self.index
        if self.format in ("csr", "csc", "bsr"):
            made = kind((data, *index), shape=self.shape)
        elif self.format == "dia":
            made = kind((data, *index), shape=self.shape)
        elif self.format == "coo":
            made = kind((data, index), shape=self.shape)
        else:
            made = kind(self.family("coo")((data, index), shape=self.shape))
        if not own:
            self.built = (data, made)
        return made

    def family(self, name: str) -> Any:
        """The class of another format, from the same library and of the same sort."""
        from importlib import import_module

        library = self.kind.__module__.partition(".sparse")[0] + ".sparse"
        sort = "matrix" if self.matrixlike else "array"
        return getattr(import_module(library), f"{name}_{sort}")

    @property
    def exact(self) -> bool:
        """Whether the values are the entries, in CSR, CSC or COO."""
        if self.format in ("csr", "csc"):
            return self.stored == int(self.index[1][-1])
        return self.format == "coo"

    # Coordinates, on the host

    @cached_property
    def _listed(self) -> tuple[Array, Array, Array | None]:
        """Rows and columns of all entries, and which of the values these are."""
        parts = tuple(map(host, self.index))
        rows: Array
        if self.format in ("csr", "csc", "bsr"):
            indices, indptr = parts
            counts = np.diff(indptr)
            major = np.repeat(
                np.arange(len(counts)),  # host array: indices
                counts,
            )
            minor = indices[: len(major)].astype(np.int64)
            if self.format == "bsr":
                height, width = self.data_shape[1:]
                down, right = np.indices((height, width))
                rows = (major * height)[:, None, None] + down
                columns = (minor * width)[:, None, None] + right
                rows, columns = rows.ravel(), columns.ravel()
            else:
                rows, columns = major, minor
                if self.format == "csc":
                    rows, columns = columns, rows
            used = len(rows)
            if used == self.stored:
                return rows, columns, None
            return rows, columns, np.arange(used)  # host array: indices
        if self.format == "dia":
            height, width = self.shape
            offset, columns = np.broadcast_arrays(
                parts[0][:, None].astype(np.int64),
                np.arange(self.data_shape[1]),  # host array: indices
            )
            rows = columns - offset
            inside = (rows >= 0) & (rows < height) & (columns < width)
            return rows[inside], columns[inside], np.flatnonzero(inside)
        if len(parts) == 1:
            columns = parts[0].astype(np.int64)
            return np.zeros_like(columns), columns, None
        return parts[0].astype(np.int64), parts[1].astype(np.int64), None

    @property
    def rows(self) -> Array:
        """The row of each entry."""
        return self._listed[0]

    @property
    def columns(self) -> Array:
        """The column of each entry."""
        return self._listed[1]

    @property
    def kept(self) -> Array | None:
        """Which of the values, in C order, are entries; None: all of them."""
        return self._listed[2]

    @property
    def plane(self) -> tuple[int, int]:
        """The shape with two axes: a vector is a row."""
        shape = self.shape
        return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])

    @cached_property
    def keys(self) -> Array:
        """One number per entry: its place in the whole array in C order."""
        return self.rows * max(self.plane[1], 1) + self.columns

    @cached_property
    def distinct(self) -> bool:
        """Whether no two entries stand in the same place."""
        keys = self.keys
        return bool((np.diff(keys) > 0).all()) or len(np.unique(keys)) == len(keys)

    def locate(self, rows: Array, columns: Array) -> Array:
        """Which entries stand in these places; all of them must be there."""
        order = np.argsort(self.keys, kind="stable")
        wanted = rows * max(self.plane[1], 1) + columns
        return order[np.searchsorted(self.keys, wanted, sorter=order)]

    # Patterns made from this one

    @cached_property
    def T(self) -> Pattern:
        """The pattern of the transpose; the values keep their order."""
        name = SWAPPED.get(self.format, self.format)
        if not self.exact or len(self.shape) == 1:
            return simple(self).T
        index = self.index[::-1] if self.format == "coo" else self.index
        shape = self.shape[::-1]
        made = Pattern(self.family(name), name, shape, index, self.data_shape)
        made.__dict__["T"] = self
        return made

    def repeated(self, count: int) -> Pattern:
        """The pattern of a block diagonal of ``count`` copies, one after the other."""
        height, width = self.plane
        step = np.arange(count)[:, None]  # host array: indices
        rows = (self.rows + step * height).ravel()
        columns = (self.columns + step * width).ravel()
        shape = (count * height, count * width)
        if self.format == "csr":
            pointers = (host(self.index[1])[:-1] + step * self.stored).ravel()
            pointers = np.append(pointers, count * self.stored)
            return Pattern(self.kind, "csr", shape, (columns, pointers), rows.shape)
        return Pattern(self.family("coo"), "coo", shape, (rows, columns), rows.shape)


def host(part: Array) -> Array:
    """An index array in NumPy: that of CuPy comes from the device."""
    return part if isinstance(part, np.ndarray) else part.get()


def pattern_of(s: Any) -> tuple[Pattern, Any]:
    """The pattern and the values of a sparse array."""
    kind, name, shape = type(s), s.format, tuple(s.shape)
    if len(shape) > 2:
        raise UsageError(
            f"a sparse array of shape {shape}{blame.here()}: those of one or two axes"
            " are known. Reshape it, or write .toarray()."
        )
    if name not in (*INDEX, "coo"):
        s = s.tocoo()
    if name in INDEX and not (len(shape) == 1):
        index = tuple(getattr(s, part) for part in INDEX[name])
    else:
        s = s.tocoo()
        index = tuple(s.coords) if hasattr(s, "coords") else (s.row, s.col)
        if name in INDEX:
            name, kind = "coo", type(s)
    made = Pattern(kind, name, shape, index, tuple(s.data.shape))
    if type(s) is kind:
        made.built = (s.data, s)
    return made, s.data


def simple(pattern: Pattern) -> Pattern:
    """The same entries, with two axes, as a flat list of values in CSR, CSC or COO."""
    if len(pattern.shape) == 2 and pattern.exact:
        return pattern
    found: Pattern | None = pattern.__dict__.get("simple")
    if found is None:
        rows, columns = pattern.rows, pattern.columns
        found = Pattern(
            pattern.family("coo"), "coo", pattern.plane, (rows, columns), rows.shape
        )
        pattern.__dict__["simple"] = found
    return found
