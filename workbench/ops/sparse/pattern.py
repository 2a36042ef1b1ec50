"""Where the entries of a sparse array stand, and the ops that need only that.

A `SparseStructure` is fixed while its values vary. It knows the class the values came
in, builds an array of that class around other values, and tells the row and column of
each stored entry. SciPy's classes are known by what they have (`format`, `indices`,
...), so CuPy's, which have the same, do as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.dims import unify_lengths
from workbench.core.op import Op, Reading, declare
from workbench.core.tensor import Tensor, apply
from workbench.core.tree import is_sparse
from workbench.core.types import Array, Batched, Params, Spec, as_spec, is_device_array
from workbench.errors import UsageError
from workbench.ops.contraction import product_dtype
from workbench.ops.define import multilinear, shape_of
from workbench.ops.device import find_library
from workbench.ops.indexing import ARRAY, SCATTER, find_library_ufunc
from workbench.ops.shaping import moveaxis

#: The attributes that hold the indices of each format.
INDEX = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "dia": ("offsets",),
}

SWAPPED = {"csr": "csc", "csc": "csr"}


class SparseStructure:
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
        kind: type[Any],
        name: str,
        shape: tuple[int, ...],
        index: tuple[Any, ...],
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

    def __reduce__(self) -> Any:
        """Pickle without what was made of it: SuperLU's factors cannot be pickled."""
        told = self.kind, self.format, self.shape, self.index, self.data_shape
        return SparseStructure, told

    # Two patterns are the same if the same entries stand in the same order.

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, SparseStructure)
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
            mark = zlib.adler32(np.ascontiguousarray(to_host(part)).tobytes(), mark)
        return f"<{self}, {mark:08x}>"

    @property
    def stored(self) -> int:
        """The number of stored values."""
        return int(np.prod(self.data_shape, dtype=np.int64))

    @property
    def matrixlike(self) -> bool:
        """True if ``*`` is the matrix product, as in SciPy's older classes."""
        return not self.kind.__name__.endswith("_array")

    def matrix(self, data: Array, *, own: bool = False) -> Any:
        """Build the array of these values; ``own``: with indices of its own."""
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

    def family(self, name: str) -> type[Any]:
        """Return the class of another format, of the same library and sort."""
        from importlib import import_module

        library = self.kind.__module__.partition(".sparse")[0] + ".sparse"
        sort = "matrix" if self.matrixlike else "array"
        return getattr(import_module(library), f"{name}_{sort}")

    @property
    def exact(self) -> bool:
        """True if the values are the entries, in CSR, CSC or COO."""
        if self.format in ("csr", "csc"):
            return self.stored == int(self.index[1][-1])
        return self.format == "coo"

    # Coordinates, on the host

    @cached_property
    def _listed(self) -> tuple[Any, Any, Any]:
        """Rows and columns of all entries, and which of the values these are."""
        parts = tuple(map(to_host, self.index))
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
    def rows(self) -> np.ndarray[Any, Any]:
        """The row of each entry."""
        return self._listed[0]

    @property
    def columns(self) -> np.ndarray[Any, Any]:
        """The column of each entry."""
        return self._listed[1]

    @property
    def entry_places(self) -> np.ndarray[Any, Any] | None:
        """The places of the entries among the values, in C order; None: all of them."""
        return self._listed[2]

    @property
    def plane(self) -> tuple[int, int]:
        """The shape with two axes: a vector is a row."""
        shape = self.shape
        return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])

    @cached_property
    def keys(self) -> np.ndarray[Any, Any]:
        """One number per entry: its place in the whole array in C order."""
        return self.rows * max(self.plane[1], 1) + self.columns

    @cached_property
    def distinct(self) -> bool:
        """True if no two entries stand in the same place."""
        keys = self.keys
        return bool((np.diff(keys) > 0).all()) or len(np.unique(keys)) == len(keys)

    def locate(
        self, rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]
    ) -> Array:
        """Return which entries stand in these places; all of them must be there."""
        order = np.argsort(self.keys, kind="stable")
        wanted = rows * max(self.plane[1], 1) + columns
        return order[np.searchsorted(self.keys, wanted, sorter=order)]

    # Patterns made from this one

    @cached_property
    def T(self) -> SparseStructure:
        """The pattern of the transpose; the values keep their order."""
        name = SWAPPED.get(self.format, self.format)
        if not self.exact or len(self.shape) == 1:
            return flatten_pattern(self).T
        index = self.index[::-1] if self.format == "coo" else self.index
        shape = self.shape[::-1]
        made = SparseStructure(self.family(name), name, shape, index, self.data_shape)
        made.__dict__["T"] = self
        return made

    def repeated(self, count: int) -> SparseStructure:
        """Return the pattern of a block diagonal of ``count`` copies."""
        height, width = self.plane
        step = np.arange(count)[:, None]  # host array: indices
        rows = (self.rows + step * height).ravel()
        columns = (self.columns + step * width).ravel()
        shape = (count * height, count * width)
        if self.format == "csr":
            pointers = (to_host(self.index[1])[:-1] + step * self.stored).ravel()
            pointers = np.append(pointers, count * self.stored)
            return SparseStructure(
                self.kind, "csr", shape, (columns, pointers), rows.shape
            )
        return SparseStructure(
            self.family("coo"), "coo", shape, (rows, columns), rows.shape
        )


def to_host(part: Any) -> np.ndarray[Any, Any]:
    """Return an index array in NumPy: that of CuPy comes from the device."""
    return part if isinstance(part, np.ndarray) else part.get()


def pattern_of(s: Any) -> tuple[SparseStructure, Any]:
    """Return the pattern and the values of a sparse array."""
    kind, name, shape = type(s), s.format, tuple(s.shape)
    if len(shape) > 2:
        raise UsageError(
            f"a sparse array of shape {shape}{blame.user_line()}: those of one or two"
            " axes are known. Reshape it, or write .toarray()."
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
    made = SparseStructure(kind, name, shape, index, tuple(s.data.shape))
    if type(s) is kind:
        made.built = (s.data, s)
    return made, s.data


def flatten_pattern(pattern: SparseStructure) -> SparseStructure:
    """Return the same entries with two axes, as a flat list in CSR, CSC or COO."""
    if len(pattern.shape) == 2 and pattern.exact:
        return pattern
    found: SparseStructure | None = pattern.__dict__.get("simple")
    if found is None:
        rows, columns = pattern.rows, pattern.columns
        found = SparseStructure(
            pattern.family("coo"), "coo", pattern.plane, (rows, columns), rows.shape
        )
        pattern.__dict__["simple"] = found
    return found


# The product of a sparse array with a dense one, and what its derivative needs.
#
# Both ops are linear in each operand. The cotangent of the stored values is the dense
# product read off at their places alone (the "sampled" product), so nothing of the
# size of the whole array is ever made.


#: The most numbers that a sampled product gathers at a time.
MOST_GATHERED = 2**22


def match_library(array: Any, like: Any) -> Any:
    """Return an index or a seed in the library, and on the device, of other values."""
    value = getattr(like, "_value", like)
    if isinstance(value, (np.ndarray, np.generic)) or np.isscalar(value):
        return array
    return array if value is None else np.asarray(array, like=value)


def make_array(data: Array, pattern: SparseStructure) -> Any:
    """Return the sparse array around these values; None if their library has none."""
    if isinstance(data, np.ndarray):
        if all(isinstance(part, np.ndarray) for part in pattern.index):
            return pattern.matrix(data)
    elif is_device_array(data):
        kind = getattr(find_library(data, "sparse"), f"{pattern.format}_matrix")
        index = tuple(match_library(part, data) for part in pattern.index)
        own = SparseStructure(
            kind, pattern.format, pattern.shape, index, pattern.data_shape
        )
        return own.matrix(data)
    return None


# sparse @ dense


def _product(data: Array, x: Array, *, pattern: SparseStructure) -> Array:
    s = make_array(data, pattern)
    if s is not None:
        # SciPy makes a number of one row in COO.
        return np.reshape(s @ x, (pattern.shape[0], *shape_of(x)[1:]))
    rows, columns = (
        match_library(pattern.rows, data),
        match_library(pattern.columns, data),
    )
    wide = data if len(shape_of(x)) == 1 else data[:, None]
    terms = wide * x[columns]
    out = np.zeros_like(terms, shape=(pattern.shape[0], *shape_of(x)[1:]))
    find_library_ufunc("add", out).at(out, rows, terms)
    return out


def _write_product(data: Array, x: Array, *, pattern: SparseStructure) -> Array:
    """Write a product as multiples of rows, added up."""
    places = pattern.entry_places
    stored = data if places is None else data[places]
    wide = stored if len(shape_of(x)) == 1 else stored[:, None]
    terms = wide * x[pattern.columns]
    out = np.zeros((pattern.shape[0], *shape_of(x)[1:]))  # host array: of no value
    return apply(declare("index_add"), (out, terms, pattern.rows), {"key": (ARRAY,)})


def _product_infer(data: Array, x: Array, *, pattern: SparseStructure) -> Spec:
    spec = as_spec(x)
    if len(spec.shape) not in (1, 2):
        raise ValueError(f"a product with an array of {len(spec.shape)} axes")
    unify_lengths(
        pattern.shape[1],
        spec.shape[0],
        f"the last axis of {pattern.shape} has length {pattern.shape[1]}, the first"
        f" of {spec.shape} another",
    )
    return Spec((pattern.shape[0], *spec.shape[1:]), product_dtype(as_spec(data), spec))


def _fold_batch(x: Array) -> Array:
    """Return a batch of vectors or matrices as the columns of one matrix."""
    return np.reshape(moveaxis(x, 0, -1), (shape_of(x)[1], -1))


def block_diagonal(
    inputs: tuple[Any, ...], batched: Batched, pattern: SparseStructure
) -> tuple[list[Any], SparseStructure, int]:
    """Return the operands of a batch as those of one block-diagonal array."""
    count = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    tall = []
    for x, b in zip(inputs, batched, strict=True):
        if not b:
            x = np.broadcast_to(x, (count, *shape_of(x)))
        tall.append(np.reshape(x, (count * shape_of(x)[1], *shape_of(x)[2:])))
    return tall, pattern.repeated(count), count


def _product_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    pattern: SparseStructure = params["pattern"]
    data, x = inputs
    height = pattern.shape[0]
    if not batched[0]:
        size, _, *rest = shape_of(x)
        y = apply(PRODUCT, (data, _fold_batch(x)), params)
        return moveaxis(np.reshape(y, (height, *rest, size)), -1, 0)
    tall, blocks, count = block_diagonal(inputs, batched, pattern)
    y = apply(PRODUCT, tuple(tall), {"pattern": blocks})
    return np.reshape(y, (count, height, *shape_of(y)[1:]))


def array_text(pattern: SparseStructure) -> tuple[str, Params]:
    """Return the text template of a sparse array with operand 0 as its values."""
    name = pattern.format if pattern.format in ("csr", "csc", "bsr", "dia") else "coo"
    labels = {"dia": ["offsets"], "coo": ["rows", "columns"][: len(pattern.index)]}
    names = labels.get(name, ["indices", "starts"])
    where = ", ".join(f"{{{label}}}" for label in names)
    where = f"({where}{',' * (len(names) == 1)})" if name == "coo" else where
    template = f"sparse.{name}_array(({{0}}, {where}), shape={{shape}})"
    return template, dict(zip(names, pattern.index, strict=True), shape=pattern.shape)


def _product_text(node: Tensor) -> tuple[str, Params]:
    template, named = array_text(node.params["pattern"])
    product = f"{template} @ {{1}}"
    if len(named["shape"]) == 1 or named["shape"][0] == 1:
        # SciPy makes a number of one row in COO; NumPy finds the number of columns.
        result = tuple(-1 if isinstance(n, dims.Dim) else n for n in node.shape)
        return f"np.reshape({product}, {{result}})", {**named, "result": result}
    return product, named


PRODUCT: Op = multilinear(
    "sparse_matmul",
    _product,
    lambda g, data, x, *, pattern: apply(SAMPLE, (g, x), {"pattern": pattern}),
    lambda g, data, x, *, pattern: apply(PRODUCT, (data, g), {"pattern": pattern.T}),
    rule="g xᵀ where entries are stored   Sᵀ g",
    template=_product_text,
    batch=_product_batch,
    infer=_product_infer,
    pattern=Reading(_write_product, is_same=True),
    cure="The sparse array has as many columns as the other operand has rows.",
)


# (g xᵀ) where entries are stored


def _sample(g: Array, x: Array, *, pattern: SparseStructure) -> Array:
    rows, columns = match_library(pattern.rows, g), match_library(pattern.columns, g)
    if len(shape_of(g)) == 1:
        return g[rows] * x[columns]
    step = max(1, MOST_GATHERED // max(1, shape_of(g)[1]))
    parts = [
        np.einsum("kj,kj->k", g[rows[i : i + step]], x[columns[i : i + step]])
        for i in range(0, max(1, len(pattern.rows)), step)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _write_sample(g: Array, x: Array, *, pattern: SparseStructure) -> Array:
    """Write a sample of an outer product as products of rows."""
    products = g[pattern.rows] * x[pattern.columns]
    return products if len(shape_of(g)) == 1 else np.sum(products, axis=1)


def _sample_infer(g: Array, x: Array, *, pattern: SparseStructure) -> Spec:
    return Spec(pattern.rows.shape, product_dtype(as_spec(g), as_spec(x)))


def _sample_batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    tall, blocks, count = block_diagonal(inputs, batched, params["pattern"])
    y = apply(SAMPLE, tuple(tall), {"pattern": blocks})
    return np.reshape(y, (count, len(params["pattern"].rows)))


def _sample_text(node: Tensor) -> tuple[str, Params]:
    named = {k: getattr(node.params["pattern"], k) for k in ("rows", "columns")}
    if len(shape_of(node.inputs[0])) == 1:
        return "{0}[{rows}] * {1}[{columns}]", named
    return 'np.einsum("kj,kj->k", {0}[{rows}], {1}[{columns}])', named


SAMPLE: Op = multilinear(
    "sparse_sample",
    _sample,
    lambda c, g, x, *, pattern: apply(PRODUCT, (c, x), {"pattern": pattern}),
    lambda c, g, x, *, pattern: apply(PRODUCT, (c, g), {"pattern": pattern.T}),
    rule="C x   Cᵀ g",
    template=_sample_text,
    batch=_sample_batch,
    infer=_sample_infer,
    pattern=Reading(_write_sample, is_same=True),
    cure="Both have as many columns; the array has a row for each row of the first.",
)


# Moving the stored values of sparse arrays about: everything that is only structure.
#
# What SciPy does to a sparse array without looking at its values (indexing, stacking,
# conversion, triangles) is done by SciPy, to an array of the same pattern whose values
# are the numbers 1, 2, 3, ...; the numbers that come out say which value goes where.


def split_sparse(s: Any) -> tuple[Any, SparseStructure]:
    """Return the stored values and the pattern of a sparse array, ours or SciPy's."""
    if isinstance(getattr(s, "pattern", None), SparseStructure):
        return s.data, s.pattern
    pattern, data = pattern_of(s)
    return data, pattern


@singledispatch
def make_sparse(data: Any, pattern: SparseStructure) -> Any:
    """Return the sparse array of these values: ours around a Tensor, else SciPy's.

    `tensor.py` adds what it is of Tensors.
    """
    return pattern.matrix(data, own=True)


def list_entries(s: Any) -> tuple[Any, SparseStructure]:
    """Return the entries of a sparse array as a vector, with a pattern of two axes."""
    data, pattern = split_sparse(s)
    flat = flatten_pattern(pattern)
    if flat is pattern:
        return data, pattern
    if len(pattern.data_shape) > 1:
        data = np.reshape(data, -1)
    if pattern.entry_places is not None:
        data = gather_values(data, pattern.entry_places)
    return data, flat


def sum_duplicates(s: Any) -> tuple[Any, SparseStructure]:
    """List the entries of a sparse array; add up those in one place."""
    data, pattern = list_entries(s)
    if pattern.distinct:
        return data, pattern
    keys, where = np.unique(pattern.keys, return_inverse=True)
    rows, columns = np.divmod(keys, max(pattern.plane[1], 1))
    alone = SparseStructure(
        pattern.family("coo"), "coo", pattern.shape, (rows, columns), keys.shape
    )
    return scatter_values(data, where, len(keys)), alone


def gather_values(values: Array, index: Any) -> Array:
    """Return the values at an index, which is an array on the host."""
    return values[match_library(index, values)]


def scatter_values(values: Array, index: Any, size: int) -> Array:
    """Return a vector with the values added up where the index says."""
    params = {"key": (ARRAY,), "shape": (size,)}
    return apply(SCATTER, (values, match_library(index, values)), params)


def number_values(values: Array, start: int) -> Any:
    """Return the numbers that stand for some values: ``start``, ``start + 1``, ..."""
    count = int(np.prod(shape_of(values), dtype=np.int64))
    return np.arange(start, start + count)  # host array: numbers of entries


def restore_values(result: Any, values: list[Any]) -> Any:
    """Return the result of a function on numbers, with the original values put back.

    0 stands for no value.
    """
    joined = values[0] if len(values) == 1 else np.concatenate(values)
    sparse = is_sparse(result)
    if sparse:
        pattern, numbers = pattern_of(result)
        pattern.built = None
    else:
        numbers = np.asarray(result)  # host array: numbers of entries
    if numbers.size and numbers.min() > 0:
        found = gather_values(joined, numbers - 1)
    else:
        nothing = np.zeros_like(joined, shape=(1,))
        found = gather_values(np.concatenate([nothing, joined]), numbers)
    return make_sparse(found, pattern) if sparse else found


def move_entries(function: Callable[..., Any], *operands: Any) -> Any:
    """Apply a function that only moves entries to sparse arrays."""
    values, numbers, start = [], [], 1
    for s in operands:
        data, pattern = sum_duplicates(s)
        whole = pattern.matrix(number_values(data, start))
        pattern.built = None
        # What moves entries of a vector wants a vector.
        numbers.append(whole.reshape(s.shape) if len(s.shape) == 1 else whole)
        values.append(data)
        start += shape_of(data)[0]
    return restore_values(function(*numbers), values)
