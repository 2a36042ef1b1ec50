"""Residuals: the values of a recorded program that its derivatives will read.

A gradient of large arrays needs as much memory as its program has values, if it keeps
them all; but the rules of a sum, or of `exp`, do not read what they were given. While a
trace that only `grad` or `vjp` will pull back through is open, the large values that no
rule reads are let go as soon as the program itself holds them no more. What they looked
like stays known; such a value is computed again if it is read all the same.

The nodes that take part are of a class of their own (`tensor.LeanTensor`), so that a
program on small arrays pays nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount, ref

import numpy as np

from workbench.core import traces
from workbench.errors import TraceError

#: Bytes from which on an array is worth the work: adding two takes 60 microseconds.
LARGE = 2**20
#: How many values a trace looks at again and again, the last ones.
MOST_PENDING = 64
#: The classes of Tensors whose values may be let go, stale ones too.
LEAN: set[type] = set()


class Released:
    """The placeholder of a released value: its shape, dtype and layout."""

    __slots__ = ("dtype", "nbytes", "ndim", "shape", "size")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.shape, self.dtype = value.shape, value.dtype
        self.ndim, self.size, self.nbytes = value.ndim, value.size, value.nbytes

    def example(self) -> np.ndarray[Any, Any]:
        """Return an array that takes no memory, for rules that read its shape alone.

        It is full of NaN: a rule that reads more than it says is found at once.
        """
        return np.broadcast_to(np.full((), np.nan, self.dtype), self.shape)


Pending = deque[ref[Any]]


def is_large(value: object) -> bool:
    """Return whether a value is an array that is worth the work."""
    return type(value) is np.ndarray and value.nbytes >= LARGE


def can_be_released(value: object) -> bool:
    """Return whether a value is worth letting go: a large array of floats."""
    return is_large(value) and value.dtype.kind in "fc"  # type: ignore[attr-defined]


def is_alone(holder: list[Any], others: int = 0) -> bool:
    """Return whether only a list of one, and ``others``, refer to its content."""
    return getrefcount(holder[0]) == _ALONE + others


#: Python's count for an object that only the list holds.
_ALONE = 0
_ALONE = next(n for n in range(9) if is_alone([object()], n))


def is_private(holder: list[Any], others: int = 0) -> bool:
    """Return whether nobody but a list of one holds an array, its memory included.

    Such an array may be written into: whoever else could see that has a reference to
    it, be it as the base of a view. Of ``others`` the caller knows that they do not
    mind.
    """
    array = holder[0]
    if type(array) is not np.ndarray or array.base is not None:
        return False
    owns = array.flags.owndata and array.flags.writeable
    owns = owns and not getweakrefcount(array)
    del array
    return owns and is_alone(holder, others)


def reads_value(node: Any, index: int | str) -> bool:
    """Return whether the reverse rule of a node reads the value of an input.

    ``"y"`` is its own. What the rule passes to constants is never asked for.
    """
    op = node.op
    parts = op.partial_reads
    if parts is None:
        return op.reads is None or index in op.reads
    given = zip(parts, node.inputs, strict=False)
    return any(index in part and hasattr(x, "serial") for part, x in given)


def is_watched() -> bool:
    """Return whether a trace is open that lets values go."""
    return bool(traces.OPEN) and traces.OPEN[0].pending is not None


def find_pending() -> Pending | None:
    """Return the values that may be let go now; None inside of another derivative.

    That one may read anything.
    """
    pending: Pending | None = None
    if len(traces.OPEN) == 1 and traces.LOCAL.stack:
        pending = traces.OPEN[0].pending
    return pending


def note_readers(node: Any) -> None:
    """Register a node as a reader of its large operands."""
    for x in node.inputs:
        if type(x) in LEAN and (not x.readers or x.readers[-1]() is not node):
            x.readers.append(ref(node))


def release_values(pending: Pending) -> None:
    """Let go the pending values that the program holds no more."""
    for _ in range(len(pending)):
        candidate = pending.popleft()
        holder = [candidate()]
        if holder[0] is None or type(holder[0]) in traces.CHANGED:
            continue
        if _is_needed(holder[0]):
            continue
        count = _count_uses(holder[0])
        if count and is_alone(holder, count):
            node = holder[0]
            node.stored = Released(node.stored)
        else:
            pending.append(candidate)


def _is_needed(node: Any) -> bool:
    """Return whether a rule reads the value of a node, or a view shares the value."""
    return (
        node.views is not None
        or node.op.view is not None
        or reads_value(node, "y")
        or any(
            x is node and reads_value(reader, i)
            for reader in _list_readers(node)
            for i, x in enumerate(reader.inputs)
        )
    )


def _list_readers(node: Any) -> list[Any]:
    """Return the nodes made from a node that are still there, as far as is known."""
    return [reader for r in node.readers if (reader := r()) is not None]


def _count_uses(node: Any) -> int:
    """Return how often the inputs of other nodes refer to a node."""
    # Two nodes may have one tuple of inputs, which refers to it only once.
    tuples = {id(reader.inputs): reader.inputs for reader in _list_readers(node)}
    return sum(x is node for inputs in tuples.values() for x in inputs)


# Who reads them


def read_value(node: Any) -> Any:
    """Return the value of a node; one that was let go is computed again."""
    value = node.stored
    if type(value) is not Released:
        return value
    if not traces.is_active(node):
        raise TraceError(
            f"the value of the result of {node.op.name}, of shape {node.shape}, was let"
            " go: no rule reads it, and the function did not hold it when it ended."
            " Give it a name that outlives the function: values.append(y)."
        )
    return _compute_again(node)


def is_released(x: Any) -> bool:
    """Return whether ``x`` is a node with a released value."""
    return type(x) in LEAN and type(x.stored) is Released


def restore_values(steps: Sequence[tuple[Any, int]]) -> None:
    """Compute released values again, for a sweep that reads more than the rules do."""
    for node, _ in steps:
        for x in (*node.inputs, node):
            if is_released(x):
                x.stored = _compute_again(x)


def read_operands(node: Any) -> tuple[Any, ...]:
    """Return the values of the inputs of a node, all of them."""
    return tuple([getattr(traces.node_of(x), "_value", x) for x in node.inputs])


def list_residuals(node: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the value of a node and those of its inputs, for its reverse rule.

    In the place of those that were let go there are examples.
    """
    values = [
        x.stored if type(x) in LEAN else getattr(x, "_value", x)
        for x in (node, *node.inputs)
    ]
    for i, value in enumerate(values):
        if type(value) is Released:
            values[i] = value.example()
    return values[0], tuple(values[1:])


def _compute_again(node: Any) -> Any:
    """Return the value of a node that was let go, from those that were not."""
    missing, stack = {node.serial: node}, [node]
    while stack:
        for x in map(traces.node_of, stack.pop().inputs):
            if is_released(x) and x.serial not in missing:
                missing[x.serial] = x
                stack.append(x)
    known: dict[int, Any] = {}
    for serial in sorted(missing):
        x = missing[serial]
        operands = [
            known[y.serial]
            if getattr(y, "serial", None) in known
            else getattr(y, "_value", y)
            for y in map(traces.node_of, x.inputs)
        ]
        known[serial] = x.op.compute(*operands, **x.params)
    return known[node.serial]
