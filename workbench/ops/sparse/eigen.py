"""Some eigenvalues and eigenvectors of a symmetric sparse matrix, by ARPACK.

Where A v = λ v and v is of length 1, a change dA gives dλ = vᵀ dA v, and dv solves
(λ - A) dv = dA v - v dλ with vᵀ dv = 0: one sparse system with a border for each vector
(Nelson, "Simplified calculation of eigenvector derivatives", AIAA Journal 14, 1976).
The rules are written with the sparse solve and sample, so every order follows.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from workbench import errors
from workbench.core import blame
from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, Batched, Params, Spec, as_spec
from workbench.ops.define import apply_and_split, op, shape_of
from workbench.ops.device import leave_device
from workbench.ops.sparse.pattern import (
    PRODUCT,
    SAMPLE,
    SparseStructure,
    array_text,
    list_entries,
    to_host,
)
from workbench.ops.sparse.solving import SOLVE

# Which eigenvalues: of the largest or smallest magnitude, the largest, the smallest,
# those of both ends.
WHICH = ("LM", "SM", "LA", "SA", "BE")


def _find_dtype(data: Any) -> np.dtype[Any]:
    """Return the dtype of the results, as SciPy's: single precision stays."""
    dtype = as_spec(data).dtype
    return np.dtype(dtype if dtype == np.float32 else np.float64)


def _compute(
    data: Array, *, pattern: SparseStructure, **settings: Any
) -> tuple[Array, Array]:
    linalg = import_module("scipy.sparse.linalg")
    matrix = pattern.matrix(data).tocsc().astype(np.float64)
    # A change of one entry alone is half a change of its mirror image, as in the rules.
    matrix = (matrix + matrix.T) / 2
    # A start that is always the same gives vectors that always have the same sign.
    start = np.random.default_rng(0).normal(size=pattern.shape[0])
    try:
        values, vectors = linalg.eigsh(matrix, v0=start, **settings)
    except linalg.ArpackNoConvergence as error:
        raise errors.ConvergenceError(
            f"eigsh: {error}. Allow more iterations with maxiter=, or ask for"
            " eigenvalues near a number with sigma=."
        ) from error
    dtype = _find_dtype(data)
    return values.astype(dtype), vectors.astype(dtype)


def _infer(
    data: Array, *, pattern: SparseStructure, k: int, **_: Any
) -> tuple[Spec, Spec]:
    dtype = _find_dtype(data)
    return Spec((k,), dtype), Spec((pattern.shape[0], k), dtype)


def _find_border(pattern: SparseStructure) -> SparseStructure:
    """Return the pattern of λ - A with a last row and a last column for v."""
    found: SparseStructure | None = pattern.__dict__.get("bordered")
    if found is None:
        n = pattern.shape[0]
        each = np.arange(n)  # host array: indices
        last = np.full(n, n)  # host array: indices
        down, right = to_host(pattern.rows), to_host(pattern.columns)
        rows = np.concatenate([down, right, each, each, last])
        columns = np.concatenate([right, down, each, last, each])
        kind, shape = pattern.family("coo"), (n + 1, n + 1)
        found = SparseStructure(kind, "coo", shape, (rows, columns), rows.shape)
        pattern.__dict__["bordered"] = found
    return found


def _turn(
    data: Array, y: tuple[Array, Array], right: Array, pattern: SparseStructure
) -> Array:
    """Return the solution of ``(λ - A) u = r - v vᵀ r``, ``vᵀ u = 0``, by columns."""
    values, vectors = y
    params = {"pattern": _find_border(pattern), "transposed": False}
    made = []
    for i in range(shape_of(vectors)[1]):
        v, r = vectors[:, i], right[:, i]
        # Half of it and half of its transpose: so the second derivative is right too.
        half = -data / 2
        diagonal = values[i] * np.ones_like(v)
        entries = np.concatenate([half, half, diagonal, v, v])
        full = np.concatenate([r, np.zeros_like(r[:1])])
        try:
            # The border takes from r what lies along v.
            made.append(apply(SOLVE, (entries, full), params)[:-1])
        except np.linalg.LinAlgError as error:
            raise errors.MatrixError(
                f"eigsh: the eigenvalue {i} is repeated, and the derivative of its"
                " vector is not determined. Use only results that do not depend on the"
                " vectors of equal eigenvalues, such as the eigenvalues alone."
            ) from error
    return np.stack(made, axis=1)


def _pull(
    g: tuple[Any, Any], y: tuple[Array, Array], data: Array, **settings: Any
) -> Array:
    pattern: SparseStructure = settings["pattern"]
    _, vectors = y
    left: Any = 0.0 if g[0] is None else vectors * g[0]
    if g[1] is not None:
        left = left + _turn(data, y, g[1], pattern)
    params = {"pattern": pattern}
    one = apply(SAMPLE, (left, vectors), params)
    return (one + apply(SAMPLE, (vectors, left), params)) / 2


def _push(
    tangents: tuple[Any, ...], y: tuple[Array, Array], data: Array, **settings: Any
) -> tuple[Array, Array]:
    pattern: SparseStructure = settings["pattern"]
    _, vectors = y
    moved = apply(PRODUCT, (tangents[0], vectors), {"pattern": pattern})
    other = apply(PRODUCT, (tangents[0], vectors), {"pattern": pattern.T})
    moved = (moved + other) / 2
    return np.sum(vectors * moved, axis=0), _turn(data, y, moved, pattern)


def _batch(
    inputs: tuple[Any, ...], batched: Batched, params: Params
) -> tuple[Array, Array]:
    (data,) = inputs
    made = [
        apply_and_split(EIGSH, (data[i],), params) for i in range(shape_of(data)[0])
    ]
    values, vectors = zip(*made, strict=True)
    return np.stack(values), np.stack(vectors)


def _text(node: Tensor) -> tuple[str, Params]:
    template, named = array_text(node.params["pattern"])
    settings = {
        k: v for k, v in node.params.items() if k != "pattern" and v is not None
    }
    told = "".join(f", {name}={value!r}" for name, value in settings.items())
    return f"sparse.linalg.eigsh({template}{told})", named


EIGSH = op(
    "sparse_eigsh",
    _compute,
    _pull,
    push=_push,
    rule="(V diag(g of w) + U) Vᵀ where entries are stored, (λ - S) u = g of v",
    output_names=("values", "vectors"),
    reads=(0, "y"),
    template=_text,
    infer=_infer,
    batch=_batch,
    cure="The sparse array is symmetric, and k less than the number of its rows.",
)
leave_device(EIGSH, "eigenvalues of a sparse array near a number")


def solve_eigenproblem(a: Any, k: int, **settings: Any) -> tuple[Array, Array]:
    """Return ``k`` eigenvalues and eigenvectors of a symmetric sparse array."""
    shape = tuple(a.shape)
    if isinstance(k, (bool, np.bool_)) or not hasattr(k, "__index__"):
        raise errors.UsageError(
            f"eigsh(A, k={k!r}){blame.user_line()}: k is how many eigenvalues are"
            " computed. Write an integer."
        )
    k = int(k)
    which = settings.get("which", "LM")
    if which not in WHICH:
        raise errors.UsageError(
            f"eigsh(A, which={which!r}){blame.user_line()}: which is one of"
            f" {', '.join(map(repr, WHICH))}."
        )
    if len(shape) != 2 or shape[0] != shape[1] or not 0 < k < shape[0]:
        raise errors.ShapeError(
            f"eigsh(A, k={k}){blame.user_line()}: A is of shape {shape}. A must be"
            " square and k less than the number of its rows; write"
            " np.linalg.eigh(A.toarray()) for all eigenvalues."
        )
    if a.dtype.kind == "c":
        raise errors.DtypeError(
            f"eigsh(A){blame.user_line()}: A is complex, and its derivative is not"
            " known. Write np.linalg.eigh(A.toarray())."
        )
    data, pattern = list_entries(a)
    params = {"pattern": pattern, "k": k, **settings}
    values, vectors = apply_and_split(EIGSH, (data,), params)
    return values, vectors
