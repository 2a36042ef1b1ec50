"""Whether a pattern that a user gave holds all entries of a derivative.

One product with random numbers tells; the entry that is outside is then looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.linear_map import NO_RULE, LinearMap, Mode, is_varying
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.core.tensor import Tensor
from workbench.errors import GradientError
from workbench.ops.define import shape_of
from workbench.ops.sparse.pattern import to_host

#: A probe finds an error of more than this share, times the rounding of the dtype.
TOLERANCE = 2.0**14
#: So many rows that a probe finds wrong are looked at for the entry to name.
MOST_ROWS = 50


def check_entries(
    linear: LinearMap, pattern: SparsityPattern, values: Any, name: str
) -> bool:
    """Raise if a derivative has an entry outside of a pattern.

    Its product with a random vector is compared with that of the entries that were
    read: where they differ, one row of the matrix is computed.

    Returns
    -------
    Whether the values tell: not where they are NaN or infinite, nor where all are zero.

    Raises
    ------
    GradientError
        Naming the entry.
    """
    from scipy.sparse import csr_array

    height, width = pattern.shape
    if not height or not width:
        return True
    values = to_host(values)
    draws = np.random.default_rng(0)
    # A product rounds the vector to the dtype of the arguments: these pass whole.
    ends = (*linear.wrt, *linear.outputs)
    coarsest = max(
        (np.finfo(x.dtype) for x in ends if is_varying(x)), key=lambda kind: kind.eps
    )

    def draw(size: int) -> Any:
        made = draws.uniform(1, 2, size) * draws.choice([-1, 1], size)
        return made.astype(coarsest.dtype).astype(made.dtype)

    vector = draw(width)
    matrix = csr_array((values, pattern.indices, pattern.indptr), pattern.shape)
    try:
        exact = linear.multiply("forward", vector[None])[0]
    except NO_RULE:
        vector = draw(height)
        exact = linear.multiply("reverse", vector[None])[0]
        matrix = matrix.T.tocsr()
    exact = to_host(exact)
    with np.errstate(all="ignore"):
        size = abs(matrix) @ abs(vector) + abs(exact)
        rounding = TOLERANCE * coarsest.eps
        wrong = abs(matrix @ vector - exact) > rounding * size
    is_finite = np.isfinite(size)
    wrong &= is_finite
    if not wrong.any():
        return bool(is_finite.all() and size.any())
    if linear.rules:
        source = "of the program"
        cure = (
            "The rule of an override moves entries to where the program has none, or"
            " is not linear, so that products do not tell them: leave sparse= out."
        )
    elif any(op.is_given for op in pattern.dense_ops):
        source = "of the program"
        cure = (
            "The pattern that is given for an op is too small:"
            f" {', '.join(op.name for op in pattern.dense_ops if op.is_given)}. Return"
            " every entry that its derivative reads."
        )
    else:
        source = "that was given"
        cure = "Add it to the pattern, or let Workbench find the pattern: sparse=True."
    place = _find_outside(linear, pattern, np.flatnonzero(wrong), len(exact) == height)
    where = "an entry" if place is None else f"the entry {place[:2]}, which is"
    size_text = " somewhere" if place is None else f" {place[2]:.4g}"
    raise GradientError(
        f"{name}: the pattern {source} is too small: the {name} has"
        f" {where}{size_text}, outside of it, and other entries came out wrong."
        f" {'' if place is None else _name_ends(linear, place)}{cure}"
    )


def _find_outside(
    linear: LinearMap, pattern: SparsityPattern, wrong: Any, by_rows: bool
) -> tuple[int, int, complex] | None:
    """Return an entry outside of the pattern, and its value; None: not found."""
    if not by_rows:
        pattern = pattern.T
    for line in wrong[:MOST_ROWS].tolist():
        unit = np.zeros((1, pattern.shape[0]))  # host array: a seed
        unit[0, line] = 1
        mode: Mode = "reverse" if by_rows else "forward"
        try:
            entries = to_host(linear.multiply(mode, unit))[0].copy()
        except NO_RULE:
            return None
        first, last = pattern.indptr[line : line + 2]
        entries[pattern.indices[first:last]] = 0
        if entries.any():
            other = int(abs(entries).argmax())
            value = entries[other].item()
            return (line, other, value) if by_rows else (other, line, value)
    return None


def _name_ends(linear: LinearMap, place: tuple[int, int, complex]) -> str:
    """Return which entry of which output depends on which entry of which argument."""
    y, output = _locate(linear.outputs, linear.row_starts, place[0])
    x, argument = _locate(linear.wrt, linear.column_starts, place[1])
    return (
        f"It is entry {output} of {_name(y, 'the output')} by entry {argument} of"
        f" {_name(x, 'the argument')}. "
    )


def _locate(parts: Sequence[Any], starts: Sequence[int], flat: int) -> tuple[Any, str]:
    place = int(np.searchsorted(starts, flat, side="right")) - 1
    shape = shape_of(parts[place])
    index = np.unravel_index(flat - starts[place], shape)
    return parts[place], str(tuple(int(i) for i in index))


def _name(x: Any, otherwise: str) -> str:
    name = x.name if isinstance(x, Tensor) else None
    return name or otherwise
