"""`theano.scalar`: constants, and the common dtype of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.types import constant, dtype_name

__all__ = ["constant", "upcast"]


def upcast(*dtypes: Any) -> str:
    """Return the name of the dtype that holds all of these.

    >>> upcast("int8", "float32")
    'float32'
    """
    return str(np.result_type(*map(dtype_name, dtypes)))
