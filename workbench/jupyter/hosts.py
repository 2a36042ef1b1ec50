"""Which widget draws the live graph of a session: that depends on the page's host."""

from __future__ import annotations

import sys
import weakref
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from workbench.core.schema import quote
from workbench.errors import UsageError
from workbench.session import Session

if TYPE_CHECKING:
    from workbench.jupyter.widget import LinkedWidget

#: What draws the live graph: the extension, or anywidget where there is none.
Front = Literal["lab", "anywidget"]
#: What a user may write.
WORDS = ("auto", "lab", "anywidget")
_widgets: weakref.WeakKeyDictionary[Session, dict[Front, LinkedWidget]] = (
    weakref.WeakKeyDictionary()
)


def choose_front(widget: str = "auto") -> Front:
    """Return the front that draws the live graph here, for the user's word."""
    check_word(widget)
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
    return "anywidget" if installed and has_foreign_host() else "lab"


def check_word(widget: object) -> None:
    """Raise an error for a word that names no widget.

    Raises
    ------
    UsageError
        With the words that there are.
    """
    if not isinstance(widget, str) or widget not in WORDS:
        words = ", ".join(f'"{word}"' for word in WORDS)
        raise UsageError(
            f'widget={quote(widget)} is none of {words}. "auto" takes'
            " anywidget in VS Code, Colab and marimo, where it is installed."
        )


def has_foreign_host() -> bool:
    """Return whether the page is of a host that cannot load the extension."""
    if "google.colab" in sys.modules:
        return True
    if in_marimo():
        return True
    ipython: Any = sys.modules.get("IPython.core.getipython")
    shell = None if ipython is None else ipython.get_ipython()
    # The name under which VS Code tells its kernels which notebook they run.
    return "__vsc_ipynb_file__" in getattr(shell, "user_ns", {})


def in_marimo() -> bool:
    """Return whether this is a notebook of marimo, which has no IPython."""
    marimo: Any = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def get_widget(session: Session, front: Front = "lab") -> LinkedWidget:
    """Return the widget of a session in a host; make the widget at the first call."""
    made = _widgets.setdefault(session, {})
    found = made.get(front)
    # marimo closes the line of a widget when the cell that drew it runs again.
    if found is None or getattr(found.comm, "_closed", found.comm is None):
        found = made[front] = _make_widget(session, front)
    return found


def _make_widget(session: Session, front: Front) -> LinkedWidget:
    if front == "lab":
        from workbench.jupyter.widget import GraphWidget

        return GraphWidget(session)
    from workbench.jupyter.anyfront import AnyGraphWidget

    return AnyGraphWidget(session)


def close_widget(session: Session) -> None:
    """Close the widgets of a session, if there are any."""
    for found in _widgets.pop(session, {}).values():
        found.close()
