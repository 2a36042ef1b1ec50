"""Reading and updating by index: `set_subtensor`, `inc_subtensor`, `take`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lifting import Table, lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core import blame
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.ops import taking
from workbench.ops.indexing import GETITEM, as_index
from workbench.ops.lengths import GIVEN, SPAN
from workbench.ops.updates import at

__all__ = ["TABLE", "inc_subtensor", "set_subtensor"]


def _place(x: ArrayLike, what: str) -> Any:
    """Return the place ``at(x)[index]`` of a variable that was made as ``x[index]``."""
    if isinstance(x, Tensor) and x.op is SPAN:
        whole, *ends = x.inputs
        rest, axis = iter(ends), x.params["axis"]
        part = slice(*[next(rest) if k == GIVEN else k for k in x.params["key"]])
        return at(whole)[(*(slice(None),) * axis, part)]
    if not (isinstance(x, Tensor) and x.op is GETITEM):
        raise UsageError(
            f"{what}{blame.user_line()}: the first argument must be an indexed"
            f" variable, as in {what}(x[2:], y), not"
            f" {blame.describe(as_tensor_variable(x))}."
        )
    whole, *arrays = x.operands
    if isinstance(whole, Tensor) and whole.op is SPAN:
        raise UsageError(
            f"{what}{blame.user_line()}: the index has a slice that ends at a variable,"
            f" and further parts. Write one after the other: {what}(part[i], y), and"
            " set_subtensor(x[a:b], ...) of that."
        )
    return at(whole)[as_index(x.settings["key"], tuple(arrays))]


def set_subtensor(
    x: Any,
    y: Any,
    inplace: bool = False,
    tolerate_inplace_aliasing: bool = False,
) -> Array:
    """Return ``a`` with ``y`` at the index, where ``x`` is ``a[index]``; ``a`` stays.

    >>> import workbench.compat.theano.tensor as T
    >>> v = T.constant([1.0, 2.0, 3.0])
    >>> T.set_subtensor(v[1:], 0.0).eval()
    array([1., 0., 0.])
    """
    return lift(_place(x, "set_subtensor").set(y))


def inc_subtensor(
    x: Any,
    y: Any,
    inplace: bool = False,
    set_instead_of_inc: bool = False,
    tolerate_inplace_aliasing: bool = False,
) -> Array:
    """Return ``a`` with ``y`` added at the index, where ``x`` is ``a[index]``.

    An entry that the index names twice takes in both.
    """
    if set_instead_of_inc:
        return set_subtensor(x, y)
    return lift(_place(x, "inc_subtensor").add(y))


def take(a: Any, indices: Any, axis: int | None = None, mode: Any = "raise") -> Array:
    """Take entries by index along an axis, as `numpy.take` does."""
    return lift(np.take(as_tensor_variable(a), _indices(indices), axis=axis, mode=mode))


def _indices(indices: ArrayLike) -> Array:
    return indices if isinstance(indices, Tensor) else np.asarray(indices)


def choose(a: Any, choices: Any, out: None = None, mode: Any = "raise") -> Array:
    """Choose from arrays by index, as `numpy.choose` does."""
    return lift(np.choose(as_tensor_variable(a), choices, mode=mode))


def compress(condition: Any, x: Any, axis: int | None = None) -> Array:
    """Take slices by a mask, as `numpy.compress` does."""
    return lift(np.compress(condition, as_tensor_variable(x), axis=axis))


def nonzero(a: Any, return_matrix: bool = False) -> Any:
    """Return the indices of entries that are not 0, as a tuple or one matrix."""
    found = lift(np.nonzero(as_tensor_variable(a)))
    return lift(np.stack(found)) if return_matrix else tuple(found)


def flatnonzero(a: ArrayLike) -> Array:
    """Return the indices of entries that are not 0, in the flattened array."""
    return nonzero(np.ravel(as_tensor_variable(a)))[0]


def nonzero_values(a: ArrayLike) -> Array:
    """Return the entries that are not 0."""
    a = np.ravel(as_tensor_variable(a))
    return a[flatnonzero(a)]


def permute_row_elements(x: ArrayLike, y: ArrayLike, inverse: bool = False) -> Array:
    """Return each row of ``x`` in the order that the row of ``y`` gives, or back."""
    return lift(
        taking.permute_row_elements(
            as_tensor_variable(x), as_tensor_variable(y), bool(inverse)
        )
    )


def inverse_permutation(perm: Any) -> Array:
    """Return the permutation that undoes another."""
    return lift(np.argsort(as_tensor_variable(perm), axis=-1))


def advanced_subtensor(x: ArrayLike, *index: Any) -> Array:
    """Return ``x[index]``."""
    return apply(GETITEM, (x,)) if not index else as_tensor_variable(x)[index]


TABLE: Table = {
    "set_subtensor": set_subtensor,
    "inc_subtensor": inc_subtensor,
    "advanced_subtensor": advanced_subtensor,
    "advanced_subtensor1": advanced_subtensor,
    "choose": choose,
    "compress": compress,
    "flatnonzero": flatnonzero,
    "inverse_permutation": inverse_permutation,
    "nonzero": nonzero,
    "nonzero_values": nonzero_values,
    "permute_row_elements": permute_row_elements,
    "take": take,
}
