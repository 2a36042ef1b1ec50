"""Contractions: which entries meet, and where their products go.

`matmul`, `tensordot` and `einsum` are described by letters for their indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.sparse.node_facts import NodeFacts, Shape
from workbench.autodiff.sparse.relations import (
    Positions,
    Relation,
    count_up,
    make_csr,
)
from workbench.core.op import Op
from workbench.ops.contraction import parse_subscripts

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


# The rules of contractions

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def describe_product(node: NodeFacts) -> Product:
    """Return a contraction as a sum of products, as its settings define."""
    params, shapes = node.params, node.shapes
    if "subscripts" in params:
        terms, output = parse_subscripts(params["subscripts"])
        return Product(terms, output, shapes)
    if "axes" not in params:  # a matrix product
        a, b = map(len, shapes)
        stack = LETTERS[2 : 2 + max(a, b, 2) - 2]
        left = (stack[len(stack) - (a - 2) :] + "iK" if a > 1 else "K").replace(
            "i", "I"
        )
        right = stack[len(stack) - (b - 2) :] + "KJ" if b > 1 else "K"
        output = stack + ("I" if a > 1 else "") + ("J" if b > 1 else "")
        return Product([left, right], output, shapes)
    axes = params["axes"]
    first = LETTERS[: len(shapes[0])]
    second = list(LETTERS[len(first) : len(first) + len(shapes[1])])
    for i, j in zip(*axes, strict=True):
        second[j] = first[i]
    summed = {first[i] for i in axes[0]}
    output = "".join(c for c in (*first, *second) if c not in summed)
    return Product([first, "".join(second)], output, shapes)


def relate_product(node: NodeFacts) -> list[Relation | None]:
    """Relate a contraction to each operand, by the constants that the operand meets."""
    product = describe_product(node)
    found: list[Relation | None] = []
    for i, varies in enumerate(node.varies):
        if not varies:
            found.append(None)
            continue
        relation = None
        for other, value in enumerate(node.values):
            if other != i and value is not None and not node.varies[other]:
                relation = relation or product.relate_beside(i, other, value)
        found.append(relation or product.relate(i))
    return found


# The products themselves, for second derivatives

Products = tuple[Positions, Positions, Positions]


def adds_products(op: Op) -> bool:
    """Return whether the entries of an op's result are sums of products."""
    return op.pattern == "contraction"


def list_products(node: NodeFacts, i: int, j: int) -> Products | None:
    """Return the products that a contraction adds up.

    Entries of the result, and of two operands. None: they are too many.
    """
    product = describe_product(node)
    letters = "".join(
        dict.fromkeys(product.terms[i] + product.terms[j] + product.output)
    )
    if product.count(letters) > MOST_PRODUCTS:
        return None
    lengths = tuple(product.lengths[c] for c in product.output)
    return (
        product.locate(product.output, lengths, letters),
        product.locate(product.terms[i], product.shapes[i], letters),
        product.locate(product.terms[j], product.shapes[j], letters),
    )
