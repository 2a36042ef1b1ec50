"""How a session appears in a notebook: one output, live where a kernel runs.

The output holds three forms of the same picture: our own data, which the page
draws and joins to the live session; an SVG for pages without the extension; text
for those without pictures. After a change of the session the saved output is
brought up to date, so that the notebook keeps what was last seen.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core import walk
from workbench.core.arguments import check_graph
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.jupyter import plots
from workbench.jupyter.link import Later, after
from workbench.jupyter.picture import picture
from workbench.session import Session
from workbench.session.matrix import to_host
from workbench.session.wire import MIME_TYPE, failed, saved, take
from workbench.symbolic.function import Function

if TYPE_CHECKING:
    from workbench.jupyter.widget import GraphWidget

#: Seconds without a change after which the saved output is brought up to date.
CALM = 1.0

# What goes into the output of a cell.


def publish(bundle: dict[str, Any], *, keep: bool = False) -> Any:
    """Show data in the output of the cell; with ``keep`` a handle to update it."""
    from IPython import display

    show: Any = display.display
    return show(bundle, raw=True, display_id=True) if keep else show(bundle, raw=True)


def current_shell() -> Any:
    """Return the IPython shell of this process; None where there is none."""
    loaded: Any = sys.modules.get("IPython.core.getipython")
    return None if loaded is None else loaded.get_ipython()


def in_notebook() -> bool:
    """Return whether there is an IPython to show things in."""
    return current_shell() is not None


def bundle(session: Session, model_id: str = "") -> dict[str, Any]:
    """Return a session as the output of a cell: our data, SVG and text."""
    with session.lock:
        snapshot = take(session)
        text = in_words(session)
    kept = saved(snapshot, model_id)
    if kept is None:
        nodes = snapshot.header["nodes"]
        message = (
            f"{nodes:,} nodes are too many to be saved in a notebook. Run the cell"
            " again to see them."
        )
        kept = saved(failed(Graph([], []), session.name, message), model_id)
    return {MIME_TYPE: kept, "image/svg+xml": picture(snapshot), "text/plain": text}


def in_words(session: Session) -> str:
    """Return a session as text: what it is, and how large each gradient is."""
    lines = [repr(session)]
    if session.backward is not None:
        for name, g in session.grads.items():
            size = float(np.linalg.norm(to_host(g).ravel()))
            lines.append(f"  ‖∂/∂{name}‖ = {size:.4g}")
    lines += [f"  {one!r}" for one in session.overrides]
    return "\n".join(lines)


class Shown:
    """One output of one session: refreshed a moment after it has changed."""

    def __init__(
        self,
        session: Session,
        *,
        clock: Callable[[], float] = time.monotonic,
        later: Later = after,
    ) -> None:
        self._session = weakref.ref(session)
        self._widget = widget_of(session)
        self._clock = clock
        self._later = later
        self._changed: float | None = None
        self._handle = publish(bundle(session, self._widget.model_id), keep=True)
        self._end = session.subscribe(_notifier(weakref.ref(self)))
        settle_after_cells()

    def changed(self) -> None:
        """Refresh once nothing has changed for a moment; with one timer at most."""
        waits = self._changed is not None
        self._changed = self._clock()
        if not waits:
            self._later(CALM, self._look)

    def _look(self) -> None:
        changed = self._changed
        if changed is None:
            return
        left = changed + CALM - self._clock()
        if left > 0:
            self._later(left, self._look)
        else:
            self.settle()

    def settle(self) -> None:
        """Refresh now, if something has changed."""
        session = self._session()
        if self._changed is None or session is None or self._widget.comm is None:
            return
        self._changed = None
        self._handle.update(bundle(session, self._widget.model_id), raw=True)

    def close(self) -> None:
        """Leave the output as it is."""
        self._changed = None
        self._end()


def settle_all(*_: object) -> None:
    """Bring every output up to date: a cell has run, and nobody may come after."""
    for outputs in list(_outputs.values()):
        for shown in outputs:
            shown.settle()


def settle_after_cells() -> None:
    """Have `settle_all` called after each cell of this notebook."""
    shell = current_shell()
    known = getattr(shell, "events", None)
    if known is not None and settle_all not in known.callbacks["post_run_cell"]:
        known.register("post_run_cell", settle_all)


def widget_of(session: Session) -> GraphWidget:
    """Return the widget of a session; ipywidgets are loaded with the first."""
    from workbench.jupyter.widget import widget_for

    return widget_for(session)


def _notifier(shown: weakref.ref[Shown]) -> Any:
    def notify(_: str) -> None:
        found = shown()
        if found is not None:
            found.changed()

    return notify


_FIGURES: dict[str, Callable[[Session], Any]] = {
    "check": plots.check,
    "hessian": plots.hessian,
    "jacobian": plots.jacobian,
}
_outputs: weakref.WeakKeyDictionary[Session, list[Shown]] = weakref.WeakKeyDictionary()
#: Sessions that nothing but their picture refers to.
_kept: list[Session] = []


def show(x: Any) -> None:
    """See `workbench.show`."""
    if isinstance(x, Function):
        # Its gradients are nodes already; a session would add others.
        if in_notebook():
            publish(x.graph._repr_mimebundle_())
        else:
            print(x.graph)
        return
    session = x if isinstance(x, Session) else session_of(x)
    if not in_notebook():
        print(in_words(session))
        return
    _kept.append(session)
    _outputs.setdefault(session, []).append(Shown(session))


def show_parts(session: Session, parts: Iterable[str]) -> None:
    """Show what ``--show`` names, in its order."""
    for part in parts:
        if part == "graph":
            if in_notebook():
                _outputs.setdefault(session, []).append(Shown(session))
            else:
                print(in_words(session))
            continue
        _FIGURES[part](session)._ipython_display_()


def close(session: Session) -> None:
    """Close the live picture of a session; what is saved of it stays."""
    from workbench.jupyter import widget

    for shown in _outputs.pop(session, []):
        shown.close()
    widget.close(session)


def session_of(x: Any) -> Session:
    """Return a session of a graph, or of the program behind a Tensor."""
    if isinstance(x, Tensor):
        x = Graph(inputs_of(x), [x])
    check_graph(x, "a picture", "wb.show({})")
    output = x.outputs[-1] if x.outputs else None
    seed = None
    if isinstance(output, Tensor) and output.shape != ():
        known = all(isinstance(n, int) for n in output.shape)
        seed = np.ones(output.shape) if known else np.ones_like(output)
    return Session(x, seed=seed)


def inputs_of(x: Tensor) -> list[Tensor]:
    """The leaves that a Tensor is a function of: its symbols, or those of a trace.

    Beside a symbol a leaf with a value is a constant; in a trace one without a name.
    """
    leaves = [node for node in walk.order_nodes([x]) if is_leaf(node)]
    symbols = [node for node in leaves if node._value is None]
    return symbols or [node for node in leaves if node.name is not None] or leaves
