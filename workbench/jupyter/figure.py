"""A Plotly figure that puts itself into a notebook, and looks well there."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from plotly import graph_objects as go

from workbench.session.wire.protocol.fields import Outcome

#: JupyterLab renders this type itself.
PLOTLY = "application/vnd.plotly.v1+json"
#: No button sends the data to a server.
CONFIG = {"displaylogo": False, "showSendToCloud": False}
#: Readable on white and on black.
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
    """A figure with the texts that the page writes above.

    Attributes
    ----------
    title, note
        The title of the figure, and a note on it.
    matrix
        For a heat map, the matrix and the entries of its cells; None for another
        figure. `extension/src/wire/protocol.ts` lists its keys.
    views
        The kinds of plots of the same nodes.
    overrides
        The overrides in force, or those that a true derivative leaves out.
    is_true
        Whether overrides are left out.
    verdict
        For a derivative "changed" where overrides are in force; for a gradient check
        what it says; None where nothing was checked.
    zero
        Why all entries are zero; empty where they are not.
    caption
        The part of the note about overrides.
    """

    title: str
    note: str
    figure: Figure
    matrix: dict[str, Any] | None = None
    views: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    is_true: bool = False
    verdict: Outcome | None = None
    zero: str = ""
    caption: str = ""

    @property
    def page_note(self) -> str:
        """The note without the parts that the page shows in lines of their own."""
        own = {self.caption, self.zero, f"zero everywhere: {self.zero}"}
        return "; ".join(part for part in self.note.split("; ") if part not in own)

    @property
    def data(self) -> dict[str, Any]:
        """The figure as JSON, for a page that writes title and note itself."""
        made: dict[str, Any] = json.loads(self.figure.to_json())
        del made["layout"]["title"]
        made["layout"]["margin"]["t"] = 16
        return made


def make_layout(title: str, note: str) -> dict[str, Any]:
    """Return the layout of a figure: title, note, transparent background."""
    lines = [escape_text(line) for line in textwrap.wrap(note, 92)]
    return {
        "template": go.layout.Template(),
        "title": {
            "text": escape_text(title),
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


def escape_text(text: str) -> str:
    """Escape a text, so that Plotly finds no markup inside."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
