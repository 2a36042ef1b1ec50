"""For each op which entries of its operands an entry of its result depends on.

The op's row says it (`Op.pattern`): plain NumPy that reads the same (`Reading`), a
word, of which `RELATIONS` has the rule, or a function. A rule takes the `NodeFacts` of
a node, and returns one `Relation` for each operand (None: no derivative flows through
it), or a list of such lists for an op of several outputs. Elementwise ops need no word.
Ops that move entries about run on the positions of the entries, linear ones on unit
vectors. What says nothing is taken as dense, and reports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from workbench.autodiff.sparse import products, solutions
from workbench.autodiff.sparse.node_facts import (
    NodeFacts,
    Shape,
    full_relation,
    has_own_rule,
    leave_out,
    number_entries,
    number_groups,
    relate_dense,
)
from workbench.autodiff.sparse.products import MOST_PRODUCTS, read_array
from workbench.autodiff.sparse.relations import (
    IDENTITY,
    Mask,
    Relation,
    count_up,
    make_csr,
)
from workbench.core.op import Op, Reading
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec
from workbench.errors import WorkbenchError
from workbench.ops.define import unfold_by
from workbench.ops.indexing import ARRAY, as_index
from workbench.ops.reductions import reduced_axes

#: The most entries of the matrix of a linear op that unit vectors are to tell.
MOST_TRIED = 2**20
#: The same of a line of an array, of which there may be many.
FEW_TRIED = 2**16

#: What the function of an op may raise of Tensors that have no values.
NOT_RECORDED = (
    WorkbenchError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError
)  # fmt: skip
#: What rule of an op: the relation by each operand, for several outputs a list of them.
Rule = Callable[["NodeFacts"], Any]


def relate(node: NodeFacts) -> list[list[Relation | None]]:
    """Return the relations of a node: for each output one by each operand."""
    op = node.op
    if op.pull is None and op.push is None:
        return [[None] * len(node.shapes)] * len(node.outputs)
    rule = find_rule(op)
    found = None if rule is None else rule(node)
    if found is None and node.loose is None and not op.custom and op.graphs is None:
        found = relate_linear(node)
    if found is None:
        node.loose = node.loose or (
            "its derivatives are those of its own rule, which may read all entries"
            if has_own_rule(op)
            else "nothing is known of which entries it reads"
        )
        found = [relate_dense(node, i) for i in range(len(node.outputs))]
    if found and isinstance(found[0], list):
        return found
    return [list(found)]


def find_rule(op: Op) -> Rule | None:
    """Return the rule for the entries that an op reads; None if its row has none."""
    op = op
    if isinstance(op.pattern, Reading):
        return _relate_reading
    if op.pattern is not None:
        return RELATIONS[op.pattern] if isinstance(op.pattern, str) else op.pattern
    if op.elementwise:
        return relate_elementwise
    if op.joins is not None:
        return _relate_joined
    return relate_moved if op.carries == (0,) else RELATIONS.get(op.kind)


def find_body(op: Op) -> Callable[..., Any] | None:
    """Return the body that replaces an op in all derivatives, as `Op.unfold`."""
    if isinstance(op.pattern, Reading) and op.pattern.is_same:
        return unfold_by(op.pattern.body)
    return None


#: What is said where a matrix of which some entries never vary is taken as a whole.
FIXED_ENTRIES = (
    "it is taken to read each matrix as a whole, and some entries there never vary:"
    " zeros among them are not followed"
)
TOO_MANY = "the places that it reads are too many to be listed"


def _relate_reading(node: NodeFacts) -> list[list[Relation | None]] | None:
    """Relate an op as plain NumPy that reads the same."""
    reading, is_matrix = node.op.pattern, node.op.kind == "matrix"
    assert isinstance(reading, Reading)
    if is_matrix and node.has_fixed_entries(0):
        node.loose = FIXED_ENTRIES
    found = _relate_as(node, reading.body)
    if found is None:
        node.loose = TOO_MANY
        return _relate_matrices(node) if is_matrix else None
    return found


def _relate_as(
    node: NodeFacts, body: Callable[..., Any]
) -> list[list[Relation | None]] | None:
    """Return the relations of outputs to operands through a body; None if unknown."""
    columns: list[Any] = []
    for i, varies in enumerate(node.varies):
        found: Any = [None] * len(node.outputs)
        if varies:
            assert node.relate_inside is not None
            found = node.relate_inside(body, node, i, 4 * MOST_PRODUCTS)
        if found is None:
            return None
        columns.append(found)
    return [list(row) for row in zip(*columns, strict=True)]


#: The words of rows (`Op.pattern`) whose ops move entries, or add some to others.
MOVING = {"moved", "indexed", "scattered", "replaced", "added"}


def sums_entries(op: Op, params: Collection[str] = ()) -> bool:
    """Return whether each entry of the result is the sum of the entries that are read.

    So it is where entries only move about. ``params`` are the settings in use.
    """
    if op.custom or op.elementwise:
        return False
    if op.joins is not None or op.carries == (0,):
        return True
    if op.kind == "reduction" and op.combines is np.add:
        return {"where", "initial"}.isdisjoint(params)
    return op.pattern in MOVING and is_linear_in(op, 0)


# Elementwise


@cache
def find_zero_partials(op: Op, count: int) -> frozenset[int]:
    """Return the operands of an elementwise op with partial derivatives always 0."""
    pull = op.pull
    if pull is None:
        return frozenset()
    try:
        with np.errstate(all="ignore"):
            one = np.float64(1)
            made = pull((1 << count) - 1, one, one, (one,) * count, {})
    except Exception:  # it wants settings, or operands of another kind
        return frozenset()
    return frozenset(i for i, c in enumerate(made) if c is None)


def relate_elementwise(node: NodeFacts) -> list[Relation | None]:
    """Return the identity, or how an operand is broadcast.

    What a constant condition leaves out, or a constant factor 0 removes, is no place.
    """
    zero = find_zero_partials(node.op, len(node.shapes))
    found = [
        None if i in zero or not node.varies[i] else relate_broadcast(shape, node)
        for i, shape in enumerate(node.shapes)
    ]
    for i, relation in enumerate(found):
        if relation is not None:
            absent = _find_absent(node, i)
            if absent is not None and absent.any():
                found[i] = leave_out(relation, absent, node.outputs[0])
    return found


def _find_absent(node: NodeFacts, i: int) -> Any:
    """Return where a constant operand removes another one; None: nowhere."""
    op, values = node.op, node.values
    if op.chooses and values[0] is not None and not node.varies[0]:  # a condition
        chosen = read_array(values[0]) != 0
        return ~chosen if i == 1 else chosen
    if op.pairs is not None and values[1 - i] is not None:
        return read_array(values[1 - i]) == 0
    reads = None if op.partial_reads is None else op.partial_reads[i]
    if reads and not op.custom:
        fixed = [j for j, varies in enumerate(node.varies) if not varies and j in reads]
        if any(values[j] is not None for j in fixed):
            return _find_constant_zeros(node, i)
    return None


def _find_constant_zeros(node: NodeFacts, i: int) -> Any:
    """Return where constants make a partial derivative 0, as the exponent 0 does.

    The rule is recorded on them, and their zeros are followed through its products.
    """
    if len(node.specs) != len(node.shapes) or node.size > FEW_TRIED:
        return None
    given = tuple(
        make_leaf_like(x) if isinstance(x, Spec) else x for x in node.name_operands()
    )
    try:
        y = apply(node.op, given, node.params)
        g = make_leaf_like(Spec(node.outputs[0], y.dtype))
        assert node.op.pull is not None
        passed = node.op.pull(1 << i, g, y, given, node.params)[i]
    except NOT_RECORDED:
        return None
    return _find_zeros(passed)


def _find_zeros(x: Any) -> Any:
    """Return a mask of the entries that are 0 by a rule's constants, or None."""
    if not isinstance(x, Tensor):
        return read_array(x) == 0
    parts = [_find_zeros(x.inputs[i]) for i in x.op.carries] if x.op.elementwise else []
    found = [part for part in parts if part is not None]
    return reduce(np.logical_or, found) if found else None


def relate_broadcast(shape: Shape, node: NodeFacts, output: int = 0) -> Relation:
    """Return the relation of an operand that is broadcast to the output."""
    full = node.outputs[output]
    if shape == full or math.prod(shape) == math.prod(full):
        return IDENTITY
    return Relation(np.broadcast_to(number_entries(shape), full).reshape(-1))


# Entries that move about: the op itself, run on the positions of the entries


def relate_moved(node: NodeFacts) -> list[Relation | None] | None:
    """Run an op that only moves entries on their positions, from 1 on; 0 is none."""
    if not node.is_known(range(1, len(node.shapes))):
        return None
    params = {k: v for k, v in node.params.items() if k != "fill"}
    moved = number_entries(node.shapes[0], 1)
    made = np.asarray(node.op.compute(moved, *node.values[1:], **params))
    if made.size == moved.size and made.flags.c_contiguous:
        if made.ctypes.data == moved.ctypes.data:  # a view of all, in the same order
            return node.fill(IDENTITY)
    return node.fill(_as_gather(made))


def _as_gather(moved: Any) -> Relation:
    return Relation((np.asarray(moved).reshape(-1) - 1).astype(np.int32, copy=False))


def _relate_indexed(node: NodeFacts) -> list[Relation | None]:
    arrays = range(1, len(node.shapes))
    if node.is_known(arrays):
        return relate_moved(node) or relate_dense(node)
    node.loose = "its index varies, so it may take any entry along the axis"
    return node.fill(_relate_any_index(node))


def _relate_any_index(node: NodeFacts) -> Relation:
    """Relate each entry to all places along the axes with an unknown index.

    These axes become one entry long, and their indices 0; the others are as given.
    """
    shape, size = node.shapes[0], math.prod(node.shapes[0])
    full = full_relation(size, node.size)
    arrays = list(node.values[1:])
    key = node.params["key"]
    parts = [p for p in key if p is not None]
    ranks = iter(arrays)
    widths = [_count_axes(p, ranks) for p in parts]
    if Ellipsis in parts:
        widths[parts.index(Ellipsis)] = len(shape) - sum(widths)
    axis, open_axes, at = 0, set(), 0
    for part, width in zip(parts, widths, strict=True):
        if part is ARRAY:
            if arrays[at] is None:
                open_axes.add(axis)
                arrays[at] = np.zeros(node.shapes[1 + at], np.intp)
            at += 1
        axis += width
    left = tuple(1 if i in open_axes else n for i, n in enumerate(shape))
    numbers = number_entries(left)
    try:
        groups = np.broadcast_to(numbers[as_index(key, tuple(arrays))], node.outputs[0])
    except (IndexError, ValueError):
        return full
    members = np.broadcast_to(numbers, shape).reshape(-1)
    return Relation(groups.reshape(-1), members, numbers.size)


def _count_axes(part: Any, arrays: Iterator[Any]) -> int:
    """Return how many axes of an array a part of an index takes."""
    if part is Ellipsis:
        return 0
    if part is not ARRAY:
        return 1
    array = next(arrays)
    masked = getattr(array, "dtype", None) == np.dtype(bool)
    return array.ndim if masked and array is not None else 1


def _relate_scattered(node: NodeFacts) -> list[Relation | None]:
    if not node.is_known(range(1, len(node.shapes))):
        node.loose = "its index varies"
        return node.fill(full_relation(math.prod(node.shapes[0]), node.size))
    target = number_entries(node.outputs[0])[
        as_index(node.params["key"], tuple(node.values[1:]))
    ]
    members = np.broadcast_to(target, target.shape).reshape(-1)
    return node.fill(Relation(None, members, node.size))


def _count_places(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return the CSR array of how often each place is named."""
    from scipy.sparse import coo_array

    ones = np.ones(len(rows), np.int32)
    return coo_array((ones, (rows, columns)), shape=shape).tocsr()


def _relate_added(node: NodeFacts) -> list[Relation | None]:
    """Relate ``x`` with values added (or compared) at an index."""
    given = node.shapes[1]
    if not node.is_known(range(2, len(node.shapes))):
        node.loose = "its index varies"
        added = full_relation(math.prod(given), node.size)
    else:
        index = as_index(node.params["key"], tuple(node.values[2:]))
        target = number_entries(node.shapes[0])[index]
        if target.size == math.prod(given):
            added = Relation(None, target.reshape(-1), node.size)
        else:
            source = np.broadcast_to(number_entries(given), target.shape)
            added = Relation(matrix=_count_places(
                target.reshape(-1), source.reshape(-1), (node.size, math.prod(given))
            ))  # fmt: skip
    return [IDENTITY, added, *[None] * (len(node.shapes) - 2)]


def _relate_replaced(node: NodeFacts) -> list[Relation | None]:
    kept, given = node.shapes[:2]
    if not node.is_known(range(2, len(node.shapes))):
        return _relate_added(node)
    index = as_index(node.params["key"], tuple(node.values[2:]))
    old = number_entries(kept, 1).copy()
    old[index] = 0
    new = np.zeros_like(old)
    new[index] = number_entries(given, 1)
    return [_as_gather(old), _as_gather(new), *[None] * (len(node.shapes) - 2)]


def _relate_joined(node: NodeFacts) -> list[Relation | None]:
    blank = [np.zeros(shape, np.int32) for shape in node.shapes]
    found: list[Relation | None] = []
    for i, shape in enumerate(node.shapes):
        if not node.varies[i]:
            found.append(None)
            continue
        given = [*blank[:i], number_entries(shape, 1), *blank[i + 1 :]]
        found.append(_as_gather(node.op.compute(*given, **node.params)))
    return found


# Reductions: what is left of a group


def _relate_reduced(node: NodeFacts) -> list[Relation | None]:
    shape = node.shapes[0]
    axes = reduced_axes(node.params.get("axis"), len(shape))
    return node.fill(Relation(None, *number_groups(shape, axes)))


def _relate_running(node: NodeFacts) -> list[Relation | None]:
    """Relate entry i to those up to i along the axis."""
    shape, axis = node.shapes[0], node.params.get("axis")
    if axis is None:
        shape, axis = (math.prod(shape),), 0
    n = shape[axis] if shape else 1
    size = math.prod(shape)
    if size * (n + 1) // 2 > MOST_PRODUCTS * 8:
        node.loose = "there are too many places for a triangle of each row"
        groups, count = number_groups(shape, [axis])
        return node.fill(Relation(groups, groups, count))
    later, earlier = np.tril_indices(n)
    lines = np.moveaxis(number_entries(shape), axis, -1).reshape(-1, max(n, 1))
    rows, columns = lines[:, later].reshape(-1), lines[:, earlier].reshape(-1)
    return node.fill(Relation(matrix=make_csr(rows, columns, (size, size))))


# Dense along axes


def _relate_lines(node: NodeFacts) -> list[Relation | None]:
    """Relate a linear op along axes to the lines, or planes, of its operand.

    What is cut off counts for nothing. Unit vectors tell of short lines what else does
    not: transforms of real numbers have zeros.
    """
    (shape,), full, params = node.shapes, node.outputs[0], node.params
    rank, axes, lengths = len(shape), params.get("axes"), params.get("s")
    if "axis" in params:
        axes = [params["axis"]]
        lengths = [params["n"]] if "n" in params else None
    elif axes is None:
        axes = range(rank - (rank if lengths is None else len(lengths)), rank)
    axes = [n % rank for n in axes]
    if len(axes) == 1:
        found = _relate_short_lines(node, axes[0])
        if found is not None:
            return node.fill(found)
    members, count = number_groups(shape, axes)
    for axis, length in zip(axes, lengths or [shape[n] for n in axes], strict=True):
        if length < shape[axis]:
            place = np.arange(shape[axis]).reshape((-1, *(1,) * (rank - 1 - axis)))
            cut = np.broadcast_to(place >= length, shape).reshape(-1)
            members = np.where(cut, -1, members)
    return node.fill(Relation(number_groups(full, axes)[0], members, count))


def _relate_short_lines(node: NodeFacts, axis: int) -> Relation | None:
    """Relate lines by their results for unit vectors; None if not worth the cost."""
    (shape,), full = node.shapes, node.outputs[0]
    n = shape[axis]
    if n * full[axis] > FEW_TRIED or not n * node.size:
        return None
    reads = np.zeros((n, full[axis]), bool)
    for turn in (1, 1j) if node.is_complex else (1,):
        with np.errstate(all="ignore"):
            made = node.op.compute(np.eye(n) * turn, **{**node.params, "axis": -1})
        size = np.abs(made)
        reads |= size > n * np.finfo(float).eps * np.max(size)
    share = n * node.size * np.mean(reads)
    if reads.all() or share > (MOST_PRODUCTS if np.mean(reads) < 0.5 else FEW_TRIED):
        return None
    read, out = np.nonzero(reads)
    ends = np.moveaxis(number_entries(full), axis, -1).reshape(-1, full[axis])
    starts = np.moveaxis(number_entries(shape), axis, -1).reshape(-1, n)
    rows, columns = ends[:, out].reshape(-1), starts[:, read].reshape(-1)
    return Relation(matrix=make_csr(rows, columns, (node.size, math.prod(shape))))


# Matrices of a stack


def _relate_matrices(node: NodeFacts) -> list[list[Relation | None]] | None:
    """Relate results in a stack to the matrices at the same place in all operands."""
    stack = max((shape[:-2] for shape in node.shapes), key=math.prod)
    if any(map(node.has_fixed_entries, range(len(node.shapes)))):
        node.loose = FIXED_ENTRIES

    def read(x: Any, *others: Any, UPLO: str = "", **_: Any) -> tuple[Any, ...]:
        if UPLO:  # NumPy does not look at the other triangle
            x = np.tril(x) if UPLO == "L" else np.triu(x)
        total = np.zeros(stack)
        for y in (x, *others):
            fits = y.shape[: len(stack)] == stack
            axes = tuple(range(len(stack), y.ndim)) if fits else None
            total = total + np.sum(y, axis=axes)
        return tuple(
            np.reshape(total, stack + (1,) * (len(shape) - len(stack)))
            if shape[: len(stack)] == stack
            else np.sum(total)
            for shape in node.outputs
        )

    return _relate_as(node, read)


# Linear ops that say nothing else: unit vectors tell


def relate_linear(node: NodeFacts) -> list[Relation | None] | None:
    """Relate an op of one output that is linear in each varying operand.

    Its row says so: what flows back to an operand reads neither it nor the result. None
    where it is not, something else that it reads is not known, or it is too large.
    """
    found: list[Relation | None] = []
    for i, varies in enumerate(node.varies):
        if not varies:
            found.append(None)
            continue
        shape = node.shapes[i]
        others = [j for j in range(len(node.shapes)) if j != i]
        if len(node.outputs) > 1 or not is_linear_in(node.op, i, node.varies):
            return None
        if shape is None or not node.is_known(others):
            return None
        size = math.prod(shape)
        if size * node.size > MOST_TRIED:
            node.loose = "it has too many entries to be tried one by one"
            return None
        reads = _try_unit_vectors(node, i, np.eye(size).reshape(size, *shape))
        if reads is None:
            return None
        rows, columns = np.nonzero(reads)
        found.append(Relation(matrix=make_csr(rows, columns, reads.shape)))
    return found


def is_linear_in(op: Op, i: int, varies: Sequence[bool] = ()) -> bool:
    """Return whether an op is linear in an operand, whatever the others are.

    ``varies``: and in all of these together.
    """
    reads = op.reads if op.partial_reads is None else None
    if op.partial_reads is not None:
        reads = tuple(op.partial_reads[i]) if i < len(op.partial_reads) else None
    moving = [j for j, moves in enumerate(varies) if moves]
    return reads is not None and not {"y", i, *moving} & set(reads)


def _try_unit_vectors(node: NodeFacts, i: int, units: Any) -> Mask | None:
    """Return which entries a linear op reads of an operand: result by operand.

    None: it does not take unit vectors, or is not linear after all.
    """
    turns = (1, 1j) if node.is_complex else (1,)
    values, params = list(node.values), node.params

    def compute(x: Any) -> Any:
        values[i] = x
        return np.asarray(node.op.compute(*values, **params)).reshape(-1)

    try:
        with np.errstate(all="ignore"):
            base = compute(np.zeros_like(units[0]) if len(units) else units)
            columns = [compute(x * t) - base for x in units for t in turns]
    except (ArithmeticError, IndexError, TypeError, ValueError):
        return None
    if not columns or any(c.shape != (node.size,) for c in columns):
        return None
    found = np.abs(np.stack(columns, axis=1)) > 0
    made: Mask = found.reshape(node.size, len(units), len(turns)).any(axis=2)
    return made


# Others


def _relate_each(node: NodeFacts) -> list[list[Relation | None]]:
    """Relate an elementwise op of several outputs."""
    return [relate_elementwise(node)] * len(node.outputs)


def _relate_examples(node: NodeFacts) -> list[list[Relation | None]] | None:
    """Relate an op that is called for each of many examples: each reads its own."""
    op: Any = node.op
    if any(shape is None for shape in node.shapes):
        return None
    examples, count = op.list_examples(node.specs), node.outputs[0][0]
    one = NodeFacts(
        op.of, node.params, [s.shape for s in examples],
        [shape[1:] for shape in node.outputs], node.varies,
        [None if b else v for b, v in zip(op.batched, node.values, strict=True)],
        is_complex=node.is_complex, specs=examples, find_inside=node.find_inside,
        relate_inside=node.relate_inside,
    )  # fmt: skip
    rows = relate(one)
    node.loose, node.is_given = one.loose, one.is_given
    if node.loose is not None:
        node.loose = f"of each example {node.loose}"
    return [
        [
            None if r is None else _repeat(r, count, math.prod(s.shape), size, own)
            for r, s, own in zip(row, examples, op.batched, strict=True)
        ]
        for row, size in zip(rows, map(math.prod, one.outputs), strict=True)
    ]


def _repeat(
    relation: Relation, count: int, operand: int, result: int, own: bool
) -> Any:
    """Return the relation of many examples; ``own``: each has an operand of its own."""
    from scipy.sparse import eye_array, kron

    groups, members, height, matrix = relation
    groups = count_up(result) if groups is None else groups
    if not own:
        return relation._replace(groups=np.tile(groups, count))
    if matrix is not None:
        many = kron(eye_array(count, dtype=bool), matrix, format="csr").astype(bool)
        return Relation(_shift(groups, count, matrix.shape[0]), matrix=many)
    step = height if members is not None else operand
    return Relation(
        _shift(groups, count, step),
        None if members is None else _shift(members, count, height),
        count * height,
    )


def _shift(places: Any, count: int, step: int) -> Any:
    """Return places for each example, those of the next one ``step`` further on."""
    steps = np.arange(count)[:, None] * step
    return np.where(places >= 0, places + steps, -1).reshape(-1).astype(np.int32)


#: What the rows of ops say (`Op.pattern`, else `Op.kind`).
RELATIONS: dict[str, Rule] = {
    "same": lambda node: node.fill(IDENTITY),
    "each": _relate_each,
    "whole": relate_dense,
    "moved": relate_moved,
    "indexed": _relate_indexed,
    "scattered": _relate_scattered,
    "replaced": _relate_replaced,
    "added": _relate_added,
    "reduction": _relate_reduced,
    "running": _relate_running,
    "lines": _relate_lines,
    "matrix": _relate_matrices,
    "contraction": products.relate_product,
    "examples": _relate_examples,
    **solutions.RELATIONS,
}
