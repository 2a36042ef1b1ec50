"""`GraphWidget`: the live model in the page of one session."""

from __future__ import annotations

import weakref
from typing import Any

from ipywidgets import DOMWidget
from traitlets import Int, Unicode

from workbench.jupyter import link
from workbench.jupyter.link import Link
from workbench.session import Session

#: The npm package that holds the model and its view, and the version of both.
MODULE = "autodiff-workbench"
MODULE_VERSION = "0.1.0"


class GraphWidget(DOMWidget):  # type: ignore[misc]
    """The live graph of a session: what the page draws and changes.

    Made by `workbench.jupyter.show`; any number of views share it. It refers to
    the session weakly, and closes when that is gone.
    """

    _model_name = Unicode("GraphModel").tag(sync=True)
    _model_module = Unicode(MODULE).tag(sync=True)
    _model_module_version = Unicode(MODULE_VERSION).tag(sync=True)
    _view_name = Unicode("GraphView").tag(sync=True)
    _view_module = Unicode(MODULE).tag(sync=True)
    _view_module_version = Unicode(MODULE_VERSION).tag(sync=True)
    height = Int(560, help="The height of the picture in pixels").tag(sync=True)

    def __init__(self, session: Session, **settings: Any) -> None:
        super().__init__(**settings)
        self._link = Link(session, self.send)
        link.listen()
        weakref.finalize(session, _close, weakref.ref(self)).atexit = False

    def open(self) -> None:
        """Open the line to the page; what comes on it is handled where it asks."""
        super().open()
        # ipykernel 7.4 sends what a page says to where its comm was last written
        # from: once a cell has written there, to the end of all cells. The page names
        # a subshell of its own, which hears it while a cell runs. The name is private:
        # where it is missing, the kernel does what the page asks for.
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = _keep_subshell

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        self._link.receive(content)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take from the page what is the page's to say."""
        super().set_state({k: v for k, v in sync_data.items() if k == "layout"})

    def close(self) -> None:
        """Close the line to the page; the picture that is saved stays."""
        link = getattr(self, "_link", None)
        if link is not None:
            link.close()
        super().close()


def _keep_subshell(data: object, subshell: str | None) -> str | None:
    """Return the subshell that the page names, whatever it says there."""
    return subshell


def _close(widget: weakref.ref[GraphWidget]) -> None:
    found = widget()
    if found is not None:
        found.close()


_widgets: weakref.WeakKeyDictionary[Session, GraphWidget] = weakref.WeakKeyDictionary()


def widget_for(session: Session) -> GraphWidget:
    """Return the widget of a session, made when first asked for."""
    found = _widgets.get(session)
    if found is None or found.comm is None:
        found = _widgets[session] = GraphWidget(session)
    return found


def close(session: Session) -> None:
    """Close the widget of a session, if it has one."""
    found = _widgets.pop(session, None)
    if found is not None:
        found.close()
