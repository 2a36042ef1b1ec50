"""Which entries of a matrix are not zero, as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.jupyter.axis import Axis
from workbench.jupyter.figure import Figure, Plot, plain_text
from workbench.jupyter.heat import looks_of, size_note
from workbench.session.matrix import Matrix, Pattern

__all__ = ["sparsity_map"]

#: From few entries of a block to all of it: read on white and on black alike.
SHADES = [(0.0, "rgba(98, 128, 164, 0.6)"), (1.0, "rgba(98, 128, 164, 1)")]
#: The most entries of which the blocks are counted.
MOST_JOINED = 2**22


def sparsity_map(
    found: Matrix, rows: Axis, columns: Axis, title: str, progress: Any = None
) -> Plot:
    """The pattern of a matrix: a mark for each entry, or block, that is not zero."""
    blocks = (rows.block, columns.block)
    pattern = found.pattern(rows.window, columns.window, blocks, progress)
    sizes = np.outer(np.diff(rows.starts), np.diff(columns.starts))
    share = pattern.counts / np.maximum(sizes, 1)
    single = pattern.size == pattern.counts.size
    marks = go.Heatmap(
        z=np.where(pattern.counts > 0, share, np.nan).astype(np.float32),
        x=[plain_text(text) for text in columns.labels],
        y=[plain_text(text) for text in rows.labels],
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
        hovertemplate="%{y}, %{x}"
        + ("" if single else "<br>%{z:.2~p} of the block")
        + "<extra></extra>",
        name="not zero",
        # Marks that touch grow into one: a gap keeps single entries apart.
        xgap=1 if columns.cells <= 40 else 0,
        ygap=1 if rows.cells <= 40 else 0,
    )
    said = size_note(found, rows, columns) + _words(pattern)
    if not single:
        said.append(f"each cell is a block ({rows.block} × {columns.block})")
    if found.rows == found.columns and rows.window == columns.window:
        said += _band(pattern)
    if pattern.size == found.rows * found.columns:
        said += _joined(pattern, found)
    note = "; ".join(said)
    looks = looks_of(title, note, rows, columns)
    return Plot(title, note, Figure(data=[marks], layout=looks))


def _words(pattern: Pattern) -> list[str]:
    total = pattern.total
    if not total:
        return ["every entry is zero"]
    share = f"{total / max(pattern.size, 1):.2g}" if pattern.size else "0"
    percent = f"{100 * float(share):.3g}%"
    verb = "is" if total == 1 else "are"
    return [f"{total:,} of {pattern.size:,} entries {verb} not zero ({percent})"]


def _band(pattern: Pattern) -> list[str]:
    """How far entries reach from the diagonal, if that is less than all."""
    if not pattern.total:
        return []
    if pattern.below == pattern.above == 0:
        return ["diagonal"]
    below, above = pattern.below, pattern.above
    if max(below, above) >= np.sqrt(pattern.size) - 1:
        return []
    if below == above:
        return [f"bandwidth {below:,}"]
    return [f"bandwidth {below:,} below the diagonal, {above:,} above"]


def _joined(pattern: Pattern, found: Matrix) -> list[str]:
    """Into how many blocks the matrix falls when rows and columns are sorted."""
    if pattern.places is None or not 0 < pattern.total <= MOST_JOINED:
        return []
    from scipy import sparse
    from scipy.sparse import csgraph

    rows, columns = pattern.places
    count = found.rows + found.columns
    true = np.ones(len(rows), bool)  # host array: SciPy's
    links = sparse.csr_array(
        (true, (rows, columns.astype(np.int64) + found.rows)), shape=(count, count)
    )
    _, names = csgraph.connected_components(links, directed=False)
    # A row or column of zeros is joined to nothing.
    used = np.unique(names[rows])
    said = []
    if len(used) > 1:
        said.append(f"falls into {len(used):,} independent blocks")
    empty = found.columns - len(np.unique(columns))
    if empty:
        said.append(f"{empty:,} empty column{'s' * (empty != 1)}")
    empty = found.rows - len(np.unique(rows))
    if empty:
        said.append(f"{empty:,} empty row{'s' * (empty != 1)}")
    return said
