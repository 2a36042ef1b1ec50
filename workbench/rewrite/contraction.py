"""A sum of products of broadcast arrays, computed without the array of the products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from workbench.ops.contraction import LETTERS
from workbench.ops.define import shape_of

#: From so many products for each entry of a batch on, BLAS is faster than einsum.
WORTH_BLAS = 64


class Factor(NamedTuple):
    """A factor, and for each of its axes that of the product; None for a length of 1.

    Attributes
    ----------
    x
        The array.
    places
        The axis of the product that each of its axes runs along.
    """

    x: Any
    places: tuple[int | None, ...]


class ContractionPlan(NamedTuple):
    """The contraction of some arrays and numbers.

    Attributes
    ----------
    places
        The axes of each array, as of a `Factor`.
    rank
        How many axes the product has.
    axes
        Which of them are summed.
    keepdims
        Whether these stay with length 1.
    scale, over
        The result is multiplied by one and divided by the other.
    """

    places: tuple[tuple[int | None, ...], ...]
    rank: int
    axes: tuple[int, ...]
    keepdims: bool
    scale: int
    over: int


#: An array and the letters of its axes.
Lettered = tuple[Any, str]


def contract(plan: ContractionPlan, *operands: Any) -> Any:
    """Return the sum over some axes of the product of arrays and numbers."""
    arrays, numbers = operands[: len(plan.places)], operands[len(plan.places) :]
    terms = [_drop_ones(x, p) for x, p in zip(arrays, plan.places, strict=True)]
    summed = {LETTERS[axis] for axis in plan.axes}
    kept = "".join(c for c in LETTERS[: plan.rank] if c not in summed)
    parts = [
        _sum_products(part, {c for _, term in part for c in term if c in kept})
        for part in _split_terms(terms, summed)
    ]
    y = _multiply_all(parts, kept)
    if plan.over != 1:
        y = y / plan.over
    if plan.scale != 1:
        y = -y if plan.scale == -1 else plan.scale * y
    if numbers:
        y = reduce(mul, numbers) * y
    return np.expand_dims(y, plan.axes) if plan.keepdims else y


def _drop_ones(x: Any, places: Sequence[int | None]) -> Lettered:
    """Return an array without the axes of length 1 that are spread."""
    if None in places:
        x = x[tuple(0 if p is None else slice(None) for p in places)]
    return x, "".join(LETTERS[p] for p in places if p is not None)


def _split_terms(terms: Sequence[Lettered], summed: set[str]) -> list[list[Lettered]]:
    """Return the factors in parts that share no axis that is summed."""
    parts: list[tuple[set[str], list[Lettered]]] = []
    for one in terms:
        letters, part = summed & set(one[1]), [one]
        apart = []
        for other, others in parts:
            if letters & other:
                letters, part = letters | other, [*others, *part]
            else:
                apart.append((other, others))
        parts = [*apart, (letters, part)]
    return [part for _, part in parts]


def _sum_products(terms: Sequence[Lettered], kept: set[str]) -> Lettered:
    """Return the sum of the products of factors over the axes that are not kept."""
    terms = [
        _sum_axes(one, kept.union(*[t for j, (_, t) in enumerate(terms) if j != i]))
        for i, one in enumerate(terms)
    ]
    if len(terms) == 1:
        return _sum_axes(terms[0], kept)
    if len(terms) == 2:
        return _sum_pair(terms[0], terms[1], kept)
    output = "".join(c for c in LETTERS if c in kept)
    spelt = f"{','.join(term for _, term in terms)}->{output}"
    shapes = [shape_of(x) for x, _ in terms]
    if not all(isinstance(n, int) for shape in shapes for n in shape):
        return np.einsum(spelt, *[x for x, _ in terms]), output
    # Loaded here: a program without such products needs no search for paths.
    from opt_einsum import contract_path

    path, told = contract_path(spelt, *shapes, shapes=True, optimize="optimal")
    lengths = {c: n for (_, t), s in zip(terms, shapes, strict=True)
               for c, n in zip(t, s, strict=True)}  # fmt: skip
    if told.largest_intermediate >= math.prod(lengths.values()):
        return np.einsum(spelt, *[x for x, _ in terms], optimize=False), output
    for pair in path:
        chosen = [terms[i] for i in sorted(pair)]
        terms = [one for i, one in enumerate(terms) if i not in pair]
        needed = kept.union(*[term for _, term in terms])
        terms.append(_sum_pair(chosen[0], chosen[1], needed))
    return terms[0]


def _sum_axes(one: Lettered, kept: set[str]) -> Lettered:
    x, term = one
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    return (
        (np.sum(x, axis=axes), "".join(c for c in term if c in kept)) if axes else one
    )


def _sum_pair(first: Lettered, second: Lettered, kept: set[str]) -> Lettered:
    """Return the sum of the products of two factors, by BLAS where that pays."""
    (a, left), (b, right) = first, second
    shared = [c for c in left if c in right]
    summed = "".join(c for c in shared if c not in kept)
    batch = "".join(c for c in shared if c in kept)
    rows = "".join(c for c in left if c not in right)
    columns = "".join(c for c in right if c not in left)
    if not summed:
        output = "".join(c for c in LETTERS if c in rows + columns + batch)
        return _multiply_all([first, second], output), output
    if not batch:
        return _multiply_matrices(first, second, rows, summed, columns)
    output = batch + rows + columns
    is_ahead = left.startswith(batch) and right.startswith(batch)
    if (
        max(len(rows), len(columns), len(summed)) == 1
        and rows + columns
        and _is_worth(first, second, batch)
        and ((rows and columns) or is_ahead)
    ):
        a = _move(a, left, batch + rows + summed)
        b = _move(b, right, batch + summed + columns)
        y = (a if rows else a[..., None, :]) @ (b if columns else b[..., None])
        return (y if rows and columns else y[..., 0] if rows else y[..., 0, :]), output
    if rows and columns:
        return np.einsum(f"{left},{right}->{output}", a, b), output
    # In the order in which the larger one lies.
    whole = left if len(left) >= len(right) else right
    output = "".join(c for c in whole if c in output)
    return np.einsum(f"{left},{right}->{output}", a, b, optimize=False), output


def _is_worth(first: Lettered, second: Lettered, batch: str) -> bool:
    """Return whether there are enough products for each entry of the batch."""
    lengths = {c: n for x, term in (first, second)
               for c, n in zip(term, shape_of(x), strict=True)}  # fmt: skip
    inner = [n for c, n in lengths.items() if c not in batch]
    return all(isinstance(n, int) for n in inner) and math.prod(inner) >= WORTH_BLAS


def _multiply_matrices(
    first: Lettered, second: Lettered, rows: str, summed: str, columns: str
) -> Lettered:
    """Return a product of two arrays that no axis goes through."""
    (a, left), (b, right) = first, second
    if not rows and not columns and len(summed) > 1:
        return np.einsum(f"{left},{right}->", a, b, optimize=False), ""
    if max(map(len, (rows, summed, columns))) > 1:
        axes = [left.index(c) for c in summed], [right.index(c) for c in summed]
        return np.tensordot(a, b, axes), rows + columns
    if rows and columns and columns < rows:
        (a, left), (b, right), rows, columns = second, first, columns, rows
    return _move(a, left, rows + summed) @ _move(b, right, summed + columns), (
        rows + columns
    )


def _move(x: Any, term: str, order: str) -> Any:
    """Return an array with its axes in another order."""
    if term == order:
        return x
    if len(term) == 2:
        return x.T
    return np.transpose(x, [term.index(c) for c in order])


def _multiply_all(parts: Sequence[Lettered], order: str) -> Any:
    """Return the product of arrays that broadcast, the smaller ones first."""
    made: list[Any] = []
    for x, term in sorted(parts, key=lambda part: len(part[1])):
        x = _move(x, term, "".join(c for c in order if c in term))
        inner = order[min(map(order.index, term), default=0) :] if term else ""
        if len(inner) > len(term):
            x = x[tuple(slice(None) if c in term else None for c in inner)]
        made.append(x)
    return reduce(mul, made)
