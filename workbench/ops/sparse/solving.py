"""Linear systems with a sparse matrix: one factorization for both passes.

If ``A x = b``, the cotangent of ``b`` solves ``Aᵀ u = g``, and that of the stored
entries of ``A`` is ``-u xᵀ`` read off at their places (Giles, "Collected matrix
derivative results for forward and reverse mode", 2008, section 2.3.1).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from workbench.core import blame, dims
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.tree import is_sparse
from workbench.core.types import Array, Params, Spec, as_spec, is_device_array
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError
from workbench.ops.contraction import product_dtype
from workbench.ops.define import op, shape_of
from workbench.ops.device import find_library
from workbench.ops.sparse.arithmetic import to_dense
from workbench.ops.sparse.pattern import (
    PRODUCT,
    SAMPLE,
    SparseStructure,
    array_text,
    block_diagonal,
    list_entries,
    make_array,
)


def _dtype(*operands: Any) -> np.dtype[Any]:
    found = product_dtype(*operands)
    return found if found.kind in "fc" else np.dtype(float)


def _compute(
    data: Array, b: Any, *, pattern: SparseStructure, transposed: bool
) -> Array:
    if not isinstance(data, np.ndarray):
        return _solve_elsewhere(data, b, pattern.T if transposed else pattern)
    splu = import_module("scipy.sparse.linalg").splu
    dtype = _dtype(data, b)
    if dtype.char not in "fdFD":
        raise TypeError(f"dtype {dtype} has no sparse solver")
    kept = pattern.factored
    # By the values: a buffer that is used again holds others.
    if kept is None or kept[1].U.dtype != dtype or not np.array_equal(kept[0], data):
        try:
            factors = splu(pattern.matrix(data).tocsc().astype(dtype, copy=False))
        except RuntimeError as error:
            raise np.linalg.LinAlgError(str(error)) from error
        kept = pattern.factored = (data.copy(), factors)
    return kept[1].solve(b.astype(dtype, copy=False), "T" if transposed else "N")


def _solve_elsewhere(data: Array, b: Any, pattern: SparseStructure) -> Array:
    """Solve by CuPy's own solver; with a library that has none, densely."""
    if is_device_array(data):
        spsolve = find_library(data, "sparse.linalg").spsolve
        return spsolve(make_array(data, pattern).tocsr(), b)
    return np.linalg.solve(to_dense(_Plain(data, pattern)), b)


class _Plain:
    """The stored values and pattern of a sparse array, with its shape."""

    def __init__(self, data: Array, pattern: SparseStructure) -> None:
        self.data, self.pattern, self.shape = data, pattern, pattern.shape


def _pull(
    mask: int, g: Array, x: Array, inputs: tuple[Any, ...], params: Params
) -> Any:
    pattern, transposed = params["pattern"], params["transposed"]
    turned = {"pattern": pattern, "transposed": not transposed}
    u = apply(SOLVE, (inputs[0], g), turned)
    pair = (x, u) if transposed else (u, x)
    sampled = apply(SAMPLE, pair, {"pattern": pattern}) if mask & 1 else None
    return [None if sampled is None else -sampled, u]


def _push(
    tangents: tuple[Any, ...],
    x: Array,
    data: Array,
    b: Any,
    *,
    pattern: SparseStructure,
    transposed: bool,
) -> Any:
    moved, right = tangents
    if moved is not None:
        way = pattern.T if transposed else pattern
        change = apply(PRODUCT, (moved, x), {"pattern": way})
        right = -change if right is None else right - change
    params = {"pattern": pattern, "transposed": transposed}
    return apply(SOLVE, (data, right), params)


def _infer(data: Array, b: Any, *, pattern: SparseStructure, transposed: bool) -> Spec:
    data, b = as_spec(data), as_spec(b)
    return Spec(b.shape, _dtype(data, b))


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Array:
    data, b = inputs
    if not batched[0]:
        size, length, *rest = shape_of(b)
        columns = np.reshape(np.moveaxis(b, 0, -1), (length, -1))
        y = apply(SOLVE, (data, columns), params)
        return np.moveaxis(np.reshape(y, (length, *rest, size)), -1, 0)
    tall, blocks, count = block_diagonal(inputs, batched, params["pattern"])
    y = apply(SOLVE, tuple(tall), {**params, "pattern": blocks})
    return np.reshape(y, (count, -1, *shape_of(y)[1:]))


def _text(node: Tensor) -> tuple[str, Params]:
    template, named = array_text(node.params["pattern"])
    turned = ', "T"' * node.params["transposed"]
    return f"sparse.linalg.splu({template}.tocsc()).solve({{1}}{turned})", named


SOLVE = op(
    "sparse_solve",
    _compute,
    push=_push,
    rule="−u xᵀ where entries are stored, u = S⁻ᵀ g   u",
    template=_text,
    batch=_batch,
    infer=_infer,
    reads=(0, "y"),
    pattern="stored solution",
    cure="The right-hand side has as many rows as the square sparse array.",
    condition="sparse",
)
SOLVE.pull = _pull


class Factors:
    """The factors of a sparse array, computed once and used for every right-hand side.

    Attributes
    ----------
    shape
        That of the array.
    nnz
        The number of its stored values.
    """

    def __init__(self, a: Any, made: Any = None) -> None:
        # ``made`` are SciPy's, by settings of its own.
        self.shape = tuple(a.shape)
        self.nnz = a.nnz if made is None else made.nnz
        self._made = made
        self._values, self._pattern = list_entries(a)
        self._plain = None if isinstance(self._values, Tensor) else a

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve with the array (``"N"``), its transpose (``"T"``) or adjoint (``"H"``).

        Parameters
        ----------
        rhs
            (n,) or (n, p), dense.
        """
        if trans not in ("N", "T", "H"):
            raise UsageError(f"splu(A).solve(b, trans={trans!r}): write N, T or H.")
        if self._made is not None and not isinstance(admit(rhs), Tensor):
            return self._made.solve(rhs, trans)
        _check_shapes(self.shape, rhs, "splu(A).solve(b)")
        values = np.conj(self._values) if trans == "H" else self._values
        params = {"pattern": self._pattern, "transposed": trans != "N"}
        return apply(SOLVE, (values, admit(rhs)), params)

    def __getattr__(self, name: str) -> Any:
        if name in ("L", "U", "perm_c", "perm_r"):
            if self._plain is None:
                raise TraceError(
                    f"splu(A).{name}{blame.user_line()}: the factors of a sparse array"
                    " that varies have no derivative here. Write splu(A).solve(b)."
                )
            if self._made is None:
                splu = import_module("scipy.sparse.linalg").splu
                return getattr(splu(self._plain.tocsc()), name)
            return getattr(self._made, name)
        raise AttributeError(f"the factors have no attribute {name!r}")


def solve(a: Any, b: Any, *, transposed: bool = False) -> Any:
    """Solve ``a @ x = b`` for a square sparse ``a`` and a dense ``b``."""
    if is_sparse(b):
        raise DtypeError(
            f"spsolve(A, b){blame.user_line()}: the right-hand side is sparse, and the"
            " solution would be dense. Write b.toarray()."
        )
    if not is_sparse(a):
        raise DtypeError(
            f"spsolve(A, b){blame.user_line()}: A is not a sparse array. Write"
            " np.linalg.solve(A, b), or make it sparse before it is differentiated."
        )
    b = admit(b)
    _check_shapes(tuple(a.shape), b, "spsolve(A, b)")
    values, pattern = list_entries(a)
    column = len(shape_of(b)) == 2 and shape_of(b)[1] == 1
    params = {"pattern": pattern, "transposed": transposed}
    x = apply(SOLVE, (values, b), params)
    # SciPy's answer to one column is a vector.
    return np.reshape(x, -1) if column else x


def _check_shapes(shape: tuple[int, ...], b: Any, call: str) -> None:
    size = shape_of(admit(b))
    square = len(shape) == 2 and shape[0] == shape[1]
    if not square or dims.always_differ(size[:1], shape[:1]):
        raise ShapeError(
            f"{call}{blame.user_line()}: A is of shape {shape}, b of {size}. A must be"
            " square and b have as many rows."
        )
