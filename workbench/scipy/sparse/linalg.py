"""`scipy.sparse.linalg` with Tensors: direct solves and norms.

Examples
--------
>>> import numpy as np, scipy.sparse, workbench as wb
>>> from workbench.scipy.sparse.linalg import spsolve
>>> A = scipy.sparse.csc_array([[2.0, 1.0], [0.0, 4.0]])
>>> g = wb.grad(lambda A: np.sum(spsolve(A, np.array([3.0, 4.0]))))(A)
>>> g.toarray()
array([[-0.5  , -0.5  ],
       [ 0.   , -0.125]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.types import ArrayLike
from workbench.errors import TraceError
from workbench.ops.sparse import solving, stacking
from workbench.ops.sparse.pattern import sum_duplicates

__all__ = ["factorized", "norm", "spsolve"]


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Return the solution of ``A @ x = b``, as `scipy.sparse.linalg.spsolve`.

    Parameters
    ----------
    A
        A square sparse array, (n, n); it may be differentiated by.
    b
        A dense right-hand side, (n,) or (n, p).

    Returns
    -------
    ``x``, (n,) or (n, p). With Tensors the factors are those of SuperLU and are used
    for the derivatives too, with the transposed system in reverse mode.

    Raises
    ------
    MatrixError
        If ``A`` is exactly singular.
    ShapeError
        If ``A`` is not square or ``b`` has another number of rows.
    """
    if not stacking.holds_tensor((A, b)):
        import scipy.sparse.linalg

        return scipy.sparse.linalg.spsolve(A, b, permc_spec, use_umfpack)
    return solving.solve(A, b)


def factorized(A: ArrayLike) -> Callable[[Any], Any]:
    """Factor ``A``, and return a function ``b -> x`` that solves ``A @ x = b``."""
    return lambda b: solving.solve(A, b)


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Return the norm of a sparse array, as `scipy.sparse.linalg.norm`.

    Of a sparse Tensor ``ord`` is None or ``"fro"`` (Frobenius), 1, -1, inf or -inf
    (sums of magnitudes by column or row), and ``axis`` None.
    """
    if not stacking.holds_tensor(x):
        import scipy.sparse.linalg

        return scipy.sparse.linalg.norm(x, ord, axis)
    if axis is not None or ord not in (None, "fro", "f", 1, -1, np.inf, -np.inf):
        raise TraceError(
            f"norm(S, ord={ord!r}, axis={axis!r}){blame.user_line()} of a sparse Tensor"
            " is not known. Write np.linalg.norm(S.toarray(), ...), or sums of"
            " S.multiply(S)."
        )
    if ord in (None, "fro", "f"):
        values, _ = sum_duplicates(x)
        return np.linalg.norm(values)
    sums = abs(x).sum(axis=0 if ord in (1, -1) else 1)
    return np.max(sums) if ord > 0 else np.min(sums)


def __getattr__(name: str) -> Any:
    import scipy.sparse.linalg

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(scipy.sparse.linalg, name)
