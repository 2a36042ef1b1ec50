"""Order, counts and sets, where the standard differs from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor
from workbench.core.types import Array, ArrayLike, Axis
from workbench.errors import TraceError
from workbench.numpy.dtypes import join_trace


def argsort(
    x: Array,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,
) -> Any:
    """Return the indices that sort ``x`` along an axis.

    Parameters
    ----------
    x
        An array or a Tensor.
    axis
        The axis to sort along.
    descending
        Whether the largest entry comes first; equal entries keep their order.
    stable
        Whether equal entries keep their order when they ascend.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.argsort(np.array([2.0, 7.0, 2.0]), descending=True)
    array([1, 0, 2])
    """
    kind: Any = "stable" if stable else None  # CuPy has no stable=
    if not descending:
        return np.argsort(x, axis=axis, kind=kind)
    # Turned around twice, so that equal entries keep their order.
    found = np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, kind=kind), axis)
    return x.shape[axis] - 1 - found


def sort(
    x: ArrayLike,
    /,
    axis: int = -1,
    *,
    descending: bool = False,
    stable: bool = True,
) -> Array:
    """Return the entries of ``x`` in order along an axis.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.sort(np.array([2.0, 7.0, 3.0]), descending=True)
    array([7., 3., 2.])
    """
    if isinstance(x, Tensor) and descending:
        # Not the sorted ones turned around: the gradients of ties would swap.
        return np.take_along_axis(x, argsort(x, axis=axis, descending=True), axis)
    made = np.sort(x, axis=axis, kind="stable" if stable else None)
    return np.flip(made, axis) if descending else made


def count_nonzero(
    x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False
) -> Array:
    """Return how many entries are not zero: an array, also where that is one number.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.count_nonzero(np.eye(3)).shape
    ()
    """
    found = np.count_nonzero(x, axis=axis, keepdims=keepdims)
    return join_trace(np.asarray(found), x) if isinstance(found, int) else found


def nonzero(x: Array, /) -> tuple[Any, ...]:
    """Return the indices of the entries that are not zero: one array per axis.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.nonzero(np.array([0.0, 2.0, 3.0]))
    (array([1, 2]),)
    """
    return tuple(join_trace(i, x) for i in np.nonzero(x))


# Sets. Which entries are equal is read from the values; the entries that are taken
# keep their gradient.


def _find_unique(x: Any, name: str) -> tuple[Any, Any, Any, Any]:
    """Return the values, the first index of each, which each entry is, and counts."""
    plain = x
    if isinstance(x, Tensor):
        plain = x.value
        if plain is None:
            raise TraceError(
                f"{name}({blame.describe(x)}){blame.user_line()}: how many values"
                " differ is not known while tracing without values. Trace with values"
                " (wb.grad, a %%autodiff cell)."
            )
    values, first, inverse, counts = np.unique(
        plain,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=False,
    )
    inverse = np.reshape(inverse, np.shape(plain))
    if isinstance(x, Tensor):
        values = np.take(np.ravel(x), first)
        first, inverse, counts = (join_trace(i, x) for i in (first, inverse, counts))
    return values, first, inverse, counts


_Unique = {
    name: type(getattr(np, name)(np.zeros(1)))
    for name in ("unique_all", "unique_counts", "unique_inverse")
}


def unique_all(x: ArrayLike, /) -> Any:
    """Return ``(values, indices, inverse, counts)``: the values once each, sorted.

    Every NaN counts as a value of its own.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.unique_all(np.array([3, 1, 3])).counts
    array([1, 2])
    """
    return _Unique["unique_all"](*_find_unique(x, "unique_all"))


def unique_counts(x: ArrayLike, /) -> Any:
    """Return ``(values, counts)``: the values of ``x`` once each, and how often.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.unique_counts(np.array([3, 1, 3])).counts
    array([1, 2])
    """
    values, _, _, counts = _find_unique(x, "unique_counts")
    return _Unique["unique_counts"](values, counts)


def unique_inverse(x: ArrayLike, /) -> Any:
    """Return ``(values, inverse_indices)``: ``values[inverse_indices]`` is ``x``.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.unique_inverse(np.array([3, 1, 3])).inverse_indices
    array([1, 0, 1])
    """
    values, _, inverse, _ = _find_unique(x, "unique_inverse")
    return _Unique["unique_inverse"](values, inverse)


def unique_values(x: ArrayLike, /) -> Array:
    """Return the values of ``x`` once each, sorted.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.unique_values(np.array([3, 1, 3]))
    array([1, 3])
    """
    return _find_unique(x, "unique_values")[0]


# Elementwise functions where the standard differs from NumPy.


def clip(
    x: ArrayLike,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: Any = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """Limit the entries of ``x`` to an interval.

    Parameters
    ----------
    x
        An array or a Tensor.
    min, max
        The bounds, numbers or arrays that broadcast; None sets no bound. NumPy takes
        both by position or both by name; the standard any mix.
    out
        An array that is written to, of the shape of the result.
    a_min, a_max
        NumPy's other names for them.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.clip(np.arange(4), 1, max=2)
    array([1, 1, 2, 2])
    """
    low = a_min if min is None else min
    return np.clip(x, low, a_max if max is None else max, out=out)
