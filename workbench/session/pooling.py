"""Matrices too large to hold, seen block by block: pooled, and their patterns.

A cell of a pooled matrix stands for many entries and shows that of largest
magnitude, with its sign and its place. NaN is larger than everything, then infinity:
neither is ever hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.session.sweeping import Block

__all__ = ["Pattern", "Pooled", "host", "starts_of"]

Array = np.ndarray[Any, Any]

#: The most places of entries that a pattern keeps.
MOST_PLACES = 2**25


def host(array: Any) -> Array:
    """An array in main memory."""
    found = array.get() if hasattr(array, "get") else array
    return np.asarray(found)  # host array: figures are drawn from main memory


def starts_of(edges: Sequence[int], window: tuple[int, int], block: int) -> list[int]:
    """The first entry of each cell, and the end: no cell reaches over an edge.

    >>> starts_of([0, 5, 8], (1, 8), 2)
    [1, 3, 5, 7, 8]
    """
    found: list[int] = []
    for begin, end in pairwise(edges):
        found += range(max(begin, window[0]), min(end, window[1]), block)
    return [*found, window[1]]


class _Cells:
    """Where the entries of a block fall."""

    def __init__(self, rows: Sequence[int], columns: Sequence[int]) -> None:
        self.starts = np.array(rows), np.array(columns)  # host array: of indices
        self.shape = len(rows) - 1, len(columns) - 1

    def _along(self, axis: int, first: int, count: int) -> tuple[slice, Array]:
        """The cells that a run of entries touches, and where each begins in it."""
        starts = self.starts[axis]
        low = int(np.searchsorted(starts, first, "right")) - 1
        high = int(np.searchsorted(starts, first + count, "left"))
        return slice(low, high), np.maximum(starts[low:high] - first, 0)


class Pooled(_Cells):
    """The entry of largest magnitude of each cell.

    Attributes
    ----------
    values
        The entries, one per cell.
    at
        The row and the column of each.
    zeros, bad
        How many of all entries are zero, and how many NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> entries = np.array([[1.0, -3.0, 0.0], [2.0, 0.0, np.nan]])
    >>> found = Pooled([0, 2], [0, 2, 3], [Block(0, 0, entries)])
    >>> found.values, found.at[0].tolist(), found.zeros, found.bad
    (array([[-3., nan]]), [[0, 1]], 2, 1)
    """

    def __init__(
        self,
        rows: Sequence[int],
        columns: Sequence[int],
        blocks: Iterable[Block],
        dtype: Any = np.float64,
    ) -> None:
        super().__init__(rows, columns)
        self.values = np.zeros(self.shape, dtype)  # host array: a figure's
        self.at = (
            np.repeat(self.starts[0][:-1, None], self.shape[1], 1),
            np.repeat(self.starts[1][None, :-1], self.shape[0], 0),
        )
        self._keys = np.full(self.shape, -1.0)  # host array: a figure's
        self.zeros = self.bad = self.size = 0
        for block in blocks:
            self._add(block.row, block.column, host(block.entries))

    def _add(self, row: int, column: int, entries: Array) -> None:
        self.size += entries.size
        self.zeros += int(np.count_nonzero(entries == 0))
        finite = np.isfinite(entries)
        self.bad += entries.size - int(np.count_nonzero(finite))
        down, tops = self._along(0, row, entries.shape[0])
        over, lefts = self._along(1, column, entries.shape[1])
        with np.errstate(all="ignore"):
            keys = np.abs(entries).astype(np.float64, copy=False)
        largest = np.maximum.reduceat(keys, lefts, axis=1)
        largest = np.maximum.reduceat(largest, tops, axis=0)
        heights = np.diff(tops, append=entries.shape[0])
        widths = np.diff(lefts, append=entries.shape[1])
        spread = np.repeat(np.repeat(largest, heights, 0), widths, 1)
        chosen = (keys == spread) & (keys > 0)
        if not finite.all():
            chosen |= np.isnan(keys)
        at_row = np.repeat(tops[:, None], len(lefts), 1)
        at_column = np.repeat(lefts[None, :], len(tops), 0)
        found = [x[::-1] for x in np.nonzero(chosen)]  # the first of equals is last
        cells = (
            np.searchsorted(tops, found[0], "right") - 1,
            np.searchsorted(lefts, found[1], "right") - 1,
        )
        at_row[cells], at_column[cells] = found
        old = self._keys[down, over]
        better = (largest > old) | (np.isnan(largest) & ~np.isnan(old))
        self._keys[down, over] = np.where(better, largest, old)
        for kept, new in (
            (self.values, entries[at_row, at_column]),
            (self.at[0], at_row + row),
            (self.at[1], at_column + column),
        ):
            kept[down, over] = np.where(better, new, kept[down, over])


class Pattern(_Cells):
    """Which entries are not exactly zero, counted in each cell. NaN is not zero.

    Attributes
    ----------
    counts
        How many entries of each cell are not zero.
    places
        The rows and the columns of all of them; None where they are too many.
    below, above
        How far they reach from the diagonal.
    """

    def __init__(
        self, rows: Sequence[int], columns: Sequence[int], blocks: Iterable[Block]
    ) -> None:
        super().__init__(rows, columns)
        self.counts = np.zeros(self.shape, np.int64)  # host array: a figure's
        self.total = self.size = self.below = self.above = 0
        kept: list[tuple[Array, Array]] = []
        for block in blocks:
            entries = host(block.entries) != 0
            self.size += entries.size
            down, tops = self._along(0, block.row, entries.shape[0])
            over, lefts = self._along(1, block.column, entries.shape[1])
            counts = np.add.reduceat(entries, lefts, axis=1, dtype=np.int64)
            self.counts[down, over] += np.add.reduceat(counts, tops, axis=0)
            at_row, at_column = np.nonzero(entries)
            self.total += len(at_row)
            if not len(at_row):
                continue
            at_row, at_column = at_row + block.row, at_column + block.column
            away = at_row - at_column
            self.below = max(self.below, int(away.max()))
            self.above = max(self.above, int(-away.min()))
            if self.total > MOST_PLACES:
                kept = []
            else:
                kept.append((at_row.astype(np.int32), at_column.astype(np.int32)))
        self.places: tuple[Array, Array] | None = None
        if self.total <= MOST_PLACES:
            none = np.zeros(0, np.int32)  # host array: of indices
            self.places = (
                np.concatenate([none, *[a for a, _ in kept]]),
                np.concatenate([none, *[b for _, b in kept]]),
            )
