"""The methods of Theano's variables, set on `Tensor` when this package is imported.

Only names that NumPy's arrays do not have, and a few whose further arguments are
Theano's alone (``x.flatten(2)``, ``x.reshape(shape, ndim=2)``): what NumPy takes they
take as before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano import op, types
from workbench.compat.theano.tensor import elementwise, reductions, shapes
from workbench.compat.theano.tensor import subtensor as places
from workbench.compat.theano.tensor.lifting import as_lengths
from workbench.core.methods import ArrayMethods
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import UsageError

__all__ = ["METHODS", "PROPERTIES"]


def clone(x: Any, name: str | None = None) -> Any:
    """Return a new symbol of the type of a variable."""
    return types.type_of(x)(name or x.name)


def nonzero(x: Tensor, return_matrix: bool = False) -> Any:
    """Return the indices of entries that are not 0, as a tuple or one matrix."""
    return places.nonzero(x, return_matrix)


def norm(x: Tensor, L: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return the norm of order ``L`` of all entries, or along axes."""
    return reductions.norm(x, L, axis, keepdims)


def flatten(x: Any, ndim: Any = 1, order: str = "C", outdim: Any = None) -> Array:
    """Flatten as NumPy's ``flatten(order)`` or Theano's ``flatten(ndim)`` does."""
    if isinstance(ndim, str):
        return _flatten(x, ndim)
    if (outdim or ndim) == 1:
        return _flatten(x, order)
    return shapes.flatten(x, outdim or ndim)


def reshape(x: Tensor, *shape: Any, ndim: int | None = None, **settings: Any) -> Array:
    """Give an array another shape; its lengths may be variables."""
    wanted = shape[0] if len(shape) == 1 else shape
    if isinstance(wanted, Tensor) and len(shape) == 2:
        wanted, ndim = shape  # x.reshape(shape, 2)
    elif len(shape) == 2 and isinstance(shape[0], (tuple, list)):
        wanted, ndim = shape
    return ArrayMethods.reshape(x, as_lengths(wanted, ndim), **settings)


def _flatten(x: Tensor, order: str) -> Array:
    return ArrayMethods.flatten(x, order)


def _summed(name: str) -> Any:
    function = getattr(np, name)

    def method(
        x: Tensor,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        *rest: Any,
        **more: Any,
    ) -> Array:
        if isinstance(dtype, bool):  # x.mean(axis, keepdims)
            raise UsageError(f"x.{name}(axis, {dtype}): write keepdims={dtype}.")
        kind = more.pop("acc_dtype", None) or dtype
        more.pop("no_zeros_in_input", None)
        axis = tuple(axis) if isinstance(axis, list) else axis
        return function(x, axis, kind, *rest, **more)

    method.__name__ = name
    method.__doc__ = f"Apply `numpy.{name}` to the variable."
    return method


def round_entries(
    x: Any, decimals: Any = 0, mode: str | None = None, **more: Any
) -> Array:
    """Round as NumPy's ``round(decimals)`` or Theano's ``round(mode)`` does."""
    if isinstance(decimals, str) or mode is not None:
        return elementwise.round(x, mode or decimals)
    return np.round(x, decimals, **more)


METHODS: dict[str, Any] = {
    "dimshuffle": shapes.dimshuffle,
    "clone": clone,
    "flatten": flatten,
    "norm": norm,
    "nonzero": nonzero,
    "nonzero_values": places.nonzero_values,
    "ones_like": shapes.ones_like,
    "reshape": reshape,
    "round": round_entries,
    "zeros_like": shapes.zeros_like,
    "get_scalar_constant_value": op.scalar_value,
    "get_parents": lambda x: [] if x.owner is None else [x.owner],
    "sum": _summed("sum"),
    "mean": _summed("mean"),
    "prod": _summed("prod"),
    "allclose": elementwise.TABLE["allclose"],
    "isclose": elementwise.TABLE["isclose"],
    "argsort": reductions.argsort,
    "inc": places.inc_subtensor,
    "set": places.set_subtensor,
}

PROPERTIES: dict[str, Any] = {
    "type": types.type_of,
    "broadcastable": lambda x: types.type_of(x).broadcastable,
    "owner": op.owner,
    "index": op.position,
    "tag": types.tag_of,
    "data": lambda x: x.value,
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
for _name, _read in PROPERTIES.items():
    setattr(Tensor, _name, property(_read))
