"""Plotly figures of a session: Jacobians, Hessians, curvature, gradient checks.

Each function returns a `plotly.graph_objects.Figure`; a notebook or a page draws
it. Large matrices are pooled: a cell of the figure shows the entry of largest
magnitude of its block, and a block with a NaN shows the NaN; ``window`` shows a part,
down to single entries. Plotly is loaded when a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

from workbench.autodiff.sparse.colouring import Colouring
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.core import walk
from workbench.core.arguments import check_graph
from workbench.errors import UsageError, check_packages
from workbench.session import Session
from workbench.session.curvature import (
    Curvature,
    make_example_derivative,
    make_fisher,
    make_gauss_newton,
    measure_spread,
)
from workbench.session.derivative import (
    Derivative,
    SecondDerivative,
    make_derivative,
    make_second_derivative,
)
from workbench.session.landscape import compute_landscape
from workbench.session.matrix import Matrix
from workbench.session.nodes import Node, is_integer, to_list

if TYPE_CHECKING:
    from workbench.jupyter.figure import Figure, Plot

# Figures with the data that the page needs besides.
#
# Each function returns a `Plot`: the figure, its texts, the other views of the same
# matrix, and the part of it that was drawn.

Wrt = Iterable[Node] | Node | None
#: Rows and columns, each from and to (excluded): ``((0, 10), (40, 60))``.
Window = Any
Progress = Callable[[int, int], object] | None

#: The plots of the same nodes as a Jacobian, or a Hessian.
JACOBIAN = ("jacobian", "singular", "sparsity")
HESSIAN = (
    "hessian", "gauss_newton", "fisher", "spectrum", "landscape", "spread", "sparsity",
)  # fmt: skip

#: The most derivatives that are kept, so that a zoom need not record them again.
MOST_KEPT = 4


def find_last_array(session: Session) -> int:
    """Return the output; for a single number the last named array on the way."""
    nodes = session.graph.nodes
    if nodes[session.output].size > 1:
        return session.output
    varying = walk.find_dependents(nodes, [nodes[i] for i in session.wrt])
    leaves = {*session.wrt}
    for i in range(session.output - 1, -1, -1):
        node = nodes[i]
        if node.name and node.size > 1 and node.serial in varying and i not in leaves:
            return i
    return session.output


def _get_jacobian(
    session: Session, of: Node | None, wrt: Wrt, overrides: bool
) -> Derivative:
    row = find_last_array(session) if of is None else session.nodes.find(of)
    by = _find_ids(session, wrt)
    found: Derivative = _reuse(
        session,
        (overrides, row, *by),
        lambda: make_derivative(session._state, row, by, overrides=overrides),
    )
    return found


def _get_hessian(session: Session, wrt: Wrt, overrides: bool) -> SecondDerivative:
    by = _find_ids(session, wrt)
    found: SecondDerivative = _reuse(
        session,
        (overrides, None, *by),
        lambda: make_second_derivative(session._state, by, overrides=overrides),
    )
    return found


def _tell_overrides(made: Plot, found: Matrix) -> Plot:
    """Return a plot of a matrix with the overrides in force, or left out."""
    return replace(
        made,
        overrides=found.overrides or found.left_out,
        is_true=bool(found.left_out),
        verdict="changed" if found.overrides else None,
        caption=found.caption,
    )


def _find_ids(session: Session, wrt: Wrt) -> list[int]:
    given = session.wrt if wrt is None else to_list(wrt)
    return [session.nodes.find(x) for x in given]


def _reuse(session: Session, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the kept derivative of a key and the present overrides; else make one."""
    known, resolution = session.forward.derivatives, session.resolution
    found = known.pop(key, None)
    if found is None or found[0] is not resolution:
        found = resolution, make()
    known[key] = found  # the last one used is the last to be dropped
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
    overrides: bool = True,
    progress: Progress = None,
) -> Plot:
    """See `plots.jacobian`."""
    from workbench.jupyter import heat

    found = _get_jacobian(session, of, wrt, overrides)
    rows, columns = heat.make_axes(found, window)
    made = heat.plot_heat_map(
        found, rows, columns, _title(found), "Jacobian",
        notes=found.notes, robust=robust, progress=progress,
    )  # fmt: skip
    made = replace(_tell_overrides(made, found), views=JACOBIAN)
    if heat.is_vector(rows, columns):
        return made  # it has no cells to walk
    matrix = heat.describe_matrix(found, rows, columns, "jacobian")
    return replace(made, matrix=matrix)


def hessian_plot(
    session: Session,
    wrt: Wrt = None,
    window: Window = None,
    *,
    robust: bool = False,
    overrides: bool = True,
    progress: Progress = None,
) -> Plot:
    """See `plots.hessian`."""
    found = _get_hessian(session, wrt, overrides)
    return _plot_square(found, "hessian", _title(found), window, robust, progress)


def gauss_newton_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    window: Window = None,
    *,
    robust: bool = False,
    progress: Progress = None,
) -> Plot:
    """See `plots.gauss_newton`."""
    found = _get_curvature(session, "gauss_newton", make_gauss_newton, of, wrt)
    title = f"{found.title}, through {found.middle}"
    return _plot_square(found, "gauss_newton", title, window, robust, progress)


def fisher_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    window: Window = None,
    *,
    robust: bool = False,
    progress: Progress = None,
) -> Plot:
    """See `plots.fisher`."""
    found = _get_curvature(session, "fisher", make_fisher, of, wrt)
    title = f"{found.title}, of the examples in {found.middle}"
    return _plot_square(found, "fisher", title, window, robust, progress)


def _get_curvature(
    session: Session,
    kind: str,
    make: Callable[..., Curvature],
    of: Node | None,
    wrt: Wrt,
) -> Curvature:
    by = _find_ids(session, wrt)
    middle = None if of is None else session.nodes.find(of)
    found: Curvature = _reuse(
        session, (kind, middle, *by), lambda: make(session._state, middle, by)
    )
    return found


def _plot_square(
    found: SecondDerivative,
    kind: str,
    title: str,
    window: Window,
    robust: bool,
    progress: Progress,
) -> Plot:
    """Return the heat map of a matrix of the same nodes on both sides."""
    from workbench.jupyter import heat

    rows, columns = heat.make_axes(found, window)
    what = PLOTS[kind].view
    made = heat.plot_heat_map(
        found, rows, columns, title, what, robust=robust, progress=progress
    )
    matrix = heat.describe_matrix(found, rows, columns, kind)
    if rows.cells == columns.cells:  # a square looks like one
        made.figure.update_layout(
            xaxis={"constrain": "domain"},
            yaxis={"scaleanchor": "x", "constrain": "domain"},
        )
    return replace(_tell_overrides(made, found), matrix=matrix, views=HESSIAN)


def spread_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    progress: Progress = None,
    *,
    overrides: bool = True,
) -> Plot:
    """See `plots.spread`."""
    from workbench.jupyter.spread import plot_spread

    by = _find_ids(session, wrt)
    found = make_example_derivative(
        session._state, of, by, overrides=overrides, name="spread"
    )
    made = plot_spread(measure_spread(found, progress), found)
    return replace(_tell_overrides(made, found), views=HESSIAN)


def spectrum_plot(
    session: Session,
    wrt: Wrt = None,
    progress: Progress = None,
    *,
    overrides: bool = True,
    count: int | None = None,
) -> Plot:
    """See `plots.spectrum`."""
    from workbench.jupyter.spectrum import eigenvalue_plot

    found = _get_hessian(session, wrt, overrides)
    title = f"Eigenvalues of the {_title(found)}"
    made = eigenvalue_plot(found, title, progress, count)
    return replace(_tell_overrides(made, found), views=HESSIAN)


def landscape_plot(
    session: Session,
    wrt: Wrt = None,
    progress: Progress = None,
    *,
    directions: Any = None,
    reach: float | None = None,
    points: int = 31,
) -> Plot:
    """See `plots.landscape`."""
    from workbench.jupyter.contours import contour_plot

    by = _find_ids(session, wrt)
    found = compute_landscape(session, by, directions, reach, points, progress)
    made = contour_plot(found, session.nodes.labels[session.output])
    return replace(made, views=HESSIAN)


def singular_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    progress: Progress = None,
    *,
    overrides: bool = True,
) -> Plot:
    """See `plots.singular`."""
    from workbench.jupyter.spectrum import singular_value_plot

    found = _get_jacobian(session, of, wrt, overrides)
    title = f"Singular values of the {_title(found)}"
    made = singular_value_plot(found, title, progress)
    return replace(_tell_overrides(made, found), views=JACOBIAN)


def sparsity_plot(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    window: Window = None,
    progress: Progress = None,
    *,
    overrides: bool = True,
) -> Plot:
    """See `plots.sparsity`."""
    from workbench.jupyter import heat
    from workbench.jupyter.sparsity import count_colours, plot_sparsity

    found: Any = (
        _get_hessian(session, wrt, overrides)
        if of is None
        else _get_jacobian(session, of, wrt, overrides)
    )
    rows, columns = heat.make_axes(found, window)
    title = f"Sparsity of the {_title(found)}"
    made = plot_sparsity(found, rows, columns, title, progress)
    matrix = heat.describe_matrix(found, rows, columns, "sparsity")
    if found.has_structure:
        matrix["colours"] = count_colours(found, rows, columns)
    views = HESSIAN if of is None else JACOBIAN
    return replace(_tell_overrides(made, found), matrix=matrix, views=views)


def pattern_plot(found: SparsityPattern | Colouring, window: Window = None) -> Plot:
    """Return the figure of a pattern, or of a colouring and its pattern."""
    check_packages("wb.plots", "jupyter", "plotly")
    from workbench.jupyter import heat
    from workbench.jupyter.sparsity import GivenPattern, plot_sparsity

    if isinstance(found, Colouring):
        title = f"Sparsity and colours: {found.mode}"
        matrix = GivenPattern(SparsityPattern.from_scipy(found.pattern), found)
    else:
        title, matrix = "Sparsity", GivenPattern(found)
    return plot_sparsity(matrix, *heat.make_axes(matrix, window), title)


def _title(found: Derivative | SecondDerivative) -> str:
    by = ", ".join(name for name, _ in found.column_parts)
    if isinstance(found, SecondDerivative):
        return f"Hessian ∂²{found.label} / ∂({by})²"
    several = len(found.column_parts) > 1
    return f"Jacobian ∂{found.row_parts[0][0]} / ∂{f'({by})' if several else by}"


def check_plot(session: Session, wrt: Wrt = None) -> Plot:
    """See `plots.check`."""
    from workbench.jupyter.gradient_errors import report_plot

    report = None if wrt is not None or "report" in session.stale else session.report
    if report is None:
        report = session.check(_find_ids(session, wrt))
    made = report_plot(report, session.nodes.labels[session.output])
    return replace(made, verdict=report.verdict, overrides=tuple(report.overridden))


def steps_plot(session: Session, of: Node | None = None) -> Plot:
    """See `plots.steps`."""
    from workbench.jupyter.gradient_errors import plot_steps

    i = session.output if of is None else session.nodes.find(of)
    session.require_backward()  # raises the error for a session without values
    return plot_steps(session.graph.nodes[i], session.nodes.labels[i])


@dataclass(frozen=True)
class PlotKind:
    """One kind of plot, by the name that users and the page ask for.

    Attributes
    ----------
    name
        Its name in `wb.plots` and on the wire.
    make
        What makes it of a session, with some of ``of``, ``wrt``, ``window``,
        ``overrides`` and ``progress``.
    title, view
        What the page calls it, alone and among the views of the same nodes.
    views
        The kinds that show the same nodes, the first of which names them all; none for
        one that is a view of whichever it was asked from.
    """

    name: str
    make: Callable[..., Plot]
    title: str
    view: str
    views: tuple[str, ...]

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The inputs of the plot beside the session: the parameters of ``make``."""
        return tuple(signature(self.make).parameters)[1:]

    def draw(self, session: Session, **given: Any) -> Plot:
        """Return the plot, made from those of the given values that are needed."""
        check_packages("wb.plots", "jupyter", "plotly")
        return self.make(session, **{k: x for k, x in given.items() if k in self.needs})


#: All kinds of plots: what else wants to know of them asks here, the page too.
PLOTS = {
    kind.name: kind
    for kind in (
        PlotKind("jacobian", jacobian_plot, "Jacobian", "Jacobian", JACOBIAN),
        PlotKind("hessian", hessian_plot, "Hessian", "Hessian", HESSIAN),
        PlotKind("gauss_newton", gauss_newton_plot, "Hessian", "Gauss-Newton", HESSIAN),
        PlotKind("fisher", fisher_plot, "Hessian", "Fisher", HESSIAN),
        PlotKind("singular", singular_plot, "Jacobian", "singular values", JACOBIAN),
        PlotKind("spectrum", spectrum_plot, "Hessian", "eigenvalues", HESSIAN),
        PlotKind("landscape", landscape_plot, "Hessian", "landscape", HESSIAN),
        PlotKind("spread", spread_plot, "Hessian", "examples", HESSIAN),
        PlotKind("sparsity", sparsity_plot, "Sparsity", "sparsity", ()),
        PlotKind("check", check_plot, "Gradient check", "errors", ("check",)),
        PlotKind("steps", steps_plot, "Step sizes", "step sizes", ("steps",)),
    )
}


def _draw(name: str, session: Session, **given: Any) -> Figure:
    """Return the figure of a kind for a user."""
    check_session(session, name)
    return PLOTS[name].draw(session, **given).figure


def plot_derivative(found: Derivative, window: Window) -> Figure:
    """Return the heat map of a given derivative."""
    check_packages("wb.plots", "jupyter", "plotly")
    from workbench.jupyter import heat

    rows, columns = heat.make_axes(found, window)
    title = _title(found)
    made = heat.plot_heat_map(
        found, rows, columns, title, "Jacobian", notes=found.notes
    )
    return made.figure


# What users call


def jacobian(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    *,
    window: Window = None,
    robust: bool = False,
    overrides: bool = True,
) -> Figure:
    """Return the Jacobian of one node by others, as a heat map.

    Parameters
    ----------
    session
        The program.
    of
        The node, its name or id. By default the output; where that is one number,
        the last named array before it.
    wrt
        One or several nodes, side by side; by default the session's ``wrt``.
    window
        The rows and the columns to show, each from and to (excluded), as
        ``((0, 10), (40, 60))``; only what it holds is computed. By default all; of
        more than 200 along a side a cell shows the largest entry of a block.
    robust
        Spread the colours over the smallest 98 % of the cells, so that a few large
        entries do not hide the others.
    overrides
        Whether the session's overrides are applied; False for the true Jacobian.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If the session has no values; if the window reaches out of the matrix, or has
        over 2³² entries.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> jacobian(session, "tanh 1").data[0].z.shape
    (3, 3)
    >>> jacobian(session, "tanh 1", window=((1, 2), (0, 3))).data[0].z.shape
    (1, 3)
    """
    return _draw(
        "jacobian", session, of=of, wrt=wrt, window=window,
        robust=robust, overrides=overrides,
    )  # fmt: skip


def hessian(
    session: Session,
    wrt: Wrt = None,
    *,
    window: Window = None,
    robust: bool = False,
    overrides: bool = True,
) -> Figure:
    """Return the Hessian of the output, all blocks, as a heat map.

    Of an output that is not one number, that of its product with the session's seed.

    Parameters
    ----------
    session
        The program.
    wrt
        One or several nodes, n entries in all, for n rows and columns; by default the
        session's ``wrt``.
    window, robust, overrides
        As for `jacobian`.

    Raises
    ------
    UsageError
        If the session has no values, or the window does not fit.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> hessian(session).data[0].z.shape
    (3, 3)
    """
    return _draw(
        "hessian", session, wrt=wrt, window=window, robust=robust, overrides=overrides
    )


def gauss_newton(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    *,
    window: Window = None,
    robust: bool = False,
) -> Figure:
    """Return the Gauss-Newton matrix of the output, all blocks, as a heat map.

    ``Jᵀ H J``, where J is the Jacobian of an array in the middle of the program and H
    the Hessian of the output by it: the Hessian without the curvature of what comes
    before that array, with no negative eigenvalue where the loss is convex in it
    (Schraudolph, *Fast curvature matrix-vector products*, 2002). It is that of the
    true derivatives, without overrides; `wb.gnvp` multiplies it with a vector.

    Parameters
    ----------
    session
        The program.
    of
        The array in the middle: what a network predicts. By default the first one
        that all paths from the inputs go through.
    wrt
        One or several nodes; by default the session's ``wrt``.
    window, robust
        As for `jacobian`.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If no array is on all paths and none is given; as for `hessian`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum((x**2) ** 2))(np.ones(2)))
    >>> gauss_newton(session).data[0].z.tolist()  # of x**2; the Hessian is 12 * x**2
    [[8.0, 0.0], [0.0, 8.0]]
    """
    return _draw("gauss_newton", session, of=of, wrt=wrt, window=window, robust=robust)


def fisher(
    session: Session,
    of: Node | None = None,
    wrt: Wrt = None,
    *,
    window: Window = None,
    robust: bool = False,
) -> Figure:
    """Return the empirical Fisher matrix as a heat map.

    The mean over the examples of ``g gᵀ``, with g the gradient of one example's loss
    (Kunstner et al., *Limitations of the empirical Fisher approximation for natural
    gradient descent*, 2019, equation 3): that of the true derivatives, without
    overrides.

    Parameters
    ----------
    session
        The program.
    of
        The array whose first axis counts the examples: their losses; of an example
        with several entries their sum. By default the last array that all paths from
        the inputs go through, as ``e**2`` in ``np.mean(e**2)``.
    wrt, window, robust
        As for `gauss_newton`.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If ``of`` is one number, or none is given and no array is on all paths.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> X = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> session = wb.Session(wb.trace(lambda w: np.mean(X @ w))(np.ones(2)))
    >>> fisher(session).data[0].z.tolist()  # X.T @ X / 2
    [[1.0, 1.0], [1.0, 2.0]]
    """
    return _draw("fisher", session, of=of, wrt=wrt, window=window, robust=robust)


def spread(session: Session, of: Node | None = None, wrt: Wrt = None) -> Figure:
    """Return each example's gradient: its norm, and how it agrees with the mean.

    A point is an example: to the right of it the norm of its gradient, upwards the
    cosine of the angle to the mean gradient; below 0 it pulls against the others. The
    note has the noise scale, the batch size at which noise and gradient are alike
    (McCandlish et al., *An empirical model of large-batch training*, 2018).
    `wb.per_example_grad` returns the gradients of a function as arrays.

    Parameters
    ----------
    session
        The program; its overrides are applied.
    of, wrt
        As for `fisher`.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If ``of`` is one number or complex, or none is given and no array is on all
        paths.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> X = np.array([[3.0, 4.0], [0.0, 1.0]])
    >>> session = wb.Session(wb.trace(lambda w: np.mean(X @ w))(np.ones(2)))
    >>> spread(session).data[0].x.tolist()
    [5.0, 1.0]
    """
    return _draw("spread", session, of=of, wrt=wrt)


def spectrum(session: Session, wrt: Wrt = None, *, count: int | None = None) -> Figure:
    """Return the eigenvalues of the output's Hessian: magnitudes, coloured by sign.

    The note counts positive, negative and zero ones (up to rounding: the largest times
    their number times the machine epsilon), and has the condition number. A Hessian
    that overrides have made asymmetric is replaced by the mean of itself and its
    transpose; the note says how much they differ.

    Parameters
    ----------
    session
        The program; its overrides are applied.
    wrt
        One or several nodes; by default the session's ``wrt``.
    count
        How many eigenvalues of largest magnitude to find, by Lanczos' method, which
        multiplies the Hessian with vectors and never makes it (Golub and Van Loan,
        Matrix Computations, chapter 10). By default all; of a Hessian so large that
        this would take minutes, 20.

    Raises
    ------
    UsageError
        If the Hessian is complex or has an entry that is not finite, or ``count`` is
        no positive integer.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: x[0] ** 2 - x[1] ** 2)(np.ones(2)))
    >>> [trace.name for trace in spectrum(session).data]
    ['positive', 'negative']
    """
    if count is not None and not (is_integer(count) and count > 0):
        raise UsageError(
            f"wb.plots.spectrum(count={count!r}): give the number of eigenvalues, a"
            " positive integer, or None for all."
        )
    count = None if count is None else int(count)
    return _draw("spectrum", session, wrt=wrt, count=count)


def landscape(
    session: Session,
    wrt: Wrt = None,
    *,
    directions: Any = None,
    reach: float | None = None,
    points: int = 31,
) -> Figure:
    """Return the output over a plane through the inputs of now, with the path there.

    The plane of a training is that of the two directions along which its kept runs
    moved most, their principal components (Li et al., *Visualizing the loss landscape
    of neural nets*, 2018); without runs, of the two eigenvectors of the Hessian with
    the largest eigenvalues. Overrides change gradients, no values: the landscape is
    the same with and without them.

    Parameters
    ----------
    session
        The program.
    wrt
        The inputs that move; by default the session's ``wrt``.
    directions
        ``"path"``, ``"curvature"``, ``"random"`` (drawn from seed 0), or two
        directions: each an array or a list of arrays in the shapes of ``wrt``, or a
        dict of arrays by name. They are made orthogonal and of length 1.
    reach
        The distance that is shown to each side of now, in the units of the inputs; by
        default what holds the path.
    points
        The points along a side: the program runs ``points**2`` times.

    Raises
    ------
    UsageError
        If the session has no values, a node of ``wrt`` is computed, complex, or has
        with the others one entry, or the directions span no plane.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.array([1.0, 2.0])))
    >>> figure = landscape(session, directions=([1.0, 0.0], [0.0, 1.0]), points=5)
    >>> figure.data[0].z.shape, float(figure.data[0].customdata[2, 2])
    ((5, 5), 5.0)
    """
    return _draw(
        "landscape", session, wrt=wrt, directions=directions, reach=reach, points=points
    )


def singular(session: Session, of: Node | None = None, wrt: Wrt = None) -> Figure:
    """Return the singular values of a Jacobian, its rank and condition number.

    Those below the largest times the longer side times the machine epsilon count as
    zero (Golub and Van Loan, Matrix Computations, section 5.4.1).

    Parameters
    ----------
    session, of, wrt
        As for `jacobian`.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If an entry is not finite, or the matrix so large that this would take
        minutes.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> singular(session, "tanh 1").data[0].y
    array([0.41997434, 0.41997434, 0.41997434])
    """
    return _draw("singular", session, of=of, wrt=wrt)


def sparsity(
    session: Session | SparsityPattern | Colouring,
    of: Node | None = None,
    wrt: Wrt = None,
    *,
    window: Window = None,
) -> Figure:
    """Return where a Jacobian can differ from zero, or without ``of`` the Hessian.

    In place of a session stands a pattern, from `wb.sparsity` or a prepared derivative,
    or a colouring of one: ``J.pattern``, ``J.colouring``.

    That follows from the program, without a number computed. The colours are those of
    `SparsityPattern.colouring`: columns of one colour have no entry in one row, so that
    one product gives them all; beside stands the matrix of these products. Rows that
    have colours stand below. The note counts entries and colours, and has the
    bandwidth of a square matrix and the number of its independent blocks.

    A large pattern shows how full each block is; ``window`` shows the entries of a part
    with their colours. With overrides in force, whose rules may read anything, it is
    computed where entries are not zero; NaN is not zero.

    Parameters
    ----------
    session, of, wrt, window
        As for `jacobian`; without ``of`` and ``wrt`` for a pattern or colouring.

    Raises
    ------
    DisconnectedInputError
        If no path leads from ``wrt`` to ``of``.
    UsageError
        If the window does not fit, or a pattern comes with ``of`` or ``wrt``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x[1:] * x[:-1]))(np.ones(3)))
    >>> sparsity(session).data[0].z
    array([[nan,  2., nan],
           [ 1., nan,  3.],
           [nan,  2., nan]], dtype=float32)
    >>> pattern = wb.sparsity(lambda x: x[1:] * x[:-1], np.ones(3))
    >>> sparsity(pattern.colouring("rows")).data[0].z
    array([[ 1.,  1., nan],
           [nan,  2.,  2.]], dtype=float32)
    """
    if not isinstance(session, SparsityPattern | Colouring):
        return _draw("sparsity", session, of=of, wrt=wrt, window=window)
    if of is not None or wrt is not None:
        raise UsageError(
            "wb.plots.sparsity of a pattern or a colouring draws all of it: leave of="
            " and wrt= away, and choose a part by window=((0, 10), (0, 10))."
        )
    return pattern_plot(session, window).figure


def check(session: Session, wrt: Wrt = None) -> Figure:
    """Return the error of each gradient entry against differences, with its tolerance.

    Parameters
    ----------
    session
        The program. An up-to-date report is reused, else a check runs.
    wrt
        Some of the session's ``wrt``; by default all.

    Raises
    ------
    UsageError
        If the session has no values.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(3)))
    >>> check(session).data[0].name
    'agrees'
    """
    return _draw("check", session, wrt=wrt)


def steps(session: Session, node: Node | None = None) -> Figure:
    """Return the error of differences of one node against their step, by each method.

    Truncation falls with the step, rounding rises: a V, except for the complex step.
    The step that a check takes is marked.

    Parameters
    ----------
    session
        The program.
    node
        The node, its name or id; by default the output. Its inputs all move along a
        random direction, each entry by a part of its size.

    Raises
    ------
    UsageError
        If the session has no values, or the node is not computed from float arrays.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3)))
    >>> [line.name for line in steps(session, "tanh 1").data[:4]]
    ['forward', 'central', 'extrapolated', 'complex step']
    """
    return _draw("steps", session, of=node)


def check_session(x: object, name: str) -> None:
    """Raise an error for a value that is not a session: a function, for example."""
    if isinstance(x, Session):
        return
    line = f"wb.plots.{name}(wb.Session({{}}))"
    check_graph(x, "what wb.plots draws", line)
    raise UsageError(
        f"wb.plots.{name} draws a Session, but this is a Graph. Write"
        f" {line.format('graph')}."
    )
