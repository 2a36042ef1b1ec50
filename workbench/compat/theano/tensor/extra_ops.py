"""`theano.tensor.extra_ops`: counts, differences, unique entries, one-hot rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.compat.theano.op import Apply, Op
from workbench.compat.theano.tensor import reductions, shapes, subtensor
from workbench.compat.theano.tensor.lifting import is_length_one, lift
from workbench.compat.theano.types import TensorType, as_tensor_variable, dtype_name
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import UsageError
from workbench.ops.updates import at

__all__ = [
    "bartlett",
    "bincount",
    "compress",
    "cumprod",
    "cumsum",
    "diff",
    "fill_diagonal",
    "fill_diagonal_offset",
    "ravel_multi_index",
    "repeat",
    "searchsorted",
    "squeeze",
    "to_one_hot",
    "unique",
    "unravel_index",
]

cumsum = reductions.cumsum
cumprod = reductions.cumprod
compress = subtensor.compress
repeat = shapes.repeat


def squeeze(x: ArrayLike, axis: Axis = None) -> Any:
    """Return the array without its axes that are known to have the length 1."""
    x = as_tensor_variable(x)
    if axis is None:
        axis = tuple(i for i, n in enumerate(x.shape) if is_length_one(n))
    return lift(np.squeeze(x, axis=axis)) if axis != () else x


def diff(x: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    """Return differences of neighbours along an axis, as `numpy.diff` does."""
    return lift(np.diff(as_tensor_variable(x), n, axis))


class _Counted(Op):
    """Functions with results whose lengths depend on values."""

    __props__ = ("function", "dtypes", "settings")

    def __init__(
        self, function: Callable[..., Any], dtypes: Any, **settings: Any
    ) -> None:
        self.function = function
        self.dtypes = tuple(dtypes)
        self.settings = tuple(settings.items())

    def make_node(self, *inputs: Any) -> Apply:
        """Vectors of the dtypes given."""
        outputs = [TensorType(d, (False,))() for d in self.dtypes]
        return Apply(self, inputs, outputs)

    def perform(
        self, node: Tensor, inputs: Sequence[Any], output_storage: list[list[Any]]
    ) -> None:
        """Call the function."""
        made = self.function(*inputs, **dict(self.settings))
        for cell, y in zip(
            output_storage, made if len(output_storage) > 1 else [made], strict=True
        ):
            cell[0] = y


def bincount(
    x: Any,
    weights: Any = None,
    minlength: int | None = None,
    assert_nonneg: bool = False,
) -> Any:
    """Count how often each integer occurs, or sum its weights."""
    x = as_tensor_variable(x)
    least = minlength or 0
    if x._value is not None:
        return lift(np.bincount(x, weights, least))
    if weights is None:
        return _Counted(np.bincount, ["int64"], minlength=least)(x)
    # A sum of weights is smooth in them: zeros to which they are added.
    weights = as_tensor_variable(weights)
    count = np.arange(np.maximum(np.max(x) + 1, least), like=x)
    return at(np.zeros_like(count, dtype=weights.dtype))[x].add(weights)


def to_one_hot(y: Any, nb_class: int, dtype: npt.DTypeLike | None = None) -> Array:
    """Return one row per entry of ``y``: 1 in the column of that number, else 0."""
    y = as_tensor_variable(y)
    columns = np.arange(nb_class)
    return lift(np.equal(y[:, None], columns)).astype(dtype_name(dtype))


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the unique values, as `numpy.unique` does."""
    x = as_tensor_variable(ar)
    more: Any = {"return_index": return_index, "return_inverse": return_inverse,
                 "return_counts": return_counts}  # fmt: skip
    if x._value is not None:
        return lift(np.unique(x, axis=axis, **more))
    if axis is not None or x.ndim != 1:
        raise UsageError("unique of a variable: along no axis, of a vector.")
    indices = sum(map(bool, more.values()))
    return _Counted(np.unique, [x.dtype, *["int64"] * indices], **more)(x)


def searchsorted(
    x: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None
) -> Array:
    """Return where values would be inserted to keep ``x`` sorted."""
    line: Any = as_tensor_variable(x)
    return lift(np.searchsorted(line, v, side=side, sorter=sorter))


def fill_diagonal(a: ArrayLike, val: ArrayLike) -> Array:
    """Return a copy of a matrix with ``val`` on its diagonal."""
    return fill_diagonal_offset(a, val, 0)


def fill_diagonal_offset(a: Any, val: Any, offset: Any) -> Array:
    """Return a copy of a matrix with ``val`` on a diagonal."""
    a = as_tensor_variable(a)
    on = np.eye(a.shape[0], a.shape[1], int(offset), dtype=bool, like=a)
    return lift(np.where(on, as_tensor_variable(val).astype(a.dtype), a))


def bartlett(M: Any) -> Array:
    """Return the triangular window of ``M`` points, as `numpy.bartlett` does."""
    return lift(np.bartlett(M))


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C"
) -> Array:
    """Convert an index per axis to flat indices."""
    places, rest = 0, 1
    parts = list(zip(multi_index, dims, strict=True))
    for index, length in parts if order == "F" else reversed(parts):
        places = places + as_tensor_variable(index) * rest
        rest = rest * length
    return lift(places)


def unravel_index(indices: ArrayLike, dims: Any, order: str = "C") -> list[Any]:
    """Convert flat indices to an index per axis."""
    left, found = as_tensor_variable(indices), []
    lengths = list(dims)
    for length in lengths if order == "F" else reversed(lengths):
        found.append(lift(left % length))
        left = left // length
    return found if order == "F" else found[::-1]
