"""`shared`: a value that lives between the runs of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import source, types
from workbench.core.shared import Shared, copied, matches, refuse_sparse, within
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import DtypeError, ShapeError
from workbench.symbolic.variables import checked_name, lengths, numbers

__all__ = ["shared"]


def shared(
    value: Any,
    name: str | None = None,
    *,
    shape: Sequence[int | None] | None = None,
    dtype: Any = None,
    borrow: bool = False,
) -> Shared:
    """A value that functions share, and keep from one call to the next.

    Parameters
    ----------
    value
        What it holds first: an array of any library, a list or a number.
    name
        How it is called in pictures, source and errors.
    shape
        None for a length that may change: ``(None, 3)``. By default the shape of
        the value, for good.
    dtype
        Its dtype, if not that of the value.
    borrow
        Hold the array itself, in place of a copy of it.

    Returns
    -------
    A :class:`workbench.Shared`: in an expression a symbol that no function needs as
    input; :func:`workbench.grad` differentiates by it.

    Raises
    ------
    DtypeError, ShapeError
        If the value holds no numbers, or does not have the known lengths.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> w = wb.shared(np.zeros(3), "w")
    >>> x = wb.vector("x", shape=3)
    >>> loss = np.sum((w - x) ** 2)
    >>> step = wb.function([x], loss, updates={w: w - 0.25 * wb.grad(loss, w)})
    >>> float(step([2.0, 4.0, 6.0])), float(step([2.0, 4.0, 6.0]))
    (56.0, 14.0)
    >>> w.get_value()
    array([1.5, 3. , 4.5])
    """
    if isinstance(value, Tensor):
        value = value.get_value() if isinstance(value, Shared) else value.value
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        value = types.plain(value)
    refuse_sparse(value, "a shared value")
    given = value
    if not hasattr(value, "dtype") or isinstance(value, np.generic):
        value = numbers(value, "a shared value")
    if value.dtype.kind not in "biufc":
        raise DtypeError(
            f"a shared value holds numbers; {_short(given)} is of dtype {value.dtype}."
        )
    if dtype is not None and value.dtype != np.dtype(dtype):
        if not np.can_cast(value.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"a shared value of dtype {np.dtype(dtype)} is given one of dtype"
                f" {value.dtype}. Cast it on purpose: value.astype(...)."
            )
        if not hasattr(given, "dtype") and not within(value, np.dtype(dtype)):
            raise DtypeError(
                f"a shared value of dtype {np.dtype(dtype)} is given {_short(given)},"
                " which is out of its range."
            )
        value = value.astype(dtype)
    name = checked_name(name)
    spec = Spec(tuple(value.shape), np.dtype(value.dtype))
    made = Shared(value, spec, name, source.caller())
    if shape is not None:
        if not isinstance(shape, Sequence) or not matches(
            value.shape, [n if isinstance(n, int) else None for n in shape]
        ):
            raise ShapeError(
                f"a shared value of shape={shape!r} is given one of shape"
                f" {tuple(value.shape)}. Give None for each length that may change."
            )
        made.spec = Spec(lengths(made, shape), spec.dtype)
    if value is given and not borrow:
        made.state = copied(value)
    return made


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
