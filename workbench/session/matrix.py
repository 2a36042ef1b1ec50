"""`Matrix`: a matrix of derivatives, computed when and where it is needed.

Results for the whole matrix (its entries, singular values, eigenvalues) are computed
once and kept; windows and pooled views are computed each time and not kept.

A matrix too large for memory is computed block by block. A cell of a `PooledView`
stands for many entries and shows the one of largest magnitude, with its sign and its
position. NaN counts as larger than everything, then infinity: neither is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.autodiff.linear_map import BUDGET, Block, LinearMap, Mode, Span
from workbench.checks.progress import Progress
from workbench.core.blame import format_count
from workbench.errors import UsageError

Array = np.ndarray[Any, Any]

#: The most entries of an array in memory: a GiB of float64.
MOST_HELD = 2**27
#: The most entries that are computed for a view of the whole.
MOST_SEEN = 2**32
#: The most positions of entries that a pattern keeps.
MOST_PLACES = 2**25
#: The most multiplications, about, for singular values: a minute.
MOST_WORK = 3e10
#: The most overrides that a caption names.
MOST_NAMED = 6

Part = tuple[str, tuple[int, ...]]


class Matrix:
    """A matrix of derivatives with named entries.

    Attributes
    ----------
    title
        Its name, for errors: ``∂h / ∂W1``.
    row_parts, column_parts
        The names and shapes of the nodes whose entries count rows and columns.
    overrides
        The active overrides and where they run, ``stop at h``: with them it is not the
        true derivative.
    left_out
        Those that a true derivative leaves out.
    """

    def __init__(
        self,
        linear: LinearMap,
        row_parts: Sequence[Part],
        column_parts: Sequence[Part],
        title: str,
        mode: Mode | None = None,
        overrides: Sequence[str] = (),
        left_out: Sequence[str] = (),
    ) -> None:
        self.title = title
        self.overrides, self.left_out = tuple(overrides), tuple(left_out)
        self.row_parts = list(row_parts)
        self.column_parts = list(column_parts)
        self._linear = linear
        self._fixed_mode = mode
        self._entries: Any = None
        self._singular: Array | None = None
        self._pattern: Pattern | None = None

    # Its shape

    @property
    def rows(self) -> int:
        """The number of rows: the entries of the output."""
        return self._linear.row_starts[-1]

    @property
    def columns(self) -> int:
        """The number of columns: the entries of the inputs."""
        return self._linear.column_starts[-1]

    @property
    def caption(self) -> str:
        """The overrides as text, those in force or left out; empty without any."""
        named = self.overrides or self.left_out
        if not named:
            return ""
        first, more = named[:MOST_NAMED], len(named) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        word = "with" if self.overrides else "the true one, without"
        count = format_count(len(named), "override")
        return f"{word} {count}: {', '.join(first)}{rest}"

    @cached_property
    def zero_reason(self) -> str:
        """Why all entries are zero, if they are; empty where nothing can be said."""
        return ""

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self._linear.dtype

    @cached_property
    def mode(self) -> Mode:
        """The mode for all of it, ``"forward"`` or ``"reverse"``."""
        return self.choose_mode((0, self.rows), (0, self.columns))

    def choose_mode(self, rows: Span, columns: Span) -> Mode:
        """Return the mode for the entries of a window."""
        return self._fixed_mode or self._linear.choose_window_mode(rows, columns)

    def check_window(self, rows: Any, columns: Any) -> tuple[Span, Span]:
        """Check a window, None for all, and return it as two pairs of numbers.

        Raises
        ------
        UsageError
            If it is not a window, or reaches out of the matrix.
        """
        return (
            _check_span(rows, self.rows, "rows", self.title),
            _check_span(columns, self.columns, "columns", self.title),
        )

    # Its entries

    def window(
        self, rows: Any = None, columns: Any = None, progress: Progress | None = None
    ) -> Any:
        """Return some of the entries, by only the sweeps that they need.

        Parameters
        ----------
        rows, columns
            From and to (excluded), each a pair or a slice; None for all.
        progress
            Called with the sweeps done and all sweeps; if it returns true, it stops.

        Raises
        ------
        UsageError
            If the window reaches out of the matrix, or is too large for memory.
        """
        spans = self.check_window(rows, columns)
        if self._entries is not None:
            (a, b), (c, d) = spans
            found = self._entries[a:b, c:d]
            return found.copy()
        return self._compute_window(*spans, progress)

    @np.errstate(all="ignore")  # the program has warned already
    def _compute_window(
        self, rows: Span, columns: Span, progress: Progress | None
    ) -> Any:
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        if height * width > MOST_HELD:
            raise UsageError(
                f"{self.title} has {height:,} × {width:,} entries here, and an array"
                f" holds at most {MOST_HELD:,}. Ask for a window of it,"
                " .window((0, 100), (0, 100)), or for its picture, .plot(), which"
                " shows the largest entry of each block."
            )
        mode = self.choose_mode(rows, columns)
        return self._linear.matrix(rows, columns, mode, progress)

    def compute_all(self, progress: Progress | None = None) -> Any:
        """Return all entries, computed once and kept; callers must not change them."""
        if self._entries is None:
            spans = self.check_window(None, None)
            self._entries = self._compute_window(*spans, progress)
        return self._entries

    @property
    def matrix(self) -> Any:
        """All entries as a two-dimensional array.

        Raises
        ------
        UsageError
            If they are too many for memory.
        """
        return self.compute_all().copy()

    @np.errstate(all="ignore")
    def pool(
        self,
        rows: Span,
        columns: Span,
        blocks: tuple[int, int],
        progress: Progress | None = None,
    ) -> PooledView:
        """Return a view of a window with one entry for each block, the largest.

        Raises
        ------
        UsageError
            If the window has so many entries that this would take too long.
        """
        self._check_size(rows, columns)
        return PooledView(
            find_cell_starts(self._linear.row_starts, rows, blocks[0]),
            find_cell_starts(self._linear.column_starts, columns, blocks[1]),
            self._iterate_blocks(rows, columns, progress),
            self.dtype,
        )

    @np.errstate(all="ignore")
    def find_pattern(
        self,
        rows: Span | None = None,
        columns: Span | None = None,
        blocks: tuple[int, int] = (1, 1),
        progress: Progress | None = None,
    ) -> Pattern:
        """Return the pattern of nonzero entries of a window, counted block by block."""
        rows, columns = self.check_window(rows, columns)
        self._check_size(rows, columns)
        return Pattern(
            find_cell_starts(self._linear.row_starts, rows, blocks[0]),
            find_cell_starts(self._linear.column_starts, columns, blocks[1]),
            self._iterate_blocks(rows, columns, progress),
        )

    def _iterate_blocks(
        self, rows: Span, columns: Span, progress: Progress | None
    ) -> Any:
        """Return the blocks of a window, from the kept array where there is one."""
        if rows[0] == rows[1] or columns[0] == columns[1]:
            return ()
        if self._entries is None:
            mode = self.choose_mode(rows, columns)
            return self._linear.windows(rows, columns, mode, progress)
        step = max(1, BUDGET // (16 * (columns[1] - columns[0])))
        kept = self._entries[slice(*rows), slice(*columns)]
        return (
            Block(rows[0] + k, columns[0], kept[k : k + step])
            for k in range(0, len(kept), step)
        )

    def _check_size(self, rows: Span, columns: Span) -> None:
        height, width = rows[1] - rows[0], columns[1] - columns[0]
        if height * width > MOST_SEEN:
            raise UsageError(
                f"{self.title} has {height:,} × {width:,} entries, and at most"
                f" {MOST_SEEN:,} are computed for one view. Give a window, as"
                f" window=((0, 1000), (0, 1000)), or choose a smaller node or fewer"
                " variables."
            )

    # Results for the whole matrix

    def compute_decomposable(self, progress: Progress | None = None) -> Array:
        """Return all entries in main memory, for a decomposition.

        Raises
        ------
        UsageError
            If they are too many, or one is not finite.
        """
        small, large = sorted((self.rows, self.columns))
        if float(small) ** 2 * large > MOST_WORK:
            raise UsageError(
                f"{self.title} is a {self.rows:,} × {self.columns:,} matrix: its"
                " decomposition would take minutes, and nothing could stop it. Choose"
                " a smaller node or fewer variables, or decompose a .window of it."
            )
        if self._entries is None:  # entries are not kept, only their decomposition
            spans = self.check_window(None, None)
            entries = to_host(self._compute_window(*spans, progress))
        else:
            entries = to_host(self._entries)
        bad = entries.size - int(np.count_nonzero(np.isfinite(entries)))
        if bad:
            i, j = map(int, np.argwhere(~np.isfinite(entries))[0])
            raise UsageError(
                f"{self.title} has {bad:,} {'entry' if bad == 1 else 'entries'} that"
                f" {'is' if bad == 1 else 'are'} not finite, the first {entries[i, j]}"
                f" in row {i}, column {j}: it has no singular values or eigenvalues."
                " Plot it as a heat map, and call session.diagnose() to find where"
                " they come from."
            )
        return entries

    @property
    def singular_values(self) -> Array:
        """The singular values, largest first, in at least float64.

        Raises
        ------
        UsageError
            If the matrix is too large, or an entry is not finite.
        """
        return self.compute_singular_values().copy()

    def compute_singular_values(self, progress: Progress | None = None) -> Array:
        """Return `singular_values`, computed once."""
        if self._singular is None:
            found = self.compute_decomposable(progress)
            wide = found.astype(np.result_type(found.dtype, np.float64))
            self._singular = (
                np.linalg.svd(wide, compute_uv=False)
                if found.size
                else np.zeros(0)  # host array: there is no entry
            )
        return self._singular

    @property
    def tolerance(self) -> float:
        """The limit below which a singular value counts as zero.

        It is the largest one times the longer side times the machine epsilon of the
        dtype (Golub and Van Loan, Matrix Computations, section 5.4.1).
        """
        found = self.compute_singular_values()
        if not found.size:
            return 0.0
        epsilon = np.finfo(self.dtype).eps
        return float(found[0] * max(self.rows, self.columns) * epsilon)

    @property
    def rank(self) -> int:
        """The number of singular values above `tolerance`."""
        return int(np.count_nonzero(self.compute_singular_values() > self.tolerance))

    @property
    def condition(self) -> float:
        """The largest singular value by the smallest; infinity where that is 0."""
        found = self.compute_singular_values()
        if not found.size:
            return float("nan")
        return float(found[0] / found[-1]) if found[-1] else float("inf")

    @property
    def sparsity(self) -> Any:
        """The nonzero entries as a `scipy.sparse.csr_array` of booleans.

        Raises
        ------
        UsageError
            If there are too many of them.
        """
        from scipy import sparse

        if self._pattern is None:
            # One cell for all: only the positions are needed.
            self._pattern = self.find_pattern(
                blocks=(self.rows or 1, self.columns or 1)
            )
        places = self._pattern.places
        if places is None:
            raise UsageError(
                f"{self.title} has {self._pattern.total:,} entries that are not zero:"
                " it is dense. Use .plot() or a window."
            )
        true = np.ones(len(places[0]), bool)  # host array: SciPy's
        return sparse.csr_array((true, places), shape=(self.rows, self.columns))


def _check_span(span: Any, size: int, what: str, title: str) -> Span:
    """Check where a window begins and ends, and return it."""
    if span is None:
        return 0, size
    if isinstance(span, slice):
        if span.step not in (None, 1):
            raise UsageError(f"{title}: {what}={span} has a step; a window has none.")
        span = (
            0 if span.start is None else span.start,
            size if span.stop is None else span.stop,
        )
    try:
        begin, end = span
        are_integers = [isinstance(x, (int, np.integer)) for x in (begin, end)]
        if not all(are_integers) or isinstance(begin, bool) or isinstance(end, bool):
            raise TypeError
    except (TypeError, ValueError):
        raise UsageError(
            f"{title}: {what}={span!r} is not a part of a matrix. Write where it"
            f" begins and ends: {what}=(0, {min(size, 100)})."
        ) from None
    if not 0 <= begin < end <= size and (begin, end) != (0, size):
        raise UsageError(
            f"{title}: {what}=({begin}, {end}) lies outside the matrix, which has"
            f" {size:,} {what if size != 1 else what[:-1]}. A window begins at 0 or"
            f" later, is not empty, and ends at {size:,} or before."
        )
    return int(begin), int(end)


# A matrix seen block by block


def to_host(array: Any) -> Array:
    """Return an array in main memory."""
    found = array.get() if hasattr(array, "get") else array
    return np.asarray(found)  # host array: figures are drawn from main memory


def find_cell_starts(
    edges: Sequence[int], window: tuple[int, int], block: int
) -> list[int]:
    """Return the first entry of each cell, and the end: no cell reaches over an edge.

    >>> find_cell_starts([0, 5, 8], (1, 8), 2)
    [1, 3, 5, 7, 8]
    """
    found: list[int] = []
    for begin, end in pairwise(edges):
        found += range(max(begin, window[0]), min(end, window[1]), block)
    return [*found, window[1]]


class _Cells:
    """The grid of cells that the entries of blocks fall into."""

    def __init__(self, rows: Sequence[int], columns: Sequence[int]) -> None:
        self.starts = np.array(rows), np.array(columns)  # host array: of indices
        self.shape = len(rows) - 1, len(columns) - 1

    def _find_cells(self, axis: int, first: int, count: int) -> tuple[slice, Array]:
        """Return the cells that a run of entries touches, and where each begins."""
        starts = self.starts[axis]
        low = int(np.searchsorted(starts, first, "right")) - 1
        high = int(np.searchsorted(starts, first + count, "left"))
        return slice(low, high), np.maximum(starts[low:high] - first, 0)


class PooledView(_Cells):
    """The entry of largest magnitude of each cell.

    Attributes
    ----------
    values
        The entries, one per cell.
    positions
        The row and the column of each.
    zeros, bad
        The number of entries that are zero, and that are NaN or infinite.

    Examples
    --------
    >>> import numpy as np
    >>> entries = np.array([[1.0, -3.0, 0.0], [2.0, 0.0, np.nan]])
    >>> found = PooledView([0, 2], [0, 2, 3], [Block(0, 0, entries)])
    >>> found.values, found.positions[0].tolist(), found.zeros, found.bad
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
        self.positions = (
            np.repeat(self.starts[0][:-1, None], self.shape[1], 1),
            np.repeat(self.starts[1][None, :-1], self.shape[0], 0),
        )
        self._keys = np.full(self.shape, -1.0)  # host array: a figure's
        self.zeros = self.bad = self.size = 0
        for block in blocks:
            self._add_block(block.row, block.column, to_host(block.entries))

    def _add_block(self, row: int, column: int, entries: Array) -> None:
        self.size += entries.size
        self.zeros += int(np.count_nonzero(entries == 0))
        finite = np.isfinite(entries)
        self.bad += entries.size - int(np.count_nonzero(finite))
        down, tops = self._find_cells(0, row, entries.shape[0])
        over, lefts = self._find_cells(1, column, entries.shape[1])
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
        found = [
            x[::-1] for x in np.nonzero(chosen)
        ]  # so that the first of equals wins
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
            (self.positions[0], at_row + row),
            (self.positions[1], at_column + column),
        ):
            kept[down, over] = np.where(better, new, kept[down, over])


class Pattern(_Cells):
    """The pattern of entries that are not exactly zero, with counts by cell.

    NaN is not zero.

    Attributes
    ----------
    counts
        The number of entries of each cell that are not zero.
    places
        The rows and the columns of all of them; None where they are too many.
    below, above
        How far they reach below and above the diagonal.
    """

    def __init__(
        self, rows: Sequence[int], columns: Sequence[int], blocks: Iterable[Block]
    ) -> None:
        super().__init__(rows, columns)
        self.counts = np.zeros(self.shape, np.int64)  # host array: a figure's
        self.total = self.size = self.below = self.above = 0
        entry_places: list[tuple[Array, Array]] = []
        for block in blocks:
            entries = to_host(block.entries) != 0
            self.size += entries.size
            down, tops = self._find_cells(0, block.row, entries.shape[0])
            over, lefts = self._find_cells(1, block.column, entries.shape[1])
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
                entry_places = []
            else:
                entry_places.append(
                    (at_row.astype(np.int32), at_column.astype(np.int32))
                )
        self.places: tuple[Array, Array] | None = None
        if self.total <= MOST_PLACES:
            none = np.zeros(0, np.int32)  # host array: of indices
            self.places = (
                np.concatenate([none, *[a for a, _ in entry_places]]),
                np.concatenate([none, *[b for _, b in entry_places]]),
            )
