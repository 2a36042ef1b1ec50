"""Patterns of Jacobians and Hessians, from the structure of a program.

A walk from the inputs to the outputs tells of each value which inputs each of its
entries depends on; no number is computed. A Hessian needs a walk back as well
(`curvature.py`). Ops that hold programs are walked inside: a loop step by step while
that is cheap, else until nothing is added any more; of a choice both branches count.
An op with a rule of its own is not: its derivatives are the rule's, whatever it
computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.higher_order import is_draw
from workbench.autodiff.sparse import nonlinearity, rules
from workbench.autodiff.sparse.curvature import (
    PairCollector,
    Record,
    Value,
    collect_pairs,
)
from workbench.autodiff.sparse.node_facts import NodeFacts, has_own_rule
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.places import DenseOp
from workbench.autodiff.sparse.relations import (
    IDENTITY,
    Dependence,
    Relation,
    UnionTerm,
    as_relation,
    make_csr,
    make_identity,
)
from workbench.core import types, walk
from workbench.core.dims import has_dim
from workbench.core.graph import Graph
from workbench.core.op import Choice, Repetition
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import make_leaf_like
from workbench.errors import UnknownLengthError, UsageError, WorkbenchError
from workbench.ops.define import ITEM, shape_of
from workbench.ops.lengths import is_mask
from workbench.ops.makers import FULL_LIKE, MAKE_LIKE

#: A loop is walked step by step if that is at most so many ops.
MOST_STEPS = 20_000
#: Integers of at most so many entries are computed on the way, to follow an index.
MOST_COUNTED = 4_000_000
#: Other constants of at most so many entries, for the zeros in them.
FEW = 4096
#: What is said of an op of which a user has given the pattern.
GIVEN = "which entries it reads is given with it"
#: What these make depends on the shape of their operand alone.
SHAPED = FULL_LIKE, MAKE_LIKE


#: What the walk knows of a Tensor: a value that depends on inputs, several, or a
#: constant (its value, or None where there is none).
Known = Any


class Constant(NamedTuple):
    """A value that does not depend on the inputs; None where the value is unknown."""

    value: Any


class Unmeasured(NamedTuple):
    """A value with a length that only the run tells: an error if the value is read."""

    shape: tuple[Any, ...]
    node: Tensor


class Propagation:
    """One walk through a program.

    Parameters
    ----------
    wrt
        The inputs.
    keep
        Keep records for the walk back.
    local
        At the values that the Tensors have: partial derivatives that are 0 there drop
        out.
    """

    def __init__(
        self, wrt: Sequence[Tensor], *, keep: bool = False, local: bool = False
    ) -> None:
        self.wrt = wrt
        self.keep = keep
        self.local = local
        self.records: list[Record] = []
        self.dense_ops: dict[DenseOp, None] = {}
        self.known: dict[int, Known] = {}
        sizes = [count_entries(x) for x in wrt]
        self.width = sum(sizes)
        start = 0
        for x, size in zip(wrt, sizes, strict=True):
            dependence = make_identity(size, self.width, start)
            self.known[x.serial] = Value(tuple(x.shape), dependence)
            start += size

    # The walk forth

    def visit(self, outputs: Sequence[Any]) -> list[Known]:
        """Return the dependences, or constants, of the program's outputs."""
        roots = [y for y in outputs if isinstance(y, Tensor)]
        nodes = walk.order_nodes(roots, stop={x.serial for x in self.wrt})
        known = self.known
        self._visit_nodes(nodes, known, {x.serial for x in self.wrt})
        return [self._look_up(y, known) for y in outputs]

    def _visit_nodes(
        self, nodes: Iterable[Tensor], known: dict[int, Known], done: set[int]
    ) -> None:
        for node in nodes:
            if node.serial not in done:
                known[node.serial] = self._visit_node(node, known)

    def _look_up(self, x: Any, known: dict[int, Known]) -> Known:
        if isinstance(x, Tensor):
            found = known.get(x.serial)
            if isinstance(found, Unmeasured):
                _check_shape(found.shape, found.node)
            return self._read_constant(x) if found is None else found
        return Constant(x)

    def _read_constant(self, x: Tensor) -> Constant:
        return Constant(value_of(x))

    def _visit_node(self, node: Tensor, known: dict[int, Known]) -> Known:
        operands = [self._look_up(x, known) for x in node.operands]
        if node.op is ITEM:
            (whole,) = operands
            if isinstance(whole, Constant):
                value = whole.value
                return Constant(None if value is None else value[node.params["index"]])
            return whole[node.params["index"]]
        if node.op in SHAPED:  # known, though the operand may be an order of values
            return self._make_from_shape(node)
        if all(isinstance(x, Constant) for x in operands):
            return self._compute_constant(node, operands)
        inner = self._visit_inside(node, operands)
        if inner is not None:
            return inner
        return self._apply_rule(node, operands)

    def _compute_constant(self, node: Tensor, operands: Sequence[Known]) -> Constant:
        """Return a node that depends on no input as a constant, with a value if needed.

        Inside of loops an index may be counted up, and has no value of its own.
        """
        value = value_of(node)
        if value is not None or walk.is_leaf(node):
            return Constant(value)
        values = [x.value for x in operands]
        spec = types.spec_of(node)
        if isinstance(spec, tuple) or any(v is None for v in values):
            return Constant(None)
        if not _is_small(spec, MOST_COUNTED if spec.dtype.kind in "biu" else FEW):
            return Constant(None)
        if node.op.graphs is not None or node.op.custom or is_draw(node):
            return Constant(None)
        try:
            with np.errstate(all="ignore"):
                return Constant(compute_node(node, values))
        except (ArithmeticError, IndexError, ValueError):  # told when the program runs
            return Constant(None)

    def _make_from_shape(self, node: Tensor) -> Constant:
        """Return the constant that a node makes from its operands' shapes alone."""
        value, spec = value_of(node), types.spec_of(node)
        if value is None and _is_small(spec):
            specs = [types.as_spec(types.spec_of(x)) for x in node.inputs]
            value = compute_node(node, [x.example() for x in specs])
        return Constant(value)

    def _describe(self, node: Tensor, operands: Sequence[Known]) -> NodeFacts:
        """Return the facts of a node that the rules read."""
        shapes = [
            _shape_of_known(x, y) for x, y in zip(operands, node.operands, strict=True)
        ]
        return NodeFacts(
            node.op,
            node.settings,
            shapes,
            [_check_shape(s.shape, node) for s in _list_specs(node)],
            [not isinstance(x, Constant) for x in operands],
            _read_values(node, operands),
            is_complex=any(_is_complex(x) for x in node.operands),
            specs=[types.spec_of(x) for x in node.operands],
            dependences=[
                x.dependence if isinstance(x, Value) else None for x in operands
            ],
            find_inside=self._find_inside,
            relate_inside=self._relate_inside,
        )

    def _apply_rule(self, node: Tensor, operands: Sequence[Known]) -> Known:
        facts = self._describe(node, operands)
        relations = rules.relate(facts)
        parts = _list_specs(node)
        several = isinstance(types.spec_of(node), tuple)
        if facts.loose is not None:
            is_own = has_own_rule(node.op)
            known = DenseOp(node.op.name, node.site, facts.loose, is_own)
            self.dense_ops[known] = None
        elif facts.is_given:
            known = DenseOp(node.op.name, node.site, GIVEN, is_own=True, is_given=True)
            self.dense_ops[known] = None
        if self.local:
            relations = self._restrict(node, facts, relations)
        made: list[Value[Dependence] | Constant] = []
        # What depends on inputs without derivative has a known value at a point alone.
        here = Constant(value_of(node) if self.local and not several else None)
        for spec, shape, row in zip(parts, facts.outputs, relations, strict=True):
            if not types.is_differentiable(spec.dtype):
                made.append(here)
                continue
            size = math.prod(shape)
            arriving = [
                x.dependence.compose(relation, size)
                for x, relation in zip(operands, row, strict=True)
                if relation is not None and not isinstance(x, Constant)
            ]
            if arriving:
                made.append(Value(shape, arriving[0].unite(arriving[1:])))
            else:
                made.append(here)
        values = [x if isinstance(x, Value) else None for x in made]
        if self.keep and any(values):
            given = [x if isinstance(x, Value) else None for x in operands]
            self.records.append(Record(node, facts, given, values, relations))
        return made if several else made[0]

    def _restrict(
        self,
        node: Tensor,
        facts: NodeFacts,
        relations: list[list[Relation | None]],
    ) -> list[list[Relation | None]]:
        """Return the relations without entries with a partial derivative of 0.

        For second derivatives only where the partial derivatives do not vary: that of
        x² is 0 at 0, and its own derivative is not.
        """
        if len(relations) != 1 or node._value is None:
            return relations
        if self.keep and _is_curved(facts, relations[0]):
            return relations
        if node.op.elementwise:
            return [nonlinearity.restrict_elementwise(node, facts, relations[0])]
        if node.op.kind == "reduction" and not rules.is_linear_in(node.op, 0):
            return [nonlinearity.restrict_reduced(node, relations[0])]
        return relations

    # Ops that hold programs

    def _find_inside(
        self, run: Any, operands: Sequence[Any], chosen: Sequence[int]
    ) -> list[Any] | None:
        """Return which entries of chosen operands the outputs of a program depend on.

        See `NodeFacts.find_inside`. Operands are values, or specs of unknown ones.
        """
        from scipy.sparse import vstack

        walked = self._walk_inside(run, operands, range(len(operands)))
        if walked is None:
            return None
        leaves, parts = walked
        whole = vstack([x.make_csr() for x in parts], format="csr")
        found, start = [], 0
        for i in chosen:
            size = count_entries(leaves[i])
            if not isinstance(leaves[i], Tensor):
                found.append(make_csr([], [], (whole.shape[0], size)))
                continue
            found.append(whole[:, start : start + size])
            start += size
        return found

    def _walk_inside(
        self, run: Any, operands: Sequence[Any], chosen: Sequence[int]
    ) -> tuple[list[Any], list[Dependence]] | None:
        """Return a program's operands, and the outputs' dependences on chosen ones.

        Specs become leaves. None: the program cannot be recorded.
        """
        leaves = [
            make_leaf_like(x) if isinstance(x, types.Spec) else x for x in operands
        ]
        wrt = [leaves[i] for i in chosen if isinstance(leaves[i], Tensor)]
        try:
            outputs = list(run(leaves))
            walked = Propagation(wrt)
            parts = [
                x.dependence
                if isinstance(x, Value)
                else Dependence(count_entries(y), walked.width, [])
                for y, x in zip(outputs, walked.visit(outputs), strict=True)
            ]
        except WorkbenchError:
            return None
        self.dense_ops.update(walked.dense_ops)
        return leaves, parts

    def _relate_inside(
        self, body: Any, node: NodeFacts, i: int, most: int
    ) -> list[Relation | None] | None:
        """Return how a body relates its outputs to an operand.

        See `NodeFacts.relate_inside`.
        """

        def run(given: Sequence[Any]) -> list[Any]:
            made = body(*given, **node.params)
            if made is None:
                raise UnknownLengthError("a body does not say what it reads")
            outputs = made if isinstance(made, tuple) else (made,)
            return [
                np.zeros(shape) if y is None else np.broadcast_to(y, shape)
                for y, shape in zip(outputs, node.outputs, strict=True)
            ]

        walked = self._walk_inside(run, node.name_operands(), [i])
        if walked is None:
            return None
        found: list[Relation | None] = []
        for part in walked[1]:
            relation = as_relation(part, most) if part.terms else None
            if part.terms and relation is None:
                return None
            found.append(relation)
        return found

    def _visit_inside(self, node: Tensor, operands: Sequence[Known]) -> Known | None:
        """Walk through the programs inside a node; None if there are none to use."""
        op = node.op
        if has_own_rule(op) or (op.custom and op.unfold is None):
            return None  # what it holds is not what its derivatives are of
        if op.graphs is None:
            body = rules.find_body(op)
            if body is None and rules.find_rule(op) is not None:
                return None
            return self._unfold(node, operands, body or op.unfold)
        form = None if op.lower is None else op.lower(node, "compiled")
        if isinstance(form, Repetition):
            return self._visit_loop(node, form, operands)
        if isinstance(form, Choice):
            return self._visit_choice(node, form, operands)
        graphs = op.graphs(node.operands, node.settings)
        if op.repeats or len(graphs) != 1:
            return None
        made = self._run(graphs[0], operands)
        return made if isinstance(types.spec_of(node), tuple) else made[0]

    def _unfold(
        self, node: Tensor, operands: Sequence[Known], unfold: Any
    ) -> Known | None:
        """Walk through the ops inside a node; None if they cannot be recorded.

        They come from ``unfold``, or from a record of the op's own function.
        """
        op, outputs = node.op, None
        given = [
            make_leaf_like(types.spec_of(x)) if known.value is None else known.value
            for x, known in (
                (x, y if isinstance(y, Constant) else Constant(None))
                for x, y in zip(node.operands, operands, strict=True)
            )
        ]
        try:
            if unfold is not None:
                outputs = unfold(given, node.settings)
            elif op.pull is not None or op.push is not None:
                outputs = _record_value(node, given)
        except rules.NOT_RECORDED:
            return None
        if outputs is None:
            return None
        pairs = [
            (leaf, x)
            for leaf, x in zip(given, operands, strict=True)
            if isinstance(leaf, Tensor)
        ]
        graph = Graph([leaf for leaf, _ in pairs], outputs)
        made = self._run(graph, [x for _, x in pairs])
        return made if isinstance(types.spec_of(node), tuple) else made[0]

    def _run(self, graph: Graph, operands: Sequence[Known]) -> list[Known]:
        """Return the dependences, or constants, of an inner program's outputs."""
        known: dict[int, Known] = dict(self.known)
        for leaf, x in zip(graph.leaves, operands, strict=True):
            known[leaf.serial] = x
        self._visit_nodes(graph.interior, known, {x.serial for x in graph.leaves})
        return [self._look_up(y, known) for y in graph.outputs]

    def _visit_choice(
        self, node: Tensor, form: Choice, operands: Sequence[Known]
    ) -> list[Known]:
        chosen, *given = operands
        branches: Sequence[Graph] = form.branches
        value = chosen.value if isinstance(chosen, Constant) else None
        if self.local and value is None and isinstance(node.inputs[0], Tensor):
            value = value_of(node.inputs[0])
        if value is not None:
            return self._run(branches[0 if bool(value) else 1], given)
        both = [self._run(branch, given) for branch in branches]
        return [self.merge(pair) for pair in zip(*both, strict=True)]

    def merge(self, parts: Sequence[Known]) -> Known:
        """Return the dependence, or constant, of a value that is one of several."""
        values = [x for x in parts if isinstance(x, Value)]
        if not values:
            first = parts[0]
            same = all(_is_same_constant(x, first) for x in parts)
            return first if same else Constant(None)
        first, *others = [x.dependence for x in values]
        merged = Value(values[0].shape, first.unite(others))
        if self.keep:
            self.records.append(
                Record(None, None, values, [merged], [[IDENTITY] * len(values)])
            )
        return merged

    def _visit_loop(
        self, node: Tensor, form: Repetition, operands: Sequence[Known]
    ) -> list[Known]:
        count, given = form.steps, list(operands)
        if len(given) > form.consts + form.seqs + form.carries:
            first = given.pop(0)
            count = first.value if isinstance(first, Constant) else None
        if form.seqs and count is None:
            rows = node.operands[len(node.operands) - len(given) + form.consts]
            count = _shape_of_known(given[form.consts], rows)[0]
        if not form.until and isinstance(count, (int, np.integer)):
            if max(len(form.body.interior), 1) * int(count) <= MOST_STEPS:
                return self._unroll(node, form, given, int(count))
        return self._iterate(node, form, given)

    def _split(self, form: Repetition, given: list[Known]) -> tuple[Any, Any, Any]:
        a, b = form.consts, form.consts + form.seqs
        return given[:a], given[a:b], given[b:]

    def _unroll(
        self, node: Tensor, form: Repetition, given: list[Known], count: int
    ) -> list[Known]:
        consts, seqs, carries = self._split(form, given)
        carries = list(carries)
        rows: list[list[Known]] = []
        marks: list[list[Known]] = []
        steps = range(count - 1, -1, -1) if form.reverse else range(count)
        for k, i in enumerate(steps):
            if form.every and k % form.every == 0:
                marks.append(list(carries))
            made = self._run(
                form.body, [*consts, *[self._take_row(x, i) for x in seqs], *carries]
            )
            carries = made[: form.carries]
            rows.append(made)
        if form.reverse:
            rows.reverse()
        found: list[Known] = []
        specs: Any = types.spec_of(node)
        for (what, i), spec in zip(form.results, specs, strict=True):
            if what == "last":
                found.append(carries[i])
            elif what == "count":
                found.append(Constant(None))
            else:
                stacked = [row[i] for row in (rows if what == "rows" else marks)]
                found.append(self._stack(stacked, spec))
        return found

    def _take_row(self, x: Known, i: int) -> Known:
        if isinstance(x, Constant):
            return Constant(None if x.value is None else x.value[i])
        shape = x.shape[1:]
        size = math.prod(shape)
        places = np.arange(i * size, (i + 1) * size, dtype=np.int32)
        return self._pick(x, Relation(places), shape)

    def _pick(
        self, x: Value[Dependence], relation: Relation, shape: tuple[int, ...]
    ) -> Value[Dependence]:
        made = Value(shape, x.dependence.compose(relation, math.prod(shape)))
        if self.keep:
            self.records.append(Record(None, None, [x], [made], [[relation]]))
        return made

    def _stack(self, parts: Sequence[Known], spec: types.Spec) -> Known:
        if not any(isinstance(x, Value) for x in parts):
            return Constant(None)
        shape = (len(parts), *next(x for x in parts if isinstance(x, Value)).shape)
        each = math.prod(shape[1:])
        size = math.prod(shape)
        relations: list[Relation] = []
        operands: list[Value[Dependence]] = []
        tables = []
        for i, x in enumerate(parts):
            if isinstance(x, Value):
                rows = np.full(size, -1, np.int32)
                rows[i * each : (i + 1) * each] = np.arange(each)
                operands.append(x)
                relations.append(Relation(rows))
                tables.append(x.dependence)
            else:
                tables.append(Dependence(each, self.width, []))
        made = Value(shape, stack_dependences(tables, each, self.width))
        if self.keep:
            self.records.append(Record(None, None, operands, [made], [relations]))
        return made

    def _iterate(
        self, node: Tensor, form: Repetition, given: list[Known]
    ) -> list[Known]:
        """Walk a loop of many steps until no carry depends on more."""
        consts, seqs, carries = self._split(form, given)
        if any(isinstance(x, Value) for x in seqs):
            reason = "of a loop of many steps each is taken to read all entries"
            self.dense_ops[DenseOp(node.op.name, node.site, reason)] = None
        rows = [self._merge_rows(x) for x in seqs]
        current = [x if isinstance(x, Value) else Constant(None) for x in carries]
        started = len(self.records)
        while True:
            del self.records[started:]
            made = self._run(form.body, [*consts, *rows, *current])
            grown = [
                _grow(old, new, self.width)
                for old, new in zip(current, made, strict=False)
            ]
            if all(a is b for a, b in zip(grown, current, strict=True)):
                break
            current = grown
        if self.keep:
            # Any entry of a carry may matter to a later step.
            for x in (*current, *made[: form.carries]):
                if isinstance(x, Value):
                    x.mark_all()
            for first, x in zip(carries, current, strict=True):
                if isinstance(first, Value) and first is not x:
                    assert isinstance(x, Value)
                    self.records.insert(
                        started, Record(None, None, [first], [x], [[IDENTITY]])
                    )
        found: list[Known] = []
        specs: Any = types.spec_of(node)
        for (what, i), spec in zip(form.results, specs, strict=True):
            if what == "count":
                found.append(Constant(None))
            elif what == "rows":
                found.append(self._repeat(made[i], spec, node))
            elif what == "marks":
                found.append(self._repeat(current[i], spec, node))
            else:
                found.append(current[i])
        return found

    def _merge_rows(self, x: Known) -> Known:
        """Return the union of all rows of a sequence."""
        if isinstance(x, Constant):
            return Constant(None)
        shape = x.shape[1:]
        members = np.tile(np.arange(math.prod(shape), dtype=np.int32), x.shape[0])
        return self._pick(x, Relation(None, members, math.prod(shape)), shape)

    def _repeat(self, x: Known, spec: types.Spec, node: Tensor) -> Known:
        if isinstance(x, Constant):
            return x
        if has_dim(tuple(spec.shape)) or None in spec.shape:
            return Unmeasured(tuple(spec.shape), node)
        shape = _check_shape(spec.shape, node)
        groups = np.tile(np.arange(math.prod(shape[1:]), dtype=np.int32), shape[0])
        return self._pick(x, Relation(groups), shape)


def _list_specs(node: Tensor) -> Sequence[types.Spec]:
    """Return the spec of each output."""
    specs: Any = types.spec_of(node)
    return specs if isinstance(specs, tuple) else (specs,)


def _read_values(node: Tensor, operands: Sequence[Known]) -> list[Any]:
    """Return the values of operands that are known.

    The mask of an index that has one has decided the shape: no pattern is that of
    another one.
    """
    values = [value_of(x.value) if isinstance(x, Constant) else None for x in operands]
    if node.op.pattern == "indexed":
        for i, x in enumerate(node.operands):
            if values[i] is None and is_mask(value_of(x)):
                values[i] = value_of(x)
    return values


def _record_value(node: Tensor, given: Sequence[Any]) -> Sequence[Any] | None:
    """Record the computation of an op's value; None if that records the op again."""
    made = node.op.compute(*given, **node.settings)
    outputs = made if isinstance(made, tuple) else (made,)
    if not all(isinstance(y, Tensor) for y in outputs):
        return None
    own = any(x.op is node.op for x in walk.order_nodes(outputs))
    return None if own else outputs


def stack_dependences(parts: Sequence[Dependence], each: int, width: int) -> Dependence:
    """Return the dependence of values that are laid one after the other."""
    from scipy.sparse import vstack

    if all(len(p.terms) == 1 and p.terms[0].table is None for p in parts):
        rows = np.concatenate([p.terms[0].select_rows(each) for p in parts])
        return Dependence(len(rows), width, [UnionTerm(rows, None)])
    table = vstack([p.make_csr() for p in parts], format="csr")
    return Dependence(each * len(parts), width, [UnionTerm(None, table)])


def _grow(old: Known, new: Known, width: int) -> Known:
    """Return a carry with one more step added; the same object if nothing is new."""
    if isinstance(new, Constant):
        return old
    if isinstance(old, Constant):
        return Value(new.shape, new.dependence)
    if new.dependence.is_within(old.dependence):
        return old
    return Value(old.shape, old.dependence.unite([new.dependence]))


def _is_small(spec: Any, most: int = MOST_COUNTED) -> bool:
    return not has_dim(spec.shape) and math.prod(spec.shape) <= most


def _is_same_constant(a: Known, b: Known) -> bool:
    return a.value is b.value and a.value is not None


def _shape_of_known(x: Known, tensor: Any) -> Any:
    if isinstance(x, Value):
        return x.shape
    if isinstance(x, list):
        return None
    spec = types.spec_of(tensor)
    if isinstance(spec, tuple):
        return None
    return spec.shape


def _is_curved(facts: NodeFacts, row: Sequence[Relation | None]) -> bool:
    live = [i for i, relation in enumerate(row) if relation is not None]
    return any(
        nonlinearity.has_curvature(facts, i, j) for i in live for j in live if i <= j
    )


def _is_complex(x: Any) -> bool:
    spec = types.spec_of(x)
    return not isinstance(spec, tuple) and spec.dtype.kind == "c"


def _check_shape(shape: Sequence[Any], node: Tensor) -> tuple[int, ...]:
    if has_dim(tuple(shape)) or any(n is None for n in shape):
        raise UnknownLengthError(
            f"the sparsity pattern of {node.op.name} of shape {tuple(shape)} depends on"
            " a length that is known only when the program runs. Give the shape:"
            " wb.vector('x', shape=(10,)), or ask for the pattern of a function,"
            " wb.sparsity(f, x)."
        )
    return tuple(int(n) for n in shape)


def count_entries(x: Any) -> int:
    """Return how many entries a Tensor has.

    Raises
    ------
    UnknownLengthError
        If one of its lengths is not known.
    """
    if isinstance(x, Tensor):
        return math.prod(_check_shape(x.shape, x))
    return math.prod(shape_of(x))


def find_jacobian_pattern(
    outputs: Any, wrt: Any, *, local: bool = False, notes: Sequence[str] = ()
) -> SparsityPattern:
    """Return where the Jacobian of traced Tensors can differ from zero.

    Parameters
    ----------
    outputs
        A Tensor or several: a row for each entry, one after the other, in C order.
    wrt
        The Tensor or Tensors that it is differentiated by: a column for each entry.
    local
        At the values that they have, and not wherever.
    notes
        For which values it holds, for its report.

    Raises
    ------
    UnknownLengthError
        If a shape on the way is not known.
    UsageError
        If the pattern is too large to be written out.
    """
    results, inputs = _as_list(outputs), _as_list(wrt)
    walked = Propagation(inputs, local=local)
    tables: list[Any] = []
    from scipy.sparse import vstack

    for y, known in zip(results, walked.visit(results), strict=True):
        if isinstance(known, Value):
            tables.append(known.dependence.make_csr())
        else:
            tables.append(make_csr([], [], (count_entries(y), walked.width)))
    table = tables[0] if len(tables) == 1 else vstack(tables, format="csr")
    return _as_pattern(table, walked, notes)


def find_hessian_pattern(
    outputs: Any, wrt: Any, *, local: bool = False, notes: Sequence[str] = ()
) -> SparsityPattern:
    """Return where second derivatives of traced Tensors can differ from zero.

    Of several outputs, or one of many entries, it is the union: the pattern of the
    Hessian of any weighted sum of them, such as a Lagrangian.

    Parameters
    ----------
    outputs, wrt, local, notes
        As those of `find_jacobian_pattern`.

    Raises
    ------
    UnknownLengthError
        If a shape on the way is not known.
    UsageError
        If the pattern is too large to be written out.
    """
    results, inputs = _as_list(outputs), _as_list(wrt)
    walked = Propagation(inputs, keep=True, local=local)
    outcome = walked.visit(results)
    pairs = PairCollector(walked.width)
    for y in outcome:
        if isinstance(y, Value):
            y.mark_all()
    for dense_op in collect_pairs(walked.records, pairs):
        walked.dense_ops[dense_op] = None
    return _as_pattern(pairs.make_symmetric(), walked, notes)


def _as_pattern(
    table: Any, walked: Propagation, notes: Sequence[str]
) -> SparsityPattern:
    table.sum_duplicates()
    return SparsityPattern.from_csr(
        table.shape, table.indptr, table.indices, tuple(walked.dense_ops), notes
    )


def _as_list(given: Any) -> list[Any]:
    listed = (
        [given]
        if isinstance(given, Tensor) or not isinstance(given, (list, tuple))
        else list(given)
    )
    if not listed:
        raise UsageError(
            "a sparsity pattern is that of at least one output by at least one input;"
            " none is given."
        )
    return listed
