"""`SparseTensor`: a sparse array with a Tensor for its stored values.

It is what a sparse argument is inside a traced function. Its operators and methods
are SciPy's; what depends on a value other than through the stored entries is not
there, and says what to write instead.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.core import blame, types
from workbench.core.op import ATTRIBUTES
from workbench.core.tensor import Tensor
from workbench.core.tree import KINDS, Kind, Stored
from workbench.core.types import Array, Axis
from workbench.errors import ShapeError, TraceError, UsageError
from workbench.ops.define import shape_of
from workbench.ops.joining import refuse_sparse_method
from workbench.ops.shaping import lay_out
from workbench.ops.sparse import arithmetic, extremes
from workbench.ops.sparse.pattern import (
    INDEX,
    SparseStructure,
    list_entries,
    make_sparse,
    move_entries,
    scatter_values,
    split_sparse,
    sum_duplicates,
)

#: Functions with f(0) = 0, which SciPy's sparse arrays have as methods.
KEEPING_ZERO = """
arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh
sqrt tan tanh trunc
""".split()


class SparseTensor:
    """A sparse array in a traced program.

    Not made by hand: a sparse argument of a function under :func:`workbench.grad` and
    its kin is one, and so is what `workbench.scipy.sparse` makes of Tensors. A value
    that leaves the derivative is an array of SciPy's again, of the same class and with
    the same entries stored.

    Attributes
    ----------
    data
        The stored values, a Tensor: as ``data`` of the SciPy class.
    pattern
        The class, the shape and the indices.

    Raises
    ------
    TraceError
        By what would make it a plain array of objects, or needs its zeros.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, workbench as wb
    >>> S = scipy.sparse.csr_array([[1.0, 0.0], [2.0, 3.0]])
    >>> g = wb.grad(lambda S: np.sum((S @ np.array([1.0, 10.0])) ** 2))(S)
    >>> g.data, type(g).__name__
    (array([  2.,  64., 640.]), 'csr_array')
    """

    __slots__ = ("data", "pattern")
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, data: Array, pattern: SparseStructure) -> None:
        self.data = data
        self.pattern = pattern

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored values."""
        found: np.dtype[Any] = self.data.dtype
        return found

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """The number of stored values."""
        return len(self.pattern.rows)

    @property
    def size(self) -> int:
        """The number of stored values, as in SciPy."""
        return self.nnz

    @property
    def format(self) -> str:
        """SciPy's name of the format: ``"csr"``, ``"csc"``, ``"coo"``, ..."""
        return self.pattern.format

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    def __repr__(self) -> str:
        size = "×".join(map(str, self.shape))
        kind = self.pattern.kind.__name__
        return f"<SparseTensor {kind} {self.dtype}[{size}], {self.nnz} stored>"

    def __getattr__(self, name: str) -> Any:
        pattern = self.pattern
        if name in INDEX.get(pattern.format, ()):
            return pattern.index[INDEX[pattern.format].index(name)]
        if pattern.format == "coo" and name in ("coords", "row", "col"):
            return pattern.index if name == "coords" else pattern.index[name == "col"]
        if hasattr(pattern.kind, name):
            raise TraceError(
                f"{pattern.kind.__name__}.{name} is not known to Workbench"
                f"{blame.user_line()}. Write it with products, sums, indexing and"
                " conversions (.tocsr(), .toarray()), or work on S.data."
            )
        raise AttributeError(f"a sparse Tensor has no attribute {name!r}")

    def __bool__(self) -> bool:
        raise ValueError(f"the truth of {self!r}, which has many entries, is not known")

    def __len__(self) -> int:
        raise TypeError("the length of a sparse array is not known; write S.shape[0]")

    # Moving entries

    def transpose(self, axes: object = None, copy: bool = False) -> Any:
        """Return the transpose, as SciPy does."""
        order = tuple(range(self.ndim))[::-1]
        given = axes if isinstance(axes, (tuple, list)) else (axes,)
        if axes is not None and tuple(given) != order:
            raise UsageError(
                f"S.transpose(axes={axes!r}){blame.user_line()}: the transpose of a"
                f" sparse array has its axes in the order {order}. Leave axes out."
            )
        if self.ndim == 1:
            return self
        data, pattern = self.data, self.pattern
        if not pattern.exact:
            data, pattern = list_entries(self)
        return make_sparse(data, pattern.T)

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, Tensor):
            index = index.value
        parts = index if isinstance(index, tuple) else (index,)
        index = tuple(p.value if isinstance(p, Tensor) else p for p in parts)
        key = index if len(index) > 1 else index[0]
        return move_entries(
            lambda s: (s if s.format in ("csr", "csc") else s.tocsr())[key], self
        )

    def reshape(self, *shape: Any, order: str = "C", copy: bool = False) -> Any:
        """Return the entries in another shape, as SciPy does."""
        if len(shape) == 1 and not hasattr(shape[0], "__index__"):
            shape = tuple(shape[0])
        return move_entries(lambda s: s.reshape(shape, order=order), self)

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """Return the same array in another format of SciPy's."""
        if format is None or format == self.format:
            return self
        return move_entries(lambda s: s.asformat(format), self)

    def toarray(
        self, order: Literal["C", "F"] | None = None, out: None = None
    ) -> Array:
        """Return the whole array as a Tensor; of columns, in Fortran order."""
        _refuse_out("toarray", out)
        if order not in (None, "C", "F"):
            raise UsageError(
                f"S.toarray(order={order!r}){blame.user_line()}: write 'C' or 'F'."
            )
        own: Literal["C", "F"] = "F" if self.format == "csc" else "C"
        return lay_out(arithmetic.to_dense(self), order or own)

    todense = toarray

    def diagonal(self, k: int = 0) -> Array:
        """Return the ``k``-th diagonal, as a Tensor."""
        return move_entries(lambda s: s.diagonal(k), self)

    def copy(self) -> Any:
        """Return a copy with stored values of its own, for writing."""
        return make_sparse(np.copy(self.data), self.pattern)

    # Sums

    def sum(
        self, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: None = None
    ) -> Any:
        """Return the sum over an axis, or of everything, as a Tensor."""
        one = extremes.read_axis(axis, self.ndim, "sum")
        _refuse_out("sum", out)
        values, pattern = list_entries(self)
        values = values.astype(_sum_dtype(values.dtype) if dtype is None else dtype)
        if one is None:
            return np.sum(values)
        index = pattern.columns if one == 0 else pattern.rows
        y = scatter_values(values, index, self.shape[1 - one])
        if not self.pattern.matrixlike:
            return y
        return y[None, :] if one == 0 else y[:, None]

    def mean(
        self, axis: Axis = None, dtype: npt.DTypeLike | None = None, out: None = None
    ) -> Any:
        """Return the mean over an axis, or of everything, zeros counted."""
        one = extremes.read_axis(axis, self.ndim, "mean")
        _refuse_out("mean", out)
        count = math.prod(self.shape) if one is None else self.shape[one]
        whole = self.dtype.kind in "biu"
        found = self.sum(axis, float if dtype is None and whole else dtype) / count
        return found if dtype is None else found.astype(dtype)

    def trace(self, offset: int = 0) -> Array:
        """Return the sum of a diagonal."""
        return np.sum(self.diagonal(offset))

    def max(
        self, axis: Axis = None, out: None = None, *, explicit: bool = False
    ) -> Any:
        """Return the largest entry, zeros that are not stored counted, as SciPy does.

        Of an axis it is a sparse array; equal entries share the gradient. With
        ``explicit`` stored entries alone count.
        """
        return extremes.find_extreme(self, axis, np.max, out, explicit=explicit)

    def min(
        self, axis: Axis = None, out: None = None, *, explicit: bool = False
    ) -> Any:
        """Return the smallest entry, zeros that are not stored counted."""
        return extremes.find_extreme(self, axis, np.min, out, explicit=explicit)

    # Entry by entry

    def maximum(self, other: Any) -> Any:
        """Return the larger of both entry by entry; sparse if the other is."""
        return extremes.combine_extremes(self, other, np.maximum)

    def minimum(self, other: Any) -> Any:
        """Return the smaller of both entry by entry; sparse if the other is."""
        return extremes.combine_extremes(self, other, np.minimum)

    def map(self, function: Callable[[Any], Any], *, once: bool = True) -> Any:
        """Return the array with a function of the stored values in their place.

        ``once``: entries that stand in one place are added up before.
        """
        if once and not self.pattern.distinct:
            values, pattern = sum_duplicates(self)
            return make_sparse(function(values), pattern)
        return make_sparse(function(self.data), self.pattern)

    def astype(
        self, dtype: npt.DTypeLike | None, casting: Any = "unsafe", copy: bool = True
    ) -> Any:
        """Return the same array in another dtype."""
        if not np.can_cast(self.dtype, np.dtype(dtype), casting):
            raise TypeError(
                f"S.astype({np.dtype(dtype)}, casting={casting!r}){blame.user_line()}:"
                f" {self.dtype} is not cast so. Write casting='unsafe'."
            )
        return self.map(lambda x: x.astype(dtype), once=False)

    def conj(self, copy: bool = True) -> Any:
        """Return the complex conjugate."""
        return self.map(np.conj, once=False)

    conjugate = conj

    @property
    def real(self) -> Any:
        """The real part."""
        return self.map(np.real, once=False)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self.map(np.imag, once=False)

    def power(self, n: float, dtype: npt.DTypeLike | None = None) -> Any:
        """Return each stored entry to the power ``n``, a number that is not 0."""
        if not types.is_weak(n) and shape_of(n) != ():
            raise NotImplementedError("the power of a sparse array must be a number")
        if types.is_weak(n) and n == 0:
            raise NotImplementedError(
                "the power 0 of a sparse array would fill it with ones; write"
                " np.ones(S.shape)"
            )
        made = self if dtype is None else self.astype(dtype)
        return made.map(lambda x: x**n)

    def __pow__(self, n: Any) -> Any:
        if not self.pattern.matrixlike:
            return self.power(n)
        if not hasattr(n, "__index__") or n < 0:
            raise UsageError(
                f"S ** {n!r}{blame.user_line()} of a sparse matrix is a product of"
                " matrices: n is an integer from 0 on. Write S.power(n) for the power"
                " of each entry, or np.linalg.matrix_power(S.toarray(), n)."
            )
        if self.shape[0] != self.shape[1]:
            raise ShapeError(
                f"S ** {n}{blame.user_line()}: S is of shape {self.shape}, and must be"
                " square."
            )
        if n == 0:
            import scipy.sparse

            unit: Any = scipy.sparse.identity
            return unit(self.shape[0], self.dtype, self.format)
        made: Any = self
        for _ in range(n - 1):
            made = made @ self
        return made

    def __neg__(self) -> Any:
        return self.map(np.negative, once=False)

    def __pos__(self) -> SparseTensor:
        return self

    def __abs__(self) -> Any:
        return self.map(np.abs)

    def __round__(self, ndigits: int = 0) -> Any:
        return self.map(lambda x: np.round(x, ndigits))

    def __setitem__(self, index: object, value: object) -> None:
        raise TraceError(
            f"an entry of a sparse array is set{blame.user_line()}, and which entries"
            " it stores does not change in a traced program. Set those that are stored"
            " by S.data[k] = v, add a sparse array that has the difference there, or"
            " work on S.toarray()."
        )

    def multiply(self, other: Any) -> Any:
        """Return the product entry by entry, broadcast; sparse."""
        return arithmetic.multiply(self, other)

    def dot(self, other: Any) -> Any:
        """Return ``self @ other``, or the product with a number."""
        return self * other if shape_of(other) == () else self @ other

    # What NumPy asks

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Any:
        frame = sys._getframe(1)
        if not frame.f_globals.get("__name__", "").startswith("scipy.sparse"):
            raise TraceError(
                f"{self!r} is to become a plain array{blame.user_line()}, and its"
                " gradient would be lost. Write S.toarray()."
            )
        refuse_sparse_method(frame)
        holder = np.empty((), object)  # host array: SciPy's sign to step aside
        holder[()] = self
        return holder

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **settings: Any
    ) -> Any:
        name = ufunc.__name__
        if method == "__call__" and not settings:
            if name in ("maximum", "minimum"):
                return extremes.combine_extremes(inputs[0], inputs[1], ufunc)
            if name in OPERATORS:
                return operate(name, *inputs)
            if name in KEEPING_ZERO or name in SAME:
                return getattr(self, SAME.get(name, name))()
        raise TraceError(
            f"np.{name} of a sparse array{blame.user_line()} would need its zeros, or"
            f" is not known. Write np.{name}(S.toarray()), or apply it to S.data."
        )

    def __array_function__(
        self, function: Any, kinds: object, args: tuple[Any, ...], settings: Any
    ) -> Any:
        if function is np.dot and len(args) == 2:
            return operate("matmul", *args)
        if function in METHODS and args and args[0] is self:
            return getattr(self, METHODS[function])(*args[1:], **settings)
        name = f"np.{function.__name__}"
        raise TraceError(
            f"{name} of a sparse array{blame.user_line()} is not known to Workbench."
            f" Write {name}(S.toarray()), or S.data for the stored values alone."
        )


OPERATORS = {"add", "subtract", "multiply", "divide", "matmul"}
SAME = {"absolute": "__abs__", "negative": "__neg__", "conjugate": "conj"}
METHODS = {
    np.sum: "sum",
    np.max: "max",
    np.mean: "mean",
    np.min: "min",
    np.transpose: "transpose",
    np.trace: "trace",
    np.diagonal: "diagonal",
}


def operate(name: str, a: Any, b: Any) -> Any:
    """Apply an operator in which a sparse array takes part."""
    answer = arithmetic.OPERATORS.get(name)
    if answer is None:
        raise TraceError(
            f"{name} with a sparse array{blame.user_line()} would need its zeros. Write"
            " S.toarray() for the dense array, or work on S.data."
        )
    return answer(a, b)


def _method(name: str, reflected: bool) -> Callable[[SparseTensor, Any], Any]:
    def method(self: SparseTensor, other: Any) -> Any:
        if isinstance(other, str) or other is None:
            return NotImplemented
        return operate(name, other, self) if reflected else operate(name, self, other)

    return method


def _refuse_out(name: str, out: object) -> None:
    if out is not None:
        raise UsageError(
            f"S.{name}(out=...){blame.user_line()}: a traced value is never written"
            f" into an array. Write y = S.{name}(...)."
        )


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum, by NumPy's and SciPy's rule."""
    found: np.dtype[Any] = np.zeros(0, dtype).sum().dtype  # host array: its dtype
    return found


def _convert_to_blocks(
    self: SparseTensor, blocksize: tuple[int, int] | None = None, copy: bool = True
) -> Any:
    if blocksize is None:
        return self.asformat("bsr")
    return move_entries(lambda s: s.tobsr(blocksize), self)


def _answer_mapped(function: Callable[[Any], Any]) -> Callable[[SparseTensor], Any]:
    return lambda self: self.map(function)


def _answer_converted(name: str) -> Callable[..., Any]:
    return lambda self, copy=False: self.asformat(name)


for _name, _op in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "matmul": "matmul",
}.items():
    setattr(SparseTensor, f"__{_name}__", _method(_op, False))
    setattr(SparseTensor, f"__r{_name}__", _method(_op, True))
for _name, _op in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}.items():
    setattr(SparseTensor, f"__{_name}__", _method(_op, False))
for _name in KEEPING_ZERO:
    setattr(SparseTensor, _name, _answer_mapped(getattr(np, _name)))
for _name in ("csr", "csc", "coo", "dia", "lil", "dok"):
    setattr(SparseTensor, f"to{_name}", _answer_converted(_name))
SparseTensor.tobsr = _convert_to_blocks  # type: ignore[attr-defined]
make_sparse.register(Tensor, SparseTensor)


# A sparse array as part of a nest of arguments: what `core/tree.py` asks for.


def build(data: Array, pattern: SparseStructure) -> Any:
    """Return a sparse array of new stored values; values of other shapes stay dense.

    What has another shape stays dense: the block of a Jacobian, a batch.
    """
    shape = getattr(data, "shape", None)
    if shape == pattern.data_shape:
        return make_sparse(data, pattern)
    if isinstance(data, Tensor) and data.ndim < len(pattern.data_shape):
        raise UsageError(
            f"vmap over the stored entries of {pattern!r}: a batch of sparse arrays"
            " is one array of stored values per example. Give"
            " in_axes=None for a sparse array that all examples share; for a batch,"
            " pass the values, (examples, stored), and make the array inside with"
            " workbench.scipy.sparse.csr_array((data, indices, indptr), shape)."
        )
    return data


def _take(value: Any) -> tuple[list[Any], list[str], SparseStructure]:
    data, pattern = split_sparse(value)
    return [data], ["data"], pattern


KINDS[Stored] = Kind(
    _take,
    lambda tree, parts: build(parts[0], tree.needs),
    "",  # the stored values have the array's name
    Stored,
)
ATTRIBUTES[Stored] = operate
