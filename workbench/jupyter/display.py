"""How a session appears in a notebook: one output, live where a kernel runs.

The output holds three forms of the same picture: our own data, which the page
draws and joins to the live session; an SVG for pages without the extension; text
for those without pictures. After a change of the session the saved output is
refreshed, so that the notebook keeps the latest picture.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from workbench.checks.statistics import compute_norms
from workbench.core import walk
from workbench.core.arguments import check_graph
from workbench.core.blame import format_count
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.walk import is_leaf
from workbench.errors import UsageError
from workbench.jupyter import hosts, plots
from workbench.jupyter.failed_cell import FailedCell
from workbench.jupyter.jobs import Later, call_after
from workbench.jupyter.picture import draw_picture
from workbench.session import Session
from workbench.session.wire import (
    MIME_TYPE,
    encode_moments,
    save_snapshot,
    take_failed_snapshot,
    take_snapshot,
)
from workbench.symbolic.function import Function

if TYPE_CHECKING:
    from workbench.jupyter.widget import LinkedWidget

#: Seconds without a change after which the saved output is refreshed.
CALM = 1.0

# The output of a cell.


def publish(
    bundle: dict[str, Any],
    *,
    keep: bool = False,
    metadata: dict[str, Any] | None = None,
) -> Any:
    """Show data in the cell's output; with ``keep`` return a handle for updates."""
    from IPython import display

    show: Any = display.display
    more: dict[str, Any] = {"display_id": True} if keep else {}
    return show(bundle, raw=True, metadata=metadata, **more)


def current_shell() -> Any:
    """Return the IPython shell of this process; None where there is none."""
    loaded: Any = sys.modules.get("IPython.core.getipython")
    return None if loaded is None else loaded.get_ipython()


def in_notebook() -> bool:
    """Return whether there is an IPython to show things in."""
    return current_shell() is not None


def make_bundle(session: Session, model_id: str = "") -> dict[str, Any]:
    """Return a session as the output of a cell: our data, SVG and text."""
    with session.lock:
        snapshot, moments = take_snapshot(session), encode_moments(session)
        text = format_session(session)
    kept = save_snapshot(snapshot, model_id, moments)
    if kept is None:
        nodes = snapshot.header["nodes"]
        message = (
            f"{nodes:,} nodes are too many to save in a notebook. Run the cell"
            " again to see them."
        )
        kept = save_snapshot(
            take_failed_snapshot(Graph([], []), session.name, message), model_id
        )
    return {
        MIME_TYPE: kept,
        "image/svg+xml": draw_picture(snapshot),
        "text/plain": text,
    }


def format_session(session: Session) -> str:
    """Return a session as text: its summary, and the norm of each gradient."""
    lines = [repr(session)]
    if session.backward is not None:
        grads = session.grads
        norms = compute_norms([*grads.values()])
        for name, length in zip(grads, norms, strict=True):
            lines.append(f"  ‖∂/∂{name}‖ = {length:.4g}")
        if not all(map(math.isfinite, norms)):
            lines.append(f"  Where that begins: {session.name}.diagnose()")
    lines += [f"  {one!r}" for one in session.overrides]
    return "\n".join(lines)


class SessionOutput:
    """One output of one session, refreshed a moment after each change."""

    def __init__(
        self,
        session: Session,
        *,
        widget: str = "auto",
        clock: Callable[[], float] = time.monotonic,
        later: Later = call_after,
    ) -> None:
        self._session = weakref.ref(session)
        self._widget = load_widget(session, widget)
        self._clock = clock
        self._later = later
        self._changed: float | None = None
        bundle, metadata = self._make_bundle(session)
        self._handle = publish(bundle, keep=True, metadata=metadata)
        self._end = session.subscribe(_make_notifier(weakref.ref(self)))
        refresh_after_cells()

    def schedule_refresh(self) -> None:
        """Refresh after a moment without changes; with at most one timer."""
        waits = self._changed is not None
        self._changed = self._clock()
        if not waits:
            self._later(CALM, self._refresh_when_calm)

    def _refresh_when_calm(self) -> None:
        changed = self._changed
        if changed is None:
            return
        remaining = changed + CALM - self._clock()
        if remaining > 0:
            self._later(remaining, self._refresh_when_calm)
        else:
            self.refresh()

    def refresh(self) -> None:
        """Refresh now, if the session has changed."""
        session = self._session()
        if self._changed is None or session is None or self._widget.comm is None:
            return
        self._changed = None
        bundle, metadata = self._make_bundle(session)
        self._handle.update(bundle, raw=True, metadata=metadata)

    def _make_bundle(self, session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = make_bundle(session, self._widget.model_id)
        view, metadata = self._widget.make_view()
        if view:
            del bundle[MIME_TYPE]  # for the extension alone, which would draw it first
        return view | bundle, metadata

    def close(self) -> None:
        """Stop refreshing; the output stays unchanged."""
        self._changed = None
        self._end()


def refresh_all(*_: object) -> None:
    """Refresh every output after a cell, since this cell may be the last one."""
    for outputs in list(_outputs.values()):
        for shown in outputs:
            shown.refresh()


def refresh_after_cells() -> None:
    """Register `refresh_all` to run after each cell of this notebook."""
    shell = current_shell()
    known = getattr(shell, "events", None)
    if known is not None and refresh_all not in known.callbacks["post_run_cell"]:
        known.register("post_run_cell", refresh_all)


def load_widget(session: Session, widget: str = "auto") -> LinkedWidget:
    """Return the widget of a session; load ipywidgets with the first."""
    return hosts.get_widget(session, hosts.choose_front(widget))


def _make_notifier(shown: weakref.ref[SessionOutput]) -> Callable[[str], None]:
    def notify(_: str) -> None:
        found = shown()
        if found is not None:
            found.schedule_refresh()

    return notify


_FIGURES: dict[str, Callable[[Session], Any]] = {
    "check": plots.check,
    "hessian": plots.hessian,
    "jacobian": plots.jacobian,
}
_outputs: weakref.WeakKeyDictionary[Session, list[SessionOutput]] = (
    weakref.WeakKeyDictionary()
)
#: Sessions that only their picture refers to.
_kept: list[Session] = []


class Picture:
    """The session or program that `workbench.show` has shown, for a file too.

    As the last value of a cell it shows nothing a second time; but in marimo, where a
    cell shows its last value alone, it is what is drawn.
    """

    def __init__(self, shown: Session | Function, widget: str = "auto") -> None:
        self._shown = shown
        self._widget = widget

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | PathLike[str]) -> Path: ...
    def to_html(self, path: str | PathLike[str] | None = None) -> str | Path:
        """Write the picture into one HTML file; see `workbench.Session.to_html`.

        Parameters
        ----------
        path
            Where to write; a file that is there is replaced.

        Returns
        -------
        The path, or the text of the file where no path is given.
        """
        if isinstance(self._shown, Function):
            raise UsageError(
                "a Function has no values to write. Show a program that has run:"
                " wb.show(wb.trace(f)(x)).to_html(...)."
            )
        return self._shown.to_html(path)

    def _ipython_display_(self) -> None:
        pass

    def _mime_(self) -> tuple[str, str]:
        """Return the MIME type and the data that marimo draws."""
        if isinstance(self._shown, Function):
            bundle = self._shown.graph._repr_mimebundle_()
            return "text/html", bundle["image/svg+xml"]
        front = hosts.choose_front(self._widget)
        if front == "anywidget" and hosts.in_marimo():
            marimo: Any = sys.modules["marimo"]
            mime, data = marimo.as_html(hosts.get_widget(self._shown, front))._mime_()
            return mime, data
        with self._shown.lock:
            return "text/html", draw_picture(take_snapshot(self._shown))

    def __repr__(self) -> str:
        name = self._shown.name
        return "<Picture>" if name is None else f"<Picture of {name!r}>"


def show(x: object, widget: str = "auto") -> Picture:
    """See `workbench.show`."""
    hosts.check_word(widget)  # also where no widget is drawn
    if isinstance(x, Function):
        # Its gradients are nodes already; a session would add others.
        if in_notebook():
            publish(x.graph._repr_mimebundle_())
        elif not hosts.in_marimo():
            print(x.graph)
        return Picture(x)
    session = x if isinstance(x, Session) else make_session(x)
    if in_notebook():
        _kept.append(session)
        _outputs.setdefault(session, []).append(SessionOutput(session, widget=widget))
    elif hosts.in_marimo():
        hosts.choose_front(widget)  # one that is not installed is an error here
        if session is not x:
            _kept.append(session)
    else:
        print(format_session(session))
    return Picture(session, widget)


def show_failure(failure: FailedCell, name: str) -> None:
    """Show the program of a cell that failed, beneath the error of the cell.

    ``name`` is what its session would have been called.
    """
    shell = current_shell()
    snapshot = take_failed_snapshot(failure.graph, name, failure.message, failure.node)
    saved = save_snapshot(snapshot)
    if shell is None or saved is None:
        return
    bundle = {
        MIME_TYPE: saved,
        "image/svg+xml": draw_picture(snapshot),
        "text/plain": f"<{name} as far as it came:"
        f" {format_count(snapshot.header['nodes'], 'node')}>",
    }

    def show_once(*_: object) -> None:
        shell.events.unregister("post_run_cell", show_once)
        publish(bundle)

    # IPython prints the error when the cell is over.
    shell.events.register("post_run_cell", show_once)


def show_parts(session: Session, parts: Iterable[str]) -> None:
    """Show the parts that ``--show`` names, in its order."""
    for part in parts:
        if part == "graph":
            if in_notebook():
                _outputs.setdefault(session, []).append(SessionOutput(session))
            else:
                print(format_session(session))
            continue
        _FIGURES[part](session)._ipython_display_()


def close_picture(session: Session) -> None:
    """Close the live picture of a session; the saved picture stays."""
    for shown in _outputs.pop(session, []):
        shown.close()
    hosts.close_widget(session)


def make_session(x: Any) -> Session:
    """Return a session of a graph, or of the program behind a Tensor."""
    if isinstance(x, Tensor):
        x = Graph(find_inputs(x), [x])
    check_graph(x, "a picture", "wb.show({})")
    output = x.outputs[-1] if x.outputs else None
    seed = None
    if isinstance(output, Tensor) and output.shape != ():
        known = all(isinstance(n, int) for n in output.shape)
        seed = np.ones(output.shape) if known else np.ones_like(output)
    return Session(x, seed=seed)


def find_inputs(x: Tensor) -> list[Tensor]:
    """Return the leaves that a Tensor is a function of: symbols, or those of a trace.

    With symbols, leaves with values are constants; in a trace, leaves without names.
    """
    leaves = [node for node in walk.order_nodes([x]) if is_leaf(node)]
    symbols = [node for node in leaves if node._value is None]
    return symbols or [node for node in leaves if node.name is not None] or leaves
