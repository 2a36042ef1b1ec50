"""For each op which entries of its operands an entry of its result depends on.

A rule takes the `NodeFacts` of a node, and returns one `Relation`
for each operand (None: no derivative flows through it), or a list of such lists for an
op of several outputs. Elementwise ops need no rule. Ops that move entries about need
none of their own either: they run on the positions of the entries. What has no rule is
taken as dense, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.autodiff.sparse.products import (
    MOST_PRODUCTS,
    Product,
    list_overlaps,
    read_array,
)
from workbench.autodiff.sparse.relations import (
    IDENTITY,
    Positions,
    Relation,
    count_up,
    make_csr,
)
from workbench.core.op import Op
from workbench.ops.contraction import parse_subscripts
from workbench.ops.indexing import ARRAY, as_index
from workbench.ops.reductions import reduced_axes

Shape = tuple[int, ...]
Relations = Sequence[Relation | None]
#: What rule of an op: the relation by each operand, for several outputs a list of them.
Rule = Callable[["NodeFacts"], Any]


class NodeFacts:
    """A node as rules see it: an op, the shapes of its operands, constant values.

    Attributes
    ----------
    op, params
        The op and its settings.
    shapes
        The shapes of the operands; None for a tuple.
    outputs
        The shapes of the outputs: one, or several.
    varies
        Which operands depend on what is differentiated by.
    values
        The value of each operand where it is constant and known, else None; at a
        point those of all operands.
    is_complex
        Whether an operand holds complex numbers.
    loose
        Why the rule has taken more places than there may be, if it has.
    """

    def __init__(
        self,
        op: Op,
        params: dict[str, Any],
        shapes: Sequence[Any],
        outputs: Sequence[Shape],
        varies: Sequence[bool],
        values: Sequence[Any],
        *,
        is_complex: bool = False,
    ) -> None:
        self.op = op
        self.params = params
        self.shapes = shapes
        self.outputs = outputs
        self.varies = varies
        self.values = values
        self.is_complex = is_complex
        self.loose: str | None = None

    @property
    def size(self) -> int:
        """The number of entries of the (first) output."""
        return math.prod(self.outputs[0])

    def is_known(self, places: Sequence[int]) -> bool:
        """Return whether the values of these operands are known."""
        return all(self.values[i] is not None for i in places)

    def fill(self, relation: Relation | None) -> list[Relation | None]:
        """Return a relation by the first operand alone."""
        return [relation, *[None] * (len(self.shapes) - 1)]


def relate(node: NodeFacts) -> list[list[Relation | None]]:
    """Return the relations of a node: for each output one by each operand."""
    op = node.op
    if op.pull is None and op.push is None:
        return [[None] * len(node.shapes)] * len(node.outputs)
    found = None
    own = op.pattern
    if own is not None:
        found = own(node)
    elif op.elementwise:
        found = relate_elementwise(node)
    elif op.name in RULES and not op.custom:
        found = RULES[op.name](node)
    elif op.name.startswith("random_") and not op.custom:
        found = _relate_draw(node)
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


def has_own_rule(op: Op) -> bool:
    """Return whether a rule of the user's gives the derivatives of an op.

    What the op computes then tells nothing of where they are zero.
    """
    return op.custom and (op.has_own_rule or op.graphs is None)


def relate_dense(node: NodeFacts, output: int = 0) -> list[Relation | None]:
    """Let each entry of the result depend on all entries of each operand."""
    return [
        None if shape is None or not varies else full_relation(math.prod(shape), size)
        for shape, varies in zip(node.shapes, node.varies, strict=True)
        for size in [math.prod(node.outputs[output])]
    ]


def full_relation(operand: int, result: int) -> Relation:
    """Return the relation of a dense block."""
    return Relation(_zeros(result), _zeros(operand), 1)


def _zeros(size: int) -> Positions:
    return np.zeros(size, np.int32)


# Elementwise


@cache
def find_zero_partials(op: Op, count: int) -> frozenset[int]:
    """Return the operands of an elementwise op whose partial derivative is always 0."""
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
    name, values = node.op.name, node.values
    if name == "where" and values[0] is not None and not node.varies[0]:
        chosen = read_array(values[0]) != 0
        return ~chosen if i == 1 else chosen
    if name in ("multiply", "mul0") and values[1 - i] is not None:
        return read_array(values[1 - i]) == 0
    return None


def leave_out(relation: Relation, absent: Any, shape: Shape) -> Relation:
    """Return a relation by which some entries of the result read nothing."""
    marks = np.broadcast_to(absent, shape).reshape(-1)
    groups = count_up(len(marks)) if relation.groups is None else relation.groups
    return relation._replace(groups=np.where(marks, groups.dtype.type(-1), groups))


def relate_broadcast(shape: Shape, node: NodeFacts, output: int = 0) -> Relation:
    """Return the relation of an operand that is broadcast to the output."""
    full = node.outputs[output]
    if shape == full or math.prod(shape) == math.prod(full):
        return IDENTITY
    return Relation(np.broadcast_to(number_entries(shape), full).reshape(-1))


def number_entries(shape: Shape, start: int = 0) -> Positions:
    """Return the position of each entry of an array, in its shape."""
    return (count_up(math.prod(shape)) + np.int32(start)).reshape(shape)


# Entries that move about: the op itself, run on the positions of the entries


def relate_moved(node: NodeFacts) -> list[Relation | None] | None:
    """Run an op that only moves entries on their positions, from 1 on; 0 is none."""
    if not node.is_known(range(1, len(node.shapes))):
        return None
    params = {k: v for k, v in node.params.items() if k != "fill"}
    moved = number_entries(node.shapes[0], 1)
    made = node.op.compute(moved, *node.values[1:], **params)
    return node.fill(_as_gather(made))


def _as_gather(moved: Any) -> Relation:
    return Relation((np.asarray(moved).reshape(-1) - 1).astype(np.int32, copy=False))


def _relate_reshaped(node: NodeFacts) -> list[Relation | None] | None:
    if node.params.get("order", "C") != "C":
        return relate_moved(node)
    return node.fill(IDENTITY)


def _relate_indexed(node: NodeFacts) -> list[Relation | None]:
    arrays = range(1, len(node.shapes))
    if node.is_known(arrays):
        return relate_moved(node) or relate_dense(node)
    node.loose = "its index varies, so it may take any entry along the axis"
    return node.fill(_relate_any_index(node))


def _relate_any_index(node: NodeFacts) -> Relation:
    """Let an entry come from anywhere along the axes whose index is not known.

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


def _relate_added(node: NodeFacts) -> list[Relation | None]:
    """Relate ``x`` with values added (or compared) at an index."""
    kept, given = node.shapes[:2]
    if not node.is_known(range(2, len(node.shapes))):
        node.loose = "its index varies"
        added = full_relation(math.prod(given), node.size)
    else:
        index = as_index(node.params["key"], tuple(node.values[2:]))
        target = number_entries(kept)[index]
        source = np.broadcast_to(number_entries(given), target.shape)
        added = Relation(matrix=make_csr(
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


def _relate_overlap(node: NodeFacts) -> list[Relation | None]:
    """Relate windows that are added up: entry i of window j to entry ``i + j``."""
    shape, axis = node.shapes[0], node.params["axis"]
    positions = number_entries(node.outputs[0])
    view = np.lib.stride_tricks.sliding_window_view(
        positions, node.params["window"], axis
    )
    if view.shape != shape:
        return relate_dense(node)
    return node.fill(Relation(None, view.reshape(-1), node.size))


# Reductions: what is left of a group


def number_groups(shape: Shape, axes: Sequence[int]) -> tuple[Positions, int]:
    """Return the group of each entry if these axes are summed over, and their number.

    Groups are numbered as the entries of the result are.
    """
    left = tuple(1 if i in axes else n for i, n in enumerate(shape))
    numbers = np.broadcast_to(number_entries(left), shape)
    return numbers.reshape(-1), math.prod(left)


def _relate_reduced(node: NodeFacts) -> list[Relation | None]:
    shape = node.shapes[0]
    axes = reduced_axes(node.params.get("axis"), len(shape))
    return node.fill(Relation(None, *number_groups(shape, axes)))


def _relate_unbroadcast(node: NodeFacts) -> list[Relation | None]:
    given, wanted = node.shapes[0], node.outputs[0]
    members = np.broadcast_to(number_entries(wanted), given).reshape(-1)
    return node.fill(Relation(None, members, node.size))


def _relate_cumulative(node: NodeFacts) -> list[Relation | None]:
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


# Dense along axes, and for each matrix of a stack


def _relate_along(node: NodeFacts, axes: Sequence[int]) -> list[Relation | None]:
    """Relate each entry to the whole line or plane that it stands in."""
    shape, full = node.shapes[0], node.outputs[0]
    if len(shape) != len(full):
        return relate_dense(node)
    axes = [a % len(shape) for a in axes]
    members, count = number_groups(shape, axes)
    return node.fill(Relation(number_groups(full, axes)[0], members, count))


def _relate_transformed(node: NodeFacts) -> list[Relation | None]:
    """Relate a transform along one axis; what it cuts off counts for nothing."""
    (shape,), axis = node.shapes, node.params.get("axis", -1)
    found = _relate_along(node, [axis])
    length = node.params.get("n")
    if node.op.name == "irfft":
        length = node.outputs[0][axis] // 2 + 1
    whole = found[0]
    if (
        length is not None
        and length < shape[axis]
        and whole is not None
        and whole.members is not None
    ):
        line = np.arange(shape[axis]) >= length
        cut = line.reshape((-1, *(1,) * (len(shape) - 1 - axis % len(shape))))
        members = np.where(np.broadcast_to(cut, shape).reshape(-1), -1, whole.members)
        found[0] = whole._replace(members=members)
    return found


def _relate_fftn(node: NodeFacts) -> list[Relation | None]:
    axes, lengths = node.params.get("axes"), node.params.get("s")
    rank = len(node.shapes[0])
    if axes is None:
        axes = range(rank - (rank if lengths is None else len(lengths)), rank)
    return _relate_along(node, list(axes))


def _relate_filter(node: NodeFacts) -> list[Relation | None]:
    """Relate a recursive filter of lines to all entries of each up to the same time."""
    found = relate_dense(node)
    if node.varies[1] and node.shapes[1] == node.outputs[0]:
        inner = NodeFacts(
            node.op, {"axis": -1}, [node.shapes[1]], node.outputs, [True], [None]
        )
        if not node.shapes[1]:
            return found
        inner.params["axis"] = len(node.shapes[1]) - 1
        found[1] = _relate_cumulative(inner)[0]
        node.loose = inner.loose
    return found


def _relate_matrices(node: NodeFacts) -> list[list[Relation | None]]:
    """Relate each matrix of a stack to what is computed of it, and of its fellows."""
    stack = max((s[:-2] for s in node.shapes if s is not None), key=math.prod)
    count = math.prod(stack)
    found = []
    for place, output in enumerate(node.outputs):
        if output[: len(stack)] != stack:
            found.append(relate_dense(node, place))
            continue
        groups = np.repeat(count_up(count), math.prod(output) // max(count, 1))
        row: list[Relation | None] = []
        for shape, varies in zip(node.shapes, node.varies, strict=True):
            size = 0 if shape is None else math.prod(shape)
            fits = shape is not None and shape[: len(stack)] == stack
            if not varies or shape is None:
                row.append(None)
            elif fits:
                members = np.repeat(count_up(count), size // max(count, 1))
                row.append(Relation(groups, members, count))
            else:
                row.append(full_relation(size, math.prod(output)))
        found.append(row)
    return found


def _relate_solution(node: NodeFacts) -> list[Relation | None]:
    """Relate a solution to its whole matrix, and to its column of the right side."""
    (a, b), full = node.shapes, node.outputs[0]
    columns = len(b) > 1
    stack = full[:-2] if columns else full[:-1]
    count = math.prod(a[:-2])
    matrix = np.broadcast_to(number_entries(a[:-2]), stack)
    matrix = matrix.reshape(*stack, *(1,) * (len(full) - len(stack)))
    groups = np.broadcast_to(matrix, full).reshape(-1)
    left = Relation(groups, np.repeat(count_up(count), a[-1] * a[-2]), count)
    return [left if node.varies[0] else None, _relate_column(b, full)]


def _relate_beside_matrix(node: NodeFacts) -> list[Relation | None]:
    """Relate what solves a matrix without a stack: to all of it, and to its column."""
    found = relate_dense(node)
    if node.varies[1]:
        found[1] = _relate_column(node.shapes[1], node.outputs[0])
    return found


def _relate_column(shape: Shape, full: Shape) -> Relation:
    """Relate each column of a result to the same column of a right side."""
    if len(shape) < 2:
        return full_relation(math.prod(shape), math.prod(full))
    lines = number_entries((*shape[:-2], 1, shape[-1]))
    members = np.broadcast_to(lines, shape).reshape(-1)
    groups = np.broadcast_to(lines, full).reshape(-1)
    return Relation(groups, members, lines.size)


# Products: sums over indices that operands share


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def describe_product(node: NodeFacts) -> Product | None:
    """Return a contraction as a sum of products; None if it is another op."""
    name, shapes = node.op.name, node.shapes
    if name in ("einsum", "einsum0"):
        terms, output = parse_subscripts(node.params["subscripts"])
        return Product(terms, output, shapes)
    if name in ("matmul", "matmul0"):
        a, b = map(len, shapes)
        stack = LETTERS[2 : 2 + max(a, b, 2) - 2]
        left = (stack[len(stack) - (a - 2) :] + "iK" if a > 1 else "K").replace(
            "i", "I"
        )
        right = stack[len(stack) - (b - 2) :] + "KJ" if b > 1 else "K"
        output = stack + ("I" if a > 1 else "") + ("J" if b > 1 else "")
        return Product([left, right], output, shapes)
    if name in ("tensordot", "tensordot0"):
        axes = node.params["axes"]
        first = LETTERS[: len(shapes[0])]
        second = list(LETTERS[len(first) : len(first) + len(shapes[1])])
        for i, j in zip(*axes, strict=True):
            second[j] = first[i]
        summed = {first[i] for i in axes[0]}
        output = "".join(c for c in (*first, *second) if c not in summed)
        return Product([first, "".join(second)], output, shapes)
    return None


def _relate_product(node: NodeFacts) -> list[Relation | None]:
    product = describe_product(node)
    assert product is not None
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


def _relate_sparse_product(node: NodeFacts) -> list[Relation | None]:
    """Relate ``S @ x``: row i to the stored entries of it, and to what they meet."""
    rows, columns, more = _list_stored(node)
    size = math.prod(node.shapes[0])
    entries = (
        count_up(len(rows))
        if node.params["pattern"].entry_places is None
        else (np.asarray(node.params["pattern"].entry_places))
    )
    out = rows[:, None] * more + count_up(more)
    data = make_csr(out.reshape(-1), np.repeat(entries, more), (node.size, size))
    source = columns[:, None] * more + count_up(more)
    moved = make_csr(
        out.reshape(-1), source.reshape(-1), (node.size, math.prod(node.shapes[1]))
    )
    return [Relation(matrix=data), Relation(matrix=moved)]


def _list_stored(node: NodeFacts) -> tuple[Positions, Positions, int]:
    pattern = node.params["pattern"]
    rows = np.asarray(pattern.rows, np.int64)
    columns = np.asarray(pattern.columns, np.int64)
    x = node.shapes[1]
    return rows, columns, math.prod(x[1:])


def _relate_sparse_sample(node: NodeFacts) -> list[Relation | None]:
    """Relate stored entry k of ``g xᵀ`` to a row of g and one of x."""
    rows, columns, more = _list_stored(node)
    out = np.repeat(count_up(len(rows)), more)
    return [
        Relation(matrix=make_csr(
            out,
            (where[:, None] * more + count_up(more)).reshape(-1),
            (node.size, math.prod(shape)),
        ))
        for where, shape in zip((rows, columns), node.shapes, strict=True)
    ]  # fmt: skip


# Convolutions


def list_convolution(
    node: NodeFacts,
) -> tuple[Positions, Positions, Positions] | None:
    """Return the products that a convolution adds up; None if there are too many."""
    a, b = node.shapes
    if math.prod(a) * math.prod(b) > MOST_PRODUCTS * 4:
        return None
    batch = node.params.get("batch", 0)
    mode = node.params.get("mode", "full")
    out, left, right = (np.zeros(1, np.int64) for _ in range(3))
    for axis, (n, m, length) in enumerate(zip(a, b, node.outputs[0], strict=True)):
        if axis < batch:
            parts = (count_up(length),) * 3
        else:
            parts = list_overlaps(n, m, mode)
        out = (out[:, None] * length + parts[0]).reshape(-1)
        left = (left[:, None] * n + parts[1]).reshape(-1)
        right = (right[:, None] * m + parts[2]).reshape(-1)
    return out, left, right


def _relate_convolution(node: NodeFacts) -> list[Relation | None]:
    listed = list_convolution(node)
    if listed is None:
        node.loose = "its operands are too long to list their products"
        return relate_dense(node)
    out, *sides = listed
    found: list[Relation | None] = []
    for i, side in enumerate(sides):
        if not node.varies[i]:
            found.append(None)
            continue
        rows, columns = out, side
        other = node.values[1 - i]
        if other is not None and not node.varies[1 - i]:
            kept = read_array(other).reshape(-1)[sides[1 - i]] != 0
            rows, columns = out[kept], side[kept]
        shape = node.size, math.prod(node.shapes[i])
        found.append(Relation(matrix=make_csr(rows, columns, shape)))
    return found


# Others


def _relate_ends(node: NodeFacts) -> list[Relation | None]:
    """Relate evenly spaced numbers to both ends: the first is the start alone."""
    full, num = node.outputs[0], node.params["num"]
    line = np.arange(num).reshape((-1, *(1,) * (len(full) - 1)))
    last = num - 1 if node.params.get("endpoint", True) and num > 1 else num
    found: list[Relation | None] = []
    for i, (shape, varies) in enumerate(zip(node.shapes, node.varies, strict=True)):
        if not varies:
            found.append(None)
            continue
        groups = np.broadcast_to(number_entries(shape), full).reshape(-1)
        absent = line == (last if i == 0 else 0)
        found.append(leave_out(Relation(groups), absent, full))
    return found


def _relate_draw(node: NodeFacts) -> list[Relation | None] | None:
    """Relate random draws whose parameters are broadcast."""
    try:
        for shape, varies in zip(node.shapes, node.varies, strict=True):
            if varies:
                np.broadcast_shapes(shape, node.outputs[0])
    except ValueError:
        return None
    if node.op.name in JOINT_DRAWS:
        return None
    return [
        relate_broadcast(shape, node) if varies else None
        for shape, varies in zip(node.shapes, node.varies, strict=True)
    ]


def _relate_each(node: NodeFacts) -> list[list[Relation | None]]:
    """Relate an elementwise op of several outputs."""
    return [relate_elementwise(node)] * len(node.outputs)


JOINT_DRAWS = {
    f"random_{name}"
    for name in (
        "choice dirichlet multinomial multivariate_hypergeometric multivariate_normal"
        " permutation permuted"
    ).split()
}

RULES: dict[str, Rule] = {
    **dict.fromkeys(["reshape", "specify_shape"], _relate_reshaped),
    **dict.fromkeys(
        "transpose broadcast_to flip roll tile repeat pad span unspan windows tril"
        " triu".split(),
        relate_moved,
    ),
    **dict.fromkeys(["copy", "grad_clip", "grad_scale"], lambda c: c.fill(IDENTITY)),
    "getitem": _relate_indexed,
    "scatter": _relate_scattered,
    "index_set": _relate_replaced,
    **dict.fromkeys(["index_add", "index_max", "index_min"], _relate_added),
    **dict.fromkeys(["concatenate", "stack"], _relate_joined),
    "overlap_add": _relate_overlap,
    **dict.fromkeys(
        "sum mean prod max min nanmax nanmin var std logsumexp norm power_norm".split(),
        _relate_reduced,
    ),
    "unbroadcast": _relate_unbroadcast,
    **dict.fromkeys(["cumsum", "cumprod"], _relate_cumulative),
    **dict.fromkeys("fft ifft rfft irfft dct dst".split(), _relate_transformed),
    **dict.fromkeys(["fftn", "ifftn"], _relate_fftn),
    "recursive_filter": _relate_filter,
    **dict.fromkeys(
        "cholesky cofactor coshm cosm det eig eigen_weights eigh eigvals eigvalsh expm"
        " fractional_matrix_power inv logabsdet logm lu pinv qr sign_of_det"
        " singular_weights sinhm sinm solve_sylvester sqrtm svd svdvals tanhm"
        " tanm".split(),
        _relate_matrices,
    ),
    **dict.fromkeys(["solve", "solve_triangular"], _relate_solution),
    **dict.fromkeys(
        ["least_squares", "solve_banded", "sparse_solve"], _relate_beside_matrix
    ),
    "roots": relate_dense,
    **dict.fromkeys(
        "matmul matmul0 tensordot tensordot0 einsum einsum0".split(), _relate_product
    ),
    "sparse_matmul": _relate_sparse_product,
    "sparse_sample": _relate_sparse_sample,
    **dict.fromkeys(["convolve", "convolve_nd"], _relate_convolution),
    "linspace": _relate_ends,
    **dict.fromkeys(
        "airy airye ellipj fresnel it2i0k0 it2j0y0 itairy iti0k0 itj0y0 kelvin pbdv"
        " pbvv pbwa shichi sici".split(),
        _relate_each,
    ),
}

# Curvature: which pairs of operands an op mixes.

#: Ops whose second derivatives are 0 wherever they have any, of real operands.
PIECEWISE_LINEAR = set(
    "absolute fabs maximum minimum fmax fmin where clip sign heaviside max min nanmax"
    " nanmin index_max index_min copysign fraction nextafter ldexp real imag"
    " conjugate".split()
)

#: Those among them that curve where their operand is complex: |z| and z / |z|.
CURVED_IF_COMPLEX = {"absolute", "sign"}


def has_curvature(node: NodeFacts, i: int, j: int) -> bool:
    """Return whether the second derivative by two operands can differ from 0.

    An op that says what the derivative by each operand reads has told it: what the
    partial derivative by one operand does not read is not mixed with it.
    """
    op = node.op
    if op.name in PIECEWISE_LINEAR and not op.custom:
        return node.is_complex and op.name in CURVED_IF_COMPLEX
    reads = op.partial_reads
    if reads is not None and not op.custom:
        return all(
            "y" in reads[a] or b in reads[a] if a < len(reads) else True
            for a, b in ((i, j), (j, i))
        )
    if op.reads is not None and not op.custom:
        return "y" in op.reads or (i in op.reads and j in op.reads)
    return True


PRODUCTS = {
    *"matmul matmul0 tensordot tensordot0 einsum einsum0 convolve convolve_nd".split(),
    *"sparse_matmul sparse_sample".split(),
}


def list_products(
    node: NodeFacts, i: int, j: int
) -> tuple[Positions, Positions, Positions] | None:
    """Return the products that an op adds up: result, and an entry of two operands.

    None: it is no sum of products, or they are too many.
    """
    name = node.op.name
    if name not in PRODUCTS or node.op.custom:
        return None
    if name.startswith("convolve"):
        return list_convolution(node)
    if name.startswith("sparse"):
        return _list_sparse_products(node)
    product = describe_product(node)
    assert product is not None
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


def _list_sparse_products(
    node: NodeFacts,
) -> tuple[Positions, Positions, Positions]:
    rows, columns, more = _list_stored(node)
    places = node.params["pattern"].entry_places
    stored = count_up(len(rows)) if places is None else np.asarray(places)
    step = count_up(more)
    across = [(where[:, None] * more + step).reshape(-1) for where in (rows, columns)]
    along = np.repeat(count_up(len(rows)), more)
    if node.op.name == "sparse_matmul":
        return across[0], np.repeat(stored, more), across[1]
    return along, across[0], across[1]


def restrict_elementwise(
    node: Any, facts: NodeFacts, relations: Sequence[Relation | None]
) -> list[Relation | None]:
    """Return relations without the entries whose partial derivative is 0 at a point."""
    mask = sum(1 << i for i, r in enumerate(relations) if r is not None)
    values = [getattr(x, "_value", x) for x in node.inputs]
    if not mask or any(v is None for v in values):
        return list(relations)
    result = node._value
    ones = np.ones_like(result)
    with np.errstate(all="ignore"):
        pulled = node.op.pull(mask, ones, result, tuple(values), node.params)
    found: list[Relation | None] = []
    for relation, partial in zip(relations, pulled, strict=True):
        if relation is None or partial is None:
            found.append(None)
            continue
        zero = read_array(partial) == 0
        left = leave_out(relation, zero, facts.outputs[0]) if zero.any() else relation
        found.append(left)
    return found


#: Reductions that take one entry of each group.
EXTREMES = {"max", "min", "nanmax", "nanmin"}


def restrict_extremes(
    node: Any, relations: Sequence[Relation | None]
) -> list[Relation | None]:
    """Return the relation of a maximum or minimum to what wins at a point."""
    found, value = relations[0], getattr(node.inputs[0], "_value", None)
    if found is None or found.members is None or value is None:
        return list(relations)
    result = node._value
    pulled = node.op.pull(1, np.ones_like(result), result, (value,), node.params)[0]
    lost = read_array(pulled).reshape(-1) == 0
    members = np.where(lost, found.members.dtype.type(-1), found.members)
    return [found._replace(members=members), *relations[1:]]
