"""The rules of elementwise nodes, many small ones of one op together.

As such an op works entry by entry, its derivative along one direction is that of every
entry: one evaluation tells them all. Small nodes whose arrays have the same shapes are
stacked, one in each row, and the stack is one more node of the op. What is found right
here is right by the limits of `check_rule.py`; whatever is not, and all that has a kink
or is not finite, is left to the check of any node, which measures again the entries
that were off here, and finds the words.

An op of the user's is always checked by itself: its rule may depend on the shape.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import is_draw
from workbench.checks.check_rule import (
    ROUNDINGS,
    SCREEN,
    SECOND_ORDER_RTOL,
    SUSPECTS,
    RuleCheck,
    Suspect,
    apply_rules_twice,
    compute_second_slopes,
)
from workbench.checks.isolated_node import IsolatedNode
from workbench.core import types
from workbench.core.schedule import compute_node
from workbench.core.tensor import Tensor, make_leaf

Array = np.ndarray[Any, Any]

#: The most entries of a stack; of larger nodes each is checked as it stands.
MOST_STACKED = 16_384


class AlikeNodes:
    """The elementwise nodes of a program, each with those checked in the same stack.

    Parameters
    ----------
    nodes
        Nodes that may be checked; those of other ops are left out.
    rng
        Chooses directions and weights.
    order_of
        Returns 1 to check the rule of a node, 2 to check its derivatives too.
    rtol
        The relative error that an entry may have.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> program = wb.trace(lambda x: np.sum(np.sin(np.sin(x))))(np.ones(3))
    >>> alike = AlikeNodes(program.nodes, np.random.default_rng(0))
    >>> [alike.is_right(x) for x in program.nodes]
    [False, True, True, False]

    The input has no rule, and a sum is not elementwise.
    """

    def __init__(
        self,
        nodes: Iterable[Tensor],
        rng: np.random.Generator,
        *,
        order_of: Callable[[Tensor], int] = lambda node: 2,
        rtol: float | None = None,
    ) -> None:
        self._rng, self._order_of, self._rtol = rng, order_of, rtol
        #: The nodes to check with each, by its serial, until that is done.
        self._stacks: dict[int, list[Tensor]] = {}
        self._right: set[int] = set()
        #: The entries that were off in the stack, by the serial of the node.
        self._suspects: dict[int, list[Suspect]] = {}
        alike: defaultdict[Any, list[Tensor]] = defaultdict(list)
        for node in nodes:
            kind = find_kind(node)
            if kind is not None:
                alike[order_of(node), kind].append(node)
        for some in alike.values():
            most = max(1, MOST_STACKED // np.size(some[0]._value))
            for start in range(0, len(some), most):
                stack = some[start : start + most]
                self._stacks.update((x.serial, stack) for x in stack)

    def is_right(self, node: Tensor) -> bool:
        """Return whether a node is found right in both modes, with nodes alike."""
        stack = self._stacks.get(node.serial)
        if stack is not None:
            order = self._order_of(node)
            with np.errstate(all="ignore"):
                passed, off = check_stack(stack, self._rng, order, self._rtol)
            for row, (x, good) in enumerate(zip(stack, passed, strict=True)):
                del self._stacks[x.serial]
                if good:
                    self._right.add(x.serial)
                elif row in off:
                    self._suspects[x.serial] = off[row]
        return node.serial in self._right

    def find_suspects(self, node: Tensor) -> list[Suspect]:
        """Return the suspect entries of a node that was not found right."""
        return self._suspects.get(node.serial, [])


def find_kind(node: Tensor) -> Any:
    """Return a key that stackable nodes have in common; None if not stackable."""
    op, y = node.op, node._value
    if not op.elementwise or op.custom or op.pull is None or op.push is None:
        return None
    if op.traits.purpose or op.graphs is not None or is_draw(node):
        return None
    kinds: list[Any] = []
    for x, v in zip(node.inputs, node.args, strict=True):
        if types.is_weak(v):
            if isinstance(x, Tensor):
                return None
            kinds.append((type(v), repr(v)))
        elif isinstance(v, (np.ndarray, np.generic)):
            varies = isinstance(x, Tensor)
            if v.dtype.kind not in "biuf" or (v.dtype.kind == "f" and v.dtype != float):
                return None
            kinds.append((varies, v.shape, v.dtype))
        else:
            return None
    if not isinstance(y, (np.ndarray, np.generic)) or y.dtype != float or not y.size:
        return None
    return op, tuple(sorted(node.params.items())), tuple(kinds), y.shape


def stack_nodes(nodes: Sequence[Tensor]) -> Tensor:
    """Return a node of the same op that has the given nodes as its rows.

    A single node is returned as it is.
    """
    first = nodes[0]
    if len(nodes) == 1:
        return first
    rank = np.ndim(first._value)
    inputs: list[Any] = []
    for i, (x, v) in enumerate(zip(first.inputs, first.args, strict=True)):
        if types.is_weak(v):
            inputs.append(v)
            continue
        # Of lower rank it stands at the last axes, as NumPy broadcasts it.
        rows = np.stack([node.args[i] for node in nodes])
        rows = rows.reshape((len(nodes), *(1,) * (rank - v.ndim), *v.shape))
        inputs.append(make_leaf(rows) if isinstance(x, Tensor) else rows)
    args = tuple([x._value if isinstance(x, Tensor) else x for x in inputs])
    value = compute_node(first, args)
    return Tensor(first.op, tuple(inputs), args, first.params, value)


def check_stack(
    nodes: Sequence[Tensor], rng: np.random.Generator, order: int, rtol: float | None
) -> tuple[Array, dict[int, list[Suspect]]]:
    """Return for each of some nodes that are alike whether its rule is surely right.

    And the entries that are off, by the position of their node.
    """
    count = len(nodes)
    nothing, suspects = np.zeros(count, bool), defaultdict[int, list[Suspect]](list)
    try:
        isolated = IsolatedNode(stack_nodes(nodes))
        expected = np.concatenate([np.ravel(node._value) for node in nodes])
        if not np.array_equal(isolated.outputs, expected, equal_nan=True):
            return nothing, {}
        check = RuleCheck(isolated, rng, rtol, 0)
        right = check_first_order(isolated, check, count, suspects)
        if order > 1 and right.any():
            right &= check_second_order(isolated, check, count)
    except Exception:  # the check of each node says what is wrong
        return nothing, suspects
    return right, suspects


def check_first_order(
    isolated: IsolatedNode,
    check: RuleCheck,
    count: int,
    suspects: dict[int, list[Suspect]],
) -> Array:
    """Return for each row whether both modes agree with the values, entry by entry.

    Of an input that is broadcast, sums over the outputs are compared in reverse mode.
    The entries that are most off are added to the suspects of their row.
    """
    y, shape = isolated.outputs, isolated.shapes[0]
    finite = np.isfinite(y)
    right = are_all(finite, count)
    for argnum in isolated.argnums:
        x = np.asarray(isolated.values[argnum])
        reach = measure_row_scales(x, count)
        found = isolated.measure_derivative(argnum, reach.reshape(1, -1))
        check.methods.add(found.method)
        value, tolerance = found.value[0], check.tolerances(found)[0]
        known = finite & np.isfinite(tolerance)
        known &= ~found.kink[0]
        right &= are_all(known, count)
        off = np.abs(isolated.push_forward(argnum, reach.ravel()) - value)
        off /= tolerance
        good = are_all(off <= 1, count)
        if not good.all():
            entries = list_entries(x.shape, shape, count)
            for row, o in find_worst(np.where(known, off, 0), count, good):
                suspects[row].append(Suspect("fwd", argnum, int(entries[o]), o))
        right &= good
        size = np.abs(value)
        size[~(size > 1e-100)] = 1
        weights = check.draw_weights(len(y))
        weights /= size
        back = isolated.pull_back(weights)[isolated.argnums.index(argnum)]
        back = np.zeros(x.shape) if back is None else back
        sizes = np.abs(weights)
        off = np.abs(back * reach - sum_rows(weights * value, shape, x.shape))
        most = sum_rows(sizes * tolerance, shape, x.shape)
        if x.size < len(y):
            # One output among many: what rounding does to their sum is far less.
            roundings = ROUNDINGS * check.eps * sizes * np.abs(y)
            spread = (8 * sizes * found.error[0]) ** 2 + roundings**2
            close = SCREEN * sum_rows(sizes * np.abs(value), shape, x.shape)
            close += np.sqrt(sum_rows(spread, shape, x.shape))
            most = np.minimum(most, close)
        off /= most
        good = are_all(off <= 1, count)
        if not good.all():
            certain = sum_rows((~known).astype(float), shape, x.shape) == 0
            for row, k in find_worst(np.where(certain, off, 0), count, good):
                place = k if x.size == len(y) else None
                suspects[row].append(Suspect("rev", argnum, k, place))
        right &= good
    return right


def find_worst(off: Array, count: int, good: Array) -> Iterable[tuple[int, int]]:
    """Yield the rows that are not good with the entries that are most off, by size.

    ``off`` holds the errors, 1 being the largest that an entry may have.
    """
    rows = np.where(np.isnan(off), np.inf, off).reshape(count, -1)
    for row in np.flatnonzero(~good).tolist():
        for k in np.argsort(-rows[row], kind="stable")[:SUSPECTS].tolist():
            if rows[row, k] > 1:
                yield row, k


def list_entries(shape: tuple[int, ...], whole: tuple[int, ...], count: int) -> Array:
    """Return for each output of a row the input entry that the output depends on."""
    size = int(np.prod(shape)) // count
    entries = np.broadcast_to(np.arange(size * count).reshape(shape), whole)
    # Those of the first row are counted from 0.
    return np.asarray(entries.reshape(count, -1)[0])


def check_second_order(isolated: IsolatedNode, check: RuleCheck, count: int) -> Array:
    """Return for each row whether its rules have the second derivative of its values.

    Along one direction, of a weighted sum of the outputs of the row.
    """
    values = [np.asarray(isolated.values[i]) for i in isolated.argnums]
    directions = [
        check.draw_weights(x.size).reshape(x.shape) * measure_row_scales(x, count)
        for x in values
    ]
    weights = check.draw_weights(len(isolated.outputs))
    slopes, errors, method = compute_second_slopes(
        isolated, directions, weights, check, lambda terms: terms
    )

    def total(terms: Array) -> Array:
        summed: Array = terms.reshape(count, -1).sum(axis=1)
        return summed

    expected, error = total(slopes), total(errors)
    right: Array = np.isfinite(expected) & (error <= 0.01 * np.abs(expected) + 1e-6)
    tolerance = SECOND_ORDER_RTOL[method] * np.abs(expected) + 10 * error
    tolerance += 1e4 * 2.3e-16 * total(np.abs(weights * isolated.outputs)) + 1e-300
    for terms in apply_rules_twice(isolated, values, directions, weights).values():
        got = sum(total(np.asarray(part)) for part in terms)
        right &= np.abs(got - expected) <= tolerance
    return right


def measure_row_scales(x: Array, count: int) -> Array:
    """Return the step for each entry, as `IsolatedNode.step_scales` does for a row."""
    size: Array = np.array(np.abs(x), float)
    rows = size.reshape(count, -1)
    usable = (rows > 0) & np.isfinite(rows)
    for k in np.flatnonzero(~usable.all(axis=1)):
        known = rows[k, usable[k]]
        usual = min(1.0, float(np.median(known))) if known.size else 1.0
        rows[k, ~usable[k]] = usual
    return size


def are_all(good: Array, count: int) -> Array:
    """Return for each row whether all its entries are true."""
    return np.asarray(good.reshape(count, -1).all(axis=1))


def sum_rows(flat: Array, shape: tuple[int, ...], want: tuple[int, ...]) -> Array:
    """Return a vector of outputs summed over the axes that broadcast an input."""
    aligned = (1,) * (len(shape) - len(want)) + want
    pairs = zip(shape, aligned, strict=True)
    axes = tuple(i for i, (n, m) in enumerate(pairs) if n != m)
    summed: Array = flat.reshape(shape).sum(axis=axes, keepdims=True).reshape(want)
    return summed
