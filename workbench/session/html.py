"""A session as one HTML file, which shows its picture without a kernel.

`page.html` is built from `extension/src/standalone/` by the build of the page. It holds
the renderer, and a place for the data of a picture: the same that a notebook keeps. Its
policy allows its own script and nothing from any network, and what the data names is
text.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core import hooks
from workbench.errors import UsageError
from workbench.session.wire import (
    encode_moments,
    list_details,
    save_snapshot,
    take_snapshot,
    write_lesson,
)
from workbench.session.wire.lesson import MOST_LESSON_NODES
from workbench.session.wire.notebook import MOST_SAVED

if TYPE_CHECKING:
    from workbench.session.session import Session

#: The page, beside this file.
PAGE = Path(__file__).with_name("page.html")
#: The element of the data in it.
ID = "workbench-data"
PLACE = f'<script type="application/json" id="{ID}">'
#: The element of the renderer, which is compressed.
RENDERER = '<script type="text/plain" id="workbench-renderer">'


@hooks.write_page.set
def write_html(session: Session, lesson: bool = False) -> str:
    """Return the HTML file of a session as text; with ``lesson`` it opens on that."""
    with session.lock:
        snapshot, moments = take_snapshot(session), encode_moments(session)
        sweeps = write_lesson(session, is_open=lesson)
        details = list_details(session)
    if lesson and sweeps is None:
        raise UsageError(
            f"a lesson shows gradients in programs of up to {MOST_LESSON_NODES} nodes,"
            f" and this one has {snapshot.header['nodes']:,}. Trace a smaller one, or"
            " leave out lesson=True."
        )
    saved = save_snapshot(snapshot, moments=moments, lesson=sweeps, details=details)
    if saved is None:
        raise UsageError(
            f"to_html writes pictures of up to {MOST_SAVED:,} nodes, and this program"
            f" has {snapshot.header['nodes']:,}. Trace a part of it, or fewer steps of"
            " its loop."
        )
    # In JSON "<" stands in texts alone. Written so, no label can end the script.
    data = json.dumps(saved, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    head, place, tail = _read_page().partition(PLACE)
    return head + place + data.replace("<", "\\u003c") + tail


def read_renderer() -> str:
    """Return the script of the page: a module that draws a graph without JupyterLab."""
    packed = _read_page().partition(RENDERER)[2].partition("</script>")[0]
    return zlib.decompress(base64.b64decode(packed)).decode()


def _read_page() -> str:
    try:
        return PAGE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            "this needs the page of pictures, which is not built in this checkout."
            " Build it: make lab, or jlpm install && jlpm build in extension/."
        ) from None
