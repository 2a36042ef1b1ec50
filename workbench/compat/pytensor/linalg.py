"""`pytensor.tensor.linalg`: matrices, and stacks of them.

The modules ``nlinalg`` and ``slinalg`` are this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench.scipy.linalg as scipy
from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano.tensor import nlinalg, slinalg
from workbench.compat.theano.tensor.lifting import (
    Function,
    LiftedModule,
    documented,
    lift,
)
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike
from workbench.errors import ShapeError

__all__ = ["cho_solve", "cholesky", "lu_solve", "solve", "solve_triangular"]


def cholesky(
    x: ArrayLike,
    lower: bool = True,
    *,
    check_finite: bool = True,
    overwrite_a: bool = False,
    on_error: str = "raise",
) -> Array:
    """Return the triangular factor of a positive definite matrix.

    Examples
    --------
    >>> import workbench.compat.pytensor.tensor as pt
    >>> A = pt.dmatrix("A")
    >>> pt.linalg.cholesky(A, lower=False).eval({A: [[4.0, 2.0], [2.0, 5.0]]})
    array([[2., 1.],
           [0., 2.]])
    """
    return slinalg.Cholesky(lower, on_error)(x)


def _make_solver(name: str) -> Function:
    """Return a function of `scipy.linalg` that is told the axes of a right side."""
    solver = getattr(scipy, name)

    def call(a: Any, b: ArrayLike, b_ndim: int | None = None, **settings: Any) -> Array:
        sides = as_tensor_variable(b)
        if b_ndim == 1:  # a stack of vectors
            return lift(solver(a, sides[..., None], **settings)[..., 0])
        if b_ndim is not None and (b_ndim != 2 or sides.ndim < 2):
            raise ShapeError(
                f"{name}: b has {sides.ndim} axes, and b_ndim={b_ndim}. Write b_ndim=1"
                " where b is a vector, or a stack of them, and 2 where it is a matrix."
            )
        return lift(solver(a, sides, **settings))

    return documented(call, name, f"scipy.linalg.{name}")


cho_solve = _make_solver("cho_solve")
lu_solve = _make_solver("lu_solve")
solve = _make_solver("solve")
solve_triangular = _make_solver("solve_triangular")

SOURCES = nlinalg, slinalg, LiftedModule(np.linalg), LiftedModule(scipy)
__getattr__ = NAMESPACE.fall_back("tensor.linalg", *SOURCES)
__dir__ = NAMESPACE.list_names("tensor.linalg", __all__, *SOURCES)
