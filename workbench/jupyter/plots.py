"""Plotly figures of a session: Jacobians, Hessians, gradient checks.

Each function returns a `plotly.graph_objects.Figure`; a notebook or a page draws
it. Large matrices are pooled: a cell of the figure shows the entry of largest
magnitude of its block, and a block with a NaN shows the NaN. Plotly is loaded when
a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import UsageError
from workbench.graph import walk
from workbench.graph.tensor import Tensor
from workbench.session import Session
from workbench.session.nodes import Node

if TYPE_CHECKING:
    from workbench.jupyter.figure import Figure, Plot
    from workbench.jupyter.heat import Axis

__all__ = ["check", "hessian", "jacobian"]

Wrt = Iterable[Node] | Node | None

#: The most entries of a matrix that is computed for a figure.
MOST_ENTRIES = 10_000_000


def jacobian(session: Session, of: Node | None = None, wrt: Wrt = None) -> Figure:
    """The Jacobian of one node by others, as a heat map.

    Parameters
    ----------
    session
        The program; its overrides are applied.
    of
        The node, its name or id. By default the output; where that is one number,
        the last named array before it.
    wrt
        One or several nodes, side by side; by default the session's ``wrt``.

    Raises
    ------
    UsageError
        If the matrix would have more than ten million entries.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> jacobian(session, "tanh 1").data[0].z.shape
    (3, 3)
    """
    return jacobian_plot(session, of, wrt).figure


def hessian(session: Session, wrt: Wrt = None) -> Figure:
    """The Hessian of the output, all blocks, as a heat map.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> hessian(session).data[0].z.shape
    (3, 3)
    """
    return hessian_plot(session, wrt).figure


def check(session: Session, wrt: Wrt = None) -> Figure:
    """The error of each gradient entry against differences, with its tolerance.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> check(session).data[0].name
    'agrees'
    """
    return check_plot(session, wrt).figure


# How they are made


def _parts(session: Session, wrt: Wrt) -> tuple[list[int], Axis]:
    """The ids that something is differentiated by, and their axis."""
    if wrt is None:
        ids = list(session.wrt)
    else:
        several = [wrt] if isinstance(wrt, (str, int, Tensor)) else list(wrt)
        ids = [session.nodes.find(x) for x in several]
    from workbench.jupyter.heat import Axis

    nodes, labels = session.graph.nodes, session.nodes.labels
    return ids, Axis([(labels[i], nodes[i].shape) for i in ids])


def _refuse_large(rows: Axis, columns: Axis, what: str) -> None:
    if rows.size * columns.size > MOST_ENTRIES:
        raise UsageError(
            f"{what} would have {rows.size:,} × {columns.size:,} entries; the most is"
            f" {MOST_ENTRIES:,}. Choose a smaller node, or fewer variables."
        )


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


def jacobian_plot(session: Session, of: Node | None = None, wrt: Wrt = None) -> Plot:
    """See `jacobian`."""
    from workbench.jupyter.heat import Axis, heat_map

    row = last_array(session) if of is None else session.nodes.find(of)
    ids, columns = _parts(session, wrt)
    node, label = session.graph.nodes[row], session.nodes.labels[row]
    rows = Axis([(label, node.shape)])
    by = ", ".join(name for name, _ in columns.parts)
    _refuse_large(rows, columns, f"the Jacobian of {label} by {by}")
    blocks = [
        np.reshape(session.jacobian(row, i), (rows.size, size))
        for i, size in zip(ids, columns.sizes, strict=True)
    ]
    return heat_map(
        np.concatenate([host(b) for b in blocks], 1),
        rows,
        columns,
        f"Jacobian ∂{label} / ∂{by if len(ids) == 1 else f'({by})'}",
        "Jacobian",
    )


def hessian_plot(session: Session, wrt: Wrt = None) -> Plot:
    """See `hessian`."""
    from workbench.jupyter.heat import heat_map

    ids, axis = _parts(session, wrt)
    label = session.nodes.labels[session.output]
    by = ", ".join(name for name, _ in axis.parts)
    _refuse_large(axis, axis, f"the Hessian of {label} by {by}")
    found = session.hessian(ids)
    matrix = np.concatenate(
        [
            np.concatenate(
                [
                    host(block).reshape(height, width)
                    for block, width in zip(row.values(), axis.sizes, strict=True)
                ],
                1,
            )
            for row, height in zip(found.values(), axis.sizes, strict=True)
        ]
    )
    return heat_map(matrix, axis, axis, f"Hessian ∂²{label} / ∂({by})²", "Hessian")


def check_plot(session: Session, wrt: Wrt = None) -> Plot:
    """See `check`."""
    from workbench.jupyter.checked import report_plot

    ids, _ = _parts(session, wrt)
    return report_plot(session.check(ids), session.nodes.labels[session.output])


def host(array: Any) -> Any:
    """An array in main memory."""
    return np.asarray(array.get() if hasattr(array, "get") else array)
