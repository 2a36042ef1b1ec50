"""A Plotly figure that puts itself into a notebook, and looks well there."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from plotly import graph_objects as go

#: JupyterLab draws this by itself.
PLOTLY = "application/vnd.plotly.v1+json"
#: No button sends the data to a server.
CONFIG = {"displaylogo": False, "showSendToCloud": False}
#: Read on white and on black alike.
INK, GRID, BAD = "#7d8794", "rgba(128, 128, 128, 0.25)", "#c2185b"


class Figure(go.Figure):  # type: ignore[misc]
    """`plotly.graph_objects.Figure`, shown as data alone.

    Plotly would add the five megabytes of its own JavaScript to the notebook.
    """

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        title = self.layout.title.text or "figure"
        data = json.loads(self.to_json()) | {"config": CONFIG}
        return {PLOTLY: data, "text/plain": f"<{title}>"}

    def _ipython_display_(self) -> None:
        from IPython import display

        show: Any = display.display
        show(self._repr_mimebundle_(), raw=True)


@dataclass(frozen=True)
class Plot:
    """A figure with what the page writes above it.

    Attributes
    ----------
    title, note
        What it shows, and what is to be said of it.
    matrix
        Of a heat map, which entries of which matrix its cells stand for; None of
        another figure. `session/wire/protocol.py` says what is in it.
    views
        The kinds of plots that there are of the same nodes.
    """

    title: str
    note: str
    figure: Figure
    matrix: dict[str, Any] | None = None
    views: tuple[str, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        """The figure as JSON, for a page that writes title and note itself."""
        made: dict[str, Any] = json.loads(self.figure.to_json())
        del made["layout"]["title"]
        made["layout"]["margin"]["t"] = 16
        return made


def layout(title: str, note: str) -> dict[str, Any]:
    """Return the layout of a figure: title, note, and nothing behind it."""
    lines = [plain_text(line) for line in textwrap.wrap(note, 92)]
    return {
        "template": go.layout.Template(),
        "title": {
            "text": plain_text(title),
            "subtitle": {"text": "<br>".join(lines), "font": {"size": 11}},
            "font": {"size": 14},
            "x": 0.01,
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14},
        },
        "font": {"color": INK, "size": 12},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "margin": {"l": 80, "r": 20, "t": 46 + 16 * len(lines), "b": 48},
        "height": 420,
    }


def plain_text(text: str) -> str:
    """Return a text that Plotly does not read as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
