"""`Derivative`: one node of a session by others, and second derivatives.

`Endpoints` are the output and the inputs of a derivative, checked before it is
computed. A `Derivative` and a `SecondDerivative` are computed when they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from workbench.autodiff import reverse, steps
from workbench.autodiff.linear_map import MODES, LinearMap, Mode
from workbench.autodiff.sparse.pattern import SparsityPattern
from workbench.autodiff.sparse.propagation import (
    find_hessian_pattern,
    find_jacobian_pattern,
)
from workbench.checks.doctor.zeros import explain_zeros
from workbench.checks.progress import CheckStopped, Progress
from workbench.checks.statistics import to_host
from workbench.core import blame, hooks, types, walk
from workbench.core.blame import format_count
from workbench.core.tensor import Tensor, value_of
from workbench.errors import DisconnectedInputError, DtypeError, UsageError
from workbench.ops import define
from workbench.overrides.resolution import Resolution
from workbench.overrides.targets import ByNode
from workbench.session.applied_override import format_target
from workbench.session.matrix import Matrix
from workbench.session.nodes import Node, check_one_array, is_node, to_list
from workbench.session.stages import Values
from workbench.session.state import State

Array = np.ndarray[Any, Any]

#: The most rows of a matrix that is made for its largest eigenvalues: quicker there.
SMALL_MATRIX = 32


class Endpoints:
    """The output and the inputs of a derivative, checked before it is computed.

    Raises
    ------
    UsageError
        If there is nothing to differentiate by, a node has several arrays, or the
        session has no values.
    DtypeError
        If one of them is of integer dtype.
    """

    def __init__(
        self, state: State, of: Node | None, wrt: Iterable[Node] | Node | None
    ) -> None:
        objective, nodes = state.objective, state.forward.graph.nodes
        names, find = objective.nodes.labels, objective.nodes.find
        self.forward, self.resolution = state.forward, state.resolution
        self.ids: Mapping[int, int] = self.forward.ids
        self.seed = objective.seed
        self.session, self._nodes = objective.nodes.session, objective.nodes
        self.single = wrt is not None and is_node(wrt)
        nodes_given = [] if wrt is None else to_list(wrt)
        requested = objective.wrt if wrt is None else [find(x) for x in nodes_given]
        self.wrt = list(dict.fromkeys(requested))
        self.of = objective.output if of is None else find(of)
        self.label, self.labels = names[self.of], [names[i] for i in self.wrt]
        self.output: Tensor = nodes[self.of]
        self.sources: list[Tensor] = [nodes[i] for i in self.wrt]
        if not self.sources:
            raise UsageError(
                f"the derivative of {self.label} needs an input, but wrt is empty. Name"
                f" a node that {self.label} is computed from."
            )
        for node, name in zip(
            (self.output, *self.sources), (self.label, *self.labels), strict=True
        ):
            check_one_array(node, nodes, names)
            if node._value is None:
                raise UsageError(
                    f"{name} has no value: session {self.session!r} was traced without"
                    f" values, and a derivative needs them. Pass all inputs to"
                    f" {self.session}.run(...)."
                )
        for node, name in zip(self.sources, self.labels, strict=True):
            if not types.is_differentiable(node.dtype):
                raise DtypeError(
                    f"{name} is of dtype {node.dtype}, and there is no derivative by"
                    f" integers. Write {name}.astype(float) in the program, or choose"
                    " a float node."
                )

    def make_linear_map(
        self, outputs: Sequence[Any] = (), **settings: Any
    ) -> LinearMap:
        """Return the derivative of the output, or of others, by the sources.

        A source that is computed from another stays constant while the other varies.
        """
        return LinearMap(
            outputs or [self.output],
            self.sources,
            self.resolution,
            self.constant_sources,
            **settings,
        )

    @property
    def constant_sources(self) -> list[Tensor]:
        """The sources that are computed, and constant while the others vary."""
        return [x for x in self.sources if x.inputs and len(self.sources) > 1]

    def plan_sweep(self) -> list[tuple[Tensor, int]]:
        """Return the steps of a sweep from the output to the sources."""
        rules = None if self.resolution is None else self.resolution.rules
        return steps.plan_steps([self.output], self.sources, rules)

    def list_active(self, path: Iterable[int]) -> tuple[str, ...]:
        """Return the overrides that are active on a path, as ``stop at h``."""
        if self.resolution is None:
            return ()
        active = find_active(self.resolution, self.forward, path, self.sources)
        found = [self.resolution.overrides[k] for k in active]
        return tuple(
            f"{one.label} {'at' if isinstance(one.target, ByNode) else 'on'}"
            f" {format_target(one.target, self._nodes, one.steps)}"
            for one in found
        )

    def explain_zeros(self, outputs: Sequence[Any] = ()) -> str:
        """Return why the derivative of the output, or of others, is zero."""
        rules = None if self.resolution is None else self.resolution.rules
        return explain_zeros(
            outputs or [self.output],
            self.sources,
            rules,
            self.name_node,
            self.constant_sources,
        )

    def name_node(self, node: Tensor) -> str:
        """Return the label of a node; of one that is inside another its own name."""
        i = self.ids.get(node.serial)
        return node.name or node.op.name if i is None else self._nodes.labels[i]


def _can_flow(x: Tensor) -> bool:
    """Return whether a derivative may flow through a node."""
    return define.output_values(x) is not None or types.is_differentiable(x.dtype)


def find_path(endpoints: Endpoints) -> list[int]:
    """Return the ids of the nodes on the paths from ``wrt`` to ``of``, both included.

    A path through an op without derivative, such as a comparison, does not count. If
    there is no other path, all of them count.
    """
    stops = {x.serial for x in endpoints.sources}
    needed = walk.order_nodes([endpoints.output], min(stops), stops)
    known = {x.serial for x in needed}
    reached = walk.find_dependents(
        needed, [x for x in endpoints.sources if x.serial in known]
    )
    flows = {endpoints.output.serial}
    for node, mask in reversed(endpoints.plan_sweep()):
        if node.serial in flows and node.serial not in stops:
            for k, x in enumerate(node.inputs):
                if mask >> k & 1 and _can_flow(x):
                    flows.add(x.serial)
    if flows & stops:
        reached &= flows
    return [endpoints.ids[x.serial] for x in needed if x.serial in reached]


def find_active(
    resolution: Resolution | None,
    forward: Values,
    path: Iterable[int],
    sources: Iterable[Tensor],
) -> list[int]:
    """Return the positions of the overrides with rules that run on a path, in order.

    ``path`` holds the ids of the nodes between ``sources`` and the output node. A
    source's own rule does not run, nor that of a part that holds one inside.
    """
    if resolution is None:
        return []
    stops, parts = {x.serial for x in sources}, resolution.parts
    on = set(path) - {forward.ids[serial] for serial in stops}
    return sorted(
        {
            k
            for serial, (k, node) in resolution.winners.items()
            if not (serial in parts and stops & parts[serial].inside)
            and not on.isdisjoint(forward.find_ids(node))
        }
    )


class Derivative(Matrix):
    """The derivative of one node of a session by others; see `Session.derivative`.

    It belongs to the state of the session in which it was made. It is computed when it
    is used: as an array (``np.asarray(d)``, `value`), as a two-dimensional
    `matrix`, in part by `window`, as a figure by `plot`; as a sparse array by
    `to_scipy`. `sparsity`, where entries can differ from zero, needs no computation.

    Attributes
    ----------
    of, wrt
        The ids of the nodes.
    path
        The ids of the nodes between them, both included.
    notes
        Notes on it as text.

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
    >>> d.sparsity, d.colouring.count
    (<SparsityPattern 2×2, 2 nonzeros, density 0.5>, 1)
    """

    def __init__(
        self,
        endpoints: Endpoints,
        mode: Mode | None,
        path: list[int],
        notes: list[str],
        left_out: Sequence[str] = (),
    ) -> None:
        title = f"∂{endpoints.label} / ∂{', '.join(endpoints.labels)}"
        shapes = [x.shape for x in endpoints.sources]
        super().__init__(
            endpoints.make_linear_map(),
            [(endpoints.label, endpoints.output.shape)],
            list(zip(endpoints.labels, shapes, strict=True)),
            title,
            mode,
            endpoints.list_active(path),
            left_out,
        )
        self.of, self.wrt = endpoints.of, endpoints.wrt
        self.path, self.notes = path, notes
        self._endpoints = endpoints
        #: The shape of the output node, then that of the input node; of several input
        #: nodes the number of all their entries.
        self.shape = (
            *endpoints.output.shape,
            *(shapes[0] if len(shapes) == 1 else (self.columns,)),
        )

    @cached_property
    def zero_reason(self) -> str:
        """Why all entries are zero, if they are."""
        return self._endpoints.explain_zeros()

    def _find_structure(self) -> SparsityPattern:
        endpoints = self._endpoints
        return find_jacobian_pattern([endpoints.output], endpoints.sources)

    @property
    def value(self) -> Any:
        """All entries as an array of this `shape`.

        Raises
        ------
        UsageError
            If they are too many for memory.
        """
        return np.reshape(self.matrix, self.shape)

    @property
    def blocks(self) -> dict[str, Any]:
        """The derivative by each node under its name, in the shapes of both."""
        return dict(
            zip(
                [name for name, _ in self.column_parts],
                split_blocks(self.compute_all(), self.row_parts, self.column_parts)[0],
                strict=True,
            )
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = to_host(self.value)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a derivative of one number by one number has no length")
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def plot(self, window: Any = None) -> Any:
        """Return the heat map; see `workbench.plots.jacobian`."""
        return hooks.show(self, window)

    def __repr__(self) -> str:
        text = (
            f"<Derivative {self.title}: {self.shape}, {self.mode} mode,"
            f" {format_count(len(self.path), 'node')} on the path>"
        )
        said = [text[:-1], *filter(None, [self.caption]), *self.notes]
        return "; ".join(said) + ">"


class SecondDerivative(Matrix):
    """The second derivative of a session's output: all blocks, one matrix."""

    def __init__(
        self,
        endpoints: Endpoints,
        first: Sequence[Any],
        left_out: Sequence[str] = (),
    ) -> None:
        linear = endpoints.make_linear_map(first, prefer="forward")
        parts = [
            (label, x.shape)
            for label, x in zip(endpoints.labels, endpoints.sources, strict=True)
        ]
        title = f"∂²{endpoints.label} / ∂({', '.join(endpoints.labels)})²"
        path = find_path(endpoints)
        force = endpoints.list_active(path)
        super().__init__(linear, parts, parts, title, None, force, left_out)
        self.of, self.wrt, self.path = endpoints.of, endpoints.wrt, path
        self.label = endpoints.label
        self._endpoints, self._first = endpoints, first

    @property
    def is_symmetric(self) -> bool:
        """True if no override is in force, since overrides can break the symmetry."""
        return self.has_structure

    def _find_structure(self) -> SparsityPattern:
        return find_hessian_pattern(self._endpoints.output, self._endpoints.sources)

    @cached_property
    def zero_reason(self) -> str:
        """Why all entries are zero, if they are."""
        endpoints, by = self._endpoints, ", ".join(self._endpoints.labels)
        if not any(np.any(value_of(g) != 0) for g in self._first):
            return f"the gradient is zero: {endpoints.explain_zeros()}"
        reason = endpoints.explain_zeros(self._first)
        if reason:
            return reason
        return f"the gradient by {by} does not depend on {by}: it is constant"

    def _refuse_complex(self) -> None:
        if self.dtype.kind == "c":
            raise UsageError(
                f"{self.title} is complex: it is symmetric, not Hermitian, and its"
                " eigenvalues do not describe curvature. Differentiate by the real and"
                " the imaginary part, or look at it as a heat map."
            )

    def eigenvalues(self, progress: Any = None) -> tuple[Any, float]:
        """Return the symmetric part's eigenvalues, smallest first, and the asymmetry.

        The asymmetry is the largest difference of an entry and its mirror image, by
        the largest entry: overrides, and rounding, make a Hessian asymmetric.

        Raises
        ------
        UsageError
            If the matrix is complex, or too large, or an entry is not finite.
        """
        self._refuse_complex()
        found = self.compute_decomposable(progress).astype(np.float64)
        largest = float(np.max(np.abs(found), initial=0.0))
        asymmetry = float(np.max(np.abs(found - found.T), initial=0.0))
        values = np.linalg.eigvalsh(found / 2 + found.T / 2)
        return values, asymmetry / largest if largest else 0.0

    @np.errstate(all="ignore")  # the program itself has warned already
    def largest_eigenvalues(
        self, count: int, progress: Progress | None = None
    ) -> tuple[Array, Array]:
        """Return the eigenvalues of largest magnitude and their vectors.

        By Lanczos' method (`scipy.sparse.linalg.eigsh`), which multiplies the symmetric
        part with vectors: the matrix itself is never made.

        Parameters
        ----------
        count
            How many; of a matrix of fewer rows all of them.
        progress
            Called before each product with their number and a guess of all; if it
            returns true, the search stops.

        Returns
        -------
        The values by falling magnitude, of shape ``(count,)``, and the vectors of
        length 1, of shape ``(count, rows)``, in float64.

        Raises
        ------
        UsageError
            If the matrix is complex, or a product is not finite.
        CheckStopped
            If ``progress`` stops it.
        """
        self._refuse_complex()
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        done = 0

        def multiply(vector: Array) -> Array:
            nonlocal done
            if progress is not None and progress(done, max(4 * count, done + 1)):
                raise CheckStopped
            done += 1
            vector = vector.reshape(-1).astype(self.dtype)
            sides = self.column_parts, self.row_parts
            found = to_host(self._multiply(vector, self._linear.push, *sides))
            if not self.is_symmetric:
                back = to_host(self._multiply(vector, self._linear.pull, *sides))
                found = (found + back) / 2
            if not np.all(np.isfinite(found)):
                raise UsageError(
                    f"{self.title} has entries that are not finite: it has no"
                    " eigenvalues. Call session.diagnose() to find where they come"
                    " from."
                )
            return found.astype(np.float64)

        size = self.rows
        if size <= max(count + 1, SMALL_MATRIX):
            found = self.compute_decomposable(progress).astype(np.float64)
            values, columns = np.linalg.eigh((found + found.T) / 2)
        else:
            start = np.random.default_rng(0).standard_normal(size)
            if not np.any(multiply(start)):  # the method needs something to turn
                return np.zeros(count), np.eye(count, size)
            # SciPy's stubs know no operator without a matrix.
            operator: Any = LinearOperator((size, size), multiply, dtype=np.float64)
            try:
                values, columns = eigsh(operator, count, which="LM", v0=start)
            except ArpackNoConvergence as error:
                values, columns = error.eigenvalues, error.eigenvectors
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return values[order], columns.T[order]


def make_derivative(
    state: State,
    of: Node | None = None,
    wrt: Iterable[Node] | Node | None = None,
    *,
    mode: Literal["auto", "forward", "reverse"] = "auto",
    overrides: bool = True,
) -> Derivative:
    """Return the derivative of any node by others, computed only when used.

    See `Session.derivative`.
    """
    if mode not in MODES:
        raise UsageError(
            f"derivative: mode={mode!r}. Write 'forward', 'reverse', or 'auto' for the"
            " cheaper."
        )
    endpoints = Endpoints(state, of, wrt)
    if not types.is_differentiable(endpoints.output.dtype):
        raise DtypeError(
            f"{endpoints.label} ({blame.describe(endpoints.output)}"
            f"{blame.quote_site(endpoints.output.site)}) is of dtype"
            f" {endpoints.output.dtype}, and has no derivative. Choose a float value"
            " that it is computed from."
        )
    left_out = () if overrides else leave_out_overrides(endpoints)
    path = find_path(endpoints)
    notes = _make_notes(endpoints, path)
    return Derivative(endpoints, MODES[mode], path, notes, left_out)


def leave_out_overrides(endpoints: Endpoints) -> tuple[str, ...]:
    """Leave out the overrides of a derivative; return those that were active."""
    left_out = endpoints.list_active(find_path(endpoints))
    endpoints.resolution = None
    return left_out


def _make_notes(endpoints: Endpoints, path: list[int]) -> list[str]:
    """Return notes on a derivative; raise an error if there is none."""
    on_path = set(path)
    missing = [
        name
        for i, name in zip(endpoints.wrt, endpoints.labels, strict=True)
        if i not in on_path
    ]
    label, by = endpoints.label, ", ".join(endpoints.labels)
    if len(missing) == len(endpoints.wrt):
        behind = {x.serial for x in walk.order_nodes(endpoints.sources)}
        if endpoints.output.serial in behind:
            raise DisconnectedInputError(
                f"{by} is computed from {label}, not the other way round, so {label}"
                f" has no derivative by {by}. Swap them:"
                f" {endpoints.session}.derivative({endpoints.labels[0]!r}, {label!r})."
            )
        raise DisconnectedInputError(
            f"{label} is not computed from {by}, nor the other way round: there is no"
            " path between them, and the derivative is zero. Choose two nodes with a"
            " path between them."
        )
    notes = []
    if missing:
        behind = {x.serial for x in walk.order_nodes([endpoints.output])}
        through = any(
            x.serial in behind and i not in on_path
            for i, x in zip(endpoints.wrt, endpoints.sources, strict=True)
        )
        held = " while the others are held" if through else ""
        notes.append(
            f"{label} does not depend on {', '.join(missing)}{held}: zeros there"
        )
    ends = {node.serial for node, _ in endpoints.plan_sweep()}
    if endpoints.of not in endpoints.wrt and endpoints.output.serial not in ends:
        notes.append(f"zero everywhere: {endpoints.explain_zeros()}")
    return notes


def make_second_derivative(
    state: State,
    wrt: Iterable[Node] | Node | None,
    *,
    overrides: bool = True,
) -> SecondDerivative:
    """Return the Hessian of a session's output; with a seed, of their product's sum."""
    endpoints = Endpoints(state, None, wrt)
    left_out = () if overrides else leave_out_overrides(endpoints)
    seed = endpoints.seed
    if seed is None:
        seed = np.ones_like(endpoints.output._value)
    with np.errstate(all="ignore"):  # the program itself has warned already
        made = endpoints.make_linear_map(record=True).pull([seed])
    reverse.refuse_nulls(made, endpoints.sources)
    first = [
        np.zeros_like(x._value) if g is None else g
        for g, x in zip(made, endpoints.sources, strict=True)
    ]
    return SecondDerivative(endpoints, first, left_out)


def split_blocks(
    matrix: Any,
    rows: Iterable[tuple[str, tuple[int, ...]]],
    columns: Iterable[tuple[str, tuple[int, ...]]],
) -> list[list[Any]]:
    """Split a matrix into blocks, each in the shapes of its row and column nodes."""
    blocks, top = [], 0
    columns = list(columns)
    for _, tall in rows:
        height = int(np.prod(tall, dtype=np.int64))
        left, row = 0, []
        for _, wide in columns:
            width = int(np.prod(wide, dtype=np.int64))
            block = matrix[top : top + height, left : left + width]
            row.append(np.reshape(block, (*tall, *wide)).copy())
            left += width
        blocks.append(row)
        top += height
    return blocks


# Derivatives as arrays. The program has warned already of what is not finite.


@np.errstate(all="ignore")
def compute_jacobian(
    state: State,
    of: Node | None = None,
    wrt: Iterable[Node] | Node | None = None,
    *,
    overrides: bool = True,
) -> Any:
    """Return the derivative of any node by others, overrides applied.

    See `Session.jacobian`.
    """
    endpoints = Endpoints(state, of, wrt)
    if not overrides:
        endpoints.resolution = None
    linear = endpoints.make_linear_map()
    spans = (0, linear.row_starts[-1]), (0, linear.column_starts[-1])
    entries = linear.matrix(*spans, linear.choose_window_mode(*spans))
    shapes = [("", x.shape) for x in endpoints.sources]
    blocks = split_blocks(entries, [("", endpoints.output.shape)], shapes)
    return _name_results(endpoints, blocks[0])


@np.errstate(all="ignore")
def compute_hessian(
    state: State,
    wrt: Iterable[Node] | Node | None = None,
    *,
    overrides: bool = True,
) -> Any:
    """Return the second derivative of the output, overrides applied.

    See `Session.hessian`.
    """
    endpoints = Endpoints(state, None, wrt)
    found = make_second_derivative(state, wrt, overrides=overrides)
    blocks = split_blocks(found.compute_all(), found.row_parts, found.column_parts)
    return _name_results(endpoints, [_name_results(endpoints, row) for row in blocks])


def _name_results(endpoints: Endpoints, results: Sequence[Any]) -> Any:
    """Return one result for one node; a dict by name for several."""
    if endpoints.single:
        return results[0]
    return dict(zip(endpoints.labels, results, strict=True))
