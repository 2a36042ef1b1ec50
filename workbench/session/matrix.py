"""`Matrix`: a matrix of derivatives, computed when and where it is needed.

Results for the whole matrix (its entries, singular values, eigenvalues) are computed
once and kept; windows and pooled views are computed each time and not kept.

A matrix too large for memory is computed block by block. A cell of a `PooledView`
stands for many entries and shows the one of largest magnitude, with its sign and its
position. NaN counts as larger than everything, then infinity: neither is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.autodiff.linear_map import (
    BUDGET,
    NO_RULE,
    Block,
    LinearMap,
    Mode,
    Span,
)
from workbench.autodiff.sparse.colouring import Colouring
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.checks.progress import Progress
from workbench.checks.statistics import to_host
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor
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
        """The mode for the whole matrix, ``"forward"`` or ``"reverse"``."""
        return self.choose_mode((0, self.rows), (0, self.columns))

    def choose_mode(self, rows: Span, columns: Span) -> Mode:
        """Return the mode for the entries of a window."""
        return self._fixed_mode or self._linear.choose_window_mode(rows, columns)

    def check_window(self, rows: Any, columns: Any) -> tuple[Span, Span]:
        """Check a window, None for all, and return two pairs of numbers.

        Raises
        ------
        UsageError
            If it is not a window, or reaches out of the matrix.
        """
        return (
            check_span(rows, self.rows, "rows", self.title),
            check_span(columns, self.columns, "columns", self.title),
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
    ) -> PooledPattern:
        """Return the places of `sparsity` in a window, counted by cell.

        With overrides in force only that window is computed.
        """
        rows, columns = self.check_window(rows, columns)
        starts = (
            find_cell_starts(self._linear.row_starts, rows, blocks[0]),
            find_cell_starts(self._linear.column_starts, columns, blocks[1]),
        )
        if self.has_structure:
            return PooledPattern(*starts, [find_places(self.sparsity, rows, columns)])
        self._check_size(rows, columns)
        found = self._iterate_blocks(rows, columns, progress)
        return PooledPattern(*starts, list_nonzeros(found))

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

    @property
    def is_decomposable(self) -> bool:
        """Whether a decomposition of all entries takes a minute at most."""
        small, large = sorted((self.rows, self.columns))
        return float(small) ** 2 * large <= MOST_WORK

    def compute_decomposable(self, progress: Progress | None = None) -> Array:
        """Return all entries in main memory, for a decomposition.

        Raises
        ------
        UsageError
            If they are too many, or one is not finite.
        """
        if not self.is_decomposable:
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

    # Its structure

    @property
    def has_structure(self) -> bool:
        """True if the pattern follows from the program: no override is in force."""
        return not self.overrides

    @property
    def is_symmetric(self) -> bool:
        """True if each entry equals its mirror image, by structure."""
        return False

    @cached_property
    def sparsity(self) -> SparsityPattern:
        """The entries that can differ from zero, found from the program alone.

        Nothing is computed, and the pattern holds for all values of the inputs.
        Only with overrides in force, whose rules may read anything, are the
        entries computed and those counted that are not zero now.

        Raises
        ------
        UsageError
            With overrides in force, if there are too many of them.
        """
        shape = self.rows, self.columns
        if 0 in shape:
            return SparsityPattern(shape, [], [])
        if self.has_structure:
            return self._find_structure()
        found = self.find_pattern(blocks=shape)
        if found.places is None:
            raise UsageError(
                f"{self.title} has {found.total:,} entries that are not zero: it is"
                " dense. Use .plot() or a window."
            )
        return SparsityPattern(shape, *found.places)

    def _find_structure(self) -> SparsityPattern:
        """Return where entries can differ from zero, of a matrix that has some."""
        raise NotImplementedError

    @cached_property
    def colouring(self) -> Colouring:
        """The colours of `sparsity`: one product for each gives all entries."""
        if self.is_symmetric:
            return self.sparsity.colouring(symmetric=True)
        return self.sparsity.colouring()

    @np.errstate(all="ignore")
    def to_scipy(self, format: str = "csr") -> Any:
        """Return the entries of `sparsity` as a sparse array of SciPy.

        They are computed by one product for each colour of `colouring`; zeros among
        them are kept, so that the structure is the same for all values.

        Parameters
        ----------
        format
            ``"csr"``, ``"csc"`` or ``"coo"``.
        """
        pattern = self.sparsity
        try:
            entries = self._compute_compressed()
        except NO_RULE:  # one of the rules is for one mode only
            entries = None
        if entries is None:
            entries = to_host(self.compute_all())[pattern.rows, pattern.columns]
        made = pattern.to_scipy("csr").astype(entries.dtype)
        made.data = entries
        return made.asformat(format)

    def _compute_compressed(self) -> Array | None:
        """Return the entries of `sparsity` by one product for each colour.

        None where a product is not a sum of columns: complex numbers, another device.
        """
        linear = self._linear
        ends = [x for x in (*linear.outputs, *linear.wrt) if isinstance(x, Tensor)]
        host = all(isinstance(x._value, np.ndarray | np.generic) for x in ends)
        if self.dtype.kind != "f" or not host or not self.sparsity.nnz:
            return None
        columns, rows = self.colouring.seeds(self.dtype)
        products = [
            None
            if seeds is None
            else [self._multiply(vector, sweep, *sides) for vector in seeds]
            for seeds, sweep, sides in (
                (columns, linear.push, (self.column_parts, self.row_parts)),
                (rows, linear.pull, (self.row_parts, self.column_parts)),
            )
        ]
        found = [None if x is None else np.array(x, self.dtype) for x in products]
        return np.asarray(self.colouring.decompress(*found))

    def _multiply(
        self,
        vector: Array,
        sweep: Callable[[list[Array]], list[Any]],
        given: Sequence[Part],
        wanted: Sequence[Part],
    ) -> Array:
        """Return the product with a vector of one side, as a vector of the other."""
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in given]
        pieces = np.split(vector, np.cumsum(sizes)[:-1])
        made = sweep(
            [x.reshape(shape) for x, (_, shape) in zip(pieces, given, strict=True)]
        )
        return np.concatenate(
            [
                np.zeros(shape).reshape(-1) if x is None else np.reshape(x, (-1,))
                for x, (_, shape) in zip(made, wanted, strict=True)
            ]
        )


def find_places(
    pattern: SparsityPattern, rows: Span, columns: Span
) -> tuple[Array, Array]:
    """Return the rows and the columns of the places of a pattern in a window."""
    part = slice(pattern.indptr[rows[0]], pattern.indptr[rows[1]])
    at_row, at_column = pattern.rows[part], pattern.columns[part]
    if columns == (0, pattern.shape[1]):
        return at_row, at_column
    inside = (at_column >= columns[0]) & (at_column < columns[1])
    return at_row[inside], at_column[inside]


def check_span(span: Any, size: int, what: str, title: str) -> Span:
    """Check the start and the end of a window, and return both."""
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


class PooledPattern(_Cells):
    """Where entries are that are not zero, or can be, with counts by cell.

    Attributes
    ----------
    counts
        The number of them in each cell.
    total, size
        The number of all of them, and of all entries of the cells.
    below, above
        How far they reach below and above the diagonal.
    places
        The rows and the columns of all of them; None where they are too many.

    Examples
    --------
    >>> import numpy as np
    >>> places = np.array([0, 1, 1]), np.array([0, 2, 3])
    >>> PooledPattern([0, 2], [0, 2, 4], [places]).counts
    array([[1, 2]])
    """

    def __init__(
        self,
        rows: Sequence[int],
        columns: Sequence[int],
        parts: Iterable[tuple[Array, Array]],
    ) -> None:
        super().__init__(rows, columns)
        down, over = self.starts
        self.size = int((down[-1] - down[0]) * (over[-1] - over[0]))
        counts = np.zeros(self.shape[0] * self.shape[1], np.int64)
        self.total = self.below = self.above = 0
        kept: list[tuple[Array, Array]] = []
        for at_row, at_column in parts:
            self.total += len(at_row)
            if not len(at_row):
                continue
            cells = (np.searchsorted(down, at_row, "right") - 1) * self.shape[1]
            cells += np.searchsorted(over, at_column, "right") - 1
            counts += np.bincount(cells, minlength=len(counts))
            away = at_row.astype(np.int64) - at_column
            self.below = max(self.below, int(away.max()))
            self.above = max(self.above, int(-away.min()))
            if self.total > MOST_PLACES:
                kept = []
            else:
                kept.append((at_row.astype(np.int32), at_column.astype(np.int32)))
        self.counts = counts.reshape(self.shape)
        self.places: tuple[Array, Array] | None = None
        if self.total <= MOST_PLACES:
            none = np.zeros(0, np.int32)  # host array: of indices
            self.places = (
                np.concatenate([none, *[a for a, _ in kept]]),
                np.concatenate([none, *[b for _, b in kept]]),
            )


def list_nonzeros(blocks: Iterable[Block]) -> Iterator[tuple[Array, Array]]:
    """Return the rows and columns of the entries that are not zero; NaN is not."""
    for block in blocks:
        at_row, at_column = np.nonzero(to_host(block.entries))
        yield at_row + block.row, at_column + block.column
