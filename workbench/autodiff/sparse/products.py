"""Sums of products of entries: which entries meet, and where their product goes.

Contractions (`matmul`, `tensordot`, `einsum`) are described by letters for their
indices; convolutions by the positions that overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.relations import (
    Positions,
    Relation,
    count_up,
    make_csr,
)

Shape = tuple[int, ...]

#: More terms of a sum of products than this are not listed one by one.
MOST_PRODUCTS = 2**23
#: Zeros of a constant matrix with more nonzeros than this share are looked at where its
#: products are few.
SPARSE_SHARE = 0.5
FEW_PRODUCTS = 2**18


def read_array(values: Any) -> np.ndarray[Any, Any]:
    """Return an array in main memory: one of CuPy comes from the device."""
    return np.asarray(values.get() if hasattr(values, "get") else values)


class Product:
    """A sum of products of entries, by the indices that operands and result have.

    Parameters
    ----------
    terms, output
        The letters of each operand and of the result, as in einsum.
    shapes
        The shapes of the operands; an axis of length 1 is broadcast.
    """

    def __init__(
        self, terms: Sequence[str], output: str, shapes: Sequence[Shape]
    ) -> None:
        self.terms = terms
        self.output = output
        self.shapes = shapes
        self.lengths: dict[str, int] = {}
        for term, shape in zip(terms, shapes, strict=True):
            for letter, n in zip(term, shape, strict=True):
                self.lengths[letter] = max(n, self.lengths.get(letter, 1))
                if n == 0:
                    self.lengths[letter] = 0

    def count(self, letters: str) -> int:
        """Return the size of the space of these indices."""
        return math.prod(self.lengths[c] for c in letters)

    def relate(self, i: int) -> Relation:
        """Return which entries of an operand a result reads, whatever the others are.

        They are those that agree in the indices that both have.
        """
        term, shape = self.terms[i], self.shapes[i]
        if len(set(term)) < len(term):  # a diagonal: entries beside it do not count
            letters = "".join(dict.fromkeys(term + self.output))
            return self._list_terms(i, letters)
        stays = [
            c for c, n in zip(term, shape, strict=True) if c in self.output and n > 1
        ]
        sizes = [self.lengths[c] for c in stays]
        steps = dict(zip(stays, _list_strides(sizes), strict=True))
        members = self._combine(term, shape, steps)
        lengths = tuple(self.lengths[c] for c in self.output)
        groups = self._combine(self.output, lengths, steps)
        return Relation(groups, members, math.prod(sizes))

    def _combine(self, term: str, shape: Shape, steps: dict[str, int]) -> Positions:
        made: Any = np.zeros((1,) * len(shape), np.int32)
        for axis, letter in enumerate(term):
            if letter in steps and shape[axis] > 1:
                line = count_up(shape[axis]) * np.int32(steps[letter])
                made = made + line.reshape((-1, *(1,) * (len(shape) - axis - 1)))
        return np.broadcast_to(made, shape).reshape(-1)

    def locate(self, term: str, shape: Shape, letters: str) -> Positions:
        """Return the position of the entry of an array at each point of index space."""
        strides = _list_strides(shape)
        steps: dict[str, int] = {}
        for letter, n, stride in zip(term, shape, strides, strict=True):
            if n > 1:
                steps[letter] = steps.get(letter, 0) + stride
        lengths = tuple(self.lengths[c] for c in letters)
        return self._combine(letters, lengths, steps)

    def _list_terms(self, i: int, letters: str, kept: Any = None) -> Relation:
        rows = self.locate(
            self.output, tuple(self.lengths[c] for c in self.output), letters
        )
        columns = self.locate(self.terms[i], self.shapes[i], letters)
        if kept is not None:
            rows, columns = rows[kept], columns[kept]
        size = math.prod(self.shapes[i])
        return Relation(matrix=make_csr(rows, columns, (self.count(self.output), size)))

    def relate_beside(self, i: int, other: int, values: Any) -> Relation | None:
        """Return the relation by an operand beside a constant with many zeros.

        None: list none one by one, `relate` is as good or there are too many.
        """
        nonzero = read_array(values) != 0
        if nonzero.all():
            return None
        letters = "".join(
            dict.fromkeys(self.terms[other] + self.terms[i] + self.output)
        )
        most = MOST_PRODUCTS * 4 if nonzero.mean() <= SPARSE_SHARE else FEW_PRODUCTS
        if self.count(letters) > most:
            return None
        kept = nonzero.reshape(-1)[
            self.locate(self.terms[other], self.shapes[other], letters)
        ]
        return self._list_terms(i, letters, np.nonzero(kept)[0])


def _list_strides(shape: Sequence[int]) -> list[int]:
    """Return how far apart neighbours along each axis lie, in C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return strides[::-1]


# Convolutions


def list_overlaps(n: int, m: int, mode: str) -> tuple[Positions, Positions, Positions]:
    """Return result, first and second position of each product of a convolution."""
    i = np.repeat(count_up(n), m)
    j = np.tile(count_up(m), n)
    start = {"full": 0, "same": (min(n, m) - 1) // 2, "valid": min(n, m) - 1}[mode]
    length = {
        "full": n + m - 1, "same": max(n, m), "valid": max(n, m) - min(n, m) + 1,
    }[mode]  # fmt: skip
    out = i + j - start
    kept = (out >= 0) & (out < length)
    return out[kept], i[kept], j[kept]
