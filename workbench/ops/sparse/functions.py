"""The exponential and the inverse of a sparse matrix, at the places they can reach.

Both ops take the stored entries, and give those of the result at places that follow
from structure alone. Their derivatives are written with themselves and with sparse
products, so every order follows: that of the exponential is the upper right of the
exponential of ``[[A, dA], [0, A]]`` (R. Mathias, "A chain rule for matrix functions",
SIAM J. Matrix Anal. Appl. 17, 1996), that of the inverse ``-A⁻¹ dA A⁻¹``. A matrix
that falls into parts is computed part by part, as a stack of dense matrices.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from workbench.core.tensor import Tensor, apply
from workbench.core.types import Array, Batched, Params, Spec, as_spec
from workbench.errors import MatrixError
from workbench.ops.define import op, shape_of
from workbench.ops.device import leave_device
from workbench.ops.sparse import arithmetic
from workbench.ops.sparse.pattern import (
    PRODUCT,
    SAMPLE,
    SparseStructure,
    array_text,
    gather_values,
    list_entries,
    make_sparse,
    scatter_values,
)
from workbench.ops.sparse.structure import find_inverse_structure, find_reach

#: A result with more than this share of its entries is computed densely.
MOST_SHARE = 0.25
#: Parts of at most so many rows are dense matrices.
MOST_ROWS = 1000


def _is_full(wanted: SparseStructure) -> bool:
    return wanted.stored > MOST_SHARE * wanted.shape[0] ** 2


def _find_dtype(data: Any) -> np.dtype[Any]:
    found = as_spec(data).dtype
    return found if found.char in "fdFD" else np.dtype(float)


def _infer(data: Array, *, pattern: SparseStructure, wanted: SparseStructure) -> Spec:
    return Spec((wanted.stored,), _find_dtype(data))


def _compute_parts(
    function: Any,
    data: Array,
    pattern: SparseStructure,
    wanted: SparseStructure,
    labels: Any,
) -> Array:
    """Return the entries of a function of each part, as stacks of dense matrices.

    Parts are rows that stored entries join; ``labels`` number them.
    """
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    place = np.empty(len(labels), np.int64)  # host array: CPU
    starts = np.cumsum(sizes) - sizes
    place[order] = np.arange(len(labels)) - starts[labels[order]]  # host array: CPU
    made = np.zeros(wanted.stored, data.dtype)  # host array: CPU
    part, asked = labels[pattern.rows], labels[wanted.rows]
    inside = labels[wanted.columns] == asked
    number = np.zeros(len(sizes), np.int64)  # host array: CPU
    for size in np.unique(sizes):
        chosen = sizes == size
        number[chosen] = np.arange(chosen.sum())  # host array: CPU
        stack = np.zeros((int(chosen.sum()), size, size), data.dtype)  # host array: CPU
        here = np.flatnonzero(chosen[part])
        rows, columns = place[pattern.rows[here]], place[pattern.columns[here]]
        stack[number[part[here]], rows, columns] = data[here]
        there = np.flatnonzero(chosen[asked] & inside)
        rows, columns = place[wanted.rows[there]], place[wanted.columns[there]]
        made[there] = function(stack)[number[asked[there]], rows, columns]
    return made


def _compute_function(
    dense: Any,
    sparse: Any,
    data: Array,
    pattern: SparseStructure,
    wanted: SparseStructure,
) -> Array:
    """Compute a function by parts, or where they are large and mostly empty by SciPy.

    Raises
    ------
    MatrixError
        If the matrix is singular, and the function its inverse.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    dtype = _find_dtype(data)
    data = data.astype(dtype, copy=False)
    places = pattern.rows, pattern.columns
    ones = np.ones(len(pattern.rows))  # host array: CPU
    whole = coo_array((ones, places), shape=pattern.shape)
    _, labels = connected_components(whole, directed=False)
    try:
        if _is_full(wanted) or np.bincount(labels, minlength=1).max() <= MOST_ROWS:
            return _compute_parts(dense, data, pattern, wanted, labels)
        made = sparse(pattern.matrix(data).tocsc())
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise MatrixError(
            f"inv(A): A is singular ({error}), and has no inverse."
        ) from error
    found = made.tocsr()[wanted.rows, wanted.columns]
    flat: Array = found.toarray() if hasattr(found, "toarray") else found
    return np.reshape(flat, -1).astype(dtype, copy=False)


def _compute_expm(
    data: Array, *, pattern: SparseStructure, wanted: SparseStructure
) -> Array:
    dense = import_module("scipy.linalg").expm
    sparse = import_module("scipy.sparse.linalg").expm
    return _compute_function(dense, sparse, data, pattern, wanted)


def _compute_inverse(
    data: Array, *, pattern: SparseStructure, wanted: SparseStructure
) -> Array:
    sparse = import_module("scipy.sparse.linalg").inv
    return _compute_function(np.linalg.inv, sparse, data, pattern, wanted)


# The exponential


def _place_blocks(
    pattern: SparseStructure, corner: SparseStructure
) -> tuple[SparseStructure, SparseStructure, np.ndarray[Any, Any]]:
    """Return the pattern of ``[[A, C], [0, A]]``, of its exponential, and its corner.

    The corner are the places of the upper right among the latter.
    """
    n = pattern.shape[0]
    rows = np.concatenate([pattern.rows, corner.rows, pattern.rows + n])
    columns = np.concatenate([pattern.columns, corner.columns + n, pattern.columns + n])
    whole = _make_pattern(pattern, rows, columns, 2 * n)
    wanted = find_wanted(whole)
    upper = np.flatnonzero((wanted.rows < n) & (wanted.columns >= n))
    return whole, wanted, upper


def _make_pattern(
    like: SparseStructure, rows: Any, columns: Any, n: int
) -> SparseStructure:
    return SparseStructure(
        like.family("coo"), "coo", (n, n), (rows, columns), rows.shape
    )


def _differentiate(
    data: Array,
    moved: Array,
    pattern: SparseStructure,
    corner: SparseStructure,
    ask: SparseStructure,
) -> Array:
    """Return the entries asked for of the exponential's derivative along a matrix."""
    whole, wanted, upper = _place_blocks(pattern, corner)
    values = np.concatenate([data, moved, data])
    made = apply(EXPM, (values,), {"pattern": whole, "wanted": wanted})
    n = pattern.shape[0]
    have = _make_pattern(pattern, wanted.rows[upper], wanted.columns[upper] - n, n)
    return _take_entries(gather_values(made, upper), have, ask)


def _take_entries(values: Array, have: SparseStructure, ask: SparseStructure) -> Array:
    """Return the requested entries of a matrix; zeros where none is stored."""
    order = np.argsort(have.keys, kind="stable")
    keys = have.keys[order]
    place = np.searchsorted(keys, ask.keys)
    there = np.isin(ask.keys, keys)
    index = np.append(order, len(order))[np.where(there, place, len(order))]
    longer = np.concatenate([values, np.zeros_like(values, shape=(1,))])
    return gather_values(longer, index)


def _pull_expm(mask: int, g: Array, y: Array, inputs: Any, params: Params) -> list[Any]:
    pattern, wanted = params["pattern"], params["wanted"]
    turned = _make_pattern(pattern, pattern.columns, pattern.rows, pattern.shape[0])
    return [_differentiate(inputs[0], g, turned, wanted, pattern)]


def _push_expm(
    tangents: tuple[Any, ...], y: Array, data: Array, *, pattern: SparseStructure,
    wanted: SparseStructure,
) -> Array:  # fmt: skip
    return _differentiate(data, tangents[0], pattern, pattern, wanted)


# The inverse


def _sandwich(
    outer: Array,
    middle: Array,
    wanted: SparseStructure,
    between: SparseStructure,
    ask: SparseStructure,
) -> Array:
    """Return the entries of ``Y M Y`` asked for; Y and M are given by theirs."""
    if _is_full(wanted):
        size = wanted.shape[0]
        whole = np.reshape(scatter_values(outer, wanted.keys, size**2), (size, size))
        left = apply(PRODUCT, (middle, whole), {"pattern": between})
        # Row i of Y by column j of M Y, at the requested places alone.
        return apply(SAMPLE, (whole, left.T), {"pattern": ask})
    y, m = make_sparse(outer, wanted), make_sparse(middle, between)
    values, have = list_entries(arithmetic.matmul(arithmetic.matmul(y, m), y))
    return _take_entries(values, have, ask)


def _pull_inverse(
    mask: int, g: Array, y: Array, inputs: Any, params: Params
) -> list[Any]:
    pattern, wanted = params["pattern"], params["wanted"]
    n = pattern.shape[0]
    turned = _make_pattern(wanted, wanted.columns, wanted.rows, n)
    return [-_sandwich(y, g, turned, wanted, pattern)]


def _push_inverse(
    tangents: tuple[Any, ...], y: Array, data: Array, *, pattern: SparseStructure,
    wanted: SparseStructure,
) -> Array:  # fmt: skip
    return -_sandwich(y, tangents[0], wanted, pattern, wanted)


def _make_batch(name: str) -> Any:
    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
        (data,) = inputs
        if not shape_of(data)[0]:
            width, dtype = params["wanted"].stored, _find_dtype(data)
            return np.zeros_like(data, shape=(0, width), dtype=dtype)
        return np.stack([apply(FUNCTIONS[name], (row,), params) for row in data])

    return batch


def _make_text(name: str) -> Any:
    def text(node: Tensor) -> tuple[str, Params]:
        template, named = array_text(node.params["pattern"])
        wanted = node.params["wanted"]
        places = {"at_rows": wanted.rows, "at_columns": wanted.columns}
        call = f"sparse.linalg.{name}({template}.tocsc()).toarray()"
        return f"{call}[{{at_rows}}, {{at_columns}}]", {**named, **places}

    return text


EXPM = op(
    "sparse_expm",
    _compute_expm,
    push=_push_expm,
    rule="the upper right of exp [[Aᵀ, G], [0, Aᵀ]] where entries are stored",
    template=_make_text("expm"),
    batch=_make_batch("expm"),
    infer=_infer,
    pattern="stored blocks",
    cure="The sparse array is square.",
)
EXPM.pull = _pull_expm
INVERSE = op(
    "sparse_inv",
    _compute_inverse,
    push=_push_inverse,
    rule="−Yᵀ G Yᵀ where entries are stored",
    reads=("y",),
    template=_make_text("inv"),
    batch=_make_batch("inv"),
    infer=_infer,
    pattern="stored blocks",
    cure="The sparse array is square, and not singular.",
)
INVERSE.pull = _pull_inverse
FUNCTIONS = {"expm": EXPM, "inv": INVERSE}
leave_device(EXPM, "the exponential of a sparse array")
leave_device(INVERSE, "the inverse of a sparse array")


def find_wanted(pattern: SparseStructure, *, inverse: bool = False) -> SparseStructure:
    """Return where the exponential, or the inverse, of a matrix can differ from zero.

    In CSC. Of a matrix that is singular whatever its values, everywhere.
    """
    key = "inverse_structure" if inverse else "reach"
    found: SparseStructure | None = pattern.__dict__.get(key)
    if found is None:
        from scipy.sparse import csc_array, csr_array

        n = pattern.shape[0]
        ones = np.ones(len(pattern.rows), bool)  # host array: a pattern
        places = ones, (pattern.rows, pattern.columns)
        joined = csr_array(places, shape=(n, n))
        made = find_inverse_structure(joined) if inverse else find_reach(joined)
        if made is None:
            made = np.ones((n, n), bool)  # host array: a pattern
        made = csc_array(made)
        made.sort_indices()
        index = made.indices, made.indptr
        found = SparseStructure(
            pattern.family("csc"), "csc", (n, n), index, made.indices.shape
        )
        pattern.__dict__[key] = found
    return found


def apply_function(name: str, data: Array, pattern: SparseStructure) -> Any:
    """Return ``expm`` or ``inv`` of the matrix of some stored entries, sparse."""
    wanted = find_wanted(pattern, inverse=name == "inv")
    params = {"pattern": pattern, "wanted": wanted}
    return make_sparse(apply(FUNCTIONS[name], (data,), params), wanted)
