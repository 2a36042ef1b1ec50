"""Where the values of a run lie: one block for what comes and goes, arrays for results.

A buffer's place in the block is free again after the step that reads it last; a kernel
writes where it reads, entry by entry, when nobody reads that value later. Results are
arrays of their own. One that a call has given out is used again for a later call when
nobody else holds it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.lowering import Buffer, KernelStep, Plan
from workbench.backends.compiled.machine import find_address

#: Buffers begin at multiples of this: the length of a line of the cache.
LINE = 64
#: All pools together hold at most so many bytes that nobody uses.
MOST_IDLE = 2**29


def place_buffers(plan: Plan) -> int:
    """Give every inner buffer its place in the block; return the size of the block."""
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for i, buffer in enumerate(plan.buffers):
        if buffer.kind in ("inner", "partial") and buffer.first >= 0:
            begins.setdefault(buffer.first, []).append(i)
            ends.setdefault(buffer.last, []).append(i)
    #: Free pieces, as pairs of begin and end, ascending.
    free: list[tuple[int, int]] = []
    top = 0
    for number, step in enumerate(plan.steps):
        taken: set[int] = set()
        for i in begins.get(number, ()):
            buffer = plan.buffers[i]
            old = _find_overwritten(plan, number, step, i, taken)
            if old is not None:
                buffer.offset = plan.buffers[old].offset
                taken.add(old)
                continue
            size = -(-max(buffer.size, 1) // LINE) * LINE
            for k, (begin, end) in enumerate(free):
                if end - begin >= size:
                    buffer.offset = begin
                    free[k : k + 1] = (
                        [(begin + size, end)] if end - begin > size else []
                    )
                    break
            else:
                if free and free[-1][1] == top:  # grows the piece at the end
                    buffer.offset = free.pop()[0]
                else:
                    buffer.offset = top
                top = buffer.offset + size
        for i in ends.get(number, ()):
            if i not in taken:
                buffer = plan.buffers[i]
                size = -(-max(buffer.size, 1) // LINE) * LINE
                _free(free, buffer.offset, buffer.offset + size)
    if plan.flag >= 0 and not plan.nested:
        plan.buffers[plan.flag].offset = top
        top += LINE
    return top


def _free(free: list[tuple[int, int]], begin: int, end: int) -> None:
    """Give a piece back, joined with its neighbours."""
    pieces = sorted([*free, (begin, end)])
    free.clear()
    for one in pieces:
        if free and free[-1][1] == one[0]:
            free[-1] = (free[-1][0], one[1])
        else:
            free.append(one)


def _find_overwritten(
    plan: Plan, number: int, step: Any, new: int, taken: set[int]
) -> int | None:
    """Return a buffer that a kernel reads last, and may write a new value to."""
    if not isinstance(step, KernelStep):
        return None
    kernel = step.kernel
    addressed = kernel.addressed
    targets = [view for _, view in kernel.stores if view.buffer == new]
    if len(targets) != 1 or any(x.view.buffer == new for x in kernel.reductions):
        return None
    for view in kernel.loads.values():
        old: Buffer = plan.buffers[view.buffer]
        if (
            old.kind == "inner"
            and old.last == number
            and old.first < number
            and view.buffer not in taken
            and view.buffer not in addressed
            and view.strides == targets[0].strides
            and view.offset == targets[0].offset
            and view.kind == targets[0].kind
            and old.size == plan.buffers[new].size
            and sum(v.buffer == view.buffer for v in kernel.loads.values()) == 1
        ):
            return view.buffer
    return None


class Pool:
    """Arrays of one function that a later call may use again.

    Attributes
    ----------
    idle
        The bytes that all pools hold and nobody uses, at their last look.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Any, list[np.ndarray[Any, Any]]] = {}

    def take(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array that nobody else holds; its entries are anything."""
        key = (tuple(shape), dtype)
        made = None
        with self._lock:
            kept = self._kept.setdefault(key, [])
            for array in kept:
                if sys.getrefcount(array) == _OWN:
                    return array
            made = np.empty(shape, dtype)
            if self.count_bytes() + made.nbytes <= MOST_IDLE and len(kept) < 4:
                kept.append(made)
        return made

    def count_bytes(self) -> int:
        """Return how many bytes the pool keeps."""
        return sum(a.nbytes for kept in self._kept.values() for a in kept)

    def clear(self) -> None:
        """Let all arrays go that nobody uses."""
        with self._lock:
            self._kept.clear()


def _count_own() -> int:
    """Return how many references to an array there are that only a pool holds."""
    for array in [np.empty(1)]:
        return sys.getrefcount(array)
    return 0


_OWN = _count_own()


class Block:
    """The memory of one run: a block for what comes and goes, and rows that grow.

    Attributes
    ----------
    memory
        The block.
    states
        For each growing buffer where its rows lie, and how many bytes there are.
    """

    def __init__(self, size: int, growing: int) -> None:
        self.memory = make_block(size)
        self.states = np.zeros((growing, 2), np.int64)

    def __del__(self) -> None:
        for address, _ in getattr(self, "states", ()):
            if address:
                _free_memory(int(address))


def _free_memory(address: int) -> None:
    """Give back what `realloc` has given."""
    place = find_address("free")
    assert place is not None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(place)(address)


def make_block(size: int) -> np.ndarray[Any, Any]:
    """Return a block of memory that begins at a line of the cache."""
    whole = np.empty(size + LINE, np.uint8)
    start = -whole.__array_interface__["data"][0] % LINE
    return whole[start : start + size]


def read_view(view: View, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view as an array, of the array that holds its buffer."""
    return np.ndarray(view.shape, np.dtype(view.kind), base, view.offset, view.strides)
