"""A Plotly figure that puts itself into a notebook, and nothing else with it."""

from __future__ import annotations

import json
from typing import Any

from plotly import graph_objects as go

__all__ = ["PLOTLY", "Figure"]

#: JupyterLab draws this by itself.
PLOTLY = "application/vnd.plotly.v1+json"


class Figure(go.Figure):  # type: ignore[misc]
    """`plotly.graph_objects.Figure`, shown as data alone.

    Plotly would add the five megabytes of its own JavaScript to the notebook.
    """

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        title = self.layout.title.text or "figure"
        return {PLOTLY: json.loads(self.to_json()), "text/plain": f"<{title}>"}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)
