"""Colourings of sparsity patterns: how few products give all entries of a matrix.

The product of a Jacobian with the sum of some unit vectors is the sum of those
columns. Where no two of them have an entry in one row, each entry of the sum is one
entry of the matrix. So columns get colours, one product for each colour, and index
arrays that are computed once tell where each entry stands in the products.

A Hessian is symmetric: each entry may be read from the row or from the column, which
needs fewer colours (star colouring). In a matrix with full rows and full columns some
entries are read from products with columns, the others from products with rows.
(Fewer still do where entries are computed one from the other, acyclic colouring: on
stencils and meshes that takes longer than the products that it saves.)

Curtis, Powell, Reid, "On the estimation of sparse Jacobian matrices", 1974; Coleman,
Verma, "The efficient computation of sparse Jacobian matrices using automatic
differentiation", 1998; Gebremedhin, Manne, Pothen, "What color is your Jacobian?",
2005; Gebremedhin, Tarafdar, Manne, Pothen, "New acyclic and star coloring algorithms
with application to computing Hessians", 2007.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.autodiff.sparse.greedy import (
    HEAVY,
    LONG_ROW,
    assign_columns,
    assign_star,
    order_by_degrees_left,
    run_loop,
)
from workbench.autodiff.sparse.places import Places
from workbench.core.blame import format_count
from workbench.errors import ShapeError, UsageError
from workbench.ops.sparse.pattern import match_library

Integers = npt.NDArray[np.signedinteger[Any]]
ColouringMode = Literal["columns", "rows", "both", "star"]

#: The modes that are for any matrix.
GENERAL = "columns", "rows", "both"
#: In which order vertices get their colours; each the smallest that it may have.
ORDERS = "auto", "natural", "largest_first", "smallest_last"
#: A pattern with more entries in a row than that is no stencil.
MOST_IN_STENCIL = 40
#: More colours than that, for more than half of the vertices, are left as they are.
MANY_COLOURS = 200
#: Counts of so many cells at most are made in one array.
MOST_CELLS = 2**26
#: With so many entries at most, colours of rows and columns together are always tried.
SMALL = 10_000


def colour(
    pattern: Places,
    mode: str = "auto",
    order: str = "auto",
    *,
    symmetric: bool = False,
) -> Colouring:
    """Return a colouring of a pattern, from which each entry can be read.

    Parameters
    ----------
    pattern
        Of a Jacobian, or of a Hessian.
    mode
        What gets colours: ``"columns"`` (for products J v), ``"rows"`` (for products
        with the transpose), ``"both"`` (some entries are read from the first, the
        others from the second) or ``"star"`` (for a symmetric matrix); ``"auto"`` takes
        the one with the fewest colours, a product with the transpose counted as two.
    order
        In which order the greedy colouring goes: ``"natural"``, ``"largest_first"`` or
        ``"smallest_last"``. ``"auto"`` first tries colours that repeat with a period,
        which are best for stencils, then the largest first and the smallest last, of
        which it takes the fewer colours, those of columns given a second time from the
        last colour to the first; of trees a star colouring gets the colours of their
        depths, and of other matrices those of the columns where they are fewer.
    symmetric
        With ``mode="auto"``: the matrix is a symmetric one, and gets a star colouring.

    Raises
    ------
    UsageError
        If there is no such mode or order.
    ShapeError
        If a symmetric matrix is meant, and the pattern is none of one.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> arrow = np.eye(5)
    >>> arrow[0] = arrow[:, 0] = 1
    >>> pattern = wb.SparsityPattern.from_scipy(arrow)
    >>> colour(pattern, "columns").count, colour(pattern, "both").count
    (5, 3)
    >>> colour(pattern, symmetric=True).colours
    array([0, 1, 1, 1, 1], dtype=int32)
    """
    if mode not in ("auto", *GENERAL, "star"):
        raise UsageError(
            f"there is no colouring {mode!r}. Write 'columns', 'rows' or 'both', of a"
            " symmetric matrix 'star', or 'auto' for the fewest products."
        )
    if order not in ORDERS:
        raise UsageError(
            f"there is no order {order!r} of colouring. Write one of"
            f" {', '.join(map(repr, ORDERS))}."
        )
    if symmetric and mode in GENERAL:
        raise UsageError(
            f"mode={mode!r} does not use that the matrix is symmetric. Write 'star', or"
            " leave symmetric=True out."
        )
    if symmetric or mode == "star":
        if pattern.shape[0] != pattern.shape[1] or pattern != pattern.T:
            raise ShapeError(
                f"{pattern!r} is not the pattern of a symmetric matrix, which a star"
                " colouring needs: for each place (i, j) it has (j, i)."
                " Write pattern | pattern.T, or colour its columns."
            )
        return _colour_symmetric(pattern, order)
    if mode == "columns":
        return _colour_columns(pattern, order)
    if mode == "rows":
        return _colour_rows(pattern, order)
    if mode == "both":
        return _colour_both(pattern, order)
    return _choose_colouring(pattern, order)


class Colouring:
    """Colours of the columns, the rows or both of a pattern, and how to read entries.

    Attributes
    ----------
    pattern : SparsityPattern
        What was coloured.
    mode : str
        ``"columns"``, ``"rows"``, ``"both"`` or ``"star"``.
    order : str
        The order in which colours were given; ``"periodic"`` for a stencil's,
        ``"depth"`` for a star colouring of trees.
    column_colours, row_colours : (columns,) and (rows,) arrays of int, or None
        The colour of each, -1 for one that no product needs. None where they have
        none.
    column_count, row_count : int
        The numbers of colours: of products J v, and of products with the transpose.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> pattern = wb.SparsityPattern.from_scipy(np.eye(4) + np.eye(4, k=1))
    >>> pattern.colouring()
    <Colouring of columns: 2 colours for 4×4, 7 nonzeros>
    >>> pattern.colouring().seeds()[0]
    array([[1., 0., 1., 0.],
           [0., 1., 0., 1.]])
    """

    def __init__(
        self,
        pattern: Places,
        mode: ColouringMode,
        order: str,
        column_colours: Integers | None,
        row_colours: Integers | None = None,
    ) -> None:
        self.pattern = pattern
        self.mode = mode
        self.order = order
        self.column_colours = column_colours
        self.row_colours = row_colours
        self.column_count = _count_colours(column_colours)
        self.row_count = _count_colours(row_colours)

    @property
    def count(self) -> int:
        """The number of colours, those of rows and columns together."""
        return self.column_count + self.row_count

    @property
    def colours(self) -> Integers:
        """The colour of each column, or row; of both those of the rows come first.

        In the mode ``"both"`` the colours of the columns follow those of the rows:
        no row has the colour of a column.
        """
        if self.column_colours is None:
            assert self.row_colours is not None
            return self.row_colours
        if self.row_colours is None:
            return self.column_colours
        shifted = np.where(
            self.column_colours < 0, -1, self.column_colours + self.row_count
        )
        return np.concatenate([self.row_colours, shifted.astype(np.int32)])

    def seeds(self, dtype: Any = float) -> tuple[Any, Any]:
        """Return the vectors to multiply with: of columns, and of rows; None for none.

        Each is of shape ``(colours, columns)`` or ``(colours, rows)``: 1 where a column
        or row has the colour.
        """
        return (
            _make_seeds(self.column_colours, self.column_count, dtype),
            _make_seeds(self.row_colours, self.row_count, dtype),
        )

    def __repr__(self) -> str:
        what = {"both": "rows and columns", "star": "a symmetric matrix"}
        height, width = self.pattern.shape
        return (
            f"<Colouring of {what.get(self.mode, self.mode)}:"
            f" {format_count(self.count, 'colour')} for {height}×{width},"
            f" {format_count(self.pattern.nnz, 'nonzero')}>"
        )

    # Reading entries

    @cached_property
    def index(self) -> npt.NDArray[np.intp]:
        """The flat index into the products for each place of the pattern.

        The products J v come first, one after the other, then those with the
        transpose.
        """
        return _READERS[self.mode](self)

    def decompress(
        self, columns: Any = None, rows: Any = None, *, order: Any = None
    ) -> Any:
        """Return the entries of the matrix at the places of the pattern.

        Parameters
        ----------
        columns
            The products with the seeds of the columns, of shape ``(colours, rows)``.
        rows
            The products of the transpose with those of the rows, of shape
            ``(colours, columns)``.
        order
            Which entry of the pattern comes where, such as ``pattern.csc[2]``; by
            default as in the pattern: by row, then by column.

        Returns
        -------
        One array of ``pattern.nnz`` entries.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> matrix = np.diag([1.0, 2.0, 3.0]) + np.diag([4.0, 5.0], 1)
        >>> colouring = wb.SparsityPattern.from_scipy(matrix).colouring()
        >>> colouring.decompress(colouring.seeds()[0] @ matrix.T)
        array([1., 4., 2., 5., 3.])
        """
        parts = [np.reshape(x, (-1,)) for x in (columns, rows) if x is not None]
        if not self.pattern.nnz:
            return np.zeros_like(parts[0], shape=(0,)) if parts else np.zeros(0)
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        index = self.index if order is None else self.index[order]
        return np.take(flat, match_library(index, flat))


def _count_colours(colours: Integers | None) -> int:
    return 0 if colours is None or not len(colours) else int(colours.max()) + 1


def _make_seeds(colours: Integers | None, count: int, dtype: Any) -> Any:
    if colours is None:
        return None
    seeds = np.zeros((count, len(colours)), dtype)
    used = np.flatnonzero(colours >= 0)
    seeds[colours[used], used] = 1
    return seeds


# Columns, rows, both


def _colour_columns(pattern: Places, order: str) -> Colouring:
    found, order = _group_columns(pattern, order)
    return Colouring(pattern, "columns", order, found)


def _colour_rows(pattern: Places, order: str) -> Colouring:
    found, order = _group_columns(pattern.T, order)
    return Colouring(pattern, "rows", order, None, found)


def _choose_colouring(pattern: Places, order: str) -> Colouring:
    """Return the colouring with the cheapest products."""
    height, width = pattern.shape
    # Columns with an entry in one row need as many colours, whatever the order.
    most_in_row = int(np.diff(pattern.indptr).max(initial=0))
    most_in_column = int(np.bincount(pattern.indices, minlength=1).max(initial=0))
    typical = pattern.nnz / max(min(height, width), 1)
    best: Colouring | None = None
    least = min(most_in_row, most_in_column)
    # Where nothing stands out, two sides seldom help: not looked for in large ones.
    if least > 4 * typical + 8 or (least > 3 and pattern.nnz <= SMALL):
        best = _colour_both(pattern, order)
    bounds = [(most_in_row, 1, _colour_columns), (2 * most_in_column, 2, _colour_rows)]
    for bound, _, make in sorted(bounds, key=lambda x: x[0]):
        # Of two that cost the same, the one that has but one side.
        limit = np.inf if best is None else _cost(best) + (best.mode == "both")
        if bound < limit:
            found = make(pattern, order)
            if _cost(found) < limit:
                best = found
    assert best is not None
    return best


def _cost(colouring: Colouring) -> int:
    """Return the cost of the products: one in reverse mode counts as two forward."""
    return colouring.column_count + 2 * colouring.row_count


def _group_columns(pattern: Places, order: str) -> tuple[Integers, str]:
    """Return colours of the columns, no two of one colour with an entry in one row."""
    width = pattern.shape[1]
    most = int(np.diff(pattern.indptr).max(initial=0))
    if most == width:  # the columns of a full row have different colours
        return np.arange(width, dtype=np.int32), "natural"
    period = None
    if order == "auto":
        counts = np.sort(np.bincount(pattern.columns, minlength=width))
        if width > 1 and counts[0] + counts[1] > pattern.shape[0]:
            # Any two columns have an entry in one row: there is no room for both.
            return np.arange(width, dtype=np.int32), "natural"
        period = find_period(pattern)
        if period is not None and period <= most + 1:
            return np.arange(width, dtype=np.int32) % max(period, 1), "periodic"
    starts, rows, _ = pattern.csc
    kind, size, height = starts.dtype, pattern.nnz, pattern.shape[0]
    bits = 8 * kind.itemsize - 2

    def assign(sequence: Integers) -> Integers:
        colours = np.full(width, -1, kind)
        run_loop(
            assign_columns, size, kind, width, starts, rows, pattern.indptr, sequence,
            bits, np.zeros(height, kind), np.full(size, -1, kind),
            np.full(height, bits, kind), colours,
        )  # fmt: skip
        return colours

    met = _count_met(pattern)
    found, used = _find_fewest(
        order, most, assign,
        lambda order: _order_columns(pattern, met, order), _reverse_colours,
    )  # fmt: skip
    if period is not None and period <= _count_colours(found):
        return np.arange(width, dtype=np.int32) % period, "periodic"
    return found, used


def _find_fewest(
    order: str,
    least: int,
    assign: Callable[[Integers], Integers],
    make_sequence: Callable[[str], Integers],
    improve: Callable[[Integers], Integers] | None = None,
) -> tuple[Integers, str]:
    """Return colours by an order, and the order; of ``"auto"`` the best of two.

    ``least`` is how many colours there are at least. ``improve`` makes of colours a
    sequence for a second turn of each of the two.
    """
    if order != "auto":
        return assign(make_sequence(order)).astype(np.int32), order
    best: tuple[Integers, str] | None = None
    for tried in ("largest_first", "smallest_last"):
        found = assign(make_sequence(tried))
        # Of a nearly full pattern no order makes few, and each takes long.
        most = max(MANY_COLOURS, len(found) // 2)
        count = _count_colours(found)
        if improve is not None and least < count <= most:
            found = assign(improve(found))
        if best is None or _count_colours(found) < _count_colours(best[0]):
            best = found, tried
        count = _count_colours(best[0])
        if count <= least or count > most:
            break
    assert best is not None
    return best[0].astype(np.int32), best[1]


def _reverse_colours(colours: Integers) -> Integers:
    """Return the columns by colour, the last colour first.

    By this order the greedy loop needs no more colours than there are, and often fewer:
    the columns of one colour go as far down as there is room (Culberson, "Iterated
    greedy graph coloring and the difficulty landscape", 1992).
    """
    return np.argsort(-colours, kind="stable")


def find_period(pattern: Places, proper: bool = False) -> int | None:
    """Return the smallest p for which the colours j mod p suit the columns j.

    It suits them if no two columns with an entry in one row are a multiple of p apart;
    if ``proper``, a row i counts as one with an entry in the column i.
    None where a row has too many entries, or p would be more than twice as many.

    >>> import numpy as np, workbench as wb
    >>> band = np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1)
    >>> find_period(wb.SparsityPattern.from_scipy(band))
    3
    """
    rows, columns, width = pattern.rows, pattern.columns, pattern.shape[1]
    most = int(np.diff(pattern.indptr).max(initial=0))
    if most > MOST_IN_STENCIL:
        return None
    apart = np.zeros(width + 1, bool)
    for step in range(1, most):
        distance = columns[step:] - columns[:-step]
        apart[distance[rows[step:] == rows[:-step]]] = True
    if proper:
        apart[abs(columns - rows)] = True
        apart[0] = False
    for period in range(max(most, 1), 2 * most + 2):
        if not apart[period::period].any():
            return period
    return None


def _colour_both(pattern: Places, order: str) -> Colouring:
    """Return colours of rows and of columns, so that each entry is read from one.

    Rows and columns are the vertices of one graph, entries its edges; they get a star
    colouring, in which rows share no colour with columns. Then those colours go from
    which no entry needs to be read.
    """
    height, width = pattern.shape
    rows, columns = pattern.rows, pattern.columns
    if pattern.nnz == height * width:  # one of both reads all
        own = np.arange(width, dtype=np.int32), np.arange(height, dtype=np.int32)
        if height < width:
            return Colouring(
                pattern, "both", "natural", np.full_like(own[0], -1), own[1]
            )
        return Colouring(pattern, "both", "natural", own[0], np.full_like(own[1], -1))
    starts, ends, _ = pattern.csc
    graph = Adjacency(
        np.concatenate([pattern.indptr, starts[1:] + pattern.nnz]),
        np.concatenate([columns + height, ends]),
    )
    found, order = _find_fewest(
        "largest_first" if order == "auto" else order, 2,
        lambda sequence: _assign_star(graph, sequence, False),
        lambda order: _order_vertices(graph, order),
    )  # fmt: skip
    row_colours, column_colours = found[:height].copy(), found[height:].copy()
    from_column = _stands_alone(rows, column_colours[columns], height)
    from_row = _stands_alone(columns, row_colours[rows], width)
    needs_column = np.zeros(_count_colours(column_colours), bool)
    needs_column[column_colours[columns[~from_row]]] = True
    needs_row = np.zeros(_count_colours(row_colours), bool)
    needs_row[row_colours[rows[~from_column]]] = True
    # What may be read from either: from what is needed anyway, else from few more.
    in_row, in_column = row_colours[rows], column_colours[columns]
    is_open = ~needs_row[in_row] & ~needs_column[in_column]
    count = len(needs_column)
    left = np.unique(in_row[is_open].astype(np.int64) * count + in_column[is_open])
    while len(left):
        lines = np.divmod(left, count)
        in_rows, in_columns = (np.bincount(one.astype(np.intp)) for one in lines)
        if in_rows.max() > in_columns.max():
            needs_row[best := in_rows.argmax()] = True
            left = left[left // count != best]
        else:
            needs_column[best := in_columns.argmax()] = True
            left = left[left % count != best]
    return Colouring(
        pattern, "both", order,
        _keep_colours(column_colours, needs_column),
        _keep_colours(row_colours, needs_row),
    )  # fmt: skip


def _keep_colours(colours: Integers, kept: npt.NDArray[np.bool_]) -> Integers:
    """Return colours numbered anew, -1 in the place of those that are not kept."""
    numbers = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    return np.asarray(numbers[colours])


# Symmetric matrices


def _colour_symmetric(pattern: Places, order: str) -> Colouring:
    n = pattern.shape[0]
    most = int(np.diff(pattern.indptr).max(initial=0))
    is_open = order == "auto"
    if is_open:
        period = find_period(pattern, proper=True)
        # Where columns are apart, each entry is read from its own: a star colouring,
        # which in a stencil, with as many entries in each row, can hardly be better.
        if (
            period is not None and period <= most + 1
            and 2 * most * n <= 3 * pattern.nnz
        ):  # fmt: skip
            colours = np.arange(n, dtype=np.int32) % max(period, 1)
            return Colouring(pattern, "star", "periodic", colours)
    if pattern.nnz == n * n:
        return Colouring(pattern, "star", "natural", np.arange(n, dtype=np.int32))
    graph = _make_graph(pattern)
    found, used = _find_fewest(
        order, 2,
        lambda sequence: _assign_star(graph, sequence, True),
        lambda order: _order_vertices(graph, order),
    )  # fmt: skip
    if is_open and _count_colours(found) > 3:
        forest = _colour_forest(graph)
        if forest is not None:
            return Colouring(pattern, "star", "depth", forest)
        # Columns that are apart are a star colouring too, if each has its diagonal.
        if most < _count_colours(found) and len(graph.ends) + n == pattern.nnz:
            apart, apart_used = _group_columns(pattern, order)
            if _count_colours(apart) < _count_colours(found):
                found, used = apart, apart_used
    return Colouring(pattern, "star", used, found)


class Adjacency(NamedTuple):
    """The neighbours of vertex v are ``ends[starts[v]:starts[v + 1]]``."""

    starts: Integers
    ends: Integers


def _make_graph(pattern: Places) -> Adjacency:
    """Return the graph of a symmetric pattern: an edge for each two entries."""
    off = pattern.rows != pattern.columns
    before = np.concatenate([[0], np.cumsum(off)])
    starts = before[pattern.indptr].astype(pattern.indptr.dtype)
    return Adjacency(starts, pattern.columns[off])


def _colour_forest(graph: Adjacency) -> Integers | None:
    """Return the depth of each vertex in its tree, modulo 3; None: there is a cycle.

    In a tree each path of four vertices has three neighbouring depths.
    """
    count, ends = len(graph.starts) - 1, graph.ends
    if len(ends) >= 2 * count:
        return None
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    matrix: Any = csr_array((np.ones(len(ends)), ends, graph.starts), (count, count))
    parts, trees = connected_components(matrix, directed=False)
    if len(ends) != 2 * (count - parts):
        return None
    roots = np.unique(trees, return_index=True)[1]
    # One more vertex, above all roots, makes them one tree.
    whole: Any = csr_array(
        (
            np.ones(len(ends) + parts),
            np.append(ends, roots),
            np.append(graph.starts, len(ends) + parts),
        ),
        (count + 1, count + 1),
    )
    depths = dijkstra(whole, indices=[count], unweighted=True)[0, :count]
    return np.asarray((depths - 1) % 3, np.int32)


def _assign_star(graph: Adjacency, sequence: Integers, is_proper: bool) -> Integers:
    count, size, kind = len(graph.starts) - 1, len(graph.ends), graph.starts.dtype
    colours = np.full(count, -1, kind)
    run_loop(
        assign_star, size, kind, count, *graph, sequence, HEAVY, is_proper,
        np.full(size, -1, kind), np.zeros(count, kind), np.full(size, -1, kind),
        np.full(count + 1, -1, kind), np.full(count, -1, kind), colours,
    )  # fmt: skip
    return colours


# In which order


def _count_met(pattern: Places) -> npt.NDArray[np.int64]:
    """Return for each column how many entries of others stand in its rows."""
    others = np.diff(pattern.indptr)[pattern.rows] - 1
    met = np.bincount(pattern.columns, weights=others, minlength=pattern.shape[1])
    return met.astype(np.int64)


def _order_columns(pattern: Places, met: npt.NDArray[np.int64], order: str) -> Integers:
    """Return the columns in an order for a greedy colouring."""
    starts, rows, _ = pattern.csc
    lines = Adjacency(pattern.indptr, pattern.indices)
    return _order_greedily(Adjacency(starts, rows), lines, met, order)


def _order_vertices(graph: Adjacency, order: str) -> Integers:
    """Return the vertices of a graph in an order for a greedy colouring."""
    degrees = np.diff(graph.starts)
    count, kind = len(degrees), graph.starts.dtype
    # The row of each vertex has that vertex alone: it stands for the other end.
    own = Adjacency(np.arange(count + 1, dtype=kind), np.arange(count, dtype=kind))
    return _order_greedily(graph, own, degrees, order)


def _order_greedily(
    graph: Adjacency, lines: Adjacency, degrees: npt.NDArray[Any], order: str
) -> Integers:
    """Return vertices by an order; their neighbours are members of lines.

    These are the lines that the ends of the graph name.
    """
    count, kind = len(degrees), graph.starts.dtype
    if order == "largest_first":
        return np.argsort(-degrees, kind="stable")
    if order == "natural":
        return np.arange(count)
    sequence = np.zeros(count, kind)
    run_loop(
        order_by_degrees_left, len(graph.ends), kind, count, *graph, *lines, LONG_ROW,
        degrees.astype(kind), np.arange(count, dtype=kind), sequence,
    )  # fmt: skip
    return sequence[::-1]


# Where each entry is read


def _stands_alone(
    lines: Integers, colours: Integers, height: int
) -> npt.NDArray[np.bool_]:
    """Return whether an entry is the only one of its colour in its line.

    An entry without a colour stands with nobody, and is read from nowhere.
    """
    count = _count_colours(colours)
    keys = lines.astype(np.int64) * (count + 1) + colours + 1
    if height * (count + 1) <= max(MOST_CELLS, 4 * len(keys)):
        alone = np.bincount(keys.astype(np.intp))[keys] == 1 if len(keys) else keys == 1
    else:
        _, place, times = np.unique(keys, return_inverse=True, return_counts=True)
        alone = times[place] == 1
    return np.asarray(alone & (colours >= 0))


def _read_columns(colouring: Colouring) -> npt.NDArray[np.intp]:
    pattern, colours = colouring.pattern, colouring.column_colours
    assert colours is not None
    return colours[pattern.columns].astype(np.intp) * pattern.shape[0] + pattern.rows


def _read_rows(colouring: Colouring) -> npt.NDArray[np.intp]:
    pattern, colours = colouring.pattern, colouring.row_colours
    assert colours is not None
    return colours[pattern.rows].astype(np.intp) * pattern.shape[1] + pattern.columns


def _read_both(colouring: Colouring) -> npt.NDArray[np.intp]:
    pattern, colours = colouring.pattern, colouring.column_colours
    assert colours is not None
    own = colours[pattern.columns]
    alone = _stands_alone(pattern.rows, own, pattern.shape[0])
    first = colouring.column_count * pattern.shape[0]
    return np.where(alone, _read_columns(colouring), first + _read_rows(colouring))


def _read_star(colouring: Colouring) -> npt.NDArray[np.intp]:
    pattern, colours = colouring.pattern, colouring.column_colours
    assert colours is not None
    rows, columns, n = pattern.rows, pattern.columns, pattern.shape[0]
    alone = _stands_alone(rows, colours[columns], n)
    # Where the row is the middle of a star, the column is not.
    mirrored = colours[rows].astype(np.intp) * n + columns
    return np.where(alone, _read_columns(colouring), mirrored)


_READERS = {
    "columns": _read_columns, "rows": _read_rows, "both": _read_both,
    "star": _read_star,
}  # fmt: skip
