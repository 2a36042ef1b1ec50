"""Matrices as heat maps, axes named, large ones pooled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from plotly import graph_objects as go

from workbench.autodiff.linear_map import Span
from workbench.checks.progress import Progress
from workbench.core.blame import shorten
from workbench.core.formatting import format_share
from workbench.jupyter.figure import BAD, GRID, Figure, Plot, escape_text, make_layout
from workbench.session.derivative import Derivative, SecondDerivative
from workbench.session.matrix import Matrix, Part, PooledView, find_cell_starts

# The entries along one side of a matrix, and the cells of a figure that show them.

#: The most cells of a figure along one axis.
MOST_CELLS = 200
#: About the width of a letter and the height of a line of the small type.
LETTER, LINE = 6.4, 15
#: What an entry of each matrix is; of others the names of its row and column.
ENTRIES = {"Jacobian": "∂ %{y} / ∂ %{x}", "Hessian": "∂² / ∂ %{y} ∂ %{x}"}
#: About the size of the axes on a narrow page.
WIDTH, HEIGHT = 560, 320


class Axis:
    """Groups of named, indexed entries; those of a window fall into cells.

    >>> axis = Axis([("W", (2, 3)), ("b", ())])
    >>> axis.labels
    ['W[0, 0]', 'W[0, 1]', 'W[0, 2]', 'W[1, 0]', 'W[1, 1]', 'W[1, 2]', 'b']
    """

    def __init__(
        self,
        parts: Sequence[tuple[str, tuple[int, ...]]],
        window: tuple[int, int] | None = None,
    ) -> None:
        names = [name for name, _ in parts]
        self.parts = [
            (name if names.count(name) == 1 else f"{name} ({k + 1})", shape)
            for k, (name, shape) in enumerate(parts)
        ]
        sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in parts]
        self._edges = [0, *accumulate(sizes)]
        self.size = self._edges[-1]
        self.window = window or (0, self.size)
        self.block = max(1, -(-(self.window[1] - self.window[0]) // MOST_CELLS))
        #: The first entry of each cell of the figure, and the end.
        self.starts = find_cell_starts(self._edges, self.window, self.block)

    @property
    def cells(self) -> int:
        """The number of cells of the figure along the axis."""
        return len(self.starts) - 1

    def _find_part(self, flat: int) -> int:
        return int(np.searchsorted(self._edges, flat, "right")) - 1

    def format_index(self, flat: int) -> str:
        """Return the index of an entry in its node: ``[3, 1]``; empty for a number."""
        part = self._find_part(flat)
        shape = self.parts[part][1]
        if not shape:
            return ""
        found = np.unravel_index(flat - self._edges[part], shape)
        return f"[{', '.join(str(int(i)) for i in found)}]"

    def format_entry(self, flat: int) -> str:
        """Return an entry as text: ``W1[3, 1]``."""
        return self.parts[self._find_part(flat)][0] + self.format_index(flat)

    @property
    def labels(self) -> list[str]:
        """One text for each cell."""
        found = []
        for begin, end in pairwise(self.starts):
            label = self.format_entry(begin)
            if end - begin > 1:
                label += f" … {self.format_entry(end - 1)}"
            found.append(label)
        return found

    def find_edges(self) -> list[int]:
        """Return the cells at which groups begin, within the window, and the end."""
        low, high = self.window
        inside = [low, *(e for e in self._edges if low < e < high), high]
        places = np.searchsorted(self.starts, inside)
        return sorted({int(k) for k in places})

    def make_settings(self, pixels: int, *, across: bool) -> dict[str, Any]:
        """Return the axis of the figure: names at their middles, or single entries.

        ``pixels`` is about its length; ``across`` means that labels stand side by side.
        """
        made: dict[str, Any] = {
            "type": "category",
            "tickfont": {"size": 11},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickmode": "array",
            "automargin": True,
        }
        if not across:
            made["tickangle"] = 0  # across a narrow page they stand upright
        if not self.cells:
            return made | {"tickvals": [], "ticktext": []}
        names = list(pairwise(self.find_edges()))
        longest = max(
            self.format_entry(self.starts[0]),
            self.format_entry(self.starts[-2]),
            key=len,
        )  # of each group, about
        middles: list[float]
        need = (len(longest) + 2) * LETTER if across else LINE
        fits = max(1, int(pixels // need))
        if len(names) == 1 or self.cells <= fits:
            middles = list(range(0, self.cells, -(-self.cells // min(fits, 16))))
            if not across:  # the last would lie on the first name of the other axis
                low = self.cells * (1 - LINE / pixels)
                middles = [k for k in middles if k <= low or k == 0]
            texts = [self.format_entry(self.starts[int(k)]) for k in middles]
        else:
            middles, texts = [], []
            for a, b in names:
                name = self.parts[self._find_part(self.starts[a])][0]
                room = (b - a) / self.cells * pixels
                if room >= ((len(name) + 1) * LETTER if across else LINE):
                    middles.append((a + b - 1) / 2)
                    texts.append(name)
        texts = [escape_text(shorten(text, 32, tail=16)) for text in texts]
        return made | {"tickvals": middles, "ticktext": texts}


# Heat maps

Array = np.ndarray[Any, Any]
#: Rows and columns, each from and to; None for all.
Window = Any

#: Blue below zero, orange above, transparent at zero, for light and dark pages.
#: Colours fade out rather than into grey, so that small entries keep their sign.
DIVERGING: list[tuple[float, str]] = [
    (0.0, "rgb(21, 101, 192)"),
    (0.25, "rgb(100, 164, 232)"),
    (0.4999, "rgba(100, 164, 232, 0.06)"),
    (0.5, "rgba(128, 128, 128, 0.04)"),
    (0.5001, "rgba(255, 167, 80, 0.06)"),
    (0.75, "rgb(255, 167, 80)"),
    (1.0, "rgb(216, 72, 0)"),
]
#: The same from zero on, for magnitudes.
RISING = [(2 * place - 1, colour) for place, colour in DIVERGING if place >= 0.5]
#: The line between groups, visible on cells of any colour.
BORDER = "rgba(128, 128, 128, 0.65)"
#: Up to so many rows and columns the entries are written into the cells.
LEGIBLE = (10, 10)
#: Up to so many cells along the longer side they are drawn square.
SQUARE = 30
#: The share of cells that a robust colour scale covers.
ROBUST = 0.98


class NamedMatrix(Protocol):
    """The facts of a matrix that axes read: its size, and the names of its entries."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def columns(self) -> int:
        """The number of columns."""

    @property
    def row_parts(self) -> Sequence[Part]:
        """The names and shapes of the arrays along the rows."""

    @property
    def column_parts(self) -> Sequence[Part]:
        """The names and shapes of the arrays along the columns."""

    @property
    def caption(self) -> str:
        """The first words about the matrix; empty for none."""

    def check_window(self, rows: Any, columns: Any) -> tuple[Span, Span]:
        """Check a window, None for all, and return two pairs of numbers."""


def make_axes(matrix: NamedMatrix, window: Window) -> tuple[Axis, Axis]:
    """Return the axes of a figure of a matrix, whole or in a window.

    Raises
    ------
    UsageError
        If ``window`` is not a window, or reaches out of the matrix.
    """
    if window is None:
        rows = columns = None
    elif isinstance(window, dict):
        rows, columns = window.get("rows"), window.get("columns")
    else:
        try:
            rows, columns = window
        except (TypeError, ValueError):
            rows = window  # refused below, since it is not a part
            columns = None
    if 0 in (matrix.rows, matrix.columns):
        return Axis(matrix.row_parts), Axis(matrix.column_parts)
    across, down = matrix.check_window(rows, columns)
    return Axis(matrix.row_parts, across), Axis(matrix.column_parts, down)


def describe_matrix(
    derivative: Derivative | SecondDerivative, rows: Axis, columns: Axis, kind: str
) -> dict[str, Any]:
    """Return the data for the page about a heat map: the entries of its cells."""
    some = derivative.rows and derivative.columns
    return {
        "kind": kind,
        "of": derivative.of,
        "wrt": list(derivative.wrt),
        "path": list(derivative.path),
        "mode": derivative.choose_mode(rows.window, columns.window) if some else "",
        "rows": derivative.rows,
        "columns": derivative.columns,
        "window": {"rows": list(rows.window), "columns": list(columns.window)},
        "block": [rows.block, columns.block],
    }


def describe_size(matrix: NamedMatrix, rows: Axis, columns: Axis) -> list[str]:
    """Return notes on the size of a matrix, and on the part that is shown."""
    notes = [f"{matrix.rows:,} × {matrix.columns:,}", *filter(None, [matrix.caption])]
    if (rows.window, columns.window) != ((0, matrix.rows), (0, matrix.columns)):
        down, over = (
            _format_span("row", rows.window),
            _format_span("column", columns.window),
        )
        notes.append(f"{down}, {over} of it")
    return notes


def _format_span(what: str, span: tuple[int, int]) -> str:
    first, last = span[0], span[1] - 1
    return f"{what} {first:,}" if first == last else f"{what}s {first:,} to {last:,}"


def is_vector(rows: Axis, columns: Axis) -> bool:
    """Return whether a matrix is drawn as a line: one row or column, entry by entry.

    A short one is a heat map with its numbers, a long one a heat map to zoom into.
    """
    short, long = sorted((rows.size, columns.size))
    return short == 1 and max(LEGIBLE) < long == max(rows.cells, columns.cells)


def plot_heat_map(
    matrix: Matrix,
    rows: Axis,
    columns: Axis,
    title: str,
    what: str,
    *,
    notes: Sequence[str] = (),
    robust: bool = False,
    progress: Progress | None = None,
) -> Plot:
    """Return a matrix as a heat map around zero, one row or column of it as a line.

    ``what`` is its name, "Jacobian", "Hessian" or another. With ``robust`` the colours
    cover the smallest 98 % of the cells, and the others have the last colour.
    """
    pooled = matrix.pool(
        rows.window, columns.window, (rows.block, columns.block), progress
    )
    said = describe_size(matrix, rows, columns)
    if matrix.rows and matrix.columns:
        said.append(f"{matrix.choose_mode(rows.window, columns.window)} mode")
    cells, single = pooled.values, pooled.size == pooled.values.size
    magnitudes = cells.dtype.kind == "c"
    with np.errstate(all="ignore"):
        shown = (np.abs(cells) if magnitudes else cells).astype(np.float64)
    if magnitudes:
        said.append("magnitudes of complex numbers")
    if not single:
        largest = "each cell shows the largest magnitude of its block"
        said.append(f"{largest} ({rows.block} × {columns.block})")
    if pooled.zeros:
        said.append(f"{format_share(pooled.zeros / pooled.size)} zeros")
    finite = np.isfinite(shown)
    robust = robust and not is_vector(rows, columns)  # a line has no colours
    limit, beyond = _choose_limit(np.abs(shown[finite]), robust)
    if beyond:
        said.append(
            f"colours end at {limit:.3g}: {beyond:,}"
            f" {'cell is' if beyond == 1 else 'cells are'} beyond"
        )
    entry = ENTRIES.get(what, "%{y}, %{x}")
    heat = go.Heatmap(
        z=np.where(finite, shown, np.nan),
        x=[escape_text(text) for text in columns.labels],
        y=[escape_text(text) for text in rows.labels],
        colorscale=RISING if magnitudes else DIVERGING,
        zmin=0.0 if magnitudes else -limit,
        zmax=limit,
        colorbar={"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 10}},
        hovertemplate=f"{entry}<br>%{{z:.8~g}}%{{text}}<extra></extra>",
        name=what,
    )
    if single and not magnitudes:
        heat.hovertemplate = f"{entry}<br>%{{z:.8~g}}<extra></extra>"
        if cells.shape[0] <= LEGIBLE[0] and cells.shape[1] <= LEGIBLE[1]:
            heat.texttemplate = "%{z:.3~g}"
    else:
        heat.text = _format_cells(pooled, rows, columns, single)
    traces = [heat]
    if pooled.bad:
        one = pooled.bad == 1
        i, j = np.argwhere(~finite)[0]
        row, column = (x[i, j] for x in pooled.positions)
        at = f"{rows.format_entry(row)}, {columns.format_entry(column)}"
        said.append(
            f"1 entry is not finite, at {at}"
            if one
            else f"{pooled.bad:,} entries are not finite, one of them at {at}"
        )
        words = np.where(
            np.isnan(cells), "NaN", np.where(shown < 0, "−infinity", "infinity")
        ).astype(object)
        places = _format_cells(pooled, rows, columns, single, values=False)
        traces.append(
            go.Heatmap(
                z=np.where(finite, np.nan, 1.0).astype(np.float32),
                x=heat.x,
                y=heat.y,
                colorscale=[[0, BAD], [1, BAD]],
                showscale=False,
                text=np.where(finite, "", words + places),
                hovertemplate=f"{entry}<br>%{{text}}<extra></extra>",
                name="not finite",
            )
        )
    said += notes
    zero = ""
    if pooled.zeros == pooled.size == matrix.rows * matrix.columns > 0:
        zero = matrix.zero_reason
        if zero and not any(zero in text for text in notes):
            said.append(f"zero everywhere: {zero}")
    note = "; ".join(said)
    if is_vector(rows, columns):
        figure = _draw_line(heat, title, note, rows, columns)
        return Plot(title, note, figure, zero=zero)
    layout = make_matrix_layout(title, note, rows, columns)
    if max(rows.cells, columns.cells) <= SQUARE:
        layout["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
        layout["xaxis"] |= {"constrain": "domain"}
    return Plot(title, note, Figure(data=traces, layout=layout), zero=zero)


def _draw_line(heat: Any, title: str, note: str, rows: Axis, columns: Axis) -> Figure:
    """Return the cells of a heat map with one row or column as a line.

    Entries that are not finite have a cross at zero.
    """
    is_column = columns.cells == 1
    along, labels = (rows, heat.y) if is_column else (columns, heat.x)
    numbers = np.ravel(heat.z)
    bad = np.flatnonzero(~np.isfinite(numbers))
    entry = heat.hovertemplate.split("<br>")[0]
    own, other = ("y", "x") if is_column else ("x", "y")
    (fixed,) = getattr(heat, other)
    entry = entry.replace(f"%{{{own}}}", "%{x}").replace(f"%{{{other}}}", fixed)
    line = go.Scatter(
        x=labels,
        y=numbers,
        mode="lines+markers",
        marker={"size": 4},
        line={"color": DIVERGING[-2][1], "width": 1.5},
        hovertemplate=f"{entry}<br>%{{y:.8~g}}<extra></extra>",
        name=heat.name,
    )
    crosses = go.Scatter(
        x=[labels[k] for k in bad],
        y=np.zeros(len(bad)),
        mode="markers",
        marker={"symbol": "x", "color": BAD, "size": 8},
        hovertemplate=f"{entry}<br>not finite<extra></extra>",
        name="not finite",
    )
    layout = make_layout(title, note) | {"showlegend": False}
    layout["xaxis"] = along.make_settings(WIDTH, across=True)
    # All places in their order, also where there is no finite entry.
    layout["xaxis"] |= {"categoryorder": "array", "categoryarray": labels}
    layout["yaxis"] = {"gridcolor": GRID, "zerolinecolor": BORDER, "automargin": True}
    layout["shapes"] = [
        {
            "type": "line",
            "x0": edge - 0.5,
            "x1": edge - 0.5,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": BORDER, "width": 1},
        }
        for edge in along.find_edges()[1:-1]
    ]
    return Figure(data=[line, *([crosses] if len(bad) else [])], layout=layout)


def make_matrix_layout(
    title: str, note: str, rows: Axis, columns: Axis
) -> dict[str, Any]:
    """Return the layout of a figure of a matrix: named axes, a line between groups."""
    lines = [
        {
            "type": "line",
            f"{across}0": edge - 0.5,
            f"{across}1": edge - 0.5,
            # As long as the cells are, and not as the figure.
            f"{along}0": -0.5,
            f"{along}1": other.cells - 0.5,
            "line": {"color": BORDER, "width": 1},
        }
        for axis, other, across, along in (
            (columns, rows, "x", "y"),
            (rows, columns, "y", "x"),
        )
        for edge in axis.find_edges()[1:-1]
    ]
    made = make_layout(title, note)
    made["xaxis"] = columns.make_settings(WIDTH, across=True)
    made["yaxis"] = rows.make_settings(HEIGHT, across=False) | {"autorange": "reversed"}
    made["shapes"] = lines
    return made


def _choose_limit(magnitudes: Array, robust: bool) -> tuple[float, int]:
    """Return the limit of the colours, and the number of cells beyond the limit."""
    largest = float(np.max(magnitudes, initial=0.0)) or 1.0
    nonzero = magnitudes[magnitudes > 0]
    if not robust or not nonzero.size:
        return largest, 0
    limit = float(np.quantile(nonzero, ROBUST, method="higher"))
    return limit, int(np.count_nonzero(magnitudes > limit))


def _format_cells(
    pooled: PooledView, rows: Axis, columns: Axis, single: bool, values: bool = True
) -> Array:
    """Return for each cell the place of its entry; for complex ones also the entry.

    The text is empty for a cell that is all zero.
    """
    cells = pooled.values
    made = np.full(cells.shape, "", object)  # host array: of texts
    complex_ = values and cells.dtype.kind == "c"
    # The same indices along one axis occur many times.
    down = {k: rows.format_index(k) for k in np.unique(pooled.positions[0]).tolist()}
    over = {k: columns.format_index(k) for k in np.unique(pooled.positions[1]).tolist()}
    for i, j in np.argwhere(cells != 0).tolist():
        text = f" = |{cells[i, j]:.6g}|" if complex_ else ""
        if not single:
            a = down[int(pooled.positions[0][i, j])]
            b = over[int(pooled.positions[1][i, j])]
            text += f" at {a or '()'}, {b or '()'}"
        made[i, j] = text
    return made
