"""What a solver varies: a nest of arrays as one flat vector, and bounds on both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import blame, tree
from workbench.core.tensor import Tensor
from workbench.errors import DtypeError, ShapeError, UsageError

Vector = np.ndarray[Any, np.dtype[np.float64]]


class VectorLayout:
    """Where each array of a nest stands in one flat vector.

    Attributes
    ----------
    start
        The flat vector of the nest that it was made from.
    size
        Its length.
    """

    def __init__(self, nest: Any) -> None:
        leaves, self._tree = tree.flatten(nest)
        names = self._tree.names("x0")
        arrays = [
            _to_real(leaf, name) for leaf, name in zip(leaves, names, strict=True)
        ]
        self._shapes = [array.shape for array in arrays]
        self._ends = np.cumsum([0, *(array.size for array in arrays)]).tolist()
        self.size: int = self._ends[-1]
        if not self.size:
            raise ShapeError(
                "problem: x0 is empty, so there is nothing to vary. Pass the point"
                " where the solver starts."
            )
        self.start: Vector = np.concatenate([array.ravel() for array in arrays])
        self._plain = self._tree.kind is None and arrays[0].ndim == 1

    def unpack(self, x: Any) -> Any:
        """Return a flat vector, or a Tensor, nested and shaped as the start."""
        if self._plain:
            return x
        parts = [
            np.reshape(x[self._ends[i] : self._ends[i + 1]], shape)
            for i, shape in enumerate(self._shapes)
        ]
        return self._tree(parts)

    def pack(self, nest: Any, what: str, empty: float | None = None) -> Vector:
        """Return the flat vector of a nest, broadcast to the shapes of the start.

        ``empty`` stands for None, alone or as an entry; a number, one array or one
        flat vector for the whole is taken too.
        """
        leaves = self._spread(nest, what)
        parts = []
        for leaf, shape in zip(leaves, self._shapes, strict=True):
            array = _to_real(leaf if empty is None else _fill(leaf, empty), what)
            try:
                parts.append(np.broadcast_to(array, shape).ravel())
            except ValueError:
                raise ShapeError(
                    f"problem: {what} has shape {array.shape}, and that part of x0"
                    f" {shape}. Give a number, or an array of that shape."
                ) from None
        return np.concatenate(parts)

    def _spread(self, nest: Any, what: str) -> list[Any]:
        """Return one entry for each array of the start."""
        count = len(self._shapes)
        if nest is None or np.isscalar(nest):
            return [nest] * count
        if self._tree.kind is None:
            flat = isinstance(nest, (list, np.ndarray)) and np.shape(nest) == (
                self.size,
            )
            return [np.reshape(nest, self._shapes[0]) if flat else nest]
        if isinstance(nest, np.ndarray) and nest.shape == (self.size,):
            return tree.flatten(self.unpack(nest))[0]
        try:
            return self._tree.leaves(nest)
        except ValueError as error:
            raise ShapeError(
                f"problem: {what} is not nested as x0: {error}. Give a number for all,"
                " or a nest like x0."
            ) from None


def _fill(bound: Any, empty: float) -> Any:
    """Return a bound with a number in place of each None."""
    if bound is None:
        return empty
    if not isinstance(bound, (list, tuple, np.ndarray)):
        return bound
    array = np.asarray(bound)
    if array.dtype != object:
        return bound
    filled = [empty if x is None else x for x in array.ravel()]
    return np.reshape(np.array(filled), array.shape)


def _to_real(value: Any, name: str) -> Vector:
    """Return an array of float64, or raise an error with the reason."""
    if isinstance(value, Tensor):
        raise UsageError(
            f"problem: {name} is a Tensor, {blame.describe(value)}, and a solver needs"
            f" numbers. Pass {name}.value or an array."
        )
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise DtypeError(
            f"problem: {name} is complex, and solvers vary real numbers. Pass the real"
            " and the imaginary part as two arrays, x0={'re': z.real, 'im': z.imag},"
            " and write z = x['re'] + 1j * x['im'] in the function."
        )
    if array.dtype.kind not in "biuf":
        raise DtypeError(
            f"problem: {name} is {blame.shorten(repr(value))}, of dtype {array.dtype}."
            " Pass real numbers."
        )
    return array.astype(np.float64)


def flatten_outputs(value: Any) -> Any:
    """Return the arrays of a nest as one flat vector; of Tensors a Tensor."""
    leaves = tree.flatten(value)[0]
    parts = [np.reshape(leaf, (-1,)) for leaf in leaves]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def read_bounds(bounds: Any, layout: VectorLayout) -> tuple[Vector, Vector] | None:
    """Return the lower and the upper bounds of the flat vector, checked."""
    if bounds is None:
        return None
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # of scipy.optimize.Bounds
        bounds = (bounds.lb, bounds.ub)
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        raise UsageError(
            f"problem: bounds is {blame.shorten(repr(bounds))}. Write bounds=(lower,"
            " upper), each a number, an array or a nest like x0, with None for no"
            " bound. Pairs (low, high) for each variable become"
            " tuple(np.array(pairs, float).T)."
        )
    lower = layout.pack(bounds[0], "the lower bound", -np.inf)
    upper = layout.pack(bounds[1], "the upper bound", np.inf)
    check_order(lower, upper, "bounds")
    return lower, upper


def check_order(lower: Vector, upper: Vector, what: str) -> None:
    """Refuse bounds between which nothing lies."""
    for name, values in (("lower", lower), ("upper", upper)):
        if np.isnan(values).any():
            raise UsageError(
                f"problem: {what}: entry {int(np.argmax(np.isnan(values)))} of the"
                f" {name} bound is NaN. Write None or infinity for no bound."
            )
    crossed = np.flatnonzero(lower > upper)
    if crossed.size:
        i = int(crossed[0])
        raise UsageError(
            f"problem: {what}: entry {i} has the lower bound {lower[i]:g} above the"
            f" upper bound {upper[i]:g}. Give (lower, upper) in this order."
        )


def stretch(bound: Any, size: int, empty: float, what: str) -> Vector:
    """Return the bound of a constraint for each of its entries."""
    array = _to_real(_fill(bound, empty), what).ravel()
    if array.size not in (1, size):
        raise ShapeError(
            f"problem: {what} has {array.size} entries, and the constraint {size}. Give"
            " one number for all, or one for each."
        )
    return np.broadcast_to(array, (size,)).copy()


def find_rows(indptr: Sequence[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the row of each stored entry of a sparse array in CSR."""
    counts = np.diff(indptr)
    return np.repeat(np.arange(len(counts)), counts)
