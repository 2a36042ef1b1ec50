"""Gives outputs a form for plain web pages: it runs first in each kernel of the site.

`build.py` gives the kept outputs of the tutorials the same form.
"""

from __future__ import annotations

import base64
import html
import json
from typing import Any

from IPython.core.getipython import get_ipython

PLOTLY = "application/vnd.plotly.v1+json"
GRAPH = "application/vnd.workbench.graph+json"
SVG = "image/svg+xml"


def write_script(content: Any) -> str:
    """Return an element that holds data and runs nothing."""
    text = json.dumps(content).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


def add_html(data: dict[str, Any]) -> None:
    """Put figures and graphs into HTML, for `_static/plots.js` and `pictures.js`."""
    if PLOTLY in data:
        script = write_script(data.pop(PLOTLY))
        data["text/html"] = f'<div class="plotly-figure">{script}</div>'
    if GRAPH in data and SVG in data:
        image = base64.b64encode(data[SVG].encode()).decode()
        words = html.escape(data.get("text/plain", "a graph").partition("\n")[0])
        data["text/html"] = (
            f'<div class="workbench-picture"><img alt="{words}"'
            f' src="data:{SVG};base64,{image}">{write_script(data.pop(GRAPH))}</div>'
        )


def change_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a kernel with its output as HTML too."""
    add_html(message["content"].get("data", {}))
    return message


shell = get_ipython()
if shell is not None:
    shell.display_pub.register_hook(change_message)
