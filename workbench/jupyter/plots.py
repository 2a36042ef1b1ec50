"""Plotly figures of a session: Jacobians, Hessians, gradient checks.

Each function returns a `plotly.graph_objects.Figure`; a notebook or a page draws
it. Large matrices are pooled: a cell of the figure shows the entry of largest
magnitude of its block, and a block with a NaN shows the NaN. Nothing here loads
Plotly until a figure is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import UsageError
from workbench.graph import walk
from workbench.graph.tensor import Tensor
from workbench.session import Session
from workbench.session.nodes import Node

if TYPE_CHECKING:
    from workbench.checks.report import Entry, Report
    from workbench.jupyter.figure import Figure

__all__ = ["check", "hessian", "jacobian"]

Array = np.ndarray[Any, Any]
Wrt = Iterable[Node] | Node | None

#: The most cells of a figure along one axis, and entries of a matrix in all.
MOST_CELLS = 200
MOST_ENTRIES = 10_000_000
#: Blue below zero, orange above, nothing at zero: on a light and on a dark page.
DIVERGING = [
    [0.0, "rgb(21, 101, 192)"],
    [0.25, "rgb(100, 164, 232)"],
    [0.5, "rgba(128, 128, 128, 0.04)"],
    [0.75, "rgb(255, 167, 80)"],
    [1.0, "rgb(216, 72, 0)"],
]
#: Read on white and on black alike.
INK, GRID, BAD = "#7d8794", "rgba(128, 128, 128, 0.25)", "#c2185b"
VERDICTS = {
    "right": ("agrees", "#6f8fa8", "circle"),
    "wrong": ("wrong", "#d32f2f", "x"),
    "kink": ("kink", "#ef8f00", "diamond"),
    "unsure": ("differences cannot tell", "#9aa3ad", "circle-open"),
}


@dataclass(frozen=True)
class Plot:
    """A figure with what the page writes above it."""

    title: str
    note: str
    figure: Figure

    @property
    def data(self) -> dict[str, Any]:
        """The figure as JSON; NaN has become null."""
        made: dict[str, Any] = json.loads(self.figure.to_json())
        return made


def jacobian(session: Session, of: Node | None = None, wrt: Wrt = None) -> Figure:
    """The Jacobian of one node by others, as a heat map.

    Parameters
    ----------
    session
        The program; its overrides are applied.
    of
        The node, its name or id. By default the output; where that is one number,
        the last named array before it.
    wrt
        One or several nodes, side by side; by default the session's ``wrt``.

    Raises
    ------
    UsageError
        If the matrix would have more than ten million entries.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> jacobian(session, "tanh 1").data[0].z.shape
    (3, 3)
    """
    return jacobian_plot(session, of, wrt).figure


def hessian(session: Session, wrt: Wrt = None) -> Figure:
    """The Hessian of the output, all blocks, as a heat map.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> hessian(session).data[0].z.shape
    (3, 3)
    """
    return hessian_plot(session, wrt).figure


def check(session: Session, wrt: Wrt = None) -> Figure:
    """The error of each gradient entry against differences, with its tolerance.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> check(session).data[0].name
    'agrees'
    """
    return check_plot(session, wrt).figure


# Matrices


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
        return np.concatenate([[0], np.cumsum(self.sizes)])[:-1].astype(int).tolist()

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
        for begin, end in zip(self.starts, self.starts[1:], strict=False):
            first = self.entry(begin)
            found.append(first if end - begin == 1 else f"{first} … +{end - begin - 1}")
        return found

    def settings(self) -> dict[str, Any]:
        """The axis of the figure: names at their middles, single entries if few."""
        cells = len(self.starts) - 1
        made: dict[str, Any] = {
            "tickfont": {"size": 11},
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "tickmode": "array",
        }
        if cells <= 24:
            return made | {"tickvals": list(range(cells)), "ticktext": self.labels}
        if len(self.parts) == 1:
            step = -(-cells // 8)
            places = list(range(0, cells, step))
            texts = [self.entry(self.starts[k]) for k in places]
            return made | {"tickvals": places, "ticktext": texts}
        middles, texts, edges = [], [], self.edges()
        for (name, _), a, b in zip(self.parts, edges, edges[1:], strict=False):
            if b - a >= cells / 40:
                middles.append((a + b) / 2 - 0.5)
                texts.append(name)
        return made | {"tickvals": middles, "ticktext": texts}

    def edges(self) -> list[int]:
        """The cells at which the groups begin, and the end."""
        return np.searchsorted(self.starts, [*self._begins(), self.size]).tolist()


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


def _heat(matrix: Array, rows: Axis, columns: Axis, title: str, what: str) -> Plot:
    """A matrix as a heat map around zero."""
    from plotly import graph_objects as go

    from workbench.jupyter.figure import Figure

    notes = [f"{rows.size} × {columns.size}"]
    if matrix.dtype.kind == "c":
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
    heat = go.Heatmap(
        z=shown,
        x=list(range(cells.shape[1])),
        y=list(range(cells.shape[0])),
        colorscale=DIVERGING,
        zmid=0,
        zmin=-limit,
        zmax=limit,
        colorbar={"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 10}},
        customdata=None,
        hovertemplate="%{y} by %{x}<br>%{z:.4g}<extra></extra>",
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
                hovertemplate="%{y} by %{x}<br>not finite<extra></extra>",
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
    layout = _layout(title, note)
    layout["xaxis"] = columns.settings()
    layout["yaxis"] = rows.settings() | {"autorange": "reversed"}
    layout["shapes"] = lines
    return Plot(title, note, Figure(data=traces, layout=layout))


def _layout(title: str, note: str) -> dict[str, Any]:
    from plotly import graph_objects as go

    return {
        "template": go.layout.Template(),
        "title": {
            "text": _plain(title),
            "subtitle": {"text": _plain(note), "font": {"size": 11}},
            "font": {"size": 14},
            "x": 0.01,
            "xanchor": "left",
        },
        "font": {"color": INK, "size": 12},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "margin": {"l": 80, "r": 20, "t": 64, "b": 48},
        "height": 420,
    }


def _plain(text: str) -> str:
    """A text that Plotly does not read as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _parts(session: Session, wrt: Wrt) -> tuple[list[int], Axis]:
    """The ids that something is differentiated by, and their axis."""
    if wrt is None:
        ids = list(session.wrt)
    else:
        several = [wrt] if isinstance(wrt, (str, int, Tensor)) else list(wrt)
        ids = [session.nodes.find(x) for x in several]
    nodes, labels = session.graph.nodes, session.nodes.labels
    return ids, Axis([(labels[i], nodes[i].shape) for i in ids])


def _refuse_large(rows: Axis, columns: Axis, what: str) -> None:
    if rows.size * columns.size > MOST_ENTRIES:
        raise UsageError(
            f"{what} would have {rows.size} × {columns.size} entries; the most is"
            f" {MOST_ENTRIES:,}. Choose a smaller node, or fewer variables."
        )


def last_array(session: Session) -> int:
    """The output; where that is one number, the last named array on the way to it."""
    nodes = session.graph.nodes
    if nodes[session.output].size > 1:
        return session.output
    varying = walk.reaches(nodes, [nodes[i] for i in session.wrt])
    leaves = {*session.wrt}
    for i in range(session.output - 1, -1, -1):
        node = nodes[i]
        if node.name and node.size > 1 and node.serial in varying and i not in leaves:
            return i
    return session.output


def jacobian_plot(session: Session, of: Node | None, wrt: Wrt) -> Plot:
    """See `jacobian`."""
    row = last_array(session) if of is None else session.nodes.find(of)
    ids, columns = _parts(session, wrt)
    node, label = session.graph.nodes[row], session.nodes.labels[row]
    rows = Axis([(label, node.shape)])
    by = ", ".join(name for name, _ in columns.parts)
    _refuse_large(rows, columns, f"the Jacobian of {label} by {by}")
    blocks = [
        np.reshape(session.jacobian(row, i), (rows.size, size))
        for i, size in zip(ids, columns.sizes, strict=True)
    ]
    return _heat(
        np.concatenate([host(b) for b in blocks], 1),
        rows,
        columns,
        f"Jacobian ∂{label} / ∂{by if len(ids) == 1 else f'({by})'}",
        "Jacobian",
    )


def hessian_plot(session: Session, wrt: Wrt) -> Plot:
    """See `hessian`."""
    ids, axis = _parts(session, wrt)
    label = session.nodes.labels[session.output]
    by = ", ".join(name for name, _ in axis.parts)
    _refuse_large(axis, axis, f"the Hessian of {label} by {by}")
    found = session.hessian(ids)
    matrix = np.concatenate(
        [
            np.concatenate(
                [
                    host(block).reshape(height, width)
                    for block, width in zip(row.values(), axis.sizes, strict=True)
                ],
                1,
            )
            for row, height in zip(found.values(), axis.sizes, strict=True)
        ]
    )
    return _heat(matrix, axis, axis, f"Hessian ∂²{label} / ∂({by})²", "Hessian")


def host(array: Any) -> Array:
    """An array in main memory."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


# Checks


def check_plot(session: Session, wrt: Wrt) -> Plot:
    """See `check`."""
    ids, _ = _parts(session, wrt)
    return report_plot(session.check(ids), session.nodes.labels[session.output])


def report_plot(report: Report, label: str) -> Plot:
    """A check's report as a figure: one point per entry, grouped by variable."""
    from plotly import graph_objects as go

    from workbench.jupyter.figure import Figure

    groups = [c for c in report.comparisons if c.entries]
    entries = [e for c in groups for e in c.entries]
    positive = [x for e in entries for x in (e.error, e.tolerance) if 0 < x < np.inf]
    floor = min(positive, default=1e-16) / 10
    shown = [
        min(max(e.error, floor), 1e300) if e.error == e.error else floor
        for e in entries
    ]
    traces = []
    for verdict, (text, colour, symbol) in VERDICTS.items():
        chosen = [k for k, e in enumerate(entries) if e.verdict == verdict]
        if chosen:
            traces.append(
                go.Scatter(
                    x=chosen,
                    y=[shown[k] for k in chosen],
                    mode="markers",
                    name=text,
                    marker={"color": colour, "symbol": symbol, "size": 7},
                    text=[_hover(entries[k]) for k in chosen],
                    hovertemplate="%{text}<extra></extra>",
                )
            )
    traces.append(
        go.Scatter(
            x=list(range(len(entries))),
            y=[e.tolerance for e in entries],
            mode="lines",
            name="tolerance",
            line={"color": "#388e3c", "dash": "dot", "width": 1.5, "shape": "hvh"},
            hovertemplate="tolerance %{y:.2g}<extra></extra>",
        )
    )
    title = f"Gradient check of {label}"
    note = report.summary()
    layout = _layout(title, _wrapped(note))
    layout["margin"]["t"] = 64 + 14 * layout["title"]["subtitle"]["text"].count("<br>")
    middles, texts, lines, start = [], [], [], 0
    for c in groups:
        middles.append(start + (len(c.entries) - 1) / 2)
        texts.append(_plain(c.argument))
        start += len(c.entries)
        lines.append(start - 0.5)
    layout["xaxis"] = {
        "tickvals": middles,
        "ticktext": texts,
        "showgrid": False,
        "zeroline": False,
    }
    layout["yaxis"] = {
        "type": "log",
        "title": {"text": "error"},
        "exponentformat": "power",
        "gridcolor": GRID,
        "dtick": 2,
    }
    layout["shapes"] = [
        {
            "type": "line",
            "x0": x,
            "x1": x,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": GRID, "width": 1},
        }
        for x in lines[:-1]
    ]
    layout["annotations"] = _marks(entries, shown)
    layout["legend"] = {"orientation": "h", "y": -0.12, "x": 0}
    return Plot(title, note, Figure(data=traces, layout=layout))


def _hover(e: Entry) -> str:
    words = VERDICTS[e.verdict][0]
    return _plain(
        f"{e.place}: {words}, error {e.error:.2g} (tolerance {e.tolerance:.2g})"
    )


def _marks(entries: Sequence[Entry], shown: Sequence[float]) -> list[dict[str, Any]]:
    """The worst entry and the kinks in words, a few of them."""
    worst = max(range(len(entries)), key=lambda k: entries[k].badness, default=None)
    kinks = [k for k, e in enumerate(entries) if e.verdict == "kink"][:6]
    made = []
    for k in dict.fromkeys([*([] if worst is None else [worst]), *kinks]):
        e = entries[k]
        word = "kink" if e.verdict == "kink" else "worst"
        made.append(
            {
                "x": k,
                "y": float(np.log10(shown[k])),
                "text": _plain(f"{e.place}: {word}"),
                "showarrow": True,
                "arrowhead": 0,
                "arrowcolor": INK,
                "ax": 0,
                "ay": -24,
                "font": {"size": 11, "color": VERDICTS[e.verdict][1]},
            }
        )
    return made


def _wrapped(text: str, width: int = 110) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))
