"""Where a Hessian can differ from zero: the walk back of pattern propagation.

It marks the entries that the outputs depend on, and each op that curves there pairs the
inputs that its operands depend on: both by both where the second derivative by the two
operands can differ from 0 (edge pushing on patterns; after A. Walther, "On the
efficient computation of sparsity patterns for Hessians", ACM TOMS 40 (2014) 10). What
is linear in its operands adds nothing, however its values are computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from workbench.autodiff.sparse.node_facts import NodeFacts
from workbench.autodiff.sparse.nonlinearity import has_curvature
from workbench.autodiff.sparse.places import DenseOp
from workbench.autodiff.sparse.products import adds_products, list_products
from workbench.autodiff.sparse.relations import (
    Dependence,
    Mask,
    Positions,
    Relation,
    UnionTerm,
    make_csr,
    multiply,
)
from workbench.core.tensor import Tensor

TangentT = TypeVar("TangentT")

#: Pairs of terms up to so many are listed; of more a product of matrices is cheaper.
MOST_LISTED = 4
#: Listed pairs of inputs up to so many wait to be sorted at once.
MOST_WAITING = 2**23


class Value(Generic[TangentT]):
    """A value of the program: its shape, its dependence, and its marked entries.

    Attributes
    ----------
    shape
        Its shape.
    dependence
        Which inputs each entry depends on: a `Dependence`, or a `SparseTangent`, which
        has the entries too.
    marks
        Which entries the outputs depend on, once the walk back has come to it.
    """

    __slots__ = ("dependence", "marks", "shape")

    def __init__(self, shape: tuple[int, ...], dependence: TangentT) -> None:
        self.shape = shape
        self.dependence = dependence
        self.marks: Mask | None = None

    def mark_all(self) -> None:
        """Say that the outputs depend on each entry."""
        self.marks = np.ones(math.prod(self.shape), bool)

    def mark(self, mask: Mask) -> None:
        """Add entries that the outputs depend on."""
        self.marks = mask if self.marks is None else self.marks | mask


class Record(NamedTuple):
    """One op of the walk forth, for the walk back."""

    node: Tensor | None
    facts: NodeFacts | None
    operands: Sequence[Value[Dependence] | None]
    outputs: Sequence[Value[Dependence] | None]
    relations: Sequence[Sequence[Relation | None]]


class PairCollector:
    """Pairs of inputs, each in one order of two at least, gathered bit by bit.

    Parameters
    ----------
    width
        The number of inputs.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.waiting: list[tuple[Positions, Positions]] = []
        self.count = 0
        self.total: Any = None
        #: What has been paired already, with what its ids stand for.
        self.known: dict[Hashable, Any] = {}

    def pair(
        self,
        left: Sequence[UnionTerm],
        left_entries: Positions | None,
        right: Sequence[UnionTerm],
        right_entries: Positions | None,
        size: int,
    ) -> None:
        """Add the inputs that two values depend on, where their entries meet.

        Parameters
        ----------
        left, right
            What the values depend on.
        left_entries, right_entries
            Which entry of one meets which of the other; None for all of both, one by
            one.
        size
            How often entries meet.
        """
        if not left or not right:
            return
        if left_entries is None and right_entries is None:
            key = _identify(left), _identify(right)
            if key in self.known or key[::-1] in self.known:
                return
            self.known[key] = left, right
        maps = all(t.table is None for t in (*left, *right))
        if not maps or len(left) * len(right) > MOST_LISTED:
            self._multiply(left, left_entries, right, right_entries, size)
            return
        for a in left:
            for b in right:
                one = _pick_rows(a, left_entries, size)
                two = _pick_rows(b, right_entries, size)
                if min(one.min(initial=0), two.min(initial=0)) < 0:
                    kept = (one >= 0) & (two >= 0)
                    one, two = one[kept], two[kept]
                self.waiting.append((one, two))
                self.count += len(one)
        if self.count > MOST_WAITING:
            self._sort()

    def _multiply(
        self,
        left: Sequence[UnionTerm],
        left_entries: Positions | None,
        right: Sequence[UnionTerm],
        right_entries: Positions | None,
        size: int,
    ) -> None:
        """Add the pairs as a product of boolean matrices."""
        one, keys = _merge(left, left_entries, size, self.width)
        two, others = _merge(right, right_entries, size, self.width)
        met = make_csr(keys, others, (one.shape[0], two.shape[0]))
        made = multiply(one.T.tocsr(), multiply(met, two))
        self.total = made if self.total is None else self.total + made

    def _sort(self) -> None:
        rows, columns = map(np.concatenate, zip(*self.waiting, strict=True))
        made = make_csr(rows, columns, (self.width, self.width))
        self.waiting, self.count = [], 0
        self.total = made if self.total is None else self.total + made

    def make_symmetric(self) -> Any:
        """Return all pairs in both orders, as a boolean CSR array."""
        if self.waiting:
            self._sort()
        if self.total is None:
            return make_csr([], [], (self.width, self.width))
        return self.total + self.total.T.tocsr()


def _identify(terms: Sequence[UnionTerm]) -> frozenset[tuple[int, int]]:
    return frozenset((id(t.rows), id(t.table)) for t in terms)


def _pick_rows(term: UnionTerm, entries: Positions | None, size: int) -> Positions:
    """Return the row of a term's table for each of some entries."""
    if entries is None:
        return term.select_rows(size)
    return entries if term.rows is None else term.rows[entries]


def _merge(
    terms: Sequence[UnionTerm], entries: Positions | None, size: int, width: int
) -> tuple[Any, Positions]:
    """Return a table of dependences, and the row of each entry in the table."""
    if len(terms) == 1 and terms[0].table is not None:
        return terms[0].table, _pick_rows(terms[0], entries, size)
    picked = [UnionTerm(_pick_rows(t, entries, size), t.table) for t in terms]
    return Dependence(size, width, picked).make_csr(), np.arange(size)


def collect_pairs(records: Sequence[Record], pairs: PairCollector) -> Iterator[DenseOp]:
    """Walk back from marked outputs, and collect the pairs with a second derivative.

    Yields the ops that were taken to mix more entries than they may.
    """
    for record in reversed(records):
        for output, row in zip(record.outputs, record.relations, strict=True):
            if output is None or output.marks is None or not output.marks.any():
                continue
            if record.facts is not None:
                yield from _pair_operands(record, row, output, pairs)
            for x, relation in zip(record.operands, row, strict=True):
                if x is not None and relation is not None:
                    size = math.prod(x.shape)
                    x.mark(relation.pull_mask(output.marks, size))


def _pair_operands(
    record: Record,
    row: Sequence[Relation | None],
    output: Value[Dependence],
    pairs: PairCollector,
) -> Iterator[DenseOp]:
    """Pair the dependences of one op's operands, where the op curves."""
    facts, marks = record.facts, output.marks
    assert facts is not None
    assert marks is not None
    entries = None if marks.all() else np.nonzero(marks)[0]
    live = [
        (i, x, relation)
        for i, (x, relation) in enumerate(zip(record.operands, row, strict=True))
        if x is not None and relation is not None
    ]
    composed: dict[int, list[UnionTerm]] = {}
    for n, (i, left, _) in enumerate(live):
        for j, right, _ in live[n:]:
            if not has_curvature(facts, i, j):
                continue
            product = adds_products(facts.op)
            listed = list_products(facts, i, j) if product else None
            if listed is not None:
                out, one, two = listed
                if entries is not None:
                    kept = marks[out]
                    one, two = one[kept], two[kept]
                pairs.pair(
                    left.dependence.terms, one, right.dependence.terms, two, len(one)
                )
                continue
            if product and record.node is not None:
                reason = "it has too many products to list them one by one"
                yield DenseOp(facts.op.name, record.node.site, reason)
            if not composed:
                composed = {k: x.dependence.compose_terms(r) for k, x, r in live}
            count = len(marks) if entries is None else len(entries)
            pairs.pair(composed[i], entries, composed[j], entries, count)
