"""`Derivative`: one node of a session by others, looked at as one likes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from workbench.autodiff import reverse, steps
from workbench.autodiff.derivatives import nothing
from workbench.core import blame, types, walk
from workbench.errors import DisconnectedInputError, DtypeError, UsageError
from workbench.session.chosen import Chosen, between
from workbench.session.matrix import Matrix
from workbench.session.nodes import Node
from workbench.session.pooling import host
from workbench.session.sweeping import Mode, Sweeps

#: A `Session`, whose file stands above this one.
Session = Any

__all__ = ["Derivative", "Second", "derivative", "second", "split"]

MODES: Mapping[str, Mode | None] = {
    "auto": None, "forward": "forward", "fwd": "forward",
    "reverse": "reverse", "rev": "reverse",
}  # fmt: skip


class Derivative(Matrix):
    """The derivative of one node of a session by others; see `Session.derivative`.

    It belongs to the session as it was when it was asked for. It is computed when it
    is looked at: as an array (``np.asarray(d)``, `value`), as a two-dimensional
    `matrix`, in part by `window`, as a figure by `plot`.

    Attributes
    ----------
    of, wrt
        The ids of the nodes.
    path
        The ids of the nodes between them, both included.
    notes
        What is to be said of it, in words.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.sin(x)))(np.zeros(2)))
    >>> d = session.derivative("sin 1", "x")
    >>> d
    <Derivative ∂sin 1 / ∂x: (2, 2), reverse mode, 2 nodes on the path>
    >>> np.asarray(d)
    array([[1., 0.],
           [0., 1.]])
    >>> d.rank, d.window(rows=(0, 1))
    (2, array([[1., 0.]]))
    """

    #: What draws one; set by the floor that knows figures.
    plotter: ClassVar[Callable[..., Any] | None] = None

    def __init__(
        self,
        chosen: Chosen,
        sweeps: Sweeps,
        mode: Mode | None,
        path: list[int],
        notes: list[str],
    ) -> None:
        title = f"∂{chosen.label} / ∂{', '.join(chosen.labels)}"
        shapes = [x.shape for x in chosen.sources]
        super().__init__(
            sweeps,
            [(chosen.label, chosen.output.shape)],
            list(zip(chosen.labels, shapes, strict=True)),
            title,
            mode,
            chosen.labels_in_force(path),
        )
        self.of, self.wrt = chosen.of, chosen.wrt
        self.path, self.notes = path, notes
        #: The shape of what is differentiated, then that of the one node that it is
        #: differentiated by; of several the number of all their entries.
        self.shape = (
            *chosen.output.shape,
            *(shapes[0] if len(shapes) == 1 else (self.columns,)),
        )

    @property
    def value(self) -> Any:
        """All entries as an array of this `shape`.

        Raises
        ------
        UsageError
            If they are too many to be held.
        """
        return np.reshape(self.matrix, self.shape)

    @property
    def blocks(self) -> dict[str, Any]:
        """The derivative by each node under its name, in the shapes of both."""
        return dict(
            zip(
                [name for name, _ in self.column_parts],
                split(self.held(), self.row_parts, self.column_parts)[0],
                strict=True,
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = host(self.value)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a derivative of one number by one number has no length")
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def plot(self, window: Any = None) -> Any:
        """The heat map; see `workbench.plots.jacobian`."""
        return _plotter()(self, window)

    def __repr__(self) -> str:
        count = len(self.path)
        text = (
            f"<Derivative {self.title}: {self.shape}, {self.mode} mode, {count}"
            f" node{'s' * (count != 1)} on the path>"
        )
        said = [text[:-1], *filter(None, [self.caption]), *self.notes]
        return "; ".join(said) + ">"


class Second(Matrix):
    """The second derivative of a session's output: all blocks, one matrix."""

    def __init__(self, chosen: Chosen, sweeps: Sweeps) -> None:
        parts = [
            (label, x.shape)
            for label, x in zip(chosen.labels, chosen.sources, strict=True)
        ]
        title = f"∂²{chosen.label} / ∂({', '.join(chosen.labels)})²"
        path = between(chosen)
        force = chosen.labels_in_force(path)
        super().__init__(sweeps, parts, parts, title, overrides=force)
        self.of, self.wrt, self.path = chosen.of, chosen.wrt, path
        self.label = chosen.label

    def eigenvalues(self, progress: Any = None) -> tuple[Any, float]:
        """The eigenvalues of the symmetric part, smallest first, and the asymmetry.

        The asymmetry is the largest difference of an entry and its mirror image, by
        the largest entry: overrides, and rounding, make a Hessian asymmetric.

        Raises
        ------
        UsageError
            If the matrix is complex, or too large, or an entry is not finite.
        """
        if self.dtype.kind == "c":
            raise UsageError(
                f"{self.title} is complex: it is symmetric, not Hermitian, and its"
                " eigenvalues say nothing of curvature. Differentiate by the real and"
                " the imaginary part, or look at it as a heat map."
            )
        found = self.decomposable(progress).astype(np.float64)
        largest = float(np.max(np.abs(found), initial=0.0))
        away = float(np.max(np.abs(found - found.T), initial=0.0))
        values = np.linalg.eigvalsh(found / 2 + found.T / 2)
        return values, away / largest if largest else 0.0


def derivative(
    session: Session,
    of: Node | None,
    wrt: Iterable[Node] | Node | None,
    mode: str = "auto",
    overrides: bool = True,
) -> Derivative:
    """See `Session.derivative`."""
    if mode not in MODES:
        raise UsageError(
            f"derivative: mode={mode!r}. Write 'forward', 'reverse', or 'auto' for the"
            " cheaper."
        )
    chosen = Chosen(session, of, wrt)
    if not types.differentiable(chosen.output.dtype):
        raise DtypeError(
            f"{chosen.label} ({blame.describe(chosen.output)}"
            f"{blame.at(chosen.output.site)}) is of dtype {chosen.output.dtype}, and"
            " has no derivative. Choose a float value that it is computed from."
        )
    if not overrides:
        chosen.resolution = None
    path = between(chosen)
    notes = _notes(chosen, path)
    sweeps = Sweeps([chosen.output], chosen.sources, chosen.pulls(), chosen.pushes)
    return Derivative(chosen, sweeps, MODES[mode], path, notes)


def _notes(chosen: Chosen, path: list[int]) -> list[str]:
    """What is to be said of a derivative; or the error that there is none."""
    on_path = set(path)
    lost = [
        name
        for i, name in zip(chosen.wrt, chosen.labels, strict=True)
        if i not in on_path
    ]
    label, by = chosen.label, ", ".join(chosen.labels)
    if len(lost) == len(chosen.wrt):
        behind = {x.serial for x in walk.order(chosen.sources)}
        if chosen.output.serial in behind:
            raise DisconnectedInputError(
                f"{by} is computed from {label}, not the other way round, so {label}"
                f" has no derivative by {by}. Swap them:"
                f" {chosen.session}.derivative({chosen.labels[0]!r}, {label!r})."
            )
        raise DisconnectedInputError(
            f"{label} is not computed from {by}, nor the other way round: there is no"
            " path between them, and the derivative is zero. Choose two nodes that a"
            " path joins."
        )
    notes = []
    if lost:
        behind = {x.serial for x in walk.order([chosen.output])}
        through = any(
            x.serial in behind and i not in on_path
            for i, x in zip(chosen.wrt, chosen.sources, strict=True)
        )
        held = " while the others are held" if through else ""
        notes.append(f"{label} does not depend on {', '.join(lost)}{held}: zeros there")
    planned = steps.plan([chosen.output], chosen.sources, chosen.pulls())
    ends = {node.serial for node, _ in planned}
    if chosen.of not in chosen.wrt and chosen.output.serial not in ends:
        notes.append("every way passes an op without a derivative: zero everywhere")
    return notes


def second(session: Session, wrt: Iterable[Node] | Node | None) -> Second:
    """The Hessian of a session's output; with a seed, that of their product's sum."""
    chosen = Chosen(session, None, wrt)
    inner = [x.serial for x in chosen.sources if x.inputs]
    rules = dict(chosen.pulls() or {})
    if len(chosen.sources) > 1:
        rules.update(dict.fromkeys(inner, nothing))
    seed = chosen.seed
    if seed is None:
        seed = np.ones_like(chosen.output._value)
    with np.errstate(all="ignore"):  # the program itself has warned already
        made = reverse.pull_back(
            [chosen.output], [seed], chosen.sources, record=True, rules=rules or None
        )
    first = [
        np.zeros_like(x._value) if g is None else g
        for g, x in zip(made, chosen.sources, strict=True)
    ]
    sweeps = Sweeps(first, chosen.sources, rules, chosen.pushes, prefer="forward")
    return Second(chosen, sweeps)


def split(
    matrix: Any,
    rows: Iterable[tuple[str, tuple[int, ...]]],
    columns: Iterable[tuple[str, tuple[int, ...]]],
) -> list[list[Any]]:
    """The blocks of a matrix, each in the shapes of its row and column nodes."""
    found, top = [], 0
    columns = list(columns)
    for _, tall in rows:
        height = int(np.prod(tall, dtype=np.int64))
        left, row = 0, []
        for _, wide in columns:
            width = int(np.prod(wide, dtype=np.int64))
            block = matrix[top : top + height, left : left + width]
            row.append(np.reshape(block, (*tall, *wide)).copy())
            left += width
        found.append(row)
        top += height
    return found


def _plotter() -> Callable[..., Any]:
    if Derivative.plotter is None:
        raise UsageError("a derivative is drawn by workbench.plots: import workbench.")
    return Derivative.plotter
