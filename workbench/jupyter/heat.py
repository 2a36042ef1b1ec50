"""Matrices as heat maps around zero, their axes named, large ones pooled."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from plotly import graph_objects as go

from workbench.jupyter.figure import BAD, GRID, Figure, Plot, layout, plain_text

__all__ = ["Axis", "heat_map", "pooled"]

Array = np.ndarray[Any, Any]

#: The most cells of a figure along one axis.
MOST_CELLS = 200
#: Blue below zero, orange above, nothing at zero: on a light and on a dark page.
DIVERGING: list[tuple[float, str]] = [
    (0.0, "rgb(21, 101, 192)"),
    (0.25, "rgb(100, 164, 232)"),
    (0.5, "rgba(128, 128, 128, 0.04)"),
    (0.75, "rgb(255, 167, 80)"),
    (1.0, "rgb(216, 72, 0)"),
]


#: The same from zero on, for magnitudes.
RISING = [(2 * place - 1, colour) for place, colour in DIVERGING if place >= 0.5]


class Axis:
    """The entries along one side of a matrix: groups of named, indexed entries."""

    def __init__(self, parts: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        names = [name for name, _ in parts]
        self.parts = [
            (name if names.count(name) == 1 else f"{name} ({k + 1})", shape)
            for k, (name, shape) in enumerate(parts)
        ]
        self.sizes = [int(np.prod(shape, dtype=np.int64)) for _, shape in parts]
        self.size = sum(self.sizes)
        self.block = -(-self.size // MOST_CELLS)
        #: The first entry of each cell of the figure, and the end.
        self.starts: list[int] = []
        for begin, size in zip(self._begins(), self.sizes, strict=True):
            self.starts += range(begin, begin + size, self.block)
        self.starts.append(self.size)

    def _begins(self) -> list[int]:
        return [0, *accumulate(self.sizes)][:-1]

    def entry(self, flat: int) -> str:
        """How one writes an entry: ``W1[3, 1]``."""
        for (name, shape), begin, size in zip(
            self.parts, self._begins(), self.sizes, strict=True
        ):
            if begin <= flat < begin + size:
                index = np.unravel_index(flat - begin, shape) if shape else ()
                inside = ", ".join(str(int(i)) for i in index)
                return f"{name}[{inside}]" if shape else name
        raise IndexError(flat)

    @property
    def labels(self) -> list[str]:
        """One text for each cell."""
        found = []
        for begin, end in pairwise(self.starts):
            label = self.entry(begin)
            if end - begin > 1:
                label += f" … {self.entry(end - 1)}"
            found.append(label)
        return found

    def settings(self, most: int) -> dict[str, Any]:
        """The axis of the figure: names at their middles, single entries if few."""
        cells = len(self.starts) - 1
        made: dict[str, Any] = {
            "type": "category",
            "tickfont": {"size": 11},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickmode": "array",
            "tickangle": 0,
        }
        if len(self.parts) == 1 or cells <= most:
            places = list(range(0, cells, -(-cells // most)))
            texts = [plain_text(self.entry(self.starts[k])) for k in places]
            return made | {"tickvals": places, "ticktext": texts}
        middles, texts, edges = [], [], self.edges()
        for (name, _), a, b in zip(self.parts, edges[:-1], edges[1:], strict=True):
            if b - a >= cells / 40:
                middles.append((a + b - 1) / 2)
                texts.append(plain_text(name))
        return made | {"tickvals": middles, "ticktext": texts}

    def edges(self) -> list[int]:
        """The cells at which the groups begin, and the end."""
        found = np.searchsorted(self.starts, [*self._begins(), self.size])
        return [int(k) for k in found]


def pooled(matrix: Array, rows: Sequence[int], columns: Sequence[int]) -> Array:
    """The entry of largest magnitude of each block; NaN where one is in it."""
    found = matrix
    for axis, starts in enumerate((rows, columns)):
        if len(starts) - 1 < found.shape[axis]:
            # Both ends of each block tell which is larger; NaN passes through both.
            low = np.minimum.reduceat(found, starts[:-1], axis=axis)
            high = np.maximum.reduceat(found, starts[:-1], axis=axis)
            found = np.where(-low > high, low, high)
    return found


def heat_map(matrix: Array, rows: Axis, columns: Axis, title: str, what: str) -> Plot:
    """A matrix as a heat map around zero."""
    notes = [f"{rows.size} × {columns.size}"]
    magnitudes = matrix.dtype.kind == "c"
    if magnitudes:
        matrix = abs(matrix)
        notes.append("magnitudes of complex numbers")
    bad = int(np.sum(~np.isfinite(matrix)))
    cells = pooled(matrix, rows.starts, columns.starts).astype(np.float32)
    if cells.shape != matrix.shape:
        largest = "each cell shows the largest magnitude of its block"
        notes.append(f"{largest} ({rows.block} × {columns.block})")
    finite = cells[np.isfinite(cells)]
    limit = float(np.max(abs(finite), initial=0.0)) or 1.0
    zeros = int(np.sum(matrix == 0))
    if zeros:
        notes.append(f"{zeros / matrix.size:.0%} zeros")
    shown = np.where(np.isfinite(cells), cells, np.nan)
    second = what == "Hessian"
    entry = "∂² / ∂ %{y} ∂ %{x}" if second else "∂ %{y} / ∂ %{x}"
    heat = go.Heatmap(
        z=shown,
        x=[plain_text(text) for text in columns.labels],
        y=[plain_text(text) for text in rows.labels],
        colorscale=RISING if magnitudes else DIVERGING,
        zmin=0.0 if magnitudes else -limit,
        zmax=limit,
        colorbar={"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 10}},
        hovertemplate=f"{entry}<br>%{{z:.4g}}<extra></extra>",
        name=what,
    )
    traces = [heat]
    if bad:
        notes.append(f"{bad} {'entries are' if bad > 1 else 'entry is'} not finite")
        traces.append(
            go.Heatmap(
                z=np.where(np.isfinite(cells), np.nan, 1.0).astype(np.float32),
                x=heat.x,
                y=heat.y,
                colorscale=[[0, BAD], [1, BAD]],
                showscale=False,
                hovertemplate=f"{entry}<br>not finite<extra></extra>",
                name="not finite",
            )
        )
    lines = [
        {
            "type": "line",
            f"{across}0": edge - 0.5,
            f"{across}1": edge - 0.5,
            f"{along}0": 0,
            f"{along}1": 1,
            f"{along}ref": "paper",
            "line": {"color": GRID, "width": 1},
        }
        for axis, across, along in ((columns, "x", "y"), (rows, "y", "x"))
        for edge in axis.edges()[1:-1]
    ]
    note = "; ".join(notes)
    looks = layout(title, note)
    looks["xaxis"] = columns.settings(8)
    looks["yaxis"] = rows.settings(16) | {"autorange": "reversed"}
    looks["shapes"] = lines
    return Plot(title, note, Figure(data=traces, layout=looks))
