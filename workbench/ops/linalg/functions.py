"""Functions of a matrix: exponential, logarithm, square root, sine and their kin.

All have one rule. The derivative along E stands in the upper right of the function
of a block matrix, ``f([[A, E], [0, A]]) = [[f(A), L(A, E)], [0, f(A)]]`` (R. Mathias,
"A chain rule for matrix functions and applications", 1996; N. J. Higham,
"Functions of Matrices", 2008, theorem 3.6). That holds for repeated eigenvalues too,
and the block matrix has derivatives by the same rule. Its transpose is ``L(Aᵀ, g)``.

Not so `sqrtm`, `logm` and powers where an eigenvalue is negative: there they have a
branch cut, and the block matrix has that eigenvalue twice, of which rounding puts one
on each side. A square root X moves by Y with ``X Y + Y X = E``, on whichever side it
lies; and the other two are functions of it without a cut, ``2 logm(X)`` and ``X^(2t)``,
since the eigenvalues of X are never negative (A. H. Al-Mohy, N. J. Higham,
S. D. Relton, "Computing the Fréchet derivative of the matrix logarithm", 2013).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from workbench.core.dims import broadcast_shapes
from workbench.core.op import Op
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, Params
from workbench.ops.contraction import swap
from workbench.ops.define import dtype_of, op, shape_of
from workbench.ops.device import find_library, leave_device, on_cupy
from workbench.ops.elementwise import stop_gradient
from workbench.ops.linalg.shared import largest, square, stacked
from workbench.ops.linalg.systems import sylvester

#: ``moved(y, x, e, params)``: how far y goes where x goes along e.
Moved = Callable[[Any, Any, Any, Params], Any]


def frechet_derivative(op: Op, a: Array, e: Array, params: Params) -> tuple[Any, Any]:
    """Return ``f(a)`` and its Fréchet derivative along ``e``."""
    n = shape_of(a)[-1]
    # L is linear in e: an e of the size of a costs no accuracy and no squarings.
    size = stop_gradient(largest(a))
    own = stop_gradient(largest(e))
    scale = np.where(own == 0, 1, own) / np.where(size == 0, 1, size)
    scale = scale.astype(size.dtype)
    a, e = _unify_operands(a, e / scale)
    top = np.concatenate([a, e], axis=-1)
    bottom = np.concatenate([np.zeros_like(a), a], axis=-1)
    y = apply(op, (np.concatenate([top, bottom], axis=-2),), params)
    return y[..., :n, :n], y[..., :n, n:] * scale


def _unify_operands(a: Array, e: Array) -> tuple[Any, Any]:
    dtype = np.result_type(dtype_of(a), dtype_of(e))
    a, e = (x if x.dtype == dtype else x.astype(dtype) for x in (a, e))
    shape = broadcast_shapes(shape_of(a), shape_of(e))
    return np.broadcast_to(a, shape), np.broadcast_to(e, shape)


def function_of_matrix(
    name: str,
    function: Callable[..., Any],
    *,
    double: bool = False,
    moved: Moved | None = None,
    rule: str = "the upper right of f([[xᵀ, g], [0, xᵀ]])",
    reads: tuple[int | str, ...] = (0,),
) -> Op:
    """Declare a function of a matrix.

    ``double``: SciPy has it in float64 alone. ``moved(y, x, e, params)`` is its Fréchet
    derivative along ``e``, by default from the block matrix.
    """

    def compute(x: Array, **params: Any) -> Array:
        if not x.size:  # SciPy takes no stack of no matrices
            return np.zeros_like(x)
        want = x.dtype
        single = want.itemsize == (8 if want.kind == "c" else 4)
        if not (double and single):
            return function(x, **params)
        y = function(x.astype(complex if want.kind == "c" else float), **params)
        return y.astype(np.complex64 if y.dtype.kind == "c" else np.float32)

    def template(node: Tensor) -> str:
        wide = "complex" if dtype_of(node.inputs[0]).kind == "c" else "float"
        if not (double and node.dtype in (np.float32, np.complex64)):
            return f"linalg.{name}({{0}}{{more}})"
        call = f"linalg.{name}({{0}}.astype({wide}){{more}})"
        return f"{call}.astype(np.{node.dtype})"

    def by_blocks(y: Array, x: Array, e: Array, params: Params) -> Array:
        return frechet_derivative(new_op, x, e, params)[1]

    frechet = moved or by_blocks

    def pull(g: Array, y: Array, x: Array, **params: Any) -> Array:
        return frechet(swap(y), swap(x), g, params)

    def push(tangents: tuple[Any, ...], y: Array, x: Array, **params: Any) -> Array:
        return frechet(y, x, tangents[0], params)

    new_op = stacked(
        op(
            name,
            compute,
            pull,
            push=push,
            rule=rule,
            reads=reads,
            infer=square,
            template=template,
            condition="function",
        )
    )
    return new_op


def _power(x: Any, *, t: float) -> Array:
    return scipy.linalg.fractional_matrix_power(x, t)


def _root_moved(y: Array, x: Array, e: Array, params: Params) -> Array:
    return sylvester(y, y, e)


def _logm_moved(y: Array, x: Array, e: Array, params: Params) -> Array:
    root = apply(FUNCTIONS_OF_MATRICES["sqrtm"], (x,))
    return (
        2
        * frechet_derivative(
            FUNCTIONS_OF_MATRICES["logm"], root, sylvester(root, root, e), {}
        )[1]
    )


def _power_moved(y: Array, x: Array, e: Array, params: Params) -> Array:
    made, t = FUNCTIONS_OF_MATRICES["fractional_matrix_power"], params["t"]
    if t == int(t):  # which has no cut, and may meet a singular matrix
        return frechet_derivative(made, x, e, params)[1]
    root = apply(FUNCTIONS_OF_MATRICES["sqrtm"], (x,))
    return frechet_derivative(made, root, sylvester(root, root, e), {"t": 2 * t})[1]


_NAMES = ("expm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")
#: The ops by SciPy's names.
FUNCTIONS_OF_MATRICES: dict[str, Op] = {
    name: function_of_matrix(name, getattr(scipy.linalg, name)) for name in _NAMES
}


def _expm_on_cupy(x: Array) -> Array:
    expm = find_library(x, "linalg").expm
    if x.ndim == 2 or not x.size:
        return expm(x) if x.size else np.zeros_like(x)
    flat = np.reshape(x, (-1, *x.shape[-2:]))  # CuPy takes one matrix at a time
    return np.reshape(np.stack([expm(m) for m in flat]), x.shape)


def _exponentials(x: Array, unit: complex) -> tuple[Array, Array]:
    """Return the even and the odd part of ``expm(unit * x)``."""
    ahead, back = _expm_on_cupy(unit * x), _expm_on_cupy(-unit * x)
    return (ahead + back) / 2, (ahead - back) / 2


def _circular(x: Array) -> tuple[Array, Array]:
    """Return the cosine and the sine of a matrix."""
    if x.dtype.kind != "c":
        turned = _expm_on_cupy(1j * x)
        return np.real(turned), np.imag(turned)
    even, odd = _exponentials(x, 1j)
    return even, odd / 1j


on_cupy(FUNCTIONS_OF_MATRICES["expm"])(_expm_on_cupy)
on_cupy(FUNCTIONS_OF_MATRICES["cosm"])(lambda x: _circular(x)[0])
on_cupy(FUNCTIONS_OF_MATRICES["sinm"])(lambda x: _circular(x)[1])
on_cupy(FUNCTIONS_OF_MATRICES["tanm"])(lambda x: np.linalg.solve(*_circular(x)))
on_cupy(FUNCTIONS_OF_MATRICES["coshm"])(lambda x: _exponentials(x, 1)[0])
on_cupy(FUNCTIONS_OF_MATRICES["sinhm"])(lambda x: _exponentials(x, 1)[1])
on_cupy(FUNCTIONS_OF_MATRICES["tanhm"])(lambda x: np.linalg.solve(*_exponentials(x, 1)))

_ROOT = "where √xᵀ z + z √xᵀ = g"
FUNCTIONS_OF_MATRICES["sqrtm"] = function_of_matrix(
    "sqrtm",
    scipy.linalg.sqrtm,
    moved=_root_moved,
    rule="z, where yᵀ z + z yᵀ = g",
    reads=("y",),
)
FUNCTIONS_OF_MATRICES["logm"] = function_of_matrix(
    "logm",
    lambda x: scipy.linalg.logm(x),
    double=True,
    moved=_logm_moved,
    rule=f"twice the upper right of f([[√xᵀ, z], [0, √xᵀ]]), {_ROOT}",
)
FUNCTIONS_OF_MATRICES["fractional_matrix_power"] = function_of_matrix(
    "fractional_matrix_power",
    _power,
    double=True,
    moved=_power_moved,
    rule=f"the upper right of [[√xᵀ, z], [0, √xᵀ]]^(2 t), {_ROOT}",
)
for _name in ("sqrtm", "logm", "fractional_matrix_power"):
    leave_device(FUNCTIONS_OF_MATRICES[_name], "Schur decomposition")
