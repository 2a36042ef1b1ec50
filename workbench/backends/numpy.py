"""The backend that is the definition: a graph runs op by op, as NumPy.

Nothing is compiled, so a `NumpyFunction` answers at once, however large its graph.
`NumpyFunction.source` is the same program as readable text (see `text.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from workbench.backends import text
from workbench.backends.text import Form
from workbench.core import blame, dims
from workbench.core.deferred import base_op
from workbench.core.dims import Dim, Length
from workbench.core.graph import Graph, inline
from workbench.core.schedule import Observer, Schedule, compute_node
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError, UsageError

# What was inferred of unknown lengths, checked while a program runs.
#
# NumPy itself checks most: operands that do not fit, shapes that hold too few entries.
# What it cannot know is which lengths a symbol was declared with, and what was found
# out about an op by asking it at a few lengths. Both are compared once per node; a
# program without unknown lengths has no checks.

#: What is known of lengths in one run, by the key of an atom.
Known = dict[Any, int]
#: A place in a shape, and its length: what it must be, or what it tells.
Look = tuple[int | None, int, Any]


class Checks:
    """Which shapes tell or are compared, when."""

    def __init__(
        self, inputs: list[tuple[int, Tensor, list[Look]]], steps: dict[int, list[Look]]
    ) -> None:
        self.inputs = inputs
        self.steps = steps

    def start(self, arrays: Sequence[Any]) -> Known:
        """Return the lengths that the inputs tell.

        Raises
        ------
        ShapeError
            If they contradict what was declared.
        """
        known: Known = {}
        for i, x, looks in self.inputs:
            _check_shape(x, arrays[i], looks, known)
        return known

    def observe(self, lengths: Known, observer: Observer | None) -> Observer:
        """Return an observer of one run that checks the result of each step."""
        run, looks_at = observer or compute_node, self.steps.get

        def look(node: Tensor, operands: tuple[Any, ...]) -> Any:
            made = run(node, operands)
            if (looks := looks_at(node.serial)) is not None:
                _check_shape(node, made, looks, lengths)
            return made

        return look


def find_checks(graph: Graph, nodes: Sequence[Tensor]) -> Checks | None:
    """Return the checks of a program; None if all lengths are known."""
    every = chain(graph.leaves, nodes)
    if not any(dims.has_dim(spec.shape) for x in every for spec in _specs(x)):
        return None
    told: set[Any] = set()
    inputs = []
    for i, x in enumerate(graph.leaves):
        looks = _plan_looks(x, told, trusted=False)
        if looks:
            inputs.append((i, x, looks))
    steps = {}
    needed = _find_needed_lengths(nodes)
    for node in nodes:
        op = base_op(node)
        has_rule = op.lengths is not None or op.infer is not None
        trusted = op.elementwise or (has_rule and not op.custom)
        looks = _plan_looks(node, told, trusted=trusted)
        # What nobody compares with need not be measured.
        looks = [x for x in looks if not isinstance(x[2], tuple) or x[2] in needed]
        if looks:
            steps[node.serial] = looks
    return Checks(inputs, steps) if inputs or steps else None


def _find_needed_lengths(nodes: Sequence[Tensor]) -> set[Any]:
    """Return the lengths of nodes that shapes of other nodes name."""
    found: set[Any] = set()
    for node in nodes:
        for n in chain.from_iterable(spec.shape for spec in _specs(node)):
            alone = n.atom if isinstance(n, Dim) else None
            if isinstance(n, Dim) and not (
                isinstance(alone, Length) and alone.tensor is node
            ):
                found.update(_lengths_in(n))
    return found


def _specs(node: Tensor) -> tuple[Any, ...]:
    """Return the specs of a node's outputs; none if the node has a value."""
    spec: Any = node.spec if node._value is None else ()
    return spec if isinstance(spec, tuple) else (spec,)


def _plan_looks(node: Tensor, checked: set[Any], *, trusted: bool) -> list[Look]:
    """Return the places to read in the shape of a node with unknown lengths."""
    specs = _specs(node)
    many = node._value is None and isinstance(node.spec, tuple)
    found: list[Look] = []
    unknown = any(isinstance(n, Dim) for spec in specs for n in spec.shape)
    for part, spec in enumerate(specs) if unknown else ():
        for axis, n in enumerate(spec.shape):
            place = part if many else None
            if not isinstance(n, Dim):
                if not trusted:
                    found.append((place, axis, n))
                continue
            alone = n.atom
            if isinstance(alone, Length) and alone.key not in checked:
                checked.add(alone.key)
                found.append((place, axis, alone.key))
            elif not trusted and checked.issuperset(_lengths_in(n)):
                found.append((place, axis, n))
    return found


def _lengths_in(n: Dim) -> Iterator[Any]:
    """Yield the keys of the lengths of Tensors that a length is made of."""
    return (a.key for a in dims.atoms_of(n) if isinstance(a, Length))


def _check_shape(node: Tensor, value: Any, looks: list[Look], lengths: Known) -> None:
    for part, axis, n in looks:
        held = value if part is None else value[part]
        shape = getattr(held, "shape", ())
        whole: Any = node.spec
        spec = whole if part is None else whole[part]
        if len(shape) != len(spec.shape):
            raise _mismatch_error(node, spec, shape, lengths)
        have = shape[axis]
        if type(n) is tuple:
            lengths[n] = have
        elif have != (n.replace(lambda a: lengths.get(a.key)) if type(n) is Dim else n):
            raise _mismatch_error(node, spec, shape, lengths)


def _mismatch_error(node: Tensor, spec: Any, shape: Any, lengths: Known) -> ShapeError:
    atoms = {
        a.key: f"{a} = {lengths[a.key]}"
        for a in dims.atoms_of(spec.shape)
        if a.key in lengths
    }
    where = f" ({', '.join(atoms.values())})" if atoms else ""
    cure = "Give arrays of the lengths that the symbols were declared with."
    return ShapeError(
        f"{blame.describe(node)}{blame.quote_site(node.site)} came out with shape"
        f" {tuple(shape)}, and was to have {spec}{where}. {cure}"
    )


def describe_operands(node: Tensor) -> str:
    """Return the declared specs of operands with unknown lengths, as text."""
    shown = []
    for x in node.inputs:
        if (
            isinstance(x, Tensor)
            and x._value is None
            and _plan_looks(x, set(), trusted=True)
        ):
            name = f"{x.name!r} " if x.name else ""
            shown.append(f"{name}{x.spec}")
    return f" The operands: {', '.join(shown)}." if shown else ""


# The function of a graph


class NumpyFunction:
    """A graph that runs: ``function(*arrays) -> [outputs]``.

    It takes one array per input of the graph, in order, and returns one per
    output. Compute follows data: CuPy arrays in, CuPy arrays out.

    Attributes
    ----------
    graph
        What it computes.
    schedule
        In which order, and in which slots.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x, y: np.sin(x) * y)(np.zeros(2), 3.0)
    >>> function = compile(graph)
    >>> function(np.array([0.0, np.pi / 2]), 2.0)
    [array([0., 2.])]
    >>> print(function.source)
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def function(x, y):
        return np.sin(x) * y
    """

    def __init__(self, graph: Graph, own: bool = False) -> None:
        self.schedule = Schedule(graph.leaves, graph.outputs, whole=True, own=own)
        if any(step.node.op.inline for step in self.schedule.steps):
            graph = inline(graph)
            self.schedule = Schedule(graph.leaves, graph.outputs, whole=True, own=own)
        self.graph = graph
        self._checks = find_checks(graph, [step.node for step in self.schedule.steps])

    #: What runs it: nothing is waited for.
    backend = "numpy"

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the outputs for these inputs."""
        return self.run(arrays)

    def is_ready(self) -> bool:
        """Return True: nothing is compiled."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Return True at once: nothing is compiled."""
        return True

    def release(self) -> None:
        """Do nothing: no memory is kept between calls."""

    def run_ready(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Return None: NumPy's results may share memory with other arrays."""

    def run(self, arrays: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for these inputs; an observer as for `Graph.run`."""
        if len(arrays) != len(self.schedule.inputs):
            names = ", ".join(self.graph.label(x) for x in self.graph.leaves)
            raise UsageError(
                f"the function takes {len(self.schedule.inputs)} arrays ({names}), not"
                f" {len(arrays)}."
            )
        if self._checks is None:
            return self.schedule.run(arrays, observer)
        known = self._checks.start(arrays)
        if self._checks.steps:
            observer = self._checks.observe(known, observer)
        try:
            return self.schedule.run(arrays, observer)
        except ShapeError as error:
            if error.node is not None:
                error.args = (f"{error}{describe_operands(error.node)}",)
            raise

    @cached_property
    def _text(self) -> text.Text:
        return self.text()

    def text(self, form: Form | None = None) -> text.Text:
        """Return the program as NumPy code, in a form of the caller's."""
        steps = [step.node for step in self.schedule.steps]
        return text.write_text(self.graph, steps, form)

    @property
    def source(self) -> str:
        """The program as NumPy code, to run with ``constants`` as its globals."""
        return self._text.source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the text of the program names but cannot spell out."""
        return self._text.constants


def compile(graph: Graph, own: bool = False) -> NumpyFunction:
    """Return the graph as a function; at once, in time linear in its size.

    With ``own`` it has a copy of each constant, which others may then write into.
    """
    return NumpyFunction(graph, own)
