"""Memory of a run: one block for temporary values, arrays for results.

A buffer's place in the block is free again after the step that reads it last; a kernel
writes where it reads, entry by entry, when no later step reads that value. Results are
arrays of their own. Memory of a call is used again for a later one when it is free.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from typing import Any, ClassVar

import numpy as np

from workbench.backends.compiled import steps
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.machine import find_address

#: All pools together keep at most so many bytes, but for what one call needs.
MOST_IDLE = 2**29
#: A pool keeps at most so many arrays of one form.
MOST_ALIKE = 4

Array = np.ndarray[Any, Any]


def place_buffers(plan: steps.Plan) -> int:
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
            size = -(-max(buffer.size, 1) // steps.LINE) * steps.LINE
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
                size = -(-max(buffer.size, 1) // steps.LINE) * steps.LINE
                _free(free, buffer.offset, buffer.offset + size)
    if plan.flag >= 0 and not plan.nested:
        plan.buffers[plan.flag].offset = top
        top += steps.LINE
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
    plan: steps.Plan, number: int, step: Any, new: int, taken: set[int]
) -> int | None:
    """Return a buffer that a kernel reads last, and may write a new value to."""
    if not isinstance(step, steps.KernelStep):
        return None
    kernel = step.kernel
    addressed = kernel.addressed
    targets = [view for _, view in kernel.stores if view.buffer == new]
    if len(targets) != 1 or any(x.view.buffer == new for x in kernel.reductions):
        return None
    for view in kernel.loads.values():
        old: steps.Buffer = plan.buffers[view.buffer]
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
    """Memory of one program that a later call may use again.

    An array that a caller still holds, watches or has changed the form of is the
    caller's for good. When a program needs new memory and all pools together have
    more than `MOST_IDLE` bytes, the other pools let go of theirs.
    """

    _lock = threading.RLock()  # of all pools
    _pools: ClassVar[weakref.WeakSet[Pool]] = weakref.WeakSet()

    def __init__(self) -> None:
        #: Arrays and the addresses of their entries, by shape and dtype.
        self._kept: dict[Any, list[tuple[Array, int]]] = {}
        with Pool._lock:
            Pool._pools.add(self)

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
        """Return an array that nobody else holds, and the address of its entries."""
        key = shape, dtype
        with Pool._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = []
            for array, address in kept:
                if _count_references(array) == _OWN:
                    if _is_as_made(array, key):
                        return array, address
                    kept = self._kept[key] = [x for x in kept if x[0] is not array]
                    break
            array = np.empty(shape, dtype)
            address = steps.find_start(array)
            if self._has_room(array.nbytes, len(kept)):
                kept.append((array, address))
            return array, address

    def _has_room(self, size: int, alike: int) -> bool:
        """Return whether the pool may keep so many bytes more."""
        if alike >= MOST_ALIKE:
            return False
        if sum(pool.count_bytes() for pool in Pool._pools) + size > MOST_IDLE:
            for pool in Pool._pools:
                if pool is not self:
                    pool.clear()
        return alike == 0 or self.count_bytes() + size <= MOST_IDLE

    def count_bytes(self) -> int:
        """Return how many bytes the pool keeps."""
        return sum(a.nbytes for kept in self._kept.values() for a, _ in kept)

    def clear(self) -> None:
        """Let go of all arrays."""
        with Pool._lock:
            self._kept.clear()


def _renew_lock() -> None:
    """Take a new lock in the child of a fork: the old owner does not exist there."""
    Pool._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _is_as_made(array: Array, key: tuple[tuple[int, ...], np.dtype[Any]]) -> bool:
    """Return whether an array is unchanged and free to be used again."""
    return (
        array.shape == key[0]
        and array.dtype == key[1]
        and array.flags.carray
        and array.flags.owndata
        and weakref.getweakrefcount(array) == 0
    )


_count_references = getattr(sys, "getrefcount", lambda x: 0)


def _count_own() -> int:
    """Return how many references there are to an array that only a pool holds."""
    for array, _ in [(np.empty(1), 0)]:
        return int(_count_references(array))
    return 0


#: Where Python does not count references, no array is known to be free.
_OWN = _count_own() or -1


class Growth:
    """The memory of rows of which only the run knows how many there are.

    Attributes
    ----------
    states
        For each growing buffer where its rows lie, and how many bytes there are.
    """

    def __init__(self, count: int) -> None:
        self.states = np.zeros((count, 2), np.int64)

    def count_bytes(self) -> int:
        """Return the size in bytes."""
        return int(np.sum(self.states[:, 1]))

    def __del__(self) -> None:
        states = self.states.copy()
        self.states[...] = 0  # a run may still come, where a cycle is broken up
        for address, _ in states:
            if address:
                _free_memory(int(address))


def _free_memory(address: int) -> None:
    """Free memory from `realloc`."""
    place = find_address("free")
    assert place is not None
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(place)(address)


def take_block(pool: Pool, size: int) -> tuple[Array, int]:
    """Return a block of memory that begins at a line of the cache, and its address."""
    return align_block(*pool.take((size + steps.LINE,), _BYTE), size)


def align_block(whole: Array, address: int, size: int) -> tuple[Array, int]:
    """Return the part of an array that begins at a line of the cache; its address."""
    start = -address % steps.LINE
    return whole[start : start + size], address + start


_BYTE = np.dtype(np.uint8)


def read_view(view: View, base: Array) -> Array:
    """Return a view as an array, of the array that holds its buffer."""
    return np.ndarray(view.shape, np.dtype(view.kind), base, view.offset, view.strides)
