"""Functions of a matrix: exponential, logarithm, square root, sine and their kin.

All have one rule. The derivative along E stands in the upper right of the function
of a block matrix, ``f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]]`` (R. Mathias,
"A chain rule for matrix functions and applications", 1996; N. J. Higham,
"Functions of Matrices", 2008, theorem 3.6). That holds for repeated eigenvalues too,
and the block matrix has derivatives by the same rule. Its transpose is ``L(Aᵀ, g)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from workbench.graph.broadcasting import broadcast_shapes
from workbench.graph.op import Op
from workbench.graph.tensor import apply
from workbench.ops.arithmetic import stop_gradient
from workbench.ops.contraction import swap
from workbench.ops.define import dtype_of, op, shape_of
from workbench.ops.linalg.shared import Params, largest, square, stacked

__all__ = ["FUNCTIONS_OF_MATRICES", "along", "function_of_matrix"]


def along(made: Op, a: Any, e: Any, params: Params) -> tuple[Any, Any]:
    """``f(a)`` and its Fréchet derivative along ``e``."""
    n = shape_of(a)[-1]
    # L is linear in e: an e of the size of a costs no accuracy and no squarings.
    size = stop_gradient(largest(a))
    own = stop_gradient(largest(e))
    scale = np.where(own == 0, 1, own) / np.where(size == 0, 1, size)
    scale = scale.astype(size.dtype)
    a, e = _alike(a, e / scale)
    top = np.concatenate([a, e], axis=-1)
    bottom = np.concatenate([np.zeros_like(a), a], axis=-1)
    y = apply(made, (np.concatenate([top, bottom], axis=-2),), params)
    return y[..., :n, :n], y[..., :n, n:] * scale


def _alike(a: Any, e: Any) -> tuple[Any, Any]:
    dtype = np.result_type(dtype_of(a), dtype_of(e))
    a, e = (x if x.dtype == dtype else x.astype(dtype) for x in (a, e))
    shape = broadcast_shapes(shape_of(a), shape_of(e))
    return np.broadcast_to(a, shape), np.broadcast_to(e, shape)


def function_of_matrix(
    name: str, function: Callable[..., Any], *, double: bool = False
) -> Op:
    """Declare a function of a matrix; ``double``: SciPy has it in float64 alone."""

    def compute(x: Any, **params: Any) -> Any:
        if not x.size:  # SciPy takes no stack of no matrices
            return np.zeros_like(x)
        want = x.dtype
        single = want.itemsize == (8 if want.kind == "c" else 4)
        if not (double and single):
            return function(x, **params)
        y = function(x.astype(complex if want.kind == "c" else float), **params)
        return y.astype(np.complex64 if y.dtype.kind == "c" else np.float32)

    def pull(g: Any, y: Any, x: Any, **params: Any) -> Any:
        return along(made, swap(x), g, params)[1]

    def push(tangents: tuple[Any, ...], y: Any, x: Any, **params: Any) -> Any:
        return along(made, x, tangents[0], params)[1]

    made = stacked(
        op(
            name,
            compute,
            pull,
            push=push,
            rule="the upper right of f([[xᵀ, g], [0, xᵀ]])",
            reads=(0,),
            infer=square,
        )
    )
    return made


def _power(x: Any, *, t: float) -> Any:
    return scipy.linalg.fractional_matrix_power(x, t)


_NAMES = ("expm", "sqrtm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")
#: The ops by SciPy's names.
FUNCTIONS_OF_MATRICES: dict[str, Op] = {
    name: function_of_matrix(name, getattr(scipy.linalg, name)) for name in _NAMES
}
FUNCTIONS_OF_MATRICES["logm"] = function_of_matrix(
    "logm", lambda x: scipy.linalg.logm(x), double=True
)
FUNCTIONS_OF_MATRICES["fractional_matrix_power"] = function_of_matrix(
    "fractional_matrix_power", _power, double=True
)
