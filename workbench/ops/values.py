"""Operands: values that are needed, and numbers in the library of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import weak
from workbench.errors import TraceError

__all__ = ["beside", "known", "placed"]


def beside(x: Any, like: Any) -> Any:
    """`admit`, where a list becomes an array of the library of ``like``."""
    listed = isinstance(x, (list, tuple))
    x = admit(x)
    return placed(x, like) if listed else x


def placed(array: Any, like: Any) -> Any:
    """A small array of NumPy in the library of another, if that is not NumPy."""
    value = value_of(like)
    if (
        not isinstance(array, np.ndarray)
        or value is None
        or weak(value)
        or isinstance(value, (np.ndarray, np.generic))
    ):
        return array
    return np.asarray(array.tolist(), dtype=array.dtype, like=value)


def known(x: Any, what: str, cure: str) -> Any:
    """The plain array behind ``x``.

    Raises
    ------
    TraceError
        In a trace without values (`workbench.vmap`, `workbench.trace` on specs);
        ``cure`` is what to write instead.
    """
    value = value_of(x)
    if isinstance(x, Tensor) and value is None:
        raise TraceError(
            f"{what} of {blame.describe(x)}{blame.here()}: the shape of the result"
            " depends on values, which a trace without values (wb.vmap, wb.trace on"
            f" specs) does not have. {cure}"
        )
    return value
