"""How the figures of `plots.py` are made, with what the page asks of them besides.

Each function returns a `Plot`: the figure, what it says, the other views of the same
matrix, and which part of it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from workbench.core import walk
from workbench.session import Session
from workbench.session.derivative import Derivative, Second, derivative, second
from workbench.session.nodes import Node, as_list
from workbench.session.stages import Forward

if TYPE_CHECKING:
    from workbench.jupyter.figure import Figure, Plot

__all__ = [
    "Window",
    "Wrt",
    "check_plot",
    "drawn",
    "hessian_plot",
    "jacobian_plot",
    "last_array",
    "singular_plot",
    "sparsity_plot",
    "spectrum_plot",
    "steps_plot",
]

Wrt = Iterable[Node] | Node | None
#: Rows and columns, each from and to (excluded): ``((0, 10), (40, 60))``.
Window = Any
Progress = Callable[[int, int], object] | None

#: The other plots of what a Jacobian, or a Hessian, is of.
JACOBIAN = ("jacobian", "singular", "sparsity")
HESSIAN = ("hessian", "spectrum", "sparsity")

#: What was asked of a session last, so that zooming need not record it again.
_KEPT: WeakKeyDictionary[Forward, dict[Any, Any]] = WeakKeyDictionary()
#: How many of them are kept.
MOST_KEPT = 4


def last_array(session: Session) -> int:
    """The output; where that is one number, the last named array on the way to it."""
    nodes = session.graph.nodes
    if nodes[session.output].size > 1:
        return session.output
    varying = walk.reaches(nodes, [nodes[i] for i in session.wrt])
    leaves = {*session.wrt}
    for i in range(session.output - 1, -1, -1):
        node = nodes[i]
        if node.name and node.size > 1 and node.serial in varying and i not in leaves:
            return i
    return session.output


def _first(session: Session, of: Node | None, wrt: Wrt) -> Derivative:
    row = last_array(session) if of is None else session.nodes.find(of)
    by = _ids(session, wrt)
    found: Derivative = _kept(session, (row, *by), lambda: derivative(session, row, by))
    return found


def _second(session: Session, wrt: Wrt) -> Second:
    by = _ids(session, wrt)
    found: Second = _kept(session, (None, *by), lambda: second(session, by))
    return found


def _ids(session: Session, wrt: Wrt) -> list[int]:
    given = session.wrt if wrt is None else as_list(wrt)
    return [session.nodes.find(x) for x in given]


def _kept(session: Session, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What was made of the same nodes, values and overrides before, or is made now."""
    forward, resolution = session.forward, session.resolution
    known = _KEPT.setdefault(forward, {})
    found = known.pop(key, None)
    if found is None or found[0] is not resolution:
        found = resolution, make()
    known[key] = found  # the last one used is the last to be let go
    for old in list(known)[:-MOST_KEPT]:
        known.pop(old, None)
    return found[1]


def jacobian_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    window: Window = None,
    *,
    robust: bool = False,
    progress: Progress = None,
) -> Plot:
    """See `plots.jacobian`."""
    from dataclasses import replace

    from workbench.jupyter import heat

    found = _first(session, of, wrt)
    rows, columns = heat.axes_of(found, window)
    made = heat.heat_map(
        found, rows, columns, _title(found), "Jacobian",
        notes=found.notes, robust=robust, progress=progress,
    )  # fmt: skip
    said = heat.told(found, rows, columns, "jacobian")
    return replace(made, matrix=said, views=JACOBIAN)


def hessian_plot(
    session: Session,
    wrt: Wrt = None,
    window: Window = None,
    *,
    robust: bool = False,
    progress: Progress = None,
) -> Plot:
    """See `plots.hessian`."""
    from dataclasses import replace

    from workbench.jupyter import heat

    found = _second(session, wrt)
    rows, columns = heat.axes_of(found, window)
    made = heat.heat_map(
        found, rows, columns, _title(found), "Hessian",
        robust=robust, progress=progress,
    )  # fmt: skip
    said = heat.told(found, rows, columns, "hessian")
    return replace(made, matrix=said, views=HESSIAN)


def spectrum_plot(session: Session, wrt: Wrt = None, progress: Progress = None) -> Plot:
    """See `plots.spectrum`."""
    from dataclasses import replace

    from workbench.jupyter.spectrum import eigenvalue_plot

    found = _second(session, wrt)
    made = eigenvalue_plot(found, f"Eigenvalues of the {_title(found)}", progress)
    return replace(made, views=HESSIAN)


def singular_plot(
    session: Session, of: Node | None = None, wrt: Wrt = None, progress: Progress = None
) -> Plot:
    """See `plots.singular`."""
    from dataclasses import replace

    from workbench.jupyter.spectrum import singular_value_plot

    found = _first(session, of, wrt)
    title = f"Singular values of the {_title(found)}"
    return replace(singular_value_plot(found, title, progress), views=JACOBIAN)


def sparsity_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    window: Window = None,
    progress: Progress = None,
) -> Plot:
    """See `plots.sparsity`."""
    from dataclasses import replace

    from workbench.jupyter import heat
    from workbench.jupyter.sparsity import sparsity_map

    found: Any = _second(session, wrt) if of is None else _first(session, of, wrt)
    rows, columns = heat.axes_of(found, window)
    title = f"Sparsity of the {_title(found)}"
    made = sparsity_map(found, rows, columns, title, progress)
    said = heat.told(found, rows, columns, "sparsity")
    return replace(made, matrix=said, views=HESSIAN if of is None else JACOBIAN)


def _title(found: Derivative | Second) -> str:
    by = ", ".join(name for name, _ in found.column_parts)
    if isinstance(found, Second):
        return f"Hessian ∂²{found.label} / ∂({by})²"
    several = len(found.column_parts) > 1
    return f"Jacobian ∂{found.row_parts[0][0]} / ∂{f'({by})' if several else by}"


def check_plot(session: Session, wrt: Wrt = None) -> Plot:
    """See `plots.check`."""
    from workbench.jupyter.checked import report_plot

    report = None if wrt is not None or "report" in session.stale else session.report
    if report is None:
        report = session.check(_ids(session, wrt))
    return report_plot(report, session.nodes.labels[session.output])


def steps_plot(session: Session, node: Node | None = None) -> Plot:
    """See `plots.steps`."""
    from workbench.jupyter.stepped import stepped_plot

    i = session.output if node is None else session.nodes.find(node)
    session.needed()  # or the error that says that there are no values
    return stepped_plot(session.graph.nodes[i], session.nodes.labels[i])


def drawn(found: Derivative, window: Window) -> Figure:
    """A derivative that somebody holds, as a heat map."""
    from workbench.jupyter import heat

    rows, columns = heat.axes_of(found, window)
    title = _title(found)
    made = heat.heat_map(found, rows, columns, title, "Jacobian", notes=found.notes)
    return made.figure
