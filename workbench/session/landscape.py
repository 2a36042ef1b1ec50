"""`Landscape`: the output of a session over a plane through its inputs.

The plane goes through the values of now. It is that of a training, where the runs that
are kept span one; else that of the two directions along which the output curves most,
or one that the user gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.checks.progress import CheckStopped, Progress
from workbench.checks.statistics import to_host
from workbench.core.graph import Graph
from workbench.core.walk import is_leaf
from workbench.errors import UsageError, WorkbenchError
from workbench.session.derivative import Endpoints, make_second_derivative
from workbench.session.nodes import Node, is_integer, read_number

if TYPE_CHECKING:
    from workbench.session.session import Session

Array = np.ndarray[Any, Any]

#: The most points along one side.
MOST_POINTS = 201
#: The part of the length of the inputs that is shown to each side, without a path.
REACH = 0.5
#: The room around a path, by its own extent.
ROOM = 0.25
#: No distance is as large as this.
FARTHEST = 1e150
#: A second direction is none if it is so much shorter than the first.
FLAT = 1e-9


@dataclass(frozen=True)
class Landscape:
    """The output of a session over a plane.

    Attributes
    ----------
    names
        What the two directions are, in words.
    across, down
        The distances from the values of now along each direction, in the units of the
        inputs: of shapes ``(m,)`` and ``(n,)``.
    values
        The output at each place, ``(n, m)``; NaN where it is not finite.
    path
        The places of the kept runs and what the output was there, ``(runs, 3)``.
    steps
        Their numbers.
    share
        How much of the squared distance of all kept runs lies in the plane; NaN
        without a path.
    """

    names: tuple[str, str]
    across: Array
    down: Array
    values: Array
    path: Array
    steps: Sequence[int]
    share: float = float("nan")


def compute_landscape(
    session: Session,
    wrt: Iterable[Node] | Node | None = None,
    directions: Any = None,
    reach: float | None = None,
    points: int = 31,
    progress: Progress | None = None,
) -> Landscape:
    """Return the output of a session over a plane through the values of now.

    See `plots.landscape`, which draws it, for the arguments and the errors.
    """
    if not (is_integer(points) and 2 <= points <= MOST_POINTS):
        raise UsageError(
            f"wb.plots.landscape(points={points!r}): give the number of points along a"
            f" side, 2 to {MOST_POINTS}."
        )
    ends = Endpoints(session._state, None, wrt)
    _check_inputs(ends)
    centre = _flatten([to_host(x._value) for x in ends.sources])
    kept = _KeptRuns(session, ends)
    plane, names = _choose_plane(session, ends, directions, kept, centre)
    path = np.stack([(kept.points - centre) @ d for d in plane], 1)
    axes = _make_axes(path, reach, points, centre)
    run = _make_function(ends)
    count, values = points * points, np.empty((points, points))
    with np.errstate(all="ignore"):
        for k, (i, j) in enumerate(np.ndindex(points, points)):
            if progress is not None and progress(k, count):
                raise CheckStopped
            values[i, j] = run(centre + axes[0][j] * plane[0] + axes[1][i] * plane[1])
        heights = [
            run(place) if value != value else value
            for place, value in zip(kept.points, kept.values, strict=True)
        ]
    values[~np.isfinite(values)] = np.nan
    path = np.column_stack([path, heights])
    share = kept.measure_share(plane, centre)
    return Landscape(names, *axes, values, path, kept.steps, share)


def _check_inputs(ends: Endpoints) -> None:
    """Refuse what no plane goes through: computed nodes, complex ones."""
    for node, label in zip(ends.sources, ends.labels, strict=True):
        if not is_leaf(node):
            raise UsageError(
                f"a landscape moves inputs of the program, and {label} is computed from"
                " others. Name inputs in wrt=."
            )
        if node.dtype.kind == "c":
            raise UsageError(
                f"a landscape moves real inputs, and {label} is complex. Write the"
                " program of its real and its imaginary part."
            )
    if ends.output.dtype.kind == "c":
        raise UsageError(
            f"a landscape shows a real output, and {ends.label} is complex. Make a"
            " session of a real one: wb.Session(graph, output=...)."
        )


def _flatten(arrays: Iterable[Any]) -> Array:
    parts = [np.asarray(x, np.float64).reshape(-1) for x in arrays]
    return np.concatenate(parts)


def _split(ends: Endpoints, vector: Array) -> list[Array]:
    sizes = [x.size for x in ends.sources]
    pieces = np.split(vector, np.cumsum(sizes)[:-1])
    return [
        piece.reshape(x.shape).astype(x.dtype)
        for piece, x in zip(pieces, ends.sources, strict=True)
    ]


def _make_function(ends: Endpoints) -> Any:
    """Return the function of a flat vector that gives the output as one number."""
    graph = ends.forward.graph
    own = {x.serial for x in ends.sources}
    others = [x for x in graph.leaves if x.serial not in own]
    part = Graph([*ends.sources, *others], [ends.output])
    fixed = [x._value for x in others]
    seed = ends.seed

    def run(vector: Array) -> float:
        try:
            (made,) = part.run([*_split(ends, vector), *fixed])
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, WorkbenchError):
            return np.nan  # the program is not defined there
        made = to_host(made)
        return float(np.sum(made if seed is None else made * to_host(seed)))

    return run


class _KeptRuns:
    """The places of the runs that a session keeps, as far as their shapes are equal."""

    def __init__(self, session: Session, ends: Endpoints) -> None:
        inputs = session.timeline.inputs
        self.steps: list[int] = []
        found, values = [], []
        for step in () if inputs.refusal else inputs.steps:
            run = inputs.find(step, session.name)
            given = [
                run.values.get(i, x._value)
                for i, x in zip(ends.wrt, ends.sources, strict=True)
            ]
            if any(
                np.shape(a) != x.shape for a, x in zip(given, ends.sources, strict=True)
            ):
                continue
            place = _flatten(map(to_host, given))
            if np.all(np.isfinite(place)):
                self.steps.append(step)
                found.append(place)
                values.append(run.loss)
        size = sum(x.size for x in ends.sources)
        self.points = np.array(found).reshape(len(found), size)
        self.values = np.array(values, np.float64)

    def find_plane(self, centre: Array) -> Array | None:
        """Return the two directions that the runs moved along most; None if none."""
        if len(self.points) < 3:
            return None
        moved = self.points - centre
        _, sizes, rows = np.linalg.svd(moved, full_matrices=False)
        if len(sizes) < 2 or sizes[1] <= FLAT * sizes[0]:
            return None
        return rows[:2]

    def measure_share(self, plane: Array, centre: Array) -> float:
        moved = self.points - centre
        total = float(np.sum(moved**2))
        return float(np.sum((moved @ plane.T) ** 2)) / total if total else np.nan


def _choose_plane(
    session: Session, ends: Endpoints, given: Any, kept: _KeptRuns, centre: Array
) -> tuple[Array, tuple[str, str]]:
    """Return two orthonormal directions, and what they are."""
    asked = given
    if given is None:
        found = kept.find_plane(centre)
        given = "curvature" if found is None else "path"
    if not isinstance(given, str):
        return _read_directions(ends, given), ("first direction", "second direction")
    if len(centre) < 2:
        raise UsageError(
            "a landscape has two directions, and the inputs have one entry. Name more"
            " of them in wrt=, or plot the values of session.run(...) yourself."
        )
    if given == "path":
        found = kept.find_plane(centre)
        if found is None:
            raise UsageError(
                "directions='path' needs three kept runs that do not lie on one line:"
                f" {len(kept.steps)} are kept of {session.name!r}. Run the session"
                " first, or write directions='curvature'."
            )
        return found, ("along the path", "across it")
    if given == "curvature":
        second = make_second_derivative(session._state, wrt=ends.wrt, overrides=False)
        try:
            values, rows = second.largest_eigenvalues(2)
            if asked is not None or np.any(values):
                one, other = (f"curvature {x:.4g}" for x in values)
                return rows, (one, other)
        except UsageError:  # it has none at the values of now
            if asked is not None:
                raise
    if given in ("curvature", "random"):
        drawn = np.random.default_rng(0).standard_normal((2, len(centre)))
        return np.linalg.qr(drawn.T)[0].T, ("a random direction", "another one")
    raise UsageError(
        f"directions={given!r}: write 'path', 'curvature' or 'random', or give two"
        " directions, each an array or a list of arrays in the shapes of wrt."
    )


def _read_directions(ends: Endpoints, given: Any) -> Array:
    """Return two orthonormal directions of those that a user gives."""
    try:
        rows = np.stack([_read_direction(ends, one) for one in given])
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        shapes = ", ".join(
            f"{label} {x.shape}"
            for label, x in zip(ends.labels, ends.sources, strict=True)
        )
        raise UsageError(
            "directions are two, each an array, a list of arrays, or a dict by name, in"
            f" the shapes of wrt: {shapes}."
        ) from error
    if len(rows) != 2 or not np.all(np.isfinite(rows)):
        raise UsageError(
            f"a landscape has two directions of finite numbers, and {len(rows)} are"
            " given."
        )
    basis, triangle = np.linalg.qr(rows.T)
    sizes = np.abs(np.diagonal(triangle))
    if len(sizes) < 2 or sizes.min() <= FLAT * max(float(sizes.max()), 1e-300):
        raise UsageError(
            "the two directions of a landscape are parallel, or one is zero: they span"
            " no plane. Give others."
        )
    signs = np.sign(np.diagonal(triangle))
    return np.asarray((basis * signs).T)


def _read_direction(ends: Endpoints, one: Any) -> Array:
    if isinstance(one, Mapping):
        unknown = [name for name in one if name not in ends.labels]
        if unknown:
            raise UsageError(
                f"a direction has no input {unknown[0]!r}: there are"
                f" {', '.join(ends.labels)}."
            )
        one = [one.get(label, np.zeros(x.shape)) for label, x in
               zip(ends.labels, ends.sources, strict=True)]  # fmt: skip
    elif len(ends.sources) == 1 and np.shape(one) == ends.sources[0].shape:
        one = [one]
    parts = list(one)
    shapes = [x.shape for x in ends.sources]
    if [np.shape(part) for part in parts] != shapes:
        raise ValueError("the shapes differ")
    return _flatten(parts)


def _make_axes(
    path: Array, reach: Any, points: int, centre: Array
) -> tuple[Array, Array]:
    """Return the places along both directions: around the path, and the centre."""
    if reach is not None:
        side = read_number(reach)
        if side is None or not 0 < side < FARTHEST:
            raise UsageError(
                f"wb.plots.landscape(reach={reach!r}): give the distance to show to"
                " each side, a number above 0."
            )
        places = np.linspace(-side, side, points)
        return places, places
    whole = np.concatenate([path, np.zeros((1, 2))])
    low, high = whole.min(0), whole.max(0)
    extent = float(np.max(high - low))
    size = float(np.linalg.norm(centre))
    if extent <= FLAT * (size or 1.0):
        extent = REACH * (size or 1.0) / ROOM
    room = ROOM * extent
    return (
        np.linspace(low[0] - room, high[0] + room, points),
        np.linspace(low[1] - room, high[1] + room, points),
    )
