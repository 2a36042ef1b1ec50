"""Runs first in each kernel of the site: figures get a form for plain web pages."""

from __future__ import annotations

import json
from typing import Any

from IPython.core.getipython import get_ipython

PLOTLY = "application/vnd.plotly.v1+json"


def add_html(message: dict[str, Any]) -> dict[str, Any]:
    """Put a Plotly figure into HTML, which `_static/plots.js` draws."""
    data = message["content"].get("data", {})
    if PLOTLY in data:
        figure = json.dumps(data.pop(PLOTLY)).replace("</", "<\\/")
        script = f'<script type="application/json">{figure}</script>'
        data["text/html"] = f'<div class="plotly-figure">{script}</div>'
    return message


get_ipython().display_pub.register_hook(add_html)
