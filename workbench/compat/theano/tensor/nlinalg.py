"""`theano.tensor.nlinalg`: matrices, by `numpy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor import shapes
from workbench.compat.theano.tensor.lifting import Function, axes, documented, lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike, Axis

__all__ = [
    "SVD",
    "AllocDiag",
    "Det",
    "Eig",
    "Eigh",
    "ExtractDiag",
    "MatrixInverse",
    "MatrixPinv",
    "QRFull",
    "TensorInv",
    "TensorSolve",
    "alloc_diag",
    "det",
    "diag",
    "eig",
    "eigh",
    "extract_diag",
    "lstsq",
    "matrix_dot",
    "matrix_inverse",
    "matrix_power",
    "norm",
    "pinv",
    "qr",
    "svd",
    "tensorinv",
    "tensorsolve",
    "trace",
]

diag = shapes.diag
trace = shapes.trace


def _function(ours: str, name: str) -> Function:
    function = getattr(np.linalg, ours)

    def call(x: ArrayLike, *more: Any, **settings: Any) -> Any:
        given = (as_tensor_variable(x), *more)
        return lift(function(*given, **settings), given)

    return documented(call, name, f"numpy.linalg.{ours}")


matrix_inverse = _function("inv", "matrix_inverse")
pinv = _function("pinv", "pinv")
det = _function("det", "det")
eig = _function("eig", "eig")
matrix_power = _function("matrix_power", "matrix_power")
tensorinv = _function("tensorinv", "tensorinv")
tensorsolve = _function("tensorsolve", "tensorsolve")


def eigh(a: ArrayLike, UPLO: str = "L") -> Any:
    """Return the eigenvalues of a symmetric matrix, ascending, and eigenvectors."""
    how: Any = UPLO
    return lift(np.linalg.eigh(as_tensor_variable(a), UPLO=how))


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return u, the singular values, and the transpose of v."""
    vectors: Any = bool(compute_uv)
    x = as_tensor_variable(a)
    return lift(np.linalg.svd(x, bool(full_matrices), vectors))


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Factor a matrix into ``Q`` and ``R``, as `numpy.linalg.qr` does."""
    how: Any = mode
    return lift(np.linalg.qr(as_tensor_variable(a), how))


def lstsq(x: ArrayLike, y: ArrayLike, rcond: Any = None) -> Any:
    """Solve by least squares, as `numpy.linalg.lstsq` does."""
    return lift(
        np.linalg.lstsq(as_tensor_variable(x), as_tensor_variable(y), rcond=rcond)
    )


def norm(
    x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """Return a norm of a vector or a matrix; Frobenius if no ``ord`` is given."""
    return lift(np.linalg.norm(as_tensor_variable(x), ord, axes(axis), keepdims))


def matrix_dot(*args: Any) -> Array:
    """Return the product of several matrices, from left to right."""
    made = args[0]
    for factor in args[1:]:
        made = shapes.dot(made, factor)
    return made


def extract_diag(x: ArrayLike) -> Array:
    """Return the diagonal of a matrix."""
    return lift(np.diagonal(as_tensor_variable(x)))


def alloc_diag(x: ArrayLike) -> Array:
    """Return the matrix with a vector on its diagonal."""
    return lift(np.diag(as_tensor_variable(x)))


class _Named:
    """A function under the name of an op: ``Det()(x)`` is ``det(x)``."""

    function: Function

    def __init__(self, *settings: Any, **named: Any) -> None:
        self.settings, self.named = settings, named

    def __call__(self, *inputs: Any) -> Any:
        return type(self).function(*inputs, *self.settings, **self.named)


def _op(name: str, function: Function) -> type[_Named]:
    return type(name, (_Named,), {"function": staticmethod(function)})


MatrixInverse = _op("MatrixInverse", matrix_inverse)
MatrixPinv = _op("MatrixPinv", pinv)
Det = _op("Det", det)
Eig = _op("Eig", eig)
Eigh = _op("Eigh", eigh)
SVD = _op("SVD", svd)
QRFull = _op("QRFull", qr)
TensorInv = _op("TensorInv", tensorinv)
TensorSolve = _op("TensorSolve", tensorsolve)
ExtractDiag = _op("ExtractDiag", shapes.diagonal)
AllocDiag = _op("AllocDiag", alloc_diag)
