"""`GraphWidget`: the live model in the page of one session.

It is drawn by the extension of JupyterLab and Notebook. Other hosts draw the widget of
`anyfront.py`, which talks by the same link; `hosts.py` chooses.
"""

from __future__ import annotations

import json
import weakref
from typing import Any

from IPython.core.getipython import get_ipython
from ipywidgets import DOMWidget
from traitlets import Int, Unicode

from workbench.jupyter import jobs
from workbench.jupyter.link import Link
from workbench.session import Session
from workbench.session.wire import SCHEMA

#: The npm package that holds the model and its view, and the version of the wire.
MODULE = "autodiff-workbench"
MODULE_VERSION = f"{SCHEMA}.0.0"


class LinkedWidget(DOMWidget):  # type: ignore[misc]
    """The live graph of a session, which the page draws and changes.

    Made by `workbench.jupyter.show`; any number of views share it. It has a weak
    reference to the session, and closes when the session is deleted.
    """

    height = Int(560, help="The height of the picture in pixels").tag(sync=True)

    def __init__(self, session: Session, **settings: Any) -> None:
        super().__init__(**settings)
        self._link = Link(session, self._post, is_running=CELLS.is_running)
        CELLS.follow(self._link)
        jobs.listen()
        weakref.finalize(session, _close_reference, weakref.ref(self)).atexit = False

    def open(self) -> None:
        """Open the line to the page, so that its messages use its own subshell."""
        super().open()
        # ipykernel 7.4 sends a page's messages to the subshell that last wrote to its
        # comm; after a cell has written, they wait until all cells have run. The page
        # names a subshell of its own, which answers while a cell runs. The attribute
        # is private: without it, messages wait for the running cells.
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = _keep_subshell

    def _post(self, message: dict[str, Any], buffers: list[Any]) -> None:
        """Send a message to the page."""
        if jobs.IN_BROWSER:
            # As JavaScript's values, it would lose each field that is None.
            message = {"json": json.dumps(message)}
        self.send(message, buffers)

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        if jobs.IN_BROWSER:
            # Pyodide gives a null of JavaScript as an object of its own.
            content = json.loads(json.dumps(content, default=lambda _: None))
        self._link.receive(content)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Accept only the part of the state that the page owns."""
        super().set_state({k: v for k, v in sync_data.items() if k == "layout"})

    def make_view(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what draws the widget in an output, and the metadata of that."""
        return {}, {}

    def close(self) -> None:
        """Close the line to the page; the saved picture stays."""
        link = getattr(self, "_link", None)
        if link is not None:
            link.close()
        super().close()


class GraphWidget(LinkedWidget):
    """The live graph in JupyterLab and Notebook, which load its other half."""

    _model_name = Unicode("GraphModel").tag(sync=True)
    _model_module = Unicode(MODULE).tag(sync=True)
    _model_module_version = Unicode(MODULE_VERSION).tag(sync=True)
    _view_name = Unicode("GraphView").tag(sync=True)
    _view_module = Unicode(MODULE).tag(sync=True)
    _view_module_version = Unicode(MODULE_VERSION).tag(sync=True)


class _Cells:
    """Knows whether a cell runs; the steps of its loops are over when it ends."""

    def __init__(self) -> None:
        self._shell: Any = None
        self._running = False
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()

    def is_running(self) -> bool:
        """Return whether a cell of the notebook runs."""
        return self._running

    def follow(self, link: Link) -> None:
        """Tell a link when a cell is over."""
        self._links.add(link)
        shell: Any = get_ipython()
        if shell is not None and shell is not self._shell:
            self._shell = shell
            self._running = True  # the cell that shows the session
            shell.events.register("pre_run_cell", self._begin)
            shell.events.register("post_run_cell", self._end)

    def _begin(self, *_: Any) -> None:
        self._running = True
        self._end_steps()

    def _end(self, *_: Any) -> None:
        self._running = False
        self._end_steps()

    def _end_steps(self) -> None:
        for one in list(self._links):
            one.end_step()


#: The cells of this kernel.
CELLS = _Cells()


def _keep_subshell(data: object, subshell: str | None) -> str | None:
    """Return the subshell that the page names."""
    return subshell


def _close_reference(widget: weakref.ref[LinkedWidget]) -> None:
    found = widget()
    if found is not None:
        found.close()
