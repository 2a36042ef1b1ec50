"""The live models of a session in a page: in JupyterLab's own, and in other hosts.

`GraphWidget` is drawn by the extension of JupyterLab and Notebook. Hosts without it,
such as VS Code, draw the widget of `anyfront.py`. Both talk by the same link.
"""

from __future__ import annotations

import sys
import weakref
from importlib.util import find_spec
from typing import Any, Literal

from ipywidgets import DOMWidget
from traitlets import Int, Unicode

from workbench.errors import UsageError
from workbench.jupyter import link
from workbench.jupyter.link import Link
from workbench.session import Session

#: The npm package that holds the model and its view, and the version of both.
MODULE = "autodiff-workbench"
MODULE_VERSION = "0.1.0"


class LinkedWidget(DOMWidget):  # type: ignore[misc]
    """The live graph of a session, which the page draws and changes.

    Made by `workbench.jupyter.show`; any number of views share it. It has a weak
    reference to the session, and closes when the session is deleted.
    """

    height = Int(560, help="The height of the picture in pixels").tag(sync=True)

    def __init__(self, session: Session, **settings: Any) -> None:
        super().__init__(**settings)
        self._link = Link(session, self.send)
        link.listen()
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

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        self._link.receive(content)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Accept only the part of the state that the page owns."""
        super().set_state({k: v for k, v in sync_data.items() if k == "layout"})

    @property
    def view_data(self) -> dict[str, Any]:
        """What an output holds beside the saved picture so that this is drawn."""
        return {}

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


def _keep_subshell(data: object, subshell: str | None) -> str | None:
    """Return the subshell that the page names."""
    return subshell


def _close_reference(widget: weakref.ref[LinkedWidget]) -> None:
    found = widget()
    if found is not None:
        found.close()


#: What draws the live graph: the extension, or anywidget where there is none.
Front = Literal["lab", "anywidget"]
_widgets: weakref.WeakKeyDictionary[Session, dict[Front, LinkedWidget]] = (
    weakref.WeakKeyDictionary()
)


def choose_front(widget: str = "auto") -> Front:
    """Return what draws the live graph here, for the word that the user gave."""
    if widget == "lab":
        return "lab"
    installed = find_spec("anywidget") is not None
    if widget == "anywidget":
        if not installed:
            raise UsageError(
                'widget="anywidget" needs the package anywidget:'
                " pip install 'autodiff-workbench[anywidget]'."
            )
        return "anywidget"
    if widget != "auto":
        raise UsageError(
            f'widget={widget!r} is none of "auto", "lab", "anywidget". "auto" takes'
            " anywidget in VS Code, Colab and marimo, where it is installed."
        )
    return "anywidget" if installed and has_foreign_host() else "lab"


def has_foreign_host() -> bool:
    """Return whether the page is of a host that cannot load the extension."""
    if "google.colab" in sys.modules:
        return True
    marimo: Any = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return True
    ipython: Any = sys.modules.get("IPython.core.getipython")
    shell = None if ipython is None else ipython.get_ipython()
    # The name under which VS Code tells its kernels which notebook they run.
    return "__vsc_ipynb_file__" in getattr(shell, "user_ns", {})


def get_widget(session: Session, front: Front = "lab") -> LinkedWidget:
    """Return the widget of a session in a host; make it at the first call."""
    made = _widgets.setdefault(session, {})
    found = made.get(front)
    if found is None or found.comm is None:
        found = made[front] = _make_widget(session, front)
    return found


def _make_widget(session: Session, front: Front) -> LinkedWidget:
    if front == "lab":
        return GraphWidget(session)
    from workbench.jupyter.anyfront import AnyGraphWidget

    return AnyGraphWidget(session)


def close_widget(session: Session) -> None:
    """Close the widgets of a session, if it has any."""
    for found in _widgets.pop(session, {}).values():
        found.close()
