"""Derivatives of arrays that are written to, entry by entry, in linear time.

Of n versions of an array that differ in an entry each (`core/memory.py`), the rules of
the op would make n cotangents, or tangents, each a whole array. Here one array goes
through all of them, and is written into where nobody else holds it: in plain sweeps an
array of NumPy, in recorded ones versions of a memory again (`Total`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from workbench.core.deferred import LengthParams
from workbench.core.inplace import make_copy, store
from workbench.core.memory import Memory, Version
from workbench.core.op import CopyParams
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Params
from workbench.ops.define import shape_of, sum_to
from workbench.ops.indexing import GETITEM, Key, as_index, has_distinct_entries
from workbench.ops.updates import SET
from workbench.ops.writing import Line, read_in_place, set_in_place

# One array through all versions, recorded


class Total:
    """An array of a recorded program that is read and written entry by entry.

    It is versions of a memory that no user holds: n entries take linear time.
    """

    __slots__ = ("line", "memory")

    def __init__(self, start: Any, line: Line) -> None:
        """Begin with an array, or a Tensor with a value, which is copied."""
        self.line = line
        value = value_of(start)
        room = np.array(value)  # host array: of the total
        self.memory = Memory(make_copy(start, value, room, line))
        self.memory.fresh.clear()
        self.memory.owner = self

    @property
    def latest(self) -> Tensor:
        """The node of all entries as they are now."""
        made: Tensor = self.memory.latest
        return made

    def read(self, key: Key, arrays: tuple[Any, ...]) -> Any:
        """Return the entries at an index."""
        memory = self.memory
        made = None
        if memory.buffer is not None:
            made = read_in_place(memory, key, arrays, self.line)
        if made is None:
            made = apply(GETITEM, (memory.latest, *arrays), {"key": key})
        made.params = CopyParams(made.params)  # nobody writes through it
        return made

    def write(self, key: Key, arrays: tuple[Any, ...], value: Any) -> None:
        """Set the entries at an index."""
        memory = self.memory
        if not set_in_place(memory, key, arrays, value, self.line):
            inputs = (memory.latest, value, *arrays)
            store(memory, apply(SET, inputs, {"key": key}))

    def close(self) -> None:
        """Leave the last version to the program."""
        if self.memory.owner is not None:
            self.memory.owner = None
            self.memory.close()


# Reverse mode, on plain arrays


def pull_version(node: Any, mask: int, g: Any, own: bool) -> Sequence[Any]:
    """Return the cotangents of a version's inputs: the one before, and the values set.

    The first is what has arrived, less the entries set: the very array, if it is the
    sweep's ``own``; else a copy.
    """
    args = node.args
    arrays = args[2:]
    if type(g) is not np.ndarray or (arrays and not has_distinct_entries(arrays)):
        passed: Sequence[Any] = node.op.pull(mask, g, args[0], args, node.params)
        return passed
    index = as_index(node.params["key"], arrays)
    c = None
    if mask & 2:
        c = g[index]
        if type(c) is np.ndarray:
            shape = np.shape(args[1])
            c = c.copy() if c.shape == shape else sum_to(c, shape)
    if not mask & 1:
        return None, c
    if not own:
        g = g.copy()
    g[index] = 0
    return g, c


# Reverse mode, recorded


class Totals:
    """The totals of a recorded sweep, for arrays that are read and set by entries."""

    __slots__ = ("begun", "by_serial")

    def __init__(self) -> None:
        self.begun: list[Total] = []
        #: By the serial of the node that they arrive at.
        self.by_serial: dict[int, Total] = {}

    def pull(
        self,
        node: Tensor,
        mask: int,
        g: Any,
        arrived: dict[int, Any],
        kept: Collection[int],
    ) -> Sequence[Any] | None:
        """Return the cotangents of a version, or an index; None: use the op's rule.

        What goes to the array that is indexed is the total itself, in the place of what
        has arrived there. ``kept``: the serials of Tensors whose cotangents are asked
        for.
        """
        if type(node) is Version:
            return self._pull_version(node, mask, g, arrived, kept)
        x = node.inputs[0]
        if mask & 1 and isinstance(x, Tensor) and _is_plain_index(node.params):
            return self._pull_index(node, x, g, arrived)
        return None

    def _pull_version(
        self,
        node: Tensor,
        mask: int,
        g: Any,
        arrived: dict[int, Any],
        kept: Collection[int],
    ) -> Sequence[Any] | None:
        key, arrays = node.params["key"], node.inputs[2:]
        total = self.by_serial.pop(node.serial, None)
        if not _is_known(arrays) or not _is_dense(g, node):
            return None
        if total is None or total.latest is not g or node.serial in kept:
            total = self._begin(g, node)
        c = None
        if mask & 2:
            shape = shape_of(node.inputs[1])
            c = total.read(key, arrays)
            c = c if c.shape == shape else sum_to(c, shape)
        if not mask & 1:
            return None, c
        total.write(key, arrays, 0.0)
        serial = node.inputs[0].serial
        if arrived.get(serial) is None:
            self.by_serial[serial] = total
        return total.latest, c

    def _pull_index(
        self, node: Tensor, x: Tensor, g: Any, arrived: dict[int, Any]
    ) -> Sequence[Any] | None:
        key, arrays = node.params["key"], node.inputs[1:]
        if not _is_known(arrays) or not _is_dense(g, node):
            return None
        old = arrived.get(x.serial)
        total = self.by_serial.get(x.serial)
        if old is None or total is None or total.latest is not old:
            if old is None:
                shape, dtype = x.shape, x.dtype
                old = np.zeros(shape, dtype)  # host array: as the value of x is
            elif not _is_dense(old, x):
                return None
            total = self.by_serial[x.serial] = self._begin(old, node)
        total.write(key, arrays, total.read(key, arrays) + g)
        arrived.pop(x.serial, None)
        return (total.latest,)

    def _begin(self, g: Any, node: Tensor) -> Total:
        self.begun.append(_begin(g, node))
        return self.begun[-1]

    def close(self) -> None:
        """Leave all to the program that was recorded."""
        for total in self.begun:
            total.close()


def _begin(start: Any, node: Tensor) -> Total:
    code: Any = node.code
    return Total(start, (code, node.lasti))


def _is_plain_index(params: Params) -> bool:
    """Return whether an index has no order of its own, and no unknown lengths."""
    return "order" not in params and type(params) is not LengthParams


def _is_known(arrays: Sequence[Any]) -> bool:
    """Return whether an index is no mask, has values, and names no entry twice."""
    for array in map(value_of, arrays):
        if type(array) is not np.ndarray or array.dtype.kind == "b" or array.size != 1:
            return False
    return True


def _is_dense(g: Any, x: Tensor) -> bool:
    """Return whether a cotangent is one like the value of ``x``, in NumPy."""
    value = g
    if type(g) is Tensor:
        value = g._value
    elif type(g) is Version:  # whose value nobody is to ask for
        return bool(g.shape == x.shape and g.dtype == x.dtype)
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return bool(value.shape == x.shape and value.dtype == x.dtype)


# Forward mode


class Tangents:
    """The tangents of versions of a memory, one array that is written into."""

    __slots__ = ("last", "moving", "own", "totals")

    def __init__(
        self,
        steps: Sequence[tuple[Tensor, int]],
        outputs: Sequence[Any],
        wrt: Sequence[Tensor],
        moving: dict[int, Any],
    ) -> None:
        #: The serial of the last node that reads a version; none, where all are kept.
        self.last: dict[int, int] = {}
        self.moving = moving
        #: Versions whose tangent nobody else holds.
        self.own: set[int] = set()
        #: Those that are recorded, by the serials of the versions they belong to.
        self.totals: dict[int, Total] = {}
        if any(type(node) is Version for node, _ in steps):
            for node, _ in steps:
                for x in node.inputs:
                    if type(x) is Version:
                        self.last[x.serial] = node.serial
            for x in (*outputs, *wrt):
                if isinstance(x, Tensor):
                    self.last[x.serial] = -1

    def push(self, incoming: tuple[Any, ...], node: Tensor) -> Any:
        """Return the tangent of a version; None where the rule of its op must tell."""
        kept, t = incoming[:2]
        if t is not None and not isinstance(t, (np.ndarray, np.generic, float)):
            return None
        before = node.inputs[0].serial if isinstance(node.inputs[0], Tensor) else -1
        shown = node.args[0]
        if kept is None:
            made = np.zeros(shown.shape, shown.dtype)  # host array: as the buffer is
        elif type(kept) is not np.ndarray or kept.shape != shown.shape:
            return None
        elif before in self.own and self.last.get(before) == node.serial:
            made = self.moving.pop(before)
        else:
            made = kept.copy()
        made[as_index(node.params["key"], node.args[2:])] = 0 if t is None else t
        self.own.add(node.serial)
        return made

    def record(self, incoming: tuple[Any, ...], node: Tensor) -> Any:
        """Return the recorded tangent of a version, or of entries of one; or None."""
        before: Any = node.inputs[0]
        kept = incoming[0]
        total = self.totals.get(getattr(before, "serial", -1))
        if total is not None and total.latest is not kept:
            total = None
        if type(node) is not Version:
            arrays = node.inputs[1:]
            if total is None or not _is_plain_index(node.params):
                return None
            return total.read(node.params["key"], arrays) if _is_known(arrays) else None
        if kept is None:
            shown = node.args[0]
            kept = np.zeros(shown.shape, shown.dtype)  # host array: as the buffer is
        t = 0.0 if incoming[1] is None else incoming[1]
        if not (_is_known(node.inputs[2:]) and _is_dense(kept, node)):
            return None
        if isinstance(t, Tensor) and type(t._value) is not np.ndarray:
            if not isinstance(t._value, np.generic):
                return None
        if total is None:
            total = _begin(kept, node)
        total.write(node.params["key"], node.inputs[2:], t)
        self.totals[node.serial] = total
        return total.latest

    def close(self) -> None:
        """Leave all to the program that was recorded."""
        for total in self.totals.values():
            total.close()

    def unshare(self, t: Any, node: Tensor) -> Any:
        """Return a tangent that shares no memory with one that is written into."""
        for x in node.inputs:
            if type(x) is Version and type(node) is not Version:
                other = self.moving.get(x.serial)
                if type(other) is np.ndarray and np.may_share_memory(t, other):
                    return t.copy()
        return t
