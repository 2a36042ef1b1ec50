"""The sparsity pattern of a matrix with its colours, the compressed matrix beside.

Columns of one colour have no entry in one row, so that one product with their sum
gives the entries of all of them: the compressed matrix has a column for each colour.
Where rows have colours it has rows for them, and stands below. A large pattern is
pooled, and shows how full each block is; the colours come with a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.autodiff.linear_map import Span
from workbench.autodiff.sparse.colouring import Colouring
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.checks.progress import Progress
from workbench.core.blame import format_count
from workbench.jupyter import heat
from workbench.jupyter.figure import Figure, Plot, escape_text
from workbench.session.matrix import (
    Matrix,
    Part,
    PooledPattern,
    check_span,
    find_cell_starts,
    find_places,
)

#: From few entries of a block to all, readable on white and on black.
SHADES = [(0.0, "rgba(104, 140, 184, 0.7)"), (1.0, "rgba(104, 140, 184, 1)")]
#: The colours of columns and rows, in turn: told apart on white and on black.
PALETTE = (
    "#4c8fd6",
    "#e08a2e",
    "#3fa36f",
    "#c45fae",
    "#b59a2d",
    "#d4605a",
    "#35a3b3",
    "#8a78d0",
)
#: The most colours of which a compressed matrix is drawn.
MOST_COLOURS = 64
#: The most places for which colours are found, and independent blocks counted.
MOST_JOINED = 2**22
#: About the width of the bar of shares and its names.
BAR = 70
#: The most ops that a note names.
MOST_NAMED = 3


@dataclass(frozen=True)
class GivenPattern:
    """A pattern without a session, with the facts of a matrix that a figure reads.

    >>> import numpy as np
    >>> GivenPattern(SparsityPattern.from_scipy(np.eye(3))).row_parts
    [('row', (3,))]
    """

    sparsity: SparsityPattern
    given_colouring: Colouring | None = None
    title: str = "the pattern"
    has_structure = True
    caption = zero_reason = ""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.sparsity.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.sparsity.shape[1]

    @property
    def row_parts(self) -> list[Part]:
        """The names of the rows: their numbers."""
        return [("row", (self.rows,))]

    @property
    def column_parts(self) -> list[Part]:
        """The names of the columns: their numbers."""
        return [("column", (self.columns,))]

    @cached_property
    def colouring(self) -> Colouring:
        """The colours that were given, or else those that `colouring` chooses."""
        return self.given_colouring or self.sparsity.colouring()

    def check_window(self, rows: Any, columns: Any) -> tuple[Span, Span]:
        """Check a window, None for all, and return two pairs of numbers."""
        return (
            check_span(rows, self.rows, "rows", self.title),
            check_span(columns, self.columns, "columns", self.title),
        )

    def find_pattern(
        self,
        rows: Span,
        columns: Span,
        blocks: tuple[int, int],
        progress: Progress | None = None,
    ) -> PooledPattern:
        """Return the places in a window, counted by cell."""
        starts = (
            find_cell_starts([0, self.rows], rows, blocks[0]),
            find_cell_starts([0, self.columns], columns, blocks[1]),
        )
        return PooledPattern(*starts, [find_places(self.sparsity, rows, columns)])


#: What has a pattern to draw.
Patterned = Matrix | GivenPattern


def plot_sparsity(
    matrix: Patterned,
    rows: heat.Axis,
    columns: heat.Axis,
    title: str,
    progress: Progress | None = None,
) -> Plot:
    """Return the pattern of a matrix: a mark for each entry that can differ from zero.

    With overrides in force: for each that is not zero.
    """
    blocks = (rows.block, columns.block)
    pooled = matrix.find_pattern(rows.window, columns.window, blocks, progress)
    single = blocks == (1, 1)
    whole = pooled.size == matrix.rows * matrix.columns
    colouring = find_colouring(matrix)
    marks = go.Heatmap(
        x=[escape_text(text) for text in columns.labels],
        y=[escape_text(text) for text in rows.labels],
        showscale=False,
        name="entries",
        # A gap keeps the marks of single entries apart.
        xgap=1 if columns.cells <= 40 else 0,
        ygap=1 if rows.cells <= 40 else 0,
    )
    if colouring is not None and count_colours(matrix, rows, columns):
        marks.z = paint_entries(matrix, colouring, rows.window, columns.window)
        marks.update(paint_marks(colouring.count))
        marks.hovertemplate = "%{y}, %{x}<br>colour %{z}<extra></extra>"
    else:
        sizes = np.outer(np.diff(rows.starts), np.diff(columns.starts))
        share = pooled.counts / np.maximum(sizes, 1)
        marks.z = np.where(pooled.counts > 0, share, np.nan).astype(np.float32)
        marks.update(
            colorscale=[[0, SHADES[1][1]], [1, SHADES[1][1]]] if single else SHADES,
            zmin=0.0,
            zmax=1.0,
            showscale=not single,
            colorbar={
                "thickness": 10,
                "outlinewidth": 0,
                "tickfont": {"size": 10},
                "tickformat": ".0%",
            },
        )
        marks.hovertemplate = (
            "%{y}, %{x}"
            + ("" if single else "<br>%{z:.2~p} of the block")
            + "<extra></extra>"
        )
    said = heat.describe_size(matrix, rows, columns) + _describe_places(matrix, pooled)
    if not single:
        said.append(f"each cell is a block ({rows.block} × {columns.block})")
    if matrix.rows == matrix.columns and rows.window == columns.window:
        said += _describe_band(pooled)
    if whole:
        said += _describe_blocks(pooled, matrix)
    said += describe_colouring(matrix, colouring)
    said += _describe_dense_ops(matrix)
    zero = ""
    if not pooled.total and whole and pooled.size:
        zero = matrix.zero_reason
        said += [zero] if zero else []
    note = "; ".join(said)
    layout = heat.make_matrix_layout(title, note, rows, columns)
    traces = [marks]
    if colouring is not None:
        traces += add_compressed(layout, matrix, colouring, marks, rows, columns)
    return Plot(title, note, Figure(data=traces, layout=layout), zero=zero)


# Its colours


def count_colours(matrix: Patterned, rows: heat.Axis, columns: heat.Axis) -> int:
    """Return how many colours the cells of a figure have; 0: they are shares."""
    single = (rows.block, columns.block) == (1, 1)
    colouring = find_colouring(matrix) if single else None
    return 0 if colouring is None else colouring.count


def find_colouring(matrix: Patterned) -> Colouring | None:
    """Return the colours of a pattern; None where they are not drawn.

    That is for a pattern that is empty, or so large that colouring takes long; with
    overrides in force, since then no entry is computed by colours.
    """
    if not matrix.has_structure or not 0 < matrix.sparsity.nnz <= MOST_JOINED:
        return None
    return matrix.colouring


def number_entries(colouring: Colouring) -> heat.Array:
    """Return the colour from which each entry is read, from 0; rows before columns."""
    pattern, columns = colouring.pattern, colouring.column_colours
    if columns is None:
        assert colouring.row_colours is not None
        return colouring.row_colours[pattern.rows]
    if colouring.mode == "columns":
        return columns[pattern.columns]
    height, width = pattern.shape
    first = colouring.column_count * height  # of the products with rows
    from_columns = colouring.index // max(height, 1) + colouring.row_count
    from_rows = (colouring.index - first) // max(width, 1)
    return np.where(colouring.index < first, from_columns, from_rows)


def paint_entries(
    matrix: Patterned,
    colouring: Colouring,
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> heat.Array:
    """Return the colours of the entries of a window, from 1; NaN where none can be."""
    shape = rows[1] - rows[0], columns[1] - columns[0]
    made = np.full(shape, np.nan, np.float32)  # host array: a figure's
    pattern = matrix.sparsity
    part = slice(pattern.indptr[rows[0]], pattern.indptr[rows[1]])
    at_column = pattern.columns[part]
    inside = (at_column >= columns[0]) & (at_column < columns[1])
    at_row, at_column = find_places(pattern, rows, columns)
    numbers = number_entries(colouring)[part][inside] + 1
    made[at_row - rows[0], at_column - columns[0]] = numbers
    return made


def paint_marks(count: int) -> dict[str, Any]:
    """Return the settings of a heat map with numbers that are colours from 1 on."""
    scale = []
    for k in range(count):
        shade = PALETTE[k % len(PALETTE)]
        scale += [[k / count, shade], [(k + 1) / count, shade]]
    return {"colorscale": scale, "zmin": 0.5, "zmax": count + 0.5, "showscale": False}


def add_compressed(
    layout: dict[str, Any],
    matrix: Patterned,
    colouring: Colouring,
    marks: Any,
    rows: heat.Axis,
    columns: heat.Axis,
) -> list[Any]:
    """Return the compressed matrix as marks beside and below, with room made."""
    if colouring.count > MOST_COLOURS:
        return []
    pattern, made = matrix.sparsity, []
    at_row, at_column = find_places(pattern, rows.window, columns.window)
    columns_width = _choose_room(colouring.column_count)
    rows_height = _choose_room(colouring.row_count)
    # There is less room for names than in a figure of the pattern alone.
    width = (heat.WIDTH - (BAR if marks.showscale else 0)) * (1 - columns_width)
    across = columns.make_settings(int(width), across=True)
    down = rows.make_settings(int(heat.HEIGHT * (1 - rows_height)), across=False)
    layout["xaxis"] |= across | {"domain": [0, 1 - columns_width]}
    layout["yaxis"] |= down | {"domain": [rows_height, 1]}
    if colouring.column_count:
        assert colouring.column_colours is not None
        numbers = colouring.column_colours[at_column]
        cells = np.searchsorted(rows.starts, at_row, "right") - 1
        z = np.full((rows.cells, colouring.column_count), np.nan, np.float32)
        kept = numbers >= 0
        z[cells[kept], numbers[kept]] = numbers[kept] + colouring.row_count + 1
        first = colouring.row_count
        labels = [str(first + k + 1) for k in range(colouring.column_count)]
        made.append(
            go.Heatmap(
                z=z, x=labels, y=marks.y, xaxis="x2", ygap=marks.ygap,
                xgap=1 if len(labels) <= 20 else 0, name="compressed",
                hovertemplate="%{y}, colour %{x}<extra></extra>",
                **paint_marks(colouring.count),
            )
        )  # fmt: skip
        layout["xaxis2"] = _make_axis(
            labels, columns_width * heat.WIDTH, across=True
        ) | {
            "domain": [1 - columns_width + GAP, 1],
            "anchor": "y",
        }
    if colouring.row_count:
        assert colouring.row_colours is not None
        numbers = colouring.row_colours[at_row]
        cells = np.searchsorted(columns.starts, at_column, "right") - 1
        z = np.full((colouring.row_count, columns.cells), np.nan, np.float32)
        kept = numbers >= 0
        z[numbers[kept], cells[kept]] = numbers[kept] + 1
        labels = [f"colour {k + 1}" for k in range(colouring.row_count)]
        made.append(
            go.Heatmap(
                z=z, x=marks.x, y=labels, yaxis="y2", xgap=marks.xgap,
                ygap=1 if len(labels) <= 20 else 0, name="compressed",
                hovertemplate="%{y}, %{x}<extra></extra>",
                **paint_marks(colouring.count),
            )
        )  # fmt: skip
        layout["yaxis2"] = _make_axis(
            labels, rows_height * heat.HEIGHT, across=False
        ) | {
            "domain": [0, rows_height - GAP],
            "anchor": "x",
            "autorange": "reversed",
        }
        layout["xaxis"]["anchor"] = "y2"
    return made


#: Between the pattern and the compressed matrix, in parts of the figure.
GAP = 0.03


def _choose_room(count: int) -> float:
    """Return the part of the figure that so many colours take, with the gap."""
    return min(0.3, GAP + 0.05 + 0.012 * count) if count else 0.0


def _make_axis(labels: Sequence[str], pixels: float, *, across: bool) -> dict[str, Any]:
    """Return an axis of colours: as many of their names as there is room for.

    The place of a name is the name itself: Plotly would take a number for the name of
    another one.
    """
    need = 6 + heat.LETTER * len(labels[-1]) if across else heat.LINE
    fits = max(1, int(pixels // need))
    shown = labels[:: -(-len(labels) // fits)]
    # One row is too low for a title at its side.
    title = {"text": "colours" if across else "", "font": {"size": 11}, "standoff": 6}
    return {
        "type": "category",
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "tickmode": "array",
        "tickangle": 0,
        "tickfont": {"size": 11},
        "tickvals": shown,
        "title": title,
    }


# What is said of it


def describe_colouring(matrix: Patterned, colouring: Colouring | None) -> list[str]:
    """Return lines on the number of colours, and on the products that they need."""
    if colouring is None:
        return []
    columns, rows = colouring.column_count, colouring.row_count
    count = format_count(colouring.count, "colour")
    if colouring.mode == "both":
        parts = f"{rows} of rows, {columns} of columns"
    elif colouring.mode == "star":
        parts = "of a symmetric matrix"
    else:
        parts = f"of {colouring.mode}"
    said = f"{count} {parts}" if colouring.mode != "both" else f"{count}: {parts}"
    products = format_count(colouring.count, "product")
    dense = min(matrix.rows, matrix.columns)
    if colouring.count < dense:
        said += (
            f": {products} give all entries"
            if colouring.count > 1
            else (": one product gives all entries")
        )
    return [said]


def _describe_places(matrix: Patterned, pooled: PooledPattern) -> list[str]:
    total = pooled.total
    if not total:
        return ["every entry is zero"]
    share = f"{total / max(pooled.size, 1):.2g}" if pooled.size else "0"
    percent = f"{100 * float(share):.3g}%"
    verb = "is not" if total == 1 else "are not"
    what = "can differ from" if matrix.has_structure else verb
    return [f"{total:,} of {pooled.size:,} entries {what} zero ({percent})"]


def _describe_band(pooled: PooledPattern) -> list[str]:
    """Return the bandwidth, if smaller than that of a full matrix."""
    if not pooled.total:
        return []
    if pooled.below == pooled.above == 0:
        return ["diagonal"]
    below, above = pooled.below, pooled.above
    if max(below, above) >= np.sqrt(pooled.size) - 1:
        return []
    if below == above:
        return [f"bandwidth {below:,}"]
    return [f"bandwidth {below:,} below the diagonal, {above:,} above"]


def _describe_blocks(pooled: PooledPattern, matrix: Patterned) -> list[str]:
    """Return the number of independent blocks after sorting rows and columns."""
    if pooled.places is None or not 0 < pooled.total <= MOST_JOINED:
        return []
    from scipy import sparse
    from scipy.sparse import csgraph

    rows, columns = pooled.places
    count = matrix.rows + matrix.columns
    true = np.ones(len(rows), bool)  # host array: SciPy's
    links = sparse.csr_array(
        (true, (rows, columns.astype(np.int64) + matrix.rows)), shape=(count, count)
    )
    _, names = csgraph.connected_components(links, directed=False)
    # A row or column of zeros belongs to no block.
    used = np.unique(names[rows])
    said = []
    if len(used) > 1:
        said.append(f"falls into {len(used):,} independent blocks")
    empty = matrix.columns - len(np.unique(columns))
    if empty:
        said.append(format_count(empty, "empty column"))
    empty = matrix.rows - len(np.unique(rows))
    if empty:
        said.append(format_count(empty, "empty row"))
    return said


def _describe_dense_ops(matrix: Patterned) -> list[str]:
    """Return which ops were taken as dense, since their rules say nothing better."""
    found = matrix.sparsity.dense_ops if matrix.has_structure else ()
    names = list(dict.fromkeys(op.name for op in found if not op.is_given))
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return [f"taken as dense: {', '.join(names[:MOST_NAMED])}{more}"]
