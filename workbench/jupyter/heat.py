"""Matrices as heat maps around zero, their axes named, large ones pooled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.jupyter.axis import Axis
from workbench.jupyter.figure import BAD, Figure, Plot, layout, plain_text
from workbench.session.derivative import Derivative, Second
from workbench.session.matrix import Matrix, Pooled

__all__ = ["Window", "axes_of", "heat_map", "looks_of", "size_note", "told"]

Array = np.ndarray[Any, Any]
#: Rows and columns, each from and to; None for all.
Window = Any

#: Blue below zero, orange above, nothing at zero: on a light and on a dark page.
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
#: Between groups: seen on cells of any colour.
BORDER = "rgba(128, 128, 128, 0.65)"
#: The share of cells whose colours a robust scale tells apart.
ROBUST = 0.98


def axes_of(found: Matrix, window: Window) -> tuple[Axis, Axis]:
    """The axes of a figure of a matrix, or of a window of it.

    Raises
    ------
    UsageError
        If the window is none, or reaches out of the matrix.
    """
    if window is None:
        rows = columns = None
    elif isinstance(window, dict):
        rows, columns = window.get("rows"), window.get("columns")
    else:
        try:
            rows, columns = window
        except (TypeError, ValueError):
            rows = window  # which is said to be no part
            columns = None
    if 0 in (found.rows, found.columns):
        return Axis(found.row_parts), Axis(found.column_parts)
    across, down = found.check_window(rows, columns)
    return Axis(found.row_parts, across), Axis(found.column_parts, down)


def told(
    found: Derivative | Second, rows: Axis, columns: Axis, kind: str
) -> dict[str, Any]:
    """What the page is told of a heat map: which entries its cells stand for."""
    some = found.rows and found.columns
    return {
        "kind": kind,
        "of": found.of,
        "wrt": list(found.wrt),
        "path": list(found.path),
        "mode": found.mode_for(rows.window, columns.window) if some else "",
        "rows": found.rows,
        "columns": found.columns,
        "window": {"rows": list(rows.window), "columns": list(columns.window)},
        "block": [rows.block, columns.block],
    }


def size_note(found: Matrix, rows: Axis, columns: Axis) -> list[str]:
    """How large a matrix is, and what of it is shown."""
    notes = [f"{found.rows:,} × {found.columns:,}", *filter(None, [found.caption])]
    if (rows.window, columns.window) != ((0, found.rows), (0, found.columns)):
        down, over = _part("row", rows.window), _part("column", columns.window)
        notes.append(f"{down}, {over} of it")
    return notes


def _part(what: str, span: tuple[int, int]) -> str:
    first, last = span[0], span[1] - 1
    return f"{what} {first:,}" if first == last else f"{what}s {first:,} to {last:,}"


def heat_map(
    found: Matrix,
    rows: Axis,
    columns: Axis,
    title: str,
    what: str,
    *,
    notes: Sequence[str] = (),
    robust: bool = False,
    progress: Any = None,
) -> Plot:
    """A matrix as a heat map around zero.

    ``what`` is its name: "Jacobian" or "Hessian". ``robust``: colours are spread over
    the smallest 98 % of the cells, and the rest have the last one.
    """
    pooled = found.pooled(
        rows.window, columns.window, (rows.block, columns.block), progress
    )
    said = size_note(found, rows, columns)
    if found.rows and found.columns:
        said.append(f"{found.mode_for(rows.window, columns.window)} mode")
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
        said.append(f"{_share(pooled.zeros / pooled.size)} zeros")
    finite = np.isfinite(shown)
    limit, beyond = _limit(np.abs(shown[finite]), robust)
    if beyond:
        said.append(
            f"colours end at {limit:.3g}: {beyond:,}"
            f" {'cell is' if beyond == 1 else 'cells are'} beyond"
        )
    second = what == "Hessian"
    entry = "∂² / ∂ %{y} ∂ %{x}" if second else "∂ %{y} / ∂ %{x}"
    heat = go.Heatmap(
        z=np.where(finite, shown, np.nan),
        x=[plain_text(text) for text in columns.labels],
        y=[plain_text(text) for text in rows.labels],
        colorscale=RISING if magnitudes else DIVERGING,
        zmin=0.0 if magnitudes else -limit,
        zmax=limit,
        colorbar={"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 10}},
        hovertemplate=f"{entry}<br>%{{z:.8~g}}%{{text}}<extra></extra>",
        name=what,
    )
    if single and not magnitudes:
        heat.hovertemplate = f"{entry}<br>%{{z:.8~g}}<extra></extra>"
    else:
        heat.text = _texts(pooled, rows, columns, single)
    traces = [heat]
    if pooled.bad:
        one = pooled.bad == 1
        i, j = np.argwhere(~finite)[0]
        at = f"{rows.entry(pooled.at[0][i, j])}, {columns.entry(pooled.at[1][i, j])}"
        said.append(
            f"1 entry is not finite, at {at}"
            if one
            else f"{pooled.bad:,} entries are not finite, one of them at {at}"
        )
        words = np.where(
            np.isnan(cells), "NaN", np.where(shown < 0, "−infinity", "infinity")
        ).astype(object)
        places = _texts(pooled, rows, columns, single, values=False)
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
    note = "; ".join(said)
    return Plot(
        title, note, Figure(data=traces, layout=looks_of(title, note, rows, columns))
    )


def looks_of(title: str, note: str, rows: Axis, columns: Axis) -> dict[str, Any]:
    """The layout of a figure of a matrix: named axes, a line between groups."""
    lines = [
        {
            "type": "line",
            f"{across}0": edge - 0.5,
            f"{across}1": edge - 0.5,
            f"{along}0": 0,
            f"{along}1": 1,
            f"{along}ref": "paper",
            "line": {"color": BORDER, "width": 1},
        }
        for axis, across, along in ((columns, "x", "y"), (rows, "y", "x"))
        for edge in axis.edges()[1:-1]
    ]
    made = layout(title, note)
    made["xaxis"] = columns.settings(560, across=True)
    made["yaxis"] = rows.settings(320, across=False) | {"autorange": "reversed"}
    made["shapes"] = lines
    return made


def _limit(magnitudes: Array, robust: bool) -> tuple[float, int]:
    """Where the colours end, and how many cells are beyond."""
    largest = float(np.max(magnitudes, initial=0.0)) or 1.0
    nonzero = magnitudes[magnitudes > 0]
    if not robust or not nonzero.size:
        return largest, 0
    limit = float(np.quantile(nonzero, ROBUST, method="higher"))
    return limit, int(np.count_nonzero(magnitudes > limit))


def _texts(
    pooled: Pooled, rows: Axis, columns: Axis, single: bool, values: bool = True
) -> Array:
    """For each cell the place of the entry that it shows; of complex ones the entry.

    Nothing of a cell that is all zero.
    """
    cells = pooled.values
    made = np.full(cells.shape, "", object)  # host array: of texts
    complex_ = values and cells.dtype.kind == "c"
    # Indices along one axis come again and again.
    down = {k: rows.index(k) for k in np.unique(pooled.at[0]).tolist()}
    over = {k: columns.index(k) for k in np.unique(pooled.at[1]).tolist()}
    for i, j in np.argwhere(cells != 0).tolist():
        text = f" = |{cells[i, j]:.6g}|" if complex_ else ""
        if not single:
            a = down[int(pooled.at[0][i, j])]
            b = over[int(pooled.at[1][i, j])]
            text += f" at {a or '()'}, {b or '()'}"
        made[i, j] = text
    return made


def _share(part: float) -> str:
    """A share in percent: never 100 % of what is not all, nor 0 % of something."""
    text = f"{part:.0%}"
    if part < 1 and text == "100%":
        return "over 99%"
    return "under 1%" if part > 0 and text == "0%" else text
