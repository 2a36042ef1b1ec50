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

from workbench.autodiff.sparse import linear_algebra, solutions
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
from workbench.autodiff.sparse.products import (
    MOST_PRODUCTS,
    read_array,
    relate_convolution,
    relate_product,
    relate_sparse_product,
    relate_sparse_sample,
)
from workbench.autodiff.sparse.relations import (
    IDENTITY,
    Relation,
    make_csr,
)
from workbench.core.op import Op
from workbench.ops.indexing import ARRAY, as_index
from workbench.ops.reductions import reduced_axes

#: What rule of an op: the relation by each operand, for several outputs a list of them.
Rule = Callable[["NodeFacts"], Any]


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


def find_target(node: NodeFacts) -> Any:
    """Return to which entry of ``x`` each of the values at a known index is added."""
    index = as_index(node.params["key"], tuple(node.values[2:]))
    return number_entries(node.shapes[0])[index]


def _relate_added(node: NodeFacts) -> list[Relation | None]:
    """Relate ``x`` with values added (or compared) at an index."""
    given = node.shapes[1]
    if not node.is_known(range(2, len(node.shapes))):
        node.loose = "its index varies"
        added = full_relation(math.prod(given), node.size)
    else:
        target = find_target(node)
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


# Dense along axes


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
    **linear_algebra.RULES,
    **solutions.RULES,
    "roots": relate_dense,
    **dict.fromkeys(
        "matmul matmul0 tensordot tensordot0 einsum einsum0".split(), relate_product
    ),
    "sparse_matmul": relate_sparse_product,
    "sparse_sample": relate_sparse_sample,
    **dict.fromkeys(["convolve", "convolve_nd"], relate_convolution),
    "linspace": _relate_ends,
    **dict.fromkeys(
        "airy airye ellipj fresnel it2i0k0 it2j0y0 itairy iti0k0 itj0y0 kelvin pbdv"
        " pbvv pbwa shichi sici".split(),
        _relate_each,
    ),
}
