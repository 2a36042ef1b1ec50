"""Contractions at fixed shapes: products of matrices, and sums of products.

Operands meet in pairs. Where an axis of each is left over and one is summed, the pair
is a product of stacks of matrices; else entries are multiplied and added up, in one
kernel with what stands around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.ops.contraction import parse_subscripts
from workbench.ops.define import dtype_of, shape_of

#: An operand, and a letter for each of its axes.
Factor = tuple[Any, str]


def contract(*operands: Any, subscripts: str, optimize: Any = None) -> Any:
    """Return an einsum, as products of matrices and sums of products.

    None: NumPy computes it, of integers, say.
    """
    terms, output = parse_subscripts(subscripts)
    dtype = np.result_type(*map(dtype_of, operands))
    shapes = [shape_of(x) for x in operands]
    if dtype.kind not in "fc" or dtype.char == "e" or any(0 in s for s in shapes):
        return None
    lengths: dict[str, int] = {}
    parts: list[Factor] = []
    for x, term in zip(operands, terms, strict=True):
        x = x.astype(dtype) if dtype_of(x) != dtype else x
        x, term = _take_diagonals(x, term)
        for letter, n in zip(term, shape_of(x), strict=True):
            lengths[letter] = max(n, lengths.get(letter, 1))
        parts.append((x, term))
    # An axis of length 1 that meets a longer one is spread: it has no letter.
    parts = [_drop_short_axes(x, term, lengths) for x, term in parts]
    for pair in _order_pairs(parts, output, lengths):
        chosen = [parts[i] for i in pair]
        parts = [one for i, one in enumerate(parts) if i not in pair]
        kept = set(output).union(*(term for _, term in parts))
        parts.append(_contract_pair(chosen, kept, lengths, output))
    x, term = _sum_letters(*parts[0], set(output))
    return _arrange(x, term, output, lengths)[0]


def _order_pairs(
    parts: list[Factor], output: str, lengths: Mapping[str, int]
) -> list[tuple[int, int]]:
    """Return which operands meet when, by their places in what is left of the list."""
    if len(parts) < 3:
        return [(0, 1)] * (len(parts) - 1)
    # Loaded here: a program without such products needs no search for paths.
    from opt_einsum import contract_path

    inputs = ",".join(term for _, term in parts)
    spelt = f"{inputs}->{''.join(c for c in output if c in inputs)}"
    shapes = [tuple(lengths[c] for c in term) for _, term in parts]
    path, _ = contract_path(spelt, *shapes, shapes=True, optimize="auto")
    pairs: list[tuple[int, int]] = []
    left = len(parts)
    for group in path:
        first, *others = sorted(group)
        for k, other in enumerate(others):
            # The product of the first ones stands at the end.
            pairs.append((first, other) if k == 0 else (other - k - 1, left - 1))
            left -= 1
    return pairs


def _take_diagonals(x: Any, term: str) -> Factor:
    """Return an operand with each letter once."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = np.diagonal(x, axis1=first, axis2=second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


def _drop_short_axes(x: Any, term: str, lengths: Mapping[str, int]) -> Factor:
    short = [n == 1 and lengths[c] > 1 for n, c in zip(shape_of(x), term, strict=True)]
    if not any(short):
        return x, term
    x = np.reshape(x, [n for n, is_short in zip(shape_of(x), short, strict=True)
                       if not is_short])  # fmt: skip
    return x, "".join(
        c for c, is_short in zip(term, short, strict=True) if not is_short
    )


def _sum_letters(x: Any, term: str, kept: set[str]) -> Factor:
    axes = tuple(i for i, c in enumerate(term) if c not in kept)
    if axes:
        x = np.sum(x, axis=axes)
    return x, "".join(c for c in term if c in kept)


def _arrange(x: Any, term: str, output: str, lengths: Mapping[str, int]) -> Factor:
    """Return an operand with its axes in this order, spread over letters it lacks."""
    inner = "".join(c for c in output if c in term)
    if inner != term:
        x = np.transpose(x, [term.index(c) for c in inner])
    if inner != output:
        x = np.reshape(x, [lengths[c] if c in term else 1 for c in output])
        x = np.broadcast_to(x, [lengths[c] for c in output])
    return x, output


def _contract_pair(
    pair: Sequence[Factor], kept: set[str], lengths: Mapping[str, int], output: str
) -> Factor:
    """Return the product of two operands, summed over letters that nobody needs."""
    (a, left), (b, right) = (
        _sum_letters(x, term, kept | set(other))
        for (x, term), (_, other) in zip(pair, reversed(pair), strict=True)
    )
    batch, summed, rows, columns = (
        sorted(group, key=output.find)
        for group in (
            [c for c in left if c in right and c in kept],
            [c for c in left if c in right and c not in kept],
            [c for c in left if c not in right],
            [c for c in right if c not in left],
        )
    )
    if summed and (rows or columns) and not (batch and not (rows and columns)):
        if rows and columns and output.find(rows[0]) > output.find(columns[0]):
            a, left, b, right, rows, columns = b, right, a, left, columns, rows
        return _multiply_matrices(
            a, left, b, right, (batch, rows, summed, columns), lengths
        )
    # Entry by entry, which what follows may join.
    letters = left + "".join(columns)
    b, right = _arrange(b, right, "".join(c for c in letters if c in right), lengths)
    spread = [
        np.reshape(x, [lengths[c] if c in term else 1 for c in letters])
        for x, term in ((a, left), (b, right))
    ]
    return _sum_letters(spread[0] * spread[1], letters, kept)


def _multiply_matrices(
    a: Any, left: str, b: Any, right: str, groups: tuple[list[str], ...],
    lengths: Mapping[str, int],
) -> Factor:  # fmt: skip
    """Return the product of two operands as that of stacks of matrices."""
    batch, rows, summed, columns = groups

    def merge(x: Any, term: str, *groups: list[str]) -> Any:
        order = [c for group in (batch, *groups) for c in group]
        x = np.transpose(x, [term.index(c) for c in order])
        sizes = [math.prod(lengths[c] for c in group) for group in groups if group]
        return np.reshape(x, [*(lengths[c] for c in batch), *sizes])

    made = merge(a, left, rows, summed) @ merge(b, right, summed, columns)
    letters = [*batch, *rows, *columns]
    return np.reshape(made, [lengths[c] for c in letters]), "".join(letters)


# Products of two operands


def _expand_matmul(a: Any, b: Any) -> Any:
    """Write a product of vectors or integers as sums, one of stacks as of matrices."""
    left, right = shape_of(a), shape_of(b)
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    if dtype.char == "e" or 0 in (*left, *right):
        return None
    if dtype.kind not in "fc":
        return _multiply_integers(a, b, dtype)
    if len(left) == len(right) == 1:
        return np.sum(a * b)
    if len(left) > 2 and len(right) <= 2:  # one product for the whole stack
        whole = np.reshape(a, (math.prod(left[:-1]), left[-1])) @ b
        return np.reshape(whole, (*left[:-1], *right[1:]))
    return None


def _multiply_integers(a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
    rows = len(shape_of(a)) > 1
    columns = len(shape_of(b)) > 1
    a = a[..., None] if rows else a[:, None]
    b = b if columns else b[:, None]
    b = b[..., None, :, :] if rows else b
    if dtype.kind == "b":
        made = np.any(a & b, axis=-2)
    else:
        made = np.sum(a * b, axis=-2).astype(dtype)
    return made if columns else made[..., 0]


def _expand_tensordot(a: Any, b: Any, *, axes: tuple[Any, Any]) -> Any:
    """Write a contraction as a product of matrices."""
    shapes = shape_of(a), shape_of(b)
    left, right = axes
    free = [n for n in range(len(shapes[0])) if n not in left]
    other = [n for n in range(len(shapes[1])) if n not in right]
    inner = math.prod(shapes[0][n] for n in left)
    rows = math.prod(shapes[0][n] for n in free)
    columns = math.prod(shapes[1][n] for n in other)
    flat_a = np.reshape(np.transpose(a, (*free, *left)), (rows, inner))
    flat_b = np.reshape(np.transpose(b, (*right, *other)), (inner, columns))
    shape = (*(shapes[0][n] for n in free), *(shapes[1][n] for n in other))
    return np.reshape(flat_a @ flat_b, shape)


# Convolutions with few entries, which slide over the other operand, or few results

#: A convolution with at most so many entries, or results, is a sum of products.
FEW = 64


def _expand_convolution(
    a: Any, b: Any, *, mode: str, batch: int = 0, **more: Any
) -> Any:
    """Write a convolution as a sum over windows of the one operand."""
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    lengths = shape_of(a)[batch:], shape_of(b)[batch:]
    swapped = math.prod(lengths[0]) < math.prod(lengths[1])
    if swapped and (mode != "same" or "method" not in more):
        a, b, lengths = b, a, lengths[::-1]
    if (
        dtype.kind not in "fciu"
        or dtype.char == "e"
        or more.get("method", "direct") != "direct"
        or 0 in (*shape_of(a), *shape_of(b))
    ):
        return None
    rank = len(lengths[0])
    key: list[Any] = [slice(None)] * batch
    margins = [(0, 0)] * batch
    results = 1
    for n, m in zip(*lengths, strict=True):
        start = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
        size = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
        if size < 1:
            return None
        results *= size
        key.append(slice(max(0, start - m + 1), min(n, start + size)))
        margins.append((max(0, m - 1 - start), max(0, start + size - n)))
    if min(math.prod(lengths[1]), results) > FEW:
        return None
    a = np.pad(a[tuple(key)], margins)
    windows = np.lib.stride_tricks.sliding_window_view(
        a, lengths[1], tuple(range(batch, batch + rank))
    )
    turned = np.flip(b, tuple(range(batch, batch + rank)))
    front = shape_of(turned)[:batch]
    turned = np.reshape(turned, (*front, *(1,) * rank, *lengths[1]))
    axes = tuple(range(batch + rank, batch + 2 * rank))
    return np.sum(windows * turned, axis=axes).astype(dtype)


CONTRACTION_EXPANSIONS: dict[str, Callable[..., Any]] = {
    "convolve": _expand_convolution,
    "convolve_nd": _expand_convolution,
    "einsum": contract,
    "matmul": _expand_matmul,
    "tensordot": _expand_tensordot,
}
