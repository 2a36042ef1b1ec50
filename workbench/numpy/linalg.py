"""The standard's ``linalg`` extension, and the rest of `numpy.linalg`.

NumPy's own functions, which Tensors answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import (
    cholesky,
    cross,
    det,
    diagonal,
    eigh,
    eigvalsh,
    inv,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_rank,
    matrix_transpose,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensordot,
    trace,
    vecdot,
    vector_norm,
)

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __getattr__(name: str) -> Any:
    try:
        return getattr(np.linalg, name)
    except AttributeError:
        message = f"neither workbench.numpy.linalg nor numpy.linalg has {name!r}"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(np.linalg)})
